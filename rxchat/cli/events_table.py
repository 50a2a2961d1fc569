"""
`rxchat events`: the table of event types.
"""

from __future__ import annotations

import json
from typing import Any

import attrs
import click

from rxchat.events import EVENT_TYPES

__all__ = ["command"]


def rows() -> list[tuple[str, str, str, str, str, str]]:
    """
    Each type: its tag, class, group, phase, whether it ends the stream, and its fields.
    """
    return [
        (
            tag,
            kind.__name__,
            kind.group.value,
            kind.phase.value,
            "terminal" if kind.terminal else "",
            ", ".join(field.name for field in attrs.fields(kind)),
        )
        for tag, kind in EVENT_TYPES.items()
    ]


def record(tag: str) -> dict[str, Any]:
    """
    The JSON object of one type.
    """
    kind = EVENT_TYPES[tag]
    return {
        "type": tag,
        "class": kind.__name__,
        "group": kind.group.value,
        "phase": kind.phase.value,
        "terminal": kind.terminal,
        "fields": [field.name for field in attrs.fields(kind)],
    }


@click.command("events")
@click.option("--json", "as_json", is_flag=True, help="One JSON object a type and line.")
def command(as_json: bool) -> int:
    """
    List the event types: group, phase, whether they end the stream, and what they carry.
    """
    if as_json:
        for tag in EVENT_TYPES:
            print(json.dumps(record(tag)))
        return 0
    from rxchat.cli.screen import console, table

    console().print(table(f"{len(EVENT_TYPES)} event types", ("type", "class", "group", "phase", "ends", "payload"), rows()))
    return 0
