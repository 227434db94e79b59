"""A fleet's day as evidence: hosts of all sizes, a week before, and the incidents that readers expect."""

import dataclasses
import datetime as dt
import math
import random

from spark_analytics.report import inputs as ev
from spark_analytics.tables.day_tables import HourCell, WebHourCount

DATE = "2026-11-20"
BEFORE = tuple(f"2026-11-{day}" for day in range(13, 20))
ROLES = ("web", "db", "app", "mail", "batch", "edge", "cache")
FILES = ("/var/log/syslog", "/var/log/auth.log", "/var/log/nginx/access.log", "/var/log/app/server.log")
TEMPLATES = (
    ("error", "Connection to <*> timed out after <*> ms", "Connection to 10.3.4.17:5432 timed out after 30000 ms"),
    ("warn", "Disk usage of <*> is <*> %", "Disk usage of /var is 91 %"),
    ("error", "Failed to write block blk_<*> to <*>", "Failed to write block blk_-16089996879 to /10.250.14.224"),
    ("info", "Accepted publickey for <*> from <*> port <*>", "Accepted publickey for deploy from 10.0.0.5 port 50212"),
    ("none", "session opened for user <*>", "session opened for user root"),
    ("fatal", "Out of memory: Killed process <*> (<*>)", "Out of memory: Killed process 4711 (java)"),
)


def a_day(hosts=200, partitions=8, seed=1, before=BEFORE, **other) -> ev.Evidence:
    """A day of `hosts` hosts with three silent ones, two new ones, risen errors and a guessed password."""
    chance = random.Random(seed)
    series = [_host(chance, number, partitions, len(before)) for number in range(hosts)]
    if hosts > 10 and before:
        series[1:4] = [_silenced(row, stopped=number == 2) for number, row in enumerate(series[1:4])]
        series[5:7] = [_new(row) for row in series[5:7]]
        series[8] = dataclasses.replace(
            series[8], lines=series[8].lines * 9 + 5000, bytes=series[8].bytes * 9 + 500_000
        )
    living = [row for row in series if row.lines]
    largest = sorted(living, key=lambda row: -row.bytes)[:25]
    made = ev.Evidence(
        date=DATE,
        before=before,
        wanted_days=7,
        account=an_account(living),
        run=a_run(),
        hosts=tuple(series),
        files=tuple(_file(chance, row, len(before), risen=place < 4) for place, row in enumerate(living[:400])),
        hours=tuple(_hours(chance, living, partitions)),
        host_hours=tuple(
            HourCell(row.partition, row.host, _at(hour), "info", _in_hour(chance, row.lines, hour))
            for row in largest
            for hour in range(24)
        ),
        patterns=tuple(_patterns(chance, living, bool(before))),
        pattern_sums=ev.PatternSums(patterns=412, new=15, new_bad=10, surging=9, surging_bad=4),
        auth_kinds=tuple(_auth_kinds(chance, len(before))),
        auth_tops=tuple(_auth_tops(chance)),
        auth_remotes=23,
        web_hours=tuple(_web_hours(chance)),
        web_classes=tuple(
            ev.WebClass(
                status_class=name, requests=sum(n for n in _per_hour(share)), before=(share * 20,) * len(before)
            )
            for name, share in (("2xx", 9126), ("3xx", 609), ("4xx", 215), ("5xx", 43))
        ),
        web_tops=tuple(_web_tops(chance)),
        web_sums=ev.WebSums(clients=1753, latency_p50_ms=35.0, latency_p95_ms=412.0, latency_p99_ms=2210.0),
    )
    return dataclasses.replace(made, **other)


def _at(hour):
    return dt.datetime.fromisoformat(f"{DATE}T{hour:02}:00Z")


def a_run(**other) -> ev.Run:
    return ev.Run(
        **{
            "archive": "/srv/archive",
            "out": "/srv/report",
            "generated": "2026-11-21T00:31:07Z",
            "seconds": 41.7,
            "spark_version": "4.3.0",
            "master": "local[*]",
            "program_version": "0.1.0",
            "manifests": ("collector-a.jsonl", "collector-b.jsonl"),
            "input_fingerprint": "7d1e0c5a9f2b4486",
            **other,
        }
    )


