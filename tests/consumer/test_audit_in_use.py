"""The audit during the work of other programs: collectors that write and seal, producers that answer."""

import asyncio
import contextlib
import os
import pty
import sqlite3
import subprocess
import threading
from pathlib import Path

import nats
import pytest
from auditing import LINES, audit
from harness.fleet import FSHIPPER, Fleet, until
from harness.natsd import NatsServer

from consumer.archive import journal_snapshot
from consumer.archive.journal import Journal
from consumer.model import ArchivedSource, Changes, OpenFile, Position
from shipper.layout import FileKey

HOST = "web1.example.net"


@contextlib.contextmanager
def written(path: Path):
    """Another process appends to `path` all the time, some 100 KB a second."""
    stop = threading.Event()

    def write() -> None:
        with path.open("ab", buffering=0) as log:
            while not stop.wait(0.03):
                log.write(LINES)

    writer = threading.Thread(target=write)
    writer.start()
    try:
        yield
    finally:
        stop.set()
        writer.join()


def test_an_archive_that_is_written_and_sealed_meanwhile_is_complete_at_every_audit(
    fleet: Fleet, tmp_path: Path
) -> None:
    path, config = tmp_path / "app.log", tmp_path / "small.toml"
    path.touch()
    config.write_text('[collector]\nsegment = "100KB"\nmerge = "400KB"\n')
    fleet.produce(HOST, path, options=("--poll", "10ms"))
    collector = fleet.consume("--config", str(config))
    arguments = (str(fleet.archive), "--state", str(tmp_path / "state"))
    with written(path):
        until(lambda: len(fleet.segments()) > 3, what=lambda: collector.log)
        looks = [audit(*arguments) for _ in range(6)]
        sealed = len(fleet.segments())
        until(lambda: len(fleet.segments()) > sealed, what=lambda: collector.log)
        collector.kill()
    for result in looks:
        assert (result.code, result.kinds) == (0, []), result.texts
    result = audit(*arguments)
    assert set(result.kinds) <= {"uncommitted_bytes"}, result.texts  # a kill in the middle of a batch
    collector.start()
    size = path.stat().st_size
    until(lambda: audit(*arguments).found["totals"]["archived"]["bytes"] == size, within=60, what=lambda: collector.log)
    assert collector.stop() == 0
    assert fleet.archived(HOST, path) == path.read_bytes()
    result = audit(*arguments)
    assert (result.code, result.found["totals"]["archived"]["bytes"]) == (0, size)


def test_producers_are_queried_and_what_is_in_the_stream_is_distinguished_from_what_is_lost(
    fleet: Fleet, tmp_path: Path, natsd: NatsServer
) -> None:
    path = tmp_path / "app.log"
    path.write_bytes(LINES)
    arguments = (str(fleet.archive), "--state", str(tmp_path / "state"), "--hosts", "--url", natsd.url)
    producer = fleet.produce(HOST, path)
    other = tmp_path / "other.log"
    other.write_bytes(LINES)
    fleet.ship_once("gone.example.net", other)
    until(lambda: fleet.messages() == 2, what=lambda: producer.log)
    fleet.drain()
    result = audit(*arguments)
    assert (result.code, result.kinds) == (0, [])
    quiet, host = result.found["hosts"]
    assert (quiet["name"], quiet["answers"]) == ("gone.example.net", False)
    assert (host["answers"], host["sources"], host["waiting"], host["missing"]) == (True, 1, 0, 0)

    with path.open("ab") as log:
        log.write(LINES)
    until(lambda: fleet.messages() == 3, what=lambda: producer.log)
    until(lambda: audit(*arguments).found["hosts"][1]["waiting"] == len(LINES), what=lambda: producer.log)
    result = audit(*arguments)
    assert (result.code, result.kinds) == (0, [])
    assert "in the stream, not archived yet" in result.texts

    async def purge() -> None:
        client = await nats.connect(natsd.url)
        await client.jetstream().purge_stream("LOGS_0")
        await client.close()

    asyncio.run(purge())
    result = audit(*arguments)
    assert (result.code, result.kinds) == (2, ["producer"])
    assert result.found["hosts"][1]["missing"] == len(LINES)
    assert "neither stream nor archive" in result.texts


