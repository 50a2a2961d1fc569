"""
The dialects: a table of wire protocols by name, each imported when it is first asked for.

Other packages add theirs by an entry point of the group "rxchat.dialects" whose name is the dialect's name and whose object is a `Dialect`.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import TYPE_CHECKING

from rxchat.dialects.base import Context, Dialect, Option, Parser
from rxchat.errors import ConfigurationError

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

__all__ = ["DIALECTS", "Context", "Dialect", "Option", "Parser", "dialect_names", "get_dialect"]

GROUP = "rxchat.dialects"

# One line a dialect: its name, the module and the attribute that is its Dialect.
DIALECTS: Mapping[str, str] = {
    "anthropic": "rxchat.dialects.anthropic:ANTHROPIC",
    "bedrock-converse": "rxchat.dialects.bedrock_converse:BEDROCK_CONVERSE",
    "bedrock-invoke": "rxchat.dialects.bedrock_invoke:BEDROCK_INVOKE",
    "cohere": "rxchat.dialects.cohere:COHERE",
    "cohere-v1": "rxchat.dialects.cohere:COHERE_V1",
    "dashscope": "rxchat.dialects.dashscope:DASHSCOPE",
    "gemini": "rxchat.dialects.gemini:GEMINI",
    "gemini-interactions": "rxchat.dialects.gemini_interactions:GEMINI_INTERACTIONS",
    "mistral": "rxchat.dialects.mistral:MISTRAL",
    "ollama": "rxchat.dialects.ollama:OLLAMA",
    "openai-chat": "rxchat.dialects.openai_chat:OPENAI_CHAT",
    "openai-responses": "rxchat.dialects.openai_responses:OPENAI_RESPONSES",
}


def get_dialect(name: str) -> Dialect:
    """
    The dialect of that name; ConfigurationError lists those that exist.
    """
    if name in DIALECTS:
        return _imported(DIALECTS[name])
    for point in _entry_points():
        if point.name == name:
            return _checked(name, point.load())
    raise ConfigurationError(f"unknown dialect {name!r}; there are: {', '.join(dialect_names())}")


def dialect_names() -> tuple[str, ...]:
    """
    All names, our own and those of installed packages, sorted; nothing is imported for it.
    """
    return tuple(sorted({*DIALECTS, *(point.name for point in _entry_points())}))


def _entry_points() -> tuple[EntryPoint, ...]:
    # Here: only a name that is none of ours needs it.
    from importlib.metadata import entry_points

    return tuple(entry_points(group=GROUP))


def _imported(where: str) -> Dialect:
    module, _, attribute = where.partition(":")
    return _checked(where, getattr(import_module(module), attribute))


def _checked(name: str, found: object) -> Dialect:
    if not isinstance(found, Dialect):
        raise ConfigurationError(f"{name} is no Dialect but {type(found).__name__}")
    return found
