"""
What a provider says when it fails, read out of every shape of error object seen: HTTP bodies and in-stream errors alike.

    {"error": {"message", "type", "code"}}      OpenAI and most of its compatibles; Anthropic; Gemini ("status" is its type)
    {"error": "text"}                           Hugging Face, Baseten, Ollama; with "error_type" Cohere
    {"message", "type", "code"}                 flat: Cerebras; "object": "error": Mistral, vLLM; "reason": Hugging Face; "request_id": DashScope
    {"detail": "text"} or [{"loc", "msg"}]      validation errors
    {"errors": [...]}, [{"error": ...}]         lists: the first speaks, the rest is joined
    metadata.raw, a JSON string                 what stands behind a router; kept apart as `upstream`
    HTML, plain text, an event stream           only a title or the first words are taken
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

import attrs

from rxchat.errors import RETRYABLE_STATUS, InvalidJSONError, ProviderError
from rxchat.strictjson import loads

__all__ = ["ErrorInfo", "error_in", "flat_error", "provider_error", "read_error", "read_error_body", "stray_error"]

# Of a message no more is kept than a person reads; the whole object stays in `raw`.
MAX_MESSAGE = 4096
# Of a page or plain text there is no message, only its first words.
MAX_SNIPPET = 300

_MESSAGES = ("message", "Message", "msg", "error_message", "error_description", "detail", "details", "title", "reason")
_TYPES = ("type", "error_type", "__type", "status", "kind")
_STATUSES = ("status", "status_code", "statusCode", "http_status", "code")
_REQUEST_IDS = ("request_id", "requestId", "requestID")

# Codes that beside a message mean no failure.
_GOOD = (None, "", 0, "0", 200, "200")

# Words of providers for "try again"; compared whole, in lower case.
_RETRYABLE_WORDS = frozenset(
    {
        "api_error",
        "capacity_exceeded",
        "deadline_exceeded",
        "engine_overloaded",
        "engine_overloaded_error",
        "internal",
        "internal_error",
        "internal_server_error",
        "internalservererror",
        "internalserverexception",
        "modelstreamerrorexception",
        "overloaded",
        "overloaded_error",
        "rate_limit",
        "rate_limit_error",
        "rate_limit_exceeded",
        "ratelimitreached",
        "resource_exhausted",
        "server_error",
        "server_is_overloaded",
        "service_unavailable",
        "service_unavailable_error",
        "serviceunavailableexception",
        "throttling",
        "throttlingexception",
        "timeout",
        "timeout_error",
        "too_many_requests",
        "unavailable",
    }
)


@attrs.frozen
class ErrorInfo:
    """
    What a failure's body says; None where it says nothing.

    `code` and `type` as sent; `status` is an HTTP number; `retry_after` in seconds; `upstream` is the body of the provider behind a router; `raw` the object.
    """

    message: str | None = None
    code: str | int | None = None
    type: str | None = None
    status: int | None = None
    request_id: str | None = None
    retry_after: float | None = None
    upstream: Any = None
    raw: Any = None

    @property
    def retryable(self) -> bool:
        """
        Whether the provider's own words say that trying again may help.
        """
        words = {str(word).lower() for word in (self.code, self.type) if word is not None}
        return self.status in RETRYABLE_STATUS or not words.isdisjoint(_RETRYABLE_WORDS)


def error_in(value: Any) -> Any:
    """
    The object that holds an error if `value` is one by its shape, else None. `error: null`, empty or false is no error (contract P8).
    """
    if not isinstance(value, dict):
        return None
    if value.get("error"):
        return value
    if "choices" in value:
        return None
    if value.get("object") == "error" or value.get("type") == "error":
        return value
    if isinstance(value.get("detail"), str | list) and value["detail"]:
        return value
    return value if isinstance(value.get("message"), str) and value.get("code") not in _GOOD else None


def flat_error(value: Mapping[str, Any]) -> bool:
    """
    Whether a frame that is nothing else is an error told flat: a message beside a type that says error, or beside a failing status, or a list of errors.
    """
    if isinstance(value.get("message"), str) and value["message"]:
        failing = (_http_number(value.get(key)) or 0 for key in ("status", "statusCode", "status_code"))
        return "error" in str(value.get("type")).lower() or any(number >= 400 for number in failing)
    errors = value.get("errors")
    return isinstance(errors, list) and bool(errors) and isinstance(errors[0], dict) and isinstance(errors[0].get("message"), str)


def provider_error(value: Any, offset: int | None = None) -> ProviderError:
    """
    The error to raise for an in-stream error object.
    """
    info = read_error(value)
    return ProviderError(
        info.message or "the provider reported an error without a message",
        code=info.code,
        type=info.type,
        status=info.status,
        request_id=info.request_id,
        retry_after=info.retry_after,
        retryable=info.retryable,
        raw=value,
        offset=offset,
    )


def stray_error(text: str, depth: int = 128) -> Any:
    """
    The error object in lines of an event stream that are no fields, else None: JSON with an error, or any JSON behind `error:` (contract P8).
    """
    text = text.strip()
    named = text.startswith("error:")
    if not text.removeprefix("error:").lstrip().startswith("{"):
        return None
    try:
        value = loads(text.removeprefix("error:"), depth=depth)
    except InvalidJSONError:
        return None
    return value if named and value else error_in(value)


def read_error(value: Any) -> ErrorInfo:
    """
    Read a parsed error object, whatever its shape.
    """
    if isinstance(value, str):
        return ErrorInfo(message=_bounded(value), raw=value)
    layers = _layers(value)
    return ErrorInfo(
        message=_bounded(_message(layers, value)),
        code=next((code for layer in layers if (code := _code(layer)) is not None), None),
        type=_type(layers),
        status=_status(layers),
        request_id=_first(layers, _REQUEST_IDS),
        retry_after=_retry_after(layers),
        upstream=_upstream(layers),
        raw=value,
    )


def read_error_body(body: bytes) -> ErrorInfo:
    """
    Read the body of a refused HTTP answer: JSON, an event stream, HTML or plain text; never raises.
    """
    try:
        return read_error(loads(_json_bytes(body)))
    except (InvalidJSONError, RecursionError):
        return ErrorInfo(message=_snippet(body.decode("utf-8", "replace")) or None)


# --- objects --------------------------------------------------------------------------------------------------------------------------------------


def _layers(value: Any) -> list[Mapping[str, Any]]:
    """
    The objects that may say something, the most specific first: the error within, then what is around it.
    """
    layers: list[Mapping[str, Any]] = []
    while isinstance(value, list | dict) and len(layers) < 5:
        if isinstance(value, list):
            value = value[0] if value else None
            continue
        layers.insert(0, value)
        within = (value.get("detail"), value.get("message"))
        value = value.get("error") or value.get("errors") or next((inner for inner in within if isinstance(inner, dict)), None)
    return layers


def _message(layers: list[Mapping[str, Any]], value: Any) -> str | None:
    outer = value[0] if isinstance(value, list) and value else value
    if isinstance(outer, dict) and isinstance(outer.get("error"), str) and isinstance(outer.get("message"), str):
        return _text(outer["message"])  # {"error": "Not Found", "message": "the reason"}
    for layer in layers:
        for key in ("error", *_MESSAGES):
            text = _text(layer.get(key))
            if text:
                return text
    return None


def _text(value: Any) -> str | None:
    """
    A message: a text, or the joined texts of a list of validation errors.
    """
    if isinstance(value, str):
        return value.strip() or None
    if isinstance(value, list):
        return "; ".join(filter(None, (_validation(item) for item in value))) or None
    return None


def _validation(item: Any) -> str | None:
    if not isinstance(item, dict):
        return item if isinstance(item, str) else None
    text = item.get("msg") or item.get("message")
    if not isinstance(text, str):
        return None
    where = ".".join(str(step) for step in item["loc"]) if isinstance(item.get("loc"), list) else ""
    return f"{where}: {text}" if where else text


def _code(layer: Mapping[str, Any]) -> str | int | None:
    # Beside a flat message (Cohere) `error_type` is the code; beside a text `error` (text-generation-inference) it is the type.
    code = layer.get("code") if "error" in layer or layer.get("code") else layer.get("error_type")
    if isinstance(code, bool) or not isinstance(code, str | int) or code == "":
        return None
    return code


def _type(layers: list[Mapping[str, Any]]) -> str | None:
    words = (layer.get(key) for layer in layers for key in _TYPES)
    return next((word for word in words if isinstance(word, str) and word and word != "error"), None)


def _status(layers: list[Mapping[str, Any]]) -> int | None:
    numbers = (_http_number(layer.get(key)) for layer in layers for key in _STATUSES)
    return next((number for number in numbers if number is not None), None)


def _http_number(value: Any) -> int | None:
    if isinstance(value, str) and len(value) == 3 and value.isascii() and value.isdigit():
        value = int(value)
    return value if isinstance(value, int) and not isinstance(value, bool) and 400 <= value <= 599 else None


def _first(layers: list[Mapping[str, Any]], keys: Iterable[str]) -> str | None:
    texts = (layer.get(key) for layer in layers for key in keys)
    return next((text for text in texts if isinstance(text, str) and text), None)


def _retry_after(layers: list[Mapping[str, Any]]) -> float | None:
    """
    Seconds, from `retry_after` or a RetryInfo among the details ("12.5s").
    """
    for layer in layers:
        details = layer.get("details")
        hints = [layer.get("retry_after")]
        hints += [detail.get("retryDelay") for detail in details if isinstance(detail, dict)] if isinstance(details, list) else []
        for hint in hints:
            seconds = _seconds(hint)
            if seconds is not None:
                return seconds
    return None


def _seconds(value: Any) -> float | None:
    if isinstance(value, str):
        found = re.fullmatch(r"([0-9]{1,9}(?:\.[0-9]{1,9})?)s?", value)
        return float(found[1]) if found else None
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value < 1e9 else None


def _upstream(layers: list[Mapping[str, Any]]) -> Any:
    for layer in layers:
        metadata = layer.get("metadata")
        raw = metadata.get("raw") if isinstance(metadata, dict) else None
        if isinstance(raw, str) and raw:
            try:
                return loads(raw.encode("utf-8", "surrogatepass"))
            except InvalidJSONError:
                return raw
        if raw is not None:
            return raw
    return None


def _bounded(text: str | None) -> str | None:
    return text[:MAX_MESSAGE] if text else None


# --- bodies ---------------------------------------------------------------------------------------------------------------------------------------


def _json_bytes(body: bytes) -> bytes:
    """
    The JSON of a body, also where it comes as one event of an event stream.
    """
    body = body.removeprefix(b"\xef\xbb\xbf").strip()
    if not body.startswith((b"data:", b"event:", b"id:", b":")):
        return body
    lines = [line[5:].strip() for line in re.split(rb"\r\n|\n|\r", body) if line.startswith(b"data:")]
    return lines[0] if lines else b""


def _snippet(text: str) -> str:
    """
    The title of a page, else its first words.
    """
    # Here: its table of entities takes longer to import than the rest of this module, and hardly any answer is a page.
    from html import unescape

    found = re.search(r"<title[^>]{0,200}>([^<]{1,1000})", text, re.IGNORECASE) or re.search(r"<h1[^>]{0,200}>([^<]{1,1000})", text, re.IGNORECASE)
    if found:
        text = unescape(found[1])
    elif text.lstrip()[:1] == "<":
        text = unescape(re.sub(r"<[^>]{0,2000}>", " ", text))
    # Cut before it is split: a word is an object.
    return " ".join(text.lstrip()[: 10 * MAX_SNIPPET].split())[:MAX_SNIPPET]
