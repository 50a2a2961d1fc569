"""
The SQLite store: whose file it is, disks that fail, tasks that are cancelled.
"""

from __future__ import annotations

import asyncio
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from rxchat.errors import ConfigurationError, StoreError, Verdict
from rxchat.stores import History, SqliteStore
from rxchat.stores.sqlite import APPLICATION
from tests.stores.saying import said, turn


class Full(SqliteStore):
    """
    A store whose disk has room for `pages` pages of 4 KiB.
    """

    pages = 12

    def _prepare(self, connection: sqlite3.Connection) -> None:
        super()._prepare(connection)
        connection.execute(f"PRAGMA max_page_count = {self.pages}")


class ReadOnly(SqliteStore):
    """
    A store that the system lets only read.
    """

    def _prepare(self, connection: sqlite3.Connection) -> None:
        super()._prepare(connection)
        connection.execute("PRAGMA query_only = ON")


async def made(path: Path, *ids: str) -> History:
    """
    A file with these turns.
    """
    async with SqliteStore(path) as store:
        for epoch, request_id in enumerate(ids):
            await store.commit("talk", turn(request_id), epoch=epoch)
        return await store.load("talk")


@pytest.mark.parametrize("synchronous", ["FULL", "NORMAL"])
async def test_one_file_that_stays(tmp_path: Path, synchronous: str) -> None:
    """
    What was committed is there when the file is opened again; WAL, and the flushing that was asked for.
    """
    path = tmp_path / "history.db"
    async with SqliteStore(path, synchronous=synchronous) as store:  # type: ignore[arg-type]
        await store.commit("talk", turn("a"), epoch=0)
        assert await store._run(lambda connection: connection.execute("PRAGMA journal_mode").fetchone()) == ("wal",)
        expected = {"FULL": 2, "NORMAL": 1}[synchronous]
        assert await store._run(lambda connection: connection.execute("PRAGMA synchronous").fetchone()) == (expected,)
    assert await made(path) == History(1, (turn("a"),))
    assert [entry.name for entry in tmp_path.iterdir()] == ["history.db"]


async def test_a_closed_store_opens_again(tmp_path: Path) -> None:
    """
    Closing gives back the file and the thread; twice, and before any use, is no fault.
    """
    store = SqliteStore(tmp_path / "history.db")
    await store.aclose()
    await store.commit("talk", turn("a"), epoch=0)
    await store.aclose()
    await store.aclose()
    assert said(await store.load("talk")) == ["a"]
    await store.aclose()


async def test_in_memory() -> None:
    """
    ":memory:" is a database of this store alone.
    """
    async with SqliteStore(":memory:") as one, SqliteStore(":memory:") as other:
        await one.commit("talk", turn("a"), epoch=0)
        assert (said(await one.load("talk")), said(await other.load("talk"))) == (["a"], [])


def test_unknown_flushing() -> None:
    """
    "OFF" would promise what it cannot keep.
    """
    with pytest.raises(ConfigurationError, match="FULL, NORMAL, not 'OFF'"):
        SqliteStore("x.db", synchronous="OFF")  # type: ignore[arg-type]


def garbage(path: Path) -> None:
    """
    No database at all.
    """
    path.write_bytes(b"This is a diary, and not a short one. " * 200)


def foreign(path: Path) -> None:
    """
    Another program's tables.
    """
    with sqlite3.connect(path) as connection:
        connection.execute("CREATE TABLE bookmarks (url TEXT)")
    connection.close()


def claimed(path: Path) -> None:
    """
    Another program's mark.
    """
    with sqlite3.connect(path) as connection:
        connection.execute("PRAGMA application_id = 7")
    connection.close()


def later(path: Path) -> None:
    """
    A schema that is not yet known.
    """
    with sqlite3.connect(path) as connection:
        connection.execute(f"PRAGMA application_id = {APPLICATION}")
        connection.execute("PRAGMA user_version = 99")
        connection.execute("CREATE TABLE turn (x)")
    connection.close()


