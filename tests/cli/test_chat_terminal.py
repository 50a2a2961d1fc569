"""
`rxchat chat` as a process of its own: on a real terminal with real keys, and in a pipe with a real Ctrl-C.
"""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import attrs
import pytest

from rxchat.response import ToolCall
from rxchat.testing import FakeAnswer, FakeProvider
from rxchat.testing.asked import FakeRequest
from rxchat.testing.provider import Entry
from tests.cli.chatting import echo, rows
from tests.shared_data import ROOT

CANCELLED = b"cancelled; nothing of this turn is kept"


def wait(seconds: float) -> str:
    """
    A tool that takes its time.
    """
    time.sleep(seconds)
    return "waited"


def tale(request: FakeRequest) -> Entry:
    """
    A long answer at the pace of speech where a tale is asked for, a call where there is to be one, else the echo.
    """
    asked = request.json["messages"][-1]["content"]
    if asked == "a tale":
        return FakeAnswer("Once upon a time " * 100, tokens_per_second=10)
    call = ToolCall(name="wait", arguments={"seconds": 30})
    if asked == "wait slowly":
        return FakeAnswer("Let me look at it.", call, tokens_per_second=5)
    return FakeAnswer(call) if asked == "wait" else echo(request)


@attrs.define
class Terminal:
    """
    A chat on a terminal.
    """

    process: subprocess.Popen[bytes]
    screen: int
    shown: bytes = b""

    def type(self, line: str) -> None:
        """
        A line and Enter.
        """
        os.write(self.screen, line.encode() + b"\r")

    def see(self, wanted: bytes) -> bytes:
        """
        What is shown from where we last looked, up to these bytes.
        """
        while wanted not in self.shown:
            ready, _, _ = select.select([self.screen], [], [], 20)
            assert ready, f"nothing more came behind {self.shown!r}"
            self.shown += os.read(self.screen, 4096)
        seen, _, self.shown = self.shown.partition(wanted)
        return seen + wanted

    def ctrl_c(self) -> None:
        """
        As the terminal sends it. One that comes in the moment before readline waits is seen only with the next signal, so another one, of no meaning, follows.
        """
        self.process.send_signal(signal.SIGINT)
        while not self.shown and not select.select([self.screen], [], [], 1)[0]:
            self.process.send_signal(signal.SIGWINCH)


def argv(provider: FakeProvider, store: Path, *more: str) -> list[str]:
    """
    The process to run.
    """
    return [sys.executable, "-m", "rxchat", "chat", "--base-url", provider.url("openai-chat"), "--store", str(store), *more]


@contextmanager
def terminal(provider: FakeProvider, store: Path, *more: str) -> Iterator[Terminal]:
    """
    A chat on a terminal, which is to end by itself inside the block.
    """
    pty = pytest.importorskip("pty")
    ours, theirs = pty.openpty()
    run = argv(provider, store, *more)
    with subprocess.Popen(run, stdin=theirs, stdout=theirs, stderr=theirs, cwd=ROOT, env={**os.environ, "TERM": "dumb"}) as process:
        os.close(theirs)
        try:
            yield Terminal(process, ours)
            assert process.wait(20) is not None
        finally:
            process.kill()
            os.close(ours)


def test_three_turns_one_cancelled_restart_and_on(tmp_path: Path) -> None:
    """
    Ctrl-C in the middle of an answer closes its request, leaves the history to the byte, and the chat goes on; so does the next start.
    """
    store = tmp_path / "chats.db"
    with FakeProvider(tale).in_thread() as provider:
        with terminal(provider, store) as chat:
            chat.see(b"default> ")
            chat.type("one")
            chat.see(b"one, 1.")
            chat.see(b"default> ")
            before = rows(store)
            chat.type("a tale")
            chat.see(b"upon")
            chat.ctrl_c()
            chat.see(CANCELLED)
            chat.see(b"default> ")
            assert provider.client_left_sync(1).gone is not None
            assert rows(store) == before
            chat.type("three")
            chat.see(b"three, 3.")
            chat.see(b"default> ")
            os.write(chat.screen, b"\x04")
            assert chat.process.wait(20) == 0
        with terminal(provider, store) as chat:
            chat.see(b"default: 2 turns, the last one of")
            chat.see(b"default> ")
            chat.type("four")
            chat.see(b"four, 5.")
            chat.type("/quit")
            assert chat.process.wait(20) == 0
    assert len(rows(store)[1]) == 3


