"""
The standard composition: one response, from its bytes to its events, as a stage (`response_stage`) and as an operator (`chat_events`).

    bytes -> framer -> parser -> [normalizer -> aggregator] -> events
             \\______ body _____/  \\________ tail _________/

`Envelope` holds both and adds the lifecycle of contract E: ResponseStart at the subscription, exactly one terminal, and on failure the closing ENDs, StepEnd,
ErrorEvent, then the error itself. What the body is (a stream, a JSON body, a refused answer) is decided by status and content type, before its first byte.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, NoReturn

import attrs

from rxchat.aggregator import Aggregator
from rxchat.dialects import Dialect, get_dialect
from rxchat.dialects.base import UnknownPolicy
from rxchat.errors import AbortedError, ConfigurationError, IncompleteStreamError, RxchatError
from rxchat.events import Abort, ChatEvent, ErrorEvent, Event, ResponseEnd, ResponseStart, StepEnd
from rxchat.framing import framer_for
from rxchat.limits import Limits
from rxchat.normalizer import Normalizer
from rxchat.refusals import RefusedBody, refuse
from rxchat.response import ChatResponse
from rxchat.stage import Chain, Emit, Stage, StreamDone

if TYPE_CHECKING:
    from rxchat.operators import Operator

__all__ = ["Envelope", "Head", "NextBody", "chat_events", "response_stage"]


@attrs.frozen
class Head:
    """
    What is known of a response before its body: status, headers, and whether the end of its body proves anything (contract V5).

    A body read from a file has status 200 and a clean end. Header names are compared without case.
    """

    status: int = 200
    headers: Mapping[str, str] = attrs.field(factory=dict)
    clean_eof: bool = True

    @property
    def content_type(self) -> str | None:
        """
        The Content-Type header as sent, or None.
        """
        return next((value for name, value in self.headers.items() if name.lower() == "content-type"), None)


# In place of a body.
NOTHING: Stage[bytes, ChatEvent] = Stage()


def new_response_id() -> str:
    """
    A local id: unique, with a prefix no provider uses.
    """
    return f"rx-{uuid.uuid4().hex}"


class NextBody(BaseException):
    """
    The body at hand is over, its response is not: what is fed from now on is another body (contract D5).

    Raised by an Envelope whose `forgive` said so; a driver that gives it that hook has to expect this. A BaseException, as StreamDone is.
    """


class Envelope(Stage[bytes, ChatEvent]):
    """
    One response with its lifecycle (contract E1, E6, E7).

    `open_body` makes the stage from bytes to raw events when the first byte, the end or the failure arrives: by then the head is known. `forgive` is asked
    about a failure of ours before anything is said of it; True: NextBody is raised instead, and another body may be fed.

    `gate`, set before the start, stands between body and tail: it is given the way into the tail, and gives the one that bodies and terminals take. It may
    hold back what ends a step, and leave the body. The steps of the next one count from `first_step`. `whole` tells that the last body came to the end which
    its protocol knows: nothing more is to be expected of it.
    """

    forgive: Callable[[RxchatError], bool] | None = None
    gate: Callable[[Emit[ChatEvent]], Emit[ChatEvent]] | None = None
    first_step: int = 0
    whole: bool = False

    def __init__(self, open_body: Callable[[], Stage[bytes, ChatEvent]], *, response_id: str | None = None, provenance: bool = False) -> None:
        self._open_body = open_body
        self._body: Stage[bytes, ChatEvent] | None = None
        self._former: Stage[bytes, ChatEvent] = NOTHING
        self._normalizer = Normalizer()
        self._aggregator = Aggregator()
        self._tail: Chain[ChatEvent, ChatEvent] = Chain(self._normalizer, self._aggregator)
        self._response_id = response_id or new_response_id()
        self._provenance = provenance
        self._emit: Emit[ChatEvent] | None = None
        self._push: Emit[ChatEvent] = _closed
        self._enter: Emit[ChatEvent] = _closed
        self._out: Emit[ChatEvent] = _closed
        self._ended = False

    def start(self, emit: Emit[ChatEvent]) -> None:
        self._to(emit)(ResponseStart(self._response_id))

    def feed(self, item: bytes, emit: Emit[ChatEvent]) -> None:
        push = self._push if emit is self._emit else self._to(emit)
        try:
            body = self._body or self._opened()
            body.feed(item, push)
        except Exception as error:
            self._failed(error, emit)
            raise

    def flush(self, emit: Emit[ChatEvent]) -> None:
        push = self._to(emit)
        try:
            (self._body or self._opened()).flush(push)
            if not self._ended:
                raise IncompleteStreamError("the body ended before its protocol's end")
        except Exception as error:
            self._failed(error, emit)
            raise

    def fail(self, error: Exception, emit: Emit[ChatEvent]) -> None:
        push = self._to(emit)
        if self._body is not None:
            try:
                self._body.fail(error, push)
            except RxchatError as known:
                # A refused answer: its head told more than the broken transfer does.
                self._failed(known, emit)
                raise
        self._failed(error, emit)

    def abort(self, reason: str | None, emit: Emit[ChatEvent]) -> None:
        """
        End the response from outside: closing ENDs, StepEnd, Abort (contract D7). Nothing if it has ended already.
        """
        if not self._ended:
            if self._body is not None:
                self._body.fail(AbortedError("aborted"), self._to(emit))
            self._to(emit)(Abort(reason))

    def settle(self, end: StepEnd) -> ChatResponse:
        """
        Close what the step at hand has open, as this end of it will; the answer as it would be behind it. For the gate.
        """
        self._normalizer.settle(end.response, lambda event: self._aggregator.feed(event, self._out))
        return self._aggregator.answer_with(end)

    def tell(self, event: ChatEvent, emit: Emit[ChatEvent]) -> None:
        """
        Say something of the response that no body says, past the gate; StreamDone behind a terminal.
        """
        self._to(emit)
        self._enter(event)
        if self._ended:
            raise StreamDone

    def drop(self) -> None:
        for stage in (self._former, self._body or NOTHING, self._tail):
            stage.drop()
        self._body = self._emit = self.forgive = self.gate = None
        self._push = self._enter = self._out = _closed
        self._open_body = _no_body

    @property
    def partial(self) -> ChatResponse:
        """
        The response as far as it has come.
        """
        return self._aggregator.response

    def _opened(self) -> Stage[bytes, ChatEvent]:
        self.whole = False
        # Not when it was left: it was at work.
        self._former.drop()
        self._body = self._open_body()
        return self._body

    def _failed(self, error: Exception, emit: Emit[ChatEvent]) -> None:
        if self._ended:
            return
        if isinstance(error, RxchatError):
            self._forgiven(error)
            self._to(emit)(ErrorEvent(error))
        else:
            # Not ours to judge (a user's operator in front of us, a user's policy): close what is open, the error goes on as it is (contract E12).
            self._ended = True
            self._tail.fail(error, emit)

    def _forgiven(self, error: RxchatError) -> None:
        if self.forgive is not None and self.forgive(error):
            self.next_body(whole=False)

    def next_body(self, *, whole: bool = True) -> NoReturn:
        """
        Leave the body at hand, which is `whole` or has failed: raises NextBody, through whatever stage calls this.
        """
        self._former, self._body, self.whole = self._body or NOTHING, None, whole
        raise NextBody

    def _to(self, emit: Emit[ChatEvent]) -> Emit[ChatEvent]:
        """
        The way into the tail: seals the stream behind its terminal (contract E1).
        """
        if emit is self._emit:
            return self._push
        self._out = self._stamped(emit) if self._provenance else emit
        enter = self._tail.entry(self._out)

        def push(event: ChatEvent) -> None:
            if self._ended:
                return
            if event.terminal:
                self._ended, self.whole = True, type(event) is ResponseEnd
            enter(event)

        self._emit, self._enter = emit, push
        self._push = push if self.gate is None else self.gate(push)
        return self._push

    def _stamped(self, emit: Emit[ChatEvent]) -> Emit[ChatEvent]:
        def stamp(event: ChatEvent) -> None:
            span = getattr(self._body, "span", None)
            if span is not None:
                # Not a field, so not by the frozen class's own setter.
                object.__setattr__(event, "_span", span)
            emit(event)

        return stamp


def _closed(event: Event) -> None:
    raise AssertionError("an envelope emitted before it was started")


def _no_body() -> NoReturn:
    raise AssertionError("an envelope was fed behind its end")


class BodyChain(Chain[bytes, ChatEvent]):
    """
    Framer and parser; `span` is the byte range of the frame at hand, also of one that is at fault; None between frames.
    """

    __slots__ = ("span",)

    def __init__(self, framer: Stage[bytes, Any], parser: Stage[Any, ChatEvent], *, provenance: bool) -> None:
        self.span: tuple[int, int] | None = None
        stages = [framer, _Spans(self), parser] if provenance else [framer, parser]
        super().__init__(*stages)


class _Spans(Stage[Any, Any]):
    """
    Notes the byte range of each frame on its way to the parser.
    """

    def __init__(self, body: BodyChain) -> None:
        self._body = body

    def feed(self, frame: Any, emit: Emit[Any]) -> None:
        self._body.span = (frame.start, frame.end)
        emit(frame)
        self._body.span = None


def response_stage(
    dialect: str | Dialect,
    *,
    options: Mapping[str, Any] | None = None,
    profile: str = "default",
    limits: Limits | None = None,
    unknown: UnknownPolicy = "raw",
    provenance: bool = False,
    head: Callable[[], Head] = Head,
    response_id: str | None = None,
) -> Envelope:
    """
    One response of `dialect` as a stage from bytes to ChatEvents.

    `head` is asked when the body begins. ConfigurationError at once for an unknown dialect, option or profile.
    """
    spec = get_dialect(dialect) if isinstance(dialect, str) else dialect
    _of_type("a dialect", spec, Dialect)
    _of_type("options", options or {}, Mapping)
    bounds = limits or (Limits.strict if profile == "strict_text" else Limits())
    _of_type("limits", bounds, Limits)
    context = spec.context(options, limits=bounds, unknown=unknown, provenance=provenance, profile=profile)

    def open_body() -> Stage[bytes, ChatEvent]:
        known = head()
        framing = refuse(spec, known, profile, bounds)
        if isinstance(framing, RefusedBody):
            return framing
        told = context
        if (known.clean_eof, envelope.first_step) != (context.clean_eof, context.first_step):
            told = attrs.evolve(context, clean_eof=known.clean_eof, first_step=envelope.first_step)
        return BodyChain(framer_for(framing, bounds), spec.parser(told), provenance=provenance)

    envelope = Envelope(open_body, response_id=response_id, provenance=provenance)
    return envelope


def _of_type(what: str, value: object, kind: type) -> None:
    if not isinstance(value, kind):
        raise ConfigurationError(f"{what} cannot be {type(value).__name__}")


def chat_events(
    dialect: str | Dialect,
    *,
    options: Mapping[str, Any] | None = None,
    profile: str = "default",
    limits: Limits | None = None,
    unknown: UnknownPolicy = "raw",
    provenance: bool = False,
    head: Callable[[], Head] = Head,
    response_id: str | None = None,
) -> Operator[bytes, ChatEvent]:
    """
    The standard composition as one operator: the bytes of one response in, its events with their lifecycle out (contract E).

        rx.of(body).pipe(chat_events("openai-chat"), text_only()).subscribe(print)

    Each subscription is a response of its own (E12), with a response id of its own unless one is given. The arguments are those of `response_stage`;
    ConfigurationError at once for an unknown dialect, option or profile.
    """

    # Whoever only runs the stage need not wait for RxPY.
    from rxchat.operators import lift

    def stage() -> Envelope:
        return response_stage(
            dialect,
            options=options,
            profile=profile,
            limits=limits,
            unknown=unknown,
            provenance=provenance,
            head=head,
            response_id=response_id,
        )

    stage()
    return lift(stage)