def an_account(hosts=(), *, troubles=(), closed=True, **other) -> ev.Account:
    """The manifests' account of `hosts`, with `troubles`."""
    counts = {}
    for trouble in troubles:
        counts[trouble.kind] = counts.get(trouble.kind, 0) + 1
    status = {trouble.host: trouble.kind for trouble in troubles}
    lines, size = sum(row.lines for row in hosts), sum(row.bytes for row in hosts)
    lost = {trouble.host: trouble.lines_manifest - trouble.lines_counted for trouble in troubles}
    return ev.Account(
        **{
            "closed": closed,
            "segments": 3 * len(hosts),
            "segments_read": 3 * len(hosts) - counts.get("missing", 0) - counts.get("truncated", 0),
            "lines_manifest": lines,
            "lines_counted": lines - sum(lost.values()),
            "bytes_manifest": size,
            "bytes_counted": size - sum(trouble.bytes_manifest - trouble.bytes_counted for trouble in troubles),
            "bytes_stored": size // 7,
            "hosts": tuple(
                ev.HostAudit(
                    partition=row.partition,
                    host=row.host,
                    segments=3,
                    lines_manifest=row.lines,
                    lines_counted=row.lines - lost.get(row.host, 0),
                    bytes_manifest=row.bytes,
                    bytes_counted=row.bytes,
                    gap_bytes=0,
                    status=status.get(row.host, "complete"),
                )
                for row in hosts
            ),
            "trouble_counts": counts,
            "troubles": tuple(troubles),
            **other,
        }
    )


def a_trouble(kind, host="web0001.example.net", number=1, **other) -> ev.Trouble:
    path = f"date={DATE}/partition=3/host={host}/var~log~syslog-{number:020d}.log.zst"
    given = {"partition": 3, "host": host, "file": "/var/log/syslog", "path": path, **other}
    return ev.Trouble(kind=kind, **given)


