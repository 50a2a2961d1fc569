"""
One HTTP request as an Observable of the bytes of its answer.

A subscription is one asyncio task that reads and pushes; the push is the demand signal, for the next read waits until every synchronous consumer is done.
Disposal cancels the task at whatever stage it is (also before the headers), which closes the connection; it says nothing.
"""

from __future__ import annotations

import asyncio
import logging
import urllib.request
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from urllib.parse import urlsplit

import aiohttp
import attrs
from reactivex import Observable, abc
from reactivex.disposable import Disposable
from yarl import URL

from rxchat.client.failures import from_aiohttp
from rxchat.client.settings import HttpSettings
from rxchat.client.signing import sign
from rxchat.demand import Valve, valve_of
from rxchat.errors import ConfigurationError, ReadTimeout, RxchatError
from rxchat.outgoing.common import WireRequest
from rxchat.pipeline import Head

__all__ = ["http_body", "new_session"]

log = logging.getLogger("rxchat")

# Two such buffers at most wait in user space for a slow consumer.
READ_BUFFER = 64 * 1024
LOOPBACK = frozenset({"localhost", "127.0.0.1", "::1"})


def new_session(settings: HttpSettings) -> aiohttp.ClientSession:
    """
    A session for provider calls: no cookies, no limit on parallel streams, no total time.
    """
    return aiohttp.ClientSession(
        connector=aiohttp.TCPConnector(limit=0),
        cookie_jar=aiohttp.DummyCookieJar(),
        timeout=aiohttp.ClientTimeout(total=None, connect=settings.connect_timeout),
    )


def http_body(
    request: WireRequest,
    on_head: Callable[[Head], None],
    *,
    settings: HttpSettings | None = None,
    session: aiohttp.ClientSession | None = None,
) -> Observable[bytes]:
    """
    The answer's body, decompressed; each subscription sends the request once.

    `on_head` is told status and headers before the first item, which is always empty: it lets the pipeline judge the head before the body is read.
    Without `session` the request has one of its own. ConfigurationError at once where no event loop runs (contract D8).
    """

    def subscribe(observer: abc.ObserverBase[bytes], scheduler: abc.SchedulerBase | None = None) -> abc.DisposableBase:
        return Pump(request, on_head, settings or HttpSettings(), session, observer, valve_of(scheduler)).start()

    return Observable(subscribe)


