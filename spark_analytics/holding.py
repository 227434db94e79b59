"""Settings of a session that hold for a while: it may be somebody else's, and serves what comes behind."""

import contextlib
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@contextlib.contextmanager
def holding(spark: "SparkSession", settings: Mapping[str, str]) -> Iterator[None]:
    """Within, `settings` hold; behind it what was set before. They are the session's, so nobody else asks meanwhile."""
    before = {name: str(spark.conf.get(name)) for name in settings}
    try:
        for name, value in settings.items():
            spark.conf.set(name, value)
        yield
    finally:
        for name, value in before.items():
            spark.conf.set(name, value)
