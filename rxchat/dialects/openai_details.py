"""
`reasoning_details`: reasoning as blocks, streamed in pieces, kept whole for the next request.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

__all__ = ["REASONING_DETAILS", "ReasoningDetails"]

REASONING_DETAILS = "reasoning_details"
# What grows; every other field is said once, a later value counts.
_GROWING = ("text", "summary")


class ReasoningDetails:
    """
    The blocks so far. A piece belongs to the block of its index and type that an earlier delta began, without an index to the last one of its type.
    """

    def __init__(self) -> None:
        self.blocks: list[dict[str, Any]] = []

    def take(self, details: Iterable[Mapping[str, Any]]) -> None:
        """
        The details of one delta: pieces of blocks known before it, or blocks of their own. What was said whole before is said once.
        """
        before = list(self.blocks)
        for detail in details:
            block = next((block for block in reversed(before) if _same(block, detail)), None)
            if block is None:
                self.blocks.append(dict(detail))
            elif detail.get("data") is None or detail["data"] != block.get("data"):
                _grow(block, detail)


def _same(block: Mapping[str, Any], detail: Mapping[str, Any]) -> bool:
    sealed = block.get("data") is not None and detail.get("data") not in (None, block["data"])
    named = block.get("id") and detail.get("id") and block["id"] != detail["id"]
    return not sealed and not named and all(block.get(name) == detail.get(name) for name in ("type", "index"))


def _grow(block: dict[str, Any], detail: Mapping[str, Any]) -> None:
    for name, value in detail.items():
        if name in _GROWING and isinstance(value, str) and isinstance(block.get(name), str):
            block[name] += value
        elif value is not None:
            block[name] = value
