"""
Addresses: where an operation is below a base URL, what is wrong with one that somebody typed, and how one is shown.

A URL may hold a password or a key. `masked_url` is the only form of it that a message or a repr may show (contract S).
"""

from __future__ import annotations

import base64
import re
from urllib.parse import parse_qsl, unquote, urlsplit

from rxchat.errors import ConfigurationError

__all__ = ["check_address", "endpoint", "masked_url", "secrets_in"]

MASK = "[key]"
_PARAMETER = re.compile(r"([?&][^=&#]*=)[^&#]*")
# A shorter one would be found in the middle of ordinary words.
_SHORTEST = 4


def endpoint(base_url: str, operation: str) -> str:
    """
    The address of an operation ("/chat/completions"). A query of the base URL stays at the end; an address that has the operation already is taken as it is.
    """
    address, _, query = base_url.partition("?")
    path, _, own = operation.partition("?")
    address = address.rstrip("/")
    whole = address if address.endswith(path) else address + path
    queries = "&".join(filter(None, (own, query)))
    return f"{whole}?{queries}" if queries else whole


def check_address(base_url: str) -> None:
    """
    ConfigurationError for a base URL that cannot be one, in a sentence that says what is missing.
    """
    shown = masked_url(base_url)
    scheme, mark, rest = base_url.partition("://")
    if not base_url.strip():
        raise ConfigurationError("base_url is empty")
    if not mark or scheme.lower() not in ("http", "https"):
        raise ConfigurationError(f"base_url {shown} does not begin with http:// or https://")
    if not rest.strip("/"):
        raise ConfigurationError(f"base_url {shown} names no host")


def masked_url(url: str) -> str:
    """
    The URL without user information and without the values of its query.
    """
    scheme, mark, rest = url.partition("://") if "://" in url else ("", "", url)
    if "@" in rest:
        # Somebody's password may hold any character: all before the last @ goes.
        rest = f"{MASK}@{rest.rpartition('@')[2]}"
    return _PARAMETER.sub(rf"\1{MASK}", f"{scheme}{mark}{rest}")


def secrets_in(url: str) -> tuple[str, ...]:
    """
    What a provider could echo of it: the password, the Basic value made of it, and the values of the query, except for a version.
    """
    try:
        parts = urlsplit(url)
        user, password = unquote(parts.username or ""), unquote(parts.password or "")
    except ValueError:
        return ()
    basic = base64.b64encode(f"{user}:{password}".encode()).decode() if user or password else ""
    values = [value for name, value in parse_qsl(parts.query) if "version" not in name.lower()]
    found = (basic, password, parts.password or "", *values)
    return tuple(dict.fromkeys(secret for secret in found if len(secret) >= _SHORTEST))
