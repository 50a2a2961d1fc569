"""
The NDJSON framer against the recorded cases, every one at every cut.
"""

from __future__ import annotations

from typing import Any

import pytest

from rxchat.errors import DecodeError, IncompleteStreamError, InvalidJSONError
from rxchat.framing.ndjson import NdjsonFramer
from tests.conformance.vectors import counted, data_of, name_of, vectors
from tests.framing.driving import same_for_all

CASES = vectors("ndjson.json")
KINDS = {"json": InvalidJSONError, "truncated": IncompleteStreamError, "invalid_utf8": DecodeError}


def test_number_of_cases() -> None:
    """
    All recorded cases are run.
    """
    counted(CASES, 41, "ndjson")


@pytest.mark.parametrize("case", CASES, ids=name_of)
def test_records(case: dict[str, Any]) -> None:
    """
    The records, then the fault if there is one: of its kind, in its line.
    """
    data = data_of(case)
    frames, fault = same_for_all(NdjsonFramer, data)
    assert case["expect"] == [frame.value for frame in frames]
    if "error" not in case:
        assert fault is None
        return
    error = case["error"]
    line_end = data.find(b"\n", error["line_offset"]) % (len(data) + 1)
    assert fault is not None
    assert (KINDS[error["kind"]], error["index"]) == (fault[0], len(frames))
    assert error["line_offset"] <= fault[1] <= line_end
