"""
A typed function as a tool: its parameters, the schema they make, and what the docstring says about them.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping
from typing import Any, get_type_hints

import attrs

from rxchat.errors import ConfigurationError
from rxchat.prompt import ToolSpec
from rxchat.response import ToolCall
from rxchat.toolschema.docstrings import parameter_docs, summary
from rxchat.toolschema.hints import Definitions, UnsupportedHint

__all__ = ["ToolContext", "ToolSignature", "tool_signature", "tool_spec"]


@attrs.frozen
class ToolContext:
    """
    What a tool may want to know about its call. A parameter annotated with this class is filled in when the tool runs, and is not part of its schema.
    """

    call: ToolCall
    step: int = 0
    response_id: str | None = None


@attrs.frozen
class ToolSignature:
    """
    A function as a tool: what a model is told, the types of its parameters, and the name of the one that takes a ToolContext.
    """

    spec: ToolSpec
    hints: Mapping[str, Any]
    context: str | None = None


def tool_spec(function: Callable[..., Any], *, name: str | None = None, description: str | None = None, strict: bool | None = None) -> ToolSpec:
    """
    The tool a typed function is: its name, the first paragraph of its docstring, and the schema of its parameters. Something that was made a tool already
    keeps what it said of itself in `spec`.

    Descriptions of parameters are read from a docstring in Google's, numpy's or Sphinx's style. ConfigurationError for a parameter without an annotation,
    for *args, **kwargs and positional-only ones, and for a type no schema can say.
    """
    made = getattr(function, "spec", None)
    if isinstance(made, ToolSpec):
        said: dict[str, Any] = {"name": name, "description": description, "strict": strict}
        return attrs.evolve(made, **{field: value for field, value in said.items() if value is not None})
    return tool_signature(function, name=name, description=description, strict=strict).spec


def tool_signature(
    function: Callable[..., Any], *, name: str | None = None, description: str | None = None, strict: bool | None = None, method: bool = False
) -> ToolSignature:
    """
    As `tool_spec`, with what is needed to call it; `method` leaves out the first parameter, which the instance will fill.
    """
    label = name or _name(function)
    docs = inspect.getdoc(function if inspect.isroutine(function) or isinstance(function, functools.partial) else type(function)) or ""
    docs = inspect.getdoc(function.func) or "" if isinstance(function, functools.partial) else docs
    found = _parameters(function, label, method)
    context = [param.name for param, hint in found if hint is ToolContext]
    if len(context) > 1:
        raise ConfigurationError(f"tool {label}: parameters {' and '.join(context)} both take the context")
    schema = _schema(label, [(param, hint) for param, hint in found if hint is not ToolContext], parameter_docs(docs))
    spec = ToolSpec(label, description if description is not None else summary(docs), schema, strict)
    return ToolSignature(spec, {param.name: hint for param, hint in found if hint is not ToolContext}, *context)


def _schema(label: str, found: list[tuple[inspect.Parameter, Any]], about: Mapping[str, str]) -> dict[str, Any]:
    defs = Definitions()
    parts: list[dict[str, Any]] = []
    for param, hint in found:
        try:
            parts.append(defs.object(iter([(param.name, hint, param.default)]), about))
        except UnsupportedHint as error:
            raise ConfigurationError(f"tool {label}: parameter {param.name}: {error}") from error
    whole = defs.object(iter([]))
    for part in parts:
        whole["properties"] |= part["properties"]
        whole["required"] += part["required"]
    return defs.complete(whole)


def _name(function: Callable[..., Any]) -> str:
    inner = function.func if isinstance(function, functools.partial) else function
    name: str = getattr(inner, "__name__", type(inner).__name__)
    if name == "<lambda>":
        raise ConfigurationError("a lambda has neither a name nor annotations, so it cannot be a tool")
    return name


def _parameters(function: Callable[..., Any], label: str, method: bool) -> list[tuple[inspect.Parameter, Any]]:
    hints = _hints(function, label)
    params = list(inspect.signature(function).parameters.values())
    found = []
    for param in params[1:] if method else params:
        if param.kind not in (param.POSITIONAL_OR_KEYWORD, param.KEYWORD_ONLY):
            raise ConfigurationError(f"tool {label}: parameter {param.name} cannot be given by name")
        if param.name not in hints:
            raise ConfigurationError(f"tool {label}: parameter {param.name} has no type annotation")
        found.append((param, hints[param.name]))
    return found


def _hints(function: Callable[..., Any], label: str) -> Mapping[str, Any]:
    inner = function.func if isinstance(function, functools.partial) else function
    if not inspect.isroutine(inner) and not inspect.isclass(inner):
        inner = type(inner).__call__
    try:
        # A return annotation says nothing to a model, and is often a name only the type checker knows.
        inner = inspect.unwrap(inner)
        own = {name: hint for name, hint in getattr(inner, "__annotations__", {}).items() if name != "return"}
        bare = functools.wraps(inner, updated=())(lambda: None)
        bare.__annotations__ = own
        return get_type_hints(bare, globalns=getattr(inner, "__globals__", None), include_extras=True)
    except NameError as error:
        raise ConfigurationError(f"tool {label}: {error}") from error
