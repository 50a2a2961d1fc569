"""
`Conversation`: what becomes history, when, and what never does (contract H).
"""

from __future__ import annotations

import asyncio
import gc
from typing import Any

import attrs
import pytest
from reactivex import operators as ops

from rxchat import aggregate, structured, text_only
from rxchat.conversation import BusyError, Conversation, TicketState
from rxchat.errors import CancelledStreamError, ConfigurationError, IncompleteStreamError, InvalidJSONError, StoreError, Verdict
from rxchat.events import Abort, ChatEvent, ErrorEvent, ResponseEnd, StepEnd, StepStart, TextDelta
from rxchat.filters import by_type
from rxchat.prompt import Message
from rxchat.response import ChatResponse, FinishReason, TextPart, ToolResultPart, Usage
from rxchat.stores import History, MemoryStore, SupersededError
from tests.client.watching import Watcher
from tests.conversation.fakes import Gate, Model, aborted, calling, failed, saying, texts
from tests.grammar import violations
from tests.stores.saying import answered, call, said


async def turns_of(loop_turns: int = 20) -> None:
    """
    Let everybody have some turns of the loop.
    """
    for _ in range(loop_turns):
        await asyncio.sleep(0)


async def seeded(store: MemoryStore | None = None, **policy: Any) -> tuple[Conversation, History]:
    """
    A conversation of one turn, and its history.
    """
    conversation = Conversation(store, "talk", clock=lambda: 7.0, **policy)
    await conversation.ask(Model([saying("One.")]), "First?", request_id="a").pipe(aggregate())
    return conversation, await conversation.history()


def no_tasks() -> list[str]:
    """
    What still works for a conversation.
    """
    return [task.get_name() for task in asyncio.all_tasks() if task.get_name().startswith("rxchat")]


# --- a whole answer -------------------------------------------------------------------------------------------------------------------------------


async def test_a_whole_answer_becomes_history() -> None:
    """
    Question and answer as one turn; the events are the model's own, and well-formed.
    """
    conversation = Conversation(name="talk", clock=lambda: 7.0)
    watcher = Watcher().watch(conversation.ask(Model([saying("Hel", "lo.")]), "Hi?", request_id="a"))
    await watcher.end()
    assert (watcher.items, watcher.completed, violations(watcher.items)) == (saying("Hel", "lo."), 1, [])
    (turn,) = await conversation.turns()
    assert (turn.request_id, turn.time, turn.verdict, texts(turn.messages)) == ("a", 7.0, Verdict.COMPLETE, ["Hi?", "Hello."])
    assert await conversation.usage() == Usage(input_tokens=3, output_tokens=2)
    assert no_tasks() == []


async def test_history_goes_with_the_next_question() -> None:
    """
    System text first and never stored, then the turns, then the question; tools and options reach the model.
    """
    conversation = Conversation(system="Be brief.")
    model = Model([saying("One."), saying("Two.")])
    await conversation.ask(model, "First?").pipe(aggregate())
    answer = await conversation.ask(model, Message.user("Second?"), tools=["t"], max_tokens=5).pipe(aggregate())
    assert texts(model.asked[1].prompt) == ["Be brief.", "First?", "One.", "Second?"]
    assert (model.asked[1].request, answer.text) == ({"tools": ["t"], "max_tokens": 5}, "Two.")
    assert texts(await conversation.messages()) == ["First?", "One.", "Second?", "Two."]


async def test_asking_is_cold() -> None:
    """
    Nothing happens before a subscription; each one is a turn of its own.
    """
    conversation, model = Conversation(), Model([saying("One."), saying("Two.")])
    events = conversation.ask(model, "Again?")
    await turns_of()
    assert (model.asked, await conversation.turns()) == ([], ())
    await events.pipe(aggregate())
    await events.pipe(aggregate())
    ids = said(await conversation.history())
    assert (len(ids), len(set(ids)), texts(model.asked[1].prompt)) == (2, 2, ["Again?", "One.", "Again?"])


async def test_commit_comes_first_then_the_end_is_delivered() -> None:
    """
    While the store works the end is held back; when it is delivered the turn is there.
    """
    store = Gate()
    store.gate.clear()
    conversation = Conversation(store, "talk")
    watcher = Watcher().watch(conversation.ask(Model([saying("One.")]), "First?", request_id="a"))
    await store.entered.wait()
    await turns_of()
    assert (watcher.items, watcher.completed) == (saying("One.")[:-1], 0)
    seen: list[list[str]] = []
    watcher.on_next = lambda event: seen.append(list(store._conversations["talk"].records))
    store.gate.set()
    await watcher.end()
    assert (watcher.items, seen, said(await conversation.history())) == (saying("One."), [["a"]], ["a"])


