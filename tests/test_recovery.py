"""
Going on after a failure in the middle of an answer: `recover`, `recover_with` (contract D5, E12, E14).
"""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Callable, Iterable
from typing import Any

import pytest
import reactivex as rx
from hypothesis import given
from hypothesis import strategies as st
from reactivex import Observable, abc
from reactivex import operators as ops
from reactivex.disposable import Disposable
from reactivex.scheduler import ImmediateScheduler
from reactivex.testing import TestScheduler

from rxchat import (
    Abort,
    ChatEvent,
    ChatResponse,
    Custom,
    ErrorEvent,
    ResponseEnd,
    ResponseStart,
    TextDelta,
    ThinkingDelta,
    ToolCallStart,
    Usage,
    Verdict,
    aggregate,
    chat_events,
    for_ui,
    recover,
    recover_with,
    share_events,
    text_only,
    to_async_iterable,
    to_records,
)
from rxchat.client import ChatModel, HttpSettings
from rxchat.demand import Valve, ValveScheduler
from rxchat.errors import (
    AbortedError,
    ConfigurationError,
    ConnectionLostError,
    HTTPStatusError,
    InvalidJSONError,
    LimitExceeded,
    ProviderError,
    RxchatError,
    StoreError,
    ToolError,
)
from rxchat.events import RESET
from rxchat.recovery import backoff
from rxchat.response import TextPart, ToolCall, ToolResultPart
from rxchat.serialize import dumps, loads
from rxchat.testing import VirtualClock, events_from_marbles, grammar_violations, marbles_of
from tests.client.watching import settled
from tests.loopback import DONE, FINISH, answer, begin, delta, frame, in_turn, loopback
from tests.scripted import Fault

LOST = ConnectionLostError("the transfer broke off")
STRANGE = Fault("an operator of the user's")
BROKEN_JSON = InvalidJSONError("not JSON")


def busy(retry_after: float | None = None) -> HTTPStatusError:
    return HTTPStatusError("busy", status=429, retry_after=retry_after)


def with_response(error: RxchatError, *parts: Any) -> RxchatError:
    error.response = ChatResponse(parts=parts)
    return error


def failing(error: Exception, *events: ChatEvent, usage: Usage | None = None) -> Observable[ChatEvent]:
    """
    A response that fails as ours do: its events, the ErrorEvent, on_error.
    """
    said = (*events, ErrorEvent(error, usage=usage)) if isinstance(error, RxchatError) else events
    return rx.concat(rx.of(*said), rx.throw(error))


def ending(*events: ChatEvent) -> Observable[ChatEvent]:
    return rx.of(*events, ResponseEnd(ChatResponse(verdict=Verdict.COMPLETE)))


def each(*sources: Observable[ChatEvent]) -> tuple[Observable[ChatEvent], list[int]]:
    """
    One source a subscription, and how often it was asked.
    """
    asked: list[int] = []

    def subscribe(observer: abc.ObserverBase[ChatEvent], scheduler: abc.SchedulerBase | None = None) -> abc.DisposableBase:
        asked.append(len(asked))
        return sources[asked[-1]].subscribe(observer, scheduler=scheduler)

    return Observable(subscribe), asked


def heard(stream: Observable[Any], scheduler: abc.SchedulerBase | None = None) -> list[Any]:
    """
    All a stream says, and its end.
    """
    said: list[Any] = []
    stream.subscribe(said.append, said.append, lambda: said.append("completed"), scheduler=scheduler)
    return said


def resets(said: Iterable[Any]) -> list[dict[str, Any]]:
    return [item.data for item in said if isinstance(item, Custom) and item.name == RESET]


def body(*pieces: str, end: bool = True) -> bytes:
    return b"".join(delta(piece) for piece in pieces) + (FINISH + DONE if end else b"")


def answers(*bodies: bytes) -> Observable[ChatEvent]:
    """
    A model whose answers are these bodies, one a subscription.
    """
    return each(*(rx.of(data).pipe(chat_events("openai-chat", response_id=f"r{n}")) for n, data in enumerate(bodies, 1)))[0]


# --- what comes out -------------------------------------------------------------------------------------------------------------------------------


