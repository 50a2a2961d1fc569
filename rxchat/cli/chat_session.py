"""
A chat: messages become turns, orders are carried out, in the order they come.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from typing import Any

import attrs

from rxchat.cli.chat_lines import Order
from rxchat.cli.chat_loop import LoopBehind
from rxchat.cli.chat_overview import counted, print_overview, summaries, turn_lines, usage_words
from rxchat.cli.chat_tools import Approval
from rxchat.cli.chat_turn import take_turn
from rxchat.cli.chat_view import ChatView, HeldView, PlainChat
from rxchat.cli.outcome import exit_code
from rxchat.cli.screen import console, printable
from rxchat.client import ChatModel
from rxchat.conversation import Conversation
from rxchat.errors import ConfigurationError, RxchatError
from rxchat.response import Usage

__all__ = ["Leave", "Session"]

WRONG = 2


class Leave(Exception):
    """
    The chat is over.
    """


@attrs.define(eq=False)
class Session:
    """
    One conversation at a time with one model. `advising`: somebody reads what may be done about a problem, and can do it.
    """

    conversation: Conversation
    model: ChatModel
    loop: LoopBehind
    request: Mapping[str, Any] = attrs.field(factory=dict)
    approval: Approval | None = None
    thinking: bool = False
    advising: bool = True
    _unkept: str | None = attrs.field(default=None, init=False)
    _spent: list[Usage] = attrs.field(factory=list, init=False)

    def take(self, item: str | Order) -> int:
        """
        Carry out one item; its exit code. Leave when the chat is over. What goes wrong has been said.
        """
        if isinstance(item, str):
            return self._say(item) if item.strip() else 0
        order = ORDERS.get(item.word)
        if order is None:
            problem(f"{item.word} is no command and was not sent: /help lists them, and a message that begins with a slash begins with two")
            return WRONG
        try:
            return order.work(self, item.rest)
        except RxchatError as error:
            problem(str(error))
            return exit_code(error.verdict) if error.verdict else WRONG

    # --- messages --------------------------------------------------------------------------------------------------------------------------------

    def _say(self, question: str) -> int:
        view = HeldView(ChatView(self.thinking) if sys.stdout.isatty() else PlainChat())
        if self.approval is not None:
            self.approval.view = view
        self._unkept = question
        end = self.loop.run(take_turn(self.conversation, self.model, question, view, self.request))
        if end.usage is not None:
            self._spent.append(end.usage)
        if end.kept:
            self._unkept = None
        if end.problem:
            problem(f"{end.problem} ({end.advice})" if self.advising else end.problem)
        return end.code

    # --- orders ----------------------------------------------------------------------------------------------------------------------------------

    def _undo(self, rest: str) -> int:
        count = _number(rest, 1)
        gone = self.loop.run(self.conversation.undo(count))
        left = len(self.loop.run(self.conversation.turns()))
        note(f"undone: {len(gone)} of {counted(len(gone) + left, 'turn')}" if gone else "there is nothing to undo")
        return 0

    def _branch(self, name: str) -> int:
        if not name:
            raise ConfigurationError("say the name of the branch: /branch NAME")
        old = self.conversation.name
        self.conversation = self.loop.run(self.conversation.branch(name))
        note(f"now in {name!r}, a copy; {old!r} stays as it is")
        return 0

    def _usage(self, rest: str) -> int:
        turns = len(self.loop.run(self.conversation.turns()))
        show(f"{self.conversation.name}, {counted(turns, 'turn')} kept: {usage_words(self.loop.run(self.conversation.usage()))}")
        total = None
        for usage in self._spent:
            total = usage if total is None else total.add(usage)
        show(f"since this start, kept or not: {usage_words(total)}")
        return 0

    def _history(self, rest: str) -> int:
        turns = self.loop.run(self.conversation.turns())
        first = len(turns) - _number(rest, len(turns) or 1)
        for number, turn in enumerate(turns, 1):
            if number > first:
                show("\n".join(turn_lines(number, turn)))
        return 0

    def _list(self, rest: str) -> int:
        print_overview(self.loop.run(summaries(self.conversation.store)))
        return 0

    def _retry(self, rest: str) -> int:
        if self._unkept is None:
            raise ConfigurationError("there is nothing to ask again: the last turn is kept (/undo takes it back)")
        return self._say(self._unkept)

    def _save(self, rest: str) -> int:
        saved = self.loop.run(self.conversation.save())
        if saved is None:
            raise ConfigurationError("there is no answer that could not be stored")
        self._unkept = None
        note("stored")
        return 0

    def _help(self, rest: str) -> int:
        width = max(len(order.usage) for order in ORDERS.values())
        show("\n".join([*(f"{order.usage:<{width}}  {order.doc}" for order in ORDERS.values()), *HELP]))
        return 0

    def _quit(self, rest: str) -> int:
        raise Leave


@attrs.frozen
class Ordered:
    """
    What can be ordered: how it is written, what it does.
    """

    usage: str
    doc: str
    work: Callable[[Session, str], int]


ORDERS: Mapping[str, Ordered] = {
    "/undo": Ordered("/undo [N]", "take back the last turn, or the last N", Session._undo),
    "/retry": Ordered("/retry", "ask again what was not kept", Session._retry),
    "/branch": Ordered("/branch NAME", "go on in a copy of this conversation", Session._branch),
    "/history": Ordered("/history [N]", "show the turns that are kept, or the last N", Session._history),
    "/usage": Ordered("/usage", "show the tokens that were used", Session._usage),
    "/list": Ordered("/list", "show all conversations", Session._list),
    "/save": Ordered("/save", "try again to store an answer that could not be stored", Session._save),
    "/help": Ordered("/help", "show this", Session._help),
    "/quit": Ordered("/quit", "leave; so do Ctrl-D, and Ctrl-C twice at an empty prompt", Session._quit),
}
HELP = (
    "",
    'A line that ends in \\ goes on in the next one; so does a text between two """. A message that begins with a slash is written with two.',
    "Ctrl-C while an answer comes cancels the turn: nothing of it is kept.",
)


def _number(text: str, default: int) -> int:
    if not text:
        return default
    if not (text.isascii() and text.isdigit()) or int(text) < 1:
        raise ConfigurationError(f"{text!r} is no number of turns")
    return int(text)


def problem(text: str) -> None:
    """
    What went wrong, on standard error; on a terminal in place of the ^C that may stand there.
    """
    print(f"{chr(13) if sys.stderr.isatty() else ''}rxchat: {printable(' '.join(text.split()))}", file=sys.stderr)


def note(text: str) -> None:
    """
    What was done, where it does not mix with answers.
    """
    console(stderr=True).print(printable(text), style="dim", soft_wrap=True)


def show(text: str) -> None:
    """
    What was asked for.
    """
    console().print(printable(text), soft_wrap=True)
