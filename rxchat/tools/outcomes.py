"""
How the run of one call went.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Any

import attrs

from rxchat.errors import ToolError
from rxchat.events import ToolResult
from rxchat.response import ToolCall, ToolResultPart

__all__ = ["ToolFailure", "ToolOutcome"]


class ToolFailure(StrEnum):
    """
    Why a call has no proper result. All but TIMEOUT, RAISED, UNSENDABLE and REPORTED mean that the tool was not run.
    """

    INCOMPLETE = "incomplete"  # the call, or its arguments, were cut off
    FINISH = "finish"  # the answer ended so that none of its calls may run
    KIND = "kind"  # free-form text for a tool that takes arguments, or the other way round
    INVALID_JSON = "invalid_json"
    INVALID_ARGUMENTS = "invalid_arguments"  # not what the schema or the types allow
    UNAUTHORIZED = "unauthorized"
    UNKNOWN_TOOL = "unknown_tool"
    DUPLICATE = "duplicate"  # a call with this id was there before
    SERVER_EXECUTED = "server_executed"  # the provider ran it itself (contract P10)
    TIMEOUT = "timeout"
    RAISED = "raised"
    UNSENDABLE = "unsendable"  # the tool ran, but what it returned cannot be said
    REPORTED = "reported"  # the tool itself says that it failed


@attrs.frozen
class ToolOutcome:
    """
    What came of one call. `failure` is None if the tool ran and returned; `error` is what it raised, for the host only.

    `return_direct`: the tool's result is meant as the answer itself. `seconds` is the time the tool took, 0 if it was not run.
    """

    call: ToolCall
    result: Any = None
    failure: ToolFailure | None = None
    error: BaseException | None = attrs.field(default=None, repr=False, eq=False)
    return_direct: bool = False
    seconds: float = attrs.field(default=0.0, eq=False)

    @property
    def is_error(self) -> bool:
        """
        Whether the model is to take the result for an error.
        """
        return self.failure is not None

    @property
    def event(self) -> ToolResult:
        """
        The event of the stream.
        """
        return ToolResult(self.call.id, self.result, self.is_error)

    @property
    def part(self) -> ToolResultPart:
        """
        The part of a tool message.
        """
        return ToolResultPart(self.call.id, self.result, self.is_error)

    def raise_for_failure(self) -> ToolOutcome:
        """
        Itself if all went well, else ToolError (verdict TOOL) with the words the model would have read.
        """
        if self.failure is not None:
            raise ToolError(f"tool call {self.call.id or self.call.name}: {self.result}") from self.error
        return self