async def test_what_comes_behind_the_end_changes_nothing() -> None:
    """
    A model that goes on behind its ResponseEnd is not heard (contract E1).
    """
    conversation = Conversation()
    watcher = await Watcher().watch(conversation.ask(Model([([*saying("One."), TextDelta("more")], RuntimeError("late"))]), "First?")).end()
    assert (watcher.items, watcher.error, len(await conversation.turns())) == (saying("One."), None, 1)


async def test_another_turn_may_begin_inside_the_end() -> None:
    """
    Who hears ResponseEnd may ask the next thing at once.
    """
    conversation, model = Conversation(), Model([saying("One."), saying("Two.")])
    second = Watcher()

    def next_one(event: ChatEvent) -> None:
        if isinstance(event, ResponseEnd):
            second.watch(conversation.ask(model, "Second?"))

    first = Watcher(on_next=next_one).watch(conversation.ask(model, "First?"))
    await first.end()
    await second.end()
    assert texts(await conversation.messages()) == ["First?", "One.", "Second?", "Two."]


# --- anything else --------------------------------------------------------------------------------------------------------------------------------

ENDS: dict[str, Any] = {
    "length": saying("Once upon a", finish=FinishReason.LENGTH),
    "content filter": saying("I", finish=FinishReason.CONTENT_FILTER),
    "unknown finish": saying("I", finish=FinishReason.UNKNOWN),
    "empty": saying(),
    "broken off": failed("Half an"),
    "broken off at once": failed(),
    "aborted by the provider": aborted("Half an"),
    "no terminal": saying("Half an")[:-1],
    "an error that is not ours": (saying("Half an")[:3], RuntimeError("a user's operator")),
    "nothing": [],
}


@pytest.mark.parametrize("name", ENDS)
async def test_anything_else_leaves_history_as_it_is(name: str) -> None:
    """
    All is delivered as it came, nothing is stored, the question neither; the next turn begins from the same history.
    """
    store = MemoryStore()
    conversation, before = await seeded(store)
    events, error = ENDS[name] if isinstance(ENDS[name], tuple) else (ENDS[name], None)
    watcher = await Watcher().watch(conversation.ask(Model([ENDS[name]]), "Second?")).end()
    assert (watcher.items, watcher.error, watcher.completed) == (events, error, 0 if error else 1)
    assert (await store.load("talk"), conversation.preview) == (before, None)
    model = Model([saying("Two.")])
    await conversation.ask(model, "Second?").pipe(aggregate())
    assert texts(model.asked[0].prompt) == ["First?", "One.", "Second?"]


async def test_a_policy_of_ones_own() -> None:
    """
    `accept` decides; a cut answer may be good enough.
    """
    conversation = Conversation(accept=lambda response: bool(response.text))
    await conversation.ask(Model([ENDS["length"]]), "A tale?").pipe(aggregate())
    (turn,) = await conversation.turns()
    assert (turn.response.text, turn.verdict) == ("Once upon a", Verdict.INCOMPLETE_FINISH)


@pytest.mark.parametrize(("policy", "stored"), [({}, ["Hi?", "Hello."]), ({"accept": lambda response: response.text.startswith("{")}, [])])
async def test_what_is_not_of_the_type_asked_for(policy: dict[str, Any], stored: list[str]) -> None:
    """
    `structured` behind an ask refuses what is history already; `accept` keeps it out.
    """
    conversation = Conversation(**policy)
    with pytest.raises(InvalidJSONError):
        await conversation.ask(Model([saying("Hello.")]), "Hi?").pipe(structured(Usage))
    assert texts(await conversation.messages()) == stored


async def test_a_policy_that_raises() -> None:
    """
    Its error is the subscriber's, nothing is stored, and the conversation is free again.
    """
    conversation, before = await seeded()
    conversation = Conversation(conversation.store, "talk", accept=lambda response: 1 / 0 > 0)
    for _ in range(2):
        watcher = await Watcher().watch(conversation.ask(Model([saying("Two.")]), "Second?")).end()
        assert (type(watcher.error), await conversation.history(), conversation.preview) == (ZeroDivisionError, before, None)


