"""
The semantic events: 32 frozen classes in 9 groups (contract section 2), and their closed union `ChatEvent`.

Group, phase and `terminal` are fixed per class. `match` on a class or on `Event(group=...)`; a default branch keeps a consumer working when a type is added.
Do not subclass `Event` elsewhere: extensions travel in `Custom`, frames a dialect does not know in `Raw`.

Keys (contract E2, N2, P5): text and thinking blocks are told apart by `index` and `item_id`, tool calls by `index`, all per `choice`. A dialect sets what
the wire says; the normalizer fills in the rest.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from enum import StrEnum
from typing import Any, ClassVar, TypeAlias

import attrs

from rxchat.errors import RxchatError
from rxchat.response import ChatResponse, ToolCall, Usage

__all__ = [
    "ANONYMOUS",
    "EVENT_TYPES",
    "RESET",
    "Abort",
    "BlockKey",
    "ChatEvent",
    "Citation",
    "ContentFilter",
    "Custom",
    "ErrorEvent",
    "Event",
    "Group",
    "Heartbeat",
    "MediaDone",
    "MediaPartial",
    "Phase",
    "Raw",
    "RefusalDelta",
    "ResponseEnd",
    "ResponseStart",
    "SearchResult",
    "ServerToolArgsDelta",
    "ServerToolResult",
    "ServerToolStart",
    "Status",
    "StepEnd",
    "StepStart",
    "TextDelta",
    "TextEnd",
    "TextStart",
    "ThinkingDelta",
    "ThinkingEnd",
    "ThinkingRedacted",
    "ThinkingSignature",
    "ThinkingStart",
    "ToolCallArgsDelta",
    "ToolCallEnd",
    "ToolCallStart",
    "ToolResult",
    "UsageUpdate",
    "match_block",
]


class Group(StrEnum):
    """
    What an event is about; route by this, with a default branch.
    """

    LIFECYCLE = "LIFECYCLE"
    STEP = "STEP"
    TEXT = "TEXT"
    THINKING = "THINKING"
    TOOL_CALL = "TOOL_CALL"
    SERVER_TOOL = "SERVER_TOOL"
    MEDIA = "MEDIA"
    SAFETY = "SAFETY"
    META = "META"


class Phase(StrEnum):
    """
    Where in its scope an event stands. END ends a local scope; only `terminal` ends the stream.
    """

    START = "START"
    DELTA = "DELTA"
    END = "END"
    NONE = "NONE"


class Event:
    """
    The base of all events.

    `span` is the byte range (start, end) of the frame that caused the event, known only where the pipeline was told to keep it (`provenance=True`);
    it is no field: two events are equal whatever bytes they came from.
    """

    __slots__ = ("_span",)

    type: ClassVar[str]
    group: ClassVar[Group]
    phase: ClassVar[Phase] = Phase.NONE
    terminal: ClassVar[bool] = False

    @property
    def is_delta(self) -> bool:
        """
        Whether this is a fragment; of text, but of thinking, tool arguments, media or refusal just as well.
        """
        return self.phase is Phase.DELTA

    @property
    def span(self) -> tuple[int, int] | None:
        """
        Bytes of the body that caused this event, or None.
        """
        return getattr(self, "_span", None)


NO_RESPONSE = ChatResponse()

BlockKey: TypeAlias = tuple[int | None, str | None]
ANONYMOUS: BlockKey = (None, None)


def match_block(opened: Collection[BlockKey], key: BlockKey) -> BlockKey | None:
    """
    Which of the open blocks of one group and choice an event with `key` (index, item id) belongs to, None if to none of them.

    The block of that key; else an anonymous event belongs to the only open block, and an identified one to the anonymous block, which it names (contract N6).
    """
    if key in opened:
        return key
    if key == ANONYMOUS:
        return next(iter(opened)) if len(opened) == 1 else None
    return ANONYMOUS if ANONYMOUS in opened else None


# --- LIFECYCLE ------------------------------------------------------------------------------------------------------------------------------------


@attrs.frozen
class ResponseStart(Event):
    """
    The first event of every response. `response_id` is made here; the provider's own id rides on StepStart.
    """

    type: ClassVar[str] = "RESPONSE_START"
    group: ClassVar[Group] = Group.LIFECYCLE
    phase: ClassVar[Phase] = Phase.START
    response_id: str = ""


@attrs.frozen
class Status(Event):
    """
    Progress the provider reports (queued, in_progress ...).
    """

    type: ClassVar[str] = "STATUS"
    group: ClassVar[Group] = Group.LIFECYCLE
    status: str
    text: str | None = None


@attrs.frozen
class Heartbeat(Event):
    """
    A keep-alive event of the provider (not an SSE comment).
    """

    type: ClassVar[str] = "HEARTBEAT"
    group: ClassVar[Group] = Group.LIFECYCLE


@attrs.frozen
class ResponseEnd(Event):
    """
    The answer ended as its protocol says; `response.verdict` tells whether it is whole. on_completed follows.
    """

    type: ClassVar[str] = "RESPONSE_END"
    group: ClassVar[Group] = Group.LIFECYCLE
    phase: ClassVar[Phase] = Phase.END
    terminal: ClassVar[bool] = True
    response: ChatResponse = NO_RESPONSE


@attrs.frozen
class Abort(Event):
    """
    The provider cancelled, or `Call.abort` was called; `response` is what had arrived. on_completed follows.
    """

    type: ClassVar[str] = "ABORT"
    group: ClassVar[Group] = Group.LIFECYCLE
    phase: ClassVar[Phase] = Phase.END
    terminal: ClassVar[bool] = True
    reason: str | None = None
    response: ChatResponse = NO_RESPONSE


# --- STEP -----------------------------------------------------------------------------------------------------------------------------------------


@attrs.frozen
class StepStart(Event):
    """
    One model call begins, counted from 0.
    """

    type: ClassVar[str] = "STEP_START"
    group: ClassVar[Group] = Group.STEP
    phase: ClassVar[Phase] = Phase.START
    step: int = 0
    provider_response_id: str | None = None
    model: str | None = None


@attrs.frozen
class StepEnd(Event):
    """
    The step is over: its own answer and its own usage.

    A dialect puts into `response` only what no other event says (finish reason and its raw word, alternatives' finishes, counts, metadata); the aggregator
    fills in the rest.
    """

    type: ClassVar[str] = "STEP_END"
    group: ClassVar[Group] = Group.STEP
    phase: ClassVar[Phase] = Phase.END
    step: int = 0
    response: ChatResponse = NO_RESPONSE
    usage: Usage | None = None


# --- TEXT -----------------------------------------------------------------------------------------------------------------------------------------


@attrs.frozen
class TextStart(Event):
    """
    A block of visible text begins.
    """

    type: ClassVar[str] = "TEXT_START"
    group: ClassVar[Group] = Group.TEXT
    phase: ClassVar[Phase] = Phase.START
    index: int | None = None
    item_id: str | None = None
    choice: int = 0


@attrs.frozen
class TextDelta(Event):
    """
    A piece of the visible answer; never empty.
    """

    type: ClassVar[str] = "TEXT_DELTA"
    group: ClassVar[Group] = Group.TEXT
    phase: ClassVar[Phase] = Phase.DELTA
    text: str
    index: int | None = None
    item_id: str | None = None
    choice: int = 0


@attrs.frozen
class TextEnd(Event):
    """
    The block of visible text is over.
    """

    type: ClassVar[str] = "TEXT_END"
    group: ClassVar[Group] = Group.TEXT
    phase: ClassVar[Phase] = Phase.END
    index: int | None = None
    item_id: str | None = None
    choice: int = 0


# --- THINKING -------------------------------------------------------------------------------------------------------------------------------------


@attrs.frozen
class ThinkingStart(Event):
    """
    A block of reasoning begins.
    """

    type: ClassVar[str] = "THINKING_START"
    group: ClassVar[Group] = Group.THINKING
    phase: ClassVar[Phase] = Phase.START
    index: int | None = None
    item_id: str | None = None
    choice: int = 0


@attrs.frozen
class ThinkingDelta(Event):
    """
    A piece of reasoning; never empty.
    """

    type: ClassVar[str] = "THINKING_DELTA"
    group: ClassVar[Group] = Group.THINKING
    phase: ClassVar[Phase] = Phase.DELTA
    text: str
    index: int | None = None
    item_id: str | None = None
    choice: int = 0


@attrs.frozen
class ThinkingEnd(Event):
    """
    The block of reasoning is over.
    """

    type: ClassVar[str] = "THINKING_END"
    group: ClassVar[Group] = Group.THINKING
    phase: ClassVar[Phase] = Phase.END
    index: int | None = None
    item_id: str | None = None
    choice: int = 0


@attrs.frozen
class ThinkingSignature(Event):
    """
    The whole signature of a block of reasoning; a later one for the same block replaces it (contract P11).
    """

    type: ClassVar[str] = "THINKING_SIGNATURE"
    group: ClassVar[Group] = Group.THINKING
    signature: str
    index: int | None = None
    item_id: str | None = None
    choice: int = 0


@attrs.frozen
class ThinkingRedacted(Event):
    """
    A block of reasoning only the provider can read; one event a block.
    """

    type: ClassVar[str] = "THINKING_REDACTED"
    group: ClassVar[Group] = Group.THINKING
    data: str
    index: int | None = None
    item_id: str | None = None
    choice: int = 0


# --- TOOL_CALL ------------------------------------------------------------------------------------------------------------------------------------


@attrs.frozen
class ToolCallStart(Event):
    """
    The model begins a call of a client tool. `kind` is "function", or "custom" for free-form input.
    """

    type: ClassVar[str] = "TOOL_CALL_START"
    group: ClassVar[Group] = Group.TOOL_CALL
    phase: ClassVar[Phase] = Phase.START
    call_id: str = ""
    name: str = ""
    index: int | None = None
    choice: int = 0
    kind: str = "function"


@attrs.frozen
class ToolCallArgsDelta(Event):
    """
    A fragment of the arguments' text; it is not JSON before ToolCallEnd (contract T1).
    """

    type: ClassVar[str] = "TOOL_CALL_ARGS_DELTA"
    group: ClassVar[Group] = Group.TOOL_CALL
    phase: ClassVar[Phase] = Phase.DELTA
    text: str
    call_id: str = ""
    index: int | None = None
    choice: int = 0


@attrs.frozen
class ToolCallEnd(Event):
    """
    The call is over; `tool_call.complete` tells whether the provider said so. No permission to run it (contract T1).

    From a dialect: `tool_call` carries id, index, a name or metadata that came late; `complete=True`. The fold fills in the arguments.
    """

    type: ClassVar[str] = "TOOL_CALL_END"
    group: ClassVar[Group] = Group.TOOL_CALL
    phase: ClassVar[Phase] = Phase.END
    tool_call: ToolCall
    choice: int = 0

    @property
    def call_id(self) -> str:
        """
        The final id of the call.
        """
        return self.tool_call.id

    @property
    def index(self) -> int | None:
        """
        The key of the call within its step.
        """
        return self.tool_call.index


@attrs.frozen
class ToolResult(Event):
    """
    What a tool answered, run here or by the provider.
    """

    type: ClassVar[str] = "TOOL_RESULT"
    group: ClassVar[Group] = Group.TOOL_CALL
    call_id: str
    result: Any = None
    is_error: bool = False


# --- SERVER_TOOL ----------------------------------------------------------------------------------------------------------------------------------


@attrs.frozen
class ServerToolStart(Event):
    """
    The provider runs a tool of its own; `needs_client`: an item the client must answer (contract P12). `kind` is the provider's item type.
    """

    type: ClassVar[str] = "SERVER_TOOL_START"
    group: ClassVar[Group] = Group.SERVER_TOOL
    phase: ClassVar[Phase] = Phase.START
    kind: str
    id: str | None = None
    name: str | None = None
    payload: Any = None
    needs_client: bool = False


@attrs.frozen
class ServerToolArgsDelta(Event):
    """
    A fragment of what a provider's tool was called with.
    """

    type: ClassVar[str] = "SERVER_TOOL_ARGS_DELTA"
    group: ClassVar[Group] = Group.SERVER_TOOL
    phase: ClassVar[Phase] = Phase.DELTA
    kind: str
    text: str
    id: str | None = None


@attrs.frozen
class ServerToolResult(Event):
    """
    What a provider's tool answered.
    """

    type: ClassVar[str] = "SERVER_TOOL_RESULT"
    group: ClassVar[Group] = Group.SERVER_TOOL
    phase: ClassVar[Phase] = Phase.END
    kind: str
    id: str | None = None
    payload: Any = None
    is_error: bool = False
    name: str | None = None


# --- MEDIA ----------------------------------------------------------------------------------------------------------------------------------------


@attrs.frozen
class SearchResult(Event):
    """
    A hit of a search the provider made.
    """

    type: ClassVar[str] = "SEARCH_RESULT"
    group: ClassVar[Group] = Group.MEDIA
    url: str | None = None
    title: str | None = None
    snippet: str | None = None
    query: str | None = None


@attrs.frozen
class Citation(Event):
    """
    A source of the answer; `start`, `end` in code points of the text block `index`, None if unsaid.
    """

    type: ClassVar[str] = "CITATION"
    group: ClassVar[Group] = Group.MEDIA
    url: str | None = None
    title: str | None = None
    quoted: str | None = None
    file: str | None = None
    index: int | None = None
    start: int | None = None
    end: int | None = None
    choice: int = 0


@attrs.frozen
class MediaPartial(Event):
    """
    A progressive image or a piece of audio: `data` is base64, `transcript` the words of this piece. `partial_index` counts the states of one item.
    """

    type: ClassVar[str] = "MEDIA_PARTIAL"
    group: ClassVar[Group] = Group.MEDIA
    phase: ClassVar[Phase] = Phase.DELTA
    kind: str
    mime: str | None = None
    data: str | None = None
    url: str | None = None
    item_id: str | None = None
    partial_index: int | None = None
    choice: int = 0
    transcript: str | None = None


@attrs.frozen
class MediaDone(Event):
    """
    A finished image, audio, video or file: `data` is base64, or `url` says where it is.
    """

    type: ClassVar[str] = "MEDIA_DONE"
    group: ClassVar[Group] = Group.MEDIA
    phase: ClassVar[Phase] = Phase.END
    kind: str
    mime: str | None = None
    data: str | None = None
    url: str | None = None
    item_id: str | None = None
    partial_index: int | None = None
    transcript: str | None = None
    choice: int = 0


# --- SAFETY ---------------------------------------------------------------------------------------------------------------------------------------


@attrs.frozen
class RefusalDelta(Event):
    """
    A piece of the model's refusal; never part of the text.
    """

    type: ClassVar[str] = "REFUSAL_DELTA"
    group: ClassVar[Group] = Group.SAFETY
    phase: ClassVar[Phase] = Phase.DELTA
    text: str
    choice: int = 0


@attrs.frozen
class ContentFilter(Event):
    """
    A safety decision; only a `blocked` one decides the finish, masking and annotations do not.
    """

    type: ClassVar[str] = "CONTENT_FILTER"
    group: ClassVar[Group] = Group.SAFETY
    category: str
    text: str | None = None
    blocked: bool = False
    choice: int = 0


# --- META -----------------------------------------------------------------------------------------------------------------------------------------


@attrs.frozen
class UsageUpdate(Event):
    """
    The step's usage so far: a cumulative snapshot, never an increment.
    """

    type: ClassVar[str] = "USAGE"
    group: ClassVar[Group] = Group.META
    usage: Usage


@attrs.frozen
class ErrorEvent(Event):
    """
    The response failed; `response` is what had arrived. on_error with the same error follows, always.
    """

    type: ClassVar[str] = "ERROR"
    group: ClassVar[Group] = Group.META
    terminal: ClassVar[bool] = True
    error: RxchatError
    response: ChatResponse = NO_RESPONSE
    usage: Usage | None = None


@attrs.frozen
class Raw(Event):
    """
    A provider frame no dialect knows, as it came.
    """

    type: ClassVar[str] = "RAW"
    group: ClassVar[Group] = Group.META
    name: str
    payload: Any = None


@attrs.frozen
class Custom(Event):
    """
    An extension; also how an event of a later version reads back. `PROVIDER_ITEM` names the one the fold keeps as a part.
    """

    type: ClassVar[str] = "CUSTOM"
    group: ClassVar[Group] = Group.META
    name: str
    data: Any = None


# A Custom event of this name, data {"type": ..., "raw": ...}, becomes a ProviderItemPart (contract P12).
PROVIDER_ITEM = "provider_item"

# A Custom event of this name says that the response so far no longer counts and another attempt follows; its data are described in recovery.py.
RESET = "rxchat.reset"

ChatEvent: TypeAlias = (
    ResponseStart
    | Status
    | Heartbeat
    | ResponseEnd
    | Abort
    | StepStart
    | StepEnd
    | TextStart
    | TextDelta
    | TextEnd
    | ThinkingStart
    | ThinkingDelta
    | ThinkingEnd
    | ThinkingSignature
    | ThinkingRedacted
    | ToolCallStart
    | ToolCallArgsDelta
    | ToolCallEnd
    | ToolResult
    | ServerToolStart
    | ServerToolArgsDelta
    | ServerToolResult
    | SearchResult
    | Citation
    | MediaPartial
    | MediaDone
    | RefusalDelta
    | ContentFilter
    | UsageUpdate
    | ErrorEvent
    | Raw
    | Custom
)

EVENT_TYPES: Mapping[str, type[ChatEvent]] = {
    cls.type: cls
    for cls in (
        ResponseStart,
        Status,
        Heartbeat,
        ResponseEnd,
        Abort,
        StepStart,
        StepEnd,
        TextStart,
        TextDelta,
        TextEnd,
        ThinkingStart,
        ThinkingDelta,
        ThinkingEnd,
        ThinkingSignature,
        ThinkingRedacted,
        ToolCallStart,
        ToolCallArgsDelta,
        ToolCallEnd,
        ToolResult,
        ServerToolStart,
        ServerToolArgsDelta,
        ServerToolResult,
        SearchResult,
        Citation,
        MediaPartial,
        MediaDone,
        RefusalDelta,
        ContentFilter,
        UsageUpdate,
        ErrorEvent,
        Raw,
        Custom,
    )
}


# --- the hot path ---------------------------------------------------------------------------------------------------------------------------------


def _init_by_slots(cls: Any, init_with: Callable[..., Callable[..., None]]) -> None:
    """
    Give a frozen class an `__init__` that writes through the slots themselves.

    The generated one goes through `object.__setattr__`, which looks each name up: a third more time for what most events of a stream are. Nothing else of
    the class changes: fields, equality, hash, immutability and signature are those attrs made.
    """
    cls.__init__ = init_with(*(getattr(cls, field.name).__set__ for field in attrs.fields(cls)))


def _init_block_delta(set_text: Any, set_index: Any, set_item_id: Any, set_choice: Any) -> Callable[..., None]:
    def __init__(self: Any, text: str, index: int | None = None, item_id: str | None = None, choice: int = 0) -> None:
        set_text(self, text)
        set_index(self, index)
        set_item_id(self, item_id)
        set_choice(self, choice)

    return __init__


def _init_args_delta(set_text: Any, set_call_id: Any, set_index: Any, set_choice: Any) -> Callable[..., None]:
    def __init__(self: Any, text: str, call_id: str = "", index: int | None = None, choice: int = 0) -> None:
        set_text(self, text)
        set_call_id(self, call_id)
        set_index(self, index)
        set_choice(self, choice)

    return __init__


_init_by_slots(TextDelta, _init_block_delta)
_init_by_slots(ThinkingDelta, _init_block_delta)
_init_by_slots(ToolCallArgsDelta, _init_args_delta)
