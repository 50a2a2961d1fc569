"""
What can go wrong with a transfer, in our words: one table from aiohttp's exceptions to ours.

Neither a message nor a cause shows the request's headers, the path or query of its address, or anything of a proxy but host and port (contract S).
"""

from __future__ import annotations

import os
import ssl
from collections.abc import Callable
from urllib.parse import urlsplit

import aiohttp
from aiohttp import http_exceptions

from rxchat.errors import (
    RETRYABLE_STATUS,
    ConfigurationError,
    ConnectError,
    ConnectionLostError,
    ConnectTimeout,
    FramingError,
    ReadTimeout,
    RxchatError,
)
from rxchat.outgoing.addresses import masked_url

__all__ = ["from_aiohttp", "proxy_refusal"]

# The first class that fits counts. `{host}` is host and port, never the path: some providers carry the key in it. `{peer}` is who was connected to, which
# may be a proxy; `{why}` is the system's own word.
TABLE: tuple[tuple[type[BaseException], Callable[[str], RxchatError], str], ...] = (
    (aiohttp.ConnectionTimeoutError, ConnectTimeout, "no connection to {host} in time"),
    (aiohttp.SocketTimeoutError, ReadTimeout, "{host} was silent for too long"),
    (aiohttp.ServerFingerprintMismatch, ConnectError, "the certificate of {host} is not the one that was asked for"),
    (aiohttp.ClientConnectorCertificateError, ConnectError, "the certificate of {host} is not valid: {why}"),
    (aiohttp.ClientConnectorDNSError, ConnectError, "there is no host {peer}, or no network: {why}"),
    (aiohttp.ClientProxyConnectionError, ConnectError, "cannot connect to the proxy {peer}: {why}"),
    (aiohttp.ClientConnectorError, ConnectError, "cannot connect to {host}: {why}"),
    (aiohttp.ClientHttpProxyError, ConnectError, "the proxy refused the connection to {host}: {why}"),
    (aiohttp.InvalidURL, ConfigurationError, "{url} is not a web address"),
    (aiohttp.NonHttpUrlClientError, ConfigurationError, "{url} is not a web address"),
    (aiohttp.ClientPayloadError, ConnectionLostError, "{host} broke the transfer off before its end"),
    (aiohttp.ServerDisconnectedError, ConnectionLostError, "{host} closed the connection without an answer"),
    (http_exceptions.HttpProcessingError, FramingError, "{host} does not speak HTTP: {why}"),
    (aiohttp.ClientResponseError, FramingError, "{host} does not speak HTTP: {why}"),
    (aiohttp.ClientError, ConnectionLostError, "the connection to {host} was lost: {why}"),
    (OSError, ConnectionLostError, "the connection to {host} was lost: {why}"),
    (Exception, ConfigurationError, "the request cannot be sent: {why}"),
)

# Those that hold the request's headers or its address. (A wrong certificate is a ValueError too.)
SHOWING = (aiohttp.ClientResponseError, http_exceptions.HttpProcessingError, aiohttp.InvalidURL, ValueError)
# What another attempt meets again.
LASTING = (aiohttp.ServerFingerprintMismatch, aiohttp.ClientConnectorCertificateError)


def from_aiohttp(error: BaseException, url: str) -> RxchatError:
    """
    Our error for what aiohttp raised, to be raised outside its `except`.
    """
    if isinstance(error, aiohttp.ClientHttpProxyError):
        return proxy_refusal(error.status, error.message, url)
    make, words = next((make, words) for kind, make, words in TABLE if isinstance(error, kind))
    made = make(words.format(host=_host(url), url=masked_url(url), why=_why(error), peer=_peer(error)))
    made.__cause__ = _shown(error)
    if isinstance(error, LASTING):
        made.retryable = False
    return made


def proxy_refusal(status: int, reason: str | None, url: str) -> ConnectError:
    """
    A proxy that did not let us through; asked again only where its status says that it may.
    """
    made = ConnectError(f"the proxy refused the connection to {_host(url)}: {status} {reason or ''}".rstrip())
    made.status, made.retryable = status, status in RETRYABLE_STATUS
    return made


def _shown(error: BaseException) -> BaseException | None:
    """
    The cause to show: none that holds headers, address or the key of a connection, which names the proxy's password.
    """
    if isinstance(error, SHOWING) and not isinstance(error, ssl.SSLError):
        return None
    if isinstance(error, aiohttp.ClientConnectorCertificateError):
        return error.certificate_error
    return error.os_error if isinstance(error, aiohttp.ClientConnectorError) else error


def _host(url: str) -> str:
    try:
        return urlsplit(url).netloc.rpartition("@")[2] or masked_url(url)
    except ValueError:
        return masked_url(url)


def _peer(error: BaseException) -> str:
    return f"{error.host}:{error.port}" if isinstance(error, aiohttp.ClientConnectorError) else ""


def _why(error: BaseException) -> str:
    """
    The system's word for it, without aiohttp's frame around it.
    """
    inner = _shown(error) or error
    if isinstance(inner, OSError) and str(inner.strerror).startswith("Connect call failed"):
        # asyncio says only whom it called.
        return os.strerror(inner.errno or 0)
    words = getattr(inner, "verify_message", None) or getattr(inner, "strerror", None) or getattr(inner, "message", None) or str(inner)
    # aiohttp's parser shows the bytes at fault on further lines.
    return str(words or type(inner).__name__).partition("\n")[0].rstrip(":")
