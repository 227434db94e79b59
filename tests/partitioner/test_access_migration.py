"""An installation with one account for all is migrated while its hosts run: nothing is lost, no host is locked out."""

import datetime as dt
import json
from collections.abc import Iterator
from pathlib import Path

import pytest
import trustme
from harness.fleet import Fleet, until
from harness.natsd import NatsServer, running

from partitioner.access import store as places
from partitioner.access.roster import AccountLayout, AuthMethod
from partitioner.access.server_config import KEPT_SUFFIX
from partitioner.access.store import OPERATOR_FILE, AccessStore

HOST, OTHER = "web1.example.net", "web2.example.net"
OLD = """\
accounts {
  # our own words
  LOGS {
    jetstream: enabled
    include "../access/users.conf"     # everybody
  }
}
"""
LINES = b"one\ntwo\nthree\n"


SERVER_PART = "accounts-of-server.conf"


class Certified:
    """Certificates of one authority; each has its key in the same file."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._authority = trustme.CA()
        self._ca = directory / "ca.pem"
        self._authority.cert_pem.write_to_path(str(self._ca))

    def issue(self, *names: str) -> Path:
        path = self._directory / f"{names[0]}.pem"
        self._authority.issue_cert(*names).private_key_and_cert_chain_pem.write_to_path(str(path))
        return path

    def environment(self, secret: Path) -> dict[str, str]:
        files = {"NATS_CERTIFICATE": str(secret), "NATS_KEY": str(secret), "NATS_CA": str(self._ca)}
        return {**files, "NATS_TLS_FIRST": "true"}

    def of_server(self) -> str:
        own = self.issue("127.0.0.1", "localhost")
        files = f'cert_file: "{own}", key_file: "{own}", ca_file: "{self._ca}"'
        return f"\ntls {{ {files}, verify_and_map: true, handshake_first: true }}\n"


class Old:
    """A server with the files that older versions wrote, and programs on it."""

    def __init__(self, fleet: Fleet, server: NatsServer, place: Path, trust: AuthMethod, certified: Certified) -> None:
        self.fleet = fleet
        self.server = server
        self.place = place
        self.tokens = trust is AuthMethod.TOKENS
        self.certified = certified if trust is AuthMethod.CERTIFICATES else None
        self.conf = server.directory / SERVER_PART

    def secret(self, name: str) -> Path:
        if self.certified:
            return self.certified.issue(name)
        return self.place / "secrets" / f"{name}.{'creds' if self.tokens else 'nk'}"

    def as_(self, name: str, secret: Path | None = None) -> dict[str, str]:
        """The environment of a program with the secret of `name`, or with a copy of it."""
        if self.certified:
            return self.certified.environment(secret or self.secret(name))
        return {"NATS_CREDS" if self.tokens else "NATS_NKEY": str(secret or self.secret(name))}

    def hosts(self, *arguments: str) -> str:
        return self.fleet.must("hosts", *arguments, SHIPPER_ACCESS=str(self.place))

    def reload(self) -> None:
        """As the command requires: nats-server joins accounts that are new at the second time."""
        self.server.reload()
        self.server.reload()


def make_old(monkeypatch: pytest.MonkeyPatch, place: Path, trust: AuthMethod, *names: str) -> None:
    """A roster as fshipper wrote it before hosts had accounts of their own."""
    with monkeypatch.context() as patch:
        patch.setattr(places, "first_layout", lambda _: AccountLayout.FLAT)
        old = AccessStore(place, now=dt.datetime.now(dt.UTC))
        old.make("logs", trust)
        old.add(names or [HOST, OTHER])
    assert json.loads((place / "roster.json").read_text())["version"] == 1


@pytest.fixture(params=list(AuthMethod))
def old(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Old]:
    trust, place, conf = request.param, tmp_path / "access", tmp_path / "natsd" / SERVER_PART
    make_old(monkeypatch, place, trust)
    conf.parent.mkdir()
    certified = Certified(tmp_path)
    conf.write_text(f'include "../access/{OPERATOR_FILE}"\n' if trust is AuthMethod.TOKENS else OLD)
    more = certified.of_server() if trust is AuthMethod.CERTIFICATES else ""
    fleet = Fleet(tmp_path, "nats://127.0.0.1:1", partitions=2)
    with running(tmp_path / "natsd", extra=f'include "{conf.name}"{more}') as server, fleet:
        fleet.url = server.url
        found = Old(fleet, server, place, trust, certified)
        fleet.must("partition", "apply", "--partitions", "2", **found.as_("partitioner"))
        yield found


def test_running_hosts_continue_and_the_archive_is_whole(old: Old, tmp_path: Path) -> None:
    fleet = old.fleet
    logs = {host: tmp_path / f"{host}.log" for host in (HOST, OTHER)}
    for log in logs.values():
        log.write_bytes(LINES)
    kept = {host: tmp_path / f"{host}.secret" for host in logs}
    for host, secret in kept.items():  # as it was brought to the host
        secret.write_bytes(old.secret(host).read_bytes())
    collector = fleet.start("consume", **old.as_("collector"))
    producers = {
        host: fleet.start("produce", "--poll", "200ms", str(log), HOSTNAME=host, **old.as_(host, kept[host]))
        for host, log in logs.items()
    }
    for host, log in logs.items():
        until(lambda: fleet.archived(host, log) == LINES, what=lambda: collector.log)  # noqa: B023
    options = [] if old.tokens else ["--server-config", str(old.conf)]
    said = old.hosts("migrate", *options)
    assert "nats-server --signal reload" in said
    assert (str(old.secret(HOST)) in said) == old.tokens
    old.reload()
    for log in logs.values():
        with log.open("ab") as more:
            more.write(LINES)
    for host, log in logs.items():
        until(lambda: fleet.archived(host, log) == LINES * 2, what=lambda: producers[host].log)  # noqa: B023

    if old.tokens:  # one host has its new token already, the other has not
        kept[HOST].write_bytes(old.secret(HOST).read_bytes())
        assert producers[HOST].stop() == 0
        producers[HOST].start()
    with logs[HOST].open("ab") as more:
        more.write(LINES)
    until(lambda: fleet.archived(HOST, logs[HOST]) == LINES * 3, what=lambda: producers[HOST].log)
    audit = fleet.run("audit", "--hosts", **old.as_("collector"))
    assert audit.returncode == 0, audit.stdout + audit.stderr

    old.hosts("migrate", "--finish")
    old.server.reload()
    producers[OTHER].kill()
    done = fleet.run("produce", "--once", str(logs[OTHER]), HOSTNAME=OTHER, **old.as_(OTHER, kept[OTHER]))
    assert (done.returncode == 0) != old.tokens, done.stderr  # the old token ends, a key stays
    assert collector.stop() == 0
    for producer in producers.values():
        producer.kill()


def test_validate_names_what_is_open_until_it_is_migrated(old: Old, tmp_path: Path) -> None:
    (tmp_path / "x.log").write_bytes(LINES)

    def isolated() -> dict[str, str]:
        done = old.fleet.run("validate", "--connect", "--json", str(tmp_path / "x.log"), HOSTNAME=HOST, **old.as_(HOST))
        (found,) = [each for each in json.loads(done.stdout)["checks"] if each["check"] == "isolated"]
        return found

    before = isolated()
    assert before["sign"] == "warning"
    assert "not isolated" in before["text"]
    assert "fshipper hosts migrate" in before["hint"]
    old.hosts("migrate", *([] if old.tokens else ["--server-config", str(old.conf)]))
    if old.tokens:
        old.reload()
    else:
        assert isolated()["sign"] == "warning"  # the server has not read it yet
        old.reload()
    assert isolated()["sign"] == "ok"


def test_a_host_that_is_added_between_the_steps_works_in_both_layouts(old: Old, tmp_path: Path) -> None:
    new = "new.example.net"
    old.hosts("migrate")
    old.hosts("add", new)
    old.reload()

    def ships(host: str) -> bool:
        log = tmp_path / f"{host}.log"
        log.write_bytes(LINES)
        done = old.fleet.run("produce", "--once", str(log), HOSTNAME=host, **old.as_(host))
        return done.returncode == 0

    assert ships(new)
    assert ships(HOST)


@pytest.fixture
def flat(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Fleet:
    make_old(monkeypatch, tmp_path / "access", AuthMethod.KEYS)
    return Fleet(tmp_path, "nats://127.0.0.1:1")


def hosts(fleet: Fleet, *arguments: str):
    return fleet.run("hosts", *arguments, SHIPPER_ACCESS=str(fleet.directory / "access"))


def test_an_older_roster_stays_as_it_is_until_it_is_migrated(flat: Fleet) -> None:
    assert hosts(flat, "add", "new.example.net").returncode == 0
    assert json.loads((flat.directory / "access" / "roster.json").read_text())["version"] == 1
    assert not (flat.directory / "access" / "accounts.conf").exists()
    assert "hosts migrate" in hosts(flat, "list").stderr
    done = hosts(flat, "add", "alice", "--as", "monitor")
    assert done.returncode == 64
    assert "hosts migrate" in done.stderr


def test_a_second_migration_changes_nothing_and_a_finish_before_the_first_is_refused(flat: Fleet) -> None:
    done = hosts(flat, "migrate", "--finish")
    assert done.returncode == 64
    assert hosts(flat, "migrate").returncode == 0
    before = (flat.directory / "access" / "accounts.conf").read_bytes()
    done = hosts(flat, "migrate")
    assert done.returncode == 64
    assert "--finish" in done.stderr
    assert (flat.directory / "access" / "accounts.conf").read_bytes() == before


def test_the_old_layout_is_not_ended_while_the_server_includes_it(flat: Fleet) -> None:
    conf, users = flat.directory / "nats-server.conf", flat.directory / "access" / "users.conf"
    conf.write_text(OLD.replace("../", ""))
    assert hosts(flat, "migrate").returncode == 0
    done = hosts(flat, "migrate", "--finish")
    assert done.returncode == 64
    assert "still includes users.conf" in done.stderr
    assert users.exists()
    conf.write_text('accounts { include "access/accounts.conf" }  # not users.conf any more\n')
    assert hosts(flat, "migrate", "--finish").returncode == 0
    assert not users.exists()


@pytest.mark.parametrize(
    "text", ["", "accounts { LOGS { users: [] } }", 'accounts { X { include "access/users.conf" } }']
)
def test_a_server_file_that_is_not_understood_is_left_alone_with_the_line_to_write(flat: Fleet, text: str) -> None:
    conf = flat.directory / "nats-server.conf"
    conf.write_text(text)
    done = hosts(flat, "migrate", "--server-config", str(conf))
    assert done.returncode == 78
    assert 'include "access/accounts.conf"' in done.stderr
    assert conf.read_text() == text
    assert not (flat.directory / "access" / "accounts.conf").exists(), "half a migration"


def test_the_server_file_keeps_everything_else_and_its_text_before(flat: Fleet) -> None:
    conf = flat.directory / "nats-server.conf"
    conf.write_text("port: 1\n" + OLD.replace("../", "") + "# the end\n")
    assert hosts(flat, "migrate", "--server-config", str(conf)).returncode == 0
    assert (
        conf.read_text() == 'port: 1\naccounts {\n  # our own words\n  include "access/accounts.conf"\n}\n# the end\n'
    )
    assert conf.with_name(conf.name + KEPT_SUFFIX).read_text() == "port: 1\n" + OLD.replace("../", "") + "# the end\n"
