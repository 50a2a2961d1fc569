"""
Tools of a real MCP server, over stdio and HTTP.
"""

from __future__ import annotations

import asyncio
import errno
import os
import socket
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import attrs
import mcp
import pytest

from rxchat.errors import ConfigurationError, ConnectError
from rxchat.response import MediaPart, TextPart
from rxchat.tools import Deny, Tool, ToolFailure, ToolOutcome, ToolSet, mcp_tools, run_call, run_calls
from rxchat.tools.mcp_sessions import _answer
from tests.tools.calling import a_call

SERVER = str(Path(__file__).with_name("mcp_server.py"))
COMMAND = [sys.executable, SERVER]


async def ask(tools: tuple[Tool[..., Any], ...], tool_name: str, /, **arguments: Any) -> ToolOutcome:
    """
    Run one tool by name.
    """
    return await run_call(ToolSet.of(tools).runnable[tool_name], a_call(tool_name, **arguments))


async def ended(pid: int) -> bool:
    """
    Whether this process is gone, after some time at most.
    """
    for _ in range(100):
        try:
            os.kill(pid, 0)
        except OSError as error:
            return error.errno == errno.ESRCH
        await asyncio.sleep(0.02)
    return False


async def test_stdio(tmp_path: Path) -> None:
    """
    The server's tools by name, schema and description; results as text, JSON and media; errors as errors. Afterwards neither process nor task is left.
    """
    before = asyncio.all_tasks()
    async with mcp_tools(COMMAND, env={"RXCHAT_TEST": "x"}, cwd=str(tmp_path)) as tools:
        specs = {item.name: item.spec for item in tools}
        assert list(specs) == ["add", "where", "picture", "fails_hard", "stuck", "crash"]
        assert specs["add"].description == "Add two numbers."
        assert specs["add"].parameters["required"] == ["a"]
        assert (await ask(tools, "add", a=2, b=3)).result == "5"
        where = (await ask(tools, "where")).result
        assert (where["home"], where["cwd"]) == ("x", str(tmp_path))
        assert (await ask(tools, "picture")).result == [MediaPart("image", "image/png", data="iVBORw0KGgowMDAw")]
        failed = await ask(tools, "fails_hard")
        assert failed.failure is ToolFailure.REPORTED
        assert "no such city" in failed.result
        wrong = await ask(tools, "add", a="x")
        assert wrong.failure is ToolFailure.INVALID_ARGUMENTS
        assert "at /a" in wrong.result
        both = await run_calls([a_call("add", "1", a=1), a_call("add", "2", a=2)], ToolSet.of(tools))
        assert [outcome.result for outcome in both] == ["2", "3"]
    assert await ended(where["pid"])
    assert asyncio.all_tasks() == before
    assert (await ask(tools, "add", a=1)).failure is ToolFailure.RAISED


async def test_prefix_timeout_and_permission() -> None:
    """
    A tool that does not answer in time is given up, and the session goes on; what the hook denies never reaches the server.
    """
    async with mcp_tools(COMMAND, prefix="my.", timeout=1.0) as tools:
        assert (await ask(tools, "my_stuck")).failure is ToolFailure.TIMEOUT
        assert (await ask(tools, "my_add", a=1)).result == "2"
    async with mcp_tools(" ".join(COMMAND), authorize=lambda request: Deny("no")) as tools:
        assert (await ask(tools, "crash")).failure is ToolFailure.UNAUTHORIZED


async def test_a_server_that_dies() -> None:
    """
    The running call and all later ones are error results; the block around them goes on and ends well.
    """
    async with mcp_tools(COMMAND) as tools:
        pid = (await ask(tools, "where")).result["pid"]
        crashed = await ask(tools, "crash")
        assert (crashed.failure, crashed.is_error) == (ToolFailure.RAISED, True)
        assert "the MCP server failed" in crashed.result
        assert (await ask(tools, "add", a=1)).failure is ToolFailure.RAISED
    assert await ended(pid)


async def test_cancelled_inside() -> None:
    """
    Cancellation of the block ends the server, too, and an exception inside comes out as it is.
    """
    pids: list[int] = []
    inside = asyncio.Event()

    async def use() -> None:
        async with mcp_tools(COMMAND) as tools:
            pids.append((await ask(tools, "where")).result["pid"])
            inside.set()
            await ask(tools, "stuck")

    task = asyncio.create_task(use())
    await inside.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert await ended(pids[0])
    with pytest.raises(KeyError, match="mine"):
        async with mcp_tools(COMMAND):
            raise KeyError("mine")


