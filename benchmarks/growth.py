"""
How cost and memory grow with the number of events: 1 is linear, and who keeps nothing must hold nothing.

In a short stream what every stream costs once hides how the events grow: an exponent is fitted to the sizes from 2,000 events on, and there is none where the
longest is of less than 8,000.

The long streams are never in memory: their bytes are made as they are read, a thousand events at a time.
"""

from __future__ import annotations

import gc
import tracemalloc
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache, partial
from typing import Any

from benchmarks.measuring import Growth, cpu, exponent
from benchmarks.subjects import Place, composed, pushed
from benchmarks.workloads import FULL, READ, WORKLOADS, Workload, workload
from rxchat import chat_events, frame_sse, parse, text_only

__all__ = ["long_reads", "measured", "printed", "slope", "traced"]

# The sizes at which growth is looked at, and the workloads that have deltas to grow by.
SIZES = (2000, 4000, 8000, 20_000)
GROWING = ("W1", "W2", "W3", "W4")
LONG = (1000, 10_000, 100_000, 1_000_000)

_BLOCK = 1000

# From which size on an exponent is fitted, and what the largest size must be.
FITTED = 2000
REACHED = 8000


@lru_cache(maxsize=1)
def _frames() -> list[bytes]:
    return WORKLOADS["W1"](_BLOCK).body.split(b"\n\n")


def long_reads(events: int) -> Iterator[bytes]:
    """
    W1 with that many deltas, in reads, without ever being whole.
    """
    frames = _frames()
    yield frames[0] + b"\n\n"
    block = b"\n\n".join(frames[1 : _BLOCK + 1]) + b"\n\n"
    for _ in range(events // _BLOCK):
        for at in range(0, len(block), READ):
            yield block[at : at + READ]
    yield b"\n\n".join(frames[_BLOCK + 1 :])


def nothing_kept(events: int) -> int:
    """
    The texts, and no answer behind them: frame, parse, text_only.
    """
    return _texts(pushed(long_reads(events)).pipe(frame_sse(), parse("openai-chat"), text_only()))


def answer_kept(events: int) -> int:
    """
    The standard composition, which folds the answer, and text_only behind it.
    """
    return _texts(pushed(long_reads(events)).pipe(chat_events("openai-chat"), text_only()))


def _texts(texts: Any) -> int:
    """
    How many characters came.
    """
    seen = 0

    def on_next(text: str) -> None:
        nonlocal seen
        seen += len(text)

    failures: list[Exception] = []
    texts.subscribe(on_next, failures.append)
    if failures:
        raise failures[0]
    return seen


def traced(load: Workload) -> float:
    """
    MiB that Python held at most at one time beyond the body, which was there before; a run of its own, because tracing slows.
    """
    place = Place(load, load.reads, "")
    gc.collect()
    tracemalloc.start()
    composed(place)
    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return most / 2**20


def slope(sizes: Sequence[int], costs: Sequence[float]) -> float | None:
    """
    The exponent of those sizes that say something about growth, None where there are too few.
    """
    fitted = [(size, cost) for size, cost in zip(sizes, costs, strict=True) if size >= FITTED]
    return exponent(*zip(*fitted, strict=True)) if len(fitted) > 1 and max(sizes) >= REACHED else None


def measured(scale: float, repetitions: int) -> dict[str, Any]:
    """
    Exponents of the workloads, cost and memory of long streams, and what Python held at most.
    """
    long = [size for size in LONG if size <= max(10_000, 4_000_000 * scale)]
    return {
        "long": {reader.__name__: _long(reader, long, repetitions) for reader in (nothing_kept, answer_kept)},
        "exponents": {name: _grown(name, [size for size in SIZES if size <= FULL[name] * scale * 4], repetitions) for name in GROWING},
        "traced_mib": {name: traced(workload(name, min(scale, 0.25))) for name in WORKLOADS},
    }


def _grown(name: str, sizes: Sequence[int], repetitions: int) -> float | None:
    if max(sizes, default=0) < REACHED:
        return None
    # Their turns are taken round by round, so that a busy minute does not fall on one size alone; the least counts, noise only adds.
    loads = [WORKLOADS[name](size) for size in sizes]
    places = [Place(load, load.reads, "") for load in loads]
    composed(places[0])
    rounds = [[cpu(partial(composed, place)) for place in places] for _ in range(repetitions)]
    return slope([load.events for load in loads], [min(costs) for costs in zip(*rounds, strict=True)])


def _long(reader: Any, sizes: Sequence[int], repetitions: int) -> dict[str, Any]:
    reader(_BLOCK)
    rows: dict[str, Any] = {}
    for size in sizes:
        growth = Growth()
        spent = [cpu(partial(reader, size)) for _ in range(repetitions if size <= 10_000 else 1)]
        rows[str(size)] = {"us": min(spent) / size * 1e6, "peak_mib": growth.peak()}
    return {"rows": rows, "exponent": slope(sizes, [row["us"] * int(size) for size, row in rows.items()])}


def printed(table: Mapping[str, Any]) -> str:
    """
    The tables as text.
    """
    lines = ["us/event, peak MiB beyond the start, at a number of events (W1):"]
    for name, row in table["long"].items():
        cells = "".join(f"{int(size):>12,}: {cell['us']:.2f}, {cell['peak_mib']:.2f}" for size, cell in row["rows"].items())
        lines.append(f"{name:14}{cells}   exponent {_said(row['exponent'])}")
    lines.append("exponents of the composed operator: " + ", ".join(f"{name} {_said(found)}" for name, found in table["exponents"].items()))
    lines.append("MiB Python held at most beyond the body: " + ", ".join(f"{name} {most:.2f}" for name, most in table["traced_mib"].items()))
    return "\n".join(lines)


def _said(found: float | None) -> str:
    return "unknown, too short" if found is None else f"{found:.3f}"
