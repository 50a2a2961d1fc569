"""
Calling foreign code so that it can neither block the loop nor outlive its time unseen.
"""

from __future__ import annotations

import asyncio
import contextvars
import inspect
import logging
import threading
from collections.abc import Callable, Coroutine
from functools import partial
from typing import Any, TypeVar

__all__ = ["ToolCancelled", "ToolTimeout", "bounded", "invoke", "stop", "unwanted"]

T = TypeVar("T")

# How long a cancelled task may take to clean up before it is left alone, in seconds.
GRACE = 1.0

# Says that nobody waits any more for what this task does: nothing of the host's is begun then. A cancellation says so too, but some turns later.
unwanted: contextvars.ContextVar[Callable[[], bool]] = contextvars.ContextVar("unwanted", default=lambda: False)

_log = logging.getLogger("rxchat.tools")


class ToolTimeout(Exception):
    """
    The time was over before the tool was done.
    """


class ToolCancelled(Exception):
    """
    The tool cancelled itself, or something it waited for was cancelled; nobody here asked for it.
    """


async def invoke(function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """
    The function's result: an async one is awaited, another runs in a thread of its own, with the context variables of here.

    CancelledError instead of calling it where it is `unwanted`; RuntimeError for what is no Exception: it would end the loop, or the task without a word.
    """
    if unwanted.get()():
        raise asyncio.CancelledError
    unwanted.set(bool)  # what a tool begins, and leaves behind it, is its own affair
    try:
        result = function(*args, **kwargs) if _is_async(function) else await _in_thread(partial(function, *args, **kwargs))
        return await result if inspect.isawaitable(result) else result
    except (Exception, asyncio.CancelledError, KeyboardInterrupt, GeneratorExit):
        raise
    except BaseException as error:
        raise RuntimeError(repr(error)) from error


def _is_async(function: Any) -> bool:
    function = function.func if isinstance(function, partial) else function
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(type(function).__call__)


async def _in_thread(work: Callable[[], Any]) -> Any:
    """
    A daemon thread per call: a shared pool would be worn out by tools that never return, and would hold up the loop's end.
    """
    loop = asyncio.get_running_loop()
    future: asyncio.Future[tuple[Any, BaseException | None]] = loop.create_future()
    context = contextvars.copy_context()

    def run() -> None:
        said: tuple[Any, BaseException | None]
        try:
            said = context.run(work), None
        except BaseException as error:  # also SystemExit: it would end this thread without a word
            said = None, error
        try:
            loop.call_soon_threadsafe(_settle, future, said)
        except RuntimeError:  # the loop was closed in the meantime; nobody waits any more
            pass

    threading.Thread(target=run, name="rxchat-tool", daemon=True).start()
    result, error = await future
    if error is None:
        return result
    if not isinstance(error, Exception) or isinstance(error, StopIteration):
        raise RuntimeError(repr(error)) from error
    raise error


def _settle(future: asyncio.Future[Any], said: Any) -> None:
    if not future.done():
        future.set_result(said)


async def bounded(work: Coroutine[Any, Any, T], seconds: float | None) -> T:
    """
    The result of `work` within that time; ToolTimeout after it, ToolCancelled if it was cancelled from elsewhere.

    Whoever cancels this cancels `work`. Work that does not let itself be cancelled is left behind after a grace period, never waited for without end.
    """
    task = asyncio.ensure_future(work)
    try:
        done, _ = await asyncio.wait({task}, timeout=seconds)
    except asyncio.CancelledError:
        await stop(task)
        raise
    if not done:
        await stop(task)
        raise ToolTimeout(f"not done within {seconds:g} s")
    if task.cancelled():
        raise asyncio.CancelledError if unwanted.get()() else ToolCancelled("cancelled")
    return task.result()


async def stop(*tasks: asyncio.Future[Any], grace: float | None = None) -> None:
    """
    Cancel these and wait for them, but not for ever; `grace` in seconds.
    """
    running = [task for task in tasks if not task.done()]
    for task in tasks:
        task.add_done_callback(_heard)
    for task in running:
        task.cancel()
    if running:
        _, stubborn = await asyncio.wait(running, timeout=GRACE if grace is None else grace)
        for _ in stubborn:
            _log.warning("a tool does not let itself be cancelled; it is left to itself")


def _heard(task: asyncio.Future[Any]) -> None:
    if not task.cancelled():
        task.exception()
