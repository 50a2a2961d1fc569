"""
Virtual time while a real loop turns: `VirtualClock`.
"""

from __future__ import annotations

import asyncio
import itertools
from typing import Any

import pytest
import reactivex as rx
from reactivex import operators as ops

from rxchat.client import ChatModel, HttpSettings, Retry
from rxchat.errors import Verdict
from rxchat.events import ChatEvent, TextDelta
from rxchat.records import batch_text, to_records
from rxchat.testing import VirtualClock
from tests.client.watching import settled
from tests.loopback import GOOD, Script, answer, delta, hold, in_turn, loopback


async def test_time_passes_only_when_told() -> None:
    """
    Timers fire in their order, at their times, however they were scheduled; one that was taken back does not.
    """
    clock, said = VirtualClock(), [("made", 0.0)]

    def note(name: str) -> Any:
        return lambda *_: said.append((name, clock.seconds))

    clock.scheduler.schedule_relative(5, note("five"))
    clock.scheduler.schedule_relative(2, note("two"))
    clock.scheduler.schedule(note("now"))
    clock.scheduler.schedule_absolute(3.0, note("three"))
    clock.scheduler.schedule_relative(1, note("never")).dispose()
    await clock.settle()
    assert said == [("made", 0.0), ("now", 0.0)]
    await clock.advance(3)
    assert said[2:] == [("two", 2.0), ("three", 3.0)]
    await clock.advance(1)
    assert (clock.seconds, len(said)) == (4.0, 4)
    await clock.advance(1)
    assert said[4:] == [("five", 5.0)]


async def test_a_busy_machine_is_not_taken_for_an_idle_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    """
    However long somebody else has the processor between two turns, the work at hand goes on before time does.
    """
    clock, rang = VirtualClock(), list[float]()

    async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(await reader.readline())
        writer.close()

    async def work(port: int) -> bytes:
        budget = clock.scheduler.schedule_relative(15, lambda *_: rang.append(clock.seconds))
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(b"hello\n")
        said = await reader.read()
        budget.dispose()
        writer.close()
        return said

    async with await asyncio.start_server(echo, "127.0.0.1", 0) as server:
        seconds = itertools.count(asyncio.get_running_loop().time())
        monkeypatch.setattr(asyncio.get_running_loop(), "time", lambda: next(seconds))
        assert await clock.run(work(server.sockets[0].getsockname()[1])) == b"hello\n"
        monkeypatch.undo()
    assert (rang, clock.seconds) == ([], 0.0)


async def test_what_a_timer_starts_has_its_turn_before_the_next_timer() -> None:
    """
    A task between two timers runs at the time of the first, and may set timers of its own on the way.
    """
    clock, said = VirtualClock(), [0.0]
    rang = asyncio.Event()

    async def work() -> None:
        await rang.wait()
        for _ in range(20):
            await asyncio.sleep(0)
        said.append(clock.seconds)
        clock.scheduler.schedule_relative(0.5, lambda *_: said.append(clock.seconds))

    task = asyncio.ensure_future(work())
    clock.scheduler.schedule_relative(1, lambda *_: rang.set())
    clock.scheduler.schedule_relative(2, lambda *_: said.append(clock.seconds))
    await clock.advance(10)
    await task
    assert (said, clock.seconds) == ([0.0, 1.0, 1.5, 2.0], 10.0)


async def test_windows_of_a_batch_take_no_time() -> None:
    """
    `batch_text` closes its window when the clock says so, and records bear its time.
    """
    clock, seen = VirtualClock(), list[ChatEvent]()
    source: rx.subject.Subject[ChatEvent] = rx.subject.Subject()
    source.pipe(batch_text(0.5)).subscribe(seen.append, scheduler=clock.scheduler)
    source.on_next(TextDelta("Hel"))
    await clock.advance(0.4)
    source.on_next(TextDelta("lo"))
    assert seen == []
    await clock.advance(0.1)
    assert seen == [TextDelta("Hello")]
    times: list[Any] = []
    rx.of(TextDelta("x")).pipe(to_records()).subscribe(lambda record: times.append(record.time), scheduler=clock.scheduler)
    await clock.settle()
    assert times == [clock.scheduler.now]


async def test_stock_operators_obey_it() -> None:
    """
    An interval of hours is over at once.
    """
    clock, seen = VirtualClock(), list[int]()
    rx.interval(3600.0).pipe(ops.take(3)).subscribe(seen.append, scheduler=clock.scheduler)
    await clock.advance(2 * 3600)
    assert seen == [0, 1]
    await clock.advance(3600)
    assert seen == [0, 1, 2]


