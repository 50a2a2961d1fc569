"""
The scripted provider: what it answers, what it records, and that each fault is exactly the fault it says, in every dialect.
"""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from random import Random
from typing import Any

import aiohttp
import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st
from reactivex import operators as ops

from rxchat.client.settings import HttpSettings
from rxchat.dialects import get_dialect
from rxchat.errors import ConfigurationError, ConnectionLostError, HTTPStatusError, RxchatError, TransportTimeout, Verdict
from rxchat.events import ChatEvent, ResponseEnd, ResponseStart, StepEnd
from rxchat.presets import PRESETS
from rxchat.projections import text_only
from rxchat.response import FinishReason, MediaPart, TextPart, ToolCall, Usage
from rxchat.testing import FakeAnswer, FakeBody, FakeProvider, FakeRequest, Fault, Faulty, Replay, replay
from rxchat.testing.bodies import MEDIA_TYPES
from rxchat.testing.provider import Entry, Script
from rxchat.testing.serving import Sender, writes_of
from rxchat.testing.wires import WIRES, Delta, get_wire, wire_for
from tests.shared_data import EXHAUSTIVE, shared

ONCE = HttpSettings(retry=None)
SILENT = HttpSettings(retry=None, read_timeout=0.15)
UNANSWERED = HttpSettings(retry=None, first_event_timeout=0.15)
# Of Cohere's first version we read answers, but ask no questions.
DIALECTS = [name for name in sorted(WIRES) if get_dialect(name).request is not None]
ANSWER = FakeAnswer("Grüße, world. What a fine day it is to be a stream of text.")
CORPUS = Path(__file__).parent.parent / "corpus"
BODIES = sorted(path for path in CORPUS.glob("*/*") if path.suffix in MEDIA_TYPES)


# --- one request ----------------------------------------------------------------------------------------------------------------------------------


@attrs.frozen
class Told:
    """
    What our model made of an answer, and what the server saw.
    """

    verdict: Verdict | None
    text: str
    error: Any
    request: FakeRequest


async def ask(dialect: str, entry: Entry, transfer: HttpSettings = ONCE, **request: Any) -> Told:
    """
    One request of our model.
    """
    async with asyncio.timeout(20), FakeProvider([entry]) as provider:
        try:
            answer = await provider.model(dialect, settings=transfer).call("Hi", **request)
        except RxchatError as error:
            partial = error.response
            if isinstance(error, TransportTimeout):
                await provider.client_left()
            return Told(error.verdict, partial.text if partial else "", error, provider.requests[0])
        return Told(answer.verdict, answer.text, None, provider.requests[0])


async def frames_of(dialect: str) -> Sequence[bytes]:
    """
    The frames of ANSWER as our model's request has them.
    """
    told = await ask(dialect, ANSWER)
    assert (Verdict.COMPLETE, text_of(ANSWER)) == (told.verdict, told.text)
    return tuple(wire_for(told.request).frames(ANSWER))


def text_of(answer: FakeAnswer) -> str:
    return "".join(part.text for part in answer.parts if isinstance(part, TextPart))


def read(body: bytes, dialect: str, clean_eof: bool = True) -> Replay:
    """
    The same bytes without a network.
    """
    options = next((preset.options for preset in PRESETS.values() if preset.dialect == dialect), {})
    return replay(body, dialect, content_type=WIRES[dialect].content_type, options=options, clean_eof=clean_eof)


def read_torn(body: bytes, dialect: str) -> Replay:
    """
    The same bytes where the transfer then broke off; an answer that ended before is whole.
    """

    def reads() -> Iterator[bytes]:
        yield body
        raise ConnectionLostError("torn")

    options = next((preset.options for preset in PRESETS.values() if preset.dialect == dialect), {})
    return replay(reads(), dialect, content_type=WIRES[dialect].content_type, options=options)


def until_text(frames: Sequence[bytes], dialect: str) -> int:
    """
    How many frames it takes until there is text.
    """
    return next(count for count in range(len(frames)) if read(b"".join(frames[:count]), dialect).response.text)


