"""
One call: what keeps it from being run, how it is run, what comes of it.
"""

from __future__ import annotations

import asyncio
import contextvars
import datetime
import threading
from typing import Annotated, Any

import attrs
import msgspec
import pytest

from rxchat.errors import ToolError, Verdict
from rxchat.events import ToolResult
from rxchat.prompt import ToolSpec
from rxchat.response import FinishReason, ToolCall, ToolResultPart
from rxchat.tools import Allow, Deny, Tool, ToolAnswer, ToolFailure, ToolPolicy, ToolRequest, invoking, run_call, tool
from rxchat.tools.running import explain_error
from rxchat.toolschema import ToolContext
from tests.tools.calling import a_call, cut_off, free_text


@attrs.frozen
class Place:
    city: str
    day: datetime.date = datetime.date(2026, 1, 1)


class Ran(Exception):
    """
    The tool was run although it must not be.
    """


@tool
def weather(place: Place, days: Annotated[int, msgspec.Meta(ge=1, le=9)] = 1) -> str:
    """
    Tell the weather.
    """
    raise Ran


@tool(free_form=True)
def patch(text: str) -> str:
    """
    Apply a patch.
    """
    raise Ran


def broken(schema: dict[str, Any]) -> Tool[..., Any]:
    """
    A tool whose schema came from elsewhere.
    """

    def run(**_: Any) -> None:
        raise Ran

    return Tool(run, ToolSpec("broken", parameters=schema))


NULL_ONLY = broken({"properties": {"a/b~": {"type": "null"}}})
KS_ARE_NULL = broken({"additionalProperties": False, "patternProperties": {"^k": {"type": "null"}}})
THERE = attrs.evolve(a_call("weather", place={"city": "Rome"}), server_executed=True)
WHOLE = '{"place":{"city":"Rome"}}'


def said(text: str, **more: Any) -> ToolCall:
    """
    A whole call of weather whose text is no object.
    """
    return ToolCall("c", "weather", text, None, True, **more)


REFUSALS: list[tuple[str, Tool[..., Any], ToolCall, FinishReason, ToolFailure, str]] = [
    ("truncated", weather, cut_off("weather", '{"place":{"ci'), FinishReason.TOOL_CALLS, ToolFailure.INCOMPLETE, "cut off after 13 characters"),
    ("no arguments yet", weather, cut_off("weather", ""), FinishReason.TOOL_CALLS, ToolFailure.INCOMPLETE, "after 0 characters"),
    ("parses, yet cut", weather, cut_off("weather", WHOLE), FinishReason.LENGTH, ToolFailure.INCOMPLETE, "cut off"),
    *[
        (f"finish {reason}", weather, a_call("weather", place={"city": "Rome"}), reason, ToolFailure.FINISH, f"ended with '{reason}'")
        for reason in FinishReason
        if not reason.complete
    ],
    ("run there", weather, THERE, FinishReason.STOP, ToolFailure.SERVER_EXECUTED, "the provider ran weather itself"),
    ("text for arguments", weather, free_text("weather", "Rome"), FinishReason.STOP, ToolFailure.KIND, "takes arguments, not free-form text"),
    ("arguments for text", patch, a_call("patch", text="x"), FinishReason.STOP, ToolFailure.KIND, "takes free-form text, not arguments"),
    ("not JSON", weather, said('{"place": nope}'), FinishReason.STOP, ToolFailure.INVALID_JSON, "at byte 11"),
    ("trailing", weather, said("{} {}"), FinishReason.STOP, ToolFailure.INVALID_JSON, "something follows the JSON value, at byte 3"),
    ("key twice", weather, said('{"a":1,"a":2}'), FinishReason.STOP, ToolFailure.INVALID_JSON, "key twice"),
    ("array", weather, said("[1]"), FinishReason.STOP, ToolFailure.INVALID_JSON, "a JSON array, not an object, at the root"),
    ("null", weather, said("null"), FinishReason.STOP, ToolFailure.INVALID_JSON, "a JSON null"),
    ("missing", weather, a_call("weather"), FinishReason.STOP, ToolFailure.INVALID_ARGUMENTS, "at the root: 'place' is a required property"),
    ("wrong type", weather, a_call("weather", place={"city": 3}), FinishReason.STOP, ToolFailure.INVALID_ARGUMENTS, "at /place/city: 3 is not"),
    ("unknown key", weather, a_call("weather", place={"city": "a"}, x=1), FinishReason.STOP, ToolFailure.INVALID_ARGUMENTS, "'x' was unexpected"),
    ("unknown inside", weather, a_call("weather", place={"city": "a", "x": 1}), FinishReason.STOP, ToolFailure.INVALID_ARGUMENTS, "at /place: "),
    ("bound", weather, a_call("weather", place={"city": "a"}, days=10), FinishReason.STOP, ToolFailure.INVALID_ARGUMENTS, "at /days: 10 is greater"),
    ("no date", weather, a_call("weather", place={"city": "a", "day": "soon"}), FinishReason.STOP, ToolFailure.INVALID_ARGUMENTS, "at /place/day: "),
    (
        "pointer",
        NULL_ONLY,
        a_call("broken", **{"a/b~": 1}),
        FinishReason.STOP,
        ToolFailure.INVALID_ARGUMENTS,
        "/a~1b~0",
    ),
    ("no schema", broken({"type": 7}), a_call("broken"), FinishReason.STOP, ToolFailure.INVALID_ARGUMENTS, "schema of the tool is faulty"),
    ("remote", broken({"$ref": "http://localhost:9/x"}), a_call("broken"), FinishReason.STOP, ToolFailure.INVALID_ARGUMENTS, "faulty"),
    ("endless", broken({"$ref": "#"}), a_call("broken"), FinishReason.STOP, ToolFailure.INVALID_ARGUMENTS, "faulty"),
]


