"""
What all of Bedrock's event streams share: which event a frame is, exceptions as errors, the trace of a guardrail.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from rxchat.dialects.base import integer, mapping, string
from rxchat.errorbody import ErrorInfo, read_error
from rxchat.errors import InvalidJSONError, ProviderError
from rxchat.events import ContentFilter
from rxchat.framing.frames import AwsMessage
from rxchat.strictjson import loads

__all__ = ["event_name", "findings", "payload_of", "payload_start"]


def event_name(message: AwsMessage) -> str:
    """
    The event a frame carries; ProviderError for the frames that end the stream: an exception (its type is the code), or an error without a payload.
    """
    headers = message.headers
    kind = headers.get(":message-type")
    if kind == "exception":
        raise _exception(string(headers.get(":exception-type")) or "exception", message)
    if kind == "error":
        code = string(headers.get(":error-code"))
        text = string(headers.get(":error-message")) or code or "the service reported an error"
        raise ProviderError(text, code=code, retryable=ErrorInfo(code=code).retryable, raw=dict(headers), offset=message.start)
    return string(headers.get(":event-type")) or str(kind)


def _exception(kind: str, message: AwsMessage) -> ProviderError:
    value = payload_of(message)
    info = read_error(value)
    status = integer(mapping(value).get("originalStatusCode")) or info.status
    return ProviderError(
        info.message or kind,
        code=kind,
        type=kind,
        status=status,
        request_id=info.request_id,
        retryable=ErrorInfo(code=kind, status=status).retryable,
        raw=value,
        offset=message.start,
    )


def payload_of(message: AwsMessage) -> Any:
    """
    A payload nobody promised: its JSON, else its text, bytes that are no text as escapes.
    """
    try:
        return loads(message.payload)
    except InvalidJSONError:
        return message.payload.decode("utf-8", "backslashreplace")


def payload_start(message: AwsMessage) -> int:
    """
    Where the payload begins in the body: it ends 4 bytes before the message, which are its checksum.
    """
    return max(message.end - 4 - len(message.payload), message.start)


def findings(trace: Any) -> list[ContentFilter]:
    """
    What a guardrail's trace says, each once: by category and whether it was blocked; masking and mere detection are not blocked (contract V7).

    The matched words are private data and stay in the trace.
    """
    found = (
        ContentFilter(string(item.get("type")) or string(item.get("name")) or kind, blocked=item["action"] == "BLOCKED")
        for kind, item in _assessed("guardrail", trace)
        if item.get("detected") is not False
    )
    return list(dict.fromkeys(found))


def _assessed(kind: str, value: Any) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """
    All that has an action, however deep: every policy nests its findings in its own way.
    """
    if isinstance(value, list):
        for item in value:
            yield from _assessed(kind, item)
    elif isinstance(value, dict):
        if string(value.get("action")):
            yield kind, value
        for name, item in value.items():
            yield from _assessed(name, item)
