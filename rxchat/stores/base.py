"""
What a store of conversations does: a small interface over records of text, the same for every place they are kept in.

A conversation is a name, a number called its **epoch**, and a sequence of whole turns. Every change of a conversation makes its epoch one higher, and a turn
is committed only at the epoch it was begun at. So a late answer can never be written: whoever truncated, replaced, deleted or simply was first has moved
the epoch. The check and the write are one atomic step, also between processes.

What every store promises:

- a turn is there whole or not at all, whenever anything dies;
- a commit that returned is there afterwards, as far as the store's own durability goes (each class states how far);
- the same request id is stored once: committing it again, at whatever epoch, changes nothing and reports the turn that is there. So whoever does not know
  whether a commit happened (a lost connection, a cancelled task) simply commits again;
- a deleted name leaves its epoch behind, so that answers still under way cannot bring it back;
- every failure is a StoreError, with its cause; records that cannot be read are one, too.

A class of your own fills in the `_...` methods. They move text, raise what their driver raises (`faults` names these classes), and need to know nothing
about turns.
"""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Self

import attrs

from rxchat.errors import ConfigurationError, RxchatError, StoreError
from rxchat.stores.turns import Turn, dump_turn, load_turn

__all__ = ["Commit", "History", "HistoryStore", "SupersededError"]


# So many records are read before others on the event loop have their turn: some 10 ms.
_AT_ONCE = 32


class SupersededError(StoreError):
    """
    The conversation has moved on since this was begun: changed elsewhere, truncated, replaced or deleted. Nothing was written.
    """


@attrs.frozen
class History:
    """
    What a store holds of one conversation: its epoch, and its turns in order. A name that was never used has epoch 0 and no turns.
    """

    epoch: int = 0
    turns: tuple[Turn, ...] = ()


@attrs.frozen
class Commit:
    """
    What a commit came to: the turn that is stored, the epoch behind it, and whether it was stored just now or had been before.
    """

    turn: Turn
    epoch: int
    fresh: bool = True


@attrs.frozen
class Written:
    """
    What a store did with a record: `stale` and nothing was written; else `record` is what stands there now.
    """

    epoch: int
    record: str | bytes = ""
    fresh: bool = False
    stale: bool = False


