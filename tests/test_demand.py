"""
Demand: the valve, how it reaches a source, and `async for` over a stream (contract D3, D4).
"""

from __future__ import annotations

import asyncio
import gc
import threading
from collections.abc import AsyncIterable, AsyncIterator, Callable
from contextlib import aclosing
from typing import Any

import pytest
import reactivex as rx
from reactivex import Observable, abc
from reactivex import operators as ops
from reactivex.disposable import Disposable
from reactivex.scheduler import CurrentThreadScheduler
from reactivex.scheduler.eventloop import AsyncIOScheduler
from reactivex.subject import Subject
from reactivex.testing import TestScheduler

from rxchat.demand import Valve, ValveScheduler, carrying, to_async_iterable, valve_of
from rxchat.errors import CancelledStreamError, ConfigurationError, LimitExceeded
from rxchat.operators import lift
from tests.scripted import Act, Fault, Script, Scripted


async def turns(n: int = 3) -> None:
    """
    Let the loop go round.
    """
    for _ in range(n):
        await asyncio.sleep(0)


class Pump:
    """
    A source that reads `size` items at a time, as a socket gives them, and waits for the valve before each read.
    """

    def __init__(self, total: int = 10_000, size: int = 1) -> None:
        self.total, self.size = total, size
        self.read = 0
        self.disposed = 0
        self.tasks: list[asyncio.Task[None]] = []
        self.stream: Observable[int] = rx.create(self._subscribe)

    def _subscribe(self, observer: abc.ObserverBase[int], scheduler: abc.SchedulerBase | None = None) -> abc.DisposableBase:
        valve = valve_of(scheduler) or Valve()
        task = asyncio.get_running_loop().create_task(self._run(observer, valve))
        self.tasks.append(task)

        def dispose() -> None:
            self.disposed += 1
            task.cancel()

        return Disposable(dispose)

    async def _run(self, observer: abc.ObserverBase[int], valve: Valve) -> None:
        while self.read < self.total:
            await valve.ready()
            await asyncio.sleep(0)
            for _ in range(self.size):
                observer.on_next(self.read)
                self.read += 1
        observer.on_completed()

    async def over(self) -> bool:
        """
        Whether no task of it is left.
        """
        await turns()
        return all(task.done() for task in self.tasks)


# --- the valve ------------------------------------------------------------------------------------------------------------------------------------


async def test_ready_waits_for_the_last_release() -> None:
    """
    Several hold it; it opens when none does.
    """
    valve = Valve()
    await asyncio.wait_for(valve.ready(), 1)
    valve.hold()
    valve.hold()
    waiting = [asyncio.ensure_future(valve.ready()) for _ in range(2)]
    cancelled = asyncio.ensure_future(valve.ready())
    await turns()
    cancelled.cancel()
    valve.release()
    await turns()
    assert [task.done() for task in waiting] == [False, False]
    assert valve.held
    valve.release()
    await turns()
    assert [task.done() for task in waiting] == [True, True]
    assert cancelled.cancelled()
    assert not valve.held


async def test_held_again_before_the_waiter_ran() -> None:
    """
    Who waits looks again.
    """
    valve = Valve()
    valve.hold()
    waiting = asyncio.ensure_future(valve.ready())
    await turns()
    valve.release()
    valve.hold()
    await turns()
    assert not waiting.done()
    valve.release()
    await asyncio.wait_for(waiting, 1)


def test_release_without_hold() -> None:
    """
    A mistake in counting is told where it is made.
    """
    with pytest.raises(ValueError, match="not held"):
        Valve().release()


def test_watchers() -> None:
    """
    Told at each change, at once if it is held, and never left waiting.
    """
    valve, said = Valve(), [""]

    def watch(name: str) -> abc.DisposableBase:
        return valve.watch(lambda: said.append(f"{name} shut"), lambda: said.append(f"{name} open"))

    first = watch("a")
    valve.hold()
    valve.hold()
    second = watch("b")
    valve.release()
    assert said == ["", "a shut", "b shut"]
    first.dispose()
    assert said[3:] == ["a open"]
    valve.release()
    assert said[4:] == ["b open"]
    second.dispose()
    valve.hold()
    assert len(said) == 5


# --- the scheduler that carries it ----------------------------------------------------------------------------------------------------------------


