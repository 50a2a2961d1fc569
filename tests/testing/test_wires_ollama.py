"""
Ollama's wire: read back by our model and by ollama's own library.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rxchat.errors import ConfigurationError
from rxchat.response import CitationPart, FinishReason, MediaPart, RefusalPart, ThinkingPart, ToolCall, Usage
from rxchat.testing.answers import FakeAnswer
from rxchat.testing.faults import Fault
from rxchat.testing.provider import FakeProvider
from rxchat.testing.wires.base import Wire
from rxchat.testing.wires.ollama import OLLAMA, OLLAMA_GENERATE
from tests.testing.spoken import (
    ANY_TEXT,
    ANY_THINKING,
    CALLS,
    NOW,
    PLAIN,
    ROME,
    answers,
    assert_any_cut,
    assert_dialect,
    assert_failures,
    assert_over_http,
    assert_paced,
    assert_read_back,
    body_of,
    read,
    usages,
)

with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)
    import ollama

CASES = {
    "plain": PLAIN,
    "calls": CALLS,
    "empty": FakeAnswer(),
    "uncounted": FakeAnswer("Hi.", usage=None),
    "all": FakeAnswer(ThinkingPart("hm, well"), "Text.", ROME, NOW, usage=Usage(20, 9, total_tokens=29), piece=3),
    "input only": FakeAnswer("Text.", usage=Usage(input_tokens=3)),
    "length": FakeAnswer("Half a", finish=FinishReason.LENGTH),
    "no reason": FakeAnswer("Text.", finish=FinishReason.UNKNOWN),
    "image": FakeAnswer("Look:", MediaPart("image", data="aW1n")),
}
REFUSED = {
    "RefusalPart": FakeAnswer(RefusalPart("no")),
    "CitationPart": FakeAnswer(CitationPart("https://x.example")),
    "content_filter": FakeAnswer("no", finish=FinishReason.CONTENT_FILTER),
    "a signature": FakeAnswer(ThinkingPart("hm", "c2ln")),
    "this audio": FakeAnswer(MediaPart("audio", data="aW1n")),
    "this image": FakeAnswer(MediaPart("image", "image/png", "aW1n")),
    "free-form": FakeAnswer(ToolCall(name="sh", arguments_text="ls", kind="custom")),
    "usage.cache_read_tokens": FakeAnswer("Hi.", usage=Usage(cache_read_tokens=1)),
    "usage.total_tokens 5": FakeAnswer("Hi.", usage=Usage(1, 2, total_tokens=5)),
}


@pytest.mark.parametrize("name", CASES)
async def test_ollama_is_read_back(name: str) -> None:
    """
    Streamed and whole over HTTP an answer is what the script says.
    """
    await assert_over_http("ollama", CASES[name])


@settings(max_examples=30, deadline=None)
@given(usages(total=False))
def test_any_counts(usage: Usage) -> None:
    """
    Our counts come back as they were: the wire's formula is turned round (contract P4).
    """
    answer = FakeAnswer("Hi.", usage=usage)
    assert_read_back(answer, read("ollama", OLLAMA, answer).response)


@settings(max_examples=40, deadline=None)
@given(answers(ANY_TEXT, ANY_THINKING), st.integers(1, 40))
def test_any_answer_in_any_cut(answer: FakeAnswer, cut: int) -> None:
    """
    Whatever is said, in whatever pieces and reads.
    """
    assert_any_cut("ollama", OLLAMA, answer, cut)


@pytest.mark.parametrize("name", ["plain", "empty", "length", "thought"])
def test_generate_is_read_back(name: str) -> None:
    """
    /api/generate says texts and thinking by other names, and nothing else.
    """
    answer = FakeAnswer(ThinkingPart("hm, well"), "Text.") if name == "thought" else CASES[name]
    assert_read_back(answer, read("ollama", OLLAMA_GENERATE, answer).response)
    with pytest.raises(ConfigurationError, match="no way to say tool_calls"):
        body_of(OLLAMA_GENERATE, CALLS)


@pytest.mark.parametrize("words", REFUSED)
def test_what_ollama_cannot_say(words: str) -> None:
    """
    A part, finish or count without a place in the wire is told by name, streamed and whole.
    """
    with pytest.raises(ConfigurationError, match=words):
        body_of(OLLAMA, REFUSED[words])
    assert OLLAMA.whole is not None
    with pytest.raises(ConfigurationError, match=words):
        OLLAMA.whole(REFUSED[words])


@pytest.mark.parametrize("wire", [OLLAMA, OLLAMA_GENERATE])
def test_pieces_are_marked(wire: Wire) -> None:
    """
    `tokens_per_second` counts them.
    """
    assert_paced(wire)


def test_the_contract() -> None:
    """
    Every case keeps it.
    """
    assert_dialect("ollama", OLLAMA, CASES)


def test_failures() -> None:
    """
    Its own errors, broken lines and refusals.
    """
    assert_failures("ollama", OLLAMA)


# --- ollama's library -----------------------------------------------------------------------------------------------------------------------------


@contextmanager
def _client(script: Any) -> Iterator[Any]:
    with FakeProvider(script).in_thread() as provider, ollama.Client(host=provider.url("ollama")) as client:
        yield client


def _calls(message: Any) -> list[tuple[str, Any]]:
    return [(call.function.name, call.function.arguments) for call in message.tool_calls or []]


def test_the_library_reads_the_stream_and_the_body() -> None:
    """
    The same text, thinking, calls, reason and counts.
    """
    with _client(CASES["all"]) as client:
        lines = list(client.chat("fake-1", [{"role": "user", "content": "Hi"}], stream=True))
        whole = client.chat("fake-1", [{"role": "user", "content": "Hi"}])
    assert "Text." == "".join(line.message.content or "" for line in lines) == whole.message.content
    assert "hm, well" == "".join(line.message.thinking or "" for line in lines) == whole.message.thinking
    expected = [("weather", {"city": "Róme", "days": 2}), ("now", {})]
    assert expected == [call for line in lines for call in _calls(line.message)] == _calls(whole.message)
    for last in (lines[-1], whole):
        assert (True, "stop", 20, 9, "fake-1") == (last.done, last.done_reason, last.prompt_eval_count, last.eval_count, last.model)


def test_the_library_generates() -> None:
    """
    /api/generate, streamed and not.
    """
    with _client(FakeAnswer(ThinkingPart("hm"), "Text.", piece=2)) as client:
        lines = list(client.generate("fake-1", "Hi", stream=True))
        whole = client.generate("fake-1", "Hi")
    assert "Text." == "".join(line.response for line in lines) == whole.response
    assert "hm" == "".join(line.thinking or "" for line in lines) == whole.thinking
    assert [("stop", 11, 7)] * 2 == [(last.done_reason, last.prompt_eval_count, last.eval_count) for last in (lines[-1], whole)]


def test_the_library_raises_for_errors() -> None:
    """
    A refusal has its status and words; an error in the middle is raised behind what came before.
    """
    script = [PLAIN.with_fault(Fault(status=404, message="no such model")), PLAIN.with_fault(Fault(error_after=2, message="it broke"))]
    with _client(script) as client:
        with pytest.raises(ollama.ResponseError, match=r"no such model.*404"):
            list(client.chat("fake-1", [{"role": "user", "content": "Hi"}], stream=True))
        seen = client.chat("fake-1", [{"role": "user", "content": "Hi"}], stream=True)
        assert PLAIN.parts[0].text.startswith(next(seen).message.content)  # type: ignore[union-attr]
        with pytest.raises(ollama.ResponseError, match="it broke"):
            list(seen)