def test_a_plain_message_with_newlines_counts_as_so_many_lines_for_the_collector_as_for_the_audit(
    fleet: Fleet, tmp_path: Path, natsd: NatsServer
) -> None:
    async def publish() -> None:
        client = await nats.connect(natsd.url)
        for text in (b"one", b"two\nthree\n\nfive", b"", b"end\n"):
            await client.jetstream().publish(f"logs.p0.{HOST}", text)
        await client.close()

    asyncio.run(publish())
    done = fleet.run("consume", "--drain", "--seal")
    audited = audit(str(fleet.archive), "--state", str(tmp_path / "state")).found["totals"]["archived"]["lines"]
    assert audited == 8
    assert "8 lines" in done.stdout + done.stderr


def test_without_a_server_it_reports_it_and_ends_with_69(fleet: Fleet, tmp_path: Path, natsd: NatsServer) -> None:
    path = tmp_path / "app.log"
    path.write_bytes(LINES)
    fleet.ship_once(HOST, path)
    fleet.drain()
    natsd.kill()
    result = audit(str(fleet.archive), "--state", str(tmp_path / "state"), "--hosts", "--url", natsd.url)
    assert result.code == 69
    assert "no NATS server answers" in result.errors
    assert audit(str(fleet.archive), "--state", str(tmp_path / "state")).code == 0


def test_people_get_findings_a_table_and_on_a_terminal_a_bar(fleet: Fleet, tmp_path: Path) -> None:
    path = tmp_path / ("a long name " * 20).strip() / "app.log"
    path.parent.mkdir()
    path.write_bytes(LINES * 50)
    fleet.ship_once(HOST, path)
    fleet.drain("--seal")
    shown = fleet.run("audit")
    assert (shown.returncode, shown.stderr) == (0, "")
    lines = shown.stdout.splitlines()
    assert lines[0].split() == [
        "host", "file", "date", "files", "lines", "shipped", "archived", "damaged", "missing",
    ]  # fmt: skip
    assert lines[1].startswith(f"{HOST}  {path}  ")
    assert lines[-1].startswith("complete; 1 host, 1 file; 10,000 lines")

    (segment,) = fleet.archive.glob("date=*/*/*/[!_.]*")
    segment.unlink()
    shown = fleet.run("audit", str(fleet.archive), "--host", "web*")
    assert shown.returncode == 2
    lines = shown.stdout.splitlines()
    assert lines[0].startswith(f"! {HOST} {path}")
    assert "restore the file" in lines[1]
    assert lines[-1].startswith("NOT COMPLETE")

    ours, theirs = pty.openpty()
    terminal = fleet.environment(TERM="xterm", COLUMNS="100")
    with subprocess.Popen([FSHIPPER, "audit"], env=terminal, stdout=theirs, stderr=theirs) as it:
        os.close(theirs)
        drawn = b""
        with contextlib.suppress(OSError):  # the terminal is closed at its end
            while piece := os.read(ours, 65536):
                drawn += piece
        assert it.wait() == 2
    os.close(ours)
    assert b"\x1b[?25l" in drawn  # the cursor is hidden while the bar is drawn
    assert b"missing\x1b[0m\r\n" in drawn  # the last heading: a long name is folded, and no number is cut


