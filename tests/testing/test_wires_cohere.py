"""
Cohere's wires, v2 and v1: read back by our models and by Cohere's own library.
"""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import httpx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rxchat.errors import ConfigurationError, Verdict
from rxchat.response import (
    CitationPart,
    ContentFilterPart,
    FinishReason,
    MediaPart,
    RefusalPart,
    SearchResultPart,
    TextPart,
    ThinkingPart,
    ToolCall,
    Usage,
)
from rxchat.testing import replay
from rxchat.testing.answers import FakeAnswer
from rxchat.testing.faults import Fault
from rxchat.testing.provider import FakeProvider
from rxchat.testing.wires.base import Wire
from rxchat.testing.wires.cohere import COHERE, COHERE_V1
from tests.testing.spoken import (
    ANY_TEXT,
    ANY_THINKING,
    CALLS,
    NOW,
    PLAIN,
    ROME,
    TEXTS,
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
    import cohere

PLAN = ThinkingPart("I will look it up.", item_id="tool_plan")
COUNTED = Usage(20, 9, cache_read_tokens=4, reasoning_tokens=3, total_tokens=29)
CITED = CitationPart("https://x.example", "X", quoted="Text", file="doc_x", index=0, start=0, end=4)
LENGTH = FakeAnswer("Half a", finish=FinishReason.LENGTH)

CASES = {
    "plain": PLAIN,
    "calls": CALLS,
    "empty": FakeAnswer(),
    "uncounted": FakeAnswer("Hi.", usage=None),
    "all": FakeAnswer(ThinkingPart("hm, well"), "Text.", ROME, NOW, usage=COUNTED, piece=3),
    "plan": FakeAnswer(PLAN, ROME, NOW),
    "length": LENGTH,
    "cited": FakeAnswer("Text.", CITED, CitationPart(file="tool:0", index=0, quoted="x"), CitationPart(quoted="y", index=0)),
}
REFUSED = {
    "RefusalPart": FakeAnswer(RefusalPart("no")),
    "MediaPart": FakeAnswer(MediaPart("image", "image/png", "aW1n")),
    "the finish refusal": FakeAnswer("no", finish=FinishReason.REFUSAL),
    "a signature": FakeAnswer(ThinkingPart("hm", "c2ln")),
    "free-form": FakeAnswer(ToolCall(name="sh", arguments_text="ls", kind="custom")),
    "usage.cache_write_tokens": FakeAnswer("Hi.", usage=Usage(cache_write_tokens=1)),
    "usage.total_tokens 5": FakeAnswer("Hi.", usage=Usage(1, 2, total_tokens=5)),
}

FOUND = SearchResultPart("https://x.example", "X", "snip")
CITED_V1 = CitationPart("https://x.example", "X", quoted="Text", file="doc_x", start=0, end=4)
CASES_V1 = {
    "plain": PLAIN,
    "empty": FakeAnswer(),
    "uncounted": FakeAnswer("Hi.", usage=None),
    "length": LENGTH,
    "found": FakeAnswer(
        FOUND, SearchResultPart("https://y.example"), "Text.", CITED_V1, CitationPart(quoted="x", file="doc_1", url="https://y.example")
    ),
    "tool's own": FakeAnswer("Text.", CitationPart(quoted="x", file="tool:0", start=0, end=1)),
}
REFUSED_V1 = {
    "RefusalPart": FakeAnswer(RefusalPart("no")),
    "the finish pause": FakeAnswer("no", finish=FinishReason.PAUSE),
    "thinking": FakeAnswer(ThinkingPart("hm")),
    "by file": FakeAnswer("Text.", CitationPart("https://x.example")),
    "of the same url": FakeAnswer("Text.", CitationPart("https://x.example", file="doc_x")),
    "the query": FakeAnswer(SearchResultPart("https://x.example", query="x")),
    "the arguments of now": FakeAnswer(ToolCall(name="now", arguments_text="1")),
}


# --- our models -----------------------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", CASES)
async def test_cohere_is_read_back(name: str) -> None:
    """
    Streamed and whole over HTTP an answer is what the script says.
    """
    await assert_over_http("cohere", CASES[name])


@pytest.mark.parametrize("name", CASES_V1)
def test_v1_is_read_back(name: str) -> None:
    """
    Streamed and whole, v1 says it too.
    """
    answer = CASES_V1[name]
    assert_read_back(answer, read("cohere-v1", COHERE_V1, answer).response)
    assert COHERE_V1.whole is not None
    assert_read_back(answer, replay(COHERE_V1.whole(answer), "cohere-v1", content_type="application/json").response)


def test_calls_of_v1_have_no_ids() -> None:
    """
    Its plan and its calls are there, under ids of our own.
    """
    answer = FakeAnswer(PLAN, "Wait.", ROME, NOW)
    assert_read_back(answer, read("cohere-v1", COHERE_V1, answer).response, ids=False)
    assert COHERE_V1.whole is not None
    with pytest.raises(ConfigurationError, match="not streamed"):
        COHERE_V1.whole(answer)


@pytest.mark.parametrize("finish", [FinishReason.CONTENT_FILTER, FinishReason.ERROR])
def test_ends_that_say_more(finish: FinishReason) -> None:
    """
    ERROR_TOXIC is a filter that blocked, ERROR is the provider's error.
    """
    answer = FakeAnswer("Half a", finish=finish)
    for name, wire in (("cohere", COHERE), ("cohere-v1", COHERE_V1)):
        ended = read(name, wire, answer)
        assert "Half a" == ended.response.text
        if finish is FinishReason.ERROR:
            assert Verdict.PROVIDER_ERROR == ended.verdict
        else:
            assert_read_back(answer, ended.response, parts=(*answer.parts, ContentFilterPart("toxicity", blocked=True)))


@settings(max_examples=30, deadline=None)
@given(usages("cache_read_tokens", "reasoning_tokens", total=False))
def test_any_counts(usage: Usage) -> None:
    """
    Our counts come back as they were: the wire's formula is turned round (contract P4).
    """
    answer = FakeAnswer("Hi.", usage=usage)
    assert_read_back(answer, read("cohere", COHERE, answer).response)
    assert_read_back(answer, read("cohere-v1", COHERE_V1, answer).response)


@settings(max_examples=40, deadline=None)
@given(answers(ANY_TEXT, ANY_THINKING), st.integers(1, 40))
def test_any_answer_in_any_cut(answer: FakeAnswer, cut: int) -> None:
    """
    Whatever is said, in whatever pieces and reads.
    """
    assert_any_cut("cohere", COHERE, answer, cut)


@settings(max_examples=40, deadline=None)
@given(answers(ANY_TEXT, st.builds(lambda text: ThinkingPart(text, item_id="tool_plan"), TEXTS)), st.integers(1, 40))
def test_any_answer_of_v1_in_any_cut(answer: FakeAnswer, cut: int) -> None:
    """
    Likewise; a second plan goes on in the first.
    """
    first = next((k for k, part in enumerate(answer.parts) if isinstance(part, ThinkingPart)), None)
    parts = [part for k, part in enumerate(answer.parts) if not isinstance(part, ThinkingPart) or k == first]
    apart = [part for k, part in enumerate(parts) if not (k and isinstance(part, TextPart) and isinstance(parts[k - 1], TextPart))]
    assert_any_cut("cohere-v1", COHERE_V1, FakeAnswer(*apart, piece=answer.piece), cut, ids=False)


@pytest.mark.parametrize("words", REFUSED)
def test_what_cohere_cannot_say(words: str) -> None:
    """
    A part, finish or count without a place in the wire is told by name, streamed and whole.
    """
    with pytest.raises(ConfigurationError, match=words):
        body_of(COHERE, REFUSED[words])
    assert COHERE.whole is not None
    with pytest.raises(ConfigurationError, match=words):
        COHERE.whole(REFUSED[words])


@pytest.mark.parametrize("words", REFUSED_V1)
def test_what_v1_cannot_say(words: str) -> None:
    """
    Likewise.
    """
    with pytest.raises(ConfigurationError, match=words):
        body_of(COHERE_V1, REFUSED_V1[words])


@pytest.mark.parametrize("wire", [COHERE, COHERE_V1])
def test_pieces_are_marked(wire: Wire) -> None:
    """
    `tokens_per_second` counts them.
    """
    assert_paced(wire)


def test_the_contract() -> None:
    """
    Every case keeps it.
    """
    assert_dialect("cohere", COHERE, CASES)
    assert_dialect("cohere-v1", COHERE_V1, CASES_V1)


def test_failures() -> None:
    """
    Their own errors, broken frames and refusals.
    """
    assert_failures("cohere", COHERE)
    assert_failures("cohere-v1", COHERE_V1)


# --- Cohere's library -----------------------------------------------------------------------------------------------------------------------------

# It reads its own models by a name that pydantic has deprecated.
_THEIRS = pytest.mark.filterwarnings("ignore:The `__fields__` attribute is deprecated")


@contextmanager
def _client(make: Callable[..., Any], script: Any, dialect: str) -> Iterator[Any]:
    with FakeProvider(script).in_thread() as provider, httpx.Client() as http:
        yield make(api_key="fake-key", base_url=provider.url(dialect), httpx_client=http)


HI = [{"role": "user", "content": "Hi"}]


@_THEIRS
def test_client_v2_reads_the_stream() -> None:
    """
    The same text, thinking, calls, reason and counts.
    """
    with _client(cohere.ClientV2, CASES["all"], "cohere") as client:
        events = list(client.chat_stream(model="fake-1", messages=HI))
    contents = [event.delta.message.content for event in events if event.type == "content-delta"]
    assert "Text." == "".join(content.text or "" for content in contents)
    assert "hm, well" == "".join(content.thinking or "" for content in contents)
    starts = [event.delta.message.tool_calls for event in events if event.type == "tool-call-start"]
    assert [(call.id, call.name) for call in (ROME, NOW)] == [(said.id, said.function.name) for said in starts]
    pieces = [event.delta.message.tool_calls.function.arguments for event in events if event.type == "tool-call-delta"]
    assert ROME.arguments_text == "".join(pieces)
    assert "fake-answer-1" == events[0].id
    _assert_ended(events[-1].delta.finish_reason, events[-1].delta.usage)


def _assert_ended(reason: str, usage: Any) -> None:
    assert "TOOL_CALL" == reason
    assert (20, 9, 4) == (usage.tokens.input_tokens, usage.tokens.output_tokens, usage.cached_tokens)


@_THEIRS
def test_client_v2_reads_the_body_and_citations() -> None:
    """
    Likewise of the answer that is not streamed; citations in both.
    """
    with _client(cohere.ClientV2, [CASES["all"], CASES["cited"], CASES["cited"]], "cohere") as client:
        whole = client.chat(model="fake-1", messages=HI)
        cited = client.chat(model="fake-1", messages=HI).message.citations[0]
        events = [event for event in client.chat_stream(model="fake-1", messages=HI) if event.type == "citation-start"]
    assert ["hm, well", "Text."] == [whole.message.content[0].thinking, whole.message.content[1].text]
    assert [ROME.arguments_text, ""] == [call.function.arguments for call in whole.message.tool_calls]
    _assert_ended(whole.finish_reason, whole.usage)
    for citation in (cited, events[0].delta.message.citations):
        assert (0, 4, "Text", 0) == (citation.start, citation.end, citation.text, citation.content_index)
        assert {"id": "doc_x", "title": "X", "url": "https://x.example"} == citation.sources[0].document


@_THEIRS
def test_client_v1_reads_the_stream_and_the_body() -> None:
    """
    The same text, calls, documents and counts.
    """
    answer = FakeAnswer(FOUND, "Text.", CITED_V1, ROME, NOW)
    with _client(cohere.Client, answer, "cohere-v1") as client:
        events = list(client.chat_stream(model="fake-1", message="Hi"))
        whole = client.chat(model="fake-1", message="Hi")
    assert "Text." == "".join(event.text for event in events if event.event_type == "text-generation")
    deltas = [event.tool_call_delta for event in events if event.event_type == "tool-calls-chunk"]
    assert ["weather", "now"] == [delta.name for delta in deltas if delta.name]
    assert json.loads(ROME.arguments_text) == json.loads("".join(delta.parameters or "" for delta in deltas))
    (found,) = [event.documents for event in events if event.event_type == "search-results"]
    assert [{"id": "doc_x", "url": "https://x.example", "title": "X", "snippet": "snip"}] == found
    assert "COMPLETE" == events[-1].finish_reason
    for response in (events[-1].response, whole):
        assert ("Text.", "fake-answer-1") == (response.text, response.generation_id)
        assert [json.loads(ROME.arguments_text), {}] == [call.parameters for call in response.tool_calls]
        assert [["doc_x"]] == [citation.document_ids for citation in response.citations]
        assert (11, 7) == (response.meta.tokens.input_tokens, response.meta.tokens.output_tokens)


@_THEIRS
def test_the_library_raises_for_errors() -> None:
    """
    A refusal has its status and words; an error in the middle is the end that says so, which the library raises nothing for.
    """
    script = [PLAIN.with_fault(Fault(status=404, message="not here")), PLAIN.with_fault(Fault(error_after=3, message="it broke"))]
    with _client(cohere.ClientV2, script, "cohere") as client:
        with pytest.raises(cohere.NotFoundError, match="not here"):
            list(client.chat_stream(model="fake-1", messages=HI))
        last = list(client.chat_stream(model="fake-1", messages=HI))[-1]
    assert ("ERROR", "it broke") == (last.delta.finish_reason, last.delta.error)
