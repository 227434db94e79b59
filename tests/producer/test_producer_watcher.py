"""Hints: one inotify instance for everything, found again whatever becomes of a directory, and never needed."""

import asyncio
import ctypes
import errno
import os
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest
from harness.waiting import becomes
from producing import Producer, append
from watchdog.observers import inotify_c

from producer.checkpoint.store import Checkpoints
from producer.discovery import watcher as waking
from producer.discovery.safe_open import Links
from producer.discovery.watcher import Wake, Watcher, remote_devices
from producer.linger import Linger
from producer.scan_schedule import ScanSchedule, pause_seconds
from producer.tailer.tailer import new_tailer

NEVER = 3600.0
Step = Callable[[Path], Path]


def watcher_of(wake: Wake, *known: Path) -> Watcher:
    names = set(map(str, known))
    return Watcher(wake, is_name=names.__contains__, concerns=lambda path: path.endswith(".log"))


def inotify_instances() -> int:
    links = []
    for name in os.listdir("/proc/self/fd"):
        try:
            links.append(os.readlink(f"/proc/self/fd/{name}"))
        except OSError:
            continue  # the listing's own
    return sum("inotify" in link for link in links)


async def hinted(wake: Wake) -> set[str]:
    await becomes(lambda: wake.has_grown or wake.names_changed, within=5.0)
    return wake.take_grown()


# -- the watcher --------------------------------------------------------------------------------------------------


async def test_one_instance_serves_more_directories_than_a_user_may_have_instances(tmp_path: Path) -> None:
    before = inotify_instances()
    paths = [tmp_path / str(number) / "app.log" for number in range(300)]
    for path in paths:
        path.parent.mkdir()
        path.write_bytes(b"one\n")
    wake = Wake()
    watcher = watcher_of(wake, *paths)
    assert watcher.watch(str(path.parent) for path in paths) == set()
    assert inotify_instances() == before + 1
    wake.names_changed = False
    append(paths[-1], b"two\n")
    assert await hinted(wake) == {str(paths[-1])}
    assert not wake.names_changed
    watcher.close()
    assert inotify_instances() == before


async def test_what_happened_before_a_watch_was_new_is_unknown_so_names_count_as_changed(tmp_path: Path) -> None:
    wake = Wake()
    watcher = watcher_of(wake)
    watcher.watch([str(tmp_path)])
    assert wake.names_changed
    wake.names_changed = False
    watcher.watch([str(tmp_path)])
    assert not wake.names_changed
    watcher.close()


async def test_more_events_than_the_kernel_keeps_mean_that_anything_may_have_changed(tmp_path: Path) -> None:
    paths = [made(tmp_path / "a.log"), made(tmp_path / "b.log")]
    wake = Wake()
    watcher = watcher_of(wake, *paths)
    watcher.watch([str(tmp_path)])
    wake.names_changed = False
    with paths[0].open("ab", buffering=0) as one, paths[1].open("ab", buffering=0) as other:
        for _ in range(int(Path("/proc/sys/fs/inotify/max_queued_events").read_text())):
            one.write(b"\n")
            other.write(b"\n")
    await becomes(lambda: wake.names_changed, within=5.0)
    watcher.close()


async def test_names_that_match_no_pattern_and_files_that_are_not_read_cause_no_wake(tmp_path: Path) -> None:
    known = tmp_path / "app.log"
    known.write_bytes(b"one\n")
    wake = Wake()
    watcher = watcher_of(wake, known)
    watcher.watch([str(tmp_path)])
    wake.names_changed = False
    (tmp_path / "other.txt").write_bytes(b"made")
    (tmp_path / "other.txt").unlink()
    append(known, b"two\n")
    assert await hinted(wake) == {str(known)}
    assert not wake.names_changed
    watcher.close()


async def test_a_directory_that_is_no_longer_wanted_is_watched_no_longer(tmp_path: Path) -> None:
    old, new = tmp_path / "old", tmp_path / "new"
    old.mkdir()
    new.mkdir()
    wake = Wake()
    watcher = watcher_of(wake)
    watcher.watch([str(old), str(new)])
    watcher.watch([str(new)])
    wake.names_changed = False
    (old / "unheard.log").write_bytes(b"")
    wake.hint("marker")
    assert await hinted(wake) == {"marker"}
    await asyncio.sleep(2 * waking.PAUSE_SECONDS)  # as long as an event of the old directory would take
    assert not wake.names_changed
    watcher.close()


