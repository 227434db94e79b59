"""Whether a report can be made here: asked by `fshipper validate --role report`."""

from collections.abc import Iterator

from spark_analytics.runtime import session


def check(_settings: object) -> Iterator[str]:
    """What is as it should be, in sentences. Raises Unavailable: pyspark or Java is not installed."""
    session.require_runtime()
    yield "pyspark and Java are installed"
