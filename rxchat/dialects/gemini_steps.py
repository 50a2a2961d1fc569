"""
The steps of a Gemini interaction: what each kind of step and delta means, and what is kept of a step until it stops.

A step that comes whole (in a body, or with its start) is its start and the deltas it amounts to.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable, Mapping
from typing import Any

import attrs

from rxchat.dialects.base import Parser, mapping, sequence, string
from rxchat.dialects.blocks import Blocks, CallBlock
from rxchat.dialects.gemini_parts import media_kind
from rxchat.dialects.gemini_sources import PlacedText
from rxchat.dialects.gemini_words import NOT_SAID, Words
from rxchat.events import (
    ChatEvent,
    Citation,
    MediaDone,
    MediaPartial,
    SearchResult,
    ServerToolArgsDelta,
    ServerToolResult,
    ServerToolStart,
    ToolResult,
)
from rxchat.response import FinishReason
from rxchat.stage import Emit
from rxchat.strictjson import dumps

__all__ = ["Steps"]

_CALL, _RESULT = "_call", "_result"
_PLAIN = ("thought", "model_output", "user_input", "function_call", "function_result")


@attrs.define(eq=False)
class _Step:
    """
    One step: its text (to find citations in it), the pieces of its audio, what a provider's tool said.
    """

    index: int
    type: str
    said: Words = attrs.field(factory=Words)
    told: PlacedText = attrs.field(factory=PlacedText)
    audio: list[bytes] = attrs.field(factory=list)
    mime: str | None = None
    stopped: bool = False

    @property
    def media_id(self) -> str:
        """
        What its audio is called.
        """
        return f"step-{self.index}"


class Steps:
    """
    The steps of one interaction, by index.
    """

    def __init__(self, host: Parser) -> None:
        self._host = host
        self._blocks = Blocks(host)
        self._steps: dict[int, _Step] = {}

    @property
    def seen(self) -> bool:
        """
        Whether any step came.
        """
        return bool(self._steps)

    def start(self, index: int, said: Any, emit: Emit[ChatEvent]) -> None:
        """
        A step begins, perhaps with all that is in it.
        """
        kind = string(mapping(said).get("type"))
        if kind is None:
            raise self._host.malformed("a step without its type")
        step = self._steps[index] = _Step(index, kind)
        if kind == "function_call":
            self._call(index, said, emit)
        elif _is_tool(kind):
            step.said.update(said)
            if kind.endswith(_CALL):
                emit(ServerToolStart(kind.removesuffix(_CALL), string(said.get("id")), string(said.get("name"))))
        elif kind == "function_result":
            step.said.update(said)
        elif kind in ("thought", "model_output"):
            for content in (*sequence(said.get("summary")), *sequence(said.get("content"))):
                self._content(step, content, emit)
            if kind == "thought":
                self._signature(step, said, emit)
        elif kind not in _PLAIN:
            self._host.unknown(f"step {kind}", said, emit)

    def delta(self, index: int, said: Any, emit: Emit[ChatEvent]) -> None:
        """
        More of a step; of one that nobody began, what it is about says which kind it is.
        """
        if not isinstance(said, dict):
            raise self._host.malformed(f"a delta is {type(said).__name__}, not an object")
        kind = string(said.get("type")) or next((guess for key, guess in _GUESSES.items() if key in said), "delta")
        step = self._steps.get(index) or self._steps.setdefault(index, _Step(index, _STEP_OF.get(kind, kind)))
        step.stopped = False
        handler = _DELTAS.get(kind)
        if handler is not None:
            handler(self, step, said, emit)
        elif _is_tool(kind) or kind == "function_result":
            step.said.merge(said)
        else:
            self._host.unknown(f"delta {kind}", said, emit)

    def stop(self, index: int, emit: Emit[ChatEvent]) -> None:
        """
        A step is over; one that is not open is passed over.
        """
        step = self._steps.get(index)
        if step is not None and not step.stopped:
            step.stopped = True
            self._blocks.stop(index, emit)
            self._give(step, emit)

    def seal(self, emit: Emit[ChatEvent]) -> None:
        """
        The interaction ends: give what is held of steps nobody stopped.
        """
        self._blocks.seal(emit)
        for step in self._steps.values():
            if not step.stopped:
                step.stopped = True
                self._give(step, emit)

    def finish(self, raw: str, reason: FinishReason, emit: Emit[ChatEvent]) -> None:
        """
        Why the interaction ended.
        """
        self._blocks.finish(raw, reason, emit)

    # Starts and deltas -----------------------------------------------------------------------------------------------------------------------

    def _call(self, index: int, said: Mapping[str, Any], emit: Emit[ChatEvent]) -> None:
        name = string(said.get("name"))
        if name is None:
            raise self._host.malformed("a function_call without its name")
        call = CallBlock(self._blocks, string(said.get("id")) or "", name, said.get("arguments"))
        self._blocks.start(index, call, emit)
        self._sign_call(index, said)

    def _sign_call(self, index: int, said: Mapping[str, Any]) -> bool:
        """
        Keep the signature that came with a word of a call; False if the step is none.
        """
        call, signature = self._blocks[index], string(said.get("signature"))
        if isinstance(call, CallBlock) and signature:
            call.metadata = {"signature": signature}
        return isinstance(call, CallBlock)

    def _text(self, step: _Step, said: Mapping[str, Any], emit: Emit[ChatEvent]) -> None:
        text = self._word(said, "text")
        if step.type == "thought":
            self._blocks.thinking(step.index, text, emit)
            return
        step.told.add(text)
        self._blocks.text(step.index, text, emit)
        self._annotations(step, said, emit)

    def _summary(self, step: _Step, said: Mapping[str, Any], emit: Emit[ChatEvent]) -> None:
        content = said.get("content", said)
        for each in content if isinstance(content, list) else [content]:
            self._content(step, each, emit)

    def _content(self, step: _Step, said: Any, emit: Emit[ChatEvent]) -> None:
        """
        A piece of content, whole: the delta it amounts to.
        """
        kind = string(mapping(said).get("type")) or "text"
        handler = _DELTAS.get("text" if kind == "thought_summary" else kind)
        if handler is None or not isinstance(said, dict):
            self._host.unknown(f"content {kind}", said, emit)
        else:
            handler(self, step, said, emit)

    def _signature(self, step: _Step, said: Mapping[str, Any], emit: Emit[ChatEvent]) -> None:
        signature = string(said.get("signature"))
        if self._sign_call(step.index, said) or not signature:
            return
        if step.type == "thought":
            self._blocks.sign(step.index, signature)
        else:
            self._host.unknown(f"signature of {step.type}", said, emit)

    def _arguments(self, step: _Step, said: Mapping[str, Any], emit: Emit[ChatEvent]) -> None:
        arguments = said.get("arguments")
        text = dumps(arguments) if isinstance(arguments, dict) else self._word(said, "arguments")
        if _is_tool(step.type):
            step.said.lengthen("arguments", text)
            return
        self._blocks.arguments(step.index, text, emit)
        self._sign_call(step.index, said)

    def _annotations(self, step: _Step, said: Mapping[str, Any], emit: Emit[ChatEvent]) -> None:
        for each in map(mapping, sequence(said.get("annotations"))):
            start, end = step.told.place(each.get("start_index"), each.get("end_index"))
            url = next((url for key in ("url", "document_uri", "uri", "source") if (url := string(each.get(key)))), None)
            title = string(each.get("title")) or string(each.get("name"))
            emit(Citation(url, title, None, string(each.get("file_name")), step.index, start, end))

    def _media(self, step: _Step, said: Mapping[str, Any], emit: Emit[ChatEvent]) -> None:
        kind, mime, data, url = said.get("type"), string(said.get("mime_type")), string(said.get("data")), string(said.get("uri"))
        kind = kind if kind in ("image", "audio", "video") else media_kind(mime)
        if step.type == "thought":
            emit(MediaPartial(kind, mime, data, url))
        elif kind == "audio" and data:
            emit(MediaPartial(kind, mime, data, url, step.media_id, len(step.audio)))
            step.audio.append(self._bytes(data))
            step.mime = mime or step.mime
        elif data or url:
            emit(MediaDone(kind, mime, data, url))

    def _bytes(self, data: str) -> bytes:
        try:
            return base64.b64decode(data, validate=True)
        except binascii.Error as error:
            raise self._host.malformed("audio that is not base64") from error

    def _word(self, said: Mapping[str, Any], key: str) -> str:
        value = said.get(key)
        if value is not None and not isinstance(value, str):
            raise self._host.malformed(f"{key} is {type(value).__name__}, not a text")
        return value or ""

    # Stops -----------------------------------------------------------------------------------------------------------------------------------

    def _give(self, step: _Step, emit: Emit[ChatEvent]) -> None:
        """
        What was kept until the step was whole.
        """
        said, kind = step.said.whole, step.type
        if step.audio:
            emit(MediaDone("audio", step.mime, base64.b64encode(b"".join(step.audio)).decode(), item_id=step.media_id))
            step.audio = []
        if kind == "function_result":
            emit(ToolResult(string(said.get("call_id")) or "", said.get("result"), said.get("is_error") is True))
        elif _is_tool(kind) and kind.endswith(_CALL):
            arguments = said.get("arguments") or {
                key: value for key, value in said.items() if key not in NOT_SAID and key not in ("name", "signature")
            }
            if arguments:
                emit(
                    ServerToolArgsDelta(
                        kind.removesuffix(_CALL), arguments if isinstance(arguments, str) else dumps(arguments), string(said.get("id"))
                    )
                )
        elif _is_tool(kind):
            self._result(kind.removesuffix(_RESULT), said, emit)

    def _result(self, tool: str, said: Mapping[str, Any], emit: Emit[ChatEvent]) -> None:
        for hit in map(mapping, sequence(said.get("result"))):
            url, title = string(hit.get("url")) or string(hit.get("uri")), string(hit.get("title"))
            if url or title:
                emit(SearchResult(url, title, string(hit.get("text")) or string(hit.get("snippet"))))
        payload = {key: value for key, value in said.items() if key not in NOT_SAID}
        emit(ServerToolResult(tool, string(said.get("call_id")), payload, said.get("is_error") is True, string(said.get("name"))))


def _is_tool(kind: str) -> bool:
    return kind.endswith((_CALL, _RESULT)) and kind not in _PLAIN


# What a delta without a type is about, and the kind of step a delta belongs to that nobody began.
_GUESSES = {"text": "text", "signature": "thought_signature", "arguments": "arguments_delta", "annotations": "text_annotation_delta"}
_STEP_OF = {"text": "model_output", "text_annotation_delta": "model_output", "thought_summary": "thought", "thought_signature": "thought"}

_DELTAS: Mapping[str, Callable[[Steps, _Step, Mapping[str, Any], Emit[ChatEvent]], None]] = {
    "text": Steps._text,
    "thought_summary": Steps._summary,
    "thought_signature": Steps._signature,
    "arguments_delta": Steps._arguments,
    "text_annotation_delta": Steps._annotations,
    "text_annotation": Steps._annotations,
    **dict.fromkeys(("image", "audio", "video", "document"), Steps._media),
}
