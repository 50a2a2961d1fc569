"""
`rxchat events`: the table of event types.
"""

from __future__ import annotations

import attrs
import click

from rxchat.cli.screen import console, table
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


@click.command("events")
def command() -> int:
    """
    List the event types: group, phase, whether they end the stream, and what they carry.
    """
    console().print(table(f"{len(EVENT_TYPES)} event types", ("type", "class", "group", "phase", "ends", "payload"), rows()))
    return 0
