"""
Compressed bodies: the same events as soon as their bytes were flushed, a cut or a broken one never an end, a bomb never memory.
"""

from __future__ import annotations

import asyncio
import gzip
import tracemalloc
import zlib
from collections.abc import Callable, Iterator
from functools import cache
from typing import Any

import pytest
from aiohttp import web

from rxchat.client import ChatModel, HttpSettings
from rxchat.client.encodings import CODINGS, ZSTD_WINDOW_LOG, Decoder, accepted, brotli, decoder_for, zstd
from rxchat.client.http_body import new_session
from rxchat.client.reading import PIECE
from rxchat.errors import ConnectionLostError, FramingError, HTTPStatusError, LimitExceeded, RxchatError, Verdict
from rxchat.events import TextDelta
from rxchat.limits import Limits
from tests.client.watching import Serve, Watcher
from tests.loopback import DONE, FINISH, GOOD, Loopback, Script, answer, delta, raw
from tests.shared_data import EXHAUSTIVE

MiB = 1024 * 1024


class Flushing:
    """
    A compressor that can be flushed behind each piece, by coding name.
    """

    def __init__(self, coding: str) -> None:
        self._piece, self._end = {
            "gzip": self._zlib(31),
            "deflate": self._zlib(15),
            "raw deflate": self._zlib(-15),
            "br": self._br,
            "zstd": self._zstd,
        }[coding]()

    def piece(self, data: bytes) -> bytes:
        """
        The data compressed and flushed.
        """
        return self._piece(data)

    def end(self) -> bytes:
        """
        The end of the compressed stream.
        """
        return self._end()

    @staticmethod
    def _zlib(window: int) -> Callable[[], tuple[Callable[[bytes], bytes], Callable[[], bytes]]]:
        def make() -> tuple[Callable[[bytes], bytes], Callable[[], bytes]]:
            inner = zlib.compressobj(wbits=window)
            return lambda data: inner.compress(data) + inner.flush(zlib.Z_SYNC_FLUSH), inner.flush

        return make

    @staticmethod
    def _br() -> tuple[Callable[[bytes], bytes], Callable[[], bytes]]:
        inner = brotli.Compressor(quality=4)
        return lambda data: inner.process(data) + inner.flush(), inner.finish

    @staticmethod
    def _zstd() -> tuple[Callable[[bytes], bytes], Callable[[], bytes]]:
        inner = zstd.ZstdCompressor()
        return lambda data: inner.compress(data, inner.FLUSH_BLOCK), lambda: inner.flush(inner.FLUSH_FRAME)


ALL = ["gzip", "deflate", "raw deflate", "br", "zstd"]
NAMES = {"raw deflate": "deflate"}


def squeezed(coding: str, *pieces: bytes, whole: bool = True) -> tuple[bytes, ...]:
    """
    The pieces, each flushed; with the end of the stream unless it is to be missing.
    """
    made = Flushing(coding)
    return (*(made.piece(piece) for piece in pieces), *((made.end(),) if whole else ()))


def encoded(coding: str, *chunks: bytes, **more: Any) -> Script:
    """
    An answer that says it is compressed so.
    """
    return answer(*chunks, headers={"content-encoding": NAMES.get(coding, coding)}, **more)


def model_at(server: Loopback, **settings: Any) -> ChatModel:
    """
    A model of that server that asks once.
    """
    http = HttpSettings(retry=None, **settings.pop("http", {}))
    return ChatModel("test-1", base_url=server.url, settings=http, **settings)


async def failing(server: Loopback, **settings: Any) -> RxchatError:
    """
    How one answer failed.
    """
    with pytest.raises(RxchatError) as caught:
        await model_at(server, **settings).call("Hi")
    return caught.value


# --- what comes out -------------------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("coding", ALL)
@pytest.mark.parametrize("size", [None, 1, 7])
async def test_the_same_events_as_without(serve: Serve, coding: str, size: int | None) -> None:
    """
    E9: whatever the compression and the size of the reads.
    """
    plain = await serve(answer(*GOOD))
    server = await serve(encoded(coding, *squeezed(coding, *GOOD)))
    expected = await Watcher().watch(model_at(plain).stream("Hi")).end()
    got = await Watcher().watch(model_at(server, http={"read_size": size}).stream("Hi")).end()
    assert [type(event) for event in expected.items] == [type(event) for event in got.items]
    assert expected.items[-1].response.text == got.items[-1].response.text == "Hello, world."
    assert got.items[-1].response.verdict is Verdict.COMPLETE


