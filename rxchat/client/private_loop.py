"""
An event loop in a thread of its own, for who must wait for an answer while another loop runs in this thread (contract D8).
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import Future
from typing import Any, TypeVar

from rxchat.errors import ConfigurationError

__all__ = ["loop_runs", "on_a_private_loop"]

T = TypeVar("T")
_here = threading.local()


def loop_runs() -> bool:
    """
    Whether an event loop is at work in this thread.
    """
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True


def on_a_private_loop(work: Callable[[], Coroutine[Any, Any, T]]) -> T:
    """
    The result of a coroutine, made and run in another thread; interrupted, it is cancelled first.

    ConfigurationError on a private loop: it would stand still.
    """
    if getattr(_here, "private", False):
        raise ConfigurationError("call_sync would block the loop it was called on: use `await model.call(...)`")
    result: Future[T] = Future()
    begun: Future[Callable[[], None]] = Future()
    threading.Thread(target=_run, args=(work, begun, result), name="rxchat private loop", daemon=True).start()
    cancel = begun.result()
    try:
        return result.result()
    except KeyboardInterrupt:
        cancel()
        raise


def _run(work: Callable[[], Coroutine[Any, Any, T]], begun: Future[Callable[[], None]], result: Future[T]) -> None:
    _here.private = True

    async def main() -> T:
        loop, task = asyncio.get_running_loop(), asyncio.current_task()
        assert task is not None

        def cancel() -> None:
            loop.call_soon_threadsafe(task.cancel)

        begun.set_result(cancel)
        return await work()

    try:
        result.set_result(asyncio.run(main()))
    except BaseException as error:
        result.set_exception(error)
