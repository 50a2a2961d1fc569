"""
What every request builder is made of: `ModelCall` (what is asked of whom), `WireRequest` (what is sent) and the checks they share.

A builder is a pure function `build(call) -> WireRequest`: no I/O, no clock. What its provider cannot do is a ConfigurationError that names the option and
the dialect; nothing is dropped in silence.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import attrs

from rxchat.call_keys import is_local_id
from rxchat.errors import ConfigurationError
from rxchat.outgoing.addresses import masked_url
from rxchat.prompt import JsonSchema, Message, RequestOptions, Role, ToolSpec
from rxchat.response import MediaPart, TextPart, ToolCall, ToolResultPart
from rxchat.strictjson import dumps

__all__ = [
    "INVALID_JSON",
    "ModelCall",
    "WireRequest",
    "bearer",
    "data_url",
    "drop_none",
    "in_parts",
    "known_tool",
    "merge_extra",
    "named",
    "pick",
    "refuse_media",
    "refuse_options",
    "result_text",
    "results_of",
    "schema_of",
    "split_system",
    "tool_names",
    "whole_arguments",
    "wire_id",
]

# Under this key stands what a model wrote in the place of an arguments object.
INVALID_JSON = "INVALID_JSON"


@attrs.frozen
class ModelCall:
    """
    One request in our own terms. `options` are the preset's quirks by name (as of its dialect), `request` how to answer.
    """

    model: str
    messages: tuple[Message, ...]
    base_url: str = attrs.field(repr=masked_url)
    api_key: str | None = attrs.field(default=None, repr=False)
    tools: tuple[ToolSpec, ...] = ()
    request: RequestOptions = attrs.field(factory=RequestOptions)
    options: Mapping[str, Any] = attrs.field(factory=dict)


@attrs.frozen
class WireRequest:
    """
    One HTTP request. Headers may hold a key, so they have no repr. `auth` "sigv4" has the client sign it for AWS before sending.
    """

    url: str = attrs.field(repr=masked_url)
    body: Mapping[str, Any]
    headers: Mapping[str, str] = attrs.field(factory=dict, repr=False)
    method: str = "POST"
    auth: str | None = None

    @property
    def content(self) -> bytes:
        """
        The body as sent: compact JSON, keys in the order the builder gave them.
        """
        return dumps(self.body).encode()


def refuse_options(call: ModelCall, dialect: str, *names: str) -> None:
    """
    ConfigurationError if the caller set one of the RequestOptions `names`, which this dialect has no field for.
    """
    unset = RequestOptions()
    said = [name for name in names if getattr(call.request, name) != getattr(unset, name)]
    if said:
        raise ConfigurationError(f"{dialect} has no way to say {', '.join(said)}")


def refuse_media(dialect: str, kind: str, why: str = "") -> ConfigurationError:
    """
    The error for a kind of content the dialect cannot send.
    """
    return ConfigurationError(f"{dialect} cannot take {kind}{f': {why}' if why else ''}")


def split_system(messages: tuple[Message, ...]) -> tuple[str | None, tuple[Message, ...]]:
    """
    System texts joined by a blank line, and the rest: for protocols that keep them apart.
    """
    texts = [message.text for message in messages if message.role is Role.SYSTEM]
    return "\n\n".join(texts) if texts else None, tuple(message for message in messages if message.role is not Role.SYSTEM)


def results_of(message: Message) -> tuple[ToolResultPart, ...]:
    """
    The results a tool message holds; ConfigurationError for anything else in it.
    """
    for part in message.parts:
        if not isinstance(part, ToolResultPart):
            raise ConfigurationError(f"a tool message holds tool results, not {type(part).__name__}")
    return tuple(part for part in message.parts if isinstance(part, ToolResultPart))


def pick(metadata: Mapping[str, Any] | None, *names: str) -> dict[str, Any]:
    """
    What this provider wants back with a call; another's means nothing to it.
    """
    return {name: metadata[name] for name in names if name in metadata} if metadata else {}


def result_text(part: ToolResultPart) -> str:
    """
    A tool result as text: a text as it is, parts by their text, anything else as compact JSON.

    A tool has run when this is asked, so media that a protocol has no field for here are no error: the model reads what it cannot be shown.
    """
    if isinstance(part.result, str):
        return part.result
    if in_parts(part.result):
        return "".join(item.text if isinstance(item, TextPart) else _in_words(item) for item in part.result)
    return dumps(part.result)


def in_parts(result: Any) -> bool:
    """
    Whether a tool result is a list of texts and media.
    """
    return isinstance(result, (list, tuple)) and bool(result) and all(isinstance(item, (TextPart, MediaPart)) for item in result)


def _in_words(part: MediaPart) -> str:
    what = " ".join(word for word in (part.kind, part.mime, part.name) if word)
    return f"[{what}: {part.url}]" if part.url else f"[{what}, {len(part.content)} bytes, which cannot be shown here]"


def tool_names(message: Message) -> dict[str, str]:
    """
    Names of the tools called in a message, by call id: for protocols that want the name beside a result.
    """
    return {part.id: part.name for part in message.parts if isinstance(part, ToolCall)}


def named(messages: tuple[Message, ...]) -> Iterator[tuple[Message, Mapping[str, str]]]:
    """
    Each message with the names of the tools called until then: a provider that counts its ids anew for each answer uses one for several calls.
    """
    names: dict[str, str] = {}
    for message in messages:
        names |= tool_names(message)
        yield message, names


def merge_extra(body: dict[str, Any], extra: Mapping[str, Any]) -> dict[str, Any]:
    """
    The body with the caller's own fields on top; objects are merged key by key, None removes a field.
    """
    merged = dict(body)
    for key, value in extra.items():
        own = merged.get(key)
        if value is None:
            merged.pop(key, None)
        elif isinstance(own, Mapping) and isinstance(value, Mapping):
            merged[key] = merge_extra(dict(own), value)
        else:
            merged[key] = value
    return merged


def schema_of(response_format: str | JsonSchema | None) -> JsonSchema | None:
    """
    The schema of a structured answer, None for plain "json" or nothing; ConfigurationError for another word.
    """
    if isinstance(response_format, JsonSchema):
        return response_format
    if response_format not in (None, "text", "json"):
        raise ConfigurationError(f'response_format is "text", "json" or a JsonSchema, not {response_format!r}')
    return None


def drop_none(**fields: Any) -> dict[str, Any]:
    """
    The fields that were said.
    """
    return {key: value for key, value in fields.items() if value is not None}


def bearer(call: ModelCall) -> dict[str, str]:
    """
    The headers of a JSON request with a bearer key, if there is a key.
    """
    return {"content-type": "application/json"} | ({"authorization": f"Bearer {call.api_key}"} if call.api_key else {})


def data_url(part: MediaPart) -> str:
    """
    The media as a data URL.
    """
    return f"data:{part.mime or 'application/octet-stream'};base64,{part.data or ''}"


def known_tool(choice: str, tools: tuple[ToolSpec, ...]) -> ToolSpec:
    """
    The tool that `tool_choice` names; ConfigurationError if it is not among the tools.
    """
    for tool in tools:
        if tool.name == choice:
            return tool
    raise ConfigurationError(f"tool_choice names {choice!r}, which is not among the tools")


def whole_arguments(call: ToolCall) -> Mapping[str, Any]:
    """
    The arguments of a call as an object, for protocols that carry them so; ConfigurationError for a call that was never whole.

    A whole call whose text is no JSON object was answered with an error; the model gets its text back in the wrapping that Anthropic gives such a text.
    """
    if call.arguments is None and call.complete and call.kind == "function":
        return {INVALID_JSON: call.arguments_text}
    if call.arguments is None:
        raise ConfigurationError(f"tool call {call.id} has no whole arguments and cannot be sent back")
    return call.arguments


def wire_id(call_id: str) -> str | None:
    """
    The id of a call, None for one that was made up here, which means nothing to the provider (contract P5).
    """
    return call_id if call_id and not is_local_id(call_id) else None
