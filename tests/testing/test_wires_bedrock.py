"""
Bedrock's wires: read back by our models and by boto3.
"""

from __future__ import annotations

import json
import warnings
from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rxchat.errors import ConfigurationError, Verdict
from rxchat.response import (
    CitationPart,
    ContentFilterPart,
    FinishReason,
    MediaPart,
    RedactedThinkingPart,
    RefusalPart,
    ThinkingPart,
    ToolCall,
    Usage,
)
from rxchat.testing.answers import FakeAnswer
from rxchat.testing.asked import FakeRequest
from rxchat.testing.faults import Fault
from rxchat.testing.provider import FakeProvider
from rxchat.testing.wires import wire_for
from rxchat.testing.wires.base import Wire
from rxchat.testing.wires.bedrock import BEDROCK_CONVERSE
from rxchat.testing.wires.bedrock_invoke import BEDROCK_INVOKE
from tests.testing.spoken import (
    ANY_TEXT,
    ANY_THINKING,
    CALLS,
    NOW,
    PLAIN,
    ROME,
    answers,
    assert_any_cut,
    assert_dialect,
    assert_failures,
    assert_over_http,
    assert_paced,
    assert_read_back,
    body_of,
    read,
    usages,
)

with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)
    import boto3
    from botocore.config import Config
    from botocore.eventstream import EventStreamBuffer
    from botocore.exceptions import ClientError, EventStreamError

COUNTED = Usage(20, 9, cache_read_tokens=4, cache_write_tokens=2, total_tokens=29)
SEALED = RedactedThinkingPart("c2VhbGVk")
BLOCKED = ContentFilterPart("VIOLENCE", blocked=True)
MASKED = ContentFilterPart("NAME", blocked=False)
CITED = CitationPart("https://x.example/a", "X", quoted="said so")

CASES = {
    "plain": PLAIN,
    "calls": CALLS,
    "empty": FakeAnswer(),
    "uncounted": FakeAnswer("Hi.", usage=None),
    "all": FakeAnswer(ThinkingPart("hm, well", "c2ln"), SEALED, "Text.", ROME, NOW, usage=COUNTED, piece=3),
    "input only": FakeAnswer("Text.", usage=Usage(input_tokens=3)),
    "length": FakeAnswer("Half a", finish=FinishReason.LENGTH),
    "other": FakeAnswer("Half a", finish=FinishReason.OTHER),
    "blocked": FakeAnswer("Half a", BLOCKED, finish=FinishReason.CONTENT_FILTER),
    "masked": FakeAnswer("I am {NAME}.", MASKED),
    "image": FakeAnswer("Look:", MediaPart("image", "image/png", "aW1n")),
    "cited": FakeAnswer(CITED, CitationPart(title="Y", file="y.txt"), "Text.", ThinkingPart("hm"), "More."),
}
REFUSED = {
    "RefusalPart": FakeAnswer(RefusalPart("no")),
    "the finish refusal": FakeAnswer("no", finish=FinishReason.REFUSAL),
    "these filters": FakeAnswer(BLOCKED),
    "the text of a filter": FakeAnswer(ContentFilterPart("X", "secret", True), finish=FinishReason.CONTENT_FILTER),
    "this audio": FakeAnswer(MediaPart("audio", "audio/wav", "aW1n")),
    "an image": FakeAnswer(MediaPart("image", "image/png", "no base64")),
    "redacted thinking": FakeAnswer(RedactedThinkingPart("no base64")),
    "that no text follows": FakeAnswer(CITED, ThinkingPart("hm")),
    "no text follows": FakeAnswer("Text.", CITED),
    "the place of a citation": FakeAnswer(CitationPart("https://x.example", start=0, end=4), "Text."),
    "free-form": FakeAnswer(ToolCall(name="sh", arguments_text="ls", kind="custom")),
    "usage.reasoning_tokens": FakeAnswer("Hi.", usage=Usage(reasoning_tokens=1)),
    "usage.cache_read_tokens . cache_write_tokens above": FakeAnswer("Hi.", usage=Usage(input_tokens=1, cache_write_tokens=2)),
}

