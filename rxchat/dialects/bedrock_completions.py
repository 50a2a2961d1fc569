"""
Plain completions inside Bedrock's chunks: Titan, Llama, Mistral, Cohere Command, old Claude; and what every family of models is (`Family`).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeAlias

import attrs

from rxchat.dialects.anthropic import read_usage as read_messages_usage
from rxchat.dialects.base import Parser, UsageFold, integer, mapping, sequence, string
from rxchat.dialects.bedrock_converse import read_usage as read_converse_usage
from rxchat.errors import IncompleteStreamError, ProviderError
from rxchat.events import ChatEvent, ContentFilter, TextDelta
from rxchat.response import ChatResponse, FinishReason
from rxchat.stage import Emit

__all__ = ["COHERE", "LLAMA", "METRICS", "MISTRAL", "OLD_CLAUDE", "TITAN", "Completion", "CompletionFamily", "Family", "Fields", "read_usage"]

Fields: TypeAlias = Mapping[str, Any]

# What the service counts itself, under our names.
METRICS: Mapping[str, str] = {
    "inputTokenCount": "input_tokens",
    "outputTokenCount": "output_tokens",
    "cacheReadInputTokenCount": "cache_read_tokens",
    "cacheWriteInputTokenCount": "cache_write_tokens",
}

_COUNTERS: Mapping[str, str] = {
    **METRICS,
    "inputTextTokenCount": "input_tokens",
    "totalOutputTextTokenCount": "output_tokens",
    "tokenCount": "output_tokens",
    "prompt_token_count": "input_tokens",
    "generation_token_count": "output_tokens",
}


def read_usage(raw: Fields) -> dict[str, int | None]:
    """
    Counts of any family, or of the service: their names do not collide.
    """
    counts = {name: integer(raw.get(key)) for key, name in _COUNTERS.items() if raw.get(key) is not None}
    for known in (read_messages_usage(raw), read_converse_usage(raw)):
        counts.update({name: count for name, count in known.items() if count is not None})
    return dict(counts)


class Family:
    """
    One answer in the words of a family; speaks through the parser that owns it.

    `counted` tells whether counts of the model's own came that `usage` does not know of.
    """

    counted = False

    def __init__(self, host: Parser, usage: UsageFold) -> None:
        self.host = host
        self.usage = usage

    def read(self, value: Fields, emit: Emit[ChatEvent]) -> None:
        """
        One chunk.
        """
        raise NotImplementedError

    def body(self, value: Fields, emit: Emit[ChatEvent]) -> None:
        """
        The whole answer as one object.
        """
        self.read(value, emit)

    def close(self, blocked: str | None, emit: Emit[ChatEvent]) -> None:
        """
        The body has ended: end the step. IncompleteStreamError if the family's own end has not come; `blocked` is the word of a guardrail that came instead.
        """
        raise NotImplementedError

    def leave(self, error: Exception, emit: Emit[ChatEvent]) -> None:
        """
        The response fails.
        """

    def _closed(self, ended: bool, blocked: str | None) -> None:
        if blocked is not None:
            self.host.set_finish(blocked, FinishReason.CONTENT_FILTER)
        elif not ended:
            raise IncompleteStreamError("the body ended before the model's own end", self.host.offset)


@attrs.frozen
class Completion:
    """
    How a family of plain completions names things: text, reason, and the list that holds them where there is one.
    """

    text: str
    reason: str
    finish: Mapping[str, FinishReason]
    items: str = ""


_WORDS: Mapping[str, FinishReason] = {
    "stop": FinishReason.STOP,
    "stop_sequence": FinishReason.STOP,
    "length": FinishReason.LENGTH,
    "max_tokens": FinishReason.LENGTH,
}

TITAN = Completion(
    "outputText",
    "completionReason",
    {
        "FINISH": FinishReason.STOP,
        "FINISHED": FinishReason.STOP,
        "STOP_CRITERIA_MET": FinishReason.STOP,
        "LENGTH": FinishReason.LENGTH,
        "CONTENT_FILTERED": FinishReason.CONTENT_FILTER,
    },
    "results",
)
LLAMA = Completion("generation", "stop_reason", _WORDS)
MISTRAL = Completion("text", "stop_reason", _WORDS, "outputs")
OLD_CLAUDE = Completion("completion", "stop_reason", _WORDS)
COHERE = Completion(
    "text",
    "finish_reason",
    {
        "COMPLETE": FinishReason.STOP,
        "STOP_SEQUENCE": FinishReason.STOP,
        "MAX_TOKENS": FinishReason.LENGTH,
        "ERROR_TOXIC": FinishReason.CONTENT_FILTER,
        "ERROR": FinishReason.ERROR,
        "ERROR_LIMIT": FinishReason.ERROR,
    },
    "generations",
)


class CompletionFamily(Family):
    """
    Plain completions; several generations may interleave, told apart by `index`.
    """

    def __init__(self, names: Completion, host: Parser, usage: UsageFold) -> None:
        super().__init__(host, usage)
        self.names = names
        self.ended = False
        self.others: dict[int, ChatResponse] = {}

    def read(self, value: Fields, emit: Emit[ChatEvent]) -> None:
        self.host.open_step(emit, value.get("id"))
        items = sequence(value.get(self.names.items)) if self.names.items in value else [value]
        for item in items:
            self._generation(mapping(item), emit)
        for counts in (value, *(item for item in items if item is not value)):
            self.usage.update({name: count for name, count in mapping(counts).items() if name in _COUNTERS}, emit)
        if value.get("stop"):
            self.host.metadata["stop_sequence"] = value["stop"]

    def close(self, blocked: str | None, emit: Emit[ChatEvent]) -> None:
        self._closed(self.ended, blocked)
        self.host.end_step(emit, self.others.values())

    def _generation(self, item: Fields, emit: Emit[ChatEvent]) -> None:
        choice = integer(item.get("index")) or 0
        text = item.get(self.names.text)
        if text is not None and not isinstance(text, str):
            raise self.host.malformed(f"{self.names.text} is no text")
        if text:
            if choice == 0 and self.ended:
                self.host.after_finish += 1
            emit(TextDelta(text, choice=choice))
        raw = string(item.get(self.names.reason))
        if raw is not None or item.get("is_finished") is True:
            self._finish(choice, raw, emit)

    def _finish(self, choice: int, raw: str | None, emit: Emit[ChatEvent]) -> None:
        reason = FinishReason.UNKNOWN if raw is None else self.names.finish.get(raw, FinishReason.OTHER)
        if choice:
            self.others[choice] = ChatResponse(choice=choice, finish_reason=reason, finish_reason_raw=raw)
            return
        self.host.set_finish(raw, reason)
        self.ended = True
        if reason is FinishReason.CONTENT_FILTER:
            emit(ContentFilter(str(raw), blocked=True))
        if reason is FinishReason.ERROR:
            raise ProviderError(f"the model ended with {raw}", code=raw, offset=self.host.offset)
