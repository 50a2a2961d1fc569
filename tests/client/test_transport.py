"""
What only time and a real transport show: connections given back, resets through any session, TLS under back-pressure, and cases reported from the field.
"""

from __future__ import annotations

import asyncio
import gc
import json
import socket
import ssl
import struct
from collections.abc import AsyncIterator, Callable
from functools import cache
from typing import Any

import aiohttp
import attrs
import pytest
import trustme
from aiohttp import web

from rxchat import text_only, to_async_iterable
from rxchat.client import Call, ChatModel, HttpSettings, Retry
from rxchat.client.http_body import new_session
from rxchat.errors import ConnectionLostError, RxchatError, TransportTimeout, Verdict
from rxchat.events import ErrorEvent, TextDelta
from tests.client.watching import Serve, Watcher, settled
from tests.loopback import DONE, FINISH, GOOD, Loopback, Script, answer, begin, delta, frame, hold, in_turn, reset
from tests.shared_data import SHARED

BARE = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\n"


def model_at(server: Loopback, session: aiohttp.ClientSession | None = None, **settings: Any) -> ChatModel:
    """
    A model of that server.
    """
    return ChatModel("test-1", base_url=server.url, settings=HttpSettings(**settings), session=session)


def text_of(watcher: Watcher) -> str:
    """
    What was shown.
    """
    return "".join(event.text for event in watcher.items if isinstance(event, TextDelta))


# --- sessions -------------------------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("callers", [True, False], ids=["a caller's session", "one of ours"])
async def test_a_reset_is_no_end_in_any_session(serve: Serve, callers: bool) -> None:
    """
    V5: a close-delimited body that is reset is lost; one that is closed only lacks its sentinel.
    """
    server = await serve(in_turn([reset(BARE, delta("Hello")), reset_not(BARE + delta("Hello"))]))
    session = aiohttp.ClientSession() if callers else new_session(HttpSettings())
    async with session:
        verdicts = []
        for _ in range(2):
            call = model_at(server, session, retry=None).open("Hi")
            assert text_of(await Watcher().watch(call.events).end()) == "Hello"
            verdicts.append(call.verdict)
    assert verdicts == [Verdict.CONNECTION_LOST, Verdict.INCOMPLETE_STREAM]


def reset_not(*writes: bytes) -> Script:
    """
    These bytes, then the orderly end of the connection.
    """

    async def script(request: web.Request) -> web.StreamResponse:
        assert request.transport is not None
        for piece in writes:
            request.transport.write(piece)
        request.transport.close()
        return web.Response()

    return script


@pytest.mark.parametrize("callers", [True, False], ids=["a caller's session", "one of ours"])
async def test_a_kept_connection_that_is_reset_says_nothing(serve: Serve, callers: bool) -> None:
    """
    D4: nobody uses it, so nobody is to hear of it; also not that nobody asked.
    """
    complaints: list[Any] = []
    asyncio.get_running_loop().set_exception_handler(lambda loop, context: complaints.append(context))
    transports: list[Any] = []
    read = asyncio.Event()  # the headers were

    async def script(request: web.Request) -> web.StreamResponse:
        transports.append(request.transport)
        response = await begin(request)
        await read.wait()
        await response.write(b"".join(GOOD))
        await response.write_eof()
        return response

    server = await serve(script)
    session = aiohttp.ClientSession() if callers else new_session(HttpSettings())
    async with session:
        for _ in range(3):
            read.clear()
            call = model_at(server, session, retry=None).open("Hi")
            watcher = Watcher().watch(call.events)
            while call.timings.headers is None:
                await asyncio.sleep(0.001)
            read.set()
            await watcher.end()
            await settled()
            transports[-1].get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            transports[-1].abort()
            await idle(session)
            assert call.verdict is Verdict.COMPLETE
    gc.collect()
    assert complaints == []


async def idle(session: aiohttp.ClientSession) -> None:
    """
    Wait until its connections are gone.
    """
    connector: Any = session.connector
    async with asyncio.timeout(5):
        while any(protocol.is_connected() for kept in connector._conns.values() for protocol, _ in kept):
            await asyncio.sleep(0.001)


async def test_broken_chunks_do_not_hang_in_a_callers_session(serve: Serve) -> None:
    """
    aiohttp closes the connection and tells nobody; the failure comes at once, not when the read budget is over.
    """
    head = BARE.replace(b"\r\n\r\n", b"\r\ntransfer-encoding: chunked\r\n\r\n")
    data = delta("Hello")
    server = await serve(reset(head, b"%x\r\n%s\r\n" % (len(data), data), b"zz\r\n"))
    async with aiohttp.ClientSession() as session:
        call = model_at(server, session, retry=None, read_timeout=30.0).open("Hi")
        watcher = await Watcher().watch(call.events).end()
    assert (call.verdict, text_of(watcher)) == (Verdict.FRAMING, "Hello")


