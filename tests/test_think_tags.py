"""
Tags in the text become thinking: however they are cut, nothing is lost, doubled or held longer than a tag.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, ClassVar

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rxchat.errors import ConfigurationError, ConnectionLostError
from rxchat.events import (
    Abort,
    ChatEvent,
    ErrorEvent,
    Heartbeat,
    RefusalDelta,
    ResponseEnd,
    ResponseStart,
    StepEnd,
    StepStart,
    TextDelta,
    TextEnd,
    TextStart,
    ThinkingDelta,
    ThinkingEnd,
    ThinkingStart,
    ToolCallStart,
    UsageUpdate,
)
from rxchat.response import Usage
from rxchat.think_tags import THINK_TAGS, ThinkTagSplitter, tag_names
from tests.grammar import violations
from tests.work import opcodes


def split(pieces: Iterable[str], names: Sequence[str] = THINK_TAGS) -> list[tuple[str, str]]:
    """
    (T or K, text) of texts fed one by one, neighbours of a kind joined.
    """
    joined: list[tuple[str, str]] = []
    for event in events_of([TextDelta(piece) for piece in pieces], names):
        kind = "T" if isinstance(event, TextDelta) else "K"
        assert isinstance(event, TextDelta | ThinkingDelta)
        assert event.text
        before = joined.pop() if joined and joined[-1][0] == kind else (kind, "")
        joined.append((kind, before[1] + event.text))
    return joined


def events_of(events: Iterable[ChatEvent], names: Sequence[str] = THINK_TAGS) -> list[ChatEvent]:
    """
    What the stage makes of events, flushed.
    """
    stage, out = ThinkTagSplitter(names), list[ChatEvent]()
    for event in events:
        stage.feed(event, out.append)
    stage.flush(out.append)
    return out


TEXTS: dict[str, tuple[str, list[tuple[str, str]]]] = {
    "plain": ("hello", [("T", "hello")]),
    "at the start": ("<think>why</think>so", [("K", "why"), ("T", "so")]),
    "in the middle": ("a<think>b</think>c", [("T", "a"), ("K", "b"), ("T", "c")]),
    "other names": ("<thinking>b</thinking>c<reasoning>d</reasoning>", [("K", "b"), ("T", "c"), ("K", "d")]),
    "twice": ("<think>a</think><think>b</think>c", [("K", "ab"), ("T", "c")]),
    "empty": ("<think></think>a", [("T", "a")]),
    "never closed": ("<think>a", [("K", "a")]),
    "closed by another tag": ("<think>a</thinking>b</think>c", [("K", "a</thinking>b"), ("T", "c")]),
    "inside itself": ("<think>a<think>b</think>c</think>", [("K", "a<think>b"), ("T", "c</think>")]),
    "never opened": ("a</think>b", [("T", "a</think>b")]),
    "almost a tag": ("a<thin>b<think x>c< think>", [("T", "a<thin>b<think x>c< think>")]),
    "another case": ("<Think>a</Think>", [("T", "<Think>a</Think>")]),
    "a longer name": ("<thinker>a</thinker>", [("T", "<thinker>a</thinker>")]),
    "half a tag at the end": ("a<thi", [("T", "a<thi")]),
    "half a closing tag at the end": ("<think>a</th", [("K", "a</th")]),
    "two beginnings": ("a<<think>b</</think>c", [("T", "a<"), ("K", "b</"), ("T", "c")]),
    "white space stays": ("<think>\na\n</think>\n\nb", [("K", "\na\n"), ("T", "\n\nb")]),
    "only a bracket": ("<", [("T", "<")]),
}


@pytest.mark.parametrize("name", TEXTS)
def test_split(name: str) -> None:
    """
    Each text splits so, whole, character by character, and cut in two anywhere.
    """
    text, expected = TEXTS[name]
    assert expected == split([text])
    assert expected == split(text)
    for cut in range(1, len(text)):
        assert expected == split([text[:cut], text[cut:]])


@given(
    st.lists(st.sampled_from(["<", "<think>", "</think>", "<reasoning>", "</reasoning>", "thi", "nk>", "</", "a", " b", "🌊"]), max_size=12),
    st.randoms(),
)
def test_split_does_not_depend_on_cuts(parts: list[str], chance: Any) -> None:
    """
    How a text was cut changes nothing; without the tags all characters are there, in order.
    """
    text = "".join(parts)
    inside = sorted(chance.randrange(len(text) + 1) for _ in range(4)) if text else []
    pieces = [text[start:end] for start, end in zip([0, *inside], [*inside, len(text)], strict=True) if end > start]
    expected = split([text] if text else [])
    assert expected == split(pieces)
    rest = "".join(piece for _, piece in expected)
    position = 0
    for character in rest:
        position = text.index(character, position) + 1
    assert len(text) - len(rest) == sum(len(tag) for tag in tags_removed(text))


def tags_removed(text: str) -> list[str]:
    """
    The tags a slow reader takes out.
    """
    removed, closing = [], ""
    while text:
        wanted = [closing] if closing else [f"<{name}>" for name in THINK_TAGS]
        tag = next((tag for tag in wanted if text.startswith(tag)), None)
        if tag is None:
            text = text[1:]
            continue
        removed.append(tag)
        closing = "" if closing else f"</{tag[1:]}"
        text = text[len(tag) :]
    return removed


def test_held_back_is_shorter_than_a_tag() -> None:
    """
    What is held back is always shorter than the longest tag that may come.
    """
    text = "a <reasonin" + "<think>b </thin" * 3 + "</think>"
    stage, out = ThinkTagSplitter(), list[ChatEvent]()
    for k, character in enumerate(text):
        stage.feed(TextDelta(character), out.append)
        shown = sum(len(event.text) for event in out if isinstance(event, TextDelta | ThinkingDelta))
        assert k + 1 - shown - sum(map(len, tags_removed(text[: k + 1]))) < len("</reasoning>")


def test_plain_text_passes_at_once() -> None:
    """
    Text without a bracket is handed on as it is, the same event.
    """
    delta = TextDelta("hello", 3, "item", 1)
    (out,) = events_of([delta])
    assert out is delta


@pytest.mark.parametrize(
    "ending",
    [
        ThinkingDelta("k"),
        ThinkingStart(),
        ToolCallStart("c"),
        RefusalDelta("no"),
        StepStart(1),
        StepEnd(),
        ResponseEnd(),
        Abort(),
        ErrorEvent(ConnectionLostError("x")),
    ],
    ids=lambda event: event.type,
)
def test_what_ends_a_text_lets_go(ending: ChatEvent) -> None:
    """
    Behind these events a held beginning becomes no tag: it comes before them.
    """
    assert [TextDelta("a"), TextDelta("<th"), ending] == events_of([TextDelta("a<th"), ending])


@pytest.mark.parametrize("passing", [Heartbeat(), UsageUpdate(Usage()), ToolCallStart("c", choice=1)], ids=lambda event: event.type)
def test_what_does_not_end_a_text(passing: ChatEvent) -> None:
    """
    Other events pass, the tag is still found.
    """
    assert [passing, ThinkingDelta("a")] == events_of([TextDelta("<th"), passing, TextDelta("ink>a")])


def test_a_failing_source_loses_nothing() -> None:
    """
    When the source fails, what was held back comes out.
    """
    stage, out = ThinkTagSplitter(), list[ChatEvent]()
    stage.feed(TextDelta("<thi"), out.append)
    stage.fail(ConnectionLostError("gone"), out.append)
    assert [TextDelta("<thi")] == out


def test_an_open_tag_ends_with_its_step() -> None:
    """
    A tag that is never closed does not reach into the next step; a call in between does not close it.
    """
    assert [ThinkingDelta("a"), StepEnd(), TextDelta("b")] == events_of([TextDelta("<think>a"), StepEnd(), TextDelta("b")])
    assert ThinkingDelta("b") in events_of([TextDelta("<think>a"), ToolCallStart("c"), TextDelta("b")])


def test_blocks_are_apart() -> None:
    """
    Blocks with different keys, and choices, have their own state.
    """
    events = [TextDelta("<think>a", 0), TextDelta("b", 1), TextDelta("c", 0), TextDelta("d", None, "i"), TextDelta("e", choice=1)]
    expected = [ThinkingDelta("a", 0), TextDelta("b", 1), ThinkingDelta("c", 0), TextDelta("d", None, "i"), TextDelta("e", choice=1)]
    assert expected == events_of(events)


NORMALIZED: dict[str, tuple[list[ChatEvent], list[ChatEvent]]] = {
    "text only": (
        [TextStart(0), TextDelta("a", 0), TextEnd(0)],
        [TextStart(0), TextDelta("a", 0), TextEnd(0)],
    ),
    "thinking, then text": (
        [TextStart(), TextDelta("<think>a</think>"), TextDelta("b"), TextEnd()],
        [ThinkingStart(), ThinkingDelta("a"), ThinkingEnd(), TextStart(), TextDelta("b"), TextEnd()],
    ),
    "text, thinking, text": (
        [TextStart(), TextDelta("a<think>b</think>c"), TextEnd()],
        [TextStart(), TextDelta("a"), TextEnd(), ThinkingStart(), ThinkingDelta("b"), ThinkingEnd(), TextStart(), TextDelta("c"), TextEnd()],
    ),
    "thinking only": (
        [TextStart(), TextDelta("<think>a"), TextEnd()],
        [ThinkingStart(), ThinkingDelta("a"), ThinkingEnd()],
    ),
    "held at its end": (
        [TextStart(), TextDelta("a<"), TextEnd()],
        [TextStart(), TextDelta("a"), TextDelta("<"), TextEnd()],
    ),
    "an empty block": ([TextStart(2), TextEnd(2)], [TextStart(2), TextEnd(2)]),
    "an end of nothing": ([TextEnd(2)], [TextEnd(2)]),
    "an end behind bare deltas": ([TextDelta("<", 2), TextEnd(2)], [TextDelta("<", 2), TextEnd(2)]),
}


@pytest.mark.parametrize("name", NORMALIZED)
def test_normalized_events_stay_balanced(name: str) -> None:
    """
    A block with its START and END leaves as blocks with their own.
    """
    events, expected = NORMALIZED[name]
    assert expected == events_of(events)


@given(st.lists(st.sampled_from(["<think>", "</think>", "a", "<", "b</"]), min_size=1, max_size=8))
def test_a_whole_response_stays_balanced(parts: list[str]) -> None:
    """
    A normalized response is of the grammar behind the splitter too.
    """
    block: list[ChatEvent] = [TextStart(), *(TextDelta(part) for part in parts), TextEnd()]
    events = events_of([ResponseStart("r"), StepStart(0), *block, *block, StepEnd(0), ResponseEnd()])
    assert [] == violations(events)


# --- linear work ----------------------------------------------------------------------------------------------------------------------------------


class Counted(str):
    """
    A text that counts how many characters are looked at or copied, in itself and in whatever is made of it.
    """

    work: ClassVar[int] = 0

    def __getitem__(self, place: Any) -> Counted:
        piece = Counted(super().__getitem__(place))
        Counted.work += len(piece)
        return piece

    def __radd__(self, before: str) -> Counted:
        Counted.work += len(before) + len(self)
        return Counted(f"{before}{self}")

    def find(self, sub: str, start: Any = 0, end: Any = None) -> int:
        at = super().find(sub, start, end)
        Counted.work += (at if at >= 0 else len(self)) - start
        return at


def characters(text: str) -> int:
    """
    How many characters are looked at or copied to split a text that comes in one delta.
    """
    Counted.work = 0
    stage = ThinkTagSplitter()
    stage.feed(TextDelta(Counted(text)), lambda event: None)
    stage.flush(lambda event: None)
    return Counted.work


def instructions(events: Sequence[ChatEvent]) -> int:
    """
    How many byte code instructions it takes to split them.
    """
    return opcodes(lambda: events_of(events))


@pytest.mark.parametrize("part", ["<think></think>", "<think>a</think>b", "<reasoning></thinking>", "<", "<thin", "</think>", "ab"])
def test_a_long_delta_is_looked_at_once(part: str) -> None:
    """
    However many tags stand in one delta, each of its characters is looked at and copied a few times.
    """
    assert characters(part * 1000) < 4 * len(part * 1000)


@pytest.mark.parametrize(
    "events",
    [
        lambda n: [TextDelta("<think></think>a" * n)],
        lambda n: [TextDelta(text) for _ in range(n) for text in ("<thi", "nk>a</", "think>")],
        lambda n: [event for k in range(n) for event in (TextDelta("a", choice=k), ThinkingDelta("b", choice=k))],
        lambda n: [event for k in range(n) for event in (TextDelta("a<", choice=k), ThinkingDelta("b"))],
        lambda n: [event for k in range(n) for event in (TextDelta("a<", k), TextDelta("b<", 0), ThinkingDelta("c"))],
        lambda n: [event for k in range(n) for event in (TextStart(k), TextDelta("<think>", k), TextEnd(k), RefusalDelta("c"))],
    ],
    ids=["tags", "tags over deltas", "many choices", "many choices that hold something", "many texts of a choice", "many texts, one after the other"],
)
def test_linear(events: Callable[[int], list[ChatEvent]]) -> None:
    """
    Twice the events take twice the work, however many texts are open.
    """
    small, large = (instructions(events(n)) for n in (100, 200))
    assert large < 2.2 * small


def test_a_block_that_begins_anew_loses_nothing() -> None:
    """
    What is held back of it is text when its start comes again.
    """
    assert [TextDelta("a", 0), TextDelta("<th", 0), TextStart(0), TextDelta("b", 0), TextEnd(0)] == events_of(
        [TextDelta("a<th", 0), TextStart(0), TextDelta("b", 0), TextEnd(0)]
    )


def test_texts_are_let_go_in_their_order() -> None:
    """
    Of several texts of a choice that hold something the one that began first comes first, whichever held first; another choice's stays.
    """
    events: list[ChatEvent] = [
        TextDelta("a", 0),
        TextDelta("b", 1),
        TextDelta("<", 1),
        TextDelta("<", 0),
        TextDelta("<", 0, choice=1),
        ThinkingDelta("c"),
    ]
    expected = [TextDelta("a", 0), TextDelta("b", 1), TextDelta("<", 0), TextDelta("<", 1), ThinkingDelta("c"), TextDelta("<", 0, choice=1)]
    assert expected == events_of(events)


# --- the option -----------------------------------------------------------------------------------------------------------------------------------

NAMES: dict[str, tuple[Any, tuple[str, ...]]] = {
    "true": (True, THINK_TAGS),
    "false": (False, ()),
    "none": (None, ()),
    "text true": ("True", THINK_TAGS),
    "text false": ("off", ()),
    "empty": ("", ()),
    "names": ("think, why", ("think", "why")),
    "a list": (["a", "b-c"], ("a", "b-c")),
}


@pytest.mark.parametrize("name", NAMES)
def test_tag_names(name: str) -> None:
    """
    The option is a flag or names.
    """
    value, expected = NAMES[name]
    assert expected == tag_names(value)


@pytest.mark.parametrize("wrong", ["a b", "<think>", "1a", "a,,b", ["x" * 40]])
def test_wrong_names(wrong: Any) -> None:
    """
    What is no name of a tag is refused.
    """
    with pytest.raises(ConfigurationError, match="not the name of a tag"):
        tag_names(wrong)
