"""
The stores under test, each in a place of its own; and a Redis server of the test's own.
"""

from __future__ import annotations

import shutil
import socket
import subprocess
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import TypeAlias

import attrs
import pytest

from rxchat.stores import HistoryStore, MemoryStore, SqliteStore

__all__ = ["KINDS", "RedisServer", "redis_server", "store_at"]

KINDS = ("memory", "sqlite", "redis")

Another: TypeAlias = Callable[[], HistoryStore]

REDIS = shutil.which("redis-server")
DURABLE = ("--appendonly", "yes", "--appendfsync", "always")


@attrs.define(eq=False)
class RedisServer:
    """
    A redis-server process in a folder of its own, on a port of its own.
    """

    folder: Path
    durable: bool = False
    port: int = 0
    _process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        """
        Where it answers.
        """
        return f"redis://127.0.0.1:{self.port}"

    def start(self) -> RedisServer:
        """
        Start it, again on the same data if it ran before, and wait until it answers.
        """
        assert REDIS is not None
        self.port = self.port or _free_port()
        kept = DURABLE if self.durable else ("--appendonly", "no")
        command = [REDIS, "--port", str(self.port), "--bind", "127.0.0.1", "--dir", str(self.folder), "--save", "", *kept]
        self._process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        until = time.monotonic() + 20
        while not _answers(self.port):
            assert self._process.poll() is None, "redis-server did not start"
            assert time.monotonic() < until, "redis-server does not answer"
            time.sleep(0.02)
        return self

    def kill(self) -> None:
        """
        End it at once, in the middle of whatever it does.
        """
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def _answers(port: int) -> bool:
    try:
        with socket.create_connection(("127.0.0.1", port), 1) as line:
            line.sendall(b"PING\r\n")
            return line.recv(64).startswith(b"+PONG")
    except OSError:
        return False


@contextmanager
def redis_server(folder: Path, *, durable: bool = False) -> Iterator[RedisServer]:
    """
    A server while the test runs; the test is skipped where there is no redis-server.
    """
    if REDIS is None:
        pytest.skip("redis-server is not installed here")
    server = RedisServer(folder, durable).start()
    try:
        yield server
    finally:
        server.kill()


@asynccontextmanager
async def store_at(kind: str, folder: Path) -> AsyncIterator[tuple[HistoryStore, Another]]:
    """
    An empty store, and what opens it a second time as another process would (memory: the same one again).
    """
    if kind == "redis":
        from rxchat.stores import RedisStore

        with redis_server(folder) as server:
            async with _closing(lambda: RedisStore(server.url)) as opened:
                yield opened
    elif kind == "sqlite":
        async with _closing(lambda: SqliteStore(folder / "history.db")) as opened:
            yield opened
    else:
        store = MemoryStore()
        yield store, lambda: store


@asynccontextmanager
async def _closing(make: Another) -> AsyncIterator[tuple[HistoryStore, Another]]:
    stores: list[HistoryStore] = []

    def another() -> HistoryStore:
        stores.append(make())
        return stores[-1]

    try:
        yield another(), another
    finally:
        for store in stores:
            await store.aclose()
