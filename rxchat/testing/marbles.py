"""
Events in marble diagrams, in virtual time: one character is one tick of the scheduler.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from reactivex import Observable, abc
from reactivex.disposable import CompositeDisposable
from reactivex.scheduler import VirtualTimeScheduler

from rxchat.errors import ConfigurationError
from rxchat.events import ChatEvent

__all__ = ["events_from_marbles", "marbles_of"]

_GROUP_OR_MARK = re.compile(r"\((?P<group>[^()]*)\)|(?P<mark>[^(),])")


def events_from_marbles(
    marbles: str, table: Mapping[str, ChatEvent], scheduler: VirtualTimeScheduler, *, error: Exception | None = None
) -> Observable[ChatEvent]:
    """
    A cold source: each letter is its event of the table, `-` a tick, `|` the end, `#` the error. A group `(a,b)` takes as many ticks as it has characters.

    Blanks are for reading only. ConfigurationError for a letter the table does not have, and for what stands behind the end.
    """
    timed = [(tick, mark) for tick, mark in _timed(marbles.replace(" ", "")) if mark != "-"]
    wrong = [mark for _, mark in timed if mark not in table and mark not in ("|", "#")]
    if wrong or any(mark in ("|", "#") for _, mark in timed[:-1]):
        raise ConfigurationError(f"{marbles!r} says {', '.join(wrong) or 'something behind its end'}; the table has {', '.join(table)}")

    def subscribe(observer: abc.ObserverBase[ChatEvent], given: abc.SchedulerBase | None = None) -> abc.DisposableBase:
        def at(mark: str) -> Any:
            return lambda *_: _say(mark, table, observer, error)

        return CompositeDisposable([scheduler.schedule_relative(float(tick), at(mark)) for tick, mark in timed])

    return Observable(subscribe)


def _timed(marbles: str) -> Iterator[tuple[int, str]]:
    """
    The marks and their ticks.
    """
    place = 0
    while place < len(marbles):
        found = _GROUP_OR_MARK.match(marbles, place)
        if found is None:
            raise ConfigurationError(f"{marbles!r} is no marble diagram: see its character {place}")
        for mark in (found["group"] or found["mark"] or "").split(","):
            yield place, mark
        place = found.end()


def _say(mark: str, table: Mapping[str, ChatEvent], observer: abc.ObserverBase[ChatEvent], error: Exception | None) -> None:
    if mark == "|":
        observer.on_completed()
    elif mark == "#":
        observer.on_error(error or Exception("error"))
    else:
        observer.on_next(table[mark])


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
