"""
OpenAI's two wires: read back by our models and by openai.
"""

from __future__ import annotations

from typing import Any

import attrs
import openai
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rxchat.errors import ConfigurationError
from rxchat.response import (
    ChatResponse,
    CitationPart,
    ContentFilterPart,
    FinishReason,
    MediaPart,
    Part,
    ProviderItemPart,
    RedactedThinkingPart,
    RefusalPart,
    SearchResultPart,
    ServerToolPart,
    TextPart,
    ThinkingPart,
    ToolCall,
    Usage,
)
from rxchat.testing import FakeAnswer, FakeProvider, Fault, replay
from rxchat.testing.provider import Entry
from rxchat.testing.wires.openai_chat import OPENAI_CHAT
from rxchat.testing.wires.openai_responses import OPENAI_RESPONSES
from tests.testing.spoken import (
    ANY_TEXT,
    ANY_THINKING,
    CALLS,
    NOW,
    PLAIN,
    ROME,
    answers,
    assert_any_cut,
    assert_failures,
    assert_over_http,
    assert_read_back,
    body_of,
    read,
)

CHAT, RESPONSES = "openai-chat", "openai-responses"
COUNTED = Usage(input_tokens=20, output_tokens=9, cache_read_tokens=4, cache_write_tokens=2, reasoning_tokens=3, total_tokens=29)
FILTERED = FakeAnswer("Half a", ContentFilterPart("hate", "high", blocked=True), finish=FinishReason.CONTENT_FILTER)
FREE = ToolCall(id="call_free", name="shell", arguments_text="ls -l | wc", kind="custom")
PNG = MediaPart("image", "image/png", "aW1n")
SITE = CitationPart(url="https://x.example", title="X", start=0, end=4)

CASES = {
    "plain": PLAIN,
    "calls": CALLS,
    "empty": FakeAnswer(),
    "uncounted": FakeAnswer("Hi.", usage=None),
    "all": FakeAnswer(ThinkingPart("hm, well", "c2ln"), "Text.", ROME, NOW, usage=COUNTED, piece=3),
    "input only": FakeAnswer("Text.", usage=Usage(input_tokens=3)),
    "length": FakeAnswer("Half a", finish=FinishReason.LENGTH),
    "refused": FakeAnswer(RefusalPart("I would rather not say that.")),
    "other": FakeAnswer("Half a", finish=FinishReason.OTHER),
    "sealed": FakeAnswer(RedactedThinkingPart("b3BhcXVl"), "Text."),
    "image": FakeAnswer("Look:", PNG),
}
CHAT_CASES = CASES | {
    "unsaid": FakeAnswer("Half a", finish=FinishReason.UNKNOWN),
    "signed call": FakeAnswer(attrs.evolve(ROME, metadata={"extra_content": {"google": {"thought_signature": "c2ln"}}})),
    "image by url": FakeAnswer("Look:", MediaPart("image", url="https://x.example/a.png")),
}
# What a body that is not streamed has in another order, or not at all.
CHAT_STREAMED = {
    "cited": FakeAnswer("Text and more.", SITE, CitationPart(file="a.pdf", quoted="q")),
    "filtered": FILTERED,
    "noted": FakeAnswer("Fine.", ContentFilterPart("violence", "low")),
    "spoken": FakeAnswer(MediaPart("audio", data="YXVkaW8=", transcript="Good evening, all.", item_id="audio_7")),
    "between": FakeAnswer("One", ThinkingPart("hm"), "Two", ROME, "Three"),
}
RESPONSES_CASES = CASES | {
    "cited": FakeAnswer("Text", SITE, CitationPart(file="file_1", title="a.pdf", start=3), " and more.", "Another."),
    "cited before": FakeAnswer(SITE, "Text"),
    "between": FakeAnswer("One", ThinkingPart("hm"), "Two", ROME, "Three"),
    "filtered": FILTERED,
    "noted": FakeAnswer("Fine.", ContentFilterPart("violence", "low")),
    "half refused": FakeAnswer("Well.", RefusalPart("No.")),
}


# --- our models -----------------------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", CHAT_CASES | CHAT_STREAMED)
async def test_chat_read_back(name: str) -> None:
    """
    Our model reads what was said, streamed and whole.
    """
    await assert_over_http(CHAT, (CHAT_CASES | CHAT_STREAMED)[name], whole=name in CHAT_CASES)


