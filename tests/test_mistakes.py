"""Two terminals, two machines or two versions that disagree on a setting: nothing comes twice, or nothing is sent.

Each row starts the programs twice with another value of one setting. Then every line of the source is in the archive
once, or the second start ends with an error before the first byte. The table of all rows is in the output.
"""

import asyncio
import contextlib
import os
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest
from harness.fleet import Fleet, contents, until
from harness.natsd import NatsServer, running

from shipper.jetstream.connection import connect
from shipper.settings import NatsSettings
from shipper.subjects import bucket_subject

HOST = "web1.example.net"
LINES = b"".join(b"line %d\n" % number for number in range(1000))
MORE = b"".join(b"later %d\n" % number for number in range(100))


class World:
    """A server, an archive and two files of one host."""

    def __init__(self, directory: Path, server: NatsServer) -> None:
        self.directory = directory
        self.server = server
        self.fleet = Fleet(directory, server.url)
        self.fleet.must("partition", "apply", "--partitions", "4")
        self.logs = directory / "logs"
        self.logs.mkdir()
        self.files = [self.logs / "a.log", self.logs / "b.log"]
        for number, path in enumerate(self.files):
            path.write_bytes(b"of file %d\n" % number + LINES)

    def ship(self, *options: str, paths: str = "", host: str = HOST, **more: str):
        """`produce --once` with no setting of the partitions but those that are given."""
        environment = {"SHIPPER_PARTITIONS": "", "HOSTNAME": host} | more
        return self.fleet.run("produce", "--once", *options, paths or f"{self.logs}/*.log", **environment)

    def drain(self, *options: str, **more: str) -> None:
        self.fleet.must("consume", "--drain", *options, **{"SHIPPER_PARTITIONS": ""} | more)

    def grow(self) -> None:
        for path in self.files:
            with path.open("ab") as file:
                file.write(MORE)

    def expect_once(self, *archives: Path) -> None:
        """Every line of every file is in the archives once, and in its order."""
        found = [content for archive in archives or [self.fleet.archive] for content in contents(archive)]
        assert sorted(b"".join(found).splitlines()) == sorted(b"".join(self.read()).splitlines())
        if not archives:
            assert sorted(found) == sorted(self.read())

    def read(self) -> list[bytes]:
        return [path.read_bytes() for path in self.files]


@pytest.fixture
def world(tmp_path: Path, natsd: NatsServer) -> World:
    return World(tmp_path, natsd)


class Row(NamedTuple):
    """One pair of values, and what became of the second start."""

    setting: str
    first: str
    second: str
    outcome: str


ROWS: list[Row] = []


