"""
The AWS event stream: messages, header types, checksums, lengths, limits.
"""

from __future__ import annotations

import struct
import uuid
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rxchat.errors import FramingError, IncompleteStreamError, LimitExceeded
from rxchat.framing.eventstream import MAX_HEADERS, MAX_PAYLOAD, AwsEventStreamFramer
from rxchat.framing.frames import AwsMessage
from rxchat.limits import Limits
from tests.framing.aws import header, message, prelude, sized, text
from tests.framing.driving import drive, same_for_all, some_cuts, split

ID = uuid.UUID("01020304-0506-4708-890a-0b0c0d0e0f10")

HEADERS: list[tuple[bytes, str, Any]] = [
    (header("h", 0, b""), "true", True),
    (header("h", 1, b""), "false", False),
    (header("h", 2, b"\x80"), "byte", -128),
    (header("h", 3, b"\x7f\xff"), "short", 32767),
    (header("h", 4, struct.pack(">i", -(2**31))), "int", -(2**31)),
    (header("h", 5, struct.pack(">q", 2**63 - 1)), "long", 2**63 - 1),
    (header("h", 6, sized(b"\0\xff")), "bytes", b"\0\xff"),
    (header("h", 7, sized("grüß🌱".encode())), "string", "grüß🌱"),
    (header("h", 7, sized(b"")), "string", ""),
    (header("h", 8, struct.pack(">q", -1)), "timestamp", -1),
    (header("h", 9, ID.bytes), "uuid", str(ID)),
]


@pytest.mark.parametrize("block, kind, value", HEADERS)
def test_header_types(block: bytes, kind: str, value: Any) -> None:
    """
    Each type of header, at every cut.
    """
    data = message(block, b"{}")
    expected = AwsMessage({"h": value}, b"{}", 0, len(data), {"h": kind})
    assert ([expected], None) == same_for_all(AwsEventStreamFramer, data)


def test_messages_in_a_row() -> None:
    """
    Messages back to back keep their order, positions and the order of their headers.
    """
    first, second = message(text(":event-type", "chunk") + text(":message-type", "event"), b"\0\xff"), message()
    frames, fault = same_for_all(AwsEventStreamFramer, first + second + first)
    assert fault is None
    assert [(0, len(first)), (len(first), len(first) + 16), (len(first) + 16, 2 * len(first) + 16)] == [(f.start, f.end) for f in frames]
    assert [(":event-type", "chunk"), (":message-type", "event")] == list(frames[2].headers.items())
    assert (b"\0\xff", {}, b"") == (frames[0].payload, frames[1].headers, frames[1].payload)


def test_promptness() -> None:
    """
    A message is out with its last byte.
    """
    counts: list[int] = []
    out: list[AwsMessage] = []
    framer = AwsEventStreamFramer()
    for byte in split(message() + message(b"", b"x"), 1):
        framer.feed(byte, out.append)
        counts.append(len(out))
    assert [0] * 15 + [1] * 17 + [2] == counts


GOOD = message(text("n", "1"), b"ok")
FAULTS: list[tuple[bytes, str, int]] = [
    (b"HTTP/1.1 502 Bad Gateway\r\n\r\n", "prelude_crc", 0),
    (GOOD[:8] + b"\0\0\0\0" + GOOD[12:], "prelude_crc", 0),
    (GOOD[:-1] + bytes([GOOD[-1] ^ 1]), "message_crc", 0),
    (GOOD + GOOD[:-3] + b"\0\0\0", "message_crc", 1),
    (prelude(15, 0) + b"\0\0\0\0", "length", 0),
    (prelude(20, 5) + b"\0" * 8, "length", 0),
    (prelude(MAX_HEADERS + 17, MAX_HEADERS + 1), "length", 0),
    (GOOD + prelude(MAX_PAYLOAD + 17, 0), "length", 1),
    (message(header("h", 10, b"")), "header", 0),
    (message(header("h", 7, b"\0\x09abc"), b"defghi"), "header", 0),
    (message(header("h", 7, b"\0")), "header", 0),
    (message(b"\x09h"), "header", 0),
    (message(b"\x01h"), "header", 0),
    (message(header("h", 4, b"\0\0"), b"\0\0"), "header", 0),
    (message(header("h", 9, b"\0" * 15)), "header", 0),
    (message(text("h", "1") + text("h", "2")), "header", 0),
    (message(header("h", 7, sized(b"\xff"))), "header", 0),
    (message(header(b"\xff", 0, b"")), "header", 0),
    (GOOD + b"\0", "truncated", 1),
    (GOOD[:11], "truncated", 0),
    (GOOD[:14], "truncated", 0),
    (GOOD[:-1], "truncated", 0),
]


