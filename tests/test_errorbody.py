"""
Error objects and bodies of every shape seen: what they say is read, nothing else is made up.
"""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rxchat.errorbody import ErrorInfo, error_in, flat_error, provider_error, read_error, read_error_body, stray_error
from rxchat.errors import ProviderError, Verdict
from tests.strategies import json_values

SHAPES: dict[str, tuple[Any, dict[str, Any]]] = {
    "nested": ({"error": {"message": "m", "type": "t", "param": None, "code": "c"}}, {"message": "m", "type": "t", "code": "c"}),
    "nested, request id outside": ({"error": {"message": "m"}, "request_id": "r"}, {"message": "m", "request_id": "r"}),
    "nested, request id inside": ({"error": {"message": "m", "requestId": "r"}}, {"message": "m", "request_id": "r"}),
    "a typed envelope": (
        {"type": "error", "error": {"type": "overloaded_error", "message": "m"}, "request_id": "req_1"},
        {"message": "m", "type": "overloaded_error", "request_id": "req_1", "retryable": True},
    ),
    "a status word": (
        {"error": {"code": 429, "message": "m", "status": "RESOURCE_EXHAUSTED", "details": [{"@type": "x"}, {"retryDelay": "12.5s"}]}},
        {"message": "m", "code": 429, "type": "RESOURCE_EXHAUSTED", "status": 429, "retry_after": 12.5, "retryable": True},
    ),
    "a text": ({"error": "m"}, {"message": "m"}),
    "a text and its type": ({"error": "m", "error_type": "t"}, {"message": "m", "type": "t"}),
    "a title and a message": ({"error": "Not Found", "message": "m"}, {"message": "m"}),
    "flat": ({"message": "m", "type": "t", "param": "p", "code": "c"}, {"message": "m", "type": "t", "code": "c"}),
    "flat with a reason": ({"code": 400, "reason": "r", "message": "m", "metadata": {}}, {"message": "m", "code": 400, "status": 400}),
    "an error object": ({"object": "error", "message": "m", "type": "t", "code": "1500"}, {"message": "m", "type": "t", "code": "1500"}),
    "a numeric text as code": ({"error": {"message": "m", "code": "404"}}, {"message": "m", "code": "404", "status": 404}),
    "a detail": ({"detail": "m"}, {"message": "m"}),
    "a detail that is an object": ({"detail": {"message": "m", "code": "c"}}, {"message": "m", "code": "c"}),
    "a message that holds the details": (
        {"object": "error", "message": {"detail": [{"loc": ["body"], "msg": "m"}]}, "type": "t", "code": None},
        {"message": "body: m", "type": "t"},
    ),
    "details of a validation": (
        {"detail": [{"type": "missing", "loc": ["body", "tools", 0], "msg": "Field required"}, {"msg": "Too long"}, "odd", {"loc": []}, 7]},
        {"message": "body.tools.0: Field required; Too long; odd"},
    ),
    "details beside an error": ({"error": {"message": "m"}, "detail": {"message": "other"}}, {"message": "m"}),
    "a list of errors": ({"success": False, "errors": [{"code": 10000, "message": "m"}]}, {"message": "m", "code": 10000}),
    "a list": (
        [{"error": {"message": "m", "code": 400, "status": "INVALID_ARGUMENT"}}],
        {"message": "m", "code": 400, "type": "INVALID_ARGUMENT", "status": 400},
    ),
    "a status code": ({"error": {"message": "m", "status_code": 400}}, {"message": "m", "status": 400}),
    "a capital message": ({"Message": "m", "__type": "ThrottlingException"}, {"message": "m", "type": "ThrottlingException", "retryable": True}),
    "a problem": ({"title": "T", "detail": "m", "status": 503}, {"message": "m", "status": 503, "retryable": True}),
    "seconds to wait": ({"error": {"message": "m", "retry_after": 3}}, {"message": "m", "retry_after": 3.0}),
    "seconds as text": ({"error": {"message": "m", "retry_after": "3"}}, {"message": "m", "retry_after": 3.0}),
    "seconds that are none": ({"error": {"message": "m", "retry_after": "soon"}}, {"message": "m"}),
    "seconds that are true": ({"error": {"message": "m", "retry_after": True}}, {"message": "m"}),
    "upstream as text": (
        {"error": {"message": "m", "code": 429, "metadata": {"raw": '{"detail": "busy"}'}}},
        {"message": "m", "code": 429, "status": 429, "upstream": {"detail": "busy"}, "retryable": True},
    ),
    "upstream that is no JSON": ({"error": {"message": "m", "metadata": {"raw": "busy"}}}, {"message": "m", "upstream": "busy"}),
    "upstream as an object": ({"error": {"message": "m", "metadata": {"raw": {"a": 1}}}}, {"message": "m", "upstream": {"a": 1}}),
    "upstream empty": ({"error": {"message": "m", "metadata": {"raw": ""}}}, {"message": "m", "upstream": ""}),
    "codes that are none": ({"error": {"message": "m", "code": ""}}, {"message": "m"}),
    "a code that is true": ({"error": {"message": "m", "code": True}}, {"message": "m"}),
    "blanks": ({"error": {"message": "  m \n"}}, {"message": "m"}),
    "a number as message": ({"error": {"message": 7}}, {}),
    "a bare text": ("m", {"message": "m"}),
    "an empty list": ([], {}),
    "a number": (7, {}),
    "nothing": (None, {}),
}


