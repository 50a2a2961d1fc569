"""
The table from aiohttp's exceptions to ours.
"""

from __future__ import annotations

import ssl
from types import SimpleNamespace
from typing import Any

import aiohttp
import pytest
from aiohttp import http_exceptions

from rxchat.client.failures import from_aiohttp
from rxchat.errors import ConfigurationError, ConnectError, ConnectionLostError, ConnectTimeout, FramingError, ReadTimeout, RxchatError

URL = "https://api.example.com:8443/v1/chat?key=sk-secret"
SHOWN = "https://api.example.com:8443/v1/chat?key=[key]"
KEY: Any = SimpleNamespace(host="api.example.com", port=8443, ssl=True, is_ssl=True)
INFO: Any = SimpleNamespace(real_url=URL, headers={"Authorization": "Bearer sk-secret"}, url=URL, method="POST")


def caused(error: Exception, cause: Exception) -> Exception:
    """
    An exception with its cause, as aiohttp raises it.
    """
    error.__cause__ = cause
    return error


CASES: list[tuple[Exception, type[RxchatError], str]] = [
    (aiohttp.ConnectionTimeoutError("slow"), ConnectTimeout, "no connection to api.example.com:8443 in time"),
    (aiohttp.SocketTimeoutError("slow"), ReadTimeout, "api.example.com:8443 was silent for too long"),
    (
        aiohttp.ClientConnectorCertificateError(KEY, ssl.SSLCertVerificationError("self-signed certificate")),
        ConnectError,
        "the certificate of api.example.com:8443 is not valid: ",
    ),
    (
        aiohttp.ClientConnectorDNSError(KEY, OSError(-2, "Name or service not known")),
        ConnectError,
        "there is no host api.example.com:8443, or no network: Name or service not known",
    ),
    (
        aiohttp.ClientConnectorSSLError(KEY, OSError(1, "wrong version number")),
        ConnectError,
        "cannot connect to api.example.com:8443: wrong version number",
    ),
    (
        aiohttp.ClientConnectorError(KEY, OSError(111, "Connection refused")),
        ConnectError,
        "cannot connect to api.example.com:8443: Connection refused",
    ),
    (
        aiohttp.ClientHttpProxyError(INFO, (), status=407, message="Proxy Authentication Required"),
        ConnectError,
        "the proxy refused the connection to api.example.com:8443: Proxy Authentication Required",
    ),
    (aiohttp.InvalidURL("htp:/x"), ConfigurationError, f"{SHOWN} is not a web address"),
    (aiohttp.NonHttpUrlClientError("ftp://x"), ConfigurationError, f"{SHOWN} is not a web address"),
    (
        caused(aiohttp.ClientPayloadError("bad"), http_exceptions.ContentEncodingError("bad")),
        FramingError,
        "the compressed body of api.example.com:8443 is broken",
    ),
    (aiohttp.ClientPayloadError("bad"), ConnectionLostError, "api.example.com:8443 broke the transfer off before its end"),
    (aiohttp.ServerDisconnectedError(), ConnectionLostError, "api.example.com:8443 closed the connection without an answer"),
    (
        aiohttp.ClientResponseError(INFO, (), status=400, message="Bad status line"),
        FramingError,
        "api.example.com:8443 does not speak HTTP: Bad status line",
    ),
    (
        aiohttp.ClientOSError(104, "Connection reset by peer"),
        ConnectionLostError,
        "the connection to api.example.com:8443 was lost: Connection reset by peer",
    ),
    (OSError(32, "Broken pipe"), ConnectionLostError, "the connection to api.example.com:8443 was lost: Broken pipe"),
    (aiohttp.ClientConnectionError(), ConnectionLostError, "the connection to api.example.com:8443 was lost: ClientConnectionError"),
    (ValueError("a header with a line end"), ConfigurationError, "the request cannot be sent: a header with a line end"),
]


@pytest.mark.parametrize("error, kind, words", CASES, ids=[type(error).__name__ for error, _, _ in CASES])
def test_each_exception_has_its_word(error: Exception, kind: type[RxchatError], words: str) -> None:
    """
    Class and sentence; host and port only, and the system's own word.
    """
    made = from_aiohttp(error, URL)
    assert (type(made), str(made)[: len(words)]) == (kind, words)


def test_the_request_stays_hidden() -> None:
    """
    The cause is kept, but not the one that would show the request's headers.
    """
    shown = aiohttp.ClientOSError(104, "Connection reset by peer")
    hidden = aiohttp.ClientResponseError(INFO, (), status=400)
    address = aiohttp.InvalidURL(URL)
    assert [from_aiohttp(error, URL).__cause__ for error in (shown, hidden, address)] == [shown, None, None]


@pytest.mark.parametrize("url, host", [("http://user:word@h:1/x", "h:1"), ("nonsense", "nonsense"), ("http://[::1", "http://[::1")])
def test_the_host_is_named_without_credentials(url: str, host: str) -> None:
    """
    Never a user's name and word, and never a failure of its own.
    """
    assert str(from_aiohttp(aiohttp.ServerDisconnectedError(), url)) == f"{host} closed the connection without an answer"
