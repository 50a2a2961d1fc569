"""
The normalizer: boundaries only (contract E2-E5, N, P5, P6, P13, P14).

It opens blocks a delta needs, closes what is left open, drops what is doubled or belongs to nothing, and gives every tool-call event its id and its index.
It adds neither ResponseStart nor a terminal and folds nothing.

    state of a step     open text and thinking blocks, per group and choice: key -> order of opening
                        tool calls, per choice, open and ended
    state of a stream   the open step; sealed or not (two tables of handlers)

What comes out is a fixed point: fed in again, it comes out unchanged (contract N8).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import count
from typing import Any, TypeAlias

import attrs

from rxchat.call_keys import TrackedCall, TrackedCalls, is_local_id
from rxchat.errors import Verdict, verdict_of
from rxchat.events import (
    ANONYMOUS,
    EVENT_TYPES,
    Abort,
    BlockKey,
    ChatEvent,
    ErrorEvent,
    Group,
    RefusalDelta,
    ResponseEnd,
    ResponseStart,
    ServerToolArgsDelta,
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
    match_block,
)
from rxchat.response import ChatResponse, ToolCall
from rxchat.stage import Emit, Stage

__all__ = ["Normalizer"]

_STARTS: Mapping[Group, Any] = {Group.TEXT: TextStart, Group.THINKING: ThinkingStart}
_ENDS: Mapping[Group, Any] = {Group.TEXT: TextEnd, Group.THINKING: ThinkingEnd}
_OTHER: Mapping[Group, Group] = {Group.TEXT: Group.THINKING, Group.THINKING: Group.TEXT}

_Handler: TypeAlias = Callable[["Normalizer", Any, Emit[ChatEvent]], None]


class Normalizer(Stage[ChatEvent, ChatEvent]):
    """
    Balanced events out of whatever a dialect says; ResponseStart begins a new response, a terminal seals the stream until then.
    """

    def __init__(self) -> None:
        self._table: Mapping[type[ChatEvent], _Handler] = _OPEN
        self._order = count()
        self._reset()

    def feed(self, event: ChatEvent, emit: Emit[ChatEvent]) -> None:
        # Most events are the next piece of the block at hand: those pass with no call of their handler.
        kind, current = type(event), self._current
        if current is not None and kind is current[0] and event.text and current == (kind, event.choice, event.index, event.item_id):  # type: ignore[union-attr]
            emit(event)
        else:
            self._table[kind](self, event, emit)

    def flush(self, emit: Emit[ChatEvent]) -> None:
        self._end_step(Verdict.INCOMPLETE_STREAM, emit)

    def fail(self, error: Exception, emit: Emit[ChatEvent]) -> None:
        self._end_step(verdict_of(error), emit)

    def settle(self, seed: ChatResponse, emit: Emit[ChatEvent]) -> None:
        """
        End the calls and blocks that are open, as the StepEnd of this seed would; that one may then wait for what belongs in front of it.
        """
        self._close(seed, emit)

    def _reset(self) -> None:
        self._step: int | None = None
        self._number = 0  # of the last step, for local ids
        self._dropped = 0
        self._forget()

    def _forget(self) -> None:
        """
        A step begins or ended: nothing is open, ids and indexes count anew.
        """
        self._blocks: dict[tuple[Group, int], dict[BlockKey, int]] = {}
        self._calls: dict[int, TrackedCalls] = {}
        # Two short cuts, dropped when something opens or ends: what the last delta passed by (its class and key), the call of each spelling of a key.
        self._current: tuple[Any, ...] | None = None
        self._routes: dict[tuple[int, int | None, str], TrackedCall] = {}

    # Text and thinking -----------------------------------------------------------------------------------------------------------------------

    def _delta(self, event: TextDelta | ThinkingDelta, emit: Emit[ChatEvent]) -> None:
        if not event.text:
            return
        self._enter(event, emit)
        self._current = (type(event), event.choice, event.index, event.item_id)
        emit(event)

    def _enter(self, event: TextDelta | ThinkingDelta, emit: Emit[ChatEvent]) -> None:
        own = (event.index, event.item_id)
        opened = self._opened(event.group, event.choice)
        found = match_block(opened, own)
        if found is None:
            self._open(event.group, event.choice, own, emit)
            emit(_STARTS[event.group](event.index, event.item_id, event.choice))
        elif found == ANONYMOUS:
            opened[own] = opened.pop(found)

    def _block_start(self, event: TextStart | ThinkingStart, emit: Emit[ChatEvent]) -> None:
        own = (event.index, event.item_id)
        if own not in self._opened(event.group, event.choice):
            self._open(event.group, event.choice, own, emit)
            emit(event)

    def _block_end(self, event: TextEnd | ThinkingEnd, emit: Emit[ChatEvent]) -> None:
        own = (event.index, event.item_id)
        opened = self._opened(event.group, event.choice)
        found = match_block(opened, own)
        if found is None or (found == ANONYMOUS and found != own):
            return
        del opened[found]
        self._current = None
        emit(event if found == own else _ENDS[event.group](*found, event.choice))

    def _opened(self, group: Group, choice: int) -> dict[BlockKey, int]:
        return self._blocks.setdefault((group, choice), {})

    def _open(self, group: Group, choice: int, key: BlockKey, emit: Emit[ChatEvent]) -> None:
        self._close_blocks(_OTHER[group], choice, emit)
        self._opened(group, choice)[key] = next(self._order)
        self._current = None

    def _close_blocks(self, group: Group, choice: int, emit: Emit[ChatEvent]) -> None:
        opened = self._blocks.pop((group, choice), None)
        self._current = None
        for key in sorted(opened, key=opened.__getitem__) if opened else ():
            emit(_ENDS[group](*key, choice))

    # Tool calls ------------------------------------------------------------------------------------------------------------------------------

    def _call_start(self, event: ToolCallStart, emit: Emit[ChatEvent]) -> None:
        call_id = _given(event.call_id)
        call = self._calls_of(event.choice).meant_by_start(event.index, call_id)
        if call is None:
            self._begin(event.index, call_id, event.name, event.kind, event.choice, emit, event)
        elif call.ended:
            self._dropped += 1
        else:
            call.name = call.name or event.name

    def _call_delta(self, event: ToolCallArgsDelta, emit: Emit[ChatEvent]) -> None:
        if not event.text:
            return
        call = self._routes.get((event.choice, event.index, event.call_id)) or self._route(event, emit)
        if call is None:
            self._dropped += 1
        elif event.index == call.index and event.call_id == call.id:
            emit(event)
        else:
            emit(ToolCallArgsDelta(event.text, call.id, call.index, event.choice))

    def _route(self, event: ToolCallArgsDelta, emit: Emit[ChatEvent]) -> TrackedCall | None:
        """
        The open call of a fragment, begun if need be; None if it has ended.
        """
        call_id = _given(event.call_id)
        call = self._calls_of(event.choice).meant_by(event.index, call_id)
        if call is None:
            call = self._begin(event.index, call_id, "", "function", event.choice, emit)
        if call.ended:
            return None
        self._routes[event.choice, event.index, event.call_id] = call
        return call

    def _call_end(self, event: ToolCallEnd, emit: Emit[ChatEvent]) -> None:
        said = event.tool_call
        calls = self._calls_of(event.choice)
        call = calls.meant_by(said.index, _given(said.id))
        if call is None or call.ended:
            return
        calls.end(call)
        self._routes.clear()
        kind = call.kind if said.kind == "function" else said.kind
        final = attrs.evolve(said, id=call.id, name=said.name or call.name, index=call.index, kind=kind)
        emit(event if final == said else ToolCallEnd(final, event.choice))

    def _calls_of(self, choice: int) -> TrackedCalls:
        return self._calls.get(choice) or self._calls.setdefault(choice, TrackedCalls())

    def _begin(
        self, index: int | None, call_id: str, name: str, kind: str, choice: int, emit: Emit[ChatEvent], said: ToolCallStart | None = None
    ) -> TrackedCall:
        self._close_blocks(Group.TEXT, choice, emit)
        self._close_blocks(Group.THINKING, choice, emit)
        self._routes.clear()
        call = self._calls_of(choice).begin(index, call_id, name, kind, choice, self._number, next(self._order))
        start = ToolCallStart(call.id, name, call.index, choice, kind)
        emit(said if said is not None and said == start else start)
        return call

    # Steps and terminals ---------------------------------------------------------------------------------------------------------------------

    def _response_start(self, event: ResponseStart, emit: Emit[ChatEvent]) -> None:
        """
        A response of its own (contract E12): what a broken one before it left open is closed.
        """
        self._end_step(Verdict.INCOMPLETE_STREAM, emit)
        self._table = _OPEN
        self._reset()
        emit(event)

    def _step_start(self, event: StepStart, emit: Emit[ChatEvent]) -> None:
        if event.step == self._step:
            return
        self._end_step(None, emit)
        self._forget()
        self._step = self._number = event.step
        emit(event)

    def _step_end(self, event: StepEnd, emit: Emit[ChatEvent]) -> None:
        self._close(event.response, emit)
        if event.step != self._step:
            return
        self._step = None
        self._forget()
        dropped, self._dropped = self._dropped, 0
        emit(attrs.evolve(event, response=attrs.evolve(event.response, dropped=event.response.dropped + dropped)) if dropped else event)

    def _terminal(self, event: ResponseEnd | Abort | ErrorEvent, emit: Emit[ChatEvent]) -> None:
        verdicts = {ResponseEnd: None, Abort: Verdict.ABORTED}
        self._end_step(verdict_of(event.error) if isinstance(event, ErrorEvent) else verdicts[type(event)], emit)
        self._table = _SEALED
        emit(event)

    def _end_step(self, verdict: Verdict | None, emit: Emit[ChatEvent]) -> None:
        """
        Close what is open, the step too: it ended without a word of its own.
        """
        if self._step is not None:
            self._step_end(StepEnd(self._step, ChatResponse(verdict=verdict)), emit)
        elif self._blocks or self._calls:
            self._close(ChatResponse(verdict=verdict), emit)

    def _close(self, seed: ChatResponse, emit: Emit[ChatEvent]) -> None:
        """
        End the calls, oldest first, then the blocks (contract P14); a call is complete if its choice ended so (contract N7).
        """
        calls = sorted((call for calls in self._calls.values() for call in calls.opened.values()), key=lambda call: call.order)
        blocks = sorted((order, group, choice, key) for (group, choice), opened in self._blocks.items() for key, order in opened.items())
        self._blocks.clear()
        self._routes.clear()
        self._current = None
        complete = _complete_choices(seed) if calls else frozenset()
        for call in calls:
            self._calls[call.choice].end(call)
            done = ToolCall(call.id, call.name, complete=call.choice in complete, index=call.index, kind=call.kind)
            emit(ToolCallEnd(done, call.choice))
        for _, group, choice, key in blocks:
            emit(_ENDS[group](*key, choice))

    # The rest --------------------------------------------------------------------------------------------------------------------------------

    def _pass(self, event: ChatEvent, emit: Emit[ChatEvent]) -> None:
        emit(event)

    def _pass_text(self, event: RefusalDelta | ServerToolArgsDelta, emit: Emit[ChatEvent]) -> None:
        if event.text:
            emit(event)

    def _drop(self, event: ChatEvent, emit: Emit[ChatEvent]) -> None:
        """
        The stream is sealed (contract E1, N5).
        """


def _given(call_id: str) -> str:
    return "" if is_local_id(call_id) else call_id


def _complete_choices(seed: ChatResponse) -> frozenset[int]:
    """
    The choices whose finish reason allows their open calls to be whole; none of them if the step failed.
    """
    ends = (seed, *seed.alternatives) if seed.verdict is None else ()
    return frozenset(end.choice for end in ends if end.finish_reason.complete)


_SEALED: Mapping[type[ChatEvent], _Handler] = dict.fromkeys(EVENT_TYPES.values(), Normalizer._drop) | {ResponseStart: Normalizer._response_start}

_OPEN: Mapping[type[ChatEvent], _Handler] = dict.fromkeys(EVENT_TYPES.values(), Normalizer._pass) | {
    ResponseStart: Normalizer._response_start,
    StepStart: Normalizer._step_start,
    StepEnd: Normalizer._step_end,
    TextStart: Normalizer._block_start,
    TextDelta: Normalizer._delta,
    TextEnd: Normalizer._block_end,
    ThinkingStart: Normalizer._block_start,
    ThinkingDelta: Normalizer._delta,
    ThinkingEnd: Normalizer._block_end,
    ToolCallStart: Normalizer._call_start,
    ToolCallArgsDelta: Normalizer._call_delta,
    ToolCallEnd: Normalizer._call_end,
    RefusalDelta: Normalizer._pass_text,
    ServerToolArgsDelta: Normalizer._pass_text,
    ResponseEnd: Normalizer._terminal,
    Abort: Normalizer._terminal,
    ErrorEvent: Normalizer._terminal,
}
