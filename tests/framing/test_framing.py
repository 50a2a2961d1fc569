"""
The table of framers, and what all of them must do.
"""

from __future__ import annotations

import pytest

from rxchat.errors import ConfigurationError, IncompleteStreamError
from rxchat.framing import FRAMERS, framer_for
from rxchat.framing.eventstream import AwsEventStreamFramer
from rxchat.framing.jsonarray import JsonArrayFramer
from rxchat.framing.jsonbody import JsonBodyFramer
from rxchat.framing.ndjson import NdjsonFramer
from rxchat.framing.sse import SseFramer
from rxchat.limits import Limits
from tests.framing.driving import drive


def test_table() -> None:
    """
    Each name makes its framer.
    """
    expected = {
        "sse": SseFramer,
        "ndjson": NdjsonFramer,
        "json-array": JsonArrayFramer,
        "aws-eventstream": AwsEventStreamFramer,
        "json": JsonBodyFramer,
    }
    assert expected == {name: type(framer_for(name, Limits())) for name in FRAMERS}


def test_unknown_name() -> None:
    """
    A name that does not exist is the caller's mistake; the error lists those that do.
    """
    with pytest.raises(ConfigurationError, match=r"'xml'.*sse, ndjson, json-array, aws-eventstream, json"):
        framer_for("xml", Limits())


def test_fresh_each_time() -> None:
    """
    Framers share no state.
    """
    assert framer_for("sse", Limits()) is not framer_for("sse", Limits())


@pytest.mark.parametrize("name", sorted(FRAMERS))
def test_no_bytes(name: str) -> None:
    """
    An empty body is no frame; where one is due, it is a truncated stream.
    """
    frames, fault = drive(framer_for(name, Limits()), [])
    expected = IncompleteStreamError if name in ("json", "json-array") else None
    assert ([], expected) == (frames, fault and fault[0])
