"""
Every verdict that can come over HTTP, made by a real server or network, as it arrives: closing ENDs, ErrorEvent, then on_error, the same failure (V4, E6, E7).
"""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from email.utils import formatdate
from time import time
from typing import Any

import attrs
import pytest

from rxchat.client import Call, ChatModel, HttpSettings
from rxchat.errors import HTTPStatusError, RxchatError, Verdict
from rxchat.events import Abort, ErrorEvent, ResponseEnd, ResponseStart, TextDelta
from rxchat.limits import Limits
from tests.client.test_compression import squeezed
from tests.client.watching import Serve, Watcher
from tests.grammar import violations
from tests.loopback import DONE, FINISH, GOOD, Script, answer, delta, frame, hold, raw, reset

CHUNKED = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
BARE = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\n"
AWS = "application/vnd.amazon.eventstream"
HELLO = delta("Hello")


def sized(body: bytes, more: int = 0) -> bytes:
    """
    A whole answer that says it is `more` longer than it is.
    """
    return b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ncontent-length: %d\r\n\r\n%s" % (len(body) + more, body)


def chunk(data: bytes) -> bytes:
    """
    One chunk of a chunked body.
    """
    return b"%x\r\n%s\r\n" % (len(data), data)


def sse(text: str) -> bytes:
    """
    An event with that as its data.
    """
    return f"data: {text}\n\n".encode()


@attrs.frozen
class Case:
    """
    What a server does, and how that ends: the verdict, the text until then, and words of the message.
    """

    script: Script
    verdict: Verdict
    text: str = ""
    words: str = ""
    dialect: str | None = None
    limits: Limits | None = None
    settings: dict[str, Any] = attrs.field(factory=dict)


