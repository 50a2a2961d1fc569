"""
Amazon Bedrock's InvokeModelWithResponseStream and InvokeModel: the frames of AWS around the words of the model's maker, which the model in the path tells.

    {"bytes": base64 of the maker's JSON, "p": padding}

Claude says its Messages, Nova the events of Converse; Titan, Llama, Mistral and Command complete a text and say nothing else. The service counts in the last
chunk. The whole bodies of Mistral and Command have no counts.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import attrs

from rxchat.outgoing.bedrock_invoke import MARKS
from rxchat.outgoing.common import drop_none
from rxchat.response import FinishReason, TextPart, Usage
from rxchat.strictjson import loads
from rxchat.testing.answers import FakeAnswer
from rxchat.testing.asked import FakeRequest
from rxchat.testing.wires import aws
from rxchat.testing.wires.anthropic import ANTHROPIC
from rxchat.testing.wires.base import Delta, Wire, cannot_say, json_bytes
from rxchat.testing.wires.bedrock import PADDING, STREAM, converse_body, converse_events, error, refusal
from rxchat.testing.wires.saying import finish_word, refuse_counts, refuse_total, uncached

__all__ = ["BEDROCK_INVOKE"]

NAME = "bedrock-invoke"
# By these keys a chunk is a piece of a text.
_PIECES = frozenset({"contentBlockDelta", "outputText", "generation", "outputs", "text"})
METRICS = "amazon-bedrock-invocationMetrics"

Json = dict[str, Any]


def _chunk(said: Json, number: int = 0) -> bytes:
    return aws.event("chunk", {"bytes": base64.b64encode(json_bytes(said)).decode(), "p": PADDING[: 3 + number * 7 % 50]})


def _chunks(says: Callable[[FakeAnswer], Iterator[Json]]) -> Callable[[FakeAnswer], Iterator[bytes]]:
    """
    The frames around what a maker says; the last chunk has what the service counted.
    """

    def frames(answer: FakeAnswer) -> Iterator[bytes]:
        held: Json | None = None
        number = 0
        for said in says(answer):
            if held is not None:
                yield _paced(held, _chunk(held, number))
                number += 1
            held = said
        yield _chunk((held or {}) | _metrics(answer.usage), number)

    return frames


def _paced(said: Json, frame: bytes) -> bytes:
    return Delta(frame) if said.get("type") == "content_block_delta" or not _PIECES.isdisjoint(said) else frame


def _metrics(usage: Usage | None) -> Json:
    if usage is None:
        return {}
    counts = {
        "inputTokenCount": uncached(NAME, usage),
        "outputTokenCount": usage.output_tokens,
        "invocationLatency": 100,
        "firstByteLatency": 10,
        "cacheReadInputTokenCount": usage.cache_read_tokens,
        "cacheWriteInputTokenCount": usage.cache_write_tokens,
    }
    return {METRICS: drop_none(**counts)}


# --- Claude, Nova ---------------------------------------------------------------------------------------------------------------------------------


def _claude(answer: FakeAnswer) -> Iterator[Json]:
    """
    The events of Messages out of their frames.
    """
    for frame in ANTHROPIC.frames(answer):
        yield loads(frame.partition(b"data: ")[2])


def _nova(answer: FakeAnswer) -> Iterator[Json]:
    for name, said in converse_events(answer):
        yield {name: said}


# --- completions ----------------------------------------------------------------------------------------------------------------------------------


@attrs.frozen
class _Completion:
    """
    How a model completes a text: a piece, and what is in the last one beside it; and the whole, of text, word and counts.
    """

    name: str
    words: Mapping[FinishReason, str]
    piece: Callable[[str], Json]
    last: Callable[[str | None, Usage], Json]
    whole: Callable[[str, str | None, Usage], Json]

    def chunks(self, answer: FakeAnswer) -> Iterator[Json]:
        """
        The pieces of the answer; its last one ends it.
        """
        *before, text = list(answer.pieces(self._text(answer))) or [""]
        yield from (self.piece(piece) for piece in before)
        yield _merged(self.piece(text), self.last(self._word(answer), answer.usage or Usage()))

    def body(self, answer: FakeAnswer) -> bytes:
        """
        The whole answer.
        """
        return json_bytes(self.whole(self._text(answer), self._word(answer), answer.usage or Usage()))

    def _word(self, answer: FakeAnswer) -> str | None:
        if answer.usage is not None:
            refuse_counts(self.name, answer.usage, "input_tokens", "output_tokens", "total_tokens")
            refuse_total(self.name, answer.usage)
        return finish_word(self.name, answer.reason, self.words)

    def _text(self, answer: FakeAnswer) -> str:
        for part in answer.parts:
            if not isinstance(part, TextPart):
                raise cannot_say(self.name, part, "it completes a text and no more")
        return "".join(part.text for part in answer.parts if isinstance(part, TextPart))


def _merged(piece: Json, last: Json) -> Json:
    """
    The last piece; where a model has a list of outputs, its word is in there.
    """
    if "outputs" in last:
        return {"outputs": [piece["outputs"][0] | last["outputs"][0]]}
    return piece | last


_PLAIN: Mapping[FinishReason, str] = {FinishReason.STOP: "stop", FinishReason.LENGTH: "length"}
_TITAN: Mapping[FinishReason, str] = {
    FinishReason.STOP: "FINISH",
    FinishReason.LENGTH: "LENGTH",
    FinishReason.CONTENT_FILTER: "CONTENT_FILTERED",
}
_COMMAND: Mapping[FinishReason, str] = {
    FinishReason.STOP: "COMPLETE",
    FinishReason.LENGTH: "MAX_TOKENS",
    FinishReason.CONTENT_FILTER: "ERROR_TOXIC",
}

_COMPLETIONS = (
    _Completion(
        "titan",
        _TITAN,
        lambda text: {"outputText": text, "index": 0, "totalOutputTextTokenCount": None, "completionReason": None, "inputTextTokenCount": None},
        lambda word, usage: {
            "totalOutputTextTokenCount": usage.output_tokens,
            "completionReason": word,
            "inputTextTokenCount": usage.input_tokens,
        },
        lambda text, word, usage: {
            "inputTextTokenCount": usage.input_tokens,
            "results": [{"tokenCount": usage.output_tokens, "outputText": text, "completionReason": word}],
        },
    ),
    _Completion(
        "llama",
        _PLAIN,
        lambda text: {"generation": text, "prompt_token_count": None, "generation_token_count": None, "stop_reason": None},
        lambda word, usage: {"prompt_token_count": usage.input_tokens, "generation_token_count": usage.output_tokens, "stop_reason": word},
        lambda text, word, usage: {
            "generation": text,
            "prompt_token_count": usage.input_tokens,
            "generation_token_count": usage.output_tokens,
            "stop_reason": word,
        },
    ),
    _Completion(
        "mistral",
        _PLAIN,
        lambda text: {"outputs": [{"text": text, "stop_reason": None}]},
        lambda word, usage: {"outputs": [{"stop_reason": word}]},
        lambda text, word, usage: {"outputs": [{"text": text, "stop_reason": word}]},
    ),
    _Completion(
        "cohere",
        _COMMAND,
        lambda text: {"is_finished": False, "text": text},
        lambda word, usage: {"is_finished": True, "finish_reason": word},
        lambda text, word, usage: {"generations": [{"finish_reason": word, "text": text}]},
    ),
)


# --- which is it ------------------------------------------------------------------------------------------------------------------------------------


def _streams(request: FakeRequest) -> bool:
    return request.path.partition("?")[0].endswith("/invoke-with-response-stream")


def _choose(request: FakeRequest) -> Wire:
    """
    The maker of the model that is invoked: Claude's where it is none we know.
    """
    family = next((family for mark, family in MARKS.items() if re.search(rf"(^|[./:]|%3A|%2F){mark}", request.path)), "anthropic")
    return _BY_FAMILY[family]


BEDROCK_INVOKE = Wire(
    content_type=STREAM,
    frames=_chunks(_claude),
    whole=ANTHROPIC.whole,
    error=error,
    malformed=aws.damaged(_chunk({"type": "ping"})),
    refusal=refusal,
    heartbeat=None,
    base="",
    streams=_streams,
    choose=_choose,
)

_BY_FAMILY: Mapping[str, Wire] = {
    "anthropic": BEDROCK_INVOKE,
    "nova": attrs.evolve(BEDROCK_INVOKE, frames=_chunks(_nova), whole=lambda answer: json_bytes(converse_body(answer))),
    **{each.name: attrs.evolve(BEDROCK_INVOKE, frames=_chunks(each.chunks), whole=each.body) for each in _COMPLETIONS},
}
