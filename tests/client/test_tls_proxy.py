"""
Certificates and proxies: what is verified, which way a request goes, and that no password of a proxy shows anywhere.
"""

from __future__ import annotations

import asyncio
import base64
import hashlib
import logging
import ssl
import traceback
from collections.abc import AsyncIterator, Awaitable, Callable
from datetime import UTC, datetime
from typing import Any

import aiohttp
import pytest
import trustme

from rxchat.client import ChatModel, HttpSettings
from rxchat.client.http_body import new_session
from rxchat.client.proxies import proxy_of, route_of
from rxchat.errors import ConfigurationError, ConnectError, HTTPStatusError, RxchatError, Verdict
from tests.client.proxying import proxying
from tests.client.watching import Serve
from tests.loopback import GOOD, Loopback, Script, answer

NAME = "api.example.test"
# RFC 7617 in UTF-8, quoted in the address.
USER, WORD = "prx-user", "pr0xy:w@rd"
QUOTED = "prx-user:pr0xy%3Aw%40rd@"
BASIC = base64.b64encode(f"{USER}:{WORD}".encode()).decode()
SECRETS = (WORD, "pr0xy%3Aw%40rd", BASIC)

ServeTls = Callable[..., Awaitable[Loopback]]


@pytest.fixture(scope="module")
def authority() -> trustme.CA:
    """
    Who signs our certificates.
    """
    return trustme.CA(key_type=trustme.KeyType.ECDSA)


@pytest.fixture
def trusting(authority: trustme.CA) -> ssl.SSLContext:
    """
    A context that trusts it, and nobody else.
    """
    context = ssl.create_default_context()
    authority.configure_trust(context)
    return context


@pytest.fixture
async def serve_tls(authority: trustme.CA) -> AsyncIterator[ServeTls]:
    """
    Servers with certificates for `names`.
    """
    servers: list[Loopback] = []

    async def start(script: Script, *names: str, not_after: datetime | None = None) -> Loopback:
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        authority.issue_cert(*names, not_after=not_after).configure_cert(context)
        servers.append(await Loopback(script, tls=context).start())
        return servers[-1]

    yield start
    for server in servers:
        await server.aclose()


@pytest.fixture(autouse=True)
def no_proxies(monkeypatch: pytest.MonkeyPatch) -> None:
    """
    The environment of the tests names no proxy by itself.
    """
    for scheme in ("http", "https", "all", "no"):
        monkeypatch.delenv(f"{scheme}_proxy", raising=False)
        monkeypatch.delenv(f"{scheme.upper()}_PROXY", raising=False)


async def asked(url: str, session: aiohttp.ClientSession | None = None, **settings: Any) -> str:
    """
    The answer's text; by default the request is sent once.
    """
    model = ChatModel("test-1", base_url=url, api_key="sk-secret", settings=HttpSettings(**{"retry": None, **settings}), session=session)
    answered = await model.call("Hi")
    assert answered.verdict is Verdict.COMPLETE
    return answered.text


async def failing(url: str, session: aiohttp.ClientSession | None = None, **settings: Any) -> RxchatError:
    """
    How it failed. No secret shows in it, whoever prints it.
    """
    with pytest.raises(RxchatError) as caught:
        await asked(url, session, **settings)
    shows_nothing(caught.value)
    return caught.value


def shows_nothing(error: BaseException) -> None:
    """
    Neither the error nor what it is chained to shows a secret.
    """
    shown = ["".join(traceback.format_exception(error))]
    link: BaseException | None = error
    while link is not None:
        shown += [repr(link), str(link), repr(link.args), repr(getattr(link, "headers", None)), repr(getattr(link, "body", None))]
        link = link.__cause__ or link.__context__
    assert not [secret for secret in (*SECRETS, "sk-secret") for text in shown if secret in text]


# --- certificates ---------------------------------------------------------------------------------------------------------------------------------


async def test_a_certificate_of_an_authority_we_trust(serve_tls: ServeTls, trusting: ssl.SSLContext) -> None:
    """
    `ssl` of the settings is what verifies.
    """
    server = await serve_tls(answer(*GOOD), "127.0.0.1")
    assert await asked(server.url, ssl=trusting) == "Hello, world."


async def test_one_of_somebody_else_is_refused(serve_tls: ServeTls) -> None:
    """
    V4: CONNECT, naming the certificate and why; not tried again, and nothing was sent.
    """
    server = await serve_tls(answer(*GOOD), "127.0.0.1")
    error = await failing(server.url, retry=HttpSettings().retry)
    assert (type(error), error.verdict, error.retryable, server.seen) == (ConnectError, Verdict.CONNECT, False, [])
    assert str(error) == f"the certificate of 127.0.0.1:{server.port} is not valid: unable to get local issuer certificate"
    assert isinstance(error.__cause__, ssl.SSLCertVerificationError)


