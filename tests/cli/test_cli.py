"""
The command line as a whole: what it lists, what it imports, how it ends.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import click
import pytest

import rxchat.cli as cli
from rxchat.cli import COMMANDS, main
from rxchat.cli.outcome import EXIT_CODES, exit_code, outcome_word
from rxchat.errors import ConfigurationError, Verdict
from rxchat.events import EVENT_TYPES
from rxchat.presets import PRESETS
from tests.cli.bodies import COMPLETE, write
from tests.shared_data import ROOT


def test_help_names_every_command(capsys: pytest.CaptureFixture[str]) -> None:
    """
    And each command explains itself.
    """
    assert main(["--help"]) == 0
    overview = capsys.readouterr().out
    for name in COMMANDS:
        assert f"  {name} " in overview
        assert main([name, "--help"]) == 0
        assert "Usage: rxchat" in capsys.readouterr().out


def test_an_unknown_command_is_a_wrong_call(capsys: pytest.CaptureFixture[str]) -> None:
    """
    Exit code 2.
    """
    assert main(["sing"]) == 2
    assert "No such command 'sing'" in capsys.readouterr().err


def modules_of(*argv: str) -> set[str]:
    """
    What a process has imported when that command is done.
    """
    code = f"import sys; from rxchat.cli import main; main({list(argv)!r}); print('\\n'.join(sys.modules), file=sys.stderr)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, encoding="utf-8", check=True, cwd=ROOT)
    return set(done.stderr.split())


def test_a_command_imports_only_what_it_needs(tmp_path: Path) -> None:
    """
    Measurements start `parse` often: no HTTP client, no Rx, no screen.
    """
    (path,) = write(tmp_path, whole=COMPLETE)
    heavy = {"aiohttp", "reactivex", "rich", "cattrs"}
    assert modules_of("--help") & heavy == set()
    assert modules_of("parse", "--dialect", "openai-chat", "--json", path) & heavy == set()
    assert modules_of("frames", "--framing", "sse", "--json", path) & heavy == set()


def test_the_module_runs_too(tmp_path: Path) -> None:
    """
    `python -m rxchat`; a reader that leaves early is no traceback.
    """
    (path,) = write(tmp_path, whole=COMPLETE)
    run = [sys.executable, "-m", "rxchat", "parse", "--dialect", "openai-chat", "--json", *[path] * 500]
    with subprocess.Popen(run, stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=ROOT) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert process.stdout.readline().startswith(b'{"file":')
        process.stdout.close()
        assert (process.stderr.read(), process.wait(20)) == (b"", 1)


def test_output_is_utf_8_whatever_the_locale(tmp_path: Path) -> None:
    """
    Also a file name that no UTF-8 can hold.
    """
    path = os.fsdecode(os.path.join(os.fsencode(tmp_path), b"odd-\xff.wire"))
    Path(path).write_bytes(COMPLETE)
    run = [sys.executable, "-m", "rxchat", "parse", "--dialect", "openai-chat", "--json", path]
    done = subprocess.run(run, capture_output=True, check=True, cwd=ROOT, env={**os.environ, "PYTHONIOENCODING": "ascii"})
    assert "Grüße 🌱" in done.stdout.decode()
    assert b"odd-\\udcff.wire" in done.stdout


@pytest.mark.parametrize(
    "raised, code, words",
    [
        (ConfigurationError("no such thing"), 2, "rxchat: no such thing"),
        (KeyboardInterrupt(), 130, "rxchat: cancelled"),
        (click.Abort(), 130, "rxchat: cancelled"),
        (click.UsageError("not so"), 2, "Error: not so"),
    ],
)
def test_expected_failures_are_one_sentence(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, raised: BaseException, code: int, words: str
) -> None:
    """
    And an exit code.
    """

    def fail() -> None:
        raise raised

    monkeypatch.setattr(cli, "import_module", lambda name: SimpleNamespace(command=click.command("events")(fail)))
    assert main(["events"]) == code
    assert capsys.readouterr().err.strip().splitlines()[-1] == words


def test_events_are_listed(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """
    All of them.
    """
    monkeypatch.setenv("COLUMNS", "200")
    assert main(["events"]) == 0
    out = capsys.readouterr().out
    assert all(tag in out for tag in EVENT_TYPES)
    assert f"{len(EVENT_TYPES)} event types" in out


def test_providers_are_listed(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """
    With the variable of their key, and whether it is set, never its value.
    """
    monkeypatch.setenv("COLUMNS", "250")
    monkeypatch.setenv("OPENAI_API_KEY", "sk-secret")
    assert main(["providers"]) == 0
    out = capsys.readouterr().out
    assert all(name in out for name in PRESETS)
    assert ("OPENAI_API_KEY (set)" in out, "sk-secret" in out) == (True, False)


def test_providers_for_grep(capsys: pytest.CaptureFixture[str]) -> None:
    """
    Where there is no terminal: a line each, whole, with tabs; quirks apart from options.
    """
    assert main(["providers"]) == 0
    lines = [line.split("\t") for line in capsys.readouterr().out.splitlines()]
    assert [line[0] for line in lines] == sorted(PRESETS)
    assert {len(line) for line in lines} == {6}
    (snowflake,) = [line for line in lines if line[0] == "snowflake"]
    (zai,) = [line for line in lines if line[0] == "zai"]
    assert snowflake[4:] == ["finish=optional", ""]
    assert zai[4:] == ["", "max_tokens_field=max_tokens, thinking_field=reasoning_content"]


def test_providers_on_a_terminal(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """
    They fit into 80 columns.
    """
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    assert main(["providers"]) == 0
    out = capsys.readouterr().out
    assert "  options: finish=optional\n" in out
    assert max(map(len, out.splitlines())) <= 80


@pytest.mark.parametrize("command, key, names", [("providers", "name", sorted(PRESETS)), ("events", "type", list(EVENT_TYPES))])
def test_tables_for_programs(capsys: pytest.CaptureFixture[str], command: str, key: str, names: list[str]) -> None:
    """
    A JSON object a line.
    """
    assert main([command, "--json"]) == 0
    assert [json.loads(line)[key] for line in capsys.readouterr().out.splitlines()] == names


COMMANDS_THAT_PRINT = [
    ["providers"],
    ["providers", "--json"],
    ["events"],
    ["parse", "--dialect", "openai-chat"],
    ["parse", "--dialect", "openai-chat", "--json"],
    ["frames", "--framing", "sse"],
]


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="there is no /dev/full here")
@pytest.mark.parametrize("argv", COMMANDS_THAT_PRINT, ids=" ".join)
def test_an_output_that_cannot_be_written(tmp_path: Path, argv: list[str]) -> None:
    """
    One sentence and a code of its own; nothing on the interpreter's way out.
    """
    files = write(tmp_path, whole=COMPLETE) if argv[0] in ("parse", "frames") else []
    with open("/dev/full", "wb") as full:
        done = subprocess.run([sys.executable, "-m", "rxchat", *argv, *files], stdout=full, stderr=subprocess.PIPE, cwd=ROOT, check=False)
    assert (done.returncode, done.stderr) == (8, b"rxchat: the output cannot be written: No space left on device\n")


@pytest.mark.parametrize(
    "stdout, code, words", [(None, 8, "it is closed"), (OSError(28, "No space left"), 8, "No space left"), (BrokenPipeError(), 1, "")]
)
def test_what_an_output_can_do(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, stdout: OSError | None, code: int, words: str
) -> None:
    """
    Be closed, be full; a reader that has left is no failure to speak of.
    """

    def flush() -> None:
        assert stdout is not None
        raise stdout

    monkeypatch.setattr(sys, "stdout", None if stdout is None else SimpleNamespace(write=len, flush=flush, isatty=lambda: False))
    assert main(["providers"]) == code
    err = capsys.readouterr().err
    assert (err.count("\n"), words in err) == (bool(words), True)


def test_every_verdict_has_a_word_and_a_code() -> None:
    """
    Success and nothing else is 0.
    """
    assert {verdict for verdict in Verdict if exit_code(verdict) == 0} == {Verdict.COMPLETE}
    assert {outcome_word(verdict) for verdict in Verdict} == {"completed", "incomplete", "error", "aborted", "cancelled"}
    assert (exit_code(None), outcome_word(None), exit_code(Verdict.LIMIT)) == (7, "error", 7)
    assert set(EXIT_CODES.values()) == {0, 3, 4, 5, 6, 9, 130}