def test_the_reset_takes_the_place_of_the_error() -> None:
    """
    All that is known of the failed attempt; then a response of its own, and nothing of the failure behind it.
    """
    first = failing(
        LOST,
        ResponseStart("r1"),
        ThinkingDelta("hm"),
        TextDelta("Hel"),
        TextDelta("other", choice=1),
        TextDelta("lo"),
        usage=Usage(5, 2, raw=("own",)),
    )
    source, asked = each(first, ending(ResponseStart("r2"), TextDelta("Hi")))
    said = heard(source.pipe(recover(wait=0)))
    assert [type(item).__name__ for item in said] == [
        *("ResponseStart", "ThinkingDelta", "TextDelta", "TextDelta", "TextDelta", "Custom"),
        *("ResponseStart", "TextDelta", "ResponseEnd", "str"),
    ]
    assert asked == [0, 1]
    assert resets(said) == [
        {
            "attempt": 1,
            "source": 0,
            "wait": 0.0,
            "response_id": "r1",
            "shown": True,
            "text": "Hello",
            "thinking": "hm",
            "verdict": "CONNECTION_LOST",
            "message": "the transfer broke off",
            "usage": {
                "input_tokens": 5,
                "output_tokens": 2,
                "cache_read_tokens": None,
                "cache_write_tokens": None,
                "reasoning_tokens": None,
                "total_tokens": None,
            },
        }
    ]
    reset = said[5]
    assert loads(dumps(reset)) == reset
    assert json.loads(json.dumps(reset.data)) == reset.data


@pytest.mark.parametrize(
    ("shown", "expected"),
    [
        ((), (False, "")),
        ((Custom("mine"),), (False, "")),
        ((TextDelta("x"),), (True, "x")),
        ((ToolCallStart("c"),), (True, "")),
    ],
)
def test_before_any_content_too(shown: tuple[ChatEvent, ...], expected: tuple[bool, str]) -> None:
    """
    The reset always comes, so that somebody can say what is waited for; `shown` tells whether there is anything to wipe.
    """
    source, _ = each(failing(LOST, ResponseStart("r1"), *shown), ending(ResponseStart("r2")))
    (data,) = resets(heard(source.pipe(recover(wait=0))))
    assert (data["shown"], data["text"]) == expected


def test_a_bare_error_has_no_response() -> None:
    """
    It failed before its first event: no id, nothing shown.
    """
    source, _ = each(rx.throw(LOST), ending(ResponseStart("r2")))
    said = heard(source.pipe(recover(wait=0)))
    (data,) = resets(said)
    assert (data["response_id"], data["shown"], data["usage"]) == (None, False, None)
    assert said[-1] == "completed"


def test_usage_that_only_the_error_knows() -> None:
    """
    A filter may have hidden the ErrorEvent.
    """
    error = ConnectionLostError("off")
    error.response = ChatResponse(usage=Usage(input_tokens=3))
    (data,) = resets(heard(each(rx.throw(error), ending())[0].pipe(recover(wait=0))))
    assert data["usage"]["input_tokens"] == 3


@pytest.mark.parametrize("attempts", [1, 2, 3, 500])
def test_the_last_failure_passes(attempts: int) -> None:
    """
    ErrorEvent, then on_error, after exactly that many attempts; many in a row, all inside `subscribe`, are no recursion.
    """
    source, asked = each(*[failing(LOST, ResponseStart(str(n))) for n in range(attempts)])
    said = heard(source.pipe(recover(attempts, wait=0)))
    assert len(asked) == attempts
    assert [data["attempt"] for data in resets(said)] == [*range(1, attempts)]
    assert (said[-2], said[-1]) == (ErrorEvent(LOST), LOST)
    assert sum(isinstance(item, ErrorEvent) for item in said) == 1


def test_fallbacks_in_their_order() -> None:
    """
    Each once; the reset says which comes.
    """
    sources = [failing(busy(), ResponseStart(str(n))) for n in range(3)]
    said = heard(sources[0].pipe(recover_with(sources[1], sources[2], ending(ResponseStart("last")))))
    assert [(data["attempt"], data["source"]) for data in resets(said)] == [(1, 1), (2, 2), (3, 3)]
    assert said[-1] == "completed"


def test_the_same_again_then_another() -> None:
    """
    In a row they count on; each reset is said once.
    """
    first, asked = each(failing(LOST, ResponseStart("r1"), TextDelta("a")), failing(LOST, ResponseStart("r2"), TextDelta("b")))
    said = heard(first.pipe(recover(wait=0), recover_with(ending(ResponseStart("r3")))))
    assert asked == [0, 1]
    assert [(data["attempt"], data["source"], data["text"]) for data in resets(said)] == [(1, 0, "a"), (2, 1, "b")]


# --- which failures -------------------------------------------------------------------------------------------------------------------------------

RAN = (ToolCall("c", "f", complete=True), ToolResultPart("c", "done"))
RAN_THERE = (ToolCall("c", "f", complete=True, server_executed=True), ToolResultPart("c", "done"))

