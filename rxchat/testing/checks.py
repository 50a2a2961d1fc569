"""
`check_dialect`: what the contract asks of every dialect, tried on bodies of it.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from random import Random
from typing import Any, TypeAlias

import attrs

from rxchat.dialects import Dialect, get_dialect
from rxchat.errors import RxchatError, Verdict
from rxchat.events import ChatEvent, Group, Raw, StepStart
from rxchat.stage import run
from rxchat.testing.bodies import Body, BodyLike, as_body, borders_of, cuts, frames_of, mutations
from rxchat.testing.comparing import answer, facts, is_json, short, sizes, stripped
from rxchat.testing.declarations import declaration_faults, request_faults
from rxchat.testing.replays import Replay, replay
from rxchat.testing.rules import broken_rules, crash_of

__all__ = ["BodyOrPair", "DialectReport", "check_dialect"]

BodyOrPair: TypeAlias = BodyLike | tuple[BodyLike, BodyLike]

SHOWN = 20
NOVEL = "rxchat-novel"
_CONTENT = (Group.TEXT, Group.THINKING, Group.TOOL_CALL)
# A frame no dialect knows, where frames are text; in other framings there is none by default.
UNKNOWN_VALUE = json.dumps({"type": NOVEL, "event_type": NOVEL, NOVEL: {"v": 1}})
UNKNOWN_FRAMES: Mapping[str, bytes] = {
    "sse": f"event: {NOVEL}\ndata: {UNKNOWN_VALUE}\n\n".encode(),
    "ndjson": f"{UNKNOWN_VALUE}\n".encode(),
}


@attrs.define
class DialectReport:
    """
    What was tried, in numbers, and how the bodies ended.

    `wrapped` lists damaged bodies whose frame the dialect did not refuse by itself, but fell over: a subscriber meets a DialectError, as it should; a check
    of the dialect's own would say what is wrong with the frame.
    """

    dialect: str
    bodies: int = 0
    pairs: int = 0
    cuts: int = 0
    truncations: int = 0
    mutations: int = 0
    unknown_frames: int = 0
    requests: int = 0
    verdicts: Counter[str] = attrs.field(factory=Counter)
    wrapped: list[str] = attrs.field(factory=list)
    faults: list[str] = attrs.field(factory=list)


def check_dialect(
    dialect: str | Dialect,
    bodies: Iterable[BodyOrPair],
    *,
    is_complete: Callable[[bytes], bool] | None = None,
    unknown_frame: bytes | None = None,
    exhaustive: bool = False,
    samples: int = 60,
    seed: int = 0,
    model: str = "m",
) -> DialectReport:
    """
    Try a dialect on bodies of it; AssertionError lists what breaks the contract (dialect, body, what was done, contract id, what came).

    Each body is read whole, byte by byte and at other cuts (E9), cut off at every byte or at `samples` of them (E10, V5), and damaged `samples` times. Always:
    the grammar (E1-E6, E13), arguments of calls (N7, P3), events that fold into the answers they carry (V1, V2), RxchatErrors and no others (E11). A pair is
    a stream and the JSON body that says the same. `exhaustive` cuts off at every byte and damages ten times as often.

    A body that is cut off may be COMPLETE only where `is_complete(prefix)` says that its protocol's end was reached; without one, only if what then came is
    the answer of the whole body; a JSON body, only where its JSON is whole.

    `unknown_frame` is put between the frames of a stream and must become Raw and change nothing else (E11); b"" leaves that out; by default it is a JSON
    object of an unknown type, for event streams and NDJSON. `model` is the name a request is built for.
    """
    spec = get_dialect(dialect) if isinstance(dialect, str) else dialect
    check = _Check(spec, is_complete, unknown_frame, exhaustive, samples, seed, model)
    for what in (*declaration_faults(spec), *check.requests()):
        check.say("-", "", what)
    for k, given in enumerate(bodies):
        check.body_or_pair(given, f"body {k}")
    if not check.report.bodies:
        check.say("-", "", "no bodies were given")
    if check.report.faults:
        raise AssertionError(_listing(check.report))
    return check.report


def _listing(report: DialectReport) -> str:
    more = len(report.faults) - SHOWN
    lines = [
        f"{report.dialect} breaks the contract in {len(report.faults)} places:",
        *report.faults[:SHOWN],
        *([f"... and {more} more"] if more > 0 else []),
    ]
    return "\n  ".join(lines)


@attrs.define
class _Check:
    spec: Dialect
    is_complete: Callable[[bytes], bool] | None
    unknown_frame: bytes | None
    exhaustive: bool
    samples: int
    seed: int
    model: str
    report: DialectReport = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        self.report = DialectReport(self.spec.name)

    def say(self, body: str, done: str, what: str) -> None:
        self.report.faults.append(" | ".join(part for part in (self.spec.name, body, done, what) if part))

    def requests(self) -> Iterator[str]:
        """
        What is wrong with a plain question, streamed and not; nothing for a dialect that only reads.
        """
        for stream in (True, False) if self.spec.request is not None else ():
            self.report.requests += 1
            yield from request_faults(self.spec, self.model, stream)

    # One body --------------------------------------------------------------------------------------------------------------------------------

    def body_or_pair(self, given: BodyOrPair, name: str) -> None:
        if isinstance(given, tuple):
            stream, whole = as_body(given[0], f"{name}, stream"), as_body(given[1], f"{name}, json")
            if whole.content_type is None:
                whole = attrs.evolve(whole, content_type="application/json")
            if not whole.options:
                whole = attrs.evolve(whole, options=stream.options)
            self.pair(stream, self.body(stream), self.body(whole))
        else:
            self.body(as_body(given, name))

    def body(self, body: Body) -> Replay | None:
        """
        All that is tried on one body; its replay, read whole.
        """
        self.report.bodies += 1
        whole = self.tried(body, "whole", body.content)
        if whole is None:
            return None
        self.report.verdicts[str(whole.verdict)] += 1
        crash = crash_of(whole)
        if crash is not None:
            self.say(body.name, "whole", f"E11: the dialect fell over: {crash}")
        self.alone(body)
        self.cut(body, whole)
        self.cut_off(body, whole)
        self.damage(body)
        self.novel(body, whole)
        return whole

    def framing(self, body: Body) -> str:
        media = (body.content_type or next(iter(self.spec.framings))).partition(";")[0].strip().lower()
        return self.spec.framings.get(media) or ("json" if media == "application/json" else next(iter(self.spec.framings.values())))

    def tried(self, body: Body, done: str, content: bytes | Sequence[bytes], **settings: Any) -> Replay | None:
        """
        A replay that keeps all rules; None, said, if something that is no RxchatError came out.
        """
        try:
            got = replay(content, self.spec, content_type=body.content_type, options=body.options, **settings)
        except Exception as error:
            self.say(body.name, done, f"E11: raises {error!r}, no RxchatError")
            return None
        for what in broken_rules(got):
            self.say(body.name, done, what)
        return got

    def cut(self, body: Body, whole: Replay) -> None:
        """
        The same at every cut (contract E9); an error is compared with the ErrorEvent that carries it.
        """
        borders = borders_of(body.content, self.framing(body))
        number = 50 if self.exhaustive else 6
        for reads in cuts(body.content, seed=self.seed, random=number, borders=borders):
            self.report.cuts += 1
            self.same(body, f"reads of {sizes(reads)}", whole, self.tried(body, f"reads of {sizes(reads)}", reads))

    def same(self, body: Body, done: str, one: Replay, other: Replay | None) -> None:
        if other is None or one.facts == other.facts:
            return
        if len(one.events) != len(other.events):
            self.say(body.name, done, f"E9: {len(other.events)} events, {len(one.events)} if read whole")
        differing = next((k for k, (a, b) in enumerate(zip(one.facts[0], other.facts[0], strict=False)) if a != b), None)
        if differing is not None:
            self.say(body.name, done, f"E9: event {differing} is {short(other.facts[0][differing])}, read whole {short(one.facts[0][differing])}")

    def alone(self, body: Body) -> None:
        """
        What the pipeline would hide of a parser: events behind its end (contract E1), content before its step (E2), empty deltas (E13).
        """
        events: list[ChatEvent] = []
        parser = self.spec.parser(self.spec.context(body.options))
        with suppress(RxchatError):
            for event in run(parser, frames_of(body.content, self.framing(body))):
                events.append(event)
        end = next((k for k, event in enumerate(events) if event.terminal), len(events))
        if events[end + 1 :]:
            self.say(body.name, "the parser alone", f"E1: {short(events[end + 1])} comes behind its {events[end].type}")
        step = next((k for k, event in enumerate(events) if isinstance(event, StepStart)), len(events))
        early = next((event for event in events[:step] if event.group in _CONTENT), None)
        if early is not None:
            self.say(body.name, "the parser alone", f"E2: {short(early)} comes before its StepStart")
        if any(event.is_delta and getattr(event, "text", "x") == "" for event in events):
            self.say(body.name, "the parser alone", "E13: an empty delta")

    # Cut off ---------------------------------------------------------------------------------------------------------------------------------

    def cut_off(self, body: Body, whole: Replay) -> None:
        for length in self.lengths(body):
            self.report.truncations += 1
            done = f"cut off at byte {length}"
            got = self.tried(body, done, body.content[:length])
            if got is None:
                continue
            crash = crash_of(got)
            if crash is not None and crash_of(whole) is None:
                self.say(body.name, done, f"E11: the dialect fell over: {crash}")
            self.delivered(body, done, length, whole, got)
            if got.verdict is Verdict.COMPLETE:
                self.complete(body, done, length, whole, got)

    def lengths(self, body: Body) -> Sequence[int]:
        """
        Every length, or around the borders of frames and some more, as many as `samples`.
        """
        size = len(body.content)
        if self.exhaustive or size <= self.samples:
            return range(size)
        around = sorted({place + k for place in borders_of(body.content, self.framing(body)) for k in (-1, 0, 1) if 0 <= place + k < size})
        chance = Random(f"{self.seed} {body.name}")
        chosen = chance.sample(around, min(len(around), self.samples // 2))
        return sorted({*chosen, *chance.sample(range(size), self.samples - len(chosen))})

    def delivered(self, body: Body, done: str, length: int, whole: Replay, got: Replay) -> None:
        """
        Frames that were here said what they say in the whole body (contract E10); the last two bytes may belong to a line end that is not over.
        """
        safe = [k for k, event in enumerate(whole.events) if event.span is not None and event.span[1] <= length - 2]
        due = whole.facts[0][: safe[-1] + 1] if safe else ()
        here = got.facts[0][: len(due)]
        if due != here:
            place = next((k for k, (a, b) in enumerate(zip(due, here, strict=False)) if a != b), len(here))
            self.say(body.name, done, f"E10: event {place} is {short(here[place]) if place < len(here) else 'missing'}, due was {short(due[place])}")

    def complete(self, body: Body, done: str, length: int, whole: Replay, got: Replay) -> None:
        if self.framing(body) == "json":
            if not is_json(body.content[:length]):
                self.say(body.name, done, "V5: COMPLETE, but the JSON body is not whole")
        elif self.is_complete is not None:
            if not self.is_complete(body.content[:length]):
                self.say(body.name, done, "V5: COMPLETE, but its protocol's end was not reached")
        elif answer(got.response) != answer(whole.response):
            self.say(body.name, done, f"V5: COMPLETE with {answer(got.response)}, the whole body says {answer(whole.response)}")

    # Damage and novelties --------------------------------------------------------------------------------------------------------------------

    def damage(self, body: Body) -> None:
        """
        Whatever the bytes are: the rules hold, at any cut (contract E9, E11).
        """
        many = mutations(body.content, self.framing(body), Random(f"{self.seed} {body.name}"))
        for _, (done, content) in zip(range(self.samples * (10 if self.exhaustive else 1)), many, strict=False):
            self.report.mutations += 1
            got = self.tried(body, done, content)
            if got is None:
                continue
            if (crash := crash_of(got)) is not None:
                self.report.wrapped.append(f"{body.name} | {done} | {crash}")
            self.same(body, f"{done}, in small reads", got, self.tried(body, f"{done}, in small reads", content, cut=5))

    def novel(self, body: Body, whole: Replay) -> None:
        """
        A frame nobody knows, between two frames that are read (contract E11).
        """
        frame = UNKNOWN_FRAMES.get(self.framing(body), b"") if self.unknown_frame is None else self.unknown_frame
        starts = sorted({event.span[0] for event in whole.events if event.span is not None})[1:]
        if not frame or self.framing(body) == "json":
            return
        chosen = starts if self.exhaustive else Random(self.seed).sample(starts, min(len(starts), 8))
        for start in chosen:
            self.report.unknown_frames += 1
            done = f"an unknown frame at byte {start}"
            got = self.tried(body, done, body.content[:start] + frame + body.content[start:])
            if got is not None:
                self.unharmed(body, done, whole, got)

    def unharmed(self, body: Body, done: str, whole: Replay, got: Replay) -> None:
        before, after = (Counter(event.name for event in each.of(Raw)) for each in (whole, got))
        if (after - before).total() != 1:
            self.say(body.name, done, f"E11: it became {dict(after - before) or 'nothing'}, not one Raw")
        known, kept = ([stripped(event) for event in each.events if not isinstance(event, Raw)] for each in (whole, got))
        if known != kept or whole.verdict is not got.verdict:
            place = next((k for k, (a, b) in enumerate(zip(known, kept, strict=False)) if a != b), min(len(known), len(kept)))
            self.say(
                body.name,
                done,
                f"E11: it changed event {place} of the others ({len(known)} before, {len(kept)} with it); {whole.verdict}, {got.verdict}",
            )

    def pair(self, stream: Body, streamed: Replay | None, body: Replay | None) -> None:
        """
        A stream and its JSON body are one answer (contract V).
        """
        self.report.pairs += 1
        if streamed is None or body is None:
            return
        for name, one in facts(streamed.response).items():
            other = facts(body.response)[name]
            if one != other:
                self.say(stream.name, "pair", f"V: {name} is {short(one)}, of the JSON body {short(other)}")
