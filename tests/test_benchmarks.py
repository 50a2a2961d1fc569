"""
The benchmarks: each workload parses to what it claims to hold, each subject sees all of it, and what is printed can be read. No time is judged here.
"""

from __future__ import annotations

import asyncio
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from benchmarks import disconnect, goals, growth, leaks, paced, plot, previews, throughput
from benchmarks import run as command_line
from benchmarks.disconnect import by_close, by_dispose, by_take
from benchmarks.fanout import fanned
from benchmarks.growth import answer_kept, long_reads, nothing_kept
from benchmarks.measuring import absent, exponent, spread, unwritable
from benchmarks.paced import aiohttp_lines, rxchat_stream
from benchmarks.paced_server import Pace, served
from benchmarks.peers import PEERS
from benchmarks.previews import SUBJECTS, text_of
from benchmarks.run import GROUPS, main
from benchmarks.server import WorkloadProtocol, sending
from benchmarks.slow import consumed
from benchmarks.stages import STEPS
from benchmarks.subjects import OURS, Place, Subject, plainly
from benchmarks.workloads import WORKLOADS, Workload, workload
from rxchat.errors import Verdict
from rxchat.events import ChatEvent, MediaPartial, ResponseEnd, TextDelta, ThinkingDelta, ToolCallEnd
from rxchat.framing.sse import SseFrame, SseFramer
from rxchat.pipeline import response_stage
from rxchat.stage import run

# Few events, one image.
TINY = {"W1": 0.002, "W2": 0.003, "W3": 0.002, "W4": 0.004, "W5": 0.02, "W6": 0.005}


def _texts(events: list[ChatEvent]) -> dict[str, str]:
    """
    What came out, under the names of the workloads' claims.
    """
    texts = {
        "text": "".join(event.text for event in events if isinstance(event, TextDelta)),
        "thinking": "".join(event.text for event in events if isinstance(event, ThinkingDelta)),
        "arguments": "".join(event.tool_call.arguments_text for event in events if isinstance(event, ToolCallEnd)),
        "media": "".join(event.data or "" for event in events if isinstance(event, MediaPartial)),
    }
    return {name: text for name, text in texts.items() if text}


@pytest.fixture(params=sorted(WORKLOADS))
def load(request: pytest.FixtureRequest) -> Workload:
    return workload(request.param, TINY[request.param])


def test_it_holds_the_texts_it_claims(load: Workload) -> None:
    """
    The parsed texts, thinking, arguments and media are those of the claim, and the answer is whole.
    """
    events = list(run(response_stage(load.dialect), load.reads))
    end = events[-1]
    assert load.texts == _texts(events)
    assert isinstance(end, ResponseEnd)
    assert Verdict.COMPLETE == end.response.verdict
    assert load.texts.get("text", "") == end.response.text


def test_it_has_as_many_events_as_it_claims(load: Workload) -> None:
    """
    The framer finds the number of events the cost is divided by, however the body is read.
    """
    frames: list[SseFrame] = list(run(SseFramer(), load.reads))
    assert load.events == len(frames)
    assert load.body == b"".join(load.reads)


@pytest.mark.parametrize("name", sorted(WORKLOADS))
def test_it_is_the_same_on_every_run(name: str) -> None:
    """
    Two calls make equal bytes, and a larger scale more of them.
    """
    tiny = workload(name, TINY[name])
    assert tiny == workload(name, TINY[name])
    assert len(tiny.body) < len(workload(name, 3 * TINY[name]).body)


# --- paced streams --------------------------------------------------------------------------------------------------------------------------------


async def test_the_paced_server_sends_what_is_asked() -> None:
    """
    Each subject sees every event of every stream, each with its stamp.
    """
    pace = Pace(200, 5)
    assert pace == Pace.of(pace.model)
    async with served() as server:
        for subject in (rxchat_stream, aiohttp_lines):
            seen: list[tuple[int, str]] = []
            await subject(server.url, [pace] * 3, lambda *event, seen=seen: seen.append(event))
            assert [0] * 5 + [1] * 5 + [2] * 5 == sorted(stream for stream, _ in seen)
            assert len({stamp for _, stamp in seen}) == 15


async def test_the_paced_server_tells_who_left() -> None:
    """
    However a client leaves, the server sees it.
    """
    async with served() as server:
        for stream, leaver in enumerate((by_close, by_dispose, by_take)):
            left = await leaver(server.url, Pace(200, 1_000_000, stream=stream))
            assert left < await server.left(stream)


def test_previews_of_the_benchmark() -> None:
    """
    The growing text is of about the size it claims, and every subject can read it.
    """
    text = text_of(2000)
    assert abs(len(text) - 2000) < 100
    for subject in SUBJECTS.values():
        subject(text)


