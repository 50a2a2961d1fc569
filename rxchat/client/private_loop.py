"""
An event loop in a thread of its own, for who cannot await: an answer while another loop runs in this thread (contract D8), or events in a `for`.
"""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import Callable, Coroutine, Iterator
from concurrent.futures import Future
from contextlib import suppress
from typing import Any, Generic, TypeVar

from reactivex import Observable, abc
from reactivex.disposable import SerialDisposable

from rxchat.demand import Valve, carrying
from rxchat.errors import ConfigurationError

__all__ = ["SyncIterator", "on_a_private_loop"]

T = TypeVar("T")
_here = threading.local()

# As for `async for`: at most so many items wait for the `for`, plus what one read makes; the source goes on when only LOW are left.
HIGH, LOW = 256, 64


def refuse_on_a_private_loop(asked: str, instead: str) -> None:
    """
    ConfigurationError on a private loop: whoever waits there makes it stand still.
    """
    if getattr(_here, "private", False):
        raise ConfigurationError(f"{asked} would block the loop it was called on: use {instead}")


# --- one result -----------------------------------------------------------------------------------------------------------------------------------


def on_a_private_loop(work: Callable[[], Coroutine[Any, Any, T]]) -> T:
    """
    The result of a coroutine, made and run in another thread; interrupted, it is cancelled first.

    ConfigurationError on a private loop: it would stand still.
    """
    refuse_on_a_private_loop("call_sync", "`await model.call(...)`")
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


# --- many items -----------------------------------------------------------------------------------------------------------------------------------


class _Handover(Generic[T]):
    """
    What waits between the loop's thread and the `for`. It knows nothing of the iterator, so that this can be dropped, and tells us.

    Methods in two groups: those of the loop's thread, and those of the consumer's. `_change` guards what both touch.
    """

    def __init__(self, source: Observable[T]) -> None:
        self._source = source
        self._items: deque[T] = deque()
        self._change = threading.Condition()
        self._failure: BaseException | None = None
        self._over = False
        self._left = False
        self._upstream = SerialDisposable()
        self._valve = Valve()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._ended: asyncio.Event | None = None
        self._thread = threading.Thread(target=self._run, name="rxchat private loop", daemon=True)

    # The loop's side -------------------------------------------------------------------------------------------------------------------------

    def _run(self) -> None:
        _here.private = True
        try:
            asyncio.run(self._main())
        except BaseException as error:
            self._end(error)

    async def _main(self) -> None:
        ended = asyncio.Event()
        # In this order: who leaves says so first, and then looks for a loop.
        self._ended, self._loop = ended, asyncio.get_running_loop()
        if not self._left:
            scheduler: abc.SchedulerBase | None = carrying(self._valve, None)
            self._upstream.disposable = self._source.subscribe(self._on_next, self._end, self._end, scheduler=scheduler)
            await ended.wait()
        self._upstream.dispose()
        self._loop = None

    def _on_next(self, item: T) -> None:
        with self._change:
            self._items.append(item)
            if len(self._items) >= HIGH and not self._valve.held:
                self._valve.hold()
            self._change.notify()

    def _end(self, failure: BaseException | None = None) -> None:
        with self._change:
            if not self._over:
                self._over, self._failure = True, failure
            self._change.notify()
        if self._ended is not None:
            self._ended.set()

    def _release(self) -> None:
        if self._valve.held:
            self._valve.release()

    # The consumer's side ---------------------------------------------------------------------------------------------------------------------

    def begin(self) -> None:
        """
        Subscribe, in the thread.
        """
        self._thread.start()

    def get(self) -> T:
        """
        The next item; what ended the stream comes behind the last one, once.
        """
        with self._change:
            while not self._items:
                if self._over or self._left:
                    failure, self._failure = self._failure, None
                    raise failure or StopIteration
                self._change.wait()
            item = self._items.popleft()
            if len(self._items) == LOW and self._valve.held:
                self._call_in(self._release)
            return item

    def leave(self) -> None:
        """
        End the subscription. The garbage collector calls it too, in whatever thread and moment: no lock is taken.
        """
        self._left = True
        self._call_in(self._finish)

    def join(self) -> None:
        """
        Wait until socket and thread are gone.
        """
        with self._change:
            self._items.clear()
            self._change.notify()
        if self._thread.ident is not None and self._thread is not threading.current_thread():
            self._thread.join()

    def _finish(self) -> None:
        if self._ended is not None:
            self._ended.set()

    def _call_in(self, call: Callable[[], None]) -> None:
        loop = self._loop
        if loop is not None:
            # It may have closed since.
            with suppress(RuntimeError):
                loop.call_soon_threadsafe(call)


class SyncIterator(Iterator[T]):
    """
    One subscription as an iterator, subscribed to when its first item is asked for, on a loop in a thread of its own; also a context manager.

    The source is slowed while nobody asks. Whoever lets go of it, by `close`, `with`, exception, or for the garbage collector, ends the subscription and the
    thread. A failure is raised behind the last item. ConfigurationError on a private loop.
    """

    def __init__(self, source: Observable[T]) -> None:
        self._handover = _Handover(source)
        self._begun = False
        self._closed = False

    def __iter__(self) -> SyncIterator[T]:
        return self

    def __next__(self) -> T:
        if self._closed:
            raise StopIteration
        if not self._begun:
            refuse_on_a_private_loop("stream_sync", "`model.stream(...)`")
            self._begun = True
            self._handover.begin()
        try:
            return self._handover.get()
        except BaseException:
            # The end, a failure, or Ctrl-C while it waited.
            self.close()
            raise

    def close(self) -> None:
        """
        End the subscription; when this returns, its connection and its thread are gone.
        """
        if not self._closed:
            self._closed = True
            self._handover.leave()
            self._handover.join()

    def __enter__(self) -> SyncIterator[T]:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.close()

    def __del__(self) -> None:
        if self._begun and not self._closed:
            self._handover.leave()
