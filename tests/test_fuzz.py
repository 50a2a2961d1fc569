"""
Garbage in: events or an RxchatError come out, nothing else, and always a stream of the grammar (contract E1, E2, E6, E9, B4).

Everything is seeded: the number in a test's name is its seed, and a red case is red again. RXCHAT_EXHAUSTIVE=1 runs ten times as many.
"""

from __future__ import annotations

import json
import random
import struct
import zlib
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from itertools import pairwise
from typing import Any

import attrs
import pytest

from rxchat.dialects import dialect_names, get_dialect
from rxchat.errors import RxchatError
from rxchat.events import ChatEvent, ErrorEvent
from rxchat.framing import FRAMERS, framer_for
from rxchat.limits import Limits
from rxchat.pipeline import Head, response_stage
from rxchat.stage import run
from tests.grammar import violations
from tests.shared_data import EXHAUSTIVE, SHARED

ROUNDS = range(200 if EXHAUSTIVE else 10)
PER_ROUND = 25
MEDIA = {"sse": "text/event-stream", "json": "application/json"}


# --- what is mutated ------------------------------------------------------------------------------------------------------------------------------


def frames(*values: Any, end: bytes = b"data: [DONE]\n\n") -> bytes:
    """
    An event stream of these JSON values.
    """
    return b"".join(b"data: " + json.dumps(value, ensure_ascii=False).encode() + b"\n\n" for value in values) + end


def delta(finish: str | None = None, **said: Any) -> dict[str, Any]:
    """
    A chunk of choice 0.
    """
    return {"id": "c1", "model": "m", "choices": [{"index": 0, "delta": said, "finish_reason": finish}]}


def call(index: int, **said: Any) -> dict[str, Any]:
    """
    A chunk with a fragment of a tool call.
    """
    function = {key: said.pop(key) for key in ("name", "arguments") if key in said}
    return delta(tool_calls=[{"index": index, "function": function, **said}])


USAGE = {"prompt_tokens": 5, "completion_tokens": 7, "total_tokens": 12, "prompt_tokens_details": {"cached_tokens": 2}}
MESSAGE = {
    "role": "assistant",
    "content": "Hi 🌱",
    "tool_calls": [{"id": "a", "type": "function", "function": {"name": "f", "arguments": '{"x":1}'}}],
}

