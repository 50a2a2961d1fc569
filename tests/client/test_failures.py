"""
The table from aiohttp's exceptions to ours.
"""

from __future__ import annotations

import ssl
from types import SimpleNamespace
from typing import Any

import aiohttp
import pytest

from rxchat.client.failures import from_aiohttp
from rxchat.errors import ConfigurationError, ConnectError, ConnectionLostError, ConnectTimeout, FramingError, ReadTimeout, RxchatError

URL = "https://api.example.com:8443/v1/chat?key=sk-secret"
SHOWN = "https://api.example.com:8443/v1/chat?key=[key]"
KEY: Any = SimpleNamespace(host="api.example.com", port=8443, ssl=True, is_ssl=True)
PROXY: Any = SimpleNamespace(host="proxy.example.com", port=3128, ssl=True, is_ssl=False, proxy="http://user:word@proxy.example.com:3128")
INFO: Any = SimpleNamespace(real_url=URL, headers={"Authorization": "Bearer sk-secret"}, url=URL, method="POST")


AGAIN = {aiohttp.ServerFingerprintMismatch: False, aiohttp.ClientConnectorCertificateError: False, aiohttp.ClientHttpProxyError: False}

CASES: list[tuple[Exception, type[RxchatError], str]] = [
    (aiohttp.ConnectionTimeoutError("slow"), ConnectTimeout, "no connection to api.example.com:8443 in time"),
    (aiohttp.SocketTimeoutError("slow"), ReadTimeout, "api.example.com:8443 was silent for too long"),
    (
        aiohttp.ClientConnectorCertificateError(KEY, ssl.SSLCertVerificationError(1, "self-signed certificate")),
        ConnectError,
        "the certificate of api.example.com:8443 is not valid: self-signed certificate",
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
        aiohttp.ServerFingerprintMismatch(b"a", b"b", "api.example.com", 8443),
        ConnectError,
        "the certificate of api.example.com:8443 is not the one that was asked for",
    ),
    (
        aiohttp.ClientProxyConnectionError(PROXY, OSError(111, "Connection refused")),
        ConnectError,
        "cannot connect to the proxy proxy.example.com:3128: Connection refused",
    ),
    (
        aiohttp.ClientConnectorError(KEY, OSError(111, "Connection refused")),
        ConnectError,
        "cannot connect to api.example.com:8443: Connection refused",
    ),
    (
        aiohttp.ClientHttpProxyError(INFO, (), status=407, message="Proxy Authentication Required"),
        ConnectError,
        "the proxy refused the connection to api.example.com:8443: 407 Proxy Authentication Required",
    ),
    (aiohttp.InvalidURL("htp:/x"), ConfigurationError, f"{SHOWN} is not a web address"),
    (aiohttp.NonHttpUrlClientError("ftp://x"), ConfigurationError, f"{SHOWN} is not a web address"),
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


@pytest.mark.parametrize(
    "error, again", [(error, again) for error, kind, _ in CASES if kind is ConnectError for again in [AGAIN.get(type(error), True)]]
)
def test_what_another_attempt_meets_again_is_not_retried(error: Exception, again: bool) -> None:
    """
    D5: a certificate stays as it is; a proxy is asked again where its status says so.
    """
    assert from_aiohttp(error, URL).retryable is again


@pytest.mark.parametrize("status, again", [(403, False), (407, False), (502, True), (503, True)])
def test_a_proxy_says_by_its_status_whether_to_ask_again(status: int, again: bool) -> None:
    """
    The status is kept too.
    """
    made = from_aiohttp(aiohttp.ClientHttpProxyError(INFO, (), status=status, message="No"), URL)
    assert (made.status, made.retryable, str(made)) == (status, again, f"the proxy refused the connection to api.example.com:8443: {status} No")


def test_the_request_stays_hidden() -> None:
    """
    The cause is kept, but not one that would show the request's headers, or the key of a connection with a proxy's password.
    """
    system = OSError(111, "Connection refused")
    assert from_aiohttp(aiohttp.ClientProxyConnectionError(PROXY, system), URL).__cause__ is system
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
