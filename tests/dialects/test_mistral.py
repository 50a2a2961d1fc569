"""
Mistral: what differs from OpenAI's chunks.
"""

from __future__ import annotations

import json
from typing import Any

import pytest

from rxchat.errors import HTTPStatusError
from rxchat.pipeline import Head, response_stage
from rxchat.response import FinishReason
from rxchat.stage import run
from tests.dialects.reading import Reading, read_everywhere


def chunk(delta: dict[str, Any], finish: str | None = None, **said: Any) -> bytes:
    choice = {"index": 0, "delta": delta, "finish_reason": finish}
    return f"data: {json.dumps({'id': 'm1', 'model': 'mistral-x', 'object': 'chat.completion.chunk', 'choices': [choice], 'p': 'abc', **said})}\n\n".encode()


def mistral(*chunks: bytes) -> Reading:
    return read_everywhere("mistral", b"".join([*chunks, b"data: [DONE]\n\n"]))


def test_thinking_parts() -> None:
    """
    Content is a list of thinking and text parts or a plain text; the delta that switches holds both.
    """
    thinking = {"type": "thinking", "thinking": [{"type": "text", "text": "12*12"}], "closed": True}
    got = mistral(
        chunk({"role": "assistant", "content": ""}),
        chunk({"content": [thinking, {"type": "text", "text": "14"}]}),
        chunk({"content": "4"}),
        chunk({"content": [{"type": "thinking", "thinking": []}]}),
        chunk({"content": ""}, "stop", usage={"prompt_tokens": 3, "completion_tokens": 2, "total_tokens": 5}),
    )
    assert (got.verdict, got.response.thinking, got.response.text) == ("COMPLETE", "12*12", "144")
    assert got.response.usage is not None
    assert got.response.usage.total_tokens == 5


def test_whole_calls_without_index() -> None:
    """
    Whole calls come with the finish reason, without index and type.
    """
    calls = [{"id": f"call0000{k}", "function": {"name": "f", "arguments": f'{{"k": {k}}}'}} for k in (1, 2)]
    got = mistral(chunk({"content": "", "tool_calls": calls}, "tool_calls"))
    assert got.verdict == "COMPLETE"
    assert [(call.id, call.arguments) for call in got.response.tool_calls] == [("call00001", {"k": 1}), ("call00002", {"k": 2})]


def test_model_length() -> None:
    """
    `model_length` is a length finish.
    """
    got = mistral(chunk({"content": "a"}, "model_length"))
    assert (got.response.finish_reason, got.verdict) == (FinishReason.LENGTH, "INCOMPLETE_FINISH")


def test_detail_error() -> None:
    """
    A refused request says why in `detail`.
    """
    head = Head(status=401, headers={"Content-Type": "application/json"})
    with pytest.raises(HTTPStatusError, match="Unauthorized") as caught:
        list(run(response_stage("mistral", head=lambda: head), [b'{"detail":"Unauthorized"}']))
    assert caught.value.status == 401
