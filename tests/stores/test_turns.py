"""
A turn as a value and as JSON.
"""

from __future__ import annotations

import json
from typing import Any

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rxchat.errors import InvalidJSONError, ProtocolError, Verdict
from rxchat.prompt import Message, Role
from rxchat.response import ChatResponse, FinishReason, ProviderItemPart, ServerToolPart, TextPart, ToolResultPart, Usage
from rxchat.stores import Round, Turn, dump_turn, load_turn, unanswered
from tests.stores.saying import answered, call, turn
from tests.strategies import json_objects, parts, responses, texts

messages = st.builds(Message, st.sampled_from(Role), st.lists(parts, max_size=3).map(tuple), json_objects)
rounds = st.builds(Round, st.lists(messages, max_size=2).map(tuple), responses)
turns = st.builds(Turn, texts, st.lists(rounds, min_size=1, max_size=2).map(tuple), st.floats(0, 2e9))

RESULT = Message.tool("call_1", "sun")


@given(turns)
def test_a_turn_survives_being_written(value: Turn) -> None:
    """
    Equal again, and written again the same; `v` tells the version.
    """
    text = dump_turn(value)
    assert (load_turn(text), dump_turn(load_turn(text))) == (value, text)
    assert json.loads(text)["v"] == 1


def test_what_a_later_version_wrote_survives() -> None:
    """
    Unknown fields of a turn, unknown parts and whole unknown events are written back as they came; no provider sees them.
    """
    later: dict[str, Any] = {
        "mood": {"calm": 1},
        "events": [{"v": 9, "type": "AUDIO_CUE", "at": 3}],
        "v": 1,
        "request_id": "a",
        "rounds": [
            {
                "messages": [{"role": "user", "parts": [{"part": "hologram", "url": "u"}, {"part": "text", "text": "Look."}]}],
                "response": {"parts": [{"part": "scent", "note": "rose"}, {"part": "text", "text": "Nice."}], "verdict": "COMPLETE"},
            }
        ],
    }
    read = load_turn(json.dumps(later))
    assert json.loads(dump_turn(read)) == later
    assert [(message.role, message.text) for message in read.messages] == [("user", "Look."), ("assistant", "Nice.")]
    assert list(read.messages[1].parts) == [TextPart("Nice.")]
    assert json.loads(dump_turn(load_turn(json.dumps({**later, "v": 7})))) == later


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("{", InvalidJSONError),
        ("[]", ProtocolError),
        ('{"v":1}', ProtocolError),
        ('{"request_id":"a","rounds":[]}', ProtocolError),
        ('{"request_id":3,"rounds":[{"messages":[],"response":{}}]}', ProtocolError),
        ('{"request_id":"a","rounds":[{"messages":[{"role":"nobody","parts":[]}],"response":{}}]}', ProtocolError),
        ('{"request_id":"a","rounds":[{"messages":[],"response":{"verdict":"FINE"}}]}', ProtocolError),
        (b'{"request_id":"\xff"}', Exception),
    ],
)
def test_what_is_no_turn(text: str | bytes, error: type[Exception]) -> None:
    """
    Malformed records fail, never half read.
    """
    with pytest.raises(error):
        load_turn(text)


def test_a_turn_tells_its_end_and_its_sum() -> None:
    """
    Verdict and finish of the last round, usage of all, None where none was reported.
    """
    first = answered(call(), finish=FinishReason.TOOL_CALLS)
    value = Turn("a", (Round((Message.user("?"),), first), Round((RESULT,), answered("Sun."))))
    assert (value.verdict, value.finish_reason, value.response.text) == (Verdict.COMPLETE, FinishReason.STOP, "Sun.")
    assert value.usage == Usage(input_tokens=6, output_tokens=4)
    assert Turn("a", (Round((), attrs.evolve(first, usage=None)),)).usage is None
    assert [message.role for message in value.messages] == ["user", "assistant", "tool", "assistant"]
    assert turn("a").messages == (Message.user("question a"), Message.assistant("answer a"))


SERVER = ServerToolPart("mcp_approval_request", id="req_1", needs_client=True)


@pytest.mark.parametrize(
    ("items", "waiting"),
    [
        ([answered("Hi.")], []),
        ([answered(call())], ["call_1"]),
        ([answered(call(), ToolResultPart("call_1", "sun"))], []),
        ([answered(call(), ToolResultPart("call_1", "sun"), call())], ["call_1"]),
        ([answered(call("a"), call("b"), ToolResultPart("b", "sun"))], ["a"]),
        ([answered(attrs.evolve(call(), server_executed=True))], []),
        ([answered(call()), RESULT, answered("Sun.")], []),
        ([answered(call()), Message.user("Never mind."), answered("Fine.")], ["call_1"]),
        ([answered(call()), RESULT, answered(call())], ["call_1"]),
        ([answered(SERVER)], ["req_1"]),
        ([answered(ServerToolPart("web_search", id="ws_1"))], []),
        ([answered(SERVER), Message.user(ProviderItemPart("mcp_approval_response", {"approval_request_id": "req_1"})), answered("Ok.")], []),
        ([answered(SERVER), Message.user(ProviderItemPart("opaque", "text")), answered("Ok.")], ["req_1"]),
    ],
)
def test_unanswered_calls(items: list[ChatResponse | Message], waiting: list[str]) -> None:
    """
    A call waits until its result came, in the same response or in a later message (contract H, P10, P12).
    """
    said = [item if isinstance(item, ChatResponse) else ChatResponse(item.parts) for item in items]
    assert [part.id for part in unanswered(Round((), response) for response in said)] == waiting
    pairs: list[Round] = []
    pending: list[Message] = []
    for item in items:
        if isinstance(item, Message):
            pending.append(item)
        else:
            pairs.append(Round(tuple(pending), item))
            pending = []
    assert [part.id for part in unanswered(pairs)] == waiting
