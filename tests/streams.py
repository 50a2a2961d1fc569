"""
Event streams in a short notation, for tables and for property tests.

    T.S T.D T.E     text: start, delta, end; K thinking, C tool call
    #0 @a !x ^1     index, item id, call id, choice; `!?` is a local call id
    C.E/cut         the end of a call that is not complete
    SS(0) SE(0)     step start and end; SE(0,stop) with a finish reason, SE(0,!CONNECT) with the verdict of a failed step
    END ABORT ERROR the terminals; RS is ResponseStart
    |               the source completed
    +               before what the normalizer made itself

The text of a delta is the place of its token in the line, so that all deltas differ.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

from hypothesis import strategies as st

from rxchat.call_keys import is_local_id
from rxchat.errors import ConnectionLostError, Verdict
from rxchat.events import (
    Abort,
    ChatEvent,
    Citation,
    ContentFilter,
    Custom,
    ErrorEvent,
    Heartbeat,
    MediaDone,
    MediaPartial,
    Raw,
    RefusalDelta,
    ResponseEnd,
    ResponseStart,
    SearchResult,
    ServerToolArgsDelta,
    ServerToolResult,
    ServerToolStart,
    Status,
    StepEnd,
    StepStart,
    TextDelta,
    TextEnd,
    TextStart,
    ThinkingDelta,
    ThinkingEnd,
    ThinkingRedacted,
    ThinkingSignature,
    ThinkingStart,
    ToolCallArgsDelta,
    ToolCallEnd,
    ToolCallStart,
    ToolResult,
    UsageUpdate,
)
from rxchat.normalizer import Normalizer
from rxchat.response import ChatResponse, FinishReason, ToolCall, Usage
from rxchat.stage import Stage

_TOKEN = re.compile(r"\+?(?P<word>[A-Z_.]+)(?:\((?P<args>[^)]*)\))?(?P<marks>(?:[#@!^][^#@!^/]+)*)(?P<cut>/cut)?")
_BLOCKS: dict[str, Any] = {"T.S": TextStart, "T.E": TextEnd, "K.S": ThinkingStart, "K.E": ThinkingEnd}
_DELTAS: dict[str, Any] = {"T.D": TextDelta, "K.D": ThinkingDelta}
_PLAIN: dict[str, ChatEvent] = {
    "RS": ResponseStart("r"),
    "END": ResponseEnd(),
    "ABORT": Abort(),
    "USAGE": UsageUpdate(Usage(input_tokens=3, output_tokens=5)),
    "HEARTBEAT": Heartbeat(),
    "STATUS": Status("queued"),
    "SERVER_START": ServerToolStart("search", "s"),
    "SERVER_ARGS": ServerToolArgsDelta("search", "{}", "s"),
    "SERVER_RESULT": ServerToolResult("search", "s", {"hits": 1}),
    "REFUSAL": RefusalDelta("no"),
    "FILTER": ContentFilter("hate", blocked=True),
    "PARTIAL": MediaPartial("image"),
    "MEDIA": MediaDone("image", "image/png", "AA=="),
    "CITATION": Citation("https://example.com"),
    "HIT": SearchResult("https://example.com"),
    "RESULT": ToolResult("a", 1),
    "REDACTED": ThinkingRedacted("secret"),
    "SIG": ThinkingSignature("seal"),
    "RAW": Raw("odd", {}),
    "CUSTOM": Custom("mine", 1),
}
_NAMES = {type(event): word for word, event in _PLAIN.items()}
_NAMES |= {cls: word for word, cls in (_BLOCKS | _DELTAS).items()}
_NAMES |= {ToolCallStart: "C.S", ToolCallArgsDelta: "C.D", ToolCallEnd: "C.E", StepStart: "SS", StepEnd: "SE", ErrorEvent: "ERROR"}


def parse_event(token: str, text: str = "x") -> ChatEvent:
    """
    One event of a token.
    """
    found = _TOKEN.fullmatch(token)
    assert found is not None, token
    word, args, cut = found["word"], found["args"] or "", found["cut"]
    marks = {mark[0]: mark[1:] for mark in re.findall(r"[#@!^][^#@!^/]+", found["marks"])}
    index, choice = int(marks["#"]) if "#" in marks else None, int(marks.get("^", 0))
    call_id = marks.get("!", "")
    if word in _BLOCKS:
        return _BLOCKS[word](index, marks.get("@"), choice)  # type: ignore[no-any-return]
    if word in _DELTAS:
        return _DELTAS[word](text, index, marks.get("@"), choice)  # type: ignore[no-any-return]
    if word == "C.S":
        return ToolCallStart(call_id, args, index, choice)
    if word == "C.D":
        return ToolCallArgsDelta(text, call_id, index, choice)
    if word == "C.E":
        return ToolCallEnd(ToolCall(call_id, args, complete=not cut, index=index), choice)
    if word == "SS":
        return StepStart(int(args))
    if word == "SE":
        number, _, how = args.partition(",")
        return StepEnd(int(number), _seed(how))
    return ErrorEvent(ConnectionLostError("gone")) if word == "ERROR" else _PLAIN[word]


def _seed(how: str) -> ChatResponse:
    if how.startswith("!"):
        return ChatResponse(verdict=Verdict(how[1:]))
    return ChatResponse(finish_reason=FinishReason(how)) if how else ChatResponse()


def parse_events(line: str) -> list[ChatEvent | None]:
    """
    All events of a line, each delta with a text of its own; None where the source completes.
    """
    return [None if token == "|" else parse_event(token, f"{k};") for k, token in enumerate(line.split())]


def note(event: ChatEvent) -> str:
    """
    The token of an event.
    """
    said = event.tool_call if isinstance(event, ToolCallEnd) else event
    call_id = getattr(event, "call_id", "") if not isinstance(event, ToolResult) else ""
    index = getattr(said, "index", None)
    item_id = getattr(event, "item_id", None)
    choice = getattr(event, "choice", 0)
    return "".join(
        (
            _NAMES[type(event)],
            f"({event.step})" if isinstance(event, StepStart) else _note_step_end(event) if isinstance(event, StepEnd) else "",
            f"@{item_id}" if item_id is not None else "",
            f"!{'?' if is_local_id(call_id) else call_id}" if call_id else "",
            f"#{index}" if index is not None else "",
            f"^{choice}" if choice else "",
            "/cut" if isinstance(event, ToolCallEnd) and not event.tool_call.complete else "",
        )
    )


def _note_step_end(event: StepEnd) -> str:
    seed = event.response
    how = f",!{seed.verdict}" if seed.verdict else f",{seed.finish_reason}" if seed.finish_reason is not FinishReason.UNKNOWN else ""
    return f"({event.step}{how})"


def notes(events: Iterable[ChatEvent]) -> str:
    """
    A line that says these events.
    """
    return " ".join(note(event) for event in events)


def feed_all(stage: Stage[ChatEvent, ChatEvent], events: Iterable[ChatEvent | None]) -> list[ChatEvent]:
    """
    What a stage makes of events; None is the completion of the source.
    """
    out: list[ChatEvent] = []
    for event in events:
        if event is None:
            stage.flush(out.append)
        else:
            stage.feed(event, out.append)
    return out


def normalized(line: str) -> list[ChatEvent]:
    """
    A line after the normalizer.
    """
    return feed_all(Normalizer(), parse_events(line))


# --- random streams -------------------------------------------------------------------------------------------------------------------------------

_BLOCK_KEYS = ("", "#0", "#1", "@a#0", "@b", "^1", "#0^1")
_CALL_KEYS = ("", "!a", "!b", "#0", "#1", "!a#0", "!b#0", "!b#1", "!a#1", "#0^1", "!a^1")
BLOCK_TOKENS = tuple(f"{word}{key}" for word in ("T.S", "T.D", "T.E", "K.S", "K.D", "K.E") for key in _BLOCK_KEYS)
CALL_TOKENS = (*(f"{word}{key}" for word in ("C.S", "C.D", "C.E") for key in _CALL_KEYS), "C.S(f)#0", "C.E(late)#0", "C.E#1/cut")
OTHER_TOKENS = tuple(word for word in _PLAIN if word not in ("RS", "END", "ABORT"))
STEP_TOKENS = ("SS(0)", "SS(1)", "SE(0)", "SE(0,stop)", "SE(0,length)", "SE(1,tool_calls)", "SE(1)")
TERMINAL_TOKENS = ("END", "ABORT", "ERROR")

token_lines = st.lists(
    st.one_of(
        st.sampled_from(BLOCK_TOKENS),
        st.sampled_from(CALL_TOKENS),
        st.sampled_from(STEP_TOKENS),
        st.sampled_from(OTHER_TOKENS),
        st.sampled_from((*BLOCK_TOKENS, *CALL_TOKENS, *TERMINAL_TOKENS)),
    ),
    max_size=30,
).map(" ".join)

# A well-behaved response: steps that begin and end, then a terminal; inside them anything.
_inside = st.lists(st.sampled_from(BLOCK_TOKENS + CALL_TOKENS + OTHER_TOKENS), max_size=12).map(" ".join)
_finishes = st.sampled_from(("", ",stop", ",length", ",tool_calls"))


@st.composite
def response_lines(draw: st.DrawFn) -> str:
    """
    The line of one whole response.
    """
    steps = [f"SS({k}) {draw(_inside)} SE({k}{draw(_finishes)})" for k in range(draw(st.integers(0, 3)))]
    return " ".join(["RS", *steps, draw(st.sampled_from(TERMINAL_TOKENS))])
