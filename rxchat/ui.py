"""
What a user interface may be sent (contract S): `for_ui` lets through what a person is to see, and takes everything else off the events that ride along.

    passes                ResponseStart, Status, StepStart, text, Citation, media, RefusalDelta
    passes, reduced       SearchResult to URL and title, ContentFilter to its category, UsageUpdate to our counts, StepEnd and the terminals to an answer and
                          an error made of the same things only, a reset (Custom named RESET) to what a person saw and a message for a person
    hidden                thinking, tool calls and results, server tools, Raw, any other Custom, Heartbeat
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import attrs

from rxchat.errors import RxchatError, Verdict, verdict_of
from rxchat.events import (
    RESET,
    Abort,
    ChatEvent,
    Citation,
    ContentFilter,
    Custom,
    ErrorEvent,
    MediaDone,
    MediaPartial,
    RefusalDelta,
    ResponseEnd,
    ResponseStart,
    SearchResult,
    Status,
    StepEnd,
    StepStart,
    TextDelta,
    TextEnd,
    TextStart,
    UsageUpdate,
)
from rxchat.operators import Operator, lift
from rxchat.response import (
    ChatResponse,
    CitationPart,
    ContentFilterPart,
    MediaPart,
    Part,
    RefusalPart,
    SearchResultPart,
    TextPart,
    Usage,
)
from rxchat.stage import Emit, Stage

__all__ = ["for_ui", "user_message"]

_BROKEN = "The answer broke off. Please try again."
_UNREADABLE = "The service sent an answer that could not be read."
_LATE = "The service did not answer in time. Please try again."

_MESSAGES: Mapping[Verdict | None, str] = {
    Verdict.INCOMPLETE_STREAM: _BROKEN,
    Verdict.CONNECTION_LOST: _BROKEN,
    Verdict.PROTOCOL: _UNREADABLE,
    Verdict.INVALID_JSON: _UNREADABLE,
    Verdict.INVALID_UTF8: _UNREADABLE,
    Verdict.FRAMING: _UNREADABLE,
    Verdict.CONTENT_TYPE: _UNREADABLE,
    Verdict.LIMIT: "The answer is larger than allowed.",
    Verdict.CONNECT: "The service cannot be reached.",
    Verdict.CONNECT_TIMEOUT: "The service cannot be reached.",
    Verdict.FIRST_EVENT_TIMEOUT: _LATE,
    Verdict.READ_TIMEOUT: _LATE,
    Verdict.TOTAL_TIMEOUT: _LATE,
    Verdict.ABORTED: "The answer was stopped.",
    Verdict.CANCELLED: "The answer was stopped.",
    Verdict.TOOL: "A tool failed.",
    Verdict.STORE: "The answer could not be saved.",
}


def user_message(error: BaseException) -> str:
    """
    One sentence for a person, by verdict alone: providers' own messages quote keys, prompts and internals.
    """
    verdict = getattr(error, "verdict", None)
    if verdict in (Verdict.HTTP_STATUS, Verdict.PROVIDER_ERROR) and getattr(error, "retryable", False):
        return "The service is busy. Please try again in a moment."
    return _MESSAGES.get(verdict, "The service could not answer.")


# --- reductions -----------------------------------------------------------------------------------------------------------------------------------

# Numbers and words of ours; whatever else an error carries came from outside.
_KEPT = frozenset({"status", "retryable", "retry_after", "budget", "limit", "value", "kind", "reason"})
_BLANK: Mapping[str, Any] = {"headers": {}, "body": b""}


def reduced_error(error: BaseException) -> RxchatError:
    """
    An error of the same class that says its verdict as `code`, a message for a person, and whether and when to try again; without cause or traceback.
    """
    cls = type(error) if isinstance(error, RxchatError) else RxchatError
    made = cls.__new__(cls, user_message(error))
    if isinstance(error, RxchatError):
        vars(made).update({name: value if name in _KEPT else _BLANK.get(name) for name, value in vars(error).items()})
        made.response = reduced_response(error.response) if error.response else None
    made.code = str(verdict_of(error))
    return made


def reduced_usage(usage: Usage | None) -> Usage | None:
    """
    Our counts without the provider's own objects.
    """
    return None if usage is None else attrs.evolve(usage, wire={}, raw=())


def reduced_response(response: ChatResponse) -> ChatResponse:
    """
    An answer of the parts a person may see, its steps and alternatives likewise.
    """
    return attrs.evolve(
        response,
        parts=tuple(reduce(part) for part in response.parts if (reduce := _PARTS.get(type(part)))),
        usage=reduced_usage(response.usage),
        steps=tuple(reduced_response(step) for step in response.steps),
        alternatives=tuple(reduced_response(other) for other in response.alternatives),
        unknown={},
        metadata={},
    )


# What a user interface needs of a reset. Thinking stays out, and what an attempt cost; the message is ours.
_OF_RESET = ("attempt", "source", "wait", "response_id", "shown", "text", "verdict")


def reduced_custom(event: Custom) -> Custom | None:
    """
    A reset without what a person may not see; nothing of any other extension.
    """
    if event.name != RESET or not isinstance(event.data, Mapping):
        return None
    message = "The answer broke off and begins again." if event.data.get("shown") else "The service did not answer and is asked again."
    return Custom(RESET, {**{name: event.data.get(name) for name in _OF_RESET}, "message": message})


def _same(value: Any) -> Any:
    return value


_PARTS: Mapping[type[Part], Callable[[Any], Part]] = {
    TextPart: _same,
    MediaPart: _same,
    CitationPart: _same,
    RefusalPart: _same,
    SearchResultPart: lambda part: SearchResultPart(part.url, part.title),
    ContentFilterPart: lambda part: ContentFilterPart(part.category, blocked=part.blocked),
}

_EVENTS: Mapping[type[ChatEvent], Callable[[Any], ChatEvent | None]] = {
    **dict.fromkeys((ResponseStart, Status, StepStart, TextStart, TextDelta, TextEnd, Citation, MediaPartial, MediaDone, RefusalDelta), _same),
    SearchResult: lambda event: SearchResult(event.url, event.title),
    ContentFilter: lambda event: ContentFilter(event.category, blocked=event.blocked, choice=event.choice),
    UsageUpdate: lambda event: UsageUpdate(attrs.evolve(event.usage, wire={}, raw=())),
    StepEnd: lambda event: StepEnd(event.step, reduced_response(event.response), reduced_usage(event.usage)),
    ResponseEnd: lambda event: ResponseEnd(reduced_response(event.response)),
    Abort: lambda event: Abort(event.reason, reduced_response(event.response)),
    Custom: reduced_custom,
}


# --- the operator ---------------------------------------------------------------------------------------------------------------------------------


class _ForUi(Stage[ChatEvent, ChatEvent]):
    """
    Reduce events, and the error behind them to the same object as its event's (contract E6).
    """

    def __init__(self) -> None:
        self._failure: tuple[Exception, RxchatError] | None = None

    def feed(self, item: ChatEvent, emit: Emit[ChatEvent]) -> None:
        if isinstance(item, ErrorEvent):
            error = reduced_error(item.error)
            self._failure = (item.error, error)
            emit(ErrorEvent(error, reduced_response(item.response), reduced_usage(item.usage)))
        else:
            reduce = _EVENTS.get(type(item))
            reduced = reduce(item) if reduce is not None else None
            if reduced is not None:
                emit(reduced)

    def fail(self, error: Exception, emit: Emit[ChatEvent]) -> None:
        if self._failure is None or self._failure[0] is not error:
            self._failure = (error, reduced_error(error))
        reduced = self._failure[1]
        try:
            raise reduced
        finally:
            # What is raised is linked to what is being handled: the error with everything in it.
            reduced.__context__ = None


def for_ui() -> Operator[ChatEvent, ChatEvent]:
    """
    Only what a user interface may be sent (contract S).

    on_error is reduced as well: an error of the same class, its `code` the verdict and its message `user_message`; one that is not ours becomes an
    RxchatError. Put retry and whatever else needs the full error before it.
    """
    return lift(_ForUi)
