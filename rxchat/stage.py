"""
The stage: a step of the pipeline that does no I/O and knows nothing of Rx, and two of its three drivers (the third, `lift`, is an operator).

A stage turns items into items. Its rules (they make every stage testable and every composition equal):

1. What it emits does not depend on how the input was cut: events, error and offsets are the same for one read and for single bytes (contract E9).
2. Before it raises, it has emitted all that was valid (contract E10).
3. Positions count from the start of the stream.
4. After it has raised, finished, or been told `flush` or `fail`, nobody calls it again.
5. Clock, ids and randomness come through its constructor.
6. What its `emit` raises passes through it untouched.

`StreamDone` is how a stage says "this was the end, read no more" (`[DONE]`, `message_stop`): the drivers then complete the stream and leave the
source alone, so that bytes behind the end can neither be read nor do harm.
"""

from __future__ import annotations

from collections.abc import AsyncIterable, AsyncIterator, Callable, Iterable, Iterator
from functools import partial
from typing import Any, Generic, NoReturn, TypeAlias, TypeVar

__all__ = ["Chain", "Emit", "Stage", "StreamDone", "arun", "run"]

In = TypeVar("In")
Out = TypeVar("Out")
T = TypeVar("T")

Emit: TypeAlias = Callable[[T], None]


class StreamDone(BaseException):
    """
    Raised by a stage after its last emit: the stream is complete, whatever the source still holds.

    A BaseException, so that no `except Exception` of a stage takes it for a fault.
    """


class ConsumerError(BaseException):
    """
    Carries what a subscriber raised up through the stages, so that it is not taken for a fault of theirs (contract E14).
    """

    def __init__(self, error: BaseException) -> None:
        super().__init__(error)
        self.error = error


class Stage(Generic[In, Out]):
    """
    The stage contract; every method may emit any number of items.
    """

    __slots__ = ()

    def start(self, emit: Emit[Out]) -> None:
        """
        The stream was subscribed; nothing has arrived yet.
        """

    def feed(self, item: In, emit: Emit[Out]) -> None:
        """
        Take one item.
        """
        raise NotImplementedError

    def flush(self, emit: Emit[Out]) -> None:
        """
        The source completed: emit what was held, or raise if it was not whole.
        """

    def fail(self, error: Exception, emit: Emit[Out]) -> None:
        """
        The source failed: emit what closes the open blocks; the error itself goes on by itself.
        """

    def drop(self) -> None:
        """
        Nobody calls the stage again: let go of what refers back to it, so that it needs no garbage collector. A driver may omit this.
        """


class _Raised(BaseException):
    """
    A stage of `chain` raised; the stages behind it have been told. Only that chain takes it: others may stand in between.
    """

    def __init__(self, chain: Chain[Any, Any], error: Exception) -> None:
        super().__init__(error)
        self.chain = chain
        self.error = error


class _Finished(BaseException):
    """
    A stage of `chain` was done; the stages behind it have been flushed.
    """

    def __init__(self, chain: Chain[Any, Any]) -> None:
        super().__init__()
        self.chain = chain


