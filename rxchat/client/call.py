"""
`Call`: one request, its events, and what is known of it at any moment.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any

import attrs
from reactivex import Observable, abc
from reactivex.disposable import CompositeDisposable, Disposable, SerialDisposable

from rxchat.client.http_body import running_loop
from rxchat.client.secrets import hide
from rxchat.errors import CancelledStreamError, ConfigurationError, Verdict
from rxchat.events import Abort, ChatEvent, ErrorEvent, Phase, ResponseEnd
from rxchat.filters import Predicate
from rxchat.operators import lift
from rxchat.pipeline import Envelope
from rxchat.response import ChatResponse, Usage
from rxchat.stage import Emit, Stage, StreamDone

__all__ = ["Call", "Exchange"]


@attrs.define(eq=False)
class Exchange:
    """
    What one request needs once it is built: its body, its pipeline, and what must never be shown.

    `head` is known before the body's first item.
    """

    body: Observable[bytes]
    envelope: Envelope
    secrets: Collection[str] = attrs.field(default=(), repr=False)


@attrs.frozen
class Stop:
    """
    Comes with the bytes, in their order: end the response here (contract D7).
    """

    reason: str | None


class _Unwound(BaseException):
    """
    An abort was asked for in the middle of a feed: leave it.
    """


class Call:
    """
    One request (contract D1). `events` is cold and can be subscribed to once: share it for more (contract E12).

    `verdict` is None while it runs and is set exactly once, before the terminal event is delivered, also by disposal (CANCELLED).
    """

    def __init__(self, prepare: Callable[[], Exchange], shown: Predicate) -> None:
        self._prepare = prepare
        self._shown = shown
        self._verdict: Verdict | None = None
        self._response: ChatResponse | None = None
        self._exchange: Exchange | None = None
        self._subscription = SerialDisposable()
        self._used = False
        self._wanted: Stop | None = None
        self._push_stop: Callable[[Stop], None] | None = None
        self.events: Observable[ChatEvent] = Observable(self._subscribe)

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
        if self._response is not None:
            return self._response
        partial: ChatResponse = self._exchange.envelope.partial if self._exchange else ChatResponse()
        return attrs.evolve(partial, verdict=self._verdict)

    @property
    def usage(self) -> Usage | None:
        """
        The last usage the provider reported, also after disposal.
        """
        return self.response.usage

    def abort(self, reason: str | None = None) -> None:
        """
        End the response as one that was aborted: closing ENDs, Abort with the partial answer, on_completed; the request is ended (contract D7).

        Nothing if it has ended already. From inside on_next it takes effect behind the event at hand, or the next one that closes nothing.
        """
        if self._verdict is None and self._wanted is None:
            self._wanted = Stop(reason)
            if self._push_stop is not None:
                self._push_stop(self._wanted)

    def dispose(self) -> None:
        """
        End the request without a word: not one more event (contract E8).
        """
        self._settle(Verdict.CANCELLED)
        self._subscription.dispose()

    def _settle(self, verdict: Verdict | None, response: ChatResponse | None = None) -> None:
        if self._verdict is None:
            self._verdict, self._response = verdict, response

    def _subscribe(self, observer: abc.ObserverBase[ChatEvent], scheduler: abc.SchedulerBase | None = None) -> abc.DisposableBase:
        """
        Failures before there is a response are bare errors: no event, nothing was sent (contract E7, D8).
        """
        if self._verdict is Verdict.CANCELLED:
            raise CancelledStreamError("this call was disposed of before it began")
        if self._used:
            raise ConfigurationError("a call is one request and its events are subscribed to once: use share_events, or open another call")
        self._used = True
        running_loop()
        self._exchange = exchange = self._prepare()
        stage = _Supervised(self, exchange)
        inner = self._interruptible(exchange.body).pipe(lift(lambda: stage)).subscribe(observer, scheduler=scheduler)
        self._subscription.disposable = inner
        return CompositeDisposable(self._subscription, Disposable(lambda: self._settle(Verdict.CANCELLED)))

    def _interruptible(self, body: Observable[bytes]) -> Observable[bytes | Stop]:
        """
        The body, and the way in for an abort that comes between two reads.
        """

        def subscribe(observer: abc.ObserverBase[Any], scheduler: abc.SchedulerBase | None = None) -> abc.DisposableBase:
            self._push_stop = observer.on_next
            return body.subscribe(observer, scheduler=scheduler)

        return Observable(subscribe)


class _Supervised(Stage[bytes | Stop, ChatEvent]):
    """
    The pipeline of one call: notes its end, filters, obeys an abort.
    """

    def __init__(self, call: Call, exchange: Exchange) -> None:
        self._call = call
        self._envelope = exchange.envelope
        self._secrets = exchange.secrets
        self._emit: Emit[ChatEvent] | None = None
        self._through: Emit[ChatEvent] = _nobody
        self._busy = False

    def start(self, emit: Emit[ChatEvent]) -> None:
        self._obeying(emit, lambda out: self._envelope.start(out))

    def feed(self, item: bytes | Stop, emit: Emit[ChatEvent]) -> None:
        if not isinstance(item, Stop):
            self._obeying(emit, lambda out: self._envelope.feed(item, out))
        elif not self._busy:
            self._abort(emit)

    def flush(self, emit: Emit[ChatEvent]) -> None:
        self._obeying(emit, lambda out: self._envelope.flush(out))

    def fail(self, error: Exception, emit: Emit[ChatEvent]) -> None:
        self._obeying(emit, lambda out: self._envelope.fail(error, out))

    def _obeying(self, emit: Emit[ChatEvent], work: Callable[[Emit[ChatEvent]], None]) -> None:
        self._busy = True
        try:
            work(self._to(emit))
        except _Unwound:
            self._abort(emit)
        finally:
            self._busy = False
        if self._call._wanted is not None and self._call.verdict is None:
            self._abort(emit)

    def _abort(self, emit: Emit[ChatEvent]) -> None:
        stop = self._call._wanted
        assert stop is not None
        self._busy = True
        self._envelope.abort(stop.reason, self._plain(emit))
        raise StreamDone

    def _to(self, emit: Emit[ChatEvent]) -> Emit[ChatEvent]:
        if emit is not self._emit:
            call, plain = self._call, self._plain(emit)

            def through(event: ChatEvent) -> None:
                plain(event)
                # Behind an END others may have to follow: the blocks of a step close together.
                if call._wanted is not None and event.phase is not Phase.END:
                    raise _Unwound

            self._emit, self._through = emit, through
        return self._through

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
                self._call._settle(error.verdict, response)
            case ResponseEnd(response=response):
                self._call._settle(response.verdict, response)
            case Abort(response=response):
                self._call._settle(Verdict.ABORTED, response)


def _nobody(event: ChatEvent) -> None:
    raise AssertionError("a call emitted before it was subscribed to")
