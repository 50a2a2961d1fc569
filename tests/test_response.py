"""
Answers, their parts, usage (contract V, U).
"""

from __future__ import annotations

from typing import Any

import attrs
import pytest
from hypothesis import given

from rxchat.errors import AbortedError, IncompleteFinishError, RxchatError, Verdict
from rxchat.response import (
    COUNTERS,
    ChatResponse,
    CitationPart,
    ContentFilterPart,
    FinishReason,
    MediaPart,
    ProviderItemPart,
    RefusalPart,
    SearchResultPart,
    ServerToolPart,
    TextPart,
    ThinkingPart,
    ToolCall,
    ToolResultPart,
    Usage,
)
from tests import strategies

# --- usage ----------------------------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("first", "later", "expected"),
    [
        pytest.param(Usage(10), Usage(None, 5), Usage(10, 5), id="extends; null never erases"),
        pytest.param(Usage(10, 5), Usage(10, 7), Usage(10, 7), id="replaces, never adds"),
        pytest.param(Usage(10, 5), Usage(0, 0), Usage(0, 0), id="zero is said"),
        pytest.param(Usage(wire={"a": 1, "b": 1}), Usage(wire={"b": 2}), Usage(wire={"a": 1, "b": 2}), id="wire values likewise"),
        pytest.param(Usage(raw=(1,)), Usage(raw=(2,)), Usage(raw=(2,)), id="the later raw object"),
        pytest.param(Usage(raw=(1,)), Usage(), Usage(raw=(1,)), id="unless it brings none"),
        pytest.param(Usage(), Usage(partial=True), Usage(partial=True), id="the later state"),
    ],
)
def test_merge(first: Usage, later: Usage, expected: Usage) -> None:
    """
    Two snapshots of one step.
    """
    assert first.merge(later) == expected


@pytest.mark.parametrize(
    ("first", "other", "expected"),
    [
        pytest.param(Usage(1, 2, 3, 4, 5, 6), Usage(10, 20, 30, 40, 50, 60), Usage(11, 22, 33, 44, 55, 66), id="every counter"),
        pytest.param(Usage(None, 2), Usage(3, None), Usage(3, 2), id="never reported counts as nothing"),
        pytest.param(Usage(), Usage(), Usage(), id="never reported by anybody stays so"),
        pytest.param(Usage(wire={"a": 1}), Usage(wire={"a": 2, "b": 3}), Usage(wire={"a": 3, "b": 3}), id="wire values likewise"),
        pytest.param(Usage(raw=(1,)), Usage(raw=(2,)), Usage(raw=(1, 2)), id="raw objects per step"),
        pytest.param(Usage(partial=True), Usage(), Usage(partial=True), id="partial if one is"),
    ],
)
def test_add(first: Usage, other: Usage, expected: Usage) -> None:
    """
    Two steps.
    """
    assert first.add(other) == expected


@given(strategies.usages, strategies.usages, strategies.usages)
def test_usage_laws(a: Usage, b: Usage, c: Usage) -> None:
    """
    Adding may be grouped at will; a snapshot merged twice is merged once; neither changes what it is given.
    """
    before = (a, attrs.evolve(a), b, attrs.evolve(b))
    assert a.add(b).add(c) == a.add(b.add(c))
    assert a.merge(b).merge(b) == a.merge(b)
    assert all(getattr(a.add(b), name) is not None for name in COUNTERS if getattr(a, name) is not None or getattr(b, name) is not None)
    assert before[0] == before[1]
    assert before[2] == before[3]


# --- the answer -----------------------------------------------------------------------------------------------------------------------------------

PARTS = (
    ThinkingPart("a", "sig"),
    TextPart("Hello ", 0),
    ToolCall("c"),
    MediaPart("image", "image/png", "AAE="),
    CitationPart("u"),
    SearchResultPart("s"),
    TextPart("world", 1),
    ThinkingPart("b"),
    RefusalPart("no"),
    RefusalPart(" way"),
    ToolResultPart("c", 1),
)


def test_views_of_the_parts() -> None:
    """
    Joined or picked in order; refusal is no text.
    """
    response = ChatResponse(PARTS)
    assert (response.text, response.thinking, response.refusal) == ("Hello world", "ab", "no way")
    assert (response.tool_calls, response.media) == ((ToolCall("c"),), (MediaPart("image", "image/png", "AAE="),))
    assert (response.citations, response.search_results) == ((CitationPart("u"),), (SearchResultPart("s"),))


def test_media_content() -> None:
    """
    Decoded; empty where only a URL is known.
    """
    assert MediaPart("image", data="AAE=").content == b"\x00\x01"
    assert MediaPart("image", url="u").content == b""


@pytest.mark.parametrize("reason", FinishReason)
def test_complete_finishes(reason: FinishReason) -> None:
    """
    stop and tool_calls only (contract P2).
    """
    assert reason.complete is (reason in ("stop", "tool_calls"))


@pytest.mark.parametrize(
    ("parts", "verdict", "expected"),
    [
        ((TextPart("x"),), Verdict.COMPLETE, True),
        ((ToolCall(),), Verdict.COMPLETE, True),
        ((MediaPart("image"),), Verdict.COMPLETE, True),
        ((ServerToolPart("shell_call", needs_client=True),), Verdict.COMPLETE, True),
        ((), Verdict.COMPLETE, False),
        ((ThinkingPart("x"),), Verdict.COMPLETE, False),
        ((CitationPart("u"), ContentFilterPart("x"), ProviderItemPart("y")), Verdict.COMPLETE, False),
        *(((TextPart("x"),), verdict, False) for verdict in (*Verdict, None) if verdict != Verdict.COMPLETE),
    ],
)
def test_committable(parts: tuple[Any, ...], verdict: Verdict | None, expected: bool) -> None:
    """
    COMPLETE with something in it that answers (contract V9), nothing else.
    """
    assert ChatResponse(parts, verdict=verdict).committable is expected


@pytest.mark.parametrize(
    ("verdict", "error"),
    [
        (Verdict.INCOMPLETE_FINISH, IncompleteFinishError),
        (Verdict.ABORTED, AbortedError),
        (Verdict.CONNECTION_LOST, RxchatError),
        (None, RxchatError),
    ],
)
def test_raise_for_verdict(verdict: Verdict | None, error: type[RxchatError]) -> None:
    """
    The error of its kind, carrying the answer and the provider's word.
    """
    response = ChatResponse(finish_reason=FinishReason.LENGTH, finish_reason_raw="max_tokens", verdict=verdict)
    with pytest.raises(error, match="max_tokens") as caught:
        response.raise_for_verdict()
    assert type(caught.value) is error
    assert caught.value.response is response


def test_a_complete_answer_does_not_raise() -> None:
    """
    It is itself, for chaining.
    """
    response = ChatResponse(verdict=Verdict.COMPLETE)
    assert response.raise_for_verdict() is response
