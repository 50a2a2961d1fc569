"""
The 32 event types and what is fixed for each (contract section 2).
"""

from __future__ import annotations

import copy
import inspect
from collections import Counter
from typing import Any, get_args

import attrs
import pytest

from rxchat import events as ev
from rxchat.events import ANONYMOUS, EVENT_TYPES, BlockKey, ChatEvent, Event, Group, Phase, match_block
from rxchat.response import ToolCall
from tests.strategies import SAMPLES

L, ST, TX, TH, TC, SV, ME, SA, MT = Group
START, DELTA, END, NONE = Phase

TABLE: list[tuple[type[ChatEvent], str, Group, Phase]] = [
    (ev.ResponseStart, "RESPONSE_START", L, START),
    (ev.Status, "STATUS", L, NONE),
    (ev.Heartbeat, "HEARTBEAT", L, NONE),
    (ev.ResponseEnd, "RESPONSE_END", L, END),
    (ev.Abort, "ABORT", L, END),
    (ev.StepStart, "STEP_START", ST, START),
    (ev.StepEnd, "STEP_END", ST, END),
    (ev.TextStart, "TEXT_START", TX, START),
    (ev.TextDelta, "TEXT_DELTA", TX, DELTA),
    (ev.TextEnd, "TEXT_END", TX, END),
    (ev.ThinkingStart, "THINKING_START", TH, START),
    (ev.ThinkingDelta, "THINKING_DELTA", TH, DELTA),
    (ev.ThinkingEnd, "THINKING_END", TH, END),
    (ev.ThinkingSignature, "THINKING_SIGNATURE", TH, NONE),
    (ev.ThinkingRedacted, "THINKING_REDACTED", TH, NONE),
    (ev.ToolCallStart, "TOOL_CALL_START", TC, START),
    (ev.ToolCallArgsDelta, "TOOL_CALL_ARGS_DELTA", TC, DELTA),
    (ev.ToolCallEnd, "TOOL_CALL_END", TC, END),
    (ev.ToolResult, "TOOL_RESULT", TC, NONE),
    (ev.ServerToolStart, "SERVER_TOOL_START", SV, START),
    (ev.ServerToolArgsDelta, "SERVER_TOOL_ARGS_DELTA", SV, DELTA),
    (ev.ServerToolResult, "SERVER_TOOL_RESULT", SV, END),
    (ev.SearchResult, "SEARCH_RESULT", ME, NONE),
    (ev.Citation, "CITATION", ME, NONE),
    (ev.MediaPartial, "MEDIA_PARTIAL", ME, DELTA),
    (ev.MediaDone, "MEDIA_DONE", ME, END),
    (ev.RefusalDelta, "REFUSAL_DELTA", SA, DELTA),
    (ev.ContentFilter, "CONTENT_FILTER", SA, NONE),
    (ev.UsageUpdate, "USAGE", MT, NONE),
    (ev.ErrorEvent, "ERROR", MT, NONE),
    (ev.Raw, "RAW", MT, NONE),
    (ev.Custom, "CUSTOM", MT, NONE),
]


@pytest.mark.parametrize(("cls", "tag", "group", "phase"), TABLE, ids=[tag for _, tag, *_ in TABLE])
def test_what_is_fixed_per_class(cls: type[ChatEvent], tag: str, group: Group, phase: Phase) -> None:
    """
    Tag, group and phase; terminal are exactly the three that end a response.
    """
    assert (cls.type, cls.group, cls.phase) == (tag, group, phase)
    assert cls.terminal is (cls in (ev.ResponseEnd, ev.Abort, ev.ErrorEvent))
    assert EVENT_TYPES[tag] is cls