class HistoryStore(ABC):
    """
    Conversations by name, each a sequence of whole turns.
    """

    faults: tuple[type[Exception], ...] = ()
    """What the driver raises; becomes StoreError."""

    @property
    @abstractmethod
    def place(self) -> str:
        """
        Where the records are, for messages; without secrets.
        """

    async def load(self, name: str) -> History:
        """
        Everything of a conversation, as it was at one moment.
        """
        with self._telling(f"load {checked_word('name', name)!r}"):
            epoch, records = await self._load(name)
            turns: list[Turn] = []
            for record in records:
                turns.append(load_turn(record))
                if not len(turns) % _AT_ONCE:
                    await asyncio.sleep(0)
            return History(epoch, tuple(turns))

    async def commit(self, name: str, turn: Turn, *, epoch: int, keep: int | None = None) -> Commit:
        """
        Append a turn, at this epoch only; with `keep`, in place of the turns behind the first so many. SupersededError at another epoch.

        A turn with this request id that is there already is reported instead, and nothing changes.
        """
        checked_word("request id", turn.request_id)
        checked_count(keep)
        record = dump_turn(turn)
        with self._telling(f"commit to {checked_word('name', name)!r}"):
            written = await self._commit(name, epoch, keep, turn.request_id, record)
            self._current(name, epoch, written)
            return Commit(turn if written.fresh else load_turn(written.record), written.epoch, written.fresh)

    async def truncate(self, name: str, keep: int, *, epoch: int) -> int:
        """
        Drop the turns behind the first `keep`, at this epoch only; the new epoch. SupersededError at another one.
        """
        checked_count(keep)
        with self._telling(f"truncate {checked_word('name', name)!r}"):
            written = await self._truncate(name, epoch, keep)
            self._current(name, epoch, written)
            return written.epoch

    async def supersede(self, name: str) -> int:
        """
        Change nothing but the epoch, which is returned: what is under way on this conversation, anywhere, cannot be committed any more.
        """
        with self._telling(f"supersede {checked_word('name', name)!r}"):
            return await self._supersede(name)

    async def branch(self, name: str, new: str, keep: int | None = None) -> None:
        """
        Copy the first `keep` turns (all by default) to a new name. StoreError if that name is in use.
        """
        if checked_word("name", new) == checked_word("name", name):
            raise ConfigurationError("a branch needs a name of its own")
        checked_count(keep)
        with self._telling(f"branch {name!r}"):
            if not await self._branch(name, new, keep):
                raise StoreError(f"{self.place}: cannot branch to {new!r}: that name is in use")

    async def names(self) -> tuple[str, ...]:
        """
        The names of all conversations, sorted.
        """
        with self._telling("list the names"):
            return tuple(sorted(await self._names()))

    async def delete(self, name: str) -> bool:
        """
        Remove a conversation; whether there was one. What stays is its name with its epoch, unlisted, against late answers.
        """
        with self._telling(f"delete {checked_word('name', name)!r}"):
            return await self._delete(name)

    async def aclose(self) -> None:  # noqa: B027 (a store may have nothing to give back)
        """
        Give back what the store holds. A memory store forgets nothing by it.
        """

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        await self.aclose()

    def _current(self, name: str, epoch: int, written: Written) -> None:
        if written.stale:
            raise SupersededError(f"{self.place}: the conversation {name!r} has moved on since this was begun (epoch {epoch}, now {written.epoch})")

    @contextmanager
    def _telling(self, what: str) -> Iterator[None]:
        try:
            yield
        except (StoreError, ConfigurationError):
            raise
        except self.faults as fault:
            raise StoreError(self._sentence(what, fault)) from fault
        except (RxchatError, ValueError, KeyError) as fault:
            # What is stored is no turn.
            raise StoreError(self._sentence(what, fault)) from fault

    def _sentence(self, what: str, fault: Exception) -> str:
        return f"{self.place}: cannot {what}: {str(fault) or type(fault).__name__}"

    # --- for whoever writes a store: text in, text out, each one atomic --------------------------------------------------------------------------

    @abstractmethod
    async def _load(self, name: str) -> tuple[int, list[str | bytes]]:
        """
        Epoch and records of one moment; (0, []) for an unknown name.
        """

    @abstractmethod
    async def _commit(self, name: str, epoch: int, keep: int | None, request_id: str, record: str) -> Written:
        """
        If a record of this request id is there: that one. Else if the epoch is another: stale. Else drop what is behind `keep`, append, epoch + 1.
        """

    @abstractmethod
    async def _truncate(self, name: str, epoch: int, keep: int) -> Written:
        """
        If the epoch is another: stale. Else drop what is behind `keep`, epoch + 1.
        """

    @abstractmethod
    async def _supersede(self, name: str) -> int:
        """
        Epoch + 1.
        """

    @abstractmethod
    async def _branch(self, name: str, new: str, keep: int | None) -> bool:
        """
        Copy to a name that is not listed, its epoch + 1; False and nothing changed if it is.
        """

    @abstractmethod
    async def _names(self) -> list[str]:
        """
        The names that were committed or branched to and not deleted since.
        """

    @abstractmethod
    async def _delete(self, name: str) -> bool:
        """
        Drop all records, epoch + 1, unlisted; whether it was listed.
        """


def checked_count(keep: Any) -> int | None:
    """
    A number of turns to keep, itself; ConfigurationError for a negative one, and for what is no number.
    """
    if keep is None or (isinstance(keep, int) and not isinstance(keep, bool) and keep >= 0):
        return keep
    raise ConfigurationError(f"a conversation cannot keep {keep!r} turns")


def checked_word(what: str, word: Any) -> str:
    """
    A name that every store can keep, itself; ConfigurationError for one that is empty, no text, or not UTF-8.
    """
    if not isinstance(word, str) or not word or "\0" in word:
        raise ConfigurationError(f"a {what} is a text that is not empty, not {word!r}")
    try:
        word.encode()
    except UnicodeEncodeError:
        raise ConfigurationError(f"a {what} must be UTF-8, which {word!r} cannot be") from None
    return word