async def test_a_model_that_cannot_be_asked() -> None:
    """
    What its `stream` raises is a bare error, and the conversation is free again.
    """

    class Broken:
        def stream(self, prompt: Any, **request: Any) -> Any:
            raise ConfigurationError("no such option")

    conversation, before = await seeded()
    watcher = await Watcher().watch(conversation.ask(Broken(), "Second?")).end()
    assert (watcher.items, str(watcher.error), await conversation.history()) == ([], "no such option", before)
    await conversation.ask(Model([saying("Two.")]), "Second?").pipe(aggregate())


async def test_a_prompt_that_is_none() -> None:
    """
    A bare error at the subscription.
    """
    conversation = Conversation()
    watcher = Watcher().watch(conversation.ask(Model(), ""))
    watcher.dispose()
    nonsense: list[Any] = [[], {"role": "user"}, 3]
    for wrong in nonsense:
        watcher = Watcher().watch(conversation.ask(Model(), wrong))
        assert isinstance(watcher.error, ConfigurationError)


def test_no_loop() -> None:
    """
    Subscribing without a running loop fails at once, by name (contract D8).
    """
    watcher = Watcher().watch(Conversation().ask(Model(), "Hi?"))
    assert "asyncio.run" in str(watcher.error)


# --- leaving --------------------------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seen", range(7))
async def test_leaving_at_any_event_stores_nothing(seen: int) -> None:
    """
    Also from inside on_next: not one more event, the request is ended, history as it was, the conversation free (contract E8).
    """
    events = saying("a", "b")
    conversation, before = await seeded()
    model = Model()
    watcher = Watcher()

    def leave(event: ChatEvent) -> None:
        if len(watcher.items) == seen:
            watcher.dispose()

    watcher.on_next = leave
    watcher.watch(conversation.ask(model, "Second?"))
    if seen == 0:
        watcher.dispose()
    await turns_of()
    if model.asked:
        model.asked[0].say(*events, end=True)
        assert model.asked[0].disposed is True
    await turns_of()
    assert (watcher.items, watcher.completed, watcher.failed) == (events[:seen], 0, 0)
    assert (await conversation.history(), no_tasks()) == (before, [])
    await conversation.ask(Model([saying("Two.")]), "Second?").pipe(aggregate())


async def test_take_leaves() -> None:
    """
    An operator that has enough ends the turn.
    """
    conversation, before = await seeded()
    assert await conversation.ask(Model([saying("a", "b")]), "Second?").pipe(text_only(), ops.take(1)) == "a"
    assert await conversation.history() == before


@pytest.mark.parametrize("behind", [False, True])
async def test_leaving_during_the_commit(behind: bool) -> None:
    """
    It goes on to its end without anybody; nothing is emitted. The next turn waits for it, and sees it.
    """
    store = Gate()
    store.gate.clear()
    store.behind = behind
    conversation = Conversation(store, "talk")
    watcher = Watcher().watch(conversation.ask(Model([saying("One.")]), "First?", request_id="a"))
    await store.entered.wait()
    watcher.dispose()
    model = Model([saying("Two.")])
    second = Watcher().watch(conversation.ask(model, "Second?"))
    await turns_of()
    assert model.asked == []
    store.gate.set()
    await conversation.settled()
    await second.end()
    assert (watcher.items, watcher.completed, texts(model.asked[0].prompt)) == (saying("One.")[:-1], 0, ["First?", "One.", "Second?"])


async def test_leaving_between_the_end_and_the_commit() -> None:
    """
    A commit that has not begun does not happen.
    """
    conversation, before = await seeded()
    model = Model()
    watcher = Watcher().watch(conversation.ask(model, "Second?"))
    await turns_of()
    model.asked[0].say(*saying("Two."), end=True)
    watcher.dispose()
    await turns_of()
    assert (await conversation.history(), watcher.items, no_tasks()) == (before, saying("Two.")[:-1], [])


async def test_a_subscriber_that_raises() -> None:
    """
    Its own error reaches it, the request is closed, nothing is stored; behind the commit, it is (contract E14).
    """
    for at, stored in ((TextDelta, ["a"]), (ResponseEnd, ["a", "b"])):
        conversation, _ = await seeded()

        def explode(event: ChatEvent, at: Any = at) -> None:
            if isinstance(event, at):
                raise LookupError("mine")

        watcher = await Watcher(on_next=explode).watch(conversation.ask(Model([saying("Two.")]), "Second?", request_id="b")).end()
        assert (repr(watcher.error), watcher.failed, said(await conversation.history())) == ("LookupError('mine')", 1, stored)


