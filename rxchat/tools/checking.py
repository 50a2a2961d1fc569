"""
What keeps a call from being run (contract T2, P3, P10), each said so that the model can do better: cause, and where.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import attrs
from jsonschema.exceptions import ValidationError, best_match

from rxchat import strictjson
from rxchat.errors import InvalidJSONError
from rxchat.response import FinishReason, ToolCall
from rxchat.tools.declared import Tool
from rxchat.tools.outcomes import ToolFailure

__all__ = ["Refusal", "at", "costly", "misfit", "refusal_of"]

# The model wrote what is wrong and need not read all of it again.
_LONGEST = 300
_MOST = 5

# Characters of arguments that a schema of our own reads in no time; some keywords take the square of it.
_SHORT = 1024


@attrs.frozen
class Refusal:
    """
    Why a call is not run, in a word and in a sentence.
    """

    failure: ToolFailure
    text: str
    error: BaseException | None = attrs.field(default=None, eq=False)


def refusal_of(tool: Tool[..., object], call: ToolCall, finish: FinishReason) -> Refusal | None:
    """
    The first thing that stands against running this call, None if nothing does; the schema is asked by `misfit`.
    """
    for check in (_run_there, _not_whole, _not_finished, _wrong_kind):
        refusal = check(tool, call, finish)
        if refusal is not None:
            return refusal
    return None if tool.free_form else _not_json(call)


def _run_there(tool: Tool[..., object], call: ToolCall, finish: FinishReason) -> Refusal | None:
    return Refusal(ToolFailure.SERVER_EXECUTED, f"the provider ran {call.name} itself, so it was not run again") if call.server_executed else None


def _not_whole(tool: Tool[..., object], call: ToolCall, finish: FinishReason) -> Refusal | None:
    if call.complete:
        return None
    size = len(call.arguments_text)
    return Refusal(ToolFailure.INCOMPLETE, f"the call of {call.name} was cut off after {size} characters of arguments, so it was not run")


def _not_finished(tool: Tool[..., object], call: ToolCall, finish: FinishReason) -> Refusal | None:
    if finish.complete:
        return None
    return Refusal(ToolFailure.FINISH, f"the answer ended with {finish.value!r}, so the call of {call.name} was not run")


def _wrong_kind(tool: Tool[..., object], call: ToolCall, finish: FinishReason) -> Refusal | None:
    if tool.free_form == (call.kind == "custom"):
        return None
    takes, given = ("free-form text", "arguments") if tool.free_form else ("arguments", "free-form text")
    return Refusal(ToolFailure.KIND, f"{call.name} takes {takes}, not {given}, so it was not run")


def _not_json(call: ToolCall) -> Refusal | None:
    """
    Only what the fold has read counts; the text of a whole call is read again merely to say what is wrong with it.
    """
    if call.arguments is not None:
        return None
    try:
        value = strictjson.loads(call.arguments_text)
        problem, error = f"they are a JSON {_KINDS.get(type(value), 'object')}, not an object, at the root", None
    except InvalidJSONError as fault:
        problem, error = f"{fault.message}, at byte {fault.offset}", fault
    return Refusal(ToolFailure.INVALID_JSON, f"the arguments of {call.name} are not one strict JSON object: {problem}", error)


_KINDS = {list: "array", str: "string", int: "number", float: "number", bool: "boolean", type(None): "null"}


def costly(tool: Tool[..., object], call: ToolCall) -> bool:
    """
    Whether `misfit` may take long: for long arguments, or by a schema that was not made of the tool's own annotations and holds another.
    """
    foreign = not tool.hints and any(isinstance(value, (Mapping, list)) and value for value in tool.spec.parameters.values())
    return not tool.free_form and (foreign or len(call.arguments_text) > _SHORT)


def misfit(tool: Tool[..., object], call: ToolCall) -> Refusal | None:
    """
    What the schema says against the arguments of a call that `refusal_of` has nothing against.
    """
    if tool.free_form:
        return None
    try:
        faults = list(tool.validator.iter_errors(call.arguments))
    except Exception as error:  # a schema that refers to nowhere or to itself, a pattern that is none
        text = f"the arguments of {call.name} cannot be checked, because the schema of the tool is faulty"
        return Refusal(ToolFailure.INVALID_ARGUMENTS, text, error)
    if not faults:
        return None
    text = f"the arguments of {call.name} do not fit its schema: {'; '.join(_sentences(faults))}"
    return Refusal(ToolFailure.INVALID_ARGUMENTS, text, faults[0])


def _sentences(faults: Iterable[ValidationError]) -> list[str]:
    told = [f"{at(_pointer(fault))}: {_short(fault.message)}" for fault in (best_match([fault]) for fault in faults) if fault is not None]
    return told[:_MOST] + ([f"and {len(told) - _MOST} more"] if len(told) > _MOST else [])


def at(pointer: str) -> str:
    """
    Where something is wrong, by its JSON pointer.
    """
    return f"at {pointer}" if pointer else "at the root"


def _pointer(fault: ValidationError) -> str:
    return "".join("/" + str(step).replace("~", "~0").replace("/", "~1") for step in fault.absolute_path)


def _short(text: str) -> str:
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST // 2]} ... {text[-_LONGEST // 2 :]}"
