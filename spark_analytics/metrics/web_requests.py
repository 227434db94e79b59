"""What a web server's log says of a request: column expressions, and the tables that come of them.

Common and combined log format, with the time that a request took behind them where the server writes one (seconds with
a point, or whole microseconds); or JSON with the usual keys.
"""

import math
from collections.abc import Iterable, Sequence
from typing import Any

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812

from spark_analytics.tables import schemas
from spark_analytics.tables.schemas import Row

ACCESS_PREFIX = 2048
"""Characters of a line that are looked at."""

MOST_PATH = 300
MOST_TOP = 1000
"""The most keys of a kind that table `access_top` keeps."""

MOST_KEYS = 50_000
"""Of all kinds together, which are looked at for that: who scans a server asks for paths without end."""

CLIENTS_LG_K = 10
"""Of the sketches of clients: 1,024 registers, 3 % off."""

MOST_SENT = 1 << 36
"""Bytes of one answer, 64 GiB: 134 million lines that claim as much make a sum that is a number."""

SLOW_MS = 1000
LEAST_MS, MOST_MS = 0.01, 1e9
"""Of one request, at most eleven days."""

STEPS = 20
"""Latencies are counted in steps of 1/20 of a power of e: to 2.5 % exact, and a day has some hundred of them."""

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
"""Where JSON access logs have what the others have by place; the first key that is there."""


def parts(line: Column) -> Column:
    """Status, client, method, bytes sent, time taken and path of an access log's line as texts; else one text."""
    head = F.substring(line, 1, ACCESS_PREFIX)
    return F.split(F.regexp_replace(head, F.lit(_REQUEST), F.lit(_PARTS)), "\t", 6)


def json_parts(fields: Column) -> Column:
    """The same of a JSON line's fields; null where it has no status and method or path: then it is another log."""
    named = {name: F.coalesce(*(fields[key] for key in keys)) for name, keys in JSON_KEYS.items()}
    request = F.split(named["path"], " ")
    whole = F.size(request) == F.lit(3)
    method = F.coalesce(named["method"], F.when(whole, F.get(request, F.lit(0))))
    path = F.when(whole, F.get(request, F.lit(1))).otherwise(named["path"])
    texts = (F.concat(F.lit(_MARKED), named["status"]), named["client"], method, named["sent"], named["took"], path)
    found = named["status"].rlike(r"^\d{3}$") & method.isNotNull() & path.isNotNull()
    return F.when(found, F.array(*(F.coalesce(text, F.lit("")) for text in texts)))


def status(found: Column) -> Column:
    """The status, of `parts`; null where the line is no request."""
    first = F.get(found, F.lit(0))
    return F.when(first.startswith(_MARKED), F.substring(first, 2, 3)).try_cast("int")


def client(found: Column) -> Column:
    """The client's address, of `parts`."""
    return F.substring(F.get(found, F.lit(1)), 1, MOST_PATH)


def text(found: Column) -> Column:
    """What stands for the line among the masked ones: `GET 200`."""
    return F.concat_ws(" ", F.get(found, F.lit(2)), F.substring(F.get(found, F.lit(0)), 2, 3))


def sent(found: Column) -> Column:
    """Bytes sent, of `parts`: from 0 to `MOST_SENT`, whatever is claimed, for sums have to stay numbers."""
    number = F.get(found, F.lit(3))
    size = F.when(~number.isin("-", ""), number).try_cast("bigint")  # what is no number costs an exception
    return F.when(size.isNotNull(), _between(size, 0, MOST_SENT))


def latency(found: Column) -> Column:
    """The step of the latency, `LEAST_MS` to `MOST_MS` milliseconds, of `parts`; null where the log has none."""
    took = F.get(found, F.lit(4))
    number = F.when(took != "", took).try_cast("double")
    in_ms = F.when(F.contains(took, F.lit(".")), number * 1000).otherwise(number / 1000)
    return F.when(number.isNotNull(), F.round(F.ln(_between(in_ms, LEAST_MS, MOST_MS)) * STEPS).cast("int"))


def _between(claimed: Column, least: float, most: float) -> Column:
    """What a stranger claims, as far as it can be believed."""
    return F.least(F.greatest(claimed, F.lit(least)), F.lit(most))


def milliseconds(step: Column) -> Column:
    """The latency that a step stands for."""
    return F.exp(step / STEPS)


