"""
When what happened in a call, and what is still known of it afterwards.
"""

from __future__ import annotations

import pytest

from rxchat.client import ChatModel, HttpSettings, Retry
from rxchat.client.timings import Timings
from rxchat.errors import ConnectionLostError, Verdict
from tests.client.hand import Hand
from tests.client.watching import Serve, Watcher
from tests.loopback import DONE, FINISH, GOOD, answer, delta, frame

USAGE = b'data: {"choices":[],"usage":{"prompt_tokens":3,"completion_tokens":1,"total_tokens":4}}\n\n'


def told() -> Hand:
    """
    A call nobody has subscribed to, which retries without jitter.
    """
    return Hand.of(retry=Retry(jitter=0))


async def test_each_thing_has_its_time() -> None:
    """
    Seconds from the subscription, readable at any time, a snapshot each.
    """
    hand = told()
    assert (hand.call.timings, hand.call.attempts) == (Timings(), 0)
    hand.scheduler.advance_by(100)
    hand.begin()
    known = [hand.call.timings]
    for step in (
        lambda: hand.body.connect(),
        lambda: hand.body.headers(),
        lambda: hand.body.push(b": ping\n\n"),
        lambda: hand.body.push(frame(delta={"role": "assistant"})),
        lambda: hand.body.push(delta("Hel")),
        lambda: hand.body.push(delta("lo"), FINISH, DONE),
        lambda: hand,
    ):
        hand.wait(1)
        step()
        known.append(hand.call.timings)
    expected = [
        Timings(attempts=1),
        Timings(1.0, attempts=1),
        Timings(1.0, 2.0, attempts=1),
        Timings(1.0, 2.0, 3.0, attempts=1),
        Timings(1.0, 2.0, 3.0, attempts=1),
        Timings(1.0, 2.0, 3.0, 5.0, attempts=1),
        Timings(1.0, 2.0, 3.0, 5.0, 6.0, attempts=1),
        Timings(1.0, 2.0, 3.0, 5.0, 6.0, attempts=1),
    ]
    assert known == expected


async def test_those_of_the_last_attempt_count() -> None:
    """
    What the first attempt reached is not the second's; the clock is the subscription's.
    """
    hand = told().begin()
    hand.wait(1).body.connect()
    hand.wait(1).body.refuse(503)
    assert hand.call.timings == Timings(1.0, 2.0, 2.0, attempts=1)
    hand.wait(0.5)
    assert hand.call.timings == Timings(attempts=2)
    hand.wait(1).body.headers().push(*GOOD)
    assert hand.call.timings == Timings(3.5, 3.5, 3.5, 3.5, 3.5, attempts=2)


async def test_how_long_it_was_held() -> None:
    """
    All in all, also while it is held.
    """
    hand = told().begin()
    for seconds in (2, 3):
        hand.valve.hold()
        hand.wait(seconds)
        hand.valve.release()
        hand.wait(1)
    hand.valve.hold()
    hand.wait(0.5)
    assert hand.call.timings == Timings(stalled=5.5, attempts=1)
    hand.call.dispose()
    hand.wait(10)
    assert hand.call.timings == Timings(stalled=5.5, ended=7.5, attempts=1)


@pytest.mark.parametrize(
    "how, verdict",
    [("call", Verdict.CANCELLED), ("subscription", Verdict.CANCELLED), ("abort", Verdict.ABORTED), ("reset", Verdict.CONNECTION_LOST)],
)
async def test_what_was_known_stays_known(how: str, verdict: Verdict) -> None:
    """
    D1, U: usage, partial answer, verdict, timings; also after disposal.
    """
    hand = told().begin()
    hand.wait(1).body.headers().push(delta("Hel"), USAGE)
    hand.wait(1)
    match how:
        case "call":
            hand.call.dispose()
        case "subscription":
            hand.watcher.dispose()
        case "abort":
            hand.call.abort()
        case "reset":
            hand.body.fail(ConnectionLostError("reset"))
    hand.wait(50)
    call = hand.call
    assert call.usage is not None
    assert (call.verdict, call.response.verdict, call.response.text, call.usage.input_tokens) == (verdict, verdict, "Hel", 3)
    assert (call.timings, call.attempts) == (Timings(1.0, 1.0, 1.0, 1.0, 2.0, attempts=1), 1)


async def test_over_a_socket_they_are_in_order(serve: Serve) -> None:
    """
    Real ones, of two requests over one connection.
    """
    server = await serve(answer(*GOOD))
    async with ChatModel("m", base_url=server.url, settings=HttpSettings(retry=None)) as model:
        for _ in range(2):
            call = model.open("Hi")
            await Watcher().watch(call.events).end()
            timings = call.timings
            times = [timings.connected, timings.headers, timings.first_byte, timings.first_event, timings.ended]
            assert times == sorted(time for time in times if time is not None)
            assert (times[0] or 0) > 0
    assert server.seen[0].peer == server.seen[1].peer
