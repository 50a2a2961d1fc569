"""
The fold alone, on normalized events: what becomes of each event in the answer, then finish, verdict, usage, steps, alternatives.
"""

from __future__ import annotations

from typing import Any

import attrs
import pytest

from rxchat.aggregator import Aggregator
from rxchat.errors import ConnectionLostError, ProviderError, RxchatError, Verdict
from rxchat.events import (
    EVENT_TYPES,
    PROVIDER_ITEM,
    Abort,
    ChatEvent,
    Citation,
    ContentFilter,
    Custom,
    ErrorEvent,
    MediaDone,
    MediaPartial,
    RefusalDelta,
    ResponseEnd,
    ResponseStart,
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
    ToolResult,
    UsageUpdate,
)
from rxchat.normalizer import Normalizer
from rxchat.response import (
    ChatResponse,
    CitationPart,
    ContentFilterPart,
    FinishReason,
    MediaPart,
    Part,
    ProviderItemPart,
    RedactedThinkingPart,
    RefusalPart,
    SearchResultPart,
    ServerToolPart,
    TextPart,
    ThinkingPart,
    ToolCall,
    ToolResultPart,
    Usage,
)
from rxchat.stage import Chain
from tests.streams import feed_all, parse_events

STOP = ChatResponse(finish_reason=FinishReason.STOP)


def fold(*events: ChatEvent) -> list[ChatEvent]:
    """
    What comes out when the events pass the normalizer and the fold.
    """
    return feed_all(Chain(Normalizer(), Aggregator()), events)


def step(*events: ChatEvent, seed: ChatResponse = STOP) -> ChatResponse:
    """
    The answer of one step that holds these events.
    """
    end = fold(StepStart(), *events, StepEnd(0, seed))[-1]
    assert isinstance(end, StepEnd)
    return end.response


def answer(*events: ChatEvent) -> ChatResponse:
    """
    The whole answer of a response made of these events and a terminal.
    """
    end = fold(ResponseStart("r"), *events)[-1]
    assert isinstance(end, ResponseEnd | Abort | ErrorEvent)
    return end.response


def text(value: str, index: int | None = None, item_id: str | None = None) -> TextDelta:
    return TextDelta(value, index, item_id)


def think(value: str, index: int | None = None, item_id: str | None = None) -> ThinkingDelta:
    return ThinkingDelta(value, index, item_id)


# --- parts ----------------------------------------------------------------------------------------------------------------------------------------

IMAGE = MediaDone("image", "image/png", "AA==", None, "m", None, "a cat")
IMAGE_PART = MediaPart("image", "image/png", "AA==", None, "m", "a cat")
CITED = Citation("https://e.org", "E", "quoted", "f.pdf", 0, 1, 2)
CITED_PART = CitationPart("https://e.org", "E", "quoted", "f.pdf", 0, 1, 2)

