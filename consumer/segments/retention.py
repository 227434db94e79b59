"""Retention: removes closed days, the oldest first, as configured.

By age, whole days are removed. By size, the oldest closed days of the host that holds the most are removed first, until
all hosts together hold no more than `keep_bytes`. Open files count, but only closed days can be removed.

A host that holds no more than its share loses nothing by size, whatever another host sends. The share is the max-min
fair one: `keep_bytes` divided by the number of hosts, where hosts that need less leave the rest to the others.

line    what the day held, durable in `_manifest/removed.jsonl`
rename  the day's directory, then its manifests, to hidden names    (atomic: no reader sees half a day)
remove  what is under the hidden names                              (killed before: the next run does it)

Of some hosts of a day: line in `_manifest/removed-hosts.jsonl`, what is to be done in `_manifest/.removing`, then the
manifests without these hosts, their directories under hidden names, and remove.
"""

import contextlib
import datetime as dt
import heapq
import json
import shutil
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from consumer.archive import manifests
from consumer.archive.directory import LOCKS, manifests_of_day, try_lock
from consumer.archive.manifests import DayTotals
from consumer.segments.sealer import now
from shipper import events, layout
from shipper.bytes_ops import crc32
from shipper.durable_files import make_directory, replace_file, sync_directory

HIDDEN = ".removed-"
WAITING = ("_open", layout.SEALING_PREFIX)
BY_AGE = "keep_days"
BY_SIZE = "keep_bytes"
REMOVING = ".removing"
HOSTS, DAYS = "hosts", "days"
"""Whose days go by size: those of the host that holds the most, or those of all hosts."""


