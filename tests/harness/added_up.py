"""Every number of a report of the demo's month, added up from the lines. Imports nothing of the report.

`Month` reads the archive's files. Its values have the names of `report.json`, so that both are compared leaf by leaf;
what is not added up stands in `NOT_ADDED`, with the reason.
"""

# ruff: noqa: E501 - tables of what each list has

import fnmatch
import gzip
import json
import re
from collections import Counter, defaultdict
from collections.abc import Iterator
from datetime import datetime
from html.parser import HTMLParser
from pathlib import Path
from statistics import median
from typing import Any
from zoneinfo import ZoneInfo

BASELINE = 7
LEVELS = ("fatal", "error", "warn", "notice", "info", "debug", "trace", "none")
ACCESS = re.compile(
    r'^(\S+) \S+ \S+ \[(..)/(...)/(....):(..:..:..) \+0000\] "GET (\S+) \S+" (\d+) (\d+) "-" "[^"]*" (\S+)$'
)
SHOP = re.compile(r"^(\S+T(..:..:..)\S*Z) (\S+) +\[[^]]*\] (.*)$")
SYSLOG = re.compile(r"^... .. (..:..:..) (\S+) ([^ :\[]+)(?:\[\d+\])?: +(.*)$")
SSHD = re.compile(r"^(Failed|Accepted) (\w+) for (?:invalid user )?(\S+) from (\S+) port")
MASKED = re.compile(
    r"(?:\b[0-9A-F]{6}(?=: to=))|\bu?\d[\d.]*|/products/\S+|(?<=invalid user )\S+|(?<=standby )\S+|/srv/shop|'[\w-]+'|sent$|<[^<>]*>"
)
EVENTS = (
    ("io_error", r"I/O error, dev (\S+),"),
    ("oom_kill", r"Out of memory: Killed process \d+ \((\w+)\)"),
    ("segfault", r"^(\w+)\[\d+\]: segfault at "),
    ("unit_failed", r"^(\S+\.service): Failed with result "),
)


class Line:
    """One line of the demo: when, level, shape, and the sign-in, request or event in it."""

    def __init__(self, host: str, file: str, text: str) -> None:
        self.host, self.file, self.text = host, file, text
        self.sign_in: tuple[str, str, str, str] | None = None
        self.request: tuple[str, str, str, int, float] | None = None
        self.event: tuple[str, str] | None = None
        self.level = "none"
        if found := ACCESS.match(text):
            client, _, _, _, self.clock, target, status, size, seconds = found.groups()
            self.level = {"5": "error", "4": "warn"}.get(status[0], "info")
            self.shape = "GET"
            self.request = (client, target.partition("?")[0], status, int(size), float(seconds))
            return
        if found := SHOP.match(text):
            self.clock, self.level, message = found[2], found[3].lower(), found[4]
        else:
            self.clock, _, program, message = SYSLOG.match(text).groups()
            if program == "sshd" and (found := SSHD.match(message)):
                self.sign_in = found.groups()
            for kind, pattern in EVENTS:
                if found := re.search(pattern, message):
                    self.event = (kind, found[1])
        self.shape = MASKED.sub("#", message.partition(" ssh2")[0])

    @property
    def hour(self) -> int:
        return int(self.clock[:2])


class Day:
    """The lines and the manifest of one day."""

    def __init__(self, archive: Path, date: str) -> None:
        self.date, self.lines = date, []
        self.files: dict[tuple[str, str], list[Line]] = {}
        self.bytes: Counter[str] = Counter()
        self.partitions: dict[str, int] = {}
        self.stored = 0
        manifest = b"".join(
            path.read_bytes() for path in sorted((archive / "_manifest" / f"date={date}").glob("*.jsonl"))
        )
        self.listed = [json.loads(line) for line in manifest.splitlines()]
        self.lost = sum(gap["end"] - gap["start"] for one in self.listed for gap in one["gaps"])
        for path in sorted((archive / f"date={date}").glob("partition=*/host=*/*.gz")):
            host = path.parent.name.removeprefix("host=")
            file = "/" + path.name.rpartition("-")[0].replace("~", "/")
            stored = path.read_bytes()
            content = gzip.decompress(stored)
            self.stored += len(stored)
            self.bytes[host] += len(content)
            self.partitions[host] = int(path.parent.parent.name.removeprefix("partition="))
            found = [Line(host, file, text) for text in content.decode().splitlines()]
            assert len(found) == content.count(b"\n")
            self.files[host, file] = found
            self.lines += found

    def of(self, host: str) -> list[Line]:
        return [line for line in self.lines if line.host == host]

    def hosts(self) -> list[str]:
        return sorted({host for host, _ in self.files})

    def failed(self) -> list[Line]:
        return [
            line
            for line in self.lines
            if line.sign_in and line.sign_in[0] == "Failed" and line.sign_in[1] == "password"
        ]

    def shapes(self) -> Counter[tuple[str, str]]:
        return Counter((line.shape, line.level) for line in self.lines)

    def classes(self) -> Counter[str]:
        return Counter(f"{line.request[2][0]}xx" for line in self.lines if line.request)


