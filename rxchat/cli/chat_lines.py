"""
What is typed or piped into a chat, as messages and orders.

A line is a message. One that ends in a backslash goes on in the next; one that begins with three quotes goes on to the line that ends with three. A line that
begins with a slash is an order; `//` stands for a slash that is only text.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Protocol, TextIO

import attrs

__all__ = ["Order", "Piped", "Reader", "Typed", "Unfinished", "on_terminal", "read_item"]

QUOTES = '"""'
MORE = "... "

ReadLine = Callable[[str], str]


@attrs.frozen
class Order:
    """
    A line that is for the chat itself: its word, with the slash, and what stands behind it.
    """

    word: str
    rest: str = ""


class Unfinished(Exception):
    """
    The input ended inside three quotes.
    """


class Reader(Protocol):
    """
    Where lines come from.
    """

    def line(self, prompt: str) -> str:
        """
        One line without its end; EOFError if there is none, UnicodeDecodeError if it is not UTF-8.
        """
        ...


class Typed:
    """
    Lines from a terminal, edited with readline if it is there.
    """

    def __init__(self) -> None:
        try:
            import readline
        except ImportError:
            self._readline = None
        else:
            self._readline = readline
            readline.set_auto_history(True)
            if "libedit" not in (readline.__doc__ or ""):
                # What is pasted in several lines is one message.
                readline.parse_and_bind("set enable-bracketed-paste on")

        self._prompt = ""

    def line(self, prompt: str) -> str:
        """
        One line; the prompt goes where it does not mix with answers in a file.
        """
        self._prompt = prompt
        if sys.stdout.isatty():
            return input(prompt)
        sys.stderr.write(prompt)
        sys.stderr.flush()
        return _line_of(sys.stdin)

    def answer(self, question: str) -> str:
        """
        A line that nobody is to find again among the messages, typed behind the question and not before.
        """
        _forget_typed()
        if self._readline is not None:
            self._readline.set_auto_history(False)
        try:
            return self.line(question)
        except (KeyboardInterrupt, EOFError):
            print(file=sys.stderr)
            raise
        finally:
            if self._readline is not None:
                self._readline.set_auto_history(True)

    def remember(self, text: str) -> None:
        """
        Let the arrow keys find an earlier message.
        """
        if self._readline is not None and "\n" not in text:
            self._readline.add_history(text)

    @property
    def idle(self) -> bool:
        """
        Whether what was interrupted was an empty line that begins a message, as far as that is known.
        """
        return self._prompt != MORE and not (self._readline is not None and self._readline.get_line_buffer())


class Piped:
    """
    Lines from a file or another program; no prompt is shown.
    """

    def line(self, prompt: str) -> str:
        """
        One line, as soon as it has come.
        """
        return _line_of(sys.stdin)


def on_terminal() -> bool:
    """
    Whether somebody types; the input is UTF-8 from here on, whatever the locale says.
    """
    reconfigure = getattr(sys.stdin, "reconfigure", None)
    if reconfigure is not None:
        reconfigure(encoding="utf-8", errors="strict")
    return sys.stdin is not None and sys.stdin.isatty()


def _line_of(stream: TextIO | None) -> str:
    line = stream.readline() if stream is not None else ""
    if not line:
        raise EOFError
    return line.rstrip("\r\n")


def _forget_typed() -> None:
    """
    Drop what was typed ahead: it was no answer to a question that had not been asked.
    """
    try:
        import termios

        termios.tcflush(sys.stdin.fileno(), termios.TCIFLUSH)
    except (ImportError, OSError, ValueError):
        pass  # no such terminal, so nothing to drop


def read_item(reader: Reader, prompt: str) -> str | Order:
    """
    The next message, which may be empty, or order; EOFError behind the last one, Unfinished where one has no end.
    """
    line = reader.line(prompt)
    if line.startswith(QUOTES):
        return _quoted(reader, line.removeprefix(QUOTES))
    if line.startswith("/") and not line.startswith("//"):
        word, _, rest = line.strip().partition(" ")
        return Order(word, rest.strip())
    text = _continued(reader, line)
    return text[1:] if text.startswith("//") else text


def _continued(reader: Reader, line: str) -> str:
    lines = [line]
    while lines[-1].endswith("\\"):
        lines[-1] = lines[-1][:-1]
        try:
            lines.append(reader.line(MORE))
        except EOFError:
            break
    return "\n".join(lines)


def _quoted(reader: Reader, line: str) -> str:
    lines = [line]
    while not lines[-1].rstrip().endswith(QUOTES):
        try:
            lines.append(reader.line(MORE))
        except EOFError:
            raise Unfinished from None
    return "\n".join(lines).rstrip().removesuffix(QUOTES).strip("\n")
