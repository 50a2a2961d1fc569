"""
Parts while they grow: which fragment goes into which part, without events. What the fold of whole streams makes of them is in test_aggregator.py.
"""

from __future__ import annotations

import pytest

from rxchat.events import ANONYMOUS, Group
from rxchat.growing import ChoiceFold, GrowingCall, WholePart
from rxchat.response import MediaPart, RefusalPart, SearchResultPart, ServerToolPart, TextPart, ThinkingPart, ToolCall

IMAGE = MediaPart("image")
TEXT, THINKING = Group.TEXT, Group.THINKING


def write(fold: ChoiceFold, group: Group, text: str, index: int | None = None) -> None:
    fold.block(group, (index, None)).grown.add(text)


def test_blocks() -> None:
    """
    An identified block goes on in its part always, an anonymous one until something stands behind it (P14).
    """
    fold = ChoiceFold()
    write(fold, TEXT, "a")
    fold.note(WholePart(SearchResultPart("u")))
    write(fold, TEXT, "b")
    fold.place(WholePart(IMAGE))
    write(fold, TEXT, "c")
    fold.close_block(TEXT, ANONYMOUS)
    write(fold, TEXT, "d")
    fold.close_block(TEXT, ANONYMOUS)
    write(fold, TEXT, "e", 0)
    fold.close_block(TEXT, (0, None))
    write(fold, THINKING, "f", 1)
    write(fold, TEXT, "g", 0)
    parts = (TextPart("ab"), SearchResultPart("u"), IMAGE, TextPart("cd"), TextPart("eg", 0), ThinkingPart("f", None, 1))
    assert parts == fold.parts()


def test_a_name_that_comes_late() -> None:
    """
    An identified delta names the anonymous block; the part bears the name (N6).
    """
    fold = ChoiceFold()
    fold.open_block(TEXT, ANONYMOUS)
    write(fold, TEXT, "a")
    write(fold, TEXT, "b", 3)
    fold.close_block(TEXT, (3, None))
    write(fold, TEXT, "c", 3)
    assert (TextPart("abc", 3),) == fold.parts()


def test_signatures() -> None:
    """
    A signature seals the block it names, else the open one, else the last that bears none; else it stands in a part without text (P11, E13).
    """
    fold = ChoiceFold()
    fold.sign((0, None), "s0")
    write(fold, THINKING, "a", 1)
    fold.sign(ANONYMOUS, "s1")
    fold.close_block(THINKING, (1, None))
    write(fold, TEXT, "b")
    fold.sign((0, None), "later")
    fold.sign((1, None), "s1 later")
    fold.place(WholePart(IMAGE))
    fold.sign(ANONYMOUS, "s2")
    parts = (ThinkingPart("", "later", 0), ThinkingPart("a", "s1 later", 1), TextPart("b"), IMAGE, ThinkingPart("", "s2"))
    assert parts == fold.parts()


@pytest.mark.parametrize(
    ("text", "arguments"),
    [("", {}), ('{"x":1}', {"x": 1}), ("[]", None), ("{", None), ('{"x":1,"x":1}', None)],
)
def test_calls(text: str, arguments: dict[str, int] | None) -> None:
    """
    A call that ended complete has one strict JSON object for arguments or none (N7, P3).
    """
    fold = ChoiceFold()
    fold.begin_call(0, GrowingCall("a", "f", 0)).grown.add(text)
    assert (ToolCall("a", "f", text, index=0),) == fold.parts()
    done = fold.call("a", 0).end(ToolCall("a", complete=True, index=0))
    assert ((ToolCall("a", "f", text, arguments, complete=True, index=0),), True) == ((done,), fold.has_client_call())
    assert (done,) == fold.parts()
    assert None is fold.call("a", 0).end(ToolCall("a", arguments_text=text, index=0)).arguments
    fold.call("a", 0).end(ToolCall("a", server_executed=True))
    assert not fold.has_client_call()


def test_server_tools() -> None:
    """
    One part per id; without ids, one per kind until it is answered.
    """
    fold = ChoiceFold()
    fold.server_tool("search", "s", begins=True).grown.add("{")
    fold.server_tool("search", "s").grown.add("}")
    fold.server_tool("code", None).answered = True
    fold.server_tool("code", None)
    fold.server_tool("code", None, begins=True)
    code = ServerToolPart("code")
    assert (ServerToolPart("search", "s", arguments_text="{}"), code, code, code) == fold.parts()


def test_refusals() -> None:
    """
    The words of refusal are one part, and do not cut a text in two.
    """
    fold = ChoiceFold()
    write(fold, TEXT, "a")
    fold.refuse("I ")
    write(fold, TEXT, "b")
    fold.refuse("won't")
    assert (TextPart("ab"), RefusalPart("I won't")) == fold.parts()


def test_an_unknown_call_begins() -> None:
    """
    A fragment without a start makes its call, by index or by id.
    """
    fold = ChoiceFold()
    fold.call("a", 0).grown.add("x")
    fold.call("b", None).grown.add("y")
    fold.call("b", None).grown.add("z")
    assert (ToolCall("a", "", "x", index=0), ToolCall("b", "", "yz")) == fold.parts()
