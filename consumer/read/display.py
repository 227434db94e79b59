"""Pieces as bytes for a terminal, a pipe or a program."""

import datetime as dt
import enum
import json
import os
import re
import zlib
from dataclasses import dataclass
from json.encoder import encode_basestring_ascii
from typing import Any

from consumer.archive.event_times import TimeOf, TimeOrigin
from consumer.read.piece import Piece
from shipper import zone_names
from shipper.layout import NANOSECONDS

COLOURS = (31, 32, 33, 34, 35, 36, 91, 92, 93, 94, 95, 96)
"""Of the hosts: those of a terminal's own palette that are neither its text nor its background."""
VERSION = 1
"""Version of the JSON. New fields keep the number; changed or removed fields change it."""
STDOUT = 1
_PLAIN = b"\x1b[0m"
_DIM = b"\x1b[2m"
_HARMLESS = re.compile(rb"[\t\n -~]*")


class Form(enum.Enum):
    """What stands for a line."""

    NAMED = "named"  #: host and file before it
    TIMED = "timed"  #: its time, host and file before it
    RAW = "raw"  #: the line as it was
    JSON = "json"  #: an object a line


class Screen(enum.Enum):
    """Who reads it."""

    PROGRAM = "program"  #: every byte of a line as it was
    TERMINAL = "terminal"  #: control characters are escaped: nothing that a line holds may be a command
    COLOURED = "coloured"  #: the same, with a colour for each host


def screen_for(color: bool | None) -> Screen:
    """Who reads standard output, if a person does. `color`: whether it has colours, None on terminals only."""
    plain = "NO_COLOR" in os.environ or os.environ.get("TERM") == "dumb"
    return Screen.COLOURED if color or (color is None and os.isatty(STDOUT) and not plain) else Screen.TERMINAL


@dataclass(frozen=True, slots=True)
class Times:
    """How times are shown: which one of a line, and in which zone to people."""

    by: TimeOf = TimeOf.STORED
    zone: dt.tzinfo | None = dt.UTC  #: None: that of the host of each line

    def of(self, piece: Piece) -> str:
        """The time of a line for people, with a mark that shows where it is from."""
        zone = self.zone or zone_names.load(piece.zone) or dt.UTC
        if piece.time_from is TimeOrigin.ESTIMATED and piece.stored_ns:
            return shown_about(zone, *piece.stored_ns, piece.time_ns)
        if piece.stored_ns is None and zone is dt.UTC:
            return shown_time(piece.time_ns)
        return (MARKS[piece.time_from] if self.by is TimeOf.EVENT else "") + shown_in(zone, piece.time_ns)

    def fields(self, piece: Piece) -> dict[str, Any]:
        """The times of a line for programs, besides `time`, the one of storing."""
        first_ns, last_ns = piece.stored_ns or (piece.time_ns, piece.time_ns)
        stored_from = (TimeOrigin.STORED if first_ns == last_ns else TimeOrigin.ESTIMATED).value
        fields: dict[str, Any] = {"time_from": stored_from}
        if self.by is TimeOf.EVENT:
            event_time = shown_in(dt.UTC, piece.time_ns)
            fields = {"event_time": event_time, "time_from": piece.time_from.value, "stored_from": stored_from}
        if first_ns != last_ns:
            fields["stored_between"] = [shown_in(dt.UTC, first_ns), shown_in(dt.UTC, last_ns)]
        return fields


class Printer:
    """Writes one piece after the other. Knows whether the last line is still open."""

    def __init__(self, form: Form, screen: Screen, times: Times = Times()) -> None:
        self._form = form
        self._times = times
        self._screen = screen
        self._open: tuple[str, str, str, int | None] | None = None  # host, file, source and offset that go on with it

    def render(self, piece: Piece) -> bytes:
        """What is to be written for `piece`."""
        if self._form is Form.JSON:
            return _objects(piece, self._times).encode()
        begins = (piece.host, piece.file, piece.source, piece.offset)
        goes_on, was_open = self._open == begins, self._open is not None
        text = piece.text if self._screen is Screen.PROGRAM else harmless(piece.text)
        if self._form is not Form.RAW:
            prefix = self._prefix(piece)
            body, newline = (text[:-1], b"\n") if text.endswith(b"\n") else (text, b"")
            text = b"".join((b"" if goes_on else prefix, body.replace(b"\n", b"\n" + prefix), newline))
        is_open = not piece.text.endswith(b"\n")
        end = None if piece.offset is None else piece.offset + len(piece.text)
        self._open = (piece.host, piece.file, piece.source, end) if is_open else None
        return b"\n" + text if was_open and not goes_on else text

    def close(self) -> bytes:
        """What is to be written at the end."""
        return b"\n" if self._open is not None and self._form is not Form.RAW else b""

    def _prefix(self, piece: Piece) -> bytes:
        when = f"{self._times.of(piece)} ".encode() if self._form is Form.TIMED else b""
        host, file = printable(piece.host).encode(), printable(piece.file).encode()
        if self._screen is not Screen.COLOURED:
            return b"%s%s %s: " % (when, host, file)
        return b"%s%s\x1b[%dm%s%s %s%s:%s " % (_DIM, when, colour(piece.host), host, _PLAIN, _DIM, file, _PLAIN)


