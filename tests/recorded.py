"""
Recorded bodies and fault cases, read through the whole pipeline and compared with what they are known to mean (contract section 13).

Nothing of the recorded data lies in this project; where they are absent the tests that use this module skip.
"""

from __future__ import annotations

import base64
import gzip
import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any, TypeAlias

import attrs

from rxchat.call_keys import is_local_id
from rxchat.dialects import get_dialect
from rxchat.errors import FramingError, RxchatError, Verdict
from rxchat.events import ChatEvent, ErrorEvent, MediaPartial, ServerToolResult, ServerToolStart
from rxchat.pipeline import Head, response_stage
from rxchat.response import COUNTERS, ChatResponse, CitationPart, FinishReason, ToolCall
from rxchat.stage import run

__all__ = ["Case", "Reading", "differences", "fault_case", "fault_differences", "fault_is_here", "read", "recorded_cases", "recorded_ids", "split"]

Json: TypeAlias = Mapping[str, Any]


@attrs.frozen
class Case:
    """
    One body: how it was served, what it means, and the sizes of the reads it came in, where they were recorded.
    """

    id: str
    dialect: str
    body: bytes = attrs.field(repr=False)
    expect: Json = attrs.field(repr=False)
    status: int = 200
    content_type: str | None = None
    headers: Json = attrs.field(factory=dict)
    options: Json = attrs.field(factory=dict)
    reads: tuple[int, ...] = ()


@attrs.frozen
class Reading:
    """
    What the pipeline made of a body.
    """

    events: list[ChatEvent]
    error: RxchatError | None

    @property
    def response(self) -> ChatResponse:
        """
        The answer on the terminal.
        """
        response: ChatResponse = self.events[-1].response  # type: ignore[union-attr]
        return response

    @property
    def verdict(self) -> Verdict:
        """
        How it ended.
        """
        assert self.response.verdict is not None
        return self.response.verdict

    @property
    def fingerprint(self) -> list[Any]:
        """
        The events, errors by what they say: equal for equal bytes, however they were cut (contract E9).
        """
        return [said(event.error) if isinstance(event, ErrorEvent) else event for event in self.events]


def said(error: RxchatError) -> tuple[Any, ...]:
    """
    Everything an error tells, and its partial answer.
    """
    return type(error), error.message, error.verdict, error.offset, error.code, error.type, error.status, error.request_id, error.response


def split(body: bytes, inside: Sequence[int]) -> list[bytes]:
    """
    The body cut at these positions.
    """
    return [body[start:end] for start, end in pairwise(sorted({0, len(body), *inside}))]


def every(body: bytes, size: int) -> list[bytes]:
    """
    The body in reads of one size, 0 = whole.
    """
    return split(body, range(0, len(body), size) if size else ())


def read(case: Case, reads: Sequence[bytes] | None = None, *, clean_eof: bool = True, options: Json | None = None) -> Reading:
    """
    The case through the pipeline. An exception that is none of ours goes through.
    """
    headers = dict(case.headers) | ({"Content-Type": case.content_type} if case.content_type else {})
    stage = response_stage(
        case.dialect,
        options={**case.options, **(options or {})},
        head=lambda: Head(case.status, headers, clean_eof),
        response_id="rx",
    )
    events: list[ChatEvent] = []
    try:
        for event in run(stage, every(case.body, 0) if reads is None else reads):
            events.append(event)
    except RxchatError as error:
        return Reading(events, error)
    return Reading(events, None)


# --- recorded bodies ------------------------------------------------------------------------------------------------------------------------------


def recorded_ids(folder: Path) -> list[str]:
    """
    The names of the cases of a folder.
    """
    return sorted(path.stem for path in folder.glob("*.json") if path.with_suffix(".wire").exists())


