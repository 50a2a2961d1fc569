"""
One turn of a chat: asked, shown, and told apart: kept, or not and why.
"""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Mapping
from typing import Any

import attrs
from reactivex import Observable

from rxchat.cli.live import Stopwatch, View
from rxchat.cli.outcome import exit_code
from rxchat.cli.sentences import finish_sentence, in_flags, sentence
from rxchat.conversation import Conversation, StreamsEvents
from rxchat.errors import RxchatError, StoreError, Verdict
from rxchat.events import ChatEvent
from rxchat.response import ChatResponse, FinishReason, Usage
from rxchat.stores import SupersededError

__all__ = ["TurnEnd", "take_turn"]


@attrs.frozen
class TurnEnd:
    """
    What a turn came to. `problem` is a sentence, None if there is nothing to say; `advice` is what may be done about it.
    """

    kept: bool
    code: int = 0
    problem: str | None = None
    advice: str = ""
    usage: Usage | None = None


RETRY = "/retry asks it again"
FINISH_ADVICE = {
    FinishReason.LENGTH: f"--max-tokens moves the limit, {RETRY}",
    FinishReason.CONTENT_FILTER: "ask it in other words",
    FinishReason.REFUSAL: "ask it in other words",
    FinishReason.TOOL_CALLS: f"--max-steps allows more, {RETRY}",
}
STATUS_ADVICE = {
    400: "if the conversation has grown too long, /undo shortens it and /branch keeps a copy",
    401: "set the right key and start again",
    403: "set the right key and start again",
    404: "look at --model and --base-url, and start again",
    413: "the conversation has grown too long: /undo shortens it, /branch keeps a copy",
    429: f"wait a while, then {RETRY}",
}
ERROR_ADVICE = {
    Verdict.CONTENT_TYPE: "look at --base-url, and start again",
    Verdict.CONNECT: f"when the server can be reached, {RETRY}",
    Verdict.FIRST_EVENT_TIMEOUT: f"--timeout sets the time, {RETRY}",
    Verdict.READ_TIMEOUT: f"--timeout sets the time, {RETRY}",
}


async def take_turn(conversation: Conversation, model: StreamsEvents, question: str, view: View, request: Mapping[str, Any]) -> TurnEnd:
    """
    Ask and show to the end. Cancelling this ends the request and leaves the history as it was, unless the answer was being written already.
    """
    request_id = f"rxq-{uuid.uuid4().hex}"
    stopwatch = Stopwatch()
    seen = _Seen()

    def show(event: ChatEvent) -> None:
        stopwatch.note(event)
        seen.note(event)
        view.show(event)

    try:
        await _watch(conversation.ask(model, question, request_id=request_id, **request), show, lambda: seen.before(conversation))
        end = _answered(conversation, seen.response)
    except asyncio.CancelledError:
        end = await _cancelled(conversation, request_id)
    except RxchatError as error:
        end = _failed(error)
    view.close(seen.response, stopwatch)
    return attrs.evolve(end, usage=seen.response.usage)


@attrs.define
class _Seen:
    """
    The answer: of the terminal event, or as far as it had come.
    """

    response: ChatResponse = attrs.field(factory=ChatResponse)

    def note(self, event: ChatEvent) -> None:
        if event.terminal:
            self.response = event.response  # type: ignore[union-attr]

    def before(self, conversation: Conversation) -> None:
        """
        What there is just before the stream is left; nothing changes behind its end.
        """
        if self.response.verdict is None:
            self.response = conversation.preview or self.response


async def _watch(events: Observable[ChatEvent], show: Any, leaving: Any) -> None:
    ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def end(error: Exception | None = None) -> None:
        if not ended.done():
            ended.set_exception(error) if error else ended.set_result(None)

    subscription = events.subscribe(show, end, end)
    try:
        await ended
    finally:
        leaving()
        subscription.dispose()


def _answered(conversation: Conversation, response: ChatResponse) -> TurnEnd:
    if conversation.pending:
        names = ", ".join(sorted({call.name or "?" for call in conversation.pending}))
        conversation.abort("nobody answers its calls")
        return _lost(3, f"the answer calls what is not here ({names})", "--tool brings it")
    if response.verdict is Verdict.ABORTED:
        return _lost(exit_code(response.verdict), "the provider cancelled the answer", RETRY)
    if response.verdict is not Verdict.COMPLETE:
        return _lost(exit_code(response.verdict), _incomplete(response), FINISH_ADVICE.get(response.finish_reason, RETRY))
    if not response.committable:
        return _lost(exit_code(Verdict.INCOMPLETE_FINISH), "the answer is empty", RETRY)
    return TurnEnd(True)


def _incomplete(response: ChatResponse) -> str:
    if response.finish_reason is FinishReason.TOOL_CALLS:
        return "the model wanted to call more tools than its steps allow"
    return finish_sentence(response)


async def _cancelled(conversation: Conversation, request_id: str) -> TurnEnd:
    """
    What is being written is written to its end; then it is known whether the turn was.
    """
    await conversation.settled()
    code = exit_code(Verdict.CANCELLED)
    try:
        kept = any(turn.request_id == request_id for turn in await conversation.turns())
    except StoreError as error:
        return TurnEnd(False, code, f"cancelled while it may have been written: {error}", "/history shows whether it is kept")
    if kept:
        return TurnEnd(True, code, "the answer was whole already, and the turn is kept", "/undo takes it back")
    return _lost(code, "cancelled", RETRY)


def _lost(code: int, problem: str, advice: str) -> TurnEnd:
    return TurnEnd(False, code, f"{problem}; nothing of this turn is kept", advice)


def _failed(error: RxchatError) -> TurnEnd:
    code = exit_code(error.verdict) if error.verdict else 2
    if isinstance(error, SupersededError):
        return _lost(code, "this conversation was changed elsewhere in the meantime", RETRY)
    if isinstance(error, StoreError):
        whole = error.response is not None
        return _lost(code, str(error), "/save tries to store the answer again" if whole else RETRY)
    advice = STATUS_ADVICE.get(error.status or 0) or ERROR_ADVICE.get(error.verdict or Verdict.PROTOCOL, RETRY)
    return _lost(code, in_flags(sentence(error)), advice)
