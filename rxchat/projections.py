"""
The operators that take one thing out of a stream of events: text, calls, usage, the answer.

    model.stream(prompt).pipe(text_only()).subscribe(print)
    answer = await model.stream(prompt).pipe(aggregate())

Several of them may stand behind one shared stream (share_events). Where a bare value comes out, which cannot say its choice, it is that of choice 0 (contract
P13); whole events come out for every choice and carry it. After RxPY's retry, catch, concat a new ResponseStart begins anew (contract E12).
"""

from __future__ import annotations

from typing import Any, TypeVar, overload

from rxchat.errors import ConfigurationError, IncompleteStreamError, RxchatError
from rxchat.events import (
    Abort,
    Citation,
    ContentFilter,
    ErrorEvent,
    Event,
    MediaDone,
    MediaPartial,
    RefusalDelta,
    ResponseEnd,
    ResponseStart,
    StepEnd,
    TextDelta,
    ThinkingDelta,
    UsageUpdate,
)
from rxchat.operators import Operator, lift
from rxchat.response import ChatResponse, ToolCall, Usage
from rxchat.stage import Emit, Stage

__all__ = ["aggregate", "citations", "media", "of_type", "safety", "text_only", "thinking_only", "tool_calls", "usage"]

A = TypeVar("A")
B = TypeVar("B")
C = TypeVar("C")
D = TypeVar("D")


# --- events by class ------------------------------------------------------------------------------------------------------------------------------


class _OfType(Stage[Any, Any]):
    """
    Pass the instances of some classes.
    """

    def __init__(self, classes: tuple[type, ...]) -> None:
        self._classes = classes

    def feed(self, item: Any, emit: Emit[Any]) -> None:
        if isinstance(item, self._classes):
            emit(item)


@overload
def of_type(first: type[A], /) -> Operator[Any, A]: ...
@overload
def of_type(first: type[A], second: type[B], /) -> Operator[Any, A | B]: ...
@overload
def of_type(first: type[A], second: type[B], third: type[C], /) -> Operator[Any, A | B | C]: ...
@overload
def of_type(first: type[A], second: type[B], third: type[C], fourth: type[D], /) -> Operator[Any, A | B | C | D]: ...
@overload
def of_type(*classes: type[A]) -> Operator[Any, A]: ...


def of_type(*classes: type[Any]) -> Operator[Any, Any]:
    """
    Only the instances of these classes; type checkers know what is left, for up to four of them. ConfigurationError if none is given, or what is no class.
    """
    if not classes:
        raise ConfigurationError("of_type() needs a class, or nothing would ever pass")
    for cls in classes:
        if not isinstance(cls, type):
            raise ConfigurationError(f"of_type takes classes, as TextDelta, not {cls!r}")
    return lift(lambda: _OfType(classes))


def citations() -> Operator[Event, Citation]:
    """
    The sources of the answer, as they come.
    """
    return of_type(Citation)


def media() -> Operator[Event, MediaPartial | MediaDone]:
    """
    Images, audio, video, files: the states on the way and the finished items.
    """
    return of_type(MediaPartial, MediaDone)


def safety() -> Operator[Event, RefusalDelta | ContentFilter]:
    """
    The model's refusals and the provider's safety decisions (contract V7).
    """
    return of_type(RefusalDelta, ContentFilter)


# --- text -----------------------------------------------------------------------------------------------------------------------------------------


class _Text(Stage[Event, str]):
    """
    The text of the deltas of one class, of choice 0.
    """

    def __init__(self, kind: type[TextDelta] | type[ThinkingDelta]) -> None:
        self._kind = kind

    def feed(self, item: Event, emit: Emit[str]) -> None:
        if isinstance(item, self._kind) and item.choice == 0:
            emit(item.text)


def text_only() -> Operator[Event, str]:
    """
    The pieces of the visible answer, of choice 0; joined they are `response.text`, unless blocks of different keys interleave.
    """
    return lift(lambda: _Text(TextDelta))