FAILURES: list[tuple[str, Exception, bool, bool]] = [
    ("lost", LOST, True, True),
    ("busy", busy(), True, True),
    ("refused key", HTTPStatusError("no", status=401), False, True),
    ("overloaded", ProviderError("later", retryable=True), True, True),
    ("said no", ProviderError("no"), False, True),
    ("broken JSON", BROKEN_JSON, False, True),
    ("our limit", LimitExceeded("total", 1), False, False),
    ("our options", ConfigurationError("no"), False, False),
    ("aborted", AbortedError("stop"), False, False),
    ("tool", ToolError("no"), False, False),
    ("store", StoreError("no"), False, False),
    ("not ours", STRANGE, False, False),
    ("our tool ran", with_response(ConnectionLostError("off"), *RAN), False, False),
    ("the provider's tool ran", with_response(ConnectionLostError("off"), *RAN_THERE), True, True),
    ("text only", with_response(ConnectionLostError("off"), TextPart("x")), True, True),
]


@pytest.mark.parametrize(("error", "retryable", "provider"), [row[1:] for row in FAILURES], ids=[row[0] for row in FAILURES])
def test_which_failures(error: Exception, retryable: bool, provider: bool) -> None:
    """
    The named choices; whatever is not recovered passes as it is.
    """
    for when, expected in (("retryable", retryable), ("provider", provider)):
        said = heard(failing(error).pipe(recover_with(ending(), when=when)))  # type: ignore[arg-type]
        assert (said[-1] == "completed") is expected
        if not expected:
            assert said[-1] is error
            assert resets(said) == []


def test_a_function_decides() -> None:
    """
    Of the error, which is always ours; what it raises is on_error.
    """
    asked: list[RxchatError] = []

    def when(error: RxchatError) -> bool:
        asked.append(error)
        return error is BROKEN_JSON

    assert heard(failing(BROKEN_JSON).pipe(recover_with(ending(), when=when)))[-1] == "completed"
    assert heard(failing(LOST).pipe(recover_with(ending(), when=when)))[-1] is LOST
    assert heard(failing(STRANGE).pipe(recover_with(ending(), when=when)))[-1] is STRANGE
    assert asked == [BROKEN_JSON, LOST]

    def bug(error: RxchatError) -> bool:
        raise STRANGE

    assert heard(failing(LOST).pipe(recover_with(ending(), when=bug))) == [ErrorEvent(LOST), STRANGE]


@pytest.mark.parametrize("end", [Abort("stop"), ResponseEnd(ChatResponse(verdict=Verdict.INCOMPLETE_FINISH))])
def test_an_answer_is_no_failure(end: ChatEvent) -> None:
    """
    An abort and an incomplete finish complete the stream.
    """
    source, asked = each(rx.of(ResponseStart(), end))
    assert heard(source.pipe(recover(wait=0))) == [ResponseStart(), end, "completed"]
    assert asked == [0]


def test_an_error_event_that_was_not_final() -> None:
    """
    Something caught its on_error, or asked again in front of us: it is delivered before what follows (contract E12).
    """
    caught = failing(LOST, ResponseStart("r1")).pipe(ops.catch(lambda error, source: rx.empty()))
    assert heard(caught.pipe(recover(wait=0))) == [ResponseStart("r1"), ErrorEvent(LOST), "completed"]
    source, _ = each(failing(LOST, ResponseStart("r1"), TextDelta("a")), failing(LOST, ResponseStart("r2")), ending(ResponseStart("r3")))
    said = heard(source.pipe(ops.retry(2), recover(wait=0)))
    assert [type(item).__name__ for item in said[:5]] == ["ResponseStart", "TextDelta", "ErrorEvent", "ResponseStart", "Custom"]
    assert [(data["response_id"], data["text"]) for data in resets(said)] == [("r2", "")]


# --- waits, in virtual time -----------------------------------------------------------------------------------------------------------------------

TABLE: dict[str, ChatEvent] = {
    "s": ResponseStart("r1"),
    "S": ResponseStart("r2"),
    "a": TextDelta("a"),
    "b": TextDelta("b"),
    "E": ErrorEvent(LOST),
    "e": ResponseEnd(ChatResponse(verdict=Verdict.COMPLETE)),
}

# The first attempt, the second, the operator, what comes out: R is the reset.
MARBLES: list[tuple[str, str, Callable[[], Any], str]] = [
    ("s-a-(E,#)", "Sb(e,|)", lambda: recover(wait=0), "s-a-RSb(e,|)"),
    ("s-a-(E,#)", "Sb(e,|)", lambda: recover(wait=3), "s-a-R--Sb(e,|)"),
    ("s-a-(E,#)", "Sb(e,|)", lambda: recover(wait=lambda failures: 2.0 * failures), "s-a-R-Sb(e,|)"),
    ("s-a-(E,#)", "S-(E,#)", lambda: recover(wait=2), "s-a-R-S-(E,#)"),
    ("s-a(e,|)", "S", lambda: recover(wait=2), "s-a(e,|)"),
    ("(E,#)", "Sb(e,|)", lambda: recover(wait=5), "R----Sb(e,|)"),
]


