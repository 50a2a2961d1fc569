"""
What a docstring says of parameters, in every style.
"""

from __future__ import annotations

import inspect

import pytest

from rxchat.toolschema.docstrings import parameter_docs, summary

GOOGLE = """
Look up
a place.

More of it.

Args:
    city: the name,
        as people say it
    unit (str, optional): of the answer
    silent:

Returns:
    nothing: at all
"""

NUMPY = """
Look up a place.

Parameters
----------
city : str
    the name,
    as people say it
unit, scale : {"C", "F"}
    of the answer
bare
    without a type

Returns
-------
nothing : str
    at all
"""

SPHINX = """
Look up a place.
:param city: the name,
    as people say it
:param str unit: of the answer
:type unit: str
:returns: nothing
"""


@pytest.mark.parametrize(
    ("docs", "expected"),
    [
        (GOOGLE, {"city": "the name, as people say it", "unit": "of the answer"}),
        (NUMPY, {"city": "the name, as people say it", "unit": "of the answer", "scale": "of the answer", "bare": "without a type"}),
        (SPHINX, {"city": "the name, as people say it", "unit": "of the answer"}),
        ("Just words: with a colon", {}),
        ("", {}),
    ],
    ids=["google", "numpy", "sphinx", "none", "empty"],
)
def test_parameters(docs: str, expected: dict[str, str]) -> None:
    """
    Each parameter's description on one line; other sections are none of them.
    """
    assert parameter_docs(inspect.cleandoc(docs)) == expected


@pytest.mark.parametrize(
    ("docs", "expected"),
    [
        (GOOGLE, "Look up a place."),
        (SPHINX, "Look up a place."),
        ("Args:\n    a: b", ""),
        (":param a: b", ""),
        ("Parameters\n----------\na : int\n    b", ""),
        ("", ""),
    ],
)
def test_summary(docs: str, expected: str) -> None:
    """
    The first paragraph on one line, and no section for one.
    """
    assert summary(inspect.cleandoc(docs)) == expected