PARTS: dict[str, tuple[list[ChatEvent], list[Part]]] = {
    "text": ([text("Hel"), text("lo")], [TextPart("Hello")]),
    "thinking, then text": ([think("hm"), text("so")], [ThinkingPart("hm"), TextPart("so")]),
    "blocks keep their keys": ([text("a", 0, "x"), text("b", 1, "y")], [TextPart("a", 0, "x"), TextPart("b", 1, "y")]),
    "blocks side by side": ([text("a", 0), text("b", 1), text("c", 0), text("d", 1)], [TextPart("ac", 0), TextPart("bd", 1)]),
    "an anonymous delta in the only block": ([text("a", 0), text("b")], [TextPart("ab", 0)]),
    "N6 a block named late": ([text("a"), text("b", 0, "x"), text("c"), text("d", 0, "x")], [TextPart("abcd", 0, "x")]),
    "N6 named before any text": ([TextStart(), text("b", 0)], [TextPart("b", 0)]),
    "P14 an identified block reopened": (
        [think("a", 0), text("b", 1), think("c", 0), text("d", 1)],
        [ThinkingPart("ac", index=0), TextPart("bd", 1)],
    ),
    "P14 an anonymous block reopened at once": ([text("a"), TextEnd(), text("b")], [TextPart("ab")]),
    "P14 an anonymous block reopened behind something": ([text("a"), think("b"), text("c")], [TextPart("a"), ThinkingPart("b"), TextPart("c")]),
    "P14 behind a call": (
        [text("a"), ToolCallStart("c", "f"), text("b")],
        [TextPart("a"), ToolCall("c", "f", "", {}, complete=True, index=0), TextPart("b")],
    ),
    "P14 an open anonymous block goes on behind an image as a part of its own": (
        [text("a"), IMAGE, text("b"), text("c")],
        [TextPart("a"), IMAGE_PART, TextPart("bc")],
    ),
    "P14 an identified block goes on in its part": ([text("a", 0), IMAGE, text("b", 0)], [TextPart("ab", 0), IMAGE_PART]),
    "citations do not cut a text": ([text("a"), CITED, text("b")], [TextPart("ab"), CITED_PART]),
    "empty blocks give no part": ([TextStart(), TextEnd(), ThinkingStart(0), ThinkingEnd(0), TextStart(3)], []),
    "an empty block is nothing in between": ([text("a"), ThinkingStart(), ThinkingEnd(), text("b")], [TextPart("ab")]),
    "P11 signature": ([think("a", 0), ThinkingSignature("s", 0), text("b", 1)], [ThinkingPart("a", "s", 0), TextPart("b", 1)]),
    "P11 a later signature replaces": ([think("a", 0), ThinkingSignature("s", 0), ThinkingSignature("t", 0)], [ThinkingPart("a", "t", 0)]),
    "P11 behind the end of its block": ([think("a", 0), ThinkingEnd(0), ThinkingSignature("s", 0)], [ThinkingPart("a", "s", 0)]),
    "P11 anonymous": ([think("a"), ThinkingSignature("s"), think("b")], [ThinkingPart("ab", "s")]),
    "P11 anonymous in the only block": ([think("a", 0), ThinkingSignature("s")], [ThinkingPart("a", "s", 0)]),
    "P11 anonymous behind the end": ([think("a", 0), ThinkingEnd(0), ThinkingSignature("s")], [ThinkingPart("a", "s", 0)]),
    "P11 anonymous behind the text": ([think("a"), text("b"), ThinkingSignature("s")], [ThinkingPart("a", "s"), TextPart("b")]),
    "P11 a second one behind the text": (
        [think("a"), ThinkingSignature("s"), text("b"), ThinkingSignature("t")],
        [ThinkingPart("a", "s"), TextPart("b"), ThinkingPart("", "t")],
    ),
    "P11 an identified signature of the anonymous block": ([think("a"), ThinkingSignature("s", 0)], [ThinkingPart("a", "s")]),
    "E13 a signature without text": ([ThinkingSignature("s")], [ThinkingPart("", "s")]),
    "E13 an identified signature without text": ([ThinkingSignature("s", 0), text("b", 1)], [ThinkingPart("", "s", 0), TextPart("b", 1)]),
    "E13 its text comes later": ([ThinkingSignature("s", 0), think("a", 0)], [ThinkingPart("a", "s", 0)]),
    "E13 in an empty block": ([ThinkingStart(0), ThinkingSignature("s", 0), ThinkingEnd(0)], [ThinkingPart("", "s", 0)]),
    "redacted": (
        [ThinkingRedacted("x", 0), ThinkingRedacted("y", 1), think("z", 2)],
        [RedactedThinkingPart("x", 0), RedactedThinkingPart("y", 1), ThinkingPart("z", None, 2)],
    ),
    "refusal": ([RefusalDelta("I "), RefusalDelta("won't")], [RefusalPart("I won't")]),
    "refusal is no text": ([text("a"), RefusalDelta("b"), text("c"), RefusalDelta("d")], [TextPart("ac"), RefusalPart("bd")]),
    "result": ([ToolResult("a", {"x": 1}, is_error=True)], [ToolResultPart("a", {"x": 1}, is_error=True)]),
    "media": ([MediaPartial("image", data="A"), IMAGE, IMAGE], [IMAGE_PART, IMAGE_PART]),
    "search result": ([SearchResult("u", "t", "s", "q")], [SearchResultPart("u", "t", "s", "q")]),
    "content filter": ([ContentFilter("hate", "bad", blocked=True)], [ContentFilterPart("hate", "bad", blocked=True)]),
    "provider item": ([Custom(PROVIDER_ITEM, {"type": "compaction", "raw": {"x": 1}})], [ProviderItemPart("compaction", {"x": 1})]),
    "a provider item that is none": ([Custom(PROVIDER_ITEM, "?"), Custom("mine", {"type": "x"})], []),
    "server tool": (
        [
            ServerToolStart("search", "s", "web", {"p": 1}, needs_client=True),
            ServerToolArgsDelta("search", '{"q":', "s"),
            ServerToolArgsDelta("search", "1}", "s"),
            text("meanwhile"),
            ServerToolResult("search_result", "s", [1], is_error=True),
        ],
        [ServerToolPart("search", "s", "web", '{"q":1}', {"p": 1}, [1], is_error=True, needs_client=True), TextPart("meanwhile")],
    ),
    "server tool said again": (
        [ServerToolStart("search", "s", payload={"p": 1}), ServerToolStart("search", "s", "web"), ServerToolResult("search", "s", name="late")],
        [ServerToolPart("search", "s", "web", payload={"p": 1})],
    ),
    "server tools without ids": (
        [
            ServerToolStart("code", payload=1),
            ServerToolResult("code", payload=2),
            ServerToolStart("code", payload=3),
            ServerToolStart("code", payload=4),
            ServerToolResult("code", payload=5),
            ServerToolResult("code", payload=6),
        ],
        [
            ServerToolPart("code", payload=1, result=2),
            ServerToolPart("code", payload=3),
            ServerToolPart("code", payload=4, result=5),
            ServerToolPart("code", result=6),
        ],
    ),
    "a result without a start": ([ServerToolResult("search", "s", 1, name="web")], [ServerToolPart("search", "s", "web", result=1)]),
}


