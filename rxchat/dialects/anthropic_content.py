"""
The content of an Anthropic message: its blocks, whole or in deltas.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

from rxchat.dialects.base import Parser, mapping, sequence, string
from rxchat.dialects.blocks import Block, Blocks, CallBlock, ServerBlock, TextBlock, ThinkingBlock
from rxchat.errors import InvalidJSONError
from rxchat.events import (
    PROVIDER_ITEM,
    ChatEvent,
    Citation,
    Custom,
    MediaDone,
    SearchResult,
    ServerToolResult,
    TextDelta,
    ThinkingDelta,
    ThinkingRedacted,
)
from rxchat.stage import Emit
from rxchat.strictjson import loads

__all__ = ["Content", "Fields"]

Fields: TypeAlias = Mapping[str, Any]


class _UnknownBlock(Block):
    known = False


class _ItemBlock(Block):
    """
    An opaque item for the next request (contract P12); its deltas replace fields of its start.
    """

    def __init__(self, raw: Fields) -> None:
        super().__init__()
        self.raw = dict(raw)

    def end(self, emit: Emit[ChatEvent]) -> None:
        emit(Custom(PROVIDER_ITEM, {"type": self.raw["type"], "raw": self.raw}))

    seal = end


class _SearchBlock(ServerBlock):
    """
    A search of the web: remembers its query for the hits.
    """

    def __init__(self, queries: dict[str, str], *args: Any) -> None:
        super().__init__(*args)
        self.queries = queries

    def end(self, emit: Emit[ChatEvent]) -> None:
        text = self.complete(emit)
        try:
            query = string(mapping(loads(text)).get("query"))
        except InvalidJSONError:
            return
        if query and self.tool_id:
            self.queries[self.tool_id] = query


class Content:
    """
    The blocks of one message; speaks through the parser that owns it. DialectError for a known block or delta that is malformed.
    """

    def __init__(self, host: Parser) -> None:
        self.host = host
        self.blocks = Blocks(host)
        self._block = self.blocks.opened.get
        self._queries: dict[str, str] = {}

    def whole(self, content: Any, emit: Emit[ChatEvent]) -> None:
        """
        Blocks that came whole.
        """
        for index, block in enumerate(sequence(content)):
            self.open(index, block, emit)
            self.blocks.stop(index, emit)

    def open(self, index: int, block: Any, emit: Emit[ChatEvent]) -> None:
        """
        A block begins; what it holds already is given.
        """
        if not isinstance(block, dict):
            raise self.host.malformed(f"content block {index} is no object")
        kind = block.get("type")
        opener = _BLOCKS.get(kind)
        if opener is not None:
            opener(self, index, block, emit)
        elif string(block.get("tool_use_id")):
            # Every server tool has a result type of its own; this is what they share.
            self._result(index, block, emit)
        else:
            self.blocks.start(index, _UnknownBlock(), emit)
            self.host.unknown(string(kind) or "content_block", block, emit)

    def delta(self, index: int, delta: Fields, emit: Emit[ChatEvent]) -> None:
        """
        A block grows. All deltas of an unknown block are unknown: nobody knows what they are of.
        """
        block = self._block(index)
        handler = _DELTAS.get(delta.get("type")) if block is None or block.known else None
        if handler is None:
            self.host.unknown(string(delta.get("type")) or "content_block_delta", delta, emit)
        else:
            handler(self, index, delta, emit)

    def piece(self, index: int, kind: str) -> Callable[[str, Emit[ChatEvent]], object] | None:
        """
        What `delta` does with further pieces of this block, as long as nothing but such pieces comes; None if that is more than to tell them.
        """
        block = self._block(index)
        if kind == "text_delta" and type(block) is TextBlock and not block.stopped and self.host.finish is None:
            return lambda text, emit: emit(TextDelta(text, index))
        if kind == "thinking_delta" and type(block) is ThinkingBlock and not block.stopped:
            return lambda text, emit: emit(ThinkingDelta(text, index))
        return block.arguments if kind == "input_json_delta" and isinstance(block, CallBlock | ServerBlock) else None

    def _text_block(self, index: int, block: Fields, emit: Emit[ChatEvent]) -> None:
        self.blocks.start(index, TextBlock(index), emit)
        for citation in sequence(block.get("citations")):
            self._citation(index, citation, emit)
        self.blocks.text(index, self._text(block, "text"), emit)

    def _thinking_block(self, index: int, block: Fields, emit: Emit[ChatEvent]) -> None:
        self.blocks.start(index, ThinkingBlock(index), emit)
        self.blocks.thinking(index, self._text(block, "thinking"), emit)
        self.blocks.sign(index, self._text(block, "signature"))

    def _redacted_block(self, index: int, block: Fields, emit: Emit[ChatEvent]) -> None:
        self.blocks.start(index, Block(), emit)
        data = self._text(block, "data")
        if data:
            emit(ThinkingRedacted(data, index))

    def _call_block(self, index: int, block: Fields, emit: Emit[ChatEvent]) -> None:
        caller = block.get("caller")
        metadata = {"caller": caller} if caller is not None else None
        call = CallBlock(self.blocks, self._text(block, "id"), self._text(block, "name"), block.get("input"), metadata)
        self.blocks.start(index, call, emit)

    def _server_block(self, index: int, block: Fields, emit: Emit[ChatEvent]) -> None:
        kind, tool_id, name = block["type"], string(block.get("id")), string(block.get("name"))
        rest = {key: value for key, value in block.items() if key not in ("type", "id", "name", "input")}
        args = (kind, tool_id, name, rest or None, block.get("input"))
        tool = _SearchBlock(self._queries, *args) if name == "web_search" else ServerBlock(*args)
        self.blocks.start(index, tool, emit)

    def _result(self, index: int, block: Fields, emit: Emit[ChatEvent]) -> None:
        self.blocks.start(index, Block(), emit)
        tool_id, content = str(block["tool_use_id"]), block.get("content")
        for hit in sequence(content):
            if mapping(hit).get("type") == "web_search_result":
                emit(SearchResult(string(hit.get("url")), string(hit.get("title")), query=self._queries.get(tool_id)))
        failed = block.get("is_error") is True or "error_code" in mapping(content)
        emit(ServerToolResult(str(block.get("type")), tool_id, block, failed))

    def _item_block(self, index: int, block: Fields, emit: Emit[ChatEvent]) -> None:
        self.blocks.start(index, _ItemBlock(block), emit)

    def _upload_block(self, index: int, block: Fields, emit: Emit[ChatEvent]) -> None:
        self.blocks.start(index, Block(), emit)
        emit(MediaDone("file", item_id=string(block.get("file_id"))))

    # Deltas ------------------------------------------------------------------------------------------------------------------------------------

    def _text_delta(self, index: int, delta: Fields, emit: Emit[ChatEvent]) -> None:
        text = delta.get("text")
        self.blocks.text(index, text if type(text) is str else self._text(delta, "text"), emit)

    def _thinking_delta(self, index: int, delta: Fields, emit: Emit[ChatEvent]) -> None:
        text = delta.get("thinking")
        self.blocks.thinking(index, text if type(text) is str else self._text(delta, "thinking"), emit)

    def _signature_delta(self, index: int, delta: Fields, emit: Emit[ChatEvent]) -> None:
        self.blocks.sign(index, self._text(delta, "signature"))

    def _input_delta(self, index: int, delta: Fields, emit: Emit[ChatEvent]) -> None:
        text = delta.get("partial_json")
        self.blocks.arguments(index, text if type(text) is str else self._text(delta, "partial_json"), emit)

    def _citations_delta(self, index: int, delta: Fields, emit: Emit[ChatEvent]) -> None:
        self._citation(index, delta.get("citation"), emit)

    def _compaction_delta(self, index: int, delta: Fields, emit: Emit[ChatEvent]) -> None:
        block = self.blocks[index]
        if not isinstance(block, _ItemBlock):
            raise self.host.malformed(f"a compaction for block {index}, which is none")
        block.raw.update({name: value for name, value in delta.items() if name != "type" and value is not None})

    def _citation(self, index: int, citation: Any, emit: Emit[ChatEvent]) -> None:
        """
        The wire's offsets count the cited document, not the answer: none are given.
        """
        if not isinstance(citation, dict):
            raise self.host.malformed(f"a citation of block {index} is no object")
        emit(
            Citation(
                url=string(citation.get("url")) or string(citation.get("source")),
                title=string(citation.get("title")) or string(citation.get("document_title")),
                quoted=string(citation.get("cited_text")),
                file=string(citation.get("file_id")),
                index=index,
            )
        )

    def _text(self, value: Fields, name: str) -> str:
        """
        A text, empty where it is missing or null; DialectError for anything else.
        """
        found = value.get(name)
        if type(found) is str:
            return found
        if found is None:
            return ""
        raise self.host.malformed(f"{name} is no text")


_BLOCKS: Mapping[Any, Callable[[Content, int, Fields, Emit[ChatEvent]], None]] = {
    "text": Content._text_block,
    "thinking": Content._thinking_block,
    "redacted_thinking": Content._redacted_block,
    "tool_use": Content._call_block,
    "server_tool_use": Content._server_block,
    "mcp_tool_use": Content._server_block,
    "compaction": Content._item_block,
    "fallback": Content._item_block,
    "container_upload": Content._upload_block,
}

_DELTAS: Mapping[Any, Callable[[Content, int, Fields, Emit[ChatEvent]], None]] = {
    "text_delta": Content._text_delta,
    "thinking_delta": Content._thinking_delta,
    "signature_delta": Content._signature_delta,
    "input_json_delta": Content._input_delta,
    "citations_delta": Content._citations_delta,
    "compaction_delta": Content._compaction_delta,
}
