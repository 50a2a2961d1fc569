"""
To test with: bodies cut in every way, replayed without a network, and a check of what the contract asks of every dialect.

    check_dialect("my-dialect", [Path("answer.sse"), (Path("stream.sse"), Path("body.json"))])

raises AssertionError with all that is wrong, or tells what was tried. `replay` reads one body, `cuts` gives the ways to cut it, `grammar_violations` looks at
events alone, `events_from_marbles` and `marbles_of` draw them in virtual time, and `VirtualClock` makes time pass for streams on a real event loop.

    async with FakeProvider([FakeAnswer("Hello."), Fault(status=503)]) as provider:
        model = provider.model("anthropic")

is a real server on loopback for the tests of an application: its answers, and what goes wrong with them, are a script.
"""

from __future__ import annotations

from rxchat.testing.answers import FakeAnswer, FakeBody
from rxchat.testing.asked import FakeRequest
from rxchat.testing.bodies import Body, BodyLike, cuts, split_at
from rxchat.testing.checks import BodyOrPair, DialectReport, check_dialect
from rxchat.testing.faults import Fault, Faulty
from rxchat.testing.grammar import grammar_violations
from rxchat.testing.marbles import events_from_marbles, marbles_of
from rxchat.testing.provider import FakeProvider
from rxchat.testing.replays import Replay, replay
from rxchat.testing.virtual import VirtualClock

__all__ = [
    "Body",
    "BodyLike",
    "BodyOrPair",
    "DialectReport",
    "FakeAnswer",
    "FakeBody",
    "FakeProvider",
    "FakeRequest",
    "Fault",
    "Faulty",
    "Replay",
    "VirtualClock",
    "check_dialect",
    "cuts",
    "events_from_marbles",
    "grammar_violations",
    "marbles_of",
    "replay",
    "split_at",
]