@pytest.mark.parametrize(("first", "second", "make", "expected"), MARBLES)
def test_marbles(first: str, second: str, make: Callable[[], Any], expected: str) -> None:
    """
    The reset stands where the failure stood, the wait behind it.
    """
    scheduler = TestScheduler()
    source, _ = each(*(events_from_marbles(marbles, TABLE, scheduler, error=LOST) for marbles in (first, second)))
    marked = source.pipe(make(), ops.map(lambda event: Custom(RESET) if isinstance(event, Custom) else event))
    assert marbles_of(marked, {**TABLE, "R": Custom(RESET)}, scheduler).replace("(R,S)", "RS") == expected


@pytest.mark.parametrize(
    ("asked", "longest", "expected"),
    [
        (None, 60, 2.0),
        (0.0, 60, 2.0),
        (1.0, 60, 2.0),
        (2.5, 60, 2.5),
        (60.0, 60, 60.0),
        (60.1, 60, None),
        (0.0, 0, 2.0),
        (0.1, 0, None),
    ],
)
def test_retry_after(asked: float | None, longest: float, expected: float | None) -> None:
    """
    Never shortened; too long, and the failure stands.
    """
    scheduler, times = TestScheduler(), list[float]()
    source, _ = each(failing(busy(asked), ResponseStart("r1")), ending(ResponseStart("r2")))
    stream = source.pipe(
        recover(wait=2.0, longest_retry_after=longest), ops.do_action(lambda event: times.append(scheduler.to_seconds(scheduler.clock)))
    )
    said = heard(stream, scheduler)
    scheduler.start()
    assert [data["wait"] for data in resets(said)] == ([] if expected is None else [expected])
    assert (said[-1] == "completed") is (expected is not None)
    if expected is not None:
        # Virtual time turns a little on its own when much is due at once.
        assert 0 <= times[-1] - expected < 0.1


def test_a_failure_inside_subscribe_waits_as_well() -> None:
    """
    Each attempt at its time, though none of them lets go before it has failed.
    """
    scheduler, times = TestScheduler(), list[float]()

    def subscribe(observer: Any, given: Any = None) -> abc.DisposableBase:
        times.append(scheduler.to_seconds(scheduler.clock))
        observer.on_error(LOST)
        return Disposable()

    said = heard(Observable(subscribe).pipe(recover(4, wait=lambda failures: 10.0 * failures)), scheduler)
    scheduler.start()
    assert times == [0.0, 10.0, 30.0, 60.0]
    assert said[-1] is LOST


def test_another_model_need_not_wait() -> None:
    """
    The one that failed asked for time, not the next one.
    """
    assert [data["wait"] for data in resets(heard(failing(busy(50)).pipe(recover_with(ending()))))] == [0.0]


def test_backoff_grows_and_is_bounded() -> None:
    """
    With a random part, so that many clients do not come back together.
    """
    for failures, longest in ((1, 0.5), (2, 1.0), (3, 2.0), (5, 8.0), (6, 8.0), (10_000, 8.0)):
        waits = {backoff(failures) for _ in range(50)}
        assert len(waits) > 1
        assert longest * 0.75 <= min(waits) <= max(waits) <= longest


async def test_the_clock_of_the_loop_or_of_the_caller() -> None:
    """
    Without a scheduler of the subscription the running loop waits; a scheduler of the operator comes first.
    """
    source, _ = each(failing(LOST), ending())
    over = asyncio.Event()
    source.pipe(recover(wait=0.001)).subscribe(on_completed=over.set)
    await asyncio.wait_for(over.wait(), 5)
    clock, said = VirtualClock(), list[Any]()
    source, _ = each(failing(LOST), ending())
    source.pipe(recover(wait=1000, scheduler=clock.scheduler)).subscribe(said.append)
    await clock.advance(999)
    assert len(said) == 1
    await clock.advance(1)
    assert isinstance(said[-1], ResponseEnd)


