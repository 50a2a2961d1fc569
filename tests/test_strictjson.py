"""
Strict JSON: what passes, what is refused, why and where.
"""

from __future__ import annotations

import json
import math
import random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rxchat.errors import InvalidJSONError, ProtocolError, Verdict
from rxchat.strictjson import JsonReader, dumps, loads
from tests.shared_data import EXHAUSTIVE
from tests.strategies import json_values

EMOJI = "🌱"


def nested(depth: int, kind: str = "[]") -> str:
    """
    A text of so many containers, each in the one before.
    """
    if kind == "[]":
        return "[" * depth + "]" * depth
    return '{"":' * (depth - 1) + "{}" + "}" * (depth - 1)


PASSING: list[tuple[str, Any]] = [
    ("{}", {}),
    (' \t\r\n{"a" : [ 1 , -2.5e-3 , "x" , true , false , null ] }\r\n', {"a": [1, -0.0025, "x", True, False, None]}),
    ("0", 0),
    ("-0", 0),
    ("9007199254740993", 9007199254740993),
    ("[18446744073709551616,-9223372036854775809]", [18446744073709551616, -9223372036854775809]),
    ("1" * 4300, int("1" * 4300)),
    ("1.7976931348623157e308", 1.7976931348623157e308),
    ("1e-999", 0.0),
    ('"\\u00e9\\/\\ud83c\\udf31"', "é/" + EMOJI),
    (f'{{"{EMOJI}":"{EMOJI}"}}', {EMOJI: EMOJI}),
    ('{"a":{"a":{"a":1}},"b":[{"a":1},{"a":2}]}', {"a": {"a": {"a": 1}}, "b": [{"a": 1}, {"a": 2}]}),
    ('"\u2028\u2029\u0085\x7f"', "\u2028\u2029\u0085\x7f"),
    ('"1e999 NaN [[[["', "1e999 NaN [[[["),
    ('{"a":-16,"b":[-16,1.5]}', {"a": -16, "b": [-16, 1.5]}),
    ('["' + "x" * 5000 + '",1.5]', ["x" * 5000, 1.5]),
    ("[" + "[]," * 500 + "[]]", [[]] * 501),
    ("[" + '{"":{}},' * 500 + "0]", [{"": {}}] * 500 + [0]),
]


@pytest.mark.parametrize("text, expected", PASSING)
def test_passes(text: str, expected: Any) -> None:
    """
    The value, integers and floats told apart, from bytes and from text.
    """
    assert (expected, repr(expected)) == (loads(text), repr(loads(text.encode())))


REFUSED: list[tuple[str | bytes, str, int]] = [
    ("", "empty", 0),
    (" \n\t ", "empty", 4),
    ("{} x", "trailing", 3),
    ("[1]]", "trailing", 3),
    ('{"a":1}\0', "trailing", 7),
    ("[DONE]", "syntax", 1),
    ('\n{\n"a":1,\n x}', "syntax", 11),
    ('{"a":1,}', "syntax", 7),
    ("{'a':1}", "syntax", 1),
    ('{"é":x}', "syntax", 6),
    ("\ufeff{}", "syntax", 0),
    ("[tru]", "syntax", 4),
    ("01", "syntax", 1),
    ("+1", "syntax", 0),
    # Ends too early: always at the very end.
    ("[1,", "syntax", 3),
    ('{"a":', "syntax", 5),
    ('{"é', "syntax", 4),
    ("tru", "syntax", 3),
    ("-", "syntax", 1),
    ("1e", "syntax", 2),
    ('"\\', "syntax", 2),
    ('"\\u12', "syntax", 5),
    ('"\\\\u12', "syntax", 6),
    ('"\\ud83c', "syntax", 7),
    ('"\\ud83c\\', "syntax", 8),
    ('"\\ud83c\\udf', "syntax", 11),
    # Strings.
    ('"\\u12"', "escape", 5),
    ('["\\u12"]', "escape", 6),
    ('"\\x41"', "escape", 2),
    ('"a\\\nb"', "escape", 3),
    ('"a\nb"', "control", 2),
    ('"a\0"', "control", 2),
    ('"é\x1f"', "control", 3),
    ('"a\\ud83c"', "surrogate", 2),
    ('"a\\ud83cx"', "surrogate", 2),
    ('"a\\ud83c\\ud83c\\udf31"', "surrogate", 8),
    ('"a\\udf31"', "surrogate", 2),
    ('{"\\udf31":1}', "surrogate", 2),
    ('"é\ud800"', "surrogate", 3),
    (b'"a\xff"', "utf8", 2),
    (b'"a\xed\xa0\x80"', "utf8", 2),
    (b'"a\xe4\xbd', "utf8", 2),
    (b"[\xff]", "utf8", 1),
    (b'[1 2] "\xff"', "syntax", 3),
    # Objects.
    ('{"a":1,"a":2}', "duplicate_key", 11),
    ('[{"x":{"a":1,"\\u0061":1}}]', "duplicate_key", 22),
    ('{"at line 9 column 9":1,\n"at line 9 column 9":2}', "duplicate_key", 46),
    # Numbers.
    ("NaN", "non_finite", 0),
    ("[1,Infinity]", "non_finite", 3),
    ('{"a":-Infinity}', "non_finite", 5),
    ("1e999", "non_finite", 0),
    ('["1e999",-1E+999]', "non_finite", 9),
    ('{"1e999":[1,{"b":1.5e400}]}', "non_finite", 17),
    ("1" * 400 + ".0", "non_finite", 0),
    ("[" + "1" * 400 + ",2e308]", "non_finite", 402),
    ('["' + "x" * 5000 + '",1e999]', "non_finite", 5004),
    (f'["{EMOJI}",1e999]', "non_finite", 8),
    ("1" * 4301, "number", 4300),
    # Depth.
    (nested(129), "depth", 128),
    (nested(129, "{}"), "depth", 512),
    (nested(150), "depth", 128),
    (nested(250), "depth", 128),
    ("[" * 100_000, "depth", 128),
    ("[" * 130 + "x", "depth", 128),
    ('["[",' + "[" * 128 + "]" * 128 + "]", "depth", 132),
    ('["' + "x" * 5000 + '",' + nested(128) + "]", "depth", 5131),
]


