"""
When the things of one call happened.
"""

from __future__ import annotations

from collections.abc import Callable

import attrs

__all__ = ["Stopwatch", "Timings"]


@attrs.frozen
class Timings:
    """
    Seconds from the subscription; None: it did not happen, or not yet.

    `connected`, `headers` and `first_byte` (of the body) are those of the last attempt; `first_event` is the first content; `stalled` is for how long, all in
    all, a consumer held the stream; `attempts` counts the requests.
    """

    connected: float | None = None
    headers: float | None = None
    first_byte: float | None = None
    first_event: float | None = None
    ended: float | None = None
    stalled: float | None = None
    attempts: int = 0


class Stopwatch:
    """
    Notes each thing once.
    """

    def __init__(self, now: Callable[[], float]) -> None:
        self._now = now
        self._begun = now()
        self._noted: dict[str, float] = {}
        self._held_since: float | None = None
        self._held = 0.0
        self.attempts = 0

    def attempt(self) -> None:
        """
        Another request: what was known of the one before is none of its.
        """
        self.attempts += 1
        for name in ("connected", "headers", "first_byte"):
            self._noted.pop(name, None)

    def note(self, name: str) -> None:
        """
        It happened now, unless it had happened before.
        """
        if name not in self._noted:
            self._noted[name] = self._now() - self._begun

    def hold(self) -> None:
        """
        A consumer holds the stream.
        """
        self._held_since = self._now()

    def release(self) -> None:
        """
        It holds it no more.
        """
        if self._held_since is not None:
            self._held += self._now() - self._held_since
            self._held_since = None
            self._noted["stalled"] = self._held

    def read(self) -> Timings:
        """
        What is known now.
        """
        known = dict(self._noted)
        if self._held_since is not None:
            known["stalled"] = self._held + self._now() - self._held_since
        return Timings(**known, attempts=self.attempts)
