"""
Events and answers as plain dicts and JSON, and back: for logs, gateways, tests (contract section 2).

An event is `{"v": 1, "type": "TEXT_DELTA", "text": "Hi"}`: the version of this format, the tag, and the fields that are not at their default. The parts of
an answer carry their tag as `part`; those a tool answered with stand under `result_parts`. Reading is tolerant of what a later version may add and strict
with what it knows:

- an unknown tag reads back as Custom(tag, the other fields), an unknown part as ProviderItemPart(tag, the object), and is written again as it came;
- unknown fields of known things are ignored; a missing `v` or a higher one is no fault;
- anything known that is malformed is a ProtocolError naming the field, text that is not strict JSON an InvalidJSONError.

Errors are written as class name, verdict and what was said about the failure; headers, bodies and the provider's raw object are never written. The partial
answer of an error is written once, on its event. `span` is no field and not written (see `EventRecord`).

Values that JSON has no word for (a tool's result may hold anything) are written as text, bytes as base64; reading them back gives that text.
"""

from __future__ import annotations

import base64
import inspect
from collections.abc import Callable, Mapping
from enum import Enum
from typing import Any, TypeVar, get_args, get_origin

import attrs
from cattrs import Converter, transform_error
from cattrs.errors import BaseValidationError
from cattrs.gen import make_dict_structure_fn, make_dict_unstructure_fn, override

from rxchat import errors, strictjson
from rxchat.errors import ProtocolError, RxchatError, Verdict
from rxchat.events import EVENT_TYPES, ChatEvent, Custom, ErrorEvent, ToolResult
from rxchat.prompt import Role
from rxchat.response import ChatResponse, FinishReason, Part, ProviderItemPart, ToolResultPart

__all__ = [
    "VERSION",
    "dumps",
    "error_from_dict",
    "error_to_dict",
    "from_dict",
    "is_foreign",
    "loads",
    "read_json",
    "response_from_dict",
    "response_to_dict",
    "to_dict",
    "value_from_dict",
    "value_to_dict",
    "write_json",
]

VERSION = 1

T = TypeVar("T")

# A payload may be nested as deeply as the wire allows (128); the answer around it adds its own levels.
_DEPTH = 160


# --- events ---------------------------------------------------------------------------------------------------------------------------------------


def to_dict(event: ChatEvent, *, responses: bool = True) -> dict[str, Any]:
    """
    An event as a plain dict; `responses=False` leaves out the answer that rides on StepEnd and the terminals, to keep logs small.
    """
    write = (_WHOLE if responses else _SHORT)[type(event)]
    return {"v": VERSION, "type": event.type, **_with_parts(write(event), event)}


def from_dict(data: Mapping[str, Any]) -> ChatEvent:
    """
    The event a dict stands for; ProtocolError if it is malformed.
    """
    tag = _tag(data, "type")
    cls = EVENT_TYPES.get(tag)
    if cls is None:
        return Custom(tag, {name: value for name, value in data.items() if name not in ("v", "type")})
    event: ChatEvent = _read(_without_parts(data, cls), cls, tag)
    if type(event) is ErrorEvent:
        event.error.response = event.response
    return event


def dumps(event: ChatEvent, *, responses: bool = True) -> str:
    """
    An event as one line of compact JSON.
    """
    return _json(to_dict(event, responses=responses))


def loads(text: str | bytes) -> ChatEvent:
    """
    The event a line of JSON stands for; InvalidJSONError, ProtocolError as the module says.
    """
    return from_dict(strictjson.loads(text, depth=_DEPTH))


# --- answers --------------------------------------------------------------------------------------------------------------------------------------


def response_to_dict(response: ChatResponse) -> dict[str, Any]:
    """
    An answer as a plain dict, its steps and alternatives inside.
    """
    written: dict[str, Any] = _converter.unstructure(response, ChatResponse)
    return {"v": VERSION, **written}


def response_from_dict(data: Mapping[str, Any]) -> ChatResponse:
    """
    The answer a dict stands for; ProtocolError if it is malformed.
    """
    return _read(data, ChatResponse, "response")


# --- what is made of answers: turns of a conversation -----------------------------------------------------------------------------------------------


def value_to_dict(value: Any) -> dict[str, Any]:
    """
    A value whose fields hold messages, parts and answers, as a plain dict without the version.
    """
    written: dict[str, Any] = _converter.unstructure(value)
    return written


def value_from_dict(data: Mapping[str, Any], cls: type[T]) -> T:
    """
    The value a dict stands for; ProtocolError if it is malformed.
    """
    return _read(data, cls, cls.__name__)


def write_json(value: dict[str, Any]) -> str:
    """
    Compact JSON of a dict that was written here; what JSON has no word for as text.
    """
    return _json(value)


