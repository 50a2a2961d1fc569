"""
DashScope's own API (Qwen): an event stream whose frames hold all or the new part of the answer, or one JSON body.

    id:1 / event:result / :HTTP_STATUS/200 / data:{"output": {"choices": [{"message": {...}, "finish_reason": "null"}]}, "usage", "request_id"}

The request decides what a frame repeats, and the wire does not say it: option `incremental_output` (false, as the API's own default: every frame repeats all so
far). Read so, a frame that does not begin with what was there is a DialectError naming the option, never doubled text. `result_format` text puts the answer
into `output.text`; both shapes are read whatever the option says.

The end is a finish_reason other than "" and "null", then a clean end of the body; a last frame without its blank line counts if its JSON is whole (P9).
Stored bodies have lost the blank lines between frames too: what is held at the end may be many frames, a whole JSON object on each data line.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, ClassVar

from rxchat.dialects.base import Context, Dialect, Option, Parser, UsageFold, integer, mapping, sequence, string
from rxchat.errorbody import error_in, provider_error
from rxchat.errors import IncompleteStreamError, InvalidJSONError
from rxchat.events import (
    ChatEvent,
    Citation,
    SearchResult,
    ServerToolResult,
    ServerToolStart,
    TextDelta,
    ThinkingDelta,
    ToolCallArgsDelta,
    ToolCallEnd,
    ToolCallStart,
)
from rxchat.framing.frames import SseEvent, Undispatched
from rxchat.outgoing.dashscope import build
from rxchat.response import ChatResponse, FinishReason, ToolCall
from rxchat.stage import Emit
from rxchat.strictjson import dumps, loads

__all__ = ["DASHSCOPE"]


def _read_usage(raw: Mapping[str, Any]) -> dict[str, int | None]:
    prompt, output = mapping(raw.get("prompt_tokens_details")), mapping(raw.get("output_tokens_details"))
    cached = prompt.get("cached_tokens") if prompt.get("cached_tokens") is not None else raw.get("cached_tokens")
    reasoning = output.get("reasoning_tokens") if output.get("reasoning_tokens") is not None else raw.get("reasoning_tokens")
    return {
        "input_tokens": integer(raw.get("input_tokens")),
        "output_tokens": integer(raw.get("output_tokens")),
        "total_tokens": integer(raw.get("total_tokens")),
        "cache_read_tokens": integer(cached),
        "cache_write_tokens": integer(prompt.get("cache_creation_input_tokens")),
        "reasoning_tokens": integer(reasoning),
    }


class _Call:
    """
    One call of a choice.
    """

    def __init__(self, call_id: str, name: str, index: int) -> None:
        self.call_id = call_id
        self.name = name
        self.index = index
        self.started = False


class _Choice:
    """
    One choice: how much of each text has been given, its calls, its finish.
    """

    def __init__(self, index: int) -> None:
        self.index = index
        self.calls: dict[int, _Call] = {}
        self.given: dict[Any, str] = {}
        self.finish_raw: str | None = None


class DashScopeParser(Parser):
    """
    Frames of text generation and of the multimodal service.
    """

    finish_reasons: ClassVar[Mapping[str, FinishReason]] = {
        "stop": FinishReason.STOP,
        "length": FinishReason.LENGTH,
        "tool_calls": FinishReason.TOOL_CALLS,
        "content_filter": FinishReason.CONTENT_FILTER,
    }

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self._incremental = bool(self.options.get("incremental_output"))
        self._choices: dict[int, _Choice] = {}
        self._seen: set[str] = set()
        self._usage = UsageFold(_read_usage)

    # Frames ----------------------------------------------------------------------------------------------------------------------------------

    def on_event(self, value: Any, event: SseEvent, emit: Emit[ChatEvent]) -> None:
        if event.event not in ("result", "message", "error"):
            self.unknown(event.event, value, emit)
            return
        self._frame(value, event.event == "error", emit)

    def on_body(self, value: Any, emit: Emit[ChatEvent]) -> None:
        self._frame(value, False, emit)
        if "output" not in value:
            raise self.malformed("the body has no output")
        self._end(emit)

    def on_undispatched(self, held: Undispatched, emit: Emit[ChatEvent]) -> None:
        event = held.event
        if event is None:
            super().on_undispatched(held, emit)
            return
        *before, last = self._held(event.raw)
        for line in before:
            self._frame(self._whole(line, held.start), False, emit)
        self.on_event(self._whole(last, held.start), event, emit)

    def _held(self, raw: bytes) -> list[bytes]:
        """
        The frames of data that were not dispatched: one, or one a line.
        """
        return raw.split(b"\n") if raw.startswith(b"{") and raw.count(b"\n") == raw.count(b"}\n{") else [raw]

    def _whole(self, raw: bytes, start: int) -> Any:
        try:
            return loads(raw, depth=self.limits.json_depth)
        except InvalidJSONError as error:
            raise IncompleteStreamError("the body ends inside an event", start) from error

    def on_eof(self, emit: Emit[ChatEvent]) -> None:
        if not self._choices or any(choice.finish_raw is None for choice in self._choices.values()):
            raise IncompleteStreamError("the body ended before a finish_reason", self.offset)
        if not self.context.clean_eof:
            raise IncompleteStreamError("the end of this body proves nothing", self.offset)
        self._end(emit)

    def _frame(self, value: Any, failed: bool, emit: Emit[ChatEvent]) -> None:
        if not isinstance(value, dict):
            raise self.malformed(f"a frame is {type(value).__name__}, not an object")
        output = value.get("output")
        error = value if failed else error_in(value)
        if error is None and string(value.get("code")) and not output:
            error = value
        if error is None and output is None and "usage" not in value:
            self.unknown("frame", value, emit)
            return
        self.open_step(emit, value.get("request_id"), value.get("model"))
        if isinstance(output, dict):
            self._answer(output, emit)
        elif output is not None:
            raise self.malformed(f"output is {type(output).__name__}, not an object")
        self._usage.update(value.get("usage"), emit)
        if error is not None:
            raise provider_error(error)

    def _answer(self, output: Mapping[str, Any], emit: Emit[ChatEvent]) -> None:
        self._search(mapping(output.get("search_info")), emit)
        for tool in sequence(output.get("tool_info")):
            self._server_tool(mapping(tool), emit)
        choices = output.get("choices")
        if choices is None and ("text" in output or "finish_reason" in output):
            choices = [{"message": {"content": output.get("text")}, "finish_reason": output.get("finish_reason")}]
        for said in sequence(choices):
            self._choice(mapping(said), emit)

    def _choice(self, said: Mapping[str, Any], emit: Emit[ChatEvent]) -> None:
        index = integer(said.get("index")) or 0
        choice = self._choices.setdefault(index, _Choice(index))
        message = mapping(said.get("message"))
        thinking = self._new(choice, "thinking", message.get("reasoning_content"))
        if thinking:
            emit(ThinkingDelta(thinking, choice=index))
        text = self._new(choice, "text", self._text(message.get("content")))
        if text:
            if choice.finish_raw is not None:
                self.after_finish += 1
            emit(TextDelta(text, choice=index))
        for position, call in enumerate(sequence(message.get("tool_calls"))):
            self._call(choice, mapping(call), position, emit)
        if said.get("logprobs"):
            self.metadata.setdefault("logprobs", []).append(said["logprobs"])
        raw = said.get("finish_reason")
        if raw is not None and raw not in ("", "null"):
            if not isinstance(raw, str):
                raise self.malformed(f"a finish_reason is {type(raw).__name__}")
            choice.finish_raw = raw

    def _text(self, content: Any) -> Any:
        if not isinstance(content, list):
            return content
        return "".join(string(mapping(part).get("text")) or "" for part in content)

    def _new(self, choice: _Choice, key: Any, said: Any) -> str:
        """
        What of a text is new: all of it, or what comes behind what was there.
        """
        if said is not None and not isinstance(said, str):
            raise self.malformed(f"{key if isinstance(key, str) else 'arguments'} is {type(said).__name__}, not a text")
        if self._incremental or not said:
            return said or ""
        before = choice.given.get(key, "")
        if not said.startswith(before):
            raise self.malformed("a frame does not repeat the text before it; the request had incremental_output, so set that option to true")
        choice.given[key] = said
        return said[len(before) :]

    def _call(self, choice: _Choice, said: Mapping[str, Any], position: int, emit: Emit[ChatEvent]) -> None:
        function = mapping(said.get("function"))
        index = integer(said.get("index"))
        key = position if index is None else index
        call = choice.calls.get(key) or choice.calls.setdefault(key, _Call("", "", key))
        call.call_id = call.call_id or string(said.get("id")) or ""
        call.name = call.name or string(function.get("name")) or ""
        text = self._new(choice, key, function.get("arguments"))
        if not call.started and (call.name or text):
            call.started = True
            emit(ToolCallStart(call.call_id, call.name, key, choice.index))
        if text:
            emit(ToolCallArgsDelta(text, call.call_id, key, choice.index))

    def _search(self, info: Mapping[str, Any], emit: Emit[ChatEvent]) -> None:
        for hit in sequence(info.get("search_results")):
            said = mapping(hit)
            url, title = string(said.get("url")), string(said.get("title"))
            if (url or title) and self._unseen(["search", url, title]):
                emit(SearchResult(url, title, string(said.get("snippet"))))
                emit(Citation(url, title))
        for tool in sequence(info.get("extra_tool_info")):
            self._server_tool(mapping(tool), emit)

    def _server_tool(self, said: Mapping[str, Any], emit: Emit[ChatEvent]) -> None:
        kind = string(said.get("type")) or string(said.get("tool")) or "tool"
        if said and self._unseen([kind, said]):
            emit(ServerToolStart(kind, payload=said))
            if said.get("result") is not None:
                emit(ServerToolResult(kind, payload=said["result"]))

    def _unseen(self, what: Any) -> bool:
        key = dumps(what)
        new = key not in self._seen
        self._seen.add(key)
        return new

    # The end ---------------------------------------------------------------------------------------------------------------------------------

    def _end(self, emit: Emit[ChatEvent]) -> None:
        for choice in self._choices.values():
            if self._reason(choice).complete:
                for call in choice.calls.values():
                    done = ToolCall(id=call.call_id, name=call.name, index=call.index, complete=True)
                    emit(ToolCallEnd(done, choice.index))
        self.end_response(emit)

    def _reason(self, choice: _Choice) -> FinishReason:
        return FinishReason.UNKNOWN if choice.finish_raw is None else self.finish_reasons.get(choice.finish_raw, FinishReason.OTHER)

    def seed(self, alternatives: Iterable[ChatResponse] = ()) -> ChatResponse:
        first = self._choices.get(0)
        if first is not None:
            self.set_finish(first.finish_raw, self._reason(first))
        others = [
            ChatResponse(choice=index, finish_reason=self._reason(choice), finish_reason_raw=choice.finish_raw)
            for index, choice in sorted(self._choices.items())
            if index
        ]
        return super().seed([*alternatives, *others])


DASHSCOPE = Dialect(
    name="dashscope",
    framings={"text/event-stream": "sse", "application/json": "json"},
    parser=DashScopeParser,
    options={
        "incremental_output": Option(False, "What the request said: true where a frame holds only what is new, false where it repeats everything."),
        "result_format": Option("message", "What the request said; both shapes are read.", ("message", "text")),
    },
    doc="DashScope (Qwen) native API",
    request=build,
)
