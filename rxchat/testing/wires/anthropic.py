"""
Anthropic's Messages as their provider sends them: blocks in deltas, or one JSON body.

A citation belongs to the text before it, or to the next one where there is none. A refusal's words are the explanation in `stop_details`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, TypeAlias

from rxchat.outgoing.common import drop_none
from rxchat.response import (
    CitationPart,
    ContentFilterPart,
    FinishReason,
    Part,
    RedactedThinkingPart,
    RefusalPart,
    TextPart,
    ThinkingPart,
    ToolCall,
    Usage,
)
from rxchat.testing.answers import FakeAnswer
from rxchat.testing.wires.base import Delta, Wire, cannot_say, json_bytes, sse
from rxchat.testing.wires.saying import arguments_of, finish_word, refuse_total, uncached

__all__ = ["ANTHROPIC"]

Json: TypeAlias = dict[str, Any]

NAME = "anthropic"
_FINISH: Mapping[FinishReason, str | None] = {
    FinishReason.STOP: "end_turn",
    FinishReason.TOOL_CALLS: "tool_use",
    FinishReason.LENGTH: "max_tokens",
    FinishReason.REFUSAL: "refusal",
    FinishReason.PAUSE: "pause_turn",
    FinishReason.OTHER: "other",
    FinishReason.UNKNOWN: None,
}


def _frames(answer: FakeAnswer) -> Iterator[bytes]:
    counts = _usage(answer.usage)
    first = {name: value for name, value in counts.items() if name not in ("output_tokens", "output_tokens_details")}
    begun = {"output_tokens": 1} if "output_tokens" in counts else {}
    yield _event("message_start", message=_message(answer, [], {"stop_reason": None, "stop_sequence": None}, first | begun))
    for index, group in enumerate(_blocks(answer.parts)):
        yield from _block(group, index, answer)
    yield _event("message_delta", delta=_stop(answer), usage=counts)
    yield _event("message_stop")


def _event(kind: str, **fields: Any) -> bytes:
    return sse({"type": kind, **fields}, kind)


def _message(answer: FakeAnswer, content: list[Json], stop: Json, usage: Json) -> Json:
    head = {"id": answer.id, "type": "message", "role": "assistant", "model": answer.model}
    return head | {"content": content} | stop | {"usage": usage}


def _stop(answer: FakeAnswer) -> Json:
    """
    Why it ends; a refusal has details.
    """
    words = "".join(part.text for part in answer.parts if isinstance(part, RefusalPart))
    category = next((part.category for part in answer.parts if isinstance(part, ContentFilterPart)), None)
    stop: Json = {"stop_reason": finish_word(NAME, answer.reason, _FINISH), "stop_sequence": None}
    if answer.reason is FinishReason.REFUSAL:
        return stop | {"stop_details": {"type": "refusal", "category": category, "explanation": words or None}}
    if words or category:
        raise cannot_say(NAME, "words of refusal or a filter", "they belong to the finish refusal")
    return stop


def _usage(usage: Usage | None) -> Json:
    """
    Our counts in its words: what came from a cache or went there is counted apart.
    """
    if usage is None:
        return {}
    refuse_total(NAME, usage)
    details = drop_none(thinking_tokens=usage.reasoning_tokens)
    counts = drop_none(
        input_tokens=uncached(NAME, usage),
        cache_creation_input_tokens=usage.cache_write_tokens,
        cache_read_input_tokens=usage.cache_read_tokens,
        output_tokens=usage.output_tokens,
    )
    return counts | ({"output_tokens_details": details} if details else {})


# --- blocks ---------------------------------------------------------------------------------------------------------------------------------------


def _blocks(parts: tuple[Part, ...]) -> Iterator[list[Part]]:
    """
    The parts of each block: one, or a text with its citations.
    """
    text: list[Part] = []
    for part in parts:
        if isinstance(part, RefusalPart | ContentFilterPart):
            continue
        closed = not isinstance(part, TextPart | CitationPart) or (isinstance(part, TextPart) and any(isinstance(one, TextPart) for one in text))
        if text and closed:
            yield text
            text = []
        if isinstance(part, TextPart | CitationPart):
            text.append(part)
        else:
            yield [part]
    if text:
        yield text


def _block(group: list[Part], index: int, answer: FakeAnswer) -> Iterator[bytes]:
    yield _event("content_block_start", index=index, content_block=_start(group[0]))
    for part in group:
        yield from (Delta(_event("content_block_delta", index=index, delta=delta)) for delta in _deltas(part, answer))
    yield _event("content_block_stop", index=index)


def _start(part: Part) -> Json:
    if isinstance(part, TextPart | CitationPart):
        return {"type": "text", "text": ""}
    if isinstance(part, ThinkingPart):
        return {"type": "thinking", "thinking": "", "signature": ""}
    if isinstance(part, RedactedThinkingPart):
        return {"type": "redacted_thinking", "data": part.data}
    if isinstance(part, ToolCall) and part.kind == "function" and not part.server_executed:
        return {"type": "tool_use", "id": part.id, "name": part.name, "input": {}} | dict(part.metadata or {})
    raise cannot_say(NAME, part)


def _deltas(part: Part, answer: FakeAnswer) -> Iterator[Json]:
    if isinstance(part, TextPart):
        yield from ({"type": "text_delta", "text": piece} for piece in answer.pieces(part.text))
    elif isinstance(part, CitationPart):
        yield {"type": "citations_delta", "citation": _citation(part)}
    elif isinstance(part, ThinkingPart):
        yield from ({"type": "thinking_delta", "thinking": piece} for piece in answer.pieces(part.text))
        if part.signature:
            yield {"type": "signature_delta", "signature": part.signature}
    elif isinstance(part, ToolCall):
        yield {"type": "input_json_delta", "partial_json": ""}
        yield from ({"type": "input_json_delta", "partial_json": piece} for piece in answer.pieces(part.arguments_text))


def _citation(part: CitationPart) -> Json:
    if part.start is not None or part.end is not None:
        raise cannot_say(NAME, "the place of a citation in the answer", "its offsets are those of the cited document")
    if part.url is not None:
        return {"type": "web_search_result_location", "cited_text": part.quoted, "url": part.url, "title": part.title, "encrypted_index": ""}
    place = {"document_index": 0, "document_title": part.title, "start_char_index": 0, "end_char_index": len(part.quoted or "")}
    return {"type": "char_location", "cited_text": part.quoted, **place, "file_id": part.file}


def _whole(answer: FakeAnswer) -> bytes:
    content = [_whole_block(group) for group in _blocks(answer.parts)]
    return json_bytes(_message(answer, content, _stop(answer), _usage(answer.usage)))


def _whole_block(group: list[Part]) -> Json:
    block, part = _start(group[0]), group[0]
    if isinstance(part, ThinkingPart):
        return block | {"thinking": part.text, "signature": part.signature or ""}
    if isinstance(part, ToolCall):
        return block | {"input": arguments_of(NAME, part)}
    if isinstance(part, RedactedThinkingPart):
        return block
    text = "".join(one.text for one in group if isinstance(one, TextPart))
    citations = [_citation(one) for one in group if isinstance(one, CitationPart)]
    return block | {"text": text} | ({"citations": citations} if citations else {})


# --- failures -------------------------------------------------------------------------------------------------------------------------------------

_TYPES: Mapping[int, str] = {
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    413: "request_too_large",
    429: "rate_limit_error",
    529: "overloaded_error",
}


def _error(message: str, type: str = "api_error") -> Json:
    return {"type": "error", "error": {"type": type, "message": message}, "request_id": "req_fake_1"}


def _refusal(status: int, message: str) -> tuple[str, bytes]:
    unnamed = "api_error" if status >= 500 else "invalid_request_error"
    return "application/json", json_bytes(_error(message, _TYPES.get(status, unnamed)))


ANTHROPIC = Wire(
    content_type="text/event-stream; charset=utf-8",
    frames=_frames,
    whole=_whole,
    error=lambda message: sse(_error(message), "error"),
    malformed=b'event: content_block_delta\ndata: {"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"}\n\n',
    refusal=_refusal,
    heartbeat=b'event: ping\ndata: {"type": "ping"}\n\n',
    base="",
)
