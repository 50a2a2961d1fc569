"""
litellm: acompletion(stream=True), over loopback, as its transports are its own. Telemetry and debug text are off, all else is as it comes.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from importlib import import_module
from typing import Any

from benchmarks.subjects import PROMPT, Once, Place, Seen, Subject


@asynccontextmanager
async def acompletion(place: Place) -> AsyncIterator[Once]:
    """
    Chunks of the shape of OpenAI's, whoever the provider is.
    """
    # It would fetch a list of prices while it is imported.
    os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"
    litellm: Any = import_module("litellm")
    litellm.telemetry, litellm.suppress_debug_info = False, True
    model = "anthropic/claude-3-7-sonnet-latest" if place.load.dialect == "anthropic" else "openai/gpt-4o"

    async def once() -> Seen:
        seen: Counter[str] = Counter()
        messages = [{"role": "user", "content": PROMPT}]
        async for chunk in await litellm.acompletion(model=model, api_base=place.url, api_key="none", messages=messages, stream=True, num_retries=0):
            delta = chunk.choices[0].delta
            seen["text"] += len(delta.content or "")
            seen["thinking"] += len(getattr(delta, "reasoning_content", None) or "")
            for call in delta.tool_calls or ():
                seen["arguments"] += len(call.function.arguments or "")
        return seen

    yield once


SUBJECTS = (Subject("litellm acompletion (loopback)", ("W1", "W2", "W4"), acompletion, ("litellm",), loopback=True, most={"": 2000}),)