def a_host(host="web1", lines=1000, before=(1000,) * 7, **other) -> ev.HostSeries:
    """A host that writes around the clock, as always."""
    given = {
        "partition": 0,
        "files": 2,
        "bytes": lines * 100,
        "errors": lines // 200,
        "warnings": lines // 100,
        "late_lines": 0,
        "no_ts_lines": 0,
        "active_hours": 24 if lines else 0,
        "last_arrival": f"{DATE}T23:59:10Z" if lines else None,
        "bytes_before": tuple(value * 100 for value in before),
        "errors_before": tuple(value // 200 for value in before),
        "warnings_before": tuple(value // 100 for value in before),
        "active_hours_before": tuple(24 if value else 0 for value in before),
        **other,
    }
    return ev.HostSeries(host=host, lines=lines, lines_before=tuple(before), **given)


def _host(chance, number, partitions, days) -> ev.HostSeries:
    usual = math.exp(chance.gauss(9, 1.4))
    before = tuple(int(usual * math.exp(chance.gauss(0, 0.12))) for _ in range(days))
    role = ROLES[number % len(ROLES)]
    return a_host(
        f"{role}{number:04d}.{'ams' if number % 2 else 'fra'}.example.net",
        int(usual * math.exp(chance.gauss(0, 0.12))),
        before,
        partition=(number * 2654435761 >> 7) % partitions,
        files=1 + number % 4,
        late_lines=number % 3,
        no_ts_lines=number % 17,
    )


def _silenced(row, *, stopped):
    if stopped:
        return dataclasses.replace(row, lines=row.lines // 2, last_arrival=f"{DATE}T11:42:00Z", active_hours=12)
    return dataclasses.replace(row, lines=0, bytes=0, errors=0, warnings=0, active_hours=0, last_arrival=None, files=0)


def _new(row):
    none = (0,) * len(row.lines_before)
    return dataclasses.replace(
        row, lines_before=none, bytes_before=none, errors_before=none, warnings_before=none, active_hours_before=none
    )


def _file(chance, row, days, *, risen) -> ev.FileSeries:
    lines = max(row.lines // 2, 1)
    rate = 0.005 * math.exp(chance.gauss(0, 0.2))
    errors = int(lines * rate * (8 if risen else 1))
    return ev.FileSeries(
        partition=row.partition,
        host=row.host,
        file=chance.choice(FILES),
        lines=lines,
        errors=errors,
        warnings=errors * 2,
        baseline_days=days,
        median_rate=rate if days else None,
    )


def _per_hour(whole):
    return [int(whole * (1 + math.sin((hour - 8) / 24 * 2 * math.pi) * 0.7)) for hour in range(24)]


def _in_hour(chance, lines, hour):
    return int(lines / 24 * (1 + math.sin((hour - 8) / 24 * 2 * math.pi) * 0.6) * math.exp(chance.gauss(0, 0.2)))


def _hours(chance, living, partitions):
    shares = {
        "info": 0.78,
        "none": 0.12,
        "debug": 0.06,
        "notice": 0.02,
        "warn": 0.014,
        "error": 0.0055,
        "fatal": 0.0005,
    }
    for partition in range(partitions):
        lines = sum(row.lines for row in living if row.partition == partition)
        for hour in range(24):
            whole = _in_hour(chance, lines, hour)
            for level, share in shares.items():
                if level in {"error", "fatal"} and hour in {14, 15}:
                    share *= 9  # noqa: PLW2901 - the incident of the day
                yield ev.HourCount(partition=partition, hour=hour, on_day=True, level=level, lines=int(whole * share))


def _patterns(chance, living, known):
    for number in range(60):
        level, template, example = TEMPLATES[number % len(TEMPLATES)]
        lines = int(math.exp(chance.gauss(6, 2))) + 1
        new, surging = number % 4 == 0, number % 7 == 1
        yield ev.PatternCount(
            pattern_id=f"{number:016x}",
            template=f"{template} #{number}",
            example=f"{DATE} 14:0{number % 10}:12 {chance.choice(living).host if living else 'h'} {example}",
            file=chance.choice(FILES),
            files=1 + number % 3,
            level=level,
            lines=lines,
            hosts=1 + number % 40,
            baseline_median=float(lines // 9) if known and not new else None,
            surge=2.3 if surging and known and not new else None,
            is_new=new and known,
        )


def _auth_kinds(chance, days):
    kinds = (("failed_password", 519, 40), ("invalid_user", 134, 12), ("pam_failure", 507, 45), ("accepted", 212, 205))
    for kind, times, usual in kinds:
        yield ev.AuthKind(kind=kind, times=times, before=tuple(usual + chance.randrange(9) for _ in range(days)))


def _auth_tops(chance):
    remotes = ("183.62.140.253", "187.141.143.180", "103.99.0.122", "112.95.230.3", "5.188.10.180", "185.190.58.151")
    for failed, remote in zip((286, 80, 40, 31, 22, 9), remotes, strict=True):
        accepted = 1 if remote.startswith("103") else 0
        yield ev.AuthTop(what="remote", key=remote, failed=failed, accepted=accepted, hosts=1 + failed % 5)
    for user, failed in (("root", 370), ("admin", 44), ("oracle", 12), ("support", 9), ("test", 5)):
        yield ev.AuthTop(what="user", key=user, failed=failed, accepted=0, hosts=3)
    yield ev.AuthTop(what="host", key="edge0005.ams.example.net", failed=519, accepted=212, hosts=1)


def _web_hours(chance):
    for status, share in (("2xx", 9126), ("3xx", 609), ("4xx", 215), ("5xx", 43)):
        for hour, requests in enumerate(_per_hour(share)):
            yield WebHourCount(_at(hour), status, requests, requests * 27_000)


def _web_tops(chance):
    paths = (
        "/wp-login.php",
        "/favicon.ico",
        "/robots.txt",
        "/api/v2/orders/9911/items?expand=price",
        "/.env",
        "/old/feed",
    )
    for kind in ("path404", "path5xx", "slowpath"):
        for place, path in enumerate(paths):
            yield ev.WebTop(kind=kind, key=path, times=900 // (place + 1) + len(kind))
    for number in range(8):
        yield ev.WebTop(kind="client", key=f"66.249.73.{number}", times=482 - 51 * number)
