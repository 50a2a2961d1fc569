"""
The operators that take one thing out of the events (contract section 1, P10, P13, T1, T2, U, E12).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest
import reactivex as rx
from reactivex import Observable
from reactivex import operators as ops

from rxchat.errors import ConfigurationError, ConnectionLostError, IncompleteStreamError, RxchatError, Verdict
from rxchat.events import (
    Abort,
    ChatEvent,
    Citation,
    ContentFilter,
    ErrorEvent,
    Event,
    Heartbeat,
    MediaDone,
    MediaPartial,
    Raw,
    RefusalDelta,
    ResponseEnd,
    ResponseStart,
    StepEnd,
    StepStart,
    TextDelta,
    TextStart,
    ThinkingDelta,
    UsageUpdate,
)
from rxchat.operators import normalize
from rxchat.projections import aggregate, citations, media, of_type, safety, text_only, thinking_only, tool_calls, usage
from rxchat.response import ChatResponse, FinishReason, TextPart, ToolCall, Usage
from tests.strategies import SAMPLES


def heard(stream: Observable[Any]) -> list[Any]:
    """
    Items, then "completed" or the error.
    """
    items: list[Any] = []
    stream.subscribe(items.append, items.append, lambda: items.append("completed"))
    return items


def through(operator: Any, *events: Event) -> list[Any]:
    return heard(rx.from_iterable(events).pipe(operator))


def failing(events: Sequence[ChatEvent], error: Exception) -> Observable[ChatEvent]:
    return rx.concat(rx.from_iterable(events), rx.throw(error))


# --- one class of events --------------------------------------------------------------------------------------------------------------------------

CASES: list[tuple[Any, list[Any]]] = [
    (of_type(TextDelta), [TextDelta("hi", 2)]),
    (of_type(TextDelta, ThinkingDelta), [ThinkingDelta("hm", 0), TextDelta("hi", 2)]),
    (of_type(StepStart, TextStart, Heartbeat, Raw), [Heartbeat(), StepStart(0, "p-1", "m-1"), TextStart(2), Raw("ping", {})]),
    (text_only(), ["hi"]),
    (thinking_only(), ["hm"]),
    (citations(), [Citation("http://c", "title", index=2, start=0, end=2)]),
    (media(), [MediaPartial("image", data="AA=="), MediaDone("image", "image/png", "AAA=")]),
    (safety(), [RefusalDelta("no"), ContentFilter("hate")]),
]


@pytest.mark.parametrize(("operator", "expected"), CASES)
def test_only_what_was_asked_for(operator: Any, expected: list[Any]) -> None:
    """
    Out of one event of each type.
    """
    assert through(operator, *SAMPLES) == [*expected, "completed"]


def test_of_type_needs_a_class() -> None:
    """
    Without one nothing could ever pass: that is a mistake, told at once.
    """
    with pytest.raises(ConfigurationError):
        of_type()
    with pytest.raises(ConfigurationError, match="of_type takes classes, as TextDelta, not 'TEXT_DELTA'"):
        of_type(TextDelta, "TEXT_DELTA")  # type: ignore[call-overload]


def test_bare_values_are_of_choice_0_events_of_all() -> None:
    """
    A text cannot say its choice, an event does (contract P13).
    """
    events: list[ChatEvent] = [TextDelta("a"), TextDelta("b", choice=1), ThinkingDelta("c"), ThinkingDelta("d", choice=1), RefusalDelta("e", 1)]
    assert through(text_only(), *events) == ["a", "completed"]
    assert through(thinking_only(), *events) == ["c", "completed"]
    assert through(safety(), *events) == [RefusalDelta("e", 1), "completed"]


# --- calls ----------------------------------------------------------------------------------------------------------------------------------------


def call(call_id: str, **said: Any) -> ToolCall:
    return ToolCall(**{"id": call_id, "name": "add", "arguments_text": "{}", "arguments": {}, "complete": True, **said})


def step(*parts: Any, finish: FinishReason = FinishReason.TOOL_CALLS, verdict: Verdict | None = None, number: int = 0) -> StepEnd:
    return StepEnd(number, ChatResponse(parts, finish, verdict=verdict))


GOOD = call("a")


@pytest.mark.parametrize(
    ("events", "expected"),
    [
        pytest.param([step(TextPart("x"), GOOD, call("b"))], [GOOD, call("b")], id="in order"),
        pytest.param([step(GOOD), step(call("b"), number=1)], [GOOD, call("b")], id="each step once"),
        pytest.param([step(GOOD, finish=FinishReason.STOP)], [GOOD], id="a plain stop allows them"),
        pytest.param([step(call("b", complete=False, arguments=None), GOOD)], [GOOD], id="not the unfinished ones"),
        pytest.param([step(call("b", server_executed=True), GOOD)], [GOOD], id="not what the provider ran"),
        pytest.param(
            [step(call("b", arguments_text="{", arguments=None))], [call("b", arguments_text="{", arguments=None)], id="complete but no JSON: said"
        ),
        *(
            pytest.param([step(GOOD, finish=reason)], [], id=f"not at {reason}")
            for reason in FinishReason
            if reason not in (FinishReason.STOP, FinishReason.TOOL_CALLS)
        ),
        *(
            pytest.param([step(GOOD, verdict=verdict)], [], id=f"not of a step that ended {verdict}")
            for verdict in (Verdict.CONNECTION_LOST, Verdict.INCOMPLETE_STREAM, Verdict.ABORTED)
        ),
        pytest.param([ResponseEnd(ChatResponse((GOOD,), FinishReason.TOOL_CALLS, verdict=Verdict.COMPLETE))], [], id="not twice"),
    ],
)
def test_which_calls_may_run(events: list[ChatEvent], expected: list[ToolCall]) -> None:
    """
    Complete calls of a step that ended well with a reason that allows it, and no others (contract T1, T2, P10).
    """
    assert through(tool_calls(), *events) == [*expected, "completed"]


# --- usage ----------------------------------------------------------------------------------------------------------------------------------------


def test_usage_is_the_running_total() -> None:
    """
    Snapshots of a step replace each other, steps are summed, the terminal says the final total (contract U).
    """
    events: list[ChatEvent] = [
        ResponseStart(),
        UsageUpdate(Usage(10)),
        UsageUpdate(Usage(10, 2)),
        StepEnd(0, usage=Usage(10, 3)),
        UsageUpdate(Usage(20)),
        UsageUpdate(Usage(None, 5)),
        StepEnd(1),
        ResponseEnd(ChatResponse(usage=Usage(30, 8, total_tokens=38))),
    ]
    expected = [Usage(10), Usage(10, 2), Usage(30, 3), Usage(30, 8), Usage(30, 8, total_tokens=38)]
    assert through(usage(), *events) == [*expected, "completed"]


@pytest.mark.parametrize(
    ("events", "expected"),
    [
        pytest.param([TextDelta("a"), ResponseEnd()], [], id="never reported is None, not zero"),
        pytest.param(
            [UsageUpdate(Usage(1)), StepEnd(), Abort()], [Usage(1), Usage(1)], id="the final total is our own sum where the terminal has none"
        ),
        pytest.param([UsageUpdate(Usage(1)), ErrorEvent(RxchatError())], [Usage(1), Usage(1)], id="of a failed response, too"),
        pytest.param(
            [ResponseStart(), UsageUpdate(Usage(1)), ResponseStart(), UsageUpdate(Usage(2))], [Usage(1), Usage(2)], id="a new response begins anew"
        ),
    ],
)
def test_usage_of(events: list[ChatEvent], expected: list[Usage]) -> None:
    """
    The corners of the running total.
    """
    assert through(usage(), *events) == [*expected, "completed"]


# --- the answer -----------------------------------------------------------------------------------------------------------------------------------

ANSWER = ChatResponse((TextPart("Hi"),), FinishReason.STOP, verdict=Verdict.COMPLETE)
STOPPED = ChatResponse((TextPart("H"),), verdict=Verdict.ABORTED)
LOST = ConnectionLostError("gone")


def missing(item: Any) -> Any:
    """
    The error of a stream without a terminal as its class: each is a new one.
    """
    return type(item) if isinstance(item, IncompleteStreamError | ConfigurationError) else item


@pytest.mark.parametrize(
    ("stream", "expected"),
    [
        pytest.param(rx.of(ResponseStart(), TextDelta("Hi"), ResponseEnd(ANSWER)), [ANSWER, "completed"], id="at ResponseEnd"),
        pytest.param(rx.of(ResponseEnd(ANSWER)), [ANSWER, "completed"], id="without ResponseStart: a filter may have hidden it"),
        pytest.param(rx.of(ResponseStart(), Abort("user", STOPPED)), [STOPPED, "completed"], id="at Abort, the verdict tells"),
        pytest.param(failing([ResponseStart(), ErrorEvent(LOST)], LOST), [LOST], id="a failure is its error, once"),
        pytest.param(failing([ResponseStart()], LOST), [LOST], id="a failure without its event"),
        pytest.param(rx.of(ResponseStart(), ErrorEvent(LOST)), [LOST], id="its error, also if somebody caught it"),
        pytest.param(rx.of(ResponseStart(), TextDelta("Hi")), [IncompleteStreamError], id="completed without a terminal"),
        pytest.param(rx.empty(), [IncompleteStreamError], id="nothing at all"),
        pytest.param(
            rx.concat(failing([ResponseStart(), ErrorEvent(LOST)], LOST).pipe(ops.catch(rx.empty())), rx.of(ResponseStart(), ResponseEnd(ANSWER))),
            [ANSWER, "completed"],
            id="begins anew at ResponseStart",
        ),
        pytest.param(
            rx.of(ResponseStart(), ResponseEnd(ANSWER), ResponseStart(), TextDelta("x")),
            [ANSWER, IncompleteStreamError],
            id="a second response that is cut",
        ),
        pytest.param(rx.of(ResponseStart(), ResponseEnd()), [ConfigurationError], id="never folded: normalize() is missing"),
    ],
)
def test_aggregate(stream: Observable[ChatEvent], expected: list[Any]) -> None:
    """
    One answer per response, or the reason why there is none.
    """
    assert [missing(item) for item in heard(stream.pipe(aggregate()))] == expected


def test_aggregate_says_what_is_missing() -> None:
    """
    The message names the operator.
    """
    (error,) = through(aggregate(), TextDelta("Hi"), ResponseEnd())
    assert "normalize()" in str(error)
    events: Observable[ChatEvent] = rx.of(TextDelta("Hi"), ResponseEnd())
    assert heard(events.pipe(normalize(), aggregate()))[0].text == "Hi"


async def test_await_the_answer() -> None:
    """
    RxPY's own await gives it, or raises.
    """
    assert await rx.of(ResponseStart(), ResponseEnd(ANSWER)).pipe(aggregate()) == ANSWER
    with pytest.raises(ConnectionLostError):
        await failing([ResponseStart(), ErrorEvent(LOST)], LOST).pipe(aggregate())


def test_retry_inside_the_answer() -> None:
    """
    Stock retry around a stream that fails once: one answer, of the second try (contract E12).
    """
    tries: list[int] = []

    def attempt(_: Any) -> Observable[ChatEvent]:
        tries.append(1)
        return failing([ResponseStart(), ErrorEvent(LOST)], LOST) if len(tries) == 1 else rx.of(ResponseStart(), ResponseEnd(ANSWER))

    assert heard(rx.defer(attempt).pipe(ops.retry(2), aggregate())) == [ANSWER, "completed"]


# --- among stock operators ------------------------------------------------------------------------------------------------------------------------

STOCK: list[Callable[[], Any]] = [
    lambda: ops.map(lambda item: item),
    lambda: ops.filter(lambda item: True),
    lambda: ops.do_action(lambda item: None),
    lambda: ops.share(),
    lambda: ops.materialize(),
    lambda: ops.start_with(),
    lambda: ops.take_while(lambda item: True),
    lambda: ops.scan(lambda _, item: item),
    lambda: ops.buffer_with_count(1),
]
UNDO: dict[int, Callable[[], Any]] = {4: ops.dematerialize, 8: lambda: ops.flat_map(rx.from_iterable)}


@pytest.mark.parametrize("n", range(len(STOCK)))
def test_stock_operators_between_any_two_of_ours(n: int) -> None:
    """
    They neither lose nor change anything.
    """
    between = [STOCK[n](), *([UNDO[n]()] if n in UNDO else [])]
    stream: Any = rx.of(ResponseStart(), TextDelta("Hi"), ResponseEnd())
    for operator in (*between, normalize(), *between, aggregate(), *between):
        stream = operator(stream)
    answer, end = heard(stream)
    assert (answer.text, end) == ("Hi", "completed")
