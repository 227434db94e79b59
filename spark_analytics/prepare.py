"""`fshipper report prepare`: a training run after which Java starts a report from a class data archive.

The run makes two small days with both aggregation engines, interpreted and compiled, and queries them, so that the
archive has the classes of later reports. Nothing of it is kept but the archive.
"""

import io
import os
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

from shipper.errors import Unavailable
from spark_analytics import training_day
from spark_analytics.runtime import class_data_sharing, scratch_directory, session, tuning
from spark_analytics.runtime.class_data_sharing import SharedArchive

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

NEEDED_BYTES = 400_000_000
"""Free bytes that are needed where the archive is written: it has some 190 MB, and two may exist for a moment."""

_QUERIES = (
    "select file, level, sum(lines) n from hourly group by all order by n desc limit 10",
    "select date, host, lines, err_rate from host_daily order by date, host",
    "select host, ts, line from lines where line like '%failed%' order by ts limit 5",
    "select * from runs",
)


def prepare(*, force: bool) -> tuple[SharedArchive, bool]:
    """Writes the class data archive; returns it, and whether it was written now.

    Raises:
        Unavailable: there is no Java, no pyspark, no place for it, or Java wrote none.
    """
    java = session.require_runtime()
    import pyspark  # noqa: PLC0415 - checked before

    try:
        archive = class_data_sharing.archive_to_prepare(java, pyspark.__version__, os.environ)
    except OSError as error:
        raise Unavailable(f"the Java classes cannot be prepared: {error}", hint="set SHIPPER_STATE or HOME") from None
    if archive.is_valid and not force:
        return archive, False
    _require_space(archive.path.parent)
    archive.path.unlink(missing_ok=True)
    with scratch_directory.directory() as place:
        training_day.write(place / "archive")
        _train(place, archive)
    if not archive.is_valid:
        raise Unavailable(
            f"Java did not write {archive.path}", hint="does another `report prepare` run? Reports work without it"
        )
    return archive, True


def _require_space(directory: Path) -> None:
    there = next(path for path in (directory, *directory.parents) if path.exists())
    free = shutil.disk_usage(there).free
    if free < NEEDED_BYTES:
        raise Unavailable(
            f"{there} has {free // 1_000_000} MB free; the Java classes need {NEEDED_BYTES // 1_000_000} MB",
            hint="free some space, and run `fshipper report prepare` again; reports work without it",
        )


def _train(place: Path, archive: SharedArchive) -> None:
    from spark_analytics import pipeline  # noqa: PLC0415 - needs pyspark
    from spark_analytics.scan import run as scan  # noqa: PLC0415

    out = place / "report"
    out.mkdir()
    with session.open_session(
        master=None, log=place / "spark.log", size_bytes=tuning.SMALL_BYTES, classes=archive
    ) as spark:
        for engine, size_bytes in (("auto", tuning.SMALL_BYTES), ("spark", tuning.LARGE_BYTES)):
            _, settings = tuning.java_and_spark_options(size_bytes)
            for name, value in ({scan.ENGINE: engine} | settings).items():
                spark.conf.set(name, value)
            request = pipeline.Request(archive=place / "archive", out=out, top=20, master=None, force=True)
            for _ in pipeline.run(request, training_day.DATES):
                pass
            _query(spark, place / "archive", out)


def _query(spark: "SparkSession", archive: Path, out: Path) -> None:
    from spark_analytics.archive import inventory  # noqa: PLC0415 - need pyspark
    from spark_analytics.query import sql  # noqa: PLC0415
    from spark_analytics.tables.store import Tables  # noqa: PLC0415

    days = [inventory.read_day(archive, date) for date in training_day.DATES]
    for question in _QUERIES:
        sql.show(sql.run(spark, question, Tables(out), archive, days), sql.Format.TABLE, io.StringIO())
