"""
Many paced streams on one event loop: does every event arrive, how late, and at what cost.

    python -m benchmarks.paced 200x50 500x5 --seconds 8 --json paced.json

The server is another process, every subject has a fresh process of its own, and they take turns. One subject is the least there is, an aiohttp line loop with
json.loads; one, where it is installed, is the openai package.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import resource
import sys
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from statistics import median
from typing import Any, TypeAlias

import attrs

from benchmarks import goals
from benchmarks.measuring import machine, unwritable
from benchmarks.paced_server import Pace, raise_file_limit, served

SETTINGS = ("20x50", "200x5", "200x50", "500x5", "1000x5")
PROMPT = "Say the time."

# Is told of each event: the number of the stream, and the stamp the event carries.
Seen: TypeAlias = Callable[[int, str], None]
# Opens streams of a pace and returns when all have ended: base URL, one pace a stream.
Subject: TypeAlias = Callable[[str, Sequence[Pace], Seen], Awaitable[None]]


# --- subjects -------------------------------------------------------------------------------------------------------------------------------------


async def rxchat_stream(url: str, paces: Sequence[Pace], seen: Seen) -> None:
    """
    ChatModel.stream, subscribed to.
    """
    from rxchat import ChatEvent, ChatModel, TextDelta

    async with ChatModel(f"openai/{paces[0].model}", base_url=url, api_key="none", dialect="openai-chat") as model:

        async def one(stream: int) -> None:
            ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()

            def on_next(event: ChatEvent) -> None:
                if type(event) is TextDelta:
                    seen(stream, event.text)

            model.stream(PROMPT).subscribe(on_next, ended.set_exception, lambda: ended.set_result(None))
            await ended

        await asyncio.gather(*map(one, range(len(paces))))


async def aiohttp_lines(url: str, paces: Sequence[Pace], seen: Seen) -> None:
    """
    The least there is: lines, json.loads, the text.
    """
    import aiohttp

    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0), timeout=aiohttp.ClientTimeout(total=None)) as session:

        async def one(stream: int) -> None:
            asked = {"model": paces[0].model, "messages": [{"role": "user", "content": PROMPT}], "stream": True}
            async with session.post(f"{url}/chat/completions", json=asked) as response:
                async for line in response.content:
                    if line.startswith(b"data: ") and line != b"data: [DONE]\n":
                        text = json.loads(line[6:])["choices"][0]["delta"].get("content")
                        if text:
                            seen(stream, text)

        await asyncio.gather(*map(one, range(len(paces))))


async def openai_create(url: str, paces: Sequence[Pace], seen: Seen) -> None:
    """
    The openai package, create(stream=True).
    """
    from openai import AsyncOpenAI

    async with AsyncOpenAI(base_url=url, api_key="none", max_retries=0) as client:

        async def one(stream: int) -> None:
            chunks = await client.chat.completions.create(model=paces[0].model, messages=[{"role": "user", "content": PROMPT}], stream=True)
            async for chunk in chunks:
                text = chunk.choices[0].delta.content
                if text:
                    seen(stream, text)

        await asyncio.gather(*map(one, range(len(paces))))


SUBJECTS: Mapping[str, Subject] = {"aiohttp": aiohttp_lines, "rxchat": rxchat_stream, "openai": openai_create}


# --- one measurement, in a process of its own -----------------------------------------------------------------------------------------------------


@attrs.define
class Seeing:
    """
    What one subject saw: per stream, when events came and how late.
    """

    streams: int
    came: list[list[int]] = attrs.field(init=False)
    late: list[list[int]] = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        self.came = [[] for _ in range(self.streams)]
        self.late = [[] for _ in range(self.streams)]

    def __call__(self, stream: int, stamp: str) -> None:
        now = time.monotonic_ns()
        self.came[stream].append(now)
        self.late[stream].append(now - int(stamp))


async def measured(subject: Subject, url: str, streams: int, rate: int, seconds: float, grace: float) -> dict[str, Any]:
    """
    Connect all, let them begin together, and wait for the end, at most `grace` seconds behind it.
    """
    raise_file_limit()
    before = _peak()
    begin = time.monotonic() + 1.5 + streams / 100
    pace = Pace(rate, round(rate * seconds), round(begin * 1e9))
    seeing = Seeing(streams)
    running = asyncio.ensure_future(subject(url, [pace] * streams, seeing))
    await asyncio.wait([running], timeout=begin - time.monotonic())
    lags: list[float] = []
    watching = asyncio.create_task(_watch(lags))
    start = time.process_time()
    await asyncio.wait([running], timeout=seconds + grace)
    spent = time.process_time() - start
    ended = time.monotonic()
    watching.cancel()
    if running.done():
        await running
    else:
        running.cancel()
        await asyncio.wait([running], timeout=5)
    return {
        **_counted(seeing, pace, begin + seconds),
        **_sums(seeing, spent, lags),
        "over_s": ended - begin - seconds,
        "rss_mib": (_peak() - before) / 1024,
    }


def _counted(seeing: Seeing, pace: Pace, end: float) -> dict[str, Any]:
    by_then = [sum(came <= end * 1e9 for came in stream) for stream in seeing.came]
    written = [
        sum(came - late <= end * 1e9 for came, late in zip(stream, lates, strict=True))
        for stream, lates in zip(seeing.came, seeing.late, strict=True)
    ]
    return {
        "sent": seeing.streams * pace.events,
        "reached": sum(map(len, seeing.came)),
        # Written when the last second was over, and not yet delivered; where events never came, those count as well.
        "backlog": sum(written) - sum(by_then) + seeing.streams * pace.events - sum(map(len, seeing.came)),
        "share": min(by_then) / max(1e-9, sum(by_then) / len(by_then)),
    }


def _sums(seeing: Seeing, spent: float, lags: Sequence[float]) -> dict[str, Any]:
    late = sorted(late / 1e6 for stream in seeing.late for late in stream)
    slowest = max((_quantile(sorted(stream), 0.99) / 1e6 for stream in seeing.late if stream), default=float("nan"))
    return {
        "cpu_us": spent / max(1, len(late)) * 1e6,
        "p50_ms": _quantile(late, 0.5),
        "p99_ms": _quantile(late, 0.99),
        "slowest_p99_ms": slowest,
        "lag_p99_ms": _quantile(sorted(lags), 0.99) * 1e3,
    }


async def _watch(lags: list[float]) -> None:
    while True:
        asleep = time.monotonic()
        await asyncio.sleep(0.01)
        lags.append(time.monotonic() - asleep - 0.01)


def _quantile(values: Sequence[float], part: float) -> float:
    return float(values[min(len(values) - 1, int(len(values) * part))]) if values else float("nan")


def _peak() -> float:
    """
    KiB of memory held at most so far.
    """
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


# --- the command ----------------------------------------------------------------------------------------------------------------------------------


async def _in_turn(settings: Sequence[str], subjects: Sequence[str], seconds: float, grace: float, repetitions: int) -> dict[str, Any]:
    """
    All subjects of a setting in turn, that often; the median of each number.
    """
    table: dict[str, Any] = {}
    for setting in settings:
        runs: dict[str, list[dict[str, float]]] = {name: [] for name in subjects}
        for _ in range(repetitions):
            for name in subjects:
                async with served() as server:
                    runs[name].append(await _alone(name, server.url, setting, seconds, grace))
        table[setting] = {name: {key: median(run[key] for run in made) for key in made[0]} for name, made in runs.items()}
        print(printed({setting: table[setting]}), flush=True)
    return table


async def _alone(name: str, url: str, setting: str, seconds: float, grace: float) -> dict[str, float]:
    command = [sys.executable, "-m", "benchmarks.paced", setting, "--only", name, "--url", url, "--seconds", str(seconds), "--grace", str(grace)]
    process = await asyncio.create_subprocess_exec(*command, stdout=asyncio.subprocess.PIPE)
    said, _ = await process.communicate()
    if process.returncode:
        raise SystemExit(f"{name} failed at {setting}")
    found: dict[str, float] = json.loads(said)
    return found


_COLUMNS = (
    ("reached", "reached", 9, 0),
    ("sent", "sent", 9, 0),
    ("backlog", "backlog", 9, 0),
    ("p50_ms", "p50 ms", 9, 2),
    ("p99_ms", "p99 ms", 9, 2),
    ("slowest_p99_ms", "slowest", 9, 2),
    ("share", "share", 7, 3),
    ("cpu_us", "CPU us", 9, 1),
    ("lag_p99_ms", "lag p99", 9, 2),
    ("rss_mib", "RSS MiB", 9, 1),
    ("over_s", "over s", 8, 2),
)


def printed(table: Mapping[str, Mapping[str, Mapping[str, float]]]) -> str:
    """
    The table as text.
    """
    lines = [f"{'':9}{'':9}" + "".join(f"{title:>{width}}" for _, title, width, _ in _COLUMNS)]
    for setting, rows in table.items():
        lines += [
            f"{setting:9}{name:9}" + "".join(f"{row[key]:>{width}.{digits}f}" for key, _, width, digits in _COLUMNS) for name, row in rows.items()
        ]
    return "\n".join(lines)


def main(argv: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.paced", description="Many paced streams on one event loop.")
    parser.add_argument("settings", nargs="*", metavar="200x50", help=f"streams x events a second; by default {', '.join(SETTINGS)}")
    parser.add_argument("--subjects", nargs="+", choices=list(SUBJECTS), default=list(SUBJECTS))
    parser.add_argument("--seconds", type=float, default=8.0, help="for which each stream sends")
    parser.add_argument("--grace", type=float, default=10.0, help="seconds behind the end for which a subject that lags is waited for")
    parser.add_argument("--repetitions", type=int, default=1)
    parser.add_argument("--json", metavar="FILE", help="write the numbers here as well")
    parser.add_argument("--only", choices=list(SUBJECTS), help=argparse.SUPPRESS)
    parser.add_argument("--url", help=argparse.SUPPRESS)
    given = parser.parse_args(argv)
    if given.json and (reason := unwritable(given.json)):
        parser.exit(2, f"{parser.prog}: {reason}\n")
    if given.only:
        streams, rate = map(int, given.settings[0].split("x"))
        print(json.dumps(asyncio.run(measured(SUBJECTS[given.only], given.url, streams, rate, given.seconds, given.grace))))
        return
    print(f"{machine()}; {given.seconds:g} s, {given.repetitions} repetitions")
    table = asyncio.run(_in_turn(given.settings or SETTINGS, given.subjects, given.seconds, given.grace, given.repetitions))
    reached = goals.verdicts(table, goals.PACED)
    print(f"\nGoals\n{goals.printed(reached)}\n\nload at the end {os.getloadavg()[0]:.1f}")
    if given.json:
        with open(given.json, "w", encoding="utf-8") as file:
            json.dump(
                {"machine": machine(), "seconds": given.seconds, "repetitions": given.repetitions, "settings": table, "goals": reached},
                file,
                indent=2,
            )


if __name__ == "__main__":
    main()
