"""
Mistral's chat completions as its provider sends them: OpenAI's chunks, thinking as parts of the content, calls whole and beside the finish reason.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, TypeAlias

from rxchat.outgoing.common import drop_none
from rxchat.response import FinishReason, Part, TextPart, ThinkingPart, ToolCall, Usage
from rxchat.testing.answers import FakeAnswer
from rxchat.testing.wires.base import Delta, Wire, cannot_say, json_bytes, sse
from rxchat.testing.wires.openai_chat import chunk, counts
from rxchat.testing.wires.saying import finish_word, refuse_counts

__all__ = ["MISTRAL"]

Json: TypeAlias = dict[str, Any]

NAME = "mistral"
_FINISH: Mapping[FinishReason, str | None] = {
    FinishReason.STOP: "stop",
    FinishReason.LENGTH: "length",
    FinishReason.TOOL_CALLS: "tool_calls",
    FinishReason.ERROR: "error",
    FinishReason.OTHER: "other",
}


def _frames(answer: FakeAnswer) -> Iterator[bytes]:
    yield chunk(answer, {"role": "assistant", "content": ""})
    for part in answer.parts:
        if not isinstance(part, ToolCall):
            yield from (Delta(chunk(answer, {"content": content})) for content in _contents(part, answer))
    calls = _calls(answer)
    last = {"content": ""} | ({"tool_calls": calls} if calls else {})
    yield chunk(answer, last, beside=_usage(answer.usage), finish_reason=finish_word(NAME, answer.reason, _FINISH))
    yield sse("[DONE]")


def _contents(part: Part, answer: FakeAnswer) -> Iterator[str | list[Json]]:
    """
    A part as the `content` of deltas.
    """
    if isinstance(part, TextPart):
        yield from answer.pieces(part.text)
    elif isinstance(part, ThinkingPart):
        yield from ([_thought(piece)] for piece in answer.pieces(part.text))
        if part.signature:
            yield [_thought("") | {"signature": part.signature}]
    else:
        raise cannot_say(NAME, part)


def _thought(text: str) -> Json:
    return {"type": "thinking", "thinking": [{"type": "text", "text": text}] if text else []}


def _calls(answer: FakeAnswer) -> list[Json]:
    """
    The calls, which come after all content, whole.
    """
    calls = [part for part in answer.parts if isinstance(part, ToolCall)]
    if any(call.kind != "function" or call.server_executed for call in calls):
        raise cannot_say(NAME, "a call that is no function of the client's")
    return [{"id": call.id, "index": index, "function": {"name": call.name, "arguments": call.arguments_text}} for index, call in enumerate(calls)]


def _usage(usage: Usage | None) -> Json:
    if usage is None:
        return {}
    refuse_counts(NAME, usage, "input_tokens", "output_tokens", "cache_read_tokens", "total_tokens")
    return {"usage": counts(usage)}


def _whole(answer: FakeAnswer) -> bytes:
    message: Json = {"role": "assistant", "content": _content(answer)} | ({"tool_calls": calls} if (calls := _calls(answer)) else {})
    choice = {"index": 0, "message": message, "finish_reason": finish_word(NAME, answer.reason, _FINISH)}
    head = {"id": answer.id, "object": "chat.completion", "created": 1, "model": answer.model}
    return json_bytes(head | {"choices": [choice]} | _usage(answer.usage))


def _content(answer: FakeAnswer) -> str | list[Json]:
    parts = [part for part in answer.parts if not isinstance(part, ToolCall)]
    if all(isinstance(part, TextPart) for part in parts):
        return "".join(part.text for part in parts if isinstance(part, TextPart))
    return [_whole_part(part) for part in parts]


def _whole_part(part: Part) -> Json:
    if isinstance(part, TextPart):
        return {"type": "text", "text": part.text}
    if isinstance(part, ThinkingPart):
        return _thought(part.text) | drop_none(signature=part.signature)
    raise cannot_say(NAME, part)


def _error(message: str) -> Json:
    return {"object": "error", "message": message, "type": "internal_server_error", "param": None, "code": "3000"}


MISTRAL = Wire(
    content_type="text/event-stream; charset=utf-8",
    frames=_frames,
    whole=_whole,
    error=lambda message: sse(_error(message)),
    malformed=b'data: {"id":"fake-answer-1","object":"chat.completion.chunk","choices":[{"index":0,"delta":{"content":"}\n\n',
    refusal=lambda status, message: ("application/json", json_bytes({"detail": message} if status in (401, 403) else _error(message))),
    heartbeat=b": keep-alive\n\n",
    base="/v1",
)
