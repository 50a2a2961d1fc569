"""
The transfer: what comes out of a body, how it ends, and that nothing is left of it.
"""

from __future__ import annotations

import asyncio
import gc
import gzip
import logging
import sys

import aiohttp
import pytest
from aiohttp import web
from aiohttp.abc import AbstractResolver, ResolveResult
from reactivex import operators as ops
from reactivex.scheduler.eventloop import AsyncIOScheduler

from rxchat.client import ChatModel
from rxchat.client.http_body import http_body, new_session
from rxchat.client.proxies import proxy_of
from rxchat.client.reading import Answer
from rxchat.client.settings import HttpSettings
from rxchat.demand import Valve, ValveScheduler
from rxchat.errors import ConfigurationError, ConnectError, ConnectionLostError, FramingError, RxchatError
from rxchat.events import TextDelta
from rxchat.outgoing.common import WireRequest
from rxchat.pipeline import Head
from rxchat.projections import of_type
from tests.client.watching import Serve, Watcher, request_tasks, settled
from tests.loopback import GOOD, Loopback, Script, answer, begin, hold, in_turn, loopback, raw

CHUNKED = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
SIZED = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ncontent-length: 100\r\n\r\n"
BARE = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\n"


def request_to(server: Loopback) -> WireRequest:
    """
    Some request to that server.
    """
    return WireRequest(f"{server.url}/chat/completions", {"model": "m"}, {"authorization": "Bearer sk-secret"})


async def transferred(server: Loopback, **settings: object) -> tuple[Watcher, list[Head]]:
    """
    One transfer from beginning to end.
    """
    heads: list[Head] = []
    source = http_body(request_to(server), heads.append, settings=HttpSettings(**settings))  # type: ignore[arg-type]
    return await Watcher().watch(source).end(), heads


async def test_a_body_arrives_whole_behind_an_empty_item(serve: Serve) -> None:
    """
    The head is known first, the empty item lets it be judged, then come the bytes, then the end.
    """
    server = await serve(answer(*GOOD, headers={"x-request-id": "r-1"}))
    watcher, heads = await transferred(server)
    assert (watcher.items[0], b"".join(watcher.items), watcher.completed, watcher.error) == (b"", b"".join(GOOD), 1, None)
    assert [(head.status, head.content_type, head.clean_eof, head.headers["x-request-id"]) for head in heads] == [
        (200, "text/event-stream", True, "r-1")
    ]
    seen = server.seen[0]
    assert (seen.method, seen.path, seen.body, seen.headers["authorization"]) == (
        "POST",
        "/v1/chat/completions",
        b'{"model":"m"}',
        "Bearer sk-secret",
    )


@pytest.mark.parametrize("size", [1, 7, 64])
async def test_a_read_is_never_larger_than_its_cap(serve: Serve, size: int) -> None:
    """
    `read_size` caps every read, and nothing is lost by it.
    """
    watcher, _ = await transferred(await serve(answer(*GOOD)), read_size=size)
    assert max(map(len, watcher.items)) == size
    assert b"".join(watcher.items) == b"".join(GOOD)


@pytest.mark.parametrize(
    "wire, clean",
    [
        (CHUNKED + b"5\r\nhello\r\n0\r\n\r\n", True),
        (SIZED.replace(b"100", b"5") + b"hello", True),
        (BARE + b"hello", False),
        (CHUNKED.replace(b"chunked", b"chunked, identity") + b"hello", False),
        (CHUNKED.replace(b"chunked", b"unchunked") + b"hello", False),
        (CHUNKED.replace(b"chunked", b"identity, Chunked") + b"5\r\nhello\r\n0\r\n\r\n", True),
    ],
    ids=["chunked", "content-length", "close-delimited", "chunks-inside", "not-chunks", "chunks-last"],
)
async def test_only_an_announced_end_is_clean(serve: Serve, wire: bytes, clean: bool) -> None:
    """
    V5: the end of a body proves something only if the transfer announces it.
    """
    watcher, heads = await transferred(await serve(raw(wire)))
    assert (b"".join(watcher.items), heads[0].clean_eof, watcher.error) == (b"hello", clean, None)


