"""
Mistral's chat completions: OpenAI's chunks with some words of its own.

What differs on the wire is read by the parser it shares: content that is a list of `thinking` and `text` parts, whole calls in one delta together with the
finish reason, calls without index or type, the padding key `p`, errors as `{"detail": ...}` or `{"object": "error", ...}`.
"""

from __future__ import annotations

from rxchat.dialects.base import Dialect
from rxchat.dialects.openai_chat import OPTIONS, OpenAIChatParser
from rxchat.outgoing.mistral import build

__all__ = ["MISTRAL"]

MISTRAL = Dialect(
    name="mistral",
    framings={"text/event-stream": "sse", "application/json": "json"},
    parser=OpenAIChatParser,
    options=OPTIONS,
    doc="Mistral chat completions",
    request=build,
)