def read_json(text: str | bytes) -> Any:
    """
    Strict JSON, as deep as an answer may be; InvalidJSONError.
    """
    return strictjson.loads(text, depth=_DEPTH)


def is_foreign(part: Part) -> bool:
    """
    Whether this part was written by a later version, and is only kept to be written again.
    """
    return isinstance(part, ProviderItemPart) and isinstance(part.raw, Mapping) and part.raw.get("part") == part.type and part.type not in _PARTS


# --- errors ---------------------------------------------------------------------------------------------------------------------------------------

_ERRORS: Mapping[str, type[RxchatError]] = {
    name: cls for name in errors.__all__ if isinstance(cls := getattr(errors, name), type) and issubclass(cls, RxchatError)
}
# Of several classes with one verdict the most general.
_BY_VERDICT = {cls.verdict: cls for cls in sorted(_ERRORS.values(), key=lambda cls: -len(cls.__mro__)) if cls.verdict is not None}

# What may be said about a failure beside its message: no headers, no bodies, nothing as it came. `error` and `verdict` tell the class.
_SAID: Mapping[str, tuple[type, ...]] = {
    "code": (str, int),
    "type": (str,),
    "status": (int,),
    "offset": (int,),
    "retry_after": (float, int),
    "request_id": (str,),
    "kind": (str,),
    "reason": (str,),
    "limit": (str,),
    "value": (int, float),
    "budget": (float, int),
    "content_type": (str,),
    "retryable": (bool,),
}


def error_to_dict(error: RxchatError) -> dict[str, Any]:
    """
    An error as a plain dict: class (the nearest of ours), verdict, message, and what was said about the failure.
    """
    known = next(cls for cls in type(error).__mro__ if cls.__name__ in _ERRORS and issubclass(cls, RxchatError))
    said = {name: value for name in _SAID if (value := getattr(error, name, None)) not in (None, getattr(known, name, None))}
    verdict = {"verdict": str(error.verdict)} if error.verdict is not None else {}
    return {"error": known.__name__, **verdict, "message": error.message, **said}


def error_from_dict(data: Mapping[str, Any]) -> RxchatError:
    """
    The error a dict stands for, of the same class; of an unknown class, the one with its verdict. ProtocolError if it is malformed.
    """
    name = _tag(data, "error")
    cls = _ERRORS.get(name) or next((cls for verdict, cls in _BY_VERDICT.items() if verdict == data.get("verdict")), RxchatError)
    message = data.get("message", "")
    if type(message) is not str:
        raise ProtocolError(f"error: {message!r} is no message")
    said = {field: value for field in _SAID if (value := data.get(field)) is not None}
    wrong = [field for field, value in said.items() if type(value) not in _SAID[field]]
    if wrong:
        raise ProtocolError(f"error: {said[wrong[0]]!r} is no {wrong[0]}")
    return _made(cls, message, said)


def _made(cls: type[RxchatError], message: str, said: Mapping[str, Any]) -> RxchatError:
    """
    An error through its own constructor, which takes some of the fields; the others are set behind it.
    """
    taken = [name for name in inspect.signature(cls.__init__).parameters if name in said]
    try:
        error = cls(**{name: said[name] for name in taken}) if cls is errors.LimitExceeded else cls(message, **{name: said[name] for name in taken})
    except TypeError as fault:
        raise ProtocolError(f"{cls.__name__}: {str(fault).split('() ')[-1]}") from None
    for name in said.keys() - taken:
        setattr(error, name, said[name])
    error.retryable = said.get("retryable", cls.retryable)
    return error


# --- the converter --------------------------------------------------------------------------------------------------------------------------------


def _tag(data: Any, name: str) -> str:
    tag = _object(data).get(name)
    if type(tag) is not str:
        raise ProtocolError(f"{tag!r} is no {name}")
    return tag


def _read(data: Mapping[str, Any], cls: type[T], what: str) -> T:
    try:
        return _converter.structure(data, cls)
    except BaseValidationError as fault:
        raise ProtocolError(f"{what}: {'; '.join(transform_error(fault, format_exception=_worded))}") from None


def _worded(fault: BaseException, _: type | None) -> str:
    return f"the field {fault} is missing" if isinstance(fault, KeyError) else str(fault)


def _take_scalar(value: Any, cls: type) -> Any:
    """
    These types as they are and nothing else: `true` is no number, 3 is no text.
    """
    if type(value) is not cls:
        raise ProtocolError(f"{type(value).__name__} instead of {cls.__name__}")
    return value


def _take_tuple(value: Any, cls: Any) -> Any:
    if type(value) not in (list, tuple):
        raise ProtocolError(f"{type(value).__name__} instead of list")
    return tuple(_converter.structure(item, get_args(cls)[0]) for item in value)