def test_the_scheduler_schedules_as_the_one_inside() -> None:
    """
    In virtual time: at once, after a time, at a time; actions are given the scheduler that carries the valve.
    """
    inner, valve = TestScheduler(), Valve()
    scheduler = ValveScheduler(inner, valve)
    said: list[Any] = []

    def note(given: Any, state: Any = None) -> None:
        said.append((inner.clock, state, valve_of(given) is valve))

    scheduler.schedule(note, "now")
    scheduler.schedule_relative(5, note, "later")
    scheduler.schedule_absolute(9, note, "then")
    disposable = scheduler.schedule_relative(7, note, "never")
    disposable.dispose()
    assert scheduler.now == inner.now
    inner.start()
    assert said == [(0, "now", True), (5, "later", True), (9, "then", True)]


def test_valve_of() -> None:
    """
    Only a scheduler of ours has one.
    """
    assert valve_of(None) is None
    assert valve_of(CurrentThreadScheduler.singleton()) is None


def test_carrying() -> None:
    """
    A valve replaces another; without a scheduler the running loop's is taken, and none where no loop runs.
    """
    inner, first, second = TestScheduler(), Valve(), Valve()
    carried = carrying(second, carrying(first, inner))
    assert carried is not None
    assert (carried.inner, carried.valve) == (inner, second)
    assert carrying(first, None) is None

    async def inside() -> ValveScheduler | None:
        return carrying(first, None)

    of_loop = asyncio.run(inside())
    assert of_loop is not None
    assert isinstance(of_loop.inner, AsyncIOScheduler)


WAYS: list[Callable[[], Any]] = [
    lambda: ops.map(lambda item: item),
    lambda: ops.filter(lambda item: True),
    lambda: ops.scan(lambda a, b: b),
    lambda: ops.retry(2),
    lambda: ops.catch(lambda error, source: rx.empty()),
    lambda: ops.share(),
    lambda: ops.take_until(rx.never()),
    lambda: ops.merge(rx.never()),
    lambda: ops.start_with(1),
    lambda: ops.concat(rx.empty()),
    lambda: ops.timeout(60),
    lambda: ops.do_action(lambda item: None),
    lambda: ops.finally_action(lambda: None),
    lambda: ops.materialize(),
    lambda: ops.delay_subscription(0.001),
    lambda: lift(lambda: Scripted(Script("a", Act(), (Act(1),), Act(), Act()))),
]


@pytest.mark.parametrize("n", range(len(WAYS)))
async def test_the_valve_reaches_the_source(n: int) -> None:
    """
    Through RxPY's operators and ours.
    """
    given: asyncio.Future[Any] = asyncio.get_running_loop().create_future()

    def subscribe(observer: Any, scheduler: Any = None) -> abc.DisposableBase:
        given.set_result(scheduler)
        return Disposable()

    valve = Valve()
    subscription = rx.create(subscribe).pipe(WAYS[n]()).subscribe(lambda item: None, scheduler=carrying(valve, None))
    assert valve_of(await asyncio.wait_for(given, 5)) is valve
    subscription.dispose()


# --- async for ------------------------------------------------------------------------------------------------------------------------------------


async def listed(items: AsyncIterable[Any]) -> list[Any]:
    """
    All items, and what ended them.
    """
    seen: list[Any] = []
    try:
        async for item in items:
            seen.append(item)
    except Exception as error:
        seen.append(error)
    else:
        seen.append("completed")
    return seen


FAULT = Fault("off")


@pytest.mark.parametrize(
    ("stream", "expected"),
    [
        (rx.of(1, 2, 3), [1, 2, 3, "completed"]),
        (rx.empty(), ["completed"]),
        (rx.throw(FAULT), [FAULT]),
        (rx.concat(rx.of(1, 2), rx.throw(FAULT)), [1, 2, FAULT]),
    ],
)
async def test_all_items_then_the_end(stream: Observable[int], expected: list[Any]) -> None:
    """
    The same items, the same error; each `async for` is a subscription of its own.
    """
    items = stream.pipe(to_async_iterable())
    assert await listed(items) == expected
    assert await listed(items) == expected


async def test_nothing_comes_behind_the_end() -> None:
    """
    The end is told once as what it is, then as the end.
    """
    iterator = aiter(rx.throw(FAULT).pipe(to_async_iterable()))
    with pytest.raises(Fault):
        await anext(iterator)
    with pytest.raises(StopAsyncIteration):
        await anext(iterator)


