"""
What a provider cannot do is told before anything is sent, by dialect and option.
"""

from __future__ import annotations

from typing import Any

import pytest

from rxchat.dialects import get_dialect
from rxchat.errors import ConfigurationError
from rxchat.outgoing.common import ModelCall, WireRequest
from rxchat.prompt import JsonSchema, Message, RequestOptions, ToolSpec, as_messages
from rxchat.response import MediaPart, Part, RefusalPart, TextPart, ThinkingPart, ToolCall, ToolResultPart

TOOL, FREE, STRICT = ToolSpec("get"), ToolSpec("shell", kind="custom"), ToolSpec("strict", strict=True)
LOOSE = ToolSpec("loose", strict=False)
ALL_BUT_CHAT = (
    "anthropic",
    "bedrock-converse",
    "bedrock-invoke",
    "cohere",
    "dashscope",
    "gemini",
    "gemini-interactions",
    "mistral",
    "ollama",
)
VALUES: dict[str, Any] = {
    "stop": "END",
    "seed": 1,
    "top_k": 3,
    "presence_penalty": 0.1,
    "frequency_penalty": 0.1,
    "reasoning_budget": 100,
    "reasoning_effort": "low",
    "parallel_tool_calls": False,
    "tool_choice": "required",
    "response_format": "json",
}
# By dialect: options there is no field for.
NO_FIELD = {
    "openai-chat": ("top_k", "reasoning_budget"),
    "openai-responses": ("stop", "seed", "top_k", "presence_penalty", "frequency_penalty", "reasoning_budget"),
    "anthropic": ("seed", "presence_penalty", "frequency_penalty"),
    "bedrock-converse": ("seed", "presence_penalty", "frequency_penalty", "parallel_tool_calls"),
    "cohere": ("parallel_tool_calls",),
    "dashscope": ("frequency_penalty",),
    "gemini": ("parallel_tool_calls",),
    "gemini-interactions": ("top_k", "presence_penalty", "frequency_penalty", "reasoning_budget", "parallel_tool_calls"),
    "mistral": ("reasoning_budget",),
    "ollama": ("tool_choice", "parallel_tool_calls", "reasoning_budget"),
}
COMPLETERS = {
    "amazon.titan-text-express-v1": "Titan",
    "us.meta.llama3-1-8b-instruct-v1:0": "Llama",
    "mistral.mistral-large-2402-v1:0": "Mistral",
    "cohere.command-r-v1:0": "Command",
}


def build(
    dialect: str,
    prompt: Any = "Hi",
    *,
    tools: tuple[ToolSpec, ...] = (TOOL,),
    model: str = "anthropic.claude",
    quirks: dict[str, Any] | None = None,
    **options: Any,
) -> WireRequest:
    make = get_dialect(dialect).request
    assert make is not None
    return make(ModelCall(model, as_messages(prompt), "http://provider", None, tools, RequestOptions(**options), quirks or {}))


@pytest.mark.parametrize("dialect, option", [(dialect, option) for dialect, options in NO_FIELD.items() for option in options])
def test_no_field(dialect: str, option: str) -> None:
    """
    Named by dialect and option.
    """
    with pytest.raises(ConfigurationError, match=f"{dialect} has no way to say {option}"):
        build(dialect, **{option: VALUES[option]})


@pytest.mark.parametrize("dialect", ["openai-chat", "openai-responses", *ALL_BUT_CHAT])
def test_choice_needs_tools(dialect: str) -> None:
    """
    A choice among no tools is a mistake.
    """
    with pytest.raises(ConfigurationError, match="has no way to say tool_choice"):
        build(dialect, tools=(), tool_choice="required")


@pytest.mark.parametrize("dialect", ALL_BUT_CHAT)
def test_no_free_form_tools(dialect: str) -> None:
    """
    Only OpenAI's protocols have them.
    """
    with pytest.raises(ConfigurationError, match=f"{dialect} has no free-form tools: shell"):
        build(dialect, tools=(FREE,))


