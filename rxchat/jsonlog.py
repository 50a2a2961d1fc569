"""
A JSON value as a log: what came, each with the number of the delta that brought it, so that the value as of any delta can be made.

The log is only ever appended to; nothing is copied while it grows.
"""

from __future__ import annotations

from array import array
from bisect import bisect_right
from typing import Any

__all__ = ["Fields", "Items", "Text", "plain"]

# What has not ended yet ends after every delta.
_OPEN = 2**62


class Items:
    """
    An array: its items and the deltas that brought them.
    """

    __slots__ = ("births", "end", "items")

    def __init__(self) -> None:
        self.items: list[Any] = []
        self.births = array("q")
        self.end = _OPEN

    def count(self, delta: int) -> int:
        """
        How many there were.
        """
        return len(self.births) if self.end <= delta else bisect_right(self.births, delta)

    def plain(self, delta: int) -> Any:
        return [plain(item, delta) for item in self.items[: self.count(delta)]]

    def find(self, key: object, delta: int) -> Any:
        """
        The item at `key`; KeyError if it was not there.
        """
        count = self.count(delta)
        if type(key) is not int or not -count <= key < count:
            raise KeyError(key)
        return self.items[key % count]


class Fields(Items):
    """
    An object: the same, and where each key stands.
    """

    __slots__ = ("places",)

    def __init__(self) -> None:
        super().__init__()
        self.places: dict[str, int] = {}

    def plain(self, delta: int) -> Any:
        return {key: plain(item, delta) for key, item in zip(list(self.places), self.items[: self.count(delta)], strict=False)}

    def find(self, key: object, delta: int) -> Any:
        place = self.places[key] if isinstance(key, str) else _OPEN
        if place >= self.count(delta):
            raise KeyError(key)
        return self.items[place]


class Text:
    """
    A string: its pieces, and how long it was after each delta that grew it.
    """

    __slots__ = ("deltas", "end", "parts", "size", "sizes")

    def __init__(self) -> None:
        self.parts: list[str] = []
        self.size = 0
        self.deltas = array("q")
        self.sizes = array("q")
        self.end = _OPEN

    def add(self, piece: str, delta: int) -> None:
        self.parts.append(piece)
        self.size += len(piece)
        if self.deltas and self.deltas[-1] == delta:
            self.sizes[-1] = self.size
        else:
            self.sizes.append(self.size)
            self.deltas.append(delta)

    def plain(self, delta: int) -> str:
        # Joined once for all who look. Another piece may come meanwhile, where somebody looks from another thread.
        known = len(self.parts)
        text = "".join(self.parts[:known])
        self.parts[:known] = [text]
        if self.end <= delta:
            return text
        grown = bisect_right(self.deltas, delta)
        return text[: self.sizes[grown - 1]] if grown else ""


def plain(item: Any, delta: int) -> Any:
    """
    The value of an item as of a delta, made anew.
    """
    return item.plain(delta) if isinstance(item, Items | Text) else item
