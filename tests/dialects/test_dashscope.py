"""
DashScope: frames that repeat all or hold what is new, text and message format.
"""

from __future__ import annotations

import json
from typing import Any

import pytest

from rxchat.errors import DialectError, IncompleteStreamError, ProviderError
from rxchat.events import Citation, Raw, SearchResult, ServerToolResult, ServerToolStart
from rxchat.response import FinishReason
from tests.dialects.reading import Reading, read, read_everywhere

INCREMENTAL = {"incremental_output": "true"}
USAGE = {
    "input_tokens": 8,
    "output_tokens": 3,
    "total_tokens": 11,
    "prompt_tokens_details": {"cached_tokens": 2},
    "output_tokens_details": {"reasoning_tokens": 1},
}


def frame(output: Any = None, event: str = "result", **said: Any) -> bytes:
    value = {"output": output, "usage": USAGE, "request_id": "r-1", **said} if output is not None else said
    return f"id:1\nevent:{event}\n:HTTP_STATUS/200\ndata:{json.dumps(value, ensure_ascii=False)}\n\n".encode()


def message(finish: str | None = "null", index: int | None = None, **said: Any) -> dict[str, Any]:
    choice: dict[str, Any] = {"message": {"role": "assistant", **said}, "finish_reason": finish}
    return choice if index is None else {**choice, "index": index}


def choices(*said: dict[str, Any], **beside: Any) -> bytes:
    return frame({"choices": list(said), **beside})


def fragment(index: int | None, call_id: str | None, name: str | None, arguments: str | None) -> dict[str, Any]:
    function = {key: value for key, value in (("name", name), ("arguments", arguments)) if value is not None}
    return {key: value for key, value in (("index", index), ("id", call_id), ("function", function)) if value is not None}


def incremental(*frames: bytes) -> Reading:
    return read_everywhere("dashscope", b"".join(frames), options=INCREMENTAL)


def cumulative(*frames: bytes) -> Reading:
    return read_everywhere("dashscope", b"".join(frames))


def test_incremental_and_cumulative() -> None:
    """
    The same answer, told both ways, is the same answer.
    """
    new = incremental(
        choices(message(content="", reasoning_content="Hm")),
        choices(message(content="", reasoning_content="m")),
        choices(message(content="1+1", reasoning_content="")),
        choices(message(content=" 等于")),
        choices(message("stop", content="")),
    )
    everything = cumulative(
        choices(message(content="", reasoning_content="Hm")),
        choices(message(content="", reasoning_content="Hmm")),
        choices(message(content="1+1", reasoning_content="Hmm")),
        choices(message(content="1+1 等于", reasoning_content="Hmm")),
        choices(message("stop", content="1+1 等于", reasoning_content="Hmm")),
    )
    assert new.response == everything.response
    assert (new.verdict, new.response.text, new.response.thinking) == ("COMPLETE", "1+1 等于", "Hmm")
    assert new.response.provider_response_id == "r-1"
    assert new.response.usage is not None
    assert (new.response.usage.input_tokens, new.response.usage.cache_read_tokens, new.response.usage.reasoning_tokens) == (8, 2, 1)


def test_text_format() -> None:
    """
    result_format text: `output.text` and its finish.
    """
    got = cumulative(frame({"text": "1", "finish_reason": "null"}), frame({"text": "1, 2", "finish_reason": "stop"}))
    assert (got.verdict, got.response.text) == ("COMPLETE", "1, 2")


def test_the_wrong_option_is_an_error() -> None:
    """
    New pieces read as repeats are refused with the option's name, never glued or doubled.
    """
    got = cumulative(choices(message(content="Hello")), choices(message(content=" you")))
    assert isinstance(got.error, DialectError)
    assert "incremental_output" in got.error.message
    assert got.response.text == "Hello"


@pytest.mark.parametrize("way", ["incremental", "cumulative"])
def test_calls(way: str) -> None:
    """
    Calls by index; later pieces have an empty id and no name; all end with the finish.
    """
    first = [fragment(0, "a", "f", '{"x'), fragment(1, "b", "g", "")]
    later = [fragment(0, "", None, '":1}' if way == "incremental" else '{"x":1}'), fragment(1, "", None, None)]
    drive = incremental if way == "incremental" else cumulative
    got = drive(choices(message(content="", tool_calls=first)), choices(message("tool_calls", content="", tool_calls=later)))
    assert got.verdict == "COMPLETE"
    assert [(call.id, call.name, call.arguments, call.complete) for call in got.response.tool_calls] == [
        ("a", "f", {"x": 1}, True),
        ("b", "g", {}, True),
    ]


def test_call_without_index_cut_by_length() -> None:
    """
    Without an index the place in the list counts; a call cut by length is not complete.
    """
    got = incremental(choices(message("length", tool_calls=[fragment(None, "a", "f", '{"x')])))
    assert got.verdict == "INCOMPLETE_FINISH"
    assert [(call.arguments_text, call.arguments, call.complete) for call in got.response.tool_calls] == [('{"x', None, False)]


def test_multimodal_and_several_choices() -> None:
    """
    Content may be a list of texts, or empty; a second choice is an alternative with its own finish.
    """
    got = incremental(
        choices(message(index=0, content=[{"text": "a"}]), message(index=1, content="x")),
        choices(message("stop", index=0, content=[])),
        choices(message("length", index=1, content=[{"text": "y"}, {"image": "i"}])),
    )
    assert (got.verdict, got.response.text) == ("COMPLETE", "a")
    assert [(each.text, each.finish_reason) for each in got.response.alternatives] == [("xy", FinishReason.LENGTH)]


