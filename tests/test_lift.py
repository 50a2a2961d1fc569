"""
`lift`: stages as operators of RxPY, what becomes of failures and of subscribers that leave (contract E8, E14, D4, D8).
"""

from __future__ import annotations

import asyncio
import gc
import logging
import weakref
from collections.abc import Callable
from typing import Any

import pytest
import reactivex as rx
from reactivex import Observable, abc
from reactivex import operators as ops
from reactivex.disposable import Disposable
from reactivex.scheduler import CurrentThreadScheduler
from reactivex.subject import Subject
from reactivex.testing import ReactiveTest, TestScheduler

from rxchat.errors import ConfigurationError
from rxchat.operators import Lifted, Operator, lift
from rxchat.stage import Emit, Stage, StreamDone
from tests.scripted import Fault

on_next, on_error, on_completed = ReactiveTest.on_next, ReactiveTest.on_error, ReactiveTest.on_completed


class Twice(Stage[int, int]):
    """
    Every item twice; -1 raises, 0 is the end.
    """

    def __init__(self, log: list[str] | None = None) -> None:
        self.log = [] if log is None else log

    def feed(self, item: int, emit: Emit[int]) -> None:
        if item < 0:
            raise Fault("negative")
        if item == 0:
            raise StreamDone
        self.log.append(f"fed {item}")
        emit(item)
        self.log.append(f"once {item}")
        emit(item)
        self.log.append(f"twice {item}")

    def flush(self, emit: Emit[int]) -> None:
        self.log.append("flush")

    def fail(self, error: Exception, emit: Emit[int]) -> None:
        self.log.append("fail")


class Kept:
    """
    A subscriber that keeps what it hears.
    """

    def __init__(self, do: Callable[[Any], None] = lambda item: None) -> None:
        self.heard: list[Any] = []
        self._do = do

    def to(self, stream: Observable[Any]) -> abc.DisposableBase:
        return stream.subscribe(self.next, self.error, lambda: self.heard.append("completed"))

    def next(self, item: Any) -> None:
        self.heard.append(item)
        self._do(item)

    def error(self, error: Exception) -> None:
        self.heard.append(error)


def raising(error: BaseException) -> Callable[[Any], None]:
    def do(item: Any) -> None:
        raise error

    return do


twice: Operator[int, int] = lift(Twice)


@pytest.fixture
def source() -> Subject[int]:
    return Subject()


# --- marbles: time, disposal, state ---------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("items", "heard", "unsubscribed"),
    [
        pytest.param([on_next(210, 1), on_completed(220)], [on_next(210, 1), on_next(210, 1), on_completed(220)], 220, id="to its end"),
        pytest.param(
            [on_next(210, 1), on_next(220, -1), on_next(230, 2)],
            [on_next(210, 1), on_next(210, 1), on_error(220, Fault("negative"))],
            220,
            id="a fault of the stage disposes of the source",
        ),
        pytest.param(
            [on_next(210, 1), on_next(220, 0), on_next(230, 2)],
            [on_next(210, 1), on_next(210, 1), on_completed(220)],
            220,
            id="done disposes of the source",
        ),
        pytest.param([on_error(220, Fault("off"))], [on_error(220, Fault("off"))], 220, id="a fault of the source passes"),
        pytest.param([on_next(210, 1)], [on_next(210, 1), on_next(210, 1)], 1000, id="disposed of from outside: nothing more is said"),
    ],
)
def test_time(items: list[Any], heard: list[Any], unsubscribed: int) -> None:
    """
    When things happen, and when the source is left.
    """
    scheduler = TestScheduler()
    hot = scheduler.create_hot_observable(items)
    assert scheduler.start(lambda: hot.pipe(twice)).messages == heard
    assert hot.subscriptions == [ReactiveTest.subscribe(200, unsubscribed)]


