"""
The client's side of a flood, alone in its process so that its memory can be told: `python -m tests.client.flooded URL DIALECT LIMITS`.

It asks once to warm up, then takes the first text of a second answer and stalls. Lines on standard input: `measure` has it print what it holds, `go` has it
read to the end; then it prints what came. Answers are JSON lines.
"""

from __future__ import annotations

import asyncio
import gc
import hashlib
import json
import sys
import tracemalloc
from typing import Any

from rxchat import text_only, to_async_iterable
from rxchat.client import ChatModel, HttpSettings
from rxchat.errors import RxchatError
from rxchat.limits import Limits


def rss() -> int:
    """
    Resident bytes of this process.
    """
    with open("/proc/self/statm") as statm:
        return int(statm.read().split()[1]) * 4096


def say(**said: Any) -> None:
    """
    One line for the test.
    """
    print(json.dumps(said), flush=True)


async def lines() -> asyncio.StreamReader:
    """
    Standard input without a thread.
    """
    reader = asyncio.StreamReader()
    await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    return reader


async def main(url: str, dialect: str, limits: str) -> None:
    """
    The whole of it.
    """
    orders = await lines()
    settings = HttpSettings(retry=None, stall_timeout=None)
    async with ChatModel("m", base_url=url, dialect=dialect, api_key="k", settings=settings, limits=Limits(**json.loads(limits))) as model:
        try:
            await model.call("warm up")
        except RxchatError:
            pass  # a flood of errors
        gc.collect()
        before = rss()
        tracemalloc.start()
        traced = tracemalloc.get_traced_memory()[0]
        answer = aiter(model.stream("flood").pipe(text_only(), to_async_iterable()))
        try:
            first = await anext(answer)
        except RxchatError as error:
            peak = tracemalloc.get_traced_memory()[1] - traced
            say(verdict=str(error.verdict), message=str(error)[:200], body=len(getattr(error, "body", b"")), peak=peak, rss=rss() - before)
            return
        say(first=first)
        while (order := (await orders.readline()).strip()) == b"measure":
            now, peak = tracemalloc.get_traced_memory()
            say(held=now - traced, peak=peak - traced, rss=rss() - before)
        assert order == b"go"
        tracemalloc.stop()
        count, whole, verdict = 1, hashlib.sha256(first.encode()), "COMPLETE"
        try:
            async for text in answer:
                count += 1
                whole.update(text.encode())
        except RxchatError as error:
            verdict = str(error.verdict)
        say(count=count, sha=whole.hexdigest(), verdict=verdict)


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
