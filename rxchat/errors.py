"""
Every error rxchat raises, and the verdicts that name an outcome (contract V4).

    RxchatError                      .verdict .retryable .response .offset on every one
      ConfigurationError             a wrong option, an unknown dialect, a key that is missing
      TransportError
        ConnectError                 no connection, or no TLS
        ConnectionLostError          the transfer broke off
        TransportTimeout             ConnectTimeout, FirstEventTimeout, ReadTimeout, TotalTimeout
        HTTPStatusError              status >= 400 (or any that is not the answer asked for)
        ContentTypeError             status 200, but not a body the dialect can read
      ProtocolError                  the bytes are not what the protocol promises
        DecodeError                  not UTF-8
        FramingError                 not SSE, NDJSON, a JSON array, an AWS event stream
        InvalidJSONError             not strict JSON
        DialectError                 JSON, but not this provider's
        IncompleteStreamError        ended without the protocol's own end
      LimitExceeded                  a bound of `Limits` was passed
      ProviderError                  the provider reported a failure inside the stream
      IncompleteFinishError          the answer ended, but not as an answer (only from `raise_for_verdict`)
      AbortedError, CancelledStreamError, ToolError, StoreError
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import TYPE_CHECKING, Any, ClassVar

if TYPE_CHECKING:
    from rxchat.response import ChatResponse

__all__ = [
    "AbortedError",
    "CancelledStreamError",
    "ConfigurationError",
    "ConnectError",
    "ConnectTimeout",
    "ConnectionLostError",
    "ContentTypeError",
    "DecodeError",
    "DialectError",
    "FirstEventTimeout",
    "FramingError",
    "HTTPStatusError",
    "IncompleteFinishError",
    "IncompleteStreamError",
    "InvalidJSONError",
    "LimitExceeded",
    "ProtocolError",
    "ProviderError",
    "ReadTimeout",
    "RxchatError",
    "StoreError",
    "ToolError",
    "TotalTimeout",
    "TransportError",
    "TransportTimeout",
    "Verdict",
    "verdict_of",
]


class Verdict(StrEnum):
    """
    How a response ended (contract V4). Only COMPLETE may become history.
    """

    COMPLETE = "COMPLETE"
    INCOMPLETE_FINISH = "INCOMPLETE_FINISH"
    INCOMPLETE_STREAM = "INCOMPLETE_STREAM"
    PROTOCOL = "PROTOCOL"
    PROVIDER_ERROR = "PROVIDER_ERROR"
    INVALID_JSON = "INVALID_JSON"
    INVALID_UTF8 = "INVALID_UTF8"
    FRAMING = "FRAMING"
    LIMIT = "LIMIT"
    CONTENT_TYPE = "CONTENT_TYPE"
    HTTP_STATUS = "HTTP_STATUS"
    CONNECT = "CONNECT"
    CONNECTION_LOST = "CONNECTION_LOST"
    READ_TIMEOUT = "READ_TIMEOUT"
    CONNECT_TIMEOUT = "CONNECT_TIMEOUT"
    FIRST_EVENT_TIMEOUT = "FIRST_EVENT_TIMEOUT"
    TOTAL_TIMEOUT = "TOTAL_TIMEOUT"
    CANCELLED = "CANCELLED"
    ABORTED = "ABORTED"
    TOOL = "TOOL"
    STORE = "STORE"


class RxchatError(Exception):
    """
    The base of all errors of this library.

    `response` is the partial answer, set when the error passes the fold (contract V2); `offset` is a byte position counted from the start of the body.
    """

    verdict: ClassVar[Verdict | None] = None
    retryable: bool = False
    offset: int | None = None
    response: ChatResponse | None = None

    # What providers say about a failure; None where nobody said it. Only some classes set them.
    code: str | int | None = None
    type: str | None = None
    status: int | None = None
    request_id: str | None = None
    retry_after: float | None = None

    @property
    def message(self) -> str:
        """
        The bare message, without position.
        """
        return str(self.args[0]) if self.args else ""

    def __reduce__(self) -> tuple[Any, ...]:
        """
        Copied and pickled as it is: what an __init__ asks for is not in `args`, and a process pool must be able to hand the error on.
        """
        return _again, (type(self), self.args), self.__dict__


class ConfigurationError(RxchatError, ValueError):
    """
    The caller asked for something that cannot be; nothing was sent.
    """


class TransportError(RxchatError):
    """
    The network or the server, not the protocol.
    """


class ConnectError(TransportError):
    """
    No connection: refused, no such host, TLS failed.
    """

    verdict = Verdict.CONNECT
    retryable = True


class ConnectionLostError(TransportError):
    """
    The transfer broke off before its end.
    """

    verdict = Verdict.CONNECTION_LOST
    retryable = True


class TransportTimeout(TransportError):
    """
    A time budget ran out (contract D2); `budget` in seconds.
    """

    retryable = True

    def __init__(self, message: str, budget: float | None = None) -> None:
        super().__init__(message)
        self.budget = budget


class ConnectTimeout(TransportTimeout):
    """
    No connection within the budget.
    """

    verdict = Verdict.CONNECT_TIMEOUT


class FirstEventTimeout(TransportTimeout):
    """
    No content within the budget, counted from the request.
    """

    verdict = Verdict.FIRST_EVENT_TIMEOUT


class ReadTimeout(TransportTimeout):
    """
    No byte within the idle budget, counted from the headers, then from each read (contract P15).
    """

    verdict = Verdict.READ_TIMEOUT


class TotalTimeout(TransportTimeout):
    """
    The whole response took longer than its budget.
    """

    verdict = Verdict.TOTAL_TIMEOUT


RETRYABLE_STATUS = frozenset({408, 409, 425, 429, 500, 502, 503, 504, 529})


class HTTPStatusError(TransportError):
    """
    The server refused (contract D6). `body` is bounded; `retry_after` in seconds; `code` and `type` as the provider's body says.
    """

    verdict = Verdict.HTTP_STATUS

    def __init__(
        self,
        message: str,
        *,
        status: int,
        headers: Mapping[str, str] | None = None,
        body: bytes = b"",
        code: str | int | None = None,
        type: str | None = None,
        request_id: str | None = None,
        retry_after: float | None = None,
    ) -> None:
        super().__init__(message)
        self.status = status
        self.headers = dict(headers or {})
        self.body = body
        self.code = code
        self.type = type
        self.request_id = request_id
        self.retry_after = retry_after
        self.retryable = status in RETRYABLE_STATUS


class ContentTypeError(TransportError):
    """
    The body is not of a type the dialect reads (contract B3, P7).
    """

    verdict = Verdict.CONTENT_TYPE

    def __init__(self, message: str, *, content_type: str | None = None, status: int | None = None, body: bytes = b"") -> None:
        super().__init__(message)
        self.content_type = content_type
        self.status = status
        self.body = body


class ProtocolError(RxchatError):
    """
    The bytes break a rule of their protocol. `offset` is where, `stage` is who found it.
    """

    verdict = Verdict.PROTOCOL
    stage: ClassVar[str] = "protocol"

    def __init__(self, message: str, offset: int | None = None) -> None:
        super().__init__(message)
        self.offset = offset

    def __str__(self) -> str:
        return self.message if self.offset is None else f"{self.message} (at byte {self.offset})"


class DecodeError(ProtocolError):
    """
    Not UTF-8; `offset` is the first byte of the bad sequence (contract B1).
    """

    verdict = Verdict.INVALID_UTF8
    stage = "decode"


class FramingError(ProtocolError):
    """
    The transport framing is broken (contract B3).
    """

    verdict = Verdict.FRAMING
    stage = "frame"

    def __init__(self, message: str, offset: int | None = None, kind: str = "framing") -> None:
        super().__init__(message, offset)
        self.kind = kind


class InvalidJSONError(ProtocolError):
    """
    Not strict JSON (contract B4). `reason` is a short word: syntax, duplicate_key, depth, non_finite, surrogate, ...
    """

    verdict = Verdict.INVALID_JSON
    stage = "json"

    def __init__(self, message: str, offset: int | None = None, reason: str = "syntax") -> None:
        super().__init__(message, offset)
        self.reason = reason


class DialectError(ProtocolError):
    """
    Well-formed, but not what this provider's protocol allows here (contract E11).
    """

    stage = "parse"


class IncompleteStreamError(ProtocolError):
    """
    The body ended without its protocol's own end, however whole the text looks (contract V5, P9).
    """

    verdict = Verdict.INCOMPLETE_STREAM
    stage = "parse"
    retryable = True
    kind = "truncated"


class LimitExceeded(RxchatError):
    """
    A bound of `Limits` was passed (contract B5); `limit` is its name, `value` what it was set to.
    """

    verdict = Verdict.LIMIT

    def __init__(self, limit: str, value: float, offset: int | None = None) -> None:
        super().__init__(f"the limit {limit}={value} was passed")
        self.limit = limit
        self.value = value
        self.offset = offset

    def __str__(self) -> str:
        return self.message if self.offset is None else f"{self.message} (at byte {self.offset})"


class ProviderError(RxchatError):
    """
    The provider said that it failed, inside an accepted response. `code`, `type` as sent; `status` is an HTTP number; `raw` is its error object.
    """

    verdict = Verdict.PROVIDER_ERROR

    def __init__(
        self,
        message: str,
        *,
        code: str | int | None = None,
        type: str | None = None,
        status: int | None = None,
        request_id: str | None = None,
        retry_after: float | None = None,
        retryable: bool = False,
        raw: Any = None,
        offset: int | None = None,
    ) -> None:
        super().__init__(message)
        self.code = code
        self.type = type
        self.status = status
        self.request_id = request_id
        self.retry_after = retry_after
        self.retryable = retryable
        self.raw = raw
        self.offset = offset


class IncompleteFinishError(RxchatError):
    """
    The answer ended by length, filter, refusal, pause or without a reason (contract V6); raised only by `raise_for_verdict`.
    """

    verdict = Verdict.INCOMPLETE_FINISH


class AbortedError(RxchatError):
    """
    The response was aborted by the provider or by `Call.abort`.
    """

    verdict = Verdict.ABORTED


class CancelledStreamError(RxchatError):
    """
    The response was disposed of before its end.
    """

    verdict = Verdict.CANCELLED


class ToolError(RxchatError):
    """
    A tool could not be run as the policy demands (contract T2).
    """

    verdict = Verdict.TOOL


class StoreError(RxchatError):
    """
    The history store failed; nothing was committed (contract H).
    """

    verdict = Verdict.STORE


def _again(kind: type[RxchatError], args: tuple[Any, ...]) -> RxchatError:
    return kind.__new__(kind, *args)


def verdict_of(error: BaseException) -> Verdict:
    """
    The verdict of a response that failed with `error`: what the error says, else (also for errors that are not ours) that it had no proper end.
    """
    return getattr(error, "verdict", None) or Verdict.INCOMPLETE_STREAM
