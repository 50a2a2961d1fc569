"""
What a subject of the throughput table is, and those that need nobody else: the limit, bare aiohttp, and this package in its wirings.

A subject opens what it keeps between streams (a client, a session), then reads one stream at each call and says how much text it saw. Who saw less or more than
was sent is never timed.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any, TypeAlias

import aiohttp
import attrs
from reactivex import Observable, abc
from reactivex.disposable import Disposable

from benchmarks.server import address
from benchmarks.workloads import Workload
from rxchat import ChatModel, chat_events, filter_events, frame_sse, normalize, parse
from rxchat.events import ChatEvent, MediaPartial, ResponseEnd
from rxchat.pipeline import response_stage
from rxchat.stage import run

__all__ = ["ALL", "OURS", "PROMPT", "Once", "Place", "Seen", "Subject", "deltas_of", "limit", "plainly", "pushed", "seen_by"]

PROMPT = "Say something."

# Characters by kind: "text", "thinking", "arguments", "media"; None from a subject that does not look.
Seen: TypeAlias = Mapping[str, int] | None
# Reads one stream.
Once: TypeAlias = Callable[[], Awaitable[Seen]]


@attrs.frozen
class Place:
    """
    Where a subject finds a stream: in memory, as `reads`, or at `url`, where a server in another process sends it.
    """

    load: Workload
    reads: list[bytes]
    url: str

    @classmethod
    def of(cls, load: Workload, size: int, root: str) -> Place:
        """
        A workload that was made of `size`, and the server's root.
        """
        return cls(load, load.reads, address(root, load.name, size))

    @property
    def expected(self) -> dict[str, int]:
        """
        What a subject must see.
        """
        return {kind: len(text) for kind, text in self.load.texts.items() if text}


@attrs.frozen
class Subject:
    """
    One row of the table.

    `needs` are modules that must be there. `most` bounds the size per workload ("" for all), where larger ones would take minutes.
    """

    name: str
    workloads: tuple[str, ...]
    opened: Callable[[Place], AbstractAsyncContextManager[Once]]
    needs: tuple[str, ...] = ()
    loopback: bool = False
    most: Mapping[str, int] = attrs.field(factory=dict)

    def size(self, name: str, size: int) -> int:
        """
        How large that workload is made for this subject.
        """
        return min(size, self.most.get(name, size), self.most.get("", size))


def plainly(read: Callable[[Place], Seen]) -> Callable[[Place], AbstractAsyncContextManager[Once]]:
    """
    A subject that is a plain function and keeps nothing.
    """

    @asynccontextmanager
    async def opened(place: Place) -> AsyncIterator[Once]:
        async def once() -> Seen:
            return read(place)

        yield once

    return opened


# --- the limit, and the transport alone -----------------------------------------------------------------------------------------------------------


def limit(load: Workload) -> None:
    """
    L1: split, then orjson. The least that any reader must do.
    """
    import orjson

    for frame in load.body.split(b"\n\n"):
        at = frame.find(b"data: ")
        if at >= 0 and not frame.startswith(b"[DONE]", at + 6):
            orjson.loads(frame[at + 6 :])


def _limit(place: Place) -> Seen:
    limit(place.load)
    return None


def _session() -> aiohttp.ClientSession:
    return aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=None))


@asynccontextmanager
async def _discarded(place: Place) -> AsyncIterator[Once]:
    """
    Bare aiohttp: whatever has arrived, thrown away.
    """
    async with _session() as session:

        async def once() -> Seen:
            async with session.post(place.url, json={}) as response:
                async for _ in response.content.iter_any():
                    pass
            return None

        yield once


@asynccontextmanager
async def _lines(place: Place) -> AsyncIterator[Once]:
    """
    The loop that is written by hand: lines, json.loads, the texts.
    """
    async with _session() as session:

        async def once() -> Seen:
            seen: Counter[str] = Counter()
            # A line of a megabyte is beyond aiohttp's own bound, which follows the buffer.
            async with session.post(place.url, json={}, read_bufsize=2**22 if place.load.name == "W5" else 2**16) as response:
                async for line in response.content:
                    if line.startswith(b"data: ") and line != b"data: [DONE]\n":
                        for kind, text in deltas_of(json.loads(line[6:])):
                            seen[kind] += len(text)
            return seen

        yield once


_ANTHROPIC = {"text_delta": ("text", "text"), "thinking_delta": ("thinking", "thinking"), "input_json_delta": ("arguments", "partial_json")}
_RESPONSES = {
    "response.output_text.delta": ("text", "delta"),
    "response.image_generation_call.partial_image": ("media", "partial_image_b64"),
}


def deltas_of(event: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """
    Kind and text of what one event of the wire carries.
    """
    if "choices" in event:
        delta = event["choices"][0]["delta"]
        if delta.get("content"):
            yield "text", delta["content"]
        for call in delta.get("tool_calls", ()):
            yield "arguments", call["function"]["arguments"]
    elif event["type"] == "content_block_delta":
        kind, key = _ANTHROPIC[event["delta"]["type"]]
        yield kind, event["delta"][key]
    elif event["type"] in _RESPONSES:
        kind, key = _RESPONSES[event["type"]]
        yield kind, event[key]


# --- ours -----------------------------------------------------------------------------------------------------------------------------------------


def pushed(reads: Iterable[bytes]) -> Observable[bytes]:
    """
    A source that pushes from its subscribe, without a scheduler.
    """

    def subscribe(observer: abc.ObserverBase[bytes], scheduler: abc.SchedulerBase | None = None) -> abc.DisposableBase:
        for read in reads:
            observer.on_next(read)
        observer.on_completed()
        return Disposable()

    return Observable(subscribe)


class Watcher:
    """
    A subscriber that takes the aggregated answer, and the pictures on the way, which no answer holds.
    """

    def __init__(self) -> None:
        self.end: ResponseEnd | None = None
        self.media = 0
        self.failures: list[Exception] = []

    def __call__(self, event: ChatEvent) -> None:
        kind = type(event)
        if kind is ResponseEnd:
            assert isinstance(event, ResponseEnd)
            self.end = event
        elif kind is MediaPartial:
            assert isinstance(event, MediaPartial)
            self.media += len(event.data or "")

    def seen(self) -> dict[str, int]:
        """
        How much there was; a failure is raised.
        """
        if self.failures:
            raise self.failures[0]
        assert self.end is not None
        response = self.end.response
        arguments = sum(len(call.arguments_text) for call in response.tool_calls)
        return {"text": len(response.text), "thinking": len(response.thinking), "arguments": arguments, "media": self.media}


def seen_by(events: Observable[ChatEvent]) -> Seen:
    """
    Subscribe to a source that pushes at once, and say what came.
    """
    watcher = Watcher()
    events.subscribe(watcher, watcher.failures.append)
    return watcher.seen()


def composed(place: Place) -> Seen:
    """
    The standard composition as one operator.
    """
    return seen_by(pushed(place.reads).pipe(chat_events(place.load.dialect)))


def separate(place: Place) -> Seen:
    """
    Every stage an operator of its own.
    """
    return seen_by(pushed(place.reads).pipe(frame_sse(), parse(place.load.dialect), normalize(), filter_events()))


def bare(place: Place) -> Seen:
    """
    The stages without Rx.
    """
    watcher = Watcher()
    for event in run(response_stage(place.load.dialect), place.reads):
        watcher(event)
    return watcher.seen()


@asynccontextmanager
async def _model(place: Place) -> AsyncIterator[Once]:
    """
    ChatModel over HTTP, connections kept.
    """
    import asyncio

    provider = "anthropic" if place.load.dialect == "anthropic" else "openai"
    async with ChatModel(f"{provider}/model-1", base_url=place.url, api_key="none", dialect=place.load.dialect) as model:

        async def once() -> Seen:
            watcher = Watcher()
            ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            model.stream(PROMPT).subscribe(watcher, ended.set_exception, lambda: ended.set_result(None))
            await ended
            return watcher.seen()

        yield once


@asynccontextmanager
async def _separate_loopback(place: Place) -> AsyncIterator[Once]:
    """
    The caller's own aiohttp session, and every stage an operator.
    """
    from reactivex.subject import Subject as Hot

    async with _session() as session:

        async def once() -> Seen:
            bytes_in: Hot[bytes] = Hot()
            watcher = Watcher()
            events = bytes_in.pipe(frame_sse(), parse(place.load.dialect), normalize(), filter_events())
            events.subscribe(watcher, watcher.failures.append)
            async with session.post(place.url, json={}, read_bufsize=2**16) as response:
                async for read in response.content.iter_any():
                    bytes_in.on_next(read)
            bytes_in.on_completed()
            return watcher.seen()

        yield once


ALL = ("W1", "W2", "W3", "W4", "W5", "W6")
OURS: tuple[Subject, ...] = (
    Subject("L1", ALL, plainly(_limit), needs=("orjson",)),
    Subject("rxchat composed", ALL, plainly(composed)),
    Subject("rxchat separate", ALL, plainly(separate)),
    Subject("rxchat without Rx", ALL, plainly(bare)),
    Subject("rxchat ChatModel (loopback)", ALL, _model, loopback=True),
    Subject("rxchat separate (loopback)", ALL, _separate_loopback, loopback=True),
    Subject("aiohttp iter_any, discard (loopback)", ALL, _discarded, loopback=True),
    Subject("aiohttp lines + json (loopback)", ALL, _lines, loopback=True),
)
