"""
`rxchat ask`, against a provider on loopback.
"""

from __future__ import annotations

import io
import json
import os
import select
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from rxchat import local
from rxchat.cli import main
from rxchat.cli.connection import budgets
from rxchat.client import ChatModel, HttpSettings
from rxchat.errors import ConnectError
from tests.loopback import DONE, FINISH, GOOD, Script, answer, delta, frame, hold, loopback_thread, raw
from tests.shared_data import ROOT


def asked(script: Script, *argv: str) -> tuple[int, Any]:
    """
    Exit code, and the server with what it saw.
    """
    with loopback_thread(script) as server:
        return main(["ask", "--base-url", server.url, *argv]), server


def test_without_a_terminal_it_prints_plain_text(capsys: pytest.CaptureFixture[str]) -> None:
    """
    The text and a line end, nothing on standard error.
    """
    code, server = asked(answer(*GOOD), "Say", "hello")
    assert (code, *capsys.readouterr()) == (0, "Hello, world.\n", "")
    assert server.seen[0].json["messages"] == [{"role": "user", "content": "Say hello"}]


def test_on_a_terminal_it_has_a_footer(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """
    Verdict, finish, tokens, times.
    """
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    monkeypatch.setenv("TERM", "dumb")
    usage = b'data: {"choices":[],"usage":{"prompt_tokens":3,"completion_tokens":2,"total_tokens":5}}\n\n'
    code, _ = asked(answer(delta("Hel"), delta("lo."), FINISH, usage, DONE), "hello")
    text, foot = capsys.readouterr().out.splitlines()
    assert (code, text, foot.split(" after ")[0]) == (0, "Hello.", "COMPLETE · stop · 3 tokens in · 2 tokens out · first token")


def test_as_json_lines(capsys: pytest.CaptureFixture[str]) -> None:
    """
    The events, from ResponseStart to the terminal.
    """
    code, _ = asked(answer(*GOOD), "--json", "hello")
    events = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert (code, events[0]["type"], events[-1]["type"]) == (0, "RESPONSE_START", "RESPONSE_END")
    assert "".join(event["text"] for event in events if event["type"] == "TEXT_DELTA") == "Hello, world."


@pytest.mark.parametrize("argv", [[], ["-"]])
def test_the_prompt_from_standard_input(monkeypatch: pytest.MonkeyPatch, argv: list[str]) -> None:
    """
    Where none is given, or `-`.
    """
    monkeypatch.setattr(sys, "stdin", io.StringIO("from a pipe\n"))
    code, server = asked(answer(*GOOD), *argv)
    assert (code, server.seen[0].json["messages"][0]["content"]) == (0, "from a pipe")


def test_no_prompt_at_all(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """
    A wrong call.
    """
    monkeypatch.setattr(sys, "stdin", io.StringIO(" \n"))
    assert main(["ask"]) == 2
    assert "there is no prompt" in capsys.readouterr().err


def test_options_reach_the_request_and_the_dialect(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """
    Model, key, limits; parser options and profile.
    """
    monkeypatch.setenv("OPENAI_API_KEY", "sk-1")
    argv = ["--model", "openai/gpt-test", "--max-tokens", "9", "--temperature", "0.5", "--option", "finish=optional", "hello"]
    code, server = asked(answer(delta("Hi"), DONE), *argv)
    seen = server.seen[0]
    assert (code, seen.headers["authorization"]) == (0, "Bearer sk-1")
    assert (seen.json["model"], seen.json["max_completion_tokens"], seen.json["temperature"]) == ("gpt-test", 9, 0.5)
    code, _ = asked(answer(frame(delta={"reasoning_content": "Hm"}), *GOOD), "--profile", "strict_text", "hello")
    assert code == 7


@pytest.mark.parametrize(
    "script, code, out, words",
    [
        (answer(b'{"error":{"message":"Incorrect API key"}}', status=401), 5, "", "the provider refused the key (HTTP 401): Incorrect API key"),
        (
            answer(b'{"error":{"message":"no model x"}}', status=404),
            5,
            "",
            "the provider has no such model, or the address is wrong (HTTP 404): no model x",
        ),
        (
            answer(b"", status=302, headers={"location": "https://elsewhere.example/x?key=sk"}),
            5,
            "",
            "the provider refused (HTTP 302): Found: a redirect to elsewhere.example; redirects are not followed",
        ),
        (answer(b"<title>Sign in</title>", content_type="text/html"), 5, "", "is the address right?"),
        (answer(delta("Hel")), 4, "Hel\n", "the answer broke off before its end"),
        (raw(b"HTTP/1.1 200 OK\r\ncontent-length: 999\r\n\r\n" + delta("Hel")), 4, "Hel\n", "the answer broke off before its end"),
        (
            answer(delta("Hel"), frame(finish_reason="length"), DONE),
            3,
            "Hel\n",
            "the answer was cut off at its limit of tokens (finish reason length)",
        ),
        (answer(delta("Hel"), b'data: {"error":{"message":"overloaded"}}\n\n'), 5, "Hel\n", "the provider reported a failure: overloaded"),
        (answer(b"data: {oops}\n\n"), 7, "", "the answer is not what its protocol promises (INVALID_JSON)"),
    ],
    ids=["key", "model", "redirect", "html", "truncated", "broken", "length", "provider", "json"],
)
def test_what_goes_wrong_is_one_sentence(capsys: pytest.CaptureFixture[str], script: Script, code: int, out: str, words: str) -> None:
    """
    On standard error, with an exit code of its kind; what had come is shown.
    """
    assert asked(script, "hello")[0] == code
    printed = capsys.readouterr()
    assert (printed.out, printed.err.count("\n"), words in printed.err) == (out, 1, True)


def test_nobody_there(capsys: pytest.CaptureFixture[str]) -> None:
    """
    No network.
    """
    assert main(["ask", "--base-url", "http://127.0.0.1:1/v1", "hello"]) == 6
    assert capsys.readouterr().err.startswith("rxchat: cannot connect to 127.0.0.1:1: ")


@pytest.mark.parametrize(
    "argv, words",
    [
        (["--model", "openai/gpt-test", "hello"], "there is no key for openai: set OPENAI_API_KEY"),
        (["--model", "nobody", "hello"], "names no model"),
        (["--base-url", "nonsense", "hello"], "--base-url nonsense does not begin with http://"),
        (["--base-url", "htp://user:sk-PASSWORD@h/ok", "hello"], "--base-url htp://[key]@h/ok does not begin"),
        (["--base-url", "", "hello"], "--base-url is empty"),
        (["--model", "", "hello"], "--model is empty"),
        (["--model", "azure/m", "hello"], "set AZURE_RESOURCE_NAME, or give --base-url"),
        (["--model", "opnai/m", "hello"], "did you mean openai? `rxchat providers` lists all; say"),
        (["--model-file", "/nonexistent/x.gguf", "hello"], "there is no model file /nonexistent/x.gguf"),
    ],
)
def test_what_cannot_be_asked(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, argv: list[str], words: str) -> None:
    """
    One sentence, exit code 2.
    """
    for name in ("OPENAI_API_KEY", "AZURE_RESOURCE_NAME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AZURE_OPENAI_API_KEY", "k")
    assert main(["ask", *argv]) == 2
    err = capsys.readouterr().err
    assert (err.count("\n"), words in err) == (1, True)


@pytest.mark.parametrize(
    "argv, words",
    [
        ([""], "the prompt is empty"),
        (["--max-tokens", "0", "hello"], "--max-tokens"),
        (["--timeout", "0", "hello"], "--timeout"),
        (["--model-file", "x.gguf", "--base-url", "http://h", "hello"], "--model-file runs here"),
        (["--model-file", "x.gguf", "--model", "openai/m", "hello"], "--model-file runs here"),
    ],
)
def test_a_wrong_call_says_which_argument(capsys: pytest.CaptureFixture[str], argv: list[str], words: str) -> None:
    """
    Before anything is begun.
    """
    assert main(["ask", *argv]) == 2
    assert words in capsys.readouterr().err


def test_standard_input_that_is_not_utf_8(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """
    One sentence, whatever the locale.
    """
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"caf\xe9"), encoding="latin-1"))
    assert main(["ask", "--base-url", "http://127.0.0.1:1"]) == 2
    assert capsys.readouterr().err.endswith("Error: standard input is not UTF-8\n")


def test_a_server_that_never_answers(capsys: pytest.CaptureFixture[str]) -> None:
    """
    Is waited for as long as --timeout says, once: a time that was named is not multiplied by attempts.
    """
    code, server = asked(hold(headers=False), "--timeout", "0.3", "hello")
    assert (code, capsys.readouterr().err, len(server.seen)) == (6, "rxchat: no content within 0.3 s\n", 1)


def test_without_a_timeout_what_failed_unseen_is_asked_again() -> None:
    """
    As the client does by default; a named time takes the place of all budgets but the total one.
    """
    assert budgets(None) == HttpSettings()
    named = budgets(2.0)
    assert (named.retry, named.connect_timeout, named.first_event_timeout, named.read_timeout) == (None, 2.0, 2.0, 2.0)
    assert budgets(99.0).connect_timeout == HttpSettings().connect_timeout


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="there is no /dev/full here")
@pytest.mark.parametrize("flags", [[], ["--json"]])
def test_an_answer_that_cannot_be_written(flags: list[str]) -> None:
    """
    One sentence, and nothing on the way out.
    """
    with loopback_thread(answer(*GOOD)) as server, open("/dev/full", "wb") as full:
        run = [sys.executable, "-m", "rxchat", "ask", "--base-url", server.url, *flags, "hello"]
        done = subprocess.run(run, stdout=full, stderr=subprocess.PIPE, stdin=subprocess.DEVNULL, cwd=ROOT, check=False)
    assert (done.returncode, done.stderr) == (8, b"rxchat: the output cannot be written: No space left on device\n")


