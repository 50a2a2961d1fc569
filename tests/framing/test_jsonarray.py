"""
A streamed JSON array: elements as they come, its end, and what is no array.
"""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rxchat.errors import ContentTypeError, DecodeError, FramingError, IncompleteStreamError, InvalidJSONError, LimitExceeded
from rxchat.framing.frames import JsonBody, JsonRecord
from rxchat.framing.jsonarray import JsonArrayFramer
from rxchat.limits import Limits
from rxchat.strictjson import dumps
from tests.framing.driving import drive, same_for_all, some_cuts, split
from tests.strategies import json_values

ROWS: list[tuple[str, list[Any]]] = [
    ("[]", []),
    (" [ \r\n] \n", []),
    ('[{"a":1}]', [{"a": 1}]),
    ('[{"a":1}\n,\r\n{"b":2}]', [{"a": 1}, {"b": 2}]),
    ('[{\n  "a": [1, {"b": []}]\n}\n,\n{}\n]\n', [{"a": [1, {"b": []}]}, {}]),
    ('\ufeff[{"a":"é🌱"}]', [{"a": "é🌱"}]),
    ('[{"a":"]}\\"],[{"},{"\\\\":"\\\\"}]', [{"a": ']}"],[{'}, {"\\": "\\"}]),
    ('["a\\\\\\"]","\\\\"]', ['a\\"]', "\\"]),
    ('[1, "x" ,null,true,-2.5e3,[[]],""]', [1, "x", None, True, -2500.0, [[]], ""]),
]


@pytest.mark.parametrize("text, expected", ROWS)
def test_elements(text: str, expected: list[Any]) -> None:
    """
    Each element, then the mark of the closing bracket, at every cut.
    """
    frames, fault = same_for_all(JsonArrayFramer, text.encode())
    assert fault is None
    assert [(value, False) for value in expected] + [(None, True)] == [(frame.value, frame.last) for frame in frames]


def test_positions() -> None:
    """
    An element reaches from its first byte to its last, the mark over the bracket.
    """
    frames, _ = same_for_all(JsonArrayFramer, b'[ {"a":1} ,2\n]')
    assert [JsonRecord({"a": 1}, 2, 9), JsonRecord(2, 11, 12), JsonRecord(None, 13, 14, last=True)] == frames


@pytest.mark.parametrize("text, at", [('[{"a":1},{"b":[2]}]', [8, 18, 19]), ("[1,2 ]", [3, 5, 6]), ('["a","b"]', [4, 8, 9]), ("[]", [2])])
def test_promptness(text: str, at: list[int]) -> None:
    """
    An element is out with its closing brace; a number with the byte behind it.
    """
    framer = JsonArrayFramer()
    seen: list[int] = []
    for taken, byte in enumerate(split(text.encode(), 1), start=1):
        out: list[Any] = []
        framer.feed(byte, out.append)
        seen += [taken] * len(out)
    assert at == seen


FAULTS: list[tuple[bytes, int, type[Exception], int]] = [
    (b"", 0, IncompleteStreamError, 0),
    (b" \n", 0, IncompleteStreamError, 2),
    (b"[", 0, IncompleteStreamError, 1),
    (b'[{"a":1}', 1, IncompleteStreamError, 8),
    (b'[{"a":1},', 1, IncompleteStreamError, 9),
    (b'[{"a":1},{"b":', 1, IncompleteStreamError, 14),
    (b'[{"a":1},{"b":"]', 1, IncompleteStreamError, 16),
    (b"[1,2", 1, IncompleteStreamError, 4),
    (b"[,", 0, FramingError, 1),
    (b"[1,,2]", 1, FramingError, 3),
    (b"[1,]", 1, FramingError, 3),
    (b"[1 2]", 1, FramingError, 3),
    (b"[{}{}]", 1, FramingError, 3),
    (b"[}", 0, FramingError, 1),
    (b"[1:2]", 0, InvalidJSONError, 2),
    (b"[1}", 1, FramingError, 2),
    (b"[{}] x", 2, FramingError, 5),
    (b"[{}][{}]", 2, FramingError, 4),
    (b"[{}],", 2, FramingError, 4),
    (b"[{},{a}]", 1, InvalidJSONError, 5),
    (b"[{},nope]", 1, InvalidJSONError, 5),
    (b'[{},{"a":[}]', 1, InvalidJSONError, 10),
    (b'[{},{"a":{]}', 1, InvalidJSONError, 10),
    (b'[{},{"a":1,"a":2}]', 1, InvalidJSONError, 15),
    (b'[{},"a\nb"]', 1, InvalidJSONError, 6),
    (b'[{},"\xff"]', 1, DecodeError, 5),
    (b'[{},"\xe4\xbd', 1, DecodeError, 5),
    (b"<html>", 0, ContentTypeError, 0),
    (b" true", 0, ContentTypeError, 1),
    (b'{"error":', 0, IncompleteStreamError, 9),
    (b'{"error":1}]', 0, InvalidJSONError, 11),
]


