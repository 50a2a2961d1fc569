"""
Recorded bodies for the commands, written for these tests.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

__all__ = ["COMPLETE", "CUT", "TOOLS", "chat", "write"]


def chat(*choices: dict[str, Any], usage: dict[str, Any] | None = None, done: bool = True, **extra: Any) -> bytes:
    """
    A recorded stream: one frame a choice, then usage, then the sentinel.
    """
    head = {"id": "chatcmpl-1", "model": "test-1"}
    frames = [{**head, "choices": [{"index": 0, "delta": {}, "finish_reason": None, **choice}], **extra} for choice in choices]
    if usage is not None:
        frames.append({**head, "choices": [], "usage": usage})
    lines = [json.dumps(frame, ensure_ascii=False) for frame in frames] + (["[DONE]"] if done else [])
    return "".join(f"data: {line}\n\n" for line in lines).encode()


COMPLETE = chat(
    {"delta": {"reasoning_content": "Hm."}},
    {"delta": {"content": "Grüße 🌱"}},
    {"finish_reason": "stop"},
    usage={"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15, "prompt_tokens_details": {"cached_tokens": 4}},
)
CUT = chat({"delta": {"content": "Gr"}}, done=False)
TOOLS = chat(
    {"delta": {"tool_calls": [{"index": 0, "id": "a", "function": {"name": "weather", "arguments": '{"city": '}}]}},
    {"delta": {"tool_calls": [{"index": 0, "function": {"arguments": '"Rome"}'}}]}},
    {"index": 1, "delta": {"content": "Other."}},
    {"index": 1, "finish_reason": "stop"},
    {"finish_reason": "tool_calls"},
    citations=["https://example.com/a"],
)


def write(folder: Path, **files: bytes) -> list[str]:
    """
    Files with these contents, as arguments.
    """
    paths = []
    for name, content in files.items():
        path = folder / f"{name}.wire"
        path.write_bytes(content)
        paths.append(str(path))
    return paths
