"""
Random values of our own for property tests, and one event of every type.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from hypothesis import strategies as st

from rxchat import errors as err
from rxchat import events as ev
from rxchat.errors import RxchatError, Verdict
from rxchat.events import ChatEvent
from rxchat.response import (
    ChatResponse,
    CitationPart,
    ContentFilterPart,
    FinishReason,
    MediaPart,
    Part,
    ProviderItemPart,
    RedactedThinkingPart,
    RefusalPart,
    SearchResultPart,
    ServerToolPart,
    TextPart,
    ThinkingPart,
    ToolCall,
    ToolResultPart,
    Usage,
)

texts = st.text(max_size=8)
some_text = st.text(min_size=1, max_size=8)
maybe_text = st.none() | texts
maybe_int = st.none() | st.integers(-1, 9)
counts = st.none() | st.integers(0, 2**70)
bools = st.booleans()

scalars = st.none() | bools | st.integers(-(2**70), 2**70) | st.floats(allow_nan=False, allow_infinity=False) | texts
json_values = st.recursive(scalars, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3), max_leaves=6)
json_objects = st.dictionaries(texts, json_values, max_size=3)

usages = st.builds(
    Usage,
    input_tokens=counts,
    output_tokens=counts,
    cache_read_tokens=counts,
    cache_write_tokens=counts,
    reasoning_tokens=counts,
    total_tokens=counts,
    wire=st.dictionaries(texts, st.integers(0, 99), max_size=3),
    raw=st.lists(json_values, max_size=2).map(tuple),
    partial=bools,
)

tool_calls = st.builds(
    ToolCall,
    id=texts,
    name=texts,
    arguments_text=texts,
    arguments=st.none() | json_objects,
    complete=bools,
    index=maybe_int,
    kind=st.sampled_from(["function", "custom"]),
    server_executed=bools,
    metadata=st.none() | json_objects,
)

_keys: dict[str, Any] = {"index": maybe_int, "item_id": maybe_text}
parts: st.SearchStrategy[Part] = st.one_of(
    st.builds(TextPart, text=texts, **_keys),
    st.builds(ThinkingPart, text=texts, signature=maybe_text, **_keys),
    st.builds(RedactedThinkingPart, data=texts, **_keys),
    tool_calls,
    st.builds(ToolResultPart, call_id=texts, result=json_values, is_error=bools),
    st.builds(
        ServerToolPart,
        kind=texts,
        id=maybe_text,
        name=maybe_text,
        arguments_text=texts,
        payload=json_values,
        result=json_values,
        is_error=bools,
        needs_client=bools,
    ),
    st.builds(MediaPart, kind=texts, mime=maybe_text, data=maybe_text, url=maybe_text, item_id=maybe_text, transcript=maybe_text, name=maybe_text),
    st.builds(CitationPart, url=maybe_text, title=maybe_text, quoted=maybe_text, file=maybe_text, index=maybe_int, start=maybe_int, end=maybe_int),
    st.builds(SearchResultPart, url=maybe_text, title=maybe_text, snippet=maybe_text, query=maybe_text),
    st.builds(RefusalPart, text=texts),
    st.builds(ContentFilterPart, category=texts, text=maybe_text, blocked=bools),
    st.builds(ProviderItemPart, type=texts, raw=json_values),
)


def _responses(inner: st.SearchStrategy[ChatResponse]) -> st.SearchStrategy[ChatResponse]:
    nested = st.lists(inner, max_size=2).map(tuple)
    return st.builds(
        ChatResponse,
        parts=st.lists(parts, max_size=3).map(tuple),
        finish_reason=st.sampled_from(FinishReason),
        finish_reason_raw=maybe_text,
        usage=st.none() | usages,
        model=maybe_text,
        response_id=maybe_text,
        provider_response_id=maybe_text,
        verdict=st.none() | st.sampled_from(Verdict),
        steps=nested,
        alternatives=nested,
        choice=st.integers(0, 2),
        unknown=st.dictionaries(texts, st.integers(1, 9), max_size=2),
        after_finish=st.integers(0, 2),
        dropped=st.integers(0, 2),
        metadata=json_objects,
    )


responses = _responses(st.deferred(lambda: _responses(st.just(ChatResponse()))))


# --- errors ---------------------------------------------------------------------------------------------------------------------------------------

_said: dict[str, Any] = {
    "code": st.none() | texts | st.integers(0, 999),
    "type": maybe_text,
    "request_id": maybe_text,
    "retry_after": st.none() | st.floats(0, 99),
}
offsets = st.none() | st.integers(0, 2**40)

bare_errors: tuple[Callable[..., RxchatError], ...] = (
    err.RxchatError,
    err.ConfigurationError,
    err.TransportError,
    err.ConnectError,
    err.ConnectionLostError,
    err.IncompleteFinishError,
    err.AbortedError,
    err.CancelledStreamError,
    err.ToolError,
    err.StoreError,
)
timeouts = (err.TransportTimeout, err.ConnectTimeout, err.FirstEventTimeout, err.ReadTimeout, err.TotalTimeout)
placed = (err.ProtocolError, err.DecodeError, err.DialectError, err.IncompleteStreamError)

errors: st.SearchStrategy[RxchatError] = st.one_of(
    st.builds(lambda cls, message: cls(message), st.sampled_from(bare_errors), texts),
    st.builds(lambda cls, message, budget: cls(message, budget), st.sampled_from(timeouts), texts, st.none() | st.floats(0, 99)),
    st.builds(lambda cls, message, offset: cls(message, offset), st.sampled_from(placed), texts, offsets),
    st.builds(err.FramingError, texts, offsets, kind=texts),
    st.builds(err.InvalidJSONError, texts, offsets, reason=texts),
    st.builds(err.LimitExceeded, texts, st.integers(0, 2**40), offsets),
    st.builds(err.ProviderError, texts, status=st.none() | st.integers(100, 599), retryable=bools, raw=json_values, offset=offsets, **_said),
    st.builds(
        err.HTTPStatusError,
        texts,
        status=st.integers(100, 599),
        headers=st.just({"authorization": "Bearer planted-key"}),
        body=st.just(b"planted-body"),
        **_said,
    ),
    st.builds(err.ContentTypeError, texts, content_type=maybe_text, status=st.none() | st.integers(100, 599), body=st.just(b"planted-body")),
)


# --- events ---------------------------------------------------------------------------------------------------------------------------------------

_block: dict[str, Any] = {"index": maybe_int, "item_id": maybe_text, "choice": st.integers(0, 2)}
_media: dict[str, Any] = {
    "kind": texts,
    "mime": maybe_text,
    "data": maybe_text,
    "url": maybe_text,
    "item_id": maybe_text,
    "partial_index": maybe_int,
    "choice": st.integers(0, 2),
}

event_strategies: dict[type[ChatEvent], st.SearchStrategy[ChatEvent]] = {
    ev.ResponseStart: st.builds(ev.ResponseStart, texts),
    ev.Status: st.builds(ev.Status, texts, maybe_text),
    ev.Heartbeat: st.builds(ev.Heartbeat),
    ev.ResponseEnd: st.builds(ev.ResponseEnd, responses),
    ev.Abort: st.builds(ev.Abort, maybe_text, responses),
    ev.StepStart: st.builds(ev.StepStart, st.integers(0, 3), maybe_text, maybe_text),
    ev.StepEnd: st.builds(ev.StepEnd, st.integers(0, 3), responses, st.none() | usages),
    ev.TextStart: st.builds(ev.TextStart, **_block),
    ev.TextDelta: st.builds(ev.TextDelta, text=some_text, **_block),
    ev.TextEnd: st.builds(ev.TextEnd, **_block),
    ev.ThinkingStart: st.builds(ev.ThinkingStart, **_block),
    ev.ThinkingDelta: st.builds(ev.ThinkingDelta, text=some_text, **_block),
    ev.ThinkingEnd: st.builds(ev.ThinkingEnd, **_block),
    ev.ThinkingSignature: st.builds(ev.ThinkingSignature, signature=texts, **_block),
    ev.ThinkingRedacted: st.builds(ev.ThinkingRedacted, data=texts, **_block),
    ev.ToolCallStart: st.builds(ev.ToolCallStart, texts, texts, maybe_int, st.integers(0, 2), st.sampled_from(["function", "custom"])),
    ev.ToolCallArgsDelta: st.builds(ev.ToolCallArgsDelta, some_text, texts, maybe_int, st.integers(0, 2)),
    ev.ToolCallEnd: st.builds(ev.ToolCallEnd, tool_calls, st.integers(0, 2)),
    ev.ToolResult: st.builds(ev.ToolResult, texts, json_values, bools),
    ev.ServerToolStart: st.builds(ev.ServerToolStart, texts, maybe_text, maybe_text, json_values, bools),
    ev.ServerToolArgsDelta: st.builds(ev.ServerToolArgsDelta, texts, some_text, maybe_text),
    ev.ServerToolResult: st.builds(ev.ServerToolResult, texts, maybe_text, json_values, bools, maybe_text),
    ev.SearchResult: st.builds(ev.SearchResult, maybe_text, maybe_text, maybe_text, maybe_text),
    ev.Citation: st.builds(ev.Citation, maybe_text, maybe_text, maybe_text, maybe_text, maybe_int, maybe_int, maybe_int, st.integers(0, 2)),
    ev.MediaPartial: st.builds(ev.MediaPartial, transcript=maybe_text, **_media),
    ev.MediaDone: st.builds(ev.MediaDone, transcript=maybe_text, **_media),
    ev.RefusalDelta: st.builds(ev.RefusalDelta, some_text, st.integers(0, 2)),
    ev.ContentFilter: st.builds(ev.ContentFilter, texts, maybe_text, bools, st.integers(0, 2)),
    ev.UsageUpdate: st.builds(ev.UsageUpdate, usages),
    ev.ErrorEvent: st.builds(ev.ErrorEvent, errors, responses, st.none() | usages),
    ev.Raw: st.builds(ev.Raw, texts, json_values),
    ev.Custom: st.builds(ev.Custom, texts, json_values),
}

events = st.sampled_from(sorted(event_strategies, key=lambda cls: cls.type)).flatmap(event_strategies.__getitem__)

# One of each type, in an order that means nothing.
SAMPLES: tuple[ChatEvent, ...] = (
    ev.ResponseStart("r-1"),
    ev.Status("queued"),
    ev.Heartbeat(),
    ev.StepStart(0, "p-1", "m-1"),
    ev.ThinkingStart(0),
    ev.ThinkingDelta("hm", 0),
    ev.ThinkingSignature("sig", 0),
    ev.ThinkingEnd(0),
    ev.ThinkingRedacted("opaque", 1),
    ev.TextStart(2),
    ev.TextDelta("hi", 2),
    ev.Citation("http://c", "title", index=2, start=0, end=2),
    ev.TextEnd(2),
    ev.ToolCallStart("c-1", "add", 0),
    ev.ToolCallArgsDelta("{}", "c-1", 0),
    ev.ToolCallEnd(ToolCall("c-1", "add", "{}", {}, True, 0)),
    ev.ToolResult("c-1", 3),
    ev.ServerToolStart("web_search", "s-1"),
    ev.ServerToolArgsDelta("web_search", "{}", "s-1"),
    ev.ServerToolResult("web_search", "s-1", {"hits": 1}),
    ev.SearchResult("http://s"),
    ev.MediaPartial("image", data="AA=="),
    ev.MediaDone("image", "image/png", "AAA="),
    ev.RefusalDelta("no"),
    ev.ContentFilter("hate"),
    ev.UsageUpdate(Usage(1, 2)),
    ev.Raw("ping", {}),
    ev.Custom("mine", [1]),
    ev.StepEnd(0),
    ev.ResponseEnd(),
    ev.Abort("user"),
    ev.ErrorEvent(err.ProviderError("overloaded")),
)
