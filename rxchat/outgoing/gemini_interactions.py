"""
Requests of Gemini's Interactions.

Choices: the conversation is carried by its steps, so nothing has to be stored at the provider (`store` false, which the caller may change by `extra`). Thoughts
go back as the steps they came as, signature included; thinking without one is not sent. Where reasoning is asked for, summaries are too.
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
    named,
    pick,
    refuse_media,
    refuse_options,
    result_text,
    schema_of,
    split_system,
    whole_arguments,
)
from rxchat.prompt import Message, RequestOptions, Role, ToolSpec
from rxchat.response import MediaPart, Part, ProviderItemPart, ServerToolPart, TextPart, ThinkingPart, ToolCall, ToolResultPart

__all__ = ["build"]

NAME = "gemini-interactions"
KINDS = {"image": "image", "audio": "audio", "video": "video", "file": "document"}


def build(call: ModelCall) -> WireRequest:
    """
    POST {base_url}/interactions, key in `x-goog-api-key`; `base_url` holds the version.

    ConfigurationError for top_k, penalties, reasoning_budget, reasoning_effort "none" and parallel_tool_calls, which this protocol has no field for.
    """
    request = call.request
    refuse_options(call, NAME, "top_k", "presence_penalty", "frequency_penalty", "reasoning_budget", "parallel_tool_calls")
    system, messages = split_system(call.messages)
    steps = [step for message, names in named(messages) for step in _steps(message, names)]
    body: dict[str, Any] = {"model": call.model, "input": steps, "store": False}
    body |= drop_none(system_instruction=system)
    body |= {"tools": [_tool(tool) for tool in call.tools]} if call.tools else {}
    config = _config(call)
    if config:
        body["generation_config"] = config
    body |= _format(request)
    if request.stream:
        body["stream"] = True
    headers = {"content-type": "application/json"} | ({"x-goog-api-key": call.api_key} if call.api_key else {})
    return WireRequest(endpoint(call.base_url, "/interactions"), merge_extra(body, request.extra), headers | dict(request.extra_headers))


def _config(call: ModelCall) -> dict[str, Any]:
    request = call.request
    if request.reasoning_effort == "none":
        raise ConfigurationError(f"{NAME} cannot be told not to think; the least is reasoning_effort minimal")
    thinking = {} if request.reasoning_effort is None else {"thinking_level": request.reasoning_effort, "thinking_summaries": "auto"}
    return (
        drop_none(
            max_output_tokens=request.max_tokens,
            temperature=request.temperature,
            top_p=request.top_p,
            stop_sequences=list(request.stop) or None,
            seed=request.seed,
        )
        | thinking
        | drop_none(tool_choice=_choice(call))
    )


def _choice(call: ModelCall) -> Any:
    choice = call.request.tool_choice
    if not call.tools:
        refuse_options(call, f"{NAME} without tools", "tool_choice")
    words = {None: None, "auto": "auto", "none": "none", "required": "any"}
    return words[choice] if choice in words else {"allowed_tools": {"mode": "any", "tools": [known_tool(str(choice), call.tools).name]}}


def _tool(tool: ToolSpec) -> dict[str, Any]:
    if tool.kind != "function":
        raise ConfigurationError(f"{NAME} has no free-form tools: {tool.name}")
    return {"type": "function", "name": tool.name} | drop_none(description=tool.description or None) | {"parameters": dict(tool.parameters)}


def _format(request: RequestOptions) -> dict[str, Any]:
    schema = schema_of(request.response_format)
    if schema is None and request.response_format != "json":
        return {}
    return {"response_format": {"type": "text", "mime_type": "application/json"} | drop_none(schema=dict(schema.schema) if schema else None)}


# --- steps ----------------------------------------------------------------------------------------------------------------------------------------


def _steps(message: Message, names: Mapping[str, str]) -> Iterator[dict[str, Any]]:
    if message.role is Role.USER:
        yield {"type": "user_input", "content": [_content(part) for part in message.parts]}
        return
    output: list[dict[str, Any]] = []
    for part in message.parts:
        # Texts and media that follow each other are one step.
        if isinstance(part, (TextPart, MediaPart)):
            output += [_content(part)] if not isinstance(part, TextPart) or part.text else []
            continue
        if output:
            yield {"type": "model_output", "content": output}
            output = []
        yield from _said(part, names)
    if output:
        yield {"type": "model_output", "content": output}


def _content(part: Part) -> dict[str, Any]:
    if isinstance(part, TextPart):
        return {"type": "text", "text": part.text}
    if not isinstance(part, MediaPart) or part.kind not in KINDS:
        raise refuse_media(NAME, part.kind if isinstance(part, MediaPart) else type(part).__name__, "a user message holds text and media")
    if part.mime is None:
        raise refuse_media(NAME, f"{part.kind} without a mime type")
    return {"type": KINDS[part.kind]} | drop_none(data=part.data, uri=part.url if part.data is None else None, mime_type=part.mime)


def _said(part: Part, names: Mapping[str, str]) -> Iterator[dict[str, Any]]:
    if isinstance(part, ThinkingPart) and part.signature:
        summary = [{"type": "text", "text": part.text}] if part.text else None
        yield {"type": "thought"} | drop_none(summary=summary) | {"signature": part.signature}
    elif isinstance(part, ToolCall):
        wire = {"type": "function_call", "id": part.id, "name": part.name, "arguments": dict(whole_arguments(part))}
        yield wire | pick(part.metadata, "signature")
    elif isinstance(part, ToolResultPart):
        yield _result(part, names)
    elif isinstance(part, ServerToolPart):
        yield from (dict(raw) for raw in (part.payload, part.result) if isinstance(raw, Mapping) and "type" in raw)
    elif isinstance(part, ProviderItemPart) and isinstance(part.raw, Mapping):
        yield dict(part.raw)


def _result(part: ToolResultPart, names: Mapping[str, str]) -> dict[str, Any]:
    result: Any = part.result
    if isinstance(result, (list, tuple)) and any(isinstance(item, (TextPart, MediaPart)) for item in result):
        result = [_content(item) for item in result]
    elif not isinstance(result, Mapping):
        result = result_text(part)
    wire = {"type": "function_result", "call_id": part.call_id} | drop_none(name=names.get(part.call_id)) | {"result": result}
    return wire | ({"is_error": True} if part.is_error else {})
