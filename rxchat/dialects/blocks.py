"""
Answers made of numbered blocks: what Anthropic's Messages and Bedrock's Converse have in common.

A block starts, grows and stops; each kind is a small class that knows its events. `Blocks` keeps those of one message by index.

Where the end of a call is doubtful, it waits for the next word of the provider: a block that stops without arguments, or with broken ones, may have been
cut by a length limit, and then its arguments are not `{}` (contract N7, P3). The next block, or a finish that is none of the cutting ones, settles it;
what is never settled is closed by the normalizer at the end of the step.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rxchat.dialects.base import Parser
from rxchat.errors import InvalidJSONError
from rxchat.events import (
    ChatEvent,
    ServerToolArgsDelta,
    ServerToolStart,
    TextDelta,
    TextEnd,
    TextStart,
    ThinkingDelta,
    ThinkingEnd,
    ThinkingSignature,
    ThinkingStart,
    ToolCallArgsDelta,
    ToolCallEnd,
    ToolCallStart,
)
from rxchat.growingtext import GrowingText
from rxchat.response import FinishReason, ToolCall
from rxchat.stage import Emit
from rxchat.strictjson import dumps, loads

__all__ = ["Block", "Blocks", "CallBlock", "ServerBlock", "TextBlock", "ThinkingBlock", "text_of"]


class Block:
    """
    One block of a message. This one says nothing: for kinds that are whole at their start.
    """

    known = True

    def __init__(self) -> None:
        self.stopped = False

    def begin(self, emit: Emit[ChatEvent]) -> None:
        """
        The provider opened the block.
        """

    def end(self, emit: Emit[ChatEvent]) -> None:
        """
        The provider closed the block.
        """

    def seal(self, emit: Emit[ChatEvent]) -> None:
        """
        The message ended and nobody closed the block: give what was held back.
        """

    def arguments(self, text: str, emit: Emit[ChatEvent]) -> bool:
        """
        Arguments of a tool; False if this block takes none.
        """
        return False

    def sign(self, piece: str) -> bool:
        """
        A piece of a signature; False if this block takes none.
        """
        return False


class TextBlock(Block):
    """
    Visible text.
    """

    def __init__(self, index: int) -> None:
        super().__init__()
        self.index = index

    def begin(self, emit: Emit[ChatEvent]) -> None:
        emit(TextStart(self.index))

    def end(self, emit: Emit[ChatEvent]) -> None:
        emit(TextEnd(self.index))


class ThinkingBlock(Block):
    """
    Reasoning; its signature is given whole, when the block stops (contract P11).
    """

    def __init__(self, index: int) -> None:
        super().__init__()
        self.index = index
        self.signature: list[str] = []

    def begin(self, emit: Emit[ChatEvent]) -> None:
        emit(ThinkingStart(self.index))

    def sign(self, piece: str) -> bool:
        self.signature.append(piece)
        return True

    def seal(self, emit: Emit[ChatEvent]) -> None:
        signature = "".join(self.signature)
        if signature:
            emit(ThinkingSignature(signature, self.index))

    def end(self, emit: Emit[ChatEvent]) -> None:
        self.seal(emit)
        emit(ThinkingEnd(self.index))


class _ToolBlock(Block):
    """
    A tool with arguments. What stands in the start (`given`) counts only if no fragments follow.
    """

    def __init__(self, given: Any) -> None:
        super().__init__()
        self.given = given
        self.said = GrowingText()

    def fragment(self, text: str, emit: Emit[ChatEvent]) -> None:
        """
        Emit a piece of the arguments.
        """
        raise NotImplementedError

    def arguments(self, text: str, emit: Emit[ChatEvent]) -> bool:
        if text:
            self.said.add(text)
            self.fragment(text, emit)
        return True

    def seal(self, emit: Emit[ChatEvent]) -> None:
        if not self.said and self.given:
            self.arguments(text_of(self.given), emit)

    def complete(self, emit: Emit[ChatEvent]) -> str:
        """
        The whole text of the arguments; gives what stood in the start if nothing else came.
        """
        self.seal(emit)
        return self.said.text


class CallBlock(_ToolBlock):
    """
    A call of a client tool; `order` counts the calls of the step (contract P5).
    """

    def __init__(self, blocks: Blocks, call_id: str, name: str, given: Any = None, metadata: Mapping[str, Any] | None = None) -> None:
        super().__init__(given)
        self.blocks = blocks
        self.call_id = call_id
        self.name = name
        self.metadata = metadata
        self.order = blocks.next_call()

    def begin(self, emit: Emit[ChatEvent]) -> None:
        emit(ToolCallStart(self.call_id, self.name, self.order))

    def fragment(self, text: str, emit: Emit[ChatEvent]) -> None:
        if self.stopped:
            self.blocks.settle(emit)
        emit(ToolCallArgsDelta(text, self.call_id, self.order))

    def end(self, emit: Emit[ChatEvent]) -> None:
        if _is_object(self.complete(emit)):
            self.finish(emit)
        else:
            self.blocks.doubtful = self

    def finish(self, emit: Emit[ChatEvent]) -> None:
        """
        The provider has ended the call.
        """
        call = ToolCall(id=self.call_id, name=self.name, index=self.order, complete=True, metadata=self.metadata)
        emit(ToolCallEnd(call))


class ServerBlock(_ToolBlock):
    """
    A tool the provider runs itself.
    """

    def __init__(self, kind: str, tool_id: str | None, name: str | None, payload: Any, given: Any = None) -> None:
        super().__init__(given)
        self.kind = kind
        self.tool_id = tool_id
        self.name = name
        self.payload = payload

    def begin(self, emit: Emit[ChatEvent]) -> None:
        emit(ServerToolStart(self.kind, self.tool_id, self.name, self.payload))

    def fragment(self, text: str, emit: Emit[ChatEvent]) -> None:
        emit(ServerToolArgsDelta(self.kind, text, self.tool_id))

    def end(self, emit: Emit[ChatEvent]) -> None:
        self.complete(emit)


class Blocks:
    """
    The blocks of one message; `opened` has them by index.
    """

    def __init__(self, host: Parser) -> None:
        self.host = host
        self.doubtful: CallBlock | None = None
        self._calls = 0
        self.opened: dict[int, Block] = {}

    def __getitem__(self, index: int) -> Block | None:
        return self.opened.get(index)

    def next_call(self) -> int:
        """
        The order of a new client call.
        """
        self._calls += 1
        return self._calls - 1

    def start(self, index: int, block: Block, emit: Emit[ChatEvent]) -> None:
        """
        The provider opened a block: what came before it is as it meant it.
        """
        self.settle(emit)
        self.opened[index] = block
        block.begin(emit)

    def stop(self, index: int, emit: Emit[ChatEvent]) -> None:
        """
        The provider closed a block; one that is not open is passed over (contract N3).
        """
        block = self.opened.get(index)
        if block is not None and not block.stopped:
            block.stopped = True
            block.end(emit)

    def text(self, index: int | None, text: str, emit: Emit[ChatEvent]) -> None:
        """
        A piece of visible text; opens its block silently if nobody announced it. Without an index it is of no block in particular.
        """
        if index is not None and (type(block := self.opened.get(index)) is not TextBlock or block.stopped):
            self._grow(index, TextBlock)
        if text:
            if self.host.finish is not None:
                self.host.after_finish += 1
            emit(TextDelta(text, index))

    def thinking(self, index: int, text: str, emit: Emit[ChatEvent]) -> None:
        """
        A piece of reasoning; likewise.
        """
        if type(block := self.opened.get(index)) is not ThinkingBlock or block.stopped:
            self._grow(index, ThinkingBlock)
        if text:
            emit(ThinkingDelta(text, index))

    def sign(self, index: int, piece: str) -> None:
        """
        A piece of the signature of a block of reasoning.
        """
        if not self._grow(index, ThinkingBlock).sign(piece):
            raise self.host.malformed(f"a signature for block {index}, which is no thinking")

    def arguments(self, index: int, text: str, emit: Emit[ChatEvent]) -> None:
        """
        A piece of a tool's arguments. DialectError if the block is no tool: it would make a phantom call.
        """
        block = self.opened.get(index)
        if block is None or not block.arguments(text, emit):
            raise self.host.malformed(f"tool arguments for block {index}, which is no tool")

    def finish(self, raw: str, reason: FinishReason, emit: Emit[ChatEvent]) -> None:
        """
        The provider says why it ends; a reason that cuts leaves the call in doubt to the end of the step.
        """
        self.host.set_finish(raw, reason)
        if reason.complete:
            self.settle(emit)

    def settle(self, emit: Emit[ChatEvent]) -> None:
        """
        The provider went on: the call in doubt was meant as it stands.
        """
        if self.doubtful is not None:
            call, self.doubtful = self.doubtful, None
            call.finish(emit)

    def seal(self, emit: Emit[ChatEvent]) -> None:
        """
        The message ends: give what is held back in blocks that were never stopped.
        """
        for block in self.opened.values():
            if not block.stopped:
                block.stopped = True
                block.seal(emit)

    def _grow(self, index: int, kind: type[TextBlock | ThinkingBlock]) -> Block:
        block = self.opened.get(index) or self.opened.setdefault(index, kind(index))
        if type(block) is kind:
            block.stopped = False
        return block


def text_of(given: Any) -> str:
    """
    Arguments as text: compact JSON where the wire has a value (contract P3), a string as it is.
    """
    return given if isinstance(given, str) else dumps(given)


def _is_object(text: str) -> bool:
    try:
        return text.endswith("}") and isinstance(loads(text), dict)
    except InvalidJSONError:
        return False
