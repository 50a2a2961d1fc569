"""
Cohere's chat, v2 and v1.
"""

from __future__ import annotations

import json
from typing import Any

import pytest

from rxchat.errors import DialectError, IncompleteStreamError, ProviderError
from rxchat.events import Abort, Citation, ContentFilter, Raw, SearchResult, ServerToolStart
from rxchat.response import FinishReason
from tests.dialects.reading import Reading, read, read_everywhere, sse

V1 = "application/stream+json"
USAGE = {
    "billed_units": {"input_tokens": 2, "output_tokens": 1},
    "tokens": {"input_tokens": 70, "output_tokens": 9, "reasoning_tokens": 4},
    "cached_tokens": 6,
}
START = {"id": "co-1", "type": "message-start", "delta": {"message": {"role": "assistant", "content": []}}}


def at(kind: str, index: int = 0, **message: Any) -> dict[str, Any]:
    return {"type": kind, "index": index, "delta": {"message": message}}


def end(reason: str | None = "COMPLETE", **said: Any) -> dict[str, Any]:
    return {"type": "message-end", "delta": {"finish_reason": reason, "usage": USAGE, **said}}


def content(text: str, index: int = 0, kind: str = "text") -> list[dict[str, Any]]:
    halves = [text[:2], text[2:]]
    deltas = [at("content-delta", index, content={kind: half}) for half in halves]
    return [at("content-start", index, content={"type": kind, kind: ""}), *deltas, at("content-end", index)]


def call(index: int, call_id: str, name: str, *pieces: str) -> list[dict[str, Any]]:
    start = at("tool-call-start", index, tool_calls={"id": call_id, "type": "function", "function": {"name": name, "arguments": ""}})
    deltas = [at("tool-call-delta", index, tool_calls={"function": {"arguments": piece}}) for piece in pieces]
    return [start, *deltas, {"type": "tool-call-end", "index": index}]


def v2(*values: Any) -> Reading:
    return read_everywhere("cohere", sse(*values))


def v1(*values: Any) -> Reading:
    return read_everywhere("cohere-v1", lines(*values), V1)


def lines(*values: Any) -> bytes:
    return "".join(json.dumps(value) + "\n" for value in values).encode()


# --- v2 -------------------------------------------------------------------------------------------------------------------------------------------


def test_text_thinking_usage() -> None:
    """
    Blocks by index; tokens count, what was billed stays in the raw object; the id is the message's.
    """
    got = v2(START, *content("think", 0, "thinking"), *content("Hello", 1), end(), b"data: [DONE]\n\n")
    assert (got.verdict, got.response.thinking, got.response.text) == ("COMPLETE", "think", "Hello")
    assert got.response.provider_response_id == "co-1"
    usage = got.response.usage
    assert usage is not None
    assert (usage.input_tokens, usage.output_tokens, usage.reasoning_tokens, usage.cache_read_tokens, usage.total_tokens) == (70, 9, 4, 6, 79)
    assert usage.raw[0]["billed_units"]["input_tokens"] == 2


def test_plan_and_parallel_calls() -> None:
    """
    The plan is thinking; calls end when the provider ends them; no arguments are {}.
    """
    got = v2(
        START,
        at("tool-plan-delta", tool_plan="I "),
        at("tool-plan-delta", tool_plan="will."),
        *call(0, "a", "time", '{"in', '": 1}'),
        *call(1, "b", "now"),
        end("TOOL_CALL"),
    )
    assert got.verdict == "COMPLETE"
    assert (got.response.thinking, got.response.finish_reason) == ("I will.", FinishReason.TOOL_CALLS)
    assert [(each.id, each.name, each.arguments, each.complete) for each in got.response.tool_calls] == [
        ("a", "time", {"in": 1}, True),
        ("b", "now", {}, True),
    ]


def test_call_cut_by_length() -> None:
    """
    A call that a length limit cut is not complete, and its arguments are not made up (contract N7, P3).
    """
    got = v2(START, *call(0, "a", "time", '{"in'), end("MAX_TOKENS"))
    assert got.verdict == "INCOMPLETE_FINISH"
    assert [(each.complete, each.arguments, each.arguments_text) for each in got.response.tool_calls] == [(False, None, '{"in')]


def test_citations() -> None:
    """
    One citation a source, with its place in the text block; one without source too; the end of a citation says nothing new.
    """
    document = {"type": "document", "id": "d:0", "document": {"title": "T", "url": "https://e.org"}}
    tool = {"type": "tool", "id": "t:1", "tool_output": {"title": "O"}}
    cite = {"start": 0, "end": 2, "text": "He", "sources": [document, tool], "content_index": 1}
    got = v2(
        START,
        *content("Hello", 1),
        at("citation-start", citations=cite),
        {"type": "citation-end", "index": 0},
        at("citation-start", 1, citations={"text": "lo"}),
        end(),
    )
    assert got.of(Citation) == [
        Citation("https://e.org", "T", "He", "d:0", 1, 0, 2),
        Citation(None, "O", "He", "t:1", 1, 0, 2),
        Citation(quoted="lo"),
    ]


