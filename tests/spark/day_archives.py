"""Archives as the collector writes them, and the tables that a report makes of them."""

import datetime as dt
import gzip
import time
import zlib
from dataclasses import dataclass, field
from pathlib import Path

import zstandard
from pyspark.sql import functions as F  # noqa: N812

from shipper import layout, manifest
from shipper.layout import FileKey
from shipper.manifest import Gap, Segment
from spark_analytics import pipeline
from spark_analytics.archive import inventory
from spark_analytics.tables import parquet, schemas
from spark_analytics.tables.store import SMALL, Tables

DATE = "2026-11-20"
DAY = dt.date(2026, 11, 20)
COLLECTOR = "collector-a"


def compressed(content: bytes, codec: str) -> bytes:
    return {"zstd": zstandard.ZstdCompressor(level=3).compress, "gzip": gzip.compress, "none": bytes}[codec](content)


@dataclass
class Archive:
    """Writes an archive as a collector does, and keeps the counts of `wc -l -c`."""

    root: Path
    date: str = DATE
    sequence: int = 0
    counts: dict[tuple[int, str, str], tuple[int, int]] = field(default_factory=dict)

    def seal(
        self, content: bytes, *, host="web1", file="/var/log/app.log", partition=0, codec="zstd", **other
    ) -> Segment:
        self.sequence += 10
        key = FileKey(self.date, partition, host, file)
        stored = compressed(content, codec)
        segment = Segment(
            **{
                "collector": COLLECTOR,
                "partition": partition,
                "host": host,
                "file": file,
                "path": layout.segment_path(key, self.sequence, codec),
                "codec": codec,
                "lines": content.count(b"\n"),
                "bytes_raw": len(content),
                "bytes_stored": len(stored),
                "first_seq": self.sequence,
                "last_seq": self.sequence + 9,
                "first_time": f"{self.date}T05:17:00.123456789Z",
                "last_time": f"{self.date}T06:00:00Z",
                "crc32": f"{zlib.crc32(content):08x}",
                **other,
            }
        )
        path = self.root / segment.path
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(stored)
        self.register(segment)
        lines, size = self.counts.get((partition, host, file), (0, 0))
        self.counts[partition, host, file] = (lines + content.count(b"\n"), size + len(content))
        return segment

    def register(self, segment: Segment) -> None:
        with self.manifest.open("ab") as lines:
            lines.write(manifest.to_line(segment))

    @property
    def manifest(self) -> Path:
        path = self.root / layout.manifest_path(self.date, COLLECTOR)
        path.parent.mkdir(parents=True, exist_ok=True)
        return path

    def close(self) -> None:
        self.manifest.with_suffix(".done").write_bytes(b"")

    def gap(self, start: int, end: int) -> Gap:
        return Gap(source="00c0ffee00c0ffee", start=start, end=end, reason="deleted")

    def reported(self, spark, out: Path, *, top: int = 20):
        """The report of the archive's day, through the session that all tests share."""
        request = pipeline.Request(archive=self.root, out=out, top=top, master=None)
        out.mkdir(exist_ok=True)
        return pipeline.make(spark, request, inventory.read_day(self.root, self.date), time.monotonic())


def table_of(out: Path, name: str, date: str = DATE) -> list[dict]:
    """The rows of one of the small tables, without Spark."""
    return parquet.read(Tables(out).day(name, date) / SMALL, schemas.TABLES[name])


def totals_of(spark, out: Path) -> dict[tuple[int, str, str], tuple[int, int]]:
    """(lines, bytes) by (partition, host, file), as table `hourly` has them: lines that end."""
    table = spark.read.parquet(str(out / "tables" / "hourly"))
    rows = table.groupBy("partition", "host", "file").agg(F.expr("sum(lines - unfinished)"), F.sum("bytes")).collect()
    return {tuple(row[:3]): tuple(row[3:]) for row in rows}
