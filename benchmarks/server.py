"""
A server that sends the workloads as fast as they are read, in a process of its own.

    python -m benchmarks.server        prints its port; http://127.0.0.1:<port>/<workload>/<size>/... is that stream, whatever stands behind

Each read of the workload is a chunk of the transfer encoding, so that W6 arrives byte by byte. Where the client does not read, it stops writing.
"""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from functools import lru_cache

from benchmarks.workloads import WORKLOADS

__all__ = ["WorkloadProtocol", "address", "sending"]

_HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
# Bytes handed to the transport at once.
_PIECE = 64 * 1024


@lru_cache(maxsize=8)
def _body(name: str, size: int) -> bytes:
    return b"".join(b"%x\r\n%s\r\n" % (len(read), read) for read in WORKLOADS[name](size).reads) + b"0\r\n\r\n"


class WorkloadProtocol(asyncio.Protocol):
    """
    One connection, one stream at a time.
    """

    def __init__(self) -> None:
        self._asked = bytearray()
        self._transport: asyncio.Transport | None = None
        self._pieces: Iterator[bytes] = iter(())
        self._paused = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        self._asked += data
        head, end, body = self._asked.partition(b"\r\n\r\n")
        length = next((int(line.split(b":")[1]) for line in head.split(b"\r\n") if line.lower().startswith(b"content-length:")), 0)
        if end and len(body) >= length and self._transport is not None:
            self._asked.clear()
            name, size = head.split(b" ", 2)[1].decode().split("/")[1:3]
            sent = _body(name, int(size))
            self._pieces = iter([sent[at : at + _PIECE] for at in range(0, len(sent), _PIECE)])
            self._transport.write(_HEAD)
            self._write()

    def _write(self) -> None:
        # The transport is closing as soon as a write finds that the client has left; connection_lost comes only afterwards.
        while not self._paused and self._transport is not None and not self._transport.is_closing():
            piece = next(self._pieces, None)
            if piece is None:
                return
            self._transport.write(piece)

    def pause_writing(self) -> None:
        self._paused = True

    def resume_writing(self) -> None:
        self._paused = False
        self._write()

    def connection_lost(self, exc: Exception | None) -> None:
        self._transport = None


async def _serve() -> None:
    server = await asyncio.get_running_loop().create_server(WorkloadProtocol, "127.0.0.1", 0)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


# --- the other side -------------------------------------------------------------------------------------------------------------------------------


def address(root: str, name: str, size: int) -> str:
    """
    The base URL at which that workload is sent.
    """
    return f"{root}/{name}/{size}/v1"


@asynccontextmanager
async def sending() -> AsyncIterator[str]:
    """
    Such a server while it is needed; its root.
    """
    process = await asyncio.create_subprocess_exec(sys.executable, "-m", "benchmarks.server", stdout=subprocess.PIPE)
    assert process.stdout is not None
    port = int(await process.stdout.readline())
    try:
        yield f"http://127.0.0.1:{port}"
    finally:
        process.terminate()
        await process.wait()


if __name__ == "__main__":
    asyncio.run(_serve())