def bad(lines: list[Line]) -> int:
    return sum(line.level in {"error", "fatal"} for line in lines)


def warned(lines: list[Line]) -> int:
    return sum(line.level == "warn" for line in lines)


def by_hour(lines: list[Line]) -> list[int]:
    hours = Counter(line.hour for line in lines)
    return [hours[hour] for hour in range(24)]


def tops(keys: Any, most: int = 20) -> list[tuple[str, int]]:
    return sorted(Counter(keys).items(), key=lambda entry: (-entry[1], entry[0]))[:most]


class Month:
    """All days of an archive."""

    def __init__(self, archive: Path) -> None:
        names = sorted(path.name.removeprefix("date=") for path in (archive / "_manifest").glob("date=*"))
        self.days = [Day(archive, name) for name in names]

    def report(self, date: str) -> dict[str, Any]:
        """What `report.json` of `date` must have."""
        place = next(n for n, day in enumerate(self.days) if day.date == date)
        day, before = self.days[place], self.days[max(0, place - BASELINE) : place]
        enough = len(before) >= 3
        lines, hosts, failed = day.lines, day.hosts(), day.failed()
        known = sorted({host for one in (day, *before) for host in one.hosts()})
        size = sum(day.bytes.values())
        usual = {host: median(len(one.of(host)) for one in before) if enough else None for host in known}
        silent = [host for host in known if host not in hosts and enough]
        new = [host for host in hosts if before and not any(host in one.hosts() for one in before)]
        weekdays = [self.days[place - back] for back in (28, 21, 14, 7) if place >= back]
        weekdays = weekdays if len(weekdays) == 4 else []
        requests = [line for line in lines if line.request]
        signs = [line for line in lines if line.sign_in]
        rates = [bad(one.lines) / len(one.lines) for one in before]
        largest = sorted(hosts, key=lambda host: (-day.bytes[host], host))
        numbers = sorted({day.partitions[host] for host in hosts})
        shapes, earlier = day.shapes(), [one.shapes() for one in self.days[max(0, place - 30) : place]]
        seen = {shape for one in earlier for shape, _ in one}
        return {
            "totals": {
                "lines": len(lines), "bytes": size, "bytes_stored": day.stored, "partitions": len(numbers),
                "hosts": len(hosts), "files": len(day.files), "errors": bad(lines), "warnings": warned(lines),
                "late_lines": 0, "no_ts_lines": 0, "other_day_lines": 0,
                "lines_before": [len(one.lines) for one in before],
                "bytes_before": [sum(one.bytes.values()) for one in before],
                "errors_before": [bad(one.lines) for one in before],
                "hosts_before": [len(one.hosts()) for one in before],
                "weekdays": {
                    "lines": [len(one.lines) for one in weekdays],
                    "bytes": [sum(one.bytes.values()) for one in weekdays],
                    "errors": [bad(one.lines) for one in weekdays],
                    "hosts": [len(one.hosts()) for one in weekdays],
                },
            },
            "history": {"wanted": BASELINE},
            "completeness": {
                "segments": len(day.listed), "segments_read": len(day.files),
                "lines_manifest": sum(one["lines"] for one in day.listed), "lines_counted": len(lines),
                "bytes_manifest": sum(one["bytes_raw"] for one in day.listed), "bytes_counted": size,
                "gap_bytes": day.lost, "duplicates": 0, "joins": 0, "offset_gap_bytes": 0,
                "hosts": len(hosts) + len(silent), "doubled_bytes": 0, "doubled_lines": 0,
                "incomplete_hosts": bool(day.lost) + 0, "trouble_count": bool(day.lost) + 0,
                "by_status": [
                    {"hosts": number}
                    for number in (bool(day.lost) + 0, len(silent), len(hosts) - bool(day.lost)) if number
                ],
                "cells": [{"hosts": 1}] * (len(hosts) + len(silent)),
            },
            "hosts": {
                "silent": [
                    {"partition": next(one.partitions[host] for one in reversed(before) if host in one.partitions),
                     "lines": 0, "median_lines": usual[host]} for host in silent
                ],
                "silent_count": len(silent), "new_count": len(new), "unusual_count": sum(
                    bool(usual.get(host)) and max(len(day.of(host)), usual[host]) >= 1000
                    and not 1 / 3 < len(day.of(host)) / usual[host] < 3 for host in hosts
                ),
                "largest": [
                    {
                        "partition": day.partitions[host], "files": sum(name == host for name, _ in day.files),
                        "lines": len(day.of(host)), "bytes": day.bytes[host], "errors": bad(day.of(host)),
                        "warnings": warned(day.of(host)), "share_of_bytes": day.bytes[host] / size,
                        "median_lines": usual[host], "factor": len(day.of(host)) / usual[host] if usual[host] else None,
                        "lines_before": [len(one.of(host)) for one in before],
                        "weekday_median": median(len(one.of(host)) for one in weekdays) if weekdays else None,
                    } for host in largest
                ],
            },
            "errors": self._errors(day, before, enough) | {
                "lines": len(lines), "errors": bad(lines), "rate": bad(lines) / len(lines), "rates_before": rates,
                "median_rate": median(rates) if enough else None, "warning_rate": warned(lines) / len(lines),
            },
            "patterns": {
                "distinct": len({shape for shape, _ in shapes}),
                "new_count": sum(shape not in seen for shape, _ in shapes) if enough else None,
                "new_bad_count": sum(s not in seen and level in {"error", "warn"} for s, level in shapes) if enough else None,
                "noisiest": [
                    {"lines": number, "hosts": len(set(self._hosts(day, key))), "files": len({line.file for line in self._of(day, key)}),
                     "baseline_median": median(one.shapes()[key] for one in before) if before else None}
                    for key, number in sorted(shapes.items(), key=lambda entry: -entry[1])[:20]
                ],
                "events": [
                    {"lines": sum(len(found) for _, found in group), "places": [self._place(key, found, before) for key, found in group]}
                    for group in self._events(day)
                ],
            },
            "auth": {
                "kinds": [
                    {"times": self._kind(day, kind), "before": [self._kind(one, kind) for one in before],
                     "median": median(self._kind(one, kind) for one in before) if enough else None}
                    for kind in ("Accepted", "Failed") if any(self._kind(one, kind) for one in (day, *before))
                ],
                "remotes": len({line.sign_in[3] for line in failed}),
                **{
                    f"top_{what}s": [
                        {"failed": number, "accepted": sum(key_of(line) == key for line in signs if line.sign_in[:2] == ("Accepted", "password")),
                         "hosts": len({line.host for line in signs if line.sign_in[1] == "password" and key_of(line) == key})}
                        for key, number in tops(map(key_of, failed))
                    ]
                    for what, key_of in (("remote", lambda line: line.sign_in[3]), ("user", lambda line: line.sign_in[2]), ("host", lambda line: line.host))
                },
                "methods": sorted((
                    {"accepted": sum(line.sign_in[0] == "Accepted" for line in group), "failed": sum(line.sign_in[0] == "Failed" for line in group),
                     "users": len({line.sign_in[2] for line in group}), "addresses": len({line.sign_in[3] for line in group})}
                    for method in {line.sign_in[1] for line in signs}
                    for group in [[line for line in signs if line.sign_in[1] == method]]
                ), key=lambda one: (-one["accepted"], -one["failed"])),
                **self._after_failures(signs),
            },
            "web": {
                "requests": len(requests), "bytes": sum(line.request[3] for line in requests),
                "statuses": [
                    {
                        "requests": number, "share": number / len(requests), "before": [one.classes()[name] for one in before],
                        "median": median(one.classes()[name] for one in before) if enough else None,
                        "hours": by_hour([line for line in requests if line.request[2][0] == name[0]]),
                    } for name, number in sorted(day.classes().items())
                ],
                "codes": [{"times": number} for _, number in tops(line.request[2] for line in requests)],
                "not_found": [{"times": n} for _, n in tops(line.request[1] for line in requests if line.request[2] == "404")],
                "failing": [{"times": n} for _, n in tops(line.request[1] for line in requests if line.request[2][0] == "5")],
                "slow": [{"times": n} for _, n in tops(line.request[1] for line in requests if line.request[4] >= 1)],
                "clients_top": [{"times": n} for _, n in tops(line.request[0] for line in requests)],
            },
            "volume": {
                "levels": [
                    {"lines": len(found), "hours": by_hour(found)}
                    for level in LEVELS if (found := [line for line in lines if line.level == level])
                ],
                "partitions": [self._partition(day, number, size, len(numbers)) for number in numbers],
                "partition_skew": max(self._partition(day, n, size, len(numbers))["skew"] for n in numbers),
                "untimed_count": 0, "untimed_lines": 0,
                "host_hours": [
                    {"lines": len(day.of(host)), "hours": by_hour(day.of(host))}
                    for host in sorted(hosts, key=lambda host: (-len(day.of(host)), host))
                ],
            },
        }  # fmt: skip

    def _errors(self, day: Day, before: list[Day], enough: bool) -> dict[str, Any]:
        made, compared, above, chance = [], 0, 0, 0.0
        for key, found in day.files.items():
            rates = [bad(one.files[key]) / len(one.files[key]) for one in before if one.files.get(key)]
            rate = bad(found) / len(found)
            if len(found) >= 100 and len(rates) >= 3 and (rate or any(rates)):
                compared, above, chance = compared + 1, above + (rate > max(rates)), chance + 1 / (len(rates) + 1)
            if not rate:
                continue
            known = rates if enough else []
            usual = median(rates) if known else None
            row = {"partition": day.partitions[key[0]], "lines": len(found), "errors": bad(found), "rate": rate,
                   "median_rate": usual, "lowest": min(known, default=None), "highest": max(known, default=None),
                   "factor": rate / usual if usual else None}  # fmt: skip
            made.append((key, row))
        made.sort(key=lambda one: (-one[1]["errors"], one[0]))
        risen = [row for _, row in made if row["highest"] is not None and row["errors"] >= 5 and row["lines"] >= 100
                 and row["rate"] >= 1.5 * row["median_rate"] and row["rate"] > row["highest"]]  # fmt: skip
        risen.sort(key=lambda row: row["median_rate"] * row["lines"] - row["errors"])
        return {"most": [row for _, row in made], "risen": risen, "risen_count": len(risen),
                "chance": {"compared": compared, "above_all": above, "by_chance": round(chance, 1)}}  # fmt: skip

    @staticmethod
    def _of(day: Day, key: tuple[str, str]) -> list[Line]:
        return [line for line in day.lines if (line.shape, line.level) == key]

    def _hosts(self, day: Day, key: tuple[str, str]) -> list[str]:
        return [line.host for line in self._of(day, key)]

    @staticmethod
    def _kind(day: Day, kind: str) -> int:
        return sum(bool(line.sign_in) and line.sign_in[0] == kind for line in day.lines)

    @staticmethod
    def _place(key: Any, lines: list[Line], before: list[Day]) -> dict[str, Any]:
        def on(day: Day) -> int:
            return sum(
                line.event is not None and (line.event[0], line.host, line.event[1]) == key for line in day.lines
            )

        return {"lines": len(lines), "lines_before": [on(day) for day in before]}

    @staticmethod
    def _events(day: Day) -> list[list[tuple[Any, list[Line]]]]:
        places: dict[Any, list[Line]] = defaultdict(list)
        for line in day.lines:
            if line.event:
                places[line.event[0], line.host, line.event[1]].append(line)
        kinds: dict[str, list[Any]] = defaultdict(list)
        for key, found in sorted(places.items(), key=lambda one: (-len(one[1]), one[0])):
            kinds[key[0]].append((key, found))
        return [
            kinds[kind] for kind in sorted(kinds, key=lambda kind: (-sum(len(found) for _, found in kinds[kind]), kind))
        ]

    @staticmethod
    def _after_failures(signs: list[Line]) -> dict[str, Any]:
        made = []
        for line in signs:
            if line.sign_in[:2] == ("Accepted", "password"):
                failed = [
                    one
                    for one in signs
                    if one.sign_in[2:] == line.sign_in[2:] and one.sign_in[0] == "Failed" and one.clock <= line.clock
                ]
                if len(failed) >= 5:
                    made.append({"accepted": 1, "failed": len(failed)})
        return {"after_failures": made, "after_failures_count": len(made)}

    @staticmethod
    def _partition(day: Day, number: int, size: int, partitions: int) -> dict[str, Any]:
        hosts = [host for host in day.hosts() if day.partitions[host] == number]
        lines = [line for line in day.lines if line.host in hosts]
        part = sum(day.bytes[host] for host in hosts)
        return {"partition": number, "hosts": len(hosts), "lines": len(lines), "bytes": part, "errors": bad(lines),
                "share": part / size, "skew": round(part / size * partitions, 3), "hours": by_hour(lines),
                "top_host_share": max(day.bytes[host] for host in hosts) / part}  # fmt: skip

    def week(self, dates: list[str]) -> dict[str, Any]:
        """What the JSON of the week of `dates` must have; dates without lines are 0."""
        days = {day.date: day for day in self.days if day.date in dates}
        names = ("lines", "bytes", "errors", "failed_passwords", "missing_bytes")
        rows = {
            date: (len(d.lines), sum(d.bytes.values()), bad(d.lines), len(d.failed()), d.lost)
            for date, d in days.items()
        }
        reports = {date: self.report(date) for date in days}

        def spread(counts: dict[str, int]) -> dict[str, Any]:
            return {"now": sum(counts.values()), "days": [counts.get(date, 0) for date in dates]}

        def ranked(of: Any) -> list[dict[str, Any]]:
            whole: dict[str, dict[str, int]] = defaultdict(dict)
            for date, day in days.items():
                for key, number in Counter(of(day)).items():
                    whole[key][date] = number
            return [spread(whole[key]) for key in sorted(whole, key=lambda key: (-sum(whole[key].values()), key))[:20]]

        return {
            "days": [
                {**dict(zip(names, rows[date], strict=True)), "hosts": len(day.hosts()),
                 "new_patterns": reports[date]["patterns"]["new_bad_count"]} for date, day in days.items()
            ],
            "totals": [spread({date: row[n] for date, row in rows.items()}) for n, _ in enumerate(names)],
            "host_count": len({host for day in days.values() for host in day.hosts()}),
            "hosts": ranked(lambda day: [line.host for line in day.lines]),
            "remotes": ranked(lambda day: [line.sign_in[3] for line in day.failed()]),
        }  # fmt: skip


