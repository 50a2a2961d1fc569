"""
Reasoning that comes as tags inside the text, taken out of it: `<think>...</think>` becomes thinking, the rest stays text.

A tag may be cut anywhere between deltas. What may still become a tag is held back, at most one character less than the longest tag; it is let go by the
first character that decides, and by anything that ends the block. Only what stands between a tag and its own closing tag is thinking; a closing tag without
its opening one stays text.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any, TypeAlias

import attrs

from rxchat.errors import ConfigurationError
from rxchat.events import (
    Abort,
    ChatEvent,
    ErrorEvent,
    RefusalDelta,
    ResponseEnd,
    StepEnd,
    StepStart,
    TextDelta,
    TextEnd,
    TextStart,
    ThinkingDelta,
    ThinkingEnd,
    ThinkingStart,
    ToolCallStart,
)
from rxchat.stage import Emit, Stage

__all__ = ["THINK_TAGS", "ThinkTagSplitter", "tag_names"]

THINK_TAGS = ("think", "thinking", "reasoning")

_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_-]{0,31}")

BlockKey: TypeAlias = tuple[int, int | None, str | None]

# The tags of which the next one counts, and what finds it.
_Wanted: TypeAlias = tuple[tuple[str, ...], re.Pattern[str]]


def tag_names(value: Any) -> tuple[str, ...]:
    """
    Tag names out of an option: true for the usual ones, false for none, else names in a list or separated by commas; ConfigurationError for others.
    """
    words = {"true": THINK_TAGS, "on": THINK_TAGS, "yes": THINK_TAGS, "1": THINK_TAGS, "false": (), "off": (), "no": (), "0": (), "": ()}
    if value is None or isinstance(value, bool):
        return THINK_TAGS if value else ()
    if isinstance(value, str):
        value = words.get(value.lower()) or ([] if value.lower() in words else value.split(","))
    names = tuple(str(name).strip() for name in value)
    bad = [name for name in names if not _NAME.fullmatch(name)]
    if bad:
        raise ConfigurationError(f"not the name of a tag: {', '.join(map(repr, bad))}")
    return names


def _wanted(tags: tuple[str, ...]) -> _Wanted:
    # One pattern for all, so that none is looked for beyond the first; without tags it finds nothing.
    return tags, re.compile("|".join(map(re.escape, sorted(tags))) or "(?!)")


class _Tags:
    """
    Tags by their names: those that open, and behind each the one that closes it.
    """

    __slots__ = ("closings", "openings")

    def __init__(self, names: Sequence[str]) -> None:
        self.openings = _wanted(tuple(f"<{name}>" for name in names))
        self.closings = {f"<{name}>": _wanted((f"</{name}>",)) for name in names}


class TagScanner:
    """
    The state of one text: whether a tag is open, what is held back.
    """

    __slots__ = ("_pattern", "_tags", "_wanted", "held", "inside")

    def __init__(self, tags: _Tags) -> None:
        self._tags = tags
        self._wanted, self._pattern = tags.openings
        self.held = ""
        self.inside = False

    def plain(self, text: str) -> bool:
        """
        Whether the text goes through as it is.
        """
        return not (self.inside or self.held) and "<" not in text

    def pieces(self, text: str) -> Iterator[tuple[bool, str]]:
        """
        (is it thinking, the text), as far as it is decided; never empty.
        """
        text, self.held = self.held + text, ""
        begin = 0
        while found := self._pattern.search(text, begin):
            at, end = found.span()
            if at > begin:
                yield self.inside, text[begin:at]
            begin = end
            self.inside = not self.inside
            self._wanted, self._pattern = self._tags.closings[found[0]] if self.inside else self._tags.openings
        end = len(text) - self._undecided(text, begin)
        self.held = text[end:]
        if end > begin:
            yield self.inside, text[begin:end]

    def rest(self) -> Iterator[tuple[bool, str]]:
        """
        What was held back: no tag comes of it any more.
        """
        held, self.held = self.held, ""
        if held:
            yield self.inside, held

    def _undecided(self, text: str, begin: int) -> int:
        """
        How many characters at the end, of those behind `begin`, may be the beginning of a tag.
        """
        longest = max(map(len, self._wanted), default=1) - 1
        start = text.find("<", max(len(text) - longest, begin))
        while start >= 0:
            tail = text[start:]
            if any(tag.startswith(tail) for tag in self._wanted):
                return len(tail)
            start = text.find("<", start + 1)
        return 0


@attrs.define(eq=False)
class _Block:
    """
    A text block being split, the `order`th of all. `declared`: its START came from outside, so what is open of it must be told and closed; `open` is what
    that is.
    """

    scanner: TagScanner
    order: int = 0
    declared: bool = False
    said: bool = False
    open: bool | None = None


class ThinkTagSplitter(Stage[ChatEvent, ChatEvent]):
    """
    Split the tags out of all text deltas, each block on its own; every other event passes.

    Takes the raw events of a dialect as well as normalized ones: a block that came with TextStart leaves as blocks with their own starts and ends, in balance.
    Responses riding on events are left as they are.
    """

    def __init__(self, names: Sequence[str] = THINK_TAGS) -> None:
        self._tags = _Tags(tuple(names))
        self._blocks: dict[BlockKey, _Block] = {}
        self._made = 0
        # By choice, the blocks that hold something back: whatever ends the texts of a choice asks these alone, however many there are besides.
        self._holding: dict[int, set[BlockKey]] = {}

    def feed(self, event: ChatEvent, emit: Emit[ChatEvent]) -> None:
        kind = type(event)
        if kind is TextDelta:
            self._delta(event, emit)  # type: ignore[arg-type]
        elif kind is TextStart:
            key = _key(event)
            if key in self._blocks:
                # Begun anew without an end: what may have become a tag is text.
                self._rest(self._blocks[key], key, emit)
            self._make(key, declared=True)
        elif kind is TextEnd:
            self._end(event, emit)  # type: ignore[arg-type]
        else:
            if kind in _ENDING_ALL:
                self._let_all_go(emit)
                self._blocks.clear()
            elif kind in _ENDING:
                self._let_go(event.choice, emit)  # type: ignore[union-attr]
            emit(event)

    def flush(self, emit: Emit[ChatEvent]) -> None:
        self._let_all_go(emit)

    def fail(self, error: Exception, emit: Emit[ChatEvent]) -> None:
        self._let_all_go(emit)

    def _delta(self, event: TextDelta, emit: Emit[ChatEvent]) -> None:
        key = _key(event)
        block = self._blocks.get(key)
        if block is None:
            block = self._make(key)
        if block.scanner.plain(event.text):
            self._say(block, key, False, event, emit)
            return
        for thinking, text in block.scanner.pieces(event.text):
            self._say(block, key, thinking, (ThinkingDelta if thinking else TextDelta)(text, event.index, event.item_id, event.choice), emit)
        if block.scanner.held:
            self._holding.setdefault(event.choice, set()).add(key)

    def _make(self, key: BlockKey, declared: bool = False) -> _Block:
        """
        A new block, in the place of one with that key.
        """
        self._made += 1
        before = self._blocks.get(key)
        block = self._blocks[key] = _Block(TagScanner(self._tags), before.order if before else self._made, declared)
        return block

    def _say(self, block: _Block, key: BlockKey, thinking: bool, delta: TextDelta | ThinkingDelta, emit: Emit[ChatEvent]) -> None:
        if block.declared and block.open is not thinking:
            self._close(block, key, emit)
            block.open = thinking
            choice, index, item_id = key
            emit((ThinkingStart if thinking else TextStart)(index, item_id, choice))
        block.said = True
        emit(delta)

    def _close(self, block: _Block, key: BlockKey, emit: Emit[ChatEvent]) -> None:
        choice, index, item_id = key
        if block.open is not None:
            emit((ThinkingEnd if block.open else TextEnd)(index, item_id, choice))
            block.open = None

    def _end(self, event: TextEnd, emit: Emit[ChatEvent]) -> None:
        """
        The block ends: an empty one as it came, any other with what is open of it.
        """
        key = _key(event)
        block = self._blocks.pop(key, None) or _Block(TagScanner(self._tags))
        self._holding.get(event.choice, set()).discard(key)
        self._rest(block, key, emit)
        if block.declared and not block.said:
            emit(TextStart(event.index, event.item_id, event.choice))
        if not block.declared or not block.said:
            emit(event)
        self._close(block, key, emit)

    def _rest(self, block: _Block, key: BlockKey, emit: Emit[ChatEvent]) -> None:
        choice, index, item_id = key
        for thinking, text in block.scanner.rest():
            self._say(block, key, thinking, (ThinkingDelta if thinking else TextDelta)(text, index, item_id, choice), emit)

    def _let_go(self, choice: int, emit: Emit[ChatEvent]) -> None:
        for key in sorted(self._holding.pop(choice, ()), key=lambda key: self._blocks[key].order):
            self._rest(self._blocks[key], key, emit)

    def _let_all_go(self, emit: Emit[ChatEvent]) -> None:
        self._holding.clear()
        for key, block in self._blocks.items():
            self._rest(block, key, emit)


def _key(event: Any) -> BlockKey:
    return event.choice, event.index, event.item_id


# Behind these no held-back character becomes a tag of the same text: all is over, or the choice says something else.
_ENDING_ALL = frozenset({StepStart, StepEnd, ResponseEnd, Abort, ErrorEvent})
_ENDING = frozenset({ThinkingStart, ThinkingDelta, ToolCallStart, RefusalDelta})