async def test_a_watch_that_the_kernel_refuses_leaves_its_directory_to_be_polled_and_is_reported_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    said: list[str] = []
    monkeypatch.setattr("shipper.events.watching_failed", lambda *, error: said.append(error))
    add = inotify_c.inotify_add_watch

    def full(descriptor: int, path: bytes, mask: int) -> int:
        if path.endswith(b"good"):
            return add(descriptor, path, mask)
        ctypes.set_errno(errno.ENOSPC)
        return -1

    monkeypatch.setattr(inotify_c, "inotify_add_watch", full)
    names = [tmp_path / name for name in ("good", "bad", "worse")]
    for name in names:
        name.mkdir()
    watcher = watcher_of(Wake())
    for _ in range(2):
        assert watcher.watch(map(str, names)) == {str(tmp_path / "bad"), str(tmp_path / "worse")}
    assert len(said) == 1
    assert "max_user_watches" in said[0]
    watcher.close()


async def test_a_directory_on_another_machine_is_left_to_be_polled(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wake = Wake()
    watcher = watcher_of(wake)
    monkeypatch.setattr(waking, "remote_devices", lambda: {tmp_path.stat().st_dev})
    for _ in range(2):
        assert watcher.watch([str(tmp_path)]) == {str(tmp_path)}
    assert not wake.names_changed
    monkeypatch.setattr(waking, "remote_devices", set)  # unmounted
    assert watcher.watch([str(tmp_path)]) == set()
    watcher.close()


def test_network_file_systems_are_recognised_by_their_kind(tmp_path: Path) -> None:
    table = tmp_path / "mountinfo"
    table.write_text(
        "27 1 254:0 / / rw,relatime - ext4 /dev/vda rw\n"
        "40 27 0:41 / /data rw,relatime shared:7 master:1 - nfs4 server:/data rw,vers=4.2\n"
        "41 27 0:42 / /home/me/far rw - fuse.sshfs me@far:/ rw\n"
        "42 27 8:17 / /mnt/stick rw - fuseblk /dev/sdb1 rw\n"
        "43 27 0:44 / /mnt/a\\040b rw - cifs //server/share rw\n"
        "broken line - nfs x\n"
    )
    assert remote_devices(str(table)) == {os.makedev(0, 41), os.makedev(0, 42), os.makedev(0, 44)}
    assert remote_devices(str(tmp_path / "missing")) == set()


# -- the pipeline, by hints alone ---------------------------------------------------------------------------------


def plain(root: Path) -> Path:
    return made(root / "logs" / "app.log")


def linked_file(root: Path) -> Path:
    real = made(root / "data" / "real.log")
    made(root / "logs" / "other.log").with_name("app.log").symlink_to(real)
    return real


def linked_directory(root: Path) -> Path:
    real = made(root / "data" / "app.log")
    (root / "logs").symlink_to(real.parent)
    return real


def made(path: Path) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"one\n")
    return path


@pytest.mark.parametrize("arrange", [plain, linked_file, linked_directory])
async def test_a_new_line_is_shipped_on_a_hint_wherever_its_file_really_is(tmp_path: Path, arrange: Step) -> None:
    path = arrange(tmp_path)
    producer = Producer(tmp_path, "logs/*.log", watch=True, poll=NEVER)
    async with producer.running():
        await shipped(producer, b"one\n")
        append(path, b"two\n")
        await shipped(producer, b"two\n")


async def shipped(producer: Producer, line: bytes) -> None:
    """Wait until `line` was shipped as the last one of a file, and nothing is left to scan."""

    def is_there() -> bool:
        archive = producer.archived()
        return any(archive.text(Path(name)).endswith(line) for name in archive.files.values())

    await becomes(lambda: is_there() and not producer.pipeline._scheduler._wake.names_changed, within=8.0)


def new_name(root: Path) -> Path:
    return root / "pods" / "one" / "0.log"


def new_directory(root: Path) -> Path:
    return root / "pods" / "two" / "0.log"


def replaced_directory(root: Path) -> Path:
    (root / "pods" / "one").rename(root / "pods" / "was-one")
    return root / "pods" / "one" / "0.log"


def directory_that_comes_back(root: Path) -> Path:
    for path in (root / "pods" / "one").iterdir():
        path.unlink()
    (root / "pods" / "one").rmdir()
    return root / "pods" / "one" / "0.log"


def only_directory_that_comes_back(root: Path) -> Path:
    (root / "alone" / "app.log").unlink()
    (root / "alone").rmdir()
    return root / "alone" / "0.log"


