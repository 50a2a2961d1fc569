"""
The OpenAI chat dialect, frame by frame: what its parser says, how it ends, what it refuses.
"""

from __future__ import annotations

import base64
import json
import sys
from collections.abc import Callable
from importlib import metadata
from types import FrameType
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rxchat.dialects import DIALECTS, Context, Dialect, dialect_names, get_dialect
from rxchat.dialects.openai_chat import OpenAIChatParser
from rxchat.errors import ConfigurationError, DialectError, IncompleteStreamError, InvalidJSONError, LimitExceeded, ProviderError, Verdict
from rxchat.events import (
    ChatEvent,
    Citation,
    ContentFilter,
    Custom,
    ErrorEvent,
    Heartbeat,
    MediaDone,
    MediaPartial,
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
    ThinkingDelta,
    ThinkingRedacted,
    ThinkingSignature,
    ToolCallArgsDelta,
    ToolCallEnd,
    ToolCallStart,
    UsageUpdate,
)
from rxchat.framing.frames import JsonRecord, SseEvent, StrayText, Undispatched
from rxchat.limits import Limits
from rxchat.pipeline import Head
from rxchat.response import FinishReason, ToolCall
from rxchat.stage import Emit
from tests.dialects.chat_wire import (
    DIALECT,
    DONE,
    Wire,
    answer,
    answer_of_body,
    body,
    body_frame,
    call,
    calls,
    choice,
    chunk,
    delta,
    events_of,
    final,
    finish,
    inner,
    parse,
    sse,
    text,
    texts,
    whole,
)

END = (finish(), DONE)


def ended(call_id: str = "", name: str = "", index: int | None = None, *, at: int = 0, **fields: Any) -> ToolCallEnd:
    """
    A call the provider ended.
    """
    return ToolCallEnd(ToolCall(call_id, name, index=index, complete=True, **fields), at)


# --- one frame, what it says ----------------------------------------------------------------------------------------------------------------------

URL = {"type": "url_citation", "url_citation": {"url": "https://a.example", "title": "A", "content": "quote", "start_index": 2, "end_index": 5}}
FLAT = {"type": "url_citation", "url": "https://b.example", "title": "B", "summary": "short", "site_name": "b"}

