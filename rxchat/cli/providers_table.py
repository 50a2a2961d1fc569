"""
`rxchat providers`: the table of presets.
"""

from __future__ import annotations

import os

import click

from rxchat.cli.screen import console, table
from rxchat.presets import PRESETS, Preset, preset_names

__all__ = ["command"]


def row(preset: Preset) -> tuple[str, str, str, str, str]:
    """
    A provider: name, dialect, address, the variable of its key and whether it is set, what is odd about it.
    """
    key = preset.key_env and f"{', '.join(preset.key_env.split())}{' (set)' if preset.key_in(os.environ) else ''}"
    odd = ", ".join(f"{name}={value}" for name, value in (*preset.options.items(), *preset.quirks.items()))
    return (preset.name, preset.dialect, preset.base_url, key, odd)


@click.command("providers")
def command() -> int:
    """
    List the provider presets: dialect, address, the environment variable of the key, options.
    """
    rows = [row(PRESETS[name]) for name in preset_names()]
    console().print(table(f"{len(rows)} providers", ("name", "dialect", "address", "key", "options"), rows))
    return 0
