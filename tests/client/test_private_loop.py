"""
Waiting for an answer where a loop runs already.
"""

from __future__ import annotations

import asyncio
import threading
import warnings
from concurrent.futures import Future

import pytest

from rxchat.client import ChatModel
from rxchat.client.private_loop import on_a_private_loop
from rxchat.errors import ConfigurationError
from rxchat.loops import loop_at_work
from tests.loopback import GOOD, answer, loopback_thread


async def test_the_answer_comes_inside_a_loop_too() -> None:
    """
    As in a notebook; nothing is left un-awaited.
    """
    with loopback_thread(answer(*GOOD)) as server, warnings.catch_warnings():
        warnings.simplefilter("error")
        assert "Hello, world." == ChatModel("m", base_url=server.url).call_sync("Hi").text


async def test_on_the_private_loop_it_is_refused() -> None:
    """
    D8: waiting there would block the answer itself.
    """

    async def nested() -> object:
        return ChatModel("m", base_url="http://127.0.0.1:1").call_sync("Hi")

    with pytest.raises(ConfigurationError, match="would block the loop"):
        on_a_private_loop(nested)


async def test_connections_of_the_running_loop_cannot_be_used_there() -> None:
    """
    Said before anything is sent.
    """
    async with ChatModel("m", base_url="http://127.0.0.1:1") as model:
        with pytest.raises(ConfigurationError, match="belong to the loop that runs"):
            model.call_sync("Hi")


def test_interrupted_it_is_cancelled(monkeypatch: pytest.MonkeyPatch) -> None:
    """
    Ctrl-C ends the request, not only the waiting.
    """
    cancelled = threading.Event()
    waiting = Future.result

    async def work() -> None:
        started.set()
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            cancelled.set()
            raise

    def interrupted(self: Future[object], timeout: float | None = None) -> object:
        """
        The first wait is for the loop to begin, the second for the answer.
        """
        waits.append(self)
        if len(waits) == 2:
            started.wait(10)
            raise KeyboardInterrupt
        return waiting(self, timeout)

    waits: list[object] = []
    started = threading.Event()
    monkeypatch.setattr(Future, "result", interrupted)
    with pytest.raises(KeyboardInterrupt):
        on_a_private_loop(work)
    monkeypatch.undo()
    assert (cancelled.wait(10), loop_at_work()) == (True, None)
