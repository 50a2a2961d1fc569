"""
Cohere's chat: v2 (event stream) and v1 (NDJSON), or one JSON body each.

Choices: the end is `message-end` (v2), `stream-end` or `is_finished` (v1), whether `[DONE]` follows or not (contract P9). A finish word that is itself a
failure (ERROR, ERROR_LIMIT, TIMEOUT) is a ProviderError with the wire's own `error` text; ERROR_TOXIC is a content filter; USER_CANCEL aborts. The tool plan is
thinking (P12). Usage is `tokens`; what was billed stays in the raw object (P4). A citation's sources are one Citation each; v1 names documents by id.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, NoReturn

from rxchat.dialects.base import Context, Dialect, Parser, UsageFold, integer, mapping, sequence, string
from rxchat.dialects.blocks import Blocks, CallBlock, TextBlock, ThinkingBlock, text_of
from rxchat.errorbody import error_in, provider_error
from rxchat.errors import ProviderError
from rxchat.events import ChatEvent, Citation, ContentFilter, SearchResult, ServerToolStart, TextDelta, ThinkingDelta
from rxchat.framing.frames import JsonRecord, SseEvent
from rxchat.outgoing.cohere import build
from rxchat.response import FinishReason
from rxchat.stage import Emit

__all__ = ["COHERE", "COHERE_V1"]

FINISH_REASONS: Mapping[str, FinishReason] = {
    "COMPLETE": FinishReason.STOP,
    "STOP_SEQUENCE": FinishReason.STOP,
    "MAX_TOKENS": FinishReason.LENGTH,
    "TOOL_CALL": FinishReason.TOOL_CALLS,
    "ERROR_TOXIC": FinishReason.CONTENT_FILTER,
    "ERROR": FinishReason.ERROR,
    "ERROR_LIMIT": FinishReason.ERROR,
    "TIMEOUT": FinishReason.ERROR,
}

# The plan is a block of its own, whatever index the content blocks have.
PLAN = "tool_plan"


def _read_usage(raw: Mapping[str, Any]) -> dict[str, int | None]:
    tokens = mapping(raw.get("tokens"))
    return {
        "input_tokens": integer(tokens.get("input_tokens")),
        "output_tokens": integer(tokens.get("output_tokens")),
        "reasoning_tokens": integer(tokens.get("reasoning_tokens")),
        "cache_read_tokens": integer(raw.get("cached_tokens")),
    }


class _CohereParser(Parser):
    """
    What both versions share: calls, finish, usage, errors.
    """

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self.contents = Blocks(self)
        self.calls = Blocks(self)
        self._usage = UsageFold(_read_usage)

    def plan(self, text: Any, emit: Emit[ChatEvent]) -> None:
        """
        A piece of the tool plan.
        """
        said = self.text_or_none("tool_plan", text)
        if said:
            emit(ThinkingDelta(said, None, PLAN))

    def call(self, index: int, call_id: Any, name: Any, arguments: Any, emit: Emit[ChatEvent]) -> None:
        """
        A call begins, with what is known of its arguments.
        """
        label = string(name)
        if label is None:
            raise self.malformed("a tool call without a name")
        self.calls.start(index, CallBlock(self.calls, string(call_id) or "", label), emit)
        if arguments is not None:
            self.calls.arguments(index, text_of(arguments), emit)

    def end(self, raw: Any, usage: Any, error: Any, error_type: Any, emit: Emit[ChatEvent]) -> NoReturn:
        """
        The provider's own end.
        """
        self._usage.update(usage, emit)
        word = string(raw)
        reason = FINISH_REASONS.get(word, FinishReason.OTHER) if word else FinishReason.UNKNOWN
        if word == "USER_CANCEL":
            self.set_finish(word, FinishReason.OTHER)
            self.abort_response(word, emit)
        if word is None:
            self.set_finish(None)
        else:
            self.calls.finish(word, reason, emit)
        if reason is FinishReason.CONTENT_FILTER:
            emit(ContentFilter("toxicity", string(error), blocked=True))
        if reason is FinishReason.ERROR:
            kind = string(error_type) or word
            raise ProviderError(string(error) or f"the provider ended the answer with {word}", code=string(error_type), type=kind, raw=error)
        self.end_response(emit)

    def text_or_none(self, what: str, value: Any) -> str | None:
        """
        A text or null; DialectError for anything else.
        """
        if value is not None and not isinstance(value, str):
            raise self.malformed(f"{what} is {type(value).__name__}, not a text")
        return value

    def refuse_error(self, value: Any, *known: str) -> Mapping[str, Any]:
        """
        The frame as an object; an object with none of the `known` keys and an error in it is one.
        """
        if not isinstance(value, dict):
            raise self.malformed(f"a frame is {type(value).__name__}, not an object")
        if not any(key in value for key in known):
            error = value if string(value.get("message")) else error_in(value)
            if error is not None:
                raise provider_error(error)
        return value


class CohereParser(_CohereParser):
    """
    v2.
    """

    def on_sentinel(self, event: SseEvent, emit: Emit[ChatEvent]) -> bool:
        return event.raw.strip() == b"[DONE]"

    def on_event(self, value: Any, event: SseEvent, emit: Emit[ChatEvent]) -> None:
        frame = self.refuse_error(value, "type")
        name = string(frame.get("type")) or event.event
        handler = _HANDLERS.get(name)
        if handler is None:
            self.unknown(name, frame, emit)
            return
        delta = mapping(frame.get("delta"))
        self.open_step(emit, frame.get("id"))
        if frame.get("logprobs"):
            self.metadata.setdefault("logprobs", []).append(frame["logprobs"])
        handler(self, integer(frame.get("index")) or 0, delta if name == "message-end" else mapping(delta.get("message")), emit)

    def on_body(self, value: Any, emit: Emit[ChatEvent]) -> None:
        body = self.refuse_error(value, "finish_reason")
        if "finish_reason" not in body:
            raise self.malformed("the body is no chat answer")
        self.open_step(emit, body.get("id"))
        if body.get("logprobs"):
            self.metadata["logprobs"] = body["logprobs"]
        message = mapping(body.get("message"))
        self.plan(message.get("tool_plan"), emit)
        for index, part in enumerate(sequence(message.get("content"))):
            self._content_start(index, {"content": part}, emit)
            self._content_end(index, {}, emit)
        for index, call in enumerate(sequence(message.get("tool_calls"))):
            self._call_start(index, {"tool_calls": call}, emit)
            self._call_end(index, {}, emit)
        for citation in sequence(message.get("citations")):
            self._citation(0, {"citations": citation}, emit)
        self._message_end(0, body, emit)

    def _message_start(self, index: int, message: Mapping[str, Any], emit: Emit[ChatEvent]) -> None:
        """
        Nothing but the id, which the step has.
        """

    def _content_start(self, index: int, message: Mapping[str, Any], emit: Emit[ChatEvent]) -> None:
        content = mapping(message.get("content"))
        kind = content.get("type")
        if kind not in ("text", "thinking"):
            self.unknown(f"content {kind}", content, emit)
            return
        self.contents.start(index, ThinkingBlock(index) if kind == "thinking" else TextBlock(index), emit)
        self._content_delta(index, message, emit)

    def _content_delta(self, index: int, message: Mapping[str, Any], emit: Emit[ChatEvent]) -> None:
        content = mapping(message.get("content"))
        thinking = self.text_or_none("thinking", content.get("thinking"))
        if thinking:
            self.contents.thinking(index, thinking, emit)
        text = self.text_or_none("text", content.get("text"))
        if text:
            self.contents.text(index, text, emit)

    def _content_end(self, index: int, message: Mapping[str, Any], emit: Emit[ChatEvent]) -> None:
        self.contents.stop(index, emit)

    def _plan_delta(self, index: int, message: Mapping[str, Any], emit: Emit[ChatEvent]) -> None:
        self.plan(message.get("tool_plan"), emit)

    def _call_start(self, index: int, message: Mapping[str, Any], emit: Emit[ChatEvent]) -> None:
        call = mapping(message.get("tool_calls"))
        function = mapping(call.get("function"))
        self.call(index, call.get("id"), function.get("name"), function.get("arguments"), emit)

    def _call_delta(self, index: int, message: Mapping[str, Any], emit: Emit[ChatEvent]) -> None:
        text = self.text_or_none("arguments", mapping(mapping(message.get("tool_calls")).get("function")).get("arguments"))
        if text:
            self.calls.arguments(index, text, emit)

    def _call_end(self, index: int, message: Mapping[str, Any], emit: Emit[ChatEvent]) -> None:
        self.calls.stop(index, emit)

    def _citation(self, index: int, message: Mapping[str, Any], emit: Emit[ChatEvent]) -> None:
        said = mapping(message.get("citations"))
        for citation in _citations(said, sequence(said.get("sources"))):
            emit(citation)

    def _citation_end(self, index: int, message: Mapping[str, Any], emit: Emit[ChatEvent]) -> None:
        """
        The citation was whole at its start.
        """

    def _message_end(self, index: int, delta: Mapping[str, Any], emit: Emit[ChatEvent]) -> None:
        self.end(delta.get("finish_reason"), delta.get("usage"), delta.get("error"), delta.get("error_type"), emit)


_Handler = Callable[[CohereParser, int, Mapping[str, Any], Emit[ChatEvent]], None]

_HANDLERS: Mapping[str, _Handler] = {
    "message-start": CohereParser._message_start,
    "content-start": CohereParser._content_start,
    "content-delta": CohereParser._content_delta,
    "content-end": CohereParser._content_end,
    "tool-plan-delta": CohereParser._plan_delta,
    "tool-call-start": CohereParser._call_start,
    "tool-call-delta": CohereParser._call_delta,
    "tool-call-end": CohereParser._call_end,
    "citation-start": CohereParser._citation,
    "citation-end": CohereParser._citation_end,
    "message-end": CohereParser._message_end,
}


def _citations(said: Mapping[str, Any], sources: list[Any]) -> Iterator[Citation]:
    """
    One citation a source, one without any source too.
    """
    for source in sources or [{}]:
        document = mapping(mapping(source).get("document")) or mapping(mapping(source).get("tool_output"))
        yield Citation(
            url=string(document.get("url")),
            title=string(document.get("title")),
            quoted=string(said.get("text")),
            file=string(mapping(source).get("id")),
            index=integer(said.get("content_index")),
            start=integer(said.get("start")),
            end=integer(said.get("end")),
        )


class CohereV1Parser(_CohereParser):
    """
    v1.
    """

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self._documents: dict[str, Mapping[str, Any]] = {}

    def on_record(self, value: Any, record: JsonRecord, emit: Emit[ChatEvent]) -> None:
        frame = self.refuse_error(value, "event_type", "is_finished")
        name = string(frame.get("event_type")) or ("stream-end" if frame.get("is_finished") is True else "frame")
        handler = _V1_HANDLERS.get(name)
        if handler is not None:
            self.open_step(emit, frame.get("generation_id"))
            handler(self, frame, emit)
        else:
            self.unknown(name, frame, emit)

    def on_body(self, value: Any, emit: Emit[ChatEvent]) -> None:
        body = self.refuse_error(value, "text", "finish_reason")
        if "text" not in body and "finish_reason" not in body:
            raise self.malformed("the body is no chat answer")
        self.open_step(emit, body.get("generation_id"))
        self._search(body, emit)
        self._text(body, emit)
        self._calls(body, emit)
        self._cite(body, emit)
        self.end(body.get("finish_reason"), body.get("meta"), body.get("error"), None, emit)

    def _start(self, frame: Mapping[str, Any], emit: Emit[ChatEvent]) -> None:
        """
        Nothing but the id, which the step has.
        """

    def _text(self, frame: Mapping[str, Any], emit: Emit[ChatEvent]) -> None:
        text = self.text_or_none("text", frame.get("text"))
        if text:
            emit(TextDelta(text))

    def _search(self, frame: Mapping[str, Any], emit: Emit[ChatEvent]) -> None:
        for document in sequence(frame.get("documents")):
            said = mapping(document)
            self._documents[str(said.get("id"))] = said
            emit(SearchResult(string(said.get("url")), string(said.get("title")), string(said.get("snippet"))))

    def _queries(self, frame: Mapping[str, Any], emit: Emit[ChatEvent]) -> None:
        emit(ServerToolStart("search_queries", payload=frame.get("search_queries")))

    def _cite(self, frame: Mapping[str, Any], emit: Emit[ChatEvent]) -> None:
        for citation in sequence(frame.get("citations")):
            ids = sequence(mapping(citation).get("document_ids"))
            sources = [{"id": each, "document": self._documents.get(str(each), {})} for each in ids]
            for event in _citations(mapping(citation), sources):
                emit(event)

    def _call_chunk(self, frame: Mapping[str, Any], emit: Emit[ChatEvent]) -> None:
        self.plan(frame.get("text"), emit)
        delta = mapping(frame.get("tool_call_delta"))
        index = integer(delta.get("index")) or 0
        if string(delta.get("name")):
            self.call(index, None, delta.get("name"), None, emit)
        text = self.text_or_none("parameters", delta.get("parameters"))
        if text:
            self.calls.arguments(index, text, emit)

    def _calls(self, frame: Mapping[str, Any], emit: Emit[ChatEvent]) -> None:
        for index, call in enumerate(sequence(frame.get("tool_calls"))):
            if self.calls[index] is None:
                self.call(index, mapping(call).get("id"), mapping(call).get("name"), mapping(call).get("parameters"), emit)
            self.calls.stop(index, emit)

    def _end(self, frame: Mapping[str, Any], emit: Emit[ChatEvent]) -> None:
        response = mapping(frame.get("response"))
        self._calls(response, emit)
        self.end(frame.get("finish_reason") or response.get("finish_reason"), response.get("meta"), frame.get("error"), None, emit)


_V1_HANDLERS: Mapping[str, Callable[[CohereV1Parser, Mapping[str, Any], Emit[ChatEvent]], None]] = {
    "stream-start": CohereV1Parser._start,
    "text-generation": CohereV1Parser._text,
    "search-queries-generation": CohereV1Parser._queries,
    "search-results": CohereV1Parser._search,
    "citation-generation": CohereV1Parser._cite,
    "tool-calls-chunk": CohereV1Parser._call_chunk,
    "tool-calls-generation": CohereV1Parser._calls,
    "stream-end": CohereV1Parser._end,
}


COHERE = Dialect(
    name="cohere",
    framings={"text/event-stream": "sse", "application/json": "json"},
    parser=CohereParser,
    doc="Cohere chat v2",
    request=build,
)

COHERE_V1 = Dialect(
    name="cohere-v1",
    framings={"application/stream+json": "ndjson", "application/x-ndjson": "ndjson", "application/json": "json"},
    parser=CohereV1Parser,
    doc="Cohere chat v1",
)