def test_ctrl_c_while_a_tool_runs(tmp_path: Path) -> None:
    """
    The turn is over at once, though the tool cannot be stopped; nothing is asked any more.
    """
    store = tmp_path / "chats.db"
    with FakeProvider(tale).in_thread() as provider, terminal(provider, store, "--tool", f"{__name__}:wait") as chat:
        chat.see(b"default> ")
        chat.type("wait")
        chat.see(b'run wait({"seconds":30})? [y]es, [n]o, [a]lways: ')
        chat.type("y")
        chat.see(b"y\r\n")
        chat.ctrl_c()
        seen = chat.see(CANCELLED)
        chat.see(b"default> ")
        assert (rows(store), len(provider.requests), b"Traceback" in seen) == ([[], []], 1, False)
        chat.ctrl_c()
        chat.see(b"Ctrl-C again leaves")
        chat.see(b"default> ")
        chat.ctrl_c()
        assert chat.process.wait(20) == 130


def test_what_is_typed_ahead_allows_nothing(tmp_path: Path) -> None:
    """
    A yes counts only behind its question.
    """
    with FakeProvider(tale).in_thread() as provider, terminal(provider, tmp_path / "chats.db", "--tool", f"{__name__}:wait") as chat:
        chat.see(b"default> ")
        chat.type("wait slowly")
        chat.see(b"Let me")
        chat.type("y")
        chat.see(b'run wait({"seconds":30})? [y]es, [n]o, [a]lways: ')
        chat.type("n")
        chat.see(b"the call of wait is not allowed: the user said no")
        chat.see(b"default> ")
        chat.type("/quit")
        assert chat.process.wait(20) == 0


def test_ctrl_c_drops_what_is_typed(tmp_path: Path) -> None:
    """
    It leaves only where nothing is.
    """
    with FakeProvider(tale).in_thread() as provider, terminal(provider, tmp_path / "chats.db") as chat:
        chat.see(b"default> ")
        for _ in range(2):
            os.write(chat.screen, b"half a line")
            chat.see(b"half a line")
            chat.ctrl_c()
            chat.see(b"default> ")
        chat.type("whole")
        assert b"again leaves" not in chat.see(b"whole, 1.")
        chat.type("/quit")
        assert chat.process.wait(20) == 0
        assert [request.json["messages"][0]["content"] for request in provider.requests] == ["whole"]


def test_ctrl_c_in_a_pipe(tmp_path: Path) -> None:
    """
    The text so far, one line on standard error, exit code 130; what follows is not asked, the history as it was.
    """
    store = tmp_path / "chats.db"
    with FakeProvider(tale).in_thread() as provider:
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        with subprocess.Popen(argv(provider, store), cwd=ROOT, **pipes) as process:  # type: ignore[call-overload]
            assert process.stdin is not None
            assert process.stdout is not None
            process.stdin.write(b"one\na tale\nthree\n")
            process.stdin.flush()
            seen = process.stdout.read(len("one, 1.\nOnce upo"))
            process.send_signal(signal.SIGINT)
            out, err = process.communicate(timeout=20)
        assert (seen + out).startswith(b"one, 1.\nOnce upo")
        assert (err, process.returncode) == (b"rxchat: " + CANCELLED + b"\n", 130)
        assert provider.client_left_sync(1).gone is not None
    assert (len(rows(store)[1]), len(provider.requests)) == (1, 2)


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="there is no /dev/full here")
def test_an_output_that_cannot_be_written(tmp_path: Path) -> None:
    """
    One sentence, and nothing is kept of what nobody could see.
    """
    store = tmp_path / "chats.db"
    with FakeProvider(tale).in_thread() as provider, open("/dev/full", "wb") as full:
        done = subprocess.run(argv(provider, store), input=b"one\n", stdout=full, stderr=subprocess.PIPE, cwd=ROOT, check=False)
    assert (done.returncode, done.stderr) == (8, b"rxchat: the output cannot be written: No space left on device\n")
    assert rows(store)[1] == []
