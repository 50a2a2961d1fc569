"""
The recorded conformance cases and their bytes.
"""

from __future__ import annotations

import json
from base64 import b64decode
from typing import Any

from tests.shared_data import has_shared, shared


def vectors(name: str) -> list[Any]:
    """
    The cases of one file, for parametrizing; one that is skipped where the file is absent.
    """
    if not has_shared("conformance", name):
        return [{"id": "absent", "absent": name}]
    return list(json.loads(shared("conformance", name).read_text(encoding="utf-8")))


def data_of(case: dict[str, Any]) -> bytes:
    """
    A case's input; skips where the recorded data are absent.
    """
    if "absent" in case:
        shared("conformance", case["absent"])
    if "bytes_b64" in case:
        return b64decode(case["bytes_b64"])
    return b"".join(b64decode(part["b64"]) * part["times"] for part in case["bytes_parts"])


def name_of(case: dict[str, Any]) -> str:
    """
    The case's name, for pytest.
    """
    return str(case["id"])


def counted(cases: list[Any], expected: int, stage: str) -> None:
    """
    That the data are those these tests were written for: a case less would go unnoticed otherwise.
    """
    if "absent" in cases[0]:
        shared("conformance", cases[0]["absent"])
    print(f"{stage}: {len(cases)} conformance cases")
    assert expected == len(cases)
