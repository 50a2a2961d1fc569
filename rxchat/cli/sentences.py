"""
One clear sentence for every way an answer can fail to come.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from rxchat.errors import ContentTypeError, HTTPStatusError, RxchatError, Verdict
from rxchat.response import ChatResponse, FinishReason

__all__ = ["finish_sentence", "in_flags", "sentence"]

# What is said to programmers, and what to somebody at a command line, which has no flag for a key.
FLAGS = {", or give api_key": "", "base_url": "--base-url", "model is empty": "--model is empty"}

FINISHES = {
    FinishReason.LENGTH: "the answer was cut off at its limit of tokens",
    FinishReason.CONTENT_FILTER: "the answer was held back by the provider's filter",
    FinishReason.REFUSAL: "the model refused to answer",
    FinishReason.PAUSE: "the provider paused in the middle of its turn",
    FinishReason.UNKNOWN: "the answer ended without a finish reason",
}

STATUSES = {
    401: "the provider refused the key",
    403: "the provider does not allow this",
    404: "the provider has no such model, or the address is wrong",
    429: "the provider asks to slow down",
}


def finish_sentence(response: ChatResponse) -> str:
    """
    Why an answer that ended is not whole.
    """
    words = FINISHES.get(response.finish_reason, "the answer ended, but not as an answer")
    return f"{words} (finish reason {response.finish_reason_raw or response.finish_reason})"


def in_flags(words: str) -> str:
    """
    The sentence with the names of the command line's flags.
    """
    for said, flag in FLAGS.items():
        words = words.replace(said, flag)
    return words


def sentence(error: RxchatError) -> str:
    """
    What went wrong.
    """
    words = WORDS.get(error.verdict) if error.verdict else None
    return words(error) if words else str(error)


def _status(error: RxchatError) -> str:
    assert isinstance(error, HTTPStatusError)
    what = STATUSES.get(error.status or 0, "the provider refused")
    wait = f"; it may be asked again in {error.retry_after:g} s" if error.retry_after is not None else ""
    return f"{what} (HTTP {error.status}): {error.message.removeprefix(f'HTTP {error.status} ')}{wait}"


def _content_type(error: RxchatError) -> str:
    assert isinstance(error, ContentTypeError)
    return f"the server does not answer like a provider, is the address right? {error.message}"


def _broken_off(error: RxchatError) -> str:
    return f"the answer broke off before its end: {error}"


def _provider(error: RxchatError) -> str:
    known = [f"{name} {value}" for name in ("status", "code", "type") if (value := getattr(error, name)) is not None]
    facts = f" ({', '.join(known)})" if known else ""
    return f"the provider reported a failure: {error.message}{facts}"


def _not_the_protocol(error: RxchatError) -> str:
    return f"the answer is not what its protocol promises ({error.verdict}): {error}"


WORDS: Mapping[Verdict, Callable[[RxchatError], str]] = {
    Verdict.HTTP_STATUS: _status,
    Verdict.CONTENT_TYPE: _content_type,
    Verdict.INCOMPLETE_STREAM: _broken_off,
    Verdict.CONNECTION_LOST: _broken_off,
    Verdict.PROVIDER_ERROR: _provider,
} | dict.fromkeys((Verdict.PROTOCOL, Verdict.INVALID_JSON, Verdict.INVALID_UTF8, Verdict.FRAMING), _not_the_protocol)
