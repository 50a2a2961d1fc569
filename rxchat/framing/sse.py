"""
Server-sent events from bytes, exactly as WHATWG HTML, "interpreting an event stream" (contract B1, B2, P8, P9).

Two ways lead through a read. The fast one cuts it at blank lines and takes blocks of the common shapes (`data: ...`, `event: ...` + `data: ...`) as they
are; all else goes line by line. Only the unfinished last line of a read is kept, and only new bytes are searched for line ends, so that work is linear
however the stream is cut.

Choices where the standard is silent:

- A CR ends its line at once, an LF behind it belongs to nothing: an event is out with the first byte of its blank line's end, and `end` points behind it.
- `start` of an event is its first field line; comments and stray lines before it do not belong to it.
- Stray lines (contract P8) are also handed over before a fault: they are valid and may hold the provider's own words about it.
- Limits: `line` is a line's bytes without its end and without the byte order mark; `event` is the joined data (or stray) lines with one LF each; `total`
  is every byte, the byte order mark too. Of several breaches and UTF-8 faults the one that stands first counts.
"""

from __future__ import annotations

from rxchat.errors import LimitExceeded
from rxchat.framing.base import TextFramer
from rxchat.framing.frames import SseEvent, StrayText, Undispatched
from rxchat.limits import Limits
from rxchat.stage import Emit

__all__ = ["SseFrame", "SseFramer"]

SseFrame = SseEvent | StrayText | Undispatched

_LF, _CR = 10, 13


