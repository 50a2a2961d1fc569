"""
The Converse dialect: AWS frames to events, then bodies to answers.
"""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rxchat.errors import DialectError, ProviderError, RxchatError
from rxchat.events import (
    ChatEvent,
    Citation,
    ContentFilter,
    MediaDone,
    Raw,
    ResponseEnd,
    ServerToolArgsDelta,
    ServerToolResult,
    ServerToolStart,
    StepEnd,
    StepStart,
    TextDelta,
    TextEnd,
    ThinkingDelta,
    ThinkingEnd,
    ThinkingRedacted,
    ThinkingSignature,
    ToolCallArgsDelta,
    ToolCallEnd,
    ToolCallStart,
    UsageUpdate,
)
from rxchat.framing.frames import AwsMessage
from rxchat.response import FinishReason, ToolCall
from tests.dialects.reading import AWS_STREAM, Reading, aws, aws_exception, aws_frame, messages, parsed, read, read_everywhere, whole
from tests.grammar import violations

NAME = "bedrock-converse"

Named = tuple[str, Any]

START: Named = ("messageStart", {"role": "assistant", "p": "abc"})
META: Named = ("metadata", {"usage": {"inputTokens": 12, "outputTokens": 5, "totalTokens": 17}, "metrics": {"latencyMs": 9}})


def opens(index: int, **start: Any) -> Named:
    return "contentBlockStart", {"contentBlockIndex": index, "start": start}


def grows(index: int, **delta: Any) -> Named:
    return "contentBlockDelta", {"contentBlockIndex": index, "delta": delta, "p": "abcdef"}


def stops(index: int) -> Named:
    return "contentBlockStop", {"contentBlockIndex": index}


def ends(reason: str | None = "end_turn", **said: Any) -> Named:
    return "messageStop", {"stopReason": reason, **said}


def call(index: int, call_id: str, *pieces: str) -> list[Named]:
    start = {"toolUseId": call_id, "name": "f"}
    return [opens(index, toolUse=start), *(grows(index, toolUse={"input": piece}) for piece in pieces), stops(index)]


def text(index: int, *pieces: str) -> list[Named]:
    return [*(grows(index, text=piece) for piece in pieces), stops(index)]


def answer(*events: Named) -> Reading:
    return parsed(NAME, messages(START, *events, ends(), META))


def said(reading: Reading) -> list[ChatEvent]:
    return [event for event in reading.events if not isinstance(event, (StepStart, StepEnd, ResponseEnd, UsageUpdate))]


def ended(order: int, call_id: str) -> ToolCallEnd:
    return ToolCallEnd(ToolCall(id=call_id, name="f", index=order, complete=True))


def b64(data: bytes) -> str:
    return base64.b64encode(data).decode()


# --- frames to events -------------------------------------------------------------------------------------------------------------------------------

SERVER = {"toolUseId": "s1", "name": "nova_grounding", "type": "server_tool_use"}
RESULT = {"toolUseId": "s1", "type": "nova_grounding_result", "status": "error"}
WEB = {"title": "A", "location": {"web": {"url": "https://a.example", "domain": "a.example"}}}
DOCUMENT = {"title": "facts", "source": "facts.txt", "sourceContent": [{"text": "The "}, {"text": "sky"}], "location": {"documentChar": {"start": 0}}}

