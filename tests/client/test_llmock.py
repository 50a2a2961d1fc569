"""
The client against a mock server of many providers that breaks on demand and judges how its clients behave (llmock): every behaviour it has, every provider
whose dialect we speak; our verdicts must be right, and the judge must find nothing.
"""

from __future__ import annotations

import asyncio
import importlib.util
import json
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from typing import Any

import attrs
import pytest

from rxchat import RESET, ChatResponse, Custom, FinishReason, TextDelta, ToolSpec, Verdict, aggregate, recover
from rxchat.client import ChatModel, HttpSettings, Retry
from rxchat.errors import RxchatError
from tests.client.watching import settled

pytestmark = pytest.mark.skipif(importlib.util.find_spec("llmock") is None, reason="llmock is not installed")

TEXT = "The quick brown fox jumps over the lazy dog, twice."
TOOL = ToolSpec("get_weather", "The weather.", {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]})
SETTINGS = HttpSettings(retry=Retry(first_wait=0.1), read_timeout=5.0)
# As long as the slowest of a gather may take, on a busy machine.
GUARD = 30.0


@attrs.frozen
class At:
    """
    How a provider is asked there: our model, its base URL, and what tells its requests from the others'.
    """

    model: str
    base: str
    match: Mapping[str, Any]


PROVIDERS: Mapping[str, At] = {
    "openai": At("openai/gpt-4o", "/v1", {"path": "/v1/chat/completions"}),
    "openai-responses": At("openai-responses/gpt-4o", "/v1", {"path": "/v1/responses"}),
    "anthropic": At("anthropic/claude-sonnet-4-5", "/anthropic", {"provider": "anthropic"}),
    "gemini": At("gemini/gemini-2.5-flash", "/gemini/v1beta", {"provider": "gemini"}),
    "cohere": At("cohere/command-a-03-2025", "/cohere", {"provider": "cohere"}),
    "mistral": At("mistral/mistral-large-latest", "/mistral/v1", {"provider": "mistral"}),
    "groq": At("groq/llama-3.3-70b-versatile", "/groq/openai/v1", {"provider": "groq"}),
    "together": At("together/meta-llama/Llama-3.3-70B-Instruct-Turbo", "/together/v1", {"provider": "together"}),
    "perplexity": At("perplexity/sonar", "/perplexity/v1", {"provider": "perplexity"}),
    "ai21": At("ai21/jamba-large", "/ai21/v1", {"provider": "ai21"}),
    "xai": At("xai/grok-4", "/xai/v1", {"provider": "xai"}),
}


# --- the server -----------------------------------------------------------------------------------------------------------------------------------


@attrs.frozen
class Mock:
    """
    The server, and its admin interface.
    """

    url: str

    def ask(self, method: str, path: str, body: Any = None) -> Any:
        data = None if body is None else json.dumps(body).encode()
        with urllib.request.urlopen(urllib.request.Request(self.url + path, data, method=method), timeout=10) as response:
            return json.load(response)

    def script(self, name: str, *behaviors: Mapping[str, Any]) -> None:
        """
        What that provider does next.
        """
        match = dict(PROVIDERS[name].match)
        self.ask("POST", "/_llmock/scenario", {"behaviors": [{**behavior, "match": match} for behavior in behaviors]})

    def attempts(self) -> dict[str, int]:
        """
        How many requests each provider had.
        """
        requests = self.ask("GET", "/_llmock/requests")["requests"]
        return {name: sum(_is_of(at, request) for request in requests) for name, at in PROVIDERS.items()}

    def model(self, name: str, settings: HttpSettings = SETTINGS) -> ChatModel:
        at = PROVIDERS[name]
        return ChatModel(at.model, base_url=self.url + at.base, api_key="sk-test", settings=settings)


