"""In which epoch a partition is begun, by lock and lease; and copies of a journal that is being written."""

import contextlib
import os
import shutil
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
from harness.fleet import until

from consumer.archive.directory import ArchiveLocation, Layout, try_lock
from consumer.archive.journal import Journal
from consumer.cluster.coordinator import Collector
from consumer.cluster.epochs import ClaimAction, OwnerState, begin_epoch, find_takeover, step, sweep
from consumer.cluster.locks import dead_names, lock_identity, name_lock, take_name
from consumer.cluster.membership import ChangeClock, Claim, LocalBucket, Member, Membership, encode, to_claim, to_member
from consumer.cluster.partition_owner import OwnedPartitions, this_process
from consumer.model import ArchivedSource, Changes, Position
from shipper.errors import Fenced
from shipper.lifecycle import Stop
from shipper.model import Entry
from shipper.retry import Patience
from shipper.testing import Clock

CLAIM = Claim(owner="c1", instance="i1", host="h", pid=7, archive="mine", lock="k/1:2")


def sight(**fields: object) -> OwnerState:
    known = {
        "claim": CLAIM, "expired": False, "archive": "mine", "newest": 0, "locked": True, "lock": "k/1:2", "holder": 7,
    }  # fmt: skip
    return OwnerState(**(known | fields))  # type: ignore[arg-type]


@pytest.fixture
def place(tmp_path: Path) -> ArchiveLocation:
    (tmp_path / "archive").mkdir()
    (tmp_path / "journals").mkdir()
    return ArchiveLocation(Layout(tmp_path / "archive"), "mine", tmp_path / "journals", "logs")


# -- the decision -------------------------------------------------------------------------------------------------


UNMADE = replace(CLAIM, lock="k/9:9", epoch=3)
THEIRS = replace(UNMADE, archive="theirs")
ELSEWHERE = "another kernel/1:2"
DECISIONS = {
    "a free lock on the same kernel proves that the one before is dead": [(ClaimAction.CONTINUE, {})],
    "a live lease is waited for": [(ClaimAction.WAIT, {"locked": False}), (ClaimAction.WAIT, {"lock": ELSEWHERE})],
    "a paused owner whose lease ran out is fenced in its epoch": [
        (ClaimAction.BEGIN, {"locked": False, "expired": True})
    ],
    "an owner on another machine whose lease ran out may wake up too": [
        (ClaimAction.BEGIN, {"lock": ELSEWHERE, "expired": True})
    ],
    "an owner that returned its partition is followed in its epoch": [
        (ClaimAction.CONTINUE, {"claim": CLAIM.ended(), "lock": ELSEWHERE})
    ],
    # that process would not be fenced: it checks no lease before it writes
    "a lock that is held without a lease is never gone around": [
        (ClaimAction.WAIT, {"claim": None, "locked": False, "expired": True}),
        (ClaimAction.WAIT, {"claim": CLAIM.ended(), "locked": False, "expired": True}),
        (ClaimAction.WAIT, {"locked": False, "expired": True, "holder": 8}),
    ],
    # the collector that claimed it may be paused after its copy; its number has to stay below ours
    "a new epoch that was claimed and never made is not claimed again": [
        (ClaimAction.BEGIN, {"claim": UNMADE, "expired": True}),
        (ClaimAction.BEGIN, {"claim": UNMADE.ended()}),
    ],
    "an owner with another archive is followed when it is done or silent": [
        (ClaimAction.WAIT, {"claim": THEIRS}),
        (ClaimAction.CONTINUE, {"claim": THEIRS, "expired": True}),
        (ClaimAction.CONTINUE, {"claim": THEIRS.ended()}),
    ],
    "the files of a template have one name, so they need the lock": [
        (ClaimAction.WAIT, {"locked": False, "expired": True, "has_epochs": False}),
        (ClaimAction.CONTINUE, {"lock": ELSEWHERE, "expired": True, "has_epochs": False}),
    ],
}


