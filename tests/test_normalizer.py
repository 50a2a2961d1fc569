"""
The normalizer alone: the table of boundaries row by row, then its rules one by one.
"""

from __future__ import annotations

import attrs
import pytest

from rxchat.call_keys import is_local_id
from rxchat.errors import ConnectionLostError, Verdict
from rxchat.events import (
    ChatEvent,
    RefusalDelta,
    ResponseStart,
    ServerToolArgsDelta,
    StepEnd,
    StepStart,
    TextDelta,
    ThinkingDelta,
    ThinkingSignature,
    ToolCallArgsDelta,
    ToolCallEnd,
    ToolCallStart,
    ToolResult,
)
from rxchat.normalizer import Normalizer
from rxchat.response import ChatResponse, FinishReason, ToolCall
from tests.streams import feed_all, normalized, notes, parse_events

# The 49 rows: what goes in, what comes out. A row of the table that rxchat decides otherwise names the rule.
ROWS = {
    "1": ("T.D T.D |", "+T.S T.D T.D +T.E"),
    "2": ("T.S T.D T.E |", "T.S T.D T.E"),
    "3": ("T.S T.S T.D |", "T.S T.D +T.E"),
    "4 N3": ("T.E", ""),
    "5": ("K.D T.E", "+K.S K.D"),
    "6": ("K.D T.D |", "+K.S K.D +K.E +T.S T.D +T.E"),
    "7": ("T.D K.D T.D |", "+T.S T.D +T.E +K.S K.D +K.E +T.S T.D +T.E"),
    "8": ("T.D#0 T.D#1 K.S |", "+T.S#0 T.D#0 +T.S#1 T.D#1 +T.E#0 +T.E#1 K.S +K.E"),
    "9": ("T.D@a#0 T.D@b#1 T.E@a#0 |", "+T.S@a#0 T.D@a#0 +T.S@b#1 T.D@b#1 T.E@a#0 +T.E@b#1"),
    "10": ("T.S#0 T.D |", "T.S#0 T.D +T.E#0"),
    "11 N6": ("T.S T.D#0 |", "T.S T.D#0 +T.E#0"),
    "12": ("T.D#0 T.D#1 T.D |", "+T.S#0 T.D#0 +T.S#1 T.D#1 +T.S T.D +T.E#0 +T.E#1 +T.E"),
    "13": ("T.D#0 T.D#1 T.E |", "+T.S#0 T.D#0 +T.S#1 T.D#1 +T.E#0 +T.E#1"),
    "14": ("T.D#0 T.E#5 |", "+T.S#0 T.D#0 +T.E#0"),
    "15": ("T.D#0 T.E#0 T.D#0 |", "+T.S#0 T.D#0 T.E#0 +T.S#0 T.D#0 +T.E#0"),
    "16": ("K.D SIG K.D |", "+K.S K.D SIG K.D +K.E"),
    "17": ("SIG |", "SIG"),
    "18": ("T.D USAGE HEARTBEAT SERVER_RESULT T.D |", "+T.S T.D USAGE HEARTBEAT SERVER_RESULT T.D +T.E"),
    "19": ("T.D REFUSAL PARTIAL CITATION T.D |", "+T.S T.D REFUSAL PARTIAL CITATION T.D +T.E"),
    "20": ("SS(0) T.D SE(0)", "SS(0) +T.S T.D +T.E SE(0)"),
    "20 without a start": ("T.D SE(0)", "+T.S T.D +T.E"),
    "21": ("K.D END", "+K.S K.D +K.E END"),
    "22": ("T.D | |", "+T.S T.D +T.E"),
    "23": ("C.D!1 |", "+C.S!1#0 C.D!1#0 +C.E!1#0/cut"),
    "24": ("C.D |", "+C.S!?#0 C.D!?#0 +C.E!?#0/cut"),
    "25": ("C.S!1 C.S!2 C.E!1 C.E!2 |", "C.S!1#0 C.S!2#1 C.E!1#0 C.E!2#1"),
    "26 N1": ("C.S!1 C.S!1 C.E!1 |", "C.S!1#0 C.E!1#0"),
    "27 N3": ("C.E!x", ""),
    "28 N1": ("C.S!1 C.E!1 C.E!1 |", "C.S!1#0 C.E!1#0"),
    "29 N3": ("C.S!1 C.D C.E!unknown |", "C.S!1#0 C.D!1#0 +C.E!1#0/cut"),
    "30 N3": ("C.S!a C.S!b C.E!z |", "C.S!a#0 C.S!b#1 +C.E!a#0/cut +C.E!b#1/cut"),
    "31": ("C.S!a C.D!b |", "C.S!a#0 +C.S!b#1 C.D!b#1 +C.E!a#0/cut +C.E!b#1/cut"),
    "32": (
        "C.S!a#0 C.S!b#1 C.D#1 C.D#0 C.E!a C.E!b |",
        "C.S!a#0 C.S!b#1 C.D!b#1 C.D!a#0 C.E!a#0 C.E!b#1",
    ),
    "33 N2": ("C.S!a#0 C.S!b#1 C.D |", "C.S!a#0 C.S!b#1 C.D!b#1 +C.E!a#0/cut +C.E!b#1/cut"),
    "34 N2": ("C.S C.D!a C.E!a |", "C.S!?#0 C.D!a#0 C.E!a#0"),
    "35 N2": ("C.S#0 C.D#0!a C.E!a |", "C.S!?#0 C.D!a#0 C.E!a#0"),
    "36": ("C.S#0 C.S#1 |", "C.S!?#0 C.S!?#1 +C.E!?#0/cut +C.E!?#1/cut"),
    "37": ("T.D C.S!a T.D |", "+T.S T.D +T.E C.S!a#0 +T.S T.D +C.E!a#0/cut +T.E"),
    "38": ("C.S!a T.D C.E!a |", "C.S!a#0 +T.S T.D C.E!a#0 +T.E"),
    "39": ("SS(0) K.D C.S!a C.D!a SE(0)", "SS(0) +K.S K.D +K.E C.S!a#0 C.D!a#0 +C.E!a#0/cut SE(0)"),
    "39 without a start": ("K.D C.S!a C.D!a SE(0)", "+K.S K.D +K.E C.S!a#0 C.D!a#0 +C.E!a#0/cut"),
    "40": ("T.D RESULT T.D |", "+T.S T.D RESULT T.D +T.E"),
    "41": ("SS(0) T.D C.S!a K.D SE(0)", "SS(0) +T.S T.D +T.E C.S!a#0 +K.S K.D +C.E!a#0/cut +K.E SE(0)"),
    "42": ("SS(0) SS(0) END |", "SS(0) +SE(0) END"),
    "43 N3": ("SE(4)", ""),
    "44 N4": ("SS(0) T.D SS(1) T.D END", "SS(0) +T.S T.D +T.E +SE(0) SS(1) +T.S T.D +T.E +SE(1) END"),
    "45": ("SS(0) T.D C.S!a ERROR", "SS(0) +T.S T.D +T.E C.S!a#0 +C.E!a#0/cut +SE(0,!CONNECTION_LOST) ERROR"),
    "46 N5": ("SS(0) T.D ABORT SE(0) END", "SS(0) +T.S T.D +T.E +SE(0,!ABORTED) ABORT"),
    "47 N5": ("T.D END T.D END |", "+T.S T.D +T.E END"),
    "48": ("SS(3) T.D |", "SS(3) +T.S T.D +T.E +SE(3,!INCOMPLETE_STREAM)"),
    "49": ("C.S!c END", "C.S!c#0 +C.E!c#0/cut END"),
}

