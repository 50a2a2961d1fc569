"""
Strict JSON against the recorded cases.
"""

from __future__ import annotations

from typing import Any

import pytest

from rxchat.errors import InvalidJSONError
from rxchat.strictjson import loads
from tests.conformance.vectors import counted, data_of, name_of, vectors

CASES = vectors("json.json")


def test_number_of_cases() -> None:
    """
    All recorded cases are run.
    """
    counted(CASES, 110, "json")


def depth_of(value: Any) -> int:
    depth = 0
    while value:
        depth, value = depth + 1, next(iter(value.values() if isinstance(value, dict) else value))
        if not isinstance(value, dict | list):
            break
        if not value:
            depth += 1
    return depth


@pytest.mark.parametrize("case", CASES, ids=name_of)
def test_value(case: dict[str, Any]) -> None:
    """
    The value, types included, or InvalidJSONError with its reason and a position in the text.
    """
    data = data_of(case)
    if not case["ok"]:
        with pytest.raises(InvalidJSONError) as caught:
            loads(data, offset=1000)
        assert caught.value.reason in case.get("reason_any", [case["reason"]])
        assert caught.value.offset is not None
        assert 1000 <= caught.value.offset <= 1000 + len(data)
        return
    value = loads(data)
    assert value == loads(data.decode())
    if "value" in case:
        assert (case["value"], repr(case["value"])) == (value, repr(value))
    elif "depth" in case:
        assert case["depth"] == depth_of(value)
    else:
        assert case["length"] == len(value)
