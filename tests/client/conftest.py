"""
Servers for the tests of the client.
"""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from tests.client.watching import Serve, settled
from tests.loopback import Loopback, Script


@pytest.fixture
async def serve() -> AsyncIterator[Serve]:
    """
    Start servers; all are stopped at the end, and no task of the client may be left then.
    """
    servers: list[Loopback] = []

    async def start(script: Script) -> Loopback:
        servers.append(await Loopback(script).start())
        return servers[-1]

    yield start
    assert await settled() == []
    for server in servers:
        await server.aclose()