NOT_ADDED = {
    "v": "the version of the shape",
    "run.*": "the program and its run, not the lines",
    "*.z": "orders a list; on no page",
    "*gini": "on no page",
    "*.surge": "orders a list; on no page",
    "completeness.seq_missing": "numbers of the streams, which the demo makes up; on the page with troubles only",
    "completeness.troubles.*": "made by hand in the demo: one gap of 2,048 bytes, which `gap_bytes` has",
    "completeness.incomplete.*": "the same",
    "web.clients": "an estimate, and said to be one; compared within 5 %",
    "web.latency_*": "about, and said to be so; compared within the width of a step",
    "verdict.findings.*.lines": "compared with the sentence, and the sentence with the lines",
    "verdict.findings.*.trend.*": "see `trend_differences`",
    "patterns.*.lines_before.*": "the same numbers for the patterns of findings",
    "same_weekdays": "the number of reports, not of lines",
    "totals.*.days_before.*": "compared with the week before in the test",
    "hosts.*.days_before.*": "the same",
    "remotes.*.days_before.*": "the same",
    "*.compared": "compared with the weekdays that both weeks have in the test",
    "patterns.noisiest.*.places.*.lines": "of some patterns; see `places_differences`",
    "patterns.new.*": "rows of `patterns.noisiest` again",
    "patterns.back.*": "the same",
    "patterns.surging.*": "the same",
    "patterns.gone.*": "of days before",
    "patterns.*_count": "by rules of 14 and 30 days; the story of the last day has its own test",
    "patterns.events.*.patterns": "on no page",
    "hosts.new.*": "rows of `hosts.largest` again",
    "hosts.silent.*.quiet_hours": "on no page",
    "days_before": "the number of reports, not of lines",
    "new_count": "compared through `days`",
    "*_patterns.*": "texts; their lines are those of the days' pages",
}
"""Numbers of JSON that the script does not add up, and why."""