@pytest.mark.parametrize("closed", [False, True])
def test_a_clock_of_another_thread(closed: bool) -> None:
    """
    What follows its wait happens in the loop again, unless the loop is gone.
    """
    threads: list[int] = []
    scheduler = TestScheduler()

    def subscribe(observer: Any, scheduler: Any = None) -> abc.DisposableBase:
        threads.append(threading.get_ident())
        observer.on_error(LOST)
        return Disposable()

    def in_another_thread() -> None:
        other = threading.Thread(target=lambda: scheduler.advance_to(10))
        other.start()
        other.join()

    async def main() -> None:
        over = asyncio.Event()
        Observable(subscribe).pipe(recover(wait=5)).subscribe(on_error=lambda error: over.set(), scheduler=scheduler)
        if not closed:
            in_another_thread()
            await asyncio.wait_for(over.wait(), 5)

    asyncio.run(main())
    in_another_thread()
    assert threads == [threading.get_ident()] * (1 if closed else 2)


def test_nothing_to_wait_on() -> None:
    """
    Said at the subscription; with wait=0 a Retry-After that cannot be waited for leaves the failure as it is.
    """
    assert isinstance(heard(ending().pipe(recover()))[-1], ConfigurationError)
    assert heard(ending().pipe(recover_with(ending())))[-1] == "completed"
    error = busy(3)
    assert heard(each(failing(error), ending())[0].pipe(recover(wait=0)))[-1] is error


def test_the_valve_reaches_every_attempt() -> None:
    """
    A slow subscriber slows the second answer as the first (contract D3).
    """
    given_: list[Any] = []

    def subscribe(observer: Any, scheduler: Any = None) -> abc.DisposableBase:
        given_.append(scheduler)
        observer.on_error(LOST)
        return Disposable()

    scheduler = ValveScheduler(TestScheduler(), Valve())
    heard(Observable(subscribe).pipe(recover(wait=0), recover_with(Observable(subscribe))), scheduler)
    assert given_ == [scheduler] * 3


# --- leaving --------------------------------------------------------------------------------------------------------------------------------------


def test_disposed_in_the_wait_or_in_an_attempt() -> None:
    """
    No further attempt, no event, and the source is left.
    """
    for first, at, asks in (("s-a-#", 6, 1), ("s-a-#", 12, 2), ("s-a----", 3, 1)):
        scheduler = TestScheduler()
        source, asked = each(*(events_from_marbles(marbles, TABLE, scheduler, error=LOST) for marbles in (first, "S-b--------------|")))
        said: list[Any] = []
        left: list[float] = []
        watched = source.pipe(ops.finally_action(lambda: left.append(scheduler.to_seconds(scheduler.clock))))  # noqa: B023
        subscription = watched.pipe(recover(wait=4)).subscribe(said.append, said.append, lambda: said.append("completed"), scheduler=scheduler)  # noqa: B023
        scheduler.schedule_absolute(at, lambda *_: subscription.dispose())  # noqa: B023
        scheduler.start()
        assert len(asked) == asks
        assert left[-1] <= at
        assert "completed" not in said
        assert LOST not in said


async def test_nothing_is_left_of_a_wait() -> None:
    """
    Disposal takes its timer back.
    """
    clock = VirtualClock()
    subscription = failing(LOST).pipe(recover(wait=3600)).subscribe(lambda event: None, scheduler=clock.scheduler)
    await clock.settle()
    assert clock.scheduler.next_due() is not None
    subscription.dispose()
    assert clock.scheduler.next_due() is None


@pytest.mark.parametrize(("count", "asks"), [(1, 1), (2, 1), (3, 1), (4, 2)])
def test_take_leaves_everywhere(count: int, asks: int) -> None:
    """
    Also in the reset (contract D4).
    """
    source, asked = each(failing(LOST, ResponseStart("r1"), TextDelta("a")), ending(ResponseStart("r2")))
    said = heard(source.pipe(recover(wait=0), ops.take(count)))
    assert (len(said), said[-1], len(asked)) == (count + 1, "completed", asks)


@pytest.mark.parametrize("at", range(5))
@pytest.mark.parametrize("error", [STRANGE, LOST])
def test_a_subscriber_that_raises_is_never_recovered(at: int, error: Exception) -> None:
    """
    Its exception is its own, also one that looks like ours; the source is left and not asked again (contract E14).
    """
    source, asked = each(failing(LOST, ResponseStart("r1"), TextDelta("a")), ending(ResponseStart("r2")))
    said: list[Any] = []

    def raising(event: ChatEvent) -> None:
        if len(said) == at:
            raise error
        said.append(event)

    source.pipe(recover(wait=0)).subscribe(raising, said.append)
    assert said[at:] == [error]
    assert len(asked) == (1 if at < 3 else 2)


