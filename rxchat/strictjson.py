"""
Strict JSON (contract B4): RFC 8259 and nothing beside it, no duplicate keys, no number that no double can hold, no lone surrogate, bounded depth.

The reader underneath is `jiter`, told to refuse duplicate keys. Two things it lets pass are looked for here, on the value: a float that overflowed to
infinity, and containers nested deeper than allowed. Integers stay exact, however long (up to 4,300 digits).

What is wrong is told by a short word (`InvalidJSONError.reason`): empty, syntax, trailing, escape, control, surrogate, utf8, duplicate_key, depth,
non_finite, number.
"""

from __future__ import annotations

import json
import re
from typing import Any

import jiter

from rxchat.errors import InvalidJSONError

__all__ = ["dumps", "loads"]

_from_json = jiter.from_json
_INFINITY = float("inf")

# How the reader words its refusals, and our word for them; the first that the message begins with. Anything else is "syntax".
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

_MESSAGES = {
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

_AT = re.compile(r" at line (\d+) column (\d+)$")
_STRING = rb'"(?:[^"\\]++|\\.)*+"?'
_BRACKETS = re.compile(_STRING + rb"|[\[{]|[\]}]", re.DOTALL)
_NUMBERS = re.compile(_STRING + rb"|[0-9][0-9.]*(?:[eE][-+]?[0-9]+)?", re.DOTALL)
_NON_FINITE = re.compile(rb"-?(?:NaN|Infinity)")
_SHORT_ESCAPE = re.compile(rb"\\u[0-9A-Fa-f]{0,3}[^0-9A-Fa-f]")


def loads(data: bytes | str, *, offset: int = 0, depth: int = 128) -> Any:
    """
    Parse one JSON value strictly; white space may surround it.

    Raises InvalidJSONError and nothing else, its offset being `offset` + the byte position in `data` (for text: in its UTF-8). Exactly `depth` nested
    containers pass; the reader itself ends at 200.
    """
    raw = data if type(data) is bytes else _encoded(data, offset)
    try:
        value = _from_json(raw, allow_inf_nan=False, catch_duplicate_keys=True)
    except ValueError as error:
        raise _refusal(raw, str(error), offset, depth) from None
    todo = [value]
    containers = 0
    for item in todo:
        kind = type(item)
        if kind is str:
            continue
        if kind is dict:
            containers += 1
            todo += item.values()
        elif kind is list:
            containers += 1
            todo += item
        elif kind is float and (item == _INFINITY or item == -_INFINITY):
            raise _error("non_finite", offset, _overflow(raw))
    if containers > depth:
        position = _too_deep(raw, depth)
        if position is not None:
            raise _error("depth", offset, position)
    return value


_encode = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), allow_nan=False).encode


def dumps(value: Any) -> str:
    """
    Compact JSON: no spaces, text as it is. Raises ValueError for NaN and infinity, TypeError for what JSON has no word for.
    """
    return _encode(value)


# --- refusals -------------------------------------------------------------------------------------------------------------------------------------


def _error(reason: str, offset: int, position: int) -> InvalidJSONError:
    return InvalidJSONError(_MESSAGES[reason], offset + position, reason)


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
    position = _position(raw, message)
    reason = next((word for start, word in _REASONS if message.startswith(start)), "syntax")
    deep = _too_deep(raw[: position + 1], depth)
    if deep is not None:
        return _error("depth", offset, deep)
    bad = _not_utf8(raw)
    if bad is not None and bad <= position:
        return _error("utf8", offset, bad)
    if reason == "syntax":
        for found, word in ((_NON_FINITE.match(raw, position), "non_finite"), (_NON_FINITE.match(raw, max(position - 1, 0)), "non_finite")):
            if found:
                return _error(word, offset, found.start())
        short = _SHORT_ESCAPE.search(raw, max(len(raw) - 6, 0)) if message.startswith("EOF while parsing a string") else None
        if short:
            return _error("escape", offset, short.start())
    return _error(reason, offset, position)


def _position(raw: bytes, message: str) -> int:
    """
    The reader counts lines and columns of bytes from 1, a line end being column 0 of the next line.
    """
    found = _AT.search(message)
    if found is None or message.startswith("EOF"):
        return len(raw)
    line, column = int(found[1]), int(found[2])
    start = 0
    for _ in range(line - 1):
        start = raw.index(b"\n", start) + 1
    return max(start + column - 1, 0)


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
        byte = raw[found.start()]
        if byte in b"[{":
            level += 1
            if level > depth:
                return found.start()
        elif byte in b"]}":
            level -= 1
    return None


def _overflow(raw: bytes) -> int:
    """
    Where the first number stands that no double can hold; only called when there is one.
    """
    for found in _NUMBERS.finditer(raw):
        if raw[found.start()] != 0x22 and not found[0].isdigit() and float(found[0]) == _INFINITY:
            return found.start() - (raw[found.start() - 1 : found.start()] == b"-")
    return 0
