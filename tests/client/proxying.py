"""
A small real proxy: forwards requests of http, tunnels those of https, or refuses; it finds every host on this machine.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from urllib.parse import urlsplit

import attrs

__all__ = ["Proxy", "proxying"]


@attrs.frozen
class Asked:
    """
    What the proxy was asked: method, target, headers in lower case.
    """

    method: str
    target: str
    headers: Mapping[str, str]


@attrs.define(eq=False)
class Proxy:
    """
    `ports` says where on this machine a named host is; `refusal` is answered to everybody instead, as it is.
    """

    ports: Mapping[str, int] = attrs.field(factory=dict)
    refusal: bytes | None = None
    asked: list[Asked] = attrs.field(factory=list)
    port: int = 0
    _tasks: set[asyncio.Task[None]] = attrs.field(factory=set)

    def url(self, credentials: str = "") -> str:
        """
        The proxy's address, with `user:word@` if given.
        """
        return f"http://{credentials}127.0.0.1:{self.port}"

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """
        One connection: one request, then whatever is said on it.
        """
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        try:
            await self._one(reader, writer)
        except (OSError, asyncio.IncompleteReadError, asyncio.CancelledError):
            pass
        finally:
            self._tasks.discard(task)
            writer.close()

    async def aclose(self) -> None:
        """
        End what still runs.
        """
        for task in tuple(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _one(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        first, *lines = head.decode("latin-1").rstrip("\r\n").split("\r\n")
        method, target, _ = first.split(" ")
        headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
        self.asked.append(Asked(method, target, headers))
        if self.refusal is not None:
            writer.write(self.refusal)
            await writer.drain()
            return
        parts = urlsplit(target if "://" in target else f"//{target}")
        there, back = await asyncio.open_connection("127.0.0.1", self.ports.get(parts.hostname or "", parts.port or 80))
        if method == "CONNECT":
            writer.write(b"HTTP/1.1 200 Connection established\r\n\r\n")
        else:
            kept = [line for line in lines if not line.lower().startswith("proxy-")]
            back.write("\r\n".join([f"{method} {parts.path} HTTP/1.1", *kept, "", ""]).encode("latin-1"))
        await self._both_ways(reader, writer, there, back)

    async def _both_ways(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, there: asyncio.StreamReader, back: asyncio.StreamWriter
    ) -> None:
        async def copy(source: asyncio.StreamReader, target: asyncio.StreamWriter) -> None:
            while data := await source.read(65536):
                target.write(data)
                await target.drain()

        ways = [asyncio.ensure_future(copy(reader, back)), asyncio.ensure_future(copy(there, writer))]
        try:
            await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for way in ways:
                way.cancel()
            await asyncio.gather(*ways, return_exceptions=True)
            back.close()


@asynccontextmanager
async def proxying(ports: Mapping[str, int] | None = None, refusal: bytes | None = None) -> AsyncIterator[Proxy]:
    """
    A proxy at work.
    """
    proxy = Proxy(ports or {}, refusal)
    server = await asyncio.start_server(proxy.serve, "127.0.0.1", 0)
    proxy.port = server.sockets[0].getsockname()[1]
    try:
        yield proxy
    finally:
        server.close()
        await proxy.aclose()
