"""
OpenAI Chat Completions as its provider sends it: chunks and `[DONE]`, or one JSON body.

Thinking goes as `reasoning_content`, its seal as Google's compatible endpoint has it. Usage is always told, asked for or not.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, TypeAlias

from rxchat.outgoing.common import drop_none
from rxchat.response import (
    CitationPart,
    ContentFilterPart,
    FinishReason,
    MediaPart,
    Part,
    RedactedThinkingPart,
    RefusalPart,
    TextPart,
    ThinkingPart,
    ToolCall,
    Usage,
)
from rxchat.testing.answers import FakeAnswer
from rxchat.testing.wires.base import Delta, Wire, cannot_say, data_url, json_bytes, sse
from rxchat.testing.wires.saying import finish_word

__all__ = ["OPENAI_CHAT", "chunk", "counts", "openai_error", "openai_refusal", "refused_by_words"]

Json: TypeAlias = dict[str, Any]

NAME = "openai-chat"
_FINISH: Mapping[FinishReason, str | None] = {
    FinishReason.STOP: "stop",
    FinishReason.LENGTH: "length",
    FinishReason.TOOL_CALLS: "tool_calls",
    FinishReason.CONTENT_FILTER: "content_filter",
    # A refusal is told by its words.
    FinishReason.REFUSAL: "stop",
    FinishReason.ERROR: "error",
    FinishReason.OTHER: "other",
    FinishReason.UNKNOWN: None,
}


def _frames(answer: FakeAnswer) -> Iterator[bytes]:
    yield chunk(answer, {"role": "assistant", "content": ""})
    calls = 0
    for part in answer.parts:
        if isinstance(part, ContentFilterPart):
            yield chunk(answer, {}, **_filtered(part))
        elif isinstance(part, ToolCall):
            yield from (Delta(chunk(answer, {"tool_calls": [piece]})) for piece in _call(part, calls, answer))
            calls += 1
        else:
            yield from (Delta(chunk(answer, delta)) for delta in _deltas(part, answer))
    word = _word(answer)
    if word is not None:
        yield chunk(answer, {}, finish_reason=word)
    if answer.usage is not None:
        yield sse(_envelope(answer) | {"choices": [], "usage": counts(answer.usage)})
    yield sse("[DONE]")


def _envelope(answer: FakeAnswer) -> Json:
    return {"id": answer.id, "object": "chat.completion.chunk", "created": 1, "model": answer.model}


def chunk(answer: FakeAnswer, delta: Json, *, beside: Json | None = None, **choice: Any) -> bytes:
    """
    A frame of the one choice, and what stands beside the choices.
    """
    return sse(_envelope(answer) | {"choices": [{"index": 0, "delta": delta, "finish_reason": None} | choice]} | (beside or {}))


def _word(answer: FakeAnswer) -> str | None:
    refused_by_words(NAME, answer)
    return finish_word(NAME, answer.reason, _FINISH)


def refused_by_words(dialect: str, answer: FakeAnswer) -> None:
    """
    ConfigurationError for a finish that its RefusalParts contradict, where nothing else tells a refusal.
    """
    words = any(isinstance(part, RefusalPart) for part in answer.parts)
    if words is not (answer.reason is FinishReason.REFUSAL) and answer.reason in (FinishReason.REFUSAL, FinishReason.STOP):
        raise cannot_say(dialect, f"the finish {answer.reason.value} {'with' if words else 'without'} a RefusalPart")


# --- parts ----------------------------------------------------------------------------------------------------------------------------------------


def _deltas(part: Part, answer: FakeAnswer) -> Iterator[Json]:
    handler = _PARTS.get(type(part))
    if handler is None:
        raise cannot_say(NAME, part)
    return handler(part, answer)


def _text(part: TextPart, answer: FakeAnswer) -> Iterator[Json]:
    return ({"content": piece} for piece in answer.pieces(part.text))


def _thinking(part: ThinkingPart, answer: FakeAnswer) -> Iterator[Json]:
    yield from ({"reasoning_content": piece} for piece in answer.pieces(part.text))
    if part.signature:
        yield {"extra_content": {"google": {"thought_signature": part.signature}}}


def _redacted(part: RedactedThinkingPart, answer: FakeAnswer) -> Iterator[Json]:
    yield {"reasoning_encrypted": part.data}


def _refused(part: RefusalPart, answer: FakeAnswer) -> Iterator[Json]:
    return ({"refusal": piece} for piece in answer.pieces(part.text))


def _cited(part: CitationPart, answer: FakeAnswer) -> Iterator[Json]:
    place = drop_none(title=part.title, content=part.quoted, start_index=part.start, end_index=part.end)
    if part.url is not None:
        yield {"annotations": [{"type": "url_citation", "url_citation": {"url": part.url} | place}]}
    elif part.file is not None:
        yield {"annotations": [{"type": "file_citation", "file_citation": {"filename": part.file} | place}]}
    else:
        raise cannot_say(NAME, "a citation without url and file")


def _media(part: MediaPart, answer: FakeAnswer) -> Iterator[Json]:
    if part.kind == "image" and (part.url or part.data):
        yield {"images": [{"type": "image_url", "image_url": {"url": part.url or data_url(part)}}]}
    elif part.kind == "audio" and part.data and part.mime is None:
        audio = {"id": part.item_id or "audio_1"}
        yield from ({"audio": audio | {"transcript": piece}} for piece in answer.pieces(part.transcript or ""))
        yield {"audio": audio | {"data": part.data, "expires_at": 2}}
    else:
        raise cannot_say(NAME, f"{part.kind} of this form", "it has images, as data or url, and audio, as data without a mime type")


def _call(part: ToolCall, index: int, answer: FakeAnswer) -> Iterator[Json]:
    if part.server_executed:
        raise cannot_say(NAME, "a call the provider ran itself")
    field = "input" if part.kind == "custom" else "arguments"
    start = {"index": index, "id": part.id, "type": part.kind, part.kind: {"name": part.name, field: ""}}
    yield start | dict(part.metadata or {})
    yield from ({"index": index, part.kind: {field: piece}} for piece in answer.pieces(part.arguments_text))


def _filtered(part: ContentFilterPart) -> Json:
    return {"content_filter_results": {part.category: {"filtered": part.blocked} | drop_none(severity=part.text)}}


_PARTS: Mapping[type, Callable[[Any, FakeAnswer], Iterator[Json]]] = {
    TextPart: _text,
    ThinkingPart: _thinking,
    RedactedThinkingPart: _redacted,
    RefusalPart: _refused,
    CitationPart: _cited,
    MediaPart: _media,
}


# --- what is not streamed -------------------------------------------------------------------------------------------------------------------------


def counts(usage: Usage) -> Json:
    """
    Our counts in OpenAI's words; those never reported are left out.
    """
    prompt = drop_none(cached_tokens=usage.cache_read_tokens, cache_write_tokens=usage.cache_write_tokens)
    completion = drop_none(reasoning_tokens=usage.reasoning_tokens)
    sums = drop_none(prompt_tokens=usage.input_tokens, completion_tokens=usage.output_tokens, total_tokens=usage.total_tokens)
    return sums | ({"prompt_tokens_details": prompt} if prompt else {}) | ({"completion_tokens_details": completion} if completion else {})


def _whole(answer: FakeAnswer) -> bytes:
    message: Json = {"role": "assistant", "content": None}
    choice: Json = {"index": 0, "message": message, "finish_reason": _word(answer)}
    for part in answer.parts:
        if isinstance(part, ContentFilterPart):
            choice.setdefault("content_filter_results", {}).update(_filtered(part)["content_filter_results"])
        elif isinstance(part, ToolCall):
            message.setdefault("tool_calls", []).append(_whole_call(part, answer))
        else:
            for delta in _deltas(part, answer):
                _add(message, delta)
    usage = {} if answer.usage is None else {"usage": counts(answer.usage)}
    return json_bytes(_envelope(answer) | {"object": "chat.completion", "choices": [choice]} | usage)


def _whole_call(part: ToolCall, answer: FakeAnswer) -> Json:
    start, *_ = _call(part, 0, answer)
    del start["index"]
    field = "input" if part.kind == "custom" else "arguments"
    return start | {part.kind: {"name": part.name, field: part.arguments_text}}


def _add(message: Json, delta: Json) -> None:
    """
    One more delta: texts and lists grow, of an audio its texts.
    """
    for key, value in delta.items():
        known = message.get(key)
        if known is None or not isinstance(value, str | list | dict):
            message[key] = value
        elif isinstance(value, dict):
            message[key] = known | value | {"transcript": known.get("transcript", "") + value.get("transcript", "")}
        else:
            message[key] = known + value


# --- failures -------------------------------------------------------------------------------------------------------------------------------------

# What a status is called; a client error that is none of these is an invalid request.
_TYPES: Mapping[int, tuple[str, str | None]] = {
    401: ("authentication_error", "invalid_api_key"),
    403: ("permission_error", None),
    404: ("invalid_request_error", "model_not_found"),
    429: ("requests", "rate_limit_exceeded"),
}


def openai_error(message: str, type: str = "server_error", code: str | None = "server_error") -> Json:
    """
    An error object as OpenAI writes it.
    """
    return {"error": {"message": message, "type": type, "param": None, "code": code}}


def openai_refusal(status: int, message: str) -> tuple[str, bytes]:
    """
    The body of a refused request.
    """
    unnamed = ("server_error", None) if status >= 500 else ("invalid_request_error", None)
    return "application/json", json_bytes(openai_error(message, *_TYPES.get(status, unnamed)))


OPENAI_CHAT = Wire(
    content_type="text/event-stream; charset=utf-8",
    frames=_frames,
    whole=_whole,
    error=lambda message: sse(openai_error(message)),
    malformed=b'data: {"id":"fake-answer-1","object":"chat.completion.chunk","choices":[{"index":0,"delta":{"content":"}\n\n',
    refusal=openai_refusal,
    heartbeat=b": keep-alive\n\n",
    base="/v1",
)
