"""
What stays behind: memory after thousands of streams that ended, and of streams that were left in the middle.
"""

from __future__ import annotations

import asyncio
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
# Before the first look: caches and pools are filled by then.
WARM = 300


def left(place: Place) -> None:
    """
    A stream whose subscriber leaves in the middle.
    """
    from reactivex import operators as ops

    pushed(place.reads).pipe(chat_events(place.load.dialect), ops.take(EVENTS // 2)).subscribe(lambda event: None)


READERS: Mapping[str, Callable[[Place], object]] = {"composed": composed, "separate": separate, "left in the middle": left}


def _grown(read: Callable[[Place], object], place: Place, streams: int) -> float:
    for _ in range(WARM):
        read(place)
    growth = Growth()
    for _ in range(streams):
        read(place)
    return growth.rest() * 1024


async def _grown_over_loopback(streams: int) -> float:
    subject = next(subject for subject in OURS if subject.name.startswith("rxchat ChatModel"))
    async with sending() as root, subject.opened(Place.of(WORKLOADS["W1"](EVENTS), EVENTS, root)) as once:
        for _ in range(WARM):
            await once()
        growth = Growth()
        for _ in range(streams):
            await once()
        return growth.rest() * 1024


def measured(scale: float, repetitions: int) -> dict[str, Any]:
    """
    KiB that the process grew by, all 2,000 streams at a scale from 0.1 on.
    """
    streams = int(STREAMS * min(1.0, scale * 10))
    load = WORKLOADS["W1"](EVENTS)
    place = Place(load, load.reads, "")
    kib = {name: _grown(read, place, streams) for name, read in READERS.items()}
    kib["ChatModel (loopback)"] = asyncio.run(_grown_over_loopback(streams))
    return {"streams": streams, "events": EVENTS, "kib": kib}


def printed(table: Mapping[str, Any]) -> str:
    """
    In words.
    """
    kib = ", ".join(f"{name} {grown:.0f}" for name, grown in table["kib"].items())
    return f"KiB grown by over {table['streams']} streams of {table['events']} events: {kib}"
