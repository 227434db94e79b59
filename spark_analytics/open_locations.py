"""Opens the locations named on the command line; a remote one needs Spark to start first."""

import contextlib
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

from spark_analytics.runtime import interrupts, session
from spark_analytics.storage import locations
from spark_analytics.storage.locations import Location


@contextlib.contextmanager
def opened(*texts: str, master: str | None = None) -> Iterator[Sequence[Location]]:
    """The locations that `texts` name: paths, `file:` and other URIs.

    If one is remote, one Spark session serves the whole run; output of Java goes to a local file, which is kept if the
    run fails.

    Raises:
        ConfigError: Spark has no such file system.
        Unavailable: pyspark or Java is not installed, or Spark does not start.
    """
    if not any(map(locations.is_remote, texts)):
        yield [locations.local_path(text) for text in texts]
        return
    session.require_runtime()
    kept = Path(tempfile.mkdtemp(prefix="fshipper-log-"))
    with interrupts.removed_at_end(kept), _opened(texts, master, kept / "spark.log") as found:
        yield found
    shutil.rmtree(kept, ignore_errors=True)


@contextlib.contextmanager
def _opened(texts: Sequence[str], master: str | None, log: Path) -> Iterator[Sequence[Location]]:
    from spark_analytics.storage import hadoop_fs  # noqa: PLC0415 - need pyspark
    from spark_analytics.tables import spark_io  # noqa: PLC0415

    with session.open_session(master=master, log=log) as spark, spark_io.translated_errors(log):
        yield [
            hadoop_fs.remote_path(spark, text, log) if locations.is_remote(text) else locations.local_path(text)
            for text in texts
        ]
