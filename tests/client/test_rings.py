"""
What a call leaves behind is freed by itself, and an open one is small: no ring of references waits for the garbage collector, its media with it.
"""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Awaitable, Callable, Iterator
from typing import Any

import pytest

from rxchat import Call, text_only, to_async_iterable
from rxchat.client import ChatModel, HttpSettings
from rxchat.errors import RxchatError, Verdict
from rxchat.events import TextDelta
from rxchat.stage import Chain, Emit, Stage, StreamDone
from tests.client.watching import Serve, settled
from tests.loopback import DONE, GOOD, answer, delta, frame, hold

CALLS = 20
# What aiohttp and asyncio leave of a connection that is closed, plus some; the rings of a call of ours had 290.
MOST = 30
# Ours with aiohttp's and the server's, which is in the same process here: some 330 by now.
MOST_OPEN = 350


@pytest.fixture
def uncollected() -> Iterator[Callable[[], int]]:
    """
    The garbage collector stands still; how many objects it would have had to free since.
    """
    gc.collect()
    gc.disable()
    yield gc.collect
    gc.enable()


async def asked(model: ChatModel) -> None:
    assert (await model.call("Hi")).text


async def watched(model: ChatModel) -> None:
    assert [text async for text in model.stream("Hi").pipe(text_only(), to_async_iterable())]


async def kept(model: ChatModel) -> None:
    """
    Somebody holds the call for longer than the stream lives.
    """
    call = model.open("Hi")
    ended = asyncio.Event()
    call.events.subscribe(on_error=lambda error: ended.set(), on_completed=ended.set)
    await ended.wait()
    assert call.response.text
    assert call.verdict in (Verdict.COMPLETE, Verdict.PROVIDER_ERROR)


def ending(act: Callable[[Call], None]) -> Callable[[ChatModel], Awaitable[None]]:
    """
    A call that is ended so at its first text.
    """

    async def end(model: ChatModel) -> None:
        call = model.open("Hi")
        call.events.subscribe(lambda event: act(call) if isinstance(event, TextDelta) else None)
        while call.verdict is None:
            await asyncio.sleep(0.001)
        assert (call.response.text, call.response.verdict, call.timings.ended is None) == ("Hello", call.verdict, False)
        await settled()

    return end


async def failing(model: ChatModel) -> None:
    with pytest.raises(RxchatError):
        await model.call("Hi")


FAULT = b'data: {"error": {"message": "no", "type": "server_error"}}\n\n'
ENDS: dict[str, tuple[Callable[[ChatModel], Awaitable[None]], Any]] = {
    "an answer": (asked, answer(*GOOD)),
    "a stream": (watched, answer(*GOOD)),
    "a call": (kept, answer(*GOOD)),
    "an abort": (ending(Call.abort), hold(delta("Hello"))),
    "a disposal": (ending(Call.dispose), hold(delta("Hello"))),
    "a failure in its middle": (failing, answer(delta("Hello"), FAULT)),
    "a refusal": (failing, answer(b'{"error": {"message": "no"}}', status=400, content_type="application/json")),
    "a stream without its end": (failing, answer(delta("Hello"))),
}


@pytest.mark.parametrize("way, script", ENDS.values(), ids=ENDS)
async def test_a_call_that_ended_is_no_garbage(
    way: Callable[[ChatModel], Awaitable[None]], script: Any, serve: Serve, uncollected: Callable[[], int]
) -> None:
    """
    However it ended, nearly all of it is freed when nobody holds it.
    """
    server = await serve(script)
    async with ChatModel("test-1", base_url=server.url, settings=HttpSettings(retry=None)) as model:
        for _ in range(3):
            await way(model)
        await settled()
        uncollected()
        for _ in range(CALLS):
            await way(model)
        await settled()
        found = uncollected() / CALLS
    assert found < MOST, f"{found} objects of each call"


async def test_the_steps_of_a_call_are_no_garbage(serve: Serve, uncollected: Callable[[], int]) -> None:
    """
    T4: the loop of steps and its tools, too.
    """
    call = {"index": 0, "id": "c1", "type": "function", "function": {"name": "look", "arguments": "{}"}}
    asks = frame(delta={"tool_calls": [call]}) + frame(finish_reason="tool_calls") + DONE

    async def script(request: Any) -> Any:
        return await answer(asks if len(server.seen) % 2 else b"".join(GOOD))(request)

    def look() -> str:
        return "done"

    server = await serve(script)
    async with ChatModel("test-1", base_url=server.url, settings=HttpSettings(retry=None)) as model:
        for calls in (3, CALLS):
            uncollected()
            for _ in range(calls):
                assert len((await model.call("Hi", tools=[look])).steps) == 2
            await settled()
        found = uncollected() / CALLS
    assert found < 2 * MOST, f"{found} objects of each call"


async def test_a_kept_call_keeps_what_is_known_of_it_alone(serve: Serve) -> None:
    """
    Neither its request nor its pipeline.
    """
    server = await serve(answer(*GOOD))
    call = ChatModel("test-1", base_url=server.url).open("Hi")
    ended = asyncio.Event()
    call.events.subscribe(on_completed=ended.set)
    await ended.wait()
    await settled()
    assert (call.response.text, call.verdict, call.attempts, call.stalled) == ("Hello, world.", Verdict.COMPLETE, 1, False)
    assert [name for name in ("_exchange", "_run", "_stage") if getattr(call, name) is not None] == []


async def test_an_open_stream_is_small(serve: Serve) -> None:
    """
    Objects the garbage collector has to look at, for each stream that runs.
    """
    server = await serve(hold(delta("Hello")))
    begun: list[TextDelta] = []

    def note(event: Any) -> None:
        if isinstance(event, TextDelta):
            begun.append(event)

    async def opened(model: ChatModel, number: int) -> list[Any]:
        streams = [model.stream("Hi").subscribe(note) for _ in range(number)]
        while len(begun) < number:
            await asyncio.sleep(0.005)
        begun.clear()
        return streams

    async with ChatModel("test-1", base_url=server.url) as model:
        some = await opened(model, 1)
        gc.collect()
        before = len(gc.get_objects())
        some += await opened(model, CALLS)
        gc.collect()
        each = (len(gc.get_objects()) - before) / CALLS
        for stream in some:
            stream.dispose()
        assert await settled() == []
    assert each < MOST_OPEN, f"{each} objects of each stream"


class Ending(Stage[int, int]):
    """
    Passes all items, or ends so at the third one.
    """

    def __init__(self, end: type[BaseException] | None = None) -> None:
        self._end = end

    def feed(self, item: int, emit: Emit[int]) -> None:
        if item == 3 and self._end is not None:
            raise self._end
        emit(item)


@pytest.mark.parametrize("at", [0, 1, 2])
@pytest.mark.parametrize("end", [StreamDone, LookupError])
def test_a_chain_that_ended_is_no_garbage(at: int, end: type[BaseException], uncollected: Callable[[], int]) -> None:
    """
    Once it is told that nobody calls it again: neither itself nor what it raised.
    """

    def ended() -> list[int]:
        out: list[int] = []
        chain: Chain[int, int] = Chain(*[Ending(end if k == at else None) for k in range(3)], Chain(Ending(), Ending()))
        try:
            for item in range(5):
                chain.feed(item, out.append)
        except end:
            chain.drop()
        return out

    ended()
    uncollected()
    found = [ended() for _ in range(CALLS)]
    assert (found, uncollected()) == ([[0, 1, 2]] * CALLS, 0)
