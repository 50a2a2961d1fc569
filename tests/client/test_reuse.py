"""
Connections that serve again: a body is left at its protocol's end, which often comes a moment before the transfer's own (contract D1, D4, E8).
"""

from __future__ import annotations

import asyncio
import gzip
import zlib
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import aiohttp
import pytest
from aiohttp import web
from reactivex import operators as ops

from rxchat.client import Call, ChatModel, HttpSettings, http_body
from rxchat.errors import Verdict
from rxchat.events import ChatEvent, ResponseEnd, TextDelta
from tests.client.watching import Serve, Watcher, request_tasks, settled
from tests.loopback import DONE, FINISH, GOOD, Loopback, answer, begin, delta, frame, hold

BODY = b"".join(GOOD)


async def late(request: web.Request) -> web.StreamResponse:
    """
    The whole answer, and the end of its transfer only a moment later.
    """
    response = await begin(request)
    await response.write(BODY)
    await asyncio.sleep(0.005)
    await response.write_eof()
    return response


@asynccontextmanager
async def sharing(server: Loopback, callers: bool) -> AsyncIterator[ChatModel]:
    """
    A model whose requests share connections: its own, or those of a caller's session.
    """
    if callers:
        async with aiohttp.ClientSession() as session:
            yield ChatModel("test-1", base_url=server.url, session=session, settings=HttpSettings(retry=None))
    else:
        async with ChatModel("test-1", base_url=server.url, settings=HttpSettings(retry=None)) as model:
            yield model


def connections(server: Loopback) -> int:
    """
    How many connections its requests came over.
    """
    return len({seen.peer for seen in server.seen})


BOTH = pytest.mark.parametrize("callers", [False, True], ids=["the model's connections", "a caller's session"])


@BOTH
async def test_an_end_that_comes_late_leaves_the_connection_to_the_next_call(serve: Serve, callers: bool) -> None:
    """
    Three calls, one connection, though the last chunk comes behind the protocol's end.
    """
    server = await serve(late)
    async with sharing(server, callers) as model:
        for _ in range(3):
            assert (await model.call("Hi")).text == "Hello, world."
            assert await settled() == []
    assert (len(server.seen), connections(server), server.left.is_set()) == (3, 1, False)


async def test_a_compressed_end_may_come_late(serve: Serve) -> None:
    """
    What ends the compression is no content.
    """
    packer = zlib.compressobj(wbits=31)
    whole = packer.compress(BODY) + packer.flush(zlib.Z_SYNC_FLUSH)
    trailer = packer.flush()
    assert gzip.decompress(whole + trailer) == BODY

    async def script(request: web.Request) -> web.StreamResponse:
        response = await begin(request, headers={"content-encoding": "gzip"})
        await response.write(whole)
        await asyncio.sleep(0.005)
        await response.write(trailer)
        await response.write_eof()
        return response

    server = await serve(script)
    async with sharing(server, False) as model:
        for _ in range(3):
            assert (await model.call("Hi")).text == "Hello, world."
            assert await settled() == []
    assert connections(server) == 1


@BOTH
async def test_nobody_waits_for_an_end_that_never_comes(serve: Serve, callers: bool) -> None:
    """
    The answer is there at once, and the provider soon sees its client go.
    """
    server = await serve(hold(BODY))
    async with sharing(server, callers) as model:
        assert (await model.call("Hi")).text == "Hello, world."
        assert len(request_tasks()) == 1
        await asyncio.wait_for(server.left.wait(), 1)
        assert await settled() == []


