"""
Previews of JSON that still comes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
import reactivex as rx
from reactivex import Observable

from rxchat.errors import ConnectionLostError, InvalidJSONError
from rxchat.events import (
    Abort,
    ChatEvent,
    ErrorEvent,
    ResponseEnd,
    ResponseStart,
    StepEnd,
    StepStart,
    TextDelta,
    ThinkingDelta,
    ToolCallArgsDelta,
    ToolCallEnd,
    ToolCallStart,
)
from rxchat.limits import Limits
from rxchat.operators import normalize
from rxchat.previews import Preview, PreviewSource, partial_json
from rxchat.response import ChatResponse, FinishReason, ToolCall


def heard(stream: Observable[Any]) -> list[Any]:
    """
    Items, then "completed" or the error.
    """
    items: list[Any] = []
    stream.subscribe(items.append, items.append, lambda: items.append("completed"))
    return items


def step(*events: ChatEvent, finish: FinishReason = FinishReason.STOP, number: int = 0) -> list[ChatEvent]:
    return [StepStart(number), *events, StepEnd(number, ChatResponse(finish_reason=finish))]


def answer(*events: ChatEvent, finish: FinishReason = FinishReason.STOP) -> list[ChatEvent]:
    return [ResponseStart(), *step(*events, finish=finish), ResponseEnd()]


def texts(*pieces: str) -> list[ChatEvent]:
    return [TextDelta(piece, 0) for piece in pieces]


def call(*pieces: str, index: int = 0, name: str = "cook", ends: bool = True, kind: str = "function") -> list[ChatEvent]:
    call_id = f"call-{index}"
    end = [ToolCallEnd(ToolCall(call_id, name, complete=True, index=index, kind=kind))] if ends else []
    return [ToolCallStart(call_id, name, index, kind=kind), *(ToolCallArgsDelta(piece, call_id, index) for piece in pieces), *end]


def through(operator: Any, events: Sequence[ChatEvent], error: Exception | None = None) -> list[Any]:
    stream: Observable[Any] = rx.from_iterable(events)
    if error is not None:
        stream = rx.concat(stream, rx.throw(error))
    return heard(stream.pipe(normalize(), operator))


# --- previews -------------------------------------------------------------------------------------------------------------------------------------


def looked_at(items: list[Any]) -> list[Any]:
    """
    Value and completeness of each preview, looked at when all is over; an error by its word and place.
    """

    def word(item: Any) -> Any:
        return (item.reason, item.offset) if isinstance(item, InvalidJSONError) else item

    return [(item.value, item.complete) if isinstance(item, Preview) else word(item) for item in items]


LOST = ConnectionLostError("gone")

PREVIEWS: list[tuple[str, list[ChatEvent], Exception | None, list[Any]]] = [
    (
        "of a text",
        answer(*texts('{"a', '":', " [1", "2,", '"x', 'y"]', "}")),
        None,
        [({}, False), ({"a": []}, False), ({"a": [12]}, False), ({"a": [12, "x"]}, False), ({"a": [12, "xy"]}, False), ({"a": [12, "xy"]}, True)],
    ),
    ("a number only when it is over", answer(*texts("1", "2")), None, [(12, True)]),
    ("thinking and other choices are none of it", answer(ThinkingDelta("x"), TextDelta("x", choice=1), *texts("1")), None, [(1, True)]),
    ("blocks of one step are one text", answer(TextDelta("[1,", 0), TextDelta("2]", 1)), None, [([1], False), ([1, 2], False), ([1, 2], True)]),
    ("nothing said", answer(), None, []),
    ("stopped by length", answer(*texts("[1,"), finish=FinishReason.LENGTH), None, [([1], False)]),
    ("cut", [ResponseStart(), StepStart(), *texts("[1,")], LOST, [([1], False), LOST]),
    ("failed", [ResponseStart(), StepStart(), *texts("[1,"), ErrorEvent(LOST)], LOST, [([1], False), LOST]),
    ("aborted", [ResponseStart(), StepStart(), *texts("[1]"), Abort()], None, [([1], False)]),
    ("not whole where it ended well", answer(*texts("[1,")), None, [([1], False), ("syntax", 3)]),
    ("hopeless", answer(*texts("[é", "x]")), None, [([], False), ("syntax", 1)]),
    ("good until the fault", answer(*texts('["a', 'b",,')), None, [(["a"], False), (["ab"], False), ("syntax", 6)]),
    ("each step anew", [ResponseStart(), *step(*texts("1")), *step(*texts("2"), number=1), ResponseEnd()], None, [(1, True), (2, True)]),
    ("each response anew", [ResponseStart(), StepStart(), *texts("[1"), *answer(*texts("2"))], None, [([], False), (2, True)]),
]


@pytest.mark.parametrize(("events", "error", "expected"), [pytest.param(*row[1:], id=row[0]) for row in PREVIEWS])
def test_previews(events: list[ChatEvent], error: Exception | None, expected: list[Any]) -> None:
    """
    One for each delta that changes what is shown, each the beginning of the next; complete only where the step ended well.
    """
    given = through(partial_json(), events, error)
    assert expected == [item for item in looked_at(given) if item != "completed"]


CALLS: list[tuple[str, list[ChatEvent], list[Any]]] = [
    ("of a call", answer(*call('{"a":', '"b"}')), [("call-0", {}, False), ("call-0", {"a": "b"}, False), ("call-0", {"a": "b"}, True)]),
    (
        "interleaved",
        answer(*call('{"a":[', ends=False), *call("{", "}", index=1), ToolCallArgsDelta("]}", "call-0", 0), finish=FinishReason.TOOL_CALLS),
        [("call-0", {"a": []}, False), ("call-1", {}, False), ("call-1", {}, True), ("call-0", {"a": []}, True)],
    ),
    ("of others nothing", answer(*call("{}", name="wash")), []),
    ("free-form nothing", answer(*call("not JSON", kind="custom")), []),
    ("without arguments", answer(*call()), [("call-0", {}, True)]),
    ("cut off by length", answer(*call("{", ends=False), finish=FinishReason.LENGTH), [("call-0", {}, False)]),
    ("named late", answer(ToolCallStart("", "", 0), ToolCallArgsDelta("{}", "", 0), *call(ends=True)[-1:]), [("call-0", {}, True)]),
    (
        "anew in each step",
        [ResponseStart(), *step(*call("{")[:-1], finish=FinishReason.LENGTH), *step(*call("{}"), number=1)],
        [("call-0", {}, False)] * 2 + [("call-0", {}, True)],
    ),
]


@pytest.mark.parametrize(("events", "expected"), [pytest.param(*row[1:], id=row[0]) for row in CALLS])
def test_previews_of_calls(events: list[ChatEvent], expected: list[Any]) -> None:
    """
    The arguments of each call of that name, told apart by their source.
    """
    given = [item for item in through(partial_json(call="cook"), events) if isinstance(item, Preview)]
    assert expected == [(item.source.call_id, item.value, item.complete) for item in given]
    assert all(item.source.kind == "call" for item in given)


def test_every_call() -> None:
    """
    By a star, whatever its name.
    """
    given = through(partial_json(call="*"), answer(*call("{}"), *call("{}", index=1, name="wash")))
    assert ["cook", "cook", "wash", "wash"] == [item.source.name for item in given[:-1]]
    assert PreviewSource("call", 0, "call-1", "wash", 1) == given[-2].source


def test_a_preview_is_nobody_elses() -> None:
    """
    What a consumer does to a value changes neither the next one nor what others see; a part can be had alone.
    """
    first, second, _, _ = through(partial_json(), answer(*texts('{"a":["secret', '1"],"b":{"c":null}}')))
    first.value["a"].append("mine")
    assert {"a": ["secret"]} == first.value
    assert "secret1" == second.at("a", -1)
    assert (None, "none", None) == (first.at("b", "c"), first.at("b", "c", default="none"), second.at("b", "c", default="none"))
    assert "secret" not in repr(first)


def test_previews_respect_the_depth() -> None:
    """
    As deep as the limits say.
    """
    assert ("depth", 2) == looked_at(through(partial_json(limits=Limits(json_depth=2)), answer(*texts("[[["))))[-1]