INVOKED = {
    "plain": PLAIN,
    "calls": CALLS,
    "empty": FakeAnswer(),
    "uncounted": FakeAnswer("Hi.", usage=None),
    "all": FakeAnswer(ThinkingPart("hm, well", "c2ln"), RedactedThinkingPart("c2VhbGVk"), "Text.", ROME, NOW, usage=COUNTED, piece=3),
    "length": FakeAnswer("Half a", finish=FinishReason.LENGTH),
    "refused": FakeAnswer(RefusalPart("I will not.")),
    "paused": FakeAnswer("Wait", finish=FinishReason.PAUSE),
}
COMPLETED = {
    "amazon.titan-text-express-v1": (PLAIN, FakeAnswer("Half a", finish=FinishReason.LENGTH)),
    "meta.llama3-8b-instruct-v1:0": (PLAIN, FakeAnswer("Half a", finish=FinishReason.LENGTH)),
    "mistral.mistral-7b-instruct-v0:2": (PLAIN, FakeAnswer("Half a", finish=FinishReason.LENGTH)),
    "cohere.command-text-v14": (PLAIN, FakeAnswer("Half a", finish=FinishReason.LENGTH)),
}


# --- our models -----------------------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", CASES)
async def test_converse_is_read_back(name: str) -> None:
    """
    Streamed and whole over HTTP an answer is what the script says.
    """
    await assert_over_http("bedrock-converse", CASES[name])


async def test_filtered_without_findings() -> None:
    """
    A filter's finish without one among the parts is the model's own, and is told as one.
    """
    answer = FakeAnswer("Half a", finish=FinishReason.CONTENT_FILTER)
    await assert_over_http("bedrock-converse", answer, parts=(*answer.parts, ContentFilterPart("content_filtered", blocked=True)))


@pytest.mark.parametrize("name", INVOKED)
async def test_invoke_is_read_back(name: str) -> None:
    """
    Likewise with the words of Claude.
    """
    await assert_over_http("bedrock-invoke", INVOKED[name])


@pytest.mark.parametrize("name", ["plain", "calls", "length"])
async def test_nova_is_read_back(name: str) -> None:
    """
    Likewise with the words of Nova, which the model's name asks for.
    """
    async with FakeProvider(INVOKED[name]) as provider, provider.model("bedrock-invoke", "us.amazon.nova-pro-v1:0") as model:
        assert_read_back(INVOKED[name], await model.call("Hi"))
        assert_read_back(INVOKED[name], await model.call("Hi", stream=False))


@pytest.mark.parametrize("name", COMPLETED)
async def test_completions_are_read_back(name: str) -> None:
    """
    Likewise for models that complete a text. Two of them do not count in the body that is not streamed.
    """
    for answer in COMPLETED[name]:
        async with FakeProvider(answer) as provider, provider.model("bedrock-invoke", name) as model:
            assert_read_back(answer, await model.call("Hi"))
            whole = await model.call("Hi", stream=False)
        assert ([answer.parts[0]], answer.reason) == (list(whole.parts), whole.finish_reason)
        assert whole.usage is None or whole.usage.total_tokens == 18


@settings(max_examples=30, deadline=None)
@given(usages("cache_read_tokens", "cache_write_tokens", total=False))
def test_any_counts(usage: Usage) -> None:
    """
    Our counts come back as they were: the wire's formula is turned round (contract P4).
    """
    answer = FakeAnswer("Hi.", usage=usage)
    assert_read_back(answer, read("bedrock-converse", BEDROCK_CONVERSE, answer).response)
    assert_read_back(answer, read("bedrock-invoke", BEDROCK_INVOKE, answer).response)


@settings(max_examples=40, deadline=None)
@given(answers(ANY_TEXT, ANY_THINKING), st.integers(1, 60), st.booleans())
def test_any_answer_in_any_cut(answer: FakeAnswer, cut: int, invoked: bool) -> None:
    """
    Whatever is said, in whatever pieces and reads.
    """
    name, wire = ("bedrock-invoke", BEDROCK_INVOKE) if invoked else ("bedrock-converse", BEDROCK_CONVERSE)
    assert_any_cut(name, wire, answer, cut)


@pytest.mark.parametrize("words", REFUSED)
def test_what_converse_cannot_say(words: str) -> None:
    """
    A part, finish or count without a place in the wire is told by name, streamed and whole.
    """
    with pytest.raises(ConfigurationError, match=words):
        body_of(BEDROCK_CONVERSE, REFUSED[words])
    assert BEDROCK_CONVERSE.whole is not None
    with pytest.raises(ConfigurationError, match=words):
        BEDROCK_CONVERSE.whole(REFUSED[words])