@pytest.mark.parametrize(
    "script, kind",
    [
        (raw(CHUNKED + b"5\r\nhello\r\n"), ConnectionLostError),
        (raw(CHUNKED + b"5\r\nhel"), ConnectionLostError),
        (raw(SIZED + b"hello"), ConnectionLostError),
        (raw(CHUNKED + b"5\r\nhello\r\n", reset=True), ConnectionLostError),
        (raw(b"", reset=True), ConnectionLostError),
        (raw(b"HTTP/1.1 200 OK\r\ncontent-ty"), ConnectionLostError),
        (raw(b"SSH-2.0-OpenSSH_9.6\r\n"), FramingError),
        (raw(CHUNKED + b"zz\r\nhello\r\n"), FramingError),
        (raw(BARE.replace(b"\r\n\r\n", b"\r\ncontent-encoding: gzip\r\n\r\n") + b"not gzip at all"), FramingError),
    ],
    ids=["no-last-chunk", "cut-chunk", "short", "reset", "reset-before-headers", "cut-headers", "not-http", "bad-chunk", "bad-gzip"],
)
async def test_a_broken_transfer_is_an_error_of_ours(serve: Serve, script: Script, kind: type[RxchatError]) -> None:
    """
    A transfer that breaks is never an end, and its error shows neither key nor headers.
    """
    watcher, _ = await transferred(await serve(script))
    assert (type(watcher.error), watcher.completed, watcher.failed) == (kind, 0, 1)
    shown = f"{watcher.error!r} {watcher.error.__cause__!r} {watcher.error.__context__!r}"  # type: ignore[union-attr]
    assert "sk-secret" not in shown


async def test_what_came_before_a_break_is_delivered(serve: Serve) -> None:
    """
    E10, for bytes.
    """
    watcher, _ = await transferred(await serve(raw(CHUNKED + b"5\r\nhello\r\n")))
    assert b"".join(watcher.items) == b"hello"


@pytest.mark.parametrize("news", [b"", b"HTTP/1.1 100 Continue\r\n\r\n", b"HTTP/1.1 103 Early Hints\r\nlink: </a>\r\n\r\n" * 2])
@pytest.mark.parametrize("size", [1, 7, 10_000])
async def test_what_came_before_a_fault_in_the_same_read_is_delivered(serve: Serve, news: bytes, size: int) -> None:
    """
    E9, E10: however the wire was cut, also behind news that an answer is to come.
    """
    wire = news + CHUNKED + b"5\r\nhello\r\nzz\r\n"
    watcher, _ = await transferred(await serve(raw(*(wire[at : at + size] for at in range(0, len(wire), size)))))
    assert (b"".join(watcher.items), type(watcher.error)) == (b"hello", FramingError)


@pytest.mark.parametrize("size", [None, 1, 2])
async def test_what_waits_when_it_breaks_is_delivered_too(serve: Serve, size: int | None) -> None:
    """
    E9, E10: neither small reads nor a slow consumer lose what had arrived before the break.
    """
    valve = Valve()
    watcher = Watcher(on_next=lambda item: valve.hold() if item else None)
    scheduler = ValveScheduler(AsyncIOScheduler(asyncio.get_running_loop()), valve)
    server = await serve(raw(CHUNKED + b"2\r\nhe\r\n" + b"3\r\nllo\r\n"))
    watcher.watch(http_body(request_to(server), lambda head: None, settings=HttpSettings(read_size=size)), scheduler)
    while not watcher.over.is_set():
        await asyncio.sleep(0.01)
        if valve.held:
            valve.release()
    assert (b"".join(watcher.items), watcher.failed) == (b"hello", 1)


async def test_nobody_there_is_a_connect_error(serve: Serve) -> None:
    """
    A port where nobody listens.
    """
    server = await serve(answer())
    await server.aclose()
    watcher, heads = await transferred(server)
    assert (type(watcher.error), heads) == (ConnectError, [])
    assert str(watcher.error).startswith("cannot connect to 127.0.0.1:")


async def test_a_redirect_is_not_followed(serve: Serve) -> None:
    """
    Key and conversation go to the host that was named, and to no other.
    """
    other = await serve(answer(*GOOD))
    server = await serve(answer(status=307, headers={"location": f"{other.url}/chat/completions"}))
    _, heads = await transferred(server)
    assert ([head.status for head in heads], other.seen) == ([307], [])


async def test_compression_is_undone(serve: Serve) -> None:
    """
    Bytes are those behind the decompression.
    """
    body = b"".join(GOOD)
    watcher, _ = await transferred(await serve(answer(gzip.compress(body), headers={"content-encoding": "gzip"})))
    assert b"".join(watcher.items) == body


# --- disposal -------------------------------------------------------------------------------------------------------------------------------------


async def test_disposed_before_the_first_turn_nothing_is_sent(serve: Serve) -> None:
    """
    E8: disposal at once.
    """
    server = await serve(answer(*GOOD))
    watcher = Watcher().watch(http_body(request_to(server), lambda head: None))
    watcher.dispose()
    assert await settled() == []
    assert (server.seen, watcher.items, watcher.over.is_set()) == ([], [], False)


