"""
What a typed function looks like to a model: its JSON Schema, and the words of its docstring. `structuring` is the way back, from JSON to its arguments.
"""

from typing import TYPE_CHECKING

from rxchat.lazy import lazy_names

if TYPE_CHECKING:
    from rxchat.toolschema.hints import type_schema
    from rxchat.toolschema.signatures import ToolContext, ToolSignature, tool_signature, tool_spec

__all__ = ["ToolContext", "ToolSignature", "tool_signature", "tool_spec", "type_schema"]

_HOMES = {
    ".hints": "type_schema",
    ".signatures": "ToolContext ToolSignature tool_signature tool_spec",
}

if not TYPE_CHECKING:
    __getattr__, __dir__ = lazy_names(__name__, _HOMES)
