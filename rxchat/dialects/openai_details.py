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


class _Block:
    """
    One block: its fields, and the pieces of those that grow, joined once.
    """

    def __init__(self, detail: Mapping[str, Any], delta: int) -> None:
        self.delta = delta  # that began it
        self.fields = dict(detail)
        self.pieces: dict[str, list[str]] = {name: [detail[name]] for name in _GROWING if isinstance(detail.get(name), str)}

    def takes(self, detail: Mapping[str, Any]) -> bool:
        data, own_id, its_id = self.fields.get("data"), self.fields.get("id"), detail.get("id")
        sealed = data is not None and detail.get("data") not in (None, data)
        return not sealed and not (own_id and its_id and own_id != its_id)

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


class ReasoningDetails:
    """
    The blocks so far. A piece belongs to the block of its index and type that an earlier delta began, without an index to the last one of its type.
    """

    def __init__(self) -> None:
        self._blocks: list[_Block] = []
        self._by_key: dict[Any, list[_Block]] = {}
        self._deltas = 0

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
        self._deltas += 1
        for detail in details:
            rivals = self._by_key.setdefault(repr((detail.get("type"), detail.get("index"))), [])
            block = next((block for block in reversed(rivals) if block.delta < self._deltas and block.takes(detail)), None)
            if block is None:
                self._blocks.append(_Block(detail, self._deltas))
                rivals.append(self._blocks[-1])
            elif detail.get("data") is None or detail["data"] != block.fields.get("data"):
                block.grow(detail)
