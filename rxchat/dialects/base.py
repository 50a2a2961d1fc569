"""
What every dialect is made of: `Dialect` (one line in the table), `Parser` (the stage from frames to events) and helpers to read dicts tolerantly.

A dialect only translates. It does not open or close blocks for tidiness (normalizer), keep totals or texts (aggregator), or decide what is shown (filter).
What it must do:

- `open_step(emit, ...)` before the first event of a step; deltas with the wire's own index or item id; `ToolCallEnd` only where the provider ends a call;
- at the protocol's own end (contract P9) `end_step(emit, finish, raw_word, ...)`, then `end_response(emit)`: never on EOF alone;
- `abort_response(reason, emit)` where the provider cancels;
- raise `ProviderError` for a failure the provider reports, `DialectError` for a *known* frame that is malformed (contract E11);
- `unknown(name, payload, emit)` for what it does not know; it never breaks a stream.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping
from typing import Any, ClassVar, NoReturn, TypeAlias

import attrs

from rxchat.errorbody import provider_error, stray_error
from rxchat.errors import AbortedError, ConfigurationError, DialectError, IncompleteStreamError, LimitExceeded, RxchatError, verdict_of
from rxchat.events import (
    Abort,
    ChatEvent,
    Raw,
    RefusalDelta,
    ResponseEnd,
    StepEnd,
    StepStart,
    TextDelta,
    ThinkingDelta,
    ToolCallArgsDelta,
    UsageUpdate,
)
from rxchat.framing.frames import AwsMessage, Frame, JsonBody, JsonRecord, SseEvent, StrayText, Undispatched
from rxchat.limits import Limits
from rxchat.outgoing.common import ModelCall, WireRequest
from rxchat.response import COUNTERS, ChatResponse, FinishReason, Usage
from rxchat.stage import Emit, Stage, StreamDone
from rxchat.strictjson import JsonReader
from rxchat.templates import Path, Slot, TemplateReader, template

__all__ = ["Context", "Dialect", "Option", "Parser", "Repeated", "UnknownPolicy", "UsageFold", "integer", "mapping", "sequence", "string"]

log = logging.getLogger("rxchat")

UnknownPolicy: TypeAlias = str | Callable[[str, Any], None]
UNKNOWN_POLICIES = ("raw", "ignore", "error")
# How a fault of a dialect itself is worded.
UNREADABLE = "the dialect could not read this frame"


# --- the table line -------------------------------------------------------------------------------------------------------------------------------


@attrs.frozen
class Option:
    """
    One option of a dialect: its default, what it means, and the values allowed (any string if none are listed). A bool default reads true / false.
    """

    default: Any
    doc: str
    choices: tuple[str, ...] = ()

    def read(self, name: str, value: Any) -> Any:
        """
        The value as the dialect wants it, from text or as it is; ConfigurationError if it is none of the choices.
        """
        if isinstance(self.default, bool):
            words = {"true": True, "1": True, "yes": True, "on": True, "false": False, "0": False, "no": False, "off": False}
            value = words.get(value.lower(), value) if isinstance(value, str) else value
            if not isinstance(value, bool):
                raise ConfigurationError(f"option {name} is true or false, not {value!r}")
            return value
        if self.choices and value not in self.choices:
            raise ConfigurationError(f"option {name} is one of {', '.join(self.choices)}, not {value!r}")
        return value


@attrs.frozen
class Context:
    """
    What a parser is told when a response begins.

    `clean_eof` is False where the end of the body proves nothing (a close-delimited HTTP body, contract V5). `provenance` keeps byte ranges on events.
    `first_step` is the number of the body's first step: a response may have several bodies (contract T4).
    """

    options: Mapping[str, Any] = attrs.field(factory=dict)
    limits: Limits = attrs.field(factory=Limits)
    clean_eof: bool = True
    unknown: UnknownPolicy = "raw"
    provenance: bool = False
    profile: str = "default"
    first_step: int = 0


@attrs.frozen
class Dialect:
    """
    One wire protocol.

    `framings` maps media types (lower case, no parameters) to framer names; the first is what a missing content type means. "json" is the non-streamed
    body. `options` are those of its parser; `request` builds what is sent, None for a dialect that only reads.
    """

    name: str
    framings: Mapping[str, str]
    parser: Callable[[Context], Parser]
    options: Mapping[str, Option] = attrs.field(factory=dict)
    profiles: tuple[str, ...] = ("default",)
    doc: str = ""
    request: Callable[[ModelCall], WireRequest] | None = None

    def context(self, options: Mapping[str, Any] | None = None, **kwargs: Any) -> Context:
        """
        A context with checked options; ConfigurationError names an unknown one and lists those that exist.
        """
        given = dict(options or {})
        unknown = sorted(set(given) - set(self.options))
        if unknown:
            known = ", ".join(sorted(self.options)) or "none"
            raise ConfigurationError(f"dialect {self.name} has no option {', '.join(unknown)}; it has: {known}")
        checked = {name: option.read(name, given.get(name, option.default)) for name, option in self.options.items()}
        context = Context(options=checked, **kwargs)
        if context.profile not in self.profiles:
            raise ConfigurationError(f"dialect {self.name} has no profile {context.profile}; it has: {', '.join(self.profiles)}")
        if not callable(context.unknown) and context.unknown not in UNKNOWN_POLICIES:
            raise ConfigurationError(f"unknown is one of {', '.join(UNKNOWN_POLICIES)} or a callable, not {context.unknown!r}")
        return context


# --- the parser -----------------------------------------------------------------------------------------------------------------------------------


@attrs.frozen
class Repeated:
    """
    What may differ in the frames that follow one, and what then is to be done: `take(text, emit)`, with an INTEGER slot `take((text, number), emit)`.

    `plain` says that `take` emits one text, thinking or refusal delta of that text and nothing else: its size is then counted here.
    """

    slots: Mapping[Path, Slot]
    take: Callable[[Any, Emit[ChatEvent]], object]
    plain: bool = False


# How many frames are parsed as usual before a template is made; twice as many each time none could be made, or it served for no more than `_OF_USE`:
# making one may cost as much as reading that many.
_PATIENCE, _MOST_PATIENCE, _OF_USE = 2, 1024, 32


class Parser(Stage[Frame, ChatEvent]):
    """
    From frames to events, one response. Subclasses fill in `on_...`; this class counts limits, keeps the step and words the ends.
    """

    # Most of these are looked at for every frame, and a dialect adds its own: together they would be too many for the compact form of an instance.
    __slots__ = (
        "__arguments",
        "__emit",
        "__frames",
        "__last",
        "__learned",
        "__most",
        "__most_output",
        "__name",
        "__out",
        "__output",
        "__patience",
        "__plain",
        "__read",
        "__take",
        "__template",
        "__waits",
        "after_finish",
        "context",
        "finish",
        "finish_raw",
        "limits",
        "metadata",
        "model",
        "offset",
        "options",
        "response_id",
        "step",
        "step_open",
        "unknown_names",
    )

    finish_reasons: ClassVar[Mapping[str, FinishReason]] = {}

    def __init__(self, context: Context) -> None:
        self.context = context
        self.options = context.options
        self.limits = context.limits
        self.step = context.first_step
        self.step_open = False
        self.finish: FinishReason | None = None
        self.finish_raw: str | None = None
        self.unknown_names: dict[str, int] = {}
        self.after_finish = 0
        self.metadata: dict[str, Any] = {}
        self.offset = 0  # of the frame at hand, for errors; at the end of the body, where the last one ended
        self.response_id: str | None = None
        self.model: str | None = None
        # Mangled names: a dialect's own attributes cannot collide with them.
        self.__frames = 0
        self.__most, self.__most_output = context.limits.events, context.limits.output
        self.__read = JsonReader(context.limits.json_depth).loads
        self.__output = 0
        self.__arguments: dict[Any, int] = {}
        self.__last: Frame | None = None
        self.__template: TemplateReader | None = None
        self.__take: Callable[[Any, Emit[ChatEvent]], object] = _nothing
        self.__plain = False  # whether what it takes is a delta of output
        self.__name = ""  # of the events the template is for
        self.__learned = 0  # the frame it was made of
        self.__patience = self.__waits = _PATIENCE
        self.__emit: Emit[ChatEvent] | None = None
        self.__out: Emit[ChatEvent] = _nobody

    # What a dialect fills in -----------------------------------------------------------------------------------------------------------------

    def on_event(self, value: Any, event: SseEvent, emit: Emit[ChatEvent]) -> None:
        """
        One SSE event, its data parsed as JSON.
        """
        raise DialectError("this dialect reads no event stream", event.start)

    def repeats(self, value: Any, event: SseEvent) -> Repeated | None:
        """
        Whether the event just read, if it came again with another text in it, would say that text and nothing else; asked behind some of them.

        As long as events fit, their values are not made: `take` must do what `on_event` would. Any other frame ends it.
        """
        return None

    def on_record(self, value: Any, record: JsonRecord, emit: Emit[ChatEvent]) -> None:
        """
        One value of NDJSON or of a JSON array.
        """
        raise DialectError("this dialect reads no records", record.start)

    def on_message(self, message: AwsMessage, emit: Emit[ChatEvent]) -> None:
        """
        One message of an AWS event stream.
        """
        raise DialectError("this dialect reads no AWS event stream", message.start)

    def on_body(self, value: Any, emit: Emit[ChatEvent]) -> None:
        """
        The whole non-streamed JSON body: the same events as its stream, then the end.
        """
        raise DialectError("this dialect reads no JSON body", 0)

    def on_sentinel(self, event: SseEvent, emit: Emit[ChatEvent]) -> bool:
        """
        Look at an event before its data are parsed as JSON; True if it was a sentinel (`[DONE]`) and is done with. Data that begin an object are none.
        """
        return False

    def on_stray(self, stray: StrayText, emit: Emit[ChatEvent]) -> None:
        """
        Lines that are no SSE fields (contract P8): ProviderError if there is an error in them, else they are Raw and change nothing.
        """
        self.refuse_stray(stray)
        self.unknown("stray", stray.text, emit)

    def on_undispatched(self, held: Undispatched, emit: Emit[ChatEvent]) -> None:
        """
        The body ended inside an event (contract P9): a truncated stream, unless the dialect knows better.
        """
        raise IncompleteStreamError("the body ends inside an event", held.start)

    def on_eof(self, emit: Emit[ChatEvent]) -> None:
        """
        The body ended, no bytes are held, the response has not ended.
        """
        raise IncompleteStreamError("the body ended before its protocol's end", self.offset)

    # What a dialect calls --------------------------------------------------------------------------------------------------------------------

    def open_step(self, emit: Emit[ChatEvent], provider_response_id: Any = None, model: Any = None) -> None:
        """
        Begin the step if it is not open; ids that are no text count as unsaid. The first non-empty id and model count.
        """
        self.response_id = self.response_id or string(provider_response_id)
        self.model = self.model or string(model)
        if not self.step_open:
            self.step_open = True
            emit(StepStart(self.step, self.response_id, self.model))

    def set_finish(self, raw: str | None, reason: FinishReason | None = None) -> None:
        """
        Note why the step ends: by the dialect's table, OTHER for a word it does not know (contract V3). The last one counts.
        """
        self.finish_raw = raw
        self.finish = reason or (self.finish_reasons.get(raw, FinishReason.OTHER) if raw is not None else FinishReason.UNKNOWN)

    def end_step(self, emit: Emit[ChatEvent], alternatives: Iterable[ChatResponse] = ()) -> None:
        """
        End the step with what no other event says; the next `open_step` begins the next one.
        """
        if self.step_open:
            self.step_open = False
            emit(StepEnd(self.step, self.seed(alternatives)))
            self.step += 1
            self.finish = self.finish_raw = self.response_id = self.model = None
            self.unknown_names, self.after_finish, self.metadata = {}, 0, {}
            self.__arguments.clear()

    def end_response(self, emit: Emit[ChatEvent]) -> NoReturn:
        """
        The protocol's own end came: nothing behind it is read.
        """
        self.end_step(emit)
        emit(ResponseEnd())
        raise StreamDone

    def abort_response(self, reason: str | None, emit: Emit[ChatEvent]) -> NoReturn:
        """
        The provider cancelled the response (contract D7): its open step is marked as aborted, nothing behind it is read.
        """
        self._leave(AbortedError(reason or "aborted"), emit)
        emit(Abort(reason))
        raise StreamDone

    def seed(self, alternatives: Iterable[ChatResponse] = ()) -> ChatResponse:
        """
        What the fold cannot know from other events.
        """
        return ChatResponse(
            finish_reason=self.finish or FinishReason.UNKNOWN,
            finish_reason_raw=self.finish_raw,
            provider_response_id=self.response_id,
            model=self.model,
            unknown=dict(self.unknown_names),
            after_finish=self.after_finish,
            alternatives=tuple(alternatives),
            metadata=dict(self.metadata),
        )

    def unknown(self, name: str, payload: Any, emit: Emit[ChatEvent]) -> None:
        """
        A frame, block or part this dialect does not know, by the policy of contract E11.
        """
        policy = self.context.unknown
        if policy == "error":
            raise DialectError(f"unknown frame {name!r}", self.offset)
        if name not in self.unknown_names:
            # Never with content: names and ids only.
            log.info("unknown frame %r in response %s", name, self.response_id)
        self.unknown_names[name] = self.unknown_names.get(name, 0) + 1
        if callable(policy):
            policy(name, payload)
        elif policy == "raw":
            emit(Raw(name, payload))

    def refuse_stray(self, stray: StrayText) -> None:
        """
        ProviderError if there is an error in lines that are no SSE fields (contract P8).
        """
        error = stray_error(stray.text, self.limits.json_depth)
        if error is not None:
            raise provider_error(error)

    def malformed(self, what: str) -> DialectError:
        """
        The error for a known frame that is not as its protocol says.
        """
        return DialectError(what, self.offset)

    # The stage -------------------------------------------------------------------------------------------------------------------------------

    def feed(self, frame: Frame, emit: Emit[ChatEvent]) -> None:
        if emit is not self.__emit:
            self.__emit, self.__out = emit, self._counting(emit)
        self.__frames += 1
        self.__last = frame
        self.offset = frame.start
        try:
            if self.__frames > self.__most:
                raise LimitExceeded("events", self.__most, frame.start)
            if type(frame) is not SseEvent:
                self._dispatch(frame, self.__out)
            elif self.__template is not None and (said := self.__template(frame.raw)) is not None and frame.event == self.__name:
                if self.__plain:
                    self.__output += len(said)
                    if self.__output > self.__most_output:
                        raise LimitExceeded("output", self.__most_output, frame.start)
                    self.__take(said, emit)
                else:
                    self.__take(said, self.__out)
            elif frame.raw[:1] == b"{" or not self.on_sentinel(frame, self.__out):
                if self.__template is not None:
                    self.__forget()
                value = self.__read(frame.raw, frame.data_start)
                self.on_event(value, frame, self.__out)
                self.__waits -= 1
                if not self.__waits:
                    self.__learn(value, frame)
        except RxchatError as error:
            if error.offset is None:
                error.offset = frame.start
            self._leave(error, emit)
            raise
        except Exception as error:
            # Whatever a frame looks like, a subscriber meets errors of our tree only; the cause keeps the fault of the dialect visible.
            failure = DialectError(f"{UNREADABLE} ({type(error).__name__})", frame.start)
            self._leave(failure, emit)
            raise failure from error

    def flush(self, emit: Emit[ChatEvent]) -> None:
        out = self._counting(emit)
        if self.__last is not None:
            self.offset = self.__last.end
        try:
            self.on_eof(out)
        except RxchatError as error:
            self._leave(error, emit)
            raise

    def fail(self, error: Exception, emit: Emit[ChatEvent]) -> None:
        self._leave(error, emit)

    def drop(self) -> None:
        # Choices, calls and blocks of a dialect may know their parser.
        vars(self).clear()
        self.__template, self.__take = None, _nothing
        self.__emit, self.__out = None, _nobody

    def __learn(self, value: Any, event: SseEvent) -> None:
        """
        Make a template of the event just read, if its dialect knows what may differ in it.
        """
        self.__waits = _PATIENCE
        repeated = self.repeats(value, event)
        if repeated is None:
            return
        self.__template = template(event.raw, repeated.slots, value)
        if self.__template is None:
            self.__hold_off()
        else:
            self.__take, self.__plain, self.__name, self.__learned = repeated.take, repeated.plain, event.event, self.__frames

    def __forget(self) -> None:
        """
        A frame that does not fit: what it changes, nobody knows. Streams that never repeat themselves are not tried for long.
        """
        self.__template = None
        if self.__frames - self.__learned > _OF_USE:
            self.__waits = self.__patience = _PATIENCE
        else:
            self.__hold_off()

    def __hold_off(self) -> None:
        self.__waits = self.__patience = min(2 * self.__patience, _MOST_PATIENCE)

    def _dispatch(self, frame: Frame, emit: Emit[ChatEvent]) -> None:
        self.__template = None
        if isinstance(frame, JsonRecord):
            self.on_record(frame.value, frame, emit)
        elif isinstance(frame, AwsMessage):
            self.on_message(frame, emit)
        elif isinstance(frame, JsonBody):
            self.on_body(frame.value, emit)
        elif isinstance(frame, StrayText):
            self.__frames -= 1
            self.on_stray(frame, emit)
        elif isinstance(frame, Undispatched):
            self.__frames -= 1
            self.on_undispatched(frame, emit)

    def _leave(self, error: Exception, emit: Emit[ChatEvent]) -> None:
        """
        The response fails: say what is known of the open step, so that the partial answer has it (contract V2); the verdict marks it as failed.
        """
        if self.step_open:
            self.step_open = False
            emit(StepEnd(self.step, attrs.evolve(self.seed(), verdict=verdict_of(error))))

    def _counting(self, emit: Emit[ChatEvent]) -> Emit[ChatEvent]:
        """
        `emit`, with the limits on what a response may make its consumers hold; refused before it is shown.
        """
        output, arguments = self.limits.output, self.limits.tool_arguments

        def counted(event: ChatEvent) -> None:
            kind = type(event)
            if kind is TextDelta or kind is ThinkingDelta or kind is RefusalDelta:
                self.__output += len(event.text)  # type: ignore[union-attr,arg-type]
                if self.__output > output:
                    raise LimitExceeded("output", output, self.offset)
            elif kind is ToolCallArgsDelta:
                key = (event.choice, event.index if event.index is not None else event.call_id)  # type: ignore[union-attr]
                size = self.__arguments[key] = self.__arguments.get(key, 0) + len(event.text)  # type: ignore[union-attr,arg-type]
                if size > arguments:
                    raise LimitExceeded("tool_arguments", arguments, self.offset)
            emit(event)

        return counted


def _nothing(said: Any, emit: Emit[ChatEvent]) -> None:
    raise AssertionError("there is no template to read with")


def _nobody(event: ChatEvent) -> None:
    raise AssertionError("a parser emitted before it was fed")


# --- usage ----------------------------------------------------------------------------------------------------------------------------------------


class UsageFold:
    """
    The usage of one step: wire values are merged field by field, then the dialect's formula makes our counts of them (contract U, P4).

    `read` takes the provider's object and gives wire values under our names (and any extra names its formula needs); `formula` turns the merged wire
    values into our six counters. The default formula takes them as sent.
    """

    def __init__(
        self,
        read: Callable[[Mapping[str, Any]], Mapping[str, int | None]],
        formula: Callable[[Mapping[str, int]], Mapping[str, int | None]] | None = None,
    ) -> None:
        self._read = read
        self._formula = formula
        self._wire: dict[str, int] = {}
        self._raw: dict[str, Any] = {}

    def update(self, raw: Any, emit: Emit[ChatEvent]) -> None:
        """
        Take one usage object; emits UsageUpdate if it says anything. Not a mapping, or all null: nothing.
        """
        if not raw or not isinstance(raw, Mapping):
            return
        said = {name: value for name, value in self._read(raw).items() if value is not None}
        if not said:
            return
        self._wire.update(said)
        self._raw.update({key: value for key, value in raw.items() if value is not None})
        emit(UsageUpdate(self.usage()))

    def usage(self) -> Usage:
        """
        The snapshot so far.
        """
        counts = dict(self._formula(self._wire) if self._formula else self._wire)
        if counts.get("total_tokens") is None and counts.get("input_tokens") is not None and counts.get("output_tokens") is not None:
            counts["total_tokens"] = counts["input_tokens"] + counts["output_tokens"]  # type: ignore[operator]
        counters: dict[str, Any] = {name: counts.get(name) for name in COUNTERS}
        return Usage(**counters, wire=dict(self._wire), raw=(dict(self._raw),))

    def reset(self) -> None:
        """
        A new step begins.
        """
        self._wire, self._raw = {}, {}


# --- reading dicts tolerantly ---------------------------------------------------------------------------------------------------------------------


def string(value: Any) -> str | None:
    """
    A non-empty text, or None: null and empty mean nothing (contract E13).
    """
    return value if isinstance(value, str) and value else None


def integer(value: Any) -> int | None:
    """
    A whole number, or None; true and false are no numbers, 3.0 is one.
    """
    if type(value) is int:
        return value
    return int(value) if isinstance(value, float) and value.is_integer() else None


def mapping(value: Any) -> Mapping[str, Any]:
    """
    An object, or an empty one.
    """
    return value if isinstance(value, dict) else {}


def sequence(value: Any) -> list[Any]:
    """
    An array, or an empty one.
    """
    return value if isinstance(value, list) else []
