"""
`share_events`: one request, many subscribers (contract D1, D3, E14).

RxPY's own share works too, with RxPY's semantics: there a subscriber that raises takes the item from those behind it, and nobody can be slowed.

One thread: nothing here is locked. A source that pushes from a thread of its own may be shared only while nobody subscribes, leaves or is slow meanwhile.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any, Generic, Literal, TypeAlias, TypeVar, get_args

from reactivex import Observable, abc
from reactivex.disposable import CompositeDisposable, Disposable, SingleAssignmentDisposable

from rxchat.demand import Valve, carrying, valve_of
from rxchat.errors import ConfigurationError, LimitExceeded
from rxchat.limits import Limits
from rxchat.operators import Operator, give_back, log, tell

__all__ = ["Slow", "share_events"]

T = TypeVar("T")

Slow: TypeAlias = Literal["pause", "error", "drop_oldest"]
End: TypeAlias = Callable[[Any], None]


class _Subscriber(Generic[T]):
    """
    One subscriber of a hub: what it may be given at once, and what waits while its valve is held.
    """

    def __init__(self, observer: abc.ObserverBase[T], bound: int, drops: bool) -> None:
        self._observer: Any = observer
        self._bound = bound
        self._drops = drops
        self._waiting: deque[T] = deque()
        self._end: End | None = None
        self._held = False
        self.gone = False

    def give(self, item: T) -> None:
        if not self._held:
            self._push(item)
            return
        if len(self._waiting) >= self._bound:
            if not self._drops:
                self._finish(lambda observer: tell(observer, LimitExceeded("pending", self._bound)))
                return
            self._waiting.popleft()
        self._waiting.append(item)

    def end(self, end: End) -> None:
        """
        The source ended: say so behind what waits.
        """
        self._end = end
        if not self._held:
            self._finish(end)

    def hold(self) -> None:
        self._held = True

    def open(self) -> None:
        self._held = False
        while self._waiting and not self._held and not self.gone:
            self._push(self._waiting.popleft())
        if self._end is not None and not self._held and not self.gone:
            self._finish(self._end)

    def leave(self) -> None:
        self.gone = True
        self._waiting.clear()

    def _push(self, item: T) -> None:
        try:
            self._observer.on_next(item)
        except BaseException as error:
            raised = error
            self._finish(lambda observer: give_back(observer, raised))

    def _finish(self, end: End) -> None:
        self.leave()
        try:
            end(self._observer)
        except Exception as error:
            # Others are still to be served.
            log.error("a subscriber raised at the end of its stream", exc_info=error)


class _Hub(Generic[T]):
    """
    The state of one shared stream: subscribers, the last items, how it ended.
    """

    def __init__(self, source: Observable[T], replay: int, slow: Slow, pending: int) -> None:
        self._source = source
        self._replay: deque[T] = deque(maxlen=replay)
        self._slow = slow
        self._pending = pending
        self._subscribers: tuple[_Subscriber[T], ...] = ()
        self._end: End | None = None
        self._valve = Valve()
        self._upstream: SingleAssignmentDisposable | None = None

    def subscribe(self, observer: abc.ObserverBase[T], scheduler: abc.SchedulerBase | None = None) -> abc.DisposableBase:
        subscriber = _Subscriber(observer, self._pending, self._slow == "drop_oldest")
        left = CompositeDisposable(Disposable(lambda: self._leave(subscriber)))
        own = valve_of(scheduler)
        if own is not None:
            left.add(own.watch(self._valve.hold, self._valve.release) if self._slow == "pause" else own.watch(subscriber.hold, subscriber.open))
        for item in tuple(self._replay):
            subscriber.give(item)
        if self._end is not None:
            subscriber.end(self._end)
        elif not subscriber.gone:
            self._subscribers = (*self._subscribers, subscriber)
            self._connect(scheduler)
        return left

    def _connect(self, scheduler: abc.SchedulerBase | None) -> None:
        if self._upstream is None:
            # It may push, end, and lose all its subscribers before `subscribe` returns.
            self._upstream = upstream = SingleAssignmentDisposable()
            given = carrying(self._valve, scheduler) or scheduler
            upstream.disposable = self._source.subscribe(self._on_next, self._on_error, self._on_completed, scheduler=given)

    def _leave(self, subscriber: _Subscriber[T]) -> None:
        """
        The last one to leave a stream that runs disposes of it; who comes then begins it anew.
        """
        subscriber.leave()
        self._subscribers = tuple(other for other in self._subscribers if other is not subscriber)
        if not self._subscribers and self._end is None and self._upstream is not None:
            upstream, self._upstream = self._upstream, None
            self._replay.clear()
            upstream.dispose()

    def _on_next(self, item: T) -> None:
        self._replay.append(item)
        for subscriber in self._subscribers:
            if not subscriber.gone:
                subscriber.give(item)
                if subscriber.gone:
                    self._leave(subscriber)

    def _on_error(self, error: Exception) -> None:
        self._finish(lambda observer: tell(observer, error))

    def _on_completed(self) -> None:
        self._finish(lambda observer: observer.on_completed())

    def _finish(self, end: End) -> None:
        self._end = end
        subscribers, self._subscribers = self._subscribers, ()
        for subscriber in subscribers:
            if not subscriber.gone:
                subscriber.end(end)


def share_events(replay: int = 0, slow: Slow = "pause", *, pending: int = Limits().pending) -> Operator[T, T]:
    """
    One subscription to the source for all who subscribe to the result, in the order in which they came.

    The first subscriber starts it, the last one to leave ends it. Who comes late gets the last `replay` items at once, then the rest; behind the end the same
    items and the end itself: a shared stream that ended never asks again, so put retry before it. A subscriber that raises hears of it by its own on_error,
    and the others go on.

    A subscriber is slow while it holds the valve of its subscription (to_async_iterable does); one that works synchronously never is. Then, by `slow`,

    - "pause": the source waits, and with it everybody;
    - "error": up to `pending` items wait for it, one more and it is dropped with LimitExceeded("pending");
    - "drop_oldest": up to `pending` items wait for it, then the oldest is forgotten; for metrics only, as it may be any event.
    """
    if slow not in get_args(Slow):
        raise ConfigurationError(f"slow is one of {', '.join(get_args(Slow))}, not {slow!r}")
    if replay < 0 or pending < 1:
        raise ConfigurationError(f"replay is at least 0, pending at least 1, not {replay} and {pending}")
    return lambda source: Observable(_Hub(source, replay, slow, pending).subscribe)
