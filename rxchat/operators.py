"""
The operators that are stages: `lift` turns any stage into one, the named ones are lifted here.

    bytes -> frame_sse() -> parse("openai-chat") -> normalize() -> filter_events(f)
             frame_ndjson(), frame_json_array(), frame_aws_event_stream()         split_think_tags()

Each works alone and with RxPY's own operators before and behind it; `chat_events` (pipeline.py) is the standard composition of them. State is made inside
`subscribe`, one set per subscription, and the scheduler is passed on to the source, because it carries the valve (see demand.py).

Who hears of a failure (contract E14, D8):

- a fault of the stage, or of the source: the subscriber's on_error;
- what the subscriber raises in on_next: its own on_error, as it is, after the source was disposed of; nothing reaches the producer;
- a subscriber without on_error: one line in the log, instead of RxPY's raising into the producer. This holds where the error passes one of our operators,
  whatever stands behind it; a chain of stock operators alone behaves as RxPY does;
- KeyboardInterrupt, CancelledError and the like climb to the producer, after the source was disposed of.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias, TypeVar

from reactivex import Observable, abc
from reactivex.disposable import SerialDisposable

from rxchat.aggregator import Aggregator
from rxchat.decode import Utf8Decoder
from rxchat.dialects import Dialect, get_dialect
from rxchat.dialects.base import UnknownPolicy
from rxchat.errors import RxchatError
from rxchat.events import ChatEvent
from rxchat.filters import DEFAULT, Predicate, as_filter
from rxchat.framing import framer_for
from rxchat.framing.frames import Frame
from rxchat.limits import Limits
from rxchat.normalizer import Normalizer
from rxchat.stage import Chain, ConsumerError, Emit, Stage, StreamDone
from rxchat.think_tags import THINK_TAGS, ThinkTagSplitter, tag_names

__all__ = [
    "Operator",
    "decode_utf8",
    "filter_events",
    "frame_aws_event_stream",
    "frame_json_array",
    "frame_ndjson",
    "frame_sse",
    "lift",
    "normalize",
    "parse",
    "split_think_tags",
]

log = logging.getLogger("rxchat")

In = TypeVar("In")
Out = TypeVar("Out")

Operator: TypeAlias = Callable[[Observable[In]], Observable[Out]]


# --- lift -----------------------------------------------------------------------------------------------------------------------------------------


def lift(factory: Callable[[], Stage[In, Out]]) -> Operator[In, Out]:
    """
    The operator of a stage; `factory` makes a fresh one per subscription, what it raises goes to on_error.

    Values first, then the error. When the stage is done, the source is disposed of and the stream completes. Equal to `run` and `arun` in what comes out.
    """

    def operator(source: Observable[In]) -> Observable[Out]:
        def subscribe(observer: abc.ObserverBase[Out], scheduler: abc.SchedulerBase | None = None) -> abc.DisposableBase:
            return Lifted(factory(), observer).connect(source, scheduler)

        return Observable(subscribe)

    return operator


class _Stopped(BaseException):
    """
    The subscriber has left in the middle of a feed: stop working for it.
    """


class Lifted:
    """
    One subscription of a lifted stage.
    """

    __slots__ = ("_emit", "_observer", "_over", "_stage", "_upstream")

    def __init__(self, stage: Stage[Any, Any], observer: abc.ObserverBase[Any]) -> None:
        self._stage = stage
        # RxPY's AutoDetachObserver, as in every subscribe function; `is_stopped` tells that the subscriber has left.
        self._observer: Any = observer
        # A source may push before its `subscribe` returns: disposing of this early disposes of the source as soon as it is assigned.
        self._upstream = SerialDisposable()
        self._over = False
        self._emit = self._emitter()

    def _emitter(self) -> Emit[Any]:
        observer, on_next = self._observer, self._observer.on_next

        def emit(item: Any) -> None:
            try:
                on_next(item)
            except BaseException as error:
                raise ConsumerError(error) from error
            if observer.is_stopped:
                raise _Stopped

        return emit

    def connect(self, source: Observable[Any], scheduler: abc.SchedulerBase | None) -> abc.DisposableBase:
        """
        Start the stage, then subscribe; what is returned disposes of the source.
        """
        self.call(self._stage.start)
        if not self._over:
            self._upstream.disposable = source.subscribe(self.on_next, self.on_error, self.on_completed, scheduler=scheduler)
        return self._upstream

    def on_next(self, item: Any) -> None:
        if self._over:
            return
        try:
            self._stage.feed(item, self._emit)
        except BaseException as end:
            self._end(end)

    def on_completed(self) -> None:
        if self.call(self._stage.flush):
            self._over = True
            self._observer.on_completed()

    def on_error(self, error: Exception) -> None:
        if self.call(self._stage.fail, error):
            self._over = True
            tell(self._observer, error)

    def call(self, method: Callable[..., None], *args: Any) -> bool:
        """
        Call something of the stage; False if that ended the subscription, or it was over already.
        """
        if self._over:
            return False
        try:
            method(*args, self._emit)
        except BaseException as end:
            self._end(end)
            return False
        return True

    def _end(self, end: BaseException) -> None:
        self._over = True
        self._upstream.dispose()
        if isinstance(end, StreamDone):
            self._observer.on_completed()
        elif isinstance(end, ConsumerError):
            give_back(self._observer, end.error)
        elif isinstance(end, Exception):
            tell(self._observer, end)
        elif not isinstance(end, _Stopped):
            raise end


def give_back(observer: Any, error: BaseException) -> None:
    """
    A subscriber raised in on_next: it hears of it itself, if it is still there (contract E14).
    """
    if not isinstance(error, Exception):
        raise error
    if observer.is_stopped:
        log.error("a subscriber raised behind its end", exc_info=error)
    else:
        tell(observer, error)


def tell(observer: Any, error: Exception) -> None:
    """
    on_error; where nobody listens, one line in the log (contract D8).
    """
    try:
        observer.on_error(error)
    except Exception as raised:
        # RxPY's default for a missing on_error is to raise the error itself; that is no fault of the producer, which would get it.
        if raised is not error:
            raise
        # A traceback only where it leads to somebody's code: ours says nothing a verdict does not say.
        if isinstance(error, RxchatError):
            log.error("a stream failed and nobody listens (subscribe with on_error): %s: %s", error.verdict, error)
        else:
            log.error("a stream failed and nobody listens (subscribe with on_error)", exc_info=error)


# --- bytes and frames -----------------------------------------------------------------------------------------------------------------------------


def decode_utf8() -> Operator[bytes, str]:
    """
    Strict, incremental UTF-8 (contract B1), for text protocols of your own: the framers take bytes and are as strict themselves.
    """
    return lift(Utf8Decoder)


def _frame(name: str, limits: Limits | None) -> Operator[bytes, Any]:
    bounds = limits or Limits()
    return lift(lambda: framer_for(name, bounds))


def frame_sse(*, limits: Limits | None = None) -> Operator[bytes, Frame]:
    """
    An event stream as the WHATWG describes it (contract B2): SseEvent, StrayText, Undispatched.
    """
    return _frame("sse", limits)


def frame_ndjson(*, limits: Limits | None = None) -> Operator[bytes, Frame]:
    """
    One strict JSON value a line: JsonRecord.
    """
    return _frame("ndjson", limits)


def frame_json_array(*, limits: Limits | None = None) -> Operator[bytes, Frame]:
    """
    The elements of one JSON array as they come: JsonRecord, the last one marking the closing bracket.
    """
    return _frame("json-array", limits)


def frame_aws_event_stream(*, limits: Limits | None = None) -> Operator[bytes, Frame]:
    """
    Messages of an AWS event stream, checksums verified: AwsMessage.
    """
    return _frame("aws-eventstream", limits)


# --- events ---------------------------------------------------------------------------------------------------------------------------------------


def parse(
    dialect: str | Dialect,
    *,
    options: Mapping[str, Any] | None = None,
    profile: str = "default",
    limits: Limits | None = None,
    unknown: UnknownPolicy = "raw",
    clean_eof: bool = True,
) -> Operator[Frame, ChatEvent]:
    """
    Translate frames to the raw events of one response: neither tidied nor folded (normalize), without ResponseStart; a failure is on_error alone.

    `clean_eof=False` says that the end of the frames proves nothing (contract V5). ConfigurationError at once for an unknown dialect, option or profile.
    """
    spec = get_dialect(dialect) if isinstance(dialect, str) else dialect
    bounds = limits or (Limits.strict if profile == "strict_text" else Limits())
    context = spec.context(options, limits=bounds, unknown=unknown, profile=profile, clean_eof=clean_eof)
    return lift(lambda: spec.parser(context))


def normalize() -> Operator[ChatEvent, ChatEvent]:
    """
    Make every block balanced (contract E, N), and fold the answer into the events that carry it: ToolCallEnd, StepEnd, the terminals (contract V).

    It adds neither ResponseStart nor a terminal (contract P15), and may be applied again (N8).
    """
    return lift(lambda: Chain(Normalizer(), Aggregator()))


def split_think_tags(names: Sequence[str] | str = THINK_TAGS) -> Operator[ChatEvent, ChatEvent]:
    """
    Take reasoning that comes as `<think>...</think>` out of the text and make it thinking.

    Put it between parse and normalize: the answers that ride on events are folded there, and are left as they are here. ConfigurationError at once for what
    is not the name of a tag.
    """
    checked = tag_names(names)
    return lift(lambda: ThinkTagSplitter(checked))


class _Filter(Stage[ChatEvent, ChatEvent]):
    """
    Pass what a predicate allows.
    """

    def __init__(self, allows: Predicate) -> None:
        self._allows = allows

    def feed(self, item: ChatEvent, emit: Emit[ChatEvent]) -> None:
        if self._allows(item):
            emit(item)


def filter_events(predicate: Predicate = DEFAULT) -> Operator[ChatEvent, ChatEvent]:
    """
    Show only what the filter allows, exactly: not guarded by itself (contract F). What the predicate raises is on_error, without an ErrorEvent (E12).
    """
    allows = as_filter(predicate).predicate
    return lift(lambda: _Filter(allows))
