"""
Server-sent events: the standard's rules as rows, positions, stray lines, the end of the body, limits, promptness.
"""

from __future__ import annotations

import tracemalloc
from collections.abc import Iterator
from typing import Any

import pytest

from rxchat.errors import DecodeError, LimitExceeded
from rxchat.framing.frames import SseEvent, StrayText, Undispatched
from rxchat.framing.sse import SseFramer
from rxchat.limits import Limits
from rxchat.stage import run
from tests.framing.driving import drive, same_for_all, split

BOM = "\ufeff"


def plain(frames: list[Any]) -> list[Any]:
    """
    Frames without their positions: (event, data, id, retry), the text of stray lines, and what was held.
    """
    shown: list[Any] = []
    for frame in frames:
        if isinstance(frame, StrayText):
            shown.append(frame.text)
        elif isinstance(frame, Undispatched):
            shown.append(("held", *plain([frame.event] if frame.event else [])))
        else:
            shown.append((frame.event, frame.data, frame.id, frame.retry))
    return shown


def message(data: str, event: str = "message", id: str = "", retry: int | None = None) -> tuple[str, str, str, int | None]:
    return event, data, id, retry


ROWS: list[tuple[str, str, list[Any]]] = [
    # Line ends.
    ("lf", "data: a\n\ndata: b\n\n", [message("a"), message("b")]),
    ("crlf", "data: a\r\n\r\ndata: b\r\n\r\n", [message("a"), message("b")]),
    ("cr", "data: a\r\rdata: b\r\r", [message("a"), message("b")]),
    ("mixed in one event", "event: e\rdata: a\r\ndata: b\ndata: c\n\r\n", [message("a\nb\nc", "e")]),
    ("lf then cr", "data: a\n\rdata: b\r\n\n", [message("a"), message("b")]),
    ("crlf is one", "data: a\r\ndata: b\r\n\r\n", [message("a\nb")]),
    ("crlf with a lone cr", "data: a\rdata: b\r\n\r\ndata: c\r\n\r\n", [message("a\nb"), message("c")]),
    ("crlf with a lone lf", "data: a\ndata: b\r\n\r\nevent: e\ndata: c\r\n\r\n", [message("a\nb"), message("c", "e")]),
    ("blank lines", "\n\n\r\r\r\n\n\ndata: a\n\n\n\n\r\r", [message("a")]),
    ("blank lines between", "data: a\n\n\n\ndata: b\n\n\n", [message("a"), message("b")]),
    ("blank crlf lines between", "data: a\r\n\r\n\r\n\r\ndata: b\r\n\r\n\r\n", [message("a"), message("b")]),
    (
        "separators of others",
        "data: a\u2028b\u2029c\u0085d\x0be\x0cf\x1cg\x1dh\x1ei\n\n",
        [message("a\u2028b\u2029c\u0085d\x0be\x0cf\x1cg\x1dh\x1ei")],
    ),
    # Byte order mark.
    ("bom", BOM + "data: a\n\n", [message("a")]),
    ("bom before a comment", BOM + ": x\n\ndata: a\n\n", [message("a")]),
    ("two boms", BOM + BOM + "data: a\n\ndata: b\n\n", [BOM + "data: a", message("b")]),
    ("bom later", "data: a\n\n" + BOM + "data: b\n\n", [message("a"), BOM + "data: b"]),
    ("bom in data", "data: " + BOM + "\n\n", [message(BOM)]),
    ("bom only", BOM, []),
    # Comments.
    ("comments", ": a\n:\n\ndata: a\n: b\ndata: b\n:data: c\n\n: d\n\n", [message("a\nb")]),
    ("comment after an id", "id: 1\ndata: a\n\n: x\n\ndata: b\n\n", [message("a", id="1"), message("b", id="1")]),
    # Fields.
    ("no space", "data:a\nevent:e\nid:1\nretry:2\n\n", [message("a", "e", "1", 2)]),
    ("one space is dropped", "data:  a\ndata:   b\n\n", [message(" a\n  b")]),
    ("tab is kept", "data:\ta\ndata: \tb\n\n", [message("\ta\n\tb")]),
    ("nothing is trimmed", "data: a  \nevent: e \n\n", [message("a  ", "e ")]),
    ("first colon", "data: a: b\nevent: x:y\n\n", [message("a: b", "x:y")]),
    ("no colon", "data\n\ndata\ndata\n\n", [message(""), message("\n")]),
    ("empty data", "data:\n\ndata: \n\ndata:  \n\n", [message(""), message(""), message(" ")]),
    ("empty lines of data", "data: a\ndata\ndata:\ndata: b\n\n", [message("a\n\n\nb")]),
    ("nul in data", "data: a\0\n\n", [message("a\0")]),
    ("event without data", "event: e\n\ndata: a\n\n", [message("a")]),
    ("event without data, crlf", "event: e\r\n\r\nevent: f\r\ndata: a\r\n\r\n", [message("a", "f")]),
    ("empty event", "event: \ndata: a\n\nevent\ndata: b\n\nevent:\ndata: c\n\n", [message("a"), message("b"), message("c")]),
    ("last event wins", "event: e\nevent: f\ndata: a\n\n", [message("a", "f")]),
    ("event behind data", "data: a\nevent: e\n\n", [message("a", "e")]),
    ("event then data", "event: e\ndata: a\n\nevent: f\ndata: b\n\ndata: c\n\n", [message("a", "e"), message("b", "f"), message("c")]),
    ("event then data, crlf", "event: e\r\ndata: a\r\n\r\nevent: f\r\ndata: b\r\n\r\n", [message("a", "e"), message("b", "f")]),
    ("event then two data", "event: e\ndata: a\ndata: b\n\nevent: f\ndata: c\n\n", [message("a\nb", "e"), message("c", "f")]),
    ("event then comment", "event: e\n: x\ndata: a\n\nevent: f\ndata: \n\n", [message("a", "e"), message("", "f")]),
    ("event with cr", "event: e\rid: 1\r\ndata: a\r\n\r\nevent: f\r\ndata: b\rid: 2\r\n\r\n", [message("a", "e", "1"), message("b", "f", "2")]),
    ("kinds by turns", "data: a\n\nevent: e\ndata: b\n\n: c\n\ndata: d\n\n", [message("a"), message("b", "e"), message("d")]),
    ("id stays", "id: 1\ndata: a\n\ndata: b\n\nid\ndata: c\n\n", [message("a", id="1"), message("b", id="1"), message("c")]),
    ("id with nul", "id: 1\ndata: a\n\nid: 2\0\ndata: b\n\n", [message("a", id="1"), message("b", id="1")]),
    ("id alone", "id: 1\n\ndata: a\n\n", [message("a", id="1")]),
    ("retry", "retry: 5\ndata: a\n\nretry: 007\n\ndata: b\n\n", [message("a", retry=5), message("b", retry=7)]),
    ("retry is digits", "retry: 5\nretry: -1\nretry: 1x\nretry:\nretry\nretry:  6\nretry: \u0665\ndata: a\n\n", [message("a", retry=5)]),
    ("retry too long to read", "retry: " + "9" * 5000 + "\ndata: a\n\n", [message("a")]),
    ("text", "event: ö\ndata: 中🌱\nid: é\n\n", [message("中🌱", "ö", "é")]),
    # Lines that are no fields.
    ("stray", '{"error": 1}\n', ['{"error": 1}']),
    ("stray lines are joined", "<p>\na: b\n\n</p>\ndata: a\n\nx\n", ["<p>\na: b\n</p>", message("a"), "x"]),
    ("stray before each event", "x\n\ndata: a\n\ny\ndata: b\n\n", ["x", message("a"), "y", message("b")]),
    (
        "names compare exactly",
        "Data: a\ndata : b\n data: c\ndatas: d\nretries: 1\ndata=e\n\n",
        ["Data: a\ndata : b\n data: c\ndatas: d\nretries: 1\ndata=e"],
    ),
    ("a line of one space", "data: a\n \ndata: b\n\n", [" ", message("a\nb")]),
    ("stray in an event", "event: e\nfoo: bar\ndata: a\n\n", ["foo: bar", message("a", "e")]),
    # The end of the body.
    ("empty", "", []),
    ("blank", "\n\r\n", []),
    ("no blank line", "data: a\n\ndata: b\n", [message("a"), ("held", message("b"))]),
    ("no blank line, cr", "data: a\r\rdata: b\r", [message("a"), ("held", message("b"))]),
    ("no line end", "data: a\n\ndata: b", [message("a"), ("held", message("b"))]),
    ("held with id and event", "id: 1\ndata: a\n\nid: 2\nevent: e\ndata: b\ndata: c", [message("a", id="1"), ("held", message("b\nc", "e", "2"))]),
    ("held without data", "event: e\n", [("held",)]),
    ("held line without data", "event: e", [("held",)]),
    ("held id line", "id: 1", [("held",)]),
    ("id line without data", "id: 1\n", []),
    ("retry line", "retry: 1\n", []),
    ("last comment", "data: a\n\n: x", [message("a")]),
    ("last comment line", "data: a\n\n: x\n", [message("a")]),
    ("comment behind held data", "data: a\n: x", [("held", message("a"))]),
    ("unterminated stray", "data: a\n\n{}", [message("a"), "{}", ("held",)]),
    ("unterminated stray behind data", "data: a\nerror: {}", ["error: {}", ("held", message("a"))]),
    ("stray and held", "x\ny: z\ndata: a\ndat", ["x\ny: z\ndat", ("held", message("a"))]),
    ("done without blank line", "data: [DONE]", [("held", message("[DONE]"))]),
]


