"""
How the answers of a chat are shown.
"""

from __future__ import annotations

import io
from collections.abc import Iterable
from typing import Any

import pytest

from rxchat.cli.chat_view import ChatView, HeldView, PlainChat, call_in_full, one_line, result_text
from rxchat.cli.live import Stopwatch, View
from rxchat.events import ChatEvent, Citation, StepEnd, StepStart, TextDelta, ThinkingDelta, ToolCallEnd, ToolResult
from rxchat.prompt import image
from rxchat.response import ChatResponse, TextPart, ToolCall

DONE = ToolCallEnd(ToolCall("a", "f", '{"x":1}', {"x": 1}, complete=True))


def shown(capsys: pytest.CaptureFixture[str], view: View, events: Iterable[ChatEvent]) -> list[str]:
    """
    What a view prints, line by line.
    """
    for event in events:
        view.show(event)
    view.close(ChatResponse(), Stopwatch())
    return [line.rstrip() for line in capsys.readouterr().out.splitlines()]


@pytest.mark.parametrize(
    "thinking, events, lines",
    [
        (False, [TextDelta("Hel"), TextDelta("lo.")], ["Hello."]),
        (False, [ThinkingDelta("Hm"), ThinkingDelta("..."), TextDelta("Hello."), ThinkingDelta("Hm")], ["thinking ...", "Hello."]),
        (True, [ThinkingDelta("Hm"), ThinkingDelta("..."), TextDelta("Hello.")], ["Hm...", "Hello."]),
        (False, [TextDelta("See."), DONE, ToolResult("a", "one\n two")], ["See.", '→ f({"x":1})', "← one two"]),
        (False, [ToolCallEnd(ToolCall("a", "f", '{"x"\x1b'))], ['→ f({"x"\\u001b) (unfinished)']),
        (False, [ToolResult("a", {"x": [1]}, is_error=True)], ['← {"x":[1]}']),
        (False, [TextDelta("So."), Citation(url="u", title="T")], ["So.", "[1] T u"]),
    ],
)
def test_on_a_terminal(capsys: pytest.CaptureFixture[str], thinking: bool, events: list[ChatEvent], lines: list[str]) -> None:
    """
    Text as it comes, calls and results in a line each, thinking only if it is wanted; no footer.
    """
    assert shown(capsys, ChatView(thinking), events) == lines


def test_in_a_pipe_steps_are_lines() -> None:
    """
    The text and nothing else, and what two steps say does not run together.
    """
    out = io.StringIO()
    view = PlainChat(out)
    for event in (StepStart(0), TextDelta("Let me look."), DONE, StepEnd(0), StepStart(1), StepEnd(1), StepStart(2), TextDelta("Sun.\n"), StepEnd(2)):
        view.show(event)
    view.close(ChatResponse(), Stopwatch())
    assert out.getvalue() == "Let me look.\nSun.\n"


def test_a_view_that_is_held_shows_later(capsys: pytest.CaptureFixture[str]) -> None:
    """
    Everything, in order; closing ends the holding too.
    """
    view = HeldView(PlainChat())
    for text in "ab":
        view.show(TextDelta(text))
        view.hold()
    view.hold()
    assert capsys.readouterr().out == "a"
    view.release()
    assert capsys.readouterr().out == "b"
    assert shown(capsys, view, [TextDelta("c")]) == ["c"]
    view.hold()
    assert shown(capsys, view, [TextDelta("d")]) == ["d"]


@pytest.mark.parametrize(
    "result, text",
    [
        ("sunny", "sunny"),
        ([1, None], "[1,null]"),
        ([TextPart("See"), image(b"\x89PNG", "image/png")], "See [image image/png]"),
        (float("nan"), "nan"),
        (b"x", "b'x'"),
    ],
)
def test_results_are_text(result: Any, text: str) -> None:
    """
    Whatever a tool returned.
    """
    assert result_text(result) == text


def test_a_line_is_short() -> None:
    """
    And it is one line.
    """
    assert one_line("a\n\tb") == "a b"
    assert (len(one_line("x" * 999)), one_line("x" * 999)[-2:]) == (160, "x…")


@pytest.mark.parametrize(
    "text, seen",
    [
        ('{"q":"größer 日本 🌱"}', 'f({"q":"größer 日本 🌱"})'),
        ("a\u202eb\u200bc\x1b\n\u2028", "f(a\\u202eb\\u200bc\\u001b\\u000a\\u2028)"),
        ("x" * 5000, f"f({'x' * 5000})"),
    ],
)
def test_a_call_is_seen_whole_and_as_it_is(text: str, seen: str) -> None:
    """
    Whoever allows it has seen all of it: nothing cut, nothing invisible, nothing that turns the text around.
    """
    assert call_in_full(ToolCall("a", "f", text)) == seen
