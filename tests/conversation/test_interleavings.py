"""
Random interleavings of two conversation objects on one history, compared with a model of a dozen lines: history is always a sequence of whole turns, and
exactly of those that were told to be stored (contract H).
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal, TypeAlias

import attrs
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from rxchat.conversation import BusyError, Conversation
from rxchat.events import Abort, ErrorEvent, ResponseEnd
from rxchat.response import FinishReason
from rxchat.stores import HistoryStore, MemoryStore, RedisStore, SqliteStore, SupersededError
from tests.client.watching import Watcher
from tests.conversation.fakes import Model, failed, saying
from tests.grammar import violations
from tests.shared_data import EXHAUSTIVE
from tests.stores.places import KINDS, redis_server
from tests.stores.saying import said, turn

Policy: TypeAlias = Literal["reject", "replace"]
Step: TypeAlias = tuple[str, int]

WORDS = ("ask", "ask", "ask", "say", "complete", "complete", "complete", "fail", "cap", "leave", "abort", "undo", "fence", "twice", "late")
scripts = st.lists(st.tuples(st.sampled_from(WORDS), st.integers(0, 3)), max_size=14)
policies: st.SearchStrategy[Policy] = st.sampled_from(["reject", "replace"])
EXAMPLES = settings(max_examples=400 if EXHAUSTIVE else 40, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])


@attrs.define
class Truth:
    """
    What must be the case: the ids stored, the version of the history, and for each live request the object that asks and the version it saw.
    """

    policy: Policy
    stored: list[str] = attrs.field(factory=list)
    version: int = 0
    live: dict[str, tuple[int, int]] = attrs.field(factory=dict)

    def enter(self, at: int) -> bool:
        """
        Whether object `at` may begin something.
        """
        running = [name for name, (owner, _) in self.live.items() if owner == at]
        if running and self.policy == "reject":
            return False
        for name in running:
            del self.live[name]
        return True

    def ask(self, name: str, at: int) -> bool:
        """
        Whether it is asked.
        """
        allowed = self.enter(at)
        if allowed:
            self.version += self.policy == "replace"
            self.live[name] = (at, self.version)
        return allowed

    def complete(self, name: str) -> None:
        """
        A whole answer is stored if nothing has changed since it was asked for.
        """
        _, seen = self.live.pop(name, (0, -1))
        if seen == self.version:
            self.stored.append(name)
            self.version += 1

    def undo(self, at: int) -> None:
        """
        The last turn goes.
        """
        if self.enter(at):
            self.stored = self.stored[:-1]
            self.version += 1


@attrs.define(eq=False)
class Play:
    """
    A script in the making: requests are named by their number.
    """

    store: HistoryStore
    name: str
    policy: Policy
    truth: Truth = attrs.field(init=False)
    model: Model = attrs.field(factory=Model)
    conversations: list[Conversation] = attrs.field(factory=list)
    watchers: dict[str, Watcher] = attrs.field(factory=dict)
    numbers: dict[str, int] = attrs.field(factory=dict)

    def __attrs_post_init__(self) -> None:
        self.truth = Truth(self.policy)
        self.conversations = [Conversation(self.store, self.name, concurrency=self.policy) for _ in range(2)]

    def pick(self, number: int) -> str | None:
        """
        One of the requests that were sent.
        """
        names = list(self.numbers)
        return names[-1 - number % len(names)] if names else None

    async def ask(self, number: int) -> None:
        """
        A question by one of the two.
        """
        name, at = f"q{len(self.watchers)}", number % 2
        before = len(self.model.asked)
        self.watchers[name] = watcher = Watcher().watch(self.conversations[at].ask(self.model, name, request_id=name))
        if self.truth.ask(name, at):
            while len(self.model.asked) == before:
                await asyncio.sleep(0)
            self.numbers[name] = before
        else:
            assert isinstance(watcher.error, BusyError)

    async def step(self, word: str, number: int) -> None:
        """
        One word of the script, here and in the model of it.
        """
        at, truth, conversation = number % 2, self.truth, self.conversations[number % 2]
        if word == "ask":
            await self.ask(number)
        elif word == "abort":
            conversation.abort()
            truth.live = {name: live for name, live in truth.live.items() if live[0] != at}
        elif word == "fence":
            await self.store.supersede(self.name)
            truth.version += 1
        elif word == "undo":
            truth.undo(at)
            try:
                await conversation.undo()
            except BusyError:
                assert self.policy == "reject"
        elif (name := self.pick(number)) is not None:
            await self.about(word, name)

    async def about(self, word: str, name: str) -> None:
        """
        One word about a request.
        """
        exchange, watcher = self.model.asked[self.numbers[name]], self.watchers[name]
        if word == "twice":
            if name in self.truth.stored:
                assert (await self.store.commit(self.name, turn(name), epoch=self.numbers[name])).fresh is False
            return
        if word == "late":
            if name not in self.truth.stored and self.truth.version:
                with pytest.raises(SupersededError):
                    await self.store.commit(self.name, turn(name), epoch=self.truth.version - 1)
            return
        self.push(word, name)
        if word == "leave":
            watcher.dispose()
        if word == "complete":
            self.truth.complete(name)
        elif word != "say":
            self.truth.live.pop(name, None)
        if word in ("complete", "fail", "cap") and not watcher.over.is_set() and exchange.disposed is False:
            await watcher.end()
        await self.settle()

    def push(self, word: str, name: str) -> None:
        """
        What the model says, whether anybody listens or not.
        """
        exchange = self.model.asked[self.numbers[name]]
        if word == "say":
            exchange.say(*saying(name, name)[:4])
        elif word == "complete":
            exchange.say(*saying(name, name), end=True)
        elif word == "cap":
            exchange.say(*saying(name, name, finish=FinishReason.LENGTH), end=True)
        elif word == "fail":
            events, error = failed(name)
            exchange.say(*events)
            exchange.observer.on_error(error)

    async def settle(self) -> None:
        """
        Until no commit is under way.
        """
        for _ in range(5):
            await asyncio.sleep(0)
            for conversation in self.conversations:
                await conversation.settled()

    async def check(self) -> None:
        """
        The history is what the model of it says, each turn whole.
        """
        history = await self.store.load(self.name)
        assert (said(history), history.epoch) == (self.truth.stored, self.truth.version)
        assert [(item.messages[0].text, item.response.text) for item in history.turns] == [(name, name * 2) for name in self.truth.stored]


async def played(store: HistoryStore, name: str, policy: Policy, script: list[Step]) -> None:
    """
    A script, compared behind each word.
    """
    play = Play(store, name, policy)
    for word, number in script:
        await play.step(word, number)
        await play.check()
    for watcher in play.watchers.values():
        watcher.dispose()


async def raced(store: HistoryStore, name: str, policy: Policy, script: list[Step]) -> None:
    """
    The same without ever waiting for a commit: what subscribers were told is the truth.
    """
    play = Play(store, name, policy)
    asked = 0
    for word, number in script:
        if word == "ask":
            watcher = play.watchers[f"q{asked}"] = Watcher()
            watcher.watch(play.conversations[number % 2].ask(play.model, f"q{asked}", request_id=f"q{asked}"))
            asked += 1
        elif word == "abort":
            play.conversations[number % 2].abort()
        for index, exchange in enumerate(play.model.asked):
            play.numbers.setdefault(exchange.prompt[-1].text, index)
        who = play.pick(number)
        if who is not None and word in ("say", "complete", "fail", "cap"):
            play.push(word, who)
        elif who is not None and word == "leave":
            play.watchers[who].dispose()
        for _ in range(number):
            await asyncio.sleep(0)
    await play.settle()
    await asyncio.sleep(0)
    history = await store.load(name)
    ids = said(history)
    assert len(ids) == len(set(ids))
    assert [(item.messages[0].text, item.response.text) for item in history.turns] == [(q, q * 2) for q in ids]
    for q, watcher in play.watchers.items():
        last: Any = watcher.items[-1] if watcher.items else None
        if isinstance(last, ResponseEnd):
            assert (q in ids) is last.response.committable
        elif isinstance(last, ErrorEvent | Abort) or watcher.error is not None:
            assert q not in ids
        watcher.dispose()
        if watcher.completed and "say" not in [word for word, _ in script]:
            assert violations(watcher.items) == []


@contextmanager
def opened(kind: str, folder: Path) -> Iterator[Any]:
    """
    What makes a store of the same place again and again.
    """
    if kind == "redis":
        with redis_server(folder) as server:
            yield lambda: RedisStore(server.url)
    elif kind == "sqlite":
        yield lambda: SqliteStore(folder / "history.db", synchronous="NORMAL")
    else:
        yield MemoryStore


@pytest.mark.parametrize("work", [played, raced])
@pytest.mark.parametrize("kind", KINDS)
def test_interleavings(kind: str, work: Any, tmp_path: Path) -> None:
    """
    Whatever happens in whatever order, on every store.
    """
    count = 0
    with opened(kind, tmp_path) as make:

        @EXAMPLES
        @given(policies, scripts)
        def run(policy: Policy, script: list[Step]) -> None:
            nonlocal count
            count += 1

            async def main() -> None:
                async with make() as store:
                    await work(store, f"talk {count}", policy, script)

            asyncio.run(main())

        run()
    assert count > 10
