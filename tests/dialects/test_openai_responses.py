"""
The Responses dialect, frame by frame: what its parser emits, how it ends, what it refuses.
"""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable
from typing import Any

import pytest

from rxchat.errors import DialectError, IncompleteStreamError, ProviderError, Verdict
from rxchat.events import (
    PROVIDER_ITEM,
    Abort,
    ChatEvent,
    Citation,
    ContentFilter,
    Custom,
    ErrorEvent,
    Heartbeat,
    MediaDone,
    MediaPartial,
    Raw,
    RefusalDelta,
    ResponseEnd,
    SearchResult,
    ServerToolArgsDelta,
    ServerToolResult,
    ServerToolStart,
    Status,
    StepEnd,
    StepStart,
    TextDelta,
    TextEnd,
    ThinkingDelta,
    ThinkingEnd,
    ThinkingRedacted,
    ThinkingSignature,
    ToolCallArgsDelta,
    ToolCallEnd,
    ToolCallStart,
    ToolResult,
    UsageUpdate,
)
from rxchat.framing.frames import SseEvent, StrayText
from rxchat.response import FinishReason, ServerToolPart, ToolCall
from tests.dialects.responses_wire import (
    DIALECT,
    Wire,
    added,
    answer,
    answer_of_body,
    body_frames,
    completed,
    created,
    done,
    ev,
    frames,
    inner,
    message,
    output_text,
    parse,
    sse,
    text,
    whole,
)

PNG = "iVBORw0KGgo="
URL = {"type": "url_citation", "url": "https://a.example", "title": "A", "start_index": 1, "end_index": 4}
FILE = {"type": "file_citation", "file_id": "file-1", "filename": "a.txt", "index": 7}


def call(*, call_id: str = "call_1", name: str = "add", index: int = 0, **fields: Any) -> ToolCallEnd:
    """
    A call that the provider ended.
    """
    return ToolCallEnd(ToolCall(call_id, name, index=index, **{"complete": True, **fields}))


def item(raw: Wire) -> Custom:
    """
    An item kept for the next request.
    """
    return Custom(PROVIDER_ITEM, {"type": raw["type"], "raw": raw})


# --- text -----------------------------------------------------------------------------------------------------------------------------------------

TEXTS: dict[str, tuple[list[Wire], list[ChatEvent]]] = {
    "a text with all its frames": (
        [
            added(0, "message", id="msg_1", content=[]),
            ev("content_part.added", 0, item_id="msg_1", content_index=0, part={"type": "output_text", "text": ""}),
            text("Hel", obfuscation="x8", logprobs=[{"token": "Hel", "logprob": -0.1}]),
            text("lo"),
            ev("output_text.done", 0, content_index=0, text="Hello"),
            ev("content_part.done", 0, content_index=0, part=output_text("Hello")),
            done(0, message(output_text("Hello"))),
        ],
        [TextDelta("Hel", 0, "msg_1"), TextDelta("lo", 0, "msg_1"), TextEnd(0, "msg_1")],
    ),
    "empty and null say nothing": ([added(0, "message", id="m"), text(""), text(None), ev("output_text.done", 0, content_index=0, text="")], []),
    "only the final text": (
        [added(0, "message", id="m"), ev("output_text.done", 0, content_index=0, text="All")],
        [TextDelta("All", 0, "m"), TextEnd(0, "m")],
    ),
    "the part adds what the deltas left out": (
        [added(0, "message", id="m"), text("Al"), ev("content_part.done", 0, content_index=0, part=output_text("All"))],
        [TextDelta("Al", 0, "m"), TextDelta("l", 0, "m"), TextEnd(0, "m")],
    ),
    "the item adds what the deltas left out": (
        [added(0, "message", id="m"), text("Al"), done(0, message(output_text("All"), item_id="m"))],
        [TextDelta("Al", 0, "m"), TextDelta("l", 0, "m"), TextEnd(0, "m")],
    ),
    "the item alone": ([done(0, message(output_text("All"), item_id="m"))], [TextDelta("All", 0, "m"), TextEnd(0, "m")]),
    "a final text that contradicts the deltas": (
        [added(0, "message", id="m"), text("Al"), ev("output_text.done", 0, content_index=0, text="Bll")],
        [TextDelta("Al", 0, "m"), Raw("differing final text", "Bll"), TextEnd(0, "m")],
    ),
    "ids that rotate with every event": (
        [
            added(0, "message", id="a"),
            text("x", item_id="b"),
            text("y", item_id="c"),
            ev("output_text.done", 0, item_id="d", content_index=0, text="xy"),
            done(0, message(output_text("xy"), item_id="e")),
        ],
        [TextDelta("x", 0, "a"), TextDelta("y", 0, "a"), TextEnd(0, "a")],
    ),
    "two parts of one message": (
        [added(0, "message", id="m"), text("x"), text("y", part=1), text("z", part=0)],
        [TextDelta("x", 0, "m"), TextDelta("y", 1, "m"), TextDelta("z", 0, "m")],
    ),
    "two messages that overlap": (
        [added(0, "message", id="a"), text("x"), added(1, "message", id="b"), text("y", 1), text("x"), done(1, "message", id="b", content=[])],
        [TextDelta("x", 0, "a"), TextDelta("y", 1, "b"), TextDelta("x", 0, "a"), TextEnd(1, "b")],
    ),
    "events without an index go by their item id": (
        [
            added(None, "message", id="a"),
            added(None, "message", id="b"),
            text("x", None, item_id="a"),
            text("y", None, item_id="b"),
            text("z", None, item_id="?"),
        ],
        [TextDelta("x", 0, "a"), TextDelta("y", 1, "b"), TextDelta("z", 1, "b")],
    ),
    "a done item without an index": (
        [added(0, "message", id="a"), text("x"), done(None, message(output_text("xy"), item_id="a"))],
        [TextDelta("x", 0, "a"), TextDelta("y", 0, "a"), TextEnd(0, "a")],
    ),
    "an item announced twice, an item done twice": (
        [added(0, "message", id="a"), added(0, "message", id="a"), text("x"), *[done(0, message(output_text("x"), item_id="a"))] * 2],
        [TextDelta("x", 0, "a"), TextEnd(0, "a")],
    ),
    "every item at index 0": (
        [
            added(0, "message", id="a"),
            text("x"),
            done(0, "message", id="a"),
            added(0, "message", id="b"),
            text("y"),
            done(0, message(output_text("yz"), item_id="b")),
        ],
        [TextDelta("x", 0, "a"), TextEnd(0, "a"), TextDelta("y", 1, "b"), TextDelta("z", 1, "b"), TextEnd(1, "b")],
    ),
    "a second item at one index, never announced": (
        [done(0, message(output_text("x"), item_id="a")), done(0, message(output_text("y"), item_id="b"))],
        [TextDelta("x", 0, "a"), TextEnd(0, "a"), TextDelta("y", 1, "b"), TextEnd(1, "b")],
    ),
    "a stream taken up in the middle of a text": (
        [text("lo", 0, item_id="m"), ev("output_text.done", 0, content_index=0, text="Hello")],
        [TextDelta("lo", 0, "m"), TextEnd(0, "m")],
    ),
    "a text announced late": ([text("x", 0, item_id="m"), added(0, "message", id="n"), text("y")], [TextDelta("x", 0, "m"), TextDelta("y", 0, "m")]),
    "a part of an unknown type, told twice": (
        [
            added(0, "message", id="m"),
            ev("content_part.done", 0, content_index=0, part={"type": "output_smell", "smell": 1}),
            done(0, message({"type": "output_smell", "smell": 1}, item_id="m")),
        ],
        [Raw("content part output_smell", {"type": "output_smell", "smell": 1})],
    ),
    "annotations are counted once": (
        [
            added(0, "message", id="m"),
            text("abcdef"),
            *[ev("output_text.annotation.added", 0, content_index=0, annotation_index=0, annotation=URL)] * 2,
            ev("content_part.done", 0, content_index=0, part=output_text("abcdef", URL, FILE)),
            done(0, message(output_text("abcdef", URL, FILE), item_id="m")),
        ],
        [
            TextDelta("abcdef", 0, "m"),
            Citation("https://a.example", "A", index=0, start=1, end=4),
            TextEnd(0, "m"),
            Citation(title="a.txt", file="file-1", index=0, start=7),
        ],
    ),
    "equal annotations are two": (
        [added(0, "message", id="m"), *[ev("output_text.annotation.added", 0, content_index=0, annotation={"url": "u"})] * 2],
        [Citation("u", index=0)] * 2,
    ),
    "an annotation of what is no text": (
        [ev("refusal.delta", 0, content_index=0, delta="No"), ev("output_text.annotation.added", 0, content_index=0, annotation=URL)],
        [RefusalDelta("No")],
    ),
    "a refusal": (
        [
            added(0, "message", id="m"),
            ev("refusal.delta", 0, content_index=0, delta="I "),
            ev("refusal.delta", 0, content_index=0, delta=""),
            ev("refusal.done", 0, content_index=0, refusal="I can't"),
            ev("content_part.done", 0, content_index=0, part={"type": "refusal", "refusal": "I can't"}),
        ],
        [RefusalDelta("I "), RefusalDelta("can't")],
    ),
}

