"""
Recorded Anthropic and Bedrock streams, in what the general corpus test does not compare: server tools, signatures, redacted bytes, counts of the cache,
error codes; and that a stream and the message it amounts to are one answer.
"""

from __future__ import annotations

import base64
import json
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import attrs
import pytest

from rxchat.errors import Verdict
from rxchat.response import ChatResponse, RedactedThinkingPart, ServerToolPart, TextPart, ThinkingPart, ToolCall
from tests.dialects.reading import Reading, read
from tests.grammar import violations
from tests.shared_data import EXHAUSTIVE, has_shared, shared

FOLDERS = ("anthropic", "bedrock-converse", "bedrock-invoke")
CUTS = 200 if EXHAUSTIVE else 8


def cases(*folders: str) -> list[Any]:
    """
    The streams of status 200 in these folders; one skipped row where the data are absent.
    """
    paths = [path for folder in folders if has_shared("corpus", folder) for path in sorted(shared("corpus", folder).glob("*.json"))]
    found = [path for path in paths if json.loads(path.read_text())["http"]["status"] == 200]
    return [pytest.param(path, id=path.stem) for path in found] or [pytest.param(None, id="absent")]


def load(path: Path | None) -> tuple[str, str, dict[str, Any], bytes]:
    """
    Dialect, content type, what is expected, and the body.
    """
    path = path or shared("corpus", "anthropic")
    case = json.loads(path.read_text())
    return case.get("dialect") or path.parent.name, case["http"]["content_type"], case["expect"], path.with_suffix(".wire").read_bytes()


def facts(expect: dict[str, Any], reading: Reading) -> Iterator[tuple[str, Any, Any]]:
    """
    Name, found and expected of every fact the case states.
    """
    response = reading.response
    tools = {part.id: part for part in response.parts if isinstance(part, ServerToolPart)}
    for tool in expect.get("server_tools") or []:
        part = tools[tool["id"]]
        yield "server tool", (part.kind, part.name), (tool["type"], tool["name"])
        yield "its arguments", json.loads(part.arguments_text or "{}"), json.loads(tool.get("arguments") or "{}")
    for result in expect.get("server_results") or []:
        answered = tools[result["tool_use_id"]].result
        yield "server result", answered["type"], result["type"]
        yield "its length", len(answered["content"]) if "n" in result else None, result.get("n")
    yield from _thinking(expect, response)
    usage = response.usage
    for name, count in (expect.get("usage") or {}).items():
        yield name, usage and usage.wire.get(name), count
    for name in ("stop_details", "stop_sequence"):
        if expect.get(name):
            yield name, response.metadata.get(name), expect[name]
    for name in ("code", "type", "message") if response.verdict is Verdict.PROVIDER_ERROR else ():
        if (expect.get("error") or {}).get(name):
            yield name, getattr(reading.error, name), expect["error"][name]


def _thinking(expect: dict[str, Any], response: ChatResponse) -> Iterator[tuple[str, Any, Any]]:
    sealed = [part for part in response.parts if isinstance(part, ThinkingPart)]
    redacted = [part.data for part in response.parts if isinstance(part, RedactedThinkingPart)]
    if "thinking_parts" in expect:
        wanted = expect["thinking_parts"]
        yield "thinking", [(p.text, len(p.signature or "")) for p in sealed], [_sealed(p) for p in wanted if p["kind"] == "thinking"]
        yield "redacted", [len(data) for data in redacted], [p["data_len"] for p in wanted if p["kind"] == "redacted"]
    if "signatures" in expect:
        yield "signatures", sum(part.signature is not None for part in sealed), expect["signatures"]
    if "redacted_bytes" in expect:
        yield "redacted bytes", [len(base64.b64decode(data)) for data in redacted], expect["redacted_bytes"]
    if "text_parts" in expect:
        yield "texts", [part.text for part in response.parts if isinstance(part, TextPart)], [text for text in expect["text_parts"] if text]


def _sealed(part: dict[str, Any]) -> tuple[str, int]:
    return part["text"], part.get("signature_len", 0)


