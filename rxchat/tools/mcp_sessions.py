"""
The tools of an MCP server, run like any other. The official client (extra `mcp`) speaks the protocol; it is imported when it is needed.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
import re
import shlex
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any

from rxchat import strictjson
from rxchat.errors import ConfigurationError, ConnectError, InvalidJSONError, ToolError
from rxchat.prompt import ToolSpec
from rxchat.response import MediaPart, TextPart
from rxchat.tools.answers import ToolAnswer
from rxchat.tools.declared import Tool
from rxchat.tools.invoking import stop
from rxchat.tools.permission import Authorize
from rxchat.tools.running import explain_error

__all__ = ["mcp_tools"]

_log = logging.getLogger("rxchat.tools")

# The client itself bounds each wait of its shutdown (a server that does not end is killed); this only keeps a mistake there from becoming ours.
_CLOSING = 15.0


@asynccontextmanager
async def mcp_tools(
    server: Any,
    *,
    prefix: str = "",
    env: Mapping[str, str] | None = None,
    cwd: str | None = None,
    headers: Mapping[str, str] | None = None,
    timeout: float | None = 60.0,
    connect_timeout: float = 30.0,
    authorize: Authorize | None = None,
) -> AsyncIterator[tuple[Tool[..., Any], ...]]:
    """
    The tools of a server while the session lasts; afterwards the session is closed, and a server started here has ended.

    `server` is a command (a list, or one line), an http(s) URL, or whatever `mcp.Client` takes; a client or session that is open already is used and left
    open. `prefix` goes before each tool's name, of which characters that providers refuse become `_`; names that are then alike, or too long alike, end with a
    hash. `env` and `cwd` are for a command, `headers` for a URL; `timeout` bounds a run, and before it the check of its arguments, `connect_timeout` the start
    and the listing of the tools, each; in seconds. ConfigurationError without the extra `mcp`, ConnectError if there is no session.

    A server one does not trust can cost time by its schemas: checks that go on for long are left behind, but still need the processor until they end, and a
    `pattern` that backtracks without end holds the interpreter, and with it the loop, whatever the timeout.
    """
    if hasattr(server, "call_tool") and hasattr(server, "list_tools") and not hasattr(server, "streamable_http_app"):
        yield await _listed(server, prefix, timeout, authorize, connect_timeout)
        return
    holder = _Holder(_client(server, env, cwd, headers))
    try:
        client = await holder.start(connect_timeout)
        yield await _listed(client, prefix, timeout, authorize, connect_timeout)
    finally:
        await holder.aclose()


class _Holder:
    """
    A task of its own in which the session lives: what the client cancels when a server breaks is this task, not the one that uses the tools.
    """

    def __init__(self, client: Any) -> None:
        self._client = client
        self._closing = asyncio.Event()
        self._ready: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._task = asyncio.create_task(self._hold())

    async def start(self, seconds: float) -> Any:
        """
        The connected client; ConnectError if it does not come about in time.
        """
        await asyncio.wait({self._task, self._ready}, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
        if self._ready.done():
            return self._client
        if not self._task.done():
            raise ConnectError(f"the MCP server did not answer within {seconds:g} s")
        error = None if self._task.cancelled() else self._task.exception()
        raise ConnectError(f"there is no session with the MCP server: {_words(error)}") from error

    async def aclose(self) -> None:
        """
        End the session; what it fails with now is nobody's concern any more.
        """
        self._closing.set()
        if self._ready.done():
            await asyncio.wait({self._task}, timeout=_CLOSING)
        await stop(self._task, grace=_CLOSING)

    async def _hold(self) -> None:
        async with self._client:
            self._ready.set_result(None)
            await self._closing.wait()


def _words(error: BaseException | None) -> str:
    """
    The first thing that went wrong, in one line.
    """
    if error is None:
        return "it ended at once"
    error = _first(error)
    return f"{type(error).__name__}: {next(iter(str(error).splitlines()), '')}"


def _first(error: BaseException) -> BaseException:
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error


def _client(server: Any, env: Mapping[str, str] | None, cwd: str | None, headers: Mapping[str, str] | None) -> Any:
    try:
        import mcp
    except ImportError as error:
        raise ConfigurationError('mcp_tools needs the package mcp: pip install "rxchat[mcp]"') from error
    if isinstance(server, str) and server.startswith(("http://", "https://")):
        return mcp.Client(_with_headers(server, headers) if headers else server)
    if isinstance(server, str):
        server = shlex.split(server)
    if not isinstance(server, Sequence):
        return mcp.Client(server)
    if not server:
        raise ConfigurationError("the command of the MCP server is empty")
    command, *args = map(str, server)
    return mcp.Client(mcp.StdioServerParameters(command=command, args=args, env=dict(env) if env else None, cwd=cwd))


@asynccontextmanager
async def _with_headers(url: str, headers: Mapping[str, str]) -> AsyncIterator[Any]:
    import httpx2
    from mcp.client.streamable_http import streamable_http_client

    # A server may think for long before it says anything; the tools have their own timeout.
    http = httpx2.AsyncClient(headers=dict(headers), timeout=httpx2.Timeout(30, read=300))
    async with http, streamable_http_client(url, http_client=http) as streams:
        yield streams


async def _listed(client: Any, prefix: str, timeout: float | None, authorize: Authorize | None, seconds: float) -> tuple[Tool[..., Any], ...]:
    """
    The server's tools; ConnectError for one that does not name them in time, or goes on for ever.
    """
    try:
        async with asyncio.timeout(seconds):
            return await _tools_of(client, prefix, timeout, authorize)
    except TimeoutError:
        raise ConnectError(f"the MCP server did not list its tools within {seconds:g} s") from None


async def _tools_of(client: Any, prefix: str, timeout: float | None, authorize: Authorize | None) -> tuple[Tool[..., Any], ...]:
    """
    All tools the server lists, page by page.
    """
    found: list[Any] = []
    cursor: str | None = None
    while True:
        page = await _page(client, cursor)
        found += page.tools
        cursor = page.next_cursor
        if not cursor:
            return tuple(_tool(client, item, name, timeout, authorize) for name, item in _named(found, prefix).items())


async def _page(client: Any, cursor: str | None) -> Any:
    try:
        if hasattr(client, "session"):
            return await client.list_tools(cursor=cursor)
        from mcp.types import PaginatedRequestParams

        return await client.list_tools(params=PaginatedRequestParams(cursor=cursor))
    except Exception as error:
        raise ConnectError(f"the MCP server does not list its tools: {_words(error)}") from error


_NO_NAME = re.compile(r"[^a-zA-Z0-9_-]")


def _named(found: Iterable[Any], prefix: str) -> Mapping[str, Any]:
    """
    Tools by the names a model calls them by: no two alike, and the same ones in whatever order they are listed.
    """
    items: dict[str, Any] = {}
    for item in found:
        if not item.name or item.name in items:
            _log.warning("an MCP server lists a tool %s; it is left out", f"{item.name!r} twice" if item.name else "without a name")
        else:
            items[item.name] = item
    clean = {name: _NO_NAME.sub("_", prefix + name)[:64] for name in items}
    often = Counter(clean.values())
    return {cut if often[cut] == 1 or cut == prefix + name else _hashed(cut, name): items[name] for name, cut in clean.items()}


def _hashed(cut: str, name: str) -> str:
    return f"{cut[:55]}_{hashlib.sha256(name.encode(errors='backslashreplace')).hexdigest()[:8]}"


def _tool(client: Any, item: Any, name: str, timeout: float | None, authorize: Authorize | None) -> Tool[..., Any]:
    spec = ToolSpec(name, item.description or item.title or "", dict(item.input_schema))
    return Tool(_remote(client, item.name), spec, timeout=timeout, authorize=authorize)


def _remote(client: Any, name: str) -> Callable[..., Any]:
    async def call(**arguments: Any) -> ToolAnswer:
        try:
            result = await client.call_tool(name, arguments)
        except Exception as error:
            raise ToolError(f"the MCP server failed: {explain_error(_first(error))}") from error
        return _answer(result)

    return call


# --- results --------------------------------------------------------------------------------------------------------------------------------------


def _answer(result: Any) -> ToolAnswer:
    """
    The server's content as our parts. Its structured content counts where the text is only its copy, or where there is nothing else.
    """
    parts = [_PARTS.get(item.type, _unknown)(item) for item in result.content]
    structured = result.structured_content
    if structured is not None and (not parts or (len(parts) == 1 and isinstance(parts[0], TextPart) and _says(parts[0].text, structured))):
        return ToolAnswer(structured, result.is_error)
    if all(isinstance(part, TextPart) for part in parts):
        return ToolAnswer("\n".join(part.text for part in parts if isinstance(part, TextPart)), result.is_error)
    return ToolAnswer(parts, result.is_error)


def _says(text: str, value: Any) -> bool:
    try:
        return bool(strictjson.loads(text) == value)
    except InvalidJSONError:
        return False


def _resource(item: Any) -> TextPart | MediaPart:
    content = item.resource
    text = getattr(content, "text", None)
    if text is not None:
        return TextPart(text)
    name = str(content.uri).rpartition("/")[2] or None
    kind = (content.mime_type or "").partition("/")[0]
    return MediaPart(kind if kind in ("image", "audio", "video") else "file", content.mime_type, data=content.blob, name=name)


def _unknown(item: Any) -> TextPart:
    return TextPart(strictjson.dumps(item.model_dump(mode="json", exclude_none=True)))


_PARTS: Mapping[str, Callable[[Any], TextPart | MediaPart]] = {
    "text": lambda item: TextPart(item.text),
    "image": lambda item: MediaPart("image", item.mime_type, data=item.data),
    "audio": lambda item: MediaPart("audio", item.mime_type, data=item.data),
    "resource": _resource,
    "resource_link": lambda item: TextPart(f"{item.title or item.name}: {item.uri}"),
}