# --- reasoning ------------------------------------------------------------------------------------------------------------------------------------

SEALED: Wire = {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "gAAA"}
TOLD: Wire = {
    "type": "reasoning",
    "id": "rs_1",
    "summary": [{"type": "summary_text", "text": "One"}, {"text": "Two"}, "odd"],
    "encrypted_content": "gAAA",
}
CHAIN: Wire = {"type": "reasoning", "id": "rs_1", "content": [{"type": "reasoning_text", "text": "Hm."}]}

REASONING: dict[str, tuple[list[Wire], list[ChatEvent]]] = {
    "hidden": ([added(0, "reasoning", id="rs_1", encrypted_content="first"), done(0, SEALED)], [ThinkingRedacted("gAAA", 0, "rs_1"), item(SEALED)]),
    "hidden, not even sealed": ([done(0, "reasoning", id="rs_1", summary=[])], [item({"type": "reasoning", "id": "rs_1", "summary": []})]),
    "a summary of several parts, sealed at the last": (
        [
            added(0, "reasoning", id="rs_1"),
            ev("reasoning_summary_part.added", 0, summary_index=0, part={"type": "summary_text", "text": ""}),
            ev("reasoning_summary_text.delta", 0, summary_index=0, delta="One"),
            ev("reasoning_summary_text.done", 0, summary_index=0, text="One"),
            ev("reasoning_summary_part.done", 0, summary_index=0, part={"type": "summary_text", "text": "One"}),
            ev("reasoning_summary_text.delta", 0, summary_index=1, delta="T"),
            done(0, TOLD),
        ],
        [
            ThinkingDelta("One", 0, "rs_1"),
            ThinkingEnd(0, "rs_1"),
            ThinkingDelta("T", 1, "rs_1"),
            ThinkingDelta("wo", 1, "rs_1"),
            ThinkingEnd(1, "rs_1"),
            ThinkingSignature("gAAA", 1, "rs_1"),
            item(TOLD),
        ],
    ),
    "a raw chain": (
        [
            added(0, "reasoning", id="rs_1"),
            ev("content_part.added", 0, content_index=0, part={"type": "reasoning_text", "text": ""}),
            ev("reasoning_text.delta", 0, content_index=0, delta="Hm"),
            ev("reasoning_text.done", 0, content_index=0, text="Hm."),
            ev("content_part.done", 0, content_index=0, part={"type": "reasoning_text", "text": "Hm."}),
            done(0, CHAIN),
        ],
        [ThinkingDelta("Hm", 0, "rs_1"), ThinkingDelta(".", 0, "rs_1"), ThinkingEnd(0, "rs_1"), item(CHAIN)],
    ),
    "a message opened before the reasoning": (
        [added(0, "message", id="m"), text("Yes"), added(1, "reasoning", id="rs_1"), done(0, "message", id="m", content=[]), done(1, SEALED)],
        [TextDelta("Yes", 0, "m"), TextEnd(0, "m"), ThinkingRedacted("gAAA", 1, "rs_1"), item(SEALED)],
    ),
    "reasoning nobody announced": (
        [ev("reasoning_summary_text.delta", 0, item_id="rs_1", summary_index=0, delta="One"), done(0, SEALED)],
        [ThinkingDelta("One", 0, "rs_1"), ThinkingSignature("gAAA", 0, "rs_1"), item(SEALED), ThinkingEnd(0, "rs_1")],
    ),
}

