"""With the files that `fshipper hosts` writes, a real server lets each program do its work, and nothing else."""

import asyncio
import contextlib
import json
from collections.abc import Iterator
from pathlib import Path

import nats
import pytest
from harness.fleet import Fleet, until
from harness.natsd import NatsServer, running

HOST, OTHER = "web1.example.net", "web2.example.net"
LINES = b"one\ntwo\nthree\n"


class Secured:
    """A server under generated rights, the fleet that uses it, and the place with the secrets."""

    def __init__(self, fleet: Fleet, server: NatsServer, place: Path, suffix: str) -> None:
        self.fleet = fleet
        self.server = server
        self.place = place
        self._suffix = suffix

    def secret(self, name: str) -> Path:
        return self.place / "secrets" / f"{name}.{self._suffix}"

    def as_(self, name: str) -> dict[str, str]:
        """The environment of a program that has the key of `name`."""
        return {"NATS_CREDS" if self._suffix == "creds" else "NATS_NKEY": str(self.secret(name))}

    def hosts(self, *arguments: str) -> str:
        return self.fleet.must("hosts", *arguments, SHIPPER_ACCESS=str(self.place))

    async def connect(self, name: str) -> nats.NATS:
        """A plain client with the key of `name`, and its inbox."""
        option = "user_credentials" if self._suffix == "creds" else "nkeys_seed"
        violations: list[str] = []

        async def heard(error: Exception) -> None:
            violations.append(str(error))

        client = await nats.connect(
            self.server.url, allow_reconnect=False, error_cb=heard, inbox_prefix=f"_INBOX_{name}",
            **{option: str(self.secret(name))},
        )  # fmt: skip
        client.violations = violations
        return client


def secured(tmp_path: Path, *, tokens: bool) -> Iterator[Secured]:
    place = tmp_path / "access"
    fleet = Fleet(tmp_path, "nats://127.0.0.1:1", partitions=2)
    fleet.must("hosts", "init", "--by", "tokens" if tokens else "keys", SHIPPER_ACCESS=str(place))
    fleet.must("hosts", "add", HOST, OTHER, SHIPPER_ACCESS=str(place))
    extra = 'accounts { include "../access/accounts.conf" }'
    if tokens:
        extra = 'include "../access/operator.conf"'
    with running(tmp_path / "natsd", extra=extra) as server, fleet:
        fleet.url = server.url
        yield Secured(fleet, server, place, "creds" if tokens else "nk")


@pytest.fixture(scope="module")
def keyed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secured]:
    """One server for all tests that only read."""
    with contextlib.contextmanager(secured)(tmp_path_factory.mktemp("keyed"), tokens=False) as found:
        apply(found)
        yield found


@pytest.fixture(params=["keys", "tokens"])
def world(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Secured]:
    yield from secured(tmp_path, tokens=request.param == "tokens")


def apply(world: Secured) -> None:
    world.fleet.must("partition", "apply", "--partitions", "2", **world.as_("partitioner"))


def test_every_program_does_its_work_with_its_own_key(world: Secured, tmp_path: Path) -> None:
    apply(world)
    logs = {host: tmp_path / f"{host}.log" for host in (HOST, OTHER)}
    for host, log in logs.items():
        log.write_bytes(LINES)
        done = world.fleet.run("produce", "--once", str(log), HOSTNAME=host, **world.as_(host))
        assert done.returncode == 0, done.stderr
        assert "violation" not in done.stderr.lower()
    done = world.fleet.run("consume", "--drain", **world.as_("collector"))
    assert done.returncode == 0, done.stderr
    assert "violation" not in done.stderr.lower()
    assert [world.fleet.archived(host, log) for host, log in logs.items()] == [LINES, LINES]
    assert json.loads(world.fleet.must("partition", "status", "--json", **world.as_("partitioner")))
    assert world.fleet.must("tail", "--raw", "--from", "streams", HOST, **world.as_("reader")).encode() == LINES
    done = world.fleet.run("status", "--json", **world.as_("collector"))
    assert done.returncode in {0, 2}, done.stderr
    assert {host["host"] for host in json.loads(done.stdout)["hosts"]} == {HOST, OTHER}
    plan = world.fleet.run("partition", "move", "--partitions", "3", "--dry-run", **world.as_("partitioner"))
    assert plan.returncode in {0, 2}, plan.stderr


