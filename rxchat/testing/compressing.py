"""
Content codings as a server applies them: what is written so far can be read so far.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any

import attrs

from rxchat.errors import ConfigurationError

__all__ = ["Compressor", "compressor", "known_coding"]


@attrs.frozen
class Compressor:
    """
    One body: `feed` compresses a write and flushes it, `finish` is the end.
    """

    feed: Callable[[bytes], bytes]
    finish: Callable[[], bytes]


def compressor(coding: str) -> Compressor:
    """
    A new one of that Content-Encoding.
    """
    known_coding(coding)
    return _CODINGS[coding]()


def known_coding(coding: str) -> None:
    """
    ConfigurationError for a coding nobody knows, or whose package is not installed.
    """
    if coding not in _CODINGS:
        raise ConfigurationError(f"compression is one of {', '.join(_CODINGS)}, not {coding!r}")
    try:
        _CODINGS[coding]()
    except ImportError:
        raise ConfigurationError(f"compression {coding} needs a package: pip install 'rxchat[compression]'") from None


def _zlib(wbits: int) -> Callable[[], Compressor]:
    def make() -> Compressor:
        state = zlib.compressobj(wbits=wbits)
        return Compressor(lambda data: state.compress(data) + state.flush(zlib.Z_SYNC_FLUSH), state.flush)

    return make


def _brotli() -> Compressor:
    state: Any = import_module("brotli").Compressor()
    return Compressor(lambda data: state.process(data) + state.flush(), state.finish)


def _zstd() -> Compressor:
    try:
        module: Any = import_module("compression.zstd")
    except ImportError:
        module = import_module("backports.zstd")
    state = module.ZstdCompressor()
    return Compressor(lambda data: state.compress(data, mode=state.FLUSH_BLOCK), state.flush)


_CODINGS: Mapping[str, Callable[[], Compressor]] = {
    "gzip": _zlib(16 + zlib.MAX_WBITS),
    "deflate": _zlib(zlib.MAX_WBITS),
    "br": _brotli,
    "zstd": _zstd,
}
