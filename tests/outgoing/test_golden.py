"""
What we send, compared with what the official SDKs send for the same logical requests.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from fnmatch import fnmatchcase
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlsplit

import pytest

from rxchat.outgoing.common import WireRequest
from tests.outgoing.logical import KEY, model_call

GOLDEN = Path(__file__).parent / "golden"
RECORDED = [(path.parent.name, path.stem) for path in sorted(GOLDEN.glob("*/*.json"))]


class _Absent:
    def __repr__(self) -> str:
        return "absent"


ABSENT = _Absent()
ANY = object()


class Difference(NamedTuple):
    """
    A difference that is meant: where (case and path may hold `*`), what we say, what the SDK says, why.
    """

    dialect: str
    case: str
    path: str
    ours: Any
    theirs: Any
    reason: str


SPELLINGS = (
    ("includeThoughts", "include_thoughts"),
    ("thinkingBudget", "thinking_budget"),
    ("thinkingLevel", "thinking_level"),
    ("parametersJsonSchema", "parameters_json_schema"),
    ("mimeType", "mime_type"),
    ("fileUri", "file_uri"),
)
DIFFERENCES = (
    # Headers ------------------------------------------------------------------------------------------------------------------------------------
    *(
        Difference(dialect, "*", "headers.accept", ABSENT, ANY, "the answer is judged by its content type, whatever was asked for")
        for dialect in (
            "openai-chat",
            "openai-responses",
            "anthropic",
            "gemini",
            "gemini-interactions",
            "ollama",
            "cohere",
            "mistral",
            "bedrock-invoke",
        )
    ),
    Difference("anthropic", "*", "headers.anthropic-version", "2023-06-01", "2026-10-21", "the version that takes sampling options and older models"),
    Difference("anthropic", "*", "headers.x-api-key", "[key]", ABSENT, "the header that version documents"),
    Difference("anthropic", "*", "headers.authorization", ABSENT, "Bearer [key]", "the key goes into x-api-key"),
    Difference("dashscope", "*", "headers.content-type", "application/json", "application/json; charset=utf-8", "JSON is UTF-8"),
    Difference("dashscope", "whole", "headers.accept", "application/json", "application/json; charset=utf-8", "JSON is UTF-8"),
    # Bodies -------------------------------------------------------------------------------------------------------------------------------------
    Difference("bedrock-invoke", "*", "path", ANY, ANY, "the colon of a model's name is escaped, as the AWS SDK does it"),
    Difference(
        "bedrock-invoke", "*", "body.anthropic_version", "bedrock-2023-05-31", "2026-10-21", "the models that are invoked so take no later one"
    ),
    Difference("dashscope", "cumulative", "body.parameters.incremental_output", False, True, "the SDK asks for pieces and joins them itself"),
    Difference("gemini", "*", "body.generationConfig", ABSENT, {}, "an empty object says nothing"),
    *(
        row
        for ours, theirs in SPELLINGS
        for row in (
            Difference("gemini", "*", f"body.*.{ours}", ANY, ABSENT, "the documented name of the field"),
            Difference("gemini", "*", f"body.*.{theirs}", ABSENT, ANY, "its other spelling, which the service reads as well"),
        )
    ),
    Difference("mistral", "*", "body.messages.*.prefix", ABSENT, False, "the default"),
    Difference("mistral", "*", "body.messages.*.tool_calls.*.index", ABSENT, 0, "the SDK's default, the same for every call"),
    Difference("mistral", "whole", "body.stream", ABSENT, False, "the default"),
    Difference("ollama", "*", "body.tools", ABSENT, [], "no tools"),
    Difference(
        "ollama", "*", "body.tools.*.function.parameters.additionalProperties", False, ABSENT, "the SDK's type forgets it; the server reads it"
    ),
)


def load(dialect: str, case: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((GOLDEN / dialect / f"{case}.json").read_text())
    return found


def ours(dialect: str, case: str) -> dict[str, Any]:
    """
    Our request in the form of a golden file.
    """
    build = import_module(f"rxchat.outgoing.{dialect.replace('-', '_')}").build
    wire: WireRequest = build(model_call(dialect, case))
    url = urlsplit(wire.url)
    headers = {name.lower(): value.replace(KEY, "[key]") for name, value in wire.headers.items()}
    if wire.auth == "sigv4":
        headers["authorization"] = "AWS4-HMAC-SHA256"
    path = f"{url.path}?{url.query}" if url.query else url.path
    return {"method": wire.method, "path": path, "headers": headers, "body": json.loads(wire.content)}


def differences(mine: Any, other: Any, path: str = "") -> Iterator[tuple[str, Any, Any]]:
    """
    Where two JSON values differ: path, mine, other.
    """
    if isinstance(mine, dict) and isinstance(other, dict):
        for key in sorted({*mine, *other}):
            yield from differences(mine.get(key, ABSENT), other.get(key, ABSENT), f"{path}.{key}".lstrip("."))
    elif isinstance(mine, list) and isinstance(other, list) and len(mine) == len(other):
        for index, pair in enumerate(zip(mine, other, strict=True)):
            yield from differences(*pair, f"{path}.{index}")
    elif (type(mine) is not type(other) and not (isinstance(mine, int | float) and isinstance(other, int | float))) or mine != other:
        yield path, mine, other


def meant(row: Difference, dialect: str, case: str, path: str, mine: Any, other: Any) -> bool:
    return (
        row.dialect == dialect
        and fnmatchcase(case, row.case)
        and fnmatchcase(path, row.path)
        and (row.ours is ANY or row.ours == mine)
        and (row.theirs is ANY or row.theirs == other)
    )


@pytest.mark.parametrize("dialect, case", RECORDED)
def test_requests_equal_the_sdk(dialect: str, case: str) -> None:
    """
    Method, path, headers and body are the SDK's, but for what the table names.
    """
    found = list(differences(ours(dialect, case), load(dialect, case)))
    assert [] == [one for one in found if not any(meant(row, dialect, case, *one) for row in DIFFERENCES)]


def test_every_meant_difference_is_there() -> None:
    """
    No row of the table is left over.
    """
    found = [(dialect, case, *one) for dialect, case in RECORDED for one in differences(ours(dialect, case), load(dialect, case))]
    assert [] == [row for row in DIFFERENCES if not any(meant(row, *one) for one in found)]


@pytest.mark.parametrize("case", [case for dialect, case in RECORDED if dialect == "gemini"])
def test_other_spellings_hold_the_same(case: str) -> None:
    """
    A field under its other name has the same value.
    """
    names = {theirs: ours for ours, theirs in SPELLINGS}

    def renamed(value: Any) -> Any:
        if isinstance(value, dict):
            return {names.get(key, key): renamed(inner) for key, inner in value.items()}
        return [renamed(inner) for inner in value] if isinstance(value, list) else value

    mine, other = ours("gemini", case)["body"], renamed(load("gemini", case)["body"])
    assert {"generationConfig": {}} | mine == {"generationConfig": {}} | other


def test_arguments_and_signatures_keep_their_text() -> None:
    """
    Where arguments travel as text, they go back as they came.
    """
    calls = ours("openai-chat", "results")["body"]["messages"][1]["tool_calls"]
    assert ['{"city":"Paris","days":2}', '{"city":"Rome"}'] == [call["function"]["arguments"] for call in calls]


def test_all_dialects_are_recorded() -> None:
    """
    Eleven protocols, each with text, a whole answer, tools, results, thinking and media.
    """
    named = {dialect for dialect, _ in RECORDED}
    assert 11 == len(named)
    assert [] == [
        (dialect, case) for dialect in named for case in ("text", "whole", "image", "tools", "results", "thinking") if (dialect, case) not in RECORDED
    ]
