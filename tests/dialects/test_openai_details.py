"""
`reasoning_details` kept whole: pieces joined by type and index, sealed blocks apart.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

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


def taken_by(blocks: list[dict[str, Any]], detail: dict[str, Any]) -> int | None:
    """
    Which block takes a piece by the plain rule: the last that has no other id and no other data.
    """
    for number in reversed(range(len(blocks))):
        known = blocks[number]
        rivals = [known.get(name) not in (blank, detail[name]) and detail[name] != blank for name, blank in (("id", ""), ("data", None))]
        if not any(rivals):
            return number
    return None


@given(st.lists(st.tuples(st.sampled_from(["", "a", "b"]), st.sampled_from([None, "D", "E", [1], {"k": [1]}])), max_size=12))
def test_the_last_that_fits(pieces: list[tuple[str, Any]]) -> None:
    """
    A piece goes to the last block it does not contradict, also to one that has only come by its id or its data.
    """
    kept, blocks = ReasoningDetails(), list[dict[str, Any]]()
    for own_id, data in pieces:
        detail = {"type": "t", "id": own_id, "data": data}
        kept.take([detail])
        number = taken_by(blocks, detail)
        if number is None:
            blocks.append(detail)
        elif data is None or data != blocks[number]["data"]:
            blocks[number] = detail if data is not None else detail | {"data": blocks[number]["data"]}
    assert blocks == kept.blocks


def test_blocks_of_one_delta_are_found_by_the_next() -> None:
    """
    Pieces of one delta are blocks of their own; the next delta goes on with the last of them.
    """
    kept = ReasoningDetails()
    kept.take([text("a", id="1"), text("b", id="1")])
    kept.take([text("c", id="1")])
    assert [text("a", id="1"), text("bc", id="1")] == kept.blocks


SHAPES: dict[str, Callable[[int], list[list[dict[str, Any]]]]] = {
    "own indices, then pieces of one": lambda n: [*([text("x", k)] for k in range(n)), *([text("x", 0)] for _ in range(n))],
    "own ids": lambda n: [[text("x", id=f"{k}")] for k in range(n)],
    "own data": lambda n: [[sealed(f"{k}")] for k in range(n)],
    "own ids and data": lambda n: [[sealed(f"{k}", id=f"{k}")] for k in range(n)],
    "ids that change": lambda n: [[sealed("D", id=str(k % 2) * (k % 3))] for k in range(n)],
    "own ids in one delta": lambda n: [[text("x", id=f"{k}") for k in range(n)]] * 2,
    "data of no kind": lambda n: [[sealed("x") | {"data": {"k": [k]}}] for k in range(n)],
}


def instructions(deltas: list[list[dict[str, Any]]]) -> int:
    """
    Lines run to take them.
    """
    kept, lines = ReasoningDetails(), 0

    def trace(*_: Any) -> Any:
        nonlocal lines
        lines += 1
        return trace

    before = sys.gettrace()  # the coverage of the suite
    sys.settrace(trace)
    try:
        for delta in deltas:
            kept.take(delta)
    finally:
        sys.settrace(before)
    return lines


@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES)
def test_work_is_linear(shape: Callable[[int], list[list[dict[str, Any]]]]) -> None:
    """
    Twice the details are twice the work.
    """
    assert instructions(shape(400)) < 2.2 * instructions(shape(200))
