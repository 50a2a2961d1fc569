"""
The SSE framer against the recorded cases, every one at every cut.
"""

from __future__ import annotations

from typing import Any

import pytest

from rxchat.errors import DecodeError, RxchatError
from rxchat.framing.frames import SseEvent
from rxchat.framing.sse import SseFramer
from tests.conformance.vectors import counted, data_of, name_of, vectors
from tests.framing.driving import cuts, same_for_all, split

CASES = vectors("sse.json")

Shown = tuple[str, str, str, int | None]


def shown(event: SseEvent) -> Shown:
    return event.event, event.data, event.id, event.retry


def expected_of(case: dict[str, Any]) -> list[Shown]:
    events: list[Shown] = []
    for one in case["expect"]:
        data = one["data"] if "data" in one else "".join(part["text"] * part["times"] for part in one["data_parts"])
        events += [(one["event"], data, one["id"], one["retry"])] * one.get("repeat", 1)
    return events


def test_number_of_cases() -> None:
    """
    All recorded cases are run.
    """
    counted(CASES, 114, "sse")


@pytest.mark.parametrize("case", CASES, ids=name_of)
def test_events(case: dict[str, Any]) -> None:
    """
    The standard's events, or with bad UTF-8 those before it and then its offset, at every cut.
    """
    data = data_of(case)
    frames, fault = same_for_all(SseFramer, data)
    events = [shown(frame) for frame in frames if isinstance(frame, SseEvent)]
    expected = expected_of(case)
    if "strict" in case:
        assert expected[: case["strict"]["expect_first"]] == events
        assert fault is not None
        assert (DecodeError, case["strict"]["error"]["offset"]) == fault[:2]
    else:
        assert (expected, None) == (events, fault)


@pytest.mark.parametrize("case", [case for case in CASES if "final" in case and "strict" not in case], ids=name_of)
def test_final_state(case: dict[str, Any]) -> None:
    """
    Last event id and reconnection time at the end of the stream.
    """
    for reads in cuts(data_of(case)):
        framer = SseFramer()
        for read in reads:
            framer.feed(read, lambda frame: None)
        framer.flush(lambda frame: None)
        assert (case["final"]["last_event_id"], case["final"]["reconnection_time"]) == (framer.last_event_id, framer.retry)


@pytest.mark.parametrize("case", [case for case in CASES if "at" in case], ids=name_of)
def test_promptness(case: dict[str, Any]) -> None:
    """
    Every event is out with the byte that tells it, at single bytes.
    """
    at: list[int] = []
    framer = SseFramer()
    taken = 0

    def note(frame: Any) -> None:
        if isinstance(frame, SseEvent):
            at.append(taken)

    try:
        for read in split(data_of(case), 1):
            taken += 1
            framer.feed(read, note)
    except RxchatError:
        assert "strict" in case
    expected = case["at"][: case["strict"]["expect_first"]] if "strict" in case else case["at"]
    assert expected == at


@pytest.mark.parametrize("case", CASES, ids=name_of)
def test_byte_ranges(case: dict[str, Any]) -> None:
    """
    Offsets point at what they say: the first field, behind the blank line's end, the first data.
    """
    data = data_of(case)
    frames, _ = same_for_all(SseFramer, data, [])
    ranges = [(frame.start, frame.end) for frame in frames if isinstance(frame, SseEvent)]
    assert sorted(ranges) == ranges
    for frame in frames:
        if isinstance(frame, SseEvent):
            assert data[frame.start : frame.start + 2] in (b"da", b"ev", b"id", b"re")
            assert data[frame.end - 1 : frame.end] in (b"\n", b"\r")
            assert frame.raw.split(b"\n")[0] == data[frame.data_start :][: len(frame.raw.split(b"\n")[0])]
