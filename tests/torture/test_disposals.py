"""
Random calls, left in every way at every moment, over real HTTP: nothing is left of them, nothing is said behind the end (contract E8, D4, V4).
"""

from __future__ import annotations

import asyncio
import gc
import time
import tracemalloc
from collections import Counter
from collections.abc import Iterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import aiohttp
import attrs
import pytest

from rxchat.client.http_body import new_session
from rxchat.client.settings import HttpSettings
from rxchat.errors import Verdict, verdict_of
from rxchat.events import Abort, ChatEvent, ErrorEvent, Phase, ResponseEnd, ResponseStart, StepEnd
from rxchat.filters import all_events
from rxchat.testing import FakeProvider, FakeRequest, Faulty, grammar_violations
from tests.shared_data import EXHAUSTIVE
from tests.torture.cases import Case, case_of, expected
from tests.torture.leaving import WAYS
from tests.torture.running import Run
from tests.torture.traces import Noise, connections, sockets_to, tasks, until_none

CASES = 10_000 if EXHAUSTIVE else 500
BATCH = 25
# Behind so many cases whatever is kept for ever is kept.
WARM = CASES // 4
MOST_GROWTH = 1 << 20


@attrs.define(eq=False)
class Script:
    """
    What the provider answers: each request says of which case it is.
    """

    cases: dict[str, Case] = attrs.field(factory=dict)
    requests: dict[str, list[FakeRequest]] = attrs.field(factory=dict)

    def add(self, case: Case) -> None:
        """
        A case whose requests may come now.
        """
        self.cases[case.question] = case
        self.requests[case.question] = []

    def __call__(self, request: FakeRequest) -> Faulty:
        question = next(question for question in self.cases if question.encode() in request.body)
        self.requests[question].append(request)
        return self.cases[question].answer(len(self.requests[question]) - 1)

    def clear(self) -> None:
        """
        Forget them all.
        """
        self.cases.clear()
        self.requests.clear()


# --- what must hold -------------------------------------------------------------------------------------------------------------------------------


def wrong_with(run: Run, requests: list[FakeRequest]) -> Iterator[str]:
    """
    What breaks a rule, in words.
    """
    call = run.call
    if run.late:
        yield f"E8: said behind the end: {run.late}"
    if run.seen or run.case.way == "dispose_before":
        yield from _verdict(run)
    if len(run.told) > 1:
        yield f"E6: ended {len(run.told)} times: {run.told}"
    if call.attempts < len(requests) and run.case.way != "break_a_plain_for":
        yield f"D5: {len(requests)} requests for {call.attempts} attempts"
    if run.events:
        yield from _events(run, requests)


def _verdict(run: Run) -> Iterator[str]:
    call, samples = run.call, run.verdicts
    known = list(dict.fromkeys([*samples, call.verdict]))
    if known not in ([None, call.verdict], [call.verdict]) or call.verdict is None:
        yield f"V4: the verdict was {known}"
    if call.response.verdict is not call.verdict:
        yield f"V4: the response says {call.response.verdict}, the call {call.verdict}"
    said = [said_by(event) for event in run.events if event.terminal] or [Verdict.CANCELLED]
    if said != [call.verdict]:
        yield f"V4: {call.verdict}, and the events say {said}"


def said_by(event: ChatEvent) -> Verdict | None:
    """
    The verdict of a terminal.
    """
    match event:
        case ErrorEvent(error=error):
            return verdict_of(error)
        case Abort():
            return Verdict.ABORTED
        case ResponseEnd(response=response):
            return response.verdict
    return None


def _events(run: Run, requests: list[FakeRequest]) -> Iterator[str]:
    """
    What was seen is the answer as far as it goes; then what closes it, if it was ended from outside; then nothing.
    """
    ended = run.events[-1].terminal
    yield from (f"E: {violation}" for violation in grammar_violations(run.events, whole=ended) if ended or "open" not in violation)
    if not requests:
        if not isinstance(run.events[0], ResponseStart) or any(event.phase is not Phase.END and not event.terminal for event in run.events[1:]):
            yield f"E10: nothing was asked, and yet: {run.events}"
        return
    whole = expected(run.case, requests[-1], len(requests) - 1)
    here, due = [plain(event) for event in run.events], [plain(event) for event in whole.events]
    same = next((k for k, (a, b) in enumerate(zip(here, due, strict=False)) if a != b), min(len(here), len(due)))
    if same < len(here) and not (ended and all(event.phase is Phase.END or event.terminal for event in run.events[same:])):
        yield f"E10: event {same} is {here[same]}, not {due[same] if same < len(due) else 'the end'}"
    if run.case.way == "stay" and here != due:
        yield f"E10: event {same} is {here[same] if same < len(here) else 'missing'}, not {due[same] if same < len(due) else 'the end'}"


