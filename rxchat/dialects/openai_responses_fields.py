"""
Objects of the Responses protocol as events: citations, search results, images, findings of filters; and its token counts. Pure functions.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from rxchat.dialects.base import integer, mapping, sequence, string
from rxchat.events import Citation, ContentFilter, MediaDone, MediaPartial, SearchResult

__all__ = ["citation", "filtered", "item_media", "partial_image", "read_usage", "search_results"]

# The first characters of base64 tell the format where the wire does not.
BASE64_STARTS = {"iVBOR": "image/png", "/9j/": "image/jpeg", "UklGR": "image/webp", "R0lGO": "image/gif"}


def citation(raw: Mapping[str, Any], block: int) -> Citation:
    """
    An annotation of the text block `block`: of a URL, or of a file (then `file` is its id and `title` its name).

    A file citation has one position, `index`, which is where it begins.
    """
    start = integer(raw.get("start_index"))
    return Citation(
        url=string(raw.get("url")),
        title=string(raw.get("title")) or string(raw.get("filename")),
        file=string(raw.get("file_id")),
        index=block,
        start=integer(raw.get("index")) if start is None else start,
        end=integer(raw.get("end_index")),
    )


def search_results(item: Mapping[str, Any]) -> Iterator[SearchResult]:
    """
    The hits a finished search item lists: sources of a web search, results of a file search. Both only come if the request asked for them.
    """
    action = mapping(item.get("action"))
    if item.get("type") == "web_search_call":
        for source in map(mapping, sequence(action.get("sources"))):
            yield SearchResult(url=string(source.get("url")), title=string(source.get("title")), query=string(action.get("query")))
    if item.get("type") == "file_search_call":
        query = next(filter(None, map(string, sequence(item.get("queries")))), None)
        for hit in map(mapping, sequence(item.get("results"))):
            yield SearchResult(title=string(hit.get("filename")), snippet=string(hit.get("text")), query=query)


def item_media(item: Mapping[str, Any], item_id: str | None) -> Iterator[MediaDone]:
    """
    The images of a finished item: of image generation its result, of the code interpreter its outputs.
    """
    result = string(item.get("result"))
    if result and item.get("type") == "image_generation_call":
        yield MediaDone("image", image_mime(item, result), result, item_id=item_id)
    if item.get("type") == "code_interpreter_call":
        for output in map(mapping, sequence(item.get("outputs"))):
            url = string(output.get("url"))
            if url and output.get("type") == "image":
                yield _at_url(url, item_id)


def partial_image(value: Mapping[str, Any], item_id: str | None) -> MediaPartial | None:
    """
    One state of an image that is still being made; None if the frame has none.
    """
    data = string(value.get("partial_image_b64"))
    return (
        MediaPartial("image", image_mime(value, data), data, item_id=item_id, partial_index=integer(value.get("partial_image_index")))
        if data
        else None
    )


def image_mime(raw: Mapping[str, Any], data: str) -> str | None:
    """
    The type the wire names, else the one the data begin with, else None.
    """
    named = string(raw.get("output_format"))
    return f"image/{named}" if named else next((mime for start, mime in BASE64_STARTS.items() if data.startswith(start)), None)


def _at_url(url: str, item_id: str | None) -> MediaDone:
    head, comma, data = url.partition(",")
    if head.startswith("data:") and comma and head.endswith(";base64"):
        return MediaDone("image", head[len("data:") : -len(";base64")] or None, data, item_id=item_id)
    return MediaDone("image", url=url, item_id=item_id)


def filtered(response: Mapping[str, Any]) -> Iterator[ContentFilter]:
    """
    What filters found in prompt and answer: Azure's `content_filters`, of which an entry may have blocked, and OpenAI's `moderation`, which only tells.
    """
    for entry in map(mapping, sequence(response.get("content_filters"))):
        for category, finding in mapping(entry.get("content_filter_results")).items():
            said = mapping(finding)
            if said.get("filtered") is True or said.get("detected") is True:
                yield ContentFilter(category, string(said.get("severity")), entry.get("blocked") is True and said.get("filtered") is True)
    for side, finding in mapping(response.get("moderation")).items():
        for category, found in mapping(mapping(finding).get("categories")).items():
            if found is True:
                yield ContentFilter(category, side)


def read_usage(raw: Mapping[str, Any]) -> Mapping[str, int | None]:
    """
    The counters as sent: they always add up on this wire (contract P4).
    """
    given, made = mapping(raw.get("input_tokens_details")), mapping(raw.get("output_tokens_details"))
    return {
        "input_tokens": integer(raw.get("input_tokens")),
        "output_tokens": integer(raw.get("output_tokens")),
        "total_tokens": integer(raw.get("total_tokens")),
        "cache_read_tokens": integer(given.get("cached_tokens")),
        "cache_write_tokens": integer(given.get("cache_write_tokens")),
        "reasoning_tokens": integer(made.get("reasoning_tokens")),
    }
