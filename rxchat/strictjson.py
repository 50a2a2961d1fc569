"""
Strict JSON (contract B4): RFC 8259 and nothing beside it, no key twice, no number that no double can hold, no lone surrogate, bounded depth.

The reader underneath is `jiter`, told to refuse duplicate keys and to cache keys only, never texts. Two things it lets pass are looked for here: a float
that overflowed to infinity, and containers nested deeper than allowed. Integers stay exact, however long (up to 4,300 digits).

What is wrong is told by a short word, `InvalidJSONError.reason`: empty, syntax, trailing, escape, control, surrogate, utf8, duplicate_key, depth,
non_finite, number. A text that only ends too early is "syntax" at its very end.
"""

from __future__ import annotations

import json
import re
from typing import Any

import jiter
import msgspec
from msgspec.msgpack import Encoder

from rxchat.errors import InvalidJSONError

__all__ = ["JsonReader", "dumps", "loads"]

_from_json = jiter.from_json
_INFINITY = float("inf")

# Packing a short value and looking for one byte in it is the cheapest way to see that no infinity is inside: an infinite double is 7F F0 00 ... or
# FF F0 00 ...; F0 itself is otherwise rare (it begins an emoji). Long values are walked through instead.
_pack = Encoder().encode
_INFINITE = 0xF0
_SHORT = 4096

# How the reader words its refusals, and our word for them; anything else is "syntax".
_REASONS = (
    ("trailing characters", "trailing"),
    ("Detected duplicate key", "duplicate_key"),
    ("recursion limit exceeded", "depth"),
    ("control character", "control"),
    ("invalid escape", "escape"),
    ("unexpected end of hex escape", "surrogate"),
    ("lone leading surrogate", "surrogate"),
    ("invalid unicode code point", "utf8"),
    ("number out of range", "number"),
)

MESSAGES = {
    "empty": "no JSON at all",
    "syntax": "not JSON",
    "trailing": "something follows the JSON value",
    "escape": "an escape JSON does not have",
    "control": "a raw control character in a string",
    "surrogate": "a lone surrogate",
    "utf8": "not UTF-8",
    "duplicate_key": "an object has a key twice",
    "depth": "nested too deeply",
    "non_finite": "a number no double can hold",
    "number": "an integer with too many digits",
}

_PLACE = re.compile(r" at line (\d+) column (\d+)$")
_STRING = rb'"(?:[^"\\]++|\\.)*+"?'
_BRACKETS = re.compile(_STRING + rb"|[\[{]|[\]}]", re.DOTALL)
_NUMBERS = re.compile(_STRING + rb"|-?[0-9][0-9.]*(?:[eE][-+]?[0-9]+)?", re.DOTALL)
_NON_FINITE = re.compile(rb"-?(?:NaN|Infinity)")


def loads(data: bytes | str, *, offset: int = 0, depth: int = 128) -> Any:
    """
    Parse one JSON value strictly; white space may surround it.

    Raises InvalidJSONError and nothing else, its offset being `offset` + the byte position in `data` (for text: in its UTF-8). Exactly `depth` nested
    containers pass; more than 200 never do.
    """
    raw = data if type(data) is bytes else _encoded(data, offset)
    size = len(raw)
    try:
        value = _from_json(raw, allow_inf_nan=False, catch_duplicate_keys=True, cache_mode="keys")
        suspicious = size > _SHORT or _INFINITE in _pack(value)
    except ValueError as error:
        raise _refusal(raw, str(error), offset, depth) from None
    except OverflowError:  # of packing, by an integer of more than 64 bits
        suspicious = True
    if suspicious:
        _inspect(value, raw, offset, depth)
    elif size > 2 * depth and size // 5 + raw.count(b"[") >= depth:
        _bound_depth(value, raw, offset, depth)
    return value


class JsonReader:
    """
    `loads` for the frames of one stream, in half its time where they are written as most servers write them.

    A value that is written out again as the very bytes it was read from has no key twice, no overflow and nothing else to refuse: nothing of that would
    survive the way. Reading so and writing with msgspec costs less than looking for each of it. Frames that are written otherwise (with spaces, escapes, long
    exponents) take the usual way, and after some of them the short one is not tried for a while.
    """

    __slots__ = ("_depth", "_penalty", "_skip")

    def __init__(self, depth: int = 128) -> None:
        self._depth = depth
        self._penalty = 0
        self._skip = 0  # frames not to try

    def loads(self, raw: bytes, offset: int = 0) -> Any:
        """
        As `loads`, errors included.
        """
        size = len(raw)
        if self._skip:
            self._skip -= 1
        elif size <= _LONG:
            try:
                value = _decode(raw)
                if _write(value) == raw:
                    self._penalty = 0
                    depth = self._depth
                    if size > 2 * depth and size // 5 + raw.count(b"[") >= depth:
                        _bound_depth(value, raw, offset, depth)
                    return value
            except (msgspec.MsgspecError, RecursionError, OverflowError, TypeError, ValueError) as error:
                if isinstance(error, InvalidJSONError):
                    raise
            self._skip = self._penalty = min(2 * self._penalty + 1, _MOST_SKIPPED)
        return loads(raw, offset=offset, depth=self._depth)