V = Verdict
CASES: dict[str, Case] = {
    "whole": Case(answer(*GOOD), V.COMPLETE, "Hello, world."),
    "close-delimited with its sentinel": Case(raw(BARE + b"".join(GOOD)), V.COMPLETE, "Hello, world."),
    "more bytes than announced": Case(raw(sized(b"".join(GOOD)) + b"and more"), V.COMPLETE, "Hello, world."),
    "reset behind the sentinel": Case(reset(BARE + b"".join(GOOD)), V.COMPLETE, "Hello, world."),
    "length": Case(answer(HELLO, frame(finish_reason="length"), DONE), V.INCOMPLETE_FINISH, "Hello"),
    "no reason": Case(answer(HELLO, DONE), V.INCOMPLETE_FINISH, "Hello"),
    "no end": Case(answer(HELLO), V.INCOMPLETE_STREAM, "Hello"),
    "empty": Case(answer(), V.INCOMPLETE_STREAM),
    "announced shorter than it is": Case(raw(sized(b"".join(GOOD), -20)), V.INCOMPLETE_STREAM, "Hello, world."),
    "close-delimited without its sentinel": Case(raw(BARE + HELLO + FINISH), V.INCOMPLETE_STREAM, "Hello"),
    "not what the dialect says": Case(answer(HELLO, sse('{"choices":"none"}')), V.PROTOCOL, "Hello"),
    "the provider fails": Case(answer(HELLO, sse('{"error":{"message":"busy","type":"overloaded_error"}}')), V.PROVIDER_ERROR, "Hello", "busy"),
    "broken JSON": Case(answer(HELLO, sse('{"choices":[')), V.INVALID_JSON, "Hello"),
    "not UTF-8": Case(answer(HELLO, b'data: {"a":"\xff"}\n\n'), V.INVALID_UTF8, "Hello"),
    "a bad checksum": Case(answer(b"\0\0\0\x10\0\0\0\0" + bytes(8), content_type=AWS), V.FRAMING, dialect="bedrock-converse"),
    "broken chunks": Case(raw(CHUNKED + chunk(HELLO) + b"zz\r\n"), V.FRAMING, "Hello", "does not speak HTTP"),
    "broken chunks, one by one": Case(reset(CHUNKED, chunk(HELLO), b"zz\r\n"), V.FRAMING, "Hello", "does not speak HTTP"),
    "no HTTP": Case(raw(b"SSH-2.0-OpenSSH_9.6\r\n"), V.FRAMING, "", "does not speak HTTP"),
    "rubbish for gzip": Case(answer(b"no gzip", headers={"content-encoding": "gzip"}), V.FRAMING, "", "the body is not what gzip makes"),
    "an unknown coding": Case(answer(*GOOD, headers={"content-encoding": "lzma"}), V.FRAMING, "", "compressed by lzma"),
    "a long line": Case(answer(HELLO, sse("x" * 2000)), V.LIMIT, "Hello", "line=1000", limits=Limits(line=1000)),
    "a page": Case(
        answer(b"<title>Log in</title>", content_type="text/html"), V.CONTENT_TYPE, "", "text/html, which this dialect does not read: Log in"
    ),
    "refused": Case(answer(b"{}", status=400, content_type="application/json"), V.HTTP_STATUS, "", "HTTP 400 Bad Request"),
    "nothing": Case(raw(b""), V.CONNECTION_LOST, "", "closed the connection without an answer"),
    "reset before the headers": Case(reset(), V.CONNECTION_LOST),
    "reset in the headers": Case(reset(b"HTTP/1.1 200 OK\r\ncontent-ty"), V.CONNECTION_LOST),
    "reset in a chunked body": Case(reset(CHUNKED + chunk(HELLO)), V.CONNECTION_LOST, "Hello"),
    "reset in a sized body": Case(reset(sized(HELLO, 100)), V.CONNECTION_LOST, "Hello"),
    "reset of a close-delimited body": Case(reset(BARE + HELLO), V.CONNECTION_LOST, "Hello", "Connection reset by peer"),
    "reset of a close-delimited body in two writes": Case(reset(BARE, HELLO + FINISH), V.CONNECTION_LOST, "Hello", "Connection reset by peer"),
    "closed in a chunk": Case(raw(CHUNKED + b"1000\r\n" + HELLO), V.CONNECTION_LOST, "Hello", "broke the transfer off before its end"),
    "closed between chunks": Case(raw(CHUNKED + chunk(HELLO)), V.CONNECTION_LOST, "Hello", "broke the transfer off before its end"),
    "shorter than announced": Case(raw(sized(HELLO, 1)), V.CONNECTION_LOST, "Hello", "broke the transfer off before its end"),
    "cut inside gzip": Case(
        answer(*squeezed("gzip", HELLO, whole=False), headers={"content-encoding": "gzip"}), V.CONNECTION_LOST, "Hello", "before its own end"
    ),
    "silence": Case(hold(HELLO), V.READ_TIMEOUT, "Hello", "silent for 0.2 s", settings={"read_timeout": 0.2}),
    "no content": Case(hold(b": life\n\n"), V.FIRST_EVENT_TIMEOUT, "", "no content within 0.2 s", settings={"first_event_timeout": 0.2}),
    "no headers": Case(hold(headers=False), V.FIRST_EVENT_TIMEOUT, "", "no content within 0.2 s", settings={"first_event_timeout": 0.2}),
    "too long": Case(hold(HELLO), V.TOTAL_TIMEOUT, "Hello", "not complete within 0.3 s", settings={"total_timeout": 0.3}),
}
# Those that no script of a server makes, and the two that are no failures of a stream.
ELSEWHERE = {V.CONNECT, V.CONNECT_TIMEOUT, V.CANCELLED, V.ABORTED, V.TOOL, V.STORE}


def call_of(url: str, dialect: str | None = None, limits: Limits | None = None, **settings: Any) -> Call:
    """
    One request, sent once.
    """
    model = ChatModel("test-1", base_url=url, dialect=dialect, api_key="sk-secret", limits=limits, settings=HttpSettings(retry=None, **settings))
    return model.open("Hi")


