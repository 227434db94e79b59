"""Settings of a session that hold for a while: it may be somebody else's, and serves what comes behind.

How Java compiles, and what Spark has compiled, for so many bytes of log text.

How much memory there still is for this process: of the machine, and of the control groups that it is in.
"""

import contextlib
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
import os
from pathlib import Path


@contextlib.contextmanager
def holding(spark: "SparkSession", settings: Mapping[str, str]) -> Iterator[None]:
    """Within, `settings` hold; behind it what was set before. They are the session's, so nobody else asks meanwhile."""
    before = {name: str(spark.conf.get(name)) for name in settings}
    try:
        for name, value in settings.items():
            spark.conf.set(name, value)
        yield
    finally:
        for name, value in before.items():
            spark.conf.set(name, value)


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


UNTOLD_BYTES = 4 << 30
"""Where the system does not say."""

_KIB, _FIELDS = 1024, 3


def available_bytes(root: Path = Path("/")) -> int:
    """What may be taken without anybody being short of it; `root` has `proc` and `sys`, as Linux does (proc(5))."""
    left = [_of_machine(root)]
    for directory, names in _groups(root):
        with contextlib.suppress(OSError, ValueError, KeyError):
            most, used, cached = names
            goes = _numbers((directory / "memory.stat").read_text())[cached]  # when memory is short
            left.append(int((directory / most).read_text()) - int((directory / used).read_text()) + goes)
    return max(0, min(left))


def _of_machine(root: Path) -> int:
    try:
        return _numbers((root / "proc/meminfo").read_text())["MemAvailable:"] * _KIB
    except (OSError, ValueError, KeyError):
        return UNTOLD_BYTES


def _groups(root: Path) -> Iterator[tuple[Path, tuple[str, str, str]]]:
    """Each control group that this process is in, version 2 and 1, and what its files call the three numbers.

    The limit, what is used, and in `memory.stat` what of that is files. In a container outer groups are not there.
    """
    try:
        lines = [line.split(":", 2) for line in (root / "proc/self/cgroup").read_text().splitlines()]
    except (OSError, ValueError):  # a name may be of any bytes
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
    """The number behind the name on each line."""
    return {name: int(number) for name, number, *_ in map(str.split, text.splitlines())}
