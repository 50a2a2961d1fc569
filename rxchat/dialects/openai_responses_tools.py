"""
Tools of the Responses protocol: calls the client runs, tools the provider runs, and items the client must answer.
"""

from __future__ import annotations

import json
from typing import Any

from rxchat.dialects.base import mapping, sequence, string
from rxchat.dialects.openai_responses_base import FAILED, Fields, Host, Item, Out, ToldText
from rxchat.dialects.openai_responses_fields import item_media, search_results
from rxchat.errors import InvalidJSONError
from rxchat.events import ServerToolArgsDelta, ServerToolResult, ServerToolStart, ToolCallArgsDelta, ToolCallEnd, ToolCallStart
from rxchat.response import ToolCall
from rxchat.strictjson import loads

__all__ = ["CallItem", "ServerItem"]

# xAI's own search comes as a custom tool call; only its call id tells that nobody is asked to run it.
SERVER_CALL_PREFIX = "xs_call_"
# What has a place of its own in ToolCall; the rest of an item (id, namespace, caller) goes back with the call.
CALL_FIELDS = frozenset({"type", "call_id", "name", "arguments", "input", "status"})

# White space of JSON.
_BLANK = b" \t\r\n"


class CallItem(Item):
    """
    A call of a function or of a free-form tool.

    It ends at its item's done event, not at `arguments.done`: only the item says whether it was cut. Where that stays in doubt, the end of the response
    decides (contract N7).
    """

    __slots__ = ("_ended", "_extra", "_meant", "_read", "_said", "_torn", "call_id", "index", "kind", "name")

    def __init__(self, host: Host, raw: Fields) -> None:
        super().__init__(host, raw)
        self.index = next(host.calls)
        self.kind = "custom" if self.type == "custom_tool_call" else "function"
        self.call_id = self.name = ""
        self._ended = False
        self._torn = False  # its beginning was never here
        self._said = ToldText()
        self._read = 0
        self._meant: str | None = None  # what was said up to there, as JSON
        self._extra: Fields = {}

    def begin(self, raw: Fields, emit: Out) -> None:
        self._learn(raw)
        emit(ToolCallStart(self.call_id, self.name, self.index, kind=self.kind))

    def say(self, text: str, emit: Out) -> None:
        """
        A fragment of the arguments, not empty.
        """
        self._said.add(text)
        emit(ToolCallArgsDelta(text, self.call_id, self.index))

    def settle(self, final: Any, emit: Out) -> None:
        """
        The final arguments; DialectError if they contradict what was said.
        """
        text = self.host.arguments(final)
        rest = self._said.remainder(text)
        if rest:
            self.say(rest, emit)
        elif rest is None and not self._means(text):
            self._torn = self.host.torn = self.came_late(self._said, text)
            if not self._torn:
                raise self.host.malformed("the final arguments of a call differ from their fragments")

    def _means(self, text: str) -> bool:
        """
        Whether that is the same JSON as what was said, which is read again only if more than white space came.
        """
        with self._said.getbuffer() as said:
            grown, self._read = bytes(said[self._read :]), len(said)
        if grown.strip(_BLANK):
            self._meant = _meaning(self._said.text)
        return self._meant is not None and self._meant == _meaning(text)

    def finish(self, raw: Fields, emit: Out) -> None:
        self._learn(raw)
        self.settle(raw.get("input" if self.kind == "custom" else "arguments"), emit)
        status = raw.get("status")
        if status in ("completed", "incomplete") or _is_object(self._said.text):
            self.end(status != "incomplete" and not self._torn, emit)

    def end(self, complete: bool, emit: Out) -> None:
        """
        The call is over, once.
        """
        if not self._ended:
            self._ended = True
            served = self.kind == "custom" and self.call_id.startswith(SERVER_CALL_PREFIX)
            call = ToolCall(
                self.call_id, self.name, complete=complete, index=self.index, kind=self.kind, server_executed=served, metadata=self._extra or None
            )
            emit(ToolCallEnd(call))

    def _learn(self, raw: Fields) -> None:
        self.call_id = self.call_id or string(raw.get("call_id")) or ""
        self.name = self.name or string(raw.get("name")) or ""
        self._extra = {key: value for key, value in raw.items() if key not in CALL_FIELDS and value is not None}