@pytest.mark.parametrize(("events", "parts"), PARTS.values(), ids=PARTS.keys())
def test_parts(events: list[ChatEvent], parts: list[Part]) -> None:
    """
    The events of a step become these parts, in this order.
    """
    assert tuple(parts) == step(*events).parts


@pytest.mark.parametrize("events", [events for events, _ in PARTS.values()], ids=PARTS.keys())
def test_pieces_equal_the_whole(events: list[ChatEvent]) -> None:
    """
    The answer of the whole response has the parts of its only step, and may be looked at on the way without changing it.
    """
    aggregator = Aggregator()
    for event in feed_all(Normalizer(), [StepStart(), *events, StepEnd(0, STOP)]):
        aggregator.feed(event, lambda _: None)
        assert aggregator.response == aggregator.response
    assert step(*events).parts == aggregator.response.parts


# --- tool calls -----------------------------------------------------------------------------------------------------------------------------------


def called(*fragments: str, end: ToolCall | None = None, kind: str = "function", seed: ChatResponse = STOP) -> ToolCall:
    """
    The call in the answer of a step that holds it; it equals the one on its ToolCallEnd.
    """
    events: list[ChatEvent] = [ToolCallStart("a", "f", 0, 0, kind), *(ToolCallArgsDelta(fragment, "a", 0) for fragment in fragments)]
    out = fold(StepStart(), *events, *([ToolCallEnd(end)] if end else []), StepEnd(0, seed))
    (ended,) = [event.tool_call for event in out if isinstance(event, ToolCallEnd)]
    last = out[-1]
    assert isinstance(last, StepEnd)
    assert (ended,) == last.response.tool_calls
    return ended


