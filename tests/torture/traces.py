"""
What a client leaves behind: tasks, connections, sockets, and noise.
"""

from __future__ import annotations

import asyncio
import logging
import os
import socket
import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import aiohttp
import attrs

__all__ = ["Noise", "connections", "sockets_to", "tasks", "until_none"]

GUARD = 5.0


def tasks() -> list[str]:
    """
    All tasks of this loop but the one that asks.
    """
    return [f"a task: {task.get_name()}" for task in asyncio.all_tasks() if task is not asyncio.current_task()]


def connections(session: aiohttp.ClientSession | None) -> tuple[int, int]:
    """
    How many connections of a session are in use, and how many wait to be used again.
    """
    connector: Any = session.connector if session is not None else None
    if connector is None:
        return 0, 0
    return len(connector._acquired), sum(one.is_connected() for waiting in connector._conns.values() for one, _ in waiting)


def sockets_to(port: int) -> int:
    """
    How many sockets of this process are connected to that port.
    """
    return sum(_peer_port(int(name)) == port for name in os.listdir("/proc/self/fd"))


def _peer_port(number: int) -> int:
    try:
        if not os.readlink(f"/proc/self/fd/{number}").startswith("socket:"):
            return 0
        with socket.socket(fileno=os.dup(number)) as held:
            return int(held.getpeername()[1]) if held.family == socket.AF_INET else 0
    except OSError:
        # Closed meanwhile, or not connected.
        return 0


async def until_none(look: Callable[[], list[str]]) -> list[str]:
    """
    What is left, when all of it had its time to go.
    """
    loop = asyncio.get_running_loop()
    end = loop.time() + GUARD
    pause = 0.0
    while (left := look()) and loop.time() < end:
        await asyncio.sleep(pause)
        pause = min(pause + 0.0002, 0.01)
    return left


@attrs.define(eq=False)
class Noise(logging.Handler):
    """
    Everything said that nobody should have to read: log records from WARNING on, warnings, what a loop or the collector complains of. `waits` counts the
    retries that were announced.
    """

    heard: list[str] = attrs.field(factory=list)
    waits: int = 0

    def __attrs_pre_init__(self) -> None:
        super().__init__()

    def emit(self, record: logging.LogRecord) -> None:
        if record.levelno >= logging.WARNING:
            self.heard.append(f"{record.name}: {self.format(record)}")
        elif record.msg.startswith("attempt"):
            self.waits += 1

    @contextmanager
    def listening(self) -> Iterator[Noise]:
        """
        To all of it, in the running loop and in other threads.
        """
        ours, before = logging.getLogger("rxchat"), logging.getLogger("rxchat").level
        hook = sys.unraisablehook
        sys.unraisablehook = lambda seen: self.heard.append(f"unraisable: {seen.err_msg} {seen.exc_value!r} {seen.object!r}")
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(lambda _, context: self.heard.append(f"loop: {context}"))
        logging.getLogger().addHandler(self)
        ours.addHandler(self)
        ours.propagate = False
        ours.setLevel(logging.INFO)
        try:
            with warnings.catch_warnings(record=True) as warned:
                warnings.simplefilter("always")
                yield self
            self.heard.extend(f"warning: {one.message}" for one in warned)
        finally:
            sys.unraisablehook = hook
            loop.set_exception_handler(None)
            logging.getLogger().removeHandler(self)
            ours.removeHandler(self)
            ours.propagate = True
            ours.setLevel(before)
