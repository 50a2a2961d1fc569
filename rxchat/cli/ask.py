"""
`rxchat ask`: a prompt to a model, its answer as it comes.
"""

from __future__ import annotations

import asyncio
import sys
from typing import Any

import click

from rxchat.cli.connection import Connection, connection_options
from rxchat.cli.live import JsonLines, LiveView, PlainText, Stopwatch, View
from rxchat.cli.outcome import exit_code
from rxchat.cli.sentences import finish_sentence, sentence
from rxchat.client import Call
from rxchat.errors import RxchatError, Verdict
from rxchat.events import ChatEvent

__all__ = ["command"]

CANCELLED, INTERRUPTED = "cancelled", 130


@click.command("ask")
@click.argument("words", nargs=-1, metavar="[PROMPT]...")
@connection_options
@click.option("--json", "as_json", is_flag=True, help="Print the events as JSON lines.")
def command(words: tuple[str, ...], as_json: bool, **options: Any) -> int:
    """
    Ask a model and watch the answer come. The prompt is PROMPT, or standard input.

    Without --model, --base-url and --model-file the small embedded model answers, without key and without account.

    \b
    Exit codes: 0 whole answer, 2 wrong call or missing key, 3 the answer ended incomplete (length ...),
    4 it broke off, 5 the provider refused, 6 network, 7 not the protocol, 8 the output cannot be written,
    130 Ctrl-C.
    """
    connection = Connection(**options)
    prompt = " ".join(words) if words and words != ("-",) else _standard_input()
    if not prompt.strip():
        raise click.UsageError("the prompt is empty")
    model = connection.model()
    view: View = JsonLines() if as_json else LiveView() if sys.stdout.isatty() else PlainText()
    return answer(model.open(prompt, **connection.request), view)


def _standard_input() -> str:
    try:
        prompt = "" if sys.stdin.isatty() else _standard_text().strip()
    except UnicodeDecodeError:
        raise click.UsageError("standard input is not UTF-8") from None
    if not prompt:
        raise click.UsageError('there is no prompt: rxchat ask "...", or give it on standard input')
    return prompt


def _standard_text() -> str:
    """
    All of standard input, as UTF-8 whatever the locale says.
    """
    reconfigure = getattr(sys.stdin, "reconfigure", None)
    if reconfigure is not None:
        reconfigure(encoding="utf-8", errors="strict")
    return sys.stdin.read()


def answer(call: Call, view: View) -> int:
    """
    Show one answer, say in one sentence what is wrong with it if anything is, and give the exit code.
    """
    stopwatch = Stopwatch()
    problem: str | None = None
    try:
        asyncio.run(watch(call, view, stopwatch))
    except RxchatError as error:
        if error.verdict is None:
            raise
        problem = sentence(error)
    except KeyboardInterrupt:
        problem = CANCELLED
    view.close(call.response, stopwatch)
    if call.verdict is Verdict.INCOMPLETE_FINISH:
        problem = finish_sentence(call.response)
    if call.verdict is Verdict.ABORTED:
        problem = "the provider cancelled the answer"
    if problem:
        print(f"rxchat: {problem}", file=sys.stderr)
    return INTERRUPTED if problem == CANCELLED else exit_code(call.verdict)


async def watch(call: Call, view: View, stopwatch: Stopwatch) -> None:
    """
    Show the events to the end; cancelling this ends the request.
    """
    ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def show(event: ChatEvent) -> None:
        stopwatch.note(event)
        view.show(event)

    def end(error: Exception | None = None) -> None:
        if not ended.done():
            ended.set_exception(error) if error else ended.set_result(None)

    call.events.subscribe(show, end, end)
    try:
        await ended
    finally:
        call.dispose()
