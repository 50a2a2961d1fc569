"""
OpenAI Chat Completions and the providers that speak it, streamed or as one JSON body.

    data: {"id", "model", "choices": [{"index", "delta": {...}, "finish_reason"}], "usage"}    ...    data: [DONE]

Choices where providers differ:

- The end (contract V5, P9): a finish_reason of every choice seen, then `[DONE]` or a clean end; `[DONE]` alone ends the response with the finish unknown.
- A call is ended by the finish reasons stop, tool_calls and function_call, by `[DONE]`, or by a second id under its index; never by `length`.
- Within a frame: sources and safety notes, then the choices, each with its finish last, then usage, then the error.
- A `message` is read where there is no `delta`: as a whole answer if nothing came before it, else (a cumulative snapshot) only by option.
- A finish word that is itself a failure is raised at the end as ProviderError, unless the provider's own error object came before.
- Log probabilities are collected in `metadata["logprobs"]` of the response, with the provider's fingerprints and timings; they are no events.
- A step opens with the first frame that has an id, a model or a choice; what comes before it (prompt filter results) waits for it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import attrs

from rxchat.dialects.base import Context, Dialect, Option, Parser
from rxchat.dialects.openai_parser import OpenAIChatParser
from rxchat.dialects.openai_strict import StrictTextParser
from rxchat.outgoing.openai_chat import build
from rxchat.think_tags import tag_names

__all__ = ["OPENAI_CHAT", "OPTIONS", "OpenAIChatParser", "parser"]


@attrs.frozen
class TagsOption(Option):
    """
    true, false, or the names of tags.
    """

    def read(self, name: str, value: Any) -> tuple[str, ...]:
        return tag_names(value)


OPTIONS: Mapping[str, Option] = {
    "done": Option(
        "auto", "May a body end without [DONE], cleanly and after a finish_reason: auto allows it, required does not.", ("auto", "required")
    ),
    "finish": Option(
        "required", "Is [DONE] without any finish_reason a whole answer: optional for servers that never send one.", ("required", "optional")
    ),
    "think_tags": TagsOption(False, "Read tags inside the text as thinking: true for think, thinking and reasoning, or the names of tags."),
    "snapshot": Option(
        "ignore", "A cumulative `message` in place of a delta: ignore it, or message to read what is new in it.", ("ignore", "message")
    ),
}


def parser(context: Context) -> Parser:
    """
    The parser of the profile asked for.
    """
    return StrictTextParser(context) if context.profile == "strict_text" else OpenAIChatParser(context)


OPENAI_CHAT = Dialect(
    name="openai-chat",
    framings={"text/event-stream": "sse", "application/json": "json"},
    parser=parser,
    options=OPTIONS,
    profiles=("default", "strict_text"),
    doc="OpenAI Chat Completions and its compatibles",
    request=build,
)
