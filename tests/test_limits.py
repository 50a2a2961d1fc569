"""
The bounds and their two named sets (contract B5).
"""

from __future__ import annotations

import attrs
import pytest

from rxchat.errors import ConfigurationError, LimitExceeded
from rxchat.limits import Limits
from rxchat.testing import replay


def test_the_default_lets_real_media_pass() -> None:
    """
    An image of 20 MB is base64 of 27 MB in one line of one event.
    """
    limits = Limits()
    encoded = 20 * 1024 * 1024 * 4 // 3
    assert min(limits.line, limits.event, limits.total) > encoded
    assert limits.json_depth == 128


def test_the_strict_set_is_that_of_the_boundary_study() -> None:
    """
    Its numbers; a depth of 16 edges is 17 containers (contract P16).
    """
    strict = Limits.strict
    assert (strict.line, strict.event, strict.total, strict.output, strict.events, strict.json_depth) == (8192, 8192, 65_536, 4096, 256, 17)


def test_strict_is_stricter_throughout() -> None:
    """
    No bound was forgotten in it.
    """
    assert all(getattr(Limits.strict, field.name) < getattr(Limits(), field.name) for field in attrs.fields(Limits))


def test_limits_are_values() -> None:
    """
    One bound is changed by making another set.
    """
    assert attrs.evolve(Limits(), line=9) == Limits(line=9)
    with pytest.raises(attrs.exceptions.FrozenInstanceError):
        Limits().line = 9  # type: ignore[misc]


@pytest.mark.parametrize("bound", [-1, 1.5, "8192", True, None])
def test_bounds_are_whole_numbers(bound: object) -> None:
    """
    A bound that cannot be one is refused when it is set, by its name.
    """
    with pytest.raises(ConfigurationError, match="the limit line"):
        Limits(line=bound)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "dialect, frame",
    [
        ("openai-chat", b'data: {"choices":[{"index":0,"delta":{"content":"word"}}]}\n\n'),
        ("anthropic", b'data: {"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"word"}}\n\n'),
        ("openai-responses", b'data: {"type":"response.output_text.delta","output_index":0,"content_index":0,"delta":"word"}\n\n'),
    ],
)
def test_what_repeated_frames_say_counts(dialect: str, frame: bytes) -> None:
    """
    The limit of the output is kept to the character, also where frames are read by comparison.
    """
    assert not isinstance(replay(frame * 50, dialect, limits=Limits(output=200)).error, LimitExceeded)
    failure = replay(frame * 50, dialect, limits=Limits(output=199)).error
    assert isinstance(failure, LimitExceeded)
    assert ("output", 199, 49 * len(frame)) == (failure.limit, failure.value, failure.offset)
