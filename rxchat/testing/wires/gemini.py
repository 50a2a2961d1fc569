"""
Gemini's generateContent as the Gemini API sends it: an event stream (CRLF), the streamed JSON array, and one JSON body.

Every event holds one piece, neighbouring calls come together; the last event has the finishReason, the counts, and what was cited or blocked.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import attrs

from rxchat.outgoing.common import drop_none
from rxchat.response import (
    CitationPart,
    ContentFilterPart,
    FinishReason,
    MediaPart,
    ProviderItemPart,
    SearchResultPart,
    ServerToolPart,
    TextPart,
    ThinkingPart,
    ToolCall,
    ToolResultPart,
    Usage,
)
from rxchat.testing.answers import FakeAnswer, pieces_of
from rxchat.testing.asked import FakeRequest
from rxchat.testing.wires.base import Delta, Wire, cannot_say, json_bytes
from rxchat.testing.wires.gemini_grounding import sources
from rxchat.testing.wires.saying import arguments_of, finish_word, metadata_of, refuse_counts, refuse_fields, runs, unreasoned

__all__ = ["GEMINI", "GEMINI_ARRAY", "google_refusal"]

NAME = "gemini"
SIGNATURE = "thoughtSignature"
_FINISH: Mapping[FinishReason, str] = {
    FinishReason.STOP: "STOP",
    FinishReason.TOOL_CALLS: "STOP",
    FinishReason.LENGTH: "MAX_TOKENS",
    FinishReason.CONTENT_FILTER: "SAFETY",
    FinishReason.OTHER: "OTHER",
}
_STATUS: Mapping[int, str] = {
    400: "INVALID_ARGUMENT",
    401: "UNAUTHENTICATED",
    403: "PERMISSION_DENIED",
    404: "NOT_FOUND",
    429: "RESOURCE_EXHAUSTED",
    500: "INTERNAL",
    503: "UNAVAILABLE",
    504: "DEADLINE_EXCEEDED",
}

Json = dict[str, Any]


def _events(answer: FakeAnswer) -> Iterator[Json]:
    """
    The events of an answer, whatever they are framed in.
    """
    for parts in _contents(answer, answer.piece):
        yield _event(answer, {"content": {"parts": parts, "role": "model"}, "index": 0})
    for part in answer.parts:
        if isinstance(part, ContentFilterPart) and not part.blocked:
            yield _event(answer, {"index": 0, **_ratings([part])})
    yield _event(answer, {"content": {"parts": [{"text": ""}], "role": "model"}, **_last(answer)}) | _usage(answer.usage)


def _whole(answer: FakeAnswer) -> bytes:
    noted = any(isinstance(part, ContentFilterPart) and not part.blocked for part in answer.parts)
    if noted:
        raise cannot_say(NAME, "a filter that blocked nothing", "only a stream has a place for it")
    parts = [part for several in _contents(answer, 0) for part in several]
    event = _event(answer, {"content": {"parts": parts, "role": "model"}, **_last(answer)}) | _usage(answer.usage)
    return _pretty(event)


def _event(answer: FakeAnswer, candidate: Json) -> Json:
    return {"candidates": [candidate], "modelVersion": answer.model, "responseId": answer.id}


def _last(answer: FakeAnswer) -> Json:
    blocked = [part for part in answer.parts if isinstance(part, ContentFilterPart) and part.blocked]
    finish = answer.reason
    if blocked and finish is not FinishReason.CONTENT_FILTER:
        raise cannot_say(NAME, f"a filter that blocked beside the finish {finish.value}", "give finish=FinishReason.CONTENT_FILTER")
    said: Json = {"finishReason": finish_word(NAME, finish, _FINISH), "index": 0}
    if finish is FinishReason.TOOL_CALLS:
        said["finishMessage"] = "Model generated function call(s)."
    return said | (_ratings(blocked) if blocked else {}) | sources(answer.parts)


def _ratings(filters: list[ContentFilterPart]) -> Json:
    texts = {part.text for part in filters}
    if len(texts) > 1:
        raise cannot_say(NAME, "filters with different texts", "one finishMessage is all there is")
    ratings = [{"category": part.category, "probability": "HIGH", "blocked": True} for part in filters]
    text = texts.pop()
    return {"safetyRatings": ratings} | ({"finishMessage": text} if text else {})


def _usage(usage: Usage | None) -> Json:
    if usage is None:
        return {}
    refuse_counts(NAME, usage, "input_tokens", "output_tokens", "cache_read_tokens", "reasoning_tokens", "total_tokens")
    counts = {
        "promptTokenCount": usage.input_tokens,
        "candidatesTokenCount": unreasoned(NAME, usage),
        "totalTokenCount": usage.total_tokens,
        "cachedContentTokenCount": usage.cache_read_tokens,
        "thoughtsTokenCount": usage.reasoning_tokens,
    }
    return {"usageMetadata": drop_none(**counts)}


# --- parts ----------------------------------------------------------------------------------------------------------------------------------------


def _contents(answer: FakeAnswer, size: int) -> Iterator[list[Json]]:
    """
    The parts of each event; texts cut to `size`, 0 leaves them whole.
    """
    calls = [part for part in answer.parts if isinstance(part, ToolCall)]
    answered = {part.call_id for part in answer.parts if isinstance(part, ToolResultPart)}
    for call in calls:
        if call.server_executed != (call.id in answered):
            raise cannot_say(
                NAME, f"the call {call.id!r}", "the provider ran it itself (server_executed) if its result is in the answer, and only then"
            )
    names = {call.id: call.name for call in calls}
    for several in runs(answer.parts):
        first = several[0]
        if isinstance(first, ToolCall):
            yield [_call(call) for call in several if isinstance(call, ToolCall)]
        elif isinstance(first, ToolResultPart):
            yield [_result(first, names)]
        elif not isinstance(first, CitationPart | ContentFilterPart | SearchResultPart):
            handler = _PARTS.get(type(first))
            if handler is None:
                raise cannot_say(NAME, first)
            yield from ([part] for part in handler(first, size))


def _text(part: TextPart, size: int) -> Iterator[Json]:
    for piece in pieces_of(part.text, size or len(part.text) or 1):
        yield {"text": piece}


def _thinking(part: ThinkingPart, size: int) -> Iterator[Json]:
    for piece in pieces_of(part.text, size or len(part.text) or 1):
        yield {"text": piece, "thought": True}
    if part.signature:
        yield {"text": "", "thought": True, SIGNATURE: part.signature}


def _call(call: ToolCall) -> Json:
    """
    What the provider ran itself is a call like another; its result stands behind it.
    """
    said: Json = {"id": call.id, "name": call.name}
    arguments = arguments_of(NAME, call)
    if call.arguments_text:
        said["args"] = arguments
    return {"functionCall": said} | metadata_of(NAME, attrs.evolve(call, server_executed=False), SIGNATURE)


def _result(part: ToolResultPart, names: Mapping[str, str]) -> Json:
    if part.call_id not in names or not isinstance(part.result, Mapping) or part.is_error != bool(part.result.get("error")):
        raise cannot_say(NAME, f"the result of {part.call_id!r}", "it is an object, with an error in it if it is one, and its call is in the answer")
    return {"functionResponse": {"id": part.call_id, "name": names[part.call_id], "response": dict(part.result)}}


def _media(part: MediaPart, size: int) -> Iterator[Json]:
    refuse_fields(NAME, part, "transcript", "name")
    if part.mime is None or bool(part.data) == bool(part.url):
        raise cannot_say(NAME, f"this {part.kind}", "it has a mime type, and data or a url")
    yield {"inlineData": {"mimeType": part.mime, "data": part.data}} if part.data else {"fileData": {"mimeType": part.mime, "fileUri": part.url}}


def _server_tool(part: ServerToolPart, size: int) -> Iterator[Json]:
    asked, answered = ("executableCode", "codeExecutionResult") if part.kind == "codeExecution" else ("toolCall", "toolResponse")
    refuse_fields(NAME, part, "arguments_text", "needs_client")
    for key, said in ((asked, part.payload), (answered, part.result)):
        if said is not None and not isinstance(said, Mapping):
            raise cannot_say(NAME, f"the tool {part.kind}", "its payload and result are the objects of the wire")
        if said is not None:
            signature = {SIGNATURE: said[SIGNATURE]} if said.get(SIGNATURE) else {}
            yield {key: {name: value for name, value in said.items() if name != SIGNATURE}} | signature


def _item(part: ProviderItemPart, size: int) -> Iterator[Json]:
    if part.type != SIGNATURE or not isinstance(part.raw, Mapping):
        raise cannot_say(NAME, f"the item {part.type}", f"its only one is {SIGNATURE}, an empty text part with it")
    yield dict(part.raw)


_PARTS: Mapping[type, Callable[[Any, int], Iterator[Json]]] = {
    TextPart: _text,
    ThinkingPart: _thinking,
    MediaPart: _media,
    ServerToolPart: _server_tool,
    ProviderItemPart: _item,
}


# --- frames ---------------------------------------------------------------------------------------------------------------------------------------


def _sse(answer: FakeAnswer) -> Iterator[bytes]:
    for event in _events(answer):
        yield _paced(event, b"data: " + json_bytes(event) + b"\r\n\r\n")


def _array(answer: FakeAnswer) -> Iterator[bytes]:
    """
    The comma stands before the element it precedes, the closing bracket is a frame of its own.
    """
    for k, event in enumerate(_events(answer)):
        yield _paced(event, (b"\n,\r\n" if k else b"[") + _pretty(event))
    yield b"\n]\n"


def _paced(event: Json, frame: bytes) -> bytes:
    return frame if "finishReason" in event["candidates"][0] else Delta(frame)


def _pretty(value: Any) -> bytes:
    return json.dumps(value, indent=2, ensure_ascii=False).encode()


def _error(message: str, status: int = 500) -> Json:
    return {"error": {"code": status, "message": message, "status": _STATUS.get(status, "UNKNOWN")}}


def google_refusal(status: int, message: str) -> tuple[str, bytes]:
    """
    Google's answer to a request it does not take.
    """
    return "application/json; charset=UTF-8", _pretty(_error(message, status)) + b"\n"


def _streams(request: FakeRequest) -> bool:
    return ":streamGenerateContent" in request.path


def _choose(request: FakeRequest) -> Wire:
    return GEMINI if "alt=sse" in request.path else GEMINI_ARRAY


GEMINI_ARRAY = Wire(
    content_type="application/json; charset=UTF-8",
    frames=_array,
    whole=_whole,
    error=lambda message: b"\n,\r\n" + _pretty(_error(message)) + b"\n]\n",
    malformed=b'\n,\r\n{"candidates" [{}]}',
    refusal=google_refusal,
    heartbeat=None,
    base="/v1beta",
    streams=_streams,
)

GEMINI = attrs.evolve(
    GEMINI_ARRAY,
    content_type="text/event-stream",
    frames=_sse,
    # Bare lines and no event: so the API does it.
    error=lambda message: _pretty(_error(message)) + b"\n",
    malformed=b'data: {"candidates": [{"content": {"parts": [{"text": "}]\r\n\r\n',
    choose=_choose,
)
