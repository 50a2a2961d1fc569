"""
Eighteen ways to come too late, each by its name: what a request that was cancelled, replaced or overtaken says later is never written (contract H).

A row is a sequence of words about the requests a, b, c, and what must be stored at its end. They run on every kind of store.

    ask x       a question, in conversation object 1 (`ask2`, `ask3`: another object on the same store and name)
    say x       half of its answer arrives          end x       the rest arrives: a whole answer
    cut x       it breaks off                       cap x       it ends by length
    leave x     its subscriber goes                 abort       Conversation.abort
    again x     the same request id is asked again  twice x     the same turn is committed once more, with another answer
    undo, delete, fence     the history is changed (fence: only its epoch)
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import attrs
import pytest

from rxchat.conversation import Conversation
from rxchat.events import ResponseEnd
from rxchat.response import FinishReason
from rxchat.stores import HistoryStore, SupersededError, Turn
from tests.client.watching import Watcher
from tests.conversation.fakes import Model, failed, saying
from tests.stores.places import KINDS, store_at
from tests.stores.saying import said

TABLE: dict[str, tuple[str, str, str]] = {
    "it completes in time": ("reject", "ask a, say a, end a", "a"),
    "late after leaving": ("reject", "ask a, say a, leave a, end a", ""),
    "late after leaving, another in between": ("reject", "ask a, say a, leave a, ask b, end b, end a", "b"),
    "late after leaving, while another runs": ("reject", "ask a, leave a, ask b, say b, end a, end b", "b"),
    "late after abort": ("reject", "ask a, say a, abort, end a", ""),
    "late after abort, another in between": ("reject", "ask a, abort, ask b, end a, end b", "b"),
    "late after being replaced": ("replace", "ask a, say a, ask b, end a, end b", "b"),
    "late after being replaced twice": ("replace", "ask a, ask b, ask c, end a, end b, end c", "c"),
    "the replacing one breaks off": ("replace", "ask a, ask b, cut b, end a", ""),
    "replaced from another process": ("replace", "ask a, say a, ask2 b, end a, end b", "b"),
    "replaced from another process, which breaks off": ("replace", "ask a, ask2 b, cut b, end a", ""),
    "overtaken by another process": ("reject", "ask a, ask2 b, end b, end a", "b"),
    "overtaken by another process, which did not commit": ("reject", "ask a, ask2 b, cap b, end a", "a"),
    "three at once": ("reject", "ask a, ask2 b, ask3 c, end c, end a, end b", "c"),
    "late after undo elsewhere": ("reject", "ask a, end a, ask b, undo2, end b", ""),
    "late after delete elsewhere": ("reject", "ask a, end a, ask b, delete2, end b", ""),
    "late after a fence": ("reject", "ask a, end a, ask b, fence, end b", "a"),
    "the same request again and again": ("reject", "ask a, end a, again a, twice a, ask2 b, end b, again2 a, twice a", "a b"),
}


@attrs.define(eq=False)
class Scene:
    """
    Three conversation objects on one place, and the requests that were made.
    """

    conversations: list[Conversation]
    model: Model = attrs.field(factory=Model)
    watchers: dict[str, Watcher] = attrs.field(factory=dict)
    places: dict[str, int] = attrs.field(factory=dict)
    stored: dict[str, Turn] = attrs.field(factory=dict)

    async def play(self, word: str, name: str, at: Conversation) -> None:
        """
        One word.
        """
        works: dict[str, Callable[[], Awaitable[object]]] = {
            "ask": lambda: self.ask(name, at),
            "say": lambda: self.push(name, saying(name, name)[:4]),
            "end": lambda: self.push(name, saying(name, name)[4:], completes=True),
            "cap": lambda: self.push(name, saying(name, name, finish=FinishReason.LENGTH)[4:], completes=True),
            "cut": lambda: self.push(name, failed(name)[0][1:], failed(name)[1]),
            "again": lambda: self.again(name, at),
            "twice": lambda: self.twice(name, at),
            "undo": at.undo,
            "delete": at.delete,
            "fence": lambda: at.store.supersede(at.name),
        }
        if word == "leave":
            self.watchers[name].dispose()
        elif word == "abort":
            at.abort()
        else:
            await works[word]()
        await at.settled()

    async def ask(self, name: str, at: Conversation) -> None:
        """
        Wait until the request was sent.
        """
        self.watchers[name] = Watcher().watch(at.ask(self.model, name, request_id=name))
        self.places[name] = len(self.model.asked)
        while len(self.model.asked) == self.places[name]:
            await asyncio.sleep(0.001)

    async def push(self, name: str, events: list[Any], error: Exception | None = None, completes: bool = False) -> None:
        """
        Say it, whether anybody listens or not; then wait for the end, if anybody does.
        """
        exchange, watcher = self.model.asked[self.places[name]], self.watchers[name]
        alone = exchange.disposed
        exchange.say(*events, end=completes)
        if error is not None:
            exchange.observer.on_error(error)
        if (completes or error) and not alone:
            await watcher.end()
        if watcher.items and isinstance(watcher.items[-1], ResponseEnd):
            self.stored |= {turn.request_id: turn for turn in await self.conversations[0].turns() if turn.request_id == name}

    async def again(self, name: str, at: Conversation) -> None:
        """
        It is told as it is stored, and nobody is asked.
        """
        asked = len(self.model.asked)
        watcher = await Watcher().watch(at.ask(self.model, "?", request_id=name)).end()
        assert (watcher.items[-1].response, len(self.model.asked)) == (self.stored[name].response, asked)

    async def twice(self, name: str, at: Conversation) -> None:
        """
        It reports what is there.
        """
        turn = attrs.evolve(self.stored[name], time=99.0)
        assert (await at.store.commit(at.name, turn, epoch=0)).turn == self.stored[name]


@pytest.mark.parametrize("kind", KINDS)
async def test_late_completions(kind: str, tmp_path: Path) -> None:
    """
    All rows, each under a name of its own: what is stored, in order, is exactly what the row says, each turn whole.
    """
    async with store_at(kind, tmp_path) as (store, another):
        stores: list[HistoryStore] = [store, another(), another()]
        for name, (policy, script, expected) in TABLE.items():
            scene = Scene([Conversation(place, name, concurrency=policy) for place in stores])  # type: ignore[arg-type]
            for step in script.split(", "):
                word, _, who = step.partition(" ")
                at = scene.conversations[int(word[-1]) - 1 if word[-1].isdigit() else 0]
                await scene.play(word.rstrip("123"), who, at)
            history = await store.load(name)
            assert (name, " ".join(said(history))) == (name, expected)
            assert [turn.response.text for turn in history.turns] == [turn.request_id * 2 for turn in history.turns]
            # Who was told that it is stored was told the truth; who came too late heard it.
            for watcher in scene.watchers.values():
                assert watcher.error is None or isinstance(watcher.error, SupersededError) or "cut" in script
    assert len(TABLE) == 18
