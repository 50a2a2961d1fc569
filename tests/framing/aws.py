"""
Messages of an AWS event stream, made here and not by the code under test.
"""

from __future__ import annotations

import struct
import zlib

Header = tuple[str, int, bytes]


def header(name: str | bytes, kind: int, value: bytes) -> bytes:
    """
    One header: name, type byte and value as it stands on the wire.
    """
    raw = name.encode() if isinstance(name, str) else name
    return bytes([len(raw)]) + raw + bytes([kind]) + value


def sized(value: bytes) -> bytes:
    """
    A value with its 16-bit length before it.
    """
    return struct.pack(">H", len(value)) + value


def text(name: str, value: str) -> bytes:
    """
    A header of text.
    """
    return header(name, 7, sized(value.encode()))


def prelude(total: int, headers: int) -> bytes:
    """
    Two lengths and their checksum.
    """
    lengths = struct.pack(">II", total, headers)
    return lengths + struct.pack(">I", zlib.crc32(lengths))


def message(headers: bytes = b"", payload: bytes = b"") -> bytes:
    """
    A whole message with both checksums.
    """
    body = prelude(16 + len(headers) + len(payload), len(headers)) + headers + payload
    return body + struct.pack(">I", zlib.crc32(body))