def test_programs_that_live_on_lack_no_right(world: Secured, tmp_path: Path) -> None:
    apply(world)
    log = tmp_path / "app.log"
    log.write_bytes(LINES)
    collector = world.fleet.start("consume", **world.as_("collector"))
    producer = world.fleet.start("produce", str(log), HOSTNAME=HOST, SHIPPER_HEARTBEAT="0.25s", **world.as_(HOST))
    server = world.fleet.start("partition", "serve", **world.as_("partitioner"))

    def state() -> str:
        done = world.fleet.run("status", "--json", **world.as_("collector"))
        return {host["host"]: host["state"] for host in json.loads(done.stdout)["hosts"]}.get(HOST, "")

    until(lambda: state() in {"quiet", "shipping"}, what=lambda: producer.log)
    follower = world.fleet.start("tail", "-f", "--raw", HOST, **world.as_("reader"))
    until(lambda: "three" in follower.log, what=lambda: follower.log)
    with log.open("ab") as more:
        more.write(LINES)
    until(lambda: world.fleet.archived(HOST, log) == LINES * 2, what=lambda: collector.log)
    until(lambda: follower.log.count("three") == 2, what=lambda: follower.log)
    assert "late" not in follower.log
    follower.stop()
    for program in (producer, collector, server):
        assert program.stop() == 0
        assert "refuses" not in program.log
        assert "refused" not in program.log


def test_a_reader_with_the_rights_of_an_older_version_follows_and_reports_that_lines_come_late(tmp_path: Path) -> None:
    with contextlib.contextmanager(secured)(tmp_path, tokens=False) as world:
        conf = world.place / "accounts.conf"
        text = conf.read_text()
        older = text.replace(', "ctl.ask.>"', "", 1)
        assert older != text
        conf.write_text(older)
        world.server.restart()
        apply(world)
        log = tmp_path / "app.log"
        log.write_bytes(LINES)
        world.fleet.start("produce", str(log), HOSTNAME=HOST, **world.as_(HOST))
        follower = world.fleet.start("tail", "-f", "--raw", HOST, **world.as_("reader"))
        until(lambda: "three" in follower.log, what=lambda: follower.log)
        until(lambda: "note: new lines come a second late or more" in follower.log, what=lambda: follower.log)
        with log.open("ab") as more:
            more.write(b"four\n")
        until(lambda: "four" in follower.log, what=lambda: follower.log)


@pytest.mark.parametrize(
    "subject",
    [
        f"logs.p0.{OTHER}",
        f"ctl.ask.{OTHER}",
        f"logs.p1.{HOST}.more",
        f"ctl.up.{OTHER}",
        f"ctl.down.{HOST}",
        "$JS.API.STREAM.CREATE.MINE",
        "$JS.API.STREAM.INFO.LOGS_0",
        "$JS.API.STREAM.MSG.GET.LOGS_0",
        "$JS.API.STREAM.PURGE.LOGS_0",
        "$JS.API.CONSUMER.CREATE.LOGS_0",
        "$JS.API.CONSUMER.MSG.NEXT.LOGS_0.collector",
        "$JS.API.DIRECT.GET.LOGS_0",
        f"$JS.API.DIRECT.GET.LOGS_0.logs.p0.{OTHER}",
        f"$JS.API.DIRECT.GET.LOGS_0.logs.p0.{HOST}",
        "$JS.API.INFO",
        "$KV.fshipper.lease.logs.0",
        "dlq.LOGS_0.x",
    ],
)
async def test_a_host_may_not_publish_to(keyed: Secured, subject: str) -> None:
    assert await refused(keyed, HOST, publish=subject)


@pytest.mark.parametrize(
    "subject", ["logs.>", f"logs.p0.{OTHER}", f"_INBOX_{OTHER}.>", f"ctl.down.{OTHER}", "ctl.up.>", "_INBOX.>", ">"]
)
async def test_a_host_may_not_subscribe_to(keyed: Secured, subject: str) -> None:
    assert await refused(keyed, HOST, subscribe=subject)


