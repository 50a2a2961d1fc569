"""
A text that comes in pieces: it comes out as it went in, and is held in few bytes.
"""

from __future__ import annotations

import tracemalloc

from hypothesis import given
from hypothesis import strategies as st

from rxchat.growingtext import GrowingText


@given(st.lists(st.text(st.characters(codec=None, exclude_categories=()), max_size=5)))
def test_it_comes_out_as_it_went_in(pieces: list[str]) -> None:
    """
    Any pieces, lone surrogates among them, read in between or not.
    """
    grown = GrowingText()
    for k, piece in enumerate(pieces):
        grown.add(piece)
        if k % 3 == 0:
            assert "".join(pieces[: k + 1]) == grown.text
    assert "".join(pieces) == grown.text


def test_halves_stay_halves() -> None:
    """
    The two halves of a pair in two pieces are what they are in a joined str.
    """
    grown = GrowingText()
    for half in "\ud83d", "\ude00":
        grown.add(half)
    assert "\ud83d\ude00" == grown.text
    assert len(grown.text) == 2


def test_few_bytes() -> None:
    """
    Not an object for each piece.
    """
    grown, pieces = GrowingText(), [f"{n:05d}" for n in range(10_000)]
    tracemalloc.start()
    for piece in pieces:
        grown.add(piece)
    held = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    assert held < 2 * 5 * 10_000
