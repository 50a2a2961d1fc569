"""
What may go wrong with an answer.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Literal, TypeAlias

import attrs

from rxchat.errors import ConfigurationError
from rxchat.testing.answers import FakeAnswer, FakeBody
from rxchat.testing.compressing import known_coding

__all__ = ["Compression", "End", "Fault", "Faulty", "Writes"]

Compression: TypeAlias = Literal["gzip", "deflate", "br", "zstd"]
Writes: TypeAlias = int | Literal["frame"] | Sequence[int]
End: TypeAlias = Literal["cut", "break", "reset", "stall"]

_ENDS: Mapping[str, End] = {"cut_after": "cut", "break_after": "break", "reset_after": "reset", "stall_after": "stall"}


def _from(least: float) -> Callable[[Any, attrs.Attribute[Any], Any], None]:
    """
    A number of at least that much, or None.
    """

    def check(fault: Any, attribute: attrs.Attribute[Any], value: Any) -> None:
        if value is not None and value < least:
            raise ConfigurationError(f"{attribute.name} is at least {least:g}, not {value}")

    return check


@attrs.frozen
class Fault:
    """
    Everything that can go wrong with one answer, combinable; what makes no sense together is a ConfigurationError. Bytes count the body before compression.

    Before it: `delay` seconds until the headers, `no_answer` (never any), `status` (from 400 on with the provider's own error body that says `message`, or
    with `body`), `retry_after` (seconds, or an HTTP date), `headers` on top of the answer's own, `body` and `content_type` instead of the answer's.
    Its transfer: `writes` (bytes a write; "frame"; or sizes one after another, the last one repeated), `drip` (bytes, seconds: so many every so often),
    `compression` (whatever the client accepts), `close_delimited` (neither chunked nor of a stated length).
    Its content: `malformed_after` so many frames one that cannot be read, the others behind it; `error_after` so many the provider's own error frame, which
    says `message` and is the last.
    Its end: `cut_after` so many bytes it ends cleanly, `break_after` the connection is closed without an end, `reset_after` it is reset, `stall_after` it is
    silent until the client leaves; each behind its last byte at the latest.
    """

    status: int | None = attrs.field(default=None, validator=_from(200))
    retry_after: float | str | None = None
    body: bytes | None = attrs.field(default=None, repr=False)
    content_type: str | None = None
    headers: Mapping[str, str] = attrs.field(factory=dict)
    message: str = "the fake provider was told to fail"
    delay: float | None = attrs.field(default=None, validator=_from(0))
    no_answer: bool = False
    writes: Writes | None = None
    cut_after: int | None = attrs.field(default=None, validator=_from(0))
    break_after: int | None = attrs.field(default=None, validator=_from(0))
    reset_after: int | None = attrs.field(default=None, validator=_from(0))
    stall_after: int | None = attrs.field(default=None, validator=_from(0))
    drip: tuple[int, float] | None = None
    malformed_after: int | None = attrs.field(default=None, validator=_from(0))
    error_after: int | None = attrs.field(default=None, validator=_from(0))
    compression: Compression | None = None
    close_delimited: bool = False

    def __attrs_post_init__(self) -> None:
        self._check_values()
        said = self._said()
        if self.no_answer and len(said) > 1:
            raise ConfigurationError(f"no_answer goes with nothing else, not with {', '.join(said - {'no_answer'})}")
        for rivals, why in _RIVALS:
            both = sorted(said & rivals)
            if len(both) > 1:
                raise ConfigurationError(f"{' and '.join(both)} do not go together: {why}")
        if self.retry_after is not None and not self.refuses:
            raise ConfigurationError("retry_after wants a status of 400 or more")
        if self.refuses and said & _CONTENT:
            raise ConfigurationError(f"an answer of status {self.status} has no frames for {', '.join(sorted(said & _CONTENT))}")

    @property
    def refuses(self) -> bool:
        """
        Whether the request is refused by its status.
        """
        return self.status is not None and self.status >= 400

    @property
    def end(self) -> tuple[End, int] | None:
        """
        How the transfer ends early, and after how many bytes.
        """
        return next(((word, at) for name, word in _ENDS.items() if (at := getattr(self, name)) is not None), None)

    @property
    def sizes(self) -> Sequence[int] | None:
        """
        The sizes of the writes, the last one repeated; None: one write a frame.
        """
        if self.drip is not None:
            return (self.drip[0],)
        if self.writes is None or isinstance(self.writes, str):
            return None
        return (self.writes,) if isinstance(self.writes, int) else tuple(self.writes)

    def _said(self) -> set[str]:
        unset = attrs.fields_dict(Fault)
        return {name for name, field in unset.items() if name not in ("headers", "message") and getattr(self, name) != field.default} | (
            {"headers"} if self.headers else set()
        )

    def _check_values(self) -> None:
        if self.status is not None and self.status > 599:
            raise ConfigurationError(f"status is at most 599, not {self.status}")
        if isinstance(self.writes, str) and self.writes != "frame":
            raise ConfigurationError(f'writes is "frame", a number of bytes, or several, not {self.writes!r}')
        if self.drip is not None and self.drip[1] < 0:
            raise ConfigurationError(f"drip waits at least 0 seconds, not {self.drip[1]}")
        _check_sizes(self.sizes)
        if self.compression is not None:
            known_coding(self.compression)


def _check_sizes(sizes: Iterable[int] | None) -> None:
    given = None if sizes is None else list(sizes)
    if given is not None and (not given or min(given) < 1):
        raise ConfigurationError(f"a write has at least 1 byte, not {min(given, default=0)}")


# What excludes what. A body of the test's own has no frames that could be counted.
_CONTENT = frozenset({"malformed_after", "error_after"})
_RIVALS: Sequence[tuple[frozenset[str], str]] = (
    (frozenset(_ENDS), "a transfer ends once"),
    (_CONTENT, "an answer fails once"),
    (frozenset({"writes", "drip"}), "both say the size of a write"),
    (frozenset({"close_delimited", "break_after"}), "its end is the closing of the connection, say cut_after"),
    (frozenset({"body", "malformed_after"}), "the body is sent as it is"),
    (frozenset({"body", "error_after"}), "the body is sent as it is"),
)


@attrs.frozen
class Faulty:
    """
    An entry of a script, gone wrong.
    """

    entry: FakeAnswer | FakeBody | bytes
    fault: Fault
