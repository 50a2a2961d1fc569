"""
A model that says what the test lets it say, when the test lets it.
"""

from __future__ import annotations

import asyncio
from typing import Any

import attrs
from reactivex import Observable, abc
from reactivex.disposable import Disposable

from rxchat.aggregator import Aggregator
from rxchat.errors import IncompleteStreamError
from rxchat.events import (
    Abort,
    ChatEvent,
    ErrorEvent,
    ResponseEnd,
    ResponseStart,
    StepEnd,
    StepStart,
    TextDelta,
    ToolCallArgsDelta,
    ToolCallEnd,
    ToolCallStart,
)
from rxchat.normalizer import Normalizer
from rxchat.response import ChatResponse, FinishReason, ToolCall, Usage
from rxchat.stage import Chain, run
from rxchat.stores import MemoryStore
from rxchat.stores.base import Written

__all__ = ["Exchange", "Gate", "Model", "calling", "failed", "saying", "texts"]


def whole(*raw: ChatEvent) -> list[ChatEvent]:
    """
    Normalized and folded, as a model gives them.
    """
    return list(run(Chain(Normalizer(), Aggregator()), raw))


def saying(*pieces: str, finish: FinishReason = FinishReason.STOP) -> list[ChatEvent]:
    """
    An answer of these pieces of text.
    """
    seed = StepEnd(response=ChatResponse(finish_reason=finish), usage=Usage(input_tokens=3, output_tokens=2))
    return whole(ResponseStart("r"), StepStart(0), *(TextDelta(piece) for piece in pieces), seed, ResponseEnd())


def calling(call_id: str = "call_1") -> list[ChatEvent]:
    """
    An answer that is one call of a tool.
    """
    made = (
        ToolCallStart(call_id, "weather", 0),
        ToolCallArgsDelta("{}", call_id, 0),
        ToolCallEnd(ToolCall(call_id, "weather", index=0, complete=True)),
    )
    seed = StepEnd(response=ChatResponse(finish_reason=FinishReason.TOOL_CALLS), usage=Usage(input_tokens=3, output_tokens=2))
    return whole(ResponseStart("r"), StepStart(0), *made, seed, ResponseEnd())


def failed(*pieces: str) -> tuple[list[ChatEvent], Exception]:
    """
    An answer that breaks off behind these pieces: its events, and the error that follows.
    """
    error = IncompleteStreamError("the body just ends")
    return whole(ResponseStart("r"), StepStart(0), *(TextDelta(piece) for piece in pieces), ErrorEvent(error)), error


def aborted(*pieces: str) -> list[ChatEvent]:
    """
    An answer that the provider cancels.
    """
    return whole(ResponseStart("r"), StepStart(0), *(TextDelta(piece) for piece in pieces), Abort("tired"))


def texts(prompt: Any) -> list[str]:
    """
    A prompt, message by message.
    """
    return [message.text for message in prompt]


@attrs.define(eq=False)
class Exchange:
    """
    One request: what was asked, and the way to say something.
    """

    prompt: Any
    request: dict[str, Any]
    observer: Any = None
    disposed: bool = False

    def say(self, *events: ChatEvent, end: bool = False) -> None:
        """
        Push events, also when nobody listens any more.
        """
        for event in events:
            self.observer.on_next(event)
        if end:
            self.observer.on_completed()


@attrs.define(eq=False)
class Model:
    """
    Answers the n-th request by the n-th script at once, or waits for the test (no script left). `asked` are the requests.
    """

    scripts: list[list[ChatEvent] | tuple[list[ChatEvent], Exception]] = attrs.field(factory=list)
    asked: list[Exchange] = attrs.field(factory=list)

    def stream(self, prompt: Any, **request: Any) -> Observable[ChatEvent]:
        """
        Cold.
        """

        def subscribe(observer: abc.ObserverBase[ChatEvent], scheduler: abc.SchedulerBase | None = None) -> abc.DisposableBase:
            exchange = Exchange(prompt, request, observer)
            self.asked.append(exchange)
            if len(self.asked) <= len(self.scripts):
                script = self.scripts[len(self.asked) - 1]
                events, error = script if isinstance(script, tuple) else (script, None)
                exchange.say(*events)
                observer.on_completed() if error is None else observer.on_error(error)

            def leave() -> None:
                exchange.disposed = True

            return Disposable(leave)

        return Observable(subscribe)


class Gate(MemoryStore):
    """
    A store whose commits stand still before or behind the writing until the test opens `gate`; `fault` is raised instead of writing.
    """

    def __init__(self) -> None:
        super().__init__()
        self.entered, self.gate = asyncio.Event(), asyncio.Event()
        self.gate.set()
        self.behind = False
        self.fault: Exception | None = None

    async def _commit(self, name: str, epoch: int, keep: int | None, request_id: str, record: str) -> Written:
        written = await super()._commit(name, epoch, keep, request_id, record) if self.behind else None
        self.entered.set()
        await self.gate.wait()
        if self.fault is not None:
            raise self.fault
        return written or await super()._commit(name, epoch, keep, request_id, record)
