"""
Going on after a failure in the middle of an answer: only where it is asked for (contract D5).

    model.stream(prompt).pipe(recover(attempts=3))                                    the same model again
    model.stream(prompt).pipe(recover_with(other.stream(prompt)))                     another one
    model.stream(prompt).pipe(recover(attempts=2), recover_with(other.stream(prompt)))

What was shown cannot be taken back, so the stream says that it no longer counts. In place of the failed response's ErrorEvent comes a reset, a Custom named
RESET, then the wait, then the next attempt as a response of its own, from its ResponseStart (contract E12). `reset.data` is plain JSON:

    attempt       the number of the attempt that failed, from 1
    source        who is asked next: 0 the same source again, n the n-th fallback
    wait          seconds until then
    response_id   of the response that failed; None if it had not begun
    shown         whether anything of an answer was let through: if so, wipe it
    text          what was shown of it, choice 0
    thinking      likewise
    verdict       why it failed
    message       the error's own words, which come from the provider
    usage         what the failed attempt has cost, as far as its provider said: counts by name, or None

A reset comes before every further attempt, with `shown` false where there is nothing to wipe: it is the news that somebody is waited for. The usage of the
final answer is that answer's alone; whoever pays adds that of the resets. The last failure passes as it is: ErrorEvent, on_error.

Never recovered: an abort, an incomplete finish (both are answers), an error that is not ours (an operator of yours), what a subscriber raises (contract E14).
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Literal, TypeAlias, get_args

import attrs
from reactivex import Observable, abc
from reactivex.disposable import CompositeDisposable, Disposable, SerialDisposable, SingleAssignmentDisposable

from rxchat.errors import ConfigurationError, ProtocolError, ProviderError, RxchatError, TransportError, verdict_of
from rxchat.events import RESET, ChatEvent, Custom, ErrorEvent, Group, ResponseStart, TextDelta, ThinkingDelta
from rxchat.growingtext import GrowingText
from rxchat.loops import in_loop, loop_at_work, loop_scheduler
from rxchat.operators import Operator, give_back, tell
from rxchat.response import COUNTERS, ENDED_BY, IN_TOOLS, ToolResultPart, Usage

__all__ = ["RecoverWait", "RecoverWhen", "recover", "recover_with"]

RecoverWhen: TypeAlias = Literal["retryable", "provider"] | Callable[[RxchatError], bool]
RecoverWait: TypeAlias = float | Callable[[int], float]

_CONTENT = frozenset({Group.TEXT, Group.THINKING, Group.TOOL_CALL, Group.SERVER_TOOL, Group.MEDIA, Group.SAFETY})


# --- when, and after what time --------------------------------------------------------------------------------------------------------------------


def _retryable(error: RxchatError) -> bool:
    return error.retryable and not _ran_tools(error)


def _of_the_provider(error: RxchatError) -> bool:
    return isinstance(error, TransportError | ProtocolError | ProviderError) and not _ran_tools(error)


def _ran_tools(error: RxchatError) -> bool:
    """
    Whether a tool of the client's ran in the attempt, to its end or not: asked again, it would run twice.
    """
    if error.response is None:
        return False
    if error.response.metadata.get(ENDED_BY) == IN_TOOLS:
        return True
    by_provider = {call.id for call in error.response.tool_calls if call.server_executed}
    return any(isinstance(part, ToolResultPart) and part.call_id not in by_provider for part in error.response.parts)


_WHEN: Mapping[str, Callable[[RxchatError], bool]] = {"retryable": _retryable, "provider": _of_the_provider}


def backoff(failures: int) -> float:
    """
    Half a second, then twice as long each time up to 8, less up to a quarter by chance: so that many clients do not come back together.
    """
    return float(min(8.0, 0.5 * 2.0 ** min(failures - 1, 10)) * random.uniform(0.75, 1.0))


@attrs.frozen
class _Plan:
    """
    What to do about failures: who is asked next, on which, after how long.
    """

    when: Callable[[RxchatError], bool]
    wait: RecoverWait
    longest_retry_after: float | None
    scheduler: abc.SchedulerBase | None

    def pause(self, error: RxchatError, failures: int) -> float | None:
        """
        Seconds to wait before the next attempt, None if there should be none.
        """
        asked = 0.0 if self.longest_retry_after is None else error.retry_after or 0.0
        if asked > (self.longest_retry_after or 0.0):
            return None
        return max(asked, float(self.wait(failures) if callable(self.wait) else self.wait))

    def clock(self, given: abc.SchedulerBase | None) -> abc.SchedulerBase | None:
        """
        The scheduler to wait on; ConfigurationError at once where a wait will be needed and there is none.
        """
        clock = self.scheduler or given or loop_scheduler()
        if clock is None and (callable(self.wait) or self.wait > 0):
            raise ConfigurationError("recovery needs a scheduler to wait on where no event loop runs; or say wait=0")
        return clock


# --- one subscription -----------------------------------------------------------------------------------------------------------------------------


class _Shown:
    """
    What was let through of the response at hand.
    """

    def __init__(self, response_id: str | None = None) -> None:
        self.response_id = response_id
        self.anything = False
        self._text = GrowingText()
        self._thinking = GrowingText()

    def note(self, event: ChatEvent) -> None:
        self.anything = self.anything or event.group in _CONTENT
        if isinstance(event, TextDelta) and event.choice == 0:
            self._text.add(event.text)
        elif isinstance(event, ThinkingDelta) and event.choice == 0:
            self._thinking.add(event.text)

    def told(self) -> dict[str, Any]:
        return {
            "response_id": self.response_id,
            "shown": self.anything,
            "text": self._text.text,
            "thinking": self._thinking.text,
        }


class _Recovery:
    """
    One subscription: the attempt at hand, and those that are left.
    """

    def __init__(self, plan: _Plan, rest: Iterator[tuple[int, Observable[ChatEvent]]], observer: Any, scheduler: abc.SchedulerBase | None) -> None:
        self._plan = plan
        self._rest = rest
        self._observer = observer
        self._scheduler = scheduler
        self._clock = plan.clock(scheduler)
        self._loop = loop_at_work()
        self._upstream, self._timer = SerialDisposable(), SerialDisposable()
        self._due: Observable[ChatEvent] | None = None
        self._running = False
        self._over = False
        self._attempt, self._failures = 1, 0
        self._shown = _Shown()
        self._held: ErrorEvent | None = None

    def start(self, source: Observable[ChatEvent]) -> abc.DisposableBase:
        self._due = source
        self._run()
        return CompositeDisposable(Disposable(self._stop), self._upstream, self._timer)

    def _stop(self) -> None:
        self._over = True

    def _run(self) -> None:
        """
        Subscribe to what is due. A loop: a source may fail before its `subscribe` returns, and many may do so in a row.
        """
        if self._running:
            return
        self._running = True
        try:
            while self._due is not None and not self._over:
                source, self._due = self._due, None
                self._shown = _Shown()
                attempt = SingleAssignmentDisposable()
                self._upstream.disposable = attempt
                attempt.disposable = source.subscribe(self.on_next, self.on_error, self.on_completed, scheduler=self._scheduler)
        finally:
            self._running = False

    # What an attempt says --------------------------------------------------------------------------------------------------------------------

    def on_next(self, event: ChatEvent) -> None:
        self._release()
        if isinstance(event, ErrorEvent):
            # Final only if on_error follows (contract E12), and then perhaps not.
            self._held = event
            return
        if isinstance(event, ResponseStart):
            self._shown = _Shown(event.response_id)
        elif isinstance(event, Custom) and event.name == RESET:
            self._attempt += 1
        else:
            self._shown.note(event)
        self._push(event)

    def on_completed(self) -> None:
        self._release()
        if not self._over:
            self._over = True
            self._observer.on_completed()

    def on_error(self, error: Exception) -> None:
        if self._over:
            return
        try:
            following = self._following(error)
        except Exception as raised:
            # By a function of the caller's.
            error, following = raised, None
        if following is None:
            self._release()
            if not self._over:
                self._over = True
                tell(self._observer, error)
        else:
            self._go_on(error, *following)

    def _following(self, error: Exception) -> tuple[float, int, Observable[ChatEvent]] | None:
        """
        Seconds to wait, number and source of the next attempt; None if the failure stands.
        """
        if not isinstance(error, RxchatError) or not self._plan.when(error):
            return None
        pause = self._plan.pause(error, self._failures + 1)
        if pause is None or (pause > 0 and self._clock is None):
            return None
        source = next(self._rest, None)
        return None if source is None else (pause, *source)

    def _go_on(self, error: Exception, pause: float, number: int, source: Observable[ChatEvent]) -> None:
        held, self._held = self._held, None
        usage = held.usage if held else None
        reset = {"attempt": self._attempt, "source": number, "wait": pause, **self._shown.told(), **_reason(error, usage)}
        self._attempt += 1
        self._failures += 1
        self._push(Custom(RESET, reset))

        def go() -> None:
            self._due = source
            self._run()

        if pause > 0 and self._clock is not None and not self._over:
            self._timer.disposable = self._clock.schedule_relative(pause, lambda *_: self._in_the_loop(go))
        else:
            go()

    def _in_the_loop(self, go: Callable[[], None]) -> None:
        """
        The wait is over, perhaps in a thread of the scheduler's: a request belongs to the loop it was subscribed to in.
        """
        if self._loop is None:
            go()
        else:
            in_loop(self._loop, go)

    # What the subscriber hears ---------------------------------------------------------------------------------------------------------------

    def _release(self) -> None:
        held, self._held = self._held, None
        if held is not None:
            self._push(held)

    def _push(self, event: ChatEvent) -> None:
        if self._over:
            return
        try:
            self._observer.on_next(event)
        except BaseException as error:
            self._over = True
            self._upstream.dispose()
            give_back(self._observer, error)


def _reason(error: Exception, usage: Usage | None) -> dict[str, Any]:
    known = usage or (error.response.usage if isinstance(error, RxchatError) and error.response else None)
    return {
        "verdict": str(verdict_of(error)),
        "message": str(error),
        "usage": None if known is None else {name: getattr(known, name) for name in COUNTERS},
    }


# --- the operators --------------------------------------------------------------------------------------------------------------------------------


def recover(
    attempts: int = 2,
    *,
    when: RecoverWhen = "retryable",
    wait: RecoverWait = backoff,
    longest_retry_after: float = 60.0,
    scheduler: abc.SchedulerBase | None = None,
) -> Operator[ChatEvent, ChatEvent]:
    """
    Ask the same source again when it fails, also in the middle of an answer: at most `attempts` times in all, a reset in between (see this module).

    `when` is which failures: "retryable", "provider" (whatever the provider or the way to it did), or a function of the error; the two named ones leave out
    an attempt in which a tool of yours ran. `wait` is in seconds, or a function of the number of failures so far; never less than the server asks for by
    Retry-After, and where it asks for more than `longest_retry_after` seconds, the failure stands. The clock is `scheduler`, else the scheduler of the
    subscription, else the running event loop. Put it behind `model.stream(...)`, which is cold: the events of a Call can be subscribed to once.
    """
    if attempts < 1:
        raise ConfigurationError(f"attempts counts the first one too, so it is at least 1, not {attempts}")
    if longest_retry_after < 0:
        raise ConfigurationError(f"longest_retry_after is a time, not {longest_retry_after}")
    plan = _Plan(_when(when), _checked(wait), longest_retry_after, scheduler)
    return lambda source: _recovering(plan, source, [(0, source)] * (attempts - 1))


def recover_with(
    *fallbacks: Observable[ChatEvent], when: RecoverWhen = "retryable", wait: RecoverWait = 0.0, scheduler: abc.SchedulerBase | None = None
) -> Operator[ChatEvent, ChatEvent]:
    """
    When the source fails, also in the middle of an answer, go on with the next of `fallbacks`, a reset in between (see this module).

    Each is asked once: `other.stream(prompt).pipe(recover())` for more. `when`, `wait`, `scheduler` are those of `recover`; say `when="provider"` to change
    the model also where the same one need not be asked again (a refused key, an answer nobody can read). A Retry-After was asked for by the one that failed
    and is not waited for here.
    """
    if not fallbacks:
        raise ConfigurationError("recover_with() needs another source to go on with; recover() asks the same one again")
    for fallback in fallbacks:
        if not isinstance(fallback, Observable):
            raise ConfigurationError(f"recover_with goes on with streams, as other.stream(prompt), not with {fallback!r}")
    plan = _Plan(_when(when), _checked(wait), None, scheduler)
    return lambda source: _recovering(plan, source, list(enumerate(fallbacks, 1)))


def _recovering(plan: _Plan, source: Observable[ChatEvent], rest: list[tuple[int, Observable[ChatEvent]]]) -> Observable[ChatEvent]:
    def subscribe(observer: abc.ObserverBase[ChatEvent], scheduler: abc.SchedulerBase | None = None) -> abc.DisposableBase:
        return _Recovery(plan, iter(rest), observer, scheduler).start(source)

    return Observable(subscribe)


def _when(when: RecoverWhen) -> Callable[[RxchatError], bool]:
    if callable(when):
        return when
    if when not in _WHEN:
        raise ConfigurationError(f"when is {', '.join(get_args(get_args(RecoverWhen)[0]))} or a function of the error, not {when!r}")
    return _WHEN[when]


def _checked(wait: RecoverWait) -> RecoverWait:
    if not callable(wait) and not wait >= 0:
        raise ConfigurationError(f"wait is a time in seconds or a function that gives one, not {wait!r}")
    return wait
