"""How far each host is on the way to a time: what its files held then, and what of that is not archived. Pure."""

import enum
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from consumer.fleet.host_files import HostAnswer
from consumer.fleet.host_table import HostState, HostStatus
from consumer.fleet.snapshot import Partition
from shipper.control import FileMark, FilesReply
from shipper.units import counted, format_bytes, format_duration


class Lacking(enum.StrEnum):
    """What is missing of a host, the first in its way."""

    SILENT = "silent"  #: no producer answers
    TOO_OLD = "too old"  #: a producer answers, of a version that does not report it
    UNSCANNED = "unscanned"  #: its last scan was before the time
    UNREADABLE = "unreadable"  #: files that cannot be read
    UNSENT = "unsent"  #: bytes in files that no server has acknowledged
    STREAM = "stream"  #: bytes in the stream that no collector has confirmed


class MissingFile(NamedTuple):
    """A file of which something is not archived."""

    file: str
    unsent: int  #: bytes that no server has acknowledged
    unarchived: int  #: bytes that were acknowledged, and are in the stream
    since: float  #: seconds since 1970 of its last change, by this machine's clock; 0: unknown
    is_unterminated: bool = False  #: what is not sent is a last line without its newline


class Missing(NamedTuple):
    """What is missing of one host, and why."""

    host: str
    kind: Lacking
    why: str
    since: float  #: seconds since 1970; 0: unknown
    next_step: str
    files: tuple[MissingFile, ...] = ()


@dataclass(frozen=True, slots=True)
class HostProgress:
    """One host on the way to the time."""

    name: str
    answer: HostAnswer | None = None
    run: str = ""  #: the process whose sources `targets` names
    targets: Mapping[str, int] | None = None  #: by source: the archive must have it up to there; None: not known yet
    is_complete: bool = False
    left: tuple[FileMark, ...] = field(default=())  #: what of the targets is not archived

    def advanced(self, answer: HostAnswer, until_at: float) -> "HostProgress":
        """The progress after an answer. `until_at`: the time that is waited for, monotonic.

        The targets are what the first scan after that time found, so that a host that always writes comes to an end.
        """
        reply, now = answer.reply, replace(self, answer=answer, left=())
        if reply is None or answer.scanned_at < until_at:
            return now
        targets = self.targets if reply.run == self.run else None
        if targets is None and reply.is_whole:
            targets = {mark.source: _end(mark) for mark in reply.marks}
        if targets is None or not reply.is_whole:  # a file that is not listed may be one that is not archived
            return replace(now, run=reply.run, targets=targets, left=reply.marks)
        left = tuple(mark for mark in reply.marks if max(mark.origin, mark.archived) < targets.get(mark.source, 0))
        return replace(
            now,
            run=reply.run,
            targets=targets,
            left=left,
            is_complete=not (left or reply.unreadable or reply.unsettled),
        )


def _end(mark: FileMark) -> int:
    return mark.offset if mark.ended else max(mark.offset, mark.size)


class Known(NamedTuple):
    """What the last snapshot of the fleet has."""

    hosts: Mapping[str, HostStatus]
    partitions: Mapping[int, Partition]


def missing_of(progress: HostProgress, known: Known, until_at: float, now: float) -> Missing:
    """What is missing of a host that is not complete. `now`: seconds since 1970."""
    status, answer = known.hosts.get(progress.name), progress.answer
    if answer is None or answer.reply is None:
        return _unanswered(progress.name, answer, status, now)
    reply = answer.reply
    if answer.scanned_at < until_at:
        ago = format_duration(reply.scanned / 1000)
        why = f"its files are not scanned since that time: the last scan began {ago} before it answered"
        return Missing(progress.name, Lacking.UNSCANNED, why, 0.0, SCAN_STEP)
    files = tuple(_file(mark, progress.targets, answer.clock_error) for mark in progress.left)
    kind, why, step = _hindered(reply, files, known.partitions.get(reply.partition), status)
    return Missing(
        progress.name, kind, why, min((each.since for each in files if each.since), default=0.0), step, files
    )


