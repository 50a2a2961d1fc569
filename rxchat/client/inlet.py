"""
Bytes of a body handed on in the very turn of the event loop in which they arrive.

Waiting in `StreamReader.read` costs a future, a turn of the loop and a step of the task for every read, which is more than an event costs. So while nothing is
buffered an Inlet stands where the reader keeps the future of whoever waits, and is woken as that would be. It hands on what arrived when the connection
has parsed all that came with it (`OwnConnector`): never from inside the parser, which is not to be entered twice.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextvars import Context
from typing import Any

__all__ = ["Inlet"]


class Inlet:
    """
    One wait that hands on every piece that arrives, of at most `limit` bytes, by `take` and in `context`, until `take` returns False or raises.

    It ends at whatever is no data as well: then the next read meets it.
    """

    __slots__ = ("_busy", "_content", "_context", "_ended", "_failure", "_limit", "_protocol", "_take", "woken")

    def __init__(self, content: Any, protocol: Any, limit: int, take: Callable[[bytes], bool], context: Context) -> None:
        self._content = content
        self._protocol = protocol
        self._limit = limit
        self._take = take
        self._context = context
        self._ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._failure: BaseException | None = None
        self._busy = False
        self.woken = False

    async def wait(self) -> None:
        """
        Until it ends; what `take` raised is raised here.
        """
        content, protocol = self._content, self._protocol
        content._waiter, protocol.inlet = self, self
        try:
            await self._ended
        finally:
            protocol.inlet = None
            if content._waiter is self:
                content._waiter = None
            # Also where the wait is cancelled in the turn in which `take` raised: nobody else knows of it.
            self._raise()

    def _raise(self) -> None:
        failure, self._failure = self._failure, None
        try:
            if failure is not None:
                raise failure
        finally:
            # It holds the frames it passed, and they must not hold it.
            del failure

    def run(self) -> None:
        """
        Hand on what is there; called behind the parser, and when the connection is gone.
        """
        if self._busy:
            # A read lets the parser go on with what it held back.
            return
        content, goes_on = self._content, not self._ended.done()
        self._busy, self.woken = True, False
        try:
            while content._buffer and goes_on:
                piece = content._read_nowait(-1 if content._size <= self._limit else self._limit)
                goes_on = self._context.run(self._take, piece)
        except BaseException as error:
            self._failure, goes_on = error, False
        self._busy = False
        if goes_on and not content._eof and content._exception is None:
            content._waiter = self
        elif not self._ended.done():
            self._ended.set_result(None)

    # What a StreamReader does with who waits for it -------------------------------------------------------------------------------------------------

    def done(self) -> bool:
        """
        There is always more to be told.
        """
        return False

    def set_result(self, result: None) -> None:
        """
        Something came, or the end: the connection calls `run` next.
        """
        self.woken = True

    def set_exception(self, error: BaseException) -> None:
        """
        A failure may come from anywhere.
        """
        self.woken = True
        self._ended.get_loop().call_soon(self.run)
