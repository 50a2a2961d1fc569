"""
The JSON Schema of a typed function, so that it can be offered to a model as a tool. msgspec makes the schema; attrs classes, dataclasses, TypedDicts, Literal,
Optional and containers are its types.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Mapping
from typing import Annotated, Any, get_type_hints

import msgspec

from rxchat.errors import ConfigurationError
from rxchat.prompt import ToolSpec

__all__ = ["tool_spec"]


def tool_spec(function: Callable[..., Any], *, name: str | None = None, description: str | None = None, strict: bool | None = None) -> ToolSpec:
    """
    The tool a typed function is: its name, the first paragraph of its docstring, and the schema of its parameters.

    Descriptions of parameters are read from a docstring's `name: text` lines (Args section, or `:param name: text`). ConfigurationError for a parameter without
    an annotation, for *args, **kwargs and positional-only ones, and for a type no schema can say.
    """
    label = name or function.__name__
    docs = inspect.getdoc(function) or ""
    about = {param: text for pair in _PARAM.findall(docs) for param, text in [(pair[0] or pair[2], pair[1] or pair[3])]}
    fields = [_field(label, param, hint, about.get(param.name)) for param, hint in _parameters(function, label)]
    try:
        _, components = msgspec.json.schema_components([msgspec.defstruct(label, fields, kw_only=True)], ref_template="#/$defs/{name}")
    except TypeError as error:
        raise ConfigurationError(f"tool {label}: {error}") from error
    schema = dict(components.pop(label))
    schema.pop("title", None)
    schema.setdefault("required", [])
    schema["additionalProperties"] = False
    if components:
        schema["$defs"] = components
    return ToolSpec(label, description if description is not None else docs.split("\n\n")[0].replace("\n", " ").strip(), schema, strict)


# `name: text` or `name (type): text` indented below a heading, and Sphinx's `:param name: text`.
_PARAM = re.compile(r"^(?:[ \t]+(\w+)(?: \([^)]*\))?:[ \t]+(.+)|:param (?:\w+ )?(\w+):[ \t]*(.+))$", re.MULTILINE)


def _parameters(function: Callable[..., Any], label: str) -> list[tuple[inspect.Parameter, Any]]:
    try:
        hints: Mapping[str, Any] = get_type_hints(function, include_extras=True)
    except NameError as error:
        raise ConfigurationError(f"tool {label}: {error}") from error
    found = []
    for param in inspect.signature(function).parameters.values():
        if param.kind not in (param.POSITIONAL_OR_KEYWORD, param.KEYWORD_ONLY):
            raise ConfigurationError(f"tool {label}: parameter {param.name} cannot be given by name")
        if param.name not in hints:
            raise ConfigurationError(f"tool {label}: parameter {param.name} has no type annotation")
        found.append((param, hints[param.name]))
    return found


def _field(label: str, param: inspect.Parameter, hint: Any, about: str | None) -> Any:
    if about:
        hint = Annotated[hint, msgspec.Meta(description=about.strip())]
    return (param.name, hint) if param.default is param.empty else (param.name, hint, _default(param.default))


def _default(value: Any) -> Any:
    # A mutable default is only there for the schema; msgspec wants a factory for it.
    return msgspec.field(default_factory=lambda: value) if isinstance(value, (list, dict, set)) else value
