"""
What is measured: six streams, made here and equal on every run.

    W1  OpenAI chat         small text deltas in full chunks, with padding against length analysis
    W2  Anthropic           thinking, text and one tool call, a third each
    W3  OpenAI Responses    text deltas
    W4  OpenAI chat         8 parallel tool calls, fragments interleaved
    W5  OpenAI Responses    partial images of a megabyte each
    W6  OpenAI chat         W1 cut to a megabyte, read one byte at a time

Each says what is in it, so that a test can compare it with what the parser makes of it.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from itertools import cycle, islice
from typing import Any

import attrs

__all__ = ["FULL", "WORKLOADS", "Workload", "workload"]

# What a read of a socket brings.
READ = 1400
MEGABYTE = 1_000_000
CALLS = 8

_WORDS = (" the", " quick", " brown", " fox", " jumps", " over", " a", " lazy", " dog", ",", " naïve", " 日本", " and", ".", "\n", ' "so"')
# The finished picture, which is small so that only partial ones are large.
_PIXEL = "iVBORw0KGgo="
_PADDING = ("aB3xY9", "Kd82mQ1pLs", "z", "R4tUv7Wq", "hJ5nB0cXeF2g")


@attrs.frozen
class Workload:
    """
    One stream: its bytes, how it is read, and what is in it.

    `events` counts events of the wire, `texts` are the answer by kind ("text", "thinking", "arguments" in the order of the calls, "media").
    """

    name: str
    dialect: str
    body: bytes
    events: int
    texts: Mapping[str, str]
    read: int = READ

    @property
    def reads(self) -> list[bytes]:
        """
        The body as a transport would hand it over.
        """
        return [self.body[at : at + self.read] for at in range(0, len(self.body), self.read)]


def _dumped(value: Any) -> bytes:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()


def _unnamed(value: Any) -> bytes:
    return b"data: " + _dumped(value) + b"\n\n"


def _named(value: Mapping[str, Any]) -> bytes:
    return b"event: " + str(value["type"]).encode() + b"\ndata: " + _dumped(value) + b"\n\n"


def _words(count: int) -> list[str]:
    return list(islice(cycle(_WORDS), count))


# --- OpenAI chat ----------------------------------------------------------------------------------------------------------------------------------


def _chunk(delta: Mapping[str, Any], finish: str | None, padding: str) -> bytes:
    return _unnamed(
        {
            "id": "chatcmpl-AbCdEfGhIjKlMnOpQrStUvWxYz012",
            "object": "chat.completion.chunk",
            "created": 1700000000,
            "model": "model-2024-08-06",
            "service_tier": "default",
            "system_fingerprint": "fp_0123456789",
            "choices": [{"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish}],
            "usage": None,
            "obfuscation": padding,
        }
    )


def _chat(name: str, deltas: list[Mapping[str, Any]], finish: str, texts: Mapping[str, str]) -> Workload:
    padding = cycle(_PADDING)
    frames = [_chunk({"role": "assistant", "content": None}, None, next(padding))]
    frames += [_chunk(delta, None, next(padding)) for delta in deltas]
    frames += [_chunk({}, finish, next(padding)), b"data: [DONE]\n\n"]
    return Workload(name, "openai-chat", b"".join(frames), len(frames), texts)


def _chat_text(events: int) -> Workload:
    words = _words(events)
    return _chat("W1", [{"content": word} for word in words], "stop", {"text": "".join(words)})


def _arguments(count: int) -> list[str]:
    """
    Fragments that are one JSON object together.
    """
    return ['{"words":"', *(word.replace('"', "'").replace("\n", "/") for word in _words(max(count - 2, 0))), '"}']


def _chat_tools(events: int) -> Workload:
    fragments = _arguments(events // CALLS)
    deltas: list[Mapping[str, Any]] = [
        {"tool_calls": [{"index": k, "id": f"call_{k}", "type": "function", "function": {"name": f"tool_{k}", "arguments": ""}}]}
        for k in range(CALLS)
    ]
    deltas += [{"tool_calls": [{"index": k, "function": {"arguments": piece}}]} for piece in fragments for k in range(CALLS)]
    return _chat("W4", deltas, "tool_calls", {"arguments": "".join(fragments) * CALLS})


def _single_bytes(size: int) -> Workload:
    # As many events of middling length as fit.
    one = len(_chunk({"content": " the"}, None, "abcdefgh"))
    return attrs.evolve(_chat_text(max(size // one, 1)), name="W6", read=1)


# --- Anthropic ------------------------------------------------------------------------------------------------------------------------------------


def _anthropic_block(index: int, start: Mapping[str, Any], kind: str, key: str, pieces: list[str]) -> Iterator[Mapping[str, Any]]:
    yield {"type": "content_block_start", "index": index, "content_block": start}
    for piece in pieces:
        yield {"type": "content_block_delta", "index": index, "delta": {"type": kind, key: piece}}
    yield {"type": "content_block_stop", "index": index}


def _anthropic(events: int) -> Workload:
    words, fragments = _words(events // 3), _arguments(events // 3)
    usage = {"input_tokens": 20, "output_tokens": 1}
    message: Mapping[str, Any] = {
        "id": "msg_01",
        "type": "message",
        "role": "assistant",
        "model": "model-1",
        "content": [],
        "stop_reason": None,
        "usage": usage,
    }
    frames = [
        {"type": "message_start", "message": message},
        *_anthropic_block(0, {"type": "thinking", "thinking": "", "signature": ""}, "thinking_delta", "thinking", words),
        *_anthropic_block(1, {"type": "text", "text": ""}, "text_delta", "text", words),
        *_anthropic_block(2, {"type": "tool_use", "id": "toolu_1", "name": "tool", "input": {}}, "input_json_delta", "partial_json", fragments),
        {"type": "message_delta", "delta": {"stop_reason": "tool_use", "stop_sequence": None}, "usage": {"output_tokens": events}},
        {"type": "message_stop"},
    ]
    text = "".join(words)
    texts = {"thinking": text, "text": text, "arguments": "".join(fragments)}
    return Workload("W2", "anthropic", b"".join(map(_named, frames)), len(frames), texts)


# --- OpenAI Responses -----------------------------------------------------------------------------------------------------------------------------


def _responses(
    name: str, item: Mapping[str, Any], deltas: list[Mapping[str, Any]], done: Mapping[str, Any], texts: Mapping[str, str], read: int = READ
) -> Workload:
    envelope = {"id": "resp_01", "object": "response", "model": "model-1", "status": "in_progress", "output": []}
    ended = {**envelope, "status": "completed", "usage": {"input_tokens": 20, "output_tokens": 30, "total_tokens": 50}}
    values: list[Mapping[str, Any]] = [
        {"type": "response.created", "response": envelope},
        {"type": "response.output_item.added", "output_index": 0, "item": item},
        *deltas,
        {"type": "response.output_item.done", "output_index": 0, "item": {**item, "status": "completed", **done}},
        {"type": "response.completed", "response": ended},
    ]
    frames = [_named({**value, "sequence_number": number}) for number, value in enumerate(values)]
    return Workload(name, "openai-responses", b"".join(frames), len(frames), texts, read)


def _responses_text(events: int) -> Workload:
    words, padding = _words(events), cycle(_PADDING)
    item_id = "msg_0123456789abcdef0123456789abcdef"
    item = {"id": item_id, "type": "message", "status": "in_progress", "role": "assistant", "content": []}
    place = {"item_id": item_id, "output_index": 0, "content_index": 0}
    text = "".join(words)
    empty, full = ({"type": "output_text", "annotations": [], "logprobs": [], "text": shown} for shown in ("", text))
    deltas: list[Mapping[str, Any]] = [
        {"type": "response.content_part.added", **place, "part": empty},
        *({"type": "response.output_text.delta", **place, "delta": word, "logprobs": [], "obfuscation": next(padding)} for word in words),
        {"type": "response.output_text.done", **place, "text": text, "logprobs": []},
        {"type": "response.content_part.done", **place, "part": full},
    ]
    return _responses("W3", item, deltas, {"content": [full]}, {"text": text})


def _responses_images(images: int) -> Workload:
    item = {"id": "ig_01", "type": "image_generation_call", "status": "in_progress"}
    data = [(chr(ord("A") + k % 26) * 4 + "iVBORw0KGgo+/abcdefgh0") * (MEGABYTE // 26) for k in range(images)]
    kind = "response.image_generation_call.partial_image"
    deltas: list[Mapping[str, Any]] = [
        {"type": kind, "item_id": "ig_01", "output_index": 0, "partial_image_index": k, "partial_image_b64": picture}
        for k, picture in enumerate(data)
    ]
    return _responses("W5", item, deltas, {"result": _PIXEL}, {"media": "".join(data)}, read=64 * 1024)


# --- the table ------------------------------------------------------------------------------------------------------------------------------------

WORKLOADS: Mapping[str, Callable[[int], Workload]] = {
    "W1": _chat_text,
    "W2": _anthropic,
    "W3": _responses_text,
    "W4": _chat_tools,
    "W5": _responses_images,
    "W6": _single_bytes,
}

# What a scale of 1 means: deltas, images (W5), bytes (W6).
FULL: Mapping[str, int] = {"W1": 20_000, "W2": 20_000, "W3": 20_000, "W4": 20_000, "W5": 50, "W6": MEGABYTE}


def workload(name: str, scale: float = 1.0) -> Workload:
    """
    The workload of that name at a part of its full size.
    """
    return WORKLOADS[name](max(int(FULL[name] * scale), 1))
