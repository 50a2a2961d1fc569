"""
Arguments of a Gemini call that come in pieces: paths and values, put together to one JSON object.

    {"jsonPath": "$.items[0].name", "stringValue": "App", "willContinue": true}   {"jsonPath": "$.items[0].name", "stringValue": "le"}

A path is `$` and names or indexes. A piece of text for a path that holds text goes on in it; any other value replaces what was there. Elements of an array
come in order: an index behind a gap is malformed, so a short frame cannot ask for a long array.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from itertools import pairwise
from typing import Any

from rxchat.dialects.base import string
from rxchat.growingtext import GrowingText
from rxchat.strictjson import dumps

__all__ = ["PartialArguments"]

_STEP = re.compile(r"\.([^.\[\]]+)|\[(\d{1,9})\]|\['((?:[^'\\]|\\.)*)'\]|\[\"((?:[^\"\\]|\\.)*)\"\]")
_ESCAPE = re.compile(r"\\(.)")
_VALUES = ("stringValue", "numberValue", "boolValue")


class PartialArguments:
    """
    The arguments of one call as far as they have come. ValueError for a piece that fits nowhere.

    `open` is True while a text was said to go on; `size` counts the code points of texts.
    """

    def __init__(self, given: Mapping[str, Any] | None = None, depth: int = 128) -> None:
        self.open = False
        self.size = 0
        self._root: dict[str, Any] = dict(given or {})
        self._depth = depth

    def add(self, piece: Mapping[str, Any]) -> None:
        """
        One element of `partialArgs`.
        """
        path = _path(piece.get("jsonPath"))
        if len(path) >= self._depth:
            raise ValueError("a path of arguments is too deep")
        self.open = piece.get("willContinue") is True
        value = _value(piece)
        if isinstance(value, str):
            self._text(path, value)
        elif value is not _NOTHING:
            self._set(path, value)

    def text(self) -> str:
        """
        The whole as compact JSON; empty where nothing was said.
        """
        return dumps(_whole(self._root)) if self._root else ""

    def _text(self, path: tuple[str | int, ...], piece: str) -> None:
        self.size += len(piece)
        before = self._get(path)
        if isinstance(before, GrowingText):
            before.add(piece)
        elif isinstance(before, str):
            text = GrowingText()
            text.add(before)
            text.add(piece)
            self._set(path, text)
        else:
            self._set(path, piece)

    def _get(self, path: tuple[str | int, ...]) -> Any:
        node: Any = self._root
        for step in path:
            if isinstance(node, dict):
                node = node.get(step)
            elif isinstance(node, list) and isinstance(step, int) and step < len(node):
                node = node[step]
            else:
                return None
        return node

    def _set(self, path: tuple[str | int, ...], value: Any) -> None:
        node: Any = self._root
        for step, following in pairwise(path):
            node = _enter(node, step, [] if isinstance(following, int) else {})
        _enter(node, path[-1], value, replace=True)


def _whole(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _whole(each) for key, each in value.items()}
    if isinstance(value, list):
        return [_whole(each) for each in value]
    return value.text if isinstance(value, GrowingText) else value


def _enter(node: Any, step: str | int, value: Any, *, replace: bool = False) -> Any:
    """
    What stands at a step of a path, made or replaced if need be.
    """
    if isinstance(step, str):
        if not isinstance(node, dict):
            raise ValueError(f"a path of arguments asks for {step!r} where no object is")
        if replace:
            node[step] = value
        return node.setdefault(step, value)
    if not isinstance(node, list) or step > len(node):
        raise ValueError(f"a path of arguments asks for element {step} where there is no place for it")
    if step == len(node):
        node.append(value)
    elif replace:
        node[step] = value
    return node[step]


def _path(said: Any) -> tuple[str | int, ...]:
    text = string(said) or ""
    steps: list[str | int] = []
    at = 1
    while text.startswith("$") and (found := _STEP.match(text, at)):
        name, index, single, double = found.groups()
        steps.append(int(index) if index else name or _ESCAPE.sub(r"\1", single or double or ""))
        at = found.end()
    if not steps or at != len(text):
        raise ValueError("a path of arguments cannot be read")
    return tuple(steps)


_NOTHING = object()


def _value(piece: Mapping[str, Any]) -> Any:
    if "nullValue" in piece:
        return None
    return next((piece[key] for key in _VALUES if piece.get(key) is not None), _NOTHING)