def leaves(value: Any, path: str = "") -> Iterator[tuple[str, float]]:
    """Every number of a JSON value with its path, as `volume.levels.0.lines`."""
    if isinstance(value, dict):
        for name, inner in value.items():
            yield from leaves(inner, f"{path}.{name}" if path else name)
    elif isinstance(value, list):
        for place, inner in enumerate(value):
            yield from leaves(inner, f"{path}.{place}")
    elif isinstance(value, int | float) and not isinstance(value, bool):
        yield path, value


def _ordered(report: dict[str, Any]) -> dict[str, Any]:
    """Patterns with the same number of lines in an order that does not depend on their identifiers."""
    if "noisiest" not in report.get("patterns", {}):
        return report
    rows = sorted(
        report["patterns"]["noisiest"], key=lambda row: (-row["lines"], row["hosts"], row["baseline_median"] or 0)
    )
    return report | {"patterns": report["patterns"] | {"noisiest": rows}}


def places_differences(shown: dict[str, Any]) -> list[str]:
    """Patterns whose places have another number of lines together."""
    rows = [row for name in ("new", "surging", "back", "noisiest") for row in shown["patterns"][name] if row["places"]]
    return [
        f"{row['template']}, {row['level']}: {row['lines']}"
        for row in rows
        if row["lines"] != sum(place["lines"] for place in row["places"])
    ]


