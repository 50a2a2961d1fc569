"""
Events in a plain `for`: what comes, how it is slowed, and that nothing is left of it.
"""

from __future__ import annotations

import collections
import gc
import threading
import time
from collections.abc import Callable
from typing import Any

import pytest
from aiohttp import web
from reactivex import Observable

from rxchat.client import ChatModel, HttpSettings
from rxchat.client.private_loop import HIGH, SyncIterator, on_a_private_loop
from rxchat.errors import ConfigurationError, IncompleteStreamError
from rxchat.events import ErrorEvent, TextDelta, UsageUpdate
from rxchat.filters import by_type
from tests.loopback import GOOD, Loopback, Script, answer, begin, delta, hold, loopback_thread


def model_at(server: Loopback) -> ChatModel:
    """
    A model of that server that asks once.
    """
    return ChatModel("test-1", base_url=server.url, settings=HttpSettings(retry=None))


def threads() -> list[str]:
    """
    The threads of the client that still live.
    """
    return [thread.name for thread in threading.enumerate() if thread.name == "rxchat private loop"]


def within(seconds: float, true: Callable[[], bool]) -> bool:
    """
    Whether it becomes true.
    """
    end = time.monotonic() + seconds
    while not true() and time.monotonic() < end:
        time.sleep(0.005)
    return true()


def gone(server: Loopback) -> bool:
    """
    Whether the server saw its client leave, and no thread is left.
    """
    return within(5, server.left.is_set) and within(5, lambda: threads() == [])


def test_the_events_come_in_a_for() -> None:
    """
    The same as those of `stream`, in order, to the end; then it stays ended, and no thread is left.
    """
    with loopback_thread(answer(*GOOD)) as server:
        events = model_at(server).stream_sync("Hi")
        seen = list(events)
        assert ("".join(event.text for event in seen if isinstance(event, TextDelta)), seen[0].type, seen[-1].type) == (
            "Hello, world.",
            "RESPONSE_START",
            "RESPONSE_END",
        )
        assert (list(events), threads()) == ([], [])


def test_each_is_a_request_when_its_first_event_is_asked_for() -> None:
    """
    D1: nothing is sent before, nothing is left of one nobody asked.
    """
    with loopback_thread(answer(*GOOD)) as server:
        model = model_at(server)
        unasked = model.stream_sync("Hi")
        assert [next(iter(model.stream_sync("Hi"))).type for _ in range(2)] == ["RESPONSE_START"] * 2
        del unasked
        gc.collect()
        assert within(5, lambda: threads() == [])
        assert len(server.seen) <= 2


def test_a_filter_and_a_request_option() -> None:
    """
    As for `stream`.
    """
    with loopback_thread(answer(*GOOD)) as server:
        seen = list(model_at(server).stream_sync("Hi", event_filter=by_type(UsageUpdate), max_tokens=3))
        assert ([event.type for event in seen], server.seen[0].json["max_tokens"]) == (
            ["RESPONSE_START", "STEP_START", "STEP_END", "RESPONSE_END"],
            3,
        )


def test_a_failure_is_raised_behind_the_last_event() -> None:
    """
    E6: the ErrorEvent is seen, then the same error raised; the iterator is at its end.
    """
    with loopback_thread(answer(delta("Hel"))) as server:
        events = model_at(server).stream_sync("Hi")
        seen: list[Any] = []
        with pytest.raises(IncompleteStreamError) as caught:
            # One by one: those before the failure are kept.
            collections.deque(map(seen.append, events), maxlen=0)
        assert (isinstance(seen[-1], ErrorEvent), seen[-1].error is caught.value, list(events), threads()) == (True, True, [], [])


def test_a_request_that_cannot_be_built_is_raised() -> None:
    """
    E7.
    """
    with pytest.raises(ConfigurationError, match="there is no request option colour"):
        next(ChatModel("m", base_url="http://127.0.0.1:1").stream_sync("Hi", colour="red"))
    assert threads() == []


def test_a_filter_that_is_none_is_refused_at_once() -> None:
    """
    In this thread, before anything begins.
    """
    with pytest.raises(ConfigurationError):
        ChatModel("m", base_url="http://127.0.0.1:1").stream_sync("Hi", event_filter=3)  # type: ignore[arg-type]


def test_whatever_ends_the_loop_ends_the_for() -> None:
    """
    Nobody waits for a thread that is dead.
    """

    def subscribe(observer: object, scheduler: object = None) -> Any:
        raise SystemExit(3)

    with pytest.raises(SystemExit):
        next(SyncIterator(Observable(subscribe)))
    assert threads() == []