@pytest.mark.parametrize("script", [hold(headers=False), hold(), hold(b"data: 1\n\n")], ids=["before-headers", "before-body", "in-body"])
async def test_disposed_while_it_waits_the_connection_is_closed(serve: Serve, script: Script) -> None:
    """
    E8, D4: at whatever stage, the server sees the client leave, no task is left, nothing more is said.
    """
    server = await serve(script)
    watcher = Watcher().watch(http_body(request_to(server), lambda head: None))
    await asyncio.wait_for(server.arrived.wait(), 5)
    await asyncio.sleep(0.05)
    said = list(watcher.items)
    watcher.dispose()
    watcher.dispose()
    await asyncio.wait_for(server.left.wait(), 5)
    assert await settled() == []
    assert (watcher.items, watcher.over.is_set()) == (said, False)


@pytest.mark.parametrize("at", [0, 1])
async def test_disposed_inside_on_next_nothing_more_comes(serve: Serve, at: int) -> None:
    """
    Also from inside the empty first item, when the body has not been read.
    """
    server = await serve(hold(b"data: 1\n\n"))
    watcher = Watcher(on_next=lambda item: watcher.dispose() if len(watcher.items) == at + 1 else None)
    watcher.watch(http_body(request_to(server), lambda head: None))
    await asyncio.wait_for(server.left.wait(), 5)
    assert await settled() == []
    assert (len(watcher.items), watcher.over.is_set()) == (at + 1, False)


async def test_disposed_behind_the_end_nothing_happens(serve: Serve) -> None:
    """
    Disposal is idempotent.
    """
    watcher, _ = await transferred(await serve(answer(*GOOD)))
    watcher.dispose()
    assert watcher.completed == 1


async def test_take_one_closes_the_connection(serve: Serve) -> None:
    """
    RxPY's own `take` disposes like everyone else.
    """
    server = await serve(hold(b"data: 1\n\n"))
    watcher = await Watcher().watch(http_body(request_to(server), lambda head: None).pipe(ops.take(1))).end()
    await asyncio.wait_for(server.left.wait(), 5)
    assert (watcher.items, watcher.completed) == ([b""], 1)


async def test_ended_by_its_loop_it_says_nothing(serve: Serve) -> None:
    """
    A loop that shuts down cancels the task; that is no failure of the stream.
    """
    server = await serve(hold(b"data: 1\n\n"))
    watcher = Watcher().watch(http_body(request_to(server), lambda head: None))
    await asyncio.wait_for(server.arrived.wait(), 5)
    for task in asyncio.all_tasks():
        if task.get_name() == "rxchat request":
            task.cancel()
    await asyncio.wait_for(server.left.wait(), 5)
    assert watcher.over.is_set() is False


# --- subscribers ----------------------------------------------------------------------------------------------------------------------------------


async def test_each_subscription_is_a_request(serve: Serve) -> None:
    """
    D1: cold.
    """
    server = await serve(in_turn([answer(b"one"), answer(b"two")]))
    source = http_body(request_to(server), lambda head: None)
    first, second = await Watcher().watch(source).end(), await Watcher().watch(source).end()
    assert (b"".join(first.items), b"".join(second.items), len(server.seen)) == (b"one", b"two", 2)


async def test_a_subscriber_that_raises_ends_the_request(serve: Serve) -> None:
    """
    E14: its own exception comes back to it, the connection is closed.
    """

    def fail(item: bytes) -> None:
        raise KeyError("mine")

    server = await serve(hold(b"data: 1\n\n"))
    watcher = await Watcher(on_next=fail).watch(http_body(request_to(server), lambda head: None)).end()
    await asyncio.wait_for(server.left.wait(), 5)
    assert (repr(watcher.error), len(watcher.items)) == ("KeyError('mine')", 1)


def test_without_a_loop_it_says_so() -> None:
    """
    D8: at once, naming what to do.
    """
    watcher = Watcher().watch(http_body(WireRequest("http://127.0.0.1:1", {}), lambda head: None))
    assert isinstance(watcher.error, ConfigurationError)
    assert "asyncio.run" in str(watcher.error)


async def test_a_failure_nobody_listens_to_is_logged_once(serve: Serve, caplog: pytest.LogCaptureFixture) -> None:
    """
    D8: one line, and no "never retrieved" behind it.
    """
    server = await serve(raw(SIZED + b"hello"))
    with caplog.at_level(logging.DEBUG):
        http_body(request_to(server), lambda head: None).subscribe()
        assert await settled() == [] or request_tasks()
        await asyncio.sleep(0.05)
    assert [record.getMessage().split(":")[0] for record in caplog.records if record.name != "aiohttp.access"] == [
        "a stream failed and nobody listened"
    ]


