"""
Ways to leave a stream, each at a moment.
"""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Awaitable, Callable
from typing import Any, TypeAlias

from reactivex import Subject
from reactivex import operators as ops

from rxchat import aggregate, share_events, to_async_iterable
from rxchat.errors import RxchatError
from tests.torture.running import GUARD, PATIENCE, Run

__all__ = ["WAYS"]

Way: TypeAlias = Callable[[Run], Awaitable[None]]

# --- by disposal ----------------------------------------------------------------------------------------------------------------------------------


async def dispose_before(run: Run) -> None:
    run.call.dispose()
    run.subscribe()
    assert len(run.told) == 1


async def dispose_at_once(run: Run) -> None:
    run.subscribe()
    run.dispose()


async def dispose_after_turns(run: Run) -> None:
    run.subscribe()
    for _ in range(run.case.moment):
        await asyncio.sleep(0)
    run.dispose()


async def dispose_when_asked(run: Run) -> None:
    """
    Before the headers, often.
    """
    number = len(run.provider.requests)
    run.subscribe()
    await asyncio.wait_for(run.provider.asked(number), GUARD)
    run.dispose()


async def dispose_inside(run: Run) -> None:
    run.inside = run.dispose
    run.subscribe()
    await run.moment()
    run.dispose()


async def dispose_in_another_task(run: Run) -> None:
    async def other() -> None:
        await run.moment()
        run.dispose()

    task = asyncio.ensure_future(other())
    run.subscribe()
    await task


async def dispose_twice(run: Run) -> None:
    run.subscribe()
    await run.moment()
    run.subscription.dispose()
    run.call.dispose()
    run.call.abort("too late")


async def dispose_in_a_wait(run: Run) -> None:
    await run.waiting()
    run.dispose()


# --- by operators ---------------------------------------------------------------------------------------------------------------------------------


async def take_some(run: Run) -> None:
    run.subscribe(run.stream.pipe(ops.take(run.case.moment + 1)))
    await run.moment()
    run.dispose()


async def take_until_then(run: Run) -> None:
    trigger: Subject[None] = Subject()
    run.subscribe(run.stream.pipe(ops.take_until(trigger)))
    await run.moment()
    trigger.on_next(None)
    assert run.told


async def leave_a_hub(run: Run) -> None:
    shared = run.stream.pipe(share_events(replay=run.case.moment % 3))
    others = [shared.subscribe(on_error=lambda error: None) for _ in range(run.case.moment % 3)]
    run.subscribe(shared)
    iterator = aiter(shared.pipe(to_async_iterable()))
    task = asyncio.ensure_future(_number(iterator, run.case.moment))
    await run.moment()
    for other in others:
        other.dispose()
    run.subscription.dispose()
    task.cancel()
    await asyncio.wait([task])
    del iterator


async def _number(iterator: Any, number: int) -> None:
    try:
        for _ in range(number + 1):
            await anext(iterator)
    except (RxchatError, StopAsyncIteration):
        pass


# --- by async for ---------------------------------------------------------------------------------------------------------------------------------


