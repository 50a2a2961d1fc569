"""
A process that commits turns until it is killed: `python -m tests.stores.committer KIND WHERE NAME WHO [COUNT]`.

It prints a line for each commit that was acknowledged, and only then. A turn that was overtaken is tried again at the epoch of the day, as a user who asks
again would.
"""

from __future__ import annotations

import asyncio
import sys

from rxchat.stores import HistoryStore, RedisStore, SqliteStore, SupersededError
from tests.stores.saying import turn

# Enough for several pages of a database, so that a commit is no single write.
FILLING = "x" * 9000


def store_of(kind: str, where: str) -> HistoryStore:
    """
    The store to be killed at.
    """
    return RedisStore(where) if kind == "redis" else SqliteStore(where)


async def commit(store: HistoryStore, name: str, request_id: str) -> None:
    """
    Until it is stored.
    """
    while True:
        epoch = (await store.load(name)).epoch
        try:
            await store.commit(name, turn(request_id, answer=request_id + FILLING), epoch=epoch)
            return
        except SupersededError:
            continue


async def main(kind: str, where: str, name: str, who: str, count: str = "1000000") -> None:
    """
    One after the other.
    """
    async with store_of(kind, where) as store:
        for number in range(int(count)):
            await commit(store, name, f"{who}{number}")
            print(f"{who}{number}", flush=True)


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