def only_directory_replaced(root: Path) -> Path:
    (root / "alone").rename(root / "no longer")
    return root / "alone" / "0.log"


def directory_far_from_there(root: Path) -> Path:
    return root / "not" / "yet" / "there" / "0.log"


@pytest.mark.parametrize(
    "arrange",
    [
        new_name,
        new_directory,
        replaced_directory,
        directory_that_comes_back,
        only_directory_that_comes_back,
        only_directory_replaced,
        directory_far_from_there,
    ],
)
async def test_a_new_file_is_found_on_a_hint_whatever_became_of_its_directory(tmp_path: Path, arrange: Step) -> None:
    made(tmp_path / "pods" / "one" / "first.log")
    made(tmp_path / "alone" / "app.log")
    far = [] if arrange is not directory_far_from_there else ["not/yet/there/*.log"]  # makes us watch from above
    producer = Producer(tmp_path, "pods/[ot]*/*.log", "alone/*.log", *far, watch=True, poll=NEVER)
    async with producer.running():
        await shipped(producer, b"one\n")
        path = arrange(tmp_path)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"found\n")
        await shipped(producer, b"found\n")
        append(path, b"and followed\n")
        await shipped(producer, b"and followed\n")


async def test_a_rotation_is_followed_on_hints_and_the_old_file_is_closed(tmp_path: Path) -> None:
    path = made(tmp_path / "app.log")
    producer = Producer(tmp_path, "app.log", watch=True, poll=0.2, rotate_wait=1.0)
    async with producer.running():
        await shipped(producer, b"one\n")
        path.rename(tmp_path / "app.log.1")
        path.write_bytes(b"two\n")
        await shipped(producer, b"two\n")
        await becomes(lambda: producer.archived().ends, within=6.0)  # before the next full scan


async def test_what_replaces_a_truncated_file_is_shipped_before_the_next_full_scan(tmp_path: Path) -> None:
    path = made(tmp_path / "app.log")
    producer = Producer(tmp_path, "app.log", watch=True, poll=NEVER)
    async with producer.running():
        await shipped(producer, b"one\n")
        for line in (b"two\n", b"three\n", b"four\n"):
            os.truncate(path, 0)
            append(path, line)
            await shipped(producer, line)
    assert producer.archived().text(path) == b"one\ntwo\nthree\nfour\n"


async def test_where_there_is_no_inotify_lines_are_found_at_every_poll(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(waking, "_inotify", lambda: None)
    path = made(tmp_path / "app.log")
    producer = Producer(tmp_path, "app.log", watch=True, poll=0.02)
    async with producer.running():
        await shipped(producer, b"one\n")
        append(path, b"two\n")
        await shipped(producer, b"two\n")


# -- when to scan -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("took", "poll", "names_changed", "has_hints", "pause"),
    [
        (0.001, 1.0, False, False, 1.0),
        (0.001, 0.02, False, False, 0.02),
        (2.0, 1.0, False, False, 6.0),
        (0.001, 1.0, False, True, 10.0),
        (0.001, 30.0, False, True, 30.0),
        (0.125, 1.0, False, True, 25.0),
        (5.0, 1.0, False, True, 60.0),
        (0.001, 1.0, True, True, 0.1),
        (0.05, 1.0, True, True, 0.5),
        (0.001, 0.02, True, False, 0.02),
    ],
)
def test_the_pause_between_two_scans_follows_what_a_scan_takes_and_what_hints_come(
    took: float, poll: float, names_changed: bool, has_hints: bool, pause: float
) -> None:
    assert pause_seconds(took, poll, names_changed=names_changed, has_hints=has_hints) == pytest.approx(pause)


class Clocked:
    """The scans of a producer whose time the test moves."""

    def __init__(self, producer: Producer) -> None:
        self.now = 1000.0
        self.wake = Wake()
        self.checkpoints = Checkpoints(producer.directory / "clocked.sqlite")
        task = producer.task()
        self.sources = new_tailer(task.following, self.checkpoints, clock=lambda: self.now)
        self.looks = ScanSchedule(
            task,
            self.wake,
            SimpleNamespace(tailer=self.sources),
            Linger(task.max_delay, rouse=self.wake.rouse),
            clock=lambda: self.now,
        )
        self.looks.scan()
        self.looks.scan()  # the first one made the watches

    async def scanned_within(self, seconds: float) -> bool:
        """Whether a full scan took place in that time, in steps of a tenth of a second."""
        before = self.sources.found
        for _ in range(round(seconds * 10)):
            self.now += 0.1
            list(self.sources.read_scheduler.pieces(1 << 20))
            await self.looks.run()
        return self.sources.found is not before

    def close(self) -> None:
        self.looks.close()
        self.sources.close()
        self.checkpoints.close()


