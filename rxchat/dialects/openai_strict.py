"""
The profile strict_text of the OpenAI chat dialect: one choice of plain text, finish reason stop, `[DONE]` required (contract V8).

Whatever else a frame says is PROTOCOL, whatever is missing at the end INCOMPLETE_STREAM; a finish reason other than stop ends the response at once, with
INCOMPLETE_FINISH. Errors go before everything else, also an error that is null. Event names mean nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from rxchat.dialects.base import Parser
from rxchat.errorbody import provider_error
from rxchat.errors import InvalidJSONError
from rxchat.events import ChatEvent, TextDelta
from rxchat.framing.frames import SseEvent, StrayText
from rxchat.response import FinishReason
from rxchat.stage import Emit

__all__ = ["StrictTextParser"]

_DELTA_KEYS = frozenset({"role", "content"})


class StrictTextParser(Parser):
    """
    Text, stop, `[DONE]`; nothing else.
    """

    finish_reasons: ClassVar[Mapping[str, FinishReason]] = {
        "stop": FinishReason.STOP,
        "length": FinishReason.LENGTH,
        "content_filter": FinishReason.CONTENT_FILTER,
    }

    _said = False

    def on_sentinel(self, event: SseEvent, emit: Emit[ChatEvent]) -> bool:
        if event.raw != b"[DONE]":
            return False
        if self.finish is None:
            raise self.malformed("[DONE] without a finish_reason")
        if not self._said:
            raise self.malformed("[DONE] behind an empty answer")
        self.end_response(emit)

    def on_event(self, value: Any, event: SseEvent, emit: Emit[ChatEvent]) -> None:
        if not isinstance(value, dict):
            raise InvalidJSONError("the JSON is no object", event.data_start, "syntax")
        if "error" in value:
            raise provider_error(value)
        choices = value.get("choices")
        if choices == [] and isinstance(value.get("usage"), dict):
            return
        choice = self._only(choices)
        text = self._text(choice.get("delta"))
        raw = choice.get("finish_reason")
        if self.finish is not None and (text or raw is not None):
            raise self.malformed("the answer goes on behind its finish_reason")
        self.open_step(emit, value.get("id"), value.get("model"))
        if text:
            emit(TextDelta(text))
            self._said = True
        if raw is not None:
            self.set_finish(str(raw))
            if self.finish is not FinishReason.STOP:
                self.end_response(emit)

    def on_stray(self, stray: StrayText, emit: Emit[ChatEvent]) -> None:
        """
        No field this profile reads; an error in it is told all the same (contract P8).
        """
        self.refuse_stray(stray)

    def _only(self, choices: Any) -> dict[str, Any]:
        if not isinstance(choices, list) or len(choices) != 1 or not isinstance(choices[0], dict):
            raise self.malformed("not exactly one choice")
        choice: dict[str, Any] = choices[0]
        index = choice.get("index")
        if isinstance(index, bool) or not isinstance(index, int | float) or index != 0:
            raise self.malformed("the choice is not number 0")
        return choice

    def _text(self, delta: Any) -> str:
        if not isinstance(delta, dict) or not _DELTA_KEYS.issuperset(delta):
            raise self.malformed("a delta with more than role and content")
        if "role" in delta and delta["role"] != "assistant":
            raise self.malformed("the role is not assistant")
        text = delta.get("content")
        if text is not None and not isinstance(text, str):
            raise self.malformed("the content is no text")
        return text or ""
