"""
The fold: events in, the same events out, with the answers filled in (contract V, U, N7, P1, P10, P11, P13, P14).

Filled in are ToolCallEnd (arguments), StepEnd (the step's answer and usage) and the terminals (the whole answer and its verdict); every other event passes
as it is. It reads normalized events, where everything that opens is closed; it is a pure fold: equal events make equal answers.

    Aggregator    the response: steps that ended, the step at hand
    _Fold         one choice of the step at hand: its parts in order, still growing
    _Block, _Call, _ServerTool, _Refusal    parts that grow; texts are lists of fragments, joined once
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeAlias

import attrs

from rxchat.errors import InvalidJSONError, Verdict, verdict_of
from rxchat.events import (
    ANONYMOUS,
    EVENT_TYPES,
    PROVIDER_ITEM,
    Abort,
    BlockKey,
    ChatEvent,
    Citation,
    ContentFilter,
    Custom,
    ErrorEvent,
    Group,
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
    match_block,
)
from rxchat.response import (
    ChatResponse,
    CitationPart,
    ContentFilterPart,
    FinishReason,
    MediaPart,
    Part,
    ProviderItemPart,
    RedactedThinkingPart,
    RefusalPart,
    SearchResultPart,
    ServerToolPart,
    TextPart,
    ThinkingPart,
    ToolCall,
    ToolResultPart,
    Usage,
)
from rxchat.stage import Emit, Stage
from rxchat.strictjson import loads

__all__ = ["Aggregator"]


# --- parts that grow ------------------------------------------------------------------------------------------------------------------------------


@attrs.define(eq=False)
class _Block:
    """
    A block of text or thinking.
    """

    group: Group
    key: BlockKey
    fragments: list[str] = attrs.field(factory=list)
    signature: str | None = None
    placed: bool = False

    def part(self) -> Part:
        text = "".join(self.fragments)
        return TextPart(text, *self.key) if self.group is Group.TEXT else ThinkingPart(text, self.signature, *self.key)


@attrs.define(eq=False)
class _Call:
    """
    A tool call; `done` once it has ended.
    """

    id: str
    name: str
    index: int | None
    kind: str = "function"
    fragments: list[str] = attrs.field(factory=list)
    done: ToolCall | None = None

    def part(self) -> ToolCall:
        return self.done or ToolCall(self.id, self.name, "".join(self.fragments), index=self.index, kind=self.kind)

    def end(self, said: ToolCall) -> ToolCall:
        """
        The finished call: what its END says, the rest as known before.
        """
        text = said.arguments_text or "".join(self.fragments)
        arguments = _arguments(text) if said.complete and said.kind == "function" else None
        self.done = attrs.evolve(said, id=said.id or self.id, name=said.name or self.name, arguments_text=text, arguments=arguments)
        return self.done


@attrs.define(eq=False)
class _ServerTool:
    """
    A tool of the provider: start, fragments and result of one id.
    """

    known: ServerToolPart
    fragments: list[str] = attrs.field(factory=list)
    answered: bool = False

    def part(self) -> ServerToolPart:
        return attrs.evolve(self.known, arguments_text="".join(self.fragments))


@attrs.define(eq=False)
class _Refusal:
    """
    The words of refusal of one choice.
    """

    fragments: list[str] = attrs.field(factory=list)

    def part(self) -> RefusalPart:
        return RefusalPart("".join(self.fragments))


@attrs.define(eq=False)
class _Whole:
    """
    A part that came whole.
    """

    value: Part

    def part(self) -> Part:
        return self.value


_Growing: TypeAlias = _Block | _Call | _ServerTool | _Refusal | _Whole


def _arguments(text: str) -> Mapping[str, Any] | None:
    """
    One strict JSON object or None; a call without argument characters has none to say: {} (contract P3).
    """
    try:
        value = loads(text) if text else {}
    except InvalidJSONError:
        return None
    return value if isinstance(value, dict) else None


# --- one choice of a step -------------------------------------------------------------------------------------------------------------------------


class _Fold:
    """
    The parts of one choice, in the order in which they got their first content.

    An anonymous block goes on in its part until something else stands behind it; an identified one goes on in its part always (contract P14).
    """

    __slots__ = ("_at_end", "_calls", "_known", "_opened", "_parts", "_refusal", "_server_tools", "_thinking")

    def __init__(self) -> None:
        self._parts: list[_Growing] = []
        self._at_end: _Growing | None = None  # the last part, notes aside: citations do not cut a text in two
        self._opened: dict[Group, dict[BlockKey, _Block]] = {Group.TEXT: {}, Group.THINKING: {}}
        self._known: dict[tuple[Group, BlockKey], _Block] = {}
        self._thinking: _Block | None = None
        self._calls: dict[int | str | None, _Call] = {}
        self._server_tools: dict[Any, _ServerTool] = {}
        self._refusal: _Refusal | None = None

    def parts(self) -> tuple[Part, ...]:
        return tuple(growing.part() for growing in self._parts)

    def place(self, growing: _Growing) -> None:
        self._parts.append(growing)
        self._at_end = growing

    def note(self, growing: _Growing) -> None:
        self._parts.append(growing)

    # Blocks ----------------------------------------------------------------------------------------------------------------------------------

    def open_block(self, group: Group, key: BlockKey) -> _Block:
        block = self._going_on(group) if key == ANONYMOUS else self._known.get((group, key))
        block = block or _Block(group, key)
        self._opened[group][key] = block
        if key != ANONYMOUS:
            self._known[group, key] = block
        return block

    def close_block(self, group: Group, key: BlockKey) -> None:
        self._opened[group].pop(key, None)

    def block(self, group: Group, key: BlockKey) -> _Block:
        """
        The block a delta goes to, placed.
        """
        opened = self._opened[group]
        found = match_block(opened, key)
        block = self.open_block(group, key) if found is None else opened[found]
        if found == ANONYMOUS and key != ANONYMOUS:
            self._name(block, key)
        elif block.key == ANONYMOUS and block.placed and block is not self._at_end:
            block = opened[ANONYMOUS] = _Block(group, ANONYMOUS)
        return self._placed(block)

    def sign(self, key: BlockKey, signature: str) -> None:
        """
        Seal a block of thinking; without one, the signature makes an empty one.
        """
        opened = self._opened[Group.THINKING]
        found = match_block(opened, key)
        block = opened[found] if found is not None else self._known.get((Group.THINKING, key)) or self._unsigned(key)
        self._placed(block or self._unopened(key)).signature = signature

    def _name(self, block: _Block, key: BlockKey) -> None:
        opened = self._opened[block.group]
        opened[key] = opened.pop(ANONYMOUS)
        block.key = key
        self._known[block.group, key] = block

    def _placed(self, block: _Block) -> _Block:
        if not block.placed:
            block.placed = True
            self.place(block)
        if block.group is Group.THINKING:
            self._thinking = block
        return block

    def _going_on(self, group: Group) -> _Block | None:
        last = self._at_end
        return last if isinstance(last, _Block) and last.group is group and last.key == ANONYMOUS else None

    def _unsigned(self, key: BlockKey) -> _Block | None:
        """
        The block an anonymous signature seals behind the END of its block.
        """
        last = self._thinking
        return last if key == ANONYMOUS and last is not None and (last.signature is None or last is self._at_end) else None

    def _unopened(self, key: BlockKey) -> _Block:
        block = _Block(Group.THINKING, key)
        if key != ANONYMOUS:
            self._known[Group.THINKING, key] = block
        return block

    # The others ------------------------------------------------------------------------------------------------------------------------------

    def begin_call(self, key: int | str | None, call: _Call) -> _Call:
        self._calls[key] = call
        self.place(call)
        return call

    def call(self, call_id: str, index: int | None) -> _Call:
        key = call_id if index is None else index
        return self._calls.get(key) or self.begin_call(key, _Call(call_id, "", index))

    def has_client_call(self) -> bool:
        return any(not call.part().server_executed for call in self._calls.values())

    def server_tool(self, kind: str, tool_id: str | None, *, begins: bool = False) -> _ServerTool:
        """
        The part of an id; without an id, the last one of its kind that has no result yet.
        """
        key = (kind, None) if tool_id is None else tool_id
        tool = self._server_tools.get(key)
        if tool is None or (tool_id is None and (begins or tool.answered)):
            tool = self._server_tools[key] = _ServerTool(ServerToolPart(kind, tool_id))
            self.place(tool)
        return tool

    def refuse(self, text: str) -> None:
        if self._refusal is None:
            self._refusal = _Refusal()
            self.note(self._refusal)
        self._refusal.fragments.append(text)


def _finish(seed: ChatResponse, fold: _Fold) -> FinishReason:
    """
    A normal stop with a client call in the step is `tool_calls` (contract P1).
    """
    return FinishReason.TOOL_CALLS if seed.finish_reason is FinishReason.STOP and fold.has_client_call() else seed.finish_reason


# --- the response ---------------------------------------------------------------------------------------------------------------------------------


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

    @property
    def usage(self) -> Usage | None:
        """
        The usage of all steps so far.
        """
        return _add(self._total, self._usage)

    def feed(self, event: ChatEvent, emit: Emit[ChatEvent]) -> None:
        emit(_FOLDS[type(event)](self, event))

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
        self._folds: dict[int, _Fold] = {0: _Fold()}
        self._usage: Usage | None = None
        # Short cuts of the hot path, dropped when a part is placed or a block opens or ends: where the last key's fragments go.
        self._current: tuple[Any, ...] | None = None
        self._append: Callable[[str], object] = str
        self._fragments: dict[tuple[int, int | None, str], Callable[[str], object]] = {}

    def _fold(self, choice: int) -> _Fold:
        """
        The fold of a choice, about to change.
        """
        self._current = None
        self._running = True
        return self._folds.get(choice) or self._folds.setdefault(choice, _Fold())

    # Lifecycle and steps ---------------------------------------------------------------------------------------------------------------------

    def _response_start(self, event: ResponseStart) -> ChatEvent:
        self._reset(event.response_id or None)
        return event

    def _step_start(self, event: StepStart) -> ChatEvent:
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
        pairs = [(seeds.get(choice) or ChatResponse(choice=choice), self._folds.get(choice) or _Fold()) for choice in choices]
        return tuple(attrs.evolve(other, parts=fold.parts(), finish_reason=_finish(other, fold)) for other, fold in pairs)

    def _response_end(self, event: ResponseEnd) -> ChatEvent:
        self._end_step(ChatResponse())
        finish = self._steps[-1].finish_reason if self._steps else FinishReason.UNKNOWN
        return ResponseEnd(self._finished(_verdict(finish)))

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
        last = steps[-1] if steps else ChatResponse()
        return ChatResponse(
            parts=_joined(steps),
            finish_reason=last.finish_reason,
            finish_reason_raw=last.finish_reason_raw,
            usage=self.usage,
            model=next((step.model for step in steps if step.model), None),
            response_id=self._response_id,
            provider_response_id=next((step.provider_response_id for step in steps if step.provider_response_id), None),
            verdict=verdict,
            steps=tuple(steps),
            alternatives=_whole_alternatives(steps, verdict),
            unknown=_summed(step.unknown for step in steps),
            after_finish=sum(step.after_finish for step in steps),
            dropped=sum(step.dropped for step in steps),
            metadata={key: value for step in steps for key, value in step.metadata.items()},
        )

    # Text and thinking -----------------------------------------------------------------------------------------------------------------------

    def _block_delta(self, event: TextDelta | ThinkingDelta) -> ChatEvent:
        key = (type(event), event.choice, event.index, event.item_id)
        if key != self._current:
            self._append = self._fold(event.choice).block(event.group, (event.index, event.item_id)).fragments.append
            self._current = key
        self._append(event.text)
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
        self._fold(event.choice).begin_call(key, _Call(event.call_id, event.name, event.index, event.kind))
        return event

    def _call_delta(self, event: ToolCallArgsDelta) -> ChatEvent:
        key = (event.choice, event.index, event.call_id)
        append = self._fragments.get(key)
        if append is None:
            append = self._fragments[key] = self._fold(event.choice).call(event.call_id, event.index).fragments.append
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
        self._fold(0).server_tool(event.kind, event.id).fragments.append(event.text)
        return event

    def _server_tool_result(self, event: ServerToolResult) -> ChatEvent:
        tool = self._fold(0).server_tool(event.kind, event.id)
        tool.answered = True
        tool.known = attrs.evolve(tool.known, name=tool.known.name or event.name, result=event.payload, is_error=event.is_error)
        return event

    # The rest --------------------------------------------------------------------------------------------------------------------------------

    def _whole_part(self, event: ChatEvent) -> ChatEvent:
        self._fold(getattr(event, "choice", 0)).place(_Whole(_PARTS[type(event)](event)))
        return event

    def _note(self, event: ChatEvent) -> ChatEvent:
        self._fold(getattr(event, "choice", 0)).note(_Whole(_PARTS[type(event)](event)))
        return event

    def _refusal(self, event: RefusalDelta) -> ChatEvent:
        self._fold(event.choice).refuse(event.text)
        return event

    def _custom(self, event: Custom) -> ChatEvent:
        if event.name == PROVIDER_ITEM and isinstance(event.data, Mapping):
            self._fold(0).place(_Whole(ProviderItemPart(str(event.data.get("type", "")), event.data.get("raw"))))
        return event

    def _usage_update(self, event: UsageUpdate) -> ChatEvent:
        self._running = True
        self._usage = _merge(self._usage, event.usage)
        return event

    def _pass(self, event: ChatEvent) -> ChatEvent:
        return event


def _verdict(finish: FinishReason) -> Verdict:
    return Verdict.COMPLETE if finish.complete else Verdict.INCOMPLETE_FINISH


def _merge(known: Usage | None, later: Usage) -> Usage:
    return later if known is None else known.merge(later)


def _add(total: Usage | None, step: Usage | None) -> Usage | None:
    return step if total is None else total if step is None else total.add(step)


def _joined(responses: Iterable[ChatResponse]) -> tuple[Part, ...]:
    return tuple(part for response in responses for part in response.parts)


def _summed(counts: Iterable[Mapping[str, int]]) -> dict[str, int]:
    total: dict[str, int] = {}
    for names in counts:
        for name, number in names.items():
            total[name] = total.get(name, 0) + number
    return total


def _whole_alternatives(steps: Iterable[ChatResponse], verdict: Verdict | None) -> tuple[ChatResponse, ...]:
    """
    Each other choice over all steps; where the response ended well, its own finish decides (contract P13).
    """
    choices: dict[int, list[ChatResponse]] = {}
    for step in steps:
        for other in step.alternatives:
            choices.setdefault(other.choice, []).append(other)
    ended = verdict in (Verdict.COMPLETE, Verdict.INCOMPLETE_FINISH)
    return tuple(
        attrs.evolve(others[-1], parts=_joined(others), verdict=_verdict(others[-1].finish_reason) if ended else verdict)
        for _, others in sorted(choices.items())
    )


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
