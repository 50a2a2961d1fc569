"""
A `match` over the closed union: checkers name the class that was forgotten. Never run: mypy and pyright read it.
"""

from __future__ import annotations

from typing import assert_never, assert_type

from rxchat import (
    Abort,
    ChatEvent,
    ChatResponse,
    Citation,
    ContentFilter,
    Custom,
    ErrorEvent,
    Event,
    Group,
    Heartbeat,
    MediaDone,
    MediaPartial,
    Raw,
    RefusalDelta,
    ResponseEnd,
    ResponseStart,
    RxchatError,
    SearchResult,
    ServerToolArgsDelta,
    ServerToolResult,
    ServerToolStart,
    Status,
    StepEnd,
    StepStart,
    TextDelta,
    TextEnd,
    TextStart,
    ThinkingDelta,
    ThinkingEnd,
    ThinkingRedacted,
    ThinkingSignature,
    ThinkingStart,
    ToolCallArgsDelta,
    ToolCallEnd,
    ToolCallStart,
    ToolResult,
    UsageUpdate,
)
from rxchat.response import (
    CitationPart,
    ContentFilterPart,
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
)


def every_event(event: ChatEvent) -> str:
    match event:
        case ResponseStart() | Status() | Heartbeat() | Abort():
            return "lifecycle"
        case ResponseEnd(response=answer):
            assert_type(answer, ChatResponse)
            return answer.text
        case StepStart() | StepEnd():
            return "step"
        case TextStart() | TextEnd():
            return "text"
        case TextDelta(text=text):
            assert_type(text, str)
            return text
        case ThinkingStart() | ThinkingDelta() | ThinkingEnd() | ThinkingSignature() | ThinkingRedacted():
            return "thinking"
        case ToolCallStart() | ToolCallArgsDelta() | ToolCallEnd() | ToolResult():
            return "tool call"
        case ServerToolStart() | ServerToolArgsDelta() | ServerToolResult():
            return "server tool"
        case SearchResult() | Citation() | MediaPartial() | MediaDone():
            return "media"
        case RefusalDelta() | ContentFilter():
            return "safety"
        case ErrorEvent(error=error):
            assert_type(error, RxchatError)
            return str(error)
        case UsageUpdate() | Raw() | Custom():
            return "meta"
        case _:
            assert_never(event)


def one_is_missing(event: TextStart | TextDelta | TextEnd) -> str:
    match event:
        case TextStart() | TextEnd():
            return ""
        case _:
            # Checkers know that only this one is left.
            assert_type(event, TextDelta)
            return event.text


def by_group(event: ChatEvent) -> str:
    match event:
        case TextDelta(text=text):
            return text
        case Event(group=Group.TOOL_CALL):
            return event.type
        case _:
            return "other"


def every_part(part: Part) -> str:
    match part:
        case TextPart(text=text) | ThinkingPart(text=text) | RefusalPart(text=text):
            assert_type(text, str)
            return text
        case ToolCall(name=name):
            return name
        case RedactedThinkingPart() | ToolResultPart() | ServerToolPart() | MediaPart() | CitationPart() | SearchResultPart():
            return "part"
        case ContentFilterPart() | ProviderItemPart():
            return "part"
        case _:
            assert_never(part)
