"""
Gemini's Interactions: event streams and bodies to answers.
"""

from __future__ import annotations

import base64
import json
from typing import Any

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rxchat.errors import DialectError, ProviderError, RxchatError
from rxchat.events import (
    Abort,
    MediaDone,
    MediaPartial,
    Raw,
    SearchResult,
    ServerToolResult,
    ServerToolStart,
    Status,
    ThinkingSignature,
    ToolCallArgsDelta,
    ToolResult,
)
from rxchat.response import CitationPart, FinishReason, ServerToolPart, TextPart, ThinkingPart, ToolCall
from tests.dialects.reading import Reading, read, read_everywhere
from tests.grammar import violations

NAME = "gemini-interactions"
JSON = "application/json"

Json = dict[str, Any]

INTERACTION = {"id": "v1_a", "model": "gemini-x", "object": "interaction"}


def named(name: str, **said: Any) -> Json:
    return {**said, "event_type": name}


def created(**said: Any) -> Json:
    return named("interaction.created", interaction={**INTERACTION, "status": "in_progress", **said})


def completed(status: Any = "completed", **said: Any) -> Json:
    return named("interaction.completed", interaction={**INTERACTION, "status": status, **said})


def opens(index: int, kind: str, **said: Any) -> Json:
    return named("step.start", index=index, step={"type": kind, **said})


def grows(index: int, kind: str | None = None, **said: Any) -> Json:
    return named("step.delta", index=index, delta={**({"type": kind} if kind else {}), **said})


def stops(index: int) -> Json:
    return named("step.stop", index=index)


def output(index: int, *pieces: str) -> list[Json]:
    return [opens(index, "model_output"), *(grows(index, "text", text=piece) for piece in pieces), stops(index)]


def sse(*values: Any) -> bytes:
    """
    An event stream as the API sends it; bytes stand for themselves.
    """
    return b"".join(
        value if isinstance(value, bytes) else b"event: %s\ndata: %s\n\n" % (str(value.get("event_type", "x")).encode(), json.dumps(value).encode())
        for value in values
    )


DONE = b"event: done\ndata: [DONE]\n\n"


def answer(*values: Any, end: Any = None) -> Reading:
    """
    A stream from its creation to its end, read at every cut; balanced.
    """
    reading = read_everywhere(NAME, sse(created(), *values, completed() if end is None else end, DONE))
    assert violations(reading.events) == []
    return reading


# --- ends -------------------------------------------------------------------------------------------------------------------------------------------

ENDS: list[tuple[str, Any, str, FinishReason]] = [
    ("completed", completed(), "COMPLETE", FinishReason.STOP),
    ("calls wait", completed("requires_action"), "COMPLETE", FinishReason.TOOL_CALLS),
    ("incomplete", completed("incomplete"), "INCOMPLETE_FINISH", FinishReason.LENGTH),
    ("no budget", completed("budget_exceeded"), "INCOMPLETE_FINISH", FinishReason.LENGTH),
    ("an unknown status", completed("tired"), "INCOMPLETE_FINISH", FinishReason.OTHER),
    ("no status", completed(None), "INCOMPLETE_FINISH", FinishReason.UNKNOWN),
    ("failed", completed("failed"), "PROVIDER_ERROR", FinishReason.ERROR),
    ("failed, with a reason", completed("failed", error={"code": 500, "message": "m"}), "PROVIDER_ERROR", FinishReason.ERROR),
    ("cancelled", completed("cancelled"), "ABORTED", FinishReason.OTHER),
    ("nothing", b"", "INCOMPLETE_STREAM", FinishReason.UNKNOWN),
    ("a status that is no end", named("interaction.status_update", status="completed"), "INCOMPLETE_STREAM", FinishReason.UNKNOWN),
    (
        "a status of its own name",
        named("interaction.requires_action", interaction={"status": "requires_action"}),
        "INCOMPLETE_STREAM",
        FinishReason.UNKNOWN,
    ),
    ("a status that failed", named("interaction.status_update", status="failed"), "PROVIDER_ERROR", FinishReason.ERROR),
    ("a status that was cancelled", named("interaction.cancelled", interaction={"status": "cancelled"}), "ABORTED", FinishReason.OTHER),
    ("no interaction", named("interaction.completed"), "PROTOCOL", FinishReason.UNKNOWN),
    ("an end without its blank line", sse(completed())[:-1], "INCOMPLETE_STREAM", FinishReason.UNKNOWN),
]


