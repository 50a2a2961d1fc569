"""
Which tool call a fragment means, and under which key the call goes out (contract N2, P5, P6).

Providers tell calls apart by index, by id, by both or by nothing, and say some of it late. What goes out has an index, unique among the calls of its
choice and step, and an id: the provider's, or a local one that says so.
"""

from __future__ import annotations

import attrs

__all__ = ["TrackedCall", "TrackedCalls", "is_local_id"]

LOCAL_PREFIX = "rxcall-"


def local_id(step: int, choice: int, index: int) -> str:
    """
    The id of a call the provider never named: the same for the same place in the response.
    """
    return f"{LOCAL_PREFIX}{step}-{choice}-{index}"


def is_local_id(call_id: str) -> bool:
    """
    Whether a call id was made here because the provider gave none (contract N2, P5).
    """
    return call_id.startswith(LOCAL_PREFIX)


@attrs.define(eq=False)
class TrackedCall:
    """
    One call: `index` is its key in what we emit, `wired` whether the provider gave an index at all, `named` whether it gave an id.
    """

    id: str
    named: bool
    name: str
    kind: str
    index: int
    wired: bool
    choice: int
    order: int
    ended: bool = False


class TrackedCalls:
    """
    The calls of one choice in one step, and which of them a fragment means (contract N2, P5, P6).
    """

    __slots__ = ("_by_id", "_by_index", "_free", "_indexes", "_last", "opened")

    def __init__(self) -> None:
        self.opened: dict[int, TrackedCall] = {}  # by our index, oldest first
        self._by_id: dict[str, TrackedCall] = {}  # the provider's ids, ended calls too
        self._by_index: dict[int | None, TrackedCall] = {}  # the provider's index -> the newest call under it, ended calls too
        self._indexes: set[int] = set()  # ours, in use
        self._free = 0
        self._last: TrackedCall | None = None

    def meant_by_start(self, index: int | None, call_id: str) -> TrackedCall | None:
        """
        The call a START repeats, None if it begins one. A START that says neither id nor index always begins one.
        """
        call = self._by_id.get(call_id) or self._by_index.get(index)
        if call is None or call_id in self._by_id:
            return self._known(call, index, call_id)
        return None if call.ended or (call_id and call.named) else self._known(call, index, call_id)

    def meant_by(self, index: int | None, call_id: str) -> TrackedCall | None:
        """
        The call a fragment or an END belongs to, open or ended; None if to none seen so far.
        """
        if call_id in self._by_id:
            return self._known(self._by_id[call_id], index, call_id)
        call = self._newest() if index is None else self._by_index.get(index) or self._unwired(index)
        if call is not None and call_id and (call.named or call.ended):
            return None
        return self._known(call, index, call_id)

    def begin(self, index: int | None, call_id: str, name: str, kind: str, choice: int, step: int, order: int) -> TrackedCall:
        """
        A new call; it keeps the provider's index if that is not taken, else it gets the lowest free one.
        """
        own = index if index is not None and index not in self._indexes else self._lowest_free()
        call = TrackedCall(call_id or local_id(step, choice, own), bool(call_id), name, kind, own, index is not None, choice, order)
        self._indexes.add(own)
        self.opened[own] = self._last = call
        if index is not None:
            self._by_index[index] = call
        if call_id:
            self._by_id[call_id] = call
        return call

    def end(self, call: TrackedCall) -> None:
        call.ended = True
        del self.opened[call.index]

    def _known(self, call: TrackedCall | None, index: int | None, call_id: str) -> TrackedCall | None:
        """
        Note what was said late of a call: its id, its index.
        """
        if call is None:
            return None
        if call_id and not call.named:
            call.id, call.named = call_id, True
            self._by_id[call_id] = call
        if index is not None and index not in self._by_index:
            self._by_index[index] = call
            call.wired = True
        return call

    def _newest(self) -> TrackedCall | None:
        return next(reversed(self.opened.values()), self._last)

    def _unwired(self, index: int) -> TrackedCall | None:
        """
        An index nobody has seen may be a late one: of the only open call, else of the call we gave this index, if the provider gave them none.
        """
        call = self._newest() if len(self.opened) == 1 else self.opened.get(index)
        return None if call is None or call.wired else call

    def _lowest_free(self) -> int:
        while self._free in self._indexes:
            self._free += 1
        return self._free
