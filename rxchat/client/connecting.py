"""
The connections of the sessions made here.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import aiohttp
from aiohttp.client_proto import ResponseHandler

__all__ = ["OwnConnector"]

END = b"\r\n\r\n"


class HeadFirst(ResponseHandler):
    """
    Has the headers parsed before the bytes of the body in the same read: else a fault in these takes the whole answer with it (contract E9, E10).
    """

    # The last bytes of a head that is not whole yet; None behind it.
    _head: bytes | None = b""

    def set_response_params(self, **params: Any) -> None:
        self._head = b""
        super().set_response_params(**params)

    def data_received(self, data: bytes) -> None:
        if self._head is not None and data:
            known = self._head
            at = (known + data).find(END)
            self._head = (known + data)[-3:] if at < 0 else None
            cut = at + len(END) - len(known)
            if at >= 0 and cut < len(data):
                super().data_received(data[:cut])
                data = data[cut:]
                if self.exception() is not None:
                    return
        super().data_received(data)


class OwnConnector(aiohttp.TCPConnector):
    """
    The connector of the sessions made here; one of the caller's has its own proxies and certificates.
    """

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        factory: Any = partial(HeadFirst, loop=self._loop)
        self._factory = factory
