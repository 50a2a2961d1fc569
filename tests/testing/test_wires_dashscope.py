"""
DashScope's wires: read back by our models and by dashscope's own library.
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
from rxchat.response import CitationPart, FinishReason, MediaPart, SearchResultPart, ThinkingPart, ToolCall, Usage
from rxchat.testing.answers import FakeAnswer
from rxchat.testing.faults import Fault
from rxchat.testing.provider import FakeProvider
from rxchat.testing.wires.base import Wire
from rxchat.testing.wires.dashscope import DASHSCOPE, DASHSCOPE_CUMULATIVE
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
    import dashscope

COUNTED = Usage(20, 9, cache_read_tokens=4, cache_write_tokens=2, reasoning_tokens=3, total_tokens=30)
INCREMENTAL = {"incremental_output": True}
CASES = {
    "plain": PLAIN,
    "calls": CALLS,
    "empty": FakeAnswer(),
    "uncounted": FakeAnswer("Hi.", usage=None),
    "all": FakeAnswer(ThinkingPart("hm, well"), "Text.", ROME, NOW, usage=COUNTED, piece=3),
    "input only": FakeAnswer("Text.", usage=Usage(input_tokens=3)),
    "length": FakeAnswer("Half a", finish=FinishReason.LENGTH),
    "found": FakeAnswer(
        SearchResultPart("https://x.example", "X", "snip"),
        CitationPart("https://x.example", "X"),
        SearchResultPart("https://y.example", "Y"),
        CitationPart("https://y.example", "Y"),
        "Text.",
    ),
}
REFUSED = {
    "MediaPart": FakeAnswer(MediaPart("image", "image/png", "aW1n")),
    "the finish refusal": FakeAnswer("no", finish=FinishReason.REFUSAL),
    "a signature": FakeAnswer(ThinkingPart("hm", "c2ln")),
    "these sources": FakeAnswer("Text.", CitationPart("https://x.example")),
    "free-form": FakeAnswer(ToolCall(name="sh", arguments_text="ls", kind="custom")),
}


@pytest.mark.parametrize("name", CASES)
async def test_dashscope_is_read_back(name: str) -> None:
    """
    Streamed and whole over HTTP an answer is what the script says, whether the request asks for what is new or for everything so far.
    """
    await assert_over_http("dashscope", CASES[name])
    async with FakeProvider(CASES[name]) as provider:
        async with provider.model("dashscope", options={"incremental_output": False}) as model:
            assert_read_back(CASES[name], await model.call("Hi"))
        assert provider.requests[0].json["parameters"]["incremental_output"] is False


async def test_a_filter_is_its_word() -> None:
    """
    content_filter is a finish like another, and nothing more is said of it.
    """
    await assert_over_http("dashscope", FakeAnswer("Half a", finish=FinishReason.CONTENT_FILTER))


@settings(max_examples=30, deadline=None)
@given(usages("cache_read_tokens", "cache_write_tokens", "reasoning_tokens"))
def test_any_counts(usage: Usage) -> None:
    """
    Our counts come back as they were: the wire's formula is turned round (contract P4).
    """
    answer = FakeAnswer("Hi.", usage=usage)
    assert_read_back(answer, read("dashscope", DASHSCOPE, answer, INCREMENTAL).response)


@settings(max_examples=40, deadline=None)
@given(answers(ANY_TEXT, ANY_THINKING), st.integers(1, 40), st.booleans())
def test_any_answer_in_any_cut(answer: FakeAnswer, cut: int, incremental: bool) -> None:
    """
    Whatever is said, in whatever pieces and reads. A second text or thinking goes on in the first: the wire has one of each.
    """
    first = {type(part): k for k, part in reversed(list(enumerate(answer.parts)))}
    parts = [part for k, part in enumerate(answer.parts) if isinstance(part, ToolCall) or first[type(part)] == k]
    once = FakeAnswer(*parts, piece=answer.piece)
    assert_any_cut("dashscope", DASHSCOPE if incremental else DASHSCOPE_CUMULATIVE, once, cut, INCREMENTAL if incremental else None)


@pytest.mark.parametrize("words", REFUSED)
def test_what_dashscope_cannot_say(words: str) -> None:
    """
    A part or finish without a place in the wire is told by name, streamed and whole.
    """
    with pytest.raises(ConfigurationError, match=words):
        body_of(DASHSCOPE, REFUSED[words])
    assert DASHSCOPE.whole is not None
    with pytest.raises(ConfigurationError, match=words):
        DASHSCOPE.whole(REFUSED[words])


@pytest.mark.parametrize("wire", [DASHSCOPE, DASHSCOPE_CUMULATIVE])
def test_pieces_are_marked(wire: Wire) -> None:
    """
    `tokens_per_second` counts them.
    """
    assert_paced(wire)


def test_the_contract() -> None:
    """
    Every case keeps it.
    """
    assert_dialect("dashscope", DASHSCOPE, CASES, INCREMENTAL)
    assert_dialect("dashscope", DASHSCOPE_CUMULATIVE, CASES)


def test_failures() -> None:
    """
    Its own errors, broken frames and refusals.
    """
    assert_failures("dashscope", DASHSCOPE, INCREMENTAL)
    assert_failures("dashscope", DASHSCOPE_CUMULATIVE)


# --- dashscope's library --------------------------------------------------------------------------------------------------------------------------


@contextmanager
def _asked(script: Any, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    with FakeProvider(script).in_thread() as provider:
        monkeypatch.setattr(dashscope, "base_http_api_url", provider.url("dashscope") + "/api/v1")

        def ask(**how: Any) -> Any:
            message: Any = {"role": "user", "content": "Hi"}
            return dashscope.Generation.call(api_key="fake-key", model="fake-1", messages=[message], result_format="message", **how)

        yield ask


def _counted(usage: Any) -> tuple[Any, ...]:
    details = usage["prompt_tokens_details"]["cached_tokens"], usage["output_tokens_details"]["reasoning_tokens"]
    return usage["input_tokens"], usage["output_tokens"], usage["total_tokens"], *details


@pytest.mark.parametrize("incremental", [True, False])
def test_the_library_reads_the_stream(incremental: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """
    The same text, thinking, calls, reason and counts.
    """
    with _asked(CASES["all"], monkeypatch) as ask:
        frames = list(ask(stream=True, incremental_output=incremental))
    said = [frame.output["choices"][0]["message"] for frame in frames]
    calls = [call for message in said for call in message.get("tool_calls") or []]
    if not incremental:
        said, calls = said[-1:], said[-1]["tool_calls"]
    assert "Text." == "".join(message["content"] for message in said)
    assert "hm, well" == "".join(message.get("reasoning_content") or "" for message in said)
    for index, call in enumerate((ROME, NOW)):
        pieces = [piece for piece in calls if piece["index"] == index]
        assert (call.id, call.name) == (pieces[0]["id"], pieces[0]["function"]["name"])
        assert call.arguments_text == "".join(piece["function"]["arguments"] for piece in pieces)
    assert "tool_calls" == frames[-1].output["choices"][0]["finish_reason"]
    assert {200} == {frame.status_code for frame in frames}
    assert (20, 9, 30, 4, 3) == _counted(frames[-1].usage)
    assert "fake-answer-1" == frames[-1].request_id


def test_the_library_reads_the_body_and_errors(monkeypatch: pytest.MonkeyPatch) -> None:
    """
    An answer that is not streamed; a refusal with its status, code and words; an error in the middle behind what came before.
    """
    faults = [Fault(status=429, message="slow down"), Fault(error_after=1, message="it broke")]
    with _asked([CASES["all"], *(PLAIN.with_fault(fault) for fault in faults)], monkeypatch) as ask:
        whole = ask()
        refused = ask()
        frames = list(ask(stream=True, incremental_output=True))
    message = whole.output["choices"][0]["message"]
    assert ("Text.", "hm, well", 2) == (message["content"], message["reasoning_content"], len(message["tool_calls"]))
    assert (20, 9, 30, 4, 3) == _counted(whole.usage)
    assert (429, "Throttling", "slow down") == (refused.status_code, refused.code, refused.message)
    assert 200 == frames[0].status_code
    assert ("InternalError", "it broke") == (frames[-1].code, frames[-1].message)
