"""
One command, one table: what an event costs, against the least that any reader of the same bytes must do.

    python -m benchmarks.run --scale 0.25

The limit, L1, cuts the body at its blank lines and parses each event's JSON with orjson, in the same process and in turn with what is measured.
"""

from __future__ import annotations

import argparse
import gc
import json
import math
import os
import platform
import time
import tracemalloc
from collections.abc import Callable, Iterable, Mapping, Sequence
from statistics import linear_regression, median
from typing import Any, TypeAlias

import orjson
from reactivex import Observable, abc
from reactivex.disposable import Disposable

from benchmarks.workloads import FULL, WORKLOADS, Workload, workload
from rxchat import chat_events, filter_events, frame_sse, normalize, parse
from rxchat.pipeline import response_stage
from rxchat.stage import run

Subject: TypeAlias = Callable[[Workload, Sequence[bytes]], None]

# The sizes at which growth is looked at, and the workloads that have deltas to grow by.
SIZES = (500, 1000, 2000, 4000, 8000, 20_000)
GROWING = ("W1", "W2", "W3", "W4")


# --- what is measured -----------------------------------------------------------------------------------------------------------------------------


def limit(load: Workload, reads: Sequence[bytes]) -> None:
    """
    L1: split, then orjson.
    """
    for frame in load.body.split(b"\n\n"):
        at = frame.find(b"data: ")
        if at >= 0 and not frame.startswith(b"[DONE]", at + 6):
            orjson.loads(frame[at + 6 :])


def composed(load: Workload, reads: Sequence[bytes]) -> None:
    """
    The standard composition as one operator.
    """
    _drain(_source(reads).pipe(chat_events(load.dialect)))


def separate(load: Workload, reads: Sequence[bytes]) -> None:
    """
    Every stage an operator of its own.
    """
    _drain(_source(reads).pipe(frame_sse(), parse(load.dialect), normalize(), filter_events()))


def bare(load: Workload, reads: Sequence[bytes]) -> None:
    """
    The stages without Rx.
    """
    for _ in run(response_stage(load.dialect), reads):
        pass


SUBJECTS: Mapping[str, Subject] = {"composed": composed, "separate": separate, "bare": bare}


def _source(reads: Iterable[bytes]) -> Observable[bytes]:
    """
    A source that pushes from its subscribe, without a scheduler.
    """

    def subscribe(observer: abc.ObserverBase[bytes], scheduler: abc.SchedulerBase | None = None) -> abc.DisposableBase:
        for read in reads:
            observer.on_next(read)
        observer.on_completed()
        return Disposable()

    return Observable(subscribe)


def _drain(events: Observable[Any]) -> None:
    failures: list[Exception] = []
    events.subscribe(lambda event: None, failures.append)
    if failures:
        raise failures[0]


# --- measuring ------------------------------------------------------------------------------------------------------------------------------------


def cpu(subject: Subject, load: Workload, reads: Sequence[bytes]) -> float:
    """
    CPU seconds of one run; what earlier runs left is collected before.
    """
    gc.collect()
    begin = time.process_time()
    subject(load, reads)
    return time.process_time() - begin


def costs(load: Workload, repetitions: int) -> dict[str, Any]:
    """
    Microseconds an event, and the ratio to L1: medians over repetitions in which all take turns.
    """
    reads = load.reads
    spent: dict[str, list[float]] = {name: [] for name in ("L1", *SUBJECTS)}
    for _ in range(repetitions):
        for name, subject in (("L1", limit), *SUBJECTS.items()):
            spent[name].append(cpu(subject, load, reads))
    table: dict[str, Any] = {"events": load.events}
    for name, seconds in spent.items():
        ratios = [own / least for own, least in zip(seconds, spent["L1"], strict=True)]
        table[name] = {
            "us": median(seconds) / load.events * 1e6,
            "ratio": median(ratios),
            "lowest": min(ratios),
            "highest": max(ratios),
        }
    return table


def exponent(name: str, sizes: Sequence[int], repetitions: int) -> float:
    """
    How CPU grows with the number of events: the slope of its logarithm, 1 where it is linear.
    """
    points: list[tuple[float, float]] = []
    for size in sizes:
        load = WORKLOADS[name](size)
        reads = load.reads
        # The least of several: noise only adds.
        points.append((math.log(load.events), math.log(min(cpu(composed, load, reads) for _ in range(repetitions)))))
    return linear_regression(*zip(*points, strict=True)).slope


def peak(load: Workload) -> float:
    """
    MiB held at most at one time beyond the body itself, which was there before; a run of its own, because tracing slows.
    """
    reads = load.reads
    gc.collect()
    tracemalloc.start()
    composed(load, reads)
    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return most / 2**20


# --- the command ----------------------------------------------------------------------------------------------------------------------------------


def measured(names: Sequence[str], scale: float, repetitions: int) -> dict[str, Any]:
    """
    The whole table.
    """
    table: dict[str, Any] = {}
    for name in names:
        load = workload(name, scale)
        table[name] = {**costs(load, repetitions), "peak_mib": peak(load)}
        if name in GROWING:
            table[name]["exponent"] = exponent(name, [size for size in SIZES if size <= max(2000, FULL[name] * scale)], repetitions)
    return table


def machine() -> str:
    """
    What it ran on.
    """
    load = os.getloadavg()[0] if hasattr(os, "getloadavg") else float("nan")
    return f"{platform.python_implementation()} {platform.python_version()}, {os.cpu_count()} cores, load {load:.1f}"


def printed(table: Mapping[str, Any]) -> str:
    """
    The table as text.
    """
    lines = [f"{'':4}{'events':>8}{'L1 us':>10}" + "".join(f"{name:>28}" for name in SUBJECTS) + f"{'exponent':>10}{'peak MiB':>10}"]
    for name, row in table.items():
        cells = "".join(f" {_cell(row[subject]):>27}" for subject in SUBJECTS)
        growth = f"{row['exponent']:.2f}" if "exponent" in row else ""
        lines.append(f"{name:4}{row['events']:>8}{row['L1']['us']:>10.2f}{cells}{growth:>10}{row['peak_mib']:>10.1f}")
    return "\n".join(lines)


def _cell(cost: Mapping[str, float]) -> str:
    return f"{cost['us']:.2f} x{cost['ratio']:.1f} ({cost['lowest']:.1f}-{cost['highest']:.1f})"


def main(argv: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.run", description="What an event costs, as a multiple of split + orjson.")
    parser.add_argument("workloads", nargs="*", metavar="W1", help="which ones; all by default")
    parser.add_argument("--scale", type=float, default=0.25, help="part of the full size (20,000 events, 50 images, 1 MB)")
    parser.add_argument("--repetitions", type=int, default=5)
    parser.add_argument("--json", metavar="FILE", help="write the numbers here as well")
    given = parser.parse_args(argv)
    unknown = sorted(set(given.workloads) - set(WORKLOADS))
    if unknown:
        parser.error(f"there is no {', '.join(unknown)}; there are: {', '.join(WORKLOADS)}")
    table = measured(given.workloads or list(WORKLOADS), given.scale, given.repetitions)
    print(f"{machine()}; scale {given.scale}, {given.repetitions} repetitions; us/event xL1 (lowest-highest)")
    print(printed(table))
    if given.json:
        with open(given.json, "w", encoding="utf-8") as file:
            json.dump({"machine": machine(), "scale": given.scale, "repetitions": given.repetitions, "workloads": table}, file, indent=2)


if __name__ == "__main__":
    main()
