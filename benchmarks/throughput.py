"""
The throughput table: what an event costs each subject, as a multiple of L1.

Every subject has a process of its own, so that nobody pays for another's imports and garbage; in it, L1 and the subject take turns on the same bytes, so that a
busy machine slows both.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
from collections.abc import AsyncIterator, Mapping, Sequence
from functools import partial
from statistics import median
from time import monotonic
from typing import Any

from benchmarks.measuring import Growth, absent, cpu, cpu_async, spread
from benchmarks.peers import PEERS
from benchmarks.server import sending
from benchmarks.subjects import OURS, Once, Place, Subject, limit
from benchmarks.workloads import FULL, WORKLOADS

__all__ = ["SUBJECTS", "alone", "measured", "printed", "size_of", "verified"]

SUBJECTS: Mapping[str, Subject] = {subject.name: subject for subject in (*OURS, *PEERS)}

# Seconds for one cell; two repetitions are always made.
PATIENCE = 25.0


def size_of(name: str, scale: float) -> int:
    """
    What that part of the full size is.
    """
    return max(int(FULL[name] * scale), 1)


# --- one subject, in the process of its own -------------------------------------------------------------------------------------------------------


async def measured(subject: Subject, names: Sequence[str], scale: float, repetitions: int, root: str) -> AsyncIterator[tuple[str, dict[str, Any]]]:
    """
    Each workload of a subject with what it costs, or with what went wrong.
    """
    for name in names:
        if name in subject.workloads:
            size = subject.size(name, size_of(name, scale))
            place = Place.of(WORKLOADS[name](size), size, root)
            try:
                async with subject.opened(place) as once:
                    yield name, await _cell(once, place, repetitions)
            except Exception as error:
                yield name, {"wrong": f"{type(error).__name__}: {error}"[:300]}


async def _cell(once: Once, place: Place, repetitions: int) -> dict[str, Any]:
    growth = Growth()
    wrong = await verified(once, place)
    if wrong is not None:
        return {"wrong": wrong}
    first = growth.peak()
    limit(place.load)
    # A second look at memory: now all is imported and warm.
    growth = Growth()
    await once()
    again, begin = growth.peak(), monotonic()
    least: list[float] = []
    own: list[float] = []
    while len(own) < repetitions and (len(own) < 2 or monotonic() - begin < PATIENCE):
        least.append(cpu(partial(limit, place.load)))
        own.append(await cpu_async(once))
    return {
        "events": place.load.events,
        "repetitions": len(own),
        "us": median(own) / place.load.events * 1e6,
        "limit_us": median(least) / place.load.events * 1e6,
        "ratio": spread([mine / bound for mine, bound in zip(own, least, strict=True)]),
        "first_peak_mib": first,
        "peak_mib": again,
        "growth_mib": growth.rest(),
    }


async def verified(once: Once, place: Place) -> str | None:
    """
    What is wrong with what the subject saw; None if all is there.
    """
    seen = await once()
    if seen is None:
        return None
    found = {kind: length for kind, length in seen.items() if length}
    return None if found == place.expected else f"saw {found}, sent {place.expected}"


# --- all of them ----------------------------------------------------------------------------------------------------------------------------------


async def alone(subjects: Sequence[str], names: Sequence[str], scale: float, repetitions: int) -> dict[str, Any]:
    """
    All subjects, one process after the other; those whose packages are missing are named instead.
    """
    table: dict[str, Any] = {}
    async with sending() as root:
        for name in subjects:
            missing = absent(SUBJECTS[name].needs)
            if missing:
                table[name] = {"skipped": f"not installed: {', '.join(missing)}"}
            elif set(names) & set(SUBJECTS[name].workloads):
                table[name] = await _process(name, names, scale, repetitions, root)
            print(f"  {name}", file=sys.stderr, flush=True)
    return table


async def _process(name: str, names: Sequence[str], scale: float, repetitions: int, root: str) -> dict[str, Any]:
    asked = [name, *names, "--scale", str(scale), "--repetitions", str(repetitions), "--root", root]
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "benchmarks.throughput", *asked, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE
    )
    said, complained = await process.communicate()
    found: dict[str, Any] = {"cells": dict(json.loads(line[5:]) for line in said.decode().splitlines() if line.startswith("cell "))}
    if process.returncode:
        found["failed"] = (complained.decode().strip().splitlines() or ["without a word"])[-1]
    return found


def printed(table: Mapping[str, Any], names: Sequence[str]) -> str:
    """
    The table as text: multiples of L1, median (lowest-highest); memory of the heaviest workload.
    """
    lines = [f"{'x L1':38}" + "".join(f"{name:>20}" for name in names) + f"{'peak MiB':>10}{'growth':>8}"]
    notes: list[str] = []
    for name, row in table.items():
        if "skipped" in row:
            notes.append(f"{name}: skipped, {row['skipped']}")
            continue
        cells = row["cells"]
        good = [cell for cell in cells.values() if "ratio" in cell]
        notes += [f"{name}, {key}: WRONG, {cell['wrong']}" for key, cell in cells.items() if "wrong" in cell]
        notes += [f"{name}: failed, {row['failed']}"] if "failed" in row else []
        memory = f"{max(cell['peak_mib'] for cell in good):>10.1f}{max(cell['growth_mib'] for cell in good):>8.1f}" if good else ""
        lines.append(f"{name:38}" + "".join(f"{_cell_text(cells.get(key)):>20}" for key in names) + memory)
    return "\n".join([*lines, *notes])


def _cell_text(cell: Mapping[str, Any] | None) -> str:
    if cell is None:
        return ""
    if "wrong" in cell:
        return "WRONG"
    ratio = cell["ratio"]
    return f"{ratio['median']:.3g} ({ratio['lowest']:.3g}-{ratio['highest']:.3g})"


async def _worker(given: argparse.Namespace) -> None:
    async for name, cell in measured(SUBJECTS[given.subject], given.workloads, given.scale, given.repetitions, given.root):
        print("cell", json.dumps([name, cell]), flush=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m benchmarks.throughput", description="One subject in this process; benchmarks.run asks for it.")
    parser.add_argument("subject", choices=list(SUBJECTS))
    parser.add_argument("workloads", nargs="+", choices=list(WORKLOADS))
    parser.add_argument("--scale", type=float, default=0.25)
    parser.add_argument("--repetitions", type=int, default=5)
    parser.add_argument("--root", required=True)
    asyncio.run(_worker(parser.parse_args()))
