"""
Every kind of annotation: its schema, and the way from JSON to its value and back.
"""

from __future__ import annotations

import datetime
import enum
import uuid
from collections import abc
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Annotated, Any, Literal, NamedTuple, NewType, NotRequired, Optional, Required, TypedDict

import attrs
import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from rxchat import strictjson
from rxchat.errors import ConfigurationError
from rxchat.toolschema import type_schema
from rxchat.toolschema.hints import UnsupportedHint
from rxchat.toolschema.structuring import StructureError, check_hint, structure, unstructure


@attrs.frozen
class Point:
    """
    A place on the map.

    Attributes:
        x: to the right
    """

    x: int
    y: int = 0
    seen: datetime.datetime | str | None = None
    secret: int = attrs.field(init=False, default=1)


@attrs.frozen
class Checked:
    n: int = attrs.field(validator=attrs.validators.gt(0))


@dataclass
class Tree:
    name: str
    children: list[Tree] = field(default_factory=list)


@attrs.frozen
class Chain:
    """
    One that refers to itself in a union.
    """

    value: int
    rest: Chain | list[Chain] | None = None


class Options(TypedDict):
    """
    How.
    """

    deep: bool
    most: NotRequired[int]


class Loose(TypedDict, total=False):
    must: Required[str]
    may: Point


class Pair(NamedTuple):
    left: int
    right: datetime.date = datetime.date(2020, 1, 1)


class Colour(enum.Enum):
    RED = "r"
    GREEN = "g"


class Odd(enum.Enum):
    THING = object()


class Box(msgspec.Struct):
    width: int
    inner: Optional[Box] = None  # noqa: UP045 - msgspec reads the text


@attrs.frozen
class Away:
    where: Nowhere  # type: ignore[name-defined]  # noqa: F821


_OPTIONAL = Optional[int]  # noqa: UP045 - the old way is a kind of its own
UserId = NewType("UserId", int)
NOON = datetime.datetime(2026, 1, 2, 12, 0, tzinfo=datetime.UTC)
ID = uuid.UUID("12345678-1234-5678-1234-567812345678")


class Len:
    """
    As other packages write a length.
    """

    min_length = 1
    max_length = 3


