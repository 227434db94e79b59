"""Opens the Spark session: in UTC, without console output, on this machine unless a cluster is configured."""

import contextlib
import fcntl
import importlib.util
import os
import shutil
import signal
import stat
import sys
import tempfile
import time
import types
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from shipper.errors import ShipperError, Unavailable
from spark_analytics.runtime import class_data_sharing, interrupts, java_runtime, jvm, tuning
from spark_analytics.runtime.class_data_sharing import SharedArchive

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SETTINGS = {
    "spark.sql.session.timeZone": "UTC",  # the default is the machine's
    "spark.sql.sources.partitionOverwriteMode": "dynamic",  # static deletes all days
    "spark.sql.parquet.compression.codec": "zstd",
    "spark.hadoop.mapreduce.fileoutputcommitter.marksuccessfuljobs": "false",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.log.level": "ERROR",
    "spark.sql.icu.caseMappings.enabled": "false",  # levels are ASCII
    "spark.python.sql.dataFrameDebugging.enabled": "false",  # else ten calls to Java for each expression
    "spark.sql.codegen.hugeMethodLimit": "8000",  # Java does not compile longer methods by default
    "spark.sql.codegen.maxFields": "1000",  # the default of 100 interprets lines in JSON, which have more keys
}
"""Settings on this machine and on a cluster."""

LOCAL_SETTINGS = {
    "spark.driver.memory": "2g",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
    "spark.sql.shuffle.partitions": "8",
    "spark.sql.files.openCostInBytes": "262144",  # the default makes a task of 32 small files
}
"""Settings where Spark runs in the driver only."""

_TEMPLATES = Path(__file__).parents[1] / "templates"
LOG4J2 = _TEMPLATES / "log4j2.properties"

_LAUNCHER_JAVA = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
"""Options of the launcher, a short-lived Java that prints the command line of the other one."""


@contextlib.contextmanager
def open_session(
    *,
    master: str | None,
    log: Path,
    size_bytes: int | None = None,
    classes: SharedArchive | None = None,
    writes_classes: bool = False,
) -> "Iterator[SparkSession]":
    """A session that is stopped at the end; output of Java goes to `log`. A running session is used and not stopped.

    Under `spark-submit` the master is the one that was submitted to. Otherwise it is `master`, or all cores of this
    machine. `size_bytes` of log text that will be read select how Java compiles; None: unknown. `classes`: the class
    data archive to write at the end, instead of the one that is there. `writes_classes`: write that one if it is
    missing. Only a report does so: an archive of a query would not have the classes of a report.

    Raises:
        Unavailable: pyspark or Java is not installed, or Spark does not start.
    """
    java = require_runtime()
    from pyspark.sql import SparkSession  # noqa: PLC0415

    if running := SparkSession.getActiveSession():
        yield running
        return
    with scratch_directory() as place:
        settings = {
            **SETTINGS,
            "spark.sql.warehouse.dir": f"{place}/warehouse",
            # lists directories in few tasks: the default of one for each takes 20 s for 5,000 hosts instead of 2 s
            "spark.sql.sources.parallelPartitionDiscovery.parallelism": str(2 * (os.cpu_count() or 4)),
        }
        if "PYSPARK_GATEWAY_PORT" in os.environ:
            opened = _opened(settings, log, submitted=True)
        else:
            settings |= _local(master or "local[*]", place, log, size_bytes)
            makes = classes is not None or writes_classes
            opened = _opened_with_classes(settings, log, classes or known_classes(java), makes=makes)
        with contextlib.ExitStack() as stack:
            with _redirected_tempfile(place):
                spark = stack.enter_context(opened)
            yield spark


@contextlib.contextmanager
def _opened(settings: dict[str, str], log: Path, *, submitted: bool) -> "Iterator[SparkSession]":
    from py4j.protocol import Py4JError  # type: ignore[import-untyped] # noqa: PLC0415

    spark = _started(settings, log, submitted=submitted)
    try:
        yield spark
    finally:
        try:
            if not jvm.is_stopped():
                spark.stop()
        except (Py4JError, ConnectionError):  # if Java has ended, the caller already got an error
            if jvm.is_responding():
                raise


