"""What can happen to a collector."""

import contextlib
import time
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from shipper.events.table import error, info, warning
from shipper.telemetry import Counter, Gauge, Histogram, logger

MOST_RECENT = 20


class ReportedGap(NamedTuple):
    """Bytes that are known to be missing in the archive, as the status page shows it."""

    at: float  #: seconds since 1970 when it was recorded
    partition: int
    host: str
    file: str
    start: int
    end: int
    reason: str


_WRITTEN_BYTES = Counter("fshipper_archive_written_bytes_total", "Bytes made durable in the archive", ["partition"])
_APPLIED = Counter("fshipper_archive_messages_total", "Messages by outcome", ["partition", "outcome"])
_COMMIT_SECONDS = Histogram("fshipper_archive_commit_seconds", "Write, sync and journal of one batch", ["partition"])
_GAPS = Counter("fshipper_archive_gap_bytes_total", "Bytes known to be missing in the archive", ["partition", "reason"])
_EXCLUDED = Counter(
    "fshipper_archive_excluded_bytes_total",
    "Bytes that hosts did not read because their configuration no longer names the file",
    ["partition"],
)
_HOLES = Gauge("fshipper_archive_open_holes", "Sources that wait for missing blocks", ["partition"])
_REWRITTEN = Counter("fshipper_archive_rewritten_total", "Valid blocks whose source checksum differs", ["partition"])
_FORKED = Counter("fshipper_archive_forked_sources_total", "Sources that two producers continued", ["partition"])
_CROSSED = Counter(
    "fshipper_archive_sources_in_two_partitions_total",
    "Sources that arrived in a second partition without a move",
    ["partition"],
)
_SEALED = Counter("fshipper_archive_sealed_segments_total", "Segments sealed", ["partition"])
_MERGED = Counter("fshipper_archive_merged_segments_total", "Small segments merged into larger ones", ["partition"])
_REPACKED = Counter(
    "fshipper_archive_repacked_segments_total", "Segments of closed days compressed again", ["partition"]
)
_SAVED = Counter(
    "fshipper_archive_repacked_saved_bytes_total", "Stored bytes that compressing again saved", ["partition"]
)
_DAMAGED = Counter(
    "fshipper_archive_damaged_segments_total", "Segments that differ from their manifest line", ["partition"]
)
_REMOVED = Counter("fshipper_archive_removed_bytes_total", "Stored bytes of days that retention removed", ["reason"])
_DOUBLED = Gauge(
    "fshipper_archive_doubled_bytes",
    "Bytes of sources that sealed segments hold twice, by where the later copy is",
    ["partition"],
)
_TROUBLE = Gauge("fshipper_archive_trouble", "1 while the archive cannot be written", ["partition"])
_LINKS_FAILED = Counter(
    "fshipper_live_links_failed_total", "Open files that have no link below live/, as on file systems without links"
)
_CROWDED = Counter("fshipper_overflow_messages_total", "Messages of hosts with too many open files", ["partition"])
_BAD_COUNTS = Counter(
    "fshipper_ignored_redacted_counts_total", "Blocks whose counts of redacted places are not readable", ["partition"]
)
_REFUSED_QUESTIONS = Counter(
    "fshipper_refused_questions_total",
    "Requests of hosts that were not answered: too many, or not permitted",
    ["partition"],
)
_REMOVED_HOST_DAYS = Counter(
    "fshipper_removed_host_days_total",
    "Days of single hosts that retention by size removed: they held more than their share",
)
_REMOVED_HOST_BYTES = Counter("fshipper_removed_host_bytes_total", "Bytes of segments in these days")
_HOSTS_OVER_SHARE = Gauge(
    "fshipper_hosts_over_share", "Hosts that hold more than their fair share of keep_bytes, while the archive is larger"
)
_CUT_DEAD_LETTERS = Counter(
    "fshipper_cut_dead_letters_total",
    "Dead letters of which only the beginning is kept: their host has spent its budget of the day",
)
_OVER_BUDGET = Counter(
    "fshipper_over_budget_messages_total",
    "Messages of hosts that have spent a budget of the day: sources, lost_bytes or dead_letters",
    ["partition", "budget"],
)
_DEAD_LETTERS = Counter("fshipper_dead_letters_total", "Messages that could not be applied", ["partition"])
_PURGED = Counter("fshipper_stream_purged_messages_total", "Archived messages removed from the stream", ["partition"])
_GONE = Counter("fshipper_gone_messages_total", "Messages that left the stream before they were read", ["partition"])
_LEASES = Gauge("fshipper_leases_held", "Partitions that this collector writes")
_FENCED = Counter("fshipper_fenced_total", "Partitions that another collector took over from this one")
_CONSUMERS = Counter("fshipper_consumers_created_total", "Deleted consumers that the collector created again")
_RECENT_GAPS: deque[ReportedGap] = deque(maxlen=MOST_RECENT)
_LAG = Gauge("fshipper_lag_messages", "Messages in the stream after the last applied one", ["partition"])


