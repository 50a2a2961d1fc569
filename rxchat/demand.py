"""
Demand: a slow consumer slows the source, over any number of operators (contract D3).

RxPY has no backpressure. While everybody works synchronously none is needed: the push returns when all have had the item, and only then the source reads
again. Whoever takes items to work on them later needs two things that live here:

    Valve              held shut by those who have too much waiting; a source that reads awaits `ready()` before each read
    ValveScheduler     carries the valve to the source, as the scheduler of the subscription, which every operator passes on

`to_async_iterable` is such a taker, and so is each slow subscriber of `share_events`. A source finds the valve by `valve_of(scheduler)`; one that does not
ask cannot be slowed. Do not use RxPY's observe_on: it buffers without bound.

One event loop, one thread: nothing here is locked. Only `to_async_iterable` also takes items from other threads: each item is handed to the loop, and the
thread that pushes waits until there is room for the next. That is its demand.
"""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import AsyncIterable, AsyncIterator, Callable
from datetime import datetime
from typing import Any, Generic, Literal, TypeAlias, TypeVar, get_args

from reactivex import Observable, abc
from reactivex.disposable import Disposable, SingleAssignmentDisposable
from reactivex.scheduler.periodicscheduler import PeriodicScheduler

from rxchat.errors import CancelledStreamError, ConfigurationError, LimitExceeded
from rxchat.limits import Limits
from rxchat.loops import in_loop, loop_scheduler

__all__ = ["Overflow", "Valve", "ValveScheduler", "to_async_iterable", "valve_of"]

T = TypeVar("T")

Overflow: TypeAlias = Literal["pause", "error", "drop_oldest"]


# --- the valve ------------------------------------------------------------------------------------------------------------------------------------


class Valve:
    """
    Open while nobody holds it. Several may hold it at once; it opens when the last one releases.
    """

    def __init__(self) -> None:
        self._holds = 0
        self._waiting: list[asyncio.Future[None]] = []
        self._watchers: list[tuple[Callable[[], None], Callable[[], None]]] = []

    @property
    def held(self) -> bool:
        """
        Whether a source has to wait.
        """
        return self._holds > 0

    def hold(self) -> None:
        """
        Shut it; each hold asks for one release.
        """
        self._holds += 1
        if self._holds == 1:
            for on_hold, _ in tuple(self._watchers):
                on_hold()

    def release(self) -> None:
        """
        Take back one hold.
        """
        if not self._holds:
            raise ValueError("the valve is not held")
        self._holds -= 1
        if not self._holds:
            waiting, self._waiting = self._waiting, []
            for future in waiting:
                if not future.done():
                    future.set_result(None)
            for _, on_open in tuple(self._watchers):
                on_open()

    async def ready(self) -> None:
        """
        Wait until it is open; no suspension if it is.
        """
        while self._holds:
            future = asyncio.get_running_loop().create_future()
            self._waiting.append(future)
            await future

    def watch(self, on_hold: Callable[[], None], on_open: Callable[[], None]) -> abc.DisposableBase:
        """
        Call back at each change, `on_hold` at once if it is held. Disposing while it is held calls `on_open`: nobody is left waiting for it.
        """
        watcher = (on_hold, on_open)
        self._watchers.append(watcher)
        if self.held:
            on_hold()

        def forget() -> None:
            self._watchers.remove(watcher)
            if self.held:
                on_open()

        return Disposable(forget)


class ValveScheduler(PeriodicScheduler):
    """
    A scheduler that carries a valve; it schedules as `inner` does.
    """

    def __init__(self, inner: abc.SchedulerBase, valve: Valve) -> None:
        super().__init__()
        self.inner = inner
        self.valve = valve

    @property
    def now(self) -> datetime:
        return self.inner.now

    def schedule(self, action: Any, state: Any = None) -> abc.DisposableBase:
        return self.inner.schedule(self._ours(action), state)

    def schedule_relative(self, duetime: Any, action: Any, state: Any = None) -> abc.DisposableBase:
        return self.inner.schedule_relative(duetime, self._ours(action), state)

    def schedule_absolute(self, duetime: Any, action: Any, state: Any = None) -> abc.DisposableBase:
        return self.inner.schedule_absolute(duetime, self._ours(action), state)

    def _ours(self, action: Any) -> Any:
        # An action that subscribes passes on the scheduler it is called with.
        return lambda _, state=None: action(self, state)