@pytest.mark.parametrize(("name", "made", "call", "finish", "failure", "words"), REFUSALS, ids=[row[0] for row in REFUSALS])
async def test_refusals(name: str, made: Tool[..., Any], call: ToolCall, finish: FinishReason, failure: ToolFailure, words: str) -> None:
    """
    T2, P3: the tool is not run, and the result says why and where; by policy it is a ToolError in the same words.
    """
    outcome = await run_call(made, call, finish=finish)
    assert (failure, True) == (outcome.failure, outcome.is_error)
    assert words in outcome.result
    assert outcome.event == ToolResult(call.id, outcome.result, True)
    assert outcome.part == ToolResultPart(call.id, outcome.result, True)
    with pytest.raises(ToolError) as caught:
        await run_call(made, call, finish=finish, policy=ToolPolicy(on_error="raise"))
    assert caught.value.verdict is Verdict.TOOL
    assert words in str(caught.value)


async def test_long_faults_are_shortened() -> None:
    """
    The model wrote it and need not read all of it again.
    """
    outcome = await run_call(weather, a_call("weather", place="x" * 5000, days="y" * 5000, **{f"k{n}": 1 for n in range(9)}))
    assert len(outcome.result) < 2000
    many = await run_call(KS_ARE_NULL, a_call("broken", **{f"k{n}": n for n in range(9)}))
    assert many.result.endswith("and 4 more")


class Slow:
    """
    A schema that is read until somebody lets go.
    """

    def __init__(self) -> None:
        self.done = threading.Event()
        self.threads: list[threading.Thread] = []

    def iter_errors(self, _: Any) -> list[Any]:
        self.threads.append(threading.current_thread())
        self.done.wait(5 if self.threads[-1] is not threading.main_thread() else 0)
        return []


@tool
def note(text: str) -> str:
    """
    Keep a text.
    """
    return "kept"


@tool
def now() -> str:
    """
    Tell the time.
    """
    return "12:00"


def elsewhere(**_: Any) -> str:
    """
    What a schema from elsewhere describes.
    """
    return "done"


NESTED = Tool(elsewhere, ToolSpec("nested", parameters={"properties": {"a": {"allOf": [{"$ref": "#/$defs/x"}]}}, "$defs": {"x": {}}}))
FLAT = Tool(elsewhere, ToolSpec("flat", parameters={"type": "object", "properties": {}}))