# The rules beyond the table.
RULES = {
    "E3 per choice": ("T.D K.D^1 T.D |", "+T.S T.D +K.S^1 K.D^1 T.D +T.E +K.E^1"),
    "E3 a start of the other group closes too": ("K.S T.S |", "K.S +K.E T.S +T.E"),
    "E3 siblings stay open": ("K.D#0 K.D#1 K.D#0 |", "+K.S#0 K.D#0 +K.S#1 K.D#1 K.D#0 +K.E#0 +K.E#1"),
    "E4 closes blocks of its choice only": ("T.D T.D^1 C.S!a |", "+T.S T.D +T.S^1 T.D^1 +T.E C.S!a#0 +C.E!a#0/cut +T.E^1"),
    "E4 a fragment of an open call closes nothing": ("C.S!a T.D C.D!a T.D |", "C.S!a#0 +T.S T.D C.D!a#0 T.D +C.E!a#0/cut +T.E"),
    "E5 without a step": ("T.D C.S!a SS(0) |", "+T.S T.D +T.E C.S!a#0 +C.E!a#0/cut SS(0) +SE(0,!INCOMPLETE_STREAM)"),
    "E5 a call does not finish with the step that did not": ("SS(0) C.S!a SS(1) SE(1)", "SS(0) C.S!a#0 +C.E!a#0/cut +SE(0) SS(1) SE(1)"),
    "N3 the end of another step": ("SS(0) T.D SE(1) SE(0)", "SS(0) +T.S T.D +T.E SE(0)"),
    "N3 an end of another id under the index": ("C.S!a#0 C.E!b#0 |", "C.S!a#0 +C.E!a#0/cut"),
    "N6 names, and the END carries the name": ("T.D T.D@a#0 T.D T.E |", "+T.S T.D T.D@a#0 T.D +T.E@a#0"),
    "N6 beside identified blocks": ("T.D#0 T.D#1 T.D T.D#2 |", "+T.S#0 T.D#0 +T.S#1 T.D#1 +T.S T.D T.D#2 +T.E#0 +T.E#1 +T.E#2"),
    "N6 a start names nothing": ("T.D T.S#0 T.D#0 |", "+T.S T.D T.S#0 T.D#0 +T.E +T.E#0"),
    "N6 an identified end is not of the anonymous block": ("T.D T.E#0 |", "+T.S T.D +T.E"),
    "S-N4 an anonymous end of the only block": ("T.D@a#0 T.E |", "+T.S@a#0 T.D@a#0 T.E@a#0"),
    "S-N4 the anonymous block of three": ("T.D#0 T.D#1 T.D T.D T.E |", "+T.S#0 T.D#0 +T.S#1 T.D#1 +T.S T.D T.D T.E +T.E#0 +T.E#1"),
    "N7 ends with the step, stop": ("SS(0) C.S!a SE(0,stop)", "SS(0) C.S!a#0 +C.E!a#0 SE(0,stop)"),
    "N7 ends with the step, tool_calls": ("SS(0) C.S!a SE(0,tool_calls)", "SS(0) C.S!a#0 +C.E!a#0 SE(0,tool_calls)"),
    "N7 ends with the step, length": ("SS(0) C.S!a SE(0,length)", "SS(0) C.S!a#0 +C.E!a#0/cut SE(0,length)"),
    "N7 ends with the step, failed": ("SS(0) C.S!a SE(0,!PROTOCOL) ERROR", "SS(0) C.S!a#0 +C.E!a#0/cut SE(0,!PROTOCOL) ERROR"),
    "N7 the dialect said so before": ("SS(0) C.S!a C.E!a SE(0,length)", "SS(0) C.S!a#0 C.E!a#0 SE(0,length)"),
    "N7 the dialect said cut": ("SS(0) C.S!a C.E!a/cut SE(0,stop)", "SS(0) C.S!a#0 C.E!a#0/cut SE(0,stop)"),
    "N2 index before id": ("C.S!a#0 C.S!b#1 C.D#0 C.D!b |", "C.S!a#0 C.S!b#1 C.D!a#0 C.D!b#1 +C.E!a#0/cut +C.E!b#1/cut"),
    "N2 second id under an index": (
        "C.S!a#0 C.D#0 C.S!b#0 C.D#0 C.D!a#0 |",
        "C.S!a#0 C.D!a#0 C.S!b#1 C.D!b#1 C.D!a#0 +C.E!a#0/cut +C.E!b#1/cut",
    ),
    "N2 second id in a fragment": ("C.S!a#0 C.D!b#0 |", "C.S!a#0 +C.S!b#1 C.D!b#1 +C.E!a#0/cut +C.E!b#1/cut"),
    "N2 the end of the newest of an index": ("C.S!a#0 C.S!b#0 C.E#0 C.E!a |", "C.S!a#0 C.S!b#1 C.E!b#1 C.E!a#0"),
    "N2 late id by a repeated start": ("C.S#0 C.S!a#0 C.D#0 |", "C.S!?#0 C.D!a#0 +C.E!a#0/cut"),
    "N2 late id by an end": ("C.S#0 C.E!a#0 |", "C.S!?#0 C.E!a#0"),
    "N2 late id of the only open call by an end": ("C.S C.E!a |", "C.S!?#0 C.E!a#0"),
    "N2 late id of one of two": ("C.S!a C.S C.D!b |", "C.S!a#0 C.S!?#1 C.D!b#1 +C.E!a#0/cut +C.E!b#1/cut"),
    "N2 late index of the only open call": ("C.S!a C.D#5 C.D#5 |", "C.S!a#0 C.D!a#0 C.D!a#0 +C.E!a#0/cut"),
    "N2 late index of one of two": ("C.S!a C.S!b C.D#0 C.D#1 |", "C.S!a#0 C.S!b#1 C.D!a#0 C.D!b#1 +C.E!a#0/cut +C.E!b#1/cut"),
    "N2 an index is nobody's": ("C.S!a#0 C.D#1 |", "C.S!a#0 +C.S!?#1 C.D!?#1 +C.E!a#0/cut +C.E!?#1/cut"),
    "N2 the newest open one": ("C.S!a C.S!b C.E!b C.S!c C.E!c C.D |", "C.S!a#0 C.S!b#1 C.E!b#1 C.S!c#2 C.E!c#2 C.D!a#0 +C.E!a#0/cut"),
    "N2 an anonymous end of two": ("C.S!a C.S!b C.E |", "C.S!a#0 C.S!b#1 C.E!b#1 +C.E!a#0/cut"),
    "N2 starts without id or index are calls of their own": ("C.S C.S |", "C.S!?#0 C.S!?#1 +C.E!?#0/cut +C.E!?#1/cut"),
    "N2 whole calls in a row, without ids": ("C.S C.D C.E C.S C.D C.E |", "C.S!?#0 C.D!?#0 C.E!?#0 C.S!?#1 C.D!?#1 C.E!?#1"),
    "N2 whole calls under one index, without ids": ("C.S#0 C.E#0 C.S#0 C.D#0 |", "C.S!?#0 C.E!?#0 C.S!?#1 C.D!?#1 +C.E!?#1/cut"),
    "N2 a new id after an ended call without one": ("C.S#0 C.E#0 C.D!a#0 |", "C.S!?#0 C.E!?#0 +C.S!a#1 C.D!a#1 +C.E!a#1/cut"),
    "P5 indexes are unique": ("C.S!a#1 C.S!b C.S!c C.S!d#0 |", "C.S!a#1 C.S!b#0 C.S!c#2 C.S!d#3 +C.E!a#1/cut +C.E!b#0/cut +C.E!c#2/cut +C.E!d#3/cut"),
    "P5 indexes begin anew with a step": (
        "SS(0) C.S!a C.E!a SE(0) SS(1) C.S!a SE(1)",
        "SS(0) C.S!a#0 C.E!a#0 SE(0) SS(1) C.S!a#0 +C.E!a#0/cut SE(1)",
    ),
    "P6 an open call with the id, whatever its index": ("C.S!a#0 C.S!a#1 C.D!a#2 C.D#1 |", "C.S!a#0 C.D!a#0 C.D!a#0 +C.E!a#0/cut"),
    "P6 the id wins over a nameless call of the index": ("C.S!a#0 C.S#1 C.D!a#1 |", "C.S!a#0 C.S!?#1 C.D!a#0 +C.E!a#0/cut +C.E!?#1/cut"),
    "P6 fragments of an ended call": ("C.S!a#0 C.E!a C.D!a C.D#0 C.D C.S!a C.E!a |", "C.S!a#0 C.E!a#0"),
    "P13 calls per choice": ("C.S!a#0 C.S!a#0^1 C.D#0^1 C.E#0 |", "C.S!a#0 C.S!a#0^1 C.D!a#0^1 C.E!a#0 +C.E!a#0^1/cut"),
    "P14 calls end before blocks": ("SS(0) K.D^1 C.S!a T.D SE(0)", "SS(0) +K.S^1 K.D^1 C.S!a#0 +T.S T.D +C.E!a#0/cut +K.E^1 +T.E SE(0)"),
    "P15 adds no terminal": ("SS(0) |", "SS(0) +SE(0,!INCOMPLETE_STREAM)"),
    "E1 nothing after a terminal": ("SS(0) ERROR T.D C.S!a SS(1) SE(1) USAGE ABORT |", "SS(0) +SE(0,!CONNECTION_LOST) ERROR"),
    "E12 a response of its own": ("RS T.D ERROR T.D RS T.D END", "RS +T.S T.D +T.E ERROR RS +T.S T.D +T.E END"),
    "E12 a response that broke off": ("RS SS(0) T.D RS SS(0) END", "RS SS(0) +T.S T.D +T.E +SE(0,!INCOMPLETE_STREAM) RS SS(0) +SE(0) END"),
}