class SseFramer(TextFramer[SseFrame]):
    """
    Frame an event stream: SseEvent for each event, StrayText for lines that are no fields, Undispatched if the body ends inside an event.

    `last_event_id` and `retry` (ms, None if never set) are those in force, as a reconnecting client would use them.
    """

    def __init__(self, limits: Limits | None = None) -> None:
        super().__init__(limits)
        limits = self._limits
        self.last_event_id = ""
        self.retry: int | None = None
        # No line and no event inside fewer bytes than this can pass a limit.
        self._harmless = min(limits.line, limits.event)
        self._skip_lf = False
        self._line = bytearray()  # the unfinished line
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

    def _finish(self, emit: Emit[SseFrame]) -> None:
        line = bytes(self._line)
        begun = self._at - len(line)
        held = bool(line) and line[:1] != b":"
        if held:
            self._field(line, begun, emit)
        self._before_fault(emit)
        if held or self._data or self._event:
            start = begun if self._start is None else self._start
            emit(Undispatched(self._joined(self._at) if self._data else None, start, self._at))

    # Bytes to lines --------------------------------------------------------------------------------------------------------------------------

    def _take(self, data: bytes, emit: Emit[SseFrame]) -> None:
        has_cr = _CR in data
        if self._line:
            self._line += data
            if not has_cr and _LF not in data:
                self._check_unfinished(emit)
                return
            data = bytes(self._line)
            self._line.clear()
        pos = 0
        if self._skip_lf and data:
            self._skip_lf = False
            pos = 1 if data[0] == _LF else 0
        if len(data) <= self._harmless:
            pos = self._blocks(data, pos, b"\r\n\r\n" if has_cr else b"\n\n", emit)
        pos = self._lines(data, pos, len(data), emit)
        if pos < len(data):
            self._line += data[pos:]
            self._check_unfinished(emit)

    def _blocks(self, data: bytes, pos: int, blank: bytes, emit: Emit[SseFrame]) -> int:
        """
        The fast way: all blocks that end with a line end and a blank line of the same kind. Gives where the rest begins.
        """
        blocks = data[pos:].split(blank) if pos else data.split(blank)
        blocks.pop()
        width = len(blank)
        behind = width - 1 if width == 4 else width
        base = self._at - len(data)
        retry = self.retry
        clean = self._start is None and not self._stray
        for block in blocks:
            if clean and _LF not in block and _CR not in block and block[:6] == b"data: ":
                start = base + pos
                pos += len(block)
                emit(SseEvent(block[6:], "message", self.last_event_id, retry, start, base + pos + behind, start + 6))
                pos += width
                continue
            end = pos + len(block) + width
            self._lines(data, pos, end, emit)
            # CR before the last LF was met and the LF with it.
            pos = end
            retry = self.retry
            clean = self._start is None and not self._stray
        return pos

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
                if pos == lf:
                    pos += 1
                elif pos == len(data):
                    self._skip_lf = True
                cr = find(b"\r", pos, stop)
            if lf < pos:
                lf = find(b"\n", pos, stop)
        return pos

    # Lines to events -------------------------------------------------------------------------------------------------------------------------

    def _finished(self, line: bytes, start: int, emit: Emit[SseFrame]) -> None:
        """
        One line that is not blank.
        """
        limits = self._limits
        over = start + limits.line if len(line) > limits.line else None
        if line[:5] == b"data:" and self._size + len(line) > limits.event:
            self._check_event(line, start, over, emit)
        if over is not None:
            self._fail(LimitExceeded("line", limits.line, over), emit)
        if line[:1] != b":":
            self._field(line, start, emit)

    def _field(self, line: bytes, start: int, emit: Emit[SseFrame]) -> None:
        name, _, value = line.partition(b":")
        if value[:1] == b" ":
            value = value[1:]
        if name == b"data":
            if not self._data:
                self._data_start = start + len(line) - len(value)
            self._data.append(value)
            self._size += len(value) + 1
        elif name == b"event":
            self._event = value.decode()
        elif name == b"id":
            if 0 not in value:
                self._id = value.decode()
        elif name == b"retry":
            if value.isdigit():
                self.retry = _milliseconds(value, self.retry)
        else:
            self._collect_stray(line, start, emit)
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
        if self._data:
            event = self._joined(end)
            if self._stray:
                self._before_fault(emit)
            self._data = []
            self._size = 0
        else:
            event = None
        self._event = ""
        self._start = None
        if event is not None:
            emit(event)

    def _joined(self, end: int) -> SseEvent:
        data = self._data
        raw = data[0] if len(data) == 1 else b"\n".join(data)
        return SseEvent(raw, self._event or "message", self._id, self.retry, self._start or 0, end, self._data_start)

    def _collect_stray(self, line: bytes, start: int, emit: Emit[SseFrame]) -> None:
        limit = self._limits.event
        if self._stray_size + len(line) + 1 > limit:
            self._fail(LimitExceeded("event", limit, start + limit - self._stray_size), emit)
        if not self._stray:
            self._stray_start = start
        self._stray.append(line)
        self._stray_size += len(line) + 1
        self._stray_end = start + len(line)

    def _before_fault(self, emit: Emit[SseFrame]) -> None:
        if self._stray:
            text = b"\n".join(self._stray).decode()
            self._stray, self._stray_size = [], 0
            emit(StrayText(text, self._stray_start, self._stray_end))

    # Faults ----------------------------------------------------------------------------------------------------------------------------------

    def _check_unfinished(self, emit: Emit[SseFrame]) -> None:
        """
        Limits are not allowed to wait for the end of a line that may never come.
        """
        line, limits = self._line, self._limits
        size = len(line)
        if size > limits.line or self._size + size > limits.event:
            start = self._at - size
            over = start + limits.line if size > limits.line else None
            if line[:5] == b"data:":
                self._check_event(line, start, over, emit, finished=False)
            if over is not None:
                self._fail(LimitExceeded("line", limits.line, over), emit)

    def _check_event(self, line: bytes | bytearray, start: int, line_over: int | None, emit: Emit[SseFrame], finished: bool = True) -> None:
        """
        A data line that may pass the event limit; unless the line limit is passed before.
        """
        skip = 6 if line[5:6] == b" " else 5
        limit = self._limits.event
        over = start + skip + limit - self._size
        if self._size + len(line) - skip + finished > limit and (line_over is None or over < line_over):
            self._fail(LimitExceeded("event", limit, over), emit)


def _milliseconds(digits: bytes, old: int | None) -> int | None:
    """
    A number so long that Python will not read it is no time.
    """
    try:
        return int(digits)
    except ValueError:
        return old
