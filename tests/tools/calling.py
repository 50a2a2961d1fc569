"""
Calls as a fold would have made them.
"""

from __future__ import annotations

from typing import Any

from rxchat.response import ToolCall
from rxchat.strictjson import dumps

__all__ = ["a_call", "cut_off", "free_text"]


def a_call(tool_name: str, id: str = "call_1", /, **arguments: Any) -> ToolCall:
    """
    A whole call.
    """
    return ToolCall(id, tool_name, dumps(arguments), arguments, True)


def cut_off(tool_name: str, text: str, id: str = "call_1") -> ToolCall:
    """
    A call whose arguments stop somewhere.
    """
    return ToolCall(id, tool_name, text)


def free_text(tool_name: str, text: str, id: str = "call_1") -> ToolCall:
    """
    A whole call with a text instead of arguments.
    """
    return ToolCall(id, tool_name, text, None, True, kind="custom")
