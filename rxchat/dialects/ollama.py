"""
Ollama's own API: /api/chat and /api/generate, NDJSON, or one JSON object without streaming.

    {"model", "message": {"role", "content", "thinking", "tool_calls"}, "done": false}    ...
    {..., "done": true, "done_reason", "prompt_eval_count", "eval_count"}

Choices: the end is `done: true` and nothing else (contract P9); `load` and `unload` are a stop (P2). Calls come whole, their arguments as objects; the wire's
index is missing, late or repeated, so the order of arrival counts, and a call that is repeated under a new id is a call of its own. Log probabilities and
durations are kept in `metadata`; `context` (of /api/generate) too, for the next request.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from rxchat.dialects.base import Context, Dialect, Parser, UsageFold, integer, mapping, sequence, string
from rxchat.errorbody import provider_error
from rxchat.events import ChatEvent, MediaDone, TextDelta, ThinkingDelta, ToolCallArgsDelta, ToolCallEnd, ToolCallStart
from rxchat.framing.frames import JsonRecord
from rxchat.outgoing.ollama import build
from rxchat.response import FinishReason, ToolCall
from rxchat.stage import Emit
from rxchat.strictjson import dumps

__all__ = ["OLLAMA"]

_KNOWN = frozenset({"message", "response", "thinking", "done"})
_COUNTS = ("prompt_eval_count", "eval_count")
_METADATA = ("context", "total_duration", "load_duration", "prompt_eval_duration", "eval_duration")


class OllamaParser(Parser):
    """
    Records of /api/chat and /api/generate.
    """

    finish_reasons: ClassVar[Mapping[str, FinishReason]] = {
        "stop": FinishReason.STOP,
        "length": FinishReason.LENGTH,
        "load": FinishReason.STOP,
        "unload": FinishReason.STOP,
    }

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self._usage = UsageFold(lambda raw: {"input_tokens": integer(raw.get("prompt_eval_count")), "output_tokens": integer(raw.get("eval_count"))})
        self._calls = 0

    def on_record(self, value: Any, record: JsonRecord, emit: Emit[ChatEvent]) -> None:
        self._line(value, emit)

    def on_body(self, value: Any, emit: Emit[ChatEvent]) -> None:
        self._line(value, emit)
        raise self.malformed("the body is not done")

    def _line(self, value: Any, emit: Emit[ChatEvent]) -> None:
        if not isinstance(value, dict):
            raise self.malformed(f"a line is {type(value).__name__}, not an object")
        if value.get("error"):
            raise provider_error(value)
        if _KNOWN.isdisjoint(value):
            self.unknown("line", value, emit)
            return
        self.open_step(emit, None, value.get("model"))
        message = value.get("message")
        if message is not None and not isinstance(message, dict):
            raise self.malformed(f"a message is {type(message).__name__}, not an object")
        self._said(message if message is not None else {"content": value.get("response"), "thinking": value.get("thinking")}, emit)
        for entry in sequence(value.get("logprobs")):
            self.metadata.setdefault("logprobs", []).append(entry)
        if value.get("done") is True:
            self._done(value, emit)

    def _said(self, message: Mapping[str, Any], emit: Emit[ChatEvent]) -> None:
        for key, event in (("thinking", ThinkingDelta), ("content", TextDelta)):
            text = message.get(key)
            if text is not None and not isinstance(text, str):
                raise self.malformed(f"{key} is {type(text).__name__}, not a text")
            if text:
                emit(event(text))
        for call in sequence(message.get("tool_calls")):
            self._call(call, emit)
        for image in sequence(message.get("images")):
            if string(image):
                emit(MediaDone("image", data=image))

    def _call(self, said: Any, emit: Emit[ChatEvent]) -> None:
        function = mapping(mapping(said).get("function"))
        name, index = string(function.get("name")), self._calls
        if name is None:
            raise self.malformed("a tool call without a name")
        self._calls += 1
        call_id = string(mapping(said).get("id")) or ""
        arguments = function.get("arguments")
        text = arguments if isinstance(arguments, str) else dumps(arguments) if arguments is not None else ""
        emit(ToolCallStart(call_id, name, index))
        if text:
            emit(ToolCallArgsDelta(text, call_id, index))
        emit(ToolCallEnd(ToolCall(id=call_id, name=name, index=index, complete=True)))

    def _done(self, value: Mapping[str, Any], emit: Emit[ChatEvent]) -> None:
        self.set_finish(string(value.get("done_reason")))
        for key in _METADATA:
            if value.get(key) is not None:
                self.metadata[key] = value[key]
        self._usage.update({key: value.get(key) for key in _COUNTS}, emit)
        self.end_response(emit)


OLLAMA = Dialect(
    name="ollama",
    framings={"application/x-ndjson": "ndjson", "application/json": "json"},
    parser=OllamaParser,
    doc="Ollama /api/chat and /api/generate",
    request=build,
)
