"""Collects what is known of a file: from its producer, the streams, the archive, the reports, and this host itself."""

import asyncio
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from importlib.metadata import entry_points

from consumer.explain.archive_evidence import from_archive, report_of
from consumer.explain.ladder import Evidence, LocalLine, moment
from consumer.explain.server_evidence import from_server
from shipper.control import FilesReply
from shipper.errors import ShipperError
from shipper.settings import Settings
from shipper.units import format_duration

GROUP = "fshipper.explain"
"""Entry points of the checks that another program makes on this host."""
Local = Callable[[Settings, str, str, bytes], tuple[FilesReply, tuple[int, int, str] | None] | None]


def collected(settings: Settings, host: str, file: str, line: str, reports: str) -> Evidence:
    """What is known. Nothing that cannot be reached is an error: the evidence has the reason."""
    known = Evidence(host=host, file=file, has_line=bool(line))
    known = asyncio.run(from_server(settings, known, line.encode()))
    known = from_archive(settings, known, line.encode())
    if known.archive is None or not line:
        known = _from_here(settings, known, line.encode())
    return replace(known, report=report_of(known, reports)) if known.archive is not None else known


# -- this host -----------------------------------------------------------------------------------------------------


def _from_here(settings: Settings, known: Evidence, line: bytes) -> Evidence:
    """What this machine has, if it is the host: its checkpoint, and where the line is in the file."""
    if known.reply is not None and not line:
        return known
    for entry in entry_points(group=GROUP):
        explain: Local = entry.load()
        try:
            found = explain(settings, known.host, known.file, line)
        except ShipperError as error:
            return known if known.reply else replace(known, no_reply=f"{known.no_reply}; on this machine: {error}")
        if found is None:
            continue
        reply, place = found
        if known.reply is None:
            known = replace(known, reply=reply, is_live=False)
        if line:
            known = replace(known, local_line=LocalLine(*place) if place is not None else None)
    return known


def as_json(known: Evidence) -> Iterator[tuple[str, object]]:
    """What was found, for scripts."""
    reply, archive, stream = known.reply, known.archive, known.stream
    yield (
        "producer",
        {
            "answers": known.is_live,
            "why": known.no_reply,
            "state": known.status.state.value if known.status else None,
            "verdict": reply.verdict.value if reply else None,
            "reason": reply.reason if reply else "",
            "files": [mark._asdict() for mark in reply.marks] if reply else [],
        },
    )
    yield (
        "stream",
        stream
        and {
            "partition": stream.partition,
            "sequence": stream.sequence,
            "stored": moment(stream.time_ns / 1e9) if stream.time_ns else None,
        },
    )
    yield (
        "archive",
        archive
        and {
            "path": archive.part.path,
            "date": archive.part.key.date,
            "partition": archive.part.partition,
            "offset": archive.offset if archive.offset >= 0 else None,
            "state": archive.part.state.value,
            "stored_since": moment(archive.since_ns / 1e9),
            "stored_until": moment(archive.until_ns / 1e9),
        },
    )
    yield (
        "report",
        known.report
        and {
            "path": known.report.path,
            "made": moment(known.report.made) if known.report.made else None,
        },
    )


def age_of(seconds: float) -> str:
    """How long ago a time is, for people."""
    return f"{moment(seconds)}, {format_duration(max(0.0, time.time() - seconds))} ago"
