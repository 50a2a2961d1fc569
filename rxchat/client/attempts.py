"""
One call, body after body into one response: its driver, and the plan that says what comes after a body.

    Run         one subscription: feeds a body to the stage, keeps the budgets, and opens the next body where the plan has one
    Plan        is asked when a body is over before its response is; `Retrying` sends again what failed before anything was shown (contract D5)
    Sequel      its answer: something to wait for, then another body

The response never hears of a body that has a sequel: it is still the same one, with one ResponseStart and one terminal.
"""

from __future__ import annotations

import logging
import math
import random
from collections.abc import Callable
from functools import partial
from typing import Any, Protocol, TypeAlias

import attrs
from reactivex import Observable, abc
from reactivex.disposable import Disposable, SingleAssignmentDisposable

from rxchat.client.budgets import Budgets
from rxchat.client.clock import Clock
from rxchat.client.settings import Retry
from rxchat.errors import ConnectTimeout, FirstEventTimeout, ReadTimeout, RxchatError, TotalTimeout
from rxchat.events import ChatEvent, Group, Phase, StepStart
from rxchat.operators import Lifted
from rxchat.pipeline import NextBody
from rxchat.stage import Stage

__all__ = ["Ended", "OpenBody", "Plan", "Retrying", "Run", "Sequel", "wait_before"]

log = logging.getLogger("rxchat")

# Makes the request whose answer is the body; it is told what to call when there is a connection.
OpenBody: TypeAlias = Callable[[Callable[[], None]], Observable[bytes]]


@attrs.frozen
class Ended:
    """
    A body that is over: why, which attempt at its step it was (from 1), whether it had begun a step of the response, and the seconds left for all of it.
    """

    error: RxchatError
    attempt: int
    begun: bool
    left: float = math.inf


@attrs.frozen
class Sequel:
    """
    What follows a body. `wait` begins something that calls back when it is done, at the earliest in the next turn of the loop, and may be disposed of
    meanwhile; then comes `body`, or the same request again.
    """

    wait: Callable[[Clock, Callable[[], None]], abc.DisposableBase]
    body: OpenBody | None = None


class Plan(Protocol):
    """
    What comes after a body.
    """

    def after(self, ended: Ended) -> Sequel | None:
        """
        None: the response ends with it.
        """
        ...


# --- retry ----------------------------------------------------------------------------------------------------------------------------------------


@attrs.frozen
class Retrying:
    """
    Sends again what failed before the first event of a step, after a wait, some times (contract D5).
    """

    retry: Retry
    dice: random.Random = attrs.field(factory=random.Random)

    def after(self, ended: Ended) -> Sequel | None:
        error, attempts = ended.error, self.retry.attempts
        if ended.begun or ended.attempt >= attempts or not error.retryable or isinstance(error, TotalTimeout):
            return None
        seconds = wait_before(ended.attempt + 1, error.retry_after, self.retry, self.dice)
        if seconds is None or seconds >= ended.left:
            # A failure that is known says more than a budget that runs out in the wait.
            return None
        # Its class and status alone: what a provider says may hold anything.
        why = f"{error.verdict} {error.status or ''}".rstrip()
        log.info("attempt %d of %d failed (%s); the next follows in %.3g s", ended.attempt, attempts, why, seconds)
        return Sequel(lambda clock, go: clock.later(seconds, go))


def wait_before(attempt: int, asked: float | None, retry: Retry, dice: random.Random) -> float | None:
    """
    How many seconds to wait before that attempt (2 is the first that waits), where the server asked for `asked`; None: it asks for too long.
    """
    if asked is not None and asked > retry.longest_retry_after:
        return None
    try:
        grown = retry.first_wait * retry.factor ** (attempt - 2)
    except OverflowError:
        grown = retry.longest_wait
    own = min(grown, retry.longest_wait) * (1 - retry.jitter * dice.random())
    return max(own, asked or 0.0)


# --- the driver -----------------------------------------------------------------------------------------------------------------------------------

# Of these only the attempt runs out.
OF_ONE_ATTEMPT = (ConnectTimeout, FirstEventTimeout, ReadTimeout)
CONTENT = frozenset({Group.TEXT, Group.THINKING, Group.TOOL_CALL, Group.SERVER_TOOL, Group.MEDIA, Group.SAFETY})
BLOCKS = frozenset({Group.TEXT, Group.THINKING})
# In place of the stage of a run that is over.
NOTHING: Stage[Any, ChatEvent] = Stage()


