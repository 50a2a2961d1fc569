"""
The connections of the sessions made here.
"""

from __future__ import annotations

import asyncio
import re
from functools import partial
from typing import Any

import aiohttp
from aiohttp.client_proto import ResponseHandler

from rxchat.client.inlet import Inlet

__all__ = ["HeadFirst", "OwnConnector"]

# Bytes taken from a socket at once, at most.
SOCKET_READ = 64 * 1024
END = b"\r\n\r\n"
# So long is a head up to its status, and such is one that is no answer yet.
STATUS = len(b"HTTP/1.1 103")
NEWS = re.compile(rb"HTTP/1\.\d 1(?!01)\d\d").match


class HeadFirst(ResponseHandler):
    """
    Has the headers parsed before the bytes of the body in the same read: else a fault in these takes the whole answer with it (contract E9, E10).

    Bytes that nobody asked for, behind the end of an answer, end the connection: aiohttp would take them for the answer to its next request.
    """

    # Who is handed on what arrives.
    inlet: Inlet | None = None
    # The last bytes of a head that is not whole yet; None behind it.
    _head: bytes | None = b""
    # The first bytes of a head.
    _status: bytes = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # A selector loop allocates that much for every read, by default 256 KiB, which glibc fetches from the system and gives back each time: that costs more
        # than all that is done with what came. Other loops know no such attribute.
        selecting: Any = transport
        if hasattr(selecting, "max_size"):
            selecting.max_size = SOCKET_READ
        super().connection_made(transport)

    def set_response_params(self, **params: Any) -> None:
        self._head, self._status = b"", b""
        super().set_response_params(**params)

    def data_received(self, data: bytes) -> None:
        if self._head is not None:
            self._head_received(data)
        elif data and self._payload is not None and self._payload.is_eof():
            self.close()
        else:
            super().data_received(data)
        inlet = self.inlet
        if inlet is not None and inlet.woken:
            inlet.run()

    def resume_reading(self, *args: Any, **options: Any) -> None:
        # aiohttp asks for it at every read, and then has its parser look whether there is something it held back.
        if self._reading_paused:
            super().resume_reading(*args, **options)

    def _head_received(self, data: bytes) -> None:
        while data and self._head is not None:
            known, self._status = self._head, (self._status + data)[:STATUS]
            at = (known + data).find(END)
            if at < 0:
                self._head = (known + data)[-3:]
                break
            cut = at + len(END) - len(known)
            # Behind news of an answer (103 Early Hints) comes another head.
            self._head, self._status = (b"" if NEWS(self._status) else None), b""
            super().data_received(data[:cut])
            data = data[cut:]
            if self.exception() is not None:
                return
        super().data_received(data)

    def connection_lost(self, reason: BaseException | None) -> None:
        # The end of an encrypted connection comes in the same read as the last bytes, and is told at once: the parser may have held back some for a slow
        # consumer, and would forget them (contract E10).
        while self._reading_paused and self._payload is not None:
            super().resume_reading()
        super().connection_lost(reason)
        ended = self._closed
        if ended is not None and ended.done() and not ended.cancelled():
            # Asked for, or asyncio complains that nobody did: who waited for it, closing a session, may have been cancelled.
            ended.exception()
        if self.inlet is not None:
            self.inlet.run()


class OwnConnector(aiohttp.TCPConnector):
    """
    The connector of the sessions made here; one of the caller's has its own proxies and certificates.
    """

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        factory: Any = partial(HeadFirst, loop=self._loop)
        self._factory = factory
