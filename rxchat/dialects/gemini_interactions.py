"""
Gemini's Interactions API: an event stream of numbered steps, or one JSON body.

    interaction.created   step.start {index, step: {type}}   step.delta {index, delta: {type}}   step.stop {index}   interaction.completed {interaction}

The end is interaction.completed and nothing else (contract P9); `event: done` means nothing. Its status is the finish: completed, requires_action (calls wait),
incomplete; failed is a ProviderError; cancelled aborts. A body that ends without it after a status_update that said failed or cancelled ended so.
A stateless interaction has no id. Usage: input = input + tool use, output = output + thoughts (P4); it may come with any event, as a snapshot.

A step of the API is a block of ours, its index is the block's. Its kinds:

    thought                    thinking; its signature is given when it stops, also without text
    model_output               text, media (MediaPartial and, when it stops, MediaDone for audio in pieces), citations in bytes of that step's text
    function_call              a call; the arguments of its start count only if no arguments_delta follows; its signature is metadata {"signature"}
    function_result            ToolResult: the provider ran the call
    <tool>_call, <tool>_result a tool of the provider, kind <tool>; what it found is also a SearchResult
    user_input                 what was asked; passed over
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, ClassVar, NoReturn

from rxchat.dialects.base import Context, Dialect, Parser, UsageFold, integer, mapping, sequence, string
from rxchat.dialects.gemini import usage_formula
from rxchat.dialects.gemini_steps import Steps
from rxchat.errorbody import error_in, provider_error
from rxchat.errors import IncompleteStreamError, ProviderError
from rxchat.events import ChatEvent, Status
from rxchat.framing.frames import SseEvent
from rxchat.outgoing.gemini_interactions import build
from rxchat.response import FinishReason
from rxchat.stage import Emit

__all__ = ["GEMINI_INTERACTIONS"]


def _read_usage(raw: Mapping[str, Any]) -> dict[str, int | None]:
    return {
        "input_tokens": integer(raw.get("total_input_tokens")),
        "output_tokens": integer(raw.get("total_output_tokens")),
        "cache_read_tokens": integer(raw.get("total_cached_tokens")),
        "reasoning_tokens": integer(raw.get("total_thought_tokens")),
        "tool_use_prompt_tokens": integer(raw.get("total_tool_use_tokens")),
        "total_tokens": integer(raw.get("total_tokens")),
    }


class InteractionsParser(Parser):
    """
    Events of one interaction.
    """

    finish_reasons: ClassVar[Mapping[str, FinishReason]] = {
        "completed": FinishReason.STOP,
        "requires_action": FinishReason.TOOL_CALLS,
        "incomplete": FinishReason.LENGTH,
        "budget_exceeded": FinishReason.LENGTH,
    }

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self._steps = Steps(self)
        self._status: str | None = None
        self._usage = UsageFold(_read_usage, usage_formula)

    # Frames ----------------------------------------------------------------------------------------------------------------------------------

    def on_sentinel(self, event: SseEvent, emit: Emit[ChatEvent]) -> bool:
        return event.raw.strip() == b"[DONE]"

    def on_event(self, value: Any, event: SseEvent, emit: Emit[ChatEvent]) -> None:
        if not isinstance(value, dict):
            raise self.malformed(f"an event is {type(value).__name__}, not an object")
        name = string(value.get("event_type")) or event.event
        for said in (value, mapping(value.get("metadata"))):
            self._usage.update(said.get("usage"), emit)
        handler = _HANDLERS.get(name)
        if handler is not None:
            handler(self, value, emit)
        elif name == "error" or error_in(value) is not None:
            raise provider_error(value)
        else:
            self.unknown(name, value, emit)

    def on_body(self, value: Any, emit: Emit[ChatEvent]) -> None:
        if not isinstance(value, dict) or ("status" not in value and error_in(value) is None):
            raise self.malformed("the body is no interaction")
        if "status" not in value:
            raise provider_error(value)
        self._learn(value, emit)
        self._end(value, emit)

    def on_eof(self, emit: Emit[ChatEvent]) -> None:
        self._failed({}, self._status, emit)
        raise IncompleteStreamError("the body ended before interaction.completed", self.offset)

    # The interaction -------------------------------------------------------------------------------------------------------------------------

    def _learn(self, interaction: Mapping[str, Any], emit: Emit[ChatEvent]) -> None:
        self.open_step(emit, interaction.get("id"), interaction.get("model") or interaction.get("agent"))
        self._usage.update(interaction.get("usage"), emit)

    def _created(self, value: Mapping[str, Any], emit: Emit[ChatEvent]) -> None:
        interaction = mapping(value.get("interaction"))
        self._learn(interaction, emit)
        self._progress(interaction.get("status"), emit)

    def _updated(self, value: Mapping[str, Any], emit: Emit[ChatEvent]) -> None:
        interaction = mapping(value.get("interaction"))
        self._learn({"id": value.get("interaction_id"), **interaction}, emit)
        self._progress(value.get("status") or interaction.get("status"), emit)

    def _progress(self, status: Any, emit: Emit[ChatEvent]) -> None:
        word = string(status)
        if word and word != self._status:
            self._status = word
            emit(Status(word))

    def _completed(self, value: Mapping[str, Any], emit: Emit[ChatEvent]) -> None:
        interaction = value.get("interaction")
        if not isinstance(interaction, dict):
            raise self.malformed("interaction.completed without its interaction")
        self._learn(interaction, emit)
        self._end(interaction, emit)

    def _end(self, interaction: Mapping[str, Any], emit: Emit[ChatEvent]) -> NoReturn:
        """
        The interaction is over. Its own list of steps counts only if none was streamed.
        """
        if not self._steps.seen:
            for index, step in enumerate(sequence(interaction.get("steps"))):
                self._steps.start(index, step, emit)
                self._steps.stop(index, emit)
        self._steps.seal(emit)
        status = string(interaction.get("status"))
        self._failed(interaction, status, emit)
        if status is None:
            self.set_finish(None)
        else:
            self._steps.finish(status, self.finish_reasons.get(status, FinishReason.OTHER), emit)
        self.end_response(emit)

    def _failed(self, interaction: Mapping[str, Any], status: str | None, emit: Emit[ChatEvent]) -> None:
        """
        Raise for a status that is no end of an answer.
        """
        if status == "cancelled":
            self.set_finish(status, FinishReason.OTHER)
            self.abort_response(status, emit)
        if status == "failed":
            self.set_finish(status, FinishReason.ERROR)
            raise provider_error(interaction) if error_in(interaction) is not None else ProviderError("the interaction failed", type=status)

    # Its steps -------------------------------------------------------------------------------------------------------------------------------

    def _step_start(self, value: Mapping[str, Any], emit: Emit[ChatEvent]) -> None:
        self.open_step(emit)
        self._steps.start(self._index(value), value.get("step"), emit)

    def _step_delta(self, value: Mapping[str, Any], emit: Emit[ChatEvent]) -> None:
        self.open_step(emit)
        self._steps.delta(self._index(value), value.get("delta"), emit)

    def _step_stop(self, value: Mapping[str, Any], emit: Emit[ChatEvent]) -> None:
        self._steps.stop(self._index(value), emit)

    def _index(self, value: Mapping[str, Any]) -> int:
        index = integer(value.get("index"))
        if index is None:
            raise self.malformed("a step without its index")
        return index


_HANDLERS: Mapping[str, Callable[[InteractionsParser, Mapping[str, Any], Emit[ChatEvent]], None]] = {
    "interaction.created": InteractionsParser._created,
    "interaction.completed": InteractionsParser._completed,
    "step.start": InteractionsParser._step_start,
    "step.delta": InteractionsParser._step_delta,
    "step.stop": InteractionsParser._step_stop,
    # A status of its own name is an update too.
    **dict.fromkeys(
        (
            "interaction.status_update",
            "interaction.queued",
            "interaction.in_progress",
            "interaction.requires_action",
            "interaction.incomplete",
            "interaction.budget_exceeded",
            "interaction.failed",
            "interaction.cancelled",
        ),
        InteractionsParser._updated,
    ),
}


GEMINI_INTERACTIONS = Dialect(
    name="gemini-interactions",
    framings={"text/event-stream": "sse", "application/json": "json"},
    parser=InteractionsParser,
    doc="Google Gemini Interactions",
    request=build,
)
