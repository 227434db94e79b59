"""Which hosts, files and times are read: patterns of names, and a range of days."""

import datetime as dt
import fnmatch
import functools
import itertools
import re
import time
from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

from consumer.archive.event_times import AHEAD_SECONDS, LATE_SECONDS, TimeOf
from consumer.archive.parts import ROUNDED_NS, Part
from shipper import zone_names, zones
from shipper.errors import UsageError
from shipper.layout import NANOSECONDS
from shipper.moments import duration_seconds, moment

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

    def stored_span(self, part: Part | None = None) -> tuple[int, int | None]:
        """From when on and until when lines may have been stored that are meant, ns: those of a part, or usual ones."""
        late_ns, ahead_ns = self.allowance or (0, 0)
        if self.allowance is not None and part is not None:
            late_ns, ahead_ns = late_ns + part.late * NANOSECONDS, ahead_ns + part.ahead * NANOSECONDS
        since_ns = max(0, self.since_ns - ahead_ns)
        since_ns -= since_ns % NANOSECONDS
        return since_ns, None if self.until_ns is None else self.until_ns + late_ns

    def may_be_in(self, part: Part) -> bool:
        """Whether some of a part may be of the requested time."""
        since_ns, until_ns = self.stored_span(part)
        return (until_ns is None or part.first_ns < until_ns) and part.last_ns + ROUNDED_NS >= since_ns

    def takes(self, host: str, file: str) -> bool:
        """Whether a file of a host is meant."""
        return self.hosts.takes(host) and self.has_file(file)

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


def wanted_of(
    hosts: Iterable[str] | None,
    files: Iterable[str] | None,
    *,
    since: str,
    until: str,
    by: TimeOf,
    late: str,
    zone: dt.tzinfo | None,
) -> Wanted:
    """The lines that the options of `tail`, `replay` and `search` select. Raises UsageError: an option is not valid.

    `late`: how late lines may be by event, empty: as usual. `zone` as of `zone_of`.
    """
    names, now_ns, zone = globs_of_hosts(hosts or ()), time.time_ns(), zone or dt.UTC
    since_ns = moment(since, now_ns, zone) if since else 0
    until_ns = moment(until, now_ns, zone, after_ns=since_ns) if until else None
    seconds = duration_seconds(late) if late else None
    if late and seconds is None:
        raise UsageError(f"--late {late!r} is not a duration", hint="write 10m, 1h or 1d")
    allowance = USUAL if seconds is None else USUAL._replace(late_ns=round(seconds * NANOSECONDS))
    if until_ns is not None and until_ns <= since_ns:
        raise UsageError("--until is not after --since", hint="10m means ten minutes before now")
    return Wanted(
        hosts=names,
        files=Globs(tuple(files or ())),
        since_ns=since_ns,
        until_ns=until_ns,
        allowance=allowance if by is TimeOf.EVENT else None,
    )


def zone_of(name: str) -> dt.tzinfo | None:
    """The zone in which times are shown. None means that of each host. Raises UsageError."""
    if name == "host":
        return None
    return zone_names.chosen((zones.of_system() or "UTC") if name == "local" else name, "local", "host")


def _tokens(pattern: str) -> str:
    """A host's pattern in the server's words, as narrow as these can be."""
    tokens = pattern.split(".")
    whole = list(itertools.takewhile(lambda token: not _GLOB_SIGNS & set(token), tokens))
    return pattern if len(whole) == len(tokens) else ".".join([*whole, ">"])


@functools.lru_cache(maxsize=64)
def _expression(patterns: tuple[str, ...]) -> re.Pattern[str]:
    return re.compile("|".join(map(fnmatch.translate, patterns)))
