"""
How a request is transferred: time budgets, retries, and what is handed on to aiohttp.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from ssl import SSLContext
from typing import Any, Literal, TypeAlias, get_args

import aiohttp
import attrs

from rxchat.errors import ConfigurationError

__all__ = ["FirstEvent", "HttpSettings", "OnStall", "Retry"]

FirstEvent: TypeAlias = Literal["content", "any"]
OnStall: TypeAlias = Literal["report", "error"]

BUDGETS: tuple[str, ...] = ("connect_timeout", "first_event_timeout", "read_timeout", "total_timeout", "stall_timeout")

# Of a Retry: what each number has to be, and how that is said.
NUMBERS: Mapping[str, tuple[Callable[[Any], bool], str]] = {
    "attempts": (lambda count: isinstance(count, int) and count >= 1, "a whole number from 1 on"),
    "first_wait": (lambda wait: 0 <= wait < math.inf, "a number of seconds"),
    "factor": (lambda factor: factor >= 1, "a number from 1 on"),
    "longest_wait": (lambda wait: 0 <= wait < math.inf, "a number of seconds"),
    "jitter": (lambda part: 0 <= part <= 1, "a number from 0 to 1"),
    "longest_retry_after": (lambda wait: wait >= 0, "a number of seconds"),
}


def _fits(fits: Callable[[Any], bool], value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and fits(value)


@attrs.frozen
class Retry:
    """
    When a request is sent again by itself: after a retryable failure before the first event of a step, never behind one (contract D5).

    `attempts` counts all, the first one too. The wait before attempt n + 1 is `first_wait` * `factor` ** (n - 1) seconds, at most `longest_wait`, less a random
    part of up to `jitter` (0 to 1) of it; never less than the server asks for by Retry-After. Where it asks for more than `longest_retry_after` seconds the
    failure stands. ConfigurationError for numbers that make no sense.
    """

    attempts: int = 3
    first_wait: float = 0.5
    factor: float = 2.0
    longest_wait: float = 8.0
    jitter: float = 0.25
    longest_retry_after: float = 60.0

    def __attrs_post_init__(self) -> None:
        for name, (fits, wanted) in NUMBERS.items():
            if not _fits(fits, getattr(self, name)):
                raise ConfigurationError(f"{name} of a Retry is {wanted}, not {getattr(self, name)!r}")


@attrs.frozen
class HttpSettings:
    """
    How to transfer. All times in seconds, on the clock of the subscription's Rx scheduler (contract D2); None = for ever.

    `connect_timeout`      until there is a connection
    `first_event_timeout`  from the request to its first content (`first_event` "content") or to the first event of any kind but ResponseStart ("any")
    `read_timeout`         of silence behind the headers; heartbeats and comments are no silence
    `total_timeout`        for all of it, retries and waits included
    `stall_timeout`        for which a consumer may hold the stream until the call says so (`Call.stalled`), or fails with LimitExceeded (`on_stall` "error")

    While a consumer holds the stream, first event and silence do not count. A budget for the first event or for silence that runs out before anything was shown
    ends the attempt, and the request is sent again; `retry` None sends once.

    `proxy`, `proxy_auth`, `proxy_headers` and `ssl` are aiohttp's own; without `proxy` the environment names it. `read_size` caps a
    read in bytes (None: whatever has arrived), as tests need it.
    """

    connect_timeout: float | None = 15.0
    first_event_timeout: float | None = 600.0
    read_timeout: float | None = 300.0
    total_timeout: float | None = None
    stall_timeout: float | None = 60.0
    first_event: FirstEvent = "content"
    on_stall: OnStall = "report"
    retry: Retry | None = attrs.field(factory=Retry)
    proxy: str | None = attrs.field(default=None, repr=False)
    proxy_auth: aiohttp.BasicAuth | None = attrs.field(default=None, repr=False)
    proxy_headers: Mapping[str, str] | None = attrs.field(default=None, repr=False)
    ssl: SSLContext | bool | aiohttp.Fingerprint = True
    read_size: int | None = None

    def __attrs_post_init__(self) -> None:
        for name in BUDGETS:
            seconds = getattr(self, name)
            if seconds is not None and not _fits(lambda value: 0 < value < math.inf, seconds):
                raise ConfigurationError(f"{name} is a number of seconds, or None for ever, not {seconds!r}")
        for name, words in (("first_event", FirstEvent), ("on_stall", OnStall)):
            if getattr(self, name) not in get_args(words):
                raise ConfigurationError(f"{name} is one of {', '.join(get_args(words))}, not {getattr(self, name)!r}")
        if not isinstance(self.retry, Retry | None):
            raise ConfigurationError(f"retry is a Retry, or None to send once, not {self.retry!r}")
        if self.read_size is not None and not _fits(lambda value: value >= 1, self.read_size):
            raise ConfigurationError(f"read_size is a number of bytes from 1 on, not {self.read_size!r}")
