"""
The JSON Schema (Draft 2020-12) of a type annotation.

Objects are closed: a key nobody declared is refused, at every level. Classes stand in `$defs`, once each, so they may be recursive. msgspec says what its own
Structs look like; everything else is a table here, because unions of classes, or of a date and a text, are more than it takes.
"""

from __future__ import annotations

import collections
import dataclasses
import datetime
import decimal
import enum
import inspect
import types
import typing
import uuid
from collections import abc
from collections.abc import Callable, Iterator, Mapping
from typing import Annotated, Any, Literal, NotRequired, Required, Union, get_args, get_origin, get_type_hints

import attrs
import msgspec

from rxchat.toolschema.docstrings import parameter_docs, summary

__all__ = ["UnsupportedHint", "bare_hint", "default_schema", "type_schema"]

Schema = dict[str, Any]


class UnsupportedHint(TypeError):
    """
    An annotation no schema can say.
    """


def type_schema(hint: Any) -> Schema:
    """
    The schema of one type, `$defs` inside; UnsupportedHint for what has none.
    """
    defs = Definitions()
    return defs.complete(defs.schema(hint))


_LEAVES: Mapping[Any, Schema] = {
    Any: {},
    object: {},
    inspect.Parameter.empty: {},
    None: {"type": "null"},
    type(None): {"type": "null"},
    str: {"type": "string"},
    bool: {"type": "boolean"},
    int: {"type": "integer"},
    float: {"type": "number"},
    bytes: {"type": "string", "contentEncoding": "base64"},
    datetime.datetime: {"type": "string", "format": "date-time"},
    datetime.date: {"type": "string", "format": "date"},
    datetime.time: {"type": "string", "format": "time"},
    datetime.timedelta: {"type": "string", "format": "duration"},
    uuid.UUID: {"type": "string", "format": "uuid"},
    decimal.Decimal: {"type": "string", "format": "decimal"},
}
_LISTS = (list, collections.deque, abc.Sequence, abc.MutableSequence, abc.Collection, abc.Iterable)
_SETS = (set, frozenset, abc.Set, abc.MutableSet)
_DICTS = (dict, collections.OrderedDict, abc.Mapping, abc.MutableMapping)

# By the names msgspec.Meta and the annotated_types package share: a number's bounds, a length's by what it is a length of.
_BOUNDS = {"ge": "minimum", "gt": "exclusiveMinimum", "le": "maximum", "lt": "exclusiveMaximum", "multiple_of": "multipleOf", "pattern": "pattern"}
_LENGTHS = {"string": "Length", "array": "Items", "object": "Properties"}


