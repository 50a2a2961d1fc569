"""
One subscription of an ask: it begins its turn, passes the events on, and commits between the model's ResponseEnd and its delivery (contract H).
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import attrs
from reactivex import Observable, abc
from reactivex.disposable import Disposable, SingleAssignmentDisposable

from rxchat.client.http_body import running_loop
from rxchat.conversation.tickets import Ticket
from rxchat.errors import StoreError
from rxchat.events import Abort, ChatEvent, ErrorEvent, ResponseEnd, ResponseStart
from rxchat.filters import Predicate
from rxchat.operators import give_back, tell
from rxchat.pipeline import new_response_id
from rxchat.prompt import Message
from rxchat.response import ChatResponse
from rxchat.stores import Turn

__all__ = ["Asking", "Steps"]


@attrs.frozen
class Steps:
    """
    What an asking needs others for.

    `open` waits for the ticket's turn and loads the history; `ask` makes the request; `settle` says what a whole answer comes to: what commits it, or None if
    it does not become history (now).
    """

    open: Callable[[Ticket], Awaitable[None]]
    ask: Callable[[tuple[Message, ...]], Observable[ChatEvent]]
    settle: Callable[[Ticket, ChatResponse], Callable[[], Awaitable[Turn]] | None]
    shown: Predicate


class Asking:
    """
    One subscription.
    """

    def __init__(self, ticket: Ticket, steps: Steps, observer: Any, scheduler: abc.SchedulerBase | None) -> None:
        self._ticket = ticket
        self._steps = steps
        self._observer = observer
        self._scheduler = scheduler
        self._upstream = SingleAssignmentDisposable()
        self._begin: asyncio.Task[None] | None = None
        self._save: asyncio.Task[None] | None = None
        self._started = False
        self._held = False
        self._over = False

    def connect(self) -> abc.DisposableBase:
        """
        Begin; what is returned leaves.
        """
        self._ticket.on_abort = self._aborted
        self._begin = running_loop().create_task(self._beginning(), name="rxchat turn")
        return Disposable(self._leave)

    async def _beginning(self) -> None:
        """
        Until there is a request, a failure is a bare error (contract E7).
        """
        try:
            await self._steps.open(self._ticket)
            source = self._retold() if self._ticket.turn else self._steps.ask(self._ticket.prompt)
        except Exception as error:
            self._failed(error)
        except BaseException:
            self._leave()
            raise
        else:
            if not self._over:
                self._upstream.disposable = source.subscribe(self._on_next, self._on_error, self._on_completed, scheduler=self._scheduler)

    def _retold(self) -> Observable[ChatEvent]:
        """
        This request was answered and stored before: its answer again, without asking anybody.
        """
        assert self._ticket.turn is not None
        response = self._ticket.turn.response

        def subscribe(observer: abc.ObserverBase[ChatEvent], scheduler: abc.SchedulerBase | None = None) -> abc.DisposableBase:
            observer.on_next(ResponseStart(response.response_id or new_response_id()))
            observer.on_next(ResponseEnd(response))
            observer.on_completed()
            return Disposable()

        return Observable(subscribe)

    # --- what the model says -----------------------------------------------------------------------------------------------------------------------

    def _on_next(self, event: ChatEvent) -> None:
        if self._over or self._held:
            return
        if isinstance(event, ResponseEnd):
            self._answered(event)
            return
        if event.terminal:
            self._ticket.roll_back()
        else:
            # Not the end: until the commit begins, an abort may still take its place.
            self._ticket.observe(event)
        self._push(event)

    def _on_error(self, error: Exception) -> None:
        if not self._held:
            self._failed(error)

    def _on_completed(self) -> None:
        if not self._over and not self._held:
            self._over = True
            self._ticket.roll_back()
            self._observer.on_completed()

    # --- how it ends -------------------------------------------------------------------------------------------------------------------------------

    def _answered(self, end: ResponseEnd) -> None:
        """
        Hold the end back until it is known whether the turn is history. A policy that raises ends the turn by its own error.
        """
        self._held = True
        try:
            commit = None if self._ticket.turn else self._steps.settle(self._ticket, end.response)
        except Exception as error:
            self._failed(error)
            return
        if commit is None:
            self._finish(end)
        else:
            self._save = running_loop().create_task(self._saving(end, commit), name="rxchat commit")

    async def _saving(self, end: ResponseEnd, commit: Callable[[], Awaitable[Turn]]) -> None:
        """
        The end tells what is stored: where somebody else was faster with the same request id, that answer.
        """
        try:
            turn = await commit()
        except StoreError as error:
            answer = attrs.evolve(end.response, verdict=error.verdict)
            error.response = answer
            self._push(ErrorEvent(error, answer, answer.usage))
            self._failed(error)
        else:
            self._finish(end if turn.response is end.response else attrs.evolve(end, response=turn.response))

    def _finish(self, end: ResponseEnd) -> None:
        self._push(end)
        self._complete()

    def _complete(self) -> None:
        if not self._over:
            self._over = True
            self._upstream.dispose()
            self._observer.on_completed()

    def _failed(self, error: Exception) -> None:
        if not self._over:
            self._over = True
            self._ticket.roll_back()
            self._upstream.dispose()
            tell(self._observer, error)

    def _push(self, event: ChatEvent) -> None:
        """
        A subscriber that raises ends its turn, and hears of it itself (contract E14).
        """
        self._started = True
        if self._over or not self._steps.shown(event):
            return
        try:
            self._observer.on_next(event)
        except BaseException as error:
            self._leave()
            give_back(self._observer, error)

    def _aborted(self, reason: str) -> None:
        """
        Somebody else rolled the ticket back: end it as Call.abort does (contract D7).
        """
        self._end_request()
        if not self._started:
            self._push(ResponseStart(new_response_id()))
        for event in self._ticket.close(Abort(reason)):
            self._push(event)
        self._complete()

    def _leave(self) -> None:
        """
        Not one more event (contract E8). A commit that has begun goes on to its end, without anybody.
        """
        if not self._over:
            self._over = True
            self._ticket.abandoned = not self._ticket.roll_back()
            self._end_request()

    def _end_request(self) -> None:
        self._upstream.dispose()
        if self._begin is not None and not self._begin.done():
            self._begin.cancel()
