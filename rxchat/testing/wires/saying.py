"""
What encoders have in common: arguments as an object, counts and places as a wire has them, refused where it has none.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import groupby
from typing import Any

from rxchat.errors import InvalidJSONError
from rxchat.response import COUNTERS, CitationPart, FinishReason, Part, ToolCall, Usage
from rxchat.strictjson import loads
from rxchat.testing.wires.base import cannot_say

__all__ = [
    "arguments_of",
    "byte_range",
    "finish_word",
    "metadata_of",
    "refuse_counts",
    "refuse_fields",
    "refuse_total",
    "runs",
    "uncached",
    "unreasoned",
]


def runs(parts: tuple[Part, ...]) -> Iterator[list[Part]]:
    """
    The parts in order, neighbouring calls together: providers say those in one breath.
    """
    for together, group in groupby(parts, lambda part: isinstance(part, ToolCall)):
        if together:
            yield list(group)
        else:
            yield from ([part] for part in group)


def arguments_of(dialect: str, call: ToolCall) -> dict[str, Any]:
    """
    The arguments as the object this wire wants; nothing for no text. ConfigurationError for anything else, and for a free-form call.
    """
    if call.kind != "function":
        raise cannot_say(dialect, f"a free-form call ({call.name})")
    try:
        value = loads(call.arguments_text) if call.arguments_text else {}
    except InvalidJSONError as error:
        raise cannot_say(dialect, f"the arguments of {call.name}", f"its calls carry an object, and they are {error}") from error
    if not isinstance(value, dict):
        raise cannot_say(dialect, f"the arguments of {call.name}", f"its calls carry an object, not {type(value).__name__}")
    return value


def metadata_of(dialect: str, call: ToolCall, *known: str) -> dict[str, Any]:
    """
    What goes with a call, of these names; ConfigurationError for anything else, and for a call that is free-form or was run by the provider.
    """
    if call.kind != "function":
        raise cannot_say(dialect, f"a free-form call ({call.name})")
    if call.server_executed:
        raise cannot_say(dialect, f"a call the provider ran itself ({call.name})")
    said = {name: value for name, value in (call.metadata or {}).items() if value is not None}
    for name in said:
        if name not in known:
            raise cannot_say(dialect, f"{name} of a call ({call.name})")
    return said


def refuse_fields(dialect: str, part: Part, *names: str) -> None:
    """
    ConfigurationError for fields of a part that the wire has no place for.
    """
    for name in names:
        if getattr(part, name):
            raise cannot_say(dialect, f"{name} of a {type(part).__name__}")


def finish_word(dialect: str, finish: FinishReason, words: Mapping[FinishReason, str | None]) -> str | None:
    """
    The provider's word for a finish; ConfigurationError where it has none.
    """
    if finish not in words:
        raise cannot_say(dialect, f"the finish {finish.value}", f"it has {', '.join(word.value for word in words)}")
    return words[finish]


# --- counts ---------------------------------------------------------------------------------------------------------------------------------------


def refuse_counts(dialect: str, usage: Usage, *known: str) -> None:
    """
    ConfigurationError for a counter the wire has no field for.
    """
    for name in COUNTERS:
        if name not in known and getattr(usage, name) is not None:
            raise cannot_say(dialect, f"usage.{name}", "its wire has no such count")


def refuse_total(dialect: str, usage: Usage) -> None:
    """
    ConfigurationError for a total that is not the sum, where the wire has none and the reader adds up.
    """
    if usage.total_tokens is not None and usage.total_tokens != (usage.input_tokens or 0) + (usage.output_tokens or 0):
        raise cannot_say(dialect, f"usage.total_tokens {usage.total_tokens}", "its wire has no total, and input and output are another sum")


def unreasoned(dialect: str, usage: Usage) -> int | None:
    """
    The output without its reasoning, which these wires count apart (contract P4).
    """
    return _less(dialect, usage, "output_tokens", "reasoning_tokens")


def uncached(dialect: str, usage: Usage) -> int | None:
    """
    The input without what was read from or written to a cache, likewise.
    """
    return _less(dialect, usage, "input_tokens", "cache_read_tokens", "cache_write_tokens")


def _less(dialect: str, usage: Usage, whole: str, *shares: str) -> int | None:
    total, share = getattr(usage, whole), sum(getattr(usage, name) or 0 for name in shares)
    if share > (total or 0):
        raise cannot_say(dialect, f"usage.{' + '.join(shares)} above usage.{whole}", "they are counted in it")
    return None if total is None else int(total) - share


# --- citations ------------------------------------------------------------------------------------------------------------------------------------


def byte_range(dialect: str, citation: CitationPart, text: str) -> tuple[int, int] | None:
    """
    The place of a citation in bytes of the text it cites; None where it names none.
    """
    start, end = citation.start, citation.end
    if start is None or end is None:
        return None
    if not 0 <= start <= end <= len(text):
        raise cannot_say(dialect, f"a citation of {start} to {end}", f"the text before it has {len(text)} code points")
    return len(text[:start].encode()), len(text[:end].encode())
