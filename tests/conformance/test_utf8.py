"""
The UTF-8 decoder against the recorded cases, every one at every cut.
"""

from __future__ import annotations

from typing import Any

import pytest

from rxchat.decode import Utf8Decoder
from rxchat.errors import DecodeError
from tests.conformance.vectors import counted, data_of, name_of, vectors
from tests.framing.driving import cuts, drive

CASES = vectors("utf8.json")


def test_number_of_cases() -> None:
    """
    All recorded cases are run.
    """
    counted(CASES, 44, "utf8")


@pytest.mark.parametrize("case", CASES, ids=name_of)
def test_text(case: dict[str, Any]) -> None:
    """
    The text, or the text before the bad sequence and then its offset; never an empty text.
    """
    for reads in cuts(data_of(case)):
        texts, fault = drive(Utf8Decoder(), reads)
        assert case["text"] == "".join(texts)
        assert "" not in texts
        expected = None if case["ok"] else (DecodeError, case["error"]["offset"])
        assert expected == (fault and fault[:2])
