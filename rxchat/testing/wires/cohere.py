"""
Cohere's chat: v2 (an event stream) and v1 (NDJSON), or one JSON body each.

Thinking of the block "tool_plan" is v2's tool plan, and the only thinking v1 has. Calls of v1 have no ids: those of the script are left out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from rxchat.outgoing.common import drop_none
from rxchat.response import CitationPart, FinishReason, Part, SearchResultPart, TextPart, ThinkingPart, ToolCall, Usage
from rxchat.testing.answers import FakeAnswer
from rxchat.testing.wires.base import Delta, Wire, cannot_say, json_bytes, sse
from rxchat.testing.wires.saying import arguments_of, finish_word, metadata_of, refuse_counts, refuse_total

__all__ = ["COHERE", "COHERE_V1"]

NAME = "cohere"
V1 = "cohere-v1"
PLAN = "tool_plan"
_FINISH: Mapping[FinishReason, str | None] = {
    FinishReason.STOP: "COMPLETE",
    FinishReason.TOOL_CALLS: "TOOL_CALL",
    FinishReason.LENGTH: "MAX_TOKENS",
    FinishReason.CONTENT_FILTER: "ERROR_TOXIC",
    FinishReason.ERROR: "ERROR",
}
_FINISH_V1 = {**_FINISH, FinishReason.TOOL_CALLS: "COMPLETE"}

Json = dict[str, Any]


def _usage(dialect: str, usage: Usage | None) -> Json:
    if usage is None:
        return {}
    refuse_counts(dialect, usage, "input_tokens", "output_tokens", "reasoning_tokens", "cache_read_tokens", "total_tokens")
    refuse_total(dialect, usage)
    billed = drop_none(input_tokens=usage.input_tokens, output_tokens=usage.output_tokens)
    said = {"billed_units": billed, "tokens": billed | drop_none(reasoning_tokens=usage.reasoning_tokens)}
    return said | drop_none(cached_tokens=usage.cache_read_tokens)


def _refusal(status: int, message: str) -> tuple[str, bytes]:
    return "application/json", json_bytes({"id": "fake-refusal-1", "message": message})


# --- v2 -------------------------------------------------------------------------------------------------------------------------------------------


class _Counters:
    """
    The next index of each kind of block.
    """

    def __init__(self) -> None:
        self.content = self.calls = self.citations = 0


def _frames(answer: FakeAnswer) -> Iterator[bytes]:
    empty: Json = {"role": "assistant", "content": [], "tool_plan": "", "tool_calls": [], "citations": []}
    yield sse({"id": answer.id, "type": "message-start", "delta": {"message": empty}}, "message-start")
    counters = _Counters()
    for part in answer.parts:
        handler = _V2.get(type(part))
        if handler is None:
            raise cannot_say(NAME, part)
        yield from handler(part, answer, counters)
    end = {"finish_reason": finish_word(NAME, answer.reason, _FINISH), "usage": _usage(NAME, answer.usage)}
    yield _event("message-end", None, end)
    yield sse("[DONE]")


def _event(kind: str, index: int | None, delta: Json | None) -> bytes:
    return sse({"type": kind} | drop_none(index=index, delta=delta), kind)


def _message(kind: str, index: int | None, **message: Any) -> bytes:
    return _event(kind, index, {"message": message})


def _content(part: TextPart | ThinkingPart, answer: FakeAnswer, counters: _Counters) -> Iterator[bytes]:
    kind = _kind(part)
    if part.item_id == PLAN:
        for piece in answer.pieces(part.text):
            yield Delta(_message("tool-plan-delta", None, tool_plan=piece))
        return
    index, counters.content = counters.content, counters.content + 1
    yield _message("content-start", index, content={"type": kind, kind: ""})
    for piece in answer.pieces(part.text):
        yield Delta(_message("content-delta", index, content={kind: piece}))
    yield _event("content-end", index, None)


def _kind(part: TextPart | ThinkingPart) -> str:
    if isinstance(part, ThinkingPart) and part.signature:
        raise cannot_say(NAME, "a signature of thinking")
    return "text" if isinstance(part, TextPart) else "thinking"


def _call(part: ToolCall, answer: FakeAnswer, counters: _Counters) -> Iterator[bytes]:
    index, counters.calls = counters.calls, counters.calls + 1
    yield _message("tool-call-start", index, tool_calls=_whole_call(part, ""))
    for piece in answer.pieces(part.arguments_text):
        yield Delta(_message("tool-call-delta", index, tool_calls={"function": {"arguments": piece}}))
    yield _event("tool-call-end", index, None)


def _whole_call(part: ToolCall, arguments: str) -> Json:
    metadata_of(NAME, part)
    return {"id": part.id, "type": "function", "function": {"name": part.name, "arguments": arguments}}


def _cited(part: CitationPart, answer: FakeAnswer, counters: _Counters) -> Iterator[bytes]:
    index, counters.citations = counters.citations, counters.citations + 1
    yield _message("citation-start", index, citations=_citation(part))
    yield _event("citation-end", index, None)


def _citation(part: CitationPart) -> Json:
    document = drop_none(id=part.file, title=part.title, url=part.url)
    source = {"type": "document"} | drop_none(id=part.file, document=document or None)
    place = drop_none(start=part.start, end=part.end, text=part.quoted, content_index=part.index)
    return place | {"sources": [source] if document else [], "type": "TEXT_CONTENT"}


_V2: Mapping[type, Callable[[Any, FakeAnswer, _Counters], Iterator[bytes]]] = {
    TextPart: _content,
    ThinkingPart: _content,
    ToolCall: _call,
    CitationPart: _cited,
}


def _whole(answer: FakeAnswer) -> bytes:
    message: Json = {"role": "assistant"}
    for part in answer.parts:
        _add(part, message)
    body = {"id": answer.id, "finish_reason": finish_word(NAME, answer.reason, _FINISH), "message": message, "usage": _usage(NAME, answer.usage)}
    return json_bytes(body)


def _add(part: Part, message: Json) -> None:
    if isinstance(part, ThinkingPart) and part.item_id == PLAN:
        message["tool_plan"] = message.get("tool_plan", "") + part.text
    elif isinstance(part, TextPart | ThinkingPart):
        message.setdefault("content", []).append({"type": _kind(part), _kind(part): part.text})
    elif isinstance(part, ToolCall):
        message.setdefault("tool_calls", []).append(_whole_call(part, part.arguments_text))
    elif isinstance(part, CitationPart):
        message.setdefault("citations", []).append(_citation(part))
    else:
        raise cannot_say(NAME, part)


COHERE = Wire(
    content_type="text/event-stream",
    frames=_frames,
    whole=_whole,
    # It has no other error in a stream but its end.
    error=lambda message: _event("message-end", None, {"finish_reason": "ERROR", "usage": {}, "error": message}),
    malformed=b'event: content-delta\ndata: {"type":"content-delta","index":0,"delta":{"message":{"content":{"text":"}\n\n',
    refusal=_refusal,
    heartbeat=None,
    base="",
)


# --- v1 -------------------------------------------------------------------------------------------------------------------------------------------


def _frames_v1(answer: FakeAnswer) -> Iterator[bytes]:
    yield _line("stream-start", generation_id=answer.id)
    documents = _documents(answer.parts)
    if documents:
        yield _line("search-results", documents=documents, search_results=[])
    calls = _calls_v1(answer.parts)
    index = 0
    for part in answer.parts:
        if isinstance(part, ToolCall):
            yield from _call_v1(part, index, answer)
            index += 1
            if index == len(calls):
                yield _line("tool-calls-generation", tool_calls=calls)
        elif not isinstance(part, SearchResultPart):
            yield from _spoken_v1(part, answer, documents)
    word = finish_word(V1, answer.reason, _FINISH_V1)
    yield _line("stream-end", True, finish_reason=word, response=_body_v1(answer, documents, calls))


def _line(kind: str, last: bool = False, **said: Any) -> bytes:
    return json_bytes({"is_finished": last, "event_type": kind, **said}) + b"\n"


def _spoken_v1(part: Part, answer: FakeAnswer, documents: list[Json]) -> Iterator[bytes]:
    if isinstance(part, TextPart):
        yield from (Delta(_line("text-generation", text=piece)) for piece in answer.pieces(part.text))
    elif isinstance(part, ThinkingPart):
        if part.item_id != PLAN or part.signature:
            raise cannot_say(V1, "thinking", f'only a plan, ThinkingPart(..., item_id="{PLAN}")')
        yield from (Delta(_line("tool-calls-chunk", text=piece)) for piece in answer.pieces(part.text))
    elif isinstance(part, CitationPart):
        yield _line("citation-generation", citations=[_citation_v1(part, documents)])
    else:
        raise cannot_say(V1, part)


def _call_v1(part: ToolCall, index: int, answer: FakeAnswer) -> Iterator[bytes]:
    yield _line("tool-calls-chunk", tool_call_delta={"name": part.name, "index": index})
    for piece in answer.pieces(part.arguments_text):
        yield Delta(_line("tool-calls-chunk", tool_call_delta={"index": index, "parameters": piece}))


def _calls_v1(parts: tuple[Part, ...]) -> list[Json]:
    return [_whole_call_v1(part) for part in parts if isinstance(part, ToolCall)]


def _whole_call_v1(call: ToolCall) -> Json:
    metadata_of(V1, call)
    return {"name": call.name, "parameters": arguments_of(V1, call)}


def _documents(parts: tuple[Part, ...]) -> list[Json]:
    """
    What was found; a document has the id under which it is cited.
    """
    cited = {(part.url, part.title): part.file for part in parts if isinstance(part, CitationPart)}
    found = [part for part in parts if isinstance(part, SearchResultPart)]
    if any(part.query for part in found):
        raise cannot_say(V1, "the query of a search result")
    return [
        drop_none(id=cited.get((part.url, part.title)) or f"doc_{k}", url=part.url, title=part.title, snippet=part.snippet)
        for k, part in enumerate(found)
    ]


def _citation_v1(part: CitationPart, documents: list[Json]) -> Json:
    known = {"id": part.file, "url": part.url, "title": part.title}
    if part.file is None or part.index is not None:
        raise cannot_say(V1, "this citation", "it names its document by file, and no index")
    if (part.url or part.title) and not any(known == {key: document.get(key) for key in known} for document in documents):
        raise cannot_say(V1, "this citation", "its document is a SearchResultPart of the same url and title")
    return drop_none(start=part.start, end=part.end, text=part.quoted) | {"document_ids": [part.file]}


def _body_v1(answer: FakeAnswer, documents: list[Json], calls: list[Json]) -> Json:
    said: Json = {
        "response_id": f"{answer.id}-response",
        "text": "".join(part.text for part in answer.parts if isinstance(part, TextPart)),
        "generation_id": answer.id,
        "chat_history": [],
        "finish_reason": finish_word(V1, answer.reason, _FINISH_V1),
        "meta": {"api_version": {"version": "1"}, **_usage(V1, answer.usage)},
    }
    cited = [_citation_v1(part, documents) for part in answer.parts if isinstance(part, CitationPart)]
    return said | {key: value for key, value in (("documents", documents), ("citations", cited), ("tool_calls", calls)) if value}


def _whole_v1(answer: FakeAnswer) -> bytes:
    for part in answer.parts:
        if not isinstance(part, TextPart | ToolCall | CitationPart | SearchResultPart):
            raise cannot_say(V1, part, "the body of an answer that is not streamed has no place for it")
    return json_bytes(_body_v1(answer, _documents(answer.parts), _calls_v1(answer.parts)))


def _error_v1(message: str) -> bytes:
    response = {"text": "", "generation_id": "", "chat_history": [], "finish_reason": "ERROR"}
    return _line("stream-end", True, finish_reason="ERROR", error=message, response=response)


COHERE_V1 = Wire(
    content_type="application/stream+json",
    frames=_frames_v1,
    whole=_whole_v1,
    error=_error_v1,
    malformed=b'{"is_finished":false,"event_type":"text-generation","text":"}\n',
    refusal=_refusal,
    heartbeat=None,
    base="",
)