@pytest.mark.parametrize(("line", "expected"), (ROWS | RULES).values(), ids=(ROWS | RULES).keys())
def test_table(line: str, expected: str) -> None:
    """
    Every row comes out as the table says; what it does not mark as made here (+) and did not need an id is the very event that went in.
    """
    given = parse_events(line)
    out = feed_all(Normalizer(), given)
    assert expected.replace("+", "") == notes(out)
    for token, event in zip(expected.split(), out, strict=True):
        made = not any(event is other for other in given)
        assert not token.startswith("+") or made
        assert token.startswith(("+", "C.")) or not made or token == "T.E@a#0"


def test_the_table_is_whole() -> None:
    """
    All 49 rows are there.
    """
    assert set(range(1, 50)) == {int(name.split()[0]) for name in ROWS}


@pytest.mark.parametrize("line", [line for line, _ in (ROWS | RULES).values()])
def test_fixed_point(line: str) -> None:
    """
    What came out goes in again unchanged (N8).
    """
    once = normalized(line)
    assert once == feed_all(Normalizer(), once)


# --- ids and names --------------------------------------------------------------------------------------------------------------------------------


def test_local_ids() -> None:
    """
    The id of a nameless call is told by its place, and says that it is ours (P5).
    """
    out = normalized("SS(2) C.S#4 C.S#4^1 C.S SE(2)")
    ids = [event.call_id for event in out if isinstance(event, ToolCallStart)]
    assert ids == [event.call_id for event in normalized("SS(2) C.S#4 C.S#4^1 C.S SE(2)") if isinstance(event, ToolCallStart)]
    assert len(set(ids)) == 3
    assert all(map(is_local_id, ids))
    assert not is_local_id("call_123")


