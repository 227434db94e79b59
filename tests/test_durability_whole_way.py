"""What a server may lose is named by validate, status and the page: real servers, each with one fault."""

import json
import re
import urllib.request
from contextlib import ExitStack, contextmanager, suppress

import pytest
from harness.cluster import cluster
from harness.fleet import Fleet, until
from harness.natsd import running
from harness.ports import free_port
from harness.wiretap import Wiretap, renamed, says

SAFE = "a power loss costs no acknowledged line, a lost disk costs what is not archived"


@contextmanager
def one_server(directory, *, sync, version=""):
    """A fleet on one server with a monitoring port; `version`: what it claims to be."""
    http = free_port()
    with ExitStack() as stack:
        server = stack.enter_context(running(directory / "natsd", sync=sync, extra=f'http: "127.0.0.1:{http}"'))
        Fleet(directory, server.url, partitions=1).apply()
        url = server.url
        if version:
            url = stack.enter_context(Wiretap(reply=renamed(server.port, version))).url("nats")
        yield stack.enter_context(Watched(directory, url, f"http://127.0.0.1:{http}"))


class Watched(Fleet):
    """A fleet whose programs know the monitoring ports."""

    def __init__(self, directory, url, monitors):
        super().__init__(directory, url, partitions=1)
        self.monitors = monitors

    def environment(self, **more):
        return super().environment(**({"NATS_MONITOR": self.monitors} | more))

    def validated(self, *arguments, **more):
        """The exit code, the check of the durability, and its fields."""
        done = self.run("validate", "--connect", "--json", *arguments, **more)
        found = json.loads(done.stdout)
        (check,) = [each for each in found["checks"] if each["check"] == "durability"]
        return done.returncode, check, found["durability"]

    def status(self, **more):
        done = self.run("status", "--json", **more)
        return done.returncode, json.loads(done.stdout)["durability"]

    def page(self):
        """The first event with a snapshot of the page of a collector."""
        port = free_port()
        collector = self.start("consume", SHIPPER_LISTEN=f"127.0.0.1:{port}")
        events = f"http://127.0.0.1:{port}/events"

        known = []

        def seen():
            with suppress(OSError), urllib.request.urlopen(events, timeout=10) as answer:
                for line in answer:
                    if line.startswith(b"data: ") and (found := json.loads(line[6:]))["known"]:
                        known.append(found)
                        break
            return known

        until(seen, what=lambda: collector.log)
        collector.stop()
        return known[0], collector.log


CASES = [
    ("always", "", "durable", "ok", f"nats-server 2.15.1, sync always, 1 server, 1 replica: {SAFE}", ""),
    (
        '"2m"', "", "lazy_sync", "warning",
        "sync 2m, 1 server, 1 replica: a power loss may cost up to 2 min of acknowledged lines, a lost disk costs what",
        "set `sync_interval: always`",
    ),
    ("2m", "", "lazy_sync", "warning", "sync 23 d", "a time needs quotes"),
    ("always", "2.14.5", "old_server", "warning", "because before 2.14.6 not every write is synced", "upgrade"),
    ("always", "2.14.6-RC.1", "durable", "ok", f"nats-server 2.14.6, sync always, 1 server, 1 replica: {SAFE}", ""),
]  # fmt: skip
IDS = ["always", "lazy", "unquoted", "before 2.14.6", "candidate"]


@pytest.mark.parametrize(("sync", "version", "verdict", "sign", "text", "hint"), CASES, ids=IDS)
def test_validate_status_and_page_name_how_one_server_syncs(tmp_path, sync, version, verdict, sign, text, hint):
    with one_server(tmp_path, sync=sync, version=version) as fleet:
        log = tmp_path / "app.log"
        log.write_text("a line\n")
        for arguments in ((str(log), "--host", "web1"), ("--role", "collector")):
            code, check, fields = fleet.validated(*arguments)
            assert (code, check["sign"], fields["verdict"]) == (0, sign, verdict), check
            assert text in check["text"]
            assert hint in check["hint"]
        code, found = fleet.status()
        assert (code, found) == (0, fields)
        shown = " ".join(fleet.must("status").split())
        assert found["text"] in shown
        page, said = fleet.page()
        assert page["durability"] == found
        notes = [(each["state"], each["why"]) for each in page["troubles"] if each["kind"] == "durability"]
        is_safe = verdict == "durable"
        assert notes == ([] if is_safe else [("note", f"{found['text']} ({found['hint']})")])
        assert ("durability_at_risk" in said) is not is_safe


