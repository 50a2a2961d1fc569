"""
Calls of one Gemini candidate: whole in one part, or in pieces.

    {"functionCall": {"name", "args"?, "id"?}}                                                               whole
    {"functionCall": {"name", "willContinue": true}}  {"functionCall": {"partialArgs": [...], "willContinue": true}}  {"functionCall": {}}      in pieces

A part that does not say `willContinue` is the last of its call; a part that says nothing but that means nothing. The text of arguments that come in pieces
is given once, when the call is closed: their paths may jump, so that no beginning of the text is certain before.

ToolCallEnd waits for the word that settles it: a functionResponse in the same stream (the provider ran the call, contract P10), which may come behind a
finishReason, or the end of the stream, whose finish reason may reject the calls (P2).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from heapq import heappop, heappush
from typing import Any

import attrs

from rxchat.call_keys import local_id
from rxchat.dialects.base import Parser, mapping, sequence, string
from rxchat.dialects.gemini_args import PartialArguments
from rxchat.errors import LimitExceeded
from rxchat.events import ChatEvent, ServerToolResult, ToolCallArgsDelta, ToolCallEnd, ToolCallStart, ToolResult
from rxchat.response import FinishReason, ToolCall
from rxchat.stage import Emit
from rxchat.strictjson import dumps

__all__ = ["Calls"]


@attrs.define(eq=False)
class _Call:
    """
    One call; `pieces` where its arguments come in pieces, `closed` once its last part came, `ended` once its END is out.
    """

    id: str
    name: str
    index: int
    signature: str | None = None
    pieces: PartialArguments | None = None
    closed: bool = False
    ended: bool = False


class Calls:
    """
    The calls of one candidate, in order.
    """

    def __init__(self, host: Parser, choice: int) -> None:
        self._host = host
        self._choice = choice
        self._calls: list[_Call] = []
        # By any id and name, by id, or by no id and name: the first call first, perhaps one that was answered or got an id since.
        self._waiting: defaultdict[tuple[str | None, str | None], list[tuple[int, _Call]]] = defaultdict(list)

    def part(self, said: Any, signature: str | None, emit: Emit[ChatEvent]) -> bool:
        """
        A functionCall part; False if it belongs to no call and says something all the same.
        """
        if not isinstance(said, dict):
            raise self._host.malformed(f"a functionCall is {type(said).__name__}, not an object")
        call = self._meant(said, emit)
        if call is None:
            return not said.get("args") and not said.get("partialArgs") and signature is None
        call.signature = signature or call.signature
        self._grow(call, said, emit)
        if said.get("willContinue") is not True:
            self._close(call, emit)
        return True

    def answered(self, said: Any, emit: Emit[ChatEvent]) -> None:
        """
        A functionResponse part: the provider ran the call itself; without a call it is the result of a tool of the provider.
        """
        answer = mapping(said)
        call_id, name = string(answer.get("id")), string(answer.get("name"))
        result = answer.get("response")
        failed = bool(mapping(result).get("error"))
        call = self._asked(call_id, name)
        if call is None:
            emit(ServerToolResult("functionResponse", call_id, result, failed, name))
            return
        self._close(call, emit)
        self._end(call, True, emit, server_executed=True)
        emit(ToolResult(call.id or local_id(self._host.step, self._choice, call.index), result, failed))

    def settle(self, reason: FinishReason, emit: Emit[ChatEvent]) -> None:
        """
        The stream ended so: what was left open is as whole as its finish reason allows; a text that was to go on is not (contract N7).
        """
        for call in self._calls:
            cut = not call.closed and call.pieces is not None and call.pieces.open
            self._close(call, emit)
            self._end(call, reason.complete and not cut, emit)

    def _meant(self, said: Mapping[str, Any], emit: Emit[ChatEvent]) -> _Call | None:
        """
        The call a part goes on with, or the one it begins.
        """
        name, call_id = string(said.get("name")), string(said.get("id"))
        last = self._calls[-1] if self._calls and not self._calls[-1].closed else None
        if last is not None and (name is None or (call_id is not None and call_id == last.id)):
            if call_id is not None and not last.id:
                last.id = call_id
                self._wait(last)
            return last
        if name is None:
            return None
        call = _Call(call_id or "", name, len(self._calls))
        self._calls.append(call)
        self._wait(call)
        emit(ToolCallStart(call.id, call.name, call.index, self._choice))
        return call

    def _grow(self, call: _Call, said: Mapping[str, Any], emit: Emit[ChatEvent]) -> None:
        args = said.get("args")
        if args is not None and not isinstance(args, dict):
            raise self._host.malformed(f"args are {type(args).__name__}, not an object")
        pieces = sequence(said.get("partialArgs"))
        if call.pieces is None and not pieces and said.get("willContinue") is not True:
            self._say(call, dumps(args) if args is not None else "", emit)
            return
        call.pieces = call.pieces or PartialArguments(args, self._host.limits.json_depth)
        for piece in pieces:
            try:
                call.pieces.add(mapping(piece))
            except ValueError as error:
                raise self._host.malformed(str(error)) from error
        if call.pieces.size > self._host.limits.tool_arguments:
            raise LimitExceeded("tool_arguments", self._host.limits.tool_arguments)

    def _close(self, call: _Call, emit: Emit[ChatEvent]) -> None:
        if not call.closed:
            call.closed = True
            if call.pieces is not None:
                self._say(call, call.pieces.text(), emit)

    def _say(self, call: _Call, text: str, emit: Emit[ChatEvent]) -> None:
        if text:
            emit(ToolCallArgsDelta(text, call.id, call.index, self._choice))

    def _end(self, call: _Call, complete: bool, emit: Emit[ChatEvent], *, server_executed: bool = False) -> None:
        if not call.ended:
            call.ended = True
            metadata = {"thoughtSignature": call.signature} if call.signature else None
            done = ToolCall(call.id, call.name, complete=complete, index=call.index, server_executed=server_executed, metadata=metadata)
            emit(ToolCallEnd(done, self._choice))

    def _asked(self, call_id: str | None, name: str | None) -> _Call | None:
        """
        The call of that id, else the first of that name, that has no answer yet.
        """
        by_id = self._first((call_id, None)) if call_id else None
        return by_id or (self._first(("" if call_id else None, name)) if name else None)

    def _first(self, place: tuple[str | None, str | None]) -> _Call | None:
        waiting = self._waiting.get(place, [])
        while waiting and (waiting[0][1].ended or place[0] not in (None, waiting[0][1].id)):
            heappop(waiting)
        return waiting[0][1] if waiting else None

    def _wait(self, call: _Call) -> None:
        """
        An answer may find the call by its id, by its name, or, where the answer has an id, by its name because it has none itself.
        """
        for place in ((None, call.name), (call.id, None) if call.id else ("", call.name)):
            heappush(self._waiting[place], (call.index, call))
