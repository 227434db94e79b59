"""The facts of a report: frozen values with units in their names. No Spark, no HTML, no clock.

`report.json` has these values under the same names, and `templates/report.schema.json` is their schema; an incompatible
change is a new `json_export.VERSION`. Lists are sorted, worst or largest first, with at most top N entries and the
number of all entries in another field. Shares and rates are 0 to 1, times are RFC 3339 in UTC, hours 0 to 23.
"""

import enum
from dataclasses import dataclass, field

from spark_analytics.report import inputs as ev
from spark_analytics.report.zone_times import Clock


class State(enum.Enum):
    """The state of a day, worst first."""

    DAMAGED = "damaged"  #: the archive does not hold what its manifests list
    GAPS = "gaps"  #: bytes are known to be lost
    DOUBLED = "doubled"  #: bytes are in the archive twice, and counted twice
    OPEN = "open"  #: the day is not closed yet
    ATTENTION = "attention"  #: everything is there, and something needs attention
    COMPLETE = "complete"  #: everything is there, and nothing stands out


class Severity(enum.Enum):
    """What a finding wants of its reader, most urgent first."""

    ACT = "act"  #: something is broken, lost or broken into: act now
    LOOK = "look"  #: unusual: check it today
    NOTE = "note"  #: worth knowing, nothing to do


TROUBLES = {
    "missing": State.DAMAGED,  #: listed, not on disk
    "truncated": State.DAMAGED,  #: cut off: shorter than listed, or it ends in the middle of a frame
    "differs": State.DAMAGED,  #: the manifest line has other lines or bytes than were counted
    "unreadable": State.DAMAGED,  #: a manifest line that cannot be parsed
    "unregistered": State.DAMAGED,  #: on disk, no manifest lists it
    "offset_gap": State.GAPS,  #: bytes of a source between two spans that no segment holds and no gap explains
    "gap": State.GAPS,  #: lost before the collector could have it, and recorded
    "doubled": State.DOUBLED,  #: bytes of a source that an earlier segment also has
}
"""Every kind of trouble, worst first, and the state that it causes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Trend:
    """A number of a finding on the days before, oldest first, and on the day itself."""

    what: str  #: what is counted: `lines`, `failed passwords`
    values: tuple[float, ...]
    is_share: bool = False  #: values are 0 to 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One sentence of the verdict, and the state that it causes.

    The sentence names who, what, when and how much; the other fields have the same as data, as far as it is known.
    """

    kind: str
    state: State
    text: str
    plain: str = ""  #: the sentence without text of log lines, such as user names; empty: `text` has none
    severity: Severity = Severity.NOTE
    hosts: tuple[str, ...] = ()
    file: str = ""
    first: str | None = None  #: RFC 3339, UTC
    last: str | None = None
    lines: int | None = None
    names: tuple[str, ...] = ()  #: what it is about: paths, hosts, patterns; at most NAMED of them
    section: str = ""  #: the section of the page with the details
    of_archive: bool = False  #: whether it belongs to the first of the two verdicts
    trend: Trend | None = None  #: None: there are no days before, or none that the tables have


@dataclass(frozen=True, slots=True, kw_only=True)
class Judgement:
    """One of the two verdicts of a day: a state, a word and a sentence."""

    state: State
    word: str
    text: str
    severity: Severity = Severity.NOTE


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """State, headline and findings of the day."""

    state: State
    headline: str
    findings: tuple[Finding, ...]
    complete: Judgement | None = None  #: whether the archive has everything; None in reports of older versions
    attention: Judgement | None = None  #: whether something in the lines is worth checking
    severity: Severity = Severity.NOTE  #: of the worst finding

    @property
    def word(self) -> str:
        """The state for people."""
        return word_of_state(self.state.value, self.complete.word if self.complete else None, self.severity.value)


def word_of_state(state: str, complete: str | None, severity: str | None) -> str:
    """The state of a day for people. `complete`: the word of the first verdict, such as complete so far."""
    if state == State.ATTENTION.value and severity in {Severity.ACT.value, Severity.LOOK.value}:
        return str(severity)
    return complete if state == State.OPEN.value and complete else state


@dataclass(frozen=True, slots=True, kw_only=True)
class History:
    """The days that the day is compared with."""

    days: tuple[str, ...]
    wanted: int
    enough: bool  #: whether a median of them means anything
    text: str  #: the same as a sentence


