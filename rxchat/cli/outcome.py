"""
What a verdict means outside: the outcome word, the exit code, and the JSON records that commands print.
"""

from __future__ import annotations

from typing import Any

from rxchat.errors import InvalidJSONError, RxchatError, Verdict
from rxchat.response import COUNTERS, ChatResponse, CitationPart, ToolCall, Usage
from rxchat.strictjson import loads

__all__ = ["error_record", "exit_code", "outcome_word", "response_record"]

# Contract section 13; every other verdict is an error.
OUTCOMES = {
    Verdict.COMPLETE: "completed",
    Verdict.INCOMPLETE_FINISH: "incomplete",
    Verdict.INCOMPLETE_STREAM: "incomplete",
    Verdict.CONNECTION_LOST: "incomplete",
    Verdict.ABORTED: "aborted",
    Verdict.CANCELLED: "cancelled",
}

NETWORK = 6
EXIT_CODES = {
    Verdict.COMPLETE: 0,
    Verdict.INCOMPLETE_FINISH: 3,
    Verdict.INCOMPLETE_STREAM: 4,
    Verdict.CONNECTION_LOST: 4,
    Verdict.ABORTED: 4,
    Verdict.HTTP_STATUS: 5,
    Verdict.CONTENT_TYPE: 5,
    Verdict.PROVIDER_ERROR: 5,
    Verdict.CONNECT: NETWORK,
    Verdict.CONNECT_TIMEOUT: NETWORK,
    Verdict.FIRST_EVENT_TIMEOUT: NETWORK,
    Verdict.READ_TIMEOUT: NETWORK,
    Verdict.TOTAL_TIMEOUT: NETWORK,
    Verdict.STORE: 9,
    Verdict.CANCELLED: 130,
}
# The rest: bytes that are not what their protocol promises.
BROKEN = 7


def outcome_word(verdict: Verdict | None) -> str:
    """
    completed, incomplete, error, aborted or cancelled.
    """
    return OUTCOMES.get(verdict, "error") if verdict else "error"


def exit_code(verdict: Verdict | None) -> int:
    """
    0 complete, 3 incomplete finish, 4 broken off, 5 refused by the provider, 6 network, 7 not the protocol, 9 the store failed, 130 cancelled.
    """
    return EXIT_CODES.get(verdict, BROKEN) if verdict else BROKEN


def response_record(response: ChatResponse) -> dict[str, Any]:
    """
    The answer under the names other programs read.
    """
    usage = response.usage or Usage()
    return {
        **_answer(response),
        "usage": {name: getattr(usage, name) for name in COUNTERS},
        "usage_wire": dict(usage.wire),
        "citations": [_citation(part) for part in response.citations],
        "refusal": response.refusal,
        "model": response.model,
        "response_id": response.provider_response_id,
        "alternatives": [_answer(other) for other in response.alternatives],
    }


def _answer(response: ChatResponse) -> dict[str, Any]:
    return {
        "text": response.text,
        "thinking": response.thinking,
        "tool_calls": [_call(call) for call in response.tool_calls],
        "finish_reason": response.finish_reason.value,
        "finish_reason_raw": _wire_word(response.finish_reason_raw),
    }


def _wire_word(raw: str | None) -> str | int | None:
    """
    A finish word as it was on the wire: one of digits alone was a number there (Gemini's integer enums).
    """
    return int(raw) if raw is not None and raw.isascii() and raw.isdigit() else raw


def _call(call: ToolCall) -> dict[str, Any]:
    return {"id": call.id, "name": call.name, "arguments": _arguments(call), "arguments_text": call.arguments_text, "complete": call.complete}


def _arguments(call: ToolCall) -> Any:
    """
    The arguments for reading. A recording also shows those of a call that no finish allowed, if its text is one object: `complete` tells that it may not run.
    """
    if call.arguments is not None or call.kind != "function" or not call.arguments_text:
        return call.arguments
    try:
        found = loads(call.arguments_text)
    except InvalidJSONError:
        return None
    return found if isinstance(found, dict) else None


def _citation(part: CitationPart) -> dict[str, Any]:
    return {"url": part.url, "title": part.title, "quoted": part.quoted, "file": part.file}


def error_record(error: RxchatError | None) -> dict[str, Any] | None:
    """
    What failed, and where in the body.
    """
    if error is None:
        return None
    return {
        "verdict": error.verdict,
        "code": error.code,
        "type": error.type,
        "message": error.message,
        "status": error.status,
        "offset": error.offset,
    }