DONE = ToolCall("a", complete=True, index=0)


@pytest.mark.parametrize(
    ("fragments", "arguments"),
    [
        (['{"x":', "1}"], {"x": 1}),
        ([' {"x": 1} '], {"x": 1}),
        ([], {}),
        (["{}"], {}),
        ([" "], None),
        (["[1]"], None),
        (["null"], None),
        (['"x"'], None),
        (['{"x":'], None),
        (['{"x":1}{"x":1}'], None),
        (['{"x":1,"x":2}'], None),
        (['{"x":NaN}'], None),
        (['{"x":1e999}'], None),
        (['{"x":"\\ud800"}'], None),
        (['{"x":' + "[" * 200 + "]" * 200 + "}"], None),
        (['{"x":12345678901234567890123}'], {"x": 12345678901234567890123}),
    ],
)
def test_arguments(fragments: list[str], arguments: dict[str, Any] | None) -> None:
    """
    Arguments are one strict JSON object or None; the text stays as it came; no characters at all are {} (N7, P3).
    """
    call = called(*fragments, end=DONE)
    assert (arguments, "".join(fragments), True) == (call.arguments, call.arguments_text, call.complete)


@pytest.mark.parametrize("finish", FinishReason)
def test_arguments_of_a_call_the_step_ended(finish: FinishReason) -> None:
    """
    Only a finish that is whole makes an open call complete; else its arguments are never set, also not as {} (N7, P3).
    """
    for fragments, arguments in (('{"x":1}', {"x": 1}), ("", {})):
        call = called(*fragments, seed=ChatResponse(finish_reason=finish))
        assert (finish.complete, arguments if finish.complete else None) == (call.complete, call.arguments)


def test_free_form_calls_have_text_only() -> None:
    """
    A custom call has no arguments, complete or not (P3).
    """
    call = called("{}", end=DONE, kind="custom")
    assert ("{}", None, True, "custom") == (call.arguments_text, call.arguments, call.complete, call.kind)


def test_text_given_by_the_end_counts() -> None:
    """
    A dialect that says the whole text at the end is believed.
    """
    assert {"y": 2} == called('{"x":1', end=attrs.evolve(DONE, arguments_text='{"y":2}')).arguments


def test_what_the_end_says_stays() -> None:
    """
    Name, metadata and server_executed of the end are in the answer (P5, P10).
    """
    call = called(end=attrs.evolve(DONE, name="g", metadata={"s": 1}, server_executed=True))
    assert ToolCall("a", "g", "", {}, complete=True, index=0, server_executed=True, metadata={"s": 1}) == call


def test_calls_side_by_side() -> None:
    """
    Parallel calls have buffers of their own, and stand in the order of their starts (T3).
    """
    given = parse_events("SS(0) C.S(f)!a#0 C.S(g)!b#1 C.D#1 C.D#0 C.D!b C.E!b SE(0,stop)")
    out = feed_all(Chain(Normalizer(), Aggregator()), given)
    last = out[-1]
    assert isinstance(last, StepEnd)
    assert [("a", "f", "4;"), ("b", "g", "3;5;")] == [(call.id, call.name, call.arguments_text) for call in last.response.tool_calls]


def test_calls_without_the_normalizer() -> None:
    """
    The fold alone takes calls by id where nobody gave an index, and an end or a fragment without a start.
    """
    given: list[ChatEvent] = [
        ToolCallStart("a", "f"),
        ToolCallArgsDelta("{}", "a"),
        ToolCallEnd(ToolCall("a", complete=True)),
        ToolCallEnd(ToolCall("b", "g", complete=True)),
        ToolCallArgsDelta("{", "c", 7),
        TextDelta("x"),
    ]
    aggregator = Aggregator()
    feed_all(aggregator, given)
    expected = (ToolCall("a", "f", "{}", {}, complete=True), ToolCall("b", "g", "", {}, complete=True), ToolCall("c", "", "{", index=7))
    assert (*expected, TextPart("x")) == aggregator.response.parts


