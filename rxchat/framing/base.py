"""
What all framers of text share: strict UTF-8, the total limit and the byte order mark (contract B1, B5).
"""

from __future__ import annotations

from typing import NoReturn, TypeVar

from rxchat.errors import DecodeError, LimitExceeded, RxchatError
from rxchat.limits import Limits
from rxchat.stage import Emit, Stage
from rxchat.utf8 import Utf8Validator

__all__ = ["TextFramer"]

F = TypeVar("F")

_BOM = b"\xef\xbb\xbf"


class TextFramer(Stage[bytes | str, F]):
    """
    A framer that sees only whole characters of valid UTF-8. Text may come in place of bytes; positions are then those of its UTF-8.

    Of several faults the one that stands first in the body counts, whatever the reads: what stands before it goes to `_take`, then it is raised. Bytes of
    a character that is not whole yet count for nothing. The byte order mark counts for the total limit only.
    """

    def __init__(self, limits: Limits | None = None) -> None:
        self._limits = limits or Limits()
        self._total = self._limits.total
        self._utf8 = Utf8Validator()
        self._begun = False
        self._at = 0  # position behind the last byte taken

    def feed(self, item: bytes | str, emit: Emit[F]) -> None:
        chunk = item if isinstance(item, bytes) else self._encoded(item, emit)
        fault: RxchatError | None = None
        if self._utf8.held or not chunk.isascii():
            self._utf8.position = self._at
            chunk, fault = self._utf8.take(chunk)
        if self._at + len(chunk) > self._total:
            chunk, fault = chunk[: self._total - self._at], LimitExceeded("total", self._total, self._total)
        if chunk:
            self._at += len(chunk)
            if self._begun:
                self._take(chunk, emit)
            else:
                self._begun = True
                self._take(chunk.removeprefix(_BOM), emit)
        if fault is not None:
            self._fail(fault, emit)

    def flush(self, emit: Emit[F]) -> None:
        self._utf8.position = self._at
        fault = self._utf8.finish()
        if fault is not None:
            self._fail(fault, emit)
        self._finish(emit)

    # What a framer fills in --------------------------------------------------------------------------------------------------------------------

    def _take(self, data: bytes, emit: Emit[F]) -> None:
        """
        Valid bytes; `_at` is the position behind their last.
        """
        raise NotImplementedError

    def _finish(self, emit: Emit[F]) -> None:
        """
        The body ended, not inside a character.
        """
        raise NotImplementedError

    def _before_fault(self, emit: Emit[F]) -> None:
        """
        Emit what is valid and still held (contract E10).
        """

    # ---------------------------------------------------------------------------------------------------------------------------------------------

    def _fail(self, fault: RxchatError, emit: Emit[F]) -> NoReturn:
        self._before_fault(emit)
        raise fault

    def _encoded(self, text: str, emit: Emit[F]) -> bytes:
        try:
            return text.encode()
        except UnicodeEncodeError as error:
            self.feed(text[: error.start].encode(), emit)
            self._fail(DecodeError("a lone surrogate", self._at), emit)
