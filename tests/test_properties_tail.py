"""
What holds for the normalizer and the fold behind it whatever comes in: balance, one terminal, fixed points, nothing lost, linear work.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import pytest
from hypothesis import given

from rxchat.aggregator import Aggregator
from rxchat.events import (
    Abort,
    ChatEvent,
    ErrorEvent,
    Group,
    Phase,
    ResponseEnd,
    ResponseStart,
    StepEnd,
    StepStart,
    TextDelta,
    ThinkingDelta,
    ToolCallArgsDelta,
    ToolCallEnd,
    ToolCallStart,
)
from rxchat.normalizer import Normalizer
from rxchat.response import ChatResponse, ToolCall
from rxchat.serialize import dumps, loads
from rxchat.stage import Chain, Emit, Stage
from tests.streams import feed_all, parse_event, parse_events, response_lines, token_lines
from tests.work import opcodes


def tail() -> Chain[ChatEvent, ChatEvent]:
    return Chain(Normalizer(), Aggregator())


def present(events: Iterable[ChatEvent | None]) -> list[ChatEvent]:
    return [event for event in events if event is not None]


# --- balance --------------------------------------------------------------------------------------------------------------------------------------


class Checker:
    """
    A reader of E2 to E5 that shares nothing with the normalizer: it keeps lists and looks through them.
    """

    def __init__(self) -> None:
        self.blocks: list[tuple[Group, int, int | None, str | None]] = []
        self.calls: list[tuple[int, int | None]] = []
        self.ids: dict[tuple[int, int | None], str] = {}
        self.step: int | None = None

    def read(self, event: Any) -> None:
        if event.group in (Group.TEXT, Group.THINKING) and event.phase is not Phase.NONE:
            self.read_block(event)
        elif isinstance(event, ToolCallStart | ToolCallArgsDelta | ToolCallEnd):
            self.read_call(event)
        elif isinstance(event, StepStart | StepEnd | ResponseEnd | Abort | ErrorEvent | ResponseStart):
            self.read_border(event)

    def read_block(self, event: Any) -> None:
        key = (event.group, event.choice, event.index, event.item_id)
        siblings = [block for block in self.blocks if block[:2] == key[:2]]
        assert all(block in siblings for block in self.blocks if block[1] == event.choice), "text and thinking overlap (E3)"
        if event.phase is Phase.START:
            assert key not in self.blocks, "opened twice (E2)"
            self.blocks.append(key)
        elif event.phase is Phase.END:
            self.blocks.remove(key)
        elif key not in self.blocks:
            nameless = (*key[:2], None, None)
            if key == nameless:
                assert len(siblings) == 1, "a delta outside its block (E2)"
            else:
                self.blocks[self.blocks.index(nameless)] = key

    def read_call(self, event: Any) -> None:
        key = (event.choice, event.index)
        assert event.index is not None, "a call without index (P5)"
        assert event.call_id, "a call without id (P5)"
        if event.phase is Phase.START:
            assert key not in self.ids, "an index used twice in a step (P5)"
            assert not [block for block in self.blocks if block[1] == event.choice], "a call starts inside a block (E4)"
            self.calls.append(key)
        assert key in self.calls, "a call's event outside its call (E2)"
        if event.phase is Phase.END:
            self.calls.remove(key)
        self.ids[key] = event.call_id

    def read_border(self, event: Any) -> None:
        assert not self.blocks, "a block is open across a border (E2)"
        assert not self.calls, "a call is open across a border (E2)"
        self.ids.clear()
        if isinstance(event, StepEnd):
            assert event.step == self.step, "an end of another step"
        else:
            assert self.step is None, "a step is open across a border (E5)"
        self.step = event.step if isinstance(event, StepStart) else None


@given(token_lines)
def test_balanced(line: str) -> None:
    """
    Whatever comes in, what comes out is balanced, also at the completion of the source (E2-E5, P5).
    """
    checker = Checker()
    for event in feed_all(Normalizer(), [*parse_events(line), None]):
        checker.read(event)
    checker.read_border(ResponseEnd())


@given(token_lines)
def test_failure_is_balanced_too(line: str) -> None:
    """
    The same when the source fails (E6).
    """
    out: list[ChatEvent] = []
    stage = Normalizer()
    for event in present(parse_events(line)):
        stage.feed(event, out.append)
    stage.fail(ValueError("gone"), out.append)
    checker = Checker()
    for event in out:
        checker.read(event)
    checker.read_border(ResponseEnd())


@given(token_lines)
def test_one_terminal(line: str) -> None:
    """
    The first terminal is the last event (E1, N5).
    """
    given_events = present(parse_events(line))
    out = feed_all(Normalizer(), [*given_events, None])
    terminals = [event for event in out if event.terminal]
    first = next((event for event in given_events if event.terminal), None)
    assert ([first] if first else []) == terminals
    assert not terminals or out[-1] is terminals[0]


@given(token_lines)
def test_calls_end_once(line: str) -> None:
    """
    Every call has one end, and it bears the last id the call was known by (N1, N2).
    """
    out = feed_all(Normalizer(), [*parse_events(line), None])
    assert sum(isinstance(event, ToolCallStart) for event in out) == sum(isinstance(event, ToolCallEnd) for event in out)


# --- fixed points, purity -------------------------------------------------------------------------------------------------------------------------


@given(token_lines)
def test_fixed_point(line: str) -> None:
    """
    Normalized events pass the normalizer unchanged (N8).
    """
    once = feed_all(Normalizer(), [*parse_events(line), None])
    assert once == feed_all(Normalizer(), [*once, None])


@given(response_lines())
def test_fixed_point_of_the_tail(line: str) -> None:
    """
    What the fold has filled in, it fills in again just so.
    """
    once = feed_all(tail(), parse_events(line))
    assert once == feed_all(tail(), once)
    assert once == feed_all(Aggregator(), once)


@given(response_lines())
def test_the_fold_reads_values(line: str) -> None:
    """
    Events that were written and read again make the same answers: the fold looks at values, not at objects.
    """
    events = feed_all(Normalizer(), parse_events(line))
    answers, again = (
        [event.response for event in feed_all(Aggregator(), stream) if isinstance(event, StepEnd | ResponseEnd | Abort | ErrorEvent)]
        for stream in (events, [loads(dumps(event)) for event in events])
    )
    assert answers == again


@given(response_lines())
def test_in_a_row_or_one_after_the_other(line: str) -> None:
    """
    The two stages give the same one event at a time as each over the whole stream, and the answer may be asked for at any time.
    """
    events = parse_events(line)
    asked = Aggregator()

    class Asking(Stage[ChatEvent, ChatEvent]):
        def feed(self, item: ChatEvent, emit: Emit[ChatEvent]) -> None:
            asked.feed(item, emit)
            assert isinstance(asked.response, ChatResponse)
            assert asked.response.usage == asked.usage

    expected = feed_all(Aggregator(), feed_all(Normalizer(), events))
    assert expected == feed_all(tail(), events)
    assert expected == feed_all(Chain(Normalizer(), Asking()), events)


# --- nothing lost ---------------------------------------------------------------------------------------------------------------------------------


def _fragments(events: Iterable[Any], *classes: type[Any]) -> Counter[str]:
    return Counter(event.text for event in events if isinstance(event, classes))


@given(response_lines())
def test_nothing_lost(line: str) -> None:
    """
    Every text delta passes and is in the answer once; an argument fragment too, unless its call had ended (V1, P6).
    """
    events = present(parse_events(line))
    out = feed_all(tail(), events)
    (end,) = [event for event in out if isinstance(event, ResponseEnd | Abort | ErrorEvent)]
    answers = [end.response, *end.response.alternatives]

    assert _fragments(events, TextDelta, ThinkingDelta) == _fragments(out, TextDelta, ThinkingDelta)
    shown = Counter(f"{piece};" for answer in answers for piece in (answer.text + answer.thinking).split(";") if piece)
    assert _fragments(out, TextDelta, ThinkingDelta) == shown

    written = Counter(f"{piece};" for answer in answers for call in answer.tool_calls for piece in call.arguments_text.split(";") if piece)
    assert _fragments(out, ToolCallArgsDelta) == written
    lost = _fragments(events, ToolCallArgsDelta) - written
    assert end.response.dropped >= lost.total()


@given(response_lines())
def test_steps_make_the_whole(line: str) -> None:
    """
    The whole answer is the sum of those on its StepEnds (V1, U).
    """
    out = feed_all(tail(), parse_events(line))
    (end,) = [event for event in out if isinstance(event, ResponseEnd | Abort | ErrorEvent)]
    ends = [event for event in out if isinstance(event, StepEnd)]
    assert tuple(event.response for event in ends) == end.response.steps
    assert tuple(part for event in ends for part in event.response.parts) == end.response.parts
    known = [event.usage.input_tokens for event in ends if event.usage and event.usage.input_tokens is not None]
    assert (sum(known) if known else None) == (end.response.usage and end.response.usage.input_tokens)


@given(response_lines())
def test_ends_tell_their_calls(line: str) -> None:
    """
    The calls of the answer are those on the ToolCallEnds, and arguments are set only where complete (N7).
    """
    out = feed_all(tail(), parse_events(line))
    (end,) = [event for event in out if isinstance(event, ResponseEnd | Abort | ErrorEvent)]
    ended = [event.tool_call for event in out if isinstance(event, ToolCallEnd) and not event.choice]
    assert sorted(ended, key=str) == sorted(end.response.tool_calls, key=str)
    assert all(call.complete for call in ended if call.arguments is not None)


# --- linear work ----------------------------------------------------------------------------------------------------------------------------------


def _work(stage: Stage[ChatEvent, ChatEvent], events: Sequence[ChatEvent | None]) -> int:
    """
    How many byte code instructions it takes to run a stream.
    """

    def sink(event: ChatEvent) -> None:
        pass

    def run_all() -> None:
        for event in events:
            if event is None:
                stage.flush(sink)
            else:
                stage.feed(event, sink)

    return opcodes(run_all)


def _repeated(*tokens: str) -> Callable[[int], list[ChatEvent | None]]:
    return lambda n: [parse_event(token.replace("%", str(k))) for k in range(n) for token in tokens]


SHAPES: dict[str, Callable[[int], list[ChatEvent | None]]] = {
    "one text": _repeated("T.D#0"),
    "text and thinking by turns": _repeated("T.D", "K.D"),
    "two texts by turns": _repeated("T.D#0", "T.D#1"),
    "many texts open": _repeated("T.D#%"),
    "many choices": _repeated("T.D^%"),
    "many choices, and back to the first": _repeated("T.D^%", "T.D"),
    "one call": _repeated("C.D!a#0"),
    "nameless fragments": _repeated("C.D"),
    "calls by turns": _repeated("C.D#0", "C.D#1", "C.D!c"),
    "many calls open": _repeated("C.S!%#%", "C.D#%"),
    "many calls, one after the other": _repeated("C.S#0", "C.D#0", "C.E#0"),
    "many ids under one index": _repeated("C.S!%#0", "C.D#0"),
    "many calls, nameless fragments": _repeated("C.S!%", "C.D", "C.D!0"),
    "text and calls by turns": _repeated("T.D", "C.S!%", "C.D!%"),
    "signatures": _repeated("K.D#%", "SIG#%"),
    "notes in a text": _repeated("T.D", "CITATION", "REFUSAL", "USAGE"),
    "server tools": _repeated("SERVER_START", "SERVER_ARGS", "SERVER_RESULT"),
    "many steps": lambda n: [
        event for k in range(n) for event in (StepStart(k), TextDelta("x"), ToolCallEnd(ToolCall("a")), StepEnd(k), parse_event("USAGE"))
    ],
}


@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES.keys())
def test_linear(shape: Callable[[int], list[ChatEvent | None]]) -> None:
    """
    Twice the events take twice the work, the end included.
    """
    small, large = (_work(tail(), [*shape(n), None, ResponseEnd()]) for n in (100, 200))
    assert large < 2.2 * small


def test_the_count_sees_quadratic_work() -> None:
    """
    The measure of the test above is one: work that grows with the square shows.
    """

    class Hoarder(Normalizer):
        def __init__(self) -> None:
            super().__init__()
            self.seen: list[ChatEvent] = []

        def feed(self, event: ChatEvent, emit: Emit[ChatEvent]) -> None:
            self.seen.append(event)
            for _ in self.seen:
                pass

    small, large = (_work(Hoarder(), [TextDelta("x")] * n) for n in (100, 200))
    assert large > 3 * small