def recorded_cases(folder: Path, name: str) -> Case:
    """
    One case of a folder.
    """
    facts = json.loads((folder / f"{name}.json").read_text(encoding="utf-8"))
    dialect = facts.get("dialect") or folder.name
    known = get_dialect(dialect).options
    request = facts.get("request") or {}
    return Case(
        name,
        dialect,
        (folder / f"{name}.wire").read_bytes(),
        facts["expect"],
        facts["http"]["status"],
        facts["http"].get("content_type"),
        options={key: value for key, value in request.items() if key in known and value is not None},
        reads=tuple(facts.get("network_reads") or ()),
    )


_OUTCOMES: Mapping[Verdict, frozenset[str]] = {
    Verdict.COMPLETE: frozenset({"completed"}),
    Verdict.INCOMPLETE_STREAM: frozenset({"truncated"}),
    Verdict.CONNECTION_LOST: frozenset({"truncated"}),
    Verdict.HTTP_STATUS: frozenset({"http_error", "error"}),
    Verdict.CONTENT_TYPE: frozenset({"http_error", "error"}),
    Verdict.ABORTED: frozenset({"error"}),
}
_FINISHES: Mapping[FinishReason, frozenset[str]] = {
    FinishReason.LENGTH: frozenset({"incomplete"}),
    FinishReason.CONTENT_FILTER: frozenset({"refused", "filtered"}),
    FinishReason.REFUSAL: frozenset({"refused", "filtered"}),
    FinishReason.PAUSE: frozenset({"paused"}),
    FinishReason.UNKNOWN: frozenset({"completed", "truncated"}),
    FinishReason.OTHER: frozenset({"incomplete", "error"}),
}


def outcomes(reading: Reading) -> frozenset[str]:
    """
    The corpus words that fit how it ended.
    """
    if reading.verdict is Verdict.INCOMPLETE_FINISH:
        return _FINISHES[reading.response.finish_reason]
    return _OUTCOMES.get(reading.verdict, frozenset({"error"}))


def wanted_outcomes(expect: Json) -> set[str]:
    """
    The words the case accepts.
    """
    return {expect["outcome"], *(expect.get("outcome_alt") or ()), *(expect.get("outcome_any_of") or ()), *(expect.get("accept_outcomes") or ())}


def differences(case: Case, reading: Reading) -> list[str]:
    """
    Everything in which a reading is not what the case says; empty is right.
    """
    expect, response = case.expect, reading.response
    wrong: list[str] = []

    def equal(what: str, got: Any, want: Any) -> None:
        if got != want:
            wrong.append(f"{what}: {got!r:.200}, wanted {want!r:.200}")

    wanted = wanted_outcomes(expect)
    if not wanted & outcomes(reading):
        wrong.append(f"outcome: {reading.verdict}, wanted {wanted}")
    equal("committable implies COMPLETE", response.committable and reading.verdict is not Verdict.COMPLETE, False)
    equal("text", response.text, expect["text"] or "")
    # A tool plan is thinking here (contract P12); the corpus keeps it apart.
    equal("thinking", response.thinking, (expect.get("tool_plan") or "") + (expect["thinking"] or ""))
    equal("refusal", response.refusal, expect.get("refusal") or "")
    equal("tool calls", len(response.tool_calls), len(expect["tool_calls"]))
    for got, want in zip(response.tool_calls, expect["tool_calls"], strict=False):
        wrong += call_differences(got, want)
    if reading.error is None:
        equal("finish reason", response.finish_reason_raw, expect["finish_reason"])
    wire = response.usage.wire if response.usage else {}
    for name in COUNTERS:
        values = {usage[name] for usage in (expect["usage"], expect.get("usage_alt")) if usage and usage.get(name) is not None}
        if values and wire.get(name) not in values:
            wrong.append(f"usage {name}: {wire.get(name)}, wanted {values}")
    wrong += citation_differences(list(dict.fromkeys(expect["citations"] or ())), response.citations)
    equal("model", response.model, expect["model"] if not refused(case) else None)
    equal("response id", response.provider_response_id, expect["response_id"] if not refused(case) else None)
    wrong += error_differences(expect.get("error"), reading)
    wrong += beside_differences(expect, reading)
    return wrong


