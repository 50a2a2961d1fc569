"""
The openai package: chunks, its `.stream()` helpers, Responses; from a mock transport.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from importlib import import_module
from typing import Any

from benchmarks.peers.mocks import http_of, mocked, mocked_sync
from benchmarks.subjects import PROMPT, Once, Place, Seen, Subject

MESSAGES = [{"role": "user", "content": PROMPT}]
MODEL = "gpt-4o"


def chunk_texts(chunk: Any) -> list[tuple[str, str]]:
    """
    Kind and text of what a chunk of chat carries.
    """
    delta = chunk.choices[0].delta
    texts = [("text", delta.content)] if delta.content else []
    return texts + [("arguments", call.function.arguments) for call in delta.tool_calls or ()]


def event_texts(event: Any) -> list[tuple[str, str]]:
    """
    Kind and text of what an event of Responses carries.
    """
    if event.type == "response.output_text.delta":
        return [("text", event.delta)]
    return [("media", event.partial_image_b64)] if event.type == "response.image_generation_call.partial_image" else []


def final_texts(message: Any) -> Seen:
    """
    How much the answer holds that the helper put together.
    """
    return {
        "text": len(message.content or ""),
        "arguments": sum(len(call.function.arguments) for call in message.tool_calls or ()),
    }


# --- with a loop ----------------------------------------------------------------------------------------------------------------------------------


def asynchronous(read: Callable[[Any], Any]) -> Callable[[Place], AbstractAsyncContextManager[Once]]:
    """
    A subject that reads with the asynchronous client.
    """

    @asynccontextmanager
    async def opened(place: Place) -> AsyncIterator[Once]:
        sdk = import_module("openai")
        async with sdk.AsyncOpenAI(api_key="none", max_retries=0, http_client=mocked(http_of(sdk), place)) as client:

            async def once() -> Seen:
                seen: Seen = await read(client)
                return seen

            yield once

    return opened


async def create(client: Any) -> Seen:
    """
    chat.completions.create(stream=True).
    """
    seen: Counter[str] = Counter()
    async for chunk in await client.chat.completions.create(model=MODEL, messages=MESSAGES, stream=True):
        for kind, text in chunk_texts(chunk):
            seen[kind] += len(text)
    return seen


async def helper(client: Any) -> Seen:
    """
    chat.completions.stream(), with its answer.
    """
    async with client.chat.completions.stream(model=MODEL, messages=MESSAGES) as stream:
        async for _ in stream:
            pass
        return final_texts((await stream.get_final_completion()).choices[0].message)


async def responses_create(client: Any) -> Seen:
    """
    responses.create(stream=True).
    """
    seen: Counter[str] = Counter()
    async for event in await client.responses.create(model=MODEL, input=PROMPT, stream=True):
        for kind, text in event_texts(event):
            seen[kind] += len(text)
    return seen


async def responses_helper(client: Any) -> Seen:
    """
    responses.stream().
    """
    seen: Counter[str] = Counter()
    async with client.responses.stream(model=MODEL, input=PROMPT) as stream:
        async for event in stream:
            for kind, text in event_texts(event):
                seen[kind] += len(text)
    return seen


# --- without ----------------------------------------------------------------------------------------------------------------------------------------


def synchronous(read: Callable[[Any], Seen]) -> Callable[[Place], AbstractAsyncContextManager[Once]]:
    """
    A subject that reads with the synchronous client.
    """

    @asynccontextmanager
    async def opened(place: Place) -> AsyncIterator[Once]:
        sdk = import_module("openai")
        with sdk.OpenAI(api_key="none", max_retries=0, http_client=mocked_sync(http_of(sdk), place)) as client:

            async def once() -> Seen:
                return read(client)

            yield once

    return opened


def create_sync(client: Any) -> Seen:
    """
    chat.completions.create(stream=True).
    """
    seen: Counter[str] = Counter()
    for chunk in client.chat.completions.create(model=MODEL, messages=MESSAGES, stream=True):
        for kind, text in chunk_texts(chunk):
            seen[kind] += len(text)
    return seen


def helper_sync(client: Any) -> Seen:
    """
    chat.completions.stream(), with its answer.
    """
    with client.chat.completions.stream(model=MODEL, messages=MESSAGES) as stream:
        for _ in stream:
            pass
        return final_texts(stream.get_final_completion().choices[0].message)


def responses_create_sync(client: Any) -> Seen:
    """
    responses.create(stream=True).
    """
    seen: Counter[str] = Counter()
    for event in client.responses.create(model=MODEL, input=PROMPT, stream=True):
        for kind, text in event_texts(event):
            seen[kind] += len(text)
    return seen


def responses_helper_sync(client: Any) -> Seen:
    """
    responses.stream().
    """
    seen: Counter[str] = Counter()
    with client.responses.stream(model=MODEL, input=PROMPT) as stream:
        for event in stream:
            for kind, text in event_texts(event):
                seen[kind] += len(text)
    return seen


NEEDS = ("openai",)
_FEW = {"": 2000, "W6": 200_000}

SUBJECTS = (
    Subject("openai create", ("W1", "W4", "W6"), asynchronous(create), NEEDS, most={"W6": 200_000}),
    Subject("openai create, sync", ("W1", "W4", "W6"), synchronous(create_sync), NEEDS, most={"W6": 200_000}),
    Subject("openai .stream()", ("W1", "W4"), asynchronous(helper), NEEDS, most=_FEW),
    Subject("openai .stream(), sync", ("W1", "W4"), synchronous(helper_sync), NEEDS, most=_FEW),
    Subject("openai responses.create", ("W3", "W5"), asynchronous(responses_create), NEEDS),
    Subject("openai responses.create, sync", ("W3", "W5"), synchronous(responses_create_sync), NEEDS),
    Subject("openai responses.stream()", ("W3", "W5"), asynchronous(responses_helper), NEEDS, most=_FEW),
    Subject("openai responses.stream(), sync", ("W3", "W5"), synchronous(responses_helper_sync), NEEDS, most=_FEW),
)
