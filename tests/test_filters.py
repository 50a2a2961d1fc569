"""
Filters as contract F says: predicates that combine, and the guard around them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import reactivex as rx
from hypothesis import given
from hypothesis import strategies as st
from reactivex import operators as ops

from rxchat.errors import ConfigurationError
from rxchat.events import EVENT_TYPES, ChatEvent, Event, Group, Heartbeat, TextDelta
from rxchat.filters import DEFAULT, EventFilter, all_events, as_filter, by_group, by_type, guarded
from tests.strategies import SAMPLES

FRAME = {"RESPONSE_START", "STEP_START", "STEP_END", "RESPONSE_END", "ABORT", "ERROR"}
TAGS = set(EVENT_TYPES)


def passed(predicate: Callable[[Any], bool]) -> set[str]:
    """
    The tags of the events that pass.
    """
    return {event.type for event in SAMPLES if predicate(event)}


def is_delta(event: Event) -> bool:
    return event.is_delta


# Tests 21 to 26 of the system this re-thinks, with the guard of contract F.
@pytest.mark.parametrize(
    ("predicate", "expected"),
    [
        pytest.param(DEFAULT, TAGS - {"HEARTBEAT", "RAW"}, id="21 the default hides keep-alives and unknown frames"),
        pytest.param(all_events(), TAGS, id="22 everything"),
        pytest.param(guarded(by_type("TEXT_DELTA")), FRAME | {"TEXT_DELTA"}, id="23 the frame passes a guard, and nothing else by force"),
        pytest.param(by_type("TEXT_START", "TEXT_DELTA", "TEXT_END"), {"TEXT_START", "TEXT_DELTA", "TEXT_END"}, id="24 exactly these"),
        pytest.param(by_type(TextDelta) | by_type(Heartbeat), {"TEXT_DELTA", "HEARTBEAT"}, id="25 a union"),
        pytest.param(DEFAULT | by_type("RAW"), TAGS - {"HEARTBEAT"}, id="26 the default and one more"),
        pytest.param(guarded(), TAGS - {"HEARTBEAT", "RAW"}, id="a guarded default hides Heartbeat although it is LIFECYCLE"),
        pytest.param(guarded(by_type()), FRAME, id="a guard around nothing"),
        pytest.param(by_type(), set(), id="no types: nothing"),
        pytest.param(by_group(), set(), id="no groups: nothing"),
        pytest.param(by_group(Group.SAFETY), {"REFUSAL_DELTA", "CONTENT_FILTER"}, id="a group"),
        pytest.param(by_group("STEP", Group.SAFETY), {"STEP_START", "STEP_END", "REFUSAL_DELTA", "CONTENT_FILTER"}, id="two groups, one by name"),
        pytest.param(by_group(Group.TEXT) & is_delta, {"TEXT_DELTA"}, id="both, one a function"),
        pytest.param(is_delta & by_group(Group.TEXT), {"TEXT_DELTA"}, id="both, the function first"),
        pytest.param(is_delta | by_type("RAW"), passed(is_delta) | {"RAW"}, id="either, the function first"),
        pytest.param(~by_group(Group.TEXT) & by_group(Group.TEXT, Group.STEP), {"STEP_START", "STEP_END"}, id="not"),
        pytest.param(as_filter(is_delta), passed(is_delta), id="a function as a filter"),
    ],
)
def test_what_passes(predicate: EventFilter, expected: set[str]) -> None:
    """
    Of one event of each of the 32 types, exactly the expected ones pass.
    """
    assert passed(predicate) == expected


def test_one_sample_of_each_type() -> None:
    """
    The table above speaks of all types.
    """
    assert {type(event) for event in SAMPLES} == set(EVENT_TYPES.values())


@pytest.mark.parametrize("wrong", ["TEXT", "", None, int, Event, 7])
def test_by_type_refuses_what_is_no_type(wrong: Any) -> None:
    """
    A slip of the pen is told at once, with the tags there are.
    """
    with pytest.raises(ConfigurationError, match="TEXT_DELTA"):
        by_type(wrong)


def test_by_group_refuses_what_is_no_group() -> None:
    """
    Likewise for groups.
    """
    with pytest.raises(ConfigurationError, match="TOOL_CALL"):
        by_group("TOOLS")


@pytest.mark.parametrize("wrong", [None, "RAW", TextDelta])
def test_only_callables_combine(wrong: Any) -> None:
    """
    Neither a tag nor a class is a filter by itself.
    """
    with pytest.raises(ConfigurationError, match="by_type"):
        _ = DEFAULT | wrong
    with pytest.raises(ConfigurationError, match="by_type"):
        as_filter(wrong)


def test_a_filter_is_a_plain_callable() -> None:
    """
    RxPY's own filter takes it.
    """
    seen: list[ChatEvent] = []
    rx.from_iterable(SAMPLES).pipe(ops.filter(by_type(TextDelta))).subscribe(seen.append)
    assert [event.type for event in seen] == ["TEXT_DELTA"]


@pytest.mark.parametrize(
    ("predicate", "expected"),
    [
        (DEFAULT | by_type("RAW"), "<EventFilter (DEFAULT | by_type(Raw))>"),
        (guarded(~by_group("TEXT") & is_delta), "<EventFilter guarded((~by_group(TEXT) & by function))>"),
    ],
)
def test_repr_says_how_it_was_made(predicate: EventFilter, expected: str) -> None:
    """
    For messages and debugging.
    """
    assert repr(predicate) == expected


sets = st.frozensets(st.sampled_from(sorted(TAGS)))


@given(sets, sets)
def test_filters_are_sets(a: frozenset[str], b: frozenset[str]) -> None:
    """
    `|`, `&`, `~` are union, intersection and complement; a guard adds the frame.
    """
    f, g = by_type(*a), by_type(*b)
    assert passed(f | g) == a | b
    assert passed(f & g) == a & b
    assert passed(~f) == TAGS - a
    assert passed(guarded(f)) == a | FRAME
