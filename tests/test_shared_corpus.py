"""
Recorded bodies of real providers, and fault cases from the field: right at every cut, and never whole before their protocol's end.

One line in `tests/protocol_ends.py` lets a dialect's folder join.
"""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

import pytest

from rxchat.errors import Verdict
from rxchat.events import ThinkingDelta
from tests.grammar import violations
from tests.protocol_ends import ENDS, events_of
from tests.recorded import (
    Case,
    Reading,
    differences,
    every,
    fault_case,
    fault_differences,
    fault_is_here,
    read,
    recorded_cases,
    recorded_ids,
    split,
    wanted_outcomes,
)
from tests.shared_data import EXHAUSTIVE, SHARED, has_shared

FOLDERS = [name for name in ENDS if has_shared("corpus", name)]
CASES = [(folder, name) for folder in FOLDERS for name in recorded_ids(SHARED / "corpus" / folder)]
_REPORTS = SHARED / "cases" / "field-reports.json"
REPORTS = [facts for facts in (json.loads(_REPORTS.read_text(encoding="utf-8")) if _REPORTS.exists() else ()) if fault_is_here(facts, list(ENDS))]

# Byte by byte only what is quick, unless everything is asked for; likewise the number of cuts of one body.
ONE_BYTE = 1 << 30 if EXHAUSTIVE else 8192
EVERY_BYTE = 16 * 1024
CUTS_OF_LARGE = 500
CUTS_OF_SAMPLE = 14

pytestmark = pytest.mark.skipif(not CASES, reason="recorded data absent: corpus")


@pytest.fixture(scope="module", autouse=True)
def counts(request: pytest.FixtureRequest) -> Iterator[Counter[str]]:
    """
    How much was run, told at the end.
    """
    counted: Counter[str] = Counter()
    yield counted
    capture: Any = request.config.pluginmanager.getplugin("capturemanager")
    if counted and capture is not None:
        with capture.global_and_fixture_disabled():
            print(f"\nrecorded data: {', '.join(f'{number} {what}' for what, number in sorted(counted.items()))}")


def case_of(folder: str, name: str) -> Case:
    return recorded_cases(SHARED / "corpus" / folder, name)


def all_reads(case: Case) -> dict[str, list[bytes]]:
    """
    The same body in the reads every case is tried with.
    """
    chance = random.Random(case.id)
    ways = {"7": every(case.body, 7), "1400": every(case.body, 1400)}
    if len(case.body) <= ONE_BYTE:
        ways["1"] = every(case.body, 1)
    if case.reads:
        ends = [sum(case.reads[: k + 1]) for k in range(len(case.reads))]
        ways["recorded"] = split(case.body, [end for end in ends if end < len(case.body)])
    for k in range(20 if EXHAUSTIVE else 2):
        ways[f"random {k}"] = split(case.body, [chance.randrange(len(case.body) + 1) for _ in range(12)])
    return ways


def same_at_every_cut(case: Case, counted: Counter[str]) -> Reading:
    whole = read(case)
    assert violations(whole.events) == [], case.id
    for name, reads in all_reads(case).items():
        assert read(case, reads).fingerprint == whole.fingerprint, f"{case.id} in reads of {name}"
        counted["readings of recorded bodies"] += 1
    return whole


@pytest.mark.parametrize(("folder", "name"), CASES)
def test_recorded_body(folder: str, name: str, counts: Counter[str]) -> None:
    """
    A recorded body means what it is known to mean, balanced, and the same in whatever reads it comes.
    """
    case = case_of(folder, name)
    reading = same_at_every_cut(case, counts)
    assert differences(case, reading) == []
    counts[f"{folder} bodies"] += 1


@pytest.mark.parametrize("facts", REPORTS, ids=lambda facts: facts["id"])
def test_fault_case(facts: dict[str, Any], counts: Counter[str]) -> None:
    """
    A fault from the field ends as it should, the same in whatever reads the body comes.
    """
    case = fault_case(facts)
    reading = same_at_every_cut(case, counts)
    assert fault_differences(case, reading) == []
    counts[f"{case.dialect} fault cases"] += 1


@pytest.mark.parametrize(("folder", "name"), [pair for pair in CASES if pair[0] == "openai-chat"])
def test_think_tags_of_recorded_body(folder: str, name: str, counts: Counter[str]) -> None:
    """
    With tags read as thinking nothing of an answer is lost or doubled: what is taken out of the text is what stands between the tags.
    """
    case = case_of(folder, name)
    plain, tagged = read(case), read(case, every(case.body, 5), options={"think_tags": True})
    inline = case.expect.get("inline_thinking")
    if inline:
        assert tagged.response.thinking.strip() == inline["thinking"].strip()
        assert tagged.response.text.strip() == inline["rest"].strip()
        counts["bodies with inline thinking"] += 1
    elif "<" not in plain.response.text:
        assert tagged.fingerprint == plain.fingerprint
    assert violations(tagged.events) == []


