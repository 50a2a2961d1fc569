"""
The validator under framers and decoder: how far bytes are UTF-8, whatever the reads.
"""

from __future__ import annotations

import pytest

from rxchat.errors import DecodeError
from rxchat.utf8 import Utf8Validator
from tests.framing.driving import cuts


def taken(reads: list[bytes]) -> tuple[bytes, int | None]:
    """
    The valid bytes and the offset of the fault.
    """
    utf8 = Utf8Validator()
    valid = b""
    for read in reads:
        piece, fault = utf8.take(read)
        valid += piece
        assert len(valid) == utf8.position
        if fault is not None:
            return valid, fault.offset
    end = utf8.finish()
    return valid, None if end is None else end.offset


@pytest.mark.parametrize(
    "data, valid, offset",
    [
        (b"", b"", None),
        ("aé中🌱\0\ufeff".encode(), "aé中🌱\0\ufeff".encode(), None),
        (b"ab\x80c", b"ab", 2),
        (b"\xc0\x80", b"", 0),
        (b"a\xe4\xbd\n", b"a", 1),
        (b"a\xe4\xbd", b"a", 1),
        (b"\xed\xa0\x80", b"", 0),
        (b"\xf4\x90\x80\x80", b"", 0),
        ("é".encode() + b"\xf0\x9f\x8c", "é".encode(), 2),
    ],
)
def test_validity(data: bytes, valid: bytes, offset: int | None) -> None:
    """
    All before the bad sequence is valid, its first byte is the fault; a character that is cut off is a fault at the end.
    """
    for reads in cuts(data):
        assert (valid, offset) == taken(reads)


def test_held_bytes() -> None:
    """
    A character is passed on when it is whole; until then at most three bytes wait.
    """
    utf8 = Utf8Validator()
    assert (b"a", None) == utf8.take("a🌱".encode()[:2])
    assert (b"", None) == utf8.take("🌱".encode()[1:3])
    assert ("🌱".encode()[:3], 1) == (utf8.held, utf8.position)
    assert ("🌱b".encode(), "🌱b", None) == utf8.decode("🌱b".encode()[3:])


def test_fault_is_a_decode_error() -> None:
    """
    The fault is of the class that means INVALID_UTF8.
    """
    _, fault = Utf8Validator().take(b"\xff")
    assert isinstance(fault, DecodeError)