@pytest.mark.parametrize("coding", ALL)
async def test_an_event_arrives_when_its_bytes_were_flushed(serve: Serve, coding: str) -> None:
    """
    The server goes on only when the event before has arrived: nothing waits in a buffer for more.
    """
    arrived = asyncio.Semaphore(0)
    texts = [f"{k} " for k in range(20)]

    async def script(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse(headers={"content-type": "text/event-stream", "content-encoding": NAMES.get(coding, coding)})
        await response.prepare(request)
        made = Flushing(coding)
        for text in texts:
            await response.write(made.piece(delta(text)))
            await asyncio.wait_for(arrived.acquire(), 5)
        await response.write(made.piece(FINISH + DONE) + made.end())
        return response

    watcher = Watcher(on_next=lambda event: arrived.release() if isinstance(event, TextDelta) else None)
    await watcher.watch(model_at(await serve(script)).stream("Hi")).end()
    assert texts == [event.text for event in watcher.items if isinstance(event, TextDelta)]


async def test_only_what_can_be_undone_is_asked_for(serve: Serve) -> None:
    """
    Accept-Encoding names the codings of the table, or what the caller's session says.
    """
    server = await serve(answer(*GOOD))
    await model_at(server).call("Hi")
    session = new_session(HttpSettings())
    session.headers["Accept-Encoding"] = "identity"
    async with session:
        await model_at(server, session=session).call("Hi")
    assert [seen.headers["accept-encoding"] for seen in server.seen] == [accepted(), "identity"]
    assert accepted() == ", ".join(CODINGS) == "gzip, deflate, br, zstd"


@pytest.mark.parametrize("said", ["gzip", "GZIP", "x-gzip", " identity, gzip"])
async def test_names_of_codings_in_any_spelling(serve: Serve, said: str) -> None:
    """
    Case, the old x- and identity mean nothing.
    """
    server = await serve(answer(gzip.compress(b"".join(GOOD)), headers={"content-encoding": said}))
    assert (await model_at(server).call("Hi")).text == "Hello, world."


@pytest.mark.parametrize("coding", ["gzip", "zstd"])
async def test_several_streams_in_a_row_are_one_body(serve: Serve, coding: str) -> None:
    """
    Some servers compress each write by itself.
    """
    server = await serve(encoded(coding, *(piece for frame in GOOD for piece in squeezed(coding, frame))))
    assert (await model_at(server).call("Hi")).text == "Hello, world."


@pytest.mark.parametrize("coding", ["gzip", "br"])
async def test_an_empty_body_is_whole(serve: Serve, coding: str) -> None:
    """
    Without a byte there is nothing that could be cut: an empty refusal is a refusal.
    """
    error = await failing(await serve(encoded(coding, status=503)))
    assert (type(error), str(error)) == (HTTPStatusError, "HTTP 503 Service Unavailable")


# --- cut and broken -------------------------------------------------------------------------------------------------------------------------------

GEMINI = b'data: {"candidates":[{"content":{"parts":[{"text":"Hello"}],"role":"model"},"finishReason":"STOP","index":0}]}\n\n'


@pytest.mark.parametrize("coding", ALL)
async def test_cut_inside_the_compression_is_no_end(serve: Serve, coding: str) -> None:
    """
    V5: the transfer ends well, the compressed stream does not: lost, where the same bytes uncompressed would have been an end.
    """
    whole = await serve(encoded(coding, *squeezed(coding, GEMINI)))
    cut = await serve(encoded(coding, *squeezed(coding, GEMINI, whole=False)))
    assert (await model_at(whole, dialect="gemini").call("Hi")).verdict is Verdict.COMPLETE
    error = await failing(cut, dialect="gemini")
    assert (type(error), error.retryable, str(error)) == (ConnectionLostError, True, "the compressed body ended before its own end")
    assert (error.response.text, error.response.verdict) == ("Hello", Verdict.CONNECTION_LOST)  # type: ignore[union-attr]


@pytest.mark.parametrize("coding", ALL)
async def test_cut_at_every_byte_it_is_no_end(coding: str) -> None:
    """
    Only the whole is whole; what was flushed before the cut is there.
    """
    pieces = squeezed(coding, b"one", b"two")
    body, flushed = b"".join(pieces), [0, len(pieces[0]), len(pieces[0] + pieces[1])]
    for cut in range(1, len(body) + 1):
        decoder = Decoder(NAMES.get(coding, coding))
        decoder.feed(body[:cut])
        got = b"".join(iter(lambda: decoder.take(PIECE), b""))  # noqa: B023  # used before the next turn
        assert (cut == len(body)) == decoder.whole
        assert got.startswith(b"onetwo"[: 3 * sum(cut >= edge for edge in flushed[1:])])


@pytest.mark.parametrize("coding", ALL)
async def test_what_is_not_that_coding_is_a_framing_error(serve: Serve, coding: str) -> None:
    """
    Text that says it is compressed; and a flipped bit in a checksum or in the data.
    """
    name = NAMES.get(coding, coding)
    error = await failing(await serve(encoded(coding, b"<html>not compressed at all, whatever it says</html>")))
    assert (type(error), error.verdict, str(error).startswith(f"the body is not what {name} makes")) == (FramingError, Verdict.FRAMING, True)


@pytest.mark.parametrize("coding", ALL)
@pytest.mark.parametrize("size", [1, 5, 10_000])
def test_a_fault_comes_behind_what_was_right_however_it_was_cut(coding: str, size: int) -> None:
    """
    E9, E10: every bit that is flipped is noticed or changes nothing, and how much comes before does not depend on the reads.
    """
    text = [b"%d, " % k * 9 for k in range(12)]
    body = b"".join(squeezed(coding, *text))
    for at in range(0, len(body), 1 if EXHAUSTIVE else 3):
        broken = body[:at] + bytes((body[at] ^ 0x41,)) + body[at + 1 :]
        assert decoded(coding, broken, 1) == decoded(coding, broken, size)


def decoded(coding: str, body: bytes, size: int) -> tuple[bytes, str]:
    """
    What a body gives in reads of that size, and how it ended.
    """
    decoder, got = Decoder(NAMES.get(coding, coding)), bytearray()
    try:
        for piece in cuts(body, size):
            decoder.feed(piece)
            while out := decoder.take(64):
                got += out
    except FramingError:
        return bytes(got), "broken"
    return bytes(got), "whole" if decoder.whole else "cut"


async def test_a_wrong_checksum_comes_behind_what_was_right(serve: Serve) -> None:
    """
    E10: the text is delivered, then the fault is told.
    """
    *pieces, end = squeezed("gzip", delta("Hello"))
    error = await failing(await serve(encoded("gzip", *pieces, end[:-8] + bytes(8))))
    assert (type(error), error.response.text) == (FramingError, "Hello")  # type: ignore[union-attr]


@pytest.mark.parametrize("coding, behind", [("gzip", b"rest"), ("deflate", b"rest"), ("br", b"rest"), ("zstd", b"rest")])
async def test_something_behind_the_end_is_a_framing_error(serve: Serve, coding: str, behind: bytes) -> None:
    """
    A compressed body ends with its stream; another stream behind it only where the coding allows several.
    """
    error = await failing(await serve(encoded(coding, *squeezed(coding, GEMINI), behind)), dialect="gemini")
    assert (type(error), error.response.text) == (FramingError, "Hello")  # type: ignore[union-attr]


@pytest.mark.parametrize(
    "said, words",
    [
        ("compress", "the body is compressed by compress, which was not asked for; what can be read is gzip, deflate, br, zstd"),
        ("gzip, br", "the body is compressed by gzip, br, which was not asked for; what can be read is gzip, deflate, br, zstd"),
    ],
)
async def test_an_unknown_coding_is_named(serve: Serve, said: str, words: str) -> None:
    """
    A clear word, not events of rubbish.
    """
    error = await failing(await serve(answer(*GOOD, headers={"content-encoding": said})))
    assert (type(error), str(error)) == (FramingError, words)


async def test_a_refusal_stays_one_whatever_its_coding(serve: Serve) -> None:
    """
    D6: what the head said counts more than a body nobody can read.
    """
    server = await serve(answer(b"?", status=429, headers={"content-encoding": "compress", "retry-after": "7"}))
    error = await failing(server)
    assert (type(error), error.status, error.retry_after) == (HTTPStatusError, 429, 7.0)


async def test_a_refusals_compressed_body_is_read(serve: Serve) -> None:
    """
    The provider's words come out of it.
    """
    server = await serve(answer(gzip.compress(b'{"error":{"message":"queue is full"}}'), status=429, headers={"content-encoding": "gzip"}))
    assert str(await failing(server)) == "queue is full"


def test_a_library_that_is_missing_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """
    A server may send what nobody asked for.
    """
    for name in ("br", "zstd"):
        monkeypatch.delitem(CODINGS, name)
    assert accepted() == "gzip, deflate"
    with pytest.raises(FramingError, match=r"compressed by br: install brotli"):
        decoder_for("br")
    with pytest.raises(FramingError, match=r"compressed by zstd: install backports\.zstd"):
        decoder_for("zstd")


# --- bombs ----------------------------------------------------------------------------------------------------------------------------------------


BOMB = 1024 * MiB if EXHAUSTIVE else 128 * MiB


@cache
def bomb(coding: str) -> bytes:
    """
    Zeros, compressed; made a piece at a time.
    """
    made, zeros = Flushing(coding), bytes(MiB)
    return b"".join([made.piece(zeros) for _ in range(BOMB // MiB)]) + made.end()


@pytest.mark.parametrize("coding", ["gzip", "br", "zstd"])
@pytest.mark.parametrize("status", [200, 500])
async def test_a_bomb_is_refused_in_bounded_memory(serve: Serve, coding: str, status: int) -> None:
    """
    B5: a GiB of zeros ends at the line's limit, or is a refusal with as much of its body as is kept; never more memory than that limit asks for.
    """
    body = bomb(coding)
    server = await serve(encoded(coding, body, status=status))
    tracemalloc.start()
    try:
        error = await failing(server, limits=Limits(line=MiB))
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert (error.verdict, len(body) < 2 * MiB) == (Verdict.LIMIT if status == 200 else Verdict.HTTP_STATUS, True)
    if isinstance(error, LimitExceeded):
        assert (error.limit, error.value) == ("line", MiB)
    print(f"{coding} {status}: {len(body)} bytes for {BOMB / MiB:.0f} MiB, peak {peak / MiB:.2f} MiB")
    assert peak < 4 * MiB


async def test_others_have_their_turn_while_a_bomb_goes_off(serve: Serve) -> None:
    """
    Comments without end, well compressed: the total is refused, and the loop was never held for long.
    """
    made, lines = Flushing("gzip"), b": nothing\n" * 100_000
    server = await serve(encoded("gzip", b"".join([made.piece(lines) for _ in range(12)]) + made.end()))
    gaps = Gaps()
    watching = asyncio.create_task(gaps.run())
    error = await failing(server, limits=Limits(total=10_000_000))
    watching.cancel()
    await asyncio.gather(watching, return_exceptions=True)
    assert (type(error), error.limit) == (LimitExceeded, "total")  # type: ignore[attr-defined]
    print(f"longest turn {gaps.longest * 1000:.0f} ms")
    assert gaps.longest < 0.5


class Gaps:
    """
    The longest time between two turns of the loop.
    """

    longest = 0.0

    async def run(self) -> None:
        """
        Until cancelled.
        """
        loop = asyncio.get_running_loop()
        last = loop.time()
        while True:
            await asyncio.sleep(0)
            now = loop.time()
            self.longest, last = max(self.longest, now - last), now


def test_a_window_larger_than_the_webs_is_refused() -> None:
    """
    A zstd frame may ask for hundreds of MiB of window; RFC 9659 allows 8.
    """
    options = {zstd.CompressionParameter.window_log: ZSTD_WINDOW_LOG + 1, zstd.CompressionParameter.content_size_flag: 0}
    made = zstd.ZstdCompressor(options=options)
    decoder = Decoder("zstd")
    decoder.feed(made.compress(bytes(PIECE)) + made.flush())
    with pytest.raises(FramingError, match="is not what zstd makes"):
        decoder.take(PIECE)


def cuts(body: bytes, size: int) -> Iterator[bytes]:
    """
    The body in pieces.
    """
    return (body[at : at + size] for at in range(0, len(body), size))


@pytest.mark.parametrize("coding", ALL)
@pytest.mark.parametrize("size", [1, 3, 1000])
@pytest.mark.parametrize("limit", [1, 100, PIECE])
def test_any_cut_and_any_limit_give_the_same(coding: str, size: int, limit: int) -> None:
    """
    E9, for the decoder alone.
    """
    text = b"".join(b"%d, " % k for k in range(300))
    decoder = Decoder(NAMES.get(coding, coding))
    got = bytearray()
    for piece in cuts(b"".join(squeezed(coding, text[:500], text[500:])), size):
        decoder.feed(piece)
        while out := decoder.take(limit):
            got += out
    assert (bytes(got), decoder.whole) == (text, True)


async def test_a_break_comes_behind_what_had_arrived(serve: Serve) -> None:
    """
    E10: a broken transfer of a compressed body.
    """
    head = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ncontent-encoding: gzip\r\ncontent-length: 5000\r\n\r\n"
    error = await failing(await serve(raw(head + squeezed("gzip", delta("Hello"))[0])))
    assert (type(error), error.response.text) == (ConnectionLostError, "Hello")  # type: ignore[union-attr]
