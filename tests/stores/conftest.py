"""
A fresh store of each kind.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from rxchat.stores import HistoryStore
from tests.stores.places import KINDS, Another, store_at


@pytest.fixture(params=KINDS)
async def place(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[tuple[HistoryStore, Another]]:
    """
    The store, and what opens it a second time.
    """
    async with store_at(request.param, tmp_path) as opened:
        yield opened


@pytest.fixture
def store(place: tuple[HistoryStore, Another]) -> HistoryStore:
    """
    The store alone.
    """
    return place[0]
