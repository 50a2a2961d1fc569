"""
Amazon Bedrock: ConverseStream and Converse; InvokeModelWithResponseStream and InvokeModel with the words of Claude, or of Nova where the answer's model is one.

Each piece is a message of an AWS event stream, padded by `p` as the service does. Converse says neither an id nor a model.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Iterator, Mapping
from typing import Any
from urllib.parse import urlsplit

from rxchat.outgoing.common import drop_none
from rxchat.response import (
    CitationPart,
    ContentFilterPart,
    FinishReason,
    MediaPart,
    Part,
    RedactedThinkingPart,
    TextPart,
    ThinkingPart,
    ToolCall,
    Usage,
)
from rxchat.testing.answers import FakeAnswer
from rxchat.testing.asked import FakeRequest
from rxchat.testing.wires import aws
from rxchat.testing.wires.base import Delta, Wire, cannot_say, json_bytes
from rxchat.testing.wires.saying import arguments_of, finish_word, metadata_of, refuse_counts, refuse_fields, uncached

__all__ = ["BEDROCK_CONVERSE"]

NAME = "bedrock-converse"
STREAM = "application/vnd.amazon.eventstream"
PADDING = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
_FINISH: Mapping[FinishReason, str] = {
    FinishReason.STOP: "end_turn",
    FinishReason.TOOL_CALLS: "tool_use",
    FinishReason.LENGTH: "max_tokens",
    FinishReason.CONTENT_FILTER: "content_filtered",
    FinishReason.OTHER: "malformed_model_output",
}
_GUARDED = (FinishReason.STOP, FinishReason.TOOL_CALLS, FinishReason.CONTENT_FILTER)

Json = dict[str, Any]
Event = tuple[str, Json]


def converse_events(answer: FakeAnswer) -> Iterator[Event]:
    """
    The events of an answer by their names.
    """
    yield "messageStart", {"role": "assistant"}
    index, cited = 0, False
    for part in answer.parts:
        if isinstance(part, ContentFilterPart):
            continue
        handler = _STREAMED.get(type(part))
        if handler is None:
            raise cannot_say(NAME, part)
        for name, said in handler(part, answer):
            yield name, {"contentBlockIndex": index, **said}
        # A citation stands in the block of the text it is for, in front of it.
        if cited and not isinstance(part, CitationPart | TextPart):
            raise cannot_say(NAME, "a citation that no text follows")
        cited = isinstance(part, CitationPart)
        if not cited:
            yield "contentBlockStop", {"contentBlockIndex": index}
            index += 1
    if cited:
        raise cannot_say(NAME, "a citation that no text follows")
    yield "messageStop", {"stopReason": _stop_reason(answer)}
    yield "metadata", _metadata(answer)


def _frames(answer: FakeAnswer) -> Iterator[bytes]:
    for number, (name, said) in enumerate(converse_events(answer)):
        frame = aws.event(name, {**said, "p": PADDING[: 3 + number * 7 % 50]})
        yield Delta(frame) if name == "contentBlockDelta" else frame


def _stop_reason(answer: FakeAnswer) -> str | None:
    """
    A guardrail's own word where the script has its findings; one that blocked is a content filter.
    """
    findings = [part for part in answer.parts if isinstance(part, ContentFilterPart)]
    blocked = any(part.blocked for part in findings)
    if not findings:
        return finish_word(NAME, answer.reason, _FINISH)
    if answer.reason not in _GUARDED or blocked != (answer.reason is FinishReason.CONTENT_FILTER):
        raise cannot_say(
            NAME, f"these filters beside the finish {answer.reason.value}", "what blocked ends with content_filter, what masked does not"
        )
    return "guardrail_intervened"


def _metadata(answer: FakeAnswer) -> Json:
    found = [part for part in answer.parts if isinstance(part, ContentFilterPart)]
    trace = {"trace": {"guardrail": {"outputAssessments": {"fake-guardrail": [_assessment(found)]}}}} if found else {}
    return {"metrics": {"latencyMs": 100}, **_usage(answer.usage), **trace}


def _assessment(found: list[ContentFilterPart]) -> Json:
    """
    What a guardrail found: content that it blocked, private data that it masked.
    """
    if any(part.text is not None for part in found):
        raise cannot_say(NAME, "the text of a filter")
    blocked = [{"type": part.category, "confidence": "HIGH", "action": "BLOCKED", "detected": True} for part in found if part.blocked]
    masked = [{"type": part.category, "match": "masked", "action": "ANONYMIZED", "detected": True} for part in found if not part.blocked]
    said: Json = {"contentPolicy": {"filters": blocked}} if blocked else {}
    return said | ({"sensitiveInformationPolicy": {"piiEntities": masked, "regexes": []}} if masked else {})


def _usage(usage: Usage | None) -> Json:
    if usage is None:
        return {}
    refuse_counts(NAME, usage, "input_tokens", "output_tokens", "cache_read_tokens", "cache_write_tokens", "total_tokens")
    read, write = usage.cache_read_tokens, usage.cache_write_tokens
    counts = {
        "inputTokens": uncached(NAME, usage),
        "outputTokens": usage.output_tokens,
        "totalTokens": usage.total_tokens,
        "cacheReadInputTokens": read,
        "cacheWriteInputTokens": write,
        "cacheReadInputTokenCount": read,
        "cacheWriteInputTokenCount": write,
    }
    return {"usage": drop_none(**counts)}


# --- blocks in a stream -----------------------------------------------------------------------------------------------------------------------------


def _delta(said: Json) -> Event:
    return "contentBlockDelta", {"delta": said}


def _text(part: TextPart, answer: FakeAnswer) -> Iterator[Event]:
    return (_delta({"text": piece}) for piece in answer.pieces(part.text))


def _thinking(part: ThinkingPart, answer: FakeAnswer) -> Iterator[Event]:
    for piece in answer.pieces(part.text):
        yield _delta({"reasoningContent": {"text": piece}})
    if part.signature:
        yield _delta({"reasoningContent": {"signature": part.signature}})


def _redacted(part: RedactedThinkingPart, answer: FakeAnswer) -> Iterator[Event]:
    yield _delta({"reasoningContent": {"redactedContent": _bytes(part.data, "redacted thinking")}})


def _call(part: ToolCall, answer: FakeAnswer) -> Iterator[Event]:
    metadata_of(NAME, part)
    yield "contentBlockStart", {"start": {"toolUse": {"name": part.name, "toolUseId": part.id}}}
    for piece in ("", *answer.pieces(part.arguments_text)):
        yield _delta({"toolUse": {"input": piece}})


def _image(part: MediaPart, answer: FakeAnswer) -> Iterator[Event]:
    yield "contentBlockStart", {"start": {"image": {"format": _format(part)}}}
    yield _delta({"image": {"source": {"bytes": part.data}}})


def _format(part: MediaPart) -> str:
    refuse_fields(NAME, part, "url", "transcript", "name")
    kind, _, form = (part.mime or "").partition("/")
    if part.kind != "image" or kind != "image" or not part.data:
        raise cannot_say(NAME, f"this {part.kind}", "only images as data, with their mime type")
    _bytes(part.data, "an image")
    return form


def _bytes(text: str, what: str) -> str:
    try:
        base64.b64decode(text, validate=True)
    except ValueError as error:
        raise cannot_say(NAME, what, "its data is base64") from error
    return text


def _cited(part: CitationPart, answer: FakeAnswer) -> Iterator[Event]:
    yield _delta({"citation": _citation(part)})


def _citation(part: CitationPart) -> Json:
    if part.start is not None or part.end is not None:
        raise cannot_say(NAME, "the place of a citation in the answer", "its positions are the source's")
    said: Json = {}
    if part.title is not None:
        said["title"] = part.title
    if part.file is not None:
        said["source"] = part.file
    if part.url is not None:
        said["location"] = {"web": {"url": part.url, "domain": urlsplit(part.url).netloc}}
    return said | ({"sourceContent": [{"text": part.quoted}]} if part.quoted else {})


_STREAMED: Mapping[type, Callable[[Any, FakeAnswer], Iterator[Event]]] = {
    TextPart: _text,
    ThinkingPart: _thinking,
    RedactedThinkingPart: _redacted,
    ToolCall: _call,
    MediaPart: _image,
    CitationPart: _cited,
}


# --- the whole body -------------------------------------------------------------------------------------------------------------------------------


def converse_body(answer: FakeAnswer) -> Json:
    """
    The answer as one object.
    """
    message = {"role": "assistant", "content": list(_blocks(answer.parts))}
    return {"output": {"message": message}, "stopReason": _stop_reason(answer), **_metadata(answer)}


def _blocks(parts: tuple[Part, ...]) -> Iterator[Json]:
    cited: list[Json] = []
    for part in parts:
        if isinstance(part, CitationPart):
            cited.append(_citation(part))
        elif cited and isinstance(part, TextPart):
            yield {"citationsContent": {"citations": cited, "content": [{"text": part.text}]}}
            cited = []
        elif cited:
            break
        elif not isinstance(part, ContentFilterPart):
            yield _block(part)
    if cited:
        raise cannot_say(NAME, "a citation that no text follows")


def _block(part: Part) -> Json:
    if isinstance(part, TextPart):
        return {"text": part.text}
    if isinstance(part, ThinkingPart):
        signature = {"signature": part.signature} if part.signature else {}
        return {"reasoningContent": {"reasoningText": {"text": part.text, **signature}}}
    if isinstance(part, RedactedThinkingPart):
        return {"reasoningContent": {"redactedContent": _bytes(part.data, "redacted thinking")}}
    if isinstance(part, ToolCall):
        metadata_of(NAME, part)
        return {"toolUse": {"toolUseId": part.id, "name": part.name, "input": arguments_of(NAME, part)}}
    if isinstance(part, MediaPart):
        return {"image": {"format": _format(part), "source": {"bytes": part.data}}}
    raise cannot_say(NAME, part)


def refusal(status: int, message: str) -> tuple[str, bytes]:
    """
    The service's answer to a request it does not take; its kind is in the status alone.
    """
    return "application/json", json.dumps({"message": message}, indent=2).encode()


def error(message: str) -> bytes:
    """
    The exception of a model that fails while it answers.
    """
    return aws.failure("modelStreamErrorException", {"message": message, "originalStatusCode": 500})


def _streams(request: FakeRequest) -> bool:
    return request.path.partition("?")[0].endswith("/converse-stream")


BEDROCK_CONVERSE = Wire(
    content_type=STREAM,
    frames=_frames,
    whole=lambda answer: json_bytes(converse_body(answer)),
    error=error,
    malformed=aws.damaged(aws.event("contentBlockDelta", {"contentBlockIndex": 0, "delta": {"text": "damaged"}})),
    refusal=refusal,
    heartbeat=None,
    base="",
    streams=_streams,
)