def valve_of(scheduler: abc.SchedulerBase | None) -> Valve | None:
    """
    The valve a source of its own should wait for before it reads, None if nobody downstream buffers.
    """
    return scheduler.valve if isinstance(scheduler, ValveScheduler) else None


def carrying(valve: Valve, scheduler: abc.SchedulerBase | None) -> ValveScheduler | None:
    """
    That scheduler with this valve instead of its own; None given: the running event loop's, and nothing where none runs.
    """
    if scheduler is None:
        scheduler = loop_scheduler()
    if scheduler is None:
        return None
    return ValveScheduler(scheduler.inner if isinstance(scheduler, ValveScheduler) else scheduler, valve)


# --- async for ------------------------------------------------------------------------------------------------------------------------------------


class _Buffer(Generic[T]):
    """
    What waits between one subscription and its `async for`.

    It holds its source and is held by it, but knows nothing of the iterator: so that the iterator can be dropped, and tells us.
    """

    def __init__(self, high: int, low: int, overflow: Overflow, pending: int) -> None:
        self.items: deque[T] = deque()
        self.failure: Exception | None = None
        self.over = False
        self.waiter: asyncio.Future[None] | None = None
        self._high, self._low, self._overflow, self._pending = high, low, overflow, pending
        self._loop = asyncio.get_running_loop()
        self._thread = threading.get_ident()
        self._outside: list[threading.Event] = []
        self._upstream = SingleAssignmentDisposable()
        self._valve = Valve()
        self._holding = False
        self._bursting = False
        self._late = 0

    def subscribe(self, source: Observable[T]) -> None:
        scheduler = carrying(self._valve, None)
        self._upstream.disposable = source.subscribe(self.on_next, self.on_error, self.on_completed, scheduler=scheduler)

    def dispose(self) -> None:
        self.over = True
        self.items.clear()
        self._release()
        self._upstream.dispose()
        self._wake()

    # The source's side -----------------------------------------------------------------------------------------------------------------------

    def on_next(self, item: T) -> None:
        if threading.get_ident() == self._thread:
            self._take(item)
        else:
            self._take_from_outside(item)

    def on_error(self, error: Exception) -> None:
        self._in_the_loop(lambda: self._end(error))

    def on_completed(self) -> None:
        self._in_the_loop(lambda: self._end(None))

    def _take_from_outside(self, item: T) -> None:
        """
        In a thread of the source's: hand over the item, wait until there is room for another. Nobody waits for a loop that is closed.
        """
        room = threading.Event()

        def take() -> None:
            self._take(item)
            if self._holding and not self.over:
                self._outside.append(room)
            else:
                room.set()

        if self._in_the_loop(take):
            while not room.wait(0.2) and not self._loop.is_closed():
                pass

    def _in_the_loop(self, call: Callable[[], None]) -> bool:
        """
        Call in the loop's own thread; False if there is no loop any more.
        """
        if threading.get_ident() == self._thread:
            call()
            return True
        try:
            self._loop.call_soon_threadsafe(call)
        except RuntimeError:
            return False
        return True

    def _take(self, item: T) -> None:
        if self.over:
            return
        if len(self.items) >= self._high and self._overflow != "pause":
            if self._overflow == "error":
                self._fail(self._high)
                return
            self.items.popleft()
        elif self._holding and not self._bursting:
            self._late += 1
            if self._late > self._pending:
                self._fail(self._pending)
                return
        self.items.append(item)
        if len(self.items) >= self._high and self._overflow == "pause" and not self._holding:
            self._hold()
        self._wake()

    def _end(self, error: Exception | None) -> None:
        if not self.over:
            self.failure, self.over = error, True
            # Nothing more comes, whoever takes what waits: a source that stands behind its last item may leave.
            self._release()
            self._wake()
            # It is over by itself; but who is held by its source, and holds it, waits for the garbage collector.
            self._upstream.dispose()

    def _fail(self, limit: int) -> None:
        self._upstream.dispose()
        self._end(LimitExceeded("pending", limit))

    def _hold(self) -> None:
        # One read may make more items than `high`, all in this turn of the loop; only what comes in later turns was not held back.
        self._holding = self._bursting = True
        self._late = 0
        self._valve.hold()
        self._loop.call_soon(self._burst_over)

    def _burst_over(self) -> None:
        self._bursting = False

    def _release(self) -> None:
        if self._holding:
            self._holding = False
            self._valve.release()
            self._let_in()

    def _let_in(self) -> None:
        """
        Threads that wait for room may go on.
        """
        outside, self._outside = self._outside, []
        for room in outside:
            room.set()

    def _wake(self) -> None:
        if self.waiter is not None and not self.waiter.done():
            self.waiter.set_result(None)

    # The consumer's side ---------------------------------------------------------------------------------------------------------------------

    async def get(self) -> T:
        """
        The next item; what ended the stream comes behind the last one, once.
        """
        while not self.items:
            if self.over:
                failure, self.failure = self.failure, None
                raise failure or StopAsyncIteration
            await self._arrival()
        item = self.items.popleft()
        if len(self.items) <= self._low:
            self._release()
        return item

    async def _arrival(self) -> None:
        if self.waiter is not None:
            raise RuntimeError("another task is waiting for the next item of this iterator")
        self.waiter = self._loop.create_future()
        try:
            await self.waiter
        finally:
            self.waiter = None

    def dispose_from_anywhere(self) -> None:
        """
        Dispose in the loop's own thread: the garbage collector may run in any.
        """
        in_loop(self._loop, self.dispose)


