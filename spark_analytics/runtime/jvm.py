"""The one Java of this process: whether it answers, and its end. Where memory is short the kernel ends it any time."""

import contextlib
import logging
import subprocess
from pathlib import Path
from typing import Any

from shipper.errors import Transient

_LAST_WORDS_SECONDS = 120
_OF_PY4J = "Exception while sending command."


class JavaEnded(Transient):
    """Java, in which Spark runs, ended before the work did."""

    def __init__(self, log: Path) -> None:
        super().__init__(
            "Java, in which Spark runs, ended before the work did",
            hint=f"`journalctl -k` tells whether the kernel ended it for want of memory, {log} what it said itself; "
            "run this again (on a store, remove `.lock` first)",
        )


def answers() -> bool:
    """Whether Java answers a question; also true where none was started, which nobody can have ended.

    A process that is being ended gives its memory back before it closes its sockets: to reach it says nothing.
    """
    from py4j.protocol import Py4JError  # type: ignore[import-untyped] # noqa: PLC0415

    gateway = _gateway()
    if gateway is None:
        return True
    process = getattr(gateway, "proc", None)  # of another's Java there is none
    if process is not None and process.poll() is not None:
        return False
    try:
        gateway.jvm.java.lang.System.nanoTime()
    except (Py4JError, OSError, EOFError):
        return False
    return True


def end() -> None:
    """Waits until Java has ended and has written what it was to write then; a next session starts another one."""
    gateway = _gateway()
    process = getattr(gateway, "proc", None)
    if process is None:
        return
    gateway.shutdown()
    forget()
    process.stdin.close()
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(_LAST_WORDS_SECONDS)


def kill() -> None:
    """Ends the Java that this process started, if it runs, and with it Spark, without asking either."""
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


def is_gone() -> bool:
    """Whether there is no Java any more for what was made with one."""
    return _gateway() is None


def forget() -> None:
    """The next session starts another Java."""
    from pyspark import SparkContext  # noqa: PLC0415

    SparkContext._gateway = SparkContext._jvm = None  # noqa: SLF001 - there is no other way


def quiet() -> None:
    """What py4j could not ask comes as an error; it writes it to stderr as well, with the trace."""
    root = logging.getLogger()
    if _is_news not in root.filters:
        root.addFilter(_is_news)


def _is_news(record: logging.LogRecord) -> bool:
    return record.msg != _OF_PY4J


def _gateway() -> Any:
    from pyspark import SparkContext  # noqa: PLC0415

    return SparkContext._gateway  # noqa: SLF001 - there is no other way to it