def test_a_dead_network_while_fetching(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """
    Exit code 6.
    """

    def dead(progress: local.Progress) -> Path:
        raise ConnectError("the model could not be fetched (the proxy does not answer)")

    monkeypatch.setattr(local, "model_file", dead)
    assert main(["ask", "hello"]) == 6
    assert capsys.readouterr().err.endswith("\nrxchat: the model could not be fetched (the proxy does not answer)\n")


def test_the_provider_cancels(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """
    Not an answer, and not our doing.
    """
    from rxchat.cli import ask
    from rxchat.client import Call

    async def aborted(call: Call, view: object, stopwatch: object) -> None:
        call.abort("cancelled")
        await watch(call, view, stopwatch)  # type: ignore[arg-type]

    watch = ask.watch
    monkeypatch.setattr(ask, "watch", aborted)
    code, _ = asked(answer(*GOOD), "hello")
    assert (code, capsys.readouterr().err) == (4, "rxchat: the provider cancelled the answer\n")


def test_without_key_and_flag_the_embedded_model_answers(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """
    And it says so; fetching the model is said too, where there is no terminal for a bar.
    """
    with loopback_thread(answer(*GOOD)) as server:

        def fetched(progress: local.Progress) -> Path:
            progress(0, 92_000_000)
            progress(92_000_000, 92_000_000)
            return tmp_path

        monkeypatch.setattr(local, "model_file", fetched)
        monkeypatch.setattr(local, "local_model", lambda file, **settings: ChatModel("local/m", base_url=server.url, **settings))
        assert main(["ask", "hello"]) == 0
    expected = "no --model given: asking the small embedded model\nfetching the model, once (92 MB)\n"
    assert tuple(capsys.readouterr()) == ("Hello, world.\n", expected)


def test_a_model_file_is_used_without_a_word(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """
    It was asked for.
    """
    files: list[Path] = []
    with loopback_thread(answer(*GOOD)) as server:

        def model(file: Path, **settings: Any) -> ChatModel:
            files.append(file)
            return ChatModel("local/m", base_url=server.url, **settings)

        monkeypatch.setattr(local, "local_model", model)
        assert main(["ask", "--model-file", str(tmp_path / "x.gguf"), "hello"]) == 0
    assert (files, capsys.readouterr().err) == ([tmp_path / "x.gguf"], "")


def read_until(fd: int, wanted: bytes, seconds: float = 20.0) -> bytes:
    """
    What a terminal shows, up to some bytes.
    """
    seen = b""
    while wanted not in seen:
        ready, _, _ = select.select([fd], [], [], seconds)
        assert ready, f"nothing more came behind {seen!r}"
        try:
            piece = os.read(fd, 4096)
        except OSError:  # the other side has closed
            break
        seen += piece
    return seen


def test_ctrl_c_on_a_terminal() -> None:
    """
    It says so, with the footer of what had come; exit code 130; the server sees the client leave; no traceback.
    """
    pty = pytest.importorskip("pty")
    with loopback_thread(hold(delta("Hel"))) as server:
        ours, theirs = pty.openpty()
        run = [sys.executable, "-m", "rxchat", "ask", "--base-url", server.url, "hello"]
        with subprocess.Popen(run, stdin=theirs, stdout=theirs, stderr=theirs, cwd=ROOT, env={**os.environ, "TERM": "dumb"}) as process:
            os.close(theirs)
            seen = read_until(ours, b"Hel")
            process.send_signal(signal.SIGINT)
            seen += read_until(ours, b"rxchat: cancelled")
            assert process.wait(20) == 130
        os.close(ours)
    assert b"CANCELLED" in seen
    assert b"Traceback" not in seen
    assert server.left.is_set()


def test_ctrl_c_in_a_pipe() -> None:
    """
    The text so far, one line on standard error, exit code 130.
    """
    with loopback_thread(hold(delta("Hel"))) as server:
        run = [sys.executable, "-m", "rxchat", "ask", "--base-url", server.url, "hello"]
        with subprocess.Popen(run, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=ROOT) as process:
            assert process.stdout is not None
            assert process.stderr is not None
            seen = process.stdout.read(3)
            process.send_signal(signal.SIGINT)
            assert (seen + process.stdout.read(), process.stderr.read(), process.wait(20)) == (b"Hel\n", b"rxchat: cancelled\n", 130)
