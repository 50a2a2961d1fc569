"""
What is sent for an entry of a script: status, headers and frames, all faults of content applied. Pure; the transfer is in `serving`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import pairwise

import attrs

from rxchat.dialects import get_dialect
from rxchat.errors import ConfigurationError
from rxchat.refusals import media_type
from rxchat.testing.answers import FakeAnswer, FakeBody
from rxchat.testing.asked import FakeRequest
from rxchat.testing.bodies import frames_of
from rxchat.testing.faults import End, Fault
from rxchat.testing.wires import Wire, wire_for

__all__ = ["Reply", "refusal", "reply"]

JSON = "application/json"


@attrs.frozen
class Reply:
    """
    One answer as it goes out. `length` is its Content-Length, None: chunked. `pace` is in deltas per second; `end` None: as HTTP wants it.
    """

    status: int
    headers: Mapping[str, str]
    frames: tuple[bytes, ...] = attrs.field(repr=False)
    length: int | None = None
    pace: float | None = None
    end: End | None = None


@attrs.frozen
class _Content:
    """
    What an answer is made of before any fault.
    """

    content_type: str
    frames: tuple[bytes, ...]
    streamed: bool
    status: int = 200
    pace: float | None = None


def reply(entry: FakeAnswer | FakeBody | bytes, fault: Fault, request: FakeRequest) -> Reply:
    """
    What answers the request. ConfigurationError for what its dialect cannot say.
    """
    wire = wire_for(request)
    content = _content(entry, fault, wire, request)
    frames = tuple(_failing(content, fault, wire))
    length = None if content.streamed or fault.compression or fault.close_delimited else sum(map(len, frames))
    end, at = fault.end or (None, None)
    if at is not None:
        frames = tuple(_cut(frames, at))
        length = sum(map(len, frames)) if end == "cut" and length is not None else length
    return Reply(fault.status or content.status, _headers(content, fault), frames, length, content.pace, None if end == "cut" else end)


def refusal(request: FakeRequest, status: int, message: str) -> Reply:
    """
    A refusal in the words of the request's provider; in plain ones where nobody knows which that is.
    """
    try:
        content_type, body = wire_for(request).refusal(status, message)
    except ConfigurationError:
        content_type, body = "text/plain; charset=utf-8", message.encode()
    return Reply(status, {"content-type": content_type}, (body,), len(body))


def _content(entry: FakeAnswer | FakeBody | bytes, fault: Fault, wire: Wire, request: FakeRequest) -> _Content:
    if fault.body is not None:
        content_type = wire.refusal(fault.status or 200, "")[0] if fault.refuses else wire.content_type
        return _Content(content_type, (fault.body,), streamed=not fault.refuses)
    if fault.refuses:
        content_type, body = wire.refusal(fault.status or 500, fault.message)
        return _Content(content_type, (body,), streamed=False)
    if isinstance(entry, FakeAnswer):
        return _said(entry, wire, request)
    sent = entry if isinstance(entry, FakeBody) else FakeBody(entry)
    content_type = sent.content_type or wire.content_type
    return _Content(content_type, tuple(_split(sent.data, content_type, request.dialect)), media_type(content_type) != JSON, sent.status)


def _said(answer: FakeAnswer, wire: Wire, request: FakeRequest) -> _Content:
    if wire.streams(request):
        beat = (wire.heartbeat,) if answer.heartbeat and wire.heartbeat else ()
        return _Content(wire.content_type, (*beat, *wire.frames(answer)), True, pace=answer.tokens_per_second)
    if wire.whole is None:
        raise ConfigurationError(f"{request.dialect} has no answer but a stream")
    return _Content(JSON, (wire.whole(answer),), False)


def _split(body: bytes, content_type: str, dialect: str) -> Iterator[bytes]:
    """
    A recorded body at the ends of its frames; what is no frame stays with the next one.
    """
    framing = get_dialect(dialect).framings.get(media_type(content_type) or "", "json")
    ends = [frame.end for frame in frames_of(body, framing) if frame.end > frame.start]
    for start, end in pairwise(sorted({0, *ends, len(body)})):
        yield body[start:end]


def _failing(content: _Content, fault: Fault, wire: Wire) -> Iterator[bytes]:
    at = fault.malformed_after if fault.error_after is None else fault.error_after
    if at is None:
        yield from content.frames
        return
    if not content.streamed:
        raise ConfigurationError("an answer that is not streamed has no frames to fail after")
    if at > len(content.frames):
        raise ConfigurationError(f"the answer has {len(content.frames)} frames, it cannot fail after {at}")
    yield from content.frames[:at]
    if fault.error_after is not None:
        yield wire.error(fault.message)
    else:
        yield wire.malformed
        yield from content.frames[at:]


def _cut(frames: tuple[bytes, ...], at: int) -> Iterator[bytes]:
    for frame in frames:
        if at <= 0:
            return
        yield frame if len(frame) <= at else type(frame)(frame[:at])
        at -= len(frame)


def _headers(content: _Content, fault: Fault) -> dict[str, str]:
    headers = {"content-type": fault.content_type or content.content_type}
    if fault.compression is not None:
        headers["content-encoding"] = fault.compression
    if fault.retry_after is not None:
        headers["retry-after"] = fault.retry_after if isinstance(fault.retry_after, str) else f"{fault.retry_after:g}"
    return headers | {name.lower(): value for name, value in fault.headers.items()}