@pytest.mark.parametrize("text, reason, position", REFUSED)
def test_refused(text: str | bytes, reason: str, position: int) -> None:
    """
    Only ever InvalidJSONError, with its reason and its place: of several faults the first.
    """
    with pytest.raises(InvalidJSONError) as caught:
        loads(text, offset=70)
    assert (reason, 70 + position) == (caught.value.reason, caught.value.offset)
    assert isinstance(caught.value, ProtocolError)
    assert Verdict.INVALID_JSON is caught.value.verdict


@pytest.mark.parametrize("kind", ["[]", "{}"])
@pytest.mark.parametrize("depth", [1, 17, 128, 200])
def test_depth(depth: int, kind: str) -> None:
    """
    Exactly `depth` containers pass, one more does not (contract P16).
    """
    loads(nested(depth - 1, kind) if depth > 1 else "0", depth=depth)
    loads(nested(depth, kind), depth=depth)
    with pytest.raises(InvalidJSONError) as caught:
        loads(nested(depth + 1, kind), depth=depth)
    assert ("depth", depth if kind == "[]" else depth * 4) == (caught.value.reason, caught.value.offset)


@pytest.mark.parametrize("padding", [0, 300, 700, 5000])
def test_depth_among_much_else(padding: int) -> None:
    """
    Depth is depth however long the text and however many its containers.
    """
    flat = '"' + "[" * padding + '",' + "[]," * padding
    loads("[" + flat + nested(127) + "]")
    loads("[" + flat + nested(127, "{}") + "]")
    for kind in ("[]", "{}"):
        with pytest.raises(InvalidJSONError, match="deeply"):
            loads("[" + flat + nested(128, kind) + "]")


def test_messages_name_no_content() -> None:
    """
    An error says what and where, never what was sent.
    """
    for text in ('{"secret":1,"secret":2}', '"secret', '"\\secret"'):
        with pytest.raises(InvalidJSONError) as caught:
            loads(text)
        assert "secret" not in str(caught.value)
        assert caught.value.__cause__ is None


def test_other_buffers() -> None:
    """
    A bytearray is taken as its bytes.
    """
    assert [1] == loads(bytearray(b"[1]"))  # type: ignore[arg-type]


@given(json_values)
def test_round_trip(value: Any) -> None:
    """
    What is dumped is loaded again, and is as compact as can be.
    """
    text = dumps(value)
    assert value == loads(text)
    assert text == json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def test_dumps() -> None:
    """
    No spaces, text as it is; what JSON has no word for is refused.
    """
    assert '{"a":[1,"é🌱"]}' == dumps({"a": [1, "é🌱"]})
    with pytest.raises(ValueError, match="range"):
        dumps(math.inf)
    with pytest.raises(TypeError):
        dumps(object())


def read_by_the_library(text: str) -> Any:
    """
    The standard library made as strict as it can be; raises ValueError.
    """

    def no_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        if len({key for key, _ in pairs}) < len(pairs):
            raise ValueError
        return dict(pairs)

    def finite(number: str) -> float:
        value = float(number)
        if math.isinf(value):
            raise ValueError
        return value

    def none(name: str) -> Any:
        raise ValueError

    value = json.loads(text, object_pairs_hook=no_duplicates, parse_float=finite, parse_constant=none)
    repr(value).encode()
    json.dumps(value, ensure_ascii=False).encode()
    return value