def test_the_copy_of_a_journal_is_of_one_moment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each commit changes everything in one step; a copy of two moments would contradict itself, or lack content."""
    path = tmp_path / "logs.p0.sqlite"
    with contextlib.closing(Journal(path)) as journal:
        commit(journal, 1)
        copy, moments = journal_snapshot.shutil.copyfile, iter(range(2, 9))

        def copied(source: Path, target: Path) -> None:
            """After every second copy of the -wal, and of the main file, the journal is checkpointed and continues."""
            copy(source, target)
            if (moment := next(moments, None)) is not None and moment % 2:
                commit(journal, moment)
                journal._database.execute("PRAGMA wal_checkpoint(RESTART)")
                commit(journal, moment + 100)

        monkeypatch.setattr(journal_snapshot.shutil, "copyfile", copied)
        with journal_snapshot.JournalSnapshots(tmp_path) as copies:
            (place,) = copies.places.values()
            lengths = {entry.stored for entry in place.entries}
            assert lengths == {place.resume - 1}
            assert {known.watermark for known in copies.sources()} == lengths
            assert not copies.findings
        assert next(moments, None) is None


def test_a_journal_whose_log_starts_again_while_it_is_copied_is_copied_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else old pages of the -wal would hide newer ones of the main file: a state from before the copy began."""
    path = tmp_path / "logs.p0.sqlite"
    with contextlib.closing(Journal(path)) as journal:
        for moment in range(1, 11):
            commit(journal, moment)
        journal._database.execute("PRAGMA wal_checkpoint(PASSIVE)")
        copy, slow = journal_snapshot.shutil.copyfile, [11]

        def copied(source: Path, target: Path) -> None:
            if not (source.name.endswith("-wal") and slow):
                copy(source, target)
                return
            old = source.read_bytes()
            commit(journal, slow.pop())  # from the beginning of the log, for all of it is in the main file
            target.write_bytes(old[: len(old) // 2] + source.read_bytes()[len(old) // 2 :])

        monkeypatch.setattr(journal_snapshot.shutil, "copyfile", copied)
        with journal_snapshot.JournalSnapshots(tmp_path) as copies:
            assert next(iter(copies.places.values())).resume == 12


def commit(journal: Journal, moment: int) -> None:
    keys = [FileKey("2026-11-20", 0, f"web{number}.example.net", "/var/log/app.log") for number in range(40)]
    known = [ArchivedSource(id="a1", host=key.host, file=key.file, origin=0, watermark=moment, crc=0) for key in keys]
    files = [OpenFile(path=f"{key.host}/x", key=key, length=moment, raw=moment) for key in keys]
    journal.commit(
        Changes(
            position=Position(applied=moment, applied_ns=1, resume=moment + 1),
            sources={each.key: each for each in known},
            files={each.path: each for each in files},
        )
    )


def test_a_journal_is_read_while_its_process_runs_and_is_left_unchanged(tmp_path: Path) -> None:
    path = tmp_path / "logs.p0.sqlite"
    with contextlib.closing(Journal(path)) as journal:
        for moment in range(1, 50):
            commit(journal, moment)
            with journal_snapshot.JournalSnapshots(tmp_path) as copies:
                assert next(iter(copies.places.values())).resume == moment + 1
    with contextlib.closing(sqlite3.connect(path)) as database:
        assert database.execute("PRAGMA integrity_check").fetchone() == ("ok",)


@pytest.mark.parametrize(
    ("arguments", "code", "text"),
    [
        (["{archive}", "--date", "someday"], 64, "YYYY-MM-DD"),
        (["{archive}", "--date", "today", "--since", "yesterday"], 64, "--date goes without"),
        (["{archive}", "--archive", "{archive}"], 64, "named twice"),
        (["{archive}/nowhere"], 78, "there is no archive"),
        (["{empty}"], 78, "is no archive of a collector"),
        (["{archive}", "--date", "2001-01-01"], 69, "nothing of these days"),
        (["{archive}", "--no-such-flag"], 64, "--help"),
    ],
)
def test_what_cannot_be_done_ends_with_its_code_and_the_next_step(
    tmp_path: Path, arguments: list[str], code: int, text: str
) -> None:
    (tmp_path / "archive/_manifest").mkdir(parents=True)
    (tmp_path / "empty").mkdir()
    places = {"archive": tmp_path / "archive", "empty": tmp_path / "empty"}
    ended = audit(*(argument.format_map(places) for argument in arguments))
    assert ended.code == code
    assert text in ended.errors
    assert "hint: " in ended.errors
