"""
The wire encoders, by dialect.
"""

from __future__ import annotations

from rxchat.errors import ConfigurationError
from rxchat.testing.asked import FakeRequest
from rxchat.testing.wires.anthropic import ANTHROPIC
from rxchat.testing.wires.base import Delta, Wire
from rxchat.testing.wires.bedrock import BEDROCK_CONVERSE
from rxchat.testing.wires.bedrock_invoke import BEDROCK_INVOKE
from rxchat.testing.wires.cohere import COHERE, COHERE_V1
from rxchat.testing.wires.dashscope import DASHSCOPE
from rxchat.testing.wires.gemini import GEMINI
from rxchat.testing.wires.gemini_interactions import GEMINI_INTERACTIONS
from rxchat.testing.wires.mistral import MISTRAL
from rxchat.testing.wires.ollama import OLLAMA
from rxchat.testing.wires.openai_chat import OPENAI_CHAT
from rxchat.testing.wires.openai_responses import OPENAI_RESPONSES

__all__ = ["WIRES", "Delta", "Wire", "get_wire", "wire_for"]

WIRES: dict[str, Wire] = {
    "anthropic": ANTHROPIC,
    "bedrock-converse": BEDROCK_CONVERSE,
    "bedrock-invoke": BEDROCK_INVOKE,
    "cohere": COHERE,
    "cohere-v1": COHERE_V1,
    "dashscope": DASHSCOPE,
    "gemini": GEMINI,
    "gemini-interactions": GEMINI_INTERACTIONS,
    "mistral": MISTRAL,
    "ollama": OLLAMA,
    "openai-chat": OPENAI_CHAT,
    "openai-responses": OPENAI_RESPONSES,
}


def get_wire(dialect: str) -> Wire:
    """
    The wire of that dialect; ConfigurationError lists those that exist.
    """
    if dialect not in WIRES:
        raise ConfigurationError(f"no wire for the dialect {dialect!r}; there are: {', '.join(sorted(WIRES))}")
    return WIRES[dialect]


def wire_for(request: FakeRequest) -> Wire:
    """
    The wire that answers this request.
    """
    wire = get_wire(request.dialect)
    return wire if wire.choose is None else wire.choose(request)
