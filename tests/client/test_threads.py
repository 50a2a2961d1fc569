"""
A call that is ended from another thread than its loop's (contract D4, D7, E8).
"""

from __future__ import annotations

import asyncio
import random
import threading
from collections.abc import Callable
from typing import Any

import attrs
import pytest
from aiohttp import web

from rxchat import text_only
from rxchat.client import Call, ChatModel, HttpSettings
from rxchat.client.http_body import http_body
from rxchat.errors import Verdict
from rxchat.events import Abort, ResponseEnd
from rxchat.outgoing.common import WireRequest
from tests.client.watching import Serve, Watcher, settled
from tests.grammar import violations
from tests.loopback import DONE, FINISH, Loopback, answer, begin, delta, hold


@attrs.define(eq=False)
class Witness:
    """
    What a subscriber was told, and in which threads.
    """

    watcher: Watcher = attrs.field(factory=Watcher)
    threads: set[int] = attrs.field(factory=set)
    some: asyncio.Event = attrs.field(factory=asyncio.Event)

    def __attrs_post_init__(self) -> None:
        self.watcher.on_next = self._note

    def _note(self, item: Any) -> None:
        self.threads.add(threading.get_ident())
        if len(self.watcher.items) > 5:
            self.some.set()


@pytest.fixture(autouse=True)
async def _strictly() -> None:
    """
    A loop that raises at what only its own thread may do.
    """
    asyncio.get_running_loop().set_debug(True)
    asyncio.get_running_loop().slow_callback_duration = 60.0


async def ever(request: web.Request) -> web.StreamResponse:
    """
    Text without end.
    """
    response = await begin(request)
    while True:
        await response.write(delta("x") * 20)
        await asyncio.sleep(0.001)


def call_of(server: Loopback) -> Call:
    """
    A call of that server.
    """
    return ChatModel("test-1", base_url=server.url, settings=HttpSettings(retry=None, total_timeout=60.0)).open("Hi")


async def gone(server: Loopback) -> None:
    """
    The provider has seen its client leave, and nothing is left of it.
    """
    await asyncio.wait_for(server.left.wait(), 5)
    assert await settled() == []


async def test_an_abort_is_told_in_the_loops_thread(serve: Serve) -> None:
    """
    D7: closing ENDs, Abort, on_completed, by the thread that tells all the rest; the connection is closed.
    """
    server, witness = await serve(ever), Witness()
    call = call_of(server)
    watcher = witness.watcher.watch(call.events)
    await asyncio.wait_for(witness.some.wait(), 5)
    await asyncio.to_thread(call.abort, "enough")
    await watcher.end()
    assert (call.verdict, watcher.completed, watcher.failed, violations(watcher.items)) == (Verdict.ABORTED, 1, 0, [])
    assert (isinstance(watcher.items[-1], Abort), watcher.items[-1].reason) == (True, "enough")
    assert witness.threads == {threading.get_ident()}
    await gone(server)


async def test_an_abort_of_a_silent_stream_needs_no_event(serve: Serve) -> None:
    """
    It is brought to the loop, whether anything comes of the body or not.
    """
    server, witness = await serve(hold(headers=False)), Witness()
    call = call_of(server)
    watcher = witness.watcher.watch(call.events)
    await asyncio.wait_for(server.arrived.wait(), 5)
    await asyncio.to_thread(call.abort)
    await asyncio.wait_for(watcher.end(), 5)
    assert (call.verdict, witness.threads) == (Verdict.ABORTED, {threading.get_ident()})
    await gone(server)


async def test_an_abort_before_the_subscription_holds(serve: Serve) -> None:
    """
    As from the loop's own thread.
    """
    call = call_of(await serve(ever))
    await asyncio.to_thread(call.abort)
    watcher = await Watcher().watch(call.events).end()
    assert (call.verdict, [event.type for event in watcher.items]) == (Verdict.ABORTED, ["RESPONSE_START", "ABORT"])


LEAVES: dict[str, Callable[[Call, Watcher], None]] = {
    "Call.dispose": lambda call, watcher: call.dispose(),
    "the subscription": lambda call, watcher: watcher.dispose(),
}


