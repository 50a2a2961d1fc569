"""
What a tool returns, as it goes to the model: a text, plain JSON, or a list of text and media parts.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import attrs

from rxchat import strictjson
from rxchat.errors import ProtocolError
from rxchat.prompt import image
from rxchat.response import MediaPart, TextPart
from rxchat.toolschema.structuring import unstructure

__all__ = ["ToolAnswer", "UnsendableResult", "as_result"]


@attrs.frozen
class ToolAnswer:
    """
    What a tool returns that wants to say itself whether it failed.
    """

    result: Any
    is_error: bool = False


class UnsendableResult(TypeError):
    """
    A tool returned what no provider can be told.
    """


_IMAGES: Mapping[bytes, str] = {
    b"\x89PNG\r\n\x1a\n": "image/png",
    b"\xff\xd8\xff": "image/jpeg",
    b"GIF87a": "image/gif",
    b"GIF89a": "image/gif",
}


def as_result(value: Any) -> Any:
    """
    The value as a tool result; UnsendableResult for what is neither text, JSON nor media.

    Values of attrs classes, dataclasses, enums, dates and so on become JSON. Bytes are taken for an image if they begin like one; other bytes need
    `rxchat.image`, `rxchat.audio` or `rxchat.file`, which know a media type. A list with a part in it becomes a list of parts.
    """
    if isinstance(value, str):
        return _text(value)
    if isinstance(value, (bytes, bytearray)):
        return [_image(bytes(value))]
    if isinstance(value, (TextPart, MediaPart)):
        return [value]
    if isinstance(value, (list, tuple)) and any(isinstance(item, (TextPart, MediaPart, bytes, bytearray)) for item in value):
        return [part for item in value for part in _parts(item)]
    return _plain(value)


def _parts(item: Any) -> list[TextPart | MediaPart]:
    result = as_result(item)
    if isinstance(result, list) and result and all(isinstance(part, (TextPart, MediaPart)) for part in result):
        return result
    return [TextPart(result if isinstance(result, str) else strictjson.dumps(result))]


def _text(value: str) -> str:
    try:
        value.encode()
    except UnicodeEncodeError as error:
        raise UnsendableResult(f"the text holds a lone surrogate at {error.start}") from None
    return str(value)


def _image(data: bytes) -> MediaPart:
    mime = next((mime for start, mime in _IMAGES.items() if data.startswith(start)), None)
    if data[:4] == b"RIFF" and data[8:12] == b"WEBP":
        mime = "image/webp"
    if mime is None:
        raise UnsendableResult("bytes say nothing of their media type; return rxchat.image, audio or file")
    return image(data, mime)


def _plain(value: Any) -> Any:
    """
    The value as JSON reads it back, so that it is the same before and after it was stored.
    """
    try:
        return strictjson.loads(strictjson.dumps(unstructure(value)))
    except (TypeError, ValueError, RecursionError, ProtocolError) as error:
        raise UnsendableResult(f"{type(value).__name__} cannot be said in JSON: {error}") from error
