"""
What the recorded requests do not say: rarer parts, choices and families, each row one request and the fields that must be in it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pytest

from rxchat.prompt import JsonSchema, Message
from rxchat.response import MediaPart, Part, ProviderItemPart, RefusalPart, ServerToolPart, TextPart, ThinkingPart, ToolCall, ToolResultPart
from tests.outgoing.test_refusals import TOOL, build

SHAPE = {"type": "object"}
PICTURE = MediaPart("image", "image/png", "QUJD")
CALL = ToolCall("c1", "get", '{"a":1}', {"a": 1}, complete=True)
FOREIGN = ToolCall("c1", "get", "{}", {}, complete=True, metadata={"id": "fc_1", "thoughtSignature": "s", "signature": "t", "caller": {"x": 1}})


def body_of(dialect: str, prompt: Any = "Hi", **said: Any) -> Any:
    return json.loads(build(dialect, prompt, **said).content)


def answered(dialect: str, *parts: Part) -> Any:
    """
    The last turn of a request that ends with this answer.
    """
    body = body_of(dialect, ["q", Message.assistant(*parts)])
    turns = body["input"]["messages"] if dialect == "dashscope" else body.get("messages") or body.get("contents") or body.get("input")
    return turns[1:]


def resulted(dialect: str, result: Any) -> Any:
    """
    The turn of a tool's result.
    """
    body = body_of(dialect, ["q", Message.assistant(CALL), Message(Message.tool("c", "").role, (ToolResultPart("c1", result),))])
    return (body.get("messages") or body.get("contents") or body.get("input"))[-1]


CHOICES: tuple[tuple[str, dict[str, Any], Any], ...] = (
    ("openai-chat", {"tool_choice": "auto"}, {"tool_choice": "auto"}),
    ("openai-chat", {"reasoning_effort": "low", "quirks": {"reasoning": "object"}}, {"reasoning": {"effort": "low"}}),
    ("openai-chat", {"reasoning_budget": 9, "quirks": {"reasoning": "object"}}, {"reasoning": {"max_tokens": 9}}),
    ("openai-chat", {"quirks": {"include_usage": False}}, {"stream": True}),
    ("openai-responses", {"tool_choice": "none"}, {"tool_choice": "none"}),
    ("anthropic", {"reasoning_effort": "none"}, {"thinking": {"type": "disabled"}}),
    ("anthropic", {"parallel_tool_calls": True}, {"tool_choice": {"type": "auto", "disable_parallel_tool_use": False}}),
    ("anthropic", {"tool_choice": "none", "parallel_tool_calls": False}, {"tool_choice": {"type": "none"}}),
    ("anthropic", {}, {"max_tokens": 8192}),
    ("bedrock-converse", {"tool_choice": "auto"}, {"toolConfig": {"toolChoice": {"auto": {}}}}),
    ("bedrock-converse", {"reasoning_effort": "none"}, {"additionalModelRequestFields": {"thinking": {"type": "disabled"}}}),
    (
        "bedrock-converse",
        {"reasoning_effort": "low"},
        {"additionalModelRequestFields": {"thinking": {"type": "adaptive"}, "output_config": {"effort": "low"}}},
    ),
    (
        "bedrock-invoke",
        {"model": "amazon.nova-lite-v1:0", "top_k": 4, "max_tokens": 5},
        {"schemaVersion": "messages-v1", "inferenceConfig": {"maxTokens": 5, "topK": 4}},
    ),
    ("bedrock-invoke", {"model": "arn:aws:bedrock:us-east-1:1:application-inference-profile/x", "quirks": {"family": "nova"}}, {"messages": [{}]}),
    ("dashscope", {"tool_choice": "none", "quirks": {"result_format": "text"}}, {"parameters": {"tool_choice": "none", "result_format": "text"}}),
    ("dashscope", {"reasoning_effort": "none"}, {"parameters": {"enable_thinking": False}}),
    ("gemini", {"tool_choice": "none"}, {"toolConfig": {"functionCallingConfig": {"mode": "NONE"}}}),
    ("gemini", {"reasoning_effort": "none"}, {"generationConfig": {"thinkingConfig": {"thinkingBudget": 0}}}),
    ("gemini-interactions", {"tool_choice": "none"}, {"generation_config": {"tool_choice": "none"}}),
    ("cohere", {"tool_choice": "none"}, {"tool_choice": "NONE"}),
    ("cohere", {"tool_choice": "auto"}, {"tools": [{}]}),
    ("openai-chat", {"response_format": "text"}, {"stream": True}),
    ("bedrock-converse", {"response_format": JsonSchema(SHAPE, description="d")}, {"outputConfig": {"textFormat": {"type": "json_schema"}}}),
    ("openai-chat", {"extra": {"stream_options": {"x": 1}, "user": "u"}}, {"stream_options": {"include_usage": True, "x": 1}, "user": "u"}),
)


def within(part: Any, whole: Any) -> bool:
    """
    Whether all that `part` says is in `whole`; an empty object stands for any.
    """
    if isinstance(part, Mapping):
        return isinstance(whole, Mapping) and all(key in whole and within(value, whole[key]) for key, value in part.items())
    if isinstance(part, list):
        return isinstance(whole, list) and len(part) == len(whole) and all(map(within, part, whole))
    return bool(part == whole)


@pytest.mark.parametrize("dialect, said, fields", CHOICES)
def test_choices(dialect: str, said: dict[str, Any], fields: Any) -> None:
    """
    Options in the protocol's words.
    """
    body = body_of(dialect, **said)
    assert within(fields, body), body


ANSWERS: tuple[tuple[str, tuple[Part, ...], Any], ...] = (
    ("openai-chat", (RefusalPart("No."),), [{"role": "assistant", "content": "", "refusal": "No."}]),
    (
        "openai-chat",
        (ToolCall("c", "shell", "ls", kind="custom", complete=True),),
        [{"role": "assistant", "content": None, "tool_calls": [{"id": "c", "type": "custom", "custom": {"name": "shell", "input": "ls"}}]}],
    ),
    (
        "openai-chat",
        (FOREIGN,),
        [{"role": "assistant", "content": None, "tool_calls": [{"id": "c1", "type": "function", "function": {"name": "get", "arguments": "{}"}}]}],
    ),
    (
        "openai-chat",
        (ToolCall("c1", "get", "", {}, complete=True, metadata={"extra_content": {"google": {"thought_signature": "s"}}}), ThinkingPart("t")),
        [
            {
                "role": "assistant",
                "content": None,
                "tool_calls": [
                    {
                        "id": "c1",
                        "type": "function",
                        "function": {"name": "get", "arguments": "{}"},
                        "extra_content": {"google": {"thought_signature": "s"}},
                    }
                ],
            }
        ],
    ),
    ("openai-responses", (RefusalPart("No."),), [{"type": "message", "role": "assistant", "content": [{"type": "refusal", "refusal": "No."}]}]),
    (
        "openai-responses",
        (ToolCall("c", "shell", "ls", kind="custom", complete=True), TextPart(""), ThinkingPart("t")),
        [{"type": "custom_tool_call", "call_id": "c", "name": "shell", "input": "ls"}],
    ),
    (
        "openai-responses",
        (
            ServerToolPart("web_search_call", "ws_1", result={"type": "web_search_call", "id": "ws_1", "status": "completed"}),
            ServerToolPart("shell_call", "sh_1", payload={"type": "shell_call", "id": "sh_1"}, needs_client=True),
            ServerToolPart("odd"),
            ProviderItemPart("thoughtSignature", {"text": "", "thoughtSignature": "s"}),
        ),
        [{"type": "web_search_call", "id": "ws_1", "status": "completed"}, {"type": "shell_call", "id": "sh_1"}],
    ),
    ("anthropic", (ThinkingPart("unsigned"), TextPart(""), TextPart("a")), [{"role": "assistant", "content": "a"}]),
    (
        "anthropic",
        (ProviderItemPart("compaction", {"type": "compaction", "content": "c"}), ProviderItemPart("reasoning", {"type": "reasoning"})),
        [{"role": "assistant", "content": [{"type": "compaction", "content": "c"}]}],
    ),
    (
        "anthropic",
        (ServerToolPart("server_tool_use", "s1", "web_search", ""), FOREIGN),
        [
            {
                "role": "assistant",
                "content": [
                    {"type": "server_tool_use", "id": "s1", "name": "web_search", "input": {}},
                    {"type": "tool_use", "id": "c1", "name": "get", "input": {}, "caller": {"x": 1}},
                ],
            }
        ],
    ),
    (
        "bedrock-converse",
        (
            ThinkingPart("unsigned"),
            ServerToolPart("server_tool_use", "s1", "nova_grounding", '{"q":1}'),
            ServerToolPart("tool_result", "s1", result={"toolUseId": "s1", "content": []}),
            RefusalPart("x"),
        ),
        [
            {
                "role": "assistant",
                "content": [
                    {"toolUse": {"toolUseId": "s1", "name": "nova_grounding", "input": {"q": 1}, "type": "server_tool_use"}},
                    {"toolResult": {"toolUseId": "s1", "content": []}},
                ],
            }
        ],
    ),
    (
        "gemini",
        (
            ThinkingPart("t", "sig"),
            PICTURE,
            ServerToolPart("google_search", "g1", payload={"id": "g1", "toolType": "google_search"}, result={"id": "g1"}),
            ToolCall("c2", "get", "{}", {}, complete=True, server_executed=True),
            ToolResultPart("c2", {"ok": 1}),
            RefusalPart("x"),
        ),
        [
            {
                "role": "model",
                "parts": [
                    {"text": "t", "thought": True, "thoughtSignature": "sig"},
                    {"inlineData": {"data": "QUJD", "mimeType": "image/png"}},
                    {"toolCall": {"id": "g1", "toolType": "google_search"}},
                    {"toolResponse": {"id": "g1"}},
                    {"functionCall": {"id": "c2", "name": "get", "args": {}}},
                    {"functionResponse": {"id": "c2", "name": "get", "response": {"ok": 1}}},
                ],
            }
        ],
    ),
    (
        "gemini-interactions",
        (
            TextPart("a"),
            PICTURE,
            ThinkingPart("", "sig"),
            ThinkingPart("unsigned"),
            ServerToolPart("google_search_call", "g1", payload={"type": "google_search_call", "id": "g1"}),
            ProviderItemPart("step", {"type": "step"}),
            TextPart(""),
            TextPart("b"),
            CALL,
        ),
        [
            {"type": "model_output", "content": [{"type": "text", "text": "a"}, {"type": "image", "data": "QUJD", "mime_type": "image/png"}]},
            {"type": "thought", "signature": "sig"},
            {"type": "google_search_call", "id": "g1"},
            {"type": "step"},
            {"type": "model_output", "content": [{"type": "text", "text": "b"}]},
            {"type": "function_call", "id": "c1", "name": "get", "arguments": {"a": 1}},
        ],
    ),
)


@pytest.mark.parametrize("dialect, parts, turns", ANSWERS)
def test_answers(dialect: str, parts: tuple[Part, ...], turns: Any) -> None:
    """
    Parts of an answer as the protocol takes them back.
    """
    assert turns == answered(dialect, *parts)


MIXED = [TextPart("see"), PICTURE]
RESULTS: tuple[tuple[str, Any, Any], ...] = (
    (
        "anthropic",
        MIXED,
        [{"type": "text", "text": "see"}, {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "QUJD"}}],
    ),
    ("anthropic", {"a": 1}, '{"a":1}'),
    ("bedrock-converse", MIXED, [{"text": "see"}, {"image": {"format": "png", "source": {"bytes": "QUJD"}}}]),
    ("bedrock-converse", {"a": 1}, [{"json": {"a": 1}}]),
    ("bedrock-converse", [1], [{"text": "[1]"}]),
    (
        "openai-responses",
        MIXED,
        [{"type": "input_text", "text": "see"}, {"type": "input_image", "detail": "auto", "image_url": "data:image/png;base64,QUJD"}],
    ),
    ("gemini", {"a": 1}, {"a": 1}),
    ("gemini-interactions", MIXED, [{"type": "text", "text": "see"}, {"type": "image", "data": "QUJD", "mime_type": "image/png"}]),
    ("gemini-interactions", {"a": 1}, {"a": 1}),
    ("openai-chat", {"a": 1}, '{"a":1}'),
)


@pytest.mark.parametrize("dialect, result, content", RESULTS)
def test_results(dialect: str, result: Any, content: Any) -> None:
    """
    Results that are no text: parts, objects, anything JSON.
    """
    turn = resulted(dialect, result)
    found = {
        "anthropic": lambda: turn["content"][0]["content"],
        "bedrock-converse": lambda: turn["content"][0]["toolResult"]["content"],
        "openai-responses": lambda: turn["output"],
        "gemini": lambda: turn["parts"][0]["functionResponse"]["response"],
        "gemini-interactions": lambda: turn["result"],
        "openai-chat": lambda: turn["content"],
    }[dialect]()
    assert content == found


def test_results_stand_before_what_the_user_adds() -> None:
    """
    Anthropic wants the results first in their turn.
    """
    body = body_of("anthropic", ["q", Message.assistant(CALL), "and", Message.tool("c1", "r")])
    assert ["tool_result", "text"] == [block["type"] for block in body["messages"][-1]["content"]]


def test_documents() -> None:
    """
    Plain text is a source of its own, a file by URL goes by URL; names lose what a service does not allow.
    """
    text = body_of("anthropic", Message.user(MediaPart("file", "text/plain", "aGk=", name="a.txt")))
    assert {"type": "text", "media_type": "text/plain", "data": "hi"} == text["messages"][0]["content"][0]["source"]
    item = body_of("openai-responses", Message.user(MediaPart("file", "application/pdf", url="https://e/x.pdf")))
    assert {"type": "input_file", "file_url": "https://e/x.pdf"} == item["input"][0]["content"][0]
    block = body_of("bedrock-converse", Message.user(MediaPart("file", "text/markdown", url="s3://bucket/key", name="my  notes_1.v2.md")))
    assert {"format": "md", "name": "my notes-1-v2", "source": {"s3Location": {"uri": "s3://bucket/key"}}} == block["messages"][0]["content"][0][
        "document"
    ]
    unnamed = body_of("bedrock-converse", Message.user(MediaPart("file", "application/pdf", "QQ==")))
    assert "document" == unnamed["messages"][0]["content"][0]["document"]["name"]


def test_custom_results() -> None:
    """
    The result of a free-form call is an item of its own type.
    """
    free = ToolCall("c1", "shell", "ls", kind="custom", complete=True)
    body = body_of("openai-responses", ["q", Message.assistant(free), Message.tool("c1", "out")])
    assert {"type": "custom_tool_call_output", "call_id": "c1", "output": "out"} == body["input"][-1]


def test_dashscope_conversations_with_media() -> None:
    """
    All contents are lists in the multimodal service.
    """
    wire = build("dashscope", [Message.system("s"), Message.user("a", PICTURE), Message.assistant("b")])
    assert wire.url.endswith("/multimodal-generation/generation")
    contents = [turn["content"] for turn in json.loads(wire.content)["input"]["messages"]]
    assert [[{"text": "s"}], [{"text": "a"}, {"image": "data:image/png;base64,QUJD"}], [{"text": "b"}]] == contents


TALK = [Message.system("Be brief."), "Hi", Message.assistant("Hello"), "Bye"]
SAID: dict[str, Any] = {"max_tokens": 5, "temperature": 0.5, "top_p": 0.9}


@pytest.mark.parametrize(
    "model, more, expected",
    [
        (
            "amazon.titan-text-express-v1",
            {"stop": "User:"},
            {
                "inputText": "Be brief.\nUser: Hi\nBot: Hello\nUser: Bye\nBot:",
                "textGenerationConfig": {"maxTokenCount": 5, "temperature": 0.5, "topP": 0.9, "stopSequences": ["User:"]},
            },
        ),
        (
            "us.meta.llama3-1-8b-instruct-v1:0",
            {},
            {
                "prompt": "<|begin_of_text|><|start_header_id|>system<|end_header_id|>\n\nBe brief.<|eot_id|>"
                "<|start_header_id|>user<|end_header_id|>\n\nHi<|eot_id|><|start_header_id|>assistant<|end_header_id|>\n\nHello<|eot_id|>"
                "<|start_header_id|>user<|end_header_id|>\n\nBye<|eot_id|><|start_header_id|>assistant<|end_header_id|>\n\n",
                "max_gen_len": 5,
                "temperature": 0.5,
                "top_p": 0.9,
            },
        ),
        (
            "mistral.mistral-7b-instruct-v0:2",
            {"stop": "X", "top_k": 3},
            {
                "prompt": "<s>[INST] Be brief.\n\nHi [/INST] Hello</s>[INST] Bye [/INST]",
                "max_tokens": 5,
                "stop": ["X"],
                "temperature": 0.5,
                "top_p": 0.9,
                "top_k": 3,
            },
        ),
        (
            "cohere.command-r-v1:0",
            {"stop": "X", "top_k": 3},
            {
                "message": "Bye",
                "chat_history": [
                    {"role": "SYSTEM", "message": "Be brief."},
                    {"role": "USER", "message": "Hi"},
                    {"role": "CHATBOT", "message": "Hello"},
                ],
                "max_tokens": 5,
                "temperature": 0.5,
                "p": 0.9,
                "k": 3,
                "stop_sequences": ["X"],
            },
        ),
    ],
)
def test_models_that_complete_a_text(model: str, more: dict[str, Any], expected: dict[str, Any]) -> None:
    """
    Their makers' templates, sampling in their words.
    """
    assert expected == body_of("bedrock-invoke", TALK, model=model, tools=(), **SAID, **more)
    assert TOOL.name == "get"
