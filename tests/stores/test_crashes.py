"""
Killed at random moments: history is whole turns only, nothing that was acknowledged is lost, nothing is there twice (contract H).
"""

from __future__ import annotations

import random
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from rxchat.stores import HistoryStore, RedisStore, SqliteStore, dump_turn, load_turn
from tests.shared_data import EXHAUSTIVE, ROOT
from tests.stores.committer import FILLING, store_of
from tests.stores.places import redis_server
from tests.stores.saying import said, turn

ROUNDS = 60 if EXHAUSTIVE else 3


class Child:
    """
    A committing process, and what it acknowledged.
    """

    def __init__(self, kind: str, where: str, name: str, who: str, *count: str) -> None:
        command = [sys.executable, "-m", "tests.stores.committer", kind, where, name, who, *count]
        self.process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.acknowledged: list[str] = []
        self.begun = threading.Event()
        self._reader = threading.Thread(target=self._read)
        self._reader.start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        # A line that was cut off by the kill was not acknowledged.
        for line in self.process.stdout:
            if line.endswith("\n"):
                self.acknowledged.append(line.strip())
            self.begun.set()

    def work_a_while(self, seed: int) -> None:
        """
        From its first commit to a random moment in the middle of one of the next.
        """
        assert self.begun.wait(30), "it never committed"
        time.sleep(random.Random(seed).uniform(0, 0.2))

    def kill(self) -> list[str]:
        """
        SIGKILL; what it had acknowledged.
        """
        self.process.kill()
        return self.end()[0]

    def end(self) -> tuple[list[str], str]:
        """
        What it had acknowledged by its end, and its complaints.
        """
        self._reader.join(60)
        assert self.process.stdout is not None
        assert self.process.stderr is not None
        complaints = self.process.stderr.read()
        self.process.stdout.close()
        self.process.stderr.close()
        self.process.wait()
        return self.acknowledged, complaints


async def checked(store: HistoryStore, name: str, acknowledged: list[str], extra: int = 1) -> list[str]:
    """
    The ids stored: all that were acknowledged, at most `extra` more (committed, but the word of it got lost), each once, each turn whole.
    """
    history = await store.load(name)
    ids = said(history)
    assert [item.response.text for item in history.turns] == [request_id + FILLING for request_id in ids]
    assert len(ids) == len(set(ids))
    assert set(acknowledged) <= set(ids)
    assert len(ids) <= len(set(acknowledged)) + extra
    return ids


async def test_a_killed_process_on_sqlite(tmp_path: Path) -> None:
    """
    One file through all rounds; the next process goes on where the killed one ended.
    """
    path, total = tmp_path / "history.db", 0
    for seed in range(ROUNDS):
        child = Child("sqlite", str(path), f"talk {seed}", "r")
        child.work_a_while(seed)
        acknowledged = child.kill()
        async with SqliteStore(path) as store:
            total += len(await checked(store, f"talk {seed}", acknowledged))
            assert await store._run(lambda connection: connection.execute("PRAGMA integrity_check").fetchone()) == ("ok",)
    assert total >= ROUNDS


async def test_a_killed_process_on_redis(tmp_path: Path) -> None:
    """
    The server lives on; a script is run whole or not at all.
    """
    total = 0
    with redis_server(tmp_path) as server:
        for seed in range(ROUNDS):
            child = Child("redis", server.url, f"talk {seed}", "r")
            child.work_a_while(seed)
            acknowledged = child.kill()
            async with RedisStore(server.url) as store:
                total += len(await checked(store, f"talk {seed}", acknowledged))
    assert total >= ROUNDS


async def test_a_killed_redis_server(tmp_path: Path) -> None:
    """
    With `appendonly yes, appendfsync always`, what was acknowledged is there when the server is started again.
    """
    total = 0
    with redis_server(tmp_path, durable=True) as server:
        for seed in range(ROUNDS):
            child = Child("redis", server.url, f"talk {seed}", "r")
            child.work_a_while(seed + 1000)
            server.kill()
            acknowledged = child.kill()
            server.start()
            async with RedisStore(server.url) as store:
                total += len(await checked(store, f"talk {seed}", acknowledged))
                assert len(await store.names()) <= seed + 1
    assert total >= ROUNDS


@contextmanager
def place_of(kind: str, folder: Path) -> Iterator[str]:
    """
    Where two processes meet.
    """
    if kind == "redis":
        with redis_server(folder) as server:
            yield server.url
    else:
        yield str(folder / "history.db")


@pytest.mark.parametrize("kind", ["sqlite", "redis"])
async def test_two_processes_on_one_conversation(kind: str, tmp_path: Path) -> None:
    """
    Both commit as fast as they can: nothing is lost, nothing is there twice, each one's turns are in its own order.
    """
    count = 200 if EXHAUSTIVE else 25
    with place_of(kind, tmp_path) as where:
        children = [Child(kind, where, "talk", who, str(count)) for who in "ab"]
        results = [child.end() for child in children]
        assert [complaints for _, complaints in results] == ["", ""]
        async with store_of(kind, where) as store:
            ids = await checked(store, "talk", [one for acknowledged, _ in results for one in acknowledged], extra=0)
            assert (await store.load("talk")).epoch == 2 * count
    for who in "ab":
        assert [request_id for request_id in ids if request_id.startswith(who)] == [f"{who}{number}" for number in range(count)]


@pytest.mark.parametrize("kind", ["sqlite", "redis"])
async def test_one_of_two_processes_is_killed(kind: str, tmp_path: Path) -> None:
    """
    The other one goes on, and loses nothing.
    """
    with place_of(kind, tmp_path) as where:
        victim, other = Child(kind, where, "talk", "a"), Child(kind, where, "talk", "b", "25")
        victim.work_a_while(7)
        lost = victim.kill()
        acknowledged, complaints = other.end()
        assert (complaints, len(acknowledged)) == ("", 25)
        async with store_of(kind, where) as store:
            await checked(store, "talk", [*lost, *acknowledged])


def test_half_a_record_is_no_turn() -> None:
    """
    The check above can fail: a record that was cut anywhere does not load.
    """
    record = dump_turn(turn("a"))
    for cut in range(0, len(record), 7):
        with pytest.raises(Exception, match=r".+"):
            load_turn(record[:cut])