@BOTH
async def test_more_content_behind_the_end_closes_the_connection(serve: Serve, callers: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """
    Not a byte of it is waited for any longer, and nothing of it is shown.
    """

    async def slowly(request: web.Request) -> web.StreamResponse:
        response = await begin(request)
        await response.write(BODY)
        await asyncio.sleep(0.005)
        while True:
            await response.write(delta("not shown"))
            await asyncio.sleep(0.005)

    monkeypatch.setattr(http_body, "LINGER", 3600.0)
    server = await serve(slowly)
    async with sharing(server, callers) as model:
        watcher = await Watcher().watch(model.stream("Hi")).end()
        await asyncio.wait_for(server.left.wait(), 5)
        assert await settled() == []
    assert "not shown" not in str(watcher.items)


async def leave_by_dispose(call: Call) -> None:
    watcher = Watcher()
    watcher.on_next = lambda event: watcher.dispose() if isinstance(event, TextDelta) else None
    watcher.watch(call.events)


async def leave_by_the_calls_dispose(call: Call) -> None:
    Watcher(on_next=lambda event: call.dispose() if isinstance(event, TextDelta) else None).watch(call.events)


async def leave_by_abort(call: Call) -> None:
    await Watcher(on_next=lambda event: call.abort() if isinstance(event, TextDelta) else None).watch(call.events).end()


async def leave_by_take(call: Call) -> None:
    def is_text(event: ChatEvent) -> bool:
        return isinstance(event, TextDelta)

    await call.events.pipe(ops.filter(is_text), ops.take(1))


async def leave_by_raising(call: Call) -> None:
    def raising(event: ChatEvent) -> None:
        if isinstance(event, TextDelta):
            raise LookupError

    await Watcher(on_next=raising).watch(call.events).end()


async def leave_by_a_failure(call: Call) -> None:
    assert (await Watcher().watch(call.events).end()).failed == 1


LEAVES = [leave_by_dispose, leave_by_the_calls_dispose, leave_by_abort, leave_by_take, leave_by_raising, leave_by_a_failure]


@pytest.mark.parametrize("leave", LEAVES)
async def test_who_leaves_before_the_end_closes_the_connection_at_once(
    leave: Callable[[Call], Awaitable[None]], serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    """
    E8: the end of such a body is not waited for, however long that would take.
    """
    monkeypatch.setattr(http_body, "LINGER", 3600.0)
    fault = b'data: {"error": {"message": "no", "type": "server_error"}}\n\n'
    server = await serve(hold(delta("Hello"), fault if leave is leave_by_a_failure else b": nothing\n\n"))
    async with sharing(server, False) as model:
        await leave(model.open("Hi"))
        await asyncio.wait_for(server.left.wait(), 5)
        assert await settled() == []


async def test_connections_that_nobody_shares_are_closed_at_once(serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    """
    There is nobody they could serve again.
    """
    monkeypatch.setattr(http_body, "LINGER", 3600.0)
    server = await serve(hold(BODY))
    assert (await ChatModel("test-1", base_url=server.url).call("Hi")).text == "Hello, world."
    await asyncio.wait_for(server.left.wait(), 5)
    assert await settled() == []


async def test_a_body_that_ends_with_its_connection_is_not_waited_for(serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    """
    Such a connection never serves again.
    """
    monkeypatch.setattr(http_body, "LINGER", 3600.0)

    async def script(request: web.Request) -> web.StreamResponse:
        assert request.transport is not None
        request.transport.write(b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\n" + BODY)
        await asyncio.Event().wait()
        raise AssertionError("nobody sets that event")

    server = await serve(script)
    async with sharing(server, False) as model:
        await model.call("Hi")
        await asyncio.wait_for(server.left.wait(), 5)
        assert await settled() == []


async def test_a_closed_model_has_no_task_left(serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    """
    When `aclose` returns, what waited for the end of a transfer is gone.
    """
    monkeypatch.setattr(http_body, "LINGER", 3600.0)
    server = await serve(hold(BODY))
    async with sharing(server, False) as model:
        await model.call("Hi")
        assert len(request_tasks()) == 1
    assert request_tasks() == []
    await asyncio.wait_for(server.left.wait(), 5)


async def test_a_closed_session_has_no_task_left_soon(serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    """
    The same where the session is the caller's, who closes it.
    """
    monkeypatch.setattr(http_body, "LINGER", 3600.0)
    server = await serve(hold(BODY))
    async with sharing(server, True) as model:
        await model.call("Hi")
        assert len(request_tasks()) == 1
    assert await settled() == []


def test_a_loop_may_end_meanwhile(caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch) -> None:
    """
    Nothing is said of what waited then.
    """
    monkeypatch.setattr(http_body, "LINGER", 3600.0)

    async def main() -> None:
        server = await Loopback(hold(BODY)).start()
        session = aiohttp.ClientSession()
        await ChatModel("test-1", base_url=server.url, session=session).call("Hi")
        assert len(request_tasks()) == 1
        # It is nobody's any more.
        session.detach()
        await server.aclose()

    asyncio.run(main())
    assert caplog.text == ""


async def test_the_subscriber_hears_of_the_end_before_the_transfer_does(serve: Serve) -> None:
    """
    The wait is the request's own: ResponseEnd and on_completed come with the protocol's end.
    """
    server = await serve(hold(BODY))
    async with sharing(server, False) as model:
        call = model.open("Hi")
        watcher = await Watcher().watch(call.events).end()
        assert (len(request_tasks()), watcher.completed, isinstance(watcher.items[-1], ResponseEnd)) == (1, 1, True)
        assert call.verdict is Verdict.COMPLETE


async def test_the_steps_of_a_response_share_a_connection(serve: Serve) -> None:
    """
    D1, T4: a body that is left for the next step has come to its end, too.
    """
    call = {"index": 0, "id": "c1", "type": "function", "function": {"name": "wait", "arguments": "{}"}}
    asks = frame_of_a_call(call)

    async def script(request: web.Request) -> web.StreamResponse:
        response = await begin(request)
        await response.write(BODY if len(server.seen) > 2 else asks)
        await asyncio.sleep(0.005)
        await response.write_eof()
        return response

    async def wait() -> str:
        await settled()
        return "done"

    server = await serve(script)
    async with sharing(server, False) as model:
        assert (await model.call("Hi", tools=[wait])).text.endswith("Hello, world.")
    assert (len(server.seen), connections(server)) == (3, 1)


def frame_of_a_call(call: dict[str, object]) -> bytes:
    """
    An answer that asks for that call.
    """
    return frame(delta={"tool_calls": [call]}) + frame(finish_reason="tool_calls") + DONE


async def test_the_end_in_the_same_read_needs_no_wait(serve: Serve) -> None:
    """
    As it always was.
    """
    server = await serve(answer(delta("Hello"), FINISH, DONE))
    async with sharing(server, False) as model:
        for _ in range(3):
            await model.call("Hi")
            assert await settled() == []
    assert connections(server) == 1
