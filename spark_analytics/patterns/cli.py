"""`fshipper report patterns FILE`: the pattern of every line of one file, without Spark."""

import sys
from pathlib import Path
from typing import Annotated, BinaryIO

import typer

from shipper.errors import UsageError
from spark_analytics.patterns import reading


def patterns(
    file: Annotated[
        Path, typer.Argument(help="A log file, in any encoding; - for standard input.", show_default=False)
    ],
) -> None:
    """Print the pattern of each line of FILE: its id, a tab, its template.

    The patterns are those that a report finds in the same lines, where it knows none from the days before.
    """
    with _opened(file) as stream:
        for pattern in reading.patterns_of(stream):
            sys.stdout.buffer.write(f"{pattern.id}\t{pattern.template}\n".encode("utf-8", "replace"))
        sys.stdout.buffer.flush()


def _opened(file: Path) -> BinaryIO:
    if str(file) == "-":
        return sys.stdin.buffer
    try:
        return file.open("rb")
    except OSError as error:
        raise UsageError(f"cannot read {file}: {error.strerror}", hint="name a file that you may read") from None
