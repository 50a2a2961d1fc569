"""
The sources of a Gemini answer: citations, and what Google's search found.

A citation of something that was found (a SearchResultPart of the same url and title) is a support of its chunk, any other one a source of citationMetadata.
Everything found is cited, in the order it was found; the further places of each come behind.
"""

from __future__ import annotations

from typing import Any

from rxchat.outgoing.common import drop_none
from rxchat.response import CitationPart, Part, SearchResultPart, TextPart
from rxchat.testing.wires.base import cannot_say
from rxchat.testing.wires.saying import byte_range, refuse_fields

__all__ = ["sources"]

NAME = "gemini"

Json = dict[str, Any]


def sources(parts: tuple[Part, ...]) -> Json:
    """
    The fields of the last candidate that name sources.
    """
    found = [part for part in parts if isinstance(part, SearchResultPart)]
    chunks = [(part.url, part.title) for part in found]
    texts = {k: _before(parts, k) for k, part in enumerate(parts) if isinstance(part, CitationPart)}
    cited = [(part, texts[k]) for k, part in enumerate(parts) if isinstance(part, CitationPart)]
    plain = [_source(part, text) for part, text in cited if (part.url, part.title) not in chunks]
    grounded = [(part, text) for part, text in cited if (part.url, part.title) in chunks]
    said: Json = {"citationMetadata": {"citationSources": plain}} if plain else {}
    return said | ({"groundingMetadata": _grounding(found, chunks, grounded)} if found else {})


def _before(parts: tuple[Part, ...], end: int) -> str:
    return "".join(part.text for part in parts[:end] if isinstance(part, TextPart))


def _source(part: CitationPart, text: str) -> Json:
    if part.quoted is not None:
        raise cannot_say(NAME, "a citation with quoted words", "only one of a SearchResultPart of the same url and title has them")
    _refuse(part)
    place = byte_range(NAME, part, text)
    named = {"uri": part.url, "title": part.title}
    where = {} if place is None else {"startIndex": place[0], "endIndex": place[1]}
    return where | drop_none(**named)


def _refuse(part: CitationPart) -> None:
    if part.file is not None or part.index is not None:
        raise cannot_say(NAME, "a citation with file or index")


def _grounding(found: list[SearchResultPart], chunks: list[tuple[str | None, str | None]], cited: list[tuple[CitationPart, str]]) -> Json:
    _refuse_order(chunks, [(part.url, part.title) for part, _ in cited])
    queries = {part.query for part in found}
    if len(queries) > 1:
        raise cannot_say(NAME, "search results of several queries")
    for part in found:
        refuse_fields(NAME, part, "snippet")
    query = queries.pop()
    supports = [_support(part, text, chunks.index((part.url, part.title))) for part, text in cited if part.quoted is not None or part.end is not None]
    said: Json = {"webSearchQueries": [query]} if query else {}
    said["groundingChunks"] = [{"web": {"uri": url, "title": title}} for url, title in chunks]
    return said | ({"groundingSupports": supports} if supports else {})


def _refuse_order(chunks: list[tuple[str | None, str | None]], cited: list[tuple[str | None, str | None]]) -> None:
    if cited[: len(chunks)] != chunks or len(set(chunks)) != len(chunks):
        raise cannot_say(NAME, "these sources", "each SearchResultPart is cited by one CitationPart of the same url and title, in their order")


def _support(part: CitationPart, text: str, chunk: int) -> Json:
    _refuse(part)
    place = byte_range(NAME, part, text)
    segment: Json = {} if place is None else {"startIndex": place[0], "endIndex": place[1]}
    return {"segment": segment | ({"text": part.quoted} if part.quoted else {}), "groundingChunkIndices": [chunk]}
