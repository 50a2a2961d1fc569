"""
One HTTP request as an Observable of the bytes of its answer.

A subscription is one asyncio task that reads and pushes; the push is the demand signal, for the next read waits until every synchronous consumer is done.
While bytes come in as they are wanted, they are pushed as they arrive and the task sleeps. Disposal cancels the task at whatever stage it is (also before
the headers), which closes the connection; it says nothing.

What a chat protocol calls the end often comes a moment before the transfer's own (`data: [DONE]`, then the last chunk). Whoever leaves a body there, in a
session that others share, leaves the task to wait for that, so that the connection serves again; the subscriber waits for nothing.

Which kind of fault broke a transfer is told for aiohttp with its C extensions; without them (AIOHTTP_NO_EXTENSIONS=1) its parser says other things, and that is
not supported.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from contextvars import Context, ContextVar, copy_context
from http import HTTPStatus
from typing import Any

import aiohttp
import attrs
from reactivex import Observable, abc
from reactivex.disposable import Disposable
from yarl import URL

from rxchat.client.connecting import OwnConnector
from rxchat.client.encodings import accepted
from rxchat.client.failures import from_aiohttp, proxy_refusal
from rxchat.client.proxies import Route, route_of
from rxchat.client.reading import Answer
from rxchat.client.secrets import hide
from rxchat.client.settings import HttpSettings
from rxchat.client.signing import sign
from rxchat.demand import Valve, valve_of
from rxchat.errors import ConfigurationError, ConnectionLostError, RxchatError
from rxchat.loops import in_loop, loop_at_work
from rxchat.outgoing.common import WireRequest
from rxchat.pipeline import Head

__all__ = ["http_body", "new_session"]

log = logging.getLogger("rxchat")
FAILED_AT_THE_END = "a subscriber failed at the end of its stream"

# From two such buffers on nothing more is taken from the socket for a slow consumer. Not more: reads of a few bytes are kept as objects of some 60.
READ_BUFFER = 16 * 1024

# Seconds to wait for the end of a transfer whose content is over. A new connection costs about as much.
LINGER = 0.05


# Whom to tell of the connection of the request at hand; a task's own, as a request is.
tell_connected: ContextVar[Callable[[], None]] = ContextVar("tell_connected")


async def _say_connected(*_: object) -> None:
    tell_connected.get(lambda: None)()


# aiohttp says there is a connection only to those a session knows from its beginning, or as its list of them says.
CONNECTIONS = aiohttp.TraceConfig()
CONNECTIONS.on_connection_create_end.append(_say_connected)
CONNECTIONS.on_connection_reuseconn.append(_say_connected)
CONNECTIONS.freeze()


def watch_connections(session: aiohttp.ClientSession) -> None:
    """
    Be told of the session's connections; one that cannot say has made one when the headers come.

    A session of the caller's keeps this one listener, which is silent for requests that are not ours.
    """
    known: list[aiohttp.TraceConfig] | None = getattr(session, "trace_configs", None)
    if known is not None and CONNECTIONS not in known:
        known.append(CONNECTIONS)


def new_session(settings: HttpSettings) -> aiohttp.ClientSession:
    """
    A session for provider calls: no cookies, no limit on parallel streams, no total time.
    """
    return aiohttp.ClientSession(
        connector=OwnConnector(limit=0),
        cookie_jar=aiohttp.DummyCookieJar(),
        timeout=aiohttp.ClientTimeout(total=None),
        trace_configs=[CONNECTIONS],
    )


def http_body(
    request: WireRequest,
    on_head: Callable[[Head], None],
    *,
    settings: HttpSettings | None = None,
    session: aiohttp.ClientSession | None = None,
    on_connected: Callable[[], None] | None = None,
    whole: Callable[[], bool] = lambda: False,
) -> Observable[bytes]:
    """
    The answer's body, decompressed; each subscription sends the request once.

    `on_head` is told status and headers before the first item, which is always empty: it lets the pipeline judge the head before the body is read.
    `on_connected` is called when there is a connection for it. `whole` is asked when somebody leaves the body in the middle of an item: whether that was all
    of its content. No clock runs here: the budgets are the call's (contract D2).
    Without `session` the request has one of its own. ConfigurationError at once where no event loop runs (contract D8), or the session
    is closed; one that is closed from then on is a lost connection.
    """

    def subscribe(observer: abc.ObserverBase[bytes], scheduler: abc.SchedulerBase | None = None) -> abc.DisposableBase:
        if session is not None and session.closed:
            raise ConfigurationError("the request cannot be sent: its session is closed")
        pump = Pump(request, on_head, on_connected or (lambda: None), whole, settings or HttpSettings(), session, observer, valve_of(scheduler))
        return pump.start()

    return Observable(subscribe)


@attrs.define(eq=False)
class Pump:
    """
    One subscription: the task that reads and pushes.
    """

    _request: WireRequest
    _on_head: Callable[[Head], None]
    _on_connected: Callable[[], None]
    _whole: Callable[[], bool]
    _settings: HttpSettings
    _session: aiohttp.ClientSession | None
    _observer: abc.ObserverBase[bytes]
    _valve: Valve | None
    _task: asyncio.Task[None] | None = None
    # The subscriber's, in which all is pushed.
    _context: Context = attrs.field(factory=copy_context)
    _over: bool = False
    _pushing: bool = False
    _lingers: bool = False

    def start(self) -> abc.DisposableBase:
        """
        Begin, and give the handle that ends it.
        """
        self._task = running_loop().create_task(self._run(), name="rxchat request", context=self._context)
        _tasks.add(self._task)
        self._task.add_done_callback(_ended)
        return Disposable(self._dispose)

    def _dispose(self) -> None:
        if self._over:
            return
        self._over = True
        task = self._task
        assert task is not None
        if self._pushing and loop_at_work() is task.get_loop():
            # In the middle of a push.
            self._lingers = self._session is not None and self._whole()
        else:
            in_loop(task.get_loop(), task.cancel)

    async def _run(self) -> None:
        """
        Read to the end or to the first failure, and say so once, unless disposed of.

        A consumer's exception ends here too: the connection is closed and its own on_error is told (contract E14).
        """
        failure: Exception | None = None
        try:
            await self._transfer()
        except asyncio.CancelledError:
            if self._cancelled():
                self._over = True
            else:
                # aiohttp cancels what waits for a connection, or for a name, in a session that is closed meanwhile.
                failure = ConnectionLostError("the session was closed before there was a connection")
        except Exception as error:
            failure = error
        if isinstance(failure, RxchatError) and self._session is not None and self._session.closed:
            # Another attempt would find no connection either.
            failure.retryable = False
        if not self._over:
            self._over = True
            self._say(failure)
        elif self._pushing and failure is not None:
            # It was told the end and failed at that: who could still be told?
            log.error(FAILED_AT_THE_END, exc_info=failure)
        # It holds this frame, and must not be held by it.
        del failure

    def _cancelled(self) -> bool:
        """
        Whether somebody wanted this request to end: by disposal, with its loop, or by raising this in on_next.
        """
        return self._over or self._pushing or (self._task is not None and self._task.cancelling() > 0)

    async def _transfer(self) -> None:
        async with self._connected() as answer:
            self._on_head(answer.head)
            self._push(b"")
            while not self._over:
                if self._valve is not None:
                    # Somebody downstream has too much waiting. No clock runs meanwhile.
                    await self._valve.ready()
                chunk = await answer.read(self._settings.read_size)
                if not chunk:
                    return
                if self._poured(chunk):
                    await answer.pour(self._settings.read_size, self._poured, self._context)
            if self._lingers:
                await self._linger(answer)

    async def _linger(self, answer: Answer) -> None:
        """
        Let a transfer end whose content is over; nobody waits for this but who closes the session.
        """
        assert self._task is not None
        assert self._session is not None
        _lingering[self._task] = self._session
        try:
            await answer.finish(LINGER)
        finally:
            del _lingering[self._task]

    def _push(self, chunk: bytes) -> None:
        self._pushing = True
        self._observer.on_next(chunk)
        self._pushing = False

    def _poured(self, chunk: bytes) -> bool:
        """
        Push what has just arrived; whether to go on so.
        """
        self._push(chunk)
        return not self._over and (self._valve is None or not self._valve.held)

    @asynccontextmanager
    async def _connected(self) -> AsyncIterator[Answer]:
        """
        The answer with its headers; whatever happens then, its connection is given back whole or closed, never left.
        """
        session = self._session or new_session(self._settings)
        watch_connections(session)
        try:
            response = await self._send(session)
            try:
                yield Answer(response, self._request.url)
            finally:
                # A body read to its end leaves a connection that can serve again.
                response.release() if response.content.is_eof() else response.close()
        finally:
            if session is not self._session:
                await session.close()

    async def _send(self, session: aiohttp.ClientSession) -> aiohttp.ClientResponse:
        """
        The response at its headers. A proxy that refuses is no answer but a connection that was not made.
        """
        if session.closed:
            raise ConnectionLostError("the session was closed before the request was sent")
        request = self._request
        route = route_of(request.url, self._settings, isinstance(session.connector, OwnConnector))
        failure: RxchatError
        if request.auth == "sigv4":
            request = await asyncio.to_thread(sign, request)
        told = tell_connected.set(self._on_connected)
        try:
            response = await session.request(**self._arguments(request, route, session))
            if response.status != HTTPStatus.PROXY_AUTHENTICATION_REQUIRED:
                return response
            response.close()
            failure = proxy_refusal(response.status, response.reason, request.url)
        except aiohttp.ClientError as error:
            failure = from_aiohttp(error, request.url)
        except (OSError, ValueError, RuntimeError) as error:
            failure = from_aiohttp(error, request.url)
        finally:
            tell_connected.reset(told)
        hide(failure, route.secrets)
        raise failure

    def _arguments(self, request: WireRequest, route: Route, session: aiohttp.ClientSession) -> dict[str, Any]:
        """
        What aiohttp is asked with.
        """
        # What can be undone, unless the caller's session says otherwise.
        coding = {} if "accept-encoding" in session.headers else {"Accept-Encoding": accepted()}
        return {
            "method": request.method,
            # What a builder has quoted must not be quoted anew: a signature is over the path as it is.
            "url": URL(request.url, encoded=True) if "%" in request.url else request.url,
            "data": request.content,
            **route.arguments(request.url, {**coding, **request.headers}),
            "ssl": self._settings.ssl,
            # A redirect would carry the key and the conversation to a host nobody named.
            "allow_redirects": False,
            "auto_decompress": False,
            "read_bufsize": READ_BUFFER,
            # The clocks are the call's (contract D2).
            "timeout": aiohttp.ClientTimeout(total=None),
        }

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
                log.exception(FAILED_AT_THE_END)


def _ended(task: asyncio.Task[None]) -> None:
    """
    Forget a task that is over. What ends the whole program has come out of the loop by itself, and would be told a second time as "never retrieved".
    """
    _tasks.discard(task)
    if not task.cancelled() and isinstance(error := task.exception(), Exception):
        raise error


# The loop itself holds its tasks only weakly.
_tasks: set[asyncio.Task[None]] = set()
# Those that only wait for the end of a transfer.
_lingering: dict[asyncio.Task[None], aiohttp.ClientSession] = {}


async def close(session: aiohttp.ClientSession) -> None:
    """
    Close a session, and see those go that only wait for its connections to be free.
    """
    await session.close()
    # A copy: other threads have loops and requests of their own.
    if waiting := [task for task, theirs in _lingering.copy().items() if theirs is session]:
        for task in waiting:
            task.cancel()
        await asyncio.wait(waiting)


def running_loop() -> asyncio.AbstractEventLoop:
    """
    The event loop at work; ConfigurationError if there is none.
    """
    loop = loop_at_work()
    if loop is None:
        raise ConfigurationError(
            "a request needs a running event loop: subscribe inside a coroutine that asyncio.run started, or use ChatModel.call_sync"
        )
    return loop


def _sentence(error: Exception) -> str:
    return f"{error.verdict}: {error}" if isinstance(error, RxchatError) else f"{type(error).__name__}: {error}"
