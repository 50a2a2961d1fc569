"""
A ticket: the right to commit one turn, and what is known of it while it runs.

    WAITING -> RUNNING -> COMMITTING -> COMMITTED
        |         |           |`-> FAILED -> COMMITTING again, if somebody wants to
        `---------`-----------`-> ROLLED_BACK

It is given once, at one epoch of the conversation, and is worth nothing once it was rolled back: a late answer cannot write (contract H). While the store
writes it cannot be taken back any more; what it came to is known when it has ended.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from enum import StrEnum
from typing import TYPE_CHECKING

import attrs

from rxchat.aggregator import Aggregator
from rxchat.events import Abort, ChatEvent
from rxchat.normalizer import Normalizer
from rxchat.prompt import Message
from rxchat.response import ChatResponse
from rxchat.stage import Chain
from rxchat.stores import History, Round, Turn

if TYPE_CHECKING:
    from rxchat.stage import Emit

__all__ = ["PartialAnswer", "Ticket", "TicketState"]


class TicketState(StrEnum):
    """
    Where a turn stands.
    """

    WAITING = "waiting"
    RUNNING = "running"
    COMMITTING = "committing"
    COMMITTED = "committed"
    FAILED = "failed"
    ROLLED_BACK = "rolled back"


_UNDER_WAY = frozenset({TicketState.WAITING, TicketState.RUNNING, TicketState.COMMITTING})


class PartialAnswer:
    """
    The partial answer, folded when somebody looks: it is shown and never stored.
    """

    def __init__(self) -> None:
        self._unread: list[ChatEvent] = []
        self._aggregator = Aggregator()
        self._fold: Chain[ChatEvent, ChatEvent] = Chain(Normalizer(), self._aggregator)
        self.observe = self._unread.append

    @property
    def response(self) -> ChatResponse:
        """
        As far as it has come.
        """
        self._read(_nowhere)
        return self._aggregator.response

    def close(self, terminal: Abort) -> list[ChatEvent]:
        """
        What has to follow: the ENDs of all that is open, then the terminal with the answer in it (contract D7).
        """
        self._read(_nowhere)
        closing: list[ChatEvent] = []
        self._fold.feed(terminal, closing.append)
        return closing

    def _read(self, emit: Emit[ChatEvent]) -> None:
        for event in self._unread:
            self._fold.feed(event, emit)
        self._unread.clear()


def _nowhere(event: ChatEvent) -> None:
    """
    The fold alone is wanted.
    """


@attrs.define(eq=False)
class Ticket:
    """
    One turn under way. `asked` is what is said to the model now; `rounds` are those that went before in the same turn; `keep` as in `Conversation.ask`.

    `prompt` is everything to send: the conversation, the rounds, what is asked. `turn` is what is stored, once it is.
    """

    request_id: str
    asked: tuple[Message, ...]
    time: float
    keep: int | None = None
    rounds: tuple[Round, ...] = ()
    before: tuple[Message, ...] = ()
    epoch: int = 0
    turn: Turn | None = None
    state: TicketState = TicketState.WAITING
    abandoned: bool = False
    on_abort: Callable[[str], None] | None = attrs.field(default=None, repr=False)
    on_end: Callable[[Ticket], None] | None = attrs.field(default=None, repr=False)
    _preview: PartialAnswer = attrs.field(factory=PartialAnswer, init=False, repr=False)
    _ended: asyncio.Event = attrs.field(factory=asyncio.Event, init=False, repr=False)

    @property
    def under_way(self) -> bool:
        """
        Whether it waits, runs, or is being written.
        """
        return self.state in _UNDER_WAY

    @property
    def prompt(self) -> tuple[Message, ...]:
        """
        All messages to send, the history first.
        """
        return (*self.before, *Turn(self.request_id, self.rounds).messages, *self.asked)

    @property
    def preview(self) -> ChatResponse:
        """
        The answer as far as it has been observed.
        """
        return self._preview.response

    def observe(self, event: ChatEvent) -> None:
        """
        Let an event be part of the preview.
        """
        self._preview.observe(event)

    def close(self, terminal: Abort) -> list[ChatEvent]:
        """
        The events that end what was observed.
        """
        return self._preview.close(terminal)

    def as_turn(self, response: ChatResponse) -> Turn:
        """
        The turn this would be with that answer.
        """
        return Turn(self.request_id, (*self.rounds, Round(self.asked, response)), self.time)

    def open(self, history: History, before: tuple[Message, ...]) -> None:
        """
        It runs, at the epoch of this history; or it was stored already.
        """
        self.epoch, self.before = history.epoch, before
        stored = next((turn for turn in history.turns if turn.request_id == self.request_id), None)
        if stored is None:
            self.state = TicketState.RUNNING
        else:
            self.end(TicketState.COMMITTED, stored)

    def roll_back(self, reason: str | None = None) -> bool:
        """
        Give it back: nothing of it is stored. False if it is too late for that. With a reason, whoever follows it hears of it.
        """
        if self.state not in (TicketState.WAITING, TicketState.RUNNING):
            return self.state in (TicketState.ROLLED_BACK, TicketState.FAILED)
        self.end(TicketState.ROLLED_BACK)
        if reason is not None and self.on_abort is not None:
            self.on_abort(reason)
        return True

    def end(self, state: TicketState, turn: Turn | None = None) -> None:
        """
        It is over, in this way.
        """
        self.state, self.turn = state, turn
        self._ended.set()
        left, self.on_end = self.on_end, None
        if left is not None:
            left(self)

    async def ended(self) -> None:
        """
        Wait until it is over, in whichever way.
        """
        await self._ended.wait()