@pytest.mark.parametrize(("options", "quiet"), [({"watch": True}, 9.0), ({"watch": False}, 0.8)])
async def test_everything_is_scanned_at_every_poll_or_every_ten_seconds_where_hints_come(
    tmp_path: Path, options: dict[str, bool], quiet: float
) -> None:
    made(tmp_path / "app.log")
    clocked = Clocked(Producer(tmp_path, "app.log", poll=1.0, **options))
    for _ in range(2):
        assert not await clocked.scanned_within(quiet)
        assert await clocked.scanned_within(1.2)
        clocked.looks.scan()
    clocked.close()


async def test_a_file_that_grows_without_a_hint_makes_every_poll_a_scan_until_it_is_gone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    said: list[str] = []
    monkeypatch.setattr("shipper.events.watching_failed", lambda *, error: said.append(error))
    path = made(tmp_path / "logs" / "app.log")
    elsewhere = tmp_path / "elsewhere.log"
    elsewhere.hardlink_to(path)
    clocked = Clocked(Producer(tmp_path, "logs/*.log", poll=1.0, watch=True))
    append(elsewhere, b"the kernel tells only who watches the directory of the name that was opened\n")
    assert await clocked.scanned_within(10.2)
    assert not await clocked.scanned_within(9.0)
    assert await clocked.scanned_within(1.2)
    assert await clocked.scanned_within(1.2)
    assert len(said) == 1
    assert str(path) in said[0]
    path.unlink()
    assert await clocked.scanned_within(1.2)
    assert not await clocked.scanned_within(8.0)
    clocked.close()


async def test_growth_that_is_found_because_hints_were_lost_marks_no_file(tmp_path: Path) -> None:
    path = made(tmp_path / "logs" / "app.log")
    elsewhere = tmp_path / "elsewhere.log"
    elsewhere.hardlink_to(path)
    clocked = Clocked(Producer(tmp_path, "logs/*.log", poll=1.0, watch=True))
    await clocked.scanned_within(0.5)
    append(elsewhere, b"two\n")
    clocked.wake.hint(None)
    assert await clocked.scanned_within(0.3)
    assert await clocked.scanned_within(10.2)
    assert not await clocked.scanned_within(8.0)
    clocked.close()


async def test_a_file_that_a_scan_found_grown_before_its_hint_came_stays_one_that_hints_come_for(
    tmp_path: Path,
) -> None:
    path = made(tmp_path / "app.log")
    clocked = Clocked(Producer(tmp_path, "app.log", poll=1.0, watch=True))
    for _ in range(3):
        append(path, b"two\n")
        assert await clocked.scanned_within(10.2)
        await becomes(lambda: clocked.wake.has_grown, within=5.0)
    assert not await clocked.scanned_within(8.0)
    clocked.close()


async def test_what_cannot_be_opened_is_retried_at_every_poll_although_hints_come(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = made(tmp_path / "app.log")
    real = Links.open
    monkeypatch.setattr(Links, "open", lambda links, name: denied() if name == str(path) else real(links, name))
    clocked = Clocked(Producer(tmp_path, "app.log", poll=1.0, watch=True))
    assert await clocked.scanned_within(1.2)
    monkeypatch.setattr(Links, "open", real)
    assert await clocked.scanned_within(1.2)
    assert not await clocked.scanned_within(5.0)
    clocked.close()


async def test_what_cannot_be_made_durable_is_tried_again_at_every_poll_although_hints_come(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clocked = Clocked(Producer(tmp_path, "*.log", poll=1.0, watch=True))
    with monkeypatch.context() as patch:
        patch.setattr(clocked.checkpoints, "save", lambda _sources: denied())
        made(tmp_path / "app.log")
        await becomes(lambda: clocked.wake.names_changed, within=5.0)
        assert await clocked.scanned_within(1.2)
        assert await clocked.scanned_within(1.2)
    assert await clocked.scanned_within(1.2)
    assert not await clocked.scanned_within(5.0)
    clocked.close()


def denied() -> int:
    raise PermissionError(errno.EACCES, "Permission denied")
