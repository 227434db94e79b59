"""Sketches of requests that are values here: Spark makes them, in one query, for its format is what readers know."""

from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql import types as T  # noqa: N812

from spark_analytics.metrics import web_requests
from spark_analytics.runtime import tuning
from spark_analytics.storage import locations
from spark_analytics.storage.locations import Location
from spark_analytics.tables import parquet
from spark_analytics.tables.schemas import WebSums
from spark_analytics.tables.store import SMALL

Sketched = tuple[bytes, bytes | None]
"""Clients, and latencies if there are any."""

_SCHEMA = T.StructType(
    [
        T.StructField("key", T.IntegerType()),
        T.StructField("client", T.StringType()),
        T.StructField("latency", T.IntegerType()),
        T.StructField("lines", T.LongType()),
    ]
)


def sketched(spark: SparkSession, requests: pa.Table, scratch: Location) -> tuple[dict[int, Sketched], WebSums]:
    """The sketches of each key, and what they say together; `scratch` is a directory for the way to Spark.

    `requests` are groups: number of log, hour and status (`key`); client; step of the latency; how many there are.
    """
    file = scratch / SMALL
    parquet.write_table(file, _SCHEMA, requests)
    try:
        made = _sketched(spark.read.schema(_SCHEMA).parquet(locations.for_spark(file)))
        with tuning.asking_of(spark, pc.sum(requests["lines"]).as_py()):  # each of them is a row
            rows = made.unionByName(web_requests.sums(made), allowMissingColumns=True).collect()
    finally:
        locations.remove(scratch)
    sums = next(row for row in rows if row["key"] is None)
    of_key = {row["key"]: _values(row) for row in rows if row["key"] is not None}
    return of_key, WebSums(sums["clients"], sums["p50"], sums["p95"], sums["p99"])


def _values(row: Any) -> Sketched:
    latency = row["latency_kll"]
    return bytes(row["clients_hll"]), None if latency is None else bytes(latency)


def _sketched(requests: DataFrame) -> DataFrame:
    """A quantile sketch knows no weights, so a group of equal latencies counts once for each of its lines."""
    took = F.array_repeat(web_requests.milliseconds(F.col("latency")), F.col("lines").cast("int"))
    once = F.array(F.lit(None).cast("double"))
    timed = F.col("latency").isNotNull()
    return (
        requests.select("key", "client", F.explode(F.when(timed, took).otherwise(once)).alias("took"))
        .groupBy("key")
        .agg(
            F.hll_sketch_agg("client", F.lit(web_requests.CLIENTS_LG_K)).alias("clients_hll"),
            F.kll_sketch_agg_double("took").alias("latency_kll"),
            F.count("took").alias("n"),
        )
        .withColumn("latency_kll", F.when(F.col("n") > 0, F.col("latency_kll")))
        .drop("n")
    )
