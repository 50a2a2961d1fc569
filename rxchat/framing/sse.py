"""
Server-sent events from bytes, exactly as WHATWG HTML, "interpreting an event stream" (contract B1, B2, P8, P9).

Two ways lead through a read. The fast one cuts it at blank lines and takes the common blocks (`data: ...`, or `event: ...` and `data: ...`) as they are;
all else goes line by line. What is kept of a read is its unfinished last line, or the unfinished common block it ends with; only new bytes, and never
more old ones than there are new ones, are searched for line ends: work is linear in the bytes however they are cut.

Choices where the standard is silent:

- A CR ends its line at once and an LF behind it belongs to nothing: an event is out with the first byte that ends its blank line, `end` points behind it.
- `start` of an event is its first field line; comments and stray lines before it do not belong to it.
- Stray lines are also handed over before a fault: they are valid, and may be the provider's own words about it.
- Limits: `line` counts a line without its end and without the byte order mark; `event` the data lines, or the stray lines, joined with one LF each; `total`
  every byte. Of several breaches and UTF-8 faults the one that stands first in the body counts.
"""

from __future__ import annotations

from typing import NamedTuple, TypeAlias

from rxchat.errors import LimitExceeded
from rxchat.framing.base import TextFramer
from rxchat.framing.frames import SseEvent, StrayText, Undispatched
from rxchat.limits import Limits
from rxchat.stage import Emit

__all__ = ["SseFrame", "SseFramer"]

SseFrame: TypeAlias = SseEvent | StrayText | Undispatched

_LF, _CR = 10, 13


class _Shape(NamedTuple):
    """
    How providers write events: an opener, what is in it, a blank line. `inner` is what stands between an event's name and its data.
    """

    opener: bytes
    inner: bytes
    blank: bytes
    separator: bytes  # blank line and opener: long separators are found by leaps

    @classmethod
    def of(cls, opener: bytes, inner: bytes, line_end: bytes) -> _Shape:
        return cls(opener, line_end + inner if inner else b"", line_end * 2, line_end * 2 + opener)


_OPENERS = (b"data: ", b"event: ")

# By whether the read has CRs and whether events have names.
_SHAPES = tuple((_Shape.of(b"data: ", b"", line_end), _Shape.of(b"event: ", b"data: ", line_end)) for line_end in (b"\n", b"\r\n"))

# From this size on an unfinished line is not copied together with the read that ends it.
_LONG = 32 * 1024


