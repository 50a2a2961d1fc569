"""
The body of one answer, read from aiohttp a bounded piece at a time, decompressed, its failures in our words.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from contextvars import Context

import aiohttp
from aiohttp.http_exceptions import HttpProcessingError

from rxchat.client.connecting import HeadFirst
from rxchat.client.encodings import Decoder, decoder_for
from rxchat.client.failures import from_aiohttp
from rxchat.client.inlet import Inlet
from rxchat.errors import ConnectionLostError, RxchatError
from rxchat.pipeline import Head

__all__ = ["PIECE", "Answer", "head_of"]

# The most that is given out at once. What one read makes of it (some 60 events of usual size) waits together in front of a slow consumer.
PIECE = 16 * 1024
# So much may come out of a decompressor before others have their turn on the loop.
TURN = 256 * 1024


class Answer:
    """
    Status, headers, and the body as `read` gives it.
    """

    def __init__(self, response: aiohttp.ClientResponse, url: str) -> None:
        self.head = head_of(response)
        self._content = response.content
        self._url = url
        self._decoder: Decoder | None = None
        self._opened = False
        self._left = b""
        self._since = 0
        self._watch_connection(response)

    async def read(self, size: int | None = None) -> bytes:
        """
        The next bytes, never more than `size` or a piece; empty at the end, which is the transfer's and the compression's.

        ConnectionLostError, FramingError and the like; what had arrived before is given out first (contract E10).
        """
        limit = min(size or PIECE, PIECE)
        if not self._opened:
            self._decoder, self._opened = decoder_for(self.head.headers.get("content-encoding")), True
        if self._decoder is None:
            return await self._raw(limit)
        return await self._decoded(self._decoder, limit)

    async def pour(self, size: int | None, take: Callable[[bytes], bool], context: Context) -> None:
        """
        Hand on the next bytes as they arrive, for as long as `take` says True: no task wakes for them. Then `read` goes on, and meets whatever is no data.

        At once if this cannot be: bytes are there to be read, they are compressed, or the connection is none of ours.
        """
        content = self._content
        protocol = getattr(content, "_protocol", None)
        if self._decoder is not None or not isinstance(protocol, HeadFirst) or not protocol.connected:
            return
        if not content._buffer and not content.is_eof() and content.exception() is None:
            await Inlet(content, protocol, min(size or PIECE, PIECE), take, context).wait()

    async def finish(self, seconds: float) -> None:
        """
        Wait so long for the end of a transfer whose content is over; not past another byte of content.
        """
        # Where the end is not announced, only that of the connection would tell.
        if self.head.clean_eof and not self._content.is_eof():
            with suppress(TimeoutError, RxchatError):
                async with asyncio.timeout(seconds):
                    await self.read(1)

    async def _decoded(self, decoder: Decoder, limit: int) -> bytes:
        while not self._left and not (out := decoder.take(limit)):
            raw = await self._raw(PIECE)
            if raw:
                decoder.feed(raw)
            elif decoder.whole:
                return b""
            else:
                raise ConnectionLostError("the compressed body ended before its own end")
        # Some decompressors give a little more than they are asked for.
        out = self._left or out
        out, self._left = out[:limit], out[limit:]
        self._since += len(out)
        if self._since >= TURN:
            self._since = 0
            await asyncio.sleep(0)
        return out

    async def _raw(self, size: int) -> bytes:
        failure: RxchatError
        try:
            data = await self._content.read(size)
        except RuntimeError:
            # Its connection was closed under it, by whoever closed the session, or by aiohttp itself.
            failure = from_aiohttp(self._why_gone(), self._url)
        except (aiohttp.ClientError, HttpProcessingError, OSError) as error:
            failure = from_aiohttp(error, self._url)
        else:
            broken = None if data else self._break()
            if broken is None:
                return data
            failure = from_aiohttp(broken, self._url)
        # aiohttp raises before it gives out what it had read until then; the next read meets the failure again.
        if held := self._content._read_nowait(size):
            return held
        raise failure

    def _watch_connection(self, response: aiohttp.ClientResponse) -> None:
        """
        Have a reader that waits told of a connection that is gone: aiohttp does not, when it closes one itself over chunks that are none.
        """
        closed = getattr(response.connection.protocol if response.connection else None, "closed", None)
        content = self._content

        def tell(ended: asyncio.Future[None]) -> None:
            if not content.is_eof() and content.exception() is None:
                content.set_exception(self._why_gone())

        if closed is not None and not content.is_eof():
            # Once, however many answers come over it.
            closed.remove_done_callback(_asked)
            closed.add_done_callback(_asked)
            closed.add_done_callback(tell)
            # A connection that serves again would keep what was read over it.
            content.on_eof(lambda: closed.remove_done_callback(tell))

    def _why_gone(self) -> BaseException:
        """
        What ended the connection of a body that was not at its end.
        """
        protocol = getattr(self._content, "_protocol", None)
        known = None if protocol is None else protocol.exception()
        return known or aiohttp.ClientConnectionError("closed")

    def _break(self) -> BaseException | None:
        """
        What tore a body that ends with its connection. To aiohttp that is an end like another; only the connection knows of the reset.
        """
        protocol = getattr(self._content, "_protocol", None)
        if self.head.clean_eof or protocol is None:
            return None
        known = protocol.exception()
        return known if isinstance(known, OSError) else None


def _asked(ended: asyncio.Future[None]) -> None:
    """
    Ask for the failure of a connection, or asyncio complains that nobody did.
    """
    _ = ended.cancelled() or ended.exception()


def head_of(response: aiohttp.ClientResponse) -> Head:
    """
    Status and headers; the end proves something only where the transfer itself announces it (contract V5).
    """
    headers = {name.lower(): value for name, value in response.headers.items()}
    coding = headers.get("transfer-encoding")
    # A coding of the transfer overrules its length, and only as the last one do chunks tell the end.
    announced = "content-length" in headers if coding is None else coding.rpartition(",")[2].strip().lower() == "chunked"
    return Head(status=response.status, headers=headers, clean_eof=announced)
