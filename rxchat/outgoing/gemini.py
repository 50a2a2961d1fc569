"""
Requests of Gemini's generateContent.

Choices: system texts are `systemInstruction`; schemas go as JSON Schema (`parametersJsonSchema`, `responseJsonSchema`). A part's `thoughtSignature`
goes back where it stood: on the call (`ToolCall.metadata`), or on the part it was kept with (`ProviderItemPart`). Thoughts are asked for
(`includeThoughts`) where reasoning is; they are not sent back as text. `reasoning_effort` is `thinkingLevel`, "none" a budget of 0. A
result that is no object is wrapped as `{"result": ...}`, a failed one as `{"error": ...}`.
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
    in_parts,
    known_tool,
    merge_extra,
    named,
    pick,
    refuse_media,
    refuse_options,
    schema_of,
    split_system,
    whole_arguments,
    wire_id,
)
from rxchat.prompt import Message, RequestOptions, Role, ToolSpec
from rxchat.response import MediaPart, Part, ProviderItemPart, ServerToolPart, TextPart, ThinkingPart, ToolCall, ToolResultPart

__all__ = ["build"]

NAME = "gemini"
SIGNATURE = "thoughtSignature"


def build(call: ModelCall) -> WireRequest:
    """
    POST {base_url}/models/{model}:streamGenerateContent?alt=sse (or :generateContent), key in `x-goog-api-key`; `base_url` holds the version.

    ConfigurationError for parallel_tool_calls, which this protocol has no field for.
    """
    request = call.request
    refuse_options(call, NAME, "parallel_tool_calls")
    system, messages = split_system(call.messages)
    body: dict[str, Any] = {"contents": list(_contents(messages))}
    if system is not None:
        body["systemInstruction"] = {"parts": [{"text": system}], "role": "user"}
    body |= _tools(call)
    config = _config(request)
    if config:
        body["generationConfig"] = config
    headers = {"content-type": "application/json"} | ({"x-goog-api-key": call.api_key} if call.api_key else {})
    verb = "streamGenerateContent?alt=sse" if request.stream else "generateContent"
    model = call.model if "/" in call.model else f"models/{call.model}"
    url = endpoint(call.base_url, f"/{model}:{verb}")
    return WireRequest(url, merge_extra(body, request.extra), headers | dict(request.extra_headers))


def _config(request: RequestOptions) -> dict[str, Any]:
    schema = schema_of(request.response_format)
    return drop_none(
        temperature=request.temperature,
        topP=request.top_p,
        topK=request.top_k,
        maxOutputTokens=request.max_tokens,
        stopSequences=list(request.stop) or None,
        presencePenalty=request.presence_penalty,
        frequencyPenalty=request.frequency_penalty,
        seed=request.seed,
        responseMimeType="application/json" if schema or request.response_format == "json" else None,
        responseJsonSchema=dict(schema.schema) if schema else None,
        thinkingConfig=_thinking(request) or None,
    )


def _thinking(request: RequestOptions) -> dict[str, Any]:
    effort, budget = request.reasoning_effort, request.reasoning_budget
    if effort is None and budget is None:
        return {}
    if effort == "none":
        return {"thinkingBudget": 0}
    return {"includeThoughts": True} | drop_none(thinkingBudget=budget, thinkingLevel=effort.upper() if effort else None)


def _tools(call: ModelCall) -> dict[str, Any]:
    choice = call.request.tool_choice
    if not call.tools:
        refuse_options(call, f"{NAME} without tools", "tool_choice")
        return {}
    wire: dict[str, Any] = {"tools": [{"functionDeclarations": [_tool(tool) for tool in call.tools]}]}
    if choice is not None:
        modes = {"auto": "AUTO", "none": "NONE", "required": "ANY"}
        config = {"mode": modes[choice]} if choice in modes else {"mode": "ANY", "allowedFunctionNames": [known_tool(choice, call.tools).name]}
        wire["toolConfig"] = {"functionCallingConfig": config}
    return wire


def _tool(tool: ToolSpec) -> dict[str, Any]:
    if tool.kind != "function":
        raise ConfigurationError(f"gemini has no free-form tools: {tool.name}")
    return drop_none(description=tool.description or None, name=tool.name, parametersJsonSchema=dict(tool.parameters))


# --- contents -------------------------------------------------------------------------------------------------------------------------------------


def _contents(messages: tuple[Message, ...]) -> Iterator[dict[str, Any]]:
    """
    Messages as turns of user and model; neighbours of one side are one turn.
    """
    side, parts = "", list[dict[str, Any]]()
    for message, names in named(messages):
        speaker = "model" if message.role is Role.ASSISTANT else "user"
        if parts and speaker != side:
            yield {"parts": parts, "role": side}
            parts = []
        side = speaker
        for part in message.parts:
            parts += _said(part, names) if speaker == "model" else [_asked(part, names)]
    if parts:
        yield {"parts": parts, "role": side}


def _asked(part: Part, names: Mapping[str, str]) -> dict[str, Any]:
    if isinstance(part, TextPart):
        return {"text": part.text}
    if isinstance(part, ToolResultPart):
        return {"functionResponse": _result(part, names)}
    if isinstance(part, MediaPart):
        return _media(part)
    raise refuse_media(NAME, type(part).__name__, "a user message holds text, media and tool results")


def _media(part: MediaPart) -> dict[str, Any]:
    if part.mime is None:
        raise refuse_media(NAME, f"{part.kind} without a mime type")
    if part.data is not None:
        return {"inlineData": {"data": part.data, "mimeType": part.mime}}
    return {"fileData": {"fileUri": part.url, "mimeType": part.mime}}


def _result(part: ToolResultPart, names: Mapping[str, str]) -> dict[str, Any]:
    name = names.get(part.call_id)
    if name is None:
        raise ConfigurationError(f"the result of call {part.call_id!r} has no call before it to take its name from")
    said: Any = part.result
    media: list[dict[str, Any]] | None = None
    if in_parts(said):
        media = [_media(item) for item in said if isinstance(item, MediaPart)] or None
        said = "".join(item.text for item in said if isinstance(item, TextPart))
    plain = said if isinstance(said, Mapping) else {"error" if part.is_error else "result": said}
    return drop_none(id=wire_id(part.call_id), name=name, response=dict(plain), parts=media)


def _said(part: Part, names: Mapping[str, str]) -> list[dict[str, Any]]:
    """
    A part of an answer as the parts it came as; none for what the API does not take back.
    """
    if isinstance(part, TextPart):
        return [{"text": part.text}] if part.text else []
    if isinstance(part, ThinkingPart):
        return [{"text": part.text, "thought": True, SIGNATURE: part.signature}] if part.signature else []
    if isinstance(part, ToolCall):
        wire: dict[str, Any] = {"functionCall": drop_none(id=wire_id(part.id), name=part.name, args=dict(whole_arguments(part)))}
        return [wire | pick(part.metadata, SIGNATURE)]
    if isinstance(part, ToolResultPart):
        return [{"functionResponse": _result(part, names)}]
    if isinstance(part, MediaPart):
        return [_media(part)]
    if isinstance(part, ServerToolPart):
        asked, answered = ("executableCode", "codeExecutionResult") if part.kind == "codeExecution" else ("toolCall", "toolResponse")
        return [_signed(name, said) for name, said in ((asked, part.payload), (answered, part.result)) if isinstance(said, Mapping)]
    if isinstance(part, ProviderItemPart) and part.type == SIGNATURE and isinstance(part.raw, Mapping):
        return [dict(part.raw)]
    return []


def _signed(name: str, said: Mapping[str, Any]) -> dict[str, Any]:
    """
    A part of a tool of the provider's, its signature beside it again.
    """
    return {name: {key: value for key, value in said.items() if key != SIGNATURE}} | drop_none(**{SIGNATURE: said.get(SIGNATURE)})
