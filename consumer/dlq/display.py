"""Dead letters as text: a table, one letter in full, one line. For programs: one JSON object per line."""

import datetime as dt
import json
from collections.abc import Iterator, Sequence
from typing import Any

from rich.text import Text

from consumer.dlq.message import Advisory, Letter, dump, printable
from shipper.table_printer import fitted, standard_output
from shipper.units import format_bytes

COLUMNS = ("number", "when", "host", "stream", "bytes", "reason")
RIGHT = frozenset({"number", "bytes"})
REASON_CHARACTERS = 100


def table(letters: Sequence[Letter]) -> Iterator[str]:
    """The lines of a table, below a line of names."""
    rows = [list(map(Text, _cells(each))) for each in letters]
    return (line.plain for line in fitted(standard_output(), COLUMNS, rows, numbers=RIGHT, wrapped="reason"))


def advisory_line(each: Advisory) -> str:
    """A message that the server gave up delivering."""
    why = f"the server gave up delivering {each.stream} {each.sequence} to {each.consumer}: {each.why}"
    return f"{when(each.time_ns)} {printable(why)}"


def json_line(content: dict[str, Any]) -> str:
    """One object for programs; what is no UTF-8 stays escaped."""
    return json.dumps(content)


def in_full(letter: Letter, payload: bytes) -> Iterator[str]:
    """Everything of a letter, line by line, safe for a terminal."""
    yield f"number    {letter.sequence}"
    yield f"when      {when(letter.time_ns)}"
    yield f"host      {printable(letter.host)}"
    yield f"from      {printable(letter.stream)} {printable(letter.origin_sequence)}"
    yield f"reason    {printable(letter.reason)}"
    cut = f", the beginning of {letter.cut_from}" if letter.cut_from else ""
    yield f"payload   {len(payload)} bytes{cut}"
    for name, value in letter.headers.items():
        yield f"header    {printable(name)}: {printable(value)}"
    yield from dump(payload)


def requeued_line(letter: Letter, octets: int) -> str:
    """The result for a letter whose text was sent again."""
    if not octets:
        return f"left {letter.sequence}: it holds no bytes; fshipper dlq drop {letter.sequence} removes it"
    cut = f" (only the beginning was kept of the message's {letter.cut_from} bytes)" if letter.cut_from else ""
    return f"requeued {letter.sequence}: {octets} bytes of text of {printable(letter.host)}{cut}"


def dropped_line(letter: Letter) -> str:
    """The line about a dropped letter."""
    host, reason = printable(letter.host), printable(letter.reason)
    return f"dropped {letter.sequence}: {when(letter.time_ns)} {host} {letter.stream} {letter.bytes} bytes: {reason}"


def when(time_ns: int) -> str:
    """A moment in UTC."""
    return dt.datetime.fromtimestamp(time_ns / 1e9, tz=dt.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _cells(each: Letter) -> tuple[str, ...]:
    reason, size = printable(each.reason), format_bytes(each.bytes)
    return (
        str(each.sequence),
        when(each.time_ns),
        printable(each.host),
        printable(each.stream),
        f"{size} of {format_bytes(each.cut_from)}" if each.cut_from else size,
        reason if len(reason) <= REASON_CHARACTERS else reason[: REASON_CHARACTERS - 3] + "...",
    )
