"""
How long a server goes on for a client that has left: from `dispose()` until the server sees the connection closed.

    python -m benchmarks.disconnect --streams 200 --json disconnect.json

Beside bare aiohttp's `response.close()`, in turn within one process; the server is another one, both read the machine's monotonic clock.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, TypeAlias

import aiohttp
from reactivex import operators as ops

from benchmarks.measuring import machine, unwritable
from benchmarks.paced import PROMPT
from benchmarks.paced_server import Pace, Server, served
from rxchat import ChatModel, text_only

# So many texts are read before the client leaves.
READ = 5
# Far more than is read, at a pace at which the stream is mostly silent.
RATE, EVENTS = 200, 1_000_000

# Opens a stream, reads some, leaves; gives the moment at which it left, in monotonic nanoseconds.
Leaver: TypeAlias = Callable[[str, Pace], Awaitable[int]]


async def by_dispose(url: str, pace: Pace) -> int:
    """
    The subscription is disposed of from outside, between two events.
    """
    seen = 0
    enough = asyncio.Event()

    def on_next(_: str) -> None:
        nonlocal seen
        seen += 1
        if seen == READ:
            enough.set()

    async with _model(url, pace) as model:
        subscription = model.stream(PROMPT).pipe(text_only()).subscribe(on_next)
        await enough.wait()
        left = time.monotonic_ns()
        subscription.dispose()
        await asyncio.sleep(0.02)
    return left


async def by_take(url: str, pace: Pace) -> int:
    """
    `take` disposes from within an event.
    """
    left = 0

    def on_next(_: str) -> None:
        nonlocal left
        left = time.monotonic_ns()

    async with _model(url, pace) as model:
        await model.stream(PROMPT).pipe(text_only(), ops.take(READ), ops.do_action(on_next))
        await asyncio.sleep(0.02)
    return left


async def by_close(url: str, pace: Pace) -> int:
    """
    Bare aiohttp.
    """
    async with aiohttp.ClientSession() as session:
        response = await session.post(f"{url}/chat/completions", json={"model": pace.model})
        seen = 0
        async for line in response.content:
            seen += line.startswith(b"data: ")
            if seen == READ:
                break
        left = time.monotonic_ns()
        response.close()
        await asyncio.sleep(0.02)
    return left


LEAVERS: Mapping[str, Leaver] = {"aiohttp response.close()": by_close, "rxchat dispose()": by_dispose, "rxchat take(5)": by_take}


def _model(url: str, pace: Pace) -> ChatModel:
    return ChatModel(f"openai/{pace.model}", base_url=url, api_key="none", dialect="openai-chat")


async def measured(streams: int) -> dict[str, list[float]]:
    """
    Milliseconds until the server saw it, each leaver `streams` times, in turn.
    """
    delays: dict[str, list[float]] = {name: [] for name in LEAVERS}
    async with served() as server:
        for number in range(streams):
            for place, (name, leaver) in enumerate(LEAVERS.items()):
                delays[name].append(await _delay(server, leaver, number * len(LEAVERS) + place))
    return {name: sorted(values) for name, values in delays.items()}


async def _delay(server: Server, leaver: Leaver, stream: int) -> float:
    left = await leaver(server.url, Pace(RATE, EVENTS, stream=stream))
    seen = await asyncio.wait_for(server.left(stream), 10)
    return (seen - left) / 1e6


def summed(delays: Mapping[str, Sequence[float]]) -> dict[str, dict[str, float]]:
    """
    Median, p99 and the longest.
    """
    return {
        name: {"p50_ms": values[len(values) // 2], "p99_ms": values[int(len(values) * 0.99)], "longest_ms": values[-1]}
        for name, values in delays.items()
    }


def main(argv: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.disconnect", description="From dispose() until the server sees it.")
    parser.add_argument("--streams", type=int, default=200, help="for each way to leave")
    parser.add_argument("--json", metavar="FILE", help="write the numbers here as well")
    given = parser.parse_args(argv)
    if given.json and (reason := unwritable(given.json)):
        parser.exit(2, f"{parser.prog}: {reason}\n")
    table: dict[str, Any] = summed(asyncio.run(measured(given.streams)))
    print(f"{machine()}; {given.streams} streams each")
    print(f"{'':28}{'p50 ms':>9}{'p99 ms':>9}{'longest':>9}")
    for name, row in table.items():
        print(f"{name:28}" + "".join(f"{value:>9.2f}" for value in row.values()))
    if given.json:
        with open(given.json, "w", encoding="utf-8") as file:
            json.dump({"machine": machine(), "streams": given.streams, "leavers": table}, file, indent=2)


if __name__ == "__main__":
    main()
