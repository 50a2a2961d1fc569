"""
Where the protocols end (contract V5, P9), found by readers of their own that know nothing of the framers and parsers.
"""

from __future__ import annotations

import base64
import json
import struct
from collections.abc import Callable, Iterator, Mapping
from typing import Any

__all__ = ["ENDS", "events_of"]


def events_of(body: bytes) -> tuple[list[bytes], bytes]:
    """
    The data of the dispatched events of an event stream, and what is held of an unfinished one (comments and fields without data aside).
    """
    text = body.removeprefix(b"\xef\xbb\xbf").replace(b"\r\n", b"\n").replace(b"\r", b"\n")
    *blocks, rest = text.split(b"\n\n")
    data = [found for block in blocks if (found := _data(block)) is not None]
    *whole, unfinished = rest.lstrip(b"\n").split(b"\n")
    kept = [line for line in whole if line.startswith((b"data", b"event"))]
    return data, b"\n".join(kept + ([unfinished] if unfinished and not unfinished.startswith(b":") else []))


def _data(block: bytes) -> bytes | None:
    lines = [line.partition(b":")[2].removeprefix(b" ") for line in block.split(b"\n") if line.startswith(b"data:")]
    return b"\n".join(lines) if lines else None


def openai_chat(body: bytes) -> bool:
    """
    A finish_reason for every choice seen, then `[DONE]` or nothing held; or one whole JSON body.
    """
    if body.lstrip()[:1] == b"{":
        return _is_json(body)
    data, held = events_of(body)
    if b"[DONE]" in data:
        data = data[: data.index(b"[DONE]")]
        held = b""
    finished: dict[int, bool] = {}
    for choice in _choices(data):
        index = choice.get("index") or 0
        finished[index] = finished.get(index, False) or bool(choice.get("finish_reason"))
    return bool(finished) and all(finished.values()) and held in (b"", b"data: [DONE]", b"data:[DONE]")


def _choices(data: list[bytes]) -> Iterator[Mapping[str, Any]]:
    for item in data:
        value = json.loads(item)
        yield from (choice for choice in value.get("choices") or () if choice) if isinstance(value, dict) else ()


def _is_json(body: bytes) -> bool:
    try:
        json.loads(body)
    except ValueError:
        return False
    return True


def openai_responses(body: bytes) -> bool:
    """
    A terminal response, dispatched.
    """
    ends = ("response.completed", "response.incomplete", "response.failed")
    return any(json.loads(item)["type"] in ends for item in events_of(body)[0] if item.startswith(b"{"))


def anthropic(body: bytes) -> bool:
    """
    The event message_stop, dispatched.
    """
    return any(json.loads(item)["type"] == "message_stop" for item in events_of(body)[0] if item.startswith(b"{"))


def bedrock_converse(body: bytes) -> bool:
    """
    The event messageStop, then metadata or nothing held; in the order a stream happens to have.
    """
    names, held = _aws_events(body)
    stopped = any(name == "messageStop" for name, _ in names)
    return stopped and (not held or any(name == "metadata" for name, _ in names))


def bedrock_invoke(body: bytes) -> bool:
    """
    A chunk with the family's own end, and nothing held.
    """
    chunks, held = _aws_events(body)
    return not held and any(_ends_family(json.loads(base64.b64decode(json.loads(payload)["bytes"]))) for _, payload in chunks)


def _ends_family(chunk: Mapping[str, Any]) -> bool:
    said = {key: value for key, value in chunk.items() if value}
    return chunk.get("type") == "message_stop" or bool({"messageStop", "completionReason", "stop_reason", "is_finished"} & said.keys())


def _aws_events(body: bytes) -> tuple[list[tuple[str, bytes]], bool]:
    """
    Event types and payloads of the whole messages of an AWS event stream, and whether anything of another one is left.
    """
    found = []
    while len(body) >= 16 and len(body) >= (size := struct.unpack(">I", body[:4])[0]):
        head = body[12 : 12 + struct.unpack(">I", body[4:8])[0]]
        name = head.partition(b":event-type\x07")[2]
        found.append((name[2 : 2 + int.from_bytes(name[:2])].decode(), body[12 + len(head) : size - 4]))
        body = body[size:]
    return found, bool(body)


def ollama(body: bytes) -> bool:
    """
    A whole line that is done.
    """
    return any(value.get("done") is True for value in _json_lines(body))


def cohere(body: bytes) -> bool:
    """
    The event message-end, dispatched.
    """
    return any(json.loads(item)["type"] == "message-end" for item in events_of(body)[0] if item.startswith(b"{"))


def cohere_v1(body: bytes) -> bool:
    """
    A whole line that is finished.
    """
    return any(value.get("is_finished") is True for value in _json_lines(body))


def dashscope(body: bytes) -> bool:
    """
    A finish_reason that is a word, and nothing held but one whole event.
    """
    data, held = events_of(body)
    rest = _data(held)
    if held and (rest is None or not _is_json(rest)):
        return False
    outputs = [json.loads(item).get("output") or {} for item in [*data, *([rest] if rest else [])]]
    said = [choice.get("finish_reason") for output in outputs for choice in (output.get("choices") or [output])]
    return any(word not in (None, "", "null") for word in said)


def _json_lines(body: bytes) -> list[Mapping[str, Any]]:
    return [json.loads(line) for line in body.split(b"\n") if _is_json(line)]


def gemini(body: bytes) -> bool:
    """
    A finishReason of every candidate seen or a blockReason, then nothing held but one whole event; in an array its bracket.
    """
    if body.lstrip()[:1] in (b"[", b"{"):
        return _is_json(body) and _gemini_ends(json.loads(body) if body.lstrip()[:1] == b"[" else [json.loads(body)])
    data, held = events_of(body)
    last = held.removeprefix(b"data:").strip()
    if last and not _is_json(last):
        return False
    return _gemini_ends([json.loads(item) for item in (*data, *([last] if last else ()))])


def _gemini_ends(events: list[Any]) -> bool:
    candidates = [candidate for event in events for candidate in event.get("candidates") or ()]
    seen = {candidate.get("index") or 0 for candidate in candidates}
    finished = {candidate.get("index") or 0 for candidate in candidates if candidate.get("finishReason")}
    blocked = any((event.get("promptFeedback") or {}).get("blockReason") for event in events)
    return blocked or (bool(seen) and seen == finished)


def gemini_interactions(body: bytes) -> bool:
    """
    The event interaction.completed, dispatched.
    """
    return any(json.loads(item).get("event_type") == "interaction.completed" for item in events_of(body)[0] if item.startswith(b"{"))


# One line a dialect whose recorded bodies are cut.
ENDS: Mapping[str, Callable[[bytes], bool]] = {
    "anthropic": anthropic,
    "bedrock-converse": bedrock_converse,
    "bedrock-invoke": bedrock_invoke,
    "cohere": cohere,
    "cohere-v1": cohere_v1,
    "dashscope": dashscope,
    "mistral": openai_chat,
    "ollama": ollama,
    "gemini": gemini,
    "gemini-interactions": gemini_interactions,
    "openai-chat": openai_chat,
    "openai-responses": openai_responses,
}
