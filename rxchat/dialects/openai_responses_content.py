"""
Messages and reasoning of the Responses protocol: items made of blocks of text, of reasoning and of refusal.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any, ClassVar

from rxchat.dialects.base import mapping, sequence, string
from rxchat.dialects.openai_responses_base import Fields, Host, Item, Out, ToldText
from rxchat.dialects.openai_responses_fields import citation
from rxchat.events import (
    PROVIDER_ITEM,
    Citation,
    Custom,
    RefusalDelta,
    TextDelta,
    TextEnd,
    ThinkingDelta,
    ThinkingEnd,
    ThinkingRedacted,
    ThinkingSignature,
)

__all__ = ["Block", "ContentItem", "RefusalBlock", "TextBlock", "ThinkingBlock"]


class Block:
    """
    One part of a message or of a reasoning item.
    """

    __slots__ = ("ended", "index", "item_id", "said")

    key: ClassVar[str] = "text"

    def __init__(self, index: int, item_id: str | None) -> None:
        self.index = index
        self.item_id = item_id
        self.said = ToldText()
        self.ended = False

    def say(self, text: str, emit: Out) -> None:
        """
        A fragment, not empty.
        """
        raise NotImplementedError

    def close(self, emit: Out) -> None:
        """
        The block's end, once, if anything was said in it.
        """
        if self.said and not self.ended:
            self.ended = True
            self._end(emit)

    def _end(self, emit: Out) -> None:
        """
        Say so.
        """


class TextBlock(Block):
    """
    Visible text with its citations.
    """

    __slots__ = ("_cited", "_numbers")

    def __init__(self, index: int, item_id: str | None) -> None:
        super().__init__(index, item_id)
        self._cited: Counter[Citation] = Counter()
        self._numbers: set[int] = set()

    def say(self, text: str, emit: Out) -> None:
        self.said.add(text)
        emit(TextDelta(text, self.index, self.item_id))

    def going_on(self) -> Callable[[str, Out], None]:
        """
        `say`, for strict JSON, in fewer steps.
        """
        write, index, item_id = self.said.write, self.index, self.item_id

        def say(text: str, emit: Out) -> None:
            write(text.encode())
            emit(TextDelta(text, index, item_id))

        return say

    def cite(self, raw: Fields, number: Any, emit: Out) -> None:
        """
        One annotation by its own event; the same number again is a repetition.
        """
        if type(number) is int:
            if number in self._numbers:
                return
            self._numbers.add(number)
        found = citation(raw, self.index)
        self._cited[found] += 1
        emit(found)

    def settle_citations(self, annotations: list[Any], emit: Out) -> None:
        """
        The final list of annotations: those without an event of their own are said now.
        """
        final: Counter[Citation] = Counter()
        for raw in annotations:
            found = citation(mapping(raw), self.index)
            final[found] += 1
            if final[found] > self._cited[found]:
                self._cited[found] += 1
                emit(found)

    def _end(self, emit: Out) -> None:
        emit(TextEnd(self.index, self.item_id))


class ThinkingBlock(Block):
    """
    A part of the reasoning: of its summary, or of the raw chain.
    """

    __slots__ = ()

    def say(self, text: str, emit: Out) -> None:
        self.said.add(text)
        emit(ThinkingDelta(text, self.index, self.item_id))

    def _end(self, emit: Out) -> None:
        emit(ThinkingEnd(self.index, self.item_id))


class RefusalBlock(Block):
    """
    The words of a refusal; never text (contract V7).
    """

    __slots__ = ()

    key: ClassVar[str] = "refusal"

    def say(self, text: str, emit: Out) -> None:
        self.said.add(text)
        emit(RefusalDelta(text))


PARTS: Mapping[str, type[Block]] = {
    "output_text": TextBlock,
    "text": TextBlock,
    "refusal": RefusalBlock,
    "summary_text": ThinkingBlock,
    "reasoning_text": ThinkingBlock,
}

# What a part is that does not say so.
SPACES: Mapping[str, str] = {"summary": "summary_text", "content": "output_text"}


def _place(space: str, number: Any) -> tuple[str, int]:
    return space, number if type(number) is int else 0


class ContentItem(Item):
    """
    A message or a reasoning item: blocks under a content or a summary index, which are two name spaces.
    """

    __slots__ = ("_strange", "blocks")

    def __init__(self, host: Host, raw: Fields) -> None:
        super().__init__(host, raw)
        self.blocks: dict[tuple[str, int], Block] = {}
        self._strange: set[tuple[str, int]] = set()

    def begin(self, raw: Fields, emit: Out) -> None:
        phase = string(raw.get("phase"))
        if phase and self.id:
            self.host.phases[self.id] = phase

    def block(self, space: str, number: Any, kind: type[Block]) -> Block:
        """
        The block under an index of `space` ("content" or "summary"); a missing index is 0.
        """
        place = _place(space, number)
        block = self.blocks.get(place)
        if block is None:
            block = self.blocks[place] = kind(next(self.host.blocks), self.id)
            if kind is RefusalBlock:
                self.host.refused = True
        return block

    def settle(self, block: Block, final: str, emit: Out) -> None:
        """
        The final text of a block. One that contradicts what was said changes nothing any more, but it is counted; an answer told in two ways is no whole one,
        reasoning is no answer.
        """
        rest = block.said.remainder(final)
        if rest:
            block.say(rest, emit)
        elif rest is None:
            self.host.torn = self.host.torn or not isinstance(block, ThinkingBlock)
            if not self.came_late(block.said, final):
                self.host.unknown(f"differing final {block.key}", final, emit)
        block.close(emit)

    def part(self, space: str, number: Any, raw: Fields, emit: Out) -> None:
        """
        The final form of one part; one of an unknown type is reported once.
        """
        word = string(raw.get("type")) or SPACES[space]
        kind = PARTS.get(word)
        if kind is not None:
            block = self.block(space, number, kind)
            self.settle(block, self.host.text(raw, block.key), emit)
            if isinstance(block, TextBlock):
                block.settle_citations(sequence(raw.get("annotations")), emit)
        elif _place(space, number) not in self._strange:
            self._strange.add(_place(space, number))
            self.host.unknown(f"content part {word}", raw, emit)

    def finish(self, raw: Fields, emit: Out) -> None:
        self.begin(raw, emit)
        self.type = string(raw.get("type")) or self.type
        for space in SPACES:
            for number, part in enumerate(sequence(raw.get(space))):
                self.part(space, number, mapping(part), emit)
        if self.type == "reasoning":
            self._seal(string(raw.get("encrypted_content")), emit)
            emit(Custom(PROVIDER_ITEM, {"type": self.type, "raw": raw}))
        for block in self.blocks.values():
            block.close(emit)

    def _seal(self, sealed: str | None, emit: Out) -> None:
        """
        Encrypted reasoning: the signature of its last readable part, of the summary first; without any, a block only the provider can read.
        """
        readable = max((place for place, block in self.blocks.items() if block.said), default=None)
        if sealed and readable:
            emit(ThinkingSignature(sealed, self.blocks[readable].index, self.id))
        elif sealed:
            emit(ThinkingRedacted(sealed, next(self.host.blocks), self.id))
