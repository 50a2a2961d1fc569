"""
Ollama: lines of /api/chat and /api/generate, and one object without streaming.
"""

from __future__ import annotations

import json
from typing import Any

import pytest

from rxchat.errors import DialectError, IncompleteStreamError, InvalidJSONError, ProviderError
from rxchat.events import MediaDone, Raw, ToolCallEnd
from rxchat.response import FinishReason
from tests.dialects.reading import Reading, read, read_everywhere

NDJSON = "application/x-ndjson"
END = {"model": "m", "done": True, "done_reason": "stop", "prompt_eval_count": 5, "eval_count": 3, "eval_duration": 9}


def said(**message: Any) -> dict[str, Any]:
    return {"model": "m", "message": {"role": "assistant", **message}, "done": False}


def lines(*values: Any) -> bytes:
    return "".join(json.dumps(value, ensure_ascii=False) + "\n" for value in values).encode()


def ollama(*values: Any) -> Reading:
    return read_everywhere("ollama", lines(*values), NDJSON)


def test_text_and_thinking() -> None:
    """
    Both come beside each other in one line, thinking first; counts, model and durations are those of the last line.
    """
    got = ollama(said(thinking="Hm"), said(thinking="m.", content="Hö"), said(content="r 🌊"), said(content=""), END)
    assert got.verdict == "COMPLETE"
    assert (got.response.thinking, got.response.text, got.response.model) == ("Hmm.", "Hör 🌊", "m")
    assert got.response.usage is not None
    assert (got.response.usage.input_tokens, got.response.usage.output_tokens, got.response.usage.total_tokens) == (5, 3, 8)
    assert got.response.metadata["eval_duration"] == 9


def test_generate() -> None:
    """
    /api/generate says `response`; its `context` is kept for the next request.
    """
    got = ollama({"model": "m", "response": "Hi", "thinking": "T", "done": False}, {"model": "m", "response": "", **END, "context": [1, 2]})
    assert (got.verdict, got.response.text, got.response.thinking) == ("COMPLETE", "Hi", "T")
    assert got.response.metadata["context"] == [1, 2]


@pytest.mark.parametrize(
    ("reason", "finish", "verdict"),
    [
        ("stop", FinishReason.STOP, "COMPLETE"),
        ("load", FinishReason.STOP, "COMPLETE"),
        ("unload", FinishReason.STOP, "COMPLETE"),
        ("length", FinishReason.LENGTH, "INCOMPLETE_FINISH"),
        ("whim", FinishReason.OTHER, "INCOMPLETE_FINISH"),
        (None, FinishReason.UNKNOWN, "INCOMPLETE_FINISH"),
    ],
)
def test_finish(reason: str | None, finish: FinishReason, verdict: str) -> None:
    """
    Finish words by the table; the raw word is kept.
    """
    got = ollama(said(content="x"), {**END, "done_reason": reason})
    assert (got.response.finish_reason, got.response.finish_reason_raw, got.verdict) == (finish, reason, verdict)


def test_calls() -> None:
    """
    Calls are whole, arguments objects; a missing or repeated index and a repeated name make no call vanish; ids are the wire's or made up.
    """
    calls = [
        {"function": {"name": "weather", "arguments": {"city": "Köln"}}},
        {"id": "c2", "function": {"index": 0, "name": "weather", "arguments": {"city": "Ulm"}}},
    ]
    got = ollama(said(content="", tool_calls=calls), said(tool_calls=[{"function": {"index": 0, "name": "now"}}]), END)
    assert got.verdict == "COMPLETE"
    assert got.response.finish_reason is FinishReason.TOOL_CALLS
    assert [(call.name, call.arguments_text, call.complete) for call in got.response.tool_calls] == [
        ("weather", '{"city":"Köln"}', True),
        ("weather", '{"city":"Ulm"}', True),
        ("now", "", True),
    ]
    assert [call.arguments for call in got.response.tool_calls] == [{"city": "Köln"}, {"city": "Ulm"}, {}]
    assert got.response.tool_calls[1].id == "c2"
    assert len({call.id for call in got.response.tool_calls}) == 3
    assert len(got.of(ToolCallEnd)) == 3


def test_arguments_as_text_images_and_logprobs() -> None:
    """
    Arguments that are text already stay as they are; images are media; log probabilities are kept.
    """
    got = ollama(said(tool_calls=[{"function": {"name": "f", "arguments": '{"a": 1}'}}], images=["aGk=", ""]), {**END, "logprobs": [{"token": "x"}]})
    assert got.response.tool_calls[0].arguments_text == '{"a": 1}'
    assert [event.data for event in got.of(MediaDone) if isinstance(event, MediaDone)] == ["aGk="]
    assert got.response.metadata["logprobs"] == [{"token": "x"}]


def test_error_line() -> None:
    """
    An error under status 200 fails the response; what came before it stays.
    """
    got = ollama(said(content="Yes"), {"error": "an error was encountered"})
    assert isinstance(got.error, ProviderError)
    assert got.error.message == "an error was encountered"
    assert got.response.text == "Yes"


def test_unknown_line() -> None:
    """
    A line with nothing known is Raw and breaks nothing.
    """
    got = ollama({"progress": 1}, said(content="a"), END)
    assert got.verdict == "COMPLETE"
    assert len(got.of(Raw)) == 1


@pytest.mark.parametrize(
    "value",
    [3, {"message": "x", "done": False}, said(content=3), said(thinking=[]), said(tool_calls=[{"function": {}}]), said(tool_calls=[3])],
)
def test_malformed(value: Any) -> None:
    """
    A known line that is not as it should be is a DialectError at its offset.
    """
    got = read("ollama", lines(said(content="a"), value), NDJSON)
    assert isinstance(got.error, DialectError)
    assert got.error.offset == len(lines(said(content="a")))


def test_whole_body() -> None:
    """
    One object without streaming gives the same answer as its lines.
    """
    message = {"role": "assistant", "content": "Hi", "thinking": "T", "tool_calls": [{"id": "a", "function": {"name": "f", "arguments": {}}}]}
    whole = read_everywhere("ollama", json.dumps({**END, "message": message}, indent=1).encode(), "application/json")
    streamed = ollama(said(thinking="T"), said(content="Hi"), said(tool_calls=message["tool_calls"]), END)
    assert whole.response == streamed.response
    assert whole.verdict == "COMPLETE"


def test_ends() -> None:
    """
    Only `done: true` ends an answer; nothing behind it is read.
    """
    assert isinstance(read("ollama", lines(said(content="a")), NDJSON).error, IncompleteStreamError)
    assert isinstance(read("ollama", lines(said(content="a")) + b'{"model":', NDJSON).error, IncompleteStreamError)
    assert isinstance(read("ollama", lines(said(content="a")) + b"nonsense\n", NDJSON).error, InvalidJSONError)
    assert read_everywhere("ollama", lines(said(content="a"), END) + b"\xff\xfe", NDJSON).verdict == "COMPLETE"
    assert isinstance(read("ollama", json.dumps(said(content="a")).encode(), "application/json").error, DialectError)