def refused(case: Case) -> bool:
    return case.status >= 400


def call_differences(got: ToolCall, want: Json) -> Iterator[str]:
    if got.name != want["name"]:
        yield f"tool name: {got.name!r}, wanted {want['name']!r}"
    if (got.id != want["id"]) if want.get("id") else not is_local_id(got.id):
        yield f"tool id: {got.id!r}, wanted {want.get('id')!r}"
    arguments = _parsed(want["arguments"])
    if isinstance(arguments, str) and arguments:
        right = got.arguments is None and got.arguments_text == arguments
    else:
        right = got.arguments == (arguments or {}) or (not arguments and got.arguments_text in ("", "{}"))
    if not right:
        yield f"tool arguments: {got.arguments!r:.100} of {got.arguments_text!r:.100}, wanted {arguments!r:.100}"


def _parsed(arguments: Any) -> Any:
    """
    Arguments as they run; what is no JSON object stays text.
    """
    try:
        value = json.loads(arguments) if isinstance(arguments, str) and arguments else arguments
    except ValueError:
        return arguments
    return value if isinstance(value, dict) or not isinstance(arguments, str) else arguments


def citation_differences(wanted: list[str], citations: Sequence[CitationPart]) -> Iterator[str]:
    """
    Some folders list the distinct URLs, some what else names a source that has none.
    """
    urls = list(dict.fromkeys(part.url for part in citations if part.url))
    names = list(dict.fromkeys(part.url or part.title or part.quoted for part in citations))
    if wanted not in (urls, names):
        yield f"citations: {names!r:.200}, wanted {wanted!r:.200}"


def error_differences(want: Json | None, reading: Reading) -> Iterator[str]:
    error = reading.error
    if want is None:
        if error is not None and error.verdict is not Verdict.INCOMPLETE_STREAM:
            yield f"an error: {error!r}"
        return
    if error is None:
        # A finish reason that some read as an error (contract P2) is told as metadata.
        if reading.response.finish_reason is not FinishReason.OTHER or reading.response.metadata.get("finishMessage") != want.get("message"):
            yield f"no error, wanted {want}"
        return
    message = want.get("message") or want.get("message_contains")
    if message and (message not in error.message if want.get("message_contains") else message != error.message):
        yield f"error message: {error.message!r}, wanted {message!r}"
    if isinstance(want.get("status"), str):
        want = {**want, "type": want["status"], "status": want.get("code")}  # a word for a status is the type (contract P16)
    for name in ("code", "type", "status"):
        found = error.kind.replace("_", "-") if name == "code" and isinstance(error, FramingError) else getattr(error, name)
        if name in want and (want[name] is not None or error.verdict is Verdict.PROVIDER_ERROR) and found != want[name]:
            yield f"error {name}: {found!r}, wanted {want[name]!r}"


def beside_differences(expect: Json, reading: Reading) -> Iterator[str]:
    """
    What only some cases say.
    """
    response = reading.response
    if expect.get("choices"):
        ours = [(part.text, part.finish_reason_raw, len(part.tool_calls)) for part in (response, *response.alternatives)]
        theirs = [(choice["text"] or "", choice["finish_reason"], len(choice["tool_calls"])) for choice in expect["choices"]]
        if ours != theirs:
            yield f"choices: {ours!r:.200}, wanted {theirs!r:.200}"
    if expect.get("logprob_tokens") is not None:
        tokens = sum(len(entries) for entries in response.metadata.get("logprobs", {}).values())
        if tokens != expect["logprob_tokens"]:
            yield f"logprobs: {tokens}, wanted {expect['logprob_tokens']}"
    if expect.get("audio"):
        yield from audio_differences(expect["audio"], reading)
    if expect.get("server_tools") and all("has_output" in tool for tool in expect["server_tools"]):
        ours_tools = {event.kind for event in reading.events if isinstance(event, ServerToolStart)}
        answered = any(isinstance(event, ServerToolResult) for event in reading.events)
        if ours_tools != {tool["type"] for tool in expect["server_tools"]} or answered != any(tool["has_output"] for tool in expect["server_tools"]):
            yield f"server tools: {ours_tools}, answered {answered}"


