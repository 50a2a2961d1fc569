"""
The verdict of a call is set once, and says what the subscriber saw, whatever races (contract V4).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import attrs
from hypothesis import example, given, settings
from hypothesis import strategies as st

from rxchat.client import Retry
from rxchat.errors import ConnectionLostError, Verdict, verdict_of
from rxchat.events import Abort, ErrorEvent, ResponseEnd
from tests.client.hand import Hand
from tests.grammar import violations
from tests.loopback import DONE, FINISH, delta, frame
from tests.shared_data import EXHAUSTIVE

BUDGETS: dict[str, Any] = {
    "connect_timeout": 3,
    "first_event_timeout": 7,
    "read_timeout": 5,
    "total_timeout": 40,
    "stall_timeout": 4,
    "retry": Retry(attempts=3, first_wait=1, jitter=0),
}
PIECES = {
    "text": delta("Hel"),
    "role": frame(delta={"role": "assistant"}),
    "call": frame(delta={"tool_calls": [{"index": 0, "id": "a", "function": {"name": "one", "arguments": "{}"}}]}),
    "ping": b": ping\n\n",
    "half": delta("lo")[:20],
    "nonsense": b"data: {\n\n",
    "error": b'data: {"error":{"message":"overloaded","code":503}}\n\n',
    "finish": FINISH,
    "done": DONE,
}

# What the outside may do at any moment, by name; a number is time that passes.
DOES: dict[str, Callable[[Hand], object]] = {
    "connect": lambda hand: hand.body.connect(),
    "first connect again": lambda hand: hand.bodies[0].connect(),
    "headers": lambda hand: hand.body.headers(),
    "refuse": lambda hand: hand.body.refuse(503),
    "end": lambda hand: hand.body.end(),
    "reset": lambda hand: hand.body.fail(ConnectionLostError("reset")),
    "first body again": lambda hand: hand.bodies[0].push(delta("ooo")),
    "abort": lambda hand: hand.call.abort("enough"),
    "dispose": lambda hand: hand.call.dispose(),
    "unsubscribe": lambda hand: hand.watcher.dispose(),
    "hold": lambda hand: hand.valve.hold(),
    "release": lambda hand: hand.valve.release() if hand.valve.held else None,
}

action = st.one_of(st.sampled_from(sorted(DOES)), st.sampled_from(sorted(PIECES)), st.sampled_from(sorted(PIECES)), st.floats(0.1, 12))
inside = st.none() | st.tuples(st.integers(0, 8), st.sampled_from(["abort", "dispose", "unsubscribe", "raise", "time"]))


@attrs.define
class Seen:
    """
    What the call said of itself, each time something happened.
    """

    hand: Hand
    verdicts: list[Verdict | None] = attrs.field(factory=list)

    def look(self) -> None:
        """
        Note the verdict.
        """
        self.verdicts.append(self.hand.call.verdict)


def do(hand: Hand, what: str | float) -> None:
    """
    One thing happens.
    """
    if isinstance(what, float | int):
        hand.wait(what)
    elif not hand.bodies:
        # Ended by its own ResponseStart: nothing was sent.
        assert hand.types == ["RESPONSE_START"] or hand.types[1:] == ["ABORT"]
    elif what in DOES:
        DOES[what](hand)
    else:
        hand.body.push(PIECES[what])


def in_the_middle(hand: Hand, seen: Seen, plan: tuple[int, str] | None) -> None:
    """
    Let the subscriber do something at its n-th event.
    """

    def on_next(event: object) -> None:
        seen.look()
        if plan is None or len(hand.watcher.items) != plan[0] + 1:
            return
        match plan[1]:
            case "raise":
                raise KeyError("mine")
            case "time":
                hand.scheduler.advance_by(50)
            case name:
                DOES[name](hand)

    hand.watcher.on_next = on_next


async def race(actions: list[str | float], plan: tuple[int, str] | None) -> None:
    """
    Everything in this order, then time until nothing can happen any more.
    """
    hand = Hand.of(**BUDGETS)
    seen = Seen(hand)
    in_the_middle(hand, seen, plan)
    hand.begin()
    seen.look()
    for what in actions:
        do(hand, what)
        seen.look()
    for _ in range(3):
        hand.wait(60)
        await asyncio.sleep(0)
        seen.look()
    verify(hand, seen)
    before = (hand.types, hand.watcher.completed, hand.watcher.failed, len(hand.bodies), hand.call.timings, hand.call.response)
    hand.wait(10_000)
    hand.call.abort()
    hand.call.dispose()
    assert before == (hand.types, hand.watcher.completed, hand.watcher.failed, len(hand.bodies), hand.call.timings, hand.call.response)


def verify(hand: Hand, seen: Seen) -> None:
    """
    Once, and as seen; completion, error, cancel and abort exclude each other; nothing is left.
    """
    call, watcher = hand.call, hand.watcher
    assert len(set(seen.verdicts) - {None}) == 1
    assert sorted(seen.verdicts, key=lambda verdict: verdict is not None) == seen.verdicts
    terminals = [event for event in watcher.items if event.terminal]
    assert (call.verdict is Verdict.CANCELLED) == (terminals == [])
    assert (call.response.verdict, hand.types[:1], len(terminals) <= 1) == (call.verdict, ["RESPONSE_START"], True)
    if terminals:
        assert (violations(watcher.items), verdict_in(terminals[0]), watcher.items[-1] is terminals[0]) == ([], call.verdict, True)
        assert terminals[0].response is call.response
    raised = isinstance(watcher.error, KeyError)
    left = watcher.completed + watcher.failed == 0
    match terminals:
        case [ErrorEvent(error=error)]:
            assert raised or left or (watcher.error, watcher.failed, watcher.completed) == (error, 1, 0)
        case [_]:
            assert raised or left or (watcher.failed, watcher.completed) == (0, 1)
        case _:
            assert raised or left
    assert [body.left for body in hand.bodies] == [True] * len(hand.bodies)
    verify_timings(hand)


def verify_timings(hand: Hand) -> None:
    """
    In order, within the total budget, and as many attempts as requests.
    """
    timings = hand.call.timings
    times = [time for time in (timings.connected, timings.headers, timings.first_byte, timings.first_event, timings.ended) if time is not None]
    assert (times, timings.attempts, timings.ended is not None) == (sorted(times), len(hand.bodies), True)
    assert timings.attempts <= 3


def verdict_in(event: object) -> Verdict | None:
    """
    What a terminal says.
    """
    match event:
        case ErrorEvent(error=error):
            return verdict_of(error)
        case ResponseEnd(response=response) | Abort(response=response):
            return response.verdict
        case _:
            return None


@settings(max_examples=20_000 if EXHAUSTIVE else 400)
@given(st.lists(action, max_size=14), inside)
@example(["headers", "text", "finish", "done"], None)
@example(["headers", "text", "finish", "done"], (4, "time"))
@example(["refuse", 1.5, "headers", "text", "abort"], None)
@example(["refuse", 0.5, "abort"], None)
@example(["refuse", 0.5, "dispose"], None)
@example(["headers", "text"], (0, "raise"))
@example(["hold", 30.0, "release"], None)
@example(["headers", "text"], (4, "abort"))
@example(["abort", 1.0, "connect"], None)
def test_the_verdict_says_what_was_seen(actions: list[str | float], plan: tuple[int, str] | None) -> None:
    """
    V4: bytes, ends, resets, timeouts, aborts and disposals, at any moment, in any order, also from inside on_next.
    """
    asyncio.run(race(actions, plan))
