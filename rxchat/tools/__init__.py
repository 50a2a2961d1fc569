"""
Tools that can be run: `@tool` makes one of a typed function, `run_call` and `run_calls` run what a model asked for, `mcp_tools` brings those of an MCP server.

Nothing is run that is not whole, valid and allowed (contract T2); everything else becomes a result that tells the model why, or a ToolError by policy.
"""

from typing import TYPE_CHECKING

from rxchat.lazy import lazy_names

if TYPE_CHECKING:
    from rxchat.tools.answers import ToolAnswer
    from rxchat.tools.declared import Tool, tool
    from rxchat.tools.mcp_sessions import mcp_tools
    from rxchat.tools.outcomes import ToolFailure, ToolOutcome
    from rxchat.tools.parallel import run_calls
    from rxchat.tools.permission import Allow, Authorize, Deny, ToolRequest
    from rxchat.tools.running import ToolPolicy, run_call
    from rxchat.tools.toolsets import StepContext, ToolLike, ToolSet, ToolSource, tools_for
    from rxchat.toolschema import ToolContext

__all__ = [
    "Allow",
    "Authorize",
    "Deny",
    "StepContext",
    "Tool",
    "ToolAnswer",
    "ToolContext",
    "ToolFailure",
    "ToolLike",
    "ToolOutcome",
    "ToolPolicy",
    "ToolRequest",
    "ToolSet",
    "ToolSource",
    "mcp_tools",
    "run_call",
    "run_calls",
    "tool",
    "tools_for",
]

_HOMES = {
    "..toolschema": "ToolContext",
    ".permission": "Allow Authorize Deny ToolRequest",
    ".declared": "Tool tool",
    ".toolsets": "StepContext ToolLike ToolSet ToolSource tools_for",
    ".answers": "ToolAnswer",
    ".outcomes": "ToolFailure ToolOutcome",
    ".running": "ToolPolicy run_call",
    ".parallel": "run_calls",
    ".mcp_sessions": "mcp_tools",
}

if not TYPE_CHECKING:
    __getattr__, __dir__ = lazy_names(__name__, _HOMES)