CHUNKS = [
    delta(role="assistant", content="你好，"),
    delta(content="Java 🌱"),
    delta(reasoning_content="Let me see."),
    delta(reasoning="hm", reasoning_details=[{"type": "reasoning.text", "text": "hm", "signature": "s"}]),
    delta(content=[{"type": "text", "text": "part"}, {"type": "thinking", "thinking": [{"type": "text", "text": "t"}]}]),
    delta(refusal="I will not."),
    delta(annotations=[{"type": "url_citation", "url_citation": {"url": "https://a.example", "title": "A", "start_index": 0, "end_index": 2}}]),
    delta(audio={"id": "s1", "data": "AAAA", "transcript": "hi", "expires_at": 1}),
    delta(images=[{"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}]),
    delta(function_call={"name": "old", "arguments": "{"}),
    call(0, id="a", type="function", name="weather", arguments=""),
    call(0, arguments='{"city":'),
    call(1, id="b", name="time", arguments='{"zone":"Z"}'),
    call(0, arguments='"Bern"}'),
    {"choices": [{"index": 1, "delta": {"content": "another"}, "finish_reason": "stop"}]},
    delta("stop"),
    delta("tool_calls"),
    delta("content_filter"),
    {"choices": [], "usage": USAGE},
    {"error": {"message": "overloaded", "type": "server_error", "code": 503}},
    {"id": "c1", "model": "m", "choices": [{"index": 0, "message": MESSAGE, "finish_reason": "stop"}], "usage": USAGE},
]
GOOD = [delta(content="你好，"), delta(content="Java 🌱"), delta("stop"), {"choices": [], "usage": USAGE}]

STREAMS: dict[str, list[bytes]] = {
    "openai-chat": [
        frames(*GOOD),
        frames(*GOOD).replace(b"\n", b"\r\n"),
        b"\xef\xbb\xbf: ping\n\nid: 5\nretry: 10\n\n" + frames(*GOOD),
        frames(*CHUNKS[:14], delta("tool_calls")),
        frames(CHUNKS[2], CHUNKS[0], delta("length"), end=b""),
        frames(CHUNKS[0], CHUNKS[19], end=b""),
        frames(CHUNKS[0], end=b'{"error": {"message": "stray"}}\n\n'),
        frames(CHUNKS[0], delta("stop"), end=b"data: [DONE]"),
        json.dumps(CHUNKS[20]).encode(),
        json.dumps({"error": {"message": "no"}}).encode(),
    ],
}


@cache
def bodies(dialect: str) -> list[bytes]:
    """
    Our own bodies of a dialect and, where they are there, the recorded ones of at most 16 KB.
    """
    recorded = sorted(SHARED.joinpath("corpus", dialect).glob("*.wire"))
    return STREAMS.get(dialect, []) + [path.read_bytes() for path in recorded if path.stat().st_size <= 16_384]


SPICE: tuple[bytes, ...] = tuple(
    text.encode()
    for text in (
        *(
            "\n",
            "\r",
            "\n\n",
            ":",
            "data:",
            "data: [DONE]\n\n",
            "event: error\n",
            "id: \0\n",
            "retry: x\n",
            "\ufeff",
            "\u2028",
            "\x85",
            '"',
            "\\",
            "\\u",
        ),
        *("{", "}", "[", "]", ",", "null", "NaN", "1e999", "-0", "9" * 40, '"\\ud800"', "[" * 300, '"error":{"message":"x"},', "<think>", "</think>"),
    )
)


def mutate(body: bytes, rng: random.Random) -> bytes:
    """
    One to four faults, each a change that networks, proxies and providers make.
    """
    for _ in range(rng.randint(1, 4)):
        body = rng.choice(FAULTS)(body, rng, *sorted((rng.randint(0, len(body)), rng.randint(0, len(body)))))
    return body


def swapped(body: bytes, rng: random.Random, start: int, end: int) -> bytes:
    """
    Two frames changed places, or one came twice.
    """
    parts = body.split(b"\n\n")
    i, j = rng.randrange(len(parts)), rng.randrange(len(parts))
    parts[i], parts[j] = parts[j], parts[rng.choice((i, j))]
    return b"\n\n".join(parts)


FAULTS: tuple[Callable[[bytes, random.Random, int, int], bytes], ...] = (
    lambda body, rng, start, end: body[:start],
    lambda body, rng, start, end: body[:start] + body[min(end, start + 200) :],
    lambda body, rng, start, end: body[:end] + body[max(start, end - 200) :],
    lambda body, rng, start, end: body[:start] + rng.randbytes(rng.randint(1, 8)) + body[start:],
    lambda body, rng, start, end: body[:start] + rng.choice(SPICE) + body[start:],
    lambda body, rng, start, end: body[:start] + bytes([rng.randrange(256)]) + body[start + 1 :],
    lambda body, rng, start, end: body.replace(b"\n", rng.choice((b"\r", b"\r\n", b"\n\n", b"\xe2\x80\xa8")), rng.randint(1, 5)),
    swapped,
)


def some_json(rng: random.Random, depth: int = 3) -> Any:
    """
    Any JSON value, of the words that dialects look for.
    """
    if depth and rng.random() < 0.5:
        count = rng.randint(0, 3)
        if rng.random() < 0.4:
            return [some_json(rng, depth - 1) for _ in range(count)]
        return {rng.choice(WORDS): some_json(rng, depth - 1) for _ in range(count)}
    return rng.choice((None, True, False, 0, 1, -1, 2**70, 0.5, 1e300, "", "x", "stop", "<think>a</think>", "🌱", *WORDS[:6]))


WORDS = (
    *(
        "index",
        "id",
        "type",
        "content",
        "text",
        "choices",
        "delta",
        "message",
        "finish_reason",
        "tool_calls",
        "function",
        "name",
        "arguments",
        "usage",
    ),
    *(
        "error",
        "code",
        "status",
        "role",
        "refusal",
        "reasoning_content",
        "reasoning_details",
        "annotations",
        "audio",
        "data",
        "prompt_tokens",
        "logprobs",
    ),
)


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """
    The paths of all values inside a JSON value, its own included.
    """
    yield path
    inside = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, item in inside:
        yield from places(item, (*path, key))


def replaced(value: Any, path: Sequence[Any], by: Any) -> Any:
    """
    A copy of `value` with another value at that path.
    """
    if not path:
        return by
    copy = dict(value) if isinstance(value, dict) else list(value)
    copy[path[0]] = replaced(copy[path[0]], path[1:], by)
    return copy


def bent(value: Any, rng: random.Random) -> Any:
    """
    A known value with random JSON in one or two places.
    """
    for _ in range(rng.randint(1, 2)):
        value = replaced(value, rng.choice(list(places(value))), some_json(rng))
    return value


# --- what must hold -------------------------------------------------------------------------------------------------------------------------------


def cut(body: bytes, rng: random.Random) -> list[bytes]:
    """
    The body in reads of random sizes, empty ones among them.
    """
    size = rng.choice((1, 3, 7, 50, 1400))
    ends = [0]
    while ends[-1] < len(body):
        ends.append(ends[-1] + rng.randint(0, size))
    return [body[a:b] for a, b in pairwise(ends)]


def listen(pieces: Sequence[bytes], dialect: str, rng: random.Random, framing: str | None) -> tuple[list[Any], RxchatError | None]:
    """
    The events and the error of one response; any other exception is the failure of the test.
    """
    spec = get_dialect(dialect)
    head = Head(headers={"Content-Type": MEDIA[framing]} if framing else {})
    events: list[ChatEvent] = []
    stage = response_stage(
        dialect, profile=rng.choice((*spec.profiles, spec.profiles[0])), options=options(dialect, rng), response_id="rx-1", head=lambda: head
    )
    try:
        for event in run(stage, pieces):
            events.append(event)  # one by one: what came before an error counts
    except RxchatError as error:
        return events, error
    return events, None


def options(dialect: str, rng: random.Random) -> dict[str, Any]:
    """
    A random choice of the dialect's options.
    """
    chosen: dict[str, Any] = {}
    for name, option in get_dialect(dialect).options.items():
        values = (True, False) if isinstance(option.default, bool) else option.choices
        if values and rng.random() < 0.3:
            chosen[name] = rng.choice(values)
    return chosen


def told(error: RxchatError | None) -> Any:
    """
    What can be compared of an error.
    """
    return error and (type(error), str(error), error.verdict, error.offset, error.response)


def comparable(event: Any) -> Any:
    """
    The event, its error by what it tells: two errors are never the same object.
    """
    return (told(event.error), event.response, event.usage) if isinstance(event, ErrorEvent) else event


def check(body: bytes, dialect: str, seed: int, framing: str | None = None) -> None:
    """
    The grammar holds, the error is the one the last event told of, and another cut gives the same.
    """
    whole, error = listen([body], dialect, random.Random(seed), framing)
    assert violations(whole) == [], body
    assert (whole[-1].error if isinstance(whole[-1], ErrorEvent) else None) is error, body
    assert error is None or error.verdict is not None, body
    pieces, same = listen(cut(body, random.Random(seed)), dialect, random.Random(seed), framing)
    assert [comparable(event) for event in whole] == [comparable(event) for event in pieces], body
    assert told(error) == told(same), body


# --- the tests ------------------------------------------------------------------------------------------------------------------------------------


def seeds(round_: int) -> range:
    """
    The seeds of a round.
    """
    return range(round_ * PER_ROUND, (round_ + 1) * PER_ROUND)


@pytest.mark.parametrize("round_", ROUNDS)
@pytest.mark.parametrize("dialect", dialect_names())
def test_random_bytes(dialect: str, round_: int) -> None:
    """
    Bytes out of nowhere, and text made of what means something.
    """
    for seed in seeds(round_):
        rng = random.Random(seed)
        body = rng.randbytes(rng.randint(0, 300)) if seed % 2 else b"".join(rng.choices(SPICE, k=rng.randint(0, 40)))
        check(body, dialect, seed, rng.choice((None, *MEDIA)) if set(MEDIA.values()) <= set(get_dialect(dialect).framings) else None)


@pytest.mark.parametrize("round_", ROUNDS)
@pytest.mark.parametrize("dialect", dialect_names())
def test_mutated_bodies(dialect: str, round_: int) -> None:
    """
    Good bodies with faults in them, our own and the recorded.
    """
    known = bodies(dialect)
    if not known:
        pytest.skip(f"no bodies of {dialect}")
    for seed in seeds(round_):
        rng = random.Random(seed)
        body = mutate(known[rng.randrange(len(known))], rng)
        check(body, dialect, seed, "json" if body[:1] == b"{" and dialect == "openai-chat" else None)


@pytest.mark.parametrize("round_", ROUNDS)
def test_random_shapes_in_known_frames(round_: int) -> None:
    """
    JSON of any shape where the dialect expects its own.
    """
    for seed in seeds(round_):
        rng = random.Random(seed)
        chunks = [bent(chunk, rng) if rng.random() < 0.3 else chunk for chunk in rng.choices(CHUNKS, k=rng.randint(1, 6))]
        check(frames(*chunks, end=rng.choice((b"", b"data: [DONE]\n\n"))), "openai-chat", seed)
        check(json.dumps(bent(CHUNKS[-1], rng)).encode(), "openai-chat", seed, "json")


@pytest.mark.parametrize("round_", ROUNDS)
@pytest.mark.parametrize("framing", sorted(FRAMERS))
def test_framers_alone(framing: str, round_: int) -> None:
    """
    A framer gives frames or an RxchatError, the same for every cut.
    """
    for seed in seeds(round_):
        rng = random.Random(seed)
        body = mutate(rng.choice(FRAMED[framing]), rng) if seed % 4 else rng.randbytes(rng.randint(0, 200))
        limits = rng.choice((Limits(), Limits.strict, attrs.evolve(Limits.strict, line=40, event=60, total=150)))
        assert framed(framing, [body], limits) == framed(framing, cut(body, rng), limits), body


def framed(framing: str, pieces: Sequence[bytes], limits: Limits) -> tuple[list[Any], Any]:
    """
    The frames and what the error tells.
    """
    framer = framer_for(framing, limits)
    found: list[Any] = []
    try:
        for frame in run(framer, pieces):
            found.append(frame)
    except RxchatError as error:
        return found, told(error)
    return found, None


def aws(payload: bytes, **headers: str) -> bytes:
    """
    One message of an AWS event stream with string headers, its checksums right.
    """
    packed = b"".join(
        bytes([len(name)]) + name.encode() + b"\x07" + struct.pack(">H", len(value)) + value.encode() for name, value in headers.items()
    )
    prelude = struct.pack(">II", 16 + len(packed) + len(payload), len(packed))
    message = prelude + struct.pack(">I", zlib.crc32(prelude)) + packed + payload
    return message + struct.pack(">I", zlib.crc32(message))


FRAMED: dict[str, list[bytes]] = {
    "sse": STREAMS["openai-chat"],
    "ndjson": [b'{"a":1}\n{"b":"\xf0\x9f\x8c\xb1"}\r\n\n[1,2]\n"x"', b"\xef\xbb\xbf1\n2\n"],
    "json-array": [b'[{"a":1},{"b":"]"},\n[1,2], "x\\"" ]\n', b"\xef\xbb\xbf []", b"[1,2,3]"],
    "aws-eventstream": [aws(b'{"a":1}', kind="event") + aws(b"", kind="x", type="exception"), aws(bytes(range(256)))],
    "json": [json.dumps(CHUNKS[20]).encode(), b" [1, 2]\n"],
}
