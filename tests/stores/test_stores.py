"""
What every store promises, the same in memory, SQLite and Redis (contract H).
"""

from __future__ import annotations

import asyncio

import pytest

from rxchat.errors import ConfigurationError, StoreError, Verdict
from rxchat.stores import Commit, History, HistoryStore, SupersededError
from tests.stores.places import Another
from tests.stores.saying import said, turn


async def filled(store: HistoryStore, *ids: str, name: str = "talk") -> int:
    """
    A conversation of these turns; its epoch.
    """
    epoch = (await store.load(name)).epoch
    for request_id in ids:
        epoch = (await store.commit(name, turn(request_id), epoch=epoch)).epoch
    return epoch


async def test_a_name_never_used_is_empty(store: HistoryStore) -> None:
    """
    Epoch 0, no turns, and asking leaves no trace.
    """
    assert await store.load("nobody") == History(0, ())
    assert await store.names() == ()


async def test_turns_come_back_in_order_and_equal(place: tuple[HistoryStore, Another]) -> None:
    """
    What was committed is what is loaded, also by another who opens the same place.
    """
    store, another = place
    epoch = await filled(store, "a", "b")
    assert await another().load("talk") == History(epoch, (turn("a"), turn("b")))
    assert await another().names() == ("talk",)


async def test_a_commit_at_another_epoch_writes_nothing(store: HistoryStore) -> None:
    """
    Whoever began before the conversation moved on cannot write; the error says so and is a STORE verdict.
    """
    epoch = await filled(store, "a")
    before = await store.load("talk")
    for wrong in (epoch - 1, epoch + 1):
        with pytest.raises(SupersededError, match="moved on") as caught:
            await store.commit("talk", turn("late"), epoch=wrong)
        assert caught.value.verdict is Verdict.STORE
    assert await store.load("talk") == before


async def test_a_request_id_is_stored_once(store: HistoryStore) -> None:
    """
    The same id again, at whatever epoch and with whatever answer, reports the turn that is there and changes nothing.
    """
    first = await store.commit("talk", turn("a"), epoch=0)
    assert first == Commit(turn("a"), 1, fresh=True)
    for epoch in (0, 1, 7):
        assert await store.commit("talk", turn("a", answer="another"), epoch=epoch) == Commit(turn("a"), 1, fresh=False)
    assert await store.load("talk") == History(1, (turn("a"),))
    assert (await store.commit("elsewhere", turn("a"), epoch=0)).fresh is True


async def test_truncating_moves_the_epoch(store: HistoryStore) -> None:
    """
    The turns behind are gone, their request ids are free again, and what was under way cannot be written.
    """
    epoch = await filled(store, "a", "b", "c")
    after = await store.truncate("talk", 1, epoch=epoch)
    assert (after, said(await store.load("talk"))) == (epoch + 1, ["a"])
    with pytest.raises(SupersededError):
        await store.truncate("talk", 0, epoch=epoch)
    with pytest.raises(SupersededError):
        await store.commit("talk", turn("b"), epoch=epoch)
    assert (await store.commit("talk", turn("b"), epoch=after)).fresh is True
    assert await store.truncate("talk", 9, epoch=after + 1) == after + 2
    assert said(await store.load("talk")) == ["a", "b"]


async def test_a_turn_takes_the_place_of_others(store: HistoryStore) -> None:
    """
    `keep` drops and appends in one step: an edit, an answer asked for again.
    """
    epoch = await filled(store, "a", "b", "c")
    written = await store.commit("talk", turn("d"), epoch=epoch, keep=1)
    assert (written.epoch, said(await store.load("talk"))) == (epoch + 1, ["a", "d"])
    written = await store.commit("talk", turn("e"), epoch=epoch + 1, keep=5)
    assert said(await store.load("talk")) == ["a", "d", "e"]
    await store.commit("talk", turn("b"), epoch=written.epoch, keep=0)
    assert said(await store.load("talk")) == ["b"]


async def test_superseding_changes_nothing_but_the_epoch(store: HistoryStore) -> None:
    """
    Also of a name that has no turns yet, which stays unlisted.
    """
    epoch = await filled(store, "a")
    assert await store.supersede("talk") == epoch + 1
    assert await store.load("talk") == History(epoch + 1, (turn("a"),))
    assert await store.supersede("new") == 1
    assert await store.names() == ("talk",)
    with pytest.raises(SupersededError):
        await store.commit("new", turn("a"), epoch=0)