def audio_differences(want: Json, reading: Reading) -> Iterator[str]:
    """
    The spoken answer: all its pieces as events, and joined on the response if it ended.
    """
    pieces = [event for event in reading.events if isinstance(event, MediaPartial)]
    told = (pieces[0].item_id, "".join(piece.transcript or "" for piece in pieces), sum(len(base64.b64decode(piece.data or "")) for piece in pieces))
    if told != (want["id"], want["transcript"], want["bytes"]):
        yield f"audio pieces: {told}, wanted {want}"
    if reading.error is None:
        (media,) = reading.response.media
        if (media.item_id, media.transcript, hashlib.sha256(media.content).hexdigest()) != (want["id"], want["transcript"], want["sha256"]):
            yield f"audio: {media.item_id} {media.transcript!r} {len(media.content)} bytes, wanted {want}"


# --- fault cases ----------------------------------------------------------------------------------------------------------------------------------


def fault_is_here(facts: Json, dialects: Sequence[str]) -> bool:
    """
    Whether a case is about bytes alone (not about time and connections) and of one of these dialects.
    """
    return "scenario" not in facts and "ends" not in facts and facts["dialect"] in dialects


def fault_case(facts: Json) -> Case:
    """
    A fault case as a body.
    """
    body = _fault_body(facts)
    http = facts["http"]
    headers = {name: value for name, value in (http.get("headers") or {}).items() if name.lower() != "content-encoding"}
    if headers != (http.get("headers") or {}):
        body = gzip.decompress(body)
    return Case(
        facts["id"], facts["dialect"], body, facts["expect"], http.get("status", 200), http.get("content_type"), headers, facts.get("options") or {}
    )


def _fault_body(facts: Json) -> bytes:
    if "wire_b64" in facts:
        return base64.b64decode(facts["wire_b64"])
    if "wire_parts" in facts:
        return b"".join(_part(part) * int(part.get("times", part.get("repeat", 1))) for part in facts["wire_parts"])
    return str(facts["wire"]).encode()


def _part(part: Json) -> bytes:
    return base64.b64decode(part["b64"]) if "b64" in part else str(part.get("text") or part.get("wire") or "").encode()


_FAULT_OUTCOMES: Mapping[Verdict, frozenset[str]] = {
    Verdict.COMPLETE: frozenset({"completed"}),
    Verdict.INCOMPLETE_FINISH: frozenset({"completed"}),
    Verdict.INCOMPLETE_STREAM: frozenset({"incomplete", "error"}),
    Verdict.HTTP_STATUS: frozenset({"http_error", "error"}),
    Verdict.CONTENT_TYPE: frozenset({"http_error", "error"}),
    Verdict.ABORTED: frozenset({"aborted"}),
}


