"""
What a tool of a Gemini interaction says in several words, put together as they come.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from rxchat.dialects.hash_keys import hash_key
from rxchat.growingtext import GrowingText

__all__ = ["NOT_SAID", "Words"]

# Of a tool's step and its deltas, what is not the tool's own word.
NOT_SAID = frozenset({"type", "id", "call_id", "index"})


class _Text:
    """
    A text that went on. It equals the same text.
    """

    def __init__(self, text: str) -> None:
        self.said = GrowingText()
        self.length = 0
        self.add(text)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, str) and len(other) == self.length and other == self.said.text

    def add(self, piece: str) -> None:
        self.said.add(piece)
        self.length += len(piece)

    def begins(self, text: str) -> bool:
        return len(text) >= self.length and text.startswith(self.said.text)


class _List(list[Any]):
    """
    A list that grew, and what is in it.
    """

    def __init__(self, values: Iterable[Any]) -> None:
        super().__init__(values)
        self.seen = set(map(hash_key, self))

    def add(self, values: list[Any]) -> None:
        """
        What was not in it yet; a value that is new twice is there twice.
        """
        keys = [hash_key(value) for value in values]
        self.extend(value for value, key in zip(values, keys, strict=True) if key not in self.seen)
        self.seen.update(keys)


class Words(dict[str, Any]):
    """
    An object of a tool's. Values that grow are held in a form of their own, so that each word costs what is in it; `whole` has them as JSON.
    """

    @property
    def whole(self) -> dict[str, Any]:
        """
        All of it.
        """
        return {key: _whole(value) for key, value in self.items()}

    def merge(self, said: Mapping[str, Any]) -> None:
        """
        What a later word adds: objects and lists grow, texts go on unless they are repeated, null and empty mean nothing.
        """
        for key, value in said.items():
            before = self.get(key)
            if value in (None, "", [], {}) or before == value:
                continue
            if isinstance(before, dict) and isinstance(value, dict):
                self[key] = words = before if isinstance(before, Words) else Words(before)
                words.merge(value)
            elif isinstance(before, list) and isinstance(value, list):
                self[key] = grown = before if isinstance(before, _List) else _List(before)
                grown.add(value)
            elif key not in NOT_SAID and isinstance(before, str | _Text) and isinstance(value, str) and not _begins(before, value):
                self.lengthen(key, value)
            else:
                self[key] = value

    def lengthen(self, key: str, text: str) -> None:
        """
        A text goes on; what was no text before is one now.
        """
        before = self.get(key)
        if isinstance(before, str):
            before = self[key] = _Text(before)
        if isinstance(before, _Text):
            before.add(text)
        else:
            self[key] = text


def _begins(before: str | _Text, text: str) -> bool:
    return text.startswith(before) if isinstance(before, str) else before.begins(text)


def _whole(value: Any) -> Any:
    if isinstance(value, Words):
        return value.whole
    if isinstance(value, _Text):
        return value.said.text
    return list(value) if isinstance(value, _List) else value
