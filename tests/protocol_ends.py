"""
Where the protocols end (contract V5, P9), found by readers of their own that know nothing of the framers and parsers.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from typing import Any

__all__ = ["ENDS", "events_of"]


def events_of(body: bytes) -> tuple[list[bytes], bytes]:
    """
    The data of the dispatched events of an event stream, and what is held of an unfinished one (comments and fields without data aside).
    """
    text = body.removeprefix(b"\xef\xbb\xbf").replace(b"\r\n", b"\n").replace(b"\r", b"\n")
    *blocks, rest = text.split(b"\n\n")
    data = [found for block in blocks if (found := _data(block)) is not None]
    *whole, unfinished = rest.lstrip(b"\n").split(b"\n")
    kept = [line for line in whole if line.startswith((b"data", b"event"))]
    return data, b"\n".join(kept + ([unfinished] if unfinished and not unfinished.startswith(b":") else []))


def _data(block: bytes) -> bytes | None:
    lines = [line.partition(b":")[2].removeprefix(b" ") for line in block.split(b"\n") if line.startswith(b"data:")]
    return b"\n".join(lines) if lines else None


def openai_chat(body: bytes) -> bool:
    """
    A finish_reason for every choice seen, then `[DONE]` or nothing held; or one whole JSON body.
    """
    if body.lstrip()[:1] == b"{":
        return _is_json(body)
    data, held = events_of(body)
    if b"[DONE]" in data:
        data = data[: data.index(b"[DONE]")]
        held = b""
    finished: dict[int, bool] = {}
    for choice in _choices(data):
        index = choice.get("index") or 0
        finished[index] = finished.get(index, False) or bool(choice.get("finish_reason"))
    return bool(finished) and all(finished.values()) and held in (b"", b"data: [DONE]", b"data:[DONE]")


def _choices(data: list[bytes]) -> Iterator[Mapping[str, Any]]:
    for item in data:
        value = json.loads(item)
        yield from (choice for choice in value.get("choices") or () if choice) if isinstance(value, dict) else ()


def _is_json(body: bytes) -> bool:
    try:
        json.loads(body)
    except ValueError:
        return False
    return True


# One line a dialect whose recorded bodies are cut.
ENDS: Mapping[str, Callable[[bytes], bool]] = {
    "openai-chat": openai_chat,
}
