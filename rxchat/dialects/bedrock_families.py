"""
What the makers' models say inside the chunks of InvokeModelWithResponseStream: each family has a JSON of its own.

    Messages    Anthropic's events; they know their end
    Nova        Converse's events, each as {"contentBlockDelta": {...}}
    completion  text and a reason under the family's own names: Titan, Llama, Mistral, Cohere Command, old Claude
    delegate    whole protocols of other makers (chat completions, Cohere chat), read by their own dialects

A family is recognised by the first key that only it has. Its end is its own word; the response ends with the body behind it (contract P9).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import attrs

from rxchat.dialects import get_dialect
from rxchat.dialects.anthropic import Messages
from rxchat.dialects.base import Parser, UsageFold, mapping, sequence, string
from rxchat.dialects.bedrock_completions import COHERE, LLAMA, MISTRAL, OLD_CLAUDE, TITAN, Completion, CompletionFamily, Family, Fields
from rxchat.dialects.bedrock_converse import Converse
from rxchat.errors import AbortedError, IncompleteStreamError, verdict_of
from rxchat.events import Abort, ChatEvent, ResponseEnd, StepEnd, UsageUpdate
from rxchat.framing.frames import Frame, JsonBody, JsonRecord, SseEvent
from rxchat.response import FinishReason
from rxchat.stage import Emit, StreamDone
from rxchat.strictjson import dumps

__all__ = ["family_of"]


class MessagesFamily(Family):
    """
    Claude, from its third generation on.
    """

    def __init__(self, host: Parser, usage: UsageFold) -> None:
        super().__init__(host, usage)
        self.messages = Messages(host, usage)

    def read(self, value: Fields, emit: Emit[ChatEvent]) -> None:
        self.messages.read(string(value.get("type")) or "chunk", value, emit)

    def body(self, value: Fields, emit: Emit[ChatEvent]) -> None:
        self.messages.body(value, emit)
        self.messages.stopped = True

    def close(self, blocked: str | None, emit: Emit[ChatEvent]) -> None:
        self._closed(self.messages.stopped, blocked)


class NovaFamily(Family):
    """
    Amazon Nova. It says a block stop after every piece of text; the pieces are one text.
    """

    def __init__(self, host: Parser, usage: UsageFold) -> None:
        super().__init__(host, usage)
        self.converse = Converse(host, usage, joined=True)

    def read(self, value: Fields, emit: Emit[ChatEvent]) -> None:
        for name, event in value.items():
            if self.converse.knows(name):
                self.converse.read(name, event, emit)
            else:
                self.host.unknown(name, event, emit)

    def body(self, value: Fields, emit: Emit[ChatEvent]) -> None:
        self.converse.body(value, emit)

    def close(self, blocked: str | None, emit: Emit[ChatEvent]) -> None:
        self._closed(self.converse.stopped, blocked)
        self.converse.close(emit)


# --- delegates --------------------------------------------------------------------------------------------------------------------------------------


class DelegateFamily(Family):
    """
    A protocol with a dialect of its own reads the chunks. The end of its step is held back until the body has ended.
    """

    def __init__(self, dialect: str, frame: Callable[[Fields, int], Frame], host: Parser, usage: UsageFold) -> None:
        super().__init__(host, usage)
        spec = get_dialect(dialect)
        mine = host.context
        context = spec.context(limits=mine.limits, unknown=mine.unknown, provenance=mine.provenance, clean_eof=mine.clean_eof)
        self.parser = spec.parser(context)
        self.frame = frame
        self.ended = self.aborted = False
        self.tail: list[StepEnd] = []
        self._held: tuple[Emit[ChatEvent], Emit[ChatEvent]] | None = None

    def read(self, value: Fields, emit: Emit[ChatEvent]) -> None:
        if self.ended:
            self.host.unknown("chunk", value, emit)
        else:
            self._feed(self.frame(value, self.host.offset), emit)

    def body(self, value: Fields, emit: Emit[ChatEvent]) -> None:
        self._feed(JsonBody({**value, "choices": _choices(value, "message")} if "choices" in value else value), emit)

    def close(self, blocked: str | None, emit: Emit[ChatEvent]) -> None:
        try:
            if not self.ended:
                self._ended(lambda: self.parser.flush(self._holding(emit)))
        except IncompleteStreamError:
            if blocked is None:
                raise
        if blocked is None:
            self._say_tail(emit)
        else:
            self._say_tail(emit, verdict=None, finish_reason=FinishReason.CONTENT_FILTER, finish_reason_raw=blocked)

    def leave(self, error: Exception, emit: Emit[ChatEvent]) -> None:
        self.parser.fail(error, self._holding(emit))
        self._say_tail(emit, verdict=verdict_of(error))

    def _say_tail(self, emit: Emit[ChatEvent], **changed: Any) -> None:
        tail, self.tail[:] = tuple(self.tail), ()
        for step in tail:
            emit(attrs.evolve(step, response=attrs.evolve(step.response, **changed)))

    def _feed(self, frame: Frame, emit: Emit[ChatEvent]) -> None:
        self._ended(lambda: self.parser.feed(frame, self._holding(emit)))

    def _ended(self, call: Callable[[], None]) -> None:
        try:
            call()
        except StreamDone:
            if self.aborted:
                raise
            self.ended = True

    def _holding(self, emit: Emit[ChatEvent]) -> Emit[ChatEvent]:
        """
        `emit`, but for the ends; made once per `emit`.
        """
        if self._held is None or self._held[0] is not emit:
            self._held = emit, self._holder(emit)
        return self._held[1]

    def _holder(self, emit: Emit[ChatEvent]) -> Emit[ChatEvent]:
        def held(event: ChatEvent) -> None:
            if isinstance(event, Abort):
                self.aborted = True
                self.leave(AbortedError(event.reason or "aborted"), emit)
                emit(event)
            elif isinstance(event, StepEnd):
                self.tail.append(event)
            elif not isinstance(event, ResponseEnd):
                self.counted |= isinstance(event, UsageUpdate)
                emit(event)

        return held


def _completion_chunk(value: Fields, offset: int) -> SseEvent:
    return SseEvent(dumps({**value, "choices": _choices(value, "delta")}).encode(), start=offset, end=offset, data_start=offset)


def _choices(value: Fields, holder: str) -> list[Fields]:
    """
    Some models give each piece as a `message` and the reason as `stop_reason`.
    """
    choices = (mapping(choice) for choice in sequence(value.get("choices")))
    return [
        {
            **choice,
            holder: choice.get(holder) or choice.get("message") or {},
            "finish_reason": choice.get("finish_reason") or choice.get("stop_reason"),
        }
        for choice in choices
    ]


# --- which is it ------------------------------------------------------------------------------------------------------------------------------------

_Make: TypeAlias = Callable[[Parser, UsageFold], Family]


def _completion(names: Completion) -> _Make:
    return lambda host, usage: CompletionFamily(names, host, usage)


def _delegate(dialect: str, frame: Callable[[Fields, int], Frame]) -> _Make:
    return lambda host, usage: DelegateFamily(dialect, frame, host, usage)


# In this order: the keys that tell a family, of its chunks and of its body.
_FAMILIES: tuple[tuple[frozenset[str], _Make], ...] = (
    (frozenset({"choices"}), _delegate("openai-chat", _completion_chunk)),
    (frozenset({"event_type", "generation_id"}), _delegate("cohere-v1", lambda value, offset: JsonRecord(value, offset, offset))),
    (frozenset({"type"}), MessagesFamily),
    (
        frozenset({"messageStart", "contentBlockStart", "contentBlockDelta", "contentBlockStop", "messageStop", "metadata", "output"}),
        NovaFamily,
    ),
    (frozenset({"outputText", "results"}), _completion(TITAN)),
    (frozenset({"generation"}), _completion(LLAMA)),
    (frozenset({"outputs"}), _completion(MISTRAL)),
    (frozenset({"text", "generations", "is_finished"}), _completion(COHERE)),
    (frozenset({"completion"}), _completion(OLD_CLAUDE)),
)


def family_of(value: Fields, host: Parser, usage: UsageFold) -> Family | None:
    """
    The family whose words these are, None if nobody's.
    """
    make = next((make for marks, make in _FAMILIES if not marks.isdisjoint(value)), None)
    return make(host, usage) if make is not None else None
