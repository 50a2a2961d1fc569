"""
What is sent again by itself, when, how often, and what is never (contract D5).
"""

from __future__ import annotations

import asyncio
import logging
import random
import re
import time
from collections.abc import Callable
from email.utils import formatdate
from typing import Any

import pytest

from rxchat.client import ChatModel, HttpSettings, Retry
from rxchat.client.attempts import wait_before
from rxchat.errors import (
    ConfigurationError,
    ConnectError,
    ConnectionLostError,
    ConnectTimeout,
    FirstEventTimeout,
    FramingError,
    HTTPStatusError,
    IncompleteStreamError,
    ProviderError,
    ReadTimeout,
    RxchatError,
    TotalTimeout,
    Verdict,
)
from rxchat.events import ResponseStart
from tests.client.hand import Body, Hand
from tests.client.watching import Serve, Watcher, settled
from tests.grammar import violations
from tests.loopback import GOOD, Script, answer, delta, frame, hold, in_turn, raw

AGAIN = [408, 409, 425, 429, 500, 502, 503, 504, 529]
NEVER = [302, 400, 401, 402, 403, 404, 405, 413, 422, 501]
QUICK = HttpSettings(retry=Retry(first_wait=0.01, jitter=0))
STEADY = Retry(jitter=0)

REFUSAL = b'{"error":{"message":"no","type":"t"}}'
OVERLOADED = b'data: {"error":{"message":"overloaded","code":503}}\n\n'
ANTHROPIC_PING = b'data: {"type":"ping"}\n\n'
ANTHROPIC_ODD = b'data: {"type":"odd"}\n\n'
ANTHROPIC = b"".join(
    b"data: " + data + b"\n\n"
    for data in (
        b'{"type":"message_start","message":{"id":"m","model":"m","usage":{"input_tokens":1,"output_tokens":1}}}',
        b'{"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}',
        b'{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"Hello"}}',
        b'{"type":"content_block_stop","index":0}',
        b'{"type":"message_delta","delta":{"stop_reason":"end_turn"},"usage":{"output_tokens":2}}',
        b'{"type":"message_stop"}',
    )
)
PING, ODD = b": ping\n\n", b'data: {"odd":1}\n\n'


# --- what is sent again ---------------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("status", AGAIN)
async def test_a_status_that_may_pass_is_asked_again(status: int) -> None:
    """
    Nothing of it is shown; the second answer is the response.
    """
    hand = Hand.of(retry=STEADY).begin()
    hand.body.refuse(status, REFUSAL)
    assert (hand.types, hand.call.verdict, hand.call.attempts, len(hand.bodies), hand.body.left) == (["RESPONSE_START"], None, 1, 1, True)
    hand.wait(0.5).body.headers().push(*GOOD)
    assert (violations(hand.watcher.items), hand.watcher.completed, hand.watcher.error) == ([], 1, None)
    assert (hand.call.verdict, hand.call.response.text, hand.call.attempts) == (Verdict.COMPLETE, "Hello, world.", 2)


@pytest.mark.parametrize("status", NEVER)
async def test_a_status_that_stays_is_told_at_once(status: int) -> None:
    """
    E7: ResponseStart, ErrorEvent, on_error; one request.
    """
    hand = Hand.of(retry=STEADY).begin()
    hand.body.refuse(status, REFUSAL)
    assert (hand.types, type(hand.watcher.error), hand.watcher.failed) == (["RESPONSE_START", "ERROR"], HTTPStatusError, 1)
    hand.wait(100)
    assert (len(hand.bodies), hand.call.attempts, hand.call.verdict) == (1, 1, Verdict.HTTP_STATUS)


