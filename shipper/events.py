"""What can happen: a closed list. One function each emits the log line and the metric; nobody else logs or counts.

Labels are bounded: partition, outcome, reason. Never the content of a shipped line.
"""

from shipper.telemetry import Counter, Gauge, Histogram, logger

# -- producer -----------------------------------------------------------------------------------------------------

_PUBLISHED_BYTES = Counter("fshipper_published_bytes_total", "Bytes of log lines that JetStream acknowledged")
_PUBLISHED_LINES = Counter("fshipper_published_lines_total", "Newlines in the bytes that JetStream acknowledged")
_PUBLISHED_BLOCKS = Counter("fshipper_published_blocks_total", "Blocks that JetStream acknowledged")
_SESSIONS = Counter("fshipper_sessions_ended_total", "Sessions with the server that ended in trouble", ["program"])
_LOST_BYTES = Counter("fshipper_lost_bytes_total", "Bytes that nobody could read any more", ["reason"])
_REWOUND_BYTES = Counter("fshipper_rewound_bytes_total", "Acknowledged bytes that are sent again: the server lost them")
_UNREADABLE = Counter("fshipper_unreadable_files_total", "Looks at a file that failed")
_CHECKPOINT_ERRORS = Counter("fshipper_checkpoint_errors_total", "Checkpoints that could not be written or read")
_IN_FLIGHT = Gauge("fshipper_in_flight_bytes", "Payload bytes sent and not yet acknowledged")
_FOLLOWED = Counter("fshipper_followed_files_total", "Sources that were begun or resumed")
_DELETED_FILES = Counter("fshipper_deleted_files_total", "Files deleted because the archive has all of them")
_DELETED_BYTES = Counter("fshipper_deleted_bytes_total", "Bytes of files deleted because the archive has all of them")
_NOT_DELETED = Counter("fshipper_undeleted_files_total", "Archived files that could not be deleted, each once")
_IGNORED_BYTES = Counter("fshipper_ignored_bytes_total", "Bytes left out because their file was old when first seen")


def producer_started(*, host: str, subject: str, files: int) -> None:
    """A producer begins to ship."""
    logger.info("producer_started", host=host, subject=subject, files=files)


def file_followed(*, path: str, source: str, offset: int) -> None:
    """A source is read from `offset` on."""
    _FOLLOWED.inc()
    logger.debug("file_followed", file=path, source=source, offset=offset)


def file_left(*, path: str, how: str) -> None:
    """A file was renamed or deleted; it is read to its end."""
    logger.info("file_left", file=path, how=how)


def file_unreadable(*, path: str, error: str) -> None:
    """A file cannot be looked at or read now; it is tried again and not taken for gone."""
    _UNREADABLE.inc()
    logger.warning("file_unreadable", file=path, error=error)


def bytes_lost(*, file: str, lost: int, reason: str) -> None:
    """Bytes that were in a file are gone before anybody could read them; the archive gets a gap record."""
    _LOST_BYTES.labels(reason).inc(lost)
    logger.error("bytes_lost", file=file, bytes=lost, reason=reason)


def blocks_acknowledged(*, blocks: int, lines: int, octets: int, in_flight: int) -> None:
    """JetStream has stored blocks."""
    _PUBLISHED_BLOCKS.inc(blocks)
    _PUBLISHED_LINES.inc(lines)
    _PUBLISHED_BYTES.inc(octets)
    _IN_FLIGHT.set(in_flight)


def session_ended(*, program: str, error: str, hint: str, retry_in: float) -> None:
    """A session with the server ended; another one is tried."""
    _SESSIONS.labels(program).inc()
    fields = {"hint": hint} if hint else {}
    logger.warning("session_ended", error=error, retry_in=round(retry_in, 2), **fields)


def session_begun(*, program: str, subject: str) -> None:
    """A session with the server works."""
    logger.info("session_begun", program=program, subject=subject)