# --- what passes ----------------------------------------------------------------------------------------------------------------------------------


def test_only_ends_are_replaced() -> None:
    """
    Every event but ToolCallEnd, StepEnd and the terminals passes as the same object.
    """
    given = parse_events(
        "RS SS(0) STATUS HEARTBEAT T.S#0 T.D#0 T.E#0 K.S#1 K.D#1 SIG#1 K.E#1 REDACTED C.S!a#0 C.D!a#0 RESULT SERVER_START SERVER_ARGS"
        " SERVER_RESULT HIT CITATION PARTIAL MEDIA REFUSAL FILTER USAGE RAW CUSTOM"
    )
    out = feed_all(Aggregator(), given)
    assert all(before is after for before, after in zip(given, out, strict=True))
    replaced = {ToolCallEnd, StepEnd, ResponseEnd, Abort, ErrorEvent}
    assert set(EVENT_TYPES.values()) == replaced | {type(event) for event in given}


# --- finish and verdict ---------------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("given", "call", "expected"),
    [
        (FinishReason.STOP, None, FinishReason.STOP),
        (FinishReason.STOP, DONE, FinishReason.TOOL_CALLS),
        (FinishReason.STOP, attrs.evolve(DONE, server_executed=True), FinishReason.STOP),
        (FinishReason.LENGTH, DONE, FinishReason.LENGTH),
        (FinishReason.TOOL_CALLS, None, FinishReason.TOOL_CALLS),
        (FinishReason.UNKNOWN, DONE, FinishReason.UNKNOWN),
    ],
)
def test_finish(given: FinishReason, call: ToolCall | None, expected: FinishReason) -> None:
    """
    A normal stop with a client call is tool_calls, the raw word stays (P1).
    """
    events: list[ChatEvent] = [ToolCallStart("a", "f", 0), ToolCallEnd(call)] if call else []
    got = step(*events, seed=ChatResponse(finish_reason=given, finish_reason_raw="word"))
    assert (expected, "word") == (got.finish_reason, got.finish_reason_raw)


def test_an_item_the_client_must_answer_is_no_call() -> None:
    """
    A turn that ends with such an item stops (P12).
    """
    assert FinishReason.STOP is step(ServerToolStart("shell_call", "s", needs_client=True)).finish_reason


@pytest.mark.parametrize("finish", FinishReason)
def test_verdict_at_the_end(finish: FinishReason) -> None:
    """
    COMPLETE for stop and tool_calls, INCOMPLETE_FINISH for all others (V4, V6, P2); a step's own answer has none.
    """
    got = answer(StepStart(), text("a"), StepEnd(0, ChatResponse(finish_reason=finish)), ResponseEnd())
    assert (Verdict.COMPLETE if finish.complete else Verdict.INCOMPLETE_FINISH) is got.verdict
    assert [None] == [part.verdict for part in got.steps]


def test_verdict_of_nothing() -> None:
    """
    A response without a step has an unknown finish.
    """
    assert ChatResponse(response_id="r", verdict=Verdict.INCOMPLETE_FINISH) == answer(ResponseEnd())


def test_verdict_of_an_abort() -> None:
    """
    What had arrived, marked as aborted, the reason kept (V2).
    """
    (*_, end) = fold(ResponseStart("r"), StepStart(), text("a"), Abort("cancelled"))
    assert isinstance(end, Abort)
    assert ("cancelled", "a", Verdict.ABORTED, Verdict.ABORTED) == (
        end.reason,
        end.response.text,
        end.response.verdict,
        end.response.steps[0].verdict,
    )


