"""What an earlier version wrote is read, and continued without a doubled or lost line.

`tests/earlier/DATE.tar.gz` was made by the version of that day: two files were shipped, sealed, grown, rotated and
shipped again. The server acknowledged the last 50 lines of `app.log`, but was lost before they were archived.
"""

import os
import shutil
import subprocess
import sys
import tarfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from harness.fleet import contents

WRITTEN = sorted((Path(__file__).parent / "earlier").glob("*.tar.gz"))
APP = b"".join(b"line %d of app\n" % number for number in range(1, 461))
ACCESS = b"".join(b"line %d of access\n" % number for number in range(1, 201)) + b"".join(
    b"line %d of access, new generation\n" % number for number in range(1, 51)
)


@pytest.fixture
def logs(written: Path) -> Iterator[Path]:
    """The directory of the log files, whose path is in the checkpoint."""
    place = Path("/tmp") / f"fshipper-written-{written.name.removesuffix('.tar.gz')}"
    shutil.rmtree(place, ignore_errors=True)
    yield place
    shutil.rmtree(place, ignore_errors=True)


@pytest.mark.parametrize("written", WRITTEN, ids=lambda path: path.name)
def test_what_an_earlier_version_wrote_is_continued_line_by_line(written, logs, natsd, tmp_path):
    with tarfile.open(written) as archive:
        archive.extractall(tmp_path, filter="data")
    shutil.move(tmp_path / "logs", logs)
    with (logs / "app.log").open("ab") as file:
        file.write(APP[APP.index(b"line 451 ") :])

    for verb in ("validate", "partition apply", "produce --once", "consume --drain --seal", "audit"):
        ended = subprocess.run(
            [sys.executable, "-m", "shipper", *verb.split()], cwd=tmp_path, capture_output=True, check=False,
            env=os.environ | {"SHIPPER_CONFIG": "fshipper.toml", "NATS_URL": natsd.url}, timeout=120, text=True,
        )  # fmt: skip
        assert ended.returncode == 0, (verb, ended.stdout, ended.stderr)

    assert sorted(contents(tmp_path / "archive")) == sorted([APP, ACCESS])
