"""
Anthropic's wire: read back by our models and by anthropic.
"""

from __future__ import annotations

import json
from typing import Any

import anthropic
import attrs
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rxchat.errors import ConfigurationError
from rxchat.response import (
    CitationPart,
    ContentFilterPart,
    FinishReason,
    MediaPart,
    RedactedThinkingPart,
    RefusalPart,
    TextPart,
    ThinkingPart,
    ToolCall,
    Usage,
)
from rxchat.testing import FakeAnswer, FakeProvider, Fault
from rxchat.testing.provider import Entry
from rxchat.testing.wires.anthropic import ANTHROPIC
from tests.testing.spoken import (
    ANY_TEXT,
    ANY_THINKING,
    CALLS,
    NOW,
    PLAIN,
    ROME,
    answers,
    assert_any_cut,
    assert_failures,
    assert_over_http,
    assert_read_back,
    read,
)

NAME = "anthropic"
COUNTED = Usage(input_tokens=20, output_tokens=9, cache_read_tokens=4, cache_write_tokens=2, reasoning_tokens=3, total_tokens=29)
SITE = CitationPart(url="https://x.example", title="X", quoted="what X says")
PAGE = CitationPart(file="file_1", title="a.pdf", quoted="what a says")

CASES = {
    "plain": PLAIN,
    "calls": CALLS,
    "empty": FakeAnswer(),
    "all": FakeAnswer(ThinkingPart("hm, well", "c2ln"), RedactedThinkingPart("b3BhcXVl"), "Text.", ROME, NOW, usage=COUNTED, piece=3),
    "texts": FakeAnswer("One.", "Two.", ThinkingPart("hm"), ThinkingPart("hm again"), "Three.", ROME, "Four."),
    "uncounted": FakeAnswer("Hi.", usage=None),
    "input only": FakeAnswer("Text.", usage=Usage(input_tokens=3)),
    "length": FakeAnswer("Half a", finish=FinishReason.LENGTH),
    "pause": FakeAnswer("Half a", finish=FinishReason.PAUSE),
    "other": FakeAnswer("Half a", finish=FinishReason.OTHER),
    "unsaid": FakeAnswer("Half a", finish=FinishReason.UNKNOWN),
    "refused": FakeAnswer("Well,", RefusalPart("I would rather not.")),
    "filtered": FakeAnswer(ContentFilterPart("cyber", blocked=True), finish=FinishReason.REFUSAL),
    "called by code": FakeAnswer(attrs.evolve(ROME, metadata={"caller": {"type": "direct"}})),
}
STREAMED = {
    "cited": FakeAnswer("Text", SITE, PAGE, "Another.", SITE),
}


@pytest.mark.parametrize("name", CASES | STREAMED)
async def test_read_back(name: str) -> None:
    """
    Our model reads what was said, streamed and whole.
    """
    await assert_over_http(NAME, (CASES | STREAMED)[name], whole=name in CASES)


@pytest.mark.parametrize("stream", [True, False])
async def test_cited_before(stream: bool) -> None:
    """
    Sources before a text are of the same block; whole, they always come first.
    """
    answer = FakeAnswer(SITE, "Text", PAGE)
    expected = answer.parts if stream else (SITE, PAGE, TextPart("Text"))
    async with FakeProvider(answer) as provider:
        response = await provider.model(NAME).call("Hi", stream=stream)
    assert_read_back(answer, response, parts=expected)
    assert {0} == {part.index for part in response.parts if isinstance(part, TextPart | CitationPart)}


@given(answers(ANY_TEXT, ANY_THINKING), st.integers(1, 40))
@settings(max_examples=60, deadline=None)
def test_any(answer: FakeAnswer, cut: int) -> None:
    """
    Any answer in any pieces, read in any.
    """
    assert_any_cut(NAME, ANTHROPIC, answer, cut)


def test_failures() -> None:
    """
    Its failures are failures.
    """
    assert_failures(NAME, ANTHROPIC)


def test_cut_call() -> None:
    """
    A call that was cut has what came, and may not be run.
    """
    answer = FakeAnswer(attrs.evolve(ROME, arguments_text='{"ci'), finish=FinishReason.LENGTH)
    (call,) = read(NAME, ANTHROPIC, answer).response.tool_calls
    assert ('{"ci', None, False) == (call.arguments_text, call.arguments, call.complete)
    with pytest.raises(ConfigurationError, match="the arguments of weather"):
        ANTHROPIC.whole(answer)  # type: ignore[misc]


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (FakeAnswer(MediaPart("image", data="x")), "MediaPart"),
        (FakeAnswer(attrs.evolve(ROME, kind="custom")), "ToolCall"),
        (FakeAnswer(finish=FinishReason.CONTENT_FILTER), "the finish content_filter"),
        (FakeAnswer("x", CitationPart(url="https://x.example", start=1)), "the place of a citation"),
        (FakeAnswer(RefusalPart("x"), finish=FinishReason.STOP), "words of refusal"),
        (FakeAnswer(ContentFilterPart("x")), "a filter"),
        (FakeAnswer(usage=Usage(input_tokens=1, output_tokens=1, total_tokens=5)), "total_tokens 5"),
        (FakeAnswer(usage=Usage(input_tokens=1, cache_read_tokens=2)), "cache_read_tokens"),
    ],
)
def test_cannot_say(answer: FakeAnswer, said: str) -> None:
    """
    What the wire has no words for is refused, streamed and whole.
    """
    with pytest.raises(ConfigurationError, match=said):
        list(ANTHROPIC.frames(answer))
    with pytest.raises(ConfigurationError, match=said):
        ANTHROPIC.whole(answer)  # type: ignore[misc]


