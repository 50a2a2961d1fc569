"""
What holds of every framer for any bytes at any cut: one outcome, only frames or our own errors, and for SSE that of a simple reference.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rxchat.framing import FRAMERS, framer_for
from rxchat.framing.frames import AwsMessage, JsonBody, JsonRecord, SseEvent, StrayText, Undispatched
from rxchat.framing.sse import SseFramer
from rxchat.limits import Limits
from tests.framing.aws import message, text
from tests.framing.driving import drive, same_for_all, some_cuts
from tests.framing.reference import Reference
from tests.shared_data import EXHAUSTIVE

SSE_PIECES = [
    *(b"\n", b"\r", b"\r\n", b"\n\n", b"\r\r", b"\r\n\r\n", b" ", b":", b"x", b"data", b"data:", b"data: ", b"event: ", b"id: ", b"retry: 7", b": c"),
    *(
        b"\n\ndata: ",
        b"\n\nevent: e\ndata: ",
        b"\r\n\r\ndata: ",
        b"\r\n\r\nevent: e\r\ndata: ",
        b"data: a\n\n",
        b"event: e\ndata: a\n\n",
        b"event: longer\ndata: b\n\n",
        b"\n\nevent: longer\ndata: ",
        b"foo: bar\n",
    ),
    *(
        "é".encode(),
        "中".encode(),
        "🌱".encode(),
        b"\xef\xbb\xbf",
        b"\xff",
        b"\xe4\xbd",
        b"\0",
        b'{"a":1}',
        b"id: 1\0\n",
        b"retry\n",
        b"event\n",
        b"id\n",
    ),
]
JSON_PIECES = [
    *(b"{", b"}", b"[", b"]", b",", b":", b'"', b"\\", b" ", b"\n", b"\r\n", b'{"a":1}', b'"b":', b"1", b"true", b"e9", b"{}\n", b"{},", b"[{}"),
    *("é".encode(), "🌱".encode(), b"\xef\xbb\xbf", b"\xff", b"\xe4", b"\0", b'"\\""', b'"]"', b"x"),
]
AWS_PIECES = [message(), message(text("a", "b"), b"{}"), b"\0", b"\xff", b"\0\0\0\x10", message()[:12], message()[12:]]
PIECES = {"sse": SSE_PIECES, "ndjson": JSON_PIECES, "json-array": JSON_PIECES, "json": JSON_PIECES, "aws-eventstream": AWS_PIECES}

small = st.integers(0, 24)
limits = st.builds(Limits, line=small, event=small, total=st.integers(0, 80)) | st.just(Limits())


def bodies(name: str) -> st.SearchStrategy[bytes]:
    """
    Near-protocol bytes, and any bytes.
    """
    return st.lists(st.sampled_from(PIECES[name]), max_size=14).map(b"".join) | st.binary(max_size=40)


@pytest.mark.parametrize("name", sorted(FRAMERS))
@given(st.data())
def test_any_bytes(name: str, data: st.DataObject) -> None:
    """
    Frames and our own errors, nothing else; frames, error and offsets the same at every cut (contract E9); ranges in order and within the body.
    """
    body, bounds = data.draw(bodies(name)), data.draw(limits)
    frames, fault = same_for_all(lambda: framer_for(name, bounds), body, some_cuts(body, len(body)))
    kinds = (SseEvent, StrayText, Undispatched, JsonRecord, JsonBody, AwsMessage)
    assert all(isinstance(frame, kinds) and 0 <= frame.start <= frame.end <= len(body) for frame in frames)
    if fault is not None:
        assert fault[1] is not None
        assert 0 <= fault[1] <= len(body)


@given(bodies("sse"), limits)
def test_sse_like_the_reference(body: bytes, bounds: Limits) -> None:
    """
    The outcome of the reference: events, ranges, stray lines, what is held, limits and faults.
    """
    expected = Reference(bounds).outcome(body)
    assert expected == same_for_all(lambda: SseFramer(bounds), body, some_cuts(body, len(body)))


def many(pieces: list[bytes], seed: int, count: int, longest: int) -> Iterator[tuple[random.Random, bytes]]:
    """
    Many random bodies, cheaper than by hypothesis.
    """
    dice = random.Random(seed)
    for _ in range(count):
        yield dice, b"".join(dice.choices(pieces, k=dice.randrange(1, longest)))


def random_limits(dice: random.Random) -> Limits:
    """
    Often none that matter.
    """
    if dice.random() < 0.5:
        return Limits()
    return Limits(line=dice.randrange(30), event=dice.randrange(30), total=dice.randrange(20, 120))


def test_sse_like_the_reference_many_times() -> None:
    """
    Thousands of streams of the usual and unusual shapes, one random cut each and the whole.
    """
    for dice, body in many(SSE_PIECES, 1, 100_000 if EXHAUSTIVE else 6000, 24):
        bounds = random_limits(dice)
        expected = Reference(bounds).outcome(body)
        marks = sorted(dice.randrange(len(body) + 1) for _ in range(dice.randrange(6)))
        reads = [body[a:b] for a, b in zip([0, *marks], [*marks, len(body)], strict=True)]
        for way in ([body], reads):
            assert (body, bounds, expected) == (body, bounds, drive(SseFramer(bounds), way))


def test_sse_state_like_the_reference() -> None:
    """
    Last event id and reconnection time are those of the reference.
    """
    for _, body in many(SSE_PIECES, 2, 10_000 if EXHAUSTIVE else 1000, 16):
        reference, framer = Reference(Limits()), SseFramer()
        reference.outcome(body)
        drive(framer, [body[:7], body[7:]])
        assert (body, reference.last_id, reference.retry) == (body, framer.last_event_id, framer.retry)


USUAL: list[tuple[str, Callable[[int], bytes]]] = [
    ("data", lambda k: b'data: {"n":%d}\n\n' % k),
    ("event and data", lambda k: b'event: e%d\ndata: {"n":%d}\n\n' % (k, k)),
    ("crlf", lambda k: b'data: {"n":%d}\r\n\r\n' % k),
    ("event and data, crlf", lambda k: b'event: e%d\r\ndata: {"n":%d}\r\n\r\n' % (k, k)),
    ("cr", lambda k: b'event: e%d\rdata: {"n":%d}\r\r' % (k, k)),
    ("one name", lambda k: b'event: e\ndata: {"n":%d}\n\n' % k),
    ("names in runs", lambda k: b'event: %s\ndata: {"n":%d}\n\n' % ((b"a", b"longer")[k // 5 % 2], k)),
    ("names in runs, crlf", lambda k: b'event: %s\r\ndata: {"n":%d}\r\n\r\n' % ((b"a", b"longer")[k // 5 % 2], k)),
    ("stray lines between", lambda k: b"event: e\ndata: a\n\n" if k % 4 else b"stray %d\n\n" % k),
    ("by turns", lambda k: b"data: a\n\n" if k % 2 else b": ping\n\nevent: e\ndata: b\n\n"),
    ("ids", lambda k: b"id: %d\nevent: e\n:HTTP/200\ndata:{}\n\n" % k),
]


@pytest.mark.parametrize("make", [make for _, make in USUAL], ids=[name for name, _ in USUAL])
@pytest.mark.parametrize("size", [1, 2, 3, 5, 13, 64, 333, 1400, 100_000])
def test_usual_streams(make: Callable[[int], bytes], size: int) -> None:
    """
    Streams as providers send them, of 300 events, at many read sizes.
    """
    body = b"\xef\xbb\xbf" + b"".join(make(k) for k in range(300)) + b"data: [DONE]\n\n"
    expected = Reference(Limits()).outcome(body)
    assert expected == drive(SseFramer(), [body[k : k + size] for k in range(0, len(body), size)])


@pytest.mark.parametrize("name", sorted(FRAMERS))
def test_fuzz(name: str) -> None:
    """
    Good bodies with bytes flipped, dropped and doubled: one outcome at every cut, and never a foreign error.
    """
    count = 5000 if EXHAUSTIVE else 300
    seen: set[Any] = set()
    for dice, body in many(PIECES[name], 3, count, 20):
        mutated = bytearray(body)
        for _ in range(dice.randrange(4)):
            at = dice.randrange(len(mutated) + 1)
            mutated[at : at + dice.randrange(2)] = bytes([dice.randrange(256)])
        data = bytes(mutated)
        _, fault = same_for_all(lambda: framer_for(name, Limits()), data, some_cuts(data, len(data), 3))
        seen.add(fault and fault[0])
    assert len(seen) > 1
