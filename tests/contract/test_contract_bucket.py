"""What the collectors share, on a real server: entries with revisions, and compare-and-set."""

import asyncio
import contextlib
import json

import pytest
from harness.natsd import running
from worlds import soon

from shipper.errors import BucketRefused, SessionLost, StreamMissing, Unavailable
from shipper.jetstream.admin import administration
from shipper.jetstream.kv_bucket import KEYS_A_REQUEST, JetStreamBucket
from shipper.settings import NatsSettings
from shipper.subjects import BUCKET_STREAM, bucket_config, lease_key, member_key, members_of

DENYING = """
authorization { users: [ { user: "few", password: "x", permissions: {
  publish: { allow: [%s] } } }, { user: "all", password: "x" } ] }
"""
READING = '"$JS.API.STREAM.INFO.*", "$JS.API.DIRECT.GET.>"'


@contextlib.asynccontextmanager
async def bucket_of(server):
    bucket = await JetStreamBucket.open(server.settings, name="test")
    try:
        yield bucket
    finally:
        await soon(bucket.close())


async def test_a_bucket_that_is_missing_is_made_as_the_partitioner_makes_it(server):
    async with administration(server.settings) as admin:
        made = (await admin.stream(BUCKET_STREAM))["config"]
        await admin.delete_stream(BUCKET_STREAM)
        async with bucket_of(server) as bucket:
            assert await bucket.entries([">"]) == {}
        again = (await admin.stream(BUCKET_STREAM))["config"]
    assert {key: again[key] for key in bucket_config()} == {key: made[key] for key in bucket_config()}


async def test_entries_are_read_by_key_and_by_pattern_with_their_revisions(server):
    async with bucket_of(server) as bucket:
        first = await bucket.put("lease.logs.0", b"zero")
        other = await bucket.put("member.logs.a.b", b"me")
        assert other > first
        found = await bucket.entries(["lease.logs.0", "lease.logs.9", "member.logs.>"])
        assert {key: tuple(entry[:2]) for key, entry in found.items()} == {
            "lease.logs.0": (first, b"zero"),
            "member.logs.a.b": (other, b"me"),
        }
        assert await bucket.entries(["lease.logs.9"]) == {}


async def test_an_entry_is_stored_only_over_the_one_that_was_expected(server):
    async with bucket_of(server) as bucket, bucket_of(server) as other:
        first = await bucket.put("k", b"1", expected=0)
        assert await other.put("k", b"2", expected=0) is None
        second = await other.put("k", b"2", expected=first)
        assert await bucket.put("k", b"3", expected=first) is None
        assert (await bucket.entries(["k"]))["k"][:2] == (second, b"2")


async def test_a_forgotten_entry_leaves_nothing_and_is_expected_to_be_none(server):
    async with bucket_of(server) as bucket:
        await bucket.put("k", b"1")
        await bucket.put("l", b"1")
        await bucket.forget("k")
        assert set(await bucket.entries([">"])) == {"l"}
        assert await bucket.put("k", b"2", expected=0)


async def test_more_keys_than_one_answer_may_have_are_read(server):
    keys = [lease_key("logs", number) for number in range(KEYS_A_REQUEST * 2 + 7)]
    async with bucket_of(server) as bucket:
        await asyncio.gather(*(bucket.put(key, b"x") for key in keys))
        assert set(await bucket.entries(keys)) == set(keys)


async def test_any_name_makes_a_key_that_its_pattern_finds(server):
    keys = [member_key("logs", "0a1b", name) for name in ("web1.example.net", "a b", "*", ">", "ü", "=2E")]
    async with bucket_of(server) as bucket:
        for key in keys:
            await bucket.put(key, key.encode())
        found = await bucket.entries([members_of("logs")])
    assert len(set(keys)) == len(keys)
    assert {key: entry.value.decode() for key, entry in found.items()} == {key: key for key in keys}


async def test_the_usual_tools_read_the_bucket(server):
    async with bucket_of(server) as bucket:
        await bucket.put("lease.logs.0", json.dumps({"v": 1}).encode())
    async with server._client() as client:
        values = await client.jetstream().key_value("fshipper")
        assert (await values.get("lease.logs.0")).value == b'{"v": 1}'


async def test_a_bucket_that_vanishes_ends_the_session(server):
    async with bucket_of(server) as bucket:
        await server.remove_stream(BUCKET_STREAM)
        with pytest.raises(StreamMissing):
            await soon(bucket.put("k", b"1"))
        with pytest.raises(StreamMissing):
            await soon(bucket.entries(["k"]))


async def test_a_server_that_dies_ends_the_session_in_time(server):
    async with bucket_of(server) as bucket:
        server.die()
        for call in (bucket.put("k", b"1"), bucket.entries(["k"])):
            with pytest.raises(SessionLost):
                await soon(call)
    with pytest.raises(Unavailable):
        await soon(JetStreamBucket.open(server.settings, name="test"))


@pytest.mark.parametrize("allowed", ['"nothing"', READING])
async def test_a_missing_right_to_write_the_bucket_is_reported_immediately(tmp_path, allowed):
    with running(tmp_path / "natsd", extra=DENYING % allowed) as natsd:
        everybody = NatsSettings(url=natsd.url, user="all", password="x")
        await (await JetStreamBucket.open(everybody, name="test")).close()
        with pytest.raises(BucketRefused, match="refuses this user the right"):
            await soon(JetStreamBucket.open(NatsSettings(url=natsd.url, user="few", password="x"), name="test"))
