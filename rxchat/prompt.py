"""
What is asked: messages, tools and options, the same for every provider. `outgoing/` turns them into one provider's request.

An assistant message holds the parts of the response it came from (`Message.of`), so that signatures, encrypted items and call ids go back
exactly as they came.
"""

from __future__ import annotations

import base64
import mimetypes
from collections.abc import Iterable, Mapping, Sequence
from enum import StrEnum
from pathlib import Path
from typing import Any, TypeAlias

import attrs

from rxchat.errors import ConfigurationError
from rxchat.response import ChatResponse, MediaPart, Part, TextPart, ToolCall, ToolResultPart

__all__ = ["JsonSchema", "Message", "Prompt", "RequestOptions", "Role", "ToolSpec", "as_messages", "audio", "file", "image", "media_from_path"]


class Role(StrEnum):
    """
    Who speaks.
    """

    SYSTEM = "system"
    USER = "user"
    ASSISTANT = "assistant"
    TOOL = "tool"


@attrs.frozen
class Message:
    """
    One message: a role and its parts. A TOOL message holds only `ToolResultPart`s. `metadata` is what a received answer said beside its parts.
    """

    role: Role
    parts: tuple[Part, ...]
    metadata: Mapping[str, Any] = attrs.field(factory=dict, repr=False)

    @classmethod
    def system(cls, text: str) -> Message:
        """
        Instructions; several are allowed and kept in order.
        """
        return cls(Role.SYSTEM, (TextPart(text),))

    @classmethod
    def user(cls, *content: str | Part) -> Message:
        """
        Texts and media of the user.
        """
        return cls(Role.USER, tuple(TextPart(part) if isinstance(part, str) else part for part in content))

    @classmethod
    def assistant(cls, *content: str | Part) -> Message:
        """
        An answer, part by part; use `of` for one that was received.
        """
        return cls(Role.ASSISTANT, tuple(TextPart(part) if isinstance(part, str) else part for part in content))

    @classmethod
    def of(cls, response: ChatResponse) -> tuple[Message, ...]:
        """
        A received answer, to be carried back as it came: an assistant message a step, each followed by the results of the calls that were run here.
        """
        return tuple(message for step in response.steps or (response,) for message in _step_messages(step))

    @classmethod
    def tool(cls, call: str | ToolCall, result: Any, *, is_error: bool = False) -> Message:
        """
        The result of one tool call: text, anything JSON, or a list of parts.
        """
        return cls(Role.TOOL, (ToolResultPart(call if isinstance(call, str) else call.id, result, is_error),))

    @property
    def text(self) -> str:
        """
        All text of this message.
        """
        return "".join(part.text for part in self.parts if isinstance(part, TextPart))


Prompt: TypeAlias = str | Message | ChatResponse | Sequence["str | Message | ChatResponse | Mapping[str, Any]"]


def as_messages(prompt: Prompt) -> tuple[Message, ...]:
    """
    The prompt as messages: a text is one user message, a response an assistant message, a mapping `{"role": ..., "content": text or parts}`.

    ConfigurationError for an empty prompt, an unknown role, or content of another type.
    """
    if isinstance(prompt, (bytes, Mapping)) or not isinstance(prompt, (Iterable, Message, ChatResponse)):
        raise ConfigurationError(f"a prompt is a text, a message, or a list of them, not {type(prompt).__name__}")
    items: Iterable[Any] = [prompt] if isinstance(prompt, (str, Message, ChatResponse)) else prompt
    messages = tuple(message for item in items for message in _messages(item))
    if not messages:
        raise ConfigurationError("the prompt is empty")
    return messages


def _step_messages(step: ChatResponse) -> tuple[Message, ...]:
    run_there = {call.id for call in step.tool_calls if call.server_executed}
    results = tuple(part for part in step.parts if isinstance(part, ToolResultPart) and part.call_id not in run_there)
    said = Message(Role.ASSISTANT, tuple(part for part in step.parts if part not in results), step.metadata)
    return (said, Message(Role.TOOL, results)) if results else (said,)


def _messages(item: Any) -> tuple[Message, ...]:
    if isinstance(item, Message):
        return (item,)
    if isinstance(item, str):
        return (Message.user(item),)
    if isinstance(item, ChatResponse):
        return Message.of(item)
    if isinstance(item, Mapping):
        return (_from_mapping(item),)
    raise ConfigurationError(f"a prompt is made of texts, messages and responses, not {type(item).__name__}")


