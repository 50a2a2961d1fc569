"""
Which framer reads a response, decided by status and content type before its first byte (contract B3, P7), and what is read of a refused one (contract D6).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from datetime import UTC
from email.utils import parsedate_to_datetime
from http import HTTPStatus
from typing import Protocol
from urllib.parse import urlsplit

from rxchat.dialects.base import Dialect
from rxchat.errorbody import read_error_body
from rxchat.errors import ContentTypeError, FramingError, HTTPStatusError, TransportError
from rxchat.events import ChatEvent
from rxchat.limits import Limits
from rxchat.stage import Emit, Stage

__all__ = ["RefusedBody", "ResponseHead", "media_type", "refuse", "retry_after_seconds"]

# 201 and 203 are what some application servers and proxies make of a 200.
_ANSWERS = frozenset({200, 201, 203})
_SHOULD_RETRY = {"true": True, "false": False}
_REQUEST_IDS = ("x-request-id", "request-id", "x-amzn-requestid", "apim-request-id", "x-dashscope-request-id")


class ResponseHead(Protocol):
    """
    What is known of a response before its body. Header names are compared without case.
    """

    @property
    def status(self) -> int:
        """
        The HTTP status.
        """
        ...

    @property
    def headers(self) -> Mapping[str, str]:
        """
        The headers as sent.
        """
        ...


class RefusedBody(Stage[bytes, ChatEvent]):
    """
    Collects the body of a refused response up to `limit` bytes, then raises what `make` makes of it; reading stops there.

    A transfer that breaks off meanwhile, or a body whose compression nobody can undo, changes nothing: the refusal was known from the head. Being aborted
    does.
    """

    def __init__(self, make: Callable[[bytes], TransportError], limit: int) -> None:
        self._make = make
        self._limit = limit
        self._body = bytearray()

    def feed(self, item: bytes, emit: Emit[ChatEvent]) -> None:
        self._body += item[: self._limit - len(self._body)]
        if len(self._body) >= self._limit:
            raise self._error()

    def flush(self, emit: Emit[ChatEvent]) -> None:
        raise self._error()

    def fail(self, error: Exception, emit: Emit[ChatEvent]) -> None:
        if isinstance(error, (TransportError, FramingError)):
            raise self._error() from error

    def _error(self) -> TransportError:
        return self._make(bytes(self._body))


def refuse(
    dialect: Dialect, head: ResponseHead, profile: str = "default", limits: Limits | None = None, clock: Callable[[], float] = time.time
) -> str | RefusedBody:
    """
    The name of the framer that reads the body, or the stage that reads why it was refused.

    In the profile strict_text a refusal is raised here and the body never read. `clock` is Unix time in seconds, for a Retry-After that is a date.
    """
    headers = {name.lower(): value for name, value in head.headers.items()}
    strict = profile == "strict_text"
    kind = media_type(headers.get("content-type"))
    framing = next(iter(dialect.framings.values())) if kind is None else dialect.framings.get(kind)
    if head.status != 200 if strict else head.status not in _ANSWERS:
        make = _status_error(head.status, headers, clock)
    elif framing is None or (strict and framing == "json"):
        make = _type_error(head.status, headers.get("content-type"))
    else:
        return framing
    if strict:
        raise make(b"")
    return RefusedBody(make, (limits or Limits()).error_body)


def media_type(content_type: str | None) -> str | None:
    """
    The bare media type in lower case, without parameters; None if there is none.
    """
    return (content_type or "").split(";", 1)[0].strip().lower() or None


def retry_after_seconds(headers: Mapping[str, str], now: float) -> float | None:
    """
    How long to wait, from lower-case headers: milliseconds where they are said, else seconds or an HTTP date; never negative.
    """
    milliseconds = _number(headers.get("retry-after-ms"))
    if milliseconds is not None:
        return milliseconds / 1000
    said = headers.get("retry-after")
    seconds = _number(said)
    if seconds is not None or not said:
        return seconds
    try:
        date = parsedate_to_datetime(said)
        # A date of HTTP is one of GMT, also where it does not say so.
        return max(0.0, (date if date.tzinfo else date.replace(tzinfo=UTC)).timestamp() - now)
    except (ValueError, OverflowError):
        return None


def _number(text: str | None) -> float | None:
    try:
        number = float(text or "")
    except ValueError:
        return None
    return number if 0 <= number < 1e9 else None


def _status_error(status: int, headers: Mapping[str, str], clock: Callable[[], float]) -> Callable[[bytes], TransportError]:
    def make(body: bytes) -> HTTPStatusError:
        said = read_error_body(body)
        wait = retry_after_seconds(headers, clock())
        error = HTTPStatusError(
            _redirect(status, headers) or said.message or f"HTTP {status} {_phrase(status)}".rstrip(),
            status=status,
            headers=headers,
            body=body,
            code=said.code,
            type=said.type or _type_in(headers),
            request_id=next((headers[name] for name in _REQUEST_IDS if headers.get(name)), said.request_id),
            retry_after=said.retry_after if wait is None else wait,
        )
        # OpenAI and Anthropic say so themselves; their word counts more than the status.
        error.retryable = _SHOULD_RETRY.get(headers.get("x-should-retry", "").lower(), error.retryable)
        return error

    return make


def _type_in(headers: Mapping[str, str]) -> str | None:
    """
    What kind of failure it is, where AWS says so: a name, maybe with an address behind a colon.
    """
    return headers.get("x-amzn-errortype", "").partition(":")[0].strip() or None


def _redirect(status: int, headers: Mapping[str, str]) -> str | None:
    """
    Where it was to go, by host alone: the rest may hold a key.
    """
    if not 300 <= status < 400 or not headers.get("location"):
        return None
    try:
        host = urlsplit(headers["location"]).netloc.rpartition("@")[2]
    except ValueError:
        return None
    return f"HTTP {status} {_phrase(status)}: a redirect to {host or 'another path of this host'}; redirects are not followed"


def _type_error(status: int, content_type: str | None) -> Callable[[bytes], TransportError]:
    def make(body: bytes) -> ContentTypeError:
        said = read_error_body(body).message
        message = f"the response is {content_type}, which this dialect does not read"
        return ContentTypeError(f"{message}: {said}" if said else message, content_type=content_type, status=status, body=body)

    return make


def _phrase(status: int) -> str:
    try:
        return HTTPStatus(status).phrase
    except ValueError:
        return ""
