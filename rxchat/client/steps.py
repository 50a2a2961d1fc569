"""
The loop of steps: the calls of a step that ended well are run, and the model is asked again with what came of them, in one response (contract T4).

    body ─ ToolCallEnd ... ─ [StepEnd held back] ─ ResponseEnd                                the connection is given back
                                                       │ the tools run, each ToolResult is told as soon as it may
                                                       └ StepEnd ─ next request ─ body ...    or, if that was the last, ResponseEnd

A step whose calls cannot all be answered here ends the response as it came, and nothing of it is run: a bare schema among them (contract T6), an item the
client has to answer (P12), a finish that allows no run (T1, T2), a call that was cut. Everything else is answered, with an error if need be (T2).
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from inspect import isawaitable
from typing import Any, TypeAlias

import attrs
from reactivex import abc
from reactivex.disposable import Disposable

from rxchat.client.attempts import OpenBody, Run, Sequel
from rxchat.client.http_body import running_loop
from rxchat.client.rules import StepRules
from rxchat.errors import RxchatError, ToolError, Verdict, verdict_of
from rxchat.events import ChatEvent, ErrorEvent, ResponseEnd, StepEnd
from rxchat.pipeline import Envelope
from rxchat.prompt import Message
from rxchat.response import ENDED_BY, IN_TOOLS, ChatResponse, ServerToolPart, ToolCall
from rxchat.stage import Emit
from rxchat.tools import StepContext, ToolPolicy, ToolSet, run_calls, tools_for

__all__ = ["Ask", "StepLoop"]

# Builds the request of a step: what is asked, with which tools; whether it is the first of the response.
Ask: TypeAlias = Callable[[tuple[Message, ...], ToolSet, bool], OpenBody]


class StepLoop:
    """
    The steps of one call: stands between its bodies and the answer, and says what follows a body that ended well.
    """

    def __init__(self, rules: StepRules, prompt: tuple[Message, ...], ask: Ask, envelope: Envelope) -> None:
        self._rules = rules
        self._policy = rules.policy or ToolPolicy()
        self._prompt = prompt
        self._ask = ask
        self._envelope = envelope
        self._tools = rules.fixed or ToolSet()
        self._asked = 0
        # The end of the step at hand, while it is not known what follows; while its tools run, `_between`.
        self._held: StepEnd | None = None
        self._between = False
        self._run: Run
        self._tell: Callable[..., None]

    def join(self, run: Run, tell: Callable[..., None]) -> None:
        """
        Become part of a call, before it starts. `tell` is the method of its stage that takes an event which no body says.
        """
        self._run, self._tell = run, tell
        self._envelope.gate = self.gate
        if self._rules.fixed is None:
            run.sequel = self._sequel(lambda go: self._next(None, go))

    # Between body and tail -------------------------------------------------------------------------------------------------------------------

    def gate(self, push: Emit[ChatEvent]) -> Emit[ChatEvent]:
        """
        Hold back the end of each step until what comes behind it is known.
        """

        def gated(event: ChatEvent) -> None:
            if self._held is not None:
                push(self._released(self._held, event))
            if type(event) is StepEnd:
                self._held = event
            else:
                push(event)

        return gated

    def _released(self, held: StepEnd, event: ChatEvent) -> StepEnd:
        """
        The end that was held, as it is to be now that this event comes; leaves the body where another one follows.
        """
        if type(event) is ResponseEnd:
            held = self._judged(held)
        elif self._between:
            verdict = verdict_of(event.error) if isinstance(event, ErrorEvent) else Verdict.ABORTED
            held = _ended_by(IN_TOOLS, attrs.evolve(held, response=attrs.evolve(held.response, verdict=verdict)))
        self._held, self._between = None, False
        return held

    def _judged(self, end: StepEnd) -> StepEnd:
        answer = self._envelope.settle(end)
        self._asked += 1
        calls = self._answerable(answer.steps[-1])
        if not calls:
            return end
        if not all(call.complete for call in calls):
            return _ended_by("cut_call", end)
        if self._asked >= self._rules.max_steps:
            return _ended_by("max_steps", end)
        self._between = True
        self._envelope.first_step = end.step + 1
        self._run.sequel = self._sequel(lambda go: self._answered(end, answer, go))
        self._envelope.next_body()

    def _answerable(self, step: ChatResponse) -> tuple[ToolCall, ...]:
        """
        The calls of a step, if its finish allows them and somebody here answers each of them.
        """
        calls = tuple(call for call in step.tool_calls if not call.server_executed)
        for_client = any(isinstance(part, ServerToolPart) and part.needs_client for part in step.parts)
        return calls if step.finish_reason.complete and not for_client and not self._tools.left_open(calls) else ()

    # Between the steps -----------------------------------------------------------------------------------------------------------------------

    async def _answered(self, end: StepEnd, asked: ChatResponse, go: Callable[[], None]) -> None:
        """
        Run the calls, end their step, then the response, or on to the next step.
        """
        step = asked.steps[-1]
        outcomes = await run_calls(
            step.tool_calls,
            self._tools,
            finish=step.finish_reason,
            policy=self._policy,
            step=end.step,
            response_id=asked.response_id,
            emit=lambda outcome: self._say(outcome.event),
            left=lambda: self._run.ended,
        )
        answer = self._envelope.settle(end)
        last = "return_direct" if any(outcome.return_direct for outcome in outcomes) else await self._stopped(answer)
        self._held, self._between = None, False
        if last:
            self._say(_ended_by(last, end))
            self._say(ResponseEnd())
        else:
            self._say(end)
            await self._next(answer, go)

    async def _stopped(self, answer: ChatResponse) -> str:
        for stop in self._rules.stop_when:
            ends: Any = stop(answer)
            if await ends if isawaitable(ends) else ends:
                return "stop_when"
        return ""

    async def _next(self, answer: ChatResponse | None, go: Callable[[], None]) -> None:
        """
        Build the request of the next step, and have it sent.
        """
        messages = self._prompt if answer is None else (*self._prompt, *Message.of(answer))
        step = self._envelope.first_step
        self._tools = await tools_for(self._rules.tools, StepContext(step, messages, None if answer is None else answer.steps[-1]))
        body = self._ask(messages, self._tools, answer is None)
        assert self._run.sequel is not None
        self._run.sequel = attrs.evolve(self._run.sequel, body=body)
        go()

    def _say(self, event: ChatEvent) -> None:
        """
        Tell the subscriber; whoever has left wants nothing more done.
        """
        if not self._run.call(self._tell, event):
            raise asyncio.CancelledError

    def _sequel(self, work: Callable[[Callable[[], None]], Awaitable[None]]) -> Sequel:
        """
        That work, then what it sets as the next body. What fails in it fails the response (contract E6).
        """

        async def guarded(go: Callable[[], None]) -> None:
            try:
                await work(go)
            except BaseException as error:
                if _from_outside(error):
                    raise
                self._run.fail(_failure(error))
                if isinstance(error, (KeyboardInterrupt, SystemExit)):
                    raise

        return Sequel(lambda clock, go: _in_background(guarded(go)))


def _from_outside(error: BaseException) -> bool:
    """
    Whether somebody ends this task, rather than that a function of the caller raised this in it.
    """
    task = asyncio.current_task()
    return isinstance(error, GeneratorExit) or (isinstance(error, asyncio.CancelledError) and (task is None or task.cancelling() > 0))


def _failure(error: BaseException) -> RxchatError:
    """
    The failure a response ends with: what names no verdict becomes a ToolError. Of what a function of the caller raised, its class alone: it may hold anything.
    """
    if isinstance(error, RxchatError) and error.verdict is not None:
        return error
    known = isinstance(error, RxchatError)
    failure = ToolError(f"the step cannot be asked for: {error}" if known else f"a function given for the steps failed: {type(error).__name__}")
    failure.__cause__ = error
    return failure


def _ended_by(what: str, end: StepEnd) -> StepEnd:
    return attrs.evolve(end, response=attrs.evolve(end.response, metadata={**end.response.metadata, ENDED_BY: what}))


# The loop itself holds its tasks only weakly.
_tasks: set[asyncio.Task[None]] = set()


def _in_background(work: Coroutine[Any, Any, None]) -> abc.DisposableBase:
    """
    Begin it in the next turn of the event loop; what is returned cancels it.
    """
    task = running_loop().create_task(work, name="rxchat tools")
    _tasks.add(task)
    task.add_done_callback(_tasks.discard)

    def leave() -> None:
        # In the middle of its own work it ends by itself.
        if task is not _current_task():
            task.cancel()

    return Disposable(leave)


def _current_task() -> asyncio.Task[object] | None:
    """
    The task at work, None outside of one.
    """
    try:
        return asyncio.current_task()
    except RuntimeError:
        return None
