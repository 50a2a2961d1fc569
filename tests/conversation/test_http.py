"""
A conversation over real loopback HTTP, in a real SQLite file: whole, cut, left, aborted, and a disk that is full.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from rxchat import aggregate
from rxchat.client import ChatModel
from rxchat.conversation import Conversation
from rxchat.errors import ConnectionLostError, HTTPStatusError, IncompleteStreamError, RxchatError, StoreError, Verdict
from rxchat.events import Abort, ChatEvent, ErrorEvent, ResponseEnd, TextDelta
from rxchat.stores import History, HistoryStore, SqliteStore
from tests.client.watching import Serve, Watcher, settled
from tests.grammar import violations
from tests.loopback import DONE, FINISH, GOOD, Script, answer, delta, frame, hold, in_turn, raw
from tests.stores.test_sqlite import Full, ReadOnly

HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[HistoryStore]:
    """
    A file of the test's own.
    """
    async with SqliteStore(tmp_path / "history.db") as opened:
        yield opened


async def talk(serve: Serve, store: HistoryStore, *scripts: Script) -> tuple[Conversation, ChatModel, History]:
    """
    A conversation of one turn, the model it goes on with, and its history.
    """
    server = await serve(in_turn([answer(*GOOD), *scripts, answer(*GOOD)]))
    model, conversation = ChatModel("test-1", base_url=server.url), Conversation(store, "talk")
    await conversation.ask(model, "First?").pipe(aggregate())
    return conversation, model, await store.load("talk")


async def test_whole(serve: Serve, store: HistoryStore) -> None:
    """
    The request holds the history, the answer becomes part of it, and the end is delivered behind the commit.
    """
    server = await serve(in_turn([answer(*GOOD), answer(delta("Two."), FINISH, DONE)]))
    model, conversation = ChatModel("test-1", base_url=server.url), Conversation(store, "talk", system="Be brief.")
    await conversation.ask(model, "First?").pipe(aggregate())
    watcher = await Watcher().watch(conversation.ask(model, "Second?", max_tokens=9)).end()
    assert [message["content"] for message in server.seen[1].json["messages"]] == ["Be brief.", "First?", "Hello, world.", "Second?"]
    assert (violations(watcher.items), type(watcher.items[-1]), watcher.completed) == ([], ResponseEnd, 1)
    assert [turn.response.text for turn in await conversation.turns()] == ["Hello, world.", "Two."]


ENDS: dict[str, tuple[Script, type[RxchatError] | None]] = {
    "cut cleanly": (answer(delta("Half an")), IncompleteStreamError),
    "broken off": (raw(HEAD, b"%x\r\n%b\r\n" % (len(delta("Half")), delta("Half"))), ConnectionLostError),
    "reset": (raw(HEAD, b"%x\r\n%b\r\n" % (len(delta("Half")), delta("Half")), reset=True), ConnectionLostError),
    "refused": (answer(b'{"error":{"message":"no"}}', status=400, content_type="application/json"), HTTPStatusError),
    "length": (answer(delta("Half an"), frame(finish_reason="length"), DONE), None),
    "an error inside": (answer(delta("Half"), b'data: {"error":{"message":"overloaded"}}\n\n'), RxchatError),
}


@pytest.mark.parametrize("name", ENDS)
async def test_anything_else(serve: Serve, store: HistoryStore, name: str) -> None:
    """
    History stays as it is, and the next question goes with it.
    """
    script, error = ENDS[name]
    conversation, model, before = await talk(serve, store, script)
    watcher = await Watcher().watch(conversation.ask(model, "Second?")).end()
    assert (isinstance(watcher.error, error) if error else watcher.completed == 1, violations(watcher.items)) == (True, [])
    assert await store.load("talk") == before
    await conversation.ask(model, "Second?").pipe(aggregate())
    assert len(await conversation.turns()) == 2


async def test_left(serve: Serve, store: HistoryStore) -> None:
    """
    The connection is closed, no task is left, nothing is stored.
    """
    conversation, model, before = await talk(serve, store, hold(delta("Half an")))
    watcher = Watcher()

    def leave(event: ChatEvent) -> None:
        if isinstance(event, TextDelta):
            watcher.dispose()
            watcher.over.set()

    watcher.on_next = leave
    await watcher.watch(conversation.ask(model, "Second?")).end()
    assert (await settled(), watcher.completed, watcher.failed) == ([], 0, 0)
    assert await store.load("talk") == before


async def test_left_before_there_are_headers(serve: Serve, store: HistoryStore) -> None:
    """
    The same at whatever stage it is.
    """
    conversation, model, before = await talk(serve, store, *(hold(headers=False) for _ in range(12)))
    for turns in range(12):
        watcher = Watcher().watch(conversation.ask(model, "Second?"))
        for _ in range(turns * 3):
            await asyncio.sleep(0)
        watcher.dispose()
    assert (await settled(), await store.load("talk")) == ([], before)


async def test_aborted(serve: Serve, store: HistoryStore) -> None:
    """
    Abort with what had arrived; the connection is closed, nothing is stored.
    """
    conversation, model, before = await talk(serve, store, hold(delta("Half an")))

    def stop(event: ChatEvent) -> None:
        if isinstance(event, TextDelta):
            conversation.abort("enough")

    watcher = await Watcher(on_next=stop).watch(conversation.ask(model, "Second?")).end()
    assert (type(watcher.items[-1]), watcher.items[-1].response.text, watcher.completed) == (Abort, "Half an", 1)
    assert (violations(watcher.items), await settled(), await store.load("talk")) == ([], [], before)


@pytest.mark.parametrize(("kind", "words"), [(Full, "full"), (ReadOnly, "readonly")])
async def test_a_disk_that_fails(serve: Serve, tmp_path: Path, kind: type[SqliteStore], words: str) -> None:
    """
    The answer is shown and rides on the error; history is as it was; with a disk that works again, it can be asked for again under its request id.
    """
    path = tmp_path / "history.db"
    async with SqliteStore(path) as good:
        _, model, before = await talk(serve, good, answer(*(delta("x" * 9000) for _ in range(12)), FINISH, DONE))
    async with kind(path) as bad:
        watcher = await Watcher().watch(Conversation(bad, "talk").ask(model, "Second?", request_id="b")).end()
        assert (type(watcher.error), words in str(watcher.error), str(path) in str(watcher.error)) == (StoreError, True, True)
        last = watcher.items[-1]
        assert isinstance(last, ErrorEvent)
        assert (last.error, last.response.verdict, len(last.response.text)) == (watcher.error, Verdict.STORE, 108_000)
        assert (violations(watcher.items), await bad.load("talk")) == ([], before)
    async with SqliteStore(path) as good:
        await Conversation(good, "talk").ask(model, "Second?", request_id="b").pipe(aggregate())
        assert [turn.request_id for turn in (await good.load("talk")).turns[1:]] == ["b"]