# --- faults, in every dialect ---------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dialect", DIALECTS)
async def test_refusals(dialect: str) -> None:
    """
    A status refuses in the provider's own words, with Retry-After where asked; a body of one's own is sent instead.
    """
    told = await ask(dialect, Fault(status=429, retry_after=2, message="slow down"))
    assert (Verdict.HTTP_STATUS, 429, "slow down", 2.0) == (told.verdict, told.error.status, told.error.message, told.error.retry_after)
    told = await ask(dialect, Fault(status=503, retry_after="Fri, 31 Dec 1999 23:59:59 GMT"))
    assert (Verdict.HTTP_STATUS, 503, 0.0) == (told.verdict, told.error.status, told.error.retry_after)
    told = await ask(dialect, Fault(status=502, body=b"<title>Bad Gateway</title>", content_type="text/html"))
    assert (Verdict.HTTP_STATUS, "Bad Gateway") == (told.verdict, told.error.message)


@pytest.mark.parametrize("dialect", DIALECTS)
async def test_content_type(dialect: str) -> None:
    """
    The right bytes under a wrong type, and a page in place of an answer.
    """
    assert Verdict.CONTENT_TYPE is (await ask(dialect, ANSWER.with_fault(Fault(content_type="text/html")))).verdict
    assert Verdict.CONTENT_TYPE is (await ask(dialect, Fault(body=b"<html>", content_type="text/html; charset=utf-8"))).verdict


@pytest.mark.parametrize("dialect", DIALECTS)
async def test_ends(dialect: str) -> None:
    """
    A transfer that ends early gives exactly the bytes before, and ends as it says: cleanly, broken off, reset, silent.
    """
    frames = await frames_of(dialect)
    body = b"".join(frames)
    border = len(b"".join(frames[: until_text(frames, dialect)]))
    for at in (0, border - 1, border, border + 5, len(body) - 1):
        here = read(body[:at], dialect)
        told = await ask(dialect, ANSWER.with_fault(Fault(cut_after=at)))
        assert (here.verdict, here.response.text) == (told.verdict, told.text)
        assert told.request.answered
        for fault in (Fault(break_after=at), Fault(reset_after=at)):
            torn, told = read_torn(body[:at], dialect), await ask(dialect, ANSWER.with_fault(fault))
            assert (torn.verdict, torn.response.text) == (told.verdict, told.text)
    told = await ask(dialect, ANSWER.with_fault(Fault(stall_after=border)), SILENT)
    assert (Verdict.READ_TIMEOUT, read(body[:border], dialect).response.text) == (told.verdict, told.text)
    assert told.request.gone is not None
    assert told.request.gone - told.request.time >= 0.1


@pytest.mark.parametrize("dialect", DIALECTS)
async def test_whole_ends(dialect: str) -> None:
    """
    What ends behind its last byte lost nothing: cut there it is whole, closed by the connection alone it is what such an end proves.
    """
    body = b"".join(await frames_of(dialect))
    assert Verdict.COMPLETE is (await ask(dialect, ANSWER.with_fault(Fault(cut_after=len(body) + 1)))).verdict
    told = await ask(dialect, ANSWER.with_fault(Fault(close_delimited=True)))
    assert (read(body, dialect, clean_eof=False).verdict, text_of(ANSWER)) == (told.verdict, told.text)


@pytest.mark.parametrize("dialect", DIALECTS)
async def test_failing_frames(dialect: str) -> None:
    """
    A frame that cannot be read, and the provider's own error, come behind so many frames.
    """
    frames = await frames_of(dialect)
    count = until_text(frames, dialect)
    here = read(b"".join(frames[:count]), dialect)
    told = await ask(dialect, ANSWER.with_fault(Fault(malformed_after=count)))
    assert (read(b"".join(frames[:count]) + WIRES[dialect].malformed, dialect).verdict, here.response.text) == (told.verdict, told.text)
    assert told.verdict in (Verdict.INVALID_JSON, Verdict.FRAMING)
    told = await ask(dialect, ANSWER.with_fault(Fault(error_after=count, message="it broke")))
    assert (Verdict.PROVIDER_ERROR, "it broke", here.response.text) == (told.verdict, told.error.message, told.text)
    told = await ask(dialect, ANSWER.with_fault(Fault(error_after=0)))
    assert (Verdict.PROVIDER_ERROR, "") == (told.verdict, told.text)


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize(
    "fault",
    [
        Fault(writes=1),
        Fault(writes=1400),
        Fault(writes="frame"),
        Fault(writes=(3, 1, 50)),
        Fault(drip=(64, 0.0)),
        Fault(delay=0.01),
        Fault(headers={"X-Request-Id": "r1"}),
        *(Fault(compression=coding) for coding in ("gzip", "deflate", "br", "zstd")),
        Fault(compression="gzip", writes=5, close_delimited=False),
    ],
    ids=lambda fault: "-".join(f"{name}={value}" for name, value in attrs.asdict(fault).items() if value and name != "message"),
)
async def test_harmless(dialect: str, fault: Fault) -> None:
    """
    However an answer is written, delayed and compressed, it is the same answer.
    """
    told = await ask(dialect, ANSWER.with_fault(fault))
    assert (Verdict.COMPLETE, text_of(ANSWER)) == (told.verdict, told.text)


