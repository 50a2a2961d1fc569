"""
What `import rxchat` offers.
"""

from __future__ import annotations

import pkgutil
import subprocess
import sys

import pytest

import rxchat
from rxchat.events import EVENT_TYPES

# Contract section 1, and the standard composition.
OPERATORS = [
    "decode_utf8",
    "frame_sse",
    "frame_ndjson",
    "frame_json_array",
    "frame_aws_event_stream",
    "parse",
    "normalize",
    "filter_events",
    "aggregate",
    "of_type",
    "text_only",
    "thinking_only",
    "tool_calls",
    "citations",
    "media",
    "safety",
    "usage",
    "for_ui",
    "to_records",
    "batch_text",
    "split_think_tags",
    "share_events",
    "to_async_iterable",
    "chat_events",
    "lift",
]


def test_all_names_are_there() -> None:
    """
    Every operator by the name the contract gives it, every event, and nothing that cannot be imported.
    """
    assert set(OPERATORS) <= set(rxchat.__all__)
    assert {cls.__name__ for cls in EVENT_TYPES.values()} <= set(rxchat.__all__)
    assert sorted(rxchat.__all__) == sorted(set(rxchat.__all__))
    for name in rxchat.__all__:
        assert getattr(rxchat, name) is not None
    assert set(rxchat.__all__) <= set(dir(rxchat))


def test_no_public_name_is_a_module() -> None:
    """
    `rxchat.x` is never two things.
    """
    modules = {module.name for module in pkgutil.iter_modules(rxchat.__path__)}
    assert modules & set(rxchat.__all__) == set()


def test_what_is_not_there() -> None:
    """
    Said as Python says it.
    """
    with pytest.raises(AttributeError, match="nonsense"):
        _ = rxchat.nonsense  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("statement", "absent"),
    [
        ("import rxchat.errors, rxchat.events", "reactivex aiohttp cattrs"),
        ("from rxchat import TextDelta, ChatResponse, Limits", "reactivex aiohttp cattrs"),
        ("from rxchat import text_only, chat_events, aggregate", "aiohttp"),
    ],
)
def test_names_are_imported_when_they_are_asked_for(statement: str, absent: str) -> None:
    """
    Who needs only values waits for neither RxPY nor an HTTP client.
    """
    program = f"{statement}; import sys; print([name for name in {absent.split()!r} if name in sys.modules])"
    assert subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout == "[]\n"
