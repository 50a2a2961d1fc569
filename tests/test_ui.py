"""
What a user interface may be sent, and nothing beside it (contract S).
"""

from __future__ import annotations

import json
import logging
import traceback
from collections.abc import Iterator
from typing import Any

import attrs
import pytest
import reactivex as rx
from hypothesis import given
from reactivex import Observable

from rxchat import errors as err
from rxchat import events as ev
from rxchat.errors import RxchatError, Verdict
from rxchat.events import ChatEvent
from rxchat.pipeline import chat_events
from rxchat.response import (
    ChatResponse,
    CitationPart,
    ContentFilterPart,
    FinishReason,
    MediaPart,
    ProviderItemPart,
    RedactedThinkingPart,
    RefusalPart,
    SearchResultPart,
    ServerToolPart,
    TextPart,
    ThinkingPart,
    ToolCall,
    ToolResultPart,
    Usage,
)
from rxchat.serialize import dumps, error_to_dict
from rxchat.ui import for_ui, user_message
from tests import strategies
from tests.strategies import SAMPLES

SECRET = "planted"
USAGE = Usage(1, 2, wire={SECRET: 1}, raw=({SECRET: SECRET},))
SEEN = Usage(1, 2)

# An answer with something planted wherever nothing may be shown; `SHOWN` is what is left of it.
STEP = ChatResponse(
    parts=(
        ThinkingPart(SECRET, SECRET),
        RedactedThinkingPart(SECRET),
        TextPart("text", 1),
        ToolCall("c", SECRET, SECRET, {SECRET: SECRET}, complete=True, metadata={SECRET: 1}),
        ToolResultPart("c", SECRET),
        ServerToolPart("web_search", "s", SECRET, SECRET, SECRET, SECRET),
        MediaPart("image", "image/png", "AAA="),
        CitationPart("http://c", "title"),
        SearchResultPart("http://s", "title", SECRET, SECRET),
        RefusalPart("no"),
        ContentFilterPart("hate", SECRET, True),
        ProviderItemPart("compaction", SECRET),
    ),
    finish_reason=FinishReason.STOP,
    usage=USAGE,
    model="m",
    response_id="r",
    verdict=Verdict.COMPLETE,
    unknown={SECRET: 1},
    metadata={SECRET: SECRET},
)
SHOWN_STEP = ChatResponse(
    parts=(
        TextPart("text", 1),
        MediaPart("image", "image/png", "AAA="),
        CitationPart("http://c", "title"),
        SearchResultPart("http://s", "title"),
        RefusalPart("no"),
        ContentFilterPart("hate", None, True),
    ),
    finish_reason=FinishReason.STOP,
    usage=SEEN,
    model="m",
    response_id="r",
    verdict=Verdict.COMPLETE,
)
ANSWER = attrs.evolve(STEP, steps=(STEP,), alternatives=(STEP,))
SHOWN = attrs.evolve(SHOWN_STEP, steps=(SHOWN_STEP,), alternatives=(SHOWN_STEP,))


def heard(stream: Observable[Any]) -> list[Any]:
    items: list[Any] = []
    stream.subscribe(items.append, items.append, lambda: items.append("completed"))
    return items


@pytest.mark.parametrize(
    ("event", "expected"),
    [
        *((event, event) for event in SAMPLES if event.type in {"RESPONSE_START", "STATUS", "STEP_START", "TEXT_START", "TEXT_DELTA", "TEXT_END"}),
        *((event, event) for event in SAMPLES if event.type in {"CITATION", "MEDIA_PARTIAL", "MEDIA_DONE", "REFUSAL_DELTA"}),
        *(
            (event, None)
            for event in SAMPLES
            if event.group in {"THINKING", "TOOL_CALL", "SERVER_TOOL"} or event.type in {"RAW", "CUSTOM", "HEARTBEAT"}
        ),
        (ev.SearchResult("http://s", "title", SECRET, SECRET), ev.SearchResult("http://s", "title")),
        (ev.ContentFilter("hate", SECRET, True, 1), ev.ContentFilter("hate", None, True, 1)),
        (ev.UsageUpdate(USAGE), ev.UsageUpdate(SEEN)),
        (ev.StepEnd(1, ANSWER, USAGE), ev.StepEnd(1, SHOWN, SEEN)),
        (ev.StepEnd(1, ChatResponse()), ev.StepEnd(1, ChatResponse())),
        (ev.ResponseEnd(ANSWER), ev.ResponseEnd(SHOWN)),
        (ev.Abort("user", ANSWER), ev.Abort("user", SHOWN)),
    ],
    ids=lambda value: getattr(value, "type", ""),
)
def test_what_is_shown(event: ChatEvent, expected: ChatEvent | None) -> None:
    """
    Each type passes, is reduced, or hidden.
    """
    source: Observable[ChatEvent] = rx.of(event)
    assert heard(source.pipe(for_ui())) == ([] if expected is None else [expected]) + ["completed"]


def test_the_table_above_is_all_types() -> None:
    """
    A new type must be given its line.
    """
    (mark,) = test_what_is_shown.pytestmark  # type: ignore[attr-defined]
    shown = {event.type for event, _ in mark.args[1]}
    assert shown | {"ERROR"} == set(ev.EVENT_TYPES)