_PACE = Gauge("fshipper_pace_seconds", "How long this collector requests its hosts to collect lines; 0: as they like")
_HOSTS = Gauge("fshipper_hosts", "Hosts by state, from heartbeats; each collector reports all", ["state"])
_HOST_BACKLOG = Gauge("fshipper_hosts_backlog_bytes", "Bytes that live hosts have not shipped, from heartbeats")
_HOST_BACKLOG_AGE = Gauge(
    "fshipper_hosts_backlog_age_seconds", "Age of the oldest byte that a live host has not shipped"
)
_PARTITION_LAG = Gauge(
    "fshipper_partition_lag_messages", "Messages in the stream that are not archived, from the server", ["partition"]
)
_PARTITION_FILLED = Gauge(
    "fshipper_partition_filled_ratio", "Part of the stream's max_bytes that is used", ["partition"]
)
_PARTITION_TOP_HOST = Gauge(
    "fshipper_partition_top_host_ratio",
    "Part of the messages in a stream that one host has, where the stream is at least 80 % full; else 0",
    ["partition"],
)
_PARTITION_COLLECTORS = Gauge(
    "fshipper_partition_collectors", "Collectors that write the partition: 0 or 1", ["partition"]
)
_ARCHIVE_SIZE = Gauge("fshipper_archive_size_bytes", "Size of the archive's file system")
_ARCHIVE_FREE = Gauge("fshipper_archive_free_bytes", "Free space of the archive's file system, for this user")


def recent_gaps() -> list[ReportedGap]:
    """The newest gaps that this process recorded, oldest first."""
    return list(_RECENT_GAPS)


def fleet_seen(*, states: Mapping[str, int], backlog: int, backlog_age: float) -> None:
    """The heartbeats of all hosts were read."""
    for state, count in states.items():
        _HOSTS.labels(state).set(count)
    _HOST_BACKLOG.set(backlog)
    _HOST_BACKLOG_AGE.set(backlog_age)


@warning("The hosts' heartbeats and the partitions' lag cannot be read now; the collector continues to write.")
def fleet_not_seen(*, error: str) -> None: ...


@warning("The server may lose lines that it acknowledged, or a partition: its settings, its version or the replicas.")
def durability_at_risk(*, text: str, hint: str) -> None: ...


def partition_seen(*, partition: int, lag: int, filled: float, collectors: int, top_host_ratio: float) -> None:
    """One partition, with any collector as its writer: messages not yet in the archive, and how full its stream is.

    `top_host_ratio`: part of the messages that one host has, of a stream that is nearly full; else 0.
    """
    label = str(partition)
    _PARTITION_LAG.labels(label).set(lag)
    _PARTITION_FILLED.labels(label).set(filled)
    _PARTITION_COLLECTORS.labels(label).set(collectors)
    _PARTITION_TOP_HOST.labels(label).set(top_host_ratio)


def stream_crowded(*, partition: int, host: str, of_messages: float, filled: float) -> None:
    """The stream of a partition is nearly full, and `host` has the most messages in it: this part of them."""
    logger.warning(
        "stream_crowded",
        partition=partition,
        host=host,
        of_messages=round(of_messages, 3),
        filled=round(filled, 3),
        hint="docs/operations/troubleshooting.md, one host exceeds its limits",
    )


def partitions_gone(*, partitions: Iterable[int]) -> None:
    """Their streams were removed."""
    for partition in partitions:
        for gauge in (_PARTITION_LAG, _PARTITION_FILLED, _PARTITION_COLLECTORS, _PARTITION_TOP_HOST):
            with contextlib.suppress(KeyError):
                gauge.remove(str(partition))


def archive_measured(*, size: int, free: int) -> None:
    """The size of the archive and the free bytes of its file system."""
    _ARCHIVE_SIZE.set(size)
    _ARCHIVE_FREE.set(free)


def pace_chosen(*, seconds: float) -> None:
    """The collector requests its hosts to collect lines so long; 0: as long as they like."""
    _PACE.set(seconds)


