"""
Requests of Mistral's chat completions: OpenAI's, with some words of its own.

`seed` is `random_seed`, "required" is "any", there is `top_k`, results name their tool, thinking goes back as a part of the content, audio and
documents have parts of their own. Usage comes without being asked for.
"""

from __future__ import annotations

from typing import Any

import attrs

from rxchat.errors import ConfigurationError
from rxchat.outgoing import openai_chat
from rxchat.outgoing.common import ModelCall, WireRequest, data_url, drop_none, merge_extra, refuse_media, refuse_options, tool_names
from rxchat.prompt import Message, Role
from rxchat.response import MediaPart, Part, TextPart, ThinkingPart

__all__ = ["build"]

NAME = "mistral"
QUIRKS = {"max_tokens_field": "max_tokens", "include_usage": False, "reasoning": "effort"}


def build(call: ModelCall) -> WireRequest:
    """
    POST {base_url}/chat/completions, bearer key.

    ConfigurationError for reasoning_budget and free-form tools, which this protocol has no field for.
    """
    refuse_options(call, NAME, "reasoning_budget")
    for tool in call.tools:
        if tool.kind != "function":
            raise ConfigurationError(f"{NAME} has no free-form tools: {tool.name}")
    plain = attrs.evolve(call, request=attrs.evolve(call.request, extra={}, top_k=None), options=QUIRKS | dict(call.options))
    wire = openai_chat.chat_request(plain, NAME, _part)
    body = dict(wire.body) | drop_none(top_k=call.request.top_k)
    if "seed" in body:
        body["random_seed"] = body.pop("seed")
    if body.get("tool_choice") == "required":
        body["tool_choice"] = "any"
    body["messages"] = _messages(call.messages, body["messages"])
    return attrs.evolve(wire, body=merge_extra(body, call.request.extra))


def _part(part: Part) -> dict[str, Any]:
    if isinstance(part, MediaPart) and part.kind == "audio":
        return {"type": "input_audio", "input_audio": part.data or part.url}
    if isinstance(part, MediaPart) and part.kind == "file":
        return {"type": "document_url", "document_url": part.url or data_url(part)} | drop_none(document_name=part.name)
    if isinstance(part, TextPart) or (isinstance(part, MediaPart) and part.kind == "image"):
        return openai_chat.content_part(part)
    raise refuse_media(
        NAME, part.kind if isinstance(part, MediaPart) else type(part).__name__, "a user message holds text, images, audio and documents"
    )


def _messages(messages: tuple[Message, ...], built: list[dict[str, Any]]) -> list[dict[str, Any]]:
    names: dict[str, str] = {}
    assistants = iter([message for message in messages if message.role is Role.ASSISTANT])
    wires = []
    for wire in built:
        if wire["role"] == "tool" and wire["tool_call_id"] in names:
            wire = wire | {"name": names[wire["tool_call_id"]]}
        elif wire["role"] == "assistant":
            message = next(assistants)
            names |= tool_names(message)
            wire = _with_thinking(message, wire)
        wires.append(wire)
    return wires


def _with_thinking(message: Message, wire: dict[str, Any]) -> dict[str, Any]:
    thoughts = [_thought(part) for part in message.parts if isinstance(part, ThinkingPart) and part.text]
    if not thoughts:
        return wire
    return wire | {"content": thoughts + ([{"type": "text", "text": message.text}] if message.text else [])}


def _thought(part: ThinkingPart) -> dict[str, Any]:
    return {"type": "thinking", "thinking": [{"type": "text", "text": part.text}]} | drop_none(signature=part.signature)
