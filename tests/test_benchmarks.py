"""
The benchmarks' workloads: each parses to what it claims to hold. Nothing is timed here.
"""

from __future__ import annotations

import pytest

from benchmarks.disconnect import by_close, by_dispose, by_take
from benchmarks.paced import aiohttp_lines, rxchat_stream
from benchmarks.paced_server import Pace, served
from benchmarks.previews import SUBJECTS, text_of
from benchmarks.workloads import WORKLOADS, Workload, workload
from rxchat.errors import Verdict
from rxchat.events import ChatEvent, MediaPartial, ResponseEnd, TextDelta, ThinkingDelta, ToolCallEnd
from rxchat.framing.sse import SseFrame, SseFramer
from rxchat.pipeline import response_stage
from rxchat.stage import run

# Few events, one image.
TINY = {"W1": 0.002, "W2": 0.003, "W3": 0.002, "W4": 0.004, "W5": 0.02, "W6": 0.005}


def _texts(events: list[ChatEvent]) -> dict[str, str]:
    """
    What came out, under the names of the workloads' claims.
    """
    texts = {
        "text": "".join(event.text for event in events if isinstance(event, TextDelta)),
        "thinking": "".join(event.text for event in events if isinstance(event, ThinkingDelta)),
        "arguments": "".join(event.tool_call.arguments_text for event in events if isinstance(event, ToolCallEnd)),
        "media": "".join(event.data or "" for event in events if isinstance(event, MediaPartial)),
    }
    return {name: text for name, text in texts.items() if text}


@pytest.fixture(params=sorted(WORKLOADS))
def load(request: pytest.FixtureRequest) -> Workload:
    return workload(request.param, TINY[request.param])


def test_it_holds_the_texts_it_claims(load: Workload) -> None:
    """
    The parsed texts, thinking, arguments and media are those of the claim, and the answer is whole.
    """
    events = list(run(response_stage(load.dialect), load.reads))
    end = events[-1]
    assert load.texts == _texts(events)
    assert isinstance(end, ResponseEnd)
    assert Verdict.COMPLETE == end.response.verdict
    assert load.texts.get("text", "") == end.response.text


def test_it_has_as_many_events_as_it_claims(load: Workload) -> None:
    """
    The framer finds the number of events the cost is divided by, however the body is read.
    """
    frames: list[SseFrame] = list(run(SseFramer(), load.reads))
    assert load.events == len(frames)
    assert load.body == b"".join(load.reads)


@pytest.mark.parametrize("name", sorted(WORKLOADS))
def test_it_is_the_same_on_every_run(name: str) -> None:
    """
    Two calls make equal bytes, and a larger scale more of them.
    """
    tiny = workload(name, TINY[name])
    assert tiny == workload(name, TINY[name])
    assert len(tiny.body) < len(workload(name, 3 * TINY[name]).body)


# --- paced streams --------------------------------------------------------------------------------------------------------------------------------


async def test_the_paced_server_sends_what_is_asked() -> None:
    """
    Each subject sees every event of every stream, each with its stamp.
    """
    pace = Pace(200, 5)
    assert pace == Pace.of(pace.model)
    async with served() as server:
        for subject in (rxchat_stream, aiohttp_lines):
            seen: list[tuple[int, str]] = []
            await subject(server.url, [pace] * 3, lambda *event, seen=seen: seen.append(event))
            assert [0] * 5 + [1] * 5 + [2] * 5 == sorted(stream for stream, _ in seen)
            assert len({stamp for _, stamp in seen}) == 15


async def test_the_paced_server_tells_who_left() -> None:
    """
    However a client leaves, the server sees it.
    """
    async with served() as server:
        for stream, leaver in enumerate((by_close, by_dispose, by_take)):
            left = await leaver(server.url, Pace(200, 1_000_000, stream=stream))
            assert left < await server.left(stream)


def test_previews_of_the_benchmark() -> None:
    """
    The growing text is of about the size it claims, and every subject can read it.
    """
    text = text_of(2000)
    assert abs(len(text) - 2000) < 100
    for subject in SUBJECTS.values():
        subject(text)