async def test_a_listener_that_fails_at_an_end_within_the_body_is_logged(serve: Serve, caplog: pytest.LogCaptureFixture) -> None:
    """
    An answer is over before its body's end: what on_completed raises then does not vanish.
    """
    server = await serve(answer(*GOOD))
    over = asyncio.Event()

    def fail() -> None:
        over.set()
        raise ValueError("a fault of the listener's")

    ChatModel("m", base_url=server.url, settings=HttpSettings(read_size=1)).stream("Hi").subscribe(on_completed=fail)
    await asyncio.wait_for(over.wait(), 5)
    await settled()
    records = [record for record in caplog.records if record.name == "rxchat"]
    assert [(record.getMessage(), str(record.exc_info and record.exc_info[1])) for record in records] == [
        ("a subscriber failed at the end of its stream", "a fault of the listener's")
    ]


def test_what_ends_the_program_is_told_once(caplog: pytest.LogCaptureFixture) -> None:
    """
    A subscriber that exits in on_next ends the program: it is not told a second time as the exception of a task.
    """

    async def main() -> None:
        async with loopback(answer(*GOOD)) as server:
            await ChatModel("m", base_url=server.url).stream("Hi").pipe(of_type(TextDelta), ops.do_action(lambda event: sys.exit(3)))

    with pytest.raises(SystemExit):
        asyncio.run(main())
    gc.collect()
    assert [record for record in caplog.records if record.name == "asyncio"] == []


async def test_a_listener_that_fails_is_logged(serve: Serve, caplog: pytest.LogCaptureFixture) -> None:
    """
    What on_error itself raises has nowhere else to go.
    """

    def fail(error: Exception) -> None:
        raise KeyError("mine")

    server = await serve(raw(SIZED + b"hello"))
    http_body(request_to(server), lambda head: None).subscribe(on_error=fail)
    assert await settled() == []
    assert [record.getMessage() for record in caplog.records if record.name == "rxchat"] == ["a subscriber failed at the end of its stream"]


async def test_a_held_valve_stops_the_reading(serve: Serve) -> None:
    """
    D3: while somebody downstream has too much waiting nothing is read; then it goes on, and nothing is lost.
    """
    pieces = [b"%4d" % k for k in range(200)]
    server = await serve(answer(*pieces))
    valve = Valve()
    watcher = Watcher(on_next=lambda item: valve.hold() if item and not valve.held and len(watcher.items) == 2 else None)
    scheduler = ValveScheduler(AsyncIOScheduler(asyncio.get_running_loop()), valve)
    source = http_body(request_to(server), lambda head: None, settings=HttpSettings(read_size=4, read_timeout=0.05))
    watcher.watch(source.pipe(ops.map(bytes)), scheduler)
    while not valve.held:
        await asyncio.sleep(0.01)
    await asyncio.sleep(0.2)
    assert watcher.items == [b"", pieces[0]]
    valve.release()
    await watcher.end()
    assert (watcher.error, b"".join(watcher.items)) == (None, b"".join(pieces))


# --- sessions and proxies -------------------------------------------------------------------------------------------------------------------------


async def test_a_shared_session_keeps_its_connection(serve: Serve) -> None:
    """
    A body read to its end gives the connection back; one that was left is closed. The session stays open.
    """
    server = await serve(in_turn([answer(*GOOD), answer(*GOOD), hold(b"data: 1\n\n"), answer(*GOOD)]))
    async with new_session(HttpSettings()) as session:
        source = http_body(request_to(server), lambda head: None, session=session)
        await Watcher().watch(source).end()
        await Watcher().watch(source).end()
        await Watcher().watch(source.pipe(ops.take(2))).end()
        await asyncio.wait_for(server.left.wait(), 5)
        await Watcher().watch(source).end()
        assert session.closed is False
    one, two, three, four = (seen.peer for seen in server.seen)
    assert one == two == three != four


async def test_a_kept_connection_keeps_nothing_of_its_answers(serve: Serve) -> None:
    """
    However many answers it serves, none of them stays in memory.
    """

    async def in_pieces(request: web.Request) -> web.StreamResponse:
        response = await begin(request)
        await response.write(GOOD[0])
        await asyncio.sleep(0.001)
        await response.write_eof(GOOD[1])
        return response

    server = await serve(in_pieces)
    async with new_session(HttpSettings()) as session:
        source = http_body(request_to(server), lambda head: None, session=session)
        for _ in range(10):
            await Watcher().watch(source).end()
        gc.collect()
        kept = [thing for thing in gc.get_objects() if isinstance(thing, Answer)]
        assert (kept, len({seen.peer for seen in server.seen})) == ([], 1)