@pytest.mark.parametrize("dialect", DIALECTS)
async def test_no_answer(dialect: str) -> None:
    """
    Without headers nothing comes, and the server sees the client give up.
    """
    told = await ask(dialect, Fault(no_answer=True), UNANSWERED)
    assert (Verdict.FIRST_EVENT_TIMEOUT, "") == (told.verdict, told.text)
    assert told.request.gone is not None


@pytest.mark.parametrize("coding", ["gzip", "deflate", "br", "zstd"])
@pytest.mark.parametrize("end", ["break_after", "reset_after", "cut_after"])
async def test_combined(coding: Any, end: str) -> None:
    """
    Compressed, in small writes, and broken off: still exactly the bytes before.
    """
    frames = await frames_of("anthropic")
    at = len(b"".join(frames[:5])) + 3
    fault: dict[str, Any] = {"compression": coding, "writes": (1, 9), end: at}
    told = await ask("anthropic", ANSWER.with_fault(Fault(**fault)))
    expected = Verdict.INCOMPLETE_STREAM if end == "cut_after" else Verdict.CONNECTION_LOST
    assert (expected, read(b"".join(frames)[:at], "anthropic").response.text) == (told.verdict, told.text)


# --- the bytes themselves -------------------------------------------------------------------------------------------------------------------------


async def on_the_wire(entry: Entry) -> tuple[bytes, bytes, str]:
    """
    Head and body of an openai-chat answer as they travel, chunk sizes included, and how the connection ended.
    """
    async with asyncio.timeout(20), FakeProvider([entry]) as provider:
        port = int(provider.url("openai-chat").split(":")[2].split("/")[0])
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        body = b'{"stream":true}'
        writer.write(
            b"POST /openai-chat/v1/chat/completions HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\nConnection: close\r\n\r\n" % len(body) + body
        )
        got, ended = b"", "closed"
        try:
            while piece := await reader.read(65536):
                got += piece
        except ConnectionResetError:
            ended = "reset"
        writer.close()
        head, _, rest = got.partition(b"\r\n\r\n")
        return head.lower(), rest, ended


def chunks(body: bytes) -> tuple[list[bytes], bool]:
    """
    The chunks of a chunked body, and whether the last one came.
    """
    found: list[bytes] = []
    while body:
        size, _, rest = body.partition(b"\r\n")
        length = int(size, 16)
        if not length:
            return found, True
        found.append(rest[:length])
        body = rest[length + 2 :]
    return found, False


BODY = b"".join(get_wire("openai-chat").frames(ANSWER))


@pytest.mark.parametrize(
    ("fault", "expected", "last", "ended"),
    [
        (Fault(), BODY, True, "closed"),
        (Fault(cut_after=100), BODY[:100], True, "closed"),
        (Fault(break_after=100), BODY[:100], False, "closed"),
        (Fault(reset_after=100), BODY[:100], False, "reset"),
        (Fault(break_after=0), b"", False, "closed"),
        (Fault(break_after=len(BODY)), BODY, False, "closed"),
        (Fault(reset_after=len(BODY) + 9), BODY, False, "reset"),
    ],
)
async def test_bytes(fault: Fault, expected: bytes, last: bool, ended: str) -> None:
    """
    To the byte: what is sent, whether the last chunk is, and how the connection ends.
    """
    head, rest, end = await on_the_wire(ANSWER.with_fault(fault))
    assert b"transfer-encoding: chunked" in head
    found, complete = chunks(rest)
    assert (expected, last, ended) == (b"".join(found), complete, end)


