"""
UTF-8 as a stage: strict, incremental, with offsets counted from the start of the stream (contract B1).
"""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rxchat.decode import Utf8Decoder
from rxchat.errors import DecodeError
from rxchat.stage import run
from tests.framing.driving import cuts, drive, some_cuts

ROWS: list[tuple[bytes, str, int | None]] = [
    (b"", "", None),
    (b"abc", "abc", None),
    ("\ufeffa\0é中🌱".encode(), "\ufeffa\0é中🌱", None),
    (b"ab\xff", "ab", 2),
    ("中".encode() + b"\xc3(", "中", 3),
    (b"ok\xf0\x9f\x8c", "ok", 2),
    (b"\xed\xa0\xbd\xed\xb8\x80", "", 0),
    (b"caf\xe9 au lait", "caf", 3),
    (b"\xff\xff", "", 0),
]


@pytest.mark.parametrize("data, text, offset", ROWS)
def test_decoding(data: bytes, text: str, offset: int | None) -> None:
    """
    The text before the fault, then the fault where it stands, at every cut; a byte order mark stays; no text is empty.
    """
    for reads in cuts(data):
        texts, fault = drive(Utf8Decoder(), reads)
        assert text == "".join(texts)
        assert "" not in texts
        assert (None if offset is None else (DecodeError, offset)) == (fault and fault[:2])


def test_text_comes_at_once() -> None:
    """
    Nothing waits but the bytes of a character that is not whole.
    """
    texts: list[str] = []
    decoder = Utf8Decoder()
    decoder.feed("aé".encode()[:2], texts.append)
    assert ["a"] == texts
    decoder.feed("é!".encode()[1:], texts.append)
    assert ["a", "é!"] == texts


def test_error_says_where() -> None:
    """
    The message names the byte.
    """
    with pytest.raises(DecodeError, match="at byte 3"):
        list(run(Utf8Decoder(), [b"abc", b"\xff"]))


@given(st.binary(max_size=60) | st.text(max_size=30).map(str.encode))
def test_like_the_library(data: bytes) -> None:
    """
    The same text, or the same place of the fault, as decoding the whole.
    """
    try:
        expected, offset = data.decode(), None
    except UnicodeDecodeError as error:
        expected, offset = data[: error.start].decode(), error.start
    for reads in some_cuts(data, len(data)):
        texts, fault = drive(Utf8Decoder(), reads)
        assert (expected, offset) == ("".join(texts), fault and fault[1])
