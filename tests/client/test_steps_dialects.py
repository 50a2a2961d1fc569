"""
Two steps in every dialect that has tools, over real HTTP: what the second request holds, and what is never run (contract T1-T5).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import pytest

from rxchat import to_async_iterable, tool
from rxchat.client import HttpSettings, Retry
from rxchat.errors import ToolError, Verdict
from rxchat.events import StepEnd, ToolCallEnd, ToolResult
from rxchat.normalizer import Normalizer
from rxchat.prompt import ToolSpec
from rxchat.response import FinishReason, RefusalPart, ThinkingPart, ToolResultPart
from rxchat.serialize import dumps, loads
from rxchat.stage import run
from rxchat.testing import FakeAnswer, FakeProvider, Fault
from rxchat.testing.provider import Entry
from rxchat.tools import ToolPolicy
from tests.client.stepping import DIALECTS, Weather, a_call, idle, watched
from tests.client.watching import Watcher
from tests.grammar import violations

ROME, PARIS = a_call(1, '{"city":"Rome"}'), a_call(2, '{"city":"Paris"}')
SUNNY = ("sunny in Rome", "sunny in Paris")
CITIES = ("Rome", "Paris")
# Carries arguments as an object: what is no JSON cannot be said there by anybody.
OBJECTS = ("gemini", "gemini-interactions", "ollama")

Find = Callable[[Any], Any]


def chat(body: Any) -> list[Any]:
    """
    Where most have it.
    """
    return list(body["messages"])


def calls_as_text() -> list[Any]:
    """
    The calls in OpenAI's words.
    """
    return [
        {"id": f"call_{k}", "type": "function", "function": {"name": "weather", "arguments": f'{{"city":"{city}"}}'}}
        for k, city in enumerate(CITIES, 1)
    ]


def results_as_messages(**more: Any) -> list[Any]:
    """
    The results in them.
    """
    return [{"role": "tool", "tool_call_id": f"call_{k}", "content": text, **more} for k, text in enumerate(SUNNY, 1)]


def anthropic_turns() -> list[Any]:
    """
    Both in Anthropic's.
    """
    uses = [{"type": "tool_use", "id": f"call_{k}", "name": "weather", "input": {"city": city}} for k, city in enumerate(CITIES, 1)]
    results = [{"type": "tool_result", "tool_use_id": f"call_{k}", "content": text} for k, text in enumerate(SUNNY, 1)]
    return [{"role": "assistant", "content": [{"type": "text", "text": "Let me look."}, *uses]}, {"role": "user", "content": results}]


def chat_turns(**more: Any) -> list[Any]:
    """
    The step in OpenAI's.
    """
    return [{"role": "assistant", "content": "Let me look.", "tool_calls": calls_as_text()}, *results_as_messages(**more)]


# Where the conversation stands in a request, and what must stand behind the question.
BACK: Mapping[str, tuple[Find, list[Any]]] = {
    "openai-chat": (chat, chat_turns()),
    "mistral": (chat, chat_turns(name="weather")),
    "cohere": (chat, chat_turns()),
    "anthropic": (chat, anthropic_turns()),
    "bedrock-invoke": (chat, anthropic_turns()),
    "dashscope": (
        lambda body: body["input"]["messages"],
        [
            {"role": "assistant", "content": "Let me look.", "tool_calls": [{"index": k, **call} for k, call in enumerate(calls_as_text())]},
            *results_as_messages(),
        ],
    ),
    "openai-responses": (
        lambda body: [{key: value for key, value in item.items() if key != "id"} for item in body["input"]],
        [
            {
                "type": "message",
                "role": "assistant",
                "status": "completed",
                "content": [{"type": "output_text", "text": "Let me look.", "annotations": []}],
            },
            *(
                {"type": "function_call", "call_id": f"call_{k}", "name": "weather", "arguments": f'{{"city":"{city}"}}'}
                for k, city in enumerate(CITIES, 1)
            ),
            *({"type": "function_call_output", "call_id": f"call_{k}", "output": text} for k, text in enumerate(SUNNY, 1)),
        ],
    ),
    "gemini": (
        lambda body: body["contents"],
        [
            {
                "role": "model",
                "parts": [
                    {"text": "Let me look."},
                    *({"functionCall": {"id": f"call_{k}", "name": "weather", "args": {"city": city}}} for k, city in enumerate(CITIES, 1)),
                ],
            },
            {
                "role": "user",
                "parts": [
                    {"functionResponse": {"id": f"call_{k}", "name": "weather", "response": {"result": text}}} for k, text in enumerate(SUNNY, 1)
                ],
            },
        ],
    ),
    "gemini-interactions": (
        lambda body: body["input"],
        [
            {"type": "model_output", "content": [{"type": "text", "text": "Let me look."}]},
            *({"type": "function_call", "id": f"call_{k}", "name": "weather", "arguments": {"city": city}} for k, city in enumerate(CITIES, 1)),
            *({"type": "function_result", "call_id": f"call_{k}", "name": "weather", "result": text} for k, text in enumerate(SUNNY, 1)),
        ],
    ),
    "ollama": (
        chat,
        [
            {
                "role": "assistant",
                "content": "Let me look.",
                "tool_calls": [{"function": {"name": "weather", "arguments": {"city": city}}} for city in CITIES],
            },
            *({"role": "tool", "content": text, "tool_name": "weather"} for text in SUNNY),
        ],
    ),
    "bedrock-converse": (
        chat,
        [
            {
                "role": "assistant",
                "content": [
                    {"text": "Let me look."},
                    *({"toolUse": {"toolUseId": f"call_{k}", "name": "weather", "input": {"city": city}}} for k, city in enumerate(CITIES, 1)),
                ],
            },
            {
                "role": "user",
                "content": [{"toolResult": {"toolUseId": f"call_{k}", "content": [{"text": text}]}} for k, text in enumerate(SUNNY, 1)],
            },
        ],
    ),
}


def test_every_dialect_is_here() -> None:
    """
    None is forgotten.
    """
    assert set(BACK) == set(DIALECTS)


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize("stream", [True, False], ids=["stream", "whole"])
async def test_two_steps(dialect: str, stream: bool) -> None:
    """
    T4: two calls side by side, one response; the second request holds calls and results in the provider's own form.
    """
    weather = Weather()
    script = [FakeAnswer("Let me look.", ROME, PARIS), FakeAnswer("Sunny in both.")]
    async with FakeProvider(script) as provider:
        call, watcher = await watched(provider, dialect, tools=[weather.tool], stream=stream)
    answer = call.response
    assert (violations(watcher.items), call.verdict, answer.text, call.attempts) == ([], Verdict.COMPLETE, "Let me look.Sunny in both.", 2)
    assert (sorted(weather.ran), [event.result for event in watcher.items if isinstance(event, ToolResult)]) == (["Paris", "Rome"], list(SUNNY))
    find, behind = BACK[dialect]
    first, second = (find(request.json) for request in provider.requests)
    assert [*first, *behind] == second
    assert [event.step for event in watcher.items if isinstance(event, StepEnd)] == [0, 1]
    assert [said.usage and said.usage.total_tokens for said in (answer, *answer.steps)] == [36, 18, 18]
    assert list(run(Normalizer(), watcher.items)) == watcher.items
    assert [loads(dumps(event)) for event in watcher.items] == watcher.items


@pytest.mark.parametrize("dialect", DIALECTS)
async def test_three_steps_may_use_an_id_again(dialect: str) -> None:
    """
    Many servers count ids anew for each answer; each result goes to the call of its own step.
    """
    weather = Weather()

    def count(n: int) -> int:
        """Count on."""
        return n + 1

    script = [FakeAnswer(a_call(1, '{"n":41}', "count")), FakeAnswer(ROME), FakeAnswer("Done.")]
    async with FakeProvider(script) as provider:
        call, watcher = await watched(provider, dialect, tools=[weather.tool, count])
    assert (violations(watcher.items), call.verdict, call.response.text) == ([], Verdict.COMPLETE, "Done.")
    assert [event.result for event in watcher.items if isinstance(event, ToolResult)] == [42, "sunny in Rome"]
    called = [value for key, value in walk(provider.requests[2].json) if key in ("tool_name", "name") and value in ("count", "weather")]
    assert called.count("count") == called.count("weather")


def walk(value: Any) -> Iterator[tuple[str, Any]]:
    """
    All fields, at any depth, in their order.
    """
    if isinstance(value, dict):
        for key, item in value.items():
            yield key, item
            yield from walk(item)
    elif isinstance(value, list):
        for item in value:
            yield from walk(item)


@pytest.mark.parametrize("dialect", DIALECTS)
async def test_a_schema_is_reported(dialect: str) -> None:
    """
    T6: one request.
    """
    async with FakeProvider([FakeAnswer(ROME)]) as provider:
        call, watcher = await watched(provider, dialect, tools=[ToolSpec("weather")])
    assert (violations(watcher.items), call.verdict, call.response.finish_reason) == ([], Verdict.COMPLETE, FinishReason.TOOL_CALLS)
    assert (len(provider.requests), call.response.tool_calls[0].arguments) == (1, {"city": "Rome"})


@pytest.mark.parametrize("dialect", DIALECTS)
async def test_a_length_runs_nothing(dialect: str) -> None:
    """
    T1, T2: whole calls, but the answer was cut.
    """
    weather = Weather()
    async with FakeProvider([FakeAnswer(ROME, PARIS, finish=FinishReason.LENGTH)]) as provider:
        call, watcher = await watched(provider, dialect, tools=[weather.tool])
    assert (violations(watcher.items), call.verdict, weather.ran, len(provider.requests)) == ([], Verdict.INCOMPLETE_FINISH, [], 1)
    assert not any(isinstance(event, ToolResult) for event in watcher.items)


WRONG = {
    "schema": (a_call(1, '{"city":3}'), "do not fit its schema"),
    "unknown": (a_call(1, '{"city":"Rome"}', "forecast"), "there is no tool 'forecast'"),
    "invalid": (a_call(1, '{"city":"Ro'), "not one strict JSON object"),
    "array": (a_call(1, '["Rome"]'), "not one strict JSON object"),
}
SAID = [(dialect, name) for dialect in DIALECTS for name in WRONG if name in ("schema", "unknown") or dialect not in OBJECTS]


@pytest.mark.parametrize("dialect, name", SAID)
async def test_a_call_that_cannot_run_is_answered(dialect: str, name: str) -> None:
    """
    T2: the model is told why, beside a call that ran; what it wrote goes back, also where the wire has an object for it.
    """
    weather = Weather()
    wrong, words = WRONG[name]
    async with FakeProvider([FakeAnswer(wrong, PARIS), FakeAnswer("Sorry.")]) as provider:
        call, watcher = await watched(provider, dialect, tools=[weather.tool])
    assert (violations(watcher.items), call.verdict, weather.ran, watcher.error) == ([], Verdict.COMPLETE, ["Paris"], None)
    first, second = (event for event in watcher.items if isinstance(event, ToolResult))
    assert (first.is_error, words in first.result, second.result) == (True, True, "sunny in Paris")
    assert words.encode() in provider.requests[1].body


@pytest.mark.parametrize("dialect, name", SAID)
async def test_or_the_answer_fails(dialect: str, name: str) -> None:
    """
    By policy: verdict TOOL, no second request.
    """
    weather = Weather()
    async with FakeProvider([FakeAnswer(WRONG[name][0], PARIS)]) as provider:
        call, watcher = await watched(provider, dialect, tools=[weather.tool], tool_policy=ToolPolicy(on_error="raise", parallel=1))
    assert (violations(watcher.items), call.verdict, type(watcher.error), watcher.failed) == ([], Verdict.TOOL, ToolError, 1)
    assert (weather.ran, len(provider.requests), len(call.response.tool_calls)) == ([], 1, 2)


@pytest.mark.parametrize("dialect", DIALECTS)
async def test_a_call_that_is_not_allowed(dialect: str) -> None:
    """
    T2: by the hook; the other one runs.
    """
    weather = Weather()
    async with FakeProvider([FakeAnswer(ROME, PARIS), FakeAnswer("Well.")]) as provider:
        call, watcher = await watched(
            provider, dialect, tools=[weather.tool], authorize=lambda request: request.arguments["city"] == "Paris" or "Rome is closed"
        )
    assert (violations(watcher.items), call.verdict, weather.ran) == ([], Verdict.COMPLETE, ["Paris"])
    assert b"Rome is closed" in provider.requests[1].body


@pytest.mark.parametrize("dialect", DIALECTS)
async def test_an_approval_holds_no_connection(dialect: str) -> None:
    """
    The first answer is sent to its end, or its client gone, before the hook is asked; leaving then asks no more.
    """
    weather, waits = Weather(), asyncio.Event()

    async def authorize(request: Any) -> bool:
        waits.set()
        await asyncio.Event().wait()
        return True

    async with FakeProvider([FakeAnswer(ROME)]) as provider:
        call = provider.model(dialect).open("How?", tools=[weather.tool], authorize=authorize)
        watcher = Watcher().watch(call.events)
        await asyncio.wait_for(waits.wait(), 5)
        for _ in range(100):
            if not [task for task in asyncio.all_tasks() if task.get_name() == "rxchat request"]:
                break
            await asyncio.sleep(0.01)
        assert [task for task in asyncio.all_tasks() if task.get_name() == "rxchat request"] == []
        call.abort("no")
        assert (call.verdict, watcher.completed, violations(watcher.items)) == (Verdict.ABORTED, 1, [])
        assert (await idle(), weather.ran, len(provider.requests)) == ([], [], 1)


@pytest.mark.parametrize("dialect", DIALECTS)
async def test_the_second_step_is_tried_again(dialect: str) -> None:
    """
    D5: its request alone; the tool runs once.
    """
    weather = Weather()
    settings = HttpSettings(retry=Retry(first_wait=0.01, jitter=0))
    async with FakeProvider([FakeAnswer(ROME), Fault(status=503), FakeAnswer("Sunny.")]) as provider:
        call, watcher = await watched(provider, dialect, tools=[weather.tool], settings=settings)
    assert (violations(watcher.items), call.verdict, call.attempts, weather.ran) == ([], Verdict.COMPLETE, 3, ["Rome"])
    assert provider.requests[1].body == provider.requests[2].body


@pytest.mark.parametrize("dialect", DIALECTS)
async def test_a_broken_second_step_keeps_the_first(dialect: str) -> None:
    """
    V2: on the error, on the event, on the call.
    """
    script: list[Entry] = [FakeAnswer("Let me look.", ROME), Fault(status=401)]
    async with FakeProvider(script) as provider:
        call, watcher = await watched(provider, dialect, tools=[Weather().tool])
    assert (violations(watcher.items), call.verdict, watcher.failed) == ([], Verdict.HTTP_STATUS, 1)
    assert call.response.text == "Let me look."
    assert getattr(watcher.error, "response", None) == call.response
    assert call.response.steps[0].parts[-1] == ToolResultPart("call_1", "sunny in Rome")


@pytest.mark.parametrize("dialect", DIALECTS)
async def test_an_id_that_comes_twice_runs_once_at_most(dialect: str) -> None:
    """
    P6: whatever the wire makes of it, one id is one call; each call has one result.
    """
    weather = Weather()
    async with FakeProvider([FakeAnswer(ROME, a_call(1, '{"city":"Paris"}')), FakeAnswer("Done.")]) as provider:
        call, watcher = await watched(provider, dialect, tools=[weather.tool])
    assert (violations(watcher.items), call.verdict, weather.ran) == ([], Verdict.COMPLETE, weather.ran[:1])
    assert [event.call_id for event in watcher.items if isinstance(event, ToolResult)] == ["call_1"]
    assert [said.id for said in call.response.tool_calls] == ["call_1"]


@pytest.mark.parametrize("dialect", DIALECTS)
async def test_many_calls_at_once(dialect: str) -> None:
    """
    T3: buffers of their own, run side by side within the bound, told and sent back in call order, also through a small buffer.
    """
    running: list[int] = []
    most: list[int] = []

    async def square(n: int) -> int:
        """Of a number."""
        running.append(n)
        most.append(len(running))
        await asyncio.sleep(0.001 * (n % 3))
        running.remove(n)
        return n * n

    calls = [a_call(n, f'{{"n":{n}}}', "square") for n in range(1, 21)]
    async with FakeProvider([FakeAnswer(*calls, piece=2), FakeAnswer("Done.")]) as provider:
        stream = provider.model(dialect).stream("How?", tools=[square], tool_policy=ToolPolicy(parallel=4))
        events = [event async for event in stream.pipe(to_async_iterable(high=2, low=1))]
    assert violations(events) == []
    assert [event.result for event in events if isinstance(event, ToolResult)] == [n * n for n in range(1, 21)]
    assert max(most) == 4
    assert b"400" in provider.requests[1].body


async def test_a_loop_that_is_left_while_a_tool_runs() -> None:
    """
    D4: a `break` out of `async for`; the tool is cancelled, nothing is asked.
    """
    weather = Weather(gate=asyncio.Event())
    async with FakeProvider([FakeAnswer(ROME)]) as provider:
        stream = provider.model("openai-chat").stream("How?", tools=[weather.tool])
        async for event in stream.pipe(to_async_iterable()):
            if isinstance(event, ToolCallEnd):
                await asyncio.wait_for(weather.begun.wait(), 5)
                break
        assert await idle() == []
    assert (weather.cancelled, len(provider.requests)) == (1, 1)


# --- what a model may be asked with ---------------------------------------------------------------------------------------------------------------


async def test_a_forced_choice_holds_for_the_first_step() -> None:
    """
    Else the model could only call for ever.
    """
    async with FakeProvider([FakeAnswer(ROME), FakeAnswer("Sunny.")]) as provider:
        await watched(provider, tools=[Weather().tool], tool_choice="required")
    assert [request.json.get("tool_choice") for request in provider.requests] == ["required", None]


async def test_the_other_ways_to_ask() -> None:
    """
    `call` and `stream`.
    """
    async with FakeProvider([FakeAnswer(ROME), FakeAnswer("Sunny.")] * 2) as provider:
        model = provider.model("anthropic")
        answer = await model.call("How?", tools=[Weather().tool], max_steps=2)
        events: list[Any] = []
        done = asyncio.Event()
        model.stream("How?", tools=lambda context: [Weather().tool]).subscribe(events.append, on_completed=done.set)
        await asyncio.wait_for(done.wait(), 5)
    assert (answer.text, events[-1].response.text, violations(events)) == ("Sunny.", "Sunny.", [])


def test_code_that_cannot_await() -> None:
    """
    The same loop on a loop of its own; sync tools run in threads.
    """

    @tool
    def weather(city: str) -> str:
        """How it is."""
        return f"sunny in {city}"

    with FakeProvider([FakeAnswer(ROME), FakeAnswer("Sunny.")] * 2).in_thread() as provider:
        model = provider.model("openai-chat")
        assert model.call_sync("How?", tools=[weather]).text == "Sunny."
        with model.stream_sync("How?", tools=[weather], max_steps=3) as events:
            seen = list(events)
    assert (violations(seen), [event.result for event in seen if isinstance(event, ToolResult)]) == ([], ["sunny in Rome"])


async def test_thinking_goes_back_with_its_call() -> None:
    """
    P11: with its seal, in front of the call, as the provider demands it of a step that goes on.
    """
    async with FakeProvider([FakeAnswer(ThinkingPart("Where?", signature="c2VhbA=="), ROME), FakeAnswer("Sunny.")]) as provider:
        call, _ = await watched(provider, "anthropic", tools=[Weather().tool])
    content = provider.requests[1].json["messages"][1]["content"]
    assert [block["type"] for block in content] == ["thinking", "tool_use"]
    assert content[0] == {"type": "thinking", "thinking": "Where?", "signature": "c2VhbA=="}
    assert (call.response.thinking, call.response.text) == ("Where?", "Sunny.")


async def test_a_refusal_beside_a_call_runs_nothing() -> None:
    """
    V7: the finish decides.
    """
    weather = Weather()
    async with FakeProvider([FakeAnswer(ROME, RefusalPart("No."))]) as provider:
        call, watcher = await watched(provider, "openai-chat", tools=[weather.tool])
    assert (weather.ran, any(isinstance(event, ToolCallEnd) for event in watcher.items), len(provider.requests)) == ([], True, 1)
    assert call.verdict is Verdict.INCOMPLETE_FINISH
