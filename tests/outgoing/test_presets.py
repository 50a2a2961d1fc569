"""
Every provider of the table, asked on loopback: the path, the key and the body arrive as its protocol wants them.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from typing import Any
from urllib.parse import urlsplit

import attrs
import pytest
from aiohttp import web

from rxchat.client import ChatModel
from rxchat.client.request import resolve
from rxchat.errors import HTTPStatusError
from rxchat.presets import PRESETS, Preset
from rxchat.prompt import RequestOptions
from tests.loopback import Loopback, loopback

MODEL = "maker/model-1"
# By dialect: what stands behind the base URL, the header of the key, its form, and where the question is in the body.
PATHS = {
    "openai-chat": "/chat/completions",
    "mistral": "/chat/completions",
    "openai-responses": "/responses",
    "anthropic": "/v1/messages",
    "gemini": f"/{MODEL}:streamGenerateContent?alt=sse",
    "gemini-interactions": "/interactions",
    "cohere": "/v2/chat",
    "dashscope": "/api/v1/services/aigc/text-generation/generation",
    "ollama": "/api/chat",
    "bedrock-converse": "/model/maker%2Fmodel-1/converse-stream",
    "bedrock-invoke": "/model/amazon.nova-lite-v1%3A0/invoke-with-response-stream",
}
KEYS = {"anthropic": ("x-api-key", "{}"), "gemini": ("x-goog-api-key", "{}"), "gemini-interactions": ("x-goog-api-key", "{}")}
CHAT = [{"role": "user", "content": "Hi"}]
NATIVE = [{"role": "user", "content": [{"text": "Hi"}]}]
QUESTIONS: dict[str, Any] = {
    "gemini": {"contents": [{"parts": [{"text": "Hi"}], "role": "user"}]},
    "gemini-interactions": {"input": [{"type": "user_input", "content": [{"type": "text", "text": "Hi"}]}]},
    "openai-responses": {"input": CHAT},
    "dashscope": {"input": {"messages": CHAT}},
    "bedrock-converse": {"messages": NATIVE},
    "bedrock-invoke": {"messages": NATIVE},
}
BOUNDS: dict[str, Any] = {
    "anthropic": {"max_tokens": 9},
    "mistral": {"max_tokens": 9},
    "cohere": {"max_tokens": 9},
    "openai-responses": {"max_output_tokens": 9},
    "gemini": {"generationConfig": {"maxOutputTokens": 9}},
    "gemini-interactions": {"generation_config": {"max_output_tokens": 9}},
    "dashscope": {"parameters": {"max_tokens": 9, "incremental_output": True, "result_format": "message"}},
    "ollama": {"options": {"num_predict": 9}},
    "bedrock-converse": {"inferenceConfig": {"maxTokens": 9}},
    "bedrock-invoke": {"inferenceConfig": {"maxTokens": 9}},
}


@attrs.define
class Seen:
    """
    The last request as it arrived, its path not decoded.
    """

    path: str = ""
    headers: dict[str, str] = attrs.field(factory=dict)
    body: dict[str, Any] = attrs.field(factory=dict)


@pytest.fixture
def seen() -> Seen:
    return Seen()


@pytest.fixture
async def server(seen: Seen) -> AsyncIterator[Loopback]:
    """
    A server that notes the request and refuses it.
    """

    async def refuse(request: web.Request) -> web.StreamResponse:
        seen.path, seen.headers = request.raw_path, {name.lower(): value for name, value in request.headers.items()}
        seen.body = json.loads(await request.read())
        return web.json_response({"error": {"message": "noted"}}, status=400)

    async with loopback(refuse) as server:
        yield server


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """
    Keys and places for every provider, and nothing else of this machine's.
    """
    for preset in PRESETS.values():
        for variable in (*preset.key_env.split(), *(name for names in preset.places.values() for name in names.split())):
            monkeypatch.delenv(variable, raising=False)
    for preset in PRESETS.values():
        for variables in preset.places.values():
            monkeypatch.setenv(variables.split()[0], "us-east-1")
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKIDEXAMPLE")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret")
    monkeypatch.setenv("AWS_CONFIG_FILE", "/nonexistent")
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", "/nonexistent")


def model_of(preset: Preset) -> str:
    return "amazon.nova-lite-v1:0" if preset.dialect == "bedrock-invoke" else MODEL


@pytest.mark.parametrize("name", sorted(PRESETS))
async def test_asked_on_loopback(name: str, server: Loopback, seen: Seen, monkeypatch: pytest.MonkeyPatch) -> None:
    """
    The preset's own path and its dialect's, the key of its variable in the dialect's header, the question and the bound of the answer in its words.
    """
    preset = PRESETS[name]
    secret = f"key-of-{name}"
    if preset.key_env:
        monkeypatch.setenv(preset.key_env.split()[0], secret)
    below = urlsplit(preset.base_url_for()).path
    model = ChatModel(f"{name}/{model_of(preset)}", base_url=server.url.removesuffix("/v1") + below)
    with pytest.raises(HTTPStatusError, match="noted"):
        await model.call("Hi", max_tokens=9)
    assert below + PATHS[preset.dialect] == seen.path
    header, form = KEYS.get(preset.dialect, ("authorization", "Bearer {}"))
    assert (form.format(secret) if preset.key_env else None) == seen.headers.get(header)
    expected = QUESTIONS.get(preset.dialect, {"messages": CHAT})
    bound = BOUNDS.get(preset.dialect, {preset.quirks.get("max_tokens_field", "max_completion_tokens"): 9})
    assert expected | bound == {key: seen.body[key] for key in expected | bound}
    assert "application/json" == seen.headers["content-type"]
    if preset.dialect == "openai-chat":
        assert preset.quirks.get("include_usage", True) == ("stream_options" in seen.body)


@pytest.mark.parametrize("name", sorted(PRESETS))
def test_asked_at_its_own_address(name: str) -> None:
    """
    Without another address, the provider's own, with its places filled in.
    """
    preset = PRESETS[name]
    wire = resolve(f"{name}/{model_of(preset)}", api_key="k").request("Hi", (), {}, preset.options)
    assert preset.base_url_for() + PATHS[preset.dialect] == wire.url
    assert "k" not in repr(wire).replace("http", "").split("'")
    assert "us-east-1" in wire.url or not preset.places


@pytest.mark.parametrize("name, variables", [("gemini", ["GEMINI_API_KEY", "GOOGLE_API_KEY"]), ("cohere", ["COHERE_API_KEY", "CO_API_KEY"])])
def test_usual_variables(name: str, variables: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """
    Each usual variable is read; set together, the SDK's own choice counts.
    """
    for variable in variables:
        monkeypatch.setenv(variable, variable.lower())
        assert variable.lower() == resolve(f"{name}/m").key


@pytest.mark.parametrize("name", ["bedrock", "bedrock-invoke"])
async def test_signed_without_a_key(name: str, server: Loopback, seen: Seen) -> None:
    """
    AWS credentials sign where no key is given.
    """
    with pytest.raises(HTTPStatusError, match="noted"):
        await ChatModel(f"{name}/anthropic.claude", base_url=server.url).call("Hi")
    assert seen.headers["authorization"].startswith("AWS4-HMAC-SHA256 Credential=AKIDEXAMPLE/")


async def test_options_and_typed_functions(server: Loopback, seen: Seen) -> None:
    """
    Options as one object with fields on top, tools as functions, another dialect at a known address, extras merged last.
    """

    def get_weather(city: str) -> str:
        """
        Weather of a city.
        """
        return city

    model = ChatModel("openai/m", base_url=server.url, api_key="k", dialect="openai-responses")
    options = RequestOptions(temperature=0.1, max_tokens=5, extra={"metadata": {"a": "b"}}, extra_headers={"x-trace": "t"})
    with pytest.raises(HTTPStatusError, match="noted"):
        await model.call("Hi", tools=[get_weather], options=options, max_tokens=7, stream=False)
    assert "/v1/responses" == seen.path
    assert (0.1, 7, {"a": "b"}, "t") == (seen.body["temperature"], seen.body["max_output_tokens"], seen.body["metadata"], seen.headers["x-trace"])
    [tool] = seen.body["tools"]
    assert ("get_weather", "Weather of a city.", ["city"]) == (tool["name"], tool["description"], tool["parameters"]["required"])
    assert "stream" not in seen.body


@pytest.mark.parametrize("incremental", [True, False])
async def test_dashscope_is_read_as_it_was_asked(incremental: bool, server: Loopback, seen: Seen) -> None:
    """
    The option of the dialect says both.
    """
    model = ChatModel("dashscope/qwen", base_url=server.url, api_key="k", options={"incremental_output": incremental})
    with pytest.raises(HTTPStatusError, match="noted"):
        await model.call("Hi")
    assert incremental is seen.body["parameters"]["incremental_output"]
