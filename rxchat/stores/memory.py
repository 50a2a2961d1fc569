"""
Conversations in memory: for tests, and for what may be forgotten.
"""

from __future__ import annotations

import attrs

from rxchat.stores.base import HistoryStore, Written

__all__ = ["MemoryStore"]


@attrs.define
class _Kept:
    """
    One conversation: its records by request id, in order.
    """

    epoch: int = 0
    listed: bool = False
    records: dict[str, str] = attrs.field(factory=dict)

    def change(self, records: dict[str, str], listed: bool = True) -> None:
        self.epoch, self.records, self.listed = self.epoch + 1, records, listed

    def first(self, keep: int | None) -> dict[str, str]:
        return dict(list(self.records.items())[:keep])


class MemoryStore(HistoryStore):
    """
    Conversations of this process, gone with it. Turns are kept as the other stores keep them, as text.

    Every method is one step of the event loop, which makes it atomic; share it within one thread only.
    """

    def __init__(self) -> None:
        self._conversations: dict[str, _Kept] = {}

    @property
    def place(self) -> str:
        """
        Memory.
        """
        return "memory"

    def _of(self, name: str) -> _Kept:
        return self._conversations.setdefault(name, _Kept())

    async def _load(self, name: str) -> tuple[int, list[str | bytes]]:
        kept = self._conversations.get(name, _Kept())
        return kept.epoch, list(kept.records.values())

    async def _commit(self, name: str, epoch: int, keep: int | None, request_id: str, record: str) -> Written:
        kept = self._conversations.get(name, _Kept())
        if request_id in kept.records:
            return Written(kept.epoch, kept.records[request_id])
        if kept.epoch != epoch:
            return Written(kept.epoch, stale=True)
        self._conversations[name] = kept
        kept.change({**kept.first(keep), request_id: record})
        return Written(kept.epoch, record, fresh=True)

    async def _truncate(self, name: str, epoch: int, keep: int) -> Written:
        kept = self._of(name)
        if kept.epoch != epoch:
            return Written(kept.epoch, stale=True)
        kept.change(kept.first(keep), kept.listed)
        return Written(kept.epoch)

    async def _supersede(self, name: str) -> int:
        kept = self._of(name)
        kept.change(kept.records, kept.listed)
        return kept.epoch

    async def _branch(self, name: str, new: str, keep: int | None) -> bool:
        target = self._of(new)
        if target.listed:
            return False
        target.change(self._of(name).first(keep))
        return True

    async def _names(self) -> list[str]:
        return [name for name, kept in self._conversations.items() if kept.listed]

    async def _delete(self, name: str) -> bool:
        kept = self._of(name)
        was = kept.listed
        kept.change({}, listed=False)
        return was
