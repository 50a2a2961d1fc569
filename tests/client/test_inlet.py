"""
Bytes that are handed on in the turn of the loop in which they arrive: the subscriber sees what it would see if a task had read them, whatever goes wrong.

`Taker.direct` tells how each item came; a test that speaks of the direct way asserts that it was taken.
"""

from __future__ import annotations

import asyncio
import gc
import gzip
import hashlib
import logging
import random
import ssl
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from typing import Any

import aiohttp
import pytest
import trustme
from reactivex import operators as ops
from reactivex.scheduler.eventloop import AsyncIOScheduler
from reactivex.testing import TestScheduler

from rxchat import text_only, to_async_iterable
from rxchat.client import ChatModel, HttpSettings
from rxchat.client.http_body import http_body, new_session
from rxchat.client.inlet import Inlet
from rxchat.client.reading import PIECE, Answer
from rxchat.client.settings import Retry
from rxchat.demand import Valve, ValveScheduler
from rxchat.errors import ConnectionLostError, FramingError, LimitExceeded, ReadTimeout, RxchatError, TotalTimeout, Verdict
from rxchat.events import Abort
from rxchat.outgoing.common import WireRequest
from tests.client.lines import CHUNKED, END, Line, Provider, Taker, chunks, opened, providing
from tests.client.watching import settled
from tests.grammar import violations
from tests.loopback import DONE, FINISH, delta
from tests.shared_data import EXHAUSTIVE

BARE = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\n"
SIZED = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ncontent-length: %d\r\n\r\n"
KB = 1024
who: ContextVar[str] = ContextVar("who", default="nobody")