@pytest.mark.parametrize(
    ("reason", "finish", "verdict"),
    [
        ("COMPLETE", FinishReason.STOP, "COMPLETE"),
        ("STOP_SEQUENCE", FinishReason.STOP, "COMPLETE"),
        ("MAX_TOKENS", FinishReason.LENGTH, "INCOMPLETE_FINISH"),
        ("ERROR_TOXIC", FinishReason.CONTENT_FILTER, "INCOMPLETE_FINISH"),
        ("ERROR", FinishReason.ERROR, "PROVIDER_ERROR"),
        ("TIMEOUT", FinishReason.ERROR, "PROVIDER_ERROR"),
        ("NOVEL", FinishReason.OTHER, "INCOMPLETE_FINISH"),
        (None, FinishReason.UNKNOWN, "INCOMPLETE_FINISH"),
    ],
)
def test_finish(reason: str | None, finish: FinishReason, verdict: str) -> None:
    """
    Finish words by the table; a failing one is the provider's error.
    """
    got = v2(START, *content("Hello"), end(reason))
    assert (got.response.finish_reason, got.response.finish_reason_raw, got.verdict) == (finish, reason, verdict)
    assert bool(got.of(ContentFilter)) == (finish is FinishReason.CONTENT_FILTER)


def test_error_at_the_end() -> None:
    """
    The wire's own words are the error's; the partial answer has what came.
    """
    got = v2(START, at("tool-plan-delta", tool_plan="P"), end("ERROR", error="invalid tool generation", error_type="INVALID_TOOL_GENERATION"))
    assert isinstance(got.error, ProviderError)
    assert (got.error.message, got.error.code, got.error.type) == ("invalid tool generation", "INVALID_TOOL_GENERATION", "INVALID_TOOL_GENERATION")
    assert got.response.thinking == "P"


def test_cancelled_by_the_user() -> None:
    """
    USER_CANCEL aborts: no error, no answer.
    """
    got = v2(START, *content("Hello"), end("USER_CANCEL"))
    assert isinstance(got.events[-1], Abort)
    assert (got.verdict, got.response.text) == ("ABORTED", "Hello")


def test_unknown_things() -> None:
    """
    Unknown events and content types are Raw; log probabilities are kept.
    """
    novel = at("content-start", 3, content={"type": "hologram"})
    got = v2(START, {"type": "debug", "prompt": "x"}, novel, {**content("Hello")[1], "logprobs": {"token_ids": [1]}}, end())
    assert [event.name for event in got.of(Raw) if isinstance(event, Raw)] == ["debug", "content hologram"]
    assert got.response.metadata["logprobs"] == [{"token_ids": [1]}]
    assert (got.verdict, got.response.text) == ("COMPLETE", "He")


@pytest.mark.parametrize(
    "body", [b'data: {"message": "boom"}\n\n', b'data: {"error": {"message": "boom"}}\n\n', b'{"message": "boom", "error": "boom"}\n']
)
def test_error_objects(body: bytes) -> None:
    """
    An error object in the stream, in a frame or bare, is the provider's error.
    """
    got = read_everywhere("cohere", sse(START) + body)
    assert isinstance(got.error, ProviderError)
    assert got.error.message == "boom"


@pytest.mark.parametrize(
    "value",
    [
        b"data: 3\n\n",
        at("content-delta", content={"text": 3}),
        at("tool-call-start", tool_calls={"id": "a", "function": {}}),
        at("tool-call-delta", 7, tool_calls={"function": {"arguments": "x"}}),
        at("tool-plan-delta", tool_plan=[]),
    ],
)
def test_malformed(value: Any) -> None:
    """
    A known frame that is not as it should be is a DialectError.
    """
    assert isinstance(read("cohere", sse(START, value)).error, DialectError)


def test_stray_and_ends() -> None:
    """
    A stray line changes nothing; only message-end ends an answer.
    """
    assert v2(START, b"hello: there\n\n", *content("Hello"), end()).verdict == "COMPLETE"
    assert isinstance(v2(START, *content("Hello")).error, IncompleteStreamError)
    assert isinstance(v2(START, *content("Hello"), sse(end())[:-1]).error, IncompleteStreamError)