@contextlib.contextmanager
def _opened_with_classes(
    settings: dict[str, str], log: Path, known: SharedArchive | None, *, makes: bool
) -> "Iterator[SparkSession]":
    """A session whose Java starts with the class data archive, or writes it at its end; without it if that fails."""
    with contextlib.ExitStack() as stack:
        there = known is not None and known.is_valid
        made = stack.enter_context(known.create()) if known and makes and not there else []
        options = known.options() if known and there else made
        java_options = "spark.driver.extraJavaOptions"
        quoted = " ".join([settings[java_options], *(f'"{option}"' for option in options)])
        with contextlib.ExitStack() as opened:
            try:
                spark = opened.enter_context(_opened(settings | {java_options: quoted}, log, submitted=False))
            except ShipperError:
                if not options:
                    raise
                spark = opened.enter_context(_opened(settings, log, submitted=False))
            yield spark
            if interrupts.is_active() and not made and settings["spark.master"].startswith("local"):
                jvm.kill()  # stopping Spark takes a second
        if made:
            jvm.shut_down()
        elif interrupts.is_active():  # else Java ends a moment after this process
            jvm.kill()


def known_classes(java: Path) -> SharedArchive | None:
    """The class data archive for `java`, which may not exist yet; None if there is no directory for it."""
    import pyspark  # noqa: PLC0415

    try:
        return class_data_sharing.archive_for(java, pyspark.__version__, os.environ)
    except OSError:
        return None


JAVA_HINT = "sudo apt-get install openjdk-17-jre-headless, or set JAVA_HOME; without root: pip install 'fshipper[java]'"
INSTALL_HINT = 'pip install "fshipper[spark]"; from a clone: make install EXTRAS=spark,java'


def require_runtime() -> Path:
    """The Java that Spark is started with here.

    Raises:
        Unavailable: pyspark, pyarrow, duckdb or Java is not installed.
    """
    for name in ("pyspark", "pyarrow", "duckdb"):  # `--help` must work without them
        if importlib.util.find_spec(name) is None:
            raise Unavailable(f"the report needs {name}, which is not installed", hint=INSTALL_HINT)
    java = java_runtime.find()
    if java is None or not java.is_file():
        where = "there is no java on PATH" if java is None else f"JAVA_HOME={java.parent.parent} has no bin/java"
        raise Unavailable(f"the report needs Java 17 or later; {where}", hint=JAVA_HINT)
    return java


def _local(master: str, place: Path, log: Path, size_bytes: int | None) -> dict[str, str]:
    alone = master.startswith("local")
    pace, more = tuning.java_and_spark_options(size_bytes) if alone else ((), {})
    java_options = (
        f'{" ".join(pace)} -XX:-UsePerfData -Djava.io.tmpdir="{place}"'  # a killed Java leaves its files there
        f' -Dlog4j2.configurationFile="{LOG4J2.as_uri()}" -Dfshipper.log="{log.resolve()}"'
    )
    settings = {
        "spark.master": master,
        "spark.app.name": "fshipper report",
        "spark.driver.extraJavaOptions": java_options,
    }
    if alone:
        mask = os.umask(0o077)
        os.umask(mask)
        settings |= LOCAL_SETTINGS | {"spark.local.dir": f"{place}/local"} | more
        settings["spark.hadoop.fs.permissions.umask-mode"] = f"{mask:03o}"  # the default of Java is 022
    return settings


def _started(settings: dict[str, str], log: Path, *, submitted: bool) -> "SparkSession":
    from pyspark.errors import PySparkException  # noqa: PLC0415
    from pyspark.logger import PySparkLogger  # noqa: PLC0415
    from pyspark.sql import SparkSession  # noqa: PLC0415

    builder = SparkSession.builder.appName("fshipper report")
    for name, value in settings.items():
        builder = builder.config(name, value)
    _use_utf8()
    for name in ("SQLQueryContextLogger", "DataFrameQueryContextLogger"):
        PySparkLogger.getLogger(name).disabled = True  # hundreds of lines of Java for errors that are raised as well
    jvm.silence_py4j()
    os.environ.setdefault("SPARK_LAUNCHER_OPTS", _LAUNCHER_JAVA)
    try:
        with contextlib.nullcontext() if submitted else _output_to(log), _without_handler_of_pyspark():
            return _with_cached_lookups(builder.getOrCreate())
    except PySparkException as error:
        raise Unavailable(
            "Spark does not start", hint=f"see {log}; Java 17 or 21 is needed, and 2 GB of memory"
        ) from error
    except Exception as error:
        if not jvm.is_responding():
            jvm.forget()
            raise jvm.JavaEnded(log) from error
        if type(error).__module__.startswith("py4j"):
            raise ShipperError("Spark does not start", hint=f"see {log}, and check --master") from error
        raise