class SseFramer(TextFramer[SseFrame]):
    """
    Frame an event stream: SseEvent for each event, StrayText for lines that are no fields, Undispatched if the body ends inside an event.

    `last_event_id` and `retry` (ms, None if never set) are those in force, as a reconnecting client would use them.
    """

    def __init__(self, limits: Limits | None = None) -> None:
        super().__init__(limits)
        self.last_event_id = ""
        self.retry: int | None = None
        self._line_limit, self._event_limit = self._limits.line, self._limits.event
        # In fewer bytes than this no limit can be passed.
        self._harmless = min(self._line_limit, self._event_limit)
        self._named = False  # whether the last usual event had a name
        self._before_data, self._name = b"", ""  # that name and all up to the data, in bytes; and as text
        self._skip_lf = False
        self._line: bytes | bytearray = b""  # the unfinished one
        self._half = b""  # or: the event a read ended in, untouched, so that it goes the fast way when the rest of it is here
        # The event being collected.
        self._data: list[bytes] = []
        self._size = 0  # of its data, one LF a line
        self._event = ""
        self._id = ""
        self._start: int | None = None  # of its first field
        self._data_start = 0
        self._stray: list[bytes] = []
        self._stray_size = 0
        self._stray_start = self._stray_end = 0

    # Bytes to lines --------------------------------------------------------------------------------------------------------------------------

    def _take(self, data: bytes, emit: Emit[SseFrame]) -> None:
        fresh = len(data)
        if self._half:
            data, self._half = self._half + data, b""
        has_cr = _CR in data
        if self._line:
            if not has_cr and _LF not in data:
                self._keep(data, emit)
                return
            if len(self._line) > _LONG:
                data = self._end_long_line(data, emit)
            else:
                data = b"".join((self._line, data))
                self._line = b""
        if self._skip_lf and data:
            self._skip_lf = False
            if data[0] == _LF:
                data = data[1:]
        if len(data) <= self._harmless:
            data = data[self._blocks(data, has_cr, emit) :]
            if len(data) <= fresh and not has_cr and data.startswith(b"event: ") and self._is_half(data):
                self._half = data
                return
        if has_cr or _LF in data:
            data = data[self._lines(data, 0, len(data), emit) :]
        if data:
            self._keep(data, emit)

    def _blocks(self, data: bytes, has_cr: bool, emit: Emit[SseFrame]) -> int:
        """
        The fast way: cut the read at each blank line behind which an event of the usual shape begins. Gives where the rest begins.
        """
        shape = _SHAPES[has_cr][self._named]
        usual = False
        if self._start is None and not self._stray:
            usual = data.startswith(shape.opener)
            if not usual and data.startswith(_OPENERS):
                usual = True
                self._named = not self._named
                shape = _SHAPES[has_cr][self._named]
        pieces = data.split(shape.separator)
        begin = 0
        if usual:
            pieces[0] = pieces[0][len(shape.opener) :]
        elif len(pieces) == 1:
            return 0
        else:
            begin = len(pieces.pop(0)) + len(shape.blank)
            self._lines(data, 0, begin, emit)
        last = pieces.pop()
        if last.endswith(shape.blank):
            pieces.append(last[: -len(shape.blank)])
        return self._pieces(pieces, data, begin, shape, emit) if pieces else begin

    def _pieces(self, pieces: list[bytes], data: bytes, begin: int, shape: _Shape, emit: Emit[SseFrame]) -> int:
        """
        The events between openers and blank lines; those that are not of the usual shape line by line. `begin` is where in `data` the first one begins.
        """
        opener, inner, blank, _ = shape
        opening, width = len(opener), len(blank)
        has_cr = width == 4
        base = self._at - len(data)
        clean, last_id, retry = self._start is None and not self._stray, self.last_event_id, self.retry
        for raw in pieces:
            name, at = "message", begin + opening
            end = at + len(raw) + width
            if inner:
                known = self._before_data
                if known and raw.startswith(known):
                    # The name of the one before.
                    name, raw = self._name, raw[len(known) :] or b"\n"
                else:
                    head, _, raw = raw.partition(inner)
                    if not raw or _LF in head or (has_cr and _CR in head):
                        raw = b"\n"
                    elif head:
                        self._before_data, self._name = head + inner, head.decode()
                        name = self._name
                at = end - width - len(raw)
            if clean and _LF not in raw and not (has_cr and _CR in raw):
                # The blank line's CR is the end already.
                emit(SseEvent(raw, name, last_id, retry, base + begin, base + end - has_cr, base + at))
            else:
                self._lines(data, begin, end, emit)
                clean, last_id, retry = self._start is None and not self._stray, self.last_event_id, self.retry
            begin = end
        return begin

    def _is_half(self, data: bytes) -> bool:
        """
        Whether this is a name and the beginning of a line of data, of an event of their own: no limit is passed in it and nothing comes out of it.
        """
        return self._start is None and not self._stray and b"\ndata: " in data and data.count(b"\n") == 1

    def _lines(self, data: bytes, pos: int, stop: int, emit: Emit[SseFrame]) -> int:
        """
        All finished lines between two places of `data`. Gives where the unfinished one begins.
        """
        base = self._at - len(data)
        find = data.find
        lf, cr = find(b"\n", pos, stop), find(b"\r", pos, stop)
        while lf >= 0 or cr >= 0:
            end = lf if cr < 0 or 0 <= lf < cr else cr
            if end == pos:
                self._blank(base + end + 1, emit)
            else:
                self._finished(data[pos:end], base + pos, emit)
            pos = end + 1
            if end == cr:
                pos = self._behind_cr(data, pos)
                cr = find(b"\r", pos, stop)
            if lf < pos:
                lf = find(b"\n", pos, stop)
        return pos

    def _behind_cr(self, data: bytes, pos: int) -> int:
        """
        Where the next line begins: an LF at `pos` is the other half of the line end, and may come with the next read.
        """
        if pos == len(data):
            self._skip_lf = True
            return pos
        return pos + (data[pos] == _LF)

    def _end_long_line(self, data: bytes, emit: Emit[SseFrame]) -> bytes:
        """
        Finish the line that is held with the first line end in `data`. Gives what comes behind it.
        """
        lf, cr = data.find(b"\n"), data.find(b"\r")
        end = lf if cr < 0 or 0 <= lf < cr else cr
        line, self._line = self._line, b""
        line += data[:end]
        self._finished(line, self._at - len(data) + end - len(line), emit)
        return data[self._behind_cr(data, end + 1) if end == cr else end + 1 :]

    def _keep(self, data: bytes, emit: Emit[SseFrame]) -> None:
        """
        More of the unfinished line; the limits do not wait for its end, which may never come.
        """
        line = self._line
        if not line:
            self._line = line = data
        elif isinstance(line, bytearray):
            line += data
        else:
            self._line = line = bytearray(line)
            line += data
        size = len(line)
        if size > self._line_limit or self._size + size > self._event_limit:
            self._check(line, self._at - size, False, emit)

    # Lines to events -------------------------------------------------------------------------------------------------------------------------

    def _finished(self, line: bytes | bytearray, start: int, emit: Emit[SseFrame]) -> None:
        """
        One line that is not blank.
        """
        size = len(line)
        if size > self._line_limit or self._size + size > self._event_limit:
            self._check(line, start, True, emit)
        if line[0] != 0x3A:  # a comment begins with a colon
            self._field(line, start, emit)

    def _field(self, line: bytes | bytearray, start: int, emit: Emit[SseFrame]) -> None:
        colon = line.find(b":", 0, 6)  # no field has a longer name
        at = len(line) if colon < 0 else colon + 2 if line[colon + 1 : colon + 2] == b" " else colon + 1
        name = bytes(line[: 6 if colon < 0 else colon])
        if name == b"data":
            value = line[at:] if isinstance(line, bytes) else bytes(memoryview(line)[at:])
            if not self._data:
                self._data_start = start + at
            self._data.append(value)
            self._size += len(value) + 1
        elif name == b"event":
            self._event = line[at:].decode()
        elif name == b"id":
            if 0 not in line:
                self._id = line[at:].decode()
        elif name == b"retry":
            self.retry = _milliseconds(line[at:], self.retry)
        else:
            self._collect_stray(bytes(line), start, emit)
            return
        if self._start is None:
            self._start = start

    def _blank(self, end: int, emit: Emit[SseFrame]) -> None:
        """
        A blank line: dispatch the event if it has data, and begin the next one.
        """
        if self._start is None:
            return
        self.last_event_id = self._id
        event = self._dispatched(end) if self._data else None
        self._data, self._size, self._event, self._start = [], 0, "", None
        if event is not None:
            if self._stray:
                self._before_fault(emit)
            emit(event)

    def _dispatched(self, end: int) -> SseEvent:
        """
        What a blank line makes of the fields so far.
        """
        raw = self._data[0] if len(self._data) == 1 else b"\n".join(self._data)
        return SseEvent(raw, self._event or "message", self._id, self.retry, self._start or 0, end, self._data_start)

    def _finish(self, emit: Emit[SseFrame]) -> None:
        half = self._half
        line = self._line or half[self._lines(half, 0, len(half), emit) :]
        start = self._at - len(line)
        held = len(line) > 0 and line[0] != 0x3A
        if held:
            self._field(line, start, emit)
        self._before_fault(emit)
        if held or self._data or self._event:
            event = self._dispatched(self._at) if self._data else None
            emit(Undispatched(event, start if self._start is None else self._start, self._at))

    # Stray lines and limits ------------------------------------------------------------------------------------------------------------------

    def _collect_stray(self, line: bytes, start: int, emit: Emit[SseFrame]) -> None:
        room = self._event_limit - self._stray_size
        if len(line) + 1 > room:
            self._fail(LimitExceeded("event", self._event_limit, start + room), emit)
        if not self._stray:
            self._stray_start = start
        self._stray.append(line)
        self._stray_size += len(line) + 1
        self._stray_end = start + len(line)

    def _before_fault(self, emit: Emit[SseFrame]) -> None:
        """
        Hand over the stray lines; also before an event and at the end.
        """
        if self._stray:
            text = b"\n".join(self._stray).decode()
            self._stray, self._stray_size = [], 0
            emit(StrayText(text, self._stray_start, self._stray_end))

    def _check(self, line: bytes | bytearray, start: int, finished: bool, emit: Emit[SseFrame]) -> None:
        """
        A line with which a limit may be passed: of two breaches the first counts.
        """
        breaches = []
        if len(line) > self._line_limit:
            breaches.append((start + self._line_limit, "line", self._line_limit))
        if line[:5] == b"data:" or (line == b"data" and finished):
            at = 6 if line[:6] == b"data: " else min(len(line), 5)
            room = self._event_limit - self._size
            if len(line) - at + finished > room:
                breaches.append((start + at + room, "event", self._event_limit))
        if breaches:
            over, name, value = min(breaches, key=lambda breach: breach[0])
            self._fail(LimitExceeded(name, value, over), emit)


def _milliseconds(digits: bytes | bytearray, old: int | None) -> int | None:
    """
    ASCII digits only; a number so long that Python will not read it is no time either.
    """
    try:
        return int(digits) if digits.isdigit() else old
    except ValueError:
        return old
