"""
`ChatModel`: a model that can be asked, as an Observable, a call, or one answer.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias

import aiohttp
from reactivex import Observable, abc

from rxchat.client.attempts import OpenBody
from rxchat.client.call import Call, Exchange
from rxchat.client.http_body import close, http_body, new_session, running_loop
from rxchat.client.private_loop import SyncIterator, on_a_private_loop
from rxchat.client.proxies import route_of
from rxchat.client.request import resolve, unforced, with_quirks
from rxchat.client.rules import MAX_STEPS, StepRules, StopWhen, step_rules
from rxchat.client.secrets import secrets_of
from rxchat.client.settings import HttpSettings
from rxchat.dialects import get_dialect
from rxchat.errors import ConfigurationError, ConnectionLostError, IncompleteStreamError
from rxchat.events import ChatEvent
from rxchat.filters import Predicate, guarded
from rxchat.limits import Limits
from rxchat.loops import loop_at_work
from rxchat.outgoing.addresses import masked_url, secrets_in
from rxchat.pipeline import Head, response_stage
from rxchat.prompt import Message, Prompt, as_messages
from rxchat.response import ChatResponse
from rxchat.tools import ToolSet, ToolSource

if TYPE_CHECKING:
    from rxchat.tools import Authorize, ToolPolicy

__all__ = ["ChatModel"]


class ChatModel:
    """
    A model at a provider, "provider/name": `ChatModel("openai/gpt-5-mini")`.

    `base_url` asks another server, which may speak another `dialect`; `api_key` instead of the provider's environment variable, which is read when a
    request is built. `options` and `profile` are the dialect's, on top of the preset's, as are `quirks` for the request. Inside `async with` the
    requests of that event loop share connections, until the last one who is inside leaves; else each has its own. A `session` of the caller's is used and
    never closed.
    """

    def __init__(
        self,
        model: str,
        *,
        base_url: str | None = None,
        api_key: str | None = None,
        dialect: str | None = None,
        options: Mapping[str, Any] | None = None,
        quirks: Mapping[str, Any] | None = None,
        profile: str = "default",
        limits: Limits | None = None,
        unknown: Any = "raw",
        provenance: bool = False,
        settings: HttpSettings | None = None,
        session: aiohttp.ClientSession | None = None,
    ) -> None:
        if not isinstance(settings, HttpSettings | None):
            raise ConfigurationError(f"settings are HttpSettings, not {type(settings).__name__}")
        self._target = with_quirks(resolve(model, base_url, api_key, dialect), quirks or {})
        self._pipeline: dict[str, Any] = {
            "options": {**self._target.preset.options, **(options or {})},
            "profile": profile,
            "limits": limits,
            "unknown": unknown,
            "provenance": provenance,
        }
        self._settings = settings or HttpSettings()
        self._session = session
        self._own: aiohttp.ClientSession | None = None
        self._home: asyncio.AbstractEventLoop | None = None
        self._inside = 0
        # Wrong options are told now, not at the first answer. What the request asks for is what the answer is read as.
        response_stage(self._target.preset.dialect, **self._pipeline)
        self._read_with = get_dialect(self._target.preset.dialect).context(self._pipeline["options"]).options

    def __repr__(self) -> str:
        target = self._target
        return f"<ChatModel {target.model} at {masked_url(target.base_url or target.preset.base_url)}>"

    def stream(
        self,
        prompt: Prompt,
        *,
        event_filter: Predicate | None = None,
        tools: ToolSource = (),
        max_steps: int = MAX_STEPS,
        stop_when: StopWhen | Sequence[StopWhen] = (),
        authorize: Authorize | None = None,
        tool_policy: ToolPolicy | None = None,
        **request: Any,
    ) -> Observable[ChatEvent]:
        """
        The events of an answer; cold: each subscription is a request of its own.

        They are delivered in the thread of the event loop, with the context variables of whoever subscribed, as the bytes arrive: mostly outside of any task,
        so that `asyncio.current_task()` is None.

        `event_filter` (default: all but Heartbeat and Raw) hides events, never the frame of steps and terminals around them, and never changes the answer.
        `request` are the fields of RequestOptions (max_tokens, temperature ...), or `options=RequestOptions(...)`. A request that cannot be built is a bare
        on_error.

        `tools` are functions and Tools, which are run, and ToolSpecs, which are only reported (contract T6); or a function that names those of each step. The
        model is asked again with the results, up to `max_steps` times all in all; an answer whose calls that leaves open is no whole one (INCOMPLETE_FINISH).
        `stop_when` ends the answer behind the results of a step, `authorize` is asked before each run, `tool_policy` is how tools are run. A `tool_choice`
        that forces a call holds for the first step.
        """
        asked = self._asked(prompt, guarded(event_filter), tools, (max_steps, stop_when, authorize, tool_policy), request)

        def subscribe(observer: abc.ObserverBase[ChatEvent], scheduler: abc.SchedulerBase | None = None) -> abc.DisposableBase:
            return asked().begin(observer, scheduler)

        return Observable(subscribe)

    def open(
        self,
        prompt: Prompt,
        *,
        event_filter: Predicate | None = None,
        tools: ToolSource = (),
        max_steps: int = MAX_STEPS,
        stop_when: StopWhen | Sequence[StopWhen] = (),
        authorize: Authorize | None = None,
        tool_policy: ToolPolicy | None = None,
        **request: Any,
    ) -> Call:
        """
        One answer as a Call, which can be watched, aborted and disposed of; it is asked for when its events are subscribed to. All else as in `stream`.
        """
        return self._asked(prompt, guarded(event_filter), tools, (max_steps, stop_when, authorize, tool_policy), request)()

    async def call(self, prompt: Prompt, *, tools: ToolSource = (), **request: Any) -> ChatResponse:
        """
        The one answer. An incomplete finish and an abort are answers too: see its verdict. Failures are raised, the partial answer on them.

        `tools` and `request` as in `stream`, here and below.
        """
        call = self.open(prompt, tools=tools, **request)
        ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        settle = partial(_settle, [ended])
        subscription = call.events.subscribe(on_error=settle, on_completed=settle)
        try:
            await ended
        finally:
            subscription.dispose()
            # A failure holds this frame, which must not hold it.
            del ended
        if call.verdict is None:
            raise IncompleteStreamError("the stream completed without a terminal event")
        return call.response

    def call_sync(self, prompt: Prompt, *, tools: ToolSource = (), **request: Any) -> ChatResponse:
        """
        The one answer, for code that cannot await. Where a loop runs already (a notebook), it is asked on a loop in a thread of its own, and this one waits.

        ConfigurationError inside such a thread, where waiting would never end well, and there for a model whose connections belong to the running loop.
        """
        if loop_at_work() is None:
            return asyncio.run(self.call(prompt, tools=tools, **request))
        if self._session or self._own:
            raise ConfigurationError("the connections of this model belong to the loop that runs: use `await model.call(...)`")
        return on_a_private_loop(lambda: self.call(prompt, tools=tools, **request))

    def stream_sync(
        self, prompt: Prompt, *, event_filter: Predicate | None = None, tools: ToolSource = (), **request: Any
    ) -> SyncIterator[ChatEvent]:
        """
        The events of an answer for a plain `for`, read on a loop in a thread of its own; asked when the first one is.

            with model.stream_sync("Hi") as events:
                for event in events: ...

        Leaving the `with`, or dropping the iterator, ends the request. While nobody asks for the next event, the provider is slowed. A failure is raised behind
        the last event. ConfigurationError at once for a model whose connections belong to a loop, and at the first event on a loop that would stand still.
        """
        if self._session or self._own:
            raise ConfigurationError("the connections of this model belong to the loop that made them: use `model.stream(...)` there")
        return SyncIterator(self.stream(prompt, event_filter=event_filter, tools=tools, **request))

    async def aclose(self) -> None:
        """
        Close the shared connections; requests that still run break off.
        """
        own, self._own, self._inside = self._own, None, 0
        if own is not None:
            await close(own)

    async def __aenter__(self) -> ChatModel:
        if self._session is None and self._own is None:
            self._own, self._home = new_session(self._settings), running_loop()
        self._inside += self._home is running_loop()
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        self._inside -= self._home is running_loop()
        if self._inside <= 0:
            await self.aclose()

    def _connections(self) -> aiohttp.ClientSession | None:
        """
        What a request shares; nothing on a loop which the shared connections do not belong to.
        """
        return self._session or (self._own if self._home is running_loop() else None)

    def _asked(self, prompt: Prompt, shown: Predicate, tools: ToolSource, rules: _Rules, request: Mapping[str, Any]) -> Callable[[], Call]:
        return lambda: Call(lambda: self._exchange(prompt, step_rules(tools, *rules), request), shown, self._settings)

    def _exchange(self, prompt: Prompt, rules: StepRules, request: Mapping[str, Any]) -> Exchange:
        target = self._target
        heads: list[Head] = []
        envelope = response_stage(target.preset.dialect, head=lambda: heads[-1] if heads else Head(), **self._pipeline)
        secrets = {target.key} if target.key else set()
        # Of all its requests: what is sent behind `aclose` must not open connections of its own.
        session = self._connections()

        def ask(messages: tuple[Message, ...], tools: ToolSet, first: bool) -> OpenBody:
            wire = target.request(messages, tools, request if first else unforced(request), self._read_with)
            secrets.update(secrets_in(wire.url), secrets_of(wire.headers), route_of(wire.url, self._settings, self._session is None).secrets)

            def open_body(on_connected: Callable[[], None]) -> Observable[bytes]:
                if session is not None and session.closed:
                    lost = ConnectionLostError("the session was closed before the request was sent")
                    lost.retryable = False
                    raise lost
                told: dict[str, Callable[[], Any]] = {"on_connected": on_connected, "whole": lambda: envelope.whole}
                return http_body(wire, heads.append, settings=self._settings, session=session, **told)

            return open_body

        messages = as_messages(prompt)
        first = None if rules.fixed is None else ask(messages, rules.fixed, True)
        if not rules.may_run:
            return Exchange(first, envelope, secrets)
        # Here, because it brings all that runs tools: a caller without any waits for none of it.
        from rxchat.client.steps import StepLoop

        return Exchange(first, envelope, secrets, StepLoop(rules, messages, ask, envelope))


def _settle(waiting: list[asyncio.Future[None]], error: Exception | None = None) -> None:
    # Taken out: a failure holds the subscriber, by the frames it passed.
    ended = waiting.pop()
    if ended.done():
        return
    if error is None:
        ended.set_result(None)
    else:
        ended.set_exception(error)


# max_steps, stop_when, authorize, tool_policy, as they were said.
_Rules: TypeAlias = "tuple[int, StopWhen | Sequence[StopWhen], Authorize | None, ToolPolicy | None]"
