"""Loads the evidence from rows of tables, of today and of the days before: adds up and sorts. Pure."""

import dataclasses
import datetime as dt
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from spark_analytics.archive.inventory import Day
from spark_analytics.metrics import statistics
from spark_analytics.metrics.sign_ins import ACCEPTED, FAILED, FAILED_KEY, ODD_NAME, is_password
from spark_analytics.patterns.cluster import REST
from spark_analytics.report import events
from spark_analytics.report import inputs as ev
from spark_analytics.report.completeness import AuditRow, account
from spark_analytics.report.content import BAD_LEVELS
from spark_analytics.report.inputs import HostSeries
from spark_analytics.tables.day_tables import DayTables, Row
from spark_analytics.tables.schemas import LEVELS


class HostRow(NamedTuple):
    """A row of table `host_daily`, of any day."""

    date: str
    partition: int
    host: str
    files: int
    lines: int
    bytes: int
    err: int
    warn: int
    late_lines: int
    no_ts_lines: int
    active_hours: int
    last_arrival: str | None


_NO_ROW = HostRow("", -1, "", 0, 0, 0, 0, 0, 0, 0, 0, None)


def host_series(
    rows: Iterable[HostRow], date: str, before: Sequence[str], weekdays: Mapping[str, tuple[int, ...]] | None = None
) -> tuple[HostSeries, ...]:
    """One value for each host that wrote on `date` or on a day `before`, in the order of their names.

    `weekdays` has the lines of each host on the same weekday of the weeks before.
    """
    by_host: dict[str, dict[str, HostRow]] = {}
    for row in rows:
        days = by_host.setdefault(row.host, {})
        days[row.date] = _joined(days[row.date], row) if row.date in days else row
    series = (_series(host, days, date, before) for host, days in sorted(by_host.items()))
    return tuple(dataclasses.replace(one, lines_weekdays=(weekdays or {}).get(one.host, ())) for one in series)


def _joined(one: HostRow, other: HostRow) -> HostRow:
    """Adds the two rows of a host that moved to another partition; the larger one gives its partition."""
    larger, smaller = (one, other) if one.bytes >= other.bytes else (other, one)
    return larger._replace(
        files=one.files + other.files,
        lines=one.lines + other.lines,
        bytes=one.bytes + other.bytes,
        err=one.err + other.err,
        warn=one.warn + other.warn,
        late_lines=one.late_lines + other.late_lines,
        no_ts_lines=one.no_ts_lines + other.no_ts_lines,
        active_hours=max(one.active_hours, other.active_hours),
        last_arrival=max(larger.last_arrival or "", smaller.last_arrival or "") or None,
    )


def _series(host: str, days: dict[str, HostRow], date: str, before: Sequence[str]) -> HostSeries:
    past = [days.get(day, _NO_ROW) for day in before]
    known = [row for row in past if row.lines]
    today = days.get(date, _NO_ROW)
    return HostSeries(
        partition=today.partition if date in days else (known[-1] if known else _NO_ROW).partition,
        host=host,
        files=today.files,
        lines=today.lines,
        bytes=today.bytes,
        errors=today.err,
        warnings=today.warn,
        late_lines=today.late_lines,
        no_ts_lines=today.no_ts_lines,
        active_hours=today.active_hours,
        last_arrival=today.last_arrival,
        lines_before=tuple(row.lines for row in past),
        bytes_before=tuple(row.bytes for row in past),
        errors_before=tuple(row.err for row in past),
        warnings_before=tuple(row.warn for row in past),
        active_hours_before=tuple(row.active_hours for row in past),
    )


MAX_FILES = 5000
"""Maximum number of log files with errors; those with most error lines are taken."""

MAX_PATTERNS = 300
"""Maximum number of patterns of each kind (new, surging, noisiest)."""

MAX_NAMES = 300
"""Maximum number of addresses, users and hosts of failed passwords, each."""

MAX_METHODS = 20
"""Maximum number of methods of sign-ins."""

MAX_KEYS = 1000
"""Maximum number of paths, clients and statuses of access logs, each."""

HEAT_HOSTS = 25
MIN_RATE_LINES, MIN_RATE_DAYS = 100, 3
"""Minimum lines today and days before of a log file whose error rate is compared."""

BACK_DAYS = 14
"""A pattern is back if it occurred before, but not within so many days."""

GONE_SHARE, GONE_DAYS, GONE_LINES = 0.85, 5, 20
"""A pattern is gone if it occurred on this share of at least so many days, with this median of lines, and not today."""

LogFile = tuple[str, str]
"""Host and path of a log file."""