@pytest.mark.parametrize(("end", "verdict", "finish"), [row[1:] for row in ENDS], ids=[row[0] for row in ENDS])
def test_end(end: Any, verdict: str, finish: FinishReason) -> None:
    """
    Only interaction.completed ends the answer, its status is the finish; done means nothing (contract P9).
    """
    done = DONE if not isinstance(end, bytes) else b""
    reading = read_everywhere(NAME, sse(created(), *output(0, "a"), end) + done)
    assert (verdict, finish, "a") == (reading.verdict, reading.response.finish_reason, reading.response.text)
    assert violations(reading.events) == []
    assert (verdict == "ABORTED") == isinstance(reading.events[-1], Abort)


def test_ids_status_and_raw_word() -> None:
    """
    Id and model are the interaction's, a stateless one has no id; each new status is told once.
    """
    update = named("interaction.status_update", interaction_id="v1_a", status="in_progress")
    reading = answer(update, *output(0, "a"))
    response = reading.response
    assert ("v1_a", "gemini-x", "completed") == (response.provider_response_id, response.model, response.finish_reason_raw)
    assert [Status("in_progress")] == reading.of(Status)
    stateless = read(NAME, sse(created(id=""), *output(0, "a"), completed(id="")))
    assert ("COMPLETE", None) == (stateless.verdict, stateless.response.provider_response_id)


def test_without_created() -> None:
    """
    Steps need no announcement; an agent stands for a model.
    """
    end = named("interaction.completed", interaction={"status": "completed", "agent": "researcher"})
    reading = read_everywhere(NAME, sse(*output(0, "a"), end))
    assert ("COMPLETE", "a", "researcher") == (reading.verdict, reading.response.text, reading.response.model)


# --- steps ----------------------------------------------------------------------------------------------------------------------------------------


def thought(text: str) -> Json:
    return grows(0, "thought_summary", content={"type": "text", "text": text})


THOUGHTS: list[tuple[str, list[Json], list[ThinkingPart]]] = [
    ("a summary and its signature", [thought("h"), thought("m"), grows(0, "thought_signature", signature="s")], [ThinkingPart("hm", "s", 0)]),
    ("a signature in pieces", [thought("h"), grows(0, "thought_signature", signature="s"), grows(0, signature="t")], [ThinkingPart("h", "st", 0)]),
    ("a signature only", [grows(0, "thought_signature", signature="s")], [ThinkingPart("", "s", 0)]),
    ("an empty signature", [thought("h"), grows(0, "thought_signature", signature="")], [ThinkingPart("h", None, 0)]),
    ("nothing", [], []),
    ("text without its wrapping", [grows(0, "thought_summary", text="h")], [ThinkingPart("h", None, 0)]),
    ("text", [grows(0, "text", text="h")], [ThinkingPart("h", None, 0)]),
    ("a list", [grows(0, "thought_summary", content=[{"text": "h"}])], [ThinkingPart("h", None, 0)]),
]


@pytest.mark.parametrize("stopped", [True, False])
@pytest.mark.parametrize(("deltas", "wanted"), [row[1:] for row in THOUGHTS], ids=[row[0] for row in THOUGHTS])
def test_thoughts(deltas: list[Json], wanted: list[ThinkingPart], stopped: bool) -> None:
    """
    A thought is a block of thinking with its whole signature, stopped or not (contract P11); an empty one is nothing.
    """
    reading = answer(opens(0, "thought"), *deltas, *([stops(0), stops(0)] if stopped else []), *output(1, "a"))
    parts = sorted(reading.response.parts, key=lambda part: part.index or 0)  # type: ignore[union-attr]
    assert [*wanted, TextPart("a", 1)] == parts
    assert sum(part.signature is not None for part in wanted) == len(reading.of(ThinkingSignature))


def test_steps_nobody_began() -> None:
    """
    Deltas of a step that was never started say themselves what it is; a stop of none is passed over.
    """
    reading = answer(thought("h"), grows(0, "thought_signature", signature="s"), grows(1, "text", text="a"), grows(1, text="b"), stops(7))
    assert (ThinkingPart("h", "s", 0), TextPart("ab", 1)) == reading.response.parts


def call(*deltas: Json, stop: bool = True, **said: Any) -> list[Json]:
    return [opens(0, "function_call", **{"id": "c", "name": "f", "arguments": {}, **said}), *deltas, *([stops(0)] if stop else [])]


