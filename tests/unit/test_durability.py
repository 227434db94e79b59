"""What a server's version, sync setting and replicas mean, and where its monitoring port is sought."""

import pytest

from shipper.config import load
from shipper.errors import ConfigError
from shipper.jetstream.durability import ALWAYS, ServerFacts, Verdict, judge
from shipper.jetstream.server_version import OLDEST, SYNCED, Version, version_in
from shipper.settings import NatsSettings

NEW = Version(2, 15, 1)


def known(version=NEW, *, sync=ALWAYS, servers=None, read=None):
    """A server of its own (`servers`: None), or one of a cluster with so many (0: not known), `read` of them or all."""
    where = {"cluster": "" if servers is None else "c", "servers": servers or None}
    return ServerFacts(version=version, sync_seconds=sync, servers_read=servers or 1 if read is None else read, **where)


@pytest.mark.parametrize(
    ("facts", "replicas", "verdict", "power", "disk"),
    [
        (known(), [1, 1], Verdict.DURABLE, "a power loss costs no acknowledged line", "archived"),
        (known(), [], Verdict.DURABLE, "a power loss costs no acknowledged line", ""),
        (
            known(servers=3, read=1),
            [3],
            Verdict.UNKNOWN,
            "always on 1 of 3, 3 servers, 3 replicas: what",
            "disk costs nothing",
        ),
        (known(servers=3, read=2), [1], Verdict.ONE_REPLICA, "what a power loss may cost is not known", "on it"),
        (known(servers=3, read=1, sync=1.0), [3], Verdict.LAZY, "may cost up to 1 s", "nothing"),
        (known(None), [1], Verdict.UNKNOWN, "version not known", "archived"),
        (known(sync=None), [1], Verdict.UNKNOWN, "may cost is not known", "archived"),
        (ServerFacts(), [], Verdict.UNKNOWN, "may cost is not known", ""),
        (known(SYNCED, servers=3), [3, 3], Verdict.DURABLE, "costs no acknowledged line", "disk costs nothing"),
        (known(servers=3), [3, 1], Verdict.ONE_REPLICA, "costs no acknowledged line", "of the partitions on it"),
        (known(servers=0, sync=None), [1], Verdict.ONE_REPLICA, "is not known", "of the partitions on it"),
        (known(servers=1), [1], Verdict.DURABLE, "costs no acknowledged line", "archived"),
        (known(servers=3, sync=1.0), [3], Verdict.LAZY, "of several servers together may cost up to 1 s", "nothing"),
        (known(sync=120.0), [1], Verdict.LAZY, "a power loss may cost up to 2 min of acknowledged lines", "archived"),
        (known(Version(2, 14, 5), sync=120.0), [1], Verdict.LAZY, "up to 2 min", "archived"),
        (known(Version(2, 14, 5)), [1], Verdict.UNSYNCED, "before 2.14.6", "archived"),
        (known(Version(2, 12, 8)), [1], Verdict.TOO_OLD, "older than 2.14.0", ""),
    ],
)
def test_the_worst_that_is_known_is_the_verdict_and_each_loss_is_named(facts, replicas, verdict, power, disk):
    found = judge(facts, replicas)
    assert found.verdict is verdict
    assert power in found.text
    assert disk in found.text
    assert bool(found.hint) is (verdict is not Verdict.DURABLE)
    assert bool(found.warning) is found.is_at_risk is (verdict not in {Verdict.DURABLE, Verdict.UNKNOWN})


@pytest.mark.parametrize(
    ("text", "version"),
    [
        ("2.15.1", NEW),
        ("v2.14.6-RC.1", SYNCED),
        ("2.14", OLDEST),
        ("2.15.0-dev", Version(2, 15)),
        *((text, None) for text in ("", "2", "nats", None, 2, "1.2.3.4", "99999.1.1", "²·1")),
    ],
)
def test_a_version_is_read_or_unknown(text, version):
    assert version_in(text) == version


def test_the_monitoring_port_is_sought_where_servers_have_it_by_default():
    settings = NatsSettings(url="tls://user:secret@nats1.example.net:4222,nats://[::1]:4333,ws://h:64000/path")
    assert settings.monitors == (
        "http://nats1.example.net:8222",
        "http://[::1]:8222",
        "http://[::1]:8333",
        "http://h:8222",
        "http://127.0.0.1:8222",
    )
    assert NatsSettings(monitor="http://a:1, https://b:2/base").monitors == ("http://a:1", "https://b:2/base")


@pytest.mark.parametrize(
    "url", ["nats1:8222", "nats://nats1:8222", "http://nats1", "http://me@nats1:8222", "http://:1"]
)
def test_what_is_no_monitoring_port_is_refused(url):
    with pytest.raises(ConfigError, match="is no monitoring port; write http://HOST:8222"):
        load({}, environment={"NATS_MONITOR": url})