async def test_cancelling_who_waits_for_the_answer() -> None:
    """
    A cancelled task leaves nothing behind.
    """
    conversation, before = await seeded()
    model = Model()

    async def wait() -> ChatResponse:
        return await conversation.ask(model, "Second?").pipe(aggregate())

    task = asyncio.create_task(wait())
    await turns_of()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await turns_of()
    assert (model.asked[0].disposed, await conversation.history(), no_tasks()) == (True, before, [])


# --- a store that fails ---------------------------------------------------------------------------------------------------------------------------


async def test_a_store_that_fails_is_an_error_with_the_answer_on_it() -> None:
    """
    ErrorEvent of verdict STORE instead of ResponseEnd, then on_error with the same; it can be saved when the store is well again.
    """
    store = Gate()
    conversation, before = await seeded(store)
    store.fault = StoreError("the disk is full")
    watcher = await Watcher().watch(conversation.ask(Model([saying("Two.")]), "Second?", request_id="b")).end()
    event = watcher.items[-1]
    assert (type(event), event.error, watcher.error, watcher.completed) == (ErrorEvent, store.fault, store.fault, 0)
    assert (event.response.text, event.response.verdict, event.response.committable) == ("Two.", Verdict.STORE, False)
    assert (store.fault.response, event.usage, violations(watcher.items)) == (event.response, Usage(input_tokens=3, output_tokens=2), [])
    assert await conversation.history() == before
    with pytest.raises(StoreError):
        await conversation.save()
    store.fault = None
    saved = await conversation.save()
    assert saved is not None
    assert (saved.request_id, saved.verdict, said(await conversation.history())) == ("b", Verdict.COMPLETE, ["a", "b"])
    assert await conversation.save() is None


async def test_any_failure_of_a_store_is_a_store_error() -> None:
    """
    Also what a store of somebody else's raises.
    """
    store = Gate()
    conversation, _ = await seeded(store)
    store.fault = ZeroDivisionError("odd")
    watcher = await Watcher().watch(conversation.ask(Model([saying("Two.")]), "Second?")).end()
    assert (type(watcher.error), watcher.error and watcher.error.__cause__) == (StoreError, store.fault)


async def test_a_history_that_cannot_be_loaded() -> None:
    """
    Nothing is sent; a bare error (contract E7).
    """
    conversation, model = Conversation(MemoryStore(), "talk"), Model([saying("One.")])
    assert isinstance(conversation.store, MemoryStore)
    conversation.store._of("talk").records["x"] = "{"
    watcher = await Watcher().watch(conversation.ask(model, "First?")).end()
    assert (watcher.items, type(watcher.error), model.asked) == ([], StoreError, [])


async def test_a_turn_overtaken_elsewhere_cannot_be_committed() -> None:
    """
    Two objects on one store and name: the second to commit is told, and writes nothing.
    """
    store = MemoryStore()
    one, other = Conversation(store, "talk"), Conversation(store, "talk")
    model = Model()
    late = Watcher().watch(one.ask(model, "Slow?"))
    await turns_of()
    await other.ask(Model([saying("Quick.")]), "Quick?").pipe(aggregate())
    model.asked[0].say(*saying("Slow."), end=True)
    await late.end()
    assert (type(late.error), late.items[-1].response.text) == (SupersededError, "Slow.")
    assert texts(await one.messages()) == ["Quick?", "Quick."]
    assert await one.save() is None


# --- a second turn --------------------------------------------------------------------------------------------------------------------------------


async def test_reject() -> None:
    """
    By default a second turn is refused, and told what to do; the first goes on.
    """
    conversation, model = Conversation(), Model()
    first = Watcher().watch(conversation.ask(model, "First?"))
    second = Watcher().watch(conversation.ask(model, "Second?"))
    assert (type(second.error), "share_events" in str(second.error)) == (BusyError, True)
    with pytest.raises(BusyError):
        await conversation.undo()
    await turns_of()
    model.asked[0].say(*saying("One."), end=True)
    await first.end()
    assert texts(await conversation.messages()) == ["First?", "One."]


