"""
What rxchat offers to test with: every dialect of ours passes its check, and each fault planted in a toy is found.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from random import Random
from typing import Any

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st
from reactivex import Observable
from reactivex import operators as ops
from reactivex.testing import TestScheduler

from rxchat import framing
from rxchat.dialects import DIALECTS, Option, Parser
from rxchat.errors import ConfigurationError, HTTPStatusError, IncompleteStreamError, RxchatError, Verdict
from rxchat.events import (
    ChatEvent,
    ErrorEvent,
    Raw,
    ResponseEnd,
    ResponseStart,
    StepEnd,
    StepStart,
    TextDelta,
    TextEnd,
    TextStart,
    ToolCallArgsDelta,
    ToolCallEnd,
    ToolCallStart,
)
from rxchat.framing.frames import Frame, SseEvent
from rxchat.framing.sse import SseFramer
from rxchat.limits import Limits
from rxchat.outgoing.common import ModelCall, WireRequest
from rxchat.response import ChatResponse, ToolCall
from rxchat.stage import Emit, Stage
from rxchat.testing import Body, Replay, check_dialect, cuts, events_from_marbles, grammar_violations, marbles_of, replay, split_at
from rxchat.testing.bodies import as_body, borders_of, frames_of, mutations
from rxchat.testing.rules import broken_rules
from tests.protocol_ends import ENDS
from tests.shared_data import EXHAUSTIVE
from tests.test_corpus import CORPUS, MEDIA, options_of
from tests.toy import BODY, FAILING, STREAM, TOY, ToyParser

SSE, NDJSON, JSON = "text/event-stream", "application/x-ndjson", "application/json"

# --- the dialects of ours -------------------------------------------------------------------------------------------------------------------------

# Bodies whose end depends on an option, or on the family of a model: what came must then be the whole answer.
OWN_ENDS = {"finish-optional.sse", "openai.bin"}
MODELS = {"bedrock-invoke": "anthropic.claude-3"}


def bodies_of(dialect: str) -> tuple[list[Body | tuple[Body, Body]], list[Body]]:
    """
    The small bodies of a dialect, those that are not streamed beside their stream; and those with an end of their own.
    """
    files = [path for path in sorted((CORPUS / dialect).iterdir()) if path.suffix in MEDIA]
    made = {path.name: Body(path.read_bytes(), MEDIA[path.suffix], path.name, options_of(path)) for path in files}
    given_bodies: list[Body | tuple[Body, Body]] = []
    for stem, group in itertools.groupby(files, key=lambda path: path.stem):
        named = [made[path.name] for path in group if path.name not in OWN_ENDS]
        streams = [body for body in named if not body.name.endswith(".json")]
        whole = [body for body in named if body.name == f"{stem}.json"]
        given_bodies += [(streams[0], whole[0])] if streams and whole else [*streams, *whole]
    return given_bodies, [body for name, body in made.items() if name in OWN_ENDS]


@pytest.mark.parametrize("dialect", DIALECTS)
def test_our_own_dialects(dialect: str) -> None:
    """
    Every dialect keeps the contract on its small bodies: at every cut, cut off, damaged, with unknown frames.
    """
    usual, own = bodies_of(dialect)
    if not EXHAUSTIVE:
        usual = Random(dialect).sample(usual, min(len(usual), 14))
    settings: dict[str, Any] = {"samples": 60 if EXHAUSTIVE else 5, "exhaustive": EXHAUSTIVE, "model": MODELS.get(dialect, "m")}
    report = check_dialect(dialect, usual, is_complete=ENDS.get(dialect), **settings)
    assert {"COMPLETE", "INCOMPLETE_FINISH", "INCOMPLETE_STREAM", "PROVIDER_ERROR"} <= set(report.verdicts)
    if own:
        check_dialect(dialect, own, **settings)


# --- faults of a toy ------------------------------------------------------------------------------------------------------------------------------


def test_the_toy_is_sound() -> None:
    """
    Without a fault nothing is found, and the report tells what was tried.
    """
    report = check_dialect(TOY, [(STREAM, BODY), FAILING, Body(NDJSON_STREAM, NDJSON, "lines")], exhaustive=True, samples=10)
    assert (report.dialect, report.bodies, report.pairs, report.requests) == ("toy", 4, 1, 2)
    assert report.truncations == sum(len(body) for body in (STREAM, BODY, FAILING, NDJSON_STREAM))
    assert report.mutations == 4 * 100
    assert report.unknown_frames == 3 + 1 + 2
    assert report.verdicts == {"COMPLETE": 3, "PROVIDER_ERROR": 1}
    assert report.wrapped == []


NDJSON_STREAM = b'{"say": "Hi"}\n{"say": "!"}\n{"end": "stop"}\n'


class EndsAtEof(ToyParser):
    def on_eof(self, emit: Emit[ChatEvent]) -> None:
        self.set_finish("stop")
        self.end_response(emit)


class LosesTheLastDelta(ToyParser):
    held = ""

    def text(self, text: Any, emit: Emit[ChatEvent]) -> None:
        if text:
            super().text(self.held, emit)
            self.held = text


class DoublesText(ToyParser):
    said = ""

    def text(self, text: Any, emit: Emit[ChatEvent]) -> None:
        self.said += text or ""
        super().text(text, emit)

    def set_finish(self, raw: str | None, reason: Any = None) -> None:
        super().set_finish(raw, reason)

    def on_event(self, value: Any, event: SseEvent, emit: Emit[ChatEvent]) -> None:
        if "end" in value:
            emit(TextDelta(self.said))
        super().on_event(value, event, emit)


class EmitsBehindTheEnd(ToyParser):
    def say(self, value: Any, emit: Emit[ChatEvent]) -> None:
        if "end" in value:
            self.set_finish("stop")
            self.end_step(emit)
            emit(ResponseEnd())
            emit(TextDelta("one more thing"))
        super().say(value, emit)


class OpensNoStep(ToyParser):
    def open_step(self, emit: Emit[ChatEvent], provider_response_id: Any = None, model: Any = None) -> None:
        pass


class RaisesKeyError(ToyParser):
    def on_event(self, value: Any, event: SseEvent, emit: Emit[ChatEvent]) -> None:
        super().on_event({"say": value["say"]}, event, emit)


class RaisesAtEof(ToyParser):
    def on_eof(self, emit: Emit[ChatEvent]) -> None:
        raise KeyError("end")


class KeepsStateOfOthers(ToyParser):
    seen: list[Any] = []  # noqa: RUF012 - that is the fault

    def text(self, text: Any, emit: Emit[ChatEvent]) -> None:
        self.seen.append(text)
        super().text(f"{text or ''}{len(self.seen)}", emit)


class SaysNothing(ToyParser):
    def text(self, text: Any, emit: Emit[ChatEvent]) -> None:
        emit(TextDelta(text or ""))


class RefusesTheUnknown(ToyParser):
    def unknown(self, name: str, payload: Any, emit: Emit[ChatEvent]) -> None:
        raise self.malformed("unheard of")


class SkipsTheUnknown(ToyParser):
    def unknown(self, name: str, payload: Any, emit: Emit[ChatEvent]) -> None:
        pass


class EndsAtTheUnknown(ToyParser):
    def unknown(self, name: str, payload: Any, emit: Emit[ChatEvent]) -> None:
        emit(Raw(name, payload))
        self.open_step(emit)
        self.set_finish("stop")
        self.end_response(emit)


class LooksAhead(ToyParser):
    """
    Says a text only when the frame behind it was a text too, and otherwise at the end of the body.
    """

    def on_undispatched(self, held: Any, emit: Emit[ChatEvent]) -> None:
        self.open_step(emit)
        emit(TextDelta("..."))
        self.set_finish("stop")
        self.end_response(emit)


class FallsOverDamage(ToyParser):
    def text(self, text: Any, emit: Emit[ChatEvent]) -> None:
        super().text(text and text + "", emit)


@pytest.mark.parametrize(
    ("parser", "words"),
    [
        (EndsAtEof, ["cut off at byte", "V5: COMPLETE"]),
        (LosesTheLastDelta, ["pair", "V: text is"]),
        (DoublesText, ["pair", "V: text is"]),
        (EmitsBehindTheEnd, ["the parser alone", "E1", "one more thing"]),
        (OpensNoStep, ["the parser alone", "E2"]),
        (RaisesKeyError, ["whole", "E11", "KeyError"]),
        (RaisesAtEof, ["cut off at byte", "E11", "KeyError('end')"]),
        (KeepsStateOfOthers, ["E9", "read whole"]),
        (SaysNothing, ["E13", "an empty delta"]),
        (RefusesTheUnknown, ["an unknown frame at byte", "E11", "not one Raw"]),
        (SkipsTheUnknown, ["an unknown frame at byte", "it became nothing"]),
        (EndsAtTheUnknown, ["an unknown frame at byte", "it changed event"]),
        (LooksAhead, ["cut off at byte", "V5"]),
    ],
)
def test_faults_of_a_parser(parser: type[Parser], words: list[str]) -> None:
    """
    Each fault is found, and told with dialect, body, what was done, and the rule.
    """
    with pytest.raises(AssertionError) as caught:
        check_dialect(attrs.evolve(TOY, parser=parser), [(Body(STREAM, name="the stream"), BODY), FAILING], samples=30)
    told = str(caught.value).splitlines()
    assert "toy breaks the contract in " in told[0]
    assert any(line.strip().startswith("toy | ") and all(word in line for word in words) for line in told[1:]), told


def test_a_fall_over_damage_is_listed() -> None:
    """
    A damaged frame a parser falls over is a DialectError for subscribers, and a hint for its author.
    """
    report = check_dialect(attrs.evolve(TOY, parser=FallsOverDamage), [STREAM], samples=100)
    assert any("TypeError" in line for line in report.wrapped)


def test_a_body_nobody_should_fall_over() -> None:
    """
    A parser that reads the whole body and falls over it when it is cut off is found.
    """

    class NeedsTheNext(ToyParser):
        def on_undispatched(self, held: Any, emit: Emit[ChatEvent]) -> None:
            raise KeyError("next")

    with pytest.raises(AssertionError, match=r"cut off at byte .* E11: the dialect fell over: KeyError: 'next'"):
        check_dialect(attrs.evolve(TOY, parser=NeedsTheNext), [STREAM])


def test_what_is_no_error_of_ours() -> None:
    """
    A body that cannot even be read whole is told, also of a pair, and the others are tried all the same.
    """
    with pytest.raises(AssertionError, match=r"toy \| cut \| whole \| E11: raises KeyError\('end'\), no RxchatError"):
        check_dialect(
            attrs.evolve(TOY, parser=RaisesAtEof), [(Body(STREAM[: STREAM.index(b"\n\n") + 2], name="cut"), Body(BODY, JSON)), STREAM], samples=2
        )


class PerRead(Stage[bytes, Frame]):
    """
    Takes what one read brings for one frame.
    """

    def feed(self, item: bytes, emit: Emit[Frame]) -> None:
        for line in item.split(b"\n\n"):
            if line:
                emit(SseEvent(line.removeprefix(b"data: "), start=0, end=len(item)))


class OffsetsOfReads(Stage[bytes, Frame]):
    """
    Counts from the start of the read.
    """

    def __init__(self) -> None:
        self.inner = SseFramer(Limits())

    def feed(self, item: bytes, emit: Emit[Frame]) -> None:
        def counted(frame: Frame) -> None:
            frame.start %= len(item) + 1
            emit(frame)

        self.inner.feed(item, counted)


@pytest.mark.parametrize("framer", [PerRead, OffsetsOfReads])
def test_faults_of_a_framing(framer: Callable[[], Stage[bytes, Frame]], monkeypatch: pytest.MonkeyPatch) -> None:
    """
    What comes out must not depend on the reads: events, and where they stand (E9).
    """
    monkeypatch.setitem(framing.FRAMERS, "per-read", lambda limits: framer())
    with pytest.raises(AssertionError, match=r"reads of .*E9"):
        check_dialect(attrs.evolve(TOY, framings={SSE: "per-read"}), [STREAM, FAILING])


def asking(url: str = "/toy", body: Mapping[str, Any] | None = None, headers: Mapping[str, str] | None = None) -> Callable[[ModelCall], WireRequest]:
    return lambda call: WireRequest(url.replace("KEY", str(call.api_key)), body or {}, headers or {})


def refusing(call: ModelCall) -> WireRequest:
    raise ConfigurationError("not today")


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"request": asking("/toy/KEY")}, "its repr shows the key"),
        ({"request": asking(body={"x": {1, 2}})}, "request, stream=True"),
        ({"request": refusing}, "a plain question is refused: not today"),
        ({"options": {"loud": Option(False, "")}}, "option loud has a doc"),
        ({"doc": ""}, "its doc says"),
        ({"framings": {SSE: "sse", "text/x": "smoke-signals"}}, "its framings are framers"),
        ({"framings": {"Text/Event-Stream": "sse"}}, "lower case"),
    ],
)
def test_faults_of_a_declaration(change: dict[str, Any], words: str) -> None:
    """
    A dialect says what it reads and which options it has; its requests are JSON and keep the key.
    """
    with pytest.raises(AssertionError) as caught:
        check_dialect(attrs.evolve(TOY, **change), [STREAM])
    assert words in str(caught.value)


def test_nothing_to_try() -> None:
    """
    A check without bodies is no check.
    """
    with pytest.raises(AssertionError, match="no bodies were given"):
        check_dialect(TOY, [])


def test_is_complete_decides() -> None:
    """
    Where the protocol's end is known, nothing else counts.
    """
    with pytest.raises(AssertionError, match="V5: COMPLETE, but its protocol's end was not reached"):
        check_dialect(TOY, [STREAM + b": more\n\n"], is_complete=lambda body: body.endswith(b": more\n\n"))
    check_dialect(TOY, [STREAM + b": more\n\n"], is_complete=lambda body: STREAM[:-1] <= body)


def test_an_unknown_frame_of_ones_own() -> None:
    """
    What nobody knows may be said by the caller, also where frames are not text; or not at all.
    """
    assert check_dialect(TOY, [STREAM], unknown_frame=b'data: {"x": 1}\n\n').unknown_frames == 3
    assert check_dialect(TOY, [STREAM], unknown_frame=b"").unknown_frames == 0
    with pytest.raises(AssertionError, match="an unknown frame at byte"):
        check_dialect(TOY, [STREAM], unknown_frame=b'data: {"say": "known"}\n\n')


# --- rules, on events by themselves -----------------------------------------------------------------------------------------------------------------

GOOD = replay(STREAM, TOY)


def changed(**said: Any) -> Replay:
    return attrs.evolve(GOOD, **said)


def with_call(call: ToolCall) -> Replay:
    events: tuple[ChatEvent, ...] = (ToolCallStart("c", "f", 0), ToolCallArgsDelta(call.arguments_text, "c", 0), ToolCallEnd(call))
    return changed(events=(ResponseStart("r"), StepStart(), *events, StepEnd(0), ResponseEnd(ChatResponse())))


@pytest.mark.parametrize(
    ("broken", "rule"),
    [
        (changed(events=GOOD.events[:-1]), "E1"),
        (changed(error=IncompleteStreamError("cut")), "no ErrorEvent before"),
        (changed(events=(*GOOD.events[:-1], ErrorEvent(RxchatError("a"))), error=RxchatError("b")), "another error than on_error"),
        (changed(verdict=Verdict.PROTOCOL), "a ResponseEnd with the verdict PROTOCOL"),
        (changed(events=(*GOOD.events[:-1], ResponseEnd(ChatResponse()))), "V1, V2, N8: folded again"),
        (changed(response=attrs.evolve(GOOD.response, parts=GOOD.response.parts[:1] * 2)), "V1: the deltas of text say"),
        (with_call(ToolCall("c", "f", "{}", None, True, 0)), "N7, P3: call 0 has arguments None, not {}"),
        (with_call(ToolCall("c", "f", '{"a":1}', {"a": 2}, True, 0)), "N7, P3"),
        (with_call(ToolCall("c", "f", "[1]", {}, True, 0)), "N7, P3"),
        (with_call(ToolCall("c", "f", "{", {}, True, 0)), "N7, P3"),
        (with_call(ToolCall("c", "f", "{}", {}, False, 0)), "N7, P3"),
        (changed(events=tuple(event for event in GOOD.events if not isinstance(event, ToolCallArgsDelta))), "the fragments of call 0 say ''"),
    ],
)
def test_each_rule_sees_its_fault(broken: Replay, rule: str) -> None:
    """
    A replay that keeps all rules has no fault; one that breaks a rule is told by its id.
    """
    assert broken_rules(GOOD) == []
    assert any(rule in told for told in broken_rules(broken)), broken_rules(broken)


# --- bodies -----------------------------------------------------------------------------------------------------------------------------------------


@given(st.binary(max_size=200), st.integers(0, 3))
def test_cuts_keep_the_body(body: bytes, seed: int) -> None:
    """
    Every way of cutting gives the body back, without empty reads; the same seed cuts the same way.
    """
    ways = list(cuts(body, seed=seed))
    assert all(b"".join(reads) == body for reads in ways)
    assert all(all(reads) for reads in ways) or not body
    assert ways == list(cuts(body, seed=seed))
    assert ways[0] == [body]


def test_cuts_at_borders() -> None:
    """
    Line ends are borders unless others are given; each is cut from two bytes before to two bytes behind.
    """
    body = b"abcdef\nghijkl"
    ways = list(cuts(body, sizes=(5,), random=1))
    assert ways[1] == [b"abcde", b"f\nghi", b"jkl"]
    assert ways[2:7] == [split_at(body, [k]) for k in (5, 6, 7, 8, 9)]
    assert list(cuts(body, sizes=(), random=0, borders=[3]))[1:] == [split_at(body, [k]) for k in (1, 2, 3, 4, 5)]
    assert list(cuts(b"")) == [[b""]]


def test_borders_and_frames() -> None:
    """
    Frames as far as the framing is sound; their borders.
    """
    assert [frame.start for frame in frames_of(FAILING, "sse")] == [0, 27]
    assert borders_of(FAILING, "sse")[0] == 0
    assert len(frames_of(b'{"a": 1}\nnonsense\n', "ndjson")) == 1


def test_bodies_from_files(tmp_path: Path) -> None:
    """
    A file's suffix tells its type, one that is not known tells nothing.
    """
    for name, kind in (("a.sse", SSE), ("a.ndjson", NDJSON), ("a.txt", None)):
        (tmp_path / name).write_bytes(STREAM)
        assert as_body(tmp_path / name) == Body(STREAM, kind, name)
    (tmp_path / "a.json").write_bytes(BODY)
    assert check_dialect(TOY, [tmp_path / "a.sse", (tmp_path / "a.sse", tmp_path / "a.json")]).pairs == 1


@pytest.mark.parametrize(("body", "kind"), [(STREAM, "sse"), (NDJSON_STREAM, "ndjson"), (BODY, "json"), (b"?", "sse")])
def test_mutations(body: bytes, kind: str) -> None:
    """
    Damage is the same for a seed, mostly changes something, and is told in words; of nothing there is none.
    """

    def some() -> Iterator[tuple[str, bytes]]:
        return itertools.islice(mutations(body, kind, Random(1)), 100)

    assert list(some()) == list(some())
    assert sum(damaged != body for _, damaged in some()) > 50
    assert all(done for done, _ in some())
    assert list(mutations(b"", kind, Random(1))) == []


# --- replays ----------------------------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("cut", [0, 1, 7])
def test_replay(cut: int) -> None:
    """
    Events, answer, verdict, and no error; the same at every cut.
    """
    got = replay(STREAM, TOY, cut=cut)
    assert (got.verdict, got.error, got.response.text) == (Verdict.COMPLETE, None, "Grüße 🌊")
    assert [event.text for event in got.of(TextDelta)] == ["Grüße ", "🌊"]
    assert got.facts == GOOD.facts
    assert got.facts == replay(iter([STREAM[:9], STREAM[9:]]), TOY).facts
    assert grammar_violations(got.events) == []


def test_replay_of_failures() -> None:
    """
    The error is told beside the partial answer; a refused answer by its status; what is not ours goes through.
    """
    got = replay(FAILING, TOY)
    assert (got.verdict, got.response.text, str(got.error)) == (Verdict.PROVIDER_ERROR, "Half an ", "boom")
    refused = replay(b'{"error": {"message": "no"}}', "openai-chat", status=401, content_type=JSON)
    assert (type(refused.error), refused.verdict) == (HTTPStatusError, Verdict.HTTP_STATUS)
    assert replay(STREAM, TOY, clean_eof=False).verdict is Verdict.COMPLETE
    assert replay(BODY, TOY, content_type=JSON, options={"loud": "true"}).response.text == "Grüße 🌊"

    def broken() -> Iterator[bytes]:
        yield STREAM[:30]
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        replay(broken(), TOY)


# --- marbles ----------------------------------------------------------------------------------------------------------------------------------------

TABLE: dict[str, ChatEvent] = {"s": TextStart(), "a": TextDelta("a"), "b": TextDelta("b"), "e": TextEnd()}


@pytest.mark.parametrize("diagram", ["-a-b-|", "(s,a)b---e|", "a--(b,e,|)", "--#", "|", "----a-(b,s)|"])
def test_marbles_read_and_drawn(diagram: str) -> None:
    """
    A diagram that was read is drawn as it was, groups included.
    """
    scheduler = TestScheduler()
    source = events_from_marbles(diagram, TABLE, scheduler, error=ValueError("x"))
    assert marbles_of(source, TABLE, scheduler) == diagram


@pytest.mark.parametrize(
    ("diagram", "expected"),
    [
        ("ab-(s,e)|", "ab-(s,e)|"),
        ("a b", "ab"),
        ("(a)--", "a"),
        ("((a)", None),
        ("a,b", None),
        ("a)", None),
        ("ax", None),
        ("a|b", None),
        ("()", None),
    ],
)
def test_marbles_that_stand_side_by_side(diagram: str, expected: str | None) -> None:
    """
    Each letter is an event of its own; what is no diagram is said at once.
    """
    scheduler = TestScheduler()
    if expected is None:
        with pytest.raises(ConfigurationError):
            events_from_marbles(diagram, TABLE, scheduler)
    else:
        assert marbles_of(events_from_marbles(diagram, TABLE, scheduler), TABLE, scheduler) == expected


def test_marbles_of_an_operator() -> None:
    """
    What an operator does in time; an event the table does not have is `?`.
    """
    scheduler = TestScheduler()
    source: Observable[ChatEvent] = events_from_marbles("a-b-e|", TABLE, scheduler)
    delayed = source.pipe(ops.delay(2.0, scheduler), ops.map(lambda event: event if event != TextDelta("b") else TextDelta("c")))
    assert marbles_of(delayed, TABLE, scheduler) == "--a-?-e|"
