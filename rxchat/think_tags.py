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


class TagScanner:
    """
    The state of one text: which tag is open, what is held back.
    """

    __slots__ = ("_closing", "_held", "_openings", "tag")

    def __init__(self, names: Sequence[str]) -> None:
        self._openings = {f"<{name}>": f"</{name}>" for name in names}
        self._held = ""
        self._closing = ""
        self.tag = False

    def pieces(self, text: str) -> Iterator[tuple[bool, str]]:
        """
        (is it thinking, the text), as far as it is decided; never empty.
        """
        text, self._held = self._held + text, ""
        while True:
            at, tag = self._next_tag(text)
            if at < 0:
                break
            if at:
                yield self.tag, text[:at]
            text = text[at + len(tag) :]
            self._closing = "" if self.tag else self._openings[tag]
            self.tag = not self.tag
        keep = self._undecided(text)
        self._held = text[len(text) - keep :]
        if len(text) > keep:
            yield self.tag, text[: len(text) - keep]

    def rest(self) -> Iterator[tuple[bool, str]]:
        """
        What was held back: no tag comes of it any more.
        """
        held, self._held = self._held, ""
        if held:
            yield self.tag, held

    def _wanted(self) -> Sequence[str]:
        return (self._closing,) if self.tag else tuple(self._openings)

    def _next_tag(self, text: str) -> tuple[int, str]:
        found = [(at, tag) for tag in self._wanted() if (at := text.find(tag)) >= 0]
        return min(found, default=(-1, ""))

    def _undecided(self, text: str) -> int:
        """
        How many characters at the end may be the beginning of a tag.
        """
        wanted = self._wanted()
        longest = max(map(len, wanted), default=1) - 1
        start = max(len(text) - longest, 0)
        while (start := text.find("<", start)) >= 0:
            tail = text[start:]
            if any(tag.startswith(tail) for tag in wanted):
                return len(tail)
            start += 1
        return 0


@attrs.define(eq=False)
class _Block:
    """
    A text block being split. `declared`: its START came from outside, so what is open of it must be told and closed; `open` is what that is.
    """

    scanner: TagScanner
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
        self._names = tuple(names)
        self._blocks: dict[BlockKey, _Block] = {}

    def feed(self, event: ChatEvent, emit: Emit[ChatEvent]) -> None:
        kind = type(event)
        if kind is TextDelta:
            self._delta(event, emit)  # type: ignore[arg-type]
        elif kind is TextStart:
            self._blocks[_key(event)] = _Block(TagScanner(self._names), declared=True)
        elif kind is TextEnd:
            self._end(event, emit)  # type: ignore[arg-type]
        else:
            if kind in _ENDING:
                self._let_go(None if kind in _ENDING_ALL else event.choice, emit)  # type: ignore[union-attr]
            emit(event)

    def flush(self, emit: Emit[ChatEvent]) -> None:
        self._let_go(None, emit)

    def fail(self, error: Exception, emit: Emit[ChatEvent]) -> None:
        self._let_go(None, emit)

    def _delta(self, event: TextDelta, emit: Emit[ChatEvent]) -> None:
        key = _key(event)
        block = self._blocks.get(key)
        if block is None:
            block = self._blocks[key] = _Block(TagScanner(self._names))
        for thinking, text in block.scanner.pieces(event.text):
            self._say(block, key, thinking, event if text == event.text and not thinking else text, emit)

    def _say(self, block: _Block, key: BlockKey, thinking: bool, said: TextDelta | str, emit: Emit[ChatEvent]) -> None:
        choice, index, item_id = key
        if block.declared and block.open is not thinking:
            self._close(block, key, emit)
            block.open = thinking
            emit((ThinkingStart if thinking else TextStart)(index, item_id, choice))
        block.said = True
        if isinstance(said, str):
            said = (ThinkingDelta if thinking else TextDelta)(said, index, item_id, choice)  # type: ignore[assignment]
        emit(said)  # type: ignore[arg-type]

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
        block = self._blocks.get(key)
        if block is None or not block.declared:
            self._rest(key, emit)
            emit(event)
            return
        self._rest(key, emit)
        if not block.said:
            emit(TextStart(event.index, event.item_id, event.choice))
            emit(event)
        self._close(block, key, emit)
        del self._blocks[key]

    def _rest(self, key: BlockKey, emit: Emit[ChatEvent]) -> None:
        block = self._blocks.get(key)
        for thinking, text in block.scanner.rest() if block else ():
            self._say(block, key, thinking, text, emit)  # type: ignore[arg-type]

    def _let_go(self, choice: int | None, emit: Emit[ChatEvent]) -> None:
        for key in [key for key in self._blocks if choice is None or key[0] == choice]:
            self._rest(key, emit)


def _key(event: Any) -> BlockKey:
    return event.choice, event.index, event.item_id


# Behind these no held-back character can become a tag of the same text: the choice says something else, or all is over.
_ENDING_ALL = frozenset({StepStart, StepEnd, ResponseEnd, Abort, ErrorEvent})
_ENDING = _ENDING_ALL | {ThinkingStart, ThinkingDelta, ToolCallStart, RefusalDelta}
