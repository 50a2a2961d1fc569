"""
The checker of the stream grammar, by the name tests know it by.
"""

from __future__ import annotations

from rxchat.testing.grammar import grammar_violations as violations

__all__ = ["violations"]
