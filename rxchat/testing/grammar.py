"""
The grammar of a stream (contract E1 to E6, E13, N7, P5), checked by a reader of its own that knows nothing of the normalizer.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from rxchat.events import (
    ChatEvent,
    ErrorEvent,
    Phase,
    ResponseStart,
    StepEnd,
    StepStart,
    TextDelta,
    TextEnd,
    TextStart,
    ThinkingDelta,
    ThinkingEnd,
    ThinkingStart,
    ToolCallArgsDelta,
    ToolCallEnd,
    ToolCallStart,
)

__all__ = ["grammar_violations"]

_TEXT = (TextStart, TextDelta, TextEnd)
_THINKING = (ThinkingStart, ThinkingDelta, ThinkingEnd)
_CALL = (ToolCallStart, ToolCallArgsDelta, ToolCallEnd)


def grammar_violations(events: Iterable[ChatEvent], *, whole: bool = True) -> list[str]:
    """
    What breaks E1 to E6, E13 in a whole stream; with `whole=False` the envelope (ResponseStart, terminal) is not asked for. Empty is right.
    """
    reader = _Reader()
    listed = list(events)
    for event in listed:
        reader.read(event)
    if whole:
        reader.ends(listed)
    return reader.wrong


class _Reader:
    def __init__(self) -> None:
        self.wrong: list[str] = []
        self.step: int | None = None
        self.steps_seen = -1
        self.over = False
        self.blocks: dict[tuple[str, int], list[tuple[Any, Any]]] = {}
        self.calls: set[tuple[int, int | None]] = set()

    def say(self, event: ChatEvent, what: str) -> None:
        self.wrong.append(f"{event.type}: {what}")

    def ends(self, events: list[ChatEvent]) -> None:
        if not events or not isinstance(events[0], ResponseStart):
            self.wrong.append("the first event is not RESPONSE_START")
        if sum(isinstance(event, ResponseStart) for event in events) > 1:
            self.wrong.append("more than one RESPONSE_START")
        if sum(event.terminal for event in events) != 1 or not events[-1].terminal:
            self.wrong.append("not exactly one terminal, last")

    def read(self, event: ChatEvent) -> None:
        if self.over:
            self.say(event, "behind the terminal")
        if event.phase is Phase.DELTA and getattr(event, "text", "x") == "":
            self.say(event, "an empty delta")
        if event.terminal:
            self.terminal(event)
        elif isinstance(event, StepStart):
            self.step_start(event)
        elif isinstance(event, StepEnd):
            self.step_end(event)
        elif isinstance(event, _CALL):
            self.call(event)
        elif isinstance(event, _TEXT + _THINKING):
            self.block(event)

    def terminal(self, event: ChatEvent) -> None:
        self.over = True
        self.nothing_open(event)
        if self.step is not None:
            self.say(event, "a step is open")
        if isinstance(event, ErrorEvent) and event.error.verdict is None:
            self.say(event, "an error without a verdict")

    def step_start(self, event: StepStart) -> None:
        self.nothing_open(event)
        if self.step is not None:
            self.say(event, "the step before is open")
        if event.step <= self.steps_seen:
            self.say(event, "a step number that was used")
        self.step = self.steps_seen = event.step

    def step_end(self, event: StepEnd) -> None:
        self.nothing_open(event)
        if self.step != event.step:
            self.say(event, f"ends step {event.step} in step {self.step}")
        self.step = None
        self.calls.clear()

    def nothing_open(self, event: ChatEvent) -> None:
        left = [key for key, blocks in self.blocks.items() if blocks]
        if left or self.calls:
            self.say(event, f"open: {left} {sorted(self.calls, key=str)}")
        self.blocks.clear()
        self.calls.clear()

    def block(self, event: Any) -> None:
        group, other = ("TEXT", "THINKING") if isinstance(event, _TEXT) else ("THINKING", "TEXT")
        mine = self.blocks.setdefault((group, event.choice), [])
        if self.blocks.get((other, event.choice)) and event.phase is not Phase.END:
            self.say(event, f"inside {other}")
        key = (event.index, event.item_id)
        if event.phase is Phase.START:
            if key in mine:
                self.say(event, f"block {key} is open already")
            mine.append(key)
            return
        known = self.find(key, mine)
        if known is None:
            self.say(event, f"no open block {key} in {mine}")
        elif event.phase is Phase.END:
            mine.remove(known)
        else:
            mine[mine.index(known)] = key

    @staticmethod
    def find(key: tuple[Any, Any], blocks: list[tuple[Any, Any]]) -> tuple[Any, Any] | None:
        """
        The block of that key; else one that gets its name, or a part of it, by this event (contract N6, P5).
        """
        if key in blocks:
            return key
        fits = [block for block in blocks if all(had is None or had == has for had, has in zip(block, key, strict=True))]
        return fits[0] if fits else None

    def call(self, event: Any) -> None:
        key = (event.choice, event.index)
        if event.index is None:
            self.say(event, "a call without an index")
        if event.phase is Phase.START:
            if key in self.calls:
                self.say(event, f"call {key} is open already")
            if any(self.blocks.get((group, event.choice)) for group in ("TEXT", "THINKING")):
                self.say(event, "text or thinking is open")
            self.calls.add(key)
        elif key not in self.calls:
            self.say(event, f"no open call {key}")
        elif event.phase is Phase.END:
            self.calls.discard(key)
            if event.tool_call.arguments is not None and not event.tool_call.complete:
                self.say(event, "arguments of a call that is not complete")