FAILURES: list[tuple[str, Callable[[Hand, Body], object], type[RxchatError], bool]] = [
    ("refused", lambda hand, body: body.fail(ConnectError("refused")), ConnectError, True),
    ("reset before headers", lambda hand, body: body.fail(ConnectionLostError("reset")), ConnectionLostError, True),
    ("reset behind headers", lambda hand, body: body.headers().fail(ConnectionLostError("reset")), ConnectionLostError, True),
    ("reset in a refused body", lambda hand, body: body.headers(503).fail(ConnectionLostError("reset")), HTTPStatusError, True),
    ("not http", lambda hand, body: body.fail(FramingError("no")), FramingError, False),
    ("connect timeout", lambda hand, body: hand.wait(1), ConnectTimeout, True),
    ("first event timeout", lambda hand, body: (body.connect(), hand.wait(3)), FirstEventTimeout, True),
    ("read timeout", lambda hand, body: (body.headers(), hand.wait(2)), ReadTimeout, True),
    ("an empty stream", lambda hand, body: body.headers().end(), IncompleteStreamError, True),
    ("only a ping", lambda hand, body: body.headers().push(PING).end(), IncompleteStreamError, True),
    ("something unknown", lambda hand, body: body.headers().push(ODD).fail(ConnectionLostError("reset")), ConnectionLostError, False),
    ("an error frame that may pass", lambda hand, body: body.headers().push(OVERLOADED), ProviderError, True),
    ("an error frame that stays", lambda hand, body: body.headers().push(OVERLOADED.replace(b"503", b"401")), ProviderError, False),
    ("behind text", lambda hand, body: body.headers().push(delta("Hel")).fail(ConnectionLostError("reset")), ConnectionLostError, False),
    ("behind an empty delta", lambda hand, body: body.headers().push(frame()).fail(ConnectionLostError("reset")), ConnectionLostError, False),
    ("error frame behind text", lambda hand, body: body.headers().push(delta("Hel"), OVERLOADED), ProviderError, False),
    ("silence behind text", lambda hand, body: (body.headers().push(delta("Hel")), hand.wait(2)), ReadTimeout, False),
]


@pytest.mark.parametrize("does, kind, again", [row[1:] for row in FAILURES], ids=[row[0] for row in FAILURES])
async def test_what_is_sent_again(does: Callable[[Hand, Body], object], kind: type[RxchatError], again: bool) -> None:
    """
    D5: what may pass, before the first event of a step; the last failure is the one told, with one terminal.
    """
    hand = Hand.of(connect_timeout=1, first_event_timeout=3, read_timeout=2, retry=Retry(attempts=2, jitter=0)).begin()
    does(hand, hand.bodies[0])
    hand.wait(0.5)
    assert (len(hand.bodies), hand.call.attempts, hand.bodies[0].left) == ((2, 2, True) if again else (1, 1, True))
    if again:
        assert (hand.watcher.error, hand.call.verdict) == (None, None)
        does(hand, hand.bodies[1])
    assert (violations(hand.watcher.items), type(hand.watcher.error), hand.watcher.failed) == ([], kind, 1)
    assert (hand.watcher.items[-1].error is hand.watcher.error, hand.call.verdict) == (True, kind.verdict or Verdict.INCOMPLETE_STREAM)
    hand.wait(1000)
    assert len(hand.bodies) == (2 if again else 1)


async def test_a_request_that_cannot_be_sent_is_told_at_once() -> None:
    """
    A header nobody can send: no attempt will be better; the verdict is that of an answer that did not come.
    """
    hand = Hand.of(retry=STEADY).begin()
    hand.body.fail(ConfigurationError("a header with a line end"))
    assert (hand.types, hand.watcher.failed, hand.wait(100).call.attempts) == (["RESPONSE_START", "ERROR"], 1, 1)
    assert (hand.call.verdict, hand.call.response.verdict) == (Verdict.INCOMPLETE_STREAM,) * 2


async def test_attempts_are_counted_and_the_last_failure_stands() -> None:
    """
    Three by default; the waits grow.
    """
    hand = Hand.of(retry=STEADY).begin()
    for status in (503, 500, 429):
        hand.body.refuse(status, REFUSAL)
        hand.wait(2)
    assert ([body.asked_at for body in hand.bodies], hand.call.attempts) == ([0.0, 0.5, 3.0], 3)
    assert (hand.types, hand.watcher.error.status) == (["RESPONSE_START", "ERROR"], 429)  # type: ignore[union-attr]


async def test_no_retry_is_one_request() -> None:
    """
    `retry=None`.
    """
    hand = Hand.of(retry=None).begin()
    hand.body.refuse(503, REFUSAL)
    assert (hand.types, hand.wait(100).call.attempts) == (["RESPONSE_START", "ERROR"], 1)