# --- calls ----------------------------------------------------------------------------------------------------------------------------------------

ADD: Wire = {"id": "fc_1", "call_id": "call_1", "name": "add"}
START = ToolCallStart("call_1", "add", 0)
FC: dict[str, Any] = {"metadata": {"id": "fc_1"}}

CALLS: dict[str, tuple[list[Wire], list[ChatEvent]]] = {
    "a call with all its frames": (
        [
            added(0, "function_call", **ADD, arguments=""),
            ev("function_call_arguments.delta", 0, item_id="fc_1", delta='{"a"'),
            ev("function_call_arguments.delta", 0, item_id="fc_1", delta=""),
            ev("function_call_arguments.delta", 0, item_id="fc_1", delta=":1}"),
            ev("function_call_arguments.done", 0, item_id="fc_1", arguments='{"a":1}'),
            done(0, "function_call", **ADD, arguments='{"a":1}', status="completed"),
        ],
        [START, ToolCallArgsDelta('{"a"', "call_1", 0), ToolCallArgsDelta(":1}", "call_1", 0), call(**FC)],
    ),
    "arguments only at their end": (
        [
            added(0, "function_call", **ADD),
            ev("function_call_arguments.done", 0, arguments='{"a":1}'),
            done(0, "function_call", **ADD, status="completed"),
        ],
        [START, ToolCallArgsDelta('{"a":1}', "call_1", 0), call(**FC)],
    ),
    "arguments that come as an object": (
        [added(0, "function_call", **ADD), done(0, "function_call", **ADD, arguments={"a": [1, "é"]})],
        [START, ToolCallArgsDelta('{"a":[1,"é"]}', "call_1", 0), call(**FC)],
    ),
    "final arguments spelled in another way": (
        [
            added(0, "function_call", **ADD),
            ev("function_call_arguments.delta", 0, delta='{"b": 2, "a": 1}'),
            done(0, "function_call", **ADD, arguments='{"a":1,"b":2}', status="completed"),
        ],
        [START, ToolCallArgsDelta('{"b": 2, "a": 1}', "call_1", 0), call(**FC)],
    ),
    "a call that was cut": (
        [added(0, "function_call", **ADD), done(0, "function_call", **ADD, arguments='{"a"', status="incomplete")],
        [START, ToolCallArgsDelta('{"a"', "call_1", 0), call(complete=False, **FC)],
    ),
    "whole arguments without a status": (
        [
            added(0, "function_call", **ADD),
            done(0, "function_call", **ADD, arguments="{}", status="in_progress", caller={"type": "program"}, namespace="n"),
        ],
        [START, ToolCallArgsDelta("{}", "call_1", 0), call(metadata={"id": "fc_1", "caller": {"type": "program"}, "namespace": "n"})],
    ),
    "in doubt, the call waits": (
        [added(0, "function_call", **ADD), done(0, "function_call", **ADD, arguments='{"a"')],
        [START, ToolCallArgsDelta('{"a"', "call_1", 0)],
    ),
    "two calls, side by side": (
        [
            added(1, "function_call", **ADD),
            added(2, "function_call", id="fc_2", call_id="call_2", name="mul"),
            ev("function_call_arguments.delta", 2, delta="{}"),
            ev("function_call_arguments.delta", 1, delta="{}"),
            done(2, "function_call", id="fc_2", call_id="call_2", name="mul", arguments="{}"),
            done(1, "function_call", **ADD, arguments="{}"),
        ],
        [
            START,
            ToolCallStart("call_2", "mul", 1),
            ToolCallArgsDelta("{}", "call_2", 1),
            ToolCallArgsDelta("{}", "call_1", 0),
            call(call_id="call_2", name="mul", index=1, metadata={"id": "fc_2"}),
            call(**FC),
        ],
    ),
    "a call nobody announced": (
        [ev("function_call_arguments.delta", 0, item_id="fc_1", delta="{}"), done(0, "function_call", **ADD, arguments="{}")],
        [ToolCallStart("", "", 0), ToolCallArgsDelta("{}", "", 0), call(**FC)],
    ),
    "a call whose beginning was never here": (
        [ev("function_call_arguments.delta", 0, delta=":1}"), done(0, "function_call", **ADD, arguments='{"a":1}', status="completed")],
        [ToolCallStart("", "", 0), ToolCallArgsDelta(":1}", "", 0), call(complete=False, **FC)],
    ),
    "a call announced late": (
        [ev("function_call_arguments.delta", 0, delta="{"), added(0, "function_call", **ADD), ev("function_call_arguments.delta", 0, delta="}")],
        [ToolCallStart("", "", 0), ToolCallArgsDelta("{", "", 0), START, ToolCallArgsDelta("}", "call_1", 0)],
    ),
    "free-form input": (
        [
            added(0, "custom_tool_call", id="ct_1", call_id="call_1", name="sql", input=""),
            ev("custom_tool_call_input.delta", 0, delta="SELECT "),
            ev("custom_tool_call_input.done", 0, input="SELECT 1"),
            done(0, "custom_tool_call", id="ct_1", call_id="call_1", name="sql", input="SELECT 1", status="completed"),
        ],
        [
            ToolCallStart("call_1", "sql", 0, kind="custom"),
            ToolCallArgsDelta("SELECT ", "call_1", 0),
            ToolCallArgsDelta("1", "call_1", 0),
            call(name="sql", kind="custom", metadata={"id": "ct_1"}),
        ],
    ),
    "a search the provider runs as a free-form call": (
        [done(0, "custom_tool_call", call_id="xs_call_1", name="x_search", input="q", status="completed")],
        [
            ToolCallStart("xs_call_1", "x_search", 0, kind="custom"),
            ToolCallArgsDelta("q", "xs_call_1", 0),
            call(call_id="xs_call_1", name="x_search", kind="custom", server_executed=True),
        ],
    ),
    "a result of a call the provider ran": (
        [done(0, "function_call_output", call_id="call_1", output="3"), done(1, "custom_tool_call_output", output=[1], status="incomplete")],
        [ToolResult("call_1", "3"), ToolResult("", [1], is_error=True)],
    ),
}