async def test_queue() -> None:
    """
    One after the other, in order, each with what was said before it; one that leaves the queue is skipped.
    """
    conversation, model = Conversation(concurrency="queue"), Model()
    first, second, third, fourth = (Watcher().watch(conversation.ask(model, f"{n}?")) for n in range(4))
    await turns_of()
    second.dispose()
    await turns_of()
    assert len(model.asked) == 1
    model.asked[0].say(*saying("a"), end=True)
    await first.end()
    await turns_of()
    model.asked[1].say(*failed("b")[0])
    model.asked[1].observer.on_error(failed()[1])
    await third.end()
    await turns_of()
    model.asked[2].say(*saying("d"), end=True)
    await fourth.end()
    assert texts(model.asked[2].prompt) == ["0?", "a", "3?"]
    assert texts(await conversation.messages()) == ["0?", "a", "3?", "d"]


async def test_replace() -> None:
    """
    The first one ends as an Abort with what had arrived, and whatever it says later is not written; here and elsewhere.
    """
    store = MemoryStore()
    conversation, elsewhere = (Conversation(store, "talk", concurrency="replace") for _ in range(2))
    model, other = Model(), Model()
    first = Watcher().watch(conversation.ask(model, "First?"))
    far = Watcher().watch(elsewhere.ask(other, "Far?"))
    await turns_of()
    model.asked[0].say(*saying("Half an answer")[:4])
    second = Watcher().watch(conversation.ask(model, "Second?"))
    assert (first.completed, type(first.items[-1]), first.items[-1].response.text) == (1, Abort, "Half an answer")
    assert (first.items[-1].response.verdict, violations(first.items)) == (Verdict.ABORTED, [])
    await turns_of()
    model.asked[0].say(*saying("Late."), end=True)
    other.asked[0].say(*saying("Far."), end=True)
    await far.end()
    assert (model.asked[0].disposed, type(far.error)) == (True, SupersededError)
    model.asked[1].say(*saying("Two."), end=True)
    await second.end()
    assert texts(await conversation.messages()) == ["Second?", "Two."]


async def test_replace_waits_for_a_commit_that_has_begun() -> None:
    """
    What is being written is written, and the new turn follows it.
    """
    store = Gate()
    conversation = Conversation(store, "talk", concurrency="replace")
    store.gate.clear()
    first = Watcher().watch(conversation.ask(Model([saying("One.")]), "First?"))
    await store.entered.wait()
    model = Model([saying("Two.")])
    second = Watcher().watch(conversation.ask(model, "Second?"))
    await turns_of()
    assert (conversation.abort("no"), first.completed) == (True, 0)
    store.gate.set()
    await first.end()
    await second.end()
    assert (first.items, [type(item).__name__ for item in second.items]) == (saying("One."), ["ResponseStart", "Abort"])
    assert texts(await conversation.messages()) == ["First?", "One."]


def test_unknown_policy() -> None:
    """
    Told at once.
    """
    with pytest.raises(ConfigurationError, match="reject, queue, replace, not 'hope'"):
        Conversation(concurrency="hope")  # type: ignore[arg-type]


# --- preview and abort ----------------------------------------------------------------------------------------------------------------------------


async def test_the_preview_grows_and_is_never_stored() -> None:
    """
    It sees what the subscriber's filter hides, and is gone with its turn; abort ends it with the answer so far.
    """
    conversation, before = await seeded()
    model = Model()
    watcher = Watcher().watch(conversation.ask(model, "Second?", event_filter=by_type(StepStart)))
    await turns_of()
    events = saying("Half", " an answer")
    model.asked[0].say(*events[:4])
    assert (conversation.preview and conversation.preview.parts) == (TextPart("Half"),)
    model.asked[0].say(events[4])
    assert (conversation.preview and conversation.preview.text) == "Half an answer"
    assert conversation.abort("enough") is True
    assert [type(item).__name__ for item in watcher.items] == ["ResponseStart", "StepStart", "StepEnd", "Abort"]
    assert (watcher.items[-1].reason, watcher.items[-1].response.text, watcher.completed) == ("enough", "Half an answer", 1)
    await turns_of()
    assert (conversation.preview, await conversation.history(), conversation.abort(), no_tasks()) == (None, before, False, [])


