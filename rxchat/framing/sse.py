"""
Server-sent events from bytes, exactly as WHATWG HTML, "interpreting an event stream" (contract B1, B2, P8, P9).

Two ways lead through a read. The fast one cuts it at blank lines and takes the usual blocks (`data: ...`, or `event: ...` and `data: ...`) as they are;
all else goes line by line. What is kept of a read is its unfinished last line, or the unfinished usual block it ends with; only new bytes, and never
more old ones than there are new ones, are searched for line ends: work is linear in the bytes however they are cut.

Choices where the standard is silent:

- A CR ends its line at once and an LF behind it belongs to nothing: an event is out with the first byte that ends its blank line, `end` points behind it.
- `start` of an event is its first field line; comments and stray lines before it do not belong to it.
- Stray lines are also handed over before a fault: they are valid, and may be the provider's own words about it.
- Limits: `line` counts a line without its end and without the byte order mark; `event` the data lines, or the stray lines, joined with one LF each; `total`
  every byte. Of several breaches and UTF-8 faults the one that stands first in the body counts.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import NamedTuple, TypeAlias

from rxchat.errors import LimitExceeded
from rxchat.framing.base import TextFramer
from rxchat.framing.frames import SseEvent, StrayText, Undispatched
from rxchat.limits import Limits
from rxchat.stage import Emit

__all__ = ["SseFrame", "SseFramer"]

SseFrame: TypeAlias = SseEvent | StrayText | Undispatched

_LF, _CR = 10, 13


class _Form(NamedTuple):
    """
    How providers write events: a name or none, one line of data, a blank line; all but the data is the same for every event of that name.
    """

    opener: bytes
    name: str
    blank: bytes
    separator: bytes  # blank line and opener: long separators are found by leaps

    @classmethod
    def of(cls, name: bytes, line_end: bytes) -> _Form:
        opener = b"event: " + name + line_end + b"data: " if name else b"data: "
        return cls(opener, name.decode() or "message", line_end * 2, line_end * 2 + opener)


class _LineEnds(NamedTuple):
    """
    The ways of a read without any CR, and of one with CRs.
    """

    blank: bytes
    plain: _Form
    usual: Callable[[bytes, int, int], re.Match[bytes] | None]

    @classmethod
    def of(cls, line_end: bytes) -> _LineEnds:
        usual = rb"(?:event: ([^\r\n]++)%b)?data: ([^\r\n]*+)%b" % (line_end, line_end * 2)
        return cls(line_end * 2, _Form.of(b"", line_end), re.compile(usual).match)


_LINE_ENDS = (_LineEnds.of(b"\n"), _LineEnds.of(b"\r\n"))

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
        self._form = _LINE_ENDS[False].plain  # of the last usual event
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
            if not data:
                return
            if len(data) <= fresh and not has_cr and self._is_half(data):
                self._half = data
                return
        if has_cr or _LF in data:
            data = data[self._lines(data, 0, len(data), emit) :]
        if data:
            self._keep(data, emit)

    def _blocks(self, data: bytes, has_cr: bool, emit: Emit[SseFrame]) -> int:
        """
        The fast way through whole blocks, up to the last blank line of a read. Gives where the rest begins.

        As long as events are of the form of the last one, a read is cut once; what is of another form in between is looked at block by block.
        """
        blank = _LINE_ENDS[has_cr].blank
        stop = data.rfind(blank) + len(blank)
        if stop < len(blank):
            return 0
        begin = 0
        while begin < stop:
            form = self._form
            if self._start is not None or self._stray or form.blank != blank or not data.startswith(form.opener, begin):
                begin = self._block(data, begin, stop, has_cr, emit)
                continue
            opening, width = len(form.opener), len(blank)
            name, clean, last_id, retry = form.name, True, self.last_event_id, self.retry
            base = self._at - len(data)
            for raw in data[begin + opening : stop - width].split(form.separator):
                end = begin + opening + len(raw) + width
                if clean and _LF not in raw and not (has_cr and _CR in raw):
                    # The blank line's CR is the end already.
                    emit(SseEvent(raw, name, last_id, retry, base + begin, base + end - has_cr, base + begin + opening))
                    begin = end
                    continue
                while begin < end:
                    begin = self._block(data, begin, end, has_cr, emit)
                clean, last_id, retry = not self._stray, self.last_event_id, self.retry
        return stop

    def _block(self, data: bytes, begin: int, stop: int, has_cr: bool, emit: Emit[SseFrame]) -> int:
        """
        All up to the next blank line: an event of the usual kind, which tells the form of those that follow, or anything else, line by line.
        """
        blank, plain, usual = _LINE_ENDS[has_cr]
        if self._start is None and not self._stray and (found := usual(data, begin, stop)):
            named, raw = found.groups()
            form = self._form = plain if named is None else _Form.of(named, blank[: len(blank) // 2])
            base, end = self._at - len(data), found.end()
            emit(SseEvent(raw, form.name, self.last_event_id, self.retry, base + begin, base + end - has_cr, base + found.start(2)))
            return end
        at = data.find(blank, begin, stop)
        end = stop if at < 0 else at + len(blank)
        self._lines(data, begin, end, emit)
        return end

    def _is_half(self, data: bytes) -> bool:
        """
        Whether this is the beginning of an event of the form at hand: no limit is passed in it and nothing comes out of it.
        """
        opener = self._form.opener
        if self._start is not None or self._stray:
            return False
        return _LF not in data[len(opener) :] if data.startswith(opener) else opener.startswith(data)

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
