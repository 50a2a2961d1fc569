"""
OpenAI's Responses as their provider sends them: items announced, filled and settled, the terminal response; or one JSON body.

Neighbouring texts, citations and refusals are one message. A signature is the encrypted content of its reasoning. An image is told once as a partial one too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from itertools import groupby
from typing import Any, TypeAlias

import attrs

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
from rxchat.testing.wires.base import Delta, Wire, cannot_say, json_bytes, sse
from rxchat.testing.wires.openai_chat import openai_error, openai_refusal, refused_by_words
from rxchat.testing.wires.saying import finish_word

__all__ = ["OPENAI_RESPONSES"]

Json: TypeAlias = dict[str, Any]

NAME = "openai-responses"
# Status, and why it is incomplete.
_COMPLETED, _INCOMPLETE, _FAILED = "completed", "incomplete", "failed"
_FINISH: Mapping[FinishReason, str | None] = {
    FinishReason.STOP: _COMPLETED,
    FinishReason.TOOL_CALLS: _COMPLETED,
    FinishReason.REFUSAL: _COMPLETED,
    FinishReason.LENGTH: "max_output_tokens",
    FinishReason.CONTENT_FILTER: "content_filter",
    FinishReason.OTHER: "other",
    FinishReason.ERROR: _FAILED,
}
_SPOKEN = (TextPart, CitationPart, RefusalPart)
_IMAGES = ("png", "jpeg", "webp")


@attrs.frozen
class _Item:
    """
    One output item: as announced, the events between (a True marks a delta), and as settled.
    """

    start: Json
    events: tuple[tuple[bool, str, Json], ...]
    final: Json


def _frames(answer: FakeAnswer) -> Iterator[bytes]:
    number = 0

    def event(kind: str, **fields: Any) -> bytes:
        nonlocal number
        number += 1
        return sse({"type": kind, "sequence_number": number - 1, **fields}, kind)

    status, end = _end(answer)
    yield event("response.created", response=_response(answer, "in_progress", {}, []))
    yield event("response.in_progress", response=_response(answer, "in_progress", {}, []))
    items = _items(answer)
    for index, item in enumerate(items):
        yield event("response.output_item.added", output_index=index, item=item.start)
        for is_delta, kind, fields in item.events:
            frame = event(f"response.{kind}", item_id=item.start["id"], output_index=index, **fields)
            yield Delta(frame) if is_delta else frame
        yield event("response.output_item.done", output_index=index, item=item.final)
    yield event(f"response.{status}", response=_response(answer, status, end, [item.final for item in items]))


def _response(answer: FakeAnswer, status: str, end: Json, output: list[Json]) -> Json:
    """
    The response object, with the fields its readers insist on.
    """
    head = {"id": answer.id, "object": "response", "created_at": 1, "status": status, "model": answer.model, "output": output}
    asked: Json = {"instructions": None, "parallel_tool_calls": True, "tool_choice": "auto", "tools": [], "temperature": 1.0, "top_p": 1.0}
    return head | asked | {"error": None, "incomplete_details": None, "metadata": {}, "usage": None} | end


def _end(answer: FakeAnswer) -> tuple[str, Json]:
    """
    The last status, and what the response says with it.
    """
    refused_by_words(NAME, answer)
    if answer.reason is FinishReason.TOOL_CALLS and not any(isinstance(part, ToolCall) for part in answer.parts):
        raise cannot_say(NAME, "the finish tool_calls without a call")
    word = finish_word(NAME, answer.reason, _FINISH)
    filters = [_filter(part) for part in answer.parts if isinstance(part, ContentFilterPart)]
    said_too = drop_none(usage=None if answer.usage is None else _usage(answer.usage), content_filters=filters or None)
    if word == _FAILED:
        return _FAILED, said_too | {"error": {"code": "server_error", "message": "the answer failed"}}
    return (_COMPLETED, said_too) if word == _COMPLETED else (_INCOMPLETE, said_too | {"incomplete_details": {"reason": word}})


def _usage(usage: Usage) -> Json:
    given = drop_none(cached_tokens=usage.cache_read_tokens, cache_write_tokens=usage.cache_write_tokens)
    made = drop_none(reasoning_tokens=usage.reasoning_tokens)
    sums = drop_none(input_tokens=usage.input_tokens, output_tokens=usage.output_tokens, total_tokens=usage.total_tokens)
    return sums | ({"input_tokens_details": given} if given else {}) | ({"output_tokens_details": made} if made else {})


def _filter(part: ContentFilterPart) -> Json:
    finding = {"filtered": part.blocked, "detected": True} | drop_none(severity=part.text)
    return {"blocked": part.blocked, "source_type": "completion", "content_filter_results": {part.category: finding}}


# --- items ----------------------------------------------------------------------------------------------------------------------------------------


def _items(answer: FakeAnswer) -> list[_Item]:
    items: list[_Item] = []
    for spoken, group in groupby(_shown(answer.parts), lambda part: isinstance(part, _SPOKEN)):
        parts = list(group)
        items += [_message(parts, answer, len(items))] if spoken else []
        for part in [] if spoken else parts:
            maker = _MAKERS.get(type(part))
            if maker is None:
                raise cannot_say(NAME, part)
            items.append(maker(part, answer, len(items)))
    return _unfinished(items) if answer.reason is FinishReason.LENGTH else items


def _shown(parts: tuple[Part, ...]) -> Iterator[Part]:
    return (part for part in parts if not isinstance(part, ContentFilterPart))


def _unfinished(items: list[_Item]) -> list[_Item]:
    """
    The last one was cut.
    """
    last = items[-1] if items else None
    if last is None or "status" not in last.final:
        return items
    return [*items[:-1], attrs.evolve(last, final=last.final | {"status": _INCOMPLETE})]


def _settled(start: Json, events: list[tuple[bool, str, Json]], **final: Any) -> _Item:
    done = {"status": _COMPLETED} if "status" in start else {}
    return _Item(start, tuple(events), start | done | final)


def _message(parts: list[Part], answer: FakeAnswer, number: int) -> _Item:
    start = {"id": f"msg_{number}", "type": "message", "status": "in_progress", "role": "assistant", "content": []}
    events: list[tuple[bool, str, Json]] = []
    content: list[Json] = []
    for index, group in enumerate(_content_parts(parts)):
        whole = _refusal_part(group, index, answer, events) if isinstance(group[0], RefusalPart) else _text_part(group, index, answer, events)
        content.append(whole)
    return _settled(start, events, content=content)


def _content_parts(parts: list[Part]) -> Iterator[list[Part]]:
    """
    Each text with the citations behind it, those before the first one with it; each refusal alone.
    """
    group: list[Part] = []
    for part in parts:
        begun = any(not isinstance(one, CitationPart) for one in group)
        if group and (isinstance(part, RefusalPart) or isinstance(group[0], RefusalPart) or (begun and isinstance(part, TextPart))):
            yield group
            group = []
        group.append(part)
    if group:
        yield group


def _text_part(group: list[Part], index: int, answer: FakeAnswer, events: list[tuple[bool, str, Json]]) -> Json:
    place = {"content_index": index}
    text = "".join(part.text for part in group if isinstance(part, TextPart))
    annotations = [_annotation(part) for part in group if isinstance(part, CitationPart)]
    events.append((False, "content_part.added", place | {"part": _output_text("", [])}))
    cited = 0
    for part in group:
        if isinstance(part, TextPart):
            events += [(True, "output_text.delta", place | {"delta": piece, "logprobs": []}) for piece in answer.pieces(part.text)]
        else:
            events.append((False, "output_text.annotation.added", place | {"annotation_index": cited, "annotation": annotations[cited]}))
            cited += 1
    events.append((False, "output_text.done", place | {"text": text, "logprobs": []}))
    events.append((False, "content_part.done", place | {"part": _output_text(text, annotations)}))
    return _output_text(text, annotations)


def _output_text(text: str, annotations: list[Json]) -> Json:
    return {"type": "output_text", "text": text, "annotations": annotations, "logprobs": []}


def _annotation(part: CitationPart) -> Json:
    if part.quoted is not None or (part.url is None) is (part.file is None):
        raise cannot_say(NAME, "this citation", "it has a url or a file, and quotes nothing")
    if part.url is not None:
        return {"type": "url_citation", "url": part.url, "title": part.title, "start_index": part.start, "end_index": part.end}
    if part.end is not None:
        raise cannot_say(NAME, "the end of a file's citation")
    return {"type": "file_citation", "file_id": part.file, "filename": part.title, "index": part.start}


def _refusal_part(group: list[Part], index: int, answer: FakeAnswer, events: list[tuple[bool, str, Json]]) -> Json:
    place = {"content_index": index}
    text = "".join(part.text for part in group if isinstance(part, RefusalPart))
    events.append((False, "content_part.added", place | {"part": {"type": "refusal", "refusal": ""}}))
    events += [(True, "refusal.delta", place | {"delta": piece}) for piece in answer.pieces(text)]
    events.append((False, "refusal.done", place | {"refusal": text}))
    events.append((False, "content_part.done", place | {"part": {"type": "refusal", "refusal": text}}))
    return {"type": "refusal", "refusal": text}


def _reasoning(part: ThinkingPart, answer: FakeAnswer, number: int) -> _Item:
    start = {"id": part.item_id or f"rs_{number}", "type": "reasoning", "summary": []}
    place, summary = {"summary_index": 0}, {"type": "summary_text", "text": part.text}
    events: list[tuple[bool, str, Json]] = [(False, "reasoning_summary_part.added", place | {"part": {"type": "summary_text", "text": ""}})]
    events += [(True, "reasoning_summary_text.delta", place | {"delta": piece}) for piece in answer.pieces(part.text)]
    events.append((False, "reasoning_summary_text.done", place | {"text": part.text}))
    events.append((False, "reasoning_summary_part.done", place | {"part": summary}))
    return _settled(start, events, summary=[summary], **drop_none(encrypted_content=part.signature))


def _sealed(part: RedactedThinkingPart, answer: FakeAnswer, number: int) -> _Item:
    return _settled({"id": part.item_id or f"rs_{number}", "type": "reasoning", "summary": []}, [], encrypted_content=part.data)


def _call(part: ToolCall, answer: FakeAnswer, number: int) -> _Item:
    if part.server_executed:
        raise cannot_say(NAME, "a call the provider ran itself")
    custom = part.kind == "custom"
    field, kind, event = (
        ("input", "custom_tool_call", "custom_tool_call_input") if custom else ("arguments", "function_call", "function_call_arguments")
    )
    start = {"id": f"fc_{number}", "type": kind, "status": "in_progress", "call_id": part.id, "name": part.name, field: ""} | dict(
        part.metadata or {}
    )
    events: list[tuple[bool, str, Json]] = [(True, f"{event}.delta", {"delta": piece}) for piece in answer.pieces(part.arguments_text)]
    events.append((False, f"{event}.done", {field: part.arguments_text} | ({} if custom else {"name": part.name})))
    return _settled(start, events, **{field: part.arguments_text})


def _image(part: MediaPart, answer: FakeAnswer, number: int) -> _Item:
    form = (part.mime or "").removeprefix("image/")
    if part.kind != "image" or not part.data or (part.mime is not None and form not in _IMAGES) or part.transcript or part.name:
        raise cannot_say(NAME, f"{part.kind} of this form", f"it has images, as data of {', '.join(_IMAGES)}")
    start = {"id": part.item_id or f"ig_{number}", "type": "image_generation_call", "status": "in_progress", "result": None}
    named = drop_none(output_format=form or None)
    events: list[tuple[bool, str, Json]] = [(False, f"image_generation_call.{word}", {}) for word in ("in_progress", "generating")]
    events.append((False, "image_generation_call.partial_image", {"partial_image_index": 0, "partial_image_b64": part.data} | named))
    events.append((False, "image_generation_call.completed", {}))
    return _settled(start, events, result=part.data, **named)


_MAKERS: Mapping[type, Callable[[Any, FakeAnswer, int], _Item]] = {
    ThinkingPart: _reasoning,
    RedactedThinkingPart: _sealed,
    ToolCall: _call,
    MediaPart: _image,
}


def _whole(answer: FakeAnswer) -> bytes:
    status, end = _end(answer)
    return json_bytes(_response(answer, status, end, [item.final for item in _items(answer)]))


OPENAI_RESPONSES = Wire(
    content_type="text/event-stream; charset=utf-8",
    frames=_frames,
    whole=_whole,
    error=lambda message: sse({"type": "error", **openai_error(message)}, "error"),
    malformed=b'event: response.output_text.delta\ndata: {"type":"response.output_text.delta","output_index":0,"delta":"}\n\n',
    refusal=openai_refusal,
    heartbeat=b": keep-alive\n\n",
    base="/v1",
)