@pytest.mark.parametrize("cases", DECISIONS.values(), ids=DECISIONS)
def test_how_a_partition_is_begun(cases):
    assert [step(sight(**fields)) for _, fields in cases] == [action for action, _ in cases]


def test_the_number_of_a_new_epoch_is_above_every_claim_and_every_journal(place):
    Journal(place.journal(0, 0)).close()
    held = try_lock(place.lock(0, 0), "test")
    assert held is not None
    with held:
        claim = Claim(
            owner="c1", instance="i1", host="h", pid=os.getpid(), archive="mine", lock=lock_identity(place.lock(0, 0)),
            epoch=4,
        )  # fmt: skip
        footing = find_takeover(place, 0, claim, expired=True)
    assert footing is not None
    assert (footing.epoch, footing.copied) == (5, 0)
    footing.locks.close()


# -- what they report ---------------------------------------------------------------------------------------------


def test_fields_of_a_newer_version_are_ignored_and_an_invalid_entry_yields_nothing():
    assert to_claim(encode(CLAIM)) == CLAIM
    assert to_claim(encode(CLAIM)[:-1] + b',"mood":"good"}') == CLAIM
    assert to_claim(b"") is to_claim(b"[]") is to_claim(b'{"v":2}') is to_claim(b'{"v":1}') is None
    member = Member(
        name="c1",
        instance="i",
        host="h",
        pid=1,
        archive="a",
        lock="k",
        partitions=(1, 2),
        refused=(3,),
        known=(0, 1, 2, 7),
    )
    assert to_member(encode(member)) == member


# -- days ---------------------------------------------------------------------------------------------------------


async def test_a_day_is_not_over_while_another_partition_of_the_archive_may_add_to_it(place):
    claims = {
        "done": replace(CLAIM, past="2026-11-20"),
        "behind": replace(CLAIM, past="2026-11-19"),
        "moved": replace(CLAIM, archive="theirs", past="2026-11-20"),
        "unknown": None,
    }
    Journal(place.journal(0, 0)).close()
    assert not await others_past(place, claims["done"], looked=False)
    assert await others_past(place, claims["done"])
    assert not await others_past(place, claims["behind"])
    assert not await others_past(place, claims["unknown"])
    assert await others_past(place, claims["moved"])
    left = place.directory / "date=2026-11-20/partition=0/host=h/_open-log"
    left.parent.mkdir(parents=True)
    left.touch()
    assert not await others_past(place, claims["moved"])


async def others_past(place: ArchiveLocation, claim: Claim | None, *, looked: bool = True) -> bool:
    """What a standby collector reports of 2026-11-20, where `claim` is all that it sees."""

    class One(LocalBucket):
        async def entries(self, keys: Sequence[str]) -> dict[str, Entry]:
            return {keys[-1]: Entry(1, encode(claim))} if claim else {}

    async def open_bucket() -> One:
        return One()

    async def find() -> list[int]:
        return [0]

    registry = Membership(open_bucket, prefix="logs", lease=5.0)
    me = this_process(name="me", lock="k", archive="mine", partitions=(7,))
    owned = OwnedPartitions(SimpleNamespace(place=place), registry, me)  # type: ignore[arg-type]
    collector = Collector(registry, owned, find, Stop(), Patience(at_start=1, later=1))
    if looked:
        await collector._round()
        await collector._share()
    return collector.others_past("2026-11-20")


# -- silence ------------------------------------------------------------------------------------------------------


def test_silence_is_counted_only_while_a_reader_polls():
    clock = Clock()
    watch, entry = ChangeClock(every=1.0, clock=clock), {"k": Entry(1, b"")}
    watch.observe(entry)
    for _ in range(4):
        clock.turn(1)
        watch.observe(entry)
    assert watch.still("k") == 4
    clock.turn(100)  # this process slept, the other may have renewed a hundred times
    watch.observe(entry)
    assert watch.still("k") == 6
    watch.forget()
    clock.turn(100)
    watch.observe(entry)
    assert watch.still("k") == 0


