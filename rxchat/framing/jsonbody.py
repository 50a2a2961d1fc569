"""
The non-streamed answer: one JSON value as the whole body (contract P7).
"""

from __future__ import annotations

from rxchat.errors import ContentTypeError, IncompleteStreamError, InvalidJSONError, LimitExceeded
from rxchat.framing.base import TextFramer
from rxchat.framing.frames import JsonBody
from rxchat.limits import Limits
from rxchat.stage import Emit
from rxchat.strictjson import loads

__all__ = ["BodyCollector", "JsonBodyFramer"]

_SPACE = b" \t\r\n"


class BodyCollector:
    """
    Collects a JSON body from its first byte that is no white space, and parses it at the end.
    """

    __slots__ = ("_body", "_limits")

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._body = bytearray()

    def take(self, data: bytes, at: int) -> None:
        """
        More bytes; `at` is the position behind them.
        """
        if not self._body:
            data = data.lstrip(_SPACE)
            if data and data[0] not in b"{[":
                error = ContentTypeError("the body is announced as JSON but is not")
                error.offset = at - len(data)
                raise error
        self._body += data
        limit = self._limits.event
        if len(self._body) > limit:
            raise LimitExceeded("event", limit, at - len(self._body) + limit)

    def finish(self, at: int) -> JsonBody:
        """
        The body is over; `at` is its size.
        """
        if not self._body:
            raise IncompleteStreamError("the body is empty", at)
        start = at - len(self._body)
        try:
            value = loads(bytes(self._body), offset=start, depth=self._limits.json_depth)
        except InvalidJSONError as error:
            if error.offset == at:
                raise IncompleteStreamError("the body ends inside its JSON", at) from error
            raise
        return JsonBody(value, start, at)


class JsonBodyFramer(TextFramer[JsonBody]):
    """
    One JsonBody at the end of the body; white space may surround it, `start` is its first byte.

    A body that does not begin with a brace or bracket is refused at that byte (ContentTypeError); one that is empty or cut off is IncompleteStreamError.
    The `event` limit counts the bytes from the first brace on; lines mean nothing here.
    """

    def __init__(self, limits: Limits | None = None) -> None:
        super().__init__(limits)
        self._collector = BodyCollector(self._limits)

    def _take(self, data: bytes, emit: Emit[JsonBody]) -> None:
        self._collector.take(data, self._at)

    def _finish(self, emit: Emit[JsonBody]) -> None:
        emit(self._collector.finish(self._at))
