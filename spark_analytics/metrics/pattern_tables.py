"""The tables of patterns: `fingerprints`, `patterns`, `pattern_daily` and `event_daily`. Pure."""

import datetime as dt
import math
import operator
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from spark_analytics.metrics import events, statistics
from spark_analytics.metrics.sign_ins import instant
from spark_analytics.metrics.statistics import grouped
from spark_analytics.patterns.cluster import REST
from spark_analytics.tables.day_tables import Row

NEW_DAYS = 30
"""Days after which a pattern that did not occur counts as new again."""

MIN_LINES, MIN_DAYS, EASE = 20, 3, 5
"""Minimum lines and baseline days of a surge; and the number added to both sides, so that a few lines after none are a
small surge."""

FILES_SHOWN = 3
"""Log files with most of its lines that are named for a pattern."""


class PatternLines(NamedTuple):
    """The lines of a pattern at one level today; `most` are the log files with most of its lines."""

    pattern_id: str
    level: str
    lines: int
    hosts: int
    files: int
    most: Sequence[str]


class PatternPlace(NamedTuple):
    """The lines of one masked line at one level in one log file today. Times are in seconds since 1970."""

    fingerprint: int
    level: str
    partition: int
    host: str
    file: str
    lines: int
    first_ts: int | None
    last_ts: int | None


def fingerprints(found: Sequence[tuple[int, str, int]], assigned: Iterable[tuple[str, str]]) -> list[Row]:
    """Table `fingerprints` of (fingerprint, text, lines) and, for each, its (pattern id, template)."""
    return [
        {"fingerprint": fingerprint, "text": text, "example": None, "lines": lines, "pattern_id": pattern_id}
        for (fingerprint, text, lines), (pattern_id, _) in zip(found, assigned, strict=True)
    ]


def daily(
    seen: Sequence[PatternLines], before: Mapping[str, Sequence[Row]], registry: Sequence[Row] | None, day: dt.date
) -> list[Row]:
    """Table `pattern_daily`; `before` are its days before, `registry` is the last table `patterns`, if there is one."""
    past = grouped((row for rows in before.values() for row in rows), operator.itemgetter("pattern_id", "level"))
    recent = {row["pattern_id"] for row in registry or () if (day - row["last_seen_date"]).days <= NEW_DAYS}
    days, made = len(before), []
    for one in sorted(seen):
        lines_before = [row["lines"] for row in past.get((one.pattern_id, one.level), ())]
        median = statistics.median_over_days(lines_before, days)
        enough = one.lines >= MIN_LINES and days >= MIN_DAYS
        is_new = one.pattern_id not in recent and one.pattern_id != REST.id
        made.append(
            {
                "pattern_id": one.pattern_id,
                "level": one.level,
                "lines": one.lines,
                "hosts": one.hosts,
                "files": one.files,
                "file": one.most[0] if one.most else None,
                "baseline_days": days,
                "baseline_median": median,
                "surge": math.log2((one.lines + EASE) / (median + EASE)) if enough and median is not None else None,
                "is_new": None if registry is None else is_new,
            }
        )
    return made


def registry(
    before: Sequence[Row],
    seen: Sequence[PatternLines],
    templates: Mapping[str, str],
    examples: Mapping[str, str],
    day: dt.date,
) -> list[Row]:
    """Table `patterns`: the one of the last day, updated with the patterns of `day`; `examples` by pattern id."""
    made: dict[str, dict[str, Any]] = {row["pattern_id"]: dict(row) for row in before}
    for pattern_id, group in grouped(seen, lambda one: one.pattern_id).items():
        most = {file for one in group for file in one.most}
        old = made.get(pattern_id, {})
        made[pattern_id] = {
            "pattern_id": pattern_id,
            "template": old.get("template") or templates.get(pattern_id, REST.template),
            "first_seen_date": old.get("first_seen_date") or day,
            "last_seen_date": day,
            "files": ", ".join(sorted(most)[:FILES_SHOWN]),
            "example": old.get("example") or examples.get(pattern_id),
        }
    return [made[pattern_id] for pattern_id in sorted(made)]


MAX_PLACES = 50
"""Maximum rows of table `event_daily` for one event or pattern: the log files with most of its lines."""

WATCHED_LEVELS = frozenset({"fatal", "error", "warn"})
"""Levels of new, returned and surging patterns whose log files are named."""


def watched(daily_rows: Sequence[Row], back: Collection[str] = ()) -> set[str]:
    """The ids of the patterns of table `pattern_daily` that are findings; `back` are those that returned."""
    return {
        row["pattern_id"]
        for row in daily_rows
        if row["level"] in WATCHED_LEVELS and (row["is_new"] or (row["surge"] or 0) >= 1 or row["pattern_id"] in back)
    }


def watched_lines(found: Sequence[Row], watched_ids: Collection[str]) -> list[int]:
    """The fingerprints of known events and of watched patterns, most lines first; `found` is table `fingerprints`."""
    wanted = (row for row in found if row["pattern_id"] in watched_ids or events.kind_of(row["text"] or ""))
    return [row["fingerprint"] for row in wanted]


def event_daily(places: Iterable[PatternPlace], found: Sequence[Row], watched_ids: Collection[str]) -> list[Row]:
    """Table `event_daily`: the log files of known events and of watched patterns, most lines first.

    `found` is table `fingerprints`. A line of a known event has a row of its kind, and one of its pattern if that is
    watched. Events of one kind with different subjects, such as devices, have different rows.
    """
    texts = {row["fingerprint"]: row for row in found}
    sums: dict[tuple[Any, ...], list[PatternPlace]] = {}
    for place in places:
        row = texts[place.fingerprint]
        example = row["example"] or ""
        if kind := events.kind_of(row["text"] or "", example):
            subject = events.subject_of(kind, example) or events.subject_of(kind, row["text"])
            sums.setdefault((kind, "", subject, *place[1:5]), []).append(place)
        if row["pattern_id"] in watched_ids:
            sums.setdefault(("", row["pattern_id"], "", *place[1:5]), []).append(place)
    made = [_event(key, group, texts) for key, group in sums.items()]
    made.sort(key=lambda row: (row["kind"], row["pattern_id"], -row["lines"], row["host"], row["file"], row["subject"]))
    of_each = grouped(made, lambda row: (row["kind"], row["pattern_id"]))
    return [row for group in of_each.values() for row in group[:MAX_PLACES]]


def _event(key: tuple[Any, ...], group: Sequence[PatternPlace], texts: Mapping[int, Row]) -> Row:
    names = ("kind", "pattern_id", "subject", "level", "partition", "host", "file")
    most = texts[max(group, key=lambda place: (place.lines, place.fingerprint)).fingerprint]
    times = [
        [time for time in column if time is not None] for column in zip(*(place[6:8] for place in group), strict=True)
    ]
    return dict(zip(names, key, strict=True)) | {
        "lines": sum(place.lines for place in group),
        "first_ts": instant(min(times[0], default=None)),
        "last_ts": instant(max(times[1], default=None)),
        "example": most["example"] or most["text"],
    }
