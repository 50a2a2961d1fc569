"""
Requests of Mistral's chat completions: OpenAI's, with some words of its own.

`seed` is `random_seed`, "required" is "any", results name their tool, thinking goes back as a part of the content. Usage comes without being asked for.
"""

from __future__ import annotations

from typing import Any

import attrs

from rxchat.outgoing import openai_chat
from rxchat.outgoing.common import ModelCall, WireRequest, merge_extra, refuse_options, tool_names
from rxchat.prompt import Message, Role
from rxchat.response import ThinkingPart

__all__ = ["build"]

NAME = "mistral"
QUIRKS = {"max_tokens_field": "max_tokens", "include_usage": False, "reasoning": "effort"}


def build(call: ModelCall) -> WireRequest:
    """
    POST {base_url}/chat/completions, bearer key.

    ConfigurationError for top_k and reasoning_budget, which this protocol has no field for.
    """
    refuse_options(call, NAME, "top_k", "reasoning_budget")
    plain = attrs.evolve(call, request=attrs.evolve(call.request, extra={}), options=QUIRKS | dict(call.options))
    wire = openai_chat.build(plain)
    body = dict(wire.body)
    if "seed" in body:
        body["random_seed"] = body.pop("seed")
    if body.get("tool_choice") == "required":
        body["tool_choice"] = "any"
    body["messages"] = _messages(call.messages, body["messages"])
    return attrs.evolve(wire, body=merge_extra(body, call.request.extra))


def _messages(messages: tuple[Message, ...], built: list[dict[str, Any]]) -> list[dict[str, Any]]:
    names = tool_names(messages)
    assistants = iter([message for message in messages if message.role is Role.ASSISTANT])
    wires = []
    for wire in built:
        if wire["role"] == "tool" and wire["tool_call_id"] in names:
            wire = wire | {"name": names[wire["tool_call_id"]]}
        elif wire["role"] == "assistant":
            wire = _with_thinking(next(assistants), wire)
        wires.append(wire)
    return wires


def _with_thinking(message: Message, wire: dict[str, Any]) -> dict[str, Any]:
    thoughts = [part.text for part in message.parts if isinstance(part, ThinkingPart) and part.text]
    if not thoughts:
        return wire
    content = [{"type": "thinking", "thinking": [{"type": "text", "text": text}]} for text in thoughts]
    return wire | {"content": content + ([{"type": "text", "text": message.text}] if message.text else [])}
