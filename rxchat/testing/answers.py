"""
What a scripted provider answers: content in our own parts, which every wire says in its own words, or a recorded body as it is.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, TypeAlias

import attrs

from rxchat.errors import ConfigurationError
from rxchat.response import FinishReason, Part, RefusalPart, TextPart, ToolCall, Usage
from rxchat.strictjson import dumps

if TYPE_CHECKING:
    from rxchat.testing.faults import Fault, Faulty

__all__ = ["FAKE_USAGE", "AnswerPart", "FakeAnswer", "FakeBody", "pieces_of"]

AnswerPart: TypeAlias = Part | str

# What an answer counts unless the script says something else.
FAKE_USAGE = Usage(input_tokens=11, output_tokens=7, total_tokens=18)


@attrs.frozen(init=False)
class FakeAnswer:
    """
    One whole answer: `parts` in order, a text among them is a TextPart.

    `finish` None: refusal if there is one among the parts, tool_calls if there is a call, else stop. `usage` are our counts, each wire says them in its own
    (None: it says none). `piece` is the number of code points of a delta, of text, thinking and arguments alike; `tokens_per_second` paces the deltas.
    `heartbeat` puts a sign of life before the content, where the wire has one. A call without an id gets `call_1`, `call_2` ...; one given by
    `arguments` alone has them as compact JSON. A part that a dialect cannot say is a ConfigurationError when it is asked to.
    """

    parts: tuple[Part, ...]
    finish: FinishReason | None
    usage: Usage | None
    model: str
    id: str
    piece: int
    tokens_per_second: float | None
    heartbeat: bool

    def __init__(
        self,
        *parts: AnswerPart,
        finish: FinishReason | None = None,
        usage: Usage | None = FAKE_USAGE,
        model: str = "fake-1",
        id: str = "fake-answer-1",
        piece: int = 8,
        tokens_per_second: float | None = None,
        heartbeat: bool = False,
    ) -> None:
        if piece < 1:
            raise ConfigurationError(f"piece is at least 1, not {piece}")
        if tokens_per_second is not None and tokens_per_second <= 0:
            raise ConfigurationError(f"tokens_per_second is above 0, not {tokens_per_second}")
        reason = None if finish is None else FinishReason(finish)
        self.__attrs_init__(tuple(_whole(parts)), reason, usage, model, id, piece, tokens_per_second, heartbeat)  # pyright: ignore[reportAttributeAccessIssue]

    @property
    def reason(self) -> FinishReason:
        """
        Why it ends, also where the script does not say.
        """
        if self.finish is not None:
            return self.finish
        if any(isinstance(part, RefusalPart) for part in self.parts):
            return FinishReason.REFUSAL
        return FinishReason.TOOL_CALLS if any(isinstance(part, ToolCall) for part in self.parts) else FinishReason.STOP

    def pieces(self, text: str) -> Iterator[str]:
        """
        The text as its deltas; an empty one has none.
        """
        return pieces_of(text, self.piece)

    def with_fault(self, fault: Fault) -> Faulty:
        """
        This answer, gone wrong.
        """
        from rxchat.testing.faults import Faulty

        return Faulty(self, fault)


def pieces_of(text: str, size: int) -> Iterator[str]:
    """
    The text in pieces of so many code points.
    """
    return (text[start : start + size] for start in range(0, len(text), size))


def _whole(parts: tuple[AnswerPart, ...]) -> Iterator[Part]:
    calls = 0
    for part in parts:
        if isinstance(part, str):
            yield TextPart(part)
        elif isinstance(part, ToolCall):
            calls += 1
            text = part.arguments_text or (dumps(part.arguments) if part.arguments is not None else "")
            yield attrs.evolve(part, id=part.id or f"call_{calls}", arguments_text=text)
        else:
            yield part


@attrs.frozen
class FakeBody:
    """
    A body sent as it is, a recorded one say; without `content_type` it has the one of the dialect's stream.
    """

    data: bytes = attrs.field(repr=False)
    content_type: str | None = None
    status: int = 200

    def with_fault(self, fault: Fault) -> Faulty:
        """
        This body, gone wrong.
        """
        from rxchat.testing.faults import Faulty

        return Faulty(self, fault)
