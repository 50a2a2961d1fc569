"""
From bytes to frames: one framer per transport framing, chosen by name (contract B2, B3).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from rxchat.errors import ConfigurationError
from rxchat.framing.eventstream import AwsEventStreamFramer
from rxchat.framing.frames import Frame
from rxchat.framing.jsonarray import JsonArrayFramer
from rxchat.framing.jsonbody import JsonBodyFramer
from rxchat.framing.ndjson import NdjsonFramer
from rxchat.framing.sse import SseFramer
from rxchat.limits import Limits
from rxchat.stage import Stage

__all__ = ["FRAMERS", "framer_for"]

FRAMERS: Mapping[str, Callable[[Limits], Stage[Any, Any]]] = {
    "sse": SseFramer,
    "ndjson": NdjsonFramer,
    "json-array": JsonArrayFramer,
    "aws-eventstream": AwsEventStreamFramer,
    "json": JsonBodyFramer,
}


def framer_for(name: str, limits: Limits) -> Stage[bytes, Frame]:
    """
    A fresh framer; ConfigurationError names those that exist.
    """
    framer = FRAMERS.get(name)
    if framer is None:
        raise ConfigurationError(f"no framing {name!r}; there is: {', '.join(FRAMERS)}")
    return framer(limits)
