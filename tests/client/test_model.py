"""
`ChatModel` and `Call`: what is sent, what comes out, and how it ends, over real loopback HTTP.
"""

from __future__ import annotations

import asyncio
import gc
import logging
from typing import Any

import pytest
from reactivex import operators as ops

from rxchat.client import ChatModel, HttpSettings
from rxchat.errors import (
    CancelledStreamError,
    ConfigurationError,
    ConnectError,
    ConnectionLostError,
    ContentTypeError,
    FirstEventTimeout,
    HTTPStatusError,
    IncompleteStreamError,
    ProviderError,
    ReadTimeout,
    RxchatError,
    Verdict,
)
from rxchat.events import Abort, ChatEvent, ErrorEvent, Raw, ResponseStart, TextDelta, UsageUpdate
from rxchat.filters import all_events, by_type
from rxchat.prompt import ToolSpec
from tests.client.watching import Serve, Watcher, settled
from tests.grammar import violations
from tests.loopback import DONE, FINISH, GOOD, Loopback, Script, answer, delta, frame, hold, in_turn, loopback, loopback_thread, raw


def model_at(server: Loopback, **settings: Any) -> ChatModel:
    """
    A model of that server that asks once.
    """
    return ChatModel("test-1", base_url=server.url, **{"settings": HttpSettings(retry=None), **settings})


def text_of(events: list[ChatEvent]) -> str:
    """
    What was shown.
    """
    return "".join(event.text for event in events if isinstance(event, TextDelta))


# --- the request ----------------------------------------------------------------------------------------------------------------------------------


