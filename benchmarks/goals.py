"""
The goals, each a number of one run: ratios and counts, never microseconds, so that they can be asked of any machine.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeAlias

import attrs

__all__ = ["GOALS", "PACED", "Goal", "printed", "verdicts"]

Results: TypeAlias = Mapping[str, Any]
Value: TypeAlias = Callable[[Results], float | None]

COMPOSED, SEPARATE = "rxchat composed", "rxchat separate"
MODEL, LINES = "rxchat ChatModel (loopback)", "aiohttp lines + json (loopback)"

# So many streams and events are spoken of below: where a run has fewer, those goals have no number.
STREAMS, EVENTS = 2000, 1_000_000


@attrs.frozen
class Goal:
    """
    At most, or at least, so much of something; `value` raises KeyError, or is None, where the run has no such number.
    """

    text: str
    value: Value
    most: float | None = None
    least: float | None = None

    def met(self, value: float) -> bool:
        return (self.most is None or value <= self.most) and (self.least is None or value >= self.least)


def _ratio(results: Results, subject: str, workload: str) -> float:
    ratio: float = results["table"][subject]["cells"][workload]["ratio"]["median"]
    return ratio


def _of(subject: str, workload: str) -> Value:
    return lambda results: _ratio(results, subject, workload)


def _times(other: str, workload: str, own: str = COMPOSED) -> Value:
    """
    How many times less CPU than another subject.
    """
    return lambda results: _ratio(results, other, workload) / _ratio(results, own, workload)


def _limits() -> Iterable[Goal]:
    for subject, plain, anthropic in ((COMPOSED, 3.5, 5), (SEPARATE, 4, 6)):
        for workload in ("W1", "W2", "W3", "W4"):
            yield Goal(f"{subject}, {workload}, x L1", _of(subject, workload), most=anthropic if workload == "W2" else plain)
    for workload in ("W1", "W2", "W3", "W4"):
        yield Goal(f"ChatModel, {workload}, x the line loop (loopback)", _part_of_lines(workload), most=0.7)
    yield Goal("W5 in memory, x L1", _of(COMPOSED, "W5"), most=2)
    yield Goal("W5 over loopback, x L1", _of(MODEL, "W5"), most=3)
    yield Goal("W6, x L1", _of(COMPOSED, "W6"), most=160)
    yield Goal("W6, x httpx-sse", lambda results: _ratio(results, COMPOSED, "W6") / _ratio(results, "httpx-sse + json", "W6"), most=1)


def _part_of_lines(workload: str) -> Value:
    return lambda results: _ratio(results, MODEL, workload) / _ratio(results, LINES, workload)


# Times less CPU, in memory against in memory; litellm, which knows only sockets, against ChatModel.
_PEERS = (
    ("openai create", ("W1", "W4"), 15),
    ("openai responses.create", ("W3",), 15),
    ("openai .stream()", ("W1", "W4"), 30),
    ("openai responses.stream()", ("W3",), 30),
    ("anthropic create", ("W2",), 4),
    ("anthropic messages.stream()", ("W2",), 12),
    ("langchain-openai astream", ("W1", "W3", "W4"), 25),
    ("langchain-anthropic astream", ("W2",), 12),
    ("pydantic-ai run_stream", ("W1", "W3"), 35),
    ("litellm acompletion (loopback)", ("W1", "W2", "W4"), 60),
)


def _peers() -> Iterable[Goal]:
    for peer, workloads, times in _PEERS:
        for workload in workloads:
            own = MODEL if "loopback" in peer else COMPOSED
            yield Goal(f"times less CPU than {peer}, {workload}", _times(peer, workload, own), least=times)


def _growth() -> Iterable[Goal]:
    for workload in ("W1", "W2", "W3", "W4"):
        yield Goal(f"exponent of growth, {workload}", _exponent(workload), most=1.05)
    yield Goal(
        "a million events, nothing kept, MiB", lambda results: results["growth"]["long"]["nothing_kept"]["rows"][str(EVENTS)]["peak_mib"], most=2
    )
    yield Goal("exponent to a million events, nothing kept", _to_a_million, most=1.05)
    # The largest event is one of these megabytes.
    yield Goal("W5, MiB held beyond the largest event", lambda results: results["growth"]["traced_mib"]["W5"] - 1_000_000 / 2**20, most=6)


def _exponent(workload: str) -> Value:
    return lambda results: results["growth"]["exponents"][workload]


def _to_a_million(results: Results) -> float | None:
    long = results["growth"]["long"]["nothing_kept"]
    return long["exponent"] if str(EVENTS) in long["rows"] else None


def _left_behind(results: Results) -> float | None:
    leaks = results["leaks"]
    return max(row["kib"] for row in leaks["left"].values()) if leaks["streams"] >= STREAMS else None


GOALS: tuple[Goal, ...] = (
    *_limits(),
    *_peers(),
    *_growth(),
    Goal("slow consumer, events waiting", lambda results: results["slow"]["waiting"], most=600),
    Goal("slow consumer, KiB in aiohttp's buffer", lambda results: results["slow"]["buffered_kib"], most=128),
    Goal("slow consumer, MiB grown by", lambda results: results["slow"]["peak_mib"], most=2),
    Goal("import rxchat, x what it stands on", lambda results: results["imports"]["rxchat"]["ratio"], most=1.25),
    Goal("import, everything in use, x what it stands on", lambda results: results["imports"]["rxchat in use"]["ratio"], most=1.25),
    Goal(
        "34 events, times less CPU than openai create (ChatModel over loopback, openai in memory)",
        lambda results: results["short"]["cpu_ms"]["openai create"] / results["short"]["cpu_ms"][MODEL],
        least=4,
    ),
    Goal(
        "34 events, times less CPU than openai create (both in memory)",
        lambda results: results["short"]["cpu_ms"]["openai create"] / results["short"]["cpu_ms"][COMPOSED],
        least=4,
    ),
    Goal(
        "34 events, times less CPU than openai create (both over loopback)",
        lambda results: results["short"]["cpu_ms"]["openai create (loopback)"] / results["short"]["cpu_ms"][MODEL],
        least=4,
    ),
    Goal(
        f"KiB that {STREAMS:,} streams leave behind, most of all ways",
        _left_behind,
        most=100,
    ),
)


# --- paced streams: the table of `benchmarks.paced`, in which other subjects stand beside the aiohttp line loop --------------------------------------

# Of a second's events so many may still be on their way when the last second is over; the server writes them until then.
_ON_THEIR_WAY = 0.02


def _paced(setting: str, value: Callable[[Mapping[str, float], Mapping[str, float]], float]) -> Value:
    return lambda table: value(table[setting]["rxchat"], table[setting]["aiohttp"])


def _all_paced() -> Iterable[Goal]:
    yield Goal("20x50, CPU an event, x aiohttp", _paced("20x50", lambda own, other: own["cpu_us"] / other["cpu_us"]), most=1.1)
    for setting in ("200x50", "1000x5"):
        streams, rate = map(int, setting.split("x"))
        yield Goal(f"{setting}, events lost", _paced(setting, lambda own, _: own["sent"] - own["reached"]), most=0)
        yield Goal(f"{setting}, events not delivered at the end", _paced(setting, lambda own, _: own["backlog"]), most=streams * rate * _ON_THEIR_WAY)
        yield Goal(f"{setting}, p99 of the delay, x aiohttp", _paced(setting, lambda own, other: own["p99_ms"] / other["p99_ms"]), most=1.2)


PACED: tuple[Goal, ...] = tuple(_all_paced())


def verdicts(results: Results, goals: Iterable[Goal] = GOALS) -> dict[str, dict[str, Any]]:
    """
    Every goal the run has a number for.
    """
    found: dict[str, dict[str, Any]] = {}
    for goal in goals:
        try:
            value = goal.value(results)
        except KeyError:
            continue
        if value is not None:
            found[goal.text] = {"value": float(value), "most": goal.most, "least": goal.least, "met": goal.met(value)}
    return found


def printed(found: Mapping[str, Mapping[str, Any]]) -> str:
    """
    One line a goal.
    """
    lines = []
    for text, row in found.items():
        bound = f"<= {row['most']:g}" if row["most"] is not None else f">= {row['least']:g}"
        lines.append(f"{'met   ' if row['met'] else 'MISSED'} {row['value']:>9.3g} {bound:>9}  {text}")
    return "\n".join(lines)
