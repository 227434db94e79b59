"""The journal and its spool: each entry once, through all that journalctl does."""

from pathlib import Path

import pytest
from harness.fleet import until
from harness.journaling import Journal, line
from spooling import knows, never, plain, running, spool_in, text

from producer.inputs import journald
from producer.inputs.journald import Chosen, Journald
from producer.inputs.spool import rotated
from shipper.errors import ConfigError, Fatal

# -- the journal --------------------------------------------------------------------------------------------------


@pytest.fixture
def journal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Journal:
    found = Journal(tmp_path)
    monkeypatch.setenv("PATH", found.path)
    return found


def reading(tmp_path: Path, journal: Journal, **options: object) -> Journald:
    return Journald(spool_in(tmp_path), Chosen(**({"style": "text", "directory": journal.directory} | options)))


def test_every_entry_is_read_once_over_starts_and_stops(tmp_path: Path, journal: Journal) -> None:
    wanted = b""
    for number in (1, 3, 5):
        journal.add(f"m{number}", f"m{number + 1}")
        wanted += line(number, f"m{number}") + line(number + 1, f"m{number + 1}")
        with running(reading(tmp_path, journal)):
            until(lambda: len(text(tmp_path)) >= len(wanted))  # noqa: B023
        assert text(tmp_path) == wanted


def test_entries_that_were_spooled_and_not_bookmarked_are_not_doubled_and_a_torn_one_is_completed(
    tmp_path: Path, journal: Journal
) -> None:
    journal.add("one")
    with running(reading(tmp_path, journal)):
        until((tmp_path / "spool" / "cursor").exists)
    journal.add("two", "three", "four")
    torn = line(1, "one") + line(2, "two") + line(3, "three")[:-4]
    (tmp_path / "spool" / "log").write_bytes(torn)
    with running(reading(tmp_path, journal)):
        until(lambda: text(tmp_path).endswith(line(4, "four")))
    assert text(tmp_path) == line(1, "one") + line(2, "two") + line(3, "three") + line(4, "four")


def test_entries_that_vanished_are_counted_and_their_gap_stands_in_the_name_of_a_file(
    tmp_path: Path, journal: Journal
) -> None:
    journal.add("one")
    with running(reading(tmp_path, journal)):
        until((tmp_path / "spool" / "cursor").exists)
    journal.add("two", "three", "four")
    journal.vacuum(3)
    reader = reading(tmp_path, journal)
    with running(reader):
        until(lambda: reader.spool._cut == 2)
        reader.spool.tend(knows(reader.spool), never)
        until(lambda: text(tmp_path) == line(4, "four"))
    (gone,) = rotated(tmp_path / "spool")
    assert (gone.lost, gone.path.read_bytes()) == (2, line(1, "one"))


def test_other_matches_than_before_are_no_loss(tmp_path: Path, journal: Journal) -> None:
    journal.add("one")
    with running(reading(tmp_path, journal)):
        until((tmp_path / "spool" / "cursor").exists)
    journal.add("two", "three")
    journal.add("four", _UID="0")
    with running(reading(tmp_path, journal, match=("_UID=0",))):
        until(lambda: text(tmp_path) == line(1, "one") + line(4, "four"))


def test_a_start_at_the_end_leaves_out_what_is_there_also_after_a_kill_before_the_first_entry(
    tmp_path: Path, journal: Journal
) -> None:
    journal.add("old")
    with running(reading(tmp_path, journal, start_at_end=True)):
        until((tmp_path / "spool" / "cursor").exists)
    journal.add("new")
    with running(reading(tmp_path, journal, start_at_end=True)):
        until(lambda: text(tmp_path) == line(2, "new"))


def test_once_reads_to_the_present_end(tmp_path: Path, journal: Journal) -> None:
    journal.add("one", "two")
    reader = reading(tmp_path, journal, once=True)
    reader.start()
    until(lambda: not reader.is_reading)
    reader.check()
    assert text(tmp_path) == line(1, "one") + line(2, "two")


def test_a_journalctl_that_ends_is_started_again(tmp_path: Path, journal: Journal) -> None:
    journal.fail("no luck")
    journal.add("one")
    with running(reading(tmp_path, journal)):
        until(lambda: text(tmp_path) == line(1, "one"))


def test_a_journalctl_that_is_replaced_is_waited_for(
    tmp_path: Path, journal: Journal, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(journald, "FIRST_RETRY_SECONDS", 0.01)
    monkeypatch.setenv("PATH", str(journal.bin))
    journal.add("one")
    program, away = journal.bin / "journalctl", journal.bin / "away"
    program.rename(away)
    program.write_text('#!/bin/sh\n/bin/rm -- "$0"\nexit 1\n')
    program.chmod(0o755)
    with running(reading(tmp_path, journal)):
        until(lambda: "No such file" in capsys.readouterr().err)
        away.rename(program)
        until(lambda: text(tmp_path) == line(1, "one"))


def test_what_journalctl_prints_and_is_no_entry_is_counted(
    tmp_path: Path, journal: Journal, capsys: pytest.CaptureFixture[str]
) -> None:
    reader = reading(tmp_path, journal)
    assert [entry["__CURSOR"] for entry in reader._parsed(b'no entry\n{"__CURSOR": "x"}\n\n[1]\n')] == ["x"]
    assert "lost=2 reason=unreadable" in plain(capsys.readouterr().err)


def test_with_once_a_journalctl_that_fails_is_an_error(tmp_path: Path, journal: Journal) -> None:
    journal.fail("no luck")
    reader = reading(tmp_path, journal, once=True)
    reader.start()
    until(lambda: not reader.is_reading)
    with pytest.raises(Fatal, match="no luck"):
        reader.check()


def test_no_journalctl_and_no_directory_are_reported_at_the_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(ConfigError, match="is no directory"):
        Journald(spool_in(tmp_path), Chosen("text", tmp_path / "missing")).prepare()
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(ConfigError, match="no journalctl"):
        Journald(spool_in(tmp_path), Chosen("text")).prepare()
