"""Loads the evidence from rows of tables, of today and of the days before: adds up and sorts. Pure."""

import dataclasses
import datetime as dt
import operator
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from spark_analytics.archive.inventory import Day
from spark_analytics.metrics import events
from spark_analytics.metrics.sign_ins import (
    ACCEPTED,
    FAILED,
    FAILED_KEY,
    FAILED_PASSWORDS,
    attempts,
    failed_passwords,
    is_password,
)
from spark_analytics.metrics.statistics import grouped, median_over_days
from spark_analytics.patterns.cluster import REST
from spark_analytics.report import inputs as ev
from spark_analytics.report.completeness import account
from spark_analytics.report.content import BAD_LEVELS, MIN_DAYS, MIN_LINES
from spark_analytics.tables.day_tables import DayTables, Row
from spark_analytics.tables.schemas import LEVELS

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
    hosts = _host_series(given, day.date, before)
    by_size = sorted(hosts, key=lambda host: (-host.bytes, host.host))
    largest = {host.host for host in by_size[:HEAT_HOSTS] if host.lines}
    rates_before, errors_before = _rates_before(given), _errors_before(given)
    failures, accepted = _passwords(given)
    missing = sum(row["seq_missing"] or 0 for row in given.rows.get("partition_daily", ()))
    return ev.Evidence(
        date=day.date,
        before=before,
        wanted_days=wanted_days,
        account=account(given.rows.get("audit", ()), day, missing),
        run=run,
        hosts=hosts,
        files=tuple(_files(given, rates_before, errors_before)),
        hours=tuple(_hours(given, day.as_date)),
        host_hours=tuple(cell for cell in given.hours if cell.host in largest),
        patterns=tuple(_patterns(given, back)),
        pattern_sums=_pattern_sums(given, back, len(gone)),
        gone=tuple(gone[:MAX_PATTERNS]),
        known_events=tuple(known_events(given)),
        rate_chance=_rate_chance(given, rates_before),
        weekdays=_weekdays(given),
        auth_kinds=tuple(_auth_kinds(given, before)),
        auth_tops=tuple(_auth_tops([*failures, *accepted])),
        sign_in_methods=tuple(_sign_in_methods(given)),
        password_sign_ins=tuple(_password_sign_ins(accepted)),
        fatal_hosts=tuple(_fatal_hosts(given)),
        auth_remotes=len({row["remote"] for row in failures if row["remote"]}),
        web_hours=tuple(given.web),
        web_classes=tuple(_web_classes(given, before)),
        web_tops=tuple(_web_tops(given)),
        web_sums=given.web_sums,
        redacted=tuple(_redacted(given.rows.get("redacted_daily", ()))),
        untimed=tuple(_untimed(given)),
    )


def _redacted(rows: Iterable[Row]) -> Iterable[ev.RedactedRule]:
    by_rule = grouped(rows, operator.itemgetter("host", "rule"))
    sums = [
        ev.RedactedRule(
            host=host,
            rule=rule,
            places=sum(row["places"] for row in group),
            files=len({row["file"] for row in group}),
        )
        for (host, rule), group in by_rule.items()
    ]
    return sorted(sums, key=lambda one: (-one.places, one.host, one.rule))


def _days(given: DayTables, name: str, date: str) -> Iterable[tuple[str, Sequence[Row]]]:
    """Table `name` by date: today's rows and those of the days before."""
    yield date, given.rows.get(name, ())
    yield from given.before.get(name, {}).items()