@pytest.mark.parametrize("body, expected", [row[1:] for row in ROWS], ids=[row[0] for row in ROWS])
def test_rules(body: str, expected: list[Any]) -> None:
    """
    The standard's rules and those of contract P8 and P9, at every cut.
    """
    frames, fault = same_for_all(SseFramer, body.encode())
    assert (expected, None) == (plain(frames), fault)


def test_state_for_reconnecting() -> None:
    """
    Last event id and retry are those in force; an id in an event that was not dispatched does not count.
    """
    framer = SseFramer()
    drive(framer, [b"id: 1\n\nretry: 30\nid: 2\ndata: a\n"])
    assert ("1", 30) == (framer.last_event_id, framer.retry)


def test_text_in_place_of_bytes() -> None:
    """
    Text is taken as its UTF-8; a lone surrogate in it is a fault where it stands, behind what is before it.
    """
    assert drive(SseFramer(), [BOM + "data: ö\n", "\ndata", ": a\n\n"]) == drive(SseFramer(), ["\ufeffdata: ö\n\ndata: a\n\n".encode()])
    frames, fault = drive(SseFramer(), ["data: ö\n\nx\nda", "ta: \ud800\n\n"])
    assert [message("ö"), "x"] == plain(frames)
    assert fault is not None
    assert (DecodeError, 18) == fault[:2]


