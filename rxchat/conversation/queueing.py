"""
Who may run: one turn of a conversation at a time, and what happens to a second one.
"""

from __future__ import annotations

from typing import Literal, TypeAlias, get_args

from rxchat.conversation.tickets import Ticket
from rxchat.errors import CancelledStreamError, ConfigurationError

__all__ = ["BusyError", "Concurrency", "Line"]

Concurrency: TypeAlias = Literal["reject", "queue", "replace"]


class BusyError(ConfigurationError):
    """
    A turn of this conversation is under way; nothing was sent.
    """


class Line:
    """
    The tickets under way, in order: the first one runs, the others wait for it.
    """

    def __init__(self, concurrency: Concurrency) -> None:
        if concurrency not in get_args(Concurrency):
            raise ConfigurationError(f"concurrency is one of {', '.join(get_args(Concurrency))}, not {concurrency!r}")
        self.concurrency: Concurrency = concurrency
        self._tickets: list[Ticket] = []

    @property
    def first(self) -> Ticket | None:
        """
        The one that runs.
        """
        return self._tickets[0] if self._tickets else None

    def enter(self, ticket: Ticket) -> None:
        """
        Take a place, as the policy says; BusyError if there is none.

        One that is only being written still, and whose subscriber has left, is waited for under every policy.
        """
        if self.concurrency == "reject" and any(not other.abandoned for other in self._tickets):
            raise BusyError(
                "a turn of this conversation is under way: wait for its end, use share_events for several subscribers of one turn, "
                'or make the conversation with concurrency="queue" or "replace"'
            )
        if self.concurrency == "replace":
            self.abort("replaced by another turn")
        self._tickets.append(ticket)
        ticket.on_end = self._tickets.remove

    def abort(self, reason: str) -> bool:
        """
        Roll back all that can be; whether there was one.
        """
        # Who hears of it may ask again at once.
        rolled_back = [ticket.roll_back(reason) for ticket in tuple(self._tickets)]
        return any(rolled_back)

    async def turn_of(self, ticket: Ticket) -> None:
        """
        Wait until a ticket is the first; CancelledStreamError if it was rolled back before.
        """
        while ticket.under_way and self._tickets[0] is not ticket:
            await self._tickets[0].ended()
        if not ticket.under_way:
            raise CancelledStreamError("this turn was rolled back before it began")
