# pyright: reportMissingImports=false, reportAttributeAccessIssue=false
"""
Record what the official SDKs send for the logical requests, as golden files: run by hand where they are installed (dependency group `sdk`).

    python -m tests.outgoing.record_sdk

Each SDK speaks to a server on loopback, which notes the request and refuses it. A golden file holds method, path, the headers that say something about
the protocol (keys masked, nothing about the SDK itself) and the JSON body.
"""

from __future__ import annotations

import base64
import json
import os
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, TypeAlias

from tests.outgoing.said import (
    FAILED,
    LOOKING,
    MODELS,
    PARAMETERS,
    PARIS,
    PARIS_ARGS,
    PDF,
    PICTURE_URL,
    PNG,
    QUESTION,
    ROME,
    ROME_ARGS,
    SEALED,
    SEEN,
    SHAPE,
    SIGNATURE,
    SUNNY,
    SYSTEM,
    THOUGHT,
    WAV,
)

GOLDEN = Path(__file__).parent / "golden"
KEY = "test-key-0123456789"
KEPT_HEADERS = ("accept", "anthropic-version", "authorization", "content-type", "x-api-key", "x-dashscope-sse", "x-goog-api-key", "api-revision")

Fields: TypeAlias = Mapping[str, Any]
Send: TypeAlias = Callable[[str, str, Fields], None]


# --- the server -----------------------------------------------------------------------------------------------------------------------------------


class Notary(BaseHTTPRequestHandler):
    """
    Notes every request and refuses it.
    """

    seen: list[dict[str, Any]]

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers.get("content-length") or 0))
        headers = {name.lower(): value for name, value in self.headers.items() if name.lower() in KEPT_HEADERS}
        self.seen.append({"method": "POST", "path": self.path, "headers": masked(headers), "body": json.loads(body)})
        refusal = b'{"error": {"type": "noted", "code": 400, "message": "noted", "status": "INVALID_ARGUMENT"}, "message": "noted", "code": "noted"}'
        self.send_response(400)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(refusal)))
        self.end_headers()
        self.wfile.write(refusal)

    def log_message(self, format: str, *args: Any) -> None:
        pass


def masked(headers: dict[str, str]) -> dict[str, str]:
    """
    The headers without keys; of a signature only its kind is left.
    """
    plain = {name: value.replace(KEY, "[key]") for name, value in sorted(headers.items())}
    if plain.get("authorization", "").startswith("AWS4-HMAC-SHA256"):
        plain["authorization"] = "AWS4-HMAC-SHA256"
    return plain


@contextmanager
def notary() -> Iterator[tuple[str, list[dict[str, Any]]]]:
    """
    The server's URL and what it has seen.
    """
    seen: list[dict[str, Any]] = []
    handler = type("Noting", (Notary,), {"seen": seen})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}", seen
    finally:
        server.shutdown()


# --- OpenAI -----------------------------------------------------------------------------------------------------------------------------------------


def openai_chat(url: str, model: str, said: Fields) -> None:
    from openai import OpenAI

    OpenAI(api_key=KEY, base_url=f"{url}/v1", max_retries=0).chat.completions.create(model=model, **said)


def openai_responses(url: str, model: str, said: Fields) -> None:
    from openai import OpenAI

    OpenAI(api_key=KEY, base_url=f"{url}/v1", max_retries=0).responses.create(model=model, **said)


def function(name: str = "get_weather", **more: Any) -> dict[str, Any]:
    return {"type": "function", "function": {"name": name, "description": "Weather of a city", "parameters": PARAMETERS, **more}}


def chat_call(call_id: str, arguments: str) -> dict[str, Any]:
    return {"id": call_id, "type": "function", "function": {"name": "get_weather", "arguments": arguments}}


STREAMED = {"stream": True, "stream_options": {"include_usage": True}}
CHAT_ASKED = [{"role": "system", "content": SYSTEM}, {"role": "user", "content": QUESTION}]
CHAT_USER = [{"role": "user", "content": QUESTION}]
SAMPLING = {"temperature": 0.5, "top_p": 0.9, "stop": ["END"], "seed": 7, "presence_penalty": 0.1, "frequency_penalty": 0.2}
CHAT_RESULTS = [
    *CHAT_USER,
    {"role": "assistant", "content": LOOKING, "tool_calls": [chat_call("call_1", PARIS), chat_call("call_2", ROME)]},
    {"role": "tool", "tool_call_id": "call_1", "content": SUNNY},
    {"role": "tool", "tool_call_id": "call_2", "content": FAILED},
]
ANSWER_FORM = {"type": "json_schema", "json_schema": {"name": "person", "schema": SHAPE, "strict": True}}