async def test_a_callers_total_time_is_not_ours(serve: Serve) -> None:
    """
    D2: the budgets are the settings'; aiohttp's five minutes for everything, or less, end no answer.
    """

    async def slowly(request: web.Request) -> web.StreamResponse:
        response = await begin(request)
        for piece in (*[delta(".")] * 6, FINISH, DONE):
            await response.write(piece)
            await asyncio.sleep(0.05)
        return response

    server = await serve(slowly)
    async with aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=0.1, sock_read=0.01)) as session:
        assert (await model_at(server, session).call("Hi")).text == "......"


async def test_a_session_closed_under_a_stream_ends_it(serve: Serve) -> None:
    """
    CONNECTION_LOST, at once.
    """
    server = await serve(hold(delta("Hello")))
    session = new_session(HttpSettings())
    call = model_at(server, session, retry=None).open("Hi")
    closing: list[asyncio.Task[None]] = []
    watcher = Watcher(on_next=lambda event: closing.append(asyncio.ensure_future(session.close())) if isinstance(event, TextDelta) else None)
    await watcher.watch(call.events).end()
    await closing[0]
    assert call.verdict is Verdict.CONNECTION_LOST


@pytest.mark.parametrize("turns", range(8))
async def test_a_model_closed_before_an_answer_sends_no_more(turns: int, serve: Serve) -> None:
    """
    CONNECTION_LOST, at whatever stage the request is, also before its first turn; neither sent again nor over connections of its own (contract V2, D5).
    """
    server = await serve(hold(headers=False))
    model = model_at(server, retry=Retry(first_wait=0.01))
    async with model:
        call = model.open("Hi")
        watcher = Watcher().watch(call.events)
        for _ in range(turns):
            await asyncio.sleep(0)
        await model.aclose()
        await watcher.end()
    assert (call.verdict, call.attempts, isinstance(watcher.error, ConnectionLostError)) == (Verdict.CONNECTION_LOST, 1, True)


async def test_a_wait_outlived_by_its_model(serve: Serve, caplog: pytest.LogCaptureFixture) -> None:
    """
    What was to be sent again behind a closed model is not.
    """
    server = await serve(answer(b"{}", status=503, content_type="application/json"))
    caplog.set_level("INFO", "rxchat")
    async with model_at(server, retry=Retry(first_wait=0.05, jitter=0)) as model:
        call = model.open("Hi")
        watcher = Watcher().watch(call.events)
        while "the next follows" not in caplog.text:
            await asyncio.sleep(0)
        await model.aclose()
        await watcher.end()
    assert (len(server.seen), call.attempts, call.verdict) == (1, 2, Verdict.CONNECTION_LOST)


async def test_a_connection_that_had_died_meanwhile_is_not_the_answers_end(serve: Serve) -> None:
    """
    D5: a kept connection that the server resets at the next request: asked again on a new one, for nothing was shown.
    """
    server = await serve(in_turn([answer(*GOOD), reset(), answer(*GOOD)]))
    async with model_at(server, retry=Retry(first_wait=0.01)) as model:
        assert (await model.call("Hi")).text == (await model.call("Hi")).text == "Hello, world."
    one, two, three = (seen.peer for seen in server.seen)
    assert one == two != three


