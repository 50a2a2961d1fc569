"""
An event loop behind the terminal: the main thread reads and waits, so that Ctrl-C ends what runs and nothing else.

While the main thread waits at the prompt the loop goes on, so connections that were left are closed at once, and commits end.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import Future
from queue import Empty, SimpleQueue
from typing import Any, TypeVar

__all__ = ["LoopBehind"]

T = TypeVar("T")
Errand = Callable[[], None]

# Seconds that what was interrupted may take to end, and the loop to close.
PATIENCE = 10.0


class LoopBehind:
    """
    The loop and its thread, for as long as the `with` lasts.
    """

    def __init__(self) -> None:
        self._begun: Future[asyncio.AbstractEventLoop] = Future()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._main()), name="rxchat chat loop", daemon=True)
        # What the main thread is to do; None when what it waits for has ended.
        self._errands: SimpleQueue[Errand | None] = SimpleQueue()

    def __enter__(self) -> LoopBehind:
        self._thread.start()
        self._loop = self._begun.result()
        return self

    def __exit__(self, *exc_info: object) -> None:
        self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join(PATIENCE)

    async def _main(self) -> None:
        self._stop = asyncio.Event()
        self._begun.set_result(asyncio.get_running_loop())
        await self._stop.wait()

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """
        What a coroutine comes to on the loop. Ctrl-C cancels it and is raised once it has ended, unless it ends with a result all the same.
        """
        errands = self._errands = SimpleQueue()
        tasks: list[asyncio.Task[T]] = []

        def begin() -> None:
            tasks.append(self._loop.create_task(work, name="rxchat chat"))
            tasks[0].add_done_callback(lambda task: errands.put(None))

        try:
            self._loop.call_soon_threadsafe(begin)
            while (errand := _next(errands)) is not None:
                errand()
        except KeyboardInterrupt:
            # Behind `begin`, whenever that comes.
            self._loop.call_soon_threadsafe(lambda: [task.cancel() for task in tasks])
            if not _ended(errands):
                raise
        if tasks[0].cancelled():
            raise KeyboardInterrupt
        return tasks[0].result()

    async def in_front(self, do: Callable[[], T]) -> T:
        """
        Have the main thread do this, and wait for what it comes to. Cancelled, it is not waited for, and not begun any more.
        """
        loop = asyncio.get_running_loop()
        said: asyncio.Future[T] = loop.create_future()

        def settle(set_it: Callable[[Any], None], value: Any) -> None:
            if not said.done():
                set_it(value)

        def errand() -> None:
            if said.done():
                return
            try:
                done = do()
            except Exception as error:
                loop.call_soon_threadsafe(settle, said.set_exception, error)
            else:
                loop.call_soon_threadsafe(settle, said.set_result, done)

        self._errands.put(errand)
        return await said


def _next(errands: SimpleQueue[Errand | None]) -> Errand | None:
    """
    Wait for the next one. A signal that comes in the moment before the waiting is seen at its next turn.
    """
    while True:
        try:
            return errands.get(timeout=0.5)
        except Empty:
            continue


def _ended(errands: SimpleQueue[Errand | None]) -> bool:
    """
    Wait for the end and do nothing else.
    """
    try:
        while errands.get(timeout=PATIENCE) is not None:
            pass
    except Empty:
        return False
    return True