@pytest.mark.parametrize(
    ("server", "error", "words"),
    [
        (["/nonexistent/server"], ConnectError, "No such file"),
        ([sys.executable, "-c", "pass"], ConnectError, "Connection closed"),
        ([sys.executable, "-c", "import time; time.sleep(60)"], ConnectError, "did not answer within"),
        ("http://127.0.0.1:9/mcp", ConnectError, "no session"),
        ([], ConfigurationError, "empty"),
        ("", ConfigurationError, "empty"),
    ],
)
async def test_no_session(server: Any, error: type[Exception], words: str) -> None:
    """
    It is told at once, or after the time to connect, and nothing is left running.
    """
    before = asyncio.all_tasks()
    with pytest.raises(error, match=words):
        async with mcp_tools(server, connect_timeout=1.0):
            pass
    assert asyncio.all_tasks() == before


async def test_without_the_package(monkeypatch: pytest.MonkeyPatch) -> None:
    """
    The error says what to install.
    """
    monkeypatch.setitem(sys.modules, "mcp", None)
    with pytest.raises(ConfigurationError, match=r"rxchat\[mcp\]"):
        async with mcp_tools(COMMAND):
            pass


@asynccontextmanager
async def served() -> AsyncIterator[str]:
    """
    The server over HTTP: its address.
    """
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    process = await asyncio.create_subprocess_exec(*COMMAND, "http", str(port), stderr=asyncio.subprocess.DEVNULL)
    try:
        yield f"http://127.0.0.1:{port}/mcp"
    finally:
        process.kill()
        await process.wait()


async def reachable(url: str) -> None:
    """
    Wait until somebody listens there.
    """
    port = int(url.split(":")[2].split("/")[0])
    for _ in range(200):
        try:
            _, writer = await asyncio.open_connection("127.0.0.1", port)
        except OSError:
            await asyncio.sleep(0.05)
        else:
            writer.close()
            await writer.wait_closed()
            return
    raise TimeoutError(url)


async def test_http() -> None:
    """
    Streamable HTTP, with headers of one's own and without; and a session that was open already is used and stays open.
    """
    async with served() as url:
        await reachable(url)
        async with mcp_tools(url) as tools:
            assert (await ask(tools, "add", a=1)).result == "2"
        async with mcp_tools(url, headers={"authorization": "Bearer x"}) as tools:
            assert (await ask(tools, "add", a=2)).result == "3"
        async with mcp.Client(url) as client:
            for open_already in (client, client.session):
                async with mcp_tools(open_already) as tools:
                    assert (await ask(tools, "add", a=3)).result == "4"
            assert (await client.call_tool("add", {"a": 4})).content[0].text == "5"  # type: ignore[union-attr]


@attrs.frozen
class Page:
    """
    A page of a listing.
    """

    tools: tuple[Any, ...]
    next_cursor: str | None


class Session:
    """
    A session that is open already: two pages of tools, or none.
    """

    session = None

    def __init__(self, fails: bool = False) -> None:
        self.fails = fails

    async def list_tools(self, cursor: str | None = None) -> Page:
        if self.fails:
            raise ExceptionGroup("several", [OSError("no list")])
        name = "second" if cursor else "first"
        return Page((mcp.Tool(name=name, input_schema={"type": "object"}),), None if cursor else "next")

    async def call_tool(self, name: str, arguments: dict[str, Any]) -> Any:
        return mcp.types.CallToolResult(content=[mcp.types.TextContent(text=name)])


async def test_pages() -> None:
    """
    All pages of a listing count, and a listing that fails is told.
    """
    async with mcp_tools(Session()) as tools:
        assert [item.name for item in tools] == ["first", "second"]
        assert (await ask(tools, "second")).result == "second"
    with pytest.raises(ConnectError, match="no list"):
        async with mcp_tools(Session(fails=True)):
            pass


class Listing(Session):
    """
    One that lists tools of these names.
    """

    def __init__(self, *names: str) -> None:
        self.names = names

    async def list_tools(self, cursor: str | None = None) -> Page:
        return Page(tuple(mcp.Tool(name=name, input_schema={"type": "object"}) for name in self.names), None)


LONG = "x" * 64
ALIKE: list[tuple[tuple[str, ...], str, list[str]]] = [
    (("a.b", "c.d"), "", ["a_b", "c_d"]),
    (("a.b", "a b"), "", ["a_b_2e7336dc", "a_b_c8687a08"]),
    (("a.b", "a_b"), "", ["a_b_2e7336dc", "a_b"]),
    (("a.b", "a_b"), "p.", ["p_a_b_2e7336dc", "p_a_b_648fa9b3"]),
    ((f"{LONG}1", f"{LONG}2", LONG), "", [f"{LONG[:55]}_39d1a733", f"{LONG[:55]}_964dfbaf", LONG]),
    (("a", "", "a"), "p_", ["p_a"]),
]


