"""
Events in marble diagrams, in virtual time: one character is one tick of the scheduler.
"""

from __future__ import annotations

from collections.abc import Mapping

import reactivex as rx
from reactivex import Observable
from reactivex.scheduler import VirtualTimeScheduler

from rxchat.events import ChatEvent

__all__ = ["events_from_marbles", "marbles_of"]


def events_from_marbles(
    marbles: str, table: Mapping[str, ChatEvent], scheduler: VirtualTimeScheduler, *, error: Exception | None = None
) -> Observable[ChatEvent]:
    """
    A cold source: each letter is its event of the table, `-` a tick, `|` the end, `#` the error. A group `(a,b)` takes as many ticks as it has characters.
    """
    lookup: dict[str | float, ChatEvent] = {letter: event for letter, event in table.items()}  # noqa: C416
    return rx.from_marbles(marbles, 1.0, scheduler, lookup=lookup, error=error)


def marbles_of(source: Observable[ChatEvent], table: Mapping[str, ChatEvent], scheduler: VirtualTimeScheduler) -> str:
    """
    Subscribe, let the scheduler run out, and draw what came: `?` is an event the table does not have. Events of one tick stand in a group.

    A group takes the ticks of its characters, where nothing else came in them; so a diagram that was read comes out as it was.
    """
    ticks: dict[int, str] = {}
    began = scheduler.clock

    def note(mark: str) -> None:
        tick = round(scheduler.to_seconds(scheduler.clock) - scheduler.to_seconds(began))
        ticks[tick] = ticks.get(tick, "") + mark

    def letter(event: ChatEvent) -> str:
        return next((name for name, known in table.items() if known == event), "?")

    source.subscribe(lambda event: note(letter(event)), lambda error: note("#"), lambda: note("|"), scheduler=scheduler)
    scheduler.start()
    return _drawn(ticks)


def _drawn(ticks: Mapping[int, str]) -> str:
    drawn, tick, last = "", 0, max(ticks, default=-1)
    while tick <= last:
        marks = ticks.get(tick, "-")
        group = marks if len(marks) == 1 else f"({','.join(marks)})"
        drawn += group
        tick += 1
        covered = len(group) - 1
        while covered and tick not in ticks:
            tick, covered = tick + 1, covered - 1
    return drawn
