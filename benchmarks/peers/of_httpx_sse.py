"""
httpx-sse with json.loads, from httpx's mock transport.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from importlib import import_module

from benchmarks.peers.mocks import mocked
from benchmarks.subjects import ALL, Once, Place, Seen, Subject, deltas_of


@asynccontextmanager
async def events(place: Place) -> AsyncIterator[Once]:
    """
    Its events, their JSON, the texts.
    """
    sse = import_module("httpx_sse")
    async with mocked(import_module("httpx"), place) as client:

        async def once() -> Seen:
            seen: Counter[str] = Counter()
            async with sse.aconnect_sse(client, "POST", place.url) as source:
                async for event in source.aiter_sse():
                    if event.data != "[DONE]":
                        for kind, text in deltas_of(json.loads(event.data)):
                            seen[kind] += len(text)
            return seen

        yield once


SUBJECTS = (Subject("httpx-sse + json", ALL, events, needs=("httpx_sse", "httpx"), most={"W6": 200_000}),)
