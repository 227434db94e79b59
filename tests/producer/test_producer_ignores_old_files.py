"""`ignore_older`: an unknown file that did not change for so long begins at its end."""

import errno
import os
import time
from pathlib import Path

import pytest
from harness.fleet import Fleet
from harness.natsd import NatsServer
from producing import Host, Producer, append, rotate

from producer.discovery.safe_open import Links

DAY = 86400.0


def age(path: Path, seconds: float) -> None:
    """Let `path` be as old as that."""
    then = time.time() - seconds
    os.utime(path, (then, then))


def old_file(path: Path, content: bytes, *, days: float = 8) -> Path:
    path.write_bytes(content)
    age(path, days * DAY)
    return path


def refuse_to_open(path: Path, patch: pytest.MonkeyPatch) -> None:
    """The right to read `path` is missing; the tests may run as root, who has every right."""
    really_open = Links.open

    def refusing(links: Links, name: str) -> int:
        if name == str(path):
            raise PermissionError(errno.EACCES, "Permission denied", name)
        return really_open(links, name)

    patch.setattr(Links, "open", refusing)


def test_generations_of_a_known_name_are_not_left_out_though_the_producer_was_down_for_longer(tmp_path: Path) -> None:
    path = old_file(tmp_path / "app.log", b"one\n", days=20)
    host = Host(tmp_path, "app.log")
    host.ship()
    host.following = Host(tmp_path, "app.log", started=False, ignore_older=7 * DAY).following

    def rotated_twice() -> None:
        rotate(path)
        old_file(path, b"two\n", days=12)
        rotate(path)
        old_file(path, b"three\n", days=10)

    host.restart(while_down=rotated_twice)
    host.let_go()
    assert host.archive.text(path) == b"one\ntwo\nthree\n"


def test_the_age_is_that_of_the_file_and_not_of_the_link_or_directory_that_leads_to_it(tmp_path: Path) -> None:
    real = tmp_path / "real"
    real.mkdir()
    (real / "app.log").write_bytes(b"young\n")
    (tmp_path / "logs").symlink_to(real)
    (tmp_path / "link.log").symlink_to(real / "app.log")
    then = time.time() - 30 * DAY
    for link in ("logs", "link.log"):
        os.utime(tmp_path / link, (then, then), follow_symlinks=False)
    old_file(real / "old.log", b"old\n")
    (tmp_path / "old-link.log").symlink_to(real / "old.log")
    host = Host(tmp_path, "logs/app.log", "old-link.log", ignore_older=7 * DAY)
    host.ship()
    assert host.archive.text(tmp_path / "logs" / "app.log") == b"young\n"
    assert host.archive.text(tmp_path / "old-link.log") == b""


def test_what_was_old_when_first_seen_begins_at_its_end_then_though_it_could_be_opened_only_later(
    tmp_path: Path,
) -> None:
    path = old_file(tmp_path / "app.log", b"old\n")
    host = Host(tmp_path, "*.log", ignore_older=7 * DAY, started=False)
    with pytest.MonkeyPatch.context() as patch:
        refuse_to_open(path, patch)
        host.start()
    append(path, b"new\n")
    host.ship()
    assert host.archive.text(path) == b"new\n"


def test_an_old_file_that_is_gone_before_it_could_be_opened_leaves_nothing_for_the_next_with_its_inode(
    tmp_path: Path,
) -> None:
    path = old_file(tmp_path / "app.log", b"old\n")
    host = Host(tmp_path, "app.log", ignore_older=7 * DAY, started=False)
    with pytest.MonkeyPatch.context() as patch:
        refuse_to_open(path, patch)
        host.start()
        aside = tmp_path / "aside"
        aside.mkdir()
        path.rename(aside / "app.log")
        host.ship()
    (aside / "app.log").write_bytes(b"young\n")
    (aside / "app.log").rename(path)
    host.ship()
    assert host.archive.text(path) == b"young\n"


def test_the_command_takes_an_age_in_days(tmp_path: Path, natsd: NatsServer) -> None:
    old, young = old_file(tmp_path / "old.log", b"old\n"), old_file(tmp_path / "young.log", b"young\n", days=6)
    with Fleet(tmp_path, natsd.url) as fleet:
        fleet.apply()
        fleet.ship_once("web1.example.net", tmp_path / "*.log", options=("--ignore-older", "7d"))
        append(old, b"new\n")
        fleet.ship_once("web1.example.net", tmp_path / "*.log", options=("--ignore-older", "7d"))
        fleet.drain()
        assert fleet.archived("web1.example.net", old) == b"new\n"
        assert fleet.archived("web1.example.net", young) == b"young\n"


async def test_once_leaves_old_files_out_too_and_ends_well(tmp_path: Path) -> None:
    old_file(tmp_path / "old.log", b"old\n")
    (tmp_path / "young.log").write_bytes(b"young\n")
    producer = Producer(tmp_path, "*.log", ignore_older=7 * DAY)
    await producer.ship_once()
    assert producer.archived().text(tmp_path / "young.log") == b"young\n"
    assert producer.archived().text(tmp_path / "old.log") == b""