async def test_it_subscribes_when_the_first_item_is_asked_for() -> None:
    """
    Neither making the iterable nor its iterator does anything.
    """
    pump = Pump()
    iterator = aiter(pump.stream.pipe(to_async_iterable()))
    await turns()
    assert pump.tasks == []
    assert await anext(iterator) == 0
    del iterator
    assert await pump.over()


async def leave_by_break(items: AsyncIterable[int]) -> None:
    async for _ in items:
        break


async def leave_by_return(items: AsyncIterable[int]) -> None:
    async for _ in items:
        return


async def leave_by_exception(items: AsyncIterable[int]) -> None:
    try:
        async for _ in items:
            raise LookupError
    except LookupError:
        pass


async def leave_by_cancel_in_the_body(items: AsyncIterable[int]) -> None:
    async def consume() -> None:
        async for _ in items:
            await asyncio.Event().wait()

    await cancelled(consume())


async def leave_by_cancel_while_waiting(items: AsyncIterable[int]) -> None:
    async def consume() -> None:
        async for _ in items:
            pass

    await cancelled(consume())


async def leave_by_timeout(items: AsyncIterable[int]) -> None:
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(listed(items), 0.005)


async def leave_by_aclose(items: AsyncIterable[int]) -> None:
    iterator: Any = aiter(items)
    async with aclosing(iterator):
        await anext(iterator)
    with pytest.raises(StopAsyncIteration):
        await anext(iterator)


async def leave_by_forgetting(items: AsyncIterable[int]) -> None:
    iterator: Any = aiter(items)
    await anext(iterator)
    ring = [iterator]
    ring.append(ring)
    del ring, iterator
    gc.collect()


async def leave_before_the_first_item(items: AsyncIterable[int]) -> None:
    iterator: Any = aiter(items)
    await iterator.aclose()
    del iterator


async def cancelled(work: Any) -> None:
    task = asyncio.ensure_future(work)
    await turns(5)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


@pytest.mark.parametrize(
    "leave",
    [
        leave_by_break,
        leave_by_return,
        leave_by_exception,
        leave_by_cancel_in_the_body,
        leave_by_cancel_while_waiting,
        leave_by_timeout,
        leave_by_aclose,
        leave_by_forgetting,
        leave_before_the_first_item,
    ],
)
async def test_every_way_to_leave_ends_the_source(leave: Callable[[AsyncIterable[int]], Any], caplog: pytest.LogCaptureFixture) -> None:
    """
    Once, at once, with no task left and nothing logged (contract D4).
    """
    pump = Pump(total=10**9)
    await leave(pump.stream.pipe(to_async_iterable()))
    assert await pump.over()
    assert pump.disposed == len(pump.tasks) <= 1
    assert caplog.text == ""


async def test_a_wait_that_was_cancelled_is_no_end() -> None:
    """
    V5: what was cut off never looks complete, also to who goes on asking behind a timeout.
    """
    iterator = aiter(rx.concat(rx.of(1), rx.never()).pipe(to_async_iterable()))
    assert await anext(iterator) == 1
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(anext(iterator), 0.01)
    with pytest.raises(CancelledStreamError):
        await anext(iterator)
    assert await listed(iterator) == ["completed"]


async def test_forgotten_in_another_thread() -> None:
    """
    The garbage collector may run anywhere: the source is disposed of in its own loop.
    """
    pump = Pump(total=10**9)
    held = [aiter(pump.stream.pipe(to_async_iterable()))]
    await anext(held[0])
    await asyncio.get_running_loop().run_in_executor(None, held.clear)
    assert await pump.over()


def test_forgotten_behind_its_loop() -> None:
    """
    Nothing to do, nothing raised.
    """
    held: list[AsyncIterator[int]] = []

    async def take_one() -> None:
        held.append(aiter(rx.concat(rx.of(1), rx.never()).pipe(to_async_iterable())))
        assert await anext(held[0]) == 1

    asyncio.run(take_one())
    held.clear()


async def test_two_tasks_may_not_wait_for_one_iterator() -> None:
    """
    As with an async generator.
    """
    iterator = aiter(rx.never().pipe(to_async_iterable()))
    first = asyncio.ensure_future(anext(iterator))
    await turns()
    with pytest.raises(RuntimeError, match="another task"):
        await anext(iterator)
    await cancelled(first)


