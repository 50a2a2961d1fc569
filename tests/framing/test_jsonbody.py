"""
The non-streamed body: one JSON value, or why not.
"""

from __future__ import annotations

from typing import Any

import pytest

from rxchat.errors import ContentTypeError, DecodeError, IncompleteStreamError, InvalidJSONError, LimitExceeded
from rxchat.framing.frames import JsonBody
from rxchat.framing.jsonbody import JsonBodyFramer
from rxchat.limits import Limits
from tests.framing.driving import same_for_all


@pytest.mark.parametrize(
    "data, expected",
    [
        (b'{"a":1}', JsonBody({"a": 1}, 0, 7)),
        (b'\r\n \t{"a":\n 1} \n', JsonBody({"a": 1}, 4, 15)),
        (b"\xef\xbb\xbf {}", JsonBody({}, 4, 6)),
        (b'[{"a":1}]', JsonBody([{"a": 1}], 0, 9)),
        ('{"é":"🌱"}'.encode(), JsonBody({"é": "🌱"}, 0, 13)),
    ],
)
def test_body(data: bytes, expected: JsonBody) -> None:
    """
    The value at the end of the body, at every cut; its range begins behind leading white space.
    """
    assert ([expected], None) == same_for_all(JsonBodyFramer, data)


@pytest.mark.parametrize(
    "data, error, offset, reason",
    [
        (b"", IncompleteStreamError, 0, None),
        (b" \n\t", IncompleteStreamError, 3, None),
        (b'{"a":', IncompleteStreamError, 5, None),
        (b' {"a":"x', IncompleteStreamError, 8, None),
        (b'{"a":1', IncompleteStreamError, 6, None),
        (b'{"a":"\\u00', IncompleteStreamError, 10, None),
        (b'{"a":"\xe4\xbd', DecodeError, 6, None),
        (b'{"a":"\xff"}', DecodeError, 6, None),
        (b"<html>", ContentTypeError, 0, None),
        (b"\n upstream error", ContentTypeError, 2, None),
        (b"data: {}\n\n", ContentTypeError, 0, None),
        (b"true", ContentTypeError, 0, None),
        (b'"text"', ContentTypeError, 0, None),
        (b'{"a":1}}', InvalidJSONError, 7, "trailing"),
        (b' {"a":1,}', InvalidJSONError, 8, "syntax"),
        (b'{"a":1,"a":1}', InvalidJSONError, 11, "duplicate_key"),
        (b'{"a":"\\u00"}', InvalidJSONError, 10, "escape"),
    ],
)
def test_faults(data: bytes, error: type[Exception], offset: int, reason: str | None) -> None:
    """
    Empty or cut off: truncated. Not beginning as an answer: the wrong content (contract P7). Else: not strict JSON.
    """
    frames, fault = same_for_all(JsonBodyFramer, data)
    assert fault is not None
    assert ([], error, offset, reason) == (frames, fault[0], fault[1], fault[3])


def test_refused_at_its_first_byte() -> None:
    """
    A page is refused when it begins, not when it ends.
    """
    with pytest.raises(ContentTypeError):
        JsonBodyFramer().feed(b" <", lambda frame: None)


@pytest.mark.parametrize(
    "limits, data, passed",
    [
        (Limits(event=7), b'{"a":1}', None),
        (Limits(event=8), b'{"a":1}', None),
        (Limits(event=6), b'{"a":1}', ("event", 6, 6)),
        (Limits(event=7), b'  {"a":1}', None),
        (Limits(event=6), b'  {"a":1}', ("event", 6, 8)),
        (Limits(event=12), '{"a":"🌱"}'.encode(), None),
        (Limits(event=11), '{"a":"🌱"}'.encode(), ("event", 11, 11)),
        (Limits(total=9), b'  {"a":1}', None),
        (Limits(total=8), b'  {"a":1}', ("total", 8, 8)),
        (Limits(line=1), b'{"a":1}', None),
    ],
)
def test_limits(limits: Limits, data: bytes, passed: tuple[str, int, int] | None) -> None:
    """
    The body is one event: bytes from its first brace on. Lines do not matter.
    """
    _, fault = same_for_all(lambda: JsonBodyFramer(limits), data)
    assert passed == (fault and (fault[4], fault[5], fault[1]))
    assert fault is None or fault[0] is LimitExceeded


def test_white_space_is_not_kept() -> None:
    """
    Only the total limit ends leading white space.
    """
    framer = JsonBodyFramer(Limits(event=4))
    out: list[Any] = []
    for _ in range(1000):
        framer.feed(b" \n", out.append)
    framer.feed(b"[1]", out.append)
    framer.flush(out.append)
    assert [JsonBody([1], 2000, 2003)] == out
