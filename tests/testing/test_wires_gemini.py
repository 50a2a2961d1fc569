"""
Gemini's wires: read back by our models and by google-genai.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rxchat.errors import ConfigurationError, Verdict
from rxchat.response import (
    CitationPart,
    ContentFilterPart,
    FinishReason,
    MediaPart,
    ProviderItemPart,
    RedactedThinkingPart,
    RefusalPart,
    SearchResultPart,
    ServerToolPart,
    ThinkingPart,
    ToolCall,
    ToolResultPart,
    Usage,
)
from rxchat.testing.answers import FakeAnswer
from rxchat.testing.faults import Fault
from rxchat.testing.provider import FakeProvider
from rxchat.testing.wires.base import Wire
from rxchat.testing.wires.gemini import GEMINI, GEMINI_ARRAY
from rxchat.testing.wires.gemini_interactions import GEMINI_INTERACTIONS
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
    from google import genai
    from google.genai import errors, types

COUNTED = Usage(input_tokens=20, output_tokens=9, cache_read_tokens=4, reasoning_tokens=3, total_tokens=29)
SIGNED = ToolCall(id="call_signed", name="weather", arguments_text='{"city":"Rome"}', metadata={"thoughtSignature": "c2ln"})
RUN = ToolCall(id="call_run", name="lookup", arguments_text='{"q":"x"}', server_executed=True)
ITEM = {"text": "", "thoughtSignature": "c2ln"}
CODE = {"language": "PYTHON", "code": "print(1)", "thoughtSignature": "c2ln"}
OUTPUT = {"outcome": "OUTCOME_OK", "output": "1\n"}
SEARCH = {"toolType": "GOOGLE_SEARCH_WEB", "id": "t1", "args": {"queries": ["x"]}}
FOUND = {"toolType": "GOOGLE_SEARCH_WEB", "id": "t1", "response": {"found": 1}}
SAFETY = ContentFilterPart("HARM_CATEGORY_HARASSMENT", "no", blocked=True)

CASES = {
    "plain": PLAIN,
    "calls": CALLS,
    "empty": FakeAnswer(),
    "uncounted": FakeAnswer("Hi.", usage=None),
    "all": FakeAnswer(ThinkingPart("hm, well", "c2ln"), "Text.", ROME, SIGNED, usage=COUNTED, piece=3),
    "input only": FakeAnswer("Text.", usage=Usage(input_tokens=3)),
    "length": FakeAnswer("Half a", finish=FinishReason.LENGTH),
    "other": FakeAnswer("Half a", finish=FinishReason.OTHER),
    "filtered": FakeAnswer("Half a", SAFETY, finish=FinishReason.CONTENT_FILTER),
    "media": FakeAnswer("Look:", MediaPart("image", "image/png", "aW1n"), MediaPart("file", "application/pdf", url="https://x.example/a.pdf")),
    "signature on text": FakeAnswer("Text.", ProviderItemPart("thoughtSignature", ITEM), "More."),
    "run": FakeAnswer(RUN, ToolResultPart("call_run", {"found": 1}), "It is x.", finish=FinishReason.STOP),
    "code": FakeAnswer(ServerToolPart("codeExecution", payload=CODE, result=OUTPUT), "One."),
    "tool": FakeAnswer(ServerToolPart("GOOGLE_SEARCH_WEB", "t1", payload=SEARCH, result=FOUND), "Found."),
    "cited": FakeAnswer("Grüße.", CitationPart("https://x.example", "X", start=1, end=5), CitationPart("https://y.example")),
    "found": FakeAnswer(
        "Grüße, Welt.",
        SearchResultPart("https://x.example", "X", query="hello"),
        SearchResultPart("https://y.example", "Y", query="hello"),
        CitationPart("https://x.example", "X", "rüße", start=1, end=5),
        CitationPart("https://y.example", "Y"),
        CitationPart("https://x.example", "X", "Welt", start=7, end=11),
    ),
}
REFUSED = {
    "RefusalPart": FakeAnswer(RefusalPart("no")),
    "refusal": FakeAnswer("no", finish=FinishReason.REFUSAL),
    "RedactedThinkingPart": FakeAnswer(RedactedThinkingPart("eA==")),
    "quoted": FakeAnswer("Text.", CitationPart("https://x.example", quoted="Text")),
    "with file": FakeAnswer("Text.", CitationPart("https://x.example", file="x.txt")),
    "these sources": FakeAnswer(SearchResultPart("https://x.example", "X")),
    "several queries": FakeAnswer(
        *(SearchResultPart("https://x.example", query, query=query) for query in "ab"), *(CitationPart("https://x.example", title) for title in "ab")
    ),
    "snippet": FakeAnswer(SearchResultPart("https://x.example", "X", "snip"), CitationPart("https://x.example", "X")),
    "4 to 9": FakeAnswer("Text.", CitationPart("https://x.example", start=4, end=9)),
    "mime type": FakeAnswer(MediaPart("image", data="aW1n")),
    "data or a url": FakeAnswer(MediaPart("image", "image/png", "aW1n", "https://x.example")),
    "transcript of a MediaPart": FakeAnswer(MediaPart("audio", "audio/wav", "aW1n", transcript="la")),
    "signature of a call": FakeAnswer(ToolCall(name="now", metadata={"signature": "x"})),
    "the tool codeExecution": FakeAnswer(ServerToolPart("codeExecution", result="1")),
    "the result of 'call_run'": FakeAnswer(RUN, ToolResultPart("call_run", {}, is_error=True)),
    "the call 'call_run'": FakeAnswer(RUN),
    "the call 'call_now'": FakeAnswer(NOW, ToolResultPart("call_now", {})),
    "free-form": FakeAnswer(ToolCall(name="sh", arguments_text="ls", kind="custom")),
    "the arguments of now": FakeAnswer(ToolCall(name="now", arguments_text='{"a"')),
    "not list": FakeAnswer(ToolCall(name="now", arguments_text="[1]")),
    "the result of 'x'": FakeAnswer(ToolResultPart("x", {})),
    "arguments_text of a ServerToolPart": FakeAnswer(ServerToolPart("codeExecution", arguments_text="{}")),
    "the item compaction": FakeAnswer(ProviderItemPart("compaction", {})),
    "usage.cache_write_tokens": FakeAnswer("Hi.", usage=Usage(cache_write_tokens=1)),
    "usage.reasoning_tokens above": FakeAnswer("Hi.", usage=Usage(output_tokens=1, reasoning_tokens=2)),
    "beside the finish stop": FakeAnswer(SAFETY),
    "different texts": FakeAnswer(SAFETY, ContentFilterPart("X", "other", True), finish=FinishReason.CONTENT_FILTER),
}

PICTURE = MediaPart("image", "image/png", "aW1n")
STEPS = {
    "plain": PLAIN,
    "calls": CALLS,
    "empty": FakeAnswer(),
    "all": FakeAnswer(ThinkingPart("hm, well", "c2ln"), "Text.", ROME, NOW, usage=COUNTED, piece=3),
    "signature only": FakeAnswer(ThinkingPart("", "c2ln"), "Text.", usage=None),
    "signed call": FakeAnswer(ToolCall(id="c", name="now", metadata={"signature": "c2ln"})),
    "length": FakeAnswer("Half a", finish=FinishReason.LENGTH),
    "media": FakeAnswer("Look:", PICTURE, MediaPart("file", "application/pdf", url="https://x.example/a.pdf")),
    "run": FakeAnswer(ROME, ToolResultPart("call_rome", [{"type": "text", "text": "sun"}]), "Sunny."),
    "cited": FakeAnswer("Grüße.", CitationPart("https://x.example", "X", start=1, end=5), CitationPart("https://y.example", file="y.txt"), "End."),
}
REFUSED_STEPS = {
    "RefusalPart": FakeAnswer(RefusalPart("no")),
    "content_filter": FakeAnswer("no", finish=FinishReason.CONTENT_FILTER),
    "follows no text": FakeAnswer(ThinkingPart("hm"), CitationPart("https://x.example")),
    "quoted": FakeAnswer("Text.", CitationPart("https://x.example", quoted="Text")),
    "this image": FakeAnswer(MediaPart("image", "image/png")),
    "ran itself": FakeAnswer(ToolCall(name="now", server_executed=True)),
    "thoughtSignature of a call": FakeAnswer(SIGNED),
    "free-form": FakeAnswer(ToolCall(name="sh", arguments_text="ls", kind="custom")),
    "usage.cache_write_tokens": FakeAnswer("Hi.", usage=Usage(cache_write_tokens=1)),
}


# --- our models -----------------------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", CASES)
async def test_gemini_is_read_back(name: str) -> None:
    """
    Streamed and whole over HTTP, and as the JSON array, an answer is what the script says.
    """
    await assert_over_http("gemini", CASES[name])
    assert_read_back(CASES[name], read("gemini", GEMINI_ARRAY, CASES[name]).response)


@pytest.mark.parametrize("name", STEPS)
async def test_interactions_are_read_back(name: str) -> None:
    """
    Streamed and whole over HTTP an answer is what the script says.
    """
    await assert_over_http("gemini-interactions", STEPS[name])


async def test_without_alt_sse_the_answer_is_an_array() -> None:
    """
    As the API does it, a stream that nobody asked to be of events is a JSON array.
    """
    async with FakeProvider(PLAIN) as provider:
        async with provider.model("gemini") as model:
            await model.call("Hi")
        assert "alt=sse" in provider.requests[0].path
        asked = provider.requests[0]
    asked.path = asked.path.partition("?")[0]
    assert GEMINI.choose is not None
    assert GEMINI.choose(asked) is GEMINI_ARRAY
    assert body_of(GEMINI_ARRAY, PLAIN).startswith(b"[{")
    assert body_of(GEMINI_ARRAY, PLAIN).endswith(b"}\n]\n")


@settings(max_examples=30, deadline=None)
@given(usages("cache_read_tokens", "reasoning_tokens"))
def test_any_counts(usage: Usage) -> None:
    """
    Our counts come back as they were: the wire's formula is turned round (contract P4).
    """
    answer = FakeAnswer("Hi.", usage=usage)
    assert_read_back(answer, read("gemini", GEMINI, answer).response)
    assert_read_back(answer, read("gemini-interactions", GEMINI_INTERACTIONS, answer).response)


@settings(max_examples=60, deadline=None)
@given(answers(ANY_TEXT, ANY_THINKING), st.integers(1, 40), st.sampled_from(["sse", "array", "steps"]))
def test_any_answer_in_any_cut(answer: FakeAnswer, cut: int, kind: str) -> None:
    """
    Whatever is said, in whatever pieces and reads.
    """
    name, wire = {"sse": ("gemini", GEMINI), "array": ("gemini", GEMINI_ARRAY), "steps": ("gemini-interactions", GEMINI_INTERACTIONS)}[kind]
    assert_any_cut(name, wire, answer, cut)


@pytest.mark.parametrize("words", REFUSED)
def test_what_gemini_cannot_say(words: str) -> None:
    """
    A part, finish or count without a place in the wire is told by name, streamed and whole.
    """
    with pytest.raises(ConfigurationError, match=words):
        body_of(GEMINI, REFUSED[words])
    assert GEMINI.whole is not None
    with pytest.raises(ConfigurationError, match=words):
        GEMINI.whole(REFUSED[words])


@pytest.mark.parametrize("words", REFUSED_STEPS)
def test_what_interactions_cannot_say(words: str) -> None:
    """
    Likewise.
    """
    with pytest.raises(ConfigurationError, match=words):
        body_of(GEMINI_INTERACTIONS, REFUSED_STEPS[words])


def test_a_note_is_no_decision() -> None:
    """
    A filter that blocked nothing comes before the end and leaves the finish alone; a whole body has no place for it.
    """
    answer = FakeAnswer("Text.", ContentFilterPart("HARM_CATEGORY_HARASSMENT", blocked=False))
    assert_read_back(answer, read("gemini", GEMINI, answer).response)
    assert GEMINI.whole is not None
    with pytest.raises(ConfigurationError, match="only a stream"):
        GEMINI.whole(answer)


@pytest.mark.parametrize("wire", [GEMINI, GEMINI_ARRAY, GEMINI_INTERACTIONS])
def test_pieces_are_marked(wire: Wire) -> None:
    """
    `tokens_per_second` counts them.
    """
    assert_paced(wire)


def test_the_contract() -> None:
    """
    Every case keeps it.
    """
    assert_dialect("gemini", GEMINI, CASES)
    assert_dialect("gemini", GEMINI_ARRAY, {name: CASES[name] for name in ("all", "found", "run")})
    assert_dialect("gemini-interactions", GEMINI_INTERACTIONS, STEPS)


def test_failures() -> None:
    """
    Each wire's own errors, broken frames and refusals.
    """
    assert_failures("gemini", GEMINI)
    assert_failures("gemini", GEMINI_ARRAY)
    assert_failures("gemini-interactions", GEMINI_INTERACTIONS)


def test_a_failed_interaction() -> None:
    """
    The finish error is the status failed, which is a provider's error.
    """
    assert Verdict.PROVIDER_ERROR == read("gemini-interactions", GEMINI_INTERACTIONS, FakeAnswer("Half", finish=FinishReason.ERROR)).verdict


# --- google-genai ---------------------------------------------------------------------------------------------------------------------------------


@contextmanager
def _client(script: Any, dialect: str) -> Iterator[Any]:
    with FakeProvider(script).in_thread() as provider:
        options = types.HttpOptions(base_url=provider.url(dialect).removesuffix("/v1beta"), api_version="v1beta")
        client = genai.Client(api_key="fake-key", http_options=options)
        try:
            yield client
        finally:
            client.close()


def _counted(usage: Any) -> tuple[Any, ...]:
    names = ("prompt_token_count", "candidates_token_count", "thoughts_token_count", "cached_content_token_count", "total_token_count")
    return tuple(getattr(usage, name) for name in names)


def test_google_genai_reads_the_stream() -> None:
    """
    The same text, thoughts, calls, finish and counts.
    """
    with _client(CASES["all"], "gemini") as client:
        chunks = list(client.models.generate_content_stream(model="fake-1", contents="Hi"))
    parts = [part for chunk in chunks for candidate in chunk.candidates or [] for part in (candidate.content and candidate.content.parts) or []]
    assert "Text." == "".join(part.text or "" for part in parts if not part.thought)
    assert "hm, well" == "".join(part.text or "" for part in parts if part.thought)
    calls = [part.function_call for part in parts if part.function_call]
    assert [("call_rome", "weather", {"city": "Róme", "days": 2}), ("call_signed", "weather", {"city": "Rome"})] == [
        (call.id, call.name, call.args) for call in calls
    ]
    assert [b"sig", b"sig"] == [part.thought_signature for part in parts if part.thought_signature]
    last = chunks[-1]
    assert (20, 6, 3, 4, 29) == _counted(last.usage_metadata)
    assert last.candidates is not None
    assert types.FinishReason.STOP == last.candidates[0].finish_reason
    assert ("fake-1", "fake-answer-1") == (last.model_version, last.response_id)


def test_google_genai_reads_the_body_media_and_safety() -> None:
    """
    The answer that is not streamed, with an image, cut by a filter.
    """
    answer = FakeAnswer("Look:", MediaPart("image", "image/png", "aW1n"), SAFETY, finish=FinishReason.CONTENT_FILTER)
    with _client(answer, "gemini") as client:
        read_back = client.models.generate_content(model="fake-1", contents="Hi")
    assert read_back.candidates is not None
    assert read_back.candidates[0].content is not None
    text, image = read_back.candidates[0].content.parts or []
    assert text.text == "Look:"
    assert image.inline_data is not None
    assert (b"img", "image/png") == (image.inline_data.data, image.inline_data.mime_type)
    assert types.FinishReason.SAFETY == read_back.candidates[0].finish_reason
    assert [True] == [rating.blocked for rating in read_back.candidates[0].safety_ratings or []]


def test_google_genai_raises_for_errors() -> None:
    """
    A refusal has its status and words; an error in the middle is raised behind what came before.
    """
    with _client(
        [PLAIN.with_fault(Fault(status=429, message="slow down")), PLAIN.with_fault(Fault(error_after=1, message="it broke"))], "gemini"
    ) as client:
        with pytest.raises(errors.ClientError, match=r"429 RESOURCE_EXHAUSTED.*slow down"):
            list(client.models.generate_content_stream(model="fake-1", contents="Hi"))
        seen: list[str] = []
        with pytest.raises(errors.ServerError, match=r"500 INTERNAL.*it broke"):
            seen.extend(chunk.text or "" for chunk in client.models.generate_content_stream(model="fake-1", contents="Hi"))


def test_google_genai_reads_interactions() -> None:
    """
    Streamed and whole: the same text, thoughts, arguments, status and counts.
    """
    with _client(STEPS["all"], "gemini-interactions") as client:
        events = list(client.interactions.create(model="fake-1", input="Hi", stream=True))
        whole: Any = client.interactions.create(model="fake-1", input="Hi")
    deltas = [event.delta for event in events if event.event_type == "step.delta"]
    assert "Text." == "".join(delta.text for delta in deltas if delta.type == "text")
    assert "hm, well" == "".join(delta.content.text for delta in deltas if delta.type == "thought_summary")
    assert ROME.arguments_text == "".join(delta.arguments for delta in deltas if delta.type == "arguments_delta")
    assert ["c2ln"] == [delta.signature for delta in deltas if delta.type == "thought_signature"]
    assert [None, None, "weather", "now"] == [getattr(event.step, "name", None) for event in events if event.event_type == "step.start"]
    done = events[-1].interaction
    for said in (done, whole):
        assert "requires_action" == said.status
        usage = said.usage
        assert (20, 6, 3, 4, 29) == (
            usage.total_input_tokens,
            usage.total_output_tokens,
            usage.total_thought_tokens,
            usage.total_cached_tokens,
            usage.total_tokens,
        )
    assert "Text." == whole.output_text
    assert [{"city": "Róme", "days": 2}, {}] == [step.arguments for step in whole.steps if step.type == "function_call"]


def test_google_genai_reads_sources() -> None:
    """
    What was found and what it supports, in bytes of the text.
    """
    with _client(CASES["found"], "gemini") as client:
        last = list(client.models.generate_content_stream(model="fake-1", contents="Hi"))[-1].candidates[0]
    grounding = last.grounding_metadata
    assert [("https://x.example", "X"), ("https://y.example", "Y")] == [(chunk.web.uri, chunk.web.title) for chunk in grounding.grounding_chunks]
    assert ["hello"] == grounding.web_search_queries
    supports = [(s.segment.start_index, s.segment.end_index, s.segment.text, s.grounding_chunk_indices) for s in grounding.grounding_supports]
    assert [(1, 7, "rüße", [0]), (9, 13, "Welt", [0])] == supports
