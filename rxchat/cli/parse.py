"""
`rxchat parse`: recorded bodies through the pipeline, for people and for measurements.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import attrs
import click

from rxchat.cli.bodies import bodies, cuts, key_values
from rxchat.cli.outcome import error_record, outcome_word, response_record
from rxchat.errors import AbortedError, RxchatError, Verdict
from rxchat.events import Abort, ChatEvent
from rxchat.pipeline import Head, response_stage
from rxchat.response import ChatResponse
from rxchat.stage import run

__all__ = ["command"]


@attrs.frozen
class Reading:
    """
    What one body came to: its events where they were asked for, its answer (partial where it failed), and the error that ended it.
    """

    events: tuple[ChatEvent, ...]
    response: ChatResponse
    error: RxchatError | None

    @property
    def verdict(self) -> Verdict | None:
        """
        How it ended.
        """
        return self.error.verdict if self.error else self.response.verdict


@attrs.frozen
class Recipe:
    """
    How the bodies of one call are read.
    """

    dialect: str
    options: Mapping[str, Any]
    profile: str
    head: Head
    cut: int
    events: bool

    def read(self, body: bytes) -> Reading:
        """
        One body from its first byte to its verdict.
        """
        stage = response_stage(self.dialect, options=self.options, profile=self.profile, provenance=self.events, head=lambda: self.head)
        kept: list[ChatEvent] = []
        response = ChatResponse()
        error: RxchatError | None = None
        try:
            for event in run(stage, cuts(body, self.cut)):
                if self.events:
                    kept.append(event)
                if event.terminal:
                    response = event.response  # type: ignore[union-attr]
                    error = AbortedError(event.reason or "the provider cancelled") if isinstance(event, Abort) else None
        except RxchatError as failure:
            error = failure
        return Reading(tuple(kept), response, error)


def record(name: str, reading: Reading, *, events: bool) -> dict[str, Any]:
    """
    The JSON object of one file.
    """
    made: dict[str, Any] = {
        "file": name,
        "verdict": reading.verdict,
        "outcome": outcome_word(reading.verdict),
        "response": response_record(reading.response),
        "committable": reading.response.committable,
        "error": error_record(reading.error),
    }
    if events:
        from rxchat.serialize import to_dict

        made["events"] = [to_dict(event) for event in reading.events]
    return made


def show(name: str, reading: Reading) -> None:
    """
    A body for people: its events with their byte ranges, then how it ended, and why and where if it was refused.
    """
    from rxchat.cli.screen import console, detail, printable, table

    rows = [("" if event.span is None else "{}–{}".format(*event.span), event.type, detail(event)) for event in reading.events]
    out = console()
    out.print(table(name, ("bytes", "event", "what it says"), rows))
    out.print(printable(verdict_line(reading)), style="green" if reading.verdict is Verdict.COMPLETE else "red", soft_wrap=True)
    out.print()


def verdict_line(reading: Reading) -> str:
    """
    The verdict in one line, with reason and position.
    """
    response, error = reading.response, reading.error
    if error is None:
        word = f" ({response.finish_reason_raw})" if response.finish_reason_raw not in (None, response.finish_reason) else ""
        return f"{reading.verdict}: finish reason {response.finish_reason}{word}"
    facts = [f"{name} {value}" for name in ("status", "code", "type") if (value := getattr(error, name)) is not None]
    where = [] if error.offset is None else [f"at byte {error.offset}"]
    rest = ", ".join(facts + where)
    return f"{reading.verdict}: {error.message}{f' ({rest})' if rest else ''}"


@click.command("parse")
@click.argument("files", nargs=-1, required=True, metavar="FILE...")
@click.option("--dialect", help="The wire protocol of the bodies (openai-chat, ...).")
@click.option("--provider", help="A provider preset: its dialect and its options.")
@click.option("--profile", default="default", show_default=True, help="default or strict_text.")
@click.option("--option", "pairs", multiple=True, metavar="KEY=VALUE", help="An option of the dialect; may be repeated.")
@click.option("--content-type", help="The Content-Type the body came with.")
@click.option("--status", default=200, show_default=True, help="The HTTP status the body came with.")
@click.option("--cut", type=click.IntRange(min=0), default=0, show_default=True, metavar="N", help="Bytes a read; 0 = the whole body in one.")
@click.option("--events", is_flag=True, help="With --json: also the events.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object a file and line.")
def command(
    files: tuple[str, ...],
    dialect: str | None,
    provider: str | None,
    profile: str,
    pairs: tuple[str, ...],
    content_type: str | None,
    status: int,
    cut: int,
    events: bool,
    as_json: bool,
) -> int:
    """
    Run recorded bodies (FILE..., or - for standard input) through the pipeline.

    Exit code 0 only if every file could be read and is COMPLETE.
    """
    dialect, options = spoken(dialect, provider, key_values(pairs))
    head = Head(status=status, headers={"content-type": content_type} if content_type else {})
    recipe = Recipe(dialect, options, profile, head, cut, events or not as_json)
    complete = True
    for name, body in bodies(files):
        reading = recipe.read(body) if body is not None else None
        complete = complete and reading is not None and reading.verdict is Verdict.COMPLETE
        if reading is not None and as_json:
            print(json.dumps(record(name, reading, events=events), ensure_ascii=False))
        elif reading is not None:
            show(name, reading)
    return 0 if complete else 1


def spoken(dialect: str | None, provider: str | None, options: Mapping[str, str]) -> tuple[str, Mapping[str, Any]]:
    """
    The dialect to read and its options: the preset's, then those of the command line on top.
    """
    if provider is None:
        if dialect is None:
            raise click.UsageError("say --dialect or --provider")
        return dialect, options
    from rxchat.presets import get_preset

    preset = get_preset(provider)
    return dialect or preset.dialect, {**preset.options, **options}