# annotation, its schema (None: looked at elsewhere), JSON, value
KINDS: list[tuple[Any, dict[str, Any] | None, Any, Any]] = [
    (str, {"type": "string"}, "a", "a"),
    (bool, {"type": "boolean"}, True, True),
    (int, {"type": "integer"}, 3, 3),
    (int, {"type": "integer"}, 3.0, 3),
    (float, {"type": "number"}, 3, 3.0),
    (None, {"type": "null"}, None, None),
    (Any, {}, {"a": [1]}, {"a": [1]}),
    (object, {}, [1], [1]),
    (bytes, {"type": "string", "contentEncoding": "base64"}, "aGk=", b"hi"),
    (datetime.datetime, {"type": "string", "format": "date-time"}, "2026-01-02T12:00:00Z", NOON),
    (datetime.date, {"type": "string", "format": "date"}, "2026-01-02", NOON.date()),
    (datetime.time, {"type": "string", "format": "time"}, "12:00:00", NOON.time()),
    (datetime.timedelta, {"type": "string", "format": "duration"}, "PT90S", datetime.timedelta(seconds=90)),
    (uuid.UUID, {"type": "string", "format": "uuid"}, str(ID), ID),
    (Decimal, {"type": "string", "format": "decimal"}, "1.50", Decimal("1.50")),
    (UserId, {"type": "integer"}, 7, 7),
    (Literal["a", 1, None], {"enum": ["a", 1, None]}, 1, 1),
    (Literal[Colour.RED], {"enum": ["r"]}, "r", Colour.RED),
    (Colour, {"$ref": "#/$defs/Colour", "$defs": {"Colour": {"enum": ["r", "g"]}}}, "g", Colour.GREEN),
    (_OPTIONAL, {"anyOf": [{"type": "integer"}, {"type": "null"}]}, None, None),
    (float | None, {"anyOf": [{"type": "number"}, {"type": "null"}]}, 2, 2.0),
    (int | str, {"anyOf": [{"type": "integer"}, {"type": "string"}]}, "x", "x"),
    (datetime.date | str, None, "2026-01-02", NOON.date()),
    (datetime.date | str, None, "soon", "soon"),
    (Point | Tree, None, {"name": "t"}, Tree("t")),
    (Point | Options, None, {"deep": True}, {"deep": True}),
    (list[Point] | dict[str, Tree], None, {"a": {"name": "t"}}, {"a": Tree("t")}),
    (Annotated[Point | Tree, "which one"], None, {"x": 1}, Point(1)),
    (list, {"type": "array"}, [1, "a"], [1, "a"]),
    (list[int], {"type": "array", "items": {"type": "integer"}}, [1], [1]),
    (abc.Sequence[int], {"type": "array", "items": {"type": "integer"}}, [1], (1,)),
    (abc.Iterable[int], {"type": "array", "items": {"type": "integer"}}, [1], [1]),
    (abc.Collection[datetime.date], None, ["2026-01-02"], [NOON.date()]),
    (set[int], {"type": "array", "items": {"type": "integer"}, "uniqueItems": True}, [1, 2], {1, 2}),
    (frozenset[str], {"type": "array", "items": {"type": "string"}, "uniqueItems": True}, ["a"], frozenset({"a"})),
    (tuple[int, ...], {"type": "array", "items": {"type": "integer"}}, [1, 2], (1, 2)),
    (tuple[()], {"type": "array", "minItems": 0, "maxItems": 0}, [], ()),
    (dict, {"type": "object"}, {"a": 1}, {"a": 1}),
    (dict[str, int], {"type": "object", "additionalProperties": {"type": "integer"}}, {"a": 1}, {"a": 1}),
    (dict[int, str], None, {"1": "a"}, {1: "a"}),
    (dict[Colour, int], None, {"r": 1}, {Colour.RED: 1}),
    (abc.Mapping[str, Any], {"type": "object"}, {"a": [1]}, {"a": [1]}),
    (Point, None, {"x": 1, "seen": "2026-01-02T12:00:00Z"}, Point(1, 0, NOON)),
    (Tree, None, {"name": "a", "children": [{"name": "b"}]}, Tree("a", [Tree("b")])),
    (Chain, None, {"value": 1, "rest": {"value": 2, "rest": [{"value": 3}]}}, Chain(1, Chain(2, [Chain(3)]))),
    (Options, None, {"deep": False}, {"deep": False}),
    (Loose, None, {"must": "a", "may": {"x": 1}}, {"must": "a", "may": Point(1)}),
    (Pair, None, [1, "2026-01-02"], Pair(1, NOON.date())),
    (Pair, None, [1], Pair(1)),
    (Box, None, {"width": 1, "inner": {"width": 2}}, Box(1, Box(2))),
    (
        Annotated[int, msgspec.Meta(ge=1, lt=9, description="few")],
        {"type": "integer", "minimum": 1, "exclusiveMaximum": 9, "description": "few"},
        8,
        8,
    ),
    (Annotated[str, msgspec.Meta(pattern="^a", max_length=4, examples=["ab"])], None, "ab", "ab"),
    (Annotated[list[int], Len()], {"type": "array", "items": {"type": "integer"}, "minItems": 1, "maxItems": 3}, [1], [1]),
    (Annotated[dict[str, int], msgspec.Meta(min_length=1)], None, {"a": 1}, {"a": 1}),
    (Annotated[str, msgspec.Meta(extra_json_schema={"format": "email"})], {"type": "string", "format": "email"}, "a@b", "a@b"),
]


@pytest.mark.parametrize(("hint", "schema", "given_json", "value"), KINDS, ids=[f"{n}-{row[0]}"[:40] for n, row in enumerate(KINDS)])
def test_kinds(hint: Any, schema: dict[str, Any] | None, given_json: Any, value: Any) -> None:
    """
    The schema is what it must be, and a valid one; JSON that fits it becomes the value, and the value becomes JSON that fits again.
    """
    made = type_schema(hint)
    assert made == (made if schema is None else schema)
    Draft202012Validator.check_schema(made)
    validator = Draft202012Validator(made)
    validator.validate(given_json)
    check_hint(hint)
    result = structure(given_json, hint)
    assert (value, type(value)) == (result, type(result))
    again = strictjson.loads(strictjson.dumps(unstructure(result)))
    validator.validate(again)
    assert value == structure(again, hint)


# annotation, JSON that its schema refuses
REFUSED: list[tuple[Any, Any]] = [
    (int, True),
    (int, "1"),
    (int, 1.5),
    (bool, 1),
    (Literal["a"], "b"),
    (Colour, "RED"),
    (Point, {"x": 1, "z": 2}),
    (Point, {"x": 1, "secret": 2}),
    (Point, {}),
    (Tree, {"name": "a", "children": [{"name": "b", "more": 1}]}),
    (Options, {"deep": True, "other": 1}),
    (Options, {"most": 1}),
    (Loose, {"may": {"x": 1}}),
    (Box, {"width": 1, "height": 2}),
    (Pair, [1, "2026-01-02", 3]),
    (tuple[int, str], [1]),
    (tuple[()], [1]),
    (set[int], [1, 1]),
    (dict[int, str], {"a": "b"}),
    (dict[Colour, int], {"b": 1}),
    (Point | Tree, {"x": "1"}),
    (Annotated[int, msgspec.Meta(ge=1)], 0),
    (Annotated[list[int], Len()], []),
]