def arguments(*pieces: Any, **more: Any) -> list[Json]:
    return [grows(0, "arguments_delta", arguments=piece, **more) for piece in pieces]


CALLS: list[tuple[str, list[Json], str, str, Any, bool]] = [
    ("in pieces", call(*arguments('{"x"', ":1}")), "requires_action", '{"x":1}', {"x": 1}, True),
    ("at its start", call(arguments={"x": 1}), "requires_action", '{"x":1}', {"x": 1}, True),
    ("an object in a delta", call(*arguments({"x": 1})), "requires_action", '{"x":1}', {"x": 1}, True),
    ("none", call(), "requires_action", "", {}, True),
    ("null", call(*arguments(None), arguments=None), "requires_action", "", {}, True),
    ("never stopped", call(*arguments('{"x":1}'), stop=False), "requires_action", '{"x":1}', {"x": 1}, True),
    ("at its start, never stopped", call(stop=False, arguments={"x": 1}), "requires_action", '{"x":1}', {"x": 1}, True),
    ("a normal status", call(*arguments("{}")), "completed", "{}", {}, True),
    ("cut", call(*arguments('{"x"')), "incomplete", '{"x"', None, False),
    ("none, and cut", call(), "incomplete", "", None, False),
]


@pytest.mark.parametrize(("steps", "status", "text", "made", "complete"), [row[1:] for row in CALLS], ids=[row[0] for row in CALLS])
def test_calls(steps: list[Json], status: str, text: str, made: Any, complete: bool) -> None:
    """
    Arguments are the fragments as sent, those of the start only without fragments; a call is complete if its step or the interaction ended so.
    """
    reading = answer(*steps, end=completed(status))
    assert (ToolCall("c", "f", text, made, complete, 0),) == reading.response.tool_calls
    assert text == "".join(delta.text for delta in reading.events if isinstance(delta, ToolCallArgsDelta))
    assert complete == (FinishReason.TOOL_CALLS is reading.response.finish_reason)


@pytest.mark.parametrize(
    "steps",
    [
        call(*arguments("{}"), signature="s"),
        call(*arguments("{}", signature="s")),
        call(*arguments("{}"), grows(0, "thought_signature", signature="s"), signature=""),
    ],
)
def test_signature_of_a_call(steps: list[Json]) -> None:
    """
    A call's signature is its metadata, wherever it stood.
    """
    (made,) = answer(*steps, end=completed("requires_action")).response.tool_calls
    assert {"signature": "s"} == made.metadata


def test_two_calls() -> None:
    """
    Two calls have their own order, whatever their steps' indexes.
    """
    second = [opens(4, "function_call", id="d", name="g"), grows(4, "arguments_delta", arguments='{"y":2}'), stops(4)]
    reading = answer(*call(), *second, end=completed("requires_action"))
    assert [("c", 0, {}), ("d", 1, {"y": 2})] == [(made.id, made.index, made.arguments) for made in reading.response.tool_calls]


def test_function_result() -> None:
    """
    A function_result is a ToolResult, its parts wherever they stood.
    """
    reading = answer(*call(), opens(1, "function_result", call_id="c"), grows(1, "function_result", result={"x": 1}, is_error=True), stops(1))
    assert [ToolResult("c", {"x": 1}, True)] == reading.of(ToolResult)


# --- tools of the provider ------------------------------------------------------------------------------------------------------------------------


def test_search() -> None:
    """
    A search is one part of what was asked and answered; what was found is a SearchResult each.
    """
    hits = [{"url": "https://a.example", "title": "A"}, {"uri": "https://b.example", "snippet": "b"}, {"search_suggestions": "<x>"}]
    reading = answer(
        opens(0, "google_search_call", id="s", signature=""),
        grows(0, "google_search_call", arguments={"queries": ["q"]}, signature="k"),
        grows(0, "google_search_call", arguments={"queries": ["q", "r"]}),
        stops(0),
        opens(1, "google_search_result", call_id="s", signature=""),
        grows(1, "google_search_result", result=hits[:1], is_error=False),
        grows(1, "google_search_result", result=hits),
        stops(1),
        *output(2, "a"),
    )
    assert [SearchResult("https://a.example", "A"), SearchResult("https://b.example", None, "b")] == reading.of(SearchResult)
    tool = reading.response.parts[0]
    assert isinstance(tool, ServerToolPart)
    assert ("google_search", "s", '{"queries":["q","r"]}', hits, False) == (
        tool.kind,
        tool.id,
        tool.arguments_text,
        tool.result["result"],
        tool.is_error,
    )
    assert "COMPLETE" == reading.verdict


