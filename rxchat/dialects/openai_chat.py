"""
OpenAI Chat Completions and the providers that speak it, streamed or as one JSON body.

    data: {"id", "model", "choices": [{"index", "delta": {...}, "finish_reason"}], "usage"}    ...    data: [DONE]

Choices where providers differ:

- The end (contract V5, P9): a finish_reason of every choice seen, then `[DONE]` or a clean end; `[DONE]` alone ends the response with the finish unknown.
- A call is ended by the finish reasons stop, tool_calls and function_call, by `[DONE]`, or by a second id under its index; never by `length`.
- Within a frame: sources and safety notes, then reasoning, text, refusal, calls, media, then the finish, then usage, then the error.
- Reasoning under several names in one delta says the same thing and counts once; opaque reasoning and signatures are kept beside it.
- A `message` is read where there is no `delta`: as a whole answer if nothing came before it, else (a cumulative snapshot) only by option.
- A finish word that is itself a failure is raised at the end as ProviderError, unless the provider's own error object came before.
- Log probabilities are collected in `metadata["logprobs"]` of the response, with the provider's fingerprints and timings; they are no events.
- A step opens with the first frame that has an id, a model or a choice; what comes before it (prompt filter results) waits for it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import attrs

from rxchat.dialects.base import Context, Dialect, Option, Parser, UsageFold, integer, mapping, sequence, string
from rxchat.dialects.openai_calls import ToolCalls
from rxchat.dialects.openai_fields import (
    annotations,
    cited,
    filters,
    image,
    joined_base64,
    moderations,
    read_usage,
    search_hits,
    signature_of,
    usage_formula,
)
from rxchat.dialects.openai_strict import StrictTextParser
from rxchat.errorbody import error_in, provider_error
from rxchat.errors import IncompleteStreamError, InvalidJSONError, ProviderError
from rxchat.events import (
    ChatEvent,
    Citation,
    ContentFilter,
    Heartbeat,
    MediaDone,
    MediaPartial,
    RefusalDelta,
    ServerToolArgsDelta,
    ServerToolResult,
    ServerToolStart,
    TextDelta,
    ThinkingDelta,
    ThinkingRedacted,
    ThinkingSignature,
)
from rxchat.framing.frames import SseEvent, StrayText, Undispatched
from rxchat.response import ChatResponse, FinishReason
from rxchat.stage import Emit
from rxchat.strictjson import loads
from rxchat.think_tags import ThinkTagSplitter, tag_names

__all__ = ["OPENAI_CHAT", "OpenAIChatParser"]

FINISH_REASONS: Mapping[str, FinishReason] = {
    "stop": FinishReason.STOP,
    "eos": FinishReason.STOP,
    "end_turn": FinishReason.STOP,
    "length": FinishReason.LENGTH,
    "model_length": FinishReason.LENGTH,
    "model_context_window_exceeded": FinishReason.LENGTH,
    "tool_calls": FinishReason.TOOL_CALLS,
    "function_call": FinishReason.TOOL_CALLS,
    "content_filter": FinishReason.CONTENT_FILTER,
    "sensitive": FinishReason.CONTENT_FILTER,
    "error": FinishReason.ERROR,
    "network_error": FinishReason.ERROR,
    "insufficient_system_resource": FinishReason.ERROR,
}

# A frame, choice or delta with none of these says nothing but its text. `usage` and `logprobs` are mostly null and looked at by value.
_LOUD = frozenset(
    {"error", "x_groq", "citations", "search_results", "prompt_filter_results", "moderation", "timings", "time_info", "object_error", "detail"}
)
_LOUD_CHOICE = frozenset(
    {"message", "content_filter_results", "content_filter_result", "usage", "native_finish_reason", "stop_reason", "matched_stop"}
)
_PLAIN_DELTA = frozenset({"content", "role", "token_id", "name"})

_KNOWN = frozenset({"choices", "usage", "x_groq", "citations", "search_results", "prompt_filter_results", "prompt_annotations", "moderation"})

# What of a frame, and of the choice that finishes, is kept on the response.
_METADATA = ("system_fingerprint", "service_tier", "provider", "timings", "time_info", "sla_metrics")
_CHOICE_METADATA = ("native_finish_reason", "stop_reason", "matched_stop")


@attrs.define(eq=False)
class _Audio:
    """
    One spoken answer as it comes: base64 pieces and the words of it.
    """

    item_id: str | None = None
    pieces: list[str] = attrs.field(factory=list)
    words: list[str] = attrs.field(factory=list)


@attrs.define(eq=False)
class _Choice:
    """
    What is known of one choice: `answered` and `refused` tell whether text or refusal came, `blocked` whether a filter withheld something.
    """

    index: int
    calls: ToolCalls
    finish_raw: str | None = None
    answered: bool = False
    refused: bool = False
    blocked: bool = False
    audio: _Audio | None = None
    signature: str | None = None
    snapshot: str = ""


class OpenAIChatParser(Parser):
    """
    The default profile.
    """

    finish_reasons = FINISH_REASONS

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self._usage = UsageFold(read_usage, usage_formula)
        self._choices: dict[int, _Choice] = {}
        self._held: list[ChatEvent] = []
        self._seen: set[Any] = set()  # citations, hits, filter notes, opaque reasoning that came already
        self._lists: tuple[Any, Any] = (None, None)  # the source lists of the last frame, mostly repeated
        self._server_tools: dict[Any, set[str]] = {}
        self._ended = False  # the protocol's own end was reached
        tags = self.options.get("think_tags")
        self._splitter = ThinkTagSplitter(tags) if tags else None

    # Frames ----------------------------------------------------------------------------------------------------------------------------------

    def on_sentinel(self, event: SseEvent, emit: Emit[ChatEvent]) -> bool:
        raw = event.raw
        if raw[:1] == b"{" and event.event == "message":
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
        self.unknown(event.event, event.data, emit)
        return True

    def on_event(self, value: Any, event: SseEvent, emit: Emit[ChatEvent]) -> None:
        if self.step_open:
            # The common frame, one piece of text and nothing else, in few operations.
            try:
                (choice,) = value["choices"]
                delta = choice["delta"]
                text = delta["content"]
                state = self._choices[choice["index"]]
            except (KeyError, TypeError, ValueError):
                pass
            else:
                if (
                    type(text) is str
                    and text
                    and choice.get("finish_reason") is None
                    and (len(delta) == 1 or delta.keys() <= _PLAIN_DELTA)
                    and value.get("usage") is None
                    and choice.get("logprobs") is None
                    and state.answered
                    and state.finish_raw is None
                    and _LOUD.isdisjoint(value)
                    and _LOUD_CHOICE.isdisjoint(choice)
                    and event.event == "message"
                ):
                    emit(TextDelta(text, None, None, state.index))
                    return
        self._frame(value, emit, event.event)

    def on_body(self, value: Any, emit: Emit[ChatEvent]) -> None:
        self._frame(value, emit)
        if not isinstance(mapping(value).get("choices"), list):
            raise self.malformed("the body is no chat completion")
        self._end(emit)

    def on_stray(self, stray: StrayText, emit: Emit[ChatEvent]) -> None:
        text = stray.text.strip()
        text = text[6:].lstrip() if text.startswith("error:") else text
        if text.startswith("{"):
            try:
                value = loads(text, offset=stray.start, depth=self.limits.json_depth)
            except InvalidJSONError:
                value = None
            if error_in(value) is not None or (value and stray.text.lstrip().startswith("error:")):
                raise provider_error(value)
        super().on_stray(stray, self._early(emit))

    def on_undispatched(self, held: Undispatched, emit: Emit[ChatEvent]) -> None:
        if held.event is not None and held.event.raw.strip() == b"[DONE]":
            self._done(emit)
        super().on_undispatched(held, emit)

    def on_eof(self, emit: Emit[ChatEvent]) -> None:
        finished = bool(self._choices) and all(state.finish_raw is not None for state in self._choices.values())
        if not finished:
            raise IncompleteStreamError("the body ended before a finish_reason", self.offset)
        if self.options.get("done") == "required" or not self.context.clean_eof:
            raise IncompleteStreamError("the body ended without [DONE]", self.offset)
        self._end(emit)

    def _frame(self, value: Any, emit: Emit[ChatEvent], event: str = "message") -> None:
        """
        One chunk, or one whole body.
        """
        if value is None:
            return
        if not isinstance(value, dict):
            raise self.malformed(f"a frame is {type(value).__name__}, not an object")
        failed = value if event == "error" else error_in(value)
        choices = value.get("choices")
        if choices is not None and not isinstance(choices, list):
            raise self.malformed(f"choices is {type(choices).__name__}, not a list")
        if choices or (failed is None and (string(value.get("id")) or string(value.get("model")))) or (failed is not None and value.get("usage")):
            self._open(value, emit)
        out = self._early(emit)
        if failed is None and _KNOWN.isdisjoint(value) and not str(value.get("object")).startswith("chat.completion"):
            name = event if event != "message" else string(value.get("type")) or string(value.get("object")) or "frame"
            self.unknown(name, value, out)
            return
        self._around(value, out)
        for choice in choices or ():
            self._choice(choice, emit)
        self._usage.update(value.get("usage"), out)
        self._usage.update(mapping(value.get("x_groq")).get("usage"), out)
        if failed is not None:
            raise provider_error(failed)

    def _open(self, value: Mapping[str, Any], emit: Emit[ChatEvent]) -> None:
        opened = self.step_open
        self.open_step(emit, value.get("id"), value.get("model"))
        if not opened:
            held, self._held = self._held, []
            for event in held:
                emit(event)

    def _early(self, emit: Emit[ChatEvent]) -> Emit[ChatEvent]:
        """
        Where an event goes that may come before the step.
        """
        return emit if self.step_open else self._held.append

    def _around(self, value: Mapping[str, Any], emit: Emit[ChatEvent]) -> None:
        """
        What stands beside the choices: sources, safety notes, metadata.
        """
        lists = (value.get("citations"), value.get("search_results"))
        if lists != self._lists:
            self._lists = lists
            self._new(search_hits(lists[1]), emit)
            self._new(cited(*lists), emit)
        for result in sequence(value.get("prompt_filter_results") or value.get("prompt_annotations")):
            self._filtered(mapping(result).get("content_filter_results"), None, emit)
        self._new(moderations(value.get("moderation")), emit)
        self._note(value, _METADATA)

    def _note(self, said: Mapping[str, Any], keys: Iterable[str]) -> None:
        for key in keys:
            value = said.get(key)
            if value is not None and value != "":
                self.metadata[key] = value

    def _new(self, events: Iterator[Any], emit: Emit[ChatEvent]) -> None:
        """
        Emit those that have not come before; a source is the same whatever its title.
        """
        for event in events:
            key = (Citation, event.url, event.file, event.quoted, event.start, event.end, event.choice) if type(event) is Citation else event
            if key not in self._seen:
                self._seen.add(key)
                emit(event)

    def _filtered(self, results: Any, state: _Choice | None, emit: Emit[ChatEvent]) -> None:
        for note in filters(results):
            if note.blocked and state is not None:
                state.blocked = True
            self._new(iter((note,)), emit)

    # Choices ---------------------------------------------------------------------------------------------------------------------------------

    def _choice(self, choice: Any, emit: Emit[ChatEvent]) -> None:
        if choice is None:
            return
        if not isinstance(choice, dict):
            raise self.malformed("a choice is no object")
        state = self._state(integer(choice.get("index")) or 0)
        self._filtered(choice.get("content_filter_results") or choice.get("content_filter_result"), state, emit)
        delta = choice.get("delta")
        if delta is None:
            delta = self._message(choice.get("message"), state)
        if isinstance(delta, dict):
            self._delta(delta, state, emit)
        elif delta is not None:
            raise self.malformed("a delta is no object")
        if choice.get("logprobs"):
            self._logprobs(choice["logprobs"], state)
        self._usage.update(choice.get("usage"), emit)
        raw = choice.get("finish_reason")
        if raw:
            self._finish(raw, state, choice, emit)

    def _state(self, index: int) -> _Choice:
        state = self._choices.get(index)
        if state is None:
            state = self._choices[index] = _Choice(index, ToolCalls(index))
        return state

    def _message(self, message: Any, state: _Choice) -> Any:
        """
        A `message` without a delta as a delta: all of it at first, later what is new in it, if snapshots are read at all.
        """
        if self.options.get("snapshot") != "message":
            return None if state.answered or state.calls else message
        text = mapping(message).get("content")
        if not isinstance(text, str):
            return message
        if not text.startswith(state.snapshot):
            raise self.malformed("a snapshot does not continue the one before")
        new, state.snapshot = text[len(state.snapshot) :], text
        return {**message, "content": new}

    def _delta(self, delta: Mapping[str, Any], state: _Choice, emit: Emit[ChatEvent]) -> None:
        self._new(annotations(delta.get("annotations"), state.index), emit)
        self._thinking(delta, state, emit)
        self._content(delta.get("content"), state, emit)
        refusal = string(delta.get("refusal"))
        if refusal:
            state.refused = True
            emit(RefusalDelta(refusal, state.index))
        self._calls(delta, state, emit)
        for tool in sequence(delta.get("executed_tools")):
            self._server_tool(mapping(tool), state, emit)
        if isinstance(delta.get("audio"), dict):
            self._audio(delta["audio"], state, emit)
        for part in sequence(delta.get("images")):
            self._image(part, state, emit)

    def _thinking(self, delta: Mapping[str, Any], state: _Choice, emit: Emit[ChatEvent]) -> None:
        details = [detail for detail in sequence(delta.get("reasoning_details")) if isinstance(detail, dict)]
        text = string(delta.get("reasoning_content")) or string(delta.get("reasoning"))
        if text is None and details:
            text = "".join(string(detail.get("text")) or string(detail.get("summary")) or "" for detail in details)
        if text:
            emit(ThinkingDelta(text, None, None, state.index))
        for detail in details:
            self._seal(string(detail.get("signature")), state, emit)
            self._opaque(string(detail.get("data")), string(detail.get("id")), state, emit)
        self._opaque(string(delta.get("reasoning_encrypted")), None, state, emit)
        self._seal(signature_of(delta), state, emit)

    def _seal(self, signature: str | None, state: _Choice, emit: Emit[ChatEvent]) -> None:
        if signature and signature != state.signature:
            state.signature = signature
            emit(ThinkingSignature(signature, None, None, state.index))

    def _opaque(self, data: str | None, item_id: str | None, state: _Choice, emit: Emit[ChatEvent]) -> None:
        if data:
            self._new(iter((ThinkingRedacted(data, None, item_id, state.index),)), emit)

    def _content(self, content: Any, state: _Choice, emit: Emit[ChatEvent]) -> None:
        if isinstance(content, str):
            if content:
                self._text(content, state, emit)
        elif isinstance(content, list):
            for part in content:
                self._part(part, state, emit)
        elif content is not None:
            raise self.malformed(f"content is {type(content).__name__}")

    def _text(self, text: str, state: _Choice, emit: Emit[ChatEvent]) -> None:
        state.answered = True
        if state.finish_raw is not None:
            self.after_finish += 1
        emit(TextDelta(text, None, None, state.index))

    def _part(self, part: Any, state: _Choice, emit: Emit[ChatEvent]) -> None:
        """
        One part of a content array.
        """
        if isinstance(part, str):
            self._content(part, state, emit)
            return
        said = mapping(part)
        kind = string(said.get("type")) or ("text" if "text" in said else "part")
        if kind in ("text", "output_text"):
            self._content(said.get("text"), state, emit)
        elif kind in ("thinking", "reasoning"):
            text = _spoken(said.get("thinking") or said.get("summary") or said.get("text"))
            if text:
                emit(ThinkingDelta(text, None, None, state.index))
            for holder in (said, *sequence(said.get("summary"))):
                self._seal(string(mapping(holder).get("signature")), state, emit)
        elif kind == "refusal":
            self._delta({"refusal": said.get("refusal")}, state, emit)
        elif kind == "image_url":
            self._image(said, state, emit)
        else:
            self.unknown(f"content.{kind}", part, emit)

    def _calls(self, delta: Mapping[str, Any], state: _Choice, emit: Emit[ChatEvent]) -> None:
        entries = delta.get("tool_calls")
        if entries:
            if not isinstance(entries, list):
                raise self.malformed("tool_calls is no list")
            for entry in entries:
                state.calls.take(entry, emit)
        if delta.get("function_call"):
            state.calls.fragment(delta["function_call"], emit)

    def _server_tool(self, tool: Mapping[str, Any], state: _Choice, emit: Emit[ChatEvent]) -> None:
        """
        A tool the provider runs: the same entry comes again when its output is there.
        """
        kind = string(tool.get("type")) or "tool"
        number = integer(tool.get("index"))
        key = f"{kind}-{state.index}-{len(self._server_tools) if number is None else number}"
        told = self._server_tools.setdefault(key, set())
        if "start" not in told:
            told.add("start")
            emit(ServerToolStart(kind, key, string(tool.get("name"))))
        arguments = string(tool.get("arguments"))
        if arguments and "arguments" not in told:
            told.add("arguments")
            emit(ServerToolArgsDelta(kind, arguments, key))
        output = tool.get("output")
        if output and "output" not in told:
            told.add("output")
            emit(ServerToolResult(kind, key, output, name=string(tool.get("name"))))
        self._new(search_hits(mapping(tool.get("search_results")).get("results")), emit)

    # Media -----------------------------------------------------------------------------------------------------------------------------------

    def _audio(self, said: Mapping[str, Any], state: _Choice, emit: Emit[ChatEvent]) -> None:
        audio = state.audio = state.audio or _Audio()
        audio.item_id = audio.item_id or string(said.get("id"))
        words, data = string(said.get("transcript")), string(said.get("data"))
        if words:
            audio.words.append(words)
        if data:
            audio.pieces.append(data)
            emit(MediaPartial("audio", None, data, None, audio.item_id, len(audio.pieces) - 1))
        if said.get("expires_at"):
            self._spoken(state, emit)

    def _spoken(self, state: _Choice, emit: Emit[ChatEvent]) -> None:
        """
        The spoken answer is over.
        """
        audio, state.audio = state.audio, None
        if audio is not None and (audio.pieces or audio.words):
            emit(MediaDone("audio", None, joined_base64(audio.pieces) or None, None, audio.item_id, None, "".join(audio.words) or None))

    def _image(self, part: Any, state: _Choice, emit: Emit[ChatEvent]) -> None:
        done = image(part)
        if done is None:
            self.unknown("image", part, emit)
        else:
            emit(done)

    def _logprobs(self, said: Any, state: _Choice) -> None:
        if state.index == 0:
            kept = self.metadata.setdefault("logprobs", {})
            for key, entries in mapping(said).items():
                if isinstance(entries, list):
                    kept.setdefault(key, []).extend(entries)

    # Ends ------------------------------------------------------------------------------------------------------------------------------------

    def _finish(self, raw: Any, state: _Choice, choice: Mapping[str, Any], emit: Emit[ChatEvent]) -> None:
        if not isinstance(raw, str):
            raise self.malformed(f"finish_reason is {type(raw).__name__}")
        state.finish_raw = raw
        reason = self.finish_reasons.get(raw, FinishReason.OTHER)
        if reason.complete:
            state.calls.end(emit)
        elif reason is FinishReason.CONTENT_FILTER and not state.blocked:
            state.blocked = True
            emit(ContentFilter(raw, None, True))
        if state.index == 0:
            self._note(choice, _CHOICE_METADATA)

    def _done(self, emit: Emit[ChatEvent]) -> None:
        """
        `[DONE]`: the provider has said all it had to say.
        """
        self._open({}, emit)
        self._end(emit)

    def _end(self, emit: Emit[ChatEvent]) -> None:
        self._ended = True
        for state in self._choices.values():
            if self._reason(state).complete or state.finish_raw is None:
                state.calls.end(emit)
            self._spoken(state, emit)
        if 0 in self._choices and self._reason(self._choices[0]) is FinishReason.ERROR:
            raise ProviderError(f"the provider ended the answer with finish_reason {self._choices[0].finish_raw}", type=self._choices[0].finish_raw)
        self.end_response(emit)

    def _reason(self, state: _Choice) -> FinishReason:
        """
        Why a choice ended, by its word and by what is in it (contract P1).
        """
        raw = state.finish_raw
        if raw is not None:
            reason = self.finish_reasons.get(raw, FinishReason.OTHER)
        else:
            optional = self._ended and self.options.get("finish") == "optional"
            reason = FinishReason.STOP if optional else FinishReason.UNKNOWN
        if reason is not FinishReason.STOP:
            return reason
        if state.blocked:
            return FinishReason.CONTENT_FILTER
        if state.calls:
            return FinishReason.TOOL_CALLS
        return FinishReason.REFUSAL if state.refused and not state.answered else reason

    def seed(self, alternatives: Iterable[ChatResponse] = ()) -> ChatResponse:
        first = self._choices.get(0)
        if first is not None:
            self.set_finish(first.finish_raw, self._reason(first))
        others = [
            ChatResponse(choice=state.index, finish_reason=self._reason(state), finish_reason_raw=state.finish_raw)
            for state in sorted(self._choices.values(), key=lambda state: state.index)
            if state.index != 0
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


def _spoken(value: Any) -> str:
    """
    The text of a thinking part: a text, or a list of text parts.
    """
    if isinstance(value, list):
        return "".join(_spoken(item) for item in value)
    if isinstance(value, dict):
        value = value.get("text")
    return value if isinstance(value, str) else ""


# --- the table line -------------------------------------------------------------------------------------------------------------------------------


@attrs.frozen
class TagsOption(Option):
    """
    true, false, or the names of tags.
    """

    def read(self, name: str, value: Any) -> tuple[str, ...]:
        return tag_names(value)


OPTIONS: Mapping[str, Option] = {
    "done": Option("auto", "Whether a body may end without [DONE] after a finish_reason: auto, or required.", ("auto", "required")),
    "finish": Option(
        "required", "Whether [DONE] without any finish_reason is a whole answer: optional, for servers that never send one.", ("required", "optional")
    ),
    "think_tags": TagsOption(False, "Read tags inside the text as thinking: true for think, thinking and reasoning, or the tags' names."),
    "snapshot": Option(
        "ignore", "A cumulative `message` instead of deltas: ignore it once an answer has begun, or read what is new in each.", ("ignore", "message")
    ),
}


def parser(context: Context) -> Parser:
    """
    The parser of the profile asked for.
    """
    return StrictTextParser(context) if context.profile == "strict_text" else OpenAIChatParser(context)


OPENAI_CHAT = Dialect(
    name="openai-chat",
    framings={"text/event-stream": "sse", "application/json": "json"},
    parser=parser,
    options=OPTIONS,
    profiles=("default", "strict_text"),
    doc="OpenAI Chat Completions and its compatibles",
)
