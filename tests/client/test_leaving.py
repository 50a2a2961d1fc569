"""
Every way to leave a stream, over real HTTP: the server sees its client go, no task is left (contract D1, D4, E8).

Who holds what alive: an `async for`, an awaited stream and a hub's subscriber end with whoever lets go of them. What `subscribe` returned does not: as
everywhere in Rx, a subscriber that was given to a stream is served until the end, whether anybody keeps the disposable or not.
"""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from reactivex import Observable
from reactivex import operators as ops

from rxchat import Call, ChatEvent, TextDelta, aggregate, recover, share_events, text_only, to_async_iterable
from rxchat.client import ChatModel, HttpSettings
from rxchat.errors import Verdict
from tests.client.watching import Serve, request_tasks, settled
from tests.loopback import DONE, FINISH, GOOD, Loopback, answer, delta, hold

Leave = Callable[[Observable[ChatEvent]], Awaitable[None]]


async def first_text(iterator: Any) -> None:
    while not isinstance(await anext(iterator), TextDelta):
        pass


async def cancelled(work: Any, when: asyncio.Event) -> None:
    task = asyncio.ensure_future(work)
    await asyncio.wait_for(when.wait(), 5)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def leave_by_break(stream: Observable[ChatEvent]) -> None:
    async for _ in stream.pipe(text_only(), to_async_iterable()):
        break


async def leave_by_an_exception_of_the_consumer(stream: Observable[ChatEvent]) -> None:
    async def work() -> None:
        async for _ in stream.pipe(text_only(), to_async_iterable()):
            raise LookupError

    with pytest.raises(LookupError):
        await work()


async def leave_by_raising_in_on_next(stream: Observable[ChatEvent]) -> None:
    errors: list[Exception] = []

    def raising(text: str) -> None:
        raise LookupError(text)

    stream.pipe(text_only()).subscribe(raising, errors.append)
    while not errors:
        await asyncio.sleep(0.001)
    assert [type(error) for error in errors] == [LookupError]


async def leave_by_a_cancelled_task_that_works(stream: Observable[ChatEvent]) -> None:
    begun = asyncio.Event()

    async def work() -> None:
        async for _ in stream.pipe(text_only(), to_async_iterable()):
            begun.set()
            await asyncio.Event().wait()

    await cancelled(work(), begun)


async def leave_by_a_cancelled_task_that_waits(stream: Observable[ChatEvent]) -> None:
    begun = asyncio.Event()

    async def work() -> None:
        async for _ in stream.pipe(text_only(), to_async_iterable()):
            begun.set()

    await cancelled(work(), begun)


async def leave_by_cancelling_the_answer(stream: Observable[ChatEvent]) -> None:
    begun = asyncio.Event()

    async def work() -> Any:
        return await stream.pipe(ops.do_action(lambda event: begun.set() if isinstance(event, TextDelta) else None), aggregate())

    await cancelled(work(), begun)


async def leave_by_a_timeout_of_the_answer(stream: Observable[ChatEvent]) -> None:
    async def work() -> Any:
        return await stream.pipe(aggregate())

    with pytest.raises(TimeoutError):
        await asyncio.wait_for(work(), 0.2)


async def leave_by_a_task_group_that_fails(stream: Observable[ChatEvent]) -> None:
    begun = asyncio.Event()

    async def work() -> None:
        async for _ in stream.pipe(text_only(), to_async_iterable()):
            begun.set()

    async def fail() -> None:
        await begun.wait()
        raise LookupError

    async def both() -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(work())
            group.create_task(fail())

    with pytest.raises(ExceptionGroup):
        await both()


async def leave_by_forgetting_the_iterator(stream: Observable[ChatEvent]) -> None:
    iterator = aiter(stream.pipe(to_async_iterable()))
    await first_text(iterator)
    del iterator
    gc.collect()


async def leave_by_forgetting_a_ring(stream: Observable[ChatEvent]) -> None:
    iterator = aiter(stream.pipe(to_async_iterable()))
    await first_text(iterator)
    ring: list[Any] = [iterator]
    ring.append(ring)
    del iterator, ring
    gc.collect()


async def leave_by_forgetting_in_another_thread(stream: Observable[ChatEvent]) -> None:
    held = [aiter(stream.pipe(to_async_iterable()))]
    await first_text(held[0])
    await asyncio.to_thread(held.clear)


async def leave_by_take(stream: Observable[ChatEvent]) -> None:
    assert await stream.pipe(text_only(), ops.take(1)) == "Hello"


async def leave_a_shared_stream(stream: Observable[ChatEvent]) -> None:
    """
    The first to leave does nothing, the last one ends it.
    """
    shared = stream.pipe(share_events())
    one, two = aiter(shared.pipe(to_async_iterable())), aiter(shared.pipe(to_async_iterable()))
    await asyncio.gather(first_text(one), first_text(two))
    del one
    gc.collect()
    await asyncio.sleep(0.02)
    assert len(request_tasks()) == 1
    del two
    gc.collect()