@pytest.mark.parametrize(
    "dialect", ["openai-chat", "openai-responses", "anthropic", "bedrock-converse", "dashscope", "gemini", "gemini-interactions", "mistral"]
)
def test_a_chosen_tool_must_be_there(dialect: str) -> None:
    """
    The name is told.
    """
    with pytest.raises(ConfigurationError, match="tool_choice names 'other', which is not among the tools"):
        build(dialect, tool_choice="other")


OTHERS: tuple[tuple[str, dict[str, Any], str], ...] = (
    ("anthropic", {"response_format": "json"}, "anthropic has no plain JSON mode"),
    ("bedrock-converse", {"response_format": "json"}, "bedrock-converse has no plain JSON mode"),
    ("bedrock-converse", {"tool_choice": "none"}, "bedrock-converse cannot be told to call none"),
    ("bedrock-invoke", {"response_format": "json"}, "bedrock-invoke has no plain JSON mode"),
    ("bedrock-invoke", {"seed": 1}, "bedrock-invoke has no way to say seed"),
    ("bedrock-invoke", {"model": "unheard.of"}, "bedrock-invoke knows no body for unheard.of"),
    ("bedrock-invoke", {"model": "x", "quirks": {"family": "none"}}, "the option family is one of anthropic, nova"),
    ("bedrock-invoke", {"model": "amazon.nova-lite-v1:0", "reasoning_budget": 5}, "bedrock-invoke for Nova has no way to say reasoning_budget"),
    ("cohere", {"reasoning_effort": "low"}, "cohere has no reasoning effort"),
    ("cohere", {"tool_choice": "get"}, "cohere cannot be told to call 'get'"),
    ("cohere", {"tools": (STRICT, LOOSE)}, "cohere has one strict_tools for all tools"),
    ("dashscope", {"reasoning_effort": "low"}, "dashscope has no reasoning effort"),
    ("dashscope", {"tool_choice": "required"}, "dashscope cannot be told that some tool is required"),
    ("dashscope", {"extra": {"parameters": {"incremental_output": True}}}, "incremental_output: give it as an option"),
    ("gemini-interactions", {"reasoning_effort": "none"}, "gemini-interactions cannot be told not to think"),
    ("openai-chat", {"reasoning_effort": "low", "quirks": {"reasoning": "none"}}, "no way to say reasoning_effort"),
    *((dialect, {"response_format": "yaml"}, 'response_format is "text", "json" or a JsonSchema') for dialect in NO_FIELD),
)


@pytest.mark.parametrize("dialect, said, words", OTHERS)
def test_other_refusals(dialect: str, said: dict[str, Any], words: str) -> None:
    """
    What a protocol knows, but not so.
    """
    with pytest.raises(ConfigurationError, match=words):
        build(dialect, **said)


# --- content ----------------------------------------------------------------------------------------------------------------------------------------

DATA = {"image": "image/png", "audio": "audio/ogg", "video": "video/mp4", "file": "application/pdf"}
# By dialect: kinds of media it does not take as data, then by URL.
NOT_DATA = {
    "openai-chat": ("audio", "video"),
    "openai-responses": ("audio", "video"),
    "anthropic": ("audio", "video"),
    "cohere": ("audio", "video", "file"),
    "dashscope": ("file",),
    "mistral": ("video",),
    "ollama": ("audio", "video", "file"),
}
NOT_URL = {
    "openai-chat": ("audio", "file"),
    "bedrock-converse": ("image", "audio", "video", "file"),
    "cohere": ("audio",),
    "ollama": ("image",),
    "anthropic": ("audio",),
    "openai-responses": ("audio",),
}


@pytest.mark.parametrize("dialect, kind", [(dialect, kind) for dialect, kinds in NOT_DATA.items() for kind in kinds])
def test_media_it_does_not_take(dialect: str, kind: str) -> None:
    """
    The dialect and the kind are told.
    """
    with pytest.raises(ConfigurationError, match=f"{dialect} cannot take {kind}"):
        build(dialect, Message.user("Look", MediaPart(kind, DATA[kind], "QUJD")))


