"""
A server that speaks OpenAI chat at a pace, in a process of its own: each delta's text is the monotonic clock at which it was written.

    python -m benchmarks.paced_server        prints its port, then "left <stream> <nanoseconds>" for each client that goes away early

What is to be sent stands in the model's name, "paced-<events a second>-<events>-<nanoseconds at which to begin>-<stream>". The clock is that of the machine, so
that a client on it can subtract. Nothing is held back: a client that does not read finds it all in its buffers.
"""

from __future__ import annotations

import asyncio
import json
import random
import subprocess
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import attrs

__all__ = ["Pace", "Server", "raise_file_limit", "served"]

_HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
_CHUNK = b'data: {"id":"chatcmpl-paced","object":"chat.completion.chunk","created":1,"model":"paced","system_fingerprint":"fp_1","choices":[%s]}\n\n'
_DELTA = b'{"index":0,"delta":{"content":"%d"},"logprobs":null,"finish_reason":null}'
_LAST = _CHUNK % b'{"index":0,"delta":{},"logprobs":null,"finish_reason":"stop"}' + b"data: [DONE]\n\n"


@attrs.frozen
class Pace:
    """
    What one stream sends: `rate` events a second, `events` in all, from `begin` (monotonic nanoseconds) on.
    """

    rate: int
    events: int
    begin: int = 0
    stream: int = 0

    @property
    def model(self) -> str:
        """
        The name to ask for.
        """
        return f"paced-{self.rate}-{self.events}-{self.begin}-{self.stream}"

    @classmethod
    def of(cls, model: str) -> Pace:
        """
        What a name asks for.
        """
        return cls(*map(int, model.split("-")[1:]))


def _chunked(data: bytes) -> bytes:
    return b"%x\r\n%s\r\n" % (len(data), data)


class PacedProtocol(asyncio.Protocol):
    """
    One connection, one stream.
    """

    def __init__(self) -> None:
        self._asked = bytearray()
        self._sent = 0
        self._pace: Pace | None = None
        self._transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        self._asked += data
        head, _, body = self._asked.partition(b"\r\n\r\n")
        length = next((int(line.split(b":")[1]) for line in head.split(b"\r\n") if line.lower().startswith(b"content-length:")), None)
        if length is not None and len(body) >= length and self._transport is not None:
            self._asked.clear()
            self._sent = 0
            self._pace = pace = Pace.of(json.loads(body)["model"])
            self._transport.write(_HEAD)
            # Each at another moment, as the streams of many users are.
            self._first = max(pace.begin / 1e9, time.monotonic()) + random.random() / pace.rate
            self._wait()

    def _wait(self) -> None:
        if self._pace is not None:
            asyncio.get_running_loop().call_at(self._first + self._sent / self._pace.rate, self._send)

    def _send(self) -> None:
        pace, transport = self._pace, self._transport
        if pace is None or transport is None:
            return
        if self._sent == pace.events:
            self._pace = None
            transport.write(_chunked(_LAST) + b"0\r\n\r\n")
            return
        self._sent += 1
        transport.write(_chunked(_CHUNK % (_DELTA % time.monotonic_ns())))
        self._wait()

    def connection_lost(self, exc: Exception | None) -> None:
        if self._pace is not None:
            print("left", self._pace.stream, time.monotonic_ns(), flush=True)
        self._pace = self._transport = None


async def _serve() -> None:
    raise_file_limit()
    server = await asyncio.get_running_loop().create_server(PacedProtocol, "127.0.0.1", 0, backlog=4096)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


def raise_file_limit() -> None:
    """
    As many open sockets as the system allows.
    """
    if sys.platform != "win32":
        import resource

        hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


# --- the other side -------------------------------------------------------------------------------------------------------------------------------


@attrs.define(eq=False)
class Server:
    """
    A running server as its client sees it.
    """

    port: int
    _left: dict[int, asyncio.Future[int]] = attrs.field(factory=dict)

    @property
    def url(self) -> str:
        """
        The base URL for clients of OpenAI.
        """
        return f"http://127.0.0.1:{self.port}/v1"

    def left(self, stream: int) -> asyncio.Future[int]:
        """
        When the server saw the client of this stream go, in monotonic nanoseconds.
        """
        return self._left.setdefault(stream, asyncio.get_running_loop().create_future())


@asynccontextmanager
async def served() -> AsyncIterator[Server]:
    """
    Such a server, while it is needed.
    """
    process = await asyncio.create_subprocess_exec(sys.executable, "-m", "benchmarks.paced_server", stdout=subprocess.PIPE)
    assert process.stdout is not None
    server = Server(int(await process.stdout.readline()))
    heard = asyncio.create_task(_hear(server, process.stdout))
    try:
        yield server
    finally:
        heard.cancel()
        process.terminate()
        await process.wait()


async def _hear(server: Server, said: asyncio.StreamReader) -> None:
    async for line in said:
        _, stream, when = line.split()
        future = server.left(int(stream))
        if not future.done():
            future.set_result(int(when))


if __name__ == "__main__":
    asyncio.run(_serve())
