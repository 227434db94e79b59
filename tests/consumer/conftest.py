"""What most tests of the collector begin with."""

from pathlib import Path

import pytest
from collecting import Log, PartitionHarness


@pytest.fixture
def harness(tmp_path: Path) -> PartitionHarness:
    """A partition with nothing in its stream."""
    return PartitionHarness(tmp_path)


@pytest.fixture
def log(request: pytest.FixtureRequest) -> Log:
    """A source with the `LINES` of the test's module."""
    return Log(request.module.LINES)
