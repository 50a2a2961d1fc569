"""
A provider on loopback: a real aiohttp server whose answer to each request is a script of the test's own.
"""

from __future__ import annotations

import asyncio
import json
import socket
import ssl
import struct
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Any

import attrs
from aiohttp import web

__all__ = ["DONE", "FINISH", "GOOD", "Loopback", "Script", "answer", "delta", "hold", "loopback", "loopback_thread", "raw", "reset", "sse"]

Script = Callable[[web.Request], Awaitable[web.StreamResponse]]

DONE = b"data: [DONE]\n\n"


def frame(**choice: Any) -> bytes:
    """
    One frame of a chat completion.
    """
    chunk = {"id": "chatcmpl-1", "model": "test-1", "choices": [{"index": 0, "delta": {}, "finish_reason": None, **choice}]}
    return f"data: {json.dumps(chunk, ensure_ascii=False)}\n\n".encode()


def delta(text: str) -> bytes:
    """
    A frame with text.
    """
    return frame(delta={"content": text})


FINISH = frame(finish_reason="stop")
GOOD = (delta("Hello"), delta(", world."), FINISH, DONE)


@attrs.define
class Seen:
    """
    A request as the server saw it; `peer` is the client's port, so that equal ones came over one connection.
    """

    method: str
    path: str
    headers: dict[str, str]
    body: bytes
    peer: int

    @property
    def json(self) -> Any:
        """
        The body as JSON.
        """
        return json.loads(self.body)


@attrs.define(eq=False)
class Loopback:
    """
    The server: answers every request by `script`; `seen` are the requests, `left` the events set when a client went away before its answer ended.
    """

    script: Script
    tls: ssl.SSLContext | None = None
    seen: list[Seen] = attrs.field(factory=list)
    arrived: asyncio.Event = attrs.field(factory=asyncio.Event)
    left: asyncio.Event = attrs.field(factory=asyncio.Event)
    _runner: web.AppRunner | None = None
    _port: int = 0

    @property
    def url(self) -> str:
        """
        The base URL.
        """
        return f"{'https' if self.tls else 'http'}://127.0.0.1:{self._port}/v1"

    @property
    def port(self) -> int:
        """
        Where it listens.
        """
        return self._port

    async def start(self) -> Loopback:
        """
        Listen on a port of its own.
        """
        server = web.Application(client_max_size=64 * 1024 * 1024)
        server.router.add_route("*", "/{path:.*}", self._handle)
        # Without this a handler would never know that its client has gone.
        self._runner = web.AppRunner(server, handler_cancellation=True, shutdown_timeout=0.2)
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", 0, ssl_context=self.tls)
        await site.start()
        self._port = self._runner.addresses[0][1]
        return self

    async def aclose(self) -> None:
        """
        Stop, and end what still runs.
        """
        if self._runner is not None:
            await self._runner.cleanup()

    async def _handle(self, request: web.Request) -> web.StreamResponse:
        peer = request.transport.get_extra_info("peername")[1] if request.transport else 0
        self.seen.append(
            Seen(request.method, request.path, {name.lower(): value for name, value in request.headers.items()}, await request.read(), peer)
        )
        self.arrived.set()
        try:
            return await self.script(request)
        except (asyncio.CancelledError, ConnectionResetError):
            self.left.set()
            raise


def answer(*chunks: bytes, status: int = 200, content_type: str | None = "text/event-stream", headers: dict[str, str] | None = None) -> Script:
    """
    A whole chunked answer, one write a chunk.
    """

    async def script(request: web.Request) -> web.StreamResponse:
        response = await begin(request, status, content_type, headers)
        for chunk in chunks:
            await response.write(chunk)
        await response.write_eof()
        return response

    return script


async def begin(
    request: web.Request, status: int = 200, content_type: str | None = "text/event-stream", headers: dict[str, str] | None = None
) -> web.StreamResponse:
    """
    Send status and headers of a chunked answer.
    """
    response = web.StreamResponse(status=status, headers=headers)
    if content_type is not None:
        response.headers["content-type"] = content_type
    response.enable_chunked_encoding()
    await response.prepare(request)
    return response


sse = answer


def hold(*chunks: bytes, headers: bool = True, status: int = 200, content_type: str = "text/event-stream") -> Script:
    """
    Some chunks (or not even the headers), then silence until the client leaves.
    """

    async def script(request: web.Request) -> web.StreamResponse:
        if headers:
            response = await begin(request, status, content_type)
            for chunk in chunks:
                await response.write(chunk)
        await asyncio.Event().wait()
        raise AssertionError("nobody sets that event")

    return script


def raw(*writes: bytes, reset: bool = False) -> Script:
    """
    Exactly these bytes on the wire, then the connection is closed (or reset).
    """

    async def script(request: web.Request) -> web.StreamResponse:
        transport = request.transport
        assert transport is not None
        for piece in writes:
            transport.write(piece)
            await asyncio.sleep(0)
        transport.abort() if reset else transport.close()
        return web.Response()

    return script


def reset(*writes: bytes) -> Script:
    """
    Exactly these bytes on the wire, and when the client has them, a reset (RST, not the orderly end).
    """

    async def script(request: web.Request) -> web.StreamResponse:
        transport = request.transport
        assert transport is not None
        for piece in writes:
            transport.write(piece)
            await asyncio.sleep(0.02)
        transport.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        transport.abort()
        return web.Response()

    return script


def in_turn(scripts: Iterable[Script]) -> Script:
    """
    One script a request, in this order.
    """
    queue = iter(scripts)

    async def script(request: web.Request) -> web.StreamResponse:
        return await next(queue)(request)

    return script


@asynccontextmanager
async def loopback(script: Script) -> AsyncIterator[Loopback]:
    """
    The server in this loop.
    """
    server = await Loopback(script).start()
    try:
        yield server
    finally:
        await server.aclose()


@contextmanager
def loopback_thread(script: Script) -> Iterator[Loopback]:
    """
    The server in a thread of its own, for code that runs its own loop.
    """
    ready: list[Loopback] = []
    started, stop = threading.Event(), threading.Event()

    async def serve() -> None:
        async with loopback(script) as server:
            ready.append(server)
            started.set()
            await asyncio.to_thread(stop.wait)

    thread = threading.Thread(target=lambda: asyncio.run(serve()), daemon=True)
    thread.start()
    assert started.wait(10), "the server did not start"
    try:
        yield ready[0]
    finally:
        stop.set()
        thread.join(10)
