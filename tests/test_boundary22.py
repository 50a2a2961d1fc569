"""
The boundary study's cases through real loopback HTTP, in the profile strict_text.

RXCHAT_EVIDENCE=FILE has this module write what it saw as JSON lines; `python tests/audit_boundary22.py FILE` judges them, knowing nothing of rxchat.
"""

from __future__ import annotations

import asyncio
import base64
import hashlib
import json
import os
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from rxchat.client import Call, ChatModel, HttpSettings
from rxchat.errors import Verdict
from rxchat.events import ChatEvent, ResponseEnd, TextDelta
from rxchat.pipeline import Head, response_stage
from rxchat.stage import StreamDone
from tests.boundary22 import ANSWER, CASES, EXTRA, FIN, FIRST, GOOD, HELLO, Case
from tests.client.watching import Watcher, settled
from tests.loopback import answer, hold, in_turn, loopback
from tests.shared_data import EXHAUSTIVE

CAPS = {"one": 1, "seven": 7, "whole": None}
BEFORE = ("an earlier question", "an earlier answer")
QUESTION = "the question"


@pytest.fixture(scope="module")
def evidence() -> Iterator[list[dict[str, Any]]]:
    """
    What was seen, written down where RXCHAT_EVIDENCE says.
    """
    rows: list[dict[str, Any]] = []
    yield rows
    where = os.environ.get("RXCHAT_EVIDENCE")
    if where:
        Path(where).write_text("".join(f"{json.dumps(row, ensure_ascii=False)}\n" for row in rows), encoding="utf-8")


class Chat:
    """
    A conversation as a bare list: question and answer enter together, from a committable response, or not at all.
    """

    def __init__(self) -> None:
        self.history = list(BEFORE)
        self.preview = ""

    def take(self, event: ChatEvent) -> None:
        """
        Show a delta; commit a whole answer.
        """
        if isinstance(event, TextDelta):
            self.preview += event.text
        elif isinstance(event, ResponseEnd) and event.response.committable:
            self.history += [QUESTION, event.response.text]


async def exchange(case: Case, cap: int | None) -> tuple[Call, Chat, Watcher]:
    """
    One question, to its end or until its consumer leaves.
    """
    chat, left = Chat(), asyncio.Event()

    def on_next(event: ChatEvent) -> None:
        chat.take(event)
        if case.cancel(chat.preview):
            call.dispose()
            left.set()

    async with loopback(case.serve(case)) as server:
        settings = HttpSettings(read_timeout=case.read_timeout, read_size=cap, retry=None)
        call = ChatModel("test-1", base_url=server.url, profile="strict_text", settings=settings).open(QUESTION)
        watcher = Watcher(on_next=on_next).watch(call.events)
        waiting = [asyncio.create_task(watcher.over.wait()), asyncio.create_task(left.wait())]
        done, pending = await asyncio.wait(waiting, timeout=10, return_when=asyncio.FIRST_COMPLETED)
        for task in pending:
            task.cancel()
        assert done, "neither end nor cancellation"
        assert await settled() == []
    return call, chat, watcher


def verify(case: Case, call: Call, chat: Chat, watcher: Watcher) -> None:
    """
    Status, preview and history are as published; on_error for all but a whole or an incomplete answer and a cancelled one.
    """
    assert (case.id, str(call.verdict), chat.preview, len(chat.history)) == (case.id, case.status, case.preview, case.history)
    assert chat.history[:2] == list(BEFORE)
    assert chat.history[2:] == ([QUESTION, case.preview] if case.status == "COMPLETE" else [])
    ends = {"COMPLETE": (1, 0), "INCOMPLETE_FINISH": (1, 0), "CANCELLED": (0, 0)}
    assert (watcher.completed, watcher.failed) == ends.get(case.status, (0, 1))
    if watcher.error is not None:
        assert getattr(watcher.error, "verdict", None) is call.verdict


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_the_bodies_are_the_published_ones(case: Case) -> None:
    """
    Built from the recipe, equal to the published digest.
    """
    assert hashlib.sha256(case.body).hexdigest()[:12] == case.sha256


def test_there_are_22_cases() -> None:
    """
    Six complete, sixteen refused.
    """
    assert (len({case.id for case in CASES}), sum(case.status == "COMPLETE" for case in CASES)) == (22, 6)


@pytest.mark.parametrize("cap", CAPS)
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
async def test_the_published_cases(case: Case, cap: str, evidence: list[dict[str, Any]]) -> None:
    """
    V8: status, preview and history as published, at every read cap.
    """
    call, chat, watcher = await exchange(case, CAPS[cap])
    evidence.append(
        {
            "case": case.id,
            "cap": cap,
            "body_b64": base64.b64encode(case.body).decode(),
            "http_status": case.http_status,
            "content_type": case.content_type,
            "status": str(call.verdict),
            "preview": chat.preview,
            "history_before": len(BEFORE),
            "history_after": len(chat.history),
            "history": chat.history,
        }
    )
    verify(case, call, chat, watcher)