@pytest.mark.parametrize("data, count, error, offset", FAULTS)
def test_faults(data: bytes, count: int, error: type[Exception], offset: int) -> None:
    """
    The elements before are delivered, then the fault stands where it is.
    """
    frames, fault = same_for_all(JsonArrayFramer, data)
    assert fault is not None
    assert (count, error, offset) == (len(frames), *fault[:2])


@pytest.mark.parametrize("text", ['{"error":{"code":429}}', ' \n{"error":{"code":429}}\n', '\ufeff{"error":{"code":429}}'])
def test_an_object_is_a_body(text: str) -> None:
    """
    An answer that is no array is one body, so that this framer serves error bodies too.
    """
    frames, fault = same_for_all(JsonArrayFramer, text.encode())
    start = len(text.encode()) - len(text.encode().lstrip(b"\xef\xbb\xbf \n"))
    assert ([JsonBody({"error": {"code": 429}}, start, len(text.encode()))], None) == (frames, fault)


@pytest.mark.parametrize(
    "limits, data, count, passed",
    [
        (Limits(event=7), b'[{"a":1},{"b":2}]', 3, None),
        (Limits(event=8), b'[{"a":1},{"b":2}]', 3, None),
        (Limits(event=6), b'[1,{"b":2}]', 1, ("event", 6, 9)),
        (Limits(event=6), b'[1,{"b":"3456789', 1, ("event", 6, 9)),
        (Limits(event=2), b"[1,22,333]", 2, ("event", 2, 8)),
        (Limits(event=6), '["🌱"]'.encode(), 2, None),
        (Limits(event=5), '["🌱"]'.encode(), 0, ("event", 5, 6)),
        (Limits(event=6), b'{"a":1}', 0, ("event", 6, 6)),
        (Limits(event=2, line=1), b"[1,\n    2]     ", 3, None),
        (Limits(total=5), b"[1,2]", 3, None),
        (Limits(total=4), b"[1,2]", 1, ("total", 4, 4)),
        (Limits(json_depth=2), b"[[[]]]", 2, None),
    ],
)
def test_limits(limits: Limits, data: bytes, count: int, passed: tuple[str, int, int] | None) -> None:
    """
    An element is an event; white space between elements counts for the total only.
    """
    frames, fault = same_for_all(lambda: JsonArrayFramer(limits), data)
    assert (count, passed) == (len(frames), fault and (fault[4], fault[5], fault[1]))


def test_depth_limit() -> None:
    """
    Depth is counted within the element: it is the record.
    """
    _, fault = drive(JsonArrayFramer(Limits(json_depth=2)), [b"[[[[]]]]"])
    assert fault is not None
    assert (InvalidJSONError, "depth", 3) == (fault[0], fault[3], fault[1])


def test_unending_element() -> None:
    """
    A string without end is refused when it is too long, however it is cut.
    """
    for piece in (b"x", b"\\", b'\\"', b"\\\\x"):
        _, fault = drive(JsonArrayFramer(Limits(event=10_000)), [b'[{"a":"', *[piece] * 10_000])
        assert fault is not None
        assert (LimitExceeded, 10_001) == fault[:2]


def test_large_elements() -> None:
    """
    Elements longer than reads, with every kind of mark in their strings.
    """
    value = {"a": 'x"\\]}[{\\\\"' * 2000, "b": ["y" * 20_000], "c": "\\" * 5001}
    data = dumps([value, value]).encode()
    frames, fault = same_for_all(JsonArrayFramer, data)
    assert ([value, value, None], None) == ([frame.value for frame in frames], fault)


@given(st.lists(json_values, max_size=4), st.sampled_from([None, 0, 1, 2]), st.integers())
def test_any_array(values: list[Any], indent: int | None, seed: int) -> None:
    """
    However it is printed and cut, an array gives its elements, and each stands where its record says.
    """
    data = json.dumps(values, indent=indent, ensure_ascii=False).encode()
    frames, fault = same_for_all(JsonArrayFramer, data, some_cuts(data, seed, 6))
    assert (values, None) == ([frame.value for frame in frames[:-1]], fault)
    assert values == [json.loads(data[frame.start : frame.end]) for frame in frames[:-1]]


@given(st.lists(json_values, max_size=4), st.data())
def test_a_cut_array_is_never_complete(values: list[Any], data: st.DataObject) -> None:
    """
    Whatever is cut off, a truncated array says so, and no element is wrong.
    """
    raw = json.dumps(values, ensure_ascii=False).encode()
    cut = data.draw(st.integers(0, len(raw) - 1))
    frames, fault = drive(JsonArrayFramer(), [raw[:cut]])
    assert fault is not None
    assert fault[0] in (IncompleteStreamError, DecodeError)
    assert values[: len(frames)] == [frame.value for frame in frames]
