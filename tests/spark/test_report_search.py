"""The commands that a report shows are commands of `fshipper search`: run for real, each finds the lines of its row."""

import json
import shlex
import subprocess
import sys
from pathlib import Path

from spark_analytics.report.html import Search, of_template, phrase

LINES = b"Nov 20 05:00:01 web1 sshd[7]: Failed password for root from 192.0.2.7 port 5 ssh2\nNov 20 05:00:02 web1 x\n"
FSHIPPER = Path(sys.executable).with_name("fshipper")


def found(archive, search, tmp_path):
    command = [str(FSHIPPER), *shlex.split(search.command())[1:]]
    command[2:2] = ["--json", "--archive", str(archive.root), "--state", str(tmp_path / "state")]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode in {0, 1}, done.stderr
    return [entry["line"] for entry in map(json.loads, done.stdout.splitlines()) if "line" in entry]


def test_the_command_of_a_row_finds_its_lines(archive, tmp_path):
    archive.seal(LINES, file="/var/log/auth.log", host="web1")
    archive.seal(LINES, file="/var/log/other.log", host="web2")
    whole = LINES.decode().splitlines()

    assert found(archive, Search(archive.date, "", "web1"), tmp_path) == whole
    assert found(archive, Search(archive.date, "", "web1", "/var/log/auth.log"), tmp_path) == whole
    assert found(archive, Search(archive.date, "", "web2", "/var/log/auth.log"), tmp_path) == []
    assert found(archive, Search(archive.date, phrase("192.0.2.7")), tmp_path) == [whole[0]] * 2
    template = "Failed password for <*> from <*> port <*> ssh2"
    assert found(archive, Search(archive.date, of_template(template), "web1"), tmp_path) == [whole[0]]
    assert found(archive, Search("2026-11-19", "", "web1"), tmp_path) == []