async def test_abort_from_inside() -> None:
    """
    A subscriber may end its own turn.
    """
    conversation, before = await seeded()

    def stop(event: ChatEvent) -> None:
        if isinstance(event, TextDelta):
            conversation.abort("mine")

    watcher = Watcher(on_next=stop)
    await watcher.watch(conversation.ask(Model([saying("a", "b")]), "Second?")).end()
    assert ([type(item).__name__ for item in watcher.items][-3:], violations(watcher.items)) == (["TextEnd", "StepEnd", "Abort"], [])
    assert (watcher.completed, await conversation.history()) == (1, before)


async def test_abort_between_the_end_and_the_commit() -> None:
    """
    The answer is whole, but not history, and does not become it: Abort in the place of ResponseEnd.
    """
    conversation, before = await seeded()
    model = Model()
    watcher = Watcher().watch(conversation.ask(model, "Second?"))
    await turns_of()
    model.asked[0].say(*saying("Two."), end=True)
    assert conversation.abort("no") is True
    await turns_of()
    assert (violations(watcher.items), type(watcher.items[-1]), watcher.items[-1].response.text) == ([], Abort, "Two.")
    assert (watcher.completed, await conversation.history(), no_tasks()) == (1, before, [])


# --- calls of the client --------------------------------------------------------------------------------------------------------------------------

RESULT = Message.tool("call_1", "sun")


async def test_calls_and_results_are_committed_together() -> None:
    """
    The answer that calls is delivered and waits; with the answer to its results, all of it becomes history as one turn.
    """
    conversation, before = await seeded()
    model = Model([calling(), calling("call_2"), saying("Sun.")])
    answer = await conversation.ask(model, "Weather?", request_id="b").pipe(aggregate())
    assert (answer.committable, [item.id for item in conversation.pending]) == (True, ["call_1"])
    assert await conversation.history() == before
    await conversation.answer(model, RESULT).pipe(aggregate())
    assert ([item.id for item in conversation.pending], await conversation.history()) == (["call_2"], before)
    await conversation.answer(model, [Message.tool("call_2", "rain")]).pipe(aggregate())
    assert (conversation.pending, said(await conversation.history())) == ((), ["a", "b"])
    turn = (await conversation.turns())[-1]
    roles = ["user", "assistant", "tool", "assistant", "tool", "assistant"]
    assert ([message.role for message in turn.messages], turn.usage) == (roles, Usage(input_tokens=9, output_tokens=6))
    assert list(model.asked[2].prompt) == [*before.turns[0].messages, *turn.messages[:-1]]


async def test_a_loop_of_many_steps_is_one_turn() -> None:
    """
    Calls answered inside the response need nobody (contract T4).
    """
    conversation = Conversation()
    events = saying("Sun.")
    whole = attrs.evolve(events[-1].response, parts=(call(), ToolResultPart("call_1", "sun"), TextPart("Sun.")))  # type: ignore[union-attr]
    await conversation.ask(Model([[*events[:-1], ResponseEnd(whole)]]), "Weather?").pipe(aggregate())
    assert (conversation.pending, len(await conversation.turns())) == ((), 1)


async def test_a_pending_turn_stays_until_it_is_answered() -> None:
    """
    A failed, aborted or left answer to the results can be tried again; another question is refused meanwhile.
    """
    conversation, before = await seeded()
    await conversation.ask(Model([calling()]), "Weather?").pipe(aggregate())
    with pytest.raises(BusyError, match="call_1"):
        await conversation.begin("Another?")
    for script in (failed("Su"), saying("Su", finish=FinishReason.LENGTH)):
        await Watcher().watch(conversation.answer(Model([script]), RESULT)).end()
    watcher = Watcher().watch(conversation.answer(Model(), RESULT))
    await turns_of()
    watcher.dispose()
    assert ([item.id for item in conversation.pending], await conversation.history()) == (["call_1"], before)
    await conversation.answer(Model([saying("Sun.")]), RESULT).pipe(aggregate())
    assert texts(await conversation.messages())[2::3] == ["Weather?", "Sun."]


async def test_results_must_be_complete() -> None:
    """
    Results without calls, and calls without results, are told before anything is sent.
    """
    conversation, _ = await seeded()
    watcher = Watcher().watch(conversation.answer(Model(), RESULT))
    assert "no turn" in str(watcher.error)
    await conversation.ask(Model([calling()]), "Weather?").pipe(aggregate())
    watcher = Watcher().watch(conversation.answer(Model(), Message.user("Never mind.")))
    assert "call_1 have no result" in str(watcher.error)