# --- tools of the provider, items for the client ----------------------------------------------------------------------------------------------------

CODE: Wire = {"type": "code_interpreter_call", "id": "ci_1", "status": "completed", "code": "1+1"}
PICTURE: Wire = {
    **CODE,
    "outputs": [{"type": "image", "url": f"data:image/png;base64,{PNG}"}, {"type": "image", "url": "https://i.example"}, {"type": "logs"}],
}
WEB: Wire = {"type": "web_search_call", "id": "ws_1", "status": "completed", "action": {"type": "search", "query": "q", "sources": [{"url": "u"}]}}
FILES: Wire = {"type": "file_search_call", "id": "fs_1", "queries": ["", "q"], "results": [{"filename": "a.txt", "text": "hit", "score": 0.5}]}
IMAGE: Wire = {"type": "image_generation_call", "id": "ig_1", "status": "generating", "output_format": "webp", "result": "UklGRg=="}
MCP: Wire = {"type": "mcp_call", "id": "mcp_1", "name": "ask", "arguments": "{}", "output": None, "error": "down"}
TOOLS: Wire = {"type": "mcp_list_tools", "id": "mcpl_1", "tools": []}
PATCH: Wire = {
    "type": "apply_patch_call",
    "id": "apc_1",
    "call_id": "call_1",
    "status": "completed",
    "operation": {"type": "create_file", "diff": "+a"},
}
SHELL: Wire = {"type": "shell_call", "id": "sh_1", "call_id": "call_1", "status": "completed", "action": {"commands": ["ls", "pwd"]}}
BOXED: Wire = {**SHELL, "environment": {"type": "container_reference"}}
FOUND: Wire = {"type": "tool_search_call", "id": "tsc_1", "execution": "server", "arguments": {"paths": ["a"]}}
ASKED: Wire = {"type": "mcp_approval_request", "id": "mcpr_1", "name": "ask", "arguments": "{}"}


def ran(raw: Wire, name: str, **fields: Any) -> ServerToolResult:
    """
    The end of a tool of the provider.
    """
    return ServerToolResult(raw["type"], raw["id"], raw, name=name, **fields)


def begun(raw: Wire, name: str, **fields: Any) -> ServerToolStart:
    """
    Its start.
    """
    return ServerToolStart(raw["type"], raw["id"], name, **fields)


def piece(raw: Wire, said: str) -> ServerToolArgsDelta:
    """
    A fragment of what it is called with.
    """
    return ServerToolArgsDelta(raw["type"], said, raw["id"])


SERVER: dict[str, tuple[list[Wire], list[ChatEvent]]] = {
    "code, piece by piece": (
        [
            added(0, "code_interpreter_call", id="ci_1", code=""),
            ev("code_interpreter_call.in_progress", 0, item_id="ci_1"),
            ev("code_interpreter_call_code.delta", 0, delta="1"),
            ev("code_interpreter_call_code.done", 0, code="1+1"),
            ev("code_interpreter_call.interpreting", 0, item_id="ci_1"),
            ev("code_interpreter_call.completed", 0, item_id="ci_1"),
            done(0, PICTURE),
        ],
        [
            begun(CODE, "code_interpreter"),
            piece(CODE, "1"),
            piece(CODE, "+1"),
            Status("code_interpreter_call.interpreting"),
            MediaDone("image", "image/png", PNG, item_id="ci_1"),
            MediaDone("image", url="https://i.example", item_id="ci_1"),
            ran(PICTURE, "code_interpreter"),
        ],
    ),
    "final code that contradicts its pieces": (
        [added(0, "code_interpreter_call", id="ci_1"), ev("code_interpreter_call_code.delta", 0, delta="2"), done(0, CODE)],
        [
            begun(CODE, "code_interpreter"),
            piece(CODE, "2"),
            Raw("differing final arguments of code_interpreter_call", "1+1"),
            ran(CODE, "code_interpreter"),
        ],
    ),
    "a web search": (
        [added(0, "web_search_call", id="ws_1"), ev("web_search_call.searching", 0, item_id="ws_1"), done(0, WEB)],
        [begun(WEB, "web_search"), Status("web_search_call.searching"), SearchResult("u", query="q"), ran(WEB, "web_search")],
    ),
    "a file search": (
        [done(0, FILES)],
        [begun(FILES, "file_search"), SearchResult(title="a.txt", snippet="hit", query="q"), ran(FILES, "file_search")],
    ),
    "an image and its states": (
        [
            added(0, "image_generation_call", id="ig_1"),
            ev("image_generation_call.partial_image", 0, partial_image_index=0, partial_image_b64=PNG),
            ev("image_generation_call.partial_image", 0, partial_image_index=1, partial_image_b64="AAAA"),
            ev("image_generation_call.partial_image", 0, partial_image_index=2),
            done(0, IMAGE),
        ],
        [
            begun(IMAGE, "image_generation"),
            MediaPartial("image", "image/png", PNG, item_id="ig_1", partial_index=0),
            MediaPartial("image", None, "AAAA", item_id="ig_1", partial_index=1),
            MediaDone("image", "image/webp", "UklGRg==", item_id="ig_1"),
            ran(IMAGE, "image_generation"),
        ],
    ),
    "a remote tool that fails": (
        [
            added(0, "mcp_call", id="mcp_1", name="ask", arguments=""),
            ev("mcp_call_arguments.delta", 0, delta="{"),
            ev("mcp_call_arguments.delta", 0, delta=None),
            ev("mcp_call_arguments.done", 0, arguments="{}"),
            ev("mcp_call.failed", 0, item_id="mcp_1"),
            done(0, MCP),
        ],
        [begun(MCP, "ask"), piece(MCP, "{"), piece(MCP, "}"), ran(MCP, "ask", is_error=True)],
    ),
    "tools that cannot be listed": (
        [added(0, "mcp_list_tools", id="mcpl_1"), ev("mcp_list_tools.failed", 0), done(0, TOOLS)],
        [begun(TOOLS, "mcp_list_tools"), ran(TOOLS, "mcp_list_tools", is_error=True)],
    ),
    "a patch for the client": (
        [
            added(0, "apply_patch_call", id="apc_1", operation={"diff": ""}),
            ev("apply_patch_call_operation_diff.delta", 0, delta="+"),
            ev("apply_patch_call_operation_diff.done", 0, diff="+a"),
            done(0, PATCH),
        ],
        [
            begun(PATCH, "apply_patch", needs_client=True),
            piece(PATCH, "+"),
            piece(PATCH, "a"),
            begun(PATCH, "apply_patch", payload=PATCH, needs_client=True),
        ],
    ),
    "commands for the client": (
        [
            added(0, "shell_call", id="sh_1", action={"commands": []}),
            ev("shell_call_command.added", 0, command_index=0, command=""),
            ev("shell_call_command.delta", 0, command_index=0, delta="ls"),
            ev("shell_call_command.delta", 0, command_index=1, delta="pw"),
            ev("shell_call_command.delta", 0, command_index=1, delta=""),
            ev("shell_call_command.done", 0, command_index=1, command="pwd"),
            done(0, SHELL),
        ],
        [
            begun(SHELL, "shell", needs_client=True),
            piece(SHELL, "ls"),
            piece(SHELL, "\npw"),
            piece(SHELL, "d"),
            begun(SHELL, "shell", payload=SHELL, needs_client=True),
        ],
    ),
    "commands run in a container": (
        [added(0, BOXED), done(0, BOXED), done(1, "shell_call_output", id="sho_1", status="failed")],
        [
            begun(BOXED, "shell"),
            piece(BOXED, "ls\npwd"),
            ran(BOXED, "shell"),
            ServerToolStart("shell_call_output", "sho_1", "shell_call_output"),
            ServerToolResult(
                "shell_call_output",
                "sho_1",
                {"type": "shell_call_output", "id": "sho_1", "status": "failed"},
                is_error=True,
                name="shell_call_output",
            ),
        ],
    ),
    "a search for tools": ([done(0, FOUND)], [begun(FOUND, "tool_search"), piece(FOUND, '{"paths":["a"]}'), ran(FOUND, "tool_search")]),
    "a search for tools by the client": (
        [done(0, {**FOUND, "execution": "client", "arguments": None, "id": None, "call_id": "call_1"})],
        [
            ServerToolStart(
                "tool_search_call",
                "call_1",
                "tool_search",
                {**FOUND, "execution": "client", "arguments": None, "id": None, "call_id": "call_1"},
                needs_client=True,
            )
        ],
    ),
    "a question to the user": (
        [added(0, ASKED), done(0, ASKED)],
        [begun(ASKED, "ask", payload=ASKED, needs_client=True), piece(ASKED, "{}")],
    ),
    "items only the provider can read": (
        [
            added(0, "compaction", id="cmp_1", encrypted_content="a"),
            ev("compaction.compacting", 0),
            done(0, "compaction", id="cmp_1", encrypted_content="b"),
        ],
        [Status("compaction.compacting"), item({"type": "compaction", "id": "cmp_1", "encrypted_content": "b"})],
    ),
    "items nobody knows": (
        [added(0, "crystal_ball", id="cb_1"), done(0, "crystal_ball", id="cb_1"), done(1, "", id="x")],
        [
            Raw("item crystal_ball", {"type": "crystal_ball", "id": "cb_1"}),
            item({"type": "crystal_ball", "id": "cb_1"}),
            Raw("item ", {"type": "", "id": "x"}),
            item({"type": "", "id": "x"}),
        ],
    ),
}