BLOCKS: list[tuple[str, list[Named], list[ChatEvent]]] = [
    ("text, never announced", text(0, "Hel", "lo"), [TextDelta("Hel", 0), TextDelta("lo", 0), TextEnd(0)]),
    ("an empty block", text(0, ""), [TextEnd(0)]),
    ("an announced block with an empty start", [opens(0), *text(0, "x")], [TextDelta("x", 0), TextEnd(0)]),
    ("no start at all", [("contentBlockStart", {"contentBlockIndex": 0, "start": None}), *text(0, "x")], [TextDelta("x", 0), TextEnd(0)]),
    (
        "reasoning, its signature last",
        [grows(0, reasoningContent={"text": "Hm"}), grows(0, reasoningContent={"signature": "ab"}), stops(0)],
        [ThinkingDelta("Hm", 0), ThinkingSignature("ab", 0), ThinkingEnd(0)],
    ),
    ("redacted reasoning", [grows(0, reasoningContent={"redactedContent": "AAA="}), stops(0)], [ThinkingRedacted("AAA=", 0)]),
    (
        "redacted reasoning in pieces",
        [grows(0, reasoningContent={"redactedContent": b64(b"ab")}), grows(0, reasoningContent={"redactedContent": b64(b"c")}), stops(0)],
        [ThinkingRedacted(b64(b"abc"), 0)],
    ),
    ("redacted reasoning nobody stops", [grows(0, reasoningContent={"redactedContent": "AAA="})], [ThinkingRedacted("AAA=", 0)]),
    (
        "a call in pieces",
        call(1, "c1", "", '{"a":', "1}"),
        [ToolCallStart("c1", "f", 0), ToolCallArgsDelta('{"a":', "c1", 0), ToolCallArgsDelta("1}", "c1", 0), ended(0, "c1")],
    ),
    ("a call without arguments", call(1, "c1", ""), [ToolCallStart("c1", "f", 0), ended(0, "c1")]),
    (
        "a server tool and its result",
        [
            opens(0, toolUse=SERVER),
            grows(0, toolUse={"input": '{"q":1}'}),
            stops(0),
            opens(1, toolResult=RESULT),
            grows(1, toolResult=[{"text": "a"}]),
            grows(1, toolResult=[{"json": {"b": 1}}]),
            stops(1),
        ],
        [
            ServerToolStart("server_tool_use", "s1", "nova_grounding"),
            ServerToolArgsDelta("server_tool_use", '{"q":1}', "s1"),
            ServerToolResult("nova_grounding_result", "s1", {**RESULT, "content": [{"text": "a"}, {"json": {"b": 1}}]}, is_error=True),
        ],
    ),
    (
        "a result nobody stops, of no type",
        [opens(1, toolResult={"toolUseId": "s1"})],
        [ServerToolResult("tool_result", "s1", {"toolUseId": "s1", "content": []})],
    ),
    ("a web citation", [grows(0, citation=WEB)], [Citation(url="https://a.example", title="A", index=0)]),
    ("a document's citation", [grows(0, citation=DOCUMENT)], [Citation(title="facts", quoted="The sky", file="facts.txt", index=0)]),
    ("a source that is a URL", [grows(0, citation={"source": "https://b.example"})], [Citation(url="https://b.example", index=0)]),
    (
        "an image",
        [opens(0, image={"format": "png"}), grows(0, image={"source": {"bytes": "AAAA"}}), stops(0)],
        [MediaDone("image", "image/png", "AAAA")],
    ),
    ("an image that failed", [opens(0, image={}), grows(0, image={"error": {}}), stops(0)], [Raw("image", {"error": {}})]),
    ("an unknown delta", [grows(0, hologram={"v": 1})], [Raw("hologram", {"v": 1})]),
    ("an unknown start", [opens(0, hologram=1), *text(0, "x")], [Raw("hologram", 1), TextDelta("x", 0), TextEnd(0)]),
    ("a delta that says null", [grows(0, text=None)], []),
    ("an unknown event", [("weather", {"wind": 3})], [Raw("weather", {"wind": 3})]),
    ("an unknown event that is no JSON", [("weather", b"windy")], [Raw("weather", "windy")]),
    ("an unknown event that is no text", [("weather", b"\xff")], [Raw("weather", "\\xff")]),
]


@pytest.mark.parametrize(("events", "expected"), [row[1:] for row in BLOCKS], ids=[row[0] for row in BLOCKS])
def test_blocks(events: list[Named], expected: list[ChatEvent]) -> None:
    """
    Each kind of block and event says exactly these events.
    """
    reading = answer(*events)
    assert (reading.error, said(reading)) == (None, expected)


def test_counts() -> None:
    """
    P4: input includes what was read from and written to the cache, under either of its names; the total is as sent.
    """
    usage = {"inputTokens": 12, "outputTokens": 250, "totalTokens": 1292, "cacheReadInputTokens": 1028, "cacheWriteInputTokenCount": 2}
    response = read_everywhere(NAME, aws(START, *text(0, "x"), ends(), ("metadata", {"usage": usage})), AWS_STREAM).response
    assert response.usage is not None
    assert (response.usage.input_tokens, response.usage.output_tokens, response.usage.total_tokens) == (1042, 250, 1292)
    assert (response.usage.cache_read_tokens, response.usage.cache_write_tokens) == (1028, 2)
    assert response.usage.wire["input_tokens"] == 12


