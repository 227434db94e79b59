"""Who may read what a collector creates: its group, whatever umask it was started with."""

import os
import stat
import subprocess
from pathlib import Path

import pytest
from harness.fleet import FSHIPPER
from harness.natsd import NatsServer

from shipper.durable_files import readable_by


def run(umask: int, *arguments: object, **environment: str) -> None:
    done = subprocess.run(
        [FSHIPPER, *map(str, arguments)], umask=umask, capture_output=True, text=True, timeout=60, check=False,
        env=os.environ | environment,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr


def modes(directory: Path) -> dict[str, set[int]]:
    """The permissions of files and directories, without the journals, which are the owner's alone."""
    found: dict[str, set[int]] = {"files": set(), "directories": {stat.S_IMODE(directory.stat().st_mode)}}
    for path in directory.rglob("*"):
        if not path.is_symlink() and "_journal" not in path.parts and "_lock" not in path.parts:
            kind = "directories" if path.is_dir() else "files"
            found[kind].add(stat.S_IMODE(path.stat().st_mode))
    return found


@pytest.mark.parametrize(
    ("umask", "readers", "files", "directories"),
    [(0, "group", 0o640, 0o750), (0o022, "group", 0o640, 0o750), (0o022, "all", 0o644, 0o755)],
    ids=["umask 0", "umask 022", "all"],
)
def test_an_archive_is_readable_by_its_group(natsd: NatsServer, tmp_path: Path, umask, readers, files, directories):
    (tmp_path / "a.log").write_bytes(b"one\ntwo\n")
    url = {"NATS_URL": natsd.url, "SHIPPER_STATE": str(tmp_path / "state")}
    run(umask, "partition", "apply", "--partitions", 0, **url)
    archive = tmp_path / "archive"
    options = {**url, "SHIPPER_DIRECTORY": str(archive), "SHIPPER_READABLE_BY": readers}
    for seal in ([], ["--seal"]):
        run(umask, "produce", "--once", "--host", "web1.example.net", tmp_path / "a.log", **url)
        run(umask, "consume", "--drain", *seal, **options)
        found = modes(archive)
        assert found["directories"] == {directories}
        assert files in found["files"]
        assert all(mode & ~files == 0 for mode in found["files"]), [oct(mode) for mode in found["files"]]
    assert modes(tmp_path / "state")["directories"] == {0o700}

    before = {path: path.stat().st_mode for path in archive.rglob("*.zst")}
    for path in before:
        path.chmod(0o644)  # as an older version made it
    run(umask, "consume", "--drain", **options)
    assert all(stat.S_IMODE(path.stat().st_mode) == 0o644 for path in before)


def test_a_stricter_umask_of_a_person_is_kept():
    inherited = os.umask(0o077)
    try:
        with readable_by("all"):
            assert os.umask(0o077) == 0o077
    finally:
        os.umask(inherited)
