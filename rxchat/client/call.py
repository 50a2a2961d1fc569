"""
`Call`: one answer, its events, and what is known of it at any moment.
"""

from __future__ import annotations

import asyncio
import random
import threading
from collections.abc import Callable, Collection
from typing import TYPE_CHECKING, Any

import attrs
from reactivex import Observable, abc
from reactivex.disposable import Disposable

from rxchat.client.attempts import OpenBody, Retrying, Run
from rxchat.client.budgets import Budgets
from rxchat.client.clock import clock_of
from rxchat.client.http_body import running_loop
from rxchat.client.secrets import hide
from rxchat.client.settings import HttpSettings
from rxchat.client.timings import Stopwatch, Timings
from rxchat.demand import valve_of
from rxchat.errors import CancelledStreamError, ConfigurationError, Verdict, verdict_of
from rxchat.events import Abort, ChatEvent, ErrorEvent, Phase, ResponseEnd, ResponseStart
from rxchat.filters import EventFilter, Predicate
from rxchat.loops import in_loop
from rxchat.pipeline import Envelope, NextBody
from rxchat.response import ChatResponse, Usage
from rxchat.stage import Emit, Stage, StreamDone

if TYPE_CHECKING:
    from rxchat.client.steps import StepLoop

__all__ = ["Call", "Exchange"]

# Several threads may want to end a call, each in its way. Taken once or twice a call.
_settling = threading.Lock()
# Chance enough for all calls; the state of one is some 2.5 kB.
DICE = random.Random()


@attrs.define(eq=False)
class Exchange:
    """
    What one call needs once it is built: its request, which may be sent several times, its pipeline, and what must never be shown.

    The head of each answer is known before its body's first item. `steps` makes several steps of it (contract T4); without a request it makes the first, too.
    """

    open_body: OpenBody | None
    envelope: Envelope
    secrets: Collection[str] = attrs.field(default=(), repr=False)
    steps: StepLoop | None = None


@attrs.frozen
class Stop:
    """
    End the response here (contract D7).
    """

    reason: str | None


class _Unwound(BaseException):
    """
    An abort was asked for in the middle of a feed: leave it.
    """


class Call:
    """
    One answer (contract D1). `events` is cold and can be subscribed to once: share it for more (contract E12).

    What failed before anything of it was shown may be sent again by itself (contract D5); it stays one response. `verdict` is None while it runs and is set
    exactly once, before the terminal event is delivered, also by disposal (CANCELLED). What is known is kept, also then.

    All of it happens in the thread of the event loop it was subscribed to in. `abort`, `dispose` and disposing of the subscription are for any thread: in
    the loop's own they are done when they return; from another the verdict of a disposal is known then, no event is begun any more (one that is being
    delivered at that moment may still be at work), and the request ends in one of the loop's next turns. An abort begins and ends there.
    """

    def __init__(
        self, prepare: Callable[[], Exchange], shown: Predicate, settings: HttpSettings | None = None, dice: random.Random | None = None
    ) -> None:
        self._prepare = prepare
        self._shown = shown.predicate if isinstance(shown, EventFilter) else shown
        self._settings = settings or HttpSettings()
        self._dice = dice or DICE
        self._verdict: Verdict | None = None
        self._response: ChatResponse | None = None
        self._exchange: Exchange | None = None
        self._run: Run | None = None
        self._watch: Stopwatch | None = None
        self._stage: _Supervised | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._used = False
        self._wanted: Stop | None = None

    @property
    def events(self) -> Observable[ChatEvent]:
        """
        What is told of it, as it comes.
        """
        return Observable(self.begin)

    @property
    def verdict(self) -> Verdict | None:
        """
        How it ended, None while it runs or was not begun.
        """
        return self._verdict

    @property
    def response(self) -> ChatResponse:
        """
        The answer, as far as it has come; marked by its verdict once that is known.
        """
        # In this order: a call that ends in its loop's thread meanwhile lets go of the one behind setting the other.
        exchange, known = self._exchange, self._response
        if known is not None:
            return known
        partial: ChatResponse = exchange.envelope.partial if exchange else ChatResponse()
        return attrs.evolve(partial, verdict=self._verdict)

    @property
    def usage(self) -> Usage | None:
        """
        The last usage the provider reported, also after disposal.
        """
        return self.response.usage

    @property
    def timings(self) -> Timings:
        """
        When what happened, as far as it has.
        """
        return self._watch.read() if self._watch else Timings()

    @property
    def attempts(self) -> int:
        """
        How many requests were sent.
        """
        return self._watch.attempts if self._watch else 0

    @property
    def stalled(self) -> bool:
        """
        Whether a consumer is holding the stream, for longer than `stall_timeout` by now (contract D3).
        """
        run = self._run
        return run is not None and run.budgets.stalled

    def abort(self, reason: str | None = None) -> None:
        """
        End the response as one that was aborted: closing ENDs, Abort with the partial answer, on_completed; the request is ended (contract D7).

        Nothing if it has ended already. From inside on_next it takes effect behind the event at hand, or the next one that closes nothing.
        """
        if self._verdict is None and self._wanted is None:
            # In this order: whoever subscribes meanwhile says so first, and then looks for what is wanted.
            self._wanted = Stop(reason)
            if self._loop is not None:
                in_loop(self._loop, self._obey)

    def _obey(self) -> None:
        if self._verdict is None and self._run is not None and self._stage is not None and not self._run.busy:
            self._run.call(self._stage.abort)

    def dispose(self) -> None:
        """
        End the request without a word: not one more event (contract E8).
        """
        self._settle(Verdict.CANCELLED)
        if (run := self._run) is not None:
            run.silence()
        if self._loop is not None:
            in_loop(self._loop, self._leave)

    def _leave(self) -> None:
        if self._run is not None:
            self._run.leave()

    def _settle(self, verdict: Verdict | None, response: ChatResponse | None = None) -> None:
        """
        The first one says how it ended.
        """
        with _settling:
            if self._verdict is None:
                self._verdict, self._response = verdict, response

    def begin(self, observer: abc.ObserverBase[ChatEvent], scheduler: abc.SchedulerBase | None = None) -> abc.DisposableBase:
        """
        The subscription, for an Observable of one's own; everybody else subscribes to `events`.

        Failures before there is a response are bare errors: no event, nothing was sent (contract E7, D8).
        """
        if self._used:
            raise ConfigurationError("a call is one request and its events are subscribed to once: use share_events, or open another call")
        self._refuse_if_left()
        self._used = True
        self._loop = running_loop()
        # Once more: who disposes of it in another thread from now on finds the loop.
        self._refuse_if_left()
        self._exchange = exchange = self._prepare()
        clock = clock_of(scheduler)
        self._watch = watch = Stopwatch(clock.now)
        self._stage = stage = _Supervised(self, exchange)
        plan = Retrying(self._settings.retry, self._dice) if self._settings.retry else None
        self._run = run = Run(stage, observer, exchange.open_body, plan, clock, scheduler)
        run.budgets = Budgets(self._settings, clock, watch, valve_of(scheduler), run.fail)
        exchange.envelope.forgive = run.follows
        if exchange.steps is not None:
            exchange.steps.join(run, stage.tell)
        run.begin()
        return Disposable(self._left)

    def _drop(self) -> None:
        """
        It is over: keep what is known of it, and nothing of what made it. A ring of references would wait for the garbage collector, its media with it.
        """
        response = self.response
        with _settling:
            self._response = response if self._response is None else self._response
        self._exchange = self._run = self._stage = None

    def _refuse_if_left(self) -> None:
        if self._verdict is Verdict.CANCELLED:
            raise CancelledStreamError("this call was disposed of before it began")

    def _left(self) -> None:
        """
        The subscriber is gone: by its own will, or because it was told the end.
        """
        self._settle(Verdict.CANCELLED)
        run = self._run
        if self._loop is not None and run is not None:
            in_loop(self._loop, run.dispose)