# --- bounds ---------------------------------------------------------------------------------------------------------------------------------------


async def test_a_slow_consumer_slows_the_source() -> None:
    """
    Never more than `high` items and one read wait, whatever the consumer does (contract D3).
    """
    pump = Pump(total=3000, size=7)
    seen = 0
    most = 0
    async for item in pump.stream.pipe(ops.map(lambda n: n), to_async_iterable(high=20, low=5)):
        assert item == seen
        seen += 1
        most = max(most, pump.read - seen)
        await turns(5)
    assert seen == 3003
    assert 20 <= most < 20 + 7


async def test_the_source_goes_on_at_low_water() -> None:
    """
    Not before: one hand-over is worth some items.
    """
    pump = Pump()
    iterator = aiter(pump.stream.pipe(to_async_iterable(high=10, low=4)))
    await anext(iterator)
    await turns(50)
    assert pump.read == 11
    for _ in range(5):
        await anext(iterator)
        await turns(50)
    assert pump.read == 11
    await anext(iterator)
    await turns(50)
    # Seven taken, four left; then it reads to ten again.
    assert pump.read == 17


async def test_behind_the_end_nothing_is_held() -> None:
    """
    D4: a source behind its last item does not wait for a consumer that has not taken it yet.
    """
    valves: list[Any] = []

    def subscribe(observer: abc.ObserverBase[int], scheduler: abc.SchedulerBase | None = None) -> abc.DisposableBase:
        valves.append(valve_of(scheduler))
        rx.of(*range(5)).subscribe(observer)
        return Disposable()

    iterator = aiter(rx.create(subscribe).pipe(to_async_iterable(high=3, low=1)))
    assert await anext(iterator) == 0
    assert [valve.held for valve in valves] == [False]
    assert await listed(iterator) == [1, 2, 3, 4, "completed"]


async def test_a_burst_is_no_breach() -> None:
    """
    One read may make more items than wait otherwise: they were all there before anybody could take one.
    """
    assert await listed(rx.of(*range(20_000)).pipe(to_async_iterable())) == [*range(20_000), "completed"]


async def test_a_source_that_does_not_listen() -> None:
    """
    It may push `pending` more items, one more is LIMIT; all that came before is delivered (contract B5, E10).
    """
    for extra, end in ((0, "completed"), (1, "LimitExceeded")):
        source: Subject[int] = Subject()
        iterator = aiter(source.pipe(to_async_iterable(high=4, low=1, pending=6)))
        first = asyncio.ensure_future(anext(iterator))
        await turns()
        for n in range(1 + 4):
            source.on_next(n)
        assert await first == 0
        await turns()
        for n in range(6 + extra):
            source.on_next(5 + n)
        assert bool(source.observers) is (extra == 0)
        source.on_completed()
        rest = await listed(iterator)
        assert rest[:-1] == [*range(1, 11)]
        assert end in (rest[-1], type(rest[-1]).__name__)
    assert (rest[-1].limit, rest[-1].value) == ("pending", 6)


@pytest.mark.parametrize(
    ("sent", "expected"), [(3, [0, 1, 2]), (4, [0, 1, 2, 3]), (5, [0, 1, 2, 3, "LimitExceeded"]), (9, [0, 1, 2, 3, "LimitExceeded"])]
)
async def test_overflow_error(sent: int, expected: list[Any]) -> None:
    """
    At exactly high + 1 the consumer is told, the source is left (contract B5).
    """
    seen = await listed(rx.of(*range(sent)).pipe(to_async_iterable(high=4, low=1, overflow="error")))
    assert [type(item).__name__ if isinstance(item, LimitExceeded) else item for item in seen if item != "completed"] == expected


@pytest.mark.parametrize(("sent", "expected"), [(3, [0, 1, 2]), (4, [0, 1, 2, 3]), (9, [5, 6, 7, 8])])
async def test_overflow_drop_oldest(sent: int, expected: list[int]) -> None:
    """
    The newest `high` are kept, in order.
    """
    assert await listed(rx.of(*range(sent)).pipe(to_async_iterable(high=4, low=1, overflow="drop_oldest"))) == [*expected, "completed"]


