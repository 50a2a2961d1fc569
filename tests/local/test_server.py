"""
How the server of the embedded model lives, and, where engine and weights are installed, a real answer.
"""

from __future__ import annotations

import asyncio
import importlib.util
import signal
import sys
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from types import SimpleNamespace
from typing import Any, ClassVar

import pytest

from rxchat import local
from rxchat.errors import ConfigurationError, Verdict
from rxchat.local import server, weights
from tests.local.conftest import TINY


class Healthy(BaseHTTPRequestHandler):
    """
    Answers /slots to who has the key.
    """

    def do_GET(self) -> None:
        keys = [f"Bearer {key}" for params in FakeServer.made for key in params.api_keys]
        self.send_response(200 if self.path == "/slots" and self.headers["authorization"] in keys else 404)
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
    server.close_servers()


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
    found: list[server.LocalServer] = []
    threads = [threading.Thread(target=lambda: found.append(server.serve(path))) for _ in range(8)]
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
    one, two = server.serve(gguf(tmp_path, "a.gguf")), server.serve(gguf(tmp_path, weights.WEIGHTS))
    assert (one.model, two.model, one.api_key == two.api_key, one.base_url == two.base_url) == ("a", server.MODEL_NAME, False, False)


def test_closed_servers_are_gone(engine: list[Any], tmp_path: Path) -> None:
    """
    No thread is left; the next one asked for is new.
    """
    path = gguf(tmp_path)
    before = threading.active_count()
    first = server.serve(path)
    assert threading.active_count() == before + 1
    server.close_servers()
    deadline = time.monotonic() + 5
    while threading.active_count() > before and time.monotonic() < deadline:
        time.sleep(0.01)
    assert threading.active_count() == before
    assert server.serve(path) is not first


@pytest.mark.parametrize(
    "name, words",
    [("broken.gguf", "is no model that llama.cpp can load"), ("silent.gguf", "does not answer")],
)
def test_a_server_that_does_not_start_says_so(engine: list[Any], tmp_path: Path, name: str, words: str) -> None:
    """
    One sentence; nothing is kept, and the next one who asks tries again.
    """
    for _ in range(2):
        with pytest.raises(ConfigurationError, match=words):
            server.serve(gguf(tmp_path, name))


def test_interrupted_while_it_starts_the_server_comes_to_work_first(engine: list[Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """
    Ctrl-C ends the waiting, not the start: stopped before its loop has begun, the engine would wait for ever.
    """
    may_work, works = threading.Event(), server._works

    def slow(address: str, key: str) -> bool:
        may_work.wait(10)
        return works(address, key)

    monkeypatch.setattr(server, "_works", slow)
    interrupt = threading.Timer(0.2, signal.pthread_kill, [threading.main_thread().ident, signal.SIGINT])
    interrupt.start()
    with pytest.raises(KeyboardInterrupt):
        server.serve(gguf(tmp_path))
    may_work.set()
    assert server.serve(gguf(tmp_path)).model == "tiny"
    assert len(engine) == 1


def test_without_the_engine_it_says_what_to_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """
    The optional package.
    """
    monkeypatch.setitem(sys.modules, "xllamacpp", None)
    with pytest.raises(ConfigurationError, match=r"needs the package xllamacpp, which is not here; run this instead: .* xllamacpp"):
        server.serve(gguf(tmp_path))


def test_the_local_model_is_a_chat_model(engine: list[Any], cache: Path, tmp_path: Path) -> None:
    """
    Of the weights, or of any file.
    """
    cache.mkdir()
    (cache / weights.WEIGHTS).write_bytes(TINY)
    named = [repr(local.local_model()).split(" at ")[0], repr(local.local_model(gguf(tmp_path))).split(" at ")[0]]
    assert named == [f"<ChatModel local/{server.MODEL_NAME}", "<ChatModel local/tiny"]
    with pytest.raises(ConfigurationError, match="there is no model file"):
        local.local_model(tmp_path / "missing.gguf")


# --- the real thing ----------------------------------------------------------------------------------------------------


def test_a_real_answer() -> None:
    """
    Where the engine and the weights are installed: words within 10 s, a whole answer, an abort and a disposal that the server survives.
    """
    if importlib.util.find_spec("xllamacpp") is None or not (weights.installed_file() or weights.cached_file()):
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
    assert (aborted.verdict, again.model) == (Verdict.ABORTED, server.MODEL_NAME)