@pytest.mark.parametrize("dialect, kind", [(dialect, kind) for dialect, kinds in NOT_URL.items() for kind in kinds])
def test_media_it_does_not_fetch(dialect: str, kind: str) -> None:
    """
    By URL.
    """
    with pytest.raises(ConfigurationError, match=f"{dialect} cannot take {kind}"):
        build(dialect, Message.user("Look", MediaPart(kind, DATA[kind], url="https://example.com/x")))


@pytest.mark.parametrize("dialect", ["gemini", "gemini-interactions", "bedrock-converse"])
def test_media_must_say_their_type(dialect: str) -> None:
    """
    Where the wire demands it.
    """
    with pytest.raises(ConfigurationError, match="without a mime type"):
        build(dialect, Message.user(MediaPart("image", None, "QUJD")))


def test_media_without_anything() -> None:
    """
    Neither data nor URL.
    """
    with pytest.raises(ConfigurationError, match="anthropic cannot take image without data or URL"):
        build("anthropic", Message.user(MediaPart("image", "image/png")))


@pytest.mark.parametrize("dialect", ["openai-chat", "openai-responses", *ALL_BUT_CHAT])
@pytest.mark.parametrize("part", [ThinkingPart("t"), RefusalPart("no")])
def test_parts_no_user_says(dialect: str, part: Part) -> None:
    """
    Thinking and refusals are an answer's.
    """
    with pytest.raises(ConfigurationError, match=f"{dialect} cannot take {type(part).__name__}"):
        build(dialect, Message.user("a", part))


@pytest.mark.parametrize("model, family", COMPLETERS.items())
@pytest.mark.parametrize(
    "said, words",
    [
        ({"tools": (TOOL,)}, "takes no tools; use bedrock-converse"),
        ({"prompt": Message.user("a", MediaPart("image", "image/png", "QUJD"))}, "takes only text; use bedrock-converse"),
        ({"prompt": ["q", Message(Message.tool("c", "r").role, (ToolResultPart("c", "r"),))]}, "takes only text; use bedrock-converse"),
        ({"reasoning_effort": "low"}, "has no way to say reasoning_effort"),
        ({"response_format": JsonSchema({})}, "has no way to say response_format"),
        ({"seed": 1}, "has no way to say seed"),
    ],
)
def test_models_that_complete_a_text(model: str, family: str, said: dict[str, Any], words: str) -> None:
    """
    Text and sampling only.
    """
    with pytest.raises(ConfigurationError, match=f"bedrock-invoke for {family} {words}"):
        build("bedrock-invoke", model=model, **{"prompt": "Hi", "tools": (), **said})


def test_texts_that_do_not_fit_a_template() -> None:
    """
    Mistral's has no place for a system text at the end, Command's wants a question at the end.
    """
    with pytest.raises(ConfigurationError, match="puts system texts into the user's next message"):
        build("bedrock-invoke", ["q", Message.system("s")], model="mistral.x", tools=())
    with pytest.raises(ConfigurationError, match="wants the user to speak last"):
        build("bedrock-invoke", ["q", Message.assistant("a")], model="cohere.command-r", tools=())


def test_tool_messages_hold_results() -> None:
    """
    Nothing else.
    """
    with pytest.raises(ConfigurationError, match="a tool message holds tool results, not TextPart"):
        build("openai-chat", Message(Message.tool("c", "r").role, (TextPart("x"),)))


def test_results_need_their_call_where_names_are_sent() -> None:
    """
    Gemini knows results by name.
    """
    with pytest.raises(ConfigurationError, match="the result of call 'c' has no call before it"):
        build("gemini", ["q", Message.tool("c", "r")])


def test_calls_that_were_cut() -> None:
    """
    An unfinished call cannot be carried back as an item.
    """
    with pytest.raises(ConfigurationError, match="tool call c is not whole and cannot be sent back"):
        build("openai-responses", ["q", Message.assistant(ToolCall("c", "get", "{"))])