def evidence(given: DayTables, day: Day, run: ev.Run, wanted_days: int = 7) -> ev.Evidence:
    """The evidence of the report of `day`."""
    before = tuple(given.days_before)
    back, gone = _back(given, day.as_date), _gone(given)
    hosts = host_series(_host_rows(given, day.date), day.date, before, _lines_of_weekdays(given))
    return ev.Evidence(
        date=day.date,
        before=before,
        wanted_days=wanted_days,
        account=_account(given, day),
        run=run,
        hosts=hosts,
        files=tuple(_files(given)),
        hours=tuple(_hours(given, day.date)),
        host_hours=tuple(_host_hours(given, day.date, hosts)),
        patterns=tuple(_patterns(given, back)),
        pattern_sums=_pattern_sums(given, back, len(gone)),
        gone=tuple(gone[:MAX_PATTERNS]),
        known_events=tuple(known_events(given)),
        rate_chance=_rate_chance(given),
        weekdays=_weekdays(given),
        auth_kinds=tuple(_auth_kinds(given, before)),
        auth_tops=tuple(_auth_tops(given)),
        sign_in_methods=tuple(_sign_in_methods(given)),
        password_sign_ins=tuple(_password_sign_ins(given)),
        auth_remotes=len({row["remote"] for row in _failures(given) if row["remote"]}),
        web_hours=tuple(_web_hours(given, day.date)),
        web_classes=tuple(_web_classes(given, before)),
        web_tops=tuple(_web_tops(given)),
        web_sums=given.web_sums,
    )


def _days(given: DayTables, name: str, date: str) -> Iterable[tuple[str, Sequence[Row]]]:
    """Table `name` by date: today's rows and those of the days before."""
    yield date, given.rows.get(name, ())
    yield from given.before.get(name, {}).items()


def _account(given: DayTables, day: Day) -> ev.Account:
    rows = [AuditRow(*(row[name] for name in AuditRow._fields)) for row in given.rows.get("audit", ())]
    missing = sum(row["seq_missing"] or 0 for row in given.rows.get("partition_daily", ()))
    return account(rows, day, missing)


# -- hosts and log files ------------------------------------------------------------------------------------------

_HOST = ("partition", "host", "files", "lines", "bytes", "err", "warn", "late_lines", "no_ts_lines", "active_hours")


def _host_rows(given: DayTables, date: str) -> Iterable[HostRow]:
    for day, rows in _days(given, "host_daily", date):
        for row in rows:
            numbers = {name: row[name] for name in _HOST}
            yield HostRow(date=day, last_arrival=_instant(row["last_arrival"]), **numbers)


