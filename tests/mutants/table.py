"""
The faults: what each is, where it is planted, and the tests that must see it.
"""

from __future__ import annotations

import attrs

__all__ = ["MUTANTS", "Mutant"]


@attrs.frozen
class Mutant:
    """
    One fault: `source` stands exactly once in `file` (below rxchat/) and is replaced by `fault`; then each of `tests` must fail.
    """

    name: str
    file: str
    source: str
    fault: str
    tests: tuple[str, ...]


MUTANTS: tuple[Mutant, ...] = ()