async def test_a_branch_is_a_copy(store: HistoryStore) -> None:
    """
    The first turns under a new name; then each goes its own way. A name in use is refused.
    """
    epoch = await filled(store, "a", "b")
    await store.branch("talk", "half", 1)
    await store.branch("talk", "whole")
    assert (said(await store.load("half")), said(await store.load("whole"))) == (["a"], ["a", "b"])
    half = await store.load("half")
    await store.commit("half", turn("c"), epoch=half.epoch)
    assert await store.load("talk") == History(epoch, (turn("a"), turn("b")))
    assert await store.names() == ("half", "talk", "whole")
    with pytest.raises(StoreError, match="in use"):
        await store.branch("talk", "half")
    assert said(await store.load("half")) == ["a", "c"]
    assert (await store.commit("half", turn("a"), epoch=0)).fresh is False
    await store.branch("nobody", "empty")
    assert said(await store.load("empty")) == []


async def test_a_deleted_name_takes_no_late_answer(store: HistoryStore) -> None:
    """
    It is gone and unlisted, may be used again, and what was under way before cannot bring it back; not even if it was never used.
    """
    epoch = await filled(store, "a")
    assert await store.delete("talk") is True
    assert (await store.names(), said(await store.load("talk"))) == ((), [])
    for late in (0, epoch):
        with pytest.raises(SupersededError):
            await store.commit("talk", turn("late"), epoch=late)
    assert await store.delete("talk") is False
    await filled(store, "a")
    assert (await store.names(), said(await store.load("talk"))) == (("talk",), ["a"])
    await store.delete("unborn")
    with pytest.raises(SupersededError):
        await store.commit("unborn", turn("late"), epoch=0)
    await store.branch("talk", "unborn")
    assert said(await store.load("unborn")) == ["a"]


async def test_of_many_who_commit_at_once_one_does(place: tuple[HistoryStore, Another]) -> None:
    """
    The check and the write are one step.
    """
    store, another = place
    others = [store, another(), another()]
    results = await asyncio.gather(
        *(others[n % 3].commit("talk", turn(f"r{n}"), epoch=0) for n in range(12)),
        return_exceptions=True,
    )
    fresh = [result.turn.request_id for result in results if isinstance(result, Commit)]
    assert (len(fresh), sum(isinstance(result, SupersededError) for result in results)) == (1, 11)
    assert said(await store.load("talk")) == fresh


async def test_of_many_who_commit_the_same_at_once_all_succeed(place: tuple[HistoryStore, Another]) -> None:
    """
    One stored it, the others report it.
    """
    store, another = place
    others = [store, another(), another()]
    results = await asyncio.gather(*(others[n % 3].commit("talk", turn("same"), epoch=0) for n in range(12)))
    assert sorted(result.fresh for result in results) == [False] * 11 + [True]
    assert [result for result in results if result.turn != turn("same")] == []
    assert said(await store.load("talk")) == ["same"]


@pytest.mark.parametrize("name", ["it's; DROP TABLE turn", "a*b?[c]\\", "{x}y", "Grüße 👋", " ", "a:b\nc", "%"])
async def test_any_text_is_a_name(store: HistoryStore, name: str) -> None:
    """
    As a name and as a request id, never mixed up with another.
    """
    await store.commit(name, turn(name), epoch=0)
    await store.commit(name + "2", turn("other"), epoch=0)
    assert said(await store.load(name)) == [name]
    assert await store.names() == tuple(sorted([name, name + "2"]))


@pytest.mark.parametrize("name", ["", "\udc00", "a\0b", 3])
async def test_what_is_no_name(store: HistoryStore, name: str) -> None:
    """
    Told at once, as a mistake of the caller's.
    """
    for work in (
        lambda: store.load(name),
        lambda: store.supersede(name),
        lambda: store.delete(name),
        lambda: store.branch("talk", name),
        lambda: store.commit("talk", turn("a") if name == "" else turn(name), epoch=0) if name else store.load(name),
    ):
        with pytest.raises(ConfigurationError, match=r"is a text that is not empty|must be UTF-8"):
            await work()


async def test_what_makes_no_sense(store: HistoryStore) -> None:
    """
    A negative number of turns, a branch to itself.
    """
    for work in (store.truncate("talk", -1, epoch=0), store.commit("talk", turn("a"), epoch=0, keep=-1), store.branch("talk", "b", -1)):
        with pytest.raises(ConfigurationError, match="cannot keep -1 turns"):
            await work
    with pytest.raises(ConfigurationError, match="name of its own"):
        await store.branch("talk", "talk")


async def test_a_long_conversation(store: HistoryStore) -> None:
    """
    Hundreds of turns are loaded, copied and dropped whole.
    """
    epoch = await filled(store, *(f"r{n}" for n in range(300)))
    await store.branch("talk", "copy")
    assert len((await store.load("copy")).turns) == 300
    await store.truncate("talk", 2, epoch=epoch)
    assert said(await store.load("talk")) == ["r0", "r1"]
    await store.delete("copy")
    assert await store.names() == ("talk",)
