"""
One conversation of each dialect over real HTTP, its transfer ended after every byte: cleanly, broken off, reset (contract V5, P9, E10).

What the answer is at each place is told by readers of their own (protocol_ends), not by the parsers.
"""

from __future__ import annotations

import asyncio
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import accumulate, chain, cycle, product

import attrs
import pytest

from rxchat.client.call import Call, Exchange
from rxchat.client.http_body import http_body
from rxchat.client.settings import HttpSettings
from rxchat.dialects import get_dialect
from rxchat.errors import Verdict
from rxchat.events import ChatEvent, ErrorEvent, Phase, Raw, ResponseEnd, ResponseStart, StepEnd, StepStart, ToolCallEnd
from rxchat.filters import all_events, guarded
from rxchat.outgoing.common import WireRequest
from rxchat.pipeline import Head, response_stage
from rxchat.response import ChatResponse, ThinkingPart, ToolCall, Usage
from rxchat.testing import FakeAnswer, FakeProvider, FakeRequest, Fault, Faulty, grammar_violations
from rxchat.testing.faults import Writes
from rxchat.testing.wires import WIRES, wire_for
from tests.protocol_ends import ENDS, events_of
from tests.shared_data import EXHAUSTIVE

ROME = ToolCall(id="call_rome", name="weather", arguments_text='{"city":"Róme"}')
UTC = ToolCall(id="call_utc", name="clock", arguments_text='{"zone":"UTC"}')
USAGE = Usage(input_tokens=11, output_tokens=7, total_tokens=18)
TALK = FakeAnswer(ThinkingPart("Where is it, hé?"), "Grüße, I look 🌍.", ROME, UTC, usage=USAGE, piece=5)
# Thinking is a plan in front of its calls there.
TALKS: Mapping[str, FakeAnswer] = {
    "cohere-v1": FakeAnswer(ThinkingPart("Where is it, hé?", item_id="tool_plan"), ROME, UTC, usage=USAGE, piece=5),
}
WAYS = ("cut_after", "break_after", "reset_after")
SETTINGS = HttpSettings(retry=None)
AT_ONCE = 12
ALL = 1 << 30


# --- the conversation over HTTP -------------------------------------------------------------------------------------------------------------------


def script(request: FakeRequest) -> Faulty:
    """
    The question, or the query, names the fault.
    """
    found = re.search(rb"(cut_after|break_after|reset_after)=(\d+)", request.body)
    assert found is not None
    way, at = found[1].decode(), int(found[2])
    # Now and then a write a frame, mostly all at once.
    writes: Writes = "frame" if at % 5 == 0 else ALL
    return TALKS.get(request.dialect, TALK).with_fault(Fault(**{way: at}, writes=writes))  # type: ignore[arg-type]


def open_call(provider: FakeProvider, dialect: str) -> Callable[[str], Call]:
    """
    What asks that question; of a dialect that builds no requests, one made by hand.
    """
    if get_dialect(dialect).request is not None:
        model = provider.model(dialect, settings=SETTINGS, provenance=True)
        return lambda question: model.open(question, event_filter=all_events())

    def by_hand(question: str) -> Call:
        heads: list[Head] = []
        wire = WireRequest(provider.url(dialect), {"stream": True, "message": question})
        envelope = response_stage(dialect, head=lambda: heads[-1] if heads else Head(), provenance=True)
        return Call(lambda: Exchange(lambda told: http_body(wire, heads.append, on_connected=told), envelope), guarded(all_events()), SETTINGS)

    return by_hand


@attrs.frozen
class Got:
    """
    What a call made of an answer.
    """

    events: Sequence[ChatEvent]
    verdict: Verdict | None
    response: ChatResponse


async def ask(ask_model: Callable[[str], Call], way: str, at: int) -> Got:
    """
    One request whose answer ends that way behind so many bytes.
    """
    call = ask_model(f"{way}={at}")
    events: list[ChatEvent] = []
    ended = asyncio.Event()
    call.events.subscribe(events.append, lambda _: ended.set(), ended.set)
    async with asyncio.timeout(60):
        await ended.wait()
    return Got(events, call.verdict, call.response)


# --- what must hold at each place -----------------------------------------------------------------------------------------------------------------

# These say themselves that they are over; the others are over when the transfer is.
SEALS: Mapping[str, Callable[[bytes], bool]] = {
    "openai-chat": lambda body: b"[DONE]" in events_of(body)[0],
    "mistral": lambda body: b"[DONE]" in events_of(body)[0],
    "bedrock-converse": lambda body: b"metadata" in body and ENDS["bedrock-converse"](body),
    # A line without its end is a line only where the transfer ended well.
    "ollama": lambda body: ENDS["ollama"](body[: body.rfind(b"\n") + 1]),
    "cohere-v1": lambda body: ENDS["cohere-v1"](body[: body.rfind(b"\n") + 1]),
    **dict.fromkeys(("gemini", "dashscope", "bedrock-invoke"), lambda body: False),
}


