"""
Where the time goes: the same stream through one stage, two stages, and so on; the difference is the last one's.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from statistics import median
from typing import Any, TypeAlias

from benchmarks.measuring import cpu
from benchmarks.subjects import limit, pushed
from benchmarks.workloads import Workload, workload
from rxchat import chat_events, filter_events, frame_sse, normalize, parse
from rxchat.aggregator import Aggregator
from rxchat.dialects import get_dialect
from rxchat.framing.sse import SseFramer
from rxchat.normalizer import Normalizer
from rxchat.pipeline import response_stage
from rxchat.stage import Chain, Stage, StreamDone

__all__ = ["STEPS", "measured", "printed"]

WORKLOADS = ("W1", "W2", "W3", "W4")

Step: TypeAlias = Callable[[Workload, Sequence[bytes]], None]


def _driven(stage: Stage[Any, Any], reads: Sequence[bytes]) -> None:
    def emit(item: object) -> None:
        pass

    stage.start(emit)
    try:
        for read in reads:
            stage.feed(read, emit)
        stage.flush(emit)
    except StreamDone:
        pass


def _parser(load: Workload) -> Stage[Any, Any]:
    spec = get_dialect(load.dialect)
    return spec.parser(spec.context(None))


def frame(load: Workload, reads: Sequence[bytes]) -> None:
    _driven(SseFramer(), reads)


def frame_parse(load: Workload, reads: Sequence[bytes]) -> None:
    _driven(Chain(SseFramer(), _parser(load)), reads)


def frame_parse_normalize(load: Workload, reads: Sequence[bytes]) -> None:
    _driven(Chain(SseFramer(), _parser(load), Normalizer()), reads)


def frame_parse_normalize_aggregate(load: Workload, reads: Sequence[bytes]) -> None:
    _driven(Chain(SseFramer(), _parser(load), Normalizer(), Aggregator()), reads)


def whole(load: Workload, reads: Sequence[bytes]) -> None:
    _driven(response_stage(load.dialect), reads)


def composed(load: Workload, reads: Sequence[bytes]) -> None:
    pushed(reads).pipe(chat_events(load.dialect)).subscribe(lambda event: None)


def separate(load: Workload, reads: Sequence[bytes]) -> None:
    pushed(reads).pipe(frame_sse(), parse(load.dialect), normalize(), filter_events()).subscribe(lambda event: None)


# What is added -> how far it goes.
STEPS: Mapping[str, Step] = {
    "frame": frame,
    "+ parse": frame_parse,
    "+ normalize": frame_parse_normalize,
    "+ aggregate": frame_parse_normalize_aggregate,
    "+ lifecycle": whole,
    "+ Rx, one operator": composed,
    "Rx, an operator each": separate,
}


def measured(scale: float, repetitions: int) -> dict[str, Any]:
    """
    Microseconds an event up to each step, and that as a multiple of L1: medians, all in turn.
    """
    table: dict[str, Any] = {}
    for name in WORKLOADS:
        load = workload(name, scale)
        reads = load.reads
        # Once without a clock: what is made at first use is not the first step's.
        separate(load, reads)
        spent: dict[str, list[float]] = {step: [] for step in ("L1", *STEPS)}
        for _ in range(repetitions):
            spent["L1"].append(cpu(partial(limit, load)))
            for step, through in STEPS.items():
                spent[step].append(cpu(partial(through, load, reads)))
        table[name] = {
            step: {"us": median(seconds) / load.events * 1e6, "ratio": median(a / b for a, b in zip(seconds, spent["L1"], strict=True))}
            for step, seconds in spent.items()
        }
    return table


def printed(table: Mapping[str, Any]) -> str:
    """
    The table as text.
    """
    lines = [f"{'us/event so far (x L1)':24}" + "".join(f"{name:>18}" for name in table)]
    for step in ("L1", *STEPS):
        lines.append(f"{step:24}" + "".join(f"{row[step]['us']:>10.2f} ({row[step]['ratio']:>4.1f})" + " " for row in table.values()))
    return "\n".join(line.rstrip() for line in lines)
