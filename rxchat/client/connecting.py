"""
The connections of the sessions made here.
"""

from __future__ import annotations

import re
from functools import partial
from typing import Any

import aiohttp
from aiohttp.client_proto import ResponseHandler

__all__ = ["OwnConnector"]

END = b"\r\n\r\n"
# So long is a head up to its status, and such is one that is no answer yet.
STATUS = len(b"HTTP/1.1 103")
NEWS = re.compile(rb"HTTP/1\.\d 1(?!01)\d\d").match


class HeadFirst(ResponseHandler):
    """
    Has the headers parsed before the bytes of the body in the same read: else a fault in these takes the whole answer with it (contract E9, E10).

    Bytes that nobody asked for, behind the end of an answer, end the connection: aiohttp would take them for the answer to its next request.
    """

    # The last bytes of a head that is not whole yet; None behind it.
    _head: bytes | None = b""
    # The first bytes of a head.
    _status: bytes = b""

    def set_response_params(self, **params: Any) -> None:
        self._head, self._status = b"", b""
        super().set_response_params(**params)

    def data_received(self, data: bytes) -> None:
        if data and self._head is None and self._payload is not None and self._payload.is_eof():
            self.close()
            return
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
        super().connection_lost(reason)
        ended = self._closed
        if ended is not None and ended.done() and not ended.cancelled():
            # Asked for, or asyncio complains that nobody did: who waited for it, closing a session, may have been cancelled.
            ended.exception()


class OwnConnector(aiohttp.TCPConnector):
    """
    The connector of the sessions made here; one of the caller's has its own proxies and certificates.
    """

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        factory: Any = partial(HeadFirst, loop=self._loop)
        self._factory = factory
