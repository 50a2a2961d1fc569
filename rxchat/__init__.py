"""
LLM provider byte streams as Observables of semantic chat events, plus one aggregated answer.

Here are the operators, the events and what they carry; filters, errors, serialization and the rest are in the modules of their names. Each name is imported
when it is first asked for, so that `import rxchat.errors` and the command line's help need not wait for RxPY.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rxchat.lazy import lazy_names

if TYPE_CHECKING:
    from rxchat.client import Call, ChatModel
    from rxchat.conversation import Conversation
    from rxchat.demand import to_async_iterable
    from rxchat.errors import RxchatError, Verdict
    from rxchat.events import (
        RESET,
        Abort,
        ChatEvent,
        Citation,
        ContentFilter,
        Custom,
        ErrorEvent,
        Event,
        Group,
        Heartbeat,
        MediaDone,
        MediaPartial,
        Phase,
        Raw,
        RefusalDelta,
        ResponseEnd,
        ResponseStart,
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
    from rxchat.hub import share_events
    from rxchat.limits import Limits
    from rxchat.operators import (
        Operator,
        decode_utf8,
        filter_events,
        frame_aws_event_stream,
        frame_json_array,
        frame_ndjson,
        frame_sse,
        lift,
        normalize,
        parse,
        split_think_tags,
    )
    from rxchat.pipeline import chat_events
    from rxchat.previews import Preview, PreviewSource, partial_json
    from rxchat.projections import aggregate, citations, media, of_type, safety, text_only, thinking_only, tool_calls, usage
    from rxchat.prompt import JsonSchema, Message, Prompt, RequestOptions, ToolSpec, audio, file, image
    from rxchat.records import EventRecord, batch_text, to_records
    from rxchat.recovery import recover, recover_with
    from rxchat.response import ChatResponse, FinishReason, ToolCall, Usage
    from rxchat.stores import MemoryStore, RedisStore, SqliteStore, Turn
    from rxchat.structuring import MismatchError, json_schema, structured
    from rxchat.tools import (
        Allow,
        Deny,
        StepContext,
        Tool,
        ToolAnswer,
        ToolFailure,
        ToolOutcome,
        ToolPolicy,
        ToolRequest,
        ToolSet,
        mcp_tools,
        run_call,
        run_calls,
        tool,
        tools_for,
    )
    from rxchat.toolschema import ToolContext, tool_spec
    from rxchat.ui import for_ui

__all__ = [
    "RESET",
    "Abort",
    "Allow",
    "Call",
    "ChatEvent",
    "ChatModel",
    "ChatResponse",
    "Citation",
    "ContentFilter",
    "Conversation",
    "Custom",
    "Deny",
    "ErrorEvent",
    "Event",
    "EventRecord",
    "FinishReason",
    "Group",
    "Heartbeat",
    "JsonSchema",
    "Limits",
    "MediaDone",
    "MediaPartial",
    "MemoryStore",
    "Message",
    "MismatchError",
    "Operator",
    "Phase",
    "Preview",
    "PreviewSource",
    "Prompt",
    "Raw",
    "RedisStore",
    "RefusalDelta",
    "RequestOptions",
    "ResponseEnd",
    "ResponseStart",
    "RxchatError",
    "SearchResult",
    "ServerToolArgsDelta",
    "ServerToolResult",
    "ServerToolStart",
    "SqliteStore",
    "Status",
    "StepContext",
    "StepEnd",
    "StepStart",
    "TextDelta",
    "TextEnd",
    "TextStart",
    "ThinkingDelta",
    "ThinkingEnd",
    "ThinkingRedacted",
    "ThinkingSignature",
    "ThinkingStart",
    "Tool",
    "ToolAnswer",
    "ToolCall",
    "ToolCallArgsDelta",
    "ToolCallEnd",
    "ToolCallStart",
    "ToolContext",
    "ToolFailure",
    "ToolOutcome",
    "ToolPolicy",
    "ToolRequest",
    "ToolResult",
    "ToolSet",
    "ToolSpec",
    "Turn",
    "Usage",
    "UsageUpdate",
    "Verdict",
    "aggregate",
    "audio",
    "batch_text",
    "chat_events",
    "citations",
    "decode_utf8",
    "file",
    "filter_events",
    "for_ui",
    "frame_aws_event_stream",
    "frame_json_array",
    "frame_ndjson",
    "frame_sse",
    "image",
    "json_schema",
    "lift",
    "mcp_tools",
    "media",
    "normalize",
    "of_type",
    "parse",
    "partial_json",
    "recover",
    "recover_with",
    "run_call",
    "run_calls",
    "safety",
    "share_events",
    "split_think_tags",
    "structured",
    "text_only",
    "thinking_only",
    "to_async_iterable",
    "to_records",
    "tool",
    "tool_calls",
    "tool_spec",
    "tools_for",
    "usage",
]

# Where they live, from below to above.
_HOMES = {
    ".errors": "RxchatError Verdict",
    ".response": "ChatResponse FinishReason ToolCall Usage",
    ".prompt": "JsonSchema Message Prompt RequestOptions ToolSpec audio file image",
    ".toolschema": "ToolContext tool_spec",
    ".events": (
        "Abort ChatEvent Citation ContentFilter Custom ErrorEvent Event Group Heartbeat MediaDone MediaPartial Phase RESET Raw RefusalDelta "
        "ResponseEnd ResponseStart SearchResult ServerToolArgsDelta ServerToolResult ServerToolStart Status StepEnd StepStart TextDelta "
        "TextEnd TextStart ThinkingDelta ThinkingEnd ThinkingRedacted ThinkingSignature ThinkingStart ToolCallArgsDelta ToolCallEnd "
        "ToolCallStart ToolResult UsageUpdate"
    ),
    ".limits": "Limits",
    ".operators": (
        "Operator decode_utf8 filter_events frame_aws_event_stream frame_json_array frame_ndjson frame_sse lift normalize parse split_think_tags"
    ),
    ".demand": "to_async_iterable",
    ".projections": "aggregate citations media of_type safety text_only thinking_only tool_calls usage",
    ".structuring": "MismatchError json_schema structured",
    ".previews": "Preview PreviewSource partial_json",
    ".records": "EventRecord batch_text to_records",
    ".ui": "for_ui",
    ".hub": "share_events",
    ".recovery": "recover recover_with",
    ".pipeline": "chat_events",
    ".tools": (
        "Allow Deny StepContext Tool ToolAnswer ToolFailure ToolOutcome ToolPolicy ToolRequest ToolSet mcp_tools run_call run_calls tool tools_for"
    ),
    ".stores": "MemoryStore RedisStore SqliteStore Turn",
    ".client": "Call ChatModel",
    ".conversation": "Conversation",
}

if not TYPE_CHECKING:
    __getattr__, __dir__ = lazy_names(__name__, _HOMES)