class Retention:
    """Removes days of an archive that several collectors may write. One at a time removes."""

    def __init__(self, archive: Path, *, keep_days: int, keep_bytes: int, keep_by: str = HOSTS) -> None:
        self._archive = archive
        self._keep_days = keep_days
        self._keep_bytes = keep_bytes
        self._keep_by = keep_by
        self._removing = archive / layout.MANIFEST_DIRECTORY / REMOVING
        # by day, with the signature of its manifests: closed days do not change, so they are read once
        self._known: dict[str, tuple[dict[str, tuple[int, int]], dict[str, DayTotals]]] = {}
        self.over_share: tuple[str, ...] = ()  #: hosts that hold more than their share, the largest first

    def enforce(self, today: dt.date, go_on: Callable[[], bool]) -> None:
        """Remove what is not to be kept any longer. Raises OSError: try again later."""
        if not self._keep_days and not self._keep_bytes:
            return
        make_directory(self._archive / LOCKS)
        lock = try_lock(self._archive / LOCKS / "retention.lock", f"the retention of {self._archive}")
        if lock is None:  # another collector removes
            return
        with lock:
            self._finish()
            for date, reason in self._too_much(today):
                if not go_on():
                    return
                self._remove(date, reason)
            for date, hosts in self._over_share(today):
                if not go_on():
                    return
                if hosts == self._by_host(date).keys():
                    self._remove(date, BY_SIZE)
                else:
                    self._remove_hosts(date, hosts)

    def _too_much(self, today: dt.date) -> Iterable[tuple[str, str]]:
        """The days to remove, and why, oldest first."""
        days, by_size = self._days(), self._keep_bytes if self._keep_by == DAYS else 0
        oldest = (today - dt.timedelta(days=self._keep_days)).isoformat() if self._keep_days else ""
        left = sum((self._stored(days) if by_size else Counter()).values())
        for day in days:
            reason = BY_AGE if day < oldest else BY_SIZE if left > by_size > 0 else ""
            if reason and day < today.isoformat() and self._is_closed(day):
                left -= self._held(day).bytes_stored
                yield day, reason

    def _days(self) -> list[str]:
        """Every day of which the archive has manifests or files, oldest first."""
        found = {*(self._archive / layout.MANIFEST_DIRECTORY).glob("date=*"), *self._archive.glob("date=*")}
        return sorted({path.name.removeprefix("date=") for path in found})

    def _stored(self, days: Iterable[str]) -> Counter[str]:
        """Bytes on disk of each host: sealed segments, and files that are open or being sealed."""
        totals: Counter[str] = Counter()
        for day in days:
            totals.update({host: held.bytes_stored for host, held in self._by_host(day).items()})
            for path in self._waiting(day):
                with contextlib.suppress(FileNotFoundError):  # it was sealed just now
                    totals[layout.unescape(path.parent.name.removeprefix("host="))] += path.stat().st_size
        return totals

    def _over_share(self, today: dt.date) -> list[tuple[str, set[str]]]:
        """Which hosts lose which days, oldest first, so that all together hold no more than `keep_bytes`."""
        if not self._keep_bytes or self._keep_by != HOSTS:
            return []
        days = self._days()
        totals = self._stored(days)
        left, share = totals.total(), fair_share(totals.values(), self._keep_bytes)
        over = {host: octets for host, octets in totals.items() if octets > share}
        self.over_share = tuple(sorted(over, key=totals.__getitem__, reverse=True))
        events.hosts_over_share(hosts=self.over_share, share=share)
        if not over:
            return []
        removable: dict[str, list[str]] = {host: [] for host in over}  # the oldest day is the last one
        for day in reversed(days):
            if day < today.isoformat() and self._is_closed(day):
                for host in self._by_host(day).keys() & over.keys():
                    removable[host].append(day)
        chosen: dict[str, set[str]] = {}
        most = [(-octets, host) for host, octets in over.items()]
        heapq.heapify(most)
        while most and left > self._keep_bytes:
            minus_octets, host = heapq.heappop(most)
            if -minus_octets <= share or not removable[host]:
                continue
            day = removable[host].pop()
            octets = self._by_host(day)[host].bytes_stored
            chosen.setdefault(day, set()).add(host)
            left -= octets
            heapq.heappush(most, (minus_octets + octets, host))
        return sorted(chosen.items())

    def _is_closed(self, date: str) -> bool:
        """Whether every collector is done with a day, and nothing of it is open."""
        listed = manifests_of_day(self._archive, date)
        if not listed or not all(path.with_suffix(".done").exists() for path in listed):
            return False
        return not any(self._waiting(date))

    def _waiting(self, date: str) -> Iterator[Path]:
        """The files of a day that are open or being sealed."""
        found = (self._archive / f"date={date}").glob("partition=*/host=*/_*")
        return (path for path in found if path.name.startswith(WAITING))

    def _held(self, date: str) -> DayTotals:
        return manifests.total(self._by_host(date))

    def _by_host(self, date: str) -> dict[str, DayTotals]:
        signature = manifests.signature(self._archive, date)
        known = self._known.get(date)
        if known is None or known[0] != signature:
            known = self._known[date] = (signature, manifests.held_by_host(self._archive, date))
        return known[1]

    def _remove(self, date: str, reason: str) -> None:
        held, crc = self._held(date), 0
        for path in manifests_of_day(self._archive, date):
            crc = crc32(path.read_bytes(), crc)
        line = {"v": 1, "date": date, **held._asdict(), "manifests_crc32": f"{crc:08x}"}
        # An attempt before a kill may have written the line. A day that exists again later is removed with other bytes.
        if not any(line.items() <= noted.items() for noted in manifests.removed(self._archive)):
            noted = json.dumps(line | {"reason": reason, "removed_at": now()}, separators=(",", ":")).encode() + b"\n"
            manifests.append(self._archive / layout.REMOVED_PATH, noted)
        for directory in (self._archive / f"date={date}", self._manifests(date)):
            if directory.exists():
                _hide(directory)
        self._finish()
        self._known.pop(date, None)
        events.day_removed(date=date, reason=reason, octets=held.bytes_stored, segments=held.segments)

    def _remove_hosts(self, date: str, hosts: set[str]) -> None:
        held = {host: self._by_host(date)[host] for host in sorted(hosts)}
        line = {"v": 1, "date": date, "hosts": {host: each._asdict() for host, each in held.items()}}
        noted = json.dumps(line | {"reason": BY_SIZE, "removed_at": now()}, separators=(",", ":")).encode() + b"\n"
        manifests.append(self._archive / layout.REMOVED_HOSTS_PATH, noted)
        directories = sorted(manifests.directories_of(self._archive, date, hosts))
        todo = {"v": 1, "date": date, "hosts": sorted(hosts), "directories": directories}
        replace_file(self._removing, json.dumps(todo).encode() + b"\n")
        self._finish()
        self._known.pop(date, None)
        for host, each in held.items():
            events.host_day_removed(date=date, host=host, octets=each.bytes_stored, segments=each.segments)

    def _finish_hosts(self) -> None:
        try:
            todo = json.loads(self._removing.read_bytes())
        except (FileNotFoundError, ValueError):
            return
        for path in manifests_of_day(self._archive, todo["date"]):
            manifests.without_hosts(path, set(todo["hosts"]))
        for relative in todo["directories"]:
            directory = self._archive / relative
            if directory.exists():
                _hide(directory)
            if (hidden := directory.with_name(HIDDEN + directory.name)).exists():
                shutil.rmtree(hidden)
        self._removing.unlink()
        sync_directory(self._removing.parent)

    def _finish(self) -> None:
        """Do what a kill left undone: manifests follow their day, and what has a hidden name is removed."""
        self._finish_hosts()
        for date in manifests.removed_days(self._archive):
            if not (self._archive / f"date={date}").exists() and self._manifests(date).exists():
                _hide(self._manifests(date))
        for root in (self._archive, self._archive / layout.MANIFEST_DIRECTORY):
            for directory in root.glob(f"{HIDDEN}date=*"):
                shutil.rmtree(directory)

    def _manifests(self, date: str) -> Path:
        return (self._archive / layout.manifest_path(date, "x")).parent


def fair_share(held: Iterable[int], most: int) -> int:
    """The largest number of bytes up to which every host may hold what it `held`, so that all hold at most `most`."""
    left, amounts = most, sorted(held)
    for index, octets in enumerate(amounts):
        waiting = len(amounts) - index
        if octets * waiting > left:
            return left // waiting
        left -= octets
    return most


def _hide(directory: Path) -> None:
    """Rename a directory to a hidden name, durably and atomically."""
    directory.rename(directory.with_name(HIDDEN + directory.name))
    sync_directory(directory.parent)