def _is_object(text: str) -> bool:
    try:
        return isinstance(loads(text), dict)
    except InvalidJSONError:
        return False


def _meaning(text: str) -> str | None:
    try:
        return json.dumps(loads(text), sort_keys=True)
    except InvalidJSONError:
        return None


# --- tools of the provider, items for the client ------------------------------------------------------------------------------------------------------

# Items the client must answer (contract P12), as far as the type alone tells.
CLIENT_ITEMS = frozenset({"apply_patch_call", "computer_call", "local_shell_call", "mcp_approval_request"})


def needs_client(raw: Fields) -> bool:
    """
    Whether nobody but the client can answer the item: shells outside a container and tool searches said to run there, too.
    """
    kind = raw.get("type")
    if kind == "shell_call":
        return "action" in raw and not str(mapping(raw.get("environment")).get("type")).startswith("container")
    return kind in CLIENT_ITEMS or (kind == "tool_search_call" and raw.get("execution") == "client")


def called_with(raw: Fields) -> Any:
    """
    What a provider's tool was called with, as its delta events spell it: code, a diff, commands one a line, or arguments.
    """
    commands = [command for command in sequence(mapping(raw.get("action")).get("commands")) if isinstance(command, str)]
    return raw.get("code") or mapping(raw.get("operation")).get("diff") or "\n".join(commands) or raw.get("arguments")


class ServerItem(Item):
    """
    A tool the provider runs, or an item the client must answer.

    Either is announced, then whole: a tool's ServerToolResult, or, where nobody has answered yet, a ServerToolStart with a payload (contract P12). Both bring
    the item as it came. An item for the client is announced only if there are fragments to show before it is whole.
    """

    __slots__ = ("_announced", "_command", "_name", "_said", "failed", "needs_client")

    def __init__(self, host: Host, raw: Fields) -> None:
        super().__init__(host, raw)
        self.id = self.id or string(raw.get("call_id"))
        self.failed = False
        self.needs_client = False
        self._announced = False
        self._name = string(raw.get("name")) or self.type.removesuffix("_call")
        self._said = ToldText()
        self._command = 0

    def begin(self, raw: Fields, emit: Out) -> None:
        self.needs_client = needs_client(raw)
        if not self.needs_client:
            self._announce(emit)

    def _announce(self, emit: Out, payload: Fields | None = None) -> None:
        if payload is not None or not self._announced:
            self._announced = True
            emit(ServerToolStart(self.type, self.id, self._name, payload, self.needs_client))

    def say(self, text: str, emit: Out) -> None:
        """
        A fragment of what the tool is called with, not empty.
        """
        self._announce(emit)
        self._said.add(text)
        emit(ServerToolArgsDelta(self.type, text, self.id))

    def command(self, text: str, number: Any, emit: Out) -> None:
        """
        A fragment of one of several shell commands: each on its own line.
        """
        if type(number) is int and number != self._command:
            text, self._command = "\n" + text, number
        self.say(text, emit)

    def settle(self, final: Any, emit: Out) -> None:
        """
        All it was called with. Nothing runs it here: a contradiction is only counted.
        """
        rest = self._said.remainder(self.host.arguments(final))
        if rest:
            self.say(rest, emit)
        elif rest is None:
            self.host.unknown(f"differing final arguments of {self.type}", final, emit)

    def finish(self, raw: Fields, emit: Out) -> None:
        self.needs_client = needs_client(raw)
        if self.needs_client:
            self._ask(raw, emit)
        else:
            self._answered(raw, emit)

    def _ask(self, raw: Fields, emit: Out) -> None:
        announced = self._announced
        if not announced:
            self._announce(emit, raw)
        self.settle(called_with(raw), emit)
        if announced:
            self._announce(emit, raw)

    def _answered(self, raw: Fields, emit: Out) -> None:
        self.settle(called_with(raw), emit)
        for hit in search_results(raw):
            emit(hit)
        for media in item_media(raw, self.id):
            emit(media)
        failed = self.failed or raw.get("status") in FAILED or bool(raw.get("error"))
        emit(ServerToolResult(self.type, self.id, raw, failed, self._name))
