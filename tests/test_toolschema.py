"""
What a typed function looks like to a model.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import attrs
import pytest

from rxchat.errors import ConfigurationError
from rxchat.toolschema import tool_spec


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
