"""
Which call a fragment means: the identity of tool calls alone, without events.
"""

from __future__ import annotations

import re

import attrs
import pytest

from rxchat.call_keys import TrackedCalls, is_local_id, local_id

# Said in order: S start, D delta, E end, with the provider's index and id; and what each means: the key and id of a call, `+` if it begins one,
# `-` if the call has ended, nothing if it is nobody's.
IDENTITY = {
    "the index": ("S#0!a S#1!b D#0 D#1", "+0a +1b 0a 1b"),
    "the id": ("S!a S!b D!a D!b", "+0a +1b 0a 1b"),
    "the only open call": ("S!a D E D", "+0a 0a 0a -0a"),
    "the newest open call": ("S!a S!b D E!b D E D", "+0a +1b 1b 1b 0a 0a -1b"),
    "nothing said, nothing begun": ("D D S D", "+0? 0? +1? 1?"),
    "a start is a start": ("S S", "+0? +1?"),
    "a repeated start": ("S#0!a S#0!a S#0 S!a", "+0a 0a 0a 0a"),
    "a late id": ("S#0 D#0!a D!a S#0!a", "+0? 0a 0a 0a"),
    "a late id without an index": ("S D!a E!a", "+0? 0a 0a"),
    "another id without an index": ("S!a D!b", "+0a +1b"),
    "a late index": ("S!a D#7 D#7 D#8", "+0a 0a 0a +8?"),
    "late indexes of two": ("S!a S!b D#1 D#0", "+0a +1b 1b 0a"),
    "a second id under an index": ("S#0!a D#0!b D#0 S#0!c D#0 D!a", "+0a +1b 1b +2c 2c 0a"),
    "an open call with the id, whatever its index": ("S#0!a S#3!a D#3", "+0a 0a 0a"),
    "an ended call": ("S#0!a E!a D!a D#0 S#0!a E#0", "+0a 0a -0a -0a -0a -0a"),
    "a start behind an ended call of its index": ("S#0 E#0 S#0 D#0", "+0? 0? +1? 1?"),
    "an id behind an ended call without one": ("S#0 E#0 D#0!a", "+0? 0? +1a"),
    "an end that is nobody's": ("S#0!a E!b E#0!b E#1", "+0a . . ."),
    "an index that is taken": ("S!a S#0!b S!c", "+0a +1b +2c"),
    "an index that is free": ("S#1!a S!b S!c", "+1a +0b +2c"),
}


def _said(calls: TrackedCalls, token: str) -> str:
    word, index, call_id = re.fullmatch(r"([SDE])(?:#(\d+))?(?:!(\w+))?", token).groups()  # type: ignore[union-attr]
    number, name = None if index is None else int(index), call_id or ""
    call = calls.meant_by_start(number, name) if word == "S" else calls.meant_by(number, name)
    begins = call is None and word != "E"
    call = calls.begin(number, name, "", "function", 0, 0, 0) if begins else call
    if call is None:
        return "."
    mark = "+" if begins else "-" if call.ended else ""
    if word == "E" and not call.ended:
        calls.end(call)
    return f"{mark}{call.index}{'?' if is_local_id(call.id) else call.id}"


@pytest.mark.parametrize(("line", "expected"), IDENTITY.values(), ids=IDENTITY.keys())
def test_identity(line: str, expected: str) -> None:
    """
    Index, id, the only open call, the newest; late words count, ended calls stay ended (N2, N3, P5, P6).
    """
    calls = TrackedCalls()
    assert expected == " ".join(_said(calls, token) for token in line.split())


def test_local_ids() -> None:
    """
    A local id tells the place of the call and that it is ours (P5).
    """
    assert is_local_id(local_id(0, 0, 0))
    assert 3 == len({local_id(1, 0, 0), local_id(0, 1, 0), local_id(0, 0, 1)})
    assert not is_local_id("call_123")
    assert not is_local_id("")


def test_what_a_call_knows() -> None:
    """
    A call keeps its name, kind, choice and order of opening; it has a local id until it is named.
    """
    call = TrackedCalls().begin(4, "", "f", "custom", 1, 2, 9)
    assert (local_id(2, 1, 4), False, "f", "custom", 4, True, 1, 9, False) == attrs.astuple(call)
