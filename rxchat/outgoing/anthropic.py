"""
Requests of Anthropic Messages.

Choices: the API demands `max_tokens`; unsaid, it is `DEFAULT_MAX_TOKENS`, and an answer cut by it is INCOMPLETE_FINISH as any other. System texts go into
`system`. User and tool messages that follow each other are one user turn, results first, as the API wants them. Thinking goes back exactly as it came,
with its signature; thinking without one (of another provider) is not sent, the API refuses it. `reasoning_budget` is a fixed thinking budget,
`reasoning_effort` "none" switches thinking off, any other word is `output_config.effort` with adaptive thinking.

The version is the one whose stream the dialect reads and whose models take sampling options; `extra_headers` may name a later one.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from rxchat.errors import ConfigurationError
from rxchat.outgoing.addresses import endpoint
from rxchat.outgoing.common import (
    ModelCall,
    WireRequest,
    drop_none,
    known_tool,
    merge_extra,
    pick,
    refuse_media,
    refuse_options,
    schema_of,
    split_system,
    whole_arguments,
)
from rxchat.prompt import Message, RequestOptions, Role, ToolSpec
from rxchat.response import (
    MediaPart,
    Part,
    ProviderItemPart,
    RedactedThinkingPart,
    ServerToolPart,
    TextPart,
    ThinkingPart,
    ToolCall,
    ToolResultPart,
)
from rxchat.strictjson import dumps, loads

__all__ = ["DEFAULT_MAX_TOKENS", "VERSION", "build", "message_body"]

NAME = "anthropic"
VERSION = "2023-06-01"
DEFAULT_MAX_TOKENS = 8192
# Blocks that are kept whole and sent back as they came; those of other providers are not for this one.
ITEMS = frozenset({"compaction", "fallback"})


def build(call: ModelCall) -> WireRequest:
    """
    POST {base_url}/v1/messages, key in `x-api-key`, protocol version in `anthropic-version`.

    ConfigurationError for seed, penalties and plain JSON mode, which this protocol has no field for.
    """
    body = {"model": call.model} | message_body(call)
    if call.request.stream:
        body["stream"] = True
    headers = {"content-type": "application/json", "anthropic-version": VERSION} | ({"x-api-key": call.api_key} if call.api_key else {})
    return WireRequest(endpoint(call.base_url, "/v1/messages"), merge_extra(body, call.request.extra), headers | dict(call.request.extra_headers))


def message_body(call: ModelCall, dialect: str = NAME) -> dict[str, Any]:
    """
    The body without model and stream: what Bedrock's Invoke takes as well. `dialect` is named in refusals.
    """
    refuse_options(call, dialect, "seed", "presence_penalty", "frequency_penalty")
    if call.request.response_format == "json":
        raise ConfigurationError(f"{dialect} has no plain JSON mode; give a JsonSchema")
    system, messages = split_system(call.messages)
    body: dict[str, Any] = {"max_tokens": call.request.max_tokens or DEFAULT_MAX_TOKENS, "messages": list(_turns(messages, dialect))}
    body |= drop_none(system=system)
    body |= drop_none(
        temperature=call.request.temperature,
        top_p=call.request.top_p,
        top_k=call.request.top_k,
        stop_sequences=list(call.request.stop) or None,
    )
    return body | _thinking(call.request) | _tools(call, dialect)


def _thinking(request: RequestOptions) -> dict[str, Any]:
    schema = schema_of(request.response_format)
    effort = request.reasoning_effort
    config = drop_none(
        effort=None if effort == "none" else effort,
        format={"type": "json_schema", "schema": dict(schema.schema)} if schema else None,
    )
    wire: dict[str, Any] = {"output_config": config} if config else {}
    if request.reasoning_budget is not None:
        return wire | {"thinking": {"type": "enabled", "budget_tokens": request.reasoning_budget}}
    if effort is not None:
        return wire | {"thinking": {"type": "disabled" if effort == "none" else "adaptive"}}
    return wire


def _tools(call: ModelCall, dialect: str) -> dict[str, Any]:
    if not call.tools:
        refuse_options(call, f"{dialect} without tools", "tool_choice", "parallel_tool_calls")
        return {}
    return {"tools": [_tool(tool, dialect) for tool in call.tools]} | _choice(call)


def _tool(tool: ToolSpec, dialect: str) -> dict[str, Any]:
    if tool.kind != "function":
        raise ConfigurationError(f"{dialect} has no free-form tools: {tool.name}")
    return drop_none(name=tool.name, description=tool.description or None, input_schema=dict(tool.parameters), strict=tool.strict)


def _choice(call: ModelCall) -> dict[str, Any]:
    choice, parallel = call.request.tool_choice, call.request.parallel_tool_calls
    if choice is None and parallel is None:
        return {}
    kinds = {None: "auto", "auto": "auto", "none": "none", "required": "any"}
    wire: dict[str, Any] = {"type": kinds[choice]} if choice in kinds else {"type": "tool", "name": known_tool(str(choice), call.tools).name}
    if parallel is not None and choice != "none":
        wire["disable_parallel_tool_use"] = not parallel
    return {"tool_choice": wire}


# --- messages -------------------------------------------------------------------------------------------------------------------------------------


def _turns(messages: tuple[Message, ...], dialect: str) -> Iterator[dict[str, Any]]:
    """
    Messages as turns of user and assistant; neighbours of one side are one turn.
    """
    side, blocks = "", list[dict[str, Any]]()
    for message in messages:
        speaker = "assistant" if message.role is Role.ASSISTANT else "user"
        if blocks and speaker != side:
            yield _turn(side, blocks)
            blocks = []
        side = speaker
        blocks += [block for part in message.parts for block in (_said(part) if speaker == "assistant" else [_asked(part, dialect)])]
    if blocks:
        yield _turn(side, blocks)


def _turn(role: str, blocks: list[dict[str, Any]]) -> dict[str, Any]:
    results = [block for block in blocks if block["type"] == "tool_result"]
    ordered = results + [block for block in blocks if block["type"] != "tool_result"] if results and role == "user" else blocks
    if len(ordered) == 1 and set(ordered[0]) == {"type", "text"}:
        return {"role": role, "content": ordered[0]["text"]}
    return {"role": role, "content": ordered}


def _asked(part: Part, dialect: str) -> dict[str, Any]:
    if isinstance(part, TextPart):
        return {"type": "text", "text": part.text}
    if isinstance(part, ToolResultPart):
        return {"type": "tool_result", "tool_use_id": part.call_id, "content": _result(part, dialect)} | ({"is_error": True} if part.is_error else {})
    if isinstance(part, MediaPart):
        return _media(part, dialect)
    raise refuse_media(dialect, type(part).__name__, "a user message holds text, media and tool results")


def _result(part: ToolResultPart, dialect: str) -> str | list[dict[str, Any]]:
    if isinstance(part.result, str):
        return part.result
    if isinstance(part.result, (list, tuple)) and any(isinstance(item, (TextPart, MediaPart)) for item in part.result):
        return [_asked(item, dialect) for item in part.result]
    return dumps(part.result)


def _media(part: MediaPart, dialect: str) -> dict[str, Any]:
    if part.kind not in ("image", "file"):
        raise refuse_media(dialect, part.kind)
    kind = "image" if part.kind == "image" else "document"
    if part.data is not None:
        source: dict[str, Any] = {"type": "base64", "media_type": part.mime, "data": part.data}
        if part.mime == "text/plain":
            source = {"type": "text", "media_type": "text/plain", "data": part.content.decode()}
    elif part.url is not None:
        source = {"type": "url", "url": part.url}
    else:
        raise refuse_media(dialect, f"{part.kind} without data or URL")
    return {"type": kind, "source": source} | (drop_none(title=part.name) if kind == "document" else {})


def _said(part: Part) -> list[dict[str, Any]]:
    """
    A part of an answer as the blocks it came as; none for what the API does not take back.
    """
    if isinstance(part, TextPart):
        return [{"type": "text", "text": part.text}] if part.text else []
    if isinstance(part, ThinkingPart):
        return [{"type": "thinking", "thinking": part.text, "signature": part.signature}] if part.signature else []
    if isinstance(part, RedactedThinkingPart):
        return [{"type": "redacted_thinking", "data": part.data}]
    if isinstance(part, ToolCall):
        return [{"type": "tool_use", "id": part.id, "name": part.name, "input": whole_arguments(part)} | pick(part.metadata, "caller")]
    if isinstance(part, ServerToolPart):
        return _server_tool(part)
    if isinstance(part, ProviderItemPart) and part.type in ITEMS and isinstance(part.raw, Mapping):
        return [dict(part.raw)]
    return []


def _server_tool(part: ServerToolPart) -> list[dict[str, Any]]:
    blocks: list[dict[str, Any]] = []
    if part.kind in ("server_tool_use", "mcp_tool_use"):
        given = loads(part.arguments_text) if part.arguments_text else {}
        blocks.append({"type": part.kind, "id": part.id, "name": part.name, "input": given} | dict(part.payload or {}))
    if isinstance(part.result, Mapping):
        blocks.append(dict(part.result))
    return blocks
