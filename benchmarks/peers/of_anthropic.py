"""
The anthropic package: raw events, and the helper that puts the message together; from a mock transport.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from importlib import import_module
from typing import Any

from benchmarks.peers.mocks import http_of, mocked
from benchmarks.subjects import PROMPT, Once, Place, Seen, Subject

ASKED: dict[str, Any] = {"model": "claude-model", "max_tokens": 100, "messages": [{"role": "user", "content": PROMPT}]}

_KEYS = {"text_delta": ("text", "text"), "thinking_delta": ("thinking", "thinking"), "input_json_delta": ("arguments", "partial_json")}


def _opened(read: Callable[[Any], Awaitable[Seen]]) -> Callable[[Place], AbstractAsyncContextManager[Once]]:
    @asynccontextmanager
    async def opened(place: Place) -> AsyncIterator[Once]:
        sdk = import_module("anthropic")
        async with sdk.AsyncAnthropic(api_key="none", max_retries=0, http_client=mocked(http_of(sdk), place)) as client:

            async def once() -> Seen:
                return await read(client)

            yield once

    return opened


def _count(seen: Counter[str], event: Any) -> None:
    if event.type == "content_block_delta":
        kind, key = _KEYS[event.delta.type]
        seen[kind] += len(getattr(event.delta, key))


async def create(client: Any) -> Seen:
    """
    messages.create(stream=True).
    """
    seen: Counter[str] = Counter()
    async for event in await client.messages.create(**ASKED, stream=True):
        _count(seen, event)
    return seen


async def helper(client: Any) -> Seen:
    """
    messages.stream(), with its message.
    """
    seen: Counter[str] = Counter()
    async with client.messages.stream(**ASKED) as stream:
        async for event in stream:
            _count(seen, event)
        await stream.get_final_message()
    return seen


NEEDS = ("anthropic",)
SUBJECTS = (
    Subject("anthropic create", ("W2",), _opened(create), NEEDS),
    Subject("anthropic messages.stream()", ("W2",), _opened(helper), NEEDS, most={"": 2000}),
)
