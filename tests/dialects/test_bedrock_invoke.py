"""
The Invoke dialect: every family of models inside AWS frames, and as JSON bodies.
"""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rxchat.errors import DialectError, ProviderError, RxchatError
from rxchat.events import ContentFilter, Raw, TextDelta, TextEnd, TextStart, UsageUpdate
from rxchat.framing.frames import AwsMessage
from rxchat.response import ChatResponse, FinishReason
from tests.dialects.reading import AWS_STREAM, Reading, aws, aws_exception, chunk, chunks, messages, parsed, read, read_everywhere, whole
from tests.grammar import violations

NAME = "bedrock-invoke"
METRICS = {"amazon-bedrock-invocationMetrics": {"inputTokenCount": 3, "outputTokenCount": 4, "invocationLatency": 9}}


def last(value: dict[str, Any], **service: Any) -> dict[str, Any]:
    """
    The last chunk of a stream, with the service's counts.
    """
    return {**value, **METRICS, **service}


# --- families ---------------------------------------------------------------------------------------------------------------------------------------

CLAUDE: list[dict[str, Any]] = [
    {"type": "message_start", "message": {"id": "msg_1", "model": "m-1", "content": [], "usage": {"input_tokens": 7, "output_tokens": 1}}},
    {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
    {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "Hi 🌱"}},
    {"type": "content_block_stop", "index": 0},
    {"type": "content_block_start", "index": 1, "content_block": {"type": "tool_use", "id": "c1", "name": "f", "input": {}}},
    {"type": "content_block_delta", "index": 1, "delta": {"type": "input_json_delta", "partial_json": '{"a":1}'}},
    {"type": "content_block_stop", "index": 1},
    {"type": "message_delta", "delta": {"stop_reason": "tool_use"}, "usage": {"output_tokens": 130}},
    last({"type": "message_stop"}),
]
CLAUDE_BODY: dict[str, Any] = {
    "type": "message",
    "id": "msg_1",
    "model": "m-1",
    "content": [{"type": "text", "text": "Hi 🌱"}, {"type": "tool_use", "id": "c1", "name": "f", "input": {"a": 1}}],
    "stop_reason": "tool_use",
    "usage": {"input_tokens": 7, "output_tokens": 130},
}

NOVA: list[dict[str, Any]] = [
    {"messageStart": {"role": "assistant"}},
    {"contentBlockDelta": {"delta": {"text": "Hi "}, "contentBlockIndex": 0}},
    {"contentBlockStop": {"contentBlockIndex": 0}},
    {"contentBlockDelta": {"delta": {"text": "🌱"}, "contentBlockIndex": 1}},
    {"contentBlockStop": {"contentBlockIndex": 1}},
    {"contentBlockStart": {"start": {"toolUse": {"toolUseId": "c1", "name": "f"}}, "contentBlockIndex": 2}},
    {"contentBlockDelta": {"delta": {"toolUse": {"input": '{"a":1}'}}, "contentBlockIndex": 2}},
    {"contentBlockStop": {"contentBlockIndex": 2}},
    {"messageStop": {"stopReason": "tool_use"}},
    last({"metadata": {"usage": {"inputTokens": 7, "outputTokens": 130}, "metrics": {}, "trace": {}}}),
]
NOVA_BODY: dict[str, Any] = {
    "output": {"message": {"role": "assistant", "content": [{"text": "Hi 🌱"}, {"toolUse": {"toolUseId": "c1", "name": "f", "input": {"a": 1}}}]}},
    "stopReason": "tool_use",
    "usage": {"inputTokens": 7, "outputTokens": 130},
}