def test_a_server_that_lacks_what_is_needed_is_wrong_and_starts_no_program(tmp_path):
    with one_server(tmp_path, sync="always", version="2.12.8") as fleet:
        log = tmp_path / "app.log"
        log.write_text("a line\n")
        code, check, fields = fleet.validated("--role", "collector")
        assert (code, check["sign"], fields["verdict"]) == (69, "wrong", "too_old")
        assert "it is older than 2.14.0, and it cannot reset a consumer" in check["text"]
        assert fleet.status()[1] == fields
        for arguments in (("produce", "--once", str(log)), ("consume", "--drain"), ("partition", "apply")):
            done = fleet.run(*arguments, within=30, HOSTNAME="web1")
            assert done.returncode == 69, done.stderr
            assert "nats-server 2.12.8 at nats://127.0.0.1" in done.stderr
            assert "hint: upgrade nats-server to 2.14.6 or later" in done.stderr


def test_in_a_cluster_that_is_upgraded_programs_use_the_servers_that_are_new_enough(tmp_path):
    with (
        running(tmp_path / "natsd") as server,
        Wiretap(reply=renamed(server.port, "2.12.8")) as older,
        Fleet(tmp_path, f"{older.url('nats')},{server.url}", partitions=1) as fleet,
    ):
        fleet.apply()
        log = tmp_path / "app.log"
        log.write_text("a line\n")
        for number in range(4):
            fleet.ship_once(f"web{number}", log)
        fleet.drain()
        assert fleet.archived("web3", log) == b"a line\n"


HEAD = b"HTTP/1.0 200 OK\r\n\r\n"


@pytest.mark.parametrize(
    ("before", "body"),
    [(b"", b""), (HEAD, b"[1]"), (HEAD, b"[" * 100_000), (b"x" * 3_000_000, b""), (HEAD + b" " * 2_000_000, None)],
    ids=["closed", "list", "nested", "no end", "long"],
)
def test_a_monitoring_port_that_answers_nonsense_leaves_the_setting_unknown(tmp_path, before, body):
    """`body`: None: that of the server."""
    with one_server(tmp_path, sync="always") as fleet, urllib.request.urlopen(fleet.monitors + "/varz") as answer:
        body = answer.read() if body is None else body

        def nonsense(tap, client):
            tap.read(client)
            client.sendall(before + body)
            client.close()

        with Wiretap(reply=nonsense) as tap:
            code, found = fleet.status(NATS_MONITOR=tap.url("http"))
            assert (code, found["verdict"], found["sync"]) == (0, "not_known", None)
            assert "NATS_MONITOR" in found["hint"]
            assert tap.received.startswith(b"GET /varz ")


def test_a_monitoring_port_that_never_answers_delays_nothing_for_long(tmp_path):
    with one_server(tmp_path, sync="always") as fleet, Wiretap(reply=says()) as tap:
        assert fleet.status(NATS_MONITOR=tap.url("http"))[1]["verdict"] == "not_known"
        assert tap.connections == 1


def test_the_monitoring_port_of_another_server_says_nothing_about_this_one(tmp_path):
    with one_server(tmp_path / "lazy", sync='"2m"') as other, one_server(tmp_path / "own", sync="always") as fleet:
        assert fleet.status(NATS_MONITOR=other.monitors)[1]["sync"] is None
        assert fleet.status(NATS_MONITOR=f"{other.monitors},{fleet.monitors}")[1]["sync"] == "always"


def test_one_replica_on_three_servers_is_named_until_the_streams_have_three(tmp_path):
    with cluster(tmp_path) as nodes:
        monitors = ",".join(f"http://127.0.0.1:{node.http}" for node in nodes.values())
        with Watched(tmp_path, nodes.url, monitors) as fleet:
            fleet.apply()
            code, check, fields = fleet.validated("--role", "collector")
            assert (code, check["sign"], fields["verdict"]) == (0, "warning", "one_replica")
            assert "3 servers, 1 replica" in check["text"]
            assert "a lost disk costs what is not archived of the partitions on it" in check["text"]
            assert "fshipper partition apply --replicas 3" in check["hint"]
            assert fleet.status() == (0, fields)
            page, _ = fleet.page()
            assert [each["why"] for each in page["troubles"] if each["kind"] == "durability"] == [
                f"{fields['text']} ({fields['hint']})"
            ]
            unread = fleet.status(NATS_MONITOR="http://127.0.0.1:1")[1]
            assert (unread["verdict"], unread["servers"], unread["sync"]) == ("one_replica", None, None)
            partly = fleet.status(NATS_MONITOR=monitors.partition(",")[0])[1]
            assert "sync always on 1 of 3, 3 servers" in partly["text"]
            assert "what a power loss may cost is not known" in partly["text"]
            done = fleet.must("partition", "apply", "--replicas", "3", "--yes")
            assert re.search(r"updated stream LOGS_0 \(num_replicas 1 → 3\)", done)
            fields = fleet.status()[1]
            assert (fields["verdict"], fields["replicas"], fields["servers"]) == ("durable", 3, 3)
            assert fields["text"].endswith("a power loss costs no acknowledged line, a lost disk costs nothing")