async def test_what_was_shown_outside_a_step_forbids_nothing() -> None:
    """
    Heartbeat and Raw may come before; ResponseStart comes once, and what the first body held is not continued by the second.
    """
    hand = Hand.of("anthropic", retry=STEADY).begin()
    hand.body.headers().push(ANTHROPIC_PING, ANTHROPIC_ODD, b'data: {"type":"message_start","mes').fail(ConnectionLostError("reset"))
    hand.wait(0.5).body.headers().push(ANTHROPIC)
    assert violations(hand.watcher.items) == []
    assert (hand.types[:4], hand.types.count("RESPONSE_START")) == (["RESPONSE_START", "HEARTBEAT", "RAW", "STEP_START"], 1)
    assert (hand.call.verdict, hand.call.response.text, hand.call.attempts) == (Verdict.COMPLETE, "Hello", 2)


async def test_what_the_first_body_still_says_is_not_heard() -> None:
    """
    E9: a source that pushes on behind its own end, also while it is being subscribed to.
    """
    hand = Hand.of(retry=STEADY).begin()
    first = hand.body
    first.refuse(503, REFUSAL)
    first.push(*GOOD)
    first.end()
    assert hand.types == ["RESPONSE_START"]
    hand.wait(0.5).body.headers().push(delta("Hel"))
    first.push(delta("ooo"))
    assert hand.call.response.text == "Hel"


async def test_a_request_that_cannot_be_built_again_is_told() -> None:
    """
    Nobody waits for ever.
    """
    hand = Hand.of(retry=STEADY).begin()
    hand.body.refuse(503)
    hand.unbuildable = True
    hand.wait(1)
    assert (hand.types, type(hand.watcher.error), hand.watcher.failed) == (["RESPONSE_START", "ERROR"], ConfigurationError, 1)


# --- the waits ------------------------------------------------------------------------------------------------------------------------------------

NO_DICE = random.Random(1)


@pytest.mark.parametrize(
    "attempt, asked, retry, expected",
    [
        (2, None, STEADY, 0.5),
        (3, None, STEADY, 1.0),
        (5, None, STEADY, 4.0),
        (7, None, STEADY, 8.0),
        (5000, None, STEADY, 8.0),
        (2, 0.0, STEADY, 0.5),
        (2, 0.2, STEADY, 0.5),
        (2, 7.0, STEADY, 7.0),
        (2, 60.0, STEADY, 60.0),
        (2, 60.1, STEADY, None),
        (2, 9.0, Retry(jitter=0, longest_wait=1), 9.0),
        (3, None, Retry(first_wait=2, factor=1, jitter=0), 2.0),
    ],
)
def test_the_wait(attempt: int, asked: float | None, retry: Retry, expected: float | None) -> None:
    """
    Seconds: grown, bounded, never less than asked for; None where too much is asked.
    """
    assert wait_before(attempt, asked, retry, NO_DICE) == expected


def test_the_jitter_is_a_part_taken_off() -> None:
    """
    By the dice that are given; never off what the server asks.
    """
    waits = [wait_before(2, None, Retry(), random.Random(seed)) or 0.0 for seed in range(200)]
    assert waits == [0.5 * (1 - 0.25 * random.Random(seed).random()) for seed in range(200)]
    assert (min(waits) >= 0.375, max(waits) <= 0.5, len(set(waits))) == (True, True, 200)
    assert {wait_before(2, 3.0, Retry(jitter=1), random.Random(seed)) for seed in range(50)} == {3.0}


@pytest.mark.parametrize("said, least, most", [("2", 2.0, 2.0), ("0.7", 0.7, 0.7), ("0", 0.5, 0.5), ("date", 3.0, 5.0), ("soon", 0.5, 0.5)])
async def test_retry_after_is_never_shortened(said: str, least: float, most: float) -> None:
    """
    D6: seconds or an HTTP date.
    """
    hand = Hand.of(retry=STEADY).begin()
    header = formatdate(time.time() + 5, usegmt=True) if said == "date" else said
    hand.body.refuse(429, REFUSAL, **{"Retry-After": header})
    hand.wait(least - 0.01)
    assert len(hand.bodies) == 1
    hand.wait(most - least + 0.02)
    assert len(hand.bodies) == 2