class Definitions:
    """
    The classes met on the way, each with its name and its schema.
    """

    def __init__(self) -> None:
        self._names: dict[Any, str] = {}
        self._schemas: dict[str, Schema] = {}

    def complete(self, schema: Schema) -> Schema:
        """
        The schema with all it refers to.
        """
        return schema | ({"$defs": self._schemas} if self._schemas else {})

    def schema(self, hint: Any) -> Schema:
        """
        The schema of one type, classes as references.
        """
        if isinstance(hint, abc.Hashable) and hint in _LEAVES:
            return dict(_LEAVES[hint])
        if hint in (*_LISTS, *_SETS, *_DICTS, tuple):
            return self._container(hint, ())
        for applies, write in _KINDS:
            if applies(hint):
                return write(self, hint)
        raise UnsupportedHint(f"{getattr(hint, '__qualname__', hint)} has no JSON Schema")

    # Kinds of hints -------------------------------------------------------------------------------------------------------------------------

    def _annotated(self, hint: Any) -> Schema:
        inner, *notes = get_args(hint)
        schema = self.schema(inner)
        for note in notes:
            schema |= _note(note, schema)
        return schema

    def _union(self, hint: Any) -> Schema:
        return {"anyOf": [self.schema(member) for member in get_args(hint)]}

    def _literal(self, hint: Any) -> Schema:
        return {"enum": [value.value if isinstance(value, enum.Enum) else value for value in get_args(hint)]}

    def _named(self, hint: Any) -> Schema:
        return self.schema(getattr(hint, "__supertype__", None) or hint.__value__)

    def _generic(self, hint: Any) -> Schema:
        args = get_args(hint)
        return {"type": "array", "minItems": 0, "maxItems": 0} if get_origin(hint) is tuple and not args else self._container(get_origin(hint), args)

    def _container(self, kind: Any, args: tuple[Any, ...]) -> Schema:
        if kind in _DICTS:
            keys, values = args or (str, Any)
            return {"type": "object"} | self._if_said("propertyNames", keys) | self._if_said("additionalProperties", values)
        if kind is tuple and args and args[-1] is not Ellipsis:
            fixed = [self.schema(arg) for arg in args]
            return {"type": "array", "minItems": len(fixed), "maxItems": len(fixed), "prefixItems": fixed, "items": False}
        if kind in _LISTS or kind in _SETS or kind is tuple:
            return {"type": "array"} | self._if_said("items", args[0] if args else Any) | ({"uniqueItems": True} if kind in _SETS else {})
        raise UnsupportedHint(f"{kind} has no JSON Schema")

    def _if_said(self, word: str, hint: Any) -> Schema:
        # A key is always a text; only what a text must look like is worth saying.
        if word == "propertyNames":
            if hint is int:
                return {word: {"pattern": "^-?[0-9]+$"}}
            schema = self.schema(hint)
            return {} if schema == {"type": "string"} or not schema else {word: schema}
        schema = self.schema(hint)
        return {word: schema} if schema else {}

    # Classes --------------------------------------------------------------------------------------------------------------------------------

    def _class(self, hint: Any) -> Schema:
        if hint not in self._names:
            base = name = hint.__name__
            count = 1
            while name in self._schemas:
                count += 1
                name = f"{base}_{count}"
            self._names[hint] = name
            self._schemas[name] = {}  # the name is taken before the fields are looked at, which may lead back here
            write = next(write for applies, write in _CLASSES if applies(hint))
            self._schemas[name] |= write(self, hint) | _described(hint)
        return {"$ref": f"#/$defs/{self._names[hint]}"}

    def _enum(self, hint: Any) -> Schema:
        values = [member.value for member in hint]
        if not all(isinstance(value, str | int | float | bool | None) for value in values):
            raise UnsupportedHint(f"the values of {hint.__name__} have no JSON")
        return {"enum": values}

    def _fields(self, hint: Any) -> Schema:
        hints = _hints_of(hint)
        return self.object(((name, hints.get(name, Any), default) for name, default in _defaults_of(hint)), _about(hint))

    def _typed_dict(self, hint: Any) -> Schema:
        fields = ((name, bare_hint(inner), _said_default(hint, name, inner)) for name, inner in _hints_of(hint).items())
        return self.object(fields, _about(hint))

    def _named_tuple(self, hint: Any) -> Schema:
        hints = _hints_of(hint)
        items = [self.schema(hints.get(name, Any)) for name in hint._fields]
        return {"type": "array", "prefixItems": items, "minItems": len(items) - len(hint._field_defaults), "maxItems": len(items)}

    def _struct(self, hint: Any) -> Schema:
        try:
            (schema,), parts = msgspec.json.schema_components([hint], ref_template="#/$defs/{name}")
        except TypeError as error:
            raise UnsupportedHint(str(error)) from error
        own = parts.pop(schema["$ref"].rpartition("/")[2])
        self._schemas |= parts
        return dict(own) | {"additionalProperties": False}

    def object(self, fields: Iterator[tuple[str, Any, Any]], about: Mapping[str, str] | None = None) -> Schema:
        """
        A closed object of fields (name, type, default); a default that is empty makes the field required, `...` is one that is not told.
        """
        properties: Schema = {}
        required = []
        for name, hint, default in fields:
            properties[name] = self.schema(hint) | default_schema(default)
            if default is inspect.Parameter.empty:
                required.append(name)
            if about and name in about:
                properties[name].setdefault("description", about[name])
        return {"type": "object", "properties": properties, "required": required, "additionalProperties": False}


def default_schema(value: Any) -> Schema:
    """
    The word about a default, where there is one that JSON can say.
    """
    if value is inspect.Parameter.empty or value is ...:
        return {}
    try:
        return {"default": msgspec.to_builtins(value)}
    except TypeError:
        return {}