def test_an_interrupt_climbs() -> None:
    """
    Through us, after the source was left.
    """
    source: rx.subject.Subject[ChatEvent] = rx.subject.Subject()

    def interrupt(event: ChatEvent) -> None:
        raise KeyboardInterrupt

    source.pipe(recover(wait=0)).subscribe(interrupt)
    with pytest.raises(KeyboardInterrupt):
        source.on_next(ResponseStart())
    assert not source.observers


def test_a_subscriber_that_leaves_in_the_reset() -> None:
    """
    Nobody is asked any more.
    """
    fallback, asked = each(ending())
    hot: rx.subject.Subject[ChatEvent] = rx.subject.Subject()
    said: list[Any] = []

    def leave(event: ChatEvent) -> None:
        said.append(event)
        subscription.dispose()

    subscription = hot.pipe(recover_with(fallback)).subscribe(leave)
    hot.on_error(LOST)
    assert (len(resets(said)), len(said), asked) == (1, 1, [])


def test_a_subscriber_that_comes_back_inside_an_event() -> None:
    """
    The same stream subscribed to inside the reset is a subscription of its own.
    """
    source, asked = each(failing(LOST, ResponseStart("r1")), ending(ResponseStart("r2")), ending(ResponseStart("r3")))
    stream = source.pipe(recover(wait=0))
    outer: list[Any] = []
    inner: list[Any] = []

    def again(event: ChatEvent) -> None:
        outer.append(event)
        if isinstance(event, Custom):
            stream.subscribe(inner.append)

    stream.subscribe(again)
    assert [event.response_id for event in (*outer, *inner) if isinstance(event, ResponseStart)] == ["r1", "r3", "r2"]
    assert (len(resets(outer)), len(resets(inner)), len(asked)) == (1, 0, 3)
    assert isinstance(outer[-1], ResponseEnd)
    assert isinstance(inner[-1], ResponseEnd)


def test_a_source_that_goes_on_behind_its_end() -> None:
    """
    Nobody hears of it, neither in the wait nor in the next attempt.
    """
    late: list[Any] = []

    def subscribe(observer: Any, scheduler: Any = None) -> abc.DisposableBase:
        observer.on_next(ResponseStart("r1"))
        observer.on_error(LOST)
        observer.on_next(TextDelta("late"))
        observer.on_error(STRANGE)
        late.append(observer)
        return Disposable()

    scheduler = TestScheduler()
    source, _ = each(Observable(subscribe), events_from_marbles("S-b-(e,|)", TABLE, scheduler))
    said = heard(source.pipe(recover(wait=5)), scheduler)
    scheduler.advance_to(6.5)
    late[0].on_next(TextDelta("late"))
    late[0].on_completed()
    scheduler.start()
    assert TextDelta("late") not in said
    assert [type(item).__name__ for item in said] == ["ResponseStart", "Custom", "ResponseStart", "TextDelta", "ResponseEnd", "str"]


def test_nobody_listens_for_errors(caplog: pytest.LogCaptureFixture) -> None:
    """
    One line in the log (contract D8).
    """
    failing(LOST).pipe(recover(1, wait=0)).subscribe(lambda event: None)
    assert len(caplog.records) == 1


# --- what stands behind it ------------------------------------------------------------------------------------------------------------------------


def test_the_consumers_begin_anew() -> None:
    """
    aggregate gives the second answer whole, to_records counts it from 0, both parts are grammatical by themselves (contract E12).
    """
    stream = answers(body("Half an ", end=False), body("Whole."))
    (whole, _) = heard(stream.pipe(recover(wait=0), aggregate()))
    assert (whole.text, whole.verdict, whole.committable) == ("Whole.", Verdict.COMPLETE, True)
    records = heard(answers(body("Half an ", end=False), body("Whole.")).pipe(recover(wait=0), to_records()))[:-1]
    split = next(n for n, record in enumerate(records) if n and isinstance(record.event, ResponseStart))
    first, second = records[:split], records[split:]
    assert [record.seq for record in first] == [*range(len(first))]
    assert [record.seq for record in second] == [*range(len(second))]
    assert {record.response_id for record in first} == {"r1"}
    assert {record.response_id for record in second} == {"r2"}
    failed = [record.event for record in first]
    assert grammar_violations([*failed[:-1], ErrorEvent(LOST)]) == []
    assert grammar_violations([record.event for record in second]) == []
    pieces = heard(answers(body("Half an ", end=False), body("Whole.")).pipe(recover(wait=0), text_only()))
    assert pieces == ["Half an ", "Whole.", "completed"]