@info("A collector begins to write.")
def collector_started(*, directory: str, partitions: list[int]) -> None: ...


def batch_committed(*, partition: int, outcomes: dict[str, int], octets: int, seconds: float, pending: int) -> None:
    """A batch is durable in the archive and journaled."""
    label = str(partition)
    for outcome, count in outcomes.items():
        _APPLIED.labels(label, outcome).inc(count)
    _WRITTEN_BYTES.labels(label).inc(octets)
    _COMMIT_SECONDS.labels(label).observe(seconds)
    _LAG.labels(label).set(pending)
    logger.debug("batch_committed", partition=partition, bytes=octets, seconds=round(seconds, 4), **outcomes)


@warning(
    "A host has more dead letters than its budget: their reason and first bytes are kept.",
    _CUT_DEAD_LETTERS,
    by="letters",
    hint="`fshipper dlq ls` shows why its messages cannot be applied",
)
def dead_letter_cut(*, partition: int, host: str, letters: int) -> None: ...
@error(
    "A host has spent a budget of the day. Its further messages are dead letters; further dead letters are counted."
    " Above `text_bytes` its messages are archived, and counted.",
    _OVER_BUDGET,
    per="partition budget",
    by="messages",
    hint="other hosts are not affected; docs/operations/troubleshooting.md, one host exceeds its limits",
)
def host_over_budget(*, partition: int, host: str, budget: str, messages: int) -> None: ...


def question_refused(*, host: str, partition: int | None, reason: str) -> None:
    """A request on `ctl.up` is refused: its host sends too many, or requests what only the partitioner may have."""
    _REFUSED_QUESTIONS.labels("-" if partition is None else str(partition)).inc()
    logger.warning(
        "question_refused",
        host=host,
        partition=partition,
        reason=reason,
        hint="nothing of other hosts is affected; if it continues, examine the host or revoke its key",
    )


def gap_recorded(*, partition: int, host: str, file: str, start: int, end: int, reason: str) -> None:
    """Bytes of a source are known to be missing in the archive."""
    _GAPS.labels(str(partition), reason).inc(end - start)
    _RECENT_GAPS.append(ReportedGap(time.time(), partition, host, file, start, end, reason))
    logger.error("gap_recorded", partition=partition, host=host, file=file, start=start, end=end, reason=reason)


def exclusion_recorded(*, partition: int, host: str, file: str, start: int, end: int) -> None:
    """A host does not read the rest of a file, because its configuration no longer names it: nothing is lost."""
    _EXCLUDED.labels(str(partition)).inc(end - start)
    logger.info("exclusion_recorded", partition=partition, host=host, file=file, start=start, end=end)


@warning("Blocks are missing before one that came; the producer is expected to send them again.")
def hole_opened(*, partition: int, host: str, file: str, start: int, end: int) -> None: ...


def holes_open(*, partition: int, count: int) -> None:
    """How many sources wait for missing blocks now."""
    _HOLES.labels(str(partition)).set(count)


@warning("A hole lasted, so the collector requested the bytes from its producer.")
def hole_asked(*, partition: int, host: str, file: str, start: int, answer: str) -> None: ...
@error("A valid block continues other bytes: the file was rewritten in place.", _REWRITTEN, per="partition")
def source_rewritten(*, partition: int, host: str, file: str, offset: int) -> None: ...
@error(
    "Two producers continue one source with other bytes: the second becomes a source of its own.",
    _FORKED,
    per="partition",
    hint="two machines use this name, or the file was rewritten; see docs/operations/troubleshooting.md",
)
def source_forked(*, partition: int, host: str, file: str, source: str, fork: str, start: int) -> None: ...
@warning("A source arrives in a second partition without a move: only the rest is written.", _CROSSED, per="partition")
def source_archived_before(
    *, partition: int, other: int, host: str, file: str, source: str, watermark: int
) -> None: ...
@warning(
    "SHIPPER_PARTITIONS disagrees with the partition map of the server; the collector reads what the map uses.",
    version="map_version",
    partitions="map_partitions",
    hint="the map decides: SHIPPER_PARTITIONS is not needed",
)
def collector_follows_map(*, version: int, partitions: int, configured: int) -> None: ...
@warning(
    "SHIPPER_READ_PARTITIONS names partitions that the server does not have; the collector waits for their streams.",
    hint="set SHIPPER_READ_PARTITIONS (--partitions) to partitions that are there, or leave it out to read all",
)
def partitions_without_stream(*, missing: list[int], there: list[int]) -> None: ...


