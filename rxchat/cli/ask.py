"""
`rxchat ask`: a prompt to a model, its answer as it comes.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import attrs
import click

from rxchat.cli.bodies import key_values
from rxchat.cli.live import JsonLines, LiveView, PlainText, Stopwatch, View
from rxchat.cli.outcome import exit_code
from rxchat.cli.sentences import finish_sentence, sentence
from rxchat.client import Call, ChatModel, HttpSettings
from rxchat.errors import RxchatError, Verdict
from rxchat.events import ChatEvent

__all__ = ["command"]

CANCELLED, INTERRUPTED = "cancelled", 130


@click.command("ask")
@click.argument("words", nargs=-1, metavar="[PROMPT]...")
@click.option("--model", "name", metavar="PROVIDER/NAME", help="Whom to ask; the key is taken from the provider's usual environment variable.")
@click.option("--base-url", metavar="URL", help="Another server, e.g. http://127.0.0.1:8080/v1.")
@click.option("--model-file", metavar="FILE", type=click.Path(path_type=Path), help="A GGUF file to run inside this process.")
@click.option("--profile", default="default", show_default=True, help="default or strict_text.")
@click.option("--option", "pairs", multiple=True, metavar="KEY=VALUE", help="An option of the dialect; may be repeated.")
@click.option("--max-tokens", type=click.IntRange(min=1), help="Where to cut the answer off.")
@click.option("--temperature", type=float, help="How freely to choose words.")
@click.option("--timeout", type=click.FloatRange(min=0, min_open=True), metavar="SECONDS", help="How long to wait for a byte.  [default: 60]")
@click.option("--json", "as_json", is_flag=True, help="Print the events as JSON lines.")
def command(
    words: tuple[str, ...],
    name: str | None,
    base_url: str | None,
    model_file: Path | None,
    profile: str,
    pairs: tuple[str, ...],
    max_tokens: int | None,
    temperature: float | None,
    timeout: float | None,
    as_json: bool,
) -> int:
    """
    Ask a model and watch the answer come. The prompt is PROMPT, or standard input.

    Without --model, --base-url and --model-file the small embedded model answers, without key and without account.

    \b
    Exit codes: 0 whole answer, 2 wrong call or missing key, 3 the answer ended incomplete (length ...),
    4 it broke off, 5 the provider refused, 6 network, 7 not the protocol, 8 the output cannot be written,
    130 Ctrl-C.
    """
    if model_file is not None and (name is not None or base_url is not None):
        raise click.UsageError("--model-file runs here: it goes with neither --model nor --base-url")
    prompt = " ".join(words) if words and words != ("-",) else _standard_input()
    if not prompt.strip():
        raise click.UsageError("the prompt is empty")
    settings = {"options": key_values(pairs), "profile": profile, "settings": _budgets(timeout)}
    model = _remote(name, base_url, settings) if name is not None or base_url is not None else _embedded(model_file, settings)
    said: dict[str, Any] = {key: value for key, value in (("max_tokens", max_tokens), ("temperature", temperature)) if value is not None}
    view: View = JsonLines() if as_json else LiveView() if sys.stdout.isatty() else PlainText()
    return answer(model.open(prompt, **said), view)


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


def _budgets(timeout: float | None) -> HttpSettings:
    usual = HttpSettings()
    if timeout is None:
        return usual
    return attrs.evolve(usual, connect_timeout=min(timeout, usual.connect_timeout or timeout), first_event_timeout=timeout, read_timeout=timeout)


def _remote(name: str | None, base_url: str | None, settings: Mapping[str, Any]) -> ChatModel:
    return ChatModel("default" if name is None else name, base_url=base_url, **settings)


def _embedded(file: Path | None, settings: Mapping[str, Any]) -> ChatModel:
    from rxchat import local
    from rxchat.cli.fetching import fetch_bar

    if file is None:
        print("no --model given: asking the small embedded model", file=sys.stderr)
        with fetch_bar() as progress:
            file = local.model_file(progress)
    return local.local_model(file, **settings)


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