def test_the_scheduler_is_passed_on() -> None:
    """
    A source is told which scheduler its subscriber brings, through any number of operators.
    """
    given: list[Any] = []
    scheduler = TestScheduler()

    def subscribe(observer: Any, scheduler: Any = None) -> abc.DisposableBase:
        given.append(scheduler)
        return Disposable()

    rx.create(subscribe).pipe(twice, ops.map(str), ops.map(int), twice).subscribe(scheduler=scheduler)
    assert given == [scheduler]


def test_each_subscription_has_a_stage_of_its_own() -> None:
    """
    Two at once, and one after the other: no state is shared.
    """
    made: list[Twice] = []

    def make() -> Twice:
        made.append(Twice())
        return made[-1]

    source: Subject[int] = Subject()
    stream = source.pipe(lift(make))
    first, second = Kept(), Kept()
    first.to(stream).dispose()
    first.to(stream)
    second.to(stream)
    source.on_next(0)
    assert len(made) == 3
    assert first.heard == second.heard == ["completed"]


def test_what_the_factory_raises_is_on_error() -> None:
    """
    A stage that cannot be made is a bare on_error (contract E7).
    """
    fault = ConfigurationError("no such thing")

    def make() -> Twice:
        raise fault

    kept = Kept()
    kept.to(rx.of(1).pipe(lift(make)))
    assert kept.heard == [fault]


# --- leaving --------------------------------------------------------------------------------------------------------------------------------------


def test_a_subscriber_that_leaves_stops_the_stage_in_the_middle_of_a_feed(source: Subject[int]) -> None:
    """
    take(1): the stage's work for the second emit is not done, the source is left, neither flush nor fail is called (contract E8, D4).
    """
    log: list[str] = []
    kept = Kept()
    kept.to(source.pipe(lift(lambda: Twice(log)), ops.take(1)))
    source.on_next(1)
    assert kept.heard == [1, "completed"]
    assert log == ["fed 1"]
    assert not source.observers


def test_dispose_in_on_next(source: Subject[int]) -> None:
    """
    A subscriber that disposes of itself gets not one more item.
    """
    log: list[str] = []
    kept = Kept(lambda item: subscription.dispose())
    subscription = kept.to(source.pipe(lift(lambda: Twice(log))))
    source.on_next(1)
    source.on_next(2)
    assert kept.heard == [1]
    assert log == ["fed 1"]
    assert not source.observers


def pushes_inside_subscribe(disposed: list[str]) -> Observable[int]:
    """
    A source that pushes before anybody holds its disposable.
    """

    def subscribe(observer: abc.ObserverBase[int], scheduler: Any = None) -> abc.DisposableBase:
        for n in (1, 2, 0, 3):
            observer.on_next(n)
        return Disposable(lambda: disposed.append("disposed"))

    return rx.create(subscribe)


def test_a_source_that_pushes_inside_subscribe() -> None:
    """
    It cannot be interrupted, but is disposed of at once when it returns; take(1) hears one item, and one behind the end is no work for the stage.
    """
    disposed: list[str] = []
    log: list[str] = []
    kept = Kept()
    kept.to(pushes_inside_subscribe(disposed).pipe(lift(lambda: Twice(log)), ops.take(1)))
    assert kept.heard == [1, "completed"]
    assert disposed == ["disposed"]
    assert "fed 3" not in log


def test_done_at_start_never_subscribes() -> None:
    """
    What is complete without the source leaves it alone.
    """

    class Done(Stage[int, int]):
        def start(self, emit: Emit[int]) -> None:
            emit(7)
            raise StreamDone

    def subscribe(observer: Any, scheduler: Any = None) -> abc.DisposableBase:
        raise AssertionError("subscribed")

    kept = Kept()
    kept.to(rx.create(subscribe).pipe(lift(Done)))
    assert kept.heard == [7, "completed"]


