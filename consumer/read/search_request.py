"""What a search finds, and what it keeps of that: the options of `fshipper search` as one value."""

import datetime as dt
from dataclasses import dataclass

from consumer.archive.event_times import TimeOf
from consumer.archive.parts import Part
from consumer.archive.selection import Allowance, Wanted, wanted_of, zone_of
from consumer.read.counting import CountBy, Counted, counted_by
from consumer.read.options import SearchOptions
from consumer.read.query import Case, Options, Query, Unit, parse, parse_fixed
from shipper.errors import UsageError
from shipper.layout import NANOSECONDS
from shipper.moments import duration_seconds

DEFAULT_LIMIT = 1000
_NO_BOUND = Allowance(1 << 64, 1 << 64)


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """What is searched for, and what is kept of it."""

    query: Query
    wanted: Wanted
    before: int = 0  #: lines of context
    after: int = 0
    counts_only: bool = False
    counted: Counted | None = None  #: what hits are counted by
    bucket_ns: int = 0  #: of the histogram; 0: none
    limit: int = 0  #: at most so many hits are wanted; 0: all
    newest_first: bool = False
    unit: Unit = Unit.LINE
    zone: dt.tzinfo | None = dt.UTC  #: of times and the histogram; None: the host's, and UTC

    @property
    def is_by_event(self) -> bool:
        """Whether lines are selected and ordered by their own times."""
        return self.wanted.allowance is not None

    @property
    def by(self) -> TimeOf:
        """The time by which lines are selected and ordered."""
        return TimeOf.EVENT if self.is_by_event else TimeOf.STORED

    @property
    def needs_event(self) -> bool:
        """Whether the own times of lines matter: they do not where all lines are only counted."""
        is_selecting = self.wanted.since_ns or self.wanted.until_ns is not None or self.bucket_ns
        return self.is_by_event and bool(is_selecting or not self.counts_only)

    @property
    def reads_back(self) -> bool:
        """Whether files are read from their end, because only the newest lines count."""
        is_plain = self.unit is Unit.LINE and not (self.before or self.after or self.bucket_ns or self.counts_only)
        return self.newest_first and bool(self.limit) and is_plain

    def allowance(self, part: Part) -> Allowance:
        """How far the time of a line of a part and its stored time may be apart, as far as the order goes.

        Of a file with unusual lines only some were compared: all of it is read before the first line is given out.
        """
        return _NO_BOUND if self.is_by_event and part.is_unusual else self.wanted.allowance or Allowance(0, 0)

    @property
    def most_hits(self) -> int:
        """So many hits of one file are enough to know the first `limit` and whether there are more. 0 means all."""
        return self.limit + 1 if self.limit else 0


def request_of(options: SearchOptions) -> Request:
    """The request that the options of a command mean. Raises UsageError: one is not valid, or excludes another."""
    if options.ignore_case and options.case_sensitive:
        raise UsageError("-i excludes -s", hint="leave out both: a query without a capital letter ignores case")
    case = Case.IGNORED if options.ignore_case else Case.SENSITIVE if options.case_sensitive else Case.SMART
    query = (parse_fixed if options.fixed else parse)(options.query, Options(case, options.whole_words))
    zone = zone_of(options.timezone)
    wanted = wanted_of(
        options.hosts,
        options.files,
        since=options.since,
        until=options.until,
        by=options.by or (TimeOf.STORED if options.follow else TimeOf.EVENT),
        late=options.late,
        zone=zone,
    )
    bucket = duration_seconds(options.histogram) if options.histogram else 0
    if options.histogram and not bucket:
        raise UsageError(f"--histogram {options.histogram!r} is not a duration", hint="write 10m, 1h or 30s")
    counts_only = options.count is not None or (bool(bucket) and options.limit is None)
    if options.follow and (options.until or options.newest_first or counts_only or bucket):
        raise UsageError("-f excludes --until, --newest-first, --count and --histogram", hint="search without -f")
    if options.follow and options.records:
        raise UsageError("-f excludes --records: the end of a record is not known", hint="use -A for the lines after")
    if options.follow and options.by is TimeOf.EVENT:
        raise UsageError("-f excludes --by event: lines that arrive are not sorted", hint="search without -f")
    if options.newest_first and options.limit == 0 and not counts_only:
        raise UsageError("--newest-first needs a limit", hint="leave out --limit 0")
    counted = counted_by(options.count) if options.count is not None else None
    if counted == Counted(CountBy.FIELD):
        raise UsageError("--count: the name of a field is missing", hint="write --count status, host, file or level")
    if options.top and counted is None:
        raise UsageError("--top needs --count", hint="--limit N shows at most N lines")
    if options.fields and not (options.as_json and not counts_only):
        raise UsageError("--fields needs --json, and lines that are shown", hint="add --json, or leave out --count")
    return Request(
        query=query,
        wanted=wanted,
        before=max(options.context, options.before_context),
        after=max(options.context, options.after_context),
        counts_only=counts_only,
        counted=counted,
        bucket_ns=max(1, round(bucket * NANOSECONDS)) if bucket else 0,
        limit=0 if counts_only else DEFAULT_LIMIT if options.limit is None else options.limit,
        newest_first=options.newest_first,
        unit=Unit.RECORD if options.records else Unit.LINE,
        zone=zone,
    )
