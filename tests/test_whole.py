"""
One answer of many steps.
"""

from __future__ import annotations

import pytest

from rxchat.errors import Verdict
from rxchat.response import ChatResponse, FinishReason, TextPart, Usage
from rxchat.whole import verdict_at_end, whole_answer

FIRST = ChatResponse(
    parts=(TextPart("a"),),
    finish_reason=FinishReason.TOOL_CALLS,
    finish_reason_raw="tool_use",
    model="m1",
    unknown={"x": 1},
    after_finish=1,
    dropped=2,
    metadata={"a": 1, "b": 1},
    alternatives=(ChatResponse(choice=2, parts=(TextPart("c"),)), ChatResponse(choice=1, parts=(TextPart("d"),), finish_reason=FinishReason.PAUSE)),
)
SECOND = ChatResponse(
    parts=(TextPart("b"),),
    finish_reason=FinishReason.STOP,
    finish_reason_raw="end_turn",
    model="m2",
    provider_response_id="p2",
    unknown={"x": 2, "y": 3},
    after_finish=4,
    dropped=5,
    metadata={"b": 2},
    alternatives=(ChatResponse(choice=1, parts=(TextPart("e"),), finish_reason=FinishReason.STOP),),
)
USAGE = Usage(1, 2)


def test_whole_answer() -> None:
    """
    Parts in order, the last finish, the first ids, sums, all metadata (V1).
    """
    expected = ChatResponse(
        parts=(TextPart("a"), TextPart("b")),
        finish_reason=FinishReason.STOP,
        finish_reason_raw="end_turn",
        usage=USAGE,
        model="m1",
        response_id="r",
        provider_response_id="p2",
        verdict=Verdict.COMPLETE,
        steps=(FIRST, SECOND),
        alternatives=(
            ChatResponse(choice=1, parts=(TextPart("d"), TextPart("e")), finish_reason=FinishReason.STOP, verdict=Verdict.COMPLETE),
            ChatResponse(choice=2, parts=(TextPart("c"),), verdict=Verdict.INCOMPLETE_FINISH),
        ),
        unknown={"x": 3, "y": 3},
        after_finish=5,
        dropped=7,
        metadata={"a": 1, "b": 2},
    )
    assert expected == whole_answer([FIRST, SECOND], verdict=Verdict.COMPLETE, usage=USAGE, response_id="r")


@pytest.mark.parametrize("verdict", [None, Verdict.ABORTED, Verdict.CONNECTION_LOST])
def test_alternatives_of_a_response_that_did_not_end(verdict: Verdict | None) -> None:
    """
    They share its verdict: their own finish proves nothing (P13).
    """
    got = whole_answer([FIRST, SECOND], verdict=verdict, usage=None, response_id=None)
    assert [verdict, verdict] == [other.verdict for other in got.alternatives]


def test_nothing() -> None:
    """
    No step, no answer.
    """
    assert ChatResponse() == whole_answer([], verdict=None, usage=None, response_id=None)


@pytest.mark.parametrize("finish", FinishReason)
def test_verdict_at_end(finish: FinishReason) -> None:
    """
    Only stop and tool_calls are complete (P2, V6).
    """
    complete = finish in (FinishReason.STOP, FinishReason.TOOL_CALLS)
    assert (Verdict.COMPLETE if complete else Verdict.INCOMPLETE_FINISH) is verdict_at_end(ChatResponse(finish_reason=finish))