# --- the stream -----------------------------------------------------------------------------------------------------------------------------------

STREAM: dict[str, tuple[list[Any], list[ChatEvent]]] = {
    "status, when it changes": (
        [ev("queued", response={"status": "queued"}), ev("in_progress", response={"status": "in_progress"}), ev("in_progress", response={})],
        [Status("queued"), Status("in_progress")],
    ),
    "keep-alive": ([{"type": "keepalive", "sequence_number": 3}], [Heartbeat()]),
    "what is new": ([ev("future_widget.delta", 0, delta="x")], [Raw("response.future_widget.delta", ev("future_widget.delta", 0, delta="x"))]),
    "no type at all": ([{"delta": "x"}], [Raw("message", {"delta": "x"})]),
    "a type that is no text": ([{"type": ["x"]}], [Raw("message", {"type": ["x"]})]),
    "what others say again": ([ev("web_search_call.completed", 0), ev("shell_call_output_content.delta", 0, delta={"stdout": "x"})], []),
}


@pytest.mark.parametrize(
    ("wire", "expected"), [*(TEXTS | REASONING | CALLS | SERVER | STREAM).values()], ids=[*(TEXTS | REASONING | CALLS | SERVER | STREAM)]
)
def test_events(wire: list[Any], expected: list[ChatEvent]) -> None:
    """
    Each frame becomes the events it means, once, whatever comes again or is left out.
    """
    assert expected == inner(wire)


def test_a_minimal_stream() -> None:
    """
    Ids and model ride on StepStart, the finish on StepEnd, and nothing is read behind the end.
    """
    events, error = parse(
        [*frames([created(), added(0, "message"), text("Hi"), completed(message(output_text("Hi"), item_id=None))]), SseEvent(b"[DONE]")]
    )
    assert error is None
    assert [StepStart(0, "resp_1", "m-1"), Status("in_progress"), TextDelta("Hi", 0), TextEnd(0)] == events[:4]
    assert ["STEP_END", "RESPONSE_END"] == [event.type for event in events[4:]]
    assert isinstance(events[4], StepEnd)
    assert (FinishReason.STOP, "completed") == (events[4].response.finish_reason, events[4].response.finish_reason_raw)


