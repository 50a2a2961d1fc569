"""
Frames that repeat the one before are read by a template: nothing that comes out may tell.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import attrs
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks.workloads import workload
from rxchat.dialects import base, get_dialect
from rxchat.dialects.base import Context, Dialect, Parser
from rxchat.limits import Limits
from rxchat.strictjson import dumps
from rxchat.templates import template
from rxchat.testing import replay
from tests.recorded import recorded_cases, recorded_ids
from tests.shared_data import SHARED, has_shared

BODIES = sorted(Path(__file__).parent.parent.glob("corpus/*/*.sse"))
RECORDED = [name for name in ("openai-chat", "openai-responses", "anthropic", "mistral", "bedrock-invoke") if has_shared("corpus", name)]


def without_templates(name: str) -> Dialect:
    """
    That dialect, every frame of it parsed.
    """
    dialect = get_dialect(name)

    def parser(context: Context) -> Parser:
        made = dialect.parser(context)
        made.repeats = lambda value, event: None  # type: ignore[method-assign]
        return made

    return attrs.evolve(dialect, parser=parser)


def same(body: bytes, dialect: str, **settings: Any) -> None:
    """
    Both read it as the same events, from the same bytes, with the same end.
    """
    assert replay(body, without_templates(dialect), **settings).facts == replay(body, dialect, **settings).facts


@pytest.mark.parametrize("path", BODIES, ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_own_bodies_are_read_the_same(path: Path) -> None:
    """
    Each oddity.
    """
    same(path.read_bytes(), path.parent.name)


@pytest.mark.parametrize("name", RECORDED)
def test_recorded_bodies_are_read_the_same(name: str) -> None:
    """
    Real streams, where they are here.
    """
    folder = SHARED / "corpus" / name
    cases = [recorded_cases(folder, case) for case in recorded_ids(folder)]
    for case in cases:
        same(case.body, case.dialect, status=case.status, content_type=case.content_type, options=dict(case.options))
    assert cases


@pytest.mark.parametrize("name", ["W1", "W2", "W3", "W4"])
def test_templates_are_used(name: str) -> None:
    """
    Of a thousand frames that say another piece nearly all are read without being parsed, and say the same.
    """
    work = workload(name, 0.05)
    dialect = get_dialect(work.dialect)
    parsed = []

    def parser(context: Context) -> Parser:
        made = dialect.parser(context)
        on_event = made.on_event
        made.on_event = lambda value, event, emit: (parsed.append(event), on_event(value, event, emit))[1]  # type: ignore[func-returns-value,method-assign]
        return made

    assert replay(work.body, without_templates(work.dialect)).facts == replay(work.body, attrs.evolve(dialect, parser=parser)).facts
    assert len(parsed) < 25


@pytest.mark.parametrize(
    "key",
    [
        pytest.param(lambda number: {"x": number // 3}, id="each serves for three frames"),
        pytest.param(lambda number: {"created": number, "x": "a" * 600}, id="none can be made"),
    ],
)
def test_streams_that_gain_nothing_are_tried_a_few_times(key: Callable[[int], Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """
    Each time twice as many frames pass before the next try.
    """
    made = []

    def counted(raw: bytes, *args: Any) -> Any:
        made.append(raw)
        return template(raw, *args)

    monkeypatch.setattr(base, "template", counted)
    frames = [{**key(number), "choices": [{"index": 0, "delta": {"content": "a"}}]} for number in range(2000)]
    assert replay(sse(*frames), "openai-chat").response.text == "a" * 2000
    assert 1 < len(made) < 12


def sse(*values: Any, name: str = "") -> bytes:
    """
    Events of these values, written without spaces.
    """
    return b"".join(f"{name and f'event: {name}'}\ndata: {dumps(value)}\n\n".lstrip().encode() for value in values)


def chat(delta: Any, **beside: Any) -> bytes:
    choice = {"index": beside.pop("index", 0), "delta": delta, "finish_reason": beside.pop("finish", None), **beside.pop("choice", {})}
    return sse({"id": "c1", "created": beside.pop("created", 17), "model": "m", "choices": [choice], **beside})


def tool(index: int, text: str, **more: Any) -> Any:
    return {"tool_calls": [{"index": index, **more, "function": {"arguments": text}}]}


TEXTS = st.sampled_from(["a", " word", 'say "so"', "é", "\n", "😀", ""])
CHAT = st.one_of(
    TEXTS.map(lambda text: chat({"content": text})),
    TEXTS.map(lambda text: chat({"content": text}, obfuscation="abc", created=len(text))),
    st.tuples(st.integers(0, 2), TEXTS).map(lambda said: chat(tool(*said))),
    st.builds(
        lambda name, text, beside: chat({name: text, **beside}),
        st.sampled_from(["reasoning_content", "reasoning"]),
        TEXTS,
        st.sampled_from([{}, {"content": None}, {"content": ""}]),
    ),
    TEXTS.map(lambda text: chat({"reasoning_content": text, "reasoning": "both"})),
    st.sampled_from(
        [
            chat(tool(0, "", id="call_0", type="function")),
            chat({"tool_calls": [{"index": 1, "id": "call_1", "function": {"name": "f", "arguments": "{"}}]}),
            chat({"content": "x", "reasoning_content": "y"}),
            chat({"role": "assistant", "content": None}),
            chat({"content": "other"}, index=1),
            chat({"content": "x"}, usage={"prompt_tokens": 1, "completion_tokens": 2}),
            chat({}, finish="stop"),
            chat({}, finish="tool_calls"),
            chat({}, finish="length"),
            b": keep-alive\n\n",
            b'event: strange\ndata: {"id":"c1","created":17,"model":"m","choices":[{"index":0,"delta":{"content":"a"},"finish_reason":null}]}\n\n',
            b'data: {"id":"c1","created":17,"model":"m","choices":[{"index":0,"delta":{"content":"\xff"},"finish_reason":null}]}\n\n',
            b'data: {"id":"c1","created":17,"model":"m","choices":[{"index":0,"delta":{"content":"\\ud83d"},"finish_reason":null}]}\n\n',
            b'data: {"id":"c1","created":17,"model":"m","choices":[{"index":0,"delta":{"content":"a"},"finish_reason":null,"index":0}]}\n\n',
            b"stray line\n\n",
            b"data: [DONE]\n\n",
        ]
    ),
)


def delta(kind: str, key: str, text: str, index: int) -> bytes:
    return sse({"type": "content_block_delta", "index": index, "delta": {"type": kind, key: text}}, name="content_block_delta")


PLACES = st.integers(0, 2)
MESSAGES = st.one_of(
    st.builds(lambda text, index: delta("text_delta", "text", text, index), TEXTS, PLACES),
    st.builds(lambda text, index: delta("thinking_delta", "thinking", text, index), TEXTS, PLACES),
    st.builds(lambda text, index: delta("input_json_delta", "partial_json", text, index), TEXTS, PLACES),
    st.builds(
        lambda block, index: sse({"type": "content_block_start", "index": index, "content_block": block}),
        st.sampled_from(
            [
                {"type": "text", "text": ""},
                {"type": "thinking", "thinking": ""},
                {"type": "tool_use", "id": "t", "name": "f", "input": {}},
                {"type": "new"},
            ]
        ),
        PLACES,
    ),
    PLACES.map(lambda index: sse({"type": "content_block_stop", "index": index})),
    st.sampled_from(
        [
            sse({"type": "ping"}),
            sse({"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 5}}),
            sse({"type": "message_stop"}),
        ]
    ),
)


def piece(kind: str, text: str, number: int, **beside: Any) -> bytes:
    return sse({"type": f"response.{kind}.delta", "output_index": 0, "content_index": 0, "delta": text, "sequence_number": number, **beside})


RESPONSES = st.one_of(
    st.builds(piece, st.sampled_from(["output_text", "refusal", "function_call_arguments", "reasoning_text", "strange"]), TEXTS, PLACES),
    st.builds(lambda text: piece("output_text", text, 3, output_index=1, obfuscation="abc"), TEXTS),
    st.sampled_from(
        [
            sse({"type": "response.output_item.added", "output_index": 0, "item": {"type": "message", "id": "m"}}),
            sse({"type": "response.output_item.added", "output_index": 1, "item": {"type": "function_call", "id": "f", "call_id": "c", "name": "n"}}),
            sse({"type": "response.output_text.done", "output_index": 0, "content_index": 0, "text": "aa"}),
            sse({"type": "response.completed", "response": {"id": "r", "status": "completed", "output": []}}),
        ]
    ),
)
BEGIN = sse({"type": "message_start", "message": {"id": "m", "model": "m", "content": []}})


BOUNDS = st.sampled_from([Limits(), Limits(output=3), Limits(tool_arguments=3), Limits(events=7)])


@pytest.mark.parametrize("dialect, frames, begin", [("openai-chat", CHAT, b""), ("anthropic", MESSAGES, BEGIN), ("openai-responses", RESPONSES, b"")])
@settings(max_examples=300, deadline=None)
@given(data=st.data())
def test_streams_that_repeat_themselves_are_read_the_same(dialect: str, frames: st.SearchStrategy[bytes], begin: bytes, data: st.DataObject) -> None:
    """
    Runs of like frames with anything between them.
    """
    runs = data.draw(st.lists(st.tuples(frames, st.integers(1, 5)), max_size=12))
    same(begin + b"".join(one * count for one, count in runs), dialect, limits=data.draw(BOUNDS))
