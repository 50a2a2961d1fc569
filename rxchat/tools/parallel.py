"""
The calls of one step, side by side, answered in their order (contract T3).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable

import attrs

from rxchat.response import FinishReason, ToolCall
from rxchat.tools import invoking
from rxchat.tools.checking import Refusal
from rxchat.tools.invoking import stop
from rxchat.tools.outcomes import ToolFailure, ToolOutcome
from rxchat.tools.running import DEFAULT, ToolPolicy, refused, run_call
from rxchat.tools.toolsets import ToolSet
from rxchat.toolschema import ToolContext

__all__ = ["run_calls"]


async def run_calls(
    calls: Iterable[ToolCall],
    tools: ToolSet,
    *,
    finish: FinishReason = FinishReason.TOOL_CALLS,
    policy: ToolPolicy = DEFAULT,
    step: int = 0,
    response_id: str | None = None,
    emit: Callable[[ToolOutcome], None] | None = None,
    left: Callable[[], bool] | None = None,
) -> tuple[ToolOutcome, ...]:
    """
    Run the calls of a finished step, `policy.parallel` at once; `emit` gets each outcome in call order as soon as it and all before it are there.

    Left out are calls the provider ran itself (contract P10) and those of tools that are only offered (T6): see `ToolSet.left_open`. A second call of one id
    is not run. ToolError by policy: what came before it in call order has been emitted. Whether by an error, by `emit` or by cancellation: when this ends
    early, no tool goes on. Nor does one begin as soon as `left` says that nobody waits for them.
    """
    batch = _Batch(tools, finish, policy, asyncio.Semaphore(policy.parallel), left)
    seen: set[str] = set()
    tasks: list[asyncio.Task[ToolOutcome]] = []
    outcomes: list[ToolOutcome] = []
    for call in calls:
        if not call.server_executed and not tools.only_offered(call):
            again = bool(call.id) and call.id in seen
            seen.add(call.id)
            tasks.append(asyncio.create_task(batch.one(call, ToolContext(call, step, response_id), again)))
    try:
        for task in tasks:
            await asyncio.wait({task})  # not `await task`: a cancellation is for all of them at once, else one that ends would let the next begin
            outcomes.append(task.result())
            if emit is not None:
                emit(outcomes[-1])
    finally:
        batch.halted = True
        await stop(*tasks, grace=2 * invoking.GRACE)  # each of them gives its tool as long
    return tuple(outcomes)


@attrs.define
class _Batch:
    """
    Calls that wait for each other's places; `halted` once one of them has failed the whole.
    """

    tools: ToolSet
    finish: FinishReason
    policy: ToolPolicy
    places: asyncio.Semaphore
    left: Callable[[], bool] | None = None
    halted: bool = False

    async def one(self, call: ToolCall, context: ToolContext, again: bool) -> ToolOutcome:
        """
        One call, when its turn comes.
        """
        invoking.unwanted.set(self._unwanted)
        async with self.places:
            if self._unwanted():
                raise asyncio.CancelledError
            try:
                return await self._run(call, context, again)
            except BaseException:
                self.halted = True  # before the place is free for the next
                raise

    def _unwanted(self) -> bool:
        return self.halted or (self.left is not None and self.left())

    async def _run(self, call: ToolCall, context: ToolContext, again: bool) -> ToolOutcome:
        if again:
            text = f"a call with the id {call.id} was there before, so this one was not run"
            return refused(call, Refusal(ToolFailure.DUPLICATE, text), self.policy)
        found = self.tools.runnable.get(call.name)
        if found is None:
            text = f"there is no tool {call.name!r}; there are: {', '.join(self.tools.tools) or 'none'}"
            return refused(call, Refusal(ToolFailure.UNKNOWN_TOOL, text), self.policy)
        return await run_call(found, call, finish=self.finish, policy=self.policy, context=context)
