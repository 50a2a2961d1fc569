"""
Where the recorded data lie that some tests read if they are there: the folder named by RXCHAT_SHARED, else `../shared` beside the project.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
SHARED = Path(os.environ.get("RXCHAT_SHARED", ROOT.parent / "shared"))
EXHAUSTIVE = os.environ.get("RXCHAT_EXHAUSTIVE") == "1"


def shared(*parts: str) -> Path:
    """
    A path below the shared folder; skips the test, saying so, where it is absent.
    """
    path = SHARED.joinpath(*parts)
    if not path.exists():
        pytest.skip(f"recorded data absent: {'/'.join(parts)}")
    return path


def has_shared(*parts: str) -> bool:
    """
    Whether the data are there, for parametrizing at collection.
    """
    return SHARED.joinpath(*parts).exists()
