"""
What previews of a growing JSON cost: one-character deltas through `partial_json`, beside reading all of it again at every delta.

    python -m benchmarks.previews --json previews.json

`partial_json` is subscribed to and each preview dropped; `place` looks at one place of each, `sampled` at the whole value of one in a thousand (which is where
it grows); `again` gives the text so far to jiter's partial mode at each delta, as long as it can be waited for.
"""

from __future__ import annotations

import argparse
import json
import math
import time
from collections.abc import Callable, Mapping, Sequence
from statistics import linear_regression
from typing import Any, TypeAlias

import jiter
import reactivex as rx

from benchmarks.measuring import machine, unwritable
from rxchat import Preview, TextDelta, partial_json

SIZES = (1000, 3000, 10_000, 30_000, 100_000)
# Reading all again is quadratic: here it takes seconds.
PATIENCE = 30_000

Subject: TypeAlias = Callable[[str], None]


def text_of(size: int) -> str:
    """
    A JSON text of about so many characters: objects in an array, with numbers, short strings and one that is long.
    """
    item = '{"name":"caf\\u00e9","price":12.5,"tags":["a","b"],"sold":true,"next":null},'
    count = size // 2 // len(item)
    return '{"items":[' + (item * count)[:-1] + '],"text":"' + "x" * (size // 2) + '"}'


def _previews(text: str, look: Callable[[int, Preview], object]) -> None:
    seen = 0

    def on_next(preview: Preview) -> None:
        nonlocal seen
        seen += 1
        look(seen, preview)

    failures: list[Exception] = []
    rx.from_iterable([TextDelta(character) for character in text]).pipe(partial_json()).subscribe(on_next, failures.append)
    if failures:
        raise failures[0]


def dropped(text: str) -> None:
    """
    Each preview is made and dropped.
    """
    _previews(text, lambda _, __: None)


def sampled(text: str) -> None:
    """
    One in a thousand is looked at whole.
    """
    _previews(text, lambda seen, preview: preview.value if seen % 1000 == 0 else None)


def place(text: str) -> None:
    """
    One place is looked at each time.
    """
    _previews(text, lambda _, preview: preview.at("items", -1, "name"))


def again(text: str) -> None:
    """
    All of it at each delta.
    """
    for end in range(1, len(text) + 1):
        jiter.from_json(text[:end].encode(), partial_mode="trailing-strings")


SUBJECTS: Mapping[str, Subject] = {"partial_json": dropped, "place": place, "sampled": sampled, "again": again}


def measured(sizes: Sequence[int], repetitions: int) -> dict[str, dict[str, Any]]:
    """
    Microseconds a character at each size, and how CPU grows: 1 is linear.
    """
    table: dict[str, dict[str, Any]] = {}
    for name, subject in SUBJECTS.items():
        texts = [text_of(size) for size in sizes if subject is not again or size <= PATIENCE]
        spent = [min(_cpu(subject, text) for _ in range(1 if subject is again else repetitions)) for text in texts]
        slope = linear_regression([math.log(len(text)) for text in texts], [math.log(cpu) for cpu in spent]).slope
        table[name] = {"us": {str(len(text)): cpu / len(text) * 1e6 for text, cpu in zip(texts, spent, strict=True)}, "exponent": slope}
    return table


def _cpu(subject: Subject, text: str) -> float:
    begin = time.process_time()
    subject(text)
    return time.process_time() - begin


def main(argv: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.previews", description="Previews of a growing JSON, one character at a time.")
    parser.add_argument("--sizes", nargs="+", type=int, default=list(SIZES))
    parser.add_argument("--repetitions", type=int, default=3)
    parser.add_argument("--json", metavar="FILE", help="write the numbers here as well")
    given = parser.parse_args(argv)
    if given.json and (reason := unwritable(given.json)):
        parser.exit(2, f"{parser.prog}: {reason}\n")
    table = measured(given.sizes, given.repetitions)
    print(f"{machine()}; us a character, {given.repetitions} repetitions")
    print(f"{'':14}" + "".join(f"{size:>10}" for size in given.sizes) + f"{'exponent':>10}")
    for name, row in table.items():
        cells = [f"{value:>10.2f}" for value in row["us"].values()]
        print(f"{name:14}" + "".join(cells) + " " * 10 * (len(given.sizes) - len(cells)) + f"{row['exponent']:>10.2f}")
    if given.json:
        with open(given.json, "w", encoding="utf-8") as file:
            json.dump({"machine": machine(), "repetitions": given.repetitions, "subjects": table}, file, indent=2)


if __name__ == "__main__":
    main()