# --- the throughput table -------------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("subject", OURS, ids=lambda subject: subject.name)
async def test_our_subjects_see_all_that_was_sent(subject: Subject) -> None:
    """
    On every workload the subject sees as much text, thinking, arguments and media as there is, or says that it does not look; twice, with what it keeps.
    """
    if absent(subject.needs):
        pytest.skip(f"needs {subject.needs}")
    async with sending() as root:
        for name in subject.workloads:
            size = throughput.size_of(name, TINY[name])
            place = Place.of(WORKLOADS[name](size), size, root)
            async with subject.opened(place) as once:
                assert [None] * 2 == [await throughput.verified(once, place) for _ in range(2)]


async def test_a_wrong_subject_is_marked_and_never_timed() -> None:
    """
    Who sees less than was sent, and who fails, has no ratio but a word on what was wrong.
    """

    def failing(place: Place) -> dict[str, int]:
        raise ValueError("no way")

    said = []
    for read in (lambda place: {"text": 1}, failing):
        subject = Subject("wrong", ("W1",), plainly(read))
        said += [cell async for _, cell in throughput.measured(subject, ["W1", "W2"], 0.001, 1, "")]
    sent = len(WORKLOADS["W1"](20).texts["text"])
    assert [{"wrong": f"saw {{'text': 1}}, sent {{'text': {sent}}}"}, {"wrong": "ValueError: no way"}] == said


def test_a_subject_is_measured_in_a_process_of_its_own() -> None:
    """
    What its process found comes back, and can be printed, drawn and held against the goals.
    """
    pytest.importorskip("orjson")
    table = asyncio.run(throughput.alone(["L1", "rxchat composed"], ["W1"], 0.001, 1))
    assert {"L1", "rxchat composed"} == set(table)
    assert 23 == table["rxchat composed"]["cells"]["W1"]["events"]
    assert ["rxchat composed"] == [name for name, _ in plot.bars(table, "W1")]
    assert {"rxchat composed, W1, x L1"} == set(goals.verdicts({"table": table}))
    assert "rxchat composed" in throughput.printed(table, ["W1"])


def test_a_peer_that_is_not_installed_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """
    It is skipped, and the table says so; so are those that were wrong, or whose process failed.
    """
    monkeypatch.setattr(throughput, "SUBJECTS", {"ghost": Subject("ghost", ("W1",), plainly(lambda place: None), needs=("no_such_package",))})
    table = asyncio.run(throughput.alone(["ghost"], ["W1"], 0.001, 1))
    assert {"ghost": {"skipped": "not installed: no_such_package"}} == table
    table |= {"liar": {"cells": {"W1": {"wrong": "saw nothing"}}}, "dead": {"cells": {}, "failed": "killed"}}
    said = throughput.printed(table, ["W1"])
    assert all(words in said for words in ("ghost: skipped, not installed", "liar, W1: WRONG, saw nothing", "dead: failed, killed"))


def test_every_peer_has_a_name_of_its_own_and_workloads_that_exist() -> None:
    """
    No row of the table hides another, and every goal about a peer names a row and a workload it has.
    """
    assert len(throughput.SUBJECTS) == len(OURS) + len(PEERS)
    assert set(WORKLOADS) == {name for subject in throughput.SUBJECTS.values() for name in subject.workloads}
    for peer, workloads, _ in goals._PEERS:
        assert set(workloads) <= set(throughput.SUBJECTS[peer].workloads)


# --- the other groups -----------------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("step", STEPS)
def test_each_step_reads_the_whole_stream(step: str) -> None:
    """
    None stops before the end, or fails.
    """
    load = workload("W4", TINY["W4"])
    STEPS[step](load, load.reads)


@pytest.mark.parametrize("subscribers", (1, 2, 8))
def test_all_subscribers_see_all_events(subscribers: int) -> None:
    """
    Behind share_events each sees as many as one without it; only the ResponseStart comes with the first subscription, before the others are there.
    """
    load = workload("W1", TINY["W1"])
    assert subscribers * fanned(load, load.reads, 0) - (subscribers - 1) == fanned(load, load.reads, subscribers)


def test_a_long_stream_is_what_a_short_one_is_many_times() -> None:
    """
    The bytes are those of a thousand deltas again and again, between one beginning and one end.
    """
    thousand, texts = WORKLOADS["W1"](1000), len(WORKLOADS["W1"](1000).texts["text"])
    assert thousand.body == b"".join(long_reads(1000))
    assert [3 * texts] * 2 == [reader(3000) for reader in (nothing_kept, answer_kept)]


