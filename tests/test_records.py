"""
Records and batches: numbers, clocks, virtual time (contract section 2, S, E12).
"""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from itertools import groupby
from typing import Any

import attrs
import pytest
import reactivex as rx
from hypothesis import given
from hypothesis import strategies as st
from reactivex import Observable, abc
from reactivex import operators as ops
from reactivex.disposable import CompositeDisposable, Disposable
from reactivex.testing import ReactiveTest, TestScheduler

from rxchat.errors import ConfigurationError
from rxchat.events import (
    ChatEvent,
    Heartbeat,
    ResponseEnd,
    ResponseStart,
    StepEnd,
    StepStart,
    TextDelta,
    TextEnd,
    TextStart,
    ThinkingDelta,
    UsageUpdate,
)
from rxchat.records import EventRecord, batch_text, to_records
from rxchat.response import Usage
from tests import strategies
from tests.scripted import Fault

on_next, on_error, on_completed = ReactiveTest.on_next, ReactiveTest.on_error, ReactiveTest.on_completed
NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)


def stamped(event: ChatEvent, start: int, end: int) -> ChatEvent:
    """
    An event that knows its bytes.
    """
    object.__setattr__(event, "_span", (start, end))
    return event


def time_of(record: EventRecord) -> datetime:
    return record.time


# --- records --------------------------------------------------------------------------------------------------------------------------------------


def test_records_are_numbered_per_response() -> None:
    """
    seq from 0 without gaps, anew at each ResponseStart; ids and the step at hand on every record.
    """
    events: Observable[ChatEvent] = rx.of(
        ResponseStart("a"),
        StepStart(0),
        stamped(TextDelta("x"), 3, 9),
        StepEnd(0),
        StepStart(1),
        StepEnd(1),
        ResponseEnd(),
        ResponseStart("b"),
        StepStart(0),
    )
    seen: list[EventRecord] = []
    events.pipe(to_records(lambda: NOON)).subscribe(seen.append)
    assert [(record.seq, record.response_id, record.step) for record in seen] == [
        (0, "a", 0),
        (1, "a", 0),
        (2, "a", 0),
        (3, "a", 0),
        (4, "a", 1),
        (5, "a", 1),
        (6, "a", 1),
        (0, "b", 0),
        (1, "b", 0),
    ]
    assert seen[2] == EventRecord(2, "a", 0, NOON, 3, 9, TextDelta("x"))
    assert {(record.start, record.end) for record in seen if record is not seen[2]} == {(None, None)}


def test_time_is_that_of_the_scheduler() -> None:
    """
    Virtual time where the subscription has it.
    """
    scheduler = TestScheduler()
    hot = scheduler.create_hot_observable(on_next(210, Heartbeat()), on_next(350, Heartbeat()))
    result = scheduler.start(lambda: hot.pipe(to_records()).pipe(ops.map(time_of)))
    assert result.messages == [on_next(at, scheduler.to_datetime(at)) for at in (210, 350)]


def test_time_without_a_scheduler_is_now() -> None:
    """
    In UTC.
    """
    seen: list[EventRecord] = []
    events: Observable[ChatEvent] = rx.of(Heartbeat())
    events.pipe(to_records()).subscribe(seen.append)
    assert seen[0].time.tzinfo is UTC
    assert abs(datetime.now(UTC) - seen[0].time) < timedelta(minutes=1)


# --- batches ------------------------------------------------------------------------------------------------------------------------------------


class Timers(TestScheduler):
    """
    Virtual time that knows which timers are still set.
    """

    def __init__(self) -> None:
        super().__init__()
        self.set: list[object] = []

    def schedule_relative(self, duetime: Any, action: Any, state: Any = None) -> abc.DisposableBase:
        timer = object()
        self.set.append(timer)

        def gone() -> None:
            if timer in self.set:
                self.set.remove(timer)

        def fire(scheduler: Any, state: Any) -> Any:
            gone()
            return action(scheduler, state)

        return CompositeDisposable(super().schedule_relative(duetime, fire, state), Disposable(gone))


