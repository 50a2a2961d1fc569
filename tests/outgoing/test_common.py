"""
What the builders share.
"""

from __future__ import annotations

import pytest

from rxchat.errors import ConfigurationError
from rxchat.outgoing.common import (
    ModelCall,
    WireRequest,
    bearer,
    data_url,
    merge_extra,
    pick,
    refuse_options,
    result_text,
    results_of,
    schema_of,
    split_system,
    whole_arguments,
    wire_id,
)
from rxchat.prompt import JsonSchema, Message, RequestOptions, ToolSpec
from rxchat.response import MediaPart, TextPart, ToolCall, ToolResultPart

CALL = ModelCall("m", (Message.user("Hi"),), "http://provider", "sk-secret", request=RequestOptions(seed=0, top_k=3))


def test_keys_have_no_repr() -> None:
    """
    Neither of the call nor of the request.
    """
    wire = WireRequest("http://provider", {"a": "é"}, bearer(CALL))
    assert "sk-secret" not in f"{CALL!r} {wire!r}"
    assert '{"a":"é"}'.encode() == wire.content
    assert {"content-type": "application/json"} == bearer(ModelCall("m", (), "u"))


def test_refused_options_are_those_said() -> None:
    """
    Zero is said, None is not.
    """
    refuse_options(CALL, "toy", "stop", "temperature")
    with pytest.raises(ConfigurationError, match="toy has no way to say seed, top_k"):
        refuse_options(CALL, "toy", "seed", "stop", "top_k")


def test_system_texts_are_joined() -> None:
    """
    By a blank line; None where there is none.
    """
    assert ("a\n\nb", (Message.user("x"),)) == split_system((Message.system("a"), Message.user("x"), Message.system("b")))
    assert (None, (Message.user("x"),)) == split_system((Message.user("x"),))


@pytest.mark.parametrize(
    "result, text",
    [("plain", "plain"), ([TextPart("a"), TextPart("b")], "ab"), ({"a": [1]}, '{"a":[1]}'), ([], "[]"), (None, "null"), (3, "3")],
)
def test_results_as_text(result: object, text: str) -> None:
    """
    Texts as they are, anything else as compact JSON.
    """
    assert text == result_text(ToolResultPart("c", result))


def test_results_of_a_tool_message() -> None:
    """
    Nothing but results.
    """
    assert (ToolResultPart("c", "r"),) == results_of(Message.tool("c", "r"))
    with pytest.raises(ConfigurationError, match="a tool message holds tool results, not TextPart"):
        results_of(Message(Message.tool("c", "r").role, (TextPart("x"),)))


def test_extras_are_merged_last() -> None:
    """
    Objects key by key, None removes, anything else replaces; the body itself is not changed.
    """
    body = {"a": {"b": 1, "c": 2}, "d": [1], "e": 1}
    assert {"a": {"b": 9, "c": 2, "x": 3}, "d": [2], "f": {"g": 1}} == merge_extra(body, {"a": {"b": 9, "x": 3}, "d": [2], "e": None, "f": {"g": 1}})
    assert {"a": {"b": 1, "c": 2}, "d": [1], "e": 1} == body


def test_schema() -> None:
    """
    A schema, or one of two words.
    """
    schema = JsonSchema({})
    assert (schema, None, None, None) == tuple(schema_of(said) for said in (schema, "json", "text", None))


def test_small_helpers() -> None:
    """
    Data URLs, ids that mean nothing to the provider, metadata of others, arguments that are not whole.
    """
    assert "data:image/png;base64,QUJD" == data_url(MediaPart("image", "image/png", "QUJD"))
    assert "data:application/octet-stream;base64," == data_url(MediaPart("file"))
    assert ("call_1", None) == (wire_id("call_1"), wire_id(""))
    assert ({"a": 1}, {}) == (pick({"a": 1, "b": 2}, "a", "c"), pick(None, "a"))
    assert {"a": 1} == whole_arguments(ToolCall("c", "t", '{"a":1}', {"a": 1}, complete=True))
    assert {"INVALID_JSON": "[1"} == whole_arguments(ToolCall("c", "t", "[1", complete=True))
    with pytest.raises(ConfigurationError, match="tool call c has no whole arguments and cannot be sent back"):
        whole_arguments(ToolCall("c", "t", '{"a'))
    assert "function" == ToolSpec("t").kind
