"""
Anthropic's Messages, also as Vertex, OpenRouter, Ollama and other gateways serve them.

Dispatch goes by `type` in the data; the event name only stands in where the data have none. The end is `message_stop` and nothing else (contract P9).
`Messages` is the protocol itself, `AnthropicParser` its event stream and JSON body; Bedrock wraps the same messages in frames of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from rxchat.dialects.anthropic_content import Content, Fields
from rxchat.dialects.base import Context, Dialect, Parser, Repeated, UsageFold, integer, mapping, string
from rxchat.errorbody import error_in, provider_error
from rxchat.errors import IncompleteStreamError
from rxchat.events import ChatEvent, ContentFilter, Heartbeat, RefusalDelta
from rxchat.framing.frames import SseEvent
from rxchat.outgoing.anthropic import build
from rxchat.response import FinishReason
from rxchat.stage import Emit
from rxchat.templates import Slot

__all__ = ["ANTHROPIC", "FINISH_REASONS", "AnthropicParser", "Messages", "cached_apart", "read_usage"]

FINISH_REASONS: Mapping[str, FinishReason] = {
    "end_turn": FinishReason.STOP,
    "stop_sequence": FinishReason.STOP,
    "tool_use": FinishReason.TOOL_CALLS,
    "max_tokens": FinishReason.LENGTH,
    "model_context_window_exceeded": FinishReason.LENGTH,
    "refusal": FinishReason.REFUSAL,
    "pause_turn": FinishReason.PAUSE,
    # The request asked to stop behind a compaction; the next request goes on.
    "compaction": FinishReason.PAUSE,
}

# Facts of an ended message that no event carries.
_KEPT = ("stop_sequence", "stop_details", "container", "context_management")


def read_usage(raw: Fields) -> dict[str, int | None]:
    """
    The wire's counts under our names; output includes thinking.
    """
    return {
        "input_tokens": integer(raw.get("input_tokens")),
        "output_tokens": integer(raw.get("output_tokens")),
        "cache_read_tokens": integer(raw.get("cache_read_input_tokens")),
        "cache_write_tokens": integer(raw.get("cache_creation_input_tokens")),
        "reasoning_tokens": integer(mapping(raw.get("output_tokens_details")).get("thinking_tokens")),
    }


def cached_apart(wire: Mapping[str, int]) -> dict[str, int | None]:
    """
    The formula where the provider counts cached input apart: input = input + cache read + cache write (contract P4).
    """
    counts: dict[str, int | None] = dict(wire)
    if "input_tokens" in wire:
        counts["input_tokens"] = wire["input_tokens"] + wire.get("cache_read_tokens", 0) + wire.get("cache_write_tokens", 0)
    return counts


class Messages:
    """
    One message, from its frames or from its whole body; speaks through the parser that owns it.

    `usage` may be given where the same step has further sources of counts.
    """

    def __init__(self, host: Parser, usage: UsageFold | None = None) -> None:
        self.host = host
        self.usage = usage or UsageFold(read_usage, cached_apart)
        self.content = Content(host)
        self.stopped = False
        self._started = False

    def read(self, kind: str, value: Fields, emit: Emit[ChatEvent]) -> None:
        """
        One frame; `stopped` is set by the protocol's end. ProviderError for an error frame, DialectError for a known one that is malformed.
        """
        handler = _FRAMES.get(kind)
        if handler is None:
            self.host.unknown(kind, value, emit)
        else:
            handler(self, value, emit)

    def body(self, message: Fields, emit: Emit[ChatEvent]) -> None:
        """
        The message as one object: the events of its stream, without the end.
        """
        self.host.open_step(emit, message.get("id"), message.get("model"))
        self.content.whole(message.get("content"), emit)
        self.usage.update(message.get("usage"), emit)
        self._ending(message, message, emit)

    # Frames ------------------------------------------------------------------------------------------------------------------------------------

    def _message_start(self, value: Fields, emit: Emit[ChatEvent]) -> None:
        message = self._object(value, "message")
        if self._started:
            self._repeated(message, emit)
        else:
            # It may hold the whole answer: programmatic tool calls come so, with no block and no message_delta behind it.
            self._started = True
            self.body(message, emit)

    def _repeated(self, message: Fields, emit: Emit[ChatEvent]) -> None:
        """
        Proxies repeat the start; of another message it would be glued into this one.
        """
        again = string(message.get("id"))
        if again and self.host.response_id and again != self.host.response_id:
            raise self.host.malformed("a second message_start, of another message")
        self.usage.update(message.get("usage"), emit)

    def _block_start(self, value: Fields, emit: Emit[ChatEvent]) -> None:
        self.host.open_step(emit)
        self.content.open(self._index(value), value.get("content_block"), emit)

    def _block_delta(self, value: Fields, emit: Emit[ChatEvent]) -> None:
        # Most frames are of this kind: its two checks stand here in place of two calls.
        index, delta = value.get("index"), value.get("delta")
        if not self.host.step_open:
            self.host.open_step(emit)
        if type(index) is int and type(delta) is dict:
            self.content.delta(index, delta, emit)
        else:
            self.content.delta(self._index(value), self._object(value, "delta"), emit)

    def _block_stop(self, value: Fields, emit: Emit[ChatEvent]) -> None:
        self.content.blocks.stop(self._index(value), emit)

    def _message_delta(self, value: Fields, emit: Emit[ChatEvent]) -> None:
        self.host.open_step(emit)
        delta = self._object(value, "delta") if value.get("delta") is not None else {}
        self.usage.update(value.get("usage"), emit)
        self._ending(delta, value, emit)

    def _message_stop(self, value: Fields, emit: Emit[ChatEvent]) -> None:
        if not self.host.step_open:
            raise self.host.malformed("message_stop without a message")
        self.content.blocks.seal(emit)
        self.stopped = True

    def _ping(self, value: Fields, emit: Emit[ChatEvent]) -> None:
        emit(Heartbeat())

    def _error(self, value: Fields, emit: Emit[ChatEvent]) -> None:
        if isinstance(value.get("usage"), dict):
            self.host.open_step(emit)
            self.usage.update(value["usage"], emit)
        raise provider_error(value)

    def _ending(self, stop: Fields, outer: Fields, emit: Emit[ChatEvent]) -> None:
        """
        Why the message ends, if it says so, and what belongs to that.
        """
        said = {name: stop.get(name) or outer.get(name) for name in _KEPT}
        self.host.metadata.update({name: fact for name, fact in said.items() if fact})
        reason = string(stop.get("stop_reason"))
        if reason == "refusal":
            self._refused(mapping(stop.get("stop_details")), emit)
        if reason is not None:
            self.content.blocks.finish(reason, FINISH_REASONS.get(reason, FinishReason.OTHER), emit)

    def _refused(self, details: Fields, emit: Emit[ChatEvent]) -> None:
        explanation = string(details.get("explanation"))
        if explanation:
            emit(RefusalDelta(explanation))
        else:
            emit(ContentFilter(string(details.get("category")) or "refusal", blocked=True))

    # Fields ------------------------------------------------------------------------------------------------------------------------------------

    def _index(self, value: Fields) -> int:
        index = value.get("index")
        if type(index) is not int:
            raise self.host.malformed("a content block without an index")
        return index

    def _object(self, value: Fields, name: str) -> Fields:
        found = value.get(name)
        if not isinstance(found, dict):
            raise self.host.malformed(f"{name} is no object")
        return found


_FRAMES: Mapping[str, Callable[[Messages, Fields, Emit[ChatEvent]], None]] = {
    "message_start": Messages._message_start,
    "content_block_start": Messages._block_start,
    "content_block_delta": Messages._block_delta,
    "content_block_stop": Messages._block_stop,
    "message_delta": Messages._message_delta,
    "message_stop": Messages._message_stop,
    "ping": Messages._ping,
    "error": Messages._error,
}

# The deltas most frames are, and where their text is.
_PIECES: Mapping[Any, str] = {"text_delta": "text", "thinking_delta": "thinking", "input_json_delta": "partial_json"}


class AnthropicParser(Parser):
    """
    The event stream of the Messages API, and its JSON body.
    """

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self.messages = Messages(self)

    def on_sentinel(self, event: SseEvent, emit: Emit[ChatEvent]) -> bool:
        """
        `[DONE]` is foreign here; gateways send it behind message_stop, where it is not read. Before that it says that nothing will follow.
        """
        if event.raw[:1] == b"{":
            return False
        text = event.raw.strip()
        if not text:
            emit(Heartbeat())
            return True
        if text == b"[DONE]":
            raise IncompleteStreamError("[DONE] came before message_stop", event.start)
        if event.event == "error" and text[:1] not in (b"{", b"["):
            raise provider_error(event.data)
        if text[:1] in (b"{", b"[") or event.event in _FRAMES or event.event == "message":
            return False
        self.unknown(event.event, event.data, emit)
        return True

    def on_event(self, value: Any, event: SseEvent, emit: Emit[ChatEvent]) -> None:
        messages = self.messages
        try:
            handler = _FRAMES[value["type"]]
        except (KeyError, TypeError):
            self._on_strange(value, event, emit)
        else:
            handler(messages, value, emit)
        if messages.stopped:
            self.end_response(emit)

    def repeats(self, value: Any, event: SseEvent) -> Repeated | None:
        if not isinstance(value, dict) or value.get("type") != "content_block_delta" or type(value.get("index")) is not int:
            return None
        delta = mapping(value.get("delta"))
        key = _PIECES.get(delta.get("type")) if len(delta) == 2 else None
        take = key and self.messages.content.piece(value["index"], delta["type"])
        return Repeated({("delta", key): Slot.TEXT}, take, plain=key != "partial_json") if key and take else None

    def _on_strange(self, value: Any, event: SseEvent, emit: Emit[ChatEvent]) -> None:
        """
        No known type in the data.
        """
        if isinstance(value, dict):
            self.messages.read(_kind(value, event), value, emit)
        elif event.event in _FRAMES:
            raise self.malformed(f"the data of {event.event} are no object")
        else:
            self.unknown(event.event, value, emit)

    def on_body(self, value: Any, emit: Emit[ChatEvent]) -> None:
        if not isinstance(value, dict):
            raise self.malformed("the body is no message")
        if error_in(value) is not None:
            raise provider_error(value)
        if not isinstance(value.get("content"), list):
            raise self.malformed("the body is no message")
        self.messages.body(value, emit)
        self.end_response(emit)


def _kind(value: Fields, event: SseEvent) -> str:
    """
    The frame's type; an error object is one under any name we do not know.
    """
    kind = string(value.get("type"))
    if kind is None:
        return "error" if event.event not in _FRAMES and error_in(value) is not None else event.event
    return "error" if kind not in _FRAMES and value.get("error") else kind


ANTHROPIC = Dialect(
    name="anthropic",
    framings={"text/event-stream": "sse", "application/json": "json"},
    parser=AnthropicParser,
    doc="Anthropic Messages, also from Vertex and from gateways that speak it",
    request=build,
)
