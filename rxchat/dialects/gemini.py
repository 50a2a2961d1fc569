"""
Gemini's generateContent (Gemini API and Vertex): an event stream, a streamed JSON array, or one JSON body; every event is a whole GenerateContentResponse.

    {"candidates": [{"content": {"parts": [...]}, "finishReason", "index"}], "promptFeedback": {"blockReason"}, "usageMetadata", "modelVersion", "responseId"}

The end is a finishReason of every candidate seen, or a blockReason, and then the end of the body: a finishReason may come in every event, and text behind it,
so the last one counts (contract P9). In an array the closing bracket is that end, in an event stream a clean EOF; a last event without its blank line counts
if its JSON is whole. Enums may be words or integers: the raw word is as it came (V3). A blocked prompt is a content filter whatever else is said;
its blockReason is in `metadata`, since no finishReason came. A finish that rejects a call (MALFORMED_..., UNEXPECTED_...) or that no table knows leaves all
calls incomplete (P2).

Usage is a snapshot, merged field by field: input = prompt + toolUsePrompt, output = candidates + thoughts (P4). `metadata` keeps finishMessage, avgLogprobs,
logprobs, what was searched for and the search entry point.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, ClassVar

from rxchat.dialects.base import Context, Dialect, Parser, UsageFold, integer, mapping, sequence, string
from rxchat.dialects.gemini_parts import Candidate
from rxchat.dialects.gemini_sources import SOURCED
from rxchat.errorbody import error_in, provider_error
from rxchat.errors import IncompleteStreamError, InvalidJSONError
from rxchat.events import ChatEvent, ContentFilter
from rxchat.framing.frames import JsonRecord, SseEvent, Undispatched
from rxchat.outgoing.gemini import build
from rxchat.response import ChatResponse, FinishReason
from rxchat.stage import Emit
from rxchat.strictjson import loads

__all__ = ["GEMINI"]

# By their numbers in the Gemini API's protocol; where Vertex numbers differently (6 to 10) neither meaning is a whole answer.
_FINISH_NUMBERS = (
    "FINISH_REASON_UNSPECIFIED",
    "STOP",
    "MAX_TOKENS",
    "SAFETY",
    "RECITATION",
    "OTHER",
    "LANGUAGE",
    "BLOCKLIST",
    "PROHIBITED_CONTENT",
    "SPII",
    "MALFORMED_FUNCTION_CALL",
    "IMAGE_SAFETY",
    "UNEXPECTED_TOOL_CALL",
    "TOO_MANY_TOOL_CALLS",
)
_FILTERS = (
    "SAFETY",
    "RECITATION",
    "BLOCKLIST",
    "PROHIBITED_CONTENT",
    "SPII",
    "IMAGE_SAFETY",
    "IMAGE_PROHIBITED_CONTENT",
    "IMAGE_RECITATION",
    "MODEL_ARMOR",
)
_UNSAID = (None, "", 0, "FINISH_REASON_UNSPECIFIED", "BLOCK_REASON_UNSPECIFIED", "BLOCKED_REASON_UNSPECIFIED")
_KNOWN = frozenset({"candidates", "promptFeedback", "usageMetadata", "modelVersion", "responseId"})
_METADATA = ("finishMessage", "avgLogprobs")
_GROUNDING = ("searchEntryPoint", "webSearchQueries", "retrievalQueries", "imageSearchQueries")


def _read_usage(raw: Mapping[str, Any]) -> dict[str, int | None]:
    return {
        "input_tokens": integer(raw.get("promptTokenCount")),
        "output_tokens": integer(raw.get("candidatesTokenCount")),
        "cache_read_tokens": integer(raw.get("cachedContentTokenCount")),
        "reasoning_tokens": integer(raw.get("thoughtsTokenCount")),
        "tool_use_prompt_tokens": integer(raw.get("toolUsePromptTokenCount")),
        "total_tokens": integer(raw.get("totalTokenCount")),
    }


def usage_formula(wire: Mapping[str, int]) -> dict[str, int | None]:
    """
    Our counts from the wire's (contract P4): tool use is input, thoughts are output.
    """
    return {
        **wire,
        "input_tokens": _sum(wire, "input_tokens", "tool_use_prompt_tokens"),
        "output_tokens": _sum(wire, "output_tokens", "reasoning_tokens"),
    }


def _sum(wire: Mapping[str, int], *names: str) -> int | None:
    known = [wire[name] for name in names if name in wire]
    return sum(known) if known else None


class GeminiParser(Parser):
    """
    Events of generateContent.
    """

    finish_reasons: ClassVar[Mapping[str, FinishReason]] = {
        "STOP": FinishReason.STOP,
        "MAX_TOKENS": FinishReason.LENGTH,
        **dict.fromkeys(_FILTERS, FinishReason.CONTENT_FILTER),
    }

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self._candidates: dict[int, Candidate] = {}
        self._blocked = False
        self._usage = UsageFold(_read_usage, usage_formula)

    # Frames ----------------------------------------------------------------------------------------------------------------------------------

    def on_sentinel(self, event: SseEvent, emit: Emit[ChatEvent]) -> bool:
        # Not Gemini's, but gateways add it; it proves nothing.
        return event.raw.strip() == b"[DONE]"

    def on_event(self, value: Any, event: SseEvent, emit: Emit[ChatEvent]) -> None:
        self._chunk(value, emit)

    def on_record(self, value: Any, record: JsonRecord, emit: Emit[ChatEvent]) -> None:
        if not record.last:
            self._chunk(value, emit)
        elif self._ended:
            self._end(emit)
        else:
            raise IncompleteStreamError("the array ended before a finishReason", record.start)

    def on_body(self, value: Any, emit: Emit[ChatEvent]) -> None:
        self._chunk(value, emit)
        if not self.step_open:
            raise self.malformed("the body is no answer")
        self._end(emit)

    def on_undispatched(self, held: Undispatched, emit: Emit[ChatEvent]) -> None:
        event = held.event
        if event is None:
            raise IncompleteStreamError("the body ends inside an event", held.start)
        if self.on_sentinel(event, emit):
            return
        try:
            value = loads(event.raw, offset=event.data_start, depth=self.limits.json_depth)
        except InvalidJSONError as error:
            raise IncompleteStreamError("the body ends inside an event", held.start) from error
        self._chunk(value, emit)

    def on_eof(self, emit: Emit[ChatEvent]) -> None:
        if not self._ended:
            raise IncompleteStreamError("the body ended before a finishReason", self.offset)
        if not self.context.clean_eof:
            raise IncompleteStreamError("the end of this body proves nothing", self.offset)
        self._end(emit)

    def _chunk(self, value: Any, emit: Emit[ChatEvent]) -> None:
        if not isinstance(value, dict):
            raise self.malformed(f"an event is {type(value).__name__}, not an object")
        error = error_in(value)
        if error is None and _KNOWN.isdisjoint(value):
            self.unknown("event", value, emit)
            return
        if not _KNOWN.isdisjoint(value):
            self.open_step(emit, value.get("responseId"), value.get("modelVersion"))
        for said in self._list(value, "candidates"):
            self._candidate(said, emit)
        self._feedback(mapping(value.get("promptFeedback")), emit)
        self._usage.update(value.get("usageMetadata"), emit)
        if error is not None:
            raise provider_error(error)

    def _list(self, said: Mapping[str, Any], key: str) -> list[Any]:
        """
        An array or nothing; DialectError for anything else.
        """
        value = said.get(key)
        if value is not None and not isinstance(value, list):
            raise self.malformed(f"{key} is {type(value).__name__}, not an array")
        return value or []

    # Candidates ------------------------------------------------------------------------------------------------------------------------------

    def _candidate(self, said: Any, emit: Emit[ChatEvent]) -> None:
        if not isinstance(said, dict):
            raise self.malformed(f"a candidate is {type(said).__name__}, not an object")
        index = integer(said.get("index")) or 0
        candidate = self._candidates.get(index) or self._candidates.setdefault(index, Candidate(self, index))
        self._content(candidate, said.get("content"), emit)
        if not SOURCED.isdisjoint(said):
            for event in candidate.sources.read(said):
                emit(event)
        self._note(said)
        self._finish(candidate, said, emit)

    def _content(self, candidate: Candidate, content: Any, emit: Emit[ChatEvent]) -> None:
        if content is None:
            return
        if not isinstance(content, dict):
            raise self.malformed(f"a content is {type(content).__name__}, not an object")
        if content and not {"parts", "role"} & content.keys():
            self.unknown("content", content, emit)
        for part in self._list(content, "parts"):
            candidate.part(part, emit)

    def _note(self, said: Mapping[str, Any]) -> None:
        for key in _METADATA:
            if said.get(key) is not None:
                self.metadata[key] = said[key]
        if said.get("logprobsResult"):
            self.metadata.setdefault("logprobs", []).append(said["logprobsResult"])
        grounding = mapping(said.get("groundingMetadata"))
        self.metadata.update({key: grounding[key] for key in _GROUNDING if grounding.get(key)})

    def _finish(self, candidate: Candidate, said: Mapping[str, Any], emit: Emit[ChatEvent]) -> None:
        raw = said.get("finishReason")
        if raw not in _UNSAID:
            if isinstance(raw, bool) or not isinstance(raw, str | int):
                raise self.malformed(f"a finishReason is {type(raw).__name__}")
            candidate.finish_raw = str(raw)
            candidate.reason = self.finish_reasons.get(_word(raw), FinishReason.OTHER)
        self._filtered(candidate, said, raw not in _UNSAID and candidate.reason is FinishReason.CONTENT_FILTER, emit)

    def _filtered(self, candidate: Candidate, said: Mapping[str, Any], decided: bool, emit: Emit[ChatEvent]) -> None:
        """
        What was blocked, once each; a rating that does not go with a finish for safety is an annotation.
        """
        ratings = [mapping(rating) for rating in sequence(said.get("safetyRatings"))]
        categories = [str(rating.get("category")) for rating in ratings if rating.get("blocked") is True]
        if decided and not categories and not any(decisive for _, decisive in candidate.blocks):
            categories = [str(candidate.finish_raw)]
        for category in categories:
            if (category, decided) not in candidate.blocks:
                candidate.blocks.add((category, decided))
                emit(ContentFilter(category, string(said.get("finishMessage")), decided, candidate.index))

    def _feedback(self, feedback: Mapping[str, Any], emit: Emit[ChatEvent]) -> None:
        reason = feedback.get("blockReason")
        if reason not in _UNSAID and not self._blocked:
            self._blocked = True
            self.metadata["blockReason"] = reason
            emit(ContentFilter(str(reason), string(feedback.get("blockReasonMessage")), blocked=True))

    # The end ---------------------------------------------------------------------------------------------------------------------------------

    @property
    def _ended(self) -> bool:
        return self._blocked or (bool(self._candidates) and all(candidate.finished for candidate in self._candidates.values()))

    def _end(self, emit: Emit[ChatEvent]) -> None:
        for candidate in self._candidates.values():
            candidate.calls.settle(FinishReason.CONTENT_FILTER if self._blocked else candidate.reason, emit)
        self.end_response(emit)

    def seed(self, alternatives: Iterable[ChatResponse] = ()) -> ChatResponse:
        first = self._candidates.get(0)
        if first is not None:
            self.set_finish(first.finish_raw, first.reason)
        if self._blocked:
            self.finish = FinishReason.CONTENT_FILTER
        others = [
            ChatResponse(choice=index, finish_reason=candidate.reason, finish_reason_raw=candidate.finish_raw)
            for index, candidate in sorted(self._candidates.items())
            if index
        ]
        return super().seed([*alternatives, *others])


def _word(raw: str | int) -> str:
    """
    An enum's word, also where it was sent as a number.
    """
    return _FINISH_NUMBERS[raw] if isinstance(raw, int) and 0 <= raw < len(_FINISH_NUMBERS) else str(raw)


GEMINI = Dialect(
    name="gemini",
    framings={"text/event-stream": "sse", "application/json": "json-array"},
    parser=GeminiParser,
    doc="Google Gemini generateContent, Gemini API and Vertex",
    request=build,
)