async def test_writes() -> None:
    """
    Writes are as large as asked for; by default each is a frame.
    """
    found, _ = chunks((await on_the_wire(ANSWER))[1])
    assert list(get_wire("openai-chat").frames(ANSWER)) == found
    found, _ = chunks((await on_the_wire(ANSWER.with_fault(Fault(writes=(1, 20, 300)))))[1])
    sizes = [len(chunk) for chunk in found]
    assert [1, 20, 300, 300] == sizes[:4]
    assert all(size == 300 for size in sizes[2:-1])
    assert sizes[-1] <= 300


@given(st.lists(st.binary(max_size=9) | st.builds(Delta, st.binary(max_size=9)), max_size=9), st.lists(st.integers(1, 7), min_size=1, max_size=4))
def test_any_writes(frames: list[bytes], sizes: list[int]) -> None:
    """
    Whatever the sizes, the same bytes in writes of them; and each delta is waited for once, before its bytes.
    """
    told = list(writes_of(frames, sizes))
    writes = [write for write in told if write is not None]
    wanted = [*sizes, *(sizes[-1:] * len(writes))][: len(writes)]
    assert b"".join(frames) == b"".join(writes)
    assert wanted[:-1] == [len(write) for write in writes][:-1]
    assert not writes or 0 < len(writes[-1]) <= wanted[-1]
    marked = [frame for frame in frames if isinstance(frame, Delta)]
    assert len(marked or frames) == told.count(None)


@pytest.mark.parametrize("dialect", ["openai-chat", "openai-responses", "anthropic", "mistral"])
async def test_any_writes_same_events(dialect: str) -> None:
    """
    However it was written, our model tells the same events.
    """
    chance = Random(7)
    sizes = [[chance.randrange(1, 60) for _ in range(6)] for _ in range(8)]
    async with FakeProvider([ANSWER, *(ANSWER.with_fault(Fault(writes=some)) for some in sizes)]) as provider, provider.model(dialect) as model:
        whole, *others = [await model.stream("Hi").pipe(ops.filter(untold), ops.to_list()) for _ in range(9)]
        assert len(whole) > 5
        assert all(whole == other for other in others)


def untold(event: ChatEvent) -> bool:
    """
    Whether an event holds no response, whose id is another one each time.
    """
    return not isinstance(event, ResponseStart | StepEnd | ResponseEnd)


async def test_close_delimited() -> None:
    """
    Neither chunked nor of a stated length.
    """
    head, rest, _ = await on_the_wire(ANSWER.with_fault(Fault(close_delimited=True)))
    assert b"transfer-encoding" not in head
    assert b"content-length" not in head
    assert b"connection: close" in head
    assert BODY == rest


async def test_whole_body() -> None:
    """
    An answer that is not streamed has its length; cut, the length is that of the cut; broken, that of the whole.
    """
    script: list[Entry] = [ANSWER, ANSWER.with_fault(Fault(cut_after=10)), ANSWER.with_fault(Fault(break_after=10))]
    async with FakeProvider(script) as provider, aiohttp.ClientSession() as session:
        url = provider.url("openai-chat") + "/chat/completions"
        async with session.post(url, json={}) as response:
            assert str(len(await response.read())) == response.headers["content-length"]
            assert "application/json" == response.content_type
        async with session.post(url, json={}) as response:
            assert (10, "10") == (len(await response.read()), response.headers["content-length"])
        async with session.post(url, json={}) as response:
            with pytest.raises(aiohttp.ClientPayloadError):
                await response.read()


@pytest.mark.parametrize("beat", [True, False])
async def test_heartbeat(beat: bool) -> None:
    """
    A sign of life comes first, where it is asked for.
    """
    _, rest, _ = await on_the_wire(FakeAnswer("x", heartbeat=beat))
    found, _ = chunks(rest)
    assert beat is (found[0] == get_wire("openai-chat").heartbeat)


# --- scripts --------------------------------------------------------------------------------------------------------------------------------------