async def failed(call: Call, verdict: Verdict) -> tuple[RxchatError, Watcher]:
    """
    That it failed with that verdict, as a failure has to arrive.
    """
    watcher = await Watcher().watch(call.events).end()
    last = watcher.items[-1]
    assert (type(watcher.items[0]), type(last), watcher.completed, watcher.failed) == (ResponseStart, ErrorEvent, 0, 1)
    assert isinstance(watcher.error, RxchatError)
    assert last.error is watcher.error
    assert (last.error.verdict, call.verdict, last.response.verdict) == (verdict, verdict, verdict)
    assert violations(watcher.items) == []
    assert "sk-secret" not in f"{last.error!r} {last.error.__cause__!r}"
    return watcher.error, watcher


def text_of(watcher: Watcher) -> str:
    """
    What was shown.
    """
    return "".join(event.text for event in watcher.items if isinstance(event, TextDelta))


def test_every_verdict_has_a_row() -> None:
    """
    V4: none is forgotten.
    """
    assert {case.verdict for case in CASES.values()} == set(Verdict) - ELSEWHERE


@pytest.mark.parametrize("size", [None, 1], ids=["any reads", "single bytes"])
@pytest.mark.parametrize("name", CASES)
async def test_how_it_ends(serve: Serve, name: str, size: int | None) -> None:
    """
    V4, E6, E9, E10: verdict, text and message, whatever the reads.
    """
    case = CASES[name]
    server = await serve(case.script)
    call = call_of(server.url, case.dialect, case.limits, read_size=size, **case.settings)
    if case.verdict in (Verdict.COMPLETE, Verdict.INCOMPLETE_FINISH):
        watcher = await Watcher().watch(call.events).end()
        assert (type(watcher.items[-1]), watcher.completed, watcher.error, call.verdict) == (ResponseEnd, 1, None, case.verdict)
        assert violations(watcher.items) == []
    else:
        error, watcher = await failed(call, case.verdict)
        assert case.words in str(error)
    assert (text_of(watcher), len(server.seen)) == (case.text, 1)


async def test_nobody_listens(serve: Serve) -> None:
    """
    CONNECT: refused.
    """
    server = await serve(answer())
    await server.aclose()
    error, watcher = await failed(call_of(server.url), Verdict.CONNECT)
    assert (str(error), len(watcher.items)) == (f"cannot connect to 127.0.0.1:{server.port}: Connection refused", 2)


async def test_no_such_host() -> None:
    """
    CONNECT: a name nobody has.
    """
    error, _ = await failed(call_of("http://nowhere.invalid/v1"), Verdict.CONNECT)
    assert str(error).startswith("there is no host nowhere.invalid")


@asynccontextmanager
async def full_house() -> AsyncIterator[int]:
    """
    A port that listens and takes nobody: its queue is full.
    """
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        listening.listen(0)
        guests = [socket.socket() for _ in range(4)]
        for guest in guests:
            guest.setblocking(False)
            guest.connect_ex(listening.getsockname())
        await asyncio.sleep(0.05)
        try:
            yield listening.getsockname()[1]
        finally:
            for guest in guests:
                guest.close()


async def test_nobody_takes_the_connection() -> None:
    """
    CONNECT_TIMEOUT.
    """
    async with full_house() as port:
        error, _ = await failed(call_of(f"http://127.0.0.1:{port}/v1", connect_timeout=0.2), Verdict.CONNECT_TIMEOUT)
    assert str(error) == "no connection within 0.2 s"


async def test_disposed(serve: Serve) -> None:
    """
    CANCELLED: not one more event (E8).
    """
    server = await serve(hold(HELLO))
    call = call_of(server.url)
    watcher = Watcher(on_next=lambda event: call.dispose() if isinstance(event, TextDelta) else None).watch(call.events)
    await asyncio.wait_for(server.left.wait(), 5)
    assert (call.verdict, watcher.over.is_set(), type(watcher.items[-1])) == (Verdict.CANCELLED, False, TextDelta)


