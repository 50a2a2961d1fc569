"""
`rxchat frames`.
"""

from __future__ import annotations

import base64
import json
import struct
import zlib
from pathlib import Path
from typing import Any

import pytest

from rxchat.cli import main
from tests.cli.bodies import write


def framed(capsys: pytest.CaptureFixture[str], framing: str, *argv: str) -> tuple[int, list[dict[str, Any]]]:
    """
    Exit code and the lines printed.
    """
    code = main(["frames", "--framing", framing, "--json", *argv])
    return code, [json.loads(line) for line in capsys.readouterr().out.splitlines()]


def aws_message(payload: bytes) -> bytes:
    """
    A message with one header of each of two types: a text and bytes.
    """
    headers = b"\x05:type\x07" + struct.pack(">H", 5) + b"chunk" + b"\x03raw\x06" + struct.pack(">H", 2) + b"\x00\xff"
    prelude = struct.pack(">II", 16 + len(headers) + len(payload), len(headers))
    message = prelude + struct.pack(">I", zlib.crc32(prelude)) + headers + payload
    return message + struct.pack(">I", zlib.crc32(message))


@pytest.mark.parametrize("cut", ["0", "1"])
def test_an_event_stream(capsys: pytest.CaptureFixture[str], tmp_path: Path, cut: str) -> None:
    """
    Events with name, data, id and retry; stray lines and what is left over are no frames.
    """
    (path,) = write(tmp_path, body="retry: 9\nid: 4\nevent: e\ndata: hé\ndata: b\n\nstray line\n\ndata: c\n\ndata: held".encode())
    code, (line,) = framed(capsys, "sse", "--cut", cut, path)
    assert code == 0
    assert line == {
        "file": path,
        "frames": [{"event": "e", "data": "hé\nb", "id": "4", "retry": 9}, {"event": "message", "data": "c", "id": "4", "retry": 9}],
        "error": None,
        "last_event_id": "4",
        "retry": 9,
    }


@pytest.mark.parametrize(
    "framing, body, frames",
    [
        ("ndjson", b'{"a":1}\n[2]\n', [{"value": {"a": 1}}, {"value": [2]}]),
        ("json-array", b'[{"a":1},[2]]', [{"value": {"a": 1}}, {"value": [2]}]),
        (
            "aws-eventstream",
            aws_message(b"{}"),
            [{"headers": {":type": "chunk", "raw": base64.b64encode(b"\x00\xff").decode()}, "payload_b64": base64.b64encode(b"{}").decode()}],
        ),
    ],
)
def test_the_other_framings(capsys: pytest.CaptureFixture[str], tmp_path: Path, framing: str, body: bytes, frames: list[dict[str, Any]]) -> None:
    """
    Values, or headers and payload; they know nothing of ids and retry.
    """
    code, (line,) = framed(capsys, framing, *write(tmp_path, body=body))
    assert (code, line["frames"], line["error"], line["last_event_id"], line["retry"]) == (0, frames, None, None, None)


def test_a_fault_comes_behind_what_was_good(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """
    E10, with verdict, position and message; the other files are still done.
    """
    code, (bad, good) = framed(capsys, "sse", *write(tmp_path, bad=b"data: a\n\ndata: \xff\n\n", good=b"data: b\n\n"))
    assert (code, [frame["data"] for frame in bad["frames"]], [frame["data"] for frame in good["frames"]]) == (1, ["a"], ["b"])
    assert bad["error"] == {"verdict": "INVALID_UTF8", "offset": 15, "message": "not UTF-8"}


def test_a_table_for_people(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """
    Frames with their bytes, then whether it went well.
    """
    files = write(tmp_path, good=b"data: a\x1b[2J\n\n", bad=b"data: \xff\n\n")
    assert main(["frames", "--framing", "sse", *files, str(tmp_path / "missing")]) == 1
    out, err = capsys.readouterr()
    assert ("\x1b" in out, "1 frames, no error" in out, "INVALID_UTF8" in out, "at byte 6" in out, "cannot read" in err) == (
        False,
        True,
        True,
        True,
        True,
    )


def test_an_unknown_framing_is_a_wrong_call(capsys: pytest.CaptureFixture[str]) -> None:
    """
    The names are listed.
    """
    assert main(["frames", "--framing", "morse", "x"]) == 2
    assert "aws-eventstream" in capsys.readouterr().err


@pytest.mark.parametrize("command", [["frames", "--framing", "sse"], ["parse", "--dialect", "openai-chat"]])
def test_a_read_has_no_negative_size(capsys: pytest.CaptureFixture[str], command: list[str]) -> None:
    """
    Whoever says so meant something else.
    """
    assert main([*command, "--cut", "-1", "x"]) == 2
    assert "--cut" in capsys.readouterr().err


def test_a_body_cut_inside_an_event_says_so(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """
    For people; it is no fault of the framing.
    """
    assert main(["frames", "--framing", "sse", *write(tmp_path, cut=b"data: a\n\ndata: held")]) == 0
    assert "held: 10 bytes at byte 9, no blank line" in capsys.readouterr().out