def fault_differences(case: Case, reading: Reading) -> list[str]:
    """
    Everything in which a reading is not what a fault case asserts; a key that is missing asserts nothing.
    """
    expect, response = case.expect, reading.response
    wrong: list[str] = []

    def equal(what: str, got: Any, want: Any) -> None:
        if got != want:
            wrong.append(f"{what}: {got!r:.200}, wanted {want!r:.200}")

    fits = _FAULT_OUTCOMES.get(reading.verdict, frozenset({"error"}))
    if expect.get("outcome") and expect["outcome"] not in fits and response.finish_reason is not FinishReason.OTHER:
        wrong.append(f"outcome: {reading.verdict}, wanted {expect['outcome']}")
    if "history_committed" in expect:
        equal("committable", response.committable, expect["history_committed"])
    for name in ("text", "thinking", "refusal"):
        if name in expect:
            equal(name, getattr(response, name), expect[name] or "")
    if "text_parts" in expect:
        parts = (part["text"] * int(part.get("times", 1)) if isinstance(part, dict) else part for part in expect["text_parts"])
        equal("text", response.text, "".join(parts))
    if "text_length" in expect:
        equal("text length", len(response.text), expect["text_length"])
    if "finish_reason" in expect and reading.error is None:
        equal("finish reason", response.finish_reason, expect["finish_reason"])
    if "finish_reason_raw" in expect:
        equal("finish reason", response.finish_reason_raw, expect["finish_reason_raw"])
    if "tool_calls" in expect:
        equal("tool calls", len(response.tool_calls), len(expect["tool_calls"]))
        for got, want in zip(response.tool_calls, expect["tool_calls"], strict=False):
            wrong += fault_call_differences(got, want)
    usage = response.usage
    for name, value in (expect.get("usage") or {}).items():
        if value is not None:
            equal(f"usage {name}", getattr(usage, name, None), value)
    for want_citation in expect.get("citations") or ():
        if not any(all(getattr(part, key, None) == value for key, value in want_citation.items()) for part in response.citations):
            wrong.append(f"no citation {want_citation}")
    if "citations_count" in expect:
        equal("citations", len(response.citations), expect["citations_count"])
    wrong += fault_error_differences(expect.get("error"), reading)
    for name, group in (("safety_events_min", "SAFETY"), ("raw_events_min", "RAW")):
        count = sum(group in (event.group, event.type) for event in reading.events)
        if count < expect.get(name, 0):
            wrong.append(f"{count} {group} events, wanted {expect[name]}")
    terminal = {"on_completed": None, "on_error": True}
    if "terminal" in expect:
        equal("terminal", reading.error is not None or None, terminal[expect["terminal"]])
    if expect.get("error_event"):
        equal("error event", isinstance(reading.events[-1], ErrorEvent), True)
    return wrong


def fault_call_differences(got: ToolCall, want: Json) -> Iterator[str]:
    pairs: list[tuple[str, Any, Any]] = [(key, getattr(got, key), want[key]) for key in ("id", "name") if want.get(key) is not None]
    if want.get("id_generated"):
        pairs.append(("a local id", is_local_id(got.id), True))
    if "arguments" in want:
        pairs.append(("arguments", got.arguments, want["arguments"] or ({} if want["arguments"] is not None else None)))
    if want.get("arguments_raw") is not None:
        pairs.append(("arguments text", got.arguments_text, want["arguments_raw"]))
    for key, value in (want.get("metadata") or {}).items():
        pairs.append((f"metadata {key}", (got.metadata or {}).get(key), value))
    for what, ours, theirs in pairs:
        if ours != theirs:
            yield f"tool call {what}: {ours!r:.200}, wanted {theirs!r:.200}"


def fault_error_differences(want: Json | None, reading: Reading) -> Iterator[str]:
    error = reading.error
    if not want:
        if reading.verdict is Verdict.COMPLETE and error is not None:
            yield f"an error on a complete answer: {error!r}"
        return
    if error is None:
        yield f"no error, wanted {want}"
        return
    if want.get("message") and want["message"] != error.message:
        yield f"error message: {error.message!r}, wanted {want['message']!r}"
    if want.get("code") is not None and str(want["code"]) not in (str(error.code), str(error.type), str(error.status)):
        yield f"error code: {error.code!r}, wanted {want['code']!r}"
    for ours, theirs in (("status", "status"), ("retry_after", "retry_after_s"), ("retryable", "retryable")):
        if want.get(theirs) is not None and getattr(error, ours) != want[theirs]:
            yield f"error {ours}: {getattr(error, ours)!r}, wanted {want[theirs]!r}"
