"""
The aggregated answer: parts, tool calls, usage, finish reasons, `ChatResponse`.

Values only. `ChatResponse` is made by folding events (`aggregator.py`) and by nothing else.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping
from enum import StrEnum
from typing import Any, ClassVar, TypeAlias

import attrs

from rxchat.errors import AbortedError, IncompleteFinishError, RxchatError, Verdict

__all__ = [
    "CALLS_LEFT",
    "COUNTERS",
    "ENDED_BY",
    "IN_TOOLS",
    "ChatResponse",
    "CitationPart",
    "ContentFilterPart",
    "FinishReason",
    "MediaPart",
    "Part",
    "ProviderItemPart",
    "RedactedThinkingPart",
    "RefusalPart",
    "SearchResultPart",
    "ServerToolPart",
    "TextPart",
    "ThinkingPart",
    "ToolCall",
    "ToolResultPart",
    "Usage",
]


class FinishReason(StrEnum):
    """
    Why a step ended, by an exact table per dialect (contract V3, P1, P2). UNKNOWN: the provider said nothing; OTHER: a word no table knows.
    """

    STOP = "stop"
    LENGTH = "length"
    TOOL_CALLS = "tool_calls"
    CONTENT_FILTER = "content_filter"
    REFUSAL = "refusal"
    PAUSE = "pause"
    ERROR = "error"
    OTHER = "other"
    UNKNOWN = "unknown"

    @property
    def complete(self) -> bool:
        """
        Whether an answer that ended so is whole: stop and tool_calls only (contract P2).
        """
        return self is FinishReason.STOP or self is FinishReason.TOOL_CALLS


COUNTERS = ("input_tokens", "output_tokens", "cache_read_tokens", "cache_write_tokens", "reasoning_tokens", "total_tokens")


@attrs.frozen
class Usage:
    """
    Token counts by one meaning for every provider (contract U); None = never reported.

    `input_tokens` includes cached ones, `output_tokens` includes reasoning. `wire` holds the provider's own values under our names, before the dialect's
    formula (contract P4); `raw` the provider's objects, one per step that reported; `partial` marks counts of a step that failed or was aborted.
    """

    input_tokens: int | None = None
    output_tokens: int | None = None
    cache_read_tokens: int | None = None
    cache_write_tokens: int | None = None
    reasoning_tokens: int | None = None
    total_tokens: int | None = None
    wire: Mapping[str, int] = attrs.field(factory=dict)
    raw: tuple[Any, ...] = ()
    partial: bool = False

    def merge(self, later: Usage) -> Usage:
        """
        A later snapshot of the same step: its fields replace or extend, null never erases, nothing is added.
        """
        counters = {name: own if (own := getattr(later, name)) is not None else getattr(self, name) for name in COUNTERS}
        return Usage(**counters, wire={**self.wire, **later.wire}, raw=later.raw or self.raw, partial=later.partial)

    def add(self, other: Usage) -> Usage:
        """
        Another step: every counter is summed, None counting only where both are None.
        """
        counters = {name: _sum(getattr(self, name), getattr(other, name)) for name in COUNTERS}
        wire = {name: self.wire.get(name, 0) + other.wire.get(name, 0) for name in {**self.wire, **other.wire}}
        return Usage(**counters, wire=wire, raw=self.raw + other.raw, partial=self.partial or other.partial)


def _sum(a: int | None, b: int | None) -> int | None:
    return b if a is None else a if b is None else a + b


@attrs.frozen
class ToolCall:
    """
    A call of a client tool.

    `arguments_text` is the exact text the provider sent (compact JSON where the wire has an object). `arguments` is set only if the call is complete and
    its text is one strict JSON object (contract N7, P3); `complete` is True only if the provider ended the call, or its step ended with a reason that
    allows it. `kind` is "function", or "custom" for free-form text. `server_executed`: the provider ran it itself (contract P10). `metadata` is what the
    provider wants back with the call (signatures).
    """

    id: str = ""
    name: str = ""
    arguments_text: str = ""
    arguments: Mapping[str, Any] | None = None
    complete: bool = False
    index: int | None = None
    kind: str = "function"
    server_executed: bool = False
    metadata: Mapping[str, Any] | None = None


@attrs.frozen
class TextPart:
    """
    Visible text of one block.
    """

    tag: ClassVar[str] = "text"
    text: str
    index: int | None = None
    item_id: str | None = None


@attrs.frozen
class ThinkingPart:
    """
    Reasoning text of one block; `signature` is the provider's seal over it, to be sent back unchanged.
    """

    tag: ClassVar[str] = "thinking"
    text: str
    signature: str | None = None
    index: int | None = None
    item_id: str | None = None


@attrs.frozen
class RedactedThinkingPart:
    """
    Reasoning that only the provider can read.
    """

    tag: ClassVar[str] = "redacted_thinking"
    data: str
    index: int | None = None
    item_id: str | None = None


@attrs.frozen
class ToolResultPart:
    """
    What a tool answered.
    """

    tag: ClassVar[str] = "tool_result"
    call_id: str
    result: Any
    is_error: bool = False


@attrs.frozen
class ServerToolPart:
    """
    A tool the provider runs, or an item the client must answer (`needs_client`, contract P12). `kind` is the provider's item type.
    """

    tag: ClassVar[str] = "server_tool"
    kind: str
    id: str | None = None
    name: str | None = None
    arguments_text: str = ""
    payload: Any = None
    result: Any = None
    is_error: bool = False
    needs_client: bool = False


@attrs.frozen
class MediaPart:
    """
    An image, audio, video or file: `data` is base64 as it came, or `url` says where it is.
    """

    tag: ClassVar[str] = "media"
    kind: str
    mime: str | None = None
    data: str | None = None
    url: str | None = None
    item_id: str | None = None
    transcript: str | None = None
    name: str | None = None

    @property
    def content(self) -> bytes:
        """
        The decoded bytes; empty where only a URL is known.
        """
        return base64.b64decode(self.data or "")


@attrs.frozen
class CitationPart:
    """
    A source the answer leans on; `start`, `end` count code points of the block `index`, None if unsaid.
    """

    tag: ClassVar[str] = "citation"
    url: str | None = None
    title: str | None = None
    quoted: str | None = None
    file: str | None = None
    index: int | None = None
    start: int | None = None
    end: int | None = None


@attrs.frozen
class SearchResultPart:
    """
    A hit of a search the provider made.
    """

    tag: ClassVar[str] = "search_result"
    url: str | None = None
    title: str | None = None
    snippet: str | None = None
    query: str | None = None


@attrs.frozen
class RefusalPart:
    """
    The model's own words of refusal; never part of `text`.
    """

    tag: ClassVar[str] = "refusal"
    text: str


@attrs.frozen
class ContentFilterPart:
    """
    A safety decision of the provider.
    """

    tag: ClassVar[str] = "content_filter"
    category: str
    text: str | None = None
    blocked: bool = False


@attrs.frozen
class ProviderItemPart:
    """
    An opaque item, kept for the next request and no text (contract P12).
    """

    tag: ClassVar[str] = "provider_item"
    type: str
    raw: Any = None


Part: TypeAlias = (
    TextPart
    | ThinkingPart
    | RedactedThinkingPart
    | ToolCall
    | ToolResultPart
    | ServerToolPart
    | MediaPart
    | CitationPart
    | SearchResultPart
    | RefusalPart
    | ContentFilterPart
    | ProviderItemPart
)

# The metadata of an answer (and of its last step) that ended here, between two steps, say by what under this key (contract T4).
ENDED_BY = "ended_by"
# It failed, or was aborted, while tools of the caller's were running.
IN_TOOLS = "in_tools"
# Among these, what leaves calls without their results, and is no proper end.
CALLS_LEFT = ("max_steps", "cut_call")

# A part of one of these makes an answer; thinking, citations or a filter's note alone do not.
_ANSWERS = (TextPart, ToolCall, MediaPart, ServerToolPart)


@attrs.frozen
class ChatResponse:
    """
    One answer: a pure fold over its events, in order (contract V).

    `verdict` is None only on the response of a step that ended well (a step is no answer). `response_id` is made here, `provider_response_id` is the first
    non-empty one of the wire. `unknown` counts frames no dialect knew, by name; `after_finish` counts text deltas that came behind a finish reason,
    `dropped` tool fragments that belonged to no open call (contract P6).
    """

    parts: tuple[Part, ...] = ()
    finish_reason: FinishReason = FinishReason.UNKNOWN
    finish_reason_raw: str | None = None
    usage: Usage | None = None
    model: str | None = None
    response_id: str | None = None
    provider_response_id: str | None = None
    verdict: Verdict | None = None
    steps: tuple[ChatResponse, ...] = ()
    alternatives: tuple[ChatResponse, ...] = ()
    choice: int = 0
    unknown: Mapping[str, int] = attrs.field(factory=dict)
    after_finish: int = 0
    dropped: int = 0
    metadata: Mapping[str, Any] = attrs.field(factory=dict)

    @property
    def text(self) -> str:
        """
        All visible text.
        """
        return "".join(part.text for part in self.parts if isinstance(part, TextPart))

    @property
    def thinking(self) -> str:
        """
        All readable reasoning.
        """
        return "".join(part.text for part in self.parts if isinstance(part, ThinkingPart))

    @property
    def refusal(self) -> str:
        """
        All words of refusal.
        """
        return "".join(part.text for part in self.parts if isinstance(part, RefusalPart))

    @property
    def tool_calls(self) -> tuple[ToolCall, ...]:
        """
        All client tool calls in order, unfinished ones too: look at `complete` before running one.
        """
        return tuple(part for part in self.parts if isinstance(part, ToolCall))

    @property
    def media(self) -> tuple[MediaPart, ...]:
        """
        All finished media.
        """
        return tuple(part for part in self.parts if isinstance(part, MediaPart))

    @property
    def citations(self) -> tuple[CitationPart, ...]:
        """
        All citations, in order.
        """
        return tuple(part for part in self.parts if isinstance(part, CitationPart))

    @property
    def search_results(self) -> tuple[SearchResultPart, ...]:
        """
        All search hits, in order.
        """
        return tuple(part for part in self.parts if isinstance(part, SearchResultPart))

    @property
    def committable(self) -> bool:
        """
        Whether this answer may become history by default: COMPLETE, with text, a call or media in it (contract V9).
        """
        return self.verdict is Verdict.COMPLETE and any(isinstance(part, _ANSWERS) for part in self.parts)

    def raise_for_verdict(self) -> ChatResponse:
        """
        Itself if COMPLETE; else IncompleteFinishError, AbortedError, or RxchatError for a response that never ended.
        """
        if self.verdict is Verdict.COMPLETE:
            return self
        word = self.finish_reason_raw or self.finish_reason
        kinds: dict[Verdict | None, type[RxchatError]] = {Verdict.INCOMPLETE_FINISH: IncompleteFinishError, Verdict.ABORTED: AbortedError}
        error = kinds.get(self.verdict, RxchatError)(f"the answer is {self.verdict or 'not ended'} (finish reason {word})")
        error.response = self
        raise error