@pytest.mark.parametrize("cap", CAPS)
@pytest.mark.parametrize("case", EXTRA, ids=lambda case: case.id)
async def test_the_cases_the_study_has_not(case: Case, cap: str) -> None:
    """
    Limits at one below, at, and one above; ends, breaks and times between the last frames.
    """
    if cap == "one" and len(case.body) > 10_000 and not EXHAUSTIVE:
        pytest.skip("more than 10,000 reads of one byte: only in an exhaustive run")
    call, chat, watcher = await exchange(case, CAPS[cap])
    verify(case, call, chat, watcher)
    if case.id == "busy":
        assert watcher.error.retry_after == 7.0  # type: ignore[union-attr]


BODIES = tuple(
    case
    for case in (*CASES, *EXTRA)
    if case.body and case.status not in ("CANCELLED", "READ_TIMEOUT", "CONNECTION_LOST", "CONTENT_TYPE", "HTTP_STATUS")
)


@pytest.mark.parametrize("case", BODIES, ids=lambda case: case.id)
def test_no_way_of_cutting_changes_anything(case: Case) -> None:
    """
    E9: the same events and the same error at random splits, with empty reads among them.
    """
    whole = told(case.body, [])
    rounds = 200 if EXHAUSTIVE else 10
    random_cuts = random.Random(case.id)
    for _ in range(rounds):
        count = random_cuts.randint(1, 40)
        assert told(case.body, sorted(random_cuts.randint(0, len(case.body)) for _ in range(count))) == whole
    assert whole[-1].startswith("COMPLETE" if case.status == "COMPLETE" else case.status)


def told(body: bytes, cuts: list[int]) -> list[str]:
    """
    What the pipeline says of a body cut at these places: its events, then the verdict and the place of the failure.
    """
    events: list[ChatEvent] = []
    stage = response_stage("openai-chat", profile="strict_text", head=Head, response_id="r")
    error: Exception | None = None
    try:
        stage.start(events.append)
        for start, end in zip([0, *cuts], [*cuts, len(body)], strict=True):
            stage.feed(body[start:end], events.append)
        stage.flush(events.append)
    except StreamDone:
        pass
    except Exception as failure:
        error = failure
    verdict = getattr(error, "verdict", None) or events[-1].response.verdict  # type: ignore[union-attr]
    return [*(repr(event) for event in events if not event.terminal), f"{verdict} {getattr(error, 'offset', None)}"]


async def test_cancelled_during_the_headers() -> None:
    """
    The consumer leaves before there is an answer at all.
    """
    chat = Chat()
    async with loopback(hold(headers=False)) as server:
        call = ChatModel("test-1", base_url=server.url, profile="strict_text").open(QUESTION)
        watcher = Watcher(on_next=chat.take).watch(call.events)
        await asyncio.wait_for(server.arrived.wait(), 5)
        call.dispose()
        await asyncio.wait_for(server.left.wait(), 5)
        assert await settled() == []
    assert (call.verdict, chat.preview, chat.history, watcher.over.is_set()) == (Verdict.CANCELLED, "", list(BEFORE), False)


@pytest.mark.parametrize("cap", CAPS)
async def test_cancelled_between_finish_and_sentinel(cap: str) -> None:
    """
    All that is missing is `[DONE]`: it is no answer yet.
    """
    chat, shown = Chat(), asyncio.Event()
    async with loopback(hold(HELLO + FIN)) as server:
        call = ChatModel("test-1", base_url=server.url, profile="strict_text", settings=HttpSettings(read_size=CAPS[cap])).open(QUESTION)

        def on_next(event: ChatEvent) -> None:
            chat.take(event)
            if chat.preview:
                shown.set()

        watcher = Watcher(on_next=on_next).watch(call.events)
        await asyncio.wait_for(shown.wait(), 5)
        # The finish is on the wire, and read.
        await asyncio.sleep(0.1)
        call.dispose()
        await asyncio.wait_for(server.left.wait(), 5)
        assert await settled() == []
    assert (call.verdict, chat.preview, chat.history, watcher.over.is_set()) == (Verdict.CANCELLED, FIRST, list(BEFORE), False)


async def test_a_late_completion_writes_nothing() -> None:
    """
    The user has switched to another chat: the first answer, whole as it would be, reaches neither.
    """
    release = asyncio.Event()

    async def late(request: Any) -> Any:
        await release.wait()
        return await answer(GOOD)(request)

    first, second = Chat(), Chat()
    async with loopback(in_turn([late, answer(GOOD)])) as server:
        model = ChatModel("test-1", base_url=server.url, profile="strict_text")
        replaced = model.open(QUESTION)
        Watcher(on_next=first.take).watch(replaced.events)
        await asyncio.wait_for(server.arrived.wait(), 5)
        replaced.dispose()
        await Watcher(on_next=second.take).watch(model.stream(QUESTION)).end()
        release.set()
        assert await settled() == []
    assert (replaced.verdict, first.history, second.history) == (Verdict.CANCELLED, list(BEFORE), [*BEFORE, QUESTION, ANSWER])