def test_search_and_tools() -> None:
    """
    Hits come once and are not taken back by an empty list; what the provider's tools did is told once.
    """
    hit = {"url": "https://e.org", "title": "T", "index": 1}
    tool = {"type": "code_interpreter", "code_interpreter": {"code": "1"}}
    got = incremental(
        choices(message(content=""), search_info={"search_results": [hit], "extra_tool_info": []}, tool_info=[tool]),
        choices(
            message(content="a"), search_info={"search_results": [], "extra_tool_info": [{"tool": "weather", "result": "sun"}]}, tool_info=[tool]
        ),
        choices(message("stop", content=""), search_info={"search_results": [hit]}),
    )
    assert got.of(SearchResult) == [SearchResult("https://e.org", "T")]
    assert got.of(Citation) == [Citation("https://e.org", "T")]
    assert [event.kind for event in got.of(ServerToolStart) if isinstance(event, ServerToolStart)] == ["code_interpreter", "weather"]
    assert got.of(ServerToolResult) == [ServerToolResult("weather", payload="sun")]


@pytest.mark.parametrize(
    "body",
    [
        frame(event="error", code="InvalidParameter", message="boom", request_id="r"),
        frame(code="Throttling", message="boom", request_id="r"),
        b'data:{"error": {"message": "boom"}}\n\n',
        b'{"code": "X", "message": "boom", "error": "boom"}\n',
    ],
)
def test_errors(body: bytes) -> None:
    """
    An error event, an error object, or a bare line of one, after text: the text stays, the error is the provider's.
    """
    got = incremental(choices(message(content="Hi")), body)
    assert isinstance(got.error, ProviderError)
    assert got.error.message == "boom"
    assert got.response.text == "Hi"


@pytest.mark.parametrize(
    "body",
    [
        b"data:3\n\n",
        frame(3),
        choices(message(content=3)),
        choices(message(tool_calls=[fragment(0, "a", "f", None) | {"function": {"name": "f", "arguments": {}}}])),
        choices({"message": {}, "finish_reason": 3}),
    ],
)
def test_malformed(body: bytes) -> None:
    """
    A known frame that is not as it should be is a DialectError.
    """
    assert isinstance(read("dashscope", body, options=INCREMENTAL).error, DialectError)


def test_ends() -> None:
    """
    A finish, then a clean end; a last frame without its blank line counts if its JSON is whole.
    """
    text, stop = choices(message(content="Hi")), choices(message("stop", content=""))
    assert incremental(text, stop[:-1]).verdict == "COMPLETE"
    assert incremental(text, stop[:-2]).verdict == "COMPLETE"
    assert isinstance(incremental(text, stop[:-3]).error, IncompleteStreamError)
    assert isinstance(incremental(text, stop, b"event:result\n").error, IncompleteStreamError)
    assert isinstance(incremental(text).error, IncompleteStreamError)
    assert isinstance(incremental().error, IncompleteStreamError)
    assert isinstance(read("dashscope", text + stop, options=INCREMENTAL, clean_eof=False).error, IncompleteStreamError)


def test_lost_blank_lines() -> None:
    """
    A body stored without any blank line is read line by line, up to the first that is not whole; the last frame's event name is its own alone.
    """
    frames = [choices(message(content="Hi")), choices(message(content=" you")), choices(message("stop", content=""))]
    bare = [each.replace(b"\n\n", b"\n") for each in frames]
    got = incremental(b"\xef\xbb\xbf", *bare)
    assert (got.verdict, got.response) == ("COMPLETE", incremental(*frames).response)
    cut = incremental(*bare[:2], bare[2][:-5])
    assert (cut.response.text, type(cut.error)) == ("Hi you", IncompleteStreamError)
    failed = incremental(*bare[:2], frame(event="error", code="Throttling", message="boom").rstrip())
    assert (failed.response.text, type(failed.error)) == ("Hi you", ProviderError)
    for apart in (b', "', b": {"):
        folded = choices(message("stop", content="Hi")).replace(apart, apart[:1] + b"\ndata: " + apart[2:]).removesuffix(b"\n\n")
        assert incremental(folded).response.text == "Hi"


def test_unknown_and_late_text() -> None:
    """
    Unknown events and frames are Raw, stray lines too; text behind the finish is shown and counted; an unknown finish is OTHER.
    """
    got = incremental(
        frame({"choices": []}, event="novel"),
        frame(hello=1),
        b"hi: there\n\n",
        choices({**message("stop", content="a"), "logprobs": {"content": [1]}}),
        choices(message("whim", content="b")),
    )
    assert len(got.of(Raw)) == 3
    assert (got.response.text, got.response.after_finish) == ("ab", 1)
    assert (got.verdict, got.response.finish_reason) == ("INCOMPLETE_FINISH", FinishReason.OTHER)
    assert got.response.metadata["logprobs"] == [{"content": [1]}]


def test_whole_body() -> None:
    """
    One JSON body gives the answer of its stream.
    """
    said = message("stop", content="Hi")
    body = {"output": {"choices": [said]}, "usage": USAGE, "request_id": "r-1"}
    whole = read_everywhere("dashscope", json.dumps(body).encode(), "application/json")
    assert whole.response == cumulative(choices(said)).response
    assert whole.verdict == "COMPLETE"
    assert isinstance(read("dashscope", b'{"usage": {}, "request_id": "r"}', "application/json").error, DialectError)