FINISHES = [
    ("end_turn", FinishReason.STOP, "COMPLETE"),
    ("stop_sequence", FinishReason.STOP, "COMPLETE"),
    ("tool_use", FinishReason.TOOL_CALLS, "COMPLETE"),
    ("max_tokens", FinishReason.LENGTH, "INCOMPLETE_FINISH"),
    ("model_context_window_exceeded", FinishReason.LENGTH, "INCOMPLETE_FINISH"),
    ("guardrail_intervened", FinishReason.CONTENT_FILTER, "INCOMPLETE_FINISH"),
    ("content_filtered", FinishReason.CONTENT_FILTER, "INCOMPLETE_FINISH"),
    ("malformed_tool_use", FinishReason.OTHER, "INCOMPLETE_FINISH"),
    ("malformed_model_output", FinishReason.OTHER, "INCOMPLETE_FINISH"),
    ("new_word", FinishReason.OTHER, "INCOMPLETE_FINISH"),
    (None, FinishReason.UNKNOWN, "INCOMPLETE_FINISH"),
]


@pytest.mark.parametrize(("raw", "reason", "verdict"), FINISHES)
def test_finish_reasons(raw: str | None, reason: FinishReason, verdict: str) -> None:
    """
    V3, P2: an exact table, the raw word kept.
    """
    response = read_everywhere(NAME, aws(START, *text(0, "x"), ends(raw), META), AWS_STREAM).response
    assert (response.finish_reason, response.finish_reason_raw, str(response.verdict)) == (reason, raw, verdict)


@pytest.mark.parametrize(("pieces", "complete", "arguments"), [(('{"a":"x',), False, None), ((), False, None), (('{"a":1}',), True, {"a": 1})])
def test_calls_cut_by_the_limit(pieces: tuple[str, ...], complete: bool, arguments: Any) -> None:
    """
    N7, P3: the block stop comes though the arguments were cut.
    """
    (done,) = read_everywhere(NAME, aws(START, *call(0, "c1", *pieces), ends("max_tokens"), META), AWS_STREAM).response.tool_calls
    assert (done.complete, done.arguments) == (complete, arguments)


# --- guardrails -------------------------------------------------------------------------------------------------------------------------------------


def trace(**policies: Any) -> dict[str, Any]:
    return {"guardrail": {"modelOutput": ["x"], "actionReason": "why", "outputAssessments": {"g": [policies]}}}


ADDRESS = {"type": "ADDRESS", "match": "Rome", "action": "ANONYMIZED", "detected": True}
MASKED = trace(sensitiveInformationPolicy={"piiEntities": [ADDRESS, {**ADDRESS, "match": "Tokyo"}]})
BLOCKED = trace(
    topicPolicy={"topics": [{"name": "money", "type": "DENY", "action": "BLOCKED"}]},
    wordPolicy={"customWords": [{"match": "w", "action": "NONE"}, {"match": "v", "action": "BLOCKED", "detected": False}]},
)
TITLE = ContentFilter("guardrail_intervened", blocked=True)

GUARDED: list[tuple[str, str, Any, FinishReason, list[ChatEvent]]] = [
    ("without a trace", "guardrail_intervened", None, FinishReason.CONTENT_FILTER, [TITLE]),
    ("masked only", "guardrail_intervened", MASKED, FinishReason.STOP, [ContentFilter("ADDRESS")]),
    ("blocked", "guardrail_intervened", BLOCKED, FinishReason.CONTENT_FILTER, [ContentFilter("DENY", blocked=True), ContentFilter("customWords")]),
    ("a trace that found nothing", "guardrail_intervened", {"guardrail": {}}, FinishReason.CONTENT_FILTER, [TITLE]),
    ("detected only", "end_turn", MASKED, FinishReason.STOP, [ContentFilter("ADDRESS")]),
    ("filtered", "content_filtered", None, FinishReason.CONTENT_FILTER, [ContentFilter("content_filtered", blocked=True)]),
]


@pytest.mark.parametrize(("raw", "found", "reason", "events"), [row[1:] for row in GUARDED], ids=[row[0] for row in GUARDED])
def test_guardrails(raw: str, found: Any, reason: FinishReason, events: list[ChatEvent]) -> None:
    """
    V7: what was blocked decides the finish, what was masked or only detected does not; the matched words are not repeated.
    """
    meta = ("metadata", {"usage": {}, "trace": found})
    for tail in ((ends(raw), meta), (meta, ends(raw))):
        reading = read_everywhere(NAME, aws(START, *text(0, "Hi {ADDRESS}"), *tail), AWS_STREAM)
        assert (reading.response.finish_reason, reading.response.finish_reason_raw) == (reason, raw)
        assert reading.of(ContentFilter) == events
        assert reading.response.text == "Hi {ADDRESS}"


