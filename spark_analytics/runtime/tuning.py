"""Tunes a session to the size of the day, or of what a query may read: compilers of Java and Spark.

Compiling code that runs once takes longer than running it, so small days and small queries are interpreted. The memory
that is available is also found here.
"""

import contextlib
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@contextlib.contextmanager
def temporary_settings(spark: "SparkSession", settings: Mapping[str, str]) -> Iterator[None]:
    """Sets `settings` of the session within the block and restores them after it. Not for concurrent queries."""
    before = {name: str(spark.conf.get(name)) for name in settings}
    try:
        for name, value in settings.items():
            spark.conf.set(name, value)
        yield
    finally:
        for name, value in before.items():
            spark.conf.set(name, value)


SMALL_BYTES = 25_000_000
"""Bytes of log text up to which Spark generates and compiles no Java source."""

MIDDLING_BYTES = 200_000_000
"""Bytes of log text up to which only the C1 compiler of Java is used: C2 would cost more than it saves."""

LARGE_BYTES = 1_500_000_000
"""Bytes of log text up to which C2 does not compile the generated loop: that takes longer than all methods in it."""

MAX_INTERPRETED_ROWS = 50_000
"""Rows of a query up to which Spark compiles no Java source for it, however large the day is."""

COMPILER = Path(__file__).parents[1] / "templates" / "compiler.directives"
"""The methods that C2 does not compile."""

_SERIAL_GC_CORES = 2
"""Cores up to which the serial garbage collector is used; the parallel one needs twice the heap."""

_ANY_JAVA = (
    "-XX:-DontCompileHugeMethods",  # the loop of the scan is one method
    "-XX:MetaspaceSize=256m",  # the default causes three full collections
)
_C1_JAVA = (*_ANY_JAVA, "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC")
_C2_JAVA = (
    *_ANY_JAVA,
    "-XX:+UseSerialGC" if (os.cpu_count() or 1) <= _SERIAL_GC_CORES else "-XX:+UseParallelGC",
    "-XX:Tier4InvocationThreshold=50000",  # ten times the default: only code that runs for each line pays for C2
    "-XX:Tier4MinInvocationThreshold=6000",
    "-XX:Tier4CompileThreshold=150000",
    "-XX:Tier4BackEdgeThreshold=400000",
)
_C2_WITHOUT_LOOP_JAVA = (
    *_C2_JAVA,
    "-XX:+UnlockDiagnosticVMOptions",
    f'"-XX:CompilerDirectivesFile={COMPILER}"',
    "-XX:+DisplayVMOutputToStderr",  # it reports there that it has read the file
)
_COMPILED_WHOLE = {"spark.sql.codegen.hugeMethodLimit": "65535"}
_COMPILED_SMALL = _COMPILED_WHOLE | {"spark.sql.shuffle.partitions": "2"}
_INTERPRETED = {
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.sql.subexpressionElimination.enabled": "false",  # without generated code it is a cache that costs more
}
_NOT_COMPILED = _INTERPRETED | {"spark.sql.shuffle.partitions": "1"}


def java_and_spark_options(size_bytes: int | None) -> tuple[tuple[str, ...], dict[str, str]]:
    """Options of Java and settings of Spark for `size_bytes` of log text; None: the size is unknown."""
    if size_bytes is None or size_bytes > LARGE_BYTES:
        return _C2_JAVA, _COMPILED_WHOLE
    if size_bytes > MIDDLING_BYTES:  # Java cannot read it out of a zip
        return _C2_WITHOUT_LOOP_JAVA if COMPILER.is_file() else _C2_JAVA, _COMPILED_WHOLE
    return _C1_JAVA, _NOT_COMPILED if size_bytes <= SMALL_BYTES else _COMPILED_SMALL


def query_of(spark: "SparkSession", rows: int) -> contextlib.AbstractContextManager[None]:
    """For queries of `rows` rows within the block: small ones are interpreted, compiling them would take longer."""
    return temporary_settings(spark, _INTERPRETED if rows <= MAX_INTERPRETED_ROWS else {})


DEFAULT_AVAILABLE_BYTES = 4 << 30
"""Available memory that is assumed where the system does not report it."""

_KIB, _FIELDS = 1024, 3


def available_bytes(root: Path = Path("/")) -> int:
    """Bytes that this process may use, by the machine and by its control groups; `root` has `proc` and `sys`."""
    left = [DEFAULT_AVAILABLE_BYTES]
    with contextlib.suppress(OSError, ValueError, KeyError):
        left = [_numbers((root / "proc/meminfo").read_text())["MemAvailable:"] * _KIB]
    for directory, names in _groups(root):
        with contextlib.suppress(OSError, ValueError, KeyError):
            most, used, cached = names
            goes = _numbers((directory / "memory.stat").read_text())[cached]  # freed when memory is short
            left.append(int((directory / most).read_text()) - int((directory / used).read_text()) + goes)
    return max(0, min(left))


def _groups(root: Path) -> Iterator[tuple[Path, tuple[str, str, str]]]:
    """Each control group of this process, version 2 and 1, with the names of three numbers.

    These are the limit, the usage, and in `memory.stat` the page cache in it. A container does not see outer groups.
    """
    try:
        lines = [line.split(":", 2) for line in (root / "proc/self/cgroup").read_text().splitlines()]
    except (OSError, ValueError):  # a name may have any bytes
        return
    for _, controllers, path in (line for line in lines if len(line) == _FIELDS):
        if not controllers:
            top, names = root / "sys/fs/cgroup", ("memory.max", "memory.current", "inactive_file")
        elif "memory" in controllers.split(","):
            top = root / "sys/fs/cgroup/memory"
            names = ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file")
        else:
            continue
        below = Path(path.lstrip("/"))
        yield from ((top / group, names) for group in (below, *below.parents))


def _numbers(text: str) -> Mapping[str, int]:
    """The number after the name on each line."""
    return {name: int(number) for name, number, *_ in map(str.split, text.splitlines())}
