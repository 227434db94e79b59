"""When files are scanned: changed files a while after a hint (`linger.py`), all files periodically or at every poll.

If every directory is watched, the full scan is a safety net only; otherwise it finds the changes.

Files that grow without a hint: written by another machine, or through a name in a directory that is not watched.
"""

import math
import os
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping

from producer.discovery.patterns import prefix_matcher
from producer.discovery.scanner import Key, ScanResult
from producer.discovery.watcher import Wake, Watcher
from producer.linger import Collecting, Linger
from producer.options import Task
from producer.session.delivery import Delivery
from shipper import events
from shipper.ports import Publisher

NAMES_SECONDS = 0.1
"""Minimum seconds between two full scans, however often names change."""
MOST_MUTED = 16
"""Maximum number of files in a directory of which writes after the first one are not notified: all are checked then."""
SAFETY_SCAN_SECONDS = 10.0
"""Seconds between two full scans where hints come for every directory."""
MAX_SAFETY_SCAN_SECONDS = 60.0


class ScanSchedule:
    """The schedule of scans. Owned by the pipeline. The sources must not be read during a scan."""

    def __init__(
        self, task: Task, wake: Wake, delivery: Delivery, linger: Linger, *, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._task = task
        self._wake = wake
        self._delivery = delivery
        self._clock = clock
        self._names: Mapping[str, Key | None] = {}
        self._by_directory = defaultdict[str, list[str]](list)  # the same names
        self._suspects: Mapping[Key, str] = {}  # grew without a hint at the last scan, and had none since
        self._unhinted: set[str] = set()  # had none until the next scan either: no hints come for them
        concerns = prefix_matcher(task.following.watched.patterns)
        self._watcher = Watcher(
            wake,
            is_name=lambda path: path in self._names,
            concerns=concerns,
            pause=lambda: linger.pause,
            mutes=lambda directory: linger.is_long and len(self._by_directory[directory]) <= MOST_MUTED,
        )
        self._collecting = Collecting(linger, task.following.cut.block_bytes)
        self._scanned_at = self._polled_at = -math.inf
        self._took = 0.0
        self._has_hints = False  # hints come of everything that was found

    def next_at(self) -> float:
        """Monotonic time of the next scan. Never again with `once`."""
        if self._is_once:
            return math.inf
        due = min(self._scan_at, self._polled_at + self._task.poll)
        return min(due, self._collecting.next_at()) if self._wake.has_grown else due

    @property
    def _is_once(self) -> bool:
        return self._task.following.once and not self._task.following.spools

    @property
    def _scan_at(self) -> float:
        pause = pause_seconds(
            self._took, self._task.poll, names_changed=self._wake.names_changed, has_hints=self._has_hints
        )
        return self._scanned_at + pause

    def scan(self) -> None:
        """Scan all files."""
        sources = self._delivery.tailer
        hinted = {self._names.get(path) for path in self._take_hinted()}
        was_requested, self._wake.names_changed = self._wake.names_changed, False
        self._scanned_at = self._polled_at = self._clock()
        sources.scan()
        found, following = sources.found, self._task.following
        if self._task.watch and not following.once:
            self._names = found.names
            self._by_directory.clear()
            for path in found.names:
                self._by_directory[os.path.dirname(path)].append(path)
            if self._has_hints and not was_requested:
                self._note_unhinted({key: path for key, path in sources.grew.items() if key not in hinted})
            self._unhinted = {path for path in self._unhinted if path in found.names}
            blind = _has_files(self._watcher.watch(found.directories), found)
            self._has_hints = not (blind or self._unhinted or sources.is_unsettled)
        self._took = self._clock() - self._scanned_at

    def _note_unhinted(self, grew: Mapping[Key, str]) -> None:
        """A scan without a hint found that these files grew."""
        unheard = set(self._suspects.values())
        if unheard and not self._unhinted:
            events.watching_failed(error=f"{min(unheard)} grows without a notification")
        self._unhinted |= unheard
        self._suspects = grew

    def age(self, *, scan: bool) -> float:
        """Seconds since the last scan of all files began. `scan`: let the next one come soon."""
        if scan:
            self._wake.hint(None)
        return self._clock() - self._scanned_at

    async def run(self, _: Publisher | None = None) -> None:
        """Scan all files if that is due, else check the files with hints and those that are about to end."""
        now, sources = self._clock(), self._delivery.tailer
        if self._is_once:
            return
        if now >= self._scan_at:
            self.scan()
            return
        if self._wake.has_grown and self._collecting.is_due(
            now, lambda: sources.written_bytes({*self._wake.grown, *self._names_in(self._watcher.muted)})
        ):
            self.check_hinted()
        if now >= self._polled_at + self._task.poll:
            self._polled_at = now
            if sources.poll():
                self._wake.hint(None)

    def check_hinted(self) -> None:
        """Check the files with hints now: the lines that were being collected can be read."""
        if self._delivery.tailer.grown(self._take_hinted()):
            self._wake.hint(None)

    def _take_hinted(self) -> set[str]:
        """The files with hints, which are checked next: what is written from now on has new hints."""
        self._collecting.end()
        grown = {*self._wake.take_grown(), *self._names_in(self._watcher.unmute())}
        hinted = {self._names.get(path) for path in grown}
        self._suspects = {key: path for key, path in self._suspects.items() if key not in hinted}
        return grown

    def _names_in(self, directories: Iterable[str]) -> Iterator[str]:
        return (path for directory in directories for path in self._by_directory[directory])

    def close(self) -> None:
        """Stop the watcher."""
        self._watcher.close()


def pause_seconds(took: float, poll: float, *, names_changed: bool, has_hints: bool) -> float:
    """Seconds from the start of a full scan to the start of the next one.

    Scans take at most a third of the time, and at most 1/200 of it where hints come for every directory.
    """
    if names_changed:
        return min(max(NAMES_SECONDS, 10 * took), max(poll, 3 * took))
    if has_hints:
        return max(poll, SAFETY_SCAN_SECONDS, min(200 * took, MAX_SAFETY_SCAN_SECONDS), 3 * took)
    return max(poll, 3 * took)


def _has_files(blind: set[str], found: ScanResult) -> bool:
    """Whether a file is in one of the directories for which no hints come.

    In a directory that may not be listed (EACCES) a scan finds nothing either, except files that are named explicitly.
    """
    if not blind:
        return False
    unlisted = {directory for directory in blind if os.path.isdir(directory) and not os.access(directory, os.R_OK)}
    return bool(blind - unlisted) or any(os.path.dirname(name) in unlisted for name in found.names)
