"""
JSON answers while they grow.

    model.stream(prompt, response_format=json_schema(Recipe)).pipe(partial_json()).subscribe(lambda preview: show(preview.value))

A Preview is for the eyes: it may still change, and what it shows may turn out to be wrong; the value to keep comes from `structured`. Read is the text or the
arguments of tool calls, of choice 0 (contract P13), as strictly as everywhere: JSON in a Markdown fence or behind a sentence is refused.
"""

from __future__ import annotations

from typing import Any, Literal, TypeAlias

import attrs

from rxchat.errors import InvalidJSONError
from rxchat.events import (
    Event,
    ResponseStart,
    StepEnd,
    StepStart,
    TextDelta,
    ToolCallArgsDelta,
    ToolCallEnd,
    ToolCallStart,
)
from rxchat.growingjson import GrowingJson
from rxchat.limits import Limits
from rxchat.operators import Operator, lift
from rxchat.response import ToolCall
from rxchat.stage import Emit, Stage

__all__ = ["Preview", "PreviewSource", "partial_json"]

EVERY_CALL = "*"


@attrs.frozen
class PreviewSource:
    """
    What a preview shows: the text of a step, or the arguments of one call of it.
    """

    kind: Literal["text", "call"] = "text"
    step: int = 0
    call_id: str | None = None
    name: str | None = None
    index: int | None = None


@attrs.frozen(eq=False, repr=False)
class Preview:
    """
    A JSON value as far as it had come after one delta. Not an answer: only `complete` ones are whole, and only a response's verdict says what may be kept.

    Making one costs nothing that depends on the size of the value: `value` and `at` build it when asked, anew each time, so that nobody can change what
    others see, and what this preview shows stays the same while the text goes on. Sample before you look: `ops.sample(0.1)` passes the last one, too.
    """

    source: PreviewSource
    complete: bool
    _document: GrowingJson = attrs.field(alias="document")
    _delta: int = attrs.field(alias="delta")

    @property
    def value(self) -> Any:
        """
        All of it, as plain dicts, lists and scalars. Time and memory grow with its size.
        """
        return self._document.at((), self._delta)

    def at(self, *path: str | int, default: Any = None) -> Any:
        """
        Only what is at `path` (keys, and indices, which may count from the end); `default` if that has not come. Costs what is there, not what is around it.
        """
        try:
            return self._document.at(path, self._delta)
        except KeyError:
            return default

    def __repr__(self) -> str:
        return f"Preview({self.source}, complete={self.complete})"


class _Document:
    """
    One growing text and what was shown of it.
    """

    __slots__ = ("_json", "source")

    def __init__(self, source: PreviewSource, depth: int) -> None:
        self.source = source
        self._json = GrowingJson(depth)

    @property
    def begun(self) -> bool:
        return self._json.delta > 0

    def feed(self, text: str, emit: Emit[Preview]) -> None:
        """
        A preview if the piece changed what is to be seen; what came before a fault is shown before it is raised (contract E10).
        """
        try:
            self._json.feed(text)
        except InvalidJSONError:
            self._show(emit)
            raise
        self._show(emit)

    def _show(self, emit: Emit[Preview]) -> None:
        if self._json.changed:
            emit(Preview(self.source, False, self._json, self._json.delta))

    def finish(self, emit: Emit[Preview]) -> None:
        self._json.finish()
        emit(Preview(self.source, True, self._json, self._json.delta))


class _TextPreviews(Stage[Event, Preview]):
    """
    The text of choice 0, step by step.
    """

    def __init__(self, limits: Limits) -> None:
        self._depth = limits.json_depth
        self._begin(0)

    def _begin(self, step: int) -> None:
        self._text = _Document(PreviewSource("text", step), self._depth)

    def feed(self, item: Event, emit: Emit[Preview]) -> None:
        if isinstance(item, TextDelta):
            if item.choice == 0:
                self._text.feed(item.text, emit)
        elif isinstance(item, StepStart):
            self._begin(item.step)
        elif isinstance(item, ResponseStart):
            self._begin(0)
        elif isinstance(item, StepEnd) and self._text.begun and item.response.verdict is None and item.response.finish_reason.complete:
            self._text.finish(emit)


_CallKey: TypeAlias = int | str


class _CallPreviews(Stage[Event, Preview]):
    """
    The arguments of the calls of one name, or of all, of choice 0.
    """

    def __init__(self, name: str, limits: Limits) -> None:
        self._name = name
        self._depth = limits.json_depth
        self._step = 0
        self._calls: dict[_CallKey, _Document] = {}

    def feed(self, item: Event, emit: Emit[Preview]) -> None:
        if isinstance(item, ToolCallArgsDelta):
            call = self._calls.get(_key(item)) if item.choice == 0 else None
            if call is not None:
                call.feed(item.text, emit)
        elif isinstance(item, ToolCallStart):
            if item.choice == 0 and item.kind == "function" and self._asked(item.name):
                self._calls[_key(item)] = self._document(item.call_id, item.name, item.index)
        elif isinstance(item, ToolCallEnd):
            if item.choice == 0:
                self._end(item.tool_call, self._calls.pop(_key(item), None), emit)
        elif isinstance(item, StepStart | ResponseStart):
            self._step = item.step if isinstance(item, StepStart) else 0
            self._calls.clear()

    def _asked(self, name: str) -> bool:
        return self._name in (EVERY_CALL, name)

    def _document(self, call_id: str, name: str, index: int | None) -> _Document:
        return _Document(PreviewSource("call", self._step, call_id, name, index), self._depth)

    def _end(self, call: ToolCall, known: _Document | None, emit: Emit[Preview]) -> None:
        """
        A call that came whole, or is named only now, is shown once; one without arguments has `{}` (contract P3).
        """
        if not call.complete or call.kind != "function" or not self._asked(call.name):
            return
        if known is None or not known.begun:
            known = self._document(call.id, call.name, call.index)
            known.feed(call.arguments_text or "{}", lambda _: None)
        known.source = attrs.evolve(known.source, call_id=call.id, name=call.name)
        known.finish(emit)


def _key(event: ToolCallStart | ToolCallArgsDelta | ToolCallEnd) -> _CallKey:
    return event.call_id if event.index is None else event.index


def partial_json(*, call: str | None = None, limits: Limits | None = None) -> Operator[Event, Preview]:
    """
    A Preview for each delta that changes what there is to see, and one marked `complete` where the step or the call ended well.

    Reads the text of each step, or with `call` the arguments of the tool calls of that name (`"*"`: of every call; `source` tells them apart). Work is
    linear in the number of characters, however small the deltas are. InvalidJSONError, with the byte offset in that text, as soon as it can never become
    strict JSON; what ends too early (a cut, a failure, a length) just has no complete preview.
    """
    bounds = limits or Limits()
    return lift(lambda: _TextPreviews(bounds) if call is None else _CallPreviews(call, bounds))
