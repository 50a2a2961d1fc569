"""
Which events are shown: predicates that combine with `|`, `&`, `~` (contract F).

A filter is a plain callable from event to bool, so RxPY's own `ops.filter(f)` takes it too. It controls delivery and nothing else: the answer is folded
before the filter, so hiding events never changes it.

    by_type(TextDelta, "RAW") | by_group(Group.SAFETY)
    DEFAULT & ~by_group(Group.THINKING)
    guarded(by_type(TextDelta))          # and the frame around it: see `guarded`
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias, cast

import attrs

from rxchat.errors import ConfigurationError
from rxchat.events import EVENT_TYPES, Event, Group, Heartbeat, Raw, ResponseStart, StepEnd, StepStart

__all__ = ["DEFAULT", "EventFilter", "Predicate", "all_events", "by_group", "by_type", "guarded"]

Predicate: TypeAlias = Callable[[Any], bool]


@attrs.frozen(repr=False)
class EventFilter:
    """
    A predicate that combines: `|`, `&` with another filter or any callable, on either side, and `~`.
    """

    predicate: Predicate
    name: str = "by function"

    def __call__(self, event: Event) -> bool:
        return self.predicate(event)

    def __or__(self, other: Predicate) -> EventFilter:
        mine, theirs = self.predicate, _bare(other)
        return EventFilter(lambda event: mine(event) or theirs(event), f"({self.name} | {_name(other)})")

    def __ror__(self, other: Predicate) -> EventFilter:
        return as_filter(other) | self

    def __and__(self, other: Predicate) -> EventFilter:
        mine, theirs = self.predicate, _bare(other)
        return EventFilter(lambda event: mine(event) and theirs(event), f"({self.name} & {_name(other)})")

    def __rand__(self, other: Predicate) -> EventFilter:
        return as_filter(other) & self

    def __invert__(self) -> EventFilter:
        mine = self.predicate
        return EventFilter(lambda event: not mine(event), f"~{self.name}")

    def __repr__(self) -> str:
        return f"<EventFilter {self.name}>"


def as_filter(predicate: Predicate) -> EventFilter:
    """
    The filter itself, or a callable as one; ConfigurationError for anything else.
    """
    if isinstance(predicate, EventFilter):
        return predicate
    return EventFilter(_bare(predicate))


def _bare(predicate: Any) -> Predicate:
    # A class is callable too, and calling it with an event is never what was meant.
    if not callable(predicate) or isinstance(predicate, type):
        raise ConfigurationError(f"a filter is a callable from event to bool, not {predicate!r} (a class goes into by_type)")
    inner: Any = predicate.predicate if isinstance(predicate, EventFilter) else predicate
    return cast(Predicate, inner)


def _name(predicate: Predicate) -> str:
    return predicate.name if isinstance(predicate, EventFilter) else "by function"


def by_type(*types: type[Event] | str) -> EventFilter:
    """
    Exactly these types, given as classes or tags ("TEXT_DELTA"); none given: nothing passes. ConfigurationError names what is no type of ours.
    """
    classes = frozenset(_event_type(kind) for kind in types)
    return EventFilter(lambda event: type(event) in classes, f"by_type({', '.join(sorted(cls.__name__ for cls in classes))})")


def _event_type(kind: type[Event] | str) -> type[Event]:
    found = EVENT_TYPES.get(kind if isinstance(kind, str) else getattr(kind, "type", ""))
    if found is None or (isinstance(kind, type) and kind is not found):
        raise ConfigurationError(f"{kind!r} is no event type; the tags are: {', '.join(EVENT_TYPES)}")
    return found


def by_group(*groups: Group | str) -> EventFilter:
    """
    All types of these groups, given as members or by name; none given: nothing passes.
    """
    try:
        wanted = frozenset(Group(group) for group in groups)
    except ValueError:
        raise ConfigurationError(f"{groups!r} are not all groups; the groups are: {', '.join(Group)}") from None
    return EventFilter(lambda event: event.group in wanted, f"by_group({', '.join(sorted(wanted))})")


def all_events() -> EventFilter:
    """
    Everything.
    """
    return EventFilter(lambda event: True, "all_events()")


DEFAULT = EventFilter(lambda event: type(event) is not Heartbeat and type(event) is not Raw, "DEFAULT")

_FRAME = frozenset({ResponseStart, StepStart, StepEnd})


def guarded(predicate: Predicate | None = None) -> EventFilter:
    """
    What `predicate` (DEFAULT if None) lets pass, and always ResponseStart, StepStart, StepEnd and the three terminals: nothing else by force.

    Put it outermost: a filter combined with a guarded one can hide the frame again.
    """
    inner = DEFAULT if predicate is None else as_filter(predicate)
    allows = inner.predicate
    if inner is DEFAULT:
        # It hides nothing of the frame by itself.
        return EventFilter(allows, f"guarded({inner.name})")
    return EventFilter(lambda event: event.terminal or type(event) in _FRAME or allows(event), f"guarded({inner.name})")
