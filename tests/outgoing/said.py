"""
What is said in the logical requests that are sent twice: by the official SDKs (`record_sdk.py`) and by our builders (`logical.py`).
"""

from __future__ import annotations

from typing import Any

SYSTEM = "You are brief."
QUESTION = "What is the weather in Paris and Rome?"
PNG = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR4nGNgYGBgAAAABQABh6FO1AAAAABJRU5ErkJggg=="
WAV = "UklGRiQAAABXQVZFZm10IBAAAAABAAEAQB8AAEAfAAABAAgAZGF0YQAAAAA="
PDF = "JVBERi0xLjEKJSVFT0YK"
PICTURE_URL = "https://example.com/cat.png"
SEEN = "What do you see?"

PARAMETERS: dict[str, Any] = {
    "type": "object",
    "properties": {"city": {"type": "string", "description": "Name of the city"}, "days": {"type": "integer"}},
    "required": ["city"],
    "additionalProperties": False,
}
SHAPE: dict[str, Any] = {
    "type": "object",
    "properties": {"name": {"type": "string"}, "age": {"type": "integer"}},
    "required": ["name", "age"],
    "additionalProperties": False,
}

# Two calls at once; the texts of their arguments are not in the form a serializer would write them.
PARIS, ROME = '{"city":"Paris","days":2}', '{"city":"Rome"}'
PARIS_ARGS: dict[str, Any] = {"city": "Paris", "days": 2}
ROME_ARGS: dict[str, Any] = {"city": "Rome"}
SUNNY, FAILED = "sunny, 21 degrees", "no such station"
LOOKING = "Let me look."
THOUGHT, SIGNATURE, SEALED = "I need two calls.", "c2lnbmF0dXJlLW9mLXRoZS10aG91Z2h0", "c2VhbGVkLXRob3VnaHQ="

MODELS = {
    "openai-chat": "gpt-5-mini",
    "openai-responses": "gpt-5-mini",
    "anthropic": "claude-sonnet-4-6",
    "gemini": "gemini-2.5-flash",
    "gemini-interactions": "gemini-2.5-flash",
    "ollama": "qwen3",
    "cohere": "command-a-03-2025",
    "mistral": "magistral-medium-latest",
    "dashscope": "qwen-plus",
    "bedrock-converse": "us.anthropic.claude-haiku-4-5-20251001-v1:0",
    "bedrock-invoke": "us.anthropic.claude-haiku-4-5-20251001-v1:0",
}
