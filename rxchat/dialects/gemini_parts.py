"""
The parts of a Gemini candidate, one by one, as events.

    text, thought text                       TextDelta, ThinkingDelta
    functionCall, functionResponse           a call (gemini_calls)
    executableCode, codeExecutionResult      the provider's tool "codeExecution"; toolCall, toolResponse: the one of their toolType
    inlineData, fileData                     MediaDone; MediaPartial where it is a thought

Signatures go back to the provider with the part they came with. On a thought: the signature of its block. On a call: its metadata {"thoughtSignature"}.
On a part of the provider's tools: in its payload. On text (also an empty one) or media: a provider item right behind that part, whose `raw` is an empty text
part with the signature, as the provider itself sends them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from rxchat.dialects.base import Parser, mapping, string
from rxchat.dialects.gemini_calls import Calls
from rxchat.dialects.gemini_sources import Sources
from rxchat.events import (
    PROVIDER_ITEM,
    ChatEvent,
    Custom,
    MediaDone,
    MediaPartial,
    ServerToolResult,
    ServerToolStart,
    TextDelta,
    ThinkingDelta,
    ThinkingSignature,
)
from rxchat.response import FinishReason
from rxchat.stage import Emit

__all__ = ["Candidate", "media_kind"]

CODE_EXECUTION = "codeExecution"

# Both ways of writing enums.
_FAILED = ("OUTCOME_FAILED", "OUTCOME_DEADLINE_EXCEEDED", 2, 3)


class Candidate:
    """
    One candidate of the answer: its calls, its sources, its finish. `finish_raw` is the word of the last one.
    """

    def __init__(self, host: Parser, index: int) -> None:
        self.host = host
        self.index = index
        self.calls = Calls(host, index)
        self.sources = Sources(index)
        self.finish_raw: str | None = None
        self.reason = FinishReason.UNKNOWN
        self.blocks: set[tuple[str, bool]] = set()  # what was said to be blocked, and whether that decided

    @property
    def finished(self) -> bool:
        """
        Whether a finishReason came.
        """
        return self.finish_raw is not None

    def part(self, part: Any, emit: Emit[ChatEvent]) -> None:
        """
        One part of the content.
        """
        if not isinstance(part, dict):
            raise self.host.malformed(f"a part is {type(part).__name__}, not an object")
        signature = string(part.get("thoughtSignature"))
        key = next((key for key in _PARTS if part.get(key) is not None), None)
        if key is not None:
            _PARTS[key](self, part, signature, emit)
        elif signature:
            self._sign(signature, part, emit)
        elif set(part) - _SILENT:
            self.host.unknown("part", part, emit)

    def _text(self, part: Mapping[str, Any], signature: str | None, emit: Emit[ChatEvent]) -> None:
        text = part["text"]
        if not isinstance(text, str):
            raise self.host.malformed(f"a text is {type(text).__name__}")
        if text and part.get("thought") is True:
            emit(ThinkingDelta(text, choice=self.index))
        elif text:
            self.sources.said.add(text)
            if self.finished and self.index == 0:
                self.host.after_finish += 1
            emit(TextDelta(text, choice=self.index))
        self._sign(signature, part, emit)

    def _call(self, part: Mapping[str, Any], signature: str | None, emit: Emit[ChatEvent]) -> None:
        if not self.calls.part(part["functionCall"], signature, emit):
            self.host.unknown("functionCall", part, emit)

    def _response(self, part: Mapping[str, Any], signature: str | None, emit: Emit[ChatEvent]) -> None:
        self.calls.answered(part["functionResponse"], emit)

    def _code(self, part: Mapping[str, Any], signature: str | None, emit: Emit[ChatEvent]) -> None:
        said = _signed(part["executableCode"], signature)
        emit(ServerToolStart(CODE_EXECUTION, string(said.get("id")), None, said))

    def _code_result(self, part: Mapping[str, Any], signature: str | None, emit: Emit[ChatEvent]) -> None:
        said = _signed(part["codeExecutionResult"], signature)
        emit(ServerToolResult(CODE_EXECUTION, string(said.get("id")), said, said.get("outcome") in _FAILED))

    def _tool(self, part: Mapping[str, Any], signature: str | None, emit: Emit[ChatEvent]) -> None:
        said = _signed(part["toolCall"], signature)
        emit(ServerToolStart(_tool_type(said), string(said.get("id")), string(said.get("name")), said))

    def _tool_result(self, part: Mapping[str, Any], signature: str | None, emit: Emit[ChatEvent]) -> None:
        said = _signed(part["toolResponse"], signature)
        failed = bool(mapping(said.get("response")).get("error"))
        emit(ServerToolResult(_tool_type(said), string(said.get("id")), said, failed, string(said.get("name"))))

    def _inline(self, part: Mapping[str, Any], signature: str | None, emit: Emit[ChatEvent]) -> None:
        said = mapping(part["inlineData"])
        data, mime = said.get("data"), string(said.get("mimeType"))
        if not isinstance(data, str):
            raise self.host.malformed("inlineData without data")
        event = MediaPartial if part.get("thought") is True else MediaDone
        emit(event(media_kind(mime), mime, data, choice=self.index))
        self._sign(signature, part, emit)

    def _file(self, part: Mapping[str, Any], signature: str | None, emit: Emit[ChatEvent]) -> None:
        said = mapping(part["fileData"])
        mime = string(said.get("mimeType"))
        emit(MediaDone(media_kind(mime), mime, url=string(said.get("fileUri")), choice=self.index))
        self._sign(signature, part, emit)

    def _sign(self, signature: str | None, part: Mapping[str, Any], emit: Emit[ChatEvent]) -> None:
        if signature and part.get("thought") is True:
            emit(ThinkingSignature(signature, choice=self.index))
        elif signature and self.index == 0:
            # Only choice 0 goes on in the next request.
            emit(Custom(PROVIDER_ITEM, {"type": "thoughtSignature", "raw": {"text": "", "thoughtSignature": signature}}))


def media_kind(mime: str | None) -> str:
    """
    image, audio, video or file.
    """
    kind = (mime or "").partition("/")[0]
    return kind if kind in ("image", "audio", "video") else "file"


def _signed(said: Any, signature: str | None) -> Mapping[str, Any]:
    return {**mapping(said), "thoughtSignature": signature} if signature else mapping(said)


def _tool_type(said: Mapping[str, Any]) -> str:
    kind = said.get("toolType")
    return str(kind) if kind else "toolCall"


# What stands beside a part and is none.
_SILENT = frozenset({"thought", "text", "thoughtSignature", "partMetadata", "videoMetadata", "mediaResolution"})

_PARTS: Mapping[str, Callable[[Candidate, Mapping[str, Any], str | None, Emit[ChatEvent]], None]] = {
    "text": Candidate._text,
    "functionCall": Candidate._call,
    "functionResponse": Candidate._response,
    "executableCode": Candidate._code,
    "codeExecutionResult": Candidate._code_result,
    "toolCall": Candidate._tool,
    "toolResponse": Candidate._tool_result,
    "inlineData": Candidate._inline,
    "fileData": Candidate._file,
}
