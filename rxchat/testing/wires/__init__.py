"""
The wire encoders, by dialect.
"""

from __future__ import annotations

from rxchat.errors import ConfigurationError
from rxchat.testing.asked import FakeRequest
from rxchat.testing.wires.base import Delta, Wire

__all__ = ["WIRES", "Delta", "Wire", "get_wire", "wire_for"]

WIRES: dict[str, Wire] = {}


def get_wire(dialect: str) -> Wire:
    """
    The wire of that dialect; ConfigurationError lists those that exist.
    """
    if dialect not in WIRES:
        raise ConfigurationError(f"no wire for the dialect {dialect!r}; there are: {', '.join(sorted(WIRES))}")
    return WIRES[dialect]


def wire_for(request: FakeRequest) -> Wire:
    """
    The wire that answers this request.
    """
    wire = get_wire(request.dialect)
    return wire if wire.choose is None else wire.choose(request)
