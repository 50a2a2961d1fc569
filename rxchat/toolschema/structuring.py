"""
JSON that fits a type's schema, made a value of that type by cattrs; and values of a tool's own types, made JSON.

A member of a union is chosen by schema: the first that the value fits and that can be made of it.
"""

from __future__ import annotations

import datetime
import decimal
import types
import typing
import uuid
from collections import abc
from collections.abc import Callable
from typing import Annotated, Any, Union, get_args, get_origin, get_type_hints

import msgspec
from cattrs import Converter
from cattrs.errors import BaseValidationError, StructureHandlerNotFoundError
from cattrs.preconf.json import make_converter
from jsonschema import Draft202012Validator
from referencing import Registry

from rxchat.errors import ConfigurationError
from rxchat.toolschema.hints import UnsupportedHint, bare_hint, type_schema

__all__ = ["StructureError", "check_hint", "structure", "unstructure"]

# msgspec says how these look in JSON, so it reads and writes them.
_TEXTS = (bytes, datetime.datetime, datetime.date, datetime.time, datetime.timedelta, uuid.UUID, decimal.Decimal)


class StructureError(ValueError):
    """
    A value cannot be made of its JSON; `pointer` is the JSON pointer of what is wrong.
    """

    def __init__(self, message: str, pointer: str) -> None:
        super().__init__(message)
        self.pointer = pointer


def structure(value: Any, hint: Any, pointer: str = "") -> Any:
    """
    The value of type `hint` that this JSON stands for; StructureError if there is none.
    """
    try:
        return _converter.structure(value, hint)
    except Exception as error:  # of constructors and validators, too: whatever they raise says that the value is not wanted
        raise _located(error, pointer) from error


def unstructure(value: Any) -> Any:
    """
    The nearest to plain JSON; what is unknown stays as it is.
    """
    return _converter.unstructure(value)


def check_hint(hint: Any) -> None:
    """
    ConfigurationError if no value of this type could be made.
    """
    try:
        _converter.get_structure_hook(hint)
    except (StructureHandlerNotFoundError, UnsupportedHint, NameError, TypeError) as error:
        raise ConfigurationError(f"{hint}: {error}") from error


def _located(error: BaseException, pointer: str) -> StructureError:
    """
    The first of nested errors, and where it is.
    """
    while isinstance(error, BaseValidationError):
        inner = error.exceptions[0]
        note = next((note for note in getattr(inner, "__notes__", ()) if hasattr(note, "name") or hasattr(note, "index")), None)
        if note is not None:
            step = str(getattr(note, "name", getattr(note, "index", "")))
            pointer += "/" + step.replace("~", "~0").replace("/", "~1")
        error = inner
    pointer += error.pointer if isinstance(error, StructureError) else ""
    return StructureError(str(error) or type(error).__name__, pointer)


def _is_union(hint: Any) -> bool:
    return get_origin(hint) in (Union, types.UnionType)


def _is_annotated_union(hint: Any) -> bool:
    return get_origin(hint) is Annotated and _is_union(get_args(hint)[0])


def _union_hook(hint: Any, converter: Converter) -> Callable[[Any, Any], Any]:
    members = get_args(hint)
    fits = {member: Draft202012Validator(type_schema(member), registry=Registry()).is_valid for member in members}
    plain = {member for member in members if member in (int, float, bool)}

    def read(value: Any, _: Any) -> Any:
        if value is None or type(value) in plain:
            return value
        fault: Exception | None = None
        for member in members:
            if fits[member](value):
                try:
                    return converter.structure(value, member)
                except Exception as error:
                    fault = fault or error
        raise fault or ValueError("fits none of the types allowed here")

    return read


def _is_struct(hint: Any) -> bool:
    return isinstance(hint, type) and issubclass(hint, msgspec.Struct)


def _as_is(hint: Any) -> bool:
    return hint is Any or hint is object


def _is_iterable(hint: Any) -> bool:
    return (get_origin(hint) or hint) in (abc.Iterable, abc.Collection)


def _iterable_hook(hint: Any, converter: Converter) -> Callable[[Any, Any], Any]:
    kind: Any = list[get_args(hint) or (Any,)]  # type: ignore[misc]
    return lambda value, _: converter.structure(value, kind)


def _typed_dict_hook(hint: Any, converter: Converter) -> Callable[[Any, Any], Any]:
    # Where annotations are texts, the class itself does not know which of its keys are required.
    hints = {name: bare_hint(inner) for name, inner in get_type_hints(hint, include_extras=True).items()}
    return lambda value, _: {name: structure(item, hints[name], f"/{name}") for name, item in value.items()}


def _is_named_tuple(hint: Any) -> bool:
    return isinstance(hint, type) and issubclass(hint, tuple) and hasattr(hint, "_fields")


def _named_tuple_hook(hint: Any, converter: Converter) -> Callable[[Any, Any], Any]:
    hints = get_type_hints(hint, include_extras=True)
    kinds = [hints.get(name, Any) for name in hint._fields]
    return lambda value, _: hint(*(structure(item, kind, f"/{at}") for at, (item, kind) in enumerate(zip(value, kinds, strict=False))))


def _text_hook(hint: Any) -> Callable[[Any, Any], Any]:
    return lambda value, _: msgspec.convert(value, hint)


def _made_converter() -> Converter:
    converter = make_converter()
    for hint in _TEXTS:
        converter.register_structure_hook(hint, _text_hook(hint))
        converter.register_unstructure_hook(hint, msgspec.to_builtins)
    converter.register_structure_hook_factory(_is_union, _union_hook)
    converter.register_structure_hook_factory(_is_annotated_union, lambda hint, own: _union_hook(get_args(hint)[0], own))
    converter.register_structure_hook_func(_is_struct, lambda value, hint: msgspec.convert(value, hint))
    converter.register_unstructure_hook_func(_is_struct, msgspec.to_builtins)
    converter.register_structure_hook_factory(_is_iterable, _iterable_hook)
    converter.register_structure_hook_factory(typing.is_typeddict, _typed_dict_hook)
    converter.register_structure_hook_factory(_is_named_tuple, _named_tuple_hook)
    converter.register_unstructure_hook_func(_is_named_tuple, lambda value: [converter.unstructure(item) for item in value])
    converter.register_structure_hook_func(_as_is, lambda value, _: value)
    return converter


_converter = _made_converter()
