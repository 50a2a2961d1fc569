"""
The wire encoders, by dialect.
"""

from __future__ import annotations

from rxchat.testing.wires.base import Wire

__all__ = ["WIRES", "Wire"]

WIRES: dict[str, Wire] = {}
