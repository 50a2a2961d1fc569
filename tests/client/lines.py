"""
A provider whose answers the test writes itself, at the moment and in the pieces it likes; and a subscriber that knows how each piece came.
"""

from __future__ import annotations

import asyncio
import socket
import ssl
import struct
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import aiohttp
import attrs

from rxchat.client import HttpSettings
from rxchat.client.http_body import http_body
from rxchat.outgoing.common import WireRequest
from tests.client.watching import Watcher

__all__ = ["CHUNKED", "END", "Line", "Provider", "Taker", "chunks", "opened", "providing"]

CHUNKED = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
END = b"0\r\n\r\n"


def chunks(*pieces: bytes) -> bytes:
    """
    Chunks of a body.
    """
    return b"".join(b"%x\r\n%s\r\n" % (len(piece), piece) for piece in pieces)


@attrs.define(eq=False)
class Line:
    """
    One request that waits for its answer; `gone` is set when its connection is, `number` counts the connections.
    """

    writer: asyncio.StreamWriter
    number: int
    gone: asyncio.Event

    async def say(self, data: bytes) -> None:
        """
        Write this, in one piece as far as the kernel takes it.
        """
        self.writer.write(data)
        await self.writer.drain()

    def hang_up(self) -> None:
        """
        The orderly end of the connection.
        """
        self.writer.close()

    def reset(self) -> None:
        """
        RST, at once.
        """
        self.writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.writer.transport.abort()

    async def left(self) -> None:
        """
        Wait until the client has closed the connection.
        """
        await asyncio.wait_for(self.gone.wait(), 5)


@attrs.define(eq=False)
class Provider:
    """
    Takes requests, and leaves their answers to whoever asks for the `next` one.
    """

    port: int = 0
    secure: bool = False
    connections: int = 0
    _lines: asyncio.Queue[Line] = attrs.field(factory=asyncio.Queue)
    _open: dict[asyncio.Task[Any], asyncio.StreamWriter] = attrs.field(factory=dict)

    @property
    def url(self) -> str:
        """
        The base URL.
        """
        return f"{'https' if self.secure else 'http'}://127.0.0.1:{self.port}/v1"

    async def next(self) -> Line:
        """
        The next request.
        """
        return await asyncio.wait_for(self._lines.get(), 5)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """
        One connection.
        """
        task = asyncio.current_task()
        assert task is not None
        self._open[task] = writer
        self.connections += 1
        number, gone = self.connections, asyncio.Event()
        try:
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                length = next(int(field.partition(b":")[2]) for field in head.split(b"\r\n") if field.lower().startswith(b"content-length"))
                await reader.readexactly(length)
                self._lines.put_nowait(Line(writer, number, gone))
        except (OSError, asyncio.IncompleteReadError, asyncio.CancelledError):
            # The last is the end of the loop; asyncio complains of one that comes through.
            pass
        finally:
            gone.set()
            writer.transport.abort()
            del self._open[task]

    async def end(self) -> None:
        """
        Close all connections.
        """
        for writer in self._open.values():
            writer.transport.abort()
        if self._open:
            await asyncio.wait(self._open.copy())


@asynccontextmanager
async def providing(tls: ssl.SSLContext | None = None) -> AsyncIterator[Provider]:
    """
    A provider in this loop.
    """
    provider = Provider(secure=tls is not None)
    server = await asyncio.start_server(provider.serve, "127.0.0.1", 0, ssl=tls)
    provider.port = server.sockets[0].getsockname()[1]
    try:
        yield provider
    finally:
        server.close()
        await provider.end()
        await server.wait_closed()


@attrs.define(eq=False)
class Taker(Watcher):
    """
    Writes down as well which items were pushed without a task, in the turn of the loop in which their bytes arrived.
    """

    direct: list[bool] = attrs.field(factory=list)
    _told: asyncio.Event = attrs.field(factory=asyncio.Event)

    @property
    def body(self) -> bytes:
        """
        All bytes so far.
        """
        return b"".join(self.items)

    async def takes(self, size: int) -> None:
        """
        Wait until so many bytes have come.
        """
        while len(self.body) < size:
            self._told.clear()
            await asyncio.wait_for(self._told.wait(), 5)

    async def takes_items(self, count: int) -> None:
        """
        Wait until so many items have come.
        """
        while len(self.items) < count:
            self._told.clear()
            await asyncio.wait_for(self._told.wait(), 5)

    def body_of(self, provider: Provider, session: aiohttp.ClientSession | None = None, **settings: Any) -> Taker:
        """
        Subscribe to the bytes of an answer.
        """
        self.watch(http_body(WireRequest(provider.url, {}, {}), lambda head: None, settings=HttpSettings(**settings), session=session))
        return self

    def _next(self, item: Any) -> None:
        self.direct.append(asyncio.current_task() is None)
        self._told.set()
        # Not `super()`: the class is made anew for its slots.
        Watcher._next(self, item)


async def opened(provider: Provider, taker: Taker, head: bytes = CHUNKED, first: bytes = chunks(b".")) -> Line:
    """
    The answer to the next request, of which the head and one byte have been taken: what comes now comes directly.
    """
    line = await provider.next()
    await line.say(head + first)
    await taker.takes(1)
    return line
