"""
`Conversation`: whole turns in a store, asked and committed one at a time (contract H).
"""

from __future__ import annotations

import asyncio
import time
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any, Protocol

from reactivex import Observable, abc

from rxchat.client.http_body import running_loop
from rxchat.conversation.asking import Asking, Steps
from rxchat.conversation.queueing import BusyError, Concurrency, Line
from rxchat.conversation.tickets import Ticket, TicketState
from rxchat.errors import CancelledStreamError, ConfigurationError, StoreError
from rxchat.events import ChatEvent
from rxchat.filters import Predicate, all_events, guarded
from rxchat.prompt import Message, Prompt, as_messages
from rxchat.response import ChatResponse, ServerToolPart, ToolCall, Usage
from rxchat.stores import Commit, History, HistoryStore, MemoryStore, Round, SupersededError, Turn, total_usage, unanswered
from rxchat.stores.base import checked_count, checked_word

__all__ = ["Conversation", "StreamsEvents"]


class StreamsEvents(Protocol):
    """
    Whatever can be asked: a ChatModel, a tool loop around one, or a fake.
    """

    def stream(self, prompt: Any, **request: Any) -> Observable[ChatEvent]:
        """
        The events of an answer, cold.
        """
        ...


def committable(response: ChatResponse) -> bool:
    """
    The policy by default (contract H, V9).
    """
    return response.committable