@pytest.mark.parametrize("retry_after, attempts", [("60", 2), ("61", 1), ("86400", 1)])
async def test_too_long_a_wait_is_not_waited(retry_after: str, attempts: int) -> None:
    """
    The failure stands, at once, and says how long.
    """
    hand = Hand.of(retry=STEADY).begin()
    hand.body.refuse(429, REFUSAL, **{"retry-after": retry_after})
    assert (hand.watcher.failed, hand.wait(61).call.attempts) == (int(attempts == 1), attempts)


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"attempts": 0}, "attempts of a Retry is a whole number from 1 on, not 0"),
        ({"attempts": 1.5}, "not 1.5"),
        ({"attempts": True}, "not True"),
        ({"attempts": "3"}, "not '3'"),
        ({"factor": 0.5}, "factor of a Retry is a number from 1 on, not 0.5"),
        ({"jitter": 1.5}, "jitter of a Retry is a number from 0 to 1, not 1.5"),
        ({"first_wait": -1}, "first_wait of a Retry is a number of seconds, not -1"),
        ({"longest_wait": float("inf")}, "longest_wait of a Retry is a number of seconds, not inf"),
        ({"longest_retry_after": float("nan")}, "longest_retry_after of a Retry is a number of seconds, not nan"),
    ],
)
def test_a_retry_that_makes_no_sense(wrong: dict[str, Any], said: str) -> None:
    """
    Refused when it is made, by name.
    """
    with pytest.raises(ConfigurationError, match=re.escape(said)):
        Retry(**wrong)


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"retry": 3}, "retry is a Retry, or None to send once, not 3"),
        ({"retry": False}, "not False"),
        ({"read_timeout": "5"}, "read_timeout is a number of seconds, or None for ever, not '5'"),
        ({"stall_timeout": True}, "stall_timeout is a number of seconds, or None for ever, not True"),
        ({"read_size": 0}, "read_size is a number of bytes from 1 on, not 0"),
    ],
)
def test_settings_that_make_no_sense(wrong: dict[str, Any], said: str) -> None:
    """
    Refused when they are made, not when a request fails.
    """
    with pytest.raises(ConfigurationError, match=re.escape(said)):
        HttpSettings(**wrong)


# --- leaving in the wait --------------------------------------------------------------------------------------------------------------------------


async def waiting() -> Hand:
    """
    A call between two attempts.
    """
    hand = Hand.of(retry=STEADY, total_timeout=30).begin()
    hand.body.refuse(503, REFUSAL)
    return hand.wait(0.2)


@pytest.mark.parametrize("how", ["call", "subscription"])
async def test_disposed_in_the_wait_nothing_more_is_sent(how: str) -> None:
    """
    E8: not one more event, no request, CANCELLED.
    """
    hand = await waiting()
    hand.call.dispose() if how == "call" else hand.watcher.dispose()
    hand.wait(100)
    assert (hand.types, hand.watcher.over.is_set(), len(hand.bodies), hand.call.verdict) == (["RESPONSE_START"], False, 1, Verdict.CANCELLED)


async def test_aborted_in_the_wait_it_ends_at_once() -> None:
    """
    D7: Abort, on_completed, no request.
    """
    hand = await waiting()
    hand.call.abort("enough")
    assert (hand.types, hand.watcher.completed, hand.call.verdict) == (["RESPONSE_START", "ABORT"], 1, Verdict.ABORTED)
    assert len(hand.wait(100).bodies) == 1


@pytest.mark.parametrize("total, attempts", [(3, 1), (4.9, 1), (5.1, 2)])
async def test_a_wait_that_outlasts_the_total_budget_is_not_waited(total: float, attempts: int) -> None:
    """
    D2: the budget counts the waits; what is known by then says more than that it ran out.
    """
    hand = Hand.of(retry=Retry(first_wait=5, longest_wait=5, jitter=0), total_timeout=total).begin()
    hand.body.refuse(503, REFUSAL)
    assert (hand.watcher.over.is_set(), len(hand.wait(5).bodies)) == (attempts == 1, attempts)
    hand.wait(100)
    kind = HTTPStatusError if attempts == 1 else TotalTimeout
    assert (hand.types, type(hand.watcher.error), hand.call.attempts) == (["RESPONSE_START", "ERROR"], kind, attempts)