@pytest.mark.parametrize("data, kind, count", FAULTS)
def test_faults(data: bytes, kind: str, count: int) -> None:
    """
    Good messages first, then the fault of its kind at the start of its message, at every cut.
    """
    frames, fault = same_for_all(AwsEventStreamFramer, data)
    assert fault is not None
    error = IncompleteStreamError if kind == "truncated" else FramingError
    assert (count, error, count * len(GOOD), kind) == (len(frames), *fault[:3])


@pytest.mark.parametrize("headers, payload", [(MAX_HEADERS, MAX_PAYLOAD), (0, MAX_PAYLOAD), (MAX_HEADERS, 0)])
def test_largest_announced(headers: int, payload: int) -> None:
    """
    The protocol's own bounds pass, to the byte.
    """
    _, fault = drive(AwsEventStreamFramer(), [prelude(16 + headers + payload, headers)])
    assert fault is not None
    assert (IncompleteStreamError, "truncated") == (fault[0], fault[2])


def test_refused_at_the_prelude() -> None:
    """
    What cannot be is refused with the prelude's last byte, and not before.
    """
    framer = AwsEventStreamFramer()
    announced = prelude(MAX_PAYLOAD + 17, 0)
    framer.feed(announced[:-1], lambda frame: None)
    with pytest.raises(FramingError, match="cannot be"):
        framer.feed(announced[-1:], lambda frame: None)


@pytest.mark.parametrize(
    "limits, data, count, passed",
    [
        (Limits(event=2), GOOD, 1, None),
        (Limits(event=3), GOOD, 1, None),
        (Limits(event=1), message() + GOOD, 1, ("event", 1, 16 + 12 + 6 + 1)),
        (Limits(event=1), message() + GOOD[:12], 1, ("event", 1, 16 + 12 + 6 + 1)),
        (Limits(total=len(GOOD)), GOOD, 1, None),
        (Limits(total=len(GOOD)), GOOD + b"\0", 1, ("total", len(GOOD), len(GOOD))),
        (Limits(total=5), GOOD, 0, ("total", 5, 5)),
        (Limits(line=1), GOOD, 1, None),
    ],
)
def test_limits(limits: Limits, data: bytes, count: int, passed: tuple[str, int, int] | None) -> None:
    """
    A payload is an event, refused when it is announced; the total counts every byte.
    """
    frames, fault = same_for_all(lambda: AwsEventStreamFramer(limits), data)
    assert (count, passed) == (len(frames), fault and (fault[4], fault[5], fault[1]))
    assert fault is None or fault[0] is LimitExceeded


def test_every_flipped_bit_is_seen() -> None:
    """
    No single flipped bit gives a message: checksum, length, or a stream that ends too early.
    """
    data = message(text("name", "value"), b"payload")
    for place in range(len(data) * 8):
        flipped = bytearray(data)
        flipped[place // 8] ^= 1 << place % 8
        frames, fault = drive(AwsEventStreamFramer(), [bytes(flipped)])
        assert ([], True) == (frames, fault is not None)


def test_large_payload() -> None:
    """
    A payload over many reads is one message.
    """
    data = message(b"", b"z" * 100_000) + message()
    frames, fault = same_for_all(AwsEventStreamFramer, data)
    assert ([100_000, 0], None) == ([len(frame.payload) for frame in frames], fault)


@given(st.lists(st.tuples(st.text(min_size=1, max_size=20), st.binary(max_size=30)), max_size=4), st.binary(max_size=20), st.integers())
def test_any_messages(parts: list[tuple[str, bytes]], rest: bytes, seed: int) -> None:
    """
    What was packed comes out, then whatever the rest is, the same at every cut.
    """
    data = b"".join(message(text("n", name), payload) for name, payload in parts) + rest
    frames, fault = same_for_all(AwsEventStreamFramer, data, some_cuts(data, seed))
    assert parts == [(frame.headers["n"], frame.payload) for frame in frames[: len(parts)]]
    assert (fault is None) == (not rest)
