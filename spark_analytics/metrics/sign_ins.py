"""Table `auth_daily`: authentication events of a day, and failed passwords before an accepted one. Pure.

A public key is not guessed, so only passwords are paired: `password` and `keyboard-interactive` of the same user and
the same address, on any host. Failures belong to the next acceptance of that user and address: one mistyped password
before each of ten sign-ins is ten times one failure.
"""

import bisect
import datetime as dt
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from spark_analytics.metrics.statistics import grouped
from spark_analytics.tables.day_tables import AuthCount, Row

PASSWORD_METHODS = ("password", "keyboard-interactive")
"""Methods that accept a password; keyboard-interactive may name its device, as `keyboard-interactive/pam`."""

FAILED, ODD_NAME, ACCEPTED, FAILED_KEY = "failed_password", "odd_name", "accepted", "failed_publickey"

FAILED_PASSWORDS = frozenset({FAILED, ODD_NAME})
"""Kinds of failed passwords. Their number is that of attempts: a line may stand for several."""


def failed_passwords(rows: Iterable[Row]) -> list[Row]:
    """The rows of table `auth_daily` that are failed passwords."""
    return [row for row in rows if row["kind"] in FAILED_PASSWORDS]


def attempts(row: Row) -> int:
    """Attempts of a row of table `auth_daily`; tables of early versions have only lines."""
    return int(row.get("attempts") or row["n"])


def is_password(method: str | None) -> bool:
    """Whether a sign-in by `method` used a password."""
    return bool(method) and str(method).partition("/")[0] in PASSWORD_METHODS


def auth_daily(counts: Iterable[AuthCount]) -> list[Row]:
    """Table `auth_daily`."""
    entries = list(counts)
    timed = (count for count in entries if count.first_ts is not None and count.user)
    tries = {key: _tries(group) for key, group in grouped(timed, lambda count: (count.user, count.remote)).items()}
    made = []
    for _, group in sorted(grouped(entries, lambda count: count[:5]).items()):
        one = group[0]
        row = {name: getattr(one, name) for name in ("partition", "host", "kind", "user", "remote", "method")}
        row |= {"n": sum(count.lines for count in group), "attempts": sum(count.attempts for count in group)}
        row |= _times("", group)
        if _accepts_password(one):
            row |= _failures(group, tries.get((one.user, one.remote), _Tries()))
        made.append(row)
    return made


class _Before(NamedTuple):
    """The failures between two acceptances; `accepted` is the second of the later one."""

    attempts: int
    accepted: int
    failures: Sequence[AuthCount]


@dataclass(frozen=True, slots=True)
class _Tries:
    """Passwords of one user and address on all hosts. A failure in the second of an acceptance is before it."""

    failed: Sequence[AuthCount] = ()
    accepted: Sequence[int] = ()

    def before(self, second: int) -> _Before:
        """The failures up to `second`, of an acceptance, that are after the acceptance before it."""
        place = bisect.bisect_left(self.accepted, second)
        start = bisect.bisect_right(self.failed, self.accepted[place - 1], key=_second) if place else 0
        found = self.failed[start : bisect.bisect_right(self.failed, second, key=_second)]
        return _Before(sum(count.attempts for count in found), second, found)


def _tries(counts: Sequence[AuthCount]) -> _Tries:
    failed = sorted((count for count in counts if count.kind in FAILED_PASSWORDS), key=_second)
    return _Tries(failed, sorted(_second(count) for count in counts if _accepts_password(count)))


def _second(count: AuthCount) -> int:
    return count.first_ts or 0


def _accepts_password(count: AuthCount) -> bool:
    return count.kind == ACCEPTED and is_password(count.method)


def _failures(accepted: Sequence[AuthCount], tries: _Tries) -> Row:
    """The acceptance of `accepted` with most failures before it, the last of several."""
    seconds = [count.first_ts for count in accepted if count.first_ts is not None]
    most = max((tries.before(second) for second in seconds), default=_Before(0, 0, ()), key=lambda one: one[:2])
    paired = instant(most.accepted) if most.attempts else None
    return {"failed_attempts": most.attempts, "failed_accepted_ts": paired, **_times("failed_", most.failures)}


def _times(prefix: str, group: Sequence[AuthCount]) -> Row:
    first = min((count.first_ts for count in group if count.first_ts is not None), default=None)
    last = max((count.last_ts for count in group if count.last_ts is not None), default=None)
    return {f"{prefix}first_ts": instant(first), f"{prefix}last_ts": instant(last)}


def instant(second: int | None) -> dt.datetime | None:
    """The time of a second since 1970; None: there is none."""
    return None if second is None else dt.datetime.fromtimestamp(second, dt.UTC)
