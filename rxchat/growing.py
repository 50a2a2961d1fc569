"""
Parts of an answer while they grow, and one choice of one step made of them (contract V, N7, P3, P11, P14).

A text that grows is written into a buffer and read once: the work stays linear however small the fragments are, and they are not kept beside it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeAlias

import attrs

from rxchat.errors import InvalidJSONError
from rxchat.events import ANONYMOUS, BlockKey, Group, match_block
from rxchat.growingtext import GrowingText
from rxchat.response import Part, RefusalPart, ServerToolPart, TextPart, ThinkingPart, ToolCall
from rxchat.strictjson import loads

__all__ = ["ChoiceFold", "GrowingCall", "WholePart"]


# --- parts that grow ------------------------------------------------------------------------------------------------------------------------------


@attrs.define(eq=False)
class GrowingBlock:
    """
    A block of text or thinking.
    """

    group: Group
    key: BlockKey
    grown: GrowingText = attrs.field(factory=GrowingText)
    signature: str | None = None
    placed: bool = False

    def part(self) -> Part:
        text = self.grown.text
        return TextPart(text, *self.key) if self.group is Group.TEXT else ThinkingPart(text, self.signature, *self.key)


@attrs.define(eq=False)
class GrowingCall:
    """
    A tool call; `done` once it has ended.
    """

    id: str
    name: str
    index: int | None
    kind: str = "function"
    grown: GrowingText = attrs.field(factory=GrowingText)
    done: ToolCall | None = None

    def part(self) -> ToolCall:
        return self.done or ToolCall(self.id, self.name, self.grown.text, index=self.index, kind=self.kind)

    def end(self, said: ToolCall) -> ToolCall:
        """
        The finished call: what its END says, the rest as known before.
        """
        text = said.arguments_text or self.grown.text
        arguments = _arguments(text) if said.complete and said.kind == "function" else None
        self.done = attrs.evolve(said, id=said.id or self.id, name=said.name or self.name, arguments_text=text, arguments=arguments)
        return self.done


@attrs.define(eq=False)
class GrowingServerTool:
    """
    A tool of the provider: start, fragments and result of one id.
    """

    known: ServerToolPart
    grown: GrowingText = attrs.field(factory=GrowingText)
    answered: bool = False

    def part(self) -> ServerToolPart:
        return attrs.evolve(self.known, arguments_text=self.grown.text)


@attrs.define(eq=False)
class GrowingRefusal:
    """
    The words of refusal of one choice.
    """

    grown: GrowingText = attrs.field(factory=GrowingText)

    def part(self) -> RefusalPart:
        return RefusalPart(self.grown.text)


@attrs.define(eq=False)
class WholePart:
    """
    A part that came whole.
    """

    value: Part

    def part(self) -> Part:
        return self.value


Growing: TypeAlias = GrowingBlock | GrowingCall | GrowingServerTool | GrowingRefusal | WholePart


def _arguments(text: str) -> Mapping[str, Any] | None:
    """
    One strict JSON object or None; a call without argument characters has none to say: {} (contract P3).
    """
    try:
        value = loads(text) if text else {}
    except InvalidJSONError:
        return None
    return value if isinstance(value, dict) else None


# --- one choice of a step -------------------------------------------------------------------------------------------------------------------------


class ChoiceFold:
    """
    The parts of one choice, in the order in which they got their first content.

    An anonymous block goes on in its part until something else stands behind it; an identified one goes on in its part always (contract P14).
    """

    __slots__ = ("_at_end", "_calls", "_known", "_opened", "_parts", "_refusal", "_server_tools", "_thinking")

    def __init__(self) -> None:
        self._parts: list[Growing] = []
        self._at_end: Growing | None = None  # the last part, notes aside: citations do not cut a text in two
        self._opened: dict[Group, dict[BlockKey, GrowingBlock]] = {Group.TEXT: {}, Group.THINKING: {}}
        self._known: dict[tuple[Group, BlockKey], GrowingBlock] = {}
        self._thinking: GrowingBlock | None = None
        self._calls: dict[int | str | None, GrowingCall] = {}
        self._server_tools: dict[Any, GrowingServerTool] = {}
        self._refusal: GrowingRefusal | None = None

    def parts(self) -> tuple[Part, ...]:
        return tuple(growing.part() for growing in self._parts)

    def place(self, growing: Growing) -> None:
        self._parts.append(growing)
        self._at_end = growing

    def note(self, growing: Growing) -> None:
        self._parts.append(growing)

    # Blocks ----------------------------------------------------------------------------------------------------------------------------------

    def open_block(self, group: Group, key: BlockKey) -> GrowingBlock:
        block = self._going_on(group) if key == ANONYMOUS else self._known.get((group, key))
        block = block or GrowingBlock(group, key)
        self._opened[group][key] = block
        if key != ANONYMOUS:
            self._known[group, key] = block
        return block

    def close_block(self, group: Group, key: BlockKey) -> None:
        self._opened[group].pop(key, None)

    def block(self, group: Group, key: BlockKey) -> GrowingBlock:
        """
        The block a delta goes to, placed.
        """
        opened = self._opened[group]
        found = match_block(opened, key)
        block = self.open_block(group, key) if found is None else opened[found]
        if found == ANONYMOUS and key != ANONYMOUS:
            self._name(block, key)
        elif block.key == ANONYMOUS and block.placed and block is not self._at_end:
            block = opened[ANONYMOUS] = GrowingBlock(group, ANONYMOUS)
        return self._placed(block)

    def sign(self, key: BlockKey, signature: str) -> None:
        """
        Seal a block of thinking; without one, the signature makes an empty one.
        """
        opened = self._opened[Group.THINKING]
        found = match_block(opened, key)
        block = opened[found] if found is not None else self._known.get((Group.THINKING, key)) or self._unsigned(key)
        self._placed(block or self._unopened(key)).signature = signature

    def _name(self, block: GrowingBlock, key: BlockKey) -> None:
        opened = self._opened[block.group]
        opened[key] = opened.pop(ANONYMOUS)
        block.key = key
        self._known[block.group, key] = block

    def _placed(self, block: GrowingBlock) -> GrowingBlock:
        if not block.placed:
            block.placed = True
            self.place(block)
        if block.group is Group.THINKING:
            self._thinking = block
        return block

    def _going_on(self, group: Group) -> GrowingBlock | None:
        last = self._at_end
        return last if isinstance(last, GrowingBlock) and last.group is group and last.key == ANONYMOUS else None

    def _unsigned(self, key: BlockKey) -> GrowingBlock | None:
        """
        The block an anonymous signature seals behind the END of its block.
        """
        last = self._thinking
        return last if key == ANONYMOUS and last is not None and (last.signature is None or last is self._at_end) else None

    def _unopened(self, key: BlockKey) -> GrowingBlock:
        block = GrowingBlock(Group.THINKING, key)
        if key != ANONYMOUS:
            self._known[Group.THINKING, key] = block
        return block

    # The others ------------------------------------------------------------------------------------------------------------------------------

    def begin_call(self, key: int | str | None, call: GrowingCall) -> GrowingCall:
        self._calls[key] = call
        self.place(call)
        return call

    def call(self, call_id: str, index: int | None) -> GrowingCall:
        key = call_id if index is None else index
        return self._calls.get(key) or self.begin_call(key, GrowingCall(call_id, "", index))

    def has_client_call(self) -> bool:
        return any(not call.part().server_executed for call in self._calls.values())

    def server_tool(self, kind: str, tool_id: str | None, *, begins: bool = False) -> GrowingServerTool:
        """
        The part of an id; without an id, the last one of its kind that has no result yet.
        """
        key = (kind, None) if tool_id is None else tool_id
        tool = self._server_tools.get(key)
        if tool is None or (tool_id is None and (begins or tool.answered)):
            tool = self._server_tools[key] = GrowingServerTool(ServerToolPart(kind, tool_id))
            self.place(tool)
        return tool

    def refuse(self, text: str) -> None:
        if self._refusal is None:
            self._refusal = GrowingRefusal()
            self.note(self._refusal)
        self._refusal.grown.add(text)
