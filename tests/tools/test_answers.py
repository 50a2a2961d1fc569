"""
What a tool returns, as it goes to the model.
"""

from __future__ import annotations

import base64
import datetime
import enum
from collections import namedtuple
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import attrs
import msgspec
import pytest

from rxchat import serialize
from rxchat.errors import ProtocolError
from rxchat.events import ToolResult
from rxchat.outgoing.anthropic import build as anthropic
from rxchat.outgoing.bedrock_converse import build as bedrock_converse
from rxchat.outgoing.cohere import build as cohere
from rxchat.outgoing.common import ModelCall, WireRequest
from rxchat.outgoing.dashscope import build as dashscope
from rxchat.outgoing.gemini import build as gemini
from rxchat.outgoing.gemini_interactions import build as gemini_interactions
from rxchat.outgoing.mistral import build as mistral
from rxchat.outgoing.ollama import build as ollama
from rxchat.outgoing.openai_chat import build as openai_chat
from rxchat.outgoing.openai_responses import build as openai_responses
from rxchat.prompt import Message, file, image
from rxchat.response import ChatResponse, MediaPart, TextPart, ToolCall, ToolResultPart
from rxchat.serialize import response_from_dict, response_to_dict
from rxchat.strictjson import dumps as dumps_json
from rxchat.strictjson import loads as loads_json
from rxchat.tools.answers import UnsendableResult, as_result

PNG = b"\x89PNG\r\n\x1a\n0000"
PNG_PART = MediaPart("image", "image/png", data=base64.b64encode(PNG).decode())


@attrs.frozen
class Place:
    city: str
    seen: datetime.date


@dataclass
class Count:
    n: Decimal


class Box(msgspec.Struct):
    width: int


class Colour(enum.Enum):
    RED = "r"


class Loud(str):
    """
    A text of another class.
    """


Pair = namedtuple("Pair", "a b")
DAY = datetime.date(2026, 1, 2)

RESULTS: list[tuple[Any, Any]] = [
    ("text", "text"),
    (Loud("text"), "text"),
    ("", ""),
    (None, None),
    (3, 3),
    (1.5, 1.5),
    (True, True),
    ({"a": [1, None]}, {"a": [1, None]}),
    ((1, 2), [1, 2]),
    ({3}, [3]),
    ({1: "a"}, {"1": "a"}),
    ([], []),
    (Place("Rome", DAY), {"city": "Rome", "seen": "2026-01-02"}),
    ([Place("Rome", DAY)], [{"city": "Rome", "seen": "2026-01-02"}]),
    (Count(Decimal("1.50")), {"n": "1.50"}),
    (Box(3), {"width": 3}),
    ({"c": Colour.RED}, {"c": "r"}),
    (Pair(1, DAY), [1, "2026-01-02"]),
    (datetime.timedelta(seconds=5), "PT5S"),
    (PNG, [PNG_PART]),
    (bytearray(PNG), [PNG_PART]),
    (b"\xff\xd8\xff0", [MediaPart("image", "image/jpeg", data="/9j/MA==")]),
    (b"RIFF0000WEBP", [MediaPart("image", "image/webp", data=base64.b64encode(b"RIFF0000WEBP").decode())]),
    (image(PNG, "image/png"), [PNG_PART]),
    (TextPart("a"), [TextPart("a")]),
    (["see:", PNG_PART, {"n": 1}], [TextPart("see:"), PNG_PART, TextPart('{"n":1}')]),
    (("see:", [PNG_PART, "end"], PNG), [TextPart("see:"), PNG_PART, TextPart("end"), PNG_PART]),
]


@pytest.mark.parametrize(("value", "expected"), RESULTS, ids=[f"{n}-{type(row[0]).__name__}" for n, row in enumerate(RESULTS)])
def test_results(value: Any, expected: Any) -> None:
    """
    Text stays text, parts and images become a list of parts, everything else plain JSON.
    """
    result = as_result(value)
    assert (expected, type(expected)) == (result, type(result))


