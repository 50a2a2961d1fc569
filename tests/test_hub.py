"""
`share_events`: one request, many subscribers who do not disturb each other (contract D1, D3, E14).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Any

import pytest
import reactivex as rx
from hypothesis import given
from hypothesis import strategies as st
from reactivex import Observable, abc
from reactivex import operators as ops
from reactivex.disposable import Disposable
from reactivex.subject import Subject
from reactivex.testing import TestScheduler

from rxchat.demand import Valve, ValveScheduler, carrying, to_async_iterable, valve_of
from rxchat.errors import ConfigurationError, LimitExceeded
from rxchat.hub import share_events
from tests.scripted import Fault
from tests.test_demand import Pump, turns


class Source:
    """
    A hot source that counts who asks.
    """

    def __init__(self) -> None:
        self.subject: Subject[Any] = Subject()
        self.asked = 0
        self.schedulers: list[Any] = []
        self.stream: Observable[Any] = rx.create(self._subscribe)

    def _subscribe(self, observer: abc.ObserverBase[Any], scheduler: abc.SchedulerBase | None = None) -> abc.DisposableBase:
        self.asked += 1
        self.schedulers.append(scheduler)
        return self.subject.subscribe(observer)

    def push(self, *items: Any) -> None:
        for item in items:
            self.subject.on_next(item)

    @property
    def left(self) -> bool:
        return not self.subject.observers


class Listener:
    """
    A subscriber: what it heard, by which valve it is slow.
    """

    def __init__(self, stream: Observable[Any], do: Callable[[Any], None] = lambda item: None, valve: Valve | None = None) -> None:
        self.heard: list[Any] = []
        self._do = do
        scheduler = ValveScheduler(TestScheduler(), valve) if valve else None
        self.subscription = stream.subscribe(self._next, self.heard.append, lambda: self.heard.append("completed"), scheduler=scheduler)

    def _next(self, item: Any) -> None:
        self.heard.append(item)
        self._do(item)


def raising(error: BaseException) -> Callable[[Any], None]:
    def do(item: Any) -> None:
        raise error

    return do


@pytest.fixture
def source() -> Source:
    return Source()


# --- one subscription -----------------------------------------------------------------------------------------------------------------------------


def test_one_request_for_all(source: Source) -> None:
    """
    The first subscriber starts it, the last one to leave ends it.
    """
    shared = source.stream.pipe(share_events())
    assert source.asked == 0
    first, second = Listener(shared), Listener(shared)
    source.push(1)
    first.subscription.dispose()
    first.subscription.dispose()
    source.push(2)
    assert not source.left
    second.subscription.dispose()
    assert source.left
    assert (source.asked, first.heard, second.heard) == (1, [1], [1, 2])


def test_who_comes_when_all_have_left_begins_anew(source: Source) -> None:
    """
    With nothing kept of the time before.
    """
    shared = source.stream.pipe(share_events(replay=5))
    Listener(shared).subscription.dispose()
    first = Listener(shared)
    source.push(1)
    first.subscription.dispose()
    second = Listener(shared)
    assert (source.asked, second.heard) == (3, [])


@pytest.mark.parametrize(
    ("replay", "expected"),
    [(0, [4]), (1, [3, 4]), (2, [2, 3, 4]), (9, [1, 2, 3, 4])],
)
def test_who_comes_late_gets_the_last_items(source: Source, replay: int, expected: list[int]) -> None:
    """
    At most `replay` of them, then what comes.
    """
    shared = source.stream.pipe(share_events(replay))
    Listener(shared)
    source.push(1, 2, 3)
    late = Listener(shared)
    source.push(4)
    assert late.heard == expected


@pytest.mark.parametrize("fault", [None, Fault("off")])
def test_behind_the_end(source: Source, fault: Fault | None) -> None:
    """
    The last items and the end; the source is not asked again.
    """
    shared = source.stream.pipe(share_events(replay=1))
    early = Listener(shared)
    source.push(1, 2)
    source.subject.on_completed() if fault is None else source.subject.on_error(fault)
    late = Listener(shared)
    end = fault or "completed"
    assert (early.heard, late.heard, source.asked) == ([1, 2, end], [2, end], 1)


def test_a_source_that_pushes_inside_subscribe() -> None:
    """
    The first one hears all; leaving in the middle disposes of the source when it can be.
    """
    disposed: list[str] = []

    def subscribe(observer: Any, scheduler: Any = None) -> abc.DisposableBase:
        observer.on_next(1)
        observer.on_next(2)
        return Disposable(lambda: disposed.append("disposed"))

    shared = rx.create(subscribe).pipe(share_events())
    assert Listener(shared.pipe(ops.take(1))).heard == [1, "completed"]
    assert disposed == ["disposed"]
    assert Listener(rx.of(1, 2).pipe(share_events())).heard == [1, 2, "completed"]


def test_subscribers_that_come_and_go_in_the_middle_of_an_item(source: Source) -> None:
    """
    Who leaves gets no more, also of the item at hand; who comes gets the item at hand once, by the replay.
    """
    shared = source.stream.pipe(share_events(replay=1))
    late: list[Listener] = []

    def change(item: int) -> None:
        if item == 1:
            second.subscription.dispose()
            late.append(Listener(shared))

    Listener(shared, change)
    second = Listener(shared)
    source.push(1, 2)
    assert second.heard == []
    assert late[0].heard == [1, 2]


# --- isolation ------------------------------------------------------------------------------------------------------------------------------------


def test_a_subscriber_that_raises_disturbs_nobody(source: Source) -> None:
    """
    It alone hears of it, unwrapped; the others get the same item and all that follow (contract E14).
    """
    error = ValueError("mine")
    shared = source.stream.pipe(share_events())
    before, bad, after = Listener(shared), Listener(shared, raising(error)), Listener(shared)
    source.push(1, 2)
    source.subject.on_completed()
    assert bad.heard == [1, error]
    assert before.heard == after.heard == [1, 2, "completed"]


def test_the_only_subscriber_that_raises_ends_the_source(source: Source) -> None:
    """
    Nobody is left.
    """
    Listener(source.stream.pipe(share_events()), raising(ValueError()))
    source.push(1)
    assert source.left


def test_one_that_raises_in_the_replay(source: Source) -> None:
    """
    Likewise when it comes late.
    """
    error = ValueError("mine")
    shared = source.stream.pipe(share_events(replay=2))
    good = Listener(shared)
    source.push(1, 2)
    assert Listener(shared, raising(error)).heard == [1, error]
    source.push(3)
    assert good.heard == [1, 2, 3]


def test_nobody_listens_for_errors(source: Source, caplog: pytest.LogCaptureFixture) -> None:
    """
    Each such subscriber is one line in the log (contract D8); a bug in a handler is one, too; the others are told.
    """

    def bug(error: Exception) -> None:
        raise LookupError("a bug in the handler")

    shared = source.stream.pipe(share_events())
    shared.subscribe(lambda item: None)
    shared.subscribe(lambda item: None, bug)
    last = Listener(shared)
    source.subject.on_error(Fault("off"))
    assert [type(item) for item in last.heard] == [Fault]
    assert [record.levelno for record in caplog.records] == [logging.ERROR, logging.ERROR]


def test_an_interrupt_climbs(source: Source) -> None:
    """
    It is no subscriber's business.
    """
    Listener(source.stream.pipe(share_events()), raising(KeyboardInterrupt()))
    with pytest.raises(KeyboardInterrupt):
        source.push(1)


# --- slow subscribers -----------------------------------------------------------------------------------------------------------------------------


def test_pause_holds_the_source(source: Source) -> None:
    """
    While any subscriber holds its valve, the source's is held; it opens when none does, or those who do have left.
    """
    one, two = Valve(), Valve()
    shared = source.stream.pipe(share_events())
    first, second = Listener(shared, valve=one), Listener(shared, valve=two)
    upstream = valve_of(source.schedulers[0])
    assert upstream is not None
    assert upstream not in (one, two)
    one.hold()
    two.hold()
    source.push(1)
    assert (first.heard, second.heard, upstream.held) == ([1], [1], True)
    one.release()
    assert upstream.held
    second.subscription.dispose()
    assert not upstream.held
    one.hold()
    assert upstream.held
    first.subscription.dispose()
    assert not upstream.held


@pytest.mark.parametrize("slow", ["error", "drop_oldest"])
def test_the_others_do_not_hold_it(source: Source, slow: Any) -> None:
    """
    Nobody waits for a slow subscriber; its items wait for it, and then the end.
    """
    valve = Valve()
    shared = source.stream.pipe(share_events(slow=slow, pending=3))
    lazy, keen = Listener(shared, valve=valve), Listener(shared)
    source.push(1)
    valve.hold()
    source.push(2, 3, 4)
    source.subject.on_completed()
    upstream = valve_of(source.schedulers[0])
    assert upstream is not None
    assert not upstream.held
    assert (lazy.heard, keen.heard) == ([1], [1, 2, 3, 4, "completed"])
    valve.release()
    assert lazy.heard == [1, 2, 3, 4, "completed"]


def test_error_drops_the_slow_one(source: Source) -> None:
    """
    At exactly pending + 1 it hears LimitExceeded, at once; the others go on (contract B5).
    """
    valve = Valve()
    shared = source.stream.pipe(share_events(slow="error", pending=2))
    lazy, keen = Listener(shared, valve=valve), Listener(shared)
    valve.hold()
    source.push(1, 2)
    assert lazy.heard == []
    source.push(3, 4)
    (error,) = lazy.heard
    assert isinstance(error, LimitExceeded)
    assert (error.limit, error.value) == ("pending", 2)
    valve.release()
    assert (len(lazy.heard), keen.heard) == (1, [1, 2, 3, 4])


def test_drop_oldest_forgets(source: Source) -> None:
    """
    The newest `pending` are kept.
    """
    valve = Valve()
    lazy = Listener(source.stream.pipe(share_events(slow="drop_oldest", pending=2)), valve=valve)
    valve.hold()
    source.push(1, 2, 3, 4)
    valve.release()
    source.push(5)
    assert lazy.heard == [3, 4, 5]


def test_held_again_while_it_catches_up(source: Source) -> None:
    """
    It is given no more than it can take; leaving in between ends it.
    """
    valve = Valve()

    def full(item: int) -> None:
        if item % 2 == 0:
            valve.hold()

    lazy = Listener(source.stream.pipe(share_events(slow="error")), full, valve)
    valve.hold()
    source.push(1, 2, 3, 4, 5)
    valve.release()
    assert lazy.heard == [1, 2]
    valve.release()
    assert lazy.heard == [1, 2, 3, 4]
    source.subject.on_completed()
    assert lazy.heard == [1, 2, 3, 4]
    lazy.subscription.dispose()
    valve.release()
    assert lazy.heard == [1, 2, 3, 4]


async def test_the_slowest_async_for_slows_the_source() -> None:
    """
    UI, agent and log on one stream: at most `high` items and one read wait for the slowest; all get all.
    """
    pump = Pump(total=500, size=5)
    shared = pump.stream.pipe(share_events())
    keen: list[int] = []
    most = 0

    async def slow() -> list[int]:
        nonlocal most
        seen: list[int] = []
        async for item in shared.pipe(to_async_iterable(high=20, low=5)):
            seen.append(item)
            most = max(most, pump.read - len(seen))
            await turns(4)
        return seen

    async def fast() -> list[int]:
        return [item async for item in shared.pipe(to_async_iterable())]

    working = [asyncio.ensure_future(slow()), asyncio.ensure_future(fast())]
    await turns(1)
    shared.subscribe(keen.append)
    assert await asyncio.gather(*working) == [[*range(500)], [*range(500)]]
    assert most < 20 + 5
    assert len(pump.tasks) == 1


async def test_a_slow_one_that_leaves_lets_the_source_go_on() -> None:
    """
    Its hold goes with it.
    """
    pump = Pump(total=200)
    shared = pump.stream.pipe(share_events())
    heard: list[int] = []

    async def take_one() -> None:
        async for _ in shared.pipe(to_async_iterable(high=5, low=1)):
            await turns(50)
            break

    leaving = asyncio.ensure_future(take_one())
    await turns(1)
    done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    shared.subscribe(heard.append, on_completed=lambda: done.set_result(None))
    await leaving
    await asyncio.wait_for(done, 5)
    assert heard[-1] == 199


def test_without_a_loop_the_scheduler_passes_as_it_is(source: Source) -> None:
    """
    A synchronous program has no clock of its own to carry a valve, and needs none.
    """
    Listener(source.stream.pipe(share_events()))
    assert source.schedulers == [None]


async def test_on_a_loop_the_source_always_gets_a_valve(source: Source) -> None:
    """
    Also if the first subscriber is never slow: the next one may be.
    """
    Listener(source.stream.pipe(share_events()))
    assert valve_of(source.schedulers[0]) is not None
    assert carrying(Valve(), None) is not None


# --- any interleaving -----------------------------------------------------------------------------------------------------------------------------


class Model:
    """
    What a hub is to do, said without a hub: every subscriber's own list.
    """

    def __init__(self, replay: int, slow: str, pending: int) -> None:
        self.replay, self.slow, self.pending = replay, slow, pending
        self.kept: list[int] = []
        self.end: Any = None
        self.heard: dict[int, list[Any]] = {}
        self.waiting: dict[int, list[int]] = {}
        self.held: set[int] = set()
        self.raises: set[int] = set()
        self.here: list[int] = []
        self.asked = 0
        self.running = False

    def join(self, who: int, held: bool, raises: bool) -> None:
        self.heard[who], self.waiting[who] = [], []
        self.here.append(who)
        if held:
            self.held.add(who)
        if raises:
            self.raises.add(who)
        for item in self.kept[-self.replay :] if self.replay else []:
            self.give(who, item)
        if self.end is not None:
            self.tell_end(who)
        elif who in self.here and not self.running:
            self.running = True
            self.asked += 1

    def give(self, who: int, item: int) -> None:
        if who not in self.here:
            return
        if who not in self.held or self.slow == "pause":
            self.push(who, item)
        elif len(self.waiting[who]) < self.pending:
            self.waiting[who].append(item)
        elif self.slow == "drop_oldest":
            self.waiting[who] = [*self.waiting[who][1:], item]
        else:
            self.heard[who].append("too slow")
            self.leave(who, end=False)

    def push(self, who: int, item: int) -> None:
        self.heard[who].append(item)
        if who in self.raises:
            self.heard[who].append("mine")
            self.leave(who, end=False)

    def leave(self, who: int, end: bool = True) -> None:
        if who in self.here:
            self.here.remove(who)
        self.waiting[who] = []

    def left(self) -> None:
        """
        Behind each act: the last one to leave ends the stream that runs.
        """
        if self.running and self.end is None and not self.here:
            self.running = False
            self.kept = []

    def tell_end(self, who: int) -> None:
        if who in self.here and (who not in self.held or self.slow == "pause"):
            self.heard[who].append(self.end)
            self.leave(who)

    def open(self, who: int) -> None:
        self.held.discard(who)
        for item in self.waiting.pop(who, []):
            if who in self.here:
                self.push(who, item)
        self.waiting[who] = []
        if self.end is not None:
            self.tell_end(who)

    def item(self, item: int) -> None:
        if self.running and self.end is None:
            self.kept.append(item)
            for who in tuple(self.here):
                self.give(who, item)

    def finish(self, end: Any) -> None:
        if self.running and self.end is None:
            self.end = end
            for who in tuple(self.here):
                self.tell_end(who)


# By weight: many items and holds, few ends, for behind an end not much happens.
WORDS = ["join"] * 3 + ["join slow", "join raising", "leave", "leave", "hold", "hold", "hold", "open", "open"] + ["push"] * 12 + ["end"]
ACTS = st.lists(st.tuples(st.sampled_from(WORDS), st.integers(0, 30)), min_size=25, max_size=60)


@given(ACTS, st.integers(0, 3), st.sampled_from(["pause", "error", "drop_oldest"]), st.integers(1, 3))
def test_any_interleaving(acts: list[tuple[str, int]], replay: int, slow: Any, pending: int) -> None:
    """
    Who comes, leaves, is slow, raises, in any order: each hears what the model says, one subscription at a time, disposed of when nobody is left.
    """
    source, model = Source(), Model(replay, slow, pending)
    shared = source.stream.pipe(share_events(replay, slow, pending=pending))
    listeners: list[Listener] = []
    valves: list[Valve] = []
    mine, off = ValueError("mine"), Fault("off")
    for n, (act, number) in enumerate(acts):
        who = number % len(listeners) if listeners else 0
        if act.startswith("join"):
            valves.append(Valve())
            if act == "join slow":
                valves[-1].hold()
            model.join(len(listeners), act == "join slow", act == "join raising")
            listeners.append(Listener(shared, raising(mine) if act == "join raising" else lambda item: None, valves[-1]))
        elif act == "push":
            model.item(n)
            source.push(n)
        elif act == "end":
            model.finish("completed" if number % 2 else off)
            source.subject.on_completed() if number % 2 else source.subject.on_error(off)
            source.subject = Subject()
        elif not listeners:
            continue
        elif act == "leave":
            model.leave(who)
            listeners[who].subscription.dispose()
        elif act == "hold" and not valves[who].held:
            model.held.add(who)
            valves[who].hold()
        elif act == "open" and valves[who].held:
            model.open(who)
            valves[who].release()
        model.left()
        assert [told(listener) for listener in listeners] == [model.heard[k] for k in range(len(listeners))]
        assert source.asked == model.asked
        assert source.left is not (model.running and model.end is None)
        if slow == "pause" and model.running and model.end is None:
            upstream = valve_of(source.schedulers[-1])
            assert upstream is not None
            assert upstream.held is any(who in model.held for who in model.here)


def told(listener: Listener) -> list[Any]:
    """
    What it heard, in the model's words.
    """
    words = {LimitExceeded: "too slow", ValueError: "mine"}
    return [words.get(type(item), item) for item in listener.heard]


@pytest.mark.parametrize("wrong", [{"slow": "wait"}, {"replay": -1}, {"pending": 0}])
def test_what_cannot_be(wrong: dict[str, Any]) -> None:
    """
    Said at once.
    """
    with pytest.raises(ConfigurationError):
        share_events(**wrong)
