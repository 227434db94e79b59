"""The Spark session: quiet, in UTC, on this machine unless somebody chose a cluster."""

import contextlib
import os
import shutil
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from shipper.errors import ShipperError, Unavailable

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SETTINGS = {
    "spark.sql.session.timeZone": "UTC",  # else the machine's
    "spark.sql.sources.partitionOverwriteMode": "dynamic",  # static wipes all days
    "spark.sql.parquet.compression.codec": "zstd",
    "spark.hadoop.mapreduce.fileoutputcommitter.marksuccessfuljobs": "false",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.log.level": "ERROR",
}
"""What holds wherever the job runs."""

LOCAL_SETTINGS = {
    "spark.driver.memory": "2g",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
    "spark.sql.shuffle.partitions": "8",
}
"""What holds where the driver is the whole of Spark."""

LOG4J2 = Path(__file__).with_name("templates") / "log4j2.properties"


@contextlib.contextmanager
def open_session(*, master: str | None, log: Path) -> "Iterator[SparkSession]":
    """A session, stopped at the end; what Java says goes to `log`.

    Under `spark-submit` the master is the one that was submitted to, and is not touched. Otherwise it is `master`,
    or all cores of this machine.

    Raises:
        Unavailable: pyspark or Java is not installed, or Spark does not start.
    """
    require_runtime()
    submitted = "PYSPARK_GATEWAY_PORT" in os.environ
    with tempfile.TemporaryDirectory(prefix="fshipper-report-", ignore_cleanup_errors=True) as scratch:
        settings = {**SETTINGS, "spark.sql.warehouse.dir": f"{scratch}/warehouse", **_discovery()}
        if not submitted:
            settings |= _local(master or "local[*]", Path(scratch), log)
        spark = _started(settings, log, submitted=submitted)
        try:
            yield spark
        finally:
            spark.stop()


def require_runtime() -> None:
    """Returns if Spark can be started here.

    Raises:
        Unavailable: pyspark or Java is not installed.
    """
    try:
        import pyspark  # noqa: F401, PLC0415 - `--help` must work without it
    except ImportError:
        raise Unavailable(
            "the report needs pyspark, which is not installed", hint='pip install "fshipper[spark]"'
        ) from None
    home = os.environ.get("JAVA_HOME")
    java = Path(home, "bin", "java") if home else Path(shutil.which("java") or "")
    if not java.is_file():
        where = f"JAVA_HOME={home} has no bin/java" if home else "there is no java on PATH"
        raise Unavailable(
            f"the report needs Java 17 or later; {where}",
            hint="apt-get install openjdk-17-jre-headless, or set JAVA_HOME",
        )


def _discovery() -> dict[str, str]:
    """By default Spark starts a task for each directory: 20 s for 5,000 hosts that take 2 s with a few tasks."""
    tasks = str(2 * (os.cpu_count() or 4))
    return {"spark.sql.sources.parallelPartitionDiscovery.parallelism": tasks}


def _local(master: str, scratch: Path, log: Path) -> dict[str, str]:
    java_options = f'-Dlog4j2.configurationFile="{LOG4J2.as_uri()}" -Dfshipper.log="{log.resolve()}"'
    settings = {
        "spark.master": master,
        "spark.app.name": "fshipper report",
        "spark.driver.extraJavaOptions": java_options,
    }
    if master.startswith("local"):
        settings |= LOCAL_SETTINGS | {"spark.local.dir": f"{scratch}/local"}
    return settings


def _started(settings: dict[str, str], log: Path, *, submitted: bool) -> "SparkSession":
    from pyspark.errors import PySparkException  # noqa: PLC0415
    from pyspark.sql import SparkSession  # noqa: PLC0415

    builder = SparkSession.builder.appName("fshipper report")
    for name, value in settings.items():
        builder = builder.config(name, value)
    _speak_utf8()
    try:
        with contextlib.nullcontext() if submitted else _stderr_to(log):
            return builder.getOrCreate()
    except PySparkException as error:
        raise Unavailable(
            "Spark does not start", hint=f"see {log}; Java 17 or 21 is needed, and 2 GB of memory"
        ) from error
    except Exception as error:
        if type(error).__module__.startswith("py4j"):
            raise ShipperError("Spark does not start", hint=f"see {log}, and check --master") from error
        raise


def _speak_utf8() -> None:
    """In the C locale Java opens no file whose name is not ASCII: it asks for `?` in place of the letter."""
    chosen = next((value for name in ("LC_ALL", "LC_CTYPE", "LANG") if (value := os.environ.get(name))), "")
    if "utf" not in chosen.lower():
        os.environ["LC_ALL"] = "C.UTF-8"


@contextlib.contextmanager
def _stderr_to(log: Path) -> Iterator[None]:
    """Java inherits this process's stderr when it starts, and keeps it: give it the log, and take ours back."""
    sys.stderr.flush()
    kept = os.dup(2)
    try:
        with log.open("wb") as target:
            os.dup2(target.fileno(), 2)
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)