def folder(path: Path) -> None:
    """
    No file.
    """
    path.mkdir()


@pytest.mark.parametrize(
    ("make", "words"),
    [(garbage, "not a database"), (foreign, "another program"), (claimed, "another program"), (later, "later version"), (folder, "unable to open")],
)
async def test_files_that_are_not_ours(tmp_path: Path, make: Callable[[Path], None], words: str) -> None:
    """
    A StoreError that names the file and says why, for every method; not a byte of the file changes.
    """
    path = tmp_path / "file.db"
    make(path)
    before = path.read_bytes() if path.is_file() else b""
    async with SqliteStore(path) as store:
        for work in (store.load("talk"), store.commit("talk", turn("a"), epoch=0), store.names(), store.delete("talk"), store.supersede("talk")):
            with pytest.raises(StoreError, match=words) as caught:
                await work
            assert (str(path) in str(caught.value), caught.value.verdict) == (True, Verdict.STORE)
    assert (path.read_bytes() if path.is_file() else b"") == before


async def test_records_that_cannot_be_read(tmp_path: Path) -> None:
    """
    A damaged record is a StoreError with its cause, naming file and conversation, never a shorter history.
    """
    path = tmp_path / "history.db"
    await made(path, "a", "b")
    with sqlite3.connect(path) as connection:
        connection.execute("UPDATE turn SET record = substr(record, 1, 20) WHERE request_id = 'b'")
    connection.close()
    async with SqliteStore(path) as store:
        with pytest.raises(StoreError, match=r"history\.db: cannot load 'talk'") as caught:
            await store.load("talk")
        assert caught.value.__cause__ is not None


async def test_a_damaged_file(tmp_path: Path) -> None:
    """
    Pages overwritten in the middle: StoreError, nothing else.
    """
    path = tmp_path / "history.db"
    await made(path, *(f"r{n}" for n in range(40)))
    data = bytearray(path.read_bytes())
    data[4096:] = b"\xa5" * (len(data) - 4096)
    path.write_bytes(data)
    async with SqliteStore(path) as store:
        with pytest.raises(StoreError, match=r"history\.db"):
            await store.load("talk")


async def test_a_full_disk_writes_nothing(tmp_path: Path) -> None:
    """
    The commit fails as a StoreError with its cause, the history is as it was, and with room again the same commit succeeds.
    """
    path = tmp_path / "history.db"
    before = await made(path, "a")
    big = turn("big", answer="x" * 100_000)
    async with Full(path) as store:
        with pytest.raises(StoreError, match="full") as caught:
            await store.commit("talk", big, epoch=1)
        assert isinstance(caught.value.__cause__, sqlite3.OperationalError)
        assert await store.load("talk") == before
        with pytest.raises(StoreError, match="full"):
            await store.commit("talk", big, epoch=1, keep=0)
        assert await store.load("talk") == before
    async with SqliteStore(path) as store:
        assert (await store.commit("talk", big, epoch=1)).fresh is True


@pytest.mark.parametrize("replaced", [False, True])
async def test_a_file_that_is_not_there_any_more(tmp_path: Path, replaced: bool) -> None:
    """
    No commit is reported that went into a deleted file; what is at the path then is opened anew.
    """
    path, other = tmp_path / "history.db", tmp_path / "other.db"
    await made(other, "x")
    async with SqliteStore(path) as store:
        await store.commit("talk", turn("a"), epoch=0)
        for file in tmp_path.glob("history.db*"):
            file.unlink()
        if replaced:
            other.rename(path)
        with pytest.raises(StoreError, match="the file was deleted, moved or replaced while it was open"):
            await store.commit("talk", turn("b"), epoch=1)
        assert [item.request_id for item in (await store.load("talk")).turns] == ["x"] * replaced
        await store.commit("talk", turn("c"), epoch=replaced)


