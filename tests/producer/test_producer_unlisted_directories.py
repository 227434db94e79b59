"""Directories that a pattern searches and the producer may not list: every command names them."""

import json
import os
import subprocess
from pathlib import Path

import pytest
from harness.forking import FSHIPPER
from harness.natsd import NatsServer

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to give a directory to another user")
NOBODY = 65534
AS_ORDINARY_USER = ("setpriv", "--inh-caps=-all", "--bounding-set=-dac_override,-dac_read_search")
"""Root that may do with files what every user may: the tests may be in a directory that other users cannot enter."""


class Place:
    """`open/ok.log`, which every user may read, and `private/app.log` in a directory of another user."""

    def __init__(self, directory: Path, url: str) -> None:
        self.logs = directory / "logs"
        (self.logs / "open").mkdir(parents=True)
        (self.logs / "open" / "ok.log").write_text("fine\n")
        self.private = self.logs / "private"
        self.private.mkdir()
        (self.private / "app.log").write_text("never\n")
        self.private.chmod(0o700)
        os.chown(self.private, NOBODY, NOBODY)
        state = {"SHIPPER_STATE": str(directory / "state"), "SHIPPER_LISTEN": ""}
        self._environment = os.environ | state | {"NATS_URL": url, "HOSTNAME": "web1"}

    def fshipper(self, *arguments: str) -> "subprocess.CompletedProcess[str]":
        """A command that may not list `private`."""
        command = [*AS_ORDINARY_USER, FSHIPPER, *arguments]
        return subprocess.run(command, env=self._environment, capture_output=True, text=True, check=False, timeout=120)


@pytest.fixture
def place(tmp_path: Path, natsd: NatsServer) -> Place:
    place = Place(tmp_path, natsd.url)
    place.fshipper("partition", "apply", "--partitions", "1")
    return place


PATTERNS = {"**/*.log": "private", "*/*.log": "private", "private/*.log": "private", "*/app.log": "private/app.log"}


def test_once_ships_the_rest_and_ends_with_an_error_that_names_the_directory(place: Place) -> None:
    for pattern, unread in PATTERNS.items():
        run = place.fshipper("produce", "--once", f"{place.logs}/{pattern}")
        assert run.returncode == 1, run.stderr
        assert f"not everything could be read: {place.logs / unread}\n" in run.stderr
        assert "Permission denied" in run.stderr
    assert place.fshipper("produce", "--once", f"{place.logs}/open/*.log").returncode == 0


def test_a_dry_run_and_a_validation_name_it(place: Place) -> None:
    for pattern, unread in PATTERNS.items():
        dry = json.loads(place.fshipper("produce", "--dry-run", "--json", f"{place.logs}/{pattern}").stdout)
        assert [(skip["path"], skip["reason"]) for skip in dry["skips"]] == [(str(place.logs / unread), "unreadable")]
        checked = place.fshipper("validate", f"{place.logs}/{pattern}")
        assert checked.returncode == 78
        assert f"cannot read {place.logs / unread}" in checked.stdout


def test_nothing_is_said_of_a_directory_that_is_excluded(place: Place) -> None:
    for exclude in (f"{place.private}", f"{place.private}/*", f"{place.logs}/priv*"):
        run = place.fshipper("produce", "--once", f"{place.logs}/**/*.log", "--exclude", exclude)
        assert (run.returncode, "unreadable" in run.stderr) == (0, False), run.stderr
    run = place.fshipper("produce", "--once", f"{place.logs}/**/*.log", "--exclude", f"{place.private}/*.gz")
    assert run.returncode == 1
