"""
What holds for the events of any body, whole or broken: one list of rules, each a function from a replay to what breaks it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from rxchat.aggregator import Aggregator
from rxchat.dialects.base import UNREADABLE
from rxchat.errors import DialectError, RxchatError, Verdict
from rxchat.events import ErrorEvent, ResponseEnd, TextDelta, ThinkingDelta, ToolCallArgsDelta, ToolCallEnd
from rxchat.normalizer import Normalizer
from rxchat.response import ToolCall
from rxchat.stage import Chain, run
from rxchat.strictjson import loads
from rxchat.testing.grammar import grammar_violations
from rxchat.testing.replays import Replay, fact_of

__all__ = ["RULES", "broken_rules", "crash_of"]

_ENDED = (Verdict.COMPLETE, Verdict.INCOMPLETE_FINISH)


def broken_rules(replay: Replay) -> list[str]:
    """
    What breaks a rule, in words; empty is right.
    """
    return [f"{ids}: {what}" for ids, rule in RULES.items() for what in rule(replay)]


def crash_of(replay: Replay) -> str | None:
    """
    The fault of the dialect's own code that was taken for a frame it cannot read, if there was one.
    """
    error = replay.error
    if isinstance(error, DialectError) and error.message.startswith(UNREADABLE):
        return f"{type(error.__cause__).__name__}: {error.__cause__}"
    return None


def _grammar(replay: Replay) -> Iterator[str]:
    yield from grammar_violations(replay.events)


def _end(replay: Replay) -> Iterator[str]:
    """
    The last event, the error and the verdict say the same.
    """
    last = replay.events[-1] if replay.events else None
    if isinstance(last, ErrorEvent) and last.error is not replay.error:
        yield f"the ErrorEvent has another error than on_error: {replay.error!r}"
    if replay.error is not None and not isinstance(last, ErrorEvent):
        yield f"no ErrorEvent before {replay.error!r}"
    if isinstance(last, ResponseEnd) and replay.verdict not in _ENDED:
        yield f"a ResponseEnd with the verdict {replay.verdict}"


def _fold(replay: Replay) -> Iterator[str]:
    """
    The events fold into the answers they carry, again.
    """
    stage: Chain[Any, Any] = Chain(Normalizer(), Aggregator())
    again = list(run(stage, replay.events))
    ours, theirs = [fact_of(event) for event in replay.events], [fact_of(event) for event in again]
    if ours != theirs:
        place = next((k for k, (one, other) in enumerate(zip(ours, theirs, strict=False)) if one != other), min(len(ours), len(theirs)))
        yield f"folded again, event {place} is {_at(theirs, place)}, not {_at(ours, place)}"


def _at(events: list[Any], place: int) -> Any:
    return events[place] if place < len(events) else "missing"


def _texts(replay: Replay) -> Iterator[str]:
    """
    The answer's text and thinking are what the deltas said, nothing more.
    """
    for name, kind in (("text", TextDelta), ("thinking", ThinkingDelta)):
        told, kept = "".join(event.text for event in replay.of(kind) if not event.choice), getattr(replay.response, name)
        if sorted(told) != sorted(kept):
            yield f"the deltas of {name} say {told!r}, the answer {kept!r}"


def _calls(replay: Replay) -> Iterator[str]:
    fragments: dict[Any, str] = {}
    for event in replay.events:
        if isinstance(event, ToolCallArgsDelta):
            fragments[event.choice, event.index] = fragments.get((event.choice, event.index), "") + event.text
        elif isinstance(event, ToolCallEnd):
            yield from _call(event.tool_call, fragments.pop((event.choice, event.tool_call.index), ""))


def _call(call: ToolCall, told: str) -> Iterator[str]:
    if told != call.arguments_text:
        yield f"the fragments of call {call.index} say {told!r}, its end {call.arguments_text!r}"
    expected = _arguments(call)
    if call.arguments != expected:
        yield f"call {call.index} has arguments {call.arguments!r}, not {expected!r}"


def _arguments(call: ToolCall) -> Any:
    """
    What a call's arguments must be: an object only where it is complete and its text is one (contract N7, P3).
    """
    if not call.complete or call.kind != "function":
        return None
    try:
        value = loads(call.arguments_text) if call.arguments_text.strip() else {}
    except RxchatError:
        return None
    return value if isinstance(value, dict) else None


RULES: dict[str, Callable[[Replay], Iterator[str]]] = {
    "E1-E6, E13": _grammar,
    "E6, V4": _end,
    "V1, V2, N8": _fold,
    "V1": _texts,
    "N7, P3": _calls,
}