def _instant(time: dt.datetime | None) -> str | None:
    """RFC 3339 in UTC; a naive time is UTC already."""
    if time is None:
        return None
    aware = time if time.tzinfo else time.replace(tzinfo=dt.UTC)
    return aware.astimezone(dt.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _weekdays(given: DayTables) -> ev.WeekdayTotals:
    days = tuple(given.weekdays)

    def sums(name: str) -> tuple[int, ...]:
        return tuple(sum(row[name] for row in given.weekdays[day]) for day in days)

    hosts = tuple(len({row["host"] for row in given.weekdays[day] if row["lines"]}) for day in days)
    return ev.WeekdayTotals(days=days, lines=sums("lines"), bytes=sums("bytes"), errors=sums("err"), hosts=hosts)


def _lines_of_weekdays(given: DayTables) -> dict[str, tuple[int, ...]]:
    lines: dict[str, dict[str, int]] = {}
    for day, rows in given.weekdays.items():
        for row in rows:
            of_host = lines.setdefault(row["host"], {})
            of_host[day] = of_host.get(day, 0) + row["lines"]
    return {host: tuple(days.get(day, 0) for day in given.weekdays) for host, days in lines.items()}


def _rates_before(given: DayTables) -> dict[LogFile, list[float]]:
    """The error rates of each log file on the days before on which it had lines."""
    rates: dict[LogFile, list[float]] = {}
    for rows in given.before.get("file_daily", {}).values():
        for row in rows:
            if row["lines"]:
                rates.setdefault((row["host"], row["file"]), []).append(row["err"] / row["lines"])
    return rates


def _rate_chance(given: DayTables) -> ev.RateChance:
    before = _rates_before(given)
    compared, above, by_chance = 0, 0, 0.0
    for row in given.rows.get("file_daily", ()):
        rates = before.get((row["host"], row["file"]), [])
        if row["lines"] < MIN_RATE_LINES or len(rates) < MIN_RATE_DAYS or not (row["err"] or any(rates)):
            continue
        compared += 1
        above += row["err"] / row["lines"] > max(rates)
        by_chance += 1 / (len(rates) + 1)
    return ev.RateChance(compared=compared, above_all=above, by_chance=round(by_chance, 1))


def _files(given: DayTables) -> Iterable[ev.FileSeries]:
    before = _rates_before(given)
    wrong = [row for row in given.rows.get("file_daily", ()) if row["err"]]
    for row in sorted(wrong, key=lambda row: (-row["err"], row["host"], row["file"]))[:MAX_FILES]:
        yield ev.FileSeries(
            partition=row["partition"],
            host=row["host"],
            file=row["file"],
            lines=row["lines"],
            errors=row["err"],
            warnings=row["warn"],
            baseline_days=row["baseline_days"] or 0,
            median_rate=row["median7_err_rate"],
            rates_before=tuple(before.get((row["host"], row["file"]), ())),
        )


def _hours(given: DayTables, date: str) -> Iterable[ev.HourCount]:
    day, sums = dt.date.fromisoformat(date), dict[tuple[int, int, bool, str], int]()
    for cell in given.hours:
        place = (cell.partition, cell.hour.hour, cell.hour.date() == day, cell.level)
        sums[place] = sums.get(place, 0) + cell.lines
    for (partition, hour, on_day, level), lines in sorted(sums.items()):
        if lines:
            yield ev.HourCount(partition=partition, hour=hour, on_day=on_day, level=level, lines=lines)


def _host_hours(given: DayTables, date: str, hosts: Sequence[ev.HostSeries]) -> Iterable[ev.HostHour]:
    largest = {
        host.host for host in sorted(hosts, key=lambda host: (-host.bytes, host.host))[:HEAT_HOSTS] if host.lines
    }
    day, sums = dt.date.fromisoformat(date), dict[tuple[str, int, bool], int]()
    for cell in given.hours:
        if cell.host in largest:
            place = (cell.host, cell.hour.hour, cell.hour.date() == day)
            sums[place] = sums.get(place, 0) + cell.lines
    for (host, hour, on_day), lines in sorted(sums.items()):
        yield ev.HostHour(host=host, hour=hour, on_day=on_day, lines=lines)


# -- patterns -----------------------------------------------------------------------------------------------------

_PATTERN = ("pattern_id", "level", "lines", "hosts", "files", "baseline_median", "surge")


def _back(given: DayTables, today: dt.date) -> dict[str, str]:
    """The day on which each pattern of today last occurred, of those that did not for `BACK_DAYS`."""
    last = {row["pattern_id"]: row["last_seen_date"] for row in given.patterns_before}
    seen = {row["pattern_id"] for row in given.rows.get("pattern_daily", ())}
    return {one: day.isoformat() for one, day in last.items() if one in seen and (today - day).days > BACK_DAYS}


def _gone(given: DayTables) -> list[ev.GonePattern]:
    """Patterns of nearly every day before that did not occur today, most lines first."""
    days = given.before.get("pattern_daily", {})
    if len(days) < GONE_DAYS:
        return []
    today = {row["pattern_id"] for row in given.rows.get("pattern_daily", ())}
    lines: dict[str, dict[str, int]] = {}
    last: dict[str, tuple[str, Row]] = {}
    for date, rows in days.items():
        for row in rows:
            if row["pattern_id"] not in today and row["pattern_id"] != REST.id:
                of_day = lines.setdefault(row["pattern_id"], {})
                of_day[date] = of_day.get(date, 0) + row["lines"]
                old = last.get(row["pattern_id"])
                if old is None or (date, -LEVELS.index(row["level"])) > (old[0], -LEVELS.index(old[1]["level"])):
                    last[row["pattern_id"]] = (date, row)
    texts = {row["pattern_id"]: row for row in given.patterns_before}
    found = [
        _gone_pattern(texts.get(one, {}), last[one], of_day, len(days))
        for one, of_day in lines.items()
        if len(of_day) >= GONE_SHARE * len(days)
    ]
    return sorted(
        (one for one in found if one.median_lines >= GONE_LINES), key=lambda one: (-one.median_lines, one.pattern_id)
    )


def _gone_pattern(
    text: Mapping[str, Any], last: tuple[str, Row], lines: Mapping[str, int], days: int
) -> ev.GonePattern:
    date, row = last
    return ev.GonePattern(
        pattern_id=row["pattern_id"],
        template=text.get("template") or "",
        example=text.get("example") or "",
        file=row["file"] or "",
        level=row["level"],
        days=len(lines),
        median_lines=statistics.median_over_days(list(lines.values()), days) or 0.0,
        last_seen=date,
    )


def known_events(given: DayTables) -> list[ev.KnownEvent]:
    """Lines of the kinds that operators know, by their masked text; most lines first."""
    files = {row["pattern_id"]: row["file"] or "" for row in given.rows.get("pattern_daily", ())}
    templates = {row["pattern_id"]: row["template"] for row in given.rows.get("patterns", ())}
    groups: dict[str, list[Row]] = {}
    for row in given.rows.get("fingerprints", ()):
        if kind := events.kind_of(row["text"] or ""):
            groups.setdefault(kind, []).append(row)
    made = []
    for kind, rows in groups.items():
        most = max(rows, key=lambda row: (row["lines"], row["text"]))
        made.append(
            ev.KnownEvent(
                kind=kind,
                lines=sum(row["lines"] for row in rows),
                patterns=len({row["pattern_id"] for row in rows}),
                template=templates.get(most["pattern_id"]) or most["text"],
                example=most["example"] or "",  # of today; the pattern's own may be of an earlier day
                file=files.get(most["pattern_id"], ""),
            )
        )
    return sorted(made, key=lambda one: (-one.lines, one.kind))


def _patterns(given: DayTables, back: Mapping[str, str]) -> Iterable[ev.PatternCount]:
    """The first patterns of each kind, each once, with template and example."""
    rows = given.rows.get("pattern_daily", ())
    returned = sorted((row for row in rows if row["pattern_id"] in back), key=lambda row: -row["lines"])
    new = sorted(
        filter(_is_new, rows), key=lambda row: (row["level"] not in BAD_LEVELS, -row["lines"], row["pattern_id"])
    )
    surging = sorted(filter(_is_surging, rows), key=lambda row: (-row["surge"], row["pattern_id"]))
    noisy = sorted(rows, key=lambda row: (-row["lines"], row["pattern_id"]))
    told = {
        (row["pattern_id"], row["level"]): row
        for kind in (noisy, new, surging, returned)
        for row in kind[:MAX_PATTERNS]
    }
    texts = {row["pattern_id"]: row for row in given.rows.get("patterns", ())}
    for row in told.values():
        text: Mapping[str, Any] = texts.get(row["pattern_id"], {})
        yield ev.PatternCount(
            **{name: row[name] for name in _PATTERN},
            template=text.get("template") or "",
            example=text.get("example") or "",
            file=row["file"] or "",
            is_new=_is_new(row) and row["pattern_id"] not in back,
            last_seen=back.get(row["pattern_id"]),
        )


def _is_new(row: Row) -> bool:
    return bool(row["is_new"])


def _is_surging(row: Row) -> bool:
    return not row["is_new"] and (row["surge"] or 0) >= 1


def _pattern_sums(given: DayTables, back: Mapping[str, str], gone: int) -> ev.PatternSums:
    rows = given.rows.get("pattern_daily", ())
    new = [row for row in filter(_is_new, rows) if row["pattern_id"] not in back]
    return ev.PatternSums(
        patterns=len({row["pattern_id"] for row in rows}),
        new=len(new),
        new_bad=sum(row["level"] in BAD_LEVELS for row in new),
        back=len(back),
        gone=gone,
        surging=sum(map(_is_surging, rows)),
        surging_bad=sum(row["level"] in BAD_LEVELS for row in filter(_is_surging, rows)),
    )


# -- authentication -----------------------------------------------------------------------------------------------


def _failures(given: DayTables) -> list[Row]:
    return [row for row in given.rows.get("auth_daily", ()) if row["kind"] == FAILED]


def _accepted_passwords(given: DayTables) -> list[Row]:
    rows = given.rows.get("auth_daily", ())
    return [row for row in rows if row["kind"] == ACCEPTED and is_password(row.get("method"))]


_REFUSED = frozenset({FAILED, ODD_NAME, FAILED_KEY})


def _sign_in_methods(given: DayTables) -> Iterable[ev.SignInMethod]:
    """Most accepted sign-ins first."""
    groups: dict[str, list[Row]] = {}
    for row in given.rows.get("auth_daily", ()):
        if row["kind"] in {ACCEPTED, *_REFUSED} and row.get("method"):
            groups.setdefault(row["method"], []).append(row)
    made = [
        ev.SignInMethod(
            method=method,
            accepted=sum(row["n"] for row in group if row["kind"] == ACCEPTED),
            failed=sum(row["attempts"] for row in group if row["kind"] in _REFUSED),
            users=len({row["user"] for row in group}),
            addresses=len({row["remote"] for row in group}),
        )
        for method, group in groups.items()
    ]
    yield from sorted(made, key=lambda one: (-one.accepted, -one.failed, one.method))[:MAX_METHODS]


def _password_sign_ins(given: DayTables) -> Iterable[ev.PasswordSignIn]:
    """Accepted passwords with failures of the same user and address before, most failures first."""
    rows = [row for row in _accepted_passwords(given) if row.get("failed_attempts")]
    for row in sorted(rows, key=lambda row: (-row["failed_attempts"], row["remote"], row["user"], row["host"])):
        yield ev.PasswordSignIn(
            host=row["host"],
            user=row["user"],
            remote=row["remote"],
            method=row["method"],
            accepted=row["n"],
            first=_instant(row["first_ts"]),
            last=_instant(row["last_ts"]),
            failed=row["failed_attempts"],
            failed_first=_instant(row["failed_first_ts"]),
            failed_last=_instant(row["failed_last_ts"]),
            at=_instant(row.get("failed_accepted_ts")),
        )


def _auth_kinds(given: DayTables, before: Sequence[str]) -> Iterable[ev.AuthKind]:
    times: dict[tuple[str, str], int] = {}
    for date, rows in _days(given, "auth_daily", ""):
        for row in rows:
            times[date, row["kind"]] = times.get((date, row["kind"]), 0) + row["n"]
    for kind in sorted({kind for _, kind in times}):
        yield ev.AuthKind(
            kind=kind, times=times.get(("", kind), 0), before=tuple(times.get((date, kind), 0) for date in before)
        )


def _auth_tops(given: DayTables) -> Iterable[ev.AuthTop]:
    """The keys with most failed passwords, and more of those that also had a password accepted."""
    rows = [*_failures(given), *_accepted_passwords(given)]
    for what in ("remote", "user", "host"):
        groups: dict[str, list[Row]] = {}
        for row in rows:
            if row[what]:
                groups.setdefault(row[what], []).append(row)
        tops = [_auth_top(what, key, group) for key, group in groups.items()]
        failed = [top for top in tops if top.failed]
        busiest = sorted(failed, key=lambda top: (-top.failed, top.key))
        got_in = [top for top in busiest[MAX_NAMES:] if top.accepted]
        yield from (*busiest[:MAX_NAMES], *got_in[:MAX_NAMES])


def _auth_top(what: str, key: str, group: Sequence[Row]) -> ev.AuthTop:
    return ev.AuthTop(
        what=what,
        key=key,
        failed=sum(row["n"] for row in group if row["kind"] == FAILED),
        accepted=sum(row["n"] for row in group if row["kind"] == ACCEPTED),
        hosts=len({row["host"] for row in group}),
    )


# -- access logs --------------------------------------------------------------------------------------------------


def _web_hours(given: DayTables, date: str) -> Iterable[ev.WebHour]:
    day = dt.date.fromisoformat(date)
    for row in given.web:
        yield ev.WebHour(
            hour=row.hour.hour,
            on_day=row.hour.date() == day,
            status_class=row.status_class,
            requests=row.requests,
            bytes=row.bytes or 0,
        )


def _web_classes(given: DayTables, before: Sequence[str]) -> Iterable[ev.WebClass]:
    """Today's requests by class; those of the days before are in `access_top`, by status."""
    requests: dict[tuple[str, str], int] = {}
    for hour in given.web:
        requests["", hour.status_class] = requests.get(("", hour.status_class), 0) + hour.requests
    for date, rows in given.before.get("access_top", {}).items():
        for row in rows:
            if row["kind"] == "status":
                name = f"{row['key'][:1]}xx"
                requests[date, name] = requests.get((date, name), 0) + row["n"]
    if not given.web:
        return
    for name in sorted({name for _, name in requests}):
        yield ev.WebClass(
            status_class=name,
            requests=requests.get(("", name), 0),
            before=tuple(requests.get((date, name), 0) for date in before),
        )


def _web_tops(given: DayTables) -> Iterable[ev.WebTop]:
    rows = sorted(given.rows.get("access_top", ()), key=lambda row: (row["kind"], -row["n"], row["key"] or ""))
    kinds: dict[str, int] = {}
    for row in rows:
        kinds[row["kind"]] = kinds.get(row["kind"], 0) + 1
        if kinds[row["kind"]] <= MAX_KEYS:
            yield ev.WebTop(kind=row["kind"], key=row["key"] or "", times=row["n"])