async def test_one_for_another_name_is_refused(serve_tls: ServeTls, trusting: ssl.SSLContext) -> None:
    """
    The right authority, the wrong host.
    """
    server = await serve_tls(answer(*GOOD), "other.example.test")
    error = await failing(server.url, ssl=trusting)
    assert (error.verdict, server.seen) == (Verdict.CONNECT, [])
    assert str(error).startswith(f"the certificate of 127.0.0.1:{server.port} is not valid: IP address mismatch")


async def test_one_that_has_run_out_is_refused(serve_tls: ServeTls, trusting: ssl.SSLContext) -> None:
    """
    Its time counts too.
    """
    server = await serve_tls(answer(*GOOD), "127.0.0.1", not_after=datetime(2020, 1, 1, tzinfo=UTC))
    assert str(await failing(server.url, ssl=trusting)) == f"the certificate of 127.0.0.1:{server.port} is not valid: certificate has expired"


async def test_not_verifying_has_to_be_said(serve_tls: ServeTls) -> None:
    """
    `ssl=False` takes any certificate.
    """
    assert await asked((await serve_tls(answer(*GOOD), "other.example.test")).url, ssl=False) == "Hello, world."


@pytest.mark.parametrize("right", [True, False])
async def test_a_fingerprint_pins_the_certificate(serve_tls: ServeTls, right: bool) -> None:
    """
    The one certificate, or none.
    """
    server = await serve_tls(answer(*GOOD), "127.0.0.1")
    der = await certificate(server)
    pin = aiohttp.Fingerprint(hashlib.sha256(der if right else b"other").digest())
    if right:
        assert await asked(server.url, ssl=pin) == "Hello, world."
        return
    error = await failing(server.url, ssl=pin)
    assert (error.verdict, error.retryable) == (Verdict.CONNECT, False)
    assert str(error) == f"the certificate of 127.0.0.1:{server.port} is not the one that was asked for"


async def certificate(server: Loopback) -> bytes:
    """
    The server's certificate as it shows it.
    """
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    _, writer = await asyncio.open_connection("127.0.0.1", server.port, ssl=context)
    der: bytes = writer.get_extra_info("ssl_object").getpeercert(binary_form=True)
    writer.close()
    await writer.wait_closed()
    return der


async def test_plain_text_where_tls_was_expected(serve: Serve) -> None:
    """
    https to a server of http.
    """
    server = await serve(answer(*GOOD))
    error = await failing(server.url.replace("http:", "https:"))
    assert (error.verdict, str(error).startswith(f"cannot connect to 127.0.0.1:{server.port}: ")) == (Verdict.CONNECT, True)


async def test_tls_where_plain_text_was_expected(serve_tls: ServeTls) -> None:
    """
    http to a server of https: it closes at our first words.
    """
    server = await serve_tls(answer(*GOOD), "127.0.0.1")
    assert (await failing(server.url.replace("https:", "http:"))).verdict in (Verdict.CONNECTION_LOST, Verdict.FRAMING)


async def test_a_callers_session_keeps_its_own_certificates(serve_tls: ServeTls, trusting: ssl.SSLContext) -> None:
    """
    The settings' default says nothing about them.
    """
    server = await serve_tls(answer(*GOOD), "127.0.0.1")
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(ssl=trusting)) as session:
        assert await asked(server.url, session) == "Hello, world."


# --- the way ----------------------------------------------------------------------------------------------------------------------------------------


async def test_a_tunnel_for_https(serve_tls: ServeTls, trusting: ssl.SSLContext) -> None:
    """
    The proxy sees where to and its own credentials, never the request; the server never sees those.
    """
    server = await serve_tls(answer(*GOOD), NAME)
    async with proxying({NAME: server.port}) as proxy:
        assert await asked(f"https://{NAME}/v1", ssl=trusting, proxy=proxy.url(QUOTED)) == "Hello, world."
    (request,) = proxy.asked
    assert (request.method, request.target, request.headers["proxy-authorization"]) == ("CONNECT", f"{NAME}:443", f"Basic {BASIC}")
    assert "authorization" not in request.headers
    assert ("proxy-authorization" in server.seen[0].headers, server.seen[0].headers["authorization"]) == (False, "Bearer sk-secret")


