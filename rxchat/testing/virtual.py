"""
Virtual time while a real event loop turns: waits, budgets and windows of seconds are tested in none.

    clock = VirtualClock()
    subscription = call.events.subscribe(events.append, scheduler=clock.scheduler)
    await clock.settle()         what can happen without time passing has happened: the request was sent, the answer so far was read
    await clock.advance(30)      thirty seconds later: timers fire in their order, and what each of them starts has its turn before the next

    await clock.run(work)        jumps from timer to timer until the work is done

Everything of rxchat that waits takes its clock from the scheduler of the subscription (contract D2). Sockets are real and take real time: idle means that the
loop had nothing to do for `quiet` seconds, so a server of the test's own must answer faster than that.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from datetime import datetime, timedelta
from typing import TypeVar

from reactivex.internal import PriorityQueue
from reactivex.scheduler import VirtualTimeScheduler
from reactivex.scheduler.scheduleditem import ScheduledItem

__all__ = ["VirtualClock"]

T = TypeVar("T")
# The least number of turns of a loop that has nothing to do.
TURNS = 20


class _Scheduler(VirtualTimeScheduler):
    """
    RxPY's, which can also tell when its next action is due.
    """

    _queue: PriorityQueue[ScheduledItem]

    def next_due(self) -> datetime | None:
        """
        The time of the first action that was not taken back, None if there is none.
        """
        while self._queue:
            first = self._queue.peek()
            if not first.is_cancelled():
                return first.duetime
            self._queue.dequeue()
        return None

    def run_until(self, due: datetime) -> None:
        """
        Set the clock to `due` and run what is due then, also what was scheduled for now.
        """
        self._clock = max(self.to_seconds(self._clock), self.to_seconds(due))
        while (first := self.next_due()) is not None and first <= self.now:
            self._queue.dequeue().invoke()


class VirtualClock:
    """
    A clock that stands still unless it is told to go. `scheduler` is what streams are subscribed with.

    `quiet` is for how many real seconds the event loop must have had nothing to do before time goes on. What has no place for a scheduler, as `model.call`,
    goes by real time; with `await` or `async for` it is `stream.pipe(..., ops.subscribe_on(clock.scheduler))`, ops being RxPY's.
    """

    def __init__(self, quiet: float = 0.01) -> None:
        self.scheduler = _Scheduler(0.0)
        self._quiet = quiet

    @property
    def seconds(self) -> float:
        """
        The time since this clock was made.
        """
        return self.scheduler.to_seconds(self.scheduler.clock)

    async def settle(self) -> None:
        """
        Let happen what can happen without time passing.
        """
        while True:
            self.scheduler.run_until(self.scheduler.now)
            await self._idle()
            due = self.scheduler.next_due()
            if due is None or due > self.scheduler.now:
                return

    async def advance(self, seconds: float) -> None:
        """
        Let that much time pass; the loop settles before, after, and at each timer on the way.
        """
        await self.settle()
        end = self.scheduler.now + timedelta(seconds=seconds)
        while (due := self.scheduler.next_due()) is not None and due <= end:
            self.scheduler.run_until(due)
            await self.settle()
        self.scheduler.run_until(end)
        await self.settle()

    async def run(self, work: Awaitable[T], *, longest: float = 86_400.0) -> T:
        """
        What `work` gives; whenever the loop is idle, time jumps to the next timer.

        TimeoutError, and the work is cancelled, when there is no timer left to wait for or more than `longest` seconds would have to pass.
        """
        task = asyncio.ensure_future(work)
        end = self.scheduler.now + timedelta(seconds=longest)
        try:
            while True:
                await self.settle()
                if task.done():
                    return task.result()
                due = self.scheduler.next_due()
                if due is None or due > end:
                    raise TimeoutError(f"not done at {self.seconds:g} s, and no timer is left" if due is None else f"not done within {longest:g} s")
                self.scheduler.run_until(due)
        finally:
            if not task.done():
                task.cancel()
                await asyncio.wait([task])

    async def _idle(self) -> None:
        """
        Return when nothing but this has gone on in the loop for `quiet` seconds.
        """
        loop = asyncio.get_running_loop()
        # Of asyncio's own loops: what runs behind us in this turn, sockets included. Of another kind of loop only the time is known.
        ready = getattr(loop, "_ready", ())
        idle, before = 0.0, loop.time()
        while idle < self._quiet:
            await asyncio.sleep(0)
            # A turn that took long was no idle one: the loop worked, or on a busy machine somebody else did.
            idle = 0.0 if ready else idle + min(loop.time() - before, self._quiet / TURNS)
            before = loop.time()
