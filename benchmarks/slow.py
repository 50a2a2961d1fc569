"""
A consumer that is slower than its provider: what waits, and where.

The server sends 60 MB as fast as it can; the consumer is an `async for` that sleeps a millisecond at each event. Looked at while it lasts: events that were
made and not yet taken, bytes in aiohttp's buffer, and what the process grew by.
"""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Callable, Mapping
from typing import Any

import aiohttp
from reactivex import operators as ops

from benchmarks.measuring import Growth
from benchmarks.server import address, sending
from benchmarks.subjects import PROMPT
from rxchat import ChatModel, to_async_iterable

__all__ = ["consumed", "measured", "printed"]

# W1's events are of 328 bytes.
EVENTS = 60_000_000 // 328
SECONDS = 6.0
PAUSE = 0.001


async def consumed(root: str, events: int, seconds: float, pause: float) -> dict[str, float]:
    """
    Read for so long at that pace, then leave; what was seen to wait, at most.
    """
    made = taken = waiting = buffered = 0
    async with ChatModel("openai/model-1", base_url=address(root, "W1", events), api_key="none", dialect="openai-chat") as model:
        growth = Growth()

        def on_next(_: object) -> None:
            nonlocal made, waiting
            made += 1
            waiting = max(waiting, made - taken)

        stream = model.stream(PROMPT).pipe(ops.do_action(on_next), to_async_iterable())
        ends = asyncio.get_running_loop().time() + seconds
        size = _reader()
        async for _ in stream:
            taken += 1
            if pause:
                await asyncio.sleep(pause)
            if taken % 16 == 0:
                buffered = max(buffered, size())
            if asyncio.get_running_loop().time() > ends:
                break
    return {"taken": taken, "waiting": waiting, "buffered_kib": buffered / 1024, "peak_mib": growth.peak()}


def _reader() -> Callable[[], int]:
    """
    How much is in aiohttp's buffer; the one reader there is is found when it is first asked for.
    """
    found: list[Any] = []

    def size() -> int:
        if not found:
            found.extend(thing for thing in gc.get_objects() if isinstance(thing, aiohttp.StreamReader) and not thing.is_eof())
        # aiohttp offers no public name for it.
        return max((int(getattr(reader, "_size", 0)) for reader in found), default=0)

    return size


async def _slow(events: int, seconds: float) -> dict[str, float]:
    async with sending() as root:
        # The server makes the body at its first request, and all of ours is warm then.
        await consumed(root, events, 0.2, 0)
        return {"megabytes": events * 328 / 1e6, **await consumed(root, events, seconds, PAUSE)}


def measured(scale: float, repetitions: int) -> dict[str, Any]:
    """
    The whole body at a scale from 0.1 on, less of it and shorter below.
    """
    part = min(1.0, scale * 10)
    return asyncio.run(_slow(int(EVENTS * part), max(0.3, SECONDS * part)))


def printed(table: Mapping[str, Any]) -> str:
    """
    In words.
    """
    return (
        f"{table['megabytes']:.0f} MB, 1 ms an event: {table['taken']} taken, at most {table['waiting']} events waiting, "
        f"{table['buffered_kib']:.0f} KiB in aiohttp's buffer, process grew by {table['peak_mib']:.2f} MiB"
    )
