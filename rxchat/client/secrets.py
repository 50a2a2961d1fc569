"""
Keys stay out of what a provider echoes: many a refusal repeats the key it refuses (contract S).
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from typing import Any

from rxchat.errors import RxchatError
from rxchat.outgoing.addresses import MASK

__all__ = ["hide", "mask", "secrets_of"]

# The headers by which one signs in, as they are called with us and with the caller's own gateways.
_SIGNS_IN = re.compile("auth|key|token|secret", re.IGNORECASE)
# What is shorter may be a word of the message.
_SHORTEST = 8

# Where our errors keep what a provider said.
FIELDS = ("args", "code", "type", "request_id", "headers", "body", "raw", "content_type")


def secrets_of(headers: Mapping[str, str]) -> tuple[str, ...]:
    """
    What a provider could echo of a request's headers: the credentials in them, without the word for their scheme.
    """
    values = [value.partition(" ")[2] or value for name, value in headers.items() if _SIGNS_IN.search(name)]
    return tuple(value for value in values if len(value) >= _SHORTEST)


def hide(error: RxchatError, secrets: Collection[str]) -> None:
    """
    Take the secrets out of everything the error carries.
    """
    for name in FIELDS if secrets else ():
        value = getattr(error, name, None)
        if value is not None:
            setattr(error, name, mask(value, secrets))


def mask(value: Any, secrets: Collection[str]) -> Any:
    """
    The value without the secrets: texts, bytes, and what is made of them.
    """
    if isinstance(value, str):
        for secret in secrets:
            value = value.replace(secret, MASK)
        return value
    if isinstance(value, bytes):
        for secret in secrets:
            value = value.replace(secret.encode(), MASK.encode())
        return value
    if isinstance(value, dict):
        return {key: mask(inner, secrets) for key, inner in value.items()}
    if isinstance(value, (list, tuple)):
        return type(value)(mask(inner, secrets) for inner in value)
    return value
