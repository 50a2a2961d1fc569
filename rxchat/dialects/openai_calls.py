"""
Which tool call a fragment of an OpenAI chat choice belongs to, and when the provider has ended it (contract N2, N7, P3, P6).

Only what the wire says goes on: its index (a missing one and -1 are none), its first non-empty id and name. Order, local ids and what was dropped are the
normalizer's. A fragment belongs to the open call with its id; else to the newest call under its index, a second id or name there being a second call; with
neither, a fragment with a name begins a call and one without continues the last. Ids and names come whole: another one is another call.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import attrs

from rxchat.dialects.base import integer, string
from rxchat.errors import DialectError
from rxchat.events import ChatEvent, ToolCallArgsDelta, ToolCallEnd, ToolCallStart
from rxchat.response import ToolCall
from rxchat.stage import Emit
from rxchat.strictjson import dumps

__all__ = ["ToolCalls"]

# Everything else on an entry is the vendor's and goes back with the call (signatures).
_OWN = frozenset({"index", "id", "type", "function", "custom"})


@attrs.define(eq=False)
class _Call:
    """
    One call as far as the wire has told it.
    """

    index: int | None
    kind: str
    id: str = ""
    name: str = ""
    told: bool = False
    ended: bool = False
    metadata: dict[str, Any] = attrs.field(factory=dict)


class ToolCalls:
    """
    The tool calls of one choice.
    """

    def __init__(self, choice: int = 0) -> None:
        self._choice = choice
        self._last: _Call | None = None
        self._open: list[_Call] = []
        self._by_id: dict[str, _Call] = {}
        self._by_index: dict[int, _Call] = {}  # the newest call under it

    def __bool__(self) -> bool:
        return self._last is not None

    def take(self, entry: Any, emit: Emit[ChatEvent]) -> None:
        """
        One entry of `tool_calls`; DialectError if it is none.
        """
        if not isinstance(entry, dict):
            raise DialectError("an entry of tool_calls is no object")
        if self._continued(entry, emit):
            return
        kind = "custom" if entry.get("type") == "custom" or isinstance(entry.get("custom"), dict) else "function"
        index = integer(entry.get("index"))
        extra = None if _OWN.issuperset(entry) else {key: value for key, value in entry.items() if key not in _OWN and value is not None}
        known = index if index is None or index >= 0 else None
        self.fragment(entry.get(kind), emit, index=known, call_id=string(entry.get("id")), kind=kind, extra=extra)

    def more(self, piece: tuple[str, int], emit: Emit[ChatEvent]) -> None:
        """
        A fragment and the index it came under, nothing else.
        """
        text, index = piece
        call = self._by_index.get(index)
        if call is not None and call.told and call.kind == "function":
            emit(ToolCallArgsDelta(text, call.id, index, self._choice))
        else:
            self.take({"index": index, "function": {"arguments": text}}, emit)

    def _continued(self, entry: dict[str, Any], emit: Emit[ChatEvent]) -> bool:
        """
        The common entry, one more fragment of a call that was told, in few operations.
        """
        index, body = entry.get("index"), entry.get("function")
        if (
            type(index) is not int
            or type(body) is not dict
            or len(body) != 1
            or not (len(entry) == 2 or (len(entry) == 3 and entry.get("type") == "function"))
        ):
            return False
        call, text = self._by_index.get(index), body.get("arguments")
        if call is None or not call.told or call.kind != "function" or type(text) is not str or not text:
            return False
        emit(ToolCallArgsDelta(text, call.id, index, self._choice))
        return True

    def fragment(
        self,
        body: Any,
        emit: Emit[ChatEvent],
        *,
        index: int | None = None,
        call_id: str | None = None,
        kind: str = "function",
        extra: Mapping[str, Any] | None = None,
    ) -> None:
        """
        A piece of one call: `body` has its name and its arguments (its input, for a custom one).
        """
        if body is not None and not isinstance(body, dict):
            raise DialectError(f"the {kind} of a tool call is no object")
        said = body or {}
        name, text = string(said.get("name")), _text_of(said.get("input" if kind == "custom" else "arguments"))
        if not (call_id or name or text):
            return
        self._say(self._meant(index, call_id, name, emit) or self._begun(index, kind), call_id or "", name or "", text, extra, emit)

    def only(self, body: Any, emit: Emit[ChatEvent]) -> None:
        """
        A piece of the one call there can be (the field before tool_calls): its name may be repeated.
        """
        if isinstance(body, dict) and self:
            body = {"arguments": body.get("arguments")}
        self.fragment(body, emit)

    def _begun(self, index: int | None, kind: str) -> _Call:
        call = _Call(index, kind)
        self._last = call
        self._open.append(call)
        if index is not None:
            self._by_index[index] = call
        return call

    def _say(self, call: _Call, call_id: str, name: str, text: str, extra: Mapping[str, Any] | None, emit: Emit[ChatEvent]) -> None:
        before = (call.id, call.name)
        call.id, call.name = call.id or call_id, call.name or name
        if call_id:
            self._by_id.setdefault(call_id, call)
        # A late id or name is told by a START repeated, where that one can be known by; else by the next fragment, or the END.
        late = before != (call.id, call.name) and (call.index is not None or before[0])
        if late or not call.told:
            call.told = True
            emit(ToolCallStart(call.id, call.name, call.index, self._choice, call.kind))
        if extra:
            call.metadata.update(extra)
        if text:
            emit(ToolCallArgsDelta(text, call.id, call.index, self._choice))

    def end(self, emit: Emit[ChatEvent]) -> None:
        """
        The provider ended every call that is open.
        """
        # A call the wire gave neither id nor index is only known as the newest one open.
        nameless = any(not call.id and call.index is None for call in self._open)
        for call in reversed(self._open) if nameless else self._open:
            self._end(call, emit)
        self._open = []

    def _end(self, call: _Call, emit: Emit[ChatEvent]) -> None:
        if not call.ended:
            call.ended = True
            tool_call = ToolCall(call.id, call.name, index=call.index, complete=True, kind=call.kind, metadata=call.metadata or None)
            emit(ToolCallEnd(tool_call, self._choice))

    def _meant(self, index: int | None, call_id: str | None, name: str | None, emit: Emit[ChatEvent]) -> _Call | None:
        """
        The call a fragment belongs to, None if it begins one; ends the call whose index a second id takes.
        """
        known = self._by_id.get(call_id) if call_id else None
        if known is not None:
            if index is not None:
                self._by_index.setdefault(index, known)
            return known
        if index is None:
            last = self._last
            return None if last is None or (call_id and last.id) or (name and last.name) else last
        newest = self._by_index.get(index)
        if newest is None or not (_differ(call_id, newest.id) or _differ(name, newest.name)):
            return newest
        self._end(newest, emit)
        return None


def _differ(said: str | None, known: str) -> bool:
    return bool(said and known and said != known)


def _text_of(arguments: Any) -> str:
    """
    Arguments are text; where the wire has an object, its compact JSON (contract P3).
    """
    if arguments is None or isinstance(arguments, str):
        return arguments or ""
    if isinstance(arguments, dict):
        return dumps(arguments)
    raise DialectError(f"tool arguments are {type(arguments).__name__}")