@pytest.mark.parametrize("dialect", [CHAT, RESPONSES])
@pytest.mark.parametrize("stream", [True, False])
async def test_calls_that_are_no_json(dialect: str, stream: bool) -> None:
    """
    Free-form calls have their text, cut ones what came, and may not be run.
    """
    cut = attrs.evolve(ROME, arguments_text='{"ci')
    async with FakeProvider([FakeAnswer("Text.", FREE), FakeAnswer(cut, finish=FinishReason.LENGTH)]) as provider, provider.model(dialect) as model:
        (call,) = (await model.call("Hi", stream=stream)).tool_calls
        assert (FREE.id, FREE.name, FREE.arguments_text, "custom", True) == (call.id, call.name, call.arguments_text, call.kind, call.complete)
        (call,) = (await model.call("Hi", stream=stream)).tool_calls
        assert (cut.arguments_text, None, False) == (call.arguments_text, call.arguments, call.complete)


@pytest.mark.parametrize("name", ["cited", "filtered", "noted"])
async def test_chat_whole(name: str) -> None:
    """
    Whole, sources and notes come first.
    """
    answer = CHAT_STREAMED[name]
    first = sorted(answer.parts, key=lambda part: not isinstance(part, CitationPart | ContentFilterPart))
    async with FakeProvider(answer) as provider:
        assert_read_back(answer, await provider.model(CHAT).call("Hi", stream=False), parts=first)


@pytest.mark.parametrize("name", RESPONSES_CASES)
async def test_responses_read_back(name: str) -> None:
    """
    Our model reads what was said, streamed and whole; an image comes as a partial one before.
    """
    answer = RESPONSES_CASES[name]
    async with FakeProvider(answer) as provider, provider.model(RESPONSES) as model:
        for stream in (True, False):
            assert_read_back(ordered(answer), own(await model.call("Hi", stream=stream)))


def own(response: ChatResponse) -> ChatResponse:
    """
    Without what the protocol has beside: reasoning items, the tool that made an image, ids of items; sources are last.
    """
    parts = [part for part in response.parts if not isinstance(part, ProviderItemPart | ServerToolPart)]
    plain = (attrs.evolve(part, metadata=None) if isinstance(part, ToolCall) else part for part in parts)
    return attrs.evolve(response, parts=sources_last(plain))


def ordered(answer: FakeAnswer) -> FakeAnswer:
    """
    The answer with its sources behind everything.
    """
    return FakeAnswer(*sources_last(answer.parts), finish=answer.reason, usage=answer.usage)


def sources_last(parts: Any) -> tuple[Part, ...]:
    return tuple(sorted(parts, key=lambda part: isinstance(part, CitationPart)))


@given(answers(ANY_TEXT, ANY_THINKING), st.integers(1, 40))
@settings(max_examples=60, deadline=None)
def test_chat_any(answer: FakeAnswer, cut: int) -> None:
    """
    Any answer in any pieces, read in any.
    """
    assert_any_cut(CHAT, OPENAI_CHAT, answer, cut)


@given(answers(ANY_TEXT, ANY_THINKING), st.integers(1, 40))
@settings(max_examples=60, deadline=None)
def test_responses_any(answer: FakeAnswer, cut: int) -> None:
    """
    Any answer in any pieces, read in any.
    """
    assert_read_back(answer, own(read(RESPONSES, OPENAI_RESPONSES, answer).response))
    assert read(RESPONSES, OPENAI_RESPONSES, answer).facts == read_cut(answer, cut)


def read_cut(answer: FakeAnswer, cut: int) -> Any:
    return replay(body_of(OPENAI_RESPONSES, answer), RESPONSES, content_type=OPENAI_RESPONSES.content_type, cut=cut).facts


def test_failures() -> None:
    """
    Their failures are failures.
    """
    assert_failures(CHAT, OPENAI_CHAT)
    assert_failures(RESPONSES, OPENAI_RESPONSES)


