"""
The grammar checker itself: what is right passes, each fault is seen.
"""

from __future__ import annotations

import pytest

from rxchat.errors import IncompleteStreamError, RxchatError
from rxchat.events import (
    ChatEvent,
    ErrorEvent,
    ResponseEnd,
    ResponseStart,
    StepEnd,
    StepStart,
    TextDelta,
    TextEnd,
    TextStart,
    ThinkingDelta,
    ThinkingStart,
    ToolCallArgsDelta,
    ToolCallEnd,
    ToolCallStart,
)
from rxchat.response import ToolCall
from tests.grammar import violations

RS, SS, SE, END = ResponseStart(), StepStart(0), StepEnd(0), ResponseEnd()
TS, T, TE = TextStart(), TextDelta("a"), TextEnd()
CS, C, CE = ToolCallStart("a", "f", 0), ToolCallArgsDelta("{}", "a", 0), ToolCallEnd(ToolCall("a", "f", "{}", {}, True, 0))

RIGHT: list[list[ChatEvent]] = [
    [RS, END],
    [RS, ErrorEvent(IncompleteStreamError("cut"))],
    [RS, SS, TS, T, TE, CS, C, CE, SE, END],
    [RS, SS, TS, TextDelta("a", 0), TextEnd(0), SE, StepStart(1), StepEnd(1), END],
    [RS, SS, CS, TS, T, CE, TE, SE, END],
]
WRONG: list[tuple[str, list[ChatEvent]]] = [
    ("no start", [SS, SE, END]),
    ("no terminal", [RS, SS, SE]),
    ("nothing", []),
    ("two starts", [RS, RS, END]),
    ("two terminals", [RS, END, END]),
    ("an event behind the terminal", [RS, END, SS]),
    ("an open block at the end of a step", [RS, SS, TS, T, SE, END]),
    ("an open block at the terminal", [RS, TS, T, END]),
    ("an open step at the terminal", [RS, SS, END]),
    ("a delta outside", [RS, SS, T, SE, END]),
    ("an end without a start", [RS, SS, TE, SE, END]),
    ("a block started twice", [RS, SS, TS, TS, TE, TE, SE, END]),
    ("thinking inside text", [RS, SS, TS, ThinkingStart(), TE, ThinkingDelta("x"), SE, END]),
    ("an empty delta", [RS, SS, TS, TextDelta(""), TE, SE, END]),
    ("a call started inside text", [RS, SS, TS, CS, CE, TE, SE, END]),
    ("a call started twice", [RS, SS, CS, CS, CE, SE, END]),
    ("a call never started", [RS, SS, CE, SE, END]),
    ("a call left open", [RS, SS, CS, C, SE, END]),
    ("a call without its index", [RS, SS, ToolCallStart("a"), ToolCallEnd(ToolCall("a")), SE, END]),
    ("arguments of an incomplete call", [RS, SS, CS, ToolCallEnd(ToolCall("a", "f", "{}", {}, False, 0)), SE, END]),
    ("a step inside a step", [RS, SS, StepStart(1), StepEnd(1), END]),
    ("a step number twice", [RS, SS, SE, SS, SE, END]),
    ("another step's end", [RS, SS, StepEnd(1), END]),
    ("an error without a verdict", [RS, ErrorEvent(RxchatError("x"))]),
]


@pytest.mark.parametrize("events", RIGHT, ids=range(len(RIGHT)))
def test_right_streams_have_no_violations(events: list[ChatEvent]) -> None:
    """
    Streams of the grammar pass.
    """
    assert violations(events) == []


@pytest.mark.parametrize(("fault", "events"), WRONG, ids=[fault for fault, _ in WRONG])
def test_each_fault_is_seen(fault: str, events: list[ChatEvent]) -> None:
    """
    Streams outside the grammar do not.
    """
    assert violations(events) != []
