"""
The time of one subscription: that of its Rx scheduler, so that virtual time tests every budget and every wait (contract D2).

A scheduler that would block the event loop (RxPY's immediate and trampoline ones) is answered with the loop's own clock; one that fires in other threads is
brought back to the loop.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from reactivex import abc
from reactivex.disposable import Disposable
from reactivex.scheduler import CatchScheduler, ImmediateScheduler, TrampolineScheduler, VirtualTimeScheduler
from reactivex.scheduler.eventloop import AsyncIOScheduler, AsyncIOThreadSafeScheduler

from rxchat.demand import ValveScheduler
from rxchat.loops import in_loop

__all__ = ["Clock", "clock_of"]

BLOCKING = (ImmediateScheduler, TrampolineScheduler)


class Timer(abc.DisposableBase):
    """
    A timer of the loop. RxPY's Disposable would be three objects more, and a call has some timers.
    """

    __slots__ = ("_handle",)

    def __init__(self, handle: asyncio.TimerHandle) -> None:
        self._handle = handle

    def dispose(self) -> None:
        self._handle.cancel()


class Clock:
    """
    The loop's monotonic time. `now` is in seconds from no known moment; what `later` calls, it calls in the loop's thread.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self.now: Callable[[], float] = loop.time

    def later(self, seconds: float, action: Callable[[], None]) -> abc.DisposableBase:
        """
        Call once, no sooner than that; also for 0 seconds never at once.
        """
        return Timer(self._loop.call_later(seconds, action))

    def soon(self, action: Callable[[], None]) -> None:
        """
        Call in one of the loop's next turns, whatever the time is.
        """
        self._loop.call_soon(action)


class SchedulerClock(Clock):
    """
    The time of another scheduler.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, scheduler: abc.SchedulerBase) -> None:
        super().__init__(loop)
        self._scheduler: Any = scheduler
        self.now = self._virtual if isinstance(scheduler, VirtualTimeScheduler) else self._wall

    def later(self, seconds: float, action: Callable[[], None]) -> abc.DisposableBase:
        gone = False

        def unless_gone() -> None:
            if not gone:
                action()

        def due(scheduler: abc.SchedulerBase, state: Any = None) -> None:
            in_loop(self._loop, unless_gone)

        scheduled = self._scheduler.schedule_relative(float(seconds), due)

        def forget() -> None:
            nonlocal gone
            gone = True
            scheduled.dispose()

        return Disposable(forget)

    def _virtual(self) -> float:
        return float(self._scheduler.to_seconds(self._scheduler.clock))

    def _wall(self) -> float:
        return float(self._scheduler.to_seconds(self._scheduler.now))


def clock_of(scheduler: abc.SchedulerBase | None) -> Clock:
    """
    The clock a subscription with this scheduler lives by; called where a loop runs.
    """
    loop = asyncio.get_running_loop()
    inner: Any = scheduler
    while isinstance(inner, ValveScheduler | CatchScheduler):
        inner = inner.inner if isinstance(inner, ValveScheduler) else inner._scheduler
    if inner is None or isinstance(inner, BLOCKING):
        return Clock(loop)
    if type(inner) in (AsyncIOScheduler, AsyncIOThreadSafeScheduler) and inner._loop is loop:
        return Clock(loop)
    return SchedulerClock(loop, inner)