def test_a_change_restarts_the_silence_and_a_removed_entry_is_a_change():
    clock = Clock()
    watch = ChangeClock(every=1.0, clock=clock)
    assert not watch.knew("k")
    for entries in ({"k": Entry(1, b"")}, {"k": Entry(1, b"")}, {}):
        watch.observe(entries)
        clock.turn(1)
    assert (watch.still("k"), watch.changed("k"), watch.knew("k")) == (0, True, True)
    watch.observe({})
    assert watch.still("k") == 1


# -- names --------------------------------------------------------------------------------------------------------


def test_two_that_live_have_two_names_and_a_free_name_is_taken_again(tmp_path):
    first, second = take_name(tmp_path, "web1"), take_name(tmp_path, "web1")
    assert (first.text, second.text) == ("web1", "web1-2")
    first.held.close()
    again = take_name(tmp_path, "web1")
    assert (again.text, again.lock) == ("web1", first.lock)
    again.held.close()
    second.held.close()


def test_a_dead_name_is_one_with_an_open_day_whose_lock_is_free_and_not_taken_meanwhile(tmp_path):
    day = tmp_path / "_manifest" / "date=2026-11-20"
    day.mkdir(parents=True)
    for name in ("mine", "dead", "alive", "closed", "a%2Fb"):
        (day / f"{name}.jsonl").touch()
    (day / "closed.done").touch()
    alive = take_name(tmp_path, "alive")
    with alive.held, dead_names(tmp_path, "mine") as dead:
        assert dead == ["a/b", "dead"]
        assert try_lock(name_lock(tmp_path, "dead"), "test") is None


# -- journals -----------------------------------------------------------------------------------------------------

WRITER = """
import itertools, sys
from pathlib import Path
from consumer.commit.other_partitions import ArchiveSources
from consumer.archive.journal import Journal
from consumer.model import ArchivedSource, Changes, Position
journal = Journal(Path(sys.argv[1]))
for number in itertools.count(1):
    known = ArchivedSource(id="%016x" % number, host="h" * 100, file="f" * 500, origin=0, watermark=number, crc=0)
    journal.commit(Changes(position=Position(applied=number, resume=number + 1), sources={known.key: known}))
"""


@contextlib.contextmanager
def writer(journal: Path):
    with subprocess.Popen([sys.executable, "-c", WRITER, str(journal)]) as process:
        try:
            until(lambda: Path(f"{journal}-wal").exists() and Path(f"{journal}-wal").stat().st_size > 500_000)
            yield process
        finally:
            process.kill()


def test_a_copy_of_a_journal_is_one_of_its_commits_wherever_its_writer_was_paused(place):
    source = place.journal(0, 0)
    with writer(source) as process:
        for epoch in range(1, 16):
            process.send_signal(signal.SIGSTOP)
            begin_epoch(place, 0, copied=0, epoch=epoch)
            process.send_signal(signal.SIGCONT)
            with contextlib.closing(sqlite3.connect(place.journal(0, epoch))) as copy:
                (applied,) = copy.execute("SELECT applied FROM stream").fetchone()
                assert copy.execute("SELECT count(*), max(watermark) FROM sources").fetchone() == (applied, applied)
            until(lambda: _applied(source) > applied)  # noqa: B023
    assert not list(place.journals.glob(".*"))


