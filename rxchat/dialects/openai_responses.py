"""
OpenAI's Responses protocol, and what Azure, OpenRouter, xAI, DeepSeek, LM Studio, Bedrock, Copilot and the ChatGPT backend make of it.

    response.created, .queued, .in_progress                              ids, model, status
    response.output_item.added / .done, and deltas between               items (openai_responses_items.py)
    response.completed | .incomplete | .failed | .cancelled, or error    the end: nothing behind it is read (contract P9)

Events are told apart by the type in their data; the event name only stands in where the data have none. Items are found by `output_index`, parts by
`content_index` or `summary_index`: ids rotate on some wires. An event without an index is placed by its item id, else it means the last item of its kind.
Items may overlap, close in any order, or not at all: the terminal response then says what is missing, and is not listened to where it lists nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, ClassVar, NoReturn, TypeAlias

from rxchat.dialects.base import Context, Dialect, Parser, Repeated, UsageFold, mapping, sequence, string
from rxchat.dialects.openai_responses_base import Fields, Host, Out
from rxchat.dialects.openai_responses_content import Block, ContentItem, RefusalBlock, TextBlock, ThinkingBlock
from rxchat.dialects.openai_responses_fields import filtered, partial_image, read_usage
from rxchat.dialects.openai_responses_items import Items
from rxchat.dialects.openai_responses_tools import CallItem, ServerItem
from rxchat.errorbody import error_in, provider_error
from rxchat.errors import IncompleteStreamError
from rxchat.events import Abort, ContentFilter, Heartbeat, Status
from rxchat.framing.frames import SseEvent, StrayText
from rxchat.outgoing.openai_responses import build
from rxchat.response import FinishReason
from rxchat.stage import StreamDone
from rxchat.templates import Path, Slot

__all__ = ["OPENAI_RESPONSES", "ResponsesParser"]

Handler: TypeAlias = Callable[["ResponsesParser", Fields, Out], None]

# How a response can end, from good to bad: event and status say it both, and the worse of the two counts.
ENDS = ("completed", "incomplete", "cancelled", "failed")

# Of the response object, what a caller may want and no event says.
METADATA = ("conversation", "content_filters", "moderation", "service_tier")

# What differs in events that say one more piece.
PIECE: Mapping[Path, Slot] = {("delta",): Slot.TEXT, ("sequence_number",): Slot.COUNT, ("obfuscation",): Slot.PADDING}


class ResponsesParser(Parser):
    """
    The events of one response; its JSON body is read as the terminal response of a stream that said nothing before.
    """

    # By incomplete_details.reason, else by status (contract P1).
    finish_reasons: ClassVar[Mapping[str, FinishReason]] = {
        "completed": FinishReason.STOP,
        "max_output_tokens": FinishReason.LENGTH,
        "max_tokens": FinishReason.LENGTH,
        "content_filter": FinishReason.CONTENT_FILTER,
        "failed": FinishReason.ERROR,
    }

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self.host = Host(self.open_step, self.unknown, self.malformed)
        self._usage = UsageFold(read_usage)
        self.items = Items(self.host)
        self._status: str | None = None
        # The block of the last text delta; where it was found is `items.current`. Most events are the next piece of the same text.
        self._block: Block | None = None

    # Frames ------------------------------------------------------------------------------------------------------------------------------------

    def on_event(self, value: Any, event: SseEvent, emit: Out) -> None:
        try:
            handler = EVENTS[value["type"]]
        except (KeyError, TypeError):
            self._on_strange(value, event, emit)
        else:
            handler(self, value, emit)

    def repeats(self, value: Any, event: SseEvent) -> Repeated | None:
        handler = EVENTS.get(str(value.get("type"))) if isinstance(value, dict) else None
        if handler is None or type(value.get("delta")) is not str:
            return None
        if (
            handler is ResponsesParser._on_text
            and type(self._block) is TextBlock
            and self.items.current == (value.get("output_index"), value.get("content_index"))
        ):
            return Repeated(PIECE, self._block.going_on(), plain=True)
        return Repeated(PIECE, lambda text, emit: handler(self, {**value, "delta": text}, emit))

    def on_sentinel(self, event: SseEvent, emit: Out) -> bool:
        """
        `[DONE]` is foreign here; gateways send it behind the terminal response, where it is not read. Before that it says that nothing will follow.
        """
        if event.raw == b"[DONE]":
            raise IncompleteStreamError("[DONE] came before the terminal response", event.start)
        return False

    def on_body(self, value: Any, emit: Out) -> None:
        response = mapping(value)
        status = response.get("status")
        if status not in ENDS and error_in(value) is not None:
            raise provider_error(value)
        if status not in ENDS and not isinstance(response.get("output"), list):
            raise self.malformed("the body is no response")
        if status in ("queued", "in_progress"):
            raise IncompleteStreamError(f"the response is still {status}")
        self._end(response, status if status in ENDS else None, emit)

    def on_stray(self, stray: StrayText, emit: Out) -> None:
        self.refuse_stray(stray)
        self.open_step(emit)
        self.unknown("stray", stray.text, emit)

    def _on_strange(self, value: Any, event: SseEvent, emit: Out) -> None:
        """
        No known type: an error without one, an event only its name tells, or something new.
        """
        if not isinstance(value, dict):
            raise self.malformed("an event is no object")
        kind = string(value.get("type"))
        if kind is None and error_in(value) is not None:
            raise provider_error(value)
        if kind is None and event.event in EVENTS:
            EVENTS[event.event](self, {**value, "type": event.event}, emit)
        else:
            self.open_step(emit)
            self.unknown(kind or event.event, value, emit)

    # The response ------------------------------------------------------------------------------------------------------------------------------

    def _on_status(self, value: Fields, emit: Out) -> None:
        response = self.object(value, "response")
        self._envelope(response, emit)
        status = string(response.get("status")) or value["type"].removeprefix("response.")
        if status != self._status:
            self._status = status
            emit(Status(status))

    def _on_terminal(self, value: Fields, emit: Out) -> None:
        response = self.object(value, "response")
        said, status = value["type"].removeprefix("response."), response.get("status")
        self._end(response, max(said, status if status in ENDS else said, key=ENDS.index), emit)

    def _on_error(self, value: Fields, emit: Out) -> None:
        """
        An `error` event; the response.failed that mostly follows is the same failure, and not read any more.
        """
        if isinstance(value.get("usage"), dict):
            self.open_step(emit)
            self._usage.update(value["usage"], emit)
        self.set_finish(None, FinishReason.ERROR)
        raise provider_error(value)

    def _on_keepalive(self, value: Fields, emit: Out) -> None:
        emit(Heartbeat())

    def _on_progress(self, value: Fields, emit: Out) -> None:
        self.open_step(emit)
        emit(Status(value["type"].removeprefix("response.")))

    def _on_nothing(self, value: Fields, emit: Out) -> None:
        """
        A known event that others repeat.
        """

    def _envelope(self, response: Fields, emit: Out) -> None:
        """
        What a response object says beside its output.
        """
        self.open_step(emit, response.get("id"), response.get("model"))
        self._usage.update(response.get("usage"), emit)
        self.metadata.update({name: fact for name in METADATA if (fact := response.get(name)) is not None})

    # The end -----------------------------------------------------------------------------------------------------------------------------------

    def _end(self, response: Fields, end: str | None, emit: Out) -> NoReturn:
        """
        The terminal response; `end` is one of ENDS, None if it does not say how it ended.
        """
        self._envelope(response, emit)
        if end in ("failed", "cancelled"):
            self._broken(response, end, emit)
        self.items.settle([self.object({"item": item}, "item") for item in sequence(response.get("output"))], emit)
        self._conclude(response, end, emit)
        self.end_response(emit)

    def _broken(self, response: Fields, end: str, emit: Out) -> NoReturn:
        self.set_finish(end)
        if end == "failed":
            error = response.get("error")
            raise provider_error(error if isinstance(error, dict | str) and error else {"message": "the response failed"})
        self.end_step(emit)
        emit(Abort(end))
        raise StreamDone

    def _conclude(self, response: Fields, end: str | None, emit: Out) -> None:
        """
        Why it ended, by the reason, else by the status (contract P1), and what that means for its calls.
        """
        raw = string(mapping(response.get("incomplete_details")).get("reason")) or end
        self.set_finish(raw)
        findings = list(filtered(response))
        blocked = any(finding.blocked for finding in findings)
        if self.finish is FinishReason.CONTENT_FILTER and not blocked:
            findings.append(ContentFilter("content_filter", blocked=True))
        if self.finish is FinishReason.STOP:
            self.set_finish(raw, self._no_stop(blocked))
        for finding in findings:
            emit(finding)
        for call in self.items.calls:
            call.end(self.finish is not None and self.finish.complete, emit)
        if self.host.phases:
            self.metadata["phases"] = dict(self.host.phases)

    def _no_stop(self, blocked: bool) -> FinishReason | None:
        """
        What counts more than a normal stop: a filter that blocked, a refusal (contract V7), and that parts of the answer are not here (V2).
        """
        if blocked:
            return FinishReason.CONTENT_FILTER
        if self.host.refused:
            return FinishReason.REFUSAL
        return FinishReason.OTHER if self.host.torn else None

    # Items -------------------------------------------------------------------------------------------------------------------------------------

    def _on_added(self, value: Fields, emit: Out) -> None:
        self.items.added(self.object(value, "item"), value.get("output_index"), emit)

    def _on_done(self, value: Fields, emit: Out) -> None:
        self.items.done(self.object(value, "item"), value.get("output_index"), emit)

    def object(self, value: Fields, name: str) -> Fields:
        """
        An object of a known frame; DialectError if it is none.
        """
        found = value.get(name)
        if not isinstance(found, dict):
            raise self.malformed(f"{name} is no object")
        return found

    # Content -----------------------------------------------------------------------------------------------------------------------------------

    def _on_text(self, value: Fields, emit: Out) -> None:
        place = (value.get("output_index"), value.get("content_index"))
        block = self._block
        if block is None or place != self.items.current:
            item: ContentItem = self.items.meant(value, "message", emit)
            block = self._block = item.block("content", place[1], TextBlock)
            self.items.current = place if type(place[0]) is int else None
        text = value.get("delta")
        if type(text) is not str:
            text = self.host.text(value, "delta")
        if text:
            block.say(text, emit)

    def _on_annotation(self, value: Fields, emit: Out) -> None:
        raw = self.object(value, "annotation")
        item: ContentItem = self.items.meant(value, "message", emit)
        block = item.block("content", value.get("content_index"), TextBlock)
        if isinstance(block, TextBlock):
            block.cite(raw, value.get("annotation_index"), emit)

    def _on_image(self, value: Fields, emit: Out) -> None:
        item: ServerItem = self.items.meant(value, "image_generation_call", emit)
        partial = partial_image(value, item.id)
        if partial is not None:
            emit(partial)


# --- the table of events --------------------------------------------------------------------------------------------------------------------------


def _piece(kind: str, space: str, block: type[Block]) -> Handler:
    """
    A fragment of a block.
    """

    def handle(parser: ResponsesParser, value: Fields, emit: Out) -> None:
        text = parser.host.text(value, "delta")
        item: ContentItem = parser.items.meant(value, kind, emit)
        if text:
            item.block(space, value.get(f"{space}_index"), block).say(text, emit)

    return handle


def _whole(kind: str, space: str, block: type[Block]) -> Handler:
    """
    The final text of a block.
    """

    def handle(parser: ResponsesParser, value: Fields, emit: Out) -> None:
        text = parser.host.text(value, block.key)
        item: ContentItem = parser.items.meant(value, kind, emit)
        item.settle(item.block(space, value.get(f"{space}_index"), block), text, emit)

    return handle


def _part(kind: str, space: str) -> Handler:
    """
    The final form of a part.
    """

    def handle(parser: ResponsesParser, value: Fields, emit: Out) -> None:
        raw = parser.object(value, "part")
        item: ContentItem = parser.items.meant(value, kind, emit)
        item.part(space, value.get(f"{space}_index"), raw, emit)

    return handle


def _arguments(kind: str) -> Handler:
    """
    A fragment of what a tool is called with, ours or the provider's.
    """

    def handle(parser: ResponsesParser, value: Fields, emit: Out) -> None:
        text = parser.host.text(value, "delta")
        item: CallItem | ServerItem = parser.items.meant(value, kind, emit)
        if text:
            item.say(text, emit)

    return handle


def _all_arguments(kind: str, key: str) -> Handler:
    """
    All of them.
    """

    def handle(parser: ResponsesParser, value: Fields, emit: Out) -> None:
        item: CallItem | ServerItem = parser.items.meant(value, kind, emit)
        item.settle(value.get(key), emit)

    return handle


def _command(parser: ResponsesParser, value: Fields, emit: Out) -> None:
    """
    A fragment of one of the commands of a shell call.
    """
    text = parser.host.text(value, "delta")
    item: ServerItem = parser.items.meant(value, "shell_call", emit)
    if text:
        item.command(text, value.get("command_index"), emit)


def _failure(kind: str) -> Handler:
    """
    A tool of the provider failed; its item says so when it is done.
    """

    def handle(parser: ResponsesParser, value: Fields, emit: Out) -> None:
        item: ServerItem = parser.items.meant(value, kind, emit)
        item.failed = True

    return handle


# Progress worth showing; that an item began or ended is said by its own events.
PROGRESS = (
    "code_interpreter_call.interpreting",
    "compaction.compacting",
    "file_search_call.searching",
    "image_generation_call.generating",
    "web_search_call.searching",
)

# Known, and said again by other events.
SILENT = (
    "code_interpreter_call.completed",
    "code_interpreter_call.in_progress",
    "content_part.added",
    "file_search_call.completed",
    "file_search_call.in_progress",
    "image_generation_call.completed",
    "image_generation_call.in_progress",
    "mcp_call.completed",
    "mcp_call.in_progress",
    "mcp_list_tools.completed",
    "mcp_list_tools.in_progress",
    "reasoning_summary_part.added",
    "shell_call_command.added",
    "shell_call_command.done",
    "shell_call_output_content.delta",
    "shell_call_output_content.done",
    "web_search_call.completed",
    "web_search_call.in_progress",
)

EVENTS: Mapping[str, Handler] = {
    "error": ResponsesParser._on_error,
    "keepalive": ResponsesParser._on_keepalive,
    "response.created": ResponsesParser._on_status,
    "response.queued": ResponsesParser._on_status,
    "response.in_progress": ResponsesParser._on_status,
    **{f"response.{end}": ResponsesParser._on_terminal for end in ENDS},
    "response.output_item.added": ResponsesParser._on_added,
    "response.output_item.done": ResponsesParser._on_done,
    "response.output_text.delta": ResponsesParser._on_text,
    "response.output_text.done": _whole("message", "content", TextBlock),
    "response.output_text.annotation.added": ResponsesParser._on_annotation,
    "response.refusal.delta": _piece("message", "content", RefusalBlock),
    "response.refusal.done": _whole("message", "content", RefusalBlock),
    "response.content_part.done": _part("message", "content"),
    "response.reasoning_text.delta": _piece("reasoning", "content", ThinkingBlock),
    "response.reasoning_text.done": _whole("reasoning", "content", ThinkingBlock),
    "response.reasoning_summary_text.delta": _piece("reasoning", "summary", ThinkingBlock),
    "response.reasoning_summary_text.done": _whole("reasoning", "summary", ThinkingBlock),
    "response.reasoning_summary_part.done": _part("reasoning", "summary"),
    "response.function_call_arguments.delta": _arguments("function_call"),
    "response.function_call_arguments.done": _all_arguments("function_call", "arguments"),
    "response.custom_tool_call_input.delta": _arguments("custom_tool_call"),
    "response.custom_tool_call_input.done": _all_arguments("custom_tool_call", "input"),
    "response.code_interpreter_call_code.delta": _arguments("code_interpreter_call"),
    "response.code_interpreter_call_code.done": _all_arguments("code_interpreter_call", "code"),
    "response.mcp_call_arguments.delta": _arguments("mcp_call"),
    "response.mcp_call_arguments.done": _all_arguments("mcp_call", "arguments"),
    "response.apply_patch_call_operation_diff.delta": _arguments("apply_patch_call"),
    "response.apply_patch_call_operation_diff.done": _all_arguments("apply_patch_call", "diff"),
    "response.shell_call_command.delta": _command,
    "response.image_generation_call.partial_image": ResponsesParser._on_image,
    "response.mcp_call.failed": _failure("mcp_call"),
    "response.mcp_list_tools.failed": _failure("mcp_list_tools"),
    **{f"response.{word}": ResponsesParser._on_progress for word in PROGRESS},
    **{f"response.{word}": ResponsesParser._on_nothing for word in SILENT},
}

OPENAI_RESPONSES = Dialect(
    name="openai-responses",
    framings={"text/event-stream": "sse", "application/json": "json"},
    parser=ResponsesParser,
    doc="OpenAI Responses, also from Azure, OpenRouter, xAI, DeepSeek, LM Studio, Bedrock and Copilot",
    request=build,
)