@pytest.fixture(scope="module", autouse=True)
def table(request: pytest.FixtureRequest) -> Iterator[None]:
    yield
    capture = request.config.pluginmanager.getplugin("capturemanager")
    with capture.global_and_fixture_disabled() if capture else contextlib.nullcontext():
        widths = [max(map(len, column)) for column in zip(*ROWS, strict=True)] if ROWS else []
        print("\n\nsettings that two starts disagree on, and what became of the second:")
        for row in ROWS:
            print("  " + "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())


def note(setting: str, first: object, second: object, outcome: str) -> None:
    ROWS.append(Row(setting, str(first), str(second), outcome))


def forget_map(server: NatsServer) -> None:
    """A server as older versions left it: streams, and no partition map."""

    async def work() -> None:
        connection = await connect(NatsSettings(url=server.url), name="test", inbox="_INBOX_test")
        await connection.api("STREAM.PURGE.KV_fshipper", {"filter": bucket_subject("map.logs")})
        await connection.close()

    asyncio.run(work())


# -- partitions ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("first", "second"), [("4", ""), ("", "4"), ("4", "0"), ("4", "64"), ("1", "3")])
def test_the_partition_map_decides_whatever_two_terminals_say(world: World, first: str, second: str) -> None:
    assert world.ship(SHIPPER_PARTITIONS=first).returncode == 0
    world.grow()
    done = world.ship(SHIPPER_PARTITIONS=second)
    assert done.returncode == 0
    said = [line for line in done.stderr.splitlines() if "partition_by_map" in line]
    assert len(said) == (second != "4")
    assert "server_lost_data" not in done.stderr
    world.drain()
    world.expect_once()
    note("SHIPPER_PARTITIONS", first or "unset", second or "unset", "follows the map, once")


def test_an_archived_file_is_not_sent_again_by_a_terminal_without_the_number(world: World) -> None:
    """The reproduction: 1,000 lines archived, then a second terminal without SHIPPER_PARTITIONS."""
    world.ship("--partitions", "4")
    world.drain()
    assert world.ship().returncode == 0
    world.drain("--seal")
    world.expect_once()
    assert world.fleet.run("audit").returncode == 0


@pytest.mark.parametrize(("first", "second"), [("4", ""), ("", "4"), ("4", "64")])
def test_without_a_map_a_host_stays_where_its_checkpoint_is(world: World, first: str, second: str) -> None:
    forget_map(world.server)
    assert world.ship(SHIPPER_PARTITIONS=first).returncode == 0
    world.grow()
    done = world.ship(SHIPPER_PARTITIONS=second)
    assert (done.returncode, "partition_kept" in done.stderr) == (0, True)
    world.drain()
    world.expect_once()
    note("SHIPPER_PARTITIONS, no map", first or "unset", second or "unset", "stays, says so, once")


def test_a_number_above_what_the_server_has_is_named_with_the_number_that_it_has(world: World) -> None:
    forget_map(world.server)
    done = world.ship(SHIPPER_PARTITIONS="64", host="db1.example.net")  # of 64 its partition is above 3
    assert done.returncode == 69
    assert "the server has 4 partitions (LOGS_0 to LOGS_3)" in done.stderr
    assert "SHIPPER_PARTITIONS=4" in done.stderr
    note("SHIPPER_PARTITIONS, no map", "(new host)", "64", "refused, 69")


def test_a_checkpoint_of_an_older_version_is_found_in_the_partition_where_it_is(world: World) -> None:
    forget_map(world.server)
    world.ship(SHIPPER_PARTITIONS="4")
    for path in world.directory.glob("state/producer/*/checkpoint.sqlite"):
        with contextlib.closing(sqlite3.connect(path)) as database:  # versions before did not remember it
            database.execute("DELETE FROM standing")
            database.execute("DELETE FROM subject")
            database.commit()
    world.grow()
    done = world.ship()
    assert (done.returncode, "server_lost_data" in done.stderr) == (0, False)
    world.drain()
    world.expect_once()
    note("version", "before the map, 4", "this one, unset", "found by its messages, once")


def test_apply_with_another_number_is_refused_and_names_the_number_to_use(world: World) -> None:
    done = world.fleet.run("partition", "apply", "--partitions", "8", SHIPPER_PARTITIONS="")
    assert done.returncode == 78
    assert "fshipper partition move --partitions 8" in done.stderr
    again = world.fleet.run("partition", "apply", SHIPPER_PARTITIONS="")
    assert (again.returncode, again.stdout) == (0, "nothing to do\n")
    note("partition apply", "4", "8", "refused, 78")


# -- where state, archive and server are --------------------------------------------------------------------------


def test_another_state_directory_sends_nothing_while_it_is_unknown_what_is_archived(world: World) -> None:
    world.ship()
    before = world.fleet.messages()
    done = world.ship(SHIPPER_STATE=str(world.directory / "other"))
    assert (done.returncode, "has shipped before without this state directory" in done.stderr) == (69, True)
    assert world.fleet.messages() == before
    world.drain()
    world.expect_once()
    note("SHIPPER_STATE, nothing archived yet", "state", "other", "refused, 69")


@pytest.mark.parametrize("partitions", ["", "4"])
def test_another_state_directory_continues_after_what_is_archived(world: World, partitions: str) -> None:
    if partitions:
        forget_map(world.server)
    world.ship(SHIPPER_PARTITIONS=partitions)
    world.grow()
    collector = world.fleet.consume()
    until(lambda: world.fleet.lag() == 0, what="everything is archived")
    done = world.ship(SHIPPER_STATE=str(world.directory / "other"))
    assert done.returncode == 0, done.stderr
    assert collector.stop() == 0
    world.expect_once()
    note("SHIPPER_STATE" + (", no map" if partitions else ""), "state", "other", "continues after the archive, once")


def test_draining_into_a_new_directory_is_refused_where_another_archive_has_the_rest(world: World) -> None:
    other = world.directory / "archive2"
    world.ship()
    world.drain()
    world.grow()
    world.ship()
    done = world.fleet.run("consume", "--drain", SHIPPER_DIRECTORY=str(other))
    assert (done.returncode, f"SHIPPER_DIRECTORY (--directory) to {world.fleet.archive}" in done.stderr) == (78, True)
    world.drain()
    world.expect_once()
    assert contents(other) == []
    note("SHIPPER_DIRECTORY, consume --drain", "archive", "archive2", "refused, 78")


def test_a_collector_with_an_archive_of_its_own_reports_where_the_rest_is(world: World) -> None:
    """What the first archive confirmed to the producer is not sent to the second; the rest is recorded in both."""
    other = world.directory / "archive2"
    world.ship()
    world.drain()
    world.grow()
    follower = world.fleet.start("produce", f"{world.logs}/*.log", HOSTNAME=HOST, SHIPPER_PARTITIONS="")
    collector = world.fleet.start("consume", SHIPPER_DIRECTORY=str(other))
    until(lambda: world.fleet.lag() == 0 and len(b"".join(contents(other))) >= 2 * len(MORE), what="archived")
    assert "archived_elsewhere" in collector.log
    assert str(world.fleet.archive) in collector.log
    follower.stop()
    collector.stop()
    assert all(content in {*world.read(), MORE} for content in contents(other))  # no line twice in one archive
    note("SHIPPER_DIRECTORY, consume", "archive", "archive2", "names the first; once in each archive")


def test_a_second_server_of_the_same_archive_does_not_get_the_lines_into_it_again(world: World, tmp_path: Path) -> None:
    world.ship()
    world.drain()
    with running(tmp_path / "natsd2") as second:
        url = {"NATS_URL": second.url}
        world.fleet.must("partition", "apply", "--partitions", "4", **url)
        world.grow()
        assert world.ship(**url).returncode == 0
        world.drain(**url)
    world.expect_once()
    note("NATS_URL", "server 1", "server 2", "same archive, once")


def test_one_server_under_two_urls_is_one_server(world: World) -> None:
    world.ship()
    world.grow()
    done = world.ship(NATS_URL=world.server.url.replace("127.0.0.1", "localhost"))
    assert (done.returncode, "server_lost_data" in done.stderr) == (0, False)
    world.drain()
    world.expect_once()
    note("NATS_URL", "127.0.0.1", "localhost", "once")


# -- names --------------------------------------------------------------------------------------------------------


def test_another_subject_is_refused_before_the_first_byte(world: World) -> None:
    world.ship()
    world.fleet.must("partition", "apply", "--partitions", "4", "--subject", "app")
    done = world.ship("--subject", "app")
    assert (done.returncode, "belongs to subject 'logs'" in done.stderr) == (78, True)
    world.drain()
    refused = world.fleet.run("consume", "--drain", "--subject", "app")
    assert (refused.returncode, "belongs to subject 'logs'" in refused.stderr) == (78, True)
    world.expect_once()
    note("SHIPPER_SUBJECT, producer", "logs", "app", "refused, 78")
    note("SHIPPER_SUBJECT, collector", "logs", "app", "refused, 78")


def test_a_host_name_by_default_is_refused_where_the_files_were_shipped_under_another(world: World) -> None:
    world.ship()
    environment = {"SHIPPER_PARTITIONS": "", "HOSTNAME": None}
    done = world.fleet.run("produce", "--once", f"{world.logs}/*.log", **environment)
    assert done.returncode == 78
    assert f"was shipped as host '{HOST}'" in done.stderr
    world.drain()
    world.expect_once()
    note("HOSTNAME", HOST, "unset", "refused, 78")


def test_a_configured_host_name_is_another_host_which_is_reported(world: World) -> None:
    world.ship()
    done = world.ship(host="web2.example.net")
    assert (done.returncode, f"other={HOST}" in done.stderr) == (0, True)
    assert "shipped_as_another_host" in done.stderr
    world.drain()
    for path in world.files:
        assert [world.fleet.archived(host, path) for host in (HOST, "web2.example.net")] == [path.read_bytes()] * 2
    note("HOSTNAME", HOST, "web2.example.net", "another host, says so; once in each host's file")


@pytest.mark.parametrize("second", [HOST.upper(), f"{HOST}."])
def test_a_host_name_in_other_letters_is_the_same_host(world: World, second: str) -> None:
    world.ship()
    world.grow()
    assert world.ship(host=second).returncode == 0
    world.drain()
    world.expect_once()
    note("HOSTNAME", HOST, second, "the same host, once")


# -- paths and clocks ---------------------------------------------------------------------------------------------


def other_path(directory: Path, how: str) -> str:
    match how:
        case "not normal":
            return f"{directory}/../logs/./*.log"
        case "listed":
            return f"{directory}/a.log {directory}/b.log"
        case "through a link":
            (directory.parent / "link").symlink_to(directory)
            return f"{directory.parent}/link/*.log"
    (directory.parent / "hard").mkdir()
    for path in directory.glob("*.log"):
        os.link(path, directory.parent / "hard" / path.name)
    return f"{directory.parent}/hard/*.log"


@pytest.mark.parametrize("how", ["not normal", "listed", "through a link", "hard links"])
def test_a_file_under_another_path_is_the_same_file(world: World, how: str) -> None:
    world.ship()
    world.grow()
    paths = other_path(world.logs, how).split()
    done = world.fleet.run("produce", "--once", *paths, SHIPPER_PARTITIONS="", HOSTNAME=HOST)
    assert done.returncode == 0, done.stderr
    world.drain()
    world.expect_once()
    note("paths", "logs/*.log", how, "once")


def test_a_path_relative_to_the_working_directory_is_the_same_file(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.ship()
    world.grow()
    monkeypatch.chdir(world.logs)
    assert world.ship(paths="*.log").returncode == 0
    world.drain()
    world.expect_once()
    note("paths", "absolute", "relative", "once")


def test_time_zones_change_nothing(world: World) -> None:
    world.ship(TZ="Pacific/Kiritimati")
    world.drain(TZ="Pacific/Niue")
    world.grow()
    world.ship(TZ="America/St_Johns")
    world.drain("--seal", TZ="Asia/Kathmandu")
    world.expect_once()
    assert world.fleet.run("audit", TZ="Pacific/Apia").returncode == 0
    assert len({path.parts[-4] for path in world.fleet.archive.glob("date=*/partition=*/host=*/*")}) == 1
    note("TZ", "UTC+14, UTC-11", "UTC-3:30, UTC+5:45", "once, on one day")


@pytest.mark.parametrize(("first", "second"), [("0-1", ""), ("", "0-3")])
def test_collectors_with_other_partitions_to_read_write_each_line_once(world: World, first: str, second: str) -> None:
    world.ship()
    world.drain(SHIPPER_READ_PARTITIONS=first)
    world.drain(SHIPPER_READ_PARTITIONS=second)
    world.expect_once()
    note("SHIPPER_READ_PARTITIONS", first or "unset", second or "unset", "once")
