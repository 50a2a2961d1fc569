"""
Events, answers and errors as JSON and back (contract section 2).
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import attrs
import pytest
from hypothesis import given, settings

from rxchat import errors as err
from rxchat import events as ev
from rxchat.errors import InvalidJSONError, ProtocolError, RxchatError, Verdict
from rxchat.events import EVENT_TYPES, ChatEvent, Custom, ErrorEvent
from rxchat.response import ChatResponse, FinishReason, ProviderItemPart, TextPart, ToolCall, Usage
from rxchat.serialize import (
    VERSION,
    dumps,
    error_from_dict,
    error_to_dict,
    from_dict,
    loads,
    response_from_dict,
    response_to_dict,
    to_dict,
)
from tests import strategies
from tests.shared_data import EXHAUSTIVE
from tests.strategies import SAMPLES

# Answers within answers take their time to draw.
drawn = settings(max_examples=1000 if EXHAUSTIVE else 100)


# --- round trips ----------------------------------------------------------------------------------------------------------------------------------

SAID = ("args", "verdict", "code", "type", "status", "offset", "retry_after", "request_id", "retryable", "kind", "reason", "limit", "value", "budget")


def said(error: RxchatError) -> dict[str, Any]:
    """
    What of an error is written: two errors are never equal themselves.
    """
    return {"class": type(error), "text": str(error), **{name: getattr(error, name, None) for name in (*SAID, "content_type")}}


def plain(event: ChatEvent) -> ChatEvent:
    """
    The event with an error that compares.
    """
    return attrs.evolve(event, error=said(event.error)) if isinstance(event, ErrorEvent) else event  # type: ignore[arg-type]


@drawn
@given(strategies.events)
def test_an_event_reads_back_as_it_was(event: ChatEvent) -> None:
    """
    For all types, with everything in them that can be.
    """
    back = loads(dumps(event))
    assert type(back) is type(event)
    assert plain(back) == plain(event)


@drawn
@given(strategies.responses)
def test_an_answer_reads_back_as_it_was(response: ChatResponse) -> None:
    """
    Its parts by tag, its steps and alternatives, usage, metadata.
    """
    assert response_from_dict(json.loads(json.dumps(response_to_dict(response)))) == response


@given(strategies.errors)
def test_an_error_reads_back_as_it_was(error: RxchatError) -> None:
    """
    Same class, same words; never a header, a body, or the provider's own object.
    """
    written = json.dumps(error_to_dict(error))
    assert said(error_from_dict(json.loads(written))) == said(error)
    assert "planted" not in written


@drawn
@given(strategies.events)
def test_an_event_without_its_answer(event: ChatEvent) -> None:
    """
    `responses=False` writes everything but the answer.
    """
    back = loads(dumps(event, responses=False))
    blank = {"response": ChatResponse()} if "response" in attrs.fields_dict(type(event)) else {}
    assert plain(back) == plain(attrs.evolve(event, **blank))  # type: ignore[arg-type]


@pytest.mark.parametrize("event", SAMPLES, ids=lambda event: event.type)
def test_each_type_is_one_line_with_version_and_tag(event: ChatEvent) -> None:
    """
    The first two fields tell what it is.
    """
    text = dumps(event)
    assert text.startswith(f'{{"v":{VERSION},"type":"{event.type}"')
    assert "\n" not in text
    assert plain(from_dict(to_dict(event))) == plain(event) or isinstance(event, ErrorEvent)


def test_the_samples_are_all_types() -> None:
    """
    The test above leaves none out.
    """
    assert {type(event) for event in SAMPLES} == set(EVENT_TYPES.values())


# --- what it looks like ---------------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("event", "expected"),
    [
        (ev.Heartbeat(), {"v": 1, "type": "HEARTBEAT"}),
        (ev.TextDelta("Hi"), {"v": 1, "type": "TEXT_DELTA", "text": "Hi"}),
        (ev.TextDelta("Hi", 0, "i", 1), {"v": 1, "type": "TEXT_DELTA", "text": "Hi", "index": 0, "item_id": "i", "choice": 1}),
        (ev.StepEnd(), {"v": 1, "type": "STEP_END"}),
        (
            ev.ToolCallEnd(ToolCall("c", "add", "", {}, complete=True)),
            {"v": 1, "type": "TOOL_CALL_END", "tool_call": {"id": "c", "name": "add", "arguments": {}, "complete": True}},
        ),
        (
            ev.ResponseEnd(ChatResponse((TextPart("Hi"), ToolCall("c")), FinishReason.STOP, usage=Usage(1), verdict=Verdict.COMPLETE)),
            {
                "v": 1,
                "type": "RESPONSE_END",
                "response": {
                    "parts": [{"part": "text", "text": "Hi"}, {"part": "tool_call", "id": "c"}],
                    "finish_reason": "stop",
                    "usage": {"input_tokens": 1},
                    "verdict": "COMPLETE",
                },
            },
        ),
        (
            ErrorEvent(err.ProviderError("busy", code="overloaded", status=529, retryable=True, raw={"secret": 1})),
            {
                "v": 1,
                "type": "ERROR",
                "error": {
                    "error": "ProviderError",
                    "verdict": "PROVIDER_ERROR",
                    "message": "busy",
                    "code": "overloaded",
                    "status": 529,
                    "retryable": True,
                },
            },
        ),
    ],
    ids=lambda value: getattr(value, "type", ""),
)
def test_fields_at_their_default_are_left_out(event: ChatEvent, expected: dict[str, Any]) -> None:
    """
    What is written is small and readable.
    """
    assert to_dict(event) == expected


def test_the_partial_answer_is_written_once_and_read_back_on_both() -> None:
    """
    It rides on the event, and on the error again when read (contract V2).
    """
    partial = ChatResponse((TextPart("half"),), verdict=Verdict.CONNECTION_LOST)
    error = err.ConnectionLostError("gone")
    error.response = partial
    text = dumps(ErrorEvent(error, partial))
    assert text.count("half") == 1
    back = loads(text)
    assert isinstance(back, ErrorEvent)
    assert back.response == back.error.response == partial


# --- what a later version may add -----------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param('{"v":1,"type":"AUDIO_CUE","at":3}', Custom("AUDIO_CUE", {"at": 3}), id="an unknown tag"),
        pytest.param('{"type":"TEXT_DELTA","text":"a"}', ev.TextDelta("a"), id="no version"),
        pytest.param('{"v":9,"type":"TEXT_DELTA","text":"a"}', ev.TextDelta("a"), id="a later version"),
        pytest.param('{"type":"TEXT_DELTA","text":"a","tone":"calm"}', ev.TextDelta("a"), id="an unknown field"),
        pytest.param(
            '{"type":"STEP_END","response":{"parts":[{"part":"hologram","url":"u"}],"mood":1}}',
            ev.StepEnd(response=ChatResponse((ProviderItemPart("hologram", {"part": "hologram", "url": "u"}),))),
            id="an unknown part, an unknown field of the answer",
        ),
        pytest.param('{"type":"STEP_START","model":null}', ev.StepStart(), id="null is unsaid"),
    ],
)
def test_what_a_later_version_may_add(text: str, expected: ChatEvent) -> None:
    """
    Unknown tags and parts survive, unknown fields are ignored.
    """
    assert loads(text) == expected
    assert loads(text.encode()) == expected


def test_an_unknown_part_is_written_again_as_it_came() -> None:
    """
    What a later version wrote survives being read and written by this one; an opaque item of a provider stays one.
    """
    later = {"v": 9, "parts": [{"part": "hologram", "url": "u", "part2": 1}, {"part": "provider_item", "type": "x", "raw": {"part": "y"}}]}
    assert response_to_dict(response_from_dict(later)) == {**later, "v": 1}


def test_what_was_set_on_an_error_later() -> None:
    """
    A position, a code that its constructor does not take: read back all the same.
    """
    error = err.ToolError("x")
    error.offset, error.code, error.retryable = 3, "c", True
    assert said(error_from_dict(error_to_dict(error))) == said(error)


def test_an_error_of_another_class() -> None:
    """
    A subclass is written as the nearest of ours; a class we do not know reads as the one with its verdict, else as the base.
    """

    class Mine(err.ProviderError):
        pass

    assert error_to_dict(Mine("x"))["error"] == "ProviderError"
    assert type(error_from_dict({"error": "Strange", "verdict": "PROVIDER_ERROR", "message": "x"})) is err.ProviderError
    assert type(error_from_dict({"error": "Strange", "verdict": "PROTOCOL"})) is ProtocolError
    assert type(error_from_dict({"error": "Strange", "verdict": "NOVEL", "hue": 1})) is RxchatError


def test_every_error_class_can_be_read_back() -> None:
    """
    The table above this one, by hypothesis, draws from all of them.
    """
    classes = {getattr(err, name) for name in err.__all__}
    errors = {cls for cls in classes if isinstance(cls, type) and issubclass(cls, RxchatError)}
    drawn = {*strategies.bare_errors, *strategies.timeouts, *strategies.placed}
    drawn |= {err.FramingError, err.InvalidJSONError, err.LimitExceeded, err.ProviderError, err.HTTPStatusError, err.ContentTypeError}
    assert drawn == errors


# --- what is malformed ----------------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("text", ["", "{", '{"type":"HEARTBEAT"} x', '{"type":"RAW","name":"a","name":"b"}', '{"type":"RAW","payload":NaN}'])
def test_what_is_no_strict_json(text: str) -> None:
    """
    Said as such.
    """
    with pytest.raises(InvalidJSONError):
        loads(text)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ([], "list instead of an object"),
        ({}, "None is no type"),
        ({"type": 3}, "3 is no type"),
        ({"type": "TEXT_DELTA"}, r"TEXT_DELTA: the field 'text' is missing @ \$\.text"),
        ({"type": "TEXT_DELTA", "text": None}, r"\$\.text"),
        ({"type": "TEXT_DELTA", "text": 3}, r"TEXT_DELTA: int instead of str @ \$\.text"),
        ({"type": "TEXT_DELTA", "text": "a", "index": "3"}, r"str instead of int @ \$\.index"),
        ({"type": "TEXT_DELTA", "text": "a", "index": True}, r"bool instead of int @ \$\.index"),
        ({"type": "TOOL_RESULT", "call_id": "c", "is_error": 1}, r"int instead of bool @ \$\.is_error"),
        ({"type": "STEP_END", "response": []}, r"list instead of an object @ \$\.response"),
        ({"type": "STEP_END", "response": {"parts": {}}}, r"dict instead of list @ \$\.response\.parts"),
        ({"type": "STEP_END", "response": {"parts": [{"text": "x"}]}}, r"None is no part @ \$\.response\.parts"),
        ({"type": "STEP_END", "response": {"parts": [{"part": "text"}]}}, r"'text' is missing @ \$\.response\.parts\.text"),
        ({"type": "STEP_END", "response": {"verdict": "GOOD"}}, r"'GOOD' is not a valid Verdict @ \$\.response\.verdict"),
        ({"type": "STEP_END", "response": {"finish_reason": "why"}}, r"\$\.response\.finish_reason"),
        ({"type": "STEP_END", "usage": {"wire": {"a": "b"}}}, r"str instead of int @ \$\.usage\.wire"),
        ({"type": "TOOL_CALL_END", "tool_call": {"arguments": [1]}}, r"list instead of an object @ \$\.tool_call\.arguments"),
        ({"type": "ERROR"}, r"'error' is missing"),
        ({"type": "ERROR", "error": "x"}, r"str instead of an object @ \$\.error"),
        ({"type": "ERROR", "error": {"message": "x"}}, r"None is no error @ \$\.error"),
        ({"type": "ERROR", "error": {"error": "ProviderError", "message": 1}}, r"1 is no message @ \$\.error"),
        ({"type": "ERROR", "error": {"error": "ProviderError", "status": "x"}}, r"'x' is no status @ \$\.error"),
        ({"type": "ERROR", "error": {"error": "HTTPStatusError"}}, r"HTTPStatusError: missing .* 'status' @ \$\.error"),
        ({"type": "ERROR", "error": {"error": "LimitExceeded"}}, r"LimitExceeded: missing .* 'limit' and 'value' @ \$\.error"),
    ],
)
def test_what_is_malformed_names_the_field(data: Any, message: str) -> None:
    """
    Known things are read strictly, and never by guessing.
    """
    with pytest.raises(ProtocolError, match=message):
        from_dict(data)


def test_a_malformed_answer_names_the_field() -> None:
    """
    Likewise for an answer alone.
    """
    with pytest.raises(ProtocolError, match=r"response: str instead of int @ \$\.choice"):
        response_from_dict({"choice": "1"})
    with pytest.raises(ProtocolError, match="int instead of an object"):
        response_from_dict(1)  # type: ignore[arg-type]


# --- values JSON has no word for ------------------------------------------------------------------------------------------------------------------


@attrs.frozen
class Weather:
    degrees: int
    sky: str


class Odd:
    def __str__(self) -> str:
        return "odd"


@pytest.mark.parametrize(
    ("result", "expected"),
    [
        (Weather(3, "grey"), {"degrees": 3, "sky": "grey"}),
        (float("nan"), "nan"),
        ([float("inf"), 1.5], ["inf", 1.5]),
        (b"\x00\x01", "AAE="),
        ((1, 2), [1, 2]),
        ([{1}, bytearray(b"\x00")], [[1], "AA=="]),
        ({1: Odd()}, {"1": "odd"}),
        ({"verdict": Verdict.COMPLETE, "odd": Odd()}, {"verdict": "COMPLETE", "odd": "odd"}),
        ("\ud800!", "?!"),
    ],
)
def test_a_tool_may_answer_with_anything(result: Any, expected: Any) -> None:
    """
    It is written as the nearest thing JSON can say; a gateway never breaks on it.
    """
    back = loads(dumps(ev.ToolResult("c", result)))
    assert isinstance(back, ev.ToolResult)
    assert back.result == expected


def test_text_of_all_scripts_is_kept() -> None:
    """
    No escapes where none are needed, nothing lost.
    """
    text = dumps(ev.TextDelta("日本語 🌱 \u2028"))
    assert "日本語 🌱" in text
    assert loads(text) == ev.TextDelta("日本語 🌱 \u2028")


def test_a_payload_as_deep_as_the_wire_allows() -> None:
    """
    128 levels inside an event inside an answer still read back.
    """
    deep: Any = []
    for _ in range(127):
        deep = [deep]
    event = ev.StepEnd(response=ChatResponse((ProviderItemPart("x", deep),), alternatives=(ChatResponse((ProviderItemPart("x", deep),)),)))
    assert loads(dumps(event)) == event


def seeded(write: Callable[[ChatEvent], str]) -> list[str]:
    return [write(event) for event in SAMPLES]


def test_writing_is_deterministic() -> None:
    """
    The same event is the same line.
    """
    assert seeded(dumps) == seeded(dumps)
