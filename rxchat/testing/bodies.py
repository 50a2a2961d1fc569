"""
Bodies to read, and the ways to cut, shorten and damage them. Whatever is random comes from a seed: the same call gives the same bodies again.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from random import Random
from typing import Any, TypeAlias

import attrs

from rxchat.errors import RxchatError
from rxchat.framing import framer_for
from rxchat.framing.frames import Frame, SseEvent, Undispatched
from rxchat.limits import Limits
from rxchat.stage import run
from rxchat.strictjson import dumps, loads

__all__ = ["Body", "BodyLike", "as_body", "borders_of", "cuts", "frames_of", "mutations", "split_at"]

# What a file's name says about its content, as in a Content-Type header.
MEDIA_TYPES: Mapping[str, str] = {
    ".sse": "text/event-stream",
    ".json": "application/json",
    ".ndjson": "application/x-ndjson",
    ".jsonl": "application/x-ndjson",
    ".bin": "application/vnd.amazon.eventstream",
}
AROUND = (-2, -1, 0, 1, 2)


@attrs.frozen
class Body:
    """
    A body of one response: its bytes and how they are read. No content type means the dialect's own first one; `options` are the dialect's.
    """

    content: bytes = attrs.field(repr=False)
    content_type: str | None = None
    name: str = "body"
    options: Mapping[str, Any] = attrs.field(factory=dict)


BodyLike: TypeAlias = Body | bytes | Path


def as_body(given: BodyLike, name: str = "body") -> Body:
    """
    The bytes themselves, or a file's: its type is told by its suffix (.sse, .json, .ndjson, .bin).
    """
    if isinstance(given, Body):
        return given
    if isinstance(given, Path):
        return Body(given.read_bytes(), MEDIA_TYPES.get(given.suffix), given.name)
    return Body(bytes(given), name=name)


# --- cuts -----------------------------------------------------------------------------------------------------------------------------------------


def split_at(body: bytes, places: Iterable[int]) -> list[bytes]:
    """
    The body in reads that begin at these places; places outside of it are left out.
    """
    inside = sorted({place for place in places if 0 < place < len(body)})
    return [body[start:end] for start, end in pairwise([0, *inside, len(body)])]


def cuts(
    body: bytes, sizes: Sequence[int] = (1, 7, 1400), *, seed: int = 0, random: int = 10, borders: Iterable[int] | None = None
) -> Iterator[list[bytes]]:
    """
    The ways a body may arrive, each a list of reads (contract E9): whole, in reads of each size, cut around every border, cut at random.

    Borders are where frames end; unless they are given (binary framings), every line end is one. They are cut at all together, from 2 bytes before to 2
    bytes behind. `random` ways have up to 12 cuts each, one of them two reads only. An empty body is one empty read.
    """
    yield [body]
    if not body:
        return
    yield from ([body[k : k + size] for k in range(0, len(body), size)] for size in sizes)
    found = _line_ends(body) if borders is None else list(borders)
    yield from (split_at(body, [border + shift for border in found]) for shift in AROUND)
    chance = Random(seed)
    for k in range(random):
        yield split_at(body, [chance.randrange(len(body)) for _ in range(12 if k else 1)])


def _line_ends(body: bytes) -> list[int]:
    return [k + 1 for k, byte in enumerate(body) if byte in b"\r\n"]


# --- frames ---------------------------------------------------------------------------------------------------------------------------------------


def frames_of(body: bytes, framing: str) -> list[Frame]:
    """
    The frames of a body, as far as its framing is sound.
    """
    frames: list[Frame] = []
    try:
        for frame in run(framer_for(framing, Limits()), [body]):
            frames.append(frame)
    except RxchatError:
        pass
    return frames


def borders_of(body: bytes, framing: str) -> list[int]:
    """
    Where frames begin and end.
    """
    return sorted({place for frame in frames_of(body, framing) for place in (frame.start, frame.end)})


# --- damage ---------------------------------------------------------------------------------------------------------------------------------------

# What stands in the place of a JSON value: each kind of it, and nothing.
_VALUES: tuple[Any, ...] = (None, True, -1, 1.5, "", "x", [], [None], {}, {"type": "x"})


def mutations(body: bytes, framing: str, chance: Random) -> Iterator[tuple[str, bytes]]:
    """
    Damaged bodies without end, each with a word for what was done: a byte, a range, a whole frame, or a value inside a frame's JSON is changed.
    """
    frames = [frame for frame in frames_of(body, framing) if frame.end > frame.start]
    while body:
        yield chance.choice(_DAMAGES)(body, frames, chance)


def _byte(body: bytes, frames: Sequence[Frame], chance: Random) -> tuple[str, bytes]:
    place, byte = chance.randrange(len(body)), chance.randrange(256)
    return f"byte {place} is {byte:#04x}", body[:place] + bytes([byte]) + body[place + 1 :]


def _range(body: bytes, frames: Sequence[Frame], chance: Random) -> tuple[str, bytes]:
    start = chance.randrange(len(body))
    end = min(len(body), start + chance.randrange(1, 40))
    if chance.random() < 0.5:
        return f"bytes {start} to {end} are gone", body[:start] + body[end:]
    return f"bytes {start} to {end} come twice", body[:end] + body[start:]


def _frame(body: bytes, frames: Sequence[Frame], chance: Random) -> tuple[str, bytes]:
    if not frames:
        return _byte(body, frames, chance)
    one, other = chance.choice(frames), chance.choice(frames)
    if chance.random() < 0.5:
        return f"the frame at {one.start} is gone", body[: one.start] + body[one.end :]
    return f"the frame at {one.start} comes at {other.end} again", body[: other.end] + body[one.start : one.end] + body[other.end :]


def _value(body: bytes, frames: Sequence[Frame], chance: Random) -> tuple[str, bytes]:
    places = [place for frame in frames if (place := _json_place(body, frame)) is not None]
    if not places:
        return _range(body, frames, chance)
    start, end = chance.choice(places)
    value = loads(body[start:end])
    path, changed = _changed(value, chance)
    return f"the JSON at {start} has {dumps(changed)} at {path or 'its root'}", body[:start] + dumps(_replaced(value, path, changed)).encode() + body[
        end:
    ]


def _json_place(body: bytes, frame: Frame) -> tuple[int, int] | None:
    """
    Where the JSON of a frame stands, if it stands there in one piece.
    """
    if isinstance(frame, SseEvent):
        start, end = frame.data_start, frame.data_start + len(frame.raw)
        found = body[start:end] == frame.raw
    else:
        start, end, found = frame.start, frame.end, not isinstance(frame, Undispatched)
    try:
        loads(body[start:end])
    except RxchatError:
        return None
    return (start, end) if found else None


def _changed(value: Any, chance: Random) -> tuple[tuple[Any, ...], Any]:
    paths = [path for path in _paths(value, ()) if path]
    return (chance.choice(paths) if paths else ()), chance.choice(_VALUES)


def _paths(value: Any, path: tuple[Any, ...]) -> Iterator[tuple[Any, ...]]:
    yield path
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, item in items:
        yield from _paths(item, (*path, key))


def _replaced(value: Any, path: tuple[Any, ...], new: Any) -> Any:
    if not path:
        return new
    copy = dict(value) if isinstance(value, dict) else list(value)
    copy[path[0]] = _replaced(value[path[0]], path[1:], new)
    return copy


_DAMAGES = (_byte, _range, _frame, _value, _value)
