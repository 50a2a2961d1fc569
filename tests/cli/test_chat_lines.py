"""
What is typed or piped, as messages and commands.
"""

from __future__ import annotations

import io
import sys

import attrs
import pytest

from rxchat.cli.chat_lines import Order, Piped, Typed, Unfinished, on_terminal, read_item


@attrs.define
class Lines:
    """
    A reader of given lines that notes its prompts.
    """

    lines: list[str]
    prompts: list[str] = attrs.field(factory=list)

    def line(self, prompt: str) -> str:
        self.prompts.append(prompt)
        if not self.lines:
            raise EOFError
        return self.lines.pop(0)


@pytest.mark.parametrize(
    "lines, item, left",
    [
        (["hello", "more"], "hello", 1),
        (["", "more"], "", 1),
        (["one \\", "two\\", "three", "more"], "one \ntwo\nthree", 1),
        (["one\\"], "one", 0),
        (['"""one"""', "more"], "one", 1),
        (['"""', "one", "", "/two", '"""  ', "more"], "one\n\n/two", 1),
        (['"""one', 'two"""'], "one\ntwo", 0),
        (["/undo", "more"], Order("/undo"), 1),
        (["/branch  a name "], Order("/branch", "a name"), 0),
        (["/"], Order("/"), 0),
        (["/etc/passwd says"], Order("/etc/passwd", "says"), 0),
        (["//etc/passwd"], "/etc/passwd", 0),
        (["what is /undo?"], "what is /undo?", 0),
        (["pasted\nin two lines"], "pasted\nin two lines", 0),
    ],
)
def test_lines_become_items(lines: list[str], item: str | Order, left: int) -> None:
    """
    A message, in as many lines as it has, or a command in one; nothing behind it is touched.
    """
    reader = Lines(lines)
    assert (item, left) == (read_item(reader, "> "), len(reader.lines))
    assert reader.prompts == ["> ", *["... "] * (len(reader.prompts) - 1)]


def test_the_input_ends() -> None:
    """
    Between items, or inside three quotes, which is told apart.
    """
    with pytest.raises(EOFError):
        read_item(Lines([]), "> ")
    with pytest.raises(Unfinished):
        read_item(Lines(['"""one', "two"]), "> ")


def test_a_pipe_is_read_as_utf_8(monkeypatch: pytest.MonkeyPatch) -> None:
    """
    Whatever the locale says; line ends of other systems are none of the text; one that is closed is empty.
    """
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO("grüß\r\ndich".encode()), encoding="latin-1", newline="\n"))
    assert not on_terminal()
    assert [Piped().line(""), Piped().line("")] == ["grüß", "dich"]
    with pytest.raises(EOFError):
        Piped().line("")
    monkeypatch.setattr(sys, "stdin", None)
    assert not on_terminal()
    with pytest.raises(EOFError):
        Piped().line("")


def test_a_prompt_is_no_part_of_answers_in_a_file(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """
    It goes to standard error where standard output is no terminal.
    """
    monkeypatch.setattr(sys, "stdin", io.StringIO("hello\n"))
    assert Typed().line("default> ") == "hello"
    assert tuple(capsys.readouterr()) == ("", "default> ")


def test_without_readline_lines_are_read_all_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    """
    Nothing is remembered then, and any line may have been empty.
    """
    monkeypatch.setitem(sys.modules, "readline", None)
    monkeypatch.setattr(sys, "stdin", io.StringIO("hello\ny\n"))
    typed = Typed()
    typed.remember("earlier")
    assert (typed.line("> "), typed.idle) == ("hello", True)
    assert typed.answer("run it? ") == "y"


def test_an_answer_is_no_message_to_find_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """
    The arrow keys find messages, of one line; not what was said to a question.
    """
    readline = pytest.importorskip("readline")
    monkeypatch.setattr(sys, "stdin", io.StringIO("y\n"))
    typed = Typed()
    readline.clear_history()
    typed.remember("earlier")
    typed.remember("in two\nlines")
    assert typed.answer("run it? ") == "y"
    assert [readline.get_history_item(number + 1) for number in range(readline.get_current_history_length())] == ["earlier"]


@pytest.mark.parametrize("key", [KeyboardInterrupt, EOFError])
def test_a_key_at_a_question_leaves_its_line(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], key: type[BaseException]) -> None:
    """
    What follows begins on a new one.
    """

    def interrupted(self: Typed, prompt: str) -> str:
        raise key

    monkeypatch.setattr(Typed, "line", interrupted)
    monkeypatch.setattr(sys, "stdin", io.StringIO())
    with pytest.raises(key):
        Typed().answer("run it? ")
    assert capsys.readouterr().err == "\n"
