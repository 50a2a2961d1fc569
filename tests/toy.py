"""
A dialect in one file, as somebody else would write it: what tests register, and what they plant faults in.

    data: {"say": "Hi"}        data: {"call": {"id": "c", "name": "f", "args": "{}"}}        data: {"end": "stop"}
"""

from __future__ import annotations

from typing import Any, ClassVar

from rxchat.dialects.base import Dialect, Option, Parser, string
from rxchat.errors import ProviderError
from rxchat.events import ChatEvent, TextDelta, ToolCallArgsDelta, ToolCallEnd, ToolCallStart
from rxchat.framing.frames import JsonRecord, SseEvent
from rxchat.outgoing.common import ModelCall, WireRequest
from rxchat.response import FinishReason, ToolCall
from rxchat.stage import Emit


class ToyParser(Parser):
    """
    Texts, calls, an end; an error is the provider's.
    """

    finish_reasons: ClassVar = {"stop": FinishReason.STOP, "length": FinishReason.LENGTH}

    def on_event(self, value: Any, event: SseEvent, emit: Emit[ChatEvent]) -> None:
        self.say(value, emit)

    def on_record(self, value: Any, record: JsonRecord, emit: Emit[ChatEvent]) -> None:
        self.say(value, emit)

    def on_body(self, value: Any, emit: Emit[ChatEvent]) -> None:
        self.say(value, emit)
        raise self.malformed("a body without its end")

    def say(self, value: Any, emit: Emit[ChatEvent]) -> None:
        if not isinstance(value, dict):
            raise self.malformed("no object")
        if "error" in value:
            raise ProviderError(str(value["error"]))
        if not {"say", "call", "end"} & value.keys():
            self.unknown("frame", value, emit)
            return
        self.open_step(emit)
        self.text(value.get("say"), emit)
        if "call" in value:
            self.call(value["call"], emit)
        if "end" in value:
            self.set_finish(string(value["end"]))
            self.end_response(emit)

    def text(self, text: Any, emit: Emit[ChatEvent]) -> None:
        if text is not None and not isinstance(text, str):
            raise self.malformed("say is no text")
        if text:
            emit(TextDelta(text))

    def call(self, call: Any, emit: Emit[ChatEvent]) -> None:
        if not isinstance(call, dict) or not all(string(call.get(key)) for key in ("id", "name", "args")):
            raise self.malformed("a call without id, name or args")
        emit(ToolCallStart(call["id"], call["name"]))
        emit(ToolCallArgsDelta(call["args"], call["id"]))
        emit(ToolCallEnd(ToolCall(id=call["id"], name=call["name"], complete=True)))


def build(call: ModelCall) -> WireRequest:
    """
    What is asked.
    """
    return WireRequest(f"{call.base_url}/toy", {"ask": [message.text for message in call.messages]}, {"key": call.api_key or ""})


TOY = Dialect(
    name="toy",
    framings={"text/event-stream": "sse", "application/x-ndjson": "ndjson", "application/json": "json"},
    parser=ToyParser,
    options={"loud": Option(False, "Nothing; a toy has an option too.")},
    doc="A toy",
    request=build,
)

STREAM = (
    b'data: {"say": "Gr\xc3\xbc\xc3\x9fe "}\n\n'
    b'data: {"say": "\xf0\x9f\x8c\x8a"}\n\n'
    b'data: {"call": {"id": "c1", "name": "f", "args": "{\\"a\\": 1}"}}\n\n'
    b'data: {"end": "stop"}\n\n'
)
BODY = b'{"say": "Gr\xc3\xbc\xc3\x9fe \xf0\x9f\x8c\x8a", "call": {"id": "c1", "name": "f", "args": "{\\"a\\": 1}"}, "end": "stop"}'
FAILING = b'data: {"say": "Half an "}\n\ndata: {"error": "boom"}\n\n'
