"""
A JSON array that is streamed: each element is a record as soon as it is whole (contract B3, P7, P9).

The scanner looks only for what can end an element (quotes, braces, brackets) and at every byte once; what stands between the marks is the strict
parser's to judge. Outside of elements there may be white space, and one comma between two of them.
"""

from __future__ import annotations

import re

from rxchat.errors import FramingError, IncompleteStreamError, LimitExceeded
from rxchat.framing.base import TextFramer
from rxchat.framing.frames import JsonBody, JsonRecord
from rxchat.framing.jsonbody import BodyCollector
from rxchat.limits import Limits
from rxchat.stage import Emit
from rxchat.strictjson import loads

__all__ = ["JsonArrayFramer"]

_SPACE = re.compile(rb"[ \t\r\n]*+")
_MARK = re.compile(rb'["\[\]{}]')
_SCALAR_END = re.compile(rb"[ \t\r\n,\]}]")
_QUOTE, _COMMA, _OPEN, _CLOSE = b'",[]'

# Where the scanner is; between elements, what may come next.
_OPENING, _FIRST, _NEXT, _AFTER, _ENDED = "[", "an element or ]", "an element", ", or ]", "nothing more"
_INSIDE, _BODY = "the rest of an element", "the rest of the body"


class JsonArrayFramer(TextFramer[JsonRecord | JsonBody]):
    """
    Frame a streamed array: a JsonRecord for each element, and one with `last` for the closing bracket.

    A body that is no array is one JsonBody at its end, or refused, as by JsonBodyFramer. The `event` limit counts an element's bytes; lines mean nothing
    here. Faults: FramingError between elements and behind the array, InvalidJSONError in an element, IncompleteStreamError if the body ends early.
    """

    def __init__(self, limits: Limits | None = None) -> None:
        super().__init__(limits)
        self._where = _OPENING
        self._element = bytearray()  # what earlier reads had of the element
        self._level = 0  # of open braces and brackets in it
        self._scalar = False
        self._string = False
        self._escaped = False  # an odd number of backslashes stands before the next byte of the string
        self._body = BodyCollector(self._limits)

    def _take(self, data: bytes, emit: Emit[JsonRecord | JsonBody]) -> None:
        pos = 0
        while pos < len(data):
            if self._where is _INSIDE:
                pos = self._inside(data, pos, emit)
            elif self._where is _BODY:
                self._body.take(data[pos:], self._at)
                return
            else:
                pos = self._between(data, pos, emit)

    def _finish(self, emit: Emit[JsonRecord | JsonBody]) -> None:
        if self._where is _BODY or self._where is _OPENING:
            emit(self._body.finish(self._at))
        elif self._where is not _ENDED:
            raise IncompleteStreamError("the body ends inside the array", self._at)

    # Between elements ------------------------------------------------------------------------------------------------------------------------

    def _between(self, data: bytes, pos: int, emit: Emit[JsonRecord | JsonBody]) -> int:
        """
        Skip white space and take a mark, or find that an element begins. Gives where to go on.
        """
        space = _SPACE.match(data, pos)
        pos = space.end() if space else pos
        if pos == len(data):
            return pos
        byte, where, at = data[pos], self._where, self._at - len(data) + pos
        if where is _OPENING:
            self._where = _FIRST if byte == _OPEN else _BODY
            return pos + (byte == _OPEN)
        if byte == _COMMA and where is _AFTER:
            self._where = _NEXT
            return pos + 1
        if byte == _CLOSE and (where is _AFTER or where is _FIRST):
            self._where = _ENDED
            emit(JsonRecord(None, at, at + 1, last=True))
            return pos + 1
        if byte in b",]}:" or where is _AFTER or where is _ENDED:
            raise FramingError(f"in a JSON array there must be {where} here", at, "array")
        self._where = _INSIDE
        self._scalar = byte not in b'"[{'
        return pos

    # Inside of one ---------------------------------------------------------------------------------------------------------------------------

    def _inside(self, data: bytes, pos: int, emit: Emit[JsonRecord | JsonBody]) -> int:
        """
        Look for the element's end; if it is not there, keep what there is. Gives where to go on.
        """
        end = self._scalar_end(data, pos) if self._scalar else self._container_end(data, pos)
        stop = len(data) if end is None else end
        start = self._at - len(data) + pos - len(self._element)
        limit = self._limits.event
        if len(self._element) + stop - pos > limit:
            raise LimitExceeded("event", limit, start + limit)
        if end is None:
            self._element += data[pos:]
            return stop
        whole = bytes(self._element) + data[pos:end] if self._element else data[pos:end]
        self._element.clear()
        self._where = _AFTER
        emit(JsonRecord(loads(whole, offset=start, depth=self._limits.json_depth), start, start + len(whole)))
        return stop

    @staticmethod
    def _scalar_end(data: bytes, pos: int) -> int | None:
        found = _SCALAR_END.search(data, pos)
        return found.start() if found else None

    def _container_end(self, data: bytes, pos: int) -> int | None:
        while True:
            if self._string:
                end = self._string_end(data, pos)
                if end is None:
                    return None
                pos = end
            else:
                found = _MARK.search(data, pos)
                if found is None:
                    return None
                pos = found.end()
                byte = data[pos - 1]
                if byte == _QUOTE:
                    self._string, self._escaped = True, False
                    continue
                self._level += 1 if byte in b"[{" else -1
            if self._level == 0:
                return pos

    def _string_end(self, data: bytes, pos: int) -> int | None:
        """
        Behind the quote that ends the string; a quote behind an odd number of backslashes is part of it.
        """
        begin = pos
        while (quote := data.find(b'"', begin)) >= 0:
            if not self._odd(data, pos, quote):
                self._string = False
                return quote + 1
            begin = quote + 1
        self._escaped = self._odd(data, pos, len(data))
        return None

    def _odd(self, data: bytes, start: int, stop: int) -> bool:
        """
        Whether the backslashes before `stop` are odd in number; those of the read before count if only they stand before it.
        """
        first = stop
        while first > start and data[first - 1] == 0x5C:
            first -= 1
        odd = (stop - first) % 2 == 1
        return odd != self._escaped if first == start else odd