def nested(depth: int) -> Any:
    """
    A list in a list ...
    """
    value: Any = []
    for _ in range(depth):
        value = [value]
    return value


@pytest.mark.parametrize(
    ("value", "word"),
    [
        (b"abc", "media type"),
        (object(), "object"),
        (float("nan"), "float"),
        ({"a": float("inf")}, "dict"),
        ("a\ud800", "lone surrogate at 1"),
        (["\ud800"], "list"),
        (nested(200), "list"),
        (nested(100_000), "list"),
        (lambda: 0, "function"),
        ({"a": {(1, 2): 3}}, "dict"),
    ],
    ids=range(10),
)
def test_what_cannot_be_sent(value: Any, word: str) -> None:
    """
    It is named, and nothing else is sent in its place.
    """
    with pytest.raises(UnsendableResult, match=word):
        as_result(value)


def asked(build: Callable[[ModelCall], WireRequest], result: Any) -> Any:
    """
    The request that carries this result.
    """
    call = ToolCall("c", "look", "{}", {}, True)
    return build(ModelCall("m", (Message.user("look"), Message.assistant(call), Message.tool(call, result)), "https://localhost")).body


WORDS = f"see:[image image/png, {len(PNG)} bytes, which cannot be shown here]"


@pytest.mark.parametrize(
    ("build", "shown"),
    [
        (anthropic, {"type": "image"}),
        (openai_responses, {"type": "input_image"}),
        (gemini, {"inlineData": {"data": PNG_PART.data, "mimeType": "image/png"}}),
        (gemini_interactions, {"type": "image"}),
        (bedrock_converse, {"image": {"format": "png", "source": {"bytes": PNG_PART.data}}}),
    ],
)
def test_media_in_results_where_the_wire_has_them(build: Any, shown: dict[str, Any]) -> None:
    """
    The image goes as it is, the text beside it.
    """
    body = asked(build, as_result(["see:", PNG]))
    found = list(objects(body))
    assert any(shown.items() <= one.items() for one in found)
    assert any("see:" in one.values() for one in found)


def objects(value: Any) -> Iterator[dict[str, Any]]:
    """
    All objects in a body.
    """
    if isinstance(value, dict):
        yield value
    for inner in value.values() if isinstance(value, dict) else value if isinstance(value, (list, tuple)) else ():
        yield from objects(inner)


@pytest.mark.parametrize("build", [openai_chat, mistral, cohere, dashscope, ollama])
def test_media_in_results_where_the_wire_has_only_text(build: Any) -> None:
    """
    The model is told what it cannot be shown; nothing breaks, and nothing is dropped in silence.
    """
    assert any(WORDS in one.values() for one in objects(asked(build, as_result(["see:", PNG]))))
    linked = [file("https://localhost/a.pdf", "application/pdf")]
    assert any("[file application/pdf: https://localhost/a.pdf]" in one.values() for one in objects(asked(build, linked)))


def test_a_gemini_result_of_texts() -> None:
    """
    Parts that are only text are a text.
    """
    body = asked(gemini, [TextPart("a"), TextPart("b")])
    assert {"name": "look", "id": "c", "response": {"result": "ab"}} in list(objects(body))


@pytest.mark.parametrize("result", [as_result(["see:", PNG]), [{"part": "text", "text": "a"}], "text", None, [1]])
def test_results_in_stored_answers_and_events(result: Any) -> None:
    """
    They read back as what they were: parts as parts, and JSON that looks like parts as JSON.
    """
    answer = ChatResponse((ToolResultPart("c", result, True),))
    assert answer == response_from_dict(loads_json(dumps_json(response_to_dict(answer))))
    event = ToolResult("c", result)
    assert event == serialize.loads(serialize.dumps(event))


def test_parts_that_are_none() -> None:
    """
    Something else in their place is malformed.
    """
    with pytest.raises(ProtocolError, match="result_parts"):
        serialize.from_dict({"type": "TOOL_RESULT", "call_id": "c", "result_parts": {}})