def test_a_local_id_counts_as_none() -> None:
    """
    A call with a local id takes the provider's when that comes (N2, P5).
    """
    (start, *_) = normalized("C.S")
    assert isinstance(start, ToolCallStart)
    assert "C.S!?#0 C.D!a#0 C.E!a#0" == notes(
        feed_all(Normalizer(), [start, ToolCallArgsDelta("x", "a", 0), ToolCallEnd(ToolCall(start.call_id, complete=True, index=0))])
    )


def test_the_id_is_final_after_its_coming() -> None:
    """
    From a late id on, every event of the call carries it, also the end made at the step's end (N2).
    """
    out = normalized("SS(0) C.S#0 C.D#0 C.D!a#0 C.D#0 SE(0,stop)")
    assert "SS(0) C.S!?#0 C.D!?#0 C.D!a#0 C.D!a#0 C.E!a#0 SE(0,stop)" == notes(out)


@pytest.mark.parametrize(
    ("line", "name"),
    [
        ("SS(0) C.S(f)!a SE(0,stop)", "f"),
        ("SS(0) C.S!a C.S(f)!a SE(0,stop)", "f"),
        ("SS(0) C.S(f)!a C.S(f)!a C.E!a SE(0,stop)", "f"),
        ("SS(0) C.S!a C.E(f)!a SE(0,stop)", "f"),
        ("SS(0) C.S(g)!a C.E(f)!a SE(0,stop)", "f"),
        ("SS(0) C.D!a SE(0,stop)", ""),
    ],
)
def test_names(line: str, name: str) -> None:
    """
    The end carries the name, whenever that came; names are never concatenated (N2, P5).
    """
    (end,) = [event for event in normalized(line) if isinstance(event, ToolCallEnd)]
    assert name == end.tool_call.name