async def test_forwarding_for_http(serve: Serve) -> None:
    """
    The request goes to the proxy as it is, with the proxy's credentials beside the server's.
    """
    server = await serve(answer(*GOOD))
    async with proxying({NAME: server.port}) as proxy:
        assert await asked(f"http://{NAME}/v1", proxy=proxy.url(QUOTED), proxy_headers={"X-Team": "blue"}) == "Hello, world."
    (request,) = proxy.asked
    assert (request.method, request.target, request.headers["proxy-authorization"], request.headers["x-team"]) == (
        "POST",
        f"http://{NAME}/v1/chat/completions",
        f"Basic {BASIC}",
        "blue",
    )
    assert (server.seen[0].path, "proxy-authorization" in server.seen[0].headers) == ("/v1/chat/completions", False)


@pytest.mark.filterwarnings("ignore:.*BasicAuth:DeprecationWarning")
@pytest.mark.parametrize("scheme", ["http", "https"])
@pytest.mark.parametrize("way", ["address", "proxy_auth", "proxy_headers"])
async def test_credentials_in_each_way_they_may_be_given(serve: Serve, serve_tls: ServeTls, trusting: ssl.SSLContext, scheme: str, way: str) -> None:
    """
    In the address, as `proxy_auth`, as a header.
    """
    server = await (serve(answer(*GOOD)) if scheme == "http" else serve_tls(answer(*GOOD), NAME))
    async with proxying({NAME: server.port}) as proxy:
        ways: dict[str, dict[str, Any]] = {
            "address": {"proxy": proxy.url(QUOTED)},
            "proxy_auth": {"proxy": proxy.url(), "proxy_auth": aiohttp.BasicAuth(USER, WORD, "utf-8")},
            "proxy_headers": {"proxy": proxy.url(), "proxy_headers": {"Proxy-Authorization": f"Basic {BASIC}"}},
        }
        given = ways[way]
        shown = repr(HttpSettings(**given))
        assert await asked(f"{scheme}://{NAME}/v1", ssl=trusting, **given) == "Hello, world."
    assert [request.headers["proxy-authorization"] for request in proxy.asked] == [f"Basic {BASIC}"]
    assert not [secret for secret in SECRETS if secret in shown]


async def test_the_environments_proxy(serve_tls: ServeTls, trusting: ssl.SSLContext, monkeypatch: pytest.MonkeyPatch) -> None:
    """
    HTTPS_PROXY counts where the settings name none, also without a scheme, and also inside `async with`; NO_PROXY exempts.
    """
    server = await serve_tls(answer(*GOOD), NAME)
    async with proxying({NAME: server.port}) as proxy, proxying({NAME: server.port}) as named:
        monkeypatch.setenv("HTTPS_PROXY", f"{QUOTED}127.0.0.1:{proxy.port}")
        await asked(f"https://{NAME}/v1", ssl=trusting)
        async with ChatModel("test-1", base_url=f"https://{NAME}/v1", settings=HttpSettings(ssl=trusting)) as model:
            await model.call("Hi")
        await asked(f"https://{NAME}/v1", ssl=trusting, proxy=named.url())
        assert ([request.headers.get("proxy-authorization") for request in proxy.asked], len(named.asked)) == ([f"Basic {BASIC}"] * 2, 1)
        monkeypatch.setenv("NO_PROXY", "example.test")
        assert proxy_of(f"https://{NAME}/v1") is None