# --- positions ------------------------------------------------------------------------------------------------------------------------------------


POSITIONS: list[tuple[str, list[tuple[int, int, int]]]] = [
    ("data: a\n\ndata: b\n\n", [(0, 9, 6), (9, 18, 15)]),
    ("data: a\r\n\r\ndata: b\r\n\r\n", [(0, 10, 6), (11, 21, 17)]),
    ("data: a\r\rdata: b\r\r", [(0, 9, 6), (9, 18, 15)]),
    ("event: e\ndata: a\n\n", [(0, 18, 15)]),
    ("event: e\r\ndata: a\r\n\r\nevent: f\r\ndata: b\r\n\r\n", [(0, 20, 16), (21, 41, 37)]),
    (": x\n\ndata:a\n\n", [(5, 13, 10)]),
    ("x\nid: 1\ndata\ndata: a\n\n", [(2, 22, 12)]),
    (BOM + "data: a\n\n", [(3, 12, 9)]),
    ("data: ö\ndata: a\n\nretry: 1\n\n: x\ndata: b\n\n", [(0, 18, 6), (32, 41, 38)]),
]


@pytest.mark.parametrize("body, expected", POSITIONS)
def test_positions(body: str, expected: list[tuple[int, int, int]]) -> None:
    """
    `start` is the first field, `end` behind the byte that ended the blank line (of CRLF the CR), `data_start` the first data.
    """
    frames, _ = same_for_all(SseFramer, body.encode())
    assert expected == [(frame.start, frame.end, frame.data_start) for frame in frames if isinstance(frame, SseEvent)]


