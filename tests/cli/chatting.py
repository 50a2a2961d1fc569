"""
Chats for tests: a scripted provider, a store in a file, and what is typed.
"""

from __future__ import annotations

import io
import sqlite3
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import attrs
import pytest

from rxchat.cli import main
from rxchat.response import ToolCall
from rxchat.testing import FakeAnswer, FakeProvider
from rxchat.testing.asked import FakeRequest
from rxchat.testing.provider import Entry

__all__ = ["ROME", "Chat", "echo", "rows", "with_tools"]

ROME = ToolCall(name="weather", arguments={"city": "Rome"})


def echo(request: FakeRequest) -> Entry:
    """
    Says what it was asked last, and how many messages came.
    """
    messages = request.json["messages"]
    return FakeAnswer(f"{messages[-1]['content']}, {len(messages)}.")


def with_tools(*calls: ToolCall) -> Any:
    """
    Calls tools for each question, then says what it was told.
    """

    def script(request: FakeRequest) -> Entry:
        messages = request.json["messages"]
        if messages[-1]["role"] != "tool":
            return FakeAnswer("Let me look.", *calls)
        last = max(number for number, message in enumerate(messages) if message["role"] == "user")
        return FakeAnswer(" | ".join(message["content"] for message in messages[last:] if message["role"] == "tool"))

    return script


def rows(file: Path) -> list[Any]:
    """
    Everything a store holds.
    """
    connection = sqlite3.connect(file)
    try:
        return [connection.execute(f"SELECT * FROM {name} ORDER BY 1, 2").fetchall() for name in ("conversation", "turn")]
    finally:
        connection.close()


@attrs.define
class Chat:
    """
    Runs `rxchat chat` in this process, against one provider and one store.
    """

    provider: FakeProvider
    store: Path
    capsys: pytest.CaptureFixture[str]
    monkeypatch: pytest.MonkeyPatch

    def argv(self, *more: str) -> list[str]:
        """
        The command line.
        """
        return ["chat", "--base-url", self.provider.url("openai-chat"), "--store", str(self.store), *more]

    def piped(self, text: str | bytes, *argv: str) -> tuple[int, str, str]:
        """
        Exit code, output and errors of a chat that reads this.
        """
        data = text if isinstance(text, bytes) else text.encode()
        self.monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(data)))
        code = main(self.argv(*argv))
        printed = self.capsys.readouterr()
        return code, printed.out, printed.err

    def typed(self, lines: Iterable[str | type[BaseException]], *argv: str) -> tuple[int, list[str], str]:
        """
        Exit code, the prompts that were answered with these lines or keys, and all that was printed; then Ctrl-D.
        """
        prompts: list[str] = []
        coming = iter(lines)

        def type_in(prompt: str = "") -> str:
            prompts.append(prompt)
            line = next(coming, EOFError)
            if isinstance(line, str):
                return line
            raise line

        self.monkeypatch.setattr("builtins.input", type_in)
        self.monkeypatch.setattr(sys, "stdin", Terminal())
        self.monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
        self.monkeypatch.setenv("TERM", "dumb")
        code = main(self.argv(*argv))
        printed = self.capsys.readouterr()
        return code, prompts, printed.out + printed.err


class Terminal(io.StringIO):
    """
    An input that says it is one.
    """

    def isatty(self) -> bool:
        return True
