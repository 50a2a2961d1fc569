"""
The AWS event stream framer against the recorded cases, every one at every cut.
"""

from __future__ import annotations

from base64 import b64decode, b64encode
from typing import Any

import pytest

from rxchat.errors import FramingError
from rxchat.framing.eventstream import AwsEventStreamFramer
from rxchat.framing.frames import AwsMessage
from tests.conformance.vectors import counted, data_of, name_of, vectors
from tests.framing.driving import same_for_all

CASES = vectors("eventstream.json")


def shown(message: AwsMessage) -> tuple[list[tuple[str, str, Any]], bytes]:
    headers = [
        (name, message.types[name], b64encode(value).decode() if isinstance(value, bytes) else value) for name, value in message.headers.items()
    ]
    return headers, message.payload


def test_number_of_cases() -> None:
    """
    All recorded cases are run.
    """
    counted(CASES, 42, "eventstream")


@pytest.mark.parametrize("case", CASES, ids=name_of)
def test_messages(case: dict[str, Any]) -> None:
    """
    The messages, then the fault if there is one: of its kind, behind the good ones.
    """
    frames, fault = same_for_all(AwsEventStreamFramer, data_of(case))
    expected = [([(h["name"], h["type"], h["value"]) for h in one["headers"]], b64decode(one["payload_b64"])) for one in case["expect"]]
    assert expected == [shown(frame) for frame in frames]
    if "error" not in case:
        assert fault is None
        return
    assert fault is not None
    assert fault[2] in case["error"].get("kind_any", [case["error"]["kind"]])
    assert case["error"]["after_messages"] == len(frames)


@pytest.mark.parametrize("case", [case for case in CASES if case.get("error", {}).get("before_body")], ids=name_of)
def test_refused_at_the_prelude(case: dict[str, Any]) -> None:
    """
    What the prelude announces is refused when it is in, not when the body is.
    """
    with pytest.raises(FramingError) as caught:
        AwsEventStreamFramer().feed(data_of(case)[:12], lambda frame: None)
    assert case["error"]["kind"] == caught.value.kind
