"""
Requests of Ollama's /api/chat.

Choices: sampling goes into `options`, a schema into `format`, `reasoning_effort` into `think` ("none" is false). Arguments are objects,
results name their tool. Images are base64 data only.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from rxchat.errors import ConfigurationError
from rxchat.outgoing.addresses import endpoint
from rxchat.outgoing.common import (
    ModelCall,
    WireRequest,
    bearer,
    drop_none,
    merge_extra,
    named,
    refuse_media,
    refuse_options,
    result_text,
    results_of,
    schema_of,
    whole_arguments,
)
from rxchat.prompt import Message, RequestOptions, Role, ToolSpec
from rxchat.response import MediaPart, Part, TextPart, ThinkingPart, ToolCall

__all__ = ["build"]

NAME = "ollama"


def build(call: ModelCall) -> WireRequest:
    """
    POST {base_url}/api/chat; a bearer key only where one is set.

    ConfigurationError for tool_choice, parallel_tool_calls and reasoning_budget, which this protocol has no field for.
    """
    request = call.request
    refuse_options(call, NAME, "tool_choice", "parallel_tool_calls", "reasoning_budget")
    body: dict[str, Any] = {"model": call.model, "messages": [wire for message, names in named(call.messages) for wire in _messages(message, names)]}
    if call.tools:
        body["tools"] = [_tool(tool) for tool in call.tools]
    body["stream"] = request.stream
    body |= _format(request) | _think(request)
    options = _sampling(request)
    if options:
        body["options"] = options
    return WireRequest(endpoint(call.base_url, "/api/chat"), merge_extra(body, request.extra), bearer(call) | dict(request.extra_headers))


def _sampling(request: RequestOptions) -> dict[str, Any]:
    return drop_none(
        num_predict=request.max_tokens,
        temperature=request.temperature,
        top_p=request.top_p,
        top_k=request.top_k,
        stop=list(request.stop) or None,
        seed=request.seed,
        presence_penalty=request.presence_penalty,
        frequency_penalty=request.frequency_penalty,
    )


def _format(request: RequestOptions) -> dict[str, Any]:
    schema = schema_of(request.response_format)
    if schema is not None:
        return {"format": dict(schema.schema)}
    return {"format": "json"} if request.response_format == "json" else {}


def _think(request: RequestOptions) -> dict[str, Any]:
    effort = request.reasoning_effort
    return {} if effort is None else {"think": False if effort == "none" else effort}


def _tool(tool: ToolSpec) -> dict[str, Any]:
    if tool.kind != "function":
        raise ConfigurationError(f"ollama has no free-form tools: {tool.name}")
    return {"type": "function", "function": {"name": tool.name, "description": tool.description, "parameters": dict(tool.parameters)}}


def _messages(message: Message, names: Mapping[str, str]) -> Iterator[dict[str, Any]]:
    if message.role is Role.TOOL:
        for part in results_of(message):
            yield {"role": "tool", "content": result_text(part)} | drop_none(tool_name=names.get(part.call_id))
    elif message.role is Role.ASSISTANT:
        yield _assistant(message)
    else:
        images = [_image(part) for part in message.parts if not isinstance(part, TextPart)]
        yield {"role": message.role.value, "content": message.text} | ({"images": images} if images else {})


def _image(part: Part) -> str:
    if isinstance(part, MediaPart) and part.kind == "image" and part.data is not None:
        return part.data
    raise refuse_media(NAME, part.kind if isinstance(part, MediaPart) else type(part).__name__, "only text and images given as data")


def _assistant(message: Message) -> dict[str, Any]:
    thinking = "".join(part.text for part in message.parts if isinstance(part, ThinkingPart))
    calls = [_call(part) for part in message.parts if isinstance(part, ToolCall) and not part.server_executed]
    wire: dict[str, Any] = {"role": "assistant", "content": message.text} | drop_none(thinking=thinking or None)
    return wire | ({"tool_calls": calls} if calls else {})


def _call(call: ToolCall) -> dict[str, Any]:
    return {"function": {"name": call.name, "arguments": dict(whole_arguments(call))}}