async def test_sequence_then_used_up() -> None:
    """
    Entries answer in order, of all kinds; then the script is used up, which is said in the provider's own shape.
    """
    async with FakeProvider(["One.", FakeAnswer("Two."), FakeBody(BODY), BODY, Fault(status=400), Faulty(BODY, Fault(writes=1))]) as provider:
        model = provider.model("openai-chat", settings=ONCE)
        assert ["One.", "Two.", text_of(ANSWER), text_of(ANSWER)] == [(await model.call("Hi")).text for _ in range(4)]
        with pytest.raises(HTTPStatusError):
            await model.call("Hi")
        assert text_of(ANSWER) == (await model.call("Hi")).text
        with pytest.raises(HTTPStatusError, match="the script is used up: it has no answer to request 6") as raised:
            await model.call("Hi")
        assert 500 == raised.value.status


async def test_one_server_all_dialects() -> None:
    """
    The first segment of the path names the dialect; one entry answers all.
    """
    async with FakeProvider(ANSWER) as provider:
        for dialect in DIALECTS:
            assert text_of(ANSWER) == (await provider.model(dialect).call("Hi")).text
    assert DIALECTS == [request.dialect for request in provider.requests]


@pytest.mark.parametrize("wait", [False, True])
async def test_callable(wait: bool) -> None:
    """
    A callable is given each request, and may be a coroutine function.
    """

    def script(request: FakeRequest) -> Entry:
        return FakeAnswer(f"You said {request.json['messages'][0]['content']}.")

    async def later(request: FakeRequest) -> Entry:
        await asyncio.sleep(0)
        return script(request)

    chosen: Script = later if wait else script
    async with FakeProvider(chosen) as provider:
        assert "You said Hi." == (await provider.model("openai-chat").call("Hi")).text


async def test_fault_of_all() -> None:
    """
    The provider's own fault is that of every entry without one.
    """
    async with FakeProvider(["x", FakeAnswer("y").with_fault(Fault())], fault=Fault(status=418)) as provider:
        model = provider.model("anthropic", settings=ONCE)
        with pytest.raises(HTTPStatusError) as raised:
            await model.call("Hi")
        assert 418 == raised.value.status
        assert "y" == (await model.call("Hi")).text


async def raises_at_end(script: Script, dialect: str, said: str, **request: Any) -> None:
    with pytest.raises(Exception, match=said) as raised:  # noqa: PT012
        async with FakeProvider(script) as provider:
            with pytest.raises(HTTPStatusError, match=said) as refused:
                await provider.model(dialect, settings=ONCE).call("Hi", **request)
            assert 400 == refused.value.status
    assert not isinstance(raised.value, HTTPStatusError)


@pytest.mark.parametrize(
    ("script", "dialect", "said"),
    [
        ([FakeAnswer(MediaPart("video", data="x"))], "anthropic", "anthropic has no way to say MediaPart"),
        ([FakeAnswer(finish=FinishReason.PAUSE)], "openai-chat", "openai-chat has no way to say the finish pause"),
        ([FakeAnswer(usage=Usage(input_tokens=1, cache_read_tokens=2))], "anthropic", "usage"),
        ([ANSWER.with_fault(Fault(error_after=500))], "mistral", "cannot fail after 500"),
        (lambda request: 1 / 0, "mistral", "ZeroDivisionError|division by zero"),
        (lambda request: 3, "mistral", "an entry of a script is"),
    ],
)
async def test_wrong_script(script: Any, dialect: str, said: str) -> None:
    """
    What cannot be said is refused with status 400, in clear words, and raised at the end.
    """
    await raises_at_end(script, dialect, said)


async def test_no_frames_to_fail_after() -> None:
    """
    A body that is not streamed has no frames.
    """
    await raises_at_end([ANSWER.with_fault(Fault(malformed_after=1))], "openai-chat", "not streamed", stream=False)


async def test_own_error_first() -> None:
    """
    What the test itself raises is not hidden by what was wrong with its script.
    """
    with pytest.raises(KeyError):  # noqa: PT012
        async with FakeProvider(lambda request: 1 / 0) as provider:  # type: ignore[arg-type,return-value]
            with pytest.raises(HTTPStatusError):
                await provider.model("mistral", settings=ONCE).call("Hi")
            raise KeyError


@pytest.mark.parametrize("script", [[3], 3, None, [None]])
def test_no_script(script: Any) -> None:
    """
    What is no script is told at once.
    """
    with pytest.raises(ConfigurationError, match="an entry of a script is"):
        FakeProvider(script)


