"""
The loop behind the terminal: results, errands, and what Ctrl-C does to them.
"""

from __future__ import annotations

import asyncio
import signal
import threading
from typing import Any, NoReturn

import pytest

from rxchat.cli import chat_loop
from rxchat.cli.chat_loop import LoopBehind

MAIN = threading.main_thread()


def ctrl_c() -> None:
    """
    As the terminal sends it.
    """
    signal.raise_signal(signal.SIGINT) if threading.current_thread() is MAIN else signal.pthread_kill(MAIN.ident or 0, signal.SIGINT)


async def failing() -> NoReturn:
    raise LookupError("nothing there")


def test_results_and_failures_come_back() -> None:
    """
    From another thread, one after the other on one loop.
    """

    async def where() -> tuple[threading.Thread, asyncio.AbstractEventLoop]:
        return threading.current_thread(), asyncio.get_running_loop()

    with LoopBehind() as loop:
        (thread, one), (_, other) = loop.run(where()), loop.run(where())
        assert (thread is not MAIN, one is other) == (True, True)
        with pytest.raises(LookupError, match="nothing there"):
            loop.run(failing())
    assert not thread.is_alive()


async def interrupted(said: list[str], swallow: bool = False) -> str:
    """
    Work that is interrupted, cleans up, and then ends, or has a result all the same.
    """
    try:
        ctrl_c()
        await asyncio.Event().wait()
    except asyncio.CancelledError:
        await asyncio.sleep(0)
        said.append("cleaned up")
        if not swallow:
            raise
    return "ended well"


def test_ctrl_c_cancels_and_waits_for_the_end() -> None:
    """
    It is raised once what ran has cleaned up.
    """
    said: list[str] = []
    with LoopBehind() as loop:
        with pytest.raises(KeyboardInterrupt):
            loop.run(interrupted(said))
        assert said == ["cleaned up"]


def test_what_ends_well_all_the_same_gives_its_result() -> None:
    """
    Ctrl-C has been heard then.
    """
    with LoopBehind() as loop:
        assert loop.run(interrupted([], swallow=True)) == "ended well"


def test_what_does_not_end_is_left_after_a_while(monkeypatch: pytest.MonkeyPatch) -> None:
    """
    And by a second Ctrl-C.
    """
    monkeypatch.setattr(chat_loop, "PATIENCE", 0.05)
    go: list[asyncio.Event] = []

    async def stubborn() -> None:
        go.append(asyncio.Event())
        ctrl_c()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            await go[0].wait()

    with LoopBehind() as loop:
        with pytest.raises(KeyboardInterrupt):
            loop.run(stubborn())
        loop._loop.call_soon_threadsafe(go[0].set)


def test_the_main_thread_does_what_it_is_asked_to() -> None:
    """
    While it waits; what that comes to, or raises, goes back.
    """

    nothing: dict[str, int] = {}

    async def work(loop: LoopBehind) -> tuple[Any, Any]:
        thread = await loop.in_front(threading.current_thread)
        try:
            await loop.in_front(lambda: nothing["x"])
        except KeyError as error:
            return thread, error
        raise AssertionError

    with LoopBehind() as loop:
        thread, error = loop.run(work(loop))
    assert (thread, str(error)) == (MAIN, "'x'")


def test_ctrl_c_in_an_errand_cancels_who_asked() -> None:
    """
    As at a question.
    """
    ended: list[bool] = []

    async def work(loop: LoopBehind) -> None:
        try:
            await loop.in_front(ctrl_c)
        finally:
            ended.append(True)

    with LoopBehind() as loop, pytest.raises(KeyboardInterrupt):
        loop.run(work(loop))
    assert ended == [True]


def test_an_errand_nobody_waits_for_is_not_begun() -> None:
    """
    What it asked for is over; one that ends too late tells nobody.
    """
    done: list[str] = []

    async def work(loop: LoopBehind) -> str:
        begun, go = threading.Event(), threading.Event()

        def long() -> None:
            begun.set()
            go.wait(5)
            done.append("long")

        async with asyncio.timeout(5):
            first = asyncio.create_task(loop.in_front(long))
            while not begun.is_set():
                await asyncio.sleep(0)
            second = asyncio.create_task(loop.in_front(lambda: done.append("second")))
            await asyncio.sleep(0)
            for task in (first, second):
                task.cancel()
            await asyncio.wait({first, second})
        go.set()
        await loop.in_front(lambda: None)
        return "done"

    with LoopBehind() as loop:
        assert (loop.run(work(loop)), done) == ("done", ["long"])
