"""The sum of each source, put together from what files hold of it, against those of journals and producers.

A manifest line and its file can be changed together, so that they match. The journal has the CRC-32 of a source from
its origin to its watermark, and its producer has one, too. Sums of parts are combined; the text is read once.

A CRC is no signature: this finds mistakes and careless changes. Compared is only what must be the host's file byte for
byte: no producer edited it, nothing was redacted, and the journal knows of no gap before.
"""

import enum
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from operator import attrgetter
from typing import NamedTuple

from consumer.archive.finding import Finding, Kind, Weight
from consumer.archive.journal_snapshot import JournalSnapshots
from consumer.archive.parts import Part
from consumer.audit.text_parts import Cuts, TextPart, is_as_sent
from consumer.audit.totals import Rows
from consumer.model import Altered, SourceKey
from shipper.bytes_ops import crc32_combine
from shipper.control import SourceMark

Marks = Mapping[str, Sequence[SourceMark] | None]
"""How far producers shipped their sources, by host; None: no producer answers."""


class Witness(enum.Enum):
    """Who recorded a sum."""

    JOURNAL = "the journal"
    PRODUCER = "the producer's mark"


class KnownSum(NamedTuple):
    """The CRC-32 of a source from its origin to `offset`."""

    offset: int
    crc: int
    witness: Witness


class _Held(NamedTuple):
    """A part, and the file that holds it."""

    start: int
    end: int
    crc: int
    place: tuple[str, str, str]  #: host, file and day
    path: str
    others: tuple[str, ...]  #: the other sources in the file


@dataclass(slots=True)
class _SummedSource:
    """What is known of one source, and how far its parts are put together."""

    origin: int
    sums: list[KnownSum]  #: that wait, ascending
    may_be_edited: bool  #: an older version archived it, and did not record that
    reached: int
    crc: int = 0
    parts: list[_Held] = field(default_factory=list)  #: put together
    waiting: dict[int, _Held] = field(default_factory=dict)  #: after a part that has not come, by their beginning
    matched: int = 0  #: up to there a sum was equal
    counted: dict[Witness, int] = field(default_factory=dict)  #: the same for each witness


class _Difference(NamedTuple):
    key: SourceKey
    known: KnownSum
    parts: tuple[_Held, ...]  #: since the last sum that was equal
    may_be_edited: bool


_HINT = (
    "restore the file from a copy, with its manifest; compare with the host's file, or with the stream if it still"
    " has the bytes"
)