def test_a_copy_that_a_checkpoint_came_into_is_made_again(place, monkeypatch):
    """Else old pages of the log would stand over newer ones of the database."""
    source = Journal(place.journal(0, 0))
    commit(source, 1, 60)
    original = shutil.copyfile

    def copyfile(of: Path, to: Path) -> None:
        if source.position.applied == 60:
            commit(source, 61, 200)
            with contextlib.closing(sqlite3.connect(of)) as other:
                other.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        original(of, to)

    monkeypatch.setattr("consumer.cluster.epochs.shutil.copyfile", copyfile)
    begin_epoch(place, 0, copied=0, epoch=1)
    source.close()
    with contextlib.closing(sqlite3.connect(place.journal(0, 1))) as copy:
        assert copy.execute("SELECT applied FROM stream").fetchone() == (200,)
        assert copy.execute("SELECT count(*), max(watermark) FROM sources").fetchone() == (200, 200)


def commit(journal: Journal, first: int, last: int) -> None:
    for number in range(first, last + 1):
        known = ArchivedSource(id=f"{number:016x}", host="h" * 100, file="f" * 500, origin=0, watermark=number, crc=0)
        changes = Changes(position=Position(applied=number, resume=number + 1), sources={known.key: known})
        journal.commit(changes)


def _applied(journal: Path) -> int:
    with contextlib.closing(sqlite3.connect(journal)) as database:
        return int(database.execute("SELECT applied FROM stream").fetchone()[0])


def test_what_the_old_owner_commits_after_the_copy_does_not_count(place):
    old = Journal(place.journal(0, 0))
    old.commit(Changes(position=Position(applied=5, resume=6)))
    begin_epoch(place, 0, copied=0, epoch=1)
    old.commit(Changes(position=Position(applied=9, resume=10)))
    old.close()
    with contextlib.closing(Journal(place.journal(0, 1))) as new:
        assert new.position.applied == 5


def test_an_epoch_is_made_once_and_never_over_another(place):
    Journal(place.journal(0, 0)).close()
    begin_epoch(place, 0, copied=0, epoch=1)
    made = place.journal(0, 1).read_bytes()
    with pytest.raises(Fenced):
        begin_epoch(place, 0, copied=0, epoch=1)
    assert place.journal(0, 1).read_bytes() == made
    assert place.newest_epoch(0) == 1


def test_leftovers_of_an_epoch_are_removed_when_no_collector_can_write_it_any_more(place):
    Journal(place.journal(0, 0)).close()
    begin_epoch(place, 0, copied=0, epoch=1)
    (place.journals / f".{place.journal(0, 1).name}.7.tmp").touch()  # of a kill
    directory = place.directory / "date=2026-11-20/partition=0/host=h"
    directory.mkdir(parents=True)
    for name in ("_open-known", "_open-stray", "_open-ours=1"):
        (directory / name).touch()
    known = frozenset({"date=2026-11-20/partition=0/host=h/_open-known"})
    sleeping = try_lock(place.lock(0, 0), "test")
    assert sleeping is not None
    with sleeping:
        assert not sweep(place, 0, epoch=1, known=known)
        assert place.journal(0, 0).exists()
    assert sweep(place, 0, epoch=1, known=known)
    assert sorted(path.name for path in directory.iterdir()) == ["_open-known", "_open-ours=1"]
    assert [path.name for path in place.journals.iterdir()] == ["logs.p0.1.sqlite"]


def test_what_is_to_be_put_aside_is_not_swept_though_only_its_later_name_is_known(place):
    Journal(place.journal(0, 0)).close()
    begin_epoch(place, 0, copied=0, epoch=1)
    opened = place.directory / "date=2026-11-20/partition=0/host=h/_open-app.log"
    opened.parent.mkdir(parents=True)
    opened.write_bytes(b"committed\n")
    aside = frozenset({opened.relative_to(place.directory).as_posix()})
    known = frozenset({"date=2026-11-20/partition=0/host=h/_sealing-app.log-00000000000000000001.zst"})
    assert not sweep(place, 0, epoch=1, known=known, moved_aside=aside)
    assert opened.read_bytes() == b"committed\n"
    opened.rename(opened.with_name("_sealing-app.log-00000000000000000001.zst"))
    assert sweep(place, 0, epoch=1, known=known, moved_aside=aside)
    assert not place.journal(0, 0).exists()
