"""
D3: a provider that floods while the consumer stalls is blocked, we hold a bounded part of it, and nothing is lost when the consumer goes on.

The server is here, the client in a process of its own (tests/client/flooded.py). RXCHAT_EXHAUSTIVE=1 floods 200 MB each, else 12.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import sys
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from contextlib import asynccontextmanager
from typing import Any

import attrs
import pytest

from rxchat.testing.wires import aws
from tests.shared_data import EXHAUSTIVE, ROOT

MiB = 1024 * 1024
FLOOD = 200_000_000 if EXHAUSTIVE else 12_000_000
# What the two kernels' buffers of a connection on loopback take at most (tcp_wmem and tcp_rmem), with room.
SOCKETS = 24 * MiB
# What one stream may hold of a flood, beyond the sockets.
BOUND = MiB
PAD = "x" * 300


@attrs.frozen
class Wire:
    """
    How a dialect writes texts: content type, frames, and the end.
    """

    content_type: str
    head: bytes
    frame: Callable[[str], bytes]
    end: bytes


def line(value: Any, form: str) -> bytes:
    """
    JSON in its frame.
    """
    return (form % json.dumps(value, separators=(",", ":"))).encode()


def chunk(**choice: Any) -> Any:
    """
    A chunk of a chat completion, with something to carry that nobody reads.
    """
    return {"id": "c", "model": "m", "choices": [{"index": 0, "delta": {}, "finish_reason": None, **choice}], "pad": PAD}


def candidate(text: str, **more: Any) -> Any:
    """
    A chunk of Gemini.
    """
    return {"candidates": [{"content": {"parts": [{"text": text}], "role": "model"}, "index": 0, **more}], "pad": PAD}


WIRES = {
    "openai-chat": Wire(
        "text/event-stream",
        b"",
        lambda text: line(chunk(delta={"content": text}), "data: %s\n\n"),
        line(chunk(finish_reason="stop"), "data: %s\n\n") + b"data: [DONE]\n\n",
    ),
    "ollama": Wire(
        "application/x-ndjson",
        b"",
        lambda text: line({"model": "m", "message": {"role": "assistant", "content": text}, "done": False, "pad": PAD}, "%s\n"),
        line({"model": "m", "message": {"role": "assistant", "content": ""}, "done": True, "done_reason": "stop"}, "%s\n"),
    ),
    "gemini": Wire(
        "application/json",
        b"[",
        lambda text: line(candidate(text), "%s,\r\n"),
        line(candidate("end", finishReason="STOP"), "%s]"),
    ),
    "bedrock-converse": Wire(
        "application/vnd.amazon.eventstream",
        aws.event("messageStart", {"role": "assistant"}),
        lambda text: aws.event("contentBlockDelta", {"contentBlockIndex": 0, "delta": {"text": text}, "p": PAD}),
        aws.event("contentBlockStop", {"contentBlockIndex": 0}) + aws.event("messageStop", {"stopReason": "end_turn"}),
    ),
}


@attrs.define(eq=False)
class Flood:
    """
    A server that writes as fast as it may; `written` are the bytes it could hand to the kernel.
    """

    content_type: str
    writes: Callable[[], Iterable[bytes]]
    status: int = 200
    chunked: bool = True
    breath: bool = False
    written: int = 0
    asked: int = 0
    gone: asyncio.Event = attrs.field(factory=asyncio.Event)
    port: int = 0

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """
        Each request of a connection; the first is answered shortly, the others with the flood.
        """
        # One write more than the kernel takes is what we keep ourselves.
        writer.transport.set_write_buffer_limits(high=0)
        try:
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                length = next(int(field.partition(b":")[2]) for field in head.split(b"\r\n") if field.lower().startswith(b"content-length"))
                await reader.readexactly(length)
                self.asked += 1
                if self.asked == 1:
                    await self._answer(writer, [next(iter(self.writes()))], True)
                else:
                    await self._answer(writer, self.writes(), self.chunked)
        except (OSError, asyncio.IncompleteReadError, asyncio.CancelledError):
            pass
        finally:
            self.gone.set()
            writer.close()

    async def _answer(self, writer: asyncio.StreamWriter, writes: Iterable[bytes], chunked: bool) -> None:
        how = "transfer-encoding: chunked" if chunked else "content-length: 1000000000"
        writer.write(f"HTTP/1.1 {self.status} X\r\ncontent-type: {self.content_type}\r\n{how}\r\n\r\n".encode())
        for data in writes:
            writer.write(b"%x\r\n%s\r\n" % (len(data), data) if chunked else data)
            await writer.drain()
            self.written += len(data)
            if self.breath:
                await asyncio.sleep(0)
        writer.write(b"0\r\n\r\n" if chunked else b"")
        await writer.drain()

    async def blocked(self) -> int:
        """
        Waits until no more can be written, and says how much could be.
        """
        still, before = 0, -1
        while still < 4:
            before = self.written
            await asyncio.sleep(0.2)
            # A busy machine pauses us too.
            still = still + 1 if self.written == before > 0 else 0
        return before


@attrs.define(eq=False)
class Child:
    """
    The process with the client.
    """

    process: asyncio.subprocess.Process

    async def hear(self) -> Any:
        """
        Its next line.
        """
        assert self.process.stdout is not None
        said = await asyncio.wait_for(self.process.stdout.readline(), 300 if EXHAUSTIVE else 40)
        assert said, "the client ended without a word"
        return json.loads(said)

    async def tell(self, order: str) -> Any:
        """
        An order, and what it says to it.
        """
        assert self.process.stdin is not None
        self.process.stdin.write(order.encode() + b"\n")
        return await self.hear()


@asynccontextmanager
async def flooding(flood: Flood, dialect: str, **limits: int) -> AsyncIterator[Child]:
    """
    The server at work, and a client of it.
    """
    server = await asyncio.start_server(flood.serve, "127.0.0.1", 0)
    flood.port = server.sockets[0].getsockname()[1]
    pipe = asyncio.subprocess.PIPE
    arguments = ["-m", "tests.client.flooded", f"http://127.0.0.1:{flood.port}", dialect, json.dumps(limits)]
    process = await asyncio.create_subprocess_exec(sys.executable, *arguments, cwd=ROOT, stdin=pipe, stdout=pipe)
    try:
        yield Child(process)
    finally:
        if process.returncode is None:
            try:
                await asyncio.wait_for(process.wait(), 10)
            except TimeoutError:
                process.kill()
                await process.wait()
        # The pipes' transports end in the next turns.
        await asyncio.sleep(0.05)
        server.close()


def frames_of(wire: Wire, size: int) -> Iterator[bytes]:
    """
    Numbered texts, many frames a write.
    """
    yield wire.head + wire.frame("0,")
    each, number = len(wire.frame("1234567,")), 1
    while number * each < size:
        numbers = range(number, number + 40)
        yield b"".join(wire.frame(f"{k},") for k in numbers)
        number = numbers.stop
    yield wire.end


def expected(wire: Wire, dialect: str, size: int) -> tuple[int, str]:
    """
    How many texts there are, and their checksum.
    """
    each, number = len(wire.frame("1234567,")), 1
    while number * each < size:
        number += 40
    texts = [f"{k}," for k in range(number)] + (["end"] if dialect == "gemini" else [])
    return len(texts), hashlib.sha256("".join(texts).encode()).hexdigest()


@pytest.mark.parametrize("dialect", WIRES)
async def test_a_flood_waits_for_its_consumer(dialect: str, record_property: Callable[[str, object], None]) -> None:
    """
    Bounded memory while the consumer stalls, a blocked provider, and every text afterwards.
    """
    wire = WIRES[dialect]
    flood = Flood(wire.content_type, lambda: frames_of(wire, FLOOD))
    async with flooding(flood, dialect) as child:
        assert (await child.hear()) == {"first": "0,"}
        taken = await flood.blocked()
        held = await child.tell("measure")
        await asyncio.sleep(0.5)
        again = await child.tell("measure")
        assert (flood.written, again["held"] - held["held"] < 10_000) == (taken, True)
        came = await child.tell("go")
    print(
        f"{dialect}: the provider got rid of {taken / MiB:.1f} MiB, we hold {again['held'] / 1024:.0f} KiB, peak {again['peak'] / 1024:.0f} KiB, ",
        end="",
    )
    print(f"RSS + {again['rss'] / 1024:.0f} KiB; then {came['count']} texts of {flood.written / MiB:.0f} MiB")
    count, sha = expected(wire, dialect, FLOOD)
    assert (came["count"], came["sha"], came["verdict"]) == (count, sha, "COMPLETE")
    assert again["peak"] < BOUND
    assert taken < SOCKETS


async def test_a_flood_of_few_bytes_at_a_time() -> None:
    """
    A write of two bytes is an object for each read: bounded too.
    """
    wire = WIRES["openai-chat"]

    def writes() -> Iterator[bytes]:
        yield wire.frame("0,")
        body = b"".join(wire.frame(f"{k},") for k in range(1, 400))
        yield from (body[at : at + 2] for at in range(0, len(body), 2))
        yield wire.end

    flood = Flood(wire.content_type, writes, chunked=False, breath=True)
    async with flooding(flood, "openai-chat") as child:
        assert (await child.hear()) == {"first": "0,"}
        await flood.blocked()
        held = await child.tell("measure")
        came = await child.tell("go")
    print(f"two bytes at a time: we hold {held['held'] / 1024:.0f} KiB, peak {held['peak'] / 1024:.0f} KiB, RSS + {held['rss'] / 1024:.0f} KiB")
    assert (came["count"], came["verdict"]) == (400, "COMPLETE")
    assert held["peak"] < BOUND


def endless(piece: bytes) -> Callable[[], Iterator[bytes]]:
    """
    The same over and over, as much as the flood.
    """
    return lambda: (piece for _ in range(FLOOD // len(piece)))


@pytest.mark.parametrize("dialect", ["openai-chat", "ollama", "gemini"])
async def test_a_line_without_end_is_refused(dialect: str) -> None:
    """
    B5: LIMIT, and no more memory than the limit and what joins its pieces asks for.
    """
    wire = WIRES[dialect]
    begin = {"openai-chat": b"data: ", "ollama": b'{"a":"', "gemini": b'[{"a":"'}[dialect]

    def writes() -> Iterator[bytes]:
        yield begin + b"x"
        yield from endless(b"x" * 20_000)()

    flood = Flood(wire.content_type, writes)
    async with flooding(flood, dialect, line=MiB, event=MiB) as child:
        said = await child.hear()
        await asyncio.wait_for(flood.gone.wait(), 10)
    print(f"{dialect}: {said}")
    assert (said["verdict"], flood.written < SOCKETS) == ("LIMIT", True)
    assert said["peak"] < 3 * MiB


async def test_an_error_without_end_is_cut() -> None:
    """
    D6: the refusal is told with its bounded body, and the provider is left.
    """
    flood = Flood("text/plain", endless(b"no, no, no " * 2000), status=500)
    async with flooding(flood, "openai-chat") as child:
        said = await child.hear()
        await asyncio.wait_for(flood.gone.wait(), 10)
    print(f"error body: {said}, of {flood.written / MiB:.1f} MiB")
    assert (said["verdict"], said["body"], flood.written < SOCKETS) == ("HTTP_STATUS", 64 * 1024, True)
    assert said["peak"] < BOUND