@pytest.mark.parametrize(
    "piece_of",
    [
        pytest.param(lambda word: text(word), id="text"),
        pytest.param(lambda word: ev("reasoning_text.delta", 1, content_index=0, delta=word), id="thinking"),
        pytest.param(lambda word: ev("function_call_arguments.delta", 2, delta=word), id="arguments"),
    ],
)
def test_what_was_said_is_kept_as_text(piece_of: Callable[[str], Wire]) -> None:
    """
    Of a long answer its parser holds the text, which the final one is compared with, not an object for each piece.
    """
    parser = DIALECT.parser(DIALECT.context())
    first = [created(), added(0, message()), added(1, "reasoning", id="rs_1"), added(2, "function_call", call_id="call_1", name="add")]
    for frame in frames([*first, *(piece_of("w") for _ in range(10))]):
        parser.feed(frame, lambda event: None)
    wire = frames([piece_of(f" {n:06d}") for n in range(5000)])
    tracemalloc.start()
    for frame in wire:
        parser.feed(frame, lambda event: None)
    held = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    assert held < 5000 * 7 * 2


def test_resumed_without_created() -> None:
    """
    A stream taken up later has no response.created: the ids come when they come.
    """
    response = answer([text("lo"), completed()])
    assert ("lo", "resp_1", "m-1", Verdict.COMPLETE) == (response.text, response.provider_response_id, response.model, response.verdict)


@pytest.mark.parametrize("wire", [[text("lo")], [created(), added(0, "message"), text("Hel"), text("o")]], ids=["begins later", "lost a piece"])
def test_an_answer_that_is_not_all_here(wire: list[Wire]) -> None:
    """
    What is not what the provider says it said is shown, but it is no whole answer.
    """
    response = answer([*wire, completed(message(output_text("Hello")))])
    assert (FinishReason.OTHER, "completed", Verdict.INCOMPLETE_FINISH) == (response.finish_reason, response.finish_reason_raw, response.verdict)
    assert not response.committable


def test_white_space_at_the_ends() -> None:
    """
    A final text that was trimmed contradicts nothing.
    """
    response = answer([created(), text("\nHello \n"), completed(message(output_text("Hello")))])
    assert ("\nHello \n", Verdict.COMPLETE, {}) == (response.text, response.verdict, response.unknown)


def test_an_event_only_its_name_tells() -> None:
    """
    Where the data have no type, the event name stands in; where they have one, the name means nothing.
    """
    nameless = SseEvent(b'{"output_index":0,"content_index":0,"delta":"x"}', event="response.output_text.delta")
    misnamed = SseEvent(b'{"type":"response.output_text.delta","output_index":0,"delta":"y"}', event="response.completed")
    events, _ = parse([nameless, misnamed])
    assert [TextDelta("x", 0), TextDelta("y", 0)] == [event for event in events if isinstance(event, TextDelta)]


def test_first_ids_count() -> None:
    """
    Where the response's id rotates, the first one is kept.
    """
    response = answer([created(), created(id="resp_2", model="m-2"), completed(message(output_text("x"))) | {"copilot_usage": {}}])
    assert ("resp_1", "m-1") == (response.provider_response_id, response.model)


USAGE = {
    "input_tokens": 9,
    "input_tokens_details": {"cached_tokens": 4, "cache_write_tokens": 2},
    "output_tokens": 5,
    "output_tokens_details": {"reasoning_tokens": 3},
    "total_tokens": 14,
    "cost": 0.1,
}


def test_usage() -> None:
    """
    Counters are taken as sent, the whole object stays readable.
    """
    usage = answer([created(usage=None), completed(message(output_text("x")), usage=USAGE)]).usage
    assert usage is not None
    assert (9, 5, 4, 2, 3, 14) == (
        usage.input_tokens,
        usage.output_tokens,
        usage.cache_read_tokens,
        usage.cache_write_tokens,
        usage.reasoning_tokens,
        usage.total_tokens,
    )
    assert USAGE == usage.raw[0]


def test_metadata() -> None:
    """
    Facts no event says: the conversation, the phases of messages by their item ids.
    """
    response = answer(
        [
            created(),
            added(0, "message", id="a", phase="commentary"),
            text("x"),
            completed(message(output_text("x"), item_id="a"), message(output_text("y"), item_id="b", phase="final_answer"), conversation={"id": "c"}),
        ]
    )
    assert {"conversation": {"id": "c"}, "phases": {"a": "commentary", "b": "final_answer"}} == response.metadata
    assert "xy" == response.text


# --- ends -----------------------------------------------------------------------------------------------------------------------------------------

SAID = message(output_text("x"))
REFUSED = message({"type": "refusal", "refusal": "No"})
CUT: Wire = {"type": "function_call", "call_id": "call_1", "name": "add", "arguments": "", "status": None}
CHECKED: Wire = {"content_filters": [{"blocked": False, "content_filter_results": {"hate": {"filtered": False}, "jailbreak": {"detected": True}}}]}
BLOCKED: Wire = {
    "content_filters": [
        {"blocked": True, "content_filter_results": {"hate": {"filtered": True, "severity": "high"}, "self_harm": {"filtered": False}}}
    ]
}

ENDS: dict[str, tuple[Wire, FinishReason, str | None, Verdict]] = {
    "completed": (completed(SAID), FinishReason.STOP, "completed", Verdict.COMPLETE),
    "completed with a call": (completed({**CUT, "status": "completed"}), FinishReason.TOOL_CALLS, "completed", Verdict.COMPLETE),
    "refusal": (completed(REFUSED), FinishReason.REFUSAL, "completed", Verdict.INCOMPLETE_FINISH),
    "length": (
        completed(SAID, end="incomplete", incomplete_details={"reason": "max_output_tokens"}),
        FinishReason.LENGTH,
        "max_output_tokens",
        Verdict.INCOMPLETE_FINISH,
    ),
    "length, by a reason alone": (
        completed(SAID, incomplete_details={"reason": "max_tokens"}),
        FinishReason.LENGTH,
        "max_tokens",
        Verdict.INCOMPLETE_FINISH,
    ),
    "filter": (
        completed(SAID, end="incomplete", incomplete_details={"reason": "content_filter"}),
        FinishReason.CONTENT_FILTER,
        "content_filter",
        Verdict.INCOMPLETE_FINISH,
    ),
    "a filter that blocked": (completed(SAID, **BLOCKED), FinishReason.CONTENT_FILTER, "completed", Verdict.INCOMPLETE_FINISH),
    "a filter that only noted": (completed(SAID, **CHECKED), FinishReason.STOP, "completed", Verdict.COMPLETE),
    "incomplete without a reason": (completed(SAID, end="incomplete"), FinishReason.OTHER, "incomplete", Verdict.INCOMPLETE_FINISH),
    "incomplete by its status": (completed(SAID, status="incomplete"), FinishReason.OTHER, "incomplete", Verdict.INCOMPLETE_FINISH),
    "incomplete by its event": (completed(SAID, end="incomplete", status="completed"), FinishReason.OTHER, "incomplete", Verdict.INCOMPLETE_FINISH),
    "a reason nobody knows": (
        completed(SAID, end="incomplete", incomplete_details={"reason": "moonrise"}),
        FinishReason.OTHER,
        "moonrise",
        Verdict.INCOMPLETE_FINISH,
    ),
    "a status that was left standing": (completed(SAID, status="in_progress"), FinishReason.STOP, "completed", Verdict.COMPLETE),
}


