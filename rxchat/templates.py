"""
JSON texts that differ from one before only in a few places: read there, compared byte by byte everywhere else.

A stream says the same long frame thousands of times, with another word in it. `template` makes of one such text, which was parsed strictly, a reader for those
that follow: what is not a slot must be the very same bytes, and what is in a slot must be what a strict parser takes there (contract B4). So a text that
fits is strict JSON, and its value is the first one's but for the slots; of one that does not fit nothing is known, and it is parsed as usual.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from enum import Enum
from functools import lru_cache
from typing import Any, TypeAlias

import msgspec

__all__ = ["Path", "Slot", "TemplateReader", "template"]

Path: TypeAlias = tuple[str | int, ...]
TemplateReader: TypeAlias = Callable[[bytes], Any]


class Slot(Enum):
    """
    What may differ: the one TEXT and the one INTEGER that are read, and what is passed over.

    TEXT is any string (the empty one does not fit: it says nothing), INTEGER and COUNT are whole numbers of up to 18 digits, PADDING is plain ASCII.
    """

    TEXT = rb'"([^"\\\x00-\x1f]*+(?:\\.[^"\\\x00-\x1f]*+)*+)"'
    INTEGER = rb"(0|[1-9][0-9]{0,17}+)"
    COUNT = rb"(?:0|[1-9][0-9]{0,17}+)"
    PADDING = rb'"[ !#-\[\]-~]*+"'


# Where a slot starts and ends.
Place: TypeAlias = tuple[int, int, Slot]

# Longer texts are rare, and comparing them byte by byte gains nothing.
LONGEST = 8192
# So much between its slots is compiled, in about a microsecond a byte.
_BETWEEN = 512
# What so few bytes end with is compared together with the last slot.
_SHORT = 64
_BACKSLASH, _QUOTE, _COLON = 0x5C, 0x22, 0x3A
# A name, or a value that is no container, or a mark.
_TOKENS = re.compile(rb'("(?:[^"\\]|\\.)*+")\s*+:|"(?:[^"\\]|\\.)*+"|[{}\[\],]|[^\s{}\[\],:"]+', re.DOTALL)
_OPENING, _CLOSING = {b"{": None, b"[": 0}, frozenset((b"}", b"]"))
_SLOTS = {slot: re.compile(slot.value, re.DOTALL) for slot in Slot}
_unescaped = msgspec.json.Decoder(str).decode


def template(raw: bytes, slots: Mapping[Path, Slot], value: Any) -> TemplateReader | None:
    """
    A reader for texts written as `raw`, which is strict JSON of `value`: it gives the text, with an INTEGER the pair of text and number, None for what does
    not fit.

    None if `raw` is too long, or there is much between its slots, or it has nothing, or not what is asked for, at the path of the TEXT or the INTEGER; other
    slots may be missing.
    """
    if len(raw) > LONGEST:
        return None
    places = _named(raw, slots, value)
    # What is the same, slot, what is the same, slot, ...
    parts: list[bytes | Slot] = []
    at = 0
    for start, end, slot in _walked(raw, slots) if places is None else places:
        parts += raw[at:start], slot
        at = end
    if sum(len(part) for part in parts[1:] if isinstance(part, bytes)) > _BETWEEN:
        return None
    read = [slot for slot in parts if slot is Slot.TEXT or slot is Slot.INTEGER]
    if read.count(Slot.TEXT) != 1 or read.count(Slot.INTEGER) != (Slot.INTEGER in slots.values()):
        return None
    head, tail = raw[: len(parts[0])], raw[at:]  # type: ignore[arg-type]
    if len(tail) <= _SHORT:
        parts.append(tail)
        tail = b""
    number = read.index(Slot.INTEGER) + 1 if Slot.INTEGER in read else 0
    return _reader(head, _fits(tuple(parts[1:])), tail, read.index(Slot.TEXT) + 1, number)


@lru_cache(maxsize=64)
def _fits(parts: tuple[bytes | Slot, ...]) -> Callable[[bytes, int, int], re.Match[bytes] | None]:
    """
    Compares all from the first slot on: streams of one provider mostly differ in what stands in front of it, and compiling takes as long as many frames.
    """
    return re.compile(b"".join(part.value if isinstance(part, Slot) else re.escape(part) for part in parts), re.DOTALL).fullmatch


def _reader(head: bytes, fits: Callable[[bytes, int, int], re.Match[bytes] | None], tail: bytes, text: int, number: int) -> TemplateReader:
    begin, behind = len(head), len(tail)

    def read(raw: bytes) -> Any:
        if raw[:begin] != head or (behind and raw[-behind:] != tail):
            return None
        found = fits(raw, begin, len(raw) - behind)
        if found is None:
            return None
        piece = found[text]
        try:
            said = piece.decode() if _BACKSLASH not in piece else _unescaped(b'"%b"' % piece)
        except (UnicodeDecodeError, msgspec.MsgspecError):
            # Not strict: the usual way says where and why.
            return None
        return None if not said else (said, int(found[number])) if number else said

    return read


def _named(raw: bytes, slots: Mapping[Path, Slot], value: Any) -> Sequence[Place] | None:
    """
    Where the slots are, by their names alone: a name that stands there once is that of the path. None where that proves nothing.
    """
    places: list[Place] = []
    for path, slot in slots.items():
        if not _has(value, path):
            continue
        # Without the colon: that of another may stand apart.
        name = b'"%b"' % str(path[-1]).encode()
        at = raw.find(name)
        start = at + len(name) + 1
        if at < 0 or raw.find(name, start) >= 0 or raw[start - 1] != _COLON or type(path[-1]) is int:
            return None
        found = _SLOTS[slot].match(raw, start)
        if found is None or (raw[start] != _QUOTE and raw[found.end()] not in b",}]"):
            return None
        places.append((start, found.end(), slot))
    places.sort()
    # Where something else is escaped a name may be.
    return places if raw.count(b"\\") == sum(raw.count(b"\\", start, end) for start, end, _ in places) else None


def _has(value: Any, path: Path) -> bool:
    for step in path:
        try:
            value = value[step]
        except (KeyError, IndexError, TypeError):
            return False
    return True


def _walked(raw: bytes, slots: Mapping[Path, Slot]) -> Iterator[Place]:
    """
    The same for any text, from value to value.
    """
    for path, start, end in _values(raw, {path[-1] for path in slots}):
        slot = slots.get(path)
        if slot is not None and _SLOTS[slot].fullmatch(raw, start, end):
            yield start, end, slot


def _values(raw: bytes, names: Collection[str | int]) -> Iterator[tuple[Path, int, int]]:
    """
    Each value that is no container and has one of these names in its own: its path, where it starts and ends.
    """
    path: list[Any] = [None]
    for token in _TOKENS.finditer(raw):
        mark = token[0]
        if mark == b",":
            if type(path[-1]) is int:
                path[-1] += 1
        elif mark in _OPENING:
            path.append(_OPENING[mark])
        elif mark in _CLOSING:
            path.pop()
        elif token[1] is not None:
            path[-1] = _unescaped(token[1])
        elif path[-1] in names:
            yield tuple(path[1:]), token.start(), token.end()
