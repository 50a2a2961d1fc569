"""
`reasoning_details`: reasoning as blocks, streamed in pieces, kept whole for the next request.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from heapq import heappop, heappush
from itertools import product
from typing import Any, TypeAlias

from rxchat.dialects.hash_keys import hash_key

__all__ = ["REASONING_DETAILS", "ReasoningDetails"]

REASONING_DETAILS = "reasoning_details"
# What grows; every other field is said once, a later value counts.
_GROWING = ("text", "summary")
# An id and data, as keys; None is none.
_Place: TypeAlias = tuple[Any, Any]
_ANY: Any = object()


class _Block:
    """
    One block: its fields, and the pieces of those that grow, joined once. `number` counts the blocks.
    """

    def __init__(self, detail: Mapping[str, Any], number: int) -> None:
        self.number = number
        self.fields = dict(detail)
        self.pieces: dict[str, list[str]] = {name: [detail[name]] for name in _GROWING if isinstance(detail.get(name), str)}

    def grow(self, detail: Mapping[str, Any]) -> None:
        for name, value in detail.items():
            if name in self.pieces and isinstance(value, str):
                self.pieces[name].append(value)
            elif value is not None:
                self.fields[name] = value
                if name in _GROWING and isinstance(value, str):
                    self.pieces[name] = [value]

    @property
    def whole(self) -> dict[str, Any]:
        return self.fields | {name: "".join(pieces) for name, pieces in self.pieces.items()}


class _Rivals:
    """
    The blocks of one index and type, found by id and data: a piece with either belongs to none that has another, but may bring it to one without.
    """

    def __init__(self) -> None:
        # By id or any, and data or any: the last block first. One that got another id or data still stands where it stood.
        self._places: defaultdict[_Place, list[tuple[int, _Block]]] = defaultdict(list)

    def add(self, block: _Block) -> None:
        """
        The block may be taken now, for what it is now.
        """
        known_id, data = _identity(block.fields)
        for place in product((known_id, _ANY), (data, _ANY)):
            heappush(self._places[place], (-block.number, block))

    def last(self, detail: Mapping[str, Any]) -> _Block | None:
        """
        The last block that takes this piece.
        """
        own_id, data = _identity(detail)
        places = product((_ANY,) if own_id is None else (own_id, None), (_ANY,) if data is None else (data, None))
        found = [block for place in places if (block := self._last_at(place)) is not None]
        return max(found, key=lambda block: block.number, default=None)

    def _last_at(self, place: _Place) -> _Block | None:
        blocks = self._places.get(place, [])
        while blocks and not _stands(blocks[0][1], place):
            heappop(blocks)
        return blocks[0][1] if blocks else None


def _identity(fields: Mapping[str, Any]) -> _Place:
    return hash_key(fields.get("id") or None), hash_key(fields.get("data"))


def _stands(block: _Block, place: _Place) -> bool:
    return all(wanted in (_ANY, own) for wanted, own in zip(place, _identity(block.fields), strict=True))


class ReasoningDetails:
    """
    The blocks so far. A piece belongs to the block of its index and type that an earlier delta began, without an index to the last one of its type.
    """

    def __init__(self) -> None:
        self._blocks: list[_Block] = []
        self._by_key: defaultdict[str, _Rivals] = defaultdict(_Rivals)

    def __bool__(self) -> bool:
        return bool(self._blocks)

    @property
    def blocks(self) -> list[dict[str, Any]]:
        """
        The blocks as the provider would send them whole.
        """
        return [block.whole for block in self._blocks]

    def take(self, details: Iterable[Mapping[str, Any]]) -> None:
        """
        The details of one delta: pieces of blocks known before it, or blocks of their own. What was said whole before is said once.
        """
        begun: list[tuple[_Rivals, _Block]] = []
        for detail in details:
            rivals = self._by_key[repr((detail.get("type"), detail.get("index")))]
            block = rivals.last(detail)
            if block is None:
                block = _Block(detail, len(self._blocks))
                self._blocks.append(block)
                begun.append((rivals, block))
            elif detail.get("data") is None or detail["data"] != block.fields.get("data"):
                before = _identity(block.fields)
                block.grow(detail)
                if before != _identity(block.fields):
                    rivals.add(block)
        for rivals, block in begun:
            rivals.add(block)