class _Supervised(Stage[bytes, ChatEvent]):
    """
    The pipeline of one call: notes its end, filters, obeys an abort.
    """

    def __init__(self, call: Call, exchange: Exchange) -> None:
        self._call = call
        self._envelope = exchange.envelope
        self._secrets = exchange.secrets
        self._emit: Emit[ChatEvent] | None = None
        self._through: Emit[ChatEvent] = _nobody

    def start(self, emit: Emit[ChatEvent]) -> None:
        self._obeying(emit, self._envelope.start)

    def feed(self, item: bytes, emit: Emit[ChatEvent]) -> None:
        self._obeying(emit, self._envelope.feed, item)

    def flush(self, emit: Emit[ChatEvent]) -> None:
        self._obeying(emit, self._envelope.flush)

    def fail(self, error: Exception, emit: Emit[ChatEvent]) -> None:
        self._obeying(emit, self._envelope.fail, error)

    def tell(self, event: ChatEvent, emit: Emit[ChatEvent]) -> None:
        """
        An event of the response that no body says.
        """
        self._obeying(emit, self._envelope.tell, event)

    def abort(self, emit: Emit[ChatEvent]) -> None:
        """
        End the response as the call wants it.
        """
        stop = self._call._wanted
        assert stop is not None
        self._envelope.abort(stop.reason, self._plain(emit))
        raise StreamDone

    def drop(self) -> None:
        self._call._drop()
        self._envelope.drop()
        self._emit, self._through = None, _nobody

    def _obeying(self, emit: Emit[ChatEvent], work: Callable[..., None], *args: Any) -> None:
        try:
            work(*args, self._to(emit))
        except _Unwound:
            self.abort(emit)
        except NextBody:
            if self._call._wanted is None:
                raise
        if self._call._wanted is not None and self._call.verdict is None:
            self.abort(emit)

    def _to(self, emit: Emit[ChatEvent]) -> Emit[ChatEvent]:
        """
        The way out for what a body says; made once, it is called for every event.
        """
        if emit is self._emit:
            return self._through
        call, shown, ended = self._call, self._call._shown, self._ended
        run = call._run
        assert run is not None

        def through(event: ChatEvent) -> None:
            if event.terminal:
                ended(event)
            elif run.watching and type(event) is not ResponseStart:
                run.noted(event)
            if shown(event):
                emit(event)
            # Behind an END others may have to follow: the blocks of a step close together. Behind a terminal there is nothing to end.
            if call._wanted is not None and event.phase is not Phase.END and not event.terminal:
                raise _Unwound

        self._emit, self._through = emit, through
        return through

    def _plain(self, emit: Emit[ChatEvent]) -> Emit[ChatEvent]:
        shown, ended = self._call._shown, self._ended

        def plain(event: ChatEvent) -> None:
            if event.terminal:
                ended(event)
            if shown(event):
                emit(event)

        return plain

    def _ended(self, event: ChatEvent) -> None:
        match event:
            case ErrorEvent(error=error, response=response):
                hide(error, self._secrets)
                self._call._settle(verdict_of(error), response)
            case ResponseEnd(response=response):
                self._call._settle(response.verdict, response)
            case Abort(response=response):
                self._call._settle(Verdict.ABORTED, response)


def _nobody(event: ChatEvent) -> None:
    raise AssertionError("a call emitted before it was subscribed to")
