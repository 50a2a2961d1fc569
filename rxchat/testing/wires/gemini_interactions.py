"""
Gemini's Interactions: an event stream of numbered steps, or one JSON body with the same steps.

Each part is a step of its own; a citation goes into the step of the text before it, in bytes of that text.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from rxchat.outgoing.common import drop_none
from rxchat.response import CitationPart, FinishReason, MediaPart, Part, TextPart, ThinkingPart, ToolCall, ToolResultPart, Usage
from rxchat.testing.answers import FakeAnswer, pieces_of
from rxchat.testing.wires.base import Delta, Wire, cannot_say, json_bytes, sse
from rxchat.testing.wires.gemini import google_refusal
from rxchat.testing.wires.saying import arguments_of, byte_range, finish_word, metadata_of, refuse_counts, refuse_fields, unreasoned

__all__ = ["GEMINI_INTERACTIONS"]

NAME = "gemini-interactions"
_TIME = "2026-01-01T00:00:00Z"
_FINISH: Mapping[FinishReason, str] = {
    FinishReason.STOP: "completed",
    FinishReason.TOOL_CALLS: "requires_action",
    FinishReason.LENGTH: "incomplete",
    FinishReason.ERROR: "failed",
}
_MEDIA: Mapping[str, str] = {"image": "image", "audio": "audio", "video": "video", "file": "document"}

Json = dict[str, Any]


def _frames(answer: FakeAnswer) -> Iterator[bytes]:
    begun = {"id": answer.id, "model": answer.model, "object": "interaction", "status": "in_progress"}
    yield _event("interaction.created", interaction=begun)
    yield _event("interaction.status_update", interaction_id=answer.id, status="in_progress")
    for index, parts in enumerate(_steps(answer.parts)):
        start, deltas = _STREAMED[type(parts[0])](parts, answer.piece)
        yield _event("step.start", index=index, step=start)
        for delta in deltas:
            yield Delta(_event("step.delta", index=index, delta=delta))
        yield _event("step.stop", index=index)
    yield _event("interaction.completed", interaction=_interaction(answer))
    yield sse("[DONE]", "done")


def _whole(answer: FakeAnswer) -> bytes:
    steps = [_WHOLE[type(parts[0])](parts) for parts in _steps(answer.parts)]
    return json_bytes(_interaction(answer) | {"role": "model", "steps": steps})


def _event(name: str, **said: Any) -> bytes:
    return sse({"event_type": name, **said}, name)


def _interaction(answer: FakeAnswer) -> Json:
    status = finish_word(NAME, answer.reason, _FINISH)
    said = {"id": answer.id, "model": answer.model, "object": "interaction", "status": status, "created": _TIME, "updated": _TIME}
    return said | _usage(answer.usage)


def _usage(usage: Usage | None) -> Json:
    if usage is None:
        return {}
    refuse_counts(NAME, usage, "input_tokens", "output_tokens", "cache_read_tokens", "reasoning_tokens", "total_tokens")
    counts = {
        "total_input_tokens": usage.input_tokens,
        "total_output_tokens": unreasoned(NAME, usage),
        "total_cached_tokens": usage.cache_read_tokens,
        "total_thought_tokens": usage.reasoning_tokens,
        "total_tokens": usage.total_tokens,
    }
    return {"usage": drop_none(**counts)}


def _steps(parts: tuple[Part, ...]) -> Iterator[list[Part]]:
    """
    The parts of each step: one, and behind a text its citations.
    """
    step: list[Part] = []
    for part in parts:
        if isinstance(part, CitationPart):
            if not step or not isinstance(step[0], TextPart):
                raise cannot_say(NAME, "a citation that follows no text")
            step.append(part)
            continue
        if type(part) not in _STREAMED:
            raise cannot_say(NAME, part)
        if step:
            yield step
        step = [part]
    if step:
        yield step


# --- steps in a stream ------------------------------------------------------------------------------------------------------------------------------


def _thought(parts: list[Any], size: int) -> tuple[Json, Iterator[Json]]:
    return {"type": "thought"}, _thought_deltas(parts[0], size)


def _thought_deltas(part: ThinkingPart, size: int) -> Iterator[Json]:
    for piece in pieces_of(part.text, size):
        yield {"type": "thought_summary", "content": {"type": "text", "text": piece}}
    if part.signature:
        yield {"type": "thought_signature", "signature": part.signature}


def _output(parts: list[Any], size: int) -> tuple[Json, Iterator[Json]]:
    return {"type": "model_output"}, _output_deltas(parts, size)


def _output_deltas(parts: list[Any], size: int) -> Iterator[Json]:
    for piece in pieces_of(parts[0].text, size):
        yield {"type": "text", "text": piece}
    annotations = _annotations(parts)
    if annotations:
        yield {"type": "text_annotation_delta", "annotations": annotations}


def _shown(parts: list[Any], size: int) -> tuple[Json, Iterator[Json]]:
    return {"type": "model_output"}, iter([_media(parts[0])])


def _call(parts: list[Any], size: int) -> tuple[Json, Iterator[Json]]:
    call: ToolCall = parts[0]
    start = {"type": "function_call", "id": call.id, "name": call.name, "arguments": {}} | metadata_of(NAME, call, "signature")
    return start, ({"type": "arguments_delta", "arguments": piece} for piece in pieces_of(call.arguments_text, size))


def _result(parts: list[Any], size: int) -> tuple[Json, Iterator[Json]]:
    return _whole_result(parts), iter(())


_STREAMED: Mapping[type, Callable[[list[Any], int], tuple[Json, Iterator[Json]]]] = {
    ThinkingPart: _thought,
    TextPart: _output,
    MediaPart: _shown,
    ToolCall: _call,
    ToolResultPart: _result,
}


# --- whole steps ----------------------------------------------------------------------------------------------------------------------------------


def _whole_thought(parts: list[Any]) -> Json:
    part: ThinkingPart = parts[0]
    summary = [{"type": "text", "text": part.text}] if part.text else []
    return {"type": "thought", "summary": summary} | ({"signature": part.signature} if part.signature else {})


def _whole_output(parts: list[Any]) -> Json:
    annotations = _annotations(parts)
    content = {"type": "text", "text": parts[0].text} | ({"annotations": annotations} if annotations else {})
    return {"type": "model_output", "content": [content]}


def _whole_shown(parts: list[Any]) -> Json:
    return {"type": "model_output", "content": [_media(parts[0])]}


def _whole_call(parts: list[Any]) -> Json:
    call: ToolCall = parts[0]
    return {"type": "function_call", "id": call.id, "name": call.name, "arguments": arguments_of(NAME, call)} | metadata_of(NAME, call, "signature")


def _whole_result(parts: list[Any]) -> Json:
    part: ToolResultPart = parts[0]
    return {"type": "function_result", "call_id": part.call_id, "result": part.result, "is_error": part.is_error}


_WHOLE: Mapping[type, Callable[[list[Any]], Json]] = {
    ThinkingPart: _whole_thought,
    TextPart: _whole_output,
    MediaPart: _whole_shown,
    ToolCall: _whole_call,
    ToolResultPart: _whole_result,
}


def _media(part: MediaPart) -> Json:
    refuse_fields(NAME, part, "transcript", "name")
    if part.kind not in _MEDIA or bool(part.data) == bool(part.url):
        raise cannot_say(NAME, f"this {part.kind}", "it has data or a url, and is an image, audio, a video or a file")
    said = {"type": _MEDIA[part.kind], "mime_type": part.mime, "data": part.data, "uri": part.url}
    return {key: value for key, value in said.items() if value}


def _annotations(parts: list[Any]) -> list[Json]:
    return [_annotation(part, parts[0].text) for part in parts[1:]]


def _annotation(part: CitationPart, text: str) -> Json:
    if part.quoted is not None:
        raise cannot_say(NAME, "a citation with quoted words")
    place = byte_range(NAME, part, text)
    named = {"url": part.url, "title": part.title, "file_name": part.file}
    said = {"type": "file_citation" if part.file else "url_citation"} | drop_none(**named)
    return said if place is None else said | {"start_index": place[0], "end_index": place[1]}


GEMINI_INTERACTIONS = Wire(
    content_type="text/event-stream",
    frames=_frames,
    whole=_whole,
    error=lambda message: _event("error", error={"code": "internal_error", "message": message}),
    malformed=b'event: step.delta\ndata: {"event_type":"step.delta","index":0,"delta":{"type":"text","text":"}\n\n',
    refusal=google_refusal,
    heartbeat=None,
    base="/v1beta",
)