@pytest.mark.parametrize(
    ("made", "arguments", "aside"),
    [(NESTED, {"a": 1}, True), (note, {"text": "x" * 2000}, True), (note, {"text": "x"}, False), (FLAT, {}, False), (now, {}, False)],
    ids=["foreign", "long", "own", "flat", "nothing to check"],
)
async def test_where_arguments_are_checked(made: Tool[..., Any], arguments: dict[str, Any], aside: bool) -> None:
    """
    T2: what may take long is checked beside the loop, and given up with the tool's time: a result says so, and the tool is not run.
    """
    made, slow = attrs.evolve(made, timeout=0.05), Slow()
    made.__dict__["validator"] = slow
    outcome = await run_call(made, a_call(made.name, **arguments))
    slow.done.set()
    words = f"error: the arguments of {made.name} could not be checked against its schema within 0.05 s, so it was not run"
    assert [thread is not threading.main_thread() for thread in slow.threads] == [aside]
    assert (outcome.failure, outcome.result == words) == (ToolFailure.INVALID_ARGUMENTS if aside else None, aside)


async def test_no_thread_to_check_in(monkeypatch: pytest.MonkeyPatch) -> None:
    """
    T2: arguments that could not be checked are not run with.
    """

    def none_left(_: Any) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", none_left)
    outcome = await run_call(NESTED, a_call("nested", a=1))
    expected = (ToolFailure.INVALID_ARGUMENTS, "error: the arguments of nested could not be checked against its schema, so it was not run")
    assert expected == (outcome.failure, outcome.result)


async def test_types_arrive() -> None:
    """
    Arguments come as their types, defaults are the function's own, and a whole call without arguments is `{}` (P3).
    """

    @tool
    async def look(place: Place, context: ToolContext, days: int = 3) -> list[Any]:
        return [place == Place("Rome", datetime.date(2026, 2, 3)), days, context.call.id, context.step, context.response_id]

    call = a_call("look", place={"city": "Rome", "day": "2026-02-03"})
    assert (await run_call(look, call, context=ToolContext(call, 4, "resp"))).result == [True, 3, "call_1", 4, "resp"]

    @tool
    def nothing() -> None:
        """
        Take nothing.
        """

    assert (await run_call(nothing, ToolCall("c", "nothing", "", {}, True))).result is None


async def test_free_form_gets_the_text() -> None:
    """
    P3: exactly the text, whatever it looks like.
    """

    @tool(free_form=True)
    def echo(text: str) -> str:
        return text

    assert (await run_call(echo, free_text("echo", '{"not": parsed'))).result == '{"not": parsed'


NAME: contextvars.ContextVar[str] = contextvars.ContextVar("NAME")


async def test_sync_tools_run_in_a_thread_with_their_context() -> None:
    """
    The loop is never blocked by a tool, and context variables are those of the caller.
    """

    @tool
    def where() -> list[Any]:
        return [threading.current_thread() is threading.main_thread(), NAME.get()]

    NAME.set("here")
    assert (await run_call(where, a_call("where"))).result == [False, "here"]


async def test_sync_function_that_returns_an_awaitable() -> None:
    """
    What a plain function promises is awaited on the loop.
    """

    async def later() -> str:
        return "later"

    @tool
    def promise() -> Any:
        return later()

    assert (await run_call(promise, a_call("promise"))).result == "later"


