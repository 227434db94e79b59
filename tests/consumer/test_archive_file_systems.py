"""Archives on file systems without links: everything is archived and sealed, and nothing pauses."""

import contextlib
import errno
import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from auditing import LINES, Audited
from collecting import Log
from harness.fleet import Fleet
from prometheus_client import REGISTRY

from consumer.model import Until
from shipper import events
from shipper.durable_files import name_if_free, sync_directory

NO_MOUNT = "no file system can be mounted here"
REFUSALS = [errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS, errno.EACCES, errno.EROFS, errno.EIO]


def refusing(number: int):
    def refuse(*_arguments: object, **_named: object) -> None:
        raise OSError(number, os.strerror(number))

    return refuse


@pytest.mark.parametrize("number", REFUSALS, ids=errno.errorcode.get)
async def test_names_that_cannot_be_linked_pause_nothing(number, tmp_path, monkeypatch):
    failed: list[str] = []
    monkeypatch.setattr(events, "archive_failed", lambda **about: failed.append(str(about)))
    monkeypatch.setattr(os, "symlink", refusing(number))
    if number in {errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS, errno.EACCES}:
        monkeypatch.setattr(os, "link", refusing(number))
    before = REGISTRY.get_sample_value("fshipper_live_links_failed_total") or 0
    archive = Audited(tmp_path)
    logs = [Log(LINES, id=f"{name:016x}", file=f"/var/log/app{name}.log") for name in range(5)]
    for log in logs:
        archive.send(log, 0, len(LINES))
    await archive.drain(Until.SEALED)
    assert failed == []
    assert [archive.text(log) for log in logs] == [LINES] * 5
    assert archive.audit().code == 0
    assert (REGISTRY.get_sample_value("fshipper_live_links_failed_total") or 0) - before == len(logs)


@pytest.mark.parametrize("what", ["file", "link to nowhere", "link to itself"])
async def test_something_else_at_the_place_of_live_pauses_nothing(what, tmp_path, monkeypatch):
    failed: list[str] = []
    monkeypatch.setattr(events, "archive_failed", lambda **about: failed.append(str(about)))
    archive = Audited(tmp_path)
    live = archive.archive / "live"
    if what == "file":
        live.touch()
    else:
        live.symlink_to(live if what == "link to itself" else tmp_path / "nothing" / "there")
    archive.send(Log(LINES), 0, len(LINES))
    await archive.drain(Until.SEALED)
    assert (failed, archive.text(Log(LINES))) == ([], LINES)


@pytest.mark.parametrize("renames", [True, False])
def test_a_name_is_given_once_with_and_without_hard_links(renames, tmp_path, monkeypatch):
    monkeypatch.setattr(os, "link", refusing(errno.EPERM))
    if not renames:
        monkeypatch.setattr("shipper.durable_files._C", object())
    first, second, target = tmp_path / "a", tmp_path / "b", tmp_path / "name"
    first.write_text("first")
    second.write_text("second")
    assert name_if_free(first, target)
    assert not name_if_free(second, target)
    assert (target.read_text(), second.read_text(), first.exists()) == ("first", "second", False)


def test_a_file_system_without_a_sync_of_directories_is_no_error_and_a_broken_disk_is_one(tmp_path, monkeypatch):
    monkeypatch.setattr(os, "fsync", refusing(errno.EINVAL))
    sync_directory(tmp_path)
    monkeypatch.setattr(os, "fsync", refusing(errno.EIO))
    with pytest.raises(OSError, match="error"):
        sync_directory(tmp_path)


@contextlib.contextmanager
def mounted(kind: str, directory: Path, place: Path) -> Iterator[None]:
    """A real file system of `kind` at `place`. Skips where it cannot be mounted."""
    needed = {"vfat": "mkfs.vfat", "exfat": "mount.exfat-fuse", "bindfs": "bindfs"}[kind]
    path = os.pathsep.join([os.environ["PATH"], "/usr/sbin", "/sbin"])
    tool = shutil.which(needed, path=path)
    if tool is None or os.geteuid() != 0 or not Path("/dev/fuse").exists():
        pytest.skip(NO_MOUNT)
    image, device = directory / "image", ""
    if kind == "bindfs":
        (directory / "behind").mkdir()
        command = [tool, str(directory / "behind"), str(place)]
    else:
        with image.open("wb") as file:
            file.truncate(64 * 1024 * 1024)
        make = tool if kind == "vfat" else shutil.which("mkfs.exfat", path=path)
        if make is None or subprocess.run([make, image], capture_output=True, check=False).returncode:
            pytest.skip(NO_MOUNT)
        loop = subprocess.run(["losetup", "-f", "--show", image], capture_output=True, text=True, check=False)
        device = loop.stdout.strip()
        if not device:
            pytest.skip(NO_MOUNT)
        command = ["mount", "-t", "vfat", device, str(place)] if kind == "vfat" else [tool, device, str(place)]
    try:
        if subprocess.run(command, capture_output=True, check=False).returncode:
            pytest.skip(NO_MOUNT)
        try:
            yield
        finally:
            subprocess.run(["umount", "-l", str(place)], capture_output=True, check=False)
    finally:
        if device:
            subprocess.run(["losetup", "-d", device], capture_output=True, check=False)


@pytest.mark.parametrize("kind", ["vfat", "exfat", "bindfs"])
def test_an_archive_on_a_real_file_system_is_written_sealed_and_audited_without_a_pause(kind, natsd, tmp_path):
    with Fleet(tmp_path, natsd.url, partitions=1) as fleet:
        fleet.archive.mkdir(parents=True, exist_ok=True)
        with mounted(kind, tmp_path, fleet.archive):
            fleet.apply()
            names = ["app.log", "a name with blanks.log", "größe.log", "colon:tilde~percent%.log", f"{'x' * 250}.log"]
            files = [tmp_path / "logs" / name for name in names]
            (tmp_path / "logs").mkdir()
            for file in files:
                file.write_bytes(LINES)
            fleet.ship_once("web1.example.net", *files)
            log = fleet.must("consume", "--drain", "--seal")
            assert "archive_failed" not in log
            assert [fleet.archived("web1.example.net", file) for file in files] == [LINES] * len(files)
            assert fleet.run("audit", str(fleet.archive)).returncode == 0
            has_links = kind == "bindfs"
            assert any(path.is_symlink() for path in (fleet.archive / "live").rglob("*")) in {has_links, False}