def colour(host: str) -> int:
    """The colour of a host, the same everywhere and always."""
    return COLOURS[zlib.crc32(host.encode("utf-8", "surrogateescape")) % len(COLOURS)]


def harmless(text: bytes) -> bytes:
    """Text as a terminal may get it: what it might take for a command, or not show, is escaped."""
    if _HARMLESS.fullmatch(text):
        return text
    lines = decoded(text.replace(b"\r\n", b"\n")).split("\n")
    return "\n".join(map(printable, lines)).encode()


def decoded(line: bytes) -> str:
    """A line as text, with bytes that are no UTF-8 as lone surrogates."""
    return line.decode("utf-8", "surrogateescape")


def printable(text: str) -> str:
    r"""`text` with `\x1b` for an escape, and so on, tabs as they are, and bytes that are no UTF-8 as `\xff`."""
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() or char == "\t" else _escape(char) for char in text)


def shown_time(time_ns: int) -> str:
    """RFC 3339, UTC, with milliseconds."""
    when = dt.datetime.fromtimestamp(time_ns // NANOSECONDS, tz=dt.UTC)
    return f"{when:%Y-%m-%dT%H:%M:%S}.{time_ns % NANOSECONDS // 1_000_000:03d}Z"


MARKS = {TimeOrigin.LINE: "", TimeOrigin.PREVIOUS: "^", TimeOrigin.STORED: "*", TimeOrigin.ESTIMATED: "~"}
"""Before a time by event: where it is from."""
_UNITS = ((1, "%Y-%m-%dT%H:%M:%S"), (60, "%Y-%m-%dT%H:%M"), (3600, "%Y-%m-%dT%H"))


def shown_in(zone: dt.tzinfo, time_ns: int) -> str:
    """A time with its offset from UTC, RFC 3339, and with milliseconds if it is no whole second."""
    when = dt.datetime.fromtimestamp(time_ns // NANOSECONDS, tz=zone)
    fraction = f".{time_ns % NANOSECONDS // 1_000_000:03d}" if time_ns % NANOSECONDS else ""
    return f"{when:%Y-%m-%dT%H:%M:%S}{fraction}{_offset(when)}"


def shown_about(zone: dt.tzinfo, first_ns: int, last_ns: int, time_ns: int) -> str:
    """An estimate between two times, no finer than it is known: to the second, minute, hour or day, with `~`."""
    when = dt.datetime.fromtimestamp(time_ns // NANOSECONDS, tz=zone)
    form = next((form for unit, form in _UNITS if last_ns - first_ns < unit * NANOSECONDS), "")
    return f"~{when.strftime(form)}{_offset(when)}" if form else f"~{when:%Y-%m-%d}"


def _offset(when: dt.datetime) -> str:
    return "Z" if when.tzinfo is dt.UTC else when.isoformat(timespec="seconds")[19:]


def _escape(char: str) -> str:
    code = ord(char)
    if 0xDC80 <= code <= 0xDCFF:  # noqa: PLR2004 - what `surrogateescape` makes of a byte
        code -= 0xDC00
    return f"\\x{code:02x}" if code <= 0xFF else f"\\u{code:04x}" if code <= 0xFFFF else f"\\U{code:08x}"  # noqa: PLR2004


def _objects(piece: Piece, times: Times) -> str:
    """A JSON object for each line. What is the same for all is written once: a tenth of the time."""
    time = shown_in(dt.UTC, piece.stored_ns[0]) if piece.stored_ns else shown_time(piece.time_ns)
    same = {"v": VERSION, "host": piece.host, "file": piece.file, "time": time, **times.fields(piece)}
    head = json.dumps(same, separators=(",", ":"))[:-1]
    body = piece.text.removesuffix(b"\n")
    objects, offset = [], piece.offset
    for line in body.split(b"\n"):
        text = encode_basestring_ascii(decoded(line))
        objects.append(f'{head},"offset":{"null" if offset is None else offset},"line":{text}}}\n')
        offset = None if offset is None else offset + len(line) + 1
    return "".join(objects)
