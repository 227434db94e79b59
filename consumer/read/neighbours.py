"""The parts of a log file before and after one of them: lines of context do not end where a segment or a day ends."""

import contextlib
import os
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from consumer.archive import manifests
from consumer.archive.parts import ROUNDED_NS, Part
from consumer.archive.reader import ArchiveReader
from consumer.archive.selection import Wanted
from shipper import layout

_File = tuple[str, str]


class Placed(NamedTuple):
    """A part, and where its text begins in its log file, negative before the first part that is listed."""

    part: Part
    base: int


@dataclass(frozen=True, slots=True)
class Neighbours:
    """The parts of each log file in the order of the text. Manifests of other days are read when they are needed."""

    reader: ArchiveReader
    chains: Mapping[_File, Sequence[Placed]] = field(default_factory=dict)
    is_whole: bool = True  #: the archive has no other parts of these files
    opened: Sequence[Part] = ()  #: files that are not sealed

    @classmethod
    def of(
        cls, reader: ArchiveReader, parts: Sequence[Part], *, is_whole: bool = True, opened: Sequence[Part] = ()
    ) -> "Neighbours":
        """Those of files of which `parts` are all parts between the first and the last."""
        chains = dict[_File, list[Placed]]()
        for part in sorted(parts, key=_order):
            chain = chains.setdefault((part.host, part.file), [])
            base = chain[-1].base + chain[-1].part.raw if chain else 0
            chain.append(Placed(part, base))
        return cls(reader, chains, is_whole, opened)

    @classmethod
    def around(cls, reader: ArchiveReader, wanted: Wanted, parts: Sequence[Part]) -> "Neighbours":
        """Those of the parts that a search reads. `wanted`: what it selects."""
        if not parts or (not wanted.since_ns and wanted.until_ns is None):
            return cls.of(reader, parts)
        since_ns, until_ns = min(part.first_ns for part in parts), max(part.last_ns for part in parts)
        between = Wanted(hosts=wanted.hosts, files=wanted.files, since_ns=since_ns, until_ns=until_ns + 1)
        opened = reader.opened(Wanted(hosts=wanted.hosts, files=wanted.files))
        found = (*reader.find(between), *parts)
        by_start = {(part.host, part.file, _order(part)): part for part in found}
        return cls.of(reader, list(by_start.values()), is_whole=False, opened=opened)

    def last(self, host: str, file: str) -> Placed | None:
        """The last part of a log file. None means that the archive has none that is known."""
        chain = self.chains.get((host, file), ())
        opened = [each for each in self.opened if (each.host, each.file) == (host, file)]
        if not chain:
            return Placed(max(opened, key=_order), 0) if opened else None
        *_, last = (chain[-1], *self.after(chain[-1].part))
        return last

    def base(self, part: Part) -> int:
        """Where the text of a part begins in the text of its file."""
        chain = self._chain(part)
        at = bisect_left(chain, _order(part), key=_place)
        return chain[at].base if at < len(chain) and _place(chain[at]) == _order(part) else 0

    def before(self, part: Part) -> Iterator[Placed]:
        """The parts before `part`, the last one first."""
        chain = self._chain(part)
        at = bisect_left(chain, _order(part), key=_place)
        yield from (chain[number] for number in range(at - 1, -1, -1))
        first, base = chain[0] if at else Placed(part, self.base(part))
        for date in reversed(self._days()):
            if date <= first.day.isoformat():
                for each in reversed([each for each in self._of_day(date, part) if _order(each) < _order(first)]):
                    base -= each.raw
                    yield Placed(each, base)

    def after(self, part: Part) -> Iterator[Placed]:
        """The parts after `part`, the next one first."""
        chain = self._chain(part)
        at = bisect_right(chain, _order(part), key=_place)
        yield from (chain[number] for number in range(at, len(chain)))
        last = chain[-1] if at < len(chain) else Placed(part, self.base(part))
        base = last.base + last.part.raw
        for date in self._days():
            if date >= last.part.day.isoformat():
                for each in (each for each in self._of_day(date, part) if _order(each) > _order(last.part)):
                    yield Placed(each, base)
                    base += each.raw

    def _chain(self, part: Part) -> Sequence[Placed]:
        return self.chains.get((part.host, part.file), ())

    def _days(self) -> list[str]:
        if self.is_whole:
            return []
        return sorted(manifests.days(self.reader.directory) | {each.day.isoformat() for each in self.opened})

    def _of_day(self, date: str, part: Part) -> list[Part]:
        """The parts of the same file on a day."""
        name = part.host, part.file
        found = [each for each in self.opened if (each.host, each.file, each.day.isoformat()) == (*name, date)]
        if self._is_there(date, part):
            found += self.reader.segments_of_day(date, *name)
        return sorted({_order(each): each for each in found}.values(), key=_order)

    def _is_there(self, date: str, part: Part) -> bool:
        """Whether a day has something of the file: most days of a large archive are not read so."""
        name = layout.file_name(part.file)
        with contextlib.suppress(OSError):
            for partition in os.listdir(self.reader.directory / f"date={date}"):
                with contextlib.suppress(OSError):
                    names = os.listdir(
                        self.reader.directory / f"date={date}" / partition / f"host={layout.escape(part.host)}"
                    )
                    if any(each.removeprefix(layout.OPEN_PREFIX).startswith(name) for each in names):
                        return True
        return False


def _order(part: Part) -> tuple[int, int]:
    """Parts of one file are in the order of storing. Manifests have microseconds."""
    return part.first_ns // ROUNDED_NS, part.first_seq


def _place(placed: Placed) -> tuple[int, int]:
    return _order(placed.part)