def trend_differences(shown: dict[str, Any], day: Day, before: list[Day]) -> list[str]:
    """Trends of findings whose numbers by day are others than those added up, or that nothing adds up."""
    days, wrong = [*before, day], []
    for finding in shown["verdict"]["findings"]:
        trend = finding["trend"]
        if trend is None:
            continue
        added = [_of_trend(finding, one) for one in days]
        if len(added) != len(trend["values"]) or any(
            abs(one - other) > 1e-9 for one, other in zip(added, trend["values"], strict=True)
        ):
            wrong.append(f"{finding['text']}: {trend['values']} shown, {added} added up")
    return wrong


def _of_trend(finding: dict[str, Any], day: Day) -> float:
    """The number of a finding on a day."""
    kind, hosts, names = finding["kind"], finding["hosts"], finding["names"]
    if kind in {"silent", "new_host", "unusual_volume"}:
        return sum(line.host in hosts for line in day.lines)
    if kind == "event":
        mine = [line for line in day.lines if line.event and line.host in hosts and line.event[0] == names[0]]
        return sum(names[1:] in ([], [line.event[1]]) for line in mine)
    if kind == "error_rate":
        return sum(bad(day.files.get((host, file), [])) for host, _, file in (name.partition(" ") for name in names))
    if kind in {"sign_in", "failed_passwords"} or names[:1] == ["failed_password"]:
        return len(day.failed())
    if kind == "web_errors":
        classes = day.classes()
        return classes["5xx"] / sum(classes.values())
    if kind in {"new_pattern", "surging_pattern", "back_pattern"}:
        return _lines_of_pattern(finding, day)
    raise ValueError(f"no rule for {kind}")


