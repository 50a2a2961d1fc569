"""
`reasoning_details` kept whole: pieces joined by type and index, sealed blocks apart.
"""

from __future__ import annotations

import sys
from typing import Any

import pytest

from rxchat.dialects.openai_details import ReasoningDetails


def text(piece: str, index: int | None = 0, **more: Any) -> dict[str, Any]:
    return {"type": "reasoning.text", "text": piece, "index": index, **more}


def sealed(data: str, index: int | None = None, **more: Any) -> dict[str, Any]:
    return {"type": "reasoning.encrypted", "data": data, "index": index, **more}


CASES: dict[str, tuple[list[list[dict[str, Any]]], list[dict[str, Any]]]] = {
    "nothing": ([[]], []),
    "pieces": ([[text("a")], [text("b")], [text("c", signature="s")]], [text("abc", signature="s")]),
    "a text that comes late": ([[{"type": "reasoning.text", "index": 0, "text": None}], [text("a")], [text("b")]], [text("ab")]),
    "two blocks of one delta": ([[text("a"), text("b")]], [text("a"), text("b")]),
    "by index": ([[text("a", 0)], [text("x", 1)], [text("b", 0)]], [text("ab", 0), text("x", 1)]),
    "a seal said twice": ([[sealed("D")], [sealed("D")]], [sealed("D")]),
    "two seals": ([[sealed("D")], [sealed("E")]], [sealed("D"), sealed("E")]),
    "other ids": ([[text("a", id="1")], [text("b", id="2")]], [text("a", id="1"), text("b", id="2")]),
    "a null says nothing": ([[text("a", id="1")], [text("b", id=None)]], [text("ab", id="1")]),
    "an index that is no number": (
        [[{"type": "t", "index": [], "text": "a"}], [{"type": "t", "index": [], "text": "b"}]],
        [{"type": "t", "index": [], "text": "ab"}],
    ),
}


@pytest.mark.parametrize(("deltas", "blocks"), CASES.values(), ids=CASES)
def test_blocks(deltas: list[list[dict[str, Any]]], blocks: list[dict[str, Any]]) -> None:
    """
    What goes back is what a provider would have sent in one piece.
    """
    kept = ReasoningDetails()
    for delta in deltas:
        kept.take(delta)
    assert blocks == kept.blocks
    assert bool(blocks) is bool(kept)


def instructions(count: int) -> int:
    """
    Lines run to take so many blocks of their own, then so many pieces of one.
    """
    kept, lines = ReasoningDetails(), 0

    def trace(*_: Any) -> Any:
        nonlocal lines
        lines += 1
        return trace

    before = sys.gettrace()  # the coverage of the suite
    sys.settrace(trace)
    try:
        for k in range(count):
            kept.take([text("x", k)])
        for _ in range(count):
            kept.take([text("x", 0)])
    finally:
        sys.settrace(before)
    return lines


def test_work_is_linear() -> None:
    """
    Twice the details are twice the work.
    """
    assert instructions(400) < 2.2 * instructions(200)
