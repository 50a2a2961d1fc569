"""
Conversations in one SQLite file: the embedded default.

The file is in WAL mode; each change is one transaction that takes the write lock before it reads, so any number of processes may share the file (on a local
disk: WAL does not work over a network file system). What a commit that returned survives:

| `synchronous` | the process is killed | the machine loses power |
|---|---|---|
| "FULL" (default) | yes | yes: the log was flushed to the disk, as far as the disk tells the truth |
| "NORMAL" | yes | the file stays whole, but the last commits may be gone |

sqlite3 works in a thread of the store's own, so the event loop never waits for the disk, and a cancelled task leaves nothing half done.
"""

from __future__ import annotations

import asyncio
import os
import sqlite3
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any, Literal, TypeVar, get_args

from rxchat.errors import ConfigurationError, StoreError
from rxchat.stores.base import HistoryStore, Written

__all__ = ["SqliteStore"]

T = TypeVar("T")

Synchronous = Literal["FULL", "NORMAL"]

# "rxch": how a file says whose it is.
APPLICATION = 0x72786368
SCHEMA_VERSION = 1

_SCHEMA = (
    "CREATE TABLE conversation (name TEXT PRIMARY KEY, epoch INTEGER NOT NULL, listed INTEGER NOT NULL)",
    "CREATE TABLE turn (name TEXT NOT NULL REFERENCES conversation, position INTEGER NOT NULL, request_id TEXT NOT NULL, record TEXT NOT NULL,"
    " PRIMARY KEY (name, position), UNIQUE (name, request_id))",
    f"PRAGMA application_id = {APPLICATION}",
    f"PRAGMA user_version = {SCHEMA_VERSION}",
)


