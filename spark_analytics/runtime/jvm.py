"""The Java process that Spark runs in: whether it responds, and how it ends. The kernel may kill it any time (OOM)."""

import contextlib
import logging
import subprocess
from pathlib import Path
from typing import Any

from shipper.errors import Transient

_EXIT_SECONDS = 120
_OF_PY4J = "Exception while sending command."


class JavaEnded(Transient):
    """Java, in which Spark runs, ended before the work did."""

    def __init__(self, log: Path) -> None:
        super().__init__(
            "Java, in which Spark runs, ended before the work did",
            hint=f"`journalctl -k` shows whether the kernel ended it for lack of memory, {log} has its output; "
            "run this again (on a store, remove `.lock` first)",
        )


def is_responding() -> bool:
    """Whether Java answers a call; True if it was not started.

    A process that is being killed frees its memory before it closes its sockets, so an open connection proves nothing.
    """
    from py4j.protocol import Py4JError  # type: ignore[import-untyped] # noqa: PLC0415

    gateway = _gateway()
    if gateway is None:
        return True
    process = getattr(gateway, "proc", None)  # None if another process started Java
    if process is not None and process.poll() is not None:
        return False
    with contextlib.suppress(Py4JError, OSError, EOFError):
        gateway.jvm.java.lang.System.nanoTime()
        return True
    return False


def shut_down() -> None:
    """Waits until Java has ended, which may write files at its end; the next session starts another Java."""
    gateway = _gateway()
    process = getattr(gateway, "proc", None)
    if process is None:
        return
    gateway.shutdown()
    forget()
    process.stdin.close()
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(_EXIT_SECONDS)


def kill() -> None:
    """Kills the Java that this process started, and Spark with it."""
    from pyspark import SparkContext  # noqa: PLC0415
    from pyspark.sql import SparkSession  # noqa: PLC0415

    process = getattr(_gateway(), "proc", None)
    if process is None:
        return
    process.kill()
    process.wait()
    process.stdin.close()
    forget()
    SparkContext._active_spark_context = SparkSession._instantiatedSession = None  # noqa: SLF001


def is_stopped() -> bool:
    """Whether Java was stopped."""
    return _gateway() is None


def forget() -> None:
    """Makes the next session start another Java."""
    from pyspark import SparkContext  # noqa: PLC0415

    SparkContext._gateway = SparkContext._jvm = None  # noqa: SLF001 - there is no other way


def silence_py4j() -> None:
    """Stops py4j from logging a trace of failed calls: they are raised as errors as well."""
    root = logging.getLogger()
    if _is_not_py4j_noise not in root.filters:
        root.addFilter(_is_not_py4j_noise)


def _is_not_py4j_noise(record: logging.LogRecord) -> bool:
    return record.msg != _OF_PY4J


def _gateway() -> Any:
    from pyspark import SparkContext  # noqa: PLC0415

    return SparkContext._gateway  # noqa: SLF001 - there is no other way to it
