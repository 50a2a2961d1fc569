"""
The stages lifted by name, and that they are the standard composition in pieces (contract section 1, B, F).
"""

from __future__ import annotations

import json
from typing import Any

import attrs
import pytest
import reactivex as rx
from reactivex import Observable

from rxchat.dialects import get_dialect
from rxchat.errors import ConfigurationError, DecodeError, FramingError, IncompleteStreamError, InvalidJSONError, LimitExceeded
from rxchat.events import EVENT_TYPES, Abort, ResponseStart, TextDelta
from rxchat.filters import by_type, guarded
from rxchat.limits import Limits
from rxchat.operators import (
    decode_utf8,
    filter_events,
    frame_aws_event_stream,
    frame_json_array,
    frame_ndjson,
    frame_sse,
    normalize,
    parse,
    split_think_tags,
)
from rxchat.pipeline import chat_events
from rxchat.projections import aggregate
from rxchat.response import ChatResponse
from tests.strategies import SAMPLES


def heard_of(stream: Observable[Any]) -> list[Any]:
    """
    Items, then "completed" or the error.
    """
    items: list[Any] = []
    stream.subscribe(items.append, items.append, lambda: items.append("completed"))
    return items


def chunk(finish: str | None = None, **delta: Any) -> bytes:
    return b"data: " + json.dumps({"id": "c", "model": "m", "choices": [{"index": 0, "delta": delta, "finish_reason": finish}]}).encode() + b"\n\n"


BODY = chunk(content="<think>hm</think>") + chunk(content="Hi ") + chunk(content="there") + chunk("stop") + b"data: [DONE]\n\n"


def reads(body: bytes, size: int = 7) -> Observable[bytes]:
    return rx.from_iterable([body[at : at + size] for at in range(0, len(body), size)])


@pytest.mark.parametrize(
    ("operator", "body", "expected"),
    [
        pytest.param(decode_utf8(), "né 🌱".encode(), "né 🌱", id="decode_utf8"),
        pytest.param(frame_sse(), b"data: 1\n\n: x\n\ndata: 2\n\n", ["1", "2"], id="frame_sse"),
        pytest.param(frame_ndjson(), b'{"a":1}\n[2]\n', [{"a": 1}, [2]], id="frame_ndjson"),
        pytest.param(frame_json_array(), b'[{"a":1}, [2]]', [{"a": 1}, [2]], id="frame_json_array"),
    ],
)
def test_bytes_to_text_or_frames(operator: Any, body: bytes, expected: Any) -> None:
    """
    However they are cut.
    """
    for size in (1, 3, 99):
        heard = heard_of(reads(body, size).pipe(operator))
        assert heard.pop() == "completed"
        items = [item for item in heard if not getattr(item, "last", False)]
        values = "".join(items) if isinstance(expected, str) else [getattr(item, "data", None) or item.value for item in items]
        assert values == expected


@pytest.mark.parametrize(
    ("operator", "body", "error"),
    [
        (decode_utf8(), b"ok\xff", DecodeError),
        (frame_sse(), b"data: \xff\n\n", DecodeError),
        (frame_ndjson(), b"{\n", InvalidJSONError),
        (frame_json_array(), b"[1", IncompleteStreamError),
        (frame_aws_event_stream(), b"\x00" * 16, FramingError),
        (frame_sse(limits=Limits(line=3)), b"data: 1\n\n", LimitExceeded),
        (frame_ndjson(limits=Limits(line=3)), b"[1, 2]\n", LimitExceeded),
        (frame_json_array(limits=Limits(total=3)), b"[1, 2]\n", LimitExceeded),
        (frame_aws_event_stream(limits=Limits(total=3)), b"\x00" * 16, LimitExceeded),
    ],
)
def test_what_is_not_right(operator: Any, body: bytes, error: type[Exception]) -> None:
    """
    Told by the error of its kind; limits are those given.
    """
    assert isinstance(heard_of(reads(body).pipe(operator))[-1], error)


