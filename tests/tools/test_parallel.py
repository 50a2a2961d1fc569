"""
The calls of a step: side by side, in order, each once, and never one that is not whole.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterable
from typing import Any

import attrs
import pytest
import reactivex as rx
from hypothesis import given, settings
from hypothesis import strategies as st

from rxchat import chat_events
from rxchat.errors import ToolError
from rxchat.events import ErrorEvent, ResponseEnd
from rxchat.prompt import ToolSpec
from rxchat.response import ChatResponse, FinishReason, ToolCall
from rxchat.tools import ToolFailure, ToolOutcome, ToolPolicy, ToolSet, invoking, run_call, run_calls, tool
from rxchat.toolschema import ToolContext
from tests.tools.calling import a_call, cut_off


class Gates:
    """
    A tool whose calls end when the test says so.
    """

    def __init__(self) -> None:
        self.begun: dict[int, asyncio.Event] = {}
        self.open: dict[int, asyncio.Event] = {}
        self.cancelled: list[int] = []
        self.most = 0
        self.running = 0

    def gate(self, gates: dict[int, asyncio.Event], n: int) -> asyncio.Event:
        return gates.setdefault(n, asyncio.Event())

    @tool
    async def wait(self, n: int) -> int:
        """
        Wait to be let through.
        """
        self.running += 1
        self.most = max(self.most, self.running)
        self.gate(self.begun, n).set()
        try:
            await self.gate(self.open, n).wait()
        except asyncio.CancelledError:
            self.cancelled.append(n)
            raise
        finally:
            self.running -= 1
        return n


def calls(numbers: Iterable[int]) -> list[ToolCall]:
    """
    A call per number.
    """
    return [a_call("wait", f"c{n}", n=n) for n in numbers]


async def test_results_come_in_call_order_as_early_as_can_be() -> None:
    """
    T3: the second waits for the first, and is told with it; the third when it is there.
    """
    gates = Gates()
    told: list[Any] = []
    heard = asyncio.Event()

    def emit(outcome: ToolOutcome) -> None:
        told.append(outcome.result)
        heard.set()

    running = asyncio.create_task(run_calls(calls(range(3)), ToolSet.of([gates.wait]), emit=emit))
    for n in range(3):
        await gates.gate(gates.begun, n).wait()
    gates.gate(gates.open, 1).set()
    await asyncio.sleep(0)
    assert told == []
    gates.gate(gates.open, 0).set()
    while len(told) < 2:
        heard.clear()
        await heard.wait()
    assert told == [0, 1]
    gates.gate(gates.open, 2).set()
    outcomes = await running
    assert [outcome.call.id for outcome in outcomes] == ["c0", "c1", "c2"]
    assert told == [0, 1, 2]


@pytest.mark.parametrize("parallel", [1, 3])
async def test_bounded(parallel: int) -> None:
    """
    T3: never more at once than the policy allows, and as many.
    """
    gates = Gates()
    running = asyncio.create_task(run_calls(calls(range(8)), ToolSet.of([gates.wait]), policy=ToolPolicy(parallel=parallel)))
    await gates.gate(gates.begun, parallel - 1).wait()
    for n in range(8):
        gates.gate(gates.open, n).set()
    outcomes = await running
    assert [outcome.result for outcome in outcomes] == list(range(8))
    assert gates.most == parallel


async def test_who_is_run() -> None:
    """
    P10, T6: what the provider ran, and tools only offered, are left out; unknown names and a second call of one id are refused; each runs once.
    """
    ran: list[str] = []

    @tool
    def look(word: str, context: ToolContext) -> str:
        ran.append(f"{word} {context.call.id} {context.step} {context.response_id}")
        return word

    asked = [
        attrs.evolve(a_call("look", "s", word="there"), server_executed=True),
        a_call("look", "a", word="x"),
        a_call("offered", "b"),
        a_call("nobody", "c"),
        a_call("look", "a", word="y"),
        a_call("look", "", word="no id"),
        a_call("look", "", word="nor here"),
    ]
    outcomes = await run_calls(asked, ToolSet.of([look, ToolSpec("offered")]), step=3, response_id="r", policy=ToolPolicy(parallel=1))
    assert [(outcome.call.id, outcome.failure) for outcome in outcomes] == [
        ("a", None),
        ("c", ToolFailure.UNKNOWN_TOOL),
        ("a", ToolFailure.DUPLICATE),
        ("", None),
        ("", None),
    ]
    assert outcomes[1].result == "error: there is no tool 'nobody'; there are: look, offered"
    assert "a call with the id a was there before" in outcomes[2].result
    assert ran == ["x a 3 r", "no id  3 r", "nor here  3 r"]
    (alone,) = await run_calls([a_call("nobody")], ToolSet())
    assert alone.result == "error: there is no tool 'nobody'; there are: none"


async def test_the_finish_reason_counts_for_all() -> None:
    """
    T2: of a step that ended with `length` no call is run, however whole.
    """
    gates = Gates()
    outcomes = await run_calls(calls(range(2)), ToolSet.of([gates.wait]), finish=FinishReason.LENGTH)
    assert [outcome.failure for outcome in outcomes] == [ToolFailure.FINISH] * 2


async def test_failure_by_policy() -> None:
    """
    The first failure in call order is raised, behind the results before it; what still ran is cancelled.
    """
    gates = Gates()
    gates.gate(gates.open, 0).set()
    told: list[Any] = []

    @tool
    async def bad() -> None:
        await gates.gate(gates.begun, 2).wait()
        raise ValueError("no")

    asked = [*calls([0]), a_call("bad", "x"), *calls([2])]
    with pytest.raises(ToolError, match="tool call x: error: bad failed: ValueError: no"):
        await run_calls(asked, ToolSet.of([gates.wait, bad]), policy=ToolPolicy(on_error="raise"), emit=lambda outcome: told.append(outcome.result))
    assert told == [0]
    assert gates.cancelled == [2]
    with pytest.raises(ToolError, match="no tool"):
        await run_calls([a_call("nobody")], ToolSet(), policy=ToolPolicy(on_error="raise"))


async def test_nothing_begins_behind_a_failure() -> None:
    """
    The place that a failed call leaves is nobody's any more.
    """
    gates = Gates()

    @tool
    async def bad() -> None:
        raise ValueError("no")

    with pytest.raises(ToolError):
        await run_calls([a_call("bad", "x"), *calls(range(3))], ToolSet.of([gates.wait, bad]), policy=ToolPolicy(on_error="raise", parallel=1))
    assert gates.begun == {}


async def test_whoever_hears_may_stop_it() -> None:
    """
    E14: what `emit` raises comes out as it is, and no tool goes on.
    """
    gates = Gates()
    gates.gate(gates.open, 0).set()

    def emit(outcome: ToolOutcome) -> None:
        raise KeyError("enough")

    with pytest.raises(KeyError, match="enough"):
        await run_calls(calls(range(3)), ToolSet.of([gates.wait]), emit=emit)
    assert set(gates.cancelled) <= {1, 2}
    assert gates.running == 0


async def test_cancelled() -> None:
    """
    T5, D4: all tools are cancelled, those that wait for their turn never begin, nothing is left.
    """
    gates = Gates()
    before = asyncio.all_tasks()
    running = asyncio.create_task(run_calls(calls(range(4)), ToolSet.of([gates.wait]), policy=ToolPolicy(parallel=2)))
    await gates.gate(gates.begun, 1).wait()
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert sorted(gates.cancelled) == [0, 1]
    assert sorted(gates.begun) == [0, 1]
    assert asyncio.all_tasks() == before


async def test_one_that_does_not_stop_does_not_hold_up_the_rest(monkeypatch: pytest.MonkeyPatch) -> None:
    """
    After the grace period it is left to itself.
    """
    monkeypatch.setattr(invoking, "GRACE", 0.02)
    begun, release, ended = asyncio.Event(), asyncio.Event(), asyncio.Event()

    @tool
    async def stubborn() -> None:
        begun.set()
        while not release.is_set():
            try:
                await release.wait()
            except asyncio.CancelledError:
                pass
        ended.set()

    running = asyncio.create_task(run_calls([a_call("stubborn")], ToolSet.of([stubborn])))
    await begun.wait()
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asyncio.wait_for(running, 5)
    release.set()
    await ended.wait()


# --- never before it is whole ---------------------------------------------------------------------------------------------------------------------


def body(arguments: str, piece: int, finish: str) -> bytes:
    """
    A stream that calls `book`, `piece` characters of the arguments per frame.
    """
    frames: list[dict[str, Any]] = [{"tool_calls": [{"index": 0, "id": "c", "type": "function", "function": {"name": "book", "arguments": ""}}]}]
    frames += [{"tool_calls": [{"index": 0, "function": {"arguments": arguments[at : at + piece]}}]} for at in range(0, len(arguments), piece)]
    lines: list[Any] = [{"choices": [{"index": 0, "delta": delta, "finish_reason": None}]} for delta in frames]
    lines.append({"choices": [{"index": 0, "delta": {}, "finish_reason": finish}]})
    return b"".join(b"data: " + json.dumps(line).encode() + b"\n\n" for line in lines) + b"data: [DONE]\n\n"


def answers(data: bytes) -> list[ChatResponse]:
    """
    The answer on the terminal, and each step's, as far as they came.
    """
    found: list[ChatResponse] = []

    def keep(event: Any) -> None:
        if isinstance(event, (ResponseEnd, ErrorEvent)):
            found.extend([event.response, *event.response.steps])

    rx.of(data).pipe(chat_events("openai-chat")).subscribe(keep, lambda error: None)
    return found


BOOKED: list[Any] = []


@tool
async def book(city: str, nights: int = 1) -> str:
    """
    Book a room.
    """
    BOOKED.append((city, nights))
    return "booked"


ARGUMENTS = '{"city":"Zürich 🏔","nights":2}'


@given(cut=st.floats(0, 1), piece=st.integers(1, 9), finish=st.sampled_from(["tool_calls", "stop", "length", "content_filter"]))
@settings(max_examples=150, deadline=None)
def test_a_cut_stream_runs_nothing(cut: float, piece: int, finish: str) -> None:
    """
    T1, T2: wherever the stream is cut, the tool runs only if the call was ended by a finish reason that allows it, and then with all it was given.
    """
    whole = body(ARGUMENTS, piece, finish)
    data = whole[: round(cut * len(whole))]
    ended = b'"finish_reason": "tool_calls"}]}\n\n' in data or b'"finish_reason": "stop"}]}\n\n' in data
    for answer in answers(data):
        BOOKED.clear()
        outcomes = asyncio.run(run_calls(answer.tool_calls, ToolSet.of([book]), finish=answer.finish_reason))
        assert len(outcomes) == len(answer.tool_calls)
        assert BOOKED in ([], [("Zürich 🏔", 2)])
        assert ended or BOOKED == []
        assert all(outcome.is_error for outcome in outcomes) or BOOKED


@pytest.mark.parametrize("cut", range(len(ARGUMENTS) + 1))
async def test_every_cut_of_the_arguments(cut: int) -> None:
    """
    T2: a call that was not ended is never run, even where what came happens to be whole JSON, and nothing is put in the place of what is missing.
    """
    BOOKED.clear()
    (outcome,) = await run_calls([cut_off("book", ARGUMENTS[:cut])], ToolSet.of([book]))
    assert outcome.failure is ToolFailure.INCOMPLETE
    assert BOOKED == []


@given(data=st.data())
@settings(max_examples=60, deadline=None)
def test_arguments_arrive_as_they_were_sent(data: st.DataObject) -> None:
    """
    What the model wrote is what the function gets, whatever is in it.
    """
    city, nights = data.draw(st.text()), data.draw(st.integers(-(10**30), 10**30))
    BOOKED.clear()
    (answer, *_) = answers(body(json.dumps({"city": city, "nights": nights}, ensure_ascii=data.draw(st.booleans())), 5, "tool_calls"))
    (outcome,) = asyncio.run(run_calls(answer.tool_calls, ToolSet.of([book]), finish=answer.finish_reason))
    assert (outcome.result, BOOKED) == ("booked", [(city, nights)])


async def test_what_a_tool_leaves_behind_may_run_calls_of_its_own() -> None:
    """
    A task that a tool began runs on behind the end of the step, and is not taken for one of its tools.
    """
    over, jobs = asyncio.Event(), list[asyncio.Task[ToolOutcome]]()

    @tool
    def look() -> str:
        return "found"

    async def job() -> ToolOutcome:
        await over.wait()
        return await run_call(look, a_call("look"))

    @tool
    async def begin() -> str:
        jobs.append(asyncio.create_task(job()))
        return "begun"

    await run_calls([a_call("begin")], ToolSet.of([begin]))
    over.set()
    assert (await jobs[0]).result == "found"