def test_a_masked_answer_with_a_call() -> None:
    """
    P1 holds behind a guardrail too, and the call without arguments is meant so.
    """
    response = read(NAME, aws(START, *call(0, "c1"), ends("guardrail_intervened"), ("metadata", {"trace": MASKED})), AWS_STREAM).response
    assert (response.finish_reason, response.tool_calls[0].arguments) == (FinishReason.TOOL_CALLS, {})


# --- ends and faults --------------------------------------------------------------------------------------------------------------------------------

OPEN = [START, *text(0, "x")]

ENDS = [
    ("messageStop, metadata", [*OPEN, ends(), META], True, "COMPLETE"),
    ("metadata, messageStop", [*OPEN, META, ends()], True, "COMPLETE"),
    ("messageStop and a clean end", [*OPEN, ends()], True, "COMPLETE"),
    ("messageStop and an end that proves nothing", [*OPEN, ends()], False, "INCOMPLETE_STREAM"),
    ("metadata alone", [*OPEN, META], True, "INCOMPLETE_STREAM"),
    ("nothing", OPEN, True, "INCOMPLETE_STREAM"),
    ("no messageStart", [*text(0, "x"), ends(), META], True, "COMPLETE"),
]


@pytest.mark.parametrize(("events", "clean", "verdict"), [row[1:] for row in ENDS], ids=[row[0] for row in ENDS])
def test_ends(events: list[Named], clean: bool, verdict: str) -> None:
    """
    P9: messageStop, then metadata or a clean end of the body.
    """
    reading = read(NAME, aws(*events), AWS_STREAM, clean_eof=clean)
    assert (reading.verdict, reading.response.text, violations(reading.events)) == (verdict, "x", [])


def test_nothing_behind_the_end_is_read() -> None:
    """
    Both ends came: garbage behind them does no harm.
    """
    assert read(NAME, aws(*OPEN, ends(), META) + b"garbage" * 9, AWS_STREAM).verdict == "COMPLETE"


THROTTLED = {"message": "Too many requests."}

EXCEPTIONS: list[tuple[str, Any, str, int | None, bool]] = [
    ("throttlingException", THROTTLED, "Too many requests.", None, True),
    ("validationException", {"Message": "bad"}, "bad", None, False),
    ("internalServerException", {}, "internalServerException", None, True),
    ("modelStreamErrorException", {"message": "m", "originalStatusCode": 424, "originalMessage": "o"}, "m", 424, True),
    ("serviceUnavailableException", b"not JSON", "not JSON", None, True),
]


@pytest.mark.parametrize(("kind", "payload", "message", "status", "retryable"), EXCEPTIONS)
@pytest.mark.parametrize("before", [[], OPEN, [*OPEN, ends()]], ids=["first", "midway", "behind messageStop"])
def test_exceptions(before: list[Named], kind: str, payload: Any, message: str, status: int | None, retryable: bool) -> None:
    """
    An exception frame is PROVIDER_ERROR wherever it comes, also between messageStop and metadata; its type is the code.
    """
    reading = read_everywhere(NAME, aws(*before) + aws_exception(kind, payload), AWS_STREAM)
    assert isinstance(reading.error, ProviderError)
    error = reading.error
    assert (error.message, error.code, error.type, error.status, error.retryable) == (message, kind, kind, status, retryable)
    assert error.offset == len(aws(*before))


ERRORS = [
    ({":message-type": "error", ":error-code": "InternalError", ":error-message": "gone"}, "gone", "InternalError"),
    ({":message-type": "error", ":error-code": "InternalError"}, "InternalError", "InternalError"),
    ({":message-type": "error"}, "the service reported an error", None),
    ({":message-type": "exception"}, "exception", "exception"),
]


@pytest.mark.parametrize(("headers", "message", "code"), ERRORS)
def test_error_frames(headers: dict[str, str], message: str, code: str | None) -> None:
    """
    An error frame has its words in the headers, and may have none.
    """
    reading = read_everywhere(NAME, aws(*OPEN) + aws_frame(headers, b""), AWS_STREAM)
    assert isinstance(reading.error, ProviderError)
    assert (reading.error.message, reading.error.code, reading.response.text) == (message, code, "x")


