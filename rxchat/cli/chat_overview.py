"""
What there is: the conversations of a store, the turns of one, their tokens, and where all of it is kept.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path

import attrs

from rxchat.cli.chat_view import call_in_full
from rxchat.cli.screen import console, table
from rxchat.errors import StoreError
from rxchat.response import COUNTERS, Usage
from rxchat.stores import HistoryStore, SqliteStore, Turn

__all__ = ["Summary", "print_overview", "store_file", "summaries", "turn_lines", "usage_words"]

FILE = "conversations.sqlite"


def store_file(named: Path | None) -> Path:
    """
    Where conversations are kept: the file that was named, else one in `rxchat` in XDG_DATA_HOME or ~/.local/share.
    """
    if named is not None:
        return named
    data = Path(os.environ.get("XDG_DATA_HOME") or "-")
    return (data if data.is_absolute() else Path.home() / ".local" / "share") / "rxchat" / FILE


def open_store(named: Path | None) -> SqliteStore:
    """
    The store; its file is made if it is not there, for its owner only: what was said is nobody else's business. StoreError if that cannot be.
    """
    file = store_file(named)
    try:
        if named is None:
            file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        os.close(os.open(file, os.O_RDWR | os.O_CREAT, 0o600))
    except OSError as error:
        raise StoreError(f"{file}: cannot be opened: {error.strerror or error}") from error
    return SqliteStore(file)


@attrs.frozen
class Summary:
    """
    One conversation: how many turns, when the first and the last one were asked; or why it cannot be read.
    """

    name: str
    turns: int = 0
    first: float | None = None
    last: float | None = None
    problem: str = ""

    @property
    def cells(self) -> tuple[str, str, str, str]:
        """
        As a row.
        """
        return (self.name, self.problem or str(self.turns), when(self.first), when(self.last))


async def summaries(store: HistoryStore) -> list[Summary]:
    """
    All conversations of a store, sorted by name; one that cannot be read hides no other.
    """
    return [await _summary(store, name) for name in await store.names()]


async def _summary(store: HistoryStore, name: str) -> Summary:
    try:
        turns = (await store.load(name)).turns
    except StoreError as error:
        return Summary(name, problem=str(error))
    times = [turn.time for turn in turns if turn.time]
    return Summary(name, len(turns), min(times, default=None), max(times, default=None))


def print_overview(found: list[Summary]) -> None:
    """
    A table; where the output is no terminal, a line each with tabs between name, turns, first and last time.
    """
    if sys.stdout.isatty():
        console().print(table(counted(len(found), "conversation"), ("name", "turns", "first", "last"), (summary.cells for summary in found)))
        return
    for summary in found:
        print("\t".join(summary.cells))


def turn_lines(number: int, turn: Turn) -> Iterator[str]:
    """
    A turn for reading: its number and time, what was asked, and step by step what was answered and called.
    """
    yield f"--- {number} · {when(turn.time)}"
    for item in turn.rounds:
        yield from (f"> {line}" for message in item.messages if message.text for line in message.text.splitlines())
        for step in item.response.steps or (item.response,):
            yield from filter(None, (step.text, *(f"→ {call_in_full(call)}" for call in step.tool_calls)))


def usage_words(usage: Usage | None) -> str:
    """
    The counters that were reported.
    """
    counts = [f"{value} {name.removesuffix('_tokens').replace('_', ' ')}" for name in COUNTERS if (value := getattr(usage, name, None)) is not None]
    return f"{', '.join(counts)} tokens" if counts else "no provider said how many tokens"


def counted(number: int, what: str) -> str:
    """
    So many of them.
    """
    return f"{number} {what}{'' if number == 1 else 's'}"


def when(time: float | None) -> str:
    """
    Local date and time to the minute.
    """
    return datetime.fromtimestamp(time).strftime("%Y-%m-%d %H:%M") if time else ""