SAYS: dict[str, tuple[Wire, list[ChatEvent]]] = {
    "text": (text("a"), [TextDelta("a")]),
    "empty text": (text(""), []),
    "null text": (text(None), []),
    "text of choice 1": (text("a", 1), [TextDelta("a", choice=1)]),
    "no delta": (chunk({"index": 0, "finish_reason": None}), []),
    "null choice": (chunk(None), []),  # type: ignore[arg-type]
    "choices null": (chunk(choices=None), []),
    "choices absent": ({"id": "c", "object": "chat.completion.chunk"}, []),
    "null frame": (None, []),  # type: ignore[dict-item]
    "role only": (delta(role="assistant"), []),
    "reasoning_content": (delta(reasoning_content="t", content=None), [ThinkingDelta("t")]),
    "reasoning": (delta(reasoning="t"), [ThinkingDelta("t")]),
    "reasoning before text": (delta(content="a", reasoning="t"), [ThinkingDelta("t"), TextDelta("a")]),
    "reasoning in two fields": (delta(reasoning="t", reasoning_content="t"), [ThinkingDelta("t")]),
    "reasoning and details": (delta(reasoning="t", reasoning_details=[{"type": "reasoning.text", "text": "t", "index": 0}]), [ThinkingDelta("t")]),
    "details alone": (delta(reasoning_details=[{"type": "reasoning.text", "text": "t"}]), [ThinkingDelta("t")]),
    "a summary": (delta(reasoning="s", reasoning_details=[{"type": "reasoning.summary", "summary": "s", "index": 0}]), [ThinkingDelta("s")]),
    "details of two blocks": (
        delta(reasoning="ab", reasoning_details=[{"text": "a", "index": 0, "signature": "s"}, {"text": "b", "index": 1}]),
        [ThinkingDelta("a"), ThinkingSignature("s"), ThinkingDelta("b", 1)],
    ),
    "details that say less": (delta(reasoning="ab", reasoning_details=[{"text": "a"}, None]), [ThinkingDelta("ab")]),
    "a seal alone": (delta(reasoning="", reasoning_details=[{"type": "reasoning.text", "signature": "s", "index": 0}]), [ThinkingSignature("s")]),
    "opaque reasoning": (
        delta(reasoning_details=[{"type": "reasoning.encrypted", "data": "xx", "id": "rs_1"}]),
        [ThinkingRedacted("xx", item_id="rs_1")],
    ),
    "opaque reasoning, flat": (delta(reasoning_encrypted="xx"), [ThinkingRedacted("xx")]),
    "a message's seal": (delta(extra_content={"google": {"thought_signature": "s"}}), [ThinkingSignature("s")]),
    "a message's seal, flat": (delta(thought_signature="s"), [ThinkingSignature("s")]),
    "content array": (
        text([{"type": "thinking", "thinking": [{"type": "text", "text": "t"}, {"type": "text", "text": "u"}]}, {"type": "text", "text": "a"}, "b"]),
        [ThinkingDelta("tu"), TextDelta("a"), TextDelta("b")],
    ),
    "empty thinking part": (text([{"type": "thinking", "thinking": [], "closed": True}]), []),
    "a thinking part's seal": (text([{"type": "thinking", "thinking": "t", "signature": "s"}]), [ThinkingDelta("t"), ThinkingSignature("s")]),
    "a summary in a reasoning part": (
        text([{"type": "reasoning", "summary": [{"type": "summary_text", "text": "t", "signature": "s"}]}]),
        [ThinkingDelta("t"), ThinkingSignature("s")],
    ),
    "an untyped part": (text([{"text": "a"}]), [TextDelta("a")]),
    "a refusal part": (text([{"type": "refusal", "refusal": "no"}]), [RefusalDelta("no")]),
    "an image part": (
        text([{"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}]),
        [MediaDone("image", "image/png", "AAAA")],
    ),
    "a reference part": (
        text([{"type": "text", "text": "a"}, {"type": "tool_reference", "tool": "web_search", "title": "A", "url": "https://a.example"}]),
        [TextDelta("a"), Citation("https://a.example", "A")],
    ),
    "an unknown part": (text([{"type": "hologram", "x": 1}]), [Raw("content.hologram", {"type": "hologram", "x": 1})]),
    "a part that is no object": (text([7]), [Raw("content.part", 7)]),
    "images": (delta(images=[{"image_url": "https://i.example"}]), [MediaDone("image", url="https://i.example")]),
    "an image without a place": (delta(images=[{}]), [Raw("image", {})]),
    "a refusal": (delta(refusal="no"), [RefusalDelta("no")]),
    "an empty refusal": (delta(refusal="", content=None), []),
    "a source": (delta(annotations=[URL]), [Citation("https://a.example", "A", "quote", start=2, end=5)]),
    "a flat source": (delta(annotations=[FLAT]), [Citation("https://b.example", "B", "short")]),
    "a source of nowhere": (delta(annotations=[{"type": "url_citation", "url_citation": {}}, None]), []),
    "a source said twice": (delta(annotations=[URL, URL]), [Citation("https://a.example", "A", "quote", start=2, end=5)]),
    "0 to 0": (
        delta(annotations=[{"url_citation": {"url": "https://a.example", "start_index": 0, "end_index": 0}}]),
        [Citation("https://a.example")],
    ),
    "a file": (delta(annotations=[{"file_citation": {"file_id": "f1"}}]), [Citation(file="f1")]),
    "annotations as an object": (delta(annotations={"copilot": True}), []),
    "citations": (
        chunk(citations=["https://a.example", {"url": "https://b.example", "title": "B"}, 7]),
        [Citation("https://a.example"), Citation("https://b.example", "B")],
    ),
    "search results": (
        chunk(search_results=[{"url": "https://a.example", "title": "A", "snippet": "s"}, {"title": "nowhere"}]),
        [SearchResult("https://a.example", "A", "s"), Citation("https://a.example", "A")],
    ),
    "citations with titles": (
        chunk(citations=["https://a.example"], search_results=[{"url": "https://a.example", "title": "A"}]),
        [SearchResult("https://a.example", "A"), Citation("https://a.example", "A")],
    ),
    "filter results": (
        chunk(choice({"content": "a"}, content_filter_results={"hate": {"filtered": False, "severity": "safe"}})),
        [ContentFilter("hate", "safe"), TextDelta("a")],
    ),
    "prompt filter results": (
        chunk(prompt_filter_results=[{"content_filter_results": {"jailbreak": {"detected": True, "filtered": False}, "odd": 1}}]),
        [ContentFilter("jailbreak", "detected")],
    ),
    "a filter that failed": (
        chunk(choice(content_filter_results={"error": {"code": "x", "message": "not filtered"}})),
        [ContentFilter("error", "not filtered")],
    ),
    "an empty filter error": (chunk(choice(content_filter_result={"error": {"code": "", "message": ""}})), []),
    "moderation": (
        chunk(moderation={"input": {"results": [{"flagged": True, "categories": {"hate": True, "violence": False}}]}, "output": {"results": []}}),
        [ContentFilter("hate", "input")],
    ),
    "executed tools": (
        delta(
            executed_tools=[
                {
                    "index": 0,
                    "type": "search",
                    "name": "web",
                    "arguments": "{}",
                    "search_results": {"results": [{"url": "https://a.example", "content": "c"}]},
                },
                {"index": 0, "type": "search", "arguments": "{}", "output": "found"},
            ]
        ),
        [
            ServerToolStart("search", "search-0", "web"),
            ServerToolArgsDelta("search", "{}", "search-0"),
            SearchResult("https://a.example", None, "c"),
            ServerToolResult("search", "search-0", "found"),
        ],
    ),
    "an executed tool of choice 1": (delta(1, executed_tools=[{"type": "search", "index": 0}]), [ServerToolStart("search", "search-1-0")]),
    "a choice below 0": (text("a", -1), [TextDelta("a")]),
    "an executed tool without a number": (delta(executed_tools=[{}]), [ServerToolStart("tool", "tool-0")]),
    "an unknown frame": ({"type": "odd", "x": 1}, [Raw("odd", {"type": "odd", "x": 1})]),
    "a frame without a word": ({"x": 1}, [Raw("frame", {"x": 1})]),
    "blank data": ("  ", [Heartbeat()]),  # type: ignore[dict-item]
    "fields that say nothing": (
        chunk(choice({"content": "a", "channel": "final"}, token_ids=[1], text="a"), obfuscation="xx", p="abc"),
        [TextDelta("a")],
    ),
}


@pytest.mark.parametrize("name", SAYS)
def test_frame_says(name: str) -> None:
    """
    Each frame, behind one that opened the step, says exactly these events.
    """
    frame, expected = SAYS[name]
    assert expected == inner(chunk(), frame or "null")


def test_late_ids_leave_the_hot_path() -> None:
    """
    An id or a model that comes late, with a plain piece of text, is not lost.
    """
    frames = [text(piece) | {"id": None, "model": None} for piece in "ab"]
    response = answer(*frames, text("c") | {"id": "late"}, text("d") | {"model": "m"}, finish() | {"id": None, "model": None}, DONE)
    assert ("abcd", "late", "toy-1") == (response.text, response.provider_response_id, response.model)


def test_hot_path_says_the_same() -> None:
    """
    Text that follows text takes the short way and says the same: one delta a frame, nothing lost that stands beside it.
    """
    loud = chunk(choice({"content": "c"}), usage={"prompt_tokens": 1})
    events = inner(
        text("a"),
        text("b"),
        delta(role="assistant", content="x"),
        loud,
        delta(content="d", reasoning="t"),
        chunk(choice({"content": "e"}, finish="stop")),
        text("f"),
    )
    assert "abxcdef" == texts(events)
    assert [UsageUpdate, ThinkingDelta] == [type(event) for event in events if not isinstance(event, TextDelta)]


class SlowParser(OpenAIChatParser):
    """
    The parser without its short ways.
    """

    def on_event(self, value: Any, event: SseEvent, emit: Emit[ChatEvent]) -> None:
        self._frame(value, event.event, emit)


FRAMES: list[Any] = [frame for frame, _ in SAYS.values() if type(frame) is dict] + [
    text("a"),
    text("b", 1),
    finish(),
    delta(role="assistant", content="c"),
    calls(call("x", index=0)),
]


@given(st.lists(st.sampled_from(FRAMES), max_size=12))
def test_short_ways_change_nothing(frames: list[Wire]) -> None:
    """
    Whatever frames follow each other, the short ways say what the long one says.
    """
    wire = [SseEvent(json.dumps(frame).encode()) for frame in (text("a"), *frames)]
    slow: list[ChatEvent] = []
    parser = SlowParser(DIALECT.context())
    for frame in wire:
        parser.feed(frame, slow.append)
    quick = [event for event in parse(wire)[0] if not isinstance(event, StepEnd | ResponseEnd | Custom)]
    assert quick == slow


def test_loud_frames_leave_the_hot_path() -> None:
    """
    A frame that looks plain but says more is read in full.
    """
    for fields in (
        {"citations": ["https://a.example"]},
        {"x_groq": {"usage": {"prompt_tokens": 3}}},
        {"moderation": {"input": {"results": [{"flagged": True, "categories": {"hate": True}}]}}},
    ):
        assert 3 == len(inner(text("a"), text("b") | fields))
    assert ContentFilter("hate") in inner(text("a"), chunk(choice({"content": "b"}, content_filter_results={"hate": {"filtered": False}})))
    assert {"timings": {"n": 1}} == answer(text("a"), text("b") | {"timings": {"n": 1}}, *END).metadata


# --- steps and ids --------------------------------------------------------------------------------------------------------------------------------


def test_step_start_has_the_first_ids_that_say_something() -> None:
    """
    A first frame without ids does not open the step; what it says waits and is not lost.
    """
    first = {
        "id": "",
        "model": "",
        "object": "",
        "choices": [],
        "prompt_filter_results": [{"content_filter_results": {"hate": {"filtered": False, "severity": "safe"}}}],
    }
    events, error = events_of(first, text("a"), *END)
    assert error is None
    assert [StepStart(0, "chat-1", "toy-1"), ContentFilter("hate", "safe"), TextDelta("a")] == events[:3]


def test_ids_change_in_the_stream() -> None:
    """
    The first non-empty id and model stay; state is not keyed on them.
    """
    response = answer(
        text("a") | {"id": "", "model": "m"}, text("b") | {"id": "second"}, text("c") | {"id": "third", "model": "n"}, finish() | {"id": "stub"}, DONE
    )
    assert ("second", "m", "abc", 1) == (response.provider_response_id, response.model, response.text, len(response.steps))


def test_what_waited_is_told_when_it_fails() -> None:
    """
    What came before the step is delivered before the fault, also if no step ever begins.
    """
    notes = {"choices": [], "prompt_filter_results": [{"content_filter_results": {"hate": {"filtered": False}}}]}
    events, error = events_of(notes)
    assert isinstance(error, IncompleteStreamError)
    assert [StepStart(0), ContentFilter("hate")] == events[:2]
    assert isinstance(events[-1], StepEnd)


def test_metadata_is_kept() -> None:
    """
    Fingerprints, timings and native reasons are readable on the response; null and empty say nothing.
    """
    response = answer(
        text("a") | {"system_fingerprint": "fp", "service_tier": None, "provider": ""},
        chunk(choice({}, finish="stop", native_finish_reason="end", stop_reason=7)) | {"service_tier": "flex"},
        DONE,
    )
    assert {"system_fingerprint": "fp", "service_tier": "flex", "native_finish_reason": "end", "stop_reason": 7} == response.metadata


def test_log_probabilities_are_collected() -> None:
    """
    Log probabilities of choice 0 come together in the metadata, text beside them is not lost.
    """
    first, second = {"content": [{"token": "a"}], "refusal": None}, {"content": [{"token": "b"}, {"token": "c"}]}
    response = answer(
        chunk(choice({"content": "a"}, logprobs=first)),
        chunk(choice({"content": "bc"}, logprobs=second)),
        chunk(choice({"content": "z"}, 1, "stop", logprobs=first)),
        *END,
    )
    assert ("abc", {"content": [{"token": "a"}, {"token": "b"}, {"token": "c"}]}) == (response.text, response.metadata["logprobs"])


# --- finish ---------------------------------------------------------------------------------------------------------------------------------------

CALL = calls(call("{}", index=0, id="c1", name="f"))

FINISHES: dict[str, tuple[tuple[Any, ...], FinishReason, str | None, Verdict]] = {
    "stop": ((text("a"), *END), FinishReason.STOP, "stop", Verdict.COMPLETE),
    "stop with a call": ((CALL, *END), FinishReason.TOOL_CALLS, "stop", Verdict.COMPLETE),
    "tool_calls": ((CALL, finish("tool_calls"), DONE), FinishReason.TOOL_CALLS, "tool_calls", Verdict.COMPLETE),
    "function_call": (
        (delta(function_call={"name": "f", "arguments": "{}"}), finish("function_call"), DONE),
        FinishReason.TOOL_CALLS,
        "function_call",
        Verdict.COMPLETE,
    ),
    "length": ((text("a"), finish("length"), DONE), FinishReason.LENGTH, "length", Verdict.INCOMPLETE_FINISH),
    "length with a call": ((CALL, finish("length"), DONE), FinishReason.LENGTH, "length", Verdict.INCOMPLETE_FINISH),
    "content_filter": ((text("a"), finish("content_filter"), DONE), FinishReason.CONTENT_FILTER, "content_filter", Verdict.INCOMPLETE_FINISH),
    "refusal": ((delta(refusal="no"), *END), FinishReason.REFUSAL, "stop", Verdict.INCOMPLETE_FINISH),
    "refusal beside an answer": ((text("a"), delta(refusal="no"), *END), FinishReason.REFUSAL, "stop", Verdict.INCOMPLETE_FINISH),
    "a word nobody knows": ((text("a"), finish("bored"), DONE), FinishReason.OTHER, "bored", Verdict.INCOMPLETE_FINISH),
    "no word": ((text("a"), DONE), FinishReason.UNKNOWN, None, Verdict.INCOMPLETE_FINISH),
    "an empty word": ((text("a"), finish(""), DONE), FinishReason.UNKNOWN, None, Verdict.INCOMPLETE_FINISH),
    "nothing at all": ((DONE,), FinishReason.UNKNOWN, None, Verdict.INCOMPLETE_FINISH),
    "twice": (
        (text("a"), finish(), chunk(choice({"content": ""}, finish="stop"), usage={"prompt_tokens": 1}), DONE),
        FinishReason.STOP,
        "stop",
        Verdict.COMPLETE,
    ),
    "two words": ((CALL, finish("tool_calls"), text("a"), finish(), DONE), FinishReason.TOOL_CALLS, "stop", Verdict.COMPLETE),
    "with the text": ((chunk(choice({"content": "a"}, finish="stop")), DONE), FinishReason.STOP, "stop", Verdict.COMPLETE),
    "key missing on running chunks": ((chunk({"index": 0, "delta": {"content": "a"}}), *END), FinishReason.STOP, "stop", Verdict.COMPLETE),
    "a blocked answer": (
        (text("a"), chunk(choice({}, finish="stop", content_filter_results={"hate": {"filtered": True, "severity": "high"}})), DONE),
        FinishReason.CONTENT_FILTER,
        "stop",
        Verdict.INCOMPLETE_FINISH,
    ),
    "a blocked prompt": (
        (chunk(prompt_filter_results=[{"content_filter_results": {"hate": {"filtered": True}}}]), text("a"), *END),
        FinishReason.CONTENT_FILTER,
        "stop",
        Verdict.INCOMPLETE_FINISH,
    ),
    "stop without text": ((delta(reasoning="t"), *END), FinishReason.STOP, "stop", Verdict.COMPLETE),
    "the model's window": (
        (text("a"), finish("model_context_window_exceeded"), DONE),
        FinishReason.LENGTH,
        "model_context_window_exceeded",
        Verdict.INCOMPLETE_FINISH,
    ),
}


@pytest.mark.parametrize("name", FINISHES)
def test_finish(name: str) -> None:
    """
    The finish is a table of the raw word and what is in the step; the raw word stays (contract V3, P1, P2).
    """
    frames, reason, raw, verdict = FINISHES[name]
    response = answer(*frames)
    assert (reason, raw, verdict) == (response.finish_reason, response.finish_reason_raw, response.verdict)


def test_content_filter_is_told_as_an_event() -> None:
    """
    A finish by the filter is a blocking ContentFilter with the frame that carries it, once (contract V7).
    """
    assert [TextDelta("a"), ContentFilter("content_filter", blocked=True)] == inner(text("a"), finish("content_filter"), DONE)
    known = chunk(choice({}, finish="content_filter", content_filter_results={"hate": {"filtered": True, "severity": "high"}}))
    assert [ContentFilter("hate", "high", True)] == inner(known, DONE)


def test_nothing_but_thinking_is_not_committed() -> None:
    """
    An empty answer is COMPLETE but no history (contract V9).
    """
    response = answer(delta(reasoning="t"), *END)
    assert (Verdict.COMPLETE, False) == (response.verdict, response.committable)


def test_text_behind_the_finish_is_counted() -> None:
    """
    Text behind a finish_reason is delivered and counted (contract V8).
    """
    response = answer(text("a"), finish(), text("b"), text("c"), DONE)
    assert ("abc", 2, Verdict.COMPLETE) == (response.text, response.after_finish, response.verdict)


@pytest.mark.parametrize("word", ["error", "network_error", "insufficient_system_resource"])
def test_finish_that_is_a_failure(word: str) -> None:
    """
    A finish the provider itself calls a failure is PROVIDER_ERROR (contract P2), with the answer so far.
    """
    events, error = whole(sse(text("a"), finish(word), DONE))
    assert isinstance(error, ProviderError)
    assert (word, "a", Verdict.PROVIDER_ERROR) == (error.type, final(events).text, final(events).verdict)


def test_optional_finish() -> None:
    """
    By option, [DONE] alone ends a whole answer: with a call in it that is tool_calls.
    """
    said: Wire = {"options": {"finish": "optional"}}
    assert (FinishReason.STOP, None, True) == ((got := answer(text("a"), DONE, **said)).finish_reason, got.finish_reason_raw, got.committable)
    assert FinishReason.TOOL_CALLS == answer(CALL, DONE, **said).finish_reason
    assert Verdict.INCOMPLETE_STREAM == answer(text("a"), **said).verdict


# --- the end of the body --------------------------------------------------------------------------------------------------------------------------

HELD_DONE = sse(text("a"), finish()) + b"data: [DONE]"

ENDS: dict[str, tuple[bytes, dict[str, Any], Verdict]] = {
    "[DONE]": (sse(text("a"), *END), {}, Verdict.COMPLETE),
    "no [DONE]": (sse(text("a"), finish()), {}, Verdict.COMPLETE),
    "no finish": (sse(text("a")), {}, Verdict.INCOMPLETE_STREAM),
    "nothing": (b"", {}, Verdict.INCOMPLETE_STREAM),
    "comments only": (b": hello\n\n", {}, Verdict.INCOMPLETE_STREAM),
    "one choice of two": (sse(text("a"), text("b", 1), finish()), {}, Verdict.INCOMPLETE_STREAM),
    "required [DONE]": (sse(text("a"), finish()), {"options": {"done": "required"}}, Verdict.INCOMPLETE_STREAM),
    "required and there": (sse(text("a"), *END), {"options": {"done": "required"}}, Verdict.COMPLETE),
    "the end proves nothing": (sse(text("a"), finish()), {"head": Head(clean_eof=False)}, Verdict.INCOMPLETE_STREAM),
    "the end proves nothing, [DONE] does": (sse(text("a"), *END), {"head": Head(clean_eof=False)}, Verdict.COMPLETE),
    "held [DONE]": (HELD_DONE, {}, Verdict.COMPLETE),
    "held [DONE] with its line end": (HELD_DONE + b"\n", {}, Verdict.COMPLETE),
    "held beginning of [DONE]": (HELD_DONE[:-1], {}, Verdict.INCOMPLETE_STREAM),
    "held frame": (sse(text("a"), finish()) + sse(text("b"))[:-1], {}, Verdict.INCOMPLETE_STREAM),
    "held comment": (sse(text("a"), finish()) + b": bye", {}, Verdict.COMPLETE),
    "held event name": (sse(text("a"), finish()) + b"event: x\n", {}, Verdict.INCOMPLETE_STREAM),
}


@pytest.mark.parametrize("name", ENDS)
def test_end(name: str) -> None:
    """
    The protocol's own end, and nothing else, makes an answer whole (contract V5, P9); without it the answer is partial.
    """
    wire, said, verdict = ENDS[name]
    events, error = whole(wire, **said)
    assert verdict == final(events).verdict
    assert (error is None) == (verdict is Verdict.COMPLETE)


def test_nothing_is_read_behind_done() -> None:
    """
    What stands behind [DONE] can neither be read nor do harm.
    """
    assert answer(text("a"), *END) == answer(text("a"), *END, text("b"), "{broken")


# --- tool calls -----------------------------------------------------------------------------------------------------------------------------------

CALLS: dict[str, tuple[tuple[Wire, ...], list[tuple[str, str, str]]]] = {
    "by index": (
        (calls(call("", index=0, id="a", name="f")), calls(call('{"x"', index=0)), calls(call(":1}", index=0))),
        [("a", "f", '{"x":1}')],
    ),
    "two by index, interleaved": (
        (
            calls(call("", index=0, id="a", name="f"), call("", index=1, id="b", name="g")),
            calls(call("{", index=1)),
            calls(call("{", index=0)),
            calls(call("}", index=1), call("}", index=0)),
        ),
        [("a", "f", "{}"), ("b", "g", "{}")],
    ),
    "whole calls in one delta": (
        (calls(call("{}", index=0, id="a", name="f"), call("{}", index=1, id="b", name="g")),),
        [("a", "f", "{}"), ("b", "g", "{}")],
    ),
    "fragments in one delta": ((calls(call("{", index=0, id="a", name="f"), call('"x":', index=0), call("1}", index=0)),), [("a", "f", '{"x":1}')]),
    "ids without index": ((calls(call("{}", id="a", name="f")), calls(call("{}", id="b", name="g"))), [("a", "f", "{}"), ("b", "g", "{}")]),
    "no index, id once": ((calls(call("{", id="a", name="f")), calls(call("}"))), [("a", "f", "{}")]),
    "index -1": (
        (calls(call("{}", index=-1, id="a", name="f")), calls(call("{}", index=-1, id="b", name="g"))),
        [("a", "f", "{}"), ("b", "g", "{}")],
    ),
    "a second id under one index": (
        (calls(call("{}", index=0, id="a", name="f")), calls(call("{}", index=0, id="b", name="f"))),
        [("a", "f", "{}"), ("b", "f", "{}")],
    ),
    "a second name under one index": (
        (calls(call("{}", index=0, name="f")), calls(call("{}", index=0, name="g"))),
        [("rxcall-0-0-0", "f", "{}"), ("rxcall-0-0-1", "g", "{}")],
    ),
    "id and name empty later": ((calls(call("{", index=0, id="a", name="f")), calls(call("}", index=0, id="", name=""))), [("a", "f", "{}")]),
    "id and name repeated": ((calls(call("{", index=0, id="a", name="f")), calls(call("}", index=0, id="a", name="f"))), [("a", "f", "{}")]),
    "an id under another index": ((calls(call("{", index=0, id="a", name="f")), calls(call("}", index=3, id="a"))), [("a", "f", "{}")]),
    "a late id": ((calls(call("{", index=0, name="f")), calls(call("}", index=0, id="a"))), [("a", "f", "{}")]),
    "a late id, no index": ((calls(call("{", name="f")), calls(call("}", id="a"))), [("a", "f", "{}")]),
    "a late name": ((calls(call("{", index=0, id="a")), calls(call("}", index=0, name="f"))), [("a", "f", "{}")]),
    "no id": ((calls(call("{}", index=0, name="f")),), [("rxcall-0-0-0", "f", "{}")]),
    "neither id nor index": ((calls(call("{}", name="f")), calls(call("{}", name="f"))), [("rxcall-0-0-0", "f", "{}"), ("rxcall-0-0-1", "f", "{}")]),
    "a nameless one between": (
        (calls(call("{}", id="a", name="f"), call("{}", name="g"), call("{}", index=5, id="b", name="h")),),
        [("a", "f", "{}"), ("rxcall-0-0-1", "g", "{}"), ("b", "h", "{}")],
    ),
    "arguments null and absent": (
        (calls(call(index=0, id="a", name="f")), calls(call(index=0) | {"function": {"arguments": None}}), calls(call("{}", index=0))),
        [("a", "f", "{}")],
    ),
    "no arguments at all": ((calls(call("", index=0, id="a", name="f")),), [("a", "f", "")]),
    "arguments as an object": ((calls(call({"x": [1, "é"]}, index=0, id="a", name="f")),), [("a", "f", '{"x":[1,"é"]}')]),
    "entries that say nothing": ((calls(call("", index=0), {"index": 1}, call("{}", index=0, id="a", name="f")),), [("a", "f", "{}")]),
    "type null later": (
        (calls(call("{", index=0, id="a", name="f", type="function")), calls(call("}", index=0, id=None, type=None))),
        [("a", "f", "{}")],
    ),
    "the old field": (
        (
            delta(function_call={"name": "f", "arguments": ""}),
            delta(function_call={"arguments": "{"}),
            delta(function_call={"name": "f", "arguments": "}"}),
        ),
        [("rxcall-0-0-0", "f", "{}")],
    ),
    "a message's own call": ((delta(tool_calls=[]), delta(tool_calls=None), CALL), [("c1", "f", "{}")]),
}


@pytest.mark.parametrize("name", CALLS)
def test_tool_calls(name: str) -> None:
    """
    Calls are found by index, by id, or as the last one; no phantom calls, nothing doubled or concatenated (contract N2, P6).
    """
    frames, expected = CALLS[name]
    for end in ((finish("tool_calls"), DONE), END, (finish("tool_calls"),)):
        response = answer(*frames, *end)
        assert expected == [(got.id, got.name, got.arguments_text) for got in response.tool_calls]
        assert all(got.complete and got.arguments is not None for got in response.tool_calls)
        assert Verdict.COMPLETE == response.verdict


def test_calls_end_at_the_finish() -> None:
    """
    A call ends where the provider says so: at a finish that allows it, or when a second id takes its index (contract N7).
    """
    frames = (calls(call("1", index=0, id="a", name="f")), calls(call("2", index=0, id="b", name="g")))
    begun = [
        ToolCallStart("a", "f", 0),
        ToolCallArgsDelta("1", "a", 0),
        ended("a", "f", 0),
        ToolCallStart("b", "g", 0),
        ToolCallArgsDelta("2", "b", 0),
    ]
    assert begun == inner(*frames)
    assert [*begun, ended("b", "g", 0)] == inner(*frames, finish("tool_calls"))
    assert begun == inner(*frames, finish("length"))
    assert begun == inner(*frames, finish("bored"))


def test_done_ends_calls_but_not_length() -> None:
    """
    [DONE] without a finish ends calls, so that their arguments are read, though nothing may be run; `length` leaves them open.
    """
    loose = answer(CALL, DONE)
    assert (FinishReason.UNKNOWN, True, {}) == (loose.finish_reason, loose.tool_calls[0].complete, loose.tool_calls[0].arguments)
    cut = answer(calls(call('{"x": ', index=0, id="a", name="f")), finish("length"), DONE)
    assert (False, None, '{"x": ') == (cut.tool_calls[0].complete, cut.tool_calls[0].arguments, cut.tool_calls[0].arguments_text)
    broken = answer(CALL)
    assert (Verdict.INCOMPLETE_STREAM, False) == (broken.verdict, broken.tool_calls[0].complete)


def test_a_finished_call_survives_a_second_finish() -> None:
    """
    Of several finish reasons the last counts, but a call once finished survives (contract V8).
    """
    response = answer(CALL, finish("tool_calls"), text("a"), finish("length"), DONE)
    assert (FinishReason.LENGTH, True) == (response.finish_reason, response.tool_calls[0].complete)


def test_fragments_behind_the_end_are_dropped_and_counted() -> None:
    """
    A fragment for an ended call changes nothing and is counted (contract P6).
    """
    response = answer(CALL, finish("tool_calls"), calls(call("x", index=0)), calls(call("y", id="c1")), DONE)
    assert ("{}", 2) == (response.tool_calls[0].arguments_text, response.dropped)


def _steps(n: int, index: Callable[[int], int]) -> int:
    """
    How often functions and generators were entered while `n` calls were read and finished `n` times.
    """
    count = 0

    def seen(frame: FrameType, what: str, argument: object) -> None:
        nonlocal count
        count += what == "call"

    frames = [calls(call("{}", index=index(k), id=f"c{k}", name="f")) for k in range(n)] + [finish("tool_calls")] * n
    sys.setprofile(seen)
    try:
        events_of(*frames)
    finally:
        sys.setprofile(None)
    return count


@pytest.mark.parametrize("index", [lambda k: k, lambda k: 0], ids=["an index each", "one index"])
def test_many_calls_are_linear(index: Callable[[int], int]) -> None:
    """
    Which call a fragment means is looked up, not searched: twice the calls take twice the work.
    """
    assert _steps(400, index) < 2.2 * _steps(200, index)


def test_custom_calls_are_text() -> None:
    """
    A custom call has text and no arguments (contract P3).
    """
    entry = {"index": 0, "id": "a", "type": "custom", "custom": {"name": "run", "input": "ls"}}
    more = {"index": 0, "custom": {"input": " -l"}}
    (got,) = answer(calls(entry), calls(more), finish("tool_calls"), DONE).tool_calls
    assert ("custom", "run", "ls -l", None, True) == (got.kind, got.name, got.arguments_text, got.arguments, got.complete)


def test_vendor_fields_of_a_call_are_kept() -> None:
    """
    What a vendor puts on a call goes back with it.
    """
    seal = {"google": {"thought_signature": "s"}}
    (got,) = answer(calls(call("{", index=0, id="a", name="f", extra_content=seal)), calls(call("}", index=0, odd=None, more=1)), *END).tool_calls
    assert {"extra_content": seal, "more": 1} == got.metadata


# --- several choices ------------------------------------------------------------------------------------------------------------------------------


def test_choices_are_kept_apart() -> None:
    """
    Interleaved choices become alternatives with their own finish; choice 0 decides (contract P13).
    """
    response = answer(
        text("a"),
        text("x", 1),
        calls(call("{}", index=0, id="c1", name="f"), index=2),
        text("b"),
        finish("length", 1),
        text("y", 1),
        finish("stop"),
        finish("tool_calls", 2),
        DONE,
    )
    assert ("ab", Verdict.COMPLETE, FinishReason.STOP) == (response.text, response.verdict, response.finish_reason)
    first, second = response.alternatives
    assert ("xy", FinishReason.LENGTH, "length") == (first.text, first.finish_reason, first.finish_reason_raw)
    assert ("c1", FinishReason.TOOL_CALLS) == (second.tool_calls[0].id, second.finish_reason)


def test_a_filtered_choice_leaves_the_others() -> None:
    """
    What a filter withholds in one choice does not decide the finish of another.
    """
    response = answer(text("a"), text("x", 1), finish("content_filter", 1), *END)
    assert (Verdict.COMPLETE, FinishReason.CONTENT_FILTER) == (response.verdict, response.alternatives[0].finish_reason)


def test_choices_in_one_frame() -> None:
    """
    Two choices in one frame are both read, in their order.
    """
    assert [TextDelta("x", choice=1), TextDelta("a")] == inner(chunk(choice({"content": "x"}, 1), choice({"content": "a"})))


# --- reasoning, messages, media -------------------------------------------------------------------------------------------------------------------


def test_opaque_reasoning_comes_once() -> None:
    """
    A repeated seal or opaque part is told once; another seal of the same block replaces it (contract P11).
    """
    opaque = delta(reasoning_details=[{"type": "reasoning.encrypted", "data": "xx", "id": "r"}])
    sealed = [delta(reasoning_details=[{"text": "", "signature": word}]) for word in ("s", "s", "t")]
    assert [ThinkingRedacted("xx", item_id="r"), ThinkingSignature("s"), ThinkingSignature("t")] == inner(opaque, opaque, *sealed)


def test_a_message_beside_a_delta_is_not_read() -> None:
    """
    A cumulative message beside the deltas does not double the answer.
    """
    frames = [chunk(choice({"content": piece}, message={"content": "abc"[: k + 1]})) for k, piece in enumerate("abc")]
    assert "abc" == answer(*frames, *END).text


def test_a_whole_message_in_one_frame() -> None:
    """
    A server that answers a stream with one whole message is understood; behind deltas its message is ignored.
    """
    message = chunk({"index": 0, "message": {"content": "abc", "tool_calls": [call("{}", id="c1", name="f")]}, "finish_reason": "stop"})
    response = answer(message, DONE)
    assert ("abc", "c1", FinishReason.TOOL_CALLS) == (response.text, response.tool_calls[0].id, response.finish_reason)
    assert "a" == answer(text("a"), chunk({"index": 0, "message": {"content": "a"}, "finish_reason": "stop"})).text


def test_cumulative_snapshots() -> None:
    """
    By option, messages without deltas are read as snapshots: what is new in each; one that does not continue is PROTOCOL.
    """

    def snapshot(content: Any) -> Wire:
        return chunk({"index": 0, "message": {"role": "assistant", "content": content}})

    said: Wire = {"options": {"snapshot": "message"}}
    assert "hello" == answer(snapshot("he"), snapshot(None), snapshot("hello"), snapshot("hello"), *END, **said).text
    events, error = whole(sse(snapshot("he"), snapshot("she")), **said)
    assert isinstance(error, DialectError)
    assert "he" == final(events).text


def test_spoken_answer() -> None:
    """
    Audio comes as pieces, then whole with its words; pieces with padding of their own are joined as bytes.
    """
    pieces = [base64.b64encode(part).decode() for part in (b"abcd", b"ef", b"ghi")]
    frames = [
        delta(audio={"id": "au", "transcript": "Hi"}),
        delta(audio={"data": pieces[0], "transcript": "!"}),
        delta(audio={"data": pieces[1]}),
        delta(audio={"data": pieces[2]}),
        delta(audio={"expires_at": 17}),
    ]
    events = inner(*frames)
    assert [
        MediaPartial("audio", data=data, item_id="au", partial_index=k, transcript=words)
        for k, (data, words) in enumerate([(None, "Hi"), (pieces[0], "!"), (pieces[1], None), (pieces[2], None)])
    ] == events[:4]
    assert [MediaDone("audio", data=base64.b64encode(b"abcdefghi").decode(), item_id="au", transcript="Hi!")] == events[4:]
    assert events == inner(*frames[:4], DONE)
    assert events[:4] == inner(*frames[:4])


def test_audio_that_is_no_base64() -> None:
    """
    Pieces that cannot be decoded are joined as they came; an empty spoken answer is none.
    """
    assert MediaDone("audio", data="a=b") in inner(delta(audio={"data": "a="}), delta(audio={"data": "b"}), DONE)
    assert MediaDone("audio", data="AAAABBBB") in inner(delta(audio={"data": "AAAA"}), delta(audio={"data": "BBBB"}), DONE)
    assert [] == inner(delta(audio={"id": "x"}), delta(audio={"expires_at": 1}), DONE)


def test_sources_are_told_once() -> None:
    """
    A list that every frame repeats is told once, a longer one by what is new in it.
    """
    first, second = "https://a.example", "https://b.example"
    events = inner(
        text("a") | {"citations": [first]},
        text("b") | {"citations": [first]},
        text("c") | {"citations": [first, second]},
        finish() | {"citations": [first, second]},
    )
    assert [first, second] == [event.url for event in events if isinstance(event, Citation)]


def test_filter_notes_are_told_once() -> None:
    """
    A filter that says "safe" with every frame is told once, anything new again.
    """

    def noted(severity: str) -> Wire:
        return chunk(choice({"content": "a"}, content_filter_results={"hate": {"filtered": False, "severity": severity}}))

    events = inner(noted("safe"), noted("safe"), noted("low"), noted("safe"))
    assert [ContentFilter("hate", "safe"), ContentFilter("hate", "low")] == [event for event in events if isinstance(event, ContentFilter)]


# --- usage ----------------------------------------------------------------------------------------------------------------------------------------

FULL = {"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15}

USAGE: dict[str, tuple[Wire, tuple[int | None, ...]]] = {
    # input, output, cache read, cache write, reasoning, total
    "plain": (FULL, (10, 5, None, None, None, 15)),
    "no total": ({"prompt_tokens": 10, "completion_tokens": 5}, (10, 5, None, None, None, 15)),
    "details": (
        FULL | {"prompt_tokens_details": {"cached_tokens": 4, "cache_write_tokens": 2}, "completion_tokens_details": {"reasoning_tokens": 3}},
        (10, 5, 4, 2, 3, 15),
    ),
    "null details": (FULL | {"prompt_tokens_details": None, "completion_tokens_details": None}, (10, 5, None, None, None, 15)),
    "misspelt details": (FULL | {"prompt_token_details": {"cached_tokens": 4}}, (10, 5, 4, None, None, 15)),
    "hit and miss": (FULL | {"prompt_cache_hit_tokens": 4, "prompt_cache_miss_tokens": 6}, (10, 5, 4, None, None, 15)),
    "flat": (FULL | {"cached_tokens": 4, "reasoning_tokens": 3}, (10, 5, 4, None, 3, 15)),
    "num_cached_tokens": (FULL | {"num_cached_tokens": 4}, (10, 5, 4, None, None, 15)),
    "cache_read_input_tokens": (FULL | {"cache_read_input_tokens": 4, "cache_creation_input_tokens": 2}, (10, 5, 4, 2, None, 15)),
    "details before flat": (FULL | {"prompt_tokens_details": {"cached_tokens": 4}, "cached_tokens": 9}, (10, 5, 4, None, None, 15)),
    "reasoning apart": (
        {"prompt_tokens": 198, "completion_tokens": 2, "total_tokens": 413, "completion_tokens_details": {"reasoning_tokens": 213}},
        (198, 215, None, None, 213, 413),
    ),
    "more reasoning than output": (FULL | {"completion_tokens_details": {"reasoning_tokens": 48}}, (10, 5, None, None, 48, 15)),
    "a total larger than the sum": (FULL | {"total_tokens": 60}, (10, 5, None, None, None, 60)),
    "more cached than sent": ({"prompt_tokens": 7, "prompt_tokens_details": {"cached_tokens": 161}}, (7, None, 161, None, None, None)),
    "other names": ({"input_tokens": 10, "output_tokens": 5, "output_tokens_details": {"reasoning_tokens": 1}}, (10, 5, None, None, 1, 15)),
    "zeroes": ({"prompt_tokens": 0, "completion_tokens": 0, "total_tokens": 0}, (0, 0, None, None, None, 0)),
    "fractions": ({"prompt_tokens": 10.0, "completion_tokens": 5.5}, (10, None, None, None, None, None)),
}


@pytest.mark.parametrize("name", USAGE)
def test_usage_names(name: str) -> None:
    """
    Every place and name of a counter is read, by one formula (contract P4).
    """
    raw, expected = USAGE[name]
    usage = answer(text("a"), finish(), chunk(usage=raw), DONE).usage
    assert usage is not None
    assert expected == (
        usage.input_tokens,
        usage.output_tokens,
        usage.cache_read_tokens,
        usage.cache_write_tokens,
        usage.reasoning_tokens,
        usage.total_tokens,
    )
    assert usage.raw == ({key: value for key, value in raw.items() if value is not None},)


USAGE_PLACES: dict[str, tuple[Wire, ...]] = {
    "its own frame": (text("a"), finish(), chunk(usage=FULL)),
    "the finish frame": (text("a"), finish() | {"usage": FULL}),
    "every frame": (text("a") | {"usage": {"prompt_tokens": 10, "completion_tokens": 1}}, finish() | {"usage": FULL}),
    "nulls until the last": (text("a") | {"usage": {"prompt_tokens": None}}, text("b") | {"usage": None}, finish() | {"usage": FULL}),
    "null behind it": (text("a"), finish() | {"usage": FULL}, chunk(usage=None), chunk(usage={"prompt_tokens": None})),
    "x_groq": (text("a"), finish() | {"x_groq": {"id": "r", "usage": FULL}}),
    "in the choice": (text("a"), chunk(choice({}, finish="stop", usage=FULL))),
    "behind the finish, with a choice": (text("a"), finish(), chunk(choice({"content": ""}), usage=FULL)),
    "no choices key": (text("a"), finish(), {"usage": FULL}),
}


@pytest.mark.parametrize("name", USAGE_PLACES)
def test_usage_places(name: str) -> None:
    """
    Usage is a snapshot wherever it stands: the last one that says something counts, null erases nothing (contract U).
    """
    usage = answer(*USAGE_PLACES[name], DONE).usage
    assert usage is not None
    assert {"input_tokens": 10, "output_tokens": 5, "total_tokens": 15} == usage.wire


def test_no_usage_is_none() -> None:
    """
    Never reported is None, not zero.
    """
    assert answer(text("a"), *END).usage is None


# --- errors ---------------------------------------------------------------------------------------------------------------------------------------

ERROR = {"message": "queue is full", "type": "rate_limit_error", "code": "queue_full"}

ERRORS: dict[str, tuple[bytes, str, str | int | None]] = {
    "alone": (sse({"error": ERROR}), "", "queue_full"),
    "behind text": (sse(text("a"), {"error": ERROR}, DONE), "a", "queue_full"),
    "beside no choices": (sse(chunk(error=ERROR)), "", "queue_full"),
    "beside a choice": (sse(text("a"), chunk(choice({"content": "b"}, finish="length"), error=ERROR)), "ab", "queue_full"),
    "behind the finish": (sse(text("a"), finish(), {"error": ERROR}), "a", "queue_full"),
    "a text": (sse(text("a"), {"error": "queue is full"}), "a", None),
    "flat, as an object": (sse(text("a"), {"object": "error", "message": "queue is full", "code": 1500}), "a", 1500),
    "flat, with a code": (sse(text("a"), {"code": "InvalidParameter", "message": "queue is full"}), "a", "InvalidParameter"),
    "detail": (sse(text("a"), {"detail": "queue is full"}), "a", None),
    "a named event": (sse(text("a")) + b'event: error\ndata: {"message": "queue is full"}\n\n', "a", None),
    "a named event with its own error": (sse(text("a")) + b'event: error\ndata: {"error": {"message": "queue is full", "code": 7}}\n\n', "a", 7),
    "a named event that is no JSON": (sse(text("a")) + b"event: error\ndata: queue is full\n\n", "a", None),
    "a line that is no field": (sse(text("a")) + b'error: {"message": "queue is full", "code": 5}\n\n', "a", 5),
    "a bare body": (b'{"error": {"message": "queue is full", "code": "c"}}', "", "c"),
    "a bare body over lines": (b'{\n "error": {\n  "message": "queue is full"\n }\n}\n', "", None),
    "a bare body behind text": (sse(text("a")) + b'{"error": {"message": "queue is full"}}\n', "a", None),
}


@pytest.mark.parametrize("name", ERRORS)
def test_errors(name: str) -> None:
    """
    An error in every place and shape is PROVIDER_ERROR with the provider's own words, behind everything valid before it (contract E10, P8).
    """
    wire, answered, code = ERRORS[name]
    events, error = whole(wire)
    assert isinstance(error, ProviderError)
    assert ("queue is full", code, answered) == (error.message, error.code, final(events).text)
    assert isinstance(events[-1], ErrorEvent)
    assert Verdict.PROVIDER_ERROR == final(events).verdict


def test_usage_beside_an_error_counts() -> None:
    """
    Usage beside an error is applied before it and marked partial; the finish seen so far stays (contract P4, U).
    """
    events, error = whole(sse(text("a"), chunk(choice({}, finish="length"), usage=FULL, error=ERROR)))
    response = final(events)
    assert isinstance(error, ProviderError)
    assert response.usage is not None
    assert (10, True, "length") == (response.usage.input_tokens, response.usage.partial, response.finish_reason_raw)
    assert final(whole(sse({"error": ERROR, "usage": FULL}))[0]).usage is not None


@pytest.mark.parametrize("nothing", [None, "", {}, False])
def test_no_error(nothing: Any) -> None:
    """
    `error: null` and its kin are no error (contract P8).
    """
    assert Verdict.COMPLETE == answer(text("a") | {"error": nothing}, *END).verdict


def test_errors_may_be_tried_again() -> None:
    """
    What the provider's own words say about trying again is on the error.
    """
    errors = [whole(sse({"error": said}))[1] for said in (ERROR, {"message": "x", "code": 503}, {"message": "x", "code": "bad"})]
    assert [True, True, False] == [error is not None and error.retryable for error in errors]


MALFORMED: dict[str, Any] = {
    "a frame that is a list": "[1]",
    "a frame that is a number": "7",
    "choices that are an object": chunk(choices={}),
    "a choice that is a text": chunk("a"),  # type: ignore[arg-type]
    "a delta that is a text": chunk(choice("a")),  # type: ignore[arg-type]
    "content that is a number": text(7),
    "content that is an object": text({"x": 1}),
    "tool_calls that are an object": delta(tool_calls={"index": 0}),
    "a tool call that is a text": delta(tool_calls=["a"]),
    "a function that is a text": delta(tool_calls=[{"index": 0, "function": "f"}]),
    "arguments that are a list": calls(call([1], index=0, id="a")),
    "a finish_reason that is a number": chunk(choice({}, finish=7)),  # type: ignore[arg-type]
    "a function_call that is a text": delta(function_call="f"),
}


@pytest.mark.parametrize("name", MALFORMED)
def test_malformed_frames(name: str) -> None:
    """
    A known frame that is malformed breaks the stream, with its position, behind what was valid (contract E11).
    """
    wire = sse(text("a"), MALFORMED[name], *END)
    events, error = whole(wire)
    assert isinstance(error, DialectError)
    assert ("a", len(sse(text("a"))), Verdict.PROTOCOL) == (final(events).text, error.offset, final(events).verdict)


def test_broken_json() -> None:
    """
    Data that are no strict JSON are INVALID_JSON (contract B4).
    """
    for broken in ("{oops}", '{"choices": [], "choices": []}', '{"a": 1} x', " {"):
        events, error = whole(sse(text("a"), broken))
        assert isinstance(error, InvalidJSONError)
        assert "a" == final(events).text


def test_unknown_things_never_break() -> None:
    """
    Unknown frames, events and lines are Raw, counted by name, also before the first step (contract E11, P8).
    """
    wire = b"hello there\n\nevent: ping\ndata: pong\n\n" + sse({"sources": [1]}, {"sources": [2]}, text("a"), {"type": "late"}, *END)
    events, error = whole(wire)
    assert error is None
    assert {"stray": 1, "ping": 1, "frame": 2, "late": 1} == final(events).unknown
    assert [Raw("stray", "hello there"), Raw("ping", "pong"), Raw("frame", {"sources": [1]})] == events[2:5]


def test_unknown_policies() -> None:
    """
    The policy for unknown frames is the caller's: ignored, an error, or handed over.
    """
    seen: list[tuple[str, Any]] = []
    frames = (text("a"), {"odd": 1}, *END)
    assert not any(isinstance(event, Raw) for event in inner(*frames, unknown="ignore"))
    assert isinstance(events_of(*frames, unknown="error")[1], DialectError)
    inner(*frames, unknown=lambda name, payload: seen.append((name, payload)))
    assert [("frame", {"odd": 1})] == seen


def test_other_framings_are_refused() -> None:
    """
    A frame of another framing is a fault of the caller, told as PROTOCOL.
    """
    assert isinstance(parse([JsonRecord({})])[1], DialectError)


def test_limits() -> None:
    """
    Output and arguments are bounded and refused before they are shown (contract B5).
    """
    bounds = Limits(output=3, tool_arguments=3)
    events, error = events_of(text("ab"), text("c"), text("d"), limits=bounds)
    assert isinstance(error, LimitExceeded)
    assert ("output", "abc") == (error.limit, texts(events))
    assert isinstance(events_of(calls(call("1234", index=0, id="a")), limits=bounds)[1], LimitExceeded)


# --- non-streamed bodies --------------------------------------------------------------------------------------------------------------------------

MESSAGE: Wire = {
    "role": "assistant",
    "content": "a",
    "reasoning": "t",
    "annotations": [URL],
    "tool_calls": [call('{"x":1}', id="c1", name="f"), call("{}", id="", name="g")],
}


def test_body_says_the_same_as_the_stream() -> None:
    """
    A non-streamed body gives the events of its stream.
    """
    streamed = answer(delta(**MESSAGE), finish(), chunk(usage=FULL), DONE)
    assert streamed == answer_of_body(body(MESSAGE, usage=FULL))
    assert ("a", "t", Verdict.COMPLETE, 2) == (streamed.text, streamed.thinking, streamed.verdict, len(streamed.tool_calls))


BODIES: dict[str, tuple[Any, FinishReason, Verdict]] = {
    "no message": (body(None, "content_filter"), FinishReason.CONTENT_FILTER, Verdict.INCOMPLETE_FINISH),
    "no finish": (body({"content": "a"}, None), FinishReason.UNKNOWN, Verdict.INCOMPLETE_FINISH),
    "a refusal": (body({"refusal": "no"}), FinishReason.REFUSAL, Verdict.INCOMPLETE_FINISH),
    "an old call": (body({"function_call": {"name": "f", "arguments": "{}"}}, "function_call"), FinishReason.TOOL_CALLS, Verdict.COMPLETE),
    "an error": ({"error": {"message": "no", "code": 400}}, FinishReason.UNKNOWN, Verdict.PROVIDER_ERROR),
    "an error beside an answer": (body({"content": "a"}, "length", error={"message": "no"}), FinishReason.LENGTH, Verdict.PROVIDER_ERROR),
    "something else": ({"hello": 1}, FinishReason.UNKNOWN, Verdict.PROTOCOL),
    "a list": ([1], FinishReason.UNKNOWN, Verdict.PROTOCOL),
    "null": (None, FinishReason.UNKNOWN, Verdict.PROTOCOL),
    "no choices": ({"id": "c", "choices": []}, FinishReason.UNKNOWN, Verdict.INCOMPLETE_FINISH),
}


@pytest.mark.parametrize("name", BODIES)
def test_bodies(name: str) -> None:
    """
    A whole body ends as its finish says; an error in it is the provider's, what is no answer is PROTOCOL.
    """
    value, reason, verdict = BODIES[name]
    if isinstance(value, dict):
        response = answer_of_body(value)
        assert (reason, verdict) == (response.finish_reason, response.verdict)
    events, error = parse(body_frame(value))
    assert verdict == (error.verdict if error is not None else Verdict.COMPLETE if reason.complete else Verdict.INCOMPLETE_FINISH)  # type: ignore[attr-defined]
    assert not any(event.terminal and not isinstance(event, ResponseEnd) for event in events)


# --- tags -----------------------------------------------------------------------------------------------------------------------------------------


def test_think_tags_option() -> None:
    """
    By option, tags in the text are thinking, also cut and before a call; nothing is lost at a fault, nothing passes the limit.
    """
    said: Wire = {"options": {"think_tags": True}}
    response = answer(text("<th"), text("ink>why"), text("</think>"), text("so <"), CALL, *END, **said)
    assert ("why", "so <", FinishReason.TOOL_CALLS) == (response.thinking, response.text, response.finish_reason)
    assert "so <thi" == final(whole(sse(text("so <thi")), **said)[0]).text
    events, error = events_of(text("abcd<"), **said, limits=Limits(output=3))
    assert isinstance(error, LimitExceeded)
    assert "<" == texts(events) or "" == texts(events)
    named = answer(text("<why>t</why>a<think>b"), *END, options={"think_tags": "why"})
    assert ("t", "a<think>b") == (named.thinking, named.text)


def test_held_text_counts() -> None:
    """
    Text that was held back is delivered at the clean end as well.
    """
    assert "a<" == answer(text("a<"), finish(), options={"think_tags": "true"}).text


# --- the table line -------------------------------------------------------------------------------------------------------------------------------


def test_dialects_by_name() -> None:
    """
    A dialect is found by its name; an unknown one lists those that exist; nothing is imported before it is asked for.
    """
    assert DIALECT is get_dialect("openai-chat")
    assert set(DIALECTS) <= set(dialect_names())
    with pytest.raises(ConfigurationError, match=r"unknown dialect 'nope'; there are: .*openai-chat"):
        get_dialect("nope")


def test_dialects_are_imported_late() -> None:
    """
    Importing the package imports no dialect.
    """
    import subprocess
    import sys

    code = "import sys, rxchat.dialects as d; d.dialect_names(); print(sorted(m for m in sys.modules if m.startswith('rxchat.dialects.')))"
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "['rxchat.dialects.base']" == shown.stdout.strip()


def test_dialects_of_other_packages(monkeypatch: pytest.MonkeyPatch) -> None:
    """
    Other packages add dialects by an entry point; one that is no Dialect is told.
    """
    import rxchat.dialects as package

    points = (
        metadata.EntryPoint("mine", "rxchat.dialects.openai_chat:OPENAI_CHAT", package.GROUP),
        metadata.EntryPoint("wrong", "rxchat.dialects.openai_chat:OPTIONS", package.GROUP),
    )
    monkeypatch.setattr(metadata, "entry_points", lambda group: points if group == package.GROUP else ())
    assert DIALECT is get_dialect("mine")
    assert {"mine", "wrong", "openai-chat"} <= set(dialect_names())
    with pytest.raises(ConfigurationError, match="wrong is no Dialect"):
        get_dialect("wrong")


@pytest.mark.parametrize(
    ("options", "wrong"),
    [
        ({"done": "maybe"}, "done"),
        ({"finish": "never"}, "finish"),
        ({"think_tags": "a b"}, "tag"),
        ({"snapshot": "delta"}, "snapshot"),
        ({"odd": 1}, "odd"),
    ],
)
def test_wrong_options(options: Wire, wrong: str) -> None:
    """
    A wrong option is told at once.
    """
    with pytest.raises(ConfigurationError, match=wrong):
        DIALECT.context(options)


def test_profiles() -> None:
    """
    The dialect has two profiles, and a context may be made by hand.
    """
    assert isinstance(DIALECT, Dialect)
    with pytest.raises(ConfigurationError, match="profile"):
        DIALECT.context(profile="lenient")
    assert isinstance(DIALECT.parser(Context()), type(DIALECT.parser(DIALECT.context())))


def test_frames_made_by_hand() -> None:
    """
    The parser reads frames as framers make them: stray lines, held events, sentinels with blanks around.
    """
    frames: list[Any] = [SseEvent(b'{"choices":[{"index":0,"delta":{"content":"a"}}]}'), SseEvent(b" [DONE] ")]
    assert isinstance(parse(frames)[0][-1], ResponseEnd)
    assert isinstance(parse([*frames[:1], StrayText("odd"), Undispatched(None)])[1], IncompleteStreamError)
    assert isinstance(parse([*frames[:1], Undispatched(SseEvent(b"[DONE]"))])[0][-1], ResponseEnd)