@pytest.mark.parametrize(
    ("role", "subject"),
    [
        ("collector", f"logs.p0.{HOST}"),
        ("collector", "$JS.API.STREAM.CREATE.MINE"),
        ("collector", "$JS.API.STREAM.DELETE.LOGS_0"),
        ("collector", "$JS.API.STREAM.UPDATE.LOGS_0"),
        ("collector", "$JS.API.CONSUMER.CREATE.LOGS_0.mine"),
        ("collector", f"ctl.up.{HOST}"),
        ("reader", f"logs.p0.{HOST}"),
        ("reader", "$JS.API.STREAM.CREATE.MINE"),
        ("reader", "$JS.API.STREAM.PURGE.LOGS_0"),
        ("reader", "$JS.API.CONSUMER.RESET.LOGS_0.collector"),
        ("reader", "$JS.API.CONSUMER.MSG.NEXT.LOGS_0.collector"),
        ("reader", "$JS.API.CONSUMER.CREATE.LOGS_0.collector"),
        ("reader", "$JS.API.CONSUMER.CREATE.LOGS_0.collector.logs.p0.x"),
        ("reader", "$JS.API.CONSUMER.DELETE.LOGS_0.collector"),
        ("reader", "$JS.API.CONSUMER.CREATE.LOGS_0"),
        ("reader", "$JS.API.CONSUMER.CREATE.LOGS_0.tail-1.logs.p0.x"),
        ("reader", "$JS.API.CONSUMER.DURABLE.CREATE.LOGS_0.mine"),
        ("reader", "$JS.API.CONSUMER.CREATE.KV_fshipper.tail-1"),
        ("reader", "$JS.API.CONSUMER.CREATE.LOGS_BEATS.tail-1"),
        ("reader", "$JS.API.CONSUMER.CREATE.DLQ.tail-1"),
        ("reader", "$JS.API.CONSUMER.DELETE.DLQ.x"),
    ],
)
async def test_a_role_may_not_publish_to(keyed: Secured, role: str, subject: str) -> None:
    assert await refused(keyed, role, publish=subject)


async def test_what_a_host_may_do_is_not_refused(keyed: Secured) -> None:
    assert not await refused(keyed, HOST, publish=f"logs.p0.{HOST}")
    assert not await refused(keyed, HOST, publish=f"$JS.API.DIRECT.GET.LOGS_BEATS.logs.beat.{HOST}")
    assert not await refused(keyed, HOST, subscribe=f"_INBOX_{HOST}.x.*")


async def test_an_operator_lets_hosts_with_older_producers_read_their_newest_lines(world: Secured) -> None:
    newest = f"$JS.API.DIRECT.GET.LOGS_0.logs.p0.{HOST}"
    for what, is_refused in (("all", False), ("heartbeats", True)):
        assert f"Hosts may read: {what}." in world.hosts("reads", what)
        world.server.restart()
        assert await refused(world, HOST, publish=newest) is is_refused


@pytest.mark.parametrize("reads", ["heartbeats", "all"])
def test_what_the_server_lost_is_sent_again_whatever_a_host_may_read(
    world: Secured, tmp_path: Path, reads: str
) -> None:
    world.hosts("reads", reads)
    world.server.restart()
    apply(world)
    log = tmp_path / "app.log"
    log.write_bytes(LINES)
    assert world.fleet.run("produce", "--once", str(log), HOSTNAME=HOST, **world.as_(HOST)).returncode == 0
    asyncio.run(recreated(world))
    with log.open("ab") as more:
        more.write(LINES)

    done = world.fleet.run("produce", "--once", str(log), HOSTNAME=HOST, **world.as_(HOST))

    assert (done.returncode, "server_lost_data" in done.stderr) == (0, True), done.stderr
    again = world.fleet.run("produce", "--once", str(log), HOSTNAME=HOST, **world.as_(HOST))
    assert (again.returncode, "server_lost_data" in again.stderr) == (0, False), again.stderr
    assert world.fleet.run("consume", "--drain", **world.as_("collector")).returncode == 0
    assert world.fleet.archived(HOST, log) == 2 * LINES


@pytest.mark.parametrize("reads", ["heartbeats", "all"])
def test_a_lost_checkpoint_doubles_no_line_whatever_a_host_may_read(world: Secured, tmp_path: Path, reads: str) -> None:
    world.hosts("reads", reads)
    world.server.restart()
    apply(world)
    log = tmp_path / "app.log"
    log.write_bytes(LINES)
    own = {"HOSTNAME": HOST, "SHIPPER_LISTEN": "", **world.as_(HOST)}
    assert world.fleet.run("produce", "--once", str(log), **own, SHIPPER_STATE=str(tmp_path / "first")).returncode == 0
    second = world.fleet.start("produce", str(log), **own, SHIPPER_STATE=str(tmp_path / "second"))
    until(lambda: "recovery_waits" in second.log, what=lambda: second.log)
    collector = world.fleet.start("consume", **world.as_("collector"))
    with log.open("ab") as more:
        more.write(LINES)

    until(lambda: len(world.fleet.archived(HOST, log)) >= 2 * len(LINES), what=lambda: second.log + collector.log)

    assert (second.stop(), collector.stop()) == (0, 0)
    assert world.fleet.archived(HOST, log) == 2 * LINES


