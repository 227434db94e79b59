"""The search request of a page, validated, as the arguments of the command that searches. Pure.

No argument is a path of this machine: hosts and files are patterns for names in the archive.
"""

import glob
import time
from typing import Annotated, Literal, NamedTuple

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from consumer.logview.display import shown_time
from consumer.logview.query import globs_of_hosts, moment
from consumer.search.query import parse
from shipper.errors import UsageError
from shipper.layout import NANOSECONDS

MOST_LINES = 5_000
FOLLOW_SINCE = "1m"
"""A live view begins with the lines of this time before now."""
CONTEXT_SECONDS = 120
"""Before and after the stored time of a line whose neighbours are requested."""
SEVERITY_WORDS = {
    "error": "emerg|emergency|panic|alert|crit|critical|fatal|err|error|severe",
    "warning": "warn|warning",
    "info": "info|information|notice",
    "debug": "debug|trace|verbose",
}
"""A line has a severity when it has one of these words; case does not matter."""

Text = Annotated[str, Field(max_length=1024)]
Pattern = Annotated[str, Field(min_length=1, max_length=1024)]


class _Asked(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Around(_Asked):
    """A line whose neighbours are requested; its host and file are the request's."""

    time: Annotated[str, Field(max_length=40)]
    offset: Annotated[int, Field(ge=0)]
    lines: Annotated[int, Field(ge=1, le=200)] = 20


class SearchRequest(_Asked):
    """One search of a page."""

    query: Text = ""
    hosts: Annotated[tuple[Pattern, ...], Field(max_length=16)] = ()
    files: Annotated[tuple[Pattern, ...], Field(max_length=16)] = ()
    severities: tuple[Literal["error", "warning", "info", "debug"], ...] = ()
    since: Annotated[str, Field(max_length=40)] = ""
    until: Annotated[str, Field(max_length=40)] = ""
    order: Literal["newest", "oldest"] = "newest"
    follow: bool = False
    around: Around | None = None
    buckets: Annotated[int, Field(ge=0, le=366 * 86400)] = 0  #: seconds; count all lines over time, and send none
    limit: Annotated[int, Field(ge=1, le=MOST_LINES)] = 1_000
    longer: bool = False  #: with the higher limits of time and bytes


class SearchCommand(NamedTuple):
    """A checked request."""

    request: SearchRequest
    arguments: tuple[str, ...]  #: of `fshipper`
    since: str  #: RFC 3339; empty: from the beginning
    until: str


def read_request(text: str) -> SearchRequest:
    """The request in the JSON that a page sent. Raises UsageError: it is none."""
    try:
        return SearchRequest.model_validate_json(text)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(map(str, first["loc"])) or "the request"
        raise UsageError(f"{where}: {first['msg']}", hint="reload the page") from None


def command(request: SearchRequest) -> SearchCommand:
    """The command for `request`. Raises UsageError: it is wrong; the hint has the correction."""
    now_ns = time.time_ns()
    since_ns = moment(request.since, now_ns) if request.since else 0
    until_ns = moment(request.until, now_ns) if request.until else None
    if request.around:
        at_ns = moment(request.around.time, now_ns)
        since_ns, until_ns = at_ns - CONTEXT_SECONDS * NANOSECONDS, at_ns + CONTEXT_SECONDS * NANOSECONDS
    if until_ns is not None and until_ns <= since_ns:
        raise UsageError("the end of the time range is not after its beginning", hint="choose a later end")
    hosts = globs_of_hosts(request.hosts).patterns
    files = request.files
    if request.around:
        files = tuple(glob.escape(each) for each in files)
    _check_patterns(hosts + files)
    since, until = shown_time(since_ns) if since_ns else "", shown_time(until_ns) if until_ns else ""
    options = [f"--file={each}" for each in files]
    if request.follow:
        options += ["--follow", f"--since={FOLLOW_SINCE}"]
    else:
        options += [f"--since={since}"] if since else []
        options += [f"--until={until}"] if until else []
    if request.buckets:
        options.append(f"--histogram={request.buckets}s")
    elif request.around:
        options.append("--limit=0")
    else:
        options += ["--newest-first"] if request.order == "newest" and not request.follow else []
        options.append(f"--limit={request.limit}")
    query = "" if request.around else _query(request)
    return SearchCommand(request, ("search", *options, "--", query, *hosts), since, until)


def _check_patterns(patterns: tuple[str, ...]) -> None:
    for each in patterns:
        if not each.isprintable():
            raise UsageError(f"{each!a} has control characters", hint="write the name as it is in the list")


def _query(request: SearchRequest) -> str:
    """The query and the severities as one query. Raises UsageError with the position of an error."""
    query = request.query.strip()
    parse(query)
    if not request.severities:
        return query
    words = "|".join(SEVERITY_WORDS[each] for each in request.severities)
    severity = rf"/\b(?:{words})\b/i"
    return f"({query}) {severity}" if query else severity