def test_a_message_of_no_known_type() -> None:
    """
    It is unknown by the name of its type.
    """
    reading = parsed(NAME, [AwsMessage({":message-type": "note"}, b"{}"), *messages(*OPEN, ends(), META)])
    assert (reading.error, reading.of(Raw)) == (None, [Raw("note", {})])


MALFORMED = [
    ("an event that is a list", ("messageStart", [])),
    ("a stop without an index", ("contentBlockStop", {})),
    ("a start that is a text", ("contentBlockStart", {"contentBlockIndex": 0, "start": "x"})),
    ("a delta that is missing", ("contentBlockDelta", {"contentBlockIndex": 0})),
    ("a text that is a number", grows(0, text=5)),
    ("a tool that is a text", opens(0, toolUse="x")),
    ("input that is an object", [*call(1, "c1")[:1], grows(1, toolUse={"input": {}})]),
    ("input for nobody", grows(7, toolUse={"input": "{}"})),
    ("a result for nobody", grows(7, toolResult=[])),
    ("a result that is no list", [opens(1, toolResult={}), grows(1, toolResult={})]),
    ("reasoning that is a text", grows(0, reasoningContent="x")),
    ("a signature for a text", grows(0, reasoningContent={"signature": "ab"})),
    ("an image for a text", grows(0, image={"source": {"bytes": "AAAA"}})),
    (
        "pieces that are no base64",
        [grows(1, reasoningContent={"redactedContent": "?"}), grows(1, reasoningContent={"redactedContent": "?"}), stops(1)],
    ),
]


@pytest.mark.parametrize("events", [row[1] for row in MALFORMED], ids=[row[0] for row in MALFORMED])
def test_known_events_that_are_malformed(events: Any) -> None:
    """
    E11: they break the stream as PROTOCOL, with all before them delivered.
    """
    reading = parsed(NAME, messages(START, grows(0, text="x"), *(events if isinstance(events, list) else [events])))
    assert isinstance(reading.error, DialectError)
    assert reading.of(TextDelta) == [TextDelta("x", 0)]


def test_invalid_json_says_where() -> None:
    """
    B4: the offset counts from the start of the body.
    """
    body = aws(START)
    broken = b'{"a":1,}'
    reading = read_everywhere(NAME, body + aws_frame({":event-type": "messageStop", ":message-type": "event"}, broken), AWS_STREAM)
    assert reading.error is not None
    assert (reading.verdict, reading.error.offset) == (
        "INVALID_JSON",
        (body + aws_frame({":event-type": "messageStop", ":message-type": "event"}, broken)).index(b",}") + 1,
    )


# --- answers ----------------------------------------------------------------------------------------------------------------------------------------

RICH: list[Named] = [
    START,
    grows(0, reasoningContent={"text": "Let me "}),
    grows(0, reasoningContent={"text": "see 🌱"}),
    grows(0, reasoningContent={"signature": "sig"}),
    stops(0),
    grows(1, citation=WEB),
    *text(1, "你好", " sky"),
    *call(2, "c1", "", '{"a":', '"é"}'),
    *call(3, "c2", ""),
    ends("tool_use", additionalModelResponseFields={"k": 1}),
    META,
]

BODY = {
    "output": {
        "message": {
            "role": "assistant",
            "content": [
                {"reasoningContent": {"reasoningText": {"text": "Let me see 🌱", "signature": "sig"}}},
                {"citationsContent": {"content": [{"text": "你好 sky"}], "citations": [WEB]}},
                {"toolUse": {"toolUseId": "c1", "name": "f", "input": {"a": "é"}}},
                {"toolUse": {"toolUseId": "c2", "name": "f", "input": {}}},
            ],
        }
    },
    "stopReason": "tool_use",
    "additionalModelResponseFields": {"k": 1},
    "usage": META[1]["usage"],
    "metrics": META[1]["metrics"],
}


def test_a_rich_answer() -> None:
    """
    All kinds of blocks in one stream fold into one answer, whatever the cut.
    """
    reading = read_everywhere(NAME, aws(*RICH), AWS_STREAM)
    response = reading.response
    assert (reading.verdict, violations(reading.events), response.committable) == ("COMPLETE", [], True)
    assert (response.text, response.thinking) == ("你好 sky", "Let me see 🌱")
    assert [call.arguments for call in response.tool_calls] == [{"a": "é"}, {}]
    assert response.metadata == {"additionalModelResponseFields": {"k": 1}, "metrics": {"latencyMs": 9}}


