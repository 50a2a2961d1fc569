"""
A turn of a conversation as a value, and as JSON and back.

A turn is what becomes history at once (contract H): the user's messages, every answer to them, and the results of the calls in between. It is written as
`{"v": 1, "request_id": ..., "time": ..., "rounds": [{"messages": [...], "response": {...}}]}`, parts and answers as `serialize` writes them. What a later
version adds survives: unknown fields of a turn stay in `Turn.extra`, unknown parts stay as they came; all of it is written back.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from functools import reduce
from typing import Any

import attrs

from rxchat.errors import ProtocolError, Verdict
from rxchat.prompt import Message
from rxchat.response import ChatResponse, FinishReason, Part, ProviderItemPart, ServerToolPart, ToolCall, ToolResultPart, Usage
from rxchat.serialize import VERSION, is_foreign, read_json, value_from_dict, value_to_dict, write_json

__all__ = ["Round", "Turn", "dump_turn", "load_turn", "total_usage", "unanswered"]


@attrs.frozen
class Round:
    """
    What was said to the model, and what it answered: one response of any number of steps.
    """

    messages: tuple[Message, ...]
    response: ChatResponse


@attrs.frozen
class Turn:
    """
    One whole turn: mostly one round; one more for each time the caller itself ran the model's calls and sent their results.

    `time` is when it was asked, in seconds since 1970. `extra` is what a later version wrote beside it.
    """

    request_id: str
    rounds: tuple[Round, ...]
    time: float = 0.0
    extra: Mapping[str, Any] = attrs.field(factory=dict)

    @property
    def response(self) -> ChatResponse:
        """
        The answer that ended the turn.
        """
        return self.rounds[-1].response

    @property
    def verdict(self) -> Verdict | None:
        """
        How it ended.
        """
        return self.response.verdict

    @property
    def finish_reason(self) -> FinishReason:
        """
        Why it ended.
        """
        return self.response.finish_reason

    @property
    def usage(self) -> Usage | None:
        """
        The usage of all rounds; None if no provider reported any.
        """
        return total_usage(item.response for item in self.rounds)

    @property
    def messages(self) -> tuple[Message, ...]:
        """
        The turn as it goes back to a model: what was said, the answers step by step, the results of calls.
        """
        return tuple(message for item in self.rounds for message in (*item.messages, *_said(item.response)))


def total_usage(responses: Iterable[ChatResponse]) -> Usage | None:
    """
    The sum over several answers; None where nothing was reported (contract U).
    """
    reported = [response.usage for response in responses if response.usage is not None]
    return reduce(Usage.add, reported) if reported else None


def _said(response: ChatResponse) -> tuple[Message, ...]:
    """
    The answer as messages, without what only a later version understands: no provider does.
    """
    known = (attrs.evolve(message, parts=tuple(part for part in message.parts if not is_foreign(part))) for message in Message.of(response))
    return tuple(message for message in known if message.parts)


def unanswered(rounds: Iterable[Round]) -> tuple[ToolCall | ServerToolPart, ...]:
    """
    The calls that the client has not answered yet, in order; history never holds one (contract H, P12).

    In the order of the parts: an id that a later step uses again is another call.
    """
    waiting: list[ToolCall | ServerToolPart] = []
    for part in _parts(rounds):
        if (isinstance(part, ToolCall) and not part.server_executed) or (isinstance(part, ServerToolPart) and part.needs_client):
            waiting.append(part)
        elif isinstance(part, ToolResultPart | ProviderItemPart):
            answered = _answered_by(part)
            waiting = [call for call in waiting if call.id not in answered]
    return tuple(waiting)


def _parts(rounds: Iterable[Round]) -> Iterator[Part]:
    for item in rounds:
        for message in item.messages:
            yield from message.parts
        yield from item.response.parts


def _answered_by(part: ToolResultPart | ProviderItemPart) -> set[Any]:
    """
    The ids that a part answers. A provider's own kind of answer names the call in a field of its own (contract P12).
    """
    if isinstance(part, ToolResultPart):
        return {part.call_id}
    raw = part.raw if isinstance(part.raw, Mapping) else {}
    return {value for name in ("call_id", "approval_request_id") if isinstance(value := raw.get(name), str)}


# --- JSON -----------------------------------------------------------------------------------------------------------------------------------------

_FIELDS = frozenset(attrs.fields_dict(Turn)) - {"extra"}


def dump_turn(turn: Turn) -> str:
    """
    A turn as one line of compact JSON.
    """
    written = value_to_dict(attrs.evolve(turn, extra={}))
    return write_json({**turn.extra, "v": VERSION, **written})


def load_turn(text: str | bytes) -> Turn:
    """
    The turn a line of JSON stands for; InvalidJSONError, ProtocolError if it is malformed.
    """
    data = read_json(text)
    turn = value_from_dict(data, Turn)
    if not turn.rounds:
        raise ProtocolError("Turn: it has no round")
    return attrs.evolve(turn, extra={name: value for name, value in data.items() if name not in _FIELDS and name != "v"})
