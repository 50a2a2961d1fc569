"""
What is compared of replays, and how it is told.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import attrs

from rxchat.errors import RxchatError
from rxchat.response import COUNTERS, ChatResponse
from rxchat.strictjson import loads
from rxchat.testing.replays import fact_of

__all__ = ["answer", "facts", "is_json", "short", "sizes", "stripped"]


def is_json(body: bytes) -> bool:
    """
    Whether these bytes are one strict JSON value.
    """
    try:
        loads(body)
    except RxchatError:
        return False
    return True


def sizes(reads: Sequence[bytes]) -> str:
    """
    The sizes of reads, the first eight of them.
    """
    lengths = [len(read) for read in reads]
    return ", ".join(map(str, lengths[:8])) + (f" ... ({len(lengths)} reads)" if len(lengths) > 8 else "")


def short(value: Any, most: int = 200) -> str:
    """
    A repr that fits a line.
    """
    text = repr(value)
    return text if len(text) <= most else f"{text[:most]}..."


def answer(response: ChatResponse) -> tuple[Any, ...]:
    """
    What a reader of the answer sees of it.
    """
    return response.verdict, response.text, response.thinking, response.tool_calls, response.finish_reason


def facts(response: ChatResponse) -> dict[str, Any]:
    """
    What a stream and a JSON body must agree in; arguments by what they mean, since only streams have their spacing.
    """
    usage = response.usage
    return {
        "verdict": response.verdict,
        "finish": (response.finish_reason, response.finish_reason_raw),
        "text": response.text,
        "thinking": response.thinking,
        "refusal": response.refusal,
        "calls": [(call.id, call.name, call.arguments or call.arguments_text or "{}", call.complete) for call in response.tool_calls],
        "media": [(part.kind, part.mime, part.data, part.url) for part in response.media],
        "usage": usage and [getattr(usage, name) for name in COUNTERS],
    }


def stripped(event: Any) -> Any:
    """
    An event without what an unknown frame before it must change: its count, and offsets behind it.
    """
    fact = fact_of(event)
    if event.type == "ERROR":
        return fact[0], type(event.error), event.error.message, _uncounted(event.response)
    response = getattr(event, "response", None)
    return attrs.evolve(event, response=_uncounted(response)) if isinstance(response, ChatResponse) else fact


def _uncounted(response: ChatResponse) -> ChatResponse:
    return attrs.evolve(response, unknown={}, steps=tuple(_uncounted(step) for step in response.steps))