class _Iterator(AsyncIterator[T]):
    """
    One subscription as an async iterator. Whoever lets go of it, by break, exception, cancellation or `aclose`, ends the subscription.
    """

    def __init__(self, source: Observable[T], *bounds: Any) -> None:
        self._source = source
        self._bounds = bounds
        self._buffer: _Buffer[T] | None = None

    async def __anext__(self) -> T:
        if self._buffer is None:
            self._buffer = _Buffer(*self._bounds)
            self._buffer.subscribe(self._source)
        try:
            return await self._buffer.get()
        except asyncio.CancelledError:
            self._buffer.dispose()
            # Whoever asks again, behind a `wait_for` that ran out, must not take this for the stream's own end.
            self._buffer.failure = CancelledStreamError("the wait for the next item was cancelled, which ended the stream")
            raise

    async def aclose(self) -> None:
        """
        End the subscription now.
        """
        if self._buffer is not None:
            self._buffer.dispose()

    def __del__(self) -> None:
        if self._buffer is not None and not self._buffer.over:
            self._buffer.dispose_from_anywhere()


class _Iterable(AsyncIterable[T]):
    def __init__(self, source: Observable[T], *bounds: Any) -> None:
        self._source = source
        self._bounds = bounds

    def __aiter__(self) -> AsyncIterator[T]:
        return _Iterator(self._source, *self._bounds)


def to_async_iterable(
    high: int = 256, low: int = 64, overflow: Overflow = "pause", *, pending: int = Limits().pending
) -> Callable[[Observable[T]], AsyncIterable[T]]:
    """
    The last operator of a pipe: `async for item in stream.pipe(text_only(), to_async_iterable()): ...`

    Each `async for` subscribes anew, when it asks for its first item. Leaving it, in whatever way, disposes of the source; a failure is raised behind the last
    item. A wait for an item that is cancelled (`asyncio.wait_for`) is leaving too: who asks again gets CancelledStreamError. Between the two at most `high`
    items wait, plus what one read of the source makes at once: then by `overflow`

    - "pause": the source reads no more until only `low` are left. LimitExceeded("pending") if it goes on all the same and `pending` more arrive;
    - "error": LimitExceeded("pending") for the consumer, with the item that does not fit;
    - "drop_oldest": the oldest is forgotten; for metrics only, as it may be any event.
    """
    if overflow not in get_args(Overflow):
        raise ConfigurationError(f"overflow is one of {', '.join(get_args(Overflow))}, not {overflow!r}")
    if not 0 <= low < high or pending < 1:
        raise ConfigurationError(f"the water marks must be 0 <= low < high, not low={low}, high={high}; pending at least 1, not {pending}")
    return lambda source: _Iterable(source, high, low, overflow, pending)
