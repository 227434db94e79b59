"""What can happen to a producer."""

from collections.abc import Mapping

from shipper.events.table import debug, error, info, is_due, warning
from shipper.telemetry import Counter, Gauge, logger

_PUBLISHED_BYTES = Counter("fshipper_published_bytes_total", "Bytes of log lines that JetStream acknowledged")
_PUBLISHED_LINES = Counter("fshipper_published_lines_total", "Newlines in the bytes that JetStream acknowledged")
_PUBLISHED_BLOCKS = Counter("fshipper_published_blocks_total", "Blocks that JetStream acknowledged")
_LOST_BYTES = Counter("fshipper_lost_bytes_total", "Bytes lost before they could be read", ["reason"])
_REWOUND_BYTES = Counter("fshipper_rewound_bytes_total", "Acknowledged bytes that are sent again: the server lost them")
_PADDING_BYTES = Counter("fshipper_padding_bytes_total", "NULs at the end of files that ended; they are not shipped")
_UNREADABLE = Counter("fshipper_unreadable_files_total", "Failed attempts to read a file")
_CHECKPOINT_ERRORS = Counter("fshipper_checkpoint_errors_total", "Checkpoints that could not be written or read")
_IN_FLIGHT = Gauge("fshipper_in_flight_bytes", "Payload bytes sent and not yet acknowledged")
_FOLLOWED = Counter("fshipper_followed_files_total", "Sources that were started or resumed")
_DELETED_FILES = Counter("fshipper_deleted_files_total", "Files deleted because the archive has all of them")
_DELETED_BYTES = Counter("fshipper_deleted_bytes_total", "Bytes of files deleted because the archive has all of them")
_NOT_DELETED = Counter("fshipper_undeleted_files_total", "Archived files that could not be deleted, each once")
_IGNORED_BYTES = Counter("fshipper_ignored_bytes_total", "Bytes left out because their file was old when first seen")
_EXCLUDED_BYTES = Counter(
    "fshipper_excluded_bytes_total", "Bytes that were not read because the configuration no longer names their file"
)
_NOT_FOLLOWED = Counter("fshipper_links_not_followed_total", "Names that are not read because of links, each once")
_MOVES = Counter("fshipper_host_moves_total", "Moves of this host from one partition to another")
_BACKLOG = Gauge("fshipper_backlog_bytes", "Bytes seen in the files that JetStream has not acknowledged")
_BACKLOG_AGE = Gauge("fshipper_backlog_age_seconds", "Age of the oldest byte that JetStream has not acknowledged")
_DELAY = Gauge("fshipper_delay_seconds", "How long lines are collected now before they are sent")
_FILES = Gauge("fshipper_files", "Files that are followed")
_UNOPENED = Gauge("fshipper_unopened_files", "Files that cannot be read now, and directories that cannot be listed")
_REFUSED_CONNECTIONS = Counter(
    "fshipper_input_refused_connections_total", "Connections to a listener that one address had too many of", ["input"]
)
_CLOSED_CONNECTIONS = Counter(
    "fshipper_input_closed_connections_total", "Connections without messages that a full listener closed", ["input"]
)
_COMMON_LINES = Counter(
    "fshipper_input_common_lines_total",
    "Lines of senders beyond the limit for files of senders, with the address in front, in the file of the listener",
    ["input"],
)
_NAME_SHARED = Counter("fshipper_shared_name_total", "Checks that found another live producer with this host's name")
_NAME_UNSUITABLE = Gauge("fshipper_unsuitable_name", "1 while the host has a name that every machine has")
_SPOOL_WAITS = Counter("fshipper_spool_full_total", "Times that an input waited for space in its spool", ["input"])
_LOST_MESSAGES = Counter("fshipper_lost_messages_total", "Messages lost before an input could read them", ["reason"])
_LEFT_OUT = Counter("fshipper_left_out_bytes_total", "Bytes of lines that the producer filtered")
_EDITED = Counter("fshipper_edited_places_total", "Redacted places, and lines converted to UTF-8")
_REDACTED = Counter("fshipper_redacted_total", "Redacted places by rule; pattern-N is the user's pattern N", ["rule"])
_SECRET_NAMES = Counter(
    "fshipper_secret_file_names_total",
    "Files with a secret in the name, which is redacted; counted once after each start or reload",
)
_HELD_FILES = Gauge("fshipper_held_files", "Retained files: ended, and kept open until archived")
_HELD_BYTES = Gauge("fshipper_held_bytes", "Bytes in retained files")
_LET_GO_BYTES = Counter(
    "fshipper_let_go_bytes_total", "Bytes of deleted files that were closed before they were archived"
)
_NOT_ARRIVED = Counter(
    "fshipper_unarrived_bytes_total", "Acknowledged bytes that were lost on the way and are sent again"
)


