"""
What may go wrong with an answer.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal, TypeAlias

import attrs

from rxchat.testing.answers import FakeAnswer, FakeBody

__all__ = ["Compression", "Fault", "Faulty", "Writes"]

Compression: TypeAlias = Literal["gzip", "deflate", "br", "zstd"]
Writes: TypeAlias = int | Literal["frame"] | Sequence[int]

# Where a transfer ends before its body does: at most one of them.
_ENDS = ("cut_after", "break_after", "reset_after", "stall_after")


@attrs.frozen
class Fault:
    """
    Everything that can go wrong with one answer, combinable; what makes no sense together is a ConfigurationError. Bytes count the body before compression.

    Before it: `delay` seconds until the headers, `no_answer` (never any), `status` (with the provider's own error body, or `body`), `retry_after` (seconds,
    or an HTTP date), `headers` on top of the answer's own, `body` and `content_type` instead of the answer's.
    Its transfer: `writes` (bytes a write; "frame"; or sizes one after another, the last one repeated), `drip` (bytes, seconds: so many every so often),
    `compression`, `close_delimited` (neither chunked nor of a stated length).
    Its content: `malformed_after` so many frames a frame that cannot be read, `error_after` so many the provider's own error frame; the frames go on behind
    a malformed one, and stop at an error.
    Its end: `cut_after` bytes it ends cleanly, `break_after` the connection is closed without an end, `reset_after` it is reset, `stall_after` it is silent
    until the client leaves.
    """

    status: int | None = None
    retry_after: float | str | None = None
    body: bytes | None = None
    content_type: str | None = None
    headers: Mapping[str, str] = attrs.field(factory=dict)
    delay: float | None = None
    no_answer: bool = False
    writes: Writes | None = None
    cut_after: int | None = None
    break_after: int | None = None
    reset_after: int | None = None
    stall_after: int | None = None
    drip: tuple[int, float] | None = None
    malformed_after: int | None = None
    error_after: int | None = None
    compression: Compression | None = None
    close_delimited: bool = False


@attrs.frozen
class Faulty:
    """
    An entry of a script, gone wrong.
    """

    entry: FakeAnswer | FakeBody | bytes
    fault: Fault
