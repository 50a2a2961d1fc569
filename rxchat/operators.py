"""
The operators. `lift` turns a stage into one; the rest are stages lifted, or small projections.

Each works alone and with RxPY's own operators before and behind it. State is made inside `subscribe`, one set per subscription; `scheduler` is passed on.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias, TypeVar

from reactivex import Observable, abc
from reactivex.disposable import SingleAssignmentDisposable

from rxchat.stage import ConsumerError, Stage, StreamDone

__all__ = ["Operator", "lift"]

In = TypeVar("In")
Out = TypeVar("Out")

Operator: TypeAlias = Callable[[Observable[In]], Observable[Out]]


class _Stopped(BaseException):
    """
    The subscriber has left in the middle of a feed: stop working for it.
    """


def lift(factory: Callable[[], Stage[In, Out]]) -> Operator[In, Out]:
    """
    The operator of a stage; `factory` makes a fresh one per subscription.

    Values first, then the error. What a subscriber raises in on_next is no fault of the stage: the upstream is disposed of and the exception reaches the
    subscriber's on_error as it is (contract E14). When the stage is done, the upstream is disposed of and the stream completes.
    """

    def operator(source: Observable[In]) -> Observable[Out]:
        def subscribe(observer: abc.ObserverBase[Out], scheduler: abc.SchedulerBase | None = None) -> abc.DisposableBase:
            return _Lifted(factory(), observer).connect(source, scheduler)

        return Observable(subscribe)

    return operator


class _Lifted:
    """
    One subscription of a lifted stage.
    """

    __slots__ = ("_emit", "_observer", "_over", "_stage", "_upstream")

    def __init__(self, stage: Stage[Any, Any], observer: abc.ObserverBase[Any]) -> None:
        self._stage = stage
        self._observer = observer
        self._upstream = SingleAssignmentDisposable()
        self._over = False
        on_next = observer.on_next
        watched: Any = observer  # AutoDetachObserver tells by `is_stopped` that its subscriber has left

        def emit(item: Any) -> None:
            try:
                on_next(item)
            except (_Stopped, ConsumerError):
                raise
            except BaseException as error:
                raise ConsumerError(error) from error
            if watched.is_stopped:
                raise _Stopped

        self._emit = emit

    def connect(self, source: Observable[Any], scheduler: abc.SchedulerBase | None) -> abc.DisposableBase:
        self._guarded(self._stage.start)
        if not self._over:
            self._upstream.disposable = source.subscribe(self.on_next, self.on_error, self.on_completed, scheduler=scheduler)
        return self._upstream

    def on_next(self, item: Any) -> None:
        if self._over:
            return
        try:
            self._stage.feed(item, self._emit)
        except BaseException as end:
            self._end(end)

    def on_completed(self) -> None:
        if not self._over and self._guarded(self._stage.flush):
            self._over = True
            self._observer.on_completed()

    def on_error(self, error: Exception) -> None:
        if not self._over and self._guarded(self._stage.fail, error):
            self._over = True
            self._observer.on_error(error)

    def _guarded(self, call: Callable[..., None], *args: Any) -> bool:
        """
        Whether the call went through; if not, the subscription is over.
        """
        try:
            call(*args, self._emit)
        except BaseException as end:
            self._end(end)
            return False
        return True

    def _end(self, end: BaseException) -> None:
        self._over = True
        self._upstream.dispose()
        if isinstance(end, _Stopped):
            return
        if isinstance(end, StreamDone):
            self._observer.on_completed()
            return
        error = end.error if isinstance(end, ConsumerError) else end
        if not isinstance(error, Exception):
            raise error
        self._observer.on_error(error)