def producer_started(*, host: str, subject: str, files: int) -> None:
    """A producer begins to ship. `subject`: empty until the partition map was read; `session_begun` names it then."""
    known = {"subject": subject} if subject else {}
    logger.info("producer_started", host=host, **known, files=files)


def name_in_doubt(*, host: str, other: str, at_most: float) -> None:
    """Another process sent heartbeats under this name lately: this one waits for a sign that it lives."""
    logger.warning("name_in_doubt", host=host, other=other, waits_at_most_seconds=round(at_most, 1))


@error(
    "Another live producer ships under this name.",
    _NAME_SHARED,
    hint="give one of the two another name (HOSTNAME, --host): both write the files of one host",
)
def name_shared(*, host: str, other: str) -> None: ...


def name_unsuitable(*, host: str, reason: str) -> None:
    """The host keeps a name that others may have, because it shipped under it before."""
    _NAME_UNSUITABLE.set(1)
    hint = "set HOSTNAME (--host) to a name of its own; its files are shipped anew, as files of a new host"
    logger.error("name_unsuitable", host=host, reason=reason, hint=hint)


@warning(
    "The host's name has the form of a container id, which changes at each restart.",
    hint="set HOSTNAME (--host) to the name of the machine or service, so that it stays one host",
)
def name_of_container(*, host: str) -> None: ...
@warning("A configured path or glob leads to no file now; a file that appears later is followed.")
def nothing_matched(*, problem: str) -> None: ...


def backlog_measured(*, octets: int, age: float, files: int, unreadable: int, delay: float) -> None:
    """The files were scanned for a heartbeat."""
    _BACKLOG.set(octets)
    _BACKLOG_AGE.set(age)
    _DELAY.set(delay)
    _FILES.set(files)
    _UNOPENED.set(unreadable)


@warning(
    "The server refuses the host's heartbeats: `fshipper status` does not show it.",
    hint="allow the host to publish it, or set heartbeat to 0",
)
def heartbeats_refused(*, subject: str) -> None: ...
@debug("A source is read from `offset` on.", _FOLLOWED, path="file")
def file_followed(*, path: str, source: str, offset: int) -> None: ...
@info("A file was renamed or deleted; it is read to its end.", path="file")
def file_left(*, path: str, how: str) -> None: ...
@info("A file ends with NULs: space that its writer reserved and did not fill.", _PADDING_BYTES, by="octets")
def padding_not_shipped(*, file: str, octets: int) -> None: ...
@warning("A file or directory cannot be read now; the producer retries.", _UNREADABLE, path="file")
def file_unreadable(*, path: str, error: str) -> None: ...
@error(
    "Bytes of a file are gone unread; the archive gets a gap record.",
    _LOST_BYTES,
    per="reason",
    by="lost",
    lost="bytes",
)
def bytes_lost(*, file: str, lost: int, reason: str) -> None: ...


def blocks_acknowledged(*, blocks: int, lines: int, octets: int, in_flight: int) -> None:
    """JetStream has stored blocks."""
    _PUBLISHED_BLOCKS.inc(blocks)
    _PUBLISHED_LINES.inc(lines)
    _PUBLISHED_BYTES.inc(octets)
    _IN_FLIGHT.set(in_flight)


@warning("The server lost what it acknowledged; it is sent again.", _REWOUND_BYTES, by="again", again="again_bytes")
def server_lost_data(*, subject: str, acknowledged: int, stored: int, again: int) -> None: ...
@warning("The checkpoint was lost; the archive or the stream proves how far a file was shipped.")
def source_recovered(*, file: str, source: str, offset: int) -> None: ...
@error("A checkpoint cannot be read; it is renamed, and the producer requests receipts.", _CHECKPOINT_ERRORS)
def checkpoint_damaged(*, path: str, kept: str, error: str) -> None: ...
@error("A checkpoint cannot be written; shipping goes on, a restart sends more again.", _CHECKPOINT_ERRORS)
def checkpoint_failed(*, error: str) -> None: ...
@warning("File notifications do not work; the producer continues to scan at intervals.")
def watching_failed(*, error: str) -> None: ...
@error("SIGHUP, and the new settings cannot be used: the producer goes on under the ones that it has.")
def reload_refused(*, error: str) -> None: ...
@info("SIGHUP, and the producer goes on under the new settings.")
def settings_reloaded(*, files: int) -> None: ...


