"""The Spark session: quiet, in UTC, on this machine unless somebody chose a cluster."""

import contextlib
import importlib.util
import os
import shutil
import signal
import sys
import types
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from shipper.errors import ShipperError, Unavailable
from spark_analytics.runtime import class_data_sharing, interrupts, jvm, scratch_directory, tuning
from spark_analytics.runtime.class_data_sharing import Classes

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
    "spark.sql.icu.caseMappings.enabled": "false",  # levels are ASCII
    "spark.python.sql.dataFrameDebugging.enabled": "false",  # else Java is told ten times of each expression's line
    "spark.sql.codegen.hugeMethodLimit": "8000",  # what is longer Java never compiles, unless it is told to
}
"""What holds wherever the job runs."""

LOCAL_SETTINGS = {
    "spark.driver.memory": "2g",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
    "spark.sql.shuffle.partitions": "8",
    "spark.sql.files.openCostInBytes": "262144",  # else 32 small files are a task, which costs more than they do
}
"""What holds where the driver is the whole of Spark."""

_TEMPLATES = Path(__file__).with_name("templates")
LOG4J2 = _TEMPLATES / "log4j2.properties"

_LAUNCHER_JAVA = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
"""Of the Java that only writes down how the other one is started."""


@contextlib.contextmanager
def open_session(*, master: str | None, log: Path, size_bytes: int | None = None) -> "Iterator[SparkSession]":
    """A session, stopped at the end; what Java says goes to `log`. One that runs already is used, and goes on.

    Under `spark-submit` the master is the one that was submitted to, and is not touched. Otherwise it is `master`,
    or all cores of this machine. `size_bytes` of log text that will be read say how Java compiles; None: nobody knows.

    Raises:
        Unavailable: pyspark or Java is not installed, or Spark does not start.
    """
    java = require_runtime()
    if running := _running():
        yield running
        return
    submitted = "PYSPARK_GATEWAY_PORT" in os.environ
    with scratch_directory.directory() as place:
        settings = {**SETTINGS, "spark.sql.warehouse.dir": f"{place}/warehouse", **_discovery()}
        if submitted:
            opened = _opened(settings, log, submitted=True)
        else:
            settings |= _local(master or "local[*]", place, log, size_bytes)
            opened = _quickly_opened(settings, log, _classes(java), makes=size_bytes is not None)
        with contextlib.ExitStack() as stack:
            with scratch_directory.taking_all(place):
                spark = stack.enter_context(opened)
            yield spark


@contextlib.contextmanager
def _opened(settings: dict[str, str], log: Path, *, submitted: bool) -> "Iterator[SparkSession]":
    spark = _started(settings, log, submitted=submitted)
    try:
        yield spark
    finally:
        _stop(spark)


def _stop(spark: "SparkSession") -> None:
    """Stops Spark; where Java has ended there is nothing to stop, and whoever asked it anything knows."""
    from py4j.protocol import Py4JError  # type: ignore[import-untyped] # noqa: PLC0415

    if jvm.is_gone():
        return
    try:
        spark.stop()
    except (Py4JError, ConnectionError):
        if jvm.answers():
            raise


@contextlib.contextmanager
def _quickly_opened(
    settings: dict[str, str], log: Path, known: Classes | None, *, makes: bool
) -> "Iterator[SparkSession]":
    """A session whose Java starts from the file of classes, or writes one at its end for the next."""
    with contextlib.ExitStack() as stack:
        there = known is not None and known.is_sound
        made = stack.enter_context(known.making()) if known and makes and not there else []
        options = known.options() if known and there else made
        with _opened_anyhow(settings, log, options) as spark:
            yield spark
            if interrupts.is_active() and not made and settings["spark.master"].startswith("local"):
                jvm.kill()  # to stop Spark takes a second, and nobody else uses this one
        if made:
            jvm.end()
        elif interrupts.is_active():  # else Java outlives this process by a moment
            jvm.kill()


@contextlib.contextmanager
def _opened_anyhow(settings: dict[str, str], log: Path, options: Sequence[str]) -> "Iterator[SparkSession]":
    """A session with more options for Java, or without where it does not start with them."""
    with contextlib.ExitStack() as stack:
        try:
            spark = stack.enter_context(_opened(_with_java(settings, options), log, submitted=False))
        except ShipperError:
            if not options:
                raise
            spark = stack.enter_context(_opened(settings, log, submitted=False))
        yield spark


def _classes(java: Path) -> Classes | None:
    import pyspark  # noqa: PLC0415

    try:
        return class_data_sharing.found(java, pyspark.__version__, os.environ)
    except OSError:
        return None


def _with_java(settings: dict[str, str], options: Sequence[str]) -> dict[str, str]:
    name = "spark.driver.extraJavaOptions"
    return settings | {name: " ".join([settings[name], *(f'"{option}"' for option in options)])}


def _running() -> "SparkSession | None":
    from pyspark.sql import SparkSession  # noqa: PLC0415

    return SparkSession.getActiveSession()