@pytest.fixture(autouse=True)
def quiet(caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    """
    asyncio has nothing to complain of, in any test.
    """
    caplog.set_level(logging.INFO)
    yield
    # Whatever is as young as this test.
    gc.collect(1)
    assert [record.getMessage() for record in caplog.get_records("call") if record.name == "asyncio"] == []


def held_by(valve: Valve) -> ValveScheduler:
    """
    The scheduler of a subscription that this valve slows.
    """
    return ValveScheduler(AsyncIOScheduler(asyncio.get_running_loop()), valve)


def model_of(provider: Provider, **settings: Any) -> ChatModel:
    """
    A model of that provider.
    """
    return ChatModel("test-1", base_url=provider.url, settings=HttpSettings(**{"retry": None, "total_timeout": 60.0} | settings))


def body(provider: Provider) -> Any:
    """
    The bytes of an answer, for a subscription of one's own.
    """
    return http_body(WireRequest(provider.url, {}, {}), lambda head: None)


# --- the same as read by a task -------------------------------------------------------------------------------------------------------------------


async def test_what_arrives_while_nothing_waits_needs_no_task() -> None:
    """
    The first bytes are read, all that follow are handed on where they arrive, in order, then comes the end.
    """
    async with providing() as provider:
        taker = Taker().body_of(provider)
        line = await opened(provider, taker)
        for number in range(5):
            await line.say(chunks(b"%d" % number))
            await taker.takes(number + 2)
        await line.say(END)
        await taker.end()
    assert taker.items == [b"", b".", b"0", b"1", b"2", b"3", b"4"]
    assert (taker.direct, taker.completed, taker.error) == ([False, False, *[True] * 5], 1, None)


@pytest.mark.parametrize("read_size", [1, 3, 1000])
async def test_no_piece_is_larger_than_its_cap(read_size: int) -> None:
    """
    `read_size` caps what is handed on directly, too.
    """
    whole = bytes(range(256)) * 40
    async with providing() as provider:
        taker = Taker().body_of(provider, read_size=read_size)
        line = await opened(provider, taker)
        await line.say(chunks(whole[:100], whole[100:]) + END)
        await taker.end()
    assert (taker.body[1:] == whole, max(map(len, taker.items)), taker.direct[2]) == (True, read_size, True)


def encrypted() -> tuple[ssl.SSLContext, ssl.SSLContext]:
    """
    What the client trusts, and what the provider shows.
    """
    authority = trustme.CA(key_type=trustme.KeyType.ECDSA)
    here, there = ssl.create_default_context(), ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    authority.configure_trust(here)
    authority.issue_cert("127.0.0.1").configure_cert(there)
    return here, there


def framed(transfer: str, whole: bytes, dice: random.Random, extra: bytes = b"") -> tuple[bytes, bytes]:
    """
    Head and body on the wire.
    """
    head = {"chunked": CHUNKED, "sized": SIZED % len(whole), "bare": BARE}[transfer].replace(b"\r\n\r\n", b"\r\n" + extra + b"\r\n")
    if transfer != "chunked":
        return head, whole
    cuts = sorted(dice.choices(range(1, len(whole)), k=len(whole) // 5000 + 20))
    pieces = [whole[at:end] for at, end in zip([0, *cuts], [*cuts, len(whole)], strict=True) if at < end]
    return head, chunks(*pieces) + END


async def written(line: Line, wire: bytes, dice: random.Random) -> None:
    """
    Writes of a byte up to 300 KB, some with a pause behind them.
    """
    at = 0
    while at < len(wire):
        size = dice.choice((1, 2, 60, 900, 17 * KB, 64 * KB, 300 * KB))
        await line.say(wire[at : at + size])
        at += size
        if dice.random() < 0.5:
            await asyncio.sleep(dice.choice((0, 0, 0.001, 0.003)))


@pytest.mark.parametrize("transfer", ["chunked", "sized", "bare"])
@pytest.mark.parametrize("how", ["plain", "read-size", "gzip", "callers-session", "tls"])
async def test_a_body_is_the_same_however_it_was_written(transfer: str, how: str) -> None:
    """
    E9, for bytes: any transfer, with and without compression and encryption. What is compressed, or comes over a session of the caller's, is never direct.
    """
    here, there = encrypted()
    for seed in range(40 if EXHAUSTIVE else 3):
        dice = random.Random(seed)
        whole = dice.randbytes(dice.randrange(300 * KB, 1200 * KB))
        sent = gzip.compress(whole, 1) if how == "gzip" else whole
        head, wire = framed(transfer, sent, dice, b"content-encoding: gzip\r\n" if how == "gzip" else b"")
        settings: dict[str, Any] = {"ssl": here} if how == "tls" else {"read_size": 700} if how == "read-size" else {}
        async with providing(there if how == "tls" else None) as provider, aiohttp.ClientSession() as session:
            taker = Taker().body_of(provider, session if how == "callers-session" else None, **settings)
            line = await provider.next()
            await line.say(head)
            await written(line, wire, dice)
            if transfer == "bare":
                line.hang_up()
            await taker.end()
        assert (taker.error, taker.completed, len(taker.body), taker.body == whole) == (None, 1, len(whole), True)
        assert any(taker.direct) is (how not in ("gzip", "callers-session"))
        assert max(map(len, taker.items)) <= settings.get("read_size", PIECE)


async def test_events_are_the_same_however_they_were_written() -> None:
    """
    E9, for events: as read in one piece.
    """
    dice = random.Random(7)
    frames = [delta(dice.choice(("x", "\u00e4\u20ac\U0001f600", "long " * 200))) for _ in range(300)]
    wire = chunks(*frames, FINISH, DONE) + END

    async def told(*pieces: bytes) -> str:
        taker = Taker()
        async with providing() as provider:
            taker.watch(model_of(provider).stream("Hi"))
            line = await provider.next()
            for piece in pieces:
                await line.say(piece)
                await asyncio.sleep(0)
            await taker.end()
        assert len(pieces) == 1 or taker.direct.count(True) > 200
        # Its id is another one each time.
        return repr(taker.items).replace(taker.items[0].response_id, "")

    expected = await told(CHUNKED + wire)
    for size in (7, 400, 5000):
        assert await told(CHUNKED, *(wire[at : at + size] for at in range(0, len(wire), size))) == expected


async def test_a_large_body_needs_no_depth_and_no_room() -> None:
    """
    60 MB for a fast subscriber: whole, each piece at the same depth of the stack, and what is buffered stays small.
    """
    piece = random.Random(1).randbytes(KB * KB)
    digest, length, depths = hashlib.sha256(), 0, set[int]()

    def take(item: bytes) -> None:
        nonlocal length
        digest.update(item)
        length += len(item)
        depth, frame = 0, sys._getframe()
        while frame.f_back is not None:
            depth, frame = depth + 1, frame.f_back
        depths.add(depth)

    async with providing() as provider:
        over = asyncio.get_running_loop().create_future()
        body(provider).subscribe(take, over.set_exception, lambda: over.set_result(None))
        line = await provider.next()
        await line.say(SIZED % (60 * len(piece)))
        for _ in range(60):
            await line.say(piece)
        await asyncio.wait_for(over, 20)
    assert (length, digest.digest()) == (60 * len(piece), hashlib.sha256(piece * 60).digest())
    assert max(depths) - min(depths) < 30


# --- the subscriber's own context -----------------------------------------------------------------------------------------------------------------


async def test_each_stream_has_the_context_of_its_subscriber() -> None:
    """
    On every item, read or direct, and one behind the other on the same connection; what a subscriber sets there it finds again.
    """
    own: ContextVar[int] = ContextVar("own", default=0)
    async with providing() as provider, new_session(HttpSettings()) as session:
        for name in ("one", "two"):
            seen: list[tuple[str, int]] = []

            def note(item: bytes, seen: list[tuple[str, int]] = seen) -> None:
                own.set(own.get() + 1)
                seen.append((who.get(), own.get()))

            who.set(name)
            taker = Taker(on_next=note).body_of(provider, session)
            who.set("somebody else")
            line = await opened(provider, taker)
            for size in (2, 3):
                await line.say(chunks(b"."))
                await taker.takes(size)
            await line.say(END)
            await taker.end()
            assert (seen, taker.direct) == ([(name, 1), (name, 2), (name, 3), (name, 4)], [False, False, True, True])
        assert (provider.connections, own.get()) == (1, 0)


async def test_streams_side_by_side_do_not_mix() -> None:
    """
    Bytes of two streams in the same turn of the loop: each in its own context, also where one of them looks at the other.
    """
    seen: list[str] = []
    async with providing() as provider, new_session(HttpSettings()) as session:
        takers, lines = [], []
        for name in ("one", "two"):
            who.set(name)
            taker = Taker().body_of(provider, session)
            takers.append(taker)
            lines.append(await opened(provider, taker))
        for name, taker in zip(("one", "two"), takers, strict=True):
            taker.on_next = lambda item, name=name: seen.append(f"{name} {who.get()}")
        for _ in range(20):
            for line in lines:
                line.writer.write(chunks(b"."))
            await asyncio.gather(*(taker.takes(len(taker.body) + 1) for taker in takers))
        for line in lines:
            await line.say(END)
        await asyncio.gather(*(taker.end() for taker in takers))
    assert (sorted(set(seen)), len(seen)) == (["one one", "two two"], 40)


# --- subscribers that raise, leave, or do more ----------------------------------------------------------------------------------------------------


def when_direct(taker: Taker, do: Callable[[], object]) -> Taker:
    """
    Do it at the first item that comes directly.
    """

    def on_next(item: Any) -> None:
        if taker.direct.count(True) == 1 and taker.direct[-1]:
            do()

    taker.on_next = on_next
    return taker


def raising(error: BaseException) -> Callable[[], object]:
    """
    Raises that.
    """

    def fail() -> None:
        raise error

    return fail


@pytest.mark.parametrize("shared", [False, True], ids=["own-session", "shared-session"])
@pytest.mark.parametrize("kind", [KeyError, ConnectionLostError, TimeoutError, OSError])
async def test_what_a_subscriber_raises_is_its_own(kind: type[Exception], shared: bool, caplog: pytest.LogCaptureFixture) -> None:
    """
    E14: unwrapped and once, the connection is closed, what arrived with it is not handed on, nothing is logged.
    """
    error = kind("mine")
    async with providing() as provider, new_session(HttpSettings()) as session:
        taker = Taker().body_of(provider, session if shared else None, read_size=4)
        when_direct(taker, raising(error))
        line = await opened(provider, taker)
        await line.say(chunks(b"four", b"more"))
        await taker.end()
        await line.left()
        assert await settled() == []
    assert (taker.error, taker.failed, taker.completed, taker.items, caplog.text) == (error, 1, 0, [b"", b".", b"four"], "")


async def test_what_a_subscriber_raises_holds_nothing() -> None:
    """
    What was raised keeps no ring of references around: without the garbage collector, nothing of the stream is left.
    """

    def kept() -> list[object]:
        return [thing for thing in gc.get_objects() if isinstance(thing, (Inlet, Answer))]

    gc.collect()
    gc.disable()
    try:
        before = kept()
        async with providing() as provider:
            taker = Taker().body_of(provider)
            # An exception that is made where it is raised; one that its raiser holds is a ring of its own.
            when_direct(taker, lambda: dict[str, int]()["mine"])
            line = await opened(provider, taker)
            await line.say(chunks(b"more"))
            await taker.end()
            await line.left()
            assert await settled() == []
            assert repr(taker.error) == "KeyError('mine')"
            # The traceback of what it raised leads there.
            taker.error = None
            assert kept() == before
    finally:
        gc.enable()


async def test_a_model_gives_back_whatever_exception_it_was() -> None:
    """
    E14: StopIteration too, which coroutines cannot raise.
    """
    async with providing() as provider:
        taker = Taker().watch(model_of(provider).stream("Hi").pipe(text_only()))
        assert isinstance(taker, Taker)
        when_direct(taker, raising(StopIteration("mine")))
        line = await provider.next()
        await line.say(CHUNKED + chunks(delta("a")))
        await taker.takes_items(1)
        await line.say(chunks(delta("b"), delta("c")))
        await taker.end()
        await line.left()
    assert (taker.items, repr(taker.error)) == (["a", "b"], "StopIteration('mine')")


@pytest.mark.parametrize("bare", [True, False], ids=["bytes", "events"])
@pytest.mark.parametrize("error", [KeyboardInterrupt, SystemExit])
def test_what_ends_the_program_ends_it(error: type[BaseException], bare: bool) -> None:
    """
    It comes out of the loop, and is told nobody else.
    """
    taker = when_direct(Taker(), raising(error()))

    async def main() -> None:
        async with providing() as provider:
            taker.watch(body(provider) if bare else model_of(provider).stream("Hi"))
            line = await provider.next()
            await line.say(CHUNKED + chunks(delta("a")))
            while len(taker.items) < 2:
                await asyncio.sleep(0)
            await line.say(chunks(delta("b")))
            await asyncio.sleep(5)

    with pytest.raises(error):
        asyncio.run(main())
    assert (taker.direct[-1], taker.failed, taker.completed) == (True, 0, 0)


@pytest.mark.parametrize("bare", [True, False], ids=["bytes", "events"])
async def test_a_subscriber_that_raises_what_is_no_exception_has_left(bare: bool) -> None:
    """
    CancelledError of a future it asked for: the connection is closed, nobody is told.
    """
    async with providing() as provider:
        taker = when_direct(Taker(), raising(asyncio.CancelledError()))
        taker.watch(body(provider) if bare else model_of(provider).stream("Hi"))
        line = await provider.next()
        await line.say(CHUNKED + chunks(delta("a")))
        while len(taker.items) < 2:
            await asyncio.sleep(0)
        await line.say(chunks(delta("b")))
        await line.left()
        assert await settled() == []
    assert (taker.direct[-1], taker.over.is_set()) == (True, False)


async def test_what_is_raised_while_the_task_is_cancelled_is_not_lost() -> None:
    """
    Both in one turn of the loop: the subscriber still hears of its own exception.
    """
    async with providing() as provider:
        taker = Taker().body_of(provider)

        def fail() -> None:
            for task in asyncio.all_tasks():
                if task.get_name() == "rxchat request":
                    asyncio.get_running_loop().call_soon(task.cancel)
            raise KeyError("mine")

        when_direct(taker, fail)
        line = await opened(provider, taker)
        await line.say(chunks(b"more"))
        await taker.end()
        await line.left()
    assert repr(taker.error) == "KeyError('mine')"


@pytest.mark.parametrize("shared", [False, True], ids=["own-session", "shared-session"])
async def test_a_subscriber_may_leave(shared: bool) -> None:
    """
    E8: in a direct on_next; nothing of what arrived with it is handed on, the connection is closed.
    """
    async with providing() as provider, new_session(HttpSettings()) as session:
        taker = Taker().body_of(provider, session if shared else None, read_size=4)
        when_direct(taker, taker.dispose)
        line = await opened(provider, taker)
        await line.say(chunks(b"four", b"more"))
        await line.left()
        assert await settled() == []
    assert (taker.items, taker.direct[-1], taker.over.is_set()) == ([b"", b".", b"four"], True, False)


async def test_a_subscriber_may_take_some() -> None:
    """
    RxPY's own `take`, run out in a direct on_next.
    """
    async with providing() as provider:
        taker = Taker()
        taker.watch(body(provider).pipe(ops.take(3)))
        line = await opened(provider, taker)
        await line.say(chunks(b"more"))
        await taker.end()
        await line.left()
    assert (taker.items, taker.direct[-1], taker.completed) == ([b"", b".", b"more"], True, 1)


async def test_a_subscriber_may_abort() -> None:
    """
    D7: closing ENDs, Abort, on_completed, in the same on_next; the connection is closed.
    """
    async with providing() as provider:
        call = model_of(provider).open("Hi")
        taker = Taker()
        taker.on_next = lambda event: call.abort("enough") if event.type == "TEXT_DELTA" and taker.direct[-1] else None
        taker.watch(call.events)
        line = await provider.next()
        await line.say(CHUNKED + chunks(delta("a")))
        await taker.takes_items(4)
        await line.say(chunks(delta("b"), delta("c")))
        await taker.end()
        await line.left()
        assert await settled() == []
    assert (call.verdict, call.response.text, violations(taker.items)) == (Verdict.ABORTED, "ab", [])
    assert (type(taker.items[-1]), taker.direct[-1]) == (Abort, True)


async def test_a_stream_may_end_another_whose_bytes_are_there() -> None:
    """
    Both arrived in one turn of the loop: who was disposed of is told nothing more.
    """
    async with providing() as provider:
        takers = [Taker().body_of(provider)]
        lines = [await opened(provider, takers[0])]
        takers.append(Taker().body_of(provider))
        lines.append(await opened(provider, takers[1]))
        for taker, other in zip(takers, reversed(takers), strict=True):
            when_direct(taker, other.dispose)
        for line in lines:
            line.writer.write(chunks(b"more"))
        while not any(taker.direct[-1] for taker in takers):
            await asyncio.sleep(0)
        await asyncio.sleep(0.02)
        assert sorted(taker.body for taker in takers) == [b".", b".more"]
        for taker in takers:
            taker.dispose()
        await asyncio.gather(*(line.left() for line in lines))


async def test_disposed_by_another_thread_while_on_next_is_at_work() -> None:
    """
    E8: it ends behind the item at hand.
    """
    async with providing() as provider:
        taker = Taker().body_of(provider, read_size=4)

        def leave() -> None:
            thread = threading.Thread(target=taker.dispose)
            thread.start()
            thread.join()

        when_direct(taker, leave)
        line = await opened(provider, taker)
        await line.say(chunks(b"four", b"more"))
        await line.left()
        assert await settled() == []
    assert (taker.items, taker.direct[-1], taker.over.is_set()) == ([b"", b".", b"four"], True, False)


@pytest.mark.parametrize("thread", [False, True], ids=["here", "another-thread"])
async def test_disposed_while_it_waits(thread: bool) -> None:
    """
    E8, D4: no task wakes for the data, but it does for this.
    """
    async with providing() as provider:
        taker = Taker().body_of(provider)
        line = await opened(provider, taker)
        await line.say(chunks(b"more"))
        await taker.takes(5)
        await asyncio.to_thread(taker.dispose) if thread else taker.dispose()
        await line.left()
        assert await settled() == []
    assert (taker.items, taker.direct[-1], taker.over.is_set()) == ([b"", b".", b"more"], True, False)


async def test_a_subscriber_may_do_more() -> None:
    """
    Tasks, callbacks, and another stream on the same session, all begun in a direct on_next; each finds the context of its subscriber.
    """
    done: list[str] = []

    async def work() -> None:
        await asyncio.sleep(0)
        done.append(f"task {who.get()}")

    async with providing() as provider, new_session(HttpSettings()) as session:
        tasks: list[asyncio.Task[None]] = []
        inner = Taker(on_next=lambda item: done.append(f"inner {who.get()}") if inner.direct[-1] else None)

        def more() -> None:
            tasks.append(asyncio.get_running_loop().create_task(work()))
            asyncio.get_running_loop().call_soon(lambda: done.append(f"callback {who.get()}"))
            inner.body_of(provider, session)

        who.set("me")
        outer = when_direct(Taker(), more).body_of(provider, session)
        who.set("somebody else")
        one = await opened(provider, outer)
        await one.say(chunks(b"more"))
        two = await opened(provider, inner)
        for line, taker in ((one, outer), (two, inner)):
            await line.say(chunks(b"last"))
            await taker.takes(5 if taker is inner else 9)
            await line.say(END)
            await taker.end()
        await asyncio.gather(*tasks)
    assert sorted(done) == ["callback me", "inner me", "task me"]
    assert (outer.body, inner.body, provider.connections) == (b".morelast", b".last", 2)


async def test_the_next_stream_may_begin_in_the_last_on_next() -> None:
    """
    The connection is free by then: the transfer is over, though its subscriber has not been told.
    """
    async with providing() as provider, new_session(HttpSettings()) as session:
        second = Taker()
        first = when_direct(Taker(), lambda: second.body_of(provider, session)).body_of(provider, session)
        line = await opened(provider, first)
        await line.say(chunks(b"last") + END)
        line = await opened(provider, second)
        await line.say(chunks(b"more"))
        await second.takes(5)
        await line.say(END)
        await asyncio.gather(first.end(), second.end())
    assert (first.body, second.body, first.error, second.error, provider.connections) == (b".last", b".more", None, None, 1)
    assert (first.direct[-1], second.direct[-1]) == (True, True)


async def test_a_subscriber_may_be_slow() -> None:
    """
    Each on_next blocks the loop while more arrives: nothing is lost, and the order stays.
    """
    async with providing() as provider:
        taker = Taker(on_next=lambda item: time.sleep(0.02)).body_of(provider, read_size=5)
        line = await opened(provider, taker)
        for number in range(10):
            await line.say(chunks(b"%5d" % number))
            await asyncio.sleep(0)
        await line.say(END)
        await taker.end()
    assert taker.items == [b"", b".", *(b"%5d" % number for number in range(10))]
    assert taker.direct.count(True) >= 1


# --- demand ---------------------------------------------------------------------------------------------------------------------------------------


async def test_a_valve_shut_in_on_next_stops_it_at_once() -> None:
    """
    D3: not one piece more, whatever arrives; when it opens nothing is lost.
    """
    whole = random.Random(3).randbytes(600 * KB)
    async with providing() as provider:
        valve = Valve()
        taker = when_direct(Taker(), valve.hold)
        taker.watch(body(provider), held_by(valve))
        line = await opened(provider, taker, SIZED % (1 + len(whole)), b".")
        writing = asyncio.create_task(line.say(whole))
        while not valve.held:
            await asyncio.sleep(0.001)
        told = list(taker.items)
        await asyncio.sleep(0.05)
        assert (taker.items, taker.direct[-1], len(taker.body) <= 1 + PIECE) == (told, True, True)
        valve.release()
        await writing
        await taker.end()
    assert (taker.error, taker.body[1:] == whole) == (None, True)


async def test_a_valve_shut_while_it_waits_lets_one_piece_through() -> None:
    """
    D3: as a read does that has begun, and no more.
    """
    async with providing() as provider:
        valve = Valve()
        taker = Taker()
        taker.watch(body(provider), held_by(valve))
        line = await opened(provider, taker)
        valve.hold()
        for _ in range(3):
            await line.say(chunks(b"x" * PIECE))
            await asyncio.sleep(0.01)
        assert len(taker.body) <= 1 + PIECE
        valve.release()
        await taker.takes(1 + 3 * PIECE)
        await line.say(END)
        await taker.end()
    assert taker.body == b"." + b"x" * 3 * PIECE


@pytest.mark.parametrize("seed", range(20 if EXHAUSTIVE else 3))
async def test_a_valve_that_flips_loses_nothing(seed: int) -> None:
    """
    Held and released at random moments; nothing comes while it is held, and what is read between is read in the same context.
    """
    dice = random.Random(seed)
    whole = dice.randbytes(500 * KB)
    async with providing() as provider:
        valve, loop, late, own = Valve(), asyncio.get_running_loop(), 0, ContextVar("own", default=0)

        def flip(item: bytes) -> None:
            nonlocal late
            late += valve.held
            own.set(own.get() + 1)
            assert own.get() == len(taker.items)
            if dice.random() < 0.5 and not valve.held:
                valve.hold()
                loop.call_later(dice.choice((0, 0, 0.001, 0.002)), valve.release)

        taker = Taker(on_next=flip)
        taker.watch(body(provider), held_by(valve))
        line = await provider.next()
        head, wire = framed("chunked", whole, dice)
        await line.say(head)
        await written(line, wire, dice)
        await taker.end()
    assert (taker.error, taker.body == whole, late) == (None, True, 0)


async def test_an_async_for_is_never_ahead_of_its_bound() -> None:
    """
    D3: at most `high` items wait, plus what one read makes; none is lost.
    """
    high, read_size = 8, 512
    async with providing() as provider:
        frames = [delta(f"{number:5}") for number in range(600)]
        most = read_size // len(frames[0]) + 2
        given = taken = ahead = 0

        def give(text: str) -> None:
            nonlocal given, ahead
            given += 1
            ahead = max(ahead, given - taken)

        texts = model_of(provider, read_size=read_size).stream("Hi").pipe(text_only(), ops.do_action(give), to_async_iterable(high, 2, pending=most))
        told: list[str] = []

        async def consume() -> None:
            nonlocal taken
            async for text in texts:
                taken += 1
                told.append(text)
                if taken % 50 == 0:
                    await asyncio.sleep(0.005)

        consuming = asyncio.create_task(consume())
        line = await provider.next()
        await line.say(CHUNKED)
        for at in range(0, 600, 5):
            await line.say(chunks(*frames[at : at + 5]))
            await asyncio.sleep(0)
        await line.say(chunks(FINISH, DONE) + END)
        await asyncio.wait_for(consuming, 10)
    assert told == [f"{number:5}" for number in range(600)]
    assert ahead <= high + most


async def test_a_stall_is_a_failure_where_it_is_asked_for() -> None:
    """
    D3: the clock of a consumer that holds a direct stream runs, that of the provider stands still.
    """
    async with providing() as provider:
        model = model_of(provider, stall_timeout=0.1, on_stall="error", read_timeout=0.05)
        valve, taker = Valve(), Taker()
        taker.on_next = lambda event: valve.hold() if taker.direct[-1] and not valve.held else None
        taker.watch(model.stream("Hi"), held_by(valve))
        line = await provider.next()
        await line.say(CHUNKED + chunks(delta("a")))
        await taker.takes_items(4)
        await line.say(chunks(delta("b")))
        await taker.end()
        await line.left()
    assert isinstance(taker.error, LimitExceeded)


# --- ends -----------------------------------------------------------------------------------------------------------------------------------------


ENDS: dict[str, tuple[bytes, bytes, type[RxchatError] | None]] = {
    # What follows the bytes, what becomes of the connection, and what is told.
    "chunked": (END, b"", None),
    "malformed": (b"zz\r\n", b"", FramingError),
    "no-last-chunk": (b"", b"close", ConnectionLostError),
    "cut-chunk": (b"9\r\n", b"close", ConnectionLostError),
    "reset": (b"", b"reset", ConnectionLostError),
    "reset-in-a-chunk": (b"9\r\n", b"reset", ConnectionLostError),
}


@pytest.mark.parametrize("together", [True, False], ids=["in-the-same-read", "alone"])
@pytest.mark.parametrize("end", ENDS)
async def test_what_came_before_the_end_is_delivered_first(end: str, together: bool) -> None:
    """
    E10: with the last bytes or alone, the end is told behind them, once; only a clean one is an end.
    """
    wire, then, kind = ENDS[end]
    async with providing() as provider:
        taker = Taker().body_of(provider)
        line = await opened(provider, taker)
        if together:
            line.writer.write(chunks(b"good", b"more") + wire)
        else:
            await line.say(chunks(b"good", b"more"))
            await taker.takes(9)
            await line.say(wire)
        if then:
            line.reset() if then == b"reset" else line.hang_up()
        await taker.end()
        assert await settled() == []
    assert (taker.body, type(taker.error) if taker.error else None) == (b".goodmore", kind)
    assert (taker.direct[2], taker.completed + taker.failed) == (True, 1)


@pytest.mark.parametrize("together", [True, False], ids=["in-the-same-read", "alone"])
@pytest.mark.parametrize(
    "head, torn", [(SIZED % 5, False), (BARE, False), (BARE, True), (SIZED % 9, False)], ids=["sized", "bare", "bare-reset", "short"]
)
async def test_bodies_without_chunks_end_too(head: bytes, torn: bool, together: bool) -> None:
    """
    E10, V5: by their length, or with their connection.
    """
    async with providing() as provider:
        taker = Taker().body_of(provider)
        line = await opened(provider, taker, head, b".")
        line.writer.write(b"good")
        if not together:
            await taker.takes(5)
        line.reset() if torn else line.hang_up()
        await taker.end()
    lost = torn or head == SIZED % 9
    assert (taker.body, type(taker.error), taker.direct[2]) == (b".good", ConnectionLostError if lost else type(None), True)


async def test_what_arrives_with_the_reset_behind_it_is_delivered_first() -> None:
    """
    E10: both were there before the loop looked.
    """
    async with providing() as provider:
        taker = Taker().body_of(provider)
        line = await opened(provider, taker)
        line.writer.write(chunks(b"x" * 3000))
        line.reset()
        time.sleep(0.02)
        await taker.end()
    assert (taker.body, type(taker.error), taker.direct[2]) == (b"." + b"x" * 3000, ConnectionLostError, True)


async def test_what_arrived_while_it_was_held_is_delivered_before_the_reset() -> None:
    """
    E10: the hand-over stopped in the middle of a read, then the connection broke.
    """
    async with providing() as provider:
        valve = Valve()
        taker = when_direct(Taker(), valve.hold)
        taker.watch(http_body(WireRequest(provider.url, {}, {}), lambda head: None, settings=HttpSettings(read_size=4)), held_by(valve))
        line = await opened(provider, taker)
        await line.say(chunks(b"good", b"more", b"last"))
        await taker.takes(5)
        line.reset()
        await line.left()
        await asyncio.sleep(0.02)
        assert (taker.body, taker.over.is_set()) == (b".good", False)
        valve.release()
        await taker.end()
    assert (taker.body, type(taker.error)) == (b".goodmorelast", ConnectionLostError)


@pytest.mark.parametrize("whole", [True, False], ids=["whole", "cut"])
@pytest.mark.parametrize("size", [1, 5000])
async def test_what_arrived_encrypted_while_it_was_held_is_delivered_before_the_end(size: int, whole: bool) -> None:
    """
    E10, D3: the connection is gone when its consumer goes on, and the parser had held back what came last.
    """
    here, there = encrypted()
    pieces = [b"x" * size] * (100_000 // max(size, 20))
    async with providing(there) as provider:
        valve = Valve()
        taker = when_direct(Taker(), valve.hold)
        taker.watch(http_body(WireRequest(provider.url, {}, {}), lambda head: None, settings=HttpSettings(ssl=here)), held_by(valve))
        line = await opened(provider, taker)
        line.writer.write(chunks(*pieces) + (END if whole else b""))
        line.hang_up()
        while not valve.held:
            await asyncio.sleep(0.001)
        await asyncio.sleep(0.05)
        assert (len(taker.body) <= 1 + PIECE, taker.over.is_set()) == (True, False)
        valve.release()
        await taker.end()
    assert (len(taker.body), type(taker.error)) == (1 + sum(map(len, pieces)), type(None) if whole else ConnectionLostError)


@pytest.mark.parametrize("what", ["session", "model"])
async def test_closed_under_it_the_stream_is_lost(what: str) -> None:
    """
    By its session or its model, while it waits directly.
    """
    async with providing() as provider:
        model, session, taker = await model_of(provider).__aenter__(), new_session(HttpSettings()), Taker()
        taker.watch(model.stream("Hi")) if what == "model" else taker.body_of(provider, session)
        line = await provider.next()
        await line.say(CHUNKED + chunks(delta("a")))
        await taker.takes_items(4 if what == "model" else 2)
        await line.say(chunks(delta("b")))
        await taker.takes_items(len(taker.items) + 1)
        assert taker.direct[-1]
        await model.aclose()
        await session.close()
        await taker.end()
        await line.left()
        assert await settled() == []
    assert isinstance(taker.error, ConnectionLostError)


def test_the_loop_may_end_while_it_waits() -> None:
    """
    `asyncio.run` is over: no word, no task, no socket.
    """
    taker = Taker()

    async def main() -> None:
        serving = providing()
        provider = await serving.__aenter__()
        taker.watch(body(provider))
        line = await opened(provider, taker)
        await line.say(chunks(b"more"))
        await taker.takes(5)

    asyncio.run(main())
    assert (taker.items, taker.direct[-1], taker.over.is_set()) == ([b"", b".", b"more"], True, False)


@pytest.mark.parametrize("settings, kind", [({"read_timeout": 300.0}, ReadTimeout), ({"total_timeout": 3600.0}, TotalTimeout)], ids=["read", "total"])
async def test_budgets_run_while_it_waits(settings: dict[str, float], kind: type[RxchatError]) -> None:
    """
    D2: in virtual time; silence counts from the last bytes that came directly.
    """
    (budget,) = settings.values()
    async with providing() as provider:
        model = model_of(provider, **{"total_timeout": None, "read_timeout": None, "first_event_timeout": None} | settings)
        scheduler, taker = TestScheduler(), Taker()
        taker.watch(model.stream("Hi"), scheduler)
        line = await provider.next()
        await line.say(CHUNKED + chunks(delta("a")))
        await taker.takes_items(4)
        scheduler.advance_by(budget - 10)
        await line.say(chunks(delta("b")))
        await taker.takes_items(5)
        scheduler.advance_by(9)
        assert (taker.direct[-1], taker.over.is_set()) == (True, False)
        scheduler.advance_by(budget if kind is ReadTimeout else 2)
        await taker.end()
        await line.left()
    assert isinstance(taker.error, kind)


async def test_it_is_sent_again_after_a_direct_heartbeat() -> None:
    """
    D5: nothing was shown by it, so the break is followed by another attempt.
    """
    async with providing() as provider:
        taker = Taker()
        taker.watch(model_of(provider, retry=Retry(first_wait=0.001)).stream("Hi").pipe(text_only()))
        line = await provider.next()
        await line.say(CHUNKED + chunks(b": one\n\n"))
        await asyncio.sleep(0.01)
        await line.say(chunks(b": two\n\n"))
        await asyncio.sleep(0.01)
        line.reset()
        line = await provider.next()
        await line.say(CHUNKED + chunks(delta("a")))
        await taker.takes_items(1)
        await line.say(chunks(delta("b"), FINISH, DONE) + END)
        await taker.end()
    assert (taker.items, taker.error, taker.direct) == (["a", "b"], None, [False, True])


@pytest.mark.parametrize("kind", ["in-the-same-read", "alone"])
async def test_a_byte_nobody_asked_for_closes_the_connection(kind: str) -> None:
    """
    It served two streams; a byte behind the second one is not the beginning of the third.
    """
    async with providing() as provider, new_session(HttpSettings()) as session:
        for behind in (b"", b"!" if kind == "in-the-same-read" else b""):
            taker = Taker().body_of(provider, session)
            line = await opened(provider, taker)
            await line.say(chunks(b"more"))
            await taker.takes(5)
            await line.say(END + behind)
            await taker.end()
            assert (taker.body, taker.error) == (b".more", None)
        if kind == "alone":
            await line.say(b"!")
        await line.left()
        taker = Taker().body_of(provider, session)
        line = await opened(provider, taker)
        await line.say(END)
        await taker.end()
        assert (taker.body, taker.error, line.number, provider.connections) == (b".", None, 2, 2)
