"""
How dialect tests read: frames into one parser, bodies through the whole pipeline, and wires written by hand.
"""

from __future__ import annotations

import base64
import json
import struct
import zlib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import attrs

from rxchat.dialects import get_dialect
from rxchat.errors import RxchatError
from rxchat.events import ChatEvent
from rxchat.framing.frames import AwsMessage, Frame, JsonBody, SseEvent
from rxchat.pipeline import Head, response_stage
from rxchat.response import ChatResponse
from rxchat.stage import run

__all__ = ["Reading", "aws", "aws_exception", "aws_frame", "chunk", "parsed", "read", "read_everywhere", "sse", "sse_frames"]

EVENT_STREAM = "text/event-stream"
AWS_STREAM = "application/vnd.amazon.eventstream"


@attrs.frozen
class Reading:
    """
    What came of something read: events, the answer (partial where it failed), the error.
    """

    events: tuple[ChatEvent, ...]
    response: ChatResponse
    error: RxchatError | None

    @property
    def verdict(self) -> str:
        """
        How it ended.
        """
        return str(self.error.verdict if self.error else self.response.verdict)

    def of(self, *types: type[ChatEvent]) -> list[ChatEvent]:
        """
        The events of these classes.
        """
        return [event for event in self.events if isinstance(event, types)]


def parsed(dialect: str, frames: Iterable[Frame], *, clean_eof: bool = True, unknown: Any = "raw") -> Reading:
    """
    Frames through the parser alone, to the end.
    """
    spec = get_dialect(dialect)
    parser = spec.parser(spec.context(clean_eof=clean_eof, unknown=unknown))
    return _driven(run(parser, frames))


def read(
    dialect: str, body: bytes, content_type: str = EVENT_STREAM, *, cut: int = 0, clean_eof: bool = True, options: Mapping[str, Any] | None = None
) -> Reading:
    """
    A body of status 200 through the whole pipeline, in reads of `cut` bytes (0: whole).
    """
    head = Head(headers={"Content-Type": content_type}, clean_eof=clean_eof)
    pieces = [body[k : k + cut] for k in range(0, len(body), cut)] if cut else [body]
    return _driven(run(response_stage(dialect, options=options, head=lambda: head, response_id="r"), pieces))


def read_everywhere(dialect: str, body: bytes, content_type: str = EVENT_STREAM, options: Mapping[str, Any] | None = None) -> Reading:
    """
    The same, with reads of 1, 7 and 1400 bytes as well: what comes out may not differ (contract E9).
    """
    whole = read(dialect, body, content_type, options=options)
    for cut in (1, 7, 1400):
        again = read(dialect, body, content_type, cut=cut, options=options)
        assert again.response == whole.response
        assert again.verdict == whole.verdict
        assert _comparable(again) == _comparable(whole)
    return whole


def _comparable(reading: Reading) -> list[Any]:
    """
    Events by value; an error is a new object each time.
    """
    return [str(event.error) if event.type == "ERROR" else event for event in reading.events]  # type: ignore[union-attr]


def _driven(events: Iterable[ChatEvent]) -> Reading:
    seen: list[ChatEvent] = []
    response = ChatResponse()
    try:
        for event in events:
            seen.append(event)
            response = getattr(event, "response", response)
    except RxchatError as error:
        return Reading(tuple(seen), response, error)
    return Reading(tuple(seen), response, None)


# --- event streams --------------------------------------------------------------------------------------------------------------------------------


def _bytes(value: Any) -> bytes:
    return value if isinstance(value, bytes) else json.dumps(value, ensure_ascii=False).encode()


def sse(*values: Any) -> bytes:
    """
    An event stream as Anthropic sends it: the event is named as its data's type. Bytes stand for themselves.
    """
    return b"".join(value if isinstance(value, bytes) else b"event: %s\ndata: %s\n\n" % (value["type"].encode(), _bytes(value)) for value in values)


def sse_frames(*values: Any) -> list[Frame]:
    """
    The frames of such a stream, with made-up positions; a pair is the event's name and its data.
    """
    pairs = [value if isinstance(value, tuple) else ("message", value) for value in values]
    return [SseEvent(_bytes(data), name, start=k * 100, end=k * 100 + 99, data_start=k * 100 + 6) for k, (name, data) in enumerate(pairs)]


def whole(value: Any) -> list[Frame]:
    """
    The frame of a JSON body.
    """
    return [JsonBody(value)]


# --- AWS event streams ----------------------------------------------------------------------------------------------------------------------------


def aws_frame(headers: Mapping[str, str], payload: bytes) -> bytes:
    """
    One message, with its checksums.
    """
    head = b"".join(
        bytes([len(name)]) + name.encode() + b"\x07" + struct.pack(">H", len(value.encode())) + value.encode() for name, value in headers.items()
    )
    prelude = struct.pack(">II", len(head) + len(payload) + 16, len(head))
    message = prelude + struct.pack(">I", zlib.crc32(prelude)) + head + payload
    return message + struct.pack(">I", zlib.crc32(message))


def aws(*events: tuple[str, Any]) -> bytes:
    """
    A stream of events by name, then their JSON.
    """
    return b"".join(aws_frame(_event_headers(name), _bytes(value)) for name, value in events)


def aws_exception(kind: str, value: Any) -> bytes:
    """
    The frame of an exception.
    """
    return aws_frame({":exception-type": kind, ":content-type": "application/json", ":message-type": "exception"}, _bytes(value))


def messages(*events: tuple[str, Any]) -> list[Frame]:
    """
    The frames of `aws`.
    """
    return [AwsMessage(_event_headers(name), _bytes(value), start=k * 100, end=k * 100 + 99) for k, (name, value) in enumerate(events)]


def chunk(value: Any) -> tuple[str, Any]:
    """
    One chunk of InvokeModelWithResponseStream; bytes stand for themselves.
    """
    return "chunk", {"bytes": base64.b64encode(_bytes(value)).decode(), "p": "abc"}


def chunks(values: Sequence[Any]) -> bytes:
    """
    A stream of chunks.
    """
    return aws(*(chunk(value) for value in values))


def _event_headers(name: str) -> dict[str, str]:
    return {":event-type": name, ":content-type": "application/json", ":message-type": "event"}