def archived_elsewhere(*, partition: int, directory: str, collector: str, host: str, first: int, last: int) -> None:
    """Messages of a partition are in another collector's archive; this one continues after them."""
    logger.warning(
        "archived_elsewhere",
        partition=partition,
        first_message=first,
        last_message=last,
        collector=collector,
        on_host=host,
        directory=directory or "not known",
        hint="one archive for all collectors: set the same SHIPPER_DIRECTORY, or audit each of them",
    )


@error("The journal of another partition cannot be read: what it archived of a new source here is not known.")
def journal_unreadable(*, partition: int, journal: str, error: str) -> None: ...
@error("A message fails for its own sake and is kept in the dead letters.", _DEAD_LETTERS, per="partition")
def message_dead_lettered(*, partition: int, sequence: int, subject: str, reason: str) -> None: ...
@warning("A host has too many open files: more go to `overflow.log`.", _CROWDED, per="partition", by="messages")
def host_crowded(*, partition: int, host: str, messages: int) -> None: ...
@warning("A host sent unreadable counts of its redaction.", _BAD_COUNTS, per="partition", by="blocks")
def redacted_counts_ignored(*, partition: int, host: str, blocks: int) -> None: ...


def archive_failed(*, partition: int, error: str) -> None:
    """The archive cannot be written; nothing is acknowledged until it can."""
    _TROUBLE.labels(str(partition)).set(1)
    logger.error("archive_failed", partition=partition, error=error)


def archive_works(*, partition: int) -> None:
    """The archive can be written."""
    _TROUBLE.labels(str(partition)).set(0)


def archive_recovered(*, partition: int) -> None:
    """The archive took data again, after it could not be written."""
    _TROUBLE.labels(str(partition)).set(0)
    logger.info("archive_recovered", partition=partition)


@info("A file was longer than its committed length, as after a kill: the rest was cut off.", cut="cut_bytes")
def archive_repaired(*, file: str, cut: int) -> None: ...


def live_link_failed(*, file: str, error: str, is_first: bool) -> None:
    """An open file has no link below `live/`, as on file systems without links. It is archived all the same.

    The log has the first one of a partition.
    """
    _LINKS_FAILED.inc()
    if is_first:
        logger.warning("live_link_failed", file=file, error=error, hint="the archive is complete without these links")


def archive_damaged(*, partition: int, file: str, missing: int) -> None:
    """Committed bytes are no longer in the archive: another program or person changed it."""
    _GAPS.labels(str(partition), "archive_changed").inc(missing)
    logger.error("archive_damaged", partition=partition, file=file, missing_bytes=missing)


@error(
    "Messages left the stream before a collector read them: an operator purged them, or a limit dropped them."
    " Their producers send blocks again on request; plain messages have no producer that could.",
    _GONE,
    per="partition",
    by="count",
    count="messages",
)
def messages_gone(*, partition: int, first: int, count: int) -> None: ...


def lease_taken(*, partition: int, epoch: int, previous: str, silent: float) -> None:
    """This collector writes the partition from now on; `silent`: seconds since the one before gave a sign of life."""
    _LEASES.inc()
    fields = {"previous": previous, "silent_seconds": round(silent, 1)} if previous else {}
    logger.info("lease_taken", partition=partition, epoch=epoch, **fields)


def lease_released(*, partition: int) -> None:
    """Files and journal of a partition are closed, and the next collector need not wait."""
    _LEASES.dec()
    _forget(partition)
    logger.info("lease_released", partition=partition)


def fenced(*, partition: int, error: str) -> None:
    """Another collector has the partition; what this one had not committed is left to it."""
    _LEASES.dec()
    _FENCED.inc()
    _forget(partition)
    logger.warning("fenced", partition=partition, error=error)


def _forget(partition: int) -> None:
    """Reset the gauges of a partition that another collector writes now."""
    for gauge in (_LAG, _HOLES, _TROUBLE):
        with contextlib.suppress(KeyError):
            gauge.remove(str(partition))