def is_slow(step: int) -> bool:
    """Whether a request of that step took `SLOW_MS` or longer."""
    return math.exp(step / STEPS) >= SLOW_MS


def path(found: Column, code: Column, step: Column) -> Column:
    """The path without its query where it will be asked for: of errors and of slow requests; else null."""
    slow = milliseconds(step) >= SLOW_MS
    bare = F.substring(F.substring_index(F.get(found, F.lit(5)), "?", 1), 1, MOST_PATH)
    return F.when((code >= 400) | slow, bare)  # noqa: PLR2004 - the first status that is an error


def hourly(requests: DataFrame) -> DataFrame:
    """Table `access_hourly` of grouped requests: a row for each log, hour and status.

    `requests` has (partition, host, file, hour, status, client, latency, lines, sent). A group of equal latencies
    counts once for each of its lines, as quantile sketches know no weights.
    """
    key = ("partition", "host", "file", "hour", "status")
    counted = requests.groupBy(*key).agg(
        F.sum("lines").alias("requests"),
        F.sum(F.coalesce("sent", F.lit(0))).cast("bigint").alias("bytes"),
        F.hll_sketch_agg("client", F.lit(CLIENTS_LG_K)).alias("clients_hll"),
    )
    timed = requests.where(F.col("latency").isNotNull()).select(
        *key, F.explode(F.array_repeat(milliseconds(F.col("latency")), F.col("lines").cast("int"))).alias("took")
    )
    sketched = timed.groupBy(*key).agg(F.kll_sketch_agg_double("took").alias("latency_kll"))
    return (
        counted.join(sketched, on=list(key), how="left")
        .withColumn("status_class", F.concat(F.substring(F.col("status").cast("string"), 1, 1), F.lit("xx")))
        .select(*schemas.ACCESS_HOURLY.names)
    )


def keys(requests: DataFrame) -> DataFrame:
    """(kind, key, n) of grouped requests, most first: for `top`."""
    code, slow = F.col("status"), milliseconds(F.col("latency")) >= SLOW_MS
    entries = F.array(
        _keyed("client", "client", F.lit(True)),
        _keyed("path404", "path", code == 404),  # noqa: PLR2004
        _keyed("path5xx", "path", code >= 500),  # noqa: PLR2004
        _keyed("slowpath", "path", slow),
        _keyed("status", "status", F.lit(True)),
    )
    return (
        requests.select(F.explode(entries).alias("entry"), "lines")
        .where(F.col("entry.key").isNotNull())
        .groupBy("entry.kind", "entry.key")
        .agg(F.sum("lines").alias("n"))
        .orderBy(F.desc("n"), "kind", "key")
        .limit(MOST_KEYS)
    )


def top(entries: Iterable[Sequence[Any]]) -> list[Row]:
    """Table `access_top` of `keys`: the most asked for of each kind."""
    of_kind: dict[str, list[Row]] = {}
    for kind, key, n in entries:
        kept = of_kind.setdefault(kind, [])
        if len(kept) < MOST_TOP:
            kept.append({"kind": kind, "key": key, "n": n})
    return [row for kind in sorted(of_kind) for row in of_kind[kind]]


def _keyed(kind: str, column: str, counts: Column) -> Column:
    return F.struct(F.lit(kind).alias("kind"), F.when(counts, F.col(column).cast("string")).alias("key"))


def by_hour(table: DataFrame) -> DataFrame:
    """(hour, status class, requests, bytes) of table `access_hourly`; the hour in seconds since 1970."""
    sums = (F.sum(name).alias(name) for name in ("requests", "bytes"))
    ordered = table.groupBy("hour", "status_class").agg(*sums).orderBy("hour", "status_class")
    return ordered.withColumn("hour", F.unix_seconds("hour"))


def sums(table: DataFrame) -> DataFrame:
    """One row: distinct clients, and the milliseconds that half, 95 % and 99 % of the requests took at most."""
    merged = table.agg(
        F.hll_sketch_estimate(F.hll_union_agg("clients_hll")).alias("clients"),
        F.kll_merge_agg_double("latency_kll").alias("latency"),
    )
    timed = F.kll_sketch_get_n_double("latency") > 0  # Spark refuses the quantiles of an empty sketch
    quantiles = (
        F.when(timed, F.kll_sketch_get_quantile_double("latency", F.lit(share))).alias(name)
        for name, share in (("p50", 0.5), ("p95", 0.95), ("p99", 0.99))
    )
    return merged.select("clients", *quantiles)