def require_runtime() -> Path:
    """The Java that Spark is started with here.

    Raises:
        Unavailable: pyspark, pyarrow or Java is not installed.
    """
    for name in ("pyspark", "pyarrow"):  # `--help` must work without them
        if importlib.util.find_spec(name) is None:
            raise Unavailable(f"the report needs {name}, which is not installed", hint='pip install "fshipper[spark]"')
    home = os.environ.get("JAVA_HOME")
    java = Path(home, "bin", "java") if home else Path(shutil.which("java") or "")
    if not java.is_file():
        where = f"JAVA_HOME={home} has no bin/java" if home else "there is no java on PATH"
        raise Unavailable(
            f"the report needs Java 17 or later; {where}",
            hint="apt-get install openjdk-17-jre-headless, or set JAVA_HOME",
        )
    return java


def _discovery() -> dict[str, str]:
    """By default Spark starts a task for each directory: 20 s for 5,000 hosts that take 2 s with a few tasks."""
    tasks = str(2 * (os.cpu_count() or 4))
    return {"spark.sql.sources.parallelPartitionDiscovery.parallelism": tasks}


def _local(master: str, place: Path, log: Path, size_bytes: int | None) -> dict[str, str]:
    alone = master.startswith("local")
    pace, more = tuning.paced(size_bytes) if alone else ((), {})
    java_options = (
        f'{" ".join(pace)} -XX:-UsePerfData -Djava.io.tmpdir="{place}"'  # a killed Java leaves nothing elsewhere
        f' -Dlog4j2.configurationFile="{LOG4J2.as_uri()}" -Dfshipper.log="{log.resolve()}"'
    )
    settings = {
        "spark.master": master,
        "spark.app.name": "fshipper report",
        "spark.driver.extraJavaOptions": java_options,
    }
    if alone:
        settings |= LOCAL_SETTINGS | {"spark.local.dir": f"{place}/local"} | more
        settings["spark.hadoop.fs.permissions.umask-mode"] = f"{_umask():03o}"  # Java changes modes to 022 by itself
    return settings


def _umask() -> int:
    mask = os.umask(0o077)
    os.umask(mask)
    return mask


def _started(settings: dict[str, str], log: Path, *, submitted: bool) -> "SparkSession":
    from pyspark.errors import PySparkException  # noqa: PLC0415
    from pyspark.sql import SparkSession  # noqa: PLC0415

    builder = SparkSession.builder.appName("fshipper report")
    for name, value in settings.items():
        builder = builder.config(name, value)
    _speak_utf8()
    _say_it_once()
    jvm.quiet()
    os.environ.setdefault("SPARK_LAUNCHER_OPTS", _LAUNCHER_JAVA)
    try:
        with contextlib.nullcontext() if submitted else _output_to(log), _without_handler_of_pyspark():
            return _asking_once(builder.getOrCreate())
    except PySparkException as error:
        raise Unavailable(
            "Spark does not start", hint=f"see {log}; Java 17 or 21 is needed, and 2 GB of memory"
        ) from error
    except Exception as error:
        if not jvm.answers():
            jvm.forget()
            raise jvm.JavaEnded(log) from error
        if type(error).__module__.startswith("py4j"):
            raise ShipperError("Spark does not start", hint=f"see {log}, and check --master") from error
        raise


def _say_it_once() -> None:
    """What SQL is told of comes as an error; pyspark writes it to stderr as well, with hundreds of lines of Java."""
    from pyspark.logger import PySparkLogger  # noqa: PLC0415

    for name in ("SQLQueryContextLogger", "DataFrameQueryContextLogger"):
        PySparkLogger.getLogger(name).disabled = True


def _asking_once(spark: "SparkSession") -> "SparkSession":
    """For each expression Python asks Java anew what `functions` is, and what `lit` in it: the answer is kept here."""
    view: Any = spark._jvm  # noqa: SLF001 - there is no other way to it
    functions, view.PythonUtils = view.functions, view.PythonUtils
    for name in ("functions", "org.apache.spark.sql.functions"):  # pyspark looks under both
        setattr(view, name, functions)
    for name in ("lit", "col", "when"):
        setattr(functions, name, getattr(functions, name))
    return spark


def _speak_utf8() -> None:
    """In the C locale Java opens no file whose name is not ASCII: it asks for `?` in place of the letter."""
    chosen = next((value for name in ("LC_ALL", "LC_CTYPE", "LANG") if (value := os.environ.get(name))), "")
    if "utf" not in chosen.lower():
        os.environ["LC_ALL"] = "C.UTF-8"


@contextlib.contextmanager
def _output_to(log: Path) -> Iterator[None]:
    """Java inherits stdout and stderr of this process when it starts: give it the log, and take ours back.

    Else Java keeps a pipe of the caller open for a moment after this process was killed.
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
    """Where `interrupts` ends the process, pyspark installs no handler of its own: that one prints two traces."""
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
