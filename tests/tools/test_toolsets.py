"""
The tools of a step: which can be run, which are only offered.
"""

from __future__ import annotations

from collections.abc import Sequence
from types import MethodType
from typing import Any

import attrs
import pytest

from rxchat.errors import ConfigurationError
from rxchat.prompt import Message, ToolSpec
from rxchat.tools import StepContext, ToolLike, ToolSet, tool, tools_for
from tests.tools.calling import a_call


@tool
def add(a: int) -> int:
    """
    Add one.
    """
    return a + 1


def plain(text: str) -> str:
    """
    A typed function is a tool as it is.
    """
    return text


OFFERED = ToolSpec("offered")


def test_runnable_and_only_offered() -> None:
    """
    T6: functions can be run, bare schemas are only offered; all are told to the model in their order.
    """
    tools = ToolSet.of([add, OFFERED, plain])
    assert [spec.name for spec in tools.specs] == ["add", "offered", "plain"]
    assert list(tools.runnable) == ["add", "plain"]
    assert (len(tools), [item.name for item in tools]) == (3, ["add", "offered", "plain"])
    calls = [a_call("add", "1"), a_call("offered", "2"), a_call("unknown", "3"), attrs.evolve(a_call("offered", "4"), server_executed=True)]
    assert [call.id for call in tools.left_open(calls)] == ["2"]
    assert [tools.only_offered(call) for call in calls] == [False, True, False, True]


@pytest.mark.parametrize(
    ("tools", "words"),
    [([add, ToolSpec("add")], "two tools are called add"), ([3], "not int"), ([{"name": "x"}], "not dict"), ([lambda x: x], "lambda")],
)
def test_what_is_no_set(tools: Any, words: str) -> None:
    """
    Two of one name, or something that is no tool.
    """
    with pytest.raises(ConfigurationError, match=words):
        ToolSet.of(tools)


def test_classmethods() -> None:
    """
    However the class hands it out, it is bound to the class.
    """

    class Shop:
        @tool
        def order(cls, item: str) -> str:
            return f"{cls.__name__}: {item}"  # type: ignore[attr-defined]

    as_later_pythons = MethodType(vars(Shop)["order"], Shop)
    made = ToolSet.of([as_later_pythons]).runnable["order"]
    assert made("tea") == "Shop: tea"


async def test_tools_per_step() -> None:
    """
    A sequence is the same for each step; a function, sync or async, chooses for the step at hand.
    """

    def choose(context: StepContext) -> Sequence[ToolLike]:
        return [add] if context.step == 0 else []

    async def later(context: StepContext) -> Sequence[ToolLike]:
        return [OFFERED] if context.messages else []

    first, second = StepContext(0, (Message.user("hi"),)), StepContext(1)
    assert (await tools_for([add, plain], second)).specs == (add.spec, ToolSet.of([plain]).specs[0])
    assert [(await tools_for(choose, step)).specs for step in (first, second)] == [(add.spec,), ()]
    assert [(await tools_for(later, step)).specs for step in (first, second)] == [(OFFERED,), ()]
    made = ToolSet.of([add])
    assert await tools_for(lambda context: made, first) is made
    assert await tools_for(made, first) is made


@pytest.mark.parametrize("source", [add, OFFERED, "add", {"name": "x"}, lambda context: None, lambda context: "add", 3])
async def test_sources_that_are_none(source: Any) -> None:
    """
    One tool alone, or something else, is no sequence of tools.
    """
    with pytest.raises(ConfigurationError, match="sequence of tools"):
        await tools_for(source, StepContext())
