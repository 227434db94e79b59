"""Checks of `fshipper validate --role report`: whether a report can be made on this machine."""

from collections.abc import Iterator

from spark_analytics.runtime import session


def check(_settings: object) -> Iterator[str]:
    """Yields what is in order, in sentences. Raises Unavailable: pyspark or Java is not installed."""
    java = session.require_runtime()
    yield "pyspark and Java are installed"
    classes = session.known_classes(java)
    if classes is not None and classes.is_valid:
        yield f"the Java classes are prepared: {classes.path}"
    else:
        yield "the Java classes are not prepared, so the first report takes longer: run `fshipper report prepare`"