@attrs.define(eq=False)
class Pump:
    """
    One subscription: the task that reads and pushes.
    """

    _request: WireRequest
    _on_head: Callable[[Head], None]
    _settings: HttpSettings
    _session: aiohttp.ClientSession | None
    _observer: abc.ObserverBase[bytes]
    _valve: Valve | None
    _task: asyncio.Task[None] | None = None
    _over: bool = False

    def start(self) -> abc.DisposableBase:
        """
        Begin, and give the handle that ends it.
        """
        self._task = running_loop().create_task(self._run(), name="rxchat request")
        _tasks.add(self._task)
        self._task.add_done_callback(_tasks.discard)
        return Disposable(self._dispose)

    def _dispose(self) -> None:
        if self._over:
            return
        self._over = True
        task = self._task
        if task is not None and task is not _current_task():
            task.cancel()

    async def _run(self) -> None:
        """
        Read to the end or to the first failure, and say so once, unless disposed of.

        A consumer's exception ends here too: the connection is closed and its own on_error is told (contract E14).
        """
        failure: Exception | None = None
        try:
            await self._transfer()
        except asyncio.CancelledError:
            self._over = True
        except Exception as error:
            failure = error
        if not self._over:
            self._over = True
            self._say(failure)

    async def _transfer(self) -> None:
        async with self._connected() as response:
            self._on_head(head_of(response))
            self._observer.on_next(b"")
            while not self._over:
                chunk = await self._read(response.content)
                if not chunk:
                    return
                self._observer.on_next(chunk)
                if self._valve is not None:
                    # Somebody downstream has too much waiting. No clock runs meanwhile.
                    await self._valve.ready()

    async def _read(self, content: aiohttp.StreamReader) -> bytes:
        budget, size = self._settings.read_timeout, self._settings.read_size
        failure: RxchatError
        try:
            async with asyncio.timeout(budget):
                return await (content.readany() if size is None else content.read(size))
        except aiohttp.ClientError as error:
            failure = from_aiohttp(error, self._request.url)
        except TimeoutError:
            failure = ReadTimeout(f"the provider was silent for {budget:g} s", budget)
        except OSError as error:
            failure = from_aiohttp(error, self._request.url)
        # aiohttp raises before it gives out what it had read until then (contract E10); the next read meets the failure again.
        if held := content._read_nowait(-1 if size is None else size):
            return held
        raise failure

    @asynccontextmanager
    async def _connected(self) -> AsyncIterator[aiohttp.ClientResponse]:
        """
        The answer with its headers; whatever happens then, its connection is given back whole or closed, never left.
        """
        session = self._session or new_session(self._settings)
        try:
            response = await self._send(session)
            try:
                yield response
            finally:
                # A body read to its end leaves a connection that can serve again.
                response.release() if response.content.is_eof() else response.close()
        finally:
            if session is not self._session:
                await session.close()

    async def _send(self, session: aiohttp.ClientSession) -> aiohttp.ClientResponse:
        request, budget = self._request, self._settings.read_timeout
        failure: RxchatError
        if request.auth == "sigv4":
            request = await asyncio.to_thread(sign, request)
        try:
            async with asyncio.timeout(budget):
                return await session.request(
                    request.method,
                    # What a builder has quoted must not be quoted anew: a signature is over the path as it is.
                    URL(request.url, encoded=True) if "%" in request.url else request.url,
                    data=request.content,
                    headers=request.headers,
                    proxy=proxy_of(request.url),
                    # A redirect would carry the key and the conversation to a host nobody named.
                    allow_redirects=False,
                    read_bufsize=READ_BUFFER,
                )
        except aiohttp.ClientError as error:
            failure = from_aiohttp(error, request.url)
        except TimeoutError:
            failure = ReadTimeout(f"no answer within {budget:g} s", budget)
        except (OSError, ValueError, RuntimeError) as error:
            failure = from_aiohttp(error, request.url)
        raise failure

    def _say(self, failure: Exception | None) -> None:
        try:
            if failure is None:
                self._observer.on_completed()
            else:
                self._observer.on_error(failure)
        except Exception as raised:
            # Nobody listened for errors, or the listener failed: say it once, where a task's "never retrieved" would say it late (contract D8).
            if raised is failure:
                log.error("a stream failed and nobody listened: %s", _sentence(raised))
            else:
                log.exception("a subscriber failed at the end of its stream")


# The loop itself holds its tasks only weakly.
_tasks: set[asyncio.Task[None]] = set()


def running_loop() -> asyncio.AbstractEventLoop:
    """
    The event loop at work; ConfigurationError if there is none.
    """
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        raise ConfigurationError(
            "a request needs a running event loop: subscribe inside a coroutine that asyncio.run started, or use ChatModel.call_sync"
        ) from None


def _current_task() -> asyncio.Task[object] | None:
    try:
        return asyncio.current_task()
    except RuntimeError:
        return None


def _sentence(error: Exception) -> str:
    return f"{error.verdict}: {error}" if isinstance(error, RxchatError) else f"{type(error).__name__}: {error}"


def head_of(response: aiohttp.ClientResponse) -> Head:
    """
    Status and headers; the end proves something only where the transfer itself announces it (contract V5).
    """
    headers = {name.lower(): value for name, value in response.headers.items()}
    announced = "content-length" in headers or "chunked" in headers.get("transfer-encoding", "").lower()
    return Head(status=response.status, headers=headers, clean_eof=announced)


def proxy_of(url: str) -> str | None:
    """
    The proxy the environment names for this address; never one for this machine.
    """
    parts = urlsplit(url)
    host = parts.hostname or ""
    if host in LOOPBACK or urllib.request.proxy_bypass(host):
        return None
    return urllib.request.getproxies().get(parts.scheme)
