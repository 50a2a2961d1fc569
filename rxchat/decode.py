"""
UTF-8 as a stage of its own, for text protocols (contract B1). Framers do not need it: they take bytes and are as strict themselves.
"""

from __future__ import annotations

from rxchat.stage import Emit, Stage
from rxchat.utf8 import Utf8Validator

__all__ = ["Utf8Decoder"]


class Utf8Decoder(Stage[bytes, str]):
    """
    Decode UTF-8 strictly, however it is cut; never emits an empty text, never U+FFFD for a fault.

    All text before a fault is emitted, then DecodeError is raised with the position of the bad sequence's first byte. A sequence cut off by the end of
    the input is a fault at its start. A byte order mark is not dropped here: that is the framer's.
    """

    __slots__ = ("_utf8",)

    def __init__(self) -> None:
        self._utf8 = Utf8Validator()

    def feed(self, item: bytes, emit: Emit[str]) -> None:
        _, text, fault = self._utf8.decode(item)
        if text:
            emit(text)
        if fault is not None:
            raise fault

    def flush(self, emit: Emit[str]) -> None:
        fault = self._utf8.finish()
        if fault is not None:
            raise fault