def thinking_only() -> Operator[Event, str]:
    """
    The pieces of the readable reasoning, of choice 0; joined they are `response.thinking`, likewise.
    """
    return lift(lambda: _Text(ThinkingDelta))


# --- calls ----------------------------------------------------------------------------------------------------------------------------------------


class _ToolCalls(Stage[Event, ToolCall]):
    """
    The calls of each step that ended well.
    """

    def feed(self, item: Event, emit: Emit[ToolCall]) -> None:
        if isinstance(item, StepEnd) and item.response.verdict is None and item.response.finish_reason.complete:
            for call in item.response.tool_calls:
                if call.complete and not call.server_executed:
                    emit(call)


def tool_calls() -> Operator[Event, ToolCall]:
    """
    The calls the client is to run, of choice 0, at the end of their step (contract T1).

    Only complete ones, and only of a step that ended well with a finish reason that allows it (T2): nothing of a step that was cut, aborted or failed, stopped
    by length or filter. What the provider ran itself is left out (P10). `arguments` is None where their text is not one strict JSON object: answer such a call
    with an error, do not run it.
    """
    return lift(_ToolCalls)


# --- usage ----------------------------------------------------------------------------------------------------------------------------------------


class _UsageTotal(Stage[Event, Usage]):
    """
    The sum of the steps that ended and the snapshot of the one at hand (contract U).
    """

    def __init__(self) -> None:
        self._ended: Usage | None = None
        self._snapshot: Usage | None = None

    def feed(self, item: Event, emit: Emit[Usage]) -> None:
        if isinstance(item, UsageUpdate):
            self._snapshot = self._snapshot.merge(item.usage) if self._snapshot else item.usage
            emit(_added(self._ended, self._snapshot) or item.usage)
        elif isinstance(item, StepEnd):
            self._ended = _added(self._ended, item.usage or self._snapshot)
            self._snapshot = None
        elif isinstance(item, ResponseStart):
            self._ended = self._snapshot = None
        elif isinstance(item, ResponseEnd | Abort | ErrorEvent):
            total = item.response.usage or _added(self._ended, self._snapshot)
            if total is not None:
                emit(total)


def _added(total: Usage | None, step: Usage | None) -> Usage | None:
    return step if total is None else total if step is None else total.add(step)


def usage() -> Operator[Event, Usage]:
    """
    The token counts of the whole response so far: at each UsageUpdate the steps before and the snapshot of this one, at the terminal the final total.

    Each item replaces the one before. Nothing comes out of a response whose provider reports no usage.
    """
    return lift(_UsageTotal)


# --- the answer -----------------------------------------------------------------------------------------------------------------------------------


class _Answer(Stage[Event, ChatResponse]):
    """
    The answer on the terminal, or why there is none.
    """

    def __init__(self) -> None:
        self._missing: RxchatError | None = _no_terminal()

    def feed(self, item: Event, emit: Emit[ChatResponse]) -> None:
        if isinstance(item, ResponseEnd | Abort):
            if item.response.verdict is None:
                raise ConfigurationError("the terminal carries no answer: put normalize() before aggregate()")
            self._missing = None
            emit(item.response)
        elif isinstance(item, ErrorEvent):
            self._missing = item.error
        elif isinstance(item, ResponseStart):
            self._missing = _no_terminal()

    def flush(self, emit: Emit[ChatResponse]) -> None:
        if self._missing is not None:
            raise self._missing


def _no_terminal() -> IncompleteStreamError:
    return IncompleteStreamError("the events ended before a terminal: there is no answer")


def aggregate() -> Operator[Event, ChatResponse]:
    """
    Exactly one ChatResponse per response, when it ends by ResponseEnd or Abort; its verdict tells which, and whether it is whole.

    A stream that fails is on_error with its error, one that completes without a terminal IncompleteStreamError, one that completes behind an ErrorEvent
    (something caught its on_error) the error of that event. ConfigurationError if the answer was never folded: normalize() is missing.
    """
    return lift(_Answer)
