"""
One choice of an OpenAI chat answer: what its deltas say, in which order, and why it ends.

Within a delta: sources, reasoning, text, refusal, calls, tools of the provider, media. Reasoning under several names in one delta says the same thing and
counts once; its seals and opaque parts are read beside it. Parts of a content array this reader does not know go to the policy for unknown frames.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Protocol

import attrs

from rxchat.dialects.base import integer, mapping, sequence, string
from rxchat.dialects.openai_calls import ToolCalls
from rxchat.dialects.openai_details import REASONING_DETAILS, ReasoningDetails
from rxchat.dialects.openai_fields import annotated, filters, image, joined_base64, search_hits, signature_of, spoken
from rxchat.errors import DialectError
from rxchat.events import (
    PROVIDER_ITEM,
    ChatEvent,
    ContentFilter,
    Custom,
    MediaDone,
    MediaPartial,
    RefusalDelta,
    ServerToolArgsDelta,
    ServerToolResult,
    ServerToolStart,
    TextDelta,
    ThinkingDelta,
    ThinkingRedacted,
    ThinkingSignature,
)
from rxchat.response import FinishReason
from rxchat.stage import Emit

__all__ = ["THOUGHT_NAMES", "Choice", "ChoiceHost", "thought_name"]

# Fields of a delta few providers send.
_SEALS = frozenset({"reasoning_encrypted", "extra_content", "thought_signature"})
_RARE = frozenset({"executed_tools", "audio", "images"})

# Under which names a delta has its reasoning; the first that says something counts.
THOUGHT_NAMES = ("reasoning_content", "reasoning")


def thought_name(delta: Mapping[str, Any]) -> str | None:
    """
    The name under which a delta has its reasoning, None if it has none.
    """
    return next((name for name in THOUGHT_NAMES if string(delta.get(name))), None)


class ChoiceHost(Protocol):
    """
    What a choice needs of its parser.
    """

    after_finish: int

    def unknown(self, name: str, payload: Any, emit: Emit[ChatEvent]) -> None:
        """
        A part nobody knows.
        """

    def malformed(self, what: str) -> DialectError:
        """
        The error for a known field that is not as it should be.
        """
        ...

    def emit_new(self, events: Iterable[Any], emit: Emit[ChatEvent]) -> None:
        """
        Emit those that have not come before.
        """


@attrs.define(eq=False)
class _Audio:
    """
    One spoken answer as it comes: base64 pieces and the words of it, so many partial events.
    """

    item_id: str | None = None
    pieces: list[str] = attrs.field(factory=list)
    words: list[str] = attrs.field(factory=list)
    told: int = 0


class Choice:
    """
    The state of one choice; `answered`: text came, `reasoned`: reasoning came, `refused`: words of refusal came, `blocked`: a filter withheld something.
    """

    def __init__(self, index: int, host: ChoiceHost) -> None:
        self.index = index
        self.calls = ToolCalls(index)
        self.finish_raw: str | None = None
        self.answered = False
        self.reasoned = False
        self.refused = False
        self.blocked = False
        self._host = host
        self._audio: _Audio | None = None
        self._kept = ReasoningDetails()
        self._signatures: dict[int | None, str] = {}
        self._server_tools: dict[str, set[str]] = {}
        self._snapshot = ""

    def reason(self, table: Mapping[str, FinishReason], unsaid: FinishReason) -> FinishReason:
        """
        Why it ended, by its word and by what is in it (contract P1); `unsaid` where no word came.
        """
        raw = self.finish_raw
        reason = unsaid if raw is None else table.get(raw, FinishReason.OTHER)
        if reason is not FinishReason.STOP:
            return reason
        if self.blocked:
            return FinishReason.CONTENT_FILTER
        # One rule in all dialects (contract V7): words of refusal make a refusal, also beside text.
        if self.refused:
            return FinishReason.REFUSAL
        return FinishReason.TOOL_CALLS if self.calls else reason

    def finish(self, raw: str, reason: FinishReason, emit: Emit[ChatEvent]) -> None:
        """
        A finish_reason came; the last one counts. A reason that allows it ends the calls (contract N7), a filter's is told as an event (contract V7).
        """
        self.finish_raw = raw
        if reason.complete:
            self.calls.end(emit)
        elif reason is FinishReason.CONTENT_FILTER and not self.blocked:
            self.blocked = True
            emit(ContentFilter(raw, None, True, self.index))

    def filtered(self, results: Any, emit: Emit[ChatEvent]) -> None:
        """
        The filter's notes on this choice.
        """
        for note in filters(results, self.index):
            self.blocked = self.blocked or note.blocked
            self._host.emit_new((note,), emit)

    def message(self, message: Any, snapshots: bool) -> Any:
        """
        A `message` that comes without a delta, as a delta: the whole of it at first; later what is new in it, if snapshots are read at all.
        """
        if not snapshots:
            return None if self.answered or self.calls or self.refused else message
        text = mapping(message).get("content")
        if not isinstance(text, str):
            return message
        if not text.startswith(self._snapshot):
            raise self._host.malformed("a snapshot does not continue the one before")
        new, self._snapshot = text[len(self._snapshot) :], text
        return {**message, "content": new}

    def delta(self, delta: Mapping[str, Any], emit: Emit[ChatEvent]) -> None:
        """
        Everything one delta says.
        """
        if delta.get("annotations"):
            self._host.emit_new(annotated(delta["annotations"], self.index), emit)
        self._thinking(delta, emit)
        self._content(delta.get("content"), emit)
        self._refusal(delta.get("refusal"), emit)
        self._tool_calls(delta, emit)
        if not _RARE.isdisjoint(delta):
            for tool in sequence(delta.get("executed_tools")):
                self._server_tool(mapping(tool), emit)
            if delta.get("audio"):
                self._spoken_piece(mapping(delta["audio"]), emit)
            for part in sequence(delta.get("images")):
                self._image(part, emit)

    # Reasoning -------------------------------------------------------------------------------------------------------------------------------

    def _thinking(self, delta: Mapping[str, Any], emit: Emit[ChatEvent]) -> None:
        name = thought_name(delta)
        text = delta[name] if name else None
        if delta.get("reasoning_details"):
            self._details(text, [mapping(detail) for detail in sequence(delta["reasoning_details"])], emit)
        elif text:
            self.reasoned = True
            emit(ThinkingDelta(text, None, None, self.index))
        if not _SEALS.isdisjoint(delta):
            self._opaque(delta.get("reasoning_encrypted"), None, emit)
            self._seal(signature_of(delta), None, emit)

    def _details(self, text: str | None, details: list[Mapping[str, Any]], emit: Emit[ChatEvent]) -> None:
        """
        The same reasoning as blocks: they are told apart where their texts are what `text` says, or where there is no other.
        """
        self._kept.take(details)
        pieces = [string(detail.get("text")) or string(detail.get("summary")) or "" for detail in details]
        apart = text is None or text == "".join(pieces)
        if text and not apart:
            emit(ThinkingDelta(text, None, None, self.index))
        for detail, piece in zip(details, pieces, strict=True):
            # The first block has no number, so that it stays one with deltas that come without details.
            block = integer(detail.get("index")) or None
            if apart and piece:
                emit(ThinkingDelta(piece, block, None, self.index))
            self._seal(detail.get("signature"), block, emit)
            self._opaque(detail.get("data"), string(detail.get("id")), emit)

    def _seal(self, signature: Any, block: int | None, emit: Emit[ChatEvent]) -> None:
        if string(signature) and signature != self._signatures.get(block):
            self._signatures[block] = signature
            emit(ThinkingSignature(signature, block, None, self.index))

    def _opaque(self, data: Any, item_id: str | None, emit: Emit[ChatEvent]) -> None:
        if string(data):
            self._host.emit_new((ThinkingRedacted(data, None, item_id, self.index),), emit)

    # Text ------------------------------------------------------------------------------------------------------------------------------------

    def _content(self, content: Any, emit: Emit[ChatEvent]) -> None:
        if isinstance(content, str):
            if content:
                self._text(content, emit)
        elif isinstance(content, list):
            for part in content:
                self._part(part, emit)
        elif content is not None:
            raise self._host.malformed(f"content is {type(content).__name__}")

    def _text(self, text: str, emit: Emit[ChatEvent]) -> None:
        self.answered = True
        if self.finish_raw is not None:
            self._host.after_finish += 1
        emit(TextDelta(text, None, None, self.index))

    def _refusal(self, text: Any, emit: Emit[ChatEvent]) -> None:
        if string(text):
            self.refused = True
            emit(RefusalDelta(text, self.index))

    def _part(self, part: Any, emit: Emit[ChatEvent]) -> None:
        """
        One part of a content array.
        """
        if isinstance(part, str):
            self._content(part, emit)
            return
        said = mapping(part)
        kind = string(said.get("type")) or ("text" if "text" in said else "part")
        if kind in ("text", "output_text"):
            self._content(said.get("text"), emit)
        elif kind in ("thinking", "reasoning"):
            self._thinking_part(said, emit)
        elif kind == "refusal":
            self._refusal(said.get("refusal"), emit)
        elif kind == "image_url":
            self._image(said, emit)
        elif kind == "tool_reference":
            self._host.emit_new(annotated([said], self.index), emit)
        else:
            self._host.unknown(f"content.{kind}", part, emit)

    def _thinking_part(self, said: Mapping[str, Any], emit: Emit[ChatEvent]) -> None:
        text = spoken(said.get("thinking") or said.get("summary") or said.get("text"))
        if text:
            emit(ThinkingDelta(text, None, None, self.index))
        for holder in (said, *sequence(said.get("summary"))):
            self._seal(mapping(holder).get("signature"), None, emit)

    # Tools -----------------------------------------------------------------------------------------------------------------------------------

    def _tool_calls(self, delta: Mapping[str, Any], emit: Emit[ChatEvent]) -> None:
        entries = delta.get("tool_calls")
        if entries:
            if not isinstance(entries, list):
                raise self._host.malformed("tool_calls is no list")
            for entry in entries:
                self.calls.take(entry, emit)
        if delta.get("function_call"):
            self.calls.only(delta["function_call"], emit)

    def _server_tool(self, tool: Mapping[str, Any], emit: Emit[ChatEvent]) -> None:
        """
        A tool the provider runs: the same entry comes again when its output is there.
        """
        kind, name = string(tool.get("type")) or "tool", string(tool.get("name"))
        number = integer(tool.get("index"))
        place = f"{self.index}-" if self.index else ""
        key = f"{kind}-{place}{len(self._server_tools) if number is None else number}"
        told = self._server_tools.setdefault(key, set())
        for event in _told(kind, key, name, tool):
            if event.type not in told:
                told.add(event.type)
                emit(event)
        self._host.emit_new(search_hits(mapping(tool.get("search_results")).get("results")), emit)

    # Media -----------------------------------------------------------------------------------------------------------------------------------

    def _spoken_piece(self, said: Mapping[str, Any], emit: Emit[ChatEvent]) -> None:
        audio = self._audio = self._audio or _Audio()
        audio.item_id = audio.item_id or string(said.get("id"))
        words, data = string(said.get("transcript")), string(said.get("data"))
        if words:
            audio.words.append(words)
        if data:
            audio.pieces.append(data)
        if words or data:
            emit(MediaPartial("audio", None, data, None, audio.item_id, audio.told, self.index, words))
            audio.told += 1
        if said.get("expires_at"):
            self.end_audio(emit)

    def end(self, emit: Emit[ChatEvent]) -> None:
        """
        The answer is over: what was collected is given whole. Only choice 0 goes on in the next request.
        """
        self.end_audio(emit)
        if self._kept and self.index == 0:
            emit(Custom(PROVIDER_ITEM, {"type": REASONING_DETAILS, "raw": self._kept.blocks}))

    def end_audio(self, emit: Emit[ChatEvent]) -> None:
        """
        The spoken answer is over, if there is one.
        """
        audio, self._audio = self._audio, None
        if audio is not None and audio.told:
            data, transcript = joined_base64(audio.pieces) or None, "".join(audio.words) or None
            emit(MediaDone("audio", None, data, None, audio.item_id, transcript=transcript, choice=self.index))

    def _image(self, part: Any, emit: Emit[ChatEvent]) -> None:
        done = image(part, self.index)
        if done is None:
            self._host.unknown("image", part, emit)
        else:
            emit(done)


def _told(kind: str, key: str, name: str | None, tool: Mapping[str, Any]) -> Iterator[ServerToolStart | ServerToolArgsDelta | ServerToolResult]:
    yield ServerToolStart(kind, key, name)
    if string(tool.get("arguments")):
        yield ServerToolArgsDelta(kind, tool["arguments"], key)
    if tool.get("output"):
        yield ServerToolResult(kind, key, tool["output"], name=name)
