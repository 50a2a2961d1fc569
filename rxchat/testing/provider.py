"""
`FakeProvider`: a provider on loopback that speaks every dialect, whose answers and faults are a script.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from inspect import isawaitable
from types import TracebackType
from typing import TYPE_CHECKING, Any, TypeAlias

import attrs

from rxchat.client import ChatModel
from rxchat.errors import ConfigurationError, RxchatError
from rxchat.presets import PRESETS
from rxchat.testing.answers import FakeAnswer, FakeBody
from rxchat.testing.asked import FakeRequest
from rxchat.testing.faults import Fault, Faulty
from rxchat.testing.replies import Reply, refusal, reply
from rxchat.testing.wires import get_wire

if TYPE_CHECKING:
    from aiohttp import web

__all__ = ["Entry", "FakeProvider", "Script"]

Entry: TypeAlias = FakeAnswer | FakeBody | Faulty | Fault | bytes | str
Script: TypeAlias = Entry | Sequence[Entry] | Callable[[FakeRequest], Entry | Awaitable[Entry]]

# What the model is called where a dialect tells by the name how to read its answer.
_NAMES: Mapping[str, str] = {"bedrock-invoke": "anthropic.fake-1"}


@attrs.define(eq=False)
class FakeProvider:
    """
    A real server on a port of its own, to point an application at.

        async with FakeProvider([FakeAnswer("Hello."), Fault(status=503, retry_after=1)]) as provider:
            answer = await provider.model("anthropic").call("Hi")

    `script` is a sequence, an entry a request in their order (then it refuses with status 500); or a callable, sync or async, that is given each request;
    or one entry that answers all. An entry is a FakeAnswer or its text, recorded bytes or a FakeBody, one of these `with_fault(...)`, or a Fault alone.
    `fault` is that of every entry without one of its own. The first segment of a request's path names the dialect it is answered in, so one server speaks
    them all; `requests` is what was asked. An entry that cannot be said in that dialect is refused with status 400, as is a callable that raises; what was
    wrong is raised at the end of `async with`. `sleep` and `clock` (seconds) are those of delays, drips and paces.
    """

    script: Script
    fault: Fault | None = attrs.field(default=None, kw_only=True)
    sleep: Callable[[float], Awaitable[object]] = attrs.field(default=asyncio.sleep, kw_only=True)
    clock: Callable[[], float] = attrs.field(default=time.monotonic, kw_only=True)
    requests: list[FakeRequest] = attrs.field(factory=list, init=False)
    _runner: web.AppRunner | None = attrs.field(default=None, init=False, repr=False)
    _port: int = attrs.field(default=0, init=False)
    _loop: asyncio.AbstractEventLoop | None = attrs.field(default=None, init=False, repr=False)
    _waiting: set[asyncio.Future[None]] = attrs.field(factory=set, init=False, repr=False)
    _wrong: Exception | None = attrs.field(default=None, init=False, repr=False)
    _next: Iterator[Entry] | None = attrs.field(default=None, init=False, repr=False)

    def __attrs_post_init__(self) -> None:
        if isinstance(self.script, Sequence) and not isinstance(self.script, (str, bytes)):
            self._next = iter([_checked(entry) for entry in self.script])
        elif not callable(self.script):
            _checked(self.script)

    # Where it is ---------------------------------------------------------------------------------------------------------------------------------

    def url(self, dialect: str) -> str:
        """
        The base URL at which it speaks that dialect, as our presets and most of the providers' own libraries want one.
        """
        if not self._port:
            raise ConfigurationError("the fake provider has no address before it is started: `async with`, or `with provider.in_thread()`")
        return f"http://127.0.0.1:{self._port}/{dialect}{get_wire(dialect).base}"

    def model(self, dialect: str, name: str | None = None, **settings: Any) -> ChatModel:
        """
        A model of that dialect at this server; `settings` are ChatModel's.
        """
        preset = next((preset.name for preset in PRESETS.values() if preset.dialect == dialect), None)
        given: dict[str, Any] = {"base_url": self.url(dialect), "api_key": "fake-key"} | ({} if preset else {"dialect": dialect}) | settings
        model = name or _NAMES.get(dialect, "fake-1")
        return ChatModel(f"{preset}/{model}" if preset else model, **given)

    # Its life ------------------------------------------------------------------------------------------------------------------------------------

    async def start(self) -> FakeProvider:
        """
        Listen.
        """
        # Only who starts one needs a server.
        from rxchat.testing.serving import open_site

        self._loop = asyncio.get_running_loop()
        self._runner, self._port = await open_site(self._handle)
        return self

    async def aclose(self) -> None:
        """
        Stop, and break off what still runs.
        """
        runner, self._runner, self._port = self._runner, None, 0
        if runner is not None:
            await runner.cleanup()

    async def __aenter__(self) -> FakeProvider:
        return await self.start()

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        await self.aclose()
        if error is None:
            self._raise_wrong()

    @contextmanager
    def in_thread(self) -> Iterator[FakeProvider]:
        """
        The same for code that does not await: the server has a loop in a thread of its own.
        """
        loop = asyncio.new_event_loop()
        thread = threading.Thread(target=loop.run_forever, name="rxchat fake provider", daemon=True)
        thread.start()
        try:
            asyncio.run_coroutine_threadsafe(self.start(), loop).result()
            yield self
        finally:
            asyncio.run_coroutine_threadsafe(self.aclose(), loop).result()
            loop.call_soon_threadsafe(loop.stop)
            thread.join()
            loop.close()
        self._raise_wrong()

    def _raise_wrong(self) -> None:
        wrong, self._wrong = self._wrong, None
        if wrong is not None:
            raise wrong

    # What happened -------------------------------------------------------------------------------------------------------------------------------

    async def asked(self, number: int = 0) -> FakeRequest:
        """
        The request of that number, from 0, as soon as it has come.
        """
        await self._until(lambda: len(self.requests) > number)
        return self.requests[number]

    async def client_left(self, number: int = 0) -> FakeRequest:
        """
        The request of that number, as soon as its client has left before the answer's end; AssertionError if the answer ends first.
        """
        request = await self.asked(number)
        await self._until(lambda: request.gone is not None or request.answered)
        assert request.gone is not None, f"the client of request {number} stayed to the end of its answer"
        return request

    def client_left_sync(self, number: int = 0, timeout: float = 5.0) -> FakeRequest:
        """
        The same for code that does not await (see `in_thread`); TimeoutError after so many seconds.
        """
        if self._loop is None:
            raise ConfigurationError("the fake provider has not been started")
        return asyncio.run_coroutine_threadsafe(asyncio.wait_for(self.client_left(number), timeout), self._loop).result()

    async def _until(self, met: Callable[[], bool]) -> None:
        if self._loop is not None and self._loop is not asyncio.get_running_loop():
            await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(self._until(met), self._loop))
            return
        while not met():
            change: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._waiting.add(change)
            try:
                await change
            finally:
                self._waiting.discard(change)

    def _changed(self) -> None:
        for change in self._waiting:
            if not change.done():
                change.set_result(None)

    # Answering -----------------------------------------------------------------------------------------------------------------------------------

    async def _handle(self, request: web.Request) -> web.StreamResponse:
        from rxchat.testing.serving import asked_of

        asked = await asked_of(request, time.monotonic())
        self.requests.append(asked)
        self._changed()
        try:
            return await self._answered(request, asked)
        except (asyncio.CancelledError, ConnectionError):
            # Also when the server stops; nobody has left then.
            if not asked.answered and self._runner is not None:
                asked.gone = time.monotonic()
            # However it was noticed: that a client leaves is no fault of the server's, to be logged as one.
            raise asyncio.CancelledError from None
        finally:
            self._changed()

    async def _answered(self, request: web.Request, asked: FakeRequest) -> web.StreamResponse:
        from rxchat.testing.serving import Sender

        told, fault = await self._reply(asked)
        if fault.no_answer:
            await asyncio.Event().wait()
        if fault.delay:
            await self.sleep(fault.delay)
        sender = Sender(request, told, fault, self.sleep, self.clock)
        response = await sender.send()
        asked.answered = True
        self._changed()
        await sender.close()
        return response

    async def _reply(self, asked: FakeRequest) -> tuple[Reply, Fault]:
        try:
            entry = await self._entry(asked)
            if entry is None:
                return refusal(asked, 500, f"the script is used up: it has no answer to request {self.requests.index(asked)}"), Fault()
            what, fault = _apart(entry, self.fault or Fault())
            return reply(what, fault, asked), fault
        except Exception as error:
            self._wrong = self._wrong or error
            shown = str(error) if isinstance(error, RxchatError) else f"{type(error).__name__}: {error}"
            return refusal(asked, 400, f"the script is wrong: {shown}"), Fault()

    async def _entry(self, asked: FakeRequest) -> Entry | None:
        if self._next is not None:
            return next(self._next, None)
        if not callable(self.script):
            return self.script  # type: ignore[return-value]
        entry = self.script(asked)
        return _checked(await entry if isawaitable(entry) else entry)


def _checked(entry: Any) -> Entry:
    if not isinstance(entry, (FakeAnswer, FakeBody, Faulty, Fault, bytes, str)):
        raise ConfigurationError(f"an entry of a script is a FakeAnswer, a FakeBody, bytes, a text or a Fault, not {type(entry).__name__}")
    return entry


def _apart(entry: Entry, fault: Fault) -> tuple[FakeAnswer | FakeBody | bytes, Fault]:
    """
    An entry as what is answered and what goes wrong with it.
    """
    if isinstance(entry, Faulty):
        return entry.entry, entry.fault
    if isinstance(entry, Fault):
        return FakeAnswer(), entry
    return (FakeAnswer(entry) if isinstance(entry, str) else entry), fault