async def test_the_total_budget_in_a_refused_body_is_final() -> None:
    """
    The status says more than the clock, but it is not asked again.
    """
    hand = Hand.of(retry=STEADY, total_timeout=3).begin()
    hand.body.headers(503)
    hand.wait(3)
    assert (type(hand.watcher.error), hand.call.verdict, len(hand.wait(100).bodies)) == (HTTPStatusError, Verdict.HTTP_STATUS, 1)


# --- the log --------------------------------------------------------------------------------------------------------------------------------------


async def test_each_retry_is_one_line(caplog: pytest.LogCaptureFixture) -> None:
    """
    At INFO, with nothing the provider said.
    """
    with caplog.at_level(logging.INFO, logger="rxchat"):
        hand = Hand.of(retry=STEADY).begin()
        hand.body.refuse(503, b'{"error":{"message":"sk-secret"}}')
        hand.wait(1).body.fail(ConnectError("refused"))
        hand.wait(1).body.refuse(401)
    assert [(record.levelname, record.getMessage()) for record in caplog.records] == [
        ("INFO", "attempt 1 of 3 failed (HTTP_STATUS 503); the next follows in 0.5 s"),
        ("INFO", "attempt 2 of 3 failed (CONNECT); the next follows in 1 s"),
    ]


# --- over sockets ---------------------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "script",
    [
        answer(REFUSAL, status=503, content_type="application/json"),
        answer(REFUSAL, status=429, content_type="application/json", headers={"retry-after": "0.02"}),
        raw(b"", reset=True),
        raw(b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n", reset=True),
        answer(),
        answer(PING),
    ],
    ids=["503", "429", "reset-before-headers", "reset-behind-headers", "empty", "ping"],
)
async def test_a_second_request_is_the_same_again(serve: Serve, script: Script) -> None:
    """
    Same body, one response id, and nothing left of the first.
    """
    server = await serve(in_turn([script, answer(*GOOD)]))
    call = ChatModel("m", base_url=server.url, settings=QUICK).open("Hi")
    watcher = await Watcher().watch(call.events).end()
    assert (violations(watcher.items), watcher.error, call.attempts, call.response.text) == ([], None, 2, "Hello, world.")
    assert (server.seen[0].body, [isinstance(event, ResponseStart) for event in watcher.items].count(True)) == (server.seen[1].body, 1)
    assert await settled() == []


async def test_nobody_there_is_asked_for_as_often_as_said(serve: Serve) -> None:
    """
    Connection refused: the waits lie between the attempts.
    """
    server = await serve(answer())
    await server.aclose()
    settings = HttpSettings(retry=Retry(attempts=3, first_wait=0.05, jitter=0))
    call = ChatModel("m", base_url=server.url, settings=settings).open("Hi")
    begun = asyncio.get_running_loop().time()
    watcher = await Watcher().watch(call.events).end()
    assert (type(watcher.error), call.attempts, asyncio.get_running_loop().time() - begun >= 0.15) == (ConnectError, 3, True)


async def test_disposed_in_a_real_wait_no_task_is_left(serve: Serve) -> None:
    """
    D4: between two attempts there is nothing to close, and no timer that sends.
    """
    server = await serve(in_turn([answer(REFUSAL, status=503, content_type="application/json")]))
    call = ChatModel("m", base_url=server.url, settings=HttpSettings(retry=Retry(first_wait=0.1, jitter=0))).open("Hi")
    watcher = Watcher().watch(call.events)
    await asyncio.wait_for(server.arrived.wait(), 5)
    assert await settled() == []
    watcher.dispose()
    await asyncio.sleep(0.2)
    assert (len(server.seen), call.verdict, call.attempts) == (1, Verdict.CANCELLED, 1)


async def test_behind_text_it_is_never_sent_again(serve: Serve) -> None:
    """
    D5, the heart of it.
    """
    server = await serve(in_turn([raw(b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ncontent-length: 9999\r\n\r\n" + delta("Hel")), hold()]))
    call = ChatModel("m", base_url=server.url, settings=QUICK).open("Hi")
    watcher = await Watcher().watch(call.events).end()
    assert (type(watcher.error), len(server.seen), call.response.text) == (ConnectionLostError, 1, "Hel")