def test_a_source_that_goes_on_behind_the_end_is_not_heard() -> None:
    """
    Whatever is pushed behind the end of the stage reaches nobody.
    """
    pushed: list[Any] = []

    def subscribe(observer: abc.ObserverBase[int], scheduler: Any = None) -> abc.DisposableBase:
        pushed.append(observer)
        return Disposable()

    kept = Kept()
    # The stage is asked directly: RxPY's own wrapper would drop most of this before it.
    stage = Twice()
    bare: Any = Raw(pushed)
    rx.create(lambda observer, _: Lifted(stage, observer).connect(bare, None)).subscribe(kept.next, kept.error)
    lifted = pushed[0]
    lifted.on_next(0)
    lifted.on_next(1)
    lifted.on_completed()
    lifted.on_error(Fault("late"))
    assert kept.heard == []
    assert stage.log == []


class Raw:
    """
    A source without RxPY's wrapper: it holds the bare callbacks.
    """

    def __init__(self, pushed: list[Any]) -> None:
        self._pushed = pushed

    def subscribe(self, on_next: Any, on_error: Any, on_completed: Any, scheduler: Any = None) -> abc.DisposableBase:
        self._pushed.append(type("Callbacks", (), {"on_next": on_next, "on_error": on_error, "on_completed": on_completed}))
        return Disposable()


def test_a_finished_chain_is_freed_without_the_collector() -> None:
    """
    Nothing is kept by a stream that ended or was left.
    """
    gc.collect()
    gc.disable()
    try:
        source: Subject[int] = Subject()
        stage = Twice()
        gone = weakref.ref(stage)
        held = [stage]
        del stage
        subscription = source.pipe(lift(held.pop), ops.map(str), lift(TwiceText)).subscribe(lambda text: None)
        source.on_next(1)
        subscription.dispose()
        del subscription
        assert gone() is None
    finally:
        gc.enable()


class TwiceText(Stage[str, str]):
    def feed(self, item: str, emit: Emit[str]) -> None:
        emit(item)
        emit(item)


# --- subscribers that raise -----------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "operators",
    [
        pytest.param([twice], id="one lift"),
        pytest.param([twice, twice], id="two lifts"),
        pytest.param([twice, ops.map(lambda n: n), ops.filter(lambda n: True)], id="stock operators behind"),
        pytest.param([ops.map(lambda n: n), twice, ops.map(lambda n: n), twice], id="mixed"),
    ],
)
def test_what_a_subscriber_raises_is_told_to_it_alone(source: Subject[int], operators: list[Any]) -> None:
    """
    Its own on_error gets the very exception; the producer notices nothing, is left, and goes on serving others (contract E14).
    """
    error = ValueError("mine")
    kept, other = Kept(raising(error)), Kept()
    kept.to(source.pipe(*operators))
    other.to(source)
    source.on_next(1)
    source.on_next(2)
    assert kept.heard == [1, error]
    assert other.heard == [1, 2]
    assert len(source.observers) == 1


def test_a_subscriber_that_raises_is_no_fault_of_the_stage(source: Subject[int]) -> None:
    """
    No stage is told of it, neither the one that emitted nor those behind.
    """
    log: list[str] = []
    kept = Kept(raising(ValueError()))
    kept.to(source.pipe(lift(lambda: Twice(log)), lift(lambda: Twice(log))))
    source.on_next(1)
    assert log == ["fed 1", "fed 1"]


@pytest.mark.parametrize("interrupt", [KeyboardInterrupt, SystemExit, asyncio.CancelledError])
def test_an_interrupt_climbs_to_the_producer(source: Subject[int], interrupt: type[BaseException]) -> None:
    """
    It is nobody's on_error, but the source is left.
    """
    kept = Kept(raising(interrupt()))
    kept.to(source.pipe(twice, ops.map(lambda n: n), twice))
    with pytest.raises(interrupt):
        source.on_next(1)
    assert kept.heard == [1]
    assert not source.observers


