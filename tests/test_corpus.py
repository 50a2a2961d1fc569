"""
Small hand-written bodies of every dialect, one for each oddity: `corpus/<dialect>/<case>.<framing>` and `<case>.<framing>.events` beside it.

The events file has one event a line as `rxchat.serialize` writes it (answers left out), then the answer of the terminal. A body that is not streamed and has
the name of a stream says the same. `OPTIONS` names the options a case is read with. RXCHAT_WRITE_CORPUS=1 writes the events files anew: read the difference.
"""

from __future__ import annotations

import json
import os
import random
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import attrs
import pytest

from rxchat.errors import RxchatError
from rxchat.events import ChatEvent, ErrorEvent
from rxchat.pipeline import Head, response_stage
from rxchat.response import ChatResponse
from rxchat.serialize import response_to_dict, to_dict
from rxchat.stage import run
from tests.grammar import violations
from tests.shared_data import EXHAUSTIVE

CORPUS = Path(__file__).parent / "corpus"
MEDIA = {".sse": "text/event-stream", ".json": "application/json", ".ndjson": "application/x-ndjson", ".bin": "application/vnd.amazon.eventstream"}
BODIES = sorted(path for path in CORPUS.glob("*/*") if path.suffix in MEDIA)
PAIRS = [path for path in BODIES if path.suffix == ".json" and path.with_suffix(".sse").exists()]
WRITE = os.environ.get("RXCHAT_WRITE_CORPUS") == "1"
RANDOM_CUTS = 200 if EXHAUSTIVE else 10


def named(path: Path) -> str:
    return f"{path.parent.name}/{path.name}"


def options_of(path: Path) -> dict[str, str]:
    """
    The options of a case, from the line that begins with its name.
    """
    table = path.parent / "OPTIONS"
    lines = table.read_text(encoding="utf-8").splitlines() if table.exists() else []
    found = next((line.split()[1:] for line in lines if line.split()[0] == path.stem), [])
    return dict(pair.split("=", 1) for pair in found)


def read(path: Path, reads: Sequence[bytes]) -> list[ChatEvent]:
    """
    The events of a body; an exception that is none of ours goes through.
    """
    head = Head(headers={"Content-Type": MEDIA[path.suffix]})
    events: list[ChatEvent] = []
    try:
        for event in run(response_stage(path.parent.name, options=options_of(path), head=lambda: head, response_id="rx"), reads):
            events.append(event)
    except RxchatError:
        assert isinstance(events[-1], ErrorEvent)
    return events


def written(events: Sequence[ChatEvent]) -> str:
    """
    The events file: short lines, version and response id left out.
    """
    lines: list[dict[str, Any]] = [to_dict(event, responses=False) for event in events]
    answer = response_to_dict(answer_of(events))
    answer.pop("steps", None)
    return "".join(
        json.dumps({key: value for key, value in line.items() if key != "v"}, ensure_ascii=False) + "\n" for line in (*lines, {"answer": answer})
    )


def answer_of(events: Sequence[ChatEvent]) -> ChatResponse:
    response: ChatResponse = events[-1].response  # type: ignore[union-attr]
    return response


@pytest.mark.parametrize("path", BODIES, ids=named)
def test_body(path: Path) -> None:
    """
    Each body says exactly its events, balanced, whole, byte by byte and at random cuts.
    """
    body, file = path.read_bytes(), path.with_name(path.name + ".events")
    events = read(path, [body])
    if WRITE:
        file.write_text(written(events), encoding="utf-8")
    assert file.read_text(encoding="utf-8").splitlines() == written(events).splitlines()
    assert violations(events) == []
    chance = random.Random(path.name)
    ways = [[body[k : k + 1] for k in range(len(body))]]
    for _ in range(RANDOM_CUTS):
        inside = sorted({0, len(body), *(chance.randrange(len(body)) for _ in range(9))})
        ways.append([body[start:end] for start, end in pairwise(inside)])
    for reads in ways:
        assert written(events) == written(read(path, reads))


@pytest.mark.parametrize("path", PAIRS, ids=named)
def test_body_says_the_same_as_its_stream(path: Path) -> None:
    """
    A non-streamed body folds into the answer of its stream.
    """
    whole = answer_of(read(path, [path.read_bytes()]))
    stream = path.with_suffix(".sse")
    assert plain(whole) == plain(answer_of(read(stream, [stream.read_bytes()])))


def plain(answer: ChatResponse) -> ChatResponse:
    """
    An answer without what only one of the two ways can tell.
    """
    return attrs.evolve(answer, metadata={}, steps=())


def test_every_dialect_folder_has_bodies() -> None:
    """
    The corpus is found where it is expected.
    """
    assert {"openai-chat"} <= {path.parent.name for path in BODIES}
    assert PAIRS
