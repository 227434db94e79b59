"""`fshipper produce --dry-run`: what would be read and what not, exactly as the producer then does it."""

import gzip
import json
import os
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from harness.fleet import Fleet, until
from harness.natsd import NatsServer
from producing import Host, append, copytruncate, rotate

from shipper.main import run

HOST = "web1.example.net"
Rehearse = Callable[..., dict[str, Any]]


@pytest.fixture
def rehearse(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Rehearse:
    """Runs `fshipper produce --dry-run --json` with the checkpoint that `host` uses; its answer."""
    monkeypatch.setenv("HOSTNAME", HOST)
    monkeypatch.setenv("SHIPPER_STATE", str(tmp_path / "state"))

    def call(*arguments: str | Path, code: int = 0) -> dict[str, Any]:
        assert run(["produce", "--dry-run", "--json", *map(str, arguments)]) == code
        said = capsys.readouterr()
        return json.loads(said.out) if code == 0 else {"error": said.err}

    return call


def state_of(directory: Path) -> Path:
    state = directory / "state" / "producer" / HOST
    state.mkdir(parents=True, exist_ok=True)
    return state


def shipped(directory: Path, *patterns: str, **options: Any) -> Host:
    """A host that shipped everything there is, with its checkpoint where the command expects it."""
    host = Host(directory, *patterns, state=state_of(directory), **options)
    host.ship()
    return host


def snapshot(directory: Path) -> dict[str, tuple[int, bytes]]:
    """Every file below, with its time of change and its content."""
    return {
        str(path.relative_to(directory)): (path.stat().st_mtime_ns, path.read_bytes())
        for path in sorted(directory.rglob("*"))
        if path.is_file()
    }


def reads(found: dict[str, Any]) -> dict[str, tuple[int, int, bool]]:
    """First byte, bytes and whether the source is known, by the name of the file."""
    return {Path(each["path"]).name: (each["start"], each["bytes"], each["known"]) for each in found["reads"]}


def skips(found: dict[str, Any]) -> dict[str, str]:
    return {Path(each["path"]).name: each["reason"] for each in found["skips"]}


# -- what would be read ---------------------------------------------------------------------------------------------


def test_a_new_host_reads_everything_from_its_first_byte_and_leaves_no_trace(
    rehearse: Rehearse, tmp_path: Path
) -> None:
    (tmp_path / "app.log").write_bytes(b"one\ntwo\n")
    (tmp_path / "empty.log").touch()
    found = rehearse(tmp_path / "*.log", "--partitions", "16")
    assert reads(found) == {"app.log": (0, 8, False), "empty.log": (0, 0, False)}
    assert (found["subject"], found["stream"]) == (f"logs.p{found['partition']}.{HOST}", f"LOGS_{found['partition']}")
    assert not (tmp_path / "state").exists()


def test_a_known_file_is_read_from_its_acknowledged_byte_whatever_its_name_is_now(
    rehearse: Rehearse, tmp_path: Path
) -> None:
    path = tmp_path / "app.log"
    path.write_bytes(b"one\n")
    host = shipped(tmp_path, "app.log")
    append(path, b"two\n")
    rotate(path)
    path.write_bytes(b"three\n")
    host.kill()
    found = rehearse(path)
    assert reads(found) == {"app.log.1": (4, 4, True), "app.log": (0, 6, False)}
    (rotated,) = [each for each in found["reads"] if each["path"].endswith(".1")]
    assert rotated["file"] == str(path)


def test_what_it_reports_is_what_the_producer_then_reads(rehearse: Rehearse, tmp_path: Path) -> None:
    for name in ("a.log", "b.log", "c.log"):
        (tmp_path / name).write_bytes(b"first\n" * 100)
    host = shipped(tmp_path, "*.log*")
    append(tmp_path / "a.log", b"more\n")
    rotate(tmp_path / "b.log")
    (tmp_path / "b.log").write_bytes(b"a successor\n")
    copytruncate(tmp_path / "c.log")
    append(tmp_path / "c.log", b"again\n")
    (tmp_path / "d.log").write_bytes(b"new\n")
    host.kill()
    said = {(each["file"], each["start"]): each["bytes"] for each in rehearse(tmp_path / "*.log*")["reads"]}
    host.start()
    done: dict[tuple[str, int], int] = {}
    for piece in host.read_all():
        if piece.span.length:
            done[piece.file, piece.span.start] = piece.span.length
    assert done == {key: count for key, count in said.items() if count}
    assert len(done) == 4


def test_start_at_end_and_once_are_taken_into_account(rehearse: Rehearse, tmp_path: Path) -> None:
    (tmp_path / "app.log").write_bytes(b"old\nold\n")
    found = rehearse(tmp_path / "app.log", "--start-at-end")
    assert reads(found) == {"app.log": (8, 0, False)}
    assert found["reads"][0]["left_out"] == 8
    missing = rehearse(tmp_path / "none.log", "--once", code=78)
    assert "cannot read" in missing["error"]


def test_bytes_that_are_lost_by_now_are_reported(rehearse: Rehearse, tmp_path: Path) -> None:
    path = tmp_path / "app.log"
    path.write_bytes(b"one\n")
    host = shipped(tmp_path, "app.log")
    append(path, b"never read\n")
    host.sources.scan()
    host.save()
    host.kill()
    path.unlink()
    (tmp_path / "other").write_bytes(b"")  # so that the inode number is not used again immediately
    found = rehearse(path)
    assert found["warnings"][0] == f"{path} does not exist yet"
    assert "11 bytes are lost (deleted)" in found["warnings"][1]


# -- the checkpoint stays as it is ----------------------------------------------------------------------------------


@pytest.mark.parametrize("end", ["running", "killed", "stopped"])
def test_the_state_directory_is_not_touched(end: str, rehearse: Rehearse, tmp_path: Path) -> None:
    path = tmp_path / "app.log"
    path.write_bytes(b"one\n")
    state = state_of(tmp_path)
    program = (
        "import sys, time; from pathlib import Path; sys.path[:0] = sys.argv[1:2]; from producing import Host;"
        "host = Host(Path(sys.argv[2]), 'app.log', state=Path(sys.argv[3])); host.ship();"
        "print('shipped', flush=True); input(); host.kill()"
    )
    with subprocess.Popen(
        [sys.executable, "-c", program, str(Path(__file__).parent), str(tmp_path), str(state)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as other:
        assert other.stdout is not None
        assert b"shipped\n" in iter(other.stdout.readline, b"")  # its log lines come first
        if end == "killed":
            other.kill()
            other.wait()
        elif end == "stopped":
            other.communicate(b"\n")
        append(path, b"two\n")
        before = snapshot(state)
        assert ("checkpoint.sqlite-wal" in before) == (end != "stopped")
        assert reads(rehearse(path)) == {"app.log": (4, 4, True)}
        assert snapshot(state) == before
        other.kill()


def test_it_works_while_a_producer_holds_the_lock(tmp_path: Path, natsd: NatsServer, rehearse: Rehearse) -> None:
    path = tmp_path / "app.log"
    path.write_bytes(b"one\n")
    with Fleet(tmp_path, natsd.url) as fleet:
        fleet.apply()
        producer = fleet.produce(HOST, path)
        until(lambda: fleet.messages() == 1, what=lambda: producer.log)
        until(lambda: reads(rehearse(path)) == {"app.log": (4, 0, True)}, what=lambda: producer.log)
        assert producer.stop() == 0
        assert fleet.messages() == 1


def test_a_damaged_checkpoint_is_reported_and_left_where_it_is(rehearse: Rehearse, tmp_path: Path) -> None:
    (tmp_path / "app.log").write_bytes(b"one\n")
    state = state_of(tmp_path)
    (state / "checkpoint.sqlite").write_bytes(b"this is no database" * 1000)
    before = snapshot(state)
    found = rehearse(tmp_path / "app.log")
    assert "the checkpoint is damaged" in found["warnings"][0]
    assert snapshot(state) == before


# -- what would not be read, and why --------------------------------------------------------------------------------


def test_each_name_that_matches_and_is_not_read_has_its_reason(rehearse: Rehearse, tmp_path: Path) -> None:
    (tmp_path / "app.log").write_bytes(b"one\n")
    (tmp_path / "left.log").write_bytes(b"one\n")
    (tmp_path / "directory.log").mkdir()
    os.mkfifo(tmp_path / "fifo.log")
    (tmp_path / "dangling.log").symlink_to("nowhere")
    (tmp_path / "loop.log").symlink_to("loop.log")
    (tmp_path / "link.log").symlink_to("app.log")
    os.link(tmp_path / "app.log", tmp_path / "second.log")
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(tmp_path / "socket.log"))
        found = rehearse(tmp_path / "*.log", "--exclude", "le*.log")
    assert reads(found) == {"app.log": (0, 4, False)}
    assert skips(found) == {
        "left.log": "excluded",
        "directory.log": "directory",
        "fifo.log": "no_file",
        "socket.log": "no_file",
        "dangling.log": "dangling",
        "loop.log": "unreadable",
        "link.log": "second_name",
        "second.log": "second_name",
    }
    texts = {Path(each["path"]).name: each["text"] for each in found["skips"]}
    assert "le*.log" in texts["left.log"]
    assert "nowhere" in texts["dangling.log"]
    assert str(tmp_path / "app.log") in texts["link.log"]
    assert "hard link" in texts["second.log"]


def test_the_copy_that_copytruncate_made_is_no_file_to_read(rehearse: Rehearse, tmp_path: Path) -> None:
    path = tmp_path / "app.log"
    path.write_bytes(b"one\n" * 100)
    host = shipped(tmp_path, "app.log*")
    copytruncate(path)
    append(path, b"two\n")
    host.ship()
    host.let_go()
    host.kill()
    found = rehearse(tmp_path / "app.log*")
    assert skips(found) == {"app.log.1": "copy"}
    assert reads(found) == {"app.log": (4, 0, True)}


def test_what_copytruncate_left_unread_is_read_from_the_copy(rehearse: Rehearse, tmp_path: Path) -> None:
    path = tmp_path / "app.log"
    path.write_bytes(b"one\n" * 100)
    host = shipped(tmp_path, "app.log")
    append(path, b"unread\n")
    host.kill()
    copytruncate(path)
    append(path, b"two\n")
    assert reads(rehearse(path)) == {"app.log.1": (400, 7, True), "app.log": (0, 4, False)}


def test_compressed_files_that_only_a_glob_names_have_their_reason(rehearse: Rehearse, tmp_path: Path) -> None:
    (tmp_path / "app.log").write_bytes(b"one\n")
    (tmp_path / "app.log.1.gz").write_bytes(gzip.compress(b"zero\n"))
    (tmp_path / "other.gz").write_bytes(gzip.compress(b"other\n"))
    found = rehearse(tmp_path / "*")
    assert skips(found) == {"app.log.1.gz": "compressed", "other.gz": "compressed"}
    texts = {Path(each["path"]).name: each["text"] for each in found["skips"]}
    assert texts["app.log.1.gz"].startswith(f"a compressed rotation of {tmp_path}/app.log")
    assert texts["other.gz"].startswith("compressed, of no known file")
    assert reads(rehearse(tmp_path / "other.gz"))["other.gz"][0] == 0


def test_an_old_file_begins_at_its_end_where_old_files_are_ignored(rehearse: Rehearse, tmp_path: Path) -> None:
    path = tmp_path / "app.log"
    path.write_bytes(b"old\n")
    os.utime(path, (1_000_000_000, 1_000_000_000))
    found = rehearse(path, "--ignore-older", "7d")
    assert reads(found) == {"app.log": (4, 0, False)}
    assert found["reads"][0]["left_out"] == 4


def test_a_rotated_file_that_is_shipped_to_its_end_continues_at_its_end(rehearse: Rehearse, tmp_path: Path) -> None:
    path = tmp_path / "app.log"
    path.write_bytes(b"one\n")
    host = shipped(tmp_path, "app.log")
    rotate(path)
    path.write_bytes(b"two\n")
    host.let_go()
    host.kill()
    assert reads(rehearse(tmp_path / "app.log*")) == {"app.log.1": (4, 0, True), "app.log": (4, 0, True)}
    assert reads(rehearse(path)) == {"app.log": (4, 0, True)}


def test_a_pattern_without_a_file_is_a_warning(rehearse: Rehearse, tmp_path: Path) -> None:
    found = rehearse(tmp_path / "none*.log", tmp_path / "later.log")
    assert found["warnings"] == [
        f"{tmp_path}/none*.log matches no file yet",
        f"{tmp_path}/later.log does not exist yet",
    ]


def test_inputs_without_a_file_are_listed_and_what_they_left_in_their_spools_is_read(
    rehearse: Rehearse, tmp_path: Path, natsd: NatsServer
) -> None:
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    found = rehearse(fifo, "--syslog", "udp:127.0.0.1:5514", "--journald", "text")
    assert found["inputs"] == [f"FIFO {fifo}", "syslog on udp:127.0.0.1:5514", "the journal as text"]
    assert (found["reads"], found["skips"]) == ([], [])
    assert "ladr" in rehearse("--syslog", "ladr:1", code=78)["error"]
    spooled = subprocess.run(
        [sys.executable, "-c", "import sys; from shipper.main import run; sys.exit(run(['produce', '--once', '-']))"],
        input=b"one\ntwo\n",
        env=os.environ | {"NATS_URL": natsd.url, "SHIPPER_LISTEN": ""},
        capture_output=True,
        check=False,
    )
    assert spooled.returncode == 69, "there is no stream, so what was read stays in the spool"
    (read,) = rehearse("-")["reads"]
    assert (read["file"], read["start"], read["bytes"]) == ("/dev/stdin", 0, 8)
    Path(read["path"]).unlink()
    warnings = rehearse("-")["warnings"]
    assert not any("does not exist" in each for each in warnings), "a spool is no path of the settings"


# -- the output ------------------------------------------------------------------------------------------------------


def test_people_get_a_table_and_no_log_lines(tmp_path: Path) -> None:
    (tmp_path / "app.log").write_bytes(b"one\n")
    (tmp_path / "bad\x1b[31m.log").write_bytes(b"two\n")
    said = Fleet(tmp_path, "").run("produce", "--dry-run", str(tmp_path / "*.log"), HOSTNAME=HOST)
    assert (said.returncode, said.stderr) == (0, "")
    assert said.stdout.startswith(f"2 files, 8 B to read, to logs.p1.{HOST} in LOGS_1\n")
    assert "\x1b" not in said.stdout


def test_settings_that_cannot_be_used_end_with_78(rehearse: Rehearse) -> None:
    assert "no file to ship" in rehearse(code=78)["error"]


def test_json_without_dry_run_is_a_mistake(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert run(["produce", "--json", str(tmp_path / "app.log")]) == 64
    assert "--dry-run" in capsys.readouterr().err


def test_a_file_that_is_known_and_no_longer_named_is_not_listed_as_to_be_read(
    tmp_path: Path, rehearse: Rehearse
) -> None:
    path = tmp_path / "secret.log"
    path.write_bytes(b"shipped\n")
    host = shipped(tmp_path, "*.log")
    append(path, b"not yet\n")
    host.kill()
    found = rehearse(tmp_path / "*.log", "--exclude", "*secret*")
    assert reads(found) == {}
    assert any(f"{path} is excluded or no longer named" in warning for warning in found["warnings"])
    found = rehearse("/nothing/*.log")
    assert reads(found) == {}
    found = rehearse(tmp_path / "*.log")
    assert reads(found) == {"secret.log": (8, 8, True)}


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to give a link to another user")
def test_a_link_that_is_not_followed_is_listed_with_the_reason_and_the_setting(
    tmp_path: Path, rehearse: Rehearse
) -> None:
    (tmp_path / "target").write_bytes(b"of root\n")
    link = tmp_path / "app.log"
    link.symlink_to(tmp_path / "target")
    os.chown(link, 4711, 4711, follow_symlinks=False)
    found = rehearse(tmp_path / "*.log")
    assert (reads(found), skips(found)) == ({}, {"app.log": "link_not_followed"})
    assert "link_roots" in found["skips"][0]["text"]
    found = rehearse(tmp_path / "*.log", "--link-roots", tmp_path)
    assert reads(found) == {"app.log": (0, 8, False)}
    assert "name the file by its own path" in rehearse(link, "--once", code=78)["error"]
    assert "is not an absolute path" in rehearse(tmp_path / "*.log", "--link-roots", "pods", code=78)["error"]
