"""
Amazon Bedrock's ConverseStream: one wire for the models of all makers.

Each frame of the AWS event stream is an event or an exception. The order is messageStart ... messageStop, metadata; an exception may still come between
the last two, so the answer ends with both of them, or with messageStop and a clean end of the body (contract P9). Text and reasoning are never announced
by a contentBlockStart: their blocks open with the first delta.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from rxchat.dialects.anthropic import cached_apart
from rxchat.dialects.base import Context, Dialect, Parser, UsageFold, integer, mapping, string
from rxchat.dialects.bedrock_content import ConverseContent, Fields
from rxchat.dialects.bedrock_frames import event_name, findings, payload_of, payload_start
from rxchat.errorbody import error_in, provider_error
from rxchat.events import ChatEvent, ContentFilter
from rxchat.framing.frames import AwsMessage
from rxchat.outgoing.bedrock_converse import build
from rxchat.response import FinishReason
from rxchat.stage import Emit
from rxchat.strictjson import loads

__all__ = ["BEDROCK_CONVERSE", "FINISH_REASONS", "Converse", "ConverseParser", "read_usage"]

GUARDED = "guardrail_intervened"
FILTERED = "content_filtered"

FINISH_REASONS: Mapping[str, FinishReason] = {
    "end_turn": FinishReason.STOP,
    "stop_sequence": FinishReason.STOP,
    "tool_use": FinishReason.TOOL_CALLS,
    "max_tokens": FinishReason.LENGTH,
    "model_context_window_exceeded": FinishReason.LENGTH,
    GUARDED: FinishReason.CONTENT_FILTER,
    FILTERED: FinishReason.CONTENT_FILTER,
    "malformed_model_output": FinishReason.OTHER,
    "malformed_tool_use": FinishReason.OTHER,
}


def read_usage(raw: Fields) -> dict[str, int | None]:
    """
    The service repeats the cache counts under two names; either may be missing.
    """
    return {
        "input_tokens": integer(raw.get("inputTokens")),
        "output_tokens": integer(raw.get("outputTokens")),
        "cache_read_tokens": _either(raw, "cacheReadInputTokens", "cacheReadInputTokenCount"),
        "cache_write_tokens": _either(raw, "cacheWriteInputTokens", "cacheWriteInputTokenCount"),
        "total_tokens": integer(raw.get("totalTokens")),
    }


def _either(raw: Fields, name: str, other: str) -> int | None:
    count = integer(raw.get(name))
    return integer(raw.get(other)) if count is None else count


class Converse:
    """
    One answer, from its events or from its whole body; speaks through the parser that owns it.

    `usage` may be given where the same step has further sources of counts; `joined` as in `ConverseContent`.
    """

    def __init__(self, host: Parser, usage: UsageFold | None = None, *, joined: bool = False) -> None:
        self.host = host
        self.usage = usage or UsageFold(read_usage, cached_apart)
        self.content = ConverseContent(host, joined=joined)
        self.stopped = False
        self.reported = False
        self._found: list[ContentFilter] = []

    @property
    def ended(self) -> bool:
        """
        Whether nothing can follow: both messageStop and metadata have come, in whichever order.
        """
        return self.stopped and self.reported

    def knows(self, name: str) -> bool:
        """
        Whether this is one of the events of the protocol.
        """
        return name in _EVENTS

    def read(self, name: str, value: Any, emit: Emit[ChatEvent]) -> None:
        """
        One known event. DialectError if it is malformed.
        """
        if not isinstance(value, dict):
            raise self.host.malformed(f"{name} is no object")
        self.host.open_step(emit)
        _EVENTS[name](self, value, emit)

    def body(self, value: Fields, emit: Emit[ChatEvent]) -> None:
        """
        The answer as one object: the events of its stream, without the end.
        """
        self.host.open_step(emit)
        self.content.whole(mapping(mapping(value.get("output")).get("message")).get("content"), emit)
        self._message_stop(value, emit)
        self._metadata(value, emit)

    def close(self, emit: Emit[ChatEvent]) -> None:
        """
        Before the end: what a guardrail that intervened did. Masking decides nothing; without a trace it counts as blocked (contract V7).
        """
        if self.host.finish_raw != GUARDED or any(found.blocked for found in self._found):
            return
        if self._found:
            self.content.blocks.finish(GUARDED, FinishReason.STOP, emit)
        else:
            emit(ContentFilter(GUARDED, blocked=True))

    # Events ------------------------------------------------------------------------------------------------------------------------------------

    def _message_start(self, value: Fields, emit: Emit[ChatEvent]) -> None:
        """
        It says nothing but the role.
        """

    def _block_start(self, value: Fields, emit: Emit[ChatEvent]) -> None:
        start = {} if value.get("start") is None else self._object(value, "start")
        self.content.start(self._index(value), start, emit)

    def _block_delta(self, value: Fields, emit: Emit[ChatEvent]) -> None:
        self.content.delta(self._index(value), self._object(value, "delta"), emit)

    def _block_stop(self, value: Fields, emit: Emit[ChatEvent]) -> None:
        self.content.blocks.stop(self._index(value), emit)

    def _message_stop(self, value: Fields, emit: Emit[ChatEvent]) -> None:
        raw = string(value.get("stopReason"))
        self.content.blocks.seal(emit)
        if raw is not None:
            self.content.blocks.finish(raw, FINISH_REASONS.get(raw, FinishReason.OTHER), emit)
        if raw == FILTERED:
            emit(ContentFilter(FILTERED, blocked=True))
        self._keep(value, "additionalModelResponseFields")
        self.stopped = True

    def _metadata(self, value: Fields, emit: Emit[ChatEvent]) -> None:
        self.usage.update(value.get("usage"), emit)
        for found in findings(mapping(value.get("trace")).get("guardrail")):
            self._found.append(found)
            emit(found)
        self._keep(value, "metrics", "performanceConfig", "serviceTier")
        self.reported = True

    def _keep(self, value: Fields, *names: str) -> None:
        self.host.metadata.update({name: value[name] for name in names if value.get(name)})

    def _index(self, value: Fields) -> int:
        index = value.get("contentBlockIndex")
        if type(index) is not int:
            raise self.host.malformed("a content block without an index")
        return index

    def _object(self, value: Fields, name: str) -> Fields:
        found = value.get(name)
        if not isinstance(found, dict):
            raise self.host.malformed(f"{name} is no object")
        return found


_EVENTS: Mapping[str, Callable[[Converse, Fields, Emit[ChatEvent]], None]] = {
    "messageStart": Converse._message_start,
    "contentBlockStart": Converse._block_start,
    "contentBlockDelta": Converse._block_delta,
    "contentBlockStop": Converse._block_stop,
    "messageStop": Converse._message_stop,
    "metadata": Converse._metadata,
}


class ConverseParser(Parser):
    """
    The event stream of ConverseStream, and the JSON body of Converse.
    """

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self.converse = Converse(self)

    def on_message(self, message: AwsMessage, emit: Emit[ChatEvent]) -> None:
        name = event_name(message)
        if not self.converse.knows(name):
            self.unknown(name, payload_of(message), emit)
            return
        value = loads(message.payload, offset=payload_start(message), depth=self.limits.json_depth)
        self.converse.read(name, value, emit)
        if self.converse.ended:
            self._end(emit)

    def on_eof(self, emit: Emit[ChatEvent]) -> None:
        if self.converse.stopped and self.context.clean_eof:
            self._end(emit)
        super().on_eof(emit)

    def on_body(self, value: Any, emit: Emit[ChatEvent]) -> None:
        if error_in(value) is not None:
            raise provider_error(value)
        if not isinstance(value, dict) or not isinstance(mapping(value.get("output")).get("message"), dict):
            raise self.malformed("the body is no answer of Converse")
        self.converse.body(value, emit)
        self._end(emit)

    def _end(self, emit: Emit[ChatEvent]) -> None:
        self.converse.close(emit)
        self.end_response(emit)


BEDROCK_CONVERSE = Dialect(
    name="bedrock-converse",
    framings={"application/vnd.amazon.eventstream": "aws-eventstream", "application/json": "json"},
    parser=ConverseParser,
    doc="Amazon Bedrock ConverseStream and Converse",
    request=build,
)