def test_what_an_end_says_is_kept() -> None:
    """
    Metadata, kind, text and server_executed of a dialect's ToolCallEnd pass; the kind of the start stands where the end says nothing.
    """
    said = ToolCall("a", arguments_text="{}", complete=True, metadata={"signature": "s"}, server_executed=True)
    out = feed_all(Normalizer(), [ToolCallStart("a", "f", kind="custom"), ToolCallEnd(said)])
    assert [ToolCallStart("a", "f", 0, kind="custom"), ToolCallEnd(attrs.evolve(said, name="f", index=0, kind="custom"))] == out
    out = feed_all(Normalizer(), [ToolCallStart("a", "f"), ToolCallEnd(attrs.evolve(said, kind="custom"))])
    assert ToolCallEnd(attrs.evolve(said, name="f", index=0, kind="custom")) == out[-1]


def test_made_ends_know_the_call() -> None:
    """
    An end made at the step's end has the kind and the name of the start, and no arguments: those are the fold's.
    """
    out = feed_all(Normalizer(), [ToolCallStart("a", "f", 3, 0, "custom"), None])
    assert ToolCallEnd(ToolCall("a", "f", index=3, kind="custom")) == out[-1]


# --- complete, dropped ----------------------------------------------------------------------------------------------------------------------------