@warning(
    "No leases, so only the locks on this machine keep two collectors from the same partition.",
    hint="let the collector publish to $KV.fshipper.>, see deploy/nats/nats-server.conf",
)
def leases_refused(*, error: str) -> None: ...
@error("This collector cannot take a partition; the others go on.")
def partition_refused(*, partition: int, error: str) -> None: ...
@error("Streams were added that this collector cannot read with its settings; it goes on with those that it had.")
def streams_refused(*, error: str) -> None: ...
@warning("The consumer was missing, and the collector created it again.", _CONSUMERS)
def consumer_created(*, stream: str, consumer: str) -> None: ...
@warning("The consumer is missing, and the server refuses to create it.")
def consumer_not_created(*, stream: str, consumer: str, error: str) -> None: ...
@info("Other collectors write every partition; this one takes over when one of them ends.")
def standing_by(*, partitions: int) -> None: ...
@info("The server was empty and has no users, so this collector created the partition map and the streams.")
def first_streams_created(*, partitions: int) -> None: ...
@info("Partitions whose streams were created while the collector runs.")
def streams_found(*, partitions: list[int]) -> None: ...
@warning("The stream is not the one that the journal knows; it is read again from its first message.")
def history_changed(*, partition: int, applied: int, reason: str) -> None: ...
@info("A segment is closed for good.", _SEALED, per="partition")
def segment_sealed(*, partition: int, path: str, lines: int, octets: int) -> None: ...
@info("Small segments of a day that is over became one.", _MERGED, per="partition", by="parts")
def segments_merged(*, partition: int, path: str, parts: int) -> None: ...


def segment_repacked(*, partition: int, path: str, saved: int) -> None:
    """A segment of a closed day was compressed again, and takes `saved` bytes less."""
    _REPACKED.labels(str(partition)).inc()
    _SAVED.labels(str(partition)).inc(saved)
    logger.debug("segment_repacked", partition=partition, path=path, saved_bytes=saved)


@error(
    "A sealed segment differs from its manifest: it is left as it is.",
    _DAMAGED,
    per="partition",
    hint="fshipper audit has details",
)
def segment_damaged(*, partition: int, path: str, reason: str) -> None: ...


def duplicates_counted(*, octets: Mapping[int, int]) -> None:
    """The manifests of the archive were searched for bytes that are held twice; `octets` by partition."""
    for partition, count in octets.items():
        _DOUBLED.labels(str(partition)).set(count)


@error(
    "More bytes than before are in the archive twice.",
    hint="fshipper audit --repair-duplicates shows the later copies; with --yes it removes them",
)
def archive_doubled(*, octets: int) -> None: ...


def host_day_removed(*, date: str, host: str, octets: int, segments: int) -> None:
    """Retention by size removed a day of one host, which held more than its share of the archive."""
    _REMOVED_HOST_DAYS.inc()
    _REMOVED_HOST_BYTES.inc(octets)
    logger.warning("host_day_removed", date=date, host=host, bytes=octets, segments=segments)


def hosts_over_share(*, hosts: Sequence[str], share: int) -> None:
    """These hosts, the largest first, hold more than their share of an archive that is larger than `keep_bytes`."""
    _HOSTS_OVER_SHARE.set(len(hosts))
    if hosts:
        logger.warning(
            "hosts_over_share",
            hosts=list(hosts[:5]),
            count=len(hosts),
            share_bytes=share,
            hint="their oldest closed days are removed first; other hosts lose nothing",
        )


@info("Retention removed a day from the archive.", _REMOVED, per="reason", by="octets")
def day_removed(*, date: str, reason: str, octets: int, segments: int) -> None: ...
@error("Days that are over could not be merged, closed or removed now; it is tried again.")
def days_failed(*, error: str) -> None: ...
@info("Every segment of a day is sealed.")
def day_closed(*, date: str) -> None: ...
@info("Messages that are in the archive were removed from the stream.", _PURGED, per="partition", by="messages")
def stream_purged(*, partition: int, below: int, messages: int) -> None: ...
@info("The stream is full of blocks after open holes. Their producers send these again, so the stream may drop them.")
def holes_passed_by(*, partition: int, holes: int, below: int) -> None: ...
@info("Messages that are in the archive were removed from the edge site's stream.")
def site_purged(*, partition: int, messages: int) -> None: ...
@info("The edge site does not answer: it keeps its messages, and the collector retries.")
def site_away(*, partition: int, error: str) -> None: ...
@warning(
    "This collector has no right to read or purge the stream of the edge site, which fills up.",
    hint="nothing is lost, but no collector purges the site's stream: docs/guides/edge-sites.md names the rights",
)
def site_refused(*, partition: int, error: str) -> None: ...
@error(
    "The edge site's stream holds something else than what was sourced from it: it lost its last seconds, or more.",
    hint="its producers send again what they still have; nothing is purged there meanwhile: docs/guides/edge-sites.md",
)
def site_differs(*, partition: int) -> None: ...