@pytest.mark.parametrize(
    ("error", "verdict"),
    [
        (ConnectionLostError("gone"), Verdict.CONNECTION_LOST),
        (ProviderError("overloaded"), Verdict.PROVIDER_ERROR),
        (RxchatError("nobody knows"), Verdict.INCOMPLETE_STREAM),
    ],
)
def test_verdict_of_a_failure(error: RxchatError, verdict: Verdict) -> None:
    """
    The partial answer rides on the event and on the error (V2); the failed step is marked, and its usage is partial (U).
    """
    (*_, end) = fold(StepStart(), text("a"), UsageUpdate(Usage(1, 2)), ErrorEvent(error))
    assert isinstance(end, ErrorEvent)
    assert (error, error.response, end.response.usage) == (end.error, end.response, end.usage)
    assert ("a", verdict, verdict) == (end.response.text, end.response.verdict, end.response.steps[0].verdict)
    assert Usage(1, 2, partial=True) == end.usage


def test_failure_before_a_step() -> None:
    """
    The answer is empty, with the verdict (E7).
    """
    assert ChatResponse(response_id="r", verdict=Verdict.CONNECTION_LOST) == answer(ErrorEvent(ConnectionLostError("gone")))


def test_the_dialects_word_on_failure_stays() -> None:
    """
    A seed marked as failed keeps its finish and marks the usage (V2, U).
    """
    seed = ChatResponse(finish_reason=FinishReason.STOP, finish_reason_raw="stop", model="m", verdict=Verdict.INVALID_JSON)
    got = step(text("a"), UsageUpdate(Usage(1)), seed=seed)
    assert attrs.evolve(seed, parts=(TextPart("a"),), usage=Usage(1, partial=True)) == got


# --- usage ----------------------------------------------------------------------------------------------------------------------------------------


def usages(*steps: list[Usage]) -> Usage | None:
    """
    The usage of a response whose steps report these snapshots.
    """
    events: list[ChatEvent] = []
    for k, snapshots in enumerate(steps):
        events += [StepStart(k), *map(UsageUpdate, snapshots), StepEnd(k, STOP)]
    out = fold(*events, ResponseEnd())
    last = out[-1]
    assert isinstance(last, ResponseEnd)
    ends = [event for event in out if isinstance(event, StepEnd)]
    assert [event.usage for event in ends] == [event.response.usage for event in ends] == [part.usage for part in last.response.steps]
    return last.response.usage


def test_usage() -> None:
    """
    None when nothing was reported; snapshots of a step merge; steps add up, each once; silence neither resets nor counts (U).
    """
    first = Usage(1, 2, 3, 4, 5, 6, {"input_tokens": 1}, ({"a": 1},))
    second = Usage(10, 20, 30, 40, 50, 60, {"input_tokens": 10}, ({"b": 2},))
    summed = Usage(11, 22, 33, 44, 55, 66, {"input_tokens": 11}, ({"a": 1}, {"b": 2}))
    assert None is usages()
    assert None is usages([], [])
    assert first == usages([first])
    assert first == usages([], [first], [])
    assert summed == usages([first], [second])
    assert summed.add(first) == usages([first], [second], [first])
    assert Usage(1, 5, total_tokens=6) == usages([Usage(1, 2), Usage(output_tokens=5), Usage(total_tokens=6)])
    assert Usage(1, 2, 3) == usages([Usage(1, cache_read_tokens=3)], [Usage(None, 2)])


def test_usage_as_it_comes() -> None:
    """
    The last known usage is there at any time, for those who dispose (U).
    """
    aggregator = Aggregator()
    seen = []
    for event in parse_events("RS SS(0) USAGE SE(0) SS(1) USAGE T.D"):
        assert event is not None
        aggregator.feed(event, lambda _: None)
        seen.append(aggregator.usage and aggregator.usage.input_tokens)
    assert [None, None, 3, 3, 3, 6, 6] == seen
    assert aggregator.usage == aggregator.response.usage