async def test_over_tls_nothing_is_lost_to_a_slow_consumer() -> None:
    """
    D3: a whole answer and its connection's end arrive while nobody reads; all of it is there when somebody does.
    """
    authority = trustme.CA(key_type=trustme.KeyType.ECDSA)
    theirs, ours = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH), ssl.create_default_context()
    authority.issue_cert("127.0.0.1").configure_cert(theirs)
    authority.configure_trust(ours)
    texts = [f"{k} " + "x" * 200 for k in range(4000)]

    async def script(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse(headers={"content-type": "text/event-stream", "connection": "close"})
        response.enable_chunked_encoding()
        await response.prepare(request)
        for at in range(0, len(texts), 50):
            await response.write(b"".join(map(delta, texts[at : at + 50])))
        await response.write(FINISH + DONE)
        return response

    server = await Loopback(script, tls=theirs).start()
    got: list[str] = []
    try:
        async for text in model_at(server, ssl=ours).stream("Hi").pipe(text_only(), to_async_iterable()):
            got.append(text)
            if len(got) % 500 == 1:
                await asyncio.sleep(0.05)
    finally:
        await server.aclose()
    assert got == texts


# --- from the field -------------------------------------------------------------------------------------------------------------------------------


@attrs.frozen
class Report:
    """
    What somebody met: what the server writes and how it goes on, what client and consumer do, what must come of it. Times in milliseconds.
    """

    id: str
    wire: bytes
    ends: str
    scenario: dict[str, Any]
    expect: dict[str, Any]


def own_wire(*texts: str, whole: bool = False) -> bytes:
    """
    Texts as frames of a chat completion.
    """
    return b"".join(map(delta, texts)) + (FINISH + DONE if whole else b"")


SEND: dict[str, Any] = {"send": "wire"}
HELD = [SEND, {"hold_open_ms": 30000}]
GONE = {"events": 0, "on_error": False, "on_completed": False}
OWN = [
    Report(
        "held-open",
        own_wire("all of it", whole=True),
        "held-open",
        {"server": HELD},
        {"outcome": "completed", "text": "all of it", "completes_within_ms": 1000},
    ),
    Report(
        "released",
        own_wire("a", "b", "c"),
        "held-open",
        {"server": HELD, "consumer": {"dispose_after_text_events": 1, "repeat": 3, "connection_limit": 2}},
        {"after_dispose": GONE, "released_within_ms": 1000},
    ),
    Report(
        "idle",
        own_wire("so far"),
        "held-open",
        {"server": HELD, "client": {"idle_timeout_ms": 300}},
        {"outcome": "error", "text": "so far", "error": {"kind": "timeout"}, "terminal": "on_error", "fails_within_ms": 2000},
    ),
    Report(
        "no second request",
        own_wire("Hel"),
        "reset",
        {"server": [SEND, {"reset": True}], "second_request": own_wire("Hello", whole=True).decode(), "client": {"max_retries": 2}},
        {"outcome": "error", "text": "Hel", "error": {"kind": "transport"}, "terminal": "on_error", "requests": 1},
    ),
    Report(
        "aborted",
        own_wire("one ", "two"),
        "held-open",
        {"server": HELD, "consumer": {"abort_after_text_events": 2}},
        {"outcome": "aborted", "text": "one two"},
    ),
    Report(
        "the loop",
        frame(delta={"content": "y" * 100}) * 5000 + FINISH + DONE,
        "",
        {"server": [{**SEND, "read_size": 65536, "pause_ms": 20}], "consumer": {"ticker_ms": 5}},
        {"outcome": "completed", "text_length": 500_000, "event_loop_max_gap_ms": 100},
    ),
]


@cache
def recorded() -> tuple[Report, ...]:
    """
    Those of the recorded reports that are about time and transport, where they are there.
    """
    path = SHARED / "cases" / "field-reports.json"
    if not path.exists():
        return ()
    timed = [case for case in json.loads(path.read_text()) if "scenario" in case]
    return tuple(Report(case["id"], wire_of(case), case.get("ends", ""), case["scenario"], case["expect"]) for case in timed)


def wire_of(case: dict[str, Any]) -> bytes:
    """
    The body of a case.
    """
    parts = case.get("wire_parts") or [{"text": case["wire"], "times": 1}]
    return b"".join(part["text"].encode() * part["times"] for part in parts)


def server_of(report: Report) -> Script:
    """
    What the server does, as the scenario says.
    """

    async def first(request: web.Request) -> web.StreamResponse:
        step = report.scenario["server"][0]
        response = await begin(request)
        size = step.get("read_size") or len(report.wire)
        for at in range(0, len(report.wire), size):
            await response.write(report.wire[at : at + size])
            await asyncio.sleep(step.get("pause_ms", 0) / 1000)
        if report.ends == "held-open":
            await asyncio.sleep(30)
        if report.ends == "reset":
            return await reset()(request)
        return response

    second = report.scenario.get("second_request")
    asked: list[web.Request] = []

    async def script(request: web.Request) -> web.StreamResponse:
        asked.append(request)
        return await (first if second is None or len(asked) == 1 else answer(second.encode()))(request)

    return script


class Ticker:
    """
    How long the loop was kept from somebody who wants a turn every `seconds`, at most.
    """

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self.longest = 0.0

    async def run(self) -> None:
        """
        Until cancelled.
        """
        loop = asyncio.get_running_loop()
        while True:
            before = loop.time()
            await asyncio.sleep(self._seconds)
            self.longest = max(self.longest, loop.time() - before)


def acting(report: Report, call: Call) -> Callable[[Any], None]:
    """
    What the consumer does at its n-th text.
    """
    consumer = report.scenario.get("consumer", {})
    acts: list[tuple[int | None, Callable[[], None]]] = [
        (consumer.get("dispose_after_text_events"), call.dispose),
        (consumer.get("abort_after_text_events"), lambda: call.abort("enough")),
    ]
    seen: list[TextDelta] = []

    def on_next(event: Any) -> None:
        if isinstance(event, TextDelta):
            seen.append(event)
            for at, act in acts:
                if at == len(seen):
                    act()

    return on_next


@pytest.fixture
async def ticker() -> AsyncIterator[Ticker]:
    """
    Somebody else on the loop.
    """
    ticking = Ticker(0.005)
    task = asyncio.create_task(ticking.run())
    yield ticking
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


def settings_of(report: Report) -> HttpSettings:
    """
    The client of the scenario.
    """
    client = report.scenario.get("client", {})
    idle = client.get("idle_timeout_ms")
    return HttpSettings(read_timeout=idle / 1000 if idle else 300.0, retry=Retry(attempts=client.get("max_retries", 2) + 1, first_wait=0.01))


@pytest.mark.parametrize("report", [*OWN, *recorded()], ids=lambda report: report.id)
async def test_reported_from_the_field(serve: Serve, report: Report, ticker: Ticker) -> None:
    """
    Our own cases of six kinds, and the recorded ones where they are there: outcome, text, times, connections.
    """
    server = await serve(server_of(report))
    consumer = report.scenario.get("consumer", {})
    connector = aiohttp.TCPConnector(limit=consumer.get("connection_limit", 100))
    async with aiohttp.ClientSession(connector=connector) as session:
        model = ChatModel("test-1", base_url=server.url, settings=settings_of(report), session=session)
        for _ in range(consumer.get("repeat", 1)):
            await one(report, model, server)
        assert await settled() == []
        assert not connector._acquired
    gap = report.expect.get("event_loop_max_gap_ms")
    assert gap is None or ticker.longest * 1000 < gap
    assert len(server.seen) == report.expect.get("requests", consumer.get("repeat", 1))


async def one(report: Report, model: ChatModel, server: Loopback) -> None:
    """
    One answer of it.
    """
    call = model.open("Hi")
    watcher = Watcher(on_next=acting(report, call))
    loop = asyncio.get_running_loop()
    began = loop.time()
    watcher.watch(call.events)
    if "after_dispose" in report.expect:
        await left(watcher, server, report.expect["released_within_ms"] / 1000)
        assert call.verdict is Verdict.CANCELLED
        return
    await watcher.end()
    took = (loop.time() - began) * 1000
    assert took < report.expect.get("completes_within_ms", report.expect.get("fails_within_ms", 60_000))
    assert outcome(report, call, watcher) == {name: value for name, value in report.expect.items() if name in COMPARED}


async def left(watcher: Watcher, server: Loopback, seconds: float) -> None:
    """
    The consumer has left: nothing more is said, and the server sees the connection go in time.
    """
    await asyncio.wait_for(server.left.wait(), 5 + seconds)
    server.left.clear()
    said = len(watcher.items)
    await asyncio.sleep(0.05)
    assert (len(watcher.items), type(watcher.items[-1]), watcher.failed, watcher.completed) == (said, TextDelta, 0, 0)


COMPARED = ("outcome", "text", "text_length", "finish_reason", "history_committed", "terminal", "error")
OUTCOMES = {Verdict.COMPLETE: "completed", Verdict.ABORTED: "aborted", Verdict.INCOMPLETE_STREAM: "incomplete"}


def outcome(report: Report, call: Call, watcher: Watcher) -> dict[str, Any]:
    """
    What came of it, in the words of the reports; only what they ask for.
    """
    error = watcher.error
    assert error is None or (isinstance(error, RxchatError) and isinstance(watcher.items[-1], ErrorEvent))
    assert call.verdict is not None
    reason = call.response.finish_reason
    known: dict[str, Any] = {
        "outcome": OUTCOMES.get(call.verdict, "error"),
        "text": text_of(watcher),
        "text_length": len(text_of(watcher)),
        "finish_reason": str(reason),
        "history_committed": call.response.committable,
        "terminal": "on_completed" if error is None else "on_error",
        "error": {"kind": "timeout" if isinstance(error, TransportTimeout) else "transport"},
    }
    assert call.response.text == text_of(watcher)
    return {name: value for name, value in known.items() if name in report.expect}
