"""How far a file or a line is, from what is known of it: a ladder of stages, a sentence, and the next step. Pure."""

import datetime as dt
import enum
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from consumer.archive.parts import FileState, Part
from consumer.fleet.host_table import HostStatus
from consumer.fleet.snapshot import Partition
from shipper.control import FileMark, FilesReply, FileVerdict
from shipper.units import format_bytes


class Stage(enum.StrEnum):
    """How far a file or a line is, in the order of its way."""

    UNKNOWN = "unknown"
    UNMATCHED = "unmatched"  #: no pattern of the configuration names the file
    MISSING = "missing"  #: a pattern names it, and no file is there
    EXCLUDED = "excluded"
    SKIPPED = "skipped"  #: a copy, compressed, no regular file, or a link that is not followed
    UNREADABLE = "unreadable"
    OLD = "old"  #: before the byte at which shipping of the file began
    UNTERMINATED = "unterminated"  #: it waits for its newline
    UNREAD = "unread"
    READ = "read"  #: read and sent, and the server has not acknowledged it
    STREAM = "stream"
    ARCHIVED = "archived"
    SEARCHABLE = "searchable"
    SEALED = "sealed"
    REPORTED = "reported"


class StepMark(enum.Enum):
    """The mark of a step of the ladder, as the first character of its line."""

    PASSED = "+"
    STOPPED = "!"  #: it is here, and does not go on
    HERE = "~"  #: it is here, and goes on by itself
    AHEAD = "-"  #: not reached
    UNKNOWN = "?"


class Step(NamedTuple):
    """One step of the ladder."""

    name: str
    mark: StepMark
    text: str = ""


class InStream(NamedTuple):
    """A message of the stream that has the line, or is the newest of the file."""

    partition: int
    sequence: int
    time_ns: int


class InArchive(NamedTuple):
    """A file of the archive that has the line, or is the newest of the file."""

    part: Part
    offset: int  #: of the line in its text; -1: no line was searched
    since_ns: int  #: from when on it may have been stored
    until_ns: int  #: until when


class Report(NamedTuple):
    """The report of a day."""

    path: str
    made: float  #: seconds since 1970; 0: there is none


class LocalLine(NamedTuple):
    """Where the newest line with the text is in the file on this host. `end` 0: the file has no such line."""

    start: int
    end: int
    source: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """What is known, and for what is not known the reason."""

    host: str
    file: str
    has_line: bool  #: a line is explained, not the whole file
    reply: FilesReply | None = None  #: of the producer, or of the checkpoint on this host
    is_live: bool = False  #: a running producer gave it
    clock_error: float = 0.0  #: seconds by which the clock of the host is ahead of this machine's
    no_reply: str = ""  #: why there is none
    status: HostStatus | None = None
    partition: Partition | None = None  #: of the host
    stream: InStream | None = None
    no_stream: str = ""  #: why the stream is not known
    archive: InArchive | None = None
    no_archive: str = ""  #: why the archive is not known
    report: Report | None = None  #: of the day in the archive; None: not known
    local_line: LocalLine | None = None
    other_hosts: tuple[str, ...] = ()  #: that the server or the archive knows


@dataclass(frozen=True, slots=True)
class Explanation:
    """The answer."""

    stage: Stage
    steps: tuple[Step, ...]
    sentence: str
    since: float  #: seconds since 1970; 0: not known
    next_step: str

    @property
    def is_archived(self) -> bool:
        """Whether it is in the archive."""
        return self.stage in {Stage.ARCHIVED, Stage.SEARCHABLE, Stage.SEALED, Stage.REPORTED}


STEPS = ("matched", "readable", "read", "stream", "archived", "searchable", "sealed", "reported")
_READ, _STREAM, _ARCHIVED = STEPS.index("read"), STEPS.index("stream"), STEPS.index("archived")


class _Stop(NamedTuple):
    """Where it is: the number of steps that it has passed, and what holds it there."""

    passed: int
    stage: Stage
    sentence: str
    next_step: str
    since: float = 0.0
    goes_on: bool = False  #: by itself


