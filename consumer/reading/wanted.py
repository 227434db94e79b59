"""What is asked for: hosts and files by globs, a span of time. Pure."""

import datetime as dt
import fnmatch
import functools
import re
from collections.abc import Iterable
from dataclasses import dataclass

from shipper.errors import UsageError
from shipper.layout import NANOSECONDS
from shipper.units import parse_seconds

_GLOB_SIGNS = frozenset("*?[")
_FRACTION = re.compile(r"\.(\d+)")


@dataclass(frozen=True, slots=True)
class Globs:
    """Patterns as of a shell, over the whole of a name: `*` and `?` take dots and slashes, too. None: any name."""

    patterns: tuple[str, ...] = ()

    def takes(self, name: str) -> bool:
        """Whether one of the patterns is `name`."""
        return not self.patterns or _expression(self.patterns).fullmatch(name) is not None


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """Which lines are meant, by where they come from and when they were stored."""

    hosts: Globs = Globs()
    files: Globs = Globs()
    since_ns: int = 0  #: stored then or later, UTC nanoseconds; 0: from the beginning
    until_ns: int | None = None  #: stored before; None: to the end

    def has_file(self, path: str) -> bool:
        """Whether a file is meant: a pattern without a slash may also be the last part of its path."""
        if self.files.takes(path):
            return True
        short = tuple(each for each in self.files.patterns if "/" not in each)
        return bool(short) and Globs(short).takes(path.rpartition("/")[2])

    def subjects(self, base: str) -> list[str]:
        """The filters that take every subject below `base` (`logs.p3`) of a host that may be meant.

        The server compares whole tokens, so that `web*` is left to whoever receives.
        """
        found = {f"{base}.{_tokens(each)}" for each in self.hosts.patterns} or {f"{base}.>"}
        return sorted(each for each in found if not any(_covers(other, each) for other in found if other != each))


def globs_of_hosts(patterns: Iterable[str]) -> Globs:
    """Patterns of hosts, which have lower case on the bus. Raises UsageError: one can be no host."""
    lower = tuple(each.strip().lower().rstrip(".") for each in patterns)
    for each in lower:
        if not each or re.search(r"[\s/>]", each):
            raise UsageError(f"{each!r} is no host", hint="name hosts as web1.example.net, 'web*' or '*.example.net'")
    return Globs(() if "*" in lower else lower)


def moment(text: str, now_ns: int) -> int:
    """The time that `text` means, in nanoseconds: a duration before `now_ns` (`10m`), or RFC 3339, or a day (UTC).

    Raises:
        UsageError: it is neither.
    """
    try:
        return max(1, now_ns - round(parse_seconds(text) * NANOSECONDS))
    except ValueError:
        pass
    try:
        return _nanoseconds(text.strip())
    except ValueError:
        raise UsageError(
            f"{text!r} is no moment", hint="write 10m, 1h30m, 2026-11-20 or 2026-11-20T10:00:00Z (UTC without a zone)"
        ) from None


def _nanoseconds(text: str) -> int:
    fraction = _FRACTION.search(text)
    when = dt.datetime.fromisoformat(_FRACTION.sub("", text, count=1).upper())
    whole = round((when if when.tzinfo else when.replace(tzinfo=dt.UTC)).timestamp()) * NANOSECONDS
    return whole + (int(fraction[1][:9].ljust(9, "0")) if fraction else 0)


def _tokens(pattern: str) -> str:
    """A host's pattern in the server's words, as narrow as these can be."""
    tokens = pattern.split(".")
    whole = [token for token in tokens if not _GLOB_SIGNS & set(token)]
    if len(whole) == len(tokens):
        return pattern
    first = next(index for index, token in enumerate(tokens) if _GLOB_SIGNS & set(token))
    return ".".join([*tokens[:first], ">"])


def _covers(wide: str, narrow: str) -> bool:
    """Whether the filter `wide` takes every subject that `narrow` takes."""
    return wide.endswith(".>") and narrow.startswith(wide[:-1])


@functools.lru_cache(maxsize=64)
def _expression(patterns: tuple[str, ...]) -> re.Pattern[str]:
    return re.compile("|".join(map(fnmatch.translate, patterns)))