def test_a_user_interface_gets_the_reset() -> None:
    """
    Without thinking, without the provider's words, and without what it cost (contract S).
    """
    thought = frame(delta={"reasoning_content": "planted"}) + body("Half", end=False)
    error = frame()[:-2] + b'\n\ndata: {"error": {"message": "planted", "type": "server_error", "code": "overloaded"}}\n\n'
    source = answers(thought + error, body("Whole."))
    said = heard(source.pipe(recover(wait=0, when="provider"), for_ui()))
    (data,) = resets(said)
    assert data == {
        "attempt": 1,
        "source": 0,
        "wait": 0.0,
        "response_id": "r1",
        "shown": True,
        "text": "Half",
        "verdict": "PROVIDER_ERROR",
        "message": "The answer broke off and begins again.",
    }
    assert "planted" not in "".join(dumps(item) for item in said if item != "completed")
    nothing = heard(answers(b"", body("Whole.")).pipe(recover(wait=0), for_ui()))
    assert resets(nothing)[0]["message"] == "The service did not answer and is asked again."
    others: Observable[ChatEvent] = rx.of(Custom("mine", {"text": "planted"}), Custom(RESET, "planted"))
    assert heard(others.pipe(for_ui())) == ["completed"]


async def test_shared_behind_it() -> None:
    """
    One recovery for all subscribers; who comes late gets what the replay holds.
    """
    subjects = [rx.subject.Subject[ChatEvent](), rx.subject.Subject[ChatEvent]()]
    source, asked = each(*subjects)
    shared = source.pipe(recover(wait=0)).pipe(share_events(replay=1))
    one, two = heard(shared), heard(shared)
    subjects[0].on_next(ResponseStart("r1"))
    subjects[0].on_error(LOST)
    late = heard(shared)
    subjects[1].on_next(ResponseStart("r2"))
    assert one == two
    assert [len(resets(said)) for said in (one, two, late)] == [1, 1, 1]
    assert asked == [0, 1]


# --- any run of attempts --------------------------------------------------------------------------------------------------------------------------

ATTEMPTS = st.lists(
    st.tuples(st.lists(st.sampled_from("ab"), max_size=3), st.sampled_from(["retryable", "final", "strange", "ends"])), min_size=1, max_size=5
)
ENDS: dict[str, Exception] = {"retryable": LOST, "final": BROKEN_JSON, "strange": STRANGE}


def inside_subscribe(stream: Observable[ChatEvent]) -> Observable[ChatEvent]:
    """
    The same, said before its `subscribe` returns.
    """

    def subscribe(observer: abc.ObserverBase[ChatEvent], scheduler: abc.SchedulerBase | None = None) -> abc.DisposableBase:
        stream.subscribe(observer.on_next, observer.on_error, observer.on_completed, scheduler=ImmediateScheduler())
        return Disposable()

    return Observable(subscribe)


def on_the_clock(stream: Observable[ChatEvent]) -> Observable[ChatEvent]:
    """
    The same, in the time of the subscription.
    """
    return stream


@given(ATTEMPTS, st.integers(1, 6), st.sampled_from([inside_subscribe, on_the_clock]), st.sampled_from([0.0, 5.0]))
def test_any_run_of_attempts(attempts: list[tuple[list[str], str]], limit: int, make: Any, wait: float) -> None:
    """
    It is what a loop would say: go on while the failure is retryable and attempts are left. However the sources push.
    """
    bounded = [*attempts[: limit - 1], attempts[min(limit, len(attempts)) - 1]] if limit <= len(attempts) else [*attempts, ([], "final")]
    expected: list[Any] = []
    for n, (texts, end) in enumerate(bounded[:limit], 1):
        expected += [ResponseStart(str(n)), *(TextDelta(text) for text in texts)]
        if end == "retryable" and n < limit:
            expected.append(("reset", n, "".join(texts)))
            continue
        error = ENDS.get(end)
        expected += [ErrorEvent(error)] if isinstance(error, RxchatError) else []
        expected += [error] if error else [ResponseEnd(ChatResponse(verdict=Verdict.COMPLETE)), "completed"]
        break
    sources = []
    for n, (texts, end) in enumerate(bounded, 1):
        events: list[ChatEvent] = [ResponseStart(str(n)), *(TextDelta(text) for text in texts)]
        sources.append(make(ending(*events) if end == "ends" else failing(ENDS[end], *events)))
    scheduler = TestScheduler()
    said = heard(each(*sources)[0].pipe(recover(limit, wait=wait)), scheduler)
    scheduler.start()
    assert [("reset", item.data["attempt"], item.data["text"]) if isinstance(item, Custom) else item for item in said] == expected


# --- over real HTTP -------------------------------------------------------------------------------------------------------------------------------