OPENAI_CHAT: dict[str, Fields] = {
    "text": {"messages": CHAT_ASKED, **STREAMED},
    "whole": {"messages": CHAT_ASKED, "max_completion_tokens": 100, **SAMPLING},
    "image": {
        "messages": [
            {"role": "user", "content": [{"type": "text", "text": SEEN}, {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{PNG}"}}]}
        ],
        **STREAMED,
    },
    "image-url": {
        "messages": [{"role": "user", "content": [{"type": "text", "text": SEEN}, {"type": "image_url", "image_url": {"url": PICTURE_URL}}]}],
        **STREAMED,
    },
    "audio": {
        "messages": [
            {"role": "user", "content": [{"type": "text", "text": SEEN}, {"type": "input_audio", "input_audio": {"data": WAV, "format": "wav"}}]}
        ],
        **STREAMED,
    },
    "file": {
        "messages": [
            {
                "role": "user",
                "content": [
                    {"type": "text", "text": SEEN},
                    {"type": "file", "file": {"filename": "a.pdf", "file_data": f"data:application/pdf;base64,{PDF}"}},
                ],
            }
        ],
        **STREAMED,
    },
    "tools": {
        "messages": CHAT_USER,
        "tools": [function(strict=True), {"type": "custom", "custom": {"name": "shell", "description": "A shell"}}],
        "tool_choice": {"type": "function", "function": {"name": "get_weather"}},
        "parallel_tool_calls": False,
        **STREAMED,
    },
    "required": {"messages": CHAT_USER, "tools": [function()], "tool_choice": "required", **STREAMED},
    "results": {"messages": CHAT_RESULTS, "tools": [function()], **STREAMED},
    "thinking": {"messages": CHAT_USER, "reasoning_effort": "low", **STREAMED},
    "schema": {"messages": CHAT_USER, "response_format": ANSWER_FORM, **STREAMED},
    "json": {"messages": CHAT_USER, "response_format": {"type": "json_object"}, **STREAMED},
}

FLAT_TOOL = {"type": "function", "name": "get_weather", "description": "Weather of a city", "parameters": PARAMETERS}
RESPONSES_USER = [{"role": "user", "content": QUESTION}]


def flat_call(call_id: str, arguments: str, item: str) -> dict[str, Any]:
    return {"type": "function_call", "id": item, "call_id": call_id, "name": "get_weather", "arguments": arguments}


def responses_seen(*content: Fields) -> list[Fields]:
    return [{"role": "user", "content": [{"type": "input_text", "text": SEEN}, *content]}]


OPENAI_RESPONSES: dict[str, Fields] = {
    "text": {"instructions": SYSTEM, "input": RESPONSES_USER, "stream": True},
    "whole": {"instructions": SYSTEM, "input": RESPONSES_USER, "max_output_tokens": 100, "temperature": 0.5, "top_p": 0.9},
    "image": {"input": responses_seen({"type": "input_image", "detail": "auto", "image_url": f"data:image/png;base64,{PNG}"}), "stream": True},
    "image-url": {"input": responses_seen({"type": "input_image", "detail": "auto", "image_url": PICTURE_URL}), "stream": True},
    "file": {"input": responses_seen({"type": "input_file", "filename": "a.pdf", "file_data": f"data:application/pdf;base64,{PDF}"}), "stream": True},
    "tools": {
        "input": RESPONSES_USER,
        "tools": [FLAT_TOOL | {"strict": True}, {"type": "custom", "name": "shell", "description": "A shell"}],
        "tool_choice": {"type": "function", "name": "get_weather"},
        "parallel_tool_calls": False,
        "stream": True,
    },
    "required": {"input": RESPONSES_USER, "tools": [FLAT_TOOL | {"strict": False}], "tool_choice": "required", "stream": True},
    "thinking": {
        "input": [
            *RESPONSES_USER,
            {"type": "reasoning", "id": "rs_1", "summary": [{"type": "summary_text", "text": THOUGHT}], "encrypted_content": SEALED},
            flat_call("call_1", PARIS, "fc_1"),
            flat_call("call_2", ROME, "fc_2"),
            {"type": "function_call_output", "call_id": "call_1", "output": SUNNY},
            {"type": "function_call_output", "call_id": "call_2", "output": FAILED},
        ],
        "tools": [FLAT_TOOL | {"strict": False}],
        "reasoning": {"effort": "low"},
        "include": ["reasoning.encrypted_content"],
        "store": False,
        "stream": True,
    },
    "schema": {
        "input": RESPONSES_USER,
        "text": {"format": {"type": "json_schema", "name": "person", "schema": SHAPE, "strict": True}},
        "stream": True,
    },
    "json": {"input": RESPONSES_USER, "text": {"format": {"type": "json_object"}}, "stream": True},
}
OPENAI_RESPONSES["results"] = {
    "input": [
        *RESPONSES_USER,
        {"role": "assistant", "content": LOOKING},
        flat_call("call_1", PARIS, "fc_1"),
        flat_call("call_2", ROME, "fc_2"),
        {"type": "function_call_output", "call_id": "call_1", "output": SUNNY},
        {"type": "function_call_output", "call_id": "call_2", "output": FAILED},
    ],
    "tools": [FLAT_TOOL | {"strict": False}],
    "stream": True,
}


# --- Anthropic ------------------------------------------------------------------------------------------------------------------------------------


def anthropic(url: str, model: str, said: Fields) -> None:
    from anthropic import Anthropic

    Anthropic(api_key=KEY, base_url=url, max_retries=0).messages.create(model=model, **said)


def anthropic_on_bedrock(url: str, model: str, said: Fields) -> None:
    from anthropic.lib.bedrock import AnthropicBedrock

    client = AnthropicBedrock(aws_access_key="AKIDEXAMPLE", aws_secret_key=KEY, aws_region="us-east-1", base_url=url, max_retries=0)
    client.messages.create(model=model, **said)


CLAUDE_TOOL = {"name": "get_weather", "description": "Weather of a city", "input_schema": PARAMETERS}
CLAUDE = {"max_tokens": 1000, "stream": True}


def claude_seen(*content: Fields) -> dict[str, Any]:
    return {"messages": [{"role": "user", "content": [{"type": "text", "text": SEEN}, *content]}], **CLAUDE}


def source(mime: str, data: str) -> dict[str, Any]:
    return {"type": "base64", "media_type": mime, "data": data}


def claude_results(*before: Fields) -> list[Fields]:
    return [
        *CHAT_USER,
        {
            "role": "assistant",
            "content": [
                *before,
                {"type": "tool_use", "id": "toolu_1", "name": "get_weather", "input": PARIS_ARGS},
                {"type": "tool_use", "id": "toolu_2", "name": "get_weather", "input": ROME_ARGS},
            ],
        },
        {
            "role": "user",
            "content": [
                {"type": "tool_result", "tool_use_id": "toolu_1", "content": SUNNY},
                {"type": "tool_result", "tool_use_id": "toolu_2", "content": FAILED, "is_error": True},
            ],
        },
    ]


ANTHROPIC: dict[str, Fields] = {
    "text": {"system": SYSTEM, "messages": CHAT_USER, **CLAUDE},
    "whole": {
        "system": SYSTEM,
        "messages": CHAT_USER,
        "max_tokens": 100,
        "stop_sequences": ["END"],
        # The API knows these, for the models that take them; the SDK has no word for them any more.
        "extra_body": {"temperature": 0.5, "top_p": 0.9, "top_k": 40},
    },
    "image": claude_seen({"type": "image", "source": source("image/png", PNG)}),
    "image-url": claude_seen({"type": "image", "source": {"type": "url", "url": PICTURE_URL}}),
    "file": claude_seen({"type": "document", "source": source("application/pdf", PDF), "title": "a.pdf"}),
    "tools": {
        "messages": CHAT_USER,
        "tools": [CLAUDE_TOOL | {"strict": True}],
        "tool_choice": {"type": "tool", "name": "get_weather", "disable_parallel_tool_use": True},
        **CLAUDE,
    },
    "required": {"messages": CHAT_USER, "tools": [CLAUDE_TOOL], "tool_choice": {"type": "any"}, **CLAUDE},
    "results": {"messages": claude_results({"type": "text", "text": LOOKING}), "tools": [CLAUDE_TOOL], **CLAUDE},
    "thinking": {
        "messages": claude_results({"type": "thinking", "thinking": THOUGHT, "signature": SIGNATURE}, {"type": "redacted_thinking", "data": SEALED}),
        "tools": [CLAUDE_TOOL],
        "thinking": {"type": "enabled", "budget_tokens": 2000},
        "max_tokens": 4000,
        "stream": True,
    },
    "effort": {"messages": CHAT_USER, "thinking": {"type": "adaptive"}, "output_config": {"effort": "low"}, **CLAUDE},
    "schema": {"messages": CHAT_USER, "output_config": {"format": {"type": "json_schema", "schema": SHAPE}}, **CLAUDE},
}
INVOKE: dict[str, Fields] = {name: ANTHROPIC[name] for name in ("text", "whole", "image", "tools", "results", "thinking")}


# --- Google -----------------------------------------------------------------------------------------------------------------------------------------


def gemini(url: str, model: str, said: Fields) -> None:
    from google import genai

    client = genai.Client(api_key=KEY, http_options={"base_url": url})
    contents = [genai.types.Content.model_validate(content) for content in said["contents"]]
    config = genai.types.GenerateContentConfig.model_validate(said.get("config", {}))
    if said.get("stream", True):
        list(client.models.generate_content_stream(model=model, contents=contents, config=config))
    else:
        client.models.generate_content(model=model, contents=contents, config=config)


def gemini_interactions(url: str, model: str, said: Fields) -> None:
    from google import genai

    # It closes its connections when it is collected.
    client = genai.Client(api_key=KEY, http_options={"base_url": url})
    client.interactions.create(model=model, **said)


GEMINI_USER = [{"role": "user", "parts": [{"text": QUESTION}]}]
GEMINI_TOOL = {"function_declarations": [{"name": "get_weather", "description": "Weather of a city", "parameters_json_schema": PARAMETERS}]}


def gemini_seen(*parts: Fields) -> dict[str, Any]:
    return {"contents": [{"role": "user", "parts": [{"text": SEEN}, *parts]}]}


def inline(mime: str, data: str) -> dict[str, Any]:
    return {"inline_data": {"mime_type": mime, "data": base64.b64decode(data)}}


def gemini_results(first: Fields, *before: Fields) -> list[Fields]:
    return [
        *GEMINI_USER,
        {
            "role": "model",
            "parts": [
                *before,
                {"function_call": {"id": "fc_1", "name": "get_weather", "args": PARIS_ARGS}, **first},
                {"function_call": {"id": "fc_2", "name": "get_weather", "args": ROME_ARGS}},
            ],
        },
        {
            "role": "user",
            "parts": [
                {"function_response": {"id": "fc_1", "name": "get_weather", "response": {"result": SUNNY}}},
                {"function_response": {"id": "fc_2", "name": "get_weather", "response": {"error": FAILED}}},
            ],
        },
    ]


GEMINI: dict[str, Fields] = {
    "text": {"contents": GEMINI_USER, "config": {"system_instruction": SYSTEM}},
    "whole": {
        "contents": GEMINI_USER,
        "stream": False,
        "config": {
            "system_instruction": SYSTEM,
            "max_output_tokens": 100,
            "temperature": 0.5,
            "top_p": 0.9,
            "top_k": 40,
            "stop_sequences": ["END"],
            "seed": 7,
            "presence_penalty": 0.1,
            "frequency_penalty": 0.2,
        },
    },
    "image": gemini_seen(inline("image/png", PNG)),
    "image-url": gemini_seen({"file_data": {"mime_type": "image/png", "file_uri": PICTURE_URL}}),
    "audio": gemini_seen(inline("audio/wav", WAV)),
    "file": gemini_seen(inline("application/pdf", PDF)),
    "tools": {
        "contents": GEMINI_USER,
        "config": {
            "tools": [GEMINI_TOOL],
            "tool_config": {"function_calling_config": {"mode": "ANY", "allowed_function_names": ["get_weather"]}},
        },
    },
    "required": {"contents": GEMINI_USER, "config": {"tools": [GEMINI_TOOL], "tool_config": {"function_calling_config": {"mode": "ANY"}}}},
    "results": {"contents": gemini_results({}, {"text": LOOKING}), "config": {"tools": [GEMINI_TOOL]}},
    "thinking": {
        "contents": gemini_results({"thought_signature": base64.b64decode(SIGNATURE)}),
        "config": {"tools": [GEMINI_TOOL], "thinking_config": {"include_thoughts": True, "thinking_budget": 2000}},
    },
    "effort": {"contents": GEMINI_USER, "config": {"thinking_config": {"include_thoughts": True, "thinking_level": "LOW"}}},
    "schema": {"contents": GEMINI_USER, "config": {"response_mime_type": "application/json", "response_json_schema": SHAPE}},
    "json": {"contents": GEMINI_USER, "config": {"response_mime_type": "application/json"}},
}

INTERACTION_TOOL = FLAT_TOOL
INTERACTION_ASKED = {"type": "user_input", "content": [{"type": "text", "text": QUESTION}]}


def interaction_seen(*content: Fields) -> dict[str, Any]:
    return {"input": [{"type": "user_input", "content": [{"type": "text", "text": SEEN}, *content]}], "store": False, "stream": True}


def interaction_results(*before: Fields) -> list[Fields]:
    return [
        INTERACTION_ASKED,
        *before,
        {"type": "function_call", "id": "fc_1", "name": "get_weather", "arguments": PARIS_ARGS},
        {"type": "function_call", "id": "fc_2", "name": "get_weather", "arguments": ROME_ARGS},
        {"type": "function_result", "call_id": "fc_1", "name": "get_weather", "result": SUNNY},
        {"type": "function_result", "call_id": "fc_2", "name": "get_weather", "result": FAILED, "is_error": True},
    ]


INTERACTIONS: dict[str, Fields] = {
    "text": {"system_instruction": SYSTEM, "input": [INTERACTION_ASKED], "store": False, "stream": True},
    "whole": {
        "system_instruction": SYSTEM,
        "input": [INTERACTION_ASKED],
        "store": False,
        "generation_config": {"max_output_tokens": 100, "temperature": 0.5, "top_p": 0.9, "stop_sequences": ["END"], "seed": 7},
    },
    "image": interaction_seen({"type": "image", "data": PNG, "mime_type": "image/png"}),
    "image-url": interaction_seen({"type": "image", "uri": PICTURE_URL, "mime_type": "image/png"}),
    "audio": interaction_seen({"type": "audio", "data": WAV, "mime_type": "audio/wav"}),
    "file": interaction_seen({"type": "document", "data": PDF, "mime_type": "application/pdf"}),
    "tools": {
        "input": [INTERACTION_ASKED],
        "tools": [INTERACTION_TOOL],
        "generation_config": {"tool_choice": {"allowed_tools": {"mode": "any", "tools": ["get_weather"]}}},
        "store": False,
        "stream": True,
    },
    "required": {
        "input": [INTERACTION_ASKED],
        "tools": [INTERACTION_TOOL],
        "generation_config": {"tool_choice": "any"},
        "store": False,
        "stream": True,
    },
    "results": {
        "input": interaction_results({"type": "model_output", "content": [{"type": "text", "text": LOOKING}]}),
        "tools": [INTERACTION_TOOL],
        "store": False,
        "stream": True,
    },
    "thinking": {
        "input": interaction_results({"type": "thought", "summary": [{"type": "text", "text": THOUGHT}], "signature": SIGNATURE}),
        "tools": [INTERACTION_TOOL],
        "generation_config": {"thinking_level": "low", "thinking_summaries": "auto"},
        "store": False,
        "stream": True,
    },
    "schema": {
        "input": [INTERACTION_ASKED],
        "response_format": {"type": "text", "mime_type": "application/json", "schema": SHAPE},
        "store": False,
        "stream": True,
    },
    "json": {"input": [INTERACTION_ASKED], "response_format": {"type": "text", "mime_type": "application/json"}, "store": False, "stream": True},
}


# --- Ollama, Cohere, Mistral, DashScope -------------------------------------------------------------------------------------------------------------


def ollama(url: str, model: str, said: Fields) -> None:
    from ollama import Client

    answer = Client(host=url).chat(model=model, **said)
    if said.get("stream"):
        list(answer)


def object_call(arguments: Fields) -> dict[str, Any]:
    return {"function": {"name": "get_weather", "arguments": arguments}}


def ollama_results(**more: Any) -> list[Fields]:
    return [
        *CHAT_USER,
        {"role": "assistant", "content": LOOKING, "tool_calls": [object_call(PARIS_ARGS), object_call(ROME_ARGS)], **more},
        {"role": "tool", "content": SUNNY, "tool_name": "get_weather"},
        {"role": "tool", "content": FAILED, "tool_name": "get_weather"},
    ]


OLLAMA: dict[str, Fields] = {
    "text": {"messages": CHAT_ASKED, "stream": True},
    "whole": {"messages": CHAT_ASKED, "options": {"num_predict": 100, **SAMPLING, "top_k": 40}},
    "image": {"messages": [{"role": "user", "content": SEEN, "images": [base64.b64decode(PNG)]}], "stream": True},
    "tools": {"messages": CHAT_USER, "tools": [function()], "stream": True},
    "results": {"messages": ollama_results(), "tools": [function()], "stream": True},
    "thinking": {"messages": ollama_results(thinking=THOUGHT), "tools": [function()], "think": "low", "stream": True},
    "no-thinking": {"messages": CHAT_USER, "think": False, "stream": True},
    "schema": {"messages": CHAT_USER, "format": SHAPE, "stream": True},
    "json": {"messages": CHAT_USER, "format": "json", "stream": True},
}


def cohere(url: str, model: str, said: Fields) -> None:
    from cohere import ClientV2

    client = ClientV2(api_key=KEY, base_url=url)
    fields = {name: value for name, value in said.items() if name != "stream"}
    if said.get("stream", True):
        list(client.chat_stream(model=model, **fields))
    else:
        client.chat(model=model, **fields)


def cohere_results(**more: Any) -> list[Fields]:
    return [
        *CHAT_USER,
        {"role": "assistant", "tool_calls": [chat_call("call_1", PARIS), chat_call("call_2", ROME)], **more},
        {"role": "tool", "tool_call_id": "call_1", "content": SUNNY},
        {"role": "tool", "tool_call_id": "call_2", "content": FAILED},
    ]


COHERE: dict[str, Fields] = {
    "text": {"messages": CHAT_ASKED},
    "whole": {
        "messages": CHAT_ASKED,
        "stream": False,
        "max_tokens": 100,
        "temperature": 0.5,
        "p": 0.9,
        "k": 40,
        "stop_sequences": ["END"],
        "seed": 7,
        "presence_penalty": 0.1,
        "frequency_penalty": 0.2,
    },
    "image": {"messages": OPENAI_CHAT["image"]["messages"]},
    "image-url": {"messages": OPENAI_CHAT["image-url"]["messages"]},
    "tools": {"messages": CHAT_USER, "tools": [function()], "strict_tools": True},
    "required": {"messages": CHAT_USER, "tools": [function()], "tool_choice": "REQUIRED"},
    "results": {"messages": cohere_results(tool_plan=LOOKING), "tools": [function()]},
    "thinking": {
        "messages": cohere_results(content=[{"type": "thinking", "thinking": THOUGHT}]),
        "tools": [function()],
        "thinking": {"type": "enabled", "token_budget": 2000},
    },
    "no-thinking": {"messages": CHAT_USER, "thinking": {"type": "disabled"}},
    "schema": {"messages": CHAT_USER, "response_format": {"type": "json_object", "json_schema": SHAPE}},
    "json": {"messages": CHAT_USER, "response_format": {"type": "json_object"}},
}


def mistral(url: str, model: str, said: Fields) -> None:
    from mistralai.client import Mistral

    client = Mistral(api_key=KEY, server_url=url)
    fields = {name: value for name, value in said.items() if name != "stream"}
    if said.get("stream", True):
        client.chat.stream(model=model, **fields)
    else:
        client.chat.complete(model=model, **fields)


def mistral_results(content: Any) -> list[Fields]:
    return [
        *CHAT_USER,
        {"role": "assistant", "content": content, "tool_calls": [chat_call("call_1", PARIS), chat_call("call_2", ROME)]},
        {"role": "tool", "tool_call_id": "call_1", "name": "get_weather", "content": SUNNY},
        {"role": "tool", "tool_call_id": "call_2", "name": "get_weather", "content": FAILED},
    ]


MISTRAL: dict[str, Fields] = {
    "text": {"messages": CHAT_ASKED},
    "whole": {
        "messages": CHAT_ASKED,
        "stream": False,
        "max_tokens": 100,
        "temperature": 0.5,
        "top_p": 0.9,
        "top_k": 40,
        "stop": ["END"],
        "random_seed": 7,
        "presence_penalty": 0.1,
        "frequency_penalty": 0.2,
    },
    "image": {"messages": OPENAI_CHAT["image"]["messages"]},
    "image-url": {"messages": OPENAI_CHAT["image-url"]["messages"]},
    "audio": {"messages": [{"role": "user", "content": [{"type": "text", "text": SEEN}, {"type": "input_audio", "input_audio": WAV}]}]},
    "file": {
        "messages": [
            {
                "role": "user",
                "content": [
                    {"type": "text", "text": SEEN},
                    {"type": "document_url", "document_url": f"data:application/pdf;base64,{PDF}", "document_name": "a.pdf"},
                ],
            }
        ]
    },
    "tools": {
        "messages": CHAT_USER,
        "tools": [function(strict=True)],
        "tool_choice": {"type": "function", "function": {"name": "get_weather"}},
        "parallel_tool_calls": False,
    },
    "required": {"messages": CHAT_USER, "tools": [function()], "tool_choice": "any"},
    "results": {"messages": mistral_results(LOOKING), "tools": [function()]},
    "thinking": {
        "messages": mistral_results([{"type": "thinking", "thinking": [{"type": "text", "text": THOUGHT}]}]),
        "tools": [function()],
        "reasoning_effort": "high",
    },
    "schema": {
        "messages": CHAT_USER,
        "response_format": {"type": "json_schema", "json_schema": {"name": "person", "schema_definition": SHAPE, "strict": True}},
    },
    "json": {"messages": CHAT_USER, "response_format": {"type": "json_object"}},
}


def dashscope(url: str, model: str, said: Fields) -> None:
    import dashscope as sdk

    sdk.base_http_api_url = f"{url}/api/v1"
    service: Any = sdk.MultiModalConversation if said.get("media") else sdk.Generation
    fields = {name: value for name, value in said.items() if name != "media"}
    answer = service.call(model=model, api_key=KEY, **fields)
    if said.get("stream"):
        list(answer)


QWEN: dict[str, Any] = {"stream": True, "incremental_output": True, "result_format": "message"}


def qwen_results(**more: Any) -> list[Fields]:
    calls = [{"index": 0, **chat_call("call_1", PARIS)}, {"index": 1, **chat_call("call_2", ROME)}]
    return [
        *CHAT_USER,
        {"role": "assistant", "content": LOOKING, "tool_calls": calls, **more},
        {"role": "tool", "content": SUNNY, "tool_call_id": "call_1"},
        {"role": "tool", "content": FAILED, "tool_call_id": "call_2"},
    ]


DASHSCOPE: dict[str, Fields] = {
    "text": {"messages": CHAT_ASKED, **QWEN},
    "cumulative": {"messages": CHAT_ASKED, **QWEN, "incremental_output": False},
    "whole": {
        "messages": CHAT_ASKED,
        "result_format": "message",
        "max_tokens": 100,
        "temperature": 0.5,
        "top_p": 0.9,
        "top_k": 40,
        "stop": ["END"],
        "seed": 7,
        "presence_penalty": 0.1,
    },
    "image-url": {"messages": [{"role": "user", "content": [{"text": SEEN}, {"image": PICTURE_URL}]}], "media": True, **QWEN},
    "image": {"messages": [{"role": "user", "content": [{"text": SEEN}, {"image": f"data:image/png;base64,{PNG}"}]}], "media": True, **QWEN},
    "tools": {
        "messages": CHAT_USER,
        "tools": [function()],
        "tool_choice": {"type": "function", "function": {"name": "get_weather"}},
        "parallel_tool_calls": False,
        **QWEN,
    },
    "results": {"messages": qwen_results(), "tools": [function()], **QWEN},
    "thinking": {
        "messages": qwen_results(reasoning_content=THOUGHT),
        "tools": [function()],
        "enable_thinking": True,
        "thinking_budget": 2000,
        **QWEN,
    },
    "schema": {"messages": CHAT_USER, "response_format": ANSWER_FORM, **QWEN},
    "json": {"messages": CHAT_USER, "response_format": {"type": "json_object"}, **QWEN},
}


# --- Bedrock ----------------------------------------------------------------------------------------------------------------------------------------


def converse(url: str, model: str, said: Fields) -> None:
    import boto3
    from botocore.config import Config

    client = boto3.client(
        "bedrock-runtime",
        endpoint_url=url,
        region_name="us-east-1",
        aws_access_key_id="AKIDEXAMPLE",
        aws_secret_access_key=KEY,
        config=Config(retries={"max_attempts": 0}),
    )
    fields = {name: value for name, value in said.items() if name != "stream"}
    (client.converse_stream if said.get("stream", True) else client.converse)(modelId=model, **fields)


CONVERSE_USER = [{"role": "user", "content": [{"text": QUESTION}]}]
CONVERSE_TOOL = {"toolSpec": {"name": "get_weather", "description": "Weather of a city", "inputSchema": {"json": PARAMETERS}}}


def converse_results(*before: Fields) -> list[Fields]:
    return [
        *CONVERSE_USER,
        {
            "role": "assistant",
            "content": [
                *before,
                {"toolUse": {"toolUseId": "tooluse_1", "name": "get_weather", "input": PARIS_ARGS}},
                {"toolUse": {"toolUseId": "tooluse_2", "name": "get_weather", "input": ROME_ARGS}},
            ],
        },
        {
            "role": "user",
            "content": [
                {"toolResult": {"toolUseId": "tooluse_1", "content": [{"text": SUNNY}]}},
                {"toolResult": {"toolUseId": "tooluse_2", "content": [{"text": FAILED}], "status": "error"}},
            ],
        },
    ]


CONVERSE: dict[str, Fields] = {
    "text": {"system": [{"text": SYSTEM}], "messages": CONVERSE_USER},
    "whole": {
        "system": [{"text": SYSTEM}],
        "messages": CONVERSE_USER,
        "stream": False,
        "inferenceConfig": {"maxTokens": 100, "temperature": 0.5, "topP": 0.9, "stopSequences": ["END"]},
        "additionalModelRequestFields": {"top_k": 40},
    },
    "image": {"messages": [{"role": "user", "content": [{"text": SEEN}, {"image": {"format": "png", "source": {"bytes": base64.b64decode(PNG)}}}]}]},
    "file": {
        "messages": [
            {
                "role": "user",
                "content": [{"text": SEEN}, {"document": {"format": "pdf", "name": "a", "source": {"bytes": base64.b64decode(PDF)}}}],
            }
        ]
    },
    "tools": {
        "messages": CONVERSE_USER,
        "toolConfig": {
            "tools": [{"toolSpec": CONVERSE_TOOL["toolSpec"] | {"strict": True}}],
            "toolChoice": {"tool": {"name": "get_weather"}},
        },
    },
    "required": {"messages": CONVERSE_USER, "toolConfig": {"tools": [CONVERSE_TOOL], "toolChoice": {"any": {}}}},
    "results": {"messages": converse_results({"text": LOOKING}), "toolConfig": {"tools": [CONVERSE_TOOL]}},
    "thinking": {
        "messages": converse_results(
            {"reasoningContent": {"reasoningText": {"text": THOUGHT, "signature": SIGNATURE}}},
            {"reasoningContent": {"redactedContent": base64.b64decode(SEALED)}},
        ),
        "toolConfig": {"tools": [CONVERSE_TOOL]},
        "inferenceConfig": {"maxTokens": 4000},
        "additionalModelRequestFields": {"thinking": {"type": "enabled", "budget_tokens": 2000}},
    },
    "schema": {
        "messages": CONVERSE_USER,
        "outputConfig": {
            "textFormat": {
                "type": "json_schema",
                "structure": {"jsonSchema": {"schema": json.dumps(SHAPE, separators=(",", ":")), "name": "person"}},
            }
        },
    },
}


# --- all of them ------------------------------------------------------------------------------------------------------------------------------------

SENDERS: Mapping[str, tuple[Send, Mapping[str, Fields]]] = {
    "openai-chat": (openai_chat, OPENAI_CHAT),
    "openai-responses": (openai_responses, OPENAI_RESPONSES),
    "anthropic": (anthropic, ANTHROPIC),
    "gemini": (gemini, GEMINI),
    "gemini-interactions": (gemini_interactions, INTERACTIONS),
    "ollama": (ollama, OLLAMA),
    "cohere": (cohere, COHERE),
    "mistral": (mistral, MISTRAL),
    "dashscope": (dashscope, DASHSCOPE),
    "bedrock-converse": (converse, CONVERSE),
    "bedrock-invoke": (anthropic_on_bedrock, INVOKE),
}


def record(dialect: str) -> int:
    """
    Send and write down all requests of one dialect.
    """
    send, cases = SENDERS[dialect]
    for name, said in cases.items():
        with notary() as (url, seen):
            failure: Exception | None = None
            try:
                send(url, MODELS[dialect], said)
            except Exception as refused:
                failure = refused
        if len(seen) != 1:
            raise RuntimeError(f"{dialect} {name}: {len(seen)} requests, {failure!r}")
        path = GOLDEN / dialect / f"{name}.json"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(seen[0], indent=1, ensure_ascii=False) + "\n")
    return len(cases)


def main() -> None:
    """
    Record everything; print how many requests each dialect has.
    """
    os.environ["NO_PROXY"] = os.environ["no_proxy"] = "127.0.0.1"
    with suppress(KeyError):
        del os.environ["GOOGLE_API_KEY"]
    for dialect in SENDERS:
        print(f"{dialect:20} {record(dialect):3} requests")


if __name__ == "__main__":
    main()