async def test_a_prompt_becomes_one_post(serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    """
    Model, messages, options and key arrive as the provider wants them.
    """
    monkeypatch.setenv("OPENAI_API_KEY", "sk-from-environment")
    server = await serve(answer(*GOOD))
    model = ChatModel("openai/gpt-test", base_url=server.url)
    await model.call([{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Hi"}], max_tokens=5, temperature=0.5)
    (seen,) = server.seen
    assert (seen.path, seen.headers["authorization"], seen.headers["content-type"]) == (
        "/v1/chat/completions",
        "Bearer sk-from-environment",
        "application/json",
    )
    assert seen.json == {
        "model": "gpt-test",
        "messages": [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Hi"}],
        "max_completion_tokens": 5,
        "temperature": 0.5,
        "stream": True,
        "stream_options": {"include_usage": True},
    }


async def test_a_server_nobody_knows_gets_no_key_of_the_environment(serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    """
    A key goes only to its provider, or where its owner sends it.
    """
    monkeypatch.setenv("OPENAI_API_KEY", "sk-from-environment")
    server = await serve(answer(*GOOD))
    await ChatModel("org/model", base_url=server.url).call("Hi", max_tokens=5)
    (seen,) = server.seen
    assert ("authorization" in seen.headers, seen.json["model"], seen.json["max_tokens"]) == (False, "org/model", 5)


@pytest.mark.parametrize(
    "name, settings, words",
    [
        ("gpt-test", {}, 'say "provider/name"'),
        ("nobody/gpt-test", {}, 'say "provider/name"'),
        ("opnai/gpt-test", {}, "did you mean openai"),
        ("openai", {}, "openai/"),
        ("openai/", {"base_url": "http://h"}, "the name of the model is missing: 'openai/'"),
        (" ", {"base_url": "http://h"}, "model is empty"),
        (None, {}, 'a model is named by a text, "provider/name", not NoneType'),
        ("openai/gpt-test", {"settings": {"read_timeout": 5}}, "settings are HttpSettings, not dict"),
        ("m", {"base_url": ""}, "base_url is empty"),
        ("m", {"base_url": "127.0.0.1:8/ok"}, "does not begin with http://"),
        ("openai/gpt-test", {"quirks": {"colour": "red"}}, "there is no quirk colour; there are: include_usage"),
        ("openai/gpt-test", {"options": {"colour": "red"}}, "has no option colour"),
        ("openai/gpt-test", {"profile": "lenient"}, "has no profile lenient"),
    ],
)
def test_a_model_that_cannot_be_is_refused_at_once(name: Any, settings: dict[str, Any], words: str) -> None:
    """
    Before anything is asked.
    """
    with pytest.raises(ConfigurationError, match=words):
        ChatModel(name, **settings)


@pytest.mark.parametrize(
    "name, request_options, words",
    [
        ("openai/gpt-test", {}, "set OPENAI_API_KEY, or give api_key"),
        ("azure/gpt-test", {"api": "k"}, "set AZURE_RESOURCE_NAME, or give base_url"),
        ("vllm/gpt-test", {"colour": "red"}, "there is no request option colour"),
        ("vllm/gpt-test", {"top_k": 3}, "no way to say top_k"),
    ],
)
async def test_a_request_that_cannot_be_built_is_a_bare_error(
    name: str, request_options: dict[str, Any], words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """
    E7: no event, nothing sent, no verdict.
    """
    for variable in ("OPENAI_API_KEY", "AZURE_RESOURCE_NAME"):
        monkeypatch.delenv(variable, raising=False)
    call = ChatModel(name, api_key=request_options.pop("api", None)).open("Hi", **request_options)
    watcher = await Watcher().watch(call.events).end()
    assert (watcher.items, type(watcher.error), call.verdict) == ([], ConfigurationError, None)
    assert words in str(watcher.error)


@pytest.mark.parametrize(
    "prompt, tools, words",
    [
        (3, (), "a prompt is a text, a message, or a list of them, not int"),
        ("Hi", [3], "a tool is a ToolSpec or a typed function, not int"),
        ("Hi", [ToolSpec("a"), ToolSpec("a")], "two tools are called a"),
    ],
)
async def test_what_cannot_be_asked_is_a_configuration_error(prompt: Any, tools: Any, words: str) -> None:
    """
    Of the call, before anything is sent.
    """
    with pytest.raises(ConfigurationError, match=words):
        await ChatModel("m", base_url="http://127.0.0.1:9").call(prompt, tools=tools)


@pytest.mark.parametrize("given, source", [("sk-secret\n", "api_key"), (None, "OPENAI_API_KEY")])
async def test_a_key_with_a_line_end_is_named_not_shown(monkeypatch: pytest.MonkeyPatch, given: str | None, source: str) -> None:
    """
    By where it comes from.
    """
    monkeypatch.setenv("OPENAI_API_KEY", "sk-secret\r\n")
    with pytest.raises(ConfigurationError, match=rf"\({source}\) holds a line end") as caught:
        await ChatModel("openai/m", api_key=given).call("Hi")
    assert "sk-secret" not in str(caught.value)


async def test_quirks_change_the_request(serve: Serve) -> None:
    """
    On top of the preset's.
    """
    server = await serve(answer(*GOOD))
    await model_at(server, quirks={"max_tokens_field": "n_predict", "include_usage": False}).call("Hi", max_tokens=5)
    assert (server.seen[0].json["n_predict"], "stream_options" in server.seen[0].json) == (5, False)


async def test_a_pasted_address_with_a_query(serve: Serve) -> None:
    """
    Neither doubled nor torn.
    """
    server = await serve(answer(*GOOD))
    await ChatModel("m", base_url=f"{server.url}/chat/completions?api-version=1").call("Hi")
    assert server.seen[0].path == "/v1/chat/completions"


async def test_no_headers_at_all_is_a_first_event_timeout(serve: Serve) -> None:
    """
    D2, P15: that budget begins with the request, the idle one only behind the headers.
    """
    server = await serve(hold(headers=False))
    call = model_at(server, settings=HttpSettings(first_event_timeout=0.2, read_timeout=0.05, retry=None)).open("Hi")
    watcher = await Watcher().watch(call.events).end()
    assert (type(watcher.error), str(watcher.error), call.verdict) == (
        FirstEventTimeout,
        "no content within 0.2 s",
        Verdict.FIRST_EVENT_TIMEOUT,
    )


async def test_an_address_with_a_password_is_never_shown(serve: Serve) -> None:
    """
    S: not in the model's repr, nor where a provider echoes what it was sent.
    """
    body = b'{"error":{"message":"no dXNlcjpzay1QQVNTV09SRA== and sk-QUERY"}}'
    server = await serve(answer(body, status=401, content_type="application/json"))
    model = ChatModel("m", base_url=server.url.replace("http://", "http://user:sk-PASSWORD@") + "?key=sk-QUERY")
    watcher = await Watcher().watch(model.stream("Hi")).end()
    assert str(watcher.error) == "no [key] and [key]"
    shown = f"{watcher.items!r} {watcher.error!r} {vars(watcher.error)!r} {model!r} {vars(model)!r}"
    assert ("PASSWORD" in shown, "QUERY" in shown, "dXNl" in shown) == (False, False, False)


async def test_a_dialect_without_a_builder_says_so() -> None:
    """
    It can be read, but not asked.
    """
    model = ChatModel("command", base_url="http://127.0.0.1:9", dialect="cohere-v1")
    watcher = await Watcher().watch(model.stream("Hi")).end()
    assert "the dialect cohere-v1 can be read but not asked" in str(watcher.error)


async def test_tools_are_sent_and_their_calls_come_back(serve: Serve) -> None:
    """
    Schemas go out, a complete call comes in.
    """
    called = frame(
        delta={"tool_calls": [{"index": 0, "id": "call_1", "type": "function", "function": {"name": "weather", "arguments": '{"city":"Rome"}'}}]}
    )
    server = await serve(answer(called, frame(finish_reason="tool_calls"), DONE))
    response = await model_at(server).call("Weather?", tools=[ToolSpec("weather")])
    assert [(call.id, call.name, call.arguments, call.complete) for call in response.tool_calls] == [("call_1", "weather", {"city": "Rome"}, True)]
    assert [tool["function"]["name"] for tool in server.seen[0].json["tools"]] == ["weather"]


# --- the answer -----------------------------------------------------------------------------------------------------------------------------------


async def test_the_stream_the_call_and_the_answer_agree(serve: Serve) -> None:
    """
    Three ways to ask, one answer (D1).
    """
    server = await serve(answer(*GOOD))
    model = model_at(server)
    watcher = await Watcher().watch(model.stream("Hi")).end()
    call = model.open("Hi")
    watched = await Watcher().watch(call.events).end()
    response = await model.call("Hi")
    assert violations(watcher.items) == violations(watched.items) == []
    assert (text_of(watcher.items), call.response.text, response.text) == ("Hello, world.",) * 3
    assert (call.verdict, response.verdict, response.committable, len(server.seen)) == (Verdict.COMPLETE, Verdict.COMPLETE, True, 3)


async def test_a_model_shares_its_connections_inside_async_with(serve: Serve) -> None:
    """
    One connection inside, one for each request outside; nothing open behind it.
    """
    server = await serve(answer(*GOOD))
    async with model_at(server) as model:
        await model.call("one")
        await model.call("two")
    await model.call("three")
    one, two, three = (seen.peer for seen in server.seen)
    assert one == two != three


async def test_the_last_one_inside_closes_the_connections(serve: Serve) -> None:
    """
    Who enters a shared model a second time shares with the first, and takes nothing away.
    """
    server = await serve(answer(*GOOD))
    async with model_at(server) as model:
        async with model:
            await model.call("one")
        await model.call("two")
    await model.call("three")
    one, two, three = (seen.peer for seen in server.seen)
    assert one == two != three


async def test_shared_connections_are_those_of_one_loop(serve: Serve) -> None:
    """
    A thread with a loop of its own asks by connections of its own, inside `async with` as well.
    """
    server = await serve(answer(*GOOD))

    async def elsewhere() -> None:
        async with model:
            await model.call("there")

    async with model_at(server) as model:
        await model.call("here")
        assert (await asyncio.to_thread(model.call_sync, "there")).text == "Hello, world."
        await asyncio.to_thread(asyncio.run, elsewhere())
        await model.call("here")
    here, *there, again = (seen.peer for seen in server.seen)
    assert (here == again, len({here, *there})) == (True, 3)


async def test_the_callers_session_is_used_and_left_open(serve: Serve) -> None:
    """
    Whoever made it closes it.
    """
    import aiohttp

    server = await serve(answer(*GOOD))
    async with aiohttp.ClientSession() as session:
        async with model_at(server, session=session) as model:
            await model.call("one")
        await model.call("two")
        assert session.closed is False
    assert server.seen[0].peer == server.seen[1].peer


def test_the_answer_comes_without_a_loop_too() -> None:
    """
    `call_sync` runs a loop of its own.
    """
    with loopback_thread(answer(*GOOD)) as server:
        assert model_at(server).call_sync("Hi").text == "Hello, world."


def test_a_stream_without_a_loop_fails_at_once() -> None:
    """
    D8: no event, no thread, a clear word.
    """
    watcher = Watcher().watch(ChatModel("m", base_url="http://127.0.0.1:1").stream("Hi"))
    assert (watcher.items, type(watcher.error)) == ([], ConfigurationError)
    assert "asyncio.run" in str(watcher.error)


def test_without_a_loop_and_a_listener_the_caller_hears_it() -> None:
    """
    D8: RxPY hands it to whoever subscribes.
    """
    with pytest.raises(ConfigurationError, match=r"asyncio\.run"):
        ChatModel("m", base_url="http://127.0.0.1:1").stream("Hi").subscribe()


async def test_an_incomplete_finish_is_an_answer(serve: Serve) -> None:
    """
    V6: shown and reported, not committable.
    """
    server = await serve(answer(delta("Hel"), frame(finish_reason="length"), DONE))
    response = await model_at(server).call("Hi")
    assert (response.verdict, response.text, response.committable) == (Verdict.INCOMPLETE_FINISH, "Hel", False)


async def test_a_failure_is_raised_with_the_partial_answer(serve: Serve) -> None:
    """
    V2.
    """
    server = await serve(answer(delta("Hel")))
    with pytest.raises(IncompleteStreamError) as caught:
        await model_at(server).call("Hi")
    assert caught.value.response is not None
    assert (caught.value.response.text, caught.value.response.verdict) == ("Hel", Verdict.INCOMPLETE_STREAM)


async def test_a_cancelled_answer_ends_its_request(serve: Serve) -> None:
    """
    Cancelling the caller disposes of the request.
    """
    server = await serve(hold(delta("Hel")))
    asking = asyncio.create_task(model_at(server).call("Hi"))
    await asyncio.wait_for(server.arrived.wait(), 5)
    asking.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asking
    await asyncio.wait_for(server.left.wait(), 5)


@pytest.mark.parametrize(
    "script, kind, verdict",
    [
        (
            answer(b'{"error":{"message":"no such key","code":"invalid_api_key"}}', status=401, content_type="application/json"),
            HTTPStatusError,
            "HTTP_STATUS",
        ),
        (answer(b"<html><title>Sign in</title></html>", content_type="text/html"), ContentTypeError, "CONTENT_TYPE"),
        (answer(status=302, headers={"location": "http://127.0.0.1:1/"}), HTTPStatusError, "HTTP_STATUS"),
        (raw(b"", reset=True), ConnectionLostError, "CONNECTION_LOST"),
    ],
    ids=["401", "html", "redirect", "reset"],
)
async def test_a_failure_before_the_first_step(serve: Serve, script: Script, kind: type[RxchatError], verdict: str) -> None:
    """
    E7: ResponseStart, ErrorEvent, on_error with the same failure.
    """
    server = await serve(script)
    call = model_at(server).open("Hi")
    watcher = await Watcher().watch(call.events).end()
    assert [type(event) for event in watcher.items] == [ResponseStart, ErrorEvent]
    assert (type(watcher.error), watcher.items[1].error is watcher.error, call.verdict) == (kind, True, Verdict(verdict))


async def test_nobody_there(serve: Serve) -> None:
    """
    E7, for the connection itself.
    """
    server = await serve(answer())
    await server.aclose()
    watcher = await Watcher().watch(model_at(server).stream("Hi")).end()
    assert ([type(event) for event in watcher.items], type(watcher.error)) == ([ResponseStart, ErrorEvent], ConnectError)


async def test_a_failure_behind_text(serve: Serve) -> None:
    """
    E6: closing ENDs, StepEnd, ErrorEvent, on_error; what came before is kept.
    """
    server = await serve(raw(b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ncontent-length: 9999\r\n\r\n" + delta("Hel")))
    watcher = await Watcher().watch(model_at(server).stream("Hi")).end()
    assert violations(watcher.items) == []
    assert (text_of(watcher.items), watcher.items[-1].response.text, type(watcher.error)) == ("Hel", "Hel", ConnectionLostError)


async def test_a_close_delimited_body_needs_its_sentinel(serve: Serve) -> None:
    """
    V5: the end of such a body proves nothing, `[DONE]` does.
    """
    head = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\n"
    server = await serve(
        in_turn([raw(head + delta("Hi") + FINISH), raw(head + delta("Hi") + FINISH + DONE), raw(head + delta("Hi") + FINISH, reset=True)])
    )
    model = model_at(server)
    with pytest.raises(IncompleteStreamError):
        await model.call("Hi")
    assert (await model.call("Hi")).verdict is Verdict.COMPLETE
    with pytest.raises((IncompleteStreamError, ConnectionLostError)):
        await model.call("Hi")


@pytest.mark.parametrize("status, content_type", [(503, "text/event-stream"), (200, "application/json")])
async def test_strict_text_never_reads_a_refused_body(serve: Serve, status: int, content_type: str) -> None:
    """
    V8, P7: the verdict is there while the server still holds the body back.
    """
    server = await serve(hold(status=status, content_type=content_type))
    watcher = await Watcher().watch(model_at(server, profile="strict_text").stream("Hi")).end()
    await asyncio.wait_for(server.left.wait(), 5)
    assert (watcher.error.verdict, watcher.error.body) == (Verdict.HTTP_STATUS if status == 503 else Verdict.CONTENT_TYPE, b"")  # type: ignore[union-attr]


async def test_silence_is_a_read_timeout(serve: Serve) -> None:
    """
    D2, the idle budget.
    """
    server = await serve(hold(delta("Hel")))
    call = model_at(server, settings=HttpSettings(read_timeout=0.05, retry=None)).open("Hi")
    watcher = await Watcher().watch(call.events).end()
    assert (type(watcher.error), call.verdict, call.response.text) == (ReadTimeout, Verdict.READ_TIMEOUT, "Hel")


@pytest.mark.parametrize("where", ["status", "frame"])
async def test_an_echoed_key_is_masked(serve: Serve, where: str) -> None:
    """
    S: not in the event, not in the error, not in its repr.
    """
    body = b'{"error":{"message":"sk-secret is wrong","code":"sk-secret","param":"sk-secret"}}'
    script = answer(body, status=401, content_type="application/json") if where == "status" else answer(b"data: " + body + b"\n\n")
    server = await serve(script)
    model = model_at(server, api_key="sk-secret")
    watcher = await Watcher().watch(model.stream("Hi")).end()
    error = watcher.error
    assert isinstance(error, HTTPStatusError if where == "status" else ProviderError)
    assert (error.message, error.code) == ("[key] is wrong", "[key]")
    assert "sk-secret" not in f"{watcher.items!r} {error!r} {vars(error)!r} {model!r} {vars(model)!r}"


# --- filters --------------------------------------------------------------------------------------------------------------------------------------


async def test_a_filter_hides_events_and_changes_nothing(serve: Serve) -> None:
    """
    F: the frame always comes, the answer stays whole.
    """
    odd = b'data: {"odd":1}\n\n'
    server = await serve(answer(odd, *GOOD))
    model = model_at(server)
    seen = [
        await Watcher().watch(model.stream("Hi")).end(),
        await Watcher().watch(model.stream("Hi", event_filter=all_events())).end(),
        await Watcher().watch(model.stream("Hi", event_filter=by_type(UsageUpdate))).end(),
    ]
    assert [any(isinstance(event, Raw) for event in watcher.items) for watcher in seen] == [False, True, False]
    assert [event.type for event in seen[2].items] == ["RESPONSE_START", "STEP_START", "STEP_END", "RESPONSE_END"]
    assert {watcher.items[-1].response.text for watcher in seen} == {"Hello, world."}


# --- the call -------------------------------------------------------------------------------------------------------------------------------------


async def test_what_is_known_of_a_call(serve: Serve) -> None:
    """
    Nothing before, the partial answer while it runs, the whole one behind; usage with it.
    """
    usage = b'data: {"choices":[],"usage":{"prompt_tokens":3,"completion_tokens":2,"total_tokens":5}}\n\n'
    server = await serve(answer(delta("Hello"), delta("."), FINISH, usage, DONE))
    call = model_at(server).open("Hi")
    known: list[tuple[Verdict | None, str]] = []
    assert (call.verdict, call.response.text, call.usage) == (None, "", None)
    await Watcher(on_next=lambda event: known.append((call.verdict, call.response.text))).watch(call.events).end()
    assert known[:1] + known[-1:] == [(None, ""), (Verdict.COMPLETE, "Hello.")]
    assert (None, "Hello") in known
    assert call.usage is not None
    assert (call.usage.input_tokens, call.usage.output_tokens, call.response.verdict) == (3, 2, Verdict.COMPLETE)


async def test_a_call_is_one_request(serve: Serve) -> None:
    """
    A second subscription is refused, the first is not disturbed.
    """
    server = await serve(answer(*GOOD))
    call = model_at(server).open("Hi")
    first, second = Watcher().watch(call.events), Watcher().watch(call.events)
    await first.end()
    assert (type(second.error), second.items, call.verdict, len(server.seen)) == (ConfigurationError, [], Verdict.COMPLETE, 1)
    assert "share_events" in str(second.error)


RICH = (
    frame(delta={"reasoning_content": "Let me see."}),
    delta("Hello"),
    frame(delta={"tool_calls": [{"index": 0, "id": "a", "function": {"name": "one", "arguments": "{}"}}]}),
    frame(delta={"tool_calls": [{"index": 1, "id": "b", "function": {"name": "two", "arguments": "{}"}}]}),
    frame(index=1, delta={"content": "Other"}),
    frame(finish_reason="tool_calls"),
    frame(index=1, finish_reason="stop"),
    DONE,
)


async def rich_length() -> int:
    """
    How many events the rich answer has.
    """
    async with loopback(answer(*RICH)) as server:
        return len((await Watcher().watch(model_at(server).stream("Hi")).end()).items)


async def test_aborted_at_every_event_it_stays_balanced(serve: Serve) -> None:
    """
    D7, E1, E2: closing ENDs, StepEnd, Abort, on_completed, wherever it is said; only one terminal, and the request is ended.
    """
    server = await serve(answer(b"".join(RICH)))
    model, length = model_at(server), await rich_length()
    for at in range(1, length + 1):
        call = model.open("Hi")

        watcher = Watcher()
        watcher.on_next = lambda event, watcher=watcher, call=call, at=at: call.abort("enough") if len(watcher.items) == at else None
        await watcher.watch(call.events).end()
        assert (at, violations(watcher.items), watcher.completed, watcher.error) == (at, [], 1, None)
        last = watcher.items[-1]
        expected = Verdict.ABORTED if isinstance(last, Abort) else Verdict.COMPLETE
        assert (call.verdict, last.response.verdict) == (expected, expected)
    assert expected is Verdict.COMPLETE


async def test_aborted_between_two_reads(serve: Serve) -> None:
    """
    D7: while the provider is silent. The server sees the client leave.
    """
    server = await serve(hold(delta("Hel")))
    call = model_at(server).open("Hi")
    text_came = asyncio.Event()
    watcher = Watcher(on_next=lambda event: text_came.set() if isinstance(event, TextDelta) else None).watch(call.events)
    await asyncio.wait_for(text_came.wait(), 5)
    call.abort("enough")
    call.abort("again")
    await asyncio.wait_for(server.left.wait(), 5)
    last = watcher.items[-1]
    assert (violations(watcher.items), last.reason, last.response.text, call.verdict) == ([], "enough", "Hel", Verdict.ABORTED)
    assert watcher.completed == 1


async def test_aborted_before_it_began_nothing_is_sent(serve: Serve) -> None:
    """
    ResponseStart, Abort, on_completed, and no request.
    """
    server = await serve(answer(*GOOD))
    call = model_at(server).open("Hi")
    call.abort("never mind")
    watcher = await Watcher().watch(call.events).end()
    assert ([event.type for event in watcher.items], watcher.completed, server.seen) == (["RESPONSE_START", "ABORT"], 1, [])


async def test_an_abort_behind_the_end_is_nothing(serve: Serve) -> None:
    """
    V4: the verdict is set once.
    """
    server = await serve(answer(*GOOD))
    call = model_at(server).open("Hi")
    watcher = await Watcher().watch(call.events).end()
    call.abort("too late")
    call.dispose()
    assert (call.verdict, watcher.completed, len([event for event in watcher.items if event.terminal])) == (Verdict.COMPLETE, 1, 1)


async def test_disposed_at_every_event_it_says_nothing_more(serve: Serve) -> None:
    """
    E8: not one more event, no terminal; CANCELLED, unless the terminal had come.
    """
    server = await serve(answer(b"".join(RICH)))
    model, length = model_at(server), await rich_length()
    for at in range(1, length + 1):
        call = model.open("Hi")
        watcher = Watcher()
        watcher.on_next = lambda event, watcher=watcher, call=call, at=at: call.dispose() if len(watcher.items) == at else None
        watcher.watch(call.events)
        assert await settled() == []
        assert (len(watcher.items), watcher.over.is_set()) == (at, False)
        assert call.verdict is (Verdict.COMPLETE if at == length else Verdict.CANCELLED)


async def test_a_disposed_call_keeps_what_it_knew(serve: Serve) -> None:
    """
    U: the last known usage and the partial answer survive disposal, marked.
    """
    usage = b'data: {"choices":[],"usage":{"prompt_tokens":3,"completion_tokens":1,"total_tokens":4}}\n\n'
    server = await serve(hold(delta("Hel"), usage))
    call = model_at(server).open("Hi")
    known = asyncio.Event()
    Watcher(on_next=lambda event: known.set() if isinstance(event, UsageUpdate) else None).watch(call.events)
    await asyncio.wait_for(known.wait(), 5)
    call.dispose()
    await asyncio.wait_for(server.left.wait(), 5)
    assert (call.verdict, call.response.text, call.response.verdict) == (Verdict.CANCELLED, "Hel", Verdict.CANCELLED)
    assert call.usage is not None
    assert call.usage.input_tokens == 3


async def test_a_call_disposed_of_before_it_began_cannot_begin(serve: Serve) -> None:
    """
    No request, a bare error.
    """
    server = await serve(answer(*GOOD))
    call = model_at(server).open("Hi")
    call.dispose()
    watcher = await Watcher().watch(call.events).end()
    assert (type(watcher.error), watcher.items, server.seen) == (CancelledStreamError, [], [])


@pytest.mark.parametrize("script", [hold(headers=False), hold(), hold(delta("Hel"))], ids=["before-headers", "before-body", "in-body"])
async def test_disposed_at_every_stage_the_connection_is_closed(serve: Serve, script: Script) -> None:
    """
    D4: also before the headers.
    """
    server = await serve(script)
    call = model_at(server).open("Hi")
    watcher = Watcher().watch(call.events)
    await asyncio.wait_for(server.arrived.wait(), 5)
    watcher.dispose()
    await asyncio.wait_for(server.left.wait(), 5)
    assert (call.verdict, watcher.over.is_set()) == (Verdict.CANCELLED, False)


async def test_a_subscriber_that_raises_gets_its_own_exception(serve: Serve) -> None:
    """
    E14: unwrapped, without an ErrorEvent; the request is closed.
    """

    def fail(event: ChatEvent) -> None:
        if isinstance(event, TextDelta):
            raise KeyError("mine")

    server = await serve(hold(delta("Hel")))
    call = model_at(server).open("Hi")
    watcher = await Watcher(on_next=fail).watch(call.events).end()
    await asyncio.wait_for(server.left.wait(), 5)
    assert (repr(watcher.error), watcher.items[-1].type, call.verdict) == ("KeyError('mine')", "TEXT_DELTA", Verdict.CANCELLED)


async def test_stock_retry_asks_again(serve: Serve) -> None:
    """
    E12: each subscription is a response of its own, with an id of its own.
    """
    server = await serve(in_turn([answer(status=503), answer(*GOOD)]))
    watcher = await Watcher().watch(model_at(server).stream("Hi").pipe(ops.retry(2))).end()
    ids = [event.response_id for event in watcher.items if isinstance(event, ResponseStart)]
    assert (len(server.seen), len(set(ids)), watcher.items[-1].type, watcher.error) == (2, 2, "RESPONSE_END", None)


async def test_parallel_streams_do_not_share_state(serve: Serve) -> None:
    """
    Twenty at once over one model.
    """
    server = await serve(answer(*GOOD))
    async with model_at(server) as model:
        answers = await asyncio.gather(*(model.call(f"{k}") for k in range(20)))
    assert {response.text for response in answers} == {"Hello, world."}
    assert len({response.response_id for response in answers}) == 20


async def test_a_failed_stream_leaves_no_noise(serve: Serve, caplog: pytest.LogCaptureFixture) -> None:
    """
    D4, D8: one line where nobody listens, nothing where somebody does, no warnings of unclosed things.
    """
    server = await serve(answer(status=401))
    with caplog.at_level(logging.INFO):
        await Watcher().watch(model_at(server).stream("Hi")).end()
        heard = [record for record in caplog.records if record.name != "aiohttp.access"]
        model_at(server).stream("Hi").subscribe()
        while len(server.seen) < 2 or await settled():
            await asyncio.sleep(0.01)
        gc.collect()
    unheard = [record.name for record in caplog.records if record.name != "aiohttp.access"]
    assert (heard, unheard) == ([], ["rxchat"])
