"""
The AWS event stream (application/vnd.amazon.eventstream): binary messages with typed headers and two checksums (contract B3).

    total length u32 | headers length u32 | CRC of these 8 bytes | headers | payload | CRC of all before

A message is judged in the order in which it arrives: the prelude when its 12 bytes are in (checksum, then the lengths, so that nobody waits for 4 GB), then
the checksum of the whole, then its headers. Exceptions are messages like any other: the dialect's to tell.
"""

from __future__ import annotations

import struct
import uuid
import zlib
from collections.abc import Callable, Mapping
from typing import Any

from rxchat.errors import FramingError, IncompleteStreamError, LimitExceeded
from rxchat.framing.frames import AwsMessage
from rxchat.limits import Limits
from rxchat.stage import Emit, Stage

__all__ = ["MAX_HEADERS", "MAX_PAYLOAD", "AwsEventStreamFramer"]

# The protocol's own bounds.
MAX_HEADERS = 128 * 1024
MAX_PAYLOAD = 24 * 1024 * 1024

_PRELUDE = struct.Struct(">III")
_CRC = struct.Struct(">I")
_SIZE = struct.Struct(">H")
_FRAME = _PRELUDE.size + _CRC.size  # what a message costs beside headers and payload


def _fixed(name: str, form: str) -> tuple[str, int, Callable[[bytes], Any]]:
    reader = struct.Struct(form)
    return name, reader.size, lambda value: reader.unpack(value)[0]


# By type byte: its name, the size of its value (None: a 16-bit length comes first), and how it is read.
_TYPES: Mapping[int, tuple[str, int | None, Callable[[bytes], Any]]] = {
    0: ("true", 0, lambda value: True),
    1: ("false", 0, lambda value: False),
    2: _fixed("byte", ">b"),
    3: _fixed("short", ">h"),
    4: _fixed("int", ">i"),
    5: _fixed("long", ">q"),
    6: ("bytes", None, bytes),
    7: ("string", None, lambda value: value.decode()),
    8: _fixed("timestamp", ">q"),
    9: ("uuid", 16, lambda value: str(uuid.UUID(bytes=value))),
}


class AwsEventStreamFramer(Stage[bytes, AwsMessage]):
    """
    Frame an AWS event stream. FramingError says by `kind` what is wrong: prelude_crc, message_crc, length, header; a body that ends inside a message is
    IncompleteStreamError. Offsets of faults are the start of their message.

    Header values: bool, int, bytes, str; a timestamp is ms since 1970, a UUID its text. `limits.event` bounds the payload below the protocol's 24 MiB.
    """

    def __init__(self, limits: Limits | None = None) -> None:
        self._limits = limits or Limits()
        self._held = bytearray()  # what has come of the next message
        self._need = _PRELUDE.size
        self._at = 0

    def feed(self, item: bytes, emit: Emit[AwsMessage]) -> None:
        room = self._limits.total - self._at
        taken = item if len(item) <= room else item[:room]
        self._held += taken
        self._at += len(taken)
        while len(self._held) >= self._need:
            if self._need == _PRELUDE.size:
                self._need = self._announced()
            else:
                message = bytes(self._held[: self._need])
                start = self._at - len(self._held)
                del self._held[: self._need]
                self._need = _PRELUDE.size
                emit(_message(message, start))
        if len(item) > room:
            raise LimitExceeded("total", self._limits.total, self._limits.total)

    def flush(self, emit: Emit[AwsMessage]) -> None:
        if self._held:
            raise IncompleteStreamError("the body ends inside a message", self._at - len(self._held))

    def _announced(self) -> int:
        """
        The message's length, as the prelude says; refused at once if it cannot be.
        """
        start = self._at - len(self._held)
        length, headers, crc = _PRELUDE.unpack_from(self._held)
        if zlib.crc32(self._held[:8]) != crc:
            raise FramingError("the checksum of a prelude is wrong", start, "prelude_crc")
        payload = length - headers - _FRAME
        if payload < 0 or headers > MAX_HEADERS or payload > MAX_PAYLOAD:
            raise FramingError(f"a message of {length} bytes with headers of {headers} cannot be", start, "length")
        if payload > self._limits.event:
            raise LimitExceeded("event", self._limits.event, start + _PRELUDE.size + headers + self._limits.event)
        return int(length)


def _message(message: bytes, start: int) -> AwsMessage:
    """
    A whole message, its prelude already found good.
    """
    body = message[: -_CRC.size]
    if zlib.crc32(body) != _CRC.unpack_from(message, len(body))[0]:
        raise FramingError("the checksum of a message is wrong", start, "message_crc")
    split = _PRELUDE.size + _PRELUDE.unpack_from(message)[1]
    try:
        headers, types = _headers(body[_PRELUDE.size : split])
    except (IndexError, struct.error, UnicodeDecodeError) as error:
        raise FramingError("a header is cut off or no text", start, "header") from error
    except ValueError as error:
        raise FramingError(str(error), start, "header") from error
    return AwsMessage(headers, body[split:], start, start + len(message), types)


def _headers(block: bytes) -> tuple[dict[str, Any], dict[str, str]]:
    """
    Names, values and types, in order. Raises ValueError and its like for what is no header block.
    """
    headers: dict[str, Any] = {}
    types: dict[str, str] = {}
    pos = 0
    while pos < len(block):
        name, pos = _piece(block, pos + 1, block[pos])
        kind = _TYPES.get(block[pos])
        if kind is None:
            raise ValueError(f"there is no header type {block[pos]}")
        word, size, read = kind
        pos += 1
        if size is None:
            size = _SIZE.unpack_from(block, pos)[0]
            pos += _SIZE.size
        value, pos = _piece(block, pos, size)
        key = name.decode()
        if key in headers:
            raise ValueError("a header comes twice")
        headers[key], types[key] = read(value), word
    return headers, types


def _piece(block: bytes, pos: int, size: int) -> tuple[bytes, int]:
    if pos + size > len(block):
        raise IndexError(pos)
    return block[pos : pos + size], pos + size