def raising(error: BaseException) -> Tool[..., Any]:
    """
    A sync tool that raises.
    """

    @tool(name="bad", return_direct=True)
    def bad() -> str:
        raise error

    return bad


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (ValueError("no such city"), "error: bad failed: ValueError: no such city"),
        (ValueError("first\nsecond"), "error: bad failed: ValueError: first"),
        (KeyError(), "error: bad failed: KeyError"),
        (ToolError("try Rome"), "error: bad failed: try Rome"),
        (SystemExit(3), "error: bad failed: RuntimeError: SystemExit(3)"),
        (StopIteration(3), "error: bad failed: RuntimeError: StopIteration(3)"),
        (asyncio.CancelledError(), "error: bad failed: RuntimeError: CancelledError()"),
        (OSError("cannot reach postgres://admin:hunter2@db/x"), "error: bad failed: OSError: cannot reach postgres://[key]@db/x"),
        (OSError("401 for api_key=abc123 here"), "error: bad failed: OSError: 401 for api_key=[key] here"),
        (OSError("401 for Authorization: Bearer abc123, sorry"), "error: bad failed: OSError: 401 for Authorization: [key], sorry"),
        (OSError("bad key sk-proj-abcdefghijklmnop"), "error: bad failed: OSError: bad key [key]"),
    ],
)
async def test_a_raising_tool(error: BaseException, words: str) -> None:
    """
    T3: it becomes an error result that tells the model what went wrong: no traceback, nothing that looks like a secret; the host has the exception.
    """
    outcome = await run_call(raising(error), a_call("bad"))
    assert words == outcome.result
    assert (ToolFailure.RAISED, False) == (outcome.failure, outcome.return_direct)
    assert outcome.error is not None
    assert "Traceback" not in outcome.result
    with pytest.raises(ToolError) as caught:
        await run_call(raising(error), a_call("bad"), policy=ToolPolicy(on_error="raise"))
    assert caught.value.__cause__ is not None


class Odd(BaseException):
    """
    What no `except Exception` catches.
    """


class Wordless(Exception):
    """
    One that cannot be told.
    """

    def __str__(self) -> str:
        raise ValueError


@pytest.mark.parametrize(
    ("error", "words"), [(Odd(1), "RuntimeError: Odd(1)"), (SystemExit(3), "RuntimeError: SystemExit(3)"), (Wordless(), "Wordless")], ids=repr
)
async def test_whatever_an_async_tool_or_a_hook_raises(error: BaseException, words: str) -> None:
    """
    It ends neither the event loop nor the answer, and allows nothing.
    """

    @tool
    async def bad() -> str:
        raise error

    async def deny(request: ToolRequest) -> bool:
        raise error

    outcome = await run_call(bad, a_call("bad"))
    assert (ToolFailure.RAISED, f"error: bad failed: {words}") == (outcome.failure, outcome.result)
    outcome = await run_call(raising(Ran()), a_call("bad"), policy=ToolPolicy(authorize=deny))
    assert ToolFailure.UNAUTHORIZED is outcome.failure


async def test_arguments_are_the_tools_own() -> None:
    """
    What a tool or a hook changes in them changes neither the call, which goes back to the provider, nor what the other is given.
    """

    @tool
    async def change(places: Any) -> int:
        places.append("Oslo")
        return len(places)

    def look(request: ToolRequest) -> bool:
        request.arguments["places"].append("Bonn")
        return True

    call = a_call("change", places=["Rome"])
    outcome = await run_call(change, call, policy=ToolPolicy(authorize=look))
    assert (2, {"places": ["Rome"]}) == (outcome.result, call.arguments)


async def test_policy_words_the_failure() -> None:
    """
    The host may tell less, or more.
    """
    outcome = await run_call(raising(ValueError("x")), a_call("bad"), policy=ToolPolicy(explain=lambda error: "something broke"))
    assert outcome.result == "error: bad failed: something broke"
    assert explain_error(ValueError("y" * 900)) == f"ValueError: {'y' * 500}"


async def test_a_tool_that_says_it_failed() -> None:
    """
    It may say so itself, with whatever result.
    """

    @tool(return_direct=True)
    def look(well: bool) -> ToolAnswer:
        return ToolAnswer({"found": 0}, is_error=not well)

    outcome = await run_call(look, a_call("look", well=False))
    assert (outcome.result, outcome.failure, outcome.return_direct) == ({"found": 0}, ToolFailure.REPORTED, False)
    outcome = await run_call(look, a_call("look", well=True))
    assert (outcome.result, outcome.failure, outcome.return_direct) == ({"found": 0}, None, True)
    assert outcome.raise_for_failure() is outcome


async def test_a_result_that_cannot_be_sent() -> None:
    """
    The tool ran; that its result is nothing JSON can say is told, not hidden.
    """

    @tool
    def thing() -> object:
        return object()

    outcome = await run_call(thing, a_call("thing"))
    assert outcome.failure is ToolFailure.UNSENDABLE
    assert "object cannot be said in JSON" in outcome.result