TOOLS: list[tuple[str, list[Json], str, str]] = [
    ("whole at its start", [opens(0, "mcp_server_tool_call", id="t", name="n", arguments={"x": 1}), stops(0)], "mcp_server_tool", '{"x":1}'),
    (
        "code in pieces",
        [
            opens(0, "code_execution_call", id="t"),
            grows(0, "code_execution_call", arguments={"language": "python", "code": "pri"}),
            grows(0, "code_execution_call", arguments={"language": "python", "code": "nt(1)"}),
            stops(0),
        ],
        "code_execution",
        '{"language":"python","code":"print(1)"}',
    ),
    (
        "code said again and more",
        [*(grows(0, "code_execution_call", code=code, id="t") for code in ("a", "ab", "ab")), stops(0)],
        "code_execution",
        '{"code":"ab"}',
    ),
    (
        "arguments as text",
        [opens(0, "mcp_server_tool_call", id="t"), *arguments('{"x"', ":1}"), stops(0)],
        "mcp_server_tool",
        '{"x":1}',
    ),
    ("nothing, never stopped", [opens(0, "file_search_call", id="t")], "file_search", ""),
]


@pytest.mark.parametrize(("steps", "kind", "text"), [row[1:] for row in TOOLS], ids=[row[0] for row in TOOLS])
def test_tools(steps: list[Json], kind: str, text: str) -> None:
    """
    A tool's arguments are those of its start and its deltas together, given when it stops.
    """
    reading = answer(*steps, *output(1, "a"))
    (tool,) = (part for part in reading.response.parts if isinstance(part, ServerToolPart))
    assert (kind, "t", text) == (tool.kind, tool.id, tool.arguments_text)
    assert not reading.response.tool_calls


def test_failed_tool() -> None:
    """
    A tool that failed is no failure of the answer.
    """
    reading = answer(opens(0, "code_execution_call", id="t"), opens(1, "code_execution_result", call_id="t", result="no", is_error=True), stops(1))
    assert [ServerToolStart("code_execution", "t")] == reading.of(ServerToolStart)
    assert [ServerToolResult("code_execution", "t", {"result": "no", "is_error": True}, True)] == reading.of(ServerToolResult)
    assert "COMPLETE" == reading.verdict


# --- content --------------------------------------------------------------------------------------------------------------------------------------


def test_citations() -> None:
    """
    Annotations are citations of their step, in code points, beside their text or behind it.
    """
    beside = [{"type": "url_citation", "url": "https://a.example", "title": "A", "end_index": 2}]
    behind = [
        {"type": "file_citation", "document_uri": "files/x", "file_name": "x", "start_index": 2, "end_index": 3},
        {"type": "place_citation", "name": "P"},
    ]
    reading = answer(
        opens(1, "model_output"),
        grows(1, "text", text="é", annotations=beside),
        grows(1, "text", text="b"),
        grows(1, "text_annotation_delta", annotations=behind),
        grows(1, annotations=[{"uri": "https://c.example", "end_index": 99}]),
        stops(1),
    )
    wanted = [
        CitationPart("https://a.example", "A", None, None, 1, 0, 1),
        CitationPart("files/x", None, None, "x", 1, 1, 2),
        CitationPart(None, "P", index=1),
        CitationPart("https://c.example", index=1),
    ]
    assert wanted == list(reading.response.citations)
    assert "éb" == reading.response.text


def b64(data: bytes) -> str:
    return base64.b64encode(data).decode()


def test_media() -> None:
    """
    Images are whole, audio comes in pieces and is one when its step stops; a picture in a thought is no part of the answer.
    """
    reading = answer(
        opens(0, "thought", summary=[{"type": "image", "data": "AAAA", "mime_type": "image/png"}]),
        opens(1, "model_output"),
        grows(1, "image", data="AAAA", mime_type="image/png"),
        grows(1, "audio", data=b64(b"ab"), mime_type="audio/l16"),
        grows(1, "audio", data=b64(b"c")),
        grows(1, "document", uri="gs://x", mime_type="application/pdf"),
        grows(1, "video"),
        stops(1),
    )
    wanted = [
        MediaDone("image", "image/png", "AAAA"),
        MediaDone("file", "application/pdf", url="gs://x"),
        MediaDone("audio", "audio/l16", b64(b"abc"), item_id="step-1"),
    ]
    assert wanted == reading.of(MediaDone)
    assert [("image", None), ("audio", 0), ("audio", 1)] == [(piece.kind, piece.partial_index) for piece in reading.of(MediaPartial)]  # type: ignore[union-attr]
    assert 3 == len(reading.response.media)