_decode = msgspec.json.Decoder().decode
_write = msgspec.json.Encoder().encode
_LONG = 64 * 1024
_MOST_SKIPPED = 127


def _bound_depth(value: Any, raw: bytes, offset: int, depth: int) -> None:
    # An array takes two bytes, an object around something five: mostly the size alone shows the callers that the value is flat enough.
    if raw.count(b"[") + raw.count(b"{") > depth:
        _inspect(value, raw, offset, depth)


_encode = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), allow_nan=False).encode


def dumps(value: Any) -> str:
    """
    Compact JSON: no spaces, text as it is. Raises ValueError for NaN and infinity, TypeError for what JSON has no word for.
    """
    return _encode(value)


# --- what the reader lets pass --------------------------------------------------------------------------------------------------------------------


def _inspect(value: Any, raw: bytes, offset: int, depth: int) -> None:
    """
    Refuse an infinity or too deep a nesting.
    """
    todo = [value]
    containers = 0
    for item in todo:
        kind = type(item)
        if kind is dict:
            containers += 1
            todo += item.values()
        elif kind is list:
            containers += 1
            todo += item
        elif kind is float and (item == _INFINITY or item == -_INFINITY):
            raise _error("non_finite", offset, _overflow(raw))
    if containers > depth and _levels(value) > depth:
        raise _error("depth", offset, _too_deep(raw, depth) or 0)


def _levels(value: Any) -> int:
    """
    How deep containers are nested.
    """
    level = [value] if isinstance(value, dict | list) else []
    count = 0
    while level:
        count += 1
        level = [item for one in level for item in (one.values() if type(one) is dict else one) if type(item) is dict or type(item) is list]
    return count


# --- where and why --------------------------------------------------------------------------------------------------------------------------------


def _error(reason: str, offset: int, position: int) -> InvalidJSONError:
    return InvalidJSONError(MESSAGES[reason], offset + position, reason)


def _encoded(text: Any, offset: int) -> bytes:
    if not isinstance(text, str):
        return bytes(text)
    try:
        return text.encode()
    except UnicodeEncodeError as error:
        raise _error("surrogate", offset, len(text[: error.start].encode())) from None


def _refusal(raw: bytes, message: str, offset: int, depth: int) -> InvalidJSONError:
    """
    The reader refused: where and why, in our words. Of several faults the first in the text counts.
    """
    if not raw.strip(b" \t\r\n"):
        return _error("empty", offset, len(raw))
    reason, position = _read_message(raw, message)
    deep = _too_deep(raw[: position + 1], depth)
    if deep is not None:
        return _error("depth", offset, deep)
    bad = _not_utf8(raw)
    if bad is not None and bad <= position:
        return _error("utf8", offset, bad)
    if reason == "syntax":
        for start in (max(position - 1, 0), position):
            if _NON_FINITE.match(raw, start):
                return _error("non_finite", offset, start)
    return _error(reason, offset, position)


def _read_message(raw: bytes, message: str) -> tuple[str, int]:
    """
    Reason and position of what the reader says. It counts lines and columns of bytes from 1, a line end being column 0 of the next line.
    """
    if message.startswith("EOF while parsing a string"):
        # An escape cut short by the string's own quote is told as an early end, too: some more bytes make the difference.
        message = _message(raw + b"    ")
    reason = next((word for start, word in _REASONS if message.startswith(start)), "syntax")
    found = _PLACE.search(message)
    if found is None or message.startswith("EOF"):
        return "syntax", len(raw)
    line, column = int(found[1]), int(found[2])
    start = 0
    for _ in range(line - 1):
        start = raw.index(b"\n", start) + 1
    position = start + column - 1
    if position >= len(raw):
        return "syntax", len(raw)
    if reason == "surrogate":
        position = raw.rfind(b"\\u", 0, position)
    return reason, max(position, 0)


def _message(raw: bytes) -> str:
    """
    How the reader refuses this.
    """
    message = ""
    try:
        _from_json(raw, allow_inf_nan=False, catch_duplicate_keys=True, cache_mode="keys")
    except ValueError as error:
        message = str(error)
    return message


def _not_utf8(raw: bytes) -> int | None:
    try:
        raw.decode()
    except UnicodeDecodeError as error:
        return error.start
    return None


def _too_deep(raw: bytes, depth: int) -> int | None:
    """
    Where the first container stands that is nested deeper than `depth`.
    """
    level = 0
    for found in _BRACKETS.finditer(raw):
        mark = found[0][:1]
        if mark in (b"[", b"{"):
            level += 1
            if level > depth:
                return found.start()
        elif mark != b'"':
            level -= 1
    return None


def _overflow(raw: bytes) -> int:
    """
    Where the first number stands that no double can hold; there is one.
    """
    spots = (found.start() for found in _NUMBERS.finditer(raw) if not found[0].startswith(b'"') and abs(_double(found[0])) == _INFINITY)
    return next(spots, 0)


def _double(number: bytes) -> float:
    """
    A float; an integer, which is always exact, counts for nothing.
    """
    return float(number) if not number.lstrip(b"-").isdigit() else 0.0
