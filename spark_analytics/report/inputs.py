"""The evidence of a report: rows of the tables as plain values, before they are evaluated.

`*_before` are one number for each day of `Evidence.before`, oldest first, 0 where the tables have nothing of that day.
Errors include fatal lines. Bytes are raw bytes, hours are UTC.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from spark_analytics.tables.day_tables import HourCell, WebHourCount, WebSums


@dataclass(frozen=True, slots=True, kw_only=True)
class HostAudit:
    """A host's account: what the manifests list against what was read."""

    partition: int
    host: str
    segments: int
    lines_manifest: int
    lines_counted: int
    bytes_manifest: int
    bytes_counted: int
    gap_bytes: int
    status: str  #: the worst of its troubles' kinds, or `complete`


@dataclass(frozen=True, slots=True, kw_only=True)
class RedactedRule:
    """How often a rule of a host's redaction fired."""

    host: str
    rule: str
    places: int
    files: int  #: log files in which it fired


@dataclass(frozen=True, slots=True, kw_only=True)
class Trouble:
    """One thing in the archive that differs from its manifests."""

    kind: str  #: one of `model.TROUBLES`
    partition: int
    host: str
    file: str
    path: str  #: of the segment in the archive; of an unreadable line `<manifest>:<number>`
    lines_manifest: int = 0
    lines_counted: int = 0
    bytes_manifest: int = 0
    bytes_counted: int = 0
    detail: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Account:
    """The account of a day: sums of the manifests and of the files on disk."""

    closed: bool
    open_collectors: tuple[str, ...] = ()
    torn_manifests: tuple[str, ...] = ()
    removed_hosts: tuple[str, ...] = ()  #: whose lines of the day retention by size removed: no total counts them
    left_out_hosts: tuple[str, ...] = ()  #: whose text is too large for its stored bytes: no total counts it
    open_files: int = 0
    open_bytes: int = 0
    repeated_lines: int = 0  #: manifest lines that a later one for the same path replaced
    segments: int = 0
    segments_read: int = 0
    lines_manifest: int = 0
    lines_counted: int = 0
    bytes_manifest: int = 0
    bytes_counted: int = 0
    bytes_stored: int = 0
    gap_bytes: int = 0
    doubled_bytes: int = 0  #: that an earlier segment holds, too: the totals count them twice
    doubled_lines: int = 0  #: where a part of a segment is doubled, its share of the lines
    duplicates: int = 0
    joins: int = 0
    offset_gap_bytes: int = 0  #: of sources between two spans of the day, that no recorded gap explains
    seq_missing: int = 0  #: numbers of the streams that no segment's range covers
    hosts: tuple[HostAudit, ...] = ()
    trouble_counts: Mapping[str, int] = field(default_factory=dict)  #: all of them by kind; `troubles` may be cut
    troubles: tuple[Trouble, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class HostSeries:
    """A host's day, and its days before."""

    partition: int
    host: str
    files: int
    lines: int
    bytes: int
    errors: int
    warnings: int
    late_lines: int
    no_ts_lines: int
    active_hours: int
    last_arrival: str | None  #: RFC 3339: when JetStream stored its last block
    lines_before: tuple[int, ...]
    bytes_before: tuple[int, ...]
    errors_before: tuple[int, ...]
    warnings_before: tuple[int, ...]
    active_hours_before: tuple[int, ...]
    lines_weekdays: tuple[int, ...] = ()  #: on the same weekday of the weeks before, oldest first


@dataclass(frozen=True, slots=True, kw_only=True)
class FileSeries:
    """One log file with error lines today, and its usual rate."""

    partition: int
    host: str
    file: str
    lines: int
    errors: int
    warnings: int
    baseline_days: int  #: days before that have tables
    median_rate: float | None  #: of errors / lines on these days; None: there is none
    rates_before: tuple[float, ...] = ()  #: errors / lines of the days before on which it had lines
    errors_before: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class UntimedFile:
    """A log file with lines, none of which has a time in a known format."""

    partition: int
    host: str
    file: str
    lines: int  #: without a time


@dataclass(frozen=True, slots=True, kw_only=True)
class RateChance:
    """How many log files are above all their days before, and how many would be by chance."""

    compared: int = 0  #: log files with enough lines today, enough days before, and errors on any of these days
    above_all: int = 0
    by_chance: float = 0.0  #: 1 in (days before + 1) of each, if no day differs from the others


@dataclass(frozen=True, slots=True, kw_only=True)
class WeekdayTotals:
    """Sums of the same weekday of the four weeks before, oldest first, or none with fewer weeks."""

    days: tuple[str, ...] = ()
    lines: tuple[int, ...] = ()
    bytes: tuple[int, ...] = ()
    errors: tuple[int, ...] = ()
    hosts: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class HourCount:
    """Lines of one level in one partition and hour."""

    partition: int
    hour: int  #: 0 to 23
    on_day: bool  #: whether the event was on the reported day itself
    level: str
    lines: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Lines of an event or a pattern on one host. Times are RFC 3339, None if no line has a time."""

    host: str
    file: str  #: the log file with most of them
    lines: int
    first: str | None
    last: str | None
    subject: str = ""  #: what an event is about, such as a device
    example: str = ""
    lines_before: tuple[int, ...] = ()  #: of an event; empty: not every day before has its table


@dataclass(frozen=True, slots=True, kw_only=True)
class PatternCount:
    """Lines of one pattern at one level."""

    pattern_id: str
    template: str
    example: str
    file: str  #: the log file with most of the lines
    files: int
    level: str
    lines: int
    hosts: int
    baseline_median: float | None
    surge: float | None  #: log2((today + 5) / (median of seven days + 5))
    is_new: bool
    places: tuple[Place, ...] = ()  #: by host, most lines first; only of patterns that are findings
    last_seen: str | None = None  #: of one that is back: the day before today on which it last occurred
    lines_before: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class GonePattern:
    """A pattern that occurred on nearly every day before, and not today."""

    pattern_id: str
    template: str
    example: str
    file: str
    level: str  #: its worst on these days
    days: int  #: of the days before on which it occurred
    median_lines: float
    last_seen: str


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownEvent:
    """Lines of a kind that operators know: an OOM kill, an I/O error, a failed unit."""

    kind: str
    lines: int
    patterns: int
    template: str  #: of the pattern with most of the lines
    example: str
    file: str
    places: tuple[Place, ...] = ()  #: by host and subject, most lines first; empty in reports of older versions


@dataclass(frozen=True, slots=True, kw_only=True)
class PatternSums:
    """Numbers of all patterns, while the rows are only the first of each kind."""

    patterns: int = 0
    new: int = 0
    new_bad: int = 0  #: of level warn or worse
    surging: int = 0
    surging_bad: int = 0
    back: int = 0
    gone: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class AuthKind:
    """How often something happened in authentication."""

    kind: str
    times: int
    before: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class AuthTop:
    """A remote address, user or host by its failed passwords."""

    what: str  #: `remote`, `user` or `host`
    key: str
    failed: int
    accepted: int  #: accepted passwords; public keys do not count
    hosts: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SignInMethod:
    """Sign-ins by one method of sshd."""

    method: str  #: `password`, `publickey`, `keyboard-interactive/pam`
    accepted: int
    failed: int  #: attempts; of passwords and public keys only
    users: int
    addresses: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PasswordSignIn:
    """An accepted password of a user and an address that failed before, on any host. Times are RFC 3339."""

    host: str
    user: str
    remote: str
    method: str
    accepted: int
    first: str | None
    last: str | None  #: the last acceptance
    failed: int  #: attempts before the acceptance at `at` and after the one before it
    failed_first: str | None
    failed_last: str | None
    at: str | None = None  #: the acceptance after the failures; None in tables of an older version


@dataclass(frozen=True, slots=True, kw_only=True)
class WebClass:
    """Requests of one status class today and before."""

    status_class: str
    requests: int
    before: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class WebTop:
    """An entry of one of the lists of the web: `path404`, `path5xx`, `slowpath`, `client`, `status`."""

    kind: str
    key: str
    times: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """How the report came about."""

    archive: str
    out: str
    generated: str  #: RFC 3339
    seconds: float
    spark_version: str
    master: str
    program_version: str
    manifests: tuple[str, ...] = ()
    input_fingerprint: str = ""
    timezone: str = "UTC"  #: of the times in sentences and on pages (IANA); those of other fields are UTC


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """All input of one day's report."""

    date: str
    before: tuple[str, ...]  #: days before that the tables have, oldest first
    wanted_days: int  #: how many were requested
    account: Account
    run: Run
    hosts: tuple[HostSeries, ...] = ()
    files: tuple[FileSeries, ...] = ()
    hours: tuple[HourCount, ...] = ()
    host_hours: tuple[HourCell, ...] = ()  #: of the largest hosts
    patterns: tuple[PatternCount, ...] = ()
    pattern_sums: PatternSums = PatternSums()
    gone: tuple[GonePattern, ...] = ()
    known_events: tuple[KnownEvent, ...] = ()
    rate_chance: RateChance = RateChance()
    weekdays: WeekdayTotals = WeekdayTotals()
    auth_kinds: tuple[AuthKind, ...] = ()
    auth_tops: tuple[AuthTop, ...] = ()
    fatal_hosts: tuple[tuple[str, int], ...] = ()  #: hosts with fatal lines, most first
    auth_remotes: int = 0  #: distinct addresses with a failed password
    sign_in_methods: tuple[SignInMethod, ...] = ()
    password_sign_ins: tuple[PasswordSignIn, ...] = ()  #: with failures before
    web_hours: tuple[WebHourCount, ...] = ()
    web_classes: tuple[WebClass, ...] = ()
    web_tops: tuple[WebTop, ...] = ()
    web_sums: WebSums = field(default=WebSums())
    redacted: tuple[RedactedRule, ...] = ()  #: most places first
    untimed: tuple[UntimedFile, ...] = ()  #: most lines first