async def test_aborted(serve: Serve) -> None:
    """
    ABORTED: closing ENDs, Abort, on_completed (D7).
    """
    server = await serve(hold(HELLO))
    call = call_of(server.url)
    watcher = await Watcher(on_next=lambda event: call.abort("enough") if isinstance(event, TextDelta) else None).watch(call.events).end()
    assert (call.verdict, type(watcher.items[-1]), watcher.completed, watcher.error) == (Verdict.ABORTED, Abort, 1, None)
    assert violations(watcher.items) == []


# --- refusals -------------------------------------------------------------------------------------------------------------------------------------


@attrs.frozen
class Refusal:
    """
    What a provider answers, and what is to be known of it.
    """

    status: int
    body: Any
    message: str
    code: str | int | None = None
    type: str | None = None
    request_id: str | None = None
    retry_after: float | None = None
    retryable: bool = False
    content_type: str = "application/json"
    headers: dict[str, str] = attrs.field(factory=dict)


RETRY_INFO = {"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "12s"}
REFUSALS: dict[str, Refusal] = {
    "openai": Refusal(
        401,
        {"error": {"message": "Wrong key", "type": "invalid_request_error", "code": "invalid_api_key"}},
        "Wrong key",
        "invalid_api_key",
        "invalid_request_error",
    ),
    "openai, its own header": Refusal(
        429,
        {"error": {"message": "No money", "type": "insufficient_quota", "code": "insufficient_quota"}},
        "No money",
        "insufficient_quota",
        "insufficient_quota",
        "req_1",
        headers={"x-request-id": "req_1", "x-should-retry": "false"},
    ),
    "anthropic": Refusal(
        529,
        {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}, "request_id": "req_2"},
        "Overloaded",
        None,
        "overloaded_error",
        "req_2",
        retryable=True,
    ),
    "gemini": Refusal(
        429,
        {"error": {"code": 429, "message": "Slow down", "status": "RESOURCE_EXHAUSTED", "details": [RETRY_INFO]}},
        "Slow down",
        429,
        "RESOURCE_EXHAUSTED",
        retry_after=12.0,
        retryable=True,
    ),
    "gemini, in an array": Refusal(400, [{"error": {"code": 400, "message": "No", "status": "INVALID_ARGUMENT"}}], "No", 400, "INVALID_ARGUMENT"),
    "bedrock": Refusal(
        429,
        {"message": "Too many tokens"},
        "Too many tokens",
        None,
        "ThrottlingException",
        "r-3",
        retryable=True,
        headers={"x-amzn-errortype": "ThrottlingException:http://internal.amazon.com/", "x-amzn-requestid": "r-3"},
    ),
    "cohere": Refusal(404, {"id": "x", "message": "model not found"}, "model not found"),
    "mistral": Refusal(
        400,
        {"object": "error", "message": "Bad role", "type": "invalid_request_message_order", "code": "3230"},
        "Bad role",
        "3230",
        "invalid_request_message_order",
    ),
    "mistral, validation": Refusal(422, {"detail": [{"loc": ["body", "model"], "msg": "field required"}]}, "body.model: field required"),
    "ollama": Refusal(404, {"error": "model 'x' not found"}, "model 'x' not found"),
    "dashscope": Refusal(401, {"code": "InvalidApiKey", "message": "Wrong key", "request_id": "r-4"}, "Wrong key", "InvalidApiKey", None, "r-4"),
    "hugging face": Refusal(503, {"error": "Model is loading", "error_type": "overloaded"}, "Model is loading", None, "overloaded", retryable=True),
    "a page": Refusal(502, "<html><title>502 Bad Gateway</title></html>", "502 Bad Gateway", retryable=True, content_type="text/html"),
    "words": Refusal(500, "upstream connect error", "upstream connect error", retryable=True, content_type="text/plain"),
    "an event": Refusal(503, 'data: {"error":{"message":"busy"}}\n\n', "busy", retryable=True, content_type="text/event-stream"),
    "nothing": Refusal(504, "", "HTTP 504 Gateway Timeout", retryable=True),
    "broken JSON": Refusal(500, '{"error":', '{"error":', retryable=True),
    "a status of its own": Refusal(499, "", "HTTP 499"),
    "accepted": Refusal(202, {"message": "queued"}, "queued"),
    "no content": Refusal(204, "", "HTTP 204 No Content"),
}