class SourceSums:
    """The sums of all sources: add every file, then read what differs. A source is forgotten once it is compared."""

    def __init__(self, journals: JournalSnapshots, marks: Marks) -> None:
        self._sources: dict[SourceKey, _SummedSource] = {}
        self._matched = set[SourceKey]()  # of files with several sources: those with an equal sum
        self._different: list[_Difference] = []
        self._compared: dict[tuple[str, str, str], dict[Witness, int]] = {}
        self._read_journals(journals)
        for host, host_marks in marks.items():
            for mark in host_marks or ():
                self._take_mark(SourceKey(host, mark.source), mark)
        for source in self._sources.values():
            source.sums.sort(key=attrgetter("offset"))

    def cuts(self, entry: Part) -> Mapping[str, Cuts]:
        """Where the parts of a file end, by source. It is empty where nothing of it can be compared."""
        if not self._sources or not is_as_sent(entry):
            return {}
        keys = {span.source: SourceKey(entry.key.host, span.source) for span in entry.spans}
        return {
            source: [known.offset for known in self._sources[key].sums]
            for source, key in keys.items()
            if key in self._sources
        }

    def add(self, entry: Part, parts: Iterable[TextPart]) -> None:
        """A file holds `parts`."""
        names = {span.source for span in entry.spans}
        for part in parts:
            key = SourceKey(entry.key.host, part.source)
            source = self._sources.get(key)
            if source is None or part.start < source.reached:
                continue
            others = tuple(names - {part.source})
            source.waiting[part.start] = _Held(part.start, part.end, part.crc, entry.place, entry.path, others)
            self._advance(key, source)

    def findings(self, rows: Rows) -> list[Finding]:
        """Findings about sources whose sum differs. Counts what was compared in `rows`."""
        for place, compared in self._compared.items():
            rows[place].journal_bytes += compared.get(Witness.JOURNAL, 0)
            rows[place].producer_bytes += compared.get(Witness.PRODUCER, 0)
        found = []
        for key, different in self._by_source().items():
            first = different[0]
            is_certain = not first.may_be_edited and all(self._is_placed(key.host, part) for part in first.parts)
            if is_certain:
                for part in first.parts:
                    rows[part.place].differing_bytes += part.end - part.start
            found.append(_finding(key, different, is_certain=is_certain))
        return found

    # -- what is known ------------------------------------------------------------------------------------------------

    def _read_journals(self, journals: JournalSnapshots) -> None:
        altered = journals.altered()
        for known in journals.sources():
            why = altered.get(known.key)
            is_the_hosts = known.crc is not None and known.proven and why in {None, Altered.UNKNOWN}
            if known.crc is None or not is_the_hosts or known.watermark <= known.origin:
                continue
            source = self._sources.get(known.key)
            if source is None:
                source = _SummedSource(known.origin, [], why is Altered.UNKNOWN, known.origin)
                self._sources[known.key] = source
            if source.origin == known.origin:
                source.sums.append(KnownSum(known.watermark, known.crc, Witness.JOURNAL))

    def _take_mark(self, key: SourceKey, mark: SourceMark) -> None:
        """What a producer knows, of a source that the journal has as the host's file."""
        source = self._sources.get(key)
        if source is not None and mark.crc >= 0 and mark.origin == source.origin < mark.offset:
            source.sums.append(KnownSum(mark.offset, mark.crc, Witness.PRODUCER))

    # -- what is there ------------------------------------------------------------------------------------------------

    def _advance(self, key: SourceKey, source: _SummedSource) -> None:
        while source.sums and (part := source.waiting.pop(source.reached, None)) is not None:
            source.crc = crc32_combine(source.crc, part.crc, part.end - part.start)
            source.reached = part.end
            source.parts.append(part)
            here: list[KnownSum] = []
            while source.sums and source.sums[0].offset <= source.reached:
                here.append(source.sums.pop(0))
            equal = {known.witness for known in here if known[:2] == (source.reached, source.crc)}
            for known in here:  # of two partitions with a copy each, one may have another text: it is there twice
                if known.offset == source.reached and (known.crc == source.crc or known.witness not in equal):
                    self._compare(key, source, known)
            if not source.sums:
                del self._sources[key]

    def _compare(self, key: SourceKey, source: _SummedSource, known: KnownSum) -> None:
        if known.crc != source.crc:
            parts = tuple(part for part in source.parts if part.start >= source.matched) or tuple(source.parts)
            self._different.append(_Difference(key, known, parts, source.may_be_edited))
            return
        source.matched = known.offset
        before, source.counted[known.witness] = source.counted.get(known.witness, source.origin), known.offset
        for part in source.parts:
            if part.start >= before:
                compared = self._compared.setdefault(part.place, {})
                compared[known.witness] = compared.get(known.witness, 0) + part.end - part.start
            if part.others:
                self._matched.add(key)

    # -- what differs -------------------------------------------------------------------------------------------------

    def _by_source(self) -> dict[SourceKey, list[_Difference]]:
        found: dict[SourceKey, list[_Difference]] = {}
        for different in self._different:
            found.setdefault(different.key, []).append(different)
        return found

    def _is_placed(self, host: str, part: _Held) -> bool:
        """Whether these bytes are known to be of their source.

        A manifest does not record in which order two sources were written in turn. If all others of the file have their
        sums, they were not.
        """
        return all(SourceKey(host, other) in self._matched for other in part.others)


_SAME_LENGTH = (
    "that need not be a change: an older version archived it, which kept no record of edits of the same length"
)
_UNORDERED = (
    "that need not be a change: other sources are in the same file, and the order of their pieces is not recorded"
)
_MAX_SHOWN = 3


def _finding(key: SourceKey, different: Sequence[_Difference], *, is_certain: bool) -> Finding:
    first = different[0]
    (host, file, date), path = first.parts[0].place, first.parts[0].path
    witnesses = dict.fromkeys(each.known.witness.value for each in different)
    differs = ", and ".join(f"differs from {witness}" for witness in witnesses)
    text = f"the text of bytes {first.parts[0].start}-{first.known.offset} of source {key.id} {differs}"
    text += f": CRC-32 up to there is not {first.known.crc:08x}"
    paths = list(dict.fromkeys(part.path for part in first.parts))
    if len(paths) > 1:
        shown = ", ".join(paths[:_MAX_SHOWN]) + (", ..." if len(paths) > _MAX_SHOWN else "")
        text += f"; it is in one of {len(paths)} files: {shown}"
    if not is_certain:
        text += f"; {_SAME_LENGTH if first.may_be_edited else _UNORDERED}"
    return Finding(
        kind=Kind.DIFFERENT_SUM,
        weight=Weight.DAMAGE if is_certain else Weight.NOTE,
        host=host,
        file=file,
        date=date,
        path=path,
        text=text,
        octets=sum(part.end - part.start for part in first.parts),
        hint=_HINT if is_certain else "",
    )