@pytest.mark.parametrize(("names", "prefix", "expected"), ALIKE, ids=range(len(ALIKE)))
@pytest.mark.parametrize("turned", [False, True])
async def test_names_that_become_alike(names: tuple[str, ...], prefix: str, expected: list[str], turned: bool) -> None:
    """
    Each tool has a name of its own, whatever the order, and the server is asked by the name it knows; one without a name, or listed twice, is left out.
    """
    listing = Listing(*(reversed(names) if turned else names))
    async with mcp_tools(listing, prefix=prefix) as tools:
        asked = [(await ask(tools, item.name)).result for item in tools]
    by_name = dict(zip(asked, [item.name for item in tools], strict=True))
    assert [by_name[name] for name in dict.fromkeys(filter(None, names))] == expected


async def test_what_is_left_out_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    """
    One line each.
    """
    async with mcp_tools(Listing("a", "", "a")) as tools:
        assert [item.name for item in tools] == ["a"]
    expected = ["an MCP server lists a tool without a name; it is left out", "an MCP server lists a tool 'a' twice; it is left out"]
    assert [record.message for record in caplog.records if record.name == "rxchat.tools"] == expected


class Endless(Session):
    """
    One whose pages never end, and whose calls fail with too many words.
    """

    async def list_tools(self, cursor: str | None = None) -> Page:
        await asyncio.sleep(0)
        return Page((), "again")

    async def call_tool(self, name: str, arguments: dict[str, Any]) -> Any:
        raise ExceptionGroup("several", [OSError("no, with api_key=abc123")])


async def test_a_listing_without_end() -> None:
    """
    It is given up after the time to connect.
    """
    with pytest.raises(ConnectError, match=r"did not list its tools within 0\.05 s"):
        async with mcp_tools(Endless(), connect_timeout=0.05):
            pass


async def test_what_a_server_fails_with_keeps_its_secrets() -> None:
    """
    Its words are masked as those of any other tool.
    """
    session = Session()
    async with mcp_tools(session) as tools:
        session.call_tool = Endless().call_tool  # type: ignore[method-assign]
        assert (await ask(tools, "first")).result == "error: first failed: the MCP server failed: OSError: no, with api_key=[key]"


TEXT = {"type": "text", "text": "a"}
RESULTS: list[tuple[dict[str, Any], Any]] = [
    ({"content": []}, ""),
    ({"content": [TEXT]}, "a"),
    ({"content": [TEXT, TEXT]}, "a\na"),
    ({"content": [{"type": "text", "text": '{"n": 1}'}], "structuredContent": {"n": 1}}, {"n": 1}),
    ({"content": [TEXT], "structuredContent": {"result": "a"}}, "a"),
    ({"content": [], "structuredContent": {"n": 1}}, {"n": 1}),
    ({"content": [TEXT, {"type": "audio", "data": "AA==", "mimeType": "audio/wav"}]}, [TextPart("a"), MediaPart("audio", "audio/wav", data="AA==")]),
    ({"content": [{"type": "resource", "resource": {"uri": "file:///a/b.txt", "text": "in it"}}]}, "in it"),
    (
        {"content": [{"type": "resource", "resource": {"uri": "file:///a/b.pdf", "blob": "AA==", "mimeType": "application/pdf"}}]},
        [MediaPart("file", "application/pdf", data="AA==", name="b.pdf")],
    ),
    (
        {"content": [{"type": "resource", "resource": {"uri": "file:///a/b.png", "blob": "AA==", "mimeType": "image/png"}}]},
        [MediaPart("image", "image/png", data="AA==", name="b.png")],
    ),
    ({"content": [{"type": "resource_link", "uri": "file:///a", "name": "a"}]}, "a: file:///a"),
]


@pytest.mark.parametrize(("wire", "expected"), RESULTS, ids=range(len(RESULTS)))
@pytest.mark.parametrize("is_error", [False, True])
def test_results(wire: dict[str, Any], expected: Any, is_error: bool) -> None:
    """
    Text as text, media as media, structured content where the text is only its copy or missing; an error stays one.
    """
    answer = _answer(mcp.types.CallToolResult.model_validate({**wire, "isError": is_error}))
    assert (expected, is_error) == (answer.result, answer.is_error)
