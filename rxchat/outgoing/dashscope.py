"""
Requests of DashScope's own API.

The option `incremental_output` of the dialect says what is asked for, so that the answer is read as it was ordered. A prompt with media goes to the multimodal
service, whose contents are lists.
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
    known_tool,
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

NAME = "dashscope"
SERVICES = "/api/v1/services/aigc"
# Said in the request, not repeated in the answer.
READ_WITH = ("incremental_output", "result_format")


def build(call: ModelCall) -> WireRequest:
    """
    POST {base_url}/api/v1/services/aigc/text-generation/generation (or multimodal-generation), bearer key, `X-DashScope-SSE: enable` for a stream.

    ConfigurationError for frequency_penalty and for reasoning_effort but "none", which this protocol has no field for.
    """
    request = call.request
    refuse_options(call, NAME, "frequency_penalty")
    media = any(isinstance(part, MediaPart) for message in call.messages for part in message.parts)
    asked = [name for name in READ_WITH if name in request.extra.get("parameters", {})]
    if asked:
        raise ConfigurationError(f"dashscope's answer is read by {', '.join(asked)}: give it as an option of the dialect, not in extra")
    parameters: dict[str, Any] = {"result_format": call.options.get("result_format", "message")}
    if request.stream:
        parameters["incremental_output"] = bool(call.options.get("incremental_output", False))
    parameters |= _sampling(request) | _thinking(request) | _tools(call) | _format(request)
    messages = [wire for message in call.messages for wire in _messages(message, media)]
    body = {"model": call.model, "input": {"messages": messages}, "parameters": parameters}
    headers = bearer(call) | ({"accept": "text/event-stream", "x-dashscope-sse": "enable"} if request.stream else {"accept": "application/json"})
    service = "multimodal-generation" if media else "text-generation"
    url = endpoint(call.base_url, f"{SERVICES}/{service}/generation")
    return WireRequest(url, merge_extra(body, request.extra), headers | dict(request.extra_headers))


def _sampling(request: RequestOptions) -> dict[str, Any]:
    return drop_none(
        max_tokens=request.max_tokens,
        temperature=request.temperature,
        top_p=request.top_p,
        top_k=request.top_k,
        stop=list(request.stop) or None,
        seed=request.seed,
        presence_penalty=request.presence_penalty,
    )


def _thinking(request: RequestOptions) -> dict[str, Any]:
    if request.reasoning_effort == "none":
        return {"enable_thinking": False}
    if request.reasoning_effort is not None:
        raise ConfigurationError("dashscope has no reasoning effort; give reasoning_budget")
    if request.reasoning_budget is not None:
        return {"enable_thinking": True, "thinking_budget": request.reasoning_budget}
    return {}


def _tools(call: ModelCall) -> dict[str, Any]:
    choice = call.request.tool_choice
    if not call.tools:
        refuse_options(call, f"{NAME} without tools", "tool_choice", "parallel_tool_calls")
        return {}
    if choice == "required":
        raise ConfigurationError("dashscope cannot be told that some tool is required; name one")
    wire: dict[str, Any] = {"tools": [_tool(tool) for tool in call.tools]}
    if choice in ("auto", "none"):
        wire["tool_choice"] = choice
    elif choice is not None:
        wire["tool_choice"] = {"type": "function", "function": {"name": known_tool(choice, call.tools).name}}
    return wire | drop_none(parallel_tool_calls=call.request.parallel_tool_calls)


def _tool(tool: ToolSpec) -> dict[str, Any]:
    if tool.kind != "function":
        raise ConfigurationError(f"dashscope has no free-form tools: {tool.name}")
    return {"type": "function", "function": {"name": tool.name, "description": tool.description, "parameters": dict(tool.parameters)}}


def _format(request: RequestOptions) -> dict[str, Any]:
    schema = schema_of(request.response_format)
    if schema is not None:
        said = drop_none(name=schema.name, description=schema.description, schema=dict(schema.schema), strict=schema.strict)
        return {"response_format": {"type": "json_schema", "json_schema": said}}
    return {"response_format": {"type": "json_object"}} if request.response_format == "json" else {}


def _messages(message: Message, media: bool) -> Iterator[dict[str, Any]]:
    if message.role is Role.TOOL:
        for part in results_of(message):
            yield {"role": "tool", "content": result_text(part), "tool_call_id": part.call_id}
    elif message.role is Role.ASSISTANT:
        yield _assistant(message, media)
    else:
        content = [_part(part) for part in message.parts]
        yield {"role": message.role.value, "content": content if media else message.text}


def _part(part: Part) -> dict[str, Any]:
    if isinstance(part, TextPart):
        return {"text": part.text}
    if isinstance(part, MediaPart) and part.kind in ("image", "audio", "video"):
        return {part.kind: part.url or data_url(part)}
    raise refuse_media(NAME, part.kind if isinstance(part, MediaPart) else type(part).__name__, "a user message holds text, images, audio and video")


def _assistant(message: Message, media: bool) -> dict[str, Any]:
    thinking = "".join(part.text for part in message.parts if isinstance(part, ThinkingPart))
    calls = [_call(part, index) for index, part in enumerate(part for part in message.parts if isinstance(part, ToolCall))]
    wire: dict[str, Any] = {"role": "assistant", "content": [{"text": message.text}] if media else message.text}
    return wire | drop_none(reasoning_content=thinking or None, tool_calls=calls or None)


def _call(call: ToolCall, index: int) -> dict[str, Any]:
    function = {"name": call.name, "arguments": call.arguments_text or "{}"}
    return {"index": index, "id": call.id, "type": "function", "function": function}