# --- anthropic --------------------------------------------------------------------------------------------------------------------------------------

ASKED: dict[str, Any] = {"model": "fake-1", "max_tokens": 100, "messages": [{"role": "user", "content": "Hi"}]}
WORDS = {"stop": "end_turn", "tool_calls": "tool_use", "length": "max_tokens", "pause": "pause_turn", "refusal": "refusal"}


def client_of(provider: FakeProvider) -> anthropic.AsyncAnthropic:
    return anthropic.AsyncAnthropic(base_url=provider.url(NAME), api_key="fake-key", max_retries=0)


def assert_message(answer: FakeAnswer, message: Any) -> None:
    """
    The library's message is the answer.
    """
    assert [fact(part) for part in answer.parts if not isinstance(part, CitationPart | RefusalPart)] == [
        block_fact(block) for block in message.content
    ]
    cited = [citation.cited_text for block in message.content if block.type == "text" for citation in block.citations or ()]
    assert [part.quoted for part in answer.parts if isinstance(part, CitationPart)] == cited
    assert (WORDS[answer.reason], answer.id, answer.model) == (message.stop_reason, message.id, message.model)
    assert_usage(answer, message.usage)


def fact(part: Any) -> Any:
    if isinstance(part, ToolCall):
        return "tool_use", part.id, part.name, json.loads(part.arguments_text or "{}")
    if isinstance(part, ThinkingPart):
        return "thinking", part.text, part.signature or ""
    return ("redacted_thinking", part.data) if isinstance(part, RedactedThinkingPart) else ("text", part.text)


def block_fact(block: Any) -> Any:
    names = {"tool_use": ("id", "name", "input"), "thinking": ("thinking", "signature"), "redacted_thinking": ("data",), "text": ("text",)}
    return block.type, *(getattr(block, name) for name in names[block.type])


def assert_usage(answer: FakeAnswer, usage: Any) -> None:
    if answer.usage is None:
        assert not usage.input_tokens
        return
    cached = (usage.cache_read_input_tokens, usage.cache_creation_input_tokens)
    assert (answer.usage.cache_read_tokens, answer.usage.cache_write_tokens) == cached
    assert answer.usage.input_tokens == usage.input_tokens + sum(count or 0 for count in cached)
    assert answer.usage.output_tokens == usage.output_tokens


@pytest.mark.parametrize("name", ["plain", "calls", "all", "texts", "length", "pause", "refused", "uncounted", "cited"])
async def test_sdk(name: str) -> None:
    """
    Anthropic's own library reads the same: by its accumulation, from the deltas, and whole.
    """
    answer = (CASES | STREAMED)[name]
    async with FakeProvider(answer) as provider, client_of(provider) as client:
        async with client.messages.stream(**ASKED) as stream:
            assert_message(answer, await stream.get_final_message())
        texts, thoughts, inputs = "", "", ""
        async for event in await client.messages.create(**ASKED, stream=True):
            if event.type == "content_block_delta":
                texts += getattr(event.delta, "text", "")
                thoughts += getattr(event.delta, "thinking", "")
                inputs += getattr(event.delta, "partial_json", "")
        assert "".join(part.text for part in answer.parts if isinstance(part, TextPart)) == texts
        assert "".join(part.text for part in answer.parts if isinstance(part, ThinkingPart)) == thoughts
        assert "".join(part.arguments_text for part in answer.parts if isinstance(part, ToolCall)) == inputs
        assert_message(answer, await client.messages.create(**ASKED))


async def test_sdk_failures() -> None:
    """
    The library knows the refusals and the error in a stream as such.
    """
    script: list[Entry] = [Fault(status=429, message="slow down"), Fault(status=529), PLAIN.with_fault(Fault(error_after=3, message="it broke"))]
    async with FakeProvider(script) as provider, client_of(provider) as client:
        with pytest.raises(anthropic.RateLimitError, match="slow down"):
            await client.messages.create(**ASKED, stream=True)
        with pytest.raises(anthropic.InternalServerError) as raised:
            await client.messages.create(**ASKED, stream=True)
        assert 529 == raised.value.status_code
        with pytest.raises(anthropic.APIStatusError, match="it broke"):
            await all_of(await client.messages.create(**ASKED, stream=True))


async def all_of(stream: Any) -> list[Any]:
    return [event async for event in stream]


async def test_sdk_heartbeat() -> None:
    """
    Pings are no content.
    """
    async with FakeProvider(FakeAnswer("x", heartbeat=True)) as provider, client_of(provider) as client, client.messages.stream(**ASKED) as stream:
        assert "x" == await stream.get_final_text()
