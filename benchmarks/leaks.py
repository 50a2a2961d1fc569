"""
What stays behind: memory after thousands of streams that ended, and of streams that were left in the middle.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable, Mapping
from typing import Any

from benchmarks.measuring import Growth
from benchmarks.server import sending
from benchmarks.subjects import OURS, Place, composed, pushed, separate
from benchmarks.workloads import WORKLOADS
from rxchat import chat_events

__all__ = ["READERS", "measured", "printed"]

EVENTS = 200
STREAMS = 2000


class Staying:
    """
    What the process holds more of than when this was made: KiB of memory, which the allocator takes in pieces of its own, and blocks of Python's own memory.
    """

    def __init__(self) -> None:
        self._growth = Growth()
        self._blocks = sys.getallocatedblocks()

    def found(self) -> dict[str, float]:
        return {"kib": self._growth.rest() * 1024, "blocks": sys.getallocatedblocks() - self._blocks}


def left(place: Place) -> None:
    """
    A stream whose subscriber leaves in the middle.
    """
    from reactivex import operators as ops

    pushed(place.reads).pipe(chat_events(place.load.dialect), ops.take(EVENTS // 2)).subscribe(lambda event: None)


READERS: Mapping[str, Callable[[Place], object]] = {"composed": composed, "separate": separate, "left in the middle": left}


def _grown(read: Callable[[Place], object], place: Place, streams: int) -> dict[str, float]:
    for _ in range(streams):
        read(place)
    staying = Staying()
    for _ in range(streams):
        read(place)
    return staying.found()


async def _grown_over_loopback(streams: int) -> dict[str, float]:
    subject = next(subject for subject in OURS if subject.name.startswith("rxchat ChatModel"))
    async with sending() as root, subject.opened(Place.of(WORKLOADS["W1"](EVENTS), EVENTS, root)) as once:
        for _ in range(streams):
            await once()
        staying = Staying()
        for _ in range(streams):
            await once()
        return staying.found()


def measured(scale: float, repetitions: int) -> dict[str, Any]:
    """
    What the process grew by, all 2,000 streams at a scale from 0.1 on; as many before the first look fill caches and pools.
    """
    streams = int(STREAMS * min(1.0, scale * 10))
    load = WORKLOADS["W1"](EVENTS)
    place = Place(load, load.reads, "")
    found = {name: _grown(read, place, streams) for name, read in READERS.items()}
    found["ChatModel (loopback)"] = asyncio.run(_grown_over_loopback(streams))
    return {"streams": streams, "events": EVENTS, "left": found}


def printed(table: Mapping[str, Any]) -> str:
    """
    In words.
    """
    left = ", ".join(f"{name} {row['kib']:.0f} KiB, {row['blocks']} blocks" for name, row in table["left"].items())
    return f"grown by over {table['streams']} streams of {table['events']} events: {left}"
