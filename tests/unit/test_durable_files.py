import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from shipper import durable_files
from shipper.durable_files import Lock, LockHeld, make_directory, private_directory, replace_file
from shipper.errors import Fatal

HOLDER = """
import sys
from pathlib import Path
from shipper.durable_files import Lock
with Lock(Path(sys.argv[1]), "the state"):
    print("held", flush=True)
    sys.stdin.read()
"""


def test_a_file_is_replaced_as_a_whole(tmp_path):
    path = tmp_path / "checkpoint"
    replace_file(path, b"old")
    replace_file(path, b"new content")
    assert path.read_bytes() == b"new content"
    assert os.listdir(tmp_path) == ["checkpoint"]


def test_a_file_has_the_mode_that_was_requested(tmp_path):
    replace_file(tmp_path / "x", b"", mode=0o600)
    assert (tmp_path / "x").stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("broken", ["fsync", "replace"])
def test_a_failure_on_the_way_leaves_the_old_file_and_nothing_else(tmp_path, monkeypatch, broken):
    path = tmp_path / "checkpoint"
    replace_file(path, b"old")

    def fail(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os if broken == "fsync" else Path, broken, fail)
    with pytest.raises(OSError, match="No space left"):
        replace_file(path, b"new")
    assert path.read_bytes() == b"old"
    assert os.listdir(tmp_path) == ["checkpoint"]


def test_a_kill_before_the_rename_leaves_the_old_file_and_the_next_attempt_works(tmp_path):
    path = tmp_path / "checkpoint"
    replace_file(path, b"old")
    killed = f"""
import os
from pathlib import Path
from shipper.durable_files import replace_file
Path.replace = lambda *_: os._exit(9)
replace_file(Path({str(path)!r}), b"new")
"""
    assert subprocess.run([sys.executable, "-c", killed], check=False).returncode == 9
    assert path.read_bytes() == b"old"
    replace_file(path, b"new")
    assert path.read_bytes() == b"new"


def test_the_content_is_durable_before_its_name_and_the_name_before_the_return(tmp_path, monkeypatch):
    steps = []
    fsync, rename = os.fsync, Path.replace

    def synced(descriptor):
        steps.append(("sync", Path(os.readlink(f"/proc/self/fd/{descriptor}")).name))
        fsync(descriptor)

    def renamed(self, target):
        steps.append(("rename", Path(target).name))
        return rename(self, target)

    monkeypatch.setattr(os, "fsync", synced)
    monkeypatch.setattr(Path, "replace", renamed)
    replace_file(tmp_path / "x", b"new")
    assert [step for step, _ in steps] == ["sync", "rename", "sync"]
    assert steps[1:] == [("rename", "x"), ("sync", tmp_path.name)]


def test_directories_are_made_with_their_parents_and_each_new_name_is_durable(tmp_path, monkeypatch):
    synced = []
    monkeypatch.setattr(durable_files, "sync_directory", lambda path: synced.append(path.name))
    make_directory(tmp_path / "a" / "b" / "c", mode=0o700)
    make_directory(tmp_path / "a" / "b" / "c", mode=0o700)
    assert (tmp_path / "a" / "b" / "c").stat().st_mode & 0o777 == 0o700
    assert synced == [tmp_path.name, "a", "b"]


def test_a_file_in_the_way_of_a_directory_is_an_error(tmp_path):
    (tmp_path / "a").write_bytes(b"")
    with pytest.raises(OSError, match=r"Not a directory|File exists"):
        make_directory(tmp_path / "a" / "b")


def test_a_lock_that_is_held_names_its_holder_and_what_it_holds(tmp_path):
    path = tmp_path / "lock"
    with subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as holder:
        assert holder.stdout.readline() == "held\n"
        with (
            pytest.raises(Fatal, match=f"the state is in use by process {holder.pid} ") as caught,
            Lock(path, "the state"),
        ):
            pass
        assert str(path) in str(caught.value)
        assert caught.value.hint
        holder.kill()
        holder.wait()
        with Lock(path, "the state"):
            assert path.read_text() == f"{os.getpid()}\n"


def test_a_lock_can_be_taken_again_when_it_was_given_back(tmp_path):
    for _ in range(2):
        with Lock(tmp_path / "lock", "it"), pytest.raises(Fatal, match=str(os.getpid())), Lock(tmp_path / "lock", "it"):
            pass


def test_a_lock_is_given_back_when_the_work_fails(tmp_path):
    with pytest.raises(KeyError), Lock(tmp_path / "lock", "it"):
        raise KeyError
    with Lock(tmp_path / "lock", "it"):
        pass


@pytest.mark.parametrize(
    ("content", "named"),
    [
        (b"", "process unknown"),
        (b"\xff\x00rubbish\n", "process unknown"),
        (b"99999999\n; rm -rf /\n", "process 99999999"),
        (b"-1\n127.0.0.1:9600\n", "process unknown"),
    ],
)
def test_the_content_of_a_lock_file_is_not_trusted(tmp_path, content, named):
    path = tmp_path / "lock"
    with Lock(path, "it"):
        path.write_bytes(content)
        with pytest.raises(LockHeld) as caught, Lock(path, "it"):
            pass
    assert f"it is in use by {named} (lock" in str(caught.value)
    assert caught.value.holder.listen == ""


def test_the_holder_is_reported_with_its_command_and_its_address(tmp_path):
    with (
        Lock(tmp_path / "lock", "it", listen="127.0.0.1:9600"),
        pytest.raises(LockHeld) as caught,
        Lock(tmp_path / "lock", "it"),
    ):
        pass
    assert caught.value.holder.listen == "127.0.0.1:9600"
    assert f"process {os.getpid()} (" in str(caught.value)
    command = Path("/proc/self/cmdline").read_bytes().split(b"\0")[1].decode()
    assert command in caught.value.holder.command


NOBODY = 65534


def of_nobody(path: Path) -> None:
    path.mkdir()
    os.chown(path, NOBODY, NOBODY)


def writable_by_all(path: Path) -> None:
    path.mkdir()
    path.chmod(0o777)


def a_link_of_nobody(path: Path) -> None:
    kept = path.with_name("kept")
    kept.mkdir()
    path.symlink_to(kept)
    os.chown(path, NOBODY, NOBODY, follow_symlinks=False)


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to give files to other users")
@pytest.mark.parametrize("made", [of_nobody, writable_by_all, a_link_of_nobody])
def test_a_directory_into_which_another_user_can_put_files_is_not_private(
    made: Callable[[Path], None], tmp_path: Path
) -> None:
    made(tmp_path / "state")
    with pytest.raises(PermissionError):
        private_directory(tmp_path / "state")


def test_a_private_directory_is_made_and_may_be_shared_with_a_group_and_reached_over_an_own_link(
    tmp_path: Path,
) -> None:
    (tmp_path / "disk").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "disk")
    path = tmp_path / "link" / "a" / "b"
    private_directory(path)
    assert path.stat().st_mode & 0o777 == 0o700
    path.chmod(0o2770)  # what Kubernetes makes of a volume with an fsGroup
    private_directory(path)
