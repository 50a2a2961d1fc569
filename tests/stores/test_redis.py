"""
The Redis store: its keys, its failures, its scripts.
"""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest

from rxchat.errors import ConfigurationError, StoreError, Verdict
from rxchat.stores import RedisStore
from tests.stores.places import RedisServer, redis_server
from tests.stores.saying import said, turn

redis = pytest.importorskip("redis.asyncio")


@pytest.fixture
def server(tmp_path: Path) -> Iterator[RedisServer]:
    """
    A server of the test's own.
    """
    with redis_server(tmp_path) as running:
        yield running


@pytest.fixture
async def client(server: RedisServer) -> AsyncIterator[Any]:
    """
    A client that looks into it.
    """
    async with redis.from_url(server.url) as opened:
        yield opened


@pytest.fixture
async def store(server: RedisServer) -> AsyncIterator[RedisStore]:
    """
    The store.
    """
    async with RedisStore(server.url, prefix="t[1]:") as opened:
        yield opened


async def test_one_key_a_conversation_that_never_expires(store: RedisStore, client: Any) -> None:
    """
    Under the prefix; keys of others are neither read nor listed.
    """
    await client.set("t1:other", "x")
    await store.commit("talk", turn("a"), epoch=0)
    assert sorted(await client.keys("*")) == [b"t1:other", b"t[1]:talk"]
    assert await client.ttl("t[1]:talk") == -1
    assert await store.names() == ("talk",)


async def test_what_is_dropped_is_gone(store: RedisStore, client: Any) -> None:
    """
    No field of a dropped turn stays, so its request id is free and memory is given back.
    """
    for epoch, request_id in enumerate("abc"):
        await store.commit("talk", turn(request_id), epoch=epoch)
    await store.commit("talk", turn("d"), epoch=3, keep=1)
    fields = {b"epoch", b"listed", b"count", b"turn:0", b"turn:1", b"id:0", b"id:1", b"request:a", b"request:d"}
    assert set(await client.hkeys("t[1]:talk")) == fields
    await store.delete("talk")
    assert set(await client.hkeys("t[1]:talk")) == {b"epoch", b"listed", b"count"}


async def test_scripts_the_server_forgot_are_sent_again(store: RedisStore, client: Any) -> None:
    """
    A restarted server knows no script by its hash.
    """
    await store.commit("talk", turn("a"), epoch=0)
    await client.script_flush()
    await store.commit("talk", turn("b"), epoch=1)
    assert said(await store.load("talk")) == ["a", "b"]


async def test_a_client_of_the_callers_stays_open(server: RedisServer, client: Any) -> None:
    """
    Also one that decodes by itself; the store does not close it.
    """
    async with redis.from_url(server.url, decode_responses=True) as decoding:
        for mine in (client, decoding):
            async with RedisStore(client=mine) as store:
                await store.commit("talk", turn("a"), epoch=0)
                assert said(await store.load("talk")) == ["a"]
                await store.branch("talk", "copy") if mine is client else await store.delete("copy")
                assert store.place == "redis"
            assert await mine.ping() is True


async def foreign_list(client: Any) -> None:
    """
    A key of another kind.
    """
    await client.rpush("t[1]:talk", "x")


async def foreign_hash(client: Any) -> None:
    """
    A hash with other values in our fields.
    """
    await client.hset("t[1]:talk", mapping={"epoch": "soon", "count": "many"})


async def test_foreign_keys_under_the_prefix(store: RedisStore, client: Any) -> None:
    """
    What is no conversation is not listed, and keeps nobody from listing the others.
    """
    await store.commit("talk", turn("a"), epoch=0)
    await client.set("t[1]:text", "x")
    await client.rpush("t[1]:list", "x")
    await client.hset("t[1]:hash", "field", "x")
    assert await store.names() == ("talk",)


async def damaged(client: Any) -> None:
    """
    A turn that is no UTF-8.
    """
    await client.hset("t[1]:talk", mapping={"epoch": 1, "count": 1, "listed": 1, "turn:0": b"\xff\xfe", "id:0": "a", "request:a": 0})


async def gap(client: Any) -> None:
    """
    A turn that is missing.
    """
    await client.hset("t[1]:talk", mapping={"epoch": 1, "count": 2, "listed": 1, "turn:0": "{}", "id:0": "a", "request:a": 0})


@pytest.mark.parametrize("spoil", [foreign_list, foreign_hash, damaged, gap])
async def test_records_that_cannot_be_read(store: RedisStore, client: Any, spoil: Any) -> None:
    """
    StoreError that names place and conversation, never a shorter history.
    """
    await spoil(client)
    with pytest.raises(StoreError, match="talk") as caught:
        await store.load("talk")
    assert (store.place in str(caught.value), caught.value.verdict) == (True, Verdict.STORE)


async def test_a_server_without_memory_writes_nothing(store: RedisStore, client: Any) -> None:
    """
    Redis refuses the write, the history is as it was.
    """
    await store.commit("talk", turn("a"), epoch=0)
    before = await store.load("talk")
    await client.config_set("maxmemory", "1")
    for work in (store.commit("talk", turn("b"), epoch=1, keep=0), store.branch("talk", "copy")):
        with pytest.raises(StoreError, match="memory"):
            await work
    assert await store.load("talk") == before
    await client.config_set("maxmemory", "0")
    assert (await store.commit("talk", turn("b"), epoch=1)).fresh is True


async def test_a_server_that_is_gone(tmp_path: Path) -> None:
    """
    StoreError with its cause; the password of the URL is not in it.
    """
    with redis_server(tmp_path) as server:
        store = RedisStore(f"redis://user:hunter2@127.0.0.1:{server.port}")
        await store.aclose()
    client = redis.Redis(port=server.port, retry=None)
    async with RedisStore(client=client) as gone:
        for work in (gone.load("talk"), gone.commit("talk", turn("a"), epoch=0), gone.names()):
            with pytest.raises(StoreError) as caught:
                await work
            assert caught.value.__cause__ is not None
    await client.aclose()
    assert "hunter2" not in store.place


@pytest.mark.parametrize("url", ["http://localhost", "localhost:6379", "redis://:pw@host:port"])
def test_what_is_no_url(url: str) -> None:
    """
    Told at once.
    """
    with pytest.raises(ConfigurationError, match="Redis URL") as caught:
        RedisStore(url)
    assert "pw" not in str(caught.value)


def test_without_the_package(monkeypatch: pytest.MonkeyPatch) -> None:
    """
    The error names the extra.
    """
    monkeypatch.setitem(sys.modules, "redis.asyncio", None)
    with pytest.raises(ConfigurationError, match=r"rxchat\[redis\]"):
        RedisStore()