def batched(*messages: Any, window: float | timedelta = 50) -> list[Any]:
    """
    What comes out in virtual time; no timer is left behind it.
    """
    scheduler = Timers()
    hot = scheduler.create_hot_observable(*messages)
    result = scheduler.start(lambda: hot.pipe(batch_text(window)))
    assert scheduler.set == []
    return list(result.messages)


A, B, C = TextDelta("a"), TextDelta("b"), TextDelta("c")


@pytest.mark.parametrize(
    ("messages", "expected"),
    [
        pytest.param([on_next(210, A)], [on_next(260, A)], id="alone it waits for the window"),
        pytest.param(
            [on_next(210, A), on_next(220, B), on_next(259, C)], [on_next(260, TextDelta("abc"))], id="joined; the first one starts the clock"
        ),
        pytest.param(
            [on_next(210, A), on_next(261, B), on_next(300, C)], [on_next(260, A), on_next(311, TextDelta("bc"))], id="the next one starts it again"
        ),
        pytest.param(
            [on_next(210, A), on_next(220, TextEnd())], [on_next(220, A), on_next(220, TextEnd())], id="any other event goes behind what waits"
        ),
        pytest.param(
            [on_next(210, A), on_next(215, B), on_next(220, Heartbeat()), on_next(225, C)],
            [on_next(220, TextDelta("ab")), on_next(220, Heartbeat()), on_next(275, C)],
            id="and the clock stops: no timer fires for what has gone",
        ),
        pytest.param(
            [on_next(210, A), on_next(220, ThinkingDelta("t")), on_next(230, ThinkingDelta("u"))],
            [on_next(220, A), on_next(270, ThinkingDelta("tu"))],
            id="text and thinking are not joined",
        ),
        pytest.param(
            [on_next(210, A), on_next(220, attrs.evolve(B, index=1)), on_next(221, attrs.evolve(C, index=1, choice=1))],
            [on_next(220, A), on_next(221, attrs.evolve(B, index=1)), on_next(271, attrs.evolve(C, index=1, choice=1))],
            id="nor are two blocks, or two choices",
        ),
        pytest.param([on_next(210, A), on_completed(220)], [on_next(220, A), on_completed(220)], id="the end lets it go"),
        pytest.param([on_next(210, A), on_error(220, Fault("x"))], [on_next(220, A), on_error(220, Fault("x"))], id="a failure, too (E10)"),
        pytest.param([on_next(210, TextStart()), on_completed(220)], [on_next(210, TextStart()), on_completed(220)], id="others pass at once"),
    ],
)
def test_batches_in_virtual_time(messages: list[Any], expected: list[Any]) -> None:
    """
    With a window of 50.
    """
    assert batched(*messages) == expected
    assert batched(*messages, window=timedelta(seconds=50)) == expected


def test_disposal_leaves_no_timer() -> None:
    """
    Nothing comes out behind it, and nothing is left to run (contract E8).
    """
    scheduler = Timers()
    hot = scheduler.create_hot_observable(on_next(210, A))
    result = scheduler.start(lambda: hot.pipe(batch_text(50)), disposed=230)
    assert result.messages == []
    assert hot.subscriptions == [ReactiveTest.subscribe(200, 230)]
    assert scheduler.set == []


def test_a_subscriber_that_raises_when_the_timer_fires() -> None:
    """
    It hears of it itself, and the source is left (contract E14).
    """
    scheduler = TestScheduler()
    hot = scheduler.create_hot_observable(on_next(210, A))
    error = ValueError("mine")
    heard: list[Any] = []

    def raises(event: Any) -> None:
        raise error

    scheduler.schedule_absolute(200, lambda *_: hot.pipe(batch_text(50)).subscribe(raises, heard.append, scheduler=scheduler))
    scheduler.start()
    assert heard == [error]
    assert hot.subscriptions == [ReactiveTest.subscribe(200, 260)]