async def test_run_jumps_to_the_end() -> None:
    """
    From timer to timer, as long as the work needs; its failure is raised.
    """
    clock = VirtualClock()

    async def work(fail: bool) -> float:
        for _ in range(3):
            rang = asyncio.Event()
            clock.scheduler.schedule_relative(100, lambda *_, rang=rang: rang.set())
            await rang.wait()
        if fail:
            raise LookupError("no")
        return clock.seconds

    assert await clock.run(work(False)) == 300.0
    with pytest.raises(LookupError):
        await clock.run(work(True))
    assert clock.seconds == 600.0


@pytest.mark.parametrize(("due", "words"), [(None, "no timer is left"), (11, "not done within 10 s")])
async def test_run_gives_up(due: float | None, words: str) -> None:
    """
    When nothing can end the work any more, or not soon enough; the work is cancelled.
    """
    clock = VirtualClock()
    if due is not None:
        clock.scheduler.schedule_relative(due, lambda *_: None)
    never: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    with pytest.raises(TimeoutError, match=words):
        await clock.run(never, longest=10)
    assert never.cancelled()


async def test_sockets_have_their_time() -> None:
    """
    Settling waits for what is on its way through the loop, however many turns it takes.
    """
    clock, said = VirtualClock(), list[bytes]()

    async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while line := await reader.readline():
            writer.write(line)
        writer.close()
        await writer.wait_closed()

    async def talk(port: int) -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        for n in range(20):
            writer.write(b"%d\n" % n)
            said.append(await reader.readline())
        writer.close()
        await writer.wait_closed()

    server = await asyncio.start_server(echo, "127.0.0.1", 0)
    async with server:
        task = asyncio.ensure_future(talk(server.sockets[0].getsockname()[1]))
        await clock.settle()
        assert task.done()
        await task
    assert len(said) == 20


class Bare:
    """
    A loop of another kind: it does not tell what is ready.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.time = loop.time


async def test_a_loop_of_another_kind(monkeypatch: pytest.MonkeyPatch) -> None:
    """
    There the time alone decides.
    """
    clock, said = VirtualClock(), list[str]()
    asyncio.get_running_loop().call_soon(said.append, "turned")
    bare = Bare(asyncio.get_running_loop())
    monkeypatch.setattr("rxchat.testing.virtual.asyncio.get_running_loop", lambda: bare)
    await clock.settle()
    assert said == ["turned"]


# --- the client -----------------------------------------------------------------------------------------------------------------------------------

NONE: dict[str, Any] = {
    "connect_timeout": None,
    "first_event_timeout": None,
    "read_timeout": None,
    "total_timeout": None,
    "stall_timeout": None,
    "retry": None,
}
SILENT, HELLO = hold(headers=False), hold(delta("Hello"))
BUSY = answer(b"{}", status=429, content_type="application/json", headers={"retry-after": "50"})
DOWN = answer(b"{}", status=500, content_type="application/json")

BUDGETS: list[tuple[str, dict[str, Any], Script, Verdict, float]] = [
    ("no first event", {"first_event_timeout": 600}, SILENT, Verdict.FIRST_EVENT_TIMEOUT, 600),
    ("silence", {"read_timeout": 300}, HELLO, Verdict.READ_TIMEOUT, 300),
    ("all of it", {"total_timeout": 3600}, HELLO, Verdict.TOTAL_TIMEOUT, 3600),
    ("asked to wait", {"retry": Retry(attempts=2)}, in_turn([BUSY, answer(*GOOD)]), Verdict.COMPLETE, 50),
    (
        "waits that grow",
        {"retry": Retry(first_wait=100, factor=3, longest_wait=1000, jitter=0)},
        in_turn([DOWN, DOWN, answer(*GOOD)]),
        Verdict.COMPLETE,
        400,
    ),
    ("no time to wait so long", {"retry": Retry(), "total_timeout": 30}, in_turn([BUSY, answer(*GOOD)]), Verdict.HTTP_STATUS, 0),
]


@pytest.mark.parametrize(("said", "script", "verdict", "seconds"), [row[1:] for row in BUDGETS], ids=[row[0] for row in BUDGETS])
async def test_budgets_and_waits_take_no_time(said: dict[str, Any], script: Script, verdict: Verdict, seconds: float) -> None:
    """
    Every budget and every wait of the client, over real sockets, at its second (contract D2).
    """
    async with loopback(script) as server:
        clock, over = VirtualClock(quiet=0.03), asyncio.Event()
        call = ChatModel("test-1", base_url=server.url, settings=HttpSettings(**{**NONE, **said})).open("Hi")
        call.events.subscribe(on_error=lambda error: over.set(), on_completed=over.set, scheduler=clock.scheduler)
        await clock.run(over.wait())
        assert (call.verdict, clock.seconds) == (verdict, seconds)
        assert await settled() == []