async def recreated(world: Secured) -> None:
    """The stream of the host's partition is new and empty, as after the loss of a server's disk."""
    admin = await world.connect("partitioner")
    for name in ("LOGS_0", "LOGS_1"):
        found = json.loads((await admin.request(f"$JS.API.STREAM.INFO.{name}", b"", timeout=5)).data)
        await admin.request(f"$JS.API.STREAM.DELETE.{name}", b"", timeout=5)
        config = json.dumps(found["config"]).encode()
        assert b"error" not in (await admin.request(f"$JS.API.STREAM.CREATE.{name}", config, timeout=5)).data
    await admin.close()
    world.fleet.must("partition", "apply", "--partitions", "2", **world.as_("partitioner"))


async def test_what_a_host_may_not_publish_is_nowhere_in_the_streams(world: Secured, tmp_path: Path) -> None:
    apply(world)
    assert await refused(world, HOST, publish=f"logs.p0.{OTHER}")
    assert not await refused(world, HOST, publish=f"logs.p0.{HOST}")
    assert world.fleet.must("partition", "status", "--json", **world.as_("partitioner")).count('"messages": 1') == 1


async def refused(world: Secured, who: str, *, publish: str = "", subscribe: str = "") -> bool:
    """Whether the server reported it to a plain client with the key of `who`."""
    client = await world.connect(who)
    try:
        if publish:
            await client.publish(publish, b"x")
        else:
            await client.subscribe(subscribe)
        await client.flush(5)
        await client.flush(5)
        return any("permissions violation" in violation.lower() for violation in client.violations)
    finally:
        await client.close()


COMMANDS = [
    (("produce", "--once", "{log}"), OTHER, HOST, f'subscribe to "_INBOX_{OTHER}.>"'),
    (("produce", "--once", "{log}"), HOST, "collector", f'subscribe to "_INBOX_{HOST}.>"'),
    (("consume", "--drain"), "", HOST, 'subscribe to "_INBOX_collector.>"'),
    (("partition", "apply", "--partitions", "3"), "", HOST, 'subscribe to "_INBOX_partitioner.>"'),
    (("partition", "apply", "--partitions", "3"), "", "collector", 'subscribe to "_INBOX_partitioner.>"'),
]


@pytest.mark.parametrize(("command", "host", "key", "right"), COMMANDS)
def test_a_program_with_the_wrong_key_names_the_missing_right(
    keyed: Secured, tmp_path: Path, command: tuple[str, ...], host: str, key: str, right: str
) -> None:
    log = tmp_path / "app.log"
    log.write_bytes(LINES)
    done = keyed.fleet.run(*(part.format(log=log) for part in command), HOSTNAME=host or HOST, **keyed.as_(key))
    assert done.returncode == 1
    assert f"error: the server refuses this user the right to {right}" in done.stderr
    assert "hint: run it with the key of the right host or role" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    ("taken", "right"),
    [
        ('"logs.*.web1.example.net", ', f'publish to "logs.p1.{HOST}"'),
    ],
)
def test_a_single_missing_right_is_named(keyed: Secured, tmp_path: Path, taken: str, right: str) -> None:
    users = keyed.place / "accounts.conf"
    before = users.read_text()
    assert taken in before
    users.write_text(before.replace(taken, ""))
    keyed.server.restart()
    log = tmp_path / "app.log"
    log.write_bytes(LINES)
    try:
        done = keyed.fleet.run("produce", "--once", str(log), HOSTNAME=HOST, **keyed.as_(HOST))
    finally:
        users.write_text(before)
        keyed.server.restart()
    assert done.returncode == 1
    assert f"the server refuses this user the right to {right}" in done.stderr