@pytest.mark.parametrize("path", cases(*FOLDERS))
def test_the_facts_of_a_recording(path: Path | None) -> None:
    """
    Every fact the case states is found; nothing was dropped, and only a derived case has anything unknown.
    """
    dialect, content_type, expect, body = load(path)
    reading = read(dialect, body, content_type)
    wrong = [(name, found, wanted) for name, found, wanted in facts(expect, reading) if found != wanted]
    assert wrong == []
    assert (reading.response.dropped, reading.response.after_finish, violations(reading.events)) == (0, 0, [])
    assert not reading.response.unknown or "unknown" in path.stem  # type: ignore[union-attr]


@pytest.mark.parametrize("path", cases(*FOLDERS))
def test_a_recording_cut_anywhere(path: Path | None) -> None:
    """
    Seeded cuts: no other verdict than the whole one's before its end, always balanced, the text a prefix.
    """
    dialect, content_type, _, body = load(path)
    whole = read(dialect, body, content_type)
    rest = random.Random(len(body))
    for k in sorted(rest.sample(range(len(body)), min(CUTS, len(body)))):
        reading = read(dialect, body[:k], content_type)
        assert violations(reading.events) == []
        assert reading.verdict in ("INCOMPLETE_STREAM", "INVALID_UTF8", whole.verdict)
        # In Invoke the end is inside base64.
        assert reading.verdict != "COMPLETE" or b"message_stop" in body[:k] or b"messageStop" in body[:k] or dialect == "bedrock-invoke"
        assert whole.response.text.startswith(reading.response.text)


# --- the message a stream amounts to ----------------------------------------------------------------------------------------------------------------


def assembled(body: bytes) -> dict[str, Any]:
    """
    The message that a whole recorded stream amounts to, put together by hand.
    """
    message: dict[str, Any] = {}
    blocks: dict[int, dict[str, Any]] = {}
    inputs: dict[int, str] = {}
    for line in body.decode().split("\n"):
        frame: dict[str, Any] = json.loads(line[5:]) if line.startswith("data:") else {"type": None}
        match frame["type"]:
            case "message_start":
                message = frame["message"]
            case "content_block_start":
                blocks[frame["index"]] = frame["content_block"]
            case "content_block_delta":
                _grow(blocks[frame["index"]], frame["delta"], inputs, frame["index"])
            case "message_delta":
                message |= frame["delta"] | {key: value for key, value in frame.items() if key == "context_management"}
                message["usage"] |= {key: value for key, value in (frame.get("usage") or {}).items() if value is not None}
    for index, text in inputs.items():
        blocks[index]["input"] = json.loads(text or "{}")
    message["content"] += [blocks[index] for index in sorted(blocks)]
    return message


def _grow(block: dict[str, Any], delta: dict[str, Any], inputs: dict[int, str], index: int) -> None:
    match delta:
        case {"type": "citations_delta", "citation": citation}:
            block["citations"] = [*(block.get("citations") or []), citation]
        case {"type": "input_json_delta", "partial_json": piece}:
            inputs[index] = inputs.get(index, "") + piece
        case {"type": "compaction_delta"}:
            block |= {key: value for key, value in delta.items() if key != "type"}
        case _:
            (name,) = delta.keys() - {"type"}
            block[name] = block.get(name, "") + delta[name]


def comparable(part: Any) -> Any:
    """
    A part without the spelling of its arguments: a body has an object where the stream has its text.
    """
    if isinstance(part, ToolCall):
        return attrs.evolve(part, arguments_text="")
    if isinstance(part, ServerToolPart):
        return attrs.evolve(part, arguments_text=json.dumps(json.loads(part.arguments_text or "{}")))
    return part


@pytest.mark.parametrize("path", cases("anthropic"))
def test_a_recorded_stream_and_its_message(path: Path | None) -> None:
    """
    Stream and body: equal parts, finish, facts and counts.
    """
    dialect, content_type, expect, body = load(path)
    if expect["outcome"] in ("error", "truncated") or "unknown" in path.stem:  # type: ignore[union-attr]
        return
    streamed = read(dialect, body + b"\n\n", content_type).response
    plain = read(dialect, json.dumps(assembled(body)).encode(), "application/json").response
    assert [comparable(part) for part in plain.parts] == [comparable(part) for part in streamed.parts]
    for name in ("verdict", "finish_reason", "finish_reason_raw", "refusal", "metadata", "model", "provider_response_id"):
        assert getattr(plain, name) == getattr(streamed, name)
    assert (plain.usage and plain.usage.wire) == (streamed.usage and streamed.usage.wire)
