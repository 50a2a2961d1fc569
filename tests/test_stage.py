"""
The rules of stages: chains, and drivers that all give the same.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rxchat.stage import Chain, ConsumerError, Emit, Stage, StreamDone, arun, run
from tests.scripted import (
    Act,
    Fault,
    Script,
    Scripted,
    chains,
    inside_subscribe,
    nested,
    of_arun,
    of_run,
    on_the_trampoline,
    rx_ways,
    stages,
)

NOTHING = Act()
ONE = Act(1)


def script(name: str, *, start: Act = NOTHING, feeds: tuple[Act, ...] = (ONE,), flush: Act = NOTHING, fail: Act = NOTHING) -> Script:
    return Script(name, start, feeds, flush, fail)


@given(chains, st.lists(st.integers(0, 9), max_size=4), st.booleans())
def test_all_drivers_give_the_same(chain: tuple[Script, ...], items: list[int], fails: bool) -> None:
    """
    Iterator, async iterator, one lifted chain, lifted stages in a row, with stock operators between: same values, same end, faults and early ends included.
    """
    fault = Fault("the source") if fails else None
    expected = of_run(Chain(*stages(chain)), items, fault)
    ways = {
        "run of chains of chains": of_run(nested(stages(chain)), items, fault),
        "arun": asyncio.run(of_arun(Chain(*stages(chain)), items, fault)),
        **rx_ways(chain, on_the_trampoline, items, fault),
    }
    assert ways == dict.fromkeys(ways, expected)
    inside = rx_ways(chain, inside_subscribe, items, fault)
    assert inside == dict.fromkeys(inside, expected)


OVER = "completed"


@pytest.mark.parametrize(
    ("chain", "items", "fault", "values", "end"),
    [
        pytest.param([script("a")], [1, 2], None, [("a", 1, 0), ("a", 2, 0)], OVER, id="one to one"),
        pytest.param([script("a", feeds=(Act(2),))], [1], None, [("a", 1, 0), ("a", 1, 1)], OVER, id="one to many"),
        pytest.param([script("a", feeds=(NOTHING,))], [1], None, [], OVER, id="one to none"),
        pytest.param([script("a", start=ONE, flush=ONE)], [], None, [("a", "start", 0), ("a", "flush", 0)], OVER, id="start and flush speak"),
        pytest.param([script("a", fail=ONE)], [1], "off", [("a", 1, 0), ("a", "off", 0)], "off", id="a source's fault passes fail"),
        pytest.param([script("a", feeds=(Act(1, "fault"),))], [1, 2], None, [("a", 1, 0)], "a at 1", id="values before the fault"),
        pytest.param([script("a", feeds=(Act(1, "done"),))], [1, 2], None, [("a", 1, 0)], OVER, id="done: the rest is not read"),
        pytest.param([script("a", flush=Act(1, "fault"))], [], None, [("a", "flush", 0)], "a at flush", id="not whole at the end"),
        pytest.param([script("a", flush=Act(0, "done"))], [], None, [], OVER, id="done at the end"),
        pytest.param([script("a", fail=Act(0, "fault"))], [], "off", [], "a at off", id="a fault about a fault"),
        pytest.param([script("a", fail=Act(1, "done"))], [], "off", [("a", "off", 0)], OVER, id="done at a fault: it wants no more, nor the fault"),
        pytest.param([script("a", start=Act(0, "fault"))], [1], None, [], "a at start", id="fault at start"),
        pytest.param([script("a", start=Act(0, "done"))], [1], None, [], OVER, id="done at start"),
        pytest.param(
            [script("a", start=ONE), script("b", start=ONE)],
            [],
            None,
            [("b", "start", 0), ("b", ("a", "start", 0), 0)],
            OVER,
            id="the last one starts first: nobody is fed before it started",
        ),
        pytest.param(
            [script("a", feeds=(Act(0, "fault"),)), script("b", fail=ONE)],
            [1],
            None,
            [("b", "a at 1", 0)],
            "a at 1",
            id="those behind are told of a fault",
        ),
        pytest.param(
            [script("a", feeds=(Act(0, "done"),)), script("b", flush=ONE)],
            [1],
            None,
            [("b", "flush", 0)],
            OVER,
            id="those behind are flushed at an early end",
        ),
        pytest.param(
            [script("a"), script("b", feeds=(Act(0, "done"),)), script("c", flush=ONE)],
            [1, 2],
            None,
            [("c", "flush", 0)],
            OVER,
            id="an end in the middle",
        ),
        pytest.param(
            [script("a"), script("b", feeds=(Act(0, "fault"),)), script("c", fail=Act(1, "fault"))],
            [1],
            None,
            [("c", "b at ('a', 1, 0)", 0)],
            "c at b at ('a', 1, 0)",
            id="a fault about a fault, behind",
        ),
    ],
)
def test_what_comes_out(chain: list[Script], items: list[int], fault: str | None, values: list[Any], end: str) -> None:
    """
    What the rules of stages mean, one by one; the drivers are compared elsewhere.
    """
    seen, ended = of_run(Chain(*stages(chain)), items, Fault(fault) if fault else None)
    assert (seen, ended if isinstance(ended, str) else ended[1]) == (values, end)


def test_a_fault_keeps_its_identity_and_its_cause() -> None:
    """
    A chain hands on the very error, and the cause it was raised with.
    """
    cause = ValueError("cause")
    fault = Fault("fault")

    class Raises(Stage[Any, Any]):
        def feed(self, item: Any, emit: Emit[Any]) -> None:
            raise fault from cause

    with pytest.raises(Fault) as caught:
        list(run(Chain(Chain(Raises()), Scripted(script("b"))), [1]))
    assert caught.value is fault
    assert caught.value.__cause__ is cause


def test_what_emit_raises_is_no_fault_of_the_stage() -> None:
    """
    Neither a subscriber's exception nor an interrupt is told to the stages as a fault (rule 6).
    """
    told: list[Exception] = []

    class Listens(Stage[Any, Any]):
        def feed(self, item: Any, emit: Emit[Any]) -> None:
            emit(item)

        def fail(self, error: Exception, emit: Emit[Any]) -> None:
            told.append(error)

    def raises(error: BaseException) -> Emit[Any]:
        def emit(item: Any) -> None:
            raise error

        return emit

    for error in (ConsumerError(ValueError()), KeyboardInterrupt()):
        chain: Chain[Any, Any] = Chain(Listens(), Chain(Listens(), Listens()), Listens())
        with pytest.raises(type(error)) as caught:
            chain.feed(1, raises(error))
        assert caught.value is error
    assert told == []


def test_a_chain_may_be_told_another_emit() -> None:
    """
    Each call goes to the emit it was given.
    """
    first: list[Any] = []
    second: list[Any] = []
    chain: Chain[Any, Any] = Chain(Scripted(script("a")), Scripted(script("b", flush=ONE)))
    to_first, to_second = first.append, second.append
    chain.feed(1, to_first)
    chain.feed(2, to_first)
    chain.flush(to_second)
    assert first == [("b", ("a", 1, 0), 0), ("b", ("a", 2, 0), 0)]
    assert second == [("b", "flush", 0)]


def test_an_empty_chain_passes_everything() -> None:
    """
    No stages: what goes in comes out.
    """
    assert list(run(Chain(), [1, 2])) == [1, 2]


def test_run_is_lazy() -> None:
    """
    An item is read only when those made of the item before have been taken.
    """
    read: list[int] = []

    def source() -> Iterator[int]:
        for n in range(9):
            read.append(n)
            yield n

    out = run(Scripted(script("a", feeds=(Act(2),))), source())
    assert [next(out), next(out)] == [("a", 0, 0), ("a", 0, 1)]
    assert read == [0]


async def test_arun_may_be_left() -> None:
    """
    Leaving the loop stops reading; a cancellation passes as it is.
    """
    read: list[int] = []

    async def source() -> AsyncIterator[int]:
        for n in range(9):
            read.append(n)
            yield n
        raise AssertionError("read to the end")

    async for item in arun(Scripted(script("a")), source()):
        assert item == ("a", 0, 0)
        break
    assert read == [0]

    async def cancelled() -> AsyncIterator[int]:
        raise asyncio.CancelledError
        yield 0

    with pytest.raises(asyncio.CancelledError):
        async for _ in arun(Scripted(script("a")), cancelled()):
            pass


def test_stage_does_nothing_by_itself() -> None:
    """
    Only `feed` must be written; the rest is silent by default.
    """
    stage: Stage[Any, Any] = Stage()
    out: list[Any] = []
    stage.start(out.append)
    stage.flush(out.append)
    stage.fail(ValueError(), out.append)
    assert out == []
    with pytest.raises(NotImplementedError):
        stage.feed(1, out.append)


def test_done_is_no_exception() -> None:
    """
    No `except Exception` of a stage takes the end for a fault.
    """
    assert not issubclass(StreamDone, Exception)
    assert not issubclass(ConsumerError, Exception)
