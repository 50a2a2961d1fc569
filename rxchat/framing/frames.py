"""
What framers emit and dialects read.

`start` and `end` are byte positions in the body: the frame's first byte and the one behind its last. Not frozen, and what every event of a stream makes one
of is a msgspec struct that the garbage collector need not visit: it is made, read once and gone.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeAlias

import attrs
import msgspec

__all__ = ["AwsMessage", "Frame", "JsonBody", "JsonRecord", "SseEvent", "StrayText", "Undispatched"]


class SseEvent(msgspec.Struct, gc=False):
    """
    One dispatched event of an event stream (WHATWG HTML, "interpreting an event stream").

    `raw` are the UTF-8 bytes of its data, `data` the same as text. `event` is the type in force ("message" by default), `id` the last event id at dispatch,
    `retry` the reconnection time in ms if the stream ever set one. `data_start` is where the data of its first data line begins.
    """

    raw: bytes
    event: str = "message"
    id: str = ""
    retry: int | None = None
    start: int = 0
    end: int = 0
    data_start: int = 0

    @property
    def data(self) -> str:
        """
        The data as text.
        """
        return self.raw.decode()


@attrs.define
class StrayText:
    """
    Lines of an event stream that are no SSE fields, joined by LF (contract P8).
    """

    text: str
    start: int = 0
    end: int = 0


@attrs.define
class Undispatched:
    """
    The body ended inside an event: what was held. No event by the standard; some dialects accept one that is whole (contract P9).

    `event` is what a blank line would have dispatched, None if there were no data in it.
    """

    event: SseEvent | None
    start: int = 0
    end: int = 0


@attrs.define
class JsonRecord:
    """
    One value of NDJSON or of a JSON array, parsed strictly. `last` is True on the pseudo-record that marks the closing bracket of an array.
    """

    value: Any
    start: int = 0
    end: int = 0
    last: bool = False


@attrs.define
class JsonBody:
    """
    A whole non-streamed JSON body, parsed strictly.
    """

    value: Any
    start: int = 0
    end: int = 0


@attrs.define
class AwsMessage:
    """
    One message of an AWS event stream (vnd.amazon.eventstream), checksums verified. `types` names the wire type of each header, in order.
    """

    headers: Mapping[str, Any]
    payload: bytes
    start: int = 0
    end: int = 0
    types: Mapping[str, str] = attrs.field(factory=dict)


Frame: TypeAlias = SseEvent | StrayText | Undispatched | JsonRecord | JsonBody | AwsMessage
