"""
Short answers: what a stream of 34 events costs with everything warm, and how long the first text takes over loopback.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from functools import partial
from importlib import import_module
from statistics import median
from typing import Any, TypeAlias

import aiohttp

from benchmarks.measuring import absent, cpu_async
from benchmarks.peers.of_openai import asynchronous, create
from benchmarks.server import sending
from benchmarks.subjects import OURS, PROMPT, Once, Place, Subject
from benchmarks.workloads import WORKLOADS
from rxchat import ChatModel, TextDelta

__all__ = ["FIRST", "SUBJECTS", "measured", "printed"]

# Beginning, words, end, [DONE]: 34 events.
WORDS = 31
STREAMS = 100

# Seconds from the request to the first text.
First: TypeAlias = Callable[[], Awaitable[float]]


# --- 34 events ------------------------------------------------------------------------------------------------------------------------------------


@asynccontextmanager
async def _openai_loopback(place: Place) -> AsyncIterator[Once]:
    async with import_module("openai").AsyncOpenAI(base_url=place.url, api_key="none", max_retries=0) as client:
        yield lambda: create(client)


_OWN = {subject.name: subject for subject in OURS}
SUBJECTS: tuple[Subject, ...] = (
    _OWN["rxchat composed"],
    _OWN["rxchat separate"],
    _OWN["rxchat ChatModel (loopback)"],
    _OWN["aiohttp lines + json (loopback)"],
    Subject("openai create", ("W1",), asynchronous(create), ("openai",)),
    Subject("openai create (loopback)", ("W1",), _openai_loopback, ("openai",), loopback=True),
)


async def _streams(once: Once, count: int) -> None:
    for _ in range(count):
        await once()


async def _costs(place: Place, repetitions: int, streams: int) -> dict[str, float]:
    """
    Milliseconds of CPU a stream, all subjects in turn.
    """
    spent: dict[str, list[float]] = {}
    async with AsyncExitStack() as stack:
        there = [subject for subject in SUBJECTS if not absent(subject.needs)]
        onces = {subject.name: await stack.enter_async_context(subject.opened(place)) for subject in there}
        for once in onces.values():
            await _streams(once, 10)
        for _ in range(repetitions):
            for name, once in onces.items():
                spent.setdefault(name, []).append(await cpu_async(partial(_streams, once, streams)))
    return {name: median(seconds) / streams * 1e3 for name, seconds in spent.items()}


# --- the first text -------------------------------------------------------------------------------------------------------------------------------


@asynccontextmanager
async def _first_of_model(url: str) -> AsyncIterator[First]:
    async with ChatModel("openai/model-1", base_url=url, api_key="none", dialect="openai-chat") as model:

        async def first() -> float:
            begin = time.perf_counter()
            came: list[float] = []
            ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()

            def on_next(event: object) -> None:
                if not came and type(event) is TextDelta:
                    came.append(time.perf_counter() - begin)

            model.stream(PROMPT).subscribe(on_next, ended.set_exception, lambda: ended.set_result(None))
            await ended
            return came[0]

        yield first


@asynccontextmanager
async def _first_of_lines(url: str) -> AsyncIterator[First]:
    async with aiohttp.ClientSession() as session:

        async def first() -> float:
            begin, came = time.perf_counter(), 0.0
            async with session.post(url, json={}) as response:
                async for line in response.content:
                    if not came and line.startswith(b"data: ") and json.loads(line[6:])["choices"][0]["delta"].get("content"):
                        came = time.perf_counter() - begin
            return came

        yield first


@asynccontextmanager
async def _first_of_openai(url: str) -> AsyncIterator[First]:
    async with import_module("openai").AsyncOpenAI(base_url=url, api_key="none", max_retries=0) as client:

        async def first() -> float:
            begin, came = time.perf_counter(), 0.0
            messages = [{"role": "user", "content": PROMPT}]
            async for chunk in await client.chat.completions.create(model="model-1", messages=messages, stream=True):
                if not came and chunk.choices[0].delta.content:
                    came = time.perf_counter() - begin
            return came

        yield first


FIRST: Mapping[str, tuple[Callable[[str], AbstractAsyncContextManager[First]], tuple[str, ...]]] = {
    "rxchat ChatModel": (_first_of_model, ()),
    "aiohttp lines + json": (_first_of_lines, ()),
    "openai create": (_first_of_openai, ("openai",)),
}


async def _firsts(url: str, streams: int) -> dict[str, float]:
    """
    Milliseconds of waiting, the median of so many streams each, in turn.
    """
    waits: dict[str, list[float]] = {}
    async with AsyncExitStack() as stack:
        there = {name: opened for name, (opened, needs) in FIRST.items() if not absent(needs)}
        firsts = {name: await stack.enter_async_context(opened(url)) for name, opened in there.items()}
        for number in range(streams + 5):
            for name, first in firsts.items():
                wait = await first()
                if number >= 5:
                    waits.setdefault(name, []).append(wait)
    return {name: median(seconds) * 1e3 for name, seconds in waits.items()}


# --- both -----------------------------------------------------------------------------------------------------------------------------------------


async def _both(repetitions: int, streams: int) -> dict[str, Any]:
    async with sending() as root:
        place = Place.of(WORKLOADS["W1"](WORDS), WORDS, root)
        return {"events": place.load.events, "cpu_ms": await _costs(place, repetitions, streams), "first_ms": await _firsts(place.url, streams)}


def measured(scale: float, repetitions: int) -> dict[str, Any]:
    """
    CPU a stream and the wait for the first text.
    """
    return asyncio.run(_both(repetitions, max(5, int(STREAMS * min(1.0, scale * 4)))))


def printed(table: Mapping[str, Any]) -> str:
    """
    The tables as text.
    """
    costs = ", ".join(f"{name} {ms:.2f}" for name, ms in table["cpu_ms"].items())
    waits = ", ".join(f"{name} {ms:.2f}" for name, ms in table["first_ms"].items())
    return f"ms of CPU a stream of {table['events']} events, warm: {costs}\nms until the first text, loopback: {waits}"
