"""
JSON texts that differ from one before only in a few places: read there, compared byte by byte everywhere else.

A stream says the same long frame thousands of times, with another word in it. `template` makes of one such text, which was parsed strictly, a reader for those
that follow: what is not a slot must be the very same bytes, and what is in a slot must be what a strict parser takes there (contract B4). So a text that
fits is strict JSON, and its value is the first one's but for the slots; of one that does not fit nothing is known, and it is parsed as usual.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from enum import Enum
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


# Longer texts are rare, and comparing them byte by byte gains nothing.
LONGEST = 8192
# What so few bytes end with is compared together with the last slot.
_SHORT = 64
_BACKSLASH = 0x5C
_TOKENS = re.compile(rb'"(?:[^"\\]|\\.)*+"|[{}\[\],:]|[^\s{}\[\],:"]+', re.DOTALL)
_unescaped = msgspec.json.Decoder(str).decode


def template(raw: bytes, slots: Mapping[Path, Slot]) -> TemplateReader | None:
    """
    A reader for texts written as `raw`, which is strict JSON: it gives the text, with an INTEGER the pair of text and number, None for what does not fit.

    None if `raw` is too long, or has nothing, or not what is asked for, at the path of the TEXT or the INTEGER; other slots may be missing.
    """
    if len(raw) > LONGEST:
        return None
    pattern: list[bytes] = []
    kinds: list[Slot] = []
    begin = at = 0
    for path, start, end in _values(raw):
        slot = slots.get(path)
        if slot is not None and re.fullmatch(slot.value, raw[start:end], re.DOTALL):
            if kinds:
                pattern.append(re.escape(raw[at:start]))
            else:
                begin = start
            pattern.append(slot.value)
            kinds.append(slot)
            at = end
    wanted = [slot for slot in slots.values() if slot is Slot.TEXT or slot is Slot.INTEGER]
    read = [slot for slot in kinds if slot in wanted]
    if sorted(slot.name for slot in read) != sorted(slot.name for slot in wanted) or read.count(Slot.TEXT) != 1:
        return None
    tail = raw[at:]
    if len(tail) > _SHORT:
        fits, behind = re.compile(b"".join(pattern), re.DOTALL).fullmatch, tail
    else:
        fits, behind = re.compile(b"".join([*pattern, re.escape(tail)]), re.DOTALL).fullmatch, b""
    number = read.index(Slot.INTEGER) + 1 if Slot.INTEGER in read else 0
    return _reader(raw[:begin], fits, behind, read.index(Slot.TEXT) + 1, number)


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


def _values(raw: bytes) -> Iterator[tuple[Path, int, int]]:
    """
    Each value that is no container: its path, where it starts and ends.
    """
    path: list[Any] = []
    key = False  # whether the next string is one
    for token in _TOKENS.finditer(raw):
        mark = token[0]
        if mark in (b"{", b"["):
            path.append(None if mark == b"{" else 0)
            key = mark == b"{"
        elif mark in (b"}", b"]"):
            path.pop()
            key = False
        elif mark == b",":
            if isinstance(path[-1], int):
                path[-1] += 1
            else:
                key = True
        elif mark != b":":
            if key:
                path[-1] = _unescaped(mark)
                key = False
            else:
                yield tuple(path), token.start(), token.end()