@dataclass(frozen=True, slots=True, kw_only=True)
class Totals:
    """The day in one row, and its usual values."""

    lines: int
    bytes: int
    bytes_stored: int
    partitions: int
    hosts: int  #: that wrote at least one line
    files: int
    errors: int
    warnings: int
    late_lines: int
    no_ts_lines: int
    other_day_lines: int  #: lines whose event was on another day than they arrived on
    lines_before: tuple[int, ...]
    bytes_before: tuple[int, ...]
    errors_before: tuple[int, ...]
    hosts_before: tuple[int, ...]
    weekdays: ev.WeekdayTotals = field(default_factory=ev.WeekdayTotals)
    has_yesterday: bool = False  #: whether the last of the days before is the day before


@dataclass(frozen=True, slots=True, kw_only=True)
class StatusCount:
    """Hosts of one status."""

    status: str
    hosts: int


@dataclass(frozen=True, slots=True, kw_only=True)
class HostCell:
    """A square of the map of hosts: hosts with adjacent names, and the worst of them."""

    status: str
    hosts: int
    worst: str  #: the host with that status; empty when all are complete


@dataclass(frozen=True, slots=True, kw_only=True)
class Completeness:
    """Listed against counted."""

    state: State  #: damaged, gaps, doubled, open or complete: of the archive alone, independent of line content
    segments: int
    segments_read: int
    lines_manifest: int
    lines_counted: int
    bytes_manifest: int
    bytes_counted: int
    gap_bytes: int
    duplicates: int
    joins: int
    offset_gap_bytes: int
    seq_missing: int
    hosts: int
    by_status: tuple[StatusCount, ...]
    cells: tuple[HostCell, ...]
    incomplete: tuple[ev.HostAudit, ...]
    incomplete_hosts: int
    troubles: tuple[ev.Trouble, ...]
    trouble_count: int
    doubled_bytes: int = 0  #: that the totals count twice
    doubled_lines: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class SilentHost:
    """A host that usually writes and did not, or stopped."""

    partition: int
    host: str
    lines: int
    median_lines: float
    last_arrival: str | None  #: None: nothing today
    quiet_hours: float | None  #: until the end of the day


@dataclass(frozen=True, slots=True, kw_only=True)
class HostDay:
    """A host's day."""

    partition: int
    host: str
    files: int
    lines: int
    bytes: int
    errors: int
    warnings: int
    share_of_bytes: float
    median_lines: float | None
    factor: float | None  #: lines against the median; None where the history is too short
    z: float | None  #: robust, on a logarithmic scale
    lines_before: tuple[int, ...]
    weekday_median: float | None = None  #: lines on the same weekday of four weeks; None with fewer weeks


@dataclass(frozen=True, slots=True, kw_only=True)
class Hosts:
    """Silent, new, unusual and largest hosts."""

    silent: tuple[SilentHost, ...]
    silent_count: int
    new: tuple[HostDay, ...]
    new_count: int
    unusual: tuple[HostDay, ...]
    unusual_count: int
    largest: tuple[HostDay, ...]
    gini: float


