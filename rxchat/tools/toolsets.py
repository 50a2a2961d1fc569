"""
The tools of one step: those that can be run, and those that are only offered (contract T6).
"""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from types import MethodType
from typing import Any, TypeAlias

import attrs

from rxchat.errors import ConfigurationError
from rxchat.prompt import Message, ToolSpec
from rxchat.response import ChatResponse, ToolCall
from rxchat.tools.declared import Tool, tool

__all__ = ["StepContext", "ToolLike", "ToolSet", "ToolSource", "as_tool_set", "tools_for"]

ToolLike: TypeAlias = Tool[..., Any] | ToolSpec | Callable[..., Any]


@attrs.frozen
class StepContext:
    """
    Where the conversation stands when a step's tools are chosen: its number from 0, what will be asked, and the answer of the step before.
    """

    step: int = 0
    messages: tuple[Message, ...] = ()
    previous: ChatResponse | None = None


@attrs.frozen
class ToolSet:
    """
    Tools by name, in the order they were given. Make one with `of`.
    """

    tools: Mapping[str, Tool[..., Any] | ToolSpec] = attrs.field(factory=dict)

    @classmethod
    def of(cls, tools: Iterable[ToolLike]) -> ToolSet:
        """
        Functions are made tools, a ToolSpec is only offered. ConfigurationError for two of one name, or for what is no tool.
        """
        named: dict[str, Tool[..., Any] | ToolSpec] = {}
        for item in tools:
            made = _as_tool(item)
            if made.name in named:
                raise ConfigurationError(f"two tools are called {made.name}")
            named[made.name] = made
        return cls(named)

    def __iter__(self) -> Iterator[Tool[..., Any] | ToolSpec]:
        return iter(self.tools.values())

    def __len__(self) -> int:
        return len(self.tools)

    @property
    def specs(self) -> tuple[ToolSpec, ...]:
        """
        What is offered to the model.
        """
        return tuple(item.spec if isinstance(item, Tool) else item for item in self)

    @property
    def runnable(self) -> Mapping[str, Tool[..., Any]]:
        """
        Those that can be run, by name.
        """
        return {item.name: item for item in self if isinstance(item, Tool)}

    def only_offered(self, call: ToolCall) -> bool:
        """
        Whether this call is for a tool that is given as a bare schema, so that the host must answer it.
        """
        return isinstance(self.tools.get(call.name), ToolSpec)

    def left_open(self, calls: Iterable[ToolCall]) -> tuple[ToolCall, ...]:
        """
        The calls that nobody here answers: those of bare schemas. What the provider ran itself is answered (contract P10).
        """
        return tuple(call for call in calls if not call.server_executed and self.only_offered(call))


_Tools: TypeAlias = ToolSet | Sequence[ToolLike]
ToolSource: TypeAlias = _Tools | Callable[[StepContext], _Tools | Awaitable[_Tools]]


def _as_tool(item: Any) -> Tool[..., Any] | ToolSpec:
    if isinstance(item, MethodType) and isinstance(item.__func__, Tool):  # a classmethod of later Pythons
        item = item.__func__.__get__(item.__self__)
    if isinstance(item, ToolSpec):
        return item
    if not callable(item):
        raise ConfigurationError(f"a tool is a ToolSpec or a typed function, not {type(item).__name__}")
    made: Tool[..., Any] = item if isinstance(item, Tool) else tool(item)
    if made.unbound:
        raise ConfigurationError(f"tool {made.name} is a method: take it from an instance")
    return made


async def tools_for(source: ToolSource, context: StepContext) -> ToolSet:
    """
    The tools of this step: the same ones each time, or those a function (sync or async) names for it.
    """
    if isinstance(source, Tool) or not callable(source):
        return as_tool_set(source)
    chosen: Any = source(context)
    return as_tool_set(await chosen if inspect.isawaitable(chosen) else chosen)


def as_tool_set(tools: Any) -> ToolSet:
    """
    These tools by name; ConfigurationError for what is no sequence of tools.
    """
    if isinstance(tools, ToolSet):
        return tools
    if isinstance(tools, (Tool, ToolSpec)):
        raise ConfigurationError("tools are a sequence of tools, or a function that returns one")
    if not isinstance(tools, Iterable) or isinstance(tools, (str, Mapping)):
        raise ConfigurationError(f"tools are a sequence of tools, not {type(tools).__name__}")
    return ToolSet.of(tools)
