"""A fault of a disk, of rights or of a path ends a command with one sentence, a next step and an exit code."""

import errno
import os
import subprocess
import sys
from pathlib import Path

import pytest

from shipper import main

MAIN = [sys.executable, "-m", "shipper"]


def test_full_standard_output_is_one_message():
    with Path("/dev/full").open("wb") as full:
        done = subprocess.run(
            [*MAIN, "version"], stdout=full, stderr=subprocess.PIPE, text=True, check=False, timeout=60
        )
    assert done.returncode == 1
    assert done.stderr.splitlines() == [
        "error: cannot write: No space left on device",
        "hint: free space on its file system, and run the command again",
    ]


@pytest.mark.parametrize("closed", [">&-", "2>&-", ">&- 2>&-"])
@pytest.mark.parametrize("verb", ["version", "--help", "audit --help", "search --help"])
def test_a_closed_standard_output_or_error_is_no_fault(verb, closed):
    command = f'"{sys.executable}" -m shipper {verb} {closed}'
    done = subprocess.run(["/bin/sh", "-c", command], capture_output=True, text=True, check=False, timeout=60)
    assert (done.returncode, "Traceback" in done.stderr) == (0, False)


@pytest.mark.parametrize("number", sorted(main.FAULTS))
def test_each_fault_names_the_file_and_the_next_step(number, monkeypatch, capfd):
    def fails(_):
        raise OSError(number, os.strerror(number), "/srv/report")

    monkeypatch.setattr(main, "run", fails)
    monkeypatch.setattr(main, "_discard_output", lambda: None)
    with pytest.raises(SystemExit) as ended:
        main.main([])
    code, hint = main.FAULTS[number]
    assert ended.value.code == code != 0
    assert capfd.readouterr().err == f"error: /srv/report: {os.strerror(number)}\nhint: {hint}\n"


def test_another_fault_keeps_its_trace(monkeypatch):
    def fails(_):
        raise OSError(errno.EBADF, "a defect")

    monkeypatch.setattr(main, "run", fails)
    with pytest.raises(OSError, match="a defect"):
        main.main([])