class SqliteStore(HistoryStore):
    """
    Conversations in the file `path`, which is made if it is not there; ":memory:" is a database of this store alone.

    `synchronous` as the module says; `busy_timeout` is how long, in seconds, a change waits for another process's. The file is opened by the first use: one
    that is damaged, another program's, or a later version's is a StoreError naming it, and is not touched. Close the store when it is done.
    """

    faults = (sqlite3.Error, OSError)

    def __init__(self, path: str | os.PathLike[str], *, synchronous: Synchronous = "FULL", busy_timeout: float = 5.0) -> None:
        if synchronous not in get_args(Synchronous):
            raise ConfigurationError(f"synchronous is one of {', '.join(get_args(Synchronous))}, not {synchronous!r}")
        self._path = os.fspath(path)
        self._synchronous = synchronous
        self._busy_timeout = busy_timeout
        self._connection: sqlite3.Connection | None = None
        self._file: tuple[int, int] | None = None
        self._thread: ThreadPoolExecutor | None = None

    @property
    def place(self) -> str:
        """
        The path of the file.
        """
        return self._path

    async def aclose(self) -> None:
        """
        Finish what is under way and close the file; the next use opens it again.
        """
        thread, self._thread = self._thread, None
        if thread is not None:
            await asyncio.wrap_future(thread.submit(self._close))
            thread.shutdown(wait=False)

    # --- the thread ------------------------------------------------------------------------------------------------------------------------------

    async def _run(self, work: Callable[[sqlite3.Connection], T]) -> T:
        """
        Work in the store's thread. Cancelled before it began there, it does not happen; after that it does, whole.
        """
        if self._thread is None:
            self._thread = ThreadPoolExecutor(1, "rxchat sqlite")
        return await asyncio.wrap_future(self._thread.submit(self._worked, work))

    def _worked(self, work: Callable[[sqlite3.Connection], T]) -> T:
        connection = self._opened()
        try:
            return work(connection)
        finally:
            # A disk so broken that not even the rollback went through: the file itself rolls back when it is opened again.
            if connection.in_transaction:
                self._close()

    def _opened(self) -> sqlite3.Connection:
        """
        The open file; StoreError, and it is opened anew the next time, if it is not at its path any more: what is written to it then, nobody finds again.
        """
        if self._connection is not None and self._file != _identity(self._path):
            self._close()
            raise StoreError(f"{self._path}: the file was deleted, moved or replaced while it was open; nothing was read or written")
        if self._connection is None:
            connection = sqlite3.connect(self._path, timeout=self._busy_timeout, isolation_level=None)
            try:
                self._prepare(connection)
            except BaseException:
                connection.close()
                raise
            self._connection, self._file = connection, _identity(self._path)
        return self._connection

    def _close(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()

    def _prepare(self, connection: sqlite3.Connection) -> None:
        """
        Look whose file it is before anything of it is changed.
        """
        with _reading(connection):
            fresh = self._is_empty(connection)
        self._into_wal(connection)
        connection.execute(f"PRAGMA synchronous = {self._synchronous}")
        if fresh:
            with _writing(connection):
                # Another process may have been faster.
                if self._is_empty(connection):
                    for statement in _SCHEMA:
                        connection.execute(statement)

    def _is_empty(self, connection: sqlite3.Connection) -> bool:
        """
        Whether there is nothing in the file yet; StoreError if what is there is not ours. In a transaction: another process may just be making it.
        """
        application, version = (_one(connection, f"PRAGMA {name}") for name in ("application_id", "user_version"))
        if application == APPLICATION:
            if version != SCHEMA_VERSION:
                raise StoreError(f"{self._path}: written by a later version of rxchat (its schema is {version}, this one knows {SCHEMA_VERSION})")
            return False
        if application or version or _one(connection, "SELECT count(*) FROM sqlite_master"):
            raise StoreError(f"{self._path}: a database of another program, not a history of rxchat")
        return True

    def _into_wal(self, connection: sqlite3.Connection) -> None:
        """
        The change of mode does not wait for other processes by itself.
        """
        until = time.monotonic() + self._busy_timeout
        while True:
            try:
                connection.execute("PRAGMA journal_mode = WAL")
                return
            except sqlite3.OperationalError as fault:
                if fault.sqlite_errorcode & 0xFF != sqlite3.SQLITE_BUSY or time.monotonic() >= until:
                    raise
                time.sleep(0.01)

    # --- what a store does -----------------------------------------------------------------------------------------------------------------------

    async def _load(self, name: str) -> tuple[int, list[str | bytes]]:
        def work(connection: sqlite3.Connection) -> tuple[int, list[str | bytes]]:
            with _reading(connection):
                records = connection.execute("SELECT record FROM turn WHERE name = ? ORDER BY position", (name,)).fetchall()
                return _epoch(connection, name), [record for (record,) in records]

        return await self._run(work)

    async def _commit(self, name: str, epoch: int, keep: int | None, request_id: str, record: str) -> Written:
        def work(connection: sqlite3.Connection) -> Written:
            with _writing(connection):
                now = _epoch(connection, name)
                there = connection.execute("SELECT record FROM turn WHERE name = ? AND request_id = ?", (name, request_id)).fetchone()
                if there is not None:
                    return Written(now, there[0])
                if now != epoch:
                    return Written(now, stale=True)
                _drop(connection, name, keep)
                _advance(connection, name, listed=True)
                connection.execute(
                    "INSERT INTO turn SELECT :name, count(*), :id, :record FROM turn WHERE name = :name",
                    {"name": name, "id": request_id, "record": record},
                )
                return Written(epoch + 1, record, fresh=True)

        return await self._run(work)

    async def _truncate(self, name: str, epoch: int, keep: int) -> Written:
        def work(connection: sqlite3.Connection) -> Written:
            with _writing(connection):
                now = _epoch(connection, name)
                if now != epoch:
                    return Written(now, stale=True)
                _drop(connection, name, keep)
                return Written(_advance(connection, name))

        return await self._run(work)

    async def _supersede(self, name: str) -> int:
        def work(connection: sqlite3.Connection) -> int:
            with _writing(connection):
                return _advance(connection, name)

        return await self._run(work)

    async def _branch(self, name: str, new: str, keep: int | None) -> bool:
        def work(connection: sqlite3.Connection) -> bool:
            with _writing(connection):
                if _listed(connection, new):
                    return False
                _advance(connection, new, listed=True)
                connection.execute(
                    "INSERT INTO turn SELECT ?, position, request_id, record FROM turn WHERE name = ? AND position < ?",
                    (new, name, _bound(keep)),
                )
                return True

        return await self._run(work)

    async def _names(self) -> list[str]:
        def work(connection: sqlite3.Connection) -> list[str]:
            return [name for (name,) in connection.execute("SELECT name FROM conversation WHERE listed").fetchall()]

        return await self._run(work)

    async def _delete(self, name: str) -> bool:
        def work(connection: sqlite3.Connection) -> bool:
            with _writing(connection):
                was = _listed(connection, name)
                _drop(connection, name, 0)
                _advance(connection, name, listed=False)
                return was

        return await self._run(work)


def _identity(path: str) -> tuple[int, int] | None:
    """
    Which file is at a path; None if there is none (in memory there never is).
    """
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_dev, found.st_ino


@contextmanager
def _transaction(connection: sqlite3.Connection, begin: str) -> Iterator[None]:
    connection.execute(begin)
    try:
        yield
        connection.execute("COMMIT")
    except BaseException:
        # Some failures (a full disk) have rolled it back already.
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise


def _writing(connection: sqlite3.Connection) -> Any:
    """
    A transaction that holds the write lock from its beginning: what it reads stays true until it has written.
    """
    return _transaction(connection, "BEGIN IMMEDIATE")


def _reading(connection: sqlite3.Connection) -> Any:
    """
    A transaction that sees one moment.
    """
    return _transaction(connection, "BEGIN")


def _one(connection: sqlite3.Connection, query: str, *values: Any) -> Any:
    row = connection.execute(query, values).fetchone()
    return row[0] if row else None


def _epoch(connection: sqlite3.Connection, name: str) -> int:
    return _one(connection, "SELECT epoch FROM conversation WHERE name = ?", name) or 0


def _listed(connection: sqlite3.Connection, name: str) -> bool:
    return bool(_one(connection, "SELECT listed FROM conversation WHERE name = ?", name))


def _advance(connection: sqlite3.Connection, name: str, listed: bool | None = None) -> int:
    """
    The next epoch; `listed` None leaves that as it is.
    """
    connection.execute(
        "INSERT INTO conversation VALUES (:name, 1, coalesce(:listed, 0))"
        " ON CONFLICT (name) DO UPDATE SET epoch = epoch + 1, listed = coalesce(:listed, listed)",
        {"name": name, "listed": listed},
    )
    return _epoch(connection, name)


def _bound(keep: int | None) -> int:
    return 2**62 if keep is None else keep


def _drop(connection: sqlite3.Connection, name: str, keep: int | None) -> None:
    connection.execute("DELETE FROM turn WHERE name = ? AND position >= ?", (name, _bound(keep)))