@pytest.mark.parametrize(
    ("wire", "answer", "said"),
    [
        (OPENAI_CHAT, FakeAnswer(finish=FinishReason.PAUSE), "the finish pause"),
        (OPENAI_CHAT, FakeAnswer("x", finish=FinishReason.REFUSAL), "the finish refusal without a RefusalPart"),
        (OPENAI_CHAT, FakeAnswer(RefusalPart("x"), finish=FinishReason.STOP), "the finish stop with a RefusalPart"),
        (OPENAI_CHAT, FakeAnswer(SearchResultPart("https://x.example")), "SearchResultPart"),
        (OPENAI_CHAT, FakeAnswer(CitationPart(title="x")), "a citation without url and file"),
        (OPENAI_CHAT, FakeAnswer(MediaPart("video", data="x")), "video of this form"),
        (OPENAI_CHAT, FakeAnswer(attrs.evolve(ROME, server_executed=True)), "a call the provider ran itself"),
        (OPENAI_RESPONSES, FakeAnswer(finish=FinishReason.PAUSE), "the finish pause"),
        (OPENAI_RESPONSES, FakeAnswer("x", finish=FinishReason.TOOL_CALLS), "the finish tool_calls without a call"),
        (OPENAI_RESPONSES, FakeAnswer("x", finish=FinishReason.REFUSAL), "the finish refusal without a RefusalPart"),
        (OPENAI_RESPONSES, FakeAnswer(SearchResultPart("https://x.example")), "SearchResultPart"),
        (OPENAI_RESPONSES, FakeAnswer("x", CitationPart(quoted="x")), "this citation"),
        (OPENAI_RESPONSES, FakeAnswer("x", CitationPart(file="x", end=2)), "the end of a file's citation"),
        (OPENAI_RESPONSES, FakeAnswer(MediaPart("audio", data="x")), "audio of this form"),
        (OPENAI_RESPONSES, FakeAnswer(attrs.evolve(ROME, server_executed=True)), "a call the provider ran itself"),
    ],
)
def test_cannot_say(wire: Any, answer: FakeAnswer, said: str) -> None:
    """
    What the wire has no words for is refused, streamed and whole.
    """
    with pytest.raises(ConfigurationError, match=said):
        list(wire.frames(answer))
    with pytest.raises(ConfigurationError, match=said):
        wire.whole(answer)


def test_failed_answer() -> None:
    """
    A finish that is a failure is one.
    """
    for dialect, wire in ((CHAT, OPENAI_CHAT), (RESPONSES, OPENAI_RESPONSES)):
        assert "PROVIDER_ERROR" == read(dialect, wire, FakeAnswer("Half", finish=FinishReason.ERROR)).verdict


# --- openai -----------------------------------------------------------------------------------------------------------------------------------------

SAID = [{"role": "user", "content": "Hi"}]
SDK_CASES = ("plain", "calls", "all", "length", "refused", "uncounted")


def client_of(provider: FakeProvider, dialect: str) -> openai.AsyncOpenAI:
    return openai.AsyncOpenAI(base_url=provider.url(dialect), api_key="fake-key", max_retries=0)


@attrs.define
class Seen:
    """
    What a client made of an answer.
    """

    text: str = ""
    thinking: str = ""
    refusal: str = ""
    calls: list[list[str]] = attrs.field(factory=list)
    finish: Any = None
    usage: Any = None

    def expect(self, answer: FakeAnswer, finish: Any) -> None:
        """
        It is the answer.
        """
        assert "".join(part.text for part in answer.parts if isinstance(part, TextPart)) == self.text
        assert "".join(part.text for part in answer.parts if isinstance(part, ThinkingPart)) == self.thinking
        assert "".join(part.text for part in answer.parts if isinstance(part, RefusalPart)) == self.refusal
        assert [[part.id, part.name, part.arguments_text] for part in answer.parts if isinstance(part, ToolCall)] == self.calls
        assert finish == self.finish


FINISHES = {"stop": "stop", "tool_calls": "tool_calls", "length": "length", "refusal": "stop"}


def chat_message(message: Any, seen: Seen) -> None:
    """
    A message or a delta.
    """
    seen.text += message.content or ""
    seen.refusal += message.refusal or ""
    seen.thinking += getattr(message, "reasoning_content", None) or ""
    for call in message.tool_calls or ():
        if call.id:
            seen.calls.append([call.id, call.function.name, ""])
        seen.calls[-1][2] += call.function.arguments or ""


def assert_chat_usage(answer: FakeAnswer, usage: Any) -> None:
    if answer.usage is None:
        assert usage is None
        return
    assert (answer.usage.input_tokens, answer.usage.output_tokens, answer.usage.total_tokens) == (
        usage.prompt_tokens,
        usage.completion_tokens,
        usage.total_tokens,
    )
    if answer.usage.reasoning_tokens is not None:
        assert answer.usage.reasoning_tokens == usage.completion_tokens_details.reasoning_tokens
        assert answer.usage.cache_read_tokens == usage.prompt_tokens_details.cached_tokens


