"""
Which proxy a request goes through, and how that proxy is told who asks; its credentials travel as a header and stand in no address (contract S).
"""

from __future__ import annotations

import base64
import urllib.request
from collections.abc import Mapping
from typing import Any
from urllib.parse import unquote, urlsplit

import aiohttp
import attrs

from rxchat.client.settings import HttpSettings
from rxchat.errors import ConfigurationError
from rxchat.outgoing.addresses import masked_url, secrets_in

__all__ = ["Route", "proxy_of", "route_of"]

LOOPBACK = frozenset({"localhost", "127.0.0.1", "::1"})


@attrs.frozen
class Route:
    """
    The way to a server: directly, or by `proxy`, an address without credentials. `secrets` are what the proxy could echo of them.
    """

    proxy: str | None = None
    headers: Mapping[str, str] = attrs.field(factory=dict, repr=False)
    secrets: tuple[str, ...] = attrs.field(default=(), repr=False)

    def arguments(self, url: str, headers: Mapping[str, str]) -> dict[str, Any]:
        """
        `headers`, `proxy` and `proxy_headers` of aiohttp's request: a tunnel gets the proxy's own headers, else they go with the request.
        """
        if self.proxy is None:
            return {"headers": headers}
        if url.startswith("https:"):
            return {"headers": headers, "proxy": self.proxy, "proxy_headers": self.headers}
        return {"headers": {**headers, **self.headers}, "proxy": self.proxy}


DIRECT = Route()


def route_of(url: str, settings: HttpSettings, own_session: bool) -> Route:
    """
    The proxy of the settings, else the environment's; a session of the caller's knows its own. ConfigurationError for a proxy that cannot be one.
    """
    proxy = settings.proxy or (proxy_of(url) if own_session else None)
    if not proxy:
        return DIRECT
    proxy = proxy if "://" in proxy else f"http://{proxy}"
    try:
        parts = urlsplit(proxy)
        usable = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        usable = False
    if not usable:
        raise ConfigurationError(f"the proxy {masked_url(proxy)} is none we can use: it is named like http://host:port")
    word = _credentials(proxy, settings.proxy_auth)
    headers = {**({"Proxy-Authorization": word} if word else {}), **(settings.proxy_headers or {})}
    address = parts._replace(netloc=parts.netloc.rpartition("@")[2]).geturl()
    return Route(address, headers, secrets_in(proxy) + _told(headers))


def _credentials(proxy: str, auth: aiohttp.BasicAuth | None) -> str | None:
    if auth is not None:
        return auth.encode()
    parts = urlsplit(proxy)
    if parts.username is None:
        return None
    return "Basic " + base64.b64encode(f"{unquote(parts.username)}:{unquote(parts.password or '')}".encode()).decode()


def _told(headers: Mapping[str, str]) -> tuple[str, ...]:
    """
    What of the proxy's headers is secret: the credentials, and for Basic the password in them.
    """
    told = [value.partition(" ")[2] or value for name, value in headers.items() if name.lower() == "proxy-authorization"]
    for word in tuple(told):
        try:
            told.append(base64.b64decode(word, validate=True).decode().partition(":")[2])
        except ValueError:
            pass
    return tuple(secret for secret in told if len(secret) > 3)


def proxy_of(url: str) -> str | None:
    """
    The proxy the environment names for this address; never one for this machine.
    """
    parts = urlsplit(url)
    host = parts.hostname or ""
    if host in LOOPBACK or urllib.request.proxy_bypass(host):
        return None
    return urllib.request.getproxies().get(parts.scheme)
