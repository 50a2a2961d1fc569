"""
JSON answers while they grow, and as typed values once they are whole.

    model.stream(prompt, response_format=json_schema(Recipe)).pipe(partial_json()).subscribe(lambda preview: show(preview.value))
    recipe = await model.stream(prompt, response_format=json_schema(Recipe)).pipe(structured(Recipe))

A Preview is for the eyes: it may still change, and what it shows may turn out to be wrong. A typed value is made of a complete answer and of nothing else:
not of one that was cut, refused, filtered, aborted or stopped by length (contract V4, V6). Both read either the answer's text or the arguments of tool calls,
of choice 0 (contract P13), and both are strict: JSON in a Markdown fence or behind a sentence is refused.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any, Literal, TypeAlias, TypeVar, get_args

import attrs
from jsonschema import Draft202012Validator
from jsonschema.exceptions import best_match
from reactivex import compose
from referencing import Registry

from rxchat.errors import ConfigurationError, IncompleteFinishError, InvalidJSONError, RxchatError
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
from rxchat.projections import aggregate
from rxchat.prompt import JsonSchema
from rxchat.response import ChatResponse, ToolCall
from rxchat.stage import Emit, Stage
from rxchat.strictjson import loads
from rxchat.toolschema import type_schema
from rxchat.toolschema.structuring import check_hint, structure

__all__ = ["MismatchError", "Preview", "PreviewSource", "json_schema", "partial_json", "structured"]

T = TypeVar("T")

EVERY_CALL = "*"


# --- previews -------------------------------------------------------------------------------------------------------------------------------------


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


# --- typed values ---------------------------------------------------------------------------------------------------------------------------------


class MismatchError(InvalidJSONError):
    """
    Strict JSON, but not of the type asked for. `problems` name each path in the value (`$.items[0].price`) and what is wrong there, never a value.
    """

    def __init__(self, message: str, problems: Sequence[str] = ()) -> None:
        super().__init__("; ".join((message, *problems)), None, "structure")
        self.problems = tuple(problems)


class _Maker:
    """
    Values of one type, made of JSON that fits its schema.
    """

    def __init__(self, kind: Any) -> None:
        self._kind = kind
        self._validator = Draft202012Validator(_schema(kind), registry=Registry())
        check_hint(kind)

    def __call__(self, value: Any) -> Any:
        faults = sorted(self._validator.iter_errors(value), key=lambda fault: fault.json_path)
        if faults:
            raise MismatchError(f"not of the type {_label(self._kind)}", [_worded(best_match([fault])) for fault in faults])
        try:
            return structure(value, self._kind)
        except ValueError as error:  # of the constructor or a validator of the type, mostly
            cause = _root(error)
            raise MismatchError(f"not of the type {_label(self._kind)}", [f"{_path(error)}: {type(cause).__name__}"]) from cause


def _worded(fault: Any) -> str:
    """
    Where and what of a fault; its own message would quote the value.
    """
    asked = fault.validator_value
    if fault.validator == "required":
        return f"{fault.json_path}: lacks {', '.join(name for name in asked if name not in fault.instance)}"
    word = _FAULTS.get(fault.validator, "does not fit")
    return f"{fault.json_path}: {word} {asked}" if type(asked) in (str, int, float) else f"{fault.json_path}: {word}"


_FAULTS = {
    "additionalProperties": "has fields the type does not have",
    "anyOf": "fits none of the types allowed",
    "enum": "is none of the values allowed",
    "exclusiveMaximum": "is not below",
    "exclusiveMinimum": "is not above",
    "items": "has too many items",
    "maximum": "is above",
    "maxItems": "has more items than",
    "maxLength": "is longer than",
    "minimum": "is below",
    "minItems": "has fewer items than",
    "minLength": "is shorter than",
    "type": "is no",
    "uniqueItems": "has an item twice",
}


def _root(error: BaseException) -> BaseException:
    """
    What was raised first, out of chains and groups.
    """
    while inner := getattr(error, "exceptions", None) or error.__cause__:
        error = inner if isinstance(inner, BaseException) else inner[0]
    return error


def _path(error: ValueError) -> str:
    """
    A JSON pointer in the words of the others.
    """
    steps = str(getattr(error, "pointer", "")).split("/")[1:]
    return "$" + "".join(f"[{step}]" if step.isdigit() else f".{step}" for step in steps)


def _label(kind: Any) -> str:
    """
    The type without the modules its parts come from.
    """
    return kind.__name__ if isinstance(kind, type) and not get_args(kind) else re.sub(r"\b(?:\w+\.)+(?=\w)", "", str(kind))


def _schema(kind: Any) -> dict[str, Any]:
    try:
        return type_schema(kind)
    except TypeError as error:
        raise ConfigurationError(f"there is no JSON Schema of {_label(kind)}: {error}") from error


class _Structured(Stage[ChatResponse, Any]):
    """
    The typed value of a complete answer.
    """

    def __init__(self, made: Callable[[Any], Any], call: str | None, depth: int) -> None:
        self._made = made
        self._call = call
        self._depth = depth

    def feed(self, item: ChatResponse, emit: Emit[Any]) -> None:
        try:
            item.raise_for_verdict()
            if item.refusal:
                raise IncompleteFinishError("the answer is a refusal")
            made = [self._made(loads(text, depth=self._depth)) for text in self._texts(item)]
        except RxchatError as error:
            error.response = item
            raise
        for value in made:
            emit(value)

    def _texts(self, response: ChatResponse) -> list[str]:
        if self._call is None:
            return [(response.steps or (response,))[-1].text]
        calls = [call for call in response.tool_calls if call.name == self._call and call.complete and not call.server_executed]
        if not calls:
            raise MismatchError(f"the answer has no complete call of {self._call}")
        return [call.arguments_text or "{}" for call in calls]


def structured(kind: type[T], *, call: str | None = None, limits: Limits | None = None) -> Operator[Event, T]:
    """
    The answer as an instance of a type (attrs class, dataclass, TypedDict, msgspec struct, unions and containers of them), when the response ends.

    Made of the text of the last step, or with `call` of the arguments of each complete call of that name, in order: all of them or none. The value must fit the
    type's JSON Schema: `true` is no number, and fields the type does not have are refused.

    on_error instead, the response on it: IncompleteFinishError or AbortedError naming the verdict of an answer that is not complete, InvalidJSONError with
    the byte offset in the text, MismatchError with the paths in the value; what the stream failed with, if it did. ConfigurationError at once for a type that
    has no JSON.
    """
    made = _Maker(kind)
    depth = (limits or Limits()).json_depth
    return compose(aggregate(), lift(lambda: _Structured(made, call, depth)))


def json_schema(kind: Any, *, name: str | None = None, description: str | None = None, strict: bool | None = None) -> JsonSchema:
    """
    A type as the form of an answer, for `response_format`; `structured(kind)` reads it.

    `strict` asks the provider to enforce it; then every field is required and none has a default, as they want it. Most providers want a class at the top, not
    a union or a list. ConfigurationError for a type that has no JSON.
    """
    schema = _unreferred(_schema(kind))
    label = name or re.sub(r"[^A-Za-z0-9_-]+", "_", _label(kind)).strip("_")[:64] or "answer"
    return JsonSchema(_enforced(schema) if strict else schema, label, description, strict)


def _unreferred(schema: dict[str, Any]) -> dict[str, Any]:
    """
    An object at the top, not a reference to one; its definition stays where something refers to it.
    """
    defs = dict(schema.get("$defs", {}))
    reference = schema.get("$ref")
    if reference is None:
        return schema
    top = defs[reference.removeprefix("#/$defs/")]
    if repr(reference) not in repr(defs):
        del defs[reference.removeprefix("#/$defs/")]
    return {**top, **({"$defs": defs} if defs else {})}


def _enforced(schema: Any) -> Any:
    if isinstance(schema, list):
        return [_enforced(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    made = {word: _enforced_word(word, value) for word, value in schema.items() if word != "default"}
    return made | ({"required": list(made["properties"])} if "properties" in made else {})


def _enforced_word(word: str, value: Any) -> Any:
    if word in ("properties", "$defs"):
        return {name: _enforced(inner) for name, inner in value.items()}
    return value if word in ("enum", "examples") else _enforced(value)