def plain(event: ChatEvent) -> Any:
    """
    An event without what differs from call to call.
    """
    match event:
        case ResponseStart():
            return event.type
        case ErrorEvent(error=error, response=response):
            return event.type, verdict_of(error), response.parts
        case ResponseEnd(response=response) | Abort(response=response) | StepEnd(response=response):
            return event.type, response.parts, response.verdict, response.usage
    return event


# --- the run --------------------------------------------------------------------------------------------------------------------------------------


@attrs.define(eq=False)
class Torture:
    """
    The run: one provider in a thread of its own, case after case in this loop.
    """

    provider: FakeProvider
    script: Script
    noise: Noise
    faults: list[str] = attrs.field(factory=list)
    seen: Counter[str] = attrs.field(factory=Counter)
    session: aiohttp.ClientSession | None = None

    @property
    def port(self) -> int:
        """
        The provider's.
        """
        return int(self.provider.url("anthropic").split(":")[2].split("/")[0])

    async def batch(self, cases: list[Case]) -> None:
        """
        Some cases over one session of the caller's, then a look at all that they left.
        """
        async with new_session(HttpSettings()) as self.session:
            for case in cases:
                await self.one(case)
        self.session = None
        heard = len(self.noise.heard)
        gc.collect()
        await self.settled(f"batch {cases[0].seed}")
        self.faults.extend(f"cases {cases[0].seed} to {cases[-1].seed}: noise: {said}" for said in self.noise.heard[heard:])
        self.script.clear()
        self.provider.requests.clear()

    async def one(self, case: Case) -> None:
        """
        One case, from its question to its last trace.
        """
        self.script.add(case)
        heard = len(self.noise.heard)
        async with AsyncExitStack() as stack:
            model = self.provider.model(case.dialect, settings=case.settings, session=self.session if case.session == "caller" else None)
            if case.session == "model":
                await stack.enter_async_context(model)
            call = model.open(case.question, event_filter=all_events(), stream=case.streamed)
            run = Run(case, call, model, self.provider, self.noise)
            run.verdicts.append(call.verdict)
            try:
                await WAYS[case.way](run)
            except (AssertionError, TimeoutError) as error:
                self.say(case, f"the way out failed: {error!r}")
                run.call.dispose()
            run.verdicts.append(call.verdict)
            await self.settled(case.words, model._own)
        await self.settled(case.words)
        requests = self.script.requests[case.question]
        await self.gone(case, requests)
        for wrong in wrong_with(run, requests):
            self.say(case, wrong)
        for said in self.noise.heard[heard:]:
            self.say(case, f"noise: {said}")
        self.seen[case.way] += 1
        self.seen[f"fault {case.fault}"] += 1
        self.seen[f"verdict {call.verdict}"] += 1
        self.seen["requests"] += len(requests)
        self.seen["requests left"] += sum(request.gone is not None for request in requests)

    async def settled(self, what: str, own: aiohttp.ClientSession | None = None) -> None:
        """
        No task, no connection in use, no socket but those of connections that may be used again.
        """

        def left() -> list[str]:
            used, idle = (sum(pair) for pair in zip(connections(self.session), connections(own), strict=True))
            found = [f"{used} connections in use"] if used else []
            if not (found := found + tasks()) and (sockets := sockets_to(self.port)) != idle:
                found.append(f"{sockets} sockets, {idle} idle connections")
            return found

        self.faults.extend(f"{what}: D4: {one}" for one in await until_none(left))

    async def gone(self, case: Case, requests: list[FakeRequest]) -> None:
        """
        The provider has seen the end of each request: its own, or the client's.
        """
        open_ = await until_none(lambda: [request.path for request in requests if request.gone is None and not request.answered])
        if open_:
            self.say(case, f"E8: the provider still answers {open_}")

    def say(self, case: Case, what: str) -> None:
        self.faults.append(f"{case.words}: {what}")


async def torture(script: Script, provider: FakeProvider) -> tuple[Torture, int]:
    """
    All cases; and by how many bytes memory has grown behind the warm-up.
    """
    with Noise().listening() as noise:
        run = Torture(provider, script, noise)
        names = list(WAYS)
        for first in range(0, CASES, BATCH):
            if first >= WARM and not tracemalloc.is_tracing():
                gc.collect()
                tracemalloc.start(1)
            await run.batch([case_of(seed, names) for seed in range(first, min(first + BATCH, CASES))])
        gc.collect()
        grown = tracemalloc.get_traced_memory()[0] - sum(len(fault) for fault in run.faults)
        tracemalloc.stop()
    return run, grown


@pytest.mark.skipif(not Path("/proc/self/fd").is_dir(), reason="the system does not list a process's sockets")
def test_disposals() -> None:
    """
    However a call is left, and whatever its provider does.
    """
    begun = time.monotonic()
    script = Script()
    with FakeProvider(script).in_thread() as provider:
        run, grown = asyncio.run(torture(script, provider))
    print(f"{CASES} cases in {time.monotonic() - begun:.0f} s, grown by {grown} bytes: {dict(sorted(run.seen.items()))}")
    assert run.faults == []
    assert run.noise.heard == []
    assert grown < MOST_GROWTH
