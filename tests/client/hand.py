"""
Bodies pushed by hand into a call, in virtual time.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import attrs
from reactivex import Observable, abc
from reactivex.disposable import Disposable
from reactivex.scheduler import VirtualTimeScheduler

from rxchat.client.call import Call, Exchange
from rxchat.client.settings import HttpSettings
from rxchat.demand import Valve, ValveScheduler
from rxchat.errors import ConfigurationError
from rxchat.filters import all_events, guarded
from rxchat.pipeline import Head, response_stage
from tests.client.watching import Watcher

__all__ = ["Body", "Hand"]

STREAM = Head(200, {"content-type": "text/event-stream"})


@attrs.define(eq=False)
class Body:
    """
    One request, as the call made it: push into it, see whether the call has left it.
    """

    hand: Hand
    observer: abc.ObserverBase[bytes]
    on_connected: Callable[[], None]
    asked_at: float
    left: bool = False

    def connect(self) -> Body:
        """
        There is a connection.
        """
        self.on_connected()
        return self

    def headers(self, status: int = 200, **headers: str) -> Body:
        """
        The headers have come.
        """
        self.hand.head = Head(status, {"content-type": "text/event-stream" if status == 200 else "application/json", **headers})
        self.observer.on_next(b"")
        return self

    def push(self, *chunks: bytes) -> Body:
        """
        Bytes have come.
        """
        for chunk in chunks:
            self.observer.on_next(chunk)
        return self

    def end(self) -> None:
        """
        The transfer ended well.
        """
        self.observer.on_completed()

    def fail(self, error: Exception) -> None:
        """
        The transfer broke off.
        """
        self.observer.on_error(error)

    def refuse(self, status: int, body: bytes = b"{}", **headers: str) -> None:
        """
        A whole refused answer.
        """
        self.headers(status, **headers).push(body)
        if not self.left:
            self.end()


@attrs.define(eq=False)
class Hand:
    """
    A call whose bodies are pushed by hand. `bodies` are its requests so far.
    """

    call: Call
    scheduler: VirtualTimeScheduler = attrs.field(factory=lambda: VirtualTimeScheduler(0.0))
    valve: Valve = attrs.field(factory=Valve)
    watcher: Watcher = attrs.field(factory=Watcher)
    bodies: list[Body] = attrs.field(factory=list)
    head: Head = STREAM
    unbuildable: bool = False

    @classmethod
    def of(cls, dialect: str = "openai-chat", /, **settings: Any) -> Hand:
        """
        A call with such HttpSettings, not yet subscribed to.
        """

        def exchange() -> Exchange:
            return Exchange(hand.open_body, response_stage(dialect, head=lambda: hand.head))

        hand = cls(Call(exchange, guarded(all_events()), HttpSettings(**settings), random.Random(7)))
        return hand

    def open_body(self, on_connected: Callable[[], None]) -> Observable[bytes]:
        """
        A request.
        """
        if self.unbuildable:
            raise ConfigurationError("this request cannot be built")

        def subscribe(observer: abc.ObserverBase[bytes], scheduler: abc.SchedulerBase | None = None) -> abc.DisposableBase:
            body = Body(self, observer, on_connected, self.now)
            self.bodies.append(body)
            return Disposable(lambda: setattr(body, "left", True))

        return Observable(subscribe)

    @property
    def now(self) -> float:
        """
        Seconds of virtual time.
        """
        return float(self.scheduler.to_seconds(self.scheduler.clock))

    @property
    def body(self) -> Body:
        """
        The last request.
        """
        return self.bodies[-1]

    def begin(self) -> Hand:
        """
        Subscribe.
        """
        self.watcher.watch(self.call.events, ValveScheduler(self.scheduler, self.valve))
        return self

    def wait(self, seconds: float) -> Hand:
        """
        Let virtual time pass.
        """
        self.scheduler.advance_by(seconds)
        return self

    @property
    def types(self) -> list[str]:
        """
        The tags of what the subscriber saw.
        """
        return [event.type for event in self.watcher.items]
