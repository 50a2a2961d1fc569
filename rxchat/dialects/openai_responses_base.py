"""
What every output item of the Responses protocol has, and the items of which nothing more need be known.

An item is opened by `response.output_item.added`, filled by its own delta events and settled by `response.output_item.done` or, where that never comes, by
the terminal response. Everything is said once: a final form only adds what the deltas left out. Ids rotate on some wires, so an item keeps the first id it
was seen with, and blocks and calls are numbered here, in the order of their appearance.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from itertools import count
from typing import Any, TypeAlias

import attrs

from rxchat.dialects.base import string
from rxchat.errors import DialectError
from rxchat.events import PROVIDER_ITEM, ChatEvent, Custom, ToolResult
from rxchat.growingtext import GrowingText
from rxchat.stage import Emit
from rxchat.strictjson import dumps

__all__ = ["FAILED", "Fields", "Host", "Item", "OpaqueItem", "Out", "ResultItem", "ToldText", "UnknownItem"]

Fields: TypeAlias = Mapping[str, Any]
Out: TypeAlias = Emit[ChatEvent]

# What an item's status says when it did not end well.
FAILED = ("failed", "incomplete")


@attrs.define
class Host:
    """
    What all items of one response share: numbers, what was noticed on the way, and the parser's ways to complain.

    `refused`: words of refusal came. `torn`: what was said is not what the provider says it said. `phases`: of messages, by item id.
    """

    open_step: Callable[[Out], None]
    unknown: Callable[[str, Any, Out], None]
    malformed: Callable[[str], DialectError]
    blocks: Iterator[int] = attrs.field(factory=count)
    calls: Iterator[int] = attrs.field(factory=count)
    refused: bool = False
    torn: bool = False
    phases: dict[str, str] = attrs.field(factory=dict)

    def text(self, value: Fields, key: str) -> str:
        """
        A text of a known frame; missing, null and empty mean nothing (contract E13), anything else is malformed (E11).
        """
        text = value.get(key)
        if text is None:
            return ""
        if type(text) is not str:
            raise self.malformed(f"{key} is no text")
        return text

    def arguments(self, value: Any) -> str:
        """
        What a tool is called with: a text as it is, an object as its compact JSON (contract P3).
        """
        return dumps(value) if isinstance(value, dict) else self.text({"arguments": value}, "arguments")


class ToldText(GrowingText):
    """
    A text that comes in pieces and then, once or more often, as a whole. A whole costs what is in it, however long the pieces are.
    """

    # How far the text was looked at, and from where to where it is more than white space so far.
    _seen = _start = _end = 0

    def remainder(self, final: str) -> str | None:
        """
        What `final` has beyond what was said, None if they contradict each other. White space at the ends is no contradiction, no final text says nothing.
        """
        if not final:
            return ""
        raw = _bytes(final)
        with self.getbuffer() as said:
            if raw.startswith(said):
                return raw[len(said) :].decode("utf-8", "surrogatepass")
            self._look(said)
            bare = _bytes(final.strip())
            same = len(bare) == self._end - self._start and bare.startswith(said[self._start : self._end])
        return "" if same else None

    def ends(self, final: str) -> bool:
        """
        Whether that ends with all of this text.
        """
        with self.getbuffer() as said:
            return _bytes(final).endswith(said)

    def _look(self, said: memoryview) -> None:
        more = str(said[self._seen :], "utf-8", "surrogatepass")
        bare = more.lstrip()
        if bare and not self._end:
            self._start = self._seen + len(_bytes(more[: len(more) - len(bare)]))
        if bare:
            self._end = self._seen + len(_bytes(more.rstrip()))
        self._seen = len(said)


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")


class Item:
    """
    One output item. `finish` is called once, with the item's final form.

    `announced` is False where only its deltas were seen: a stream taken up in its middle, which then has but the end of its texts.
    """

    __slots__ = ("announced", "done", "host", "id", "type")

    def __init__(self, host: Host, raw: Fields) -> None:
        self.host = host
        self.type = string(raw.get("type")) or ""
        self.id = string(raw.get("id"))
        self.announced = True
        self.done = False

    def begin(self, raw: Fields, emit: Out) -> None:
        """
        The item was announced.
        """

    def finish(self, raw: Fields, emit: Out) -> None:
        """
        The item is whole: say what was not said yet.
        """

    def came_late(self, said: ToldText, final: str) -> bool:
        """
        Whether a contradiction is only that the beginning was never here: then the response is `torn`, but nothing in it is wrong.
        """
        return not self.announced and said.ends(final)


class ResultItem(Item):
    """
    The result of a call the provider ran itself (contract P10).
    """

    __slots__ = ()

    def finish(self, raw: Fields, emit: Out) -> None:
        emit(ToolResult(string(raw.get("call_id")) or "", raw.get("output"), raw.get("status") in FAILED))


class OpaqueItem(Item):
    """
    An item that means something only to the provider; kept as it came (contract P12).
    """

    __slots__ = ()

    def finish(self, raw: Fields, emit: Out) -> None:
        emit(Custom(PROVIDER_ITEM, {"type": self.type, "raw": raw}))


class UnknownItem(OpaqueItem):
    """
    An item of a type nobody here knows: reported, and kept.
    """

    __slots__ = ()

    def finish(self, raw: Fields, emit: Out) -> None:
        self.host.unknown(f"item {self.type}", raw, emit)
        super().finish(raw, emit)
