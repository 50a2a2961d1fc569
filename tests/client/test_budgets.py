"""
The time budgets: each in virtual time, by hand and over sockets, and once in real time (contract D2, D3, P15).
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import aiohttp
import pytest
from aiohttp import web
from reactivex import abc
from reactivex.scheduler import (
    CatchScheduler,
    CurrentThreadScheduler,
    HistoricalScheduler,
    ImmediateScheduler,
    NewThreadScheduler,
    TimeoutScheduler,
    TrampolineScheduler,
    VirtualTimeScheduler,
)
from reactivex.scheduler.eventloop import AsyncIOScheduler, AsyncIOThreadSafeScheduler
from reactivex.testing import TestScheduler

from rxchat.client import ChatModel, HttpSettings, Retry
from rxchat.client.budgets import Deadline
from rxchat.client.clock import Clock, SchedulerClock, clock_of
from rxchat.client.http_body import CONNECTIONS
from rxchat.demand import Valve, ValveScheduler, to_async_iterable
from rxchat.errors import (
    ConfigurationError,
    ConnectTimeout,
    FirstEventTimeout,
    LimitExceeded,
    ReadTimeout,
    TotalTimeout,
    TransportTimeout,
    Verdict,
)
from rxchat.serialize import error_from_dict, error_to_dict
from tests.client.hand import Body, Hand
from tests.client.watching import Serve, Watcher, settled
from tests.grammar import violations
from tests.loopback import DONE, FINISH, GOOD, Script, answer, begin, delta, frame, hold

NEVER: dict[str, Any] = {"connect_timeout": None, "first_event_timeout": None, "read_timeout": None, "total_timeout": None, "retry": None}
PING = b": ping\n\n"
ANTHROPIC_PING = b'data: {"type":"ping"}\n\n'


def outcome(hand: Hand) -> tuple[Any, ...]:
    """
    How it failed: class, budget, verdict, when; nothing if it has not.
    """
    error = hand.watcher.error
    return (type(error), error.budget, hand.call.verdict) if isinstance(error, TransportTimeout) else ()


# --- each budget, by hand -------------------------------------------------------------------------------------------------------------------------

BUDGETS: list[tuple[str, dict[str, Any], Callable[[Hand, Body], object], type[TransportTimeout], str]] = [
    ("connect", {"connect_timeout": 10.0}, lambda hand, body: None, ConnectTimeout, "no connection within 10 s"),
    ("first event", {"first_event_timeout": 10.0}, lambda hand, body: body.connect(), FirstEventTimeout, "no content within 10 s"),
    ("first event, headers", {"first_event_timeout": 10.0}, lambda hand, body: body.headers(), FirstEventTimeout, "no content within 10 s"),
    (
        "first event, role",
        {"first_event_timeout": 10.0},
        lambda hand, body: body.headers().push(frame(delta={"role": "assistant", "content": ""}), PING),
        FirstEventTimeout,
        "no content within 10 s",
    ),
    (
        "first event of any kind",
        {"first_event_timeout": 10.0, "first_event": "any"},
        lambda hand, body: body.headers().push(PING),
        FirstEventTimeout,
        "no event within 10 s",
    ),
    ("read", {"read_timeout": 10.0}, lambda hand, body: body.headers(), ReadTimeout, "the provider was silent for 10 s"),
    ("total", {"total_timeout": 10.0}, lambda hand, body: None, TotalTimeout, "the answer was not complete within 10 s"),
    (
        "total, in text",
        {"total_timeout": 10.0},
        lambda hand, body: body.headers().push(delta("H")),
        TotalTimeout,
        "the answer was not complete within 10 s",
    ),
]


@pytest.mark.parametrize("settings, does, kind, words", [row[1:] for row in BUDGETS], ids=[row[0] for row in BUDGETS])
async def test_each_budget(settings: dict[str, Any], does: Callable[[Hand, Body], object], kind: type[TransportTimeout], words: str) -> None:
    """
    Not a moment sooner; its own class, verdict and words; the request is left, the stream balanced, one ErrorEvent.
    """
    hand = Hand.of(**NEVER | settings).begin()
    does(hand, hand.body)
    hand.wait(9.99)
    assert (outcome(hand), hand.body.left) == ((), False)
    hand.wait(0.02)
    assert (outcome(hand), hand.body.left) == ((kind, 10.0, kind.verdict), True)
    assert (str(hand.watcher.error), violations(hand.watcher.items), hand.watcher.failed) == (words, [], 1)
    assert hand.wait(1000).watcher.failed == 1


@pytest.mark.parametrize(
    "settings, does",
    [
        ({"connect_timeout": 10.0}, lambda hand: hand.body.connect()),
        ({"connect_timeout": 10.0}, lambda hand: hand.body.headers()),
        ({"first_event_timeout": 10.0}, lambda hand: hand.body.headers().push(delta("Hel"))),
        ({"first_event_timeout": 10.0}, lambda hand: hand.body.headers().push(frame(delta={"reasoning_content": "Hm"}))),
        ({"first_event_timeout": 10.0, "first_event": "any"}, lambda hand: hand.body.headers().push(frame(delta={"role": "assistant"}))),
        ({"read_timeout": 10.0}, lambda hand: hand.body.connect()),
        ({"connect_timeout": 10.0, "first_event_timeout": 10.0, "read_timeout": 10.0}, lambda hand: hand.body.headers().push(*GOOD)),
        ({"total_timeout": 10.0}, lambda hand: hand.body.headers().push(*GOOD)),
        ({"total_timeout": 10.0, "read_timeout": 10.0, "connect_timeout": 10.0}, lambda hand: hand.call.dispose()),
        ({"total_timeout": 10.0, "read_timeout": 10.0, "connect_timeout": 10.0}, lambda hand: hand.watcher.dispose()),
        ({"total_timeout": 10.0, "read_timeout": 10.0, "connect_timeout": 10.0}, lambda hand: hand.call.abort()),
    ],
)
async def test_a_budget_that_was_kept(settings: dict[str, Any], does: Callable[[Hand], object]) -> None:
    """
    What it waits for ends it, and so does the end of the call, whichever it is.
    """
    hand = Hand.of(**NEVER | settings).begin()
    hand.wait(9)
    does(hand)
    hand.wait(1000)
    assert outcome(hand) == ()


async def test_a_heartbeat_is_an_event_of_any_kind_but_no_content() -> None:
    """
    D2: for `first_event` "any" a ping is enough.
    """
    for first_event, ended in (("any", ()), ("content", (FirstEventTimeout, 10.0, Verdict.FIRST_EVENT_TIMEOUT))):
        hand = Hand.of("anthropic", **NEVER | {"first_event_timeout": 10.0, "first_event": first_event}).begin()
        hand.body.headers().push(ANTHROPIC_PING)
        assert outcome(hand.wait(11)) == ended


async def test_silence_begins_behind_every_read() -> None:
    """
    Bytes are life: comments, half a frame, anything.
    """
    hand = Hand.of(**NEVER | {"read_timeout": 10.0}).begin()
    hand.wait(500).body.headers()
    for piece in (PING, delta("Hel")[:9], delta("Hel")[9:], b":\n"):
        hand.wait(9).body.push(piece)
    assert outcome(hand.wait(9.9)) == ()
    assert outcome(hand.wait(0.2)) == (ReadTimeout, 10.0, Verdict.READ_TIMEOUT)


async def test_each_attempt_has_its_first_event_budget_and_the_call_its_total() -> None:
    """
    P15: the first-event clock begins with each request; the total one with the subscription.
    """
    hand = Hand.of(**NEVER | {"first_event_timeout": 10.0, "total_timeout": 25.0, "retry": Retry(attempts=9, first_wait=1, factor=1, jitter=0)})
    hand.begin().wait(10)
    assert (outcome(hand), hand.call.attempts) == ((), 1)
    hand.wait(11)
    assert (outcome(hand), hand.call.attempts, [body.asked_at for body in hand.bodies]) == ((), 2, [0.0, 11.0])
    hand.wait(4)
    assert (outcome(hand), hand.call.attempts) == ((TotalTimeout, 25.0, Verdict.TOTAL_TIMEOUT), 3)


async def test_time_that_passes_inside_on_next_fails_behind_it() -> None:
    """
    E14: a budget never cuts into what a subscriber is being told.
    """
    hand = Hand.of(**NEVER | {"total_timeout": 10.0})
    hand.watcher.on_next = lambda event: hand.scheduler.advance_by(20) if event.type == "TEXT_DELTA" else None
    hand.begin().body.headers().push(delta("Hel"))
    assert hand.types[-1] == "TEXT_DELTA"
    await hand.watcher.end()
    assert (outcome(hand), violations(hand.watcher.items)) == ((TotalTimeout, 10.0, Verdict.TOTAL_TIMEOUT), [])


@pytest.mark.parametrize(
    "wrong", [{"read_timeout": 0}, {"total_timeout": -1}, {"connect_timeout": float("nan")}, {"first_event": "some"}, {"on_stall": "x"}]
)
def test_a_budget_that_makes_no_sense(wrong: dict[str, Any]) -> None:
    """
    Refused when it is made, by name.
    """
    with pytest.raises(ConfigurationError, match=next(iter(wrong))):
        HttpSettings(**wrong)


# --- a consumer that holds ------------------------------------------------------------------------------------------------------------------------


async def test_silence_does_not_count_while_it_is_held() -> None:
    """
    D2, D3: what counted before goes on behind.
    """
    hand = Hand.of(**NEVER | {"read_timeout": 10.0, "first_event_timeout": 20.0}).begin()
    hand.body.headers().push(PING)
    hand.wait(6)
    hand.valve.hold()
    hand.wait(100)
    hand.valve.release()
    hand.wait(3.9)
    assert outcome(hand) == ()
    hand.body.push(PING)
    hand.wait(9)
    hand.valve.hold()
    hand.wait(0.5)
    hand.body.push(PING)
    hand.wait(3)
    hand.valve.release()
    assert (outcome(hand), outcome(hand.wait(1.2))) == ((), (FirstEventTimeout, 20.0, Verdict.FIRST_EVENT_TIMEOUT))


async def test_a_stall_is_seen_and_said_once(caplog: pytest.LogCaptureFixture) -> None:
    """
    D3: a state of the call, one warning per stall; it goes on when the valve is opened.
    """
    hand = Hand.of(**NEVER | {"stall_timeout": 5.0}).begin()
    seen: list[bool] = []
    with caplog.at_level(logging.INFO, logger="rxchat"):
        for held in (4.9, 5.1, 20, 1):
            hand.valve.hold()
            hand.wait(held)
            seen.append(hand.call.stalled)
            hand.valve.release()
            seen.append(hand.call.stalled)
    assert seen == [False, False, True, False, True, False, False, False]
    assert [(record.levelname, record.getMessage()) for record in caplog.records] == [
        ("WARNING", "a consumer has held a stream for 5 s; the provider may close the connection")
    ] * 2
    hand.body.headers().push(*GOOD)
    assert hand.call.verdict is Verdict.COMPLETE


async def test_a_stall_may_be_a_failure() -> None:
    """
    D3: by option; ErrorEvent, then on_error; never sent again. The error can be written and read.
    """
    hand = Hand.of(**NEVER | {"stall_timeout": 2.5, "on_stall": "error", "retry": Retry()}).begin()
    hand.valve.hold()
    hand.wait(3)
    error = hand.watcher.error
    assert isinstance(error, LimitExceeded)
    assert (error.limit, error.value, hand.types, hand.call.verdict) == ("stall_timeout", 2.5, ["RESPONSE_START", "ERROR"], Verdict.LIMIT)
    assert (error_to_dict(error_from_dict(error_to_dict(error))), hand.wait(99).call.attempts) == (error_to_dict(error), 1)


async def test_a_held_call_that_ends_lets_go_of_its_valve() -> None:
    """
    Disposal while it is held: no clock, no stall, whatever the valve does then.
    """
    hand = Hand.of(**NEVER | {"stall_timeout": 2.0, "on_stall": "error"}).begin()
    hand.valve.hold()
    hand.call.dispose()
    hand.wait(10)
    hand.valve.release()
    assert (hand.types, hand.call.stalled, hand.watcher.error) == (["RESPONSE_START"], False, None)


async def test_a_slow_async_for_is_a_stall(serve: Serve) -> None:
    """
    The usual consumer: nothing is lost, nobody is timed out for it.
    """
    server = await serve(answer(*[delta("x")] * 2000, FINISH, DONE))
    model = ChatModel("m", base_url=server.url, settings=HttpSettings(stall_timeout=0.05, read_timeout=0.3, retry=None, read_size=64))
    call = model.open("Hi")
    stalled, count = False, 0
    async for event in call.events.pipe(to_async_iterable(8, 2)):
        count += event.type == "TEXT_DELTA"
        if count == 20 and not stalled:
            await asyncio.sleep(0.5)
            stalled = call.stalled
    assert (stalled, count, call.verdict, call.stalled) == (True, 2000, Verdict.COMPLETE, False)
    assert (call.timings.stalled or 0) >= 0.3


# --- over sockets, in virtual time ----------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("make", [VirtualTimeScheduler, TestScheduler])
@pytest.mark.parametrize(
    "script, settings, kind",
    [
        (hold(headers=False), {"first_event_timeout": 600.0}, FirstEventTimeout),
        (hold(), {"read_timeout": 300.0}, ReadTimeout),
        (hold(delta("Hel")), {"read_timeout": 300.0}, ReadTimeout),
        (hold(delta("Hel")), {"total_timeout": 3600.0}, TotalTimeout),
    ],
    ids=["first-event", "read-before-body", "read-in-body", "total"],
)
async def test_a_held_answer_in_virtual_time(serve: Serve, make: Any, script: Script, settings: dict[str, Any], kind: type[TransportTimeout]) -> None:
    """
    The scheduler of the subscription is the clock; the server sees the client leave.
    """
    server = await serve(script)
    (budget,) = settings.values()
    call = ChatModel("m", base_url=server.url, settings=HttpSettings(**NEVER | settings)).open("Hi")
    scheduler = make()
    watcher = Watcher().watch(call.events, scheduler)
    await asyncio.wait_for(server.arrived.wait(), 5)
    await asyncio.sleep(0.1)
    scheduler.advance_by(budget - 1)
    assert call.verdict is None
    scheduler.advance_by(1.01)
    assert (type(watcher.error), call.verdict) == (kind, kind.verdict)
    await asyncio.wait_for(server.left.wait(), 5)


async def test_a_connection_that_is_not_made(serve: Serve) -> None:
    """
    A server whose queue is full, as a connector that never connects: the connect budget, and then no task is left.
    """

    class Deaf(aiohttp.TCPConnector):
        async def _create_connection(self, *args: Any, **kwargs: Any) -> Any:
            await asyncio.Event().wait()

    async with aiohttp.ClientSession(connector=Deaf()) as session:
        call = ChatModel("m", base_url="http://127.0.0.1:9", session=session, settings=HttpSettings(connect_timeout=15, retry=None)).open("Hi")
        scheduler = VirtualTimeScheduler()
        watcher = Watcher().watch(call.events, scheduler)
        await asyncio.sleep(0.05)
        scheduler.advance_by(16)
        assert (type(watcher.error), call.timings.connected) == (ConnectTimeout, None)
        assert await settled() == []


async def test_a_connection_that_is_there_ends_its_budget(serve: Serve) -> None:
    """
    Also one that is used again, and with a session of the caller's, whose own five minutes for a request do not count.
    """
    server = await serve(answer(*GOOD))
    async with aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=0.3)) as session:
        model = ChatModel("m", base_url=server.url, session=session, settings=HttpSettings(connect_timeout=0.5, retry=None))
        for _ in range(2):
            server.script = delayed(0.7)
            call = model.open("Hi")
            watcher = await Watcher().watch(call.events).end()
            assert (watcher.error, call.verdict) == (None, Verdict.COMPLETE)
            assert (call.timings.connected or 9) < 0.5 < (call.timings.headers or 0)
        assert session.trace_configs == [CONNECTIONS]
    assert server.seen[0].peer == server.seen[1].peer


def delayed(seconds: float) -> Script:
    """
    A good answer whose headers come late.
    """

    async def script(request: web.Request) -> web.StreamResponse:
        await asyncio.sleep(seconds)
        return await answer(*GOOD)(request)

    return script


# --- over sockets, in real time -------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "script, settings, kind",
    [
        (hold(headers=False), {"first_event_timeout": 0.15}, FirstEventTimeout),
        (hold(), {"read_timeout": 0.15}, ReadTimeout),
        (hold(delta("Hel")), {"read_timeout": 0.15}, ReadTimeout),
        (hold(delta("Hel")), {"total_timeout": 0.15}, TotalTimeout),
    ],
    ids=["first-event", "read-before-body", "read-in-body", "total"],
)
async def test_a_held_answer_in_real_time(serve: Serve, script: Script, settings: dict[str, Any], kind: type[TransportTimeout]) -> None:
    """
    Once with the loop's own clock.
    """
    server = await serve(script)
    call = ChatModel("m", base_url=server.url, settings=HttpSettings(**NEVER | settings)).open("Hi")
    watcher = await Watcher().watch(call.events).end()
    assert (type(watcher.error), call.verdict, 0.15 <= (call.timings.ended or 0) < 2) == (kind, kind.verdict, True)
    await asyncio.wait_for(server.left.wait(), 5)


async def test_no_read_timeout_while_bytes_come(serve: Serve) -> None:
    """
    The budget is one of silence, not of the whole.
    """

    async def slow(request: web.Request) -> web.StreamResponse:
        response = await begin(request)
        for _ in range(8):
            await response.write(PING)
            await asyncio.sleep(0.06)
        for chunk in GOOD:
            await response.write(chunk)
        return response

    server = await serve(slow)
    response = await ChatModel("m", base_url=server.url, settings=HttpSettings(read_timeout=0.45, retry=None)).call("Hi")
    assert response.verdict is Verdict.COMPLETE


async def test_a_subscriber_that_is_slow_is_no_silence(serve: Serve) -> None:
    """
    D3: a synchronous one blocks the loop; what the provider sent meanwhile is read before anybody is blamed.
    """
    import time

    server = await serve(answer(delta("Hel"), delta("lo"), FINISH, DONE))
    call = ChatModel("m", base_url=server.url, settings=HttpSettings(read_timeout=0.3, retry=None)).open("Hi")
    watcher = Watcher(on_next=lambda event: time.sleep(0.4) if event.type == "TEXT_DELTA" else None)
    await watcher.watch(call.events).end()
    assert (watcher.error, call.response.text) == (None, "Hello")


# --- the clock ------------------------------------------------------------------------------------------------------------------------------------


@contextmanager
def asyncio_debug() -> Iterator[asyncio.AbstractEventLoop]:
    """
    The running loop, which complains about calls from other threads.
    """
    loop = asyncio.get_running_loop()
    loop.set_debug(True)
    try:
        yield loop
    finally:
        loop.set_debug(False)


async def test_which_clock_a_scheduler_gives() -> None:
    """
    None, the loop's own, and those that would block it: the loop's. All others: their own, also behind a valve.
    """
    loop = asyncio.get_running_loop()
    the_loops = [
        None,
        AsyncIOScheduler(loop),
        AsyncIOThreadSafeScheduler(loop),
        ImmediateScheduler(),
        TrampolineScheduler(),
        CurrentThreadScheduler(),
    ]
    valved = [ValveScheduler(scheduler or ImmediateScheduler(), Valve()) for scheduler in the_loops]
    caught = CatchScheduler(ImmediateScheduler(), lambda error: True)
    assert {type(clock_of(scheduler)) for scheduler in (*the_loops, *valved, caught)} == {Clock}
    others: list[abc.SchedulerBase] = [
        VirtualTimeScheduler(),
        TestScheduler(),
        HistoricalScheduler(),
        NewThreadScheduler(),
        TimeoutScheduler.singleton(),
    ]
    assert {type(clock_of(ValveScheduler(scheduler, Valve()))) for scheduler in others} == {SchedulerClock}


@pytest.mark.parametrize("make", [lambda: None, NewThreadScheduler, TimeoutScheduler.singleton])
async def test_it_calls_in_the_loops_thread(make: Callable[[], Any]) -> None:
    """
    D2: whatever thread the scheduler fires in; not before its time, and not if it was taken back.
    """
    with asyncio_debug() as loop:
        clock, due = clock_of(make()), asyncio.Event()
        called: list[object] = []

        def note() -> None:
            called.append(threading.current_thread())
            due.set()

        before, began = clock.now(), loop.time()
        taken_back = clock.later(0.01, lambda: called.append("never"))
        clock.later(0.05, note)
        taken_back.dispose()
        await asyncio.wait_for(due.wait(), 5)
    assert (called, loop.time() - began >= 0.045, clock.now() - before > 0.02) == ([threading.main_thread()], True, True)


async def test_it_can_be_taken_back_between_two_threads() -> None:
    """
    Fired in its thread, disposed of in the loop before the loop came to it.
    """
    scheduler, called = NewThreadScheduler(), []
    clock, fired = clock_of(scheduler), threading.Event()
    loop = asyncio.get_running_loop()
    later = clock.later(0.0, lambda: called.append("never"))
    scheduler.schedule_relative(0.05, lambda *_: fired.set())
    fired.wait(5)
    later.dispose()
    await asyncio.sleep(0.05)
    assert (called, loop.is_running()) == ([], True)


def test_a_clock_outlives_its_loop() -> None:
    """
    Virtual time that goes on behind the end of the loop does nothing.
    """
    scheduler, called = VirtualTimeScheduler(0.0), []

    async def ask() -> None:
        clock_of(scheduler).later(5, lambda: called.append("never"))

    asyncio.run(ask())
    scheduler.advance_by(10)
    assert called == []


async def test_historical_time_is_time_too() -> None:
    """
    A virtual clock of dates.
    """
    scheduler = HistoricalScheduler()
    clock, called = clock_of(scheduler), []
    clock.later(5, lambda: called.append(clock.now() - began))
    began = clock.now()
    scheduler.advance_by(4)
    assert called == []
    scheduler.advance_by(2)
    assert [round(seconds, 3) for seconds in called] == [5]


async def test_a_deadline_looks_again_instead_of_being_set_anew() -> None:
    """
    A read costs no timer: one is set when it begins, one when it fires too early.
    """
    scheduler = VirtualTimeScheduler(0.0)
    clock, called, set_for = clock_of(scheduler), [], []
    later = clock.later

    def watched(seconds: float, action: Callable[[], None]) -> abc.DisposableBase:
        set_for.append(seconds)
        return later(seconds, action)

    clock.later = watched  # type: ignore[method-assign]
    deadline = Deadline(clock, 10.0, lambda: called.append(clock.now()))
    deadline.start()
    for _ in range(4):
        scheduler.advance_by(2)
        deadline.touch(clock.now())
    scheduler.advance_by(20)
    assert (called, set_for) == ([18.0], [10.0, 8.0])
    deadline.release()
    deadline.stop()