def test_the_stream_and_the_body_are_one_answer() -> None:
    """
    The JSON body of Converse goes into the same answer.
    """
    streamed = read(NAME, aws(*RICH), AWS_STREAM).response
    plain = read_everywhere(NAME, json.dumps(BODY).encode(), "application/json").response
    assert (plain.parts, plain.usage, plain.verdict) == (streamed.parts, streamed.usage, streamed.verdict)
    assert (plain.finish_reason_raw, plain.metadata) == ("tool_use", streamed.metadata)


def test_other_blocks_of_a_body() -> None:
    """
    Plain text, redacted reasoning, a server tool with its result, an image, and a kind nobody knows.
    """
    content = [
        {"text": "x"},
        {"reasoningContent": {"redactedContent": "AAA="}},
        {"toolUse": {**SERVER, "input": {"q": 1}}},
        {"toolResult": {**RESULT, "content": [{"text": "a"}]}},
        {"image": {"format": "png", "source": {"bytes": "AAAA"}}},
        {"hologram": 1},
    ]
    reading = parsed(NAME, whole({"output": {"message": {"content": content}}, "stopReason": "end_turn"}))
    assert said(reading) == [
        TextDelta("x", 0),
        TextEnd(0),
        ThinkingRedacted("AAA=", 1),
        ServerToolStart("server_tool_use", "s1", "nova_grounding"),
        ServerToolArgsDelta("server_tool_use", '{"q":1}', "s1"),
        ServerToolResult("nova_grounding_result", "s1", {**RESULT, "content": [{"text": "a"}]}, is_error=True),
        MediaDone("image", "image/png", "AAAA"),
        Raw("hologram", 1),
    ]


BAD_BODIES = [
    ([1], "PROTOCOL"),
    ({"output": {}}, "PROTOCOL"),
    ({"output": {"message": {"content": ["x"]}}}, "PROTOCOL"),
    ({"error": {"message": "no"}}, "PROVIDER_ERROR"),
]


@pytest.mark.parametrize(("body", "verdict"), BAD_BODIES)
def test_bodies_that_are_no_answer(body: Any, verdict: str) -> None:
    """
    A body is an answer, or an error, or a fault.
    """
    assert parsed(NAME, whole(body)).verdict == verdict


def test_the_stream_cut_anywhere() -> None:
    """
    Cut at any byte: COMPLETE only behind messageStop and between two frames, always balanced, the text a prefix.
    """
    body, full = aws(*RICH), "你好 sky"
    behind = len(aws(*RICH[:-1]))
    for k in {*range(0, len(body), 11), behind - 1, behind, behind + 1}:
        reading = read(NAME, body[:k], AWS_STREAM)
        assert (reading.verdict == "COMPLETE", violations(reading.events)) == (k == behind, [])
        assert full.startswith(reading.response.text)


# --- properties -------------------------------------------------------------------------------------------------------------------------------------

scraps = st.recursive(
    st.none() | st.booleans() | st.integers(-1, 3) | st.sampled_from(["", "x", "{}", "end_turn", "server_tool_use"]),
    lambda inner: (
        st.lists(inner, max_size=2)
        | st.dictionaries(
            st.sampled_from(["text", "toolUse", "toolResult", "reasoningContent", "citation", "image", "input", "source", "bytes", "signature"]),
            inner,
            max_size=3,
        )
    ),
    max_leaves=6,
)
events = st.one_of(
    st.sampled_from(RICH[:-2]),
    st.tuples(
        st.sampled_from(["messageStart", "contentBlockStart", "contentBlockDelta", "contentBlockStop", "messageStop", "metadata", "x"]), scraps
    ),
    st.builds(lambda index, delta: ("contentBlockDelta", {"contentBlockIndex": index, "delta": delta}), st.integers(0, 3), scraps),
    st.builds(lambda index, start: ("contentBlockStart", {"contentBlockIndex": index, "start": start}), st.integers(0, 3), scraps),
    st.builds(lambda usage, trace: ("metadata", {"usage": usage, "trace": {"guardrail": trace}}), scraps, scraps),
)


@given(st.lists(events, max_size=10))
def test_any_events(values: list[Named]) -> None:
    """
    Events in any order, whole or not: events of the grammar, or an error of ours.
    """
    reading = read(NAME, aws(*values, *([] if len(values) % 2 else [ends()])), AWS_STREAM)
    assert violations(reading.events) == []
    assert reading.error is None or isinstance(reading.error, RxchatError)
