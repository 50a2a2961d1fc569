"""
Which event loop is at work here, and how to reach another thread's.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress

from reactivex.scheduler.eventloop import AsyncIOScheduler

__all__ = ["in_loop", "loop_at_work", "loop_scheduler"]


def loop_at_work() -> asyncio.AbstractEventLoop | None:
    """
    The event loop that runs in this thread, None if there is none.
    """
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None


def loop_scheduler() -> AsyncIOScheduler | None:
    """
    The scheduler of that loop.
    """
    loop = loop_at_work()
    return None if loop is None else AsyncIOScheduler(loop)


def in_loop(loop: asyncio.AbstractEventLoop, action: Callable[[], object]) -> None:
    """
    Call where that loop runs: at once if this is there, else in one of its next turns; never, if it is closed.
    """
    if loop_at_work() is loop:
        action()
    else:
        with suppress(RuntimeError):
            loop.call_soon_threadsafe(action)
