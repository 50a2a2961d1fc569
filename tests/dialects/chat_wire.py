"""
Bodies of the OpenAI chat protocol for tests: short builders, and ways to read them.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeAlias

from rxchat.dialects import get_dialect
from rxchat.errors import RxchatError
from rxchat.events import ChatEvent, ResponseEnd, StepEnd, StepStart, TextDelta
from rxchat.framing.frames import Frame, JsonBody, SseEvent
from rxchat.pipeline import Head, response_stage
from rxchat.response import ChatResponse
from rxchat.stage import run

Wire: TypeAlias = dict[str, Any]

DIALECT = get_dialect("openai-chat")
DONE = "[DONE]"


def chunk(*choices: Wire, **fields: Any) -> Wire:
    """
    One frame; its id and model are those of every frame unless said otherwise.
    """
    return {"id": "chat-1", "model": "toy-1", "choices": list(choices)} | fields


def choice(delta: Wire | None = None, index: int = 0, finish: str | None = None, **fields: Any) -> Wire:
    """
    One choice of a frame.
    """
    return {"index": index, "delta": {} if delta is None else delta, "finish_reason": finish} | fields


def delta(index: int = 0, **fields: Any) -> Wire:
    """
    A frame with one delta.
    """
    return chunk(choice(fields, index))


def text(content: Any, index: int = 0) -> Wire:
    """
    A frame with a piece of text.
    """
    return delta(index, content=content)


def finish(reason: str = "stop", index: int = 0, **fields: Any) -> Wire:
    """
    A frame that says why a choice ends.
    """
    return chunk(choice({}, index, reason, **fields))


def call(arguments: Any = None, **fields: Any) -> Wire:
    """
    An entry of tool_calls: `name` goes into its function, the rest beside it.
    """
    function = {"name": fields.pop("name")} if "name" in fields else {}
    return fields | {"function": function | ({} if arguments is None else {"arguments": arguments})}


def calls(*entries: Wire, index: int = 0) -> Wire:
    """
    A frame with pieces of tool calls.
    """
    return delta(index, tool_calls=list(entries))


def sse(*frames: Any, newline: str = "\n") -> bytes:
    """
    The frames as an event stream; texts are data as they are.
    """
    data = (frame if isinstance(frame, str) else json.dumps(frame, ensure_ascii=False) for frame in frames)
    return "".join(f"data: {line}{newline}{newline}" for line in data).encode()


def events_of(*frames: Any, **context: Any) -> tuple[list[ChatEvent], Exception | None]:
    """
    What the parser alone makes of frames, and the error it ended with.
    """
    wire = [
        frame if not isinstance(frame, str | dict) else SseEvent((frame if isinstance(frame, str) else json.dumps(frame)).encode())
        for frame in frames
    ]
    return parse(wire, **context)


def parse(wire: Sequence[Frame], *, clean_eof: bool = True, **context: Any) -> tuple[list[ChatEvent], Exception | None]:
    """
    The same of frames as framers make them.
    """
    events: list[ChatEvent] = []
    parser = DIALECT.parser(DIALECT.context(clean_eof=clean_eof, **context))
    try:
        for event in run(parser, wire):
            events.append(event)
    except RxchatError as error:
        return events, error
    return events, None


def inner(*frames: Any, **context: Any) -> list[ChatEvent]:
    """
    The parser's events within the step.
    """
    events, _ = events_of(*frames, **context)
    return [event for event in events if not isinstance(event, StepStart | StepEnd | ResponseEnd)]


def whole(body: bytes, reads: Sequence[bytes] | None = None, *, head: Head | None = None, **said: Any) -> tuple[list[ChatEvent], RxchatError | None]:
    """
    The events of a body through the whole pipeline.
    """
    stage = response_stage("openai-chat", head=lambda: head or Head(), response_id="rx", **said)
    events: list[ChatEvent] = []
    try:
        for event in run(stage, [body] if reads is None else reads):
            events.append(event)
    except RxchatError as error:
        return events, error
    return events, None


def answer(*frames: Any, **said: Any) -> ChatResponse:
    """
    The answer of a stream of these frames, whole or partial.
    """
    return final(whole(sse(*frames), **said)[0])


def answer_of_body(value: Any, **said: Any) -> ChatResponse:
    """
    The answer of a non-streamed body.
    """
    return final(whole(json.dumps(value).encode(), head=Head(headers={"content-type": "application/json"}), **said)[0])


def final(events: Sequence[ChatEvent]) -> ChatResponse:
    """
    The response on the terminal.
    """
    assert events[-1].terminal
    response: ChatResponse = events[-1].response  # type: ignore[union-attr]
    return response


def texts(events: Iterable[ChatEvent]) -> str:
    """
    All text of these events.
    """
    return "".join(event.text for event in events if isinstance(event, TextDelta))


def body(message: Mapping[str, Any] | None = None, finish: str | None = "stop", **fields: Any) -> Wire:
    """
    A non-streamed answer with one choice.
    """
    only = {"index": 0, "finish_reason": finish} | ({} if message is None else {"message": message})
    return {"id": "chat-1", "model": "toy-1", "object": "chat.completion", "choices": [only]} | fields


def body_frame(value: Any) -> list[Frame]:
    """
    A non-streamed body as its only frame.
    """
    return [JsonBody(value)]
