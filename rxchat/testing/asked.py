"""
What a scripted provider was asked.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import attrs

from rxchat.outgoing.addresses import masked_url
from rxchat.strictjson import loads

__all__ = ["FakeRequest"]


@attrs.define(eq=False)
class FakeRequest:
    """
    One request as it came. `path` has its query; header names are in lower case; `time` is the monotonic clock at its headers, in seconds.

    `gone` is that clock when the client left before its answer's end, None if it did not; `answered`: the answer was sent to its end. Headers, body and
    query may hold a key: they have no repr.
    """

    dialect: str
    method: str
    path: str = attrs.field(repr=masked_url)
    headers: Mapping[str, str] = attrs.field(repr=False)
    body: bytes = attrs.field(repr=False)
    time: float = 0.0
    peer: int = 0
    gone: float | None = None
    answered: bool = False

    @property
    def json(self) -> Any:
        """
        The body as JSON; InvalidJSONError if it is none.
        """
        return loads(self.body)

    @property
    def asks_stream(self) -> bool:
        """
        Whether the body's `stream` field is true.
        """
        return self.body[:1] == b"{" and self.json.get("stream") is True