BINARY = ("bedrock-converse", "bedrock-invoke")


def expected_verdict(dialect: str, way: str, body: bytes) -> Verdict:
    """
    By the table of ends alone; text that ends inside a code point is no text (contract B1).
    """
    if way == "cut_after":
        if not ENDS[dialect](body):
            return Verdict.INCOMPLETE_STREAM if dialect in BINARY or is_utf8(body) else Verdict.INVALID_UTF8
        return Verdict.COMPLETE
    return Verdict.COMPLETE if SEALS.get(dialect, ENDS[dialect])(body) else Verdict.CONNECTION_LOST


def is_utf8(body: bytes) -> bool:
    """
    Whether it is, to its last byte.
    """
    try:
        body.decode()
    except UnicodeDecodeError:
        return False
    return True


def plain(event: ChatEvent) -> object:
    """
    An event without what differs from answer to answer: the local id of the response.
    """
    return event.type if isinstance(event, ResponseStart | StepEnd | ResponseEnd | ErrorEvent) else event


def wrong_with(dialect: str, way: str, body: bytes, got: Got, whole: Got) -> Iterator[str]:
    """
    What breaks a rule, in words.
    """
    verdict = expected_verdict(dialect, way, body)
    if got.verdict is not verdict:
        yield f"V5: {got.verdict}, not {verdict}"
    if got.response.committable is not (verdict is Verdict.COMPLETE):
        yield f"V2: committable {got.response.committable} with {got.verdict}"
    if got.response.verdict is not got.verdict:
        yield f"V4: the response says {got.response.verdict}, the call {got.verdict}"
    yield from grammar_violations(got.events)
    yield from wrong_prefix(len(body), got, whole)


def wrong_prefix(length: int, got: Got, whole: Got) -> Iterator[str]:
    """
    E10: the events of the whole answer as far as its bytes have come, then only what closes.
    """
    here, all_of_it = [plain(event) for event in got.events], [plain(event) for event in whole.events]
    same = next((k for k, (a, b) in enumerate(zip(here, all_of_it, strict=False)) if a != b), min(len(here), len(all_of_it)))
    # The last two bytes may belong to a line end that is not over; the end may say more than its frame alone.
    due = [k for k, event in enumerate(whole.events) if event.span and event.span[1] <= length - 2 and not isinstance(event, StepEnd | ResponseEnd)]
    if due and same <= due[-1]:
        yield f"E10: event {same} is not {all_of_it[same]}"
    for event in got.events[same:]:
        # A last line that was cut is no field: told as it is, in a step (contract P8).
        stray = isinstance(event, Raw) and event.name == "stray"
        closes = event.phase is Phase.END or event.terminal or stray or isinstance(event, StepStart)
        if not closes or (isinstance(event, ToolCallEnd) and event.tool_call.complete):
            yield f"E10: {event} is not in the whole answer at this place, and closes nothing"


def cuts(frames: Sequence[bytes]) -> Iterator[tuple[str, int]]:
    """
    Every way at every byte; or the ways in turn, around the borders of frames and at every 13th, and every way around the last borders.
    """
    borders = [0, *accumulate(map(len, frames))]
    size = borders[-1]
    around = {border + shift for border in borders for shift in range(-2, 3)}
    sample = [place for place in sorted(around | {*range(0, size, 13)}) if 0 <= place <= size]
    if EXHAUSTIVE:
        return product(WAYS, range(size + 1))
    ends = [place for place in sample if place >= borders[-3] - 2]
    return chain(zip(cycle(WAYS), sample), product(WAYS, ends))


# --- the tests ------------------------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dialect", sorted(WIRES))
async def test_every_cut(dialect: str, record_property: Callable[[str, object], None]) -> None:
    """
    At no place is an answer complete before its protocol's end, and nothing that came before the cut is lost.
    """
    async with FakeProvider(script) as provider:
        ask_model = open_call(provider, dialect)
        whole = await ask(ask_model, "cut_after", 10**9)
        assert (Verdict.COMPLETE, 2, True) == (whole.verdict, len(whole.response.tool_calls), whole.response.usage is not None)
        frames = list(wire_for(provider.requests[0]).frames(TALKS.get(dialect, TALK)))
        body = b"".join(frames)
        todo = list(cuts(frames))
        asked = len(todo)
        seen: Counter[str] = Counter()
        faults: list[str] = []

        async def work() -> None:
            while todo:
                way, place = todo.pop()
                got = await ask(ask_model, way, place)
                seen[f"{way} {got.verdict}"] += 1
                faults.extend(f"{way} {place}: {fault}" for fault in wrong_with(dialect, way, body[:place], got, whole))

        await asyncio.gather(*(work() for _ in range(AT_ONCE)))
        provider.requests.clear()
    record_property("cuts", dict(seen))
    print(f"{dialect}: {len(body)} bytes, {asked} cuts, {dict(sorted(seen.items()))}")
    assert faults == []
    assert asked == seen.total()