@pytest.mark.parametrize("name", SHAPES)
def test_shapes(name: str) -> None:
    """
    Each shape says exactly this; what it does not say is None.
    """
    value, expected = SHAPES[name]
    info = read_error(value)
    silent = dict.fromkeys(("message", "code", "type", "status", "request_id", "retry_after", "upstream")) | {"retryable": False}
    assert silent | expected == {key: getattr(info, key) for key in silent}
    assert info.raw == value


@given(json_values)
def test_anything_can_be_read(value: Any) -> None:
    """
    No JSON value is too odd to be read, as an object, a body or a stray line.
    """
    assert isinstance(read_error(value), ErrorInfo)
    text = json.dumps(value)
    read_error_body(text.encode())
    stray_error(f"error: {text}")
    error_in(value)
    assert isinstance(provider_error(value), ProviderError)


@given(st.binary(max_size=60))
def test_any_body_can_be_read(body: bytes) -> None:
    """
    No bytes are too odd to be read.
    """
    assert isinstance(read_error_body(body), ErrorInfo)


BODIES: dict[str, tuple[bytes, str | None]] = {
    "JSON": (b'{"error": {"message": "m"}}', "m"),
    "JSON with blanks and a mark": (b'\xef\xbb\xbf\n {"error": "m"} \n', "m"),
    "an event": (b'event: error\ndata: {"error": {"message": "m"}}\n\n', "m"),
    "an event with CRLF": (b': hi\r\ndata: {"error": "m"}\r\n\r\n', "m"),
    "an event without data": (b"event: error\n\n", "event: error"),
    "a page": (b"<html><head><title>502 Bad\n Gateway &amp; more</title></head><body>x</body></html>", "502 Bad Gateway & more"),
    "a page without a title": (b"<h1>Sorry</h1><p>later</p>", "Sorry"),
    "a page without both": (b"<p>Please <b>wait</b>.</p>", "Please wait ."),
    "plain text": (b"upstream connect error\n", "upstream connect error"),
    "broken JSON": (b'{"error": ', '{"error":'),
    "nothing": (b"", None),
    "blanks": (b" \n", None),
    "no UTF-8": (b"\xff\xfe busy", "�� busy"),
    "deep JSON": (b"[" * 300, "[" * 300),
}


