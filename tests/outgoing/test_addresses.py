"""
Addresses: put together, judged, and shown without what is secret in them.
"""

from __future__ import annotations

import pytest

from rxchat.errors import ConfigurationError
from rxchat.outgoing.addresses import check_address, endpoint, masked_url, secrets_in
from rxchat.outgoing.common import ModelCall, WireRequest
from rxchat.presets import Preset


@pytest.mark.parametrize(
    "base, operation, expected",
    [
        ("http://h/v1", "/chat/completions", "http://h/v1/chat/completions"),
        ("http://h/v1//", "/chat/completions", "http://h/v1/chat/completions"),
        ("http://h/v1/chat/completions", "/chat/completions", "http://h/v1/chat/completions"),
        ("http://h/v1/chat/completions/", "/chat/completions", "http://h/v1/chat/completions"),
        ("http://h/d?api-version=1", "/chat/completions", "http://h/d/chat/completions?api-version=1"),
        ("http://h/d/?api-version=1&a=b", "/m:stream?alt=sse", "http://h/d/m:stream?alt=sse&api-version=1&a=b"),
        ("http://h/v1/messages", "/v1/messages", "http://h/v1/messages"),
    ],
)
def test_an_operation_below_a_base(base: str, operation: str, expected: str) -> None:
    """
    Never doubled, and the query stays at the end.
    """
    assert expected == endpoint(base, operation)


@pytest.mark.parametrize(
    "url, words",
    [
        ("", "base_url is empty"),
        (" ", "base_url is empty"),
        ("127.0.0.1:8765/ok", "base_url 127.0.0.1:8765/ok does not begin with http:// or https://"),
        ("htp://user:sk-PASSWORD@h/ok", r"base_url htp://\[key\]@h/ok does not begin with http://"),
        ("user:sk-PASSWORD@h/ok", r"base_url \[key\]@h/ok does not begin"),
        ("http://", "names no host"),
    ],
)
def test_an_address_that_cannot_be(url: str, words: str) -> None:
    """
    A sentence without what is secret.
    """
    with pytest.raises(ConfigurationError, match=words) as caught:
        check_address(url)
    assert "PASSWORD" not in str(caught.value)
    check_address("HTTPS://h")


@pytest.mark.parametrize(
    "url, shown",
    [
        ("http://h:1/v1", "http://h:1/v1"),
        ("http://user:pw@h/v1?key=abc&api-version=1", "http://[key]@h/v1?key=[key]&api-version=[key]"),
        ("http://user:p@/?w@h/v1", "http://[key]@h/v1"),
        ("http://user:p://w@h/v1", "http://[key]@h/v1"),
        ("nonsense", "nonsense"),
    ],
)
def test_what_is_shown(url: str, shown: str) -> None:
    """
    Neither user nor the values of the query; in no repr either.
    """
    assert shown == masked_url(url)
    for value in (ModelCall("m", (), url), WireRequest(url, {}), Preset("p", url, "", "")):
        assert shown in repr(value)


@pytest.mark.parametrize(
    "url, secrets",
    [
        ("http://h/v1?api-version=2024-10-21&a=1", ()),
        ("http://user:p%40ssword@h/v1?key=sk-secret", ("dXNlcjpwQHNzd29yZA==", "p@ssword", "p%40ssword", "sk-secret")),
        ("http://u:p@h", ("dTpw",)),
        ("http://[::1", ()),
    ],
)
def test_what_a_provider_could_echo(url: str, secrets: tuple[str, ...]) -> None:
    """
    The password, the Basic value, the query's values; nothing so short that words would be torn.
    """
    assert secrets == secrets_in(url)
