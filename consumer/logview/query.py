"""Selection of hosts and files by globs, of a span of time, and of lines by their text. Pure."""

import datetime as dt
import fnmatch
import functools
import itertools
import re
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from consumer.event_times import AHEAD_SECONDS, LATE_SECONDS, TimeOrigin
from consumer.logview.prefilter import Literals, candidates
from shipper import zones
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


_GLOB_SIGNS = frozenset("*?[")


@dataclass(frozen=True, slots=True)
class Globs:
    """Patterns as of a shell, over the whole of a name: `*` and `?` take dots and slashes, too. None: any name."""

    patterns: tuple[str, ...] = ()

    def takes(self, name: str) -> bool:
        """Whether one of the patterns is `name`."""
        return not self.patterns or _expression(self.patterns).fullmatch(name) is not None


class Allowance(NamedTuple):
    """How far the time in a line and its stored time are apart at most, ns, where nothing else is known of its file."""

    late_ns: int = LATE_SECONDS * NANOSECONDS  #: so long after the time in it a line is stored
    ahead_ns: int = AHEAD_SECONDS * NANOSECONDS  #: so long before it


USUAL = Allowance()


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """Which lines are meant, by where they come from and by their times."""

    hosts: Globs = Globs()
    files: Globs = Globs()
    since_ns: int = 0  #: then or later, UTC nanoseconds; 0: from the beginning
    until_ns: int | None = None  #: before; None: to the end
    allowance: Allowance | None = None  #: by the times in the lines; None: by the times of storing

    def stored_span(self, late_seconds: int = 0, ahead_seconds: int = 0) -> tuple[int, int | None]:
        """From when on and until when lines may have been stored that are meant, ns; the archive knows seconds.

        Of a file whose lines are so late or so far ahead, where that is more than usual.
        """
        late_ns, ahead_ns = self.allowance or (0, 0)
        if self.allowance is not None:
            late_ns, ahead_ns = late_ns + late_seconds * NANOSECONDS, ahead_ns + ahead_seconds * NANOSECONDS
        since_ns = max(0, self.since_ns - ahead_ns)
        since_ns -= since_ns % NANOSECONDS
        return since_ns, None if self.until_ns is None else self.until_ns + late_ns

    def has_file(self, path: str) -> bool:
        """Whether a file is meant: a pattern without a slash may also be the last part of its path."""
        if self.files.takes(path):
            return True
        short = tuple(each for each in self.files.patterns if "/" not in each)
        return bool(short) and Globs(short).takes(path.rpartition("/")[2])

    def subjects(self, base: str) -> list[str]:
        """The filters that take every subject below `base` (`logs.p3`) of a host that may be meant.

        The server compares whole tokens, so that `web*` is compared by the receiver.
        """
        found = {f"{base}.{_tokens(each)}" for each in self.hosts.patterns} or {f"{base}.>"}
        wide = [each for each in found if each.endswith(".>")]  # takes every subject that begins as it does
        return sorted(each for each in found if not any(each.startswith(one[:-1]) and each != one for one in wide))


def globs_of_hosts(patterns: Iterable[str]) -> Globs:
    """Patterns of hosts, which have lower case on the bus. Raises UsageError: one can be no host."""
    lower = tuple(each.strip().lower().rstrip(".") for each in patterns)
    for each in lower:
        if not each or re.search(r"[\s/>]", each):
            raise UsageError(f"{each!r} is no host", hint="name hosts as web1.example.net, 'web*' or '*.example.net'")
    return Globs(() if "*" in lower else lower)


def _tokens(pattern: str) -> str:
    """A host's pattern in the server's words, as narrow as these can be."""
    tokens = pattern.split(".")
    whole = list(itertools.takewhile(lambda token: not _GLOB_SIGNS & set(token), tokens))
    return pattern if len(whole) == len(tokens) else ".".join([*whole, ">"])


@functools.lru_cache(maxsize=64)
def _expression(patterns: tuple[str, ...]) -> re.Pattern[str]:
    return re.compile("|".join(map(fnmatch.translate, patterns)))


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
    found = zones.load(zones.of_system() if name == "local" else name)
    if found is None:
        raise UsageError(f"--timezone {name!r} is no zone", hint="write Europe/Berlin, UTC, local or host")
    return found


def allowance_of(late: str) -> Allowance:
    """How late lines may be, of `--late`; empty: the usual. Raises UsageError."""
    seconds = duration_seconds(late) if late else None
    if late and seconds is None:
        raise UsageError(f"--late {late!r} is not a duration", hint="write 10m, 1h or 1d")
    return USUAL if seconds is None else USUAL._replace(late_ns=round(seconds * NANOSECONDS))
