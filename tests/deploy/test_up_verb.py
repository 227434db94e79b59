"""`fshipper up` as a person uses it: real programs, ends, kills, and every line once."""

import json
import os
import signal
import socket
from pathlib import Path

import pytest
from harness.fleet import contents
from harness.upping import Up
from harness.waiting import until

from shipper import default_paths
from spark_analytics.archive.seal_request import seal_open_files


@pytest.fixture
def one(tmp_path):
    with Up(tmp_path) as machine:
        yield machine


def append(path: Path, *lines: str) -> None:
    with path.open("a") as file:
        file.writelines(f"{line}\n" for line in lines)


def test_up_continues_where_it_ended_and_down_removes_only_what_it_made(one):
    log = one.home / "app.log"
    append(log, "hello 1", "hello 2")
    first = one.start(log)
    assert (first["files"], first["bytes"], first["notes"]) == (1, log.stat().st_size, [])
    assert first["link"].startswith(f"http://127.0.0.1:{one.ports['page']}/sign-in#token=")
    until(lambda: one.lines("hello") == ["hello 1", "hello 2"], what=one.text)
    again = json.loads(one.run("up", "--json", "--data", one.data).stdout)
    assert again["link"] not in {"", first["link"]}
    assert one.stop() == 0
    assert one.processes() == []
    append(log, "hello 3")
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", one.ports["page"]))
        taken.listen()
        second = one.start()  # the paths of the last time
        assert f":{one.ports['page']}/" not in second["link"]
        assert second["server"] == first["server"]
        assert second["unread_bytes"] == len("hello 3\n")
        until(lambda: one.lines("hello") == ["hello 1", "hello 2", "hello 3"], what=one.text)
    (one.data / "report").mkdir()
    (one.data / "mine.txt").touch()
    refused = one.run("down", "--remove", "--data", one.data)
    assert (refused.returncode, one.process.poll()) == (64, None)
    done = one.run("down", "--remove", "--yes", "--data", one.data)
    assert (done.returncode, one.process.wait(60)) == (0, 0), done.stderr
    assert sorted(os.listdir(one.data)) == ["mine.txt", "report"]
    assert one.processes() == []


def test_a_kill_leaves_no_process_and_loses_no_line_and_what_dies_alone_is_restarted(one):
    log, written = one.home / "app.log", 0

    def write(count: int) -> None:
        nonlocal written
        append(log, *(f"number {written + n}" for n in range(count)))
        written += count

    write(1000)
    one.start(log)
    until(lambda: one.lines("number 5"), what=one.text)
    write(1000)
    one.kill()
    until(lambda: not one.processes(), within=10, what=one.text)
    write(1000)
    one.start()
    for command in ("nats-server", "consume", "produce", "web"):
        pid = one.pid(command)
        assert pid, command
        os.kill(pid, signal.SIGKILL)
        write(1000)
        until(lambda pid=pid, command=command: one.pid(command) not in {0, pid}, what=one.text)
    counted = ("search", "number", "--count", "all", "--archive", one.archive)
    until(lambda: one.run(*counted).stdout.split()[:1] == [str(written)], within=60, what=one.text)
    assert "it is restarted in 1 s" in one.text()
    one.process.send_signal(signal.SIGTERM)
    until(lambda: "ending" in one.text(), what=one.text)
    assert one.stop(signal.SIGINT) == 0  # a second signal shortens the end
    assert "Traceback" not in one.text()
    assert one.processes() == []
    assert contents(one.archive) == [log.read_bytes()]


def test_a_program_that_cannot_work_ends_up_with_its_reason(one):
    append(one.home / "app.log", "hello")
    done = one.run("up", "--data", one.data, "app.log", HOSTNAME="localhost")
    assert done.returncode == 1
    assert "every machine is called localhost" in done.stderr
    assert one.processes() == []
    assert json.loads((one.data / "up/up.json").read_bytes())["paths"] == []  # the next one does not repeat a mistake


def test_a_report_of_today_has_the_open_files_sealed_first(one):
    log = one.home / "app.log"
    append(log, "hello")
    one.start(log)
    until(lambda: one.lines("hello"), what=one.text)
    day = next(one.archive.glob("date=*"))
    assert list(day.glob("*/*/_open-*"))
    said = []
    seal_open_files([one.archive, "s3a://elsewhere"], day.name.removeprefix("date="), said.append)
    assert said == []
    assert not list(day.glob("*/*/_open-*"))
    assert [each.stat().st_size > 0 for each in day.glob("*/*/*.zst")] == [True]
    append(log, "later")
    until(lambda: one.lines("later"), what=one.text)
    assert one.stop() == 0
    assert not list(day.glob("*/*/_open-*"))  # the end seals, so that a report without `up` has all, too
    assert one.lines("hello") == ["hello"]


@pytest.mark.parametrize(
    ("user", "home", "data", "expected"),
    [
        (0, "/root", "/data", "/var/lib/fshipper"),
        (1000, "/home/me", "/data", "/data/fshipper"),
        (1000, "/home/me", "relative", "/home/me/.local/share/fshipper"),
        (1000, "/home/me", "", "/home/me/.local/share/fshipper"),
    ],
)
def test_the_default_places_follow_the_user(monkeypatch, tmp_path, user, home, data, expected):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(os, "geteuid", lambda: user)
    monkeypatch.setenv("HOME", home)
    monkeypatch.setenv("XDG_DATA_HOME", data)
    assert (str(default_paths.archive()), str(default_paths.reports())) == (f"{expected}/archive", f"{expected}/report")
    for name in ("archive", "report"):
        (tmp_path / name).mkdir()
    assert (str(default_paths.archive()), str(default_paths.reports())) == (f"{expected}/archive", "report")
    (tmp_path / "archive/_archive.json").touch()
    assert str(default_paths.archive()) == "archive"  # of an earlier version
