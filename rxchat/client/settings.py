"""
How a request is transferred: time budgets, retries, and what is handed on to aiohttp.
"""

from __future__ import annotations

from collections.abc import Mapping
from ssl import SSLContext
from typing import Literal, TypeAlias

import aiohttp
import attrs

__all__ = ["FirstEvent", "HttpSettings", "OnStall", "Retry"]

FirstEvent: TypeAlias = Literal["content", "any"]
OnStall: TypeAlias = Literal["report", "error"]


@attrs.frozen
class Retry:
    """
    When a request is sent again by itself: after a retryable failure before the first event of a step, never behind one (contract D5).

    `attempts` counts all, the first one too. The wait before attempt n + 1 is `first_wait` * `factor` ** (n - 1) seconds, at most `longest_wait`, less a random
    part of up to `jitter` (0 to 1) of it. What the server asks for by Retry-After is waited for instead, and never shortened; where it asks for more than
    `longest_retry_after` seconds the failure stands.
    """

    attempts: int = 3
    first_wait: float = 0.5
    factor: float = 2.0
    longest_wait: float = 8.0
    jitter: float = 0.25
    longest_retry_after: float = 60.0


@attrs.frozen
class HttpSettings:
    """
    How to transfer. All times in seconds, on the clock of the subscription's Rx scheduler (contract D2); None = for ever.

    `connect_timeout`      until there is a connection
    `first_event_timeout`  from the request to its first content (`first_event` "content") or to the first event of any kind but ResponseStart ("any")
    `read_timeout`         of silence behind the headers; heartbeats and comments are no silence, and nothing counts while a consumer holds the stream
    `total_timeout`        for all of it, retries and waits included
    `stall_timeout`        for which a consumer may hold the stream until the call says so (`Call.stalled`), or fails with LimitExceeded (`on_stall` "error")

    `retry` None sends once. `proxy`, `proxy_auth`, `proxy_headers` and `ssl` are aiohttp's own; without `proxy` the environment names it. `read_size` caps a
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
