"""
Frames of the Responses protocol for tests: short builders, and ways to read them.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import Any, TypeAlias

from rxchat.dialects import get_dialect
from rxchat.errors import RxchatError
from rxchat.events import ChatEvent, StepEnd
from rxchat.framing.frames import Frame, JsonBody, SseEvent
from rxchat.pipeline import Head, response_stage
from rxchat.response import ChatResponse
from rxchat.stage import run

Wire: TypeAlias = dict[str, Any]

DIALECT = get_dialect("openai-responses")


def ev(kind: str, index: int | None = None, **fields: Any) -> Wire:
    """
    An event `response.<kind>` of the item at `index`.
    """
    place = {} if index is None else {"output_index": index}
    return {"type": f"response.{kind}", **place, **fields}


def created(**fields: Any) -> Wire:
    """
    The first event of most streams.
    """
    return ev("created", response={"id": "resp_1", "model": "m-1", "status": "in_progress", "output": [], **fields})


def added(index: int | None, raw: str | Wire, **fields: Any) -> Wire:
    """
    An item is announced: given whole, or by its type and fields.
    """
    return ev("output_item.added", index, item=({"type": raw} if isinstance(raw, str) else raw) | fields)


def done(index: int | None, raw: str | Wire, **fields: Any) -> Wire:
    """
    An item is whole: given whole, or by its type and fields.
    """
    return ev("output_item.done", index, item=({"type": raw} if isinstance(raw, str) else raw) | fields)


def text(delta: str | None, index: int | None = 0, part: int | None = 0, **fields: Any) -> Wire:
    """
    A piece of visible text.
    """
    return ev("output_text.delta", index, content_index=part, delta=delta, **fields)


def completed(*output: Wire, end: str = "completed", **fields: Any) -> Wire:
    """
    The terminal response.
    """
    return ev(end, response={"id": "resp_1", "model": "m-1", "status": end, "output": list(output), **fields})


def message(*parts: Wire, item_id: str | None = "msg_1", **fields: Any) -> Wire:
    """
    A finished message.
    """
    return {"type": "message", "id": item_id, "status": "completed", "role": "assistant", "content": list(parts), **fields}


def output_text(said: str, *annotations: Wire) -> Wire:
    """
    A text part.
    """
    return {"type": "output_text", "text": said, "annotations": list(annotations)}


def sse(values: Iterable[Any], *, names: bool = True) -> bytes:
    """
    The values as an event stream.
    """
    lines = []
    for value in values:
        name = f"event: {value['type']}\n" if names and isinstance(value, dict) and "type" in value else ""
        lines.append(f"{name}data: {json.dumps(value, ensure_ascii=False)}\n\n")
    return "".join(lines).encode()


def frames(values: Iterable[Any]) -> list[Frame]:
    """
    The values as frames.
    """
    return [SseEvent(json.dumps(value).encode()) for value in values]


def parse(wire: Sequence[Frame], **context: Any) -> tuple[list[ChatEvent], Exception | None]:
    """
    What the parser alone makes of frames, and the error it ended with.
    """
    events: list[ChatEvent] = []
    try:
        for event in run(DIALECT.parser(DIALECT.context(**context)), wire):
            events.append(event)
    except RxchatError as error:
        return events, error
    return events, None


def inner(values: Iterable[Any]) -> list[ChatEvent]:
    """
    The parser's events between StepStart and StepEnd, for an unfinished stream.
    """
    events, _ = parse(frames([created(), *values]))
    return [event for event in events[2:] if not isinstance(event, StepEnd)]


def whole(body: bytes, cut: int | Sequence[int] = 0, content_type: str = "text/event-stream") -> tuple[list[ChatEvent], Exception | None]:
    """
    The events of a body through the whole pipeline, read in pieces of `cut` bytes (0: at once) or split at the positions given.
    """
    stage = response_stage("openai-responses", head=lambda: Head(headers={"Content-Type": content_type}), response_id="rx")
    inside = cut if not isinstance(cut, int) else range(0, len(body), cut) if cut else ()
    pieces = [body[start:end] for start, end in pairwise(sorted({0, len(body), *inside}))]
    events: list[ChatEvent] = []
    try:
        for event in run(stage, pieces):
            events.append(event)
    except RxchatError as error:
        return events, error
    return events, None


def answer(values: Iterable[Any]) -> ChatResponse:
    """
    The answer of a stream of these values, whole or partial.
    """
    return final(whole(sse(values))[0])


def answer_of_body(value: Any) -> ChatResponse:
    """
    The answer of a non-streamed body.
    """
    return final(whole(json.dumps(value).encode(), content_type="application/json")[0])


def body_frames(value: Any) -> list[Frame]:
    """
    A non-streamed body as its only frame.
    """
    return [JsonBody(value)]


def final(events: Sequence[ChatEvent]) -> ChatResponse:
    """
    The response on the terminal.
    """
    assert events[-1].terminal
    response: ChatResponse = events[-1].response  # type: ignore[union-attr]
    return response