def _is_of(at: At, request: Mapping[str, Any]) -> bool:
    return all(request[name] == value for name, value in at.match.items())


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    """
    The mock in a process of its own; its pieces come slowly enough that it sees its clients leave.
    """
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    program = "from llmock.cli import app; app()"
    command = [sys.executable, "-W", "ignore", "-c", program, "serve", "--port", str(port), "--log-level", "error", "--stream-chunk-delay-ms", "10"]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        yield _started(process, f"http://127.0.0.1:{port}")
    finally:
        process.terminate()
        process.wait(10)


def _started(process: subprocess.Popen[bytes], url: str) -> str:
    for _ in range(300):
        assert process.poll() is None, "the mock server ended at its start"
        try:
            with urllib.request.urlopen(f"{url}/health", timeout=5):
                return url
        except OSError:
            time.sleep(0.1)
    raise AssertionError("the mock server did not start")


@pytest.fixture
async def mock(server: str) -> AsyncIterator[Mock]:
    """
    The server with nothing planned; behind the test its judge must have found nothing, and no task of the client may be left.
    """
    there = Mock(server)
    there.ask("POST", "/_llmock/reset")
    yield there
    assert await settled() == []
    verdict = await asyncio.to_thread(there.ask, "GET", "/_llmock/verdict")
    assert verdict["findings"] == []
    assert verdict["calls"] > 0


# --- asking all of them at once -------------------------------------------------------------------------------------------------------------------


async def of_all(work: Callable[[str], Awaitable[Any]]) -> dict[str, Any]:
    """
    What the work gives for each provider, all at the same time.
    """
    async with asyncio.timeout(GUARD):
        results = await asyncio.gather(*(work(name) for name in PROVIDERS))
    return dict(zip(PROVIDERS, results, strict=True))


def everywhere(value: Any) -> dict[str, Any]:
    return dict.fromkeys(PROVIDERS, value)


async def outcome(answer: Awaitable[ChatResponse]) -> tuple[Verdict | None, int | None, str]:
    """
    The verdict, the status of a refusal, the text.
    """
    try:
        got = await answer
    except RxchatError as error:
        return error.verdict, error.status, error.response.text if error.response else ""
    return got.verdict, None, got.text


REPLY = {"type": "reply", "text": TEXT}
GOOD = (Verdict.COMPLETE, None, TEXT)


async def test_a_scripted_reply(mock: Mock) -> None:
    """
    The same text from all of them, as an answer that may become history.
    """

    async def ask(name: str) -> Any:
        mock.script(name, REPLY)
        answer = await mock.model(name).call("Say it.")
        return answer.text, answer.finish_reason, answer.verdict, answer.committable

    assert await of_all(ask) == everywhere((TEXT, FinishReason.STOP, Verdict.COMPLETE, True))


@pytest.mark.parametrize("status", [400, 401, 403, 404, 422])
async def test_refusals_that_no_retry_can_mend(mock: Mock, status: int) -> None:
    """
    One attempt, with the provider's own words.
    """

    async def ask(name: str) -> Any:
        mock.script(name, {"type": "fail", "status": status, "message": "because of the mock"})
        try:
            await mock.model(name).call("Hi")
        except RxchatError as error:
            return error.verdict, error.status, "because of the mock" in str(error)
        return None

    assert await of_all(ask) == everywhere((Verdict.HTTP_STATUS, status, True))
    assert mock.attempts() == everywhere(1)


@pytest.mark.parametrize("status", [408, 409, 429, 500, 502, 503, 504, 529])
async def test_refusals_that_pass(mock: Mock, status: int) -> None:
    """
    Asked again, and answered.
    """

    async def ask(name: str) -> Any:
        mock.script(name, {"type": "fail", "status": status, "retry_after": 0.1}, REPLY)
        return await outcome(mock.model(name).call("Hi"))

    assert await of_all(ask) == everywhere(GOOD)
    assert mock.attempts() == everywhere(2)


