"""What the scan counted, asked in the ways that the tables need: a port with two adapters.

`few` has the groups as columns in the driver, `many` as frames of Spark. Each gives the same tables
(`tests/spark/test_counts.py`): few groups are dealt with here before Spark has planned its first query of them.

Several groups may differ in nothing but their sums: whoever asks adds up.
"""

import datetime as dt
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

from spark_analytics.archive.reconcile import Counted
from spark_analytics.metrics.pattern_tables import Seen
from spark_analytics.metrics.volumes import FileSums
from spark_analytics.tables.schemas import Row, Web, WebSums

MOST_FEW = 8_000_000
"""Groups that are held as columns, where there is memory for them."""

GROUP_BYTES = 900
"""Of memory, for each with all that is made of it."""

LEFT = 2
"""Times the memory that groups take must be available: others work beside a report."""

MOST_BYTES = 500_000_000
"""Of such groups as Parquet, unpacked: texts of strangers (paths that nobody has) may each be another one."""


class Correction(NamedTuple):
    """A segment whose last row has no newline, or whose first row had a byte order mark before it (`settle`)."""

    segment: int
    end_block: int
    end_row: int
    surplus: int
    head_block: int
    head_row: int
    mark: int


class Place(NamedTuple):
    """A segment by its number in this run: its log file, how that writes times, when JetStream stored it."""

    segment: int
    partition: int
    host: str
    file: str
    family: str
    stored_hour: int | None  #: in seconds since 1970


class Silent(NamedTuple):
    """A listed segment without a row. Its bytes are those of a byte order mark that is all that it holds."""

    partition: int
    host: str
    file: str
    stored_hour: int | None
    bytes: int


@dataclass(frozen=True, slots=True)
class Placing:
    """What turns counted groups into those of log files and hours."""

    day: dt.date
    places: Sequence[Place]
    corrections: Sequence[Correction]
    silent: Sequence[Silent]


class Asked(NamedTuple):
    """What web servers were asked for."""

    keys: Sequence[tuple[str, str, int]]  #: (kind, key, n), most first: for `access.top`
    hours: Sequence[Web]
    sums: WebSums


class Counts(Protocol):
    """What the scan counted, as it is."""

    def by_segment(self) -> list[Counted]:
        """One for each segment that has a row."""

    def placed(self, placing: Placing) -> "Groups":
        """The same by log file and hour, with bytes as `wc` counts them."""


class Groups(Protocol):
    """What the scan counted, by log file and hour."""

    def write_hourly(self) -> None:
        """Stages table `hourly`. Comes first: others may be made of it."""

    def by_file(self) -> list[FileSums]:
        """One for each log file of table `hourly`, in any order."""

    def texts(self) -> list[tuple[int, str, int]]:
        """(fingerprint, text, lines) of the masked lines, most lines first, at most `MOST_DISTINCT`."""

    def by_pattern(self, fingerprints: Sequence[Row]) -> list[Seen]:
        """One for each pattern and level; `fingerprints` is that table, which is staged by then."""

    def segments_of(self, fingerprints: Collection[int]) -> dict[int, int]:
        """For each of `fingerprints` the segment with most of its lines, the first of several."""

    def accounts(self) -> list[Row]:
        """Table `auth_daily`, in any order."""

    def write_requests(self) -> Asked:
        """Stages table `access_hourly`."""


def hours_of(found: Iterable[Sequence[Any]]) -> list[Web]:
    """(second, status class, requests, bytes) as values; those of no known hour are left out."""
    return [
        Web(dt.datetime.fromtimestamp(second, tz=dt.UTC), *others) for second, *others in found if second is not None
    ]
