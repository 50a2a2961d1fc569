"""
Which answers are read, by what framer, and what is kept of those that are refused (contract B3, P7, D6).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from rxchat.dialects import get_dialect
from rxchat.errors import (
    AbortedError,
    ConnectionLostError,
    ContentTypeError,
    FramingError,
    HTTPStatusError,
    ReadTimeout,
    RxchatError,
    TransportError,
    Verdict,
)
from rxchat.events import ChatEvent, ErrorEvent, ResponseStart
from rxchat.limits import Limits
from rxchat.pipeline import Head, response_stage
from rxchat.refusals import RefusedBody, media_type, refuse, retry_after_seconds
from rxchat.stage import run

DIALECT = get_dialect("openai-chat")
JSON_ERROR = b'{"error":{"message":"queue is full","type":"rate_limit_error","code":"queue_full"}}'
NOW = 1_000_000_000.0  # Sun, 09 Sep 2001 01:46:40 GMT


def raised(head: Head, reads: Sequence[bytes], limits: Limits | None = None) -> TransportError:
    """
    What a refused answer raises, at the end of its body.
    """
    stage = refuse(DIALECT, head, "default", limits, lambda: NOW)
    assert isinstance(stage, RefusedBody)
    with pytest.raises(TransportError) as caught:
        list(run(stage, reads))
    return caught.value


FRAMERS: dict[str, tuple[str | None, str | None]] = {
    "the stream's type": ("text/event-stream", "sse"),
    "with parameters": ("text/event-stream; charset=utf-8", "sse"),
    "in any case": ("Text/Event-Stream;charset=UTF-8", "sse"),
    "missing": (None, "sse"),
    "empty": ("", "sse"),
    "the body's type": ("application/json; charset=utf-8", "json"),
    "a page": ("text/html", None),
    "plain text": ("text/plain", None),
    "another stream": ("application/x-ndjson", None),
    "bytes": ("application/octet-stream", None),
}


@pytest.mark.parametrize("name", FRAMERS)
def test_content_types(name: str) -> None:
    """
    At status 200 the type chooses the framer; any other is CONTENT_TYPE with its body read.
    """
    kind, framer = FRAMERS[name]
    head = Head(200, {} if kind is None else {"CONTENT-TYPE": kind})
    if framer is not None:
        assert framer == refuse(DIALECT, head)
        return
    error = raised(head, [b"<title>Busy</title>"])
    assert isinstance(error, ContentTypeError)
    assert (kind, 200, b"<title>Busy</title>", Verdict.CONTENT_TYPE) == (error.content_type, error.status, error.body, error.verdict)
    assert "Busy" in error.message
    assert kind is not None
    assert kind in raised(head, []).message


@pytest.mark.parametrize(
    ("status", "read"), [(200, True), (201, True), (203, True), (202, False), (204, False), (301, False), (400, False), (503, False), (799, False)]
)
def test_statuses(status: int, read: bool) -> None:
    """
    Which statuses are answers; all others are HTTP_STATUS, whatever the type.
    """
    head = Head(status, {"content-type": "text/event-stream"})
    assert read == (refuse(DIALECT, head) == "sse")
    if not read:
        error = raised(head, [])
        assert isinstance(error, HTTPStatusError)
        assert (status, f"HTTP {status}") == (error.status, error.message[:8])


@pytest.mark.parametrize(
    "location, words",
    [
        ("https://user:word@elsewhere.example:1/x?key=sk", "a redirect to elsewhere.example:1; redirects are not followed"),
        ("/login", "a redirect to another path of this host; redirects are not followed"),
        ("http://[::1", "HTTP 302 Found"),
    ],
)
def test_a_redirect_names_where_to(location: str, words: str) -> None:
    """
    Its host, and that nobody goes there.
    """
    error = raised(Head(302, {"location": location}), [b""])
    assert error.message.endswith(words)


def test_what_a_refusal_keeps() -> None:
    """
    Status, headers, body and the provider's own words are kept (contract D6).
    """
    head = Head(429, {"Content-Type": "application/json", "Retry-After": "7", "X-Request-Id": "req-1"})
    error = raised(head, [JSON_ERROR[:10], JSON_ERROR[10:]])
    assert isinstance(error, HTTPStatusError)
    assert ("queue is full", 429, "queue_full", "rate_limit_error", "req-1", 7.0, True) == (
        error.message,
        error.status,
        error.code,
        error.type,
        error.request_id,
        error.retry_after,
        error.retryable,
    )
    assert (JSON_ERROR, "7") == (error.body, error.headers["retry-after"])


def test_the_body_says_what_the_headers_do_not() -> None:
    """
    Request id and waiting time are read from the body where no header has them.
    """
    error = raised(Head(503), [b'{"error": {"message": "m", "retry_after": 3}, "request_id": "r"}'])
    assert (3.0, "r") == (error.retry_after, error.request_id)


@pytest.mark.parametrize(
    ("status", "again"), [(400, False), (401, False), (408, True), (409, True), (429, True), (500, True), (502, True), (529, True)]
)
def test_which_statuses_may_be_tried_again(status: int, again: bool) -> None:
    """
    By status alone it is known whether trying again may help, also with an empty body.
    """
    error = raised(Head(status), [])
    assert again == error.retryable
    assert error.message


@pytest.mark.parametrize(
    ("status", "said", "again"),
    [(400, "true", True), (429, "false", False), (500, "FALSE", False), (500, "maybe", True), (400, "", False)],
)
def test_the_server_may_say_whether_to_try_again(status: int, said: str, again: bool) -> None:
    """
    Its own word counts more than the status; nonsense counts nothing.
    """
    assert again == raised(Head(status, {"X-Should-Retry": said}), []).retryable


WAITS: dict[str, tuple[dict[str, str], float | None]] = {
    "seconds": ({"retry-after": "7"}, 7.0),
    "a fraction": ({"retry-after": "0.5"}, 0.5),
    "milliseconds": ({"retry-after-ms": "250"}, 0.25),
    "milliseconds first": ({"retry-after-ms": "250", "retry-after": "7"}, 0.25),
    "a date": ({"retry-after": "Sun, 09 Sep 2001 01:47:10 GMT"}, 30.0),
    "a date gone by": ({"retry-after": "Sun, 09 Sep 2001 01:46:10 GMT"}, 0.0),
    "a date without a zone": ({"retry-after": "Sun, 09 Sep 2001 01:47:10"}, 30.0),
    "a date far away": ({"retry-after": "Fri, 31 Dec 9999 23:59:59 GMT"}, 253_402_300_799.0 - NOW),
    "a number far away": ({"retry-after": "999999999"}, 999_999_999.0),
    "more than any": ({"retry-after": "1e300"}, None),
    "milliseconds that are none": ({"retry-after-ms": "-1", "retry-after": "7"}, 7.0),
    "nonsense": ({"retry-after": "soon"}, None),
    "negative": ({"retry-after": "-1"}, None),
    "infinite": ({"retry-after": "inf"}, None),
    "no number": ({"retry-after": "nan"}, None),
    "empty": ({"retry-after": ""}, None),
    "nothing": ({}, None),
    "an impossible date": ({"retry-after": "Sun, 99 Sep 2001 01:46:40 GMT"}, None),
}


@pytest.mark.parametrize("name", WAITS)
def test_retry_after(name: str) -> None:
    """
    How long to wait, by the clock that was given.
    """
    headers, seconds = WAITS[name]
    assert seconds == retry_after_seconds(headers, NOW)


@pytest.mark.parametrize("size", [99, 100, 101, 1000])
def test_bodies_are_bounded(size: int) -> None:
    """
    A refused body is read up to the limit and no further: then the error is raised at once, however it was cut.
    """
    pulled = []

    def reads() -> Any:
        for k in range(0, size, 10):
            pulled.append(k)
            yield b"x" * min(10, size - k)

    error = raised(Head(500), reads(), Limits(error_body=100))
    assert isinstance(error, HTTPStatusError)
    assert (min(size, 100), min(size, 100)) == (len(error.body), min(10 * len(pulled), size, 100))
    assert len(pulled) <= 10
    whole = raised(Head(500), [b"x" * size], Limits(error_body=100))
    assert isinstance(whole, HTTPStatusError)
    assert error.body == whole.body


def test_media_types() -> None:
    """
    A media type without parameters, in lower case.
    """
    assert [None, None, "a/b", "a/b"] == [media_type(None), media_type(" "), media_type("A/B"), media_type(" a/b ;c=d")]


def events_of(head: Head, reads: Any) -> tuple[list[ChatEvent], RxchatError]:
    """
    A refused answer through the whole pipeline.
    """
    events: list[ChatEvent] = []
    with pytest.raises(RxchatError) as caught:
        events.extend(run(response_stage(DIALECT, head=lambda: head, response_id="rx"), reads))
    return events, caught.value


def test_a_refusal_in_the_pipeline() -> None:
    """
    ResponseStart, ErrorEvent, the error: no step (contract E7).
    """
    events, error = events_of(Head(503), [JSON_ERROR])
    assert [ResponseStart, ErrorEvent] == [type(event) for event in events]
    assert isinstance(events[1], ErrorEvent)
    assert events[1].error is error
    assert Verdict.HTTP_STATUS == events[1].response.verdict


@pytest.mark.parametrize("fault", [ConnectionLostError("gone"), ReadTimeout("slow"), FramingError("not gzip")])
def test_a_refusal_outlives_its_transfer(fault: RxchatError) -> None:
    """
    If the transfer of a refused body breaks, the refusal counts: its head was known. Its cause is chained.
    """

    def reads() -> Any:
        yield b'{"error": '
        raise fault

    events, error = events_of(Head(429, {"Retry-After": "7"}), reads())
    assert isinstance(error, HTTPStatusError)
    assert (7.0, fault, b'{"error": ') == (error.retry_after, error.__cause__, error.body)
    assert [ResponseStart, ErrorEvent] == [type(event) for event in events]


def test_an_abort_while_it_is_read() -> None:
    """
    An abort is an abort, also in the middle of a refused body.
    """
    stage = refuse(DIALECT, Head(503))
    assert isinstance(stage, RefusedBody)
    out: list[ChatEvent] = []
    stage.feed(b"x", out.append)
    stage.fail(AbortedError("stop"), out.append)
    assert [] == out


def test_strict_text_raises_at_once() -> None:
    """
    In strict_text the refusal is raised when the head is known; there is no stage to read a body (contract P7).
    """
    for head, kind in ((Head(503), HTTPStatusError), (Head(200, {"content-type": "application/json"}), ContentTypeError)):
        with pytest.raises(kind):
            refuse(DIALECT, head, "strict_text")
    assert "sse" == refuse(DIALECT, Head(), "strict_text")
