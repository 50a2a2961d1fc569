"""
Who may say no before a tool runs: a hook of the host, which may ask a person.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Any, TypeAlias

import attrs

from rxchat.response import ToolCall

if TYPE_CHECKING:
    from rxchat.tools.declared import Tool
    from rxchat.toolschema import ToolContext

__all__ = ["Allow", "Authorize", "Decision", "Deny", "ToolRequest", "reason_against"]


@attrs.frozen
class ToolRequest:
    """
    A call about to be run. `arguments` have passed the tool's schema; a free-form tool has its text there, under the name of its parameter.
    """

    call: ToolCall
    tool: Tool[..., Any]
    arguments: Mapping[str, Any]
    context: ToolContext


@attrs.frozen
class Allow:
    """
    The call may run.
    """


@attrs.frozen
class Deny:
    """
    The call may not run; the model reads `reason`.
    """

    reason: str = ""


Decision: TypeAlias = bool | str | Allow | Deny

# True or Allow lets the call run; False, Deny, or a text, which is the reason, does not. Sync hooks run in a thread, so they may wait for a person.
Authorize: TypeAlias = Callable[[ToolRequest], Decision | Awaitable[Decision]]


def reason_against(decision: Any) -> str | None:
    """
    None if the call may run, else why not; TypeError for what is no decision, so that a forgotten `return` never allows anything.
    """
    if decision is True or isinstance(decision, Allow):
        return None
    if decision is False:
        return ""
    if isinstance(decision, Deny):
        return decision.reason
    if isinstance(decision, str):
        return decision
    raise TypeError(f"authorize returns True, False, a reason, Allow or Deny, not {type(decision).__name__}")
