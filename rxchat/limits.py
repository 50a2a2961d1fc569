"""
The bounds on what a stream may make us hold (contract B5).
"""

from __future__ import annotations

from typing import ClassVar

import attrs

from rxchat.errors import ConfigurationError

__all__ = ["Limits"]

MiB = 1024 * 1024


@attrs.frozen
class Limits:
    """
    Upper bounds; a breach is `LimitExceeded` naming the limit and its value, at exactly limit + 1.

    `line`, `event`, `total`, `error_body` count bytes before UTF-8 decoding, after decompression. `output` (text, thinking and refusal together) and
    `tool_arguments` (per call) count code points. `events` counts data frames, an end sentinel included. `json_depth` counts containers, the root being
    depth 0: a depth of 128 containers passes by default. `pending` counts items waiting between two operators.
    """

    # One base64 image of 20 MB is a line of 27 MB; providers send it in one event.
    line: int = 64 * MiB
    event: int = 64 * MiB
    total: int = 1024 * MiB
    output: int = 64 * MiB
    tool_arguments: int = 16 * MiB
    events: int = 10_000_000
    json_depth: int = 128
    pending: int = 4096
    # Of a refused answer only its message is wanted.
    error_body: int = 64 * 1024

    strict: ClassVar[Limits]

    def __attrs_post_init__(self) -> None:
        """
        ConfigurationError for a bound that is no whole number, or negative.
        """
        for name in _NAMES:
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int) or value < 0:
                raise ConfigurationError(f"the limit {name} is a whole number from 0 on, not {value!r}")


_NAMES = tuple(attrs.fields_dict(Limits))

# The values of the boundary study; its depth of 16 counts edges, so 17 containers pass (contract P16).
Limits.strict = Limits(line=8192, event=8192, total=65_536, output=4096, tool_arguments=4096, events=256, json_depth=17, pending=256, error_body=8192)