def test_what_completions_cannot_say() -> None:
    """
    A model that completes a text says nothing else.
    """
    asked = FakeRequest("bedrock-invoke", "POST", "/model/meta.llama3-8b-instruct-v1%3A0/invoke-with-response-stream", {}, b"{}")
    with pytest.raises(ConfigurationError, match="llama has no way to say ToolCall"):
        body_of(wire_for(asked), CALLS)


@pytest.mark.parametrize("wire", [BEDROCK_CONVERSE, BEDROCK_INVOKE])
def test_pieces_are_marked(wire: Wire) -> None:
    """
    `tokens_per_second` counts them.
    """
    assert_paced(wire)


def test_the_contract() -> None:
    """
    Every case keeps it.
    """
    assert_dialect("bedrock-converse", BEDROCK_CONVERSE, CASES)
    assert_dialect("bedrock-invoke", BEDROCK_INVOKE, INVOKED, model="anthropic.m")


def test_failures() -> None:
    """
    An exception in the stream, a message with a wrong checksum, and refusals.
    """
    assert_failures("bedrock-converse", BEDROCK_CONVERSE, broken=Verdict.FRAMING)
    assert_failures("bedrock-invoke", BEDROCK_INVOKE, broken=Verdict.FRAMING)


# --- botocore and boto3 ---------------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("wire", [BEDROCK_CONVERSE, BEDROCK_INVOKE], ids=["converse", "invoke"])
def test_botocore_reads_every_frame(wire: Wire) -> None:
    """
    Each frame is one whole message with both checksums right and the three headers of the service, in its order.
    """
    for frame in wire.frames(INVOKED["all"]):
        buffer = EventStreamBuffer()
        buffer.add_data(frame)
        (message,) = list(buffer)
        assert [":event-type", ":content-type", ":message-type"] == list(message.headers)
        assert "p" in json.loads(message.payload)


@contextmanager
def _client(script: Any, dialect: str) -> Iterator[Any]:
    with FakeProvider(script).in_thread() as provider:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)
            client: Any = boto3.client(
                "bedrock-runtime",
                region_name="us-east-1",
                endpoint_url=provider.url(dialect),
                aws_access_key_id="fake",
                aws_secret_access_key="fake",
                config=Config(retries={"max_attempts": 0}),
            )
        try:
            yield client
        finally:
            client.close()


ASKED: dict[str, Any] = {"modelId": "anthropic.fake-1", "messages": [{"role": "user", "content": [{"text": "Hi"}]}]}


def test_boto3_reads_converse_stream() -> None:
    """
    The same text, reasoning, calls, reason and counts.
    """
    with _client(CASES["all"], "bedrock-converse") as client:
        events = list(client.converse_stream(**ASKED)["stream"])
    deltas = [event["contentBlockDelta"]["delta"] for event in events if "contentBlockDelta" in event]
    reasoning = [delta["reasoningContent"] for delta in deltas if "reasoningContent" in delta]
    assert "Text." == "".join(delta.get("text", "") for delta in deltas)
    assert "hm, well" == "".join(said.get("text", "") for said in reasoning)
    assert ["c2ln"] == [said["signature"] for said in reasoning if "signature" in said]
    assert [b"sealed"] == [said["redactedContent"] for said in reasoning if "redactedContent" in said]
    assert ROME.arguments_text == "".join(delta["toolUse"]["input"] for delta in deltas if "toolUse" in delta)
    starts = [event["contentBlockStart"]["start"]["toolUse"] for event in events if "contentBlockStart" in event]
    assert [(call.id, call.name) for call in (ROME, NOW)] == [(said["toolUseId"], said["name"]) for said in starts]
    assert ["tool_use"] == [event["messageStop"]["stopReason"] for event in events if "messageStop" in event]
    _assert_counted(events[-1]["metadata"]["usage"])


def _assert_counted(usage: dict[str, int]) -> None:
    assert (14, 9, 29, 4, 2) == tuple(usage[name] for name in ("inputTokens", "outputTokens", "totalTokens", *_CACHE))


_CACHE = ("cacheReadInputTokens", "cacheWriteInputTokens")