def _instant(time: dt.datetime | None) -> str | None:
    """RFC 3339 in UTC; a naive time is UTC already."""
    if time is None:
        return None
    aware = time if time.tzinfo else time.replace(tzinfo=dt.UTC)
    return aware.astimezone(dt.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


# -- hosts and log files ------------------------------------------------------------------------------------------

_HOST_SUMS = ("files", "lines", "bytes", "err", "warn", "late_lines", "no_ts_lines")
_NO_ROW: Row = {"partition": -1, "active_hours": 0, "last_arrival": None, **dict.fromkeys(_HOST_SUMS, 0)}


def _host_series(given: DayTables, date: str, before: Sequence[str]) -> tuple[ev.HostSeries, ...]:
    """One value for each host that wrote on `date` or on a day `before`, in the order of their names."""
    by_host: dict[str, dict[str, Row]] = defaultdict(dict)
    for day, rows in _days(given, "host_daily", date):
        for row in rows:
            days = by_host[row["host"]]
            days[day] = _joined(days[day], row) if day in days else row
    weekdays: dict[str, Counter[str]] = defaultdict(Counter)
    for day, rows in given.weekdays.items():
        for row in rows:
            weekdays[row["host"]][day] += row["lines"]
    made = []
    for host, days in sorted(by_host.items()):
        on_weekdays = tuple(weekdays[host][day] for day in given.weekdays) if host in weekdays else ()
        made.append(_series(host, days.get(date), [days.get(day, _NO_ROW) for day in before], on_weekdays))
    return tuple(made)


def _joined(one: Row, other: Row) -> Row:
    """Adds the two rows of a host that moved to another partition; the larger one gives its partition."""
    arrivals = [row["last_arrival"] for row in (one, other) if row["last_arrival"]]
    return {
        **(one if one["bytes"] >= other["bytes"] else other),
        **{name: one[name] + other[name] for name in _HOST_SUMS},
        "active_hours": max(one["active_hours"], other["active_hours"]),
        "last_arrival": max(arrivals, default=None),
    }


def _series(host: str, today: Row | None, past: Sequence[Row], weekdays: tuple[int, ...]) -> ev.HostSeries:
    """`today` is None if the host did not write; its partition is then the one of its last day with lines."""
    known = [row for row in past if row["lines"]]
    row = today or _NO_ROW
    return ev.HostSeries(
        partition=(today or (known or [_NO_ROW])[-1])["partition"],
        host=host,
        **{name: row[name] for name in ("files", "lines", "bytes", "late_lines", "no_ts_lines", "active_hours")},
        errors=row["err"],
        warnings=row["warn"],
        last_arrival=_instant(row["last_arrival"]),
        lines_before=tuple(row["lines"] for row in past),
        bytes_before=tuple(row["bytes"] for row in past),
        errors_before=tuple(row["err"] for row in past),
        warnings_before=tuple(row["warn"] for row in past),
        active_hours_before=tuple(row["active_hours"] for row in past),
        lines_weekdays=weekdays,
    )


def _weekdays(given: DayTables) -> ev.WeekdayTotals:
    days = given.weekdays.values()
    return ev.WeekdayTotals(
        days=tuple(given.weekdays),
        lines=tuple(sum(row["lines"] for row in rows) for rows in days),
        bytes=tuple(sum(row["bytes"] for row in rows) for rows in days),
        errors=tuple(sum(row["err"] for row in rows) for rows in days),
        hosts=tuple(len({row["host"] for row in rows if row["lines"]}) for rows in days),
    )


def _rates_before(given: DayTables) -> Mapping[LogFile, list[float]]:
    """The error rates of each log file on the days before on which it had lines."""
    rates: dict[LogFile, list[float]] = defaultdict(list)
    for rows in given.before.get("file_daily", {}).values():
        for row in rows:
            if row["lines"]:
                rates[row["host"], row["file"]].append(row["err"] / row["lines"])
    return rates


def _errors_before(given: DayTables) -> Mapping[LogFile, tuple[int, ...]]:
    """The error lines of each log file on each day before."""
    errors: dict[LogFile, Counter[str]] = defaultdict(Counter)
    for date, rows in given.before.get("file_daily", {}).items():
        for row in rows:
            errors[row["host"], row["file"]][date] += row["err"]
    return {name: tuple(by_date[date] for date in given.days_before) for name, by_date in errors.items()}


def _rate_chance(given: DayTables, before: Mapping[LogFile, list[float]]) -> ev.RateChance:
    compared, above, by_chance = 0, 0, 0.0
    for row in given.rows.get("file_daily", ()):
        rates = before.get((row["host"], row["file"]), [])
        if row["lines"] < MIN_LINES or len(rates) < MIN_DAYS or not (row["err"] or any(rates)):
            continue
        compared += 1
        above += row["err"] / row["lines"] > max(rates)
        by_chance += 1 / (len(rates) + 1)
    return ev.RateChance(compared=compared, above_all=above, by_chance=round(by_chance, 1))


def _files(
    given: DayTables, before: Mapping[LogFile, list[float]], errors_before: Mapping[LogFile, tuple[int, ...]]
) -> Iterable[ev.FileSeries]:
    none = (0,) * len(given.days_before)
    wrong = [row for row in given.rows.get("file_daily", ()) if row["err"]]
    for row in sorted(wrong, key=lambda row: (-row["err"], row["host"], row["file"]))[:MAX_FILES]:
        yield ev.FileSeries(
            **{name: row[name] for name in ("partition", "host", "file", "lines")},
            errors=row["err"],
            warnings=row["warn"],
            baseline_days=row["baseline_days"] or 0,
            median_rate=row["median7_err_rate"],
            rates_before=tuple(before.get((row["host"], row["file"]), ())),
            errors_before=errors_before.get((row["host"], row["file"]), none),
        )


def _untimed(given: DayTables) -> list[ev.UntimedFile]:
    """Log files without one time that can be read."""
    found = [
        ev.UntimedFile(partition=row["partition"], host=row["host"], file=row["file"], lines=row["no_ts_lines"])
        for row in given.rows.get("file_daily", ())
        if row["no_ts_lines"] and row["first_ts"] is None
    ]
    return sorted(found, key=lambda one: (-one.lines, one.host, one.file))


def _hours(given: DayTables, day: dt.date) -> Iterable[ev.HourCount]:
    sums: Counter[tuple[int, int, bool, str]] = Counter()
    for cell in given.hours:
        sums[cell.partition, cell.hour.hour, cell.hour.date() == day, cell.level] += cell.lines
    for (partition, hour, on_day, level), lines in sorted(sums.items()):
        if lines:
            yield ev.HourCount(partition=partition, hour=hour, on_day=on_day, level=level, lines=lines)


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
    present = {REST.id, *(row["pattern_id"] for row in given.rows.get("pattern_daily", ()))}
    absent = [(date, row) for date, rows in days.items() for row in rows if row["pattern_id"] not in present]
    texts = {row["pattern_id"]: row for row in given.patterns_before}
    found = []
    for pattern_id, entries in grouped(absent, lambda entry: entry[1]["pattern_id"]).items():
        lines: Counter[str] = Counter()
        for date, row in entries:
            lines[date] += row["lines"]
        median = median_over_days(list(lines.values()), len(days)) or 0.0
        if len(lines) < GONE_SHARE * len(days) or median < GONE_LINES:
            continue
        date, worst = max(entries, key=lambda entry: (entry[0], -LEVELS.index(entry[1]["level"])))
        text: Mapping[str, Any] = texts.get(pattern_id, {})
        found.append(
            ev.GonePattern(
                pattern_id=pattern_id,
                template=text.get("template") or "",
                example=text.get("example") or "",
                file=worst["file"] or "",
                level=worst["level"],
                days=len(lines),
                median_lines=median,
                last_seen=date,
            )
        )
    return sorted(found, key=lambda one: (-one.median_lines, one.pattern_id))


def known_events(given: DayTables) -> list[ev.KnownEvent]:
    """Lines of the kinds that operators know, by their masked text; most lines first."""
    files = {row["pattern_id"]: row["file"] or "" for row in given.rows.get("pattern_daily", ())}
    templates = {row["pattern_id"]: row["template"] for row in given.rows.get("patterns", ())}
    places = _with_days_before(given, _places(given, ("kind",)))
    made = []
    for kind, rows in grouped(
        given.rows.get("fingerprints", ()), lambda row: events.kind_of(row["text"] or "", row["example"] or "")
    ).items():
        if kind is None:
            continue
        most = max(rows, key=lambda row: (row["lines"], row["text"]))
        made.append(
            ev.KnownEvent(
                kind=kind,
                lines=sum(row["lines"] for row in rows),
                patterns=len({row["pattern_id"] for row in rows}),
                template=templates.get(most["pattern_id"]) or most["text"],
                example=most["example"] or "",  # of today; the pattern's own may be of an earlier day
                file=files.get(most["pattern_id"], ""),
                places=places.get((kind,), ()),
            )
        )
    return sorted(made, key=lambda one: (-one.lines, one.kind))


def _places(given: DayTables, key: Sequence[str]) -> dict[tuple[str, ...], tuple[ev.Place, ...]]:
    """The places of each event or pattern (`key` are columns), by host and subject, most lines first."""
    rows = [row for row in given.rows.get("event_daily", ()) if row[key[0]]]
    found: dict[tuple[str, ...], list[ev.Place]] = defaultdict(list)
    for (name, host, subject), group in grouped(
        rows, lambda row: (tuple(row[column] for column in key), row["host"], row["subject"] or "")
    ).items():
        most = max(group, key=lambda row: (row["lines"], row["file"]))
        firsts, lasts = ([row[name] for row in group if row[name]] for name in ("first_ts", "last_ts"))
        found[name].append(
            ev.Place(
                host=host,
                file=most["file"],
                lines=sum(row["lines"] for row in group),
                first=_instant(min(firsts, default=None)),
                last=_instant(max(lasts, default=None)),
                subject=subject,
                example=most["example"] or "",
            )
        )
    return {
        name: tuple(sorted(group, key=lambda one: (-one.lines, one.host, one.subject))) for name, group in found.items()
    }


def _with_days_before(
    given: DayTables, places: Mapping[tuple[str, ...], tuple[ev.Place, ...]]
) -> dict[tuple[str, ...], tuple[ev.Place, ...]]:
    """The places of events with their lines on the days before, if every one of these has the table."""
    days = given.before.get("event_daily", {})
    if not given.days_before or any(date not in days for date in given.days_before):
        return dict(places)
    lines: Counter[tuple[str, str, str, str]] = Counter()
    for date, rows in days.items():
        for row in rows:
            if row["kind"]:
                lines[date, row["kind"], row["host"], row["subject"] or ""] += row["lines"]

    def before(kind: str, place: ev.Place) -> tuple[int, ...]:
        return tuple(lines[date, kind, place.host, place.subject] for date in given.days_before)

    return {
        key: tuple(dataclasses.replace(place, lines_before=before(key[0], place)) for place in found)
        for key, found in places.items()
    }


def _fatal_hosts(given: DayTables) -> list[tuple[str, int]]:
    lines: Counter[str] = Counter()
    for cell in given.hours:
        if cell.level == "fatal":
            lines[cell.host] += cell.lines
    return sorted(lines.items(), key=lambda entry: (-entry[1], entry[0]))


def _patterns(given: DayTables, back: Mapping[str, str]) -> Iterable[ev.PatternCount]:
    """The first patterns of each kind, each once, with template and example."""
    places = _places(given, ("pattern_id", "level"))
    rows = given.rows.get("pattern_daily", ())
    new = [row for row in rows if row["is_new"]]
    kinds = (
        sorted(rows, key=lambda row: (-row["lines"], row["pattern_id"])),
        sorted(new, key=lambda row: (row["level"] not in BAD_LEVELS, -row["lines"], row["pattern_id"])),
        sorted(_surging(rows, back), key=lambda row: (-row["surge"], row["pattern_id"])),
        sorted((row for row in rows if row["pattern_id"] in back), key=lambda row: -row["lines"]),
    )
    before = _pattern_lines_before(given)
    told = {(row["pattern_id"], row["level"]): row for kind in kinds for row in kind[:MAX_PATTERNS]}
    texts = {row["pattern_id"]: row for row in given.rows.get("patterns", ())}
    for row in told.values():
        text: Mapping[str, Any] = texts.get(row["pattern_id"], {})
        yield ev.PatternCount(
            **{name: row[name] for name in _PATTERN},
            template=text.get("template") or "",
            example=text.get("example") or "",
            file=row["file"] or "",
            is_new=bool(row["is_new"]) and row["pattern_id"] not in back,
            places=places.get((row["pattern_id"], row["level"]), ()),
            last_seen=back.get(row["pattern_id"]),
            lines_before=tuple(before[row["pattern_id"], row["level"], date] for date in given.days_before),
        )


def _pattern_lines_before(given: DayTables) -> Counter[tuple[str, str, str]]:
    """Lines by pattern, level and date of the days before."""
    lines: Counter[tuple[str, str, str]] = Counter()
    for date, rows in given.before.get("pattern_daily", {}).items():
        for row in rows:
            lines[row["pattern_id"], row["level"], date] += row["lines"]
    return lines


def _surging(rows: Iterable[Row], back: Mapping[str, str]) -> list[Row]:
    """Patterns far above their usual lines, without those that are back."""
    return [row for row in rows if not row["is_new"] and (row["surge"] or 0) >= 1 and row["pattern_id"] not in back]


def _pattern_sums(given: DayTables, back: Mapping[str, str], gone: int) -> ev.PatternSums:
    rows = given.rows.get("pattern_daily", ())
    new = [row for row in rows if row["is_new"] and row["pattern_id"] not in back]
    surging = _surging(rows, back)
    return ev.PatternSums(
        patterns=len({row["pattern_id"] for row in rows}),
        new=len(new),
        new_bad=sum(row["level"] in BAD_LEVELS for row in new),
        back=len(back),
        gone=gone,
        surging=len(surging),
        surging_bad=sum(row["level"] in BAD_LEVELS for row in surging),
    )


# -- authentication -----------------------------------------------------------------------------------------------

_REFUSED = FAILED_PASSWORDS | {FAILED_KEY}


def _passwords(given: DayTables) -> tuple[list[Row], list[Row]]:
    """The rows of failed and of accepted passwords."""
    rows = given.rows.get("auth_daily", ())
    accepted = [row for row in rows if row["kind"] == ACCEPTED and is_password(row.get("method"))]
    return failed_passwords(rows), accepted


def _sign_in_methods(given: DayTables) -> list[ev.SignInMethod]:
    """Most accepted sign-ins first."""
    kinds = {ACCEPTED, *_REFUSED}
    rows = [row for row in given.rows.get("auth_daily", ()) if row["kind"] in kinds and row.get("method")]
    made = [
        ev.SignInMethod(
            method=method,
            accepted=sum(row["n"] for row in group if row["kind"] == ACCEPTED),
            failed=sum(attempts(row) for row in group if row["kind"] in _REFUSED),
            users=len({row["user"] for row in group if row["user"]}),
            addresses=len({row["remote"] for row in group if row["remote"]}),
        )
        for method, group in grouped(rows, operator.itemgetter("method")).items()
    ]
    return sorted(made, key=lambda one: (-one.accepted, -one.failed, one.method))[:MAX_METHODS]


def _password_sign_ins(accepted: Sequence[Row]) -> Iterable[ev.PasswordSignIn]:
    """Accepted passwords with failures of the same user and address before, most failures first."""
    rows = [row for row in accepted if row.get("failed_attempts")]
    for row in sorted(rows, key=lambda row: (-row["failed_attempts"], row["remote"], row["user"], row["host"])):
        yield ev.PasswordSignIn(
            **{name: row[name] for name in ("host", "user", "remote", "method")},
            accepted=row["n"],
            first=_instant(row["first_ts"]),
            last=_instant(row["last_ts"]),
            failed=row["failed_attempts"],
            failed_first=_instant(row["failed_first_ts"]),
            failed_last=_instant(row["failed_last_ts"]),
            at=_instant(row.get("failed_accepted_ts")),
        )


def _auth_kinds(given: DayTables, before: Sequence[str]) -> Iterable[ev.AuthKind]:
    times: dict[str, Counter[str]] = defaultdict(Counter)
    for date, rows in _days(given, "auth_daily", ""):
        for row in rows:
            kind = FAILED if row["kind"] in FAILED_PASSWORDS else row["kind"]
            times[kind][date] += attempts(row)
    for kind, by_date in sorted(times.items()):
        yield ev.AuthKind(kind=kind, times=by_date[""], before=tuple(by_date[date] for date in before))


def _auth_tops(passwords: Sequence[Row]) -> Iterable[ev.AuthTop]:
    """The keys with most failed passwords, and more of those that also had a password accepted."""
    for what in ("remote", "user", "host"):
        tops = [
            ev.AuthTop(
                what=what,
                key=key,
                failed=sum(attempts(row) for row in group if row["kind"] in FAILED_PASSWORDS),
                accepted=sum(row["n"] for row in group if row["kind"] == ACCEPTED),
                hosts=len({row["host"] for row in group}),
            )
            for key, group in grouped(passwords, operator.itemgetter(what)).items()
            if key
        ]
        busiest = sorted((top for top in tops if top.failed), key=lambda top: (-top.failed, top.key))
        got_in = [top for top in busiest[MAX_NAMES:] if top.accepted]
        yield from (*busiest[:MAX_NAMES], *got_in[:MAX_NAMES])


# -- access logs --------------------------------------------------------------------------------------------------


def _web_classes(given: DayTables, before: Sequence[str]) -> Iterable[ev.WebClass]:
    """Today's requests by class; those of the days before are in `access_top`, by status."""
    if not given.web:
        return
    requests: dict[str, Counter[str]] = defaultdict(Counter)
    for hour in given.web:
        requests[hour.status_class][""] += hour.requests
    for date, rows in given.before.get("access_top", {}).items():
        for row in rows:
            if row["kind"] == "status":
                requests[f"{row['key'][:1]}xx"][date] += row["n"]
    for name, by_date in sorted(requests.items()):
        yield ev.WebClass(status_class=name, requests=by_date[""], before=tuple(by_date[date] for date in before))


def _web_tops(given: DayTables) -> Iterable[ev.WebTop]:
    rows = sorted(given.rows.get("access_top", ()), key=lambda row: (row["kind"], -row["n"], row["key"] or ""))
    for kind, group in grouped(rows, operator.itemgetter("kind")).items():
        for row in group[:MAX_KEYS]:
            yield ev.WebTop(kind=kind, key=row["key"] or "", times=row["n"])