async def test_the_server_stops_when_its_client_has_left(caplog: pytest.LogCaptureFixture) -> None:
    """
    It writes no more to a connection whose other side is gone, and nothing is said about that.
    """
    lost: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    class Watched(WorkloadProtocol):
        def connection_lost(self, exc: Exception | None) -> None:
            super().connection_lost(exc)
            lost.set_result(None)

    async with await asyncio.get_running_loop().create_server(Watched, "127.0.0.1", 0) as server:
        with socket.create_connection(server.sockets[0].getsockname()) as client:
            client.sendall(b"POST /W1/20000/v1 HTTP/1.1\r\ncontent-length: 0\r\n\r\n")
        await lost
    assert [] == caplog.messages


async def test_a_slow_consumer_is_looked_at() -> None:
    """
    Some events are taken, and not many wait.
    """
    async with sending() as root:
        found = await consumed(root, 20_000, 0.3, 0.001)
    assert 0 < found["taken"] < 20_000
    assert found["waiting"] < 2000


@pytest.mark.parametrize("name", ("stages", "fanout"))
def test_a_group_measures_and_prints(name: str) -> None:
    """
    Whatever the scale, the numbers become text.
    """
    pytest.importorskip("orjson")
    group = GROUPS[name]
    assert group.printed(group.measured(0.001, 1))


def test_the_command_refuses_what_it_does_not_know(capsys: pytest.CaptureFixture[str]) -> None:
    """
    An unknown workload is named, with those there are.
    """
    with pytest.raises(SystemExit):
        main(["W9"])
    assert "there is no W9; there are: W1" in capsys.readouterr().err