def test_positions_of_what_is_no_event() -> None:
    """
    Stray lines reach from the first to the end of the last; what is held from its first field to the end of the body.
    """
    frames, _ = same_for_all(SseFramer, b"data: a\n\nxy\n\n: c\nz: ?\nevent: e\ndata: b")
    assert [StrayText("xy\nz: ?", 9, 21), Undispatched(SseEvent(b"b", "e", "", None, 22, 38, 37), 22, 38)] == frames[1:]


@pytest.mark.parametrize(
    "body, at",
    [
        (b"data: a\n\ndata: b\n\n", [9, 18]),
        (b"data: a\r\rdata: b\r\r", [9, 18]),
        (b"data: a\r\n\r\ndata: b\r\n\r\n", [10, 21]),
        (b"data: a\n\rdata: b\r\n\n", [9, 19]),
        (b"event: e\ndata: a\n: x\n\n", [22]),
    ],
)
def test_promptness(body: bytes, at: list[int]) -> None:
    """
    An event is out with the byte that ends its blank line: a CR does not wait for an LF.
    """
    framer = SseFramer()
    seen: list[int] = []
    for taken, byte in enumerate(split(body, 1), start=1):
        out: list[Any] = []
        framer.feed(byte, out.append)
        seen += [taken] * len(out)
    assert at == seen


# --- faults ---------------------------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "body, expected, offset",
    [
        (b"data: a\xff\n\n", [], 7),
        (b"data: a\n\ndata: \xc3(\n\n", [message("a")], 15),
        (b"data: a\n\ndata: \xe4\xbd\n\n", [message("a")], 15),
        (b"data: a\n\ndata: \xf0\x9f\x8c", [message("a")], 15),
        (b"data: a\n\n\xed\xa0\x80", [message("a")], 9),
        (b"x\ndata: a\ny\n\xff", ["x\ny"], 12),
        (b"\xef\xbb\xbfdata: a\n\n\xef\xbb", [message("a")], 12),
        (b"\xef\xbb", [], 0),
    ],
)
def test_invalid_utf8(body: bytes, expected: list[Any], offset: int) -> None:
    """
    All before the bad sequence is delivered, stray lines too, then its first byte is the error's offset (contract B1, E10).
    """
    frames, fault = same_for_all(SseFramer, body)
    assert expected == plain(frames)
    assert fault is not None
    assert (DecodeError, offset) == fault[:2]


def limited(limits: Limits, body: bytes) -> tuple[list[Any], tuple[str, int, int] | None]:
    """
    What comes out under limits at every cut, and the limit that was passed, its value and where.
    """
    frames, fault = same_for_all(lambda: SseFramer(limits), body)
    if fault is None:
        return plain(frames), None
    error, offset, _, _, limit, value = fault
    assert error is LimitExceeded
    return plain(frames), (limit, value, offset)


