"""
The Messages dialect: frames to events, then bodies to answers.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rxchat.errors import DialectError, ProviderError, RxchatError
from rxchat.events import (
    PROVIDER_ITEM,
    ChatEvent,
    Citation,
    ContentFilter,
    Custom,
    ErrorEvent,
    Heartbeat,
    MediaDone,
    Raw,
    RefusalDelta,
    ResponseEnd,
    SearchResult,
    ServerToolArgsDelta,
    ServerToolResult,
    ServerToolStart,
    StepEnd,
    StepStart,
    TextDelta,
    TextEnd,
    TextStart,
    ThinkingDelta,
    ThinkingEnd,
    ThinkingRedacted,
    ThinkingSignature,
    ThinkingStart,
    ToolCallArgsDelta,
    ToolCallEnd,
    ToolCallStart,
    UsageUpdate,
)
from rxchat.framing.frames import Frame, StrayText
from rxchat.response import FinishReason, ProviderItemPart, ServerToolPart, ThinkingPart, ToolCall
from tests.dialects.reading import Reading, parsed, read, read_everywhere, sse, sse_frames, whole
from tests.grammar import violations

NAME = "anthropic"


# --- wires ----------------------------------------------------------------------------------------------------------------------------------------


def start(content: Any = (), **said: Any) -> dict[str, Any]:
    message = {"id": "msg_1", "type": "message", "role": "assistant", "model": "m-1", "content": list(content), "stop_reason": None}
    return {"type": "message_start", "message": {**message, "usage": {"input_tokens": 7, "output_tokens": 1}, **said}}


def opens(index: int, kind: str, **said: Any) -> dict[str, Any]:
    return {"type": "content_block_start", "index": index, "content_block": {"type": kind, **said}}


def grows(index: int, kind: str, **said: Any) -> dict[str, Any]:
    return {"type": "content_block_delta", "index": index, "delta": {"type": kind, **said}}


def stops(index: int) -> dict[str, Any]:
    return {"type": "content_block_stop", "index": index}


def text(index: int, *pieces: str) -> list[dict[str, Any]]:
    return [opens(index, "text", text=""), *(grows(index, "text_delta", text=piece) for piece in pieces), stops(index)]


def call(index: int, call_id: str, *pieces: str) -> list[dict[str, Any]]:
    fragments = [grows(index, "input_json_delta", partial_json=piece) for piece in pieces]
    return [opens(index, "tool_use", id=call_id, name="f", input={}), *fragments, stops(index)]


def ends(reason: str | None = "end_turn", output: int = 5, **said: Any) -> dict[str, Any]:
    return {"type": "message_delta", "delta": {"stop_reason": reason, "stop_sequence": None, **said}, "usage": {"output_tokens": output}}


STOP = {"type": "message_stop"}
PING = {"type": "ping"}


def said(reading: Reading) -> list[ChatEvent]:
    """
    The events between the step's start and its end, counts aside.
    """
    return [event for event in reading.events if not isinstance(event, (StepStart, StepEnd, ResponseEnd, UsageUpdate))]


def answer(*values: Any) -> Reading:
    """
    A whole answer around these frames, through the parser.
    """
    return parsed(NAME, sse_frames(start(), *values, ends(), STOP))


def ended(order: int, call_id: str, metadata: Mapping[str, Any] | None = None) -> ToolCallEnd:
    return ToolCallEnd(ToolCall(id=call_id, name="f", index=order, complete=True, metadata=metadata))


# --- frames to events -----------------------------------------------------------------------------------------------------------------------------

HITS = [{"type": "web_search_result", "url": "https://a.example", "title": "A", "encrypted_content": "x", "page_age": None}]
RESULT = {"type": "web_search_tool_result", "tool_use_id": "s1", "content": HITS}
FAILED = {"type": "bash_code_execution_tool_result", "tool_use_id": "s2", "content": {"type": "x_error", "error_code": "unavailable"}}
MCP_RESULT = {"type": "mcp_tool_result", "tool_use_id": "s3", "is_error": True, "content": [{"type": "text", "text": "no"}]}
FALLBACK = {"type": "fallback", "from": {"model": "a"}, "to": {"model": "b"}}
CITED = {
    "type": "char_location",
    "cited_text": "The sky.",
    "document_title": "facts",
    "file_id": "file_1",
    "start_char_index": 3,
    "end_char_index": 9,
}
CITATION = Citation(title="facts", quoted="The sky.", file="file_1", index=0)

BLOCKS: list[tuple[str, list[Any], list[ChatEvent]]] = [
    ("text", text(0, "Hel", "lo"), [TextStart(0), TextDelta("Hel", 0), TextDelta("lo", 0), TextEnd(0)]),
    ("text in the start", [opens(0, "text", text="Hi"), stops(0)], [TextStart(0), TextDelta("Hi", 0), TextEnd(0)]),
    ("no text", text(0, ""), [TextStart(0), TextEnd(0)]),
    ("text is null", [opens(0, "text", text=None, citations=None), grows(0, "text_delta", text=None), stops(0)], [TextStart(0), TextEnd(0)]),
    ("a block nobody opened", [grows(4, "text_delta", text="x"), stops(4)], [TextDelta("x", 4), TextEnd(4)]),
    ("a stop nobody needs", [stops(9), *text(0, "x"), stops(0)], [TextStart(0), TextDelta("x", 0), TextEnd(0)]),
    (
        "text behind its stop",
        [*text(0, "x"), grows(0, "text_delta", text="y"), stops(0)],
        [TextStart(0), TextDelta("x", 0), TextEnd(0), TextDelta("y", 0), TextEnd(0)],
    ),
    (
        "a citation comes before its text",
        [opens(0, "text", text="", citations=[]), grows(0, "citations_delta", citation=CITED), grows(0, "text_delta", text="x"), stops(0)],
        [TextStart(0), CITATION, TextDelta("x", 0), TextEnd(0)],
    ),
    (
        "citations in the start",
        [opens(0, "text", text="x", citations=[{"url": "https://a.example", "title": "A"}, {"source": "https://b.example"}]), stops(0)],
        [
            TextStart(0),
            Citation(url="https://a.example", title="A", index=0),
            Citation(url="https://b.example", index=0),
            TextDelta("x", 0),
            TextEnd(0),
        ],
    ),
    (
        "thinking, its signature in pieces",
        [
            opens(0, "thinking", thinking="", signature=""),
            grows(0, "thinking_delta", thinking="Hm"),
            grows(0, "signature_delta", signature="ab"),
            grows(0, "signature_delta", signature="cd"),
            stops(0),
        ],
        [ThinkingStart(0), ThinkingDelta("Hm", 0), ThinkingSignature("abcd", 0), ThinkingEnd(0)],
    ),
    (
        "hidden thinking",
        [opens(0, "thinking", thinking=""), grows(0, "signature_delta", signature="ab"), stops(0)],
        [ThinkingStart(0), ThinkingSignature("ab", 0), ThinkingEnd(0)],
    ),
    (
        "thinking whole in the start",
        [opens(0, "thinking", thinking="Hm", signature="ab"), stops(0)],
        [ThinkingStart(0), ThinkingDelta("Hm", 0), ThinkingSignature("ab", 0), ThinkingEnd(0)],
    ),
    ("thinking nobody stops", [grows(0, "signature_delta", signature="ab")], [ThinkingSignature("ab", 0)]),
    ("unsigned thinking nobody stops", [grows(0, "thinking_delta", thinking="Hm")], [ThinkingDelta("Hm", 0)]),
    ("redacted thinking", [opens(0, "redacted_thinking", data="zz"), stops(0)], [ThinkingRedacted("zz", 0)]),
    ("redacted, nothing in it", [opens(0, "redacted_thinking"), stops(0)], []),
    (
        "a call in pieces",
        call(1, "c1", "", '{"a":', "1}"),
        [ToolCallStart("c1", "f", 0), ToolCallArgsDelta('{"a":', "c1", 0), ToolCallArgsDelta("1}", "c1", 0), ended(0, "c1")],
    ),
    (
        "a call whole in its start",
        [opens(0, "tool_use", id="c1", name="f", input={"a": [1, "é"]}, caller={"type": "direct"}), stops(0)],
        [ToolCallStart("c1", "f", 0), ToolCallArgsDelta('{"a":[1,"é"]}', "c1", 0), ended(0, "c1", {"caller": {"type": "direct"}})],
    ),
    (
        "fragments replace what stood in the start",
        [opens(0, "tool_use", id="c1", name="f", input={"a": 0}), grows(0, "input_json_delta", partial_json='{"a":1}'), stops(0)],
        [ToolCallStart("c1", "f", 0), ToolCallArgsDelta('{"a":1}', "c1", 0), ended(0, "c1")],
    ),
    (
        "two calls count from 0, whatever their blocks",
        [*call(3, "c1", "{}"), *call(5, "c2", "{}")],
        [
            ToolCallStart("c1", "f", 0),
            ToolCallArgsDelta("{}", "c1", 0),
            ended(0, "c1"),
            ToolCallStart("c2", "f", 1),
            ToolCallArgsDelta("{}", "c2", 1),
            ended(1, "c2"),
        ],
    ),
    ("a call without arguments", call(0, "c1"), [ToolCallStart("c1", "f", 0), ended(0, "c1")]),
    (
        "a call without arguments, then another block",
        [*call(0, "c1"), *text(1, "x")],
        [ToolCallStart("c1", "f", 0), ended(0, "c1"), TextStart(1), TextDelta("x", 1), TextEnd(1)],
    ),
    (
        "arguments behind the stop",
        [*call(0, "c1"), grows(0, "input_json_delta", partial_json="{}")],
        [ToolCallStart("c1", "f", 0), ended(0, "c1"), ToolCallArgsDelta("{}", "c1", 0)],
    ),
    (
        "a call nobody stops keeps what stood in its start",
        [opens(0, "tool_use", id="c1", name="f", input={"a": 1})],
        [ToolCallStart("c1", "f", 0), ToolCallArgsDelta('{"a":1}', "c1", 0)],
    ),
    (
        "a search, its hits with the query",
        [
            opens(0, "server_tool_use", id="s1", name="web_search", input={}),
            grows(0, "input_json_delta", partial_json='{"query":"q"}'),
            stops(0),
            {"type": "content_block_start", "index": 1, "content_block": RESULT},
            stops(1),
        ],
        [
            ServerToolStart("server_tool_use", "s1", "web_search"),
            ServerToolArgsDelta("server_tool_use", '{"query":"q"}', "s1"),
            SearchResult("https://a.example", "A", query="q"),
            ServerToolResult("web_search_tool_result", "s1", RESULT),
        ],
    ),
    (
        "the result of a call of an earlier message",
        [{"type": "content_block_start", "index": 0, "content_block": RESULT}, stops(0)],
        [SearchResult("https://a.example", "A"), ServerToolResult("web_search_tool_result", "s1", RESULT)],
    ),
    (
        "a search without a query",
        [opens(0, "server_tool_use", id="s1", name="web_search", input={}), stops(0)],
        [ServerToolStart("server_tool_use", "s1", "web_search")],
    ),
    (
        "a search for something else",
        [opens(0, "server_tool_use", id="s1", name="web_search", input={"q": 1}), stops(0)],
        [ServerToolStart("server_tool_use", "s1", "web_search"), ServerToolArgsDelta("server_tool_use", '{"q":1}', "s1")],
    ),
    (
        "a server tool that failed, its input in the start",
        [
            opens(0, "server_tool_use", id="s2", name="bash_code_execution", input={"command": "ls"}),
            stops(0),
            {"type": "content_block_start", "index": 1, "content_block": FAILED},
        ],
        [
            ServerToolStart("server_tool_use", "s2", "bash_code_execution"),
            ServerToolArgsDelta("server_tool_use", '{"command":"ls"}', "s2"),
            ServerToolResult("bash_code_execution_tool_result", "s2", FAILED, is_error=True),
        ],
    ),
    (
        "mcp",
        [
            opens(0, "mcp_tool_use", id="s3", name="echo", input={}, server_name="srv"),
            stops(0),
            {"type": "content_block_start", "index": 1, "content_block": MCP_RESULT},
            stops(1),
        ],
        [
            ServerToolStart("mcp_tool_use", "s3", "echo", {"server_name": "srv"}),
            ServerToolResult("mcp_tool_result", "s3", MCP_RESULT, is_error=True),
        ],
    ),
    (
        "compaction",
        [
            opens(0, "compaction", content=None, encrypted_content=None),
            grows(0, "compaction_delta", content="sum", encrypted_content="zz"),
            stops(0),
        ],
        [Custom(PROVIDER_ITEM, {"type": "compaction", "raw": {"type": "compaction", "content": "sum", "encrypted_content": "zz"}})],
    ),
    (
        "compaction nobody stops",
        [opens(0, "compaction", content=None), grows(0, "compaction_delta", content="sum")],
        [Custom(PROVIDER_ITEM, {"type": "compaction", "raw": {"type": "compaction", "content": "sum"}})],
    ),
    (
        "fallback",
        [{"type": "content_block_start", "index": 0, "content_block": FALLBACK}, stops(0)],
        [Custom(PROVIDER_ITEM, {"type": "fallback", "raw": FALLBACK})],
    ),
    ("an uploaded file", [opens(0, "container_upload", file_id="file_1"), stops(0)], [MediaDone("file", item_id="file_1")]),
    ("ping", [PING], [Heartbeat()]),
    ("data that are white space", [("ping", b" ")], [Heartbeat()]),
    (
        "an unknown block, all its deltas",
        [opens(0, "hologram", shape="cube"), grows(0, "text_delta", text="x"), stops(0)],
        [Raw("hologram", {"type": "hologram", "shape": "cube"}), Raw("text_delta", {"type": "text_delta", "text": "x"})],
    ),
    ("a block without a type", [{"type": "content_block_start", "index": 0, "content_block": {}}], [Raw("content_block", {})]),
    ("an unknown delta", [grows(0, "hologram_delta", v=1)], [Raw("hologram_delta", {"type": "hologram_delta", "v": 1})]),
    ("a delta without a type", [{"type": "content_block_delta", "index": 0, "delta": {}}], [Raw("content_block_delta", {})]),
    ("an unknown frame", [{"type": "weather", "wind": 3}], [Raw("weather", {"type": "weather", "wind": 3})]),
    ("an unknown frame with nothing but a name", [("weather", {"wind": 3})], [Raw("weather", {"wind": 3})]),
    ("an unknown frame that is a list", [("weather", [3])], [Raw("weather", [3])]),
    ("an unknown frame that is no JSON", [("weather", b"windy")], [Raw("weather", "windy")]),
    ("a frame named by its event alone", [("ping", {})], [Heartbeat()]),
    ("the start again", [start()], []),
    ("the start again, without an id", [start(id=None)], []),
]


@pytest.mark.parametrize(("values", "expected"), [row[1:] for row in BLOCKS], ids=[row[0] for row in BLOCKS])
def test_blocks(values: list[Any], expected: list[ChatEvent]) -> None:
    """
    Each kind of block, delta and frame says exactly these events.
    """
    reading = answer(*values)
    assert (reading.error, said(reading)) == (None, expected)


def test_the_step_and_its_counts() -> None:
    """
    The step carries id and model; counts are snapshots by formula P4, the wire's values kept beside them; nulls erase nothing.
    """
    first = {"input_tokens": 10, "cache_read_input_tokens": 100, "cache_creation_input_tokens": 20, "output_tokens": 1}
    last = {"input_tokens": None, "output_tokens": 9, "output_tokens_details": {"thinking_tokens": 4}, "server_tool_use": {"web_search_requests": 1}}
    reading = parsed(NAME, sse_frames(start(usage=first), {**ends(), "usage": last}, STOP))
    assert reading.events[0] == StepStart(0, "msg_1", "m-1")
    usage = [event.usage for event in reading.events if isinstance(event, UsageUpdate)][-1]
    assert (usage.input_tokens, usage.output_tokens, usage.total_tokens) == (130, 9, 139)
    assert (usage.cache_read_tokens, usage.cache_write_tokens, usage.reasoning_tokens) == (100, 20, 4)
    assert usage.wire == {"input_tokens": 10, "output_tokens": 9, "cache_read_tokens": 100, "cache_write_tokens": 20, "reasoning_tokens": 4}
    assert usage.raw[0]["server_tool_use"] == {"web_search_requests": 1}


def test_no_counts() -> None:
    """
    What was never reported is None, not zero; a cache count without an input count makes none.
    """
    reading = read_everywhere(NAME, sse(start(usage={"cache_read_input_tokens": 4}), *text(0, "x"), {**ends(), "usage": None}, STOP))
    assert reading.response.usage is not None
    assert (reading.response.usage.input_tokens, reading.response.usage.cache_read_tokens) == (None, 4)


def test_facts_of_the_end() -> None:
    """
    What no event carries is kept on the response: the stop sequence, the container, edits of the context.
    """
    edits: dict[str, Any] = {"applied_edits": []}
    stop = {**ends("stop_sequence", stop_sequence="🌊", container={"id": "k"}), "context_management": edits}
    response = read_everywhere(NAME, sse(start(), *text(0, "x"), stop, STOP)).response
    assert response.metadata == {"stop_sequence": "🌊", "container": {"id": "k"}, "context_management": edits}


FINISHES = [
    ("end_turn", FinishReason.STOP, "COMPLETE"),
    ("stop_sequence", FinishReason.STOP, "COMPLETE"),
    ("tool_use", FinishReason.TOOL_CALLS, "COMPLETE"),
    ("max_tokens", FinishReason.LENGTH, "INCOMPLETE_FINISH"),
    ("model_context_window_exceeded", FinishReason.LENGTH, "INCOMPLETE_FINISH"),
    ("pause_turn", FinishReason.PAUSE, "INCOMPLETE_FINISH"),
    ("compaction", FinishReason.PAUSE, "INCOMPLETE_FINISH"),
    ("refusal", FinishReason.REFUSAL, "INCOMPLETE_FINISH"),
    ("max_tokens_reached", FinishReason.OTHER, "INCOMPLETE_FINISH"),
    (None, FinishReason.UNKNOWN, "INCOMPLETE_FINISH"),
]


@pytest.mark.parametrize(("raw", "reason", "verdict"), FINISHES)
def test_finish_reasons(raw: str | None, reason: FinishReason, verdict: str) -> None:
    """
    V3: an exact table, the raw word kept; P2: everything but stop and tool_calls is INCOMPLETE_FINISH.
    """
    response = read_everywhere(NAME, sse(start(), *text(0, "x"), ends(raw), STOP)).response
    assert (response.finish_reason, response.finish_reason_raw, str(response.verdict)) == (reason, raw, verdict)


def test_a_normal_stop_with_a_call() -> None:
    """
    P1: end_turn with a client call in the step is tool_calls; a call of the provider's own changes nothing.
    """
    client = read(NAME, sse(start(), *call(0, "c1", "{}"), ends(), STOP)).response
    server = read(NAME, sse(start(), opens(0, "server_tool_use", id="s", name="x", input={}), stops(0), ends(), STOP)).response
    assert (client.finish_reason, server.finish_reason) == (FinishReason.TOOL_CALLS, FinishReason.STOP)


REFUSALS = [
    ({"type": "refusal", "category": "cyber", "explanation": "I will not."}, [RefusalDelta("I will not.")], "I will not."),
    ({"type": "refusal", "category": "cyber", "explanation": None}, [ContentFilter("cyber", blocked=True)], ""),
    (None, [ContentFilter("refusal", blocked=True)], ""),
]


@pytest.mark.parametrize(("details", "events", "words"), REFUSALS)
def test_refusals(details: Any, events: list[ChatEvent], words: str) -> None:
    """
    V7: the explanation is a RefusalDelta and no text; without one the refusal is a blocked ContentFilter. The text before it stays.
    """
    reading = read_everywhere(NAME, sse(start(), *text(0, "Hi"), ends("refusal", stop_details=details), STOP))
    assert reading.of(RefusalDelta, ContentFilter) == events
    assert (reading.response.text, reading.response.refusal, reading.response.finish_reason) == ("Hi", words, FinishReason.REFUSAL)


CUT_CALLS = [
    ("broken, cut by the limit", ('{"a":"x',), "max_tokens", False, None, '{"a":"x'),
    ("empty, cut by the limit", (), "max_tokens", False, None, ""),
    ("whole before the limit", ('{"a":1}',), "max_tokens", True, {"a": 1}, '{"a":1}'),
    ("empty, meant so", (), "tool_use", True, {}, ""),
    ("broken, but not cut", ('{"a":',), "tool_use", True, None, '{"a":'),
    ("broken, though it ends well", ('{"a":{}',), "max_tokens", False, None, '{"a":{}'),
    ("no object", ("[1]",), "tool_use", True, None, "[1]"),
    ("empty, the finish unknown", (), None, False, None, ""),
    ("empty, paused", (), "pause_turn", False, None, ""),
]


@pytest.mark.parametrize(("pieces", "reason", "complete", "arguments", "kept"), [row[1:] for row in CUT_CALLS], ids=[row[0] for row in CUT_CALLS])
def test_calls_that_may_be_cut(pieces: tuple[str, ...], reason: str | None, complete: bool, arguments: Any, kept: str) -> None:
    """
    N7, P3: a length limit stops the block too; arguments it cut are text only, never `{}`.
    """
    (done,) = read_everywhere(NAME, sse(start(), *call(0, "c1", *pieces), ends(reason), STOP)).response.tool_calls
    assert (done.complete, done.arguments, done.arguments_text) == (complete, arguments, kept)


def test_a_doubtful_call_in_a_broken_stream() -> None:
    """
    P3: no arguments and then no end: the call is not complete and has none.
    """
    (done,) = read_everywhere(NAME, sse(start(), *call(0, "c1"))).response.tool_calls
    assert (done.complete, done.arguments) == (False, None)


def test_a_prefilled_start() -> None:
    """
    The whole answer may stand in message_start, with only message_stop behind it.
    """
    content = [{"type": "text", "text": "Hi"}, {"type": "tool_use", "id": "c1", "name": "f", "input": {"p": 1}}]
    reading = read_everywhere(NAME, sse(start(content, stop_reason="tool_use"), STOP))
    (done,) = reading.response.tool_calls
    assert (reading.verdict, reading.response.text, done.arguments) == ("COMPLETE", "Hi", {"p": 1})


def test_text_behind_the_finish_is_counted() -> None:
    """
    V8: accepted by default, and counted.
    """
    response = read(NAME, sse(start(), *text(0, "a"), ends(), *text(1, "b"), STOP)).response
    assert (response.text, response.after_finish) == ("ab", 1)


def test_the_last_finish_counts() -> None:
    """
    P1: of several non-null stop reasons the last one.
    """
    response = read(NAME, sse(start(), *text(0, "a"), ends("max_tokens"), ends(None), ends("end_turn"), STOP)).response
    assert response.finish_reason_raw == "end_turn"


def test_deltas_without_a_start() -> None:
    """
    A stream whose message_start is missing still has its step.
    """
    reading = read_everywhere(NAME, sse(*text(0, "x"), ends(), STOP))
    assert (reading.response.text, reading.verdict, violations(reading.events)) == ("x", "COMPLETE", [])


def test_a_message_delta_without_a_delta() -> None:
    """
    Counts alone are allowed.
    """
    reading = read(NAME, sse({"type": "message_delta", "usage": {"output_tokens": 3}}, *text(0, "x"), ends(), STOP))
    assert reading.verdict == "COMPLETE"


# --- ends and faults --------------------------------------------------------------------------------------------------------------------------------

OPEN = [start(), *text(0, "x")]

INCOMPLETE = [
    ("the body ends in a block", sse(*OPEN[:-1])),
    ("the finish came, message_stop did not", sse(*OPEN, ends())),
    ("message_stop without its blank line", sse(*OPEN, ends(), STOP)[:-1]),
    ("[DONE] instead of message_stop", sse(*OPEN, ends()) + b"data: [DONE]\n\n"),
]


@pytest.mark.parametrize("body", [row[1] for row in INCOMPLETE], ids=[row[0] for row in INCOMPLETE])
def test_message_stop_is_the_only_end(body: bytes) -> None:
    """
    P9: however whole the text looks; what had come is in the partial answer.
    """
    reading = read_everywhere(NAME, body)
    assert (reading.verdict, reading.response.text, violations(reading.events)) == ("INCOMPLETE_STREAM", "x", [])


def test_nothing_behind_message_stop_is_read() -> None:
    """
    A gateway's `[DONE]`, or garbage, behind the end does no harm.
    """
    body = sse(*OPEN, ends(), STOP)
    expected = read(NAME, body)
    for tail in (b"event: data\ndata: [DONE]\n\n", b"data: {broken\n\n", b"\xff\xfe"):
        assert read(NAME, body + tail).events == expected.events


MALFORMED = [
    ("no message in message_start", {"type": "message_start"}),
    ("a second message", start(id="msg_2")),
    ("a block without an index", {"type": "content_block_start", "content_block": {"type": "text"}}),
    ("an index that is a text", {"type": "content_block_stop", "index": "0"}),
    ("a block that is a text", {"type": "content_block_start", "index": 1, "content_block": "text"}),
    ("a delta that is a text", {"type": "content_block_delta", "index": 0, "delta": "x"}),
    ("a text that is a number", grows(0, "text_delta", text=5)),
    ("arguments for nobody", grows(7, "input_json_delta", partial_json="{}")),
    ("arguments for a text", grows(0, "input_json_delta", partial_json="{}")),
    ("a signature for a text", grows(0, "signature_delta", signature="ab")),
    ("a compaction for a text", grows(0, "compaction_delta", content="x")),
    ("a citation that is a text", grows(0, "citations_delta", citation="x")),
    ("a message_delta with a list", {"type": "message_delta", "delta": []}),
    ("a known frame with a list", ("message_delta", [1])),
]


@pytest.mark.parametrize("value", [row[1] for row in MALFORMED], ids=[row[0] for row in MALFORMED])
def test_known_frames_that_are_malformed(value: Any) -> None:
    """
    E11: they break the stream as PROTOCOL, at their place, with all before them delivered.
    """
    reading = parsed(NAME, sse_frames(start(), opens(0, "text", text="x"), value))
    assert isinstance(reading.error, DialectError)
    assert (reading.verdict, reading.error.offset) == ("PROTOCOL", 200)
    assert reading.of(TextDelta) == [TextDelta("x", 0)]
    assert reading.response.verdict is not None


def test_message_stop_alone_is_no_answer() -> None:
    """
    An end of nothing is a fault of the protocol.
    """
    assert read_everywhere(NAME, sse(STOP)).verdict == "PROTOCOL"


def test_invalid_json() -> None:
    """
    B4: strict, with its position, also where an unknown event would be let pass.
    """
    reading = read_everywhere(NAME, sse(*OPEN) + b'data: {"type":"ping",}\n\n')
    assert (reading.verdict, reading.response.text) == ("INVALID_JSON", "x")


OVERLOADED = {"type": "error", "error": {"details": None, "type": "overloaded_error", "message": "Overloaded"}, "request_id": "req_1"}

ERRORS: list[tuple[str, Any, str, str | None, str | int | None, bool]] = [
    ("as documented", OVERLOADED, "Overloaded", "overloaded_error", None, True),
    ("of the request", {"type": "error", "error": {"type": "invalid_request_error", "message": "no"}}, "no", "invalid_request_error", None, False),
    ("a gateway's, without a type", {"error": {"message": "down", "code": 502}}, "down", None, 502, True),
    ("under another type", {"type": "server", "error": {"message": "down"}}, "down", "server", None, False),
    ("by its event alone", ("error", {"message": "down"}), "down", None, None, False),
    ("no JSON at all", ("error", b"upstream gone"), "upstream gone", None, None, False),
]


@pytest.mark.parametrize(("value", "message", "kind", "code", "retryable"), [row[1:] for row in ERRORS], ids=[row[0] for row in ERRORS])
def test_errors_in_the_stream(value: Any, message: str, kind: str | None, code: Any, retryable: bool) -> None:
    """
    An error may come anywhere; P16: its `type` is the type, and it has no code of its own.
    """
    for before in ([], [start(), *text(0, "x")]):
        error = parsed(NAME, sse_frames(*before, value)).error
        assert isinstance(error, ProviderError)
        assert (error.message, error.type, error.code, error.retryable) == (message, kind, code, retryable)


def test_counts_beside_an_error() -> None:
    """
    P4: a usage object beside the error is applied before it, and marked partial.
    """
    reading = read_everywhere(NAME, sse({**OVERLOADED, "usage": {"output_tokens": 3}}))
    assert isinstance(reading.events[-1], ErrorEvent)
    assert reading.error is not None
    assert reading.error.request_id == "req_1"
    assert reading.response.usage is not None
    assert (reading.response.usage.output_tokens, reading.response.usage.partial) == (3, True)


@pytest.mark.parametrize(
    "line", ['{"error": {"message": "down", "type": "api_error"}}', 'error: {"error": {"message": "down", "type": "api_error"}}']
)
def test_an_error_in_stray_lines(line: str) -> None:
    """
    P8: a JSON object with an error in it is PROVIDER_ERROR though it is no event.
    """
    reading = read_everywhere(NAME, sse(*OPEN) + line.encode() + b"\n\n")
    assert reading.error is not None
    assert (reading.verdict, reading.error.message, reading.error.type) == ("PROVIDER_ERROR", "down", "api_error")


@pytest.mark.parametrize("line", ["<html>", '{"error": null}', '"x"'])
def test_other_stray_lines_change_nothing(line: str) -> None:
    """
    P8: anything else is Raw.
    """
    frames: list[Frame] = [*sse_frames(*OPEN), StrayText(line), *sse_frames(ends(), STOP)]
    reading = parsed(NAME, frames)
    assert (reading.error, reading.of(Raw)) == (None, [Raw("stray", line)])


def test_the_error_policy_for_unknown_frames() -> None:
    """
    E11: `unknown="error"` breaks the stream, "ignore" is silent; both count.
    """
    frames = sse_frames(start(), {"type": "weather"}, opens(0, "hologram"), ends(), STOP)
    ignored = parsed(NAME, frames, unknown="ignore")
    (step,) = ignored.of(StepEnd)
    assert isinstance(step, StepEnd)
    assert (ignored.of(Raw), step.response.unknown) == ([], {"weather": 1, "hologram": 1})
    assert parsed(NAME, frames, unknown="error").verdict == "PROTOCOL"


# --- answers ----------------------------------------------------------------------------------------------------------------------------------------

RICH = [
    start(usage={"input_tokens": 10, "cache_read_input_tokens": 5, "output_tokens": 1}),
    PING,
    opens(0, "thinking", thinking="", signature=""),
    grows(0, "thinking_delta", thinking="Let me see 🌱"),
    grows(0, "signature_delta", signature="sig"),
    stops(0),
    opens(1, "redacted_thinking", data="zz"),
    stops(1),
    opens(2, "server_tool_use", id="s1", name="web_search", input={}),
    grows(2, "input_json_delta", partial_json=""),
    grows(2, "input_json_delta", partial_json='{"query":"sky"}'),
    stops(2),
    {"type": "content_block_start", "index": 3, "content_block": RESULT},
    stops(3),
    opens(4, "text", text="", citations=[]),
    grows(4, "citations_delta", citation={"url": "https://a.example", "title": "A", "cited_text": "q"}),
    grows(4, "text_delta", text="你好"),
    grows(4, "text_delta", text=" – blue."),
    stops(4),
    {"type": "content_block_start", "index": 5, "content_block": FALLBACK},
    stops(5),
    *call(6, "c1", "", '{"a":"é', '"}'),
    opens(7, "tool_use", id="c2", name="f", input={}),
    stops(7),
    {**ends("tool_use", 30, container={"id": "k"}), "usage": {"output_tokens": 30}},
    STOP,
]

BODY = {
    "id": "msg_1",
    "type": "message",
    "role": "assistant",
    "model": "m-1",
    "content": [
        {"type": "thinking", "thinking": "Let me see 🌱", "signature": "sig"},
        {"type": "redacted_thinking", "data": "zz"},
        {"type": "server_tool_use", "id": "s1", "name": "web_search", "input": {"query": "sky"}},
        RESULT,
        {"type": "text", "text": "你好 – blue.", "citations": [{"url": "https://a.example", "title": "A", "cited_text": "q"}]},
        FALLBACK,
        {"type": "tool_use", "id": "c1", "name": "f", "input": {"a": "é"}},
        {"type": "tool_use", "id": "c2", "name": "f", "input": {}},
    ],
    "stop_reason": "tool_use",
    "container": {"id": "k"},
    "usage": {"input_tokens": 10, "cache_read_input_tokens": 5, "output_tokens": 30},
}


def test_a_rich_answer() -> None:
    """
    All kinds of blocks in one stream fold into one answer, whatever the cut.
    """
    reading = read_everywhere(NAME, sse(*RICH))
    response = reading.response
    assert (reading.verdict, violations(reading.events), response.committable) == ("COMPLETE", [], True)
    assert (response.text, response.thinking, response.model) == ("你好 – blue.", "Let me see 🌱", "m-1")
    assert [call.arguments for call in response.tool_calls] == [{"a": "é"}, {}]
    assert ThinkingPart("Let me see 🌱", "sig", 0) in response.parts
    assert ProviderItemPart("fallback", FALLBACK) in response.parts
    (tool,) = (part for part in response.parts if isinstance(part, ServerToolPart))
    assert (tool.kind, tool.name, tool.arguments_text, tool.result) == ("server_tool_use", "web_search", '{"query":"sky"}', RESULT)


def test_the_stream_and_the_body_are_one_answer() -> None:
    """
    The JSON body goes through the same dialect into the same answer.
    """
    streamed = read(NAME, sse(*RICH)).response
    body = parsed(NAME, whole(BODY))
    assert body.error is None
    plain = read_everywhere(NAME, json.dumps(BODY).encode(), "application/json").response
    assert plain.parts == streamed.parts
    assert plain.usage is not None
    assert streamed.usage is not None
    assert (plain.usage.input_tokens, plain.usage.output_tokens, plain.usage.wire) == (15, 30, streamed.usage.wire)
    assert (plain.finish_reason_raw, plain.provider_response_id, plain.verdict) == ("tool_use", "msg_1", streamed.verdict)


BAD_BODIES = [
    ([1], "PROTOCOL"),
    ({"id": "x"}, "PROTOCOL"),
    ({"type": "message", "content": "x"}, "PROTOCOL"),
    ({"type": "message", "content": [5]}, "PROTOCOL"),
    (OVERLOADED, "PROVIDER_ERROR"),
    ({"error": {"message": "no"}}, "PROVIDER_ERROR"),
]


@pytest.mark.parametrize(("body", "verdict"), BAD_BODIES)
def test_bodies_that_are_no_message(body: Any, verdict: str) -> None:
    """
    A body is a message, or an error, or a fault.
    """
    assert parsed(NAME, whole(body)).verdict == verdict


def test_the_stream_cut_anywhere() -> None:
    """
    Cut at any byte: never COMPLETE, always balanced, the text a prefix.
    """
    body = sse(*RICH)
    full = read(NAME, body).response.text
    for k in range(0, len(body) - 1, 7):
        reading = read(NAME, body[:k])
        # Within a character the bytes are no UTF-8 (contract B1).
        assert reading.verdict in ("INCOMPLETE_STREAM", "INVALID_UTF8")
        assert violations(reading.events) == []
        assert full.startswith(reading.response.text)


# --- properties -------------------------------------------------------------------------------------------------------------------------------------

scraps = st.recursive(
    st.none() | st.booleans() | st.integers(-2, 3) | st.sampled_from(["", "x", "text", "tool_use", "thinking", "{}", "text_delta"]),
    lambda inner: (
        st.lists(inner, max_size=2)
        | st.dictionaries(
            st.sampled_from(["type", "index", "delta", "content_block", "text", "id", "input", "error", "citations", "stop_reason", "tool_use_id"]),
            inner,
            max_size=4,
        )
    ),
    max_leaves=6,
)
kinds = st.sampled_from(
    ["message_start", "content_block_start", "content_block_delta", "content_block_stop", "message_delta", "message_stop", "ping", "error", "x"]
)
frames = st.one_of(
    st.sampled_from(RICH[:-1]),
    st.builds(lambda kind, extra: {**(extra if isinstance(extra, dict) else {"message": extra}), "type": kind}, kinds, scraps),
    st.builds(opens, st.integers(0, 3), st.sampled_from(["text", "thinking", "tool_use", "server_tool_use", "compaction", "x"])),
    st.builds(lambda index, kind, piece: grows(index, kind, text=piece, partial_json=piece), st.integers(0, 3), kinds, scraps),
)


@given(st.lists(frames, max_size=12))
def test_any_frames(values: list[Any]) -> None:
    """
    Frames in any order, whole or not: events of the grammar, or an error of ours.
    """
    reading = read(NAME, sse(*values, *([] if len(values) % 2 else [ends(), STOP])))
    assert violations(reading.events) == []
    assert reading.error is None or isinstance(reading.error, RxchatError)