def test_32_types_in_9_groups() -> None:
    """
    The table is all of them; so are the union in signatures and the subclasses there are.
    """
    assert list(EVENT_TYPES.values()) == [cls for cls, *_ in TABLE] == list(get_args(ChatEvent))
    # By name: attrs makes each class twice, and the first one lives until it is collected.
    assert {cls.__name__ for cls in Event.__subclasses__()} == {cls.__name__ for cls, *_ in TABLE}
    assert {group for *_, group, _ in TABLE} == set(Group)
    assert Counter(phase for *_, phase in TABLE) == {START: 6, DELTA: 6, END: 8, NONE: 12}


@pytest.mark.parametrize("event", SAMPLES, ids=lambda event: event.type)
def test_events_are_values(event: ChatEvent) -> None:
    """
    Frozen, equal by what they say, small: observers share them.
    """
    assert event == attrs.evolve(event)
    assert not hasattr(event, "__dict__")
    assert event.is_delta is (event.phase is DELTA)
    for field in attrs.fields(type(event)):
        with pytest.raises(attrs.exceptions.FrozenInstanceError):
            setattr(event, field.name, None)


def test_span_is_no_field() -> None:
    """
    Two events are equal whatever bytes they came from; unknown where nobody kept it.
    """
    event = ev.TextDelta("a")
    assert event.span is None
    object.__setattr__(event, "_span", (3, 9))
    assert event.span == (3, 9)
    assert event == ev.TextDelta("a")


def test_the_end_of_a_call_says_its_keys() -> None:
    """
    As the other events of the call do.
    """
    end = ev.ToolCallEnd(ToolCall("c", "add", index=2))
    assert (end.call_id, end.index) == ("c", 2)


@pytest.mark.parametrize(
    ("opened", "key", "found"),
    [
        ([(0, None)], (0, None), (0, None)),
        ([(0, None), (1, None)], (1, None), (1, None)),
        ([(0, None)], ANONYMOUS, (0, None)),
        ([(0, None), (1, None)], ANONYMOUS, None),
        ([], ANONYMOUS, None),
        ([(0, None)], (1, None), None),
        ([ANONYMOUS], (1, None), ANONYMOUS),
        ([ANONYMOUS, (0, None)], (1, "a"), ANONYMOUS),
        ([ANONYMOUS, (0, None)], ANONYMOUS, ANONYMOUS),
    ],
)
def test_which_block_an_event_belongs_to(opened: list[BlockKey], key: BlockKey, found: BlockKey | None) -> None:
    """
    Its own; the only one, if it says none; the anonymous one, which it names (contract N6).
    """
    assert match_block(opened, key) == found


def test_routing_by_class_and_by_group() -> None:
    """
    Both ways of `match`, with a default branch for what comes later.
    """

    def route(event: Any) -> str:
        match event:
            case ev.TextDelta(text=text):
                return text
            case Event(group=Group.TOOL_CALL):
                return "agent"
            case _:
                return "other"

    assert [route(event) for event in (ev.TextDelta("hi"), ev.ToolCallStart(), ev.Heartbeat())] == ["hi", "agent", "other"]


@pytest.mark.parametrize("cls", [ev.TextDelta, ev.ThinkingDelta, ev.ToolCallArgsDelta])
def test_deltas_with_an_init_of_their_own_are_as_attrs_makes_them(cls: Any) -> None:
    """
    Signature, values, equality, hash and immutability are those of the fields, by position and by name.
    """
    fields = attrs.fields(cls)
    parameters = list(inspect.signature(cls).parameters.values())
    assert [(field.name, inspect.Parameter.empty if field.default is attrs.NOTHING else field.default) for field in fields] == [
        (parameter.name, parameter.default) for parameter in parameters
    ]
    values = {field.name: object() for field in fields}
    event = cls(*values.values())
    assert values == attrs.asdict(event)
    assert event == cls(**values) == attrs.evolve(event) == copy.copy(event)
    assert hash(event) == hash(cls(**values))
    assert event != cls("other")
    assert "text" == cls("text").text
    with pytest.raises(attrs.exceptions.FrozenInstanceError):
        event.text = "changed"