# --- authorize ------------------------------------------------------------------------------------------------------------------------------------


async def later(answer: Any) -> Any:
    """
    An answer a person thought about.
    """
    return answer


def boom(_: Any) -> bool:
    """
    A hook that fails.
    """
    raise OSError("no display")


@pytest.mark.parametrize(
    ("hook", "words"),
    [
        (lambda request: True, None),
        (lambda request: Allow(), None),
        (lambda request: later(True), None),
        (lambda request: False, "the call of book is not allowed"),
        (lambda request: "too late", "the call of book is not allowed: too late"),
        (lambda request: "", "the call of book is not allowed"),
        (lambda request: Deny("ask first"), "the call of book is not allowed: ask first"),
        (lambda request: later(Deny()), "the call of book is not allowed"),
        (lambda request: None, "could not be authorized"),
        (lambda request: 1, "could not be authorized"),
        (boom, "could not be authorized"),
    ],
)
@pytest.mark.parametrize("on_tool", [True, False])
async def test_authorize(hook: Any, words: str | None, on_tool: bool) -> None:
    """
    T2: the hook of the tool and the policy's must each say yes; a hook that fails, or says nothing, allows nothing.
    """
    ran: list[str] = []

    @tool(authorize=hook if on_tool else None)
    def book(city: str) -> str:
        ran.append(city)
        return "booked"

    outcome = await run_call(book, a_call("book", city="Rome"), policy=ToolPolicy(authorize=None if on_tool else hook))
    assert (ToolFailure.UNAUTHORIZED if words else None) == outcome.failure
    assert (words or "booked") in outcome.result
    assert ran == ([] if words else ["Rome"])


async def test_a_hook_that_fails_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    """
    With its traceback, its secrets masked, for the host; the model reads none of it.
    """

    def faulty(request: ToolRequest) -> bool:
        key = "abc123"
        raise OSError(f"no such user\napi_key={key}")

    outcome = await run_call(note, a_call("note", text="x"), policy=ToolPolicy(authorize=faulty))
    record = next(record for record in caplog.records if record.name == "rxchat.tools")
    told = [word in record.message for word in ("authorize failed for tool note", "in faulty", "OSError: no such user", "api_key=[key]")]
    assert (record.levelname, told, "abc123" in caplog.text) == ("ERROR", [True] * 4, False)
    assert outcome.result == "error: the call of note could not be authorized, so it was not run"


async def test_authorize_sees_what_will_be_run() -> None:
    """
    It gets the call, the tool, the arguments that passed the schema, and the context; it is not asked about a call that cannot be run anyway.
    """
    asked: list[ToolRequest] = []

    def allow(request: ToolRequest) -> bool:
        asked.append(request)
        return True

    policy = ToolPolicy(authorize=allow)
    assert (await run_call(weather, a_call("weather", place={"city": "a", "day": "soon"}), policy=policy)).failure is ToolFailure.INVALID_ARGUMENTS
    assert asked == []
    call = a_call("weather", place={"city": "Rome"})
    outcome = await run_call(weather, call, policy=policy, context=ToolContext(call, 2))
    assert isinstance(outcome.error, Ran)
    assert asked == [ToolRequest(call, weather, {"place": {"city": "Rome"}}, ToolContext(call, 2))]
    await run_call(patch, free_text("patch", "abc"), policy=policy)
    assert asked[-1].arguments == {"text": "abc"}


async def test_time_to_decide_is_not_the_tools_time() -> None:
    """
    A person may take longer than the tool may.
    """
    decided = asyncio.Event()

    async def person(request: ToolRequest) -> bool:
        await decided.wait()
        return True

    @tool(timeout=0.05)
    async def quick() -> str:
        return "done"

    running = asyncio.create_task(run_call(quick, a_call("quick"), policy=ToolPolicy(authorize=person)))
    asyncio.get_running_loop().call_later(0.15, decided.set)
    assert (await running).result == "done"


