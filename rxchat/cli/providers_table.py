"""
`rxchat providers`: the presets, for people, for grep, and for programs.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping
from textwrap import TextWrapper
from typing import Any

import click

from rxchat.presets import PRESETS, Preset, preset_names

__all__ = ["command"]

_WRAP = TextWrapper(78, initial_indent="  ", subsequent_indent="    ", break_long_words=False, break_on_hyphens=False)


def record(preset: Preset) -> dict[str, Any]:
    """
    The JSON object of one provider. Options can be given by --option, quirks cannot: they are how its requests differ.
    """
    return {
        "name": preset.name,
        "dialect": preset.dialect,
        "address": preset.base_url,
        "key": preset.key_env.split(),
        "key_set": bool(preset.key_in(os.environ)),
        "options": dict(preset.options),
        "quirks": dict(preset.quirks),
        "doc": preset.doc,
    }


def cells(preset: Preset) -> tuple[str, str, str, str, str, str]:
    """
    A provider: name, dialect, address, the variables of its key and whether one is set, options, quirks.
    """
    key = preset.key_env and f"{', '.join(preset.key_env.split())}{' (set)' if preset.key_in(os.environ) else ''}"
    return (preset.name, preset.dialect, preset.base_url, key, _pairs(preset.options), _pairs(preset.quirks))


def _pairs(values: Mapping[str, Any]) -> str:
    return ", ".join(f"{name}={value}" for name, value in values.items())


def block(preset: Preset) -> str:
    """
    A provider within 80 columns: a line of short things, then lines for each long one.
    """
    name, dialect, address, key, options, quirks = cells(preset)
    below = [address, options and f"options: {options}", quirks and f"quirks: {quirks}"]
    return "\n".join([f"{name:<21}{dialect:<20}{key}".rstrip(), *(_WRAP.fill(line) for line in below if line)])


@click.command("providers")
@click.option("--json", "as_json", is_flag=True, help="One JSON object a provider and line.")
def command(as_json: bool) -> int:
    """
    List the provider presets: dialect, address, the environment variable of the key, options (which --option can change) and quirks of their requests.

    Where the output is no terminal: a line each, tabs between name, dialect, address, key, options and quirks.
    """
    for preset in (PRESETS[name] for name in preset_names()):
        if as_json:
            print(json.dumps(record(preset)))
        else:
            print(block(preset) if sys.stdout.isatty() else "\t".join(cells(preset)))
    return 0
