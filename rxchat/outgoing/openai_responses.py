"""
Requests of OpenAI Responses.

Choices: system texts are `instructions`. Reasoning goes back as the items it came as (`ProviderItemPart`), so does what a provider's tool answered; readable
thinking alone is not sent. Where reasoning is asked for, `include` asks for its encrypted form, without which an answer cannot be carried back by a
client that does not store it at the provider.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import groupby
from typing import Any

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
    schema_of,
    split_system,
)
from rxchat.prompt import Message, RequestOptions, Role, ToolSpec
from rxchat.response import MediaPart, Part, ProviderItemPart, RefusalPart, ServerToolPart, TextPart, ToolCall, ToolResultPart

__all__ = ["build"]

NAME = "openai-responses"
ENCRYPTED = "reasoning.encrypted_content"
# What calls of other providers carry.
FOREIGN = frozenset({"thoughtSignature", "signature", "extra_content"})


def build(call: ModelCall) -> WireRequest:
    """
    POST {base_url}/responses, bearer key.

    ConfigurationError for stop, seed, top_k, penalties and reasoning_budget, which this protocol has no field for.
    """
    request = call.request
    refuse_options(call, NAME, "stop", "seed", "top_k", "presence_penalty", "frequency_penalty", "reasoning_budget")
    system, messages = split_system(call.messages)
    kinds = {part.id: part.kind for message in messages for part in message.parts if isinstance(part, ToolCall)}
    body: dict[str, Any] = {"model": call.model} | drop_none(instructions=system)
    body["input"] = [item for message in messages for item in _items(message, kinds)]
    body |= drop_none(max_output_tokens=request.max_tokens, temperature=request.temperature, top_p=request.top_p)
    if request.reasoning_effort is not None:
        body |= {"reasoning": {"effort": request.reasoning_effort}, "include": [ENCRYPTED]}
    body |= _tools(call) | _format(request)
    if request.stream:
        body["stream"] = True
    return WireRequest(endpoint(call.base_url, "/responses"), merge_extra(body, request.extra), bearer(call) | dict(request.extra_headers))


def _tools(call: ModelCall) -> dict[str, Any]:
    choice = call.request.tool_choice
    if not call.tools:
        refuse_options(call, f"{NAME} without tools", "tool_choice", "parallel_tool_calls")
        return {}
    wire: dict[str, Any] = {"tools": [_tool(tool) for tool in call.tools]}
    if choice in ("auto", "none", "required"):
        wire["tool_choice"] = choice
    elif choice is not None:
        tool = known_tool(choice, call.tools)
        wire["tool_choice"] = {"type": tool.kind, "name": tool.name}
    return wire | drop_none(parallel_tool_calls=call.request.parallel_tool_calls)


def _tool(tool: ToolSpec) -> dict[str, Any]:
    described = drop_none(type=tool.kind, name=tool.name, description=tool.description or None)
    # Unsaid, this API would take a schema for a strict one.
    return described if tool.kind == "custom" else described | {"parameters": dict(tool.parameters), "strict": bool(tool.strict)}


def _format(request: RequestOptions) -> dict[str, Any]:
    schema = schema_of(request.response_format)
    if schema is not None:
        said = drop_none(name=schema.name, description=schema.description, schema=dict(schema.schema), strict=schema.strict)
        return {"text": {"format": {"type": "json_schema"} | said}}
    return {"text": {"format": {"type": "json_object"}}} if request.response_format == "json" else {}


# --- items ----------------------------------------------------------------------------------------------------------------------------------------


def _items(message: Message, kinds: Mapping[str, str]) -> Iterator[dict[str, Any]]:
    if message.role is Role.USER:
        yield {"role": "user", "content": _content(message.parts)}
        return
    phases = message.metadata.get("phases", {})
    for is_text, parts in groupby(message.parts, lambda part: isinstance(part, TextPart)):
        if is_text:
            yield from _messages(parts, phases)
            continue
        for part in parts:
            item = _result(part, kinds) if isinstance(part, ToolResultPart) else _said(part)
            if item is not None:
                yield item


def _messages(parts: Iterable[Part], phases: Mapping[str, str]) -> Iterator[dict[str, Any]]:
    """
    Texts as messages: those that came as items go back under their ids, the phase they were said in with them.
    """
    for item_id, texts in groupby((part for part in parts if isinstance(part, TextPart) and part.text), lambda part: part.item_id):
        if item_id is None:
            yield {"role": "assistant", "content": "".join(part.text for part in texts)}
        else:
            content = [{"type": "output_text", "text": part.text, "annotations": []} for part in texts]
            wire = {"type": "message", "id": item_id, "role": "assistant", "status": "completed", "content": content}
            yield wire | drop_none(phase=phases.get(item_id))


def _result(part: ToolResultPart, kinds: Mapping[str, str]) -> dict[str, Any]:
    kind = "custom_tool_call_output" if kinds.get(part.call_id) == "custom" else "function_call_output"
    media = isinstance(part.result, (list, tuple)) and any(isinstance(item, MediaPart) for item in part.result)
    output = [_asked(item) for item in part.result] if media else result_text(part)
    return {"type": kind, "call_id": part.call_id, "output": output}


def _content(parts: tuple[Part, ...]) -> str | list[dict[str, Any]]:
    if all(isinstance(part, TextPart) for part in parts):
        return "".join(part.text for part in parts if isinstance(part, TextPart))
    return [_asked(part) for part in parts]


def _asked(part: Part) -> dict[str, Any]:
    if isinstance(part, TextPart):
        return {"type": "input_text", "text": part.text}
    if isinstance(part, MediaPart) and part.kind == "image":
        return {"type": "input_image", "detail": "auto", "image_url": part.url or data_url(part)}
    if isinstance(part, MediaPart) and part.kind == "file":
        return {"type": "input_file"} | ({"file_url": part.url} if part.url else {"filename": part.name or "file", "file_data": data_url(part)})
    what = part.kind if isinstance(part, MediaPart) else type(part).__name__
    raise refuse_media(NAME, what, "a user message holds text, images and files")


def _said(part: Part) -> dict[str, Any] | None:
    """
    A part of an answer as the item it came as; None for what the API does not take back.
    """
    if isinstance(part, RefusalPart):
        return {"type": "message", "role": "assistant", "content": [{"type": "refusal", "refusal": part.text}]}
    if isinstance(part, ToolCall):
        return None if part.server_executed else _call(part)
    if isinstance(part, ServerToolPart):
        raw = part.result if isinstance(part.result, Mapping) else part.payload
        return dict(raw) if isinstance(raw, Mapping) else None
    if isinstance(part, ProviderItemPart) and isinstance(part.raw, Mapping) and "type" in part.raw:
        return dict(part.raw)
    return None


def _call(call: ToolCall) -> dict[str, Any]:
    if not call.complete:
        raise ConfigurationError(f"tool call {call.id} is not whole and cannot be sent back")
    if call.kind == "custom":
        return {"type": "custom_tool_call", "call_id": call.id, "name": call.name, "input": call.arguments_text}
    wire = {"type": "function_call", "call_id": call.id, "name": call.name, "arguments": call.arguments_text or "{}"}
    return wire | pick(call.metadata, *(name for name in call.metadata or {} if name not in FOREIGN))
