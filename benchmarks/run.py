"""
One command: what an event costs, beside the least that any reader must do and beside the peers; and the rest that is measured.

    python -m benchmarks --scale 0.25 --json now.json --plot now.svg

Every group has a process of its own, and in the throughput table every subject.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import attrs

from benchmarks import fanout, goals, growth, imports, leaks, short, slow, stages, throughput
from benchmarks.measuring import absent, load, machine, unwritable
from benchmarks.plot import FORMATS, draw
from benchmarks.workloads import WORKLOADS

__all__ = ["GROUPS", "Group", "main"]


@attrs.frozen
class Group:
    """
    Something that is measured beside the table: of a scale and a number of repetitions, and how it is printed.
    """

    title: str
    measured: Callable[[float, int], dict[str, Any]]
    printed: Callable[[Mapping[str, Any]], str]


GROUPS: Mapping[str, Group] = {
    "stages": Group("Where the time goes", stages.measured, stages.printed),
    "growth": Group("As the answer grows", growth.measured, growth.printed),
    "fanout": Group("Several subscribers; subscribing and leaving", fanout.measured, fanout.printed),
    "short": Group("Short answers", short.measured, short.printed),
    "imports": Group("Start", imports.measured, imports.printed),
    "slow": Group("A slow consumer", slow.measured, slow.printed),
    "leaks": Group("What stays behind", leaks.measured, leaks.printed),
}
TABLE = "table"


def _in_a_process(name: str, scale: float, repetitions: int) -> dict[str, Any]:
    command = [sys.executable, "-m", "benchmarks", "--inside", name, "--scale", str(scale), "--repetitions", str(repetitions)]
    said = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout
    found: dict[str, Any] = json.loads(said.splitlines()[-1])
    return found


def _subjects(wanted: Sequence[str]) -> list[str]:
    """
    Those whose names hold one of these words, or all if there are no words.
    """
    return [name for name in throughput.SUBJECTS if not wanted or any(word.lower() in name.lower() for word in wanted)]


def _report(given: argparse.Namespace) -> dict[str, Any]:
    results: dict[str, Any] = {"machine": machine(), "scale": given.scale, "repetitions": given.repetitions}
    print(f"{machine()}; scale {given.scale:g}, {given.repetitions} repetitions", flush=True)
    chosen = given.only or (TABLE, *GROUPS)
    names = given.workloads or list(WORKLOADS)
    if TABLE in chosen:
        results[TABLE] = asyncio.run(throughput.alone(_subjects(given.subjects), names, given.scale, given.repetitions))
        print(f"\nThroughput\n{throughput.printed(results[TABLE], names)}", flush=True)
    for name, group in GROUPS.items():
        if name in chosen:
            results[name] = _in_a_process(name, given.scale, given.repetitions)
            print(f"\n{group.title}\n{group.printed(results[name])}", flush=True)
    results["goals"] = goals.verdicts(results)
    results["load_at_the_end"] = load()
    print(f"\nGoals\n{goals.printed(results['goals'])}\n\nload at the end {load():.1f}")
    return results


def _arguments(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks", description="What an event costs, as a multiple of split + orjson, beside the peers."
    )
    parser.add_argument("workloads", nargs="*", metavar="W1", help="rows of the throughput table; all by default")
    parser.add_argument("--only", nargs="+", choices=[TABLE, *GROUPS], help="some groups only")
    parser.add_argument("--subjects", nargs="+", default=(), metavar="WORD", help="only subjects of the table whose names hold one of these")
    parser.add_argument("--scale", type=float, default=0.25, help="part of the full size (20,000 events, 50 images, 1 MB)")
    parser.add_argument("--repetitions", type=int, default=5)
    parser.add_argument("--json", metavar="FILE", help="write the numbers here as well")
    parser.add_argument("--plot", metavar="FILE", help="draw the table here, .svg or .png; needs matplotlib")
    parser.add_argument("--inside", choices=list(GROUPS), help=argparse.SUPPRESS)
    given = parser.parse_args(argv)
    for reason in _refusals(given):
        parser.exit(2, f"{parser.prog}: {reason}\n")
    return given


def _refusals(given: argparse.Namespace) -> Iterator[str]:
    """
    Why it must not begin: said now, not after the minutes it takes.
    """
    unknown = sorted(set(given.workloads) - set(WORKLOADS))
    if unknown:
        yield f"there is no {', '.join(unknown)}; there are: {', '.join(WORKLOADS)}"
    if given.plot:
        yield from _undrawable(given)
    yield from filter(None, (unwritable(path) for path in (given.json, given.plot) if path))


def _undrawable(given: argparse.Namespace) -> Iterator[str]:
    if not given.plot.lower().endswith(FORMATS):
        yield f"--plot draws {', '.join(FORMATS)}, not {given.plot}"
    if not _drawn(given):
        yield "--plot draws the throughput table, of which nothing is measured here"
    if absent(["matplotlib"]):
        yield "--plot needs matplotlib, which is not installed"


def _drawn(given: argparse.Namespace) -> bool:
    """
    Whether somebody is measured whom the plot shows, on a workload that was asked for; L1 is what the others are a multiple of.
    """
    subjects = [throughput.SUBJECTS[name] for name in _subjects(given.subjects) if name != "L1"]
    names = set(given.workloads or WORKLOADS)
    return TABLE in (given.only or [TABLE]) and any(names & set(subject.workloads) and not absent(subject.needs) for subject in subjects)


def main(argv: Sequence[str] | None = None) -> None:
    given = _arguments(argv)
    if given.inside:
        print(json.dumps(GROUPS[given.inside].measured(given.scale, given.repetitions)))
        return
    results = _report(given)
    if given.json:
        with open(given.json, "w", encoding="utf-8") as file:
            json.dump(results, file, indent=2)
    if given.plot:
        draw(results.get(TABLE, {}), given.workloads or list(WORKLOADS), given.plot)


if __name__ == "__main__":
    main()
