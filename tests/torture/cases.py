"""
Random cases: what a provider answers, what goes wrong with it, how and when its client leaves; and what the client must make of the answer.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from random import Random
from typing import Any

import attrs

from rxchat.client.settings import HttpSettings, Retry
from rxchat.dialects import get_dialect
from rxchat.errors import ConnectionLostError, FirstEventTimeout, ReadTimeout
from rxchat.presets import PRESETS
from rxchat.response import Part, TextPart, ThinkingPart, ToolCall
from rxchat.testing import FakeAnswer, FakeRequest, Fault, Faulty, Replay, replay
from rxchat.testing.replies import reply
from rxchat.testing.wires import WIRES

__all__ = ["DIALECTS", "Case", "case_of", "expected"]

DIALECTS = [name for name in sorted(WIRES) if get_dialect(name).request is not None]
LETTERS = "abc deé🌍\n"
# How long a silent provider is waited for.
SILENCE = 0.05
SENDING_ONCE = HttpSettings(retry=None)
GIVING_UP = HttpSettings(retry=None, read_timeout=SILENCE, first_event_timeout=None)
GIVING_UP_EARLY = HttpSettings(retry=None, first_event_timeout=SILENCE)
TRYING_AGAIN = HttpSettings(retry=Retry(attempts=3, first_wait=0.001, longest_wait=0.001))
WAITING_LONG = HttpSettings(retry=Retry(attempts=3, first_wait=600, longest_wait=600, jitter=0))


@attrs.frozen
class Case:
    """
    One call. `answers` are those to its attempts, the last one repeated; `moment` counts events or turns of the loop; `session` is whose: "own" of each
    request, the "model"'s, or the "caller"'s.
    """

    seed: int
    dialect: str
    answers: tuple[Faulty, ...]
    fault: str
    way: str
    moment: int
    session: str
    settings: HttpSettings = SENDING_ONCE
    streamed: bool = True

    @property
    def question(self) -> str:
        """
        What is asked; it tells the provider which case this is.
        """
        return f"case-{self.seed}-"

    @property
    def words(self) -> str:
        """
        It in short; `case_of(seed, ...)` has the rest.
        """
        return f"{self.seed} {self.way} ({self.dialect}, {self.fault}, session of the {self.session}, moment {self.moment})"

    def answer(self, attempt: int) -> Faulty:
        """
        The answer to that attempt, from 0.
        """
        return self.answers[min(attempt, len(self.answers) - 1)]

    @property
    def silent(self) -> bool:
        """
        Whether the next event may never come.
        """
        return self.fault in SILENT


def case_of(seed: int, ways: Sequence[str]) -> Case:
    """
    The case of that seed.
    """
    chance = Random(seed)
    dialect, way, name = chance.choice(DIALECTS), chance.choice(ways), chance.choice(list(FAULTS))
    streamed = name in BEFORE or chance.random() < 0.9 or WIRES[dialect].whole is None
    answer = _answer(chance)
    session = "model" if way == "close_the_model" else "own" if way in OWN else chance.choice(["own", "model", "caller"])
    moment = chance.choice([0, 1, 2, chance.randrange(12), chance.randrange(60)])
    if way in WAITS:
        return Case(seed, dialect, (Faulty(answer, Fault(status=503)),), "wait", way, moment, session, WAITING_LONG)
    faults = FAULTS[name](chance, answer if streamed else FakeAnswer("x"))
    answers = tuple(Faulty(answer, Fault(**fault)) for fault in faults)
    settings = SETTINGS.get(name, SENDING_ONCE) if name not in SILENT or way in STAYING else SENDING_ONCE
    return Case(seed, dialect, answers, name, way, moment, session, settings, streamed)


# Ways that come with a fault of their own, and those that have no session to share.
WAITS = ("dispose_in_a_wait", "abort_in_a_wait", "cancel_in_a_wait")
OWN = ("break_a_plain_for",)
# A silent provider is given up where nothing else would end it; else a budget would hide a request that nobody ended.
STAYING = ("stay", "break_a_plain_for")
SILENT = ("stall", "no_answer")
SETTINGS = {"stall": GIVING_UP, "no_answer": GIVING_UP_EARLY, "retried": TRYING_AGAIN, "refused": TRYING_AGAIN}
# What needs frames, or a body whose length is not known before its end.
BEFORE = ("malformed", "error", "stall")


def _answer(chance: Random) -> FakeAnswer:
    parts: list[Part] = [ThinkingPart(_text(chance))] if chance.random() < 0.5 else []
    parts += [TextPart(_text(chance))] if chance.random() < 0.8 or not parts else []
    parts += [ToolCall(id=f"call_{k}", name="look", arguments_text='{"city":"Róme"}') for k in range(chance.choice([0, 0, 1, 2, 3]))]
    pace = chance.choice([None, None, None, 2000.0])
    return FakeAnswer(*parts, piece=chance.choice([1, 3, 8, 100]), tokens_per_second=pace, heartbeat=chance.random() < 0.2)


def _text(chance: Random) -> str:
    return "".join(chance.choice(LETTERS) for _ in range(chance.choice([1, 5, 40]))) + "."


def _at(chance: Random) -> int:
    return chance.choice([0, chance.randrange(200), chance.randrange(3000)])


def _transfer(chance: Random) -> dict[str, Any]:
    """
    How it is written and packed, whatever else goes wrong.
    """
    written: dict[str, Any] = chance.choice([{}, {}, {"writes": 7}, {"writes": 1 << 20}, {"drip": (97, 0.0)}, {"drip": (400, 0.002)}])
    packed: dict[str, Any] = {} if chance.random() < 0.7 else {"compression": chance.choice(["gzip", "deflate", "br", "zstd"])}
    return {**written, **packed}


FAULTS: dict[str, Any] = {
    "none": lambda chance, answer: [_transfer(chance)],
    "stall": lambda chance, answer: [{"stall_after": _at(chance), **_transfer(chance)}],
    "cut": lambda chance, answer: [{"cut_after": _at(chance), **_transfer(chance)}],
    "break": lambda chance, answer: [{"break_after": _at(chance), **_transfer(chance)}],
    "reset": lambda chance, answer: [{"reset_after": _at(chance), **_transfer(chance)}],
    "no_answer": lambda chance, answer: [{"no_answer": True}],
    "delay": lambda chance, answer: [{"delay": 0.02, **_transfer(chance)}],
    "closing": lambda chance, answer: [{"close_delimited": True, **_transfer(chance)}],
    "malformed": lambda chance, answer: [{"malformed_after": chance.randrange(3), **_transfer(chance)}],
    "error": lambda chance, answer: [{"error_after": chance.randrange(3), **_transfer(chance)}],
    "retried": lambda chance, answer: [*({"status": 503} for _ in range(chance.choice([1, 2]))), _transfer(chance)],
    "refused": lambda chance, answer: [{"status": chance.choice([400, 429, 503])}],
    "other": lambda chance, answer: [{"content_type": "text/html"}],
}


# --- what the client must make of it --------------------------------------------------------------------------------------------------------------


def expected(case: Case, request: FakeRequest, attempt: int) -> Replay:
    """
    The answer to that attempt without a network: all its bytes at once, then its end.
    """
    entry = case.answer(attempt)
    if entry.fault.no_answer:
        return replay(_reads(b"", "no_answer"), case.dialect)
    told = reply(entry.entry, entry.fault, request)
    options = next((preset.options for preset in PRESETS.values() if preset.dialect == case.dialect), {})
    body = b"".join(told.frames)
    return replay(
        # A body of known length is over with its last byte.
        _reads(body, None if len(body) == told.length else told.end),
        case.dialect,
        content_type=told.headers["content-type"],
        options=options,
        status=told.status,
        clean_eof=not entry.fault.close_delimited,
    )


def _reads(body: bytes, end: str | None) -> Iterator[bytes]:
    if end != "no_answer":
        yield body
    if end == "no_answer":
        raise FirstEventTimeout("silent", SILENCE)
    if end == "stall":
        raise ReadTimeout("silent", SILENCE)
    if end is not None:
        raise ConnectionLostError("torn")
