"""
The calls of one step, side by side, answered in their order (contract T3).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable

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
) -> tuple[ToolOutcome, ...]:
    """
    Run the calls of a finished step, `policy.parallel` at once; `emit` gets each outcome in call order as soon as it and all before it are there.

    Left out are calls the provider ran itself (contract P10) and those of tools that are only offered (T6): see `ToolSet.left_open`. A second call of one id
    is not run. ToolError by policy: what came before it in call order has been emitted. Whether by an error, by `emit` or by cancellation: when this ends
    early, no tool goes on.
    """
    gate = asyncio.Semaphore(policy.parallel)
    seen: set[str] = set()
    tasks: list[asyncio.Task[ToolOutcome]] = []
    outcomes: list[ToolOutcome] = []
    for call in calls:
        if not call.server_executed and not tools.only_offered(call):
            again = bool(call.id) and call.id in seen
            seen.add(call.id)
            tasks.append(asyncio.create_task(_one(call, again, tools, gate, finish, policy, ToolContext(call, step, response_id))))
    try:
        for task in tasks:
            outcome = await task
            outcomes.append(outcome)
            if emit is not None:
                emit(outcome)
    finally:
        await stop(*tasks, grace=2 * invoking.GRACE)  # each of them gives its tool as long
    return tuple(outcomes)


async def _one(
    call: ToolCall, again: bool, tools: ToolSet, gate: asyncio.Semaphore, finish: FinishReason, policy: ToolPolicy, context: ToolContext
) -> ToolOutcome:
    if again:
        return refused(call, Refusal(ToolFailure.DUPLICATE, f"a call with the id {call.id} was there before, so this one was not run"), policy)
    found = tools.runnable.get(call.name)
    if found is None:
        known = ", ".join(tools.tools) or "none"
        return refused(call, Refusal(ToolFailure.UNKNOWN_TOOL, f"there is no tool {call.name!r}; there are: {known}"), policy)
    async with gate:
        return await run_call(found, call, finish=finish, policy=policy, context=context)