def explained(known: Evidence) -> Explanation:
    """How far the file or the line is."""
    if known.has_line and known.stream is not None and not _has_it(known.archive, known.stream):
        return _laddered(known, _in_stream(known, known.stream))
    if known.has_line and known.archive is not None:
        return _archived(known, known.archive)
    if (reply := known.reply) is None:
        return _laddered(known, _without_reply(known))
    if (refused := _refused(known, reply)) is not None:
        return _laddered(known, refused)
    if (held := _held(known, reply)) is not None:
        if known.has_line and known.local_line is None and held.stage is not Stage.UNKNOWN:
            held = held._replace(sentence=f"no line with this text is archived; of the file, {held.sentence}")
        return _laddered(known, held)
    return _archived(known, known.archive)


def _has_it(archive: InArchive | None, stream: InStream) -> bool:
    """Whether the line of a message was archived after the stream was read. Else it is a newer one with the text."""
    part = archive.part if archive is not None else None
    return part is not None and part.partition == stream.partition and part.last_seq >= stream.sequence


# -- not read ----------------------------------------------------------------------------------------------------------

_VERDICTS = {
    FileVerdict.UNMATCHED: (
        0,
        Stage.UNMATCHED,
        "no pattern of the host's configuration names it",
        "add its path or a glob to producer.files (SHIPPER_FILE) there, and reload: systemctl reload fshipper-producer",
    ),
    FileVerdict.MISSING: (
        0,
        Stage.MISSING,
        "a pattern names it, and no file is there",
        "check the path; the producer reads the file from its first byte when it comes",
    ),
    FileVerdict.EXCLUDED: (
        0,
        Stage.EXCLUDED,
        "the configuration excludes it",
        "remove the pattern from producer.exclude (SHIPPER_EXCLUDE) there, and reload the producer",
    ),
    FileVerdict.LINK: (
        0,
        Stage.SKIPPED,
        "it is a symbolic link that the producer does not follow",
        "name the file by its own path, or add the directory of its target to producer.link_roots",
    ),
    FileVerdict.SKIPPED: (
        0,
        Stage.SKIPPED,
        "the producer does not read it",
        "explain the file that it is a copy or rotation of; name a compressed file by its own path to ship it",
    ),
    FileVerdict.UNREADABLE: (
        1,
        Stage.UNREADABLE,
        "the producer cannot read it",
        "give its user the right to read it, for example: setfacl -m u:fshipper-producer:r FILE (and x on directories)",
    ),
    FileVerdict.NEW: (
        2,
        Stage.UNREAD,
        "it is new, and the next scan begins to read it",
        "run this again in some seconds",
    ),
}


def _refused(known: Evidence, reply: FilesReply) -> _Stop | None:
    """Why the producer does not read the file; None: it does, or it did and the file is gone."""
    if reply.verdict not in _VERDICTS or (reply.verdict is FileVerdict.MISSING and reply.marks):
        return None
    passed, stage, sentence, step = _VERDICTS[reply.verdict]
    reason = f": {reply.reason}" if reply.reason else ""
    if known.archive is not None:
        reason += f"; the archive has lines of it up to {moment(known.archive.part.last_ns / 1e9)}"
    return _Stop(passed, stage, f"{sentence}{reason}", step, goes_on=reply.verdict is FileVerdict.NEW)


def _without_reply(known: Evidence) -> _Stop:
    step = "run it on the host: fshipper explain HOST PATH; or start its producer: systemctl start fshipper-producer"
    if known.archive is not None:
        until = moment(known.archive.part.last_ns / 1e9)
        sentence = (
            f"the archive has lines of it up to {until}; whether the host has more is not known: {known.no_reply}"
        )
        return _Stop(0, Stage.UNKNOWN, sentence, step)
    return _Stop(0, Stage.UNKNOWN, f"how far it is on the host is not known: {known.no_reply}", step)


# -- read, and not archived --------------------------------------------------------------------------------------------


def _held(known: Evidence, reply: FilesReply) -> _Stop | None:
    """What holds it between the file and the archive; None: the archive has all of it."""
    if not reply.marks:
        return _Stop(2, Stage.UNREAD, "nothing of it was read yet", AGAIN_STEP, goes_on=True)
    line = known.local_line
    if line is not None and line.end == 0:
        return _Stop(0, Stage.UNKNOWN, "neither the file on this host, the stream nor the archive has it", TEXT_STEP)
    mark, end = _wanted(reply.marks, line)
    if (held := _on_host(known, mark, end)) is not None:
        return held
    if known.has_line and line is None:
        why = "; ".join(filter(None, (known.no_stream, known.no_archive)))
        sentence = "everything that the file had at the last scan is sent, and no line with this text was found"
        return _Stop(0, Stage.UNKNOWN, _with(why, sentence), TEXT_STEP)
    if max(mark.origin, mark.archived) < end:
        where = InStream(reply.partition, mark.sequence, 0)
        return _in_stream(known, known.stream if known.stream is not None else where)
    return None


