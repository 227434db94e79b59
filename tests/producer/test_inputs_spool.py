"""A spool in steps, with the real tailer and a checkpoint: rotated, shipped, deleted, and never unknown."""

import os
from pathlib import Path
from typing import Any

import pytest
from producing import Host

from producer.inputs import spool
from producer.inputs.spool import Progress, Spool
from shipper.control import Receipt, ReceiptsReply

LIMIT = 4096
PART = LIMIT // 4


class Input:
    """A spool and the host that ships it: the test is the pipeline."""

    def __init__(self, directory: Path, **options: Any) -> None:
        (directory / "spool").mkdir(exist_ok=True)
        self.path = directory / "spool"
        self.spool = Spool(self.path, "/name", limit_bytes=LIMIT)
        self.host = Host(directory, "spool/log", spools={str(self.path / "log"): "/name"}, state=directory, **options)

    def progress(self) -> Progress:
        acks = self.host.sources.acks
        return Progress.of(acks.known.values(), acks.unsaved_ids)

    def tend(self) -> None:
        self.spool.tend(self.progress(), self.host.sources.ended_files.release)

    def step(self) -> None:
        """Scan, ship, save, maintain the spool."""
        self.host.ship()
        self.tend()
        self.host.save()

    def restart(self) -> None:
        self.host.restart()
        self.spool.close()
        self.spool = Spool(self.path, "/name", limit_bytes=LIMIT)

    @property
    def names(self) -> list[str]:
        return sorted(path.name for path in self.path.iterdir() if path.name not in {"name", "number"})

    def archived(self) -> bytes:
        return self.host.archive.text(self.path / "log")


