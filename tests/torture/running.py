"""
One call under way, and everything it says.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import attrs
from reactivex import Observable, abc
from reactivex.disposable import Disposable

from rxchat.client import Call, ChatModel
from rxchat.errors import Verdict
from rxchat.events import ChatEvent
from rxchat.testing import FakeProvider
from tests.torture.cases import Case
from tests.torture.traces import Noise

__all__ = ["GUARD", "PATIENCE", "Run"]

GUARD = 10.0
# So long a moment is waited for that may never come.
PATIENCE = 0.02


@attrs.define(eq=False)
class Run:
    """
    One call under way: what it said between it and whoever takes it, and of itself.

    `late` is what it said behind its end or its disposal; `told` the on_error and on_completed of the subscriber.
    """

    case: Case
    call: Call
    model: ChatModel
    provider: FakeProvider
    noise: Noise
    events: list[ChatEvent] = attrs.field(factory=list)
    verdicts: list[Verdict | None] = attrs.field(factory=list)
    late: list[Any] = attrs.field(factory=list)
    told: list[Exception | None] = attrs.field(factory=list)
    seen: bool = False
    left: bool = False
    change: asyncio.Event = attrs.field(factory=asyncio.Event)
    inside: Callable[[], None] | None = None
    subscription: abc.DisposableBase = attrs.field(factory=Disposable)

    @property
    def stream(self) -> Observable[ChatEvent]:
        """
        The call's events, watched.
        """
        return Observable(self._subscribe)

    def _subscribe(self, observer: abc.ObserverBase[ChatEvent], scheduler: abc.SchedulerBase | None = None) -> abc.DisposableBase:
        self.seen = True

        def on_next(event: ChatEvent) -> None:
            self._said(event)
            self.events.append(event)
            self.verdicts.append(self.call.verdict)
            observer.on_next(event)

        def on_error(error: Exception) -> None:
            self._said(error)
            observer.on_error(error)

        def on_completed() -> None:
            self._said("completed")
            observer.on_completed()

        inner = self.call.events.subscribe(on_next, on_error, on_completed, scheduler=scheduler)

        def leave() -> None:
            self.left = True
            inner.dispose()

        return Disposable(leave)

    def _said(self, what: Any) -> None:
        if self.left:
            self.late.append(what)
        self.change.set()

    def subscribe(self, source: Observable[Any] | None = None) -> None:
        """
        As a plain subscriber.
        """
        self.subscription = (source or self.stream).subscribe(self._next, self._end, self._end)

    def _next(self, item: object) -> None:
        inside = self.inside
        if inside is not None and len(self.events) > self.case.moment:
            self.inside = None
            inside()

    def _end(self, error: Exception | None = None) -> None:
        self.told.append(error)
        self.change.set()

    def dispose(self) -> None:
        """
        By the call or by the subscription, whichever the case has.
        """
        if self.case.seed % 2:
            self.subscription.dispose()
        else:
            self.left = True
            self.call.dispose()

    async def until(self, met: Callable[[], bool], seconds: float = GUARD) -> None:
        """
        Wait for it, or for the end, or for so long.
        """
        try:
            async with asyncio.timeout(seconds):
                while not (met() or self.told or self.left):
                    self.change.clear()
                    await self.change.wait()
        except TimeoutError:
            assert seconds < GUARD, "it never came"

    async def moment(self) -> None:
        """
        Wait for the event of the case's number, as long as it may be waited for.
        """
        await self.until(lambda: len(self.events) > self.case.moment, PATIENCE if self.case.silent else GUARD)

    async def waiting(self) -> None:
        """
        Wait until the call waits between two attempts.
        """
        before = self.noise.waits
        self.subscribe()
        async with asyncio.timeout(GUARD):
            while self.noise.waits == before:
                await asyncio.sleep(0)