LIMITS: list[tuple[str, Limits, bytes, list[Any], tuple[str, int, int] | None]] = [
    ("line -1", Limits(line=10), b"data: 123\n\n", [message("123")], None),
    ("line 0", Limits(line=10), b"data: 1234\n\n", [message("1234")], None),
    ("line +1", Limits(line=10), b"data: 12345\n\n", [], ("line", 10, 10)),
    ("line, unending", Limits(line=10), b"data: a\n\ndata: 12345", [message("a")], ("line", 10, 19)),
    ("line of a comment", Limits(line=10), b": 345678901\n\n", [], ("line", 10, 10)),
    ("line of an event", Limits(line=10), b"event: 7890\n\n", [], ("line", 10, 10)),
    ("line, crlf not counted", Limits(line=10), b"data: 1234\r\n\r\n", [message("1234")], None),
    ("line, bom not counted", Limits(line=10), b"\xef\xbb\xbfdata: 1234\n\n", [message("1234")], None),
    ("line counts bytes", Limits(line=10), "data: 🌱\n\n".encode(), [message("🌱")], None),
    ("line counts bytes, +1", Limits(line=9), "data: 🌱\n\n".encode(), [], ("line", 9, 9)),
    ("line before event", Limits(line=8, event=4), b"data: 7890", [], ("line", 8, 8)),
    ("event before line", Limits(line=9, event=2), b"data: 7890", [], ("event", 2, 8)),
    ("line after good ones", Limits(line=10), b"x\nid: 1\ndata: a\ndata: 12345\n\n", ["x"], ("line", 10, 26)),
    ("event -1", Limits(event=7), b"data: 12\ndata: 4\n\n", [message("12\n4")], None),
    ("event 0", Limits(event=7), b"data: 123\ndata:67\n\n", [message("123\n67")], None),
    ("event +1", Limits(event=7), b"data: 123\ndata:678\n\n", [], ("event", 7, 18)),
    ("event +1 inside a line", Limits(event=7), b"data: 123\ndata:6789", [], ("event", 7, 18)),
    ("event, one line", Limits(event=3), b"data: 12\n\n", [message("12")], None),
    ("event, one line +1", Limits(event=3), b"data: 123\n\n", [], ("event", 3, 9)),
    ("event, no colon", Limits(event=2), b"data\ndata\n\n", [message("\n")], None),
    ("event, no colon +1", Limits(event=2), b"data\ndata\ndata\n\n", [], ("event", 2, 14)),
    ("event, no space", Limits(event=3), b"data:123\n\n", [], ("event", 3, 8)),
    ("event counts bytes", Limits(event=5), "data: 🌱\n\n".encode(), [message("🌱")], None),
    ("event counts bytes, +1", Limits(event=4), "data: 🌱\n\n".encode(), [], ("event", 4, 10)),
    ("event is each its own", Limits(event=3), b"data: 12\n\ndata: 12\n\n", [message("12"), message("12")], None),
    ("event without data", Limits(event=3), b"event: long\nid: long\n\ndata: 1\n\n", [message("1", id="long")], None),
    ("stray 0", Limits(event=7), b"12\n456\n", ["12\n456"], None),
    ("stray +1", Limits(event=7), b"12\n4567\n", ["12"], ("event", 7, 7)),
    ("stray is each its own", Limits(event=7), b"12345\ndata: 1\n\n12345\n", ["12345", message("1"), "12345"], None),
    ("total -1", Limits(total=10), b"data: a\n\n", [message("a")], None),
    ("total 0", Limits(total=10), b"data: a\n\n\n", [message("a")], None),
    ("total +1", Limits(total=10), b"data: a\n\n\n\n", [message("a")], ("total", 10, 10)),
    ("total of comments", Limits(total=10), b": 34567890123", [], ("total", 10, 10)),
    ("total counts the bom", Limits(total=11), b"\xef\xbb\xbfdata: a\n\n", [], ("total", 11, 11)),
    ("total counts bytes", Limits(total=12), "data: 🌱\n\n".encode(), [message("🌱")], None),
    ("total counts bytes, +1", Limits(total=11), "data: 🌱\n\n".encode(), [], ("total", 11, 11)),
    ("total in a character", Limits(total=8), "data: 🌱\n\n".encode(), [], ("total", 8, 8)),
    ("line before total", Limits(line=8, total=9), b"data: 789012", [], ("line", 8, 8)),
    ("total before line", Limits(line=9, total=9), b"x\ndata: 9012345", ["x"], ("total", 9, 9)),
    ("long line, crlf", Limits(line=40_000), b"data: " + b"x" * 39_994 + b"\r\n\r\ndata: a\r\n\r\n", [message("x" * 39_994), message("a")], None),
    ("long line +1", Limits(line=40_000), b"data: " + b"x" * 39_995 + b"\n\n", [], ("line", 40_000, 40_000)),
]


@pytest.mark.parametrize("limits, body, expected, passed", [row[1:] for row in LIMITS], ids=[row[0] for row in LIMITS])
def test_limits(limits: Limits, body: bytes, expected: list[Any], passed: tuple[str, int, int] | None) -> None:
    """
    Each limit at -1, 0 and +1, in bytes; all before is delivered; the offset is the first byte too many, at every cut (contract B5).
    """
    assert (expected, passed) == limited(limits, body)