def test_whole_body() -> None:
    """
    The JSON body gives the answer of its stream.
    """
    source = {"type": "document", "id": "d", "document": {"title": "T"}}
    cite = {"start": 0, "end": 2, "text": "He", "sources": [source], "content_index": 0}
    calls = [{"id": "a", "type": "function", "function": {"name": "f", "arguments": '{"x":1}'}}]
    message = {"role": "assistant", "tool_plan": "P", "content": [{"type": "text", "text": "Hello"}], "tool_calls": calls, "citations": [cite]}
    body = {"id": "co-1", "finish_reason": "TOOL_CALL", "message": message, "usage": USAGE, "logprobs": [1]}
    whole = read_everywhere("cohere", json.dumps(body).encode(), "application/json")
    streamed = v2(
        START,
        at("tool-plan-delta", tool_plan="P"),
        *content("Hello"),
        *call(0, "a", "f", '{"x":1}'),
        at("citation-start", citations=cite),
        end("TOOL_CALL"),
    )
    assert whole.verdict == "COMPLETE"
    assert whole.response.parts == streamed.response.parts
    assert whole.response.usage == streamed.response.usage
    assert isinstance(read("cohere", b'{"id": "x"}', "application/json").error, DialectError)


# --- v1 -------------------------------------------------------------------------------------------------------------------------------------------

V1_START = {"is_finished": False, "event_type": "stream-start", "generation_id": "g-1"}


def v1_end(reason: str = "COMPLETE", **response: Any) -> dict[str, Any]:
    meta = {"billed_units": {"input_tokens": 1}, "tokens": {"input_tokens": 7, "output_tokens": 2}}
    return {"is_finished": True, "event_type": "stream-end", "finish_reason": reason, "response": {"text": "all", "meta": meta, **response}}


def said(text: str) -> dict[str, Any]:
    return {"is_finished": False, "event_type": "text-generation", "text": text}


def test_v1_text() -> None:
    """
    The text of the last line repeats and is not counted again; the id is the generation's.
    """
    got = v1(V1_START, said("Pel"), said("ly"), said(""), v1_end())
    assert (got.verdict, got.response.text, got.response.provider_response_id) == ("COMPLETE", "Pelly", "g-1")
    assert got.response.usage is not None
    assert (got.response.usage.input_tokens, got.response.usage.total_tokens) == (7, 9)


def test_v1_search_and_citations() -> None:
    """
    Queries, hits and citations by document.
    """
    document = {"id": "d1", "url": "https://e.org", "title": "T", "snippet": "s"}
    got = v1(
        V1_START,
        {"event_type": "search-queries-generation", "search_queries": [{"text": "q"}]},
        {"event_type": "search-results", "documents": [document]},
        said("Pel"),
        {"event_type": "citation-generation", "citations": [{"start": 0, "end": 3, "text": "Pel", "document_ids": ["d1", "dx"]}]},
        v1_end(),
    )
    assert got.of(ServerToolStart) == [ServerToolStart("search_queries", payload=[{"text": "q"}])]
    assert got.of(SearchResult) == [SearchResult("https://e.org", "T", "s")]
    assert got.of(Citation) == [Citation("https://e.org", "T", "Pel", "d1", None, 0, 3), Citation(None, None, "Pel", "dx", None, 0, 3)]


def test_v1_calls() -> None:
    """
    Calls come in pieces or whole; whole ones that were pieced together are not doubled.
    """
    calls = [{"name": "f", "parameters": {"x": 1}}, {"name": "g", "parameters": {}}]
    got = v1(
        V1_START,
        {"event_type": "tool-calls-chunk", "text": "Plan"},
        {"event_type": "tool-calls-chunk", "tool_call_delta": {"index": 0, "name": "f"}},
        {"event_type": "tool-calls-chunk", "tool_call_delta": {"index": 0, "parameters": '{"x":1}'}},
        {"event_type": "tool-calls-generation", "tool_calls": calls},
        v1_end(tool_calls=calls),
    )
    assert (got.verdict, got.response.thinking) == ("COMPLETE", "Plan")
    assert [(each.name, each.arguments, each.complete) for each in got.response.tool_calls] == [("f", {"x": 1}, True), ("g", {}, True)]


def test_v1_whole_body() -> None:
    """
    One object without streaming.
    """
    body = {"generation_id": "g-1", "text": "Pelly", "finish_reason": "COMPLETE", "meta": {"tokens": {"input_tokens": 7, "output_tokens": 2}}}
    whole = read_everywhere("cohere-v1", json.dumps(body).encode(), "application/json")
    streamed = v1(V1_START, said("Pelly"), v1_end())
    assert (whole.verdict, whole.response.parts) == ("COMPLETE", streamed.response.parts)
    assert whole.response.usage is not None
    assert isinstance(read("cohere-v1", b'{"id": "x"}', "application/json").error, DialectError)


def test_v1_ends_and_errors() -> None:
    """
    `is_finished` alone ends an answer; an error line fails it; an unknown event is Raw.
    """
    assert v1(V1_START, {"event_type": "novel"}, said("a"), {"is_finished": True, "finish_reason": "COMPLETE"}).verdict == "COMPLETE"
    assert isinstance(v1(V1_START, said("a")).error, IncompleteStreamError)
    assert isinstance(v1(V1_START, {"message": "boom"}).error, ProviderError)
    assert isinstance(v1(V1_START, 3).error, DialectError)
    assert isinstance(v1(V1_START, v1_end("ERROR_LIMIT")).error, ProviderError)