async def test_unknown_dialect() -> None:
    """
    A path without a known dialect is refused; so is its URL, and any URL before the start.
    """
    with pytest.raises(ConfigurationError, match="no address before it is started"):
        FakeProvider("x").url("openai-chat")
    with pytest.raises(ConfigurationError, match="no wire for the dialect 'nonsense'"):  # noqa: PT012
        async with FakeProvider("x") as provider, aiohttp.ClientSession() as session:
            url = provider.url("openai-chat").replace("openai-chat", "nonsense")
            async with session.post(url) as response:
                assert (400, "text/plain") == (response.status, response.content_type)
                assert "no wire for the dialect 'nonsense'" in await response.text()
    with pytest.raises(ConfigurationError, match="has not been started"):
        FakeProvider("x").client_left_sync()


# --- what was asked -------------------------------------------------------------------------------------------------------------------------------


async def test_requests() -> None:
    """
    Requests are recorded as the provider would have seen them, and a repr shows no key.
    """
    async with FakeProvider(ANSWER) as provider:
        await provider.model("anthropic", api_key="sk-planted").call("Hi", max_tokens=5)
        await provider.model("gemini", api_key="sk-planted").call("Hi")
        first, second = provider.requests
    assert ("anthropic", "POST", "/v1/messages") == (first.dialect, first.method, first.path)
    assert "sk-planted" == first.headers["x-api-key"]
    assert 5 == first.json["max_tokens"]
    assert json.loads(first.body) == first.json
    assert first.time <= second.time
    assert (True, None) == (first.answered, first.gone)
    assert "sk-planted" not in repr(provider)
    assert "sk-planted" not in repr(provider.requests)
    assert "Hi" not in repr(provider.requests)


async def test_asked() -> None:
    """
    A request can be waited for.
    """
    async with FakeProvider(Fault(no_answer=True)) as provider:
        task = asyncio.create_task(provider.model("ollama", settings=ONCE).call("Hi"))
        assert "ollama" == (await asyncio.wait_for(provider.asked(0), 5)).dialect
        task.cancel()
        assert (await asyncio.wait_for(provider.client_left(0), 5)).gone is not None
        with pytest.raises(asyncio.CancelledError):
            await task


@pytest.mark.parametrize("dialect", DIALECTS)
async def test_client_left(dialect: str) -> None:
    """
    A client that has enough is seen to go.
    """
    async with FakeProvider([FakeAnswer("Hello, world, and so on.", piece=1, tokens_per_second=200)]) as provider:
        done = asyncio.Event()
        provider.model(dialect).stream("Hi").pipe(ops.take(4)).subscribe(on_completed=done.set)
        await asyncio.wait_for(done.wait(), 5)
        request = await asyncio.wait_for(provider.client_left(0), 5)
    assert not request.answered


async def test_client_left_a_long_answer() -> None:
    """
    A long answer without a pace is not written in one go: its client has its turns, and is seen to go.
    """
    async with FakeProvider(FakeAnswer("word " * 5_000, piece=5)) as provider:
        assert await provider.model("openai-chat").stream("Hi").pipe(text_only(), ops.take(3), ops.to_list()) == ["word "] * 3
        assert not (await asyncio.wait_for(provider.client_left(0), 5)).answered