@pytest.mark.parametrize("name", SDK_CASES)
async def test_chat_sdk(name: str) -> None:
    """
    OpenAI's own library reads the same, streamed and whole.
    """
    answer = CHAT_CASES[name]
    asked: dict[str, Any] = {"model": "fake-1", "messages": SAID}
    async with FakeProvider(answer) as provider, client_of(provider, CHAT) as client:
        seen = Seen()
        async for chunk in await client.chat.completions.create(**asked, stream=True):
            for choice in chunk.choices:
                chat_message(choice.delta, seen)
                seen.finish = choice.finish_reason or seen.finish
            seen.usage = chunk.usage or seen.usage
        seen.expect(answer, FINISHES[answer.reason])
        assert_chat_usage(answer, seen.usage)
        whole = await client.chat.completions.create(**asked)
        seen = Seen(finish=whole.choices[0].finish_reason)
        chat_message(whole.choices[0].message, seen)
        seen.expect(answer, FINISHES[answer.reason])
        assert_chat_usage(answer, whole.usage)


@pytest.mark.parametrize("name", SDK_CASES)
async def test_responses_sdk(name: str) -> None:
    """
    OpenAI's own library reads the same: from the deltas, from the terminal response, and whole.
    """
    answer = RESPONSES_CASES[name]
    finish = "incomplete" if answer.reason is FinishReason.LENGTH else "completed"
    async with FakeProvider(answer) as provider, client_of(provider, RESPONSES) as client:
        seen = Seen()
        last: Any = None
        async for event in await client.responses.create(model="fake-1", input="Hi", stream=True):
            match event.type:
                case "response.output_text.delta":
                    seen.text += event.delta
                case "response.refusal.delta":
                    seen.refusal += event.delta
                case "response.reasoning_summary_text.delta":
                    seen.thinking += event.delta
                case "response.output_item.added" if event.item.type == "function_call":
                    seen.calls.append([event.item.call_id, event.item.name, ""])
                case "response.function_call_arguments.delta":
                    seen.calls[-1][2] += event.delta
                case "response.completed" | "response.incomplete":
                    last, seen.finish = event.response, event.response.status
        seen.expect(answer, finish)
        for response in (last, await client.responses.create(model="fake-1", input="Hi")):
            responded(response).expect(answer, finish)
            assert_responses_usage(answer, response.usage)


async def test_responses_sdk_helper() -> None:
    """
    The library's own accumulation, which insists on the order of events, ends with the whole response.
    """
    async with FakeProvider(RESPONSES_CASES["all"]) as provider, client_of(provider, RESPONSES) as client:
        responded(await final_of(client)).expect(RESPONSES_CASES["all"], "completed")


async def final_of(client: openai.AsyncOpenAI) -> Any:
    async with client.responses.stream(model="fake-1", input="Hi") as stream:
        return await stream.get_final_response()


def responded(response: Any) -> Seen:
    """
    A response object.
    """
    seen = Seen(text=response.output_text, finish=response.status)
    for item in response.output:
        if item.type == "reasoning":
            seen.thinking += "".join(part.text for part in item.summary)
        elif item.type == "function_call":
            seen.calls.append([item.call_id, item.name, item.arguments])
        elif item.type == "message":
            seen.refusal += "".join(part.refusal for part in item.content if part.type == "refusal")
    return seen


def assert_responses_usage(answer: FakeAnswer, usage: Any) -> None:
    if answer.usage is None:
        assert usage is None
        return
    assert (answer.usage.input_tokens, answer.usage.output_tokens, answer.usage.total_tokens) == (
        usage.input_tokens,
        usage.output_tokens,
        usage.total_tokens,
    )
    if answer.usage.reasoning_tokens is not None:
        assert answer.usage.reasoning_tokens == usage.output_tokens_details.reasoning_tokens


async def test_sdk_failures() -> None:
    """
    The library knows the refusals and the errors in a stream as such.
    """
    script: list[Entry] = [Fault(status=429, message="slow down"), Fault(status=401), PLAIN.with_fault(Fault(error_after=3, message="it broke"))]
    async with FakeProvider(script) as provider, client_of(provider, CHAT) as client:
        asked: dict[str, Any] = {"model": "fake-1", "messages": SAID, "stream": True}
        with pytest.raises(openai.RateLimitError, match="slow down"):
            await client.chat.completions.create(**asked)
        with pytest.raises(openai.AuthenticationError):
            await client.chat.completions.create(**asked)
        with pytest.raises(openai.APIError, match="it broke"):
            await collected(await client.chat.completions.create(**asked))
    script = [PLAIN.with_fault(Fault(error_after=3, message="it broke"))]
    async with FakeProvider(script) as provider, client_of(provider, RESPONSES) as client:
        with pytest.raises(openai.APIError, match="it broke"):
            await collected(await client.responses.create(model="fake-1", input="Hi", stream=True))


async def collected(stream: Any) -> list[Any]:
    return [event async for event in stream]
