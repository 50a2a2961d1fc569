"""
One call: checked, allowed, run, answered (contract T2, T3).
"""

from __future__ import annotations

import logging
import re
import time
import traceback
from collections.abc import Callable, Mapping
from copy import deepcopy
from typing import Any, Literal

import attrs

from rxchat.errors import ToolError
from rxchat.outgoing.addresses import MASK
from rxchat.response import FinishReason, ToolCall
from rxchat.tools.answers import ToolAnswer, UnsendableResult, as_result
from rxchat.tools.checking import Refusal, at, costly, misfit, refusal_of
from rxchat.tools.declared import Tool
from rxchat.tools.invoking import ToolCancelled, ToolTimeout, bounded, invoke
from rxchat.tools.outcomes import ToolFailure, ToolOutcome
from rxchat.tools.permission import Authorize, ToolRequest, reason_against
from rxchat.toolschema import ToolContext
from rxchat.toolschema.structuring import StructureError, structure

__all__ = ["ToolPolicy", "explain_error", "refused", "run_call"]

_log = logging.getLogger("rxchat.tools")

_NAMED_SECRET = re.compile(r"((?:api[_-]?key|token|passw(?:or)?d|secret|authorization)[\"']?\s*[=:]\s*)(?:bearer\s+)?[^\s,;&]+", re.IGNORECASE)
_SHAPED_SECRET = re.compile(
    r"(?<=://)[^/@\s]+(?=@)|\b(?:sk|pk|rk|ghp|gho|xox[abp])[-_][-_A-Za-z0-9]{8,}|\b(?:AKIA|AIza)\w{12,}|(?<=bearer )\S+", re.IGNORECASE
)
_LONGEST = 500


def explain_error(error: BaseException) -> str:
    """
    What a model is told of an exception: its class and the first line of its message, without what looks like a secret. A ToolError speaks for itself.
    """
    if isinstance(error, ToolError):
        return error.message
    try:
        first = next(iter(str(error).strip().splitlines()), "")
    except Exception:  # its class has a broken __str__
        first = ""
    hidden = _masked(first)[:_LONGEST]
    return f"{type(error).__name__}: {hidden}" if hidden else type(error).__name__


def _masked(text: str) -> str:
    return _SHAPED_SECRET.sub(MASK, _NAMED_SECRET.sub(rf"\1{MASK}", text))


@attrs.frozen(kw_only=True)
class ToolPolicy:
    """
    How tools are run. `on_error` "raise" makes a ToolError (verdict TOOL) of each failure, "result" tells the model. `parallel` calls run at once;
    `timeout`, in seconds, is for tools that name none; `explain` words what a tool raised, for the model.
    """

    authorize: Authorize | None = None
    on_error: Literal["result", "raise"] = attrs.field(default="result", validator=attrs.validators.in_(("result", "raise")))
    parallel: int = attrs.field(default=8, validator=attrs.validators.ge(1))
    timeout: float | None = attrs.field(default=None, validator=attrs.validators.optional(attrs.validators.gt(0)))
    explain: Callable[[BaseException], str] = explain_error


DEFAULT = ToolPolicy()


async def run_call(
    tool: Tool[..., Any],
    call: ToolCall,
    *,
    finish: FinishReason = FinishReason.TOOL_CALLS,
    policy: ToolPolicy = DEFAULT,
    context: ToolContext | None = None,
) -> ToolOutcome:
    """
    Run one call of a finished step, if nothing stands against it; `finish` is why that step ended.

    ToolError only by policy. Cancelling this cancels the tool; one that does not stop is left behind after a grace period, a sync one runs on in its thread.
    """
    refusal = refusal_of(tool, call, finish) or await _misfit(tool, call, policy)
    if refusal is not None:
        return refused(call, refusal, policy)
    request = ToolRequest(call, tool, _given(tool, call), context or ToolContext(call))
    arguments = _structured(tool, _given(tool, call))
    if isinstance(arguments, Refusal):
        return refused(call, arguments, policy)
    refusal = await _denial(request, policy)
    if refusal is not None:
        return refused(call, refusal, policy)
    if tool.context:
        arguments[tool.context] = request.context
    outcome = await _run(tool, call, arguments, policy)
    return outcome.raise_for_failure() if policy.on_error == "raise" else outcome


