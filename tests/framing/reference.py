"""
Server-sent events once more, as simple as can be: one byte after the other over the whole body. Slow, and written apart from the framer.
"""

from __future__ import annotations

from typing import Any

from rxchat.errors import DecodeError, LimitExceeded, RxchatError
from rxchat.framing.frames import SseEvent, StrayText, Undispatched
from rxchat.limits import Limits
from tests.framing.driving import Outcome, fault


def valid_size(data: bytes) -> int:
    """
    How many bytes are whole characters.
    """
    try:
        return len(data.decode().encode())
    except UnicodeDecodeError as error:
        return error.start


class Reference:
    """
    What SseFramer must make of a body.
    """

    def __init__(self, limits: Limits) -> None:
        self.limits = limits
        self.frames: list[Any] = []
        self.last_id = ""
        self.id = ""
        self.retry: int | None = None
        self.stray: list[tuple[bytes, int]] = []
        self.clear()

    def clear(self) -> None:
        self.data: list[bytes] = []
        self.data_start = 0
        self.event = ""
        self.start: int | None = None

    def outcome(self, data: bytes) -> Outcome:
        valid = valid_size(data)
        end: RxchatError | None = None
        if valid > self.limits.total:
            valid, end = self.limits.total, LimitExceeded("total", self.limits.total, self.limits.total)
        elif valid < len(data):
            end = DecodeError("", valid)
        try:
            line, start = self.lines(data[:valid])
            if end is not None:
                raise end
            self.finish(line, start, valid)
        except RxchatError as error:
            self.hand_over()
            return self.frames, fault(error)
        return self.frames, None

    def lines(self, data: bytes) -> tuple[bytes, int]:
        line, start, before = b"", 0, 0
        for at, byte in enumerate(data):
            if at < 3 and data.startswith(b"\xef\xbb\xbf"):
                start = at + 1
            elif byte in b"\r\n":
                if not (byte == 10 and before == 13):
                    self.line(line, start, at)
                    line = b""
                start = at + 1
            else:
                line += bytes([byte])
                self.check(line, start, at)
            before = byte
        return line, start

    def check(self, line: bytes, start: int, at: int, more: int = 0) -> None:
        if len(line) > self.limits.line:
            raise LimitExceeded("line", self.limits.line, at)
        name, colon, value = line.partition(b":")
        if name == b"data" and (colon or more):
            value = value[1:] if value[:1] == b" " else value
            if sum(len(one) + 1 for one in self.data) + len(value) + more > self.limits.event:
                raise LimitExceeded("event", self.limits.event, at)

    def line(self, line: bytes, start: int, at: int) -> None:
        if not line:
            self.blank(at + 1)
        else:
            self.check(line, start, at, more=1)
            self.field(line, start)

    def field(self, line: bytes, start: int) -> None:
        name, _, value = line.partition(b":")
        if not name:
            return
        value = value[1:] if value[:1] == b" " else value
        if name == b"data":
            self.data_start = self.data_start if self.data else start + len(line) - len(value)
            self.data.append(value)
        elif name == b"event":
            self.event = value.decode()
        elif name == b"id":
            self.id = self.id if b"\0" in value else value.decode()
        elif name == b"retry":
            self.retry = int(value) if value and all(digit in b"0123456789" for digit in value) else self.retry
        else:
            room = self.limits.event - sum(len(one) + 1 for one, _ in self.stray)
            if len(line) + 1 > room:
                raise LimitExceeded("event", self.limits.event, start + room)
            self.stray.append((line, start))
            return
        self.start = start if self.start is None else self.start

    def dispatched(self, end: int) -> SseEvent | None:
        if not self.data:
            return None
        return SseEvent(b"\n".join(self.data), self.event or "message", self.id, self.retry, self.start or 0, end, self.data_start)

    def blank(self, end: int) -> None:
        self.last_id = self.id
        event = self.dispatched(end)
        self.clear()
        if event is not None:
            self.hand_over()
            self.frames.append(event)

    def finish(self, line: bytes, start: int, end: int) -> None:
        held = line != b"" and line[:1] != b":"
        if held:
            self.field(line, start)
        self.hand_over()
        if held or self.data or self.event:
            self.frames.append(Undispatched(self.dispatched(end), start if self.start is None else self.start, end))

    def hand_over(self) -> None:
        if self.stray:
            (_, first), (last_line, last) = self.stray[0], self.stray[-1]
            self.frames.append(StrayText(b"\n".join(line for line, _ in self.stray).decode(), first, last + len(last_line)))
            self.stray = []
