"""Several archives as one: collectors that write an archive each, and one report over all of them.

Two archives may have a segment of the same path, so paths of segments begin with the archive's own path below `root`.
"""

import dataclasses
import itertools
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from shipper.duplicates import doubled
from shipper.errors import Unavailable, UsageError
from shipper.manifest import Segment
from spark_analytics.archive import inventory
from spark_analytics.archive.inventory import Day, Manifests, NothingSealed
from spark_analytics.storage.locations import Location


@dataclass(frozen=True, slots=True)
class Archives:
    """What one report reads. Paths of segments are relative to `root`."""

    root: Location
    members: tuple[str, ...] = ("",)  #: paths of the archives below `root`; "": `root` is the archive

    @classmethod
    def of(cls, places: Sequence[Location]) -> Self:
        """The archives at `places`; one that is named twice counts once.

        Raises:
            UsageError: they are on several file systems, so that no path leads to all of them.
        """
        distinct = list({_identity(place): place for place in places}.values())
        if len(distinct) == 1:
            return cls(distinct[0])
        first, parts = distinct[0], [str(place).split("/") for place in distinct]
        columns = zip(*(each[:-1] for each in parts), strict=False)  # at least the last part is an archive's own
        shared = sum(1 for _ in itertools.takewhile(lambda column: len(set(column)) == 1, columns))
        is_local = {isinstance(place, Path) for place in distinct}
        if len(is_local) > 1 or shared < (3 if "://" in str(first) else 1):
            raise UsageError(
                f"{' and '.join(map(str, distinct))} are on several file systems",
                hint="name archives of one file system or bucket, or make a report of each",
            )
        text = "/".join(parts[0][:shared])
        root = Path(text or "/") if isinstance(first, Path) else dataclasses.replace(first, text=text)
        return cls(root, tuple("/".join(each[shared:]) for each in parts))

    @classmethod
    def at(cls, place: "Location | Archives") -> "Archives":
        """The archives of `place`, which may be one archive."""
        return place if isinstance(place, Archives) else cls(place)

    def __str__(self) -> str:
        return ", ".join(str(place) for place, _ in self.places())

    def places(self) -> list[tuple[Location, str]]:
        """Each archive, with what the paths of its segments begin with."""
        return [(self.root / each, f"{each}/") if each else (self.root, "") for each in self.members]

    def check(self) -> None:
        """Raises ConfigError: one of them is no archive."""
        for place, _ in self.places():
            inventory.check_archive(place)

    def days(self) -> list[str]:
        """The days of which one of them has a manifest, oldest first."""
        return sorted({day for place, _ in self.places() for day in inventory.days(place)})

    def segments_of(self, date: str) -> tuple[Segment, ...]:
        """The segments that the manifests of `date` list."""
        return tuple(segment for place, _ in self.places() for segment in inventory.segments_of(place, date))

    def read_day(self, date: str) -> Day:
        """The inventory of `date` in all of them; an archive without that day adds nothing.

        Raises: as `inventory.read_day`; NothingSealed if that is so in every archive.
        """
        found, nothing = list[Day](), list[Unavailable]()
        for place, prefix in self.places():
            try:
                found.append(_below(inventory.read_day(place, date), prefix))
            except NothingSealed as error:
                nothing.append(error)
        if not found:
            raise nothing[0]
        return found[0] if len(self.members) == 1 else _joined(found)

    def with_duplicates(self, day: Day) -> Day:
        """`day` with its doubled segments.

        A segment that repeats what another archive holds, as in a copy of an archive, is not counted.
        """
        if len(self.members) == 1:
            return inventory.with_duplicates(self.root, day)
        own = set[str]()
        for place, prefix in self.places():
            segments = tuple(each for each in day.manifests.segments if each.path.startswith(prefix))
            index = inventory.held_before([place], day.date, segments)
            own.update(each.segment.path for each in doubled(segments, before=index) if each.is_whole)
        index = inventory.held_before([place for place, _ in self.places()], day.date, day.manifests.segments)
        twice = tuple(doubled(day.manifests.segments, before=index))
        copies = frozenset(each.segment.path for each in twice if each.is_whole) - own
        return dataclasses.replace(
            day,
            manifests=inventory.without(day.manifests, copies),
            doubled=tuple(each for each in twice if each.segment.path not in copies),
        )


def _identity(place: Location) -> str:
    return os.path.realpath(place) if isinstance(place, Path) else str(place)


def _below(day: Day, prefix: str) -> Day:
    """`day` with `prefix` in front of every path and name of a manifest."""
    if not prefix:
        return day
    read = day.manifests
    return dataclasses.replace(
        day,
        manifests=dataclasses.replace(
            read,
            segments=tuple(dataclasses.replace(each, path=prefix + each.path) for each in read.segments),
            merged=frozenset(prefix + path for path in read.merged),
            torn=_named(prefix, read.torn),
            damaged=_named(prefix, read.damaged),
            open_collectors=_named(prefix, read.open_collectors),
            names=_named(prefix, read.names),
        ),
        sizes={prefix + path: size for path, size in day.sizes.items()},
    )


def _named(prefix: str, names: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(inventory.escaped(prefix) + name for name in names)


def _joined(days: Sequence[Day]) -> Day:
    read = [day.manifests for day in days]
    return Day(
        date=days[0].date,
        manifests=Manifests(
            segments=tuple(segment for each in read for segment in each.segments),
            merged=frozenset().union(*(each.merged for each in read)),
            repeated=sum(each.repeated for each in read),
            torn=tuple(name for each in read for name in each.torn),
            damaged=tuple(line for each in read for line in each.damaged),
            open_collectors=tuple(name for each in read for name in each.open_collectors),
            names=tuple(name for each in read for name in each.names),
        ),
        sizes={path: size for day in days for path, size in day.sizes.items()},
        open_files=sum(day.open_files for day in days),
        open_bytes=sum(day.open_bytes for day in days),
        removed_hosts=tuple(sorted({host for day in days for host in day.removed_hosts})),
        left_out_hosts=tuple(sorted({host for day in days for host in day.left_out_hosts})),
    )
