"""
Messages of an AWS event stream.
"""

from __future__ import annotations

import struct
import zlib
from typing import Any

from rxchat.testing.wires.base import json_bytes

__all__ = ["damaged", "event", "failure"]

_TEXT = 7


def event(kind: str, payload: Any) -> bytes:
    """
    An event with its JSON, in the order of the service's own headers.
    """
    return _message({":event-type": kind, ":content-type": "application/json", ":message-type": "event"}, json_bytes(payload))


def failure(kind: str, payload: Any) -> bytes:
    """
    An exception, which ends the stream.
    """
    return _message({":exception-type": kind, ":content-type": "application/json", ":message-type": "exception"}, json_bytes(payload))


def damaged(message: bytes) -> bytes:
    """
    The message with a checksum that is not its own.
    """
    return message[:-1] + bytes([message[-1] ^ 0xFF])


def _message(headers: dict[str, str], payload: bytes) -> bytes:
    """
    Total length, length of the headers, checksum of both; headers; payload; checksum of all before it.
    """
    raw = b"".join(_header(name, value) for name, value in headers.items())
    lengths = struct.pack(">II", 16 + len(raw) + len(payload), len(raw))
    body = lengths + struct.pack(">I", zlib.crc32(lengths)) + raw + payload
    return body + struct.pack(">I", zlib.crc32(body))


def _header(name: str, value: str) -> bytes:
    return struct.pack(">B", len(name)) + name.encode() + struct.pack(">BH", _TEXT, len(value.encode())) + value.encode()
