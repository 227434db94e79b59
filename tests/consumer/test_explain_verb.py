"""`fshipper explain` of real programs: a file and a line at each stage of their way, by every source of knowledge."""

import asyncio
import json
import os
import subprocess
from pathlib import Path

import nats
import pytest
from harness.fleet import FSHIPPER, Fleet, until

HOST = "web1.example"
ANOTHER_USER = 65534
AS_ORDINARY_USER = ("setpriv", "--inh-caps=-all", "--bounding-set=-dac_override,-dac_read_search")
"""Root that may do with files what every user may."""
CLOSED = "nats://127.0.0.1:1"


@pytest.fixture
def fleet(tmp_path, natsd):
    with Fleet(tmp_path, natsd.url, partitions=2) as found:
        found.apply()
        yield found


def directory_of(fleet: Fleet) -> Path:
    path = fleet.directory / "log"
    path.mkdir(exist_ok=True)
    return path


def produce(fleet: Fleet, **more: str):
    """A producer of everything in the directory, that answers."""
    here = directory_of(fleet)
    options = ("--exclude", "*.excluded", "--ignore-older", "7d")
    producer = fleet.start("produce", *options, f"{here}/*", HOSTNAME=HOST, **more)
    until(lambda: "session_begun" in producer.log, what=lambda: producer.log)
    return producer


def explain(fleet: Fleet, path: Path | str, *arguments: str, **more: str) -> dict:
    done = fleet.run("explain", HOST, str(path), "--json", *arguments, **more)
    assert done.returncode in {0, 1}, done.stderr
    found = json.loads(done.stdout)
    assert done.returncode == (0 if found["archived"] else 1)
    assert (found["v"], found["next"] != "", len(found["steps"])) == (1, True, 8)
    return found


def stage(fleet: Fleet, path: Path | str, *arguments: str, **more: str) -> str:
    return explain(fleet, path, *arguments, **more)["stage"]


def test_what_a_producer_does_not_read_has_its_reason(fleet, tmp_path):
    here = directory_of(fleet)
    (here / "app.log").write_bytes(b"a line\n")
    (here / "app.log.excluded").write_bytes(b"a line\n")
    (here / "packed.gz").write_bytes(b"\x1f\x8b\x08\x00 and more")
    (here / "subdirectory").mkdir()
    (here / "old.log").write_bytes(b"an old line\n")
    os.utime(here / "old.log", (1_600_000_000, 1_600_000_000))
    (tmp_path / "secret").write_bytes(b"another file\n")
    (here / "dead.log").symlink_to(tmp_path / "gone")
    os.link(here / "app.log", here / "second.log")
    produce(fleet)
    expected = {
        str(tmp_path / "secret"): "unmatched",
        str(tmp_path / "gone" / "nothing"): "unmatched",
        str(here / "none.log"): "missing",
        str(here / "dead.log"): "missing",
        str(here / "app.log.excluded"): "excluded",
        str(here / "packed.gz"): "skipped",
        str(here / "subdirectory"): "skipped",
        str(here / "old.log"): "old",
    }
    assert {path: stage(fleet, path) for path in expected} == expected
    in_text = fleet.run("explain", HOST, str(here / "app.log.excluded"))
    assert in_text.stdout.startswith("! matched")
    assert "*.excluded" in in_text.stdout
    assert str(here / "app.log") in explain(fleet, here / "second.log")["producer"]["reason"]


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to give a file to another user")
def test_a_file_without_permission_is_unreadable(fleet):
    path = directory_of(fleet) / "app.log"
    path.write_bytes(b"a line\n")
    path.chmod(0o600)
    os.chown(path, ANOTHER_USER, ANOTHER_USER)
    command = [*AS_ORDINARY_USER, FSHIPPER, "produce", str(path)]
    with subprocess.Popen(command, env=fleet.environment(HOSTNAME=HOST), stderr=subprocess.DEVNULL) as producer:
        until(lambda: fleet.run("explain", HOST, str(path)).returncode == 1)
        found = explain(fleet, path)
        assert (found["stage"], found["steps"][1]["state"]) == ("unreadable", "stopped")
        assert "permission denied" in found["sentence"].lower()
        missing = json.loads(fleet.run("wait", "--json", "--timeout", "2").stdout)["hosts"][0]
        assert (missing["missing"], missing["unreadable"]) == ("unreadable", [str(path)])
        producer.terminate()


def test_a_line_from_its_last_byte_to_the_archive_and_its_report(fleet, tmp_path):
    path = directory_of(fleet) / "app.log"
    path.write_bytes(b"first line\nsecond line\nhalf a li")
    producer = produce(fleet, SHIPPER_PARTIAL_AFTER="0")
    until(lambda: explain(fleet, path)["stream"], what=lambda: producer.log)

    held = explain(fleet, path)
    assert (held["stage"], held["since"] is not None) == ("unterminated", True)
    sent = explain(fleet, path, "--line", "second")
    assert (sent["stage"], sent["stream"]["sequence"], sent["since"] is not None) == ("stream", 1, True)
    until(lambda: "no collector reads them" in explain(fleet, path, "--line", "second")["sentence"])

    with path.open("ab") as log:
        log.write(b"ne\n")
    until(lambda: stage(fleet, path) == "stream", what=lambda: producer.log)
    collector = fleet.consume()
    until(lambda: stage(fleet, path) == "searchable", within=60, what=lambda: collector.log)
    found = explain(fleet, path, "--line", "half a line")
    assert found["archive"]["offset"] == len(b"first line\nsecond line\n")
    assert found["archive"]["partition"] == sent["stream"]["partition"]
    assert explain(fleet, path, "--line", "no such line")["stage"] == "unknown"

    assert producer.stop() == 0
    assert collector.stop() == 0
    fleet.drain("--seal")
    assert stage(fleet, path, "--line", "first") == "sealed"
    day = explain(fleet, path, "--line", "first")["archive"]["date"]
    report = tmp_path / "report" / day / "report.json"
    report.parent.mkdir(parents=True)
    report.write_text("{}")
    os.utime(report, (1_600_000_000, 1_600_000_000))
    reports = ("--reports", str(tmp_path / "report"))
    assert explain(fleet, path, "--line", "first", *reports)["steps"][-1]["text"].endswith("is older")
    report.touch()
    assert stage(fleet, path, "--line", "first", *reports) == "reported"


