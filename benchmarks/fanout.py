"""
One stream for several subscribers, and what it costs to subscribe and to leave.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from statistics import median
from typing import Any

import reactivex as rx
from reactivex import Observable
from reactivex.subject import Subject as Hot

from benchmarks.measuring import cpu
from benchmarks.subjects import limit
from benchmarks.workloads import Workload, workload
from rxchat import ChatEvent, chat_events, filter_events, frame_sse, normalize, parse, share_events, text_only
from rxchat.operators import Operator

__all__ = ["LEAVING", "fanned", "measured", "printed"]

SUBSCRIBERS = (0, 1, 2, 8)
ROUNDS = 500


def _shared(events: Observable[ChatEvent]) -> Observable[ChatEvent]:
    share: Operator[ChatEvent, ChatEvent] = share_events()
    return events.pipe(share)


def _silence() -> Observable[bytes]:
    return rx.never()


LEAVING: Mapping[str, Callable[[], Any]] = {
    "nothing": _silence,
    "composed": lambda: _silence().pipe(chat_events("openai-chat")),
    "composed, text_only": lambda: _silence().pipe(chat_events("openai-chat")).pipe(text_only()),
    "an operator each": lambda: _silence().pipe(frame_sse(), parse("openai-chat"), normalize(), filter_events()),
    "composed, share_events": lambda: _shared(_silence().pipe(chat_events("openai-chat"))),
}


def fanned(load: Workload, reads: list[bytes], subscribers: int) -> int:
    """
    A stream for so many subscribers behind share_events; for 0, one without it. How many events they saw together.
    """
    source: Hot[bytes] = Hot()
    events = source.pipe(chat_events(load.dialect))
    if subscribers:
        events = _shared(events)
    seen = 0

    def on_next(event: object) -> None:
        nonlocal seen
        seen += 1

    for _ in range(max(subscribers, 1)):
        events.subscribe(on_next)
    for read in reads:
        source.on_next(read)
    source.on_completed()
    return seen


def _left(make: Callable[[], Any]) -> None:
    source = make()
    for _ in range(ROUNDS):
        source.subscribe(lambda event: None).dispose()


def measured(scale: float, repetitions: int) -> dict[str, Any]:
    """
    Microseconds an event for each number of subscribers, and microseconds a subscription that leaves at once.
    """
    load = workload("W1", scale)
    reads = load.reads
    spent: dict[int, list[float]] = {count: [] for count in SUBSCRIBERS}
    least: list[float] = []
    leaving: dict[str, list[float]] = {name: [] for name in LEAVING}
    # Once without a clock: what is loaded and made at first use is not the first subject's.
    limit(load)
    for count in SUBSCRIBERS:
        fanned(load, reads, count)
    for make in LEAVING.values():
        _left(make)
    for _ in range(repetitions):
        least.append(cpu(partial(limit, load)))
        for count in SUBSCRIBERS:
            spent[count].append(cpu(partial(fanned, load, reads, count)))
        for name, make in LEAVING.items():
            leaving[name].append(cpu(partial(_left, make)))
    return {
        "subscribers": {
            str(count): {"us": median(seconds) / load.events * 1e6, "ratio": median(a / b for a, b in zip(seconds, least, strict=True))}
            for count, seconds in spent.items()
        },
        "subscribe_us": {name: median(seconds) / ROUNDS * 1e6 for name, seconds in leaving.items()},
    }


def printed(table: Mapping[str, Any]) -> str:
    """
    The tables as text.
    """
    shared = ", ".join(f"{count}: {row['us']:.2f} (x{row['ratio']:.1f})" for count, row in table["subscribers"].items())
    left = ", ".join(f"{name} {us:.0f}" for name, us in table["subscribe_us"].items())
    return f"us/event by subscribers behind share_events (0: without it): {shared}\nus to subscribe and dispose: {left}"