@pytest.mark.parametrize(("hint", "wrong"), REFUSED, ids=[f"{n}-{row[0]}"[:40] for n, row in enumerate(REFUSED)])
def test_what_the_schema_refuses(hint: Any, wrong: Any) -> None:
    """
    Nothing is read leniently: unknown keys at any level, numbers as text, truth as a number.
    """
    assert not Draft202012Validator(type_schema(hint)).is_valid(wrong)


def test_descriptions_of_classes() -> None:
    """
    A class tells what it is and what its fields are; what a generator wrote into its docstring is not told.
    """
    defs = type_schema(list[Point | Tree | Options | Colour])["$defs"]
    assert defs["Point"]["description"] == "A place on the map."
    assert defs["Point"]["properties"]["x"] == {"type": "integer", "description": "to the right"}
    assert defs["Point"]["properties"]["y"] == {"type": "integer", "default": 0}
    assert defs["Options"]["description"] == "How."
    assert "description" not in defs["Tree"]
    assert "description" not in defs["Colour"]


@pytest.mark.parametrize("hint", [complex, Odd, Away, type, list[complex], abc.Callable[[], int], abc.Iterator[int]])
def test_what_no_schema_can_say(hint: Any) -> None:
    """
    It is refused by name, never described as anything.
    """
    with pytest.raises(UnsupportedHint):
        type_schema(hint)


@pytest.mark.parametrize("hint", [complex | type, list["Nowhere"], datetime.date | Odd])  # type: ignore[name-defined]  # noqa: F821
def test_what_no_value_can_be_made_of(hint: Any) -> None:
    """
    It is a mistake of whoever wrote the annotation.
    """
    with pytest.raises(ConfigurationError):
        check_hint(hint)


@pytest.mark.parametrize(
    ("hint", "given_json", "pointer"),
    [
        (datetime.date, "soon", "/p"),
        (list[datetime.date], ["2026-01-02", "soon"], "/p/1"),
        (dict[str, datetime.date], {"a/b~c": "soon"}, "/p/a~1b~0c"),
        (Tree, {"name": "a", "children": [{"name": "b", "children": 5}]}, "/p/children/0/children"),
        (Checked, {"n": 0}, "/p"),
        (Loose, {"must": "a", "may": {"x": "y"}}, "/p/may/x"),
        (list[Pair], [[1, "2026-01-02"], [1, "soon"]], "/p/1/1"),
        (Point | Tree, {}, "/p"),
        (list[int | datetime.date], [1, "soon"], "/p/1"),
    ],
)
def test_where_it_is_wrong(hint: Any, given_json: Any, pointer: str) -> None:
    """
    What fits the schema and is still no value says where.
    """
    with pytest.raises(StructureError) as caught:
        structure(given_json, hint, "/p")
    assert pointer == caught.value.pointer
    assert str(caught.value)


def test_a_fault_without_words() -> None:
    """
    An exception that says nothing is told by its class.
    """

    def refuse(*_: object) -> None:
        raise ValueError

    strange: Any = attrs.make_class("Strange", {"n": attrs.field(type=int, validator=refuse)})
    with pytest.raises(StructureError, match="ValueError"):
        structure({"n": 1}, strange)


DATES = st.datetimes(min_value=datetime.datetime(1, 1, 2), timezones=st.just(datetime.UTC))
POINTS = st.builds(Point, st.integers(), st.integers(), st.one_of(st.none(), DATES))
TREES = st.recursive(st.builds(Tree, st.text(), st.just([])), lambda inner: st.builds(Tree, st.text(), st.lists(inner, max_size=3)), max_leaves=8)
VALUES: list[tuple[Any, st.SearchStrategy[Any]]] = [
    (list[int], st.lists(st.integers())),
    (dict[str, float], st.dictionaries(st.text(), st.floats(allow_nan=False, allow_infinity=False))),
    (Point, POINTS),
    (Tree, TREES),
    (Point | Tree | None, st.one_of(POINTS, TREES, st.none())),
    (set[uuid.UUID], st.sets(st.uuids())),
    (bytes, st.binary()),
    (Decimal, st.decimals(allow_nan=False, allow_infinity=False)),
    (datetime.timedelta, st.timedeltas(datetime.timedelta(0), datetime.timedelta(days=9999))),
    (tuple[Colour, datetime.date], st.tuples(st.sampled_from(Colour), st.dates())),
]


@pytest.mark.parametrize(("hint", "values"), VALUES, ids=[str(row[0])[:40] for row in VALUES])
@given(data=st.data())
def test_round_trip(hint: Any, values: st.SearchStrategy[Any], data: st.DataObject) -> None:
    """
    Every value survives the way through JSON text, which fits the schema on its way.
    """
    value = data.draw(values)
    text = strictjson.dumps(unstructure(value))
    read = strictjson.loads(text)
    Draft202012Validator(type_schema(hint)).validate(read)
    assert value == structure(read, hint)