def _lines_of_pattern(finding: dict[str, Any], day: Day) -> float:
    """Lines of the pattern in the sentence, by the longest text between its masks."""
    texts = re.split(r"<[^<>]*>|…", finding["text"].partition("“")[2].rpartition("”")[0])
    longest = max((text.strip() for text in texts), key=len)
    hosts = finding["hosts"] or day.hosts()
    return sum(longest in line.text for line in day.lines if line.host in hosts)


def differences(shown: Any, added: Any) -> list[str]:
    """Where the numbers of a report are others than those added up, or are known to neither script nor list."""
    theirs, ours = dict(leaves(_ordered(shown))), dict(leaves(_ordered(added)))
    wrong = [f"{path}: {theirs.get(path)} shown, {number} added up" for path, number in ours.items()
             if path not in theirs or abs(theirs[path] - number) > 1e-9 * max(1, abs(number))]  # fmt: skip
    unknown = [path for path in theirs.keys() - ours.keys() if not any(fnmatch.fnmatch(path, one) for one in NOT_ADDED)]
    return wrong + [f"{path}: {theirs[path]} is not added up" for path in sorted(unknown)]


class Words(HTMLParser):
    """The words of a page by section. Example lines, commands, names of rows and scales are left out; tooltips are not."""

    _LEFT_OUT = frozenset({"pre", "code", "style", "script", "nav", "dl", "summary", "title", "text"})
    _VOID = frozenset({"meta", "link", "rect", "path", "circle", "polyline", "line", "br"})

    def __init__(self, page: str) -> None:
        super().__init__()
        self.words: dict[str, list[str]] = defaultdict(list)
        self._section = ""
        self._open: list[tuple[str, bool]] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        if tag == "section":
            self._section = given.get("id") or given.get("aria-label") or "section"
        if tag not in self._VOID:
            is_tooltip = tag == "title" and self._section  # the head's title has no section before it
            is_scale = given.get("class") in {"ticks", "scale"}
            self._open.append((tag, is_scale or (tag in self._LEFT_OUT and not is_tooltip)))

    def handle_endtag(self, tag: str) -> None:
        while tag not in self._VOID and self._open and self._open.pop()[0] != tag:
            pass

    def handle_data(self, data: str) -> None:
        if data.strip() and not any(out for _, out in self._open):
            self.words[self._section].append(" ".join(data.split()))


