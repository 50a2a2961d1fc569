"""
Requests of Amazon Bedrock's ConverseStream and Converse.

Choices: what Converse has no field for but a model may know (`top_k`, thinking) goes into `additionalModelRequestFields`, in the words of Anthropic's models,
the only ones that document it there. Thinking goes back with its signature, redacted thinking as it came. A file's name is part of the protocol and
may hold neither dots nor other signs: it is made of the file's stem.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any
from urllib.parse import quote

from rxchat.errors import ConfigurationError
from rxchat.outgoing.addresses import endpoint
from rxchat.outgoing.common import (
    ModelCall,
    WireRequest,
    drop_none,
    known_tool,
    merge_extra,
    refuse_media,
    refuse_options,
    schema_of,
    split_system,
    whole_arguments,
)
from rxchat.prompt import Message, RequestOptions, Role, ToolSpec
from rxchat.response import MediaPart, Part, RedactedThinkingPart, ServerToolPart, TextPart, ThinkingPart, ToolCall, ToolResultPart
from rxchat.strictjson import dumps, loads

__all__ = ["build", "converse_body"]

NAME = "bedrock-converse"
# The service names formats by its own words; these are the ones that are not the second half of the media type.
FORMATS = {
    "application/msword": "doc",
    "application/vnd.openxmlformats-officedocument.wordprocessingml.document": "docx",
    "application/vnd.ms-excel": "xls",
    "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet": "xlsx",
    "text/plain": "txt",
    "text/markdown": "md",
    "audio/mpeg": "mp3",
    "audio/x-wav": "wav",
    "video/quicktime": "mov",
    "video/x-matroska": "mkv",
    "video/3gpp": "three_gp",
}
KINDS = {"image": "image", "file": "document", "audio": "audio", "video": "video"}


def build(call: ModelCall) -> WireRequest:
    """
    POST {base_url}/model/{model}/converse-stream (or /converse), to be signed for AWS unless a key is given, which goes as a bearer token.

    ConfigurationError for seed, penalties, parallel_tool_calls, plain JSON mode and `tool_choice` "none", which this protocol has no field for.
    """
    verb = "converse-stream" if call.request.stream else "converse"
    url = endpoint(call.base_url, f"/model/{quote(call.model, safe='')}/{verb}")
    return signed_request(call, url, merge_extra(converse_body(call, NAME), call.request.extra))


def signed_request(call: ModelCall, url: str, body: Mapping[str, Any]) -> WireRequest:
    """
    A request to the Bedrock runtime: AWS takes a signature, or an API key of its own as a bearer token.
    """
    headers = {"content-type": "application/json"} | ({"authorization": f"Bearer {call.api_key}"} if call.api_key else {})
    return WireRequest(url, body, headers | dict(call.request.extra_headers), auth=None if call.api_key else "sigv4")


def converse_body(call: ModelCall, dialect: str) -> dict[str, Any]:
    """
    The body of Converse, which Nova takes by InvokeModel too; `dialect` is named in refusals.
    """
    refuse_options(call, dialect, "seed", "presence_penalty", "frequency_penalty", "parallel_tool_calls")
    if call.request.response_format == "json":
        raise ConfigurationError(f"{dialect} has no plain JSON mode; give a JsonSchema")
    system, messages = split_system(call.messages)
    body: dict[str, Any] = {"system": [{"text": system}]} if system else {}
    body["messages"] = list(_turns(messages, dialect))
    config = _inference(call.request)
    if config:
        body["inferenceConfig"] = config
    return body | _tools(call, dialect) | _format(call.request) | _model_fields(call.request)


def _inference(request: RequestOptions) -> dict[str, Any]:
    return drop_none(maxTokens=request.max_tokens, temperature=request.temperature, topP=request.top_p, stopSequences=list(request.stop) or None)


def _model_fields(request: RequestOptions) -> dict[str, Any]:
    fields = drop_none(top_k=request.top_k)
    if request.reasoning_budget is not None:
        fields["thinking"] = {"type": "enabled", "budget_tokens": request.reasoning_budget}
    elif request.reasoning_effort == "none":
        fields["thinking"] = {"type": "disabled"}
    elif request.reasoning_effort is not None:
        fields["thinking"] = {"type": "adaptive"}
    if request.reasoning_effort not in (None, "none"):
        fields["output_config"] = {"effort": request.reasoning_effort}
    return {"additionalModelRequestFields": fields} if fields else {}


def _format(request: RequestOptions) -> dict[str, Any]:
    schema = schema_of(request.response_format)
    if schema is None:
        return {}
    said = drop_none(schema=dumps(schema.schema), name=schema.name, description=schema.description)
    return {"outputConfig": {"textFormat": {"type": "json_schema", "structure": {"jsonSchema": said}}}}


def _tools(call: ModelCall, dialect: str) -> dict[str, Any]:
    choice = call.request.tool_choice
    if not call.tools:
        refuse_options(call, f"{dialect} without tools", "tool_choice")
        return {}
    if choice == "none":
        raise ConfigurationError(f"{dialect} cannot be told to call none of its tools; leave the tools out")
    kinds: dict[str, dict[str, Any]] = {"auto": {"auto": {}}, "required": {"any": {}}}
    wire: dict[str, Any] = {"tools": [_tool(tool, dialect) for tool in call.tools]}
    if choice is not None:
        wire["toolChoice"] = kinds.get(choice) or {"tool": {"name": known_tool(choice, call.tools).name}}
    return {"toolConfig": wire}


def _tool(tool: ToolSpec, dialect: str) -> dict[str, Any]:
    if tool.kind != "function":
        raise ConfigurationError(f"{dialect} has no free-form tools: {tool.name}")
    described = drop_none(name=tool.name, description=tool.description or None)
    return {"toolSpec": described | {"inputSchema": {"json": dict(tool.parameters)}} | drop_none(strict=tool.strict)}


# --- messages -------------------------------------------------------------------------------------------------------------------------------------


def _turns(messages: tuple[Message, ...], dialect: str) -> Iterator[dict[str, Any]]:
    """
    Messages as turns of user and assistant; neighbours of one side are one turn.
    """
    side, blocks = "", list[dict[str, Any]]()
    for message in messages:
        speaker = "assistant" if message.role is Role.ASSISTANT else "user"
        if blocks and speaker != side:
            yield {"role": side, "content": blocks}
            blocks = []
        side = speaker
        for part in message.parts:
            blocks += _said(part) if speaker == "assistant" else [_asked(part, dialect)]
    if blocks:
        yield {"role": side, "content": blocks}


def _asked(part: Part, dialect: str) -> dict[str, Any]:
    if isinstance(part, TextPart):
        return {"text": part.text}
    if isinstance(part, ToolResultPart):
        wire = {"toolUseId": part.call_id, "content": _result(part.result, dialect)}
        return {"toolResult": wire | ({"status": "error"} if part.is_error else {})}
    if isinstance(part, MediaPart):
        return _media(part, dialect)
    raise refuse_media(dialect, type(part).__name__, "a user message holds text, media and tool results")


def _result(result: Any, dialect: str) -> list[dict[str, Any]]:
    if isinstance(result, str):
        return [{"text": result}]
    if isinstance(result, (list, tuple)) and any(isinstance(item, (TextPart, MediaPart)) for item in result):
        return [_asked(item, dialect) for item in result]
    return [{"json": dict(result)}] if isinstance(result, Mapping) else [{"text": dumps(result)}]


def _media(part: MediaPart, dialect: str) -> dict[str, Any]:
    kind = KINDS.get(part.kind)
    if kind is None or part.mime is None:
        raise refuse_media(dialect, f"{part.kind} as {part.mime or 'something without a mime type'}")
    source: dict[str, Any] = {"bytes": part.data}
    if part.data is None:
        if not (part.url or "").startswith("s3://"):
            raise refuse_media(dialect, f"{part.kind} by URL", "it takes data, or an address in S3")
        source = {"s3Location": {"uri": part.url}}
    wire: dict[str, Any] = {"format": FORMATS.get(part.mime) or part.mime.partition("/")[2]}
    if kind == "document":
        wire["name"] = _plain_name(part.name)
    return {kind: wire | {"source": source}}


def _plain_name(name: str | None) -> str:
    """
    Letters, digits, single spaces, hyphens and brackets only: what the service allows.
    """
    stem = (name or "document").rpartition(".")[0] or name or "document"
    return re.sub(r"[^A-Za-z0-9 \-()\[\]]+", "-", re.sub(r"\s+", " ", stem))


def _said(part: Part) -> list[dict[str, Any]]:
    """
    A part of an answer as the block it came as; none for what the API does not take back.
    """
    if isinstance(part, TextPart):
        return [{"text": part.text}] if part.text else []
    if isinstance(part, ThinkingPart):
        return [{"reasoningContent": {"reasoningText": {"text": part.text, "signature": part.signature}}}] if part.signature else []
    if isinstance(part, RedactedThinkingPart):
        return [{"reasoningContent": {"redactedContent": part.data}}]
    if isinstance(part, ToolCall):
        return [{"toolUse": {"toolUseId": part.id, "name": part.name, "input": dict(whole_arguments(part))}}]
    if isinstance(part, ServerToolPart):
        return _server_tool(part)
    return []


def _server_tool(part: ServerToolPart) -> list[dict[str, Any]]:
    blocks: list[dict[str, Any]] = []
    if part.kind == "server_tool_use":
        given = loads(part.arguments_text) if part.arguments_text else {}
        blocks.append({"toolUse": {"toolUseId": part.id, "name": part.name, "input": given, "type": "server_tool_use"}})
    if isinstance(part.result, Mapping):
        blocks.append({"toolResult": dict(part.result)})
    return blocks
