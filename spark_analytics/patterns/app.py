"""`fshipper report patterns FILE`: prints the pattern of every line of one file, without Spark, in bounded memory."""

import codecs
import shutil
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import BinaryIO

from shipper import line_times
from shipper.errors import UsageError
from spark_analytics.lines import log_formats
from spark_analytics.lines.log_formats import LogFormat
from spark_analytics.options import PatternsOptions
from spark_analytics.patterns.cluster import MAX_DISTINCT, REST, Pattern, cluster_texts
from spark_analytics.patterns.mask import pattern_text

MAX_BYTES = 64 * 1024
"""Maximum bytes of a line that are used: enough for `MAX_CHARACTERS` of any text and for the message of a JSON line."""

SPOOL_BYTES = 16 << 20
"""Bytes in memory of a stream that is not seekable, because it is read twice; a longer one goes to a temporary file."""

_MARKS = ((codecs.BOM_UTF8, "utf-8"), (codecs.BOM_UTF16_LE, "utf-16-le"), (codecs.BOM_UTF16_BE, "utf-16-be"))


def patterns_of(stream: BinaryIO) -> Iterator[Pattern]:
    """The pattern of each line of `stream`, in order; the last line may be unterminated."""
    with tempfile.SpooledTemporaryFile(SPOOL_BYTES) as spool:
        source = stream
        if not stream.seekable():
            shutil.copyfileobj(stream, spool)
            source = spool  # type: ignore[assignment]  # it has the methods that are used
        writing = log_formats.detect(list(islice(_lines(source), line_times.SAMPLE_LINES)))
        found = _found(_texts(source, writing))
        for text in _texts(source, writing):
            yield found.get(text, REST)


def _found(texts: Iterator[str]) -> dict[str, Pattern]:
    counts: Counter[str] = Counter()
    for text in texts:
        counts[text] += 1
        if len(counts) > 2 * MAX_DISTINCT:
            counts = Counter(dict(_most(counts)))
    most = _most(counts)
    return {text: pattern for (text, _), pattern in zip(most, cluster_texts(most), strict=True)}


def _most(counts: Counter[str]) -> list[tuple[str, int]]:
    return sorted(counts.items(), key=lambda pair: (-pair[1], pair[0]))[:MAX_DISTINCT]


def _texts(source: BinaryIO, writing: LogFormat) -> Iterator[str]:
    return (pattern_text(line, writing) for line in _lines(source))


def _lines(source: BinaryIO) -> Iterator[str]:
    """The first bytes of each line of `source` as text: UTF-8, or the encoding of a byte order mark."""
    source.seek(0)
    beginning = source.read(3)
    mark, encoding = next((pair for pair in _MARKS if beginning.startswith(pair[0])), (b"", "utf-8"))
    source.seek(len(mark))
    for line in _ended(source, "\n".encode(encoding)):
        yield line.decode(encoding, "replace")


def _ended(source: BinaryIO, newline: bytes) -> Iterator[bytes]:
    """The bytes before each `newline`, at most `MAX_BYTES`; a newline of two bytes is at an even offset."""
    kept, at_end = b"", True
    while piece := source.readline(MAX_BYTES):
        if len(newline) > 1 and piece.endswith(b"\n"):
            piece += source.read((-len(piece)) % 2)
        at_end = piece.endswith(newline)
        kept = (kept + piece)[:MAX_BYTES]
        if at_end:
            yield kept.removesuffix(newline)
            kept = b""
    if not at_end:
        yield kept


def patterns(options: PatternsOptions) -> None:
    """Print the pattern of each line of the file. Raises UsageError: it cannot be read."""
    with _opened(options.file) as stream:
        for pattern in patterns_of(stream):
            sys.stdout.buffer.write(f"{pattern.id}\t{pattern.template}\n".encode("utf-8", "replace"))
        sys.stdout.buffer.flush()


def _opened(file: Path) -> BinaryIO:
    if str(file) == "-":
        return sys.stdin.buffer
    try:
        return file.open("rb")
    except OSError as error:
        raise UsageError(f"cannot read {file}: {error.strerror}", hint="name a file that you may read") from None