def setting_without_effect(*, setting: str, since: str) -> None:
    """A setting of an earlier version is set: it is accepted and does nothing."""
    logger.warning("setting_without_effect", setting=setting, hint=f"it has no effect since {since}; remove it")


@warning("Settings that changed and that only a start can take over; the others are taken over now.")
def restart_needed(*, keys: list[str]) -> None: ...


def file_deleted(*, path: str, source: str, octets: int) -> None:
    """A file was deleted because the archive has all of it."""
    _DELETED_FILES.inc()
    _DELETED_BYTES.inc(octets)
    logger.info("file_deleted", file=path, source=source, bytes=octets)


@warning("An archived file cannot be deleted now; the producer retries, and logs it once.", _NOT_DELETED, path="file")
def file_not_deleted(*, path: str, error: str) -> None: ...
@info(
    "The configuration no longer names a file, or excludes it.",
    _EXCLUDED_BYTES,
    by="unread",
    path="file",
    unread="unread_bytes",
)
def file_excluded(*, path: str, source: str, unread: int) -> None: ...
@info("An old file is left out (`ignore_older`); later bytes are shipped.", _IGNORED_BYTES, by="octets", path="file")
def file_ignored(*, path: str, octets: int) -> None: ...


@info("An input without a file is read.")
def input_started(*, input: str) -> None: ...
@warning("An input is not read until a part of its spool is shipped.", _SPOOL_WAITS, per="input", limit="limit_bytes")
def spool_full(*, input: str, limit: int) -> None: ...
@info("An input is read again.")
def spool_has_room(*, input: str) -> None: ...
@error("A spool cannot be written now; the input is not read until it can.")
def spool_failed(*, input: str, error: str) -> None: ...
@error("Messages of an input were dropped unread; `lost` is a minimum.", _LOST_MESSAGES, per="reason", by="lost")
def messages_lost(*, input: str, lost: int, reason: str) -> None: ...
@warning("A listener takes no more connections until one ends.")
def connections_full(*, input: str, limit: int) -> None: ...


def senders_full(*, input: str, address: str, lines: int, limit: int) -> None:
    """A listener has as many files of senders as it may have; lines of another one go into its common file.

    Logged at most once a minute for each input.
    """
    _COMMON_LINES.labels(input).inc(lines)
    if is_due("senders_full", input):
        logger.warning("senders_full", input=input, address=address, limit=limit)


@warning("One address has too many connections, and none is idle.", _REFUSED_CONNECTIONS, per="input")
def connection_refused(*, input: str, address: str, limit: int) -> None: ...
@warning("A full listener closed a connection without messages for a new one.", _CLOSED_CONNECTIONS, per="input")
def connection_closed(*, input: str, address: str, idle_seconds: float) -> None: ...
@warning("A listener can be reached from other machines: each of them can write to the archive.")
def listening_openly(*, input: str) -> None: ...
@warning("The journal reader (journalctl) ended by itself; it is started again.")
def journal_ended(*, error: str, retry_in: float) -> None: ...
@error("The record of how far the journal is read cannot be used; it is kept aside.")
def cursor_damaged(*, path: str, kept: str, goes_on: str) -> None: ...
@warning(
    "A watched name leads over a link that a hostile user can have made: it is not read.",
    _NOT_FOLLOWED,
    path="file",
    hint="if you trust the link, add the directory of its target to producer.link_roots (SHIPPER_LINK_ROOTS)",
)
def link_not_followed(*, path: str, reason: str) -> None: ...
@info("A name that is watched leads to a file that is excluded under another name: it is not read.", path="file")
def name_excluded(*, path: str, reason: str) -> None: ...
@warning(
    "The name of a file holds what is redacted in a line: it is shipped as `name`.",
    _SECRET_NAMES,
    name="file",
    hint="fshipper produce --dry-run shows the local name",
)
def file_name_holds_secret(*, name: str, source: str) -> None: ...
@warning("A glob found a FIFO: it is read only where it is named.", path="file", hint="name its path to read it")
def fifo_not_read(*, path: str) -> None: ...
@info("The file of a source is gone or was rewritten; its unread bytes are in another file.")
def rest_found(*, file: str, path: str, offset: int, octets: int) -> None: ...
@error("A compressed file ends too early and no program writes it; the readable part is shipped.")
def rest_incomplete(*, path: str, octets: int) -> None: ...
@info("A new file begins with what was shipped of one that is gone: its source goes on there.", path="file")
def file_replaced(*, path: str, source: str, offset: int) -> None: ...
@warning(
    "A glob found a compressed file that is no rotation of a file that is followed.",
    hint="name it without a glob to ship its bytes as they are",
)
def compressed_left_out(*, path: str) -> None: ...
@error("An older generation stays unreadable: its successors go first.", path="file")
def file_passed_over(*, path: str, source: str, error: str) -> None: ...
@info("A renamed file that was closed got more bytes; the producer continues to read it.")
def late_lines(*, file: str, source: str) -> None: ...
@info("The file system of a file has another device number, as after a reboot or a mount; its source goes on.")
def device_changed(*, file: str, source: str) -> None: ...


