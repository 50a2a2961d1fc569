"""
langchain-openai and langchain-anthropic: astream, and its chunks added up, which is how an answer comes together there. From a mock transport.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from importlib import import_module
from typing import Any

from benchmarks.peers.mocks import http_of, mocked
from benchmarks.subjects import PROMPT, Once, Place, Seen, Subject


@asynccontextmanager
async def openai(place: Place) -> AsyncIterator[Any]:
    """
    ChatOpenAI, over the API the workload is of.
    """
    async with mocked(http_of(import_module("openai")), place) as http:
        over_responses = place.load.dialect == "openai-responses"
        yield import_module("langchain_openai").ChatOpenAI(
            model="gpt-4o", api_key="none", max_retries=0, http_async_client=http, use_responses_api=over_responses
        )


@asynccontextmanager
async def anthropic(place: Place) -> AsyncIterator[Any]:
    """
    ChatAnthropic; its client, which it offers no way to replace, is put where it keeps it.
    """
    sdk = import_module("anthropic")
    model = import_module("langchain_anthropic").ChatAnthropic(model="claude-model", api_key="none", max_retries=0)
    async with sdk.AsyncAnthropic(api_key="none", max_retries=0, http_client=mocked(http_of(sdk), place)) as client:
        vars(model)["_async_client"] = client
        yield model


def _count(seen: Counter[str], chunk: Any) -> None:
    if isinstance(chunk.content, str):
        seen["text"] += len(chunk.content)
    else:
        for block in chunk.content:
            # Text may stand among the blocks as it is.
            if isinstance(block, str):
                seen["text"] += len(block)
            else:
                for kind in ("text", "thinking"):
                    seen[kind] += len(block.get(kind) or "")
    for call in chunk.tool_call_chunks:
        seen["arguments"] += len(call["args"] or "")


async def _streamed(model: Any) -> Seen:
    seen: Counter[str] = Counter()
    async for chunk in model.astream(PROMPT):
        _count(seen, chunk)
    return seen


async def _added(model: Any) -> Seen:
    whole: Any = None
    async for chunk in model.astream(PROMPT):
        whole = chunk if whole is None else whole + chunk
    seen: Counter[str] = Counter()
    _count(seen, whole)
    return seen


def _opened(
    opened_model: Callable[[Place], AbstractAsyncContextManager[Any]], read: Callable[[Any], Any]
) -> Callable[[Place], AbstractAsyncContextManager[Once]]:
    @asynccontextmanager
    async def opened(place: Place) -> AsyncIterator[Once]:
        async with opened_model(place) as model:

            async def once() -> Seen:
                seen: Seen = await read(model)
                return seen

            yield once

    return opened


OPENAI = ("langchain_openai",)
ANTHROPIC = ("langchain_anthropic",)
# Chunks added up cost as the square of their number.
_FEW = {"": 1000, "W4": 300, "W6": 100_000}

SUBJECTS = (
    Subject("langchain-openai astream", ("W1", "W3", "W4", "W6"), _opened(openai, _streamed), OPENAI, most={"": 2000, "W6": 100_000}),
    Subject("langchain-openai, added up", ("W1", "W4"), _opened(openai, _added), OPENAI, most=_FEW),
    Subject("langchain-anthropic astream", ("W2",), _opened(anthropic, _streamed), ANTHROPIC, most={"": 2000}),
    Subject("langchain-anthropic, added up", ("W2",), _opened(anthropic, _added), ANTHROPIC, most=_FEW),
)