class Chain(Stage[In, Out]):
    """
    Stages in a row, as one stage.

    If one of them raises, those behind it are told by `fail`, then the error goes on. If one of them is done, those behind it are flushed. They start from
    the last to the first, as a subscription does: none is fed before it has started.
    """

    __slots__ = ("_emit", "_pushes", "_stages")

    def __init__(self, *stages: Stage[Any, Any]) -> None:
        self._stages = stages
        self._emit: Emit[Out] | None = None
        self._pushes: list[Emit[Any]] = []

    def start(self, emit: Emit[Out]) -> None:
        self._each("start", emit, order=reversed(range(len(self._stages))))

    def feed(self, item: In, emit: Emit[Out]) -> None:
        pushes = self._pushes if emit is self._emit else self._linked(emit)
        pushes[0](item)

    def entry(self, emit: Emit[Out]) -> Emit[In]:
        """
        `feed` with its `emit`, for whoever feeds many items: a call less for each.
        """
        return self._linked(emit)[0]

    def flush(self, emit: Emit[Out]) -> None:
        self._each("flush", emit, order=range(len(self._stages)))

    def fail(self, error: Exception, emit: Emit[Out]) -> None:
        self._each("fail", emit, error, order=range(len(self._stages)))

    def _each(self, method: str, emit: Emit[Out], *args: Exception, order: Iterable[int]) -> None:
        pushes = self._linked(emit)

        def each() -> None:
            for k in order:
                call = getattr(self._stages[k], method)
                self._guarded(k, lambda call=call, k=k: call(*args, pushes[k + 1]))  # type: ignore[misc]

        self._said(each)

    def drop(self) -> None:
        self._emit, self._pushes = None, []
        for stage in self._stages:
            stage.drop()

    def _end(self, signal: _Raised | _Finished) -> NoReturn:
        """
        Say outside what a signal of this chain means inside; one of another chain passes.
        """
        try:
            if signal.chain is not self:
                raise signal
            if isinstance(signal, _Finished):
                raise StreamDone from None
            raise signal.error from signal.error.__cause__
        finally:
            del signal

    def _linked(self, emit: Emit[Out]) -> list[Emit[Any]]:
        """
        `pushes[k]` feeds stage k, the first one from outside; the one behind the last is `emit` itself. Made once per `emit`.
        """
        if emit is not self._emit:
            pushes: list[Emit[Any]] = [emit]
            for k in range(len(self._stages) - 1, -1, -1):
                pushes.insert(0, self._push(k, pushes[0]) if k else self._enter(pushes[0]))
            self._emit, self._pushes = emit, pushes
        return self._pushes

    def _enter(self, behind: Emit[Any]) -> Emit[In]:
        """
        The first push: what it raises is said as the outside knows it.
        """
        feed = self._stages[0].feed

        def entry(item: In) -> None:
            try:
                feed(item, behind)
                return
            except (_Raised, _Finished, StreamDone, Exception) as end:
                ended = end
            try:
                self._left(ended)
            finally:
                # Here and below: what is raised holds the frames it passed, and they must not hold it.
                del ended

        return entry

    def _left(self, end: BaseException) -> NoReturn:
        """
        Say outside that the first stage has ended, or one behind it by its signal.
        """
        try:
            if isinstance(end, _Raised | _Finished):
                self._end(end)
            self._said(partial(self._told, 0, end))  # type: ignore[arg-type]
            raise AssertionError("an end was told and nothing raised")
        finally:
            del end

    def _said(self, call: Callable[[], None]) -> None:
        """
        Call something whose signals mean something outside.
        """
        try:
            call()
            return
        except (_Raised, _Finished) as end:
            signal = end
        try:
            self._end(signal)
        finally:
            del call, signal

    def _push(self, k: int, behind: Emit[Any]) -> Emit[Any]:
        feed = self._stages[k].feed
        told = self._told

        def push(item: Any) -> None:
            try:
                feed(item, behind)
            except (StreamDone, Exception) as end:
                told(k, end)

        return push

    def _guarded(self, k: int, call: Callable[[], None]) -> None:
        """
        Call something of stage k: its fault and its end are told to the stages behind it, once.
        """
        try:
            call()
        except (StreamDone, Exception) as end:
            self._told(k, end)

    def _told(self, k: int, end: StreamDone | Exception) -> NoReturn:
        """
        Stage k is done, or has failed: tell those behind it, and raise what says so to this chain.
        """
        behind = range(k + 1, len(self._stages))
        if isinstance(end, StreamDone):
            for j in behind:
                self._guarded(j, partial(self._stages[j].flush, self._pushes[j + 1]))
            raise _Finished(self) from None
        for j in behind:
            self._guarded(j, partial(self._stages[j].fail, end, self._pushes[j + 1]))
        raise _Raised(self, end) from end


def run(stage: Stage[In, Out], items: Iterable[In]) -> Iterator[Out]:
    """
    Drive a stage over an iterable, lazily.

    All that was emitted before a fault is yielded before the fault is raised; a fault of `items` itself passes `fail` first.
    """
    held: list[Out] = []
    emit = held.append
    failure: Exception | None = None
    source = iter(items)
    try:
        stage.start(emit)
        while True:
            if held:
                yield from held
                held.clear()
            try:
                item = next(source)
            except StopIteration:
                stage.flush(emit)
                break
            except Exception as error:
                failure = error
                stage.fail(error, emit)
                break
            stage.feed(item, emit)
    except StreamDone:
        failure = None  # done while it was told of a fault: it wants no more of the source, its fault included
    except GeneratorExit:
        raise
    except Exception as error:
        failure = error
    yield from held
    if failure is not None:
        raise failure


async def arun(stage: Stage[In, Out], items: AsyncIterable[In]) -> AsyncIterator[Out]:
    """
    Drive a stage over an async iterable; otherwise as `run`.
    """
    held: list[Out] = []
    emit = held.append
    failure: Exception | None = None
    source = aiter(items)
    try:
        stage.start(emit)
        while True:
            for out in held:
                yield out
            held.clear()
            try:
                item = await anext(source)
            except StopAsyncIteration:
                stage.flush(emit)
                break
            except Exception as error:
                failure = error
                stage.fail(error, emit)
                break
            stage.feed(item, emit)
    except StreamDone:
        failure = None  # done while it was told of a fault: it wants no more of the source, its fault included
    except Exception as error:
        failure = error
    for out in held:
        yield out
    if failure is not None:
        raise failure