async def test_a_callers_session_knows_its_own_way(serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    """
    Its default proxy and its trust_env are not overruled by the environment or by our absence of a setting; a proxy of the settings is.
    """
    server = await serve(answer(*GOOD))
    ports = {NAME: server.port}
    async with proxying(ports) as own, proxying(ports) as environments, proxying(ports) as settings:
        monkeypatch.setenv("HTTP_PROXY", environments.url())
        async with aiohttp.ClientSession(proxy=own.url()) as session:
            await asked(f"http://{NAME}/v1", session)
            await asked(f"http://{NAME}/v1", session, proxy=settings.url())
        async with aiohttp.ClientSession(trust_env=True) as session:
            await asked(f"http://{NAME}/v1", session)
        monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:1")
        async with aiohttp.ClientSession() as session:
            await asked(server.url, session)
            error = await failing("http://nowhere.invalid/v1", session)
    assert [len(proxy.asked) for proxy in (own, settings, environments)] == [1, 1, 1]
    assert str(error).startswith("there is no host nowhere.invalid")


# --- proxies that refuse --------------------------------------------------------------------------------------------------------------------------


def refusal(status: str) -> bytes:
    """
    A proxy's answer that echoes all it can of who asked.
    """
    page = f"<title>{status}</title> you said Basic {BASIC}, that is {USER}:{WORD}".encode()
    return b"HTTP/1.1 %s\r\ncontent-type: text/html\r\nx-echo: %s\r\ncontent-length: %d\r\n\r\n%s" % (
        status.encode(),
        BASIC.encode(),
        len(page),
        page,
    )


@pytest.mark.parametrize(
    "status, again",
    [("407 Proxy Authentication Required", False), ("403 Forbidden", False), ("502 Bad Gateway", True), ("503 Service Unavailable", True)],
)
async def test_a_tunnel_that_is_refused(status: str, again: bool, trusting: ssl.SSLContext) -> None:
    """
    V4: CONNECT, with the proxy's status; its credentials nowhere.
    """
    async with proxying(refusal=refusal(status)) as proxy:
        error = await failing(f"https://{NAME}/v1", ssl=trusting, proxy=proxy.url(QUOTED))
    assert (type(error), error.verdict, error.status, error.retryable) == (ConnectError, Verdict.CONNECT, int(status[:3]), again)
    assert str(error) == f"the proxy refused the connection to {NAME}: {status}"


async def test_a_forwarding_proxy_that_wants_to_know_who_asks() -> None:
    """
    407 is a proxy's alone, so it is CONNECT here too.
    """
    async with proxying(refusal=refusal("407 Proxy Authentication Required")) as proxy:
        error = await failing(f"http://{NAME}/v1", proxy=proxy.url(QUOTED))
    assert (error.verdict, str(error)) == (Verdict.CONNECT, f"the proxy refused the connection to {NAME}: 407 Proxy Authentication Required")


async def test_a_forwarding_proxy_that_forbids() -> None:
    """
    Nobody can tell whose 403 it is: HTTP_STATUS, and what the page echoes of the proxy's credentials is masked.
    """
    async with proxying(refusal=refusal("403 Forbidden")) as proxy:
        error = await failing(f"http://{NAME}/v1", proxy=proxy.url(QUOTED))
    assert (type(error), error.status, str(error)) == (HTTPStatusError, 403, "403 Forbidden")


@pytest.mark.parametrize("scheme", ["http", "https"])
async def test_a_proxy_that_is_not_there(scheme: str) -> None:
    """
    The proxy is named, by host and port alone.
    """
    async with proxying() as proxy:
        address = proxy.url(QUOTED)
    error = await failing(f"{scheme}://{NAME}/v1", proxy=address)
    assert (error.verdict, str(error)) == (Verdict.CONNECT, f"cannot connect to the proxy 127.0.0.1:{proxy.port}: Connection refused")


@pytest.mark.parametrize("address", ["socks5://{}h:1080", "http://{}", "http://{}h:port", "http://{}h:0", "ftp://{}h"])
async def test_a_proxy_that_cannot_be_one(address: str) -> None:
    """
    Said before anything is sent, without its credentials.
    """
    error = await failing(f"http://{NAME}/v1", proxy=address.format(QUOTED))
    assert isinstance(error, ConfigurationError)
    assert "is none we can use: it is named like http://host:port" in str(error)


async def test_a_server_that_is_not_behind_its_proxy(trusting: ssl.SSLContext, serve_tls: ServeTls) -> None:
    """
    The certificate is the server's own, also through a tunnel.
    """
    server = await serve_tls(answer(*GOOD), "other.example.test")
    async with proxying({NAME: server.port}) as proxy:
        error = await failing(f"https://{NAME}/v1", ssl=trusting, proxy=proxy.url(QUOTED))
    assert str(error).startswith(f"the certificate of {NAME} is not valid: Hostname mismatch")


async def test_nothing_of_it_is_logged(caplog: pytest.LogCaptureFixture, serve: Serve) -> None:
    """
    S: not at the lowest level either, whether it works or fails.
    """
    server = await serve(answer(*GOOD))
    with caplog.at_level(logging.DEBUG):
        async with proxying({NAME: server.port}) as proxy:
            await asked(f"http://{NAME}/v1", proxy=proxy.url(QUOTED))
        await failing(f"http://{NAME}/v1", proxy=proxy.url(QUOTED))
    logged = "\n".join(f"{record.getMessage()} {record.args!r}" for record in caplog.records if record.name != "aiohttp.access")
    assert not [secret for secret in (*SECRETS, "sk-secret") if secret in logged]


async def test_what_is_shown_of_a_route() -> None:
    """
    A repr that somebody logs.
    """
    route = route_of("https://h/v1", HttpSettings(proxy=f"http://{QUOTED}p:1"), True)
    assert repr(route) == "Route(proxy='http://p:1')"
    async with new_session(HttpSettings(proxy=f"http://{QUOTED}p:1")) as session:
        assert WORD not in repr(session)
