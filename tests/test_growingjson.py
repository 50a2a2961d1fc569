"""
Strict JSON while it grows: the same values and refusals as `strictjson.loads` at every cut, beginnings on the way, and work that stays linear.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from itertools import pairwise
from statistics import linear_regression
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rxchat.errors import InvalidJSONError
from rxchat.growingjson import GrowingJson
from rxchat.strictjson import dumps, loads
from tests.strategies import json_values
from tests.test_strictjson import PASSING, REFUSED, nested

STEPS = (1, 2, 3, 7, 10**9)


def coming(text: str, step: int, depth: int = 128) -> GrowingJson:
    """
    A text that came in pieces of `step` characters.
    """
    growing = GrowingJson(depth)
    for at in range(0, len(text), step):
        growing.feed(text[at : at + step])
    return growing


def fed(text: str, step: int, depth: int = 128) -> GrowingJson:
    """
    The same, and nothing more comes.
    """
    growing = coming(text, step, depth)
    growing.finish()
    return growing


def refusal(text: str, step: int, depth: int = 128) -> tuple[str, int | None]:
    with pytest.raises(InvalidJSONError) as caught:
        fed(text, step, depth)
    return caught.value.reason, caught.value.offset


# --- as strict as loads ---------------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("text, expected", PASSING)
def test_passes(text: str, expected: Any) -> None:
    """
    What loads reads is read, however it is cut, integers and floats told apart.
    """
    for step in STEPS:
        growing = fed(text, step)
        assert (expected, repr(expected)) == (growing.at((), growing.delta), repr(growing.at((), growing.delta)))


@pytest.mark.parametrize("text, reason, position", [row for row in REFUSED if isinstance(row[0], str)])
def test_refused(text: str, reason: str, position: int) -> None:
    """
    What loads refuses is refused with its word at its place, at every cut; a key that comes twice already at its end.
    """
    told = {refusal(text, step) for step in STEPS}
    assert {(reason, position - 2 if reason == "duplicate_key" else position)} == told


@pytest.mark.parametrize(
    ("text", "reason", "position"),
    [
        ("Sure! {}", "syntax", 0),
        ("```json", "syntax", 0),
        ('{"a" 1}', "syntax", 5),
        ('{"a":1 "b"', "syntax", 7),
        ('{"a":1,]', "syntax", 7),
        ("{1", "syntax", 1),
        ("[1}", "syntax", 2),
        ("[,", "syntax", 1),
        ("-x", "syntax", 1),
        ("-I", "non_finite", 0),
        ("1.x", "syntax", 2),
        ("1.5.", "trailing", 3),
        ("1e5.", "trailing", 3),
        ("[-01", "syntax", 3),
        ("[Infinity", "non_finite", 1),
        ("é", "syntax", 0),
        ("[\ud800", "surrogate", 1),
        ('"é\\ud83c\\n', "surrogate", 3),
        ('{} "', "trailing", 3),
        ("[" + "-" + "1" * 4301 + ",", "number", 4302),
    ],
)
def test_refused_as_soon_as_it_is_hopeless(text: str, reason: str, position: int) -> None:
    """
    Nobody waits for an end that could not help any more.
    """
    for step in STEPS:
        with pytest.raises(InvalidJSONError) as caught:
            coming(text, step)
        assert (reason, position) == (caught.value.reason, caught.value.offset)


@pytest.mark.parametrize("kind", ["[]", "{}"])
def test_depth(kind: str) -> None:
    """
    Exactly as many containers as the limit says, and never more than loads can take.
    """
    fed(nested(17, kind), 1, 17)
    assert ("depth", 17 if kind == "[]" else 68) == refusal(nested(18, kind), 1, 17)
    fed(nested(200, kind), 1, 1000)
    assert "depth" == refusal(nested(201, kind), 1, 1000)[0]


# --- what is shown on the way ---------------------------------------------------------------------------------------------------------------------

NOTHING = object()
SHOWN: list[tuple[str, list[Any]]] = [
    ("12 ", [NOTHING, NOTHING, 12]),
    ("[12,3]", [[], [], [], [12], [12], [12, 3]]),
    ("true", [NOTHING] * 3 + [True]),
    ("-", [NOTHING]),
    ('"a\\n"', ["", "a", "a", "a\n", "a\n"]),
    ('"\\u00e9"', [""] * 6 + ["é", "é"]),
    ('"\\ud83c\\udf31"', [""] * 12 + ["🌱", "🌱"]),
    ('{"ab":"c"}', [{}] * 6 + [{"ab": ""}, {"ab": "c"}, {"ab": "c"}, {"ab": "c"}]),
    ('{"a":{}}', [{}] * 5 + [{"a": {}}] * 3),
    (" [ ]", [NOTHING, [], [], []]),
]


@pytest.mark.parametrize("text, expected", SHOWN)
def test_shown(text: str, expected: list[Any]) -> None:
    """
    After each character: whole characters of strings, whole numbers and words, keys whose value has begun. What was shown stays so.
    """
    growing = GrowingJson()
    changed = []
    for character in text:
        growing.feed(character)
        changed.append(growing.changed)
    shown = [growing.at((), delta) if growing.shown(delta) else NOTHING for delta in range(1, growing.delta + 1)]
    assert expected == shown
    assert [now is not before and now != before for before, now in zip([NOTHING, *shown], shown, strict=False)] == changed


def begins(part: Any, whole: Any) -> bool:
    """
    Whether `part` is a beginning of `whole`: cut at its last place, equal before it.
    """
    if isinstance(part, dict) and isinstance(whole, dict):
        pairs = list(zip(part.items(), whole.items(), strict=False))
        same = all(a == b for a, b in pairs[:-1])
        return len(part) <= len(whole) and same and all(a[0] == b[0] and begins(a[1], b[1]) for a, b in pairs[-1:])
    if isinstance(part, list) and isinstance(whole, list):
        return len(part) <= len(whole) and part[:-1] == whole[: len(part)][:-1] and all(begins(part[-1], whole[len(part) - 1]) for _ in part[-1:])
    if isinstance(part, str) and isinstance(whole, str):
        return whole.startswith(part)
    return type(part) is type(whole) and part == whole


@given(json_values, st.data())
def test_any_cut_of_any_value(value: Any, data: st.DataObject) -> None:
    """
    The last value is that of loads; each one before begins the next, and asking late shows the same as asking at once.
    """
    text = data.draw(st.sampled_from([dumps(value), " " + dumps(value).replace(",", " ,\n") if '"' not in dumps(value) else dumps(value)]))
    cuts = sorted(data.draw(st.sets(st.integers(0, len(text)), max_size=12)) | {0, len(text)})
    growing = GrowingJson()
    at_once = []
    for start, end in pairwise(cuts):
        growing.feed(text[start:end])
        if growing.shown(growing.delta):
            at_once.append((growing.delta, growing.at((), growing.delta)))
    growing.finish()
    at_once.append((growing.delta, growing.at((), growing.delta)))
    assert loads(text) == at_once[-1][1]
    assert at_once == [(delta, growing.at((), delta)) for delta, _ in at_once]
    assert all(begins(before[1], after[1]) for before, after in pairwise(at_once))


@given(st.text(alphabet='{}[]",:\\u0d8ce1-.+ntrue \n', max_size=14))
def test_any_text_is_told_as_loads_tells_it(text: str) -> None:
    """
    Value or word of refusal, the same at every cut as all at once; a text that is cut short is told at its end.
    """
    try:
        expected: Any = loads(text)
    except InvalidJSONError:
        assert 1 == len({refusal(text, step) for step in (1, 2, 99)})
    else:
        assert [expected] * 2 == [growing.at((), growing.delta) for growing in (fed(text, 1), fed(text, 99))]


def test_places() -> None:
    """
    One place costs nothing of what is around it; what had not come by then is not there.
    """
    growing = fed('{"a":[1,{"b":"xyz"}],"c":2}', 1)
    early = 15  # within the string
    assert "x" == growing.at(("a", -1, "b"), early)
    assert "xyz" == growing.at(("a", 1, "b"), growing.delta)
    for path, delta in [
        (("c",), early),
        (("a", 2), 99),
        (("a", -3), 99),
        (("a", "b"), 99),
        (("a", 0, "b"), 99),
        ((0,), 99),
        (("a", True), 99),
        ((), 0),
    ]:
        with pytest.raises(KeyError):
            growing.at(path, delta)


# --- linear ---------------------------------------------------------------------------------------------------------------------------------------

LONG: Mapping[str, Callable[[int], str]] = {
    "one string": lambda size: '{"a":"' + "x" * size + '"}',
    "escapes": lambda size: '"' + "\\u00e9" * (size // 6) + '"',
    "an array": lambda size: "[" + "1," * (size // 2) + "1]",
    "an object": lambda size: "{" + ",".join(f'"{n}":0' for n in range(size // 8)) + "}",
    "a number": lambda size: "1." + "0" * size,
    "white space": lambda size: " " * size + "1",
    "containers": lambda size: "[" + "[[{}]]," * (size // 7) + "0]",
}


@pytest.mark.parametrize("name", LONG)
@pytest.mark.parametrize("step", [1, 1000])
def test_work_is_linear(name: str, step: int) -> None:
    """
    Counted, not timed: each character is looked at a bounded number of times, up to 100,000 deltas of one character, whatever it is that grows.
    """
    texts = [LONG[name](size) for size in (1000, 10_000, 100_000)]
    works = [fed(text, step).work for text in texts]
    assert all(work <= 4 * len(text) + 10 for work, text in zip(works, texts, strict=True))
    slope = linear_regression([math.log(len(text)) for text in texts], [math.log(work) for work in works]).slope
    assert slope <= 1.1
