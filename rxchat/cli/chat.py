"""
`rxchat chat`: a conversation with a model that is kept and can be gone on with.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from rxchat.cli.chat_lines import Order, Piped, Typed, Unfinished, on_terminal, read_item
from rxchat.cli.chat_loop import LoopBehind
from rxchat.cli.chat_overview import Summary, counted, open_store, print_overview, store_file, summaries, when
from rxchat.cli.chat_session import Leave, Session, note, problem
from rxchat.cli.chat_tools import Approval, load_tools
from rxchat.cli.connection import Connection, connection_options
from rxchat.cli.screen import printable
from rxchat.conversation import Conversation
from rxchat.stores import Turn
from rxchat.tools import ToolSet

__all__ = ["command"]

INTERRUPTED = 130
NOT_TEXT = "the input is not UTF-8"


@click.command("chat")
@click.argument("name", default="default", metavar="[NAME]")
@connection_options
@click.option("--system", metavar="TEXT", help="What the model is told before everything else; it is not stored.")
@click.option(
    "--store",
    "file",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Where conversations are kept.  [default: rxchat/conversations.sqlite in the user's data folder]",
)
@click.option("--tool", "tools", multiple=True, metavar="MODULE:FUNCTION", help="A function the model may call; may be repeated.")
@click.option("--approve", "approved", multiple=True, metavar="TOOL", help="Run this tool without asking; may be repeated.")
@click.option("--yes", "everything", is_flag=True, help="Run every tool without asking.")
@click.option("--max-steps", type=click.IntRange(min=1), help="How often the model may be asked within a turn, results of tools included.")
@click.option("--show-thinking", "thinking", is_flag=True, help="Show also what the model thinks, dimmed.")
@click.option("--list", "listing", is_flag=True, help="List the conversations and leave.")
def command(
    name: str,
    system: str | None,
    file: Path | None,
    tools: tuple[str, ...],
    approved: tuple[str, ...],
    everything: bool,
    max_steps: int | None,
    thinking: bool,
    listing: bool,
    **options: Any,
) -> int:
    """
    Talk with a model in the conversation NAME ("default" if none is given), which is kept: the same name goes on with it.

    Only whole turns are kept. Ctrl-C while an answer comes cancels the turn; /help lists the commands. Without --model, --base-url and --model-file
    the small embedded model answers. Before a tool runs you are asked; where standard input is no terminal, only what --approve or --yes allows is run.

    Standard input that is no terminal is read line by line, each a message or a command. The first one that fails ends the chat.

    \b
    Exit codes: 0 all well, or left by /quit or Ctrl-D; 2 wrong call, wrong command or missing key; of the first
    line of a pipe that fails: 3 the answer ended incomplete (length ...), 4 it broke off, 5 the provider refused,
    6 network, 7 not the protocol; 8 the output cannot be written, 9 the store failed, 130 Ctrl-C.
    """
    connection = Connection(**options)
    if listing:
        return _list(file)
    found = load_tools(tools)
    if unknown := set(approved) - set(found.tools):
        raise click.UsageError(f"--approve {', '.join(sorted(unknown))}: there is no such --tool")
    conversation = Conversation(open_store(file), name, system=system)
    with LoopBehind() as loop:
        try:
            turns = loop.run(conversation.turns())
            typed = Typed() if on_terminal() else None
            approval = Approval(loop, typed.answer if typed else None, everything=everything, allowed=approved) if found else None
            request = {**connection.request, **_offered(found, approval, max_steps)}
            session = Session(conversation, connection.model(), loop, request, approval, thinking, advising=typed is not None)
            return _talk(session, typed, turns) if typed else _read(session)
        finally:
            loop.run(conversation.store.aclose())


def _offered(tools: ToolSet, approval: Approval | None, max_steps: int | None) -> dict[str, Any]:
    if not tools:
        return {}
    return {"tools": tools, "authorize": approval} | ({"max_steps": max_steps} if max_steps else {})


def _list(file: Path | None) -> int:
    if not store_file(file).exists():
        note(f"there are no conversations in {store_file(file)}")
        return 0

    async def found() -> list[Summary]:
        async with open_store(file) as store:
            return await summaries(store)

    print_overview(asyncio.run(found()))
    return 0


# --- a pipe ---------------------------------------------------------------------------------------------------------------------------------------


def _read(session: Session) -> int:
    """
    Line by line to the end, or to the first that fails: what follows was written for what went before.
    """
    reader = Piped()
    try:
        while True:
            code = session.take(read_item(reader, ""))
            if code:
                return code
    except (EOFError, Leave):
        return 0
    except Unfinished:
        raise click.UsageError('a text that begins with """ has no end') from None
    except UnicodeDecodeError:
        raise click.UsageError(NOT_TEXT) from None


# --- a terminal -----------------------------------------------------------------------------------------------------------------------------------


def _talk(session: Session, typed: Typed, turns: Sequence[Turn]) -> int:
    """
    Until somebody leaves.
    """
    _greet(session.conversation.name, turns)
    for turn in turns:
        typed.remember(turn.rounds[0].messages[-1].text)
    try:
        while True:
            item = _typed_item(typed, f"{printable(session.conversation.name)}> ")
            if item is not None:
                _taken(session, item)
    except Leave:
        return 0
    except (EOFError, Unfinished):
        print(file=sys.stderr)
        return 0
    except _Interrupted:
        return INTERRUPTED


class _Interrupted(Exception):
    """
    Ctrl-C a second time, with nothing in between.
    """


def _typed_item(typed: Typed, prompt: str) -> str | Order | None:
    """
    The next item; None for a line that was dropped. Ctrl-C drops what is typed; where that is nothing, a second one leaves.
    """
    warned = False
    while True:
        try:
            return read_item(typed, prompt)
        except UnicodeDecodeError:
            problem(NOT_TEXT)
            return None
        except KeyboardInterrupt:
            print(file=sys.stderr)
            if not typed.idle:
                return None
            if warned:
                raise _Interrupted from None
            warned = True
            note("Ctrl-C again leaves, as do Ctrl-D and /quit")


def _taken(session: Session, item: str | Order) -> None:
    try:
        session.take(item)
    except KeyboardInterrupt:
        problem("cancelled")


def _greet(name: str, turns: Sequence[Turn]) -> None:
    stored = f"{counted(len(turns), 'turn')}, the last one of {when(turns[-1].time)}" if turns else "a new conversation"
    note(f"{name}: {stored}. /help lists the commands.")
