"""
Stages that do as a script says, and every way to drive them: all ways must give the same values and the same end.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from typing import Any, TypeAlias

import attrs
import reactivex as rx
from hypothesis import strategies as st
from reactivex import Observable, abc
from reactivex import operators as ops
from reactivex.disposable import Disposable
from reactivex.scheduler import ImmediateScheduler

from rxchat.operators import lift
from rxchat.stage import Chain, Emit, Stage, StreamDone, arun, run

Outcome: TypeAlias = tuple[list[Any], Any]


class Fault(Exception):
    """
    What scripted stages and sources raise; equal by name.
    """

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.name = name


@attrs.frozen
class Act:
    """
    What one call of a stage does: emit so many items, then raise a Fault, or say that the stream is done.
    """

    emits: int = 0
    ends: str = ""  # "", "fault", "done"


@attrs.frozen
class Script:
    """
    A stage's acts: at start, for each item (again from the first when used up), at flush, at fail.
    """

    name: str
    start: Act
    feeds: Sequence[Act]
    flush: Act
    fail: Act


class Scripted(Stage[Any, Any]):
    """
    Emits items that say where they come from, so that order and loss show.
    """

    def __init__(self, script: Script) -> None:
        self._script = script
        self._fed = 0
        self._ended = False

    def start(self, emit: Emit[Any]) -> None:
        assert self._fed == 0
        self._act(self._script.start, "start", emit)

    def feed(self, item: Any, emit: Emit[Any]) -> None:
        assert not self._ended, "fed after its end"
        act = self._script.feeds[self._fed % len(self._script.feeds)]
        self._fed += 1
        self._act(act, item, emit)

    def flush(self, emit: Emit[Any]) -> None:
        assert not self._ended, "flushed after its end"
        self._ended = True
        self._act(self._script.flush, "flush", emit)

    def fail(self, error: Exception, emit: Emit[Any]) -> None:
        assert not self._ended, "failed after its end"
        self._ended = True
        self._act(self._script.fail, str(error), emit)

    def _act(self, act: Act, what: Any, emit: Emit[Any]) -> None:
        for n in range(act.emits):
            emit((self._script.name, what, n))
        if act.ends:
            self._ended = True
            raise StreamDone if act.ends == "done" else Fault(f"{self._script.name} at {what}")


acts = st.builds(Act, st.integers(0, 2), st.sampled_from(["", "", "", "", "fault", "done"]))
quiet = st.builds(Act, st.integers(0, 2), st.sampled_from(["", "", "", "", "", "", "", "fault", "done"]))


def scripts(name: str) -> st.SearchStrategy[Script]:
    return st.builds(Script, st.just(name), quiet, st.lists(acts, min_size=1, max_size=4), acts, acts)


chains = st.tuples(scripts("a"), scripts("b"), scripts("c")).flatmap(lambda all_: st.integers(1, 3).map(lambda n: all_[:n]))


# --- sources --------------------------------------------------------------------------------------------------------------------------------------


def iterable(items: Sequence[Any], fault: Fault | None) -> Iterator[Any]:
    yield from items
    if fault is not None:
        raise fault


async def async_iterable(items: Sequence[Any], fault: Fault | None) -> AsyncIterator[Any]:
    for item in iterable(items, fault):
        yield item


def on_the_trampoline(items: Sequence[Any], fault: Fault | None) -> Observable[Any]:
    """
    Pushes when everybody has subscribed, as RxPY's own sources do.
    """
    return rx.concat(rx.from_iterable(items), rx.throw(fault) if fault else rx.empty())


def inside_subscribe(items: Sequence[Any], fault: Fault | None) -> Observable[Any]:
    """
    Pushes all before its `subscribe` returns: nobody can dispose of it.
    """

    def subscribe(observer: abc.ObserverBase[Any], scheduler: abc.SchedulerBase | None = None) -> abc.DisposableBase:
        rx.from_iterable(items, ImmediateScheduler()).subscribe(observer.on_next)
        if fault is None:
            observer.on_completed()
        else:
            observer.on_error(fault)
        return Disposable()

    return rx.create(subscribe)


# --- drivers --------------------------------------------------------------------------------------------------------------------------------------


def stages(chain: Sequence[Script]) -> list[Scripted]:
    return [Scripted(script) for script in chain]


def nested(parts: Sequence[Stage[Any, Any]]) -> Stage[Any, Any]:
    """
    The same chain, grouped as chains of chains.
    """
    return Chain(Chain(*parts[:2]), *parts[2:]) if len(parts) > 2 else Chain(Chain(parts[0]), *parts[1:])


def of_run(stage: Stage[Any, Any], items: Sequence[Any], fault: Fault | None) -> Outcome:
    seen: list[Any] = []
    try:
        for item in run(stage, iterable(items, fault)):
            seen.append(item)
    except Exception as error:
        return seen, (type(error), str(error))
    return seen, "completed"


async def of_arun(stage: Stage[Any, Any], items: Sequence[Any], fault: Fault | None) -> Outcome:
    seen: list[Any] = []
    try:
        async for item in arun(stage, async_iterable(items, fault)):
            seen.append(item)
    except Exception as error:
        return seen, (type(error), str(error))
    return seen, "completed"


def of_rx(stream: Observable[Any]) -> Outcome:
    seen: list[Any] = []
    ends: list[Any] = []
    stream.subscribe(seen.append, lambda error: ends.append((type(error), str(error))), lambda: ends.append("completed"))
    assert len(ends) == 1, f"{len(ends)} ends"
    return seen, ends[0]


Make: TypeAlias = Callable[[Sequence[Any], Fault | None], Observable[Any]]


def rx_ways(chain: Sequence[Script], make: Make, items: Sequence[Any], fault: Fault | None) -> dict[str, Outcome]:
    """
    Every way to drive the chain by Rx, by name.
    """
    single = [lift(lambda script=script: Scripted(script)) for script in chain]  # type: ignore[misc]
    between = [op for one in single for op in (one, ops.map(lambda item: item))]
    streams: dict[str, Callable[[Observable[Any]], Observable[Any]]] = {
        "lift of the chain": lambda source: source.pipe(lift(lambda: Chain(*stages(chain)))),
        "lift of chains of chains": lambda source: source.pipe(lift(lambda: nested(stages(chain)))),
        "lifts in a row": lambda source: source.pipe(*single),
        "lifts with stock operators between": lambda source: source.pipe(*between),
    }
    return {name: of_rx(stream(make(items, fault))) for name, stream in streams.items()}