# --- truncation -----------------------------------------------------------------------------------------------------------------------------------


def cuts_of(case: Case) -> Sequence[int]:
    """
    Where to cut a body: every byte of a small one, else seeded positions; a sample takes a few borders of events with their neighbours.
    """
    size, chance = len(case.body), random.Random(case.id)
    if EXHAUSTIVE:
        return range(size) if size <= EVERY_BYTE else sorted(chance.sample(range(size), CUTS_OF_LARGE))
    borders = [k + 2 for k in range(size) if case.body[k : k + 2] in (b"\n\n", b"\n\r")]
    near = [border + chance.randint(-2, 2) for border in chance.sample(borders, min(len(borders), CUTS_OF_SAMPLE // 2))]
    behind = range(max(0, size - 18), size)
    anywhere = [chance.randrange(size) for _ in range(CUTS_OF_SAMPLE // 2)] if size else []
    return sorted({cut for cut in (*near, *anywhere, *chance.sample(behind, min(len(behind), 4))) if 0 <= cut < size})


@pytest.mark.parametrize(("folder", "name"), CASES)
def test_cut_body(folder: str, name: str, counts: Counter[str]) -> None:
    """
    A body cut anywhere is never whole before its protocol's own end, always balanced, raises nothing foreign, and its texts are beginnings of the whole's.
    """
    case = case_of(folder, name)
    if case.status >= 400:
        return
    whole = read(case).response
    for cut in cuts_of(case):
        piece = case.body[:cut]
        reading = read(case, [piece])
        got = reading.response
        assert violations(reading.events) == [], f"{name} cut at {cut}"
        assert whole.text.startswith(got.text), f"{name} cut at {cut}: text"
        assert whole.thinking.startswith(got.thinking), f"{name} cut at {cut}: thinking"
        assert whole.refusal.startswith(got.refusal), f"{name} cut at {cut}: refusal"
        for ours, theirs in zip(got.tool_calls, whole.tool_calls, strict=False):
            assert theirs.arguments_text.startswith(ours.arguments_text), f"{name} cut at {cut}: arguments"
        if reading.verdict is Verdict.COMPLETE:
            assert ENDS[folder](piece), f"{name} cut at {cut}: COMPLETE too early"
        assert not got.committable or reading.verdict is Verdict.COMPLETE
        counts["cuts"] += 1


@pytest.mark.parametrize(("folder", "name"), [pair for pair in CASES if pair[0] == "openai-chat"])
def test_close_delimited_body(folder: str, name: str) -> None:
    """
    Where the end of the body proves nothing, only [DONE] makes an answer whole (contract V5).
    """
    case = case_of(folder, name)
    if case.content_type is None or "event-stream" not in case.content_type:
        return
    reading = read(case, clean_eof=False)
    done = b"[DONE]" in events_of(case.body)[0]
    if not done:
        assert reading.verdict in (Verdict.INCOMPLETE_STREAM, Verdict.PROVIDER_ERROR, Verdict.HTTP_STATUS)
    elif wanted_outcomes(case.expect) == {"completed"}:
        assert Verdict.COMPLETE == reading.verdict


def test_scanner_of_ends_agrees() -> None:
    """
    The scanner of ends is no tautology: every complete recorded body has an end by it, and no body that ends early has.
    """
    agreed = Counter[str]()
    for folder, name in CASES:
        case = case_of(folder, name)
        if case.status < 400 and wanted_outcomes(case.expect) == {"completed"}:
            assert ENDS[folder](case.body), name
            assert not ENDS[folder](case.body[: len(case.body) // 2]) or read(case, [case.body[: len(case.body) // 2]]).verdict is not None
            agreed[folder] += 1
    assert all(agreed[folder] for folder in FOLDERS)


def test_thinking_is_counted_once() -> None:
    """
    Reasoning that comes under two names in one delta makes one delta.
    """
    for folder, name in CASES:
        case = case_of(folder, name)
        if folder == "openai-chat" and b"reasoning_details" in case.body:
            deltas = "".join(event.text for event in read(case).events if isinstance(event, ThinkingDelta))
            assert deltas == (case.expect["thinking"] or ""), name