async def test_an_answer_nobody_asked_for_is_nobodys(serve: Serve) -> None:
    """
    What a server sends over a kept connection before there is a request is not the answer to the next one.
    """

    async def twice(request: web.Request) -> web.StreamResponse:
        assert request.transport is not None
        own = b"5\r\n%5d\r\n0\r\n\r\n" % len(server.seen)
        request.transport.write(CHUNKED + own)
        await asyncio.sleep(0.02)
        request.transport.write(CHUNKED + b"5\r\nwrong\r\n0\r\n\r\n")
        await asyncio.Event().wait()
        raise AssertionError("nobody sets that event")

    server = await serve(twice)
    async with new_session(HttpSettings()) as session:
        source = http_body(request_to(server), lambda head: None, session=session)
        for number in (1, 2, 3):
            watcher = await Watcher().watch(source).end()
            assert (b"".join(watcher.items), watcher.error) == (b"%5d" % number, None)
            server.left.clear()
            await asyncio.wait_for(server.left.wait(), 5)


class Unresolving(AbstractResolver):
    """
    Names are asked for, and no answer comes.
    """

    async def resolve(self, *_: object, **__: object) -> list[ResolveResult]:
        await asyncio.Event().wait()
        return []

    async def close(self) -> None:
        pass


async def test_a_session_closed_while_it_waits_for_a_name_ends_the_request() -> None:
    """
    At once, not when a budget has run out.
    """
    session = aiohttp.ClientSession(connector=aiohttp.TCPConnector(resolver=Unresolving()))
    request = WireRequest("http://model.test/v1", {}, {})
    watcher = Watcher().watch(http_body(request, lambda head: None, session=session))
    await asyncio.sleep(0.02)
    await session.close()
    assert isinstance((await watcher.end()).error, ConnectionLostError)


async def test_a_session_closed_while_it_waits_for_a_connection_ends_the_request(serve: Serve) -> None:
    """
    As above, where the session allows fewer connections than there are requests.
    """
    server = await serve(hold(b"data: 1\n\n"))
    session = aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=1))
    source = http_body(request_to(server), lambda head: None, session=session)
    first = Watcher().watch(source)
    await asyncio.wait_for(server.arrived.wait(), 5)
    second = Watcher().watch(source)
    await asyncio.sleep(0.02)
    await session.close()
    assert [type((await watcher.end()).error) for watcher in (first, second)] == [ConnectionLostError] * 2


async def test_a_closed_session_is_a_wrong_call(serve: Serve) -> None:
    """
    The caller's own session, closed by the caller.
    """
    server = await serve(answer(*GOOD))
    session = new_session(HttpSettings())
    await session.close()
    watcher = await Watcher().watch(http_body(request_to(server), lambda head: None, session=session)).end()
    assert isinstance(watcher.error, ConfigurationError)


async def test_the_session_needs_no_closing(caplog: pytest.LogCaptureFixture, serve: Serve) -> None:
    """
    D4: no "unclosed" warning of a request that had a session of its own.
    """
    watcher, _ = await transferred(await serve(answer(*GOOD)))
    del watcher
    assert [record for record in caplog.records if record.name == "asyncio"] == []


@pytest.mark.parametrize(
    "url, expected",
    [
        ("https://api.example.com/v1", "http://proxy.example.com:3128"),
        ("http://127.0.0.1:8080/v1", None),
        ("http://localhost:8080/v1", None),
        ("https://inside.example.org/v1", None),
        ("ftp://api.example.com", None),
    ],
)
def test_the_proxy_is_the_environments(monkeypatch: pytest.MonkeyPatch, url: str, expected: str | None) -> None:
    """
    HTTPS_PROXY and NO_PROXY count; this machine is never behind a proxy.
    """
    for name in ("http_proxy", "https_proxy", "all_proxy", "no_proxy", "HTTP_PROXY", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HTTPS_PROXY", "http://proxy.example.com:3128")
    monkeypatch.setenv("NO_PROXY", "example.org")
    assert proxy_of(url) == expected


async def test_the_loopback_helper_closes() -> None:
    """
    A server stopped while a client waits ends that client's transfer.
    """
    async with loopback(hold(b"data: 1\n\n")) as server:
        watcher = Watcher().watch(http_body(request_to(server), lambda head: None))
        await asyncio.wait_for(server.arrived.wait(), 5)
    await watcher.end()
    assert isinstance(watcher.error, ConnectionLostError)
