"""
What Gemini's answers lean on: grounding, citations, URL contexts, and the places in the text they belong to.

    groundingMetadata    {"groundingChunks": [{"web" | "retrievedContext" | "maps": {"uri", "title", "text"}}],
                          "groundingSupports": [{"segment": {"startIndex", "endIndex", "text"}, "groundingChunkIndices"}]}
    citationMetadata     {"citationSources" (Gemini) | "citations" (Vertex): [{"startIndex", "endIndex", "uri", "title"}]}
    urlContextMetadata   {"urlMetadata": [{"retrievedUrl"}]}

The wire counts bytes of the answer's UTF-8 and leaves out a start of 0; we count code points, and say nothing where the place is not in the text that has come
or does not hold the words that are quoted. What is repeated from event to event is given once. Grounding chunks are SearchResults; those that support a
segment, or none at all, are Citations too.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from rxchat.dialects.base import integer, mapping, sequence, string
from rxchat.events import ChatEvent, Citation, SearchResult
from rxchat.growingtext import GrowingText

__all__ = ["SOURCED", "PlacedText", "Sources"]

_STEP = 1024
_CONTINUATION = bytes(range(0x80, 0xC0))
_CHUNKS = ("web", "retrievedContext", "maps", "image")
# What of a candidate names sources.
SOURCED = frozenset(("citationMetadata", "groundingMetadata", "urlContextMetadata"))
_QUERIES = ("webSearchQueries", "retrievalQueries", "imageSearchQueries")


class PlacedText(GrowingText):
    """
    A text that comes in pieces, and places in it. A place is found without reading the text up to it, and none of it is copied.
    """

    def __init__(self) -> None:
        super().__init__()
        self._points = [0]  # code points before every _STEP bytes

    def place(self, start: Any, end: Any, quoted: str | None = None) -> tuple[int | None, int | None]:
        """
        A place in bytes of UTF-8 as one in code points; (None, None) where it is unsaid or wrong.
        """
        first, last = integer(start) or 0, integer(end)
        with self.getbuffer() as raw:
            if last is None or not 0 <= first <= last <= len(raw) or any(_inside(raw, at) for at in (first, last)):
                return None, None
            if quoted is not None and not _stands(raw, first, last, quoted.encode()):
                return None, None
            return self._before(raw, first), self._before(raw, last)

    def _before(self, raw: memoryview, at: int) -> int:
        while len(self._points) <= at // _STEP:
            known = len(self._points) * _STEP
            self._points.append(self._points[-1] + _begun(raw, known - _STEP, known))
        return self._points[at // _STEP] + _begun(raw, at - at % _STEP, at)


def _begun(raw: memoryview, start: int, end: int) -> int:
    """
    How many code points begin there.
    """
    return len(bytes(raw[start:end]).translate(None, _CONTINUATION))


def _inside(raw: memoryview, at: int) -> bool:
    return at < len(raw) and raw[at] in _CONTINUATION


def _stands(raw: memoryview, first: int, last: int, quoted: bytes) -> bool:
    return len(quoted) == last - first and quoted == bytes(raw[first:last])


class Sources:
    """
    The sources of one candidate.
    """

    def __init__(self, choice: int) -> None:
        self.said = PlacedText()  # the answer so far
        self._choice = choice
        self._chunks: list[Any] = []
        self._seen: set[ChatEvent] = set()

    def read(self, candidate: Mapping[str, Any]) -> Iterator[ChatEvent]:
        """
        The new sources of one event of a candidate.
        """
        for event in self._all(candidate):
            if event not in self._seen:
                self._seen.add(event)
                yield event

    def _all(self, candidate: Mapping[str, Any]) -> Iterator[ChatEvent]:
        cited = mapping(candidate.get("citationMetadata"))
        for source in (*sequence(cited.get("citationSources")), *sequence(cited.get("citations"))):
            yield self._citation(mapping(source), mapping(source))
        yield from self._grounding(mapping(candidate.get("groundingMetadata")))
        for page in sequence(mapping(candidate.get("urlContextMetadata")).get("urlMetadata")):
            url = string(mapping(page).get("retrievedUrl"))
            if url:
                yield Citation(url, choice=self._choice)

    def _grounding(self, said: Mapping[str, Any]) -> Iterator[ChatEvent]:
        queries = [query for key in _QUERIES for query in sequence(said.get(key))]
        query = string(queries[0]) if len(queries) == 1 else None
        chunks = sequence(said.get("groundingChunks"))
        self._chunks = chunks or self._chunks
        for chunk in map(_source, chunks):
            yield SearchResult(string(chunk.get("uri")), string(chunk.get("title")), string(chunk.get("text")), query)
        supports = [mapping(support) for support in sequence(said.get("groundingSupports"))]
        used = {k: support for support in reversed(supports) for k in _indices(support)}
        # In the order of the chunks, so that sources stand as the provider listed them; then the further places of each.
        for k, chunk in enumerate(map(_source, chunks)):
            yield self._citation(chunk, mapping(mapping(used.get(k)).get("segment")))
        for support in supports:
            for k in _indices(support):
                if 0 <= k < len(self._chunks):
                    yield self._citation(_source(self._chunks[k]), mapping(support.get("segment")))

    def _citation(self, source: Mapping[str, Any], place: Mapping[str, Any]) -> Citation:
        quoted = string(place.get("text")) if place is not source else None
        start, end = self.said.place(place.get("startIndex"), place.get("endIndex"), quoted) if "endIndex" in place else (None, None)
        file = string(source.get("documentName")) or string(source.get("fileSearchStore"))
        return Citation(string(source.get("uri")), string(source.get("title")), quoted, file, None, start, end, self._choice)


def _indices(support: Mapping[str, Any]) -> list[int]:
    return [k for said in sequence(support.get("groundingChunkIndices")) if (k := integer(said)) is not None]


def _source(chunk: Any) -> Mapping[str, Any]:
    return next((said for key in _CHUNKS if (said := mapping(mapping(chunk).get(key)))), {})