def test_leaving_at_the_first_batch() -> None:
    """
    take(1) behind it ends timer and source.
    """
    scheduler = TestScheduler()
    hot = scheduler.create_hot_observable(on_next(210, A), on_next(255, B), on_next(262, C))
    result = scheduler.start(lambda: hot.pipe(batch_text(50), ops.take(1)))
    assert result.messages == [on_next(260, TextDelta("ab")), on_completed(260)]
    assert hot.subscriptions == [ReactiveTest.subscribe(200, 260)]


def test_a_scheduler_of_its_own() -> None:
    """
    One given to the operator goes before that of the subscription.
    """
    scheduler = TestScheduler()
    seen: list[Any] = []
    hot = scheduler.create_hot_observable(on_next(210, A), on_next(220, B))
    scheduler.schedule_absolute(200, lambda *_: hot.pipe(batch_text(50, scheduler)).subscribe(seen.append))
    scheduler.start()
    assert seen == [TextDelta("ab")]


async def test_on_the_running_loop() -> None:
    """
    Without a scheduler the event loop is the clock.
    """
    seen: list[Any] = []
    done = asyncio.Event()
    events: Observable[ChatEvent] = rx.concat(rx.of(A, B), rx.never())
    subscription = events.pipe(batch_text(0.001), ops.do_action(lambda _: done.set())).subscribe(seen.append)
    await asyncio.wait_for(done.wait(), 5)
    subscription.dispose()
    assert seen == [TextDelta("ab")]


def test_without_any_clock() -> None:
    """
    Neither scheduler nor loop: said, instead of a thread per delta.
    """
    heard: list[Any] = []
    events: Observable[ChatEvent] = rx.of(A)
    events.pipe(batch_text(1)).subscribe(heard.append, heard.append)
    assert [type(item) for item in heard] == [ConfigurationError]


@pytest.mark.parametrize("window", [0, -1, timedelta(0), float("nan")])
def test_a_window_is_a_time(window: Any) -> None:
    """
    Above zero.
    """
    with pytest.raises(ConfigurationError, match="window"):
        batch_text(window)


def test_bytes_of_a_batch() -> None:
    """
    From the first delta's first byte to the last one's last; unknown where none is known.
    """
    first, last = stamped(TextDelta("a"), 3, 9), stamped(TextDelta("b"), 20, 30)
    joined = batched(on_next(210, first), on_next(211, TextDelta("?")), on_next(212, last))[0].value.value
    assert (joined.text, joined.span) == ("a?b", (3, 30))
    assert batched(on_next(210, A), on_next(211, B))[0].value.value.span is None


deltas = st.one_of(*(strategies.event_strategies[cls] for cls in (TextDelta, ThinkingDelta, TextStart, Heartbeat))) | st.just(UsageUpdate(Usage(1)))
timed = st.lists(st.tuples(st.integers(1, 40), deltas), max_size=12)


def joined_runs(events: list[Any]) -> list[Any]:
    """
    All neighbours of one key joined, whatever the time.
    """
    runs = [
        list(run) for _, run in groupby(events, key=lambda e: (type(e), getattr(e, "index", 0), getattr(e, "item_id", 0), getattr(e, "choice", 0)))
    ]
    texts = (TextDelta, ThinkingDelta)
    return [event for run in runs for event in ([attrs.evolve(run[0], text="".join(e.text for e in run))] if isinstance(run[0], texts) else run)]


@given(timed, st.integers(1, 100))
def test_nothing_is_lost_or_moved(gaps: list[tuple[int, Any]], window: int) -> None:
    """
    Batched or not, the same texts in the same places; no delta waits longer than the window.
    """
    at = 200
    messages = []
    for gap, event in gaps:
        at += gap
        messages.append(on_next(at, event))
    out = batched(*messages, on_completed(at + 1), window=window)
    assert out[-1] == on_completed(at + 1)
    assert joined_runs([message.value.value for message in out[:-1]]) == joined_runs([event for _, event in gaps])