def test_a_revoked_host_is_refused_once_the_server_reloads(world: Secured, tmp_path: Path) -> None:
    apply(world)
    log = tmp_path / "app.log"
    log.write_bytes(LINES)
    kept = tmp_path / "kept"
    kept.write_bytes(world.secret(HOST).read_bytes())
    setting = next(iter(world.as_(HOST)))
    world.hosts("revoke", HOST, "--yes")
    assert not world.secret(HOST).exists()
    world.server.reload()
    done = world.fleet.run("produce", "--once", str(log), HOSTNAME=HOST, **{setting: str(kept)})
    assert done.returncode == 1
    assert "error: the NATS server refuses us" in done.stderr
    assert world.fleet.run("produce", "--once", str(log), HOSTNAME=OTHER, **world.as_(OTHER)).returncode == 0


def test_a_host_that_is_added_later_needs_a_reload_where_keys_are_listed_and_none_where_they_are_signed(
    world: Secured, tmp_path: Path
) -> None:
    apply(world)
    log = tmp_path / "app.log"
    log.write_bytes(LINES)
    world.hosts("add", "new.example.net")
    if world.secret(HOST).suffix == ".nk":
        world.server.reload()
    done = world.fleet.run("produce", "--once", str(log), HOSTNAME="new.example.net", **world.as_("new.example.net"))
    assert done.returncode == 0, done.stderr


def test_secrets_are_for_their_owner_only_and_nothing_else_holds_one(world: Secured) -> None:
    secrets = [path for path in world.place.rglob("*") if path.suffix in {".nk", ".creds"}]
    assert len(secrets) >= 5
    assert {path.stat().st_mode & 0o777 for path in secrets} == {0o600}
    others = [path for path in world.place.rglob("*") if path.is_file() and path not in secrets]
    assert others
    for path in others:
        assert b"\nSU" not in path.read_bytes()
        assert not [secret for secret in secrets if secret.read_bytes().split()[-1] in path.read_bytes()]


def test_a_monitor_sees_everything_and_changes_nothing(world: Secured, tmp_path: Path) -> None:
    world.hosts("add", "alice", "--as", "monitor")
    world.server.reload()
    apply(world)
    log = tmp_path / "app.log"
    log.write_bytes(LINES)
    collector = world.fleet.start("consume", **world.as_("collector"))
    producer = world.fleet.start("produce", str(log), HOSTNAME=HOST, SHIPPER_HEARTBEAT="0.25s", **world.as_(HOST))
    until(lambda: world.fleet.archived(HOST, log) == LINES, what=lambda: collector.log)

    async def bury() -> None:
        client = await world.connect("partitioner")
        for number in range(3):
            await client.request(
                f"dlq.LOGS_0.{HOST}", b"poison %d" % number, timeout=30, headers={"Dlq-Reason": "test"}
            )
        await client.close()

    asyncio.run(bury())
    alice = world.as_("alice")
    until(lambda: HOST in world.fleet.run("status", "--json", **alice).stdout, what=lambda: producer.log)
    assert world.fleet.run("status", "--json", **alice).returncode in {0, 2}
    audit = world.fleet.run("audit", "--hosts", **alice)
    assert audit.returncode == 0, audit.stdout + audit.stderr
    assert "no producer answers" not in audit.stdout
    assert "is in the archive" in world.fleet.must("wait", "--timeout", "60s", **alice)
    assert "searchable: " in world.fleet.must("explain", HOST, str(log), **alice)
    unknown = world.fleet.run("explain", HOST, str(log), "--line", "no such line", "--json", **alice)
    assert (unknown.returncode, json.loads(unknown.stdout)["stage"]) == (1, "unknown")
    assert world.fleet.must("dlq", "ls", **alice).count("test") == 3
    assert "poison 1" in world.fleet.must("dlq", "show", "2", **alice)
    assert len(json.loads(world.fleet.must("partition", "status", "--json", **alice))) == 2
    assert world.fleet.run("partition", "plan", "--partitions", "2", **alice).returncode in {0, 2}
    for command in (
        ("partition", "apply", "--max-bytes", "2GiB", "--yes"),
        ("dlq", "drop", "1", "--yes"),
        ("status", "--forget", HOST),
    ):
        done = world.fleet.run(*command, **alice)
        assert done.returncode not in {0, 2}, command
        assert "the server refuses this user the right to" in done.stderr, (command, done.stderr)
    assert world.fleet.must("dlq", "ls", **alice).count("test") == 3
    assert len(json.loads(world.fleet.must("partition", "status", "--json", **alice))) == 2
    for program in (producer, collector):
        assert program.stop() == 0
