"""
What a typed function looks like to a model.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import Any, Literal

import attrs
import pytest

from rxchat.errors import ConfigurationError
from rxchat.prompt import ToolSpec
from rxchat.response import ToolCall
from rxchat.toolschema import ToolContext, tool_signature, tool_spec


@attrs.define
class Place:
    """
    Where.
    """

    name: str
    country: str | None = None


@dataclass
class Window:
    """
    When.
    """

    hours: int = 24


def forecast(place: Place, unit: Literal["C", "F"] = "C", days: list[int] | None = None, window: Window | None = None) -> str:
    """
    Tell the weather
    to come.

    More words nobody sends.

    Args:
        place: where to look
        unit (str): of the answer
    """
    return f"{place}{unit}{days}{window}"


def test_schema_of_a_typed_function() -> None:
    """
    Names, types, defaults, required parameters and descriptions are in the schema; attrs classes and dataclasses are defined beside it.
    """
    spec = tool_spec(forecast)
    assert spec.name == "forecast"
    assert spec.description == "Tell the weather to come."
    properties = spec.parameters["properties"]
    assert properties["unit"] == {"enum": ["C", "F"], "default": "C", "description": "of the answer"}
    assert properties["days"]["anyOf"] == [{"type": "array", "items": {"type": "integer"}}, {"type": "null"}]
    assert properties["place"]["description"] == "where to look"
    assert spec.parameters["required"] == ["place"]
    assert spec.parameters["additionalProperties"] is False
    assert set(spec.parameters["$defs"]) == {"Place", "Window"}
    assert spec.parameters["$defs"]["Place"]["required"] == ["name"]


def test_no_parameters() -> None:
    """
    A function without parameters is an object without properties.
    """

    def now() -> str:
        return ""

    assert tool_spec(now, description="The time.").parameters == {"type": "object", "properties": {}, "required": [], "additionalProperties": False}


def test_mutable_default() -> None:
    """
    A list as default is no error and stays in the schema.
    """

    def pick(tags: list[str] = []) -> str:  # noqa: B006
        """:param tags: which ones"""
        return ",".join(tags)

    tags = tool_spec(pick, name="choose").parameters["properties"]["tags"]
    assert tags["type"] == "array"
    assert tags["description"] == "which ones"


def untyped(a) -> str:  # type: ignore[no-untyped-def]
    return str(a)


def starred(*args: int) -> str:
    return str(args)


def unsayable(a: complex) -> str:
    return str(a)


def dangling(a: Nowhere) -> str:  # type: ignore[name-defined]  # noqa: F821
    return str(a)


@pytest.mark.parametrize(("function", "word"), [(untyped, "annotation"), (starred, "by name"), (unsayable, "unsayable"), (dangling, "Nowhere")])
def test_functions_that_cannot_be_tools(function: object, word: str) -> None:
    """
    The error names the tool and what is wrong with it.
    """
    with pytest.raises(ConfigurationError, match=word):
        tool_spec(function)  # type: ignore[arg-type]


def test_context_is_hidden() -> None:
    """
    A parameter annotated ToolContext is named, and neither in the schema nor among the types; there is at most one.
    """

    def look(where: str, context: ToolContext, deep: bool = False) -> str:
        return f"{where}{context}{deep}"

    def twice(a: ToolContext, b: ToolContext) -> None: ...

    found = tool_signature(look)
    assert found.context == "context"
    assert dict(found.hints) == {"where": str, "deep": bool}
    assert list(found.spec.parameters["properties"]) == ["where", "deep"]
    assert ToolContext(ToolCall("c")).step == 0
    with pytest.raises(ConfigurationError, match="a and b both take the context"):
        tool_signature(twice)


class Lookup:
    """
    Look things up.
    """

    def __call__(self, word: str) -> str:
        return word

    def find(self, word: str, most: int = 3) -> str:
        """
        Find a word.
        """
        return word * most


def test_methods_objects_and_partials() -> None:
    """
    A bound method leaves out its instance, an object that can be called speaks through `__call__`, a partial keeps what is left.
    """
    assert list(tool_spec(Lookup().find).parameters["properties"]) == ["word", "most"]
    spec = tool_spec(Lookup())
    assert (spec.name, spec.description, list(spec.parameters["properties"])) == ("Lookup", "Look things up.", ["word"])
    spec = tool_spec(functools.partial(Lookup.find, Lookup(), most=5))
    assert (spec.name, spec.description, spec.parameters["required"]) == ("find", "Find a word.", ["word"])
    assert spec.parameters["properties"]["most"] == {"type": "integer", "default": 5}


def test_what_has_a_spec_keeps_it() -> None:
    """
    Something that is a tool already is offered as it says, with what is said anew on top.
    """

    class Made:
        spec = ToolSpec("made", "As it is.")

        def __call__(self) -> None: ...

    assert tool_spec(Made()) == Made.spec
    assert tool_spec(Made(), name="other", strict=True) == ToolSpec("other", "As it is.", strict=True)


def test_lambda_is_no_tool() -> None:
    """
    It has no name a model could say.
    """
    with pytest.raises(ConfigurationError, match="lambda"):
        tool_spec(lambda: 0)


def test_return_annotation_need_not_exist() -> None:
    """
    What only the type checker knows about the result does not stand in the way.
    """

    def answer(n: int) -> Nowhere:  # type: ignore[name-defined]  # noqa: F821
        return n

    assert tool_spec(answer).parameters["required"] == ["n"]


def test_same_name_twice() -> None:
    """
    Two classes of one name are two definitions; a parameter described in two places keeps the annotation's words.
    """
    other: Any = attrs.make_class("Place", {"zip": attrs.field(type=int)})

    def between(a: Place, b: Any) -> None: ...

    between.__annotations__["b"] = other
    schema = tool_spec(between).parameters
    assert schema["properties"] == {"a": {"$ref": "#/$defs/Place"}, "b": {"$ref": "#/$defs/Place_2"}}
    assert set(schema["$defs"]) == {"Place", "Place_2"}