def _on_host(known: Evidence, mark: FileMark, end: int) -> _Stop | None:
    """What holds the bytes before `end` on the host; None: the server has acknowledged them."""
    if mark.origin > 0 and end <= mark.origin:
        sentence = f"shipping began at byte {mark.origin:,}: what was before is not shipped"
        return _Stop(2, Stage.OLD, sentence, OLD_STEP, _changed(known, mark))
    is_in_flight = mark.state == "holding_line" and mark.offset < mark.read
    if not mark.ended and mark.read < end and not is_in_flight:
        return _unread(known, mark, end)
    if mark.offset < end:
        why = _why(known)
        sentence = f"{format_bytes(end - mark.offset)} are read and sent, and no server has acknowledged them"
        return _Stop(_STREAM, Stage.READ, _with(why, sentence), SENDING_STEP, _changed(known, mark), goes_on=not why)
    return None


def _wanted(marks: Sequence[FileMark], line: LocalLine | None) -> tuple[FileMark, int]:
    """The generation that is explained, and the offset up to which: a line's end, or the end of the file."""
    if line is not None:
        of_line = [mark for mark in marks if mark.source == line.source] or [mark for mark in marks if not mark.ended]
        if of_line:
            return of_line[0], line.end
    mark = next((each for each in marks if each.unsent or each.unarchived), marks[0])
    return mark, mark.offset if mark.ended else max(mark.offset, mark.size)


def _unread(known: Evidence, mark: FileMark, end: int) -> _Stop:
    left = format_bytes(end - mark.read)
    if mark.state == "holding_line":
        sentence = f"its last line, {left}, waits for its newline"
        step = (
            "it is shipped without one after producer.partial_after of silence; with 0 the writer has to end the line"
        )
        return _Stop(_READ, Stage.UNTERMINATED, sentence, step, _changed(known, mark), goes_on=True)
    if mark.state == "unreadable":
        return _Stop(
            1,
            Stage.UNREADABLE,
            f"{left} cannot be read now; every scan tries again",
            READING_STEP,
            _changed(known, mark),
        )
    if not known.is_live:
        sentence = f"{left} are not read: no producer answers, and its checkpoint ends at byte {mark.offset:,}"
        return _Stop(
            _READ, Stage.UNREAD, sentence, "start it: systemctl start fshipper-producer", _changed(known, mark)
        )
    why = _why(known)
    return _Stop(
        _READ,
        Stage.UNREAD,
        _with(why, f"{left} are not read yet"),
        SENDING_STEP,
        _changed(known, mark),
        goes_on=not why,
    )


AGAIN_STEP = "run this again in some seconds"
TEXT_STEP = "check the text, and the path of rotated files; filters, redaction and encodings change lines"
OLD_STEP = "producer.ignore_older or start_at_end left it out at its first scan; it exists only on the host"
READING_STEP = "see the log of the producer (file_unreadable): journalctl -u fshipper-producer"
SENDING_STEP = "run this again; if nothing moves: fshipper status HOST, and the log of its producer"


def _in_stream(known: Evidence, found: InStream) -> _Stop:
    number = f", sequence {found.sequence:,}" if found.sequence else ""
    sentence = f"it is in the stream of partition {found.partition}{number}, and not archived yet"
    step = "fshipper status shows whether a collector reads the partition and can write"
    cause = known.partition.why if known.partition is not None else ""
    text = f"{sentence}; {cause}" if cause else sentence
    return _Stop(_ARCHIVED, Stage.STREAM, text, step, found.time_ns / 1e9, goes_on=not cause)


def _why(known: Evidence) -> str:
    """What holds the host or its partition."""
    status = known.status
    trouble = status.beat.trouble if status is not None and status.beat is not None else ""
    cause = known.partition.why if known.partition is not None else ""
    return "; ".join(filter(None, (trouble, cause)))


def _with(why: str, sentence: str) -> str:
    return f"{sentence}: {why}" if why else sentence


def _changed(known: Evidence, mark: FileMark) -> float:
    """When the file changed last, by this machine's clock."""
    return max(0.0, mark.changed - known.clock_error)


# -- the ladder --------------------------------------------------------------------------------------------------------


