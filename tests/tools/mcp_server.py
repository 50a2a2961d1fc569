"""
A small MCP server, run as a process of its own: `python mcp_server.py`, or with `http PORT`.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import anyio
from mcp.server.mcpserver import Image, MCPServer
from mcp.server.mcpserver.exceptions import ToolError

server = MCPServer("fixture", log_level="ERROR")


@server.tool()
def add(a: int, b: int = 1) -> int:
    """Add two numbers."""
    return a + b


@server.tool()
def where() -> dict[str, Any]:
    """Tell who is asked."""
    return {"pid": os.getpid(), "home": os.environ.get("RXCHAT_TEST", ""), "cwd": str(Path.cwd())}


@server.tool()
def picture() -> Image:
    """Show a picture."""
    return Image(data=b"\x89PNG\r\n\x1a\n0000", format="png")


@server.tool(name="fails/hard")
def fails() -> str:
    """Fail."""
    raise ToolError("no such city")


@server.tool()
async def stuck() -> str:
    """Never answer."""
    await anyio.sleep_forever()
    return ""


@server.tool()
def crash() -> str:
    """End the process."""
    os._exit(3)


if __name__ == "__main__":
    if sys.argv[1:2] == ["http"]:
        server.run("streamable-http", host="127.0.0.1", port=int(sys.argv[2]))
    else:
        server.run("stdio")
