"""
DashScope's own API (Qwen): an event stream whose frames hold what is new, or, where the request does not ask for that, everything so far; or one JSON body.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import attrs

from rxchat.outgoing.common import drop_none
from rxchat.response import CitationPart, FinishReason, Part, SearchResultPart, TextPart, ThinkingPart, ToolCall, Usage
from rxchat.testing.answers import FakeAnswer
from rxchat.testing.asked import FakeRequest
from rxchat.testing.wires.base import Delta, Wire, cannot_say, json_bytes
from rxchat.testing.wires.saying import finish_word, metadata_of

__all__ = ["DASHSCOPE", "DASHSCOPE_CUMULATIVE"]

NAME = "dashscope"
_FINISH: Mapping[FinishReason, str] = {
    FinishReason.STOP: "stop",
    FinishReason.TOOL_CALLS: "tool_calls",
    FinishReason.LENGTH: "length",
    FinishReason.CONTENT_FILTER: "content_filter",
}

Json = dict[str, Any]


def _incremental(answer: FakeAnswer) -> Iterator[bytes]:
    return _numbered(answer, _messages(answer))


def _cumulative(answer: FakeAnswer) -> Iterator[bytes]:
    return _numbered(answer, _grown(_messages(answer)))


def _numbered(answer: FakeAnswer, messages: Iterable[Json]) -> Iterator[bytes]:
    """
    The frames, from 1 on; what was searched for is in the first, the finish in the last, a frame of its own.
    """
    finish, usage, found = finish_word(NAME, answer.reason, _FINISH), _usage(answer.usage), _found(answer.parts)
    number, last = 0, _message({})
    for number, said in enumerate(messages, start=1):
        last = said
        yield Delta(_frame(number, _body(answer, said, "null", usage, found if number == 1 else {})))
    whole = last if last.get("whole") else _message({})
    yield _frame(number + 1, _body(answer, whole, finish, usage, {} if number else found))


def _body(answer: FakeAnswer, message: Json, finish: str | None, usage: Json, found: Json) -> Json:
    said = {key: value for key, value in message.items() if key != "whole"}
    choice = {"message": said, "index": 0, "finish_reason": finish}
    return {"output": {"choices": [choice], **found}} | usage | {"request_id": answer.id}


def _frame(number: int, body: Json, kind: str = "result", status: int = 200) -> bytes:
    return f"id:{number}\nevent:{kind}\n:HTTP_STATUS/{status}\n".encode() + b"data:" + json_bytes(body) + b"\n\n"


def _usage(usage: Usage | None) -> Json:
    if usage is None:
        return {}
    counts = {"input_tokens": usage.input_tokens, "output_tokens": usage.output_tokens, "total_tokens": usage.total_tokens}
    prompt = {"cached_tokens": usage.cache_read_tokens, "cache_creation_input_tokens": usage.cache_write_tokens}
    details = {"prompt_tokens_details": _known(prompt), "output_tokens_details": _known({"reasoning_tokens": usage.reasoning_tokens})}
    return {"usage": _known(counts) | {key: value for key, value in details.items() if value}}


def _known(counts: Mapping[str, int | None]) -> Json:
    return drop_none(**counts)


def _found(parts: tuple[Part, ...]) -> Json:
    """
    What was searched for; each hit is cited, and nothing else is.
    """
    hits = [part for part in parts if isinstance(part, SearchResultPart)]
    cited = [part for part in parts if isinstance(part, CitationPart)]
    if cited != [CitationPart(part.url, part.title) for part in hits] or any(part.query for part in hits):
        raise cannot_say(NAME, "these sources", "every SearchResultPart, without a query, is one CitationPart of the same url and title")
    results = [
        {"site_name": "", "icon": "", "index": k, "title": hit.title, "url": hit.url} | ({"snippet": hit.snippet} if hit.snippet else {})
        for k, hit in enumerate(hits, start=1)
    ]
    return {"search_info": {"search_results": results}} if results else {}


# --- messages -------------------------------------------------------------------------------------------------------------------------------------


def _messages(answer: FakeAnswer) -> Iterator[Json]:
    """
    What each frame adds.
    """
    calls = 0
    for part in answer.parts:
        if isinstance(part, TextPart):
            yield from (_message({"content": piece}) for piece in answer.pieces(part.text))
        elif isinstance(part, ThinkingPart):
            if part.signature:
                raise cannot_say(NAME, "a signature of thinking")
            yield from (_message({"reasoning_content": piece}) for piece in answer.pieces(part.text))
        elif isinstance(part, ToolCall):
            yield from _call(part, calls, answer)
            calls += 1
        elif not isinstance(part, SearchResultPart | CitationPart):
            raise cannot_say(NAME, part)


def _message(said: Json) -> Json:
    return {"role": "assistant", "content": "", **said}


def _call(part: ToolCall, index: int, answer: FakeAnswer) -> Iterator[Json]:
    """
    The first piece of a call has its id and name.
    """
    metadata_of(NAME, part)
    for k, piece in enumerate(list(answer.pieces(part.arguments_text)) or [""]):
        function = {"arguments": piece} if k else {"name": part.name, "arguments": piece}
        yield _message({"tool_calls": [{"index": index, "id": "" if k else part.id, "type": "function", "function": function}]})


def _grown(messages: Iterable[Json]) -> Iterator[Json]:
    """
    Each message with all that was before it.
    """
    texts: dict[str, str] = {}
    calls: dict[int, Json] = {}
    for said in messages:
        for key in ("content", "reasoning_content"):
            if said.get(key):
                texts[key] = texts.get(key, "") + said[key]
        for call in said.get("tool_calls", []):
            _grow(calls, call)
        yield _message({**texts, **({"tool_calls": list(calls.values())} if calls else {})}) | {"whole": True}


def _grow(calls: dict[int, Json], call: Json) -> None:
    before = calls.get(call["index"])
    if before is None:
        calls[call["index"]] = call
        return
    text = before["function"]["arguments"] + call["function"]["arguments"]
    calls[call["index"]] = before | {"function": before["function"] | {"arguments": text}}


def _whole(answer: FakeAnswer) -> bytes:
    *_, message = _message({}), *_grown(_messages(answer))
    body = _body(answer, message, finish_word(NAME, answer.reason, _FINISH), _usage(answer.usage), _found(answer.parts))
    return json_bytes(body)


def _refusal(status: int, message: str) -> tuple[str, bytes]:
    return "application/json", json_bytes({"code": _CODES.get(status, "InternalError"), "message": message, "request_id": "fake-refusal-1"})


_CODES: Mapping[int, str] = {400: "InvalidParameter", 401: "InvalidApiKey", 403: "AccessDenied", 404: "ModelNotFound", 429: "Throttling"}


def _error(message: str) -> bytes:
    return _frame(99, {"code": "InternalError", "message": message, "request_id": "fake-error-1"}, "error", 500)


def _streams(request: FakeRequest) -> bool:
    return request.headers.get("x-dashscope-sse") == "enable" or "text/event-stream" in request.headers.get("accept", "")


def _choose(request: FakeRequest) -> Wire:
    parameters = request.json.get("parameters", {}) if request.body[:1] == b"{" else {}
    return DASHSCOPE if parameters.get("incremental_output") else DASHSCOPE_CUMULATIVE


DASHSCOPE_CUMULATIVE = Wire(
    content_type="text/event-stream;charset=UTF-8",
    frames=_cumulative,
    whole=_whole,
    error=_error,
    malformed=b'id:98\nevent:result\n:HTTP_STATUS/200\ndata:{"output":{"choices":[{"message":{"content":"}\n\n',
    refusal=_refusal,
    heartbeat=None,
    base="",
    streams=_streams,
)

DASHSCOPE = attrs.evolve(DASHSCOPE_CUMULATIVE, frames=_incremental, choose=_choose)
