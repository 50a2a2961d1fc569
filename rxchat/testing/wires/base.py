"""
What a wire encoder is: the other direction of a dialect, from a scripted answer to the frames its provider would send.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import attrs

from rxchat.errors import ConfigurationError
from rxchat.response import MediaPart
from rxchat.strictjson import dumps
from rxchat.testing.answers import FakeAnswer
from rxchat.testing.asked import FakeRequest

__all__ = ["Delta", "Wire", "asks_stream", "cannot_say", "data_url", "json_bytes", "sse"]


class Delta(bytes):
    """
    A frame with a piece of text, thinking or arguments: what `FakeAnswer.tokens_per_second` counts. Where a wire marks none, every frame counts.
    """

    __slots__ = ()


def asks_stream(request: FakeRequest) -> bool:
    """
    Whether the request's body has `"stream": true`, as most protocols want it.
    """
    return request.asks_stream


@attrs.frozen
class Wire:
    """
    How one dialect says things. All bytes are whole frames: an SSE event with its blank line, an NDJSON line, an AWS message, an array's element with its
    comma or bracket.
    """

    content_type: str
    # The frames of an answer, one item each.
    frames: Callable[[FakeAnswer], Iterator[bytes]]
    # The JSON body of an answer that is not streamed, where the dialect has one.
    whole: Callable[[FakeAnswer], bytes] | None
    # The provider's own error frame in the middle of a stream, with this message.
    error: Callable[[str], bytes]
    # A frame of a known kind whose JSON is broken (AWS: whose CRC is).
    malformed: bytes
    # Status and message -> content type and body of a refusal, in the provider's own shape.
    refusal: Callable[[int, str], tuple[str, bytes]]
    # A sign of life, where there is one.
    heartbeat: bytes | None
    # What follows /<dialect> in the base URL that presets and the provider's own library use: "/v1".
    base: str
    # Whether a request asks for a stream.
    streams: Callable[[FakeRequest], bool] = asks_stream
    # Which wire answers a request, where the dialect has several (by the path, say); None: this one.
    choose: Callable[[FakeRequest], Wire] | None = None


def sse(data: Mapping[str, Any] | str, event: str | None = None) -> bytes:
    """
    One SSE event; a mapping goes as compact JSON.
    """
    name = f"event: {event}\n" if event is not None else ""
    return f"{name}data: {data if isinstance(data, str) else dumps(data)}\n\n".encode()


def json_bytes(value: Any) -> bytes:
    """
    A whole body.
    """
    return dumps(value).encode()


def cannot_say(dialect: str, what: object, why: str = "") -> ConfigurationError:
    """
    The error for a part or a finish reason that the dialect's wire has no words for.
    """
    named = what if isinstance(what, str) else type(what).__name__
    return ConfigurationError(f"{dialect} has no way to say {named}{f': {why}' if why else ''}")


def data_url(part: MediaPart) -> str:
    """
    Media as a data URL.
    """
    return f"data:{part.mime or 'application/octet-stream'};base64,{part.data or ''}"