async def test_client_left_in_a_write(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    """
    A client that is gone when the server writes is one that left, and nothing to be logged as an error of the server's.
    """

    async def broken(sender: Sender) -> Any:
        raise ConnectionResetError("cannot write")

    monkeypatch.setattr(Sender, "send", broken)
    async with FakeProvider(ANSWER) as provider:
        with pytest.raises(ConnectionLostError):
            await provider.model("openai-chat", settings=ONCE).call("Hi")
        assert (await asyncio.wait_for(provider.client_left(0), 5)).gone is not None
    assert [record for record in caplog.records if record.name.startswith("aiohttp")] == []


async def test_client_stayed() -> None:
    """
    Waiting for a client that stayed to the end is a failed assertion, no endless wait.
    """
    async with FakeProvider(ANSWER) as provider:
        await provider.model("cohere").call("Hi")
        with pytest.raises(AssertionError, match="stayed to the end"):
            await provider.client_left(0)


async def test_nobody_left_at_the_end() -> None:
    """
    A server that stops while an answer runs does not say that the client has left.
    """
    async with FakeProvider(ANSWER.with_fault(Fault(stall_after=10))) as provider:
        task = asyncio.create_task(provider.model("cohere", settings=ONCE).call("Hi"))
        await provider.asked()
        await provider.aclose()
        assert provider.requests[0].gone is None
        with pytest.raises(RxchatError):
            await task


# --- time -----------------------------------------------------------------------------------------------------------------------------------------


@attrs.define
class Hours:
    """
    A clock that only its own sleep moves, each sleep taking `late` seconds too long.
    """

    late: float = 0.0
    now: float = 100.0
    slept: list[float] = attrs.field(factory=list)

    def clock(self) -> float:
        return self.now

    async def sleep(self, seconds: float) -> None:
        self.slept.append(round(seconds, 6))
        self.now += seconds + self.late
        await asyncio.sleep(0)


@pytest.mark.parametrize("dialect", DIALECTS)
async def test_pace(dialect: str) -> None:
    """
    Deltas come at their rate, by a schedule: being late once is made up for.
    """
    answer = FakeAnswer("x" * 40, piece=4, tokens_per_second=10)
    hours = Hours()
    async with FakeProvider(answer, sleep=hours.sleep, clock=hours.clock) as provider:
        await provider.model(dialect).call("Hi")
    assert [0.1] * 9 == hours.slept
    late = Hours(late=0.05)
    async with FakeProvider(answer, sleep=late.sleep, clock=late.clock) as provider:
        await provider.model(dialect).call("Hi")
    assert 100 + 0.9 + 0.05 == pytest.approx(late.now)


async def test_drip_and_delay() -> None:
    """
    So many bytes every so often; before the first and behind the last nobody waits.
    """
    hours = Hours()
    size = -(-len(BODY) // 4)
    async with FakeProvider(BODY, fault=Fault(drip=(size, 0.5), delay=3), sleep=hours.sleep, clock=hours.clock) as provider:
        assert Verdict.COMPLETE is (await provider.model("openai-chat").call("Hi")).verdict
    assert [3, 0.5, 0.5, 0.5] == hours.slept


# --- synchronous code -----------------------------------------------------------------------------------------------------------------------------


def test_in_thread() -> None:
    """
    Code that does not await has the same, and what was wrong is raised at the end, too.
    """
    with FakeProvider(["One.", FakeAnswer("Two.")]).in_thread() as provider:
        model = provider.model("anthropic", settings=ONCE)
        assert ["One.", "Two."] == [model.call_sync("Hi").text for _ in range(2)]
        with pytest.raises(AssertionError, match="stayed"):
            provider.client_left_sync(0)
    wrong = FakeProvider([FakeAnswer(MediaPart("video"))])
    with pytest.raises(ConfigurationError, match="MediaPart"), wrong.in_thread() as provider, pytest.raises(HTTPStatusError):
        provider.model("anthropic", settings=ONCE).call_sync("Hi")


def test_left_in_thread() -> None:
    """
    A client's leaving is seen from other threads and from other loops.
    """
    with FakeProvider(Fault(no_answer=True)).in_thread() as provider:
        with pytest.raises(RxchatError):
            provider.model("anthropic", settings=UNANSWERED).call_sync("Hi")
        assert provider.client_left_sync(0).gone is not None
        assert asyncio.run(provider.client_left(0)).gone is not None
        with pytest.raises(TimeoutError):
            provider.client_left_sync(1, timeout=0.05)


def test_no_server_without_provider() -> None:
    """
    Who imports rxchat.testing for its checks does not load aiohttp's server.
    """
    code = "import sys, rxchat.testing; print('aiohttp.web' in sys.modules)"
    assert "False" == subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.strip()


# --- what cannot be -------------------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"cut_after": 1, "reset_after": 1}, "cut_after and reset_after do not go together: a transfer ends once"),
        ({"break_after": 0, "stall_after": 0}, "a transfer ends once"),
        ({"malformed_after": 1, "error_after": 1}, "an answer fails once"),
        ({"writes": 1, "drip": (1, 1)}, "both say the size of a write"),
        ({"close_delimited": True, "break_after": 1}, "say cut_after"),
        ({"no_answer": True, "delay": 1}, "no_answer goes with nothing else, not with delay"),
        ({"no_answer": True, "headers": {"a": "b"}}, "not with headers"),
        ({"retry_after": 1}, "retry_after wants a status"),
        ({"status": 200, "retry_after": 1}, "retry_after wants a status"),
        ({"status": 500, "error_after": 1}, "an answer of status 500 has no frames for error_after"),
        ({"body": b"", "malformed_after": 1}, "the body is sent as it is"),
        ({"status": 100}, "status is at least 200, not 100"),
        ({"status": 700}, "status is at most 599, not 700"),
        ({"writes": 0}, "a write has at least 1 byte, not 0"),
        ({"writes": ()}, "a write has at least 1 byte"),
        ({"writes": (3, -1)}, "a write has at least 1 byte, not -1"),
        ({"writes": "line"}, "writes is"),
        ({"drip": (0, 1)}, "a write has at least 1 byte"),
        ({"drip": (1, -1)}, "drip waits at least 0 seconds"),
        ({"cut_after": -1}, "cut_after is at least 0, not -1"),
        ({"delay": -1}, "delay is at least 0, not -1"),
        ({"compression": "lzma"}, "compression is one of gzip, deflate, br, zstd, not 'lzma'"),
    ],
)
def test_no_fault(fields: dict[str, Any], said: str) -> None:
    """
    What makes no sense is refused when it is written down.
    """
    with pytest.raises(ConfigurationError, match=said):
        Fault(**fields)