# --- time and cancellation ------------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("on_tool", [True, False])
async def test_timeout_of_an_async_tool(on_tool: bool) -> None:
    """
    T3: it is cancelled, gets to clean up, and the model is told.
    """
    cleaned = asyncio.Event()

    @tool(timeout=0.02 if on_tool else None)
    async def stuck() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            cleaned.set()

    outcome = await run_call(stuck, a_call("stuck"), policy=ToolPolicy(timeout=None if on_tool else 0.02))
    assert (outcome.failure, outcome.result) == (ToolFailure.TIMEOUT, "error: stuck was stopped: it was not done within 0.02 s")
    assert cleaned.is_set()


async def test_timeout_of_a_sync_tool() -> None:
    """
    Its thread cannot be stopped, but nobody waits for it, and what it returns later goes nowhere.
    """
    release, done = threading.Event(), threading.Event()

    @tool(timeout=0.02)
    def stuck() -> None:
        release.wait(10)
        done.set()

    outcome = await run_call(stuck, a_call("stuck"))
    assert outcome.failure is ToolFailure.TIMEOUT
    release.set()
    assert await asyncio.to_thread(done.wait, 10)


async def test_a_timeout_of_its_own_is_no_timeout_of_ours() -> None:
    """
    A TimeoutError the tool raises is a failure of the tool.
    """
    outcome = await run_call(raising(TimeoutError("the database")), a_call("bad"))
    assert (outcome.failure, outcome.result) == (ToolFailure.RAISED, "error: bad failed: TimeoutError: the database")


async def test_cancelling_the_run_cancels_the_tool() -> None:
    """
    D4: nothing goes on behind the back of who cancelled.
    """
    begun, cancelled = asyncio.Event(), asyncio.Event()

    @tool
    async def stuck() -> None:
        begun.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            cancelled.set()
            raise

    running = asyncio.create_task(run_call(stuck, a_call("stuck")))
    await begun.wait()
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert cancelled.is_set()


@pytest.mark.parametrize("by", ["timeout", "cancel"])
async def test_a_tool_that_swallows_the_cancellation(by: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """
    It is left to itself after the grace period; the run ends all the same.
    """
    monkeypatch.setattr(invoking, "GRACE", 0.02)
    begun, release, ended = asyncio.Event(), asyncio.Event(), asyncio.Event()

    @tool(timeout=0.02 if by == "timeout" else None)
    async def stubborn() -> None:
        begun.set()
        while not release.is_set():
            try:
                await release.wait()
            except asyncio.CancelledError:
                pass
        ended.set()
        raise ValueError("too late for anybody")

    running = asyncio.create_task(run_call(stubborn, a_call("stubborn")))
    await begun.wait()
    if by == "cancel":
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asyncio.wait_for(running, 5)
    else:
        assert (await asyncio.wait_for(running, 5)).failure is ToolFailure.TIMEOUT
    release.set()
    await ended.wait()


async def test_a_tool_that_cancels_itself() -> None:
    """
    That is its failure, not the cancellation of the run.
    """

    @tool
    async def gives_up() -> None:
        raise asyncio.CancelledError

    outcome = await run_call(gives_up, a_call("gives_up"))
    assert (outcome.failure, outcome.result) == (ToolFailure.RAISED, "error: gives_up was cancelled")


def test_a_thread_that_outlives_the_loop() -> None:
    """
    A tool that returns when the loop is gone disturbs nobody, and never kept the loop from ending.
    """
    release, done = threading.Event(), threading.Event()

    @tool(timeout=0.01)
    def stuck() -> None:
        release.wait(10)
        done.set()

    assert asyncio.run(run_call(stuck, a_call("stuck"))).failure is ToolFailure.TIMEOUT
    release.set()
    assert done.wait(10)


@pytest.mark.parametrize("wrong", [{"on_error": "maybe"}, {"parallel": 0}, {"timeout": 0}])
def test_policies_that_cannot_be(wrong: dict[str, Any]) -> None:
    """
    A policy is checked when it is made.
    """
    with pytest.raises(ValueError, match=next(iter(wrong))):
        ToolPolicy(**wrong)