async def test_why_observe_on_is_no_way() -> None:
    """
    RxPY's own: one item a turn, from a queue without bound that a valve knows nothing of; what README says instead holds.
    """
    loop = asyncio.get_running_loop()
    seen: list[int] = []
    source: Subject[int] = Subject()
    subscription = source.pipe(ops.observe_on(AsyncIOScheduler(loop))).subscribe(seen.append)
    for n in range(1000):
        source.on_next(n)
    counts = []
    for _ in range(3):
        counts.append(len(seen))
        await turns(1)
    assert counts == [0, 1, 2]
    subscription.dispose()
    pump, valve = Pump(total=5000, size=50), Valve()
    slow = pump.stream.pipe(ops.observe_on(AsyncIOScheduler(loop))).subscribe(seen.append, scheduler=carrying(valve, None))
    await turns(60)
    assert pump.read - (len(seen) - 3) > 1000
    slow.dispose()
    await turns(5)


# --- other threads ----------------------------------------------------------------------------------------------------------------------------------


class Outside:
    """
    A source that pushes from a thread of its own, as fast as it can.
    """

    def __init__(self, total: int, fault: Exception | None = None) -> None:
        self.total, self.fault = total, fault
        self.pushed = 0
        self.left = False
        self.thread = threading.Thread(target=self._run)
        self.stream: Observable[int] = rx.create(self._subscribe)

    def _subscribe(self, observer: abc.ObserverBase[int], scheduler: abc.SchedulerBase | None = None) -> abc.DisposableBase:
        self._observer = observer
        self.thread.start()
        return Disposable(self._leave)

    def _leave(self) -> None:
        self.left = True

    def _run(self) -> None:
        while self.pushed < self.total and not self.left:
            self.pushed += 1
            self._observer.on_next(self.pushed)
        if self.fault is None:
            self._observer.on_completed()
        else:
            self._observer.on_error(self.fault)

    async def over(self) -> None:
        """
        Its thread has ended.
        """
        await asyncio.wait_for(asyncio.to_thread(self.thread.join), 10)


@pytest.mark.parametrize("overflow", ["pause", "error", "drop_oldest"])
@pytest.mark.parametrize(("total", "fault"), [(0, None), (3, None), (3, FAULT), (50, FAULT)])
async def test_a_source_in_another_thread(total: int, fault: Fault | None, overflow: Any) -> None:
    """
    The loop wakes for each item, in order, and for the end.
    """
    source = Outside(total, fault)
    seen = await asyncio.wait_for(listed(source.stream.pipe(to_async_iterable(high=100, overflow=overflow))), 10)
    assert seen == [*range(1, total + 1), fault or "completed"]
    await source.over()


async def test_a_thread_waits_for_room() -> None:
    """
    Never more than `high` items and the one it holds in its hand, however long the consumer takes (contract D3).
    """
    source, most, count = Outside(2000), 0, 0
    async for item in source.stream.pipe(to_async_iterable(high=20, low=5)):
        count += 1
        assert item == count
        most = max(most, source.pushed - count)
        if count % 50 == 0:
            await asyncio.sleep(0.002)
    assert count == 2000
    assert most <= 21
    await source.over()


@pytest.mark.parametrize("overflow", ["pause", "error", "drop_oldest"])
async def test_a_thread_that_waits_is_let_go(overflow: Any) -> None:
    """
    When the consumer leaves, or is told that it is too slow.
    """
    source = Outside(10**9)
    async for _ in source.stream.pipe(ops.map(lambda n: n), to_async_iterable(high=4, low=1, overflow=overflow)):
        break
    await source.over()
    assert source.pushed < 10**6


def test_a_thread_does_not_wait_for_a_loop_that_is_closed() -> None:
    """
    Whether it was waiting already, or comes later.
    """
    source = Outside(10**9)
    held: list[AsyncIterator[int]] = []

    async def take_one() -> None:
        held.append(aiter(source.stream.pipe(to_async_iterable(high=4, low=1))))
        assert await anext(held[0]) == 1
        await turns(50)

    asyncio.run(take_one())
    source.left = True
    source.thread.join(10)
    assert not source.thread.is_alive()
    held.clear()


@pytest.mark.parametrize(
    "wrong",
    [{"overflow": "block"}, {"high": 4, "low": 4}, {"high": 4, "low": 5}, {"low": -1}, {"pending": 0}],
)
def test_what_cannot_be(wrong: dict[str, Any]) -> None:
    """
    Said at once.
    """
    with pytest.raises(ConfigurationError):
        to_async_iterable(**wrong)