class Run(Lifted):
    """
    One subscription to a call: bodies in, events out, by one stage.

    When the stage raises NextBody, `sequel` is what follows. Here `follows` sets it for a body that failed; the loop of steps (steps.py) sets it for one that
    ended well, from a gate between body and tail, which then leaves the body (`Envelope.next_body`); what is said during the wait goes by `call`. Set before
    `begin`, it is what comes before the first request.
    """

    def __init__(
        self,
        stage: Stage[Any, ChatEvent],
        observer: abc.ObserverBase[ChatEvent],
        open_body: OpenBody | None,
        plan: Plan | None,
        clock: Clock,
        scheduler: abc.SchedulerBase | None,
    ) -> None:
        super().__init__(stage, observer)
        self._open_body = open_body
        self._plan = plan
        self._clock = clock
        self._scheduler = scheduler
        self.sequel: Sequel | None = None
        # Whether the first content of the body at hand is still to come.
        self.watching = True
        self._between = False
        self.busy = False
        self._final = False
        self._begun = False
        # Attempts at the steps before the one at hand.
        self._former = 0
        self.budgets: Budgets

    @property
    def ended(self) -> bool:
        """
        Whether nothing more is said, or the subscriber has left.
        """
        return self._over

    def begin(self) -> None:
        """
        Start the response, send the first request. `budgets` must be there.
        """
        self.budgets.begin()
        self.call(self._stage.start)
        if self.sequel is None:
            self._follow()
        elif not self._over:
            self._pause(self.sequel)

    def dispose(self) -> None:
        """
        End it without a word.
        """
        self._over = True
        self._upstream.dispose()
        self.budgets.stop()
        if not self.busy:
            self._drop()

    def _drop(self) -> None:
        """
        Nothing comes any more, and nobody is at work: let go of what refers back to here.
        """
        self.budgets.stop()
        self._stage.drop()
        self._stage, self._open_body, self._plan, self.sequel = NOTHING, None, None, None

    def silence(self) -> None:
        """
        Tell the subscriber nothing more, from whatever thread; the rest is `leave`.
        """
        self._observer.is_stopped = True

    def leave(self) -> None:
        """
        The same for the subscriber, who is told nothing more; the subscription disposes of this in turn.
        """
        self._observer.dispose()
        self.dispose()

    def fail(self, error: RxchatError) -> None:
        """
        End the body at hand by a failure from outside: a budget that ran out.
        """
        if self._over:
            return
        if self.busy:
            # Virtual time that advances inside on_next.
            self._clock.soon(lambda: self.fail(error))
            return
        self._final = self._final or not isinstance(error, OF_ONE_ATTEMPT)
        self._between = False
        self._upstream.disposable = Disposable()
        self.on_error(error)

    def follows(self, error: RxchatError) -> bool:
        """
        Whether another body follows one that failed so; for `Envelope.forgive`.
        """
        if self._plan is None or self._final:
            return False
        self.sequel = self._plan.after(Ended(error, self.budgets.attempt - self._former, self._begun, self.budgets.left))
        return self.sequel is not None

    def noted(self, event: ChatEvent) -> None:
        """
        Told of each event while it is `watching`.
        """
        content = event.group in CONTENT and not (event.phase is Phase.START and event.group in BLOCKS)
        if content or isinstance(event, StepStart):
            self._begun = True
        self.budgets.event(content)
        self.watching = not content

    # The body's side -------------------------------------------------------------------------------------------------------------------------

    def on_next(self, item: bytes) -> None:
        if self._over or self._between:
            return
        budgets = self.budgets
        if budgets.fresh:
            budgets.heard(item)
        self.busy = True
        try:
            self._stage.feed(item, self._emit)
        except BaseException as end:
            self._end(end)
        finally:
            self.busy = False
            if self._over:
                self._drop()
        budgets.touch()

    def on_completed(self) -> None:
        if not self._between:
            super().on_completed()

    def on_error(self, error: Exception) -> None:
        if not self._between:
            super().on_error(error)

    def call(self, method: Callable[..., None], *args: Any) -> bool:
        self.busy = True
        try:
            return super().call(method, *args)
        finally:
            self.busy = False
            if self._over:
                self._drop()

    def _end(self, end: BaseException) -> None:
        self.budgets.body_over()
        if not isinstance(end, NextBody):
            try:
                super()._end(end)
            except BaseException:
                # The subscriber's own exit or CancelledError, which nobody is told of: it has left.
                self.leave()
                raise
            return
        assert self.sequel is not None
        self._pause(self.sequel)

    def _pause(self, sequel: Sequel) -> None:
        """
        Wait for what comes before the next request; ends the body that is over.
        """
        self._between = True
        self._upstream.disposable = sequel.wait(self._clock, self._follow)

    def _connected(self, attempt: int) -> None:
        if not self._over and not self._between and attempt == self.budgets.attempt:
            self.budgets.connected()

    def _follow(self) -> None:
        """
        Send the next request.
        """
        if self._over:
            return
        if self.sequel is not None:
            if self.sequel.body is not None:
                self._open_body, self._former = self.sequel.body, self.budgets.attempt
            self.sequel = None
        self._between = self._begun = False
        self.watching = True
        self.budgets.asked()
        self._upstream.disposable = body = SingleAssignmentDisposable()
        assert self._open_body is not None
        try:
            source = self._open_body(partial(self._connected, self.budgets.attempt))
        except Exception as error:
            self.on_error(error)
            return
        # Assigned behind the fact: a source may fail, and have a sequel, before it returns.
        body.disposable = source.subscribe(self.on_next, self.on_error, self.on_completed, scheduler=self._scheduler)
