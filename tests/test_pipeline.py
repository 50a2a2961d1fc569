"""
One response as a whole: its envelope, its failures, its cuts, its independence (contract E, V2, D7).
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterable, Sequence
from itertools import pairwise
from typing import Any

import attrs
import pytest
import reactivex as rx
from hypothesis import given
from hypothesis import strategies as st
from reactivex import Observable, abc
from reactivex import operators as ops
from reactivex.disposable import Disposable
from reactivex.scheduler import CurrentThreadScheduler
from reactivex.subject import Subject

from rxchat.dialects import get_dialect
from rxchat.errors import (
    ConfigurationError,
    ConnectError,
    ConnectionLostError,
    ContentTypeError,
    DecodeError,
    HTTPStatusError,
    IncompleteStreamError,
    InvalidJSONError,
    LimitExceeded,
    ProviderError,
    RxchatError,
    Verdict,
)
from rxchat.events import Abort, ChatEvent, ErrorEvent, ResponseEnd, ResponseStart, StepEnd, StepStart, TextDelta, TextEnd, TextStart
from rxchat.limits import Limits
from rxchat.pipeline import Envelope, Head, chat_events, response_stage
from rxchat.response import ChatResponse
from rxchat.stage import Emit, Stage, run
from tests.grammar import violations
from tests.shared_data import EXHAUSTIVE

# --- bodies ---------------------------------------------------------------------------------------------------------------------------------------


def chunk(finish: str | None = None, **delta: Any) -> bytes:
    value = {"id": "c-1", "model": "m", "choices": [{"index": 0, "delta": delta, "finish_reason": finish}]}
    return b"data: " + json.dumps(value, ensure_ascii=False).encode() + b"\n\n"


def call(**said: Any) -> dict[str, Any]:
    function = {key: said.pop(key) for key in ("name", "arguments") if key in said}
    return {"index": 0, "function": function, **said}


DONE = b"data: [DONE]\n\n"
USAGE = b'data: {"choices":[],"usage":{"prompt_tokens":3,"completion_tokens":2,"total_tokens":5}}\n\n'
TEXT = chunk(role="assistant", content="") + chunk(content="你好 ") + chunk(content="🌱!") + chunk("stop") + USAGE + DONE
CALLS = (
    chunk(reasoning_content="hm ") + chunk(reasoning_content="ok") + chunk(content="I add. ")
    + chunk(tool_calls=[call(id="t-1", name="add", arguments="")]) + chunk(tool_calls=[call(arguments='{"a"')])
    + chunk(tool_calls=[call(arguments=': 1}')]) + chunk("tool_calls") + DONE
)  # fmt: skip
PROVIDER_ERROR = b'data: {"error":{"message":"overloaded","type":"server_error","code":529}}\n\n'
JSON_BODY = json.dumps(
    {"id": "c-1", "model": "m", "choices": [{"index": 0, "message": {"role": "assistant", "content": "你好"}, "finish_reason": "stop"}]},
    ensure_ascii=False,
).encode()


def closed_by_connection() -> Head:
    return Head(clean_eof=False)


def headed(status: int = 200, **headers: str) -> Callable[[], Head]:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return lambda: Head(status=status, headers=named)


@attrs.frozen
class Body:
    """
    A body and how it ends: the class of the error or None, and the words that arrived.
    """

    data: bytes
    error: type[RxchatError] | None = None
    text: str = "你好 🌱!"
    verdict: Verdict = Verdict.COMPLETE
    head: Callable[[], Head] = Head
    limits: Limits | None = None


HALF = chunk(content="你好 ")
BODIES: dict[str, Body] = {
    "text": Body(TEXT),
    "calls": Body(CALLS, text="I add. "),
    "comments and line ends": Body(b": hi\r\n\r\n" + TEXT.replace(b"\n", b"\r\n")),
    "a JSON body": Body(JSON_BODY, text="你好", head=headed(Content_Type="application/json; charset=utf-8")),
    "bytes behind the end": Body(TEXT + b"\xff{{{"),
    "length": Body(HALF + chunk("length") + DONE, text="你好 ", verdict=Verdict.INCOMPLETE_FINISH),
    "no end": Body(HALF, IncompleteStreamError, "你好 ", Verdict.INCOMPLETE_STREAM),
    "a cut event": Body(HALF + chunk("stop")[:-1], IncompleteStreamError, "你好 ", Verdict.INCOMPLETE_STREAM),
    "an end that proves nothing": Body(HALF + chunk("stop"), IncompleteStreamError, "你好 ", Verdict.INCOMPLETE_STREAM, closed_by_connection),
    "no JSON": Body(HALF + b"data: {oops}\n\n" + TEXT, InvalidJSONError, "你好 ", Verdict.INVALID_JSON),
    "no UTF-8": Body(HALF + b"data: \xc3\x28\n\n" + TEXT, DecodeError, "你好 ", Verdict.INVALID_UTF8),
    "a provider's error": Body(HALF + PROVIDER_ERROR, ProviderError, "你好 ", Verdict.PROVIDER_ERROR),
    "a provider's error in the middle of a call": Body(CALLS[: CALLS.index(b"tool_calls\"}")] + b'"}\n\n' + PROVIDER_ERROR, RxchatError, "I add. "),
    "too long": Body(HALF + chunk(content="x" * 9), LimitExceeded, "你好 ", Verdict.LIMIT, limits=Limits(output=8)),
    "refused": Body(b'{"error":{"message":"busy"}}', HTTPStatusError, "", Verdict.HTTP_STATUS, headed(503, Content_Type="application/json")),
    "a web page": Body(b"<html><title>Hello</title>", ContentTypeError, "", Verdict.CONTENT_TYPE, headed(200, content_type="text/html")),
    "nothing": Body(b"", IncompleteStreamError, "", Verdict.INCOMPLETE_STREAM),
    "nothing but a comment": Body(b": hello\n\n", IncompleteStreamError, "", Verdict.INCOMPLETE_STREAM),
}  # fmt: skip
GOOD = {name: body for name, body in BODIES.items() if body.error is None}
BAD = {name: body for name, body in BODIES.items() if body.error is not None}


# --- driving --------------------------------------------------------------------------------------------------------------------------------------


@attrs.define
class Heard:
    """
    What a subscriber heard.
    """

    events: list[Any] = attrs.field(factory=list)
    errors: list[Exception] = attrs.field(factory=list)
    completed: int = 0

    def to(self, stream: Observable[Any]) -> abc.DisposableBase:
        def on_completed() -> None:
            self.completed += 1

        return stream.subscribe(self.events.append, self.errors.append, on_completed)


def operator(body: Body, **kwargs: Any) -> Any:
    return chat_events("openai-chat", head=body.head, limits=body.limits, response_id="r", **kwargs)


def hear(body: Body, reads: Iterable[bytes] | None = None, **kwargs: Any) -> Heard:
    heard = Heard()
    heard.to(rx.from_iterable(reads if reads is not None else [body.data]).pipe(operator(body, **kwargs)))
    return heard


def cut(data: bytes, places: Iterable[int]) -> list[bytes]:
    """
    The same bytes in reads that end at these places.
    """
    edges = [0, *sorted({place for place in places if 0 < place < len(data)}), len(data)]
    return [data[start:end] for start, end in pairwise(edges)]


def every(data: bytes, size: int) -> list[bytes]:
    return cut(data, range(0, len(data), size))


def told(event: ChatEvent) -> Any:
    """
    An event that compares: its error by what it says.
    """
    return (type(event), str(event.error), event.response, event.usage) if isinstance(event, ErrorEvent) else event


def outcome(heard: Heard) -> Any:
    return [told(event) for event in heard.events], [(type(error), str(error)) for error in heard.errors], heard.completed


# --- E1, E6: the envelope -------------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("body", GOOD.values(), ids=GOOD)
def test_a_response_that_ends(body: Body) -> None:
    """
    ResponseStart first, one terminal last, then on_completed, once (contract E1, E6); its answer is the sum of what was shown.
    """
    heard = hear(body)
    assert violations(heard.events) == []
    assert (heard.errors, heard.completed) == ([], 1)
    assert heard.events[0] == ResponseStart("r")
    last = heard.events[-1]
    assert isinstance(last, ResponseEnd)
    assert (last.response.verdict, last.response.text, last.response.response_id) == (body.verdict, body.text, "r")
    assert "".join(event.text for event in heard.events if isinstance(event, TextDelta)) == body.text


@pytest.mark.parametrize("body", BAD.values(), ids=BAD)
def test_a_response_that_fails(body: Body) -> None:
    """
    What is open is closed, the step ends, ErrorEvent, then on_error with the very same error (contract E6); both carry what had arrived (V2, E10).
    """
    heard = hear(body)
    assert violations(heard.events) == []
    (error,) = heard.errors
    last = heard.events[-1]
    assert isinstance(last, ErrorEvent)
    assert body.error is not None
    assert isinstance(error, body.error)
    assert last.error is error
    assert heard.completed == 0
    assert last.response is error.response
    assert last.response.verdict is error.verdict
    assert body.verdict in (last.response.verdict, Verdict.COMPLETE)
    assert last.response.text == body.text == "".join(event.text for event in heard.events if isinstance(event, TextDelta))
    assert not last.response.committable


@pytest.mark.parametrize("name", ["refused", "a web page", "nothing"])
def test_a_failure_before_the_first_step(name: str) -> None:
    """
    ResponseStart, ErrorEvent, on_error and no step (contract E7).
    """
    assert [event.type for event in hear(BODIES[name]).events] == ["RESPONSE_START", "ERROR"]


def test_a_failure_before_the_first_byte() -> None:
    """
    The source fails: likewise.
    """
    error = ConnectError("refused")
    heard = Heard()
    heard.to(rx.throw(error).pipe(chat_events("openai-chat")))
    assert [event.type for event in heard.events] == ["RESPONSE_START", "ERROR"]
    assert heard.events[-1].error is heard.errors[0] is error


def test_the_order_on_failure() -> None:
    """
    Written out once.
    """
    error = ConnectionLostError("gone")
    heard = Heard()
    heard.to(rx.concat(rx.of(HALF), rx.throw(error)).pipe(chat_events("openai-chat")))
    assert [event.type for event in heard.events] == [
        "RESPONSE_START",
        "STEP_START",
        "TEXT_START",
        "TEXT_DELTA",
        "TEXT_END",
        "STEP_END",
        "ERROR",
    ]
    step = heard.events[-2].response
    assert (step.text, step.verdict) == ("你好 ", Verdict.CONNECTION_LOST)
    assert heard.events[-1].response.steps == (step,)


def test_a_broken_transfer_of_a_refused_answer_is_the_refusal() -> None:
    """
    The head told more than the break does.
    """
    heard = Heard()
    refused = BODIES["refused"]
    heard.to(rx.concat(rx.of(b'{"err'), rx.throw(ConnectionLostError("gone"))).pipe(operator(refused)))
    assert isinstance(heard.errors[0], HTTPStatusError)
    assert heard.events[-1].error is heard.errors[0]
    assert violations(heard.events) == []


@pytest.mark.parametrize("data", [HALF, HALF + chunk(tool_calls=[call(id="t", name="add", arguments="{")]), b""])
def test_an_error_that_is_not_ours(data: bytes) -> None:
    """
    A user's operator in front of us failed: what is open is closed, no ErrorEvent, its error as it is (contract E12).
    """
    error = ValueError("mine")
    heard = Heard()
    heard.to(rx.concat(rx.of(data), rx.throw(error)).pipe(chat_events("openai-chat")))
    assert heard.errors == [error]
    assert not any(event.terminal for event in heard.events)
    assert violations(heard.events, whole=False) == []
    assert "STEP_END" in [event.type for event in heard.events] or not data


def test_a_policy_that_raises() -> None:
    """
    The user's callable for unknown frames failed: a failure like any other, with its error as the cause.
    """
    error = ValueError("policy")

    def policy(name: str, payload: Any) -> None:
        raise error

    heard = hear(Body(HALF + b'data: {"object":"novelty"}\n\n' + TEXT), unknown=policy)
    assert heard.errors[0].__cause__ is error
    assert heard.events[-1].error is heard.errors[0]
    assert violations(heard.events) == []


def test_a_fault_of_ours_still_closes_what_is_open() -> None:
    """
    Whatever a body raises, no block is left open (contract E2).
    """
    error = LookupError("a bug")

    class Faulty(Stage[bytes, ChatEvent]):
        def feed(self, item: bytes, emit: Emit[ChatEvent]) -> None:
            emit(StepStart())
            emit(TextDelta("x"))
            raise error

    events = driven_to_fault(Envelope(Faulty))
    assert [event.type for event in events] == ["RESPONSE_START", "STEP_START", "TEXT_START", "TEXT_DELTA", "TEXT_END", "STEP_END"]


def driven_to_fault(stage: Envelope) -> list[ChatEvent]:
    events: list[ChatEvent] = []
    with pytest.raises(LookupError):
        events.extend(run(stage, [b"x"]))
    return events


def test_a_body_that_completes_without_a_terminal() -> None:
    """
    It is no whole response, whatever its stage thinks (contract V5).
    """

    class Silent(Stage[bytes, ChatEvent]):
        def feed(self, item: bytes, emit: Emit[ChatEvent]) -> None:
            pass

    with pytest.raises(IncompleteStreamError):
        list(run(Envelope(Silent), [b"x"]))


def test_an_envelope_must_be_started() -> None:
    """
    Whoever drives one by hand is told.
    """
    with pytest.raises(AssertionError):
        Envelope(Stage)._push(TextDelta("x"))


def test_what_cannot_be_is_told_at_once() -> None:
    """
    Not at the subscription: unknown dialects, options, profiles, policies, and values of another type.
    """
    unknown: list[dict[str, Any]] = [{"dialect": "x"}, {"options": {"x": 1}}, {"profile": "x"}, {"unknown": "x"}]
    wrongs: list[dict[str, Any]] = [*unknown, {"dialect": 5}, {"options": [1]}, {"limits": 5}]
    for wrong in wrongs:
        for make in (chat_events, response_stage):
            with pytest.raises(ConfigurationError):
                make(**{"dialect": "openai-chat", **wrong})


def test_head_is_read_without_case() -> None:
    """
    Header names are compared without it.
    """
    assert Head(headers={"content-TYPE": "x/y"}).content_type == "x/y"
    assert Head().content_type is None


def test_limits_of_a_profile() -> None:
    """
    strict_text brings its own; limits given go before them.
    """
    long = Body(chunk(content="x" * 5000) + chunk("stop") + DONE)
    assert isinstance(hear(long, profile="strict_text").errors[0], LimitExceeded)
    heard = Heard()
    heard.to(rx.of(long.data).pipe(chat_events("openai-chat", profile="strict_text", limits=Limits())))
    assert heard.completed == 1


# --- E8, D4, E14: leaving -------------------------------------------------------------------------------------------------------------------------


class Feed:
    """
    A hot source of bytes that knows whether it was left.
    """

    def __init__(self) -> None:
        self.subject: Subject[bytes] = Subject()

    def push(self, reads: Sequence[bytes]) -> None:
        for read in reads:
            self.subject.on_next(read)

    @property
    def left(self) -> bool:
        return not self.subject.observers


@pytest.mark.parametrize("name", ["text", "calls", "no JSON"])
def test_leaving_at_any_event(name: str) -> None:
    """
    Not one more event, no Abort, no terminal; the source is left at once (contract E8, D4).
    """
    body = BODIES[name]
    whole = hear(body).events
    for n in range(1, len(whole)):
        feed, heard = Feed(), Heard()
        heard.to(feed.subject.pipe(operator(body), ops.take(n)))
        feed.push(every(body.data, 7))
        assert [told(event) for event in heard.events] == [told(event) for event in whole[:n]]
        assert (heard.completed, heard.errors) == (1, [])
        assert feed.left


def test_disposal_is_silent() -> None:
    """
    Between two reads: nothing more at all.
    """
    feed, heard = Feed(), Heard()
    subscription = heard.to(feed.subject.pipe(chat_events("openai-chat")))
    feed.push([HALF])
    before = list(heard.events)
    subscription.dispose()
    feed.push([TEXT])
    assert (heard.events, heard.errors, heard.completed) == (before, [], 0)
    assert feed.left


def test_the_end_of_the_protocol_ends_the_request() -> None:
    """
    Nothing is read behind it, and the source is left before on_completed.
    """
    feed, left = Feed(), []
    feed.subject.pipe(chat_events("openai-chat")).subscribe(lambda event: None, on_completed=lambda: left.append(feed.left))
    feed.push([TEXT])
    assert left == [True]


@pytest.mark.parametrize("n", range(6))
def test_a_subscriber_that_raises(n: int) -> None:
    """
    The request is closed at once, its exception reaches its own on_error as it is, without ErrorEvent (contract E14).
    """
    error = RxchatError("mine, although of your class")
    feed, seen, errors = Feed(), list[Any](), list[Exception]()

    def raises(event: Any) -> None:
        seen.append(event)
        if len(seen) > n:
            raise error

    feed.subject.pipe(chat_events("openai-chat")).subscribe(raises, errors.append)
    feed.push([TEXT])
    assert len(seen) == n + 1
    assert errors == [error]
    assert error.response is None
    assert feed.left


# --- D7: abort ------------------------------------------------------------------------------------------------------------------------------------


def driven(stage: Envelope, reads: Iterable[bytes]) -> list[ChatEvent]:
    """
    What a stage said so far.
    """
    events: list[ChatEvent] = []
    emit = events.append
    stage.start(emit)
    for read in reads:
        stage.feed(read, emit)
    return events


@pytest.mark.parametrize("data", [b"", HALF, HALF + chunk(tool_calls=[call(id="t", name="add", arguments="{")]), chunk(reasoning_content="hm")])
def test_abort(data: bytes) -> None:
    """
    Closing ENDs, StepEnd, Abort with what had arrived; a second time nothing.
    """
    stage = response_stage("openai-chat")
    events = driven(stage, [data] if data else [])
    emit = events.append
    stage.abort("enough", emit)
    assert violations(events) == []
    last = events[-1]
    assert isinstance(last, Abort)
    assert (last.reason, last.response.verdict) == ("enough", Verdict.ABORTED)
    assert not any(found.complete for found in last.response.tool_calls)
    assert stage.partial == last.response
    count = len(events)
    stage.abort("again", emit)
    stage.fail(ConnectionLostError("late"), emit)
    assert len(events) == count


def test_abort_behind_the_end_is_nothing() -> None:
    """
    The response has ended.
    """
    stage = response_stage("openai-chat")
    events = list(run(stage, [TEXT]))
    stage.abort("late", events.append)
    assert isinstance(events[-1], ResponseEnd)


def test_the_partial_answer_grows() -> None:
    """
    It can be looked at at any time.
    """
    stage = response_stage("openai-chat", response_id="r")
    assert stage.partial == ChatResponse()
    driven(stage, every(TEXT[: TEXT.index(b"stop")], 5))
    assert (stage.partial.text, stage.partial.verdict, stage.partial.response_id) == ("你好 🌱!", None, "r")


# --- E9: cuts -------------------------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("body", BODIES.values(), ids=BODIES)
def test_cuts_change_nothing(body: Body) -> None:
    """
    Whole, byte by byte, at each border and two bytes around it, at random: the same events, errors and offsets (contract E9).
    """
    expected = outcome(hear(body))
    data = body.data
    borders = [place for place in range(len(data)) if data[place : place + 1] in (b"\n", b"\r")]
    places = range(1, len(data)) if EXHAUSTIVE else sorted({place + k for place in borders for k in range(-2, 3)} | set(range(13, len(data), 13)))
    rnd = random.Random(7)
    ways = [every(data, size) for size in (1, 2, 3, 7)] + [cut(data, [place]) for place in places]
    ways += [cut(data, rnd.sample(range(len(data) + 1), min(len(data), 5))) for _ in range(20)]
    ways += [[b"", *every(data, 11), b""]]
    for reads in ways:
        assert outcome(hear(body, reads)) == expected


@given(st.sampled_from(sorted(BODIES)), st.lists(st.integers(0, 2000), max_size=12))
def test_any_cuts_change_nothing(name: str, places: list[int]) -> None:
    """
    Likewise wherever hypothesis cuts.
    """
    body = BODIES[name]
    assert outcome(hear(body, cut(body.data, places))) == outcome(hear(body))


# --- E12: independence ----------------------------------------------------------------------------------------------------------------------------


def test_each_subscription_is_a_response_of_its_own() -> None:
    """
    Equal but for its id; nothing of the one before is left.
    """
    stream = rx.of(*every(CALLS, 9)).pipe(chat_events("openai-chat"))
    first, second = Heard(), Heard()
    first.to(stream)
    second.to(stream)
    assert len({first.events[0].response_id, second.events[0].response_id}) == 2
    assert all(heard.events[0].response_id.startswith("rx-") for heard in (first, second))
    assert [event for event in first.events[1:] if not hasattr(event, "response")] == [e for e in second.events[1:] if not hasattr(e, "response")]
    assert first.events[-1].response.parts == second.events[-1].response.parts


def test_two_at_once_share_no_state() -> None:
    """
    One begins in the middle of the other: each makes of its own bytes what they are.
    """
    one, two = Feed(), Feed()
    first, second = Heard(), Heard()
    stream = chat_events("openai-chat", response_id="r")
    first.to(one.subject.pipe(stream))
    ones, twos = every(CALLS, 7), every(TEXT, 7)
    one.push(ones[:20])
    second.to(two.subject.pipe(stream))
    for k in range(max(len(ones), len(twos))):
        one.push(ones[20 + k : 21 + k])
        two.push(twos[k : k + 1])
    assert first.events == hear(BODIES["calls"]).events
    assert second.events == hear(BODIES["text"]).events


def test_retry_begins_anew() -> None:
    """
    Stock retry: a response that failed, and another (contract E12).
    """
    tries: list[int] = []

    def attempt(_: Any) -> Observable[bytes]:
        tries.append(1)
        return rx.concat(rx.of(HALF), rx.throw(ConnectionLostError("gone"))) if len(tries) == 1 else rx.of(TEXT)

    heard = Heard()
    heard.to(rx.defer(attempt).pipe(chat_events("openai-chat"), ops.retry(2)))
    starts = [n for n, event in enumerate(heard.events) if isinstance(event, ResponseStart)]
    assert starts == [0, 7]
    assert violations(heard.events[:7]) == violations(heard.events[7:]) == []
    assert heard.events[-1].response.text == "你好 🌱!"


def test_the_scheduler_reaches_the_source() -> None:
    """
    It carries the valve.
    """
    given: list[Any] = []

    def subscribe(observer: Any, scheduler: Any = None) -> abc.DisposableBase:
        given.append(scheduler)
        return Disposable()

    scheduler = CurrentThreadScheduler()
    rx.create(subscribe).pipe(chat_events("openai-chat")).subscribe(scheduler=scheduler)
    assert given == [scheduler]


# --- provenance -----------------------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("body", BODIES.values(), ids=BODIES)
def test_spans_say_which_bytes(body: Body) -> None:
    """
    Each event's span is the frame that caused it; the events themselves are the same as without.
    """
    plain, spanned = hear(body), hear(body, every(body.data, 11), provenance=True)
    assert outcome(spanned) == outcome(plain)
    assert all(event.span is None for event in plain.events)
    assert spanned.events[0].span is None
    spans = [event.span for event in spanned.events if event.span is not None]
    assert spans == sorted(spans)
    assert all(0 <= start < end <= len(body.data) for start, end in spans)
    for event in spanned.events:
        if isinstance(event, TextDelta):
            assert event.span is not None
            assert json.dumps(event.text, ensure_ascii=False)[1:-1].encode() in body.data[slice(*event.span)]


def test_spans_of_what_no_frame_caused() -> None:
    """
    A failure of the transfer has no bytes; one of a frame has that frame's.
    """
    heard = Heard()
    stream = chat_events("openai-chat", provenance=True)
    heard.to(rx.concat(rx.of(HALF), rx.throw(ConnectionLostError("gone"))).pipe(stream))
    assert [event.span for event in heard.events if isinstance(event, TextEnd | StepEnd | ErrorEvent)] == [None, None, None]
    assert [event.span for event in heard.events if isinstance(event, TextStart | TextDelta)] == [(0, len(HALF))] * 2
    bad = hear(Body(HALF + b"data: {oops}\n\n"), provenance=True)
    assert bad.events[-1].span == (len(HALF), len(HALF) + len(b"data: {oops}\n\n"))


def test_a_dialect_of_its_own_will_do() -> None:
    """
    A Dialect in place of a name.
    """
    assert list(run(response_stage(get_dialect("openai-chat"), response_id="r"), [TEXT])) == hear(BODIES["text"]).events
