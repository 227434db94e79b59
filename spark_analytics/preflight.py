"""Checks of `fshipper validate --role report`: whether a report can be made on this machine."""

from collections.abc import Iterator

from spark_analytics.runtime import session


def check(_settings: object) -> Iterator[str]:
    """Yields what is in order, in sentences. Raises Unavailable: pyspark or Java is not installed."""
    session.require_runtime()
    yield "pyspark and Java are installed"