async def test_a_pending_turn_is_forgotten_by_abort_and_replace() -> None:
    """
    And then nothing of it was ever there.
    """
    conversation, before = await seeded(concurrency="replace")
    await conversation.ask(Model([calling()]), "Weather?").pipe(aggregate())
    assert (conversation.abort(), conversation.pending, (await conversation.history()).turns) == (True, (), before.turns)
    await conversation.ask(Model([calling()]), "Weather?").pipe(aggregate())
    await conversation.ask(Model([saying("Two.")]), "Second?").pipe(aggregate())
    assert (conversation.pending, texts(await conversation.messages())) == ((), ["First?", "One.", "Second?", "Two."])


async def test_a_pending_turn_that_was_overtaken() -> None:
    """
    Its answer cannot be committed, and it does not wait any longer.
    """
    store = MemoryStore()
    conversation, before = await seeded(store)
    await conversation.ask(Model([calling()]), "Weather?").pipe(aggregate())
    await store.supersede("talk")
    watcher = await Watcher().watch(conversation.answer(Model([saying("Sun.")]), RESULT)).end()
    assert (type(watcher.error), conversation.pending, (await conversation.history()).turns) == (SupersededError, (), before.turns)


# --- step by step ---------------------------------------------------------------------------------------------------------------------------------


async def test_tickets_by_hand() -> None:
    """
    Begin, observe, commit; a second commit changes nothing.
    """
    conversation, _ = await seeded()
    ticket = await conversation.begin("Second?", request_id="b")
    for event in saying("Two."):
        ticket.observe(event)
    assert (texts(ticket.prompt), ticket.preview.text, ticket.state) == (["First?", "One.", "Second?"], "Two.", TicketState.RUNNING)
    first = await conversation.commit(ticket, ticket.preview)
    assert await conversation.commit(ticket, answered("Other.")) == first
    assert (said(await conversation.history()), conversation.roll_back(ticket)) == (["a", "b"], False)


async def test_a_rolled_back_ticket_is_worth_nothing() -> None:
    """
    A late completion cannot write.
    """
    conversation, before = await seeded()
    ticket = await conversation.begin("Second?")
    assert (conversation.roll_back(ticket), conversation.roll_back(ticket)) == (True, True)
    with pytest.raises(SupersededError, match="rolled back"):
        await conversation.commit(ticket, answered("Late."))
    assert await conversation.history() == before


async def test_what_does_not_become_history_by_hand() -> None:
    """
    Told, and the ticket may still commit something better.
    """
    conversation = Conversation()
    ticket = await conversation.begin("First?")
    for response, words in ((answered("x", verdict=Verdict.INCOMPLETE_FINISH), "INCOMPLETE_FINISH"), (answered(call()), "call_1")):
        with pytest.raises(ConfigurationError, match=words):
            await conversation.commit(ticket, response)
    await conversation.commit(ticket, answered("One."))
    assert len(await conversation.turns()) == 1


async def test_a_commit_that_is_cancelled_still_ends() -> None:
    """
    Committing again waits for it, and reports the same turn.
    """
    store = Gate()
    conversation = Conversation(store, "talk")
    ticket = await conversation.begin("First?", request_id="a")
    store.gate.clear()
    task = asyncio.create_task(conversation.commit(ticket, answered("One.")))
    await store.entered.wait()
    task.cancel()
    await asyncio.wait([task])
    assert (task.cancelled(), ticket.state) == (True, TicketState.COMMITTING)
    again = asyncio.create_task(conversation.commit(ticket, answered("One.")))
    await turns_of()
    store.gate.set()
    assert (await again).request_id == "a"
    assert (said(await conversation.history()), ticket.state) == (["a"], TicketState.COMMITTED)


async def test_a_ticket_rolled_back_while_it_waits() -> None:
    """
    Who waits for its turn hears of it.
    """
    conversation = Conversation(concurrency="queue")
    first = await conversation.begin("First?")
    waiting = asyncio.create_task(conversation.begin("Second?"))
    await turns_of()
    conversation.abort()
    with pytest.raises(CancelledStreamError):
        await waiting
    assert first.state is TicketState.ROLLED_BACK


async def test_a_stored_request_is_not_asked_again() -> None:
    """
    The same request id reports the stored answer, whatever the question; the model hears nothing.
    """
    conversation, before = await seeded()
    model = Model()
    watcher = await Watcher().watch(conversation.ask(model, "First?", request_id="a")).end()
    assert ([type(item).__name__ for item in watcher.items], watcher.items[-1].response.text) == (["ResponseStart", "ResponseEnd"], "One.")
    assert (model.asked, await conversation.history(), violations(watcher.items)) == ([], before, [])
    ticket = await conversation.begin("First?", request_id="a")
    assert (ticket.turn, await conversation.commit(ticket, answered("x"))) == (before.turns[0], before.turns[0])