RULES = (
    "Compared with the median of the 7 days before, and with the same weekday of the 4 weeks before.",
    "At least 1.5 times the median, above the highest day before, in at least 100 lines with 5 errors.",
    "New: not seen for 30 days. Back: seen before, but not for 14 days.",
    "at least twice the usual, from 20 lines on.",
    ", 95 % within", ", 99 % within", "of 7 days",
)  # fmt: skip
"""Numbers of rules, which no line changes."""

NAMES = re.compile(
    r"“[^”]*”|<[^<>]*>|/\S+|\b\d+(?:\.\d+){3}\b|\b\dxx\b|\b2\d\d\d-W?\d\d(?:-\d\d)?\b|\b\d\d-\d\d\b|\b\d[\d,]*\+"
)
"""Quoted patterns, paths, addresses, status classes, dates; the fewest lines of a shade, which have a test of their own."""

NUMBER = re.compile(
    r"(?<![\w.])[+\N{MINUS SIGN}-]?\d[\d,:]*(?:\.\d+)?(?: (?:%|[KMGT]iB|B|ms|s)(?!\w)|\N{MULTIPLICATION SIGN})?"
)


def size_of(number: float) -> str:
    """1.5 KiB."""
    for place, unit in enumerate(("B", "KiB", "MiB", "GiB")):
        if number < 1024 ** (place + 1):
            return f"{number:,} B" if not place else f"{number / 1024**place:,.1f} {unit}"
    raise ValueError(number)


def forms(number: float) -> set[str]:
    """How a number may be shown: as a count, a size, a share, a factor, a latency."""
    made = {
        f"{number:,.0f}",
        f"{number:,.1f}",
        f"{number:,.1f}\N{MULTIPLICATION SIGN}",
        f"{number:,.0f}\N{MULTIPLICATION SIGN}",
    }
    made |= {f"{number:,.0f} ms", f"{number / 1000:,.2f} s"}
    if number >= 0 and number == int(number):
        made |= {size_of(int(number))}
    if 0 <= number <= 1:
        made |= {f"{100 * number:.1f} %", f"{100 * number:.2f} %", f"{100 * number:.0f} %"}
    return made


def changes(now: float, before: float | None) -> set[str]:
    """How a change may be shown."""
    if not before:
        return set()
    percent = round(100 * (now - before) / before)
    sign = {1: "+", 0: "", -1: "\N{MINUS SIGN}"}[(percent > 0) - (percent < 0)]
    return forms(now / before) | {f"{sign}{abs(percent):,} %", f"{percent:+,} %"}


def unknown(text: str, known: set[str], clocks: set[str]) -> list[str]:
    """The numbers of a text that are in neither set."""
    for rule in RULES:
        text = text.replace(rule, " ")
    found = (number.rstrip(",:") for number in NUMBER.findall(NAMES.sub(" ", text)))
    return [number for number in found if number not in known and number not in clocks]


def known_numbers(*values: Any) -> set[str]:
    """All forms of all numbers in values."""
    return {form for value in values for _, number in leaves(value) for form in forms(number)}


