"""
The output items of one response: which class each type has, and which item an event means.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from typing import Any

from rxchat.dialects.base import string
from rxchat.dialects.openai_responses_base import Fields, Host, Item, OpaqueItem, Out, ResultItem, UnknownItem
from rxchat.dialects.openai_responses_content import ContentItem
from rxchat.dialects.openai_responses_tools import CallItem, ServerItem

__all__ = ["Items"]

ITEMS: Mapping[str, type[Item]] = {
    **dict.fromkeys(("message", "reasoning"), ContentItem),
    **dict.fromkeys(("function_call", "custom_tool_call"), CallItem),
    **dict.fromkeys(("function_call_output", "custom_tool_call_output"), ResultItem),
    **dict.fromkeys(("compaction", "program", "program_output"), OpaqueItem),
    **dict.fromkeys(
        (
            "apply_patch_call",
            "apply_patch_call_output",
            "code_interpreter_call",
            "computer_call",
            "computer_call_output",
            "file_search_call",
            "image_generation_call",
            "local_shell_call",
            "local_shell_call_output",
            "mcp_approval_request",
            "mcp_call",
            "mcp_list_tools",
            "shell_call",
            "shell_call_output",
            "tool_search_call",
            "tool_search_output",
            "web_search_call",
        ),
        ServerItem,
    ),
}


def class_of(kind: Any) -> type[Item]:
    """
    The class for an item's type.
    """
    return ITEMS.get(kind, UnknownItem) if isinstance(kind, str) else UnknownItem


class Items:
    """
    The items seen so far.

    An event means the item at its output index; without an index, the one of its id; without either, the last of its class. Where several would fit, they
    must be of one class.
    """

    def __init__(self, host: Host) -> None:
        self._host = host
        self._items: list[Item] = []
        # By output index, by id, and the last one by None; each with the item's class.
        self._places: dict[tuple[Any, type[Item]], Item] = {}
        self.current: Any = None  # for whoever keeps what it found: dropped when an item begins

    @property
    def calls(self) -> Iterator[CallItem]:
        """
        Calls of client tools, in order.
        """
        return (item for item in self._items if isinstance(item, CallItem))

    def added(self, raw: Fields, index: Any, emit: Out) -> None:
        """
        An item was announced; one that its deltas announced before is told now what it is.
        """
        known = self._find(index, raw.get("id"), class_of(raw.get("type")))
        if known is None or known.done or (known.announced and (known.id, known.type) != (string(raw.get("id")), raw.get("type"))):
            self._begin(raw, index, emit)
        elif not known.announced:
            known.announced = True
            known.begin(raw, emit)

    def done(self, raw: Fields, index: Any, emit: Out) -> None:
        """
        An item is whole.
        """
        item = self._find(index, raw.get("id"), class_of(raw.get("type")))
        if item is None or (item.done and item.id != string(raw.get("id"))):
            item = self._begin(raw, index, emit)
        _finish(item, raw, emit)

    def meant(self, value: Fields, kind: str, emit: Out) -> Any:
        """
        The item of a delta event; one that nobody announced begins here, as an item of the type `kind`.
        """
        index, item_id = value.get("output_index"), value.get("item_id")
        item = self._find(index, item_id, class_of(kind))
        if item is None:
            item = self._begin({"type": kind, "id": item_id}, index, emit)
            item.announced = False
        return item

    def settle(self, output: list[Fields], emit: Out) -> None:
        """
        The terminal response lists its items: finish those that no event finished; one that was never seen at all begins here.
        """
        seen: defaultdict[str, list[Item]] = defaultdict(list)
        for item in self._items:
            seen[item.type].append(item)
        queues = {kind: iter(items) for kind, items in seen.items()}
        met: set[Item] = set()
        for number, raw in enumerate(output):
            kind = string(raw.get("type")) or ""
            queue = queues.get(kind, iter(()))
            placed = (self._places.get((place, class_of(kind))) for place in (string(raw.get("id")), number) if place is not None)
            fitting = (item for found in (placed, queue) for item in found if item is not None and item.type == kind and item not in met)
            item = next(fitting, None) or self._begin(raw, None, emit)
            met.add(item)
            _finish(item, raw, emit)

    def _begin(self, raw: Fields, index: Any, emit: Out) -> Item:
        self._host.open_step(emit)
        self.current = None
        kind = class_of(raw.get("type"))
        item = kind(self._host, raw)
        self._items.append(item)
        for place in (None, item.id, index if type(index) is int else None):
            self._places[place, kind] = item
        item.begin(raw, emit)
        return item

    def _find(self, index: Any, item_id: Any, kind: type[Item]) -> Item | None:
        if type(index) is int:
            return self._places.get((index, kind))
        return self._places.get((string(item_id), kind)) or self._places.get((None, kind))


def _finish(item: Item, raw: Fields, emit: Out) -> None:
    if not item.done:
        item.done = True
        item.finish(raw, emit)
