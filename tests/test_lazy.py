"""
Packages whose names are imported when they are asked for.
"""

from __future__ import annotations

from types import ModuleType

import pytest

import rxchat
import rxchat.tools
import rxchat.toolschema
from rxchat.lazy import lazy_names

PACKAGES = pytest.mark.parametrize("package", [rxchat, rxchat.tools, rxchat.toolschema], ids=lambda package: package.__name__)


@PACKAGES
def test_each_public_name_is_found(package: ModuleType) -> None:
    """
    What stands in `__all__` is there and listed, and the same object each time.
    """
    assert set(package.__all__) <= set(dir(package))
    for name in package.__all__:
        assert getattr(package, name) is getattr(package, name)


@PACKAGES
def test_what_is_not_there(package: ModuleType) -> None:
    """
    Said as Python says it.
    """
    with pytest.raises(AttributeError, match=f"module '{package.__name__}' has no attribute 'nonsense'"):
        _ = package.nonsense


def test_a_name_is_imported_once() -> None:
    """
    What was found stands in the package from then on, so that Python does not ask again.
    """
    found, listed = lazy_names(__name__, {"rxchat.limits": "Limits", "rxchat.errors": "Verdict RxchatError"})
    assert "Limits" not in globals()
    assert {"Limits", "Verdict", "RxchatError", "PACKAGES"} <= set(listed())
    assert found("Limits") is globals()["Limits"]
    del globals()["Limits"]