def server_lost_data(*, subject: str, acknowledged: int, stored: int, again: int) -> None:
    """The server no longer has what it acknowledged; the bytes are sent again."""
    _REWOUND_BYTES.inc(again)
    logger.warning("server_lost_data", subject=subject, acknowledged=acknowledged, stored=stored, again_bytes=again)


def source_recovered(*, file: str, source: str, offset: int) -> None:
    """The checkpoint was lost; the archive or the stream proves how far a file was shipped."""
    logger.warning("source_recovered", file=file, source=source, offset=offset)


def checkpoint_damaged(*, path: str, kept: str, error: str) -> None:
    """A checkpoint cannot be read; it is kept aside and receipts are asked for."""
    _CHECKPOINT_ERRORS.inc()
    logger.error("checkpoint_damaged", path=path, kept=kept, error=error)


def checkpoint_failed(*, error: str) -> None:
    """A checkpoint cannot be written; shipping goes on, a restart sends more again."""
    _CHECKPOINT_ERRORS.inc()
    logger.error("checkpoint_failed", error=error)


def watching_failed(*, error: str) -> None:
    """Notifications do not work; looking at intervals goes on."""
    logger.warning("watching_failed", error=error)


def reload_refused(*, error: str) -> None:
    """SIGHUP, and the new settings cannot be used: the producer goes on under the ones that it has."""
    logger.error("reload_refused", error=error)


def settings_reloaded(*, files: int) -> None:
    """SIGHUP, and the producer goes on under the new settings."""
    logger.info("settings_reloaded", files=files)


def restart_needed(*, keys: list[str]) -> None:
    """Settings that changed and that only a start can take over; the others are taken over now."""
    logger.warning("restart_needed", keys=keys)


def file_deleted(*, path: str, source: str, octets: int) -> None:
    """A file was deleted because the archive has all of it."""
    _DELETED_FILES.inc()
    _DELETED_BYTES.inc(octets)
    logger.info("file_deleted", file=path, source=source, bytes=octets)


def file_not_deleted(*, path: str, error: str) -> None:
    """The archive has all of a file, but it cannot be deleted now; it is tried again and not said again."""
    _NOT_DELETED.inc()
    logger.warning("file_not_deleted", file=path, error=error)


def file_ignored(*, path: str, octets: int) -> None:
    """What an old file holds is left out, as `ignore_older` says; what is written into it later is shipped."""
    _IGNORED_BYTES.inc(octets)
    logger.info("file_ignored", file=path, bytes=octets)


_SPOOL_WAITS = Counter("fshipper_spool_full_total", "Times that an input waited for room in its spool", ["input"])
_LOST_MESSAGES = Counter("fshipper_lost_messages_total", "Messages that no input could read any more", ["reason"])


def input_started(*, input: str) -> None:  # noqa: A002 - the field's name in the log
    """An input without a file is read."""
    logger.info("input_started", input=input)


def spool_full(*, input: str, limit: int) -> None:  # noqa: A002
    """An input is not read until some of its spool is shipped: whoever writes to it waits."""
    _SPOOL_WAITS.labels(input).inc()
    logger.warning("spool_full", input=input, limit_bytes=limit)


def spool_has_room(*, input: str) -> None:  # noqa: A002
    """An input is read again."""
    logger.info("spool_has_room", input=input)


def spool_failed(*, input: str, error: str) -> None:  # noqa: A002
    """A spool cannot be written now; the input is not read until it can."""
    logger.error("spool_failed", input=input, error=error)


def messages_lost(*, input: str, lost: int, reason: str) -> None:  # noqa: A002
    """Messages came to an input, or lay there, and nobody could read them; at least so many."""
    _LOST_MESSAGES.labels(reason).inc(lost)
    logger.error("messages_lost", input=input, lost=lost, reason=reason)


def connections_full(*, input: str, limit: int) -> None:  # noqa: A002
    """A listener takes no more connections until one ends."""
    logger.warning("connections_full", input=input, limit=limit)


def listening_openly(*, input: str) -> None:  # noqa: A002
    """A listener can be reached from other machines: whoever reaches it can write to the archive."""
    logger.warning("listening_openly", input=input)