def _from_mapping(item: Mapping[str, Any]) -> Message:
    unknown = set(item) - {"role", "content"}
    if unknown:
        raise ConfigurationError(f"a message mapping has role and content, not {', '.join(sorted(unknown))}; use rxchat.Message for the rest")
    try:
        role = Role(item.get("role", "user"))
    except ValueError:
        raise ConfigurationError(f"unknown role {item.get('role')!r}; roles are {', '.join(Role)}") from None
    content = item.get("content")
    parts = [content] if isinstance(content, str) else list(content) if isinstance(content, Sequence) else None
    if parts is None or any(isinstance(part, Mapping) for part in parts):
        raise ConfigurationError("the content of a message is a text or a list of texts and parts")
    return Message(role, tuple(TextPart(part) if isinstance(part, str) else part for part in parts))


# --- media ----------------------------------------------------------------------------------------------------------------------------------------


def image(source: str | bytes | Path, mime: str | None = None) -> MediaPart:
    """
    An image by URL, by bytes (then `mime` is needed) or by file.
    """
    return _media("image", source, mime)


def audio(source: str | bytes | Path, mime: str | None = None) -> MediaPart:
    """
    Audio by URL, by bytes (then `mime` is needed) or by file.
    """
    return _media("audio", source, mime)


def file(source: str | bytes | Path, mime: str | None = None, name: str | None = None) -> MediaPart:
    """
    A document by URL, by bytes (then `mime` is needed) or by file.
    """
    part = _media("file", source, mime)
    return attrs.evolve(part, name=name) if name else part


def media_from_path(kind: str, path: Path, mime: str | None = None) -> MediaPart:
    """
    A file's content as a part; ConfigurationError if it cannot be read or its type is not known.
    """
    try:
        content = path.read_bytes()
    except OSError as error:
        raise ConfigurationError(f"cannot read {path}: {error.strerror}") from error
    return attrs.evolve(_media(kind, content, mime or mimetypes.guess_type(path.name)[0]), name=path.name)


def _media(kind: str, source: str | bytes | Path, mime: str | None) -> MediaPart:
    if isinstance(source, Path):
        return media_from_path(kind, source, mime)
    if isinstance(source, bytes):
        if mime is None:
            raise ConfigurationError(f"{kind} given as bytes needs a mime type")
        return MediaPart(kind, mime, data=base64.b64encode(source).decode())
    return MediaPart(kind, mime, url=source)


# --- tools and options ----------------------------------------------------------------------------------------------------------------------------


def _no_parameters() -> dict[str, Any]:
    return {"type": "object", "properties": {}}


@attrs.frozen
class ToolSpec:
    """
    A client tool as the model sees it. `parameters` is a JSON Schema of type object; `kind` "custom" takes free-form text instead (P3).
    """

    name: str
    description: str = ""
    parameters: Mapping[str, Any] = attrs.field(factory=_no_parameters)
    strict: bool | None = None
    kind: str = "function"


@attrs.frozen
class JsonSchema:
    """
    The answer's form: JSON that fits `schema`.
    """

    schema: Mapping[str, Any]
    name: str = "answer"
    description: str | None = None
    strict: bool | None = None


def _words(value: str | Iterable[str] | None) -> tuple[str, ...]:
    return (value,) if isinstance(value, str) else tuple(value or ())


@attrs.frozen(kw_only=True)
class RequestOptions:
    """
    How to answer. None means unsaid: the provider's default. What a provider cannot do is a ConfigurationError before anything is sent.

    `tool_choice` is "auto", "none", "required" or the name of one tool. `response_format` is "json", or a JsonSchema. `reasoning_effort` is a word the
    provider knows ("none", "minimal", "low", "medium", "high"), `reasoning_budget` a number of tokens. `extra` is merged into the body last, key by key
    (nested objects too); `extra_headers` into the headers.
    """

    max_tokens: int | None = None
    temperature: float | None = None
    top_p: float | None = None
    top_k: int | None = None
    stop: tuple[str, ...] = attrs.field(default=(), converter=_words)
    seed: int | None = None
    presence_penalty: float | None = None
    frequency_penalty: float | None = None
    reasoning_effort: str | None = None
    reasoning_budget: int | None = None
    tool_choice: str | None = None
    parallel_tool_calls: bool | None = None
    response_format: str | JsonSchema | None = None
    stream: bool = True
    extra: Mapping[str, Any] = attrs.field(factory=dict)
    extra_headers: Mapping[str, str] = attrs.field(factory=dict, repr=False)
