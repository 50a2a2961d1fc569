"""
The content of a Converse answer: its blocks, in deltas or whole.

Every block says what it is by the one field it has, in the start, in each delta and in the body.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

from rxchat.dialects.base import Parser, mapping, sequence, string
from rxchat.dialects.blocks import Block, Blocks, CallBlock, ServerBlock
from rxchat.events import ChatEvent, Citation, MediaDone, ServerToolResult, ThinkingRedacted
from rxchat.stage import Emit

__all__ = ["ConverseContent", "Fields"]

Fields: TypeAlias = Mapping[str, Any]


class _BytesBlock(Block):
    """
    Base64 of bytes, in pieces; what `make` makes of them is given once.
    """

    def __init__(self, host: Parser, make: Callable[[str], ChatEvent]) -> None:
        super().__init__()
        self.host = host
        self.make = make
        self.pieces: list[str] = []

    def end(self, emit: Emit[ChatEvent]) -> None:
        if self.pieces:
            emit(self.make(self._joined()))

    seal = end

    def _joined(self) -> str:
        if len(self.pieces) == 1:
            return self.pieces[0]
        try:
            return base64.b64encode(b"".join(base64.b64decode(piece, validate=True) for piece in self.pieces)).decode()
        except binascii.Error:
            raise self.host.malformed("bytes that are no base64") from None


class _ResultBlock(Block):
    """
    What a tool of the provider answered, collected.
    """

    def __init__(self, start: Fields) -> None:
        super().__init__()
        self.raw = {**start, "content": [*sequence(start.get("content"))]}

    def end(self, emit: Emit[ChatEvent]) -> None:
        kind = string(self.raw.get("type")) or "tool_result"
        emit(ServerToolResult(kind, string(self.raw.get("toolUseId")), self.raw, self.raw.get("status") == "error"))

    seal = end


class ConverseContent:
    """
    The blocks of one answer; speaks through the parser that owns it. DialectError for what is known and malformed.

    `joined`: blocks of text run on in one, for a model that says a stop after each piece.
    """

    def __init__(self, host: Parser, *, joined: bool = False) -> None:
        self.host = host
        self.blocks = Blocks(host)
        self.joined = joined

    def start(self, index: int, start: Fields, emit: Emit[ChatEvent]) -> None:
        """
        A block is announced; only tools and images are.
        """
        self._each(_STARTS, index, start, emit)

    def delta(self, index: int, delta: Fields, emit: Emit[ChatEvent]) -> None:
        """
        A block grows.
        """
        self._each(_DELTAS, index, delta, emit)

    def whole(self, content: Any, emit: Emit[ChatEvent]) -> None:
        """
        Blocks that came whole.
        """
        for index, block in enumerate(sequence(content)):
            self._each(_WHOLE, index, self._object(block, "a content block"), emit)
            self.blocks.stop(index, emit)

    def _each(self, table: Mapping[str, _Handler], index: int, fields: Fields, emit: Emit[ChatEvent]) -> None:
        for name, value in fields.items():
            handler = table.get(name)
            if handler is None:
                self.host.unknown(name, value, emit)
            elif value is not None:
                handler(self, index, value, emit)

    # Starts ------------------------------------------------------------------------------------------------------------------------------------

    def _start_tool(self, index: int, value: Any, emit: Emit[ChatEvent]) -> None:
        tool = self._object(value, "toolUse")
        tool_id, name, given = self._text(tool, "toolUseId"), self._text(tool, "name"), tool.get("input")
        if tool.get("type") == "server_tool_use":
            self.blocks.start(index, ServerBlock("server_tool_use", tool_id or None, name or None, None, given), emit)
        else:
            self.blocks.start(index, CallBlock(self.blocks, tool_id, name, given), emit)

    def _start_result(self, index: int, value: Any, emit: Emit[ChatEvent]) -> None:
        self.blocks.start(index, _ResultBlock(self._object(value, "toolResult")), emit)

    def _start_image(self, index: int, value: Any, emit: Emit[ChatEvent]) -> None:
        form = string(self._object(value, "image").get("format"))
        mime = f"image/{form}" if form else None
        self.blocks.start(index, _BytesBlock(self.host, lambda data: MediaDone("image", mime, data)), emit)

    # Deltas ------------------------------------------------------------------------------------------------------------------------------------

    def _text_delta(self, index: int, value: Any, emit: Emit[ChatEvent]) -> None:
        if not isinstance(value, str):
            raise self.host.malformed("text is no text")
        self.blocks.text(None if self.joined else index, value, emit)

    def _tool_delta(self, index: int, value: Any, emit: Emit[ChatEvent]) -> None:
        self.blocks.arguments(index, self._text(self._object(value, "toolUse"), "input"), emit)

    def _result_delta(self, index: int, value: Any, emit: Emit[ChatEvent]) -> None:
        block = self.blocks[index]
        if not isinstance(block, _ResultBlock) or not isinstance(value, list):
            raise self.host.malformed(f"a tool result for block {index}, which is none")
        block.raw["content"] += value

    def _reasoning_delta(self, index: int, value: Any, emit: Emit[ChatEvent]) -> None:
        reasoning = self._object(value, "reasoningContent")
        data = self._text(reasoning, "redactedContent")
        if data:
            self._redacted(index, data, emit)
            return
        self.blocks.thinking(index, self._text(reasoning, "text"), emit)
        self.blocks.sign(index, self._text(reasoning, "signature"))

    def _redacted(self, index: int, data: str, emit: Emit[ChatEvent]) -> None:
        block = self.blocks[index]
        if not isinstance(block, _BytesBlock):
            block = _BytesBlock(self.host, lambda joined: ThinkingRedacted(joined, index))
            self.blocks.start(index, block, emit)
        block.pieces.append(data)

    def _image_delta(self, index: int, value: Any, emit: Emit[ChatEvent]) -> None:
        image, block = self._object(value, "image"), self.blocks[index]
        if not isinstance(block, _BytesBlock):
            raise self.host.malformed(f"an image for block {index}, which is none")
        data = self._text(mapping(image.get("source")), "bytes")
        if data:
            block.pieces.append(data)
        else:
            self.host.unknown("image", image, emit)

    def _citation(self, index: int, value: Any, emit: Emit[ChatEvent]) -> None:
        """
        The wire's positions count the source, not the answer: none are given. A source is a URL or a name.
        """
        citation = self._object(value, "citation")
        source = string(citation.get("source"))
        named = source if source and "://" not in source else None
        quoted = "".join(self._text(mapping(part), "text") for part in sequence(citation.get("sourceContent")))
        emit(
            Citation(
                url=string(mapping(mapping(citation.get("location")).get("web")).get("url")) or (None if named else source),
                title=string(citation.get("title")),
                quoted=quoted or None,
                file=named,
                index=None if self.joined else index,
            )
        )

    # Whole blocks ------------------------------------------------------------------------------------------------------------------------------

    def _whole_reasoning(self, index: int, value: Any, emit: Emit[ChatEvent]) -> None:
        reasoning = self._object(value, "reasoningContent")
        self._reasoning_delta(index, reasoning.get("reasoningText") or reasoning, emit)

    def _whole_image(self, index: int, value: Any, emit: Emit[ChatEvent]) -> None:
        self._start_image(index, value, emit)
        self._image_delta(index, value, emit)

    def _whole_cited(self, index: int, value: Any, emit: Emit[ChatEvent]) -> None:
        """
        As in the stream: the citations stand before the text they support.
        """
        cited = self._object(value, "citationsContent")
        for citation in sequence(cited.get("citations")):
            self._citation(index, citation, emit)
        for part in sequence(cited.get("content")):
            self._text_delta(index, self._text(mapping(part), "text"), emit)

    # Fields ------------------------------------------------------------------------------------------------------------------------------------

    def _object(self, value: Any, name: str) -> Fields:
        if not isinstance(value, dict):
            raise self.host.malformed(f"{name} is no object")
        return value

    def _text(self, value: Fields, name: str) -> str:
        """
        A text, empty where it is missing or null; DialectError for anything else.
        """
        found = value.get(name)
        if found is None or isinstance(found, str):
            return found or ""
        raise self.host.malformed(f"{name} is no text")


_Handler: TypeAlias = Callable[[ConverseContent, int, Any, Emit[ChatEvent]], None]

_STARTS: Mapping[str, _Handler] = {
    "toolUse": ConverseContent._start_tool,
    "toolResult": ConverseContent._start_result,
    "image": ConverseContent._start_image,
}

_DELTAS: Mapping[str, _Handler] = {
    "text": ConverseContent._text_delta,
    "toolUse": ConverseContent._tool_delta,
    "toolResult": ConverseContent._result_delta,
    "reasoningContent": ConverseContent._reasoning_delta,
    "citation": ConverseContent._citation,
    "image": ConverseContent._image_delta,
}

_WHOLE: Mapping[str, _Handler] = {
    "text": ConverseContent._text_delta,
    "toolUse": ConverseContent._start_tool,
    "toolResult": ConverseContent._start_result,
    "reasoningContent": ConverseContent._whole_reasoning,
    "citationsContent": ConverseContent._whole_cited,
    "image": ConverseContent._whole_image,
}