def test_alternatives_finish_by_themselves() -> None:
    """
    The finish reason of its own choice decides whether an open call is complete (N7, P13).
    """
    seed = ChatResponse(finish_reason=FinishReason.LENGTH, alternatives=(ChatResponse(choice=1, finish_reason=FinishReason.TOOL_CALLS),))
    given = [*parse_events("SS(0) C.S!a C.S!b^1 C.S!c^2"), StepEnd(0, seed)]
    assert "C.E!a#0/cut C.E!b#0^1 C.E!c#0^2/cut SE(0,length)" == notes(feed_all(Normalizer(), given)[4:])


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("SS(0) C.S!a C.E!a C.D!a C.D SE(0)", [2]),
        ("SS(0) C.S!a C.E!a C.S!a C.E!a SE(0)", [1]),
        ("SS(0) C.S!a C.E!a C.D!a SE(0) SS(1) C.S!a C.D!a SE(1)", [1, 0]),
        ("SS(0) C.S!a C.E!a C.D!a ERROR", [1]),
        ("SS(0) C.S!a C.S!a C.E!a C.E!a C.E!z T.E T.D K.E SE(0)", [0]),
    ],
)
def test_dropped(line: str, expected: list[int]) -> None:
    """
    What belonged to an ended call is counted on its step (P6); what is merely said twice is not.
    """
    assert expected == [event.response.dropped for event in normalized(line) if isinstance(event, StepEnd)]