@pytest.mark.parametrize("name", BODIES)
def test_bodies(name: str) -> None:
    """
    Of a body its message is read; of a page its title, of plain text the first words.
    """
    body, message = BODIES[name]
    assert message == read_error_body(body).message


def test_messages_are_bounded() -> None:
    """
    A message is no longer than a person reads, however long the body.
    """
    assert 4096 == len(read_error({"error": "x" * 10_000}).message or "")
    assert 300 == len(read_error_body(b"x" * 10_000).message or "")


ERRORS: dict[str, tuple[Any, bool]] = {
    "an object": ({"error": {"message": "m"}, "choices": []}, True),
    "a text": ({"error": "m"}, True),
    "an error object": ({"object": "error", "message": "m"}, True),
    "a typed one": ({"type": "error"}, True),
    "a detail": ({"detail": "m"}, True),
    "details": ({"detail": [{"msg": "m"}]}, True),
    "flat": ({"code": "c", "message": "m"}, True),
    "null": ({"error": None}, False),
    "empty": ({"error": {}}, False),
    "false": ({"error": False}, False),
    "a chunk": ({"choices": [], "detail": "m", "message": "x", "code": 1}, False),
    "an empty detail": ({"detail": ""}, False),
    "a message without a code": ({"message": "m"}, False),
    "a good code": ({"message": "ok", "code": 0}, False),
    "a list": ([1], False),
    "a text alone": ("error", False),
    "none": (None, False),
}


@pytest.mark.parametrize("name", ERRORS)
def test_error_in(name: str) -> None:
    """
    What is an error by its shape, and what is not.
    """
    value, is_error = ERRORS[name]
    assert (value if is_error else None) == error_in(value)


STRAYS: dict[str, tuple[str, Any]] = {
    "a bare object": ('{"error": "m"}', {"error": "m"}),
    "with blanks": ('\n {"error": "m"} ', {"error": "m"}),
    "named": ('error: {"message": "m"}', {"message": "m"}),
    "named, no space": ('error:{"message": "m"}', {"message": "m"}),
    "named and empty": ("error: {}", None),
    "no error": ('{"message": "m"}', None),
    "no JSON": ("{oops", None),
    "named, no JSON": ("error: oops", None),
    "a list": ("[1]", None),
    "text": ("hello", None),
}


@pytest.mark.parametrize("name", STRAYS)
def test_stray_lines(name: str) -> None:
    """
    Lines that are no fields hold an error only as a JSON object (contract P8).
    """
    text, error = STRAYS[name]
    assert error == stray_error(text)


def test_provider_error() -> None:
    """
    The error to raise has everything that was said, the object too, and a message always.
    """
    value = {"error": {"message": "m", "type": "rate_limit_error", "code": "c", "status_code": 429, "request_id": "r", "retry_after": 2}}
    error = provider_error(value, 17)
    assert ("m", "rate_limit_error", "c", 429, "r", 2.0, True, value, 17) == (
        error.message,
        error.type,
        error.code,
        error.status,
        error.request_id,
        error.retry_after,
        error.retryable,
        error.raw,
        error.offset,
    )
    assert Verdict.PROVIDER_ERROR == error.verdict
    assert provider_error({"error": {"code": 1}}).message


@pytest.mark.parametrize(
    ("value", "is_error"),
    [
        ({"message": "Too many", "type": "too_many_requests_error"}, True),
        ({"message": "boom", "statusCode": 500}, True),
        ({"message": "boom", "status": "503"}, True),
        ({"errors": [{"message": "boom"}]}, True),
        ({"message": "fine", "status": 200}, False),
        ({"message": "fine", "type": "notice"}, False),
        ({"message": "", "type": "error"}, False),
        ({"errors": []}, False),
        ({"errors": ["boom"]}, False),
        ({"status": 500}, False),
    ],
)
def test_errors_told_flat(value: dict[str, Any], is_error: bool) -> None:
    """
    A message is an error only beside a type, a status or a list that says so.
    """
    assert flat_error(value) is is_error
