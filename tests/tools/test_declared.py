"""
What `@tool` makes of a function, and what it refuses.
"""

from __future__ import annotations

import inspect
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

import pytest

from rxchat.client.request import resolve
from rxchat.errors import ConfigurationError
from rxchat.prompt import ToolSpec
from rxchat.response import ToolCall
from rxchat.tools import Tool, ToolSet, run_call, tool
from rxchat.toolschema import tool_spec


@tool
def add(a: int, b: int = 2) -> int:
    """
    Add two numbers.
    """
    return a + b


@tool(name="slow", description="Takes its time.", strict=True, timeout=3, return_direct=True)
async def wait(seconds: float) -> str:
    """
    Wait.
    """
    return f"{seconds}"


class Shop:
    """
    A shop.
    """

    def __init__(self, name: str) -> None:
        self.name = name

    @tool
    def order(self, item: str) -> str:
        """
        Order something.
        """
        return f"{item} at {self.name}"

    @staticmethod
    @tool
    def opens(day: str) -> str:
        """
        When it opens.
        """
        return day


async def test_still_the_function() -> None:
    """
    A decorated function is called as before, sync or async, and looks like itself.
    """
    assert add(1) == 3
    assert await wait(1.5) == "1.5"
    assert (vars(add)["__name__"], inspect.getdoc(add)) == ("add", "Add two numbers.")
    assert list(inspect.signature(add).parameters) == ["a", "b"]


def test_what_the_model_is_told() -> None:
    """
    Name, description and schema come from the signature, or from what is said; `tool_spec` of a tool is what it says itself.
    """
    assert (add.spec.name, add.spec.description, add.spec.parameters["required"]) == ("add", "Add two numbers.", ["a"])
    assert (wait.spec.name, wait.spec.description, wait.spec.strict) == ("slow", "Takes its time.", True)
    assert (wait.timeout, wait.return_direct, add.return_direct) == (3, True, False)
    assert tool_spec(add) is not None
    assert tool_spec(add) == add.spec


async def test_methods() -> None:
    """
    A method is a tool of its instance; taken from the class it still wants one.
    """
    order = Shop("Rome").order
    assert list(order.spec.parameters["properties"]) == ["item"]
    assert order("tea") == "tea at Rome"
    outcome = await run_call(order, ToolCall("c", "order", '{"item":"tea"}', {"item": "tea"}, True))
    assert outcome.result == "tea at Rome"
    assert Shop("x").opens("today") == "today"
    with pytest.raises(ConfigurationError, match="order is a method"):
        ToolSet.of([Shop.order])


async def test_objects_that_can_be_called() -> None:
    """
    An object with `__call__` is a tool under the name given.
    """

    class Greeter:
        def __call__(self, who: str) -> str:
            """
            Greet.
            """
            return f"hello {who}"

    made = tool(Greeter(), name="greet")
    assert made.name == "greet"
    outcome = await run_call(made, ToolCall("c", "greet", "", {"who": "you"}, True))
    assert outcome.result == "hello you"


def test_free_form() -> None:
    """
    A free-form tool has no schema of its own and takes one text.
    """

    @tool(free_form=True)
    def patch(text: str) -> str:
        """
        Apply a patch.
        """
        return text

    assert patch.spec == ToolSpec("patch", "Apply a patch.", kind="custom")
    assert patch.free_form


def untyped(a) -> str:  # type: ignore[no-untyped-def]
    return str(a)


def starred(*args: int) -> str:
    return str(args)


def keywords(**more: int) -> str:
    return str(more)


def positional(a: int, /) -> str:
    return str(a)


def unsayable(a: complex) -> str:
    return str(a)


def unmakeable(a: list[Callable[[], int]]) -> str:
    return str(a)


def generates(a: int) -> Iterator[int]:
    yield a


async def generates_later(a: int) -> AsyncIterator[int]:
    yield a


@pytest.mark.parametrize(
    ("function", "word"),
    [
        (untyped, "parameter a has no type annotation"),
        (starred, "parameter args cannot be given by name"),
        (keywords, "parameter more cannot be given by name"),
        (positional, "parameter a cannot be given by name"),
        (unsayable, "parameter a"),
        (unmakeable, "parameter a"),
        (generates, "yields"),
        (generates_later, "yields"),
        (add, "add is a tool already"),
        (3, "not of int"),
    ],
)
def test_refused_at_decoration(function: Any, word: str) -> None:
    """
    A signature no model could fill is refused at once, naming the parameter.
    """
    with pytest.raises(ConfigurationError, match=word):
        tool(function)


def nothing() -> None: ...


@pytest.mark.parametrize("takes", [nothing, add.function])
def test_free_form_takes_one_text(takes: Any) -> None:
    """
    No other signature can be given a text.
    """
    with pytest.raises(ConfigurationError, match="free-form"):
        tool(takes, name="x", free_form=True)


def test_timeout_is_above_zero() -> None:
    """
    A tool that may take no time can never run.
    """
    with pytest.raises(ConfigurationError, match="timeout"):
        tool(add.function, timeout=0)


def test_schema_that_is_none() -> None:
    """
    A schema from elsewhere that is no JSON Schema is told when it is needed.
    """
    made: Tool[..., Any] = Tool(nothing, ToolSpec("x", parameters={"type": "nonsense"}))
    with pytest.raises(ConfigurationError, match="tool x is no JSON Schema"):
        _ = made.validator


def test_a_model_is_offered_it() -> None:
    """
    A decorated function goes where a function goes.
    """
    request = resolve("m", base_url="http://localhost/v1").request("hi", [add, ToolSpec("other")], {}, {})
    assert [item["function"]["name"] for item in request.body["tools"]] == ["add", "other"]