def test_boto3_reads_converse() -> None:
    """
    Likewise of the answer that is not streamed.
    """
    with _client(CASES["all"], "bedrock-converse") as client:
        answer = client.converse(**ASKED)
    thought, sealed, text, rome, now = answer["output"]["message"]["content"]
    assert {"text": "hm, well", "signature": "c2ln"} == thought["reasoningContent"]["reasoningText"]
    assert (b"sealed", "Text.") == (sealed["reasoningContent"]["redactedContent"], text["text"])
    assert {"toolUseId": "call_rome", "name": "weather", "input": {"city": "Róme", "days": 2}} == rome["toolUse"]
    assert {"toolUseId": "call_now", "name": "now", "input": {}} == now["toolUse"]
    assert "tool_use" == answer["stopReason"]
    _assert_counted(answer["usage"])


def test_boto3_reads_what_was_cited_shown_and_blocked() -> None:
    """
    Citations, images and a guardrail's findings are where it looks for them.
    """
    with _client([CASES["cited"], CASES["image"], CASES["blocked"]], "bedrock-converse") as client:
        cited, shown, blocked = [list(client.converse_stream(**ASKED)["stream"]) for _ in range(3)]
    citations = [
        event["contentBlockDelta"]["delta"]["citation"] for event in cited if "citation" in event.get("contentBlockDelta", {}).get("delta", {})
    ]
    assert {"url": "https://x.example/a", "domain": "x.example"} == citations[0]["location"]["web"]
    assert ("X", [{"text": "said so"}], "y.txt") == (citations[0]["title"], citations[0]["sourceContent"], citations[1]["source"])
    assert [b"img"] == [
        event["contentBlockDelta"]["delta"]["image"]["source"]["bytes"]
        for event in shown
        if "image" in event.get("contentBlockDelta", {}).get("delta", {})
    ]
    (found,) = blocked[-1]["metadata"]["trace"]["guardrail"]["outputAssessments"]["fake-guardrail"]
    assert ["BLOCKED"] == [item["action"] for item in found["contentPolicy"]["filters"]]


def test_boto3_reads_invoke_model() -> None:
    """
    Claude's events out of the chunks, and its body.
    """
    body = json.dumps({"anthropic_version": "bedrock-2023-05-31", "max_tokens": 10, "messages": ASKED["messages"]})
    with _client(INVOKED["all"], "bedrock-invoke") as client:
        stream = client.invoke_model_with_response_stream(modelId="anthropic.fake-1", body=body)
        chunks = [json.loads(event["chunk"]["bytes"]) for event in stream["body"]]
        whole = json.loads(client.invoke_model(modelId="anthropic.fake-1", body=body)["body"].read())
    assert ["message_start", "content_block_start"] == [chunk["type"] for chunk in chunks[:2]]
    deltas = [chunk["delta"] for chunk in chunks if chunk["type"] == "content_block_delta"]
    assert "Text." == "".join(delta.get("text", "") for delta in deltas)
    assert ROME.arguments_text == "".join(delta.get("partial_json", "") for delta in deltas)
    assert "message_stop" == chunks[-1]["type"]
    metrics = chunks[-1]["amazon-bedrock-invocationMetrics"]
    assert (14, 9, 4, 2) == (
        metrics["inputTokenCount"],
        metrics["outputTokenCount"],
        metrics["cacheReadInputTokenCount"],
        metrics["cacheWriteInputTokenCount"],
    )
    assert ["thinking", "redacted_thinking", "text", "tool_use", "tool_use"] == [block["type"] for block in whole["content"]]


def test_boto3_raises_for_errors() -> None:
    """
    A refusal has its status and words; an exception in the middle is raised behind what came before.
    """
    script = [PLAIN.with_fault(Fault(status=400, message="not now")), PLAIN.with_fault(Fault(error_after=2, message="it broke"))]
    with _client(script, "bedrock-converse") as client:
        with pytest.raises(ClientError, match="not now") as refused:
            client.converse_stream(**ASKED)
        assert 400 == refused.value.response["ResponseMetadata"]["HTTPStatusCode"]
        with closing(client.converse_stream(**ASKED)["stream"]) as body:
            stream = iter(body)
            assert ["messageStart", "contentBlockDelta"] == [next(iter(next(stream))) for _ in range(2)]
            with pytest.raises(EventStreamError, match=r"modelStreamErrorException.*it broke"):
                next(stream)
