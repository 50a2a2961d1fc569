"""
Newline-delimited JSON: records, positions, faults, limits.
"""

from __future__ import annotations

import tracemalloc
from typing import Any

import pytest

from rxchat.errors import DecodeError, IncompleteStreamError, InvalidJSONError, LimitExceeded
from rxchat.framing.frames import JsonRecord
from rxchat.framing.ndjson import NdjsonFramer
from rxchat.limits import Limits
from tests.framing.driving import drive, same_for_all, split

ROWS: list[tuple[bytes, list[Any]]] = [
    (b"", []),
    (b'{"a":1}\n', [{"a": 1}]),
    (b'{"a":1}\r\n[2]\n', [{"a": 1}, [2]]),
    (b'\n\r\n \t\n{"a":1}\n\n2\n', [{"a": 1}, 2]),
    (b'{"a":1}\n{"b":2}', [{"a": 1}, {"b": 2}]),
    (b'{"a":1}\n{"b":2} \r', [{"a": 1}, {"b": 2}]),
    (b'{"a":\r1}\n  ', [{"a": 1}]),
    (b"\xef\xbb\xbf1\n2\n", [1, 2]),
    (b"\xef\xbb\xbf", []),
    ('{"t":"a\u2028b\u2029c\u0085é🌱"}\n'.encode(), [{"t": "a\u2028b\u2029c\u0085é🌱"}]),
    (b'1\n"x"\nnull\ntrue\n18446744073709551617\n', [1, "x", None, True, 18446744073709551617]),
    (b'"' + b"x" * 5000 + b'"\n1\n', ["x" * 5000, 1]),
]


@pytest.mark.parametrize("data, expected", ROWS)
def test_records(data: bytes, expected: list[Any]) -> None:
    """
    One value a line, at every cut.
    """
    frames, fault = same_for_all(NdjsonFramer, data)
    assert (expected, None) == ([frame.value for frame in frames], fault)


def test_positions() -> None:
    """
    A record reaches over its line, without the LF.
    """
    frames, _ = same_for_all(NdjsonFramer, b'\n{"a":1}\r\n 2 \n3')
    assert [JsonRecord({"a": 1}, 1, 9), JsonRecord(2, 10, 13), JsonRecord(3, 14, 15)] == frames


FAULTS: list[tuple[bytes, list[Any], type[Exception], int]] = [
    (b"1\nno\n2\n", [1], InvalidJSONError, 3),
    (b"1\n{}{}\n", [1], InvalidJSONError, 4),
    (b"1\r2\n", [], InvalidJSONError, 2),
    (b"1\n\x0b\n", [1], InvalidJSONError, 2),
    (b'1\n{"a":1,"a":2}\n', [1], InvalidJSONError, 13),
    (b"1\n\xef\xbb\xbf2\n", [1], InvalidJSONError, 2),
    (b'1\n{"a":\n', [1], InvalidJSONError, 7),
    (b'1\n{"a":', [1], IncompleteStreamError, 2),
    (b"1\nno", [1], IncompleteStreamError, 2),
    (b'1\n{"a":"\xff"}\n', [1], DecodeError, 8),
    (b'1\n{"a":"\xe4\xbd', [1], DecodeError, 8),
]


@pytest.mark.parametrize("data, expected, error, offset", FAULTS)
def test_faults(data: bytes, expected: list[Any], error: type[Exception], offset: int) -> None:
    """
    The records before, then the fault where it stands; an unterminated last line that is no JSON is a truncated stream.
    """
    frames, fault = same_for_all(NdjsonFramer, data)
    assert fault is not None
    assert (expected, error, offset) == ([frame.value for frame in frames], *fault[:2])


LIMITS: list[tuple[Limits, bytes, int, tuple[str, int, int] | None]] = [
    (Limits(line=6), b'1\n"234"\n', 2, None),
    (Limits(line=6), b'1\n"2345"\n', 2, None),
    (Limits(line=6), b'1\n"23456"\n', 1, ("line", 6, 8)),
    (Limits(line=6), b'1\n"23456789', 1, ("line", 6, 8)),
    (Limits(line=6), b'1\n"2345"\r\n', 1, ("line", 6, 8)),
    (Limits(line=6), '"🌱"\n'.encode(), 1, None),
    (Limits(line=5), '"🌱"\n'.encode(), 0, ("line", 5, 5)),
    (Limits(event=6), b'1\n"23456"\n', 1, ("event", 6, 8)),
    (Limits(line=6, event=6), b'1\n"23456"\n', 1, ("line", 6, 8)),
    (Limits(line=6), b"\xef\xbb\xbf      \n1\n", 1, None),
    (Limits(total=4), b"1\n2\n", 2, None),
    (Limits(total=4), b"1\n2\n\n", 2, ("total", 4, 4)),
    (Limits(total=4), b"1\n234567", 1, ("total", 4, 4)),
]


@pytest.mark.parametrize("limits, data, count, passed", LIMITS)
def test_limits(limits: Limits, data: bytes, count: int, passed: tuple[str, int, int] | None) -> None:
    """
    Each limit at -1, 0 and +1, in bytes, the records before it delivered.
    """
    frames, fault = same_for_all(lambda: NdjsonFramer(limits), data)
    assert (count, passed) == (len(frames), fault and (fault[4], fault[5], fault[1]))


def test_depth_limit() -> None:
    """
    `json_depth` containers pass, one more is INVALID_JSON.
    """
    _, fault = drive(NdjsonFramer(Limits(json_depth=2)), [b"[[]]\n[[[]]]\n"])
    assert fault is not None
    assert (InvalidJSONError, 7, None, "depth") == fault[:4]


def test_unending_line() -> None:
    """
    A line without end is refused when it is too long.
    """
    _, fault = drive(NdjsonFramer(Limits(line=50_000)), [b"x"] * 60_000)
    assert fault is not None
    assert (LimitExceeded, 50_000) == fault[:2]


@pytest.mark.parametrize("line", [b"\n", b"  \r\n", b'{"a":1}\n'])
def test_flat_memory(line: bytes) -> None:
    """
    Nothing is kept of lines that are over.
    """
    framer = NdjsonFramer()
    framer.feed(line * 100, lambda frame: None)
    tracemalloc.start()
    for _ in range(2000):
        framer.feed(line, lambda frame: None)
    held = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    assert held < 4096


def test_record_is_out_with_its_line_end() -> None:
    """
    A record waits for its LF and for nothing else.
    """
    framer = NdjsonFramer()
    counts: list[int] = []
    out: list[JsonRecord] = []
    for byte in split(b"1\n22\r\n", 1):
        framer.feed(byte, out.append)
        counts.append(len(out))
    assert [0, 1, 1, 1, 1, 2] == counts