class Conversation:
    """
    The conversation `name` in `store` (in memory if none is given): only whole turns, each committed at once when its answer is.

    Any number of these, in any number of processes, may share a store and a name: what was overtaken by another cannot be committed. `concurrency` is what
    a turn does while another one of this object is under way: "reject" (BusyError), "queue" (wait), or "replace" (abort that one, and have the store refuse
    whatever is under way on this name elsewhere). `accept` decides which answers become history. `system` is put before every prompt and is not stored.
    """

    def __init__(
        self,
        store: HistoryStore | None = None,
        name: str = "default",
        *,
        concurrency: Concurrency = "reject",
        accept: Callable[[ChatResponse], bool] = committable,
        system: str | Message | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.store = store if store is not None else MemoryStore()
        self.name = checked_word("name", name)
        self._line = Line(concurrency)
        self._accept = accept
        self._system = () if system is None else (Message.system(system) if isinstance(system, str) else system,)
        self._clock = clock
        self._pending: tuple[Ticket, tuple[Round, ...]] | None = None
        self._unsaved: tuple[Ticket, Turn] | None = None
        self._commits: set[asyncio.Task[Turn]] = set()

    def __repr__(self) -> str:
        return f"<Conversation {self.name!r} in {self.store.place}>"

    # --- asking --------------------------------------------------------------------------------------------------------------------------------------

    def ask(
        self,
        model: StreamsEvents,
        prompt: Prompt,
        *,
        request_id: str | None = None,
        keep: int | None = None,
        event_filter: Predicate | None = None,
        **request: Any,
    ) -> Observable[ChatEvent]:
        """
        The events of the answer to `prompt` in this conversation; cold: each subscription is a turn of its own.

        A whole answer is committed first, then its ResponseEnd is delivered; a store that fails is an ErrorEvent of verdict STORE and on_error instead, the
        answer on both (`save` tries again). Anything else leaves the history as it is. An answer that calls tools of the client is delivered and waits:
        `pending`, `answer`.

        A `request_id` that is stored already is not asked again: its answer comes as it is stored. `keep` answers in place of the turns behind the first
        so many: an edit, or another try. `request` goes to the model's `stream`.
        """
        shown = None if event_filter is None else guarded(event_filter)

        def enter() -> Ticket:
            return self._enter(Ticket(request_id or _new_id(), as_messages(prompt), self._clock(), checked_count(keep)))

        return self._asked(model, enter, self._open, shown, request)

    def answer(self, model: StreamsEvents, results: Prompt, *, event_filter: Predicate | None = None, **request: Any) -> Observable[ChatEvent]:
        """
        The events of what the model says to the results of its calls (`Message.tool(call, result)`), all of them; cold.

        The turn is committed with the answer that ends it: question, calls, results and answer at once. One that fails leaves the turn pending.
        """
        shown = None if event_filter is None else guarded(event_filter)

        def enter() -> Ticket:
            ticket = self._continued(as_messages(results))
            self._line.enter(ticket)
            return ticket

        async def resume(ticket: Ticket) -> None:
            await self._line.turn_of(ticket)
            ticket.state = TicketState.RUNNING

        return self._asked(model, enter, resume, shown, request)

    @property
    def pending(self) -> tuple[ToolCall | ServerToolPart, ...]:
        """
        The calls that wait for their results; their turn is not history yet, and is gone with this object.
        """
        return unanswered(self._pending[1]) if self._pending else ()

    @property
    def preview(self) -> ChatResponse | None:
        """
        The answer under way as far as it has come, None if there is none; never stored.
        """
        return self._line.first.preview if self._line.first else None

    def abort(self, reason: str = "aborted") -> bool:
        """
        End what is under way and forget what is pending: its subscribers see Abort with what had arrived, nothing is stored. False if there is nothing.

        What is being written already is written.
        """
        pending, self._pending = self._pending, None
        return self._line.abort(reason) or pending is not None

    # --- step by step --------------------------------------------------------------------------------------------------------------------------------

    async def begin(self, prompt: Prompt, *, request_id: str | None = None, keep: int | None = None) -> Ticket:
        """
        A ticket for one turn, for who asks by other means: send `ticket.prompt`, then `commit` or `roll_back`.

        BusyError as the policy says. A request id that is stored already comes as a ticket whose `turn` is set.
        """
        ticket = self._enter(Ticket(request_id or _new_id(), as_messages(prompt), self._clock(), checked_count(keep)))
        await self._open(ticket)
        return ticket

    async def commit(self, ticket: Ticket, response: ChatResponse) -> Turn:
        """
        Make it history; what is stored. A second time changes nothing.

        ConfigurationError for an answer that the policy refuses or that has unanswered calls; SupersededError if the ticket was rolled back or overtaken,
        StoreError if the store failed: then it may be tried again. Cancelled in the middle, it still ends, and committing again tells how.
        """
        if not self._accept(response):
            raise ConfigurationError(f"an answer that is {response.verdict or 'not ended'} and not accepted by the policy does not become history")
        turn = ticket.as_turn(response)
        if waiting := unanswered(turn.rounds):
            raise ConfigurationError(f"calls without results do not become history: {_ids(waiting)}")
        return await self._commit(ticket, turn)

    def roll_back(self, ticket: Ticket) -> bool:
        """
        Give a ticket back; False if it is too late for that.
        """
        return ticket.roll_back()

    async def save(self) -> Turn | None:
        """
        Commit again the last turn that the store failed at; None if there is none.
        """
        return await self._commit(*self._unsaved) if self._unsaved else None

    async def settled(self) -> None:
        """
        Wait for commits that go on although whoever began them has left.
        """
        while self._commits:
            await asyncio.wait(self._commits)

    # --- history -------------------------------------------------------------------------------------------------------------------------------------

    async def history(self) -> History:
        """
        Epoch and turns, as they are in the store now.
        """
        return await self.store.load(self.name)

    async def turns(self) -> tuple[Turn, ...]:
        """
        All whole turns, in order.
        """
        return (await self.history()).turns

    async def messages(self) -> tuple[Message, ...]:
        """
        The history as a prompt.
        """
        return _messages(await self.turns())

    async def usage(self) -> Usage | None:
        """
        The usage of all turns; None if no provider reported any.
        """
        return total_usage(item.response for turn in await self.turns() for item in turn.rounds)

    async def undo(self, turns: int = 1) -> tuple[Turn, ...]:
        """
        Drop the last turns, which are returned. What is under way counts as another turn: the policy decides.
        """
        if turns < 1:
            raise ConfigurationError(f"at least one turn is undone, not {turns}")
        async with self._alone():
            history = await self.history()
            return await self._truncated(history, max(0, len(history.turns) - turns))

    async def truncate(self, keep: int) -> tuple[Turn, ...]:
        """
        Drop the turns behind the first `keep`, which are returned.
        """
        checked_count(keep)
        async with self._alone():
            return await self._truncated(await self.history(), keep)

    async def branch(self, name: str, keep: int | None = None) -> Conversation:
        """
        A conversation that begins with a copy of the first `keep` turns (all by default), under a name that is free.
        """
        await self.store.branch(self.name, name, keep)
        system = self._system[0] if self._system else None
        return Conversation(self.store, name, concurrency=self._line.concurrency, accept=self._accept, system=system, clock=self._clock)

    async def delete(self) -> bool:
        """
        Remove it from the store; whether there was one.
        """
        async with self._alone():
            return await self.store.delete(self.name)

    # --- inside --------------------------------------------------------------------------------------------------------------------------------------

    def _asked(
        self,
        model: StreamsEvents,
        enter: Callable[[], Ticket],
        opened: Callable[[Ticket], Awaitable[None]],
        shown: Predicate | None,
        request: dict[str, Any],
    ) -> Observable[ChatEvent]:
        # The preview is to see what the subscriber does not want to.
        wanted = request if shown is None else {**request, "event_filter": all_events()}
        steps = Steps(opened, lambda prompt: model.stream(prompt, **wanted), self._settle, shown or all_events())

        def subscribe(observer: abc.ObserverBase[ChatEvent], scheduler: abc.SchedulerBase | None = None) -> abc.DisposableBase:
            running_loop()
            return Asking(enter(), steps, observer, scheduler).connect()

        return Observable(subscribe)

    def _enter(self, ticket: Ticket) -> Ticket:
        checked_word("request id", ticket.request_id)
        if self._pending is not None:
            if self._line.concurrency != "replace":
                raise BusyError(f"a turn of this conversation waits for the results of its calls ({_ids(self.pending)}): answer it, or abort it")
            self._pending = None
        self._line.enter(ticket)
        return ticket

    async def _open(self, ticket: Ticket) -> None:
        try:
            await self._line.turn_of(ticket)
            if self._line.concurrency == "replace":
                await self.store.supersede(self.name)
            history = await self.store.load(self.name)
        except BaseException:
            ticket.roll_back()
            raise
        if not ticket.under_way:
            raise CancelledStreamError("this turn was rolled back before it began")
        ticket.open(history, (*self._system, *_messages(history.turns[: ticket.keep])))

    def _continued(self, results: tuple[Message, ...]) -> Ticket:
        if self._pending is None:
            raise ConfigurationError("no turn of this conversation waits for results")
        ticket, rounds = self._pending
        if waiting := unanswered((*rounds, Round(results, ChatResponse()))):
            raise ConfigurationError(f"the calls {_ids(waiting)} have no result")
        return Ticket(ticket.request_id, results, ticket.time, ticket.keep, rounds, ticket.before, ticket.epoch)

    def _settle(self, ticket: Ticket, response: ChatResponse) -> Callable[[], Awaitable[Turn]] | None:
        turn = ticket.as_turn(response)
        if self._accept(response) and not unanswered(turn.rounds):
            return lambda: self._commit(ticket, turn)
        if self._accept(response):
            self._pending = (ticket, turn.rounds)
        ticket.roll_back()
        return None

    async def _commit(self, ticket: Ticket, turn: Turn) -> Turn:
        if ticket.state is TicketState.COMMITTING:
            await ticket.ended()
        if ticket.turn is not None:
            return ticket.turn
        if ticket.state not in (TicketState.RUNNING, TicketState.FAILED):
            raise SupersededError(f"{self.store.place}: this turn of {self.name!r} was rolled back")
        ticket.state = TicketState.COMMITTING
        task = asyncio.get_running_loop().create_task(self._written(ticket, turn), name="rxchat store")
        self._commits.add(task)
        task.add_done_callback(self._commits.discard)
        # Whoever waits may leave; the ticket is to know what became of it.
        return await asyncio.shield(task)

    async def _written(self, ticket: Ticket, turn: Turn) -> Turn:
        try:
            done = await self._stored(ticket, turn)
        except SupersededError:
            self._forget(ticket)
            ticket.end(TicketState.ROLLED_BACK)
            raise
        except BaseException:
            self._unsaved = (ticket, turn)
            ticket.end(TicketState.FAILED)
            raise
        self._forget(ticket)
        ticket.end(TicketState.COMMITTED, done.turn)
        return done.turn

    async def _stored(self, ticket: Ticket, turn: Turn) -> Commit:
        try:
            return await self.store.commit(self.name, turn, epoch=ticket.epoch, keep=ticket.keep)
        except StoreError:
            raise
        except Exception as fault:
            raise StoreError(f"{self.store.place}: cannot commit to {self.name!r}: {str(fault) or type(fault).__name__}") from fault

    def _forget(self, ticket: Ticket) -> None:
        """
        What is settled needs neither results nor another try.
        """
        if self._pending is not None and self._pending[0].request_id == ticket.request_id:
            self._pending = None
        if self._unsaved is not None and self._unsaved[0] is ticket:
            self._unsaved = None

    async def _truncated(self, history: History, keep: int) -> tuple[Turn, ...]:
        await self.store.truncate(self.name, keep, epoch=history.epoch)
        return history.turns[keep:]

    @asynccontextmanager
    async def _alone(self) -> AsyncIterator[None]:
        """
        A place in the line for a change that is no turn.
        """
        ticket = self._enter(Ticket(_new_id(), (), 0.0))
        try:
            await self._line.turn_of(ticket)
            yield
        finally:
            ticket.roll_back()


def _messages(turns: Sequence[Turn]) -> tuple[Message, ...]:
    return tuple(message for turn in turns for message in turn.messages)


def _new_id() -> str:
    """
    A request id that nobody else has.
    """
    return f"rxq-{uuid.uuid4().hex}"


def _ids(calls: Sequence[ToolCall | ServerToolPart]) -> str:
    return ", ".join(call.id or call.name or "?" for call in calls)
