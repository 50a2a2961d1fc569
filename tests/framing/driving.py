"""
How the tests of the byte stages feed them: every way of cutting a body into reads, and one outcome to compare.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from rxchat.errors import RxchatError
from rxchat.stage import Stage
from tests.shared_data import EXHAUSTIVE

LARGE = 4096

Outcome = tuple[list[Any], tuple[Any, ...] | None]


def split(data: bytes, size: int) -> list[bytes]:
    """
    Reads of one size.
    """
    return [data[k : k + size] for k in range(0, len(data), size)]


def cuts(data: bytes) -> Iterator[list[bytes]]:
    """
    The whole, single bytes, every single split point, the same with empty reads between; for large bodies a few sizes.
    """
    yield [data]
    if len(data) > LARGE:
        yield from (split(data, size) for size in (65536, 4096, 997, 7, 1))
        return
    ones = split(data, 1)
    yield ones
    yield [piece for one in ones for piece in (one, b"")]
    for k in range(len(data) + 1):
        yield [data[:k], data[k:]]
        yield [b"", data[:k], b"", data[k:], b""]


def some_cuts(data: bytes, seed: int = 0, count: int = 12) -> Iterator[list[bytes]]:
    """
    A sample of `cuts` and of random splits for bodies made by the hundred; all of them if asked for everything.
    """
    if EXHAUSTIVE:
        yield from cuts(data)
    yield [data]
    yield split(data, 1)
    dice = random.Random(seed)
    for _ in range(count):
        marks = sorted(dice.randrange(len(data) + 1) for _ in range(dice.randrange(1, 6)))
        yield [data[a:b] for a, b in zip([0, *marks], [*marks, len(data)], strict=True)]


def fault(error: RxchatError) -> tuple[Any, ...]:
    """
    What must be the same of an error whatever the reads.
    """
    marks = (getattr(error, name, None) for name in ("offset", "kind", "reason", "limit", "value"))
    return (type(error), *marks)


def drive(stage: Stage[Any, Any], reads: Iterable[Any]) -> Outcome:
    """
    What a stage emits for these reads and the end of input, and its fault if it raises.
    """
    frames: list[Any] = []
    try:
        for read in reads:
            stage.feed(read, frames.append)
        stage.flush(frames.append)
    except RxchatError as error:
        return frames, fault(error)
    return frames, None


def same_for_all(make: Callable[[], Stage[Any, Any]], data: bytes, ways: Iterable[list[bytes]] | None = None) -> Outcome:
    """
    The outcome, after checking that it is the same for every cut (contract E9).
    """
    whole = drive(make(), [data])
    for reads in cuts(data) if ways is None else ways:
        outcome = drive(make(), reads)
        if outcome != whole:
            raise AssertionError(f"{data[:200]!r} cut as {[len(read) for read in reads]}: {outcome} instead of {whole}")
    return whole
