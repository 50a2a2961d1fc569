"""
Where conversations are kept: turns as values (turns.py), what a store does (base.py), and three places: memory, a SQLite file, Redis.

Each store is imported when it is first asked for: who keeps history in memory needs neither sqlite3 nor redis.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from rxchat.stores.base import Commit, History, HistoryStore, SupersededError
from rxchat.stores.turns import Round, Turn, dump_turn, load_turn, total_usage, unanswered

if TYPE_CHECKING:
    from rxchat.stores.memory import MemoryStore
    from rxchat.stores.redis import RedisStore
    from rxchat.stores.sqlite import SqliteStore

__all__ = [
    "Commit",
    "History",
    "HistoryStore",
    "MemoryStore",
    "RedisStore",
    "Round",
    "SqliteStore",
    "SupersededError",
    "Turn",
    "dump_turn",
    "load_turn",
    "total_usage",
    "unanswered",
]

_HOMES = {"MemoryStore": "memory", "RedisStore": "redis", "SqliteStore": "sqlite"}

if not TYPE_CHECKING:  # a checker is to see what is not there

    def __getattr__(name: str) -> Any:
        if name in _HOMES:
            globals()[name] = found = getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
            return found
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