OPENAI: list[dict[str, Any]] = [
    {"id": "x", "model": "m-1", "choices": [{"index": 0, "delta": {"role": "assistant", "content": "Hi 🌱"}, "finish_reason": None}]},
    {"id": "x", "model": "m-1", "choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]},
    last({"id": "x", "model": "m-1", "choices": [], "usage": {"prompt_tokens": 7, "completion_tokens": 130}}),
]
OPENAI_BODY: dict[str, Any] = {
    "id": "x",
    "model": "m-1",
    "choices": [{"index": 0, "message": {"role": "assistant", "content": "Hi 🌱"}, "finish_reason": "stop"}],
    "usage": {"prompt_tokens": 7, "completion_tokens": 130},
}

TITAN: list[dict[str, Any]] = [
    {"outputText": "Hi ", "index": 0, "totalOutputTextTokenCount": None, "completionReason": None, "inputTextTokenCount": 7.0},
    last({"outputText": "🌱", "index": 0, "totalOutputTextTokenCount": 130.0, "completionReason": "FINISH", "inputTextTokenCount": None}),
]
TITAN_BODY: dict[str, Any] = {"inputTextTokenCount": 7, "results": [{"tokenCount": 130, "outputText": "Hi 🌱", "completionReason": "FINISH"}]}

LLAMA: list[dict[str, Any]] = [
    {"generation": "Hi ", "prompt_token_count": 7, "generation_token_count": 1, "stop_reason": None},
    {"generation": "", "prompt_token_count": None, "generation_token_count": 2, "stop_reason": None},
    last({"generation": "🌱", "prompt_token_count": None, "generation_token_count": 130, "stop_reason": "stop"}),
]
LLAMA_BODY: dict[str, Any] = {"generation": "Hi 🌱", "prompt_token_count": 7, "generation_token_count": 130, "stop_reason": "stop"}

MISTRAL: list[dict[str, Any]] = [{"outputs": [{"text": "Hi ", "stop_reason": None}]}, last({"outputs": [{"text": "🌱", "stop_reason": "stop"}]})]
MISTRAL_BODY: dict[str, Any] = {"outputs": [{"text": "Hi 🌱", "stop_reason": "stop"}], **METRICS}

COHERE: list[dict[str, Any]] = [
    {"is_finished": False, "text": "Hi "},
    {"is_finished": False, "text": "🌱"},
    last({"finish_reason": "COMPLETE", "is_finished": True}),
]
COHERE_BODY: dict[str, Any] = {"generations": [{"id": "g", "text": "Hi 🌱", "finish_reason": "COMPLETE"}], "prompt": "p", **METRICS}

OLD_CLAUDE: list[dict[str, Any]] = [
    {"completion": "Hi ", "stop_reason": None, "stop": None},
    last({"completion": "🌱", "stop_reason": "stop_sequence", "stop": "\n\nHuman:"}),
]
OLD_CLAUDE_BODY: dict[str, Any] = {"completion": "Hi 🌱", "stop_reason": "stop_sequence", "stop": "\n\nHuman:", **METRICS}

# Cohere's chat models have a dialect of their own, which sees its end in the stream.
COMMAND_R: list[dict[str, Any]] = [
    {"event_type": "stream-start", "is_finished": False, "generation_id": "g"},
    {"event_type": "text-generation", "is_finished": False, "text": "Hi "},
    {"event_type": "text-generation", "is_finished": False, "text": "🌱"},
    last({"event_type": "stream-end", "is_finished": True, "finish_reason": "COMPLETE", "response": {"generation_id": "g", "text": "Hi 🌱"}}),
]

# Pieces as messages with a stop_reason, as Mistral's chat models say them here.
MISTRAL_CHAT: list[dict[str, Any]] = [
    {"choices": [{"index": 0, "message": {"role": "assistant", "content": "Hi "}, "stop_reason": None}]},
    {"choices": [{"index": 0, "message": {"role": "assistant", "content": "🌱"}, "stop_reason": None}]},
    last({"choices": [{"index": 0, "message": {"role": "assistant", "content": ""}, "stop_reason": "stop"}]}),
]
MISTRAL_CHAT_BODY: dict[str, Any] = {
    "choices": [{"index": 0, "message": {"role": "assistant", "content": "Hi 🌱"}, "stop_reason": "stop"}],
    **METRICS,
}

# Family, stream, body, raw reason, counts (input, output): the model's own where it has any.
FAMILIES: list[tuple[str, list[dict[str, Any]], dict[str, Any], str, tuple[int, int]]] = [
    ("claude", CLAUDE, CLAUDE_BODY, "tool_use", (7, 130)),
    ("nova", NOVA, NOVA_BODY, "tool_use", (7, 130)),
    ("openai", OPENAI, OPENAI_BODY, "stop", (7, 130)),
    ("titan", TITAN, TITAN_BODY, "FINISH", (7, 130)),
    ("llama", LLAMA, LLAMA_BODY, "stop", (7, 130)),
    ("mistral", MISTRAL, MISTRAL_BODY, "stop", (3, 4)),
    ("mistral chat", MISTRAL_CHAT, MISTRAL_CHAT_BODY, "stop", (3, 4)),
    ("cohere", COHERE, COHERE_BODY, "COMPLETE", (3, 4)),
    ("old claude", OLD_CLAUDE, OLD_CLAUDE_BODY, "stop_sequence", (3, 4)),
]
IDS = [row[0] for row in FAMILIES]


def facts(response: ChatResponse) -> tuple[Any, ...]:
    usage = response.usage
    counts = (usage.input_tokens, usage.output_tokens) if usage else None
    calls = [(call.id, call.name, call.arguments, call.complete) for call in response.tool_calls]
    return str(response.verdict), response.text, response.finish_reason_raw, counts, calls


@pytest.mark.parametrize(("stream", "body", "raw", "counts"), [row[1:] for row in FAMILIES], ids=IDS)
def test_families(stream: list[dict[str, Any]], body: dict[str, Any], raw: str, counts: tuple[int, int]) -> None:
    """
    Stream and body of every family are one answer, whatever the cut; P4: the model's own counts first.
    """
    calls = [("c1", "f", {"a": 1}, True)] if raw == "tool_use" else []
    streamed = read_everywhere(NAME, chunks(stream), AWS_STREAM)
    assert facts(streamed.response) == ("COMPLETE", "Hi 🌱", raw, counts, calls)
    assert violations(streamed.events) == []
    assert facts(read_everywhere(NAME, json.dumps(body).encode(), "application/json").response) == facts(streamed.response)


@pytest.mark.parametrize("stream", [row[1] for row in FAMILIES], ids=IDS)
def test_the_family_has_its_own_end(stream: list[dict[str, Any]]) -> None:
    """
    P9: the family's end and then a clean end of the body; cut at any byte before that it is never COMPLETE, and the text is a prefix.
    """
    body = chunks(stream)
    for k in range(0, len(body), 17):
        reading = read(NAME, body[:k], AWS_STREAM)
        assert (reading.verdict, violations(reading.events)) == ("INCOMPLETE_STREAM", []) or k >= len(chunks(stream[:-1]))
        assert "Hi 🌱".startswith(reading.response.text)
    assert read(NAME, body, AWS_STREAM, clean_eof=False).verdict == "INCOMPLETE_STREAM"


@pytest.mark.parametrize("stream", [row[1] for row in FAMILIES], ids=IDS)
def test_an_exception_behind_the_end_wins(stream: list[dict[str, Any]]) -> None:
    """
    P9: an exception frame may come to the very last; the answer is there, marked as failed.
    """
    reading = read_everywhere(NAME, chunks(stream) + aws_exception("modelStreamErrorException", {"message": "gone"}), AWS_STREAM)
    assert isinstance(reading.error, ProviderError)
    assert (reading.verdict, reading.response.text, reading.error.code) == ("PROVIDER_ERROR", "Hi 🌱", "modelStreamErrorException")
    assert violations(reading.events) == []
    assert reading.response.usage is not None
    assert reading.response.usage.partial


def test_nova_is_one_text() -> None:
    """
    Nova stops a block behind every piece: it is one block of text all the same.
    """
    reading = read(NAME, chunks(NOVA), AWS_STREAM)
    assert reading.of(TextStart, TextDelta, TextEnd) == [TextStart(), TextDelta("Hi "), TextDelta("🌱"), TextEnd()]


def test_a_delegate_that_knows_its_end() -> None:
    """
    The end is held back until the body has ended: the service's counts still come before it, later chunks are unknown, a late exception wins.
    """
    reading = read_everywhere(NAME, chunks([*COMMAND_R, {"event_type": "x"}]), AWS_STREAM)
    assert facts(reading.response) == ("COMPLETE", "Hi 🌱", "COMPLETE", (3, 4), [])
    assert (reading.of(Raw), violations(reading.events)) == ([Raw("chunk", {"event_type": "x"})], [])
    assert read(NAME, chunks(COMMAND_R) + aws_exception("internalServerException", {}), AWS_STREAM).verdict == "PROVIDER_ERROR"


def test_a_delegate_that_aborts() -> None:
    """
    D7: what its dialect calls an abort is one, with the step closed before it; nothing behind it is read.
    """
    cancelled = {"event_type": "stream-end", "is_finished": True, "finish_reason": "USER_CANCEL"}
    reading = read_everywhere(NAME, chunks([*COMMAND_R[:-1], cancelled, *COMMAND_R]), AWS_STREAM)
    assert [event.type for event in reading.events[-2:]] == ["STEP_END", "ABORT"]
    assert (reading.error, str(reading.response.verdict), reading.response.text) == (None, "ABORTED", "Hi 🌱")
    assert violations(reading.events) == []


def test_a_citation_of_nova() -> None:
    """
    Where the text has no block of its own, its citations name none.
    """
    cited = {"contentBlockDelta": {"delta": {"citation": {"location": {"web": {"url": "https://a.example"}}}}, "contentBlockIndex": 1}}
    (citation,) = read(NAME, chunks([NOVA[0], cited, *NOVA[1:]]), AWS_STREAM).response.citations
    assert (citation.url, citation.index) == ("https://a.example", None)


# --- completions ------------------------------------------------------------------------------------------------------------------------------------

FINISHES = [
    ({"outputText": "x", "completionReason": "FINISHED"}, FinishReason.STOP, "COMPLETE"),
    ({"outputText": "x", "completionReason": "LENGTH"}, FinishReason.LENGTH, "INCOMPLETE_FINISH"),
    ({"outputText": "x", "completionReason": "CONTENT_FILTERED"}, FinishReason.CONTENT_FILTER, "INCOMPLETE_FINISH"),
    ({"outputText": "x", "completionReason": "RAG_QUERY_WHEN_RAG_DISABLED"}, FinishReason.OTHER, "INCOMPLETE_FINISH"),
    ({"generation": "x", "stop_reason": "length"}, FinishReason.LENGTH, "INCOMPLETE_FINISH"),
    ({"completion": "x", "stop_reason": "max_tokens"}, FinishReason.LENGTH, "INCOMPLETE_FINISH"),
    ({"text": "x", "is_finished": True, "finish_reason": "MAX_TOKENS"}, FinishReason.LENGTH, "INCOMPLETE_FINISH"),
    ({"text": "x", "is_finished": True, "finish_reason": "ERROR_TOXIC"}, FinishReason.CONTENT_FILTER, "INCOMPLETE_FINISH"),
    ({"text": "x", "is_finished": True}, FinishReason.UNKNOWN, "INCOMPLETE_FINISH"),
]


@pytest.mark.parametrize(("value", "reason", "verdict"), FINISHES)
def test_finish_reasons(value: dict[str, Any], reason: FinishReason, verdict: str) -> None:
    """
    V3: each family has its own exact table; V7: what was filtered says so.
    """
    reading = read_everywhere(NAME, chunks([value]), AWS_STREAM)
    assert (reading.response.text, reading.response.finish_reason, str(reading.response.verdict)) == ("x", reason, verdict)
    assert len(reading.of(ContentFilter)) == (reason is FinishReason.CONTENT_FILTER)


def test_a_finish_that_is_a_failure() -> None:
    """
    P2: what the provider itself calls a failure is PROVIDER_ERROR.
    """
    reading = read_everywhere(NAME, chunks([{"text": "x", "is_finished": False}, {"is_finished": True, "finish_reason": "ERROR"}]), AWS_STREAM)
    assert reading.error is not None
    assert (reading.verdict, reading.error.code, reading.response.text, reading.response.finish_reason_raw) == (
        "PROVIDER_ERROR",
        "ERROR",
        "x",
        "ERROR",
    )


def test_generations_interleave() -> None:
    """
    P13: the first generation is the answer, the others are alternatives with their own finish.
    """
    stream = [
        {"index": 0, "text": "a", "is_finished": False},
        {"index": 1, "text": "b", "is_finished": False},
        {"index": 1, "text": "c", "is_finished": False},
        {"index": 1, "is_finished": True, "finish_reason": "MAX_TOKENS"},
        last({"index": 0, "is_finished": True, "finish_reason": "COMPLETE"}),
    ]
    response = read_everywhere(NAME, chunks(stream), AWS_STREAM).response
    (other,) = response.alternatives
    assert (response.text, str(response.verdict)) == ("a", "COMPLETE")
    assert (other.text, other.choice, other.finish_reason, str(other.verdict)) == ("bc", 1, FinishReason.LENGTH, "INCOMPLETE_FINISH")


def test_text_behind_the_finish_is_counted() -> None:
    """
    V8: accepted and counted.
    """
    response = read(NAME, chunks([*LLAMA, {"generation": "!"}]), AWS_STREAM).response
    assert (response.text, response.after_finish) == ("Hi 🌱!", 1)


def test_the_stop_of_an_old_claude() -> None:
    """
    The sequence that stopped it is kept.
    """
    assert read(NAME, chunks(OLD_CLAUDE), AWS_STREAM).response.metadata == {"stop_sequence": "\n\nHuman:"}


# --- counts -----------------------------------------------------------------------------------------------------------------------------------------


def test_metrics_fill_in_what_the_model_does_not_count() -> None:
    """
    P4: field by field; with the cache counted apart by the service as well.
    """
    metrics = {"inputTokenCount": 3, "outputTokenCount": 4, "cacheReadInputTokenCount": 2, "cacheWriteInputTokenCount": 1}
    stream = [
        {"generation": "x", "generation_token_count": 9},
        {"generation": "", "stop_reason": "stop", "amazon-bedrock-invocationMetrics": metrics},
    ]
    reading = read(NAME, chunks(stream), AWS_STREAM)
    usage = reading.response.usage
    assert usage is not None
    assert (usage.input_tokens, usage.output_tokens, usage.cache_read_tokens, usage.cache_write_tokens) == (6, 9, 2, 1)
    assert len(reading.of(UsageUpdate)) == 2


def test_metrics_of_nobody() -> None:
    """
    Counts of the service alone make no answer.
    """
    reading = read_everywhere(NAME, chunks([METRICS]), AWS_STREAM)
    assert (reading.verdict, reading.of(UsageUpdate)) == ("INCOMPLETE_STREAM", [])


# --- guardrails -------------------------------------------------------------------------------------------------------------------------------------


def trace(**finding: Any) -> dict[str, Any]:
    return {"amazon-bedrock-trace": {"guardrail": {"outputs": [{"g": {"topicPolicy": {"topics": [finding]}}}]}}}


ACTION = {"amazon-bedrock-guardrailAction": "INTERVENED"}
UNENDED = {"outputText": "Sorry.", "index": 0, "completionReason": None}
MASK = trace(type="EMAIL", action="ANONYMIZED")
BLOCK = trace(type="DENY", action="BLOCKED")

GUARDED: list[tuple[str, list[dict[str, Any]], str, FinishReason, list[ContentFilter]]] = [
    ("in the model's place", [{**UNENDED, **ACTION}], "INTERVENED", FinishReason.CONTENT_FILTER, [ContentFilter("guardrail", blocked=True)]),
    ("with a trace", [{**UNENDED, **ACTION, **BLOCK}], "INTERVENED", FinishReason.CONTENT_FILTER, [ContentFilter("DENY", blocked=True)]),
    ("masked only", [{**TITAN[1], **ACTION, **MASK}], "FINISH", FinishReason.STOP, [ContentFilter("EMAIL")]),
    ("nothing done", [{**TITAN[1], "amazon-bedrock-guardrailAction": "NONE"}], "FINISH", FinishReason.STOP, []),
    ("of a claude", [*CLAUDE[:4], ACTION], "INTERVENED", FinishReason.CONTENT_FILTER, [ContentFilter("guardrail", blocked=True)]),
    ("of a nova", [*NOVA[:4], ACTION], "INTERVENED", FinishReason.CONTENT_FILTER, [ContentFilter("guardrail", blocked=True)]),
    ("of an unfinished delegate", [OPENAI[0], ACTION], "INTERVENED", FinishReason.CONTENT_FILTER, [ContentFilter("guardrail", blocked=True)]),
    ("of a delegate", [*OPENAI, ACTION], "INTERVENED", FinishReason.CONTENT_FILTER, [ContentFilter("guardrail", blocked=True)]),
]


@pytest.mark.parametrize(("stream", "raw", "reason", "filters"), [row[1:] for row in GUARDED], ids=[row[0] for row in GUARDED])
def test_guardrails(stream: list[dict[str, Any]], raw: str, reason: FinishReason, filters: list[ContentFilter]) -> None:
    """
    V7: a guardrail that blocked ends the answer, where the model says no reason any more too; masking decides nothing.
    """
    reading = read_everywhere(NAME, chunks(stream), AWS_STREAM)
    assert (reading.error, reading.response.finish_reason_raw, reading.response.finish_reason) == (None, raw, reason)
    assert reading.of(ContentFilter) == filters


def test_a_guarded_body() -> None:
    """
    The body says it in the same words.
    """
    body = {"inputTextTokenCount": 7, "results": [{"outputText": "Sorry.", "completionReason": None}], **ACTION}
    response = read(NAME, json.dumps(body).encode(), "application/json").response
    assert (response.text, response.finish_reason) == ("Sorry.", FinishReason.CONTENT_FILTER)


# --- faults -----------------------------------------------------------------------------------------------------------------------------------------


def tampered(payload: Any) -> list[AwsMessage]:
    return [*messages(chunk(LLAMA[0])), *messages(("chunk", payload))]  # type: ignore[list-item]


MALFORMED = [
    ("no bytes", {"p": "x"}),
    ("bytes that are no base64", {"bytes": "?"}),
    ("bytes that are no text", {"bytes": 5}),
    ("a payload that is a list", []),
    ("a chunk that is a list", chunk([1])[1]),
    ("a text that is a number", chunk({"generation": 5})[1]),
]


@pytest.mark.parametrize("payload", [row[1] for row in MALFORMED], ids=[row[0] for row in MALFORMED])
def test_chunks_that_are_malformed(payload: Any) -> None:
    """
    E11: they break the stream as PROTOCOL, with all before them delivered.
    """
    reading = parsed(NAME, tampered(payload))
    assert isinstance(reading.error, DialectError)
    assert reading.of(TextDelta) == [TextDelta("Hi ")]


def test_invalid_json_inside() -> None:
    """
    B4 holds inside the base64, B1 too; the offset is in the payload of that frame.
    """
    for broken in (b'{"generation":"x",}', b'{"generation":"\xff"}'):
        reading = read_everywhere(NAME, aws(chunk(LLAMA[0])) + aws(chunk(broken)), AWS_STREAM)
        assert reading.error is not None
        assert reading.verdict in ("INVALID_JSON", "INVALID_UTF8")
        assert reading.error.offset is not None
        assert reading.error.offset > len(aws(chunk(LLAMA[0])))


UNKNOWN: list[tuple[str, list[Any], Raw]] = [
    ("an event that is no chunk", [("weather", {"wind": 3})], Raw("weather", {"wind": 3})),
    ("a chunk of nobody", [chunk({"hologram": 1})], Raw("chunk", {"hologram": 1})),
    ("a claude's frame without a type", [chunk(CLAUDE[0]), chunk({"hologram": 1})], Raw("chunk", {"hologram": 1})),
    ("a nova's unknown event", [chunk(NOVA[0]), chunk({"hologram": 1})], Raw("hologram", 1)),
]


@pytest.mark.parametrize(("events", "expected"), [row[1:] for row in UNKNOWN], ids=[row[0] for row in UNKNOWN])
def test_unknown_words_pass(events: list[Any], expected: Raw) -> None:
    """
    E11: what nobody knows is Raw.
    """
    assert Reading.of(parsed(NAME, messages(*events)), Raw) == [expected]


def test_unknown_words_first_do_not_hide_the_family() -> None:
    """
    The family is known by the first chunk that tells.
    """
    assert read(NAME, chunks([{"hologram": 1}, *LLAMA]), AWS_STREAM).verdict == "COMPLETE"


@pytest.mark.parametrize("before", [[], LLAMA[:1], CLAUDE[:3], OPENAI[:1]])
def test_an_error_inside_a_chunk(before: list[dict[str, Any]]) -> None:
    """
    An error object is an error in every family.
    """
    reading = read_everywhere(NAME, chunks([*before, {"error": {"message": "down", "code": 503}}]), AWS_STREAM)
    assert reading.error is not None
    assert (reading.verdict, reading.error.message, reading.error.code) == ("PROVIDER_ERROR", "down", 503)
    assert violations(reading.events) == []


BAD_BODIES = [
    ([1], "PROTOCOL"),
    ({"hologram": 1}, "PROTOCOL"),
    ({"message": "no", "code": 400}, "PROVIDER_ERROR"),
    ({"generation": "x", "stop_reason": None}, "INCOMPLETE_STREAM"),
]


@pytest.mark.parametrize(("body", "verdict"), BAD_BODIES)
def test_bodies_that_are_no_answer(body: Any, verdict: str) -> None:
    """
    A body is an answer of some family, or an error, or a fault.
    """
    assert parsed(NAME, whole(body)).verdict == verdict


# --- properties -------------------------------------------------------------------------------------------------------------------------------------

scraps = st.recursive(
    st.none() | st.booleans() | st.integers(-1, 3) | st.sampled_from(["", "x", "stop", "INTERVENED"]),
    lambda inner: (
        st.lists(inner, max_size=2)
        | st.dictionaries(
            st.sampled_from(
                ["text", "index", "outputs", "outputText", "completion", "stop_reason", "choices", "delta", "type", "amazon-bedrock-trace"]
            ),
            inner,
            max_size=4,
        )
    ),
    max_leaves=6,
)


@given(st.sampled_from([row[1] for row in FAMILIES]).flatmap(lambda stream: st.lists(st.sampled_from(stream) | scraps, max_size=8)))
def test_any_chunks(values: list[Any]) -> None:
    """
    Chunks in any order, whole or not: events of the grammar, or an error of ours.
    """
    reading = read(NAME, chunks(values), AWS_STREAM)
    assert violations(reading.events) == []
    assert reading.error is None or isinstance(reading.error, RxchatError)


def test_padding_is_no_matter() -> None:
    """
    The random padding beside the bytes says nothing.
    """
    plain = [("chunk", {"bytes": base64.b64encode(json.dumps(value).encode()).decode()}) for value in LLAMA]
    assert read(NAME, aws(*plain), AWS_STREAM).response == read(NAME, chunks(LLAMA), AWS_STREAM).response