def journal_ended(*, error: str, retry_in: float) -> None:
    """The journal reader (journalctl) ended by itself; it is started again."""
    logger.warning("journal_ended", error=error, retry_in=retry_in)


def cursor_damaged(*, path: str, kept: str, goes_on: str) -> None:
    """The record of how far the journal is read cannot be used; it is kept aside."""
    logger.error("cursor_damaged", path=path, kept=kept, goes_on=goes_on)


def fifo_not_read(*, path: str) -> None:
    """A glob found a FIFO: it is read only where it is named."""
    logger.warning("fifo_not_read", file=path, hint="name its path to read it")


def rest_found(*, file: str, path: str, offset: int, octets: int) -> None:
    """The file of a source is gone or was rewritten; what was not read of it lies in another file."""
    logger.info("rest_found", file=file, path=path, offset=offset, bytes=octets)


def rest_incomplete(*, path: str, octets: int) -> None:
    """A compressed file ends too early and nobody works on it; what can be read of it counts."""
    logger.error("rest_incomplete", path=path, bytes=octets)


def file_replaced(*, path: str, source: str, offset: int) -> None:
    """A new file took the place of one that is gone and begins with what was shipped: its source goes on there."""
    logger.info("file_replaced", file=path, source=source, offset=offset)


def compressed_left_out(*, path: str) -> None:
    """A glob found a compressed file that is no rotation of a file that is followed."""
    logger.warning("compressed_left_out", path=path, hint="name it without a glob to ship its bytes as they are")


def file_passed_over(*, path: str, source: str, error: str) -> None:
    """An older generation could not be read for so long that its successors go first; it is still tried."""
    logger.error("file_passed_over", file=path, source=source, error=error)


def late_lines(*, file: str, source: str) -> None:
    """A renamed file that was let go got more bytes; it is read on."""
    logger.info("late_lines", file=file, source=source)


def device_changed(*, file: str, source: str) -> None:
    """The file system of a file has another device number, as after a reboot or a mount; its source goes on."""
    logger.info("device_changed", file=file, source=source)


_LEFT_OUT = Counter("fshipper_left_out_bytes_total", "Bytes of lines that the producer was told to leave out")
_EDITED = Counter("fshipper_edited_places_total", "Places that were blacked out, and lines that were made UTF-8")


def text_edited(*, filtered: int, edits: int) -> None:
    """Lines were left out, blacked out or converted before they were sent; sent again, they count again."""
    _LEFT_OUT.inc(filtered)
    _EDITED.inc(edits)


# -- collector ----------------------------------------------------------------------------------------------------

_WRITTEN_BYTES = Counter("fshipper_archive_written_bytes_total", "Bytes made durable in the archive", ["partition"])
_APPLIED = Counter("fshipper_archive_messages_total", "Messages by what became of them", ["partition", "outcome"])
_COMMIT_SECONDS = Histogram("fshipper_archive_commit_seconds", "Write, sync and journal of one batch", ["partition"])
_GAPS = Counter("fshipper_archive_gap_bytes_total", "Bytes known to be missing in the archive", ["partition", "reason"])
_HOLES = Gauge("fshipper_archive_open_holes", "Sources that wait for missing blocks", ["partition"])
_REWRITTEN = Counter("fshipper_archive_rewritten_total", "Sound blocks whose source sum differs", ["partition"])
_SEALED = Counter("fshipper_archive_sealed_segments_total", "Segments closed for good", ["partition"])
_TROUBLE = Gauge("fshipper_archive_trouble", "1 while the archive cannot be written", ["partition"])
_PURGED = Counter("fshipper_stream_purged_messages_total", "Messages removed behind the archive", ["partition"])
_LAG = Gauge("fshipper_lag_messages", "Messages in the stream behind the last applied one", ["partition"])


def collector_started(*, directory: str, partitions: list[int]) -> None:
    """A collector begins to write."""
    logger.info("collector_started", directory=directory, partitions=partitions)