@pytest.mark.parametrize("name", REFUSALS)
async def test_a_refusal_says_what_the_provider_said(serve: Serve, name: str) -> None:
    """
    D6: message, code, type, request id, waiting time, in the shapes of all providers.
    """
    case = REFUSALS[name]
    body = case.body.encode() if isinstance(case.body, str) else json.dumps(case.body).encode()
    server = await serve(answer(*([body] if body else []), status=case.status, content_type=case.content_type, headers=case.headers))
    error, _ = await failed(call_of(server.url), Verdict.HTTP_STATUS)
    assert isinstance(error, HTTPStatusError)
    assert (
        Refusal(
            error.status or 0,
            case.body,
            str(error),
            error.code,
            error.type,
            error.request_id,
            error.retry_after,
            error.retryable,
            case.content_type,
            case.headers,
        )
        == case
    )
    assert error.body == body


WAITS: dict[str, tuple[dict[str, str], float | None]] = {
    "seconds": ({"retry-after": "7"}, 7.0),
    "a fraction": ({"retry-after": "0.5"}, 0.5),
    "milliseconds": ({"retry-after-ms": "1500", "retry-after": "7"}, 1.5),
    "rubbish": ({"retry-after": "soon"}, None),
    "negative": ({"retry-after": "-7"}, None),
    "past": ({"retry-after": "Thu, 01 Jan 1970 00:00:00 GMT"}, 0.0),
    "far": ({"retry-after": "86400000"}, 86_400_000.0),
    "none": ({}, None),
}


@pytest.mark.parametrize("name", WAITS)
async def test_how_long_to_wait(serve: Serve, name: str) -> None:
    """
    D6: Retry-After in each form, and nonsense.
    """
    headers, expected = WAITS[name]
    server = await serve(answer(status=429, headers=headers))
    error, _ = await failed(call_of(server.url), Verdict.HTTP_STATUS)
    assert error.retry_after == expected


async def test_how_long_to_wait_until_a_date(serve: Serve) -> None:
    """
    A date is counted from now.
    """
    server = await serve(answer(status=503, headers={"retry-after": formatdate(time() + 100, usegmt=True)}))
    error, _ = await failed(call_of(server.url), Verdict.HTTP_STATUS)
    assert 90 < (error.retry_after or 0) <= 100


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
async def test_a_redirect_is_said_and_not_followed(serve: Serve, status: int) -> None:
    """
    Key and conversation stay with the host that was named; the message names the other, without what its address may hide.
    """
    other = await serve(answer(*GOOD))
    target = other.url.replace("://", "://user:sk-hidden@") + "/chat?key=sk-hidden"
    server = await serve(answer(status=status, headers={"location": target}))
    error, _ = await failed(call_of(server.url), Verdict.HTTP_STATUS)
    assert other.seen == []
    assert str(error).endswith(f": a redirect to 127.0.0.1:{other.port}; redirects are not followed")
    assert ("sk-hidden" in str(error), error.retryable) == (False, False)


# --- the connection behind it ---------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "name", ["more bytes than announced", "announced shorter than it is", "broken chunks", "cut inside gzip", "reset of a close-delimited body"]
)
async def test_what_was_left_over_harms_no_other_request(serve: Serve, name: str) -> None:
    """
    A shared session: the bytes of one answer are never read as another's.
    """
    case, asked = CASES[name], []

    async def script(request: Any) -> Any:
        asked.append(request)
        return await (case.script if len(asked) % 2 else answer(*GOOD))(request)

    server = await serve(script)
    async with ChatModel("test-1", base_url=server.url, settings=HttpSettings(retry=None)) as model:
        for _ in range(3):
            call = model.open("Hi")
            await Watcher().watch(call.events).end()
            assert call.verdict is case.verdict
            assert (await model.call("Hi")).text == "Hello, world."
