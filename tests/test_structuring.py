"""
Typed values of answers that are whole, and of no others.
"""

from __future__ import annotations

import datetime
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal, TypedDict

import attrs
import msgspec
import pytest
from jsonschema import Draft202012Validator

from rxchat.errors import AbortedError, ConfigurationError, ConnectionLostError, IncompleteFinishError, InvalidJSONError, RxchatError, Verdict
from rxchat.events import Abort, ChatEvent, ErrorEvent, RefusalDelta, ResponseEnd, ResponseStart, ThinkingDelta
from rxchat.limits import Limits
from rxchat.response import FinishReason
from rxchat.structuring import MismatchError, json_schema, structured
from tests.test_previews import LOST, answer, call, step, texts, through


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
