"""
Content codings: the bytes of a compressed body made whole again, a piece at a time.

Our own and not aiohttp's, for three reasons: a body that is cut inside its compression must not pass as one that ended, what comes out at once is bounded
however well it was compressed (contract B5), and only what can be undone here is asked for.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable
from importlib import import_module
from typing import Any, Protocol

from rxchat.errors import FramingError

__all__ = ["Decoder", "accepted", "decoder_for"]


def _first_of(*names: str) -> Any:
    """
    The first of these modules that is there, else None.
    """
    for name in names:
        try:
            return import_module(name)
        except ImportError:
            pass
    return None


brotli = _first_of("brotli", "brotlicffi")
# In the standard library from Python 3.14 on.
zstd = _first_of("compression.zstd", "backports.zstd")

# What RFC 9659 allows as a window of zstd on the web: 8 MiB. More would be memory that a sender takes from us.
ZSTD_WINDOW_LOG = 23
# How much is decoded at once where nobody waits for it.
STEP = 16 * 1024


class _Coding(Protocol):
    """
    One compressed stream. `decode` gives about `limit` bytes; called again without data it gives what is left of them, at last nothing.
    """

    @property
    def ended(self) -> bool:
        """
        Whether the stream has come to its own end, all of it decoded.
        """
        ...

    @property
    def unused(self) -> bytes:
        """
        What stood behind that end.
        """
        ...

    def decode(self, data: bytes, limit: int) -> bytes:
        """
        Take some more.
        """
        ...


class _Zlib:
    def __init__(self, window: int) -> None:
        self._inner = zlib.decompressobj(window)

    @property
    def ended(self) -> bool:
        return self._inner.eof

    @property
    def unused(self) -> bytes:
        return self._inner.unused_data

    def decode(self, data: bytes, limit: int) -> bytes:
        return self._inner.decompress(self._inner.unconsumed_tail + data, limit)


class _Brotli:
    unused = b""  # it refuses what stands behind its end

    def __init__(self) -> None:
        self._inner = brotli.Decompressor()

    @property
    def ended(self) -> bool:
        return bool(self._inner.is_finished())

    def decode(self, data: bytes, limit: int) -> bytes:
        return bytes(self._inner.process(data, output_buffer_limit=limit))


class _Zstd:
    def __init__(self) -> None:
        self._inner = zstd.ZstdDecompressor(options={zstd.DecompressionParameter.window_log_max: ZSTD_WINDOW_LOG})

    @property
    def ended(self) -> bool:
        return bool(self._inner.eof)

    @property
    def unused(self) -> bytes:
        return bytes(self._inner.unused_data)

    def decode(self, data: bytes, limit: int) -> bytes:
        return bytes(self._inner.decompress(data, limit))


def _deflate(first: int) -> _Coding:
    """
    The format of zlib, or the bare one that some servers send under the same name: they differ in the first byte.
    """
    return _Zlib(zlib.MAX_WBITS if first & 0x0F == 8 else -zlib.MAX_WBITS)


# By name: what reads it, and whether several may stand in a row in one body.
CODINGS: dict[str, tuple[Callable[[int], _Coding], bool]] = {
    "gzip": (lambda first: _Zlib(16 + zlib.MAX_WBITS), True),
    "deflate": (_deflate, False),
}
if brotli is not None:
    CODINGS["br"] = (lambda first: _Brotli(), False)
if zstd is not None:
    CODINGS["zstd"] = (lambda first: _Zstd(), True)

_BROKEN: tuple[type[Exception], ...] = (zlib.error, *((brotli.error,) if brotli else ()), *((zstd.ZstdError,) if zstd else ()))
_INSTALLED_BY = {"br": "brotli", "zstd": "backports.zstd"}


def accepted() -> str:
    """
    The value of Accept-Encoding: exactly what can be undone.
    """
    return ", ".join(CODINGS)


class _Streams:
    """
    The compressed streams of one body, each begun where the one before ended. `feed` when `take` has nothing left.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._make, self._many = CODINGS[name]
        self._coding: _Coding | None = None
        self._waiting = b""
        self._begun = False

    @property
    def whole(self) -> bool:
        return self._coding is None

    def feed(self, data: bytes) -> None:
        self._waiting += data

    def take(self, limit: int) -> bytes:
        while True:
            coding = self._coding or self._next()
            if coding is None:
                return b""
            data, self._waiting = self._waiting, b""
            try:
                out = coding.decode(data, limit)
            except _BROKEN as error:
                raise FramingError(f"the body is not what {self._name} makes: {error}", kind="compression") from error
            if coding.ended:
                self._coding, self._waiting = None, coding.unused
            if out or not self._waiting:
                return out

    def _next(self) -> _Coding | None:
        if not self._waiting:
            return None
        if self._begun and not self._many:
            raise FramingError(f"there is something behind the end of the body's {self._name}", kind="compression")
        self._begun = True
        self._coding = self._make(self._waiting[0])
        return self._coding


class Decoder:
    """
    One compressed body. `feed` when `take` has nothing left; FramingError for data that are not what their coding promises, behind all that was (contract E10).

    The libraries keep back what they had decoded when they meet a fault, so that it would depend on the reads what is lost. Hence a second one behind the
    first, which has seen only what was right: at a fault it is led up to it byte by byte.
    """

    def __init__(self, name: str) -> None:
        self._ahead, self._behind = _Streams(name), _Streams(name)
        self._piece = b""
        self._given = 0
        self._fault: FramingError | None = None

    @property
    def whole(self) -> bool:
        """
        Whether the body may end here: behind a compressed stream's own end, or before anything came.
        """
        return self._ahead.whole

    def feed(self, data: bytes) -> None:
        """
        Take some more of the compressed body.
        """
        self._behind.feed(self._piece)
        while self._behind.take(STEP):
            pass
        self._piece, self._given = data, 0
        self._ahead.feed(data)

    def take(self, limit: int) -> bytes:
        """
        About `limit` of the bytes that can be made of what was fed; empty when more must be fed.
        """
        if self._fault is not None:
            raise self._fault
        try:
            out = self._ahead.take(limit)
        except FramingError as error:
            self._fault = error
            out = self._before_the_fault()
            if not out:
                raise
        self._given += len(out)
        return out

    def _before_the_fault(self) -> bytes:
        """
        What the piece at fault still gives.
        """
        got, skip = bytearray(), self._given
        try:
            for byte in self._piece:
                self._behind.feed(bytes((byte,)))
                while out := self._behind.take(STEP):
                    got += out[skip:]
                    skip = max(0, skip - len(out))
        except FramingError:
            pass
        return bytes(got)


def decoder_for(content_encoding: str | None) -> Decoder | None:
    """
    What undoes that Content-Encoding, None where nothing was done. FramingError for one that was not asked for and cannot be undone.
    """
    names = [
        name for name in (part.strip().lower().removeprefix("x-") for part in (content_encoding or "").split(",")) if name not in ("", "identity")
    ]
    if not names:
        return None
    if len(names) == 1 and names[0] in CODINGS:
        return Decoder(names[0])
    missing = _INSTALLED_BY.get(names[0]) if len(names) == 1 else None
    hint = f": install {missing}" if missing else f", which was not asked for; what can be read is {accepted()}"
    raise FramingError(f"the body is compressed by {', '.join(names)[:80]}{hint}", kind="compression")
