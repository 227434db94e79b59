"""The sentences of `shipper.ports.Inbox` on edge sites, on a real server whose own domain stands for the site's."""

import asyncio
import contextlib
import json

import pytest
from harness.natsd import running
from worlds import PATIENCE, numbered

from partitioner.edge import at_site, in_centre
from partitioner.topology import Sizing, shipped_template
from shipper.errors import RightMissing, SessionLost
from shipper.jetstream.admin import administration
from shipper.jetstream.connection import connect
from shipper.jetstream.pull_consumer import JetStreamInbox
from shipper.settings import NatsSettings
from shipper.subjects import COLLECTOR

SITE, CENTRE, HEADERS = "LOGS_100", "LOGS_200", {"Log-Id": "0123456789abcdef"}


@pytest.fixture(scope="module")
def natsd(tmp_path_factory):
    with running(tmp_path_factory.mktemp("natsd"), domain="edge1", extra=USERS) as server:
        yield server


USERS = """
accounts { LOGS { jetstream: enabled, users: [
  { user: "all", password: "x" }
  { user: "few", password: "x", permissions: { publish: { deny: ["$JS.*.API.>"] } } }
] } }
"""


def settings(natsd, user="all"):
    return NatsSettings(url=natsd.url, user=user, password="x")


@contextlib.asynccontextmanager
async def sourced(natsd, *, earlier, kept, user="all"):
    """A site that had `earlier` messages and purged them, then `kept`, and the inbox of the centre's copy."""
    chosen, (centre,) = settings(natsd), in_centre(
        shipped_template(), {"edge1": [100]}, subject="logs", partitions=1, sizing=Sizing()
    )  # fmt: skip
    *_, site = at_site(shipped_template(), [100], subject="logs", sizing=Sizing())
    async with administration(chosen) as admin:
        for name in (CENTRE, SITE):
            await admin.delete_stream(name)
        await admin.create_stream(site.stream)
        await publish(chosen, earlier)
        await admin.purge(SITE, below=len(earlier) + 1)
        here = {**centre.stream, "name": CENTRE, "sources": [{"name": SITE}]}  # a server sources nothing by a domain
        await admin.create_stream(here)  # that is its own
        await admin.create_consumer(CENTRE, centre.consumers[0])
        await publish(chosen, kept)
        async with asyncio.timeout(PATIENCE):
            while (await admin.stream(CENTRE))["state"]["messages"] < len(kept):
                await asyncio.sleep(0.02)
        await admin.update_stream({**here, "sources": centre.stream["sources"]})
        inbox = await JetStreamInbox.open(
            settings(natsd, user), stream=CENTRE, consumer=COLLECTOR, name="test", batch_bytes=1024 * 1024
        )
        try:
            yield admin, inbox
        finally:
            await inbox.close()


async def publish(chosen, payloads):
    connection = await connect(chosen, name="test", inbox="_INBOX_test")
    try:
        for payload in payloads:
            answer = await connection.client.request("logs.p100.web1", payload, headers=HEADERS, timeout=PATIENCE)
            assert "seq" in json.loads(answer.data), answer.data
    finally:
        await connection.close()


async def source_from(admin, domain):
    config = (await admin.stream(CENTRE))["config"]
    config["sources"][0]["external"]["api"] = f"$JS.{domain}.API"
    await admin.update_stream(config)


async def begin_anew(admin, natsd, kept):
    """The site lost all that it had, and gives its sequences to `kept`."""
    site = (await admin.stream(SITE))["config"]
    await admin.delete_stream(SITE)
    await admin.create_stream(site)
    await publish(settings(natsd), kept)


async def test_the_place_that_producers_received_is_that_of_the_site(natsd):
    async with sourced(natsd, earlier=numbered(5), kept=numbered(3)) as (_, inbox):
        assert (await inbox.state()).site == "edge1"
        assert [await inbox.at_origin(sequence) for sequence in (1, 3)] == [6, 8]
        assert await inbox.at_origin(4) is None


async def test_what_the_centre_has_is_removed_from_the_site_but_the_last_of_it(natsd):
    async with sourced(natsd, earlier=numbered(5), kept=numbered(4)) as (admin, inbox):
        await inbox.state()
        assert await inbox.purge_site(4) == 2
        state = await inbox.site_state()
        assert (state.first_sequence, state.last_sequence, state.messages) == (8, 9, 2)
        assert await inbox.purge_site(4) == 0
        assert (await admin.stream(CENTRE))["state"]["messages"] == 4


async def test_nothing_is_removed_from_a_site_that_gave_its_sequences_twice(natsd):
    async with sourced(natsd, earlier=[], kept=numbered(4)) as (admin, inbox):
        await inbox.state()
        await begin_anew(admin, natsd, [b"another 1", b"another 2", b"another 3", b"another 4"])
        assert await inbox.purge_site(4) is None
        assert (await inbox.site_state()).messages == 4


async def test_nothing_is_removed_from_a_site_that_is_shorter_than_what_was_sourced(natsd):
    async with sourced(natsd, earlier=[], kept=numbered(4)) as (admin, inbox):
        await inbox.state()
        await begin_anew(admin, natsd, [b"another 1", b"another 2"])
        assert await inbox.purge_site(5) == 0
        assert (await inbox.site_state()).messages == 2


async def test_a_site_that_is_away_ends_no_session(natsd):
    async with sourced(natsd, earlier=[], kept=numbered(2)) as (admin, inbox):
        await source_from(admin, "elsewhere")
        assert (await inbox.state()).site == "elsewhere"
        with pytest.raises(SessionLost, match="elsewhere does not answer"):
            await inbox.site_state()
        assert (await inbox.state()).messages >= 2  # a server may source the same again as the source's place changes


async def test_a_right_that_is_missing_at_the_site_ends_no_session(natsd, monkeypatch):
    monkeypatch.setattr("shipper.jetstream.leaf_stream.ANSWER_SECONDS", 0.5)
    async with sourced(natsd, earlier=[], kept=numbered(2), user="few") as (admin, inbox):
        await source_from(admin, "elsewhere")
        await inbox.state()
        with pytest.raises(RightMissing, match=r"\$JS.elsewhere.API.STREAM.INFO.LOGS_100"):
            await inbox.site_state()
        assert (await inbox.state()).messages == 2


async def test_a_stream_that_is_not_sourced_is_its_own_origin(natsd):
    async with sourced(natsd, earlier=[], kept=numbered(1)) as (_, _copy):
        inbox = await JetStreamInbox.open(settings(natsd), stream=SITE, consumer="none", name="test", batch_bytes=1024)
        try:
            assert (await inbox.state()).site == ""
            assert await inbox.at_origin(7) == 7
            assert await inbox.site_state() is None
            assert await inbox.purge_site(7) == 0
        finally:
            await inbox.close()
