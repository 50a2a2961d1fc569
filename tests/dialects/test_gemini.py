"""
Gemini's generateContent: event streams, arrays and bodies to answers, then its helpers.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rxchat.call_keys import is_local_id
from rxchat.dialects import get_dialect
from rxchat.dialects.gemini_args import PartialArguments
from rxchat.dialects.gemini_sources import PlacedText
from rxchat.errors import DialectError, LimitExceeded, ProviderError, RxchatError
from rxchat.events import (
    ChatEvent,
    ContentFilter,
    MediaDone,
    MediaPartial,
    Raw,
    SearchResult,
    ServerToolResult,
    ServerToolStart,
    TextDelta,
    ThinkingSignature,
    ToolCallArgsDelta,
    ToolCallEnd,
    ToolResult,
)
from rxchat.limits import Limits
from rxchat.pipeline import response_stage
from rxchat.response import CitationPart, FinishReason, MediaPart, ProviderItemPart, TextPart, ThinkingPart, ToolCall, ToolResultPart
from rxchat.stage import run
from tests.dialects.reading import EVENT_STREAM, Reading, read, read_everywhere, sse_frames
from tests.grammar import violations
from tests.work import opcodes, peak

NAME = "gemini"
JSON = "application/json; charset=UTF-8"

Json = dict[str, Any]


def event(*parts: Any, finish: Any = None, index: int | None = None, usage: Json | None = None, **candidate: Any) -> Json:
    """
    One event with one candidate.
    """
    said: Json = {"content": {"parts": list(parts), "role": "model"}, **candidate}
    if finish is not None:
        said["finishReason"] = finish
    if index is not None:
        said["index"] = index
    return {"candidates": [said], "modelVersion": "gemini-x", "responseId": "r1", **({"usageMetadata": usage} if usage else {})}


def text(said: str, **more: Any) -> Json:
    return {"text": said, **more}


def call(name: str | None = None, *, signature: str | None = None, **said: Any) -> Json:
    return {"functionCall": {**({"name": name} if name else {}), **said}, **({"thoughtSignature": signature} if signature else {})}


def piece(path: str, value: Any, key: str = "stringValue", **more: Any) -> Json:
    return call(partialArgs=[{"jsonPath": path, key: value, **more}], willContinue=True)


def sse(*values: Any, end: bytes = b"\r\n\r\n") -> bytes:
    """
    An event stream as Gemini sends it; bytes stand for themselves.
    """
    return b"".join(value if isinstance(value, bytes) else b"data: " + json.dumps(value, ensure_ascii=False).encode() + end for value in values)


def array(*values: Any) -> bytes:
    return b"[" + b"\n,\r\n".join(json.dumps(value, indent=2, ensure_ascii=False).encode() for value in values) + b"\n]\n"


def answer(*values: Any) -> Reading:
    """
    A stream, read at every cut; balanced.
    """
    reading = read_everywhere(NAME, sse(*values))
    assert violations(reading.events) == []
    return reading


def calls_of(reading: Reading) -> list[tuple[str, Any, bool]]:
    return [(made.name, made.arguments, made.complete) for made in reading.response.tool_calls]


# --- ends -------------------------------------------------------------------------------------------------------------------------------------------

STOP = event(text("b"), finish="STOP")

ENDS: list[tuple[str, bytes, str, str, str, str | None]] = [
    ("a stop", sse(event(text("a")), STOP), EVENT_STREAM, "COMPLETE", "ab", "STOP"),
    ("LF", sse(event(text("a")), STOP, end=b"\n\n"), EVENT_STREAM, "COMPLETE", "ab", "STOP"),
    ("a stop in every event", sse(event(text("a"), finish="STOP"), STOP), EVENT_STREAM, "COMPLETE", "ab", "STOP"),
    ("text behind the stop", sse(STOP, event(text("c"))), EVENT_STREAM, "COMPLETE", "bc", "STOP"),
    ("the last finish counts", sse(STOP, event(finish="RECITATION")), EVENT_STREAM, "INCOMPLETE_FINISH", "b", "RECITATION"),
    ("the last finish counts, either way", sse(event(text("a"), finish="OTHER"), STOP), EVENT_STREAM, "COMPLETE", "ab", "STOP"),
    ("unspecified is unsaid", sse(event(text("a"), finish="FINISH_REASON_UNSPECIFIED")), EVENT_STREAM, "INCOMPLETE_STREAM", "a", None),
    ("no finish", sse(event(text("a"))), EVENT_STREAM, "INCOMPLETE_STREAM", "a", None),
    ("length", sse(event(text("a"), finish="MAX_TOKENS")), EVENT_STREAM, "INCOMPLETE_FINISH", "a", "MAX_TOKENS"),
    ("an unknown word", sse(event(text("a"), finish="TIRED")), EVENT_STREAM, "INCOMPLETE_FINISH", "a", "TIRED"),
    ("a number", sse(event(text("a"), finish=1)), EVENT_STREAM, "COMPLETE", "a", "1"),
    ("an unknown number", sse(event(text("a"), finish=99)), EVENT_STREAM, "INCOMPLETE_FINISH", "a", "99"),
    ("a held whole event", sse(event(text("a"))) + sse(STOP, end=b"\n"), EVENT_STREAM, "COMPLETE", "ab", "STOP"),
    ("a held event without any line end", sse(event(text("a"))) + sse(STOP, end=b""), EVENT_STREAM, "COMPLETE", "ab", "STOP"),
    ("a held event that is cut", sse(STOP) + b'data: {"candidates": [', EVENT_STREAM, "INCOMPLETE_STREAM", "b", "STOP"),
    ("a held field without data", sse(STOP) + b"event: x\r\n", EVENT_STREAM, "INCOMPLETE_STREAM", "b", "STOP"),
    ("a sentinel of a gateway", sse(STOP, b"data: [DONE]\n\n"), EVENT_STREAM, "COMPLETE", "b", "STOP"),
    ("a held sentinel of a gateway", sse(STOP, b"data: [DONE]"), EVENT_STREAM, "COMPLETE", "b", "STOP"),
    ("a sentinel alone", sse(event(text("a")), b"data: [DONE]\n\n"), EVENT_STREAM, "INCOMPLETE_STREAM", "a", None),
    ("nothing", b"", EVENT_STREAM, "INCOMPLETE_STREAM", "", None),
    ("an array", array(event(text("a")), STOP), JSON, "COMPLETE", "ab", "STOP"),
    ("an array of numbers for words", array(event(text("a"), finish=2)), JSON, "INCOMPLETE_FINISH", "a", "2"),
    ("an array without its bracket", array(event(text("a")), STOP)[:-2], JSON, "INCOMPLETE_STREAM", "ab", "STOP"),
    ("an array without a finish", array(event(text("a"))), JSON, "INCOMPLETE_STREAM", "a", None),
    ("an empty array", b"[]", JSON, "INCOMPLETE_STREAM", "", None),
    ("a body", json.dumps(STOP).encode(), JSON, "COMPLETE", "b", "STOP"),
    ("a body without a finish", json.dumps(event(text("a"))).encode(), JSON, "INCOMPLETE_FINISH", "a", None),
    ("a body that is no answer", b'{"x": 1}', JSON, "PROTOCOL", "", None),
]


@pytest.mark.parametrize(("body", "kind", "verdict", "said", "word"), [row[1:] for row in ENDS], ids=[row[0] for row in ENDS])
def test_end(body: bytes, kind: str, verdict: str, said: str, word: str | None) -> None:
    """
    Only a finishReason and the end of the body end the answer, the last finishReason decides (contract P9).
    """
    reading = read_everywhere(NAME, body, kind)
    assert (verdict, said, word) == (reading.verdict, reading.response.text, reading.response.finish_reason_raw)
    assert violations(reading.events) == []
    assert reading.response.committable == (verdict == "COMPLETE")


def test_end_that_proves_nothing() -> None:
    """
    A close-delimited event stream has no end; an array's bracket is one (contract V5).
    """
    assert "INCOMPLETE_STREAM" == read(NAME, sse(STOP), clean_eof=False).verdict
    assert "COMPLETE" == read(NAME, array(STOP), JSON, clean_eof=False).verdict


def test_stream_is_body() -> None:
    """
    A stream of one event, an array of one element and the body are one answer.
    """
    one = event(text("hm", thought=True), text("a"), call("f", args={"x": 1}, id="c"), finish="STOP", usage={"promptTokenCount": 1})
    streamed = read(NAME, sse(one)).response
    assert streamed == read(NAME, array(one), JSON).response
    assert streamed == read(NAME, json.dumps(one).encode(), JSON).response


def test_ids_and_text_behind_a_finish() -> None:
    """
    Ids and model are those of the wire; text behind a finish is counted.
    """
    response = answer(STOP, event(text("c"), finish="STOP")).response
    assert ("r1", "gemini-x", 1) == (response.provider_response_id, response.model, response.after_finish)


# --- content --------------------------------------------------------------------------------------------------------------------------------------

SHAPES: list[tuple[str, Json, dict[str, int]]] = [
    ("no content", {}, {}),
    ("null", {"content": None}, {}),
    ("empty", {"content": {}}, {}),
    ("no parts", {"content": {"role": "model"}}, {}),
    ("null parts", {"content": {"parts": None}}, {}),
    ("empty parts", {"content": {"parts": []}}, {}),
    ("an empty text", {"content": {"parts": [{"text": ""}]}}, {}),
    ("an empty part", {"content": {"parts": [{}]}}, {}),
    ("a part with only a thought flag", {"content": {"parts": [{"thought": True}]}}, {}),
    ("a foreign content", {"content": {"invalid-field": True}}, {"content": 1}),
    ("a foreign part", {"content": {"parts": [{"hologram": {}}, {"hologram": {"x": 1}}]}}, {"part": 2}),
]


@pytest.mark.parametrize(("candidate", "unknown"), [row[1:] for row in SHAPES], ids=[row[0] for row in SHAPES])
def test_empty_and_unknown_content(candidate: Json, unknown: dict[str, int]) -> None:
    """
    Whatever shape a content without text has, the stream goes on; what is unknown is counted and given as Raw (contract E11).
    """
    reading = answer({"candidates": [candidate]}, STOP)
    assert ("COMPLETE", "b", unknown) == (reading.verdict, reading.response.text, reading.response.unknown)
    assert sum(unknown.values()) == len(reading.of(Raw))


MALFORMED: list[tuple[str, Any]] = [
    ("an event", [1]),
    ("candidates", {"candidates": {}}),
    ("a candidate", {"candidates": ["x"]}),
    ("a content", {"candidates": [{"content": [{"parts": []}]}]}),
    ("parts", {"candidates": [{"content": {"parts": "x"}}]}),
    ("a part", event("x")),
    ("a text", event({"text": 1})),
    ("a functionCall", event({"functionCall": "f"})),
    ("args", event(call("f", args=[1]))),
    ("a path", event(call("f", willContinue=True), piece("location", "x"))),
    ("a path that goes on", event(call("f", willContinue=True), piece("$.a b[", "x"))),
    ("the root", event(call("f", willContinue=True), piece("$", "x"))),
    ("a gap", event(call("f", willContinue=True), piece("$.a[1000000]", "x"))),
    ("a name in a text", event(call("f", willContinue=True), piece("$.a", "x"), piece("$.a.b", "x"))),
    ("an index in an object", event(call("f", willContinue=True), piece("$.a.b", "x"), piece("$.a[0]", "x"))),
    ("a deep path", event(call("f", willContinue=True), piece("$" + ".a" * 200, "x"))),
    ("inlineData", event({"inlineData": {"mimeType": "image/png"}})),
    ("a finishReason", event(finish={"x": 1})),
    ("a finishReason that is true", event(finish=True)),
]


@pytest.mark.parametrize("value", [row[1] for row in MALFORMED], ids=[row[0] for row in MALFORMED])
def test_malformed(value: Any) -> None:
    """
    A known frame that is malformed breaks the stream, never in silence; what was before it is delivered (contract E10, E11).
    """
    reading = answer(event(text("a")), value, STOP)
    assert isinstance(reading.error, DialectError)
    assert ("PROTOCOL", "a") == (reading.verdict, reading.response.text)


def test_unknown_event() -> None:
    """
    An event without any known key is Raw; unknown keys beside known ones mean nothing.
    """
    reading = answer({"x": 1}, {**STOP, "turnToken": "t"})
    assert ("COMPLETE", {"event": 1}, [Raw("event", {"x": 1})]) == (reading.verdict, reading.response.unknown, reading.of(Raw))


def test_thoughts_and_their_signature() -> None:
    """
    Thoughts are thinking; the signature of a thought part seals its block.
    """
    reading = answer(event(text("h", thought=True)), event(text("m", thought=True, thoughtSignature="s")), STOP)
    assert (ThinkingPart("hm", "s"), TextPart("b")) == reading.response.parts
    assert [ThinkingSignature("s")] == reading.of(ThinkingSignature)


@pytest.mark.parametrize("last", [text("", thoughtSignature="s"), {"thoughtSignature": "s"}])
def test_signature_on_an_empty_part(last: Json) -> None:
    """
    A signature on a text that is empty, or on nothing, is kept for the next request right behind the text (contract E13); it is no thought's.
    """
    reading = answer(event(text("h", thought=True)), event(text("a")), event(last, finish="STOP"))
    item = ProviderItemPart("thoughtSignature", {"text": "", "thoughtSignature": "s"})
    assert (ThinkingPart("h"), TextPart("a"), item) == reading.response.parts


def test_signature_on_text_and_media() -> None:
    """
    Likewise on text and media; the other candidates do not go on, so theirs are dropped.
    """
    image = {"inlineData": {"mimeType": "image/png", "data": "AAAA"}, "thoughtSignature": "i"}
    two = {"candidates": [{"content": {"parts": [text("z", thoughtSignature="z")]}, "index": 1, "finishReason": "STOP"}]}
    reading = answer(event(text("a", thoughtSignature="t"), image), two, STOP)
    assert [TextPart, ProviderItemPart, MediaPart, ProviderItemPart, TextPart] == [type(part) for part in reading.response.parts]


MEDIA: list[tuple[Json, MediaDone | MediaPartial]] = [
    ({"inlineData": {"mimeType": "image/png", "data": "AAAA"}}, MediaDone("image", "image/png", "AAAA")),
    ({"inlineData": {"mimeType": "audio/L16;rate=24000", "data": "AAAA"}}, MediaDone("audio", "audio/L16;rate=24000", "AAAA")),
    ({"inlineData": {"data": "AAAA"}}, MediaDone("file", None, "AAAA")),
    ({"inlineData": {"mimeType": "image/png", "data": "AAAA"}, "thought": True}, MediaPartial("image", "image/png", "AAAA")),
    ({"fileData": {"mimeType": "video/mp4", "fileUri": "gs://x"}}, MediaDone("video", "video/mp4", url="gs://x")),
]


@pytest.mark.parametrize(("part", "wanted"), MEDIA)
def test_media(part: Json, wanted: MediaDone | MediaPartial) -> None:
    """
    Media are whole in one part; those of a thought are no part of the answer.
    """
    reading = answer(event(part, finish="STOP"))
    assert [wanted] == reading.of(MediaDone, MediaPartial)
    assert isinstance(wanted, MediaDone) == bool(reading.response.media)


# --- calls ----------------------------------------------------------------------------------------------------------------------------------------

OPEN = call("f", willContinue=True)

CALLS: list[tuple[str, list[Any], list[tuple[str, Any, bool]]]] = [
    ("whole", [event(call("f", args={"x": 1}), finish="STOP")], [("f", {"x": 1}, True)]),
    ("without args", [event(call("f"), finish="STOP")], [("f", {}, True)]),
    ("empty args", [event(call("f", args={}), finish="STOP")], [("f", {}, True)]),
    ("two of one name", [event(call("f", args={"x": 1}), call("f", args={"x": 2}), finish="STOP")], [("f", {"x": 1}, True), ("f", {"x": 2}, True)]),
    ("one an event, text last", [event(call("f")), event(call("g")), event(text(""), finish="STOP")], [("f", {}, True), ("g", {}, True)]),
    (
        "in pieces, closed",
        [event(OPEN), event(piece("$.a", "x", willContinue=True)), event(piece("$.a", "")), event(call(), finish="STOP")],
        [("f", {"a": "x"}, True)],
    ),
    (
        "a text over several pieces",
        [
            event(OPEN),
            event(piece("$.a", "x", willContinue=True), piece("$.a", "y", willContinue=True), piece("$.a", "")),
            event(call(), finish="STOP"),
        ],
        [("f", {"a": "xy"}, True)],
    ),
    (
        "two in pieces, one after the other",
        [event(OPEN), event(piece("$.a", "x")), event(call()), event(OPEN), event(piece("$.a", "y")), event(call(), finish="STOP")],
        [("f", {"a": "x"}, True), ("f", {"a": "y"}, True)],
    ),
    (
        "two in pieces, none closed",
        [event(OPEN, piece("$.a", "x")), event(OPEN, piece("$.a", "y"), finish="STOP")],
        [("f", {"a": "x"}, True), ("f", {"a": "y"}, True)],
    ),
    ("pieces without a word", [event(OPEN), event(call(willContinue=True)), event(call(), finish="STOP")], [("f", {}, True)]),
    (
        "all kinds of values, in one part",
        [
            event(
                call(
                    "f",
                    partialArgs=[
                        {"jsonPath": "$.n", "numberValue": 0.5},
                        {"jsonPath": "$.b", "boolValue": False},
                        {"jsonPath": "$.z", "nullValue": "NULL_VALUE"},
                        {"jsonPath": "$.nothing"},
                        {"jsonPath": "$.n", "numberValue": 2},
                    ],
                ),
                finish="STOP",
            )
        ],
        [("f", {"n": 2, "b": False, "z": None}, True)],
    ),
    (
        "nested",
        [
            event(OPEN),
            event(piece("$.r.items[0].name", "a"), piece("$.r.items[0].n", 1, "numberValue"), call(willContinue=True)),
            event(piece("$['r']['items'][1][\"na\\'me\"]", "b"), piece("$.r.items[0].name", "c"), piece("$.r.items[0].n", "one")),
            event(call(), finish="STOP"),
        ],
        [("f", {"r": {"items": [{"name": "ac", "n": "one"}, {"na'me": "b"}]}}, True)],
    ),
    (
        "elements replaced",
        [event(OPEN, piece("$.a[0]", 1, "numberValue"), piece("$.a[0]", 2, "numberValue"), call(), finish="STOP")],
        [("f", {"a": [2]}, True)],
    ),
    (
        "pieces upon args",
        [event(call("f", args={"x": 1}, willContinue=True), piece("$.y", "z"), call(), finish="STOP")],
        [("f", {"x": 1, "y": "z"}, True)],
    ),
    (
        "closed by a last piece",
        [event(OPEN), event(call(partialArgs=[{"jsonPath": "$.n", "numberValue": 1}])), event(text(""), finish="STOP")],
        [("f", {"n": 1}, True)],
    ),
    ("never closed, a proper end", [event(OPEN, piece("$.a", "x")), event(text(""), finish="STOP")], [("f", {"a": "x"}, True)]),
    ("a text that was to go on", [event(OPEN, piece("$.a", "x", willContinue=True)), event(text(""), finish="STOP")], [("f", None, False)]),
    ("cut by length", [event(call("f", args={"x": 1}), finish="MAX_TOKENS")], [("f", None, False)]),
    ("rejected in the same event", [event(call("f", args={}), finish="UNEXPECTED_TOOL_CALL")], [("f", None, False)]),
    ("rejected later", [event(call("f", args={})), event(text(""), finish="MALFORMED_FUNCTION_CALL")], [("f", None, False)]),
    ("a finish nobody knows", [event(call("f", args={}), finish="TIRED")], [("f", None, False)]),
    ("no end", [event(call("f", args={"x": 1}))], [("f", None, False)]),
    ("in pieces, no end", [event(OPEN, piece("$.a", "x"))], [("f", None, False)]),
    ("nothing that belongs to no call", [event(call()), event(call(willContinue=True), text("a"), finish="STOP")], []),
]


@pytest.mark.parametrize(("events", "wanted"), [row[1:] for row in CALLS], ids=[row[0] for row in CALLS])
def test_calls(events: list[Any], wanted: list[tuple[str, Any, bool]]) -> None:
    """
    Calls are whole or in pieces, and complete only if the answer ended as one with calls does (contract N7, P2, P3).
    """
    reading = answer(*events)
    assert wanted == calls_of(reading)
    assert all(is_local_id(made.id) for made in reading.response.tool_calls)
    assert not any(made.complete for made in reading.response.tool_calls) or FinishReason.TOOL_CALLS is reading.response.finish_reason


def test_arguments_in_pieces_are_given_once() -> None:
    """
    Their text is compact JSON in the order of first naming, in one delta, once the call is closed.
    """
    reading = answer(event(OPEN, piece("$.b", "x", willContinue=True)), event(piece("$.a", "1"), piece("$.b", "y"), call()), STOP)
    assert ['{"b":"xy","a":"1"}'] == [delta.text for delta in reading.of(ToolCallArgsDelta)]  # type: ignore[union-attr]


def test_ids_and_signature_of_a_call() -> None:
    """
    The id may come late or be repeated; the signature is kept with the call that carried it, wherever in it.
    """
    late = answer(
        event(OPEN),
        event(call(id="c9", partialArgs=[{"jsonPath": "$.a", "stringValue": "x"}], willContinue=True)),
        event(call(signature="s"), finish="STOP"),
    )
    (made,) = late.response.tool_calls
    assert ToolCall("c9", "f", '{"a":"x"}', {"a": "x"}, True, 0, metadata={"thoughtSignature": "s"}) == made
    again = answer(event(call("f", id="c1", willContinue=True)), event(call("f", id="c1"), finish="STOP"))
    assert ["c1"] == [made.id for made in again.response.tool_calls]
    two = answer(event(call("f", id="a", args={}, signature="s"), call("f", id="b", args={}), finish="STOP"))
    assert [("a", {"thoughtSignature": "s"}), ("b", None)] == [(made.id, made.metadata) for made in two.response.tool_calls]


@pytest.mark.parametrize("part", [call(args={"x": 1}), piece("$.a", "x"), call(signature="s")])
def test_words_of_no_call(part: Json) -> None:
    """
    What says something of a call that nobody began makes no phantom call; it is Raw.
    """
    reading = answer(event(part), STOP)
    assert ((), {"functionCall": 1}) == (reading.response.tool_calls, reading.response.unknown)


def test_call_the_provider_ran() -> None:
    """
    A call answered in the same stream was run by the provider, also if the answer comes behind a finishReason; nobody is asked to run it (contract P10).
    """
    response = {"functionResponse": {"name": "f", "response": {"result": 1}}}
    reading = answer(event(call("f", args={"x": 1}), finish="STOP"), event(response), STOP)
    (made,) = reading.response.tool_calls
    assert (True, True, {"x": 1}) == (made.server_executed, made.complete, made.arguments)
    assert [ToolResultPart(made.id, {"result": 1})] == [part for part in reading.response.parts if isinstance(part, ToolResultPart)]
    assert FinishReason.STOP is reading.response.finish_reason


def test_answers_find_their_calls() -> None:
    """
    By id, else by name in order; an answer to no call is the result of a tool of the provider.
    """

    def said(name: str, call_id: str | None = None, **response: Any) -> Json:
        return {"functionResponse": {"name": name, **({"id": call_id} if call_id else {}), "response": response}}

    calls = event(call("f", id="a", args={}), call("f", id="b", args={}), call("g", args={}), call("h", args={}))
    reading = answer(calls, event(said("f", "b", error="no"), said("g"), said("k", "z", x=1)), STOP)
    assert [("f", False), ("f", True), ("g", True), ("h", False)] == [(made.name, made.server_executed) for made in reading.response.tool_calls]
    results = [(event.call_id, event.is_error) for event in reading.of(ToolResult)]  # type: ignore[union-attr]
    assert [("b", True), (reading.response.tool_calls[2].id, False)] == results
    assert [ServerToolResult("functionResponse", "z", {"x": 1}, False, "k")] == reading.of(ServerToolResult)


ANSWERED: dict[str, Callable[[int], tuple[list[Json], list[Json]]]] = {
    "by id": lambda n: ([call("f", id=f"c{k}", args={}) for k in range(n)], [{"name": "f", "id": f"c{k}"} for k in range(n)]),
    "by id, the last first": lambda n: ([call("f", id=f"c{k}", args={}) for k in range(n)], [{"name": "f", "id": f"c{n - k}"} for k in range(n)]),
    "by name": lambda n: ([call("f", args={}) for _ in range(n)], [{"name": "f"}] * n),
    "by name beside calls with ids": lambda n: ([call("f", id="c", args={}) for _ in range(n)], [{"name": "f", "id": "d"}] * n),
    "by the name of none": lambda n: ([call("f", args={}) for _ in range(n)], [{"name": "g"}] * n),
}


@pytest.mark.parametrize("shape", ANSWERED.values(), ids=ANSWERED)
def test_answers_are_linear(shape: Callable[[int], tuple[list[Json], list[Json]]]) -> None:
    """
    Twice the calls and answers are twice the work.
    """

    def work(count: int) -> int:
        spec = get_dialect(NAME)
        parser = spec.parser(spec.context())
        calls, answers = shape(count)
        frames = sse_frames(*map(event, calls), *(event({"functionResponse": said}) for said in answers))

        def feed() -> None:
            for frame in frames:
                parser.feed(frame, seen.append)

        seen: list[ChatEvent] = []
        return opcodes(feed)

    assert work(200) < 2.2 * work(100)


def test_an_id_that_comes_late() -> None:
    """
    A call in pieces may get its id with a later piece: an answer finds it by that, and not by its name alone if it says another id.
    """
    pieces = (call("f", willContinue=True), call(id="b", partialArgs=[], willContinue=True))
    answers: list[Json] = [{"functionResponse": {"name": "f", "id": own_id, "response": {}}} for own_id in ("a", "b")]
    reading = answer(event(*pieces), *map(event, answers), STOP)
    assert ["b"] == [event.call_id for event in reading.of(ToolResult)]  # type: ignore[union-attr]
    assert ["a"] == [event.id for event in reading.of(ServerToolResult)]  # type: ignore[union-attr]


def test_texts_by_turns_copy_nothing() -> None:
    """
    A piece of an argument costs the same whichever argument the one before was of.
    """
    made = PartialArguments()
    for path in ("$.a", "$.b"):
        for said in ("x" * 1_000_000, "y", "y"):
            made.add({"jsonPath": path, "stringValue": said})
    for path in ("$.a", "$.b"):
        assert peak(lambda path=path: made.add({"jsonPath": path, "stringValue": "z"})) < 10_000  # type: ignore[misc]
    assert dict.fromkeys("ab", "x" * 1_000_000 + "yyz") == json.loads(made.text())


def test_limit_of_arguments_in_pieces() -> None:
    """
    What is kept of a call in pieces is bounded, before it is given.
    """
    body = sse(event(OPEN), event(piece("$.a", "x" * 11, willContinue=True)), STOP)
    with pytest.raises(LimitExceeded, match="tool_arguments=10"):
        list(run(response_stage(NAME, limits=Limits(tool_arguments=10)), [body]))


# --- tools of the provider ------------------------------------------------------------------------------------------------------------------------


def test_code_execution() -> None:
    """
    Code and its result are one part, paired by id or by order; a failed run is no failure of the answer.
    """
    code = {"executableCode": {"language": "PYTHON", "code": "1"}, "thoughtSignature": "s"}
    failed = {"codeExecutionResult": {"outcome": "OUTCOME_FAILED", "output": "x"}}
    named = [{"executableCode": {"id": "e", "code": "2"}}, {"codeExecutionResult": {"id": "e", "outcome": 1, "output": "2"}}]
    reading = answer(event(code), event(failed, *named), STOP)
    first, second, _ = reading.response.parts
    assert ("codeExecution", "s", True) == (first.kind, first.payload["thoughtSignature"], first.is_error)  # type: ignore[union-attr]
    assert ("e", "2", False) == (second.id, second.result["output"], second.is_error)  # type: ignore[union-attr]
    assert "COMPLETE" == reading.verdict


def test_built_in_tools() -> None:
    """
    toolCall and toolResponse are the tool of their type.
    """
    asked = {"toolCall": {"id": "t", "toolType": "GOOGLE_SEARCH_WEB", "args": {"queries": ["q"]}}, "thoughtSignature": "s"}
    told = {"toolResponse": {"id": "t", "toolType": "GOOGLE_SEARCH_WEB", "response": {"error": "x"}}}
    reading = answer(event(asked), event(told, {"toolCall": {}}), STOP)
    starts = [(event.kind, event.id) for event in reading.of(ServerToolStart)]  # type: ignore[union-attr]
    assert [("GOOGLE_SEARCH_WEB", "t"), ("toolCall", None)] == starts
    (result,) = reading.of(ServerToolResult)
    assert ("GOOGLE_SEARCH_WEB", True) == (result.kind, result.is_error)  # type: ignore[union-attr]


# --- sources --------------------------------------------------------------------------------------------------------------------------------------


def test_grounding() -> None:
    """
    Chunks are search results and citations, with their places in code points; repeated from event to event they are given once.
    """
    chunks = [
        {"web": {"uri": "https://a.example", "title": "A"}},
        {"retrievedContext": {"text": "t", "fileSearchStore": "s"}},
        {"web": {"uri": "https://c.example"}},
    ]
    supports = [
        {"segment": {"endIndex": 3, "text": "é!"}, "groundingChunkIndices": [1]},
        {"segment": {"startIndex": 3, "endIndex": 4, "text": "b"}, "groundingChunkIndices": [0, 1, 9, "x"]},
    ]
    metadata = {"groundingChunks": chunks, "groundingSupports": supports, "webSearchQueries": ["q"], "searchEntryPoint": {"renderedContent": "<x>"}}
    reading = answer(event(text("é!")), event(text("b"), groundingMetadata=metadata), event(groundingMetadata=metadata, finish="STOP"))
    wanted = [
        CitationPart("https://a.example", "A", "b", None, None, 2, 3),
        CitationPart(None, None, "é!", "s", None, 0, 2),
        CitationPart("https://c.example"),
        CitationPart(None, None, "b", "s", None, 2, 3),
    ]
    assert wanted == list(reading.response.citations)
    assert [
        SearchResult("https://a.example", "A", None, "q"),
        SearchResult(None, None, "t", "q"),
        SearchResult("https://c.example", query="q"),
    ] == reading.of(SearchResult)
    assert ({"renderedContent": "<x>"}, ["q"]) == (reading.response.metadata["searchEntryPoint"], reading.response.metadata["webSearchQueries"])


def test_supports_of_earlier_chunks() -> None:
    """
    A support may name a chunk of an earlier event.
    """
    first = {"groundingChunks": [{"maps": {"uri": "https://m.example"}}, {"other": {}}], "retrievalQueries": ["q", "r"]}
    later = {"groundingSupports": [{"segment": {"endIndex": 1, "text": "a"}, "groundingChunkIndices": [0]}]}
    reading = answer(event(text("a"), groundingMetadata=first), event(groundingMetadata=later, finish="STOP"))
    assert CitationPart("https://m.example", None, "a", None, None, 0, 1) in reading.response.citations


def test_citations() -> None:
    """
    Citations of both APIs, also without an address or with a place that has not come yet; pages that were read are citations too.
    """
    gemini = {"citationSources": [{"startIndex": 1, "endIndex": 2, "uri": "https://a.example"}, {"endIndex": 99, "license": "x"}]}
    vertex = {"citations": [{"uri": "https://b.example", "title": "B"}]}
    pages = {"urlMetadata": [{"retrievedUrl": "https://c.example"}, {"urlRetrievalStatus": "x"}]}
    reading = answer(event(text("ab"), citationMetadata=gemini), event(citationMetadata=vertex, urlContextMetadata=pages, finish="STOP"))
    wanted = [
        CitationPart("https://a.example", start=1, end=2),
        CitationPart(),
        CitationPart("https://b.example", "B"),
        CitationPart("https://c.example"),
    ]
    assert wanted == list(reading.response.citations)


PLACES: list[tuple[Any, Any, str | None, tuple[int | None, int | None]]] = [
    (None, 3, None, (0, 2)),
    (3, 4, "b", (2, 3)),
    (3, 4, "x", (None, None)),
    (1, 3, None, (None, None)),
    (4, 3, None, (None, None)),
    (-1, 3, None, (None, None)),
    (0, 9, None, (None, None)),
    (0, None, None, (None, None)),
]


@pytest.mark.parametrize(("start", "end", "quoted", "wanted"), PLACES)
def test_places(start: Any, end: Any, quoted: str | None, wanted: tuple[int | None, int | None]) -> None:
    """
    Bytes become code points; a place that is wrong is no place.
    """
    said = PlacedText()
    said.add("é!b")
    assert wanted == said.place(start, end, quoted)


@given(st.lists(st.text("aé漢🙂", max_size=800), max_size=4), st.data())
def test_places_in_a_growing_text(pieces: list[str], data: st.DataObject) -> None:
    """
    Every place is found, in what has come so far.
    """
    said, text = PlacedText(), ""
    for piece in pieces:
        said.add(piece)
        text += piece
        start, end = sorted(data.draw(st.tuples(*[st.integers(0, len(text))] * 2)))
        first, last = len(text[:start].encode()), len(text[:end].encode())
        assert (start, end) == said.place(first, last) == said.place(first, last, text[start:end])


@pytest.mark.parametrize("quoted", [None, "é", "x"])
def test_a_place_is_found_without_reading_the_text(quoted: str | None) -> None:
    """
    No place makes a copy of the text, nor counts it again.
    """
    said = PlacedText()
    said.add("é" * 500_000)
    said.place(0, 1_000_000)
    assert peak(lambda: said.place(0, 1_000_000, quoted)) < 10_000
    assert opcodes(lambda: said.place(0, 1_000_000, quoted)) < 500


# --- safety ---------------------------------------------------------------------------------------------------------------------------------------

BLOCKED_RATING = {"category": "HARM_CATEGORY_X", "probability": "LOW", "blocked": True}


def test_blocked_prompt() -> None:
    """
    A blocked prompt is a content filter without candidates; no blank line is needed behind it.
    """
    for body in (
        sse({"promptFeedback": {"blockReason": "SAFETY", "blockReasonMessage": "no"}}, end=b""),
        sse({"promptFeedback": {"blockReason": "SAFETY"}}),
    ):
        reading = read_everywhere(NAME, body)
        assert ("INCOMPLETE_FINISH", FinishReason.CONTENT_FILTER, None) == (
            reading.verdict,
            reading.response.finish_reason,
            reading.response.finish_reason_raw,
        )
        assert "SAFETY" == reading.response.metadata["blockReason"]
        (filtered,) = reading.of(ContentFilter)
        assert ("SAFETY", True) == (filtered.category, filtered.blocked)  # type: ignore[union-attr]


def test_block_wins() -> None:
    """
    A block decides whatever a candidate says before or after it, and no call of it is complete; it is told once.
    """
    block = {"promptFeedback": {"blockReason": 4}}
    reading = answer(event(call("f", args={}), finish="STOP"), block, block, STOP)
    assert ("INCOMPLETE_FINISH", [("f", None, False)]) == (reading.verdict, calls_of(reading))
    assert [ContentFilter("4", blocked=True)] == reading.of(ContentFilter)


@pytest.mark.parametrize("feedback", [{"blockReason": "BLOCK_REASON_UNSPECIFIED"}, {"safetyRatings": []}, None])
def test_feedback_that_blocks_nothing(feedback: Any) -> None:
    """
    Feedback without a reason means nothing.
    """
    assert "COMPLETE" == answer({"promptFeedback": feedback}, STOP).verdict


FILTERS: list[tuple[str, list[Any], list[ContentFilter]]] = [
    (
        "by a rating",
        [event(text("a"), finish="SAFETY", safetyRatings=[BLOCKED_RATING, {"category": "Y"}])],
        [ContentFilter("HARM_CATEGORY_X", None, True)],
    ),
    ("by the word alone", [event(text("a"), finish="RECITATION", finishMessage="m")], [ContentFilter("RECITATION", "m", True)]),
    ("by the word, repeated", [event(text("a"), finish="SPII"), event(finish="SPII")], [ContentFilter("SPII", None, True)]),
    ("a rating that decides nothing", [event(text("a"), safetyRatings=[BLOCKED_RATING]), STOP], [ContentFilter("HARM_CATEGORY_X", None, False)]),
    (
        "a rating, then the decision",
        [
            event(text("a"), safetyRatings=[BLOCKED_RATING]),
            event(safetyRatings=[BLOCKED_RATING]),
            event(finish="SAFETY", safetyRatings=[BLOCKED_RATING]),
        ],
        [ContentFilter("HARM_CATEGORY_X", None, False), ContentFilter("HARM_CATEGORY_X", None, True)],
    ),
    ("unknown words that block nothing", [event(text("a"), safetyRatings=[{"category": "NEW", "probability": "VERY"}]), STOP], []),
]


@pytest.mark.parametrize(("events", "wanted"), [row[1:] for row in FILTERS], ids=[row[0] for row in FILTERS])
def test_filters(events: list[Any], wanted: list[ContentFilter]) -> None:
    """
    What was blocked comes with the event that says so, blocked only where it decides (contract V7).
    """
    reading = answer(*events)
    assert wanted == reading.of(ContentFilter)
    assert any(said.blocked for said in wanted) == (FinishReason.CONTENT_FILTER is reading.response.finish_reason)


# --- candidates, usage, notes ---------------------------------------------------------------------------------------------------------------------


def test_two_candidates() -> None:
    """
    Candidates interleave by index, a missing one is 0; each has its own calls and finish, and each must have finished (contract P13).
    """
    events = [event(text("a")), event(text("x"), call("f", args={}), index=1), event(text("b"), index=0, finish="STOP")]
    assert "INCOMPLETE_STREAM" == answer(*events).verdict
    reading = answer(*events, event(index=1, finish="MAX_TOKENS"))
    (other,) = reading.response.alternatives
    assert ("COMPLETE", "ab", ()) == (reading.verdict, reading.response.text, reading.response.tool_calls)
    assert ("x", 1, "MAX_TOKENS", False) == (other.text, other.choice, other.finish_reason_raw, other.tool_calls[0].complete)
    assert [TextDelta("a"), TextDelta("x", choice=1), TextDelta("b")] == reading.of(TextDelta)
    assert [1] == [event.choice for event in reading.of(ToolCallEnd)]  # type: ignore[union-attr]


def test_only_another_candidate() -> None:
    """
    Where only another candidate came, the answer itself has none.
    """
    assert "INCOMPLETE_FINISH" == answer(event(text("x"), index=1, finish="STOP")).verdict


def test_usage() -> None:
    """
    The last value of each field counts, tool use is input, thoughts are output, and the wire's own values stay (contract U, P4).
    """
    reading = answer(
        event(text("a"), usage={"promptTokenCount": 10, "totalTokenCount": 10, "trafficType": "ON_DEMAND"}),
        event(text("b"), usage={"trafficType": "ON_DEMAND"}),
        event(
            finish="STOP",
            usage={
                "promptTokenCount": 9,
                "candidatesTokenCount": 5,
                "thoughtsTokenCount": 7,
                "toolUsePromptTokenCount": 3,
                "cachedContentTokenCount": 2,
                "totalTokenCount": 24,
            },
        ),
    )
    usage = reading.response.usage
    assert usage is not None
    counts = (usage.input_tokens, usage.output_tokens, usage.cache_read_tokens, usage.reasoning_tokens, usage.total_tokens)
    assert (12, 12, 2, 7, 24) == counts
    assert (9, 5, 3) == (usage.wire["input_tokens"], usage.wire["output_tokens"], usage.wire["tool_use_prompt_tokens"])


def test_usage_of_thoughts_only() -> None:
    """
    An answer cut in its thoughts has no candidates' tokens; a prompt alone has no output.
    """
    cut = answer(event(finish="MAX_TOKENS", usage={"promptTokenCount": 10, "thoughtsTokenCount": 12, "totalTokenCount": 22})).response.usage
    bare = answer(event(finish="STOP", usage={"promptTokenCount": 10})).response.usage
    assert cut is not None
    assert bare is not None
    assert (10, 12, 22) == (cut.input_tokens, cut.output_tokens, cut.total_tokens)
    assert (10, None, None) == (bare.input_tokens, bare.output_tokens, bare.total_tokens)


def test_notes() -> None:
    """
    What else is said of a candidate is kept as metadata.
    """
    reading = answer(event(text("a"), finish="STOP", finishMessage="m", avgLogprobs=-0.5, logprobsResult={"chosenCandidates": []}))
    assert {"finishMessage": "m", "avgLogprobs": -0.5, "logprobs": [{"chosenCandidates": []}]} == reading.response.metadata


# --- errors ---------------------------------------------------------------------------------------------------------------------------------------

ERROR = {"error": {"code": 503, "message": "overloaded", "status": "UNAVAILABLE"}}

ERRORS: list[tuple[str, bytes, str]] = [
    ("bare lines", sse(event(text("a"), finish="STOP"), json.dumps(ERROR, indent=2).encode() + b"\n"), EVENT_STREAM),
    ("bare lines and more", sse(event(text("a")), json.dumps(ERROR, indent=2).encode() + b"\n\n", STOP), EVENT_STREAM),
    ("an event", sse(event(text("a")), ERROR), EVENT_STREAM),
    ("a held event", sse(event(text("a"))) + sse(ERROR, end=b""), EVENT_STREAM),
    ("beside an answer", sse({**event(text("a")), **ERROR}), EVENT_STREAM),
    ("an element", array(event(text("a")), ERROR), JSON),
]


@pytest.mark.parametrize(("body", "kind"), [row[1:] for row in ERRORS], ids=[row[0] for row in ERRORS])
def test_errors(body: bytes, kind: str) -> None:
    """
    An error is one wherever it stands; its status word is its type (contract P16).
    """
    reading = read_everywhere(NAME, body, kind)
    error = reading.error
    assert isinstance(error, ProviderError)
    assert ("overloaded", 503, "UNAVAILABLE", 503, True) == (error.message, error.code, error.type, error.status, error.retryable)
    assert "a" == reading.response.text
    assert violations(reading.events) == []


def test_error_as_body_and_stray_lines() -> None:
    """
    A body that is an error is one; stray lines without an error change nothing (contract P8).
    """
    assert "PROVIDER_ERROR" == read(NAME, json.dumps(ERROR).encode(), JSON).verdict
    reading = answer(b"hello there\n", STOP)
    assert ("COMPLETE", 1) == (reading.verdict, len(reading.of(Raw)))


# --- properties -----------------------------------------------------------------------------------------------------------------------------------

EVENTS = [
    event(text("é"), usage={"promptTokenCount": 3}),
    event(text("h", thought=True, thoughtSignature="s")),
    event(call("f", args={"x": "}]"}), call("g", id="c")),
    event(OPEN, piece("$.a[0]", "x", willContinue=True)),
    event(call()),
    event({"functionResponse": {"name": "f", "response": {}}}),
    event(text("a"), index=1, finish="STOP"),
    event(text("z"), finish="STOP"),
    event(finish="MAX_TOKENS"),
    {"promptFeedback": {"blockReason": "OTHER"}},
    {"x": 1},
    ERROR,
]


@given(events=st.lists(st.sampled_from(EVENTS), max_size=6), cut=st.integers(0, 2000), framed=st.sampled_from([sse, array]))
def test_any_stream_cut_anywhere(events: list[Any], cut: int, framed: Any) -> None:
    """
    Whatever comes in whatever order, cut anywhere: balanced, an error of ours or an end, COMPLETE only behind a finishReason.
    """
    body = framed(*events)[:cut]
    reading = read(NAME, body, EVENT_STREAM if framed is sse else JSON)
    assert violations(reading.events) == []
    assert reading.error is None or isinstance(reading.error, RxchatError)
    if reading.verdict == "COMPLETE":
        assert b'"STOP"' in body
        assert attrs.evolve(reading.response, response_id=None) == attrs.evolve(
            read(NAME, body, EVENT_STREAM if framed is sse else JSON, cut=3).response, response_id=None
        )


VALUES = st.recursive(
    st.text(max_size=5) | st.integers(-9, 9) | st.booleans() | st.none(), lambda inner: st.lists(inner, min_size=1, max_size=3), max_leaves=6
)


@given(arguments=st.dictionaries(st.text("abc", min_size=1, max_size=3), VALUES, max_size=4), size=st.integers(1, 3))
def test_pieces_make_the_arguments(arguments: dict[str, Any], size: int) -> None:
    """
    Arguments taken apart into paths and values, texts into pieces, are put together again.
    """
    pieces = PartialArguments()
    for path, value in _leaves("$", arguments):
        if isinstance(value, str):
            for k in range(0, len(value), size):
                pieces.add({"jsonPath": path, "stringValue": value[k : k + size], "willContinue": True})
            pieces.add({"jsonPath": path, "stringValue": ""})
        else:
            key = "nullValue" if value is None else "boolValue" if isinstance(value, bool) else "numberValue"
            pieces.add({"jsonPath": path, key: value})
    assert arguments == json.loads(pieces.text() or "{}")
    assert not pieces.open


def _leaves(path: str, value: Any) -> list[tuple[str, Any]]:
    if isinstance(value, dict):
        return [leaf for key, inner in value.items() for leaf in _leaves(f"{path}.{key}", inner)]
    if isinstance(value, list):
        return [leaf for k, inner in enumerate(value) for leaf in _leaves(f"{path}[{k}]", inner)]
    return [(path, value)]