def _laddered(known: Evidence, stop: _Stop) -> Explanation:
    """The steps of what is not archived."""
    if stop.stage is Stage.UNKNOWN and stop.passed == 0:
        steps = [Step(name, StepMark.UNKNOWN) for name in STEPS]
        if known.archive is not None and not known.has_line:
            steps[_ARCHIVED] = Step("archived", StepMark.UNKNOWN, f"up to {moment(known.archive.part.last_ns / 1e9)}")
    else:
        here = StepMark.HERE if stop.goes_on else StepMark.STOPPED
        marks = [StepMark.PASSED] * stop.passed + [here] + [StepMark.AHEAD] * len(STEPS)
        steps = [Step(name, mark, text) for name, mark, text in zip(STEPS, marks, _texts(known), strict=False)]
    return Explanation(stop.stage, tuple(steps), stop.sentence, stop.since, stop.next_step)


def _archived(known: Evidence, found: InArchive | None) -> Explanation:
    """The steps of what is in the archive. None: the receipts prove it, and the archive is not known here."""
    passed = _ARCHIVED + 1
    later: list[Step] = []
    stage, sentence, since = Stage.ARCHIVED, "its collector has confirmed that the archive has all of it", 0.0
    step = "run this where the archive is, or name it with --archive, to see the rest of its way"
    if found is None:
        later = [Step(name, StepMark.UNKNOWN, known.no_archive) for name in STEPS[passed:]]
    else:
        date, since = found.part.key.date, (found.since_ns or found.part.last_ns) / 1e9
        where = f"it is in the archive: {found.part.path}" + (f", byte {found.offset:,}" if found.offset >= 0 else "")
        sealed = found.part.state is FileState.SEALED
        later = [
            Step("searchable", StepMark.PASSED),
            Step(
                "sealed", StepMark.PASSED if sealed else StepMark.AHEAD, "" if sealed else "the file of the day is open"
            ),
            _reported(known, found, sealed=sealed),
        ]
        stage, sentence = (Stage.SEALED if sealed else Stage.SEARCHABLE), where
        step = f"fshipper search TEXT {known.host} --file {known.file} finds its lines"
        if sealed:
            step = f"fshipper report --date {date} makes the report of its day"
        if later[-1].mark is StepMark.PASSED:
            stage, step = Stage.REPORTED, f"fshipper report show {date} shows the report of its day"
    steps = [Step(name, StepMark.PASSED, text) for name, text in zip(STEPS[:passed], _texts(known), strict=False)]
    return Explanation(stage, (*steps, *later), sentence, since, step)


def _reported(known: Evidence, found: InArchive, *, sealed: bool) -> Step:
    report = known.report
    if report is None:
        return Step("reported", StepMark.UNKNOWN, "no directory of reports here: --reports")
    if not report.made:
        return Step("reported", StepMark.AHEAD, f"no report of {found.part.key.date}")
    if not sealed or report.made < found.part.last_ns / 1e9:
        return Step("reported", StepMark.AHEAD, f"the report of {moment(report.made)} is older")
    return Step("reported", StepMark.PASSED, f"{report.path}, {moment(report.made)}")


def _texts(known: Evidence) -> Iterator[str]:
    """The text of each step, as far as something is known."""
    reply = known.reply
    mark, _ = _wanted(reply.marks, known.local_line) if reply is not None and reply.marks else (None, 0)
    renamed = reply.reason if reply is not None and reply.verdict is FileVerdict.SECOND_NAME else ""
    yield renamed
    yield ""
    of = "" if mark is None else f"{mark.read:,} of {max(mark.read, mark.size):,} bytes"
    yield of + (f", from byte {mark.origin:,} on" if mark is not None and mark.origin else "")
    stream = known.stream
    if stream is not None and stream.sequence:
        yield f"partition {stream.partition}, sequence {stream.sequence:,}"
    else:
        yield (
            ""
            if mark is None
            else f"acknowledged up to byte {mark.offset:,}, partition {reply.partition if reply else 0}"
        )
    archive = known.archive
    if archive is not None:
        yield f"{archive.part.key.date}, partition {archive.part.partition}, {archive.part.path}"
    else:
        yield "" if mark is None else f"confirmed up to byte {mark.archived:,}"
    while True:
        yield ""


def moment(seconds: float) -> str:
    """A time for people and scripts, UTC."""
    return dt.datetime.fromtimestamp(seconds, tz=dt.UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