def test_missing_package(monkeypatch: pytest.MonkeyPatch) -> None:
    """
    A coding whose package is missing says which extra has it.
    """
    monkeypatch.setitem(sys.modules, "brotli", None)
    with pytest.raises(ConfigurationError, match=r"rxchat\[compression\]"):
        Fault(compression="br")


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: FakeAnswer("x", piece=0), "piece is at least 1, not 0"),
        (lambda: FakeAnswer("x", tokens_per_second=0), "tokens_per_second is above 0, not 0"),
    ],
)
def test_no_answer_like_that(make: Any, said: str) -> None:
    """
    An answer that could never be sent is refused.
    """
    with pytest.raises(ConfigurationError, match=said):
        make()


def test_answer_filled_in() -> None:
    """
    What an answer does not say is filled in: the finish, the ids of calls, their text.
    """
    answer = FakeAnswer("x", ToolCall(name="a", arguments={"b": 1}), ToolCall(name="c", arguments_text="{}", id="own"))
    assert FinishReason.TOOL_CALLS is answer.reason
    assert [("call_1", '{"b":1}'), ("own", "{}")] == [(call.id, call.arguments_text) for call in answer.parts if isinstance(call, ToolCall)]
    assert FinishReason.STOP is FakeAnswer().reason
    assert FinishReason.LENGTH is FakeAnswer(ToolCall(name="a"), finish=FinishReason.LENGTH).reason


# --- recorded bodies ------------------------------------------------------------------------------------------------------------------------------


async def served(dialect: str, entries: Sequence[Entry]) -> list[tuple[bytes, str]]:
    """
    What a client that reads no dialect gets, request by request.
    """
    got: list[tuple[bytes, str]] = []
    async with FakeProvider(entries) as provider, aiohttp.ClientSession() as session:
        for _ in entries:
            async with session.post(provider.url(dialect), data=b"{}") as response:
                got.append((await response.read(), response.headers["content-type"]))
    return got


@pytest.mark.parametrize("dialect", DIALECTS)
async def test_corpus(dialect: str) -> None:
    """
    A recorded body is sent unchanged, in whatever writes.
    """
    bodies = [(path.read_bytes(), MEDIA_TYPES[path.suffix]) for path in BODIES if path.parent.name == dialect]
    assert bodies
    for fault in (Fault(), Fault(writes=7)):
        assert bodies == await served(dialect, [FakeBody(body, kind).with_fault(fault) for body, kind in bodies])


@pytest.mark.parametrize("dialect", DIALECTS)
async def test_recorded(dialect: str) -> None:
    """
    So are the recordings of real providers.
    """
    paths = sorted(shared("corpus", dialect).glob("*.wire"))
    bodies = [path.read_bytes() for path in (paths if EXHAUSTIVE else paths[::10])]
    assert bodies == [body for body, _ in await served(dialect, bodies)]
