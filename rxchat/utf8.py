"""
Strict UTF-8 over reads that end anywhere (contract B1): what framers and the decoder share.
"""

from __future__ import annotations

from codecs import utf_8_decode

from rxchat.errors import DecodeError

__all__ = ["Utf8Validator"]


class Utf8Validator:
    """
    Tells how far bytes are UTF-8. Up to three bytes of an unfinished character are held back until it is whole.

    `position` counts the bytes passed on as valid.
    """

    __slots__ = ("held", "position")

    def __init__(self) -> None:
        self.held = b""
        self.position = 0

    def take(self, chunk: bytes) -> tuple[bytes, DecodeError | None]:
        """
        The bytes now known to be valid, and the fault that stands right behind them; after a fault nothing more may be taken.
        """
        valid, _, fault = self.decode(chunk)
        return valid, fault

    def decode(self, chunk: bytes) -> tuple[bytes, str, DecodeError | None]:
        """
        As `take`, with the text of the valid bytes.
        """
        data = self.held + chunk if self.held else chunk
        fault = None
        try:
            text, size = utf_8_decode(data, "strict", False)
        except UnicodeDecodeError as error:
            size = error.start
            text = data[:size].decode()
            fault = DecodeError("not UTF-8", self.position + size)
        self.held = b"" if fault else data[size:]
        self.position += size
        return data[:size], text, fault

    def finish(self) -> DecodeError | None:
        """
        The fault if the input ends inside a character.
        """
        return DecodeError("the input ends inside a UTF-8 character", self.position) if self.held else None
