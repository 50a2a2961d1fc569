"""
Templates: what they read is what strict JSON reads, and what they cannot vouch for they leave alone.
"""

from __future__ import annotations

import json
import random
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from rxchat import templates
from rxchat.errors import InvalidJSONError
from rxchat.strictjson import loads
from rxchat.templates import LONGEST, Path, Slot, template
from tests.strategies import json_values

TEXT: Path = ("choices", 0, "delta", "content")
SLOTS: dict[Path, Slot] = {TEXT: Slot.TEXT, ("obfuscation",): Slot.PADDING, ("created",): Slot.COUNT}
FRAME = b'{"id":"c","created":17,"choices":[{"index":0,"delta":{"content":" one"},"finish_reason":null}],"obfuscation":"abc"}'


def frame(text: bytes = b'" one"', created: bytes = b"17", padding: bytes = b'"abc"') -> bytes:
    """
    That frame with other bytes in its slots.
    """
    return FRAME.replace(b'" one"', text).replace(b"17", created).replace(b'"abc"', padding)


@pytest.mark.parametrize(
    "raw, expected",
    [
        (frame(), " one"),
        (frame('"né 日本 😀"'.encode(), b"0", b'""'), "né 日本 😀"),
        (frame(rb'"\"so\", \\ \n \u00e9 \ud83d\ude00"', b"123456789012345678"), '"so", \\ \n é 😀'),
        (frame(b'"\x7f"'), "\x7f"),
        # What is not strict, or not the same otherwise, is not read here.
        (frame(b'""'), None),
        (frame(b"null"), None),
        (frame(b'"a\nb"'), None),
        (frame(rb'"\x"'), None),
        (frame(rb'"\ud83d"'), None),
        (frame(b'"\xff"'), None),
        (frame(b'"\xed\xa0\xbd"'), None),
        (frame(b'"a","content":"b"'), None),
        (frame(b'"a'), None),
        (frame(created=b"017"), None),
        (frame(created=b"-1"), None),
        (frame(created=b"1.5"), None),
        (frame(created=b"1" * 19), None),
        (frame(padding=rb'"\n"'), None),
        (frame(padding='"é"'.encode()), None),
        (frame(padding=b'"a"b"'), None),
        (frame() + b" ", None),
        (b" " + frame(), None),
        (frame()[:-1], None),
        (frame().replace(b'"index":0', b'"index":1'), None),
        (frame().replace(b'"index":0', b'"index": 0'), None),
        (FRAME[:40] + FRAME[-40:], None),
        (b"", None),
    ],
)
def test_what_a_template_reads(raw: bytes, expected: str | None) -> None:
    """
    The text of a frame that differs in its slots only, and nothing else.
    """
    read = template(FRAME, SLOTS, loads(FRAME))
    assert read is not None
    assert read(raw) == expected


def test_a_number_is_read_beside_the_text() -> None:
    """
    As a pair, in whatever order they stand.
    """
    slots: dict[Path, Slot] = {("call", "index"): Slot.INTEGER, ("call", "text"): Slot.TEXT}
    before, behind = (template(raw, slots, loads(raw)) for raw in (b'{"call":{"index":0,"text":"a"}}', b'{"call":{"text":"a","index":0}}'))
    assert before is not None
    assert behind is not None
    assert [("b", 7), ("b", 7)] == [before(b'{"call":{"index":7,"text":"b"}}'), behind(b'{"call":{"text":"b","index":7}}')]


@pytest.mark.parametrize(
    "raw",
    [
        b'{"choices":[]}',
        b'{"choices":[{"delta":{"content":null}}]}',
        b'{"choices":[{"delta":{"content":["a"]}}]}',
        b'{"choices":[{},{"delta":{"content":"a"}}]}',
        b'{"content":"a"}',
        b'"a"',
        b"[]",
        json.dumps({"choices": [{"delta": {"content": "a" * LONGEST}}]}, separators=(",", ":")).encode(),
        json.dumps({"created": 1, "long": "a" * 600, "choices": [{"delta": {"content": "a"}}]}, separators=(",", ":")).encode(),
    ],
)
def test_no_template_without_its_text(raw: bytes) -> None:
    """
    A text that is not there, is none, or is too long to gain by it.
    """
    assert template(raw, SLOTS, loads(raw)) is None


def at(value: Any, path: tuple[str | int, ...]) -> Any:
    """
    What is found at a path.
    """
    for key in path:
        value = value[key]
    return value


NAMES = st.sampled_from(["content", "created", "obfuscation", "0", "a", "é", "\n"])
NESTED = st.recursive(
    st.none() | st.integers(0, 99) | st.floats(0, 9) | st.sampled_from(["", "a", '"', '"content":', "\\", "né"]),
    lambda inner: st.dictionaries(NAMES, inner, max_size=4) | st.lists(inner, max_size=3),
    max_leaves=12,
)


