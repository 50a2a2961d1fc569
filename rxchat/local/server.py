"""
llama.cpp's server inside this process: one per model file, on loopback, stopped at exit.
"""

from __future__ import annotations

import atexit
import importlib
import secrets
import threading
from concurrent.futures import Future
from http.client import HTTPConnection, HTTPException
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import attrs

from rxchat.errors import ConfigurationError
from rxchat.local.weights import WEIGHTS, install_advice

__all__ = ["LocalServer", "close_servers", "serve"]

MODEL_NAME = "smollm2-135m-instruct"
# Two threads on two busy cores wait for each other in spin loops: 2 tokens/s instead of 30.
THREADS = 1
CONTEXT = 4096
# A model of this size may never come to an end.
MAX_TOKENS = 1024
# Seconds until a server counts as broken.
PATIENCE = 60


@attrs.define(eq=False)
class LocalServer:
    """
    llama.cpp's server at work in this process, on a loopback port of its own. Only who has its key is answered: a web page in a browser has not.
    """

    model: str
    base_url: str
    api_key: str = attrs.field(repr=False)
    _server: Any = attrs.field(repr=False)

    def close(self) -> None:
        """
        Stop it; a stream that still runs breaks off.
        """
        self._server = None


_servers: dict[Path, Future[LocalServer]] = {}
_lock = threading.Lock()


def serve(file: Path) -> LocalServer:
    """
    The server of that GGUF file, started once per process; blocks until it works.

    It is started in a thread of its own, so that Ctrl-C interrupts who waits for it and not the start: a server stopped before its engine's loop has begun
    waits for that loop for ever.
    """
    if not file.is_file():
        raise ConfigurationError(f"there is no model file {file}")
    path = file.resolve()
    with _lock:
        starting = _servers.get(path)
        if starting is None:
            starting = _servers[path] = Future()
            threading.Thread(target=_start, args=(path, starting), name="rxchat local model").start()
    return starting.result()


@atexit.register
def close_servers() -> None:
    """
    Stop all servers of this process.
    """
    while _servers:
        starting = _servers.popitem()[1]
        if starting.exception() is None:
            starting.result().close()


def _start(path: Path, starting: Future[LocalServer]) -> None:
    try:
        starting.set_result(_started(path))
    except Exception as error:
        # The next one who asks may try again.
        _servers.pop(path, None)
        starting.set_exception(error)


def _started(path: Path) -> LocalServer:
    try:
        xllamacpp: Any = importlib.import_module("xllamacpp")
    except ImportError as error:
        raise ConfigurationError(f"the embedded model needs the package xllamacpp, which is not here; {install_advice('xllamacpp')}") from error
    name = MODEL_NAME if path.name == WEIGHTS else path.stem
    key = secrets.token_urlsafe(24)
    try:
        server = xllamacpp.Server(_params(xllamacpp, path, name, key))
    except RuntimeError as error:
        raise ConfigurationError(f"{path} is no model that llama.cpp can load") from error
    address = server.listening_address
    if not _works(address, key):
        raise ConfigurationError("the server of the embedded model does not answer")
    return LocalServer(name, f"{address}/v1", key, server)


def _params(xllamacpp: Any, path: Path, name: str, key: str) -> Any:
    params = xllamacpp.CommonParams()
    params.model.path = str(path)
    params.model_alias = {name}
    params.api_keys = [key]
    params.hostnames = ["127.0.0.1"]
    params.port = 0
    params.ui = False
    params.verbosity = -1
    params.cpuparams.n_threads = params.cpuparams_batch.n_threads = THREADS
    params.n_threads_http = 2
    params.n_parallel = 1
    params.n_ctx = CONTEXT
    # Trying how much fits into a GPU would load the file twice.
    params.fit_params = False
    params.endpoint_slots = True
    params.n_predict = MAX_TOKENS
    # Small models repeat themselves; these are what keeps this one readable.
    params.sampling.temp, params.sampling.top_p = 0.4, 0.9
    params.sampling.penalty_repeat, params.sampling.penalty_last_n = 1.15, 256
    return params


def _works(address: str, key: str) -> bool:
    """
    Whether the engine answers, not only its HTTP threads: `/slots` is answered by its own loop.
    """
    connection = HTTPConnection(urlsplit(address).netloc, timeout=PATIENCE)
    try:
        connection.request("GET", "/slots", headers={"authorization": f"Bearer {key}"})
        return connection.getresponse().status == 200
    except (OSError, HTTPException):
        return False
    finally:
        connection.close()