PLANTED: list[RxchatError] = [
    err.ProviderError(
        SECRET, code=SECRET, type=SECRET, status=429, request_id=SECRET, retry_after=3.0, retryable=True, raw={SECRET: SECRET}, offset=1
    ),
    err.HTTPStatusError(SECRET, status=401, headers={"authorization": SECRET}, body=SECRET.encode(), code=SECRET, type=SECRET, request_id=SECRET),
    err.ContentTypeError(SECRET, content_type=SECRET, status=200, body=SECRET.encode()),
    err.FramingError(SECRET, 3, "crc"),
    err.InvalidJSONError(SECRET, 3, "syntax"),
    err.LimitExceeded("output", 7, 3),
    err.ReadTimeout(SECRET, 60.0),
    err.ToolError(SECRET),
]


@pytest.mark.parametrize("error", PLANTED, ids=lambda error: type(error).__name__)
def test_errors_are_code_and_message(error: RxchatError) -> None:
    """
    The class, the verdict as code, a sentence for a person, whether and when to try again; neither its words nor its cause, on the event or in on_error.
    """
    error.__cause__ = ValueError(SECRET)
    error.response = ANSWER
    event: Observable[ChatEvent] = rx.of(ev.ErrorEvent(error, ANSWER, USAGE))
    shown, raised = heard(rx.concat(event, rx.throw(error)).pipe(for_ui()))
    reduced = shown.error
    assert raised is reduced
    assert type(reduced) is type(error)
    assert (reduced.verdict, reduced.code, reduced.message) == (error.verdict, error.verdict, user_message(error))
    assert (reduced.status, reduced.retryable, reduced.retry_after) == (error.status, error.retryable, error.retry_after)
    assert (shown.response, shown.usage, reduced.response) == (SHOWN, SEEN, SHOWN)
    words = [dumps(shown), repr(reduced), str(reduced), repr(vars(reduced)), "".join(traceback.format_exception(reduced))]
    assert SECRET not in " ".join(words)


@pytest.mark.parametrize("error", [err.ConnectionLostError(SECRET), ValueError(SECRET)], ids=lambda error: type(error).__name__)
def test_an_error_without_its_event_is_reduced_too(error: Exception) -> None:
    """
    Also one that is not ours: it becomes an RxchatError without a word of it.
    """
    (raised,) = heard(rx.throw(error).pipe(for_ui()))
    assert isinstance(raised, RxchatError)
    assert raised.message == user_message(error)
    assert SECRET not in repr(vars(raised)) + "".join(traceback.format_exception(raised))


def test_a_reduced_error_is_not_linked_to_the_full_one() -> None:
    """
    Also where it is told while the full one is being handled, as behind a parser: a traceback of it shows nothing.
    """
    body = f'data: {{"error": {{"message": "{SECRET}"}}}}\n\n'.encode()
    *_, raised = heard(rx.of(body).pipe(chat_events("openai-chat"), for_ui()))
    assert (type(raised), raised.__context__) == (err.ProviderError, None)
    assert SECRET not in "".join(traceback.format_exception(raised))


def test_another_error_than_the_one_announced() -> None:
    """
    What comes in on_error is what is reduced there.
    """
    event: Observable[ChatEvent] = rx.of(ev.ErrorEvent(err.ProviderError("a")))
    shown, raised = heard(rx.concat(event, rx.throw(err.ReadTimeout("b"))).pipe(for_ui()))
    assert (type(shown.error), type(raised)) == (err.ProviderError, err.ReadTimeout)


def test_every_verdict_has_a_sentence() -> None:
    """
    Short, for a person, without our words.
    """
    for verdict in Verdict:
        error = RxchatError("x")
        error.verdict = verdict  # type: ignore[misc]
        message = user_message(error)
        assert message.endswith(".")
        assert verdict not in message
    assert user_message(err.HTTPStatusError("x", status=503)) != user_message(err.HTTPStatusError("x", status=401))


HIDDEN = {
    "arguments",
    "arguments_text",
    "raw",
    "wire",
    "metadata",
    "signature",
    "tool_call",
    "payload",
    "result",
    "request_id",
    "unknown",
    "snippet",
    "query",
}
PARTS = {"text", "media", "citation", "search_result", "refusal", "content_filter"}


def found(value: Any) -> Iterator[str]:
    """
    What is wrong with what is sent: fields that are hidden, parts that are not shown. Texts may be anything.
    """
    if isinstance(value, dict):
        yield from HIDDEN & value.keys()
        if "part" in value and value["part"] not in PARTS:
            yield str(value["part"])
        value = list(value.values())
    if isinstance(value, list):
        for item in value:
            yield from found(item)


@given(strategies.events)
def test_no_event_sends_what_is_hidden(event: ChatEvent) -> None:
    """
    Of any event, no thinking, argument, result, raw value, and nothing the provider said about a failure.
    """
    stream: Observable[ChatEvent] = rx.of(event)
    for shown in heard(stream.pipe(for_ui()))[:-1]:
        assert list(found(json.loads(dumps(shown)))) == []
    assert not isinstance(event, ev.ErrorEvent) or "planted" not in json.dumps(error_to_dict(shown.error))


def test_nothing_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    """
    Reducing says nothing.
    """
    with caplog.at_level(logging.DEBUG):
        heard(rx.throw(ValueError(SECRET)).pipe(for_ui()))
    assert caplog.text == ""