async def leave_behind_a_recovery(stream: Observable[ChatEvent]) -> None:
    async for _ in stream.pipe(recover(), text_only(), to_async_iterable()):
        break


WAYS: list[Leave] = [
    leave_by_break,
    leave_by_an_exception_of_the_consumer,
    leave_by_raising_in_on_next,
    leave_by_a_cancelled_task_that_works,
    leave_by_a_cancelled_task_that_waits,
    leave_by_cancelling_the_answer,
    leave_by_a_timeout_of_the_answer,
    leave_by_a_task_group_that_fails,
    leave_by_forgetting_the_iterator,
    leave_by_forgetting_a_ring,
    leave_by_forgetting_in_another_thread,
    leave_by_take,
    leave_a_shared_stream,
    leave_behind_a_recovery,
]


async def gone(server: Loopback) -> None:
    """
    The server has seen its client leave, and the client has nothing left of it.
    """
    await asyncio.wait_for(server.left.wait(), 5)
    assert await settled() == []


@pytest.mark.parametrize("leave", WAYS)
async def test_every_way_to_leave_closes_the_connection(leave: Leave, serve: Serve, caplog: pytest.LogCaptureFixture) -> None:
    """
    In the middle of the answer, with one request and nothing in the log.
    """
    server = await serve(hold(delta("Hello")))
    await leave(ChatModel("test-1", base_url=server.url).stream("Hi"))
    await gone(server)
    assert len(server.seen) == 1
    assert caplog.text == ""


@pytest.mark.parametrize("end", [(), (FINISH, DONE)], ids=["by take", "by its own end"])
async def test_an_answer_that_is_over_waits_for_no_consumer(serve: Serve, end: tuple[bytes, ...]) -> None:
    """
    D4: the connection is closed though much of the answer is still to be taken, and nobody takes it.
    """
    server = await serve(hold(b"".join((*[delta("Hello")] * 40, *end))))
    stream = ChatModel("test-1", base_url=server.url).stream("Hi")
    texts = aiter(stream.pipe(text_only(), ops.take(100 if end else 20), to_async_iterable(high=5, low=1)))
    assert await anext(texts) == "Hello"
    await gone(server)
    assert len([text async for text in texts]) == (39 if end else 19)


async def test_a_subscriber_that_raises_what_is_no_exception_has_left(serve: Serve) -> None:
    """
    V4: the result of a cancelled future, asked for inside on_next. Nothing more comes, and the call says how it ended.
    """
    server = await serve(hold(delta("Hello")))
    ended = asyncio.get_running_loop().create_future()
    ended.cancel()
    call = ChatModel("test-1", base_url=server.url, settings=HttpSettings(total_timeout=60.0)).open("Hi")
    told: list[object] = []
    call.events.pipe(text_only()).subscribe(lambda text: ended.result(), told.append, lambda: told.append("completed"))
    await gone(server)
    assert (call.verdict, call.response.text, told, call.timings.ended is not None) == (Verdict.CANCELLED, "Hello", [], True)


async def test_the_call_behind_a_forgotten_iterator(serve: Serve) -> None:
    """
    Its request is ended, and the call that somebody kept says so.
    """
    server = await serve(hold(delta("Hello")))
    call = ChatModel("test-1", base_url=server.url).open("Hi")
    iterator = aiter(call.events.pipe(to_async_iterable()))
    await first_text(iterator)
    del iterator
    gc.collect()
    await gone(server)
    assert (call.verdict, call.response.text) == (Verdict.CANCELLED, "Hello")


async def test_a_forgotten_call_whose_events_are_still_taken(serve: Serve) -> None:
    """
    The stream needs nobody to hold its call, its model, or what `subscribe` returned: the subscriber gets its answer.
    """
    server = await serve(answer(*GOOD))
    texts: list[str] = []
    over = asyncio.Event()

    def begin() -> None:
        call: Call = ChatModel("test-1", base_url=server.url).open("Hi")
        call.events.pipe(text_only()).subscribe(texts.append, on_completed=over.set)

    begin()
    gc.collect()
    await asyncio.wait_for(over.wait(), 5)
    assert texts == ["Hello", ", world."]


def test_the_end_of_the_loop_is_an_end(caplog: pytest.LogCaptureFixture) -> None:
    """
    A subscription nobody disposed of ends with `asyncio.run`, without a word about tasks.
    """

    async def main() -> None:
        server = await Loopback(hold(delta("Hello"))).start()
        try:
            begun = asyncio.Event()
            ChatModel("test-1", base_url=server.url).stream("Hi").pipe(text_only()).subscribe(lambda text: begun.set())
            await asyncio.wait_for(begun.wait(), 5)
        finally:
            await server.aclose()

    asyncio.run(main())
    assert "never retrieved" not in caplog.text
    assert "destroyed" not in caplog.text