def _with_cached_lookups(spark: "SparkSession") -> "SparkSession":
    """Caches the lookup of `functions` and its members, which pyspark requests from Java for each expression."""
    view: Any = spark._jvm  # noqa: SLF001 - there is no other way to it
    functions, view.PythonUtils = view.functions, view.PythonUtils
    for name in ("functions", "org.apache.spark.sql.functions"):  # pyspark uses both
        setattr(view, name, functions)
    for name in ("lit", "col", "when"):
        setattr(functions, name, getattr(functions, name))
    return spark


def _use_utf8() -> None:
    """Sets a UTF-8 locale: in the C locale Java cannot open files whose names are not ASCII."""
    chosen = next((value for name in ("LC_ALL", "LC_CTYPE", "LANG") if (value := os.environ.get(name))), "")
    if "utf" not in chosen.lower():
        os.environ["LC_ALL"] = "C.UTF-8"


@contextlib.contextmanager
def _output_to(log: Path) -> Iterator[None]:
    """Redirects stdout and stderr to `log` while Java starts, because Java inherits them.

    Otherwise Java would keep a pipe of the caller open for a moment after this process was killed.
    """
    sys.stdout.flush()
    sys.stderr.flush()
    kept = {number: os.dup(number) for number in (1, 2)}
    try:
        with log.open("wb") as target:
            for number in kept:
                os.dup2(target.fileno(), number)
        yield
    finally:
        for number, own in kept.items():
            os.dup2(own, number)
            os.close(own)


@contextlib.contextmanager
def _without_handler_of_pyspark() -> Iterator[None]:
    """Stops pyspark from installing its SIGINT handler, which prints two traces, if `interrupts` is active."""
    if not interrupts.is_active():
        yield
        return
    from pyspark.core import context  # noqa: PLC0415

    own = vars(context)["signal"]
    vars(context)["signal"] = types.SimpleNamespace(signal=lambda *_: None, SIGINT=signal.SIGINT)
    try:
        yield
    finally:
        vars(context)["signal"] = own


# -- temporary directories; each run removes those that killed runs left -----------------------------------------------

SCRATCH_PREFIX = "fshipper-report-"

UNLOCKED_SECONDS = 3600.0
"""Age at which a directory without a lock is removed: an older version made it, or a run was killed as it made it."""

_LOCK = ".lock"


@contextlib.contextmanager
def scratch_directory() -> Iterator[Path]:
    """An empty directory of this user, removed at the end; before, those of killed runs are removed.

    The lock in it is held by this process only, not by its Java, so it is free as soon as the process has ended.
    """
    _sweep(Path(tempfile.gettempdir()))
    made = Path(tempfile.mkdtemp(prefix=SCRATCH_PREFIX))
    with interrupts.removed_at_end(made), contextlib.ExitStack() as stack:
        stack.callback(shutil.rmtree, made, ignore_errors=True)
        handle = os.open(made / _LOCK, os.O_RDWR | os.O_CREAT, 0o600)
        stack.callback(os.close, handle)
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield made


@contextlib.contextmanager
def _redirected_tempfile(place: Path) -> Iterator[None]:
    """Makes `tempfile` use `place` within the block: pyspark creates a directory while Java starts."""
    before, tempfile.tempdir = tempfile.tempdir, str(place)
    try:
        yield
    finally:
        tempfile.tempdir = before


def _sweep(place: Path) -> None:
    for left in place.glob(f"{SCRATCH_PREFIX}*"):
        with contextlib.suppress(OSError):
            about = left.lstat()
            if stat.S_ISDIR(about.st_mode) and about.st_uid == os.geteuid() and _is_abandoned(left, about.st_mtime):
                shutil.rmtree(left, ignore_errors=True)


def _is_abandoned(left: Path, modified: float) -> bool:
    try:
        handle = os.open(left / _LOCK, os.O_RDWR | os.O_NOFOLLOW)
    except FileNotFoundError:
        return time.time() - modified > UNLOCKED_SECONDS
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    finally:
        os.close(handle)
    return True