REFUSED: dict[str, tuple[list[str], str]] = {
    "a folder that is not there": (["--json", "{folder}/none/now.json"], "cannot write {folder}/none/now.json: No such file or directory"),
    "a folder": (["--json", "{folder}"], "cannot write {folder}: Is a directory"),
    "a plot nowhere": (["--plot", "{folder}/none/now.svg"], "cannot write {folder}/none/now.svg: No such file or directory"),
    "a plot of another kind": (["--plot", "{folder}/now.txt"], "--plot draws .svg, .png, .pdf, not {folder}/now.txt"),
    "a plot without its table": (
        ["--plot", "{folder}/now.svg", "--only", "growth"],
        "--plot draws the throughput table, of which nothing is measured here",
    ),
    "a plot of nobody": (
        ["--plot", "{folder}/now.svg", "--subjects", "nobody"],
        "--plot draws the throughput table, of which nothing is measured here",
    ),
    "a plot of the limit": (
        ["--plot", "{folder}/now.svg", "--subjects", "L1"],
        "--plot draws the throughput table, of which nothing is measured here",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_the_command_refuses_at_once_what_it_could_not_write(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """
    Before anything is measured, in one line, with exit code 2, and without leaving a file.
    """
    monkeypatch.setattr(command_line, "absent", lambda modules: [])
    given, expected = REFUSED[name]
    with pytest.raises(SystemExit) as refused:
        main([word.format(folder=tmp_path) for word in given])
    assert 2 == refused.value.code
    assert ("", f"python -m benchmarks: {expected.format(folder=tmp_path)}\n") == capsys.readouterr()
    assert [] == list(tmp_path.iterdir())


def test_the_command_refuses_to_plot_without_matplotlib(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """
    The same where the drawing could not be made.
    """
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(SystemExit) as refused:
        main(["--plot", str(tmp_path / "now.svg")])
    assert 2 == refused.value.code
    assert ("", "python -m benchmarks: --plot needs matplotlib, which is not installed\n") == capsys.readouterr()


@pytest.mark.parametrize("command", [paced.main, disconnect.main, previews.main], ids=["paced", "disconnect", "previews"])
def test_the_other_commands_refuse_at_once_too(command: Callable[[list[str]], None], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """
    A file that cannot be written is named before anything is measured.
    """
    with pytest.raises(SystemExit) as refused:
        command(["--json", str(tmp_path)])
    assert 2 == refused.value.code
    said = capsys.readouterr()
    assert "" == said.out
    assert said.err.endswith(f"cannot write {tmp_path}: Is a directory\n")
    assert 1 == said.err.count("\n")


def test_a_file_that_can_be_written_stays_as_it_is(tmp_path: Path) -> None:
    """
    Asking changes nothing.
    """
    kept = tmp_path / "kept.json"
    kept.write_text("{}")
    assert [None, None] == [unwritable(str(path)) for path in (kept, tmp_path / "new.json")]
    assert [kept] == list(tmp_path.iterdir())
    assert "{}" == kept.read_text()


def test_goals_are_held_against_what_there_is() -> None:
    """
    A goal is met from its bound on; one without a number is left out.
    """
    leaks = {"streams": goals.STREAMS, "left": {"a": {"kib": 1}, "b": {"kib": 200}}}
    results: dict[str, Any] = {"slow": {"waiting": 600, "buffered_kib": 128.5}, "leaks": leaks}
    found = {text: row["met"] for text, row in goals.verdicts(results).items()}
    assert {
        "slow consumer, events waiting": True,
        "slow consumer, KiB in aiohttp's buffer": False,
        "KiB that 2,000 streams leave behind, most of all ways": False,
    } == found
    assert ["met", "MISSED", "MISSED"] == [line.split()[0] for line in goals.printed(goals.verdicts(results)).splitlines()]


def _long(*sizes: int) -> dict[str, Any]:
    return {"long": {"nothing_kept": {"rows": {str(size): {"us": 5, "peak_mib": 1} for size in sizes}, "exponent": 1.0}}, "exponents": {}}


@pytest.mark.parametrize(
    ("results", "expected"),
    [
        ({"growth": _long(100_000)}, set()),
        ({"growth": _long(goals.EVENTS)}, {"a million events, nothing kept, MiB", "exponent to a million events, nothing kept"}),
        ({"growth": {"exponents": {"W1": None, "W2": 1.0}}}, {"exponent of growth, W2"}),
        ({"leaks": {"streams": goals.STREAMS - 1, "left": {"a": {"kib": 1}}}}, set()),
        ({"leaks": {"streams": goals.STREAMS, "left": {"a": {"kib": 1}}}}, {"KiB that 2,000 streams leave behind, most of all ways"}),
        ({"imports": {"rxchat": {"ratio": None}}}, set()),
    ],
    ids=["less than a million", "a million", "a stream too short", "fewer streams", "enough streams", "nothing to compare with"],
)
def test_a_goal_has_no_number_where_the_run_was_too_small(results: dict[str, Any], expected: set[str]) -> None:
    """
    What a goal speaks of was measured, or there is no verdict on it.
    """
    assert expected == set(goals.verdicts(results))


def test_the_full_size_is_that_of_the_goals() -> None:
    """
    A run of the usual scale has what the goals speak of.
    """
    assert goals.STREAMS == leaks.STREAMS
    assert goals.EVENTS == growth.LONG[-1]


@pytest.mark.parametrize(
    ("sizes", "expected"),
    [((1000, 2000, 4000, 8000), 1), ((2000, 4000), None), ((1000, 8000), None), ((1000, 10_000, 100_000), 1), ((), None)],
)
def test_short_streams_say_nothing_about_growth(sizes: tuple[int, ...], expected: int | None) -> None:
    """
    An exponent is that of the sizes from 2,000 on, whatever a shorter one cost; there is none where none is of 8,000, or only one counts.
    """
    found = growth.slope(sizes, [size if size >= 2000 else 9e9 for size in sizes])
    assert expected == (None if found is None else round(found, 6))


def test_growth_at_a_small_scale_is_printed_without_exponents() -> None:
    """
    It says that the streams were too short, and no goal about exponents has a number.
    """
    table = growth.measured(0.001, 1)
    assert dict.fromkeys(growth.GROWING) == table["exponents"]
    assert "W1 unknown, too short" in growth.printed(table)
    assert ["W5, MiB held beyond the largest event"] == list(goals.verdicts({"growth": table}))


def test_goals_of_paced_streams() -> None:
    """
    Beside the line loop of the same run: CPU, nothing lost, nothing left behind, delay.
    """
    lines = {"cpu_us": 100.0, "p99_ms": 5.0, "sent": 40_000, "reached": 40_000, "backlog": 0}
    own = {"cpu_us": 120.0, "p99_ms": 5.5, "sent": 40_000, "reached": 39_999, "backlog": 300}
    table = {setting: {"aiohttp": lines, "rxchat": own} for setting in ("20x50", "200x50")}
    found = {text: (row["value"], row["met"]) for text, row in goals.verdicts(table, goals.PACED).items()}
    assert {
        "20x50, CPU an event, x aiohttp": (1.2, False),
        "200x50, events lost": (1, False),
        "200x50, events not delivered at the end": (300, False),
        "200x50, p99 of the delay, x aiohttp": (1.1, True),
    } == found


def test_sums() -> None:
    """
    A cost that doubles with its size grows by 1, one that is squared by 2; a spread is its median and its ends.
    """
    assert [1, 2] == [round(exponent([1, 2, 4], costs), 6) for costs in ([3, 6, 12], [1, 4, 16])]
    assert {"median": 2, "lowest": 1, "highest": 5} == spread([5, 1, 2])


def test_memory_that_is_held_is_seen() -> None:
    """
    By a process that has none to spare: what others have freed is taken again without growing.
    """
    program = "from benchmarks.measuring import Growth; growth = Growth(); held = bytearray(b'x') * 2**24; print(growth.peak())"
    said = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout
    assert 4 < float(said)