async def test_the_same_request_asked_twice_at_once() -> None:
    """
    Two objects, or two processes, ask one request id: it is stored once, and both ends tell the answer that is stored.
    """
    store, models = MemoryStore(), (Model(), Model())
    watchers = [Watcher().watch(Conversation(store, "talk").ask(model, "First?", request_id="a")) for model in models]
    await turns_of()
    for model, word in zip(models, ("One.", "Uno."), strict=True):
        model.asked[0].say(*saying(word), end=True)
    for watcher in watchers:
        await watcher.end()
    (turn,) = (await store.load("talk")).turns
    assert [turn.response] * 2 == [watcher.items[-1].response for watcher in watchers]


# --- history --------------------------------------------------------------------------------------------------------------------------------------


async def talked(*questions: str, **policy: Any) -> Conversation:
    """
    A conversation of these questions.
    """
    conversation = Conversation(MemoryStore(), "talk", **policy)
    for question in questions:
        await conversation.ask(Model([saying(question.upper())]), question).pipe(aggregate())
    return conversation


async def test_undo_and_truncate() -> None:
    """
    The last turns go, and are handed back; more than there are is all of them.
    """
    conversation = await talked("a", "b", "c", "d")
    assert [turn.response.text for turn in await conversation.undo()] == ["D"]
    assert [turn.response.text for turn in await conversation.truncate(1)] == ["B", "C"]
    assert texts(await conversation.messages()) == ["a", "A"]
    assert len(await conversation.undo(9)) == 1
    for wrong in (conversation.undo(0), conversation.truncate(-1)):
        with pytest.raises(ConfigurationError):
            await wrong


async def test_an_edit_takes_the_place_of_what_was() -> None:
    """
    The old turns stay until the new answer is whole.
    """
    conversation = await talked("a", "b", "c")
    before = await conversation.history()
    await Watcher().watch(conversation.ask(Model([failed("X")]), "x", keep=1)).end()
    assert await conversation.history() == before
    model = Model([saying("X")])
    await conversation.ask(model, "x", keep=1).pipe(aggregate())
    assert (texts(model.asked[0].prompt), texts(await conversation.messages())) == (["a", "A", "x"], ["a", "A", "x", "X"])


async def test_a_branch_goes_its_own_way() -> None:
    """
    A copy of the first turns under another name, with the same settings.
    """
    conversation = await talked("a", "b", system="Be brief.", concurrency="queue")
    branch = await conversation.branch("other", 1)
    model = Model([saying("X")])
    await branch.ask(model, "x").pipe(aggregate())
    assert (texts(model.asked[0].prompt), texts(await conversation.messages())) == (["Be brief.", "a", "A", "x"], ["a", "A", "b", "B"])
    assert (await conversation.store.names(), branch._line.concurrency) == (("other", "talk"), "queue")
    with pytest.raises(StoreError, match="in use"):
        await conversation.branch("other")


async def test_delete() -> None:
    """
    Gone, and free to be used again.
    """
    conversation = await talked("a", concurrency="replace")
    model = Model()
    watcher = Watcher().watch(conversation.ask(model, "b"))
    await turns_of()
    assert (await conversation.delete(), watcher.items[-1].reason) == (True, "replaced by another turn")
    assert (await conversation.turns(), await conversation.delete(), await conversation.usage()) == ((), False, None)


def test_names() -> None:
    """
    What is no name is told at once; repr says where.
    """
    with pytest.raises(ConfigurationError):
        Conversation(name="")
    with pytest.raises(ConfigurationError):
        asyncio.run(Conversation().begin("x", request_id="\udc00"))
    assert repr(Conversation(name="talk")) == "<Conversation 'talk' in memory>"


async def test_nothing_is_left_over() -> None:
    """
    No task, no reference cycle that only the collector would find, after any of the ends.
    """
    for script in ENDS.values():
        await Watcher().watch(Conversation().ask(Model([script]), "?")).end()
    gc.collect()
    assert no_tasks() == []
    assert isinstance(failed()[1], IncompleteStreamError)
    assert isinstance(saying("a")[-2], StepEnd)