def test_dropped_adds_to_what_the_dialect_counted() -> None:
    """
    The rest of the seed stays as it is.
    """
    seed = ChatResponse(dropped=2, model="m", finish_reason=FinishReason.STOP)
    out = feed_all(Normalizer(), [*parse_events("SS(0) C.S!a C.E!a C.D!a"), StepEnd(0, seed)])
    assert StepEnd(0, attrs.evolve(seed, dropped=3)) == out[-1]


@pytest.mark.parametrize(
    "event",
    [
        TextDelta(""),
        ThinkingDelta("", 0),
        ToolCallArgsDelta("", "a"),
        RefusalDelta(""),
        ServerToolArgsDelta("search", ""),
    ],
)
def test_an_empty_delta_means_nothing(event: ChatEvent) -> None:
    """
    No delta carries empty text, and none opens a block (E13).
    """
    assert [] == feed_all(Normalizer(), [event, None])


# --- failing --------------------------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("error", "verdict"),
    [(ConnectionLostError("gone"), Verdict.CONNECTION_LOST), (ValueError("not ours"), Verdict.INCOMPLETE_STREAM)],
)
def test_fail_closes_and_says_no_more(error: Exception, verdict: Verdict) -> None:
    """
    On failure: calls, blocks, the step with the verdict, and no terminal (E6, N3).
    """
    out: list[ChatEvent] = []
    stage = Normalizer()
    for event in parse_events("SS(0) C.S!a T.D"):
        assert event is not None
        stage.feed(event, out.append)
    stage.fail(error, out.append)
    assert f"SS(0) C.S!a#0 T.S T.D C.E!a#0/cut T.E SE(0,!{verdict})" == notes(out)


def test_nothing_is_doubled_on_failure() -> None:
    """
    A dialect that ended the step before it failed gets no second end.
    """
    out: list[ChatEvent] = []
    stage = Normalizer()
    for event in parse_events("SS(0) T.D SE(0,!PROTOCOL)"):
        assert event is not None
        stage.feed(event, out.append)
    stage.fail(ConnectionLostError("gone"), out.append)
    stage.flush(out.append)
    assert "SS(0) T.S T.D T.E SE(0,!PROTOCOL)" == notes(out)


# --- what the stages before this one were known for -----------------------------------------------------------------------------------------------


def test_texts_pass_as_they_are() -> None:
    """
    Bare deltas get their start and end, and keep their texts.
    """
    out = feed_all(Normalizer(), [TextDelta("Hel"), TextDelta("lo"), None])
    assert ["Hel", "lo"] == [event.text for event in out if isinstance(event, TextDelta)]


def test_a_signature_keeps_its_text_and_breaks_nothing() -> None:
    """
    A signature passes inside its block.
    """
    signature = ThinkingSignature("seal")
    out = feed_all(Normalizer(), [ThinkingDelta("a"), signature, ThinkingDelta("b"), None])
    assert out[2] is signature
    assert "K.S K.D SIG K.D K.E" == notes(out)


def test_a_result_takes_no_part_in_pairing() -> None:
    """
    ToolResult passes whatever is open.
    """
    result = ToolResult("a", 1)
    out = feed_all(Normalizer(), [ToolCallStart("a", "f"), result, None])
    assert out[1] is result
    assert "C.S!a#0 RESULT C.E!a#0/cut" == notes(out)


def test_a_step_start_keeps_its_ids() -> None:
    """
    The provider's id rides on StepStart, which passes untouched.
    """
    start = StepStart(0, "resp_1", "model")
    assert feed_all(Normalizer(), [ResponseStart("r"), start])[1] is start