def test_usage_on_the_step_end_counts_once() -> None:
    """
    A StepEnd that has its usage already says nothing new.
    """
    out = fold(StepStart(), UsageUpdate(Usage(1, 2)), StepEnd(0, STOP, Usage(1, 2, total_tokens=3)))
    assert isinstance(out[-1], StepEnd)
    assert Usage(1, 2, total_tokens=3) == out[-1].usage


# --- steps ----------------------------------------------------------------------------------------------------------------------------------------


def test_steps() -> None:
    """
    StepEnd covers its step, the terminal all of them: parts in order, the last finish, sums, first ids, all metadata (V1).
    """
    seeds = (
        ChatResponse(
            finish_reason=FinishReason.TOOL_CALLS,
            finish_reason_raw="tool_use",
            unknown={"x": 1},
            after_finish=1,
            dropped=2,
            metadata={"a": 1, "b": 1},
        ),
        ChatResponse(
            finish_reason=FinishReason.STOP,
            finish_reason_raw="end_turn",
            provider_response_id="p2",
            model="m2",
            unknown={"x": 2, "y": 1},
            after_finish=1,
            dropped=1,
            metadata={"b": 2},
        ),
    )
    out = fold(
        ResponseStart("r"),
        StepStart(0, "p1", "m1"),
        text("let me see"),
        ToolCallStart("a", "f"),
        ToolCallEnd(DONE),
        ToolResult("a", 1),
        StepEnd(0, seeds[0]),
        StepStart(1),
        text("one"),
        StepEnd(1, seeds[1]),
        ResponseEnd(),
    )
    first, second = (event.response for event in out if isinstance(event, StepEnd))
    call = ToolCall("a", "f", "", {}, complete=True, index=0)
    parts = (TextPart("let me see"), call, ToolResultPart("a", 1))
    assert attrs.evolve(seeds[0], parts=parts, response_id="r", provider_response_id="p1", model="m1") == first
    assert attrs.evolve(seeds[1], parts=(TextPart("one"),), response_id="r") == second
    assert (
        ResponseEnd(
            ChatResponse(
                parts=(*parts, TextPart("one")),
                finish_reason=FinishReason.STOP,
                finish_reason_raw="end_turn",
                model="m1",
                response_id="r",
                provider_response_id="p1",
                verdict=Verdict.COMPLETE,
                steps=(first, second),
                unknown={"x": 3, "y": 1},
                after_finish=2,
                dropped=3,
                metadata={"a": 1, "b": 2},
            )
        )
        == out[-1]
    )


def test_dropped_fragments_are_counted() -> None:
    """
    What the normalizer drops is counted in the answer (P6).
    """
    got = answer(StepStart(), ToolCallStart("a"), ToolCallEnd(DONE), ToolCallArgsDelta("x", "a"), StepEnd(0, STOP), ResponseEnd())
    assert (1, 1) == (got.dropped, got.steps[0].dropped)


def test_a_new_response_begins_anew() -> None:
    """
    Nothing of the response before is in the next one (E12).
    """
    out = fold(
        ResponseStart("r"),
        StepStart(),
        text("a"),
        UsageUpdate(Usage(1)),
        StepEnd(0, STOP),
        ResponseEnd(),
        ResponseStart("s"),
        StepStart(),
        ResponseEnd(),
    )
    assert isinstance(out[-1], ResponseEnd)
    assert ("s", (), None, 1) == (
        out[-1].response.response_id,
        out[-1].response.parts,
        out[-1].response.usage,
        len(out[-1].response.steps),
    )