def outcome(data: bytes, offset: int = 0) -> tuple[Any, int]:
    """
    The value, or the class of the error and its offset.
    """
    try:
        return loads(data, offset=offset), offset
    except InvalidJSONError as error:
        return InvalidJSONError, -1 if error.offset is None else error.offset


PIECES = [
    "{",
    "}",
    "[",
    "]",
    ",",
    ":",
    '"',
    '"a"',
    '"b":',
    "1",
    "-",
    ".5",
    "e9",
    "e999",
    "\\",
    "\\u00e9",
    "\\ud83c",
    "\\udf31",
    "true",
    "nul",
    "NaN",
    " ",
    "\n",
    "é",
]


def test_same_verdict_as_the_library() -> None:
    """
    Thousands of near-JSON texts: refused by both or by none, and with one value.
    """
    dice = random.Random(5)
    for _ in range(200_000 if EXHAUSTIVE else 20_000):
        text = "".join(dice.choices(PIECES, k=dice.randrange(1, 9)))
        try:
            expected: Any = read_by_the_library(text)
        except (ValueError, RecursionError):
            expected = InvalidJSONError
        value, offset = outcome(text.encode())
        assert (text, expected) == (text, value)
        assert 0 <= offset <= len(text.encode())


@given(st.binary(max_size=40) | st.text(max_size=30).map(str.encode))
def test_garbage(data: bytes) -> None:
    """
    Any bytes: a value or InvalidJSONError with a place in them.
    """
    _, offset = outcome(data, offset=9)
    assert 9 <= offset <= 9 + len(data)


@given(json_values, st.data())
def test_a_cut_text_is_never_complete(value: Any, data: st.DataObject) -> None:
    """
    The beginning of an object or array is refused at its very end: more bytes could still come.
    """
    raw = dumps([value]).encode()
    cut = data.draw(st.integers(1, len(raw) - 1))
    with pytest.raises(InvalidJSONError) as caught:
        loads(raw[:cut])
    assert caught.value.reason == "utf8" or ("syntax", cut) == (caught.value.reason, caught.value.offset)


# --- the reader of one stream -----------------------------------------------------------------------------------------------------------------------


def judged(read: Any, raw: bytes) -> tuple[Any, ...]:
    """
    The value, or what is wrong and where.
    """
    try:
        value = read(raw)
    except InvalidJSONError as error:
        return (error.reason, error.offset, error.message)
    return (repr(value),)


AWKWARD = [
    b'{"a":1,"a":2}',
    b'{"a":{"b":1,"b":1}}',
    b"1e999",
    b'{"a":-1e400}',
    b'"\\ud83d"',
    b'"\xff"',
    b'"\x01"',
    b"[1,]",
    b"",
    b"NaN",
    b"18446744073709551616",
    b"9" * 4301,
    b'{"a":1.0,"b":1e5,"c":-0,"d":-0.0}',
    b'{"a": 1}',
    b'{"a":1} ',
    b'"\\u00e9"',
    b'"\\/"',
    nested(128).encode(),
    nested(129).encode(),
    nested(129, "{}").encode(),
    nested(2000).encode(),
    b'{"a":"' + b"x" * 70_000 + b'"}',
]


@pytest.mark.parametrize("raw", AWKWARD, ids=lambda raw: raw[:20].decode("latin-1"))
def test_reader_refuses_what_loads_refuses(raw: bytes) -> None:
    """
    The short way gives the same value or the same fault at the same place; also where it is not tried after awkward frames.
    """
    reader = JsonReader()
    for _ in range(4):
        assert judged(loads, raw) == judged(reader.loads, raw)
    assert reader.loads(b'{"a":[1]}') == {"a": [1]}


def test_reader_counts_positions_and_depth() -> None:
    """
    Offsets count from where the frame stands; the depth is the stream's own.
    """
    with pytest.raises(InvalidJSONError) as caught:
        JsonReader().loads(b'{"a":1,"a":2}', 100)
    assert caught.value.offset is not None
    assert caught.value.offset > 100
    assert JsonReader(17).loads(nested(17).encode()) is not None
    with pytest.raises(InvalidJSONError):
        JsonReader(17).loads(nested(18).encode())


@given(st.lists(st.tuples(json_values, st.sampled_from([None, 0, 1]), st.booleans()), max_size=12), st.randoms(use_true_random=False))
def test_reader_reads_any_stream_as_loads_does(values: list[tuple[Any, int | None, bool]], rnd: random.Random) -> None:
    """
    Frames with and without spaces and escapes, whole and broken, in any order.
    """
    reader = JsonReader()
    for value, indent, ascii_only in values:
        raw = json.dumps(value, indent=indent, ensure_ascii=ascii_only, separators=(",", ":") if indent is None else None).encode()
        if rnd.random() < 0.2:
            raw = raw[: rnd.randrange(len(raw) + 1)]
        assert judged(loads, raw) == judged(reader.loads, raw)
