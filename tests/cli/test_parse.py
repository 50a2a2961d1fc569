"""
`rxchat parse`.
"""

from __future__ import annotations

import io
import json
import sys
from pathlib import Path
from typing import Any

import pytest

from rxchat.cli import main
from tests.cli.bodies import COMPLETE, CUT, TOOLS, chat, write

READ = ["parse", "--dialect", "openai-chat"]


def parsed(capsys: pytest.CaptureFixture[str], *argv: str) -> tuple[int, list[dict[str, Any]]]:
    """
    Exit code and the lines printed.
    """
    code = main([*READ, "--json", *argv])
    return code, [json.loads(line) for line in capsys.readouterr().out.splitlines()]


def test_a_whole_answer(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """
    Every key, exactly.
    """
    (path,) = write(tmp_path, whole=COMPLETE)
    code, lines = parsed(capsys, path)
    counts = {
        "input_tokens": 10,
        "output_tokens": 5,
        "cache_read_tokens": 4,
        "cache_write_tokens": None,
        "reasoning_tokens": None,
        "total_tokens": 15,
    }
    expected = {
        "file": path,
        "verdict": "COMPLETE",
        "outcome": "completed",
        "response": {
            "text": "Grüße 🌱",
            "thinking": "Hm.",
            "tool_calls": [],
            "finish_reason": "stop",
            "finish_reason_raw": "stop",
            "usage": counts,
            "usage_wire": {name: count for name, count in counts.items() if count is not None},
            "citations": [],
            "refusal": "",
            "model": "test-1",
            "response_id": "chatcmpl-1",
            "alternatives": [],
        },
        "committable": True,
        "error": None,
    }
    assert (code, lines) == (0, [expected])


def test_calls_citations_and_other_choices(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """
    What text alone has not.
    """
    code, (line,) = parsed(capsys, *write(tmp_path, tools=TOOLS))
    response = line["response"]
    assert code == 0
    assert response["tool_calls"] == [
        {"id": "a", "name": "weather", "arguments": {"city": "Rome"}, "arguments_text": '{"city": "Rome"}', "complete": True}
    ]
    assert response["citations"] == [{"url": "https://example.com/a", "title": None, "quoted": None, "file": None}]
    assert [(other["text"], other["finish_reason"]) for other in response["alternatives"]] == [("Other.", "stop")]


@pytest.mark.parametrize(
    "body, extra, verdict, outcome, error",
    [
        (CUT, [], "INCOMPLETE_STREAM", "incomplete", {"verdict": "INCOMPLETE_STREAM"}),
        (chat({"delta": {"content": "Gr"}, "finish_reason": "length"}), [], "INCOMPLETE_FINISH", "incomplete", None),
        (b'data: {"error": {"message": "no", "code": 7, "type": "t"}}\n\n', [], "PROVIDER_ERROR", "error", {"message": "no", "code": 7, "type": "t"}),
        (b'{"error": {"message": "no"}}', ["--status", "401"], "HTTP_STATUS", "error", {"message": "no", "status": 401}),
        (b"<html>", ["--content-type", "text/html"], "CONTENT_TYPE", "error", {"verdict": "CONTENT_TYPE"}),
        (b"data: \xff\n\n", [], "INVALID_UTF8", "error", {"offset": 6}),
        (b"data: {oops}\n\n", [], "INVALID_JSON", "error", {"verdict": "INVALID_JSON"}),
        (TOOLS, ["--profile", "strict_text"], "PROTOCOL", "error", {"verdict": "PROTOCOL"}),
    ],
    ids=["cut", "length", "provider", "status", "type", "utf8", "json", "strict"],
)
def test_what_is_no_whole_answer(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, body: bytes, extra: list[str], verdict: str, outcome: str, error: dict[str, Any] | None
) -> None:
    """
    Verdict, outcome word, and the error where there is one; exit code 1.
    """
    code, (line,) = parsed(capsys, *extra, *write(tmp_path, body=body))
    assert (code, line["verdict"], line["outcome"], line["committable"]) == (1, verdict, outcome, False)
    told = line["error"]
    assert (told is None) == (error is None)
    if error is not None:
        assert set(told) == {"verdict", "code", "type", "message", "status", "offset"}
        assert {name: told[name] for name in error} == error


def test_the_partial_answer_of_a_failure(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """
    V2.
    """
    _, (line,) = parsed(capsys, *write(tmp_path, cut=CUT))
    assert (line["response"]["text"], line["response"]["model"]) == ("Gr", "test-1")


@pytest.mark.parametrize("cut", ["0", "1", "7", "100000"])
def test_the_size_of_reads_changes_nothing(capsys: pytest.CaptureFixture[str], tmp_path: Path, cut: str) -> None:
    """
    E9.
    """
    files = write(tmp_path, whole=COMPLETE, cut=CUT, tools=TOOLS)
    assert parsed(capsys, "--cut", cut, *files) == parsed(capsys, *files)


def test_an_empty_body(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """
    Nothing at all is a truncated stream.
    """
    _, (line,) = parsed(capsys, *write(tmp_path, empty=b""))
    assert (line["verdict"], line["response"]["text"], line["response"]["model"]) == ("INCOMPLETE_STREAM", "", None)


def test_many_files_and_one_that_is_not_there(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """
    The others are still done; one line says which was missing; exit code 1.
    """
    whole, tools = write(tmp_path, whole=COMPLETE, tools=TOOLS)
    missing = str(tmp_path / "missing.wire")
    code = main([*READ, "--json", whole, missing, tools])
    out, err = capsys.readouterr()
    assert (code, [json.loads(line)["file"] for line in out.splitlines()]) == (1, [whole, tools])
    assert err == f"rxchat: cannot read {missing}: No such file or directory\n"


def test_events_on_demand(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """
    With --events each line has them, tagged.
    """
    _, (line,) = parsed(capsys, "--events", *write(tmp_path, whole=COMPLETE))
    assert [event["type"] for event in line["events"]][:3] == ["RESPONSE_START", "STEP_START", "THINKING_START"]
    assert line["events"][-1]["type"] == "RESPONSE_END"


def test_standard_input(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """
    `-` is standard input.
    """
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(COMPLETE)))
    code, (line,) = parsed(capsys, "-")
    assert (code, line["file"], line["verdict"]) == (0, "-", "COMPLETE")


def test_a_provider_gives_dialect_and_options(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """
    The preset speaks, the command line has the last word.
    """
    (path,) = write(tmp_path, unfinished=chat({"delta": {"content": "Hi"}}))
    codes = [
        main(["parse", "--json", "--provider", name, path, *extra])
        for name, *extra in (["snowflake"], ["openai"], ["snowflake", "--option", "finish=required"])
    ]
    assert codes == [0, 1, 1]
    assert [json.loads(line)["verdict"] for line in capsys.readouterr().out.splitlines()] == ["COMPLETE", "INCOMPLETE_FINISH", "INCOMPLETE_FINISH"]


@pytest.mark.parametrize(
    "argv, words",
    [
        (["parse", "x"], "say --dialect or --provider"),
        (["parse", "--dialect", "morse", "x"], "unknown dialect 'morse'"),
        (["parse", "--provider", "nobody", "x"], "unknown provider 'nobody'"),
        ([*READ, "--option", "colour=red", "x"], "has no option colour"),
        ([*READ, "--option", "colour", "x"], "'colour' is not KEY=VALUE"),
        ([*READ, "--profile", "lenient", "x"], "has no profile lenient"),
        (["parse"], "Missing argument"),
    ],
)
def test_a_wrong_call(capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, argv: list[str], words: str) -> None:
    """
    One sentence, exit code 2.
    """
    monkeypatch.chdir(tmp_path)
    (tmp_path / "x").write_bytes(COMPLETE)
    assert main(argv) == 2
    out, err = capsys.readouterr()
    assert (out, words in err) == ("", True)


def test_a_table_for_people(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """
    Events with their bytes, then the verdict; no escape sequence of the body reaches the terminal.
    """
    code = main([*READ, *write(tmp_path, whole=chat({"delta": {"content": "\x1b[31mred"}}, {"finish_reason": "eos"}))])
    out = capsys.readouterr().out
    assert (code, "\x1b" in out, "TEXT_DELTA" in out, "0–" in out) == (0, False, True, True)
    assert "COMPLETE: finish reason stop (eos)" in out


def test_a_refusal_for_people(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """
    Reason and position.
    """
    write(tmp_path)
    bad = b'data: {"error": {"message": "slow down", "code": "rate", "type": "limit"}}\n\n'
    files = write(tmp_path, bad=bad, utf8=b"data: \xff\n\n")
    assert main([*READ, *files]) == 1
    out = " ".join(capsys.readouterr().out.split())
    assert "PROVIDER_ERROR: slow down (code rate, type limit, at byte 0)" in out
    assert "INVALID_UTF8: not UTF-8 (at byte 6)" in out


def test_an_aborted_answer_has_an_error(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """
    The provider cancelled: outcome aborted, with the reason.
    """
    response = '{"id":"r","model":"m","output":[],"status":'
    frames = [
        f'{{"type":"response.{kind}","sequence_number":{k},"response":{response}"{kind}"}}}}' for k, kind in enumerate(("created", "cancelled"))
    ]
    body = "".join(f"data: {frame}\n\n" for frame in frames).encode()
    code = main(["parse", "--json", "--dialect", "openai-responses", *write(tmp_path, body=body)])
    line = json.loads(capsys.readouterr().out)
    assert (code, line["outcome"], line["verdict"], line["error"]["verdict"]) == (1, "aborted", "ABORTED", "ABORTED")


def test_arguments_of_a_call_that_may_not_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """
    A whole call in an answer cut by length is shown with its arguments, and marked; half a call has its text only.
    """
    calls = [{"index": k, "id": f"c{k}", "function": {"name": "f", "arguments": text}} for k, text in enumerate(('{"a":1}', '{"a":'))]
    (path,) = write(tmp_path, cut=chat({"delta": {"tool_calls": calls}, "finish_reason": "length"}))
    _, (shown,) = parsed(capsys, path)
    assert [(call["arguments"], call["complete"]) for call in shown["response"]["tool_calls"]] == [({"a": 1}, False), (None, False)]
    assert shown["committable"] is False


def test_a_finish_that_was_a_number(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """
    An integer enum of the wire is a number again.
    """
    (path,) = write(tmp_path, numbered=b'[{"candidates":[{"content":{"parts":[{"text":"a"}]},"finishReason":1}]}]')
    main(["parse", "--json", "--dialect", "gemini", "--content-type", "application/json", path])
    shown = json.loads(capsys.readouterr().out)["response"]
    assert (shown["finish_reason"], shown["finish_reason_raw"]) == ("stop", 1)