async def test_a_rate_limit_is_waited_for(mock: Mock) -> None:
    """
    Twice as long as the server asks for (the judge measures it).
    """

    async def ask(name: str) -> Any:
        mock.script(name, {"type": "fail", "status": 429, "retry_after": 0.6, "times": 2}, REPLY)
        return await outcome(mock.model(name).call("Hi"))

    began = time.monotonic()
    assert await of_all(ask) == everywhere(GOOD)
    assert time.monotonic() - began >= 1.2
    assert mock.attempts() == everywhere(3)


@pytest.mark.parametrize("status", [500, 503])
async def test_an_outage(mock: Mock, status: int) -> None:
    """
    Three attempts, each wait longer than the one before or as long as was asked for; then the failure.
    """

    async def ask(name: str) -> Any:
        mock.script(name, {"type": "fail", "status": status, "times": None})
        return await outcome(mock.model(name).call("Hi"))

    assert await of_all(ask) == everywhere((Verdict.HTTP_STATUS, status, ""))
    assert mock.attempts() == everywhere(3)


@pytest.mark.parametrize("seconds", [0.0, 0.3])
@pytest.mark.parametrize("kind", ["delay", "slow_first_token"])
async def test_slowness_is_no_failure(mock: Mock, kind: str, seconds: float) -> None:
    """
    Within the budgets.
    """

    async def ask(name: str) -> Any:
        mock.script(name, {"type": kind, "seconds": seconds}, REPLY)
        return await outcome(mock.model(name).call("Hi"))

    assert await of_all(ask) == everywhere(GOOD)
    assert mock.attempts() == everywhere(1)


@pytest.mark.parametrize("kind", ["delay", "slow_first_token"])
async def test_too_slow(mock: Mock, kind: str) -> None:
    """
    Over the budget of the first event: asked again before anything was shown, and answered.
    """
    settings = attrs.evolve(SETTINGS, first_event_timeout=1.5)

    async def ask(name: str) -> Any:
        mock.script(name, {"type": kind, "seconds": 3}, REPLY)
        return await outcome(mock.model(name, settings).call("Hi"))

    async def scripted_twice(name: str) -> Any:
        # The reply is used up by the attempt that was given up.
        mock.script(name, REPLY)
        return await ask(name)

    assert await of_all(scripted_twice) == everywhere(GOOD)
    assert mock.attempts() == everywhere(2)


BROKEN = {
    "disconnect": Verdict.CONNECTION_LOST,
    "truncate": Verdict.INCOMPLETE_STREAM,
    "malformed": Verdict.INVALID_JSON,
    "stall": Verdict.READ_TIMEOUT,
}


@pytest.mark.parametrize(("kind", "verdict"), BROKEN.items())
async def test_a_broken_stream_is_recovered_where_asked_for(mock: Mock, kind: str, verdict: Verdict) -> None:
    """
    The reset says what was shown and why it no longer counts; the answer is the second one, whole.
    """
    settings = attrs.evolve(SETTINGS, read_timeout=1.5)

    async def ask(name: str) -> Any:
        mock.script(name, {"type": "stream_fault", "kind": kind, "after_chunks": 6, "stall_seconds": 20}, REPLY, REPLY)
        resets: list[dict[str, Any]] = []
        shown: list[str] = []

        def note(event: Any) -> None:
            if isinstance(event, TextDelta) and not resets:
                shown.append(event.text)
            elif isinstance(event, Custom) and event.name == RESET:
                resets.append(event.data)

        stream = mock.model(name, settings).stream("Hi").do_action(note).pipe(recover(when="provider", wait=0.1)).do_action(note)
        got = await outcome(_awaited(stream.pipe(aggregate())))
        (reset,) = resets
        text = reset["text"]
        return got, reset["verdict"], reset["shown"], 0 < len(text) < len(TEXT) and TEXT.startswith(text)

    assert await of_all(ask) == everywhere((GOOD, str(verdict), True, True))
    assert mock.attempts() == everywhere(2)


