"""
Answers with calls that are cut anywhere, and recorded ones: a tool runs only where the protocol's own end came (contract T1, P9).
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from rxchat.client import HttpSettings
from rxchat.dialects import get_dialect
from rxchat.errors import ConnectionLostError, Verdict
from rxchat.pipeline import Head
from rxchat.prompt import ToolSpec
from rxchat.refusals import media_type
from rxchat.response import ServerToolPart, ToolCall
from rxchat.testing import FakeAnswer, FakeBody, FakeProvider
from rxchat.testing.bodies import borders_of
from rxchat.testing.wires import get_wire
from rxchat.tools import Tool
from tests.client.hand import Hand
from tests.client.stepping import DIALECTS, Weather, a_call, idle, stepping
from tests.client.watching import Watcher
from tests.grammar import violations
from tests.protocol_ends import ENDS
from tests.recorded import read, recorded_cases, recorded_ids
from tests.shared_data import EXHAUSTIVE, SHARED, has_shared

OPTIONS: Mapping[str, Mapping[str, Any]] = {"dashscope": {"incremental_output": True}}
TURNS = 12


def body_of(dialect: str) -> tuple[bytes, str]:
    """
    An answer with two calls, and its content type.
    """
    wire = get_wire(dialect)
    answer = FakeAnswer("Look:", a_call(1, '{"city":"Rome"}'), a_call(2, '{"city":"Paris"}'), piece=5)
    return b"".join(wire.frames(answer)), wire.content_type


def places(body: bytes, dialect: str, content_type: str) -> list[int]:
    """
    Where to cut: everywhere, or around every border and at every 29th byte.
    """
    if EXHAUSTIVE:
        return list(range(len(body) + 1))
    framing = get_dialect(dialect).framings[media_type(content_type) or ""]
    around = {border + shift for border in borders_of(body, framing) for shift in (-2, -1, 0, 1, 2)}
    return sorted(place for place in around | set(range(0, len(body), 29)) if 0 <= place <= len(body))


async def cut_at(body: bytes, content_type: str, dialect: str, place: int, broken: bool) -> tuple[Hand, Weather]:
    """
    The call, when the body has ended there and whatever wants to run has had its turns.
    """
    weather = Weather()
    hand = stepping([weather.tool], dialect=dialect, options=OPTIONS.get(dialect), retry=None)
    hand.head = Head(200, {"content-type": content_type})
    hand.begin().body.push(b"", body[:place])
    if not hand.body.left:
        hand.body.fail(ConnectionLostError("gone")) if broken else hand.body.end()
    for _ in range(TURNS):
        await asyncio.sleep(0)
    return hand, weather


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize("broken", [False, True], ids=["clean", "broken"])
async def test_cut_at_any_byte_no_tool_runs(dialect: str, broken: bool) -> None:
    """
    With a clean end of the transfer, and with a broken one: both tools run behind the protocol's end, and none before.
    """
    body, content_type = body_of(dialect)
    ran = 0
    for place in places(body, dialect, content_type):
        hand, weather = await cut_at(body, content_type, dialect, place, broken)
        whole = ENDS[dialect](body[:place])
        assert not weather.ran or whole, f"{dialect} cut at {place}"
        assert broken or bool(weather.ran) == whole, f"{dialect} cut at {place}"
        if not weather.ran:
            assert (violations(hand.watcher.items), len(hand.bodies)) == ([], 1), f"{dialect} cut at {place}"
        else:
            assert sorted(weather.ran) == ["Paris", "Rome"]
        ran += bool(weather.ran)
        hand.call.dispose()
    assert await idle() == []
    # Where the clean end of the transfer is part of the protocol, a broken one never runs a tool.
    assert ran > 0 or broken


# --- recorded bodies ------------------------------------------------------------------------------------------------------------------------------

FOLDERS = [name for name in DIALECTS if has_shared("corpus", name)]


def with_calls(folder: str) -> Iterator[str]:
    """
    The recorded bodies in which the model calls something.
    """
    for name in recorded_ids(SHARED / "corpus" / folder):
        case = recorded_cases(SHARED / "corpus" / folder, name)
        if case.status == 200 and read(case).response.tool_calls:
            yield name


def any_tool(call: ToolCall, ran: list[str]) -> Tool[..., Any]:
    """
    A tool of that name that takes everything.
    """

    def run(**arguments: Any) -> str:
        ran.append(call.name)
        return "done"

    spec = ToolSpec(call.name, parameters={"type": "object"}, kind=call.kind)
    return Tool(run, spec)


@pytest.mark.skipif(not FOLDERS, reason="recorded data absent: corpus")
@pytest.mark.parametrize("folder", FOLDERS)
async def test_recorded_calls_run_exactly_where_their_answer_is_whole(folder: str) -> None:
    """
    Replayed over HTTP, then asked again with what came of them.
    """
    names = list(with_calls(folder))
    for name in names if EXHAUSTIVE else names[:: max(1, len(names) // 12)]:
        await replayed(folder, name)
    print(f"\n{folder}: {len(names)} recorded bodies with calls")


async def replayed(folder: str, name: str) -> None:
    case = recorded_cases(SHARED / "corpus" / folder, name)
    reading = read(case)
    wanted = [call for call in reading.response.tool_calls if not call.server_executed]
    for_client = any(isinstance(part, ServerToolPart) and part.needs_client for part in reading.response.parts)
    whole = reading.verdict is Verdict.COMPLETE and not for_client and all(call.complete for call in wanted)
    ran: list[str] = []
    tools = list({call.name: any_tool(call, ran) for call in wanted}.values())
    async with FakeProvider([FakeBody(case.body, case.content_type), FakeAnswer("Done.")]) as provider:
        model = provider.model(folder, settings=HttpSettings(retry=None), options=case.options)
        call = model.open("Hi", tools=tools)
        watcher = await Watcher().watch(call.events).end()
    runnable = [said.name for said in wanted if said.arguments is not None or said.kind == "custom"] if whole else []
    assert (sorted(ran), violations(watcher.items)) == (sorted(runnable), []), name
    assert len(provider.requests) == (2 if whole and wanted else 1), (name, watcher.error)
    expected = Verdict.COMPLETE if whole else reading.verdict
    assert call.verdict is expected, (name, watcher.error)
