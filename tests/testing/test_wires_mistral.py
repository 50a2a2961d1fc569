"""
Mistral's wire: read back by our models and by mistralai.
"""

from __future__ import annotations

from typing import Any

import attrs
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from mistralai.client import Mistral
from mistralai.client.errors import SDKError

from rxchat.errors import ConfigurationError
from rxchat.response import FinishReason, MediaPart, RefusalPart, TextPart, ThinkingPart, ToolCall, Usage
from rxchat.testing import FakeAnswer, FakeProvider, Fault
from rxchat.testing.wires.mistral import MISTRAL
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
    read,
)

NAME = "mistral"
COUNTED = Usage(input_tokens=20, output_tokens=9, cache_read_tokens=4, total_tokens=29)

CASES = {
    "plain": PLAIN,
    "calls": CALLS,
    "empty": FakeAnswer(),
    "all": FakeAnswer(ThinkingPart("hm, well", "c2ln"), "Text.", ROME, NOW, usage=COUNTED, piece=3),
    "thinking only": FakeAnswer(ThinkingPart("hm, well")),
    "uncounted": FakeAnswer("Hi.", usage=None),
    "length": FakeAnswer("Half a", finish=FinishReason.LENGTH),
    "other": FakeAnswer("Half a", finish=FinishReason.OTHER),
}


@pytest.mark.parametrize("name", CASES)
async def test_read_back(name: str) -> None:
    """
    Our model reads what was said, streamed and whole.
    """
    await assert_over_http(NAME, CASES[name])


@given(answers(ANY_TEXT, ANY_THINKING), st.integers(1, 40))
@settings(max_examples=60, deadline=None)
def test_any(answer: FakeAnswer, cut: int) -> None:
    """
    Any answer in any pieces, read in any.
    """
    assert_any_cut(NAME, MISTRAL, answer, cut)


def test_failures() -> None:
    """
    Its failures are failures, a finish that is one too.
    """
    assert_failures(NAME, MISTRAL)
    assert "PROVIDER_ERROR" == read(NAME, MISTRAL, FakeAnswer("Half", finish=FinishReason.ERROR)).verdict


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (FakeAnswer(MediaPart("image", data="x")), "MediaPart"),
        (FakeAnswer(RefusalPart("x"), finish=FinishReason.STOP), "RefusalPart"),
        (FakeAnswer(attrs.evolve(ROME, kind="custom")), "no function of the client's"),
        (FakeAnswer("x", finish=FinishReason.CONTENT_FILTER), "the finish content_filter"),
        (FakeAnswer("x", usage=Usage(reasoning_tokens=1)), "usage.reasoning_tokens"),
    ],
)
def test_cannot_say(answer: FakeAnswer, said: str) -> None:
    """
    What the wire has no words for is refused, streamed and whole.
    """
    with pytest.raises(ConfigurationError, match=said):
        list(MISTRAL.frames(answer))
    with pytest.raises(ConfigurationError, match=said):
        MISTRAL.whole(answer)  # type: ignore[misc]


# --- mistralai --------------------------------------------------------------------------------------------------------------------------------------


@attrs.define
class Seen:
    """
    What the library made of an answer.
    """

    text: str = ""
    thinking: str = ""
    calls: list[Any] = attrs.field(factory=list)
    finish: Any = None
    usage: Any = None

    def take(self, message: Any) -> None:
        """
        A message or a delta.
        """
        content = message.content or ""
        for part in [content] if isinstance(content, str) else content:
            if isinstance(part, str):
                self.text += part
            elif part.type == "thinking":
                self.thinking += "".join(piece.text for piece in part.thinking)
            else:
                self.text += part.text
        self.calls += [(call.id, call.function.name, call.function.arguments) for call in message.tool_calls or ()]

    def expect(self, answer: FakeAnswer) -> None:
        """
        It is the answer.
        """
        assert "".join(part.text for part in answer.parts if isinstance(part, TextPart)) == self.text
        assert "".join(part.text for part in answer.parts if isinstance(part, ThinkingPart)) == self.thinking
        assert [(part.id, part.name, part.arguments_text) for part in answer.parts if isinstance(part, ToolCall)] == self.calls
        assert answer.reason.value == self.finish
        counts = (self.usage.prompt_tokens, self.usage.completion_tokens, self.usage.total_tokens)
        assert answer.usage is not None
        assert (answer.usage.input_tokens, answer.usage.output_tokens, answer.usage.total_tokens) == counts


ASKED: dict[str, Any] = {"model": "fake-1", "messages": [{"role": "user", "content": "Hi"}]}


def client_of(provider: FakeProvider) -> Any:
    return Mistral(api_key="fake-key", server_url=provider.url(NAME).removesuffix("/v1"))


@pytest.mark.parametrize("name", ["plain", "calls", "all", "length", "thinking only"])
async def test_sdk(name: str) -> None:
    """
    Mistral's own library reads the same, streamed and whole.
    """
    answer = CASES[name]
    async with FakeProvider(answer) as provider, client_of(provider) as client:
        seen = Seen()
        async with await client.chat.stream_async(**ASKED) as stream:
            async for event in stream:
                (choice,) = event.data.choices
                seen.take(choice.delta)
                seen.finish, seen.usage = choice.finish_reason or seen.finish, event.data.usage or seen.usage
        seen.expect(answer)
        whole = await client.chat.complete_async(**ASKED)
        seen = Seen(finish=whole.choices[0].finish_reason, usage=whole.usage)
        seen.take(whole.choices[0].message)
        seen.expect(answer)


async def test_sdk_failures() -> None:
    """
    The library knows the refusals as such.
    """
    async with FakeProvider([Fault(status=401, message="no key"), Fault(status=429, message="slow down")]) as provider, client_of(provider) as client:
        for status, said in ((401, "no key"), (429, "slow down")):
            with pytest.raises(SDKError, match=said) as raised:
                await client.chat.complete_async(**ASKED)
            assert status == raised.value.status_code
