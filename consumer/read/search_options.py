"""The options of a search, as values."""

import enum
from dataclasses import dataclass

from consumer.archive.event_times import TimeOf
from consumer.read.search_unit import Unit

MAX_CONTEXT = 1000
"""Lines of context, before and after each."""


class CountBy(enum.Enum):
    """What hits are counted by."""

    ALL = "all"
    HOST = "host"
    FILE = "file"


class ProgressForm(enum.Enum):
    """How progress is shown."""

    AUTO = "auto"  #: on a terminal
    JSON = "json"
    NONE = "none"


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchOptions:
    """The arguments of the command line, except those that are settings."""

    query: str
    hosts: tuple[str, ...]
    files: tuple[str, ...]
    since: str
    until: str
    by: TimeOf | None  #: None: the event, except with -f
    late: str
    timezone: str
    after: int
    before: int
    count: CountBy | None
    histogram: str
    newest_first: bool
    limit: int | None
    follow: bool
    fixed: bool
    ignore_case: bool
    case_sensitive: bool
    whole_words: bool
    unit: Unit
    as_json: bool
    progress: ProgressForm
    explain: bool
    jobs: int
    color: bool | None