def part(number: int) -> bytes:
    return b"%07d\n" % number * (PART // 8)


def rotated(number: int) -> str:
    return spool.rotated_name(number, 0)


def test_a_file_that_the_checkpoint_does_not_know_is_never_rotated(tmp_path: Path) -> None:
    each = Input(tmp_path)
    each.spool.append(part(1))
    each.tend()
    assert each.names == ["log"]
    each.host.sources.scan()
    each.tend()
    assert each.names == [rotated(1)]


def test_rotated_files_are_shipped_in_order_without_waiting_for_silence(tmp_path: Path) -> None:
    each = Input(tmp_path, rotate_wait=3600.0)
    for number in range(1, 4):
        each.spool.append(part(number))
        each.step()
    each.step()
    assert each.archived() == part(1) + part(2) + part(3)
    assert all(each.progress().is_over(segment.key) for segment in spool.rotated(each.path))


def test_an_idle_file_is_not_rotated_and_an_unterminated_line_is_shipped_when_nothing_more_comes(
    tmp_path: Path,
) -> None:
    each = Input(tmp_path)
    each.spool.append(b"one\ntwo")
    each.step()
    assert (each.names, each.archived()) == (["log"], b"one\n")
    assert each.spool.is_settled(each.progress())
    each.spool.finish()
    assert not each.spool.is_over(each.progress())
    for _ in range(3):
        each.step()
    assert each.archived() == b"one\ntwo"
    assert each.spool.is_over(each.progress())


def test_a_rotated_file_is_kept_while_there_is_space_and_deleted_in_order_when_there_is_not(tmp_path: Path) -> None:
    each = Input(tmp_path)
    for number in range(1, 3):
        each.spool.append(part(number))
        each.step()
        each.step()
    assert each.names == [rotated(1), rotated(2)]
    each.spool.append(part(3))
    for _ in range(4):
        each.step()
    assert each.names == [rotated(2), rotated(3)]


def test_a_rotated_file_is_deleted_once_the_archive_has_it_however_much_space_there_is(tmp_path: Path) -> None:
    each = Input(tmp_path)
    for number in range(1, 3):
        each.spool.append(part(number))
        each.step()
        each.step()
    assert each.names == [rotated(1), rotated(2)]
    (first, _) = each.host.sources.acks.known.values()
    receipts = [Receipt(first.id, "/name", 0, watermark, -1) for watermark in (PART - 8, PART)]
    for receipt, left in zip(receipts, ([rotated(1), rotated(2)], [rotated(2)]), strict=True):
        each.host.sources.ended_files.note_receipts(ReceiptsReply("a1", 0, (receipt,)))
        each.step()
        each.step()
        assert each.names == left
    assert each.archived() == part(1) + part(2)


def test_nothing_is_deleted_before_the_checkpoint_reports_that_it_ended(tmp_path: Path) -> None:
    each = Input(tmp_path)
    for number in range(1, 5):
        each.spool.append(part(number))
        each.host.sources.scan()
        each.tend()
    for _ in range(3):
        each.host.sources.scan()
        while each.host.read():
            each.host.deliver()
            each.host.acknowledge()
    each.host.sources.ended_files.retire()
    assert all(each.progress().is_over(segment.key) for segment in spool.rotated(each.path))
    each.tend()
    assert each.names == [rotated(number) for number in range(1, 5)]
    each.host.save()
    each.tend()
    assert spool.GONE + rotated(1) in each.names


def test_what_is_not_acknowledged_is_not_deleted_however_short_space_is(tmp_path: Path) -> None:
    each = Input(tmp_path)
    for number in range(1, 6):
        each.spool.append(part(number))
        each.host.sources.scan()
        each.host.save()
        each.tend()
    assert [segment.number for segment in spool.rotated(each.path)] == [1, 2, 3, 4, 5]
    assert each.spool._space.free <= 0


@pytest.mark.parametrize("saved", [True, False])
def test_a_kill_while_a_file_is_deleted_neither_ships_it_again_nor_leaves_it(saved: bool, tmp_path: Path) -> None:
    each = Input(tmp_path)
    for number in range(1, 4):
        each.spool.append(part(number))
        each.host.ship()
        each.tend()
    while spool.GONE + rotated(1) not in each.names:
        each.host.ship()
        each.tend()
    if saved:
        each.host.save()
    each.restart()
    each.tend()
    assert spool.GONE + rotated(1) in each.names
    for _ in range(4):
        each.step()
    assert not any(name.startswith(spool.GONE) for name in each.names)
    assert each.archived() == part(1) + part(2) + part(3)


def test_a_file_that_gets_the_inode_number_and_the_bytes_of_a_deleted_one_is_shipped(tmp_path: Path) -> None:
    each = Input(tmp_path)
    same = b"y\n" * (PART // 2)
    for _ in range(12):
        each.spool.append(same)
        each.step()
        each.step()
    for _ in range(4):
        each.step()
    assert each.archived() == same * 12


def test_rotated_files_whose_checkpoint_was_lost_are_all_shipped(tmp_path: Path) -> None:
    each = Input(tmp_path)
    for number in range(1, 4):
        each.spool.append(part(number))
        each.host.sources.scan()
        each.tend()
    each.spool.append(b"the last\n")
    each.host.kill()
    each.host.state.unlink()
    each.host.start()
    each.step()
    assert each.archived() == part(1) + part(2) + part(3) + b"the last\n"


def test_a_clock_that_steps_back_hides_no_file(tmp_path: Path) -> None:
    each = Input(tmp_path)
    for number in range(1, 4):
        each.spool.append(part(number))
        os.utime(each.spool.log, (5000 - number, 5000 - number))
        each.host.sources.scan()
        each.tend()
        each.restart()
    each.spool.append(b"the last\n")
    each.step()
    each.step()
    assert each.archived() == part(1) + part(2) + part(3) + b"the last\n"


def test_what_could_never_be_read_is_a_gap_after_the_file_whose_name_records_it_once(tmp_path: Path) -> None:
    each = Input(tmp_path)
    each.spool.append(b"one\n")
    each.host.sources.scan()
    each.spool._cut = 7
    each.tend()
    assert each.names == [spool.rotated_name(1, 7)]
    each.step()
    each.restart()
    each.spool.append(b"two\n")
    each.step()
    assert each.archived() == b"one\ntwo\n"
    assert each.host.archive.lost(each.path / "log") == 7


def test_a_gap_after_nothing_is_reported_once_though_its_file_is_empty(tmp_path: Path) -> None:
    each = Input(tmp_path)
    each.spool._opened()
    each.spool._cut = 7
    for number in range(3):
        each.host.sources.scan()
        each.tend()
        each.step()
        each.restart()
        each.spool.append(b"%d\n" % number)
        each.step()
    assert each.archived() == b"0\n1\n2\n"
    assert each.host.archive.lost(each.path / "log") == 7
    assert each.spool.is_settled(each.progress())


def test_numbers_grow_also_when_every_rotated_file_is_gone(tmp_path: Path) -> None:
    each = Input(tmp_path)
    each.spool.append(part(1))
    each.step()
    (each.path / rotated(1)).unlink()
    each.restart()
    assert each.spool.number == 2


def test_a_start_at_the_end_and_a_start_without_old_files_leave_out_nothing_of_a_spool(tmp_path: Path) -> None:
    each = Input(tmp_path, started=False, start_at_end=True)
    each.spool.append(b"one\n")
    each.host.start()
    each.step()
    assert each.archived() == b"one\n"
