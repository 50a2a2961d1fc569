"""
One turn of a chat, where it is hard to say what became of it.
"""

from __future__ import annotations

import asyncio
from typing import Any

import attrs
import pytest
import reactivex as rx
from reactivex import Observable

from rxchat.cli.chat_turn import TurnEnd, take_turn
from rxchat.cli.chat_view import PlainChat
from rxchat.conversation import Conversation
from rxchat.errors import StoreError, Verdict
from rxchat.events import Abort, ChatEvent, ResponseEnd, ResponseStart
from rxchat.response import ChatResponse, FinishReason, TextPart, Usage
from rxchat.stores import History, MemoryStore

USAGE = Usage(input_tokens=3)
WHOLE = ChatResponse(parts=(TextPart("Hello."),), finish_reason=FinishReason.STOP, verdict=Verdict.COMPLETE, usage=USAGE)


@attrs.frozen
class Says:
    """
    In the place of a model: these events, and no end behind them.
    """

    events: tuple[ChatEvent, ...]

    def stream(self, prompt: Any, **request: Any) -> Observable[ChatEvent]:
        """
        Cold.
        """
        return rx.concat(rx.of(*self.events), rx.never())


class SlowStore(MemoryStore):
    """
    Writes when it is allowed to; reads until it is broken.
    """

    def __init__(self) -> None:
        super().__init__()
        self.writing = asyncio.Event()
        self.go = asyncio.Event()
        self.broken = False

    async def load(self, name: str) -> History:
        if self.broken:
            raise StoreError("the disk is gone")
        return await super().load(name)

    async def commit(self, *args: Any, **kwargs: Any) -> Any:
        self.writing.set()
        await self.go.wait()
        return await super().commit(*args, **kwargs)


def taken(conversation: Conversation, *events: ChatEvent) -> asyncio.Task[TurnEnd]:
    """
    A turn under way.
    """
    return asyncio.create_task(take_turn(conversation, Says((ResponseStart("r"), *events)), "hello", PlainChat(), {}))


@pytest.mark.parametrize("broken, kept", [(False, True), (True, False)])
async def test_ctrl_c_while_the_turn_is_written(broken: bool, kept: bool) -> None:
    """
    It is written to its end, and then told as what it is: kept, if the store can say so.
    """
    store = SlowStore()
    conversation = Conversation(store)
    turn = taken(conversation, ResponseEnd(WHOLE))
    await store.writing.wait()
    store.broken = broken
    turn.cancel()
    await asyncio.sleep(0)
    store.go.set()
    end = await turn
    problem = "the answer was whole already, and the turn is kept" if kept else "cancelled while it may have been written: the disk is gone"
    assert (end.kept, end.code, end.problem) == (kept, 130, problem)
    store.broken = False
    assert len(await conversation.turns()) == 1


async def test_ctrl_c_before_the_answer_is_whole() -> None:
    """
    Nothing is kept.
    """
    conversation = Conversation()
    turn = taken(conversation)
    while conversation.preview is None:
        await asyncio.sleep(0)
    turn.cancel()
    end = await turn
    assert (end.kept, end.code, end.problem, await conversation.turns()) == (False, 130, "cancelled; nothing of this turn is kept", ())


async def test_the_provider_cancels() -> None:
    """
    Not an answer, and not our doing.
    """
    conversation = Conversation()

    class Cancels(Says):
        def stream(self, prompt: Any, **request: Any) -> Observable[ChatEvent]:
            return rx.of(*self.events)

    abort = Abort("busy", attrs.evolve(WHOLE, verdict=Verdict.ABORTED))
    end = await take_turn(conversation, Cancels((ResponseStart("r"), abort)), "hello", PlainChat(), {})
    assert end == TurnEnd(False, 4, "the provider cancelled the answer; nothing of this turn is kept", "/retry asks it again", usage=USAGE)
    assert await conversation.turns() == ()
