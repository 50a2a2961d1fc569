"""
The parser of OpenAI's chat protocol in the default profile: frames, what stands beside the choices, and the ends.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, ClassVar

import attrs

from rxchat.dialects.base import Context, Parser, Repeated, UsageFold, integer, mapping, sequence, string
from rxchat.dialects.openai_choice import THOUGHT_NAMES, Choice, thought_name
from rxchat.dialects.openai_fields import cited, filters, moderations, read_usage, search_hits, usage_formula
from rxchat.errorbody import error_in, flat_error, provider_error
from rxchat.errors import IncompleteStreamError, ProviderError
from rxchat.events import ChatEvent, Citation, Heartbeat, TextDelta, ThinkingDelta
from rxchat.framing.frames import SseEvent, StrayText, Undispatched
from rxchat.response import ChatResponse, FinishReason
from rxchat.stage import Emit
from rxchat.templates import Path, Slot
from rxchat.think_tags import ThinkTagSplitter

__all__ = ["FINISH_REASONS", "OpenAIChatParser"]

# The words of OpenAI, then those its compatibles document for themselves.
FINISH_REASONS: Mapping[str, FinishReason] = {
    "stop": FinishReason.STOP,
    "length": FinishReason.LENGTH,
    "tool_calls": FinishReason.TOOL_CALLS,
    "function_call": FinishReason.TOOL_CALLS,
    "content_filter": FinishReason.CONTENT_FILTER,
    "eos": FinishReason.STOP,
    "end_turn": FinishReason.STOP,
    "STOP": FinishReason.STOP,
    "max_tokens": FinishReason.LENGTH,
    "MAX_TOKENS": FinishReason.LENGTH,
    "model_length": FinishReason.LENGTH,
    "model_context_window_exceeded": FinishReason.LENGTH,
    "sensitive": FinishReason.CONTENT_FILTER,
    "error": FinishReason.ERROR,
    "network_error": FinishReason.ERROR,
    "insufficient_system_resource": FinishReason.ERROR,
}

# What stands beside the choices of a frame: sources and safety notes; and what of a frame and of a choice is kept on the response.
_BESIDE = frozenset({"citations", "search_results", "prompt_filter_results", "prompt_annotations", "moderation"})
_METADATA = frozenset({"system_fingerprint", "service_tier", "provider", "timings", "time_info", "sla_metrics"})
_CHOICE_METADATA = frozenset({"native_finish_reason", "stop_reason", "matched_stop"})

# A frame with none of these is no frame of this dialect.
_KNOWN = _BESIDE | {"choices", "usage", "x_groq"}

# A frame and a choice with none of these, and a delta with only those, say nothing but their text (their metadata came with the first frame).
_LOUD = _BESIDE | {"error", "x_groq", "timings", "time_info", "sla_metrics"}
_LOUD_CHOICE = frozenset({"message", "content_filter_results", "content_filter_result", "usage"})
_PLAIN_DELTA = frozenset({"content", "role", "token_id", "name"})
_PLAIN_THOUGHT = frozenset({"content", "role", *THOUGHT_NAMES})

# What differs in frames that say one more piece of text, of reasoning, or of the arguments of a call.
_BESIDE_TEXT: Mapping[Path, Slot] = {("obfuscation",): Slot.PADDING, ("created",): Slot.COUNT, ("choices", 0, "delta", "token_id"): Slot.COUNT}
_TEXT: Mapping[Path, Slot] = {("choices", 0, "delta", "content"): Slot.TEXT, **_BESIDE_TEXT}
_THOUGHTS: Mapping[str, Mapping[Path, Slot]] = {name: {("choices", 0, "delta", name): Slot.TEXT, **_BESIDE_TEXT} for name in THOUGHT_NAMES}
_CALL: Path = ("choices", 0, "delta", "tool_calls", 0)
_ARGUMENTS: Mapping[Path, Slot] = {(*_CALL, "index"): Slot.INTEGER, (*_CALL, "function", "arguments"): Slot.TEXT, **_BESIDE_TEXT}


class OpenAIChatParser(Parser):
    """
    The default profile.
    """

    finish_reasons: ClassVar[Mapping[str, FinishReason]] = FINISH_REASONS

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self._usage = UsageFold(read_usage, usage_formula)
        self._choices: dict[int, Choice] = {}
        self._quiet: Choice | None = None  # of the last frame, if it was a common one
        self._held: list[ChatEvent] = []  # what came before the step
        self._seen: set[Any] = set()  # what of citations, hits, filter notes and opaque reasoning came already
        self._lists: tuple[Any, Any] = (None, None)  # the source lists of the last frame, mostly repeated in the next
        self._unsaid = FinishReason.UNKNOWN  # what a missing finish_reason means
        self._blocked = False  # the prompt was
        self._snapshots = self.options.get("snapshot") == "message"
        tags = self.options.get("think_tags")
        self._splitter = ThinkTagSplitter(tags) if tags else None

    # Frames ----------------------------------------------------------------------------------------------------------------------------------

    def on_sentinel(self, event: SseEvent, emit: Emit[ChatEvent]) -> bool:
        """
        `[DONE]`; data that are blank (a sign of life); data that are no JSON under a name of their own, an error's text or unknown.
        """
        raw = event.raw
        if raw[:1] == b"{":
            return False
        text = raw.strip()
        if text == b"[DONE]":
            self._done(emit)
        if not text:
            self._early(emit)(Heartbeat())
            return True
        if event.event == "message" or text[:1] in b"{[":
            return False
        if event.event == "error":
            raise provider_error(event.data)
        self.unknown(event.event, event.data, self._early(emit))
        return True

    def on_event(self, value: Any, event: SseEvent, emit: Emit[ChatEvent]) -> None:
        # First the common frames, one more piece of text or of tool calls and nothing else, in few operations.
        self._quiet = None
        try:
            (choice,) = value["choices"]
            delta = choice["delta"]
            state = self._choices[choice["index"]]
        except (KeyError, TypeError, ValueError):
            pass
        else:
            if (
                type(delta) is dict
                and not choice.get("finish_reason")
                and not value.get("usage")
                and not choice.get("logprobs")
                and _LOUD.isdisjoint(value)
                and _LOUD_CHOICE.isdisjoint(choice)
                and (self.response_id or not value.get("id"))
                and (self.model or not value.get("model"))
                and event.event == "message"
            ):
                text = delta.get("content")
                if text and type(text) is str and state.answered and state.finish_raw is None and (len(delta) == 1 or delta.keys() <= _PLAIN_DELTA):
                    self._quiet = state
                    emit(TextDelta(text, None, None, state.index))
                    return
                if (
                    state.reasoned
                    and state.finish_raw is None
                    and (text is None or text == "")
                    and delta.keys() <= _PLAIN_THOUGHT
                    and (name := thought_name(delta))
                ):
                    self._quiet = state
                    emit(ThinkingDelta(delta[name], None, None, state.index))
                    return
                if len(delta) == 1 and type(entries := delta.get("tool_calls")) is list and _CHOICE_METADATA.isdisjoint(choice):
                    # An answer of tools alone has no first frame of text that told the metadata.
                    for key in value:
                        if key in _METADATA:
                            self._note(key, value[key])
                    self._quiet = state
                    for entry in entries:
                        state.calls.take(entry, emit)
                    return
        self._frame(value, event.event, emit)

    def repeats(self, value: Any, event: SseEvent) -> Repeated | None:
        state = self._quiet
        if state is None:
            return None
        delta = value["choices"][0]["delta"]
        choice = state.index
        if name := thought_name(delta):
            return Repeated(_THOUGHTS[name], lambda text, emit: emit(ThinkingDelta(text, None, None, choice)), plain=self._splitter is None)
        if "tool_calls" not in delta:
            return Repeated(_TEXT, lambda text, emit: emit(TextDelta(text, None, None, choice)), plain=self._splitter is None)
        entries = delta["tool_calls"]
        if len(entries) != 1 or entries[0].keys() != {"index", "function"} or entries[0]["function"].keys() != {"arguments"}:
            return None
        return Repeated(_ARGUMENTS, state.calls.more)

    def on_body(self, value: Any, emit: Emit[ChatEvent]) -> None:
        self._frame(value, "message", emit)
        if not isinstance(mapping(value).get("choices"), list):
            raise self.malformed("the body is no chat completion")
        self._end(emit)

    def on_stray(self, stray: StrayText, emit: Emit[ChatEvent]) -> None:
        super().on_stray(stray, self._early(emit))

    def on_undispatched(self, held: Undispatched, emit: Emit[ChatEvent]) -> None:
        if held.event is not None and held.event.raw.strip() == b"[DONE]":
            self._done(emit)
        super().on_undispatched(held, emit)

    def on_eof(self, emit: Emit[ChatEvent]) -> None:
        if not self._choices or any(choice.finish_raw is None for choice in self._choices.values()):
            raise IncompleteStreamError("the body ended before a finish_reason", self.offset)
        if self.options.get("done") == "required" or not self.context.clean_eof:
            raise IncompleteStreamError("the body ended without [DONE]", self.offset)
        self._end(emit)

    def _frame(self, value: Any, name: str, emit: Emit[ChatEvent]) -> None:
        """
        One chunk under its event name, or one whole body.
        """
        if value is None:
            return
        if not isinstance(value, dict):
            raise self.malformed(f"a frame is {type(value).__name__}, not an object")
        error = value if name == "error" else error_in(value)
        choices = value.get("choices")
        if choices is not None and not isinstance(choices, list):
            raise self.malformed(f"choices is {type(choices).__name__}, not a list")
        if error is None and _KNOWN.isdisjoint(value) and not str(value.get("object")).startswith("chat.completion"):
            if flat_error(value):
                raise provider_error(value)
            words = (name if name != "message" else None, string(value.get("type")), string(value.get("object")))
            self.unknown(next(filter(None, words), "frame"), value, self._early(emit))
            return
        if choices or value.get("usage") or string(value.get("id")) or string(value.get("model")):
            self._open(value, emit)
        out = self._early(emit)
        if not _BESIDE.isdisjoint(value):
            self._beside(value, out)
        for key in value:
            if key in _METADATA:
                self._note(key, value[key])
        for choice in choices or ():
            self._choice(choice, emit)
        if value.get("usage"):
            self._usage.update(value["usage"], out)
        if value.get("x_groq"):
            self._usage.update(mapping(value["x_groq"]).get("usage"), out)
        if error is not None:
            raise provider_error(error)

    def _open(self, value: Mapping[str, Any], emit: Emit[ChatEvent]) -> None:
        self.open_step(emit, value.get("id"), value.get("model"))
        if self._held:
            held, self._held = self._held, []
            for event in held:
                emit(event)

    def _early(self, emit: Emit[ChatEvent]) -> Emit[ChatEvent]:
        """
        Where an event goes that may come before the step.
        """
        return emit if self.step_open else self._held.append

    def _beside(self, value: Mapping[str, Any], emit: Emit[ChatEvent]) -> None:
        """
        What stands beside the choices: sources and safety notes.
        """
        lists = (value.get("citations"), value.get("search_results"))
        if lists != self._lists:
            self._lists = lists
            self.emit_new(search_hits(lists[1]), emit)
            self.emit_new(cited(*lists), emit)
        for result in sequence(value.get("prompt_filter_results") or value.get("prompt_annotations")):
            notes = tuple(filters(mapping(result).get("content_filter_results"), 0))
            self._blocked = self._blocked or any(note.blocked for note in notes)
            self.emit_new(notes, emit)
        if value.get("moderation"):
            self.emit_new(moderations(value["moderation"]), emit)

    def _note(self, key: str, value: Any) -> None:
        if value is not None and value != "":
            self.metadata[key] = value

    def emit_new(self, events: Iterable[Any], emit: Emit[ChatEvent]) -> None:
        """
        Emit those that have not come before; a source is the same whatever its title.
        """
        for event in events:
            key = attrs.evolve(event, title=None) if type(event) is Citation else event
            if key not in self._seen:
                self._seen.add(key)
                emit(event)

    def _choice(self, said: Any, emit: Emit[ChatEvent]) -> None:
        if said is None:
            return
        if not isinstance(said, dict):
            raise self.malformed(f"a choice is {type(said).__name__}, not an object")
        index = max(integer(said.get("index")) or 0, 0)
        choice = self._choices.get(index) or self._choices.setdefault(index, Choice(index, self))
        notes = said.get("content_filter_results") or said.get("content_filter_result")
        if notes:
            choice.filtered(notes, emit)
        delta = said.get("delta")
        if delta is None:
            delta = choice.message(said.get("message"), self._snapshots)
        if isinstance(delta, dict):
            choice.delta(delta, emit)
        elif delta is not None:
            raise self.malformed(f"a delta is {type(delta).__name__}, not an object")
        if said.get("usage"):
            self._usage.update(said["usage"], emit)
        if index == 0:
            for key in said:
                if key in _CHOICE_METADATA:
                    self._note(key, said[key])
            if said.get("logprobs"):
                self._logprobs(said["logprobs"])
        raw = said.get("finish_reason")
        if raw is not None and raw != "":
            self._finish(raw, choice, emit)

    def _logprobs(self, said: Any) -> None:
        for key, entries in mapping(said).items():
            if isinstance(entries, list):
                self.metadata.setdefault("logprobs", {}).setdefault(key, []).extend(entries)

    # Ends ------------------------------------------------------------------------------------------------------------------------------------

    def _finish(self, raw: Any, choice: Choice, emit: Emit[ChatEvent]) -> None:
        if not isinstance(raw, str):
            raise self.malformed(f"a finish_reason is {type(raw).__name__}")
        choice.finish(raw, self.finish_reasons.get(raw, FinishReason.OTHER), emit)

    def _done(self, emit: Emit[ChatEvent]) -> None:
        """
        `[DONE]`: the provider has said all it had to say.
        """
        self._open({}, emit)
        self._end(emit)

    def _end(self, emit: Emit[ChatEvent]) -> None:
        if self.options.get("finish") == "optional":
            self._unsaid = FinishReason.STOP
        for choice in self._choices.values():
            if choice.finish_raw is None or self._reason(choice).complete:
                choice.calls.end(emit)
            choice.end(emit)
        first = self._choices.get(0)
        if first is not None and self._reason(first) is FinishReason.ERROR:
            raise ProviderError(f"the provider ended the answer with finish_reason {first.finish_raw}", type=first.finish_raw)
        self.end_response(emit)

    def _reason(self, choice: Choice) -> FinishReason:
        reason = choice.reason(self.finish_reasons, self._unsaid)
        return FinishReason.CONTENT_FILTER if self._blocked and reason.complete else reason

    def seed(self, alternatives: Iterable[ChatResponse] = ()) -> ChatResponse:
        first = self._choices.get(0)
        if first is not None:
            self.set_finish(first.finish_raw, self._reason(first))
        others = [
            ChatResponse(choice=index, finish_reason=self._reason(choice), finish_reason_raw=choice.finish_raw)
            for index, choice in sorted(self._choices.items())
            if index != 0
        ]
        return super().seed([*alternatives, *others])

    def _leave(self, error: Exception, emit: Emit[ChatEvent]) -> None:
        if self._held:
            self._open({}, emit)
        if self._splitter is not None:
            self._splitter.flush(emit)
        super()._leave(error, emit)

    def _counting(self, emit: Emit[ChatEvent]) -> Emit[ChatEvent]:
        counted = super()._counting(emit)
        splitter = self._splitter
        if splitter is None:
            return counted
        return lambda event: splitter.feed(event, counted)