def refused(call: ToolCall, refusal: Refusal, policy: ToolPolicy = DEFAULT) -> ToolOutcome:
    """
    The outcome of a call that was not run; ToolError by policy.
    """
    outcome = ToolOutcome(call, f"error: {refusal.text}", refusal.failure, refusal.error)
    return outcome.raise_for_failure() if policy.on_error == "raise" else outcome


async def _misfit(tool: Tool[..., Any], call: ToolCall, policy: ToolPolicy) -> Refusal | None:
    """
    What the schema says against the arguments. Where that may take long, a thread finds it out, within the time the tool has for its run.
    """
    if not costly(tool, call):
        return misfit(tool, call)
    limit = tool.timeout or policy.timeout
    try:
        return await bounded(invoke(misfit, tool, call), limit)
    except Exception as error:  # the time is over, or there is no thread to be had
        within = f" within {limit:g} s" if isinstance(error, ToolTimeout) else ""
        text = f"the arguments of {tool.name} could not be checked against its schema{within}, so it was not run"
        return Refusal(ToolFailure.INVALID_ARGUMENTS, text, error)


def _given(tool: Tool[..., Any], call: ToolCall) -> Mapping[str, Any]:
    """
    The arguments by name, a copy: what a tool or a hook changes in them is neither part of the answer nor sent to the provider.
    """
    if not tool.free_form:
        return deepcopy(dict(call.arguments or {}))
    return dict.fromkeys(tool.hints or ("text",), call.arguments_text)


def _structured(tool: Tool[..., Any], arguments: Mapping[str, Any]) -> dict[str, Any] | Refusal:
    try:
        return {name: structure(value, tool.hints[name], f"/{name}") if name in tool.hints else value for name, value in arguments.items()}
    except StructureError as error:
        text = f"the arguments of {tool.name} do not fit its types: {at(error.pointer)}: {error}"
        return Refusal(ToolFailure.INVALID_ARGUMENTS, text, error)


async def _denial(request: ToolRequest, policy: ToolPolicy) -> Refusal | None:
    """
    The first hook that does not allow the call. A hook that fails allows nothing, and its traceback is for the host's log only.
    """
    name = request.tool.name
    for hook in (policy.authorize, request.tool.authorize):
        if hook is None:
            continue
        try:
            reason = reason_against(await bounded(invoke(hook, request), None))
        except Exception as error:
            # Not as exc_info: it would be written with its secrets.
            _log.error("authorize failed for tool %s: %s", name, _masked("".join(traceback.format_exception(error))))
            return Refusal(ToolFailure.UNAUTHORIZED, f"the call of {name} could not be authorized, so it was not run", error)
        if reason is not None:
            return Refusal(ToolFailure.UNAUTHORIZED, f"the call of {name} is not allowed{': ' + reason if reason else ''}")
    return None


async def _run(tool: Tool[..., Any], call: ToolCall, arguments: Mapping[str, Any], policy: ToolPolicy) -> ToolOutcome:
    limit = tool.timeout or policy.timeout
    began = time.monotonic()
    try:
        value = await bounded(invoke(tool.function, **arguments), limit)
        answer = value if isinstance(value, ToolAnswer) else ToolAnswer(value)
        failure = ToolFailure.REPORTED if answer.is_error else None
        direct = tool.return_direct and failure is None
        return ToolOutcome(call, as_result(answer.result), failure, None, direct, time.monotonic() - began)
    except Exception as error:
        failure, text = _told(tool.name, error, limit, policy)
        return ToolOutcome(call, text, failure, error, False, time.monotonic() - began)


def _told(name: str, error: Exception, limit: float | None, policy: ToolPolicy) -> tuple[ToolFailure, str]:
    if isinstance(error, ToolTimeout):
        return ToolFailure.TIMEOUT, f"error: {name} was stopped: it was not done within {limit:g} s"
    if isinstance(error, ToolCancelled):
        return ToolFailure.RAISED, f"error: {name} was cancelled"
    if isinstance(error, UnsendableResult):
        return ToolFailure.UNSENDABLE, f"error: {name} ran, but its result cannot be sent: {error}"
    return ToolFailure.RAISED, f"error: {name} failed: {policy.explain(error)}"