def test_unknown() -> None:
    """
    Unknown events, steps, deltas and contents are Raw and counted, and break nothing (contract E11).
    """
    reading = answer(
        named("interaction.sparkle"),
        {"x": 1},
        opens(0, "hologram"),
        grows(0, "hologram_delta", x=1),
        opens(1, "model_output", content=[{"type": "smell"}, "x"]),
        grows(1, frames=3),
        grows(1, "thought_signature", signature="s"),
        opens(2, "user_input", content=[{"type": "text", "text": "asked"}]),
        *output(3, "a"),
        b"hello there\n",
    )
    counted = {
        "interaction.sparkle": 1,
        "x": 1,
        "step hologram": 1,
        "delta hologram_delta": 1,
        "content smell": 1,
        "content text": 1,
        "delta delta": 1,
        "signature of model_output": 1,
        "stray": 1,
    }
    assert ("COMPLETE", "a", counted) == (reading.verdict, reading.response.text, reading.response.unknown)
    assert 9 == len(reading.of(Raw))


MALFORMED: list[tuple[str, Any]] = [
    ("an event", b"data: [1]\n\n"),
    ("a step without its index", named("step.start", step={"type": "thought"})),
    ("a step without its type", named("step.start", index=1, step={})),
    ("a step that is none", named("step.start", index=1, step="x")),
    ("a delta that is none", named("step.delta", index=1, delta="x")),
    ("a text", grows(1, "text", text=1)),
    ("arguments", [*call(stop=False), *arguments(1)]),
    ("arguments of no call", grows(1, "arguments_delta", arguments="{")),
    ("a call without its name", opens(1, "function_call", id="c")),
    ("audio", grows(1, "audio", data="?")),
]


@pytest.mark.parametrize("value", [row[1] for row in MALFORMED], ids=[row[0] for row in MALFORMED])
def test_malformed(value: Any) -> None:
    """
    A known frame that is malformed breaks the stream; what was before it is delivered (contract E10, E11).
    """
    reading = answer(*output(9, "a"), *(value if isinstance(value, list) else [value]))
    assert isinstance(reading.error, DialectError)
    assert ("PROTOCOL", "a") == (reading.verdict, reading.response.text)


ERROR = {"code": 503, "message": "overloaded", "status": "UNAVAILABLE"}


@pytest.mark.parametrize(
    "value",
    [
        named("error", error=ERROR),
        {"error": ERROR},
        b"event: error\ndata: " + json.dumps({"error": ERROR}).encode() + b"\n\n",
        json.dumps({"error": ERROR}).encode() + b"\n",
    ],
)
def test_errors(value: Any) -> None:
    """
    An error is one wherever it stands.
    """
    reading = answer(*output(0, "a"), value)
    assert isinstance(reading.error, ProviderError)
    assert ("overloaded", "UNAVAILABLE", "a") == (reading.error.message, reading.error.type, reading.response.text)


def test_error_of_a_failed_interaction() -> None:
    """
    A failed interaction says why, or at least that.
    """
    why = answer(end=completed("failed", error=ERROR)).error
    bare = answer(end=completed("failed")).error
    assert why is not None
    assert bare is not None
    assert ("overloaded", "the interaction failed", "failed") == (why.message, bare.message, bare.type)


# --- usage and bodies -----------------------------------------------------------------------------------------------------------------------------

USAGE = {
    "total_input_tokens": 9,
    "total_output_tokens": 5,
    "total_thought_tokens": 7,
    "total_tool_use_tokens": 3,
    "total_cached_tokens": 2,
    "total_tokens": 24,
}


