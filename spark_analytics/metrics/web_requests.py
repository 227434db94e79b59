"""Requests in logs of web servers: column expressions, and table `access_top`.

Supported are common and combined log format, optionally followed by the latency (seconds with a decimal point, or
integer microseconds), and JSON with the usual keys.
"""

import bisect
import itertools
import math
import operator
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from pyspark.sql import Column
from pyspark.sql import functions as F  # noqa: N812

from spark_analytics.lines import severity
from spark_analytics.metrics.statistics import grouped
from spark_analytics.tables.day_tables import Row

ACCESS_PREFIX = 2048
"""Characters of a line that are searched."""

MAX_PATH = 300
MAX_TOP_KEYS = 1000
"""Maximum number of keys of a kind in table `access_top`."""

MAX_KEYS = 50_000
"""Maximum number of keys of all kinds that are read for it: a scan of a server requests unlimited paths."""

CLIENTS_LG_K = 10
"""Logarithm of the registers of a sketch of clients: 1,024 registers, 3 % error."""

MAX_SENT = 1 << 36
"""Maximum bytes of one response, 64 GiB: the sum of 134 million such lines is still a 64-bit number."""

SLOW_MS = 1000
MIN_MS, MAX_MS = 0.01, 1e9
"""Range of the latency of a request: up to eleven days."""

STEPS = 100
"""Latencies are rounded to steps of 1/100 on the natural logarithm: 0.5 % exact, some hundred different ones a day."""

SLOW_STEP = math.ceil(math.log(SLOW_MS) * STEPS)
"""The first step of a latency of at least `SLOW_MS`."""

_REQUEST = (
    r'(?s)^(\S+) [^"]*?\] "(?:([A-Z]{3,16}) )?((?:[^"\\]|\\.)*?)(?: HTTP/[\d.]+)?" (\d{3}) (\d+|-)'
    r'(?: "(?:[^"\\]|\\.)*" "(?:[^"\\]|\\.)*")?(?: (?:rt=|request_time=)?"?(\d+(?:\.\d+)?)"?)?.*$'
)
_PARTS = "\x01$4\t$1\t$2\t$5\t$6\t$3"
_MARKED = "\x01"

JSON_KEYS = {
    "status": ("status", "response", "status_code"),
    "client": ("remote_addr", "clientip", "client_ip", "remote_ip", "client"),
    "method": ("method", "request_method", "verb"),
    "sent": ("body_bytes_sent", "bytes_sent", "bytes", "size"),
    "took": ("request_time", "duration", "latency"),
    "path": ("request_uri", "uri", "path", "url", "request"),
}
"""Keys of the fields in JSON access logs; the first key that exists is used."""


def parts(line: Column) -> Column:
    """Status, client, method, bytes sent, latency and path of a line of an access log as texts; else one text."""
    head = severity.first_characters(line, ACCESS_PREFIX)
    return F.split(F.regexp_replace(head, F.lit(_REQUEST), F.lit(_PARTS)), "\t", 6)


def json_parts(fields: Column) -> Column:
    """The same of the fields of a JSON line; null if it lacks status, method or path, so that it is no request."""
    named = {name: F.coalesce(*(fields[key] for key in keys)) for name, keys in JSON_KEYS.items()}
    request = F.split(named["path"], " ")
    whole = F.size(request) == F.lit(3)
    method = F.coalesce(named["method"], F.when(whole, F.get(request, F.lit(0))))
    path = F.when(whole, F.get(request, F.lit(1))).otherwise(named["path"])
    texts = (F.concat(F.lit(_MARKED), named["status"]), named["client"], method, named["sent"], named["took"], path)
    found = named["status"].rlike(r"^\d{3}$") & method.isNotNull() & path.isNotNull()
    return F.when(found, F.array(*(F.coalesce(text, F.lit("")) for text in texts)))


def status(found: Column) -> Column:
    """The status, by its `parts`; null if the line is no request."""
    first = F.get(found, F.lit(0))
    return F.when(first.startswith(_MARKED), F.substring(first, 2, 3)).try_cast("int")


def client(found: Column) -> Column:
    """The address of the client, by its `parts`."""
    return F.substring(F.get(found, F.lit(1)), 1, MAX_PATH)


def text(found: Column) -> Column:
    """The masked text of the line: `GET 200`."""
    return F.concat_ws(" ", F.get(found, F.lit(2)), F.substring(F.get(found, F.lit(0)), 2, 3))


def sent(found: Column) -> Column:
    """Bytes sent, by its `parts`, limited to 0 to `MAX_SENT`, so that sums do not overflow."""
    number = F.get(found, F.lit(3))
    size = F.when(~number.isin("-", ""), number).try_cast("bigint")  # a failed cast costs an exception
    return F.when(size.isNotNull(), _between(size, 0, MAX_SENT))


def latency(found: Column) -> Column:
    """The step of the latency, `MIN_MS` to `MAX_MS` milliseconds, by its `parts`; null if the log has none."""
    took = F.get(found, F.lit(4))
    number = F.when(took != "", took).try_cast("double")
    in_ms = F.when(F.contains(took, F.lit(".")), number * 1000).otherwise(number / 1000)
    step = F.round(F.ln(_between(in_ms, MIN_MS, MAX_MS)) * STEPS).cast("int")
    fast = F.when(in_ms < F.lit(SLOW_MS), F.lit(SLOW_STEP - 1))  # 997 ms would be rounded to the first slow step
    return F.when(number.isNotNull(), F.least(step, fast))


def _between(claimed: Column, least: float, most: float) -> Column:
    """A number of the log, limited to a valid range."""
    return F.least(F.greatest(claimed, F.lit(least)), F.lit(most))


def path(found: Column, code: Column, step: Column) -> Column:
    """The path without its query, of errors and slow requests; else null, because no table needs it."""
    bare = F.substring(F.substring_index(F.get(found, F.lit(5)), "?", 1), 1, MAX_PATH)
    return F.when((code >= 400) | (step >= SLOW_STEP), bare)  # noqa: PLR2004 - the first status that is an error


def top_keys(entries: Iterable[Sequence[Any]]) -> list[Row]:
    """Table `access_top` of (kind, key, n), most first: the most frequent keys of each kind."""
    of_kind = grouped(entries, operator.itemgetter(0))
    return [
        {"kind": kind, "key": key, "n": n} for name in sorted(of_kind) for kind, key, n in of_kind[name][:MAX_TOP_KEYS]
    ]


QUANTILES = (0.5, 0.95, 0.99)


def latencies(lines_by_step: Mapping[int, int]) -> tuple[float | None, ...]:
    """The latency in milliseconds at each of `QUANTILES` (nearest rank), as exact as a step; None without a latency."""
    whole = sum(lines_by_step.values())
    if not whole:
        return (None,) * len(QUANTILES)
    steps = sorted(lines_by_step)
    ends = list(itertools.accumulate(lines_by_step[step] for step in steps))
    return tuple(math.exp(steps[bisect.bisect_left(ends, math.ceil(share * whole))] / STEPS) for share in QUANTILES)
