"""
The Responses dialect on whole responses: however a stream tells its items, in whatever order and with whatever left out, the answer is that of its JSON body.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rxchat.dialects.openai_responses_base import ToldText
from rxchat.errors import RxchatError, Verdict
from rxchat.events import ChatEvent
from rxchat.response import ChatResponse, ProviderItemPart, RedactedThinkingPart, ThinkingPart
from rxchat.stage import StreamDone
from tests.dialects.responses_wire import (
    DIALECT,
    Wire,
    added,
    answer,
    answer_of_body,
    completed,
    created,
    done,
    ev,
    final,
    frames,
    output_text,
    sse,
    whole,
)
from tests.grammar import violations
from tests.shared_data import shared
from tests.work import opcodes, peak

words = st.text('aé🙂 \n"{', min_size=1, max_size=6)
json_objects = st.dictionaries(st.sampled_from("abc"), st.integers(0, 99) | words, max_size=2)


# --- items ----------------------------------------------------------------------------------------------------------------------------------------


@st.composite
def texts(draw: st.DrawFn) -> Wire:
    """
    A text part.
    """
    urls = draw(st.lists(st.sampled_from(["u", "v"]), max_size=2))
    annotations = [{"type": "url_citation", "url": url, "start_index": start} for start, url in enumerate(urls)]
    return {"type": "output_text", "text": draw(words | st.just("")), "annotations": annotations}


def parts(kind: str) -> st.SearchStrategy[list[Wire]]:
    """
    Parts of reasoning.
    """
    return st.lists(st.fixed_dictionaries({"type": st.just(kind), "text": words}), max_size=2)


item_kinds: dict[str, Any] = {
    "message": {"content": st.lists(texts(), max_size=2), "phase": st.sampled_from([None, "commentary"])},
    "reasoning": {"summary": parts("summary_text"), "content": parts("reasoning_text"), "encrypted_content": st.none() | words},
    "function_call": {"name": words, "arguments": json_objects.map(json.dumps)},
    "custom_tool_call": {"name": words, "input": words},
    "code_interpreter_call": {"code": words},
    "apply_patch_call": {"operation": st.fixed_dictionaries({"diff": words})},
    "shell_call": {"action": st.fixed_dictionaries({"commands": st.lists(words, min_size=1, max_size=1)})},
    "image_generation_call": {"result": st.just("iVBORw0KGgo=")},
    "compaction": {"encrypted_content": words},
}
items = st.one_of([st.fixed_dictionaries({"type": st.just(kind), "status": st.just("completed"), **fields}) for kind, fields in item_kinds.items()])


@st.composite
def outputs(draw: st.DrawFn) -> list[Wire]:
    """
    Items with ids and call ids of their own.
    """
    raws = draw(st.lists(items, min_size=1, max_size=4))
    prefix = draw(st.sampled_from(["call_", "xs_call_"]))
    return [raw | {"id": f"it_{number}"} | ({"call_id": f"{prefix}{number}"} if "name" in raw else {}) for number, raw in enumerate(raws)]


# --- how a stream tells them --------------------------------------------------------------------------------------------------------------------------


@attrs.frozen
class Fragments:
    """
    One text of an item: its events, where in the item it is, what it says.
    """

    stem: str
    key: str
    place: Wire
    said: str


def fragments(raw: Wire) -> Iterator[Fragments]:
    """
    The texts of an item.
    """
    for number, part in enumerate(raw.get("content", ())):
        stem = "output_text" if raw["type"] == "message" else "reasoning_text"
        yield Fragments(stem, "text", {"content_index": number}, part["text"])
    for number, part in enumerate(raw.get("summary", ())):
        yield Fragments("reasoning_summary_text", "text", {"summary_index": number}, part["text"])
    for number, command in enumerate(raw.get("action", {}).get("commands", ())):
        yield Fragments("shell_call_command", "command", {"command_index": number}, command)
    for kind, stem, key in (
        ("function_call", "function_call_arguments", "arguments"),
        ("custom_tool_call", "custom_tool_call_input", "input"),
        ("code_interpreter_call", "code_interpreter_call_code", "code"),
    ):
        if raw["type"] == kind:
            yield Fragments(stem, key, {}, raw[key])
    if raw["type"] == "apply_patch_call":
        yield Fragments("apply_patch_call_operation_diff", "diff", {}, raw["operation"]["diff"])


@st.composite
def told(draw: st.DrawFn, index: int, raw: Wire) -> list[Wire]:
    """
    Frames of one item: deltas that stop anywhere, done events that may be missing, annotations that may have events of their own.
    """
    wire = [added(index, raw["type"], **{key: raw[key] for key in ("id", "call_id", "name", "action", "phase") if key in raw})]
    for text in fragments(raw):
        cuts = sorted(draw(st.lists(st.integers(0, len(text.said)), max_size=3)))
        pieces = [text.said[start:end] for start, end in zip([0, *cuts], cuts, strict=False)]
        wire += [ev(f"{text.stem}.delta", index, delta=piece, item_id=raw["id"], **text.place) for piece in pieces]
        if draw(st.booleans()):
            wire.append(ev(f"{text.stem}.done", index, item_id=raw["id"], **text.place, **{text.key: text.said}))
    for number, part in enumerate(raw["content"] if raw["type"] == "message" else ()):
        for place, annotation in enumerate(part["annotations"][: draw(st.integers(0, 2))]):
            wire.append(ev("output_text.annotation.added", index, content_index=number, annotation_index=place, annotation=annotation))
        if draw(st.booleans()):
            wire.append(ev("content_part.done", index, content_index=number, part=part))
    return [*wire, done(index, raw)] if draw(st.booleans()) else wire


@st.composite
def streams(draw: st.DrawFn) -> tuple[list[Wire], Wire]:
    """
    A stream and its terminal response: items interleaved, ids rotating, the terminal's output empty where every item was done.
    """
    output = draw(outputs())
    queues = [draw(told(number, raw)) for number, raw in enumerate(output)]
    wire: list[Wire] = []
    while any(queues):
        queue = draw(st.sampled_from([queue for queue in queues if queue]))
        wire.append(queue.pop(0))
    end = completed(*output)
    if draw(st.booleans()):
        wire = [_rotated(value, number) for number, value in enumerate(wire)]
    if {value["output_index"] for value in wire if value["type"].endswith("item.done")} == set(range(len(output))) and draw(st.booleans()):
        return [created(), *wire, completed()], end["response"]
    return [created(), *wire, end], end["response"]


def _rotated(value: Wire, number: int) -> Wire:
    """
    The same event under another id.
    """
    fresh = dict(value)
    if "item_id" in fresh:
        fresh["item_id"] = f"rotated_{number}"
    if "item" in fresh:
        fresh["item"] = fresh["item"] | {"id": f"rotated_{number}"}
    return fresh


def known(response: ChatResponse) -> dict[str, Any]:
    """
    What an answer says, apart from ids and numbers of its items, and from their order, which is that of their first content.
    """
    return {
        "parts": sorted(f"{type(part).__name__} {_without_ids(attrs.asdict(part))}" for part in response.parts),
        "finish": (response.finish_reason, response.finish_reason_raw, response.verdict),
        "usage": response.usage,
        "unknown": response.unknown,
    }


def _without_ids(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _without_ids(inner) for key, inner in value.items() if key not in ("id", "item_id", "index", "metadata")}
    return [_without_ids(inner) for inner in value] if isinstance(value, list) else value


@given(streams())
def test_stream_equals_body(pair: tuple[list[Wire], Wire]) -> None:
    """
    Everything is said, and once, whichever of the three tellings brings it: deltas, done events, the terminal response.
    """
    wire, body = pair
    events, error = whole(sse(wire))
    assert error is None
    assert [] == violations(events)
    assert known(answer_of_body(body)) == known(final(events))


@given(streams(), st.data())
def test_cuts(pair: tuple[list[Wire], Wire], data: st.DataObject) -> None:
    """
    What comes out does not depend on how the bytes were cut (contract E9).
    """
    body = sse(pair[0])
    cuts = data.draw(st.lists(st.integers(0, len(body)), max_size=6))
    expected = whole(body)
    assert expected == whole(body, cuts)
    assert expected == whole(body, 7)


@given(streams(), st.data())
def test_truncation(pair: tuple[list[Wire], Wire], data: st.DataObject) -> None:
    """
    A body cut anywhere before its last byte is no answer; its events are a balanced stream (contract V5, E2).
    """
    body = sse(pair[0])
    events, error = whole(body[: data.draw(st.integers(0, len(body) - 1))])
    assert isinstance(error, RxchatError)
    assert error.verdict in (Verdict.INCOMPLETE_STREAM, Verdict.INVALID_UTF8)
    assert [] == violations(events)


@given(streams(), st.data())
def test_garbage(pair: tuple[list[Wire], Wire], data: st.DataObject) -> None:
    """
    Frames lost, doubled, moved or with other values in them: events or an error of ours, and always a balanced stream.
    """
    wire = list(pair[0])
    for _ in range(data.draw(st.integers(1, 4))):
        place = data.draw(st.integers(0, len(wire) - 1))
        match data.draw(st.sampled_from(["lose", "double", "move", "change"])):
            case "lose" if len(wire) > 1:
                del wire[place]
            case "double":
                wire.insert(place, wire[place])
            case "move":
                wire.insert(data.draw(st.integers(0, len(wire) - 1)), wire.pop(place))
            case _:
                key = data.draw(st.sampled_from(sorted(wire[place])))
                wire[place] = wire[place] | {key: data.draw(st.sampled_from([None, 0, -1, 10**12, "", "x", [], {}, True, 1.5, [{}], {"type": []}]))}
    events, error = whole(sse(wire))
    assert error is None or isinstance(error, RxchatError)
    assert [] == violations(events)


# --- recorded bodies ------------------------------------------------------------------------------------------------------------------------------


def recorded() -> Iterator[tuple[str, bytes, dict[str, Any]]]:
    """
    The recorded streams: name, body, what it is.
    """
    for path in sorted(shared("corpus", "openai-responses").glob("*.wire")):
        case = json.loads(path.with_suffix(".json").read_text())
        if case["http"]["status"] == 200:
            yield path.stem, path.read_bytes(), case


def frames_of(body: bytes) -> list[Wire]:
    """
    The JSON of its events, by a reader of its own.
    """
    lines = [line[5:].strip() for line in body.replace(b"\r\n", b"\n").split(b"\n") if line.startswith(b"data:")]
    return [json.loads(line) for line in lines if line != b"[DONE]"]


def sealed_apart(response: ChatResponse) -> dict[str, Any]:
    """
    An answer without its ciphertexts: providers encrypt anew for every event.
    """
    plain = []
    for part in response.parts:
        if isinstance(part, RedactedThinkingPart | ProviderItemPart):
            continue
        plain.append(attrs.evolve(part, signature=None) if isinstance(part, ThinkingPart) else part)
    return known(attrs.evolve(response, parts=tuple(plain)))


def test_recorded_streams_equal_their_bodies() -> None:
    """
    A recorded stream and the response it ends with, read as a body, give one answer; where that lists its items.
    """
    ran = 0
    for name, body, _ in recorded():
        wire = frames_of(body)
        response = wire[-1].get("response", {})
        if response.get("status") in ("completed", "incomplete") and response["output"]:
            ran += 1
            streamed = final(whole(body)[0])
            streamed = attrs.evolve(streamed, unknown={})
            assert (name, sealed_apart(answer_of_body(response))) == (name, sealed_apart(streamed))
    print(f"{ran} recorded streams equal their bodies")
    assert ran > 50


def test_recorded_server_tools_and_images() -> None:
    """
    Each server tool, provider item and image of a recording is there once.
    """
    ran = 0
    for name, body, case in recorded():
        expect, response = case["expect"], final(whole(body)[0])
        kinds = [getattr(part, "kind", None) or getattr(part, "type", None) for part in response.parts]
        tools = [kind for kind in kinds if kind not in (None, "reasoning", "image", "function", "custom")]
        assert (name, sorted(tool["type"] for tool in expect["server_tools"])) == (name, sorted(map(str, tools)))
        assert (name, [image["b64_len"] for image in expect.get("media", ())]) == (name, [len(part.data or "") for part in response.media])
        assert (name, len(expect["citations"])) == (name, len(response.citations))
        ran += 1
    print(f"{ran} recordings have their tools, images and citations")
    assert ran > 50


@pytest.mark.parametrize("end", ["completed", "incomplete"])
def test_a_long_text_is_linear(end: str) -> None:
    """
    Final forms are compared, not searched: a text of many pieces costs what its pieces cost.
    """
    pieces = ["ab "] * 20_000
    wire = [created(), added(0, "message", id="m"), *[ev("output_text.delta", 0, content_index=0, delta=piece) for piece in pieces]]
    whole_text = {"type": "output_text", "text": "".join(pieces)}
    response = answer(
        [*wire, ev("content_part.done", 0, content_index=0, part=whole_text), completed({"type": "message", "content": [whole_text]}, end=end)]
    )
    assert "".join(pieces) == response.text


def terminal(count: int, *, seen: bool, kind: str = "message") -> int:
    """
    What it takes to read a terminal response that lists so many items, announced before or not.
    """
    items: list[Wire] = [{"type": kind, "id": f"i{k}"} for k in range(count)]
    stage = DIALECT.parser(DIALECT.context())
    for frame in frames([created(), *(added(k, items[k]) for k in range(count) if seen)]):
        stage.feed(frame, _drop)

    (last,) = frames([completed(*items)])

    def end() -> None:
        with suppress(StreamDone):
            stage.feed(last, _drop)

    return opcodes(end)


def _drop(event: ChatEvent) -> None:
    """
    Nobody listens.
    """


@pytest.mark.parametrize("seen", [True, False])
@pytest.mark.parametrize("kind", ["message", "web_search_call"])
def test_a_long_list_is_linear(seen: bool, kind: str) -> None:
    """
    Twice the items of a terminal response are twice the work.
    """
    assert terminal(400, seen=seen, kind=kind) < 2.2 * terminal(200, seen=seen, kind=kind)


def spoken(words: str) -> Wire:
    """
    A piece of visible text.
    """
    return ev("output_text.delta", 0, content_index=0, delta=words)


SHORT: dict[str, tuple[Wire, Wire]] = {
    "no text": (spoken("x" * 1_000_000), ev("output_text.done", 0, content_index=0, text="")),
    "a part without text": (spoken("x" * 1_000_000), ev("content_part.done", 0, content_index=0, part=output_text(""))),
    "another text": (spoken("x" * 1_000_000), ev("output_text.done", 0, content_index=0, text="y")),
    "a text in white space": (spoken("x" + " " * 1_000_000), ev("output_text.done", 0, content_index=0, text="x")),
    "the same JSON": (
        ev("function_call_arguments.delta", 0, delta="{" + " " * 1_000_000 + "}"),
        ev("function_call_arguments.done", 0, arguments="{}"),
    ),
}


@pytest.mark.parametrize(("said", "final"), SHORT.values(), ids=SHORT)
def test_a_final_form_costs_what_is_in_it(said: Wire, final: Wire) -> None:
    """
    Told again, a short final form costs little, however much was said, also where white space comes between.
    """
    stage = DIALECT.parser(DIALECT.context())
    blank, again = frames([said | {"delta": " "}, final])
    for frame in (*frames([created(), said, final]), blank, again, blank):
        stage.feed(frame, _drop)
    assert peak(lambda: stage.feed(again, _drop)) < 100_000


blanks = st.text(" \n\u00a0é🙂a", max_size=4)


@given(st.lists(st.tuples(blanks, blanks | st.none()), max_size=6))
def test_remainders(told: list[tuple[str, str | None]]) -> None:
    """
    What a final text has beyond what was said so far; white space at the ends is no contradiction. None stands for all that was said.
    """
    said, before = ToldText(), ""
    for piece, end in told:
        said.add(piece)
        before += piece
        text = f" {before}".rstrip() if end is None else end
        wanted = text[len(before) :] if text.startswith(before) else "" if not text or text.strip() == before.strip() else None
        assert wanted == said.remainder(text)
        assert text.endswith(before) is said.ends(text)
