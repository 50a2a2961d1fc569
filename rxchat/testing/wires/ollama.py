"""
Ollama's /api/chat and /api/generate: NDJSON, or the one object of an answer that is not streamed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import attrs

from rxchat.outgoing.common import drop_none
from rxchat.response import FinishReason, MediaPart, Part, TextPart, ThinkingPart, ToolCall, Usage
from rxchat.testing.answers import FakeAnswer
from rxchat.testing.asked import FakeRequest
from rxchat.testing.wires.base import Delta, Wire, cannot_say, json_bytes
from rxchat.testing.wires.saying import arguments_of, finish_word, metadata_of, refuse_counts, refuse_fields, refuse_total, runs

__all__ = ["OLLAMA", "OLLAMA_GENERATE"]

NAME = "ollama"
_TIME = "2026-01-01T00:00:00.000000Z"
# Nanoseconds; the second is what there was to load.
_DURATIONS = {"total_duration": 1_000_000, "load_duration": 100_000, "prompt_eval_duration": 300_000, "eval_duration": 600_000}
_FINISH: Mapping[FinishReason, str | None] = {
    FinishReason.STOP: "stop",
    FinishReason.TOOL_CALLS: "stop",
    FinishReason.LENGTH: "length",
    FinishReason.UNKNOWN: None,
}

Json = dict[str, Any]


def _lines(answer: FakeAnswer) -> Iterator[Json]:
    """
    The lines of /api/chat.
    """
    calls = 0
    for several in runs(answer.parts):
        if isinstance(several[0], ToolCall):
            yield _line(answer, {"content": "", "tool_calls": _calls(several, calls)})
            calls += len(several)
        else:
            yield from (_line(answer, said) for said in _said(several[0], answer))
    yield _line(answer, {"content": ""}, **_end(answer))


def _line(answer: FakeAnswer, message: Json, **end: Any) -> Json:
    said = {"model": answer.model, "created_at": _TIME, "message": {"role": "assistant", **message}}
    return said | (end or {"done": False})


def _joined(answer: FakeAnswer) -> Json:
    """
    The one object of an answer that is not streamed.
    """
    whole: Json = {"content": ""}
    for line in _lines(answer):
        for key, value in line["message"].items():
            if key != "role":
                whole[key] = whole.get(key, type(value)()) + value
    return _line(answer, whole, **_end(answer))


def _generated(line: Json) -> Json:
    """
    A line as /api/generate has it.
    """
    message = line["message"]
    for key in ("tool_calls", "images"):
        if message.get(key):
            raise cannot_say("ollama's /api/generate", key, "/api/chat has them")
    thinking = {"thinking": message["thinking"]} if message.get("thinking") else {}
    head = {"model": line["model"], "created_at": line["created_at"], "response": message["content"], **thinking}
    return head | {key: value for key, value in line.items() if key not in (*head, "message")}


def _as_chat(line: Json) -> Json:
    return line


def _wire_of(shape: Callable[[Json], Json]) -> Wire:
    """
    Ollama's wire, its lines in that shape.
    """

    def frames(answer: FakeAnswer) -> Iterator[bytes]:
        for line in _lines(answer):
            frame = json_bytes(shape(line)) + b"\n"
            yield frame if line["done"] else Delta(frame)

    return Wire(
        content_type="application/x-ndjson",
        frames=frames,
        whole=lambda answer: json_bytes(shape(_joined(answer))),
        error=lambda message: json_bytes({"error": message}) + b"\n",
        malformed=b'{"model":"fake-1","message":{"role":"assistant","content":"}\n',
        refusal=lambda status, message: ("application/json; charset=utf-8", json_bytes({"error": message})),
        heartbeat=None,
        base="",
        streams=_streams,
    )


def _said(part: Part, answer: FakeAnswer) -> Iterator[Json]:
    """
    The messages of one part.
    """
    if isinstance(part, TextPart):
        yield from ({"content": piece} for piece in answer.pieces(part.text))
    elif isinstance(part, ThinkingPart):
        if part.signature:
            raise cannot_say(NAME, "a signature of thinking")
        yield from ({"content": "", "thinking": piece} for piece in answer.pieces(part.text))
    elif isinstance(part, MediaPart):
        refuse_fields(NAME, part, "url", "transcript", "name")
        if part.kind != "image" or not part.data or part.mime:
            raise cannot_say(NAME, f"this {part.kind}", "only images as data, without a mime type")
        yield {"content": "", "images": [part.data]}
    else:
        raise cannot_say(NAME, part)


def _calls(calls: list[Part], first: int) -> list[Json]:
    return [_call(call, first + k) for k, call in enumerate(calls) if isinstance(call, ToolCall)]


def _call(call: ToolCall, index: int) -> Json:
    metadata_of(NAME, call)
    # No text of arguments is an empty object here: the wire always has one.
    return {"id": call.id, "function": {"index": index, "name": call.name, "arguments": arguments_of(NAME, call)}}


def _end(answer: FakeAnswer) -> Json:
    word = finish_word(NAME, answer.reason, _FINISH)
    return {"done": True} | ({"done_reason": word} if word else {}) | _DURATIONS | _usage(answer.usage)


def _usage(usage: Usage | None) -> Json:
    if usage is None:
        return {}
    refuse_counts(NAME, usage, "input_tokens", "output_tokens", "total_tokens")
    refuse_total(NAME, usage)
    counts = {"prompt_eval_count": usage.input_tokens, "eval_count": usage.output_tokens}
    return drop_none(**counts)


def _streams(request: FakeRequest) -> bool:
    """
    Ollama streams unless it is told not to.
    """
    return request.body[:1] != b"{" or request.json.get("stream") is not False


def _choose(request: FakeRequest) -> Wire:
    return OLLAMA_GENERATE if request.path.partition("?")[0].endswith("/api/generate") else OLLAMA


OLLAMA_GENERATE = _wire_of(_generated)
OLLAMA = attrs.evolve(_wire_of(_as_chat), choose=_choose)
