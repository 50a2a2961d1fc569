"""
Previews of JSON that still comes, and typed values of answers that are whole.
"""

from __future__ import annotations

import datetime
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal, TypedDict

import attrs
import msgspec
import pytest
import reactivex as rx
from jsonschema import Draft202012Validator
from reactivex import Observable

from rxchat.errors import AbortedError, ConfigurationError, ConnectionLostError, IncompleteFinishError, InvalidJSONError, RxchatError, Verdict
from rxchat.events import (
    Abort,
    ChatEvent,
    ErrorEvent,
    RefusalDelta,
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
from rxchat.response import ChatResponse, FinishReason, ToolCall
from rxchat.structuring import MismatchError, Preview, PreviewSource, json_schema, partial_json, structured


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


# --- typed values ---------------------------------------------------------------------------------------------------------------------------------


@attrs.frozen
class Step:
    """
    Something to do.
    """

    text: str
    minutes: int = 0


@dataclass
class Recipe:
    name: str
    steps: list[Step]
    tags: dict[str, float] = field(default_factory=dict)
    level: Literal["easy", "hard"] = "easy"
    parent: Recipe | None = None


class Point(TypedDict):
    x: int


class Circle(msgspec.Struct):
    r: float


@attrs.frozen
class Positive:
    n: int = attrs.field(validator=attrs.validators.gt(0))


MADE: list[tuple[Any, str, Any]] = [
    (Step, '{"text":"stir"}', Step("stir")),
    (
        Recipe,
        '{"name":"Pie","steps":[{"text":"a","minutes":3}],"tags":{"hot":1},"level":"hard","parent":{"name":"P","steps":[]}}',
        Recipe("Pie", [Step("a", 3)], {"hot": 1.0}, "hard", Recipe("P", [])),
    ),
    (Point, '{"x":1}', {"x": 1}),
    (Circle, '{"r":1.5}', Circle(1.5)),
    (Step | Positive, '{"n":2}', Positive(2)),
    (list[Step | None], '[null,{"text":"a"}]', [None, Step("a")]),
    (tuple[int, str], '[1,"a"]', (1, "a")),
    (set[int], "[1,2]", {1, 2}),
    (datetime.date, '"2030-02-01"', datetime.date(2030, 2, 1)),
    (Literal["a", "b"], '"b"', "b"),
    (dict[str, Any], '{"a":[1]}', {"a": [1]}),
    (int | str, '"x"', "x"),
]


@pytest.mark.parametrize(("kind", "text", "expected"), MADE)
def test_structured(kind: Any, text: str, expected: Any) -> None:
    """
    The value that the whole text stands for, of its type; and the type's schema accepts the text.
    """
    (made, end) = through(structured(kind), answer(*texts(*text)))
    assert (expected, type(expected), "completed") == (made, type(made), end)
    Draft202012Validator(json_schema(kind).schema).validate(msgspec.json.decode(text))


REFUSED: list[tuple[Any, str, list[str]]] = [
    (Step, '{"minutes":true}', ["$.minutes: is no integer", "$: lacks text"]),
    (Step, '{"text":"a","more":"secret"}', ["$: has fields the type does not have"]),
    (Recipe, '{"name":"P","steps":[{"text":"a"},{"text":5}]}', ["$.steps[1].text: is no string"]),
    (Recipe, '{"name":"P","steps":[],"level":"secret"}', ["$.level: is none of the values allowed"]),
    (Annotated[list[int], msgspec.Meta(min_length=1)], "[]", ["$: has fewer items than 1"]),
    (tuple[int, int], "[1]", ["$: has fewer items than 2"]),
    (Positive, '{"n":-5}', ["$: ValueError"]),
    (datetime.date, '"secret"', ["$: ValidationError"]),
    (Step, "[]", ["$: is no object"]),
]


@pytest.mark.parametrize(("kind", "text", "problems"), REFUSED)
def test_not_of_the_type(kind: Any, text: str, problems: list[str]) -> None:
    """
    Where and what, without the value; the answer is on the error.
    """
    (error,) = through(structured(kind), answer(*texts(text)))
    assert isinstance(error, MismatchError)
    assert sorted(problems) == sorted(error.problems)
    assert ("structure", Verdict.INVALID_JSON, Verdict.COMPLETE) == (error.reason, error.verdict, error.response and error.response.verdict)
    assert "secret" not in str(error)


NEVER: list[tuple[str, list[ChatEvent], Exception | None, type[RxchatError], str]] = [
    ("length", answer(*texts("1"), finish=FinishReason.LENGTH), None, IncompleteFinishError, "INCOMPLETE_FINISH"),
    ("filter", answer(*texts("1"), finish=FinishReason.CONTENT_FILTER), None, IncompleteFinishError, "content_filter"),
    ("unknown finish", answer(*texts("1"), finish=FinishReason.UNKNOWN), None, IncompleteFinishError, "INCOMPLETE_FINISH"),
    ("refusal as finish", answer(*texts("1"), finish=FinishReason.REFUSAL), None, IncompleteFinishError, "refusal"),
    ("refusal beside it", answer(RefusalDelta("no"), *texts("1")), None, IncompleteFinishError, "refusal"),
    ("aborted", [ResponseStart(), *step(*texts("1")), Abort()], None, AbortedError, "ABORTED"),
    ("failed", [ResponseStart(), *step(*texts("1")), ErrorEvent(LOST)], LOST, ConnectionLostError, "gone"),
    ("no terminal", [ResponseStart(), *step(*texts("1"))], None, RxchatError, "terminal"),
    ("empty", answer(), None, InvalidJSONError, "no JSON"),
    ("only thinking", answer(ThinkingDelta("1")), None, InvalidJSONError, "no JSON"),
    ("prose", answer(*texts("Here: 1")), None, InvalidJSONError, "byte 0"),
    ("a fence", answer(*texts("```json\n1\n```")), None, InvalidJSONError, "byte 0"),
    ("twice", answer(*texts("1 2")), None, InvalidJSONError, "byte 2"),
]


@pytest.mark.parametrize(("events", "error", "kind", "word"), [pytest.param(*row[1:], id=row[0]) for row in NEVER])
def test_never_of_an_answer_that_is_not_whole(events: list[ChatEvent], error: Exception | None, kind: type[RxchatError], word: str) -> None:
    """
    No value, but the error that says why.
    """
    (fault,) = through(structured(int), events, error)
    assert isinstance(fault, kind)
    assert word in str(fault)


def test_the_last_step_answers() -> None:
    """
    What was said before a tool ran is no part of the answer.
    """
    events = [ResponseStart(), *step(*texts("Let me see."), *call("{}")), *step(*texts("2"), number=1), ResponseEnd()]
    assert [2, "completed"] == through(structured(int), events)


def test_structured_from_calls() -> None:
    """
    One value a call of that name, in order, all or none.
    """
    operator = structured(Step, call="cook")
    good = call('{"text":"a"}'), call("{}", index=1, name="wash"), call('{"text":"b"}', index=2)
    assert [Step("a"), Step("b"), "completed"] == through(operator, answer(*(event for events in good for event in events)))
    assert [{}, "completed"] == through(structured(dict[str, int], call="cook"), answer(*call()))
    (fault,) = through(operator, answer(*call('{"text":"a"}'), *call("{}", index=1)))
    assert ("$: lacks text",) == fault.problems
    (fault,) = through(operator, answer(*texts("1")))
    assert "cook" in str(fault)


def test_depth_of_typed_values() -> None:
    """
    As deep as the limits say.
    """
    (fault,) = through(structured(dict[str, Any], limits=Limits(json_depth=1)), answer(*texts('{"a":{}}')))
    assert ("depth", 5) == (fault.reason, fault.offset)


@pytest.mark.parametrize("kind", [complex, list[complex]])
def test_types_that_have_no_json(kind: Any) -> None:
    """
    Are refused when they are named.
    """
    for make in (structured, json_schema):
        with pytest.raises(ConfigurationError, match="complex"):
            make(kind)


# --- schemas --------------------------------------------------------------------------------------------------------------------------------------


def test_schema_of_a_class() -> None:
    """
    An object at the top with its classes beside it; named after the type.
    """
    made = json_schema(Recipe, description="What to cook.")
    assert ("Recipe", "What to cook.", None) == (made.name, made.description, made.strict)
    assert "object" == made.schema["type"]
    assert {"Recipe", "Step"} == set(made.schema["$defs"])
    assert {"Step"} == set(json_schema(list[Step]).schema["$defs"])
    assert "$defs" not in json_schema(Step).schema
    assert ("list_Step", "x") == (json_schema(list[Step]).name, json_schema(Step, name="x").name)


def test_schema_to_be_enforced() -> None:
    """
    Every field required at every level, no default told; a field may be called so.
    """

    @attrs.frozen
    class Odd:
        default: int = 1
        properties: Literal["default"] = "default"

    schema = json_schema(Odd, strict=True).schema
    assert ["default", "properties"] == schema["required"]
    assert {"default": {"type": "integer"}, "properties": {"enum": ["default"]}} == schema["properties"]
    nested = json_schema(Recipe, strict=True).schema
    assert ["text", "minutes"] == nested["$defs"]["Step"]["required"]
    assert ["name", "steps", "tags", "level", "parent"] == nested["required"]
