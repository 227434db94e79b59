"""What every test of the report may use: an empty archive, and one Spark session for all."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from day_archives import Archive

from shipper import layout
from spark_analytics.runtime import session, tuning


@pytest.fixture
def archive(tmp_path: Path) -> Archive:
    root = tmp_path / "archive"
    root.mkdir()
    (root / layout.IDENTITY).write_text('{"v": 1, "id": "00c0ffee00c0ffee"}\n')
    return Archive(root)


@pytest.fixture(scope="session")
def spark(tmp_path_factory) -> Iterator:
    """As `fshipper report` starts it for a small day. test_tuning.py compares with the settings of a large day."""
    log = tmp_path_factory.mktemp("spark") / "spark.log"
    session.LOCAL_SETTINGS["spark.sql.shuffle.partitions"] = "2"
    with session.open_session(
        master="local[2]", log=log, size_bytes=tuning.SMALL_BYTES, writes_classes=True
    ) as started:
        yield started
