"""
Requests of OpenAI Chat Completions and its compatibles.

Quirks of a preset (`ModelCall.options`): `max_tokens_field`, `include_usage` (false where `stream_options` is refused), `reasoning` ("effort" for
`reasoning_effort`, "object" for OpenRouter's `reasoning`, "none"), `thinking_field` (the key reasoning is carried back under, "" where it is not wanted).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, TypeAlias

from rxchat.errors import ConfigurationError
from rxchat.outgoing.addresses import endpoint
from rxchat.outgoing.common import (
    ModelCall,
    WireRequest,
    bearer,
    data_url,
    drop_none,
    known_tool,
    merge_extra,
    pick,
    refuse_media,
    refuse_options,
    result_text,
    results_of,
    schema_of,
)
from rxchat.prompt import Message, RequestOptions, Role, ToolSpec
from rxchat.response import MediaPart, Part, ProviderItemPart, RefusalPart, TextPart, ThinkingPart, ToolCall

__all__ = ["build", "chat_request", "content_part"]

ToPart: TypeAlias = Callable[[Part], dict[str, Any]]

NAME = "openai-chat"
# Under this key reasoning goes back as the blocks it came in, which a ProviderItemPart of this type holds (OpenRouter and its kin).
REASONING_DETAILS = "reasoning_details"
# What calls of other protocols carry.
FOREIGN = frozenset({"id", "thoughtSignature", "signature", "caller"})
AUDIO_FORMATS = {"audio/wav": "wav", "audio/x-wav": "wav", "audio/mpeg": "mp3", "audio/mp3": "mp3"}


def build(call: ModelCall) -> WireRequest:
    """
    POST {base_url}/chat/completions, bearer key.

    ConfigurationError for top_k and reasoning_budget (but by OpenRouter's `reasoning`), and for content this protocol has no part for.
    """
    return chat_request(call, NAME, content_part)


def chat_request(call: ModelCall, dialect: str, to_part: ToPart) -> WireRequest:
    """
    The request of a dialect that is this protocol with its own words for media; `dialect` is named in refusals.
    """
    reasoning = call.options.get("reasoning", "effort")
    refuse_options(call, dialect, "top_k", *(() if reasoning == "object" else ("reasoning_budget",)))
    messages = [wire for message in call.messages for wire in _messages(message, call.options, to_part)]
    body: dict[str, Any] = {"model": call.model, "messages": messages}
    body |= _sampling(call.request, call.options)
    body |= _reasoning(call.request, reasoning)
    body |= _tools(call, dialect)
    body |= _format(call.request)
    if call.request.stream:
        body["stream"] = True
        if call.options.get("include_usage", True):
            body["stream_options"] = {"include_usage": True}
    headers = bearer(call)
    return WireRequest(
        endpoint(call.base_url, "/chat/completions"), merge_extra(body, call.request.extra), headers | dict(call.request.extra_headers)
    )


def _sampling(request: RequestOptions, quirks: Mapping[str, Any]) -> dict[str, Any]:
    return drop_none(
        **{quirks.get("max_tokens_field", "max_completion_tokens"): request.max_tokens},
        temperature=request.temperature,
        top_p=request.top_p,
        stop=list(request.stop) or None,
        seed=request.seed,
        presence_penalty=request.presence_penalty,
        frequency_penalty=request.frequency_penalty,
    )


def _reasoning(request: RequestOptions, style: str) -> dict[str, Any]:
    if style == "object":
        said = drop_none(effort=request.reasoning_effort, max_tokens=request.reasoning_budget)
        return {"reasoning": said} if said else {}
    if style == "none" and request.reasoning_effort is not None:
        raise ConfigurationError("this provider has no way to say reasoning_effort")
    return drop_none(reasoning_effort=request.reasoning_effort)


def _tools(call: ModelCall, dialect: str) -> dict[str, Any]:
    choice = call.request.tool_choice
    if not call.tools:
        refuse_options(call, f"{dialect} without tools", "tool_choice", "parallel_tool_calls")
        return {}
    wire: dict[str, Any] = {"tools": [_tool(tool) for tool in call.tools]}
    if choice in ("auto", "none", "required"):
        wire["tool_choice"] = choice
    elif choice is not None:
        tool = known_tool(choice, call.tools)
        wire["tool_choice"] = {"type": tool.kind, tool.kind: {"name": tool.name}}
    return wire | drop_none(parallel_tool_calls=call.request.parallel_tool_calls)


def _tool(tool: ToolSpec) -> dict[str, Any]:
    described = drop_none(name=tool.name, description=tool.description or None)
    if tool.kind == "custom":
        return {"type": "custom", "custom": described}
    return {"type": "function", "function": described | {"parameters": dict(tool.parameters)} | drop_none(strict=tool.strict)}


def _format(request: RequestOptions) -> dict[str, Any]:
    schema = schema_of(request.response_format)
    if schema is not None:
        wire = drop_none(name=schema.name, description=schema.description, schema=dict(schema.schema), strict=schema.strict)
        return {"response_format": {"type": "json_schema", "json_schema": wire}}
    return {"response_format": {"type": "json_object"}} if request.response_format == "json" else {}


# --- messages -------------------------------------------------------------------------------------------------------------------------------------


def _messages(message: Message, quirks: Mapping[str, Any], to_part: ToPart) -> Iterator[dict[str, Any]]:
    if message.role is Role.TOOL:
        for part in results_of(message):
            yield {"role": "tool", "tool_call_id": part.call_id, "content": result_text(part)}
    elif message.role is Role.ASSISTANT:
        yield _assistant(message, quirks)
    else:
        yield {"role": message.role.value, "content": _content(message.parts, to_part)}


def _content(parts: tuple[Part, ...], to_part: ToPart) -> str | list[dict[str, Any]]:
    if all(isinstance(part, TextPart) for part in parts):
        return "".join(part.text for part in parts if isinstance(part, TextPart))
    return [to_part(part) for part in parts]


def content_part(part: Part) -> dict[str, Any]:
    """
    A part of a user message; ConfigurationError for what this protocol cannot carry.
    """
    if isinstance(part, TextPart):
        return {"type": "text", "text": part.text}
    if not isinstance(part, MediaPart):
        raise refuse_media(NAME, type(part).__name__, "a user message holds text and media")
    if part.kind == "image":
        return {"type": "image_url", "image_url": {"url": part.url or data_url(part)}}
    if part.kind == "audio" and part.data is not None and part.mime in AUDIO_FORMATS:
        return {"type": "input_audio", "input_audio": {"data": part.data, "format": AUDIO_FORMATS[part.mime]}}
    if part.kind == "file" and part.data is not None:
        return {"type": "file", "file": {"filename": part.name or "file", "file_data": data_url(part)}}
    raise refuse_media(NAME, f"{part.kind} as {part.mime or 'a URL'}", "audio goes as wav or mp3 data, files as data")


def _assistant(message: Message, quirks: Mapping[str, Any]) -> dict[str, Any]:
    parts = message.parts
    calls = [_call(part) for part in parts if isinstance(part, ToolCall) and not part.server_executed]
    wire: dict[str, Any] = {"role": "assistant", "content": message.text or (None if calls else "")}
    refusal = "".join(part.text for part in parts if isinstance(part, RefusalPart))
    if refusal:
        wire["refusal"] = refusal
    wire |= _thinking(parts, quirks.get("thinking_field", ""))
    if calls:
        wire["tool_calls"] = calls
    return wire


def _thinking(parts: tuple[Part, ...], field: str) -> dict[str, Any]:
    if field == REASONING_DETAILS:
        details = [entry for part in parts if isinstance(part, ProviderItemPart) and part.type == field for entry in part.raw]
        return {field: details} if details else {}
    text = "".join(part.text for part in parts if isinstance(part, ThinkingPart))
    return {field: text} if field and text else {}


def _call(call: ToolCall) -> dict[str, Any]:
    if call.kind == "custom":
        return {"id": call.id, "type": "custom", "custom": {"name": call.name, "input": call.arguments_text}}
    wire = {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": call.arguments_text or "{}"}}
    return wire | pick(call.metadata, *(name for name in call.metadata or {} if name not in FOREIGN))
