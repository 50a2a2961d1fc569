"""
`rxchat frames`: what a framer makes of a body.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Mapping
from typing import Any

import attrs
import click

from rxchat.cli.bodies import bodies, cuts
from rxchat.errors import RxchatError
from rxchat.framing import framer_for
from rxchat.framing.frames import AwsMessage, JsonBody, JsonRecord, SseEvent, Undispatched
from rxchat.limits import Limits
from rxchat.stage import Stage, run

__all__ = ["command"]

FRAMINGS = ("sse", "ndjson", "json-array", "aws-eventstream")


def sse_record(frame: SseEvent) -> dict[str, Any]:
    """
    An event of an event stream.
    """
    return {"event": frame.event, "data": frame.data, "id": frame.id, "retry": frame.retry}


def aws_record(frame: AwsMessage) -> dict[str, Any]:
    """
    A message of an AWS event stream; bytes in its headers are base64 too.
    """
    headers = {name: base64.b64encode(value).decode() if isinstance(value, bytes) else value for name, value in frame.headers.items()}
    return {"headers": headers, "payload_b64": base64.b64encode(frame.payload).decode()}


def value_record(frame: JsonRecord | JsonBody) -> dict[str, Any]:
    """
    A value of NDJSON or of a JSON array.
    """
    return {"value": frame.value}


# Stray text and what was held at the end are no frames.
RECORDS: Mapping[type, Callable[[Any], dict[str, Any]]] = {
    SseEvent: sse_record,
    AwsMessage: aws_record,
    JsonRecord: value_record,
    JsonBody: value_record,
}


@attrs.frozen
class Framed:
    """
    The frames of one body in order, the error that ended it, the framer with what it remembers, and what it held of an event that never ended.
    """

    frames: tuple[Any, ...]
    error: RxchatError | None
    framer: Stage[bytes, Any]
    held: Undispatched | None = None


def framed(framing: str, body: bytes, cut: int) -> Framed:
    """
    One body through one framer.
    """
    framer = framer_for(framing, Limits())
    frames: list[Any] = []
    held: Undispatched | None = None
    try:
        for frame in run(framer, cuts(body, cut)):
            if type(frame) in RECORDS and not getattr(frame, "last", False):
                frames.append(frame)
            elif isinstance(frame, Undispatched):
                held = frame
    except RxchatError as error:
        return Framed(tuple(frames), error, framer)
    return Framed(tuple(frames), None, framer, held)


def record(name: str, result: Framed) -> dict[str, Any]:
    """
    The JSON object of one file.
    """
    error = result.error
    return {
        "file": name,
        "frames": [RECORDS[type(frame)](frame) for frame in result.frames],
        "error": error and {"verdict": error.verdict, "offset": error.offset, "message": error.message},
        "last_event_id": getattr(result.framer, "last_event_id", None),
        "retry": getattr(result.framer, "retry", None),
    }


def show(name: str, result: Framed) -> None:
    """
    The frames for people, with their byte ranges, and the error with its position.
    """
    from rxchat.cli.screen import console, printable, shortened, table

    rows = [(f"{frame.start}–{frame.end}", cells(frame, shortened)) for frame in result.frames]
    out = console()
    out.print(table(name, ("bytes", "frame"), rows))
    line = f"{result.error.verdict}: {result.error}" if result.error else f"{len(rows)} frames, no error"
    out.print(printable(line), style="red" if result.error else "green", soft_wrap=True)
    if result.held is not None:
        out.print(f"held: {result.held.end - result.held.start} bytes at byte {result.held.start}, no blank line", style="yellow", soft_wrap=True)
    out.print()


def cells(frame: Any, shortened: Callable[[Any], str]) -> str:
    """
    A frame in one cell.
    """
    return " ".join(f"{key}={shortened(value)}" for key, value in RECORDS[type(frame)](frame).items() if value not in (None, ""))


@click.command("frames")
@click.argument("files", nargs=-1, required=True, metavar="FILE...")
@click.option("--framing", type=click.Choice(FRAMINGS), required=True, help="The transport framing of the bodies.")
@click.option("--cut", type=click.IntRange(min=0), default=0, show_default=True, metavar="N", help="Bytes a read; 0 = the whole body in one.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object a file and line.")
def command(files: tuple[str, ...], framing: str, cut: int, as_json: bool) -> int:
    """
    Show what a framer makes of recorded bodies (FILE..., or - for standard input).

    Exit code 0 only if every file could be read and framed.
    """
    whole = True
    for name, body in bodies(files):
        result = framed(framing, body, cut) if body is not None else None
        whole = whole and result is not None and result.error is None
        if result is not None and as_json:
            print(json.dumps(record(name, result), ensure_ascii=False))
        elif result is not None:
            show(name, result)
    return 0 if whole else 1
