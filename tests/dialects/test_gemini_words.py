"""
The words of a Gemini tool put together: objects and lists grow, texts go on, and each word costs what is in it.
"""

from __future__ import annotations

from typing import Any

import pytest

from rxchat.dialects.gemini_words import Words
from tests.work import peak

CASES: dict[str, tuple[list[dict[str, Any]], dict[str, Any]]] = {
    "nothing": ([{"a": None, "b": "", "c": [], "d": {}}], {}),
    "nothing more": ([{"a": "x", "b": [1]}, {"a": None, "b": []}, {"a": "", "b": {}}], {"a": "x", "b": [1]}),
    "a text goes on": ([{"a": "x"}, {"a": "y"}, {"a": "é"}], {"a": "xyé"}),
    "a text is told longer": ([{"a": "x"}, {"a": "y"}, {"a": "xyz"}], {"a": "xyz"}),
    "a text is told again": ([{"a": "x"}, {"a": "y"}, {"a": "xy"}], {"a": "xy"}),
    "an id is another": ([{"id": "x"}, {"id": "y"}], {"id": "y"}),
    "a list grows": ([{"a": [1, "x"]}, {"a": ["x", 2]}, {"a": [2, [3], [3]]}, {"a": [[3], {"k": [1]}]}], {"a": [1, "x", 2, [3], [3], {"k": [1]}]}),
    "a list is told again": ([{"a": [1]}, {"a": [2]}, {"a": [1, 2]}], {"a": [1, 2]}),
    "an object grows": ([{"a": {"b": "x"}}, {"a": {"b": "y", "c": [1]}}, {"a": {"b": "z", "c": [2]}}], {"a": {"b": "xyz", "c": [1, 2]}}),
    "an object is told again": ([{"a": {"b": "x"}}, {"a": {"b": "y"}}, {"a": {"b": "xy"}}], {"a": {"b": "xy"}}),
    "something else": ([{"a": "x"}, {"a": "y"}, {"a": 1}, {"a": [1]}, {"a": [2]}, {"a": "z"}], {"a": "z"}),
}


@pytest.mark.parametrize(("said", "whole"), CASES.values(), ids=CASES)
def test_words(said: list[dict[str, Any]], whole: dict[str, Any]) -> None:
    """
    What was said in the end.
    """
    words = Words()
    for word in said:
        words.merge(word)
    assert whole == words.whole


def test_what_was_given_stays() -> None:
    """
    Neither what the wire said nor what was given before is changed by a later word.
    """
    words, said = Words(), {"a": [1], "b": {"c": [1]}}
    words.merge(said)
    words.merge({"a": [2], "b": {"c": [2]}})
    given = words.whole
    words.merge({"a": [3], "b": {"c": [3]}})
    assert {"a": [1], "b": {"c": [1]}} == said
    assert {"a": [1, 2], "b": {"c": [1, 2]}} == given


def test_a_text_that_follows() -> None:
    """
    A text is added to a text, and stands for anything else.
    """
    words = Words()
    for before, wanted in ((None, "x"), ("a", "ax"), ([1], "x")):
        words["a"] = before
        words.lengthen("a", "x")
        assert {"a": wanted} == words.whole
    words.lengthen("a", "y")
    assert {"a": "xy"} == words.whole


class Compared(str):
    """
    A text that counts how often it is compared.
    """

    __slots__ = ()

    times = 0

    def __eq__(self, other: object) -> bool:
        Compared.times += 1
        return str(self) == str(other)

    def __hash__(self) -> int:
        return hash(str(self))


def comparisons(count: int) -> int:
    """
    How many comparisons it takes to merge lists with so many values, one a word.
    """
    words, Compared.times = Words(), 0
    for k in range(count):
        words.merge({"a": [Compared(k)]})
    assert count == len(words.whole["a"])
    return Compared.times


def test_lists_are_linear() -> None:
    """
    A value is not compared to all that came before.
    """
    assert comparisons(400) < 2.2 * comparisons(200)


@pytest.mark.parametrize(
    "words",
    [
        ("x" * 1_000_000, "y", "z", "yz"),
        ([str(k) for k in range(100_000)], ["x"], ["y"], ["x", "z"]),
        ({str(k): k for k in range(100_000)}, {"x": 1}, {"y": 1}, {"x": 2, "z": 1}),
    ],
    ids=["text", "list", "object"],
)
def test_a_word_more_copies_nothing(words: tuple[Any, ...]) -> None:
    """
    However much was said, a word more costs no copy of it, below other objects too.
    """
    *before, last = ({"a": {"b": said}} for said in words)
    known = Words()
    for said in before:
        known.merge(said)
    assert peak(lambda: known.merge(last)) < 10_000