def test_what_a_full_stream_holds_on_the_host_is_read_and_not_stored(tmp_path, natsd):
    with Fleet(tmp_path, natsd.url, partitions=1) as fleet:
        fleet.must("partition", "apply", "--partitions", "1", "--max-bytes", "1000000")
        path = directory_of(fleet) / "app.log"
        path.write_bytes(b"".join(os.urandom(60).hex().encode() + b"\n" for _ in range(50_000)))
        producer = produce(fleet)
        until(lambda: "stream_full" in producer.log, what=lambda: producer.log)
        until(lambda: "maximum bytes exceeded" in explain(fleet, path)["sentence"])  # its next heartbeat has the reason
        found = explain(fleet, path)
        assert found["stage"] in {"unread", "read"}
        assert "stopped" in {step["state"] for step in found["steps"]}


def test_a_host_that_moved_is_explained_in_its_new_partition(fleet, tmp_path):
    path = directory_of(fleet) / "app.log"
    path.write_bytes(b"before the move\n")
    producer, collector = produce(fleet), fleet.consume()
    until(lambda: stage(fleet, path) == "searchable", within=60, what=lambda: collector.log)
    before = explain(fleet, path, "--line", "before")["archive"]["partition"]
    fleet.must("partition", "move", "--partitions", "4", "--override", f"{HOST}=3", "--yes")
    with path.open("ab") as log:
        log.write(b"after the move\n")
    until(lambda: stage(fleet, path, "--line", "after") == "searchable", within=60, what=lambda: producer.log)
    assert explain(fleet, path, "--line", "after")["archive"]["partition"] != before
    assert explain(fleet, path, "--line", "before")["archive"]["partition"] == before
    assert stage(fleet, path, SHIPPER_DIRECTORY=str(tmp_path / "no archive")) == "archived"  # by the receipts
    path.rename(path.with_name("app.log.1"))
    until(lambda: "app.log" in explain(fleet, path.with_name("app.log.1"))["producer"]["reason"])
    path.with_name("app.log.1").unlink()
    until(lambda: stage(fleet, path) == "searchable")  # the file is gone, and the archive has all of it


def test_a_host_that_does_not_answer_is_explained_by_what_is_known(fleet):
    path = directory_of(fleet) / "app.log"
    path.write_bytes(b"a line\n")
    producer = produce(fleet)
    until(lambda: explain(fleet, path)["stream"], what=lambda: producer.log)
    assert producer.stop() == 0
    fleet.drain()
    found = explain(fleet, path)
    assert (found["stage"], found["archive"] is not None) == ("unknown", True)
    assert "was stopped" in found["sentence"]
    assert stage(fleet, path, "--line", "a line") == "searchable"
    assert fleet.run("explain", "nosuch.example", str(path)).returncode == 69


def test_on_the_host_itself_it_works_without_a_server_and_a_producer(fleet, tmp_path):
    path = directory_of(fleet) / "app.log"
    path.write_bytes(b"a line\n")
    here = {"HOSTNAME": HOST, "NATS_URL": CLOSED, "SHIPPER_FILE": f"{path.parent}/*"}
    here["SHIPPER_DIRECTORY"] = str(tmp_path / "no archive")
    assert stage(fleet, path, **here) == "unread"
    fleet.ship_once(HOST, f"{path.parent}/*")
    assert stage(fleet, path, **here) == "stream"
    with path.open("ab") as log:
        log.write(b"another line\n")
    assert stage(fleet, path, "--line", "a line", **here) == "stream"
    assert stage(fleet, path, "--line", "another", **here) == "unread"
    assert stage(fleet, path, "--line", "never written", **here) == "unknown"
    assert stage(fleet, path.with_name("none.log"), **here) == "missing"
    assert not list(tmp_path.glob("**/*-wal"))  # nothing is changed in the state directory
    assert fleet.run("explain", "other.example", str(path), **here).returncode == 69


def test_a_producer_of_an_older_version_is_named_as_that(fleet):
    async def older(done: asyncio.Event) -> None:
        client = await nats.connect(fleet.url)

        async def answer(message):
            if json.loads(message.data)["ask"] == "marks":
                await message.respond(b'{"v": 1, "marks": []}')

        await client.subscribe(f"ctl.down.{HOST}", cb=answer)
        await client.publish(f"logs.p0.{HOST}", b"a line")
        await client.flush()
        await done.wait()
        await client.close()

    async def both() -> dict:
        done = asyncio.Event()
        serving = asyncio.create_task(older(done))
        await asyncio.sleep(0.2)
        found = await asyncio.to_thread(explain, fleet, "/var/log/app.log")
        done.set()
        await serving
        return found

    found = asyncio.run(both())
    assert found["stage"] == "unknown"
    assert "too old" in found["sentence"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [(("web1", "app.log"), "no whole path"), (("web1", "/a", "--line", "a\nb"), "several lines"), (("a b", "/a"), "")],
)
def test_a_mistyped_call_ends_with_64_or_78_and_a_next_step(fleet, arguments, message):
    done = fleet.run("explain", *arguments)
    assert done.returncode in {64, 78}
    assert message in done.stderr
    assert "hint: " in done.stderr