def test_the_running_answer() -> None:
    """
    Before the end the answer has what came so far and no verdict; afterwards it is the terminal's.
    """
    aggregator = Aggregator()
    assert ChatResponse() == aggregator.response
    given = parse_events("RS SS(0) T.S T.D T.E C.S(f)!a#0 C.D!a#0")
    feed_all(aggregator, given)
    running = ChatResponse(parts=(TextPart("3;"), ToolCall("a", "f", "6;", index=0)), response_id="r")
    assert attrs.evolve(running, steps=(running,)) == aggregator.response
    (*_, end) = feed_all(aggregator, parse_events("SE(0,stop) END"))
    assert isinstance(end, ResponseEnd)
    assert end.response is aggregator.response


def test_events_outside_of_a_step() -> None:
    """
    The fold alone takes what comes without StepStart as a step.
    """
    aggregator = Aggregator()
    (*_, end) = feed_all(aggregator, parse_events("T.S T.D T.E END"))
    assert isinstance(end, ResponseEnd)
    assert ("1;", 1, Verdict.INCOMPLETE_FINISH) == (end.response.text, len(end.response.steps), end.response.verdict)


# --- alternatives ---------------------------------------------------------------------------------------------------------------------------------


def test_alternatives() -> None:
    """
    Choices above 0 become answers of their own, with their own finish, and are never in the parts (P13).
    """
    seed = ChatResponse(
        finish_reason=FinishReason.LENGTH,
        alternatives=(
            ChatResponse(choice=2, finish_reason=FinishReason.STOP, finish_reason_raw="stop"),
            ChatResponse(choice=1, finish_reason=FinishReason.STOP, finish_reason_raw="stop"),
        ),
    )
    got = answer(
        StepStart(),
        text("zero"),
        TextDelta("two", choice=2),
        ThinkingDelta("hm", choice=1),
        ThinkingSignature("s", choice=1),
        RefusalDelta("no", choice=1),
        Citation("u", choice=1),
        ToolCallStart("a", "f", 0, 1),
        ToolCallArgsDelta("{}", "a", 0, 1),
        TextDelta("three", choice=3),
        text(" more"),
        StepEnd(0, seed),
        ResponseEnd(),
    )
    call = ToolCall("a", "f", "{}", {}, complete=True, index=0)
    one = ChatResponse(
        choice=1,
        finish_reason=FinishReason.TOOL_CALLS,
        finish_reason_raw="stop",
        parts=(ThinkingPart("hm", "s"), RefusalPart("no"), CitationPart("u"), call),
    )
    two = ChatResponse(choice=2, finish_reason=FinishReason.STOP, finish_reason_raw="stop", parts=(TextPart("two"),))
    three = ChatResponse(choice=3, parts=(TextPart("three"),))
    assert (one, two, three) == got.steps[0].alternatives
    verdicts = (Verdict.COMPLETE, Verdict.COMPLETE, Verdict.INCOMPLETE_FINISH)
    assert tuple(attrs.evolve(other, verdict=verdict) for other, verdict in zip((one, two, three), verdicts, strict=True)) == got.alternatives
    assert ("zero more", (), Verdict.INCOMPLETE_FINISH) == (got.text, got.tool_calls, got.verdict)


def test_alternatives_over_steps() -> None:
    """
    An alternative of several steps has the parts of all and the last finish; when the response fails, its verdict is that of the response.
    """
    seed = ChatResponse(alternatives=(ChatResponse(choice=1, finish_reason=FinishReason.PAUSE),))
    got = answer(
        StepStart(), TextDelta("a", choice=1), StepEnd(0, seed), StepStart(1), TextDelta("b", choice=1), ErrorEvent(ConnectionLostError("gone"))
    )
    assert (ChatResponse(choice=1, parts=(TextPart("a"), TextPart("b")), verdict=Verdict.CONNECTION_LOST),) == got.alternatives


def test_an_alternative_without_content() -> None:
    """
    A finish alone is an alternative too.
    """
    other = ChatResponse(choice=1, finish_reason=FinishReason.CONTENT_FILTER)
    assert (other,) == step(seed=ChatResponse(alternatives=(other,))).alternatives
