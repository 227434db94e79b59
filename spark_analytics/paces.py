"""How Java compiles, and what Spark has compiled, for so many bytes of log text."""

import contextlib
import os
from pathlib import Path
from typing import TYPE_CHECKING

from spark_analytics.holding import holding

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SMALL_BYTES = 25_000_000
"""Of log text: for less Spark writes and compiles no Java source."""

MIDDLING_BYTES = 200_000_000
"""Of log text: less is read before a compiler that thinks longer has paid for itself."""

LARGE_BYTES = 1_500_000_000
"""Of log text: for less that compiler leaves out the loop, which takes it longer than all that is called in it."""

FEW_ROWS = 50_000
"""Of what is counted: a query of less Spark compiles no Java source for, however large the day."""

COMPILER = Path(__file__).with_name("templates") / "compiler.directives"
"""What that compiler leaves out."""

_FEW_CORES = 2
"""Where several collectors of garbage only take from each other; one holds the heap at half its size."""

_ANY_JAVA = (
    "-XX:-DontCompileHugeMethods",  # the scan's loop is one method
    "-XX:MetaspaceSize=256m",  # else classes alone are reason for three collections of everything
)
_HURRIED_JAVA = (*_ANY_JAVA, "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC")
_STEADY_JAVA = (
    *_ANY_JAVA,
    "-XX:+UseSerialGC" if (os.cpu_count() or 1) <= _FEW_CORES else "-XX:+UseParallelGC",
    "-XX:Tier4InvocationThreshold=50000",  # ten times the default: what is not run for every line is not worth C2
    "-XX:Tier4MinInvocationThreshold=6000",
    "-XX:Tier4CompileThreshold=150000",
    "-XX:Tier4BackEdgeThreshold=400000",
)
_SPARING_JAVA = (
    *_STEADY_JAVA,
    "-XX:+UnlockDiagnosticVMOptions",
    f'"-XX:CompilerDirectivesFile={COMPILER}"',
    "-XX:+DisplayVMOutputToStderr",  # where it says that it has read that
)
_COMPILED_WHOLE = {"spark.sql.codegen.hugeMethodLimit": "65535"}
_COMPILED_IN_HASTE = _COMPILED_WHOLE | {"spark.sql.shuffle.partitions": "2"}
_INTERPRETED = {"spark.sql.codegen.wholeStage": "false", "spark.sql.codegen.factoryMode": "NO_CODEGEN"}
_NOT_COMPILED = _INTERPRETED | {"spark.sql.shuffle.partitions": "1"}


def paced(size_bytes: int | None) -> tuple[tuple[str, ...], dict[str, str]]:
    """Options of Java and settings of Spark for so many bytes of log text: what is read once is not worth compiling."""
    if size_bytes is None or size_bytes > LARGE_BYTES:
        return _STEADY_JAVA, _COMPILED_WHOLE
    if size_bytes > MIDDLING_BYTES:  # out of a zip Java reads no file
        return _SPARING_JAVA if COMPILER.is_file() else _STEADY_JAVA, _COMPILED_WHOLE
    return _HURRIED_JAVA, _NOT_COMPILED if size_bytes <= SMALL_BYTES else _COMPILED_IN_HASTE


def asking_of(spark: "SparkSession", rows: int) -> contextlib.AbstractContextManager[None]:
    """Queries of so many rows within. What few rows are asked is not compiled: that takes longer than to answer it."""
    return holding(spark, _INTERPRETED if rows <= FEW_ROWS else {})