@pytest.mark.parametrize("leave", LEAVES.values(), ids=LEAVES)
async def test_behind_a_disposal_no_event_begins(leave: Callable[[Call, Watcher], None], serve: Serve) -> None:
    """
    E8: when it returns the verdict is there, and at most the event that was at work then is still told; the connection is closed by the loop.
    """
    server, witness = await serve(ever), Witness()
    call = call_of(server)
    watcher = witness.watcher.watch(call.events)
    await asyncio.wait_for(witness.some.wait(), 5)

    def elsewhere() -> tuple[Verdict | None, int]:
        leave(call, watcher)
        return call.verdict, len(watcher.items)

    verdict, told = await asyncio.to_thread(elsewhere)
    await gone(server)
    assert (verdict, call.verdict, watcher.completed, watcher.failed) == (Verdict.CANCELLED, Verdict.CANCELLED, 0, 0)
    assert len(watcher.items) - told <= 1
    assert witness.threads == {threading.get_ident()}
    assert call.timings.ended is not None


async def test_a_subscription_behind_operators_may_be_disposed_of_anywhere(serve: Serve) -> None:
    """
    Each operator passes it on, in the thread it is done in.
    """
    server, watcher, some = await serve(ever), Watcher(), asyncio.Event()
    watcher.on_next = lambda text: some.set()
    watcher.watch(call_of(server).events.pipe(text_only()))
    await asyncio.wait_for(some.wait(), 5)
    await asyncio.to_thread(watcher.dispose)
    await gone(server)
    assert (watcher.completed, watcher.failed) == (0, 0)


async def test_a_bare_body_may_be_disposed_of_anywhere(serve: Serve) -> None:
    """
    Its task is cancelled by its own loop.
    """
    server = await serve(ever)
    watcher = Watcher().watch(http_body(WireRequest(server.url, {}, {}), lambda head: None))
    await asyncio.wait_for(server.arrived.wait(), 5)
    await asyncio.to_thread(watcher.dispose)
    await gone(server)


@pytest.mark.parametrize("how", ["abort", "dispose"])
async def test_who_is_first_says_how_it_ended(how: str, serve: Serve, caplog: pytest.LogCaptureFixture) -> None:
    """
    P15: against the end that comes by itself: one verdict, which never changes, and what was told agrees with it.
    """
    server = await serve(answer(*[delta("x")] * 20, FINISH, DONE))
    dice, seen = random.Random(5), set()
    ended_by = {"abort": Verdict.ABORTED, "dispose": Verdict.CANCELLED}[how]
    for _ in range(60):
        call, watcher = call_of(server), Watcher()
        thread = threading.Timer(dice.uniform(0, 0.012), getattr(call, how))
        watcher.watch(call.events)
        thread.start()
        await asyncio.to_thread(thread.join)
        if how == "abort" or call.verdict is not Verdict.CANCELLED:
            await watcher.end()
        verdict = call.verdict
        assert await settled() == []
        assert call.verdict is verdict in (ended_by, Verdict.COMPLETE)
        assert watcher.failed == 0
        if verdict is Verdict.COMPLETE:
            assert isinstance(watcher.items[-1], ResponseEnd)
        elif how == "abort":
            assert (isinstance(watcher.items[-1], Abort), violations(watcher.items)) == (True, [])
        else:
            assert [event for event in watcher.items if event.terminal] == []
        seen.add(verdict)
    assert ended_by in seen
    assert [record.getMessage() for record in caplog.records if record.name in ("rxchat", "asyncio")] == []


async def test_many_may_end_the_same_call(serve: Serve) -> None:
    """
    One verdict, at most one terminal.
    """
    server, witness = await serve(ever), Witness()
    call = call_of(server)
    watcher = witness.watcher.watch(call.events)
    await asyncio.wait_for(witness.some.wait(), 5)
    await asyncio.gather(*[asyncio.to_thread(act) for act in (call.abort, call.abort, call.dispose, watcher.dispose, call.abort)])
    await gone(server)
    assert call.verdict in (Verdict.ABORTED, Verdict.CANCELLED)
    assert len([event for event in watcher.items if event.terminal]) == (call.verdict is Verdict.ABORTED)


def test_a_loop_that_is_over_hears_nothing() -> None:
    """
    Neither does whoever speaks to it: there is nothing left to end.
    """

    async def main() -> Call:
        server = await Loopback(hold(delta("Hello"))).start()
        call, watcher = call_of(server), Witness().watcher
        watcher.watch(call.events)
        await asyncio.wait_for(server.arrived.wait(), 5)
        await server.aclose()
        return call

    call = asyncio.run(main())
    call.abort()
    call.dispose()