def _note(note: Any, schema: Schema) -> Schema:
    if isinstance(note, str):
        return {"description": note}
    said = {word: getattr(note, name) for name, word in _BOUNDS.items() if getattr(note, name, None) is not None}
    length = _LENGTHS.get(schema.get("type", ""))
    for side in ("min", "max"):
        bound = getattr(note, f"{side}_length", None)
        if bound is not None and length:
            said[side + length] = bound
    if isinstance(note, msgspec.Meta):
        said |= {word: value for word in ("title", "description", "examples") if (value := getattr(note, word)) is not None}
        said |= note.extra_json_schema or {}
    return said


def _described(hint: Any) -> Schema:
    docs = hint.__doc__ or ""
    automatic = docs.startswith((f"{hint.__name__}(", "Method generated by attrs", "dict(", "An enumeration"))
    text = "" if automatic or (issubclass(hint, enum.Enum) and not docs) else summary(inspect.cleandoc(docs))
    return {"description": text} if text else {}


def _hints_of(hint: Any) -> dict[str, Any]:
    try:
        return get_type_hints(hint, include_extras=True)
    except NameError as error:
        raise UnsupportedHint(f"{hint.__name__}: {error}") from error


def _defaults_of(hint: Any) -> Iterator[tuple[str, Any]]:
    """
    The fields that are given to the constructor, with their default (`...`: made by a factory).
    """
    if attrs.has(hint):
        for field in attrs.fields(hint):
            if field.init:
                default = field.default
                yield field.name, inspect.Parameter.empty if default is attrs.NOTHING else ... if isinstance(default, attrs.Factory) else default  # type: ignore[arg-type]
        return
    for entry in dataclasses.fields(hint):
        if entry.init:
            made = entry.default_factory is not dataclasses.MISSING
            yield entry.name, ... if made else inspect.Parameter.empty if entry.default is dataclasses.MISSING else entry.default


def _said_default(hint: Any, name: str, inner: Any) -> Any:
    # Where annotations are texts, __required_keys__ does not see a Required or NotRequired.
    required = get_origin(inner) is Required or (get_origin(inner) is not NotRequired and name in hint.__required_keys__)
    return inspect.Parameter.empty if required else ...


def _about(hint: Any) -> dict[str, str]:
    return parameter_docs(inspect.cleandoc(hint.__doc__ or ""))


def bare_hint(hint: Any) -> Any:
    """
    What a key of a TypedDict holds, required or not.
    """
    return get_args(hint)[0] if get_origin(hint) in (Required, NotRequired) else hint


def _is_class(*checks: Callable[[Any], Any]) -> Callable[[Any], bool]:
    return lambda hint: isinstance(hint, type) and get_origin(hint) is None and any(check(hint) for check in checks)


_CLASSES: tuple[tuple[Callable[[Any], Any], Callable[[Definitions, Any], Schema]], ...] = (
    (lambda hint: issubclass(hint, enum.Enum), Definitions._enum),
    (lambda hint: issubclass(hint, msgspec.Struct), Definitions._struct),
    (typing.is_typeddict, Definitions._typed_dict),
    (lambda hint: issubclass(hint, tuple) and hasattr(hint, "_field_defaults"), Definitions._named_tuple),
    (lambda hint: attrs.has(hint) or dataclasses.is_dataclass(hint), Definitions._fields),
)

_KINDS: tuple[tuple[Callable[[Any], bool], Callable[[Definitions, Any], Schema]], ...] = (
    (lambda hint: get_origin(hint) is Annotated, Definitions._annotated),
    (lambda hint: get_origin(hint) in (Union, types.UnionType), Definitions._union),
    (lambda hint: get_origin(hint) is Literal, Definitions._literal),
    (lambda hint: hasattr(hint, "__supertype__") or (hasattr(hint, "__value__") and not isinstance(hint, type)), Definitions._named),
    (_is_class(*(applies for applies, _ in _CLASSES)), Definitions._class),
    (lambda hint: get_origin(hint) is not None, Definitions._generic),
)