def clocks_of(day: Day, zone: str = "UTC") -> set[str]:
    """The minutes that have a line, and the hours of tooltips, as a clock in `zone` shows them."""
    minutes = {line.clock[:5] for line in day.lines} | {f"{hour:02}:00" for hour in range(24)}
    moments = [datetime.fromisoformat(f"{day.date}T{minute}:00+00:00") for minute in minutes]
    return {f"{moment.astimezone(ZoneInfo(zone)):%H:%M}" for moment in moments}


BAD = {"fatal", "error", "warn"}


def trends_of(shown: dict[str, Any]) -> list[Any]:
    """The numbers that the charts of findings have, and their usual ones."""
    values = [finding["trend"]["values"] for finding in shown["verdict"]["findings"] if finding["trend"]]
    return [*values, *([median(each[:-1])] for each in values if each[1:])]


def numbers_of_findings(report: dict[str, Any] | None) -> set[str]:
    """The numbers in the sentences of findings, which the sections with the details hold true."""
    findings = report["verdict"]["findings"] if report else []
    return set(unknown(" | ".join(one["text"] for one in findings), set(), set()))


SECTIONS = {
    "Complete?": ("completeness", "hosts", "totals"), "completeness": ("completeness",), "hosts": ("hosts",),
    "findings": ("verdict",), "hours": ("volume", "totals"),
    "Totals": ("totals", "errors"), "errors": ("errors",), "patterns": ("patterns",), "sign-ins": ("auth",),
    "web": ("web",), "volume": ("volume", "totals"), "largest": ("hosts", "patterns", "totals"), "run": (),
}  # fmt: skip
"""The parts of `report.json` whose numbers a section of the page may have; others may have all."""


def page_differences(
    page: str,
    shown: dict[str, Any],
    added: dict[str, Any],
    day: Day,
    days_before: list[Day],
    yesterday: dict[str, Any] | None,
) -> list[str]:
    """The numbers of a day's page that were not added up, by section."""
    added = added | {"verdict": {}}
    excused = {path: number for path, number in leaves(shown) if any(fnmatch.fnmatch(path, one) for one in NOT_ADDED)}
    totals, lines = added["totals"], len(day.lines)
    more = known_numbers(0)
    for name in ("lines", "bytes", "hosts", "errors"):
        before, weekdays = totals[f"{name}_before"], totals["weekdays"][name]
        more |= changes(totals[name], before[-1] if before else None)
        more |= changes(totals[name], median(weekdays) if weekdays else None)
    extra = {
        "volume": known_numbers(by_hour(day.lines), totals["other_day_lines"], len(day.hosts())),
        "hours": known_numbers(by_hour(day.lines), by_hour([line for line in day.lines if line.level in BAD]), 0),
        "findings": numbers_of_findings(shown) | numbers_of_findings(yesterday) | known_numbers(trends_of(shown)),
        "web": known_numbers(by_hour([line for line in day.lines if line.request])),
        "largest": known_numbers([number / lines for number in day.shapes().values()]),
        "sign-ins": known_numbers(
            [[min(kind["before"]), max(kind["before"])] for kind in added["auth"]["kinds"] if kind["before"]]
        ),
    }
    wrong, clocks = [], clocks_of(day, shown["run"]["timezone"])
    classes = [one.classes() for one in (day, *days_before)]
    extra["Worth checking?"] = known_numbers(
        median(one["5xx"] / sum(one.values()) for one in classes[1:]) if classes[1:] else 0
    )
    for section, words in Words(page).words.items():
        parts = SECTIONS.get(section, tuple(added))
        known = known_numbers(
            *(added[part] for part in parts), *(n for path, n in excused.items() if path.partition(".")[0] in parts)
        )
        known |= extra.get(section, set()) | (more if section == "Totals" else {"0"})
        known |= (
            {str(number) for number in range(12)} if section == "Worth checking?" else set()
        )  # its number of findings
        known |= (
            known_numbers(shown["history"]["wanted"], len(shown["history"]["days"]), 3)
            if section in {"hosts", "Worth checking?"}
            else set()
        )
        known |= (
            set(re.findall(r"\d+", " ".join(str(entry.get("key")) for entry in shown["web"]["codes"])))
            if section == "web"
            else set()
        )
        wrong += [f"{section}: {number}" for number in unknown(" | ".join(words), known, clocks)]
    return wrong