def breaking(*chunks: bytes) -> Any:
    """
    Some chunks, then the connection is closed inside the transfer.
    """

    async def script(request: Any) -> Any:
        response = await begin(request)
        for chunk in chunks:
            await response.write(chunk)
        await asyncio.sleep(0.01)
        request.transport.abort()
        return response

    return script


async def test_over_http_the_second_server_answers() -> None:
    """
    The first breaks in the middle of the answer, the second one answers; the same server again does as well. No task is left.
    """
    async with loopback(breaking(delta("Half"))) as first, loopback(answer(delta("Whole."), FINISH, DONE)) as second:
        model, other = (ChatModel("test-1", base_url=server.url) for server in (first, second))
        events: list[ChatEvent] = []
        stream = model.stream("Hi").pipe(recover_with(other.stream("Hi")), ops.do_action(events.append))
        whole = await stream.pipe(aggregate())
        assert (whole.text, whole.verdict) == ("Whole.", Verdict.COMPLETE)
        (data,) = resets(events)
        assert (data["text"], data["verdict"], data["source"]) == ("Half", "CONNECTION_LOST", 1)
        assert not any(isinstance(event, ErrorEvent) for event in events)
        assert (len(first.seen), len(second.seen)) == (1, 1)
        assert await settled() == []


async def test_over_http_no_key_in_the_reset() -> None:
    """
    Many a refusal repeats the key it refuses (contract S).
    """
    refusal = answer(b'{"error":{"message":"busy with sk-planted"}}', status=503, content_type="application/json")
    async with loopback(in_turn([refusal, answer(delta("Whole."), FINISH, DONE)])) as server:
        events: list[ChatEvent] = []
        model = ChatModel("test-1", base_url=server.url, api_key="sk-planted", settings=HttpSettings(retry=None))
        await model.stream("Hi").pipe(recover(wait=0), ops.do_action(events.append), aggregate())
        (data,) = resets(events)
        assert data["verdict"] == "HTTP_STATUS"
        assert "busy with" in data["message"]
        assert "planted" not in dumps(next(event for event in events if isinstance(event, Custom)))


async def test_over_http_a_call_is_one_request() -> None:
    """
    Its events cannot be asked for again: that is what the error says, behind the reset.
    """
    async with loopback(breaking(delta("Half"))) as server:
        call = ChatModel("test-1", base_url=server.url).open("Hi")
        with pytest.raises(ConfigurationError, match="subscribed to once"):
            await call.events.pipe(recover(wait=0), aggregate())
        assert (call.verdict, call.response.text) == (Verdict.CONNECTION_LOST, "Half")


async def test_over_http_in_virtual_time() -> None:
    """
    Nobody waits for the wait.
    """
    scripts = in_turn([breaking(delta("Half")), breaking(delta("Half ag")), answer(delta("Whole."), FINISH, DONE)])
    async with loopback(scripts) as server:
        clock, seen = VirtualClock(quiet=0.05), list[Any]()
        model = ChatModel("test-1", base_url=server.url, settings=HttpSettings(first_event_timeout=None, read_timeout=None, stall_timeout=None))
        model.stream("Hi").pipe(recover(3, wait=3600)).subscribe(
            seen.append, seen.append, lambda: seen.append("completed"), scheduler=clock.scheduler
        )
        for asked in (1, 2, 3):
            await clock.settle()
            assert len(server.seen) == asked
            await clock.advance(3599)
            assert len(server.seen) == asked
            await clock.advance(1)
        assert [data["text"] for data in resets(seen)] == ["Half", "Half ag"]
        assert seen[-1] == "completed"


async def test_over_http_left_in_the_wait() -> None:
    """
    A break out of `async for` in the wait: the server is not asked again.
    """
    async with loopback(breaking(delta("Half"))) as server:
        async for event in ChatModel("test-1", base_url=server.url).stream("Hi").pipe(recover(wait=0.05), to_async_iterable()):
            if isinstance(event, Custom):
                break
        await asyncio.sleep(0.1)
        assert len(server.seen) == 1
        assert await settled() == []


# --- what cannot be -------------------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "make",
    [
        lambda: recover(0),
        lambda: recover(when="always"),  # type: ignore[arg-type]
        lambda: recover(wait=-1),
        lambda: recover(wait=float("nan")),
        lambda: recover(longest_retry_after=-1),
        lambda: recover_with(),
        lambda: recover_with("another/model"),  # type: ignore[arg-type]
        lambda: recover_with(rx.empty(), when="never"),  # type: ignore[arg-type]
    ],
)
def test_what_cannot_be(make: Callable[[], Any]) -> None:
    """
    Said at once.
    """
    with pytest.raises(ConfigurationError):
        make()
