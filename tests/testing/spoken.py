"""
What every wire is tested for: an answer said in it is read back as it was, whole and in pieces, and its failures are what they are.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import attrs
from hypothesis import strategies as st

from rxchat.errors import Verdict
from rxchat.response import COUNTERS, ChatResponse, Part, TextPart, ThinkingPart, ToolCall, Usage
from rxchat.testing import Body, Replay, check_dialect, replay
from rxchat.testing.answers import FakeAnswer
from rxchat.testing.provider import FakeProvider
from rxchat.testing.wires.base import Delta, Wire

ROME = ToolCall(id="call_rome", name="weather", arguments_text='{"city":"Róme","days":2}')
NOW = ToolCall(id="call_now", name="now")
PLAIN = FakeAnswer("Grüße, world 🌍.")
CALLS = FakeAnswer("Let me look.", ROME, NOW)

TEXTS = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=30)
_VALUES = st.dictionaries(TEXTS, st.none() | st.booleans() | st.integers(-1000, 1000) | TEXTS, min_size=1, max_size=3)


def calls() -> st.SearchStrategy[ToolCall]:
    """
    Any call, its arguments in compact JSON.
    """
    dump = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode
    return st.builds(lambda name, value: ToolCall(name=name, arguments_text=dump(value)), st.sampled_from(["weather", "now"]), _VALUES)


def answers(*kinds: st.SearchStrategy[Part]) -> st.SearchStrategy[FakeAnswer]:
    """
    Any answer of these parts, then calls, in pieces of any size; neighbours are of different kinds, else some wires would join them.
    """

    def made(parts: Sequence[Part], asked: Sequence[ToolCall], piece: int) -> FakeAnswer:
        apart = [part for k, part in enumerate(parts) if not k or type(part) is not type(parts[k - 1])]
        return FakeAnswer(*apart, *asked, piece=piece)

    return st.builds(made, st.lists(st.one_of(*kinds), max_size=4), st.lists(calls(), max_size=3), st.integers(1, 12))


ANY_TEXT = st.builds(TextPart, TEXTS)
ANY_THINKING = st.builds(ThinkingPart, TEXTS)


def usages(*shares: str, total: bool = True) -> st.SearchStrategy[Usage]:
    """
    Any counts of input and output, with these shares of theirs, and a total that is their sum or (`total`) said to be more.
    """

    def made(whole: Sequence[int], parts: Sequence[int | None], more: int) -> Usage:
        counts: dict[str, Any] = dict(zip(shares, parts, strict=True))
        cached = sum(counts.get(name) or 0 for name in ("cache_read_tokens", "cache_write_tokens"))
        given, said = whole[0] + cached, whole[1] + (counts.get("reasoning_tokens") or 0)
        return Usage(given, said, total_tokens=given + said + (more if total else 0), **counts)

    count = st.integers(0, 10**9)
    return st.builds(made, st.tuples(count, count), st.tuples(*(st.none() | count for _ in shares)), count)


def facts(parts: Iterable[Part], *, ids: bool = True) -> list[Any]:
    """
    What parts say, whatever block they are in; a call without a text of arguments has none or an empty object.
    """
    return [_fact(part, ids) for part in parts]


def _fact(part: Part, ids: bool) -> Any:
    if isinstance(part, ToolCall):
        arguments = json.loads(part.arguments_text or "{}")
        return part.id if ids else "", part.name, arguments, part.server_executed, dict(part.metadata or {})
    changed: dict[str, Any] = {name: None for name in ("index", "item_id") if hasattr(part, name)}
    return attrs.evolve(part, **changed)


def assert_read_back(answer: FakeAnswer, read: ChatResponse, *, ids: bool = True, parts: Iterable[Part] | None = None) -> None:
    """
    The response is the answer: its parts (or those given) in order, its finish, its counts; its calls may be run.
    """
    expected = answer.parts if parts is None else parts
    assert facts(expected, ids=ids) == facts(read.parts, ids=ids)
    assert answer.reason == read.finish_reason
    assert (Verdict.COMPLETE if answer.reason.complete else Verdict.INCOMPLETE_FINISH) == read.verdict
    assert counts_of(answer.usage) == counts_of(read.usage)
    for call in read.tool_calls if answer.reason.complete else ():
        assert call.complete
        assert call.arguments == json.loads(call.arguments_text or "{}")


def counts_of(usage: Any) -> Mapping[str, int | None]:
    """
    The counters alone; no usage has none of them.
    """
    return {name: getattr(usage, name, None) for name in COUNTERS}


async def assert_over_http(dialect: str, answer: FakeAnswer, *, whole: bool = True, **kept: Any) -> None:
    """
    Our model reads the answer from a real server, streamed and (`whole`) not.
    """
    async with FakeProvider(answer) as provider, provider.model(dialect) as model:
        assert_read_back(answer, await model.call("Hi"), **kept)
        if whole:
            assert_read_back(answer, await model.call("Hi", stream=False), **kept)


def body_of(wire: Wire, answer: FakeAnswer) -> bytes:
    """
    The stream as it is sent.
    """
    return b"".join(wire.frames(answer))


def assert_any_cut(dialect: str, wire: Wire, answer: FakeAnswer, cut: int, options: Mapping[str, Any] | None = None, **kept: Any) -> None:
    """
    The stream says the answer, and says the same in reads of `cut` bytes (contract E9).
    """
    body = body_of(wire, answer)
    whole = replay(body, dialect, content_type=wire.content_type, options=options)
    assert_read_back(answer, whole.response, **kept)
    assert whole.facts == replay(body, dialect, content_type=wire.content_type, options=options, cut=cut).facts


def assert_failures(dialect: str, wire: Wire, options: Mapping[str, Any] | None = None, broken: Verdict = Verdict.INVALID_JSON) -> None:
    """
    In the middle of a stream: the provider's own error, and a frame that cannot be read; before it: a refusal. What came before is there.
    """
    first = _until_text(dialect, wire, options)
    said = replay(first + wire.error("it broke"), dialect, content_type=wire.content_type, options=options)
    assert (Verdict.PROVIDER_ERROR, "it broke") == (said.verdict, said.error and said.error.message)
    assert said.response.text
    torn = replay(first + wire.malformed, dialect, content_type=wire.content_type, options=options)
    assert broken == torn.verdict
    assert torn.response.text
    for status in (400, 418, 429, 500):
        kind, body = wire.refusal(status, "not now")
        refused = replay(body, dialect, content_type=kind, status=status)
        assert (Verdict.HTTP_STATUS, "not now") == (refused.verdict, refused.error and refused.error.message)


def assert_dialect(dialect: str, wire: Wire, cases: Mapping[str, FakeAnswer], options: Mapping[str, Any] | None = None, model: str = "m") -> None:
    """
    What is said keeps the whole contract, cut, shortened and damaged; the stream says what the body says.
    """
    assert wire.whole is not None
    pairs = [
        (
            Body(body_of(wire, answer), wire.content_type, name, options or {}),
            Body(wire.whole(answer), "application/json", f"{name} whole", options or {}),
        )
        for name, answer in cases.items()
    ]
    assert len(cases) == check_dialect(dialect, pairs, samples=4, model=model).pairs


def assert_paced(wire: Wire) -> None:
    """
    Each piece of text, thinking and arguments is marked for the pace, and nothing else is.
    """
    answer = FakeAnswer("Some text here.", piece=4)
    marked = [frame for frame in wire.frames(answer) if isinstance(frame, Delta)]
    assert 4 == len(marked)
    assert len(marked) < len(list(wire.frames(answer)))


def _until_text(dialect: str, wire: Wire, options: Mapping[str, Any] | None) -> bytes:
    """
    The frames of a plain answer up to its first text.
    """
    body = b""
    for frame in wire.frames(PLAIN):
        body += frame
        if replay(body, dialect, content_type=wire.content_type, options=options).response.text:
            return body
    raise AssertionError("the answer has no text")


def read(dialect: str, wire: Wire, answer: FakeAnswer, options: Mapping[str, Any] | None = None) -> Replay:
    """
    The stream, read.
    """
    return replay(body_of(wire, answer), dialect, content_type=wire.content_type, options=options)