@pytest.mark.parametrize(("end", "finish", "raw", "verdict"), ENDS.values(), ids=ENDS)
def test_ends(end: Wire, finish: FinishReason, raw: str | None, verdict: Verdict) -> None:
    """
    The finish goes by the reason, else the status, the worse of event and status; the body says the same as the stream.
    """
    response = answer([created(), end])
    assert (finish, raw, verdict) == (response.finish_reason, response.finish_reason_raw, response.verdict)
    if end["response"]["status"] == end["type"].removeprefix("response."):
        assert (finish, raw, verdict) == ((body := answer_of_body(end["response"])).finish_reason, body.finish_reason_raw, body.verdict)


def test_filters() -> None:
    """
    What filters found is said with the end; a filter without details is said, too (contract V7).
    """
    moderation = {"input": {"categories": {"hate": True, "violence": False}}, "output": None}
    found: list[ChatEvent] = [ContentFilter("jailbreak"), ContentFilter("hate", "input")]
    assert found == [event for event in inner([completed(SAID, **CHECKED, moderation=moderation)]) if isinstance(event, ContentFilter)]
    assert [ContentFilter("hate", "high", blocked=True)] == [event for event in inner([completed(**BLOCKED)]) if isinstance(event, ContentFilter)]
    unsaid = inner([completed(end="incomplete", incomplete_details={"reason": "content_filter"})])
    assert [ContentFilter("content_filter", blocked=True)] == [event for event in unsaid if isinstance(event, ContentFilter)]


@pytest.mark.parametrize(("reason", "complete", "arguments"), [(None, True, {}), ("max_output_tokens", False, None)])
def test_a_call_in_doubt(reason: str | None, complete: bool, arguments: Any) -> None:
    """
    A call whose item does not say whether it was cut is as whole as its response (contract N7, P3).
    """
    (found,) = answer([created(), done(0, CUT), completed(incomplete_details={"reason": reason} if reason else None)]).tool_calls
    assert (complete, arguments, "call_1") == (found.complete, found.arguments, found.id)


def test_a_search_of_the_provider_is_no_client_call() -> None:
    """
    A free-form call the provider ran stays among the calls and does not make the finish tool_calls (contract P10).
    """
    ran_there = {"type": "custom_tool_call", "call_id": "xs_call_1", "name": "x", "input": "q", "status": "completed"}
    response = answer([created(), completed(ran_there, SAID)])
    assert (FinishReason.STOP, [True]) == (response.finish_reason, [found.server_executed for found in response.tool_calls])


def test_items_for_the_client() -> None:
    """
    The turn is complete; the part holds the item and no result (contract P12).
    """
    response = answer([created(), added(0, PATCH), completed(PATCH, ASKED, BOXED)])
    patch, question, shell = (part for part in response.parts if isinstance(part, ServerToolPart))
    assert Verdict.COMPLETE is response.verdict
    assert [(True, PATCH, None), (True, ASKED, None), (False, None, BOXED)] == [
        (part.needs_client, part.payload, part.result) for part in (patch, question, shell)
    ]


def test_cancelled() -> None:
    """
    A cancelled response is an Abort with what had come (contract D7).
    """
    events, error = parse(frames([created(), text("x"), completed(end="cancelled", usage=USAGE), text("y")]))
    assert error is None
    assert Abort("cancelled") == events[-1]
    response = answer([created(), text("x"), completed(end="cancelled", usage=USAGE)])
    assert ("x", Verdict.ABORTED, "cancelled", 14) == (
        response.text,
        response.verdict,
        response.finish_reason_raw,
        response.usage and response.usage.total_tokens,
    )


# --- errors ---------------------------------------------------------------------------------------------------------------------------------------

QUOTA = {"type": "insufficient_quota", "code": "insufficient_quota", "message": "No money"}

FAILURES: dict[str, tuple[list[Any], tuple[str, Any, Any]]] = {
    "nested": ([{"type": "error", "error": QUOTA}], ("No money", "insufficient_quota", "insufficient_quota")),
    "flat": ([{"type": "error", "code": "server_error", "message": "Away", "param": None}], ("Away", "server_error", None)),
    "without a type": ([{"error": QUOTA}], ("No money", "insufficient_quota", "insufficient_quota")),
    "error, then failed": (
        [{"type": "error", "error": QUOTA}, completed(end="failed", error={"code": "other", "message": "Other"})],
        ("No money", "insufficient_quota", "insufficient_quota"),
    ),
    "failed alone": (
        [completed(end="failed", error={"code": "rate_limit_exceeded", "message": "Slow down"})],
        ("Slow down", "rate_limit_exceeded", None),
    ),
    "failed without a word": ([completed(end="failed", error=None)], ("the response failed", None, None)),
    "failed with a bare text": ([completed(end="failed", error="Broken")], ("Broken", None, None)),
    "completed, but its status says failed": ([completed(status="failed", error={"message": "Broken"})], ("Broken", None, None)),
}


@pytest.mark.parametrize(("wire", "expected"), FAILURES.values(), ids=FAILURES)
def test_failures(wire: list[Any], expected: tuple[str, Any, Any]) -> None:
    """
    A failure the provider reports is one ProviderError, whatever comes behind it.
    """
    _, error = parse(frames([created(), text("x"), *wire]))
    assert isinstance(error, ProviderError)
    assert expected == (error.message, error.code, error.type)
    response = answer([created(), text("x"), *wire])
    assert ("x", Verdict.PROVIDER_ERROR) == (response.text, response.verdict)