@pytest.mark.parametrize("script", [hold(headers=False), hold(), hold(delta("Hel"))], ids=["before-headers", "before-body", "in-body"])
def test_leaving_the_with_ends_the_request(script: Script) -> None:
    """
    D4: at whatever stage; when the `with` is left, the thread is gone.
    """
    with loopback_thread(script) as server:
        with model_at(server).stream_sync("Hi") as events:
            assert next(events).type == "RESPONSE_START"
            assert within(5, server.arrived.is_set)
        assert threads() == []
        assert gone(server)


def test_a_break_ends_the_request() -> None:
    """
    The iterator dropped by the `for` is collected.
    """
    with loopback_thread(hold(delta("Hel"))) as server:
        for event in model_at(server).stream_sync("Hi"):
            if isinstance(event, TextDelta):
                break
        gc.collect()
        assert gone(server)


def test_closed_twice_and_before_it_began() -> None:
    """
    Nothing happens, nothing comes.
    """
    events = ChatModel("m", base_url="http://127.0.0.1:1").stream_sync("Hi")
    events.close()
    events.close()
    assert (list(events), threads()) == ([], [])


def test_an_exception_in_the_body_ends_the_request() -> None:
    """
    D4: whatever leaves the `with`.
    """

    def fail(model: ChatModel) -> None:
        with model.stream_sync("Hi") as events:
            for event in events:
                if isinstance(event, TextDelta):
                    raise KeyError("mine")

    with loopback_thread(hold(delta("Hel"))) as server:
        with pytest.raises(KeyError):
            fail(model_at(server))
        assert gone(server)


def test_interrupted_while_it_waits_the_request_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    """
    Ctrl-C comes out as itself, and nothing is left.
    """

    def interrupted(self: threading.Condition, timeout: float | None = None) -> bool:
        """
        The first wait of this thread.
        """
        if threading.current_thread() is threading.main_thread():
            raise KeyboardInterrupt
        return waiting(self, timeout)

    waiting = threading.Condition.wait
    with loopback_thread(hold(delta("Hel"))) as server:
        events = model_at(server).stream_sync("Hi")
        while not isinstance(next(events), TextDelta):
            pass
        monkeypatch.setattr(threading.Condition, "wait", interrupted)
        with pytest.raises(KeyboardInterrupt):
            next(events)
        monkeypatch.undo()
        assert (threads(), list(events)) == ([], [])
        assert gone(server)


def test_the_provider_is_slowed() -> None:
    """
    D3: while nobody asks, a bounded number of bytes is taken from the provider; when somebody does, all of it comes.
    """
    piece, pieces = delta("x" * 1000), 20_000
    written = 0

    async def script(request: web.Request) -> web.StreamResponse:
        nonlocal written
        response = await begin(request)
        for _ in range(pieces):
            await response.write(piece)
            written += 1
        for chunk in GOOD:
            await response.write(chunk)
        await response.write_eof()
        return response

    with loopback_thread(script) as server, model_at(server).stream_sync("Hi") as events:
        next(events)
        assert within(5, lambda: written > HIGH)
        before = -1
        while before != written:
            before = written
            time.sleep(0.2)
        assert written < pieces // 2
        assert sum(isinstance(event, TextDelta) for event in events) == pieces + 2
    assert threads() == []


async def test_inside_a_loop_it_works_too() -> None:
    """
    As in a notebook.
    """
    with loopback_thread(answer(*GOOD)) as server:
        assert [event.type for event in model_at(server).stream_sync("Hi")][-1] == "RESPONSE_END"
    assert threads() == []


async def test_on_a_private_loop_it_is_refused() -> None:
    """
    D8: waiting there would block the loop.
    """

    async def nested() -> object:
        return next(ChatModel("m", base_url="http://127.0.0.1:1").stream_sync("Hi"))

    with pytest.raises(ConfigurationError, match="stream_sync would block the loop"):
        on_a_private_loop(nested)


async def test_connections_of_a_loop_cannot_be_used() -> None:
    """
    Said before anything is sent.
    """
    async with ChatModel("m", base_url="http://127.0.0.1:1") as model:
        with pytest.raises(ConfigurationError, match="belong to the loop"):
            model.stream_sync("Hi")


def test_many_at_once_share_nothing() -> None:
    """
    Each has a thread and a loop of its own.
    """
    with loopback_thread(answer(*GOOD)) as server:
        model = model_at(server)
        streams = [model.stream_sync(f"{k}") for k in range(5)]
        for _ in range(3):
            assert len({type(next(events)) for events in streams}) == 1
        assert [list(events)[-1].type for events in streams] == ["RESPONSE_END"] * 5
    assert threads() == []