async def _awaited(stream: Any) -> ChatResponse:
    answer: ChatResponse = await stream
    return answer


@pytest.mark.parametrize("kind", ["disconnect", "stall"])
async def test_a_stream_that_breaks_before_its_first_event_is_asked_again(mock: Mock, kind: str) -> None:
    """
    By itself: nothing was shown (contract D5).
    """
    settings = attrs.evolve(SETTINGS, read_timeout=1.5)

    async def ask(name: str) -> Any:
        mock.script(name, {"type": "stream_fault", "kind": kind, "after_chunks": 0, "stall_seconds": 20}, REPLY, REPLY)
        return await outcome(mock.model(name, settings).call("Hi"))

    assert await of_all(ask) == everywhere(GOOD)
    assert mock.attempts() == everywhere(2)


async def test_a_tool_call(mock: Mock) -> None:
    """
    Whole, with its arguments.
    """

    async def ask(name: str) -> Any:
        mock.script(name, {"type": "reply", "tool_calls": [{"name": "get_weather", "arguments": {"city": "Rome", "days": [1, 2]}}]})
        answer = await mock.model(name).call("Weather?", tools=[TOOL])
        return answer.verdict, answer.finish_reason, [(call.name, call.arguments, call.complete) for call in answer.tool_calls]

    expected = (Verdict.COMPLETE, FinishReason.TOOL_CALLS, [("get_weather", {"city": "Rome", "days": [1, 2]}, True)])
    assert await of_all(ask) == everywhere(expected)


async def test_arguments_that_are_no_json(mock: Mock) -> None:
    """
    Never an object: shown, not to be run (contract T2, N7).
    """

    async def ask(name: str) -> Any:
        mock.script(name, {"type": "tool_fault", "kind": "malformed_arguments"})
        try:
            answer = await mock.model(name).call("What is the weather in Rome?", tools=[TOOL])
        except RxchatError as error:
            return [call.arguments for call in error.response.tool_calls] if error.response else []
        return [call.arguments for call in answer.tool_calls]

    # Gemini's wire has objects: there the mock has no way to say broken ones, and sends an empty one.
    assert await of_all(ask) == {**everywhere([None]), "gemini": [{}]}


async def test_a_tool_that_was_never_offered(mock: Mock) -> None:
    """
    Reported as the model said it.
    """

    async def ask(name: str) -> Any:
        mock.script(name, {"type": "tool_fault", "kind": "unknown_tool"})
        answer = await mock.model(name).call("What is the weather in Rome?", tools=[TOOL])
        return len(answer.tool_calls), answer.tool_calls[0].name == "get_weather", answer.verdict

    assert await of_all(ask) == everywhere((1, False, Verdict.COMPLETE))


async def test_a_tool_call_that_breaks(mock: Mock) -> None:
    """
    A call whose stream was cut is not complete and has no arguments; recovered, it is whole.
    """
    call = {"type": "reply", "tool_calls": [{"name": "get_weather", "arguments": {"city": "Rome", "note": "x" * 200}}]}

    async def ask(name: str) -> Any:
        mock.script(name, {"type": "stream_fault", "kind": "disconnect", "after_chunks": 3}, call, call)
        broken: list[ChatResponse] = []

        def note(error: Exception) -> None:
            if isinstance(error, RxchatError) and error.response is not None:
                broken.append(error.response)

        stream = mock.model(name).stream("Weather?", tools=[TOOL]).do_action(on_error=note)
        answer = await _awaited(stream.pipe(recover(wait=0.1), aggregate()))
        cut = [call.arguments for response in broken for call in response.tool_calls if not call.complete]
        return len(broken), [value for value in cut if value is not None], len(answer.tool_calls), answer.verdict

    # Gemini sends a call whole, in one event: there is nothing to break.
    assert await of_all(ask) == {**everywhere((1, [], 1, Verdict.COMPLETE)), "gemini": (0, [], 1, Verdict.COMPLETE)}
