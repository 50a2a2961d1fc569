"""
The time budgets of one call (contract D2, D3, P15).

    subscription ─ total ──────────────────────────────────────────────────────────────────────────────────────────────── end
    request ─ connect ─ connection                                     (again for each attempt)
    request ─ first event ───────────────────────────── first content  (again for each attempt)
                        headers ─ read ─ bytes ─ read ─ bytes ... end  (again for each attempt)

While a consumer holds the valve the read and the first-event clock stand still, and the stall clock runs. A timer is not set anew for every read: when it
fires, it looks at when something was last heard, and waits for the rest.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Callable
from functools import partial
from typing import TypeAlias

from reactivex import abc
from reactivex.disposable import Disposable

from rxchat.client.clock import Clock
from rxchat.client.settings import HttpSettings
from rxchat.client.timings import Stopwatch
from rxchat.demand import Valve
from rxchat.errors import ConnectTimeout, FirstEventTimeout, LimitExceeded, ReadTimeout, RxchatError, TotalTimeout

__all__ = ["Budgets", "Deadline"]

log = logging.getLogger("rxchat")

# What schedulers can tell apart; less than that is over.
TICK = 1e-6
# In place of a timer that was never set.
NO_TIMER = Disposable()

OutOfTime: TypeAlias = type[ConnectTimeout | FirstEventTimeout | ReadTimeout | TotalTimeout]


class Deadline:
    """
    Calls `due` when `seconds` have passed since the last `start` or `touch`, not counting what passed between `hold` and `release`. None: never.
    """

    __slots__ = ("_clock", "_due", "_held_at", "_running", "_seconds", "_since", "_timer", "_waiting")

    def __init__(self, clock: Clock, seconds: float | None, due: Callable[[], None]) -> None:
        self._clock = clock
        self._seconds = seconds
        self._due = due
        self._since = 0.0
        self._held_at: float | None = None
        self._running = False
        self._waiting = False
        self._timer: abc.DisposableBase = NO_TIMER

    def start(self) -> None:
        """
        Count from now on.
        """
        if self._seconds is not None:
            self._since = self._clock.now()
            self._running = True
            self._wait(self._seconds)

    def touch(self, now: float) -> None:
        """
        Count from `now` on; cheap.
        """
        self._since = now

    def stop(self) -> None:
        """
        Count no more.
        """
        if self._running:
            self._running = self._waiting = False
            self._timer.dispose()

    def end(self) -> None:
        """
        Count no more, ever; forget whom to tell.
        """
        self.stop()
        self._due = _nobody

    def hold(self) -> None:
        """
        Stand still.
        """
        self._held_at = self._clock.now()

    def release(self) -> None:
        """
        Go on.
        """
        if self._held_at is None:
            return
        now = self._clock.now()
        self._since += max(0.0, now - max(self._held_at, self._since))
        self._held_at = None
        if self._running and not self._waiting:
            self._look()

    @property
    def left(self) -> float:
        """
        The seconds until it is due.
        """
        return math.inf if self._seconds is None else self._since + self._seconds - self._clock.now()

    def _wait(self, seconds: float) -> None:
        self._timer.dispose()
        self._waiting = True
        self._timer = self._clock.later(seconds, self._fired)

    def _fired(self) -> None:
        self._waiting = False
        if self._running and self._held_at is None:
            self._look()

    def _look(self) -> None:
        left = self.left
        if left > TICK:
            self._wait(left)
        else:
            self._running = False
            self._due()


def _run_out(fail: Callable[[RxchatError], None], error: OutOfTime, words: str, seconds: float | None) -> None:
    assert seconds is not None
    fail(error(f"{words} {seconds:g} s", seconds))


def _nobody(*_: object) -> None:
    """
    There is nobody to tell.
    """


class Budgets:
    """
    All clocks of one call. `fail` is told what ran out; `stalled` whether a consumer has held the stream for too long.
    """

    def __init__(self, settings: HttpSettings, clock: Clock, watch: Stopwatch, valve: Valve | None, fail: Callable[[RxchatError], None]) -> None:
        self._settings = settings
        self._now = clock.now
        self._watch = watch
        self._valve = valve
        self._fail = fail
        self.fresh = False
        self._headers = False
        self.stalled = False
        self._watching: abc.DisposableBase = NO_TIMER
        first = "content" if settings.first_event == "content" else "event"

        def budget(seconds: float | None, error: OutOfTime, words: str) -> Deadline:
            return Deadline(clock, seconds, partial(_run_out, fail, error, words, seconds))

        self._connect = budget(settings.connect_timeout, ConnectTimeout, "no connection within")
        self._first = budget(settings.first_event_timeout, FirstEventTimeout, f"no {first} within")
        self._read = budget(settings.read_timeout, ReadTimeout, "the provider was silent for")
        self._total = budget(settings.total_timeout, TotalTimeout, "the answer was not complete within")
        self._stall = Deadline(clock, settings.stall_timeout, self._stalled)

    @property
    def attempt(self) -> int:
        """
        The number of the attempt at hand, from 1.
        """
        return self._watch.attempts

    @property
    def left(self) -> float:
        """
        The seconds left for all of it.
        """
        return self._total.left

    def begin(self) -> None:
        """
        The subscription.
        """
        self._total.start()
        if self._valve is not None:
            self._watching = self._valve.watch(self._held, self._opened)

    def asked(self) -> None:
        """
        A request is sent.
        """
        self.fresh, self._headers = True, False
        self._watch.attempt()
        self._connect.start()
        self._first.start()

    def connected(self) -> None:
        """
        There is a connection.
        """
        self._watch.note("connected")
        self._connect.stop()

    def heard(self, item: bytes) -> None:
        """
        Something came of the body, while there is something new to know of it (`fresh`). The first item of all, empty, stands for the headers.
        """
        if not self._headers:
            self._headers = True
            self.connected()
            self._watch.note("headers")
            self._read.start()
        if item:
            self.fresh = False
            self._watch.note("first_byte")

    def touch(self) -> None:
        """
        What came has been worked on: silence begins now, however long that took. Called for every read.
        """
        self._read.touch(self._now())

    def event(self, content: bool) -> None:
        """
        An event behind ResponseStart.
        """
        if content:
            self._watch.note("first_event")
        if content or self._settings.first_event == "any":
            self._first.stop()

    def body_over(self) -> None:
        """
        The attempt is over; what counts for the call goes on.
        """
        for deadline in (self._connect, self._first, self._read):
            deadline.stop()

    def stop(self) -> None:
        """
        The call is over.
        """
        self._watch.note("ended")
        for deadline in (self._connect, self._first, self._read, self._total, self._stall):
            deadline.end()
        self._watching.dispose()
        self._watching, self._fail = NO_TIMER, _nobody

    def _held(self) -> None:
        self._watch.hold()
        self._read.hold()
        self._first.hold()
        self._stall.start()

    def _opened(self) -> None:
        self._watch.release()
        self._stall.stop()
        self._read.release()
        self._first.release()
        self.stalled = False

    def _stalled(self) -> None:
        seconds = self._settings.stall_timeout
        assert seconds is not None
        self.stalled = True
        log.warning("a consumer has held a stream for %g s; the provider may close the connection", seconds)
        if self._settings.on_stall == "error":
            self._fail(LimitExceeded("stall_timeout", seconds))
