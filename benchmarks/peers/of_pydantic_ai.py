"""
pydantic-ai: an agent's text, and the events of a model; from a mock transport.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from importlib import import_module
from typing import Any

from benchmarks.peers.mocks import http_of, mocked
from benchmarks.subjects import PROMPT, Once, Place, Seen, Subject

MODELS = {
    "openai-chat": ("pydantic_ai.models.openai", "OpenAIChatModel", "gpt-4o"),
    "openai-responses": ("pydantic_ai.models.openai", "OpenAIResponsesModel", "gpt-4o"),
    "anthropic": ("pydantic_ai.models.anthropic", "AnthropicModel", "claude-model"),
}


@asynccontextmanager
async def _model(place: Place) -> AsyncIterator[Any]:
    module, kind, name = MODELS[place.load.dialect]
    sdk = import_module("anthropic" if place.load.dialect == "anthropic" else "openai")
    client_class, provider = (
        (sdk.AsyncAnthropic, import_module("pydantic_ai.providers.anthropic").AnthropicProvider)
        if place.load.dialect == "anthropic"
        else (sdk.AsyncOpenAI, import_module("pydantic_ai.providers.openai").OpenAIProvider)
    )
    async with client_class(api_key="none", max_retries=0, http_client=mocked(http_of(sdk), place)) as client:
        argument = "anthropic_client" if place.load.dialect == "anthropic" else "openai_client"
        yield getattr(import_module(module), kind)(name, provider=provider(**{argument: client}))


async def run_stream(model: Any) -> Seen:
    """
    Agent.run_stream, its text without debouncing.
    """
    agent = import_module("pydantic_ai").Agent(model)
    seen: Counter[str] = Counter()
    async with agent.run_stream(PROMPT) as result:
        async for text in result.stream_text(delta=True, debounce_by=None):
            seen["text"] += len(text)
    return seen


async def request_stream(model: Any) -> Seen:
    """
    direct.model_request_stream, all events.
    """
    messages = import_module("pydantic_ai.messages")
    request = messages.ModelRequest.user_text_prompt(PROMPT)
    seen: Counter[str] = Counter()
    async with import_module("pydantic_ai.direct").model_request_stream(model, [request]) as stream:
        async for event in stream:
            _count(seen, event)
    return seen


def _count(seen: Counter[str], event: Any) -> None:
    if event.event_kind == "part_start":
        part = event.part
        if part.part_kind == "tool-call":
            seen["arguments"] += len(part.args or "")
        else:
            seen[part.part_kind] += len(part.content)
    elif event.event_kind == "part_delta":
        delta = event.delta
        if delta.part_delta_kind == "tool_call":
            seen["arguments"] += len(delta.args_delta or "")
        else:
            seen[delta.part_delta_kind] += len(delta.content_delta or "")


def _opened(read: Callable[[Any], Awaitable[Seen]]) -> Callable[[Place], AbstractAsyncContextManager[Once]]:
    @asynccontextmanager
    async def opened(place: Place) -> AsyncIterator[Once]:
        async with _model(place) as model:

            async def once() -> Seen:
                return await read(model)

            yield once

    return opened


_FEW = {"": 2000, "W6": 100_000}
SUBJECTS = (
    Subject("pydantic-ai run_stream", ("W1", "W3"), _opened(run_stream), ("pydantic_ai", "openai"), most=_FEW),
    Subject("pydantic-ai model_request_stream", ("W1", "W2", "W3", "W4"), _opened(request_stream), ("pydantic_ai", "openai", "anthropic"), most=_FEW),
)
