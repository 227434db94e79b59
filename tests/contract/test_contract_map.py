"""The sentence of `Publisher.entry`, held in memory and on a real server: what the shared bucket holds."""

import pytest
from harness.natsd import running
from publishing import publishing
from worlds import MemoryWorld

from shipper.errors import BucketRefused
from shipper.jetstream.kv_bucket import JetStreamBucket
from shipper.jetstream.publisher import JetStreamPublisher
from shipper.model import Entry
from shipper.settings import NatsSettings
from shipper.subjects import map_key

KEY = map_key("logs")
RIGHTS = """
authorization {{ users [
  {{ user: host, password: host, permissions: {{
     publish: [ "logs.*.web1", "$JS.API.DIRECT.GET.*.logs.*.web1" ], subscribe: "_INBOX_web1.>" }} }}
] }}
"""


async def store(world, key: str, *values: bytes) -> int:
    """The revision of the last of `values`."""
    if isinstance(world, MemoryWorld):
        world.bus.entries[key] = Entry(len(values), values[-1])
        return len(values)
    bucket = await JetStreamBucket.open(world.settings, name="test")
    revisions = [await bucket.put(key, value) for value in values]
    await bucket.close()
    return revisions[-1] or 0


async def test_nothing_is_there_without_a_bucket_or_an_entry(world) -> None:
    async with publishing(world) as session:
        assert await session.entry(KEY) is None
        await store(world, "map.others", b"x")
        assert await session.entry(KEY) is None


async def test_the_newest_value_is_read_with_its_revision(world) -> None:
    revision = await store(world, KEY, b"one", b"two")
    async with publishing(world) as session:
        assert await session.entry(KEY) == Entry(revision, b"two")


async def test_a_missing_right_to_read_the_bucket_is_reported(tmp_path) -> None:
    rights = RIGHTS.replace("{{", "{").replace("}}", "}")
    with running(tmp_path / "natsd", extra=rights) as server:
        settings = NatsSettings(url=server.url, user="host", password="host")
        session = await JetStreamPublisher.begin(settings, stream="LOGS_0", host="web1", block_bytes=4096)
        with pytest.raises(BucketRefused):
            await session.entry(KEY)
        await session.close()