def test_an_interrupt_inside_the_stage_climbs(source: Subject[int]) -> None:
    """
    Likewise one that hits the stage's own work.
    """

    class Interrupted(Stage[int, int]):
        def feed(self, item: int, emit: Emit[int]) -> None:
            raise KeyboardInterrupt

    kept = Kept()
    kept.to(source.pipe(lift(Interrupted)))
    with pytest.raises(KeyboardInterrupt):
        source.on_next(1)
    assert kept.heard == []
    assert not source.observers


# --- nobody listens -------------------------------------------------------------------------------------------------------------------------------


def logged(caplog: pytest.LogCaptureFixture) -> list[tuple[str, Any]]:
    return [(record.message, record.exc_info[1] if record.exc_info else None) for record in caplog.records if record.levelno == logging.ERROR]


NOBODY = "a stream failed and nobody listens (subscribe with on_error)"
BEHIND = "a subscriber raised behind its end"


def test_a_fault_without_on_error_is_logged_once(source: Subject[int], caplog: pytest.LogCaptureFixture) -> None:
    """
    It is not raised into the producer, and told once, however many operators stand in the way (contract D8).
    """
    for operators in ([twice], [twice, ops.map(lambda n: n), twice]):
        caplog.clear()
        seen: list[int] = []
        source.pipe(*operators).subscribe(seen.append)
        source.on_next(1)
        source.on_next(-1)
        assert [message for message, _ in logged(caplog)] == [NOBODY]
        assert isinstance(logged(caplog)[0][1], Fault)
    assert not source.observers


def test_a_failing_source_without_on_error_is_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    """
    Likewise where the source fails.
    """
    fault = Fault("off")
    rx.throw(fault).pipe(twice, twice).subscribe(lambda n: None)
    assert logged(caplog) == [(NOBODY, fault)]


def test_a_raising_subscriber_without_on_error_is_logged_once(source: Subject[int], caplog: pytest.LogCaptureFixture) -> None:
    """
    Likewise where the subscriber itself raises.
    """
    error = ValueError("mine")
    source.pipe(twice, ops.map(lambda n: n), twice).subscribe(raising(error))
    source.on_next(1)
    assert logged(caplog) == [(NOBODY, error)]
    assert not source.observers


def test_a_failing_mapper_without_on_error_is_logged_once(source: Subject[int], caplog: pytest.LogCaptureFixture) -> None:
    """
    A stock operator behind ours fails and nobody listens: RxPY has ended that subscription by then, so we can only say so.
    """
    error = ValueError("mapper")
    source.pipe(twice, ops.map(raising(error))).subscribe(lambda n: None)
    source.on_next(1)
    assert logged(caplog) == [(BEHIND, error)]
    assert not source.observers


def test_a_handler_that_raises_something_else_is_not_swallowed(source: Subject[int]) -> None:
    """
    A bug in the subscriber's on_error climbs to the producer, as RxPY has it.
    """

    def handler(error: Exception) -> None:
        raise LookupError("a bug in the handler")

    source.pipe(twice).subscribe(lambda n: None, handler)
    with pytest.raises(LookupError):
        source.on_next(-1)


async def test_await_works() -> None:
    """
    RxPY's own await takes the last item, or raises the fault; it may be cancelled.
    """
    assert await rx.of(1, 2).pipe(twice) == 2
    with pytest.raises(Fault, match="negative"):
        await rx.of(1, -1).pipe(twice)
    source: Subject[int] = Subject()
    to_future: Any = ops.to_future()
    waiting = to_future(source.pipe(twice))
    await asyncio.sleep(0)
    waiting.cancel()
    await asyncio.sleep(0)
    assert not source.observers


def test_the_trampoline_is_not_needed() -> None:
    """
    Subscribing inside a running trampoline starts at once, as any subscription does.
    """
    kept = Kept()
    CurrentThreadScheduler.singleton().schedule(lambda *_: kept.to(pushes_inside_subscribe([]).pipe(twice)))
    assert kept.heard == [1, 1, 2, 2, "completed"]
