"""
A subscriber that writes down what it is told, and what is left of the client when it is over.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import attrs
from reactivex import Observable, abc

from tests.loopback import Loopback, Script

__all__ = ["Serve", "Watcher", "request_tasks", "settled"]


# Starts a server with that script; it is stopped behind the test.
Serve = Callable[[Script], Awaitable[Loopback]]


@attrs.define(eq=False)
class Watcher:
    """
    Everything an Observable says, in order; `on_next` may do more with each item.
    """

    items: list[Any] = attrs.field(factory=list)
    error: Exception | None = None
    completed: int = 0
    failed: int = 0
    over: asyncio.Event = attrs.field(factory=asyncio.Event)
    subscription: abc.DisposableBase | None = None
    on_next: Callable[[Any], None] | None = None

    def watch(self, source: Observable[Any], scheduler: abc.SchedulerBase | None = None) -> Watcher:
        """
        Subscribe.
        """
        self.subscription = source.subscribe(self._next, self._error, self._completed, scheduler=scheduler)
        return self

    def dispose(self) -> None:
        """
        Leave; also from inside the first on_next.
        """
        if self.subscription is not None:
            self.subscription.dispose()

    async def end(self) -> Watcher:
        """
        Wait for the end, whichever it is.
        """
        await asyncio.wait_for(self.over.wait(), 10)
        return self

    def _next(self, item: Any) -> None:
        self.items.append(item)
        if self.on_next is not None:
            self.on_next(item)

    def _error(self, error: Exception) -> None:
        self.error, self.failed = error, self.failed + 1
        self.over.set()

    def _completed(self) -> None:
        self.completed += 1
        self.over.set()


def request_tasks() -> list[str]:
    """
    The tasks of the client that still live.
    """
    return [task.get_name() for task in asyncio.all_tasks() if task.get_name() == "rxchat request"]


async def settled() -> list[str]:
    """
    The same, when those that are ending have had their turns.
    """
    for _ in range(50):
        if not request_tasks():
            break
        await asyncio.sleep(0.01)
    return request_tasks()
