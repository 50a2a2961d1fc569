"""
What people see: tables, the details of an event, and text that cannot steer their terminal.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import attrs
from rich.console import Console
from rich.table import Table
from rich.text import Text

from rxchat.events import ChatEvent
from rxchat.response import ChatResponse, Usage

__all__ = ["console", "detail", "printable", "table"]

# Control characters made visible; a body may hold escape sequences. Line feed and tab stay.
_VISIBLE = {code: chr(0x2400 + code) for code in range(32) if code not in (9, 10)} | {127: "\u2421"} | dict.fromkeys(range(0x80, 0xA0), "\ufffd")
WIDTH = 72


def console(*, stderr: bool = False) -> Console:
    """
    A console on standard output or error that takes no text for markup.
    """
    return Console(stderr=stderr, highlight=False, markup=False, emoji=False)


def printable(text: str) -> str:
    """
    The text, its control characters replaced by visible ones.
    """
    return text.translate(_VISIBLE)


def table(title: str, columns: Sequence[str], rows: Iterable[Sequence[str]]) -> Table:
    """
    A plain table; nothing in its cells is markup.
    """
    made = Table(title=Text(printable(title)), title_justify="left", show_edge=False, pad_edge=False)
    for column in columns:
        made.add_column(column, overflow="fold")
    for row in rows:
        made.add_row(*(Text(printable(cell)) for cell in row))
    return made


def detail(event: ChatEvent) -> str:
    """
    What an event says beyond its type: every field that is not its default, shortened.
    """
    said = [(field.name, getattr(event, field.name)) for field in attrs.fields(type(event)) if getattr(event, field.name) != field.default]
    return " ".join(f"{name}={shortened(value)}" for name, value in said)


def shortened(value: Any) -> str:
    """
    A value in at most about 72 characters: of a response its verdict and finish, of usage its counts.
    """
    if isinstance(value, ChatResponse):
        text = f"<{value.verdict or 'step'} {value.finish_reason}, {len(value.text)} characters, {len(value.tool_calls)} calls>"
    elif isinstance(value, Usage):
        text = f"<{value.input_tokens} in, {value.output_tokens} out>"
    else:
        text = repr(value)
    return text if len(text) <= WIDTH else f"{text[: WIDTH - 1]}…"
