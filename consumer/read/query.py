"""Selection of hosts and files by globs, of a span of time, and of lines by their text. Pure."""

import datetime as dt
import re
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from consumer.archive.event_times import TimeOrigin
from consumer.archive.selection import Allowance, Globs, Wanted, globs_of_hosts
from consumer.read.prefilter import Literals, candidates
from shipper import zone_names, zones
from shipper.errors import UsageError
from shipper.layout import NANOSECONDS
from shipper.linear_regex import required_literals
from shipper.moments import duration_seconds, moment


class Piece(NamedTuple):
    """Whole lines, except where a line is longer than a block, or its file ends without a newline."""

    time_ns: int  #: when JetStream stored it; by event the time in the line
    host: str
    file: str
    source: str  #: the generation of the file; empty: not known, as of plain messages
    offset: int | None  #: of the first byte in the source; None: not known
    text: bytes
    stored_ns: tuple[int, int] | None = None  #: of archived text: between which times it was stored
    time_from: TimeOrigin = TimeOrigin.STORED
    zone: str = ""  #: IANA name of the zone of its host; empty: UTC

    def part(self, start: int, end: int) -> "Piece":
        """Bytes `start` to `end` of the text."""
        offset = None if self.offset is None else self.offset + start
        return self._replace(offset=offset, text=self.text[start:end])

    def lines(self) -> Iterator["Piece"]:
        """A piece for each line."""
        start = 0
        while start < len(self.text):
            end = self.text.find(b"\n", start) + 1 or len(self.text)
            yield self.part(start, end)
            start = end


class Last:
    """The last lines of all that comes by: at most `count`, and the rest of the piece that the oldest is of."""

    def __init__(self, count: int) -> None:
        self._count = count
        self._held: deque[tuple[Piece, int]] = deque()
        self._lines = 0

    @property
    def full(self) -> bool:
        """Whether there were that many lines."""
        return self._lines >= self._count

    def add(self, piece: Piece) -> None:
        """Take what follows."""
        if not self._count:
            return
        lines = piece.text.count(b"\n") + (not piece.text.endswith(b"\n"))
        self._held.append((piece, lines))
        self._lines += lines
        while self._lines - self._held[0][1] >= self._count:
            self._lines -= self._held.popleft()[1]

    def pieces(self) -> Iterator[Piece]:
        """The last lines, oldest first."""
        surplus = max(0, self._lines - self._count)
        for piece, _ in self._held:
            start = 0
            for _ in range(surplus):
                start = piece.text.index(b"\n", start) + 1
            yield piece.part(start, len(piece.text))
            surplus = 0


USUAL = Allowance()


class All:
    """Takes every line."""

    def take(self, piece: Piece) -> Iterator[Piece]:
        """The piece as it is."""
        if piece.text:
            yield piece


@dataclass(frozen=True, slots=True)
class Matching:
    """Takes lines that hold a match of one of some expressions, or those that hold none."""

    expression: re.Pattern[str]
    matching: bool
    literals: Literals | None = None  #: every match contains one of them; only lines with one are compared

    def take(self, piece: Piece) -> Iterator[Piece]:
        """Those of its lines that are meant, neighbours together; bytes that are not UTF-8 match as surrogates."""
        return self._found(piece, self.literals) if self.literals is not None else self._compared(piece)

    def _found(self, piece: Piece, literals: Literals) -> Iterator[Piece]:
        start = end = 0
        for begin, stop in candidates(literals.find, piece.text, 0, len(piece.text)):
            if self.expression.search(_text(piece.text[begin:stop].removesuffix(b"\n"))) is None:
                continue
            if start < end < begin:
                yield piece.part(start, end)
            if begin > end or start == end:
                start = begin
            end = stop
        if start < end:
            yield piece.part(start, end)

    def _compared(self, piece: Piece) -> Iterator[Piece]:
        start = at = 0
        for line in piece.text.split(b"\n"):  # splitlines would part them at a lone CR, too
            end = min(at + len(line) + 1, len(piece.text))
            if at < end and (self.expression.search(_text(line)) is not None) is not self.matching:
                if start < at:
                    yield piece.part(start, at)
                start = end
            at = end
        if start < at:
            yield piece.part(start, at)


Sieve = All | Matching


def sieve(patterns: Sequence[str], *, flags: int, matching: bool) -> Sieve:
    """What takes the lines that match one of `patterns`. Raises UsageError: one is no regular expression."""
    if not patterns:
        return All()
    try:
        for each in patterns:
            re.compile(each, flags)
        whole = "|".join(f"(?:{each})" for each in patterns)
        return Matching(re.compile(whole, flags), matching, _literals(whole, flags) if matching else None)
    except (re.error, OverflowError, RecursionError) as error:
        raise UsageError(
            f"--grep: {error}", hint=r"write \ before a character that stands for itself, as in \( or \["
        ) from None


def _literals(expression: str, flags: int) -> Literals | None:
    found = required_literals(expression, flags)
    literals = Literals(*found).with_unicode_twins() if found else None
    return literals if literals is not None and literals.is_useful else None


def _text(line: bytes) -> str:
    return line.removesuffix(b"\r").decode("utf-8", "surrogateescape")


def wanted_of(
    hosts: Iterable[str] | None, files: Iterable[str] | None, *, since: str, until: str, now_ns: int,
    zone: dt.tzinfo = dt.UTC, allowance: Allowance | None = None,
) -> Wanted:  # fmt: skip
    """The lines that the options of `tail`, `replay` and `search` select. Raises UsageError: an option is not valid."""
    since_ns = moment(since, now_ns, zone) if since else 0
    wanted = Wanted(
        hosts=globs_of_hosts(hosts or ()),
        files=Globs(tuple(files or ())),
        since_ns=since_ns,
        until_ns=moment(until, now_ns, zone, after_ns=since_ns) if until else None,
        allowance=allowance,
    )
    if wanted.until_ns is not None and wanted.until_ns <= wanted.since_ns:
        raise UsageError("--until is not after --since", hint="10m means ten minutes before now")
    return wanted


def zone_of(name: str) -> dt.tzinfo | None:
    """The zone in which times are shown; None: that of each host. Raises UsageError."""
    if name == "host":
        return None
    return zone_names.chosen((zones.of_system() or "UTC") if name == "local" else name, "local", "host")


def allowance_of(late: str) -> Allowance:
    """How late lines may be, of `--late`; empty: the usual. Raises UsageError."""
    seconds = duration_seconds(late) if late else None
    if late and seconds is None:
        raise UsageError(f"--late {late!r} is not a duration", hint="write 10m, 1h or 1d")
    return USUAL if seconds is None else USUAL._replace(late_ns=round(seconds * NANOSECONDS))