def _take_mapping(value: Any, cls: Any) -> Any:
    keys, values = get_args(cls)
    return {_converter.structure(key, keys): _converter.structure(item, values) for key, item in _object(value).items()}


def _object_hook(cls: type) -> Callable[[Any, Any], Any]:
    inner = make_dict_structure_fn(cls, _converter)  # type: ignore[var-annotated]
    return lambda value, kind: inner(_object(value), kind)


def _object(value: Any) -> Mapping[str, Any]:
    if not isinstance(value, Mapping):
        raise ProtocolError(f"{type(value).__name__} instead of an object")
    return value


_PARTS: Mapping[str, Any] = {getattr(cls, "tag", "tool_call"): cls for cls in get_args(Part)}
_PART_TAGS = {cls: tag for tag, cls in _PARTS.items()}


def _write_part(part: Part) -> dict[str, Any]:
    if isinstance(part, ProviderItemPart) and is_foreign(part):
        return dict(part.raw)
    return {"part": _PART_TAGS[type(part)], **_with_parts(_converter.unstructure(part), part)}


def _with_parts(written: dict[str, Any], value: Any) -> dict[str, Any]:
    """
    What a tool answered in parts stands under a name of its own, so that no JSON a tool returns is ever taken for parts.
    """
    result = value.result if type(value) in (ToolResult, ToolResultPart) else None
    if isinstance(result, list | tuple) and result and all(type(part) in _PART_TAGS for part in result):
        written.pop("result")
        written["result_parts"] = [_write_part(part) for part in result]
    return written


def _without_parts(data: Mapping[str, Any], cls: Any) -> Mapping[str, Any]:
    """
    The way back: `result` holds the parts.
    """
    if cls not in (ToolResult, ToolResultPart) or "result_parts" not in data:
        return data
    parts = data["result_parts"]
    if type(parts) is not list:
        raise ProtocolError(f"result_parts: {type(parts).__name__} instead of list")
    return {**data, "result": [_read_part(part, None) for part in parts]}


def _read_part(data: Any, _: Any) -> Part:
    tag = _tag(data, "part")
    cls = _PARTS.get(tag)
    if cls is None:
        return ProviderItemPart(tag, dict(data))
    part: Part = _converter.structure(_without_parts(data, cls), cls)
    return part


def _is_a(origin: Any) -> Callable[[Any], bool]:
    return lambda cls: get_origin(cls) is origin


def _made_converter() -> Converter:
    converter = Converter(omit_if_default=True)
    for scalar in (str, int, bool):
        converter.register_structure_hook(scalar, _take_scalar)
    for words in (FinishReason, Verdict, Role):  # each is a str, too
        converter.register_structure_hook(words, lambda value, cls: cls(value))
    converter.register_structure_hook_func(_is_a(tuple), _take_tuple)
    converter.register_structure_hook_func(_is_a(Mapping), _take_mapping)
    converter.register_structure_hook_factory(attrs.has, _object_hook)
    converter.register_structure_hook_func(lambda cls: cls == Part, _read_part)
    converter.register_unstructure_hook_func(lambda cls: cls == Part, _write_part)
    converter.register_structure_hook(RxchatError, lambda data, _: error_from_dict(data))
    converter.register_unstructure_hook(RxchatError, error_to_dict)
    return converter


_converter = _made_converter()


def _writers(*, responses: bool) -> Mapping[type, Callable[[Any], dict[str, Any]]]:
    def made(cls: Any) -> Callable[[Any], dict[str, Any]]:
        left_out = {"response": override(omit=True)} if not responses and "response" in attrs.fields_dict(cls) else {}
        return make_dict_unstructure_fn(cls, _converter, _cattrs_omit_if_default=True, **left_out)  # type: ignore[arg-type]

    return {cls: made(cls) for cls in EVENT_TYPES.values()}


_WHOLE = _writers(responses=True)
_SHORT = _writers(responses=False)


# --- JSON -----------------------------------------------------------------------------------------------------------------------------------------


def _json(value: dict[str, Any]) -> str:
    try:
        text = strictjson.dumps(value)
    except (ValueError, TypeError):
        text = strictjson.dumps(_plain(value))
    # A tool may answer with a lone surrogate, which no UTF-8 can carry.
    return text if text.isascii() else text.encode("utf-8", "replace").decode()


def _plain(value: Any) -> Any:
    """
    The nearest thing JSON can say.
    """
    if isinstance(value, Enum):
        return _plain(value.value)
    if value is None or isinstance(value, str | bool | int):
        return value
    if isinstance(value, float):
        return value if value - value == 0 else str(value)
    if isinstance(value, bytes | bytearray):
        return base64.b64encode(value).decode()
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [_plain(item) for item in value]
    return str(value)
