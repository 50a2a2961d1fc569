"""
The mock transports of httpx and httpx2, which the peers are built on.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from importlib import import_module
from typing import Any

from benchmarks.subjects import Place

__all__ = ["http_of", "mocked", "mocked_sync"]

_HEADERS = {"content-type": "text/event-stream"}


def http_of(sdk: Any) -> Any:
    """
    The HTTP library a provider's package sits on: httpx or httpx2.
    """
    return import_module(next(base.__module__.split(".")[0] for base in sdk.DefaultAsyncHttpxClient.__mro__ if base.__module__.startswith("httpx")))


def mocked(http: Any, place: Place) -> Any:
    """
    A client whose every answer is the stream, in its reads.
    """

    async def reads() -> AsyncIterator[bytes]:
        for read in place.reads:
            yield read

    return http.AsyncClient(transport=http.MockTransport(lambda request: http.Response(200, headers=_HEADERS, content=reads())))


def mocked_sync(http: Any, place: Place) -> Any:
    """
    The same without a loop.
    """

    def reads() -> Iterator[bytes]:
        yield from place.reads

    return http.Client(transport=http.MockTransport(lambda request: http.Response(200, headers=_HEADERS, content=reads())))