def _hindered(
    reply: FilesReply, files: tuple[MissingFile, ...], partition: Partition | None, status: HostStatus | None
) -> tuple[Lacking, str, str]:
    """What is missing of a host that answers, why, and the next step."""
    if reply.leaving:
        why = f"it leaves partition {reply.partition}, and waits for the last receipts of its collector"
        return Lacking.STREAM, _with_cause(why, partition), MOVE_STEP
    if any(each.unsent for each in files):
        return Lacking.UNSENT, _why_unsent(files, partition, status), SENDING_STEP
    if files:
        return Lacking.STREAM, _with_cause(f"partition {reply.partition}", partition), COLLECTOR_STEP
    if reply.unreadable:
        named = ", ".join(reply.named)
        return Lacking.UNREADABLE, f"{counted(reply.unreadable, 'path')} cannot be read: {named}", READING_STEP
    why = "its last scan met files of which it does not know yet what they are: new, rotated or copied ones"
    return Lacking.UNSCANNED, why, SCAN_STEP


MOVE_STEP = "fshipper partition status shows both partitions; the collector of the old one must run"
SCAN_STEP = "it scans them soon; a producer with --once scans its files only at its start"
READING_STEP = "correct the permissions for the user of the producer, or exclude what is not to be shipped"
SENDING_STEP = "fshipper status HOST shows why; the log of its producer has the reason"
COLLECTOR_STEP = "fshipper status shows whether its collector runs and can write"
ENDED_STEP = "only a producer that runs can answer: leave the host out (--host), or run it as a service"
START_STEP = "start it there: systemctl start fshipper-producer; if the host is gone for good: fshipper status --forget"


def _unanswered(name: str, answer: HostAnswer | None, status: HostStatus | None, now: float) -> Missing:
    """A host whose producer did not answer."""
    since = now - status.age if status is not None and status.age is not None else 0.0
    if answer is not None and answer.is_too_old:
        return Missing(
            name, Lacking.TOO_OLD, "its producer is too old to report it", 0.0, "upgrade fshipper on that host"
        )
    state = f": {status.why_silent}" if status is not None and status.why_silent else ""
    if status is not None and status.state is HostState.ENDED:
        return Missing(name, Lacking.SILENT, f"no producer answers{state}", since, ENDED_STEP)
    return Missing(name, Lacking.SILENT, f"no producer answers{state}", since, START_STEP)


def _why_unsent(files: tuple[MissingFile, ...], partition: Partition | None, status: HostStatus | None) -> str:
    if all(each.is_unterminated for each in files if each.unsent):
        return "its last line has no newline yet"
    trouble = status.beat.trouble if status is not None and status.beat is not None else ""
    return _with_cause(f"not sent yet: {trouble}" if trouble else "not sent yet", partition)


def _with_cause(text: str, partition: Partition | None) -> str:
    return f"{text}; {partition.why}" if partition is not None and partition.why else text


def _file(mark: FileMark, targets: Mapping[str, int] | None, clock_error: float) -> MissingFile:
    end = _end(mark) if targets is None else targets.get(mark.source, _end(mark))
    unsent = 0 if mark.ended else max(0, end - mark.offset)
    unarchived = max(0, min(end, mark.offset) - max(mark.origin, mark.archived))
    is_unterminated = mark.state == "holding_line" and mark.read == mark.offset
    return MissingFile(mark.file, unsent, unarchived, max(0.0, mark.changed - clock_error), is_unterminated)


CLOCK_SECONDS = 2.0
"""Seconds by which a host's clock may differ from ours without a note."""


def clock_notes(progress: Iterator[HostProgress]) -> list[str]:
    """The hosts whose clocks differ from the one of this machine, which decides what the time means."""
    found = []
    for each in progress:
        error = each.answer.clock_error if each.answer is not None and each.answer.reply is not None else 0.0
        if abs(error) > CLOCK_SECONDS:
            ahead = f"{format_duration(abs(error))} {'ahead of' if error > 0 else 'after'} this machine's"
            found.append(f"the clock of {each.name} is {ahead}: the time is that of this machine's clock")
    return found


def sentence(missing: Missing) -> str:
    """What is missing of a host, in a line."""
    unsent = sum(each.unsent for each in missing.files)
    unarchived = sum(each.unarchived for each in missing.files)
    parts = [f"{format_bytes(unsent)} not sent"] if unsent else []
    parts += [f"{format_bytes(unarchived)} in the stream"] if unarchived else []
    how_much = f"{counted(len(missing.files), 'file')}, {', '.join(parts)}: " if parts else ""
    return f"{missing.host}: {how_much}{missing.why}"
