"""
What type checkers know of a pipe. Never run: mypy and pyright read it.
"""

from __future__ import annotations

from collections.abc import AsyncIterable
from typing import assert_type

from reactivex import Observable
from reactivex import operators as ops

from rxchat import (
    ChatEvent,
    ChatResponse,
    Citation,
    ContentFilter,
    EventRecord,
    MediaDone,
    MediaPartial,
    RefusalDelta,
    StepEnd,
    TextDelta,
    ThinkingDelta,
    ToolCall,
    ToolCallEnd,
    Usage,
    aggregate,
    batch_text,
    chat_events,
    citations,
    filter_events,
    for_ui,
    frame_sse,
    media,
    normalize,
    of_type,
    parse,
    recover,
    recover_with,
    safety,
    share_events,
    split_think_tags,
    text_only,
    thinking_only,
    to_async_iterable,
    to_records,
    tool_calls,
    usage,
)
from rxchat.filters import DEFAULT, EventFilter, by_type


def standard(source: Observable[bytes]) -> None:
    assert_type(source.pipe(chat_events("openai-chat")), Observable[ChatEvent])
    assert_type(source.pipe(frame_sse(), parse("openai-chat"), split_think_tags(), normalize()), Observable[ChatEvent])
    assert_type(source.pipe(chat_events("openai-chat"), aggregate()), Observable[ChatResponse])
    assert_type(source.pipe(chat_events("openai-chat"), text_only(), to_async_iterable()), AsyncIterable[str])


def narrowing(events: Observable[ChatEvent]) -> None:
    assert_type(events.pipe(of_type(TextDelta)), Observable[TextDelta])
    assert_type(events.pipe(of_type(TextDelta, ThinkingDelta)), Observable[TextDelta | ThinkingDelta])
    assert_type(events.pipe(of_type(TextDelta, ThinkingDelta, StepEnd)), Observable[TextDelta | ThinkingDelta | StepEnd])
    assert_type(events.pipe(of_type(TextDelta, ThinkingDelta, StepEnd, ToolCallEnd)), Observable[TextDelta | ThinkingDelta | StepEnd | ToolCallEnd])
    assert_type(events.pipe(of_type(TextDelta), text_only()), Observable[str])
    assert_type(events.pipe(of_type(TextDelta)).pipe(ops.map(text_of)), Observable[str])


def text_of(event: TextDelta) -> str:
    return event.text


def projections(events: Observable[ChatEvent]) -> None:
    assert_type(events.pipe(text_only()), Observable[str])
    assert_type(events.pipe(thinking_only()), Observable[str])
    assert_type(events.pipe(tool_calls()), Observable[ToolCall])
    assert_type(events.pipe(citations()), Observable[Citation])
    assert_type(events.pipe(media()), Observable[MediaPartial | MediaDone])
    assert_type(events.pipe(safety()), Observable[RefusalDelta | ContentFilter])
    assert_type(events.pipe(usage()), Observable[Usage])
    assert_type(events.pipe(for_ui()), Observable[ChatEvent])
    assert_type(events.pipe(to_records()), Observable[EventRecord])
    assert_type(events.pipe(batch_text(0.05)), Observable[ChatEvent])
    assert_type(events.pipe(filter_events(DEFAULT | by_type(TextDelta))), Observable[ChatEvent])
    assert_type(events.pipe(ops.filter(DEFAULT)), Observable[ChatEvent])
    assert_type(~DEFAULT & by_type(TextDelta), EventFilter)


def sharing(events: Observable[ChatEvent]) -> None:
    shared = events.pipe(share_events(replay=16))
    assert_type(shared, Observable[ChatEvent])
    assert_type(shared.pipe(text_only()), Observable[str])
    assert_type(events.pipe(recover(attempts=3, wait=0), text_only()), Observable[str])
    assert_type(events.pipe(recover_with(events, when=lambda error: error.retryable)), Observable[ChatEvent])


async def waiting(events: Observable[ChatEvent]) -> None:
    assert_type(await events.pipe(aggregate()), ChatResponse)
    async for text in events.pipe(text_only(), to_async_iterable(high=8, low=2, overflow="error")):
        assert_type(text, str)
    async for event in events.pipe(to_async_iterable()):
        assert_type(event, ChatEvent)