@pytest.mark.parametrize("wire", [{"type": "error", "error": QUOTA, "usage": USAGE}, completed(end="failed", error=QUOTA, usage=USAGE)])
def test_usage_beside_an_error(wire: Wire) -> None:
    """
    Counts beside an error are applied before it (contract P4).
    """
    events, _ = parse(frames([wire]))
    assert ["STEP_START", "USAGE", "STEP_END"] == [event.type for event in events]
    assert isinstance(events[1], UsageUpdate)
    assert FinishReason.ERROR is events[2].response.finish_reason  # type: ignore[union-attr]


def test_retryable() -> None:
    """
    The provider's own word tells whether to try again.
    """
    _, error = parse(frames([completed(end="failed", error={"code": "server_error", "message": "Sorry"})]))
    assert isinstance(error, ProviderError)
    assert error.retryable


@pytest.mark.parametrize("stray", ['{"error": {"message": "down"}}', 'error: {"error": {"message": "down"}}'])
def test_stray_error(stray: str) -> None:
    """
    An error outside the framing counts (contract P8).
    """
    _, error = parse([*frames([created()]), StrayText(stray)])
    assert isinstance(error, ProviderError)
    assert "down" == error.message


@pytest.mark.parametrize("stray", ["<html>", '{"error": null}'])
def test_stray_text(stray: str) -> None:
    """
    Any other stray text is Raw and changes nothing.
    """
    events, _ = parse([StrayText(stray), *frames([completed(SAID)])])
    assert Raw("stray", stray) == events[1]
    assert isinstance(events[-1], ResponseEnd)


MALFORMED: dict[str, Any] = {
    "no object": 5,
    "a list": [1],
    "a delta that is a number": ev("output_text.delta", 0, content_index=0, delta=5),
    "reasoning that is a list": ev("reasoning_text.delta", 0, content_index=0, delta=[]),
    "an item that is a text": ev("output_item.added", 0, item="message"),
    "an item that is missing": ev("output_item.done", 0),
    "a response that is missing": ev("created"),
    "a terminal without its response": ev("completed"),
    "output that holds a number": completed(5),  # type: ignore[arg-type]
    "a part that is missing": ev("content_part.done", 0, content_index=0),
    "an annotation that is a text": ev("output_text.annotation.added", 0, annotation="u"),
    "arguments that are a list": ev("function_call_arguments.done", 0, arguments=[1]),
    "a final text that is a number": ev("output_text.done", 0, content_index=0, text=5),
}


@pytest.mark.parametrize("wire", MALFORMED.values(), ids=MALFORMED)
def test_malformed(wire: Any) -> None:
    """
    A known frame that is not as its protocol says ends the response; what was valid before it was delivered (contract E10, E11).
    """
    events, error = parse(frames([created(), text("x", 9), wire, completed()]))
    assert isinstance(error, DialectError)
    assert TextDelta("x", 0) in events


@pytest.mark.parametrize(
    ("kind", "piece_of", "key", "final"), [("function_call", '{"a":1}', "arguments", '{"a":2}'), ("custom_tool_call", "a", "input", "b")]
)
def test_arguments_that_contradict_their_fragments(kind: str, piece_of: str, key: str, final: str) -> None:
    """
    Nobody can tell which of them to run: the response fails.
    """
    events = {"function_call": "function_call_arguments", "custom_tool_call": "custom_tool_call_input"}
    _, error = parse(frames([added(0, kind, **ADD), ev(f"{events[kind]}.delta", 0, delta=piece_of), done(0, kind, **{key: final})]))
    assert isinstance(error, DialectError)


def test_unknown_as_error() -> None:
    """
    The policy "error" refuses what is not known.
    """
    _, error = parse(frames([created(), ev("future.event")]), unknown="error")
    assert isinstance(error, DialectError)


@pytest.mark.parametrize("tail", [[], [SseEvent(b"[DONE]")]], ids=["nothing", "[DONE]"])
def test_truncated(tail: list[SseEvent]) -> None:
    """
    Without a terminal response there is no answer, however whole the text looks (contract V5, P9).
    """
    events, error = parse([*frames([created(), text("All."), ev("output_text.done", 0, content_index=0, text="All.")]), *tail])
    assert isinstance(error, IncompleteStreamError)
    assert FinishReason.UNKNOWN is events[-1].response.finish_reason  # type: ignore[union-attr]


# --- bodies ---------------------------------------------------------------------------------------------------------------------------------------

BODIES: dict[str, tuple[Any, type[Exception]]] = {
    "an error": ({"error": {"message": "down"}}, ProviderError),
    "an error of its own kind": ({"code": "x", "error": "down"}, ProviderError),
    "failed": ({"status": "failed", "error": {"message": "down"}, "output": []}, ProviderError),
    "still queued": ({"status": "queued", "output": []}, IncompleteStreamError),
    "still running": ({"status": "in_progress", "output": []}, IncompleteStreamError),
    "no response": ({"object": "list"}, DialectError),
    "no object": ([1], DialectError),
    "output that holds a text": ({"status": "completed", "output": ["x"]}, DialectError),
}


@pytest.mark.parametrize(("value", "expected"), BODIES.values(), ids=BODIES)
def test_bodies_that_are_no_answer(value: Any, expected: type[Exception]) -> None:
    """
    Only a response that ended is one.
    """
    assert expected is type(parse(body_frames(value))[1])


def test_a_body_without_a_status() -> None:
    """
    It is shown, but how it ended is unknown.
    """
    response = answer_of_body({"id": "resp_1", "output": [SAID]})
    assert ("x", FinishReason.UNKNOWN, Verdict.INCOMPLETE_FINISH) == (response.text, response.finish_reason, response.verdict)


def test_a_cancelled_body() -> None:
    """
    It is aborted as its stream would be.
    """
    assert Abort("cancelled") == parse(body_frames({"status": "cancelled", "output": []}))[0][-1]


def test_one_error_event() -> None:
    """
    `error` and `response.failed` are one failure, shown once.
    """
    events, _ = whole(sse([created(), {"type": "error", "error": QUOTA}, completed(end="failed", error=QUOTA)]))
    assert 1 == sum(isinstance(event, ErrorEvent) for event in events)
