"""
JSON values as keys: what is looked up in a table need not be searched for.
"""

from __future__ import annotations

from typing import Any

__all__ = ["hash_key"]


def hash_key(value: Any) -> Any:
    """
    What equals the key of another JSON value just where the values are equal, and can be hashed.
    """
    if isinstance(value, list):
        return tuple(map(hash_key, value))
    if isinstance(value, dict):
        return frozenset((name, hash_key(each)) for name, each in value.items())
    return value
