"""
The tools of a chat: found by name, and run only if somebody allows it.
"""

from __future__ import annotations

import asyncio
import importlib
import os
import sys
from collections.abc import Callable, Iterable, Sequence
from functools import reduce
from typing import Any

import click

from rxchat.cli.chat_loop import LoopBehind
from rxchat.cli.chat_view import HeldView, call_in_full
from rxchat.errors import ConfigurationError
from rxchat.tools import Deny, Tool, ToolRequest, ToolSet

__all__ = ["Approval", "load_tools"]

YES, ALWAYS = ("y", "yes"), ("a", "always")

# Shows a question to whoever sits there and gives the answer; EOFError for none.
AskPerson = Callable[[str], str]


def load_tools(names: Sequence[str]) -> ToolSet:
    """
    The tools of these names (`module:function`), modules of the folder at hand among them; UsageError says which is none, and why.
    """
    folder = os.getcwd()
    if names and folder not in sys.path and "" not in sys.path:
        # Behind all others: what lies there by chance takes the place of nothing.
        sys.path.append(folder)
    try:
        return ToolSet.of([_found(name) for name in names])
    except ConfigurationError as error:
        raise click.UsageError(f"--tool: {error}") from None


def _found(name: str) -> Any:
    module, colon, path = name.partition(":")
    if not module or not colon or not path:
        raise click.UsageError(f"--tool {name!r} is not MODULE:FUNCTION")
    try:
        found = reduce(getattr, path.split("."), importlib.import_module(module))
    except AttributeError:
        raise click.UsageError(f"--tool {name}: there is no {path} in {module}") from None
    except Exception as error:  # a module may do anything while it is imported
        raise click.UsageError(f"--tool {name}: {module} cannot be imported: {type(error).__name__}: {error}") from None
    if not isinstance(found, Tool) and not callable(found):
        raise click.UsageError(f"--tool {name}: this is no function")
    return found


class Approval:
    """
    The hook that is asked before a tool runs. Without `ask` nobody is there: what was not allowed beforehand is denied.

    Questions come one at a time; the view stands still meanwhile. `allowed` are names of tools that are not asked about, more of them with each "always".
    """

    def __init__(self, loop: LoopBehind, ask: AskPerson | None, *, everything: bool = False, allowed: Iterable[str] = ()) -> None:
        self.view: HeldView | None = None
        self._loop = loop
        self._ask = ask
        self._everything = everything
        self._allowed = set(allowed)
        self._one = asyncio.Lock()

    async def __call__(self, request: ToolRequest) -> bool | Deny:
        async with self._one:
            name = request.tool.name
            if self._everything or name in self._allowed:
                return True
            if self._ask is None:
                print(f"rxchat: {name} was not run: nobody is there to allow it; --yes or --approve {name} does", file=sys.stderr)
                return Deny("nobody is there to allow it")
            said = await self._asked(self._ask, request)
            if said in ALWAYS:
                self._allowed.add(name)
            return True if said in YES + ALWAYS else Deny("the user said no")

    async def _asked(self, ask: AskPerson, request: ToolRequest) -> str:
        if self.view is not None:
            self.view.hold()
        try:
            return await self._loop.in_front(lambda: _answer(ask, request))
        finally:
            if self.view is not None:
                self.view.release()


def _answer(ask: AskPerson, request: ToolRequest) -> str:
    """
    One of the words that mean something; whoever closes the input has not allowed it.
    """
    question = f"run {call_in_full(request.call)}? [y]es, [n]o, [a]lways: "
    while True:
        try:
            said = ask(question).strip().lower()
        except (EOFError, UnicodeDecodeError):
            return "n"
        if said in (*YES, *ALWAYS, "n", "no"):
            return said