@dataclass(frozen=True, slots=True, kw_only=True)
class RateChange:
    """A log file's error rate against its median."""

    partition: int
    host: str
    file: str
    lines: int
    errors: int
    rate: float
    median_rate: float | None  #: None: too few days
    factor: float | None  #: rate against the median; None: it had none, or too few days
    lowest: float | None = None  #: of the days before; None: too few days
    highest: float | None = None
    low: float | None = None  #: no value; kept for readers of earlier reports, as `high`
    high: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Errors:
    """Error and warning lines, and where they rose."""

    lines: int
    errors: int
    rate: float
    median_rate: float | None
    rates_before: tuple[float, ...]
    warning_rate: float
    risen: tuple[RateChange, ...]
    risen_count: int
    most: tuple[RateChange, ...]  #: log files with the most error lines, risen or not
    chance: ev.RateChance = field(default_factory=ev.RateChance)
    low: float | None = None  #: no value; kept for readers of earlier reports, as `high`
    high: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Patterns:
    """Patterns of the lines."""

    distinct: int
    new: tuple[ev.PatternCount, ...]
    new_count: int
    new_bad_count: int  #: of level warn or worse
    surging: tuple[ev.PatternCount, ...]
    surging_count: int
    surging_bad_count: int
    noisiest: tuple[ev.PatternCount, ...]
    back: tuple[ev.PatternCount, ...] = ()
    back_count: int = 0
    gone: tuple[ev.GonePattern, ...] = ()
    gone_count: int = 0
    events: tuple[ev.KnownEvent, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class AuthChange:
    """The count of a kind of authentication event, compared with the days before."""

    kind: str
    times: int
    median: float | None
    risen: bool
    before: tuple[int, ...]
    low: float | None = None  #: no value; kept for readers of earlier reports, as `high`
    high: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Auth:
    """Authentication."""

    kinds: tuple[AuthChange, ...]
    remotes: int  #: addresses with a failed password
    top_remotes: tuple[ev.AuthTop, ...]
    top_users: tuple[ev.AuthTop, ...]
    top_hosts: tuple[ev.AuthTop, ...]
    guessed: tuple[ev.AuthTop, ...] = ()  #: empty; kept for readers of earlier reports
    methods: tuple[ev.SignInMethod, ...] = ()  #: sign-ins by method
    after_failures: tuple[
        ev.PasswordSignIn, ...
    ] = ()  #: accepted passwords after failures of the same user and address
    after_failures_count: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class WebStatus:
    """Requests of one status class."""

    status_class: str
    requests: int
    share: float
    median: float | None
    before: tuple[int, ...]
    hours: tuple[int, ...]  #: 24


@dataclass(frozen=True, slots=True, kw_only=True)
class Web:
    """Access logs."""

    requests: int
    bytes: int
    clients: int | None
    latency_p50_ms: float | None
    latency_p95_ms: float | None
    latency_p99_ms: float | None
    statuses: tuple[WebStatus, ...]
    codes: tuple[ev.WebTop, ...]  #: requests by status, most first
    not_found: tuple[ev.WebTop, ...]
    failing: tuple[ev.WebTop, ...]
    slow: tuple[ev.WebTop, ...]
    clients_top: tuple[ev.WebTop, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionDay:
    """A partition's day."""

    partition: int
    hosts: int
    lines: int
    bytes: int
    errors: int
    share: float
    skew: float  #: share times partitions: 1 is even
    top_host: str
    top_host_share: float
    hours: tuple[int, ...]  #: lines, 24


@dataclass(frozen=True, slots=True, kw_only=True)
class LevelHours:
    """Lines of one level."""

    level: str
    lines: int
    hours: tuple[int, ...]  #: 24


@dataclass(frozen=True, slots=True, kw_only=True)
class HostHours:
    """Lines of one of the largest hosts, by hour."""

    host: str
    lines: int  #: of the day as everywhere else; the hours count also a last line without a newline
    hours: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Volume:
    """Volumes by level, partition, host and hour."""

    on_day: bool  #: False: most lines are of other days; hours are then hours of any day
    levels: tuple[LevelHours, ...]
    partitions: tuple[PartitionDay, ...]
    partition_skew: float  #: of bytes: the largest share against the mean
    partition_gini: float
    host_hours: tuple[HostHours, ...]
    untimed: tuple[ev.UntimedFile, ...] = ()  #: log files whose times are in no known format, most lines first
    untimed_count: int = 0
    untimed_lines: int = 0  #: in these log files
    hours_at: tuple[str, ...] = ()  #: when each of the 24 hours begins in the zone of the run: `01:00`, `05:30`


@dataclass(frozen=True, slots=True, kw_only=True)
class RowExample:
    """Some lines of one row of a list; its kind and value name the row (`sql/rows.sql`)."""

    kind: str
    names: tuple[str, ...]
    lines: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Redacted:
    """What the redaction of the hosts replaced before the lines were sent."""

    places: int
    hosts: int
    rules: int
    most: tuple[ev.RedactedRule, ...]  #: most places first
    most_count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """A day's report."""

    date: str
    verdict: Verdict
    history: History
    totals: Totals
    completeness: Completeness
    hosts: Hosts
    errors: Errors
    patterns: Patterns
    auth: Auth
    web: Web | None  #: None: no access log was read
    volume: Volume
    run: ev.Run
    redacted: Redacted | None = None  #: None: no rule fired, or no host redacts
    examples: tuple[RowExample, ...] = ()  #: of rows of lists of hosts, log files, sign-ins and requests

    @property
    def clock(self) -> Clock:
        """Shows times in the zone of this report."""
        return Clock(self.date, self.run.timezone)