def test_usage() -> None:
    """
    Usage comes with any event, the last values count; tool use is input, thoughts are output (contract P4).
    """
    early = {**grows(0, "text", text="a"), "metadata": {"usage": {"total_input_tokens": 4, "total_tokens": 5}}}
    reading = answer(opens(0, "model_output"), early, {**stops(0), "usage": {"total_input_tokens": 5}}, end=completed(usage=USAGE))
    usage = reading.response.usage
    assert usage is not None
    assert (12, 12, 2, 7, 24) == (usage.input_tokens, usage.output_tokens, usage.cache_read_tokens, usage.reasoning_tokens, usage.total_tokens)
    assert (9, 5, 3) == (usage.wire["input_tokens"], usage.wire["output_tokens"], usage.wire["tool_use_prompt_tokens"])
    assert "PROVIDER_ERROR" == answer({**named("error", error=ERROR), "usage": USAGE}).verdict


STEPS = [
    {"type": "user_input", "content": [{"type": "text", "text": "asked"}]},
    {"type": "thought", "signature": "s", "summary": [{"type": "text", "text": "hm"}]},
    {"type": "model_output", "content": [{"type": "text", "text": "a", "annotations": [{"url": "https://a.example", "end_index": 1}]}]},
    {"type": "google_search_call", "id": "g", "arguments": {"queries": ["q"]}},
    {"type": "google_search_result", "call_id": "g", "result": [{"url": "https://a.example"}]},
    {"type": "function_call", "id": "c", "name": "f", "arguments": {"x": 1}, "signature": "t"},
]


def test_stream_is_body() -> None:
    """
    A body, its steps one by one, and an end that alone lists them are one answer.
    """
    body = {**INTERACTION, "status": "requires_action", "usage": USAGE, "steps": STEPS}
    whole = read_everywhere(NAME, json.dumps(body).encode(), JSON)
    streamed = [frame for index, step in enumerate(STEPS) for frame in (named("step.start", index=index, step=step), stops(index))]
    by_steps = read(NAME, sse(created(), *streamed, completed("requires_action", usage=USAGE, steps=STEPS)))
    by_end = read(NAME, sse(created(), completed("requires_action", usage=USAGE, steps=STEPS)))
    assert whole.response == by_steps.response == by_end.response
    assert ("COMPLETE", "a", "hm") == (whole.verdict, whole.response.text, whole.response.thinking)
    assert [{"signature": "t"}] == [made.metadata for made in whole.response.tool_calls]
    assert "s" == next(part.signature for part in whole.response.parts if isinstance(part, ThinkingPart))


@pytest.mark.parametrize(
    ("body", "verdict"), [({"error": ERROR}, "PROVIDER_ERROR"), ({"x": 1}, "PROTOCOL"), ([1], "PROTOCOL"), ({"status": "failed"}, "PROVIDER_ERROR")]
)
def test_other_bodies(body: Any, verdict: str) -> None:
    """
    A body that is an error is one, a body that is no interaction is malformed.
    """
    assert verdict == read(NAME, json.dumps(body).encode(), JSON).verdict


# --- properties -----------------------------------------------------------------------------------------------------------------------------------

FRAMES = [
    created(),
    opens(0, "thought"),
    thought("h"),
    grows(0, "thought_signature", signature="s"),
    stops(0),
    *call(*arguments('{"x"', ":1}")),
    opens(1, "model_output"),
    grows(1, "text", text="é"),
    grows(1, "audio", data="YWI="),
    grows(1, "text_annotation_delta", annotations=[{"url": "https://a.example", "end_index": 2}]),
    stops(1),
    opens(2, "google_search_call", id="g"),
    grows(2, "google_search_result", call_id="g", result=[{"url": "https://a.example"}]),
    named("interaction.status_update", status="cancelled"),
    completed(),
    completed("incomplete"),
    completed("failed"),
    {"x": 1},
]


@given(values=st.lists(st.sampled_from(FRAMES), max_size=9), cut=st.integers(0, 2500))
def test_any_stream_cut_anywhere(values: list[Any], cut: int) -> None:
    """
    Whatever comes in whatever order, cut anywhere: balanced, an error of ours or an end, COMPLETE only behind interaction.completed.
    """
    body = sse(*values)[:cut]
    reading = read(NAME, body)
    assert violations(reading.events) == []
    assert reading.error is None or isinstance(reading.error, RxchatError)
    if reading.verdict == "COMPLETE":
        assert b'"event_type": "interaction.completed"' in body
    again = read(NAME, body, cut=3)
    assert attrs.evolve(reading.response, response_id=None) == attrs.evolve(again.response, response_id=None)
