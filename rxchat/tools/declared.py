"""
`@tool`: a typed function, sync or async, that a model may call.

What reads annotations and checks values is imported by the functions that do so: a model that is given no tools waits for none of it.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Generic, ParamSpec, TypeVar, overload

import attrs

from rxchat.errors import ConfigurationError
from rxchat.prompt import ToolSpec

if TYPE_CHECKING:
    from jsonschema.protocols import Validator

    from rxchat.tools.permission import Authorize

__all__ = ["Tool", "tool"]

P = ParamSpec("P")
R = TypeVar("R")


@attrs.frozen(eq=False, slots=False)
class Tool(Generic[P, R]):
    """
    Something that can be run, and what a model is told of it. Called directly, it is the function it was made of.

    `hints` are the types its arguments are made into (those without one stay JSON), `context` the parameter that takes a ToolContext. `timeout` is in
    seconds; `authorize` is asked before each run, beside the policy's own hook. `unbound`: a method that still wants its instance.
    """

    function: Callable[P, R]
    spec: ToolSpec
    hints: Mapping[str, Any] = attrs.field(factory=dict, repr=False)
    context: str | None = attrs.field(default=None, repr=False)
    timeout: float | None = None
    return_direct: bool = False
    authorize: Authorize | None = attrs.field(default=None, repr=False)
    unbound: bool = False

    def __attrs_post_init__(self) -> None:
        if self.timeout is not None and not self.timeout > 0:
            raise ConfigurationError(f"tool {self.spec.name}: timeout is a number of seconds above 0, not {self.timeout!r}")
        for name in functools.WRAPPER_ASSIGNMENTS:
            if name != "__annotations__" and hasattr(self.function, name):
                object.__setattr__(self, name, getattr(self.function, name))
        object.__setattr__(self, "__wrapped__", self.function)

    @property
    def name(self) -> str:
        """
        The name the model calls it by.
        """
        return self.spec.name

    @property
    def free_form(self) -> bool:
        """
        Whether it takes a text instead of arguments (contract P3).
        """
        return self.spec.kind == "custom"

    @functools.cached_property
    def validator(self) -> Validator:
        """
        What checks arguments against the schema, Draft 2020-12 unless the schema names another. Nothing is ever fetched for it.

        ConfigurationError if the schema is none.
        """
        from jsonschema import Draft202012Validator
        from jsonschema.exceptions import SchemaError
        from jsonschema.validators import validator_for
        from referencing import Registry

        schema = dict(self.spec.parameters)
        kind = validator_for(schema, default=Draft202012Validator)
        try:
            kind.check_schema(schema)
        except SchemaError as error:
            raise ConfigurationError(f"the schema of tool {self.name} is no JSON Schema: {error.message}") from error
        made: Validator = kind(schema, registry=Registry())
        return made

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        return self.function(*args, **kwargs)

    def __get__(self, instance: object, owner: type | None = None) -> Tool[..., R]:
        if not self.unbound or instance is None:
            return self
        bound: Any = self.function
        return attrs.evolve(self, function=bound.__get__(instance, owner), unbound=False)


@overload
def tool(function: Callable[P, R], /) -> Tool[P, R]: ...


@overload
def tool(
    function: Callable[P, R],
    /,
    *,
    name: str | None = None,
    description: str | None = None,
    strict: bool | None = None,
    timeout: float | None = None,
    return_direct: bool = False,
    authorize: Authorize | None = None,
    free_form: bool = False,
) -> Tool[P, R]: ...


@overload
def tool(
    *,
    name: str | None = None,
    description: str | None = None,
    strict: bool | None = None,
    timeout: float | None = None,
    return_direct: bool = False,
    authorize: Authorize | None = None,
    free_form: bool = False,
) -> Callable[[Callable[P, R]], Tool[P, R]]: ...


def tool(
    function: Callable[..., Any] | None = None,
    /,
    *,
    name: str | None = None,
    description: str | None = None,
    strict: bool | None = None,
    timeout: float | None = None,
    return_direct: bool = False,
    authorize: Authorize | None = None,
    free_form: bool = False,
) -> Any:
    """
    Make a tool of a typed function, a method, or an object that can be called.

    Name, description and schema come from the signature and the docstring. `timeout` bounds a run, in seconds; `return_direct` makes the result the answer;
    `authorize` is asked before each run (see `Authorize`); `free_form` takes one text instead of arguments. ConfigurationError, naming the parameter, for a
    signature that no model could fill.
    """
    if function is None:
        return functools.partial(
            tool,
            name=name,
            description=description,
            strict=strict,
            timeout=timeout,
            return_direct=return_direct,
            authorize=authorize,
            free_form=free_form,
        )
    if not callable(function):
        raise ConfigurationError(f"a tool is made of a function, not of {type(function).__name__}")
    if isinstance(function, Tool):
        raise ConfigurationError(f"{function.name} is a tool already")
    from rxchat.toolschema import tool_signature

    method = _is_method(function)
    signature = tool_signature(function, name=name, description=description, strict=strict, method=method)
    spec = _free_form(signature.spec, signature.hints) if free_form else signature.spec
    _check(spec.name, function, signature.hints)
    return Tool(function, spec, signature.hints, signature.context, timeout, return_direct, authorize, method)


def _is_method(function: Callable[..., Any]) -> bool:
    """
    Whether this stands in a class body: then its first parameter, which nobody annotates, is the instance or the class.
    """
    holder = getattr(function, "__qualname__", "").rpartition(".")[0]
    if not inspect.isfunction(function) or not holder or holder.endswith("<locals>"):
        return False
    first = next(iter(inspect.signature(function).parameters.values()), None)
    return first is not None and first.annotation is first.empty and first.name in ("self", "cls")


def _free_form(spec: ToolSpec, hints: Mapping[str, Any]) -> ToolSpec:
    if list(hints.values()) != [str]:
        raise ConfigurationError(f"tool {spec.name} is free-form, so it takes one parameter, a str, not {', '.join(hints) or 'none'}")
    return ToolSpec(spec.name, spec.description, strict=spec.strict, kind="custom")


def _check(name: str, function: Callable[..., Any], hints: Mapping[str, Any]) -> None:
    if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
        raise ConfigurationError(f"tool {name} yields; a tool returns its result")
    from rxchat.toolschema.structuring import check_hint

    for parameter, hint in hints.items():
        try:
            check_hint(hint)
        except ConfigurationError as error:
            raise ConfigurationError(f"tool {name}: parameter {parameter}: {error.message}") from error
