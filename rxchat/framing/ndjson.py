"""
Newline-delimited JSON (NDJSON, JSON Lines): one value a line (contract B3, B4).

LF alone ends a line; a CR before it, spaces and tabs are white space of the JSON. Blank lines are skipped. Other separators (lone CR, U+0085, U+2028, VT,
FF) end nothing. Limits: `line` and `event` both count a line's bytes without its LF, since a line is an event here.
"""

from __future__ import annotations

from rxchat.errors import IncompleteStreamError, InvalidJSONError, LimitExceeded
from rxchat.framing.base import TextFramer
from rxchat.framing.frames import JsonRecord
from rxchat.limits import Limits
from rxchat.stage import Emit
from rxchat.strictjson import loads

__all__ = ["NdjsonFramer"]

_SPACE = b" \t\r"


class NdjsonFramer(TextFramer[JsonRecord]):
    """
    Frame NDJSON; `start` and `end` of a record are those of its line, without its LF.

    A whole last record needs no LF; an unterminated last line that is no JSON is a truncated stream (IncompleteStreamError at the line's start).
    """

    def __init__(self, limits: Limits | None = None) -> None:
        super().__init__(limits)
        self._depth = self._limits.json_depth
        line, event = self._limits.line, self._limits.event
        self._bound, self._bound_name = (line, "line") if line <= event else (event, "event")
        self._line = bytearray()  # the unfinished line

    def _take(self, data: bytes, emit: Emit[JsonRecord]) -> None:
        if self._line:
            self._line += data
            if 10 not in data:
                self._check(len(self._line), self._at - len(self._line))
                return
            data = bytes(self._line)
            self._line.clear()
        base = self._at - len(data)
        pos = 0
        while (end := data.find(b"\n", pos)) >= 0:
            self._record(data[pos:end], base + pos, emit)
            pos = end + 1
        if pos < len(data):
            self._line += data[pos:]
            self._check(len(data) - pos, base + pos)

    def _finish(self, emit: Emit[JsonRecord]) -> None:
        start = self._at - len(self._line)
        try:
            self._record(bytes(self._line), start, emit)
        except InvalidJSONError as error:
            raise IncompleteStreamError("the body ends inside a record", start) from error

    def _record(self, line: bytes, start: int, emit: Emit[JsonRecord]) -> None:
        self._check(len(line), start)
        if line.strip(_SPACE):
            emit(JsonRecord(loads(line, offset=start, depth=self._depth), start, start + len(line)))

    def _check(self, size: int, start: int) -> None:
        if size > self._bound:
            raise LimitExceeded(self._bound_name, self._bound, start + self._bound)