def test_the_operators_in_a_row_are_the_standard_composition() -> None:
    """
    Framing, parsing, normalizing one by one give what `chat_events` gives, but for the ResponseStart of its envelope (contract P15).
    """
    whole = heard_of(reads(BODY).pipe(chat_events("openai-chat", response_id="r")))
    parts = heard_of(reads(BODY).pipe(frame_sse(), parse("openai-chat"), normalize()))
    assert whole[0] == ResponseStart("r")
    assert [answerless(event) for event in parts] == [answerless(event) for event in whole[1:]]
    assert attrs.evolve(parts[-2].response, response_id="r").parts == whole[-2].response.parts


def answerless(event: Any) -> Any:
    return attrs.evolve(event, response=ChatResponse()) if hasattr(event, "response") else event


def test_parse_knows_its_words() -> None:
    """
    What does not exist is told at once, and what there is.
    """
    wrongs: list[dict[str, Any]] = [
        {"dialect": "nonsense"},
        {"dialect": "openai-chat", "options": {"colour": "red"}},
        {"dialect": "openai-chat", "profile": "lax"},
    ]
    for wrong in wrongs:
        for operator in (parse, chat_events):
            with pytest.raises(ConfigurationError):
                operator(**wrong)


def test_parse_by_its_own_dialect_limits_and_ends() -> None:
    """
    A Dialect does as well as its name; limits, the policy for the unknown, and what the end proves are those given.
    """
    dialect = get_dialect("openai-chat")
    frames = reads(BODY).pipe(frame_sse())
    assert heard_of(frames.pipe(parse(dialect)))[-1] == "completed"
    assert isinstance(heard_of(frames.pipe(parse(dialect, limits=Limits(output=5))))[-1], LimitExceeded)
    cut = reads(chunk(content="Hi") + chunk("stop")).pipe(frame_sse())
    assert heard_of(cut.pipe(parse(dialect)))[-1] == "completed"
    assert isinstance(heard_of(cut.pipe(parse(dialect, clean_eof=False)))[-1], IncompleteStreamError)
    assert heard_of(frames.pipe(parse(dialect, profile="strict_text")))[-1] == "completed"
    assert isinstance(heard_of(cut.pipe(parse(dialect, profile="strict_text")))[-1], IncompleteStreamError)


def test_think_tags_are_split_before_the_fold() -> None:
    """
    Between parse and normalize: the answer has thinking and text apart.
    """
    for names in (split_think_tags(), split_think_tags("think"), split_think_tags(["think"])):
        events = heard_of(reads(BODY).pipe(frame_sse(), parse("openai-chat"), names, normalize()))
        assert (events[-2].response.thinking, events[-2].response.text) == ("hm", "Hi there")
    with pytest.raises(ConfigurationError):
        split_think_tags(["<think>"])


def test_filter_events() -> None:
    """
    Exactly what the filter allows, DEFAULT without one; it is not guarded by itself (contract F).
    """
    events = rx.from_iterable(SAMPLES)
    assert {event.type for event in heard_of(events.pipe(filter_events()))[:-1]} == set(EVENT_TYPES) - {"HEARTBEAT", "RAW"}
    assert heard_of(events.pipe(filter_events(by_type(TextDelta)))) == [TextDelta("hi", 2), "completed"]
    assert heard_of(events.pipe(filter_events(lambda event: event.type == "ABORT"))) == [Abort("user"), "completed"]
    with pytest.raises(ConfigurationError):
        filter_events(TextDelta)  # type: ignore[arg-type]


def test_filtering_never_changes_the_answer() -> None:
    """
    It is folded before (contract F).
    """
    stream = reads(BODY).pipe(chat_events("openai-chat", response_id="r"))
    (answer, _) = heard_of(stream.pipe(aggregate()))
    assert heard_of(stream.pipe(filter_events(guarded(by_type())), aggregate())) == [answer, "completed"]


def test_a_filter_that_raises() -> None:
    """
    Its error as it is, without an ErrorEvent (contract E12).
    """
    error = ValueError("filter")

    def raises(event: Any) -> bool:
        raise error

    assert heard_of(rx.from_iterable(SAMPLES).pipe(filter_events(raises))) == [error]
