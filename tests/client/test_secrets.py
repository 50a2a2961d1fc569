"""
Keys stay out of errors.
"""

from __future__ import annotations

from typing import Any

import pytest

from rxchat.client.secrets import hide, mask, secrets_of
from rxchat.errors import ContentTypeError, HTTPStatusError, ProviderError, RxchatError
from rxchat.testing import FakeProvider, Fault

KEY = "sk-0123456789"


@pytest.mark.parametrize(
    "value, expected",
    [
        (f"key {KEY} is wrong", "key [key] is wrong"),
        (f"{KEY}{KEY}".encode(), b"[key][key]"),
        ({"a": [KEY, {"b": (KEY,)}], "n": 1}, {"a": ["[key]", {"b": ("[key]",)}], "n": 1}),
        (None, None),
        (401, 401),
    ],
)
def test_a_secret_is_masked_wherever_it_is(value: Any, expected: Any) -> None:
    """
    In texts, bytes, and what is made of them.
    """
    assert mask(value, (KEY,)) == expected


@pytest.mark.parametrize(
    "error",
    [
        HTTPStatusError(f"no {KEY}", status=401, headers={"x-echo": KEY}, body=KEY.encode(), code=KEY, type=KEY, request_id=KEY),
        ProviderError(f"no {KEY}", code=KEY, type=KEY, request_id=KEY, raw={"message": KEY}),
        ContentTypeError(f"no {KEY}", content_type=f"text/{KEY}", body=KEY.encode()),
    ],
    ids=["status", "provider", "content-type"],
)
def test_no_field_of_an_error_holds_it(error: RxchatError) -> None:
    """
    All that a provider can echo a key in.
    """
    hide(error, (KEY,))
    assert KEY not in f"{error!s} {error.args!r} {vars(error)!r}"


def test_credentials_in_headers() -> None:
    """
    Of the headers by which one signs in, without their scheme; what is too short to be one, and all other headers, may be repeated.
    """
    headers = {"Authorization": f"Bearer {KEY}", "x-team-token": "team-0123456789", "x-key": "short", "user-agent": "something long"}
    assert secrets_of(headers) == (KEY, "team-0123456789")


@pytest.mark.parametrize("header", ["Authorization", "x-gateway-key"])
async def test_a_key_in_a_header_of_the_callers_is_masked(header: str) -> None:
    """
    As the model's own key is.
    """
    async with FakeProvider(Fault(status=401, message=f"no access with {KEY}")) as provider:
        with pytest.raises(HTTPStatusError, match=r"no access with \[key\]") as raised:
            await provider.model("openai-chat").call("Hi", extra_headers={header: KEY})
    assert KEY not in repr(vars(raised.value))


def test_without_secrets_nothing_changes() -> None:
    """
    No key, nothing to do.
    """
    error = ProviderError("as it was", raw={"message": "as it was"})
    hide(error, ())
    assert (error.message, error.raw) == ("as it was", {"message": "as it was"})