def batch_committed(*, partition: int, outcomes: dict[str, int], octets: int, seconds: float, pending: int) -> None:
    """A batch is durable in the archive and journaled."""
    label = str(partition)
    for outcome, count in outcomes.items():
        _APPLIED.labels(label, outcome).inc(count)
    _WRITTEN_BYTES.labels(label).inc(octets)
    _COMMIT_SECONDS.labels(label).observe(seconds)
    _LAG.labels(label).set(pending)
    logger.debug("batch_committed", partition=partition, bytes=octets, seconds=round(seconds, 4), **outcomes)


def gap_recorded(*, partition: int, host: str, file: str, start: int, end: int, reason: str) -> None:
    """Bytes of a source are known to be missing in the archive."""
    _GAPS.labels(str(partition), reason).inc(end - start)
    logger.error("gap_recorded", partition=partition, host=host, file=file, start=start, end=end, reason=reason)


def hole_opened(*, partition: int, host: str, file: str, start: int, end: int) -> None:
    """Blocks are missing before one that came; the producer is expected to send them again."""
    logger.warning("hole_opened", partition=partition, host=host, file=file, start=start, end=end)


def holes_open(*, partition: int, count: int) -> None:
    """How many sources wait for missing blocks now."""
    _HOLES.labels(str(partition)).set(count)


def hole_asked(*, partition: int, host: str, file: str, start: int, answer: str) -> None:
    """A hole lasted, so its producer was asked for the bytes."""
    logger.warning("hole_asked", partition=partition, host=host, file=file, start=start, answer=answer)


def source_rewritten(*, partition: int, host: str, file: str, offset: int) -> None:
    """A sound block continues other bytes than the archive has: the file was rewritten in place."""
    _REWRITTEN.labels(str(partition)).inc()
    logger.error("source_rewritten", partition=partition, host=host, file=file, offset=offset)


def message_dead_lettered(*, partition: int, sequence: int, subject: str, reason: str) -> None:
    """A message fails for its own sake and is kept in the dead letters."""
    logger.error("message_dead_lettered", partition=partition, sequence=sequence, subject=subject, reason=reason)


def archive_failed(*, partition: int, error: str) -> None:
    """The archive cannot be written; nothing is acknowledged until it can."""
    _TROUBLE.labels(str(partition)).set(1)
    logger.error("archive_failed", partition=partition, error=error)


def archive_works(*, partition: int) -> None:
    """The archive can be written."""
    _TROUBLE.labels(str(partition)).set(0)


def archive_repaired(*, file: str, cut: int) -> None:
    """A file was longer than its committed length, as after a kill between write and journal; the rest was cut off."""
    logger.info("archive_repaired", file=file, cut_bytes=cut)


def archive_damaged(*, partition: int, file: str, missing: int) -> None:
    """Committed bytes are no longer in the archive: somebody else changed it."""
    _GAPS.labels(str(partition), "archive_changed").inc(missing)
    logger.error("archive_damaged", partition=partition, file=file, missing_bytes=missing)


def history_changed(*, partition: int, applied: int, reason: str) -> None:
    """The stream is not the one that the journal knows; it is read again from its first message."""
    logger.warning("history_changed", partition=partition, applied=applied, reason=reason)


def segment_sealed(*, partition: int, path: str, lines: int, octets: int) -> None:
    """A segment is closed for good."""
    _SEALED.labels(str(partition)).inc()
    logger.info("segment_sealed", partition=partition, path=path, lines=lines, bytes=octets)


def day_closed(*, date: str) -> None:
    """Every segment of a day is sealed."""
    logger.info("day_closed", date=date)


def stream_purged(*, partition: int, below: int, messages: int) -> None:
    """Messages that are in the archive were removed from the stream."""
    _PURGED.labels(str(partition)).inc(messages)
    logger.info("stream_purged", partition=partition, below=below, messages=messages)


# -- both ---------------------------------------------------------------------------------------------------------


def drained(*, program: str, left: int) -> None:
    """A program ended; `left` blocks are sent or read again by the next run."""
    logger.info("drained", program=program, left=left)
