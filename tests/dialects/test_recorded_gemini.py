"""
Recorded Gemini streams, in what the general corpus test does not compare: media, signatures, the order of parts, what the provider ran itself, what was
blocked; and that a stream, the array of its events and, where it is one event, the body are one answer.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator
from itertools import groupby
from pathlib import Path
from typing import Any

import attrs
import pytest

from rxchat.events import ContentFilter, MediaDone, ServerToolResult, ServerToolStart, TextDelta, ThinkingDelta, ToolCallStart, ToolResult
from rxchat.response import ChatResponse, ProviderItemPart, ServerToolPart, ThinkingPart
from tests.dialects.reading import EVENT_STREAM, Reading, read
from tests.shared_data import has_shared, shared

FOLDERS = ("gemini", "gemini-interactions")

# What the corpus calls each part, by the event that begins it.
PARTS = {
    ThinkingDelta: "thought",
    TextDelta: "text",
    ToolCallStart: "functionCall",
    ToolResult: "functionResponse",
    ServerToolStart: "executableCode",
    ServerToolResult: "codeExecutionResult",
    MediaDone: "inlineData",
}


def cases() -> list[Any]:
    """
    The bodies of status 200; one skipped row where the data are absent.
    """
    paths = [path for folder in FOLDERS if has_shared("corpus", folder) for path in sorted(shared("corpus", folder).glob("*.json"))]
    found = [path for path in paths if json.loads(path.read_text())["http"]["status"] == 200]
    return [pytest.param(path, id=path.stem) for path in found] or [pytest.param(None, id="absent")]


def load(path: Path | None) -> tuple[str, str, dict[str, Any], bytes]:
    """
    Dialect, content type, what is expected, and the body.
    """
    path = path or shared("corpus", "gemini")
    case = json.loads(path.read_text())
    return case["dialect"], case["http"]["content_type"], case["expect"], path.with_suffix(".wire").read_bytes()


def signatures(response: ChatResponse) -> int:
    """
    How many signatures an answer keeps, wherever.
    """
    kept = sum(part.signature is not None for part in response.parts if isinstance(part, ThinkingPart))
    kept += sum(part.type == "thoughtSignature" for part in response.parts if isinstance(part, ProviderItemPart))
    kept += sum(bool(call.metadata) for call in response.tool_calls)
    return kept + sum("thoughtSignature" in (part.payload or {}) for part in response.parts if isinstance(part, ServerToolPart))


def facts(expect: dict[str, Any], reading: Reading) -> Iterator[tuple[str, Any, Any]]:
    """
    Name, found and expected of every fact the case states.
    """
    response = reading.response
    media = [{"mime": part.mime, "bytes": len(part.content), "sha256": hashlib.sha256(part.content).hexdigest()} for part in response.media]
    yield "media", media, expect.get("media") or []
    yield "signatures", signatures(response), expect.get("signatures") or 0
    yield "run by the provider", [call.name for call in response.tool_calls if call.server_executed], expect.get("server_executed") or []
    yield "blocked", response.metadata.get("blockReason"), expect.get("block_reason")
    yield "finish message", response.metadata.get("finishMessage"), expect.get("finish_message")
    if "block_reason" in expect or expect["outcome"] == "refused":
        yield "filters", any(event.blocked for event in reading.events if isinstance(event, ContentFilter)), True
    if "part_order" in expect:
        order = [PARTS[type(event)] for event in reading.events if type(event) in PARTS]
        calls_apart = [name for name, run in groupby(order) for name in ([*run] if name == "functionCall" else [name])]
        yield "parts", calls_apart, expect["part_order"]


@pytest.mark.parametrize("path", cases())
def test_facts(path: Path | None) -> None:
    """
    Everything the case states beside text, calls and usage.
    """
    dialect, content_type, expect, body = load(path)
    wrong = [(name, found, wanted) for name, found, wanted in facts(expect, read(dialect, body, content_type)) if found != wanted]
    assert [] == wrong


@pytest.mark.parametrize("path", cases())
def test_stream_is_array(path: Path | None) -> None:
    """
    The events of a stream as a JSON array, and those of an array as a stream, are the same answer.
    """
    dialect, content_type, expect, body = load(path)
    if dialect != "gemini" or expect["outcome"] in ("truncated", "error"):
        return
    values = json.loads(body) if body[:1] == b"[" else [json.loads(line[5:]) for line in re.split(rb"[\r\n]+", body) if line.startswith(b"data:")]
    stream = b"".join(b"data: " + json.dumps(value).encode() + b"\n\n" for value in values)
    answers = [
        read(dialect, body, content_type).response,
        read(dialect, stream, EVENT_STREAM).response,
        read(dialect, json.dumps(values, indent=1).encode(), "application/json").response,
    ]
    if len(values) == 1:
        answers.append(read(dialect, json.dumps(values[0]).encode(), "application/json").response)
    assert all(attrs.evolve(answers[0], response_id=None) == attrs.evolve(other, response_id=None) for other in answers)
