"""What most tests of the collector begin with."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from collecting import Log, PartitionHarness
from dying import Lives, Places
from harness.fleet import Fleet
from harness.natsd import NatsServer


@pytest.fixture
def harness(tmp_path: Path) -> PartitionHarness:
    """A partition with nothing in its stream."""
    return PartitionHarness(tmp_path)


@pytest.fixture
def log(request: pytest.FixtureRequest) -> Log:
    """A source with the `LINES` of the test's module."""
    return Log(request.module.LINES)


@pytest.fixture
def fleet(tmp_path: Path, natsd: NatsServer) -> Iterator[Fleet]:
    """The programs of one partition on a server, each a process."""
    with Fleet(tmp_path, natsd.url, partitions=1) as fleet:
        fleet.apply()
        yield fleet


@pytest.fixture(scope="module")
def lives() -> Iterator[Lives]:
    """Processes that are killed at a chosen step."""
    with Lives() as lives:
        yield lives


@pytest.fixture
def places(tmp_path: Path) -> Places:
    """Copies of an archive, for `lives`."""
    return Places(tmp_path)
