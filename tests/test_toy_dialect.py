"""
Adding a dialect takes one file and one line: the file is a package's own, the line its entry point.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from importlib import invalidate_caches
from pathlib import Path

import pytest

from rxchat.dialects import dialect_names, get_dialect
from rxchat.errors import ConfigurationError
from rxchat.testing import check_dialect, replay
from tests import toy
from tests.toy import BODY, FAILING, STREAM

ROOT = Path(__file__).resolve().parent.parent
LINE = "[rxchat.dialects]\ntoy = toy_package.toy:TOY\n"


def install(where: Path, entry_points: str = LINE) -> Path:
    """
    A package with the one file, and what an installer writes beside it.
    """
    package, info = where / "toy_package", where / "toy_package-1.0.dist-info"
    package.mkdir()
    info.mkdir()
    (package / "__init__.py").write_text("")
    (package / "toy.py").write_text(Path(toy.__file__).read_text(encoding="utf-8"), encoding="utf-8")
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: toy-package\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(entry_points)
    return where


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """
    The toy's package, on the path of this process.
    """
    monkeypatch.syspath_prepend(install(tmp_path))
    invalidate_caches()
    monkeypatch.delitem(sys.modules, "toy_package.toy", raising=False)
    monkeypatch.delitem(sys.modules, "toy_package", raising=False)
    return tmp_path


def test_it_is_found_by_its_name(installed: Path) -> None:
    """
    `get_dialect` finds it, listed with ours; nothing of it is imported for the list.
    """
    assert "toy" in dialect_names()
    assert "toy_package.toy" not in sys.modules
    found = get_dialect("toy")
    assert (found.name, found.parser.__module__) == ("toy", "toy_package.toy")
    assert replay(STREAM, "toy").response.text == "Grüße 🌊"


def test_it_passes_the_check(installed: Path) -> None:
    """
    By its name, as its author would call it.
    """
    assert check_dialect("toy", [(STREAM, BODY), FAILING], samples=20).pairs == 1


@pytest.mark.parametrize(("body", "verdict", "code"), [(STREAM, "COMPLETE", 0), (FAILING, "PROVIDER_ERROR", 1)])
def test_the_command_reads_it(tmp_path: Path, body: bytes, verdict: str, code: int) -> None:
    """
    `rxchat parse --dialect toy`, in a process of its own.
    """
    where = install(tmp_path)
    (tmp_path / "body.sse").write_bytes(body)
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(where), str(ROOT)])}
    command = [sys.executable, "-m", "rxchat", "parse", "--dialect", "toy", "--json", str(tmp_path / "body.sse")]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, cwd=tmp_path, check=False)
    assert (done.returncode, done.stderr) == (code, "")
    assert json.loads(done.stdout)["verdict"] == verdict


def test_without_the_line_there_is_no_toy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """
    The file alone is not enough, and what the line names must be a Dialect.
    """
    with pytest.raises(ConfigurationError, match="unknown dialect 'toy'"):
        get_dialect("toy")
    monkeypatch.syspath_prepend(install(tmp_path, LINE.replace(":TOY", ":STREAM")))
    invalidate_caches()
    monkeypatch.delitem(sys.modules, "toy_package.toy", raising=False)
    monkeypatch.delitem(sys.modules, "toy_package", raising=False)
    with pytest.raises(ConfigurationError, match="toy is no Dialect but bytes"):
        get_dialect("toy")
