"""`fshipper produce --dry-run --show-redacted`: the lines that `redact` changes, as they would be shipped.

A line is never shown as it is in the file: the output may be kept or shared. Instead of each secret stands its kind
and its length.
"""

from collections import Counter
from typing import NamedTuple

from producer.charset import DETECTED, Charset, charset_of
from producer.transform.edits import Edits, Hidden
from shipper.settings import ProducerSettings

MAX_LINES = 200
"""Maximum lines that are shown, of all files."""
MAX_FILE_BYTES = 16 * 1024 * 1024
"""Maximum bytes that are read of each file."""
MAX_LINE_BYTES = 512
"""Maximum bytes that are shown of a line."""
_CHUNK_BYTES = 256 * 1024


class RedactedLine(NamedTuple):
    """A line that changes."""

    path: str
    line: int  #: its number among those that would be read, from 1
    rules: list[str]  #: that fired, in the order of the line
    text: str  #: of the line after the redaction, with the length of what each kind stands for


class Redacted(NamedTuple):
    """What `redact` changes in the files that would be read."""

    rules: dict[str, int]  #: how often each fired
    lines: list[RedactedLine]
    lines_left_out: int  #: that change, too, and are not shown
    unread: list[str]  #: files of which only the first `bytes_read` were read
    bytes_read: int


def redacted_lines(settings: ProducerSettings, files: list[tuple[str, int]]) -> Redacted:
    """What changes in `files`, each from an offset on. A file that cannot be read is left out: the report names it."""
    edits = Edits.of(redact=settings.redact, charset=settings.charset)
    rules, lines, left_out, unread = Counter[str](), list[RedactedLine](), 0, list[str]()
    for path, offset in files:
        number = 0
        for text in _chunks(path, offset, settings.charset or DETECTED, unread):
            before = 0
            for hidden in edits.hidden_lines(text):
                rules.update(hidden.rules)
                number += text.count(b"\n", before, hidden.begin)
                before = hidden.begin
                if len(lines) < MAX_LINES:
                    lines.append(RedactedLine(path, number + 1, list(hidden.rules), _shown(hidden)))
                else:
                    left_out += 1
            number += text.count(b"\n", before)
    return Redacted(dict(rules), lines, left_out, unread, MAX_FILE_BYTES)


def _shown(hidden: Hidden) -> str:
    text = hidden.text.rstrip(b"\r\n").decode("utf-8", "replace")
    printable = "".join(character if character.isprintable() else "\ufffd" for character in text.replace("\t", " "))
    return printable if len(printable) <= MAX_LINE_BYTES else f"{printable[:MAX_LINE_BYTES]}..."


def _chunks(path: str, offset: int, chosen: str, unread: list[str]) -> "list[bytes]":
    """Whole lines of a file as UTF-8, in chunks."""
    try:
        with open(path, "rb") as file:
            charset = charset_of(chosen, file.read(4))
            file.seek(offset)
            data = file.read(MAX_FILE_BYTES)
            if file.read(1):
                unread.append(path)
    except OSError:
        return []
    if charset is not Charset.BYTES:
        data = charset.text(data, at=offset)
    chunks, begin = list[bytes](), 0
    while begin < len(data):
        end = data.rfind(b"\n", begin, begin + _CHUNK_BYTES) + 1 or data.find(b"\n", begin) + 1 or len(data)
        chunks.append(data[begin:end])
        begin = end
    return chunks
