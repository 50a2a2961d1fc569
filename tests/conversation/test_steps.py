"""
A conversation with tools that are run: one answer of several steps is one turn, or none (contract H, T5).
"""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from rxchat import aggregate
from rxchat.client import HttpSettings
from rxchat.conversation import Conversation
from rxchat.errors import Verdict
from rxchat.testing import FakeAnswer, FakeProvider, Fault
from rxchat.testing.provider import Entry
from rxchat.tools import ToolPolicy
from tests.client.stepping import DIALECTS, Weather, a_call, idle
from tests.client.watching import Watcher
from tests.grammar import violations

ROME = a_call(1, '{"city":"Rome"}')
ONCE = HttpSettings(retry=None)


@pytest.mark.parametrize("dialect", DIALECTS)
async def test_all_steps_are_one_turn(dialect: str) -> None:
    """
    Calls and results are history with the answer, and go back with the next question; nothing is pending.
    """
    async with FakeProvider([FakeAnswer("Let me look.", ROME), FakeAnswer("Sunny."), FakeAnswer("Bye.")]) as provider:
        conversation, model = Conversation(), provider.model(dialect)
        answer = await conversation.ask(model, "How is Rome?", tools=[Weather().tool]).pipe(aggregate())
        assert (answer.text, conversation.pending, len(await conversation.turns())) == ("Let me look.Sunny.", (), 1)
        await conversation.ask(model, "Thanks.", tools=[Weather().tool]).pipe(aggregate())
    assert [turn.response.text for turn in await conversation.turns()] == ["Let me look.Sunny.", "Bye."]
    bodies = [request.body for request in provider.requests]
    assert all(word in body for word in (b"Let me look.", b"sunny in Rome") for body in bodies[1:])
    assert (b"Sunny." in bodies[1], b"Sunny." in bodies[2], len(bodies)) == (False, True, 3)


async def test_a_call_that_was_no_json_can_go_back_for_ever() -> None:
    """
    It is history, with its error; the turns behind it can still be asked.
    """
    script = [FakeAnswer(a_call(1, '{"city":"Ro')), FakeAnswer("Sorry."), FakeAnswer("Bye.")]
    async with FakeProvider(script) as provider:
        conversation, model = Conversation(), provider.model("anthropic")
        for question in ("How is Rome?", "Thanks."):
            await conversation.ask(model, question, tools=[Weather().tool]).pipe(aggregate())
    assert provider.requests[2].json["messages"][1]["content"][0]["input"] == {"INVALID_JSON": '{"city":"Ro'}


NOT_KEPT: dict[str, tuple[list[Entry], dict[str, Any], Verdict]] = {
    "a second step refused": ([FakeAnswer(ROME), Fault(status=401)], {}, Verdict.HTTP_STATUS),
    "a second step cut": ([FakeAnswer(ROME), FakeAnswer("Sunny in Rome, and warm.").with_fault(Fault(cut_after=500))], {}, Verdict.INCOMPLETE_STREAM),
    "too many steps": ([FakeAnswer(ROME)], {"max_steps": 1}, Verdict.INCOMPLETE_FINISH),
    "a tool that may not": (
        [FakeAnswer(ROME)],
        {"authorize": lambda request: False, "tool_policy": ToolPolicy(on_error="raise")},
        Verdict.TOOL,
    ),
}


@pytest.mark.parametrize("name", NOT_KEPT)
async def test_what_does_not_become_history(name: str) -> None:
    """
    Anything but a whole answer leaves it as it was; the question is not stored either.
    """
    script, said, verdict = NOT_KEPT[name]
    async with FakeProvider(script) as provider:
        conversation = Conversation()
        model = provider.model("openai-chat", settings=ONCE)
        watcher = await Watcher().watch(conversation.ask(model, "How?", tools=[Weather().tool], **said)).end()
    assert (violations(watcher.items), watcher.items[-1].response.verdict) == ([], verdict)
    assert (await conversation.turns(), conversation.pending) == ((), ())


@pytest.mark.parametrize("how", ["dispose", "abort"])
async def test_left_while_a_tool_runs(how: str) -> None:
    """
    T5: nothing is written, nothing is asked, the tool is cancelled.
    """
    weather = Weather(gate=asyncio.Event())
    async with FakeProvider([FakeAnswer(ROME)]) as provider:
        conversation = Conversation()
        watcher = Watcher().watch(conversation.ask(provider.model("openai-chat"), "How?", tools=[weather.tool]))
        await asyncio.wait_for(weather.begun.wait(), 5)
        watcher.dispose() if how == "dispose" else conversation.abort("enough")
        assert await idle() == []
    assert (weather.cancelled, await conversation.turns(), len(provider.requests)) == (1, (), 1)
    assert [event.type for event in watcher.items[-1:]] == (["USAGE"] if how == "dispose" else ["ABORT"])
