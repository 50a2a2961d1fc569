"""
Conversations of three turns with thinking and parallel calls: what was received goes back as the provider demands it.

The answers are read from their wire by the whole pipeline; the next request is built from the ChatResponse that came of them.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, NamedTuple

import attrs
import pytest

from rxchat.client import ChatModel
from rxchat.dialects import get_dialect
from rxchat.errors import ConfigurationError
from rxchat.outgoing.common import ModelCall
from rxchat.prompt import Message, Prompt, RequestOptions, ToolSpec, as_messages
from rxchat.response import ChatResponse
from tests.dialects.reading import AWS_STREAM, aws, chunks, read, sse
from tests.loopback import answer as reply
from tests.loopback import in_turn, loopback

JSON = "application/json"
# Not as a serializer would write it, so that only the received text itself can be equal.
PARIS, ROME = '{ "city":"Paris","n": 1.0 }', '{"city": "Rome"}'
PARIS_ARGS, ROME_ARGS = {"city": "Paris", "n": 1.0}, {"city": "Rome"}
SIGNATURE, OTHER, SEALED = "EqQBCkYIBxgCKkA+/sig==", "b3RoZXI=", "c2VhbGVkIGJ5dGVz"
WEATHER = ToolSpec("get_weather", "Weather", {"type": "object", "properties": {"city": {"type": "string"}}})
RESULTS = ("sunny", "rain")


class Conversation(NamedTuple):
    """
    Two answers by their wire, and what must be in the third request: the turns of the first answer, of its results, of the second answer.
    """

    dialect: str
    calls: bytes
    text: bytes
    first: Any
    results: Any
    second: Any
    media_type: str = "text/event-stream"
    quirks: Mapping[str, Any] = {}


def data(*values: Any) -> bytes:
    """
    An event stream without names.
    """
    return b"".join(b"data: %s\n\n" % (value if isinstance(value, bytes) else json.dumps(value).encode()) for value in values)


def lines(*values: Any) -> bytes:
    return b"".join(json.dumps(value).encode() + b"\n" for value in values)


def delta(**said: Any) -> dict[str, Any]:
    return {"id": "c", "choices": [{"index": 0, "delta": said, "finish_reason": None}]}


def finish(reason: str) -> dict[str, Any]:
    return {"id": "c", "choices": [{"index": 0, "delta": {}, "finish_reason": reason}]}


def fragment(index: int, **said: Any) -> dict[str, Any]:
    return delta(tool_calls=[{"index": index, **said}])


CHAT_CALLS = (
    fragment(0, id="call_a", type="function", function={"name": "get_weather", "arguments": PARIS[:9]}),
    fragment(0, function={"arguments": PARIS[9:]}),
    fragment(1, id="call_b", type="function", function={"name": "get_weather", "arguments": ROME}),
    finish("tool_calls"),
    b"[DONE]",
)
CHAT_BACK = [
    {"id": "call_a", "type": "function", "function": {"name": "get_weather", "arguments": PARIS}},
    {"id": "call_b", "type": "function", "function": {"name": "get_weather", "arguments": ROME}},
]
CHAT_RESULTS = [
    {"role": "tool", "tool_call_id": "call_a", "content": "sunny"},
    {"role": "tool", "tool_call_id": "call_b", "content": "rain"},
]
CHAT_TEXT = data(delta(content="Done."), finish("stop"), b"[DONE]")

DEEPSEEK = Conversation(
    "openai-chat",
    data(delta(reasoning_content="I need "), delta(reasoning_content="two calls."), *CHAT_CALLS),
    CHAT_TEXT,
    [{"role": "assistant", "content": None, "reasoning_content": "I need two calls.", "tool_calls": CHAT_BACK}],
    CHAT_RESULTS,
    [{"role": "assistant", "content": "Done."}],
    quirks={"thinking_field": "reasoning_content"},
)
OPENROUTER = Conversation(
    "openai-chat",
    data(
        delta(reasoning="I ", reasoning_details=[{"type": "reasoning.text", "text": "I ", "format": "anthropic-claude-v1", "index": 0}]),
        delta(reasoning="need", reasoning_details=[{"type": "reasoning.text", "text": "need", "format": "anthropic-claude-v1", "index": 0}]),
        delta(reasoning_details=[{"type": "reasoning.text", "signature": SIGNATURE, "index": 0}]),
        delta(reasoning_details=[{"type": "reasoning.encrypted", "data": SEALED, "id": "rs_1", "index": 1}]),
        delta(reasoning_details=[{"type": "reasoning.encrypted", "data": SEALED, "id": "rs_1", "index": 1}]),
        delta(reasoning_details=[{"type": "reasoning.encrypted", "data": OTHER, "id": "rs_2", "index": 1}]),
        *CHAT_CALLS,
    ),
    CHAT_TEXT,
    [
        {
            "role": "assistant",
            "content": None,
            "reasoning_details": [
                {"type": "reasoning.text", "text": "I need", "format": "anthropic-claude-v1", "index": 0, "signature": SIGNATURE},
                {"type": "reasoning.encrypted", "data": SEALED, "id": "rs_1", "index": 1},
                {"type": "reasoning.encrypted", "data": OTHER, "id": "rs_2", "index": 1},
            ],
            "tool_calls": CHAT_BACK,
        }
    ],
    CHAT_RESULTS,
    [{"role": "assistant", "content": "Done."}],
    quirks={"thinking_field": "reasoning_details"},
)

REASONING = {"type": "reasoning", "id": "rs_1", "summary": [{"type": "summary_text", "text": "two calls"}], "encrypted_content": SEALED}


def flat(name: str, arguments: str) -> dict[str, Any]:
    return {
        "type": "function_call",
        "id": f"fc_{name}",
        "call_id": f"call_{name}",
        "name": "get_weather",
        "arguments": arguments,
        "status": "completed",
    }


def responses(*output: Mapping[str, Any]) -> bytes:
    """
    A stream of Responses that announces and ends each item.
    """
    body = {"id": "resp_1", "model": "m", "status": "completed", "output": list(output), "error": None}
    events: list[dict[str, Any]] = [{"type": "response.created", "response": {**body, "status": "in_progress", "output": []}}]
    for index, item in enumerate(output):
        events.append(
            {"type": "response.output_item.added", "output_index": index, "item": {**item, "arguments": ""} if "arguments" in item else item}
        )
        if "arguments" in item:
            events.append(
                {"type": "response.function_call_arguments.delta", "item_id": item["id"], "output_index": index, "delta": item["arguments"]}
            )
        events.append({"type": "response.output_item.done", "output_index": index, "item": item})
    return sse(*events, {"type": "response.completed", "response": body})


def said_message(phase: str, text: str, item_id: str) -> dict[str, Any]:
    content = [{"type": "output_text", "text": text, "annotations": []}]
    return {"type": "message", "id": item_id, "role": "assistant", "status": "completed", "content": content, "phase": phase}


RESPONSES = Conversation(
    "openai-responses",
    responses(REASONING, said_message("commentary", "Looking.", "msg_1"), flat("a", PARIS), flat("b", ROME)),
    responses({**REASONING, "id": "rs_2", "encrypted_content": OTHER}, said_message("final_answer", "Done.", "msg_2")),
    [
        REASONING,
        said_message("commentary", "Looking.", "msg_1"),
        {key: value for key, value in flat("a", PARIS).items() if key != "status"},
        {key: value for key, value in flat("b", ROME).items() if key != "status"},
    ],
    [
        {"type": "function_call_output", "call_id": "call_a", "output": "sunny"},
        {"type": "function_call_output", "call_id": "call_b", "output": "rain"},
    ],
    [{**REASONING, "id": "rs_2", "encrypted_content": OTHER}, said_message("final_answer", "Done.", "msg_2")],
)


def claude_events(stop: str, *blocks: tuple[Mapping[str, Any], *tuple[Mapping[str, Any], ...]]) -> list[dict[str, Any]]:
    """
    The events of a Claude answer: blocks, each with its deltas.
    """
    events: list[dict[str, Any]] = [
        {"type": "message_start", "message": {"id": "msg_1", "model": "claude", "content": [], "usage": {"input_tokens": 1}}}
    ]
    for index, (start, *deltas) in enumerate(blocks):
        events.append({"type": "content_block_start", "index": index, "content_block": start})
        events += [{"type": "content_block_delta", "index": index, "delta": one} for one in deltas]
        events.append({"type": "content_block_stop", "index": index})
    return [*events, {"type": "message_delta", "delta": {"stop_reason": stop}, "usage": {"output_tokens": 2}}, {"type": "message_stop"}]


def claude_call(name: str, arguments: str) -> tuple[dict[str, Any], *tuple[dict[str, Any], ...]]:
    start = {"type": "tool_use", "id": f"toolu_{name}", "name": "get_weather", "input": {}}
    return start, {"type": "input_json_delta", "partial_json": arguments[:5]}, {"type": "input_json_delta", "partial_json": arguments[5:]}


THINKING = (
    {"type": "thinking", "thinking": "", "signature": ""},
    {"type": "thinking_delta", "thinking": "I need "},
    {"type": "thinking_delta", "thinking": "two calls."},
    {"type": "signature_delta", "signature": SIGNATURE[:6]},
    {"type": "signature_delta", "signature": SIGNATURE[6:]},
)
SEARCH_RESULT = {
    "type": "web_search_tool_result",
    "tool_use_id": "srvtoolu_1",
    "content": [{"type": "web_search_result", "url": "https://example.com", "title": "T", "encrypted_content": SEALED, "page_age": None}],
}
CLAUDE_CALLS = claude_events(
    "tool_use",
    THINKING,
    ({"type": "redacted_thinking", "data": SEALED},),
    (
        {"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {}},
        {"type": "input_json_delta", "partial_json": '{"query":"q"}'},
    ),
    (SEARCH_RESULT,),
    ({"type": "text", "text": ""}, {"type": "text_delta", "text": "Looking."}),
    claude_call("a", PARIS),
    claude_call("b", ROME),
)
CLAUDE_TEXT = claude_events("end_turn", THINKING, ({"type": "text", "text": ""}, {"type": "text_delta", "text": "Done."}))
CLAUDE_THOUGHT = {"type": "thinking", "thinking": "I need two calls.", "signature": SIGNATURE}
CLAUDE_FIRST = [
    {
        "role": "assistant",
        "content": [
            CLAUDE_THOUGHT,
            {"type": "redacted_thinking", "data": SEALED},
            {"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {"query": "q"}},
            SEARCH_RESULT,
            {"type": "text", "text": "Looking."},
            {"type": "tool_use", "id": "toolu_a", "name": "get_weather", "input": PARIS_ARGS},
            {"type": "tool_use", "id": "toolu_b", "name": "get_weather", "input": ROME_ARGS},
        ],
    }
]
CLAUDE_RESULTS = [
    {
        "role": "user",
        "content": [
            {"type": "tool_result", "tool_use_id": "toolu_a", "content": "sunny"},
            {"type": "tool_result", "tool_use_id": "toolu_b", "content": "rain"},
        ],
    }
]
CLAUDE_SECOND = [{"role": "assistant", "content": [CLAUDE_THOUGHT, {"type": "text", "text": "Done."}]}]
ANTHROPIC = Conversation("anthropic", sse(*CLAUDE_CALLS), sse(*CLAUDE_TEXT), CLAUDE_FIRST, CLAUDE_RESULTS, CLAUDE_SECOND)
INVOKE = Conversation("bedrock-invoke", chunks(CLAUDE_CALLS), chunks(CLAUDE_TEXT), CLAUDE_FIRST, CLAUDE_RESULTS, CLAUDE_SECOND, AWS_STREAM)


def blocks(*deltas: tuple[int, Mapping[str, Any]]) -> list[tuple[str, Any]]:
    return [("contentBlockDelta", {"contentBlockIndex": index, "delta": one}) for index, one in deltas]


def stop(index: int) -> tuple[str, Any]:
    return "contentBlockStop", {"contentBlockIndex": index}


def start(index: int, name: str) -> tuple[str, Any]:
    return "contentBlockStart", {"contentBlockIndex": index, "start": {"toolUse": {"toolUseId": f"tooluse_{name}", "name": "get_weather"}}}


CONVERSE = Conversation(
    "bedrock-converse",
    aws(
        ("messageStart", {"role": "assistant"}),
        *blocks((0, {"reasoningContent": {"text": "I need two"}}), (0, {"reasoningContent": {"text": " calls."}})),
        *blocks((0, {"reasoningContent": {"signature": SIGNATURE}})),
        stop(0),
        *blocks((1, {"reasoningContent": {"redactedContent": SEALED}})),
        stop(1),
        *blocks((2, {"text": "Looking."})),
        stop(2),
        start(3, "a"),
        *blocks((3, {"toolUse": {"input": PARIS[:4]}}), (3, {"toolUse": {"input": PARIS[4:]}})),
        stop(3),
        start(4, "b"),
        *blocks((4, {"toolUse": {"input": ROME}})),
        stop(4),
        ("messageStop", {"stopReason": "tool_use"}),
        ("metadata", {"usage": {"inputTokens": 1, "outputTokens": 2, "totalTokens": 3}}),
    ),
    aws(
        ("messageStart", {"role": "assistant"}),
        *blocks((0, {"text": "Done."})),
        stop(0),
        ("messageStop", {"stopReason": "end_turn"}),
        ("metadata", {"usage": {"inputTokens": 1, "outputTokens": 2, "totalTokens": 3}}),
    ),
    [
        {
            "role": "assistant",
            "content": [
                {"reasoningContent": {"reasoningText": {"text": "I need two calls.", "signature": SIGNATURE}}},
                {"reasoningContent": {"redactedContent": SEALED}},
                {"text": "Looking."},
                {"toolUse": {"toolUseId": "tooluse_a", "name": "get_weather", "input": PARIS_ARGS}},
                {"toolUse": {"toolUseId": "tooluse_b", "name": "get_weather", "input": ROME_ARGS}},
            ],
        }
    ],
    [
        {
            "role": "user",
            "content": [
                {"toolResult": {"toolUseId": "tooluse_a", "content": [{"text": "sunny"}]}},
                {"toolResult": {"toolUseId": "tooluse_b", "content": [{"text": "rain"}]}},
            ],
        }
    ],
    [{"role": "assistant", "content": [{"text": "Done."}]}],
    AWS_STREAM,
)


def candidate(*parts: Mapping[str, Any], **more: Any) -> dict[str, Any]:
    return {"candidates": [{"content": {"parts": list(parts), "role": "model"}, "index": 0, **more}], "modelVersion": "gemini", "responseId": "r1"}


def function_call(arguments: Mapping[str, Any], **more: Any) -> dict[str, Any]:
    return {"name": "get_weather", "args": arguments, **more}


CODE = {"executableCode": {"language": "PYTHON", "code": "print(1)"}, "thoughtSignature": OTHER}
CODE_RESULT = {"codeExecutionResult": {"outcome": "OUTCOME_OK", "output": "1"}}
GEMINI = Conversation(
    "gemini",
    data(
        candidate({"text": "I need two calls.", "thought": True}),
        candidate(CODE, CODE_RESULT),
        candidate({"functionCall": function_call(PARIS_ARGS), "thoughtSignature": SIGNATURE}),
        candidate({"functionCall": function_call(ROME_ARGS)}, finishReason="STOP"),
    ),
    data(candidate({"text": "Done."}), candidate({"text": "", "thoughtSignature": OTHER}, finishReason="STOP")),
    [
        {
            "role": "model",
            "parts": [
                CODE,
                CODE_RESULT,
                {"functionCall": function_call(PARIS_ARGS), "thoughtSignature": SIGNATURE},
                {"functionCall": function_call(ROME_ARGS)},
            ],
        }
    ],
    [
        {
            "role": "user",
            "parts": [
                {"functionResponse": {"name": "get_weather", "response": {"result": "sunny"}}},
                {"functionResponse": {"name": "get_weather", "response": {"result": "rain"}}},
            ],
        }
    ],
    [{"role": "model", "parts": [{"text": "Done."}, {"text": "", "thoughtSignature": OTHER}]}],
)


def interaction(status: str, *steps: tuple[Mapping[str, Any], *tuple[Mapping[str, Any], ...]]) -> bytes:
    """
    The stream of an interaction: steps, each with its deltas.
    """
    head = {"id": "", "model": "gemini", "object": "interaction"}
    events: list[dict[str, Any]] = [{"event_type": "interaction.created", "interaction": {**head, "status": "in_progress"}}]
    for index, (step, *deltas) in enumerate(steps):
        events.append({"event_type": "step.start", "index": index, "step": step})
        events += [{"event_type": "step.delta", "index": index, "delta": one} for one in deltas]
        events.append({"event_type": "step.stop", "index": index})
    events.append({"event_type": "interaction.completed", "interaction": {**head, "status": status, "usage": {"total_tokens": 3}}})
    return b"".join(b"event: %s\ndata: %s\n\n" % (event["event_type"].encode(), json.dumps(event).encode()) for event in events)


def interaction_call(name: str, arguments: str, **more: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    start = {"type": "function_call", "id": f"fc_{name}", "name": "get_weather", "arguments": {}, **more}
    return start, {"type": "arguments_delta", "arguments": arguments}


THOUGHT_STEP = (
    {"type": "thought"},
    {"type": "thought_summary", "content": {"type": "text", "text": "I need two calls."}},
    {"type": "thought_signature", "signature": SIGNATURE},
)
THOUGHT_BACK = {"type": "thought", "summary": [{"type": "text", "text": "I need two calls."}], "signature": SIGNATURE}
INTERACTIONS = Conversation(
    "gemini-interactions",
    interaction("requires_action", THOUGHT_STEP, interaction_call("a", PARIS, signature=OTHER), interaction_call("b", ROME)),
    interaction("completed", THOUGHT_STEP, ({"type": "model_output"}, {"type": "text", "text": "Done."})),
    [
        THOUGHT_BACK,
        {"type": "function_call", "id": "fc_a", "name": "get_weather", "arguments": PARIS_ARGS, "signature": OTHER},
        {"type": "function_call", "id": "fc_b", "name": "get_weather", "arguments": ROME_ARGS},
    ],
    [
        {"type": "function_result", "call_id": "fc_a", "name": "get_weather", "result": "sunny"},
        {"type": "function_result", "call_id": "fc_b", "name": "get_weather", "result": "rain"},
    ],
    [THOUGHT_BACK, {"type": "model_output", "content": [{"type": "text", "text": "Done."}]}],
)


def object_call(arguments: Mapping[str, Any]) -> dict[str, Any]:
    return {"function": {"name": "get_weather", "arguments": arguments}}


def ollama(done: bool = False, **message: Any) -> dict[str, Any]:
    return {"model": "q", "message": {"role": "assistant", "content": "", **message}, "done": done} | ({"done_reason": "stop"} if done else {})


OLLAMA = Conversation(
    "ollama",
    lines(
        ollama(thinking="I need "),
        ollama(thinking="two calls."),
        ollama(tool_calls=[object_call(PARIS_ARGS), object_call(ROME_ARGS)]),
        ollama(done=True),
    ),
    lines(ollama(content="Done."), ollama(done=True)),
    [{"role": "assistant", "content": "", "thinking": "I need two calls.", "tool_calls": [object_call(PARIS_ARGS), object_call(ROME_ARGS)]}],
    [
        {"role": "tool", "tool_name": "get_weather", "content": "sunny"},
        {"role": "tool", "tool_name": "get_weather", "content": "rain"},
    ],
    [{"role": "assistant", "content": "Done."}],
    "application/x-ndjson",
)


def cohere_body(reason: str, **message: Any) -> bytes:
    return json.dumps({"id": "c1", "finish_reason": reason, "message": {"role": "assistant", **message}}).encode()


COHERE = Conversation(
    "cohere",
    cohere_body("TOOL_CALL", tool_plan="Two calls.", content=[{"type": "thinking", "thinking": "I think."}], tool_calls=CHAT_BACK),
    cohere_body("COMPLETE", content=[{"type": "thinking", "thinking": "Hm."}, {"type": "text", "text": "Done."}]),
    [{"role": "assistant", "tool_plan": "Two calls.", "content": [{"type": "thinking", "thinking": "I think."}], "tool_calls": CHAT_BACK}],
    CHAT_RESULTS,
    [{"role": "assistant", "content": [{"type": "thinking", "thinking": "Hm."}, {"type": "text", "text": "Done."}]}],
    JSON,
)

MISTRAL = Conversation(
    "mistral",
    data(
        delta(content=[{"type": "thinking", "thinking": [{"type": "text", "text": "I need "}]}]),
        delta(content=[{"type": "thinking", "thinking": [{"type": "text", "text": "two calls."}], "signature": SIGNATURE}]),
        *CHAT_CALLS,
    ),
    CHAT_TEXT,
    [
        {
            "role": "assistant",
            "content": [{"type": "thinking", "thinking": [{"type": "text", "text": "I need two calls."}], "signature": SIGNATURE}],
            "tool_calls": CHAT_BACK,
        }
    ],
    [{**result, "name": "get_weather"} for result in CHAT_RESULTS],
    [{"role": "assistant", "content": "Done."}],
)


def qwen(reason: str = "null", **message: Any) -> dict[str, Any]:
    return {"output": {"choices": [{"message": {"role": "assistant", "content": "", **message}, "finish_reason": reason}]}, "request_id": "q"}


DASHSCOPE = Conversation(
    "dashscope",
    data(
        qwen(reasoning_content="I need "),
        qwen(reasoning_content="two calls."),
        qwen(tool_calls=[{"index": 0, **CHAT_BACK[0]}]),
        qwen("tool_calls", tool_calls=[{"index": 1, **CHAT_BACK[1]}]),
    ),
    data(qwen(content="Done."), qwen("stop")),
    [
        {
            "role": "assistant",
            "content": "",
            "reasoning_content": "I need two calls.",
            "tool_calls": [{"index": 0, **CHAT_BACK[0]}, {"index": 1, **CHAT_BACK[1]}],
        }
    ],
    CHAT_RESULTS,
    [{"role": "assistant", "content": "Done."}],
    quirks={"incremental_output": True},
)

CONVERSATIONS = {
    "deepseek": DEEPSEEK,
    "openrouter": OPENROUTER,
    "responses": RESPONSES,
    "anthropic": ANTHROPIC,
    "bedrock-invoke": INVOKE,
    "bedrock-converse": CONVERSE,
    "gemini": GEMINI,
    "gemini-interactions": INTERACTIONS,
    "ollama": OLLAMA,
    "cohere": COHERE,
    "mistral": MISTRAL,
    "dashscope": DASHSCOPE,
}
TURNS = {"openai-responses": "input", "gemini-interactions": "input", "gemini": "contents"}


def turns(talk: Conversation, prompt: Prompt) -> list[Any]:
    """
    The turns of the request for a prompt.
    """
    build = get_dialect(talk.dialect).request
    assert build is not None
    model = "anthropic.claude" if talk.dialect == "bedrock-invoke" else "m"
    wire = build(ModelCall(model, as_messages(prompt), "http://provider", "key", (WEATHER,), RequestOptions(), talk.quirks))
    body = json.loads(wire.content)
    found: list[Any] = body["input"]["messages"] if talk.dialect == "dashscope" else body[TURNS.get(talk.dialect, "messages")]
    return found


def answer(talk: Conversation, body: bytes) -> ChatResponse:
    options = {"incremental_output": True} if talk.dialect == "dashscope" else None
    reading = read(talk.dialect, body, talk.media_type, options=options)
    assert "COMPLETE" == reading.verdict
    return reading.response


@pytest.mark.parametrize("name", CONVERSATIONS)
def test_three_turns(name: str) -> None:
    """
    Calls, signatures, sealed items and ids of the first answer, the results in call order, then the second answer: each exactly as it came.
    """
    talk = CONVERSATIONS[name]
    first = answer(talk, talk.calls)
    assert [PARIS_ARGS, ROME_ARGS] == [call.arguments for call in first.tool_calls]
    results = [Message.tool(call, result) for call, result in zip(first.tool_calls, RESULTS, strict=True)]
    asked = turns(talk, ["What is the weather?"])
    assert [*asked, *talk.first, *talk.results] == turns(talk, ["What is the weather?", first, *results])

    second = answer(talk, talk.text)
    thanks = turns(talk, ["Thanks."])
    third = turns(talk, ["What is the weather?", first, *results, second, "Thanks."])
    assert [*asked, *talk.first, *talk.results, *talk.second, *thanks] == third


@pytest.mark.parametrize("name", CONVERSATIONS)
def test_results_come_back_to_their_calls_in_any_order_given(name: str) -> None:
    """
    A result knows its call by the id, also where the wire carries names only.
    """
    talk = CONVERSATIONS[name]
    first = answer(talk, talk.calls)
    last, before = first.tool_calls[1], first.tool_calls[0]
    swapped = turns(talk, ["?", first, Message.tool(last, "rain"), Message.tool(before, "sunny")])
    assert swapped != turns(talk, ["?", first, Message.tool(before, "sunny"), Message.tool(last, "rain")])


@pytest.mark.parametrize("name", CONVERSATIONS)
async def test_asked_and_answered_on_loopback(name: str) -> None:
    """
    The client asks in the dialect and reads the answer in it, with calls and without.
    """
    talk = CONVERSATIONS[name]
    model = "anthropic.claude" if talk.dialect == "bedrock-invoke" else "m"
    options = {"incremental_output": True} if talk.dialect == "dashscope" else None
    scripts = [reply(body, content_type=talk.media_type) for body in (talk.calls, talk.text)]
    async with loopback(in_turn(scripts)) as server:
        asked = ChatModel(model, base_url=server.url, api_key="k", dialect=talk.dialect, options=options)
        first = await asked.call("What is the weather?", tools=[WEATHER])
        results = [Message.tool(call, result) for call, result in zip(first.tool_calls, RESULTS, strict=True)]
        second = await asked.call(["What is the weather?", first, *results], tools=[WEATHER])
    assert ("COMPLETE", "COMPLETE", "Done.") == (first.verdict, second.verdict, second.text)
    assert 2 == len(server.seen)


@pytest.mark.parametrize("name", ["anthropic", "bedrock-converse", "gemini", "ollama", "responses"])
def test_a_call_that_was_cut_is_not_sent_back(name: str) -> None:
    """
    Truncated arguments are never made up.
    """
    talk = CONVERSATIONS[name]
    first = answer(talk, talk.calls)

    cut = attrs.evolve(first.tool_calls[0], arguments=None, complete=False, arguments_text='{"ci')
    with pytest.raises(ConfigurationError, match="cannot be sent back"):
        turns(talk, ["?", Message.assistant(cut)])
