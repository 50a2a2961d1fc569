"""
What an import costs: CPU and memory, in fresh interpreters that take turns.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any

from benchmarks.measuring import absent

__all__ = ["STATEMENTS", "measured", "printed"]

OURS = "rxchat in use"
BASE = "what it stands on"

# What is imported -> the modules. The names of rxchat are loaded when they are first asked for, so a name that needs everything is asked for as well.
STATEMENTS: Mapping[str, tuple[str, ...]] = {
    BASE: ("reactivex", "aiohttp", "attrs", "orjson"),
    "rxchat": ("rxchat",),
    OURS: ("rxchat",),
    "openai": ("openai",),
    "anthropic": ("anthropic",),
    "langchain-openai": ("langchain_openai",),
    "pydantic-ai": ("pydantic_ai",),
    "litellm": ("litellm",),
}
# A peer is looked at fewer times: seconds each.
OF_PEERS = 2

_USED = "rxchat; rxchat.ChatModel; rxchat.text_only; rxchat.chat_events('openai-chat')"
_CODE = """
import os, time
os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"
begin = time.process_time()
import {}
spent = time.process_time() - begin
import json
from benchmarks.measuring import resident
print(json.dumps([spent, resident()]))
"""


def _fresh(name: str, modules: tuple[str, ...], kept: str) -> tuple[float, float]:
    code = _CODE.format(_USED if name == OURS else ", ".join(modules))
    # Compiled once, as what is installed is: some environments forbid to keep it, and then whoever is not installed with it pays for that alone.
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"} | {"PYTHONPYCACHEPREFIX": kept}
    said = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True, env=environment).stdout
    spent, held = json.loads(said.splitlines()[-1])
    return spent, held


def measured(scale: float, repetitions: int) -> dict[str, Any]:
    """
    CPU seconds, MiB resident behind it, and CPU as a multiple of what this package stands on: medians.
    """
    there = {name: modules for name, modules in STATEMENTS.items() if not absent(modules)}
    found: dict[str, list[tuple[float, float]]] = {name: [] for name in there}
    with TemporaryDirectory() as kept:
        for name, modules in there.items():
            _fresh(name, modules, kept)
        for number in range(max(repetitions, 3)):
            for name, modules in there.items():
                if number < OF_PEERS or name in (BASE, OURS, "rxchat"):
                    found[name].append(_fresh(name, modules, kept))
    base = [spent for spent, _ in found.get(BASE, ())]
    return {
        name: {
            "cpu_s": median(spent for spent, _ in runs),
            "rss_mib": median(held for _, held in runs),
            "ratio": median(spent / least for (spent, _), least in zip(runs, base, strict=False)) if base else None,
        }
        for name, runs in found.items()
    }


def printed(table: Mapping[str, Any]) -> str:
    """
    The table as text.
    """
    rows = [
        f"{name:20}{row['cpu_s']:>8.2f} s{row['rss_mib']:>8.0f} MiB" + (f"  x{row['ratio']:.2f}" if row["ratio"] else "")
        for name, row in table.items()
    ]
    return "\n".join(["CPU of the import, memory behind it, CPU as a multiple of what rxchat stands on:", *rows])