def written(value: Any, dice: random.Random, ascii_only: bool) -> str:
    """
    As JSON, a space here and there.
    """

    def gap() -> str:
        return " " if dice.random() < 0.1 else ""

    def text(inner: Any) -> str:
        if isinstance(inner, dict):
            return "{" + ",".join(f"{gap()}{text(name)}{gap()}:{gap()}{text(item)}{gap()}" for name, item in inner.items()) + "}"
        if isinstance(inner, list):
            return "[" + ",".join(f"{gap()}{text(item)}{gap()}" for item in inner) + "]"
        return json.dumps(inner, ensure_ascii=ascii_only)

    return text(value)


@settings(max_examples=1000)
@given(NESTED, st.booleans(), st.integers(0, 999))
def test_a_name_leads_where_the_path_leads(value: Any, ascii_only: bool, seed: int) -> None:
    """
    Where the short way says where the slots are, it says what a walk from value to value does.
    """
    raw = written(value, random.Random(seed), ascii_only).encode()
    slots: dict[Path, Slot] = {("content",): Slot.TEXT, ("created",): Slot.COUNT, ("a", "obfuscation"): Slot.PADDING, ("a", 0): Slot.TEXT}
    named = templates._named(raw, slots, value)
    assert named is None or named == list(templates._walked(raw, slots))


@pytest.mark.parametrize(
    "raw",
    [
        FRAME,
        frame(rb'"a \"b\" \u00e9"'),
        FRAME.replace(b'"obfuscation":"abc"', b'"usage":null'),
    ],
)
def test_the_short_way_is_for_what_providers_write(raw: bytes) -> None:
    """
    Usual frames are not walked through.
    """
    named = templates._named(raw, SLOTS, loads(raw))
    assert named is not None
    assert named == list(templates._walked(raw, SLOTS))


@pytest.mark.parametrize(
    "raw",
    [
        # Its name is written in another way, and stands elsewhere as it is.
        rb'{"x":{"content":"A"},"choices":[{"delta":{"c\u006fntent":"A"}}]}',
        b'{"content":"A","choices":[{"delta":{"content":"A"}}]}',
        b'{"choices":[{"delta":{"content": "A"}}]}',
        b'{"x":{"content":"A"},"choices":[{"delta":{"content" :"A"}}]}',
        b'{"x":{"content" :"A"},"choices":[{"delta":{"content":"A"}}]}',
    ],
)
def test_the_short_way_is_left_where_it_proves_nothing(raw: bytes) -> None:
    """
    The name is there twice, or not as it is, or something is escaped.
    """
    assert templates._named(raw, SLOTS, loads(raw)) is None
    read = template(raw, SLOTS, loads(raw))
    assert read is not None
    changed = raw.replace(b'"A"}}]', b'"B"}}]')
    assert "B" == read(changed) == at(loads(changed), TEXT)


# Bytes that are dangerous at any place, and such that are not.
PIECES = st.sampled_from(
    [b'"', b"\\", b"\n", b"}", b"]", b",", b":", b"0", b"-", b"e9", b'","content":"x', b"\xff", b"\xc3\xa9", b"a", b'\\"', b"\\u", b"\x00"]
)


@settings(max_examples=500)
@given(st.dictionaries(st.text(max_size=3), json_values, max_size=3), st.data())
def test_what_fits_is_the_same_value_but_for_its_slots(rest: dict[str, Any], data: st.DataObject) -> None:
    """
    However a frame is changed: if a template reads it, strict JSON reads the same from it, and nothing else has changed.
    """
    value = {**rest, "n": 3, "choices": [{"delta": {"content": "ab"}}], "obfuscation": "p", "created": 5}
    try:
        raw = json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()
        loads(raw)
    except (UnicodeEncodeError, InvalidJSONError):
        return
    read = template(raw, {**SLOTS, ("n",): Slot.INTEGER}, value)
    assert read is not None
    start = data.draw(st.integers(0, len(raw)))
    end = data.draw(st.integers(start, min(len(raw), start + 3)))
    changed = raw[:start] + b"".join(data.draw(st.lists(PIECES, max_size=3))) + raw[end:]
    said = read(changed)
    if said is not None:
        text, number = said
        known = loads(changed)
        assert (text, number) == (at(known, TEXT), known["n"])
        same = {**value, "n": number, "choices": [{"delta": {"content": text}}], "obfuscation": known["obfuscation"], "created": known["created"]}
        assert json.dumps(same) == json.dumps(known)


@settings(max_examples=300)
@given(st.text(min_size=1), st.booleans())
@example("\ud83d", True)
def test_any_text_is_read_as_json_reads_it(text: str, ascii_only: bool) -> None:
    """
    Escaped or not; what strict JSON refuses is not read.
    """
    read = template(FRAME, SLOTS, loads(FRAME))
    assert read is not None
    raw = frame(json.dumps(text, ensure_ascii=ascii_only).encode("utf-8", "surrogatepass"))
    try:
        expected = at(loads(raw), TEXT)
    except InvalidJSONError:
        expected = None
    assert read(raw) == expected
