"""
The error tree, verdicts, and what is worth trying again (contract V4, D6).
"""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable

import pytest

from rxchat import errors as err
from rxchat.errors import RxchatError, Verdict, verdict_of
from rxchat.response import ChatResponse, TextPart

CLASSES = [cls for name in err.__all__ if isinstance(cls := getattr(err, name), type) and issubclass(cls, RxchatError)]

VERDICTS: dict[type[RxchatError], Verdict | None] = {
    err.RxchatError: None,
    err.ConfigurationError: None,
    err.TransportError: None,
    err.TransportTimeout: None,
    err.ConnectError: Verdict.CONNECT,
    err.ConnectionLostError: Verdict.CONNECTION_LOST,
    err.ConnectTimeout: Verdict.CONNECT_TIMEOUT,
    err.FirstEventTimeout: Verdict.FIRST_EVENT_TIMEOUT,
    err.ReadTimeout: Verdict.READ_TIMEOUT,
    err.TotalTimeout: Verdict.TOTAL_TIMEOUT,
    err.HTTPStatusError: Verdict.HTTP_STATUS,
    err.ContentTypeError: Verdict.CONTENT_TYPE,
    err.ProtocolError: Verdict.PROTOCOL,
    err.DialectError: Verdict.PROTOCOL,
    err.DecodeError: Verdict.INVALID_UTF8,
    err.FramingError: Verdict.FRAMING,
    err.InvalidJSONError: Verdict.INVALID_JSON,
    err.IncompleteStreamError: Verdict.INCOMPLETE_STREAM,
    err.LimitExceeded: Verdict.LIMIT,
    err.ProviderError: Verdict.PROVIDER_ERROR,
    err.IncompleteFinishError: Verdict.INCOMPLETE_FINISH,
    err.AbortedError: Verdict.ABORTED,
    err.CancelledStreamError: Verdict.CANCELLED,
    err.ToolError: Verdict.TOOL,
    err.StoreError: Verdict.STORE,
}

TREE: dict[type[RxchatError], type[Exception]] = {
    err.ConfigurationError: ValueError,
    err.ConnectError: err.TransportError,
    err.ConnectionLostError: err.TransportError,
    err.ConnectTimeout: err.TransportTimeout,
    err.FirstEventTimeout: err.TransportTimeout,
    err.ReadTimeout: err.TransportTimeout,
    err.TotalTimeout: err.TransportTimeout,
    err.TransportTimeout: err.TransportError,
    err.HTTPStatusError: err.TransportError,
    err.ContentTypeError: err.TransportError,
    err.DecodeError: err.ProtocolError,
    err.FramingError: err.ProtocolError,
    err.InvalidJSONError: err.ProtocolError,
    err.DialectError: err.ProtocolError,
    err.IncompleteStreamError: err.ProtocolError,
}


def test_every_class_has_its_verdict() -> None:
    """
    And every verdict but COMPLETE is some error's.
    """
    assert {cls: cls.verdict for cls in CLASSES} == VERDICTS
    assert set(VERDICTS.values()) - {None} == set(Verdict) - {Verdict.COMPLETE}


@pytest.mark.parametrize(("cls", "base"), TREE.items())
def test_the_tree(cls: type[RxchatError], base: type[Exception]) -> None:
    """
    What is caught with what.
    """
    assert issubclass(cls, base)
    assert issubclass(cls, RxchatError)


RETRYABLE = {err.ConnectError, err.ConnectionLostError, err.IncompleteStreamError, err.TransportTimeout, *err.TransportTimeout.__subclasses__()}


def test_what_is_worth_another_try() -> None:
    """
    The network and a truncated body; never a fault of the protocol, of the caller, of a limit.
    """
    assert {cls for cls in CLASSES if cls.retryable} == RETRYABLE


@pytest.mark.parametrize(
    ("status", "retryable"), [(400, False), (401, False), (404, False), (408, True), (429, True), (500, True), (501, False), (529, True)]
)
def test_which_status_is_worth_another_try(status: int, retryable: bool) -> None:
    """
    By table.
    """
    error = err.HTTPStatusError("no", status=status, headers={"a": "b"}, body=b"x", code="c", type="t", request_id="r", retry_after=2.5)
    assert error.retryable is retryable
    assert (error.status, error.headers, error.body) == (status, {"a": "b"}, b"x")
    assert (error.code, error.type, error.request_id, error.retry_after) == ("c", "t", "r", 2.5)


@pytest.mark.parametrize(
    ("error", "text", "message"),
    [
        (RxchatError(), "", ""),
        (RxchatError("what"), "what", "what"),
        (err.ProtocolError("what"), "what", "what"),
        (err.ProtocolError("what", 7), "what (at byte 7)", "what"),
        (err.FramingError("what", 0, "crc"), "what (at byte 0)", "what"),
        (err.InvalidJSONError("what", 3, "depth"), "what (at byte 3)", "what"),
        (err.LimitExceeded("line", 9), "the limit line=9 was passed", "the limit line=9 was passed"),
        (err.LimitExceeded("line", 9, 10), "the limit line=9 was passed (at byte 10)", "the limit line=9 was passed"),
        (err.ReadTimeout("silence", 60.0), "silence", "silence"),
        (err.ProviderError("busy", code=3, offset=2), "busy", "busy"),
    ],
)
def test_what_it_says(error: RxchatError, text: str, message: str) -> None:
    """
    The position is part of the text, not of the message.
    """
    assert (str(error), error.message) == (text, message)


MADE = [
    RxchatError("what"),
    err.ConfigurationError("what"),
    err.ReadTimeout("silence", 60.0),
    err.HTTPStatusError("no", status=429, headers={"a": "b"}, body=b"x", code="c", type="t", request_id="r", retry_after=2.5),
    err.ContentTypeError("no", content_type="text/html", status=200, body=b"x"),
    err.FramingError("what", 7, "crc"),
    err.InvalidJSONError("what", 3, "depth"),
    err.LimitExceeded("line", 9, 10),
    err.ProviderError("busy", code=3, retryable=True, raw={"a": 1}, offset=2),
]


@pytest.mark.parametrize("again", [copy.copy, copy.deepcopy, lambda error: pickle.loads(pickle.dumps(error))])
@pytest.mark.parametrize("error", MADE, ids=lambda error: type(error).__name__)
def test_copied_and_pickled(error: RxchatError, again: Callable[[RxchatError], RxchatError]) -> None:
    """
    Between processes an error keeps everything it says, the partial answer too.
    """
    error.response = ChatResponse((TextPart("partial"),), verdict=error.verdict)
    same = again(error)
    assert type(same) is type(error)
    assert (str(same), same.args, vars(same)) == (str(error), error.args, vars(error))


def test_what_nobody_said_is_none() -> None:
    """
    On every error.
    """
    error = RxchatError("x")
    assert (error.code, error.type, error.status, error.request_id, error.retry_after, error.offset, error.response) == (None,) * 7


def test_verdict_of() -> None:
    """
    What the error says; an error that is not ours, or says nothing, had no proper end.
    """
    assert verdict_of(err.ToolError("x")) is Verdict.TOOL
    assert verdict_of(err.TransportError("x")) is Verdict.INCOMPLETE_STREAM
    assert verdict_of(KeyError("x")) is Verdict.INCOMPLETE_STREAM
