"""
The loop of steps (contract T4): what is run, what is asked then, how it ends; pushed by hand, so that each moment can be looked at.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from typing import Any

import pytest

from rxchat import recover, tool
from rxchat.client import Retry
from rxchat.client.rules import step_rules
from rxchat.errors import ConfigurationError, ConnectionLostError, HTTPStatusError, ToolError, TotalTimeout, Verdict
from rxchat.events import ChatEvent, ErrorEvent, StepEnd, TextDelta, ToolResult
from rxchat.filters import by_type
from rxchat.normalizer import Normalizer
from rxchat.prompt import Message, ToolSpec
from rxchat.response import ChatResponse, FinishReason, ToolResultPart
from rxchat.serialize import dumps, loads
from rxchat.stage import run
from rxchat.testing import FakeAnswer, FakeProvider
from rxchat.tools import StepContext, ToolPolicy
from tests.client.hand import Hand
from tests.client.stepping import Asked, Weather, a_call, called, idle, said, stepping, tags, watched
from tests.client.watching import Watcher
from tests.grammar import violations
from tests.loopback import DONE, delta, frame

STEADY = Retry(jitter=0)


def ended(hand: Hand) -> tuple[Any, ...]:
    """
    How it ended: what breaks the grammar, the verdict, the error's class, and how often it was told.
    """
    watcher = hand.watcher
    return violations(watcher.items), hand.call.verdict, type(watcher.error), watcher.completed + watcher.failed


WELL: tuple[Any, ...] = ([], Verdict.COMPLETE, type(None), 1)


async def asked_again(hand: Hand, bodies: int = 2) -> Hand:
    """
    The call, as soon as it has sent so many requests, or ended.
    """
    for _ in range(500):
        if len(hand.bodies) >= bodies or hand.watcher.over.is_set():
            return hand
        await asyncio.sleep(0.001)
    raise AssertionError(f"no request {bodies}: {hand.types}")


async def over(hand: Hand) -> Hand:
    """
    The call at its end.
    """
    await hand.watcher.end()
    assert await idle() == []
    return hand


async def in_tool(weather: Weather, **settings: Any) -> Hand:
    """
    A call whose tool is running.
    """
    weather.gate = asyncio.Event()
    hand = stepping([weather.tool], **settings).begin()
    hand.body.headers().push(called("Rome"))
    await asyncio.wait_for(weather.begun.wait(), 5)
    return hand


# --- two steps ------------------------------------------------------------------------------------------------------------------------------------


async def test_two_steps_are_one_response() -> None:
    """
    T4: the grammar, one ResponseStart, one terminal; StepEnd has the results, the answer everything.
    """
    weather, asked = Weather(), Asked()
    hand = stepping([weather.tool], asked).begin()
    hand.body.headers().push(delta("Let me look."), called("Rome", "Paris"))
    await asked_again(hand)
    hand.body.headers().push(said("Sunny."))
    assert ended(await over(hand)) == WELL
    assert tags(hand.watcher.items, "TEXT_START", "TEXT_DELTA", "TEXT_END", "TOOL_CALL_ARGS_DELTA") == (
        "RESPONSE_START STEP_START TOOL_CALL_START TOOL_CALL_START TOOL_CALL_END TOOL_CALL_END TOOL_RESULT TOOL_RESULT STEP_END "
        "STEP_START STEP_END RESPONSE_END"
    )
    first, second = (event for event in hand.watcher.items if isinstance(event, StepEnd))
    results = (ToolResultPart("call_0", "sunny in Rome"), ToolResultPart("call_1", "sunny in Paris"))
    assert (first.step, first.response.parts[-2:], first.response.finish_reason) == (0, results, FinishReason.TOOL_CALLS)
    answer = hand.call.response
    assert (second.step, answer.text, len(answer.tool_calls), answer.steps) == (1, "Let me look.Sunny.", 2, (first.response, second.response))
    assert (weather.ran, hand.call.attempts, asked.first) == (["Rome", "Paris"], 2, [True, False])
    assert asked.messages[1] == (Message.user("How is it?"), *Message.of(first.response))


async def test_the_connection_is_left_before_a_tool_runs() -> None:
    """
    An approval that takes an hour holds none, and no clock of the request runs.
    """
    weather = Weather()
    hand = await in_tool(weather, connect_timeout=1, first_event_timeout=1, read_timeout=1)
    assert (hand.body.left, len(hand.bodies), hand.types[-1]) == (True, 1, "TOOL_CALL_END")
    hand.wait(3600)
    assert (hand.call.verdict, hand.watcher.over.is_set()) == (None, False)
    assert weather.gate is not None
    weather.gate.set()
    await asked_again(hand)
    hand.body.headers().push(said("Sunny."))
    assert ended(await over(hand)) == WELL


async def test_results_are_told_as_soon_as_they_may() -> None:
    """
    T3: in call order, each when it and all before it are there.
    """
    gates = {city: asyncio.Event() for city in ("Rome", "Paris", "Oslo")}

    async def weather(city: str) -> str:
        """How it is."""
        await gates[city].wait()
        return city

    hand = stepping([weather]).begin()
    hand.body.headers().push(called("Rome", "Paris", "Oslo"))
    told: list[list[str]] = []
    for city in ("Paris", "Rome", "Oslo"):
        gates[city].set()
        await asyncio.sleep(0.02)
        told.append([event.result for event in hand.watcher.items if isinstance(event, ToolResult)])
    assert told == [[], ["Rome", "Paris"], ["Rome", "Paris", "Oslo"]]
    hand.body.headers().push(said("Done."))
    assert ended(await over(hand)) == WELL


async def test_a_body_that_ends_with_its_transfer() -> None:
    """
    No `[DONE]`: the end is found at the clean end of the body.
    """
    weather = Weather()
    hand = stepping([weather.tool]).begin()
    hand.body.headers().push(called("Rome").replace(DONE, b""))
    assert weather.ran == []
    hand.body.end()
    await asked_again(hand)
    hand.body.headers().push(said("Sunny."))
    assert (ended(await over(hand)), weather.ran) == (WELL, ["Rome"])


async def test_what_comes_out_is_a_fixed_point_and_survives_being_stored() -> None:
    """
    N8, and the events as text and back.
    """
    hand = stepping([Weather().tool]).begin()
    hand.body.headers().push(called("Rome", "Paris"))
    await asked_again(hand)
    hand.body.headers().push(called("Oslo"))
    await asked_again(hand, 3)
    hand.body.headers().push(said("Sunny."))
    events = (await over(hand)).watcher.items
    assert list(run(Normalizer(), events)) == events
    assert [loads(dumps(event)) for event in events] == events


# --- what ends it ---------------------------------------------------------------------------------------------------------------------------------


async def test_max_steps_leaves_the_calls_alone() -> None:
    """
    T4: they are not run, the answer is no whole one and says why.
    """
    weather = Weather()
    hand = stepping([weather.tool], rules={"max_steps": 2}).begin()
    hand.body.headers().push(called("Rome"))
    await asked_again(hand)
    hand.body.headers().push(called("Paris"))
    assert ended(await over(hand)) == ([], Verdict.INCOMPLETE_FINISH, type(None), 1)
    answer = hand.call.response
    assert (weather.ran, len(hand.bodies), answer.metadata, answer.committable) == (["Rome"], 2, {"ended_by": "max_steps"}, False)
    assert (answer.tool_calls[-1].complete, answer.finish_reason) == (True, FinishReason.TOOL_CALLS)


async def later(answer: ChatResponse) -> bool:
    """
    An async function may say it too.
    """
    await asyncio.sleep(0)
    return "sunny in Rome" in [part.result for part in answer.parts if isinstance(part, ToolResultPart)]


STOPS = [lambda answer: len(answer.steps) == 1, [lambda answer: False, lambda answer: True], later]


@pytest.mark.parametrize("stop", STOPS, ids=["steps", "any", "async"])
async def test_stop_when_ends_it_behind_the_results(stop: Any) -> None:
    """
    The regular way: the calls are answered, the answer is whole.
    """
    hand = stepping([Weather().tool], rules={"stop_when": stop}).begin()
    hand.body.headers().push(called("Rome"))
    assert (ended(await over(hand)), len(hand.bodies)) == (WELL, 1)
    assert (hand.types[-3:], hand.call.response.metadata) == (["TOOL_RESULT", "STEP_END", "RESPONSE_END"], {"ended_by": "stop_when"})


async def test_a_direct_result_ends_it() -> None:
    """
    The model is not asked again; one that failed is told to it.
    """

    @tool(return_direct=True)
    def weather(city: str) -> str:
        """How it is."""
        if city == "Oslo":
            raise ValueError("dark")
        return city

    hand = stepping([weather]).begin()
    hand.body.headers().push(called("Oslo"))
    await asked_again(hand)
    hand.body.headers().push(called("Rome"))
    assert (ended(await over(hand)), len(hand.bodies)) == (WELL, 2)
    answer = hand.call.response
    assert (answer.parts[-1], answer.metadata) == (ToolResultPart("call_0", "Rome"), {"ended_by": "return_direct"})


async def test_a_bare_schema_is_only_reported() -> None:
    """
    T6: also where there are others that could be run.
    """
    hand = stepping([ToolSpec("weather"), tool(lambda: "x", name="other")]).begin()
    hand.body.headers().push(called("Rome"))
    assert (ended(await over(hand)), hand.call.response.finish_reason, len(hand.bodies)) == (WELL, FinishReason.TOOL_CALLS, 1)


async def test_one_that_nobody_here_answers_leaves_all_alone() -> None:
    """
    The caller gets them all, and none twice.
    """
    weather = Weather()
    other = frame(delta={"tool_calls": [{"index": 9, "id": "call_9", "type": "function", "function": {"name": "search", "arguments": "{}"}}]})
    hand = stepping([weather.tool, ToolSpec("search")]).begin()
    hand.body.headers().push(other, called("Rome"))
    assert (ended(await over(hand)), weather.ran, len(hand.call.response.tool_calls)) == (WELL, [], 2)


@pytest.mark.parametrize("word, reason", [("length", "length"), ("content_filter", "content_filter"), ("odd", "other")])
async def test_a_finish_that_allows_no_run(word: str, reason: str) -> None:
    """
    T1, T2: nothing runs, nothing is asked.
    """
    weather = Weather()
    hand = stepping([weather.tool]).begin()
    hand.body.headers().push(called("Rome").replace(b'"finish_reason": "tool_calls"', f'"finish_reason": "{word}"'.encode()))
    assert ended(await over(hand)) == ([], Verdict.INCOMPLETE_FINISH, type(None), 1)
    assert (weather.ran, hand.call.response.finish_reason, len(hand.bodies)) == ([], reason, 1)


async def test_a_text_alone_is_one_step() -> None:
    """
    Also where there are tools.
    """
    hand = stepping([Weather().tool], rules={"max_steps": 1}).begin()
    hand.body.headers().push(said("Hello."))
    assert (ended(await over(hand)), hand.call.response.metadata, len(hand.bodies)) == (WELL, {}, 1)


def responses(*events: dict[str, Any]) -> bytes:
    """
    A body of openai-responses.
    """
    return b"".join(f"event: {event['type']}\ndata: {json.dumps(event)}\n\n".encode() for event in events)


async def test_a_call_that_was_cut_ends_it() -> None:
    """
    T2: where a provider says so of one call of an answer that is complete otherwise; it can neither be run nor sent back.
    """
    item = {"type": "function_call", "id": "fc_1", "call_id": "call_1", "name": "weather", "arguments": ""}
    cut = {**item, "arguments": '{"city":"Ro', "status": "incomplete"}
    head = {"id": "resp_1", "object": "response", "model": "m", "output": []}
    weather = Weather()
    hand = stepping([weather.tool], dialect="openai-responses").begin()
    hand.body.headers().push(
        responses(
            {"type": "response.created", "response": {**head, "status": "in_progress"}},
            {"type": "response.output_item.added", "output_index": 0, "item": {**item, "status": "in_progress"}},
            {"type": "response.function_call_arguments.delta", "output_index": 0, "item_id": "fc_1", "delta": '{"city":"Ro'},
            {"type": "response.output_item.done", "output_index": 0, "item": cut},
            {"type": "response.completed", "response": {**head, "status": "completed", "output": [cut]}},
        )
    )
    assert ended(await over(hand)) == ([], Verdict.INCOMPLETE_FINISH, type(None), 1)
    assert (weather.ran, len(hand.bodies), hand.call.response.metadata["ended_by"]) == ([], 1, "cut_call")


async def test_an_item_for_the_client_leaves_all_alone() -> None:
    """
    P12: what the client itself has to answer, beside a call: nothing is run twice.
    """
    call = {"type": "function_call", "id": "fc_1", "call_id": "call_1", "name": "weather", "arguments": '{"city":"Rome"}', "status": "completed"}
    shell = {"type": "shell_call", "id": "sh_1", "call_id": "call_2", "action": {"commands": ["ls"]}, "status": "completed"}
    head = {"id": "resp_1", "object": "response", "model": "m", "output": []}
    weather = Weather()
    hand = stepping([weather.tool], dialect="openai-responses").begin()
    hand.body.headers().push(
        responses(
            {"type": "response.created", "response": {**head, "status": "in_progress"}},
            {"type": "response.output_item.done", "output_index": 0, "item": call},
            {"type": "response.output_item.done", "output_index": 1, "item": shell},
            {"type": "response.completed", "response": {**head, "status": "completed", "output": [call, shell]}},
        )
    )
    assert (ended(await over(hand)), weather.ran, len(hand.bodies)) == (WELL, [], 1)


# --- what is not run, and what fails --------------------------------------------------------------------------------------------------------------

WRONG = {
    "invalid json": (b'{\\"city\\"', "not one strict JSON object"),
    "no object": (b"[1]", "JSON array"),
    "the wrong type": (b'{\\"city\\":3}', "do not fit its schema: at /city"),
    "nothing": (b"{}", "'city' is a required property"),
}
ROME_ARGUMENTS = b'{\\"city\\":\\"Rome\\"}'


@pytest.mark.parametrize("name", WRONG)
@pytest.mark.parametrize("policy", ["result", "raise"])
async def test_a_call_that_cannot_run(name: str, policy: Any) -> None:
    """
    T2: the model is told, or the answer fails with verdict TOOL: StepEnd(partial), ErrorEvent, on_error.
    """
    weather = Weather()
    text, words = WRONG[name]
    hand = stepping([weather.tool], rules={"policy": ToolPolicy(on_error=policy)}).begin()
    hand.body.headers().push(called("Rome").replace(ROME_ARGUMENTS, text))
    await asked_again(hand)
    assert weather.ran == []
    if policy == "raise":
        assert ended(await over(hand)) == ([], Verdict.TOOL, ToolError, 1)
        assert words in str(hand.watcher.error)
        return
    (result,) = (event for event in hand.watcher.items if isinstance(event, ToolResult))
    assert (result.is_error, words in result.result) == (True, True)
    hand.body.headers().push(said("Sorry."))
    assert ended(await over(hand)) == WELL


@pytest.mark.parametrize("decision", [False, "not today"])
async def test_a_call_that_is_not_allowed(decision: Any) -> None:
    """
    The hook is asked with the call; the model reads why.
    """
    weather = Weather()
    requests: list[str] = []

    def authorize(request: Any) -> Any:
        requests.append(request.call.id)
        return decision

    hand = stepping([weather.tool], rules={"authorize": authorize}).begin()
    hand.body.headers().push(called("Rome"))
    await asked_again(hand)
    hand.body.headers().push(said("Sorry."))
    assert (ended(await over(hand)), weather.ran, requests) == (WELL, [], ["call_0"])
    assert "is not allowed" in hand.call.response.steps[0].parts[-1].result  # type: ignore[union-attr]


async def test_a_tool_nobody_has() -> None:
    """
    The model is told which there are.
    """
    hand = stepping([Weather().tool]).begin()
    hand.body.headers().push(called("Rome").replace(b'"name": "weather"', b'"name": "forecast"'))
    await asked_again(hand)
    hand.body.headers().push(said("Sorry."))
    assert ended(await over(hand)) == WELL
    assert "there are: weather" in hand.call.response.steps[0].parts[-1].result  # type: ignore[union-attr]


async def test_a_failure_keeps_what_had_come() -> None:
    """
    V2: of all steps, the first result too, and the step's own finish.
    """

    def weather(city: str) -> str:
        """How it is."""
        if city == "Oslo":
            raise ValueError("dark")
        return city

    hand = stepping([weather], rules={"policy": ToolPolicy(on_error="raise")}).begin()
    hand.body.headers().push(called("Rome", "Oslo"))
    assert ended(await over(hand)) == ([], Verdict.TOOL, ToolError, 1)
    assert tags(hand.watcher.items[-3:]) == "TOOL_RESULT STEP_END ERROR"
    terminal = hand.watcher.items[-1]
    assert isinstance(terminal, ErrorEvent)
    assert (terminal.error is hand.watcher.error, terminal.response) == (True, hand.call.response)
    (step,) = terminal.response.steps
    assert (step.parts[-1], step.verdict, step.finish_reason) == (ToolResultPart("call_0", "Rome"), Verdict.TOOL, FinishReason.TOOL_CALLS)


FAILING: dict[str, Callable[[], dict[str, Any]]] = {
    "stop_when": lambda: {"rules": {"stop_when": lambda answer: 1 / 0}},
    "explain": lambda: {"rules": {"policy": ToolPolicy(explain=lambda error: str(1 / 0))}},
}


@pytest.mark.parametrize("name", FAILING)
async def test_a_function_of_the_caller_that_fails(name: str) -> None:
    """
    The answer fails, with all that had come; the cause is what was raised.
    """

    def weather(city: str) -> str:
        """How it is."""
        raise ValueError

    hand = stepping([weather], **FAILING[name]()).begin()
    hand.body.headers().push(called("Rome"))
    assert ended(await over(hand)) == ([], Verdict.TOOL, ToolError, 1)
    assert isinstance(hand.watcher.error and hand.watcher.error.__cause__, ZeroDivisionError)


class Odd(BaseException):
    """
    What no `except Exception` catches.
    """


@pytest.mark.parametrize("raised", [Odd, asyncio.CancelledError])
@pytest.mark.parametrize("where", ["stop_when", "tools"])
async def test_what_is_no_exception_fails_the_answer_too(where: str, raised: type[BaseException]) -> None:
    """
    Something a function of the caller waited for was cancelled, say: the answer ends, where nobody has left it.
    """

    def fail(_: object) -> bool:
        raise raised

    hand = stepping([Weather().tool], rules={"stop_when": fail}).begin() if where == "stop_when" else stepping(fail).begin()
    if where == "stop_when":
        hand.body.headers().push(called("Rome"))
    assert ended(await over(hand)) == ([], Verdict.TOOL, ToolError, 1)
    assert isinstance(hand.watcher.error and hand.watcher.error.__cause__, raised)


# --- tools of each step ---------------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("awaits", [False, True])
async def test_each_step_may_choose_its_tools(awaits: bool) -> None:
    """
    Told its number, what will be asked, and the answer of the step before; also asynchronously.
    """
    weather, asked, contexts = Weather(), Asked(), list[StepContext]()

    def choose(context: StepContext) -> Any:
        contexts.append(context)
        return [weather.tool] if context.step == 0 else []

    async def choose_later(context: StepContext) -> Any:
        await asyncio.sleep(0)
        return choose(context)

    hand = stepping(choose_later if awaits else choose, asked).begin()
    assert (hand.types, hand.bodies) == (["RESPONSE_START"], [])
    await asked_again(hand, 1)
    hand.body.headers().push(called("Rome"))
    await asked_again(hand)
    hand.body.headers().push(said("Sunny."))
    assert (ended(await over(hand)), [len(tools) for tools in asked.tools]) == (WELL, [1, 0])
    first, second = contexts
    assert (first, second.step) == (StepContext(0, (Message.user("How is it?"),), None), 1)
    assert (second.messages, second.previous) == (asked.messages[1], hand.call.response.steps[0])


WRONG_TOOLS: dict[str, tuple[Callable[[], Any], type[Exception]]] = {
    "raises": (lambda: 1 / 0, ZeroDivisionError),
    "text": (lambda: "weather", ConfigurationError),
    "number": (lambda: [3], ConfigurationError),
}


@pytest.mark.parametrize("step", [0, 1])
@pytest.mark.parametrize("name", WRONG_TOOLS)
async def test_tools_that_cannot_be_had(step: int, name: str) -> None:
    """
    The response has begun: ErrorEvent, then on_error; nothing more is asked.
    """
    weather, (wrong, cause) = Weather(), WRONG_TOOLS[name]
    hand = stepping(lambda context: [weather.tool] if context.step < step else wrong()).begin()
    if step:
        await asked_again(hand, 1)
        hand.body.headers().push(called("Rome"))
    assert (ended(await over(hand)), len(hand.bodies)) == (([], Verdict.TOOL, ToolError, 1), step)
    assert (type(hand.watcher.error and hand.watcher.error.__cause__), len(hand.call.response.steps)) == (cause, step)


@pytest.mark.parametrize(
    "said_of, words",
    [
        ({"max_steps": 0}, "max_steps is a number from 1, not 0"),
        ({"max_steps": True}, "max_steps is a number from 1"),
        ({"max_steps": "3"}, "max_steps is a number from 1"),
        ({"stop_when": [3]}, "stop_when is a function"),
        ({"authorize": lambda request: True, "policy": ToolPolicy(authorize=lambda request: True)}, "authorize is said twice"),
        ({"tools": tool(Weather().tool)}, "a sequence of tools"),
        ({"tools": ToolSpec("x")}, "a sequence of tools"),
        ({"tools": "x"}, "a sequence of tools, not str"),
    ],
)
def test_rules_that_cannot_be_meant(said_of: dict[str, Any], words: str) -> None:
    """
    Refused before anything is sent.
    """
    rules = {"tools": (), "max_steps": 3, "stop_when": (), "authorize": None, "policy": None, **said_of}
    with pytest.raises(ConfigurationError, match=words):
        step_rules(**rules)


# --- retries and budgets --------------------------------------------------------------------------------------------------------------------------


async def test_each_step_has_attempts_of_its_own() -> None:
    """
    D5: what failed before the first event of the second step is sent again, with the same messages; the tools do not run again.
    """
    weather, asked = Weather(), Asked()
    hand = stepping([weather.tool], asked, retry=STEADY).begin()
    for status in (503, 503):
        hand.body.refuse(status)
        hand.wait(2)
    hand.body.headers().push(called("Rome"))
    await asked_again(hand, 4)
    for status in (503, 503):
        hand.body.refuse(status)
        hand.wait(2)
    hand.body.headers().push(said("Sunny."))
    assert ended(await over(hand)) == WELL
    assert (hand.call.attempts, len(asked.messages), weather.ran, [event.type for event in hand.watcher.items].count("STEP_START")) == (
        6,
        2,
        ["Rome"],
        2,
    )
    assert [event.step for event in hand.watcher.items if isinstance(event, StepEnd)] == [0, 1]


async def test_a_second_step_that_is_refused() -> None:
    """
    The first one stays, whole, in the partial answer.
    """
    hand = stepping([Weather().tool], retry=None).begin()
    hand.body.headers().push(called("Rome"))
    await asked_again(hand)
    hand.body.refuse(401)
    assert ended(await over(hand)) == ([], Verdict.HTTP_STATUS, HTTPStatusError, 1)
    (step,) = hand.call.response.steps
    assert (step.verdict, step.parts[-1]) == (None, ToolResultPart("call_0", "sunny in Rome"))


async def test_a_second_step_that_breaks() -> None:
    """
    Behind its first event nothing is sent again; its step is marked, the one before is not.
    """
    hand = stepping([Weather().tool], retry=STEADY).begin()
    hand.body.headers().push(called("Rome"))
    await asked_again(hand)
    hand.body.headers().push(delta("Su")).fail(ConnectionLostError("gone"))
    assert ended(await over(hand)) == ([], Verdict.CONNECTION_LOST, ConnectionLostError, 1)
    answer = hand.call.response
    assert (answer.text, [step.verdict for step in answer.steps], len(hand.bodies)) == ("Su", [None, Verdict.CONNECTION_LOST], 2)


async def test_a_body_that_breaks_behind_its_calls_runs_nothing() -> None:
    """
    T1: whole calls and a finish reason are no end.
    """
    weather = Weather()
    hand = stepping([weather.tool], retry=STEADY).begin()
    hand.body.headers().push(called("Rome").replace(DONE, b"")).fail(ConnectionLostError("gone"))
    assert (ended(await over(hand)), weather.ran, len(hand.bodies)) == (([], Verdict.CONNECTION_LOST, ConnectionLostError, 1), [], 1)


async def test_the_total_budget_counts_the_tools() -> None:
    """
    It ends them, and the answer.
    """
    weather = Weather()
    hand = await in_tool(weather, total_timeout=5)
    hand.wait(5)
    assert ended(await over(hand)) == ([], Verdict.TOTAL_TIMEOUT, TotalTimeout, 1)
    assert hand.call.response.metadata == {"ended_by": "in_tools"}
    assert (weather.cancelled, len(hand.bodies), tags(hand.watcher.items[-2:])) == (1, 1, "STEP_END ERROR")


async def test_an_attempt_that_failed_in_its_tools_is_not_recovered() -> None:
    """
    A tool that had begun would begin again, also where no result of it is known.
    """
    weather, watcher = Weather(), Watcher()
    weather.gate = asyncio.Event()
    hand = stepping([weather.tool])
    watcher.watch(hand.call.events.pipe(recover()), hand.scheduler)
    hand.body.headers().push(called("Rome"))
    await asyncio.wait_for(weather.begun.wait(), 5)
    assert hand.call._run is not None
    hand.call._run.fail(ConnectionLostError("gone"))
    await watcher.end()
    assert (type(watcher.error), len(hand.bodies), violations(watcher.items)) == (ConnectionLostError, 1, [])
    assert await idle() == []


async def test_what_is_hidden_is_done_all_the_same() -> None:
    """
    F: a filter controls delivery only.
    """
    script = [FakeAnswer(a_call(1, '{"city":"Rome"}')), FakeAnswer("Sunny.")]
    async with FakeProvider(script) as provider:
        call, watcher = await watched(provider, tools=[Weather().tool], event_filter=by_type(TextDelta))
    assert tags(watcher.items) == "RESPONSE_START STEP_START STEP_END STEP_START TEXT_DELTA STEP_END RESPONSE_END"
    assert (call.response.text, len(call.response.tool_calls), call.verdict) == ("Sunny.", 1, Verdict.COMPLETE)


async def test_a_pause_ends_it() -> None:
    """
    As it came: nothing is run, and the answer is no whole one.
    """
    weather = Weather()
    async with FakeProvider([FakeAnswer("Wait", finish=FinishReason.PAUSE)]) as provider:
        call, _ = await watched(provider, "anthropic", tools=[weather.tool])
    assert (call.verdict, call.response.finish_reason, weather.ran, call.attempts) == (Verdict.INCOMPLETE_FINISH, FinishReason.PAUSE, [], 1)


async def test_times_and_bytes_of_all_steps() -> None:
    """
    The first content is the first step's, the connection the last one's; a result was caused by no bytes.
    """
    script = [FakeAnswer("Look.", a_call(1, '{"city":"Rome"}')), FakeAnswer("Sunny.")]
    async with FakeProvider(script) as provider:
        model = provider.model("openai-chat", provenance=True)
        call = model.open("How?", tools=[Weather().tool])
        watcher = await Watcher().watch(call.events).end()
    times = call.timings
    assert times.first_event is not None
    assert times.connected is not None
    assert times.ended is not None
    assert (times.first_event < times.connected < times.ended, times.attempts) == (True, 2)
    spans = {event.type: event.span for event in watcher.items if event.type in ("TOOL_RESULT", "TEXT_DELTA", "STEP_END")}
    assert (spans["TOOL_RESULT"], spans["TEXT_DELTA"] is None) == (None, False)


# --- leaving --------------------------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("how", ["call", "subscription"])
async def test_disposed_while_a_tool_runs(how: str) -> None:
    """
    T5, E8: the tool is cancelled, nothing is told, nothing is asked.
    """
    weather = Weather()
    hand = await in_tool(weather)
    before = list(hand.types)
    hand.call.dispose() if how == "call" else hand.watcher.dispose()
    assert await idle() == []
    assert (weather.cancelled, hand.types, len(hand.bodies), hand.call.verdict) == (1, before, 1, Verdict.CANCELLED)


async def test_aborted_while_a_tool_runs() -> None:
    """
    D7: StepEnd(partial), Abort, on_completed; the tool is cancelled.
    """
    weather = Weather()
    hand = await in_tool(weather)
    hand.call.abort("enough")
    assert ended(await over(hand)) == ([], Verdict.ABORTED, type(None), 1)
    assert (weather.cancelled, len(hand.bodies), tags(hand.watcher.items[-2:])) == (1, 1, "STEP_END ABORT")
    (step,) = hand.call.response.steps
    assert (step.verdict, step.tool_calls[0].arguments, step.finish_reason) == (Verdict.ABORTED, {"city": "Rome"}, FinishReason.TOOL_CALLS)


async def test_left_while_an_approval_waits() -> None:
    """
    The same for a hook that asks a person.
    """
    weather, waits = Weather(), asyncio.Event()

    async def authorize(request: Any) -> bool:
        waits.set()
        await asyncio.Event().wait()
        return True

    hand = stepping([weather.tool], rules={"authorize": authorize}).begin()
    hand.body.headers().push(called("Rome"))
    await asyncio.wait_for(waits.wait(), 5)
    assert hand.body.left
    hand.watcher.dispose()
    assert (await idle(), weather.ran, len(hand.bodies)) == ([], [], 1)


MOMENTS = ["TOOL_CALL_END", "TOOL_RESULT", "STEP_END", "STEP_START"]


@pytest.mark.parametrize("moment", MOMENTS)
@pytest.mark.parametrize("how", ["dispose", "abort", "raise"])
async def test_leaving_inside_on_next(moment: str, how: str) -> None:
    """
    D4, D7, E14: at each event around the tools; no further request, and no tool, once it is known that nobody wants it.
    """
    weather = Weather()
    hand = stepping([weather.tool]).begin()
    seen: list[str] = []

    def on_next(event: ChatEvent) -> None:
        seen.append(event.type)
        if event.type == moment and (moment != "STEP_START" or seen.count(moment) == 2):
            if how == "dispose":
                hand.watcher.dispose()
            elif how == "abort":
                hand.call.abort()
            else:
                raise ValueError("mine")

    hand.watcher.on_next = on_next
    hand.body.headers().push(called("Rome"))
    if moment == "STEP_START":
        await asked_again(hand)
        hand.body.headers().push(said("Sunny."))
    for _ in range(20):
        await asyncio.sleep(0)
    assert await idle() == []
    assert (len(hand.bodies), hand.body.left) == (2 if moment == "STEP_START" else 1, True)
    if moment == "TOOL_CALL_END":
        assert weather.ran == []
    expected = {"dispose": (0, 0, Verdict.CANCELLED), "abort": (1, 0, Verdict.ABORTED), "raise": (0, 1, Verdict.CANCELLED)}[how]
    assert (hand.watcher.completed, hand.watcher.failed, hand.call.verdict) == expected
    if how == "abort":
        assert violations(hand.watcher.items) == []
    else:
        assert hand.types[-1] == moment


async def test_left_before_the_tools_are_chosen() -> None:
    """
    Nothing is asked.
    """
    hand = stepping(lambda context: []).begin()
    hand.watcher.dispose()
    assert (await idle(), hand.bodies, hand.types) == ([], [], ["RESPONSE_START"])
    other = stepping(lambda context: []).begin()
    other.call.abort()
    assert (await idle(), other.bodies, other.types, other.watcher.completed) == ([], [], ["RESPONSE_START", "ABORT"], 1)


SCRIPT = (called("Rome", "Paris"), called("Oslo"), said("Sunny."))


async def left_at(turn: int, how: str) -> tuple[Hand, Weather, bool]:
    """
    An answer of three steps that is left in this turn of the loop; whether it was under way then.
    """
    weather = Weather()
    hand = stepping([weather.tool], retry=None, total_timeout=5).begin()
    answered, under_way = 0, False
    for now in range(turn + 60):
        if now == turn:
            under_way = hand.call.verdict is None
            leave: dict[str, Callable[[], object]] = {"dispose": hand.watcher.dispose, "abort": hand.call.abort, "timeout": lambda: hand.wait(5)}
            leave[how]()
            asked, ran = len(hand.bodies), list(weather.ran)
        if len(hand.bodies) > answered and not hand.body.left:
            hand.body.headers().push(SCRIPT[answered])
            answered += 1
        await asyncio.sleep(0)
    assert (len(hand.bodies), weather.ran) == (asked, ran)
    return hand, weather, under_way


@pytest.mark.parametrize("how", ["dispose", "abort", "timeout"])
async def test_left_at_any_turn_of_the_loop(how: str) -> None:
    """
    T5, V4: no tool and no request begins behind it, one verdict, a well-formed end or none at all; nothing is left.
    """
    verdicts = {"dispose": Verdict.CANCELLED, "abort": Verdict.ABORTED, "timeout": Verdict.TOTAL_TIMEOUT}
    under_way = [0, 0]
    for turn in range(120):
        hand, _, was = await left_at(turn, how)
        under_way[was] += 1
        assert hand.call.verdict is (verdicts[how] if was else Verdict.COMPLETE), turn
        assert (how == "dispose" and was) or violations(hand.watcher.items) == [], turn
    assert await idle() == []
    assert min(under_way) > 5
