"""
The logical requests of `record_sdk.py` once more, in rxchat's own types.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import attrs

from rxchat.outgoing.common import ModelCall
from rxchat.prompt import JsonSchema, Message, RequestOptions, ToolSpec
from rxchat.response import MediaPart, Part, ProviderItemPart, RedactedThinkingPart, TextPart, ThinkingPart, ToolCall
from tests.outgoing.said import (
    FAILED,
    LOOKING,
    MODELS,
    PARAMETERS,
    PARIS,
    PDF,
    PICTURE_URL,
    PNG,
    QUESTION,
    ROME,
    SEALED,
    SEEN,
    SHAPE,
    SIGNATURE,
    SUNNY,
    SYSTEM,
    THOUGHT,
    WAV,
)

__all__ = ["BASES", "KEY", "logical", "model_call"]

KEY = "test-key-0123456789"
# What stands before the path that the builder adds.
BASES = {
    "openai-chat": "/v1",
    "openai-responses": "/v1",
    "gemini": "/v1",
    "gemini-interactions": "/v1",
    "mistral": "/v1",
}

WEATHER = ToolSpec("get_weather", "Weather of a city", PARAMETERS)
SHELL = ToolSpec("shell", "A shell", kind="custom")
USER = (Message.user(QUESTION),)
ASKED = (Message.system(SYSTEM), *USER)
IDS = {
    "anthropic": ("toolu_1", "toolu_2"),
    "bedrock-invoke": ("toolu_1", "toolu_2"),
    "bedrock-converse": ("tooluse_1", "tooluse_2"),
    "gemini": ("fc_1", "fc_2"),
    "gemini-interactions": ("fc_1", "fc_2"),
}
# Where a failed result is marked as one; elsewhere it is a text like any other.
MARKED = ("anthropic", "bedrock-invoke", "bedrock-converse", "gemini", "gemini-interactions")


def tool_call(call_id: str, arguments: str, metadata: Mapping[str, Any] | None = None) -> ToolCall:
    return ToolCall(call_id, "get_weather", arguments, json.loads(arguments), complete=True, metadata=metadata)


def results(dialect: str, *before: Part, first: Mapping[str, Any] | None = None) -> tuple[Message, ...]:
    """
    A question, an answer with two calls at once, their results.
    """
    one, two = IDS.get(dialect, ("call_1", "call_2"))
    second: Mapping[str, Any] | None = None
    if dialect == "openai-responses":
        first, second = {"id": "fc_1"}, {"id": "fc_2"}
    return (
        *USER,
        Message.assistant(*before, tool_call(one, PARIS, first), tool_call(two, ROME, second)),
        Message.tool(one, SUNNY),
        Message.tool(two, FAILED, is_error=dialect in MARKED),
    )


def seen(part: MediaPart) -> tuple[Message, ...]:
    return (Message.user(SEEN, part),)


def thoughts(dialect: str) -> tuple[tuple[Message, ...], RequestOptions]:
    """
    The results, with the thinking before the calls carried back, and thinking asked for again.
    """
    budget, low = RequestOptions(reasoning_budget=2000), RequestOptions(reasoning_effort="low")
    thought = ThinkingPart(THOUGHT, SIGNATURE)
    match dialect:
        case "openai-responses":
            item = {"type": "reasoning", "id": "rs_1", "summary": [{"type": "summary_text", "text": THOUGHT}], "encrypted_content": SEALED}
            kept = ProviderItemPart("reasoning", item)
            return results(dialect, ThinkingPart(THOUGHT), kept), attrs.evolve(low, extra={"store": False})
        case "anthropic" | "bedrock-converse" | "bedrock-invoke":
            return results(dialect, thought, RedactedThinkingPart(SEALED)), attrs.evolve(budget, max_tokens=4000)
        case "gemini":
            return results(dialect, ThinkingPart(THOUGHT), first={"thoughtSignature": SIGNATURE}), budget
        case "gemini-interactions":
            return results(dialect, thought), low
        case "ollama":
            return results(dialect, ThinkingPart(THOUGHT), TextPart(LOOKING)), low
        case "cohere":
            return results(dialect, ThinkingPart(THOUGHT)), budget
        case "mistral":
            return results(dialect, ThinkingPart(THOUGHT)), RequestOptions(reasoning_effort="high")
        case "dashscope":
            return results(dialect, ThinkingPart(THOUGHT), TextPart(LOOKING)), budget
    return USER, low


def whole(dialect: str) -> RequestOptions:
    """
    Every sampling option the provider has, not streamed.
    """
    options = RequestOptions(stream=False, max_tokens=100, temperature=0.5, top_p=0.9, stop="END")
    more: dict[str, Any] = {"seed": 7, "presence_penalty": 0.1, "frequency_penalty": 0.2}
    match dialect:
        case "openai-responses":
            return attrs.evolve(options, stop=())
        case "anthropic" | "bedrock-converse" | "bedrock-invoke":
            return attrs.evolve(options, top_k=40)
        case "gemini-interactions":
            return attrs.evolve(options, seed=7)
        case "dashscope":
            return attrs.evolve(options, top_k=40, seed=7, presence_penalty=0.1)
        case "openai-chat":
            return attrs.evolve(options, **more)
    return attrs.evolve(options, top_k=40, **more)


def tools(dialect: str) -> tuple[tuple[ToolSpec, ...], RequestOptions]:
    """
    Tools, and the choice of one, as far as the provider can be told.
    """
    strict = attrs.evolve(WEATHER, strict=True)
    one = RequestOptions(tool_choice="get_weather", parallel_tool_calls=False)
    match dialect:
        case "openai-chat" | "openai-responses":
            return (strict, SHELL), one
        case "anthropic" | "mistral" | "bedrock-invoke":
            return (strict,), one
        case "bedrock-converse":
            return (strict,), RequestOptions(tool_choice="get_weather")
        case "gemini" | "gemini-interactions":
            return (WEATHER,), RequestOptions(tool_choice="get_weather")
        case "dashscope":
            return (WEATHER,), one
        case "cohere":
            return (strict,), RequestOptions()
    return (WEATHER,), RequestOptions()


def logical(dialect: str, case: str) -> tuple[tuple[Message, ...], tuple[ToolSpec, ...], RequestOptions]:
    """
    Messages, tools and options of one case.
    """
    strict = None if dialect in ("anthropic", "cohere", "gemini", "gemini-interactions", "ollama", "bedrock-converse") else True
    before = [ThinkingPart(LOOKING, item_id="tool_plan")] if dialect == "cohere" else [TextPart(LOOKING)]
    match case:
        case "text" | "cumulative":
            return ASKED, (), RequestOptions()
        case "whole":
            return ASKED, (), whole(dialect)
        case "image":
            return seen(MediaPart("image", "image/png", PNG)), (), RequestOptions()
        case "image-url":
            return seen(MediaPart("image", "image/png", url=PICTURE_URL)), (), RequestOptions()
        case "audio":
            return seen(MediaPart("audio", "audio/wav", WAV)), (), RequestOptions()
        case "file":
            return seen(MediaPart("file", "application/pdf", PDF, name="a.pdf")), (), RequestOptions()
        case "tools":
            return USER, *tools(dialect)
        case "required":
            return USER, (WEATHER,), RequestOptions(tool_choice="required")
        case "results":
            return results(dialect, *before), (WEATHER,), RequestOptions()
        case "thinking":
            messages, options = thoughts(dialect)
            return messages, (WEATHER,) if len(messages) > 1 else (), options
        case "effort":
            return USER, (), RequestOptions(reasoning_effort="low")
        case "no-thinking":
            return USER, (), RequestOptions(reasoning_effort="none")
        case "json":
            return USER, (), RequestOptions(response_format="json")
        case "schema":
            return USER, (), RequestOptions(response_format=JsonSchema(SHAPE, "person", strict=strict))
    raise AssertionError(f"a recorded case nobody says here: {case}")


def model_call(dialect: str, case: str, base_url: str = "http://provider") -> ModelCall:
    """
    The whole request in our own terms. Claude's output has a bound in every request, which the recordings set to 1000.
    """
    messages, specs, options = logical(dialect, case)
    if dialect in ("anthropic", "bedrock-invoke") and options.max_tokens is None:
        options = attrs.evolve(options, max_tokens=1000)
    key = None if dialect == "ollama" or dialect.startswith("bedrock") else KEY
    quirks = {"incremental_output": case != "cumulative"}
    return ModelCall(MODELS[dialect], messages, base_url + BASES.get(dialect, ""), key, specs, options, quirks)