async def test_a_read_only_disk_writes_nothing(tmp_path: Path) -> None:
    """
    Reading goes on, changes are StoreErrors.
    """
    path = tmp_path / "history.db"
    before = await made(path, "a")
    async with ReadOnly(path) as store:
        for work in (store.commit("talk", turn("b"), epoch=1), store.truncate("talk", 0, epoch=1), store.delete("talk"), store.branch("talk", "b")):
            with pytest.raises(StoreError, match="readonly"):
                await work
        assert await store.load("talk") == before


async def test_another_process_that_writes_for_too_long(tmp_path: Path) -> None:
    """
    `busy_timeout` bounds the wait; nothing is lost, and readers never wait.
    """
    path = tmp_path / "history.db"
    before = await made(path, "a")
    other = sqlite3.connect(path, isolation_level=None)
    async with SqliteStore(path, busy_timeout=0.05) as store:
        assert await store.load("talk") == before
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(StoreError, match="locked"):
            await store.commit("talk", turn("b"), epoch=1)
        assert await store.load("talk") == before
        other.execute("ROLLBACK")
        assert (await store.commit("talk", turn("b"), epoch=1)).fresh is True
    other.close()


@pytest.mark.parametrize("lock", ["BEGIN IMMEDIATE", "BEGIN EXCLUSIVE"])
async def test_a_file_that_is_locked_while_it_is_opened(tmp_path: Path, lock: str) -> None:
    """
    The change to WAL waits as long as everything else, and no longer.
    """
    path = tmp_path / "history.db"
    other = sqlite3.connect(path, isolation_level=None)
    other.execute(lock)
    async with SqliteStore(path, busy_timeout=0.05) as store:
        with pytest.raises(StoreError, match="locked"):
            await store.names()
        other.execute("ROLLBACK")
        other.close()
        assert await store.names() == ()


async def test_a_transaction_that_cannot_even_be_rolled_back(tmp_path: Path) -> None:
    """
    The connection is given up, and the next use opens the file again, as it was.
    """
    before = await made(tmp_path / "history.db", "a")
    async with SqliteStore(tmp_path / "history.db") as store:

        def broken(connection: sqlite3.Connection) -> None:
            connection.execute("BEGIN IMMEDIATE")
            connection.execute("DELETE FROM turn")
            raise sqlite3.OperationalError("disk I/O error")

        with pytest.raises(sqlite3.OperationalError):
            await store._run(broken)
        assert await store.load("talk") == before


async def test_many_open_a_new_file_at_once(tmp_path: Path) -> None:
    """
    One makes the schema, nobody fails.
    """
    stores = [SqliteStore(tmp_path / "history.db") for _ in range(8)]
    results = await asyncio.gather(*(store.commit("talk", turn("a"), epoch=0) for store in stores))
    assert sorted(result.fresh for result in results) == [False] * 7 + [True]
    for store in stores:
        await store.aclose()


async def test_a_cancelled_commit_happened_or_not(tmp_path: Path) -> None:
    """
    Cancelled before, while or after the thread works on it: the turn is whole or not there, and committing again tells which.
    """
    async with SqliteStore(tmp_path / "history.db") as store:
        await store.names()
        epoch, fresh = 0, set()
        for n in range(40):
            task = asyncio.ensure_future(store.commit("talk", turn(f"r{n}"), epoch=epoch))
            for _ in range(n % 8):
                await asyncio.sleep(0)
            task.cancel()
            await asyncio.wait([task])
            again = await store.commit("talk", turn(f"r{n}"), epoch=epoch)
            epoch = again.epoch
            fresh.add(again.fresh)
        assert said(await store.load("talk")) == [f"r{n}" for n in range(40)]
        assert epoch == 40


def test_importing_rxchat_needs_no_database() -> None:
    """
    sqlite3 and redis are imported by those who use them.
    """
    program = "import rxchat, sys; from rxchat.stores import MemoryStore; print([name for name in ('sqlite3', 'redis') if name in sys.modules])"
    assert subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout == "[]\n"
