"""
Pure readers of the fields OpenAI's chat dialect and its compatibles have beside the text: usage, citations, search hits, safety, media, signatures.

They read tolerantly: what has not the expected shape says nothing.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterator, Mapping
from typing import Any

from rxchat.dialects.base import integer, mapping, sequence, string
from rxchat.events import Citation, ContentFilter, MediaDone, SearchResult

__all__ = [
    "annotations",
    "cited",
    "filters",
    "image",
    "joined_base64",
    "moderations",
    "read_usage",
    "search_hits",
    "signature_of",
    "spoken",
    "usage_formula",
]

# --- usage ----------------------------------------------------------------------------------------------------------------------------------------

# Where each counter may stand, first match wins: a key, or a key within a details object (one provider misspells it).
_PROMPT = ("prompt_tokens_details", "input_tokens_details", "prompt_token_details")
_COMPLETION = ("completion_tokens_details", "output_tokens_details", "completion_token_details")
_PLACES: Mapping[str, tuple[tuple[str, ...], tuple[str, ...], tuple[str, ...]]] = {
    "input_tokens": ((), (), ("prompt_tokens", "input_tokens")),
    "output_tokens": ((), (), ("completion_tokens", "output_tokens")),
    "cache_read_tokens": (
        _PROMPT,
        ("cached_tokens", "cache_read_tokens", "cache_read_input_tokens"),
        ("prompt_cache_hit_tokens", "cached_tokens", "num_cached_tokens", "cache_read_input_tokens"),
    ),
    "cache_write_tokens": (
        _PROMPT,
        ("cache_write_tokens", "cache_creation_tokens", "cache_creation_input_tokens"),
        ("cache_creation_input_tokens", "cache_write_tokens"),
    ),
    "reasoning_tokens": (_COMPLETION, ("reasoning_tokens",), ("reasoning_tokens",)),
    "total_tokens": ((), (), ("total_tokens",)),
}


def read_usage(raw: Mapping[str, Any]) -> dict[str, int | None]:
    """
    The wire's counts under our names.
    """
    return {name: _count(raw, *places) for name, places in _PLACES.items()}


def _count(raw: Mapping[str, Any], details: tuple[str, ...], inner: tuple[str, ...], outer: tuple[str, ...]) -> int | None:
    for holder in details:
        within = raw.get(holder)
        for key in inner if within else ():
            number = integer(mapping(within).get(key))
            if number is not None:
                return number
    for key in outer:
        number = integer(raw.get(key))
        if number is not None:
            return number
    return None


def usage_formula(wire: Mapping[str, int]) -> dict[str, int | None]:
    """
    As sent, but for one provider (contract P4): xAI does not count reasoning in completion_tokens, and its total says so.
    """
    counts: dict[str, int | None] = dict(wire)
    prompt, output, reasoning, total = (wire.get(name) for name in ("input_tokens", "output_tokens", "reasoning_tokens", "total_tokens"))
    if prompt is not None and output is not None and reasoning and total == prompt + output + reasoning:
        counts["output_tokens"] = output + reasoning
    return counts


# --- citations ------------------------------------------------------------------------------------------------------------------------------------


def cited(urls: Any, hits: Any) -> Iterator[Citation]:
    """
    Top-level `citations`, texts or objects, with the title the search results beside them give; then the hits the markers in the text count as well.
    """
    titles = {hit["url"]: string(hit.get("title")) for hit in sequence(hits) if isinstance(hit, dict) and string(hit.get("url"))}
    for item in sequence(urls):
        url = string(item) or string(mapping(item).get("url"))
        if url:
            yield Citation(url=url, title=string(mapping(item).get("title")) or titles.get(url))
    for url, title in titles.items():
        yield Citation(url=url, title=title)


def search_hits(hits: Any) -> Iterator[SearchResult]:
    """
    Search results as objects with url, title, snippet (or content).
    """
    for hit in sequence(hits):
        said = mapping(hit)
        if string(said.get("url")):
            snippet = string(said.get("snippet")) or string(said.get("content"))
            yield SearchResult(url=said["url"], title=string(said.get("title")), snippet=snippet)


def annotated(items: Any, choice: int) -> Iterator[Citation]:
    """
    `annotations` of a delta: {"url_citation": {...}}, flat ones, file citations. An annotations object (not a list) says nothing about sources.
    """
    for item in sequence(items):
        outer = mapping(item)
        said = next((outer[key] for key in ("url_citation", "file_citation", "file_path") if isinstance(outer.get(key), dict)), outer)
        url, file = string(said.get("url")), string(said.get("filename")) or string(said.get("file_id"))
        if url or file:
            quoted = string(said.get("content")) or string(said.get("summary")) or string(said.get("quote"))
            start, end = _range(said)
            yield Citation(url, string(said.get("title")), quoted, file, None, start, end, choice)


def _range(said: Mapping[str, Any]) -> tuple[int | None, int | None]:
    """
    Where the text leans on the source; 0 to 0 is what routers say when they do not know.
    """
    start, end = integer(said.get("start_index")), integer(said.get("end_index"))
    return (None, None) if not end else (start, end)


# --- safety ---------------------------------------------------------------------------------------------------------------------------------------


def filters(results: Any, choice: int) -> Iterator[ContentFilter]:
    """
    One `content_filter_results` object: {"hate": {"filtered": false, "severity": "safe"}, ...}; `filtered` means that it was withheld.
    """
    for category, said in mapping(results).items():
        if not isinstance(said, dict):
            continue
        if category == "error":
            if string(said.get("message")):
                yield ContentFilter("error", said["message"], False, choice)
            continue
        word = string(said.get("severity")) or ("detected" if said.get("detected") is True else None)
        yield ContentFilter(category, word, said.get("filtered") is True, choice)


def moderations(said: Any) -> Iterator[ContentFilter]:
    """
    The categories a moderation chunk flags, of the input and of the output; it withholds nothing.
    """
    for side, outcome in mapping(said).items():
        for result in sequence(mapping(outcome).get("results")):
            if mapping(result).get("flagged") is True:
                yield from (ContentFilter(name, side) for name, flagged in mapping(mapping(result).get("categories")).items() if flagged is True)


# --- media and signatures -------------------------------------------------------------------------------------------------------------------------


def image(part: Any, choice: int) -> MediaDone | None:
    """
    {"image_url": {"url": ...}} as media: base64 of a data URL, else the URL.
    """
    holder = mapping(part).get("image_url")
    url = string(holder) or string(mapping(holder).get("url"))
    if url is None:
        return None
    head, comma, data = url.partition(",")
    if comma and head.startswith("data:") and head.endswith(";base64"):
        return MediaDone("image", head[5:-7] or None, data, choice=choice)
    return MediaDone("image", url=url, choice=choice)


def joined_base64(pieces: list[str]) -> str:
    """
    Pieces of base64 as one; each may end in its own padding.
    """
    if all(len(piece) % 4 == 0 and not piece.endswith("=") for piece in pieces[:-1]):
        return "".join(pieces)
    try:
        return base64.b64encode(b"".join(base64.b64decode(piece) for piece in pieces)).decode()
    except binascii.Error:
        return "".join(pieces)


def signature_of(delta: Mapping[str, Any]) -> str | None:
    """
    Gemini's seal over a message: `extra_content.google.thought_signature`, or flat.
    """
    google = mapping(mapping(delta.get("extra_content")).get("google"))
    return string(google.get("thought_signature")) or string(delta.get("thought_signature"))


def spoken(value: Any) -> str:
    """
    The words of a thinking part: a text, or a list of text parts.
    """
    if isinstance(value, list):
        return "".join(spoken(item) for item in value)
    return (string(value) or string(mapping(value).get("text"))) or ""