async def _taking(run: Run, then: Callable[[], None] | None = None, high: int = 256) -> None:
    """
    An `async for` up to the moment, where it breaks if `then` does not raise.
    """
    left = run.case.moment
    try:
        async for _ in run.stream.pipe(to_async_iterable(high, high // 4)):
            left -= 1
            if left < 0 and then is not None:
                then()
                break
    except RxchatError as error:
        run.told.append(error)


def _raise() -> None:
    raise LookupError("the consumer's own")


async def _for_a_while(run: Run, work: Any) -> None:
    """
    To its end, or to the end of patience where it may never come.
    """
    try:
        await asyncio.wait_for(work, PATIENCE if run.case.silent else GUARD)
    except TimeoutError:
        assert run.case.silent


async def break_out(run: Run) -> None:
    await _for_a_while(run, _taking(run, lambda: None, high=1 + run.case.moment))


async def raise_in_async_for(run: Run) -> None:
    try:
        await _for_a_while(run, _taking(run, _raise))
    except LookupError:
        pass


async def cancel_a_task(run: Run) -> None:
    task = asyncio.ensure_future(_taking(run))
    await run.moment()
    task.cancel()
    await asyncio.wait([task])


async def cancel_a_task_after_turns(run: Run) -> None:
    task = asyncio.ensure_future(_taking(run))
    for _ in range(run.case.moment):
        await asyncio.sleep(0)
    task.cancel()
    await asyncio.wait([task])


async def cancel_the_answer(run: Run) -> None:
    async def answer() -> None:
        try:
            await run.stream.pipe(aggregate())
        except RxchatError:
            pass

    task = asyncio.ensure_future(answer())
    await run.moment()
    task.cancel()
    await asyncio.wait([task])


async def cancel_in_a_wait(run: Run) -> None:
    before = run.noise.waits
    task = asyncio.ensure_future(_taking(run))
    async with asyncio.timeout(GUARD):
        while run.noise.waits == before:
            await asyncio.sleep(0)
    task.cancel()
    await asyncio.wait([task])


async def forget_the_iterator(run: Run) -> None:
    held = [aiter(run.stream.pipe(to_async_iterable()))]
    await _for_a_while(run, _number(held[0], run.case.moment))
    if run.case.seed % 3 == 0:
        held.append(held)  # type: ignore[arg-type]
        del held
        gc.collect()
    elif run.case.seed % 3 == 1:
        await asyncio.to_thread(held.clear)


async def close_the_iterator(run: Run) -> None:
    iterator: Any = aiter(run.stream.pipe(to_async_iterable()))
    await _for_a_while(run, _number(iterator, run.case.moment))
    await iterator.aclose()


async def break_a_plain_for(run: Run) -> None:
    """
    Of another request, on a loop of its own; the watched call never begins.
    """

    def work() -> None:
        left = run.case.moment
        try:
            with run.model.stream_sync(run.case.question, stream=run.case.streamed) as events:
                for _ in events:
                    left -= 1
                    if left < 0:
                        break
        except RxchatError:
            pass

    await asyncio.to_thread(work)


# --- otherwise ------------------------------------------------------------------------------------------------------------------------------------


async def raise_in_on_next(run: Run) -> None:
    run.inside = _raise
    run.subscribe()
    await run.moment()
    run.dispose()


async def abort_before(run: Run) -> None:
    run.call.abort("before")
    run.subscribe()
    await run.until(lambda: False)


async def abort_outside(run: Run) -> None:
    run.subscribe()
    await run.moment()
    run.call.abort("enough")
    await run.until(lambda: False)


async def abort_inside(run: Run) -> None:
    run.inside = lambda: run.call.abort("enough")
    run.subscribe()
    await run.moment()
    run.call.abort("enough")
    await run.until(lambda: False)


async def abort_and_dispose_inside(run: Run) -> None:
    def both() -> None:
        run.call.abort("enough")
        run.dispose()

    run.inside = both
    run.subscribe()
    await run.moment()
    run.dispose()


async def abort_in_a_wait(run: Run) -> None:
    await run.waiting()
    run.call.abort("enough")
    await run.until(lambda: False)


async def close_the_model(run: Run) -> None:
    run.subscribe()
    if run.case.seed % 2:
        await run.moment()
    else:
        for _ in range(run.case.moment):
            await asyncio.sleep(0)
    await run.model.aclose()
    await run.until(lambda: False)


async def stay(run: Run) -> None:
    run.subscribe()
    await run.until(lambda: False)


WAYS: dict[str, Way] = {
    way.__name__: way
    for way in (
        dispose_before,
        dispose_at_once,
        dispose_after_turns,
        dispose_when_asked,
        dispose_inside,
        dispose_in_another_task,
        dispose_twice,
        dispose_in_a_wait,
        take_some,
        take_until_then,
        leave_a_hub,
        break_out,
        raise_in_async_for,
        cancel_a_task,
        cancel_a_task_after_turns,
        cancel_the_answer,
        cancel_in_a_wait,
        forget_the_iterator,
        close_the_iterator,
        break_a_plain_for,
        raise_in_on_next,
        abort_before,
        abort_outside,
        abort_inside,
        abort_and_dispose_inside,
        abort_in_a_wait,
        close_the_model,
        stay,
    )
}
