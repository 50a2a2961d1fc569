"""
Requests of Cohere's chat v2.

Choices: a call's plan and reasoning go back as `tool_plan` and thinking content; results are texts. `tool_choice` is "required" or "none"
only; the API chooses by itself otherwise.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from rxchat.errors import ConfigurationError
from rxchat.outgoing.addresses import endpoint
from rxchat.outgoing.common import (
    ModelCall,
    WireRequest,
    bearer,
    data_url,
    drop_none,
    merge_extra,
    refuse_media,
    refuse_options,
    result_text,
    results_of,
    schema_of,
)
from rxchat.prompt import Message, RequestOptions, Role, ToolSpec
from rxchat.response import MediaPart, Part, TextPart, ThinkingPart, ToolCall

__all__ = ["build"]

NAME = "cohere"
# The plan is a block of thinking under this id (see the dialect).
PLAN = "tool_plan"


def build(call: ModelCall) -> WireRequest:
    """
    POST {base_url}/v2/chat, bearer key.

    ConfigurationError for parallel_tool_calls, for reasoning_effort but "none", and for the choice of one tool, which this protocol has no field for.
    """
    request = call.request
    refuse_options(call, NAME, "parallel_tool_calls")
    body: dict[str, Any] = {"model": call.model, "messages": [wire for message in call.messages for wire in _messages(message)]}
    body["stream"] = request.stream
    body |= _tools(call) | _format(request) | _sampling(request) | _thinking(request)
    return WireRequest(endpoint(call.base_url, "/v2/chat"), merge_extra(body, request.extra), bearer(call) | dict(request.extra_headers))


def _sampling(request: RequestOptions) -> dict[str, Any]:
    return drop_none(
        max_tokens=request.max_tokens,
        stop_sequences=list(request.stop) or None,
        temperature=request.temperature,
        seed=request.seed,
        frequency_penalty=request.frequency_penalty,
        presence_penalty=request.presence_penalty,
        k=request.top_k,
        p=request.top_p,
    )


def _thinking(request: RequestOptions) -> dict[str, Any]:
    if request.reasoning_effort == "none":
        return {"thinking": {"type": "disabled"}}
    if request.reasoning_effort is not None:
        raise ConfigurationError("cohere has no reasoning effort; give reasoning_budget")
    if request.reasoning_budget is not None:
        return {"thinking": {"type": "enabled", "token_budget": request.reasoning_budget}}
    return {}


def _tools(call: ModelCall) -> dict[str, Any]:
    choice = call.request.tool_choice
    if not call.tools:
        refuse_options(call, f"{NAME} without tools", "tool_choice")
        return {}
    if choice not in (None, "auto", "required", "none"):
        raise ConfigurationError(f"cohere cannot be told to call {choice!r}; tool_choice is auto, required or none")
    wire: dict[str, Any] = {"tools": [_tool(tool) for tool in call.tools]}
    strict = {tool.strict for tool in call.tools if tool.strict is not None}
    if len(strict) > 1:
        raise ConfigurationError("cohere has one strict_tools for all tools")
    return wire | drop_none(strict_tools=next(iter(strict), None), tool_choice=choice.upper() if choice in ("required", "none") else None)


def _tool(tool: ToolSpec) -> dict[str, Any]:
    if tool.kind != "function":
        raise ConfigurationError(f"cohere has no free-form tools: {tool.name}")
    described = drop_none(name=tool.name, description=tool.description or None)
    return {"type": "function", "function": described | {"parameters": dict(tool.parameters)}}


def _format(request: RequestOptions) -> dict[str, Any]:
    schema = schema_of(request.response_format)
    if schema is not None:
        return {"response_format": {"type": "json_object", "json_schema": dict(schema.schema)}}
    return {"response_format": {"type": "json_object"}} if request.response_format == "json" else {}


def _messages(message: Message) -> Iterator[dict[str, Any]]:
    if message.role is Role.TOOL:
        for part in results_of(message):
            yield {"role": "tool", "tool_call_id": part.call_id, "content": result_text(part)}
    elif message.role is Role.ASSISTANT:
        yield _assistant(message)
    elif all(isinstance(part, TextPart) for part in message.parts):
        yield {"role": message.role.value, "content": message.text}
    else:
        yield {"role": message.role.value, "content": [_part(part) for part in message.parts]}


def _part(part: Part) -> dict[str, Any]:
    if isinstance(part, TextPart):
        return {"type": "text", "text": part.text}
    if isinstance(part, MediaPart) and part.kind == "image":
        return {"type": "image_url", "image_url": {"url": part.url or data_url(part)}}
    raise refuse_media(NAME, part.kind if isinstance(part, MediaPart) else type(part).__name__, "a user message holds text and images")


def _assistant(message: Message) -> dict[str, Any]:
    thoughts = [part for part in message.parts if isinstance(part, ThinkingPart)]
    plan = "".join(part.text for part in thoughts if part.item_id == PLAN)
    content = [{"type": "thinking", "thinking": part.text} for part in thoughts if part.item_id != PLAN]
    calls = [_call(part) for part in message.parts if isinstance(part, ToolCall) and not part.server_executed]
    wire: dict[str, Any] = {"role": "assistant"} | drop_none(tool_calls=calls or None, tool_plan=plan or None)
    if content:
        return wire | {"content": content + ([{"type": "text", "text": message.text}] if message.text else [])}
    return wire | drop_none(content=message.text or None)


def _call(call: ToolCall) -> dict[str, Any]:
    return {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": call.arguments_text or "{}"}}
