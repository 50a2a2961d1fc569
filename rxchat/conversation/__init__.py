"""
Conversations: whole turns in a store; a preview is shown, only a whole answer becomes history.
"""

from rxchat.conversation.queueing import BusyError, Concurrency
from rxchat.conversation.talk import Conversation, StreamsEvents
from rxchat.conversation.tickets import Ticket, TicketState

__all__ = ["BusyError", "Concurrency", "Conversation", "StreamsEvents", "Ticket", "TicketState"]
