"""
Answers of several steps: pushed by hand, or over HTTP, and what a subscriber saw of them.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from typing import Any

import attrs

from rxchat.client import HttpSettings
from rxchat.client.attempts import OpenBody
from rxchat.client.call import Call, Exchange
from rxchat.client.rules import MAX_STEPS, step_rules
from rxchat.client.steps import StepLoop
from rxchat.events import ChatEvent
from rxchat.filters import all_events, guarded
from rxchat.pipeline import response_stage
from rxchat.prompt import Message, as_messages
from rxchat.response import ToolCall
from rxchat.testing import FakeAnswer, FakeProvider
from rxchat.tools import ToolSet
from tests.client.hand import Hand
from tests.client.watching import Watcher
from tests.loopback import DONE, FINISH, delta, frame

__all__ = ["DIALECTS", "Asked", "Weather", "a_call", "answers", "called", "idle", "said", "stepping", "tags", "watched"]

# Those that have tools.
DIALECTS = (
    "openai-chat",
    "openai-responses",
    "anthropic",
    "gemini",
    "gemini-interactions",
    "ollama",
    "bedrock-converse",
    "bedrock-invoke",
    "cohere",
    "mistral",
    "dashscope",
)
TASKS = ("rxchat request", "rxchat tools")


def a_call(number: int, text: str, name: str = "weather") -> ToolCall:
    """
    A call for a scripted answer.
    """
    return ToolCall(id=f"call_{number}", name=name, arguments_text=text)


@attrs.define(eq=False)
class Weather:
    """
    A tool that notes what it was run with; `gate`, where there is one, is waited for.
    """

    ran: list[str] = attrs.field(factory=list)
    gate: asyncio.Event | None = None
    begun: asyncio.Event = attrs.field(factory=asyncio.Event)
    cancelled: int = 0

    @property
    def tool(self) -> Callable[..., Any]:
        """
        The function.
        """

        async def weather(city: str) -> str:
            """How it is there."""
            self.ran.append(city)
            self.begun.set()
            try:
                if self.gate is not None:
                    await self.gate.wait()
            except asyncio.CancelledError:
                self.cancelled += 1
                raise
            return f"sunny in {city}"

        return weather


# --- over HTTP ------------------------------------------------------------------------------------------------------------------------------------


async def watched(provider: FakeProvider, dialect: str = "openai-chat", **asked: Any) -> tuple[Call, Watcher]:
    """
    An answer to its end, asked once a step.
    """
    settings = asked.pop("settings", HttpSettings(retry=None))
    call = provider.model(dialect, settings=settings).open("How is it?", **asked)
    return call, await Watcher().watch(call.events).end()


async def idle() -> list[str]:
    """
    The tasks of the client that are left, when those that are ending have had their turns.
    """
    left: list[str] = []
    for _ in range(100):
        left = [task.get_name() for task in asyncio.all_tasks() if task.get_name() in TASKS]
        if not left:
            break
        await asyncio.sleep(0.01)
    return left


# --- by hand --------------------------------------------------------------------------------------------------------------------------------------


def called(*cities: str) -> bytes:
    """
    A body of openai-chat that calls `weather`.
    """
    fragments = [
        {"index": k, "id": f"call_{k}", "type": "function", "function": {"name": "weather", "arguments": f'{{"city":"{city}"}}'}}
        for k, city in enumerate(cities)
    ]
    return frame(delta={"role": "assistant", "tool_calls": fragments}) + frame(finish_reason="tool_calls") + DONE


def said(text: str) -> bytes:
    """
    A body of openai-chat with a text.
    """
    return delta(text) + FINISH + DONE


@attrs.define(eq=False)
class Asked:
    """
    What a hand-driven answer was asked with, step by step.
    """

    messages: list[tuple[Message, ...]] = attrs.field(factory=list)
    tools: list[ToolSet] = attrs.field(factory=list)
    first: list[bool] = attrs.field(factory=list)


def stepping(
    tools: Any, asked: Asked | None = None, *, rules: dict[str, Any] | None = None, dialect: str = "openai-chat", options: Any = None, **settings: Any
) -> Hand:
    """
    A call of a dialect whose bodies are pushed by hand and whose tools run on the event loop, not yet subscribed to.
    """
    noted = asked or Asked()
    given = {"max_steps": MAX_STEPS, "stop_when": (), "authorize": None, "policy": None, **(rules or {})}

    def ask(messages: tuple[Message, ...], chosen: ToolSet, first: bool) -> OpenBody:
        noted.messages.append(messages)
        noted.tools.append(chosen)
        noted.first.append(first)
        return hand.open_body

    def exchange() -> Exchange:
        made = step_rules(tools, **given)
        envelope = response_stage(dialect, options=options, head=lambda: hand.head)
        steps = StepLoop(made, as_messages("How is it?"), ask, envelope)
        return Exchange(None if made.fixed is None else ask(as_messages("How is it?"), made.fixed, True), envelope, steps=steps)

    hand = Hand(Call(exchange, guarded(all_events()), HttpSettings(**settings), random.Random(7)))
    return hand


def answers(*parts: Any) -> list[FakeAnswer]:
    """
    A script: each entry the parts of one answer, or one part.
    """
    return [FakeAnswer(*(entry if isinstance(entry, tuple) else (entry,))) for entry in parts]


def tags(events: list[ChatEvent], *without: str) -> str:
    """
    Their tags in a row.
    """
    return " ".join(event.type for event in events if event.type not in without)
