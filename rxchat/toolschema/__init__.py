"""
What a typed function looks like to a model: its JSON Schema, and the words of its docstring. `structuring` is the way back, from JSON to its arguments.
"""

from rxchat.toolschema.hints import type_schema
from rxchat.toolschema.signatures import ToolContext, ToolSignature, tool_signature, tool_spec

__all__ = ["ToolContext", "ToolSignature", "tool_signature", "tool_spec", "type_schema"]
