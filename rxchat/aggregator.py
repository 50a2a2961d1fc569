"""
The fold: events in, the same events out, with the answers filled in (contract V, U, N7, P1, P10, P11, P13, P14).

Filled in are ToolCallEnd (arguments), StepEnd (the step's answer and usage) and the terminals (the whole answer and its verdict); every other event passes
as it is. It reads normalized events, where everything that opens is closed; it is a pure fold: equal events make equal answers.

Parts grow in `growing.py`, one `ChoiceFold` per choice of the step at hand; `whole.py` makes one answer of the steps that ended.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import attrs

from rxchat.errors import Verdict, verdict_of
from rxchat.events import (
    EVENT_TYPES,
    PROVIDER_ITEM,
    Abort,
    ChatEvent,
    Citation,
    ContentFilter,
    Custom,
    ErrorEvent,
    MediaDone,
    RefusalDelta,
    ResponseEnd,
    ResponseStart,
    SearchResult,
    ServerToolArgsDelta,
    ServerToolResult,
    ServerToolStart,
    StepEnd,
    StepStart,
    TextDelta,
    TextEnd,
    TextStart,
    ThinkingDelta,
    ThinkingEnd,
    ThinkingRedacted,
    ThinkingSignature,
    ThinkingStart,
    ToolCallArgsDelta,
    ToolCallEnd,
    ToolCallStart,
    ToolResult,
    UsageUpdate,
)
from rxchat.growing import ChoiceFold, GrowingCall, WholePart
from rxchat.response import (
    ChatResponse,
    CitationPart,
    ContentFilterPart,
    FinishReason,
    MediaPart,
    Part,
    ProviderItemPart,
    RedactedThinkingPart,
    SearchResultPart,
    ToolResultPart,
    Usage,
)
from rxchat.stage import Emit, Stage
from rxchat.whole import verdict_at_end, whole_answer

__all__ = ["Aggregator"]


def _finish(seed: ChatResponse, fold: ChoiceFold) -> FinishReason:
    """
    A normal stop with a client call in the step is `tool_calls` (contract P1).
    """
    return FinishReason.TOOL_CALLS if seed.finish_reason is FinishReason.STOP and fold.has_client_call() else seed.finish_reason


class Aggregator(Stage[ChatEvent, ChatEvent]):
    """
    Fold events into the answer and hand them on; ResponseStart begins a new answer.
    """

    def __init__(self) -> None:
        self._reset(None)

    @property
    def response(self) -> ChatResponse:
        """
        The answer as far as it has come; its verdict is None while it runs.
        """
        return self._final or self._whole(None)

    def answer_with(self, end: StepEnd) -> ChatResponse:
        """
        The answer as it would be if the step at hand ended so; nothing is ended by that.
        """
        usage = self._usage if end.usage is None else _merge(self._usage, end.usage)
        steps = [*self._steps, attrs.evolve(self._step_response(end.response), usage=usage)]
        return whole_answer(steps, verdict=None, usage=_add(self._total, usage), response_id=self._response_id)

    @property
    def usage(self) -> Usage | None:
        """
        The usage of all steps so far.
        """
        return _add(self._total, self._usage)

    def feed(self, event: ChatEvent, emit: Emit[ChatEvent]) -> None:
        # Most events are the next piece of the block at hand: those pass with no call of their fold.
        kind, current = type(event), self._current
        if current is not None and kind is current[0] and current == (kind, event.choice, event.index, event.item_id):  # type: ignore[union-attr]
            # As `GrowingText.add`, a call less.
            try:
                self._write(event.text.encode())  # type: ignore[union-attr]
            except UnicodeEncodeError:
                self._write(event.text.encode("utf-8", "surrogatepass"))  # type: ignore[union-attr]
            emit(event)
        else:
            emit(_FOLDS[kind](self, event))

    def _reset(self, response_id: str | None) -> None:
        self._response_id = response_id
        self._steps: list[ChatResponse] = []
        self._total: Usage | None = None
        self._final: ChatResponse | None = None
        self._begin_step(StepStart())
        self._running = False

    def _begin_step(self, start: StepStart) -> None:
        self._running = True
        self._start = start
        self._folds: dict[int, ChoiceFold] = {0: ChoiceFold()}
        self._usage: Usage | None = None
        # Short cuts of the hot path, dropped when a part is placed or a block opens or ends: where the last key's fragments go.
        self._current: tuple[Any, ...] | None = None
        self._write: Callable[[bytes], object] = bytes
        self._fragments: dict[tuple[int, int | None, str], Callable[[str], object]] = {}

    def _fold(self, choice: int) -> ChoiceFold:
        """
        The fold of a choice, about to change.
        """
        self._current = None
        self._running = True
        return self._folds.get(choice) or self._folds.setdefault(choice, ChoiceFold())

    # Lifecycle and steps ---------------------------------------------------------------------------------------------------------------------

    def _response_start(self, event: ResponseStart) -> ChatEvent:
        self._reset(event.response_id or None)
        return event

    def _step_start(self, event: StepStart) -> ChatEvent:
        if self._running:
            self._end_step(ChatResponse())
        self._begin_step(event)
        return event

    def _step_end(self, event: StepEnd) -> ChatEvent:
        if event.usage is not None:
            self._usage = _merge(self._usage, event.usage)
        self._running = True
        self._end_step(event.response)
        return StepEnd(event.step, self._steps[-1], self._steps[-1].usage)

    def _end_step(self, seed: ChatResponse) -> None:
        """
        The step at hand, if anything came of it, joins those that ended.
        """
        if self._running:
            step = self._step_response(seed)
            self._steps.append(step)
            self._total = _add(self._total, step.usage)
            self._begin_step(StepStart())
            self._running = False

    def _step_response(self, seed: ChatResponse) -> ChatResponse:
        usage = self._usage
        if usage is not None and seed.verdict is not None:
            usage = attrs.evolve(usage, partial=True)
        main = self._folds[0]
        return attrs.evolve(
            seed,
            parts=main.parts(),
            finish_reason=_finish(seed, main),
            usage=usage,
            model=seed.model or self._start.model,
            response_id=self._response_id,
            provider_response_id=seed.provider_response_id or self._start.provider_response_id,
            steps=(),
            alternatives=self._alternatives(seed),
        )

    def _alternatives(self, seed: ChatResponse) -> tuple[ChatResponse, ...]:
        seeds = {other.choice: other for other in seed.alternatives}
        choices = sorted({*seeds, *self._folds} - {0})
        pairs = [(seeds.get(choice) or ChatResponse(choice=choice), self._folds.get(choice) or ChoiceFold()) for choice in choices]
        return tuple(attrs.evolve(other, parts=fold.parts(), finish_reason=_finish(other, fold)) for other, fold in pairs)

    def _response_end(self, event: ResponseEnd) -> ChatEvent:
        self._end_step(ChatResponse())
        return ResponseEnd(self._finished(verdict_at_end(self._steps[-1] if self._steps else ChatResponse())))

    def _abort(self, event: Abort) -> ChatEvent:
        self._end_step(ChatResponse(verdict=Verdict.ABORTED))
        return Abort(event.reason, self._finished(Verdict.ABORTED))

    def _error(self, event: ErrorEvent) -> ChatEvent:
        verdict = verdict_of(event.error)
        self._end_step(ChatResponse(verdict=verdict))
        event.error.response = response = self._finished(verdict)
        return ErrorEvent(event.error, response, response.usage)

    def _finished(self, verdict: Verdict) -> ChatResponse:
        self._final = response = self._whole(verdict)
        return response

    def _whole(self, verdict: Verdict | None) -> ChatResponse:
        steps = [*self._steps, self._step_response(ChatResponse())] if self._running else self._steps
        return whole_answer(steps, verdict=verdict, usage=self.usage, response_id=self._response_id)

    # Text and thinking -----------------------------------------------------------------------------------------------------------------------

    def _block_delta(self, event: TextDelta | ThinkingDelta) -> ChatEvent:
        grown = self._fold(event.choice).block(event.group, (event.index, event.item_id)).grown
        self._write = grown.write
        self._current = (type(event), event.choice, event.index, event.item_id)
        grown.add(event.text)
        return event

    def _block_start(self, event: TextStart | ThinkingStart) -> ChatEvent:
        self._fold(event.choice).open_block(event.group, (event.index, event.item_id))
        return event

    def _block_end(self, event: TextEnd | ThinkingEnd) -> ChatEvent:
        self._fold(event.choice).close_block(event.group, (event.index, event.item_id))
        return event

    def _signature(self, event: ThinkingSignature) -> ChatEvent:
        self._fold(event.choice).sign((event.index, event.item_id), event.signature)
        return event

    # Tools -----------------------------------------------------------------------------------------------------------------------------------

    def _call_start(self, event: ToolCallStart) -> ChatEvent:
        key = event.call_id if event.index is None else event.index
        self._fragments.clear()
        self._fold(event.choice).begin_call(key, GrowingCall(event.call_id, event.name, event.index, event.kind))
        return event

    def _call_delta(self, event: ToolCallArgsDelta) -> ChatEvent:
        key = (event.choice, event.index, event.call_id)
        append = self._fragments.get(key)
        if append is None:
            append = self._fragments[key] = self._fold(event.choice).call(event.call_id, event.index).grown.add
        append(event.text)
        return event

    def _call_end(self, event: ToolCallEnd) -> ChatEvent:
        done = self._fold(event.choice).call(event.call_id, event.index).end(event.tool_call)
        return ToolCallEnd(done, event.choice)

    def _server_tool_start(self, event: ServerToolStart) -> ChatEvent:
        tool = self._fold(0).server_tool(event.kind, event.id, begins=True)
        tool.known = attrs.evolve(
            tool.known,
            name=event.name or tool.known.name,
            payload=tool.known.payload if event.payload is None else event.payload,
            needs_client=event.needs_client or tool.known.needs_client,
        )
        return event

    def _server_tool_delta(self, event: ServerToolArgsDelta) -> ChatEvent:
        self._fold(0).server_tool(event.kind, event.id).grown.add(event.text)
        return event

    def _server_tool_result(self, event: ServerToolResult) -> ChatEvent:
        tool = self._fold(0).server_tool(event.kind, event.id)
        tool.answered = True
        tool.known = attrs.evolve(tool.known, name=tool.known.name or event.name, result=event.payload, is_error=event.is_error)
        return event

    # The rest --------------------------------------------------------------------------------------------------------------------------------

    def _whole_part(self, event: ChatEvent) -> ChatEvent:
        self._fold(getattr(event, "choice", 0)).place(WholePart(_PARTS[type(event)](event)))
        return event

    def _note(self, event: ChatEvent) -> ChatEvent:
        self._fold(getattr(event, "choice", 0)).note(WholePart(_PARTS[type(event)](event)))
        return event

    def _refusal(self, event: RefusalDelta) -> ChatEvent:
        self._fold(event.choice).refuse(event.text)
        return event

    def _custom(self, event: Custom) -> ChatEvent:
        if event.name == PROVIDER_ITEM and isinstance(event.data, Mapping):
            self._fold(0).place(WholePart(ProviderItemPart(str(event.data.get("type", "")), event.data.get("raw"))))
        return event

    def _usage_update(self, event: UsageUpdate) -> ChatEvent:
        self._running = True
        self._usage = _merge(self._usage, event.usage)
        return event

    def _pass(self, event: ChatEvent) -> ChatEvent:
        return event


def _merge(known: Usage | None, later: Usage) -> Usage:
    return later if known is None else known.merge(later)


def _add(total: Usage | None, step: Usage | None) -> Usage | None:
    return step if total is None else total if step is None else total.add(step)


_PARTS: Mapping[type[ChatEvent], Callable[[Any], Part]] = {
    ThinkingRedacted: lambda e: RedactedThinkingPart(e.data, e.index, e.item_id),
    ToolResult: lambda e: ToolResultPart(e.call_id, e.result, e.is_error),
    MediaDone: lambda e: MediaPart(e.kind, e.mime, e.data, e.url, e.item_id, e.transcript),
    Citation: lambda e: CitationPart(e.url, e.title, e.quoted, e.file, e.index, e.start, e.end),
    SearchResult: lambda e: SearchResultPart(e.url, e.title, e.snippet, e.query),
    ContentFilter: lambda e: ContentFilterPart(e.category, e.text, e.blocked),
}

_FOLDS: Mapping[type[ChatEvent], Callable[[Aggregator, Any], ChatEvent]] = dict.fromkeys(EVENT_TYPES.values(), Aggregator._pass) | {
    ResponseStart: Aggregator._response_start,
    StepStart: Aggregator._step_start,
    StepEnd: Aggregator._step_end,
    ResponseEnd: Aggregator._response_end,
    Abort: Aggregator._abort,
    ErrorEvent: Aggregator._error,
    TextStart: Aggregator._block_start,
    TextDelta: Aggregator._block_delta,
    TextEnd: Aggregator._block_end,
    ThinkingStart: Aggregator._block_start,
    ThinkingDelta: Aggregator._block_delta,
    ThinkingEnd: Aggregator._block_end,
    ThinkingSignature: Aggregator._signature,
    ThinkingRedacted: Aggregator._whole_part,
    ToolCallStart: Aggregator._call_start,
    ToolCallArgsDelta: Aggregator._call_delta,
    ToolCallEnd: Aggregator._call_end,
    ToolResult: Aggregator._whole_part,
    ServerToolStart: Aggregator._server_tool_start,
    ServerToolArgsDelta: Aggregator._server_tool_delta,
    ServerToolResult: Aggregator._server_tool_result,
    MediaDone: Aggregator._whole_part,
    Citation: Aggregator._note,
    SearchResult: Aggregator._note,
    ContentFilter: Aggregator._note,
    RefusalDelta: Aggregator._refusal,
    Custom: Aggregator._custom,
    UsageUpdate: Aggregator._usage_update,
}