def files_held(*, files: int, octets: int) -> None:
    """So much is kept open until it is archived."""
    _HELD_FILES.set(files)
    _HELD_BYTES.set(octets)


@warning(
    "A deleted file is closed before an archive is known to have it: the server alone has it.",
    _LET_GO_BYTES,
    by="octets",
    hint="see producer.hold and hold_for",
)
def held_file_let_go(*, file: str, source: str, octets: int) -> None: ...
@warning("The process ends with deleted files that no archive is known to have.", _LET_GO_BYTES, by="octets")
def held_files_end(*, files: int, octets: int) -> None: ...


def bytes_not_arrived(*, file: str, source: str, start: int, end: int) -> None:
    """The collector judged everything up to an acknowledged block and lacks it: it is sent again."""
    _NOT_ARRIVED.inc(end - start)
    logger.error("bytes_not_arrived", file=file, source=source, start=start, end=end)


@warning("The checkpoint was lost: the producer waits for receipts.", seconds="at_most_seconds")
def recovery_waits(*, seconds: float, collector: str) -> None: ...
@error("Receipts did not come in time: their files are sent as new ones.", sources="named_sources")
def recovery_gave_up(*, sources: int) -> None: ...


def text_edited(*, filtered: int, edits: int) -> None:
    """Lines were left out, blacked out or converted before they were sent; sent again, they count again."""
    _LEFT_OUT.inc(filtered)
    _EDITED.inc(edits)


def text_redacted(places: Mapping[str, int]) -> None:
    """So many places were redacted, by rule."""
    for rule, count in places.items():
        _REDACTED.labels(rule).inc(count)


@info("The move marker is stored: nothing more is published there.")
def move_marked(*, subject: str, version: int) -> None: ...
@info("The old partition has archived all of this host; it goes on in another one.", _MOVES)
def host_moved(*, host: str, before: int, partition: int, version: int) -> None: ...


def partition_by_map(*, partition: int, version: int, partitions: int, configured: int) -> None:
    """SHIPPER_PARTITIONS disagrees with the partition map of the server; the host follows the map."""
    fields: dict[str, int] = {
        "partition": partition,
        "map_version": version,
        "map_partitions": partitions,
        "configured": configured,
    }
    if configured:
        logger.warning("partition_by_map", **fields, hint="the map decides: SHIPPER_PARTITIONS is not needed")
    else:
        logger.info("partition_by_map", **fields)


@warning(
    "There is no partition map, and SHIPPER_PARTITIONS changed: the host stays where its checkpoint is.",
    hint="to move hosts: fshipper partition move --partitions N",
)
def partition_kept(*, partition: int, configured: int) -> None: ...
@warning(
    "A file was shipped under another host name before; it is shipped again, as this name was given.",
    hint="the archive will have its lines for both hosts; to keep one name, set HOSTNAME (--host) to the other",
)
def shipped_as_another_host(*, file: str, other: str, host: str) -> None: ...
@warning("The partition of this host has no stream, and no program creates one.")
def stream_denied(*, partition: int, reason: str) -> None: ...
@warning(
    "This host may not read the map of the partitions: it stays where it is, however the map changes.",
    hint="give it $JS.API.DIRECT.GET.KV_fshipper.$KV.fshipper.map.<subject>",
)
def map_refused(*, error: str) -> None: ...
@error(
    "The partition map cannot be parsed: no host moves because of it.",
    hint="written by a newer fshipper? see `nats kv get fshipper`",
)
def map_damaged(*, key: str) -> None: ...
