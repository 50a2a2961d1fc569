"""
The names of a package, each imported when it is first asked for: who uses one of them need not wait for what the others need.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any

__all__ = ["lazy_names"]


def lazy_names(package: str, homes: Mapping[str, str]) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """
    `__getattr__` and `__dir__` of a package whose names live in `homes`: a module as `import_module` takes it (".errors"), its names with spaces between.

    Checkers are to see `from ... import` under TYPE_CHECKING instead, and no `__getattr__`: it would allow every name.
    """
    home_of = {name: home for home, names in homes.items() for name in names.split()}
    known = vars(sys.modules[package])

    def found(name: str) -> Any:
        if name not in home_of:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        known[name] = value = getattr(import_module(home_of[name], package), name)
        return value

    return found, lambda: sorted({*known, *home_of})
