"""
Conversations in Redis, for many machines.

One hash a conversation, under `prefix` and its name, without expiry; each change is one Lua script on that key, so it is atomic whoever else is at work, and a
cluster may spread the names. What a commit that returned survives is the server's own setting:

| server | the server is killed | its machine loses power |
|---|---|---|
| `appendonly yes`, `appendfsync always` | yes | yes |
| `appendonly yes`, `appendfsync everysec` (Redis's default with a log) | yes | up to about a second of commits may be gone |
| snapshots only, or nothing | what came behind the last snapshot is gone | the same |

Replicas follow asynchronously: a failover may lose the last commits whatever the setting. `maxmemory-policy` must be `noeviction`, or Redis itself may throw
conversations away. Where the reply of a commit is lost with its connection, it is sent once more: a request id is stored once. Where that of another change is
lost, a SupersededError may mean that the change itself was made: load and look.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from rxchat.errors import ConfigurationError, StoreError
from rxchat.outgoing.addresses import masked_url
from rxchat.stores.base import HistoryStore, Written

if TYPE_CHECKING:
    from redis.asyncio import Redis

__all__ = ["RedisStore"]

# Fields of the hash: epoch, listed, count; turn:<n> and id:<n> of the n-th turn; request:<id> = n. A server without memory refuses the first write
# of a script and none behind it, so nothing is half done.
_HELPERS = """
local key = KEYS[1]
local function number(field) return tonumber(redis.call('HGET', key, field) or '0') end
local epoch = number('epoch')
local function dropped(from)
  local fields = {}
  for n = from, number('count') - 1 do
    local id = redis.call('HGET', key, 'id:' .. n)
    fields[#fields + 1] = 'turn:' .. n
    fields[#fields + 1] = 'id:' .. n
    fields[#fields + 1] = 'request:' .. id
  end
  return fields
end
local function forget(fields)
  for _, field in ipairs(fields) do redis.call('HDEL', key, field) end
end
local function kept(wanted)
  local count = number('count')
  if wanted == '' or tonumber(wanted) > count then return count end
  return tonumber(wanted)
end
"""

_SCRIPTS: Mapping[str, str] = {
    "commit": """
local at = redis.call('HGET', key, 'request:' .. ARGV[3])
if at then return {'there', epoch, redis.call('HGET', key, 'turn:' .. at)} end
if epoch ~= tonumber(ARGV[1]) then return {'stale', epoch, ''} end
local count = kept(ARGV[2])
local gone = dropped(count)
redis.call('HSET', key, 'turn:' .. count, ARGV[4], 'id:' .. count, ARGV[3], 'request:' .. ARGV[3], count, 'count', count + 1, 'epoch', epoch + 1, 'listed', 1)
for _, field in ipairs(gone) do
  if field ~= 'turn:' .. count and field ~= 'id:' .. count then redis.call('HDEL', key, field) end
end
return {'fresh', epoch + 1, ''}
""",
    "truncate": """
if epoch ~= tonumber(ARGV[1]) then return {'stale', epoch, ''} end
local count = kept(ARGV[2])
local gone = dropped(count)
redis.call('HSET', key, 'count', count, 'epoch', epoch + 1)
forget(gone)
return {'there', epoch + 1, ''}
""",
    "supersede": """
return redis.call('HINCRBY', key, 'epoch', 1)
""",
    "branch": """
if number('listed') == 1 then return 0 end
redis.call('HSET', key, 'epoch', epoch + 1, 'listed', 1, 'count', #ARGV / 2)
for n = 0, #ARGV / 2 - 1 do
  local id = ARGV[2 * n + 1]
  redis.call('HSET', key, 'turn:' .. n, ARGV[2 * n + 2], 'id:' .. n, id, 'request:' .. id, n)
end
return 1
""",
    "delete": """
local was = number('listed')
local gone = dropped(0)
redis.call('HSET', key, 'epoch', epoch + 1, 'listed', 0, 'count', 0)
forget(gone)
return was
""",
}


class RedisStore(HistoryStore):
    """
    Conversations in the Redis at `url`, or behind a `redis.asyncio.Redis` of yours that stays yours; needs the extra `redis`.

    Keys are `prefix` and the name. A store belongs to one event loop. Close it when it is done.
    """

    def __init__(self, url: str = "redis://localhost:6379", *, prefix: str = "rxchat:", client: Redis | None = None) -> None:
        try:
            import redis.asyncio as redis
        except ImportError as fault:
            raise ConfigurationError("a RedisStore needs the package redis: pip install 'rxchat[redis]'") from fault
        self.faults = (redis.RedisError, OSError)
        self._lost = (redis.ConnectionError, redis.TimeoutError)
        self._own = client is None
        try:
            self._client: Any = redis.from_url(url) if client is None else client
        except ValueError as fault:
            raise ConfigurationError(f"{masked_url(url)} is no Redis URL: {fault}") from None
        self._place = masked_url(url) if client is None else "redis"
        self._prefix = prefix
        self._scripts = {name: self._client.register_script(_HELPERS + text) for name, text in _SCRIPTS.items()}

    @property
    def place(self) -> str:
        """
        The URL, its secrets masked.
        """
        return self._place

    async def aclose(self) -> None:
        """
        Close the connections, unless they are yours.
        """
        if self._own:
            await self._client.aclose()

    async def _script(self, script: str, name: str, *args: Any) -> Any:
        return await self._scripts[script](keys=[self._prefix + name], args=args)

    async def _load(self, name: str) -> tuple[int, list[str | bytes]]:
        fields = await self._client.hgetall(self._prefix + name)
        read = {_bytes(field): _bytes(value) for field, value in fields.items()}
        count = int(read.get(b"count", b"0"))
        missing = next((n for n in range(count) if b"turn:%d" % n not in read), None)
        if missing is not None:
            raise StoreError(f"{self._place}: turn {missing} of {name!r} is missing")
        return int(read.get(b"epoch", b"0")), [read[b"turn:%d" % n] for n in range(count)]

    async def _commit(self, name: str, epoch: int, keep: int | None, request_id: str, record: str) -> Written:
        args = (epoch, "" if keep is None else keep, request_id, record)
        try:
            said = await self._script("commit", name, *args)
        except self._lost:
            # It may have happened or not; asking again does no harm.
            said = await self._script("commit", name, *args)
        return _written(said, record)

    async def _truncate(self, name: str, epoch: int, keep: int) -> Written:
        return _written(await self._script("truncate", name, epoch, keep), "")

    async def _supersede(self, name: str) -> int:
        return int(await self._script("supersede", name))

    async def _branch(self, name: str, new: str, keep: int | None) -> bool:
        fields = {_bytes(field): _bytes(value) for field, value in (await self._client.hgetall(self._prefix + name)).items()}
        count = int(fields.get(b"count", b"0"))
        numbers = range(count if keep is None else min(keep, count))
        args = [value for n in numbers for value in (fields[b"id:%d" % n], fields[b"turn:%d" % n])]
        return bool(await self._script("branch", new, *args))

    async def _names(self) -> list[str]:
        prefix = self._prefix.encode()
        keys = {_bytes(key) async for key in self._client.scan_iter(match=_glob(self._prefix) + "*", _type="hash")}
        listed = [key for key in keys if _bytes(await self._client.hget(key, "listed") or b"0") == b"1"]
        return [key.removeprefix(prefix).decode() for key in listed]

    async def _delete(self, name: str) -> bool:
        return bool(await self._script("delete", name))


def _bytes(value: str | bytes) -> bytes:
    """
    A client of the caller's may decode by itself.
    """
    return value.encode() if isinstance(value, str) else value


def _written(said: Any, record: str) -> Written:
    word, epoch, there = _bytes(said[0]), int(said[1]), said[2]
    fresh = word == b"fresh"
    return Written(epoch, record if fresh else there, fresh=fresh, stale=word == b"stale")


def _glob(text: str) -> str:
    return "".join(f"\\{letter}" if letter in "*?[]\\^-" else letter for letter in text)
