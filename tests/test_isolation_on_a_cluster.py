"""Accounts on a cluster of three servers: hosts ship over any of them, and one key reaches nothing of another host."""

import asyncio
import contextlib
import datetime as dt
import json
from pathlib import Path

import nats.errors
import pytest
from harness.attacker import (
    ANSWER_SECONDS,
    ATTACKER,
    SECRET,
    VICTIM,
    Ears,
    api,
    attack,
    closing,
    connect,
    furnish,
    ships,
    state,
)
from harness.cluster import Nodes, cluster
from harness.fleet import Fleet, until
from nats.aio.client import Client

from partitioner.access.roster import AuthMethod
from partitioner.access.store import OPERATOR_FILE, AccessStore

LINES = b"one\ntwo\n"


async def all_nodes_serve(admin: Client) -> None:
    """Until each node has JetStream for the account; after a start this takes a moment longer than for the cluster."""
    config = json.dumps({"name": "READY", "subjects": ["ready"], "num_replicas": 3}).encode()
    async with asyncio.timeout(ANSWER_SECONDS):
        while True:
            with contextlib.suppress(nats.errors.Error):
                answer = await admin.request("$JS.API.STREAM.CREATE.READY", config, timeout=2)
                if "error" not in json.loads(answer.data):
                    break
            await asyncio.sleep(0.2)
    await api(admin, "STREAM.DELETE.READY")


@pytest.mark.parametrize("trust", [AuthMethod.KEYS, AuthMethod.TOKENS])
def test_on_a_cluster_a_host_ships_and_reaches_nothing_of_another(trust: AuthMethod, tmp_path: Path) -> None:
    place = AccessStore(tmp_path / "access", now=dt.datetime.now(dt.UTC))
    place.make("logs", trust)
    place.add([ATTACKER, VICTIM])
    tokens = trust is AuthMethod.TOKENS
    file = f'include "../access/{OPERATOR_FILE if tokens else "accounts.conf"}"'

    def secret(name: str) -> str:
        return str(tmp_path / "access" / "secrets" / f"{name}.{'creds' if tokens else 'nk'}")

    async def under_attack(nodes: Nodes) -> None:
        def to(node: str, name: str):
            return connect(nodes[node], name, {"user_credentials" if tokens else "nkeys_seed": secret(name)})

        admin, victim = await to("nats1", "partitioner"), await to("nats2", VICTIM)
        collector, thief = await to("nats1", "collector"), await to("nats3", ATTACKER)
        async with closing(admin, victim, collector, thief):
            await all_nodes_serve(admin)
            await furnish(admin, victim)
            ears = Ears()
            await ears.listen(victim, f"_INBOX_{VICTIM}.>", f"ctl.down.{VICTIM}", f"ctl.ask.{VICTIM}")
            await ears.listen(collector, "_INBOX_collector.>", "ctl.up.>")
            before = await state(admin)
            heard = await attack(thief)
            assert await state(admin) == before
            assert not ears.to_others()
            assert not [each for each in heard if SECRET in each]
            assert await ships(victim, VICTIM)

    with cluster(tmp_path, extra=file if tokens else f"accounts {{ {file} }}\n") as nodes:
        asyncio.run(under_attack(nodes))


def test_on_a_cluster_with_accounts_the_archive_is_whole(tmp_path: Path) -> None:
    place = AccessStore(tmp_path / "access", now=dt.datetime.now(dt.UTC))
    place.make("logs", AuthMethod.KEYS)
    place.add([VICTIM])

    def as_(name: str) -> dict[str, str]:
        return {"NATS_NKEY": str(tmp_path / "access" / "secrets" / f"{name}.nk")}

    log = tmp_path / "app.log"
    log.write_bytes(LINES)
    with (
        cluster(tmp_path, extra='accounts { include "../access/accounts.conf" }\n') as nodes,
        Fleet(tmp_path, nodes.url, partitions=2) as fleet,
    ):
        fleet.must(
            "partition", "apply", "--partitions", "2", "--replicas", "3", "--max-bytes", "50MB", **as_("partitioner")
        )
        collector = fleet.start("consume", **as_("collector"))
        fleet.start("produce", "--poll", "200ms", str(log), HOSTNAME=VICTIM, **as_(VICTIM))
        until(lambda: fleet.archived(VICTIM, log) == LINES, within=60, what=lambda: collector.log)
        nodes["nats2"].kill()
        with log.open("ab") as more:
            more.write(LINES)
        until(lambda: fleet.archived(VICTIM, log) == LINES * 2, within=90, what=lambda: collector.log)
