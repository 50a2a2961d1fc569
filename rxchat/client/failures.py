"""
What can go wrong with a transfer, in our words: one table from aiohttp's exceptions to ours.
"""

from __future__ import annotations

from collections.abc import Callable
from urllib.parse import urlsplit

import aiohttp
from aiohttp import http_exceptions

from rxchat.errors import ConfigurationError, ConnectError, ConnectionLostError, ConnectTimeout, FramingError, ReadTimeout, RxchatError
from rxchat.outgoing.addresses import masked_url

__all__ = ["from_aiohttp"]

# The first class that fits counts. `{host}` is host and port, never the path: some providers carry the key in it. `{why}` is the system's own word.
TABLE: tuple[tuple[type[BaseException], Callable[[str], RxchatError], str], ...] = (
    (aiohttp.ConnectionTimeoutError, ConnectTimeout, "no connection to {host} in time"),
    (aiohttp.SocketTimeoutError, ReadTimeout, "{host} was silent for too long"),
    (aiohttp.ClientConnectorCertificateError, ConnectError, "the certificate of {host} is not valid: {why}"),
    (aiohttp.ClientConnectorDNSError, ConnectError, "there is no host {host}, or no network: {why}"),
    (aiohttp.ClientConnectorError, ConnectError, "cannot connect to {host}: {why}"),
    (aiohttp.ClientHttpProxyError, ConnectError, "the proxy refused the connection to {host}: {why}"),
    (aiohttp.InvalidURL, ConfigurationError, "{url} is not a web address"),
    (aiohttp.NonHttpUrlClientError, ConfigurationError, "{url} is not a web address"),
    (http_exceptions.ContentEncodingError, FramingError, "the compressed body of {host} is broken"),
    (aiohttp.ClientPayloadError, ConnectionLostError, "{host} broke the transfer off before its end"),
    (aiohttp.ServerDisconnectedError, ConnectionLostError, "{host} closed the connection without an answer"),
    (aiohttp.ClientResponseError, FramingError, "{host} does not speak HTTP: {why}"),
    (aiohttp.ClientError, ConnectionLostError, "the connection to {host} was lost: {why}"),
    (OSError, ConnectionLostError, "the connection to {host} was lost: {why}"),
    (Exception, ConfigurationError, "the request cannot be sent: {why}"),
)

# Exceptions that hold the request's headers, or its URL.
SHOWING = (aiohttp.ClientResponseError, aiohttp.InvalidURL, ValueError)


def from_aiohttp(error: BaseException, url: str) -> RxchatError:
    """
    Our error for what aiohttp raised, to be raised outside its `except`.

    It is the cause, but for those that show the request's headers or its URL, key and all, to whoever prints them (contract S).
    """
    cause = error.__cause__ if isinstance(error.__cause__, http_exceptions.ContentEncodingError) else error
    make, words = next((make, words) for kind, make, words in TABLE if isinstance(cause, kind))
    made = make(words.format(host=_host(url), url=masked_url(url), why=_why(error)))
    made.__cause__ = None if isinstance(error, SHOWING) else error
    return made


def _host(url: str) -> str:
    try:
        return urlsplit(url).netloc.rpartition("@")[2] or masked_url(url)
    except ValueError:
        return masked_url(url)


def _why(error: BaseException) -> str:
    """
    The system's word for it, without aiohttp's frame around it.
    """
    inner = error.os_error if isinstance(error, aiohttp.ClientConnectorError) else error
    words = getattr(inner, "strerror", None) or getattr(inner, "message", None) or str(inner)
    return str(words or type(inner).__name__)
