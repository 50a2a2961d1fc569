"""
How a scripted provider's replies are sent: by aiohttp, to the byte, with the ends HTTP does not want.
"""

from __future__ import annotations

import asyncio
import socket
import struct
import sys
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from itertools import chain, repeat
from typing import TypeAlias

import attrs
from aiohttp import web

from rxchat.testing.asked import FakeRequest
from rxchat.testing.compressing import Compressor, compressor
from rxchat.testing.faults import Fault
from rxchat.testing.replies import Reply
from rxchat.testing.wires import Delta

__all__ = ["Handler", "Sender", "Sleep", "asked_of", "open_site", "writes_of"]

Sleep: TypeAlias = Callable[[float], Awaitable[object]]
Handler: TypeAlias = Callable[[web.Request], Awaitable[web.StreamResponse]]
# Of a request, media included.
MOST = 256 * 1024 * 1024
# Between two looks at what the kernel still holds.
MOMENT = 0.001
# Writes after which whoever shares the loop, the client perhaps, has a turn: the transport takes far more without one.
TURN = 16


async def open_site(handle: Handler) -> tuple[web.AppRunner, int]:
    """
    A server on loopback that hands every request on, and its port.
    """
    application = web.Application(client_max_size=MOST)
    application.router.add_route("*", "/{path:.*}", handle)
    # Without handler_cancellation nobody would know that a client has gone.
    runner = web.AppRunner(application, handler_cancellation=True, shutdown_timeout=0.2, access_log=None)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    return runner, runner.addresses[0][1]


async def asked_of(request: web.Request, time: float) -> FakeRequest:
    """
    The request as a script sees it: the first segment of its path is the dialect's name, the rest what the provider would have seen.
    """
    path = request.raw_path if request.raw_path.startswith("/") else request.rel_url.raw_path_qs
    dialect, slash, rest = path[1:].partition("/")
    headers = {name.lower(): value for name, value in request.headers.items()}
    peer = request.transport.get_extra_info("peername")[1] if request.transport else 0
    return FakeRequest(dialect, request.method, slash + rest, headers, await request.read(), time, peer)


@attrs.define(eq=False)
class Sender:
    """
    One reply on its way: `send` it, then `close` it. `clock` and `sleep` are those of the pace and of drips.
    """

    _request: web.Request
    _reply: Reply
    _fault: Fault
    _sleep: Sleep
    _clock: Callable[[], float]
    _compressor: Compressor | None = None
    _since: float | None = None
    _deltas: int = 0

    async def send(self) -> web.StreamResponse:
        """
        Everything up to the answer's end; CancelledError or ConnectionError where the client left before.
        """
        response = await self._begin()
        pause = 0.0
        for number, write in enumerate(writes_of(self._reply.frames, self._fault.sizes), 1):
            if number % TURN == 0:
                await asyncio.sleep(0)
            if write is None:
                await self._due()
                continue
            if pause:
                await self._sleep(pause)
            await response.write(self._compressor.feed(write) if self._compressor else write)
            pause = self._fault.drip[1] if self._fault.drip else 0.0
        if self._reply.end == "stall":
            await asyncio.Event().wait()
        if self._reply.end is None:
            await response.write_eof(self._compressor.finish() if self._compressor else b"")
        return response

    async def close(self) -> None:
        """
        End the connection where the reply says so: what was sent arrives before.
        """
        transport = self._request.transport
        if transport is None or self._reply.end is None:
            return
        if self._reply.end == "reset":
            held: socket.socket = transport.get_extra_info("socket")
            while transport.get_write_buffer_size() or unsent(held):
                await asyncio.sleep(MOMENT)
            held.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            transport.abort()
        else:
            transport.close()

    async def _begin(self) -> web.StreamResponse:
        kind = _CloseDelimited if self._fault.close_delimited else web.StreamResponse
        response = kind(status=self._reply.status, headers=self._reply.headers)
        if self._fault.close_delimited:
            response.force_close()
        elif self._reply.length is not None:
            response.content_length = self._reply.length
        if self._fault.compression is not None:
            self._compressor = compressor(self._fault.compression)
        await response.prepare(self._request)
        return response

    async def _due(self) -> None:
        """
        Wait for the time of the next delta, which does not depend on how late the ones before were.
        """
        if self._reply.pace is None:
            return
        now = self._clock()
        self._since = now if self._since is None else self._since
        wait = self._since + self._deltas / self._reply.pace - now
        self._deltas += 1
        if wait > 0:
            await self._sleep(wait)


class _CloseDelimited(web.StreamResponse):
    """
    An answer that ends where the connection does.
    """

    _length_check = False


def writes_of(frames: Sequence[bytes], sizes: Sequence[int] | None) -> Iterator[bytes | None]:
    """
    The frames in writes of these sizes, the last one repeated (None: a write a frame); a None comes before each delta, when it is due.
    """
    marked = any(isinstance(frame, Delta) for frame in frames)
    wanted: Iterable[int] = () if sizes is None else chain(sizes[:-1], repeat(sizes[-1]))
    size = iter(wanted)
    held, want = b"", next(size, 0)
    for frame in frames:
        if isinstance(frame, Delta) or not marked:
            yield None
        held += frame
        while held and len(held) >= want:
            write, held = (held[:want], held[want:]) if want else (held, b"")
            yield write
            want = next(size, 0)
    if held:
        yield held


def unsent(held: socket.socket) -> int:
    """
    How many bytes the other side has not taken yet; 0 where the system does not tell.
    """
    if sys.platform != "linux":
        return 0
    import fcntl
    import termios

    return int(struct.unpack("i", fcntl.ioctl(held.fileno(), termios.TIOCOUTQ, b"\0\0\0\0"))[0])
