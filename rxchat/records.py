"""
Events for logs, gateways and merged streams: numbered records, and deltas joined over time so that no token costs a write (contract section 2, S).
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any, TypeAlias

import attrs
from reactivex import Observable, abc
from reactivex.disposable import CompositeDisposable, Disposable, SerialDisposable

from rxchat.errors import ConfigurationError
from rxchat.events import ChatEvent, ResponseStart, StepStart, TextDelta, ThinkingDelta
from rxchat.loops import loop_scheduler
from rxchat.operators import Lifted, Operator
from rxchat.stage import Emit, Stage

__all__ = ["EventRecord", "batch_text", "to_records"]

Clock: TypeAlias = Callable[[], datetime]


# --- records --------------------------------------------------------------------------------------------------------------------------------------


@attrs.frozen
class EventRecord:
    """
    An event that can stand alone.

    `seq` counts from 0 without gaps per response; `step` is the one at hand, the last one behind its end, 0 before the first. `start`, `end` are the bytes of
    the frame that caused the event, None unless the pipeline keeps them (`provenance=True`).
    """

    seq: int
    response_id: str
    step: int
    time: datetime
    start: int | None
    end: int | None
    event: ChatEvent


class _Recorder(Stage[ChatEvent, EventRecord]):
    """
    Number events, anew at each ResponseStart (contract E12).
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._seq = 0
        self._response_id = ""
        self._step = 0

    def feed(self, item: ChatEvent, emit: Emit[EventRecord]) -> None:
        if isinstance(item, ResponseStart):
            self._seq, self._response_id, self._step = 0, item.response_id, 0
        elif isinstance(item, StepStart):
            self._step = item.step
        start, end = item.span or (None, None)
        seq, self._seq = self._seq, self._seq + 1
        emit(EventRecord(seq, self._response_id, self._step, self._clock(), start, end, item))


def to_records(clock: Clock | None = None) -> Operator[ChatEvent, EventRecord]:
    """
    Wrap each event as an EventRecord; time comes from `clock`, else from the scheduler of the subscription, else it is UTC now.
    """

    def operator(source: Observable[ChatEvent]) -> Observable[EventRecord]:
        def subscribe(observer: abc.ObserverBase[EventRecord], scheduler: abc.SchedulerBase | None = None) -> abc.DisposableBase:
            return Lifted(_Recorder(clock or _clock_of(scheduler)), observer).connect(source, scheduler)

        return Observable(subscribe)

    return operator


def _clock_of(scheduler: abc.SchedulerBase | None) -> Clock:
    return (lambda: datetime.now(UTC)) if scheduler is None else (lambda: scheduler.now)


# --- batches --------------------------------------------------------------------------------------------------------------------------------------


class _TextBatch(Stage[ChatEvent, ChatEvent]):
    """
    Hold deltas of one key until another event, or the timer: `arm` starts it, `disarm` stops it, `flush` is what it calls.
    """

    def __init__(self) -> None:
        self.arm: Callable[[], None] = _nothing
        self.disarm: Callable[[], None] = _nothing
        self._held: list[TextDelta | ThinkingDelta] = []

    def feed(self, item: ChatEvent, emit: Emit[ChatEvent]) -> None:
        if not isinstance(item, TextDelta | ThinkingDelta):
            self.flush(emit)
            emit(item)
            return
        if self._held and _key(item) != _key(self._held[0]):
            self.flush(emit)
        self._held.append(item)
        if len(self._held) == 1:
            self.arm()

    def flush(self, emit: Emit[ChatEvent]) -> None:
        if self._held:
            self.disarm()
            held, self._held = self._held, []
            emit(_joined(held))

    def fail(self, error: Exception, emit: Emit[ChatEvent]) -> None:
        self.flush(emit)


def _nothing() -> None:
    pass


def _key(event: TextDelta | ThinkingDelta) -> tuple[Any, ...]:
    return type(event), event.choice, event.index, event.item_id


def _joined(held: list[TextDelta | ThinkingDelta]) -> TextDelta | ThinkingDelta:
    if len(held) == 1:
        return held[0]
    joined = attrs.evolve(held[0], text="".join(event.text for event in held))
    spans = [span for event in held if (span := event.span) is not None]
    if spans:
        # Not a field, so not by the frozen class's own setter.
        object.__setattr__(joined, "_span", (spans[0][0], spans[-1][1]))
    return joined


def batch_text(window: float | timedelta, scheduler: abc.SchedulerBase | None = None) -> Operator[ChatEvent, ChatEvent]:
    """
    Join the deltas of one block of text or thinking that come within `window` seconds of the first of them.

    Order is kept: any other event, the end and a failure let go first what is held. The joined text is the same as without. The clock is `scheduler`, else
    the scheduler of the subscription, else the running event loop; without any of them ConfigurationError, for RxPY's own default is a thread per delta.
    """
    seconds = window.total_seconds() if isinstance(window, timedelta) else float(window)
    if not seconds > 0:
        raise ConfigurationError(f"the window of batch_text is a time above 0, not {window!r}")

    def operator(source: Observable[ChatEvent]) -> Observable[ChatEvent]:
        def subscribe(observer: abc.ObserverBase[ChatEvent], given: abc.SchedulerBase | None = None) -> abc.DisposableBase:
            clock = scheduler or given or _loop_scheduler()
            stage, timer = _TextBatch(), SerialDisposable()
            lifted = Lifted(stage, observer)

            def expire(*_: Any) -> None:
                lifted.call(stage.flush)

            def arm() -> None:
                timer.disposable = clock.schedule_relative(seconds, expire)

            def disarm() -> None:
                timer.disposable = Disposable()

            stage.arm, stage.disarm = arm, disarm
            return CompositeDisposable(lifted.connect(source, given), timer)

        return Observable(subscribe)

    return operator


def _loop_scheduler() -> abc.SchedulerBase:
    scheduler = loop_scheduler()
    if scheduler is None:
        raise ConfigurationError("batch_text needs a scheduler where no event loop runs")
    return scheduler