@pytest.mark.parametrize(
    "body, expected",
    [
        (b"data: 7\xff", DecodeError),
        (b"data: 78\xff", DecodeError),
        (b"data: 789\xff", LimitExceeded),
        (b"data: 7\xe4\xbd", DecodeError),
        (b"data: 7\xe4\xbd\xa0", LimitExceeded),
    ],
)
def test_limit_or_utf8(body: bytes, expected: type[Exception]) -> None:
    """
    Of a limit and bad UTF-8 the one that stands first counts, at every cut.
    """
    _, fault = same_for_all(lambda: SseFramer(Limits(line=8)), body)
    assert fault is not None
    assert expected is fault[0]


@pytest.mark.parametrize("size", [1, 7, 1000])
def test_unending_line(size: int) -> None:
    """
    A line without end is refused as soon as it is too long, and no more than that is ever held.
    """
    reads = 0

    def endless() -> Iterator[bytes]:
        nonlocal reads
        while True:
            reads += 1
            yield b"x" * size

    tracemalloc.start()
    _, fault = drive(SseFramer(Limits(line=100_000)), endless())
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert fault is not None
    assert (LimitExceeded, 100_000) == fault[:2]
    assert (reads - 1) * size <= 100_000 < reads * size
    assert peak < 300_000


@pytest.mark.parametrize("block", [b": ping\n\n", b"\n", b"\r\n", b"id: 1\n\n", b"event: e\n", b"data: x\n\n"])
def test_flat_memory(block: bytes) -> None:
    """
    What is not kept for an event is not kept at all.
    """
    framer = SseFramer()
    framer.feed(block * 100, lambda frame: None)
    tracemalloc.start()
    for _ in range(2000):
        framer.feed(block, lambda frame: None)
    held = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    assert held < 4096


# --- long lines, many lines -----------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("end", [b"\n", b"\r\n", b"\r"])
@pytest.mark.parametrize("name", [b"data: ", b"data:", b"data", b"x"])
@pytest.mark.parametrize("size", [40_000, 70_000, 200_000])
def test_long_lines(size: int, name: bytes, end: bytes) -> None:
    """
    Lines longer than reads are framed like short ones, whatever kind they are.
    """
    line = name + b"y" * size + b"\xc3\xb6"
    body = b"event: e" + end + line + end + end + b"data: after" + end + end
    ways = [split(body, part) for part in (7, 997, 16_384, 39_990, 65_536)]
    frames, fault = same_for_all(SseFramer, body, ways)
    assert fault is None
    shown = plain(frames)
    if name.startswith(b"data:"):
        assert [message("y" * size + "ö", "e"), message("after")] == shown
    else:
        assert [line.decode(), message("after")] == shown


def test_cr_behind_a_long_line_at_the_end_of_a_read() -> None:
    """
    The LF of a line end that a read cut in two is swallowed, also behind a long line.
    """
    line = b"data: " + b"y" * 40_000
    frames, fault = drive(SseFramer(), [line, b"z\r", b"\n\r", b"\ndata: a\r\n\r\n"])
    assert ([message("y" * 40_000 + "z"), message("a")], None) == (plain(frames), fault)


def test_many_data_lines() -> None:
    """
    Ten thousand data lines are one event.
    """
    body = b"data: x\n" * 10_000 + b"\ndata: a\n\n"
    frames, _ = same_for_all(SseFramer, body)
    assert [message("\n".join(["x"] * 10_000)), message("a")] == plain(frames)


def test_what_emit_raises_goes_through() -> None:
    """
    What the consumer raises is not touched (stage rule 6), and what was emitted before stays.
    """

    class Stop(BaseException):
        pass

    seen: list[Any] = []

    def emit(frame: Any) -> None:
        seen.append(frame)
        if len(seen) == 2:
            raise Stop

    with pytest.raises(Stop):
        SseFramer().feed(b"data: a\n\ndata: b\n\ndata: c\n\n", emit)
    assert [message("a"), message("b")] == plain(seen)


def test_as_an_iterator() -> None:
    """
    The framer runs under the plain driver: frames before a fault come first.
    """
    frames = run(SseFramer(Limits(line=10)), [b"data: a\n\nda", b"ta: 123456"])
    assert SseEvent(b"a", start=0, end=9, data_start=6) == next(frames)
    with pytest.raises(LimitExceeded, match="line=10"):
        next(frames)
