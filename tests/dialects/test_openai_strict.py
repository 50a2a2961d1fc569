"""
The profile strict_text: one choice of text, stop, [DONE]; all else is refused with its own verdict (contract V8).
"""

from __future__ import annotations

import json
from typing import Any

import pytest

from rxchat.errors import ContentTypeError, HTTPStatusError, Verdict
from rxchat.events import ErrorEvent, Raw, ResponseEnd, TextDelta
from rxchat.limits import Limits
from rxchat.pipeline import Head
from tests.dialects.chat_wire import DONE, events_of, final, sse, texts, whole
from tests.grammar import violations

FIN = {"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]}
USAGE: dict[str, Any] = {"choices": [], "usage": {}}


def said(text: Any, finish: Any = None, **fields: Any) -> dict[str, Any]:
    """
    A frame as this profile knows it.
    """
    return {"choices": [{"index": 0, "delta": {"content": text}, "finish_reason": finish, **fields}]}


def only(**fields: Any) -> dict[str, Any]:
    """
    A frame whose one choice has these fields.
    """
    return {"choices": [{"index": 0, "delta": {}} | fields]}


HI = said("hi")
GOOD = sse(HI, said(" there"), FIN, DONE)

CASES: dict[str, tuple[bytes, Verdict, str]] = {
    "good": (GOOD, Verdict.COMPLETE, "hi there"),
    "usage anywhere": (sse(USAGE, HI, USAGE, FIN, USAGE, DONE), Verdict.COMPLETE, "hi"),
    "finish with the text": (sse(said("hi", "stop"), DONE), Verdict.COMPLETE, "hi"),
    "role and null": (sse(only(delta={"role": "assistant", "content": None}), HI, FIN, DONE), Verdict.COMPLETE, "hi"),
    "index 0.0": (sse(HI, only(index=0.0, finish_reason="stop"), DONE), Verdict.COMPLETE, "hi"),
    "other keys beside": (
        sse(HI | {"id": "x", "model": "m", "usage": None}, only(logprobs=None, finish_reason="stop"), DONE),
        Verdict.COMPLETE,
        "hi",
    ),
    "empty text behind the finish": (sse(HI, FIN, said(""), DONE), Verdict.COMPLETE, "hi"),
    "event names mean nothing": (b"event: error\n" + GOOD, Verdict.COMPLETE, "hi there"),
    "no [DONE]": (sse(HI, FIN), Verdict.INCOMPLETE_STREAM, "hi"),
    "held [DONE]": (sse(HI, FIN) + b"data: [DONE]", Verdict.INCOMPLETE_STREAM, "hi"),
    "nothing": (b"", Verdict.INCOMPLETE_STREAM, ""),
    "[DONE] without finish": (sse(HI, DONE), Verdict.PROTOCOL, "hi"),
    "[DONE] alone": (sse(DONE), Verdict.PROTOCOL, ""),
    "an empty answer": (sse(FIN, DONE), Verdict.PROTOCOL, ""),
    "blanks around [DONE]": (sse(HI, FIN, " [DONE] "), Verdict.INVALID_JSON, "hi"),
    "text behind the finish": (sse(HI, FIN, said("more"), DONE), Verdict.PROTOCOL, "hi"),
    "a second finish": (sse(HI, FIN, FIN, DONE), Verdict.PROTOCOL, "hi"),
    "a tool": (sse(only(delta={"tool_calls": []})), Verdict.PROTOCOL, ""),
    "reasoning": (sse(HI, only(delta={"reasoning": "t"})), Verdict.PROTOCOL, "hi"),
    "another role": (sse(only(delta={"role": "tool", "content": "x"})), Verdict.PROTOCOL, ""),
    "a null role": (sse(only(delta={"role": None})), Verdict.PROTOCOL, ""),
    "content that is an array": (sse(said([])), Verdict.PROTOCOL, ""),
    "no delta": (sse({"choices": [{"index": 0}]}), Verdict.PROTOCOL, ""),
    "no choices": (sse({"x": 1}), Verdict.PROTOCOL, ""),
    "empty choices without usage": (sse({"choices": []}), Verdict.PROTOCOL, ""),
    "empty choices, usage null": (sse({"choices": [], "usage": None}), Verdict.PROTOCOL, ""),
    "two choices": (sse({"choices": [FIN["choices"][0]] * 2}), Verdict.PROTOCOL, ""),
    "choice 1": (sse(only(index=1)), Verdict.PROTOCOL, ""),
    "choice true": (sse(only(index=False)), Verdict.PROTOCOL, ""),
    "no index": (sse({"choices": [{"delta": {}}]}), Verdict.PROTOCOL, ""),
    "a choice that is a text": (sse({"choices": ["x"]}), Verdict.PROTOCOL, ""),
    "length": (sse(HI, only(finish_reason="length"), DONE), Verdict.INCOMPLETE_FINISH, "hi"),
    "length with text": (sse(said("hi", "length")), Verdict.INCOMPLETE_FINISH, "hi"),
    "a filter": (sse(HI, only(finish_reason="content_filter")), Verdict.INCOMPLETE_FINISH, "hi"),
    "an unknown finish": (sse(HI, only(finish_reason="tool_calls")), Verdict.INCOMPLETE_FINISH, "hi"),
    "a finish that is a number": (sse(HI, only(finish_reason=7)), Verdict.INCOMPLETE_FINISH, "hi"),
    "an empty finish": (sse(HI, only(finish_reason="")), Verdict.INCOMPLETE_FINISH, "hi"),
    "an error": (sse(HI, {"error": {"message": "fixture"}}), Verdict.PROVIDER_ERROR, "hi"),
    "an error that is null": (sse(HI, HI | {"error": None}), Verdict.PROVIDER_ERROR, "hi"),
    "an error beside text": (sse(HI | {"error": {"message": "x"}}), Verdict.PROVIDER_ERROR, ""),
    "a bare error": (sse(HI) + b'{"error": {"message": "x"}}\n', Verdict.PROVIDER_ERROR, "hi"),
    "a line that is no field": (sse(HI) + b"hello\n" + sse(FIN, DONE), Verdict.COMPLETE, "hi"),
    "no JSON": (sse("{oops}"), Verdict.INVALID_JSON, ""),
    "a key twice": (sse('{"choices":[],"choices":[]}'), Verdict.INVALID_JSON, ""),
    "no object": (sse(HI, "[1]"), Verdict.INVALID_JSON, "hi"),
    "a text": (sse('"x"'), Verdict.INVALID_JSON, ""),
    "blank data": (sse(HI, ""), Verdict.INVALID_JSON, "hi"),
    "depth 17": (sse('{"choices":[],"usage":{"a":' + "[" * 15 + "]" * 15 + "}}", HI, FIN, DONE), Verdict.COMPLETE, "hi"),
    "depth 18": (sse('{"choices":[],"usage":{"a":' + "[" * 16 + "]" * 16 + "}}"), Verdict.INVALID_JSON, ""),
    "no UTF-8": (b"\xc3\x28", Verdict.INVALID_UTF8, ""),
    "output at the limit": (sse(said("a" * 4096), FIN, DONE), Verdict.COMPLETE, "a" * 4096),
    "output over the limit": (sse(said("a" * 4097), FIN, DONE), Verdict.LIMIT, ""),
    "output over the limit in pieces": (sse(said("a" * 4096), said("b"), FIN, DONE), Verdict.LIMIT, "a" * 4096),
    "a line over the limit": (b"data: " + b"x" * 8200 + b"\n\n", Verdict.LIMIT, ""),
    "256 events": (sse(*[said("a")] * 254, FIN, DONE), Verdict.COMPLETE, "a" * 254),
    "257 events": (sse(*[said("a")] * 255, FIN, DONE), Verdict.LIMIT, "a" * 255),
}


@pytest.mark.parametrize("name", CASES)
def test_strict(name: str) -> None:
    """
    Verdict and preview of each body, the same whole and in small reads; only COMPLETE is committable.
    """
    wire, verdict, preview = CASES[name]
    fingerprints = []
    for size in (len(wire) or 1, 7, 1):
        events, error = whole(wire, [wire[k : k + size] for k in range(0, len(wire), size)], profile="strict_text")
        response = final(events)
        assert (verdict, preview, preview) == (response.verdict, response.text, texts(events))
        assert (verdict is Verdict.COMPLETE) == response.committable
        assert [] == violations(events)
        fingerprints.append([event if not isinstance(event, ErrorEvent) else (str(error), event.response) for event in events])
    assert fingerprints[0] == fingerprints[1] == fingerprints[2]


@pytest.mark.parametrize("newline", ["\r\n", "\r"])
def test_line_ends(newline: str) -> None:
    """
    CRLF and CR end lines as LF does.
    """
    assert "hi" == final(whole(sse(HI, FIN, DONE, newline=newline), profile="strict_text")[0]).text


def test_nothing_is_read_behind_a_refused_finish() -> None:
    """
    A finish other than stop ends the response with its frame.
    """
    events, error = events_of(said("hi", "length"), "{broken", profile="strict_text", limits=Limits.strict)
    assert error is None
    assert isinstance(events[-1], ResponseEnd)


def test_stray_lines_say_nothing() -> None:
    """
    Lines that are no fields are no events in this profile.
    """
    events, _ = whole(sse(HI) + b"odd\n" + sse(FIN, DONE), profile="strict_text")
    assert not any(isinstance(event, Raw) for event in events)
    assert [TextDelta("hi")] == [event for event in events if isinstance(event, TextDelta)]


@pytest.mark.parametrize(
    ("head", "kind"),
    [
        (Head(503, {"content-type": "text/event-stream"}), HTTPStatusError),
        (Head(201), HTTPStatusError),
        (Head(503, {"content-type": "application/json"}), HTTPStatusError),
        (Head(200, {"content-type": "application/json"}), ContentTypeError),
        (Head(200, {"content-type": "text/html"}), ContentTypeError),
    ],
)
def test_refused_heads(head: Head, kind: type[Exception]) -> None:
    """
    Status before type before body: a refused answer is refused with its first byte, its body not kept (contract P7).
    """
    events, error = whole(GOOD, head=head, profile="strict_text")
    assert isinstance(error, kind)
    assert (b"", "") == (getattr(error, "body", None), final(events).text)


@pytest.mark.parametrize("kind", [None, "Text/Event-Stream; charset=utf-8"])
def test_accepted_heads(kind: str | None) -> None:
    """
    The stream's type in any case, with parameters, or none at all.
    """
    head = Head(200, {"Content-Type": kind} if kind else {})
    assert Verdict.COMPLETE == final(whole(GOOD, head=head, profile="strict_text")[0]).verdict


def test_multi_line_data() -> None:
    """
    One JSON over two data lines is one event; a text broken over them is not JSON.
    """
    broken = json.dumps(HI).replace('{"choices"', '{\ndata: "choices"').encode()
    assert "hi" == final(whole(b"data: " + broken + b"\n\n" + sse(FIN, DONE), profile="strict_text")[0]).text
    inside = json.dumps(HI).replace("hi", "h\ndata: i").encode()
    assert Verdict.INVALID_JSON == final(whole(b"data: " + inside + b"\n\n", profile="strict_text")[0]).verdict
