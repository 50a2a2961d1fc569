"""
JSON answers as values of a type, once they are whole.

    recipe = await model.stream(prompt, response_format=json_schema(Recipe)).pipe(structured(Recipe))

A typed value is made of a complete answer and of nothing else: not of one that was cut, refused, filtered, aborted or stopped by length (contract V4, V6). Read
is the text or the arguments of tool calls, of choice 0 (contract P13), strictly: JSON in a Markdown fence or behind a sentence is refused.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any, TypeVar, get_args

from jsonschema import Draft202012Validator
from jsonschema.exceptions import best_match
from reactivex import compose
from referencing import Registry

from rxchat.errors import ConfigurationError, IncompleteFinishError, InvalidJSONError, RxchatError
from rxchat.events import Event
from rxchat.limits import Limits
from rxchat.operators import Operator, lift
from rxchat.projections import aggregate
from rxchat.prompt import JsonSchema
from rxchat.response import ChatResponse
from rxchat.stage import Emit, Stage
from rxchat.strictjson import loads
from rxchat.toolschema import type_schema
from rxchat.toolschema.structuring import check_hint, structure

__all__ = ["MismatchError", "json_schema", "structured"]

T = TypeVar("T")


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
