"""
A body through the whole pipeline, without network and without Rx.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import attrs

from rxchat.dialects import Dialect
from rxchat.errors import RxchatError, Verdict
from rxchat.events import ChatEvent, ErrorEvent
from rxchat.pipeline import Head, response_stage
from rxchat.response import ChatResponse
from rxchat.stage import run

__all__ = ["Replay", "replay"]

RESPONSE_ID = "rx-replay"


@attrs.frozen
class Replay:
    """
    What came of a body: all events, the answer of the terminal (empty without one), how it ended, and the error that ended it, if one did.
    """

    events: tuple[ChatEvent, ...]
    response: ChatResponse
    verdict: Verdict | None
    error: RxchatError | None

    def of(self, *types: type[Any]) -> tuple[Any, ...]:
        """
        The events of these classes.
        """
        return tuple(event for event in self.events if isinstance(event, types))

    @property
    def facts(self) -> tuple[Any, ...]:
        """
        Everything to be equal at every cut (contract E9): events with the bytes that caused them, and of the error its kind, words and offset.
        """
        return tuple((fact_of(event), event.span) for event in self.events), fact_of_error(self.error)


def fact_of(event: ChatEvent) -> Any:
    """
    An event as a value: errors are told apart by what they say, not by being one object.
    """
    return (event.type, fact_of_error(event.error), event.response) if isinstance(event, ErrorEvent) else event


def fact_of_error(error: RxchatError | None) -> Any:
    """
    Kind, words and offset of an error.
    """
    return error and (type(error).__name__, str(error), error.offset, error.verdict, error.code, error.type, error.response)


def replay(
    body: bytes | Iterable[bytes],
    dialect: str | Dialect,
    *,
    content_type: str | None = None,
    options: Mapping[str, Any] | None = None,
    status: int = 200,
    cut: int = 0,
    **settings: Any,
) -> Replay:
    """
    Read a body of this status and type, in reads of `cut` bytes (0: whole), or in the reads given.

    `clean_eof` (True), `profile`, `limits` and `unknown` may be set as for `response_stage`. What is raised and no RxchatError goes through.
    """
    reads = _reads(body, cut)
    head = Head(status, {"content-type": content_type} if content_type else {}, settings.pop("clean_eof", True))
    stage = response_stage(dialect, options=options, head=lambda: head, provenance=True, response_id=RESPONSE_ID, **settings)
    events: list[ChatEvent] = []
    error: RxchatError | None = None
    try:
        for event in run(stage, reads):
            events.append(event)
    except RxchatError as failure:
        error = failure
    response = next((event.response for event in reversed(events) if event.terminal), ChatResponse())  # type: ignore[union-attr]
    return Replay(tuple(events), response, error.verdict if error else response.verdict, error)


def _reads(body: bytes | Iterable[bytes], cut: int) -> Iterable[bytes]:
    if not isinstance(body, bytes):
        return body
    return [body[k : k + cut] for k in range(0, len(body), cut)] if cut else [body]
